"""Every file of the second corpus: its facts, as SOURCES.md beside the files has them, or the sentence it deserves.

A fact is a number that another program counted. It must come out of the trace: as a count, sum, first or last time of
some rows that belong together. The few that a trace does not hold are listed here, with the reason.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import corpus_root, sure_readers, without_corpus

import tracekit
from tracekit.errors import TracekitError
from tracekit.model.trace import Trace

pytestmark = pytest.mark.corpus

ROOT = corpus_root().parent / "corpus-next"
Row = dict[str, Any]
REFUSED = {
    "rocprof/roctracer_golden_hip_input.txt": "roctracer",
    "ncu/no_kernels_error.csv": "no kernel was profiled",
    "xplane/tpu_mangled_utf8.xplane.pb.gz": "changed as if it were text",
    "samples/speedscope_bad_order.json": "a frame is closed that is not the innermost open one",
    "samples/speedscope_bad_open.json": "a frame is opened and never closed",
    "samples/perf_script_pid.txt": "perf script",
    "samples/gperftools_legacy_cpu.prof": "gperftools",
    "samples/gperftools_contention.txt": "gperftools",
}
"""Files that are no profiles, or broken ones: words of the sentence."""
OWN_TESTS = ("perfetto/",)
"""Folders whose facts are counts of packets and tracks: tests/readers/test_perfetto.py has them."""
NOT_IN_A_TRACE: dict[str, set[str]] = {
    "torch_memory/cs336_bcrafton.pickle.gz": {
        "6486",
        "131",
    },  # requested and completed frees are one event; deep stacks
    "torch_memory/cs336_inference128.pickle.gz": {"3840"},
    "torch_memory/cs336_training128.pickle.gz": {"19136"},
    "rocprof/v3_decode_hip_api_trace.csv": {"549", "371"},  # calls by Domain
    "rocprof/v3_decode_counter_collection.csv": {"467793"},  # kernels of another run, which are no events
    "rocprof/v3_doc_counter_collection.csv": {"196900"},
    "rocpd/llama_r9700_v3.db.gz": {"168852416804292", "527"},  # start of the process; kernels that never ran
    "rocpd/rpd_matmul_chrome.json.gz": {"82012"},  # bytes of the file
    "xplane/tpu_inference_4x.xplane.pb.gz": {"1459", "29058"},  # counts of a viewer that leaves events out
    "samples/pyspy_0.4.1.speedscope.json.gz": {"4086", "5060"},  # frames without samples; samples with idle ones
    "samples/samply_v49.json.gz": {"8757.858042"},  # time of the last sample
    "samples/pprof_go_cpu.pb.gz": {"150"},  # the file's other measure of the same samples
}
"""Facts that a trace does not hold."""
SMALLEST = 20
"""Smaller numbers come out of any trace."""
_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(?: ?(us|ms|s)\b)?")
_UNITS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def facts() -> Iterator[tuple[str, str]]:
    """Yield each file with the text of its facts."""
    if not (ROOT / "SOURCES.md").exists():
        return
    for line in (ROOT / "SOURCES.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) >= 9 and (ROOT / cells[0]).is_file() and not cells[0].startswith(OWN_TESTS):
            yield cells[0], cells[-1]


FACTS = dict(facts())


def numbers(text: str) -> dict[str, int]:
    """Return the numbers of a text without commas, each with ns of its unit: 1 for none."""
    plain = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    return {number: _UNITS.get(unit, 1) for number, unit in _NUMBER.findall(plain) if float(number) >= SMALLEST}


def grouped(rows: Iterable[Row], keys: Iterable[tuple[str, ...]]) -> dict[object, list[Row]]:
    found: dict[object, list[Row]] = defaultdict(list)
    for row in rows:
        found["all"].append(row)
        for names in keys:
            found[(names, *(str(row[name]) for name in names))].append(row)
    return found


def of_events(trace: Trace) -> set[float]:
    """Return counts, sums, and first and last times of events that belong together."""
    rows = trace.events.to_pylist()
    for row in rows:
        given = json.loads(row["args"] or "{}")
        row["op_type"] = given.get("op_type")
        row["at"] = "flow" if row["kind"] == "flow" else "host" if row["device"] is None else "device"
        row["ps"] = (row["dur_ns"] or 0) * 1000 + int(given.get("dur_ps") or given.get("duration_ps_rest") or 0)
    keys = [
        ("kind",),
        ("name",),
        ("kind", "device"),
        ("kind", "op_type"),
        ("kind", "device", "stream"),
        ("device", "stream"),
        ("copy_kind",),
        ("at",),
        ("raw_name",),
    ]
    groups = grouped(rows, keys)
    kinds = sorted({row["kind"] for row in rows} - {"flow"})
    groups["events"] = [row for row in rows if row["kind"] != "flow"]
    for size in range(2, 7):
        for chosen in itertools.combinations(kinds, size):
            groups[chosen] = [row for kind in chosen for row in groups[("kind",), kind]]
    found: set[float] = set()
    origin = trace.run.origin_ns or 0
    for group in groups.values():
        starts = [row["ts_ns"] for row in group]
        ends = [row["ts_ns"] + (row["dur_ns"] or 0) for row in group]
        found |= {
            len(group),
            sum(row["ps"] == 0 for row in group),
            sum(row["dur_ns"] or 0 for row in group),
            sum(row["ps"] for row in group),
        }
        found |= {sum(row["bytes"] or 0 for row in group), sum(abs(row["bytes"] or 0) for row in group)}
        for first, last in [(min(starts, default=0), max(ends, default=0))]:
            found |= {first, last, origin + first, (origin + first) // 1000, (origin + last) // 1000}
    for key in ("name", "device", "stream", "tid", "pid", "correlation"):
        found.add(len({row[key] for row in rows if row[key] is not None}))
    return found


def of_totals(trace: Trace) -> set[float]:
    """Return counts and sums of totals that belong together, and each total."""
    rows = trace.totals.to_pylist()
    for row in rows:
        row["of"] = json.loads(row["args"] or "{}")
        row["metric"] = row["of"].get("metric")
    groups = grouped(rows, [("section",), ("run",), ("run", "section"), ("name",), ("metric",), ("unit",)])
    found: set[float] = set()
    for group in groups.values():
        found.add(len(group))
        for key in ("calls", "total_ns", "bytes", "value_avg", "value_min", "value_max"):
            found.add(sum(row[key] or 0 for row in group))
        members = {key for row in group[:50] for key, value in row["of"].items() if isinstance(value, int | float)}
        for key in members:
            values = [row["of"].get(key) for row in group]
            found.add(sum(value for value in values if isinstance(value, int | float)))
    for row in rows:
        found |= {row[key] for key in ("calls", "total_ns", "value_avg") if row[key] is not None}
        if row["section"] == "launches":
            found |= {float(number) for number in numbers(row["args"])}
        found.add(len(row["of"].get("frames", ())))
    found.add(len({name for row in rows for name in row["of"].get("frames", ())}))
    return found


def observable(trace: Trace) -> set[float]:
    ledger = trace.ledgers[0]
    found = of_events(trace) | of_totals(trace)
    found |= {ledger.read, ledger.kept, ledger.merged, ledger.facts, *ledger.ignored.values()}
    texts = [json.dumps(source.facts, default=str) for source in trace.run.sources]
    return found | {float(number) for text in texts for number in numbers(text)}


def is_seen(number: str, unit: int, found: set[float]) -> bool:
    """Return whether a number, or the ns that it stands for, is among those found."""
    value, digits = float(number), len(number.partition(".")[2])
    if any(abs(other - value) <= 1e-9 * max(1.0, value) for other in found):
        return True
    units = (unit,) if unit > 1 else (1_000, 1_000_000) if digits else ()
    return any(abs(other - value * unit) <= 0.51 * unit * 10**-digits for other in found for unit in units)


@pytest.mark.parametrize("name", [name for name in FACTS if name not in REFUSED] or ["nothing"])
def test_each_fact_comes_out_of_the_trace(name: str) -> None:
    if not FACTS:
        without_corpus("the folder corpus-next is not beside that of TRACEKIT_CORPUS")
    trace = tracekit.read(ROOT / name)
    trace.ledgers[0].check()
    assert len(sure_readers(ROOT / name)) == 1
    found = observable(trace)
    lost = {number for number, unit in numbers(FACTS[name]).items() if not is_seen(number, unit, found)}
    assert lost == NOT_IN_A_TRACE.get(name, set())


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_profile_gets_its_sentence(name: str) -> None:
    path = ROOT / name
    if not path.exists():
        without_corpus(f"the corpus file {name} is not here")
    with pytest.raises(TracekitError) as caught:
        tracekit.read(path)
    assert REFUSED[name] in str(caught.value)
    assert caught.value.hint


def test_every_file_is_looked_at() -> None:
    if not FACTS:
        without_corpus("the folder corpus-next is not beside that of TRACEKIT_CORPUS")
    files = {str(path.relative_to(ROOT)) for path in Path(ROOT).rglob("*") if path.is_file()} - {"SOURCES.md"}
    assert {name for name in files if not name.startswith(OWN_TESTS)} == FACTS.keys()

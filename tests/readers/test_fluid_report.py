"""fluid.profiler's printed reports: every line of every real one is printed again from what was read of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import corpus, corpus_root, sample

import tracekit
from tracekit.errors import ParseError, TracekitError
from tracekit.pipeline import inspect
from tracekit.readers import READERS
from tracekit.readers.base import Confidence
from tracekit.readers.source import open_source

FILES = (
    "paddle_fluid/fluid_report_all_default.txt",
    "paddle_fluid/fluid_report_cpu_total.txt",
    "generated/paddle18_fluid/cpu_calls_opdetail.txt",
    "generated/paddle18_fluid/cpu_max_allopdetail.txt",
    "generated/paddle18_fluid/cpu_total_default.txt",
)


def totals(path: Path) -> list[dict[str, Any]]:
    rows = tracekit.read(path).totals.to_pylist()
    for row in rows:
        row["args"] = json.loads(row["args"] or "{}")
    return rows


@pytest.mark.corpus
@pytest.mark.parametrize("name", FILES)
def test_every_event_line_is_printed_again_from_what_was_read(name: str) -> None:
    """Six digits, as C++ prints a double: total, min, max and ave of each line, its ratio and, in All, both times."""
    want: Counter[tuple[str, ...]] = Counter()
    for line in corpus(name).read_text(encoding="utf-8").splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if len(cells) in (7, 9) and re.fullmatch(r"\d+", cells[1]):
            want[tuple(cells)] += 1
    got: Counter[tuple[str, ...]] = Counter()
    for row in totals(corpus(name)):
        if not row["section"].startswith("Event Summary"):
            continue
        args = row["args"]
        times = [f"{row[key] / 1e6:.6g}" for key in ("total_ns", "min_ns", "max_ns")]
        both = [
            f"{args[f'{side}_time']} ({args[f'{side}_ratio']})" for side in ("cpu", "gpu") if f"{side}_time" in args
        ]
        name_printed = row["raw_name"] or row["name"]
        mean = f"{row['avg_ns'] / 1e6:.6g}"
        got[(name_printed, str(row["calls"]), times[0], *both, *times[1:], mean, args["ratio"])] += 1
    assert got == want
    assert got.total() > 10


@pytest.mark.corpus
def test_overhead_and_facts_of_each_report_are_header_rows() -> None:
    rows = [row for row in totals(corpus(FILES[0])) if row["section"] == "header"]
    first = {row["name"]: row for row in rows if row["run"] == 0}
    assert first["Threads"]["value_text"] == "merged"
    assert first["Place"]["value_text"] == "All"
    assert first["Total time"]["total_ns"] == 56_614_500
    overhead = first["Framework overhead"]
    assert (overhead["total_ns"], overhead["args"]["percent"]) == (48_316_000, "85.342")
    assert {row["run"] for row in rows} == {0, 1}


@pytest.mark.corpus
def test_parts_of_parts_know_their_parent_and_thread() -> None:
    rows = {row["name"]: row for row in totals(corpus(FILES[3])) if row["section"] == "Event Summary, parts"}
    assert rows["mul0/compute"]["args"] == {"thread": 0, "level": 2, "parent": "mul0", "ratio": "0.0385365"}
    assert rows["mul0"]["args"]["parent"] == "mul"


@pytest.mark.corpus
def test_only_this_reader_says_yes_to_its_files_in_all_of_the_corpus(tmp_path: Path) -> None:
    corpus("generated")
    claimed = set()
    for path in sorted(p for p in corpus_root().rglob("*") if p.is_file()):
        unknown = tmp_path / "unknown"
        unknown.write_bytes(path.read_bytes())
        with open_source(str(unknown)) as source:
            head = source.head()
        votes = [name for name, reader in READERS.items() if reader.sniff(head) is Confidence.YES]
        if "fluid-report" in votes:
            assert votes == ["fluid-report"], path
            claimed.add(path.relative_to(corpus_root()).as_posix())
    assert claimed == set(FILES)


def test_copies_and_allocations_of_a_run_on_a_gpu_are_read() -> None:
    rows = {(row["run"], row["section"], row["name"]): row for row in totals(sample("fluid-report/all.txt"))}
    assert rows[0, "GpuMemCpy Summary", "GpuMemcpy"]["calls"] == 10
    assert rows[0, "GpuMemCpy Summary, parts", "GpuMemcpyAsync"]["total_ns"] == 600_000
    memory = rows[1, "Memory Profiling Report", "Place(gpu:0):conv2d"]
    assert (memory["calls"], memory["bytes"], memory["args"]["free_calls"]) == (6, 12_500 * 1024 * 1024 // 1000, 4)
    assert rows[1, "Memory Profiling Report", "Place(cpu):Unknown"]["bytes"] == 1 << 14
    assert rows[1, "Event Summary", "conv2d"]["raw_name"] == "thread0::conv2d"
    assert rows[1, "Event Summary, parts", "conv2d/compute"]["args"]["parent"] == "conv2d"


def test_the_earliest_table_without_ratios_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(
        "------------------------->     Profiling Report     <-------------------------\n\nPlace: CUDA\n"
        "Sorted by total time in descending order in the same thread\n\n"
        "Event               Calls       Total       Min.        Max.        Ave.        \n"
        "thread0::elementwise add 12     1e-05       0.5         2           0.75        \n\n"
    )
    (row,) = [row for row in totals(path) if row["section"] == "Event Summary"]
    assert (row["name"], row["calls"], row["total_ns"], row["max_ns"]) == ("elementwise add", 12, 10, 2_000_000)


def test_a_report_that_is_cut_costs_its_last_line(tmp_path: Path) -> None:
    text = sample("fluid-report/paddle18-alloc.txt").read_text(encoding="utf-8")
    cut = text.index("mul1/compute") + 40
    path = tmp_path / "x"
    path.write_text(text[:cut])
    assert tracekit.read(path).ledgers[0].dropped == {"torn-row": 1}


def test_a_line_of_the_program_within_the_table_is_dropped_and_others_are_ignored(tmp_path: Path) -> None:
    text = sample("fluid-report/all.txt").read_text(encoding="utf-8")
    path = tmp_path / "x"
    path.write_text("pass 1\n" + text.replace("fetch ", "a warning\nfetch ", 1) + "done\n")
    trace = tracekit.read(path)
    assert trace.ledgers[0].dropped == {"bad-row": 1}
    assert trace.totals.num_rows == tracekit.read(sample("fluid-report/all.txt")).totals.num_rows


def test_text_without_a_report_is_refused_when_forced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("nothing here\n")
    with pytest.raises(ParseError):
        tracekit.read(path, format="fluid-report")


@given(data=st.data())
def test_no_damage_brings_anything_but_our_own_errors(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = sample("fluid-report/all.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(lines) - 1))
        other = data.draw(st.integers(0, len(lines) - 1))
        action = data.draw(st.sampled_from(["swap", "cut", "text", "number"]))
        if action == "swap":
            lines[at], lines[other] = lines[other], lines[at]
        elif action == "cut":
            lines[at] = lines[at][: data.draw(st.integers(0, 200))]
        elif action == "text":
            lines[at] = data.draw(st.text(max_size=60)) + lines[at]
        else:
            odd = data.draw(st.sampled_from(["9" * 40, "-1", "inf", "nan", "1e99", ""]))
            lines[at] = re.sub(r"\d+", odd, lines[at])
    path = tmp_path_factory.mktemp("fuzz") / "x"
    path.write_text("".join(lines), encoding="utf-8", errors="replace")
    try:
        inspect(path, format="fluid-report")
    except TracekitError:
        return

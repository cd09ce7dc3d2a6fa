"""Device work that lasts over later work of its own stream cannot be: it is named, and no figure rests on it."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support import run_command, sample

import tracekit
from tracekit.conversion import read
from tracekit.doctor import diagnose, repair
from tracekit.errors import TracekitError
from tracekit.inputs import InputOptions

Event = dict[str, Any]


def kernel(number: int, ts: float, dur: float, name: str = "gemm", **args: object) -> list[Event]:
    """A kernel of stream 7 with its launch."""
    own = {"device": 0, "stream": 7, "correlation": number + 1} | args
    return [
        {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": own["stream"], "ts": ts, "dur": dur, "args": own},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": ts - 90, "dur": 0.5}
        | {"args": {"correlation": own["correlation"]}},
    ]


def stream(count: int = 50, **args: object) -> list[Event]:
    return [event for n in range(count) for event in kernel(n, 1000 + 10 * n, 8, **args)]


IMPOSSIBLE = kernel(900, 1109, 3_400_000, "copy_kernel")


def trace(folder: Path, *events: list[Event], name: str = "t.json") -> Path:
    path = folder / name
    flat = [event for each in events for event in each]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": flat}))
    return path


def notes(path: Path, **options: Any) -> list[str]:
    """The notes about such work."""
    made = read(str(path), InputOptions(**options))
    return [str(ledger.notes["covered-work"]) for ledger in made.ledgers if "covered-work" in ledger.notes]


def test_no_figure_of_any_view_has_an_impossible_duration(tmp_path: Path) -> None:
    path = trace(tmp_path, stream(), IMPOSSIBLE)
    for shown in (["--view", "all"], ["--view", "findings"], ["--view", "idle"], ["--view", "kernel"], []):
        out = run_command("summary", path, *shown, "--format", "json").stdout
        assert not re.search(r"\b34\d{8}\b", out), shown
        assert "copy_kernel, 3.4 s from" in out
    first = run_command("summary", path).stdout
    said = "copy_kernel, 3.4 s from 1,109,000 ns on, lasts over 39 whole later kernels and"
    assert first.splitlines().index(said) == 2  # below the sentence, whose figures are without it
    assert "copy_kernel" not in first[first.index("Top kernels") :]
    assert "1 kernel has no duration and is not counted" in run_command("summary", path, "--view", "kernel").stdout


def test_the_page_and_the_figures_of_a_batch_are_without_it(tmp_path: Path) -> None:
    path = trace(tmp_path, stream(), IMPOSSIBLE)
    run_command("report", path, "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "lasts over 39 whole later kernels" in page
    made = tracekit.read(path)
    assert made.span() == (910_000, 1_498_000)


def test_the_doctor_names_the_event_and_takes_its_duration_away(tmp_path: Path) -> None:
    path = trace(tmp_path, stream(), IMPOSSIBLE)
    (found,) = diagnose(str(path)).findings
    assert (found.defect.code, found.count, found.time_ns) == ("covered-work", 1, 3_400_000_000)
    assert str(found.examples[0].where) == "event 101"
    assert found.text.startswith("copy_kernel, 3.4 s from 1,109,000 ns on, lasts over 39")
    done = repair(str(path), tmp_path / "fixed.json")
    assert done.after is not None
    assert done.after.findings == []
    assert '"measured_dur_ns":3400000000' in (tmp_path / "fixed.json").read_text().replace(" ", "")


def test_the_record_and_its_measured_duration_are_kept(tmp_path: Path) -> None:
    path = trace(tmp_path, stream(), IMPOSSIBLE)
    rows = tracekit.read(path).events.to_pylist()
    (row,) = [row for row in rows if row["name"] == "copy_kernel"]
    assert (row["dur_ns"], json.loads(row["args"])["measured_dur_ns"]) == (None, 3_400_000_000)
    assert sum(row["dur_ns"] is None for row in rows) == 1
    run_command("convert", path, "-o", tmp_path / "t.parquet")
    assert notes(tmp_path / "t.parquet") == notes(path)
    (made,) = json.loads(run_command("summary", path, "--format", "json").stdout)["ledger"]
    assert (made["read"], made["kept"], made["dropped"]) == (102, 102, {})


def test_the_inventory_has_it_in_no_sum_and_not_in_the_last_time(tmp_path: Path) -> None:
    path = trace(tmp_path, stream(), IMPOSSIBLE)
    (entry,) = json.loads(run_command("inspect", path, "--format", "json").stdout)["inputs"]
    assert entry["by_kind"]["kernel"] == {"events": 51, "dur_ns": 400_000}
    assert (entry["first_ns"], entry["last_ns"]) == (910_000, 1_498_000)
    assert [note["code"] for note in entry["ledger"]["notes"]] == ["covered-work"]
    assert "lasts over 39 whole later kernels" in run_command("inspect", path).stdout


@pytest.mark.parametrize("category", ["gpu_memcpy", "gpu_memset"])
def test_copies_lie_over_later_work_no_more_than_kernels(category: str, tmp_path: Path) -> None:
    odd = [event | ({"cat": category} if event["cat"] == "kernel" else {}) for event in IMPOSSIBLE]
    (note,) = notes(trace(tmp_path, stream(), odd))
    assert "over 39 whole later kernels and copies of its stream 7" in note


def test_several_are_named_the_longest_first(tmp_path: Path) -> None:
    (note,) = notes(trace(tmp_path, stream(100), kernel(901, 1509, 700, "b"), IMPOSSIBLE))
    assert note.startswith("copy_kernel, 3.4 s")
    assert note.endswith(", 2 times (first at event 203, event 201)")


def test_a_filter_neither_hides_nor_makes_one(tmp_path: Path) -> None:
    path = trace(tmp_path, stream(), IMPOSSIBLE)
    assert "lasts over 39" in run_command("summary", path, "--name", "copy_kernel").stdout
    assert "3.400 s" not in run_command("summary", path, "--name", "copy_kernel").stdout
    assert "lasts over" not in run_command("summary", path, "--name", "gemm").stdout


def test_strict_makes_it_an_error(tmp_path: Path) -> None:
    path = trace(tmp_path, stream(), IMPOSSIBLE)
    with pytest.raises(TracekitError, match="lasts over 39 whole later kernels"):
        notes(path, strict=True)


def test_the_input_that_has_it_is_named_among_several(tmp_path: Path) -> None:
    good, bad = trace(tmp_path, stream(), name="a.json"), trace(tmp_path, stream(), IMPOSSIBLE, name="b.json")
    made = read([str(good), str(bad)], InputOptions(same_process=False))
    assert ["covered-work" in ledger.notes for ledger in made.ledgers] == [False, True]


def test_columns_that_nobody_asked_for_do_not_stay(tmp_path: Path) -> None:
    path = trace(tmp_path, stream(), IMPOSSIBLE)
    made = read(str(path), InputOptions(columns=frozenset({"kind"})))
    assert made.events.schema.names == ["ts_ns", "dur_ns", "kind"]
    assert len(notes(path, columns=frozenset({"kind"}))) == 1


FINE = {
    "on another stream": (stream(), kernel(900, 1109, 3_400_000, "long", stream=8)),
    "without a stream": (stream(), [event | {"cat": "cpu_op"} for event in IMPOSSIBLE]),
    "dependent launches": ([e for n in range(50) for e in kernel(n, 1000 + 8 * n, 9)],),
    "one inside": (stream(), kernel(900, 1109, 10)),
    "the last of its stream": (stream(), kernel(900, 1500, 3_400_000, "long")),
    "nodes of one graph": (stream(correlation=77), kernel(900, 1109, 3_400_000, "long", correlation=77)),
    "zero durations inside": (kernel(0, 1000, 900, "long"), [e for n in range(1, 9) for e in kernel(n, 1000 + n, 0)]),
    "equal times": ([e for n in range(9) for e in kernel(n, 1000, 8)],),
    "unified memory": (
        kernel(0, 1000, 900, "long"),
        [e for n in range(1, 9) for e in kernel(n, 1000 + 9 * n, 3, "[Unified Memory Memcpy HtoD]")],
    ),
    "a whole graph over its kernels": (kernel(900, 1009, 300, "[CUDA graph 5]"), stream()),
}


@pytest.mark.parametrize("case", FINE)
def test_what_can_be_is_not_named(case: str, tmp_path: Path) -> None:
    path = trace(tmp_path, *FINE[case])
    assert notes(path) == []
    assert "covered-work" not in {each.defect.code for each in diagnose(str(path)).findings}


def test_queues_that_several_streams_may_share_are_not_judged(tmp_path: Path) -> None:
    """rocprof's first version states the queue of HSA alone."""
    head = "Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,vgpr,sgpr,fbar,sig,obj"
    rows = [(0, "long.kd", 1000, 9_000_000), *((n, "short.kd", 1000 + 100 * n, 1050 + 100 * n) for n in range(1, 40))]
    lines = [f'{n},"{name}",0,0,{n},5,5,64,64,0,0,8,8,0,0x0,0x0,{a},{a},{b},{b}' for n, name, a, b in rows]
    path = tmp_path / "results.csv"
    path.write_text("\n".join([f"{head},DispatchNs,BeginNs,EndNs,CompleteNs", *lines]) + "\n")
    assert tracekit.read(path).events.num_rows >= 40
    assert notes(path) == []
    run_command("convert", path, "-o", tmp_path / "c.json")
    assert notes(tmp_path / "c.json") == []
    assert "covered-work" not in {each.defect.code for each in diagnose(str(path)).findings}


@pytest.mark.parametrize("suffix", ["json", "pftrace", "parquet", "jsonl"])
def test_it_is_found_in_what_was_converted_too(suffix: str, tmp_path: Path) -> None:
    path = trace(tmp_path, stream(), IMPOSSIBLE)
    run_command("convert", path, "-o", tmp_path / f"c.{suffix}")
    (note,) = notes(tmp_path / f"c.{suffix}")
    assert note.startswith("copy_kernel, 3.4 s from ")


def test_a_wrong_end_in_a_database_of_nsight_systems_is_found(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(Path(sample("nsys-sqlite/schema-of-2021.sqlite")).read_bytes())
    before = tracekit.read(path)
    assert notes(path) == []
    with closing(sqlite3.connect(path)) as db:
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        first = f"(SELECT rowid FROM {table} ORDER BY start LIMIT 1)"
        db.execute(f"UPDATE {table} SET end = start + 77000000000000 WHERE rowid = {first}")
        db.commit()
    (note,) = notes(path)
    assert ", 77,000 s from " in note
    after, span = tracekit.read(path).span(), before.span()
    assert after is not None
    assert span is not None
    assert after[1] <= span[1]


def test_a_wrong_duration_in_a_printed_table_is_found(tmp_path: Path) -> None:
    lines = Path(sample("nvprof-csv/gpu-trace-scientific.csv")).read_text().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if "sgemm" in line)
    cells = lines[at].split(",")
    cells[1] = "9000000"
    path = tmp_path / "trace.csv"
    path.write_text("".join([*lines[:at], ",".join(cells), *lines[at + 1 :]]))
    (note,) = notes(path)
    assert f"first at event {at + 1}" in note

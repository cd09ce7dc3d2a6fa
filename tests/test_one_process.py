"""A recorder's log and another trace of the same process, given together, are one process; of others they are not."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from logged import (
    EPOCH,
    MS,
    OTHER_TID,
    PID,
    TID,
    US,
    Range,
    program,
    shifted,
    write_kineto,
    write_log,
    write_nsys,
)
from support import ROOT, corpus, sample

import tracekit
from tracekit import Trace
from tracekit.conversion import convert, read
from tracekit.inputs import InputOptions
from tracekit.pipeline import view


def processes(trace: Trace) -> set[tuple[int, int]]:
    frame = trace.to_pandas()
    return set(zip(frame["source"], frame["pid"], strict=True))


def notes(trace: Trace) -> dict[str, str]:
    return {code: str(note) for ledger in trace.ledgers for code, note in ledger.notes.items()}


def test_a_log_and_a_trace_of_one_process_are_one_process_with_its_threads_once(tmp_path: Path) -> None:
    ranges = program()
    inputs = [write_log(tmp_path / "log.jsonl", ranges), write_kineto(tmp_path / "k.json", ranges)]
    trace = read(inputs)
    assert processes(trace) == {(1, PID)}
    frame = trace.to_pandas()
    assert set(frame["tid"].dropna()) == {TID, OTHER_TID}
    assert trace.run.threads[1, PID, TID] == "MainThread"
    assert trace.run.processes[1, PID] == "train.py"


def test_ranges_of_both_files_are_one_event_with_both_sources(tmp_path: Path) -> None:
    ranges = program()
    inputs = [write_log(tmp_path / "log.jsonl", ranges), write_kineto(tmp_path / "k.json", ranges)]
    trace = read(inputs)
    frame = trace.to_pandas()
    assert sorted(frame["name"].value_counts().items()) == [("aten::mm", 60), ("block", 20), ("load", 20), ("loop", 20)]
    ledger = trace.ledgers[0]
    assert (ledger.kept, ledger.merged, ledger.events_out) == (0, 120, 0)
    assert notes(trace)["range-in-both"].endswith("60 times")
    also = json.loads(frame[frame["name"] == "block"]["args"].iloc[0])["also_in"]
    assert also["input"] == "log.jsonl"
    records = {json.loads(text)["also_in"]["record"] for text in frame[frame["name"] != "aten::mm"]["args"]}
    alone = read(inputs[0]).to_pandas()
    assert records == set(alone["event_id"])


def test_a_range_of_both_has_the_kind_that_the_log_states(tmp_path: Path) -> None:
    ranges = program()
    inputs = [write_log(tmp_path / "log.jsonl", ranges), write_kineto(tmp_path / "k.json", ranges)]
    frame = read(inputs).to_pandas()
    assert set(frame[frame["name"] == "load"]["kind"]) == {"dataloader"}
    assert set(frame[frame["name"] == "block"]["kind"]) == {"user_range"}


def test_rows_of_the_log_alone_name_their_file_and_keep_their_record(tmp_path: Path) -> None:
    ranges = program()
    only = [Range("mine", r.start + 10 * US, r.start + 40 * US) for r in ranges if r.name == "block"]
    both = sorted([*ranges, *only], key=lambda r: (r.start, -r.end))
    inputs = [write_log(tmp_path / "log.jsonl", both), write_kineto(tmp_path / "k.json", ranges)]
    frame = read(inputs).to_pandas()
    mine = frame[frame["name"] == "mine"]
    assert len(mine) == 20
    assert {json.loads(text)["from_input"] for text in mine["args"]} == {"log.jsonl"}
    alone = read(inputs[0]).to_pandas()
    assert set(mine["event_id"]) == set(alone[alone["name"] == "mine"]["event_id"])


def test_the_order_of_the_inputs_does_not_matter(tmp_path: Path) -> None:
    ranges = program()
    inputs = [write_log(tmp_path / "log.jsonl", ranges), write_kineto(tmp_path / "k.json", ranges)]
    frames = [read(order).to_pandas() for order in (inputs, inputs[::-1])]
    columns = ["ts_ns", "dur_ns", "name", "kind", "pid", "tid", "args"]
    assert frames[0][columns].equals(frames[1][columns])


@pytest.mark.parametrize(
    ("of_log", "of_trace", "reason"),
    [
        ({"host": "node1"}, {"host": "node2"}, ""),
        ({"rank": 0}, {"rank": 1}, "of rank 0 and of rank 1"),
        ({"epoch": EPOCH + 3_600_000_000_000}, {}, "a process id can be used again"),
        ({"host": "node1.a.org"}, {"host": "node1.b.org"}, ""),
    ],
    ids=["other host", "other rank", "used again", "other domain"],
)
def test_another_process_with_the_same_id_stays_apart(
    tmp_path: Path, of_log: dict[str, object], of_trace: dict[str, object], reason: str
) -> None:
    """Even where both have the same ranges."""
    ranges = program()
    inputs = [
        write_log(tmp_path / "log.jsonl", ranges, **of_log),  # type: ignore[arg-type]
        write_kineto(tmp_path / "k.json", ranges, **of_trace),  # type: ignore[arg-type]
    ]
    trace = read(inputs)
    assert processes(trace) == {(0, PID), (1, PID)}
    assert (trace.ledgers[0].merged, len(trace.to_pandas())) == (60, 180)
    if reason:
        assert reason in notes(trace)["not-one-process"]
    else:
        assert "not-one-process" not in notes(trace)


@pytest.mark.parametrize("hosts", [("trainer", "trainer"), (None, "trainer"), ("trainer", None), (None, None)])
def test_first_processes_of_two_containers_stay_apart(tmp_path: Path, hosts: tuple[str | None, str | None]) -> None:
    """Process 1 of a container has the same id, often the same host name, and runs the same loop at the same time."""
    other = [
        replace(r, start=r.start + jitter, end=r.end + jitter)
        for r, jitter in zip(program(), random.Random(5).choices(range(-400 * US, 400 * US), k=60), strict=True)
    ]
    inputs = [
        write_log(tmp_path / "log.jsonl", program(), pid=1, host=hosts[0]),
        write_kineto(tmp_path / "k.json", other, pid=1, host=hosts[1]),
    ]
    trace = read(inputs)
    assert processes(trace) == {(0, 1), (1, 1)}
    assert "not-one-process" in notes(trace)


def test_a_process_1_without_common_ranges_is_not_known_to_be_the_same(tmp_path: Path) -> None:
    ops = [Range("torch only", r.start, r.end) for r in program() if r.name == "block"]
    inputs = [write_log(tmp_path / "log.jsonl", program(), pid=1), write_kineto(tmp_path / "k.json", ops, pid=1)]
    trace = read(inputs)
    assert processes(trace) == {(0, 1), (1, 1)}
    assert "may be of two containers" in notes(trace)["not-one-process"]


def test_a_trace_without_host_joins_where_ranges_prove_it(tmp_path: Path) -> None:
    inputs = [
        write_log(tmp_path / "log.jsonl", program(), pid=1),
        write_kineto(tmp_path / "k.json", program(), pid=1, host=None),
    ]
    assert processes(read(inputs)) == {(1, 1)}


def test_a_trace_without_host_and_without_common_ranges_is_not_known_to_be_the_same(tmp_path: Path) -> None:
    ops = [Range("torch only", r.start, r.end) for r in program() if r.name == "block"]
    inputs = [write_log(tmp_path / "log.jsonl", program()), write_kineto(tmp_path / "k.json", ops, host=None)]
    trace = read(inputs)
    assert processes(trace) == {(0, PID), (1, PID)}
    assert "the trace states no host" in notes(trace)["not-one-process"]


def test_one_host_is_enough_without_common_ranges(tmp_path: Path) -> None:
    ops = [Range("torch only", r.start, r.end) for r in program() if r.name == "block"]
    inputs = [write_log(tmp_path / "log.jsonl", program()), write_kineto(tmp_path / "k.json", ops, host="node1.a.org")]
    trace = read(inputs)
    assert processes(trace) == {(1, PID)}
    assert "nothing in the files shows how well" in notes(trace)["one-process"]


def test_a_wrong_wall_clock_is_corrected_by_common_ranges(tmp_path: Path) -> None:
    """A session's start time can be milliseconds off: the ranges that both have say by how much."""
    only = [Range("mine", r.start + 1, r.end - 1) for r in program() if r.name == "block"]
    both = sorted([*program(), *only], key=lambda r: (r.start, -r.end))
    inputs = [
        write_log(tmp_path / "log.jsonl", both),
        write_kineto(tmp_path / "k.json", program(), epoch=EPOCH + 37 * MS),
    ]
    trace = read(inputs)
    assert processes(trace) == {(1, PID)}
    facts = trace.run.sources[0].facts["joined_into"]
    assert abs(facts["clock_offset_ns"] - 37 * MS) <= facts["clock_uncertainty_ns"] <= 5 * US
    frame = trace.to_pandas()
    mine, block = (frame[frame["name"] == name]["ts_ns"].to_numpy() for name in ("mine", "block"))
    assert (mine >= block).all()
    assert len(frame) == 140


def test_a_trace_without_a_wall_clock_takes_the_one_of_the_log(tmp_path: Path) -> None:
    inputs = [
        write_log(tmp_path / "log.jsonl", program()),
        write_kineto(tmp_path / "k.json", shifted(program(), 77 * MS), epoch=None),
    ]
    trace = read(inputs)
    assert processes(trace) == {(1, PID)}
    assert trace.run.origin_ns is not None
    first = int(trace.to_pandas()["ts_ns"].min()) + trace.run.origin_ns
    assert abs(first - (EPOCH + 10 * MS - 3 * US)) <= 5 * US


def test_clocks_without_common_ground_are_not_joined(tmp_path: Path) -> None:
    ops = [Range("torch only", r.start, r.end) for r in program() if r.name == "block"]
    inputs = [write_log(tmp_path / "log.jsonl", program()), write_kineto(tmp_path / "k.json", ops, epoch=None)]
    trace = read(inputs)
    assert processes(trace) == {(0, PID), (1, PID)}
    assert "clocks share no ground" in notes(trace)["not-one-process"]


def test_an_even_loop_does_not_align_clocks(tmp_path: Path) -> None:
    """It meets itself at every multiple of its period."""
    even = [Range("step", n * 10 * MS, n * 10 * MS + 4 * MS) for n in range(1, 40)]
    part = shifted(even[10:30], 12_345 * US)
    inputs = [write_log(tmp_path / "log.jsonl", even), write_kineto(tmp_path / "k.json", part, epoch=None)]
    assert processes(read(inputs)) == {(0, PID), (1, PID)}


def test_a_thread_that_lost_its_processor_between_two_marks_has_one_event(tmp_path: Path) -> None:
    """One of the marks at its end comes 8 ms after the other."""
    late = [replace(r, end=r.end + 8 * MS) if n == 30 else r for n, r in enumerate(program())]
    inputs = [write_log(tmp_path / "log.jsonl", program()), write_kineto(tmp_path / "k.json", late)]
    trace = read(inputs)
    assert processes(trace) == {(1, PID)}
    assert trace.ledgers[0].kept == 0


def test_a_thread_that_lost_its_processor_for_longer_than_a_turn_has_one_event(tmp_path: Path) -> None:
    """The log's mark comes so late that the next turn of the profile begins nearer to it."""
    turns = [Range("turn", n * 3 * MS, n * 3 * MS + 2 * MS + n * 7 * US) for n in range(1, 30)]
    late = [replace(r, start=r.end - 40 * US) if n == 20 else r for n, r in enumerate(turns)]
    inputs = [write_log(tmp_path / "log.jsonl", late), write_kineto(tmp_path / "k.json", turns)]
    trace = read(inputs)
    assert processes(trace) == {(1, PID)}
    assert (trace.ledgers[0].kept, int((trace.to_pandas()["name"] == "turn").sum())) == (0, 29)


def test_ranges_of_one_name_at_other_places_are_not_one_event(tmp_path: Path) -> None:
    """A "block" around the "block" of the log, by milliseconds: one process, but two ranges."""
    outer = [replace(r, start=r.start - 900 * US, end=r.end + 500 * US) for r in program() if r.name == "block"]
    inputs = [write_log(tmp_path / "log.jsonl", program()), write_kineto(tmp_path / "k.json", outer)]
    trace = read(inputs)
    assert processes(trace) == {(1, PID)}
    assert int((trace.to_pandas()["name"] == "block").sum()) == 40
    assert "range-in-both" not in notes(trace)


def test_the_rank_of_one_file_is_the_rank_of_the_process(tmp_path: Path) -> None:
    for of_log, of_trace in ((3, None), (None, 3), (3, 3)):
        inputs = [
            write_log(tmp_path / "log.jsonl", program(), rank=of_log),
            write_kineto(tmp_path / "k.json", program(), rank=of_trace),
        ]
        frame = read(inputs).to_pandas()
        assert set(frame["rank"]) == {3}


def test_steps_of_the_log_are_the_steps_of_the_traces_rows(tmp_path: Path) -> None:
    inputs = [
        write_log(tmp_path / "log.jsonl", program(), steps=True),
        write_kineto(tmp_path / "k.json", program()),
    ]
    frame = read(inputs).to_pandas()
    loops = [r for r in program() if r.name == "loop"]
    ops = frame[frame["name"] == "aten::mm"].sort_values("ts_ns")
    origin = EPOCH
    run_origin = read(inputs).run.origin_ns or 0
    for ts, step in zip(ops["ts_ns"], ops["step"], strict=True):
        at = ts + run_origin - origin
        assert loops[step].start <= at < loops[step].end


def test_a_profilers_own_steps_are_ranges_where_the_log_has_steps(tmp_path: Path) -> None:
    loops = [r for r in program() if r.name == "loop"]
    extra = [
        {
            "ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n + 70}", "pid": PID, "tid": TID,
            "ts": r.start / 1000, "dur": (r.end - r.start) / 1000, "args": {},
        }
        for n, r in enumerate(loops)
    ]  # fmt: skip
    log_path = write_log(tmp_path / "log.jsonl", program(), steps=True)
    trace = read([log_path, write_kineto(tmp_path / "k.json", program(), extra=extra)])
    frame = trace.to_pandas()
    assert set(frame["step"].dropna()) == set(range(20))
    assert int((frame["kind"] == "step").sum()) == 20
    without = write_log(tmp_path / "plain.jsonl", program())
    frame = read([without, tmp_path / "k.json"]).to_pandas()
    assert set(frame["step"].dropna()) == set(range(70, 90))


@pytest.mark.parametrize("to", ["json", "parquet", "jsonl"])
def test_every_output_has_one_process(tmp_path: Path, to: str) -> None:
    only = [Range("mine", r.start + 10 * US, r.start + 40 * US) for r in program() if r.name == "block"]
    both = sorted([*program(), *only], key=lambda r: (r.start, -r.end))
    inputs = [
        write_log(tmp_path / "log.jsonl", both, steps=True),
        write_kineto(tmp_path / "k.json", program()),
    ]
    direct = read(inputs)
    target = tmp_path / f"out.{to}"
    done = convert(inputs, target)
    assert done.written.events == direct.events.num_rows
    again = read(target)
    assert again.events.num_rows == direct.events.num_rows
    assert len(processes(again)) == 1
    columns = ["dur_ns", "name", "kind", "tid", "step"]
    left, right = (
        t.to_pandas().sort_values(["ts_ns", "name"])[columns].reset_index(drop=True) for t in (direct, again)
    )
    assert left.astype(str).equals(right.astype(str))


def test_perfettos_tree_has_one_process_group(tmp_path: Path) -> None:
    inputs = [write_log(tmp_path / "log.jsonl", program()), write_kineto(tmp_path / "k.json", program())]
    convert(inputs, tmp_path / "out.json")
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    assert list(names.values()) == ["k.json + log.jsonl · train.py (process 4242)"]
    threads = [e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"]
    assert sorted(set(threads)) == ["MainThread (thread 4242)", "loader (thread 4250)"]


def test_a_third_input_without_a_wall_clock_does_not_part_them(tmp_path: Path) -> None:
    only = [Range("mine", r.start + 10 * US, r.start + 40 * US) for r in program() if r.name == "block"]
    both = sorted([*program(), *only], key=lambda r: (r.start, -r.end))
    inputs = [
        write_log(tmp_path / "log.jsonl", both),
        write_kineto(tmp_path / "k.json", program()),
        write_kineto(tmp_path / "other.json", program(9), pid=99, epoch=None),
    ]
    frame = read(inputs).to_pandas()
    mine, block = (frame[(frame["name"] == name) & (frame["pid"] == PID)] for name in ("mine", "block"))
    apart = mine["ts_ns"].to_numpy() - block["ts_ns"].to_numpy()
    assert set(apart) == {13 * US}


def test_a_filter_sees_the_joined_event(tmp_path: Path) -> None:
    inputs = [write_log(tmp_path / "log.jsonl", program()), write_kineto(tmp_path / "k.json", program())]
    options = InputOptions(selection=tracekit.Selection(kinds=frozenset({"dataloader"})))
    frame = read(inputs, options).to_pandas()
    assert len(frame) == 20
    assert {json.loads(text)["also_in"]["input"] for text in frame["args"]} == {"log.jsonl"}


def test_a_log_among_many_ranks_joins_its_own(tmp_path: Path) -> None:
    inputs = []
    for rank in range(3):
        ranges = program(rank + 1)
        inputs.append(write_kineto(tmp_path / f"rank{rank}.json", ranges, rank=rank, host=f"node{rank}"))
        inputs.append(write_log(tmp_path / f"rank{rank}.jsonl", ranges, rank=rank, host=f"node{rank}"))
    trace = read(inputs)
    assert processes(trace) == {(0, PID), (2, PID), (4, PID)}
    frame = trace.to_pandas()
    assert dict(frame.groupby("source")["rank"].first()) == {0: 0, 2: 1, 4: 2}


def test_a_log_that_matches_two_traces_joins_one_and_says_so(tmp_path: Path) -> None:
    inputs = [
        write_log(tmp_path / "log.jsonl", program()),
        write_kineto(tmp_path / "a.json", []),
        write_kineto(tmp_path / "b.json", program()),
        write_kineto(tmp_path / "c.json", [Range("other", r.start, r.end) for r in program()]),
    ]
    trace = read(inputs)
    assert processes(trace) == {(2, PID), (3, PID)}
    assert "the log is joined with b.json" in notes(trace)["not-one-process"]


def test_a_log_whose_clock_drifted_meets_its_trace(tmp_path: Path) -> None:
    """Ten minutes into a log, a wall clock that is 5 ms slower by then."""
    late = 600_000 * MS
    ranges = [Range("start", 1, 2), *shifted(program(), late)]
    path = write_log(tmp_path / "log.jsonl", ranges, drift_ns=5 * MS)
    trace = read([path, write_kineto(tmp_path / "k.json", shifted(program(), late + 5 * MS))])
    assert processes(trace) == {(1, PID)}
    assert trace.ledgers[0].merged == 61 + 60


def test_kernels_of_nsys_belong_to_the_ranges_and_steps_of_the_log(tmp_path: Path) -> None:
    ranges = program()
    inner = [Range("mine", r.start + 20 * US, r.end - 20 * US, kind="forward") for r in ranges if r.name == "block"]
    both = sorted([*ranges, *inner], key=lambda r: (r.start, -r.end))
    inputs = [
        write_log(tmp_path / "log.jsonl", both, steps=True),
        write_nsys(tmp_path / "run.sqlite", ranges, start_ns=EPOCH - 5 * MS),
    ]
    trace = read(inputs)
    assert processes(trace) == {(1, PID)}
    assert trace.run.sources[0].facts["joined_into"]["clock_offset_ns"] in range(-5 * MS - 500, -5 * MS + 500)
    kernels = trace.to_pandas().query("kind == 'kernel'")
    assert list(kernels["step"]) == list(range(20))
    columns = {column.name: column.values for column in view(trace, "model").tables[0].columns}
    forward = dict(zip(columns["name"], columns["device_total"], strict=True))["Forward"]
    assert forward == int(kernels["dur_ns"].sum())


def test_the_log_of_a_real_programs_ranges_meets_its_nsys_export(tmp_path: Path) -> None:
    """Two containers' processes in one export, ids 111 and 112, and a log of the first on a clock 2.5 ms off."""
    export = corpus("nsys_sqlite/h100_2gpu_1s_2026.2.sqlite")
    alone = read(export)
    frame = alone.to_pandas()
    mine = frame[(frame["pid"] == 111) & (frame["kind"] == "operator") & (frame["dur_ns"] > 2 * US)]
    origin, base = alone.run.origin_ns or 0, int(mine["ts_ns"].min()) - 1_000 * MS
    ranges = [
        Range(name, ts - base + 100, ts + dur - base - 100, kind="operator")
        for name, ts, dur in zip(mine["name"], mine["ts_ns"].astype(int), mine["dur_ns"].astype(int), strict=True)
    ]
    path = write_log(tmp_path / "log.jsonl", ranges, pid=111, host="modal", tid=111, epoch=origin + base - 2_500 * US)
    trace = read([path, export])
    facts = trace.run.sources[0].facts["joined_into"]
    assert facts["clock_uncertainty_ns"] < 1 * US
    assert abs(facts["clock_offset_ns"] - 2_500 * US) <= facts["clock_uncertainty_ns"]
    assert trace.ledgers[0].kept == 0
    assert trace.events.num_rows == alone.events.num_rows
    assert view(trace, "operator").tables == view(alone, "operator").tables


def test_the_host_in_the_name_that_torch_gave_the_file_counts(tmp_path: Path) -> None:
    """Older traces of torch state no host, but `tensorboard_trace_handler` puts host and process into its name."""
    ops = [Range("torch only", r.start, r.end) for r in program() if r.name == "block"]
    log_path = write_log(tmp_path / "log.jsonl", program())
    for name, same in (("node1_4242", True), ("node2_4242", False), ("node1_4243", False), ("worker0", False)):
        path = write_kineto(tmp_path / "k.json", ops, host=None)
        whole = {**json.loads(path.read_text()), "traceName": f"/logs/{name}.1790000000000000000.pt.trace.json"}
        path.write_text(json.dumps(whole))
        assert (processes(read([log_path, path])) == {(1, PID)}) is same


def test_kernels_that_cupti_collected_beside_a_log_are_in_its_process_and_steps(tmp_path: Path) -> None:
    loops = [r for r in program() if r.name == "loop"]
    common = {"pid": PID, "source": 0}
    rows: list[dict[str, object]] = []
    for n, r in enumerate(loops):
        at = EPOCH + r.start + 30 * US
        call = {"ts_ns": at, "dur_ns": 5 * US, "name": "cudaLaunchKernel", "kind": "runtime", "tid": TID}
        work = {"ts_ns": at + 9 * US, "dur_ns": 50 * US, "name": "gemm", "kind": "kernel", "device": 0, "stream": 7}
        rows += [{**common, **call, "correlation": n}, {**common, **work, "correlation": n}]
    facts = {"tool": "CUPTI", "host": "node1"}
    run = {"origin_ns": 0, "sources": [{"path": "gpu.jsonl", "format": "events-jsonl", "facts": facts}]}
    head: dict[str, object] = {"tracekit": "events-jsonl", "schema": 1, "run": run}
    end = {"tracekit": "end", "events": len(rows), "totals": 1, "run": run, "ledger": []}
    numbered = [{"event_id": n, **row} for n, row in enumerate(rows)]
    numbered.append({"table": "totals", "source": 0, "run": 0, "section": "GPU activities", "order": 0, "name": "gemm"})
    path = tmp_path / "gpu.jsonl"
    lines = (json.dumps(line, separators=(",", ":")) for line in (head, *numbered, end))
    path.write_text("\n".join(lines) + "\n")
    trace = read([write_log(tmp_path / "log.jsonl", program(), steps=True), path])
    assert processes(trace) == {(1, PID)}
    assert list(trace.to_pandas().query("kind == 'kernel'")["step"]) == list(range(20))
    assert [row["name"] for row in trace.totals.to_pylist()] == ["gemm"]  # totals state no process, and stay


def test_a_log_of_the_cuda_command_line_profiler_states_no_process(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.jsonl", program())
    trace = read([path, sample("cuda-profile/csv-timestamps.log")])
    assert set(trace.to_pandas()["source"]) == {0, 1}
    assert "its rows state no process" in notes(trace)["not-one-process"]


def test_a_torch_loop_watched_by_both_is_one_process(tmp_path: Path) -> None:
    """Real files: the recorder and torch.profiler watch one loop on the CPU."""
    pytest.importorskip("torch")
    code = """
import sys, torch
from torch.profiler import ProfilerActivity, profile, record_function
from tracekit import recorder
from tracekit.recorder.torch import watch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(240, 64), batch_size=16)
recorder.start(sys.argv[1] + "/log.jsonl")
watch(model, optimizer=optimizer, dataloader=loader)
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    for x in loader:
        with record_function("my block"), recorder.range("my block"):
            loss = model(x).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
recorder.stop()
profiler.export_chrome_trace(sys.argv[1] + "/trace.json")
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment, check=True, capture_output=True)
    [path] = tmp_path.glob("log*.jsonl")
    trace = read([path, tmp_path / "trace.json"])
    assert {source for source, _ in processes(trace)} == {1}
    frame = trace.to_pandas()
    assert int((frame["name"] == "my block").sum()) == 15
    assert set(frame[frame["name"] == "aten::addmm"]["step"]) == set(range(15))
    facts = trace.run.sources[0].facts["joined_into"]
    assert facts["ranges_in_both"] == 15
    forward = frame[frame["name"] == "forward"]
    starts, ends = forward["ts_ns"].to_numpy(), (forward["ts_ns"] + forward["dur_ns"]).to_numpy()
    ops = frame[(frame["name"] == "aten::addmm")]["ts_ns"].to_numpy()
    slack = facts["clock_uncertainty_ns"]
    assert all(((starts - slack <= at) & (at <= ends + slack)).any() for at in ops)


@pytest.mark.parametrize("ppm", [-35.0, 12.5])
def test_a_log_whose_clock_goes_faster_or_slower_meets_its_trace_over_the_whole_run(tmp_path: Path, ppm: float) -> None:
    """Fifteen minutes at 35 ppm are 31 ms: no single offset brings the ranges within one another."""
    pieces = [shifted(program(seed), minute * 60_000 * MS) for minute, seed in enumerate(range(15))]
    ranges = [r for piece in pieces for r in piece]
    fast = [replace(r, start=round(r.start * (1 + ppm / 1e6)), end=round(r.end * (1 + ppm / 1e6))) for r in ranges]
    log_path = write_log(tmp_path / "log.jsonl", fast, steps=True)
    trace = read([log_path, write_kineto(tmp_path / "k.json", ranges)])
    assert processes(trace) == {(1, PID)}
    facts = trace.run.sources[0].facts["joined_into"]
    assert facts["clock_drift_ppm"] == pytest.approx(ppm, abs=0.05)
    assert facts["clock_uncertainty_ns"] < 10 * US
    assert facts["ranges_in_both"] == len(ranges)
    assert "ppm" in notes(trace)["one-process"]
    # Operators of the trace are in the steps of the log, to the last one.
    mm = trace.to_pandas().query("name == 'aten::mm' and tid == @TID")
    assert list(mm["step"]) == [n for n in range(300) for _ in range(2)]
    nested = trace.to_pandas().query("name == 'loop'")["dur_ns"].astype(int)
    assert abs(int(nested.sum()) - sum(r.end - r.start + 8 * US for r in ranges if r.name == "loop")) < 300 * US


@pytest.mark.parametrize("ident", [0x7F12_FD7F_2700, 0x7F12_0000_0000])
def test_nvprofs_kernels_belong_to_ranges_of_the_log_by_the_ids_of_the_thread_library(
    tmp_path: Path, ident: int
) -> None:
    """A real database of nvprof, which names threads by the lower half of their pthread ids and states no host."""
    export = corpus("nvprof_sqlite/tf_mnist_titanx.nvvp")
    alone = read(export)
    frame = alone.to_pandas()
    [pid] = set(frame["pid"].dropna())
    calls = frame[frame["kind"].isin(["runtime", "driver"])]
    busiest = int(calls["tid"].value_counts().index[0])
    ident = ident >> 32 << 32 | busiest if ident & 0xFFFFFFFF else ident
    mine = calls[calls["tid"] == busiest]
    origin = alone.run.origin_ns or 0
    begin, end = int(mine["ts_ns"].min()) - US, int((mine["ts_ns"] + mine["dur_ns"]).max()) + US
    middle = int(mine["ts_ns"].median())
    ranges = [
        Range("first half", 1_000, middle - begin, int(pid)),
        Range("rest", middle - begin, end - begin, int(pid)),
    ]
    path = write_log(
        tmp_path / "log.jsonl", ranges, pid=int(pid), host=None, epoch=origin + begin, tid=int(pid), ident=ident
    )
    trace = read([path, export])
    if not ident & 0xFFFFFFFF:
        assert {source for source, _ in processes(trace)} == {0, 1}
        return
    assert {source for source, _ in processes(trace)} == {1}
    assert trace.run.sources[0].facts["joined_into"]["because"] == "same process id and ids of threads"
    named = trace.to_pandas().query("name == 'rest'")
    assert list(named["tid"]) == [busiest]
    assert trace.run.threads[1, int(pid), busiest] == "MainThread"
    columns = {column.name: column.values for column in view(trace, "user_defined").tables[0].columns}
    charged = dict(zip(columns["name"], columns["device_total"], strict=True))
    work = frame[frame["kind"].isin(["kernel", "memcpy", "memset"])]
    first = calls.drop_duplicates("correlation")
    first = first[first["tid"] == busiest]
    by_call = dict(zip(first["correlation"], first["ts_ns"], strict=True))
    late = [by_call.get(number, -1) >= middle for number in work["correlation"]]
    early = [0 <= by_call.get(number, -1) < middle for number in work["correlation"]]
    assert charged["rest"] == int(work[late]["dur_ns"].sum()) > 0
    assert charged["first half"] == int(work[early]["dur_ns"].sum())

"""Kineto: every event of the real files, held against json and decimals; damage; versions; sniffing."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small
from support import claimed_alone, corpus, sample, sure_readers
from trace_event_cases import Event, args_of, ledger_adds_up, ns, plain, rows, sums_by_category, sure_of_text
from viewers import perfetto

import tracekit
from tracekit.errors import ParseError, SchemaError, TracekitError
from tracekit.inputs.selection import Selection
from tracekit.model.trace import Trace

REAL = [
    "kineto/hta_cpu_only_rank34.json.gz",
    "kineto/hta_event_sync_multi_stream.json.gz",
    "kineto/hta_alexnet.json.gz",
    "kineto/hta_nccl_data.json.gz",
    "kineto/hta_ns_resolution_rank0.json.gz",
    "kineto/hta_amd_mi250.json.gz",
    "kineto/hta_cupti_profiler.json.gz",
    "generated/torch/plain.pt.trace.json",
    "generated/torch/sched1.pt.trace.json",
    "generated/torch/ddp_rank0.pt.trace.json",
    "generated/torch/ddp_rank1.pt.trace.json",
]
LARGE = "kineto/hta_mtia_rank0_large.json.gz"
DEVICE = {
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "cuda_sync",
    "gpu_user_annotation",
    "cuda_profiler_range",
    "mtia_ccp_events",
}
COLUMN_OF_ARG = {
    "correlation": "correlation", "device": "device", "stream": "stream", "context": "context", "bytes": "bytes",
    "Bytes": "bytes", "registers per thread": "registers",
}  # fmt: skip
HEAD = '{"schemaVersion": 1, "deviceProperties": [], "traceEvents": ['


def write(path: Path, *events: Any, head: str = HEAD, tail: str = "]}") -> Path:
    texts = [e if isinstance(e, str) else json.dumps(e) for e in events]
    path.write_text(head + ",\n".join(texts) + tail, encoding="utf-8")
    return path


def slice_of(**more: Any) -> Event:
    return {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 5, "tid": 6, "ts": 1.5, "dur": 2, **more}


def check_row(row: Event, event: Event) -> None:
    """A row and its event say the same, and nothing of the event is lost."""
    assert row["ts_ns"] == ns(event["ts"])
    assert row["dur_ns"] == (ns(event["dur"]) if "dur" in event else None)
    assert (row["raw_name"] or row["name"]) == event["name"]
    have, want = args_of(row), dict(event.get("args", {}))
    for key in ("grid", "block"):
        if row[f"{key}_x"] is not None:
            have[key] = [row[f"{key}_{axis}"] for axis in "xyz"]
    for key, column in COLUMN_OF_ARG.items():
        if key in want and key not in have:
            have[key] = row[column] if row[column] is not None or want[key] not in (-1, 0xFFFFFFFF) else want[key]
    if row["copy_kind"] and "direction" in want and "direction" not in have:
        have["direction"] = {"DtoH": "DEVICE_TO_HOST", "HtoD": "HOST_TO_DEVICE"}[row["copy_kind"]]
        have["size"] = row["bytes"]
    said_beside = {k: have.pop(k) for k in ("ph", "cat", "bp", "s") if k in have and k not in want}
    assert have == want
    assert all(event[key] == value for key, value in said_beside.items())
    if row["kind"] == "flow":
        assert row["correlation"] == event["id"]
        assert said_beside["ph"] == event["ph"]
        assert said_beside.get("bp") == event.get("bp")


def check_all(trace: Trace, events: list[Event]) -> None:
    numbered = dict(enumerate(events, 1))
    kept = {n: e for n, e in numbered.items() if e.get("ph") not in (None, "M")}
    seen = set()
    for row in rows(trace):
        if row["kind"] == "counter":
            continue
        seen.add(row["event_id"])
        check_row(row, kept[row["event_id"]])
    assert seen == kept.keys()


@pytest.mark.parametrize("name", REAL)
def test_every_event_of_a_real_file_is_there_exactly(name: str) -> None:
    events, _ = plain(corpus(name))
    trace = tracekit.read(corpus(name), demangle=False)
    check_all(trace, events)
    ledger = ledger_adds_up(corpus(name), "kineto")
    assert ledger["read"] == len(events)
    assert ledger["facts"] == sum(e.get("ph") == "M" for e in events)
    assert not ledger["dropped"]
    assert not ledger["ignored"]


@pytest.mark.parametrize("name", [*REAL, LARGE])
def test_counts_and_sums_by_category_are_those_of_decimals(name: str) -> None:
    events, _ = plain(corpus(name))
    by_id = dict(enumerate(events, 1))
    trace = tracekit.read(corpus(name), columns=frozenset({"event_id", "kind"}))
    found: dict[str, tuple[int, int]] = {}
    for row in rows(trace):
        event = by_id[row["event_id"]]
        if event["ph"] == "X":
            count, total = found.get(event["cat"], (0, 0))
            found[event["cat"]] = count + 1, total + row["dur_ns"]
    assert found == sums_by_category(events)


@pytest.mark.parametrize("name", REAL)
def test_one_reader_is_sure_whatever_the_name(name: str, tmp_path: Path) -> None:
    renamed = tmp_path / "unknown"
    renamed.write_bytes(corpus(name).read_bytes())
    assert sure_readers(renamed) == ["kineto"]


def test_nothing_else_of_the_corpus_is_taken_for_kineto() -> None:
    assert {name for name in claimed_alone("kineto") if "viewer_cases" not in name} == {*REAL, LARGE}


def test_mtia_copies_and_lanes_have_their_names() -> None:
    trace = tracekit.read(corpus(LARGE), columns=frozenset({"kind", "copy_kind", "bytes", "device", "stream", "args"}))
    copies = [r for r in rows(trace) if r["kind"] == "memcpy"]
    assert {r["copy_kind"] for r in copies} <= {"DtoH", "HtoD", "DtoD"}
    assert all(r["bytes"] > 0 for r in copies)
    assert trace.run.streams[0, 9, 801] == "DMA_REQUEST"
    assert trace.run.devices[0, 9] == "MTIA 9"


def test_device_rows_carry_the_pid_of_the_host_so_that_launches_find_them() -> None:
    trace = tracekit.read(corpus("kineto/hta_alexnet.json.gz"))
    calls = {(r["pid"], r["correlation"]) for r in rows(trace) if r["kind"] == "runtime"}
    work = [r for r in rows(trace) if r["kind"] in ("kernel", "memcpy", "memset")]
    assert len(work) == 98
    assert all((r["pid"], r["correlation"]) in calls for r in work)
    assert all(r["tid"] is None and r["device"] == 0 and r["stream"] is not None for r in work)
    arrows = [r for r in rows(trace) if r["kind"] == "flow" and r["stream"] is not None]
    assert arrows
    assert all(r["pid"] == 2869224 for r in arrows)


def test_origin_rank_and_properties_are_facts_even_behind_the_events() -> None:
    trace = tracekit.read(corpus("kineto/hta_cpu_only_rank34.json.gz"))
    assert trace.run.origin_ns == 1719853884000000000
    assert {r["rank"] for r in rows(trace)} == {34}
    trace = tracekit.read(corpus("kineto/hta_cupti_profiler.json.gz"))
    assert trace.run.origin_ns == 0
    assert {r["rank"] for r in rows(trace)} == {0}
    assert trace.run.devices[0, 7] == "NVIDIA A100-PG509-200"


def test_memory_instants_make_signed_rows_and_counters() -> None:
    name = "generated/torch/sched1.pt.trace.json"
    events, _ = plain(corpus(name))
    instants = [e for e in events if e.get("name") == "[memory]"]
    found = rows(tracekit.read(corpus(name)))
    memory = [r for r in found if r["kind"] == "memory"]
    assert sorted(r["bytes"] for r in memory) == sorted(e["args"]["Bytes"] for e in instants)
    assert all(r["device"] is None for r in memory)  # Device Type 0 is the CPU
    totals = [r["value"] for r in found if r["kind"] == "counter" and r["name"] == "Total Allocated"]
    assert sorted(totals) == sorted(float(e["args"]["Total Allocated"]) for e in instants)


def test_memory_of_a_gpu_has_its_device(tmp_path: Path) -> None:
    args = {"Bytes": -512, "Device Type": 1, "Device Id": 2, "Total Allocated": 7}
    event = {"ph": "i", "name": "[memory]", "pid": 5, "tid": 6, "ts": 3, "s": "t", "args": args}
    found = rows(tracekit.read(write(tmp_path / "x", slice_of(args={"Ev Idx": 0}), event)))
    assert [(r["bytes"], r["device"]) for r in found if r["kind"] == "memory"] == [(-512, 2)]


def test_steps_communication_and_gpu_annotations_have_their_kinds(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        slice_of(cat="user_annotation", name="ProfilerStep#12"),
        slice_of(cat="user_annotation", name="nccl:all_reduce"),
        slice_of(cat="gpu_user_annotation", name="mine", pid=0, tid=7),
        slice_of(cat="python_function", name="f.py(3): g", args={"Python id": 1, "Python parent id": None}),
    )
    found = sorted(rows(tracekit.read(path)), key=lambda r: r["event_id"])
    assert [(r["kind"], r["step"]) for r in found] == [
        ("step", 12), ("communication", 12), ("other", None), ("python_op", 12)
    ]  # fmt: skip
    assert (found[2]["device"], found[2]["stream"], args_of(found[2])) == (0, 7, {"cat": "gpu_user_annotation"})
    assert args_of(found[3]) == {"Python id": 1, "Python parent id": None}


@pytest.mark.parametrize("cat", ["user_annotation", "cpu_op", "Operator"])
def test_what_torch_itself_calls_loading_and_optimizing_has_that_kind(cat: str, tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        slice_of(cat=cat, name="enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        slice_of(cat=cat, name="Optimizer.step#SGD.step"),
        slice_of(cat=cat, name="Optimizer.zero_grad#SGD.zero_grad"),
        slice_of(cat="python_function", name="Optimizer.step#no.range"),
    )
    found = sorted(rows(tracekit.read(path)), key=lambda r: r["event_id"])
    own = "user_range" if cat == "user_annotation" else "operator"
    assert [r["kind"] for r in found] == ["dataloader", "optimizer", own, "python_op"]
    assert [args_of(r)["cat"] for r in found[:2]] == [cat, cat]


def test_torch_1_8_writes_tids_as_text_and_all_host_ranges_as_operators(tmp_path: Path) -> None:
    head = """
{
  "schemaVersion": 1,
  "computeProperties": [

    {
      "id": 0, "name": "Tesla T4", "totalGlobalMem": 15843721216
    }
  ],
  "traceEvents": [
"""
    path = write(
        tmp_path / "x",
        slice_of(cat="Operator", tid="6", args={"Device": 5, "External id": 2}),
        slice_of(cat="Operator", name="ProfilerStep#3", tid="6", ts=0, dur=20),
        slice_of(cat="Operator", name="nccl:all_reduce", tid="6", ts=4, dur=1),
        slice_of(cat="Runtime", name="cudaLaunchKernel", tid="6", args={"cbid": 211, "correlation": 40}),
        {"ph": "s", "id": 40, "pid": 5, "tid": 6, "ts": 2, "cat": "async", "name": "launch"},
        {"ph": "f", "id": 40, "pid": 0, "tid": "stream 7", "ts": 5, "cat": "async", "name": "launch"},
        slice_of(
            cat="Kernel", name="k", pid=0, tid="stream 7", ts=5,
            args={"device": 0, "context": 1, "stream": 7, "correlation": 40},
        ),
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 1, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": "stream 7", "ts": 1, "args": {"name": "stream 7 (main)"}},
        {"ph": "M", "name": "thread_name", "pid": 5, "tid": "6", "ts": 1, "args": {"name": "main"}},
        head=head,
        tail='], "traceName": "x"}',
    )  # fmt: skip
    assert sure_readers(path) == ["kineto"]
    trace = tracekit.read(path)
    found = sorted(rows(trace), key=lambda r: r["event_id"])
    assert [r["kind"] for r in found] == ["operator", "step", "communication", "runtime", "flow", "flow", "kernel"]
    assert [r["tid"] for r in found] == [6, 6, 6, 6, 6, None, None]
    assert [(r["device"], r["stream"], r["context"]) for r in found[5:]] == [(0, 7, 1), (0, 7, 1)]
    assert found[1]["step"] == 3
    assert trace.run.devices == {(0, 0): "Tesla T4"}
    assert trace.run.streams == {(0, 0, 7): "stream 7 (main)"}
    assert trace.run.threads == {(0, 5, 6): "main"}
    assert trace.run.ids == {}


def joined(rank: int, label: str, *, at: float) -> list[Event]:
    """What one rank writes, with a label before its pids, as SGLang's ProfileMerger puts it."""

    def pid(number: int) -> Any:
        return f"{label} {number}" if label else number

    host, device = pid(100 + rank), pid(rank)
    kernel = {"device": rank, "stream": 7, "context": 1, "correlation": 5}
    return [
        slice_of(pid=host, ts=at),
        slice_of(cat="cuda_runtime", name="cudaLaunchKernel", pid=host, ts=at, args={"correlation": 5}),
        {"ph": "s", "id": 5, "pid": host, "tid": 6, "ts": at, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 5, "pid": device, "tid": 7, "ts": at + 9, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        slice_of(cat="kernel", name=f"k{rank}", pid=device, tid=7, ts=at + 9, args=kernel),
        {"ph": "M", "name": "process_labels", "pid": device, "args": {"labels": f"GPU {rank}"}},
        {"ph": "M", "name": "thread_name", "pid": device, "tid": 7, "args": {"name": "stream 7 (main)"}},
    ]


def test_joined_files_of_ranks_keep_each_launch_at_its_own_work(tmp_path: Path) -> None:
    head = '{"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": ['
    path = write(tmp_path / "x", *joined(0, "[TP00]", at=1), *joined(1, "[TP01]", at=2), head=head)
    trace = tracekit.read(path)
    found = sorted(rows(trace), key=lambda r: r["event_id"])
    texts = {number: text for (column, _, number), text in trace.run.ids.items() if column == "pid"}
    assert [texts[r["pid"]] for r in found] == ["[TP00] 100"] * 5 + ["[TP01] 101"] * 5
    assert [(r["device"], r["stream"], r["tid"]) for r in found if r["kind"] in ("flow", "kernel")] == [
        (None, None, 6), (0, 7, None), (0, 7, None), (None, None, 6), (1, 7, None), (1, 7, None)
    ]  # fmt: skip
    assert [r["rank"] for r in found] == [0] * 5 + [1] * 5
    assert trace.run.streams == {(0, 0, 7): "stream 7 (main)", (0, 1, 7): "stream 7 (main)"}
    assert "joined-files" in trace.ledgers[0].notes


@pytest.mark.parametrize(
    ("labels", "ranks", "names"),
    [
        (("[TP00]", "[TP01]"), (0, 1), ("TP00", "TP01")),
        (("[TP00 PP1]", "[TP01 PP1]"), (0, 1), ("TP00 PP1", "TP01 PP1")),
        (("[DP0-TP1]", "[DP1-TP0]"), (0, 1), ("DP0-TP1", "DP1-TP0")),
        (("[TP06]", "[TP02]"), (6, 2), ("TP06", "TP02")),
        (("[TP01]", "[DP1]"), (1, 2), ("TP01", "DP1")),
        (("[rank 4]", "[Rank5]"), (4, 5), ("4", "5")),
        (("[node1]", "[node2]"), (None, None), (None, None)),
    ],
)
@pytest.mark.parametrize("form", ["kineto", "chrome-trace"])
def test_labels_before_pids_name_the_ranks(
    labels: tuple[str, str], ranks: tuple[int, int], names: tuple[str, str], form: str, tmp_path: Path
) -> None:
    events = [*joined(0, labels[0], at=1), *joined(0, labels[1], at=2)]
    path = write(tmp_path / "x", *events, head='{"schemaVersion": 1, "traceEvents": [')
    trace = tracekit.read(path, format=form)
    found = sorted(rows(trace), key=lambda r: r["event_id"])
    assert [r["rank"] for r in found] == [ranks[0]] * 5 + [ranks[1]] * 5
    assert tuple(trace.run.ids.get(("rank", 0, rank)) for rank in ranks) == names


def test_ranks_of_joined_files_have_devices_of_their_own(tmp_path: Path) -> None:
    """Each rank numbers its devices from 0 (CUDA_VISIBLE_DEVICES): that is not one device that they share."""

    def both(label: str, at: float) -> list[Event]:
        own = joined(0, label, at=0)[:2] + joined(0, label, at=0)[4:5]
        times = {"ts": at, "dur": 60}
        args = {**own[2]["args"], "correlation": int(at)}
        return [
            own[0] | {"ts": at},
            own[1] | {"ts": at, "args": {"correlation": int(at)}},
            own[2] | times | {"args": args},
        ]

    events = [
        event
        for n in range(40)
        for label in ("[TP00]", "[TP01]")
        for event in both(label, n * 100 + 7 * (label == "[TP01]"))
    ]
    path = write(tmp_path / "x", *events, head='{"schemaVersion": 1, "traceEvents": [')
    shown = tracekit.summary(path, views=["findings", "device", "ranks"])
    assert "shared device" not in {finding.rule for section in shown.sections for finding in section.findings}
    assert "TP00" in str(shown.sections)
    assert "process 1099" not in str(shown.sections)
    without = [{**event, "pid": event["pid"].replace("TP0", "node")} for event in events]
    plain = write(tmp_path / "y", *without, head='{"schemaVersion": 1, "traceEvents": [')
    (section,) = tracekit.summary(plain, views=["findings"]).sections
    assert "shared device" in {finding.rule for finding in section.findings}


def test_joined_files_whose_pids_tell_nothing_leave_the_process_of_device_work_open(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x", *joined(0, "", at=1), *joined(1, "", at=2), head='{"schemaVersion": 1, "traceEvents": ['
    )
    trace = tracekit.read(path, format="kineto")
    assert [(r["name"], r["device"], r["pid"]) for r in rows(trace) if r["kind"] == "kernel"] == [
        ("k0", 0, None), ("k1", 1, None)
    ]  # fmt: skip
    assert "joined-files" in trace.ledgers[0].notes


def test_frames_of_another_process_do_not_make_the_file_one_of_several(tmp_path: Path) -> None:
    """Only one process calls the runtime: device work is its own, whoever else has ranges or frames in the file."""
    frames = [slice_of(cat="python_function", name=f"worker.py({i}): run", pid=77, ts=i) for i in range(5)]
    head = '{"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": ['
    trace = tracekit.read(write(tmp_path / "x", *frames, *joined(0, "", at=9), head=head))
    assert [(r["device"], r["pid"]) for r in rows(trace) if r["kind"] == "kernel"] == [(0, 100)]
    assert {r["pid"] for r in rows(trace)} == {77, 100}
    assert {r["rank"] for r in rows(trace)} == {0}
    assert "joined-files" not in trace.ledgers[0].notes


@pytest.mark.parametrize("form", ['{{"traceEvents": {}}}', "{}"])
@pytest.mark.parametrize(("ts", "origin"), [(4_458_676_984_451.25, None), (1_711_964_646_000_000.5, 0)])
def test_events_that_a_script_filtered_out_of_a_file_are_still_of_kineto(
    form: str, ts: float, origin: int | None, tmp_path: Path
) -> None:
    args = {"device": 1, "stream": 7, "correlation": 4, "bytes": 64}
    copy = slice_of(cat="gpu_memcpy", name="Memcpy HtoD (Pinned -> Device)", pid=1, tid=7, ts=ts, args=args)
    (tmp_path / "x").write_text(form.format(json.dumps([copy])), encoding="utf-8")
    assert sure_readers(tmp_path / "x") == ["kineto"]
    trace = tracekit.read(tmp_path / "x")
    (row,) = rows(trace)
    assert (row["kind"], row["device"], row["stream"], row["bytes"]) == ("memcpy", 1, 7, 64)
    assert trace.run.origin_ns == origin


def test_roctracer_commands_of_cat_kernel_are_copies_and_fills(tmp_path: Path) -> None:
    """torch before 2.0 on ROCm gives all commands of a device the cat of kernels."""
    names = ["CopyDeviceToHost", "FillBuffer", "Marker", "gemm"]
    events = [slice_of(cat="kernel", name=n, pid=1, tid=7, ts=10 + i) for i, n in enumerate(names)]
    found = rows(tracekit.read(write(tmp_path / "x", slice_of(ts=9), *events)))
    of_device = [(r["name"], r["kind"], r["copy_kind"]) for r in found if r["device"] == 1]
    assert of_device == [
        ("CopyDeviceToHost", "memcpy", "DtoH"), ("FillBuffer", "memset", None), ("Marker", "sync", None),
        ("gemm", "kernel", None),
    ]  # fmt: skip


def test_what_the_profiler_warned_of_is_told(tmp_path: Path) -> None:
    log = "WARNING:2026-05-22 17:15:23 2910:2910 CuptiActivityProfiler.cpp:333] Failed to read 3 of\\n the counters"
    tail = f'], "INFO": ["x"], "WARNING": ["{log}", "y"], "ERROR": [""], "traceName": "t"}}'
    notes = tracekit.read(write(tmp_path / "x", slice_of(), tail=tail)).ledgers[0].notes
    assert {code: (note.text, note.count) for code, note in notes.items()} == {
        "profiler-warning": ("WARNING of the profiler itself: Failed to read 3 of the counters", 2)
    }


def test_times_beyond_doubles_stay_exact(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x",
        '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1767225600123456.789,"dur":0.001}',
        '{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1767225600123456.78,"dur":51.026000000000003}',
        '{"ph":"X","cat":"cpu_op","name":"c","pid":1,"tid":1,"ts":1767225600123457,"dur":1e-06}',
        '{"ph":"X","cat":"cpu_op","name":"d","pid":1,"tid":1,"ts":1.767225600123457e+15,"dur":0.0005}',
        '{"ph":"X","cat":"cpu_op","name":"e","pid":1,"tid":1,"ts":"1767225600123457.5","dur":0.0015}',
        tail='], "baseTimeNanoseconds": 17}',
    )
    trace = tracekit.read(path)
    found = {r["name"]: (r["ts_ns"], r["dur_ns"]) for r in rows(trace)}
    base = 1767225600123456000
    assert found == {
        "a": (base + 789, 1), "b": (base + 780, 51026), "c": (base + 1000, 0), "d": (base + 1000, 0),
        "e": (base + 1500, 2),
    }  # fmt: skip
    assert trace.run.origin_ns == 17


def test_ids_that_are_text_or_beyond_int64_become_numbers_with_their_text_in_the_run(tmp_path: Path) -> None:
    path = write(tmp_path / "x", slice_of(tid="stream x"), slice_of(tid=13774319520209737161), slice_of(pid="Spans"))
    trace = tracekit.read(path)
    texts = {v for (column, _, _), v in trace.run.ids.items() if column in ("tid", "pid")}
    assert texts == {"stream x", "13774319520209737161", "Spans"}
    assert len({r["tid"] for r in rows(trace)}) == 3


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        ('"name": "C:\\Users\\x"', "C:\\Users\\x"),
        ('"name": "a\x01b"', "a\x01b"),
        ('"name": "say "hi" now"', 'say "hi" now'),
        ('"name": "line\nend"', "line\nend"),
        ('"name": "x", "v": NaN', "x"),
        ('"name": "x", "v": -Infinity', "x"),
        ('"name": "C:\\"', "C:\\"),
    ],
)
def test_broken_json_of_one_event_is_repaired_and_noted(broken: str, name: str, tmp_path: Path) -> None:
    bad = f'{{"ph": "X", "cat": "cpu_op", {broken}, "pid": 5, "tid": 6, "ts": 10, "dur": 1}}'
    events = [slice_of(ts=n) for n in range(5)]
    trace = tracekit.read(write(tmp_path / "x", *events, bad, *events))
    assert [r["name"] for r in rows(trace) if r["event_id"] == 6] == [name]
    assert len(trace.events) == 11
    assert trace.ledgers[0].notes["mended-json"].count == 1


def test_numbers_beyond_a_double_cost_no_event_and_keep_their_digits(tmp_path: Path) -> None:
    """The second event looks like the first, but for digits: `1e5` is a double, `1e999` is not."""
    texts = ["1e5", "1e999", "-1.5E+400", "9" * 400 + ".5", "123456789012345678901234567890", '"1e999"']
    lines = [
        f'{{"ph": "X", "name": "n", "cat": "cpu_op", "pid": 5, "tid": 6, "ts": {n}, "args": {{"v": {text}}}, "dur": 1}}'
        for n, text in enumerate(texts)
    ]
    path = write(tmp_path / "x", slice_of(ts=1), *lines)
    trace = tracekit.read(path)
    got = [json.loads(r["args"])["v"] for r in rows(trace) if r["name"] == "n"]
    assert got == [1e5, *texts[1:4], 123456789012345678901234567890, "1e999"]
    assert trace.ledgers[0].kept == 7
    assert {code: note.count for code, note in trace.ledgers[0].notes.items()} == {"number-as-text": 3}
    for target in ("chrome", "perfetto", "paddle-pb", "fluid-pb"):
        tracekit.convert(path, tmp_path / f"out.{target}", to=target)
    written = json.loads((tmp_path / "out.chrome").read_text(encoding="utf-8"))
    assert sum("v" in event.get("args", {}) for event in written["traceEvents"]) == len(texts)


def test_a_garbled_event_costs_itself_alone(tmp_path: Path) -> None:
    events = [slice_of(ts=n) for n in range(3)]
    path = write(tmp_path / "x", *events, '{"ph": "X", "ts": 12..5, "name": }', *events)
    trace = tracekit.read(path)
    assert len(trace.events) == 6
    assert trace.ledgers[0].dropped == {"bad-json": 1}


def test_a_cut_file_gives_its_whole_events_and_says_what_it_lost(tmp_path: Path) -> None:
    data = write(tmp_path / "x", *[slice_of(ts=n, args={"Ev Idx": n}) for n in range(100)]).read_bytes()
    for cut in range(200, len(data), 97):
        path = tmp_path / f"cut{cut}"
        path.write_bytes(data[:cut])
        trace = tracekit.read(path)
        whole = data[:cut].count(b"}}")
        assert len(trace.events) == whole
        assert trace.ledgers[0].dropped.get("torn-row", 0) == (trace.ledgers[0].read - whole)
        assert trace.ledgers[0].notes


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (slice_of(dur=-5), "negative-duration"),
        ({k: v for k, v in slice_of().items() if k != "dur"}, "no-duration"),
        (slice_of(cat="kernel", ts=0, dur=0), "no-time"),
        ({k: v for k, v in slice_of().items() if k != "ts"}, "no-time"),
        (slice_of(ts=10**18), "bad-time"),
        (slice_of(ts=10**17), "bad-time"),
        (slice_of(ph="Z"), "unknown-phase"),
    ],
)
def test_what_is_odd_is_told(event: Event, code: str, tmp_path: Path) -> None:
    trace = tracekit.read(write(tmp_path / "x", slice_of(ts=1767225600000000), event))
    assert code in trace.ledgers[0].notes
    assert len(trace.events) + sum(trace.ledgers[0].dropped.values()) == 2


def test_a_file_of_metadata_alone_gives_no_rows(tmp_path: Path) -> None:
    meta = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}
    trace = tracekit.read(write(tmp_path / "x", meta))
    assert len(trace.events) == 0
    assert trace.run.processes == {(0, 1): "python"}
    assert len(tracekit.read(write(tmp_path / "y")).events) == 0


def test_a_head_without_events_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text('{"schemaVersion": 1, "deviceProperties": [', encoding="utf-8")
    with pytest.raises(ParseError):
        tracekit.read(path)


def test_blanks_and_line_ends_do_not_matter(tmp_path: Path) -> None:
    events = [
        slice_of(args={"a b": " c  d ", "n": [1, [], {"x": 2}]}),
        slice_of(cat="kernel", args={"grid": [1, 2, 3]}),
    ]
    one = write(tmp_path / "one", json.dumps(events, separators=(",", ":"))[1:-1])
    two = write(tmp_path / "two", json.dumps(events, indent=7)[1:-1].replace("\n", "\r\n"))
    assert rows(tracekit.read(one)) == rows(tracekit.read(two))


def test_slabs_do_not_change_what_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    name = corpus("generated/torch/sched1.pt.trace.json")
    whole = rows(tracekit.read(name))
    small(monkeypatch, Limit.JSON_SLAB_BYTES, 701)
    assert rows(tracekit.read(name)) == whole


json_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**25), 10**25), st.floats(allow_nan=True), st.text(max_size=6),
    st.sampled_from(["1e5", "12.5", "ProfilerStep#3", "[memory]", "0x1f"]),
)  # fmt: skip
json_values = st.recursive(
    json_scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=5), v, max_size=3), max_leaves=5
)
KEYS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args", "bp", "s"]
wild_events = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(KEYS, json_values),
        "ph": st.sampled_from(["X", "X", "X", "M", "i", "s", "f", "t", "C", "B", "", "XX"]) | json_values,
        "cat": st.sampled_from(["kernel", "cpu_op", "gpu_memcpy", "user_annotation", "cuda_sync"]) | json_values,
        "ts": st.integers(-(10**16), 10**16) | st.decimals(-(10**15), 10**15, places=3).map(float) | json_values,
        "args": st.dictionaries(
            st.sampled_from(["correlation", "device", "stream", "grid", "block", "bytes", "Bytes", "name", "cat", "é"]),
            json_values, max_size=4,
        ) | json_values,
    },
)  # fmt: skip


@given(
    events=st.lists(wild_events, max_size=12),
    cut=st.integers(0, 400),
    junk=st.binary(max_size=6),
    where=st.integers(0, 2000),
)
def test_nothing_but_our_own_errors_whatever_stands_in_the_file(
    events: list[Any], cut: int, junk: bytes, where: int, tmp_path: Path
) -> None:  # fmt: skip
    text = (HEAD + ",".join(json.dumps(e) for e in events) + "]}").encode()
    where = min(where, len(text))
    path = tmp_path / "x"
    path.write_bytes((text[:where] + junk + text[where:])[: len(text) - min(cut, len(text)) if cut % 2 else None])
    try:
        ledger_adds_up(path, "kineto")
    except SchemaError:
        raise
    except TracekitError:
        pass


@given(events=st.lists(wild_events, max_size=8))
def test_ts_and_dur_of_wild_events_are_exact(events: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(HEAD + ",".join(json.dumps(e) for e in events) + "]}", encoding="utf-8")
    try:
        trace = tracekit.read(path, format="kineto")
    except TracekitError:
        return
    by_id = dict(enumerate(plain(path)[0], 1))
    for row in rows(trace):
        assert row["ts_ns"] == ns(by_id[row["event_id"]]["ts"])


def test_a_chrome_trace_of_our_own_is_not_kineto() -> None:
    assert "kineto" not in sure_of_text(
        b'{"displayTimeUnit":"ns","traceEvents":[\n{"ph":"X","cat":"kernel","name":"a"}'
    )


@pytest.mark.parametrize("front", [True, False])
@pytest.mark.parametrize("depth", [150, 5000])
def test_a_fact_too_deep_to_be_written_again_is_passed_over_with_a_note(
    front: bool, depth: int, tmp_path: Path
) -> None:
    deep = f', "odd": {"[" * depth}{"]" * depth}, "flat": [[1]]'
    head = HEAD.replace(', "traceEvents"', f'{deep}, "traceEvents"') if front else HEAD
    path = write(tmp_path / "x.json", slice_of(), head=head, tail=f"]{'' if front else deep}}}")
    trace = tracekit.read(path, format="kineto")
    assert len(trace.events) == 1
    assert "odd" not in trace.run.sources[0].facts
    assert {"deep-fact", "facts-not-read"} & trace.ledgers[0].notes.keys()
    tracekit.convert(path, tmp_path / "y.json", to="chrome", format="kineto")


def test_a_string_of_escaped_quotes_that_never_ends_costs_no_time(tmp_path: Path) -> None:
    # Each quote was taken for the begin of a string that goes on to the end: 14 s for 130 KB.
    odd = '{"ph": "X", "name": "' + '\\"' * 60_000
    path = write(tmp_path / "x.json", slice_of(), odd)
    trace = tracekit.read(path, format="kineto")
    assert len(trace.events) == 1


@pytest.mark.viewer
def test_arrows_from_a_launch_to_its_work_are_arrows_in_perfetto(tmp_path: Path) -> None:
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 6, "ts": 10, "dur": 3}
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 20, "dur": 4}
    sync = {"ph": "X", "cat": "cuda_sync", "name": "Context Sync", "pid": 0, "tid": -1, "ts": 40, "dur": 4}
    flow = {"cat": "ac2g", "name": "ac2g"}
    events: list[Event] = []
    for number, work, place in ((1, kernel, {"stream": 7}), (2, sync, {"stream": 0xFFFFFFFF})):
        at = work["ts"]
        args = {"correlation": number, "device": 0, "context": 1, **place}
        events += [
            {**call, "ts": at - 5, "args": {"correlation": number}},
            {**flow, "ph": "s", "id": number, "pid": 5, "tid": 6, "ts": at - 5},
            {**work, "args": args},
            {**flow, "ph": "f", "bp": "e", "id": number, "pid": 0, "tid": work["tid"], "ts": at},
        ]
    # One end alone is no arrow.
    events.append({**flow, "ph": "f", "bp": "e", "id": 9, "pid": 0, "tid": 7, "ts": 21})
    path = write(tmp_path / "x.json", *events)
    found = [r for r in rows(tracekit.read(path)) if r["kind"] == "flow" and r["device"] is not None]
    assert [(r["context"], r["stream"]) for r in found] == [(1, 7), (1, 7), (1, None)]
    tracekit.convert(path, tmp_path / "y.json", to="chrome")
    made = json.loads((tmp_path / "y.json").read_text(encoding="utf-8"))["traceEvents"]
    own = sorted((e["ph"], e.get("id", 0)) for e in made if e.get("cat") == "flow")
    assert own == [("c", 0), ("f", 1), ("f", 2), ("s", 1), ("s", 2)]
    joined = (
        "select a.name as a, b.name as b from flow join slice a on a.id=slice_out join slice b on b.id=slice_in "
        "order by b.ts"
    )
    seen = perfetto(tmp_path / "y.json", [joined])
    assert seen["errors"] == {}
    pairs = {(r["a"], r["b"]) for r in seen["sql"][0]}
    assert pairs == {("cudaLaunchKernel", "k"), ("cudaLaunchKernel", "Context Sync")}


@pytest.mark.viewer
def test_all_arrows_of_the_gpu_sample_are_in_perfetto(tmp_path: Path) -> None:
    tracekit.convert(sample("kineto/gpu.pt.trace.json"), tmp_path / "y.json", to="chrome")
    made = json.loads((tmp_path / "y.json").read_text(encoding="utf-8"))["traceEvents"]
    phases = Counter(e["ph"] for e in made if e.get("cat") == "flow")
    assert phases == {"s": 48, "f": 48}
    seen = perfetto(tmp_path / "y.json")
    assert (seen["errors"], seen["flows"]) == ({}, 48 + sum(e["ph"] == "s" and e["cat"] == "launch" for e in made))


@pytest.mark.parametrize("asked", [{"name"}, {"args"}, {"context", "kind"}, {"step"}, {"value", "bytes"}])
def test_columns_that_are_asked_for_are_those_of_a_full_read(asked: set[str]) -> None:
    path = sample("kineto/gpu.pt.trace.json")
    whole, some = tracekit.read(path), tracekit.read(path, columns=frozenset(asked))
    assert set(some.events.schema.names) == asked | {"ts_ns", "dur_ns"}
    assert whole.events.select(some.events.schema.names).equals(some.events)
    assert [ledger.to_json() for ledger in whole.ledgers] == [ledger.to_json() for ledger in some.ledgers]
    assert whole.run == some.run
    kernels = tracekit.read(path, columns=frozenset(asked), selection=Selection(kinds=frozenset({"kernel"})))
    assert 0 < kernels.events.num_rows < some.events.num_rows


def test_a_trace_whose_events_are_null_is_whole_and_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text('{"schemaVersion":1,"deviceProperties":[],"traceEvents": null, "displayTimeUnit":"ms"}')
    trace = tracekit.read(path)
    assert (trace.events.num_rows, trace.ledgers[0].read) == (0, 0)
    assert not trace.ledgers[0].notes


@pytest.mark.parametrize("count", range(1, 8))
def test_members_that_are_scattered_over_an_event_are_all_in_its_args(count: int, tmp_path: Path) -> None:
    shape = {
        "device": 0,
        "stream": 7,
        "correlation": 5,
        "grid": [1, 1, 1],
        "block": [2, 2, 2],
        "registers per thread": 8,
    }
    top = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2}

    def among(members: dict[str, Any], word: str) -> dict[str, Any]:
        more = [(f"{word}{n}", n) for n in range(count)]
        return dict(x for pair in itertools.zip_longest(members.items(), more) for x in pair if x is not None)

    event = {**among(top, "outer"), "args": among(shape, "inner")}
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [event] * 3}))
    rows = tracekit.read(path).events.to_pylist()
    left = {f"{word}{n}": n for word in ("outer", "inner") for n in range(count)}
    assert [json.loads(row["args"]).items() >= left.items() for row in rows] == [True] * 3
    assert {(row["stream"], row["correlation"], row["block_x"], row["registers"]) for row in rows} == {(7, 5, 2, 8)}

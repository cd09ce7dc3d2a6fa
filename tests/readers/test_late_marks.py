"""A trace whose first 64 KiB show the grammar alone is read as what the rest of the file says that it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from small_limits import Limit, small
from trace_event_cases import Event, ledger_adds_up, rows

import tracekit
from tracekit.api import inspect
from tracekit.model.trace import Trace
from tracekit.readers.printed import late
from tracekit.readers.source import HEAD_BYTES, open_source
from tracekit.safety import limits
from tracekit.safety.limits import Limits, applied

START = 1704161511420000
LONG = 3000
"""Ranges that any program may write, which fill the head."""


def x(name: str, ts: float, dur: float, **more: Any) -> Event:
    return {"ph": "X", "name": name, "pid": 437, "tid": 437, "ts": ts, "dur": dur, **more}


def meta(what: str, pid: Any, text: str, tid: int = 0) -> Event:
    key = "labels" if what == "process_labels" else "name"
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {key: text}}


FILLING = [x(f"work {i % 7}", START + i, 0.5, args={"n": i}) for i in range(LONG)]


def write(path: Path, events: list[Event], **beside: Any) -> Path:
    data = json.dumps({"traceEvents": events, **beside} if beside else events).encode()
    assert len(data) > HEAD_BYTES
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def shown(path: Path) -> tuple[str, Any, dict[str, int]]:
    """Format, dialect and ns by kind."""
    found = inspect(path).inputs[0]
    ledger_adds_up(path, found["format"])
    return found["format"], found["facts"].get("dialect"), {k: v["dur_ns"] for k, v in found["by_kind"].items()}


def task(ts: str, dur: float, tid: int = 3, **args: Any) -> Event:
    args = {"Task Type": "AI_VECTOR_CORE", "Stream Id": tid, **args}
    return {"name": "aclnnAdd", "pid": 800, "tid": tid, "ts": ts, "dur": dur, "args": args, "ph": "X"}


@pytest.mark.parametrize("name", ["trace_view.json", "trace_view.json.gz"])
def test_an_ascend_trace_whose_operators_fill_the_head_has_its_tasks(name: str, tmp_path: Path) -> None:
    operators = [x("aten::empty", START + i, 0.5, cat="cpu_op", args={"Sequence number": -1}) for i in range(2000)]
    names = [meta("process_name", 800, "Ascend Hardware"), meta("thread_name", 800, "Stream 3", 3)]
    tasks = [task("1704161511423000.250", 10.5), task("1704161511423020.250", 9.5)]
    path = write(tmp_path / name, [*operators, *names, *tasks])
    assert shown(path) == ("chrome-trace", "ascend", {"kernel": 20_000, "operator": 1_000_000})
    trace = tracekit.read(path)
    assert trace.run.sources[0].facts["tool"] == "Ascend profiler (msprof, torch_npu)"
    kernels = [r for r in rows(trace) if r["kind"] == "kernel"]
    assert [(r["device"], r["stream"], r["pid"], r["tid"]) for r in kernels] == [(None, 3, None, None)] * 2


LATE: dict[str, tuple[list[Event], dict[str, Any], tuple[str, str | None]]] = {
    "viztracer by its events": ([x("f", START, 2, cat="FEE")], {}, ("chrome-trace", "viztracer")),
    "viztracer by its metadata": (
        [],
        {"viztracer_metadata": {"version": "1.0.1", "overflow": False}},
        ("chrome-trace", "viztracer"),
    ),
    "py-spy": ([x("f", START, 2, cat="py-spy")], {}, ("chrome-trace", "py-spy")),
    "jax": ([meta("process_name", 9, "/device:GPU:1")], {}, ("chrome-trace", "jax")),
    "horovod": ([x("NEGOTIATE_ALLREDUCE", START, 2)], {}, ("chrome-trace", "horovod")),
    "torch": (
        [
            x("cudaLaunchKernel", START, 2, cat="cuda_runtime", args={"correlation": 3}),
            x("gemm", START, 2, cat="kernel", args={"device": 0, "stream": 7, "correlation": 3}),
        ],
        {},
        ("kineto", None),
    ),
    "mxnet": ([x("MXImperativeInvoke", START, 2, cat="MXNET_C_API")], {}, ("mxnet", "mxnet")),
    "nobody": ([], {}, ("chrome-trace", None)),
}


@pytest.mark.parametrize("case", LATE)
@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_words_behind_the_head_show_the_producer(case: str, name: str, tmp_path: Path) -> None:
    events, beside, want = LATE[case]
    assert shown(write(tmp_path / name, [*FILLING, *events], **beside))[:2] == want


def test_words_behind_the_head_of_utf_16_show_the_producer(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps([*FILLING, x("f", START, 2, cat="py-spy")]), encoding="utf-16")
    assert shown(path)[:2] == ("chrome-trace", "py-spy")


def test_words_in_a_file_whose_head_names_the_producer_change_nothing(tmp_path: Path) -> None:
    first = x("f", START, 2, cat="py-spy")
    assert shown(write(tmp_path / "x.json", [first, *FILLING, x("f", START, 2, cat="FEE")]))[1] == "py-spy"


def test_a_file_of_phases_that_torch_does_not_write_loses_none_to_torchs_words(tmp_path: Path) -> None:
    own = [{"ph": "B", "name": "r", "pid": 1, "tid": 1, "ts": 0}, {"ph": "E", "pid": 1, "tid": 1, "ts": 5}]
    path = write(tmp_path / "x.json", [*own, *FILLING, *LATE["torch"][0]])
    assert shown(path)[0] == "chrome-trace"
    assert tracekit.read(path).events.num_rows == LONG + 3


def test_a_list_of_events_may_begin_behind_the_head(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"otherData": {"note": "y" * 2 * HEAD_BYTES}, "traceEvents": FILLING}), encoding="utf-8")
    assert shown(path) == ("chrome-trace", None, {"user_range": LONG * 500})


def test_a_word_at_the_border_of_two_blocks_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the word stands: blocks end before, within and behind it."""
    small(monkeypatch, Limit.LATE_TABLE_BLOCK_BYTES, 4096)
    path = tmp_path / "x"
    for shift in range(0, 40, 3):
        path.write_bytes(b"[" + b" " * (HEAD_BYTES + 3 * 4096 - 20 + shift) + b'"py-spy"' + b" " * 9000)
        with open_source(str(path)) as source:
            assert late.text_around(source, [rb'"py-spy"']).count(b'"py-spy"') == 1


def test_the_search_ends_when_each_word_was_found_often_enough(tmp_path: Path) -> None:
    path = write(tmp_path / "x", [*FILLING, *(x("f", START, 2, cat="py-spy") for _ in range(50_000))])
    with open_source(str(path)) as source:
        found = late.text_around(source, [rb'"py-spy"'])
        assert len(found) <= late.MOST_MATCHES * (2 * late.AROUND_BYTES + 1)
        assert source.share_read() < 0.9


def test_a_search_leaves_most_of_the_time_that_is_allowed_to_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "x.json", FILLING * 20)
    clock = iter([1.0] * 6 + [5.0] * 1000)
    monkeypatch.setattr(limits.time, "monotonic", lambda: next(clock))
    with applied(Limits(seconds=10, began=0.0)):
        trace = tracekit.read(path)
    assert trace.events.num_rows == LONG * 20
    assert not trace.incomplete


def device_rows(trace: Trace) -> set[tuple[Any, ...]]:
    return {(r["kind"], r["device"], r["stream"]) for r in rows(trace) if r["name"].startswith("fusion")}


def test_names_of_devices_at_the_end_place_rows_at_the_begin(tmp_path: Path) -> None:
    """Several slabs of 2 MiB: rows are placed when their slab is read."""
    work = [x(f"fusion.{i % 5}", START + i, 0.5, pid=9, tid=4) for i in range(30_000)]
    names = [meta("process_name", 9, "/device:GPU:1"), meta("thread_name", 9, "Stream #4", 4)]
    path = write(tmp_path / "x.json", [*work, *FILLING, *names], displayTimeUnit="ns", **{"highres-ticks": True})
    assert path.stat().st_size > 2 << 20
    assert device_rows(tracekit.read(path)) == {("kernel", 1, 4)}


def test_arrows_to_tasks_that_come_later_end_at_them(tmp_path: Path) -> None:
    def arrow(phase: str, pid: int, tid: int, ts: str) -> Event:
        return {"ph": phase, "name": "torch_to_npu", "id": "77", "cat": "async_npu", "pid": pid, "tid": tid, "ts": ts}

    names = [meta("process_name", 800, "Ascend Hardware"), meta("process_labels", 800, "NPU 2")]
    names.append(meta("thread_name", 800, "Stream 33", 3))
    operators = [x("aten::mm", START + i, 0.5, cat="cpu_op", args={"Sequence number": i}) for i in range(30_000)]
    start, end = arrow("s", 437, 437, f"{START}.5"), arrow("f", 800, 3, f"{START + 3000}.250")
    path = write(tmp_path / "x.json", [start, end, *operators, task(f"{START + 3000}.250", 10), *names])
    assert path.stat().st_size > 2 << 20
    trace = tracekit.read(path)
    ends = [r for r in rows(trace) if r["kind"] == "flow"]
    assert [(r["pid"], r["tid"], r["device"], r["stream"]) for r in ends] == [
        (437, 437, None, None), (None, None, 2, 33)
    ]  # fmt: skip
    assert ends[0]["correlation"] == ends[1]["correlation"]
    assert trace.run.devices == {(0, 2): "Ascend Hardware"}


def test_viztracers_clock_stands_before_the_texts_of_its_program(tmp_path: Path) -> None:
    """`file_info` has whole source files: the metadata are further from the end than facts are looked for."""
    facts = {"version": "1.0.1", "overflow": False, "baseTimeNanoseconds": 1795224918918837881}
    info = {"files": {"a.py": ["x = [{}]\n" * 300_000, 3]}}
    path = write(tmp_path / "x.json", [x("f", 5, 2, cat="FEE")] * 2, viztracer_metadata=facts, file_info=info)
    assert tracekit.read(path).run.origin_ns == 1795224918918837881


@pytest.mark.parametrize(
    "beside",
    [
        {"viztracer_metadata": {"version": "1.0.1", "overflow": True}},
        {"overflow": True},
        {"otherData": {"overflow": True}},
    ],
)
def test_a_buffer_that_overflowed_is_told(beside: dict[str, Any], tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", FILLING, **beside)
    (note,) = inspect(path).inputs[0]["ledger"]["notes"]
    assert (note["code"], "overflowed" in note["text"]) == ("profiler-warning-overflow", True)
    (section,) = tracekit.summary(path, views=["findings"]).sections
    assert any("overflowed" in finding.claim for finding in section.findings)


@pytest.mark.parametrize("value", [False, 0, "no", None])
def test_a_buffer_that_did_not_overflow_is_not_told(value: object, tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", FILLING, viztracer_metadata={"overflow": value})
    assert not inspect(path).inputs[0]["ledger"]["notes"]


def test_a_head_of_metadata_alone_leaves_clock_and_unit_to_the_rest(tmp_path: Path) -> None:
    names = [meta("thread_name", 1, f"worker {i}", i) | {"ts": 0} for i in range(2000)]
    for times, per_us in (((START, 2), 1000), ((START * 1000, 2000), 1)):
        path = write(tmp_path / "x.json", [*names, x("f", *times)])
        trace = tracekit.read(path)
        assert trace.run.origin_ns == 0
        assert [(r["ts_ns"], r["dur_ns"]) for r in rows(trace)] == [(START * 1000, 2000)]
        assert ("ns-guessed" in trace.ledgers[0].notes) == (per_us == 1)


def test_the_guess_of_ns_is_told_wherever_times_are(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps([x("f", START * 1000, 2000)]), encoding="utf-8")
    said = "the unit of times is a guess"
    assert said in str(inspect(path).inputs[0]["ledger"]["notes"])
    assert said in str(tracekit.summary(path).headline)
    tracekit.write_report(path, tmp_path / "x.html")
    assert said in (tmp_path / "x.html").read_text(encoding="utf-8")
    converted = tracekit.convert(path, tmp_path / "x.parquet")
    assert said in str(converted.ledgers[0].notes)

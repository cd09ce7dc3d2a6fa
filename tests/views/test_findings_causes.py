"""Findings that name the cause: host pauses, requests, first steps, loaders by name, and which one explains which."""

from __future__ import annotations

from typing import Any

import pytest
from views.hosts import call, op, work
from views.tables import Row, dicts, trace
from views.test_findings import FINDINGS, MS, US, found, one, step

from tracekit.errors import UsageError
from tracekit.index import owners as owners_of
from tracekit.index import pauses as host_pauses
from tracekit.index import pauses as loaders
from tracekit.index.trace_index import TraceIndex, index_of
from tracekit.model.trace import Trace
from tracekit.pipeline import render, report_of
from tracekit.render.base import RenderOptions
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions


def training(
    steps: int = 12, kernels: int = 20, pause: dict[int, int] | None = None, first: int = 0, annotated: bool = True
) -> list[Row]:
    """Steps of operators of 20 us with kernels of 50 us; pause: ns at the end of a step; first: more for step 0."""
    rows: list[Row] = []
    at = free = correlation = 0
    for number in range(steps):
        begin = at
        for i in range(kernels):
            took = 20 * US + (first if number == 0 and i == 0 else 0)
            begun = max(at + took, free)
            free = begun + 50 * US
            correlation += 1
            rows += [
                op("aten::mm" if i else "aten::zero_", at, at + took),
                call(correlation, at + took - 5 * US, at + took), work("gemm", correlation, begun, free),
            ]  # fmt: skip
            at += took + 2 * US
        rows.append(op("cudaStreamSynchronize", at, max(at, free) + US, "runtime", correlation=10_000 + number))
        at = max(at, free) + 2 * US
        at += (pause or {}).get(number, 0)
        if annotated:
            rows.append(step(number, begin, at))
    return rows


def length(rows: list[Row]) -> int:
    return max(int(row["ts_ns"]) + int(row["dur_ns"]) for row in rows)


@pytest.mark.parametrize("annotated", [True, False])
def test_garbage_collection_is_a_pause_of_the_host_and_nothing_else(annotated: bool) -> None:
    ill = training(pause={4: 40 * MS, 9: 40 * MS}, annotated=annotated)
    true = length(ill) - length(training(annotated=annotated))
    section = FINDINGS(trace(*ill), ViewOptions())
    finding = section.findings[0]
    assert finding.rule == "host pauses"
    assert "2 times for 80 ms in all" in finding.claim
    assert "comes after cudaStreamSynchronize and before aten::zero_" in finding.claim
    assert ("in steps 4, 9:" in finding.claim) == annotated
    assert true * 0.98 <= finding.saving_ns <= true * 1.25
    assert finding.confidence == "medium"
    assert not {"launch-bound", "data loading"} & {each.rule for each in section.findings}


def test_a_pause_behind_a_busy_device_is_no_finding() -> None:
    rows: list[Row] = []
    for i in range(10):
        rows += [call(i, i * 10 * US, i * 10 * US + US), work("gemm", i, (i + 1) * MS, (i + 2) * MS)]
    rows += [op("aten::zero_", 9 * MS, 9 * MS + US)]
    assert not found(trace(*rows), "host pauses")


def test_without_operators_the_host_may_compute_in_a_pause() -> None:
    rows: list[Row] = []
    for i in range(20):
        at = i * 20 * US + (40 * MS if i >= 10 else 0)
        rows += [call(i, at, at + 5 * US), work("gemm", i, at + 6 * US, at + 24 * US)]
    finding = one(trace(*rows), "host pauses")
    assert finding.confidence == "low"
    assert "no call or load runs" in finding.claim
    assert finding.because.startswith("the trace has no operators, so the host may compute in these pauses")


def test_pauses_that_a_range_names_say_so() -> None:
    rows = training(pause={4: 40 * MS, 9: 40 * MS})
    starts = [row["ts_ns"] + row["dur_ns"] - 40 * MS for row in rows if row.get("step") in (4, 9)]
    rows += [op("gc.collect", at, at + 39 * MS, "user_range") for at in starts]
    assert one(trace(*rows), "host pauses").claim.endswith("before aten::zero_ in gc.collect.")


def serving(pauses: list[int], name: str = "") -> list[Row]:
    """Requests that come after pauses of so many ns: a copy, ten kernels, and a wait for the result."""
    rows: list[Row] = []
    at = correlation = 0
    for pause in pauses:
        if name:
            rows.append(op(name, at, at + pause, "user_range"))
        at += pause
        rows += [op("aten::copy_", at, at + 10 * US)]
        free = at
        for _ in range(12):
            at += 10 * US
            correlation += 1
            begun = max(at + 6 * US, free)
            free = begun + 30 * US
            rows += [call(correlation, at, at + 5 * US), work("gemm", correlation, begun, free)]
        rows.append(op("cudaStreamSynchronize", at + 6 * US, free + US, "runtime", correlation=10_000 + correlation))
        at = free + 5 * US
    return rows


@pytest.mark.parametrize("name", ["", "wait_for_request", "queue.get"])
def test_a_server_that_waits_for_requests_is_not_ill(name: str) -> None:
    lengths = [3, 9, 1, 14, 6, 2, 22, 5, 8, 4, 12, 7, 3, 10, 6]
    section = FINDINGS(trace(*serving([ms * MS for ms in lengths], name)), ViewOptions())
    assert [each.rule for each in section.findings if each.confidence != "low"] == []


def test_a_wait_within_a_request_still_counts() -> None:
    """Each request waits in its middle too, and the host then works before it launches more."""
    rows = serving([3 * MS] * 15)
    ill: list[Row] = []
    shift = 0
    for row in sorted(rows, key=lambda row: int(row["ts_ns"])):
        moved = {**row, "ts_ns": row["ts_ns"] + shift}
        ill.append(moved)
        if row["name"] == "aten::copy_":
            shift += 5 * MS
            ends = int(moved["ts_ns"]) + 10 * US
            ill += [
                call(20_000 + shift, ends, ends + US), work("pre", 20_000 + shift, ends + US, ends + 3 * MS),
                op("cudaStreamSynchronize", ends + US, ends + 3 * MS, "runtime", correlation=30_000 + shift),
                op("aten::sort", ends + 3 * MS, ends + 4 * MS + 900 * US),
            ]  # fmt: skip
    finding = one(trace(*ill), "needless synchronization")
    assert "15 calls" in finding.claim


def test_a_slow_first_step_is_warm_up_and_not_launch_bound() -> None:
    rows = training(steps=12, kernels=200, first=300 * MS)
    rules = {each.rule for each in FINDINGS(trace(*rows), ViewOptions()).findings}
    assert "warm-up" in rules
    assert not {"launch-bound", "host pauses", "little parallelism"} & rules


def test_launching_that_is_slow_in_every_step_is_found_beside_a_slow_first_step() -> None:
    """Kernels of 4 us and operators of 20 us: without launching each step takes its kernels' time."""
    rows: list[Row] = []
    at = correlation = 0
    for number in range(12):
        begin = at
        for i in range(100):
            took = 20 * US + (50 * MS if number == 0 and i == 0 else 0)
            correlation += 1
            rows += [
                op("aten::add", at, at + took), call(correlation, at + took - 5 * US, at + took),
                work("add", correlation, at + took, at + took + 4 * US),
            ]  # fmt: skip
            at += took
        rows.append(step(number, begin, at))
    finding = one(trace(*rows), "launch-bound")
    true = 12 * 100 * 16 * US
    assert true <= finding.saving_ns <= 1.25 * true
    assert "(loading, pauses and first steps not counted): the host launches too late" in finding.claim


def loading(name: str, kind: str = "user_range") -> Trace:
    rows: list[Row] = []
    for i in range(20):
        at = i * MS
        rows += [
            op(name, at, at + 500 * US, kind), call(i, at + 500 * US, at + 510 * US),
            work("gemm", i, at + 510 * US, at + 990 * US),
            op("cudaStreamSynchronize", at + 510 * US, at + 991 * US, "runtime", correlation=100 + i),
        ]  # fmt: skip
    return trace(*rows)


@pytest.mark.parametrize(
    "name", ["DataLoader", "data_loading", "load_batch", "next(batch)", "fetch", "[DALI] Pipeline::Run", "next_batch",
             "Iterator::Prefetch::Map", "webdataset.next", "DALIGenericIterator.__next__",
             "tf.data.Iterator.get_next", "get batch", "enumerate(DataLoader)#_Single.__next__"],
)  # fmt: skip
def test_loaders_are_recognised_by_their_names(name: str) -> None:
    finding = one(loading(name), "data loading")
    assert finding.saving_ns >= 20 * 500 * US * 0.98
    assert any(each.cell == f"user_defined.{name}.total" for each in finding.evidence)


@pytest.mark.parametrize("name", ["prefetch_weights", "upload", "target", "forward", "loader_free", "payload"])
def test_other_names_are_no_loaders(name: str) -> None:
    assert not found(loading(name), "data loading")


def test_a_loader_of_the_users_own_name() -> None:
    made = loading("my_reader")
    assert not found(made, "data loading")
    section = FINDINGS(made, ViewOptions(values={"loader": "my_rea"}))
    assert section.findings[0].rule == "data loading"
    assert loaders.find_loaders(TraceIndex(made), "my_rea").size == 20
    with pytest.raises(UsageError, match="not a valid regular expression"):
        FINDINGS(made, ViewOptions(values={"loader": "("}))


def test_a_symptom_comes_after_its_cause_and_names_it() -> None:
    """The loader copies its batch from pageable memory: the copies are part of the loading."""
    rows: list[Row] = []
    for i in range(20):
        at = i * MS
        rows += [
            op("DataLoader", at, at + 600 * US, "dataloader"),
            op("cudaMemcpyAsync", at + 100 * US, at + 400 * US, "runtime", correlation=1000 + i),
            work("Memcpy HtoD (Pageable -> Device)", 1000 + i, at + 110 * US, at + 390 * US, "memcpy", bytes=1 << 20),
            call(i, at + 600 * US, at + 610 * US), work("gemm", i, at + 610 * US, at + 990 * US),
            op("cudaStreamSynchronize", at + 610 * US, at + 991 * US, "runtime", correlation=100 + i),
        ]  # fmt: skip
    made = trace(*rows)
    section = FINDINGS(made, ViewOptions())
    rules = [each.rule for each in section.findings]
    assert rules.index("data loading") < rules.index("pageable copies")
    part_of = {each.rule: each.part_of for each in section.findings}
    assert part_of["data loading"] == ""
    assert part_of["pageable copies"] == "data loading"
    report = report_of(made, [section])
    for form, words in {
        "text": "part of       data loading: see there first", "json": '"part_of": "data loading"',
        "html": "data loading: see there first", "markdown": "part of: data loading: see there first",
    }.items():  # fmt: skip
        assert words in render(report, form, RenderOptions(width=100)), form


def test_pauses_are_the_gaps_between_all_that_the_launching_threads_do() -> None:
    rows = [
        op("aten::a", 0, 2 * MS), call(1, MS, MS + US), work("k", 1, 2 * MS, 3 * MS),
        op("aten::b", 6 * MS, 7 * MS, tid=8), call(2, 6 * MS, 6 * MS + US, tid=8), work("k", 2, 7 * MS, 8 * MS),
        op("aten::worker", 3 * MS, 5 * MS, tid=9), op("aten::c", 8 * MS, 9 * MS),
    ]  # fmt: skip
    index = TraceIndex(trace(*rows))
    pauses = host_pauses.find(index, owners_of.find(index), 0, least=MS)
    assert pauses is not None
    assert [(a // MS, b // MS) for a, b in zip(pauses.starts, pauses.ends, strict=True)] == [(2, 6), (7, 8)]
    assert pauses.idle.tolist() == [3 * MS, 0]


def test_work_that_another_rank_launched_tells_nothing_of_the_host() -> None:
    common = {"ts_ns": 0, "pid": 1}
    rows = (
        {"name": "a", "kind": "operator", "dur_ns": 1, "tid": 7, "rank": 0, **common},
        {"name": "cudaLaunchKernel", "kind": "runtime", "dur_ns": 0, "tid": 8, "correlation": 0, "rank": 1, **common},
        {"name": "x", "kind": "kernel", "dur_ns": 0, "device": 0, "stream": 1, "correlation": 0, "rank": 0, **common},
    )
    index = TraceIndex(trace(*rows))
    owners = owners_of.find(index)
    assert [host_pauses.find(index, owners, owner) for owner in range(len(owners))] == [None, None]


def test_evidence_is_of_the_process_that_the_finding_is_about() -> None:
    """Two processes wait in calls of one name; the second waits longer, and its device is another one."""
    rows: list[dict[str, Any]] = []
    for pid, wait_us in ((1, 300), (2, 900)):
        for i in range(20):
            at, common = i * 2_000 * US, {"pid": pid, "rank": pid, "tid": pid}
            call = {**common, "kind": "runtime", "name": "cudaLaunchKernel", "correlation": i}
            rows.append({**call, "ts_ns": at, "dur_ns": 5 * US})
            work = {"pid": pid, "rank": pid, "device": pid, "stream": 7, "kind": "kernel", "name": "gemm"}
            rows.append({**work, "ts_ns": at + 10 * US, "dur_ns": wait_us * US, "correlation": i})
            sync = {**common, "kind": "runtime", "name": "cudaDeviceSynchronize"}
            rows.append({**sync, "ts_ns": at + 6 * US, "dur_ns": (wait_us + 6) * US})
            op = {**common, "kind": "operator", "name": "aten::sort", "dur_ns": (1_900 - wait_us) * US}
            rows.append({**op, "ts_ns": at + (wait_us + 20) * US})
    made = trace(*rows)
    finding = one(made, "needless synchronization")
    wait_us = 300 if finding.owner == "rank 1" else 900
    idle = next(
        row for row in dicts(VIEWS["idle"].compute(index_of(made), ViewOptions()).tables[0])
        if row["cause"] == "synchronization" and row["rank"] == (1 if wait_us == 300 else 2)
    )  # fmt: skip
    assert {each.cell: each.value for each in finding.evidence} == {
        f"api.cudaDeviceSynchronize.calls ({finding.owner})": 20,
        f"api.cudaDeviceSynchronize.total ({finding.owner})": 20 * (wait_us + 6) * US,
        "idle.synchronization.total": idle["total"],
    }

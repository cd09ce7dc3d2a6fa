"""The time of a step where the host runs ahead of the device."""

from __future__ import annotations

from typing import Any

import pytest
from views.tables import dicts, trace

import tracekit
from tracekit.index import owners as _owners
from tracekit.index.step_extents import StepExtents, step_extents
from tracekit.index.trace_index import index_of
from tracekit.model.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions
from tracekit.views.steps.steps import HOST, step_times

US = 1_000


def program(
    *,
    steps: int = 8,
    host_us: int = 800,
    device_us: int = 10_000,
    prefetch: bool = False,
    wait_each: int = 0,
    queued_us: int = 0,
    owner: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of steps that launch one kernel each, in the middle of their host range.

    wait_each: the host waits for the device at the end of every n-th step. queued_us: the device has that much to do
    that was launched before the trace begins. prefetch: each step first copies on a stream of its own, at once.
    """
    rows: list[dict[str, Any]] = []
    now, free = 0, queued_us * US
    common = {"pid": 1, "tid": 1, **(owner or {})}
    for number in range(steps):
        begin = now
        call = now + host_us * US // 2
        if prefetch:
            copy = {
                "ts_ns": now + 20 * US,
                "dur_ns": 300 * US,
                "kind": "memcpy",
                "name": "copy",
                "device": 0,
                "stream": 9,
            }
            rows.append({**common, **copy, "tid": None, "correlation": 1_000 + number})
            launch = {"ts_ns": now + 10 * US, "dur_ns": 5 * US, "kind": "runtime", "name": "cudaMemcpyAsync"}
            rows.append({**common, **launch, "correlation": 1_000 + number})
        launch = {"ts_ns": call, "dur_ns": 5 * US, "kind": "runtime", "name": "cudaLaunchKernel"}
        rows.append({**common, **launch, "correlation": number})
        start = max(call + 8 * US, free + US)
        kernel = {"ts_ns": start, "dur_ns": device_us * US, "kind": "kernel", "name": "gemm", "device": 0, "stream": 7}
        rows.append({**common, **kernel, "tid": None, "correlation": number})
        free = start + device_us * US
        now += host_us * US
        if wait_each and (number + 1) % wait_each == 0:
            now = max(now, free + 5 * US)
        step = {"ts_ns": begin, "dur_ns": now - begin, "kind": "step", "step": number, "name": f"ProfilerStep#{number}"}
        rows.append({**common, **step})
    return rows


def extents(made: Trace) -> StepExtents:
    index = index_of(made)
    return step_extents(index, _owners.find(index))


@pytest.mark.parametrize("prefetch", [False, True])
def test_where_the_host_runs_ahead_a_step_takes_the_time_of_the_device(prefetch: bool) -> None:
    made = trace(*program(prefetch=prefetch))
    found = extents(made)
    assert found.ahead.all()
    assert found.host.durations.tolist() == [800 * US] * 8
    assert found.steps.durations.tolist()[1:] == [10_001 * US] * 7
    # They follow each other up to the end of the last work.
    assert (found.steps.starts[1:] == (found.steps.starts + found.steps.durations)[:-1]).all()
    assert int((found.steps.starts + found.steps.durations)[-1]) == max(
        row["ts_ns"] + row["dur_ns"] for row in program(prefetch=prefetch) if row["kind"] == "kernel"
    )


def test_a_host_that_waits_every_few_steps_has_steps_of_the_device_between() -> None:
    found = extents(trace(*program(wait_each=4)))
    assert found.host.durations.tolist()[:3] == [800 * US] * 3
    assert found.ahead.all()
    assert all(abs(ns - 10_000 * US) < 600 * US for ns in found.steps.durations.tolist())


@pytest.mark.parametrize("shape", [{"wait_each": 1}, {"device_us": 300}, {"host_us": 10_000, "queued_us": 10_000}])
def test_where_both_agree_the_step_is_its_host_range(shape: dict[str, int]) -> None:
    made = trace(*program(**shape))
    found = extents(made)
    assert not found.ahead.any()
    assert found.steps is found.host
    times, every = VIEWS["steps"].compute(index_of(made), ViewOptions()).tables
    assert [row["which"] for row in dicts(times)] == ["all"]
    assert "host_time" not in [column.name for column in every.columns]


def test_work_without_launch_calls_or_steps_on_two_threads_leave_the_host_ranges() -> None:
    rows = [{**row, "correlation": None} for row in program()]
    assert not extents(trace(*rows)).ahead.any()
    rows = program()
    rows += [{**row, "tid": 2, "ts_ns": row["ts_ns"] + 300 * US} for row in rows if row["kind"] == "step"]
    assert not extents(trace(*rows)).ahead.any()


def test_each_rank_is_judged_alone() -> None:
    rows = program(owner={"rank": 0, "pid": 1}) + program(wait_each=1, owner={"rank": 1, "pid": 2})
    found = extents(trace(*rows))
    assert [found.host.owners.labels[owner] for owner in found.owners_ahead()] == ["rank 0"]


def test_the_view_and_the_headline_have_the_same_step_and_the_host_range_beside_it() -> None:
    made = trace(*program())
    index = index_of(made)
    section = VIEWS["steps"].compute(index, ViewOptions())
    times, every = section.tables
    assert [(row["which"], row["p50"]) for row in dicts(times)] == [("all", 10_001 * US), (HOST, 800 * US)]
    assert {row["host_time"] for row in dicts(every)} == {800 * US}
    assert any(note.startswith("the host runs ahead") for note in section.notes)
    shown = step_times(index)
    assert shown.ahead.all()
    assert shown.host_durations.tolist() == [800 * US] * 8
    headline = tracekit.summary(made).headline
    assert headline is not None
    assert headline.step is not None
    assert headline.step.median_ns == 10_001 * US


def test_slow_first_steps_of_the_device_are_warm_up_though_the_host_is_even() -> None:
    rows = program(steps=10)
    kernels = [row for row in rows if row["kind"] == "kernel"]
    kernels[0]["dur_ns"] += 90_000 * US
    for row in kernels[1:]:
        row["ts_ns"] += 90_000 * US
    made = trace(*rows)
    section = VIEWS["findings"].compute(index_of(made), ViewOptions())
    (warm_up,) = [each for each in section.findings if each.rule == "warm-up"]
    assert abs(warm_up.saving_ns - 90_000 * US) < 1_000 * US


def test_the_first_step_that_fills_the_pipeline_is_no_warm_up() -> None:
    """The device waits for the host in the first step alone, for less than a step takes."""
    rows = program(steps=10)
    for row in rows:
        if row["kind"] == "kernel":
            row["ts_ns"] += 6_000 * US
    made = trace(*rows)
    section = VIEWS["findings"].compute(index_of(made), ViewOptions())
    assert "warm-up" not in {each.rule for each in section.findings}


@pytest.mark.parametrize("waits", [True, False])
def test_work_launched_before_the_trace_is_in_no_step(waits: bool) -> None:
    # A kernel of a warm-up runs on; the first step waits for it (a synchronization at its begin), or queues behind it.
    late = 20_000
    rows = program(queued_us=0 if waits else late)
    if waits:
        rows = [{**row, "ts_ns": row["ts_ns"] + late * US} for row in rows]
        first = next(row for row in rows if row["kind"] == "step")
        first["ts_ns"], first["dur_ns"] = 0, first["dur_ns"] + late * US
    before = {"ts_ns": 5 * US, "dur_ns": (late - 10) * US, "kind": "kernel", "name": "gemm", "device": 0, "stream": 7}
    found = extents(trace({**before, "pid": 1, "correlation": 900}, *rows))
    assert found.ahead.all()
    assert found.steps.durations.tolist()[1:] == [10_001 * US] * 7
    assert 10_000 * US <= found.steps.durations[0] <= 10_500 * US

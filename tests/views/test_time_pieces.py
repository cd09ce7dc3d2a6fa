"""The pieces of each part of device time add up to it exactly, whatever runs at once and wherever the steps are."""

from __future__ import annotations

from typing import Any

import pytest
from support import SAMPLES, corpus, read_sample
from views.tables import trace as trace_of

import tracekit
from tracekit.model.report import Headline, TimePart
from tracekit.views.headline.pieces import MOST

EVERY = sorted(
    path.relative_to(SAMPLES).as_posix() for path in SAMPLES.glob("*/*.*") if not path.name.startswith("_")
)  # fmt: skip


def parts_of(*rows: dict[str, Any]) -> dict[str, TimePart]:
    headline = tracekit.summary(trace_of(*rows)).headline
    assert headline is not None
    (device,) = headline.devices
    return {part.name: part for part in device.parts}


def kernel(start: int, length: int, name: str, **more: Any) -> dict[str, Any]:
    return {"ts_ns": start, "dur_ns": length, "kind": "kernel", "name": name, "device": 0, "stream": 7, **more}


def pieces(part: TimePart) -> dict[str, tuple[int, int]]:
    return {each.name: (each.ns, each.count) for each in part.pieces}


def add_up(headline: Headline) -> None:
    for device in headline.devices:
        assert sum(part.ns for part in device.parts) == device.window_ns
        for part in device.parts:
            assert sum(each.ns for each in part.pieces) == part.ns, (device.label, part.name)
            assert len(part.pieces) <= MOST
            assert all(each.ns > 0 for each in part.pieces)
            rest = [each for each in part.pieces if each.others]
            named = [each.ns for each in part.pieces if not each.others]
            assert named == sorted(named, reverse=True)
            for each in rest:
                assert each is part.pieces[-1]
                assert each.most_ns <= min(named)
                assert each.most_ns <= each.ns <= each.others * each.most_ns


@pytest.mark.parametrize("name", EVERY)
def test_they_add_up_in_every_sample(name: str) -> None:
    headline = tracekit.summary(read_sample(name)).headline
    assert headline is not None
    add_up(headline)


@pytest.mark.parametrize(
    "name", ["kineto/hta_nccl_data.json.gz", "nsys_sqlite/h100_2gpu_1s_2026.2.sqlite", "kineto/hta_amd_mi250.json.gz"]
)
def test_they_add_up_in_public_profiles(name: str) -> None:
    headline = tracekit.summary(tracekit.read(corpus(name))).headline
    assert headline is not None
    add_up(headline)
    assert any(part.pieces for device in headline.devices for part in device.parts)


def test_what_runs_at_once_counts_for_the_class_with_more_time() -> None:
    parts = parts_of(
        kernel(0, 100, "sgemm"), kernel(50, 80, "elementwise_kernel", stream=9), kernel(300, 10, "softmax")
    )
    assert pieces(parts["compute"]) == {"gemm": (100, 1), "elementwise": (30, 1), "normalization": (10, 1)}


def test_collectives_count_where_no_compute_hides_them_and_copies_where_nothing_does() -> None:
    parts = parts_of(
        kernel(0, 100, "sgemm"),
        kernel(80, 60, "ncclDevKernel_AllReduce_Sum_f32", stream=9),
        {**kernel(130, 30, "Memcpy HtoD", stream=11), "kind": "memcpy"},
    )
    assert pieces(parts["exposed_comm"]) == {"all_reduce": (40, 1)}
    assert pieces(parts["exposed_copies"]) == {"Memcpy HtoD": (20, 1)}


def test_idle_time_is_that_of_the_steps_and_by_what_the_host_was_in() -> None:
    rows: list[dict[str, Any]] = [
        {"ts_ns": 0, "dur_ns": 1000, "kind": "operator", "name": "aten::slow", "tid": 1, "pid": 1},
        {"ts_ns": 900, "dur_ns": 10, "kind": "runtime", "name": "launch", "tid": 1, "pid": 1, "correlation": 1},
        {"ts_ns": 1500, "dur_ns": 10, "kind": "runtime", "name": "launch", "tid": 1, "pid": 1, "correlation": 2},
        kernel(950, 50, "a", pid=1, correlation=1),
        kernel(1550, 50, "b", pid=1, correlation=2),
    ]
    parts = parts_of(*rows)
    assert pieces(parts["idle"]) == {"aten::slow": (950, 1), "host late, in no range": (550, 1)}
    step = {"ts_ns": 0, "dur_ns": 1000, "kind": "step", "name": "s", "step": 0, "tid": 1, "pid": 1}
    of_step = parts_of(*rows, step)
    assert sum(ns for ns, _ in pieces(of_step["idle"]).values()) == of_step["idle"].ns < parts["idle"].ns


def test_many_names_leave_a_sum_of_the_others() -> None:
    rows = [{**kernel(100 * i, 10 + i, f"copy {i}"), "kind": "memcpy"} for i in range(60)]
    part = parts_of(*rows)["exposed_copies"]
    *named, rest = part.pieces
    assert [each.name for each in named] == [f"copy {i}" for i in range(59, 59 - MOST + 1, -1)]
    assert (rest.name, rest.ns) == ("", sum(10 + i for i in range(60 - MOST + 1)))
    assert rest.most_ns <= 10 + 60 - MOST

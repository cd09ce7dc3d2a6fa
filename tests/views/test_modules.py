"""The view modules: hand-made stacks and ranges of known times, and simulated ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from comparison.test_tree import MM, OTHER, SMALL, write
from views.hosts import Row, op, work
from views.tables import dicts
from views.test_training_phases import arrow, forward, index_of_rows, kernel, node

from tracekit.api import read
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Flame
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions


def module(name: str, start: int, end: int, number: int | None = None, caller: int | None = None, **more: Any) -> Row:
    """A call of a module in a stack, with Python's ids where a number is given."""
    told = {} if number is None else {"Python id": number, "Python parent id": caller, "Python module id": 0}
    return op(f"nn.Module: {name}", start, end, "python_op", args=json.dumps(told), **more)


def frame(name: str, start: int, end: int, number: int, caller: int | None = None, **more: Any) -> Row:
    """A frame of Python that is no module."""
    told = {"Python id": number, "Python parent id": caller}
    return op(name, start, end, "python_op", args=json.dumps(told), **more)


def modules(*rows: Row) -> tuple[list[Row], Any]:
    section = VIEWS["modules"].compute(index_of_rows(*rows), ViewOptions())
    return (dicts(section) if section.tables else []), section


def figures(rows: list[Row], *keys: str) -> dict[tuple[str, int], tuple[Any, ...]]:
    return {(row["name"], row["level"]): tuple(row.get(key) for key in keys) for row in rows}


NET = [
    frame("train.py(1): main", 0, 100, 1),
    module("Net_0", 10, 30, 2, 1),
    frame("net.py(9): forward", 11, 29, 3, 2),
    module("Linear_0", 12, 18, 4, 3),
    forward("addmm", 13, 17, 1),
    *kernel(1, 14, 20, 5),
    module("ReLU_0", 20, 24, 5, 3),
    forward("relu", 21, 23, 2),
    *kernel(2, 22, 26, 3),
    forward("mean", 25, 28, 3),
    *kernel(3, 26, 30, 2),
]
BACK = [
    *node("Mean", 40, 44, 3),
    *kernel(4, 41, 43, 6, 9),
    *node("Relu", 45, 49, 2),
    *kernel(5, 46, 50, 7, 9),
    *node("Addmm", 50, 58, 1),
    *kernel(6, 52, 60, 11, 9),
    *node("Accumulate", 59, 61, None),
    *kernel(7, 60, 72, 1, 9),
    op("Optimizer.step#SGD.step", 70, 80, "optimizer"),
    forward("add_", 71, 79),
    *kernel(8, 72, 75, 2),
]
WANTED = {
    ("Net_0", 0): (34, 8, 10, 24),
    ("Linear_0", 1): (16, 16, 5, 11),
    ("ReLU_0", 1): (10, 10, 3, 7),
    ("(backward, module not known)", 0): (1, 1, None, None),
    ("(optimizer)", 0): (2, 2, None, None),
}
KEYS = ("device_total", "device_self", "device_forward", "device_backward")


def test_modules_have_the_work_of_their_operators_and_of_the_nodes_of_these() -> None:
    rows, section = modules(*NET, *BACK)
    assert figures(rows, *KEYS) == WANTED
    assert [row["name"] for row in rows][:3] == ["Net_0", "Linear_0", "ReLU_0"]
    assert sum(row["device_self"] for row in rows) == 37
    (flame,) = section.figures
    assert isinstance(flame, Flame)
    assert dict(zip(flame.names, flame.new, strict=True)) == {"Net_0": 8, "Linear_0": 16, "ReLU_0": 10}


def test_modules_nest_by_time_where_frames_state_no_ids() -> None:
    bare = [{**row, "args": "{}"} if row["kind"] == "python_op" else row for row in NET]
    assert figures(modules(*bare, *BACK)[0], *KEYS) == WANTED


def test_ids_count_before_times_that_rounding_has_moved() -> None:
    """The inner module sticks out of the outer one by a nanosecond."""
    moved = [{**row, "dur_ns": 13} if row["name"] == "nn.Module: ReLU_0" else row for row in NET]
    assert ("ReLU_0", 1) in figures(modules(*moved, *BACK)[0], "calls")


@pytest.mark.parametrize("ids", [(2, 2), (2, 5), (5, 2)], ids=["itself", "a callee", "a circle"])
def test_frames_that_call_each_other_in_a_circle_are_read(ids: tuple[int, int]) -> None:
    rows, _ = modules(
        module("A_0", 0, 9, 2, ids[0]),
        module("B_0", 3, 5, 5, ids[1]),
        forward("mm", 3, 4),
        *kernel(1, 3, 6, 4),
    )
    assert {row["name"] for row in rows} == {"A_0", "B_0"}
    assert sum(row["device_self"] for row in rows) == 4


def test_a_forward_pass_that_runs_again_joins_the_modules_of_the_first() -> None:
    again = [
        module("Linear_0", 41, 47, 9, None, tid=9),
        forward("addmm", 42, 46, 7, tid=9),
        *kernel(4, 43, 60, 13, 9),
        forward("mm", 48, 52, None, tid=9),
        *kernel(5, 49, 75, 17, 9),
    ]
    rows, _ = modules(*NET, *node("Addmm", 40, 58, 1), *again)
    found = figures(rows, "device_self", "device_forward", "device_backward", "device_recompute", "calls")
    assert found["Linear_0", 1] == (5 + 13 + 17, 5, 17, 13, 2)
    assert "Linear_0" not in {name for name, level in found if level == 0}


def test_two_threads_that_share_sequence_numbers_give_each_module_its_own_nodes() -> None:
    def replica(tid: int, name: str, number: int) -> list[Row]:
        return [module(name, 10, 20, number, None, tid=tid), forward("addmm", 12, 18, 1, tid=tid)]

    rows, _ = modules(
        *replica(7, "Net_0", 1),
        *replica(8, "Net_1", 2),
        *node("Addmm", 30, 34, 1, 1),
        *kernel(1, 31, 40, 3, 9),
        *node("Addmm", 35, 39, 1, 2),
        *kernel(2, 36, 50, 8, 9),
        *arrow(1, 12, 30),
        *arrow(2, 12, 35, 8),
    )
    assert figures(rows, "device_backward") == {("Net_0", 0): (3,), ("Net_1", 0): (8,)}


def test_ranges_of_the_program_stand_for_modules_where_there_are_none() -> None:
    rows, section = modules(
        op("encoder", 0, 50, "user_range"),
        op("block 1", 5, 20, "user_range"),
        forward("mm", 6, 9),
        *kernel(1, 7, 30, 4),
        op("block 1", 60, 70, "user_range"),
        *kernel(2, 61, 80, 5),
        op("aten::mm, seq = 3", 62, 63, "user_range"),
        *kernel(3, 90, 95, 2),
        work("lost", 99, 100, 101),
    )
    assert figures(rows, "calls", "device_total") == {
        ("encoder", 0): (1, 4),
        ("block 1", 1): (1, 4),
        ("block 1", 0): (1, 5),
        ("(in no module)", 0): (None, 2),
        ("(launch not known)", 0): (None, 1),
    }
    assert [row["path"] for row in rows] == ["encoder", "encoder/block 1", "block 1", None, None]
    assert any("no modules" in note for note in section.notes)


def test_forward_and_backward_ranges_of_the_recorder_are_one_module() -> None:
    rows, _ = modules(
        op("net.forward", 0, 20, "user_range"),
        op("net.fc.forward", 2, 8, "user_range"),
        *kernel(1, 3, 30, 4),
        op("net.backward", 30, 60, "user_range"),
        op("net.fc.backward", 31, 40, "user_range"),
        *kernel(2, 32, 70, 9),
    )
    assert figures(rows, "calls", "device_forward", "device_backward") == {
        ("net", 0): (2, 4, 9),
        ("net.fc", 1): (2, 4, 9),
    }


def test_memory_that_is_allocated_in_a_module_counts_for_it_and_those_around_it() -> None:
    held = {"name": "[memory]", "kind": "memory", "pid": 1, "tid": 7}
    rows, _ = modules(
        *NET,
        {**held, "ts_ns": 14, "bytes": 100},
        {**held, "ts_ns": 15, "bytes": -100},
        {**held, "ts_ns": 26, "bytes": 30},
        {**held, "ts_ns": 90, "bytes": 7},
    )
    assert figures(rows, "allocated") == {("Net_0", 0): (130,), ("Linear_0", 1): (100,), ("ReLU_0", 1): (0,)}


def test_a_trace_without_modules_and_ranges_says_what_it_needs() -> None:
    rows, section = modules(forward("mm", 0, 5), *kernel(1, 1, 3, 4))
    assert not rows
    assert "needs modules" in section.notes[0]


@pytest.mark.parametrize("seed", range(6))
def test_simulated_programs_give_back_the_device_time_of_each_module(seed: int) -> None:
    rng = random.Random(seed)
    rows: list[Row] = []
    wanted: dict[str, list[int]] = {}
    clock = device = number = frames = sequence = 0
    calls: list[tuple[str, int]] = []

    def launch(owner: str, backward: bool, tid: int) -> None:
        nonlocal clock, device, number
        length = rng.randint(1, 30)
        number += 1
        device = max(device, clock + rng.randrange(9)) + length
        rows.extend(kernel(number, clock, device - length, length, tid))
        wanted.setdefault(owner, [0, 0])[backward] += length
        clock += 2

    def run(depth: int, path: str, caller: int | None) -> None:
        nonlocal clock, frames, sequence
        frames += 1
        mine, start = frames, clock
        clock += 1
        for child in range(rng.randint(0, 3) if depth < 4 else 0):
            run(depth + 1, f"{path}_{child}", mine)
        begin = clock
        clock += 1
        launch(path, False, 7)
        rows.append(forward("mm", begin, clock, sequence))
        calls.append((path, sequence))
        sequence += 1
        clock += rng.randint(1, 3)
        rows.append(module(path, start, clock, mine, caller))
        clock += rng.randrange(2)

    run(0, "M", None)
    for path, numbered in reversed(calls):
        start = clock
        clock += 1
        launch(path, True, 9)
        rows.extend(node("Mm", start, clock, numbered))
        clock += 1
    found, _ = modules(*rows)
    own = {row["name"]: row["device_self"] for row in found}
    assert own == {name: sum(ns) for name, ns in wanted.items()}
    (root,) = (row for row in found if row["name"] == "M")
    assert root["device_forward"] == sum(ns[0] for ns in wanted.values())
    assert root["device_backward"] == sum(ns[1] for ns in wanted.values())


def test_modules_have_the_flops_and_the_least_time_of_their_products(tmp_path: Path) -> None:
    """Two products of 4096 and one of 2048 on an H100 in bfloat16, and an operator of unknown work."""
    gemm = "gemm_bf16_s16816"
    file = write(
        tmp_path / "run.json",
        [
            (MM, gemm, 200_000, "A_0"),
            (MM, gemm, 150_000, "A_0"),
            (SMALL, gemm, 30_000, "B_0"),
            (OTHER, "k", 5_000, "B_0"),
        ],
        steps=1,
    )
    made = read(file)
    section = VIEWS["modules"].compute(TraceIndex(made), ViewOptions())
    found = {row["name"]: row for row in dicts(section)}
    assert {name: (row["flops"], row["floor_of"]) for name, row in found.items()} == {
        "A_0": (2 * 2 * 4096**3, 350_000),
        "B_0": (2 * 2048**3, 30_000),
    }
    assert found["A_0"]["floor"] == pytest.approx(2 * 2 * 4096**3 / 989.4e12 * 1e9, rel=0.002)


def top_of(rows: list[Row], top: int, **more: Any) -> tuple[list[str], int]:
    (table,) = VIEWS["modules"].compute(index_of_rows(*rows), ViewOptions(top=top, **more)).tables
    return [row["name"] for row in dicts(table)], table.omitted


def test_top_keeps_the_heaviest_rows_of_the_tree_with_the_modules_around_them() -> None:
    late = [module("Head_0", 31, 39, 9, 1), forward("addmm", 32, 36, 8), *kernel(9, 33, 90, 50)]
    assert top_of([*NET, *BACK, *late], 2) == (["Net_0", "Head_0"], 4)
    assert top_of([*NET, *BACK, *late], 3) == (["Net_0", "Linear_0", "Head_0"], 3)
    assert top_of([*NET, *BACK, *late], 9)[1] == 0


def test_top_keeps_rows_of_work_in_no_module_where_they_are_heavy() -> None:
    assert top_of([*NET, *kernel(9, 33, 90, 500)], 1) == (["(in no module)"], 3)


def test_top_goes_by_the_column_of_sort_where_one_is_named() -> None:
    assert top_of([*NET, *BACK], 2, sorted_by="device_self")[0] == ["Linear_0", "ReLU_0"]


def test_top_goes_by_host_time_where_no_device_worked_and_keeps_what_is_around_a_checkpoint() -> None:
    """The module that runs again for a checkpoint takes longer than the call around it, on another thread."""
    rows = [module("Net_0", 0, 10, 1), module("Linear_0", 1, 4, 2, 1), module("Relu_0", 5, 9, 3, 1),
            module("Linear_0", 20, 90, 4, None, tid=9)]  # fmt: skip
    assert top_of(rows, 2) == (["Net_0", "Linear_0"], 1)

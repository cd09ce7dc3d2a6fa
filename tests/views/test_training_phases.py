"""Phases of PyTorch's steps that are found from operators: hand-made steps of known times, and simulated ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from views.hosts import Row, call, op, work
from views.tables import dicts, trace

from tracekit.api import read
from tracekit.explanation import value_of
from tracekit.index.autograd import autograd_nodes
from tracekit.index.trace_index import TraceIndex
from tracekit.index.training_phases import training_phases
from tracekit.model.report import Section
from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

EVALUATE = "autograd::engine::evaluate_function: "


def forward(name: str, start: int, end: int, number: int | None = None, **more: Any) -> Row:
    """A forward operator with its sequence number."""
    told = {} if number is None else {"Sequence number": number, "Fwd thread id": 0}
    return op(f"aten::{name}", start, end, args=json.dumps(told), **more)


def node(name: str, start: int, end: int, number: int | None, thread: int = 1, **more: Any) -> list[Row]:
    """A node of autograd: the function around it and the node itself, on thread 9."""
    told = {} if number is None else {"Sequence number": number, "Fwd thread id": thread}
    where = {"tid": 9, "args": json.dumps(told), **more}
    return [op(f"{EVALUATE}{name}Backward0", start, end, **where), op(f"{name}Backward0", start, end, **where)]


def arrow(number: int, begin: int, end: int, begin_tid: int = 7, end_tid: int = 9) -> list[Row]:
    """An arrow from forward to backward."""
    start = {"name": "fwdbwd", "kind": "flow", "pid": 1, "correlation": number}
    return [{**start, "ts_ns": begin, "tid": begin_tid}, {**start, "ts_ns": end, "tid": end_tid}]


def kernel(number: int, launched: int, start: int, length: int, tid: int = 7) -> list[Row]:
    """A kernel and its launch."""
    return [call(number, launched, launched + 1, tid=tid), work(f"k{number}", number, start, start + length)]


def index_of_rows(*rows: Row) -> TraceIndex:
    run = Run(origin_ns=0, sources=[SourceFacts("a.json", "kineto")])
    made = trace(*rows, run=run)
    INDEXES.append(made)
    return TraceIndex(made)


INDEXES: list[Any] = []


def model(*rows: Row) -> tuple[dict[str, Row], dict[str, Row], Section]:
    """Return the rows of both tables by name."""
    section = VIEWS["model"].compute(index_of_rows(*rows), ViewOptions())
    tables = {t.name: {row["name"]: row for row in dicts(t)} for t in section.tables}
    return tables["model"], tables.get("phases", {}), section


STEP = [
    op("ProfilerStep#1", 0, 100, "step"),
    forward("addmm", 10, 20, 1),
    *kernel(1, 12, 30, 5),
    forward("relu", 22, 28, 2),
    *kernel(2, 23, 35, 3),
    *node("Relu", 40, 50, 2),
    *kernel(3, 42, 50, 7, 9),
    *node("Addmm", 52, 60, 1),
    *kernel(4, 54, 57, 11, 9),
    op("Optimizer.step#SGD.step", 70, 80, "optimizer"),
    forward("add_", 72, 78),
    *kernel(5, 73, 75, 2),
]


def test_forward_and_backward_of_a_step_are_found_from_its_operators_and_add_up_to_the_device_work() -> None:
    rows, phases, _ = model(*STEP)
    assert {name: (row["calls"], row["total"]) for name, row in rows.items()} == {
        "ProfileStep": (1, 100),
        "Forward": (1, 18),
        "Backward": (1, 20),
        "Optimization": (1, 10),
        "Others": (None, 52),
    }
    assert {name: row["device_total"] for name, row in rows.items()} == {
        "ProfileStep": 28,
        "Forward": 8,
        "Backward": 18,
        "Optimization": 2,
        "Others": 0,
    }
    assert {name: row["device_busy"] for name, row in phases.items()} == {
        "Forward": 8,
        "Backward": 18,
        "Optimization": 2,
    }


def test_work_outside_phases_and_work_without_a_launch_have_rows_of_their_own() -> None:
    stray = [*kernel(6, 90, 92, 4), work("lost", 77, 96, 99)]
    rows, phases, _ = model(*STEP, *stray)
    assert rows["Others"]["device_total"] == 4
    assert phases["(no phase)"]["device_busy"] == 4
    assert phases["(launch not known)"]["device_busy"] == 3
    assert sum(row["device_busy"] for row in phases.values()) == 28 + 4 + 3


def test_time_in_which_works_overlap_counts_once_in_the_busy_times_of_phases() -> None:
    both = [*STEP, *kernel(8, 43, 52, 10, 9), *kernel(9, 24, 36, 30)]
    _, phases, _ = model(*both)
    # k1 30-35, k2 35-38, k9 36-66, backward only from 66 to 68 beside it, then the optimizer from 75 to 77.
    assert {name: row["device_busy"] for name, row in phases.items()} == {
        "Forward": 36,
        "Backward": 2,
        "Optimization": 2,
    }
    assert phases["Forward"]["device_total"] == 5 + 3 + 30


def test_a_trace_of_inference_has_no_phases() -> None:
    section = VIEWS["model"].compute(
        index_of_rows(op("ProfilerStep#1", 0, 100, "step"), forward("addmm", 10, 20, 1), *kernel(1, 12, 30, 5)),
        ViewOptions(),
    )
    assert not section.tables


def test_an_operator_that_only_ends_with_backward_is_no_backward_pass() -> None:
    rows = [op("ProfilerStep#1", 0, 100, "step"), op("aten::threshold_backward", 5, 9), op("myBackward", 10, 19)]
    assert training_phases(index_of_rows(*rows)) is None


def test_a_range_that_names_forward_itself_is_not_found_again() -> None:
    rows, phases, _ = model(*STEP, op("my forward", 8, 30, "forward"))
    assert (rows["Forward"]["calls"], rows["Forward"]["total"]) == (1, 22)
    assert not phases


@pytest.mark.parametrize("frames", [True, False], ids=["with stacks", "without stacks"])
def test_forward_operators_that_run_again_in_a_node_are_recompute(frames: bool) -> None:
    again = [
        forward("addmm", 42, 45, 3, tid=9),
        *kernel(6, 43, 80, 4, 9),
        forward("empty", 45, 46, tid=9),
        forward("relu", 46, 48, 4, tid=9),
        forward("mm", 49, 55, tid=9),
        *kernel(7, 50, 85, 6, 9),
    ]
    frame = op("torch/utils/checkpoint.py(1120): recompute_fn", 41, 48, "python_op", tid=9) if frames else None
    rows, phases, _ = model(
        op("ProfilerStep#1", 0, 100, "step"),
        forward("addmm", 10, 20, 1),
        *node("Addmm", 40, 60, 1),
        *again,
        *([frame] if frame else []),
    )
    assert rows["Recompute"]["total"] == (7 if frames else 6)
    assert rows["Backward"]["total"] == 20 - rows["Recompute"]["total"]
    assert (phases["Recompute"]["device_total"], phases["Backward"]["device_total"]) == (4, 6)


def test_a_checkpoint_with_a_nested_backward_pass_recomputes_only_before_it() -> None:
    rows, phases, _ = model(
        op("ProfilerStep#1", 0, 100, "step"),
        forward("CheckpointFunction", 10, 20, 1),
        op(f"{EVALUATE}CheckpointFunctionBackward", 30, 90, tid=9, args='{"Sequence number": 1, "Fwd thread id": 1}'),
        op("CheckpointFunctionBackward", 31, 89, tid=9, args='{"Sequence number": 1, "Fwd thread id": 1}'),
        forward("addmm", 33, 40, 5, tid=9),
        *kernel(1, 34, 91, 3, 9),
        *node("Addmm", 50, 60, 5, 2),
        *kernel(2, 51, 95, 5, 9),
        forward("add_", 70, 75, tid=9),
        *kernel(3, 71, 101, 7, 9),
    )
    assert (phases["Recompute"]["device_total"], phases["Backward"]["device_total"]) == (3, 12)
    assert rows["Recompute"]["calls"] == 1


def test_a_pass_that_is_recorded_for_a_second_backward_is_no_recompute() -> None:
    _, phases, _ = model(
        op("ProfilerStep#1", 0, 100, "step"),
        forward("addmm", 10, 20, 1),
        *node("Addmm", 40, 60, 1),
        forward("t", 41, 43, 2, tid=9),
        forward("mm", 44, 50, 3, tid=9),
        *kernel(1, 45, 61, 5, 9),
    )
    assert set(phases) == {"Backward"}


def test_passes_of_gradient_accumulation_are_calls_of_their_own() -> None:
    rows, _, _ = model(
        op("ProfilerStep#1", 0, 100, "step"),
        forward("addmm", 10, 14, 1),
        *node("Addmm", 20, 25, 1),
        forward("addmm", 30, 34, 2),
        *node("Addmm", 40, 45, 2),
        op("Optimizer.step#SGD.step", 70, 80, "optimizer"),
    )
    assert (rows["Forward"]["calls"], rows["Forward"]["total"]) == (2, 8)
    assert (rows["Backward"]["calls"], rows["Backward"]["total"]) == (2, 10)


def test_two_forward_threads_that_share_sequence_numbers_keep_their_nodes_apart() -> None:
    """Numbers 1 and 2 exist on both threads; only one arrow tells the threads apart."""
    index = index_of_rows(
        forward("addmm", 10, 14, 1, tid=7),
        forward("relu", 16, 18, 2, tid=7),
        forward("addmm", 11, 15, 1, tid=8),
        forward("relu", 17, 19, 2, tid=8),
        *node("Relu", 40, 45, 2, 1),
        *node("Addmm", 46, 50, 1, 1),
        *node("Relu", 52, 55, 2, 2),
        *node("Addmm", 56, 60, 1, 2),
        *arrow(3, 17, 52, 8),
    )
    nodes = autograd_nodes(index)
    assert nodes is not None
    host = nodes.host
    pairs = {
        (int(host.starts[place]), int(host.starts[nodes.forward[place]]))
        for place in range(host.rows.size)
        if nodes.node[place]
    }
    assert pairs == {(40, 16), (46, 10), (52, 17), (56, 11)}


def test_threads_that_fit_equally_well_leave_the_forward_operator_unknown() -> None:
    index = index_of_rows(
        forward("addmm", 10, 14, 1, tid=7),
        forward("addmm", 11, 15, 1, tid=8),
        *node("Addmm", 46, 50, 1, 1),
        *node("Addmm", 56, 60, 1, 2),
    )
    nodes = autograd_nodes(index)
    assert nodes is not None
    assert nodes.forward.tolist() == [-1] * nodes.host.rows.size


def test_names_tell_threads_apart_where_no_arrow_does() -> None:
    index = index_of_rows(
        forward("addmm", 10, 14, 1, tid=7),
        forward("convolution", 11, 15, 1, tid=8),
        *node("Convolution", 46, 50, 1, 1),
        *node("Addmm", 56, 60, 1, 2),
    )
    nodes = autograd_nodes(index)
    assert nodes is not None
    host = nodes.host
    pairs = {(int(host.starts[p]), int(host.starts[nodes.forward[p]])) for p in range(host.rows.size) if nodes.node[p]}
    assert pairs == {(46, 11), (56, 10)}


def test_nodes_of_old_versions_without_a_function_around_them_are_found_by_their_arrows() -> None:
    _, phases, _ = model(
        op("ProfilerStep#1", 0, 100, "step"),
        op("aten::addmm", 10, 14),
        *kernel(1, 11, 13, 2),
        op("AddmmBackward", 40, 50, tid=9),
        *kernel(2, 41, 44, 5, 9),
        *arrow(1, 10, 40),
    )
    assert (phases["Forward"]["device_total"], phases["Backward"]["device_total"]) == (2, 5)


@pytest.mark.parametrize("tid", [7, 9], ids=["one thread", "two threads"])
def test_operators_without_numbers_steps_and_arrows_are_forward_beside_nodes(tid: int) -> None:
    _, phases, _ = model(
        op("aten::mm", 10, 14),
        *kernel(1, 11, 13, 2),
        op(f"{EVALUATE}MmBackward0", 20, 40, tid=tid),
        op("aten::mm", 21, 30, tid=tid),
        *kernel(2, 22, 44, 5, tid),
    )
    assert {name: row["device_total"] for name, row in phases.items()} == {"Forward": 2, "Backward": 5}


def nvtx(name: str, start: int, end: int, number: int, tid: int = 7) -> Row:
    """A range of emit_nvtx as Nsight Systems has it."""
    return op(name, start, end, tid=tid, raw_name=f"{name}, seq = {number}, op_id = {start}, sizes = [[8, 4]]")


@pytest.mark.parametrize("tids", [(7,), (7, 8)], ids=["one thread", "two threads"])
def test_nvtx_ranges_of_pytorch_show_the_phases_by_the_numbers_in_their_texts(tids: tuple[int, ...]) -> None:
    rows = [
        *(nvtx("aten::mm", 10 + tid, 20 + tid, 4, tid) for tid in tids),
        nvtx(f"{EVALUATE}MmBackward0", 40, 60, 4, 9),
        nvtx("MmBackward0", 41, 59, 4, 9),
        op("aten::mm", 42, 50, tid=9, raw_name="aten::mm, op_id = 9"),
        *kernel(1, 18, 20, 3),
        *kernel(2, 43, 60, 5, 9),
    ]
    _, phases, _ = model(*rows)
    assert (phases["Forward"]["device_total"], phases["Backward"]["device_total"]) == (3, 5)
    nodes = autograd_nodes(index_of_rows(*rows))
    assert nodes is not None
    known = nodes.forward[nodes.node] >= 0
    assert known.tolist() == [len(tids) == 1] * 2


def test_a_range_of_the_program_that_only_looks_like_a_node_is_none() -> None:
    rows = [op("MmBackward0", 10, 20, "user_range", raw_name="MmBackward0, op_id = 3"), op("aten::mm", 30, 40)]
    assert training_phases(index_of_rows(*rows)) is None


@pytest.mark.parametrize("seed", range(8))
def test_simulated_steps_give_back_the_device_time_of_each_phase(seed: int) -> None:
    rows, wanted = simulated(random.Random(seed))
    table, phases, _ = model(*rows)
    assert {name: row["device_total"] for name, row in phases.items()} == wanted
    for name in ("Forward", "Backward", "Recompute", "Optimization"):
        assert (table[name]["device_total"] if name in table else 0) == wanted.get(name, 0)
    assert sum(row["device_busy"] for row in phases.values()) == sum(wanted.values())


def simulated(rng: random.Random) -> tuple[list[Row], dict[str, int]]:
    """Return steps of a network whose layers may be checkpointed, and the ns of the kernels of each phase.

    Kernels of a single stream follow each other. Backward is on the thread of the step (as on a CPU) or on its own.
    """
    rows: list[Row] = []
    wanted: dict[str, int] = {}
    clock = device = number = 0
    sequence = rng.randrange(50)
    tid = rng.choice((7, 9))
    checkpointed = rng.choice((None, "reentrant", "plain"))

    def launch(phase: str, thread: int) -> None:
        nonlocal clock, device, number
        length = rng.randint(1, 40)
        number += 1
        device = max(device, clock + rng.randrange(30)) + length
        rows.extend((call(number, clock, clock + 1, tid=thread), work("k", number, device - length, device)))
        wanted[phase] = wanted.get(phase, 0) + length
        clock += 2

    def operator(phase: str, thread: int, numbered: bool) -> int:
        nonlocal clock, sequence
        start = clock
        clock += rng.randint(1, 3)
        for _ in range(rng.randint(1, 2)):
            launch(phase, thread)
        clock += 1
        rows.append(forward("mm", start, clock, sequence if numbered else None, tid=thread))
        sequence += numbered
        clock += rng.randrange(3)
        return sequence - 1

    def pass_back(numbers: list[int], layer: bool) -> None:
        nonlocal clock
        for number_of_op in reversed(numbers):
            start = clock
            clock += 1
            if layer and checkpointed == "plain" and number_of_op == numbers[-1]:
                operator("Recompute", tid, True)
                operator("Recompute", tid, True)
            operator("Backward", tid, False)
            rows.extend(node("Mm", start, clock, number_of_op, tid=tid))
            clock += rng.randrange(4)

    for step in range(rng.randint(1, 3)):
        begin = clock
        clock += 2
        layers = [[operator("Forward", 7, True) for _ in range(rng.randint(1, 3))] for _ in range(3)]
        for layer in reversed(layers):
            if checkpointed == "reentrant":
                start = clock
                clock += 2
                again = [operator("Recompute", tid, True) for _ in layer]
                pass_back(again, layer=False)
                told = json.dumps({"Sequence number": layer[0], "Fwd thread id": 1})
                for name in (f"{EVALUATE}CheckpointFunctionBackward", "CheckpointFunctionBackward"):
                    rows.append(op(name, start, clock, tid=tid, args=told))
                clock += 1
            else:
                pass_back(layer, layer=True)
        start = clock
        clock += 1
        operator("Optimization", 7, False)
        rows.append(op("Optimizer.step#Adam.step", start, clock, "optimizer"))
        clock += 3
        rows.append(op(f"ProfilerStep#{step}", begin, clock, "step"))
        clock += rng.randrange(5)
    return rows, wanted


@pytest.mark.parametrize("stacks", [True, False], ids=["with stacks", "without stacks"])
@pytest.mark.parametrize("mode", ["none", "reentrant", "saved tensors"])
def test_recorded_steps_have_their_passes_and_checkpoints(tmp_path: Path, mode: str, stacks: bool) -> None:
    """Two steps of two blocks, each of which is computed again where it is checkpointed."""
    torch = pytest.importorskip("torch")
    from torch.utils.checkpoint import checkpoint

    blocks = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8)) for _ in range(2)]
    optimizer = torch.optim.SGD([p for block in blocks for p in block.parameters()], lr=0.1)
    inputs = torch.randn(4, 8, requires_grad=True)

    def step() -> None:
        optimizer.zero_grad()
        hidden = inputs
        for block in blocks:
            hidden = block(hidden) if mode == "none" else checkpoint(block, hidden, use_reentrant=mode == "reentrant")
        hidden.pow(2).mean().backward()
        optimizer.step()

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        with_stack=stacks,
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=2),
    ) as profiler:
        for _ in range(4):
            step()
            profiler.step()
    profiler.export_chrome_trace(str(tmp_path / "run.json"))
    made = read(tmp_path / "run.json")
    section = VIEWS["model"].compute(TraceIndex(made), ViewOptions())
    calls = {row["name"]: row["calls"] for row in dicts(section)}
    again = 0 if mode == "none" else 4
    assert calls.pop("Recompute", 0) == again
    assert calls == {"ProfileStep": 2, "Forward": 2, "Backward": 2 + again, "Optimization": 2, "Others": None}
    bare = Trace(made.events.filter(pc.not_equal(made.events["kind"].cast("string"), "flow")), made.totals, made.run)
    with_arrows, without = (autograd_nodes(TraceIndex(each)) for each in (made, bare))
    assert with_arrows is not None
    assert without is not None
    assert with_arrows.arrows > 0
    assert without.arrows == 0
    assert with_arrows.forward.tolist() == without.forward.tolist()


def test_each_cell_of_found_phases_equals_the_quantity_that_explain_has_for_it() -> None:
    index = index_of_rows(*STEP)
    define = VIEWS["model"].define
    assert define is not None
    defined = set()
    for table in VIEWS["model"].compute(index, ViewOptions()).tables:
        for row in dicts(table):
            for column, cell in row.items():
                quantity = define(index, ViewOptions(), row, column)
                if quantity is not None:
                    assert value_of(quantity) == cell, (table.name, row, column)
                    defined.add((table.name, row["name"], column))
    for phase in ("Forward", "Backward"):
        assert {("model", phase, column) for column in ("calls", "total", "ratio", "avg", "device_total")} <= defined
        own = ("device_events", "device_total", "device_busy", "busy_ratio")
        assert {("phases", phase, column) for column in own} <= defined

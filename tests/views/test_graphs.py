"""The view graphs: replayed kernels belong to the operators whose calls were captured, or to none, with the reason."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from views.hosts import Row, op, work
from views.tables import dicts
from views.test_modules import module
from views.test_training_phases import forward, index_of_rows, node

import tracekit
from tracekit.index.graphs import graph_work
from tracekit.index.trace_index import TraceIndex
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

KERNELS = ("gemm", "relu", "gemm", "softmax")


def captured(
    start: int, names: tuple[str | None, ...] = KERNELS, runtime: str = "hip", first: int = 100, **more: Any
) -> list[Row]:
    """A capture of one call in each of some operators, 10 ns each."""
    rows = [op(f"{runtime}StreamBeginCapture", start, start + 1, "runtime", **more)]
    for number, name in enumerate(names):
        begin = start + 2 + 10 * number
        told = {} if name is None else {"kernel": name}
        rows += [
            op(f"aten::op{number}", begin, begin + 8, **more),
            op(f"{runtime}LaunchKernel", begin + 2, begin + 5, "runtime", correlation=first + number,
               args=json.dumps(told), **more),
        ]  # fmt: skip
    end = start + 2 + 10 * len(names)
    return [*rows, op(f"{runtime}StreamEndCapture", end, end + 1, "runtime", **more)]


def replayed(
    start: int, correlation: int, names: tuple[str, ...] = KERNELS, nodes: tuple[int, ...] = (), runtime: str = "hip",
    **more: Any,
) -> list[Row]:  # fmt: skip
    """A launch of the graph, with a kernel of 5 ns, 6 ns ... for each node."""
    rows = [op(f"{runtime}GraphLaunch", start, start + 2, "runtime", correlation=correlation, **more)]
    at = start + 5
    for number, name in enumerate(names):
        told = {"graph node id": nodes[number]} if nodes else {}
        rows.append(work(name, correlation, at, at + 5 + number, args=json.dumps(told), **more))
        at += 5 + number
    return rows


def graphs(*rows: Row) -> tuple[list[Row], dict[str, int], tuple[str, ...]]:
    section = VIEWS["graphs"].compute(index_of_rows(*rows), ViewOptions())
    tables = {table.name: dicts(table) for table in section.tables}
    operators = {row["name"]: row["device_total"] for row in tables.get("graph_operators", [])}
    return tables.get("graphs", []), operators, section.notes


ALL = {"aten::op0": 5, "aten::op1": 6, "aten::op2": 7, "aten::op3": 8}
NONE = {"(unattributed)": 26}


def test_a_capture_of_the_same_trace_with_equal_names_and_order_gives_each_kernel_its_operator() -> None:
    table, operators, notes = graphs(*captured(0), *replayed(100, 1), *replayed(200, 2))
    assert operators == {name: 2 * ns for name, ns in ALL.items()}
    (row,) = table
    assert (row["calls"], row["nodes"], row["device_total"], row["attributed"]) == (2, 4, 52, 52)
    assert row["how"] == "capture with equal names and order"
    assert not notes


def test_a_capture_in_another_input_of_the_run_counts_as_well() -> None:
    _, operators, _ = graphs(*captured(500, source=1), *replayed(100, 1))
    assert operators == ALL


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("gemm", "relu", "gemm"), "no capture has 4 nodes (the nearest: 3)"),
        (("gemm", "gemm", "relu", "softmax"), "kernel 2 of the capture has another name"),
        ((None, None, None, None), "does not name its kernels"),
        (("gemm", "relu", "gemm", None), "does not name its kernels"),
    ],
)
def test_a_capture_that_disagrees_is_refused_with_the_reason(names: tuple[str | None, ...], reason: str) -> None:
    table, operators, notes = graphs(*captured(0, names), *replayed(100, 1))
    assert operators == NONE
    assert (table[0]["attributed"], table[0]["how"]) == (0, "not known")
    assert reason in notes[0]


def test_a_copy_in_the_place_of_a_kernel_is_refused() -> None:
    rows = [{**row, "kind": "memcpy"} if row["name"] == "relu" else row for row in replayed(100, 1)]
    _, operators, notes = graphs(*captured(0), *rows)
    assert operators == NONE
    assert "node 2 is a kernel in the capture and a memcpy in the graph" in notes[0]


def test_without_a_capture_the_kernels_stay_unattributed() -> None:
    _, operators, notes = graphs(op("aten::launch", 99, 103), *replayed(100, 1))
    assert operators == NONE
    assert "no capture" in notes[0]


def test_numbers_of_nodes_give_the_order_where_parallel_branches_changed_that_of_time() -> None:
    """Nodes 7, 5, 8 and 6 ran in this order; the calls name no kernels, as those of CUDA do not."""
    captures = captured(0, (None,) * 4, "cuda")
    table, operators, _ = graphs(*captures, *replayed(100, 1, ("c", "a", "d", "b"), (7, 5, 8, 6), "cuda"))
    assert operators == {"aten::op2": 5, "aten::op0": 6, "aten::op3": 7, "aten::op1": 8}
    assert table[0]["how"] == "order of graph node ids"


def test_numbers_of_nodes_show_nothing_of_a_capture_in_another_input() -> None:
    captures = captured(0, (None,) * 4, "cuda", source=1)
    _, operators, _ = graphs(*captures, *replayed(100, 1, nodes=(5, 6, 7, 8), runtime="cuda"))
    assert operators == NONE


def test_a_number_of_0_is_no_number() -> None:
    captures = captured(0, (None,) * 4, "cuda")
    _, operators, _ = graphs(*captures, *replayed(100, 1, nodes=(0, 0, 0, 0), runtime="cuda"))
    assert operators == NONE


def test_calls_that_state_the_number_of_their_node_show_their_kernels() -> None:
    rows = captured(0, (None,) * 4, "cuda")
    launches = [row for row in rows if "LaunchKernel" in row["name"]]
    for number, row in enumerate(launches):
        row["args"] = json.dumps({"graph node id": 9 - number})
    table, operators, _ = graphs(*rows, *replayed(100, 1, nodes=(9, 8, 7, 6), runtime="cuda"))
    assert operators == ALL
    assert table[0]["how"] == "graph node id"


def test_calls_in_a_capture_that_ran_at_once_are_no_nodes() -> None:
    """A copy beside the capture has its device work; a driver call within a runtime call is one launch."""
    beside = [
        op("hipMemcpyAsync", 50, 51, "runtime", correlation=900),
        work("copy", 900, 60, 61, "memcpy"),
        op("hipModuleLaunchKernel", 5, 6, "driver", correlation=100),
    ]
    capture = captured(0, (*KERNELS, "tail"))
    _, operators, _ = graphs(*capture, *beside, *replayed(100, 1, (*KERNELS, "tail")))
    assert operators == {**ALL, "aten::op4": 9}


def test_ranges_around_captured_calls_stand_in_for_operators() -> None:
    rows = [{**row, "kind": "user_range", "name": "nvtx " + row["name"]} if row["name"].startswith("aten") else row
            for row in captured(0)]  # fmt: skip
    _, operators, _ = graphs(*rows, *replayed(100, 1))
    assert operators == {f"nvtx {name}": ns for name, ns in ALL.items()}


def test_modules_have_the_work_of_graphs_that_were_captured_in_them() -> None:
    rows = [*captured(0), module("Net_0", 0, 45, 1), module("Linear_0", 1, 21, 2, 1), *replayed(100, 1)]
    section = VIEWS["modules"].compute(index_of_rows(*rows), ViewOptions())
    assert {row["name"]: row["device_self"] for row in dicts(section)} == {"Net_0": 15, "Linear_0": 11}


@pytest.mark.parametrize("seed", range(6))
def test_of_many_graphs_each_takes_its_own_capture(seed: int) -> None:
    rng = random.Random(seed)
    shapes = {tuple(rng.choice("abc") for _ in range(rng.randint(1, 6))) for _ in range(5)}
    rows: list[Row] = []
    wanted: dict[str, int] = {}
    clock = 0
    for number, names in enumerate(sorted(shapes)):
        mine = captured(clock, names, first=1000 * (number + 1))
        rows += [{**row, "name": f"{row['name']} of {number}"} if row["name"].startswith("aten") else row
                 for row in mine]  # fmt: skip
        clock += 100
    for launch in range(12):
        number, names = rng.choice(list(enumerate(sorted(shapes))))
        rows += replayed(clock, launch + 1, names)
        for place in range(len(names)):
            name = f"aten::op{place} of {number}"
            wanted[name] = wanted.get(name, 0) + 5 + place
        clock += 100
    assert graphs(*rows)[1] == wanted


def annotated(rows: list[Row], *names: str, **more: Any) -> list[Row]:
    """The kernels of a replay with the names that a program gave to parts of the graph."""
    kernels = [row for row in rows if row["kind"] == "kernel"]
    for row, name in zip(kernels, names, strict=True):
        row["args"] = json.dumps({**json.loads(row["args"]), "name": name, **more} if name else json.loads(row["args"]))
    return rows


def test_parts_of_a_graph_that_the_program_named_have_a_table_and_stay_without_operator() -> None:
    rows = annotated(replayed(100, 1, nodes=(5, 6, 7, 8)), "attention", "attention", "", "mlp")
    section = VIEWS["graphs"].compute(index_of_rows(*rows), ViewOptions())
    tables = {table.name: {row["name"]: row["device_total"] for row in dicts(table)} for table in section.tables}
    assert tables["graph_operators"] == NONE
    assert tables["graph_annotations"] == {"attention": 11, "mlp": 8, "(no annotation)": 7}


def test_modules_have_the_named_parts_of_graphs_whose_capture_is_not_known() -> None:
    rows = [
        *annotated(replayed(100, 1, nodes=(5, 6, 7, 8)), "layers.0", "layers.0", "layers.1", ""),
        *annotated(replayed(200, 2, nodes=(5, 6, 7, 8)), "layers.0", "", "", "", autograd_phase="backward"),
    ]
    section = VIEWS["modules"].compute(index_of_rows(*rows), ViewOptions())
    table = {row["name"]: row for row in dicts(section)}
    assert {name: row["device_self"] for name, row in table.items()} == {
        "layers.0": 16, "layers.1": 7, "(in no module)": 29,
    }  # fmt: skip
    part = table["layers.0"]
    assert (part["calls"], part["total"], part["device_backward"]) == (2, None, 5)


def test_a_name_in_the_args_of_a_kernel_of_no_graph_is_no_annotation() -> None:
    rows = annotated(replayed(100, 1), "attention", "attention", "mlp", "mlp")
    section = VIEWS["graphs"].compute(index_of_rows(*rows), ViewOptions())
    assert [table.name for table in section.tables] == ["graphs", "graph_operators"]


def test_operators_have_the_kernels_that_they_captured_not_the_operator_around_the_launch() -> None:
    rows = [*captured(0), op("replay", 99, 109), *replayed(100, 1), *replayed(200, 2)]
    section = VIEWS["operator"].compute(index_of_rows(*rows), ViewOptions())
    own = {row["name"]: row["device_self"] for row in dicts(section) if not row["level"]}
    assert own == {name: 2 * ns for name, ns in ALL.items()} | {"replay": 0}


def test_kernels_of_a_graph_that_nothing_shows_stay_with_the_operator_around_the_launch() -> None:
    section = VIEWS["operator"].compute(index_of_rows(op("replay", 99, 109), *replayed(100, 1)), ViewOptions())
    assert {row["name"]: row["device_self"] for row in dicts(section) if not row["level"]} == {"replay": 26}
    assert any("26 ns of 26 ns in graphs (100.0 %)" in note for note in section.notes)


def test_the_backward_pass_of_a_graph_belongs_to_the_modules_of_its_forward_operators() -> None:
    """Captured in one graph: a forward operator in a module, and its node on the thread of autograd."""
    forward_call = op("hipLaunchKernel", 12, 13, "runtime", correlation=90, args=json.dumps({"kernel": "gemm"}))
    rows = [
        op("hipStreamBeginCapture", 1, 2, "runtime"),
        module("Net_0", 5, 30, 1),
        forward("addmm", 10, 20, 1),
        forward_call,
        *node("Addmm", 40, 50, 1, tid=7),
        {**forward_call, "ts_ns": 45, "correlation": 91, "args": json.dumps({"kernel": "gemm_back"})},
        op("hipStreamEndCapture", 60, 61, "runtime"),
        *replayed(100, 1, ("gemm", "gemm_back")),
    ]
    section = VIEWS["modules"].compute(index_of_rows(*rows), ViewOptions())
    (row,) = (row for row in dicts(section) if row["name"] == "Net_0")
    assert (row["device_self"], row["device_forward"], row["device_backward"]) == (11, 5, 6)


EAGER = (
    ("aten::embedding", "vectorized_gather_kernel", "cudaLaunchKernel"),
    ("aten::native_layer_norm", "vectorized_layer_norm_kernel<float>", "cudaLaunchKernel"),
    ("aten::addmm", "nvjet_sm90_tst_72x64", "cuLaunchKernelEx"),
    ("aten::gelu", "vectorized_elementwise_kernel<8, GeluCUDAKernelImpl>", "cudaLaunchKernel"),
    ("aten::addmm", "nvjet_sm90_tst_40x64", "cuLaunchKernelEx"),
    ("aten::add", "unrolled_elementwise_kernel<CUDAFunctor_add<float>>", "cudaLaunchKernel"),
)


def unnamed(start: int, nodes: tuple[tuple[str, str, str], ...] = EAGER, first: int = 100, dims: int = 8) -> list[Row]:
    """A capture as CUDA's calls show it: no names of kernels, no numbers of nodes."""
    rows = [op("cudaStreamBeginCapture", start, start + 1, "runtime")]
    for number, (operator, _, launch) in enumerate(nodes):
        begin = start + 2 + 10 * number
        rows += [
            op(operator, begin, begin + 8, args=json.dumps({"Input Dims": [[dims, dims]]})),
            op(launch, begin + 2, begin + 5, "runtime", correlation=first + number),
        ]
    end = start + 2 + 10 * len(nodes)
    return [*rows, op("cudaStreamEndCapture", end, end + 1, "runtime")]


def chain(start: int, correlation: int, nodes: tuple[tuple[str, str, str], ...] = EAGER, **more: Any) -> list[Row]:
    return replayed(start, correlation, tuple(kernel for _, kernel, _ in nodes), runtime="cuda", **more)


OPERATORS = {"aten::embedding": 5, "aten::native_layer_norm": 6, "aten::addmm": 7 + 9, "aten::gelu": 8, "aten::add": 10}


def test_a_chain_on_one_stream_has_the_order_of_its_capture_where_names_agree() -> None:
    table, operators, notes = graphs(*unnamed(0), *chain(100, 1), *chain(300, 2))
    assert operators == {name: 2 * ns for name, ns in OPERATORS.items()}
    assert table[0]["how"] == "order of one stream, with names that agree"
    assert not notes


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda rows: [{**row, "stream": 2} if "Gelu" in row["name"] else row for row in rows], "not one by one"),
        (lambda rows: [{**row, "dur_ns": 5000} if "Gelu" in row["name"] else row for row in rows], "not one by one"),
        (lambda rows: [{**row, "name": "nvjet_sm90"} if "Gelu" in row["name"] else row for row in rows], "do not show"),
        (lambda rows: [{**row, "name": "kernel"} if row["kind"] == "kernel" else row for row in rows], "do not show"),
    ],
    ids=["two streams", "side by side", "a name that contradicts", "names that say nothing"],
)
def test_work_whose_order_or_operators_nothing_shows_stays_unknown(change: Any, reason: str) -> None:
    _, operators, notes = graphs(*unnamed(0), *change(chain(100, 1)))
    assert set(operators) == {"(unattributed)"}
    assert reason in notes[0]


def test_a_capture_that_joins_streams_shows_no_order_without_names() -> None:
    joined = [*unnamed(0), op("cudaStreamWaitEvent", 24, 25, "runtime")]
    _, operators, notes = graphs(*joined, *chain(100, 1))
    assert set(operators) == {"(unattributed)"}
    assert "joins several streams" in notes[0]


def test_operators_that_are_all_the_same_show_no_order() -> None:
    same = (("aten::copy_", "copy_kernel", "cudaLaunchKernel"),) * 4
    _, operators, _ = graphs(*unnamed(0, same), *chain(100, 1, same))
    assert set(operators) == {"(unattributed)"}


def test_two_captures_that_fit_count_where_their_operators_are_the_same() -> None:
    other = tuple((("aten::mul" if name == "aten::gelu" else name), kernel, call) for name, kernel, call in EAGER)
    _, operators, _ = graphs(*unnamed(0), *unnamed(100, first=200, dims=16), *chain(300, 1))
    assert operators == OPERATORS
    _, operators, notes = graphs(*unnamed(0), *unnamed(100, other, first=200), *chain(300, 1))
    assert set(operators) == {"(unattributed)"}
    assert "2 captures fit it, and their operators differ" in notes[0]


def test_shapes_are_those_of_a_graph_where_all_captures_that_fit_have_the_same() -> None:
    one = graph_work(index_of_rows(*unnamed(0), *unnamed(100, first=200), *chain(300, 1)))
    assert one is not None
    assert one.shaped.all()
    two = graph_work(index_of_rows(*unnamed(0), *unnamed(100, first=200, dims=16), *chain(300, 1), *chain(500, 2)))
    assert two is not None
    assert not two.shaped[two.call >= 0].any()


def test_work_of_another_input_with_equal_names_and_order_has_the_same_operators() -> None:
    table, operators, _ = graphs(*unnamed(0), *chain(100, 1), *chain(900, 1, source=1))
    assert operators == {name: 2 * ns for name, ns in OPERATORS.items()}
    assert {row["how"] for row in table} == {
        "order of one stream, with names that agree", "work with equal names and order in another input",
    }  # fmt: skip


def test_a_recording_of_cuda_graphs_has_all_kernels_at_the_operators_that_captured_them() -> None:
    """Two blocks of a transformer, captured once and launched five times on an H100 by PyTorch 2.11."""
    trace = tracekit.read(Path(__file__).with_name("torch_graphs_h100.json.gz"))
    section = VIEWS["graphs"].compute(TraceIndex(trace), ViewOptions())
    table, operators = (dicts(each) for each in section.tables)
    (row,) = table
    assert (row["calls"], row["nodes"], row["attributed_ratio"]) == (5, 47, 1.0)
    assert {each["name"]: each["device_events"] for each in operators} == {
        "aten::gather": 5, "aten::native_layer_norm": 25, "aten::addmm": 40, "aten::copy_": 110, "aten::add": 20,
        "aten::_cudnn_attention_forward": 20, "aten::gelu": 10, "aten::mm": 5,
    }  # fmt: skip
    known = dicts(VIEWS["efficiency"].compute(TraceIndex(trace), ViewOptions()).tables[0])
    assert [(each["work"], each["share"]) for each in known] == [("known", 1.0)]

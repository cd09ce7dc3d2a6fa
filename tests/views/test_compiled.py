"""Kernels of torch.compile: the operators inside, their arguments, bytes and lower bounds, and where their code is."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from typing import Any

import pytest
from shaped_traces import BF, F32, ShapedTrace
from views.tables import dicts

import tracekit
from tracekit.analysis.efficiency import compiled
from tracekit.analysis.efficiency.compiled import operators_in, sizes_of
from tracekit.analysis.efficiency.operands import OperatorCall
from tracekit.index.trace_index import TraceIndex
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

HALF = "c10::Half"


def test_examples_in_docstrings_hold() -> None:
    assert doctest.testmod(compiled).failed == 0


def traced(folder: Path) -> Path:
    """Two kernels, one of them twice, as PyTorch 2.11 records them."""
    trace = ShapedTrace()

    def triton(name: str, us: float, *arguments: Any, **args: Any) -> None:
        trace.begin(name, *arguments)
        event = trace.events[-1]
        own = event["args"]
        assert isinstance(own, dict)
        own |= {"kernel_backend": "triton", "kernel_file": f"/tmp/inductor/{name}.py", **args}
        trace.kernel(us, name)
        trace.end()

    pointwise = ([64, 512], BF), ([64, 512], F32), ([64, 512], BF), "32768"
    for _ in range(2):
        triton(
            "triton_poi_fused__to_copy_add_3", 5.0, *pointwise, kernel_kwargs="XBLOCK=1024", num_warps=4, num_stages=1
        )
    triton(
        "triton_red_fused_mean_pow_1",
        9.0,
        ([64, 512], BF),
        ([64], F32),
        "64",
        "512",
        kernel_kwargs="XBLOCK=1,R0_BLOCK=512",
    )
    trace.op("aten::mm", ([64, 64], BF), ([64, 64], BF), us=6.0, kernel="gemm")
    return trace.write(folder)


def rows(path: Path) -> dict[str, dict[str, Any]]:
    section = VIEWS["compiled"].compute(TraceIndex(tracekit.read(path)), ViewOptions())
    return {row["name"]: row for row in dicts(section)} if section.tables else {}


def test_a_kernel_has_its_operators_arguments_bytes_and_source(tmp_path: Path) -> None:
    found = rows(traced(tmp_path))
    assert set(found) == {"triton_poi_fused__to_copy_add_3", "triton_red_fused_mean_pow_1"}
    pointwise = found["triton_poi_fused__to_copy_add_3"]
    assert {
        key: pointwise[key] for key in ("kind", "operators", "arguments", "elements", "calls", "total", "launch")
    } == {
        "kind": "pointwise",
        "operators": "_to_copy, add",
        "arguments": "64x512 BFloat16, 64x512 float, 64x512 BFloat16",
        "elements": 32768,
        "calls": 2,
        "total": 10_000,
        "launch": "XBLOCK=1024, warps=4, stages=1",
    }
    assert pointwise["source"] == "/tmp/inductor/triton_poi_fused__to_copy_add_3.py"
    assert pointwise["bytes"] == 2 * (2 + 4 + 2) * 32768
    assert pointwise["least_bytes"] == 2 * 32768
    assert pointwise["ratio"] == pytest.approx(10 / 25)
    reduction = found["triton_red_fused_mean_pow_1"]
    assert (reduction["kind"], reduction["operators"], reduction["elements"]) == ("reduction", "mean, pow", 64)
    assert reduction["least_bytes"] == 2 * 64


def test_the_least_bytes_are_never_above_those_of_all_tensors(tmp_path: Path) -> None:
    for row in rows(traced(tmp_path)).values():
        assert row["least_bytes"] * row["calls"] <= row["bytes"]


@pytest.mark.parametrize(
    ("call", "launch"),
    [
        (OperatorCall("triton_poi_fused_add_0", [[64]], [F32], [], [""]), ""),
        (OperatorCall("triton_red_fused_sum_0", [[64], []], [F32, "Scalar"], [], ["", "64"]), ""),
        (OperatorCall("triton_tem_fused_mm_0", [[64], []], [F32, "Scalar"], [], ["", "64"]), ""),
        (OperatorCall("triton_for_fused_0", [[64], []], [F32, "Scalar"], [], ["", "64"]), ""),
        (OperatorCall("triton_poi_fused_add_0", [[64], []], [F32, "Scalar"], [], ["", "65"]), ""),
        (OperatorCall("triton_poi_fused_add_0", [[64], []], [F32, "Scalar"], [], ["", "0"]), ""),
        (OperatorCall("triton_poi_fused_add_0", [[64], []], [F32, "Scalar"], [], ["", "1.5"]), ""),
        (
            OperatorCall("triton_red_fused_sum_0", [[64], [], []], [F32, *["Scalar"] * 2], [], ["", "8", "8"]),
            "R0_BLOCK=4,R1_BLOCK=2",
        ),
    ],
    ids=["no sizes", "one size", "a template", "a list", "more than any tensor", "nothing", "no integer", "two loops"],
)
def test_arguments_that_do_not_show_the_sizes_give_no_bound(call: OperatorCall, launch: str) -> None:
    assert sizes_of(call, launch) is None


def test_sizes_of_dynamic_shapes_before_the_loops_do_not_count() -> None:
    call = OperatorCall("triton_poi_fused_add_0", [[64], [], []], [HALF, *["Scalar"] * 2], [], ["", "7", "64"])
    found = sizes_of(call)
    assert found is not None
    assert (found.elements, found.least_bytes) == (64, 128)


def test_names_of_any_length_and_without_operators_are_read() -> None:
    assert operators_in("triton_poi_fused_0", {"add"}) == []
    assert operators_in("mine", {"add"}) == []
    assert operators_in("triton_poi_fused_" + "_".join(["add"] * 5000) + "_0", {"add"}) == ["_".join(["add"] * 5000)]
    assert operators_in("triton_poi_fused_add_add_1", {"add"}) == ["add", "add"]


def test_a_trace_without_such_kernels_says_what_it_needs(tmp_path: Path) -> None:
    trace = ShapedTrace()
    trace.op("aten::mm", ([64, 64], BF), ([64, 64], BF), us=6.0, kernel="gemm")
    section = VIEWS["compiled"].compute(TraceIndex(tracekit.read(trace.write(tmp_path))), ViewOptions())
    assert section.notes[0].startswith("needs kernels of torch.compile")


def test_args_that_are_odd_are_read(tmp_path: Path) -> None:
    path = traced(tmp_path)
    whole = json.loads(path.read_text())
    for event in whole["traceEvents"]:
        if "kernel_file" in event["args"]:
            event["args"] |= {"kernel_file": ["a", 1], "num_warps": None, "kernel_kwargs": {"X": 1}}
    path.write_text(json.dumps(whole))
    assert len(rows(path)) == 2


def test_the_table_has_all_columns_that_the_view_declares(tmp_path: Path) -> None:
    (table,) = VIEWS["compiled"].compute(TraceIndex(tracekit.read(traced(tmp_path))), ViewOptions()).tables
    declared = {(spec.key, spec.unit) for spec in VIEWS["compiled"].shows}
    assert {(column.name, column.unit) for column in table.columns} == declared

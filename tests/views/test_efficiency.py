"""Views of work: known share first, limits, MFU, shapes; and the columns of `operator` and `kernel`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from shaped_traces import BF, F32, ShapedTrace
from views.tables import dicts

import tracekit
from tracekit.model.report import Section
from tracekit.pipeline import view_named
from tracekit.views.base import ViewOptions

PEAK, MEMORY = 989.4e12, 3350e9
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n"


def shown(trace: ShapedTrace, folder: Path, name: str, **options: Any) -> Section:
    return tracekit.view(tracekit.read(trace.write(folder)), name, options=ViewOptions(**options))


def table(section: Section, name: str) -> list[dict[str, Any]]:
    return dicts(next(each for each in section.tables if each.name == name))


def product(trace: ShapedTrace, share: float, size: int = 4096) -> float:
    """A product of bf16 that reaches this share of the peak; return its us."""
    us = 2 * size**3 / PEAK / share * 1e6
    trace.op("aten::mm", ([size, size], BF), ([size, size], BF), us=us, kernel=GEMM)
    return us


def test_operators_and_kernels_show_rates_and_floors(tmp_path: Path) -> None:
    trace = ShapedTrace()
    trace.begin("aten::matmul", ([4096, 4096], BF), ([4096, 4096], BF))
    us = product(trace, 0.5)
    trace.end()
    trace.op("my::op", us=100.0, kernel="mine")
    rows = {row["name"]: row for row in table(shown(trace, tmp_path, "operator", op_detail=False), "operators")}
    inner, outer, other = rows["aten::mm"], rows["aten::matmul"], rows["my::op"]
    for row in (inner, outer):
        assert row["flops"] == 2 * 4096**3
        assert row["bytes"] == 3 * 2 * 4096**2
        assert row["tflops"] == pytest.approx(PEAK / 2e12, rel=1e-4)
        assert row["of_peak"] == pytest.approx(0.5, rel=1e-4)
        assert row["of_best"] == pytest.approx(0.5 * 989.4 / 794.5, rel=1e-4)
        assert row["bound"] == "compute"
        assert row["floor"] == pytest.approx(us * 500, abs=2)
        assert row["could_save"] == pytest.approx(us * 500, abs=2)
        assert row["known"] == 1.0
    assert other["flops"] is None
    assert other["known"] == 0.0
    kernels = {row["name"]: row for row in table(shown(trace, tmp_path, "kernel"), "kernels")}
    assert kernels[GEMM]["flops"] == 2 * 4096**3
    assert kernels["mine"]["flops"] is None


def test_without_shapes_no_column_is_added(tmp_path: Path) -> None:
    trace = ShapedTrace()
    trace.op("aten::mm", us=10.0)
    for name, of in (("operator", "operators"), ("kernel", "kernels")):
        (row, *_) = table(shown(trace, tmp_path, name), of)
        assert not {"flops", "bytes", "tflops", "of_peak", "floor", "known"} & set(row)
    for name in ("efficiency", "gemm", "convolution", "attention"):
        section = shown(trace, tmp_path, name)
        assert not section.tables
        assert section.notes[0].startswith("needs ")


def test_the_known_share_comes_first_and_the_rest_by_reason(tmp_path: Path) -> None:
    trace = ShapedTrace()
    product(trace, 0.5)
    trace.op("my::op", us=900.0)
    trace.kernel(300.0, launched=False)
    rows = table(shown(trace, tmp_path, "efficiency"), "known")
    assert [row["work"] for row in rows] == [
        "known", "no formula for this operator", "the launch is not in the trace"
    ]  # fmt: skip
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    (device,) = table(shown(trace, tmp_path, "efficiency"), "devices")
    assert device["peak"] == 989.4
    assert device["bandwidth"] == MEMORY
    assert device["source"].startswith("sheet: ")
    assert device["known"] == pytest.approx(rows[0]["total"] / (rows[0]["total"] + 1_200_000))


def test_families_and_limits(tmp_path: Path) -> None:
    trace = ShapedTrace()
    compute = product(trace, 0.6)
    far = product(trace, 0.2)
    big = ([1 << 28], BF)
    trace.op("aten::add", big, big, "1", us=1000.0, kernel="add")
    section = shown(trace, tmp_path, "efficiency")
    (device,) = table(section, "devices")
    assert device["compute"] == pytest.approx(compute * 1000, abs=2)
    assert device["far"] == pytest.approx(far * 1000, abs=2)
    assert device["memory"] == 1_000_000
    families = {row["family"]: row for row in table(section, "families")}
    assert families["elementwise"]["tflops"] is None
    assert families["elementwise"]["gbps"] == pytest.approx(3 * 2**29 / 1e-3)
    assert families["matrix product"]["calls"] == 2


def test_mfu_leaves_out_what_is_computed_again(tmp_path: Path) -> None:
    trace = ShapedTrace()
    trace.begin("ProfilerStep#1", cat="user_annotation")
    product(trace, 0.5)
    trace.begin("autograd::engine::evaluate_function: CheckpointFunctionBackward")
    product(trace, 0.5)
    trace.begin("autograd::engine::evaluate_function: MmBackward0")
    product(trace, 0.5)
    trace.end()
    trace.end()
    trace.now += 9_000
    trace.end()
    (row,) = table(shown(trace, tmp_path, "efficiency"), "steps")
    ideal = 2 * 4096**3 / PEAK * 1e9
    assert row["steps"] == 1
    assert row["mfu"] == pytest.approx(2 * ideal / row["step_time"], rel=1e-4)
    assert row["hfu"] == pytest.approx(3 * ideal / row["step_time"], rel=1e-4)
    assert row["known"] == 1.0


def test_each_step_has_its_own_figures(tmp_path: Path) -> None:
    trace = ShapedTrace()
    for number, products in ((3, 1), (4, 2)):
        trace.begin(f"ProfilerStep#{number}", cat="user_annotation")
        for _ in range(products):
            product(trace, 0.5)
        trace.now += 9_000
        trace.end()
    section = shown(trace, tmp_path, "efficiency")
    first, second = table(section, "each_step")
    assert (first["step"], second["step"]) == (3, 4)
    ideal = 2 * 4096**3 / PEAK * 1e9
    assert first["mfu"] == pytest.approx(ideal / first["step_time"], rel=1e-3)
    assert second["mfu"] == pytest.approx(2 * ideal / second["step_time"], rel=1e-3)
    (whole,) = table(section, "steps")
    assert whole["mfu_min"] == pytest.approx(min(first["mfu"], second["mfu"]))


def test_recomputation_by_frames_of_checkpointing(tmp_path: Path) -> None:
    trace = ShapedTrace()
    product(trace, 0.5)
    trace.begin("torch/utils/checkpoint.py(1511): recompute_fn", cat="python_function")
    product(trace, 0.5)
    trace.end()
    (row,) = table(shown(trace, tmp_path, "efficiency"), "steps")
    assert row["steps"] is None
    assert row["mfu"] == pytest.approx(row["hfu"] / 2)


def test_products_convolutions_and_attention_by_shape(tmp_path: Path) -> None:
    trace = ShapedTrace()
    for _ in range(3):
        product(trace, 0.5)
    product(trace, 0.5, 2048)
    x, w = ([8, 64, 56, 56], BF), ([64, 64, 3, 3], BF)
    trace.op("aten::convolution", x, w, ([], ""), "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", us=80.0)
    heads = ([2, 8, 512, 64], F32)
    trace.op("aten::_scaled_dot_product_efficient_attention", heads, heads, heads, ([], ""), "False", "0.", "False",
             "0.125", us=300.0, kernel="fmha_cutlassF_f32_aligned_64x64_rf_sm80")  # fmt: skip
    gemms = table(shown(trace, tmp_path, "gemm"), "gemms")
    assert [(row["shape"], row["calls"]) for row in gemms] == [("4096x4096x4096", 3), ("2048x2048x2048", 1)]
    assert gemms[0]["avg"] * 3 == pytest.approx(gemms[0]["total"], abs=3)
    (convolution,) = table(shown(trace, tmp_path, "convolution"), "convolutions")
    assert convolution["shape"] == "8x64x56x56 * 64x64x3x3"
    (attention,) = table(shown(trace, tmp_path, "attention"), "attention")
    assert attention["shape"] == "2 x 8 heads, 512 x 512, depth 64"
    assert "floor" not in attention
    assert "TF32" in attention["why"]


def test_known_work_without_a_floor_has_its_reason_and_is_no_part_of_mfu(tmp_path: Path) -> None:
    trace = ShapedTrace({"id": 0, "name": "NVIDIA GeForce RTX 4090", "totalGlobalMem": 25300000000, "computeMajor": 8,
                         "computeMinor": 9, "numSms": 128})  # fmt: skip
    side = [4096, 4096]
    trace.op("aten::mm", (side, "c10::Half"), (side, "c10::Half"), us=900.0, kernel="mine")
    trace.op("aten::mm", (side, F32), (side, F32), us=3000.0, kernel="mine too")
    halves = (side, "c10::complex<c10::Half>")
    trace.op("aten::mm", halves, halves, us=90.0, kernel="cgemm")
    trace.op("aten::mm", (side, BF), (side, BF), us=2000.0, kernel=GEMM)
    trace.op("aten::add", (side, BF), (side, BF), "1", us=500.0, kernel="add")
    section = shown(trace, tmp_path, "efficiency")
    assert table(section, "known")[0]["share"] == 1.0
    rows = table(section, "without_floor")
    assert [(row["total"], row["calls"]) for row in rows] == [(3_000_000, 1), (900_000, 1), (90_000, 1)]
    assert "TF32" in rows[0]["why"]
    assert "fp16" in rows[1]["why"]
    assert "datatype" in rows[2]["why"]
    (steps,) = table(section, "steps")
    assert steps["known"] == pytest.approx(2500 / 6490)
    known = ShapedTrace()
    product(known, 0.5)
    assert all(each.name != "without_floor" for each in shown(known, tmp_path, "efficiency").tables)


def test_a_trace_without_device_work_is_not_asked_for_shapes(tmp_path: Path) -> None:
    trace = ShapedTrace()
    trace.begin("aten::mm", ([4, 4], BF), ([4, 4], BF))
    trace.end()
    (note, *_) = shown(trace, tmp_path, "efficiency").notes
    assert "no GPU activity" in note
    assert "record_shapes" not in note


def test_the_layout_of_a_product_is_that_of_its_factors(tmp_path: Path) -> None:
    fp8 = "c10::Float8_e4m3fn"
    path = ShapedTrace()
    path.op("aten::_scaled_mm", ([64, 32], fp8), ([32, 48], fp8), ([64, 1], F32), ([1, 48], F32), ([], ""), ([], ""),
            "15", us=9.0)  # fmt: skip
    path.op("aten::mm", ([64, 32], BF), ([32, 48], BF), ([64, 48], BF), us=8.0)
    path.op("aten::addmm", ([64, 48], BF), ([64, 32], BF), ([32, 48], BF), "1", "1", us=7.0)
    path.op("aten::_grouped_mm", ([64, 32], BF), ([4, 32, 48], BF), ([4], "int"), us=6.0)
    for event in path.events:
        args: Any = event["args"]
        if "Input Dims" in args:
            # The first factor is in rows, the second in columns; all else is in rows.
            strides = [[each[-1], 1][-len(each) :] if each else [] for each in args["Input Dims"]]
            second = 2 if event["name"] == "aten::addmm" else 1
            rows, columns = args["Input Dims"][second][-2:]
            strides[second] = [rows * columns, 1, rows][-len(args["Input Dims"][second]) :]
            args["Input Strides"] = strides
    assert {row["layout"] for row in table(shown(path, tmp_path, "gemm"), "gemms")} == {"row x column"}


def test_exceptions_are_counted_in_a_note(tmp_path: Path) -> None:
    trace = ShapedTrace()
    x = ([1 << 20], BF)
    trace.op("aten::add", x, x, "1", us=1.0, kernel="add")
    section = shown(trace, tmp_path, "efficiency")
    assert any(
        "1 of 1 calls took less than their floor: the operands fit in the cache" in note for note in section.notes
    )
    (device,) = table(section, "devices")
    assert device["cache"] == 1000
    assert "of_peak" not in device


def test_sizes_that_no_device_has_are_unknown_and_not_wrong(tmp_path: Path) -> None:
    trace = ShapedTrace()
    side = 1 << 19
    for _ in range(40):
        trace.op("aten::mm", ([side, side], BF), ([side, side], BF), us=10.0, kernel=GEMM)
    (row, *_) = table(shown(trace, tmp_path, "operator", op_detail=False), "operators")
    assert row.get("flops") is None
    assert row["bytes"] == 40 * 3 * 2 * side**2
    long_name = ShapedTrace()
    long_name.op("aten::mm" * 5000, ([8, 8], BF), us=10.0, kernel="x" * 100_000)
    product(long_name, 0.5)
    assert table(shown(long_name, tmp_path, "efficiency"), "known")[0]["work"] == "known"


def test_the_views_are_listed() -> None:
    for name in ("efficiency", "gemm", "convolution", "attention"):
        assert view_named(name).title


def test_phases_divide_all_device_time_and_have_the_work_of_their_calls(tmp_path: Path) -> None:
    trace = ShapedTrace()
    trace.begin("ProfilerStep#1", cat="user_annotation")
    forward = product(trace, 0.5)
    trace.op("my::op", us=200.0)
    trace.begin("autograd::engine::evaluate_function: MmBackward0")
    backward = product(trace, 0.4) + product(trace, 0.4)
    trace.end()
    trace.begin("Optimizer.step#Adam.step", cat="user_annotation")
    big = ([1 << 28], BF)
    trace.op("aten::add", big, big, "1", us=1000.0, kernel="add")
    trace.end()
    trace.end()
    trace.kernel(300.0, launched=False)
    rows = {row["phase"]: row for row in table(shown(trace, tmp_path, "efficiency"), "phases")}
    assert list(rows) == ["Forward", "Backward", "Optimization", "(launch not known)"]
    work = 2 * 4096**3
    assert [rows[name]["flops"] for name in ("Forward", "Backward")] == [work, 2 * work]
    assert rows["Forward"]["total"] == pytest.approx(forward * 1000 + 200_000, abs=2)
    assert rows["Forward"]["known"] == pytest.approx(forward / (forward + 200), rel=1e-4)
    assert rows["Backward"]["total"] == pytest.approx(backward * 1000, abs=2)
    assert rows["Backward"]["of_peak"] == pytest.approx(0.4, rel=1e-4)
    assert rows["Optimization"]["floor"] == pytest.approx(3 * 2**29 / MEMORY * 1e9, abs=1)
    assert (rows["(launch not known)"]["total"], rows["(launch not known)"]["known"]) == (300_000, 0.0)
    assert sum(row["share"] for row in rows.values()) == pytest.approx(1)
    section = shown(trace, tmp_path, "efficiency")
    (device,) = table(section, "devices")
    assert device["total"] == sum(row["total"] for row in rows.values())
    assert sum(row["floor"] or 0 for row in rows.values()) == pytest.approx(device["floor"], abs=2)


def test_phases_are_those_of_the_view_model(tmp_path: Path) -> None:
    trace = ShapedTrace()
    product(trace, 0.5)
    trace.begin("autograd::engine::evaluate_function: CheckpointFunctionBackward")
    trace.begin("torch/utils/checkpoint.py(1511): recompute_fn", cat="python_function")
    product(trace, 0.5)
    trace.end()
    product(trace, 0.3)
    trace.end()
    found = {row["phase"]: row["total"] for row in table(shown(trace, tmp_path, "efficiency"), "phases")}
    model = shown(trace, tmp_path, "model").tables[-1]
    told = dict(zip(model.column("name").values, model.column("device_total").values, strict=True))
    assert found == told
    assert "Recompute" in found


def test_ranges_that_name_their_phase_are_phases_and_without_any_there_is_no_table(tmp_path: Path) -> None:
    trace = ShapedTrace()
    product(trace, 0.5)
    assert "phases" not in {each.name for each in shown(trace, tmp_path, "efficiency").tables}
    trace.begin("Optimizer.step#Adam.step", cat="user_annotation")
    big = ([1 << 28], BF)
    trace.op("aten::add", big, big, "1", us=1000.0, kernel="add")
    trace.end()
    rows = table(shown(trace, tmp_path, "efficiency"), "phases")
    assert [row["phase"] for row in rows] == ["Optimization", "(no phase)"]

"""Rooflines of operators with shapes: points and roofs have the numbers of the table, and why there is none."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from doors.pictures import drawn, tables_of
from shaped_traces import BF, F32, ShapedTrace
from views.tables import dicts

from tracekit import pipeline
from tracekit.model.report import Picture

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n"
TF32 = "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n"


def pictured(trace: ShapedTrace, folder: Path, view: str = "gemm") -> tuple[Picture, list[dict[str, Any]], str]:
    """Return the roofline of a view, the rows of its table, and the drawing."""
    report = pipeline.report(pipeline.read([trace.write(folder)]))
    section = report.section(view)
    (picture,) = (each for each in section.figures if isinstance(each, Picture))
    return picture, dicts(section.tables[0]), drawn(picture, tables_of(report))


def mm(trace: ShapedTrace, size: int, us: float, kernel: str = GEMM, of: str = BF) -> None:
    trace.op("aten::mm", ([size, size], of), ([size, size], of), us=us, kernel=kernel)


def points(made: str) -> list[tuple[str, float, float, int]]:
    """Return name, FLOP/byte, TFLOP/s and ns of each point, as its title says them."""
    found = []
    for circle in ElementTree.fromstring(made).iter("circle"):
        name, _, rest = (circle.findtext("title") or "").rpartition(": ")
        intensity, rate, ns = re.split(r", (?=\d)", rest)
        number, unit = rate.split()[:2]
        scale = {"PFLOP/s": 1e3, "TFLOP/s": 1, "GFLOP/s": 1e-3, "MFLOP/s": 1e-6}[unit]
        found.append((name, float(intensity.split()[0].replace(",", "")), float(number) * scale,
                      int(ns.split()[0].replace(",", ""))))  # fmt: skip
    return found


def lines(made: str) -> list[list[tuple[float, float]]]:
    paths = [each.get("d", "") for each in ElementTree.fromstring(made).iter("path") if each.get("class") == "ax b"]
    return [[(float(x), float(y)) for x, y in (spot.split() for spot in path[1:].split("L"))] for path in paths]


def test_each_shape_is_a_point_with_the_numbers_of_its_row(tmp_path: Path) -> None:
    trace = ShapedTrace()
    for size, us in ((4096, 300.0), (1024, 20.0), (256, 15.0)):
        mm(trace, size, us)
    picture, rows, made = pictured(trace, tmp_path)
    assert rows[0]["intensity"] == 2 * 4096**3 / (3 * 2 * 4096**2)
    for (name, intensity, rate, ns), row in zip(points(made), rows, strict=True):
        assert name == row["shape"]
        assert intensity == pytest.approx(row["flops"] / row["bytes"], rel=1e-3)
        assert rate == pytest.approx(row["tflops"], rel=1e-3)
        assert ns == row["total"]
        assert rate <= min(row["peak"], intensity * row["bandwidth"] / 1e12) * 1.02
        assert row["floor"] * row["peak"] * 1e3 == pytest.approx(row["flops"], rel=0.02) or row["bytes"] / row[
            "bandwidth"
        ] * 1e9 == pytest.approx(row["floor"], abs=1)
    assert picture.remark.startswith("peaks of NVIDIA H100 80GB HBM3, sheet: ")
    assert "roofs: memory 3.35 TB/s; BFloat16 989.4 TFLOP/s; peaks of NVIDIA H100" in made


def test_each_datatype_that_ran_has_a_roof(tmp_path: Path) -> None:
    trace = ShapedTrace()
    mm(trace, 4096, 300.0)
    mm(trace, 4096, 600.0, TF32, F32)
    mm(trace, 2048, 90.0, TF32, F32)
    _, rows, made = pictured(trace, tmp_path)
    assert {(row["datatype"], row["peak"]) for row in rows} == {("BFloat16", 989.4), ("float as tf32", 494.7)}
    assert "BFloat16 989.4 TFLOP/s, float as tf32 494.7 TFLOP/s" in made
    (first, second) = lines(made)
    # One line of the memory up to the highest roof; the lower roof begins on it.
    assert len(first) == 3
    assert len(second) == 2
    (x0, y0), (x1, y1), _ = first
    at = y0 + (y1 - y0) * (second[0][0] - x0) / (x1 - x0)
    assert at == pytest.approx(second[0][1], abs=0.3)


def test_datatypes_with_one_peak_are_one_roof(tmp_path: Path) -> None:
    trace = ShapedTrace()
    mm(trace, 4096, 300.0)
    mm(trace, 4096, 310.0, "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n", "c10::Half")
    _, _, made = pictured(trace, tmp_path)
    assert len(lines(made)) == 1
    assert "Half, BFloat16 989.4 TFLOP/s" in made


@pytest.mark.parametrize(
    ("device", "of", "kernel", "why"),
    [
        ({"id": 0, "name": "Some Accelerator 9"}, BF, GEMM, "no peaks are known"),
        (None, F32, "kernel", "not drawn: "),
    ],
)
def test_without_peaks_it_is_not_drawn_and_says_why(
    tmp_path: Path, device: dict[str, object] | None, of: str, kernel: str, why: str
) -> None:
    trace = ShapedTrace(device)
    mm(trace, 4096, 300.0, kernel, of)
    picture, rows, made = pictured(trace, tmp_path)
    assert picture.table == ""
    assert "<svg" not in made
    assert why in made
    assert rows[0]["why"] in made
    assert "peak" not in rows[0]


def test_a_shape_without_a_peak_has_a_point_and_is_counted(tmp_path: Path) -> None:
    trace = ShapedTrace()
    mm(trace, 4096, 300.0)
    mm(trace, 2048, 200.0, "kernel", F32)
    _, _, made = pictured(trace, tmp_path)
    assert len(points(made)) == 2
    assert "the peak of 1 shape is not known" in made


def test_convolutions_and_attention_have_one_too(tmp_path: Path) -> None:
    trace = ShapedTrace()
    x, w = ([8, 64, 56, 56], BF), ([64, 64, 3, 3], BF)
    trace.op("aten::convolution", x, w, ([], ""), "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", us=80.0)
    heads = ([2, 8, 512, 64], BF)
    trace.op("aten::_scaled_dot_product_flash_attention", heads, heads, heads, "0.", "False", "False", "0.125", us=30.0)
    for view in ("convolution", "attention"):
        _, rows, made = pictured(trace, tmp_path, view)
        ((_, intensity, rate, _),) = points(made)
        assert intensity == pytest.approx(rows[0]["intensity"], rel=1e-3)
        assert rate == pytest.approx(rows[0]["tflops"], rel=1e-3)

"""Rooflines: FLOPs, bytes and time of kernels by hand, the roofs as ncu has them, and why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
from doors.pictures import drawn, tables_of
from support import read_sample

from tracekit import pipeline
from tracekit.model.report import Picture, Report
from tracekit.views import VIEWS

OPERATIONS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
COUNTED: dict[str, tuple[str, tuple[int | str, ...]]] = {
    "gpu__time_duration.sum": ("ns", (9_589_248, 10_848, 200_000)),
    "dram__bytes.sum": ("byte", (80_808_960, 1_310_720, 64_000_000)),
    OPERATIONS.format("fadd"): ("inst", (1_000, 2_000_000, 0)),
    OPERATIONS.format("fmul"): ("inst", (1_000, 2_000, 500)),
    OPERATIONS.format("ffma"): ("inst", (68_719_476_736, 3_000, 12_000_000)),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", (97, 10, 40)),
}
ROOFS: dict[str, tuple[str, tuple[int | str, ...]]] = {
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": ("inst/cycle", (6144,) * 3),
    "sm__cycles_elapsed.avg.per_second": ("hz", (2_560_000_000,) * 3),
    "dram__bytes.sum.peak_sustained": ("byte/cycle", (48,) * 3),
    "dram__cycles_elapsed.avg.per_second": ("hz", (14_000_000_000,) * 3),
}
KERNELS = ("gemm(float *)", "softmax(float *, int)", "saxpy")
HEAD = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC",
)  # fmt: skip
Metrics = Mapping[str, tuple[str, tuple[int | str, ...]]]


def report(folder: Path, metrics: Metrics) -> Report:
    """Return the report of a raw page of ncu with these metrics."""
    rows = [[*HEAD, *metrics], [*[""] * len(HEAD), *(unit for unit, _ in metrics.values())]]
    for i, kernel in enumerate(KERNELS):
        place = [i, 4242, "train", "127.0.0.1", kernel, 1, 7, "(32, 32, 1)", "(64, 64, 1)", 0, "12.0"]
        rows.append([*map(str, place), *(str(values[i]) for _, values in metrics.values())])
    text = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)
    path = folder / "raw.csv"
    path.write_text(f"==PROF== Connected to process 4242 (/opt/train)\n{text}\n", encoding="utf-8")
    return pipeline.report(pipeline.read([path]))


def picture_of(found: Report) -> tuple[Picture, str]:
    (picture,) = (f for f in found.section("metrics").figures if isinstance(f, Picture) and f.form == "roofline")
    return picture, drawn(picture, tables_of(found))


def test_flops_bytes_and_time_make_the_table_and_the_points(tmp_path: Path) -> None:
    found = report(tmp_path, COUNTED | ROOFS)
    (table,) = (each for each in found.section("metrics").tables if each.name == "roofline")
    cells = {column.name: column.values for column in table.columns}
    flops = [2_000 + 2 * 68_719_476_736, 2_002_000 + 6_000, 500 + 24_000_000]
    assert cells["flops"] == flops
    assert cells["intensity"] == [f / b for f, b in zip(flops, (80_808_960, 1_310_720, 64_000_000), strict=True)]
    assert cells["rate"] == [f / t * 1e9 for f, t in zip(flops, (9_589_248, 10_848, 200_000), strict=True)]
    assert set(cells["peak_flops"]) == {2 * 6144 * 2.56e9}
    assert set(cells["peak_bytes"]) == {48 * 14e9}
    _, made = picture_of(found)
    tree = ElementTree.fromstring(made)
    points = [each.find("title").text or "" for each in tree.iter("circle")]  # type: ignore[union-attr]
    assert points == [
        "gemm(float *): 1,701 FLOP/byte, 14.33 TFLOP/s, 9,589,248 ns",
        "saxpy: 0.375 FLOP/byte, 120 GFLOP/s, 200,000 ns",
        "softmax(float *, int): 1.532 FLOP/byte, 185.1 GFLOP/s, 10,848 ns",
    ]
    radii = [float(each.get("r", "0")) for each in tree.iter("circle")]
    assert radii == sorted(radii, reverse=True)
    assert "roofs 31.46 TFLOP/s and 672.00 GB/s; roofs as ncu gives them, at the clock of the launches" in made
    # The ridge is where both roofs meet, and no point is above them.
    (roof,) = (each.get("d", "") for each in tree.iter("path") if each.get("class") == "ax b")
    spots = [tuple(map(float, spot.split())) for spot in roof.removeprefix("M").split("L")]
    assert spots[1][1] == spots[2][1] < spots[0][1]
    tops = {each.get("cx"): float(each.get("cy", "0")) for each in tree.iter("circle")}
    assert all(y >= spots[1][1] for y in tops.values())


def test_each_precision_is_a_row_and_all_columns_are_declared(tmp_path: Path) -> None:
    doubles = {name.replace("_op_f", "_op_d"): values for name, values in (COUNTED | ROOFS).items()}
    found = report(tmp_path, COUNTED | ROOFS | doubles)
    (table,) = (each for each in found.section("metrics").tables if each.name == "roofline")
    assert list(table.column("precision").values) == ["FP32", "FP64"] * 3
    declared = {(spec.key, spec.unit) for spec in VIEWS["metrics"].shows}
    assert {(column.name, column.unit) for column in table.columns} <= declared
    assert "gemm(float *) · FP64: 1,701 FLOP/byte" in picture_of(found)[1]


def test_rates_by_cycle_are_flops_too(tmp_path: Path) -> None:
    rates: Metrics = {
        "gpu__time_duration.sum": ("ns", (1_000_000,) * 3),
        "dram__bytes.sum": ("byte", (1_000_000,) * 3),
        OPERATIONS.format("fadd") + ".per_cycle_elapsed": ("inst/cycle", (10, 20, 30)),
        OPERATIONS.format("fmul") + ".per_cycle_elapsed": ("inst/cycle", (1, 1, 1)),
        "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2": ("", (100, 200, 300)),
        "smsp__cycles_elapsed.avg.per_second": ("hz", (1_000_000_000,) * 3),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", (97, 10, 40)),
    }
    found = report(tmp_path, rates)
    (table,) = (each for each in found.section("metrics").tables if each.name == "roofline")
    assert table.column("rate").values == [111e9, 221e9, 331e9]
    assert "the roofs are not known" in picture_of(found)[1]
    assert "peak_flops" not in table.column_names()


def test_roofs_that_ncu_did_not_record_are_those_of_the_data_sheet(tmp_path: Path) -> None:
    attributes: dict[str, tuple[str, tuple[int | str, ...]]] = {
        "device__attribute_display_name": ("", ("NVIDIA H100 80GB HBM3",) * 3),
        "device__attribute_multiprocessor_count": ("", ("132",) * 3),
    }
    found = report(tmp_path, COUNTED | attributes)
    (table,) = (each for each in found.section("metrics").tables if each.name == "roofline")
    assert set(table.column("peak_flops").values) == {66.9e12}
    assert set(table.column("peak_bytes").values) == {3350e9}
    assert "roofs of the data sheet of NVIDIA H100 80GB HBM3" in picture_of(found)[1]
    other = {name: (unit, ("Some GPU",) * 3) for name, (unit, _) in attributes.items() if "name" in name}
    assert "the roofs are not known" in picture_of(report(tmp_path, COUNTED | other))[1]


@pytest.mark.parametrize(
    ("without", "lacks"),
    [
        ("dram__bytes.sum", "no bytes of device memory"),
        ("gpu__time_duration.sum", "no durations"),
        (OPERATIONS.format("fadd"), "no FLOPs"),
    ],
)
def test_what_a_roofline_lacks_is_said_in_its_place(tmp_path: Path, without: str, lacks: str) -> None:
    found = report(tmp_path, {name: values for name, values in (COUNTED | ROOFS).items() if name != without})
    assert [table.name for table in found.section("metrics").tables] == ["peak", "metrics"]
    _, made = picture_of(found)
    assert f"not drawn: the metrics have {lacks} (" in made
    assert "<svg" not in made


def test_a_file_without_shares_of_the_peak_has_neither_roofline_nor_reason() -> None:
    section = pipeline.report(read_sample("nvprof-text/metrics.txt")).section("metrics")
    assert not [f for f in section.figures if isinstance(f, Picture) and f.form == "roofline"]

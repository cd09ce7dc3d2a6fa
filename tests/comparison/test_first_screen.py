"""The first screen of a comparison: its sentence, and the parts of the change, which add up to the ns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compare_runs import LAYERS, Launch, Row, repeats, steps, write
from doors.compare import IDLE, ChangePart, ChangeParts, NameGroup, by_kind, by_name
from hypothesis import given, settings
from hypothesis import strategies as st
from support import run_command

from tracekit import pipeline
from tracekit.analysis.kernel_class import KernelClass
from tracekit.comparison import Comparison, compare
from tracekit.model.change import ChangeIntervals, ChangeVerdict, PartOfChange, Waterfall
from tracekit.render.base import RenderOptions
from tracekit.render.page.change import WaterfallRow, change_box

NAMES = (
    "ampere_sgemm_nn",
    "ncclDevKernel_AllReduce",
    "adam_step",
    "my_kernel",
    "strange",
    "Memcpy HtoD",
    "Memset",
    "x",
)
KINDS = ("kernel", "kernel", "kernel", "kernel", "kernel", "memcpy", "memset", "kernel")


@st.composite
def changes(draw: st.DrawFn) -> ChangeParts:
    """Parts as `split` returns them: each name once, with the largest difference first, and the rest last."""
    rows = []
    for number in range(draw(st.integers(0, 40))):
        of = number % len(NAMES)
        key = (KINDS[of], f"{NAMES[of]}{number}")
        how = draw(st.sampled_from(["same", "new", "gone", "renamed"]))
        base = 0 if how == "new" else draw(st.integers(0, 10**12))
        new = 0 if how == "gone" else draw(st.integers(0, 10**12))
        group = NameGroup(() if how == "new" else (key,), () if how == "gone" else (key,), how)
        rows.append(ChangePart(key[1], group, base, new))
    rows.sort(key=lambda part: (-abs(part.difference), -part.base, part.label))
    if draw(st.booleans()):
        rows.append(ChangePart(IDLE, None, draw(st.integers(-5, 10**12)), draw(st.integers(0, 10**12))))
    return ChangeParts(tuple(rows), sum(row.base for row in rows), sum(row.new for row in rows))


def adds_up(parts: tuple[PartOfChange, ...], base: int, new: int) -> None:
    assert (sum(each.base for each in parts), sum(each.new for each in parts)) == (base, new)
    for each in parts:
        if each.names:
            adds_up(each.names, each.base, each.new)


@given(changes())
@settings(max_examples=200, deadline=None)
def test_parts_of_a_change_add_up_to_it_at_every_level(whole: ChangeParts) -> None:
    classes: dict[tuple[str, str], KernelClass] = {}
    for parts in (by_kind(whole, classes), by_name(whole)):
        adds_up(parts, whole.base, whole.new)
        figure = Waterfall("", "", whole.base, whole.new, parts)
        assert [after for _, _, after in figure.running()][-1:] in ([], [whole.new])
        labels = [each.label for each in parts]
        assert len(set(labels)) == len(labels)


def figure(found: Comparison, kind: type) -> Any:
    return next((each for s in found.report().sections for each in s.figures if isinstance(each, kind)), None)


def sentence(found: Comparison) -> str:
    return str(figure(found, ChangeVerdict).sentence)


def with_gemm(factor: float) -> tuple[Launch, ...]:
    return tuple((op, kernel, round(ns * factor) if "gemm" in kernel else ns, grid) for op, kernel, ns, grid in LAYERS)


def pair(folder: Path, new: list[Row], base: list[Row] | None = None) -> Comparison:
    folder.mkdir(exist_ok=True)
    first = write(folder / "base.parquet", steps(noise=0.002) if base is None else base)
    return compare(first, write(folder / "new.parquet", new))


def test_a_slower_run_is_said_with_its_size_its_time_and_its_cause(tmp_path: Path) -> None:
    found = pair(tmp_path, steps(layers=with_gemm(1.5), noise=0.002, seed=1))
    main = found.main
    assert main is not None
    assert main.ratio is not None
    words = sentence(found)
    assert words.startswith(f"NEW is {100 * main.ratio:.3g} % slower: ")
    assert words.endswith(" us a step, most of it in gemm kernels")


def test_a_faster_run_names_the_part_that_became_faster_and_not_one_that_slowed(tmp_path: Path) -> None:
    layers = (*with_gemm(0.5), ("aten::norm", "layer_norm_kernel", 60_000, 20))
    found = pair(tmp_path, steps(layers=layers, noise=0.002, seed=1))
    assert " % faster: " in sentence(found)
    assert sentence(found).endswith("most of it in gemm kernels")


def test_idle_time_is_named_as_the_cause_where_it_is(tmp_path: Path) -> None:
    found = pair(tmp_path, steps(noise=0.002, idle_ns=400_000, seed=1))
    assert sentence(found).endswith("most of it in idle time")


def test_equal_and_undecided_runs_have_no_difference_that_they_can_show(tmp_path: Path) -> None:
    same = compare(repeats(tmp_path / "a", 5, seed=1), repeats(tmp_path / "b", 5, seed=50))
    open_ = pair(tmp_path / "c", steps(factor=1.04, noise=0.05, seed=3), steps(noise=0.05))
    for found in (same, open_):
        assert found.verdict not in ("slower", "faster")
        assert sentence(found) == "No difference that these runs can show"


def test_a_kernel_of_one_side_is_said_to_be_there_only(tmp_path: Path) -> None:
    layers = (*LAYERS, ("aten::adam", "fused_adam_kernel", 90_000, 20))
    found = pair(tmp_path, steps(layers=layers, noise=0.001, seed=1))
    parts = {each.label: each for each in figure(found, Waterfall).parts}
    assert parts["optimizer kernels"].how == "new"
    table = next(t for s in found.report().sections for t in s.tables if t.name == "change_parts")
    only = dict(zip(table.column("part").values, table.column("only").values, strict=True))
    assert only["optimizer kernels"] == "new"
    assert only["gemm kernels"] is None


def test_a_step_without_device_work_has_its_operators_as_parts(tmp_path: Path) -> None:
    def on_host(rows: list[Row]) -> list[Row]:
        return [row for row in rows if row["kind"] in ("step", "operator")]

    found = pair(tmp_path, on_host(steps(layers=with_gemm(1.5), noise=0.002, seed=1)), on_host(steps(noise=0.002)))
    waterfall = figure(found, Waterfall)
    assert found.main is not None
    assert waterfall.new - waterfall.base == found.main.difference
    assert sentence(found).endswith("most of it in aten::mm")


def rows_of(row: WaterfallRow) -> list[WaterfallRow]:
    return [row, *(each for below in row.rows for each in rows_of(below))]


def test_bars_of_the_page_follow_each_other_from_base_to_new_and_have_the_numbers_of_json(tmp_path: Path) -> None:
    found = pair(tmp_path, steps(layers=with_gemm(1.5), noise=0.002, idle_ns=9_000, seed=1))
    report = found.report()
    box = change_box(report, RenderOptions())
    assert box is not None
    (waterfall,) = box.waterfalls
    at = float(waterfall.base[0])
    for row in waterfall.rows:
        left, right = float(row.left), float(row.left) + float(row.width)
        begin, end = (right, left) if row.state == "better" else (left, right)
        assert abs(begin - at) < 0.01
        at = end
    assert abs(at - float(waterfall.new[0])) < 0.01
    loaded = json.loads(pipeline.render(report, "json", RenderOptions()))
    tables = {table["name"]: table for section in loaded["sections"] for table in section["tables"]}
    names = [column["name"] for column in tables["change_parts"]["columns"]]
    exact = {
        cells["part"]: f"{cells['base']:,} ns → {cells['new']:,} ns, {cells['difference']:+,} ns"
        for cells in (dict(zip(names, row, strict=True)) for row in tables["change_parts"]["rows"])
    }
    shown = {each.label: each.exact for row in waterfall.rows for each in rows_of(row)}
    assert exact.items() <= shown.items()
    metrics = {row[0]: row for row in tables["metrics"]["rows"]}
    names = [column["name"] for column in tables["metrics"]["columns"]]
    for interval in figure(found, ChangeIntervals).rows:
        cells = dict(zip(names, metrics[interval.metric], strict=True))
        assert [interval.base, interval.new, interval.ratio, interval.low, interval.high, interval.verdict] == [
            cells[name] for name in ("base", "new", "change", "low", "high", "verdict")
        ]


def test_a_metric_far_beyond_the_picture_ends_at_its_edge(tmp_path: Path) -> None:
    found = pair(tmp_path, steps(layers=with_gemm(9), noise=0.002, seed=1))
    box = change_box(found.report(), RenderOptions())
    assert box is not None
    assert "times slower" in box.sentence
    for row in box.intervals:
        assert not row.at or 0 < float(row.at) < 100
        assert (row.beyond == "right") == (float(row.change.rstrip(" %")) > 200)


def test_a_change_that_nobody_would_notice_does_not_fill_the_picture(tmp_path: Path) -> None:
    found = pair(tmp_path, steps(idle_ns=20_200), steps(idle_ns=20_000))
    box = change_box(found.report(), RenderOptions())
    assert box is not None
    (waterfall,) = box.waterfalls
    assert sum(float(row.width) for row in waterfall.rows) < 2
    assert abs(float(waterfall.base[0]) - 50) < 2


def added(count: int) -> tuple[Launch, ...]:
    """Return layers that became slower, and kernels that only these runs have."""
    more = [
        (f"aten::op{i}", f"a_kernel_with_a_long_name_that_is_new_{i}<float, 128>", 20_000 + 9 * i, 20)
        for i in range(count)
    ]
    return (*with_gemm(1.5), ("aten::norm", "layer_norm_kernel", 60_000, 20), *more)


@pytest.mark.parametrize("swap", [False, True], ids=["slower", "faster"])
@pytest.mark.parametrize("count", [0, 3, 12])
def test_a_change_of_many_parts_is_one_screen_whose_rows_still_add_up(tmp_path: Path, count: int, swap: bool) -> None:
    folder = tmp_path / ("a_folder_whose_name_is_so_long_that_the_title_needs_a_second_line" if count == 12 else "a")
    folder.mkdir()
    base = write(folder / "base.parquet", steps(noise=0.002))
    new = write(folder / "new.parquet", steps(layers=added(count), noise=0.002, seed=1))
    sides = (new, base) if swap else (base, new)
    shown = run_command("compare", *sides, width=80).stdout
    lines = shown.splitlines()
    assert len(lines) <= 30
    assert all(len(line) <= 80 for line in lines)
    assert ("faster: " if swap else "slower: ") in shown
    main = compare(*sides).main
    assert main is not None
    whole = (main.new - main.base) / 1_000
    for title, column in (("Where the change is", 2), ("Step time by name", 2)):
        rows = shown.split(title)[1].split("\n\n")[0].splitlines()[3:]
        assert len(rows) >= 2
        changes = [float(row.split()[column].replace(",", "")) for row in rows]
        assert sum(changes) == pytest.approx(whole, rel=0.01)
    assert len(run_command("compare", *sides, "--all", width=80).stdout.splitlines()) > 30

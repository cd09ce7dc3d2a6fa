"""The change by module and operator: parts of known causes, and parts that add up whatever the causes are."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from doors.compare import PARTS, TreeAmount, tree_mean_with, tree_parts_of, tree_whole_cells
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_runs import H100, MM, OTHER, SMALL, Call, write

import tracekit
from tracekit import pipeline
from tracekit.comparison import TreeParts
from tracekit.errors import UsageError
from tracekit.model.change import REASON, PartOfChange, Waterfall
from tracekit.render.base import RenderOptions


def changed(tmp_path: Path, base: list[Call], new: list[Call], by: str = "operator", **more: Any) -> TreeParts:
    """Return the change between two runs by operator or module."""
    files = [write(tmp_path / "base.json", base), write(tmp_path / "new.json", new, **more)]
    tree = tracekit.compare(*files, by=by).tree
    assert tree is not None
    assert tree.parts is not None, tree.why
    for row in tree.parts.rows:
        assert sum(row.parts) == row.difference
    assert sum(tree.parts.parts) == tree.parts.new - tree.parts.base
    assert sum(row.base for row in tree.parts.rows) == tree.parts.base
    return tree.parts


def named(parts: TreeParts) -> dict[str, int]:
    return {part: ns for part, ns in zip(PARTS, parts.parts, strict=True) if ns}


BASE: list[Call] = [(MM, "gemm_bf16_s16816", 200_000, "A_0"), (OTHER, "k", 50_000, "B_0")]


def test_equal_runs_have_no_parts(tmp_path: Path) -> None:
    parts = changed(tmp_path, BASE, BASE)
    assert (parts.base, parts.new, named(parts)) == (250_000, 250_000, {})


def test_more_calls_at_the_time_per_call_of_the_base(tmp_path: Path) -> None:
    assert named(changed(tmp_path, BASE, [*BASE, BASE[0], BASE[1]])) == {"more_calls": 250_000}


def test_the_same_work_done_worse_is_efficiency_where_the_work_is_known(tmp_path: Path) -> None:
    new: list[Call] = [(MM, "gemm_bf16_s16816", 230_000, "A_0"), (OTHER, "k", 57_000, "B_0")]
    assert named(changed(tmp_path, BASE, new)) == {"efficiency": 30_000, "not_known": 7_000}


def test_the_same_calls_by_another_kernel(tmp_path: Path) -> None:
    new: list[Call] = [(MM, "other_bf16_s16816", 160_000, "A_0"), BASE[1]]
    assert named(changed(tmp_path, BASE, new)) == {"other_kernel": -40_000}


def test_other_shapes_are_the_change_of_the_work_and_the_rest_is_efficiency(tmp_path: Path) -> None:
    """An eighth of the work in a quarter of the time."""
    new: list[Call] = [(SMALL, "gemm_bf16_s16816", 50_000, "A_0"), BASE[1]]
    found = named(changed(tmp_path, BASE, new))
    assert found["other_shapes"] == pytest.approx(200_000 / 8 - 200_000, rel=0.01)
    assert found["other_shapes"] + found["efficiency"] == -150_000


@pytest.mark.parametrize("share", [0.2, 0.7, 0.95])
def test_more_work_at_the_same_share_of_the_peak_is_no_change_of_efficiency(tmp_path: Path, share: float) -> None:
    floor = 2 * 4096**3 / 989.4e12 * 1e9
    base: list[Call] = [(MM, "gemm_bf16_s16816", round(floor / share), "A_0")]
    new: list[Call] = [(SMALL, "gemm_bf16_s16816", round(floor / 8 / share), "A_0")]
    found = named(changed(tmp_path, base, new))
    assert found["other_shapes"] == pytest.approx(floor / share * (1 / 8 - 1), abs=3)
    assert abs(found.get("efficiency", 0)) <= 3


@pytest.mark.parametrize("ns", [3_000, 40_000])
def test_the_time_of_a_launch_says_nothing_of_larger_shapes(tmp_path: Path, ns: int) -> None:
    """A small product is far from its floor: a thousand times the work does not take a thousand times its time."""
    base: list[Call] = [(("aten::mm", [[64, 64], [64, 64]]), "gemm_bf16_s16816", 3_000, "A_0")]
    new: list[Call] = [(("aten::mm", [[2048, 2048], [2048, 2048]]), "gemm_bf16_s16816", ns, "A_0")]
    change = {"other_shapes": ns - 3_000} if ns != 3_000 else {}
    assert named(changed(tmp_path, base, new)) == change


def test_other_shapes_of_unknown_work_are_one_part(tmp_path: Path) -> None:
    new: list[Call] = [BASE[0], (("my::op", [[9]]), "k", 80_000, "B_0")]
    assert named(changed(tmp_path, BASE, new)) == {"other_shapes": 30_000}


def test_an_operator_of_one_side_is_only_here(tmp_path: Path) -> None:
    new: list[Call] = [BASE[0], (("your::op", [[7]]), "k", 80_000, "B_0")]
    parts = changed(tmp_path, BASE, new)
    assert named(parts) == {"only_here": 30_000}
    assert {row.label: row.difference for row in parts.rows} == {"aten::mm": 0, "my::op": -50_000, "your::op": 80_000}


def test_the_same_kernels_on_another_device_have_another_floor(tmp_path: Path) -> None:
    a100 = {**H100, "name": "NVIDIA A100-SXM4-80GB", "numSms": 108, "computeMajor": 8, "totalGlobalMem": 85_100_000_000}
    new: list[Call] = [(MM, "gemm_bf16_s16816", 520_000, "A_0"), BASE[1]]
    found = named(changed(tmp_path, BASE, new, device=a100))
    assert found["other_floor"] == pytest.approx(200_000 * (989.4 / 312 - 1), rel=0.01)
    assert found["other_floor"] + found["efficiency"] == 320_000


def test_by_module_each_module_has_its_own_parts(tmp_path: Path) -> None:
    base: list[Call] = [(MM, "gemm_bf16_s16816", 200_000, f"M_{n}") for n in range(3)]
    new: list[Call] = [base[0], (MM, "gemm_bf16_s16816", 260_000, "M_1"), (MM, "other", 100_000, "M_2")]
    parts = changed(tmp_path, base, new, "module")
    assert {row.label: dict(zip(PARTS, row.parts, strict=True)) for row in parts.rows} == {
        "M_0": dict.fromkeys(PARTS, 0),
        "M_1": {**dict.fromkeys(PARTS, 0), "efficiency": 60_000},
        "M_2": {**dict.fromkeys(PARTS, 0), "other_kernel": -100_000},
    }


def test_by_operator_a_module_that_was_renamed_is_no_change(tmp_path: Path) -> None:
    new: list[Call] = [(call, kernel, ns, f"New{module}") for call, kernel, ns, module in BASE]
    assert named(changed(tmp_path, BASE, new)) == {}
    assert named(changed(tmp_path, BASE, new, "module")) == {}  # -250 us and +250 us


@pytest.mark.parametrize("wrapper", ["DistributedDataParallel_0", "OptimizedModule_0"])
def test_a_wrapper_around_a_model_is_no_other_module(tmp_path: Path, wrapper: str) -> None:
    parts = changed(tmp_path, BASE, BASE, "module", wrapper=wrapper)
    assert [(row.label, row.difference) for row in parts.rows] == [("A_0", 0), ("B_0", 0)]


def test_a_model_around_the_modules_of_one_side_is_another_module(tmp_path: Path) -> None:
    rows = changed(tmp_path, BASE, BASE, "module", wrapper="GPT_0").rows
    assert {row.label for row in rows} == {"A_0", "B_0", "GPT_0/A_0", "GPT_0/B_0"}


def test_amounts_are_per_step(tmp_path: Path) -> None:
    assert named(changed(tmp_path, BASE, BASE, steps=9)) == {}


def test_every_output_has_the_parts(tmp_path: Path) -> None:
    files = [write(tmp_path / "base.json", BASE), write(tmp_path / "new.json", [*BASE, BASE[0]])]
    report = tracekit.compare(*files, by="operator").report()
    tables = {table.name: table for section in report.sections for table in section.tables}
    steps = dict(zip(tables["change_reasons"].column("part").values, tables["change_reasons"].column("total").values))
    assert (steps["base"], steps["more calls"], steps["new"]) == (250_000, 450_000, 450_000)
    assert "operator_change" in tables
    plain = tracekit.compare(*files).report()
    assert not {"change_reasons", "operator_change"} & {t.name for section in plain.sections for t in section.tables}


def waterfalls(base: str, new: str, by: str) -> dict[str, Waterfall]:
    report = tracekit.compare(base, new, by=by).report()
    figures = [each for section in report.sections for each in section.figures if isinstance(each, Waterfall)]
    return {each.title: each for each in figures}


def adds_up(parts: tuple[PartOfChange, ...], base: int, new: int) -> None:
    assert (sum(each.base for each in parts), sum(each.new for each in parts)) == (base, new)
    for each in parts:
        if each.names:
            adds_up(each.names, each.base, each.new)


@st.composite
def call_lists(draw: st.DrawFn) -> list[Call]:
    calls: list[Call] = []
    for number in range(draw(st.integers(1, 20))):
        op = draw(st.sampled_from([MM, SMALL, OTHER, ("my::op", [[9]]), ("aten::gelu", [[64]])]))
        kernel = draw(st.sampled_from(["gemm_bf16_s16816", "k", "other"]))
        calls.append((op, kernel, draw(st.integers(1_000, 900_001)), f"M_{number % 17}"))
    return calls


@pytest.mark.parametrize("by", ["operator", "module"])
@given(base=call_lists(), new=call_lists())
@settings(max_examples=12, deadline=None)
def test_waterfalls_by_reason_and_by_row_add_up_to_base_and_new_at_every_level(
    tmp_path_factory: pytest.TempPathFactory, by: str, base: list[Call], new: list[Call]
) -> None:
    folder = tmp_path_factory.mktemp("pair")
    files = write(folder / "base.json", base, 2), write(folder / "new.json", new, 2)
    tree = tracekit.compare(*files, by=by).tree
    assert tree is not None
    assert tree.parts is not None
    found = waterfalls(*files, by)
    for title in ("By reason", f"By {by}"):
        adds_up(found[title].parts, tree.parts.base, tree.parts.new)
    reasons = {each.label: each.difference for each in found["By reason"].parts if each.how == REASON}
    assert reasons == {part.replace("_", " "): ns for part, ns in named(tree.parts).items()}


def test_a_waterfall_of_many_rows_has_one_part_for_the_smallest_of_them(tmp_path: Path) -> None:
    base: list[Call] = [(MM, "gemm_bf16_s16816", 200_000, f"M_{n}") for n in range(30)]
    new: list[Call] = [(MM, "gemm_bf16_s16816", 200_000 + 1_000 * n, f"M_{n}") for n in range(30)]
    found = waterfalls(write(tmp_path / "base.json", base), write(tmp_path / "new.json", new), "module")
    last = found["By module"].parts[-1]
    assert (len(found["By module"].parts), last.label, last.difference) == (13, "(18 more modules)", 153_000)
    (efficiency,) = (each for each in found["By reason"].parts if each.label == "efficiency")
    assert efficiency.names[-1].difference == 153_000


def test_a_terminal_has_the_reasons_of_each_row_in_words_before_the_tables(tmp_path: Path) -> None:
    new: list[Call] = [(SMALL, "gemm_bf16_s16816", 50_000, "A_0"), (OTHER, "k2", 20_000, "B_0")]
    files = write(tmp_path / "base.json", BASE), write(tmp_path / "new.json", new)
    text = pipeline.render(tracekit.compare(*files, by="module").report(), "text", RenderOptions(width=80))
    said = text.split("Change by module")[1].split("What changed")[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    assert lines[0].startswith("250 us -> 70 us: other shapes -175 us, other kernel -30 us, efficiency +25 us")
    assert lines[1:] == ["A_0 -150 us: other shapes -175 us, efficiency +25 us", "B_0 -30 us: other kernel"]


def test_a_side_without_modules_has_no_change_by_module(tmp_path: Path) -> None:
    bare: list[Call] = [(call, kernel, ns, "") for call, kernel, ns, _ in BASE]
    files = [write(tmp_path / "base.json", bare), write(tmp_path / "new.json", bare)]
    tree = tracekit.compare(*files, by="module").tree
    assert tree is not None
    assert tree.parts is None
    assert "no run names modules" in tree.why


def test_another_word_is_wrong_usage(tmp_path: Path) -> None:
    file = write(tmp_path / "base.json", BASE)
    with pytest.raises(UsageError, match="no way to divide"):
        tracekit.compare(file, file, by="kernel")


def amounts() -> st.SearchStrategy[dict[str, TreeAmount]]:
    amount = st.builds(
        TreeAmount,
        calls=st.integers(1, 50),
        ns=st.integers(0, 10**9),
        floor_ps=st.none() | st.integers(0, 10**12),
        kernels=st.sets(st.sampled_from("abc"), min_size=1).map(frozenset),
    )
    return st.dictionaries(st.sampled_from(("s", "t", "u", "v")), amount)


@given(
    base=amounts(),
    new=amounts(),
    weights=st.tuples(st.integers(1, 97), st.integers(1, 97)),
    difference=st.integers(-3, 3),
)
def test_the_parts_of_any_operator_add_up_exactly(
    base: dict[str, TreeAmount], new: dict[str, TreeAmount], weights: tuple[int, int], difference: int
) -> None:
    sides: list[dict[str, Any]] = [
        {shape: tree_mean_with(None, amount, Fraction(1, weight)) for shape, amount in side.items()}
        for side, weight in zip((base, new), weights, strict=True)
    ]
    parts = tree_parts_of(*sides)
    sums = [sum((mean.ns for mean in side.values()), Fraction(0)) for side in sides]
    assert sum(parts) == sums[1] - sums[0]
    whole = round(sums[1] - sums[0]) + difference
    assert sum(tree_whole_cells(parts, whole)) == whole


@pytest.mark.parametrize("seed", range(3))
def test_random_runs_add_up_by_both(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    def calls() -> list[Call]:
        return [
            (
                rng.choice((MM, SMALL, OTHER)),
                rng.choice(("k1", "gemm_bf16")),
                rng.randint(1, 400_000),
                f"M_{rng.randrange(3)}",
            )
            for _ in range(rng.randint(1, 7))
        ]

    base, new = calls(), calls()
    by = [changed(tmp_path, base, new, each, steps=7) for each in ("operator", "module")]
    assert by[0].base == by[1].base == sum(ns for _, _, ns, _ in base)
    assert by[0].new == by[1].new == sum(ns for _, _, ns, _ in new)

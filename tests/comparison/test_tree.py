"""The change by module and operator: parts of known causes, and parts that add up whatever the causes are."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from doors.compare import PARTS, TreeAmount, tree_mean_with, tree_parts_of, tree_whole_cells
from hypothesis import given
from hypothesis import strategies as st

import tracekit
from tracekit.comparison import TreeParts
from tracekit.errors import UsageError

H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_017_493_504, "numSms": 132,
        "computeMajor": 9, "computeMinor": 0}  # fmt: skip
MM = ("aten::mm", [[4096, 4096], [4096, 4096]])
SMALL = ("aten::mm", [[2048, 2048], [2048, 2048]])
OTHER = ("my::op", [[7]])
Call = tuple[tuple[str, list[list[int]]], str, int, str]
# (operator and dims, kernel, ns, module)


def write(path: Path, calls: list[Call], steps: int = 6, device: dict[str, Any] | None = None) -> str:
    """Write a trace of equal steps, each with these calls, one kernel a call."""
    events: list[dict[str, Any]] = []
    clock, number = 1000, 0
    for step in range(steps):
        begin = clock
        for (name, dims), kernel, ns, module in calls:
            number += 1
            host = {"ph": "X", "pid": 1, "tid": 7}
            if module:
                told = {"Python id": number, "Python parent id": None}
                events.append(
                    {
                        **host,
                        "cat": "python_function",
                        "name": f"nn.Module: {module}",
                        "ts": clock,
                        "dur": 9,
                        "args": told,
                    }
                )
            shapes = {"Input Dims": dims, "Input type": ["c10::BFloat16"] * len(dims)}
            events += [
                {**host, "cat": "cpu_op", "name": name, "ts": clock + 1, "dur": 6, "args": shapes},
                {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": clock + 2, "dur": 2,
                 "args": {"correlation": number}},
                {"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 3, "ts": clock + 5, "dur": ns / 1000,
                 "args": {"device": 0, "stream": 3, "correlation": number}},
            ]  # fmt: skip
            clock += max(10, ns // 1000 + 10)
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 7,
                       "ts": begin, "dur": clock - begin, "args": {}})  # fmt: skip
        clock += 5
    made = {"schemaVersion": 1, "deviceProperties": [device or H100], "traceEvents": events}
    path.write_text(json.dumps(made))
    return str(path)


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
    floor = 2 * 4096**3 / 989.4e12 * 1e9
    assert found["other_shapes"] == pytest.approx(floor / 8 - floor, rel=0.01)
    assert found["other_shapes"] + found["efficiency"] == -150_000


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
    assert found["other_floor"] == pytest.approx(2 * 4096**3 * (1 / 312e12 - 1 / 989.4e12) * 1e9, rel=0.01)
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

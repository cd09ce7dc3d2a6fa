"""A run that lacks a kind of rows that its siblings have is left out, and said at the top."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from compare_runs import Row, steps, write

from tracekit.comparison import NOT_JUDGED, SAME, UNKNOWN, Comparison, compare

KINDS: dict[str, tuple[str, ...]] = {
    "kernels": ("kernel",),
    "steps": ("step",),
    "operators": ("operator",),
    "API calls": ("runtime",),
}


def rows(seed: int, without: tuple[str, ...] = ()) -> list[Row]:
    return [row for row in steps(8, noise=0.005, seed=seed) if row["kind"] not in without]


def side(folder: Path, cut: dict[int, tuple[str, ...]], count: int = 6, seed: int = 0) -> str:
    for number in range(count):
        write(folder / f"r{number}.parquet", rows(seed + number, cut.get(number, ())))
    return str(folder)


def figures(found: Comparison) -> dict[str, Any]:
    return {c.metric.text: (c.base, c.new, c.verdict) for c in found.changes}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_without_a_kind_of_rows_enters_no_average(kind: str, tmp_path: Path) -> None:
    base = side(tmp_path / "base", {})
    cut = side(tmp_path / "new", {2: KINDS[kind]}, seed=10)
    whole = side(tmp_path / "whole", {}, seed=10)
    (tmp_path / "whole" / "r2.parquet").unlink()
    found = compare(base, cut)
    assert found.verdict == SAME
    assert figures(found) == figures(compare(base, whole))
    (said,) = found.left_out
    assert f"r2.parquet (no {kind}; 11 of 12 runs have {kind})" in said
    facts = dict(found.report().facts)
    assert list(facts) == ["verdict", "base", "new", "left out"]
    assert facts["left out"] == said


def test_several_cut_runs_of_one_side_are_judged_by_those_of_the_other(tmp_path: Path) -> None:
    new = side(tmp_path / "new", {0: ("kernel",), 1: ("kernel", "runtime")}, count=3, seed=10)
    found = compare(side(tmp_path / "base", {}), new)
    assert found.sides is not None
    assert [run.label for run in found.sides.new] == [f"{tmp_path}/new/r2.parquet"]
    assert len(found.left_out) == 2


def test_a_kind_that_few_runs_have_leaves_none_out_and_makes_no_zeros(tmp_path: Path) -> None:
    """One run of six records operators: the five others do not count as zero."""
    only = dict.fromkeys(range(1, 6), ("operator",))
    found = compare(side(tmp_path / "base", only), side(tmp_path / "new", only, seed=10))
    assert found.left_out == ()
    operator = next(c for c in found.changes if c.metric.text == "operator.total")
    assert (operator.base or 0) > 800_000
    assert (operator.new or 0) > 800_000
    parts = next(t for s in found.report().sections for t in s.tables if t.name == "operator_parts")
    assert sum(parts.column("difference").values) == operator.difference  # type: ignore[arg-type]


def test_runs_that_all_lack_a_kind_are_compared(tmp_path: Path) -> None:
    none = dict.fromkeys(range(6), ("kernel", "runtime"))
    found = compare(side(tmp_path / "base", none), side(tmp_path / "new", none, seed=10))
    assert found.left_out == ()
    assert found.verdict == SAME


def test_a_name_that_a_whole_run_does_not_call_is_zero_there(tmp_path: Path) -> None:
    """A run without a kernel that its siblings call is not cut: it did not call it."""
    base = side(tmp_path / "base", {})
    for number in range(6):
        kept = [row for row in rows(10 + number) if number or row["name"] != "gemm_b"]
        write(tmp_path / "new" / f"r{number}.parquet", kept)
    (checked,) = compare(base, str(tmp_path / "new"), rules=['kernel["gemm_b"].calls < 0']).checked
    assert checked.change.new == pytest.approx(5 / 6)


def test_one_run_a_side_without_its_kernels_has_no_verdict(tmp_path: Path) -> None:
    """It launches kernels, so it was cut; its steps on the host say nothing about the device."""
    base = write(tmp_path / "base.parquet", rows(0))
    new = write(tmp_path / "new.parquet", rows(1, ("kernel",)))
    found = compare(base, new, rules=["step.mean > 3%"])
    assert found.verdict == UNKNOWN
    assert found.checked[0].state == NOT_JUDGED
    said = dict(found.report().facts)["verdict"]
    assert said == "not enough data: new launches kernels and shows none of them: it may have been cut"


def test_a_run_on_the_cpu_alone_is_compared_with_one_on_the_device(tmp_path: Path) -> None:
    """It launches nothing: its steps are whole."""
    base = write(tmp_path / "base.parquet", rows(0))
    new = write(tmp_path / "new.parquet", rows(0, ("kernel", "runtime")))
    found = compare(base, new)
    assert found.main is not None
    assert found.main.metric.text == "step.mean"


def test_a_history_has_no_value_of_a_cut_run(tmp_path: Path) -> None:
    found = compare(side(tmp_path / "base", {3: ("kernel",)}), history=True)
    assert found.history is not None
    assert [value is None for value in found.history.values] == [number == 3 for number in range(6)]
    assert any(note.startswith("left out: ") for note in found.notes)

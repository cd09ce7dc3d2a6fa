"""Names in rules: whole names, names as the tables show them, patterns, and names that fit nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from compare_runs import LAYERS, Launch, steps, write
from doors.compare import NamedRow, rows_meant

from tracekit.comparison import MET, UNKNOWN, VIOLATED, Comparison, compare
from tracekit.errors import UsageError

ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int, float*)"
MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>(int, float*)"
NAMED: tuple[Launch, ...] = (*LAYERS, ("aten::add_", ADD, 40_000, 20), ("aten::mul", MUL, 20_000, 20))


def compared(folder: Path, rule: str, *, grown: str = "gemm_a", new_name: str = "") -> Comparison:
    """Compare two runs; in the new one, one kernel takes twice as long (and has another name)."""
    changed = tuple(
        (op, (new_name or k) if k == grown else k, ns * (1 + (k == grown)), grid) for op, k, ns, grid in NAMED
    )
    base = write(folder / "base.parquet", steps(10, noise=0.01, layers=NAMED))
    new = write(folder / "new.parquet", steps(10, noise=0.01, layers=changed, seed=1))
    return compare(base, new, rules=[rule])


@pytest.mark.parametrize(
    ("name", "grown", "state"),
    [
        ("gemm_a", "gemm_a", VIOLATED),
        ("gemm_b", "gemm_a", MET),
        ("gemm_*", "gemm_a", VIOLATED),
        ("gemm_?", "gemm_b", VIOLATED),
        ("*", "gemm_a", VIOLATED),
        ("soft*", "gemm_a", MET),
        (ADD, ADD, VIOLATED),
        (MUL, ADD, MET),
        ("vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>", ADD, VIOLATED),
        ("vectorized_elementwise_kernel<4, MulFunctor<float>>", ADD, MET),
        ("vectorized…CUDAFunctor_add<…>", ADD, VIOLATED),
        ("vectorized_…<4, Mul…", ADD, MET),
        ("vectorized_elementwise_kernel*", ADD, VIOLATED),
        ("void at::native::vectorized*", ADD, VIOLATED),
    ],
)
def test_a_name_of_a_rule_is_whole_as_shown_or_a_pattern(name: str, grown: str, state: str, tmp_path: Path) -> None:
    assert compared(tmp_path, f'kernel["{name}"].total > 15%', grown=grown).checked[0].state == state


@pytest.mark.parametrize("name", ["gemm_a", "gemm_z", "gemm_a → gemm_z", "gemm_a…gemm_z"])
def test_a_replaced_name_is_named_by_either_side_or_by_its_row(name: str, tmp_path: Path) -> None:
    found = compared(tmp_path, f'kernel["{name}"].total > 15%', new_name="gemm_z")
    assert found.checked[0].state == VIOLATED
    assert found.checked[0].change.ratio == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ('kernel["gemm_aa"].avg', "neither side has a kernel of this name; did you mean gemm_a or gemm_b?"),
        ('kernel["GEMM_A"].avg', "did you mean gemm_a?"),
        ('kernel["vectorised_elementwise_kernel"].avg', "did you mean vectorized_elementwise_kernel<4, "),
        ('kernel["soft"].avg', "did you mean softmax_fw?"),
        ('kernel["aten::mm"].avg', "aten::mm is an operator, not a kernel"),
        ('operator["gemm_a"].total', "gemm_a is a kernel, not an operator"),
        ('operator["aten::mn"].total', "did you mean aten::m"),
        ('api["cudaLaunchKernels"].total', "did you mean cudaLaunchKernel?"),
        ('copy["Memcpy HtoD"].total', "neither side has a copy"),
        ('kernel["nothing*"].avg', "neither side has a kernel of this name"),
        ('kernel["vectorized_elementwise_kernel<…>"].avg', "fits 2 names: "),
    ],
)
def test_a_name_that_fits_nothing_or_several_is_wrong_usage_with_near_names(
    metric: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        compared(tmp_path, f"{metric} > 3%")
    assert said in str(caught.value)
    assert caught.value.hint


def test_a_name_that_only_warm_up_has_is_no_misspelling(tmp_path: Path) -> None:
    """The kernel is known, but nothing of it is compared."""
    rows = steps(10, noise=0.01)
    rows.append({"ts_ns": 10, "dur_ns": 5, "name": "init_kernel", "kind": "kernel", "pid": 9, "device": 3, "stream": 1})
    files = [write(tmp_path / f"{side}.parquet", rows) for side in "ab"]
    (checked,) = compare(*files, rules=['kernel["init_kernel"].avg > 3%']).checked
    assert checked.state == UNKNOWN


def test_a_misspelt_metric_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"not a metric; did you mean kernel\.total"):
        compared(tmp_path, "kernal.total > 3%")


def test_a_pattern_of_many_stars_costs_no_time() -> None:
    rows = [NamedRow(0, ("a" * 10_000,))]
    assert rows_meant("a*" * 40 + "b", rows) == []
    assert rows_meant("a*" * 40, rows) == [0]

"""sets: the functions of sets that numpy has, for whole numbers."""

from __future__ import annotations

import ast
import doctest
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import tracekit
from tracekit.model import sets

DTYPES = ("bool", "i1", "i2", "i4", "i8", "u1", "u4", "u8")


def numbers(dtype: str) -> st.SearchStrategy[np.ndarray]:
    return arrays.arrays(dtype, st.integers(0, 40))


def test_the_examples_run() -> None:
    assert doctest.testmod(sets).failed == 0


def same(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


@given(data=st.data(), dtype=st.sampled_from(DTYPES), other=st.sampled_from(DTYPES))
def test_sets_are_those_of_numpy(data: st.DataObject, dtype: str, other: str) -> None:
    one, two = data.draw(numbers(dtype)), data.draw(numbers(dtype))
    before = one.copy()
    same(sets.unique(one), np.unique(one))
    same(sets.union(one, two), np.union1d(one, two))
    same(sets.common(one, two), np.intersect1d(one, two))
    same(sets.without(one, two), np.setdiff1d(one, two))
    same(sets.is_in(one, two), np.isin(one, two))
    same(one, before)
    another = data.draw(numbers(other))
    assert sets.is_in(one, another).tolist() == np.isin(one, another).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, (1 << 12) + 1, 70_000])
def test_sets_of_many_numbers_are_those_of_numpy(dtype: str, size: int) -> None:
    draw = np.random.default_rng(size)
    one, two = (draw.integers(0, 1 << 20, size).astype(dtype) for _ in range(2))
    same(sets.unique(one), np.unique(one))
    same(sets.common(one, two), np.intersect1d(one, two))


def test_the_least_and_greatest_numbers_and_tables_are_told_apart() -> None:
    ends = np.array([2**63 - 1, -(2**63), 0, 2**63 - 1])
    same(sets.unique(ends), np.array([-(2**63), 0, 2**63 - 1]))
    assert sets.is_in(ends, ends[:1]).tolist() == [True, False, False, True]
    same(sets.unique(np.array([[2, 1], [1, 2]])), np.array([1, 2]))


def test_nobody_asks_numpy_for_distinct_values_alone() -> None:
    """With counts, places or an inverse they sort; alone they hash."""
    hashing = {"np.unique", "np.union1d", "np.intersect1d", "np.setdiff1d"}
    root = Path(tracekit.__file__).parent
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in sorted(root.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and not node.keywords and ast.unparse(node.func) in hashing
    ]
    assert [place for place in found if not place.startswith("model/sets.py:")] == []

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis import enclosing
from tracekit.analysis.enclosing import innermost

TIME = st.one_of(st.integers(-5, 20), st.sampled_from([-(1 << 63), (1 << 63) - 1]))
RANGES = st.lists(st.tuples(st.integers(0, 2), TIME, TIME), max_size=12)
ASKED = st.lists(st.tuples(st.integers(0, 3), TIME), max_size=8)


def columns(rows: list[tuple[int, ...]], width: int) -> list[np.ndarray]:
    return [np.array([row[i] for row in rows], np.int64) for i in range(width)]


def slow(ranges: list[tuple[int, int, int]], lane: int, at: int) -> int:
    """Of the ranges that hold the time: the last to begin, of these the first to end, of these the last row."""
    holding = [(s, -e, i) for i, (where, s, e) in enumerate(ranges) if where == lane and s <= at < e]
    return max(holding)[2] if holding else -1


def test_examples_of_the_documentation() -> None:
    outcome = doctest.testmod(enclosing)
    assert outcome.attempted >= 1
    assert outcome.failed == 0


@settings(max_examples=300)
@given(RANGES, ASKED)
def test_the_innermost_range_is_the_one_found_by_looking_at_all(
    ranges: list[tuple[int, int, int]], asked: list[tuple[int, int]]
) -> None:
    found = innermost(*columns(ranges, 3), *columns(asked, 2))
    assert found.tolist() == [slow(ranges, lane, at) for lane, at in asked]


def test_columns_of_different_lengths_are_refused() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="one length"):
        innermost(one, two, two, one, one)
    with pytest.raises(ValueError, match="one length"):
        innermost(one, one, one, one, two)
    with pytest.raises(TypeError, match="at"):
        innermost(one, one, one, one, np.array([0.5]))

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis import nesting
from tracekit.analysis.nesting import innermost

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
    outcome = doctest.testmod(nesting)
    assert outcome.attempted >= 1
    assert outcome.failed == 0


@settings(max_examples=300)
@given(RANGES, ASKED)
def test_the_innermost_range_is_the_one_found_by_looking_at_all(
    ranges: list[tuple[int, int, int]], asked: list[tuple[int, int]]
) -> None:
    found = innermost(*columns(ranges, 3), *columns(asked, 2))
    assert found.tolist() == [slow(ranges, lane, at) for lane, at in asked]


def test_lanes_may_be_any_int64() -> None:
    lanes = [-1, 65_535, 65_536, -(1 << 63), (1 << 63) - 1]
    zero, one = np.zeros(5, np.int64), np.ones(5, np.int64)
    assert innermost(np.array(lanes), zero, one, np.array(lanes[::-1]), zero).tolist() == [4, 3, 2, 1, 0]
    for lane, other in ((-1, 65_535), (65_535, -1), (0, 65_536), (0, -65_536)):
        assert innermost(np.array([lane]), zero[:1], one[:1], np.array([other]), zero[:1]).tolist() == [-1]


def test_columns_of_different_lengths_are_refused() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="one length"):
        innermost(one, two, two, one, one)
    with pytest.raises(ValueError, match="one length"):
        innermost(one, one, one, one, two)
    with pytest.raises(TypeError, match="at"):
        innermost(one, one, one, one, np.array([0.5]))

"""The union of ranges that come part by part is that of all of them."""

from __future__ import annotations

import doctest
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small

from tracekit.analysis import range_union
from tracekit.analysis.intervals import union_length
from tracekit.analysis.range_union import RangeUnion, length_of

BASES = st.sampled_from([0, 1_700_000_000_000_000_000, (1 << 63) - 5000, -(1 << 63), (1 << 32) - 50])
RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(-4, 10)), max_size=12)
PARTS = st.lists(st.lists(RANGES, max_size=6), max_size=3)


def test_examples_of_the_documentation() -> None:
    assert doctest.testmod(range_union) == (0, 4)


def columns(pairs: list[tuple[int, int]], base: int, step: int = 1) -> tuple[np.ndarray, np.ndarray]:
    starts = np.array([base + step * start for start, _ in pairs], np.int64)
    return starts, starts + np.array([size for _, size in pairs], np.int64)


@pytest.fixture(params=["usual", "small"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "small":
        for limit, value in {
            Limit.UNION_PART_RANGES: 4,
            Limit.UNION_ADDITIONS: 3,
            Limit.UNION_RANGES: 6,
            Limit.UNION_STRIDE: 1,
            Limit.UNION_WINDOW_SAMPLES: 3,
        }.items():
            small(monkeypatch, limit, value)
    return str(request.param)


@pytest.mark.usefixtures("limits")
@given(PARTS, BASES, st.sampled_from([1, 70]))
def test_parts_in_any_order_have_the_union_of_the_whole(
    unions: list[list[list[tuple[int, int]]]], base: int, step: int
) -> None:
    made, every = [], []
    for parts in unions:
        union, own = RangeUnion(), []
        for pairs in parts:
            union.add(*columns(pairs, base, step))
            own += pairs
        starts, ends = columns(own, base, step)
        assert union.length == union_length(starts, ends)
        assert union.length == union_length(starts, ends)
        assert union.count == starts.size
        assert union.extent == ((starts.min(), np.maximum(starts, ends).max()) if own else None)
        made.append(union)
        every += own
    assert length_of(made) == union_length(*columns(every, base, step))
    assert length_of([]) == 0


@pytest.mark.usefixtures("limits")
def test_the_whole_of_int64_and_ranges_far_apart_are_exact() -> None:
    least, most = -(1 << 63), (1 << 63) - 1
    union = RangeUnion()
    union.add(np.array([least, most - 3]), np.array([least + 5, most]))
    assert union.length == 8
    union.add(np.array([least]), np.array([most]))
    assert union.length == (1 << 64) - 1
    assert length_of([union, union]) == (1 << 64) - 1


@pytest.mark.parametrize("order", ["by start", "thread by thread", "any"])
def test_many_ranges_have_the_union_of_the_whole(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(7)
    starts = np.sort(draw.integers(0, 1 << 34, 400_000))
    ends = starts + draw.integers(0, 30_000, starts.size)
    places = {"by start": np.arange(starts.size), "any": draw.permutation(starts.size)}.get(
        order, np.argsort(np.arange(starts.size) % 7, kind="stable")
    )
    small(monkeypatch, Limit.UNION_RANGES, 1000)
    union, at = RangeUnion(), 0
    cuts = random.Random(3)
    while at < starts.size:
        rows = places[at : at + cuts.randrange(1, 60_000)]
        union.add(starts[rows], ends[rows])
        at += rows.size
    assert union.length == union_length(starts, ends)


def test_parts_over_the_same_time_are_merged_and_take_no_more_than_their_ranges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small(monkeypatch, Limit.UNION_RANGES, 1 << 17)
    starts = np.arange(1 << 17) * 1000
    union = RangeUnion()
    for shift in range(40):
        union.add(starts + 10 * shift, starts + 10 * shift + 20)
    assert union.length == starts.size * 410
    assert union.nbytes <= 8 * 5 * starts.size

from __future__ import annotations

import doctest
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.analysis import nesting
from tracekit.analysis.nesting import NestingTree, nest, parents

Rows: TypeAlias = list[tuple[int, int, int]]  # lane, start, end

BASES = st.sampled_from([0, 1_700_000_000_000_000_000, (1 << 62) - 60, -(1 << 62)])


@st.composite
def any_rows(draw: st.DrawFn) -> Rows:
    base = draw(BASES)
    rows = draw(st.lists(st.tuples(st.integers(-1, 2), st.integers(3, 30), st.integers(-2, 25)), max_size=30))
    return [(lane * 1000, base + start, base + start + size) for lane, start, size in rows]


@st.composite
def nested_rows(draw: st.DrawFn) -> Rows:
    """Rows that are properly nested by construction: each range is cut at drawn points, and so are the pieces."""
    base, rows = draw(BASES), []

    def cut(lane: int, low: int, high: int, depth: int) -> None:
        points = sorted(draw(st.lists(st.integers(low, high), max_size=6)))
        for start, end in zip(points[::2], points[1::2], strict=False):
            rows.append((lane, base + start, base + end))
            if depth and end > start:
                cut(lane, start, end, depth - 1)

    for lane in range(draw(st.integers(1, 3))):
        cut(lane, 0, 50, 3)
    return draw(st.permutations(rows))


def columns_of(rows: Rows) -> list[np.ndarray]:
    return [np.array([row[i] for row in rows], np.int64) for i in range(3)]


def tree_of(rows: Rows) -> NestingTree:
    return nest(*columns_of(rows))


def slow_tree(rows: Rows) -> tuple[list[int], list[int], list[int], list[int]]:
    """Parent, depth, self time and crossed sibling by definition, each row against all rows and each ns on its own."""
    rows = [(lane, start, max(start, end)) for lane, start, end in rows]
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], rows[i][1], -rows[i][2], i))
    place = {row: at for at, row in enumerate(order)}
    parent, depth, crosses = [-1] * len(rows), [0] * len(rows), [-1] * len(rows)
    for i in order:
        lane, start, end = rows[i]
        before = [j for j in order[: place[i]] if rows[j][0] == lane]
        holding = [j for j in before if rows[j][2] > start and rows[j][2] >= end]
        if holding:
            parent[i] = holding[-1]
            depth[i] = depth[parent[i]] + 1
        siblings = [j for j in before if parent[j] == parent[i]]
        if siblings and start < rows[siblings[-1]][2]:
            crosses[i] = siblings[-1]
    self_ns = []
    for i, (_, start, end) in enumerate(rows):
        covered = {ns for j, (_, s, e) in enumerate(rows) if parent[j] == i for ns in range(s, e)}
        self_ns.append(end - start - len(covered))
    return parent, depth, self_ns, crosses


def test_examples_of_the_documentation() -> None:
    outcome = doctest.testmod(nesting)
    assert outcome.attempted >= 2
    assert outcome.failed == 0


@settings(max_examples=400)
@given(st.one_of(any_rows(), nested_rows()))
def test_the_tree_equals_its_definition(rows: Rows) -> None:
    tree = tree_of(rows)
    found = tuple(column.tolist() for column in (tree.parent, tree.depth, tree.self_ns, tree.crosses))
    assert found == slow_tree(rows)
    assert parents(*columns_of(rows)).tolist() == found[0]


@settings(max_examples=200)
@given(any_rows())
def test_a_lane_is_free_of_crossings_exactly_if_it_is_properly_nested(rows: Rows) -> None:
    crosses = tree_of(rows).crosses
    rows = [(lane, start, max(start, end)) for lane, start, end in rows]
    for lane in {row[0] for row in rows}:
        ranges = [(start, end) for code, start, end in rows if code == lane]
        partial = any(a < c < b < d for a, b in ranges for c, d in ranges)
        assert partial == any(crosses[i] >= 0 for i, row in enumerate(rows) if row[0] == lane)


@settings(max_examples=200)
@given(nested_rows())
def test_self_times_add_up_to_the_roots_where_nesting_is_proper(rows: Rows) -> None:
    tree = tree_of(rows)
    assert (tree.crosses == -1).all()
    for lane in {row[0] for row in rows}:
        mine = [i for i, row in enumerate(rows) if row[0] == lane]
        roots = sum(rows[i][2] - rows[i][1] for i in mine if tree.parent[i] == -1)
        assert sum(tree.self_ns[i] for i in mine) == roots


@settings(max_examples=200)
@given(any_rows())
def test_self_time_is_never_negative_and_a_parent_holds_its_children(rows: Rows) -> None:
    tree = tree_of(rows)
    assert (tree.self_ns >= 0).all()
    for i, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            assert rows[parent][0] == rows[i][0]
            assert rows[parent][1] <= rows[i][1]
            assert max(rows[i][1:]) <= rows[parent][2]


def test_ranges_that_touch_are_siblings() -> None:
    assert tree_of([(0, 0, 5), (0, 5, 9)]).parent.tolist() == [-1, -1]


def test_of_equal_ranges_the_later_row_is_the_child() -> None:
    tree = tree_of([(0, 0, 5), (0, 0, 5), (0, 0, 5)])
    assert tree.parent.tolist() == [-1, 0, 1]
    assert tree.self_ns.tolist() == [0, 0, 5]


def test_an_instant_lies_in_what_is_open_and_holds_nothing() -> None:
    tree = tree_of([(0, 5, 5), (0, 0, 5), (0, 5, 9), (0, 5, 5), (0, 7, 3)])
    assert tree.parent.tolist() == [2, -1, -1, 2, 2]
    assert tree.self_ns.tolist() == [0, 5, 4, 0, 0]
    assert tree.crosses.tolist() == [-1] * 5


def test_an_instant_at_the_end_of_an_event_that_crosses_is_beside_it() -> None:
    tree = tree_of([(0, 0, 10), (0, 5, 15), (0, 15, 15), (0, 15, 16)])
    assert tree.parent.tolist() == [-1, -1, 3, -1]
    assert tree.crosses.tolist() == [-1, 0, -1, -1]
    assert tree_of([(0, 0, 10), (0, 5, 15), (0, 15, 15)]).parent.tolist() == [-1, -1, -1]


def test_a_partial_overlap_is_reported_and_its_time_counted_once() -> None:
    tree = tree_of([(0, 40, 60), (0, 0, 100), (0, 10, 50), (0, 45, 48)])
    assert tree.parent.tolist() == [1, -1, 1, 0]
    assert tree.crosses.tolist() == [2, -1, -1, -1]
    assert tree.self_ns.tolist() == [17, 50, 40, 3]


def test_lanes_do_not_see_each_other() -> None:
    tree = tree_of([(7, 0, 100), (-3, 10, 20), (7, 5, 6), (1 << 40, 5, 200)])
    assert tree.parent.tolist() == [-1, -1, 0, -1]
    assert tree.crosses.tolist() == [-1] * 4


def test_a_chain_of_any_depth_is_followed() -> None:
    n = 5000
    tree = nest(np.zeros(n, np.int64), np.arange(n), 2 * n - np.arange(n))
    assert tree.parent.tolist() == list(range(-1, n - 1))
    assert tree.depth.tolist() == list(range(n))
    assert int(tree.self_ns.sum()) == 2 * n


def test_no_rows_give_an_empty_tree() -> None:
    assert tree_of([]).parent.tolist() == []


def test_a_range_longer_than_int64_is_an_error() -> None:
    with pytest.raises(OverflowError, match="longer than int64"):
        tree_of([(0, -(1 << 62), 1 << 62)])


def test_columns_are_checked() -> None:
    one, two = np.array([1]), np.array([1, 2])
    with pytest.raises(ValueError, match="lanes has 1, starts has 1, ends has 2"):
        nest(one, one, two)
    with pytest.raises(TypeError, match="starts"):
        nest(one, np.array([0.5]), one)

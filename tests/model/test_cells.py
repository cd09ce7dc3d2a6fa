"""Cells that are made when they are looked at: the same cells as those of a list, whatever was done before."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model.cells import Cells, joined, only, taken, whole_numbers

WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)
LISTS = st.one_of(
    st.lists(st.one_of(WHOLE, st.none())),
    st.lists(st.one_of(st.floats(), st.none())),
    st.lists(st.one_of(st.text(max_size=2), st.none())),
)


def cells_of(values: list[object]) -> Cells:
    """Return these values as cells, with arrays where they are numbers of one kind."""
    kinds = {type(value) for value in values} - {type(None)}
    known = np.array([value is not None for value in values], np.bool_)
    if kinds <= {int}:
        return Cells.of(np.array([value or 0 for value in values], np.int64), known)
    if kinds == {float}:
        return Cells.of(np.array([value or 0.0 for value in values], np.float64), known)
    return Cells(len(values), lambda: list(values))


def same(found: object, expected: list[object]) -> bool:
    """Return whether cells are equal and of the same types; nan is equal to nan."""
    return repr(list(found)) == repr(expected)  # type: ignore[call-overload]


@given(LISTS, LISTS, st.data())
def test_cells_are_those_of_a_list(one: list[object], other: list[object], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(one) - 1))) if one else []
    picked = np.array(rows, np.int64)
    assert same(cells_of(one), one)
    assert same(taken(cells_of(one), picked), [one[row] for row in rows])
    assert same(taken(one, picked), [one[row] for row in rows])
    assert same(joined([cells_of(one), cells_of(other)]), [*one, *other])
    assert same(joined([cells_of(one), other]), [*one, *other])
    assert same(joined([cells_of(one), Cells.unknown(2)]), [*one, None, None])
    mask = np.array([row % 2 == 0 for row in range(len(one))], np.bool_)
    expected = [value if row % 2 == 0 else None for row, value in enumerate(one)]
    assert same(only(cells_of(one), mask), expected)
    assert same(only(one, mask), expected)
    assert same(cells_of(one)[1:3], one[1:3])
    assert cells_of(one)[::-1] == cells_of(one[::-1]) or "nan" in repr(one)
    assert len(cells_of(one)) == len(one)
    assert same(pickle.loads(pickle.dumps(cells_of(one))), one)
    assert same(copy.deepcopy(cells_of(one)), one)


@given(st.lists(st.one_of(WHOLE, st.none(), st.just(1 << 63), st.floats(), st.booleans(), st.text(max_size=1))))
def test_whole_numbers_are_integers_of_64_bits_alone(values: list[object]) -> None:
    fits = all(value is None or (type(value) is int and value < 1 << 63) for value in values)
    found = whole_numbers(values)  # type: ignore[arg-type]
    assert (found is not None) == fits
    if found is not None:
        numbers, known = found
        assert numbers.tolist() == [value or 0 for value in values]
        assert (known is None or known.tolist()) == (None not in values or [value is not None for value in values])


def test_cells_equal_lists_and_other_cells() -> None:
    cells = Cells.of(np.array([1, 2]))
    assert cells == [1, 2]
    assert cells == [1, 2]
    assert cells == Cells.of(np.array([1, 2]))
    assert cells != [1, 3]
    assert cells != (1, 2)
    assert repr(cells) == "[1, 2]"
    assert cells.index(2) == 1
    assert 2 in cells
    with pytest.raises(IndexError):
        cells[2]


def test_cells_are_made_once_and_late() -> None:
    made = []
    cells = Cells(2, lambda: made.append(1) or ["a", "b"])
    later = taken(cells, np.array([1, 0]))
    assert len(later) == 2
    assert not made
    assert list(later) == ["b", "a"]
    assert later[0] == "b"
    assert made == [1]

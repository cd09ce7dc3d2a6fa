"""Columns of a batch as the writers of timelines take them: numbers with nulls, and rows of one width behind texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model.arrow import Mask
from tracekit.writers.tracks import digits
from tracekit.writers.tracks.batch import integers
from tracekit.writers.tracks.digits import Micros, fixed_rows

NUMBERS = st.lists(st.none() | st.integers(-(1 << 31), (1 << 31) - 1), max_size=40)


@given(NUMBERS, st.integers(0, 40), st.integers(0, 40), st.sampled_from([pa.int8(), pa.int32(), pa.int64()]))
def test_numbers_have_0_below_a_null_wherever_their_column_begins(
    values: list[int | None], start: int, size: int, kind: pa.DataType
) -> None:
    values = [None if v is None else v % 100 if kind == pa.int8() else v for v in values]
    column = pa.array(values, kind).slice(start, size)
    found = integers(column)
    assert found.values.tolist() == [value or 0 for value in column.to_pylist()]
    assert found.mask().tolist() == [value is not None for value in column.to_pylist()]


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 20))
def test_columns_with_the_same_nulls_have_one_mask(has_value: list[bool], start: int) -> None:
    columns = [pa.array([n if has else None for has in has_value], pa.int64()).slice(start) for n in (0, 7)]
    other = pa.array([None if has else 1 for has in has_value], pa.int64()).slice(start)
    masks: dict[bytes, Mask] = {}
    first, second, third = (integers(column, masks) for column in (*columns, other))
    assert first.valid is second.valid
    assert third.mask().tolist() == [not has for has in has_value[start:]]


def test_codes_of_texts_are_numbers() -> None:
    column = pa.array(["a", None, "b", "a"]).dictionary_encode().slice(1)
    assert (integers(column).values.tolist(), integers(column).mask().tolist()) == ([0, 1, 0], [False, True, True])


@pytest.mark.parametrize("large", [False, True])
def test_texts_stand_before_the_rows(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr(digits, "LARGE", 8)
    numbers, times = np.array([5, 123_456]), np.array([1, 2_000])
    found = fixed_rows([(2, [b"n=", numbers, b";"]), (2, [b"t=", Micros(times)])], [b"", "µ".encode(), b"text"])
    assert found.type == (pa.large_string() if large else pa.string())
    assert found.to_pylist() == ["", "µ", "text", "n=     5;", "n=123456;", "t= 0.001", "t= 2.000"]
    assert fixed_rows([(1, [b"x"])]).to_pylist() == ["x"]

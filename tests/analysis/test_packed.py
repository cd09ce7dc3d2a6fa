"""Packed columns hold what they were made of, in few bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.analysis.packed import Packed

LEAST, MOST = -(1 << 63), (1 << 63) - 1


@given(st.lists(st.one_of(st.integers(LEAST, MOST), st.integers(0, 300)), min_size=1))
def test_any_numbers_come_back(values: list[int]) -> None:
    packed = Packed(np.array(values, np.int64))
    places = np.arange(len(values))[::2]
    assert packed.all().tolist() == values
    assert packed.at(places).tolist() == values[::2]


@pytest.mark.parametrize(
    ("values", "nbytes"),
    [
        ([7] * 50, 0),
        (range(10**12, 10**12 + 50), 0),
        (range(500, 0, -10), 0),
        ([0, 255], 0),
        ([0, 0, 255], 3),
        ([1, 0, 256], 6),
        ([0, 2, 1 << 31], 12),
        ([LEAST, 0, MOST], 24),
    ],
)
def test_columns_are_as_narrow_as_their_numbers(values: list[int], nbytes: int) -> None:
    packed = Packed(np.array(values, np.int64))
    assert (packed.nbytes, packed.all().tolist()) == (nbytes, list(values))

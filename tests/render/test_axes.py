"""Axes: ticks cover the values, ascend, have labels of their own, and are few."""

from __future__ import annotations

import math
import re

import pytest
from doors.pictures import linear, logarithmic
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model.units import Unit

UNITS = (Unit.NS, Unit.BYTES, Unit.COUNT, Unit.NUMBER, Unit.RATIO)
SIZES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "%": 0.01, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
SIZES |= {word: 1 << 10 * i for i, word in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB"))}


@given(
    st.integers(0, 1 << 62) | st.floats(0, 1e18) | st.floats(0, 1) | st.sampled_from([math.nan, math.inf, -1.0]),
    st.sampled_from(UNITS),
    st.integers(1, 8),
)
def test_ticks_cover_the_range_and_their_labels_are_unique_and_true(highest: float, unit: Unit, most: int) -> None:
    axis = linear(highest, unit, most)
    values = [value for value, _ in axis.ticks]
    labels = [label for _, label in axis.ticks]
    assert values[0] == axis.low == 0
    assert values[-1] == axis.high
    if math.isfinite(highest):
        assert axis.high >= highest
        assert highest <= 0 or axis.high <= max(highest * 11, 1)  # no axis of which most is empty
    assert values == sorted(set(values))
    assert len(set(labels)) == len(labels) <= most + 1
    assert not any("nan" in label.lower() or "inf" in label.lower() for label in labels)
    # The word of the last label is the unit of all.
    size = SIZES.get(axis.word, 1)
    for value, label in axis.ticks:
        number = float(re.sub(r"[^\d.]", "", label.split(" ")[0]))
        assert math.isclose(number * size, value, rel_tol=1e-9, abs_tol=1e-300)
    places = [axis.place(value) for value in (*values, -1, axis.high * 2)]
    assert all(0 <= place <= 1 for place in places)
    assert (places[0], places[len(values) - 1]) == (0, 1)


@given(st.floats(1e-12, 1e20), st.floats(1, 1e15), st.integers(2, 8))
def test_powers_of_ten_cover_the_range(low: float, factor: float, most: int) -> None:
    axis = logarithmic(low, low * factor, most=most)
    values = [value for value, _ in axis.ticks]
    labels = [label for _, label in axis.ticks]
    assert axis.low <= low * (1 + 1e-6)
    assert axis.high >= low * factor * (1 - 1e-6)
    assert (values[0], values[-1]) == (axis.low, axis.high)
    assert values == sorted(set(values))
    assert len(set(labels)) == len(labels) <= most + 2
    assert 0 <= axis.place(low) <= axis.place(low * factor) <= 1


@pytest.mark.parametrize(
    ("highest", "unit", "labels"),
    [
        (3_700_000, Unit.NS, ["0", "1", "2", "3", "4 ms"]),
        (3, Unit.COUNT, ["0", "1", "2", "3"]),
        (7 << 29, Unit.BYTES, ["0", "1", "2", "3", "4 GiB"]),
        (0.973, Unit.RATIO, ["0", "50", "100 %"]),
        (1_073_741_826, Unit.NUMBER, ["0", "0.5", "1", "1.5 G"]),
        (0, Unit.NS, ["0", "1 ns"]),
    ],
)
def test_labels_are_round_numbers_in_one_unit(highest: float, unit: Unit, labels: list[str]) -> None:
    assert [label for _, label in linear(highest, unit).ticks] == labels

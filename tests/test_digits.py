"""digits: runs of digits in bytes, within their texts, and the numbers that they mean."""

from __future__ import annotations

import doctest
import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model import digits


def test_the_examples_run() -> None:
    assert doctest.testmod(digits).failed == 0


@given(texts=st.lists(st.text("09a5", max_size=12).map(str.encode), max_size=6))
def test_runs_are_those_of_a_regular_expression_text_by_text(texts: list[bytes]) -> None:
    data = np.frombuffer(b"".join(texts), np.uint8)
    offsets = np.cumsum([0, *map(len, texts)])
    expected = [
        (at + found.start(), at + found.end(), int(found[0]))
        for at, text in zip(offsets.tolist(), texts, strict=False)
        for found in re.finditer(rb"\d+", text)
    ]
    digit = digits.mask(data)
    begins, ends = digits.runs(digit, offsets)
    numbers = digits.numbers(data, digit, ends - begins)
    assert list(zip(begins.tolist(), ends.tolist(), numbers.tolist(), strict=True)) == expected
    begins, ends = digits.runs(digit)
    assert list(zip(begins.tolist(), ends.tolist(), strict=True)) == [
        found.span() for found in re.finditer(rb"\d+", data.tobytes())
    ]


def test_runs_that_are_cleared_count_as_text() -> None:
    data = np.frombuffer(b"12x345x6", np.uint8)
    digit = digits.mask(data)
    begins, ends = digits.runs(digit)
    digits.clear(digit, begins[1:2], ends[1:2])
    assert digits.numbers(data, digit, np.array([2, 1])).tolist() == [12, 6]

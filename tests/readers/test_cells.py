"""Numbers and texts of many cells read at once equal those that Python reads one by one."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers.cuda_profile._cells import PAD, Cells, Text

CELL = st.one_of(
    st.integers(0, 10**18).map(str),
    st.integers(0, 10**13).map(lambda n: f"{n // 1000}.{n % 1000:03}"),
    st.decimals(0, 10**15, places=2).map(str),
    st.integers(0, 16**17).map(lambda n: f"{n:x}"),
    st.integers(0, 16**16).map(lambda n: f"{n:X}"),
    st.text("0123456789abcdefgABFG.-+ :/@`[]é\x7f名", max_size=20),
)
LIMIT = 1 << 62


def cells_of(words: list[str]) -> Cells:
    starts, ends, at = [], [], PAD
    for word in words:
        starts.append(at)
        ends.append(at + len(word.encode()))
        at = ends[-1] + 1
    return Cells(Text(",".join(words).encode()), np.array(starts, np.int64), np.array(ends, np.int64))


@given(st.lists(CELL, min_size=1, max_size=60))
def test_numbers_are_exact_or_reported_as_not_read(words: list[str]) -> None:
    check_numbers(words)


@pytest.mark.parametrize("around", [("", ""), ("", "1234567"), ("1234567", ""), ("12345678", "1234567"), ("1", "12")])
def test_every_character_is_a_digit_or_none_at_any_place(around: tuple[str, str]) -> None:
    before, after = around
    check_numbers([f"{before}{character}{after}" for character in map(chr, range(33, 256)) if character != ","])


def test_numbers_of_more_digits_than_two_words_hold_are_not_read() -> None:
    check_numbers(["1" * 16, "1" * 17, "0" * 17, "2" * 17 + ".5", "0" + "3" * 16 + ".125", "0" * 9 + "ffffffff"])


def check_numbers(words: list[str]) -> None:
    cells = cells_of(words)
    readings = (
        (cells.integers(), r"[0-9]{1,16}", int, LIMIT),
        (cells.thousands(), r"[0-9]{1,16}(\.[0-9]{1,3})?", lambda w: int(Decimal(w) * 1000), LIMIT - 2000),
        (cells.hexadecimal(), r"[0-9a-fA-F]{1,16}", lambda w: int(w, 16), LIMIT),
    )
    for (values, good), pattern, parse, limit in readings:
        for word, value, ok in zip(words, values.tolist(), good.tolist(), strict=True):
            readable = re.fullmatch(pattern, word) is not None and parse(word) < limit
            assert ok == readable, word
            assert not ok or value == parse(word)


@given(st.lists(CELL, min_size=1, max_size=60), st.text(max_size=20))
def test_texts_and_patterns_are_found_where_they_stand(words: list[str], pattern: str) -> None:
    cells = cells_of(words)
    assert cells.texts().to_pylist() == words
    assert [cells.one(at) for at in range(len(words))] == words
    data = ",".join(words).encode()
    for text in (pattern.encode()[:40], words[0].encode()):
        padded = data + b"\n" * PAD
        want = [padded[at - PAD :].startswith(text) for at in cells.starts.tolist()]
        if len(text) <= PAD:
            assert cells.text.same(cells.starts, text).tolist() == want


def test_some_cells_can_be_taken() -> None:
    cells = cells_of(["a", "bb", "ccc"])
    assert cells.take(np.array([2, 0])).texts().to_pylist() == ["ccc", "a"]
    assert len(cells.take(np.array([False, True, False]))) == 1


@given(st.text("ab=[ ", min_size=1, max_size=60), st.text("ab=[ ", min_size=1, max_size=40))
def test_a_text_stands_where_python_finds_it_also_at_the_end(data: str, wanted: str) -> None:
    text = Text(data.encode())
    places = np.arange(PAD, PAD + len(data))
    assert text.same(places, wanted.encode()).tolist() == [data.startswith(wanted, at) for at in range(len(data))]

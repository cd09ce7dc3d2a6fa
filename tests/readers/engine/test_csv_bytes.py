"""Bytes of CSV lines that pyarrow would read in another way than cell by cell."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers.engine.csv_bytes import CELL_STARTS, has_bare_points, has_hexadecimal, has_plain_quotes


@pytest.mark.parametrize(
    "data", [b"0x1f,1\n", b"1,0X1\n", b'1,"0x1"\n', b"1\n0x1\n", b"1, 0x1\n", b"1,-0x1\n", b"1\t0x1\n"]
)
def test_a_hexadecimal_cell_is_found(data: bytes) -> None:
    assert has_hexadecimal(data)
    assert has_hexadecimal(b"7," + data)  # at an odd place too, where it was at an even one


@pytest.mark.parametrize("data", [b"", b"0", b"10x1,a0X1\n", b"f(0x1)\n", b"1.0x\n"])
def test_0x_within_a_cell_is_no_number(data: bytes) -> None:
    assert not has_hexadecimal(data)


def test_the_bytes_before_a_cell_may_be_named() -> None:
    assert not has_hexadecimal(b"a,b 0x1\n", CELL_STARTS)
    assert has_hexadecimal(b"a,b 0x1\n")


@pytest.mark.parametrize(
    ("data", "bare"),
    [(b"1.5,2\n", False), (b".5,2\n", True), (b"1,.5\n", True), (b"1.,2\n", True), (b"1,2.\n", True), (b"-.5\n", True),
     (b'1,"2."\n', True), (b"a.b\n", False), (b"1,2.\r\n", True)],
)  # fmt: skip
def test_a_number_without_digits_on_a_side_of_its_point_is_found(data: bytes, bare: bool) -> None:
    assert has_bare_points(np.frombuffer(data, np.uint8)) is bare


@given(st.lists(st.lists(st.text('ab ",', max_size=4), min_size=1, max_size=4), min_size=1, max_size=3))
def test_lines_with_plain_quotes_mean_what_stripping_the_quotes_gives(rows: list[list[str]]) -> None:
    """Cells are quoted as a careless program does; where the check says yes, the csv module agrees with it."""
    lines = [",".join(f'"{cell}"' if "," in cell or cell.startswith('"') else cell for cell in row) for row in rows]
    data = "".join(f"{line}\n" for line in lines)
    if has_plain_quotes(np.frombuffer(data.encode(), np.uint8), ord(",")):
        for line in lines:
            (cells,) = csv.reader([line], strict=True) if line else [[]]
            assert all('"' not in cell for cell in cells)
            assert len(",".join(cells)) == len(line) - line.count('"')


def test_quotes_in_cells_and_over_lines_are_not_plain() -> None:
    plain = [b'"a,b",c\n', b'1,"a","b"\r\n', b'1,""\n', b"1,2\n"]
    other = [b'a"b"c\n', b'"a"b,c\n', b'"a\nb"\n', b'"a""b"\n', b'"a\n', b'a,"b" ,c\n', b'"a",b"\n"c"\n']
    assert [has_plain_quotes(np.frombuffer(data, np.uint8), ord(",")) for data in plain] == [True] * 4
    assert [has_plain_quotes(np.frombuffer(data, np.uint8), ord(",")) for data in other] == [False] * 7

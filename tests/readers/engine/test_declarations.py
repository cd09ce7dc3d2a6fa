"""Cells, layouts and headers of declared tables."""

from __future__ import annotations

from decimal import Decimal

import pytest
import toy_tables as toys
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model.units import TIME_EXPONENT
from tracekit.readers.engine import cells, layout
from tracekit.readers.engine.cells import RowError
from tracekit.readers.printed.numbers import COMMA, POINT

# --- cells ---


@given(st.decimals(0, 10**9, places=6), st.sampled_from(sorted(cells.TIMES)))
def test_a_time_is_its_digits_in_ns_rounded_half_to_even(value: Decimal, unit: str) -> None:
    exact = value * 10 ** TIME_EXPONENT[cells.TIMES[unit]]
    assert cells.TIME.value(str(value), unit, POINT) == int(exact.to_integral_value())
    assert cells.MEAN_TIME.value(str(value), unit, POINT) == float(exact)


@given(st.integers(0, cells.INT62 - 1), st.sampled_from(["us", "ms", "s"]))
def test_the_unscaled_digits_of_a_time_are_its_ns(ns: int, unit: str) -> None:
    scale = cells.TIME.scale(unit)
    assert scale is not None
    assert cells.TIME.value(str(Decimal(ns).scaleb(-scale)), unit, POINT) == ns


@pytest.mark.parametrize(
    ("cell", "text", "unit"),
    [
        (cells.TIME, "x", "ns"), (cells.TIME, "1", "MB"), (cells.TIME, "1", ""), (cells.MEAN_TIME, "1", "%"),
        (cells.SMALL, str(1 << 31), ""), (cells.SMALL, "1.5", ""), (cells.COUNT, "", ""), (cells.SIZE, "1e30", "B"),
    ],
)  # fmt: skip
def test_a_cell_that_cannot_be_read_is_an_error(cell: cells.Cell, text: str, unit: str) -> None:
    with pytest.raises(RowError):
        cell.value(text, unit, POINT)


def test_only_units_without_a_factor_are_whole_and_exact() -> None:
    assert (cells.TIME.whole("nsec"), cells.TIME.whole("us"), cells.TIME.whole("")) == (True, False, False)
    assert (cells.SIZE.whole(""), cells.SIZE.whole("bytes"), cells.SIZE.whole("KiB")) == (True, True, False)
    assert (cells.TIME.exact("us"), cells.SIZE.exact("MB")) == (0, 0)
    assert cells.TIME.exact("ns") == cells.SIZE.exact("B") == cells.INT62 - 1
    assert cells.TIME.scale("%") is None


def test_a_printed_number_and_a_printed_text_stay_in_args() -> None:
    for cell in (cells.printed_number(), cells.PRINTED_TEXT):
        assert isinstance(cell.value("7", "", COMMA), cells.KeptValue)
    assert cells.SKIP.value("7", "", POINT) is None
    assert cells.NAME.value("a", "", POINT) == "a"


# --- layouts ---

RULE = "> ----  -----------  ---"


def test_cells_are_under_the_dashes_of_a_rule() -> None:
    columns = layout.places(RULE)
    assert columns == [(2, 6), (8, 19), (21, 24)]
    assert layout.places("---- one rule alone ----") is None
    assert layout.cut(">  1.5           20  a b c", columns) == ["1.5", "20", "a b c"]
    assert layout.cut("a", []) == []


def test_a_shifted_row_is_divided_at_blanks_if_its_name_is_the_only_text() -> None:
    columns = layout.places("----  -----------  ---")
    assert columns is not None
    assert layout.row("123456789 20 a b", columns, texts=1) == ["123456789", "20", "a b"]
    assert layout.row("123456789 20 a b", columns, texts=2) == ["123456789 20 a b"]


def test_a_shifted_header_is_divided_at_two_blanks() -> None:
    columns = layout.places("----  -----------  ---")
    assert columns is not None
    assert layout.titles("Time (%)  Total Time  Name", columns) == ["Time (%)", "Total Time", "Name"]
    assert layout.titles("Time        Total T  Nam", columns) == ["Time", "Total T", "Nam"]
    assert len(layout.titles("Time (%) Total Time  Name", columns)) == 3


def test_cells_between_delimiters() -> None:
    assert layout.split('1,"a, b",c') == ["1", "a, b", "c"]
    assert layout.split("1;a,b", ";") == ["1", "a,b"]
    assert layout.split("| 1 | a | b |", "|", 2) == ["1", "a | b"]
    assert layout.split("no bars", "|") == ["no bars"]
    assert layout.split('1,"a"b') == ['1,"a"b']
    many = "," * 201
    assert layout.split(many) == [many]
    assert layout.split("") == []


def test_a_line_between_bars_is_a_row_or_a_rule() -> None:
    assert layout.boxed("+----+----+") == []
    assert layout.boxed("| 1 | a |") == ["1", "a"]
    assert layout.boxed("1 | a") is None


# --- headers ---


def names(*columns: str) -> list[str]:
    header = toys.TOY.header(list(columns))
    assert header is not None
    return [place.name for place in header.places]


def test_a_header_is_recognised_by_its_columns_and_their_units() -> None:
    trace = toys.TOY.header(["Name", "Begin (us)", "Took(nsec)"])
    assert trace is not None
    assert (trace.form, trace.columns) == ("trace", ("Name", "Begin", "Took"))
    assert toys.TOY.header(["Name", "Begin (MB)", "Took (ns)"]) is None
    assert toys.TOY.header(["Name", "Begin", "Took (ns)"]) is None
    assert toys.TOY.header(["Title", "Begin (us)", "Took (us)"]) is None
    assert toys.TOY.header(["Begin (us)", "Took (us)"]) is None


def test_the_unit_of_a_title_and_of_another_column_count_where_there_is_none() -> None:
    assert toys.TOY.header(["Name", "Sum", "Calls", "Mean"]) is None
    header = toys.TOY.header(["Name", "Sum", "Calls", "Mean"], "us")
    assert header is not None
    units = {place.name: (place.unit, place.whole) for place in header.places}
    assert units == {"Name": ("", False), "Sum": ("us", False), "Calls": ("", True), "Mean": ("us", False)}


def test_columns_that_a_row_must_have_are_read_first() -> None:
    assert names("Name", "Regs", "Took (us)", "Begin (us)") == ["Took", "Begin", "Name", "Regs"]


def test_other_words_for_a_column_do_not_make_it_a_column_twice() -> None:
    assert names("Kernel", "Begin (us)", "Took (us)") == ["Begin", "Took", "Name"]
    assert names("Kernel", "Begin (us)", "Took (us)", "Name") == ["Begin", "Took", "Kernel", "Name"]


def test_a_declaration_may_depend_on_the_other_columns() -> None:
    def target(*columns: str) -> str:
        header = toys.TOY.header(["Name", "Begin (us)", "Took (us)", *columns])
        assert header is not None
        return next(place.column.to for place in header.places if place.name == "Thread")

    assert (target("Thread"), target("Thread", "Device")) == ("tid", "")


def test_keys_of_args_have_the_unit() -> None:
    header = toys.TOY.header(["Name", "Begin (us)", "Took (us)", "Speed (GB/s)", "Result", "Power"])
    assert header is not None
    keys = {place.name: place.key for place in header.places}
    assert (keys["Speed"], keys["Result"], keys["Power"]) == ("Speed (GB/s)", "result", "Power")

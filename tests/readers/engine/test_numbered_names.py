"""Tables whose names end in numbers, with ids that may be texts and cells for rows of one kind: both ways agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model.arrow import I64, Column, Mask
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger
from tracekit.readers.builder import event_batch
from tracekit.readers.engine.blocks import ColumnBlock, parse_plan
from tracekit.readers.engine.cells import (
    DURATION,
    ID,
    INT62,
    SKIP,
    SMALL,
    TIME,
    WITH_UNIT,
    Cell,
    KeptValue,
    RowError,
    integer,
)
from tracekit.readers.engine.rows import read_row
from tracekit.readers.engine.spec import DeclaredColumn, Named, NumberedNames, TableHeader, TableSpec
from tracekit.readers.names import Demangler
from tracekit.readers.printed.numbers import COMMA, POINT, Style


def _number(name: str, on_device: bool) -> int | None:
    base, _, digits = name.rpartition("#")
    return int(digits) if on_device and base and digits.isdecimal() else None


def _same(names: Column, on_device: Mask) -> tuple[Column, I64, Mask]:
    texts: list[str] = names.to_pylist()
    numbers = [_number(text.strip(), place) for text, place in zip(texts, on_device.tolist(), strict=True)]
    same = [t if n is None else t.rpartition("#")[0] for t, n in zip(texts, numbers, strict=True)]
    return pa.array(same), np.array([n or 0 for n in numbers], np.int64), np.array([n is not None for n in numbers])


def _by_name(_: TableHeader, name: str, on_device: bool) -> Named:
    plain = name.rpartition("#")[0] if _number(name, on_device) is not None else name
    return Named({"name": plain, "kind": Kind.MEMCPY if plain.startswith("copy") else Kind.KERNEL})


def _lane(text: str, _unit: str, _style: Style) -> int:
    if not text.isdecimal() and not text.startswith("lane "):
        raise RowError(f"{text!r} is no lane")
    return int(text) if text.isdecimal() else 1000 + len(text)


def _moved(text: str, unit: str, style: Style) -> KeptValue:
    return KeptValue({"bytes": integer(text, style)}, text + unit)


TABLE = TableSpec(
    form="trace",
    makes="events",
    needs=(),
    columns=(
        DeclaredColumn(("Start",), TIME, "ts_ns", must=True),
        DeclaredColumn(("Took",), DURATION, "dur_ns", must=True, absent_for=lambda name: name.startswith("fault")),
        DeclaredColumn(("Regs",), SMALL, "registers"),
        DeclaredColumn(("Gpu",), ID, "device"),
        DeclaredColumn(("Lane",), Cell(_lane, exact=lambda _: INT62 - 1, texts=True), "stream"),
        DeclaredColumn(("Id",), ID, "correlation"),
        DeclaredColumn(("Size",), ID, "bytes"),
        DeclaredColumn(("Moved",), Cell(_moved), key="moved", of_kind=Kind.MEMCPY),
        DeclaredColumn(("",), SKIP),
    ),
    by_name=_by_name,
    looks_at=frozenset({"Gpu"}),
    others=WITH_UNIT,
    numbered=NumberedNames("correlation", _number, _same),
)
COLUMNS = ("Start", "Took", "Regs", "Gpu", "Lane", "Id", "Size", "Moved", "Speed", "", "Name", "")
UNITS = ("us", "us", "", "", "", "", "", "B", "GB/s", "", "", "")
HEADER = TABLE.placed(COLUMNS, UNITS)


def in_block(lines: list[str], style: Style = POINT, delimiter: str = ",") -> list[dict[str, Any]] | None:
    """Return the rows of lines that are read together, None where they are refused."""
    return in_blocks(HEADER, [lines], style, delimiter)


def in_blocks(
    header: TableHeader, blocks: list[list[str]], style: Style = POINT, delimiter: str = ","
) -> list[dict[str, Any]] | None:
    """Return the rows of blocks of one table, None where one is refused."""
    plan, names = parse_plan(header, delimiter, style), Demangler(Ledger(path="toy"), enabled=False)
    assert plan is not None
    rows: list[dict[str, Any]] = []
    for lines in blocks:
        block = ColumnBlock.read(header, plan, "".join(f"{line}\n" for line in lines).encode())
        if block is None or not block.convert(names):
            return None
        batch = event_batch(block.count, block.columns)
        for key in ("name", "kind"):  # texts in order of appearance, each once
            assert batch.column(key).dictionary.equals(batch.column(key).cast(pa.string()).unique().drop_null())
        rows += batch.to_pylist()
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


def one_by_one(
    lines: list[str], style: Style = POINT, delimiter: str = ",", header: TableHeader = HEADER
) -> list[dict[str, Any]]:
    rows = []
    for line in lines:
        cells = {column: cell.strip(' "') for column, cell in zip(header.columns, line.split(delimiter), strict=True)}
        read = read_row(header, cells, style)
        assert not read.odd
        args = ",".join(f'"{key}":"{value}"' for key, value in read.args.items())
        row = {**read.columns, "kind": str(read.columns["kind"]), **({"args": f"{{{args}}}"} if args else {})}
        rows.append({key: value for key, value in row.items() if value is not None})
    return rows


GOOD = [
    "1.5,2.25,16,0,7,,,,,,add#218,",
    "1.5,2.25,16,0,7,,,,,,add#219,",
    "2,3,,0,7,5,,,1.5,,add#220,x",
    "3,1,,0,7,,,64,,,copy#9,",
    "3,1,,0,7,,32,64,,,copy#10,",
    "3,1,,0,7,,,64,,,add,",
    "4,1,,,,,,,,,call#3,",
    "4,,,0,,,,,,,fault,",
]


def test_numbers_of_names_are_ids_where_no_cell_has_one() -> None:
    rows = in_block(GOOD)
    assert rows == one_by_one(GOOD)
    assert [row.get("correlation") for row in rows] == [218, 219, 5, 9, 10, None, None, None]
    assert [row["name"] for row in rows] == ["add", "add", "add", "copy", "copy", "add", "call#3", "fault"]


def test_a_cell_for_one_kind_of_rows_fills_what_no_other_cell_has() -> None:
    rows = in_block(GOOD)
    assert rows is not None
    assert [row.get("bytes") for row in rows] == [None, None, None, 64, 32, None, None, None]
    assert [row.get("args") for row in rows[2:6]] == ['{"Speed":"1.5GB/s"}', *['{"moved":"64B"}'] * 3]


@pytest.mark.parametrize(
    "line",
    [
        "4,1,,0,lane seven,,,,,,add#1,",
        "4,1,,0,7,,,,0x7f00,,add#1,",
        "4,1,16,0,7,,,,,,f<0x12>#1,",
    ],
)
def test_ids_that_are_texts_and_hexadecimal_cells_stay_in_their_block(line: str) -> None:
    assert in_block([*GOOD, line]) == one_by_one([*GOOD, line])


@pytest.mark.parametrize(
    "line",
    [
        "4,,,0,7,,,,,,add#1,",
        "4,1,0x10,0,7,,,,,,add#1,",
        "4,1,,0,no,,,,,,add#1,",
        "4,1,,0,7,,,,,, add,",
        "4,1,,0,7,,,x,,,copy,",
        "x,1,,0,7,,,,,,add#1,",
        ".5,1,,0,7,,,,,,add#1,",
    ],
)
def test_a_block_with_a_row_that_may_be_read_otherwise_is_refused(line: str) -> None:
    assert in_block([*GOOD, line]) is None


def test_a_careful_block_takes_no_number_that_a_row_would_not() -> None:
    in_ns = TABLE.placed(COLUMNS, ("ns", "ns", *UNITS[2:]))
    plan = parse_plan(in_ns, ",")
    assert plan is not None
    assert ColumnBlock.read(in_ns, plan, b"4,1,,0,7,5,,,0x7f,,add,\n") is not None
    assert ColumnBlock.read(in_ns, plan, b"4,1,,0,7,5.,,,0x7f,,add,\n") is None


def test_a_row_without_a_cell_that_its_name_does_not_excuse_is_an_error() -> None:
    with pytest.raises(RowError):
        one_by_one(["4,,,0,7,,,,,,add#1,"])


def test_decimal_commas_are_read_together_too() -> None:
    lines = [line.replace(",", ";").replace(".", ",") for line in GOOD]
    assert in_block(lines, COMMA, ";") == one_by_one(lines, COMMA, ";")


def test_a_table_with_two_columns_of_names_has_no_plan() -> None:
    two = TableSpec("trace", "events", (), TABLE.columns, ("Name", "Other"), numbered=TABLE.numbered)
    assert parse_plan(two.placed((*COLUMNS, "Other"), (*UNITS, "")), ",") is None


WITHOUT_IDS = TABLE.placed(
    tuple(n for n in COLUMNS if n != "Id"), ("us", "us", "", "", "", "", "B", "GB/s", "", "", "")
)
ROWS = st.tuples(
    *(st.integers(0, 9).map(str), st.integers(0, 5).map(str), st.sampled_from(["", "16", "32"])),
    *(st.sampled_from(["", "0", "1"]), st.sampled_from(["", "7", "8"]), st.sampled_from(["", "70", "71"])),
    *(st.sampled_from(["", "64"]), st.just(""), st.sampled_from(["", "1.5", "2"]), st.just("")),
    *(
        st.sampled_from(["add", "add#1", "add#2", "#3", "copy#4", "copy", "call#5", "fault", "two words#6"]),
        st.just(""),
    ),
)


@pytest.mark.parametrize("header", [HEADER, WITHOUT_IDS], ids=["ids in a column", "ids behind names"])
@given(st.lists(st.lists(ROWS, min_size=1, max_size=12), min_size=1, max_size=3))
def test_blocks_of_one_table_are_read_as_its_rows(header: TableHeader, blocks: list[list[tuple[str, ...]]]) -> None:
    """Names are texts with or without ids, and what the texts of one block gave is known to the next."""
    without = COLUMNS.index("Id") if header is WITHOUT_IDS else len(COLUMNS)
    lines = [[",".join((*row[:without], *row[without + 1 :])) for row in rows] for rows in blocks]
    assert in_blocks(header, lines) == one_by_one([line for rows in lines for line in rows], header=header)

"""Cells of one line by the names of the CSV's columns, whether the line is CSV or text."""

from __future__ import annotations

import re

from tracekit.readers._nvprof_lines import NARROW, Header, Table, split_cells
from tracekit.readers._nvprof_names import LAUNCH, SUFFIX
from tracekit.readers._nvprof_state import OpenTable
from tracekit.readers._text_table import cut_cells

_DECIMAL = re.compile(r"^[+-]?\d+([.,])\d+(?:e[-+]\d+)?(?:%|[a-zA-Zµμ]+(?:/s)?)?$")
_NUMBER = re.compile(r"^[+-]?\.?\d")
_SIX_DIGITS = re.compile(r"^\d+\.\d{6}(?:e[-+]\d+)?$")
_TIME_CELL = re.compile(r"^-?\d[\d.]*(?:e[-+]\d+)?(?:ns|us|ms|s)$")
_SHAPE = re.compile(r"^\((-?\d+) (-?\d+) (-?\d+)\)$")
_TEXT_NAMES = {"Regs*": "Registers Per Thread", "SSMem*": "Static SMem", "DSMem*": "Dynamic SMem"}
_SHAPES = {"Grid Size": "Grid", "Block Size": "Block"}


def decimal_of(text: str, delimiter: str) -> str:
    """Return "." or ",", whichever stands in the first number with a fraction; "" when there is none."""
    for line in text.splitlines():
        for cell in split_cells(line, delimiter)[0]:
            if match := _DECIMAL.match(cell.strip()):
                return match[1]
    return ""


def fitted(values: list[str], header: Header) -> list[str] | None:
    """Return as many cells as the header has columns: a name without quotes may hold delimiters. None if too few."""
    extra = len(values) - len(header.columns)
    if extra <= 0:
        return values if not extra else None
    column = "Name" if "Name" in header.columns else "Kernel"
    if header.quoted or column not in header.columns:
        return None
    at = header.columns.index(column)
    return [*values[:at], header.delimiter.join(values[at : at + extra + 1]), *values[at + extra + 1 :]]


def csv_cells(values: list[str], text: str, table: OpenTable) -> dict[str, str] | None:
    """Return the stripped cells by column; None when the line does not look like a row of this table."""
    header = table.header
    cells: dict[str, str] = {}
    for column, value in zip(header.columns, values, strict=True):
        if column or (header.table is Table.UNIFIED and "" not in cells):
            cells[column] = value.strip()
    if header.delimiter != "," and not table.decimal:
        table.decimal = decimal_of(text, header.delimiter)
    return cells if _is_row(cells, text, header) else None


_NO_NUMBERS = frozenset({"nan", "inf", "infinity"})


def _is_row(cells: dict[str, str], text: str, header: Header) -> bool:
    if header.quoted and len(header.columns) < NARROW and '"' not in text:
        return False
    if header.table is Table.TRACE:
        if len(header.columns) >= NARROW:
            return True
        start, duration = cells["Start"], cells["Duration"]
        return bool(_NUMBER.match(start)) and (
            not duration or bool(_NUMBER.match(duration)) or duration.lower().lstrip("+-") in _NO_NUMBERS
        )
    first = {Table.SUMMARY: "Time(%)", Table.COUNTERS: "Invocations", Table.UNIFIED: "Count", Table.PER_CALL: "Device"}
    cell = cells.get(first[header.table], "")
    return bool(cell) if header.table is Table.PER_CALL else bool(_NUMBER.match(cell))


def looks_cut(text: str, header: Header, torn: bool) -> bool:
    """Whether a line of too few cells is a row that was cut, not output of the program."""
    values = [v.strip() for v in split_cells(text, header.delimiter)[0]]
    if torn:
        return bool(_NUMBER.match(values[0])) or text.lstrip().startswith('"')
    if len(values) > len(header.columns):
        return bool(_SIX_DIGITS.match(values[0]))
    return len(values) > 1 and bool(_SIX_DIGITS.match(values[0]) and (_SIX_DIGITS.match(values[1])))


def text_cells(text: str, header: Header) -> dict[str, str] | None:
    """Return the cells of a text table's row under the CSV's names; None when the line is no row of this table."""
    values = cut_cells(text, header.ends, optional_first=header.columns[0] == "Type")
    if values is None:
        return None
    if header.table is Table.TRACE:
        if not _TIME_CELL.match(values[0]):
            return None
    elif header.table is Table.SUMMARY:
        if not values[header.columns.index("Time(%)")].endswith("%"):
            return None
    elif not values[0].isdecimal():
        return None
    cells: dict[str, str] = {}
    for column, value in zip(header.columns, values, strict=True):
        cell = "" if value == "-" else value
        if column in _SHAPES:
            shape = _SHAPE.match(cell)
            if shape is None and cell:
                return None
            for axis, part in zip("XYZ", shape.groups() if shape else ("", "", ""), strict=True):
                cells[f"{_SHAPES[column]} {axis}"] = part
        else:
            cells[_TEXT_NAMES.get(column, column)] = cell
    return cells


def ends_whole(cells: dict[str, str]) -> bool:
    """Whether the name of a trace's row is whole for sure, though its line may be cut: what ends it stands there."""
    name = cells["Name"]
    if name.startswith("["):
        return name.endswith("]")
    is_call = not cells.get("Device") and not cells.get("Grid X")
    return bool(LAUNCH.match(name) if is_call else SUFFIX.match(name))


def begins_row(text: str, header: Header) -> bool:
    """Whether a piece of a line is the beginning of a row of this table."""
    if not header.is_text:
        values = [v.strip() for v in split_cells(text, header.delimiter)[0]]
        return (len(values) > 1 and bool(_SIX_DIGITS.match(values[0]))) or text.startswith('"')
    first, *rest = re.split(r" {2,}", text.strip())
    if header.table is Table.TRACE:
        return bool(_TIME_CELL.match(first))
    return bool(rest) and (first.isdecimal() or first.endswith(("%", ":")))

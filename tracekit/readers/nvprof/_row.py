"""One row of a trace table at a time, exactly: all rows of text tables, and CSV rows that `_block.py` cannot read.

A time is a decimal number in the unit of its cell, else in the unit of its column. Sizes are rounded to whole bytes:
nvprof prints them in KB or MB with six decimals in CSV, with five digits in text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

import orjson

from tracekit.model.schema import Kind
from tracekit.model.units import BYTE_FACTOR, TIME_EXPONENT, split_quantity, to_bytes, to_ns
from tracekit.readers.engine.cells import RowError
from tracekit.readers.nvprof._names import UNIFIED, api_kind, device_kind, strip_launch, strip_suffix
from tracekit.readers.nvprof._state import NvprofState, OpenTable
from tracekit.readers.printed.numbers import BLANKS

ARGS = {
    "SrcMemType": "src_mem_type",
    "DstMemType": "dst_mem_type",
    "Src Dev": "src_device",
    "Src Ctx": "src_context",
    "Dst Dev": "dst_device",
    "Dst Ctx": "dst_context",
    "Unified Memory": "unified_memory",
    "Virtual Address": "virtual_address",
}
"""Columns without a place in the schema, and their keys in args. Others keep their own name as key."""

INTEGERS = {
    "Grid X": "grid_x",
    "Grid Y": "grid_y",
    "Grid Z": "grid_z",
    "Block X": "block_x",
    "Block Y": "block_y",
    "Block Z": "block_z",
    "Registers Per Thread": "registers",
}
SIZES = {"Static SMem": "static_smem_bytes", "Dynamic SMem": "dynamic_smem_bytes", "Size": "bytes"}
DERIVABLE = frozenset(("Throughput",))
"""Not kept: it is bytes over time, and the row has both."""
KNOWN = frozenset(
    (*ARGS, *INTEGERS, *SIZES, *DERIVABLE, "Start", "Duration", "Device", "Context", "Stream", "Name", "Correlation_ID")
)

_INT32 = 1 << 31
_BARE_SIZE = re.compile(r"^\d+[.,]\d+$", re.ASCII)
_UNITS = r"(?:e[-+]?\d+)?[%a-zA-Zµμ]*(?:/s)?"
_COMMA_GROUPS = re.compile(
    rf"^([<>]?[+-]?(?:\d{{1,3}}(?:[{BLANKS}]\d{{3}})+|\d{{1,3}}(?:,\d{{3}})+(?=\.)|\d{{1,3}}(?:,\d{{3}}){{2,}}|\d+))"
    rf"((?:\.\d*)?{_UNITS})$",
    re.ASCII,
)
_POINT_GROUPS = re.compile(
    rf"^([<>]?[+-]?(?:\d{{1,3}}(?:[{BLANKS}]\d{{3}})+|\d{{1,3}}(?:\.\d{{3}})+(?=,)|\d{{1,3}}(?:\.\d{{3}}){{2,}}|\d+))"
    rf"((?:,\d*)?{_UNITS})$",
    re.ASCII,
)
_WHOLE_GROUPS = tuple(re.compile(rf"^\d{{1,3}}(?:{one}\d{{3}})+$", re.ASCII) for one in (",", r"\."))
_SEPARATORS = re.compile(rf"[{BLANKS},.]")


def plain_number(cell: str, decimal: str) -> str:
    """Return the cell with a decimal point and without separators of thousands.

    No-break spaces and apostrophes always separate thousands. So does a comma in front of a point (or a point in front
    of a comma), and one of several commas or points. Raises: RowError for `1,234` alone, which may mean either.
    """
    if decimal != ",":
        if "," in cell or not cell.isascii() or "'" in cell:
            if (match := _COMMA_GROUPS.match(cell)) is None:
                if cell.endswith("…"):
                    raise RowError(f"{cell[:30]!r} is not a number", "bad-number")
                raise RowError(f"the number {cell[:30]!r} has a comma in a table of decimal points", "ambiguous-number")
            return _SEPARATORS.sub("", match[1]) + match[2]
        return cell
    if "." in cell or cell.count(",") > 1 or not cell.isascii() or "'" in cell:
        if (match := _POINT_GROUPS.match(cell)) is None:
            if cell.endswith("…"):
                raise RowError(f"{cell[:30]!r} is not a number", "bad-number")
            raise RowError(f"the number {cell[:30]!r} has a point in a table of decimal commas", "ambiguous-number")
        cell = _SEPARATORS.sub("", match[1]) + match[2]
    return cell.replace(",", ".")


def time_ns(cell: str, unit: str, decimal: str = "") -> int:
    """Return the ns of a cell, which may carry its own unit. Raises: RowError."""
    try:
        number, own = split_quantity(plain_number(cell, decimal))
    except ValueError:
        raise RowError(f"{cell[:30]!r} is not a time", "bad-time") from None
    unit = own or unit
    if unit not in TIME_EXPONENT:
        raise RowError(
            f"the time {cell[:30]!r} has no unit" if not unit else f"{unit!r} is not a unit of time", "no-unit"
        )
    if number < 0:
        raise RowError(f"the time {cell[:30]!r} is negative", "negative-time")
    try:
        return to_ns(number, unit)
    except ValueError:
        raise RowError(f"the time {cell[:30]!r} is beyond 146 years", "absurd-time") from None


def size_bytes(cell: str, unit: str, decimal: str = "") -> int:
    """Return the bytes of a cell, which may carry its own unit. Raises: RowError."""
    try:
        number, own = split_quantity(plain_number(cell, decimal))
        unit = own or unit
        if unit not in BYTE_FACTOR and number == 0:
            return 0
        size = to_bytes(number, unit)
    except ValueError:
        raise RowError(f"{cell[:30]!r} is not a size in a known unit", "bad-size") from None
    if not 0 <= size < 1 << 62:
        raise RowError(f"the size {cell[:30]!r} is negative or absurd", "bad-size")
    return size


def integer(cell: str, decimal: str, limit: int) -> int:
    """Return a whole number below the limit. Raises: RowError."""
    if cell.isascii() and cell.isdigit() and len(cell) < 10:
        return int(cell)
    whole = _WHOLE_GROUPS[decimal == ","]
    try:
        # A whole number has no decimals: its one separator is that of thousands.
        number, unit = split_quantity(_SEPARATORS.sub("", cell) if whole.match(cell) else plain_number(cell, decimal))
    except ValueError:
        unit = "?"
    if not unit and abs(number) < limit and number == number.to_integral_value():
        return int(number)
    raise RowError(f"{cell[:30]!r} is not a whole number", "bad-number")


def _identity(cell: str, number: Callable[[str], int | None]) -> int | None:
    """Return the number of a context or stream. Raises: RowError for a cell that was cut in print."""
    if cell.endswith(("…", "...")):
        raise RowError(f"{cell[:30]!r} was cut", "cut-cell")
    return number(cell)


def trace_row(
    cells: Mapping[str, str], table: OpenTable, state: NvprofState, line: int
) -> tuple[int, dict[str, object]]:
    """Return the start of one row of a GPU, API or combined trace, and its other columns of EVENTS without pid.

    cells: by the column names of the CSV, stripped, "" for an empty cell. A cell beside start and duration that cannot
    be read is not known. Raises: RowError, with the reason to drop the row.
    """
    decimal = table.decimal
    name = cells.get("Name", "")
    start = time_ns(cells["Start"], table.unit("Start"), decimal)
    row: dict[str, object] = {"event_id": line, "source": state.source}
    duration = cells["Duration"]
    if duration:
        row["dur_ns"] = time_ns(duration, table.unit("Duration"), decimal)
    elif not name.startswith(UNIFIED):
        raise RowError("the row has no duration", "no-duration")
    for column, target in INTEGERS.items():
        if cell := cells.get(column):
            row[target] = state.read_optional(partial(integer, cell, decimal, _INT32), column, line)
    for column, target in SIZES.items():
        if cell := cells.get(column):
            row[target] = state.read_optional(partial(size_bytes, cell, table.unit(column), decimal), column, line)
    row["device"] = state.device(cells.get("Device", ""))
    for column, number in (("Context", state.context), ("Stream", state.stream)):
        cell = cells.get(column, "")
        row[column.lower()] = state.read_optional(partial(_identity, cell, number), column, line)
    args: dict[str, str] = {}
    for column, cell in cells.items():
        if cell and (column in ARGS or column not in KNOWN):
            unit = table.unit(column) if column not in ARGS else ""
            args[ARGS.get(column, column)] = (
                unified_memory_cell(cell, table) if column == "Unified Memory" else cell + unit
            )
    _add_name(row, name, args, state, decimal)
    if cell := cells.get("Correlation_ID"):
        row["correlation"] = state.correlation(cell)
    if args:
        row["args"] = orjson.dumps(args).decode()
    return start, row


def unified_memory_cell(cell: str, table: OpenTable) -> str:
    """Return a cell of the column Unified Memory with its unit: a size has decimals, a count or an address has none."""
    return cell + table.unit("Unified Memory") if _BARE_SIZE.match(cell) else cell


def _add_name(row: dict[str, object], name: str, args: dict[str, str], state: NvprofState, decimal: str) -> None:
    """Add the columns that follow from the name of a row."""
    if row["device"] is None and "grid_x" not in row and not name.startswith("["):
        name, kernel, correlation = strip_launch(name)
        kind = api_kind(name)
        if kernel is not None:
            args["kernel"] = kernel
    else:
        name, correlation = strip_suffix(name)
        kind, row["copy_kind"] = device_kind(name)
    row |= {"kind": str(kind), "correlation": correlation}
    if kind is Kind.MEMCPY and "bytes" not in row and (cell := args.get("unified_memory")):
        with suppress(RowError):  # a count or an address: args keeps it
            row["bytes"] = size_bytes(cell, "", decimal)
    if name:
        row["name"], row["raw_name"] = state.names.one(name)

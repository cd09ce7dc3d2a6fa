"""nvprof's trace table as a declaration: its columns, how their cells are read, and what follows from a name.

A time is a decimal number in the unit of its cell, else in the unit of its column. Sizes are rounded to whole bytes:
nvprof prints them in KB or MB with six decimals in CSV, with five digits in text. A KB of nvprof has 1024 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow
from tracekit.model.arrow import Column, pc
from tracekit.model.schema import Kind
from tracekit.model.units import BYTE_FACTOR, TIME_EXPONENT, split_quantity, to_bytes, to_ns
from tracekit.readers.engine.cells import (
    INT32,
    INT62,
    PRINTED_TEXT,
    SKIP,
    WITH_UNIT,
    Cell,
    KeptValue,
    RowError,
    text_cell,
)
from tracekit.readers.engine.spec import DeclaredColumn, Named, NumberedNames, TableHeader, TableSpec
from tracekit.readers.nvprof._names import UNIFIED, api_kind, device_kind, same_names, strip_launch, strip_suffix
from tracekit.readers.printed.numbers import BLANKS, Style

# Numbers that may carry their own unit.

_BARE_SIZE = lazy_pattern(r"^\d+[.,]\d+$", re.ASCII)
_UNITS = r"(?:e[-+]?\d+)?[%a-zA-Zµμ]*(?:/s)?"
_COMMA_GROUPS = lazy_pattern(
    rf"^([<>]?[+-]?(?:\d{{1,3}}(?:[{BLANKS}]\d{{3}})+|\d{{1,3}}(?:,\d{{3}})+(?=\.)|\d{{1,3}}(?:,\d{{3}}){{2,}}|\d+))"
    rf"((?:\.\d*)?{_UNITS})$",
    re.ASCII,
)
_POINT_GROUPS = lazy_pattern(
    rf"^([<>]?[+-]?(?:\d{{1,3}}(?:[{BLANKS}]\d{{3}})+|\d{{1,3}}(?:\.\d{{3}})+(?=,)|\d{{1,3}}(?:\.\d{{3}}){{2,}}|\d+))"
    rf"((?:,\d*)?{_UNITS})$",
    re.ASCII,
)
_WHOLE_GROUPS = tuple(lazy_pattern(rf"^\d{{1,3}}(?:{one}\d{{3}})+$", re.ASCII) for one in (",", r"\."))
_SEPARATORS = lazy_pattern(rf"[{BLANKS},.]")


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


_PLAIN = r"^[0-9]{1,9}(\.[0-9]{1,6})?$"
_MILLION = 10**6


def all_sizes(texts: Column, unit: str, decimal: str = "") -> Column | None:
    """Return `size_bytes` of each text; None where one is not plain: up to nine digits, and six decimals."""
    factor = BYTE_FACTOR.get(unit, 0)
    if not factor or decimal == "," or not arrow.bools(pc.match_substring_regex(texts, _PLAIN)).all():
        return None
    # Below 10^15 the digits fit the lower half of their 16 bytes.
    digits = arrow.view(texts.cast(pa.decimal128(15, 6)).buffers()[1], np.int64)[: 2 * len(texts) : 2]
    if int(digits.max(initial=0)) * factor >= 1 << 62:
        return None
    whole, rest = np.divmod(digits * factor, _MILLION)
    half = 2 * rest == _MILLION  # to the even one of its neighbours, as `to_bytes` rounds
    return arrow.array(whole + ((2 * rest > _MILLION) | (half & (whole % 2 == 1))))


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


# What follows from a name.


def _named(_: TableHeader, name: str, on_device: bool) -> Named:
    """Return name, kind, and the kernel of a call that launched one."""
    if on_device or name.startswith("["):
        plain = strip_suffix(name)[0]
        kind, way = device_kind(plain)
        return Named({"name": plain, "kind": kind, "copy_kind": way})
    call, kernel = strip_launch(name)[:2]
    return Named({"name": call, "kind": api_kind(call)}, {} if kernel is None else {"kernel": kernel})


def _number(name: str, on_device: bool) -> int | None:
    if on_device or name.startswith("["):
        return strip_suffix(name)[1]
    return strip_launch(name)[2]


# Columns.


def _duration(text: str, unit: str, style: Style) -> int:
    if not text:
        raise RowError("the row has no duration", "no-duration")
    return time_ns(text, unit, style.decimal)


def _unified(text: str, unit: str, style: Style) -> KeptValue:
    """Return a cell of the column Unified Memory: a size has decimals and the column's unit, an address has neither."""
    printed = text + unit if _BARE_SIZE.match(text) else text
    try:
        return KeptValue({"bytes": size_bytes(printed, "", style.decimal)}, printed)
    except RowError:  # a count or an address
        return KeptValue(text=printed)


def _id(number: Callable[[str], int | None]) -> Cell:
    """Return the declaration of an id, which may be a text. `number` keeps the text of such an id."""

    def read(text: str, _unit: str, _style: Style) -> int | None:
        if text.endswith(("…", "...")):
            raise RowError(f"{text[:30]!r} was cut", "cut-cell")
        return number(text)

    return Cell(read, exact=lambda _: INT62 - 1, texts=True)


_START = Cell(lambda text, unit, style: time_ns(text, unit, style.decimal), scale=TIME_EXPONENT.get, bare_points=True)
_DURATION = Cell(_duration, scale=TIME_EXPONENT.get, bare_points=True)
_SMALL = Cell(
    lambda text, _unit, style: integer(text, style.decimal, INT32 + 1), exact=lambda _: INT32, bare_points=True
)
_SIZE = Cell(
    lambda text, unit, style: size_bytes(text, unit, style.decimal),
    every=lambda texts, unit, style: all_sizes(texts, unit, style.decimal),
)


def trace_table(
    device: Callable[[str], int | None],
    context: Callable[[str], int | None],
    stream: Callable[[str], int | None],
    correlation: Callable[[str], int | None],
) -> TableSpec:
    """Return the table of a GPU trace, an API trace or both. The functions return the numbers of cells with ids."""
    return TableSpec(
        form="trace",
        makes="events",
        needs=(),
        columns=(
            DeclaredColumn(("Start",), _START, "ts_ns", must=True),
            # Rows of unified memory that take no time (page faults of the CPU) have none.
            DeclaredColumn(("Duration",), _DURATION, "dur_ns", must=True, absent_for=lambda n: n.startswith(UNIFIED)),
            *(
                DeclaredColumn((f"{shape} {axis}",), _SMALL, f"{shape}_{axis}".lower())
                for shape in ("Grid", "Block")
                for axis in "XYZ"
            ),
            DeclaredColumn(("Registers Per Thread",), _SMALL, "registers"),
            DeclaredColumn(("Static SMem",), _SIZE, "static_smem_bytes"),
            DeclaredColumn(("Dynamic SMem",), _SIZE, "dynamic_smem_bytes"),
            DeclaredColumn(("Size",), _SIZE, "bytes"),
            # Bytes over time: the row has both.
            DeclaredColumn(("Throughput",), SKIP),
            DeclaredColumn(("SrcMemType",), PRINTED_TEXT, key="src_mem_type"),
            DeclaredColumn(("DstMemType",), PRINTED_TEXT, key="dst_mem_type"),
            DeclaredColumn(("Device",), text_cell(device), "device"),
            DeclaredColumn(("Context",), _id(context), "context"),
            DeclaredColumn(("Stream",), _id(stream), "stream"),
            DeclaredColumn(("Src Dev",), PRINTED_TEXT, key="src_device"),
            DeclaredColumn(("Src Ctx",), PRINTED_TEXT, key="src_context"),
            DeclaredColumn(("Dst Dev",), PRINTED_TEXT, key="dst_device"),
            DeclaredColumn(("Dst Ctx",), PRINTED_TEXT, key="dst_context"),
            DeclaredColumn(("Unified Memory",), Cell(_unified), key="unified_memory", of_kind=Kind.MEMCPY),
            DeclaredColumn(("Virtual Address",), PRINTED_TEXT, key="virtual_address"),
            DeclaredColumn(
                ("Correlation_ID",),
                Cell(lambda text, *_: correlation(text), exact=lambda _: INT62 - 1, texts=True),
                "correlation",
            ),
            # A table that was saved from a sheet is padded.
            DeclaredColumn(("",), SKIP),
        ),
        by_name=_named,
        looks_at=frozenset({"Device", "Grid X"}),
        others=WITH_UNIT,
        numbered=NumberedNames("correlation", _number, same_names),
    )

"""Values of an answer as exact cells: numbers, text, and ISO 8601 for dates and times of any year."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import Values, pc
from tracekit.model.report import Cell

_ENDS = {(1 << 63) - 1: "infinity", -(1 << 63) + 1: "-infinity"}
"""DuckDB's infinite timestamps, as they are in Arrow."""
_DAYS = {(1 << 31) - 1: "infinity", -(1 << 31) + 1: "-infinity"}
"""DuckDB's infinite dates."""
_DAY = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
"""The last time of a day in DuckDB, 24:00:00, which Arrow and Python do not have."""


def cells(column: Values) -> list[Cell]:
    """Return the values of a column as cells of a report: a number if that is exact, else exact text.

    NaN and infinity are the words that JSON's users know: "NaN", "Infinity", "-Infinity".
    """
    return [_cell(value) for value in values(column)]


def values(column: Values) -> list[object]:
    """Return the values of a column as Python's; dates, times and intervals as text, at any depth.

    Python's own dates end with the year 9999 and at microseconds; those of DuckDB do not.
    """
    return [
        value
        for chunk in (column.chunks if isinstance(column, pa.ChunkedArray) else [column])
        for value in _of_chunk(chunk)
    ]


def _of_chunk(chunk: arrow.Column) -> Iterable[object]:
    kind = chunk.type
    if pa.types.is_timestamp(kind):
        return _texts(chunk, pa.int64(), f"datetime64[{kind.unit}]", _ENDS, "+00:00" if kind.tz else "")
    if pa.types.is_date32(kind):
        return _texts(chunk, pa.int32(), "datetime64[D]", _DAYS, "")
    if pa.types.is_time64(kind):
        texts = _texts(chunk, pa.int64(), f"datetime64[{kind.unit}]", {_DAY[kind.unit]: "24:00:00"}, "")
        return (text and text.rpartition("T")[2] for text in texts)
    if isinstance(chunk, pa.MapArray):
        return _maps(chunk)
    if isinstance(chunk, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        return _lists(chunk)
    if isinstance(chunk, pa.StructArray):
        return _structs(chunk)
    if isinstance(chunk, pa.UnionArray) and kind.mode == "sparse":
        return _unions(chunk)
    found: list[object] = _untyped(chunk).to_pylist()
    return found


def _untyped(chunk: Any) -> Any:
    """Return the column as one whose values may be of any type: the stubs have no type for all of them."""
    return chunk


def _texts(
    chunk: arrow.Column, stored: pa.DataType, kind: str, ends: dict[int, str], zone: str
) -> Iterator[str | None]:
    """Yield instants as ISO 8601, in UTC if they have a zone."""
    for number in _untyped(chunk.cast(stored)).to_pylist():
        if number is None or number in ends:
            yield number and ends[number]
        else:
            text = _short(str(np.array(number, np.int64).astype(kind)))
            if text.startswith("-"):  # numpy counts the sign as one of the four digits of a year
                year, rest = text[1:5].partition("-")[0], text[1:].partition("-")[2]
                text = f"-{year:0>4}-{rest}" if len(year) < 4 else text
            yield text + zone


def _short(text: str) -> str:
    """Return a time without a fraction that is zero."""
    whole, _, fraction = text.partition(".")
    return text if fraction.strip("0") else whole


def _lists(
    chunk: pa.ListArray[Any] | pa.LargeListArray[Any] | pa.FixedSizeListArray[Any, Any],
) -> Iterator[object]:
    inside = iter(values(chunk.flatten()))
    for length in _untyped(pc.list_value_length(chunk)).to_pylist():
        yield None if length is None else [next(inside) for _ in range(length)]


def _maps(chunk: pa.MapArray[Any, Any]) -> Iterator[object]:
    """Yield each map as an object, its keys as text: JSON has no others."""
    keys, items = values(chunk.keys), values(chunk.items)
    rows = zip(pairwise(_untyped(chunk.offsets).to_pylist()), _untyped(chunk.is_valid()).to_pylist(), strict=True)
    for (first, end), valid in rows:
        inside = zip(keys[first:end], items[first:end], strict=True)
        yield {str(_cell(key)): item for key, item in inside} if valid else None


def _unions(chunk: pa.UnionArray) -> Iterator[object]:
    members = [values(chunk.field(number)) for number in range(chunk.type.num_fields)]
    numbers = {code: number for number, code in enumerate(chunk.type.type_codes)}
    for row, code in enumerate(_untyped(chunk.type_codes).to_pylist()):
        yield members[numbers[code]][row]


def _structs(chunk: pa.StructArray) -> Iterator[object]:
    names = [field.name for field in chunk.type]
    fields = [values(chunk.field(number)) for number in range(len(names))]
    for row, valid in enumerate(_untyped(chunk.is_valid()).to_pylist()):
        yield {name: field[row] for name, field in zip(names, fields, strict=True)} if valid else None


def _cell(value: object) -> Cell:
    match value:
        case None | str() | int() if not isinstance(value, bool):
            return value
        case float():
            return value if math.isfinite(value) else _word(value)
        case list() | dict():
            return json.dumps(to_json(value), ensure_ascii=False)
        case pa.MonthDayNano() | tuple():
            return str(to_json(value)) if isinstance(value, pa.MonthDayNano) else json.dumps(to_json(value))
        case Decimal():
            whole = value == value.to_integral_value() and value.as_tuple().exponent == 0
            return int(value) if whole else str(value)
        case bytes():
            return value.hex()
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def _word(value: float) -> str:
    """Return the word for a float that JSON has no number for, as protobuf's JSON writes it."""
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def to_json(value: object) -> object:
    """Return a value with what JSON has: numbers are exact, others are text."""
    match value:
        case pa.MonthDayNano():
            return _interval(value.months, value.days, value.nanoseconds)
        case dict():
            return {str(key): to_json(each) for key, each in value.items()}
        case list() | tuple():
            return [to_json(each) for each in value]
        case bool():
            return value
        case _:
            return _cell(value)


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """Return an interval as ISO 8601: P2M3DT18000.5S."""
    seconds, rest = divmod(abs(nanoseconds), 1_000_000_000)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    sign = "-" if nanoseconds < 0 else ""
    parts = f"{months}M" * bool(months) + f"{days}D" * bool(days)
    clock = f"T{sign}{seconds}{fraction}S" if nanoseconds or not parts else ""
    return f"P{parts}{clock}"

"""Cells of printed tables as numbers, times and sizes, in the style of the table.

A MB is 1000000 bytes, KiB and MiB are powers of 1024.
"""

from __future__ import annotations

from decimal import Decimal

from tracekit.readers.printed.numbers import Style
from tracekit.units import to_ns

TIMES = {
    **dict.fromkeys(("ns", "nsec"), "ns"),
    **dict.fromkeys(("us", "usec", "µs"), "us"),
    **dict.fromkeys(("ms", "msec"), "ms"),
    **dict.fromkeys(("s", "sec"), "s"),
}
BYTES = {
    **dict.fromkeys(("B", "byte", "bytes"), 1),
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}


class RowError(Exception):
    """A row that cannot be read. Its text is the reason."""


def number(text: str, style: Style) -> Decimal:
    """Return the number of a cell. Raises: RowError."""
    plain = style.plain(text)
    if plain is None:
        raise RowError(f"{text[:30]!r} is not a number")
    return Decimal(plain)


def integer(text: str, style: Style, limit: int = 1 << 62) -> int:
    """Return the whole number of a cell. Raises: RowError."""
    value = number(text, style)
    if value != value.to_integral_value() or abs(value) > limit:
        raise RowError(f"{text[:30]!r} is not a whole number")
    return int(value)


def time(text: str, unit: str, style: Style) -> int:
    """Return the ns of a cell. Raises: RowError."""
    try:
        return to_ns(number(text, style), TIMES[unit])
    except ValueError as err:
        raise RowError(str(err)) from err


def size(text: str, unit: str, style: Style) -> tuple[int, bool]:
    """Return the bytes of a cell, and whether they may be rounded. Raises: RowError."""
    value = number(text, style) * BYTES.get(unit or "B", 1)
    if abs(value) >= 1 << 62:
        raise RowError("the size is too large for any memory")
    return int(value.to_integral_value()), BYTES.get(unit or "B", 1) > 1

"""Text to exact numbers and back: "12.3us" -> 12300 ns; ns, bytes and ratios -> text.

A time never goes through a binary float.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from enum import StrEnum

__all__ = [
    "BYTES_PER_UNIT",
    "BYTE_FACTOR",
    "MAX_NS",
    "TIME_EXPONENT",
    "Unit",
    "best_time_unit",
    "format_bytes",
    "format_ns",
    "format_rate",
    "format_ratio",
    "format_span",
    "four_digits",
    "four_digits_of",
    "percent",
    "rounded",
    "sentence_span",
    "short_span",
    "split_quantity",
    "to_bytes",
    "to_ns",
]


class Unit(StrEnum):
    """The meaning of a number in a report; the renderers choose its text."""

    TEXT = "text"
    COUNT = "count"
    ID = "id"
    NS = "ns"
    BYTES = "bytes"
    RATIO = "ratio"
    BYTES_PER_S = "bytes/s"
    NUMBER = "number"


TIME_EXPONENT: dict[str, int] = {"s": 9, "ms": 6, "us": 3, "µs": 3, "μs": 3, "ns": 0}
"""Power of ten from the unit to ns. Both code points for micro (U+00B5, U+03BC) are in use."""

BYTES_PER_UNIT: dict[str, int] = {
    "B": 1,
    **{f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", 1)},
    **{f"{prefix}iB": 1 << 10 * power for power, prefix in enumerate("KMGT", 1)},
}
"""Units of size as they are defined: a MB is 10^6 bytes, a MiB 2^20."""
BYTE_FACTOR: dict[str, int] = {u.replace("i", ""): BYTES_PER_UNIT[u] for u in ("B", "KiB", "MiB", "GiB", "TiB")}
"""Units of programs whose KB has 1024 bytes. nvprof is one: 39.0625 KB = 40000 B in cuda_timeline.csv of the corpus."""

MAX_NS = 1 << 62
"""Times are below this (146 years); the readers refuse larger ones."""

_QUANTITY = re.compile(
    r"^\s*+([+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d{1,3})?)\s*+([A-Za-zµμ%]*+(?:/s)?)\s*+$", re.ASCII
)


def split_quantity(text: str) -> tuple[Decimal, str]:
    """Return number and unit of a cell such as "60.641GB/s"; the unit is "" if there is none.

    Raises: ValueError when the text is not a finite decimal number with an optional unit.

    >>> split_quantity("128.83us")
    (Decimal('128.83'), 'us')
    """
    match = _QUANTITY.match(text)
    if match is None:
        raise ValueError(f"not a number with a unit: {text[:40]!r}")
    try:
        return Decimal(match[1]), match[2]
    except InvalidOperation as err:
        raise ValueError(f"not a number with a unit: {text[:40]!r}") from err


def _decimal(number: str | Decimal) -> Decimal:
    try:
        return Decimal(number)
    except InvalidOperation as err:
        raise ValueError(f"not a number: {str(number)[:40]!r}") from err


def to_ns(number: str | Decimal, unit: str) -> int:
    """Return number x unit in ns, exact; a fraction of a ns is rounded half to even.

    Raises: ValueError for another unit, for text that is not a number, or for a time beyond 2^62 ns.

    >>> to_ns("215.481427", "ms")
    215481427
    """
    if unit not in TIME_EXPONENT:
        raise ValueError(f"not a unit of time: {unit!r}")
    value = _decimal(number)
    if not value.is_finite() or value.adjusted() > 20:
        raise ValueError(f"not a time: {str(number)[:40]!r}")
    ns = int(value.scaleb(TIME_EXPONENT[unit]).to_integral_value())
    if abs(ns) >= MAX_NS:
        raise ValueError(f"a time beyond 146 years: {str(number)[:40]!r}")
    return ns


def to_bytes(number: str | Decimal, unit: str) -> int:
    """Return number x unit in bytes, rounded to the nearest (sizes are printed with few decimals).

    >>> to_bytes("39.062500", "KB")
    40000
    """
    if unit not in BYTE_FACTOR:
        raise ValueError(f"not a unit of size: {unit!r}")
    value = _decimal(number)
    if not value.is_finite() or value.adjusted() > 20:
        raise ValueError(f"not a size: {str(number)[:40]!r}")
    size = int((value * BYTE_FACTOR[unit]).to_integral_value())
    if abs(size) >= 1 << 63:
        raise ValueError(f"not a size below 8 EiB: {str(number)[:40]!r}")
    return size


def format_ns(ns: int, unit: str, *, grouped: bool = True) -> str:
    """Return ns in a unit with every digit kept (s 9 decimals, ms 6, us 3, ns 0).

    >>> format_ns(1234567890, "us")
    '1,234,567.890'
    """
    exponent = TIME_EXPONENT[unit]
    sign, rest = ("-", -ns) if ns < 0 else ("", ns)
    whole, fraction = divmod(rest, 10**exponent)
    head = f"{whole:,}" if grouped else str(whole)
    return f"{sign}{head}.{fraction:0{exponent}d}" if exponent else f"{sign}{head}"


def four_digits(ns: int, unit: str) -> str:
    """Return ns in a unit with four significant digits, half to even. Whole digits stay, and none is below one ns.

    >>> [four_digits(ns, "us") for ns in (1234567890, 3050499, 12, 0)]
    ['1,234,568', '3,050', '0.012', '0']
    """
    size = abs(ns)
    if not size:
        return "0"
    exponent = TIME_EXPONENT[unit]
    decimals = min(max(exponent + 4 - len(str(size)), 0), exponent)
    digits, rest = divmod(size, step := 10 ** (exponent - decimals))
    digits += 2 * rest > step or (2 * rest == step and digits % 2)
    if rest and decimals and len(str(digits)) > 4:  # 9.9996 is 10.00
        digits, decimals = digits // 10, decimals - 1
    whole, fraction = divmod(digits, 10**decimals)
    return f"{'-' if ns < 0 else ''}{whole:,}" + (f".{fraction:0{decimals}d}" if decimals else "")


def four_digits_of(value: float) -> str:
    """Return a number with four significant digits where it has more, half to even. Whole digits stay.

    >>> [four_digits_of(value) for value in (1234.5678, 66.6, 1.0625, 0.00001234567, 12345678)]
    ['1,235', '66.6', '1.062', '1.235e-05', '12,345,678']
    """
    text = f"{value:,}".removesuffix(".0")
    size = abs(value)
    if isinstance(value, int) or not 0 < size < 1e15 or float(value).is_integer():
        return text
    exponent = int(f"{size:e}".partition("e")[2])
    short = f"{value:.3e}" if exponent < -4 else f"{value:,.{max(3 - exponent, 0)}f}"
    number, mark, power = short.partition("e")
    short = (number.rstrip("0").rstrip(".") if "." in number else number) + mark + power
    return min(text, short, key=len)


def best_time_unit(largest_ns: int) -> str:
    """Return a readable unit for the largest time of a column: us below 1 s, else ms, s from 1000 s on."""
    size = abs(largest_ns)
    return "us" if size < 10**9 else "ms" if size < 10**12 else "s"


def format_span(ns: int) -> str:
    """Return a duration for prose, exact, in the largest unit that keeps it >= 1 (trailing zeros cut).

    >>> format_span(1500000)
    '1.5 ms'
    """
    for unit in ("s", "ms", "us"):
        if abs(ns) >= 10 ** TIME_EXPONENT[unit]:
            text = format_ns(ns, unit).rstrip("0").rstrip(".")
            return f"{text} {unit}"
    return f"{ns} ns"


def format_bytes(count: int) -> str:
    """Return bytes in binary units with at most 4 digits ("39.06 KiB").

    >>> format_bytes(40000)
    '39.06 KiB'
    """
    size = float(abs(count))
    if size < 1024:
        return f"{count} B"
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        size /= 1024
        if size < 1024 or unit == "PiB":
            break
    digits = 2 if size < 100 else 1
    return f"{'-' if count < 0 else ''}{size:,.{digits}f} {unit}"


def format_rate(bytes_per_s: float) -> str:
    """Return bytes/s in powers of 1000, as link and memory speeds are quoted ("4.85 GB/s")."""
    size, unit = float(bytes_per_s), "B/s"
    for larger in ("kB/s", "MB/s", "GB/s", "TB/s"):
        if abs(size) < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:,.2f} {unit}"


def format_ratio(ratio: float) -> str:
    """Return a ratio 0..1 in percent with 2 decimals, without the sign; only 0 reads as 0.

    >>> format_ratio(0.123456), format_ratio(1e-6)
    ('12.35', '<0.01')
    """
    text = f"{100 * ratio:.2f}"
    if ratio and text in ("0.00", "-0.00"):
        return "<0.01" if ratio > 0 else ">-0.01"
    return text


def rounded(ns: int, unit: str, digits: int = 3) -> str:
    """Return ns in a unit with that many decimals, half to even; what is not 0 never reads as 0.

    >>> rounded(1234567, "ms"), rounded(400, "ms")
    ('1.235', '<0.001')
    """
    step = 10 ** max(TIME_EXPONENT[unit] - digits, 0)
    whole, rest = divmod(abs(ns), step)
    whole += 2 * rest > step or (2 * rest == step and whole % 2 == 1)
    if ns and not whole:
        return f"{'>-' if ns < 0 else '<'}{format_ns(step, unit)[: digits + 2]}"
    text = format_ns(whole * step if ns >= 0 else -whole * step, unit)
    cut = TIME_EXPONENT[unit] - digits
    return text[:-cut] if cut > 0 else text


def short_span(ns: int) -> str:
    """Return a duration for a glance: three decimals of the unit in which it is at least 1, or ns.

    >>> short_span(115702113)
    '115.702 ms'
    """
    for unit in ("s", "ms", "us"):
        if abs(ns) >= 10 ** TIME_EXPONENT[unit]:
            return f"{rounded(ns, unit)} {unit}"
    return format_span(ns)


def sentence_span(ns: int) -> str:
    """Return a duration for a sentence: four significant digits, without zeros at the end.

    >>> sentence_span(144088000), sentence_span(3050000), sentence_span(999999), sentence_span(999)
    ('144.1 ms', '3.05 ms', '1 ms', '999 ns')
    """
    for unit in ("s", "ms", "us"):
        size = 10 ** TIME_EXPONENT[unit]
        if 20_000 * abs(ns) >= 19_999 * size:  # 999,950 ns would read "1,000 us"
            before = len(str(abs(ns) // size))
            text = rounded(ns, unit, max(0, 4 - before))
            return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"
    return f"{ns} ns"


def percent(part: int, whole: int) -> str:
    """Return a share in percent with one decimal; neither "0.0" for some nor "100.0" for less than all.

    >>> percent(175, 1000), percent(1, 10**6), percent(10**6 - 1, 10**6)
    ('17.5', '<0.1', '>99.9')
    """
    tenths = (2000 * part + whole) // (2 * whole)
    if part and not tenths:
        return "<0.1"
    if part < whole and tenths >= 1000:
        return ">99.9"
    return f"{tenths // 10}.{tenths % 10}"

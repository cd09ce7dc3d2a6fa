"""Cells: how the text of one cell becomes a value, exactly. Both ways of the engine use the same functions.

The row way calls `Cell.value` for each row. The block way calls it once for each distinct text of a column, so the two
agree by construction. A column whose texts are nearly all different (starts, ids) names a type that pyarrow parses
exactly: int64, or a decimal whose digits are the ns. No value goes through a float.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeAlias

from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import Column
from tracekit.model.units import BYTES_PER_UNIT, TIME_EXPONENT, to_ns
from tracekit.readers.printed.numbers import Style

__all__ = [
    "BYTES",
    "COUNT",
    "DURATION",
    "ID",
    "ID_OR_ZERO",
    "INT32",
    "INT62",
    "KEEP",
    "MEAN_TIME",
    "NAME",
    "PRINTED_TEXT",
    "SIZE",
    "SKIP",
    "SMALL",
    "TIME",
    "TIMES",
    "WITH_UNIT",
    "Cell",
    "KeptValue",
    "RowError",
    "Spread",
    "Value",
    "integer",
    "is_ns",
    "number",
    "printed_number",
    "size",
    "text_cell",
    "time",
]

TIMES = {
    **dict.fromkeys(("ns", "nsec"), "ns"),
    **dict.fromkeys(("us", "usec", "µs"), "us"),
    **dict.fromkeys(("ms", "msec"), "ms"),
    **dict.fromkeys(("s", "sec"), "s"),
}
"""Spellings of units of time."""
BYTES = {**BYTES_PER_UNIT, **dict.fromkeys(("byte", "bytes"), 1)}
"""Bytes of each unit of size; a size without a unit is in bytes."""
INT32, INT62 = (1 << 31) - 1, 1 << 62

Value: TypeAlias = int | float | str | None
Spread: TypeAlias = dict[str, Value]
"""Values of several columns."""


class RowError(Exception):
    """A row, or one cell of it, that cannot be read. text: the reason. code: the class of dropped rows, for a row.

    It is not a ValueError: a function that makes one reason of all errors of a number must not hide this one.
    """

    def __init__(self, text: str = "", code: str = "bad-row") -> None:
        super().__init__(text)
        self.text, self.code = text, code


def number(text: str, style: Style) -> Decimal:
    """Return the number of a cell. Raises: RowError."""
    plain = style.plain(text)
    if plain is None:
        raise RowError(f"{text[:30]!r} is not a number")
    return Decimal(plain)


def integer(text: str, style: Style, limit: int = INT62) -> int:
    """Return the whole number of a cell. Raises: RowError."""
    value = number(text, style)
    if value != value.to_integral_value() or abs(value) > limit:
        raise RowError(f"{text[:30]!r} is not a whole number")
    return int(value)


def time(text: str, unit: str, style: Style) -> int:
    """Return the ns of a cell. Raises: RowError."""
    try:
        return to_ns(number(text, style), _time_unit(unit))
    except ValueError as err:
        raise RowError(str(err)) from err


def mean_time(text: str, unit: str, style: Style) -> float:
    """Return the ns of a mean, which may have a fraction. Raises: RowError."""
    exponent = TIME_EXPONENT[_time_unit(unit)]
    return float(number(text, style) * 10**exponent)


def size(text: str, unit: str, style: Style) -> int:
    """Return the bytes of a cell, rounded. Raises: RowError."""
    value = number(text, style) * BYTES.get(unit, 1)
    if abs(value) >= INT62:
        raise RowError("the size is too large for any memory")
    return int(value.to_integral_value())


def _time_unit(unit: str) -> str:
    if unit not in TIMES:
        raise RowError(f"{unit!r} is not a unit of time")
    return TIMES[unit]


class KeptValue(dict[str, Value]):
    """Values of several columns, or of none, whose cell also stays in `args`: as `text`, "" for as it was printed."""

    def __init__(self, values: Spread | None = None, text: str = "") -> None:
        super().__init__(values or {})
        self.text = text


KEEP = KeptValue()
"""The value of a cell that has no column: it stays in `args`."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """The way in which the cells of a column are read.

    value: the value of a text that is not empty, in a unit ("" for none) and a style of numbers. A dict fills several
    columns; None fills none and is not an error; `KeptValue` also sends the cell to `args`. Raises: RowError.
    number: the cell is a number, whose style depends on the locale. whole: whether it is whole in a unit.
    figure: a row is recognised by such a number. exact: the limit of what pyarrow may parse as int64 in a unit whose
    factor is 1, 0 for a cell that is read by its distinct texts. scale: decimals that make a number in a unit whole:
    pyarrow may parse it as a decimal of that scale, whose digits are the value. zero_is_null: 0 means unknown.
    positive: a negative number is an error. rounded: whether a value may have been rounded when it was printed in a
    unit. texts: the cells of an `exact` column may also be texts that `value` reads. bare_points: `.5` and `5.` are
    numbers. every: `value` of many texts at once, a column without nulls; None where not all are of the usual kind.
    """

    value: Callable[[str, str, Style], Value | Spread]
    number: bool = True
    whole: Callable[[str], bool] = lambda _: False
    figure: bool = True
    exact: Callable[[str], int] = lambda _: 0
    scale: Callable[[str], int | None] = lambda _: None
    zero_is_null: bool = False
    positive: bool = False
    rounded: Callable[[str], bool] = lambda _: False
    texts: bool = False
    bare_points: bool = False
    every: Callable[[Column, str, Style], Column | None] = lambda *_: None


def is_ns(unit: str) -> bool:
    """Return whether a unit is ns: times in it are whole."""
    return TIMES.get(unit) == "ns"


def _is_byte(unit: str) -> bool:
    return BYTES.get(unit, 1) == 1


def _exact_ns(unit: str) -> int:
    return INT62 - 1 if is_ns(unit) else 0


def _decimals(unit: str) -> int | None:
    return TIME_EXPONENT[TIMES[unit]] if unit in TIMES else None


def _whole(limit: int, *, zero_is_null: bool = False, figure: bool = False) -> Cell:
    return Cell(
        lambda text, _unit, style: integer(text, style, limit),
        whole=lambda _: True,
        exact=lambda _: limit,
        zero_is_null=zero_is_null,
        figure=figure,
    )


def text_cell(read: Callable[[str], Value | Spread]) -> Cell:
    """Return the declaration of a text; `read` is called once for each distinct one."""
    return Cell(lambda text, _unit, _style: read(text), number=False, figure=False)


def printed_number(*, whole: Callable[[str], bool] = lambda _: False, figure: bool = True) -> Cell:
    """Return the declaration of a number that stays in `args` as printed; it helps to recognise rows and the locale."""
    return Cell(lambda _text, _unit, _style: KEEP, whole=whole, figure=figure)


NAME = text_cell(lambda text: text)
PRINTED_TEXT = text_cell(lambda _: KEEP)
WITH_UNIT = Cell(lambda text, unit, _style: KeptValue(text=text + unit), number=False, figure=False)
"""A cell that has no column, and stays in `args` with its unit."""
SKIP = Cell(lambda _text, _unit, _style: None, number=False, figure=False)
SMALL, ID, ID_OR_ZERO = _whole(INT32), _whole(INT62), _whole(INT62, zero_is_null=True)
COUNT = _whole(INT62, figure=True)
TIME = Cell(time, scale=_decimals, whole=is_ns, exact=_exact_ns)
DURATION = Cell(time, scale=_decimals, whole=is_ns, exact=_exact_ns, positive=True)
MEAN_TIME = Cell(mean_time)
SIZE = Cell(
    size,
    whole=_is_byte,
    exact=lambda unit: INT62 - 1 if _is_byte(unit) else 0,
    figure=False,
    rounded=lambda unit: not _is_byte(unit),
)

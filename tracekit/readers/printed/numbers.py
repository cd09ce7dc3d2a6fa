"""Decimal separators and groups of digits in printed tables, which depend on the locale of the program that printed.

`1,234` alone is 1234 in some locales and 1.234 in others, so a table is read as a whole: a style that reads every cell,
and gives whole numbers in columns of whole numbers, is the table's. `25.369.833` and `27,0` have one style.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.options import OptionSpec

__all__ = [
    "ANY_NUMBER",
    "BLANKS",
    "COMMA",
    "DECIMAL",
    "LOCAL_NUMBER",
    "POINT",
    "STYLES",
    "Style",
    "choose",
    "styles_of",
]

DECIMAL = OptionSpec(
    "decimal",
    str,
    "",
    "Decimal separator of the numbers in printed tables. Without it the tables decide.",
    (".", ","),
)
BLANKS = "'\u2019\u00a0\u2009\u202f"
"""Apostrophes and spaces that divide groups of three, whatever the decimal separator is."""
_EXPONENT = r"(?:[eE][+-]?\d{1,3})?"
LOCAL_NUMBER = rf"[+-]?\d+(?:[.,{BLANKS}]\d+)*{_EXPONENT}"
"""A pattern of a number in any style, for the patterns of rows."""
ANY_NUMBER = lazy_pattern(LOCAL_NUMBER, re.ASCII)
_PLAIN = lazy_pattern(rf"[+-]?\d+(?:\.\d+)?{_EXPONENT}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Style:
    """One way to print numbers. name: for notes. decimal: the decimal separator."""

    name: str
    decimal: str
    _form: re.Pattern[str]
    _group: re.Pattern[str]

    def plain(self, text: str) -> str | None:
        """Return a number with a decimal point and no groups; None for another text."""
        if text.isdecimal() and text.isascii():
            return text
        if self._form.fullmatch(text) is None:
            return None
        return self._group.sub("", text).replace(",", ".")


def _style(name: str, decimal: str, groups: str, separators: str) -> Style:
    fraction = rf"(?:{re.escape(decimal)}\d+)?"
    form = lazy_pattern(rf"[+-]?(?:\d+|{groups}){fraction}{_EXPONENT}", re.ASCII)
    return Style(name, decimal, form, lazy_pattern(f"[{re.escape(separators)}]"))


def _of_three(separators: str) -> str:
    return "|".join(rf"[1-9]\d{{0,2}}(?:{re.escape(one)}\d{{3}})+" for one in separators)


POINT = _style("1,234,567.8", ".", _of_three("," + BLANKS), "," + BLANKS)
COMMA = _style("1.234.567,8", ",", _of_three("." + BLANKS), "." + BLANKS)
STYLES = (POINT, COMMA)
"""In order of preference where all of them read the same numbers."""


def styles_of(cells: Iterable[tuple[str, bool]], decimal: str = "") -> list[Style]:
    """Return the styles that read most of these cells, [] where no cell has a separator.

    cells: text of a number, and whether its column has whole numbers. decimal: only styles with this separator.
    Several styles are returned only where their numbers differ.
    """
    distinct = {(text, whole) for text, whole in cells if not (text.isascii() and text.isdecimal())}
    if not distinct:
        return []
    read = {s: [_value(s, *cell) for cell in distinct] for s in STYLES if decimal in ("", s.decimal)}
    counts = {style: len(values) - values.count(None) for style, values in read.items()}
    best = [style for style, count in counts.items() if count == max(counts.values())]
    return [s for at, s in enumerate(best) if all(read[s] != read[before] for before in best[:at])]


def _value(style: Style, text: str, whole: bool) -> str | None:
    plain = style.plain(text)
    return plain if plain is None or not whole or _is_whole(plain) else None


def _is_whole(plain: str) -> bool:
    _, _, fraction = plain.partition(".")
    return not fraction.strip("0")


def choose(
    styles: Collection[Style], fits: Callable[[Style], bool], texts: Iterable[str], known: Style | None
) -> Style | None:
    """Return the style of a table, one of `styles_of`, None where several remain.

    fits: whether the sums of the table add up in a style. texts: the cells. known: the style of the file's tables so
    far. Without a comma in any cell the decimal point is taken, which profilers print by default.
    """
    left = [style for style in styles if fits(style)] or list(styles)
    if len(left) == 1:
        return left[0]
    if known in left:
        return known
    return POINT if POINT in left and not any("," in text for text in texts) else None

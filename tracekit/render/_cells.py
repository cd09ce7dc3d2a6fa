"""Cells of a report as text, and how wide text stands on a terminal.

Numbers keep all their digits: a time has every ns in its unit, which the title names. Text of the traces is hostile:
what a terminal would obey, or what would reorder or hide a line, is shown as an escape (`\\x1b`).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tracekit.errors import UsageError
from tracekit.report import Cell, Column
from tracekit.units import TIME_EXPONENT, Unit, best_time_unit, format_bytes, format_ns, format_rate, format_ratio

UNKNOWN = "-"
"""Stands for null: nothing to say, which is not zero."""

_MOST_CUTS = 8
"""Rounds in which texts that are cut to the same are cut elsewhere; each goes on to the next difference."""
_QUALIFIERS = re.compile(r"\A(?:void )?(?:(?:\w{1,64}|\(anonymous namespace\)|<unnamed>)::){1,9}(?=\w)|\Avoid (?=\w)")
"""What stands before the name proper of a function in C++."""
_WORD_END = re.compile(r"\w*\Z")
_JOINERS = "\u200c\u200d"  # invisible, but parts of words and emoji
_EMOJI_STYLE = "\ufe0f"


@dataclass(frozen=True, slots=True)
class Shown:
    """A column as text: `title` is `name` with its unit, numbers stand `right`, what `is_text` may be cut.

    key: the column's own name.
    """

    key: str
    name: str
    title: str
    texts: list[str]
    right: bool
    is_text: bool
    priority: int


def time_unit_of(column: Column, wanted: str) -> str:
    """Return the unit in which a column of times is shown: the wanted one, else the best for its largest.

    Raises: UsageError where the wanted one is no unit of time.
    """
    if wanted:
        if wanted not in TIME_EXPONENT:
            raise UsageError(f"--unit {wanted}: no unit of time", hint="one of: s, ms, us, ns")
        return wanted
    return best_time_unit(max((abs(int(v)) for v in column.values if v is not None), default=0))


def shown(column: Column, time_unit: str) -> Shown:
    """Return a column as text. Raises: UsageError for an unknown unit of time."""
    name = title = visible(column.title)
    if column.unit is Unit.NS:
        unit = time_unit_of(column, time_unit)
        title = f"{title} ({unit})"
    else:
        unit = ""
        title = f"{title} (%)" if column.unit is Unit.RATIO else title
    text = _FORMATS[column.unit]
    texts = [UNKNOWN if value is None else text(value, unit) for value in column.values]
    words = column.unit is Unit.TEXT or (column.unit is Unit.ID and any(isinstance(v, str) for v in column.values))
    return Shown(column.name, name, title, texts, not words, words, column.priority)


def _time(value: Cell, unit: str) -> str:
    return format_ns(int(value or 0), unit)


def _count(value: Cell, _: str) -> str:
    return f"{value:,}"


def _text(value: Cell, _: str) -> str:
    return visible(str(value))


def _number(value: Cell, _: str) -> str:
    """Return every digit of a float; a whole number without its ".0"."""
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return UNKNOWN
    return f"{value:,}".removesuffix(".0")


def _finite(text: Callable[[float], str]) -> Callable[[Cell, str], str]:
    def format_finite(value: Cell, _: str) -> str:
        known = isinstance(value, (int, float)) and math.isfinite(value)
        return text(float(value or 0)) if known else UNKNOWN

    return format_finite


def _bytes(value: Cell, _: str) -> str:
    return format_bytes(int(value or 0))


_FORMATS: dict[Unit, Callable[[Cell, str], str]] = {
    Unit.NS: _time, Unit.COUNT: _count, Unit.BYTES: _bytes, Unit.TEXT: _text, Unit.ID: _text, Unit.NUMBER: _number,
    Unit.RATIO: _finite(format_ratio), Unit.BYTES_PER_S: _finite(format_rate),
}  # fmt: skip


def visible(text: str) -> str:
    """Return text in one line without anything that a terminal obeys: such characters stand as escapes.

    Escaped are controls (C0, DEL, C1), line and paragraph separators, invisible format characters such as those that
    turn the direction of text, unassigned characters (nobody knows their width) and lone surrogates.

    >>> visible("a\\x1b[31m")
    'a\\\\x1b[31m'
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char.isprintable() or char in _JOINERS or unicodedata.category(char) in ("Zs", "Co"):
        return char
    return char.encode("unicode_escape").decode("ascii")


def cell_width(text: str) -> int:
    """Return how many cells of a terminal a text takes at most: 2 for wide characters, 0 for combining ones.

    >>> cell_width("核kernel")
    8
    """
    return len(text) if text.isascii() else sum(_widths(text))


def _widths(text: str) -> Iterator[int]:
    before = 0
    for char in text:
        if char == _EMOJI_STYLE:
            before = 1 if before == 1 else 0  # makes a narrow character wide
        else:
            before = _char_width(char)
        yield before


@lru_cache(maxsize=1 << 12)
def _char_width(char: str) -> int:
    if char in _JOINERS or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def head(text: str, width: int) -> str:
    """Return as many first characters as fit into the cells."""
    used = 0
    for i, cells in enumerate(_widths(text)):
        used += cells
        if used > width:
            return text[:i]
    return text


def cut_middle(text: str, width: int) -> str:
    """Return text that fits into the cells: what is too long loses its middle to "…".

    >>> cut_middle("void gemm<float, 128>(float*)", 15)
    'void ge…float*)'
    """
    if cell_width(text) <= width:
        return text
    if width < 2:
        return "…"[:width]
    room = (width - 1) // 2
    first = head(text, width - 1 - room)
    last: list[str] = []
    for char in reversed(text):
        # A mark stands on the character before it; at most it widens that by one.
        room -= 1 if char == _EMOJI_STYLE else cell_width(char)
        if room < 0:
            break
        last.append(char)
    tail = "".join(reversed(last))
    while tail and cell_width(tail[0]) == 0:
        tail = tail[1:]
    return f"{first}…{tail}"


def cut_apart(texts: Sequence[str], width: int) -> list[str]:
    """Return names that fit into the cells, each still told from the others where that can be.

    What is too long first loses the type and the namespaces before a C++ name, then its middle. Different names that
    come out alike show the place where they differ instead.

    >>> cut_apart(["void lib::map<add, float, 4>(int, T2, T3)"], 20)
    ['…map<add, …, T2, T3)']
    >>> cut_apart([f"void lib::map<float, {op}, 4>(int, T2, T3)" for op in ("add", "mul")], 20)
    ['…map<…add, 4>(int, …', '…map<…mul, 4>(int, …']
    """
    names = dict.fromkeys(texts)
    short = {name: name if cell_width(name) <= width else _QUALIFIERS.sub("…", name) for name in names}
    cut = {name: cut_middle(text, width) for name, text in short.items()}
    for _ in range(_MOST_CUTS):
        alike: dict[str, list[str]] = {}
        for name, shown in cut.items():
            alike.setdefault(shown, []).append(name)
        groups = [group for group in alike.values() if len(group) > 1]
        if not groups:
            break
        for group in groups:
            place = _first_difference([short[name] for name in group])
            cut.update({name: _cut_around(short[name], place, width) for name in group})
    return [cut[text] for text in texts]


def _first_difference(texts: list[str]) -> int:
    """Return the first place at which not all texts are the same."""
    low, high = min(texts), max(texts)  # in order, what all have in common the first and the last have
    same = (a == b for a, b in zip(low, high, strict=False))
    return next((i for i, equal in enumerate(same) if not equal), len(low))


def _cut_around(text: str, place: int, width: int) -> str:
    """Return the begin of a text and what stands at a place, from the begin of its word on where that is near."""
    if cell_width(text) <= width or width < 8:
        return cut_middle(text, width)
    begin = head(text, width // 4)
    room = width - cell_width(begin) - 1
    near = text[max(place - room // 3, len(begin)) : place]
    word = _WORD_END.search(near)
    rest = text[place - len(word[0] if word else "") :]
    if cell_width(rest) > room:
        rest = head(rest, room - 1) + "…"
    return f"{begin}…{rest}"


def padded(text: str, width: int, *, right: bool) -> str:
    """Return text filled with spaces to the cells."""
    fill = " " * (width - cell_width(text))
    return fill + text if right else text + fill


def wrapped(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Return lines no wider than the cells, broken at spaces where possible; all but the first are indented.

    width: 0 for no limit.
    """
    if width <= 0 or cell_width(text) <= width:
        return [text]
    lines: list[str] = []
    words = text.lstrip(" ")
    line = text[: min(len(text) - len(words), width - 1)]
    for word in words.split(" "):
        longer = f"{line} {word}" if line.strip() else line + word
        if cell_width(longer) <= width:
            line = longer
            continue
        if line.strip():
            lines.append(line)
            line = " " * indent
        line += word
        while cell_width(line) > width:
            part = head(line, width)
            lines.append(part)
            line = " " * indent + line[len(part) :]
    return [*lines, line] if line.strip() else lines


def finite(value: Cell) -> Cell:
    """Return the cell, None for a float that is no number: JSON and CSV have no word for it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value

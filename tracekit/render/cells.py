"""Columns of a report as text, how wide text is on a terminal, and text cut or wrapped to a width.

rich measures and wraps too, but 7 to 15 times slower for plain text, and it takes joined emoji for one wherever a
terminal might not: here a width is never less than what a terminal needs.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tracekit.display import JOINERS, cell_texts, is_words, time_unit_of, titled, visible
from tracekit.report import Cell, Column
from tracekit.units import Unit

_MOST_CUTS = 8
"""Rounds in which texts that look alike after the cut are cut elsewhere, at their next difference."""
_QUALIFIERS = re.compile(r"\A(?:void )?(?:(?:\w{1,64}|\(anonymous namespace\)|<unnamed>)::){1,9}(?=\w)|\Avoid (?=\w)")
"""Return type and namespaces of a C++ function, before its own name."""
_WORD_END = re.compile(r"\w*\Z")
_EMOJI_STYLE = "\ufe0f"


@dataclass(frozen=True, slots=True)
class Shown:
    """A column as text.

    key: the column's own name. title: `name` with its unit. right: a number, aligned right. is_text: may be cut.
    """

    key: str
    name: str
    title: str
    texts: list[str]
    right: bool
    is_text: bool
    priority: int


def shown(column: Column, time_unit: str) -> Shown:
    """Return a column as text. Raises: UsageError for an unknown unit of time."""
    unit = time_unit_of(column.values, time_unit) if column.unit is Unit.NS else ""
    texts = cell_texts(column.values, column.unit, unit)
    words = is_words(column.values, column.unit)
    title = titled(column.title, column.unit, unit)
    return Shown(column.name, visible(column.title), title, texts, not words, words, column.priority)


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
    if char in JOINERS or unicodedata.category(char) in ("Mn", "Me"):
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
        # A style mark belongs to the character before it and widens that by one at most.
        room -= 1 if char == _EMOJI_STYLE else cell_width(char)
        if room < 0:
            break
        last.append(char)
    tail = "".join(reversed(last))
    while tail and cell_width(tail[0]) == 0:
        tail = tail[1:]
    return f"{first}…{tail}"


def cut_apart(texts: Sequence[str], width: int) -> list[str]:
    """Return names cut to the cells so that different names stay different where that is possible.

    A long name first loses the type and the namespaces before a C++ name, then its middle. Names that would look alike
    show the place where they differ instead.

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
    low, high = min(texts), max(texts)  # a prefix of the first and the last in sorted order is one of all
    same = (a == b for a, b in zip(low, high, strict=False))
    return next((i for i, equal in enumerate(same) if not equal), len(low))


def _cut_around(text: str, place: int, width: int) -> str:
    """Return the start of a text, then the text around a place, from the start of the word there if that is near."""
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
    """Return the cell, None for a float that is not finite: JSON and CSV have no word for it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value

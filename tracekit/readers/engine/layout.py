"""Layouts of tables: cells between delimiters, under rules of dashes, between bars.

A line may follow output of a program, the prefix of a log ("[1,0]<stdout>:", "# ", "> ") or an indent. The prefixes of
one table have the same length, so cells stay under their dashes.
"""

from __future__ import annotations

import csv
import itertools
import re
from typing import TypeAlias

from tracekit.lazy_pattern import lazy_pattern

__all__ = ["BEFORE", "Places", "boxed", "cut", "places", "row", "split", "titles"]

BEFORE = r"^(?:.{0,60}?[\s>:|#*])??"
"""A pattern of what may come before a line of a table."""
_RULE = lazy_pattern(BEFORE + r"(-{2,}(?: +-{2,})+)\s*$")
_BOX_RULE = lazy_pattern(r"[+|](?:[ :=-]+[+|]){2,}")

MOST_CELLS = 200
"""A line with more delimiters is not a row of a report."""
Places: TypeAlias = list[tuple[int, int]]
"""Start and end of each column in a line."""


def places(line: str) -> Places | None:
    """Return start and end of each column by the dashes of a rule, None for another line."""
    match = _RULE.match(line)
    if match is None:
        return None
    return [dashes.span() for dashes in re.compile("-+").finditer(line, match.start(1))]


def cut(line: str, columns: Places) -> list[str]:
    """Return the cells under the dashes; the last column is the rest of the line."""
    cells = [line[start:end].strip() for start, end in columns[:-1]]
    return [*cells, line[columns[-1][0] :].strip()] if columns else []


def titles(line: str, columns: Places) -> list[str]:
    """Return the cells of a header above dashes. Two blanks divide the cells of one that is shifted against them."""
    if any(line[end:start].strip() for (_, end), (start, _) in itertools.pairwise(columns)):
        words = re.split(r"\s{2,}", line[columns[0][0] :].strip())
        if len(words) == len(columns):
            return words
    return cut(line, columns)


def boxed(line: str, count: int = 0) -> list[str] | None:
    """Return the cells of a line in a table with bars (`--format table`, Markdown), None for another line.

    [] is a rule. count: number of cells in a row; bars in the last cell, the name, belong to it.

    >>> boxed("|     76.9 |     3 | operator|(int)  |", 3)
    ['76.9', '3', 'operator|(int)']
    """
    text = line.strip()
    if len(text) < 3 or text[0] not in "+|" or text[-1] not in "+|":
        return None
    if _BOX_RULE.fullmatch(text):
        return []
    cells = text[1:-1].split("|", count - 1 if count else -1)
    return [cell.strip() for cell in cells]


def row(line: str, columns: Places, *, texts: int) -> list[str]:
    """Return the cells of a row. Blanks divide the cells of a row that is shifted against the dashes.

    texts: number of columns with text, which may have blanks. If only the last column has text, blanks divide the
    numbers before it. With more such columns a shifted row becomes one cell, so it cannot be read.
    """
    gaps = [line[end:start] for (_, end), (start, _) in itertools.pairwise(columns)]
    if not any(gap.strip() for gap in gaps):
        return cut(line, columns)
    return line.split(None, len(columns) - 1) if texts == 1 else [line]


def split(line: str, delimiter: str = ",", count: int = 0) -> list[str]:
    """Return the cells of a line between commas, tabs, semicolons or bars. count: as in `boxed`."""
    if delimiter == "|":
        return boxed(line, count) or [line]
    if line.count(delimiter) > MOST_CELLS:
        return [line]
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return [line]

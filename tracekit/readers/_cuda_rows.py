"""Rows of a CUDA profiler log, found by structure: which lines have the same keys in the same places, and where.

Lines of one shape (the same keys, or as many cells) are read together. A line that no shape fits is left to the
reader's path for single lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracekit.readers._cells import I64, Cells, Text

SHAPES_A_BLOCK = 24
"""Key-value lines of more different shapes than this, in one block, go line by line."""
PAIR = re.compile(r"([A-Za-z_]\w*)=\[ ?(.*?) ?\](?=\s+[A-Za-z_]\w*=\[|\s*$)", re.ASCII)

Shape = tuple[I64, dict[str, Cells]]
"""Numbers of the lines in their block, and the cells of each column."""


def key_value_shapes(text: Text, starts: I64, ends: I64) -> Iterator[Shape]:
    """Give lines `key=[ value ] key=[ value ] ` by shape. starts, ends: shape (n,), places of the lines."""
    data = text.bytes
    opens = np.flatnonzero(data == ord("["))
    closes = np.flatnonzero(data == ord("]"))
    first, last = np.searchsorted(opens, starts), np.searchsorted(opens, ends)
    count = last - first
    same = (np.searchsorted(closes, starts), np.searchsorted(closes, ends))
    fit = (count > 0) & (count == same[1] - same[0])
    for fields in np.flatnonzero(np.bincount(count[fit])).tolist():
        rows = np.flatnonzero(fit & (count == fields))
        lefts = opens[first[rows][:, None] + np.arange(fields)]
        rights = closes[same[0][rows][:, None] + np.arange(fields)]
        keys = np.empty_like(lefts)
        keys[:, 0] = starts[rows]
        keys[:, 1:] = rights[:, :-1] + 2
        for _ in range(SHAPES_A_BLOCK):
            if not len(rows):
                break
            mine, names = _like_the_first(text, keys, lefts, rights, ends[rows])
            if names:
                picked = {name: Cells(text, lefts[mine, at] + 2, rights[mine, at] - 1) for at, name in enumerate(names)}
                yield rows[mine], picked
            else:
                mine = np.zeros(len(rows), np.bool_)
                mine[0] = True  # a shape that is none: this line goes by itself
            rows, keys, lefts, rights = rows[~mine], keys[~mine], lefts[~mine], rights[~mine]


def _like_the_first(
    text: Text, keys: I64, lefts: I64, rights: I64, ends: I64
) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], list[str]]:
    """Return which lines have the keys of the first line, and these keys; no keys when the first line is odd."""
    widths = lefts - keys
    names: list[str] = []
    mine = ends - rights[:, -1] <= 2  # nothing but a blank after the last bracket
    data = text.bytes
    for at in range(keys.shape[1]):
        key, left = int(keys[0, at]), int(lefts[0, at])
        pattern = text.padded[key : left + 2]
        name = pattern[:-3].decode("ascii", "replace")
        if not pattern.endswith(b"=[ ") or not name.isidentifier() or name in names or not mine[0]:
            return mine, []
        names.append(name)
        mine &= (widths[:, at] == widths[0, at]) & (rights[:, at] > lefts[:, at] + 1)
        mine &= text.same(keys[:, at], pattern) & (data[rights[:, at] - 1] == ord(" "))
        if at:
            mine &= data[keys[:, at] - 1] == ord(" ")
    return mine, names if mine[0] else []


def comma_shapes(text: Text, starts: I64, ends: I64, columns: list[str]) -> Iterator[Shape]:
    """Give comma-separated lines by their number of cells; a line may end early, and lack its last columns."""
    commas = np.flatnonzero(text.bytes == ord(","))
    first, last = np.searchsorted(commas, starts), np.searchsorted(commas, ends)
    cells = last - first + 1
    quotes = np.flatnonzero(text.bytes == ord('"'))
    plain = np.searchsorted(quotes, starts) == np.searchsorted(quotes, ends)
    for count in np.flatnonzero(np.bincount(cells[plain & (cells > 1) & (cells <= len(columns))])).tolist():
        rows = np.flatnonzero(plain & (cells == count))
        cuts = commas[first[rows][:, None] + np.arange(count - 1)]
        begin = np.column_stack([starts[rows], cuts + 1])
        end = np.column_stack([cuts, ends[rows]])
        yield rows, {columns[at]: Cells(text, begin[:, at], end[:, at]) for at in range(count)}


def one_line(line: str, columns: list[str], *, comma: bool) -> dict[str, str]:
    """Return the cells of one odd line by column, {} when it is no row."""
    if comma:
        import csv

        cells = next(csv.reader([line]), [])
        if len(cells) > len(columns) and not any(cell.strip() for cell in cells[len(columns) :]):
            cells = cells[: len(columns)]
        return dict(zip(columns, cells, strict=False)) if 1 < len(cells) <= len(columns) else {}
    found = PAIR.findall(line)
    rest = PAIR.sub("", line).strip()
    return dict(found) if found and not rest and len({k for k, _ in found}) == len(found) else {}

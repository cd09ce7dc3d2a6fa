"""Cells of the rows in a CUDA profiler log: lines with the same keys in the same places are read together.

Such lines have one shape: the same keys, or the same number of cells. The reader reads a line of no shape by itself.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

import numpy as np

from tracekit.columns.arrays import I64, Mask
from tracekit.readers.cuda_profile._cells import Cells, Text

MOST_FIELDS = 200
SHAPES_A_BLOCK = 24
"""Key-value lines of more shapes than this in one block are read line by line."""
_PAIR = re.compile(r"([A-Za-z_]\w*+)=\[ ?(.*?) ?\](?:\s+(?=[A-Za-z_]\w*+=\[)|\s*$)", re.ASCII)
"""A key with its value, up to the next key or the end of the line."""
_KEY = re.compile(rb"([A-Za-z_][A-Za-z0-9_]*)=\[ ")

Shape = tuple[I64, dict[str, Cells]]
"""Numbers of the lines in their block, and the cells of each column."""


def key_value_shapes(text: Text, starts: I64, ends: I64) -> Iterator[Shape]:
    """Yield lines `key=[ value ] key=[ value ] ` by shape. starts, ends: shape (n,), places of the lines.

    Only closing brackets are searched. The keys of the shape give the places where the values begin.
    """
    closes = np.flatnonzero(text.bytes == ord("]"))
    first = np.searchsorted(closes, starts)
    count = np.searchsorted(closes, ends) - first
    for fields in np.flatnonzero(np.bincount(count))[:MOST_FIELDS].tolist():
        if not 0 < fields <= MOST_FIELDS:
            continue
        rows = np.flatnonzero(count == fields)
        # One row for each field, so that the places of a field are side by side in memory.
        rights = closes[first[rows] + np.arange(fields)[:, None]]
        keys = np.empty_like(rights)
        keys[0] = starts[rows]
        keys[1:] = rights[:-1] + 2
        stops = ends[rows]
        for _ in range(SHAPES_A_BLOCK):
            if not len(rows):
                break
            names = _keys(text, keys[:, 0], rights[:, 0])
            same = _same_shape(text, names, keys, rights, stops)
            whole = bool(same.all())
            if same[0]:
                alike = (keys, rights) if whole else (keys[:, same], rights[:, same])
                cells = {
                    name: Cells(text, begin + (len(name) + 3), end - 1)
                    for name, begin, end in zip(names, *alike, strict=True)
                }
                yield rows if whole else rows[same], cells
            else:
                same[:] = False
                same[0] = True  # not a shape: this line is read by itself
            if whole:
                break
            rows, keys, rights, stops = rows[~same], keys[:, ~same], rights[:, ~same], stops[~same]


def _keys(text: Text, keys: I64, rights: I64) -> list[str]:
    """Return the keys of one line, "" for other text."""
    names = []
    for key, right in zip(keys.tolist(), rights.tolist(), strict=True):
        match = _KEY.match(text.padded, key, right)
        names.append(match[1].decode("ascii") if match else "")
    return names if len(set(names)) == len(names) else [""]


def _same_shape(text: Text, names: list[str], keys: I64, rights: I64, ends: I64) -> Mask:
    """Return the mask of the lines with these keys in their places, blanks around values, and nothing at the end."""
    same: Mask = ends - rights[-1] <= 2
    data = text.bytes
    for at, name in enumerate(names):
        if not name:
            same[:] = False
            break
        pattern = f"{name}=[ ".encode()
        same &= text.same(keys[at], pattern)
        same &= (rights[at] - keys[at] > len(pattern)) & (data[rights[at] - 1] == ord(" "))
        if at:
            same &= data[keys[at] - 1] == ord(" ")
    return same


def comma_shapes(text: Text, starts: I64, ends: I64, columns: list[str]) -> Iterator[Shape]:
    """Yield comma-separated lines by their number of cells. A line may end early, without its last columns."""
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
    """Return the cells of one odd line by column, {} when it is not a row."""
    if comma:
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            return {}
        return dict(zip(columns, cells, strict=False)) if 1 < len(cells) <= len(columns) else {}
    pairs: dict[str, str] = {}
    at = len(line) - len(line.lstrip())
    while at < len(line):
        # Only here: a search in a long line of something else would try every place, and each to the end.
        found = _PAIR.match(line, at)
        if found is None or found[1] in pairs:
            return {}
        pairs[found[1]] = found[2]
        at = found.end()
    return pairs

"""Tables of fixed width: cells that end under the end of their header's words; ragged rows; rows pasted together."""

from __future__ import annotations

import re
from collections.abc import Sequence

_GAP = re.compile(r" {2,}")


def cut_cells(line: str, ends: Sequence[int], *, optional_first: bool = False) -> list[str] | None:
    """Return the cells of a row, or None when the line is no row of this table.

    ends: where the header's words end, exclusive; the last column is the rest of the line. Cells are divided by two
    blanks or more, and the last may hold any; a cell wider than its column moves those behind it, so gaps are looked at
    first and places only where gaps do not give as many cells as the header. optional_first: the first cell may be
    empty, as in rows of a group whose name stands in its first row only.

    >>> cut_cells("391.80ms  443.07us  a  b", (8, 18, 24))
    ['391.80ms', '443.07us', 'a  b']
    """
    text = line.rstrip()
    count = len(ends)
    cells = _GAP.split(text.lstrip(), count - 1)
    if len(cells) == count:
        if optional_first and _GAP.split(text.lstrip(), count - 2)[0].endswith("%"):
            # One cell too many by a name with two blanks in it: the first cell is the percentage, not the group.
            return ["", *_GAP.split(text.lstrip(), count - 2)]
        return cells
    if optional_first and len(cells) == count - 1:
        return ["", *cells]
    return _by_place(text, ends)


def _by_place(text: str, ends: Sequence[int]) -> list[str] | None:
    """Cut under the header's ends; None unless a blank follows each end."""
    start = 0
    cells = []
    for end in ends[:-1]:
        if end >= len(text) or text[end] != " ":
            return None
        cells.append(text[start:end].strip())
        start = end
    cells.append(text[start:].strip())
    return cells if all(cells[:-1]) else None

"""Rows of nvprof's text tables: cells under the header's words, and tables that lost their gaps.

A web page or a mail may leave one blank between all cells:

    Start Duration Grid Size Block Size Regs* SSMem* DSMem* Size Throughput Device Context Stream Name
    134.90ms 3.7037ms (20 10 1) (32 32 1) 29 8.1920KB 0B - - GeForce GT 640M 1 2 void f<int>(float*) [94]

Such cells are recognised by their form. A name does not begin with a digit. So the numbers behind the name of a device
are the context and the stream.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

_GAP = re.compile(r" {2,}")

_DEVICE = r"(-|(?!\d)\S.{0,39}?)"
_NUMBER = r"(\d+|-)"
_SHAPE = r"(\(\d+ \d+ \d+\)|-)"
_FORMS = {
    "Type": r"((?:GPU activities|API calls|Range|Open(?:ACC|MP)(?: \(\w+\))?):)?",
    "Time(%)": r"(\d+(?:\.\d+)?%?)",
    "Calls": r"(\d+)",
    "Unified Memory": r"(PC \S+|\S+)",
    "Name": r"(?!\d)(\S.*)",
    **dict.fromkeys(("Grid Size", "Block Size"), _SHAPE),
    **dict.fromkeys(("Device", "Src Dev", "Dst Dev"), _DEVICE),
    **dict.fromkeys(["Regs*", "Context", "Stream", "Src Ctx", "Dst Ctx", "Calls (host)", "Calls (device)"], _NUMBER),
    **dict.fromkeys(("Time", "Avg", "Min", "Max", "Start", "Duration", "SSMem*", "DSMem*"), r"(\S+)"),
    **dict.fromkeys(("Size", "Throughput", "SrcMemType", "DstMemType", "Virtual Address"), r"(\S+)"),
}
"""Column of a trace or a summary -> form of its cells."""
_WORDS = re.compile(
    r"Time ?\(%\)|Calls \((?:host|device)\)|(?:Grid|Block) Size|Unified Memory|Virtual Address"
    r"|(?:Src|Dst) (?:Dev|Ctx)\b|\S+"
)


def cut_cells(line: str, ends: Sequence[int], *, optional_first: bool = False) -> list[str] | None:
    """Return the cells of a row, or None when the line is not a row of this table.

    ends: ends of the header's words, exclusive. The last column is the rest of the line, and may hold any blanks. Two
    or more blanks divide cells. A cell wider than its column moves the cells behind it, so places in the line count
    only where the gaps do not give as many cells as the header. optional_first: the first cell may be empty, as in a
    group whose name is in its first row only.

    >>> cut_cells("391.80ms  443.07us  a  b", (8, 18, 24))
    ['391.80ms', '443.07us', 'a  b']
    """
    text = line.rstrip()
    count = len(ends)
    cells = _GAP.split(text.lstrip(), count - 1)
    if len(cells) == count:
        if optional_first and _GAP.split(text.lstrip(), count - 2)[0].endswith("%"):
            # A name with two blanks in it makes one cell too many: the first cell is the percentage, not the group.
            return ["", *_GAP.split(text.lstrip(), count - 2)]
        return cells
    if optional_first and len(cells) == count - 1:
        return ["", *cells]
    return _cells_by_place(text, ends)


def _cells_by_place(text: str, ends: Sequence[int]) -> list[str] | None:
    """Cut a line under the ends of the header's words; None unless a blank follows each end."""
    start = 0
    cells = []
    for end in ends[:-1]:
        if end >= len(text) or text[end] != " ":
            return None
        cells.append(text[start:end].strip())
        start = end
    cells.append(text[start:].strip())
    return cells if all(cells[:-1]) else None


def squeezed_columns(line: str) -> tuple[str, ...]:
    """Return the columns of a header whose words are one blank apart, () when the line is not such a header."""
    if "Name" not in line or len(line) > 1000:
        return ()
    columns = tuple("Time(%)" if w == "Time (%)" else w for w in _WORDS.findall(line))
    known = columns[-1] == "Name" and len(set(columns)) == len(columns) and all(c in _FORMS for c in columns)
    return columns if known else ()


def squeezed_cells(line: str, columns: tuple[str, ...]) -> list[str] | None:
    """Return the cells of a row that lost its gaps, or None when the line is not a row of this table."""
    match = _squeezed_row(columns).match(line)
    return [cell or "" for cell in match.groups()] if match else None


@lru_cache(maxsize=64)
def _squeezed_row(columns: tuple[str, ...]) -> re.Pattern[str]:
    gaps = (r"\s*+" if column == "Type" else r"\s++" for column in columns[:-1])
    cells = [_FORMS[column] for column in columns]
    return re.compile(r"\s*+" + "".join(c + g for c, g in zip(cells, gaps, strict=False)) + cells[-1] + r"$", re.ASCII)

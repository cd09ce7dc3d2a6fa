"""Text tables that lost their gaps on the way through a web page or a mail: one blank between all cells.

    Start Duration Grid Size Block Size Regs* SSMem* DSMem* Size Throughput Device Context Stream Name
    134.90ms 3.7037ms (20 10 1) (32 32 1) 29 8.1920KB 0B - - GeForce GT 640M 1 2 void f<int>(float*) [94]

Neither gaps nor places tell the cells apart, so each is known by its form. A name does not begin with a digit, which
ends the name of a device: the numbers behind it are context and stream.
"""

from __future__ import annotations

import re
from functools import lru_cache

_DEVICE = r"(-|(?!\d)\S.{0,39}?)"
_NUMBER = r"(\d+|-)"
_CELLS = {
    "Type": r"((?:GPU activities|API calls|Range|Open(?:ACC|MP)(?: \(\w+\))?):)?",
    "Time(%)": r"(\d+(?:\.\d+)?%?)",
    "Time": r"(\S+)",
    "Calls": r"(\d+)",
    "Avg": r"(\S+)",
    "Min": r"(\S+)",
    "Max": r"(\S+)",
    "Start": r"(\S+)",
    "Duration": r"(\S+)",
    "Grid Size": r"(\(\d+ \d+ \d+\)|-)",
    "Block Size": r"(\(\d+ \d+ \d+\)|-)",
    "Regs*": _NUMBER,
    "SSMem*": r"(\S+)",
    "DSMem*": r"(\S+)",
    "Size": r"(\S+)",
    "Throughput": r"(\S+)",
    "SrcMemType": r"(\S+)",
    "DstMemType": r"(\S+)",
    "Device": _DEVICE,
    "Context": _NUMBER,
    "Stream": _NUMBER,
    "Src Dev": _DEVICE,
    "Src Ctx": _NUMBER,
    "Dst Dev": _DEVICE,
    "Dst Ctx": _NUMBER,
    "Unified Memory": r"(PC \S+|\S+)",
    "Calls (host)": _NUMBER,
    "Calls (device)": _NUMBER,
    "Virtual Address": r"(\S+)",
    "Name": r"(?!\d)(\S.*)",
}
"""Column of a trace or a summary -> form of its cells."""
_TWO_WORDS = re.compile(
    r"Time ?\(%\)|Calls \((?:host|device)\)|(?:Grid|Block) Size|Unified Memory|Virtual Address"
    r"|(?:Src|Dst) (?:Dev|Ctx)\b|\S+"
)


def squeezed_columns(line: str) -> tuple[str, ...]:
    """Return the columns of a header whose words stand one blank apart, () when the line is no such header."""
    if "Name" not in line or len(line) > 1000:
        return ()
    columns = tuple("Time(%)" if w == "Time (%)" else w for w in _TWO_WORDS.findall(line))
    known = columns[-1] == "Name" and len(set(columns)) == len(columns) and all(c in _CELLS for c in columns)
    return columns if known else ()


def squeezed_cells(line: str, columns: tuple[str, ...]) -> list[str] | None:
    """Return the cells of a row, or None when the line is no row of this table."""
    match = _row(columns).match(line)
    return [cell or "" for cell in match.groups()] if match else None


@lru_cache(maxsize=64)
def _row(columns: tuple[str, ...]) -> re.Pattern[str]:
    gaps = (r"\s*+" if column == "Type" else r"\s++" for column in columns[:-1])
    cells = [_CELLS[column] for column in columns]
    return re.compile(r"\s*+" + "".join(c + g for c, g in zip(cells, gaps, strict=False)) + cells[-1] + r"$", re.ASCII)

"""A file that was cut: the note for the record that its end has only a part of.

One code for all readers, because `doctor` and programs that read ledgers look for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from tracekit.model.trace import Ledger

__all__ = ["LAST_LINE", "TORN", "drop_torn", "without_torn"]

T = TypeVar("T")
TORN = "torn-row"
"""The code of the note."""
LAST_LINE = "the last line was cut"


def drop_torn(ledger: Ledger, where: str = "", *, what: str = LAST_LINE, count: int = 1) -> None:
    """Drop records of which the end of a file has only a part. what: what was cut, where it is no line."""
    ledger.drop(TORN, count, where=where, text=f"dropped: {what}")


def without_torn(
    rows: list[T], cells_of: Callable[[T], list[str] | None], line: int, ledger: Ledger, *, matters: bool = True
) -> list[T]:
    """Return the rows of a table without the last one, which has no line end, unless its last cell is surely whole.

    cells_of: the cells of a row, None where they are not as many as those of the header. line: the number of the last
    row. A row with all cells may be cut too: its last number may have more digits. matters: whether that cell is used.
    """
    if not rows:
        return rows
    cells = cells_of(rows[-1])
    above = [row[-1] for each in rows[-1 - _ROWS_ABOVE : -1] if (row := cells_of(each))]
    if cells and not matters:
        return rows
    if cells and _is_whole(cells[-1].strip(), [cell.strip() for cell in cells[:-1]], [cell.strip() for cell in above]):
        ledger.note(
            "no-line-end", "the last line has no line end: lines behind it may be missing", where=f"line {line}"
        )
        return rows
    drop_torn(ledger, f"line {line}")
    return rows[:-1]


_ROWS_ABOVE = 16
_TIMESTAMP = re.compile(r"[0-9]{9,19}", re.ASCII)
_SIX_PLACES = re.compile(r"-?[0-9]{1,18}\.[0-9]{6}", re.ASCII)
_EXPONENT = re.compile(r"-?[0-9](?:\.[0-9]{1,17})?[eE][-+][0-9]{2}", re.ASCII)


def _is_whole(last: str, row: list[str], above: list[str]) -> bool:
    """Return whether the last cell of a row shows that it is not cut. row: the cells before it; above: that column."""
    if len(above) > 1 and {last} == set(above):
        return True
    if _EXPONENT.fullmatch(last):  # C prints two digits of an exponent
        return True
    # Timestamps of one clock have equally many digits, and C prints six decimals.
    if _TIMESTAMP.fullmatch(last):
        lengths = {len(cell) for cell in (*row, *above) if _TIMESTAMP.fullmatch(cell)}
        return bool(lengths) and max(lengths) == len(last)
    return _SIX_PLACES.fullmatch(last) is not None and any(_SIX_PLACES.fullmatch(cell) for cell in (*row, *above))

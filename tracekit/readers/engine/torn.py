"""A file that was cut: the note for the record that its end has only a part of.

One code for all readers, because `doctor` and programs that read ledgers look for it.
"""

from __future__ import annotations

from tracekit.model.trace import Ledger

__all__ = ["LAST_LINE", "TORN", "drop_torn"]

TORN = "torn-row"
"""The code of the note."""
LAST_LINE = "the last line was cut"


def drop_torn(ledger: Ledger, where: str = "", *, what: str = LAST_LINE, count: int = 1) -> None:
    """Drop records of which the end of a file has only a part. what: what was cut, where it is no line."""
    ledger.drop(TORN, count, where=where, text=f"dropped: {what}")

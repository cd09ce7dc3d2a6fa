"""Inputs that end before their end: rows are missing, so their totals and steps are those of a shorter run.

The notes of the readers say it. `doctor` reports the same codes as a torn tail; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tracekit.model.display import escape_controls
from tracekit.model.trace import Ledger, is_cut

__all__ = ["CUT_NOTES", "where_cut"]

CUT_NOTES = frozenset(
    {
        "no-end",
        "cut",
        "compressed-file-damaged",
        "no-end-line",
        "rows-missing",
        "list-cut",
        "benchmark-cut",
        "table-cut",
    }
)
"""Codes of notes on rows behind a cut, besides those of a record of which only a part is there."""
_ON_PURPOSE = frozenset({("torch-table", "table-cut")})
"""Notes (format, code) of a habit: PyTorch prints the rows that its program asks for, and the total of all."""


def where_cut(ledgers: Iterable[Ledger]) -> str:
    """Return how and where the first cut input of a run ends, "" if all are whole."""
    for ledger in ledgers:
        for code, note in ledger.notes.items():
            if (is_cut(code) or code in CUT_NOTES) and (ledger.format, code) not in _ON_PURPOSE:
                text = note.text.removeprefix("dropped: ").partition(": ")[0]
                at = f", {note.places[0]}" if note.places else ""
                return escape_controls(f"{text} ({Path(ledger.path).name}{at})")
    return ""

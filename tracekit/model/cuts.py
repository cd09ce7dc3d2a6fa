"""Inputs that end before their end: rows are missing, so their totals and steps are those of a shorter run.

The notes of the readers say it. `doctor` reports the same codes as a torn tail; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tracekit.model.display import escape_controls
from tracekit.model.trace import Ledger, is_cut

__all__ = ["CUT_NOTES", "ends_in_the_middle", "says_that_it_ends", "where_cut"]

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


_MIDDLE = frozenset({"no-end", "cut", "no-end-line"})
"""Codes of notes on a file without its end, besides those of a record of which only a part is there."""
_WRITTEN_AS_IT_RUNS = frozenset({"recorder-log"})
"""Formats of logs that end with their program: behind their end nothing happened."""
_ENDS = "ends in the middle: all later"


def ends_in_the_middle(ledgers: Iterable[Ledger], archived: Iterable[Ledger] = ()) -> list[str]:
    """Return a sentence for each input that ends in the middle, or was made from such a file.

    archived: the ledgers that the inputs have of the conversions which made them.
    """
    every = list(ledgers)
    own, count = [ledger for ledger in every if _is_half(ledger)], len(every)
    found = [f"{'The file' if count == 1 else _name(ledger)} {_missing(ledger)}" for ledger in own]
    found += [
        f"The file was made from {_name(ledger)}, which {_missing(ledger)}" for ledger in archived if _is_half(ledger)
    ]
    return list(dict.fromkeys(found))


def says_that_it_ends(text: str) -> bool:
    """Return whether a text is such a sentence: it comes before all figures."""
    return _ENDS in text


def _is_half(ledger: Ledger) -> bool:
    if ledger.format in _WRITTEN_AS_IT_RUNS:
        return False
    return any(is_cut(code) or code in _MIDDLE for code in ledger.notes)


def _missing(ledger: Ledger) -> str:
    return f"{_ENDS} {'rows' if ledger.totals_out else 'events'} are missing."


def _name(ledger: Ledger) -> str:
    return escape_controls(Path(ledger.path).name)

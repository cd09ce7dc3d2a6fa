"""A ledger that keeps the place of every note, for the list of changes of a repair."""

from __future__ import annotations

from dataclasses import dataclass, field

from tracekit.errors import Sentence
from tracekit.trace import Ledger

MOST_PLACES = 1 << 20


@dataclass(slots=True)
class FullLedger(Ledger):
    """A ledger with all places of its notes, not the first three alone. every: code -> places, in order."""

    every: dict[str, list[str]] = field(default_factory=dict)

    def note(self, code: str, text: str | Sentence, count: int = 1, *, where: str = "") -> None:
        """Note that something was repaired, guessed or dropped, and keep the place."""
        Ledger.note(self, code, text, count, where=where)
        places = self.every.setdefault(code, [])
        if where and len(places) < MOST_PLACES:
            places.append(where)

"""Blocks of a Theano profile, and the rows and damaged lines of one reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracekit.readers._text_lines import Printed, TextLine, TotalRows
from tracekit.schema import Kind
from tracekit.trace import Ledger

_PREFIX = {"function": "", "sum": "Sum of all: ", "scan": "Scan Op: "}


@dataclass(slots=True)
class Block:
    """One block. kind: function, sum or scan. seen: tables that it had. thunks: its `Time in thunks`.

    over: the tips were there, which end it.
    """

    number: int
    kind: str = "function"
    message: str | None = None
    thunks: Printed | None = None
    seen: set[str] = field(default_factory=set)
    over: bool = False


class Out:
    """What one reading gives. found: rows with a time or size.

    The functions that say that a line was taken or damaged return True: it was a line of the profile.
    """

    def __init__(self, source: int, ledger: Ledger) -> None:
        self.ledger = ledger
        self.rows = TotalRows(source, ledger)
        self.found = 0

    def row(
        self, block: Block, section: str, name: str, kind: Kind, args: Mapping[str, Any] | None = None, **more: Any
    ) -> bool:
        """Add a row of a table; the sections of a sum and of a scan have names of their own."""
        self.rows.add(block.number, _PREFIX[block.kind] + section, name, str(kind), args, **more)
        self.found += 1
        self.ledger.kept += 1
        return True

    def header(self, block: Block, name: str, args: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Add a row of section `header`, without counting a line."""
        marked = {**(args or {}), "sum": True} if block.kind == "sum" else args
        self.rows.add(block.number, "header", name, str(Kind.OTHER), marked, **more)

    def torn(self, line: TextLine) -> bool:
        """Drop the last line, which was cut."""
        self.ledger.drop("torn-row", where=line.where, text="dropped: the last line was cut")
        return True

    def bad(self, line: TextLine) -> bool:
        """Drop a line that begins as a row and does not end as one."""
        if line.torn:
            return self.torn(line)
        why = "dropped: lines that begin as a row and do not end as one"
        self.ledger.drop("bad-row", where=line.where, text=why)
        return True

    def bad_time(self, line: TextLine) -> bool:
        """Drop a line whose time is no number."""
        why = "dropped: times that are no numbers, or beyond 146 years"
        self.ledger.drop("bad-time", where=line.where, text=why)
        return True

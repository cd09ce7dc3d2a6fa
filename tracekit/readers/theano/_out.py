"""Blocks of a Theano profile, and the rows and damaged lines of one reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracekit.readers.printed.lines import Printed, TextLine
from tracekit.readers.printed.pasted import RankRows
from tracekit.readers.theano._lines import is_open
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


MOST_LINES = 50
"""Lines that a name may have."""
MOST_BELOW = 1 << 20
"""Characters of the lines below a row (inputs, outputs, details) that are kept with it."""


class Out:
    """What one reading gives. found: rows with a time or size.

    A row whose `args` take the lines below it waits for them: `hold`. The functions that say that a line was taken or
    damaged return True: it was a line of the profile.
    """

    def __init__(self, rows: RankRows, ledger: Ledger) -> None:
        self.ledger = ledger
        self.rows = rows
        self.found = 0
        self._waiting: dict[str, Any] | None = None
        self._below = 0
        self._name: list[str] = []

    def flush(self) -> None:
        """Give the row that waits. Lines that did not close its name were none of it."""
        if self._name:
            self.ledger.ignore("other output", len(self._name))
            self._name = []
        if self._waiting is not None:
            row, self._waiting = self._waiting, None
            if "section" in row:
                self.row(**row)
            else:
                self.header(**row)
                self.ledger.kept += 1

    def hold(self, **row: Any) -> bool:
        """Take a row as `row` does, or without `section` as `header` does, which waits for the lines below it."""
        self.flush()
        self._waiting, self._below = row, 0
        return True

    def below(self, key: str, text: str) -> bool | None:
        """Put a line into the row that waits, under a key of its `args`; None without such a row, False when full."""
        if self._waiting is None:
            return None
        self._below += len(text) + 1
        if self._below > MOST_BELOW:
            return False
        self._waiting["args"].setdefault(key, []).append(text)
        self.ledger.merged += 1
        return True

    def goes_on(self, text: str) -> bool:
        """Take a line that may belong to the name of the row that waits, until its brackets are closed."""
        row = self._waiting
        if row is None or "section" not in row or row["args"].keys() & {"inputs", "outputs", "details"}:
            return False
        whole = "\n".join([row["name"], *self._name, text.rstrip()])
        if len(self._name) >= MOST_LINES or not is_open("\n".join([row["name"], *self._name])):
            return False
        self._name.append(text.rstrip())
        if not is_open(whole):
            row["name"] = whole
            self.ledger.merged += len(self._name)
            self._name = []
            self.say_joined()
        return True

    def say_joined(self) -> None:
        """Note that a name had several lines."""
        self.ledger.note("names-joined", "names whose brackets are closed on a later line: the lines were put together")

    def take_back_blank(self, key: str) -> None:
        """Give up a blank line at the end of a key, which belongs to what follows."""
        lines = self._waiting["args"].get(key, []) if self._waiting is not None else []
        if lines and not lines[-1]:
            lines.pop()
            self.ledger.merged -= 1
            self.ledger.ignore("blank lines")

    def row(
        self, block: Block, section: str, name: str, kind: Kind, args: Mapping[str, Any] | None = None, **more: Any
    ) -> bool:
        """Add a row of a table; the sections of a sum and of a scan have names of their own."""
        self.flush()
        self.rows.add(block.number, _PREFIX[block.kind] + section, name, str(kind), args, **more)
        self.found += 1
        self.ledger.kept += 1
        return True

    def header(self, block: Block, name: str, args: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Add a row of section `header`, without counting a line."""
        self.flush()
        marked = {**(args or {}), "sum": True} if block.kind == "sum" else args
        self.rows.add(block.number, "header", name, str(Kind.OTHER), marked, **more)

    def say(self, block: Block, name: str, text: str) -> bool:
        """Keep a line of words, as a row of section `header`."""
        self.header(block, name, value_text=text)
        self.ledger.kept += 1
        return True

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

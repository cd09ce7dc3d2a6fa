"""Blocks of a Theano profile, and the rows and damaged lines of one reading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracekit.readers.printed.lines import Printed, TextLine, drop_torn
from tracekit.readers.printed.pasted import RankRows
from tracekit.readers.theano._patterns import is_open
from tracekit.schema import Kind
from tracekit.trace import Ledger

_PREFIX = {"function": "", "sum": "Sum of all: ", "scan": "Scan Op: "}


@dataclass(slots=True)
class Block:
    """One block of a profile.

    kind: function, sum or scan. seen: the tables so far. thunks: its `Time in thunks`. over: its tips have ended it.
    """

    number: int
    kind: str = "function"
    message: str | None = None
    thunks: Printed | None = None
    seen: set[str] = field(default_factory=set)
    over: bool = False


@dataclass(slots=True)
class _WaitingRow:
    """A row that waits for the lines below it. section: None for a row of section `header`."""

    block: Block
    section: str | None
    name: str
    kind: Kind
    args: Mapping[str, object]
    more: dict[str, object]
    below: dict[str, list[str]] = field(default_factory=dict)


MOST_LINES = 50
"""Most lines of a name."""
MOST_BELOW = 1 << 20
"""Most characters of the lines below a row (inputs, outputs, details) that are kept with it."""


class Out:
    """The rows and damaged lines of one reading. found: the number of rows with a time or size.

    A row whose `args` include the lines below it waits for them (`hold`). Methods that keep or drop a line return True,
    because the line belongs to the profile.
    """

    def __init__(self, rows: RankRows, ledger: Ledger) -> None:
        self.ledger = ledger
        self.rows = rows
        self.found = 0
        self._waiting: _WaitingRow | None = None
        self._below = 0
        self._name: list[str] = []

    def flush(self) -> None:
        """Add the waiting row. Lines that did not close its name were not part of it."""
        if self._name:
            self.ledger.ignore("other output", len(self._name))
            self._name = []
        if self._waiting is not None:
            row, self._waiting = self._waiting, None
            args = {**row.args, **row.below}
            if row.section is not None:
                self.row(row.block, row.section, row.name, row.kind, args, **row.more)
            else:
                self.header(row.block, row.name, args, **row.more)
                self.ledger.kept += 1

    def hold(
        self,
        block: Block,
        name: str,
        args: Mapping[str, object],
        *,
        section: str | None = None,
        kind: Kind = Kind.OTHER,
        **more: object,
    ) -> bool:
        """Keep a row until the lines below it are read. Without a section it becomes a row of section `header`."""
        self.flush()
        self._waiting, self._below = _WaitingRow(block, section, name, kind, args, more), 0
        return True

    def below(self, key: str, text: str) -> bool | None:
        """Add a line to the waiting row, under a key of its `args`; None without such a row, False when it is full."""
        if self._waiting is None:
            return None
        self._below += len(text) + 1
        if self._below > MOST_BELOW:
            return False
        self._waiting.below.setdefault(key, []).append(text)
        self.ledger.merged += 1
        return True

    def continues_name(self, text: str) -> bool:
        """Add a line to the name of the waiting row while its brackets are open; return whether it was added."""
        row = self._waiting
        if row is None or row.section is None or row.below:
            return False
        whole = "\n".join([row.name, *self._name, text.rstrip()])
        if len(self._name) >= MOST_LINES or not is_open("\n".join([row.name, *self._name])):
            return False
        self._name.append(text.rstrip())
        if not is_open(whole):
            row.name = whole
            self.ledger.merged += len(self._name)
            self._name = []
            self.note_joined()
        return True

    def note_joined(self) -> None:
        """Note that a name had several lines."""
        self.ledger.note("names-joined", "names whose brackets are closed on a later line: the lines were joined")

    def take_back_blank(self, key: str) -> None:
        """Remove a blank line at the end of a key: it belongs to the lines that follow."""
        lines = self._waiting.below.get(key, []) if self._waiting is not None else []
        if lines and not lines[-1]:
            lines.pop()
            self.ledger.merged -= 1
            self.ledger.ignore("blank lines")

    def row(
        self,
        block: Block,
        section: str,
        name: str,
        kind: Kind,
        args: Mapping[str, object] | None = None,
        **more: object,
    ) -> bool:
        """Add a row of a table; the sections of a sum and of a scan have names of their own."""
        self.flush()
        self.rows.add(block.number, _PREFIX[block.kind] + section, name, str(kind), args, **more)
        self.found += 1
        self.ledger.kept += 1
        return True

    def header(self, block: Block, name: str, args: Mapping[str, object] | None = None, **more: object) -> None:
        """Add a row of section `header`, without counting a line."""
        self.flush()
        marked = {**(args or {}), "sum": True} if block.kind == "sum" else args
        self.rows.add(block.number, "header", name, str(Kind.OTHER), marked, **more)

    def words(self, block: Block, name: str, text: str) -> bool:
        """Add a line of words as a row of section `header`."""
        self.header(block, name, value_text=text)
        self.ledger.kept += 1
        return True

    def torn(self, line: TextLine) -> bool:
        """Drop the last line, which was cut."""
        drop_torn(line, self.ledger)
        return True

    def bad(self, line: TextLine) -> bool:
        """Drop a line that begins like a row and does not end like one."""
        if line.torn:
            return self.torn(line)
        why = "dropped: lines that begin like a row and do not end like one"
        self.ledger.drop("bad-row", where=line.where, text=why)
        return True

    def bad_time(self, line: TextLine) -> bool:
        """Drop a line whose time is not a number."""
        why = "dropped: times that are not numbers, or beyond 146 years"
        self.ledger.drop("bad-time", where=line.where, text=why)
        return True

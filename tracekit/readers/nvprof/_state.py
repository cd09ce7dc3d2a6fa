"""What a reader of nvprof's output knows while it reads: its runs, the open table, devices, rows to come."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import IdTable, RowBuilder
from tracekit.readers.names import Demangler
from tracekit.readers.nvprof._lines import ORDINAL, Header
from tracekit.trace import Ledger, Run, SourceFacts

MIXED = (
    "rows of several processes are mixed line by line and do not say whose they are: their pid is left out "
    "(mpirun --tag-output, or nvprof --log-file %p.csv, keeps them apart)"
)
MIXED_TOTALS = (
    "tables of several processes are mixed line by line: which run a row belongs to is uncertain "
    "(mpirun --tag-output, or nvprof --log-file %p.log, keeps them apart)"
)
UNLIKE = "rows of two tables with unlike units are mixed and cannot be told apart"
ROUNDED = "text tables print times and sizes with 5 digits: all sums are as exact as that (nvprof --csv prints more)"
COARSE = "text tables print times of 1000 s and more with 2 digits (2.4e+03s): such a time is only as exact as that"
TIMES = ("Start", "Duration", "Time", "Avg", "Min", "Max")
MOST_RUNS = 1000
"""Runs of one file whose facts are kept; further ones are read, their facts are not."""
MOST_WARNINGS = 20
MADE_UP_DEVICE = 100
"""First number of devices whose own the file does not say (text tables cut `Tesla V100-SXM2-16GB (0)`)."""


_CUT_ORDINAL = re.compile(r"^(.+?) ?\((?:(0)|\d?)$", re.ASCII | re.DOTALL)
"""`Quadro M4000 (0`, cut at 15 characters: no other number begins with 0. `(1` may have been `(12)`."""
_COARSE = re.compile(r"[\d.]+e\+\d+s", re.ASCII)
"""A time; values of metrics stand under Min, Max and Avg, too."""
_INTEGER = re.compile(r"^-?\d+$", re.ASCII)
"""An id that is its own number. A hexadecimal one is text: nvprof prints none."""


class RowError(Exception):
    """A row that cannot become an event or a total: the reason's code, and one sentence."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


@dataclass(slots=True)
class ProfiledRun:
    """One run of a program under nvprof: its place in the file, process, and facts."""

    number: int
    pid: int | None
    facts: dict[str, Any]
    has_result: bool = False


@dataclass(slots=True)
class FastPlan:
    """How pyarrow reads the rows of a table; made once a table."""

    read: pacsv.ReadOptions
    parse: pacsv.ParseOptions
    convert: pacsv.ConvertOptions
    text_columns: tuple[str, ...]
    """Columns that go into args."""


@dataclass(slots=True)
class OpenTable:
    """A table whose rows are being read."""

    header: Header
    run: ProfiledRun
    section: str
    line: int
    pid: int | None = None
    nvtx: dict[str, str] = field(default_factory=dict)
    units: tuple[str, ...] | None = None
    decimal: str = ""
    text_ids: bool = False
    """Context or Stream is no number in this table."""
    device: str = ""
    kernel: str = ""
    """Device and kernel of the indented lines above the rows of a text table."""
    kind: str = ""
    rivals: tuple[OpenTable, ...] = ()
    """Tables of other processes whose lines may still come between the rows of this one."""
    announced: int | None = None
    mixed: bool = False
    last_start: int | None = None
    plan: FastPlan | None = None
    plan_key: tuple[str, bool, bool] | None = None

    def unit(self, column: str) -> str:
        """Return the unit of the column, "" where the table names none."""
        if self.units is None or column not in self.header.columns:
            return ""
        return self.units[self.header.columns.index(column)]

    def rivals_alike(self) -> bool:
        """Whether a row means the same in this table and in those that may be mixed into it."""
        return all(
            self.header.columns == r.header.columns and self.units == r.units
            for r in self.rivals
            if len(r.header.columns) == len(self.header.columns)
        )

    def waits_as(self, header: Header) -> bool:
        """Whether a table of that header may be taken for this one: neither has its row of units or any row yet."""
        return self.units is None and self.announced is None and self.header.columns == header.columns

    def mix(self) -> None:
        """From here on a row may be of this table or of a rival's: its process is unknown."""
        self.mixed, self.pid = True, None

    def may_go_on(self, pid: int | None, announced: list[int]) -> bool:
        """Whether rows of this table were seen after the process `pid` had begun, or none yet: both run at once."""
        return self.announced is None or pid in announced[: self.announced]


class State:
    """What the whole input shares: facts, devices, ids, names, rows that wait for a batch."""

    def __init__(self, path: str, options: ReadOptions, ledger: Ledger, reader: str) -> None:
        self.path, self.source, self.ledger = path, options.source, ledger
        self.facts: dict[str, Any] = {"tool": "nvprof"}
        self.run = Run(sources=[SourceFacts(path, reader, facts=self.facts)])
        self.streams = IdTable(self.run, "stream", self.source)
        self.contexts = IdTable(self.run, "context", self.source)
        self.correlations = IdTable(self.run, "correlation", self.source)
        self.names = Demangler(ledger, enabled=options.demangle)
        self.events = RowBuilder("events")
        self.totals = RowBuilder("totals")
        self.order = 0
        self._made_up = IdTable(self.run, "device", self.source, first=MADE_UP_DEVICE)
        self._devices: dict[str, int] = {}
        self._runs = 0

    def add_run(self, pid: int | None, command: str | None) -> ProfiledRun:
        """Begin a run of the file and keep its facts."""
        facts: dict[str, Any] = {"run": self._runs}
        if pid is not None:
            facts["pid"] = pid
        if command is not None:
            facts["command"] = command
            self.facts.setdefault("command", command)
        if pid is not None:
            self.facts.setdefault("pid", pid)
            if command:
                self.run.processes[(self.source, pid)] = command
        if self._runs < MOST_RUNS:
            self.facts.setdefault("runs", []).append(facts)
        self._runs += 1
        return ProfiledRun(self._runs - 1, pid, facts)

    def warn(self, text: str) -> None:
        """Pass a warning or an error of nvprof itself on, each by a note of its own; the last stands for the rest."""
        known = self.facts.setdefault("warnings", [])
        said = text.removeprefix("Warning:").strip()
        if said not in known and len(known) < MOST_WARNINGS:
            known.append(said)
        number = known.index(said) if said in known else MOST_WARNINGS
        error = said.removeprefix("Error:").strip()
        self.ledger.note(
            f"nvprof-warning-{number + 1}" if number else "nvprof-warning",
            f"nvprof itself warns: {said}" if error == said else f"nvprof itself reports an error: {error}",
        )

    def tell_digits(self, cells: dict[str, str], number: int) -> None:
        """Say how exact the times of a text table's row are."""
        if "rounded-text" not in self.ledger.notes:
            self.ledger.note("rounded-text", ROUNDED, where=f"line {number}")
        if any("e+" in (cell := cells.get(column, "")) and _COARSE.fullmatch(cell) for column in TIMES):
            self.ledger.note("coarse-times", COARSE, where=f"line {number}")

    def device(self, cell: str) -> int | None:
        """Return the number of a device cell, `GeForce GTX 950 (0)`; None for an empty cell.

        A name without its number gets one from 100 on, with a note.
        """
        number = self._devices.get(cell)
        if number is None:
            if not cell:
                return None
            match = ORDINAL.match(cell) or _CUT_ORDINAL.match(cell)
            name = match[1] if match else cell
            if match and match[2]:
                number = int(match[2])
            elif cell.isdecimal() and len(cell) < 9:
                number, name = int(cell), ""
            else:
                number = self._made_up.number(cell)
                self.ledger.note(
                    "device-number-missing",
                    "the table cuts the names of devices before their number: devices are numbered from 100, and two "
                    "of the same name cannot be told apart",
                    where=cell,
                )
            self._devices[cell] = number
            if name:
                self.run.devices.setdefault((self.source, number), name)
        return number

    def stream(self, cell: str) -> int | None:
        """Return the number of a stream; one that is text gets a made-up number, and Run.ids its text."""
        return _id(self.streams, cell)

    def context(self, cell: str) -> int | None:
        """Return the number of a context, as `stream`."""
        return _id(self.contexts, cell)

    def correlation(self, cell: str) -> int | None:
        """Return a correlation id, as `stream`; one beyond int64 keeps its text in Run.ids."""
        return _id(self.correlations, cell)

    def take(self) -> list[pa.RecordBatch]:
        """Return the batches of the rows that wait, and count them."""
        out = []
        if len(self.totals):
            self.ledger.totals_out += len(self.totals)
            out.append(self.totals.take())
        if len(self.events):
            self.ledger.events_out += len(self.events)
            out.append(self.events.take())
        return out


def _id(table: IdTable, cell: str) -> int | None:
    if not cell:
        return None
    return table.number(int(cell) if len(cell) < 40 and _INTEGER.match(cell) else cell)


def falls(batch: pa.RecordBatch, last: int | None) -> bool:
    """Tell whether the rows do not come by start, as those of one table do."""
    ts = batch.column("ts_ns").to_numpy()
    return bool((ts[1:] < ts[:-1]).any()) or (last is not None and bool(len(ts)) and int(ts[0]) < last)

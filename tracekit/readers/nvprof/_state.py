"""The state of reading nvprof's output: the runs of the file, the open table, devices, ids, rows for the next batch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from typing import TypeVar

import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model.arrow import I64
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import IdTable, RowBuilder
from tracekit.readers.engine.blocks import ParsePlan, parse_plan
from tracekit.readers.engine.cells import RowError
from tracekit.readers.engine.spec import TableHeader, TableSpec
from tracekit.readers.names import Demangler
from tracekit.readers.nvprof._lines import ORDINAL, NvprofHeader
from tracekit.readers.nvprof._tables import trace_table
from tracekit.readers.printed.numbers import COMMA, DECIMAL, POINT, Style

MIXED = (
    "rows of several processes are mixed line by line and do not name their process: their pid is empty "
    "(mpirun --tag-output, or nvprof --log-file %p.csv, keeps them apart)"
)
MIXED_TOTALS = (
    "tables of several processes are mixed line by line: which run a row belongs to is uncertain "
    "(mpirun --tag-output, or nvprof --log-file %p.log, keeps them apart)"
)
UNLIKE_UNITS = "the row may belong to either of two tables with different units"
ROUNDED = "text tables print times and sizes with 5 digits: all sums are as exact as that (nvprof --csv prints more)"
COARSE = "text tables print times of 1000 s and more with 2 digits (2.4e+03s): such a time is only as exact as that"
TIMES = ("Start", "Duration", "Time", "Avg", "Min", "Max")
MAX_RUNS = 1000
"""Number of runs in one file whose facts are kept. The rows of further runs are read all the same."""
MAX_WARNINGS = 20
FIRST_MADE_UP_DEVICE = 100
"""First number for devices without a number in the file (text tables cut `Tesla V100-SXM2-16GB (0)`)."""

T = TypeVar("T")
_CUT_ORDINAL = lazy_pattern(r"^(.+?) ?\((?:(0)|\d?)$", re.ASCII | re.DOTALL)
"""`Quadro M4000 (0`, cut at 15 characters: no other number begins with 0. `(1` may have been `(12)`."""
_COARSE = lazy_pattern(r"[\d.]+e\+\d+s", re.ASCII)
"""A time. The columns Min, Max and Avg hold values of metrics too."""
_INTEGER = lazy_pattern(r"^-?\d+$", re.ASCII)
"""An id that is its own number. A hexadecimal id is text: nvprof prints none."""


@dataclass(slots=True)
class ProfiledRun:
    """One run of a program under nvprof. number: its place in the file."""

    number: int
    pid: int | None
    facts: dict[str, object]
    has_result: bool = False


@dataclass(slots=True)
class OpenTable:
    """A table whose rows are being read."""

    header: NvprofHeader
    run: ProfiledRun
    section: str
    line: int
    pid: int | None = None
    nvtx: dict[str, str] = field(default_factory=dict)
    units: tuple[str, ...] | None = None
    decimal: str = ""
    device: str = ""
    kernel: str = ""
    """Device and kernel from the indented lines above the rows of a text table."""
    kind: str = ""
    concurrent: tuple[OpenTable, ...] = ()
    """Tables of other processes whose lines may come between the rows of this one."""
    begun: int | None = None
    """Number of processes that had begun at the last row, None before the first row."""
    mixed: bool = False
    last_start: int | None = None
    placed: TableHeader | None = None
    """The columns of a trace with their units."""
    plan: ParsePlan | None = None
    """How pyarrow reads the rows of a trace."""

    @property
    def style(self) -> Style:
        """The style of the table's numbers."""
        return COMMA if self.decimal == "," else POINT

    def trace(self, spec: TableSpec) -> TableHeader:
        """Return the columns of a trace. A text table has the unit of each cell in the cell."""
        if self.placed is None or self.units is None:
            columns = self.header.csv_columns
            self.placed = spec.placed(columns, self.units or ("",) * len(columns))
        return self.placed

    def parse_plan(self, spec: TableSpec) -> ParsePlan | None:
        """Return how pyarrow reads the rows of a trace, None for one that is read row by row."""
        if self.units is None:
            return None
        if self.plan is None or self.plan.style is not self.style:
            self.plan = parse_plan(self.trace(spec), self.header.delimiter, self.style)
        return self.plan

    def unit(self, column: str) -> str:
        """Return the unit of the column, "" if the table names none."""
        place = self.header.place_of.get(column)
        return "" if self.units is None or place is None else self.units[place]

    def matches_concurrent(self) -> bool:
        """Return whether a row means the same in this table and in the tables that may be mixed into it."""
        return all(
            self.header.columns == other.header.columns and self.units == other.units
            for other in self.concurrent
            if len(other.header.columns) == len(self.header.columns)
        )

    def awaits_rows_of(self, header: NvprofHeader) -> bool:
        """Return whether a table with this header may be mistaken for this one: neither has units or rows yet."""
        return self.units is None and self.begun is None and self.header.columns == header.columns

    def mix(self) -> None:
        """Mark the rows from here on as mixed with those of a concurrent table: their process is unknown."""
        self.mixed, self.pid = True, None

    def may_continue_beside(self, pid: int | None, processes: list[int]) -> bool:
        """Return whether the table may continue after the process `pid` began: it had no row, or a row since then."""
        return self.begun is None or pid in processes[: self.begun]


class NvprofState:
    """The state of the whole input: facts, devices, ids, names, rows for the next batch."""

    def __init__(self, path: str, options: ReadOptions, ledger: Ledger, reader: str) -> None:
        self.path, self.source, self.ledger = path, options.source, ledger
        self.decimal = options.value(DECIMAL)
        """The decimal separator of CSV that the user named, "" where the tables decide."""
        self.decimal_of_rows: Callable[[str, int], str] = lambda _delimiter, _width: ""
        """Finds the decimal separator of all rows of so many cells."""
        self._settled: dict[tuple[str, int], str] = {}
        self.facts: dict[str, object] = {"tool": "nvprof"}
        self.run = Run(sources=[SourceFacts(path, reader, facts=self.facts)])
        self.streams = IdTable(self.run, "stream", self.source)
        self.contexts = IdTable(self.run, "context", self.source)
        self.correlations = IdTable(self.run, "correlation", self.source)
        self.names = Demangler(ledger, enabled=options.demangle)
        self.events = RowBuilder("events")
        self.totals = RowBuilder("totals")
        self.order = 0
        self._made_up_devices = IdTable(self.run, "device", self.source, first=FIRST_MADE_UP_DEVICE)
        self._devices: dict[str, int] = {}
        self.trace = trace_table(self.device, self.context, self.stream, self.correlation)
        self._runs: list[dict[str, object]] = []
        self._run_count = 0
        self._warnings: list[str] = []

    def settled(self, delimiter: str, width: int) -> str:
        """Return the decimal separator that the file's rows of so many cells show. Raises: ParseError if none does."""
        key = delimiter, width
        if key not in self._settled:
            self._settled[key] = self.decimal_of_rows(delimiter, width)
        return self._settled[key]

    def add_run(self, pid: int | None, command: str | None) -> ProfiledRun:
        """Begin a run of the file and keep its facts."""
        facts: dict[str, object] = {"run": self._run_count}
        if pid is not None:
            facts["pid"] = pid
        if command is not None:
            facts["command"] = command
            self.facts.setdefault("command", command)
        if pid is not None:
            self.facts.setdefault("pid", pid)
            if command:
                self.run.processes[(self.source, pid)] = command
        if len(self._runs) < MAX_RUNS:
            self._runs.append(facts)
            self.facts["runs"] = self._runs
        self._run_count += 1
        return ProfiledRun(self._run_count - 1, pid, facts)

    def warn(self, text: str) -> None:
        """Make a note of a warning or an error of nvprof itself. Those beyond the maximum share one note."""
        self.facts["warnings"] = known = self._warnings
        warning = text.removeprefix("Warning:").strip()
        if warning not in known and len(known) < MAX_WARNINGS:
            known.append(warning)
        number = known.index(warning) if warning in known else MAX_WARNINGS
        error = warning.removeprefix("Error:").strip()
        self.ledger.note(
            f"nvprof-warning-{number + 1}" if number else "nvprof-warning",
            f"nvprof itself warns: {warning}" if error == warning else f"nvprof itself reports an error: {error}",
        )

    def read_optional(self, read: Callable[[], T], column: str, number: int = 0) -> T | None:
        """Return a cell that a row can do without, None for one that cannot be read. number: of its line."""
        try:
            return read()
        except RowError as err:
            text = f"a cell that cannot be read is not known, and its row is kept ({column}: {err.text})"
            self.ledger.note("odd-cell", text, where=f"line {number}" if number else "")
            return None

    def note_precision(self, cells: dict[str, str], number: int) -> None:
        """Note how exact the times in a row of a text table are."""
        if "rounded-text" not in self.ledger.notes:
            self.ledger.note("rounded-text", ROUNDED, where=f"line {number}")
        if any("e+" in (cell := cells.get(column, "")) and _COARSE.fullmatch(cell) for column in TIMES):
            self.ledger.note("coarse-times", COARSE, where=f"line {number}")

    def device(self, cell: str) -> int | None:
        """Return the number of a device cell, `GeForce GTX 950 (0)`; None for an empty cell.

        A name without a number gets one from 100 on, with a note.
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
                number = self._made_up_devices.number(cell)
                self.ledger.note(
                    "device-number-missing",
                    "the table cuts the names of devices before their number: devices are numbered from 100, and two "
                    "devices of the same name count as one",
                    where=cell,
                )
            self._devices[cell] = number
            if name:
                self.run.devices.setdefault((self.source, number), name)
        return number

    def stream(self, cell: str) -> int | None:
        """Return the number of a stream. A stream that is text gets a made-up number, and Run.ids keeps its text."""
        return _number_of_id(self.streams, cell)

    def context(self, cell: str) -> int | None:
        """Return the number of a context, as `stream` does."""
        return _number_of_id(self.contexts, cell)

    def correlation(self, cell: str) -> int | None:
        """Return a correlation id, as `stream` does. Run.ids keeps the text of one beyond int64."""
        return _number_of_id(self.correlations, cell)

    def take(self) -> list[pa.RecordBatch]:
        """Return the waiting rows as batches, and count them."""
        out = []
        if len(self.totals):
            self.ledger.totals_out += len(self.totals)
            out.append(self.totals.take())
        if len(self.events):
            self.ledger.events_out += len(self.events)
            out.append(self.events.take())
        return out


def _number_of_id(table: IdTable, cell: str) -> int | None:
    if not cell:
        return None
    return table.number(int(cell) if len(cell) < 40 and _INTEGER.match(cell) else cell)


def is_unordered(ts: I64, last: int | None) -> bool:
    """Return whether starts are not in order. Those of one table are. last: start of the row before."""
    return bool((ts[1:] < ts[:-1]).any()) or (last is not None and int(ts[0]) < last)

"""Events and totals from the cells of `nsys stats` reports."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from tracekit.errors import Option, Sentence, sentence
from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import BATCH_ROWS, RowBuilder
from tracekit.readers.names import Demangler
from tracekit.readers.nsys._tables import HOST_CALL, Header, adds_up, event, number_columns, total
from tracekit.readers.printed.cells import RowError
from tracekit.readers.printed.numbers import COMMA, DECIMAL, POINT, Style, choose, styles_of
from tracekit.readers.sqlite.cupti import call_kind
from tracekit.schema import Kind
from tracekit.trace import Ledger, Run

_ROWS_AT_ONCE = 1 << 12
"""Rows of a table that are held until the style of its numbers is chosen."""


_MIXED = (
    "tables of several processes are mixed line by line: their names show which rows are calls and kernels "
    "(mpirun --tag-output keeps the ranks apart)"
)

_KERNEL = re.compile(r"^void |[<(]|::")
_SECTIONS = (
    (("Num Calls", "Calls"), ("kern", "mem", "nvtx", "gpu")),
    (("Operation", "Operations"), ("api", "osrt", "kern", "nvtx")),
    (("Instances",), ("api", "osrt", "mem")),
)
"""Columns of tables, and words that the name of a report with such columns does not have."""


def section_of(header: Header, named: str) -> str:
    """Return the section of a table below a line that names a report; another process may have printed that line."""
    for columns, words in _SECTIONS:
        if not set(columns).isdisjoint(header.columns):
            return header.report if any(word in named for word in words) else named or header.report
    return named or header.report


def other_table(header: Header, section: str, name: str) -> tuple[str, Kind] | None:
    """Return section and kind of a row that is not of its table: a call among kernels, or a kernel among calls."""
    if header.form != "sum" or {"Range", "Operation"} & set(header.columns):
        return None
    is_call = bool(HOST_CALL.match(name)) and "(" not in name
    if "Instances" in header.columns and is_call:
        return "cuda_api_sum", call_kind(name)
    of_calls = not {"Num Calls", "Calls"}.isdisjoint(header.columns) and "api" in section
    return ("cuda_gpu_kern_sum", Kind.KERNEL) if of_calls and _KERNEL.search(name) else None


@dataclass(slots=True)
class _Table:
    """Rows of one table: number of the line, cells by column, and whether the input ends within the row."""

    header: Header
    section: str
    rank: int | None
    rows: list[tuple[int, dict[str, str], bool]]


class Rows:
    """The events and totals of one file, and its ledger."""

    def __init__(self, run: Run, options: ReadOptions, ledger: Ledger) -> None:
        self.ledger = ledger
        self.events, self.totals = RowBuilder(), RowBuilder("totals")
        self._run, self._source = run, options.source
        self._names = Demangler(ledger, enabled=options.demangle)
        self._decimal = options.value(DECIMAL)
        self._style: Style | None = None
        """The style of the file's tables so far."""
        self._open: dict[int | None, _Table] = {}
        """The open table of each rank."""
        self._waiting: list[_Table] = []
        """Tables whose numbers may mean either of two."""

    def take(self, *, everything: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches if there are enough for one, or all that are left."""
        for rows in (self.totals, self.events):
            if len(rows) >= (1 if everything else BATCH_ROWS):
                yield rows.take()

    def close(self) -> None:
        """End the child process of the demangler."""
        self._names.close()

    def row(
        self,
        header: Header,
        section: str,
        cells: list[str],
        number: int,
        *,
        torn: bool,
        quoted: bool,
        rank: int | None = None,
    ) -> None:
        """Take the cells of a row. torn: the input ends within it. quoted: a quote closes its last cell."""
        ledger, where = self.ledger, f"line {number}"
        if len(cells) != len(header.columns):
            if torn:
                ledger.drop("torn-row", where=where, text="dropped: the last line is cut")
            else:
                reason = f"{len(cells)} cells instead of {len(header.columns)}"
                ledger.drop("bad-row", where=where, text=f"dropped: a row that cannot be read ({reason})")
            return
        if torn and not quoted:
            ledger.note("no-line-end", "the last line has no line end: its last cell may be cut", where=where)
        by_column = dict(zip(header.columns, (cell.strip() for cell in cells), strict=True))
        if "Orig Start" in by_column and not by_column["Start"]:
            ledger.ignore("range without work of a device")
            return
        table = self._open.get(rank)
        if table is None or table.header is not header or len(table.rows) >= _ROWS_AT_ONCE:
            self._close_table(rank)
            table = self._open[rank] = _Table(header, section, rank, [])
        table.rows.append((number, by_column, torn))

    def finish(self) -> None:
        """Read the rows that wait for their table's end, or for another table to show the locale of the file."""
        for rank in list(self._open):
            self._close_table(rank)
        for table in self._waiting:
            text = _ambiguous(table)
            for number, _, _ in table.rows:
                self.ledger.drop("ambiguous-number", where=f"line {number}", text=f"dropped: {text}")
        self._waiting = []

    def _close_table(self, rank: int | None) -> None:
        """Read the rows of a rank's open table, or let them wait while its numbers may mean either of two."""
        table = self._open.pop(rank, None)
        if table is None:
            return
        numbers = number_columns(table.header)
        cells = [(row[c], whole) for _, row, _ in table.rows for c, whole in numbers.items() if row[c]]
        styles = styles_of(cells, self._decimal)
        by_column = [row for _, row, _ in table.rows]
        style = (
            choose(
                styles, lambda style: adds_up(table.header, by_column, style), (text for text, _ in cells), self._style
            )
            if styles
            else POINT
        )
        if style is None:
            self._waiting.append(table)
            return
        if len(styles) == 1:
            self._style = style
            for waiting in self._waiting:
                self._read(waiting, style)
            self._waiting = []
        self._read(table, style)

    def _read(self, table: _Table, style: Style) -> None:
        for number, cells, torn in table.rows:
            try:
                if table.header.form == "trace":
                    self._event(table, cells, number, style)
                else:
                    self._total(table, cells, number, style)
            except RowError as err:
                code, reason = (
                    ("torn-row", "the last line is cut") if torn else ("bad-row", f"a row that cannot be read ({err})")
                )
                self.ledger.drop(code, where=f"line {number}", text=f"dropped: {reason}")

    def _event(self, table: _Table, cells: dict[str, str], number: int, style: Style) -> None:
        row = event(table.header, cells, style)
        source, columns = self._source, row.columns
        if row.name and columns.get("raw_name") is None:
            row.name, columns["raw_name"] = self._names.one(row.name)
        self.events.add(**columns, name=row.name, event_id=number, source=source, rank=table.rank)
        self.ledger.kept += 1
        self.ledger.events_out += 1
        device, pid, tid = (columns.get(key) for key in ("device", "pid", "tid"))
        if row.device_name and isinstance(device, int):
            self._run.devices.setdefault((source, device), row.device_name)
        if row.thread_name and isinstance(pid, int) and isinstance(tid, int):
            self._run.threads.setdefault((source, pid, tid), row.thread_name)
        if row.rounded:
            self._note_rounded(number)
        self._note_odd(row.odd, number)

    def _total(self, table: _Table, cells: dict[str, str], number: int, style: Style) -> None:
        name, columns, odd = total(table.header, cells, style)
        section = table.section
        if (other := other_table(table.header, section, name or "")) is not None:
            section, columns["kind"] = other
            self.ledger.note("tables-mixed", _MIXED)
        if name:
            if name.endswith("…"):
                self.ledger.note("names-cut", "names that end in … were cut in print: several may look the same")
            name, columns["raw_name"] = self._names.one(name)
        order = self.ledger.totals_out
        self.totals.add(**columns, name=name, source=self._source, run=0, section=section, order=order, rank=table.rank)
        self.ledger.kept += 1
        self.ledger.totals_out += 1
        if table.header.form == "sizes":
            self._note_rounded(0)
        self._note_odd(odd, number)

    def _note_odd(self, odd: list[str], number: int) -> None:
        """Note cells that cannot be read. Their row is kept."""
        for reason in odd:
            text = f"a cell that cannot be read is not known, and its row is kept ({reason})"
            self.ledger.note("odd-cell", text, where=f"line {number}")

    def _note_rounded(self, number: int) -> None:
        text = "sizes are printed in large units with few decimals: they are as exact as printed"
        self.ledger.note("sizes-rounded", text, where=f"line {number}" if number else "")


def _ambiguous(table: _Table) -> Sentence:
    """Return the sentence for a table whose numbers may mean either of two, with one of them."""
    columns = number_columns(table.header)
    texts = (row[column] for _, row, _ in table.rows for column in columns)
    text = next(t for t in texts if "," in t)
    both = f"{text[:30]} is {COMMA.plain(text)} or {POINT.plain(text)}"
    return sentence(
        f"the commas of a table may be decimal or divide thousands: {both} (",
        Option("option", f"{DECIMAL.key}=,"),
        f" or {DECIMAL.key}=. decides)",
    )

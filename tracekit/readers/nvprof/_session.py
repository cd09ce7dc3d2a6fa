"""The lines of nvprof's output one by one: the table and the process of a row, and the meaning of other lines.

A record is a line. It is counted once: kept (it became rows), facts, ignored by class, or dropped with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import orjson
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.model import arrow, schema
from tracekit.model.arrow import Column, pc
from tracekit.model.schema import Kind
from tracekit.readers.builder import Values, event_batch
from tracekit.readers.engine.blocks import ColumnBlock
from tracekit.readers.engine.cells import RowError
from tracekit.readers.engine.rows import read_row
from tracekit.readers.nvprof import _lines as lines
from tracekit.readers.nvprof._cells import (
    after_carriage_returns,
    begins_row,
    csv_cells,
    decimal_of,
    drop_reason,
    is_complete,
    is_row_with_prefix,
    read_units,
    text_cells,
    with_rejoined_name,
)
from tracekit.readers.nvprof._lines import NARROW, NvprofHeader, Table
from tracekit.readers.nvprof._state import (
    MIXED,
    MIXED_TOTALS,
    UNLIKE_UNITS,
    NvprofState,
    OpenTable,
    ProfiledRun,
    is_unordered,
)
from tracekit.readers.nvprof._totals import GPU, total_rows

OTHER_TABLE = (
    "tables of nvprof that hold no calls, copies or counters (CPU samples, device clocks, critical path) were not read"
)
_SMALLEST_BLOCK = 16


class NvprofSession:
    """The lines of one writer: of the whole file, or of one rank if each line names its rank."""

    def __init__(self, state: NvprofState, rank: int | None = None) -> None:
        self.state, self.ledger, self.rank = state, state.ledger, rank
        self.table: OpenTable | None = None
        self.run: ProfiledRun | None = None
        self.runs: dict[int | None, ProfiledRun] = {}
        self.processes: list[int] = []
        self.awaiting: list[ProfiledRun] = []
        self.section = GPU
        self.nvtx: dict[str, str] = {}
        self.device = ""
        self.in_unread_table = False
        self.traces: list[OpenTable] = []
        self.tables = 0
        self.unknown_table: int | None = None
        """Line of the first output below `Profiling result:` that is not a table which is read."""
        self.profiled_nothing = False
        """Whether a message of nvprof says that it profiled nothing."""

    # Blocks of rows

    def block(self, data: bytes, line: int) -> list[pa.RecordBatch] | None:
        """Read whole lines at once; None when not all of them are rows of the open table."""
        table = self.table
        if table is None or table.header.table is not Table.TRACE or table.header.is_text:
            return None
        if table.units is None or self.in_unread_table:
            return None
        self._settle(table, data[:4096].decode("utf-8", "replace"))
        plan = table.parse_plan(self.state.trace)
        block = None if plan is None else ColumnBlock.read(table.trace(self.state.trace), plan, data)
        if block is None or not block.convert(self.state.names) or self._may_be_output(table, block, data):
            return None
        table.decimal = table.decimal or "."
        starts, count = arrow.ints(cast("Column", block.columns["ts_ns"])), block.count
        if table.concurrent:
            if not table.mixed and is_unordered(starts, table.last_start):
                table.mix()
            if table.mixed and not table.matches_concurrent():
                return None
        if table.mixed:
            self.ledger.note("rows-mixed", MIXED, count, where=f"line {line}")
        self.ledger.read += count
        self.ledger.kept += count
        self.ledger.events_out += count
        table.last_start, table.begun = int(starts[-1]), len(self.processes)
        own: dict[str, Values] = {
            "event_id": np.arange(line, line + count),
            "source": self.state.source,
            "pid": table.pid,
        }
        return [*self.state.take(), event_batch(count, block.columns | own)]

    def _may_be_output(self, table: OpenTable, block: ColumnBlock, data: bytes) -> bool:
        """Return whether output of the program, `1,2.30,loss`, may be among the rows of a table with few columns."""
        if not table.header.quoted or len(table.header.columns) >= NARROW or data.count(b'"') == 2 * block.count:
            return False
        return bool(pc.any(pc.equal(cast("Column", block.columns["kind"]).cast(pa.string()), str(Kind.OTHER))).as_py())

    def rows(self, data: list[bytes], line: int) -> Iterator[pa.RecordBatch]:
        """Read lines that look like rows, in blocks. A block that holds another line is halved until it is small."""
        table = self.table
        if len(data) >= _SMALLEST_BLOCK:
            batches = self.block(b"\n".join(data) + b"\n", line)
            if batches is not None:
                yield from batches
                return
            if table is not None and table.plan is not None and (not table.mixed or table.matches_concurrent()):
                yield from self.state.take()
                half = len(data) // 2
                parts = [*self.rows(data[:half], line), *self.rows(data[half:], line + half), *self.state.take()]
                yield from _in_one(parts)
                return
        for index, text in enumerate(data):
            self.line(text.decode("utf-8", "replace"), line + index)

    # One line

    def line(self, text: str, number: int, *, torn: bool = False) -> None:
        """Read one line, without its line end. torn: the input ends within it."""
        self.ledger.read += 1
        text = lines.plain(text.strip("\0").rstrip("\r"), self.table.header if self.table else None)
        if lines.is_blank(text):
            self.ledger.ignore("blank")
        elif "== " in text and self.table is not None and is_row_with_prefix(text, self.table.header):
            self._in_table(text, number, torn)
        elif (prefix := lines.PREFIX.match(text)) is not None:
            self._own_line(prefix[1], (prefix[2] or "").rstrip(' \r,;\t"'))
            self.ledger.ignore("preamble")
        elif "== " in text and (middle := lines.MID_PREFIX.search(text)) is not None:
            if self.table is not None and begins_row(text[: middle.start()], self.table.header):
                self._drop("broken-row", number, "a line of another process is in the middle of the row")
            else:
                self.ledger.ignore("application-output")
            self._own_line(middle[1], middle[2].rstrip(' \r,;\t"'))
        elif (header := lines.find_late_header(text) or lines.find_header(text)) is not None:
            self._open_table(header, number)
            self.ledger.ignore("header")
        elif self.in_unread_table:
            self.ledger.ignore("other-table")
        else:
            self._in_table(after_carriage_returns(text, self.table), number, torn)

    def _in_table(self, text: str, number: int, torn: bool) -> None:
        if self.table is None and lines.HEADLESS.match(text):
            self.ledger.note("no-header", lines.NO_HEADER, where=f"line {number}")
            self._open_table(lines.SUMMARY, number)
        table = self.table
        if self.run is not None and (group := lines.BARE_SECTION.match(text)) is not None:
            self._begin_group(group[1])
            self.ledger.ignore("group")
        elif table is not None and read_units(text, table, torn=torn):
            self.ledger.ignore("unit-row")
        elif table is None or not self._row(table, text, number, torn):
            self._line_between_rows(text, number)

    def _line_between_rows(self, text: str, number: int) -> None:
        """Read a line that is not a row."""
        faults = lines.PAGE_FAULTS.match(text)
        table = self.table
        if faults is not None and self.run is not None:
            self.run.facts[faults[1].lower().replace(" ", "_")] = int(faults[2])
            self.ledger.facts += 1
        elif lines.MESSAGE.match(text):
            if text.startswith("No ") and self.awaiting:
                self.awaiting.pop()
            self.profiled_nothing = self.profiled_nothing or text.startswith("No ")
            self.ledger.ignore("message")
        elif lines.LEGEND.match(text):
            self.ledger.ignore("legend")
        elif (device := lines.DEVICE_LINE.match(text)) is not None:
            self.device = device[1]
            if table is not None:
                table.device, table.kernel = device[1], (device[2] or "").strip()
            self.ledger.ignore("group")
        elif table is not None and table.header.is_text and (kernel := lines.KERNEL_LINE.match(text)) is not None:
            table.kernel = kernel[1].strip()
            self.ledger.ignore("group")
        else:
            self.ledger.ignore("application-output")
            if self.awaiting and table is None and self.unknown_table is None:
                self.unknown_table = number

    def _own_line(self, pid_text: str | None, rest: str) -> None:
        """Read a line of nvprof itself. rest: the text behind `==PID== `."""
        pid = int(pid_text) if pid_text and len(pid_text) < 19 else None
        self.in_unread_table = False
        started = lines.STARTED.match(rest)
        if started is not None:
            pid = int(started[2]) if len(started[2]) < 19 else None
            self.state.facts["tool"] = started[1].lower()
            self._begin(pid, started[3])
            # A new program begins: tables that the results before announced and that are still missing will not come.
            self.awaiting.clear()
        elif rest.startswith("Profiling application:"):
            self.state.facts.setdefault("command", rest.partition(":")[2].strip())
        elif rest.startswith("Profiling result"):
            run = self.runs.get(pid)
            if run is None or run.has_result:
                run = self._begin(pid, None)
            run.has_result = True
            self.run, self.section, self.nvtx = run, GPU, {}
            self.awaiting.append(run)
        elif section := lines.SECTION.match(rest):
            self._begin_section(pid, section[1])
        elif rest.startswith(("Metric result", "Event result", "Unified Memory profiling result")):
            self._begin_section(pid, rest.split(":")[0])
        elif rest.startswith(("NVTX result", "Trace result")):
            self._begin_section(pid, GPU)
        elif part := lines.NVTX_PART.match(rest):
            self.nvtx = {**self.nvtx, part[1].lower(): part[2]}
            if part[3]:
                self.nvtx["thread_id"] = part[3]
        elif lines.UNREAD.match(rest):
            self.in_unread_table = True
            self.ledger.note("tables-not-read", OTHER_TABLE)
        elif rest.startswith("Generated result file:"):
            self.state.facts.setdefault("result_file", rest.partition(":")[2].strip())
        elif rest.startswith(("Warning:", "Error:", "Internal profiling error")):
            self.state.warn(rest)

    def _begin(self, pid: int | None, command: str | None) -> ProfiledRun:
        run = self.state.add_run(pid, command)
        self.runs[pid] = run
        if pid is not None:
            self.processes.append(pid)
        if self.run is None:
            self.run = run
        return run

    def _begin_section(self, pid: int | None, section: str) -> None:
        self.run = self.runs.get(pid) or self._begin(pid, None)
        self.section, self.nvtx, self.device = section, {}, ""
        if self.awaiting:
            self.awaiting = [self.run, *(r for r in self.awaiting if r is not self.run)]

    def _begin_group(self, section: str) -> None:
        """Put the rows below, of the open summary or under a header of their own, into a section of the same run."""
        self.section, self.nvtx = section, {}
        if self.table is not None and self.table.header.table is Table.SUMMARY:
            self.table.section, self.table.kind, self.table.nvtx = section, "", {}

    # Tables

    def _open_table(self, header: NvprofHeader, number: int) -> None:
        """Begin a table. Raises: ParseError when a trace lacks a column that every row needs."""
        self.in_unread_table = False
        if header.table is Table.TRACE:
            lacking = [c for c in ("Start", "Duration", "Name") if c not in header.columns]
            if lacking and self.ledger.kept:
                self.in_unread_table = True
                self.ledger.note("tables-not-read", f"a table without the column {lacking[0]} was not read")
                return
            if lacking:
                raise ParseError(
                    self.state.path,
                    f"line {number}",
                    f"the header of the trace has no column {lacking[0]!r}",
                    hint="export the trace again with all its columns: nvprof --csv --print-gpu-trace",
                )
        unclear = len({r.pid for r in self.awaiting}) > 1
        run = self.awaiting.pop(0) if self.awaiting else self.run
        run = run or self._begin(None, None)
        table = OpenTable(header, run, self.section, number, run.pid, dict(self.nvtx), device=self.device)
        table.decimal = "" if header.is_text else self.state.decimal
        if header.table is Table.TRACE:
            table.concurrent = tuple(
                t for t in self.traces if t.run.pid != run.pid and t.may_continue_beside(run.pid, self.processes)
            )
            self.traces = [*[t for t in self.traces if t.run.pid != run.pid][-7:], table]
        elif (last := self.table) is not None and last.run.pid != run.pid and last.awaits_rows_of(header):
            table.concurrent = (last, *last.concurrent)
        if unclear:
            table.mix()
        if self.run is None:
            self.run = run
        self.table = table

    def _settle(self, table: OpenTable, text: str) -> None:
        """Find the decimal separator of a table whose cells have another delimiter than commas."""
        if not table.decimal and (delimiter := table.header.delimiter) != ",":
            table.decimal, doubtful = decimal_of(text, delimiter)
            if doubtful:
                table.decimal = self.state.settled(delimiter, len(table.header.columns))

    def _row(self, table: OpenTable, text: str, number: int, torn: bool) -> bool:
        """Read a line as a row of the open table or of a concurrent one; False when it does not look like a row."""
        if table.header.is_text:
            text = text.replace("\t", " " * 8)
            cells, whole = text_cells(text, table.header), not torn
        else:
            table, values, closed = self._table_and_cells(table, text)
            whole = closed or not torn
            if values is not None:
                self._settle(table, text)
            cells = csv_cells(values, text, table) if values is not None else None
        if cells is None:
            if (reason := drop_reason(text, table.header, torn=torn)) is not None:
                self._drop(reason[0], number, reason[1])
            return reason is not None
        if not whole and not self._without_last_cell(cells, table, number):
            return True
        try:
            self._add_row(cells, table, number)
        except RowError as err:
            if err.code == "no-unit" and not self.ledger.kept and table.units is None:
                raise ParseError(
                    self.state.path,
                    f"line {number}",
                    f"a row of units was expected under the header, but {err.text}",
                    hint="nvprof writes it in the line below the header (ms,us,,,...): was it removed?",
                ) from None
            self._drop(err.code, number, err.text)
        return True

    def _table_and_cells(self, table: OpenTable, text: str) -> tuple[OpenTable, list[str] | None, bool]:
        """Return the table of a CSV line (this or a concurrent one), its cells, and whether a quote closes the last."""
        values, closed = lines.split_cells(text.strip(" "), table.header.delimiter)
        if table.units is None and (waiting := [t for t in table.concurrent if t.units is not None]):
            # Rows of another process stand between the header and the row of units: the two tables are mixed.
            table.mix()
            table = waiting[-1]
        width = len(table.header.columns)
        while len(values) > width and not values[-1].strip():
            values.pop()
        if len(values) != width:
            for other in table.concurrent:
                if len(values) == len(other.header.columns):
                    return other, values, closed
        return table, with_rejoined_name(values, table.header), closed

    def _without_last_cell(self, cells: dict[str, str], table: OpenTable, number: int) -> bool:
        """Empty the last cell of a line without line end, which may be cut; False when the row cannot be kept."""
        last = table.header.columns[-1]
        if table.header.table is Table.TRACE and last == "Name" and not (table.header.is_text and is_complete(cells)):
            self._drop("torn-row", number, "the last line is cut")
            return False
        if last in ("Name", "") and table.header.quoted:
            self._drop("torn-row", number, "the last line is cut")
            return False
        if last != "Name":
            cells[last] = ""
        self.ledger.note(
            "unfinished-line",
            f"the last line has no end: its {last or 'name'} may be cut"
            + ("" if last == "Name" else " and counts as empty"),
            where=f"line {number}",
        )
        return True

    def _add_row(self, cells: dict[str, str], table: OpenTable, number: int) -> None:
        state = self.state
        if table.header.is_text:
            state.note_precision(cells, number)
        if table.header.table is not Table.TRACE:
            if table.mixed and not table.matches_concurrent():
                raise RowError(UNLIKE_UNITS, "mixed-rows")
            table.begun = len(self.processes)
            rows = total_rows(cells, table, state)
            for row in rows:
                state.totals.add(rank=self.rank, **row)
            if table.mixed or any(run is not table.run for run in self.awaiting):
                self.ledger.note("totals-mixed", MIXED_TOTALS, len(rows), where=f"line {number}")
            self.ledger.kept += 1
            return
        read = read_row(table.trace(state.trace), cells, table.style)
        for text in read.odd:
            self.ledger.note("odd-cell", text, where=f"line {number}")
        row = read.columns
        start = cast("int", row["ts_ns"])
        if table.concurrent:
            if not table.mixed and table.last_start is not None and start < table.last_start:
                table.mix()
            if table.mixed and not table.matches_concurrent():
                raise RowError(UNLIKE_UNITS, "mixed-rows")
        if table.mixed:
            self.ledger.note("rows-mixed", MIXED, where=f"line {number}")
        table.last_start, table.begun = start, len(self.processes)
        if row["name"]:
            row["name"], row["raw_name"] = state.names.one(str(row["name"]))
        args = orjson.dumps(read.args).decode() if read.args else None
        state.events.add(event_id=number, source=state.source, rank=self.rank, pid=table.pid, args=args, **row)
        self.ledger.kept += 1

    def _drop(self, code: str, number: int, text: str) -> None:
        self.ledger.drop(code, where=f"line {number}", text=f"dropped: {text}")


def _in_one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Return the events of batches as one: `printed/starts.py` holds the rows of one batch against each other."""
    events = [batch for batch in batches if not schema.is_totals(batch)]
    if len(events) < 2:
        return batches
    rows = pa.Table.from_batches(events).unify_dictionaries().combine_chunks()
    return [*(batch for batch in batches if schema.is_totals(batch)), *rows.to_batches()]

"""The lines of nvprof's output one after the other: which table a row belongs to, whose it is, what else a line is.

A record is a line. Its fate is counted once: kept (became rows), facts, ignored by class, or dropped with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.readers.nvprof import _lines as lines
from tracekit.readers.nvprof._block import read_block
from tracekit.readers.nvprof._cells import (
    after_returns,
    begins_row,
    csv_cells,
    decimal_of,
    ends_whole,
    fitted,
    holds_prefix,
    takes_units,
    text_cells,
    why_no_row,
)
from tracekit.readers.nvprof._lines import Header, Table
from tracekit.readers.nvprof._row import trace_row
from tracekit.readers.nvprof._state import MIXED, MIXED_TOTALS, UNLIKE, OpenTable, ProfiledRun, RowError, State, falls
from tracekit.readers.nvprof._totals import GPU, total_rows

OTHER_TABLE = (
    "tables of nvprof that hold no calls, copies or counters (CPU samples, device clocks, critical path) were not read"
)
_SMALLEST_BLOCK = 16


class Session:
    """The lines of one writer: the whole file, or the lines of one rank where each line names its rank."""

    def __init__(self, state: State, rank: int | None = None) -> None:
        self.state, self.ledger, self.rank = state, state.ledger, rank
        self.table: OpenTable | None = None
        self.run: ProfiledRun | None = None
        self.runs: dict[int | None, ProfiledRun] = {}
        self.announced: list[int] = []
        self.awaiting: list[ProfiledRun] = []
        self.section = GPU
        self.nvtx: dict[str, str] = {}
        self.device = ""
        self.unread = False
        self.traces: list[OpenTable] = []
        self.tables = 0
        self.strange: int | None = None
        """Line of the first output below `Profiling result:` where no table had come yet."""
        self.nothing = False
        """Whether nvprof said that it had profiled nothing."""

    # Blocks of rows

    def block(self, data: bytes, line: int) -> list[pa.RecordBatch] | None:
        """Read whole lines at once; None when they are not all rows of the open table."""
        table = self.table
        if table is None or table.header.table is not Table.TRACE or table.header.is_text:
            return None
        if table.units is None or self.unread:
            return None
        if not table.decimal and table.header.delimiter != ",":
            table.decimal = decimal_of(data[:4096].decode("utf-8", "replace"), table.header.delimiter)
        read = read_block(data, line, table, self.state)
        if read is None:
            return None
        table.decimal = table.decimal or "."
        if table.rivals:
            if not table.mixed and falls(read[0], table.last_start):
                table.mix()
                read = read_block(data, line, table, self.state) or read
            if table.mixed and not table.rivals_alike():
                return None
        batch, exact = read
        count = batch.num_rows
        if table.mixed and count:
            self.ledger.note("rows-mixed", MIXED, count, where=f"line {line}")
        self.ledger.read += count
        self.ledger.kept += count
        self.ledger.events_out += count
        if count:
            table.last_start = int(batch.column("ts_ns")[-1].as_py())
        table.announced = len(self.announced)
        out = [*self.state.take(), batch]
        if exact:
            rows = data.split(b"\n")
            for index in exact:
                self.line(rows[index].decode("utf-8", "replace"), line + index)
            out += self.state.take()
        return out

    def rows(self, data: list[bytes], line: int) -> Iterator[pa.RecordBatch]:
        """Read lines that look like rows: in blocks where they are, halved around those that are not."""
        if len(data) >= _SMALLEST_BLOCK:
            batches = self.block(b"\n".join(data) + b"\n", line)
            if batches is not None:
                yield from batches
                return
            table = self.table
            if table is not None and table.plan is not None and (not table.mixed or table.rivals_alike()):
                half = len(data) // 2
                yield from self.rows(data[:half], line)
                yield from self.rows(data[half:], line + half)
                return
        for index, text in enumerate(data):
            self.line(text.decode("utf-8", "replace"), line + index)

    # One line

    def line(self, text: str, number: int, *, torn: bool = False) -> None:
        """Take one line, without its end. torn: the input ends in it."""
        self.ledger.read += 1
        text = lines.plain(text.strip("\0").rstrip("\r"), self.table.header if self.table else None)
        if lines.is_blank(text):
            self.ledger.ignore("blank")
        elif "== " in text and self.table is not None and holds_prefix(text, self.table.header):
            self._in_table(text, number, torn)
        elif (prefix := lines.PREFIX.match(text)) is not None:
            self._prefixed(prefix[1], (prefix[2] or "").rstrip(' \r,;\t"'))
            self.ledger.ignore("preamble")
        elif "== " in text and (middle := lines.MID_PREFIX.search(text)) is not None:
            if self.table is not None and begins_row(text[: middle.start()], self.table.header):
                self._drop("broken-row", number, "a line of another process stands in the middle of the row")
            else:
                self.ledger.ignore("application-output")
            self._prefixed(middle[1], middle[2].rstrip(' \r,;\t"'))
        elif (header := lines.find_late_header(text) or lines.find_header(text)) is not None:
            self._open(header, number)
            self.ledger.ignore("header")
        elif self.unread:
            self.ledger.ignore("other-table")
        else:
            self._in_table(after_returns(text, self.table), number, torn)

    def _in_table(self, text: str, number: int, torn: bool) -> None:
        if self.table is None and lines.HEADLESS.match(text):
            self.ledger.note("no-header", lines.NO_HEADER, where=f"line {number}")
            self._open(lines.SUMMARY, number)
        table = self.table
        if table is not None and takes_units(text, table, torn=torn):
            self.ledger.ignore("unit-row")
        elif table is None or not self._row(table, text, number, torn):
            self._between(text, number)

    def _between(self, text: str, number: int) -> None:
        """Count a line that is no row."""
        faults = lines.PAGE_FAULTS.match(text)
        table = self.table
        if faults is not None and self.run is not None:
            self.run.facts[faults[1].lower().replace(" ", "_")] = int(faults[2])
            self.ledger.facts += 1
        elif lines.MESSAGE.match(text):
            if text.startswith("No ") and self.awaiting:
                self.awaiting.pop()
            self.nothing = self.nothing or text.startswith("No ")
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
            if self.awaiting and table is None and self.strange is None:
                self.strange = number

    def _prefixed(self, pid_text: str | None, rest: str) -> None:
        """Take what stands behind `==PID== `."""
        pid = int(pid_text) if pid_text and len(pid_text) < 19 else None
        self.unread = False
        started = lines.STARTED.match(rest)
        if started is not None:
            pid = int(started[2]) if len(started[2]) < 19 else None
            self.state.facts["tool"] = started[1].lower()
            self._begin(pid, started[3])
            # A program that begins after the result of another: tables that have not come by now will not come.
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
            self._turn_to(pid, section[1])
        elif rest.startswith(("Metric result", "Event result", "Unified Memory profiling result")):
            self._turn_to(pid, rest.split(":")[0])
        elif rest.startswith(("NVTX result", "Trace result")):
            self._turn_to(pid, GPU)
        elif part := lines.NVTX_PART.match(rest):
            self.nvtx = {**self.nvtx, part[1].lower(): part[2]}
            if part[3]:
                self.nvtx["thread_id"] = part[3]
        elif lines.UNREAD.match(rest):
            self.unread = True
            self.ledger.note("tables-not-read", OTHER_TABLE)
        elif rest.startswith("Generated result file:"):
            self.state.facts.setdefault("result_file", rest.partition(":")[2].strip())
        elif rest.startswith(("Warning:", "Error:", "Internal profiling error")):
            self.state.warn(rest)

    def _begin(self, pid: int | None, command: str | None) -> ProfiledRun:
        run = self.state.add_run(pid, command)
        self.runs[pid] = run
        if pid is not None:
            self.announced.append(pid)
        if self.run is None:
            self.run = run
        return run

    def _turn_to(self, pid: int | None, section: str) -> None:
        self.run = self.runs.get(pid) or self._begin(pid, None)
        self.section, self.nvtx, self.device = section, {}, ""
        if self.awaiting:
            self.awaiting = [self.run, *(r for r in self.awaiting if r is not self.run)]

    # Tables

    def _open(self, header: Header, number: int) -> None:
        """Begin a table. Raises: ParseError when a trace lacks a column that no row can do without."""
        self.unread = False
        if header.table is Table.TRACE:
            lacking = [c for c in ("Start", "Duration", "Name") if c not in header.columns]
            if lacking and self.ledger.kept:
                self.unread = True
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
        if header.table is Table.TRACE:
            table.rivals = tuple(
                t for t in self.traces if t.run.pid != run.pid and t.may_go_on(run.pid, self.announced)
            )
            self.traces = [*[t for t in self.traces if t.run.pid != run.pid][-7:], table]
        elif (last := self.table) is not None and last.run.pid != run.pid and last.waits_as(header):
            table.rivals = (last, *last.rivals)
        if unclear:
            table.mix()
        if self.run is None:
            self.run = run
        self.table = table

    def _row(self, table: OpenTable, text: str, number: int, torn: bool) -> bool:
        """Take a line as a row of the open table, or of a rival; False when it does not look like a row."""
        if table.header.is_text:
            text = text.replace("\t", " " * 8)
            cells, whole = text_cells(text, table.header), not torn
        else:
            table, values, closed = self._fitting(table, text)
            whole = closed or not torn
            cells = csv_cells(values, text, table) if values is not None else None
        if cells is None:
            if (reason := why_no_row(text, table.header, torn=torn)) is not None:
                self._drop(reason[0], number, reason[1])
            return reason is not None
        if not whole and not self._mend(cells, table, number):
            return True
        try:
            self._keep(cells, table, number)
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

    def _fitting(self, table: OpenTable, text: str) -> tuple[OpenTable, list[str] | None, bool]:
        """Return the table, this or a rival, that a CSV line belongs to; its cells; and whether the last is closed."""
        values, closed = lines.split_cells(text.strip(" "), table.header.delimiter)
        if table.units is None and (waiting := [t for t in table.rivals if t.units is not None]):
            # Rows of another process between header and row of units: the two tables come mixed.
            table.mix()
            table = waiting[-1]
        width = len(table.header.columns)
        while len(values) > width and not values[-1].strip():
            values.pop()
        if len(values) != width:
            for rival in table.rivals:
                if len(values) == len(rival.header.columns):
                    return rival, values, closed
        return table, fitted(values, table.header), closed

    def _mend(self, cells: dict[str, str], table: OpenTable, number: int) -> bool:
        """Leave out the last cell of a line without end, which may be cut; False when the row cannot be kept."""
        last = table.header.columns[-1]
        if table.header.table is Table.TRACE and last == "Name" and not (table.header.is_text and ends_whole(cells)):
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
            + ("" if last == "Name" else " and was left out"),
            where=f"line {number}",
        )
        return True

    def _keep(self, cells: dict[str, str], table: OpenTable, number: int) -> None:
        state = self.state
        if table.header.is_text:
            state.tell_digits(cells, number)
        if table.header.table is not Table.TRACE:
            if table.mixed and not table.rivals_alike():
                raise RowError("mixed-rows", UNLIKE)
            table.announced = len(self.announced)
            rows = total_rows(cells, table, state)
            for row in rows:
                state.totals.add(rank=self.rank, **row)
            if table.mixed or any(run is not table.run for run in self.awaiting):
                self.ledger.note("totals-mixed", MIXED_TOTALS, len(rows), where=f"line {number}")
            self.ledger.kept += 1
            return
        row = trace_row(cells, table, state, number)
        if table.rivals:
            if not table.mixed and table.last_start is not None and row["ts_ns"] < table.last_start:
                table.mix()
            if table.mixed and not table.rivals_alike():
                raise RowError("mixed-rows", UNLIKE)
        if table.mixed:
            row["pid"] = None
            self.ledger.note("rows-mixed", MIXED, where=f"line {number}")
        table.last_start, table.announced = row["ts_ns"], len(self.announced)
        table.text_ids |= not all(cells.get(c, "").isdecimal() or not cells.get(c) for c in ("Context", "Stream"))
        state.events.add(rank=self.rank, **row)
        self.ledger.kept += 1

    def _drop(self, code: str, number: int, text: str) -> None:
        self.ledger.drop(code, where=f"line {number}", text=f"dropped: {text}")

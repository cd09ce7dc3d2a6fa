"""Events and totals from the cells of `nsys stats` reports."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import BATCH_ROWS, RowBuilder
from tracekit.readers.names import Demangler
from tracekit.readers.nsys._tables import Header, RowError, event, total
from tracekit.trace import Ledger, Run


class Rows:
    """The events and totals of one file, and its ledger."""

    def __init__(self, run: Run, options: ReadOptions, ledger: Ledger) -> None:
        self.ledger = ledger
        self.events, self.totals = RowBuilder(), RowBuilder("totals")
        self._run, self._source = run, options.source
        self._names = Demangler(ledger, enabled=options.demangle)

    def take(self, *, everything: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches if there are enough for one, or all that are left."""
        for rows in (self.totals, self.events):
            if len(rows) >= (1 if everything else BATCH_ROWS):
                yield rows.take()

    def close(self) -> None:
        """End the child process of the demangler."""
        self._names.close()

    def row(self, header: Header, section: str, cells: list[str], number: int, *, torn: bool, quoted: bool) -> None:
        """Read the cells of a row. torn: the input ends within it. quoted: a quote closes its last cell."""
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
        try:
            if header.form == "trace":
                self._event(header, by_column, number)
            else:
                self._total(header, section, by_column)
        except RowError as err:
            if torn:
                ledger.drop("torn-row", where=where, text="dropped: the last line is cut")
            else:
                ledger.drop("bad-row", where=where, text=f"dropped: a row that cannot be read ({err})")

    def _event(self, header: Header, cells: dict[str, str], number: int) -> None:
        row = event(header, cells)
        source, columns = self._source, row.columns
        if row.name and columns.get("raw_name") is None:
            row.name, columns["raw_name"] = self._names.one(row.name)
        self.events.add(**columns, name=row.name, event_id=number, source=source)
        self.ledger.kept += 1
        self.ledger.events_out += 1
        device, pid, tid = (columns.get(key) for key in ("device", "pid", "tid"))
        if row.device_name and isinstance(device, int):
            self._run.devices.setdefault((source, device), row.device_name)
        if row.thread_name and isinstance(pid, int) and isinstance(tid, int):
            self._run.threads.setdefault((source, pid, tid), row.thread_name)
        if row.rounded:
            self._note_rounded(number)

    def _total(self, header: Header, section: str, cells: dict[str, str]) -> None:
        name, columns = total(header, cells)
        if name:
            if name.endswith("…"):
                self.ledger.note("names-cut", "names that end in … were cut in print: several may look the same")
            name, columns["raw_name"] = self._names.one(name)
        order = self.ledger.totals_out
        self.totals.add(**columns, name=name, source=self._source, run=0, section=section, order=order)
        self.ledger.kept += 1
        self.ledger.totals_out += 1
        if header.form == "sizes":
            self._note_rounded(0)

    def _note_rounded(self, number: int) -> None:
        text = "sizes are printed in large units with few decimals: they are as exact as printed"
        self.ledger.note("sizes-rounded", text, where=f"line {number}" if number else "")

"""Rows of the reports of `nsys stats`: cells in, events and totals out."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import BATCH_ROWS, RowBuilder
from tracekit.readers.names import Demangler
from tracekit.readers.nsys._tables import Header, RowError, event, total
from tracekit.trace import Ledger, Run


class Rows:
    """The rows of one file."""

    def __init__(self, run: Run, options: ReadOptions, ledger: Ledger) -> None:
        self.ledger = ledger
        self.events, self.totals = RowBuilder(), RowBuilder("totals")
        self._run, self._source = run, options.source
        self._names = Demangler(ledger, enabled=options.demangle)

    def take(self, *, everything: bool = False) -> Iterator[pa.RecordBatch]:
        """Give the rows as batches when there are many, or all that are left."""
        for rows in (self.totals, self.events):
            if len(rows) >= (1 if everything else BATCH_ROWS):
                yield rows.take()

    def close(self) -> None:
        """End the demangler's child."""
        self._names.close()

    def row(self, header: Header, section: str, cells: list[str], number: int, *, torn: bool, quoted: bool) -> None:
        """Take the cells of a row. torn: the input ends in it. quoted: a quote closes its last cell."""
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
        found = dict(zip(header.columns, (cell.strip() for cell in cells), strict=True))
        if "Orig Start" in found and not found["Start"]:
            ledger.ignore("range without work of a device")
            return
        try:
            if header.form == "trace":
                self._event(header, found, number)
            else:
                self._total(header, section, found)
        except RowError as err:
            if torn:
                ledger.drop("torn-row", where=where, text="dropped: the last line is cut")
            else:
                ledger.drop("bad-row", where=where, text=f"dropped: a row that cannot be read ({err})")

    def _event(self, header: Header, cells: dict[str, str], number: int) -> None:
        row, facts = event(header, cells)
        source = self._source
        if row["name"] and row.get("raw_name") is None:
            row["name"], row["raw_name"] = self._names.one(row["name"])
        self.events.add(**row, event_id=number, source=source)
        self.ledger.kept += 1
        self.ledger.events_out += 1
        if facts.get("device"):
            self._run.devices.setdefault((source, row["device"]), facts["device"])
        if facts.get("thread") and row.get("pid") is not None and row.get("tid") is not None:
            self._run.threads.setdefault((source, row["pid"], row["tid"]), facts["thread"])
        if facts.get("rounded"):
            self._tell_rounded(number)

    def _total(self, header: Header, section: str, cells: dict[str, str]) -> None:
        row = total(header, cells)
        if row["name"]:
            if row["name"].endswith("…"):
                self.ledger.note("names-cut", "names that end in … were cut in print: several may look the same")
            row["name"], row["raw_name"] = self._names.one(row["name"])
        order = self.ledger.totals_out
        self.totals.add(**row, source=self._source, run=0, section=section, order=order)
        self.ledger.kept += 1
        self.ledger.totals_out += 1
        if header.form == "sizes":
            self._tell_rounded(0)

    def _tell_rounded(self, number: int) -> None:
        text = "sizes are printed in units of many bytes with few decimals: they are what was printed, rounded to that"
        self.ledger.note("sizes-rounded", text, where=f"line {number}" if number else "")

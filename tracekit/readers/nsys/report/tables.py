"""A report as a database: the tables of the SQLite export, which the reader of that export then reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.model import arrow
from tracekit.model.arrow import Column, pc
from tracekit.model.trace import Ledger
from tracekit.readers.builder import BATCH_ROWS
from tracekit.readers.engine.wire import WireError
from tracekit.readers.nsys.report import layout
from tracekit.readers.nsys.report.container import Container
from tracekit.readers.nsys.report.decode import Decoder, NotNanoseconds, TableStore
from tracekit.readers.nsys.report.session import Row, info_rows, meta_of
from tracekit.readers.source import Source
from tracekit.readers.sqlite.database import Cells, CellType, RowBlock
from tracekit.safety.limits import in_force

__all__ = ["ReportTables", "open_report"]

_MOST_NAMED = 6
"""Kinds that the note about what is not understood names; the ledger has all of them."""


class ReportTables:
    """The tables of one report. Opening reads all events once, and holds what the file announces against them.

    tables: name -> columns of the tables with rows. Tables whose rows are not wanted have no columns and a count.
    meta: version and command, under the names of the export.
    Raises: ParseError for damage, for a compression that is not known, and for times that are not ns.
    """

    def __init__(self, source: Source, ledger: Ledger, wants: Callable[[str], bool]) -> None:
        self._source, self._ledger = source, ledger
        self._store = TableStore()
        self._report = Container(source)
        try:
            self.meta = meta_of(self._report)
            self._decoder = Decoder(self._report, self._store, wants)
            self._read_events()
            arrow.release_memory()  # the events come from the store now
            self._rows = self._small_tables()
        except BaseException:
            self.close()
            raise
        # A column that no row has a value in is a column all the same: marks alone have no end.
        times = ("start", "end")
        self.tables = {name: tuple(dict.fromkeys((*have, *times))) for name, have in self._store.tables().items()}
        self.tables |= {name: tuple(dict.fromkeys(k for row in rows for k in row)) for name, rows in self._rows.items()}
        self.tables |= {name: () for name, count in self._decoder.counts.items() if count and name not in self.tables}
        self._note_unknown()
        self._stopped = source.stopped
        """The limit that ended the opening: all rows up to it are here. A later one ends the rows."""

    def __enter__(self) -> ReportTables:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, and remove what was stored."""
        self._report.close()
        self._store.close()

    def _read_events(self) -> None:
        limits = in_force()
        size = self._source.size_bytes()
        most = limits.most_bytes(size, packed=True)
        unpacked = 0
        for at, block in self._report.blocks():
            unpacked += len(block)
            if most is not None and unpacked > most:
                self._source.stop(limits.at_most_bytes(size, most))
            elif (late := limits.late()) is not None:
                self._source.stop(late)
            if self._source.stopped is not None:
                return
            try:
                self._decoder.block(block)
            except WireError as err:
                raise self._report.damaged(at, f"a block of events cannot be read ({err})") from err
            except NotNanoseconds as err:
                hint = "nsys export --type sqlite converts them"
                raise ParseError(
                    self._report.name, f"byte {at}", "the times of NVTX events are not in ns", hint=hint
                ) from err
        self._report.check_counts(self._decoder.events, self._decoder.generic)

    def _small_tables(self) -> dict[str, list[Row]]:
        report = self._report
        rows: dict[str, list[Row]] = {}
        for table, row in info_rows(report, self._decoder.unknown):
            rows.setdefault(table, []).append(row)
        if report.threads:
            rows["ThreadNames"] = [{"nameId": a, "priority": b, "globalTid": c} for a, b, c in report.threads]
        if report.streams:
            rows["ProcessStreams"] = [{"globalPid": a, "filenameId": b, "contentId": c} for a, b, c in report.streams]
        if self._decoder.metrics:
            rows["TARGET_INFO_GPU_METRICS"] = [
                {"typeId": kind, "metricId": number, "metricName": name}
                for (kind, number), name in self._decoder.metrics.items()
            ]
        self._counts: Counter[str] = Counter(self._decoder.counts)
        self._counts["StringIds"] = len(report.strings)
        return rows

    def _note_unknown(self) -> None:
        unknown = self._decoder.unknown
        if self._report.unknown_in_strings:
            unknown["fields of the block of strings"] += self._report.unknown_in_strings
        if not unknown:
            return
        named = [f"{name} ({count:,})" for name, count in unknown.most_common(_MOST_NAMED)]
        more = f", and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
        text = f"the report has parts that tracekit does not know, which were skipped: {', '.join(named)}{more}"
        self._ledger.note("unknown-parts", text, unknown.total())

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        if table in self._rows:
            return len(self._rows[table])
        return self._store.count(table) or self._counts[table]

    def text(self, table: str, number: int) -> str | None:
        """Return a text of StringIds, the one table of texts; None for a number without one."""
        if table != "StringIds":
            return None
        text = self._report.string(number)
        if text is None:
            note = "a name is missing: its number is beyond the strings of the report, which may be damaged"
            self._ledger.note("no-such-string", note, where=f"string {number}")
        return text

    def small(self, table: str, *columns: str, limit: int = 1 << 20) -> list[Cells]:
        """Return columns of a small table: None for a column that it lacks, no rows if there is no such table."""
        if table in self._rows:
            return [tuple(row.get(column) for column in columns) for row in self._rows[table][:limit]]
        if table == "StringIds":
            return []
        rows: list[Cells] = []
        for batch in self._store.batches(table):
            have = set(batch.schema.names)
            cells = [batch.column(c).to_pylist() if c in have else [None] * batch.num_rows for c in columns]
            rows += zip(*cells, strict=True)
            if len(rows) >= limit:
                break
        return rows[:limit]

    def matching(self, table: str, columns: Sequence[str], key: str, values: Sequence[int]) -> list[Cells]:
        """Return columns of the rows whose integer column `key` has one of the values; None for a missing column."""
        wanted = arrow.array(list(values), pa.int64())
        rows: list[Cells] = []
        for batch in self._store.batches(table):
            if key in batch.schema.names:
                part = batch.filter(pc.is_in(batch.column(key), value_set=wanted))
                have = set(part.schema.names)
                cells = [part.column(c).to_pylist() if c in have else [None] * part.num_rows for c in columns]
                rows += zip(*cells, strict=True)
        return rows

    def blocks(
        self,
        table: str,
        wanted: Mapping[str, CellType],
        size: int = BATCH_ROWS,
        *,
        unread: Collection[str] = (),  # noqa: ARG002 - what is in memory is not read again
    ) -> Iterator[RowBlock]:
        """Yield the rows of a table in the order of the file."""
        first = 1
        for batch in self._store.batches(table, size):
            have = set(batch.schema.names)
            columns = {
                name: _empty_is_null(batch.column(name)) if kind is CellType.TEXT else batch.column(name)
                for name, kind in wanted.items()
                if name in have
            }
            yield RowBlock(table, first, batch.num_rows, columns)
            first += batch.num_rows
            if self._source.stopped is not self._stopped:
                return

    def rows_of(self, table: str) -> Iterator[Row]:
        """Yield all rows of a table as dictionaries: to compare a table, not to read one."""
        if table == "StringIds":
            for number in range(len(self._report.strings)):
                yield {"id": number, "value": self._report.string(number)}
        yield from self._rows.get(table, ())
        for batch in self._store.batches(table):
            yield from batch.to_pylist()


def _empty_is_null(column: Column) -> Column:
    """Return a column of texts with null for empty ones, as in a database."""
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def open_report(source: Source, ledger: Ledger, *, osrt: bool) -> ReportTables:
    """Return the tables of a report that are read as events. osrt: calls of the OS too. Raises: ParseError."""
    left_out = {*layout.COUNTED.values(), "SAMPLING_CALLCHAINS", "OSRT_CALLCHAINS", "CUDA_JIT", "CUDA_BACKTRACE"}
    left_out |= {"OPENACC", layout.MARKS} | (set() if osrt else {"OSRT_API"})
    return ReportTables(source, ledger, lambda table: table not in left_out)

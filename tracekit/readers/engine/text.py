"""Lines of a text with declared tables: which are rows of which table, and what becomes of every other line.

A table is found by its header, and a row by its cells: as many as the header has, with numbers where it needs them.
Tables follow each other without a title, and other output may come between rows. Each line is counted in the ledger in
this file or in `rows.py`, nowhere else. The order of the questions about a line:

1. Is it inside a row whose quoted name has line ends?          -> collected, read at its last line
2. Is it blank?                                                 -> "blank"; the table is parted
3. Is it a rule?                                                -> "rule"; the line before it is the header
4. Is it a row of the open table?                               -> rows.py
5. Does it name a report?                                       -> "message"; ends the table
6. Is it a header?                                              -> "header"; a table begins
7. Is it a row without its header, of a table that is not read? -> "row without a header", "table NAME"
8. Anything else                                                -> "message"
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Ledger, Run
from tracekit.readers.base import ReadOptions
from tracekit.readers.engine.layout import Places, boxed, places, row, split, titles
from tracekit.readers.engine.rows import TableRows, has_numbers
from tracekit.readers.engine.spec import Heading, TableHeader, TextSpec
from tracekit.readers.head import Head
from tracekit.readers.printed.late import heads
from tracekit.readers.printed.prefix import untagged_line
from tracekit.readers.source import LineBlock, Source

__all__ = ["headed", "read", "unread"]

QUOTED_LINES = 100
"""Lines of a row whose quoted name has line ends, at most."""
ROWS_OF_A_BLOCK = 64
"""Fewer rows are read one by one: pyarrow's start costs as much."""
_MOST_COMMAS = 40
"""A line with more commas is no header of a table that is known and not read."""
_FIRST_NUMBER = re.compile(r"\s*\"?[\d.]+\"?\s*[,;\t|]")
_NOT_CLOSED = "dropped: a row that cannot be read (a quote is not closed)"


def headed(spec: TextSpec, line: str, unit: str = "") -> tuple[TableHeader, str] | None:
    """Return the header in a line, and the delimiter of its cells: one of the format's, or a bar."""
    if (cells := boxed(line)) is not None:
        header = spec.header(cells, unit)
        return None if header is None else (header, "|")
    for delimiter in spec.delimiters:
        if delimiter in line and (header := spec.header(split(line, delimiter), unit)) is not None:
            return header, delimiter
    return None


def unread(spec: TextSpec, line: str) -> str:
    """Return the name of the table, not read here, that begins with this header; "" for another line."""
    if line.count(",") > _MOST_COMMAS:
        return ""
    columns = max((split(line, delimiter) for delimiter in (*spec.delimiters, "|")), key=len)
    if len(columns) < 3:
        columns = re.split(r"\s{2,}", line)
    for words, report in spec.unread:
        if words in line and len(columns) > 2 and any(cell.strip(' |"').startswith(words) for cell in columns):
            return report
    return ""


def read(
    spec: TextSpec, source: Source, run: Run, options: ReadOptions, ledger: Ledger, patterns: Sequence[bytes]
) -> Iterator[pa.RecordBatch]:
    """Yield the events and totals of a text. patterns: of lines of a report; they find one behind the head of a log."""
    tagged = (_has_ranks(spec, head) for head in heads(source, patterns))
    has_ranks = next((known for known in tagged if known is not None), False)
    return _batches(spec, source, TableRows(run, options, ledger), has_ranks=has_ranks)


def _batches(spec: TextSpec, source: Source, rows: TableRows, *, has_ranks: bool) -> Iterator[pa.RecordBatch]:
    ledger = rows.ledger
    writers: dict[int | None, TableLines] = {None: TableLines(spec, rows)}
    try:
        for block in source.line_blocks(ledger):
            lines = BlockLines(block)
            ledger.read += len(lines)
            if not has_ranks:
                yield from writers[None].block(lines)
                continue
            numbered = [(lines.number(at), lines.text(at)) for at in range(len(lines))]
            torn = numbered[-1][0] if block.torn else 0
            for rank, its_lines in _by_rank(numbered).items():
                yield from writers.setdefault(rank, TableLines(spec, rows, rank)).lines(its_lines, torn)
        for writer in writers.values():
            if writer.quoted:
                ledger.drop("bad-row", len(writer.quoted), text=_NOT_CLOSED)
        rows.finish()
        skipped = sum(writer.skipped for writer in writers.values())
        if skipped and not ledger.kept:
            ledger.note("skipped", f"{spec.tool} skipped reports: the profile has no data for them", skipped)
        yield from rows.take(everything=True)
    finally:
        rows.close()


class BlockLines:
    """The lines of a block; texts are made when they are asked for."""

    def __init__(self, block: LineBlock) -> None:
        self.block = block
        raw = np.frombuffer(block.data, np.uint8)
        ends = np.flatnonzero(raw == ord("\n"))
        self._starts = np.concatenate([[0], ends + 1, [len(raw)] if block.torn else []]).astype(np.int64)
        firsts = raw[np.minimum(self._starts[:-1], len(raw) - 1)]
        self._others = np.flatnonzero((firsts < ord("0")) | (firsts > ord("9")))
        """Lines that do not begin with a digit."""
        self._texts: list[str] | None = None

    def __len__(self) -> int:
        return len(self._starts) - 1

    def number(self, at: int) -> int:
        """Return the number of a line in the file."""
        return self.block.line + at

    def text(self, at: int) -> str:
        """Return a line without its end."""
        if self._texts is None:
            self._texts = [line.rstrip("\r\0") for line in self.block.data.decode("utf-8", "replace").split("\n")]
        return self._texts[at]

    def rows_until(self, at: int) -> int:
        """Return the first line from `at` on that does not begin with a digit, and so is no row.

        A rule makes a header of the line above it, so that line is no row either; nor is a line that is cut.
        """
        place = int(np.searchsorted(self._others, at))
        end = int(self._others[place]) if place < len(self._others) else len(self)
        if self.block.torn:
            end = min(end, len(self) - 1)
        is_rule = end < len(self) and b"--" in self.data(end, end + 1) and places(self.text(end)) is not None
        return max(at, end - 1) if is_rule else end

    def data(self, at: int, end: int) -> bytes:
        """Return whole lines."""
        return self.block.data[self._starts[at] : self._starts[end]]


def _has_ranks(spec: TextSpec, head: Head) -> bool | None:
    """Return whether several ranks have put their tags before the lines of their tables; None without such lines."""
    ranks = set[int | None]()
    for raw in head.lines():
        rank, line = _untagged(raw.decode("utf-8", "replace").rstrip("\r\0"))
        heading = spec.heading(line)
        if (heading is not None and not heading.weak) or places(line) or headed(spec, line):
            ranks.add(rank)
    return len(ranks - {None}) > 1 if ranks else None


def _untagged(line: str) -> tuple[int | None, str]:
    """Return the rank in the tag of a line, and the line without the tag; None and the line where it has none."""
    tagged = untagged_line(line)
    return (None, line) if tagged is None or tagged.rank is None else tagged


def _by_rank(lines: list[tuple[int, str]]) -> dict[int | None, list[tuple[int, str]]]:
    by_rank: dict[int | None, list[tuple[int, str]]] = {}
    for number, line in lines:
        rank, rest = _untagged(line)
        by_rank.setdefault(rank, []).append((number, rest))
    return by_rank


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table whose rows are being read. places: of its columns under dashes, None for cells between delimiters.

    texts: number of columns with text. begins_with_name: its first column has text, not numbers.
    """

    header: TableHeader
    section: str
    places: Places | None
    delimiter: str
    texts: int
    begins_with_name: bool

    def cells(self, line: str) -> list[str]:
        """Return the cells of a line, if it is a row."""
        if self.places is not None:
            return row(line, self.places, texts=self.texts)
        return split(line, self.delimiter, len(self.header.columns))

    def is_good(self, cells: list[str]) -> bool:
        """Return whether these are the cells of a good row."""
        return len(cells) == len(self.header.columns) and has_numbers(self.header, cells)


@dataclass(slots=True)
class TableLines:
    """The lines of one writer: the whole text, or one rank of it.

    under_dashes: the columns of the last rule, whether its table is read or not. delimiter: of the last table of cells.
    texts: columns with text of the last table. report: the name of the report that the lines are of. title: of a
    report, from a weak heading. before: the line before. quoted: the lines of a row that is not complete. is_unread: a
    note says that this report is not read. parted: a blank line came after the last row. closed: the table before,
    which other output ended after a blank line. columns_of: the columns of tables by what they hold. skipped: number
    of reports without data.
    """

    spec: TextSpec
    rows: TableRows
    rank: int | None = None
    table: TextTable | None = None
    under_dashes: Places | None = None
    delimiter: str = ","
    texts: int = 0
    report: str = ""
    title: Heading = field(default_factory=lambda: Heading(""))
    before: str = ""
    quoted: list[str] = field(default_factory=list)
    is_unread: bool = False
    parted: bool = False
    closed: TextTable | None = None
    columns_of: dict[str, tuple[str, ...]] = field(default_factory=dict)
    skipped: int = 0

    def block(self, lines: BlockLines) -> Iterator[pa.RecordBatch]:
        """Read the lines of a block: rows of an open CSV table together, all others one by one."""
        at, end, one_by_one = 0, len(lines), 0
        while at < end:
            table = self._csv_table() if at >= one_by_one else None
            rows_end = at if table is None else lines.rows_until(at)
            if table is not None and rows_end - at >= ROWS_OF_A_BLOCK:
                data = lines.data(at, rows_end)
                if self.rows.block(table.header, table.section, table.delimiter, data, lines.number(at)):
                    yield from self.rows.take()
                    self.before = lines.data(rows_end - 1, rows_end).decode("utf-8", "replace").rstrip("\n\r\0")
                    at = rows_end
                    continue
                one_by_one = rows_end
            below = lines.text(at + 1) if at + 1 < end else ""
            self._next(lines.number(at), lines.text(at), below, torn=lines.block.torn and at == end - 1)
            yield from self.rows.take()
            at += 1

    def _csv_table(self) -> TextTable | None:
        """Return the open table if its rows can be read by blocks."""
        table = self.table
        is_csv = table is not None and table.places is None and table.delimiter != "|"
        if table is None or not is_csv or table.header.spec.makes != "events" or self.parted or self.quoted:
            return None
        return table

    def lines(self, lines: list[tuple[int, str]], torn: int) -> Iterator[pa.RecordBatch]:
        """Read lines with their numbers. torn: the number of the line that the input ends in, 0 for none."""
        for at, (number, line) in enumerate(lines):
            below = lines[at + 1][1] if at + 1 < len(lines) else ""
            self._next(number, line, below, torn=number == torn)
            yield from self.rows.take()

    def _next(self, number: int, line: str, below: str, *, torn: bool) -> None:
        above_rule = "--" in below and places(below) is not None
        # A rule may also end a table: then a row is above it.
        if above_rule and line.strip() and not self._is_row_above_rule(line):
            self.rows.ledger.ignore("header")
            self.before = line
            return
        self._line(line, number, torn=torn)

    def _line(self, line: str, number: int, *, torn: bool) -> None:
        """Ask the questions about a line in their order (see the top of this file)."""
        ledger, table = self.rows.ledger, self.table
        if self.quoted and self._is_whole(line):
            where = f"line {number - len(self.quoted)}"
            ledger.drop("bad-row", len(self.quoted), where=where, text=_NOT_CLOSED)
            self.quoted = []
        in_cells = self.under_dashes is None and table is not None and self.delimiter != "|"
        if self.quoted or (in_cells and line.count('"') % 2 and (not self.parted or _FIRST_NUMBER.match(line))):
            self._quoted(line, number, torn=torn)
            return
        if not line.strip() or (self.under_dashes is not None and not line[self.under_dashes[0][0] :].strip()):
            ledger.ignore("message" if line.strip() else "blank")
            if table is not None:
                self.report, self.parted = "", True
            else:
                self.under_dashes = None
            self.is_unread = False
            return
        before, self.before = self.before, line
        if "--" in line and (under := places(line)) is not None:
            self._rule(under, before, number)
            return
        if boxed(line) == []:
            ledger.ignore("rule")
            return
        cells = self._cells(line)
        if table is not None and self._is_row(table, cells, line):
            quoted = line.rstrip().endswith('"')
            self.rows.row(table.header, table.section, cells, number, torn=torn, quoted=quoted, rank=self.rank)
            return
        if self.parted and table is not None:
            self.closed = table
            self.table, self.under_dashes, self.parted = None, None, False
        if (heading := self.spec.heading(line)) is not None:
            ledger.ignore("message")
            if not heading.weak:
                self.report = heading.name
                self.skipped += heading.empty
            self.title = heading if heading.weak else Heading("")
            self.table, self.under_dashes, self.is_unread, self.closed = None, None, False, None
            return
        if (begun := headed(self.spec, line, self.title.unit)) is not None:
            ledger.ignore("header")
            self.under_dashes, self.delimiter = None, begun[1]
            self._begin(begun[0], None)
            return
        self._outside(line, cells, number)

    def _cells(self, line: str) -> list[str]:
        if self.under_dashes is not None:
            return row(line, self.under_dashes, texts=self.texts)
        return split(line, self.delimiter, 0 if self.table is None else len(self.table.header.columns))

    def _is_row(self, table: TextTable, cells: list[str], line: str) -> bool:
        """Return whether a line is a row of the table, good or bad. Messages may come between rows.

        After a blank line only a good row counts: a paste may have a blank line after each line.
        """
        if self.parted:
            return table.is_good(cells)
        if table.places is not None:
            start, end = table.places[0]
            return table.begins_with_name or any(map(str.isdigit, line[start:end]))
        if len(cells) == len(table.header.columns):
            may_be_header = any(word in line for word in self.spec.header_words)
            return not may_be_header or self.spec.header(cells) is None
        # Other output follows a table that has no end of its own: with other cells, only what begins as a row is one.
        if self.spec.message.match(line):
            return False
        return table.begins_with_name or _FIRST_NUMBER.match(line) is not None

    def _is_whole(self, line: str) -> bool:
        """Return whether a line is a good row by itself: then the open quote before it is not a name with line ends."""
        if self.table is None or line.count('"') % 2:
            return False
        return self.table.is_good(split(line, self.delimiter))

    def _is_row_above_rule(self, line: str) -> bool:
        """Return whether a line is a good row of the open table with dashes."""
        if self.table is None or self.under_dashes is None:
            return False
        return self.table.is_good(row(line, self.under_dashes, texts=self.texts))

    def _quoted(self, line: str, number: int, *, torn: bool) -> None:
        """Collect the lines of a row whose name has line ends, and read the row at its last line."""
        self.quoted.append(line)
        whole = "\n".join(self.quoted)
        if whole.count('"') % 2 and len(self.quoted) < QUOTED_LINES and not torn:
            return
        count, table, ledger = len(self.quoted), self.table, self.rows.ledger
        self.quoted = []
        try:
            rows = list(csv.reader(io.StringIO(whole), delimiter=self.delimiter, strict=True))
        except csv.Error:
            rows = []
        cells = rows[0] if len(rows) == 1 else []
        first = number - count + 1
        if table is None or len(cells) != len(table.header.columns):
            reason = "torn-row" if torn else "bad-row"
            text = "dropped: the last line is cut" if torn else _NOT_CLOSED
            ledger.drop(reason, count, where=f"line {first}", text=text)
            return
        ledger.merged += count - 1
        self.rows.row(table.header, table.section, cells, first, torn=torn, quoted=True, rank=self.rank)

    def _rule(self, under: Places, before: str, number: int) -> None:
        """Read a line of dashes. The line before it is the header."""
        self.rows.ledger.ignore("rule")
        cells = titles(before, under)
        header = self.spec.header(cells, self.title.unit)
        if header is None and self._is_row_above_rule(before):
            self.table = self.under_dashes = None
            return
        self.under_dashes = under
        if header is not None:
            self._begin(header, under)
            return
        self.table = None
        if self.report or self.title.name or not self.spec.unread_columns.isdisjoint(cells):
            self._note_unread(self.report or self.title.name or "below this line", number)

    def _begin(self, header: TableHeader, under: Places | None) -> None:
        self.is_unread, self.parted, self.closed = False, False, None
        figures = {place.name for place in header.places if place.column.cell.figure}
        is_trace = header.spec.makes == "events"
        self.texts = 0 if is_trace else sum(column not in figures for column in header.columns)
        section = self.spec.section(header, self.report or self.title.name)
        begins_with_name = header.columns[0] in self.spec.names
        self.table = TextTable(header, section, under, self.delimiter, self.texts, begins_with_name)
        if work := self.spec.same_events(header):
            columns = self.columns_of.setdefault(work, header.columns)
            if columns != header.columns:
                text = f"several reports have the same {work}: sums over events count them more than once"
                self.rows.ledger.note("told-twice", text)

    def _outside(self, line: str, cells: list[str], number: int) -> None:
        """Count a line that is not a row of a table which is read."""
        ledger = self.rows.ledger
        if self.table is None and not self.is_unread and self._has_lost_header(line):
            ledger.ignore("row without a header")
            text = "rows without the header of their table were skipped: is the text cut?"
            ledger.note("no-header", text, where=f"line {number}")
            return
        if self.spec.empty(line):
            self.skipped += 1
            self.report, self.is_unread = "", False
            ledger.ignore("message")
            return
        name = self.report
        if not self.is_unread and (report := unread(self.spec, line)):
            name = self.report = name or report
        if self.spec.message.match(line) or not name:
            ledger.ignore("message")
            return
        ledger.ignore(f"table {name}")
        if not self.is_unread and len(cells) > 2:
            self._note_unread(name, number)

    def _has_lost_header(self, line: str) -> bool:
        if self.spec.lost is not None and self.spec.lost.match(line):
            return True
        return self.closed is not None and self.closed.is_good(self.closed.cells(line))

    def _note_unread(self, report: str, number: int) -> None:
        self.is_unread = True
        text = f"the report {report} is not read: {self.spec.unread_why}"
        code = f"unread-{report.replace('_', '-').replace(' ', '-')}"
        self.rows.ledger.note(code, text, where=f"line {number}")

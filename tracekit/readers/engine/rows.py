"""Rows of declared tables as EVENTS and TOTALS, exactly, and the ledger of each of them.

Two ways lead to the same rows. `TableRows.row` takes the cells of one row. `TableRows.block` takes whole lines of a CSV
table of events, and gives them as one batch (`blocks.py`); it refuses, before anything is counted, where any line is
not surely such a row. Both use the same declarations and the same functions of cells.

The notes of a row are written when its chunk of the table is complete (`ROWS_AT_ONCE` rows, or the end of the table),
however it was read: so the notes of a file, and their places, do not depend on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial

import numpy as np
import orjson
import pyarrow as pa

from tracekit.errors import Option, Sentence, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.model.trace import PLACES_KEPT, Ledger, Run
from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import BATCH_ROWS, RowBuilder, event_batch
from tracekit.readers.engine.blocks import ColumnBlock, ParsePlan, first_numbers, parse_plan
from tracekit.readers.engine.cells import KeptValue, RowError, Spread
from tracekit.readers.engine.spec import Named, SumRow, TableHeader
from tracekit.readers.names import Demangler
from tracekit.readers.printed.numbers import ANY_NUMBER, COMMA, DECIMAL, POINT, Style, choose, styles_of

__all__ = ["ROWS_AT_ONCE", "TableRows", "has_numbers", "read_row"]

ROWS_AT_ONCE = 1 << 12
"""Rows of a table that are held until the style of its numbers is chosen."""
_MOST_PERCENT = 101
"""Shares of a table add up to 100 at most, but for rounding."""


@dataclass(slots=True)
class RowNotes:
    """A note, or rows that were dropped, with the lines; it waits for its place in the order of notes.

    lines: [] for a note without a place, which counts once.
    """

    code: str
    text: str | Sentence
    lines: Sequence[int]
    dropped: bool = False

    def write(self, ledger: Ledger) -> None:
        """Write it into the ledger, which keeps the first places."""
        for line in self.lines[:PLACES_KEPT]:
            self._write(ledger, 1, f"line {line}")
        if more := len(self.lines[PLACES_KEPT:]) or not self.lines:
            self._write(ledger, int(more), "")

    def _write(self, ledger: Ledger, count: int, where: str) -> None:
        if self.dropped:
            ledger.drop(self.code, count, where=where, text=self.text)
        else:
            ledger.note(self.code, self.text, count, where=where)


@dataclass(slots=True)
class HeldRows:
    """Rows of one table that are not read yet: number of the line, cells by column, whether the input ends in the row.

    count: rows of the chunk so far, rows of blocks included. notes: of these.
    """

    header: TableHeader
    section: str
    rank: int | None
    rows: list[tuple[int, dict[str, str], bool]] = field(default_factory=list)
    count: int = 0
    notes: list[RowNotes] = field(default_factory=list)

    def note(self, code: str, text: str, line: int = 0) -> None:
        """Make a note of a row. line: 0 for a note without a place."""
        last = self.notes[-1] if self.notes else None
        if line and last is not None and last.code == code and not last.dropped and isinstance(last.lines, list):
            last.lines.append(line)
        else:
            self.notes.append(RowNotes(code, text, [line] if line else []))

    def drop(self, code: str, text: str | Sentence, line: int) -> None:
        """Drop a row, with a note."""
        self.notes.append(RowNotes(code, text, [line], dropped=True))

    def write_notes(self, ledger: Ledger, before: int | None = None) -> None:
        """Write the notes into the ledger; with `before`, those of lines before it alone."""
        waiting = []
        for note in self.notes:
            # Lines of one note are in order.
            first = len(note.lines) if before is None else sum(line < before for line in note.lines)
            if before is None or first or not note.lines:
                RowNotes(note.code, note.text, note.lines[:first], note.dropped).write(ledger)
            if first < len(note.lines):
                waiting.append(RowNotes(note.code, note.text, note.lines[first:], note.dropped))
        self.notes = waiting


def has_numbers(header: TableHeader, cells: Sequence[str]) -> bool:
    """Return whether the cells have numbers where the header needs them. Statistics may be empty."""
    if header.spec.sums is None:
        return all(
            ANY_NUMBER.fullmatch(cells[p.at].strip()) for p in header.places if p.column.must and p.column.cell.number
        )
    numbers = [cells[p.at].strip() for p in header.places if p.column.cell.figure]
    return len(numbers) > 2 and all(ANY_NUMBER.fullmatch(text) or not text for text in numbers) and any(numbers[1:])


def _adds_up(header: TableHeader, rows: list[dict[str, str]], style: Style) -> bool:
    """Return whether the sums of a table agree in a style: calls x average is the total, the shares are of 100 %."""
    sums = header.spec.sums
    if sums is None:
        return True

    def values(names: tuple[str, ...]) -> list[float | None]:
        column = next((name for name in names if name in header.columns), "")
        plain = [style.plain(row.get(column, "")) for row in rows]
        return [None if text is None else float(text) for text in plain]

    total, mean, calls, share = (values(names) for names in (sums.total, sums.mean, sums.calls, sums.share))
    agree = (
        abs(each * count - whole) <= 0.01 * abs(whole) + count
        for whole, each, count in zip(total, mean, calls, strict=False)
        if whole is not None and each is not None and count is not None
    )
    return all(agree) and sum(value for value in share if value is not None) <= _MOST_PERCENT


@dataclass(slots=True)
class ReadCells:
    """The cells of one row as columns, its name among them, and members of `args`.

    odd: sentences on cells that cannot be read, and that the row can do without. rounded: a value may have been rounded
    when it was printed.
    """

    columns: dict[str, object] = field(default_factory=dict)
    args: dict[str, object] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)
    rounded: bool = False


def read_row(header: TableHeader, cells: Mapping[str, str], style: Style) -> ReadCells:
    """Return what the cells of a row say. cells: stripped, by column. Raises: RowError."""
    spec, read = header.spec, ReadCells()
    columns, args = read.columns, read.args
    name = next((cells[n] for n in spec.names if cells.get(n)), None)
    limited: list[tuple[Kind, Spread]] = []
    for place in header.places:
        column, text = place.column, cells.get(place.name, "")
        if not text:
            if not column.must or (column.absent_for is not None and column.absent_for(name or "")):
                continue
            if not column.cell.number:
                raise RowError(f"the {place.name.lower()} is missing")
        try:
            value = column.cell.value(text, place.unit, style)
        except RowError as err:
            if column.must or column.vital:
                raise
            reason = f"{place.name}: {err}"
            read.odd.append(f"a cell that cannot be read is not known, and its row is kept ({reason})")
            continue
        # Not isinstance of Mapping: that check of an abstract class costs 7 % of the row way.
        if isinstance(value, dict):
            if column.of_kind is not None:
                limited.append((column.of_kind, value))
            else:
                columns.update(value)
            if isinstance(value, KeptValue):
                args[place.key] = value.text or text
        elif column.to:
            if column.cell.positive and isinstance(value, int) and value < 0:
                raise RowError(f"the {place.name.lower()} is negative")
            columns[column.to] = None if column.cell.zero_is_null and value == 0 else value
        if place.rounded:
            read.rounded = True
    filled = any(cells.get(column) for column in spec.looks_at)
    named: Named = spec.by_name(header, name or "", filled)
    columns.update({"name": name, **named.columns})
    args |= named.args
    if spec.numbered is not None and columns.get(spec.numbered.to) is None:
        columns[spec.numbered.to] = spec.numbered.one(name or "", filled)
    for kind, values in limited:
        if columns.get("kind") == kind:
            columns.update({key: one for key, one in values.items() if columns.get(key) is None})
    return read


class TableRows:
    """The rows of one file, and its ledger."""

    def __init__(self, run: Run, options: ReadOptions, ledger: Ledger) -> None:
        self.ledger = ledger
        self.events, self.totals = RowBuilder(), RowBuilder("totals")
        self._run, self._source = run, options.source
        self._names = Demangler(ledger, enabled=options.demangle)
        self._decimal = options.value(DECIMAL)
        self._style: Style | None = None
        """The style of the file's tables so far."""
        self._blocks: list[pa.RecordBatch] = []
        """Events before those of `events`, if any were read as blocks."""
        self._open: dict[int | None, HeldRows] = {}
        """The open table of each rank."""
        self._waiting: list[HeldRows] = []
        """Tables whose numbers may mean either of two."""
        self._plan: tuple[TableHeader, str, ParsePlan | None] | None = None
        """How pyarrow reads the last table that was asked for, None for one that it cannot read."""

    def take(self, *, everything: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows as batches if there are enough for one, or all that are left."""
        enough = 1 if everything else BATCH_ROWS
        if len(self.totals) >= enough:
            yield self.totals.take()
        # Readers of batches hold rows of one batch against each other (copies of a row in `printed/starts.py`): those
        # of the block way must be as large as those of the row way, though a block of lines has fewer rows.
        if not self._blocks and len(self.events) >= enough:
            yield self.events.take()
        elif self._blocks and sum(map(len, self._blocks)) + len(self.events) >= enough:
            self._gather()
            rows = pa.Table.from_batches(self._blocks).unify_dictionaries().combine_chunks()
            whole = len(rows) if everything else len(rows) // BATCH_ROWS * BATCH_ROWS
            yield from rows.slice(0, whole).to_batches(max_chunksize=BATCH_ROWS)
            self._blocks = rows.slice(whole).to_batches() if whole < len(rows) else []

    def _gather(self) -> None:
        """Put the rows that were read one by one behind the blocks, in the order of the file."""
        if len(self.events):
            self._blocks.append(self.events.take())

    def close(self) -> None:
        """End the child process of the demangler."""
        self._names.close()

    # --- row by row ---

    def row(
        self,
        header: TableHeader,
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
        skips = header.spec.skips
        if skips is not None and skips.has in by_column and not by_column[skips.empty]:
            ledger.ignore(skips.says)
            return
        table = self._open.get(rank)
        if table is None or table.header is not header or table.count >= ROWS_AT_ONCE:
            self._close_table(rank)
            table = self._open[rank] = HeldRows(header, section, rank)
        table.rows.append((number, by_column, torn))
        table.count += 1

    def finish(self) -> None:
        """Read the rows that wait for their table's end, or for another table to show the locale of the file."""
        for rank in list(self._open):
            self._close_table(rank)
        for table in self._waiting:
            text = _ambiguous(table)
            for number, _, _ in table.rows:
                table.drop("ambiguous-number", sentence("dropped: ", text), number)
            table.write_notes(self.ledger)
        self._waiting = []

    def _close_table(self, rank: int | None) -> None:
        """Read the rows of a rank's open table, or let them wait while its numbers may mean either of two."""
        table = self._open.pop(rank, None)
        if table is None:
            return
        styles, style = self._styles(table)
        if style is None:
            self._waiting.append(table)
            return
        if len(styles) == 1:
            self._know(style)
        self._read(table, style)
        table.write_notes(self.ledger)

    def _styles(self, table: HeldRows) -> tuple[list[Style], Style | None]:
        """Return the styles that the held rows may have, and the one that is chosen; None while several are left."""
        numbers = _numbers(table.header)
        cells = [(row[c], whole) for _, row, _ in table.rows for c, whole in numbers.items() if row[c]]
        styles = styles_of(cells, self._decimal)
        if not styles:
            return styles, POINT
        fits = partial(_adds_up, table.header, [row for _, row, _ in table.rows])
        return styles, choose(styles, fits, (text for text, _ in cells), self._style)

    def _know(self, style: Style) -> None:
        """Take a style as that of the file, and read the tables that waited for it."""
        self._style = style
        waiting, self._waiting = self._waiting, []
        for table in waiting:
            self._read(table, style)
            table.write_notes(self.ledger)

    def _read(self, table: HeldRows, style: Style) -> None:
        rows, table.rows = table.rows, []
        for number, cells, torn in rows:
            try:
                self._add(table, cells, number, style)
            except RowError as err:
                code, reason = (
                    ("torn-row", "the last line is cut") if torn else ("bad-row", f"a row that cannot be read ({err})")
                )
                table.drop(code, f"dropped: {reason}", number)

    def _add(self, table: HeldRows, cells: Mapping[str, str], number: int, style: Style) -> None:
        """Add one row. Raises: RowError, before anything is counted or learned."""
        header, spec, ledger = table.header, table.header.spec, self.ledger
        read = read_row(header, cells, style)
        columns, args = read.columns, read.args
        row = SumRow(header, table.section, str(columns.pop("name") or "") or None, columns, args)
        if spec.finish is not None:
            spec.finish(row, table.note)
        shown, raw = (row.name, None) if row.name is None else self._names.one(row.name)
        if columns.get("raw_name") is None:
            columns["raw_name"] = raw
        columns["args"] = orjson.dumps(args).decode() if args else None
        ledger.kept += 1
        if spec.makes == "events":
            self.events.add(**columns, name=shown, event_id=number, source=self._source, rank=table.rank)
            ledger.events_out += 1
        else:
            place_in_file = {"run": 0, "section": row.section, "order": ledger.totals_out}
            self.totals.add(**columns, name=shown, source=self._source, rank=table.rank, **place_in_file)
            ledger.totals_out += 1
        for learn in spec.learns:
            ids = tuple(one for key in learn.to if isinstance(one := columns.get(key), int))
            if cells.get(learn.text) and len(ids) == len(learn.to):
                learn.put(self._run, self._source, ids, cells[learn.text])
        if read.rounded and spec.rounded[0]:
            table.note(*spec.rounded, number)
        for text in read.odd:
            table.note("odd-cell", text, number)

    # --- by blocks ---

    def block(self, header: TableHeader, section: str, delimiter: str, data: bytes, line: int) -> bool:
        """Take whole lines of an open CSV table, whose first is `line`. Return whether all of them are rows.

        False, with nothing counted, where a line is not surely a good row that means what the row way would read. A
        block is taken whole or not at all: were single rows left to the row way, then order, style and notes would
        depend on where blocks end.
        """
        held = self._open.get(None)
        if self._style not in (None, POINT) or self._decimal not in ("", ".") or self._waiting:
            return False
        styles, style = self._styles(held) if held is not None else ([], POINT)
        if style is not POINT:
            return False
        if self._plan is None or self._plan[0] is not header or self._plan[1] != delimiter:
            self._plan = header, delimiter, parse_plan(header, delimiter)
        plan = self._plan[2]
        block = None if plan is None else ColumnBlock.read(header, plan, data)
        if block is None:
            return False
        texts = block.numbers()
        own_styles = styles_of([*texts, *first_numbers(header, data, delimiter)], self._decimal)
        if own_styles and (POINT not in own_styles or any("," in text for text, _ in texts)):
            return False
        if not block.convert(self._names):
            return False
        if held is not None and held.header is not header:
            self._close_table(None)
        if len(styles) == 1 or len(own_styles) == 1:
            self._know(POINT)
        self._add_block(block, section, line)
        return True

    def _add_block(self, block: ColumnBlock, section: str, line: int) -> None:
        """Add the rows before the block, and the block; count and learn what is in it."""
        header, ledger = block.header, self.ledger
        held = self._open.setdefault(None, HeldRows(header, section, None))
        self._read(held, POINT)
        self._gather()
        columns = {**block.columns, "event_id": np.arange(line, line + block.count), "source": self._source}
        ledger.kept += block.count
        ledger.events_out += block.count
        for learn in header.spec.learns:
            for *ids, text in block.distinct(learn.to, learn.text):
                learn.put(self._run, self._source, tuple(ids), text)
        rounded = np.flatnonzero(block.rounded)
        if len(rounded) and header.spec.rounded[0]:
            held.notes.append(RowNotes(*header.spec.rounded, (rounded + line).tolist()))
        # The row way would have begun a new chunk after each ROWS_AT_ONCE rows.
        held.count += block.count
        if held.count > ROWS_AT_ONCE:
            held.count = (held.count - 1) % ROWS_AT_ONCE + 1
            held.write_notes(ledger, line + block.count - held.count)
        self._blocks.append(event_batch(block.count, columns))


def _numbers(header: TableHeader) -> dict[str, bool]:
    """Return the columns of numbers, and whether theirs are whole."""
    return {p.name: p.whole for p in sorted(header.places, key=lambda p: p.at) if p.column.cell.number}


def _ambiguous(table: HeldRows) -> Sentence:
    """Return the sentence for a table whose numbers may mean either of two, with one of them."""
    columns = _numbers(table.header)
    texts = [t for _, row, _ in table.rows for column in columns if "," in (t := row[column])]
    text = next((t for t in texts if COMMA.plain(t) is not None and POINT.plain(t) is not None), texts[0])
    both = f"{text[:30]} is {COMMA.plain(text)} or {POINT.plain(text)}"
    return sentence(
        f"the commas of a table may be decimal or divide thousands: {both} (",
        Option("option", f"{DECIMAL.key}=,"),
        f" or {DECIMAL.key}=. decides)",
    )

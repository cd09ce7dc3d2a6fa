"""Tables of an export of Nsight Systems in Arrow streams, Arrow files or Parquet files, as blocks of columns.

The cells are those that the same reader gets of an SQLite export: integers of any width are int64 (a value beyond it
keeps its bits, as in SQLite), an empty text is null in a block, and a number that is not finite is null.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.errors import ParseError, first_line
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import Column, pc
from tracekit.model.trace import Ledger
from tracekit.readers.beside import TEXTS
from tracekit.readers.builder import BATCH_ROWS
from tracekit.readers.source import Source
from tracekit.readers.sqlite.database import Cells, CellType, RowBlock

__all__ = ["ArrowTables"]

_BAD = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError, OverflowError, NotImplementedError)
"""Errors of pyarrow for damaged bytes."""
_HINT = "the export is damaged or was cut: copy it again, or export the report again"
_FILE = b"ARROW1"
_PARQUET = b"PAR1"
_NAME = b"table_name"

Batches: TypeAlias = Callable[[Sequence[str], int], Iterator[pa.RecordBatch]]
"""Yields the rows of a part: the columns of these names, at most so many rows at once."""


@dataclass(frozen=True, slots=True)
class _TablePart:
    """Rows of a table. where: for messages."""

    where: str
    columns: tuple[str, ...]
    count: Callable[[], int]
    batches: Batches


class ArrowTables:
    """The tables of one export, open for reading. Use as a context manager.

    tables: name -> its columns in their order.
    Raises: ParseError for a file that cannot be read.
    """

    def __init__(self, source: Source, ledger: Ledger) -> None:
        self._source, self._ledger = source, ledger
        self._texts: tuple[Any, Any] | None = None
        path = source.plain_path()
        beside = source.head().beside
        files = sorted(each for each in path.parent.iterdir() if each.suffix == path.suffix and each.stem in beside)
        self._parts: dict[str, list[_TablePart]] = {}
        for file in files or [path]:
            try:
                for name, part in _parts_of(file):
                    self._parts.setdefault(name or file.stem, []).append(part)
            except _BAD as err:
                raise self._error(file.stem if files else "", err) from err
        self._bytes = sum(each.stat().st_size for each in files) or source.size_bytes()
        self.tables = {name: parts[0].columns for name, parts in self._parts.items()}

    def __enter__(self) -> ArrowTables:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files."""
        self._parts, self._texts = {}, None

    def _error(self, table: str, err: BaseException) -> ParseError:
        self._source.check_readable()
        where = f"table {table}" if table else ""
        return ParseError(self._source.name, where, f"the table cannot be read ({first_line(err)[:200]})", hint=_HINT)

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        try:
            return sum(part.count() for part in self._parts[table])
        except _BAD as err:
            raise self._error(table, err) from err

    def small(self, table: str, *columns: str, limit: int = 1 << 20) -> list[Cells]:
        """Return columns of a small table: None for a column that it lacks, no rows if there is no such table."""
        rows: list[Cells] = []
        if table not in self.tables:
            return rows
        for batch in self._batches(table, columns, BATCH_ROWS):
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            absent = [None] * batch.num_rows
            try:
                cells = [_plain(by_name[name]) if name in by_name else absent for name in columns]
            except _BAD as err:
                raise self._error(table, err) from err
            rows += zip(*cells, strict=True)
            if len(rows) >= limit:
                return rows[:limit]
        return rows

    def matching(self, table: str, columns: Sequence[str], key: str, values: Sequence[int]) -> list[Cells]:
        """Return columns of the rows whose integer column `key` has one of the values."""
        wanted = frozenset(values)
        return [tuple(row[1:]) for row in self.small(table, key, *columns) if row[0] in wanted]

    def text(self, table: str, number: int) -> str | None:
        """Return the text under an id in a table of texts, None if there is none."""
        if table != TEXTS or not {"id", "value"} <= set(self.tables.get(TEXTS, ())):
            return None
        ids, texts = self._texts = self._texts or self._all_texts()
        at = int(np.searchsorted(ids, number))
        found: str | None = texts[at].as_py() if at < len(ids) and ids[at] == number else None
        return found

    def _all_texts(self) -> tuple[Any, Any]:
        """Return the ids of all texts in rising order, and the texts."""
        wanted = {"id": CellType.INTEGER, "value": CellType.TEXT}
        blocks = [block.columns for block in self.blocks(TEXTS, wanted)]
        if not blocks:
            return np.empty(0, np.int64), pa.array([], pa.string())
        ids = np.concatenate([arrow.ints(block["id"], -1) for block in blocks])
        # Of an id that is there twice the first row counts, as where SQLite looks it up.
        order = np.argsort(ids, kind="stable")
        texts: Any = pa.chunked_array([block["value"] for block in blocks], pa.string())
        return ids[order], texts.take(pa.array(order))

    def blocks(
        self,
        table: str,
        wanted: Mapping[str, CellType],
        size: int = BATCH_ROWS,
        *,
        unread: Collection[str] = (),  # noqa: ARG002 - what is in memory is not read again
    ) -> Iterator[RowBlock]:
        """Yield the rows of a table in their order. Raises: ParseError."""
        have = [name for name in wanted if name in self.tables[table]]
        first, held, odd = 1, 0, 0
        most = self._source.limits.most_bytes(self._bytes, packed=True)
        for batch in self._batches(table, have, size):
            if self._source.stopped is not None:
                return
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            columns: dict[str, Column] = {}
            for name in have:
                raw = by_name.get(name)
                if raw is None:
                    columns[name] = arrow.nulls(batch.num_rows, _TYPES[wanted[name]])
                    continue
                try:
                    columns[name] = cells = _cells(raw, wanted[name])
                except _BAD as err:
                    raise self._error(table, err) from err
                odd += raw.null_count < len(raw) and cells.null_count == len(cells) and not _fits(raw, wanted[name])
            yield RowBlock(table, first, batch.num_rows, columns)
            first += batch.num_rows
            held += batch.nbytes
            if most is not None and held > most:
                self._source.stop(self._source.limits.at_most_bytes(self._bytes, most))
                return
        if odd:
            self._ledger.note(
                "cell-of-another-type", "a cell is not of the type of its column: it counts as empty", odd, where=table
            )

    def _batches(self, table: str, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield batches of `size` rows, however small the file's own are: a block is what its reader compares."""
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for part in self._parts[table]:
            names = [name for name in dict.fromkeys(columns) if name in part.columns]
            try:
                batches = part.batches(names, size)
                while (batch := next(batches, None)) is not None:
                    batch.validate()  # what pyarrow took from damaged bytes may be outside of them
                    if waiting and (rows + batch.num_rows > size or batch.schema != waiting[0].schema):
                        yield _joined(waiting)
                        waiting, rows = [], 0
                    if batch.num_rows:
                        waiting.append(batch)
                        rows += batch.num_rows
            except _BAD as err:
                raise self._error(table, err) from err
        if waiting:
            try:
                yield _joined(waiting)
            except _BAD as err:
                raise self._error(table, err) from err


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of one schema as one. Raises: pa.ArrowException for damaged ones."""
    if len(batches) == 1:
        return batches[0]
    plain = [_without_dictionaries(batch) for batch in batches]
    return pa.Table.from_batches(plain).combine_chunks().to_batches()[0]


def _without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with the values of its dictionary columns, as each batch may have its own dictionary."""
    columns: list[Any] = list(batch.columns)
    for place, column in enumerate(columns):
        if pa.types.is_dictionary(column.type):
            column.validate(full=True)
            columns[place] = column.dictionary_decode()
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


# One file: its tables.


def _parts_of(path: Path) -> Iterator[tuple[str, _TablePart]]:
    """Yield the tables of a file, "" for one that has no name of its own. Raises: pa.ArrowException, OSError."""
    with path.open("rb") as file:
        begin = file.read(len(_FILE))
    if begin.startswith(_PARQUET):
        yield "", _of_parquet(path)
    elif begin == _FILE:
        yield "", _of_file(path)
    else:
        yield from _of_streams(path)


def _of_parquet(path: Path) -> _TablePart:
    file = pq.ParquetFile(path)
    names, rows, groups = tuple(file.schema_arrow.names), file.metadata.num_rows, file.num_row_groups

    def batches(columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        # pyarrow makes no rows where no column is wanted, or where the file has none
        if groups and columns:
            with pq.ParquetFile(path, page_checksum_verification=True) as opened:
                yield from opened.iter_batches(batch_size=size, columns=list(columns))

    file.close()
    return _TablePart(path.name, names, lambda: rows, batches)


def _of_file(path: Path) -> _TablePart:
    def opened() -> pa.RecordBatchFileReader:
        return pa.ipc.open_file(pa.memory_map(str(path)))

    def batches(columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        reader = opened()
        for number in range(reader.num_record_batches):
            yield from _sliced(reader.get_batch(number), columns, size)

    def count() -> int:
        reader = opened()
        return sum(reader.get_batch(number).num_rows for number in range(reader.num_record_batches))

    return _TablePart(path.name, tuple(opened().schema.names), count, batches)


def _of_streams(path: Path) -> Iterator[tuple[str, _TablePart]]:
    """Yield the tables of streams, one behind the other, with or without a mark at the end of each."""
    data = pa.memory_map(str(path)).read_buffer()
    if data is None or not data.size:
        raise pa.ArrowInvalid("the file is empty")
    starts, file = [], pa.BufferReader(data)
    while file.tell() < data.size:
        at = file.tell()
        try:
            kind = pa.ipc.read_message(file).type
        except EOFError:  # the mark at the end of a stream
            if file.tell() <= at:
                raise pa.ArrowInvalid(f"it ends in the middle of a message, at byte {at}") from None
            continue
        if kind == "schema":
            starts.append(at)
    if not starts or starts[0]:
        raise pa.ArrowInvalid("no stream of Arrow begins here")
    for start, end in zip(starts, [*starts[1:], data.size], strict=True):
        part = data.slice(start, end - start)
        schema = pa.ipc.open_stream(pa.BufferReader(part)).schema
        name = (schema.metadata or {}).get(_NAME, b"").decode("utf-8", "replace")
        yield name, _of_stream(part, schema, f"byte {start}")


def _of_stream(data: pa.Buffer, schema: pa.Schema, where: str) -> _TablePart:
    def opened() -> pa.RecordBatchStreamReader:
        return pa.ipc.open_stream(pa.BufferReader(data))

    def batches(columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        for batch in opened():
            yield from _sliced(batch, columns, size)

    return _TablePart(where, tuple(schema.names), lambda: sum(batch.num_rows for batch in opened()), batches)


def _sliced(batch: pa.RecordBatch, columns: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
    """Yield the first column of each of the names, in pieces of at most `size` rows."""
    names = batch.schema.names
    places = [names.index(name) for name in columns]
    if not places:
        return
    chosen = pa.RecordBatch.from_arrays([batch.column(place) for place in places], names=list(columns))
    for start in range(0, chosen.num_rows, size):
        yield chosen.slice(start, size)


# Columns of any type as the cells that SQLite has.

_TYPES: Mapping[CellType, pa.DataType] = {
    CellType.INTEGER: pa.int64(),
    CellType.REAL: pa.float64(),
    CellType.TEXT: pa.string(),
    CellType.HEX: pa.string(),
}


def _fits(column: Any, kind: CellType) -> bool:
    """Return whether a column has the type that its cells should have."""
    of = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    number = pa.types.is_integer(of) or pa.types.is_boolean(of)
    if kind is CellType.INTEGER:
        return number
    return number or pa.types.is_floating(of) if kind is CellType.REAL else _is_text(of)


def _is_text(of: pa.DataType) -> bool:
    return any(
        check(of)
        for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )


def _cells(column: Any, kind: CellType) -> Column:
    """Return a column as a block has it. Raises: pa.ArrowException for a damaged one."""
    if not _fits(column, kind):
        return arrow.nulls(len(column), _TYPES[kind])
    column.validate(full=not _is_text(column.type))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kind is CellType.INTEGER:
        whole: Column = column.cast(pa.int64(), safe=False)
        return whole
    if kind is CellType.REAL:
        real = arrow.floats(column.cast(pa.float64(), safe=False))
        return arrow.array(real, mask=~np.isfinite(real))
    if kind is CellType.HEX:
        raw = column.cast(pa.binary()).to_pylist()
        return arrow.array([each.hex().upper() if each else None for each in raw], pa.string())
    texts = _texts(column)
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _texts(column: Any) -> Any:
    """Return texts as UTF-8; bytes that are none become U+FFFD, as in SQLite."""
    raw = column.cast(pa.binary())
    raw.validate(full=True)
    texts = raw.view(pa.string())
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return arrow.array([None if each is None else each.decode("utf-8", "replace") for each in raw.to_pylist()])
    return texts


def _plain(column: Any) -> list[object]:
    """Return a column as objects of Python: int, float, str or None. Raises: pa.ArrowException."""
    for kind in (CellType.INTEGER, CellType.REAL):
        if _fits(column, kind):
            return list(_cells(column, kind).to_pylist())
    if not _fits(column, CellType.TEXT):
        return [None] * len(column)
    return list(_texts(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column).to_pylist())

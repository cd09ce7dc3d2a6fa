"""Tables of whole numbers, taken from the pages of an SQLite database: a column costs a gather, not a call a cell.

A table is a tree of pages. Its leaves have the rows in order, and a row is a record:

    bytes of the record, rowid, bytes of the header, a type for each column, the values one after the other

Of a page only what SQLite itself would read in this way is read here. All else is left to SQLite, which then reads the
table on: rows that go on in other pages, tables with an index (SQLite may read that instead), pages that are damaged,
cells of another type. So the rows are those of SQLite, or there are none.

Format: https://sqlite.org/fileformat2.html, sections 1.6 (pages), 2.1 (records). A whole number has 0, 1, 2, 3, 4, 6 or
8 bytes, the highest first: types 8, 9 (which are 0 and 1) and 1 to 6. Type 0 is null.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from io import FileIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Bytes, Column, Numbers, Rows

__all__ = ["NeedsSqlite", "PlainTable", "integer_blocks"]

_INT64 = pa.int64()

_HEAD = 100
_INNER, _LEAF = 5, 13
"""First bytes of the pages of a table."""
_SLACK = 256
"""Bytes behind the pages of a block, so that no gather ends behind them."""
_LOCKED = 1 << 30
_MOST_BYTES = 32 << 20
"""Pages of one block."""
_DEEPEST = 20
_MOST_COLUMNS = 126
"""A header of so many types, of a byte each, has its length in one byte."""
_WIDTHS = np.zeros(256, np.int32)
_WIDTHS[1:7] = (1, 2, 3, 4, 6, 8)
_WIDTHS[12:] = (np.arange(12, 256) - 12) // 2
"""Bytes of a value by its type."""
_FLOAT, _ZERO, _ONE, _RESERVED = 7, 8, 9, (10, 11)
_WIDTHS[_FLOAT] = 8
_SMALL = 3
"""The largest type of a whole number of at most 24 bits, but for 0 and 1."""
_SHIFTS = np.where(_WIDTHS > 0, 64 - 8 * _WIDTHS.astype(np.int64), 0).clip(0)


class NeedsSqlite(Exception):
    """SQLite itself is to read these rows."""


@dataclass(frozen=True, slots=True)
class PlainTable:
    """A table as the schema has it. root: the first page of its tree. width: the number of its columns.

    places: the columns that are read, each with its place in a row. unread: columns that are not needed where all cells
    of a block are null or whole numbers of at most 24 bits; others' cells are checked and read.
    """

    path: Path
    root: int
    width: int
    places: Mapping[str, int]
    unread: Collection[str] = ()


def integer_blocks(table: PlainTable, size: int) -> Iterator[tuple[int, dict[str, Column]]]:
    """Yield the number of rows and the columns of each `size` rows of a table, int64, in the order of the table.

    A column is missing where it is not needed. Raises: NeedsSqlite when SQLite is to read the rows after the last ones.
    """
    if not 0 < table.width <= _MOST_COLUMNS:
        raise NeedsSqlite
    try:
        with table.path.open("rb", buffering=0) as file:
            tree = _Database(file)
            yield from _blocks(tree, tree.leaves(table.root), table, size)
    except OSError as err:  # SQLite says so
        raise NeedsSqlite from err


def _blocks(tree: _Database, leaves: I64, table: PlainTable, size: int) -> Iterator[tuple[int, dict[str, Column]]]:
    at, skipped, count = 0, 0, 1 + size // 64
    while at < leaves.size:
        while True:
            if count * tree.size > _MOST_BYTES:
                raise NeedsSqlite
            pages = tree.read(leaves[at : at + count])
            cells = _cell_counts(pages, tree, alone=leaves.size == 1)
            rows = int(cells.sum()) - skipped
            if rows >= size or at + count >= leaves.size:
                break
            count += 2 + count * (size - rows) // max(rows, 1)
        taken = min(rows, size)
        if not taken:
            return
        starts = _cell_starts(pages, cells, tree)[skipped : skipped + taken]
        yield taken, _columns(pages, starts, table, tree)
        # The next block begins inside the last page of this one, where that has more rows.
        done = np.cumsum(cells) <= skipped + taken
        whole = int(np.count_nonzero(done))
        skipped += taken - int(cells[:whole].sum())
        at, count = at + whole, whole + 2


class _Database:
    """The pages of a database. size: bytes of a page; usable: how many of them SQLite uses."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        head = file.read(_HEAD)
        if len(head) < _HEAD:
            raise NeedsSqlite
        page = int.from_bytes(head[16:18], "big")
        self.size = 65536 if page == 1 else page
        self.usable = self.size - head[20]
        if self.size < 512 or self.size & (self.size - 1) or self.usable < 480:
            raise NeedsSqlite
        stated = int.from_bytes(head[28:32], "big")
        self._count = file.seek(0, 2) // self.size
        # SQLite believes the number of pages where these are equal, and goes no further.
        if head[24:28] == head[92:96] and stated:
            self._count = min(self._count, stated)

    def read(self, numbers: I64) -> Bytes:
        """Return these pages one after the other, and some bytes behind them."""
        # Page 1 begins with the head of the file, and the page at 1 GiB is for locks.
        if numbers.size and not (numbers.min() > 1 and numbers.max() <= self._count):
            raise NeedsSqlite
        if (numbers == _LOCKED // self.size + 1).any():
            raise NeedsSqlite
        data = np.empty(numbers.size * self.size + _SLACK, np.uint8)
        data[-_SLACK:] = 0
        view = data.data
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        bounds = [0, *breaks.tolist(), numbers.size]
        for first, last in pairwise(bounds):
            wanted = view[first * self.size : last * self.size]
            self._file.seek((int(numbers[first]) - 1) * self.size)
            if self._file.readinto(wanted) != len(wanted):
                raise NeedsSqlite
        return data

    def leaves(self, root: int) -> I64:
        """Return the leaves of a table in the order of its rows."""
        level = np.array([root], np.int64)
        for _ in range(_DEEPEST):
            first = self.read(level[:1])
            if first[0] == _LEAF:
                # Pages that are there twice have been refused before.
                return level
            level = np.concatenate([self._children(self.read(level[n : n + 1])) for n in range(level.size)])
            if level.size > self._count:
                raise NeedsSqlite
        raise NeedsSqlite

    def _children(self, page: Bytes) -> I64:
        count = int(page[3]) << 8 | int(page[4])
        if page[0] != _INNER or not count or 12 + 2 * count > self.usable:
            raise NeedsSqlite
        places = page[12 : 12 + 2 * count].view(">u2").astype(np.int64)
        if places.min() < 12 + 2 * count or places.max() > self.usable - 5:
            raise NeedsSqlite
        numbers = page[np.append(places, 8)[:, None] + np.arange(4)]
        found: I64 = numbers.view(">u4").ravel().astype(np.int64)
        return found


def _cell_counts(pages: Bytes, tree: _Database, *, alone: bool) -> I64:
    """Return the number of rows of each page. alone: the table has one page, which may be empty."""
    heads = pages[:-_SLACK].reshape(-1, tree.size)[:, :8]
    counts = heads[:, 3].astype(np.int64) << 8 | heads[:, 4]
    if (heads[:, 0] != _LEAF).any() or (not alone and not counts.all()) or (8 + 2 * counts > tree.usable).any():
        raise NeedsSqlite
    return counts


def _cell_starts(pages: Bytes, counts: I64, tree: _Database) -> I64:
    """Return the place in `pages` where each row begins, in the order of the rows."""
    page = np.repeat(np.arange(counts.size), counts)
    within = np.arange(page.size) - np.repeat(np.cumsum(counts) - counts, counts)
    page *= tree.size
    pointers = page + 8
    pointers += 2 * within
    found: I64 = _gather(pages, pointers, ">u2").astype(np.int64)
    if ((found < 8 + 2 * np.repeat(counts, counts)) | (found >= tree.usable)).any():
        raise NeedsSqlite
    found += page
    return found


def _gather(data: Bytes, places: I64, form: str) -> Numbers:
    """Return the values at these places, which need not be aligned."""
    kind = np.dtype(form)
    found: Numbers = np.ndarray((data.size - kind.itemsize + 1,), kind, data, 0, (1,))[places]
    return found


def _columns(pages: Bytes, starts: I64, table: PlainTable, tree: _Database) -> dict[str, Column]:
    """Return the columns of the rows that begin at these places."""
    page_ends = starts // tree.size * tree.size + tree.usable
    at, length = _after_lengths(pages, starts)
    # A row that goes on in other pages, or a damaged one.
    if (length > tree.usable - 35).any() or (at + length > page_ends).any():
        raise NeedsSqlite
    head = table.width + 1
    if (pages[at] != head).any():
        raise NeedsSqlite  # a column was added later, or a header has types of several bytes
    types = _gather(pages, at + 1, f"V{table.width}").view(np.uint8).reshape(-1, table.width)
    by_column = np.ascontiguousarray(types.T)
    least, most = by_column.min(axis=1).tolist(), by_column.max(axis=1).tolist()
    if max(most) >= 128:
        raise NeedsSqlite
    names = {place: name for name, place in table.places.items()}
    read: dict[str, tuple[int, Rows]] = {}
    fixed, further = 0, np.zeros(starts.size, np.int32)
    for place in range(table.width):
        kinds, low, high = by_column[place], least[place], most[place]
        name = names.get(place)
        if high >= _FLOAT:
            _refuse_others(kinds, own=name is not None)
        if name is not None and not (name in table.unread and _is_small(kinds, high)):
            read[name] = fixed, further
        if low == high:
            fixed += int(_WIDTHS[low])
        else:
            further = further + _WIDTHS[kinds]
    if (further + (fixed + head) != length).any():
        raise NeedsSqlite
    at += head
    found = {}
    for name, place in table.places.items():
        if name in read:
            fixed, further = read[name]
            found[name] = _column(pages, at + further + fixed, by_column[place], least[place], most[place])
    return found


def _after_lengths(pages: Bytes, starts: I64) -> tuple[I64, I64]:
    """Return where the record of each row begins, and its bytes: behind two numbers of variable length."""
    first = pages[starts].astype(np.int64)
    long = first >= 128
    at, length = starts + 1, first
    if long.any():
        second = pages[at].astype(np.int64)
        if (long & (second >= 128)).any():
            raise NeedsSqlite  # 16 KiB or more
        length = np.where(long, (first & 127) << 7 | second, first)
        at += long
    more = pages[at] >= 128
    for _ in range(8):
        if not more.any():
            break
        at += more
        more &= pages[at] >= 128
    at += 1  # behind the last byte: the ninth is it, whatever it is
    return at, length


def _refuse_others(kinds: Bytes, *, own: bool) -> None:
    """Raise NeedsSqlite for types that SQLite does not write; own: for all but whole numbers, which are read."""
    bad = (kinds == _RESERVED[0]) | (kinds == _RESERVED[1])
    if own:
        bad |= (kinds == _FLOAT) | (kinds > _ONE)
    if bad.any():
        raise NeedsSqlite


def _is_small(kinds: Bytes, high: int) -> bool:
    return high <= _SMALL or not ((kinds > _SMALL) & (kinds < _ZERO)).any()


def _column(pages: Bytes, places: I64, kinds: Bytes, low: int, high: int) -> Column:
    """Return the values of these types at these places."""
    if high == 0:
        return arrow.nulls(kinds.size, _INT64)
    if low == high and low >= _ZERO:
        return arrow.array(np.full(kinds.size, low - _ZERO, np.int64))
    values: I64 = _gather(pages, places, ">i8").astype(np.int64)
    if low == high:
        values >>= 64 - 8 * int(_WIDTHS[low])
    else:
        values >>= _SHIFTS[kinds]
    nulls = None
    if low == 0 or high >= _ZERO:
        values[(kinds == 0) | (kinds == _ZERO)] = 0
        values[kinds == _ONE] = 1
        nulls = kinds == 0 if low == 0 else None
    return arrow.array(values, mask=nulls)

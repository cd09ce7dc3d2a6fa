"""The pages of an SQLite database: each must be in its trees once, or a table of a few pages never ends.

An inner page that points to one page below it many times, on several levels, gives SQLite more rows than can ever be
read, in a file of some kilobytes. Format: https://sqlite.org/fileformat2.html, section 1.6.
"""

from __future__ import annotations

import mmap
import sqlite3
import struct
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.errors import ParseError

_FILE_HEAD = 100
_INNER = (2, 5)
"""First bytes of inner pages, of an index and of a table."""
_AT_ONCE = 4096
"""Pages that are looked at before their memory is given back."""


def refuse_repeated_pages(name: str, path: Path) -> None:
    """Raise ParseError for a database whose rows would never end. name: of the input.

    A database that is open elsewhere has newer pages in another file, and is not looked at.
    """
    if any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal")):
        return
    try:
        page = repeated_page(path)
    except (sqlite3.Error, OSError, OverflowError, UnicodeDecodeError):
        return  # reading says so
    if page is not None:
        raise ParseError(
            name,
            f"page {page}",
            "it is in the trees of the database more than once, so that its rows may never end",
            hint="the file is damaged or made to be a trap: export it again",
        )


def repeated_page(path: Path) -> int | None:
    """Return a page that is in the trees of a database more than once, None where there is none.

    Pages that cannot be there are left to SQLite, which says so. Raises: sqlite3.Error, OSError.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size < _FILE_HEAD:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            pages = _Pages(data, size)
            if not pages.count:
                return None
            if (found := pages.walk([1])) is not None:
                return found
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
                rows = db.execute("select rootpage from sqlite_master where rootpage > 1").fetchall()
            return pages.walk([int(row[0]) for row in rows if isinstance(row[0], int)])


class _Pages:
    def __init__(self, data: mmap.mmap, size: int) -> None:
        self._data = data
        page = struct.unpack(">H", data[16:18])[0]
        self._size = 65536 if page == 1 else page
        self.count = size // self._size if self._size >= 512 else 0
        self._seen = np.zeros(self.count + 1, bool)

    def walk(self, roots: Sequence[int]) -> int | None:
        level = np.array(roots, np.int64)
        while level.size:
            level = level[(level > 0) & (level <= self.count)]
            ordered = np.sort(level)
            again = ordered[1:][ordered[1:] == ordered[:-1]]
            again = again if again.size else level[self._seen[level]]
            if again.size:
                return int(again[0])
            self._seen[level] = True
            below: list[I64] = []
            for first in range(0, ordered.size, _AT_ONCE):
                below += self._below(ordered[first : first + _AT_ONCE])
                if hasattr(mmap, "MADV_DONTNEED"):  # pages of the file count as memory of the process
                    self._data.madvise(mmap.MADV_DONTNEED)
            level = np.concatenate(below) if below else np.empty(0, np.int64)
        return None

    def _below(self, pages: I64) -> list[I64]:
        """Return the pages below inner ones."""
        found = []
        for page in pages.tolist():
            start = (page - 1) * self._size
            head = start + (_FILE_HEAD if page == 1 else 0)
            if self._data[head] not in _INNER:
                continue
            bytes_ = np.frombuffer(self._data[start : start + self._size], np.uint8)
            at = head - start
            cells = min(int.from_bytes(bytes_[at + 3 : at + 5].tobytes(), "big"), (self._size - at - 12) // 2)
            places = bytes_[at + 12 : at + 12 + 2 * cells].view(">u2").astype(np.int64)
            places = np.append(places[places <= self._size - 4], at + 8)
            found.append(bytes_[places[:, None] + np.arange(4)].view(">u4").ravel().astype(np.int64))
        return found

"""Texts of a file, each stored once: names, categories, keys and values of arguments."""

from __future__ import annotations

import numpy as np
import orjson
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import I32, I64, Bytes, Column
from tracekit.model.trace import Ledger
from tracekit.readers.builder import MOST_NAME, bounded
from tracekit.readers.engine.protobuf import plain
from tracekit.readers.engine.wire import Picked, Words

__all__ = ["NONE", "PacketTexts", "distinct", "distinct_rows", "slices"]

NONE = -1


class PacketTexts:
    """Numbers for texts, from 0 in order of appearance. Bytes that are not UTF-8 become U+FFFD, with a note."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, int] = {}
        self._of_bytes: dict[bytes, int] = {}
        self.all: list[str] = []
        self._json: list[str] = []

    def code(self, text: str) -> int:
        """Return the number of a text."""
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = len(self.all)
            self.all.append(text)
        return known

    def code_of(self, data: bytes) -> int:
        """Return the number of a text in UTF-8."""
        known = self._of_bytes.get(data)
        if known is None:
            if len(self._of_bytes) > _MOST:
                self._of_bytes.clear()
            known = self._of_bytes[data] = self.code(plain(data, self._ledger))
        return known

    def name_of(self, data: bytes) -> int:
        """Return the number of a text that many events may refer to, `bounded`."""
        if len(data) <= MOST_NAME:
            return self.code_of(data)
        return self.code(bounded(plain(data, self._ledger), self._ledger))

    def codes(self, data: Bytes, picked: Picked) -> I32:
        """Return the number of each text of some fields."""
        if not len(picked):
            return np.empty(0, np.int32)
        encoded = arrow.encoded(slices(data, picked))
        own = np.array([self.code_of(each) for each in arrow.binaries(encoded.dictionary)], np.int32)
        codes: I32 = own[encoded.indices.to_numpy()]
        return codes

    def json(self, codes: I32 | I64) -> Column:
        """Return texts as JSON. codes: shape (n,)."""
        used, place = distinct(codes.astype(np.int64))
        return arrow.take(arrow.array([self.json_of(code) for code in used.tolist()], pa.string()), place)

    def json_of(self, code: int) -> str:
        """Return a text as JSON."""
        if code >= len(self._json):
            self._json += [orjson.dumps(text).decode() for text in self.all[len(self._json) :]]
        return self._json[code]


_MOST = 1 << 16
_SMALL = 1 << 20


def slices(data: Bytes, picked: Picked) -> Column:
    """Return the bytes of some fields, which do not overlap, as a column."""
    order = np.argsort(picked.at, kind="stable")
    bounds = np.empty(2 * len(order) + 1, np.int64)
    bounds[0] = 0
    bounds[1::2], bounds[2::2] = picked.at[order], picked.ends[order]
    # Between any two fields is a gap, which may be empty: wanted and unwanted pieces take turns.
    every: Column = pa.Array.from_buffers(
        pa.large_binary(), 2 * len(order), [None, arrow.buffer(bounds), arrow.buffer(data)]
    )
    place = np.empty(len(order), np.int64)
    place[order] = 2 * np.arange(len(order)) + 1
    return arrow.take(every, place).cast(pa.binary())


def distinct(values: I64 | Words) -> tuple[I64, I64]:
    """Return the distinct values in order of appearance, and the place of each row's value among them."""
    count = len(values)
    if count and values.dtype == np.int64:
        least, most = int(values.min()), int(values.max())
        if least == most:
            return np.full(1, least), np.zeros(count, np.int64)
        if least > -_SMALL and most - least < min(_SMALL, 4 * count):
            first = np.full(most - least + 1, count, np.int64)
            shifted = values - least
            first[shifted[::-1]] = np.arange(count - 1, -1, -1)  # the last one written is the first in the column
            used = np.flatnonzero(first < count)
            order = np.argsort(first[used])
            first[used[order]] = np.arange(len(used))
            return used[order] + least, first[shifted]
    encoded = arrow.encoded(arrow.array(np.ascontiguousarray(values)))
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy().astype(np.int64)


def distinct_rows(*columns: I64) -> tuple[I64, I64]:
    """Return the first of equal rows, in order of appearance, and the place of each row among these.

    >>> [found.tolist() for found in distinct_rows(np.array([5, 5, 5, 7]), np.array([1, 2, 1, 1]))]
    [[0, 1, 3], [0, 1, 0, 2]]
    """
    count = len(columns[0])
    place = np.zeros(count, np.int64)
    for column in columns:
        values, own = distinct(column)
        place = distinct(place * len(values) + own)[1]
    first = np.zeros(int(place.max()) + 1 if count else 0, np.int64)
    first[place[::-1]] = np.arange(count - 1, -1, -1)
    return first, place

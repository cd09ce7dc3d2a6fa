"""Whole blocks of a table of --csv at once, when all their lines are rows in the form in which ncu writes them.

ncu puts each cell in quotation marks. So the marks alone say where the cells are: they take turns, and between two
cells stands a comma or the end of a line. A block where that does not hold is left to the reading by lines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import Bytes, Mask
from tracekit.columns.arrow import Column, pc

_QUOTE, _COMMA, _END, _RETURN = b'",\n\r'
_INTEGER = r"^[0-9]{1,18}$"
_STRANGE = (b"\x1b", b"\0", b"==PROF== ", b"==WARNING== ", b"==ERROR== ", b"Process ID")
"""What makes a line another one than a row."""


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of a block, row by row. clean: whether a cell begins and ends with a visible character of ASCII."""

    texts: Column
    clean: Mask
    width: int

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(self.texts) // self.width

    def column(self, place: int) -> Column:
        """Return a column."""
        return arrow.take(self.texts, np.arange(place, len(self.texts), self.width))

    def row(self, number: int) -> list[str]:
        """Return the cells of a row."""
        return arrow.texts(self.texts.slice(number * self.width, self.width))


def without_escapes(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return the lines without those in which a quotation mark is part of a text, and these."""
    raw: Bytes = np.frombuffer(data, np.uint8)
    pairs = np.flatnonzero((raw[:-1] == _QUOTE) & (raw[1:] == _QUOTE))
    before, behind = raw[np.maximum(pairs - 1, 0)], raw[np.minimum(pairs + 2, len(raw) - 1)]
    empty = (pairs == 0) | (before == _COMMA) | (before == _END)
    empty &= (behind == _COMMA) | (behind == _RETURN) | (behind == _END)
    spans: list[tuple[int, int]] = []
    for pair in pairs[~empty].tolist():
        if not spans or pair >= spans[-1][1]:
            begin, end = data.rfind(b"\n", 0, pair) + 1, data.find(b"\n", pair) + 1
            spans.append((begin, end or len(data)))
    if not spans:
        return data, []
    ends = [0, *(end for _, end in spans)]
    begins = [*(begin for begin, _ in spans), len(data)]
    kept = b"".join([data[end:begin] for end, begin in zip(ends, begins, strict=True)])
    return kept, [data[begin:end] for begin, end in spans]


def cells_of(data: bytes, width: int) -> Cells | None:
    """Return the cells of whole lines, None where a line is not certainly a row. width: cells of a row, two or more."""
    if any(strange in data for strange in _STRANGE):
        return None
    raw: Bytes = np.frombuffer(data, np.uint8)
    quotes = np.flatnonzero(raw == _QUOTE)
    if not len(quotes) or len(quotes) % (2 * width) or quotes[0] or data[-1] != _END:
        return None
    opens, closes = quotes[0::2], quotes[1::2]
    rows = len(opens) // width
    after = raw[closes + 1]
    gap = np.append(opens[1:], len(data)) - closes
    last = np.zeros(len(closes), np.bool_)
    last[width - 1 :: width] = True
    windows = after == _RETURN
    returns = int(np.count_nonzero(windows))
    good = np.where(last, ((after == _END) & (gap == 2)) | (windows & (gap == 3)), (after == _COMMA) & (gap == 2))
    if not good.all() or data.count(b"\n") != rows or data.count(b"\r") != returns:
        return None
    if not (raw[closes[windows] + 2] == _END).all():
        return None
    bounds = np.zeros(2 * len(opens) + 1, np.int64)
    bounds[1::2], bounds[2::2] = opens + 1, closes
    every = arrow.text_column(bounds, raw, pa.large_string())
    texts = pc.cast(arrow.take(every, np.arange(1, 2 * len(opens), 2)), pa.string())
    first, final = raw[opens + 1], raw[closes - 1]
    clean = (first > 0x20) & (first < 0x7F) & (final > 0x20) & (final < 0x7F)
    found = Cells(texts, clean, width)
    return found if arrow.bools(pc.match_substring_regex(found.column(0), _INTEGER)).all() else None

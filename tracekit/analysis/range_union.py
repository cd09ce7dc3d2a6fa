"""The union of ranges that come part by part, in any order: it keeps merged ranges, and adds the next ones to them.

Ranges are as in `intervals`: [start, end) in integer ns. Few ranges wait; all others are packed in parts, each
of them merged. Time is cut into windows to find what all parts cover together, so that few ranges are unpacked at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import Ranges, length, merge
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Numbers

__all__ = ["RangeUnion", "length_of"]

_PART = 1 << 16
"""Ranges of a part, at most twice as many."""
_FEW = 256
"""Most additions that wait, however small they are."""
_MANY = 1 << 20
"""Ranges that are kept, at least, before parts that cover the same time are merged."""
_STRIDE, _EACH = 1 << 10, 1 << 8
"""A window has about _STRIDE * _EACH ranges."""
_GAIN = 4
"""Parts are merged where one range of so many may be less then."""

Offsets = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class _PackedRanges:
    """Merged ranges, n > 0 of them. first, last: where they begin and end. starts, ends: shape (n,), ns after first."""

    first: int
    last: int
    starts: Offsets
    ends: Offsets

    def begun(self, until: int) -> int:
        """Return how many ranges begin at this time or before it."""
        return self.starts.size if until >= self.last else self._place(self.starts, until, "right")

    def within(self, low: int, high: int) -> Ranges:
        """Return the ranges cut to the window [low, high)."""
        begin = 0 if low < self.first else self._place(self.ends, low, "right")
        end = self.starts.size if high > self.last else self._place(self.starts, high, "left")
        starts, ends = self._times(self.starts[begin:end]), self._times(self.ends[begin:end])
        if starts.size:
            starts[0], ends[-1] = max(int(starts[0]), low), min(int(ends[-1]), high)
        return starts, ends

    def sample(self) -> I64:
        """Return some of the starts, in equal distances."""
        return self._times(self.starts[::_STRIDE])

    def _place(self, offsets: Offsets, time: int, side: Literal["left", "right"]) -> int:
        """Return the place of a time before the last one among these."""
        if time < self.first:
            return 0
        # A number of another type would make all of them such numbers.
        return int(np.searchsorted(offsets, offsets.dtype.type(time - self.first), side))

    def _times(self, offsets: Offsets) -> I64:
        # An offset that exceeds int64 wraps around, and the time is right.
        return offsets.astype(np.int64) + np.int64(self.first)


def _packed(ranges: Ranges) -> _PackedRanges:
    """Return merged ranges as a part."""
    starts, ends = ranges
    first, last = int(starts[0]), int(ends[-1])
    wide = [(times - np.int64(first)).view(np.uint64) for times in (starts, ends)]
    if last - first > np.iinfo(np.uint32).max:
        return _PackedRanges(first, last, *wide)
    return _PackedRanges(first, last, *(offsets.astype(np.uint32) for offsets in wide))


class RangeUnion:
    """The union of ranges that are added in any order.

    Memory: 16 bytes for each merged range, 8 where a part of 65,536 of them takes less than 4.3 s; and for as many
    ranges and a million again, where parts that cover the same time wait to be merged.

    >>> union = RangeUnion()
    >>> union.add(np.array([0, 20]), np.array([6, 25]))
    >>> union.add(np.array([5]), np.array([9]))
    >>> union.length
    14
    """

    __slots__ = ("_merged", "_parts", "_size", "_waiting", "_waits", "count", "extent")

    def __init__(self) -> None:
        self.count = 0
        """The number of ranges that were added."""
        self.extent: tuple[int, int] | None = None
        """The first start and the last end of them, None for none."""
        self._waiting: list[Ranges] = []
        self._parts: list[_PackedRanges] = []
        self._waits = self._size = self._merged = 0

    def add(self, starts: Numbers, ends: Numbers) -> None:
        """Add ranges. starts, ends: shape (n,), ns, any order; a range with end < start counts as empty.

        Raises: TypeError for values that are no integers, ValueError for different lengths.
        """
        ranges = merge(starts, ends)
        if not ranges[0].size:
            return
        self.count += len(starts)
        first, last = int(ranges[0][0]), int(ranges[1][-1])
        self.extent = (min(self.extent[0], first), max(self.extent[1], last)) if self.extent else (first, last)
        self._waiting.append(ranges)
        self._waits += ranges[0].size
        if self._waits >= _PART or len(self._waiting) >= _FEW:
            self._settle()

    @property
    def nbytes(self) -> int:
        """Return the bytes of all ranges that are kept."""
        return 16 * self._waits + sum(part.starts.nbytes + part.ends.nbytes for part in self._parts)

    @property
    def length(self) -> int:
        """Return the ns that at least one of the ranges covers."""
        return length_of([self])

    def _all_parts(self) -> list[_PackedRanges]:
        """Return all ranges in parts, which may cover the same time."""
        return [*self._parts, *([_packed(_joined(self._waiting))] if self._waiting else [])]

    def _settle(self) -> None:
        """Merge what waits, and pack it where it is much."""
        ranges = _joined(self._waiting)
        self._waiting, self._waits = [ranges], ranges[0].size
        if 2 * self._waits < _PART:
            return
        self._parts.append(_packed(ranges))
        self._size += self._waits
        self._waiting, self._waits = [], 0
        if self._size > 2 * self._merged + _MANY:
            if _GAIN * _overlapping(self._parts) > self._size:
                parts, self._parts = self._parts, []
                self._parts = [_packed(each) for each in _in_large_pieces(_windows(parts))]
                self._size = sum(part.starts.size for part in self._parts)
            self._merged = self._size


def length_of(unions: Iterable[RangeUnion]) -> int:
    """Return the ns that at least one range of these unions covers."""
    return sum(length(ranges) for ranges in _windows([part for each in unions for part in each._all_parts()]))


def _windows(parts: list[_PackedRanges]) -> Iterator[Ranges]:
    """Yield the merged ranges of all parts, window by window; a range that crosses windows is cut. Empties the list."""
    if not parts:
        return
    edges = np.sort(np.concatenate([part.sample() for part in parts]))[_EACH::_EACH]
    bounds = sorted({min(part.first for part in parts), *edges.tolist(), max(part.last for part in parts)})
    parts.sort(key=lambda part: part.first, reverse=True)
    open_parts: list[_PackedRanges] = []
    for low, high in pairwise(bounds):
        open_parts = [part for part in open_parts if part.last > low]
        while parts and parts[-1].first < high:
            open_parts.append(parts.pop())
        yield _joined([part.within(low, high) for part in open_parts])


def _overlapping(parts: Iterable[_PackedRanges]) -> int:
    """Return how many ranges begin before another part has ended: so many at most are less when all are merged."""
    inside, reached = 0, None
    for part in sorted(parts, key=lambda part: part.first):
        inside += part.begun(reached) if reached is not None else 0
        reached = part.last if reached is None else max(reached, part.last)
    return inside


def _in_large_pieces(pieces: Iterable[Ranges]) -> Iterator[Ranges]:
    """Yield these ranges, which are in order, in pieces that are large enough for a part."""
    waiting: list[Ranges] = []
    size = 0
    for ranges in pieces:
        waiting.append(ranges)
        size += ranges[0].size
        if size >= _PART:
            yield _joined(waiting)
            waiting, size = [], 0
    if size:
        yield _joined(waiting)


def _joined(several: list[Ranges]) -> Ranges:
    """Return all these merged ranges merged."""
    if len(several) == 1:
        return several[0]
    none = np.zeros(0, np.int64)
    return merge(*(np.concatenate([none, *(ranges[side] for ranges in several)]) for side in (0, 1)))

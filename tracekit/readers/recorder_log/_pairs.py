"""Begins and ends become ranges, whole blocks at once; ranges that are still open wait for the next block."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from tracekit.columns.arrays import I64, Mask

_NONE = np.empty(0, np.int64)


@dataclass(slots=True)
class Pending:
    """The items of a block, flat, in the order of the lines. counts, offsets, firsts: of each line."""

    flat: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    values: list[int | float | str] = field(default_factory=list)

    def arrays(self, stride: int) -> tuple[I64, I64]:
        """Return the items, shape (n, stride), times with their offsets, and the number of each record."""
        table = np.array(self.flat, np.int64).reshape(-1, stride)
        counts = np.array(self.counts)
        if any(self.offsets):
            table[:, 1] += np.repeat(np.array(self.offsets, np.int64), counts)
        before = np.cumsum(counts) - counts
        records = np.repeat(np.array(self.firsts, np.int64) - before, counts) + np.arange(len(table))
        return table, records


@dataclass(frozen=True, slots=True)
class Items:
    """Begins (id > 0) and ends (id < 0), in the order in which they happened. All of shape (n,).

    times in ns. records: number of each record. handles, threads: of async items, else empty. cut: the end was
    written by the recorder itself.
    """

    ids: I64
    times: I64
    records: I64
    cut: Mask
    handles: I64
    threads: I64

    @classmethod
    def none(cls) -> Self:
        """Return no items."""
        return cls(_NONE, _NONE, _NONE, np.empty(0, np.bool_), _NONE, _NONE)

    def take(self, index: I64 | Mask) -> Items:
        """Return some of the items."""
        extra = (self.handles[index], self.threads[index]) if len(self.handles) else (_NONE, _NONE)
        return Items(self.ids[index], self.times[index], self.records[index], self.cut[index], *extra)

    def then(self, other: Items) -> Items:
        """Return these items and the others after them."""
        if not len(self.ids) or not len(other.ids):
            return self if len(self.ids) else other
        return Items(
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.times, other.times)),
            np.concatenate((self.records, other.records)),
            np.concatenate((self.cut, other.cut)),
            np.concatenate((self.handles, other.handles)),
            np.concatenate((self.threads, other.threads)),
        )


@dataclass(frozen=True, slots=True)
class Paired:
    """Ranges with their ends, begins that are still open, ends without a begin.

    ends: time of each range's end, shape of `begins`. unfinished: the true end is unknown. end_threads: of async
    ranges. repaired: ranges that were closed because one around them ended.
    """

    begins: Items
    ends: I64
    unfinished: Mask
    end_threads: I64
    opened: Items
    orphans: I64
    repaired: int = 0


def nested(opened: Items, new: Items) -> Paired:
    """Pair the items of one thread. opened: begins from before, outermost first.

    Where all is nested, the items of one depth alternate, so a stable sort by depth brings each begin before its end.
    """
    items = opened.then(new)
    begins = items.ids > 0
    depth = np.cumsum(np.where(begins, 1, -1))
    if len(depth) and depth.min() >= 0:
        level = np.where(begins, depth, depth + 1)
        if level.max() < 1 << 15:
            level = level.astype(np.int16)  # two bytes are sorted by radix, in one pass over the items
        order = np.argsort(level, kind="stable")
        first, second = order[:-1], order[1:]
        pairs = begins[first] & ~begins[second] & (level[first] == level[second])
        start, end = first[pairs], second[pairs]
        if np.array_equal(items.ids[start], -items.ids[end]):
            still = begins.copy()
            still[start] = False
            left = np.flatnonzero(still)
            still_open = items.take(left[np.argsort(level[left])])
            return Paired(items.take(start), items.times[end], items.cut[end], _NONE, still_open, _NONE)
    return _repaired(items)


def _repaired(items: Items) -> Paired:
    """Pair one by one: an end of a range further out closes those inside it; one of no open range is an orphan."""
    stack: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    forced: list[bool] = []
    orphans: list[int] = []
    counts: dict[int, int] = {}
    for place, number in enumerate(items.ids.tolist()):
        if number > 0:
            stack.append(place)
            counts[number] = counts.get(number, 0) + 1
            continue
        if not counts.get(-number):
            orphans.append(place)
            continue
        while True:
            start = stack.pop()
            own = int(items.ids[start])
            counts[own] -= 1
            starts.append(start)
            ends.append(place)
            forced.append(own != -number)
            if own == -number:
                break
    begin, end = np.array(starts, np.int64), np.array(ends, np.int64)
    closed = np.array(forced, np.bool_)
    still_open = items.take(np.array(stack, np.int64))
    lost = items.records[np.array(orphans, np.int64)]
    unfinished: Mask = items.cut[end] | closed
    return Paired(items.take(begin), items.times[end], unfinished, _NONE, still_open, lost, int(closed.sum()))


def by_handle(opened: Items, new: Items) -> Paired:
    """Pair async items: the next item of the same handle is the end of a begin."""
    items = opened.then(new)
    begins = items.ids > 0
    order = np.argsort(items.handles, kind="stable")
    first, second = order[:-1], order[1:]
    pairs = begins[first] & ~begins[second] & (items.handles[first] == items.handles[second])
    start, end = first[pairs], second[pairs]
    lonely = np.ones(len(begins), np.bool_)
    lonely[start] = lonely[end] = False
    still_open = items.take(np.flatnonzero(lonely & begins))
    lost = items.records[np.flatnonzero(lonely & ~begins)]
    return Paired(items.take(start), items.times[end], items.cut[end], items.threads[end], still_open, lost)


def closed(opened: Items, at: int) -> Paired:
    """Return open begins as ranges that end at a time, unfinished."""
    count = len(opened.ids)
    ends = np.full(count, at, np.int64)
    return Paired(opened, ends, np.ones(count, np.bool_), opened.threads, Items.none(), _NONE)


def together(done: list[Paired]) -> tuple[Items, I64, Mask]:
    """Return the nested ranges of several threads as one: begins, ends, unfinished."""
    begins = Items(
        np.concatenate([found.begins.ids for found in done]),
        np.concatenate([found.begins.times for found in done]),
        np.concatenate([found.begins.records for found in done]),
        np.concatenate([found.begins.cut for found in done]),
        _NONE,
        _NONE,
    )
    ends = np.concatenate([found.ends for found in done])
    return begins, ends, np.concatenate([found.unfinished for found in done])

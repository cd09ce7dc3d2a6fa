"""Begins and ends become ranges, whole blocks at once; ranges that are still open wait for the next block."""

from __future__ import annotations

from dataclasses import field
from typing import Self

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Mask
from tracekit.readers.engine.pairing import NESTED, match, take_turns

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
class LogItems:
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

    def take(self, index: I64 | Mask) -> LogItems:
        """Return some of the items."""
        extra = (self.handles[index], self.threads[index]) if len(self.handles) else (_NONE, _NONE)
        return LogItems(self.ids[index], self.times[index], self.records[index], self.cut[index], *extra)

    def then(self, other: LogItems) -> LogItems:
        """Return these items and the others after them."""
        if not len(self.ids) or not len(other.ids):
            return self if len(self.ids) else other
        return LogItems(
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

    begins: LogItems
    ends: I64
    unfinished: Mask
    end_threads: I64
    opened: LogItems
    orphans: I64
    repaired: int = 0


def nested(opened: LogItems, new: LogItems) -> Paired:
    """Pair the items of one thread. opened: begins from before, outermost first.

    An end of a range further out closes those inside it; one of no open range is an orphan.
    """
    items = opened.then(new)
    begins = items.ids > 0
    partner = match(begins, None, NESTED, np.abs(items.ids))
    start = np.flatnonzero(begins & (partner >= 0))
    end = partner[start]
    forced = items.ids[start] != -items.ids[end]
    still_open = items.take(np.flatnonzero(begins & (partner < 0)))
    lost = items.records[np.flatnonzero(~begins & (partner < 0))]
    unfinished: Mask = items.cut[end] | forced
    return Paired(items.take(start), items.times[end], unfinished, _NONE, still_open, lost, int(forced.sum()))


def by_handle(opened: LogItems, new: LogItems) -> Paired:
    """Pair async items: the next item of the same handle is the end of a begin."""
    items = opened.then(new)
    begins = items.ids > 0
    start, end = take_turns(items.handles, begins)
    lonely = np.ones(len(begins), np.bool_)
    lonely[start] = lonely[end] = False
    still_open = items.take(np.flatnonzero(lonely & begins))
    lost = items.records[np.flatnonzero(lonely & ~begins)]
    return Paired(items.take(start), items.times[end], items.cut[end], items.threads[end], still_open, lost)


def closed(opened: LogItems, at: int) -> Paired:
    """Return open begins as ranges that end at a time, unfinished."""
    count = len(opened.ids)
    ends = np.full(count, at, np.int64)
    return Paired(opened, ends, np.ones(count, np.bool_), opened.threads, LogItems.none(), _NONE)


def together(done: list[Paired]) -> tuple[LogItems, I64, Mask]:
    """Return the nested ranges of several threads as one: begins, ends, unfinished."""
    begins = LogItems(
        np.concatenate([found.begins.ids for found in done]),
        np.concatenate([found.begins.times for found in done]),
        np.concatenate([found.begins.records for found in done]),
        np.concatenate([found.begins.cut for found in done]),
        _NONE,
        _NONE,
    )
    ends = np.concatenate([found.ends for found in done])
    return begins, ends, np.concatenate([found.unfinished for found in done])

"""The nodes of a critical path's graph, made of ranges and work, and the edges that waits make between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import IntEnum
from heapq import heappop, heappush
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from tracekit.analysis.intervals import Ranges, merge
from tracekit.analysis.links import one_key
from tracekit.analysis.segments import (
    INT64_MAX,
    as_int64,
    check_same_length,
    gathered,
    group_bounds,
    narrow,
    place_type,
    previous_greater,
    rows_by,
    run_starts,
)
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64, Codes, Mask, Numbers, Rows, sort

__all__ = ["PathDevice", "PathHost", "PathNodes", "PathPart", "Waits", "build_nodes", "in_order", "pieces_of"]

# The nodes of a critical path's graph: host threads cut into stretches, device work on streams (see critical_path).


LOWEST = -(1 << 63)
_FEW_LANES = 64
_BLOCK = 1 << 16
"""Rows that are looked at together: what is made of them on the way stays in the cache."""


class PathPart(IntEnum):
    """The classes of time on the path."""

    HOST = 0
    LAUNCH = 1
    KERNEL = 2
    COPY = 3
    SYNC = 4
    IDLE = 5


class PathStop(Protocol):
    """Waits of threads: each thread does nothing from `froms` to `untils`. All of shape (n,)."""

    @property
    def threads(self) -> I64:
        """The threads that wait."""

    @property
    def froms(self) -> I64:
        """The ns at which each begins to wait."""

    @property
    def untils(self) -> I64:
        """The ns at which each goes on."""


@dataclass(frozen=True, slots=True, eq=False)
class PathHost:
    """Ranges and calls on host threads, shape (n,), any order; ranges of one thread should nest.

    threads: 0 .. t - 1. starts, ends: ns. names: codes, 0 or more. parts: `PathPart`. active: false for a range in
    which a thread may also be waiting (a step, a range of the user's program). processes: of each thread, shape (t,).
    """

    threads: Codes
    starts: I64
    ends: I64
    names: Codes
    parts: Codes
    active: Mask
    processes: I64

    def check(self) -> None:
        """Raise TypeError or ValueError where the columns do not fit."""
        _check(threads=self.threads, starts=self.starts, ends=self.ends, names=self.names, parts=self.parts)
        if self.active.shape != self.threads.shape:
            raise ValueError("active: a value a row is needed")


@dataclass(frozen=True, slots=True, eq=False)
class PathDevice:
    """Work on streams, shape (m,), any order.

    streams: 0 .. s - 1. launch: row of `PathHost` that launched it, else -1.
    """

    streams: Codes
    starts: I64
    ends: I64
    names: Codes
    parts: Codes
    launch: Rows

    def check(self, hosts: int) -> None:
        """Raise TypeError or ValueError where the columns do not fit."""
        _check(streams=self.streams, starts=self.starts, ends=self.ends, names=self.names, launch=self.launch)
        if self.launch.size and (int(self.launch.max()) >= hosts or int(self.launch.min()) < -1):
            raise ValueError("launch: a row of the host is needed")


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Calls that wait for device work, shape (w,), and streams that wait for streams, shape (v,).

    calls: row of `PathHost`. streams: the stream that it waits for, ALL of the graph, or ANY for an unknown one.
    before: ns; it waits for work that was launched before. works: the one device row that it waits for; -1 for none.
    stream_heads: the stream that waits; stream_after: ns; work launched there from then on waits. stream_tails: the
    stream that it waits for; stream_before: ns; it waits for work launched there before then. orders: rows of
    `PathHost`, shape (o,): calls that tell a stream to wait, for what is not known; order_streams: that stream, or ANY.
    """

    calls: I64
    streams: I64
    before: I64
    works: I64
    stream_heads: I64
    stream_after: I64
    stream_tails: I64
    stream_before: I64
    orders: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    order_streams: I64 = field(default_factory=lambda: np.zeros(0, np.int64))

    ALL = -1
    ANY = -2

    @classmethod
    def none(cls) -> Waits:
        """Return no waits at all."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, empty, empty, empty, empty, empty, empty)


@dataclass(frozen=True, slots=True, eq=False)
class PathNodes:
    """Nodes chain by chain, in order on each, none overlapping another of its chain; shape (n,).

    chain: a thread, or a stream (several chains where its work overlaps). row: of `PathHost`, or of
    `PathDevice`. launch: the node that the launch depends on, -1 for none. devices_from: the first node on a device.
    begin: of the window. join_head, join_tail, join_wait: edges of waits; -1 as wait: between two streams. woken_head,
    woken_tail: a thread that was free seems to have waited for another, woken_long: for long. ordered: a call told the
    stream to wait before this work. unseen: how many waits were not looked at, since there are too many. Numbers of
    nodes, rows and chains are as narrow as they fit.
    """

    starts: I64
    ends: I64
    names: Codes
    parts: Codes
    chain: Codes
    row: Rows
    launch: Rows
    devices_from: int
    begin: int
    join_head: I64
    join_tail: I64
    join_wait: I64
    woken_head: I64
    woken_tail: I64
    woken_long: Mask
    ordered: Mask
    unseen: int


def in_order(nodes: PathNodes, tail: Rows, head: I64) -> Mask:
    """Return which edges run forward in time; nodes that touch in one instant compare by (start, end, number)."""
    before: Mask = nodes.ends[tail] < nodes.starts[head]
    touch = np.flatnonzero((tail >= 0) & (nodes.ends[tail] == nodes.starts[head]))
    a, b = tail[touch], head[touch]
    # Where neither is less, both nodes are the same instant.
    before[touch] = (nodes.starts[a] < nodes.starts[b]) | (nodes.ends[a] < nodes.ends[b]) | (a < b)
    return before & (tail >= 0)


def _check(**columns: Numbers) -> None:
    for name, column in columns.items():
        as_int64(column[:0], name)  # the type alone: a copy of each column would be large
    check_same_length(**columns)


@dataclass(slots=True, eq=False)
class Works:
    """Device work of the window in order of lane and start. rows: of `PathDevice`. streams: as given; lanes: disjoint.

    launch: row of `PathHost`, -1 where unknown or where the work began before its call. place: of each row of
    `PathDevice`; -1 for rows outside the window. Rows are those of `CutCopies`.
    """

    host: PathHost
    rows: Rows
    lanes: Rows
    streams: Codes
    starts: I64
    ends: I64
    launch: Rows
    place: Rows

    @classmethod
    def of(cls, host: PathHost, copies: CutCopies, low: int, high: int) -> Works:
        """Return the work that runs in the window, or was launched there."""
        device, size = copies.device, copies.size
        launch = np.full(size, -1, place_type(host.starts.size))
        inside = np.empty(size, np.bool_)
        for first in range(0, size, _BLOCK):
            at = np.arange(first, min(first + _BLOCK, size))
            block = slice(first, first + at.size)
            (starts, ends), by = copies.times_of(at), device.launch[copies.row(at)]
            called = host.starts[by] if host.starts.size else starts
            # Work that began before its launch call cannot depend on that call.
            known = (by >= 0) & (starts >= called) if host.starts.size else np.zeros(starts.size, np.bool_)
            launch[block][known] = by[known]
            inside[block] = (ends > low) & (np.where(known, called, starts) < high)
        rows = np.flatnonzero(inside).astype(place_type(size))
        del inside
        starts, ends = copies.times_of(rows)
        if bool((starts[1:] < starts[:-1]).any()):  # the rests of copies are behind all rows
            rows = gathered(rows, np.argsort(starts, kind="stable"))
        del starts, ends
        # Then one sort of small numbers is mostly all that is needed.
        streams = gathered(device.streams, copies.row(rows))
        order = np.argsort(narrow(streams), kind="stable")
        rows, streams = gathered(rows, order), gathered(streams, order)
        del order
        starts, ends = copies.times_of(rows)
        if not _in_order_of_time(streams, starts, ends):
            again = np.lexsort((ends, starts, streams))
            rows, streams, starts, ends = (each[again] for each in (rows, streams, starts, ends))
        lanes = _disjoint(streams, starts, ends)
        np.maximum(starts, low, out=starts)
        if lanes.size and bool((lanes[1:] < lanes[:-1]).any()):
            again = np.argsort(narrow(lanes), kind="stable")
            rows, lanes, streams = gathered(rows, again), gathered(lanes, again), gathered(streams, again)
            starts, ends = gathered(starts, again), gathered(ends, again)
        place = np.full(size, -1, rows.dtype)
        place[rows] = np.arange(rows.size, dtype=rows.dtype)
        return cls(host, rows, lanes, streams, starts, ends, gathered(launch, rows), place)

    def called(self, at: Rows) -> I64:
        """Return when the call of each of these works began, the lowest int64 where that is unknown."""
        launch = self.launch[at]
        called = np.full(launch.size, LOWEST)
        known = np.flatnonzero(launch >= 0)
        called[known] = self.host.starts[launch[known]]
        return called

    def release(self, at: Rows) -> I64:
        """Return up to when, in the window, the launch calls of these works held them, ns; their launch is known."""
        return np.minimum(self.host.ends[self.launch[at]], self.starts[at])

    def end(self, at: Rows) -> I64:
        """Return the ends of these works, the lowest int64 for -1."""
        ends = np.full(at.size, LOWEST)
        known = np.flatnonzero(at >= 0)
        ends[known] = self.ends[at[known]]
        return ends

    def by_stream(self) -> dict[int, I64]:
        """Return the places of each stream's work by start."""
        streams = narrow(self.streams)
        return {stream: at[np.argsort(self.starts[at], kind="stable")] for stream, at in rows_by(streams)}


def _in_order_of_time(streams: Codes, starts: I64, ends: I64) -> bool:
    """Return whether rows, sorted by stream, are in order of (start, end) on each."""
    for first in range(0, streams.size, _BLOCK):
        stream, start, end = (each[first : first + _BLOCK + 1] for each in (streams, starts, ends))
        later = (stream[1:] != stream[:-1]) | (start[1:] > start[:-1])
        later |= (start[1:] == start[:-1]) & (end[1:] >= end[:-1])
        if not later.all():
            return False
    return True


def _disjoint(streams: Codes, starts: I64, ends: I64) -> Rows:
    """Return lanes on which nothing overlaps, for rows by (stream, start, end): extra ones where work of one overlaps.

    Loops only over the rows that overlap. These are rare, since a stream works in order.
    """
    extra = int(streams.max()) + 1 if streams.size else 0
    out = streams.astype(place_type(extra + streams.size))
    for first, last in pairwise([*run_starts(streams).tolist(), streams.size]):
        # Where all before has ended, the row is on the lane itself, whatever the rows before were on.
        follows = starts[first + 1 : last] >= np.maximum.accumulate(ends[first : last - 1])
        if follows.all():
            continue
        overlaps = first + np.flatnonzero(~(np.append(True, follows) & np.append(follows, True)))
        names, free, busy = list[int](), list[int](), list[tuple[int, int]]()
        tracks = []
        for start, end in zip(starts[overlaps].tolist(), ends[overlaps].tolist(), strict=True):
            while busy and busy[0][0] <= start:
                heappush(free, heappop(busy)[1])
            if not free:
                heappush(free, len(names))
                names.append(extra if names else int(streams[first]))
                extra += len(names) > 1
            track = heappop(free)
            heappush(busy, (end, track))
            tracks.append(names[track])
        out[overlaps] = tracks
    return out


@dataclass(slots=True, eq=False)
class PathPieces:
    """Stretches of host threads, each in one innermost range; by lane and start."""

    lanes: Codes
    starts: I64
    ends: I64
    rows: Rows

    def leave(self, stops: Sequence[PathStop], threads: int) -> None:
        """Leave out the pieces that lie in a wait."""
        edge = np.zeros(self.starts.size + 1, np.int32)
        bounds = group_bounds(self.lanes, threads)
        for stop in stops:
            np.add.at(edge, search(bounds, self.starts, stop.threads, stop.froms, "left"), 1)
            np.add.at(edge, search(bounds, self.starts, stop.threads, stop.untils, "left"), -1)
        keep = np.cumsum(edge, out=edge)[:-1] <= 0
        del edge
        self.lanes = self.lanes[keep]
        self.starts = self.starts[keep]
        self.ends = self.ends[keep]
        self.rows = self.rows[keep]


def pieces_of(lanes: Codes, starts: I64, ends: I64, split_lanes: Codes, split_times: I64) -> PathPieces:
    """Cut threads wherever a range begins or ends and at the splits; rows: the innermost range of each piece.

    The innermost range is the open one that began last, so ranges that overlap in part do no harm. Threads are cut one
    by one where they are few: these columns are the largest of a report.
    """
    of_lane = dict(rows_by(narrow(lanes)))
    if len(of_lane) > _FEW_LANES:
        del of_lane
        return _pieces_at_once(lanes, starts, ends, split_lanes, split_times)
    splits_of_lane = dict(rows_by(narrow(split_lanes)))
    row, none = place_type(lanes.size), np.zeros(0, np.int64)
    code, sizes = [0], [0]
    columns: tuple[list[I64], list[I64], list[Rows]] = ([none], [none], [none.astype(row)])
    for lane, rows in of_lane.items():
        splits = np.sort(split_times[splits_of_lane[lane]]) if lane in splits_of_lane else none
        for pieces in _pieces_of_lane(rows.astype(row), starts[rows], ends[rows], splits):
            for column, part in zip(columns, pieces, strict=True):
                column.append(part)
            code.append(lane)
            sizes.append(pieces[0].size)
    # The columns are long: none is there twice for longer than it takes to join it.
    del lanes, starts, ends, split_lanes, split_times, of_lane, splits_of_lane
    begins, untils, owners = columns
    del columns
    of_piece = np.repeat(np.array(code, np.min_scalar_type(-max(code) - 2)), sizes)
    found = PathPieces(of_piece, none, none, none)
    found.starts = np.concatenate(begins)
    del begins
    found.ends = np.concatenate(untils)
    del untils
    found.rows = np.concatenate(owners)
    return found


def _pieces_of_lane(rows: Rows, starts: I64, ends: I64, splits: I64) -> Iterator[tuple[I64, I64, Rows]]:
    """Yield starts, ends and rows of the pieces of one thread. splits: ascending.

    It is cut where no range is open, so that what is sorted stays in the cache.
    """
    if bool((starts[1:] < starts[:-1]).any()):
        order = np.argsort(starts, kind="stable")
        rows, starts, ends = rows[order], starts[order], ends[order]
    idle = np.flatnonzero(starts[1:] >= np.maximum.accumulate(ends[:-1])) + 1
    firsts = np.append(idle, rows.size)[np.searchsorted(idle, np.arange(_BLOCK, rows.size, _BLOCK))]
    firsts = sets.unique(np.concatenate((np.zeros(1, np.int64), firsts)))
    firsts = firsts[firsts < rows.size]
    of_block = np.searchsorted(splits, starts[firsts]).tolist()
    bounds = zip(pairwise([*firsts.tolist(), rows.size]), pairwise([*of_block, splits.size]), strict=True)
    for (first, last), (low, high) in bounds:
        begin, end, row = _pieces(starts[first:last], ends[first:last], splits[low:high])
        yield begin, end, rows[first:last][row]


def _pieces(starts: I64, ends: I64, splits: I64) -> tuple[I64, I64, I64]:
    """Return the starts, ends and innermost ranges of the pieces of a thread."""
    n = starts.size
    time = np.concatenate((starts, ends, splits))
    earliest = int(time.min())
    if int(time.max()) - earliest >= 1 << 62:
        found = _pieces_at_once(np.zeros(n, np.int64), starts, ends, np.zeros(splits.size, np.int64), splits)
        return found.starts, found.ends, found.rows.astype(np.int64)
    # In order of time, ends and splits before what begins then, and of that the longest first.
    time -= earliest
    time <<= 1
    time[:n] |= 1
    order = np.argsort(time, kind="stable")
    time = time[order]
    opens = (time & 1).astype(np.bool_)
    same = (time[1:] == time[:-1]) & opens[1:]
    if same.any():
        at = np.flatnonzero(np.append(same, False) | np.append(False, same))
        order[at] = order[at][np.lexsort((-ends[order[at]], time[at]))]
    time >>= 1
    time += earliest
    begins = np.flatnonzero(opens)
    until = np.full(time.size, LOWEST)
    until[begins] = ends[order[begins]]
    owner = previous_greater(until, np.where(opens, INT64_MAX, time), np.zeros(1, np.intp))
    owner[begins] = begins
    real = np.flatnonzero((time[1:] > time[:-1]) & (owner[:-1] >= 0))
    return time[real], time[real + 1], order[owner[real]]


def _pieces_at_once(lanes: Codes, starts: I64, ends: I64, split_lanes: Codes, split_times: I64) -> PathPieces:
    n = starts.size
    # No column stays longer than it is needed.
    lane = narrow(np.concatenate((lanes, lanes, split_lanes)).astype(np.int64, copy=False))
    time = np.concatenate((starts, ends, split_times))
    del lanes, starts, split_lanes, split_times
    opens = np.zeros(time.size, np.bool_)
    opens[:n] = True
    longest_first = np.zeros(time.size, np.int64)
    np.negative(ends, out=longest_first[:n])
    order = np.lexsort((longest_first, opens, time, lane)).astype(place_type(time.size))
    del longest_first
    until = np.full(time.size, LOWEST)
    until[:n] = ends
    del ends
    lane = lane[order]
    time = time[order]
    opens = opens[order]
    until = until[order]
    owner = previous_greater(until, np.where(opens, INT64_MAX, time), run_starts(lane))
    del until
    begins = np.flatnonzero(opens)
    owner[begins] = begins
    real = np.flatnonzero((lane[1:] == lane[:-1]) & (time[1:] > time[:-1]) & (owner[:-1] >= 0)) if time.size else order
    row: Rows = order[owner[real]]
    return PathPieces(lane[real].astype(np.int64), time[real], time[real + 1], row)


def search(bounds: I64, values: I64, lanes: Codes, times: I64, side: Literal["left", "right"]) -> I64:
    """Return `searchsorted` within each query's lane l; values ascend within it, bounds[l] .. bounds[l + 1]."""
    out = np.zeros(lanes.size, np.int64)
    order = np.argsort(narrow(lanes), kind="stable")
    for first, last in pairwise([*run_starts(lanes[order]).tolist(), lanes.size]):
        queries = order[first:last]
        lane = int(lanes[queries[0]])
        low, high = int(bounds[lane]), int(bounds[lane + 1])
        out[queries] = low + np.searchsorted(values[low:high], times[queries], side)
    return out


# Waits: of host calls for device work, of streams for streams, of threads for threads (see critical_path).
#
# **Calls.** A synchronizing call waits for the last work that was launched before it on the streams that it names.
# Work that ends after the call has returned was not waited for. Where the stream is not known (a handle that the
# profiler did not resolve), it is the stream whose work ended last inside the call. Clocks of host and device may
# disagree by `TOLERANCE` ns.
#
# **Copies.** A call that lasts for half of its copy or more was waiting for it. From pageable memory the driver hands
# the
# copy over in pieces, and the call may return before the last of them has ended: what the call waited for is the copy
# up
# to then, so the copy is cut there.
#
# Such a call works only while it issues the copy. Where the work before the copy ended later than that, the call waited
# for that work: it issues, waits, works again up to the start of the copy (staging, if that is later than the end of
# the work before), and waits for the copy. The work before is that of the same stream, else what ended on any stream up
# to `HELD` ns before the copy began (the default stream waits for others, and no row says so). How long the issue takes
# is the median of calls of the same name that copied alike and had nothing to wait for: their stream was idle, or they
# returned before their copy began. Without such a call it is that of the same name with other copies, else the shortest
# time from call to copy of that name; never more than `MOST_ISSUE`.
#
# **Threads.** Traces do not say that a thread waits for another (PyTorch's backward pass runs on a thread of its own).
# A
# thread that does nothing for LEAST_FREE ns, while another of its process works and falls silent before the first goes
# on, seems to have waited for that one. "Works" is LEAST_SHARE of the pause, or up to SOON ns before its end. A thread
# that is in a range of the user's program could be computing there: then only the operators and calls of the other
# thread
# count as its work; else any range of it does, if one begins or ends in the pause. Who wakes a thread that is in
# nothing
# at all need not fall silent, unless that thread is the main one. None of this is certain: an upper bound allows for
# both, that the thread waited and that it was busy with something that no row shows (`_path_doubts`). The path takes it
# for a wait where the pause is long: LONG ns, or LEAST_TIMES the thread's median pause.


TOLERANCE = 2_000
LEAST_FREE = 20_000
LEAST_TIMES = 5
LONG = 1_000_000
LEAST_SHARE = 0.5
SOON = 50_000
HELD = 20_000
"""ns: a copy begins within this time after the work of another stream that held it up."""
MOST_ISSUE = 50_000
"""ns: the most time that a call takes to issue a copy, where no call of its name shows less."""
_ENOUGH_PAUSES = 8
_MOST = 10_000
"""The most pauses of threads that are taken for possible waits, the longest: each is evaluated on its own."""
_MOST_PAIRS = 50_000_000
"""The most pairs of a pause and another thread of its process that are looked at: those of the longest pauses."""
_MOST_WIDE = 10_000_000
"""The most pairs of a call and a stream, of calls that may wait for any stream: those of the longest calls."""


@dataclass(frozen=True, slots=True, eq=False)
class WorkStops:
    """Times in which threads wait for device work: from `froms` to `untils`, ns.

    works: the place of the work. numbers: which of `Waits`.
    """

    threads: I64
    froms: I64
    untils: I64
    works: I64
    numbers: I64


@dataclass(frozen=True, slots=True, eq=False)
class ThreadStops:
    """Times in which threads wait for other threads: from `froms` to `untils`, ns.

    long: the pause is longer than what is usual on the thread.
    """

    threads: I64
    froms: I64
    untils: I64
    others: I64
    long: Mask


@dataclass(frozen=True, slots=True, eq=False)
class CutCopies:
    """The rows of `PathDevice` whose copies are cut, ascending, and the times at which they are.

    The piece up to the cut keeps the row's number; the rest of copy i is row n + i, if n are the rows of the device.
    """

    device: PathDevice
    rows: I64
    times: I64

    @classmethod
    def of(cls, host: PathHost, device: PathDevice, waits: Waits) -> CutCopies:
        """Cut copies where the call that waited for them returned."""
        known = waits.works >= 0
        row, returns = waits.works[known], host.ends[waits.calls[known]]
        start, end = device.starts[row], device.ends[row]
        cut = (returns < end) & (returns - start >= LEAST_SHARE * (end - start))
        row, first = np.unique(row[cut], return_index=True)
        return cls(device, row, returns[cut][first])

    @property
    def size(self) -> int:
        """Return the number of rows, those of the rests included."""
        return self.device.starts.size + self.rows.size

    def row(self, at: Rows) -> Rows:
        """Return the row of `PathDevice` of each of these rows."""
        size = self.device.starts.size
        rest = np.flatnonzero(at >= size)
        if not rest.size:
            return at
        row = at.copy()
        row[rest] = self.rows[at[rest] - size]
        return row

    def times_of(self, at: Rows) -> tuple[I64, I64]:
        """Return the starts and ends of these rows, no end before its start; block by block, as `gathered` does."""
        starts, ends = np.empty(at.size, np.int64), np.empty(at.size, np.int64)
        for first in range(0, at.size, _BLOCK):
            block = slice(first, first + _BLOCK)
            starts[block], ends[block] = self._times(at[block])
        return starts, ends

    def _times(self, at: Rows) -> tuple[I64, I64]:
        row, size = self.row(at), self.device.starts.size
        starts, ends = self.device.starts[row], self.device.ends[row]
        np.maximum(starts, ends, out=ends)
        if self.rows.size:
            place = np.minimum(np.searchsorted(self.rows, row), self.rows.size - 1)
            cut = np.flatnonzero(self.rows[place] == at)
            ends[cut] = self.times[place[cut]]
            rest = np.flatnonzero(at >= size)
            starts[rest] = self.times[at[rest] - size]
        return starts, ends


def _issue_times(host: PathHost, work: Works, at: I64, names: Codes, idle: Mask) -> I64:
    """Return how long the call of each of these copies takes to issue it.

    names: of the copies. idle: the copy had nothing to wait for when its call began.
    """
    call = work.launch[at]
    until_copy, until_return = work.starts[at] - host.starts[call], host.ends[call] - host.starts[call]
    free = idle | (until_return < until_copy)
    takes = np.minimum(until_copy, until_return)
    of_call = host.names[call].astype(np.int64)
    alike = one_key([of_call, names.astype(np.int64)], at.size)
    issue = np.full(at.size, -1, np.int64)
    for classes in (of_call, alike):  # what copies alike comes last, so it counts
        for _, mine in rows_by(classes):
            known = takes[mine[free[mine]]]
            if known.size:
                issue[mine] = np.partition(known, (known.size - 1) // 2)[(known.size - 1) // 2]
    for _, mine in rows_by(of_call):
        unknown = mine[issue[mine] < 0]
        if unknown.size:
            issue[unknown] = takes[mine].min()
    return np.clip(issue, 0, MOST_ISSUE)


@dataclass(frozen=True, slots=True, eq=False)
class _WorkBefore:
    """The work that other work may have waited for, as places, -1 for none.

    same: the work before on the lane. other: what ended last before the work began, if it held that work up.
    """

    same: I64
    other: I64

    @classmethod
    def of(cls, work: Works, at: I64) -> _WorkBefore:
        """Return it for these works."""
        follows = (at > 0) & (work.lanes[at] == work.lanes[at - 1])
        by_end = np.argsort(work.ends, kind="stable")
        latest = np.append(by_end, -1)[np.searchsorted(work.ends[by_end], work.starts[at], "right") - 1]
        held = (latest >= 0) & (work.starts[at] - work.end(latest) <= HELD) & (work.launch[latest] != work.launch[at])
        return cls(np.where(follows, at - 1, -1), np.where(held, latest, -1))


def _before_copies(
    host: PathHost, device: CutCopies, work: Works, copies: I64, places: I64, calls: I64, low: int
) -> WorkStops:
    """Return the waits of copying calls for the work before their copy. copies: which of `Waits`; places: the copy."""
    # A call may copy in pieces: what it waited for came before the first of them.
    copies_of = np.zeros(host.starts.size, np.bool_)
    copies_of[calls] = True
    linked = np.flatnonzero((work.launch >= 0) & copies_of[work.launch])
    linked = linked[np.argsort(work.starts[linked], kind="stable")[::-1]]
    first = np.full(host.starts.size, -1, place_type(work.rows.size))
    first[work.launch[linked]] = linked
    piece = np.where(first[calls] >= 0, first[calls], places)
    del first, linked, copies_of

    known = np.flatnonzero((work.launch >= 0) & (device.device.parts[device.row(work.rows)] == PathPart.COPY))
    at, of_both = np.unique(np.concatenate((known, piece)), return_inverse=True)
    before = _WorkBefore.of(work, at)
    begun = np.where(work.launch[at] >= 0, work.called(at), work.starts[at])
    idle = (work.end(before.same) <= begun) & (work.end(before.other) <= begun)
    issue = np.zeros(at.size, np.int64)  # of work that is no known copy
    if known.size:
        issue[of_both[: known.size]] = _issue_times(
            host, work, known, device.device.names[device.row(work.rows[known])], idle[of_both[: known.size]]
        )
    of_piece = of_both[known.size :]
    froms = np.maximum(host.starts[calls] + issue[of_piece], low)
    same, other = before.same[of_piece], before.other[of_piece]
    waited_for = np.where(work.end(same) > froms, same, other)
    until = work.end(waited_for)
    waited = (until > froms + TOLERANCE) & (until <= work.starts[piece])
    calls = calls[waited]
    return WorkStops(host.threads[calls], froms[waited], until[waited], waited_for[waited], copies[waited])


def for_devices(
    host: PathHost, device: CutCopies, work: Works, waits: Waits, low: int, high: int
) -> tuple[list[WorkStops], int]:
    """Return the waits of calls, one for each stream that a call waits for, and how many calls were not looked at."""
    stops_of_calls = []
    copies = np.flatnonzero(waits.works >= 0)
    copies = copies[work.place[waits.works[copies]] >= 0]
    place = work.place[waits.works[copies]]
    call = waits.calls[copies]
    known = work.launch[place] >= 0
    held = work.starts[place].copy()
    held[known] = work.release(place[known])
    waited = (work.ends[place] <= host.ends[call]) & (held > low)
    copies, place, call, held = copies[waited], place[waited], call[waited], held[waited]
    stops_of_calls.append(WorkStops(host.threads[call], held, work.ends[place], place, copies))
    if copies.size:
        stops_of_calls.append(_before_copies(host, device, work, copies, place, call, low))

    calls = np.flatnonzero((waits.works < 0) & (host.ends[waits.calls] > low) & (host.starts[waits.calls] < high))
    if not calls.size:
        return [stops for stops in stops_of_calls if stops.threads.size], 0
    row = waits.calls[calls]
    begins, returns = host.starts[row], host.ends[row]
    best, best_end = np.zeros(calls.size, np.int64), begins.copy()
    wants = waits.streams[calls]
    parts: list[tuple[I64, I64]] = []
    latest = begins.copy()
    streams = work.by_stream()
    wide = np.flatnonzero((wants == Waits.ALL) | (wants == Waits.ANY))
    looked = wide[_longest((returns - begins)[wide], _MOST_WIDE // max(len(streams), 1))]
    of_one = dict(rows_by(wants))
    for stream, on_stream in streams.items():
        asked = sets.union(looked, of_one[stream]) if stream in of_one else looked
        last = np.searchsorted(np.maximum.accumulate(work.called(on_stream)), waits.before[calls[asked]], "left") - 1
        # The last of these whose launch is known must have ended; what has no known launch may have come later.
        sure_of = np.maximum.accumulate(np.where(work.launch[on_stream] >= 0, np.arange(on_stream.size), -1))
        surely = np.append(sure_of, -1)[last]  # -1 is the last place: nothing was launched before
        over = (surely < 0) | (work.ends[on_stream[np.maximum(surely, 0)]] <= returns[asked] + TOLERANCE)
        last = np.minimum(last, np.searchsorted(work.starts[on_stream], returns[asked], "left") - 1)
        ended = work.ends[on_stream[np.maximum(last, 0)]]
        known = (last >= 0) & (ended <= returns[asked] + TOLERANCE) & over
        sure = np.flatnonzero(known & (wants[asked] != Waits.ANY))
        parts.append((asked[sure], on_stream[last[sure]]))
        latest[asked[sure]] = np.maximum(latest[asked[sure]], ended[sure])
        maybe = np.flatnonzero(known & (wants[asked] == Waits.ANY) & (ended > best_end[asked]))
        best[asked[maybe]], best_end[asked[maybe]] = on_stream[last[maybe]], ended[maybe]
    guessed = np.flatnonzero(best_end > begins)
    parts.append((guessed, best[guessed]))
    latest[guessed] = best_end[guessed]
    for which, place in parts:
        stops_of_calls.append(WorkStops(host.threads[row[which]], begins[which], latest[which], place, calls[which]))
    return [stops for stops in stops_of_calls if stops.threads.size], wide.size - looked.size


def told_to_wait(host: PathHost, work: Works, waits: Waits) -> Mask:
    """Return for each place whether a call told its stream to wait, after the launch of the work before it there."""
    told = np.zeros(work.rows.size, np.bool_)
    if not waits.orders.size:
        return told
    at, stream = host.starts[waits.orders], waits.order_streams.copy()
    # A call does not name its stream in most traces: it is that of the next work that its thread launches.
    unknown = stream == Waits.ANY
    launched = np.flatnonzero(work.launch >= 0)
    called = work.called(launched)
    order = np.argsort(called, kind="stable")
    launched, called = launched[order], called[order]
    unknown = np.flatnonzero(unknown)
    by_thread = dict(rows_by(host.threads[work.launch[launched]]))
    for thread, places in rows_by(host.threads[waits.orders[unknown]]):
        ours, on_thread = unknown[places], by_thread.get(thread, unknown[:0])
        following = np.searchsorted(called[on_thread], at[ours], "left")
        stream[ours] = np.append(work.streams[launched[on_thread]], Waits.ANY)[following]
    streams = work.by_stream()
    for number, orders in rows_by(stream):
        if number not in streams:
            continue
        on_thread = streams[number]
        first = np.searchsorted(np.maximum.accumulate(work.called(on_thread)), at[orders], "left")
        told[on_thread[first[first < on_thread.size]]] = True
    return told


def streams_for_streams(work: Works, waits: Waits) -> tuple[I64, I64]:
    """Return for each wait of a stream the work that waited and the work that it waited for, as places."""
    heads, tails = np.full(waits.stream_heads.size, -1, np.int64), np.full(waits.stream_heads.size, -1, np.int64)
    if not heads.size:
        return heads, tails
    of_head, of_tail, none = dict(rows_by(waits.stream_heads)), dict(rows_by(waits.stream_tails)), heads[:0]
    for stream, on_stream in work.by_stream().items():
        if stream not in of_head and stream not in of_tail:
            continue
        called = np.maximum.accumulate(work.called(on_stream))
        ours = of_head.get(stream, none)
        at = np.searchsorted(called, waits.stream_after[ours], "left")
        heads[ours[at < on_stream.size]] = on_stream[at[at < on_stream.size]]
        ours = of_tail.get(stream, none)
        at = np.searchsorted(called, waits.stream_before[ours], "left") - 1
        tails[ours[at >= 0]] = on_stream[at[at >= 0]]
    known = (heads >= 0) & (tails >= 0)
    return heads[known], tails[known]


def between_threads(host: PathHost, timed: Rows, low: int, high: int, main: int) -> tuple[list[ThreadStops], int]:
    """Return the waits of threads for other threads of their process, as far as the schedule tells.

    The number is that of the pauses that were not looked at.
    """
    of_thread = list(rows_by(narrow(host.threads[timed])))
    if len(of_thread) < 2:
        return [], 0
    seen = [_SeenWaits.of(thread, timed[at], host, low, high) for thread, at in of_thread]
    del of_thread
    pauses = [_pauses((each.runs.begins, each.runs.ends), low) for each in seen]
    sizes = [froms.size for froms, _, _ in pauses]
    froms, untils = (np.concatenate([each[i] for each in pauses]) for i in (0, 1))
    length = untils - froms
    long = length >= np.repeat(np.array([usual for _, _, usual in pauses], np.int64), sizes)
    thread = np.repeat(np.array([each.thread for each in seen], np.int64), sizes)
    within = [each.cover.between(go, stop) for each, (go, stop, _) in zip(seen, pauses, strict=True)]
    bare = 2 * np.concatenate(within) < length
    best, best_end = np.zeros(froms.size, np.int64), froms.copy()
    process = host.processes[np.array([each.thread for each in seen], np.int64)]
    unseen = 0
    members = {number: [seen[at] for at in rows.tolist()] for number, rows in rows_by(process)}
    for number, pause in rows_by(np.repeat(process, sizes)):
        longest = pause[_longest(length[pause], _MOST_PAIRS // len(members[number]))]
        unseen += pause.size - longest.size
        for other in members[number]:
            near = longest[
                (untils[longest] > other.edges[0])
                & (froms[longest] < other.edges[-1])
                & (thread[longest] != other.thread)
            ]
            if not near.size:
                continue
            ended = _woke(other, froms[near], untils[near], bare[near], thread[near] == main)
            better = ended > best_end[near]
            best[near[better]], best_end[near[better]] = other.thread, ended[better]
    stopped = np.flatnonzero(best_end > froms)
    stopped = stopped[_longest((best_end - froms)[stopped], _MOST)]
    stops = ThreadStops(thread[stopped], froms[stopped], best_end[stopped], best[stopped], long[stopped])
    return [stops] if stopped.size else [], unseen


@dataclass(frozen=True, slots=True, eq=False)
class _SeenWaits:
    """A thread in the window. runs: its work, merged; cover: all its ranges, merged; edges: of all, ascending."""

    thread: int
    runs: _Covered
    cover: _Covered
    edges: I64

    @staticmethod
    def of(thread: int, ranges: Rows, host: PathHost, low: int, high: int) -> _SeenWaits:
        """ranges: the thread's ranges."""
        first, last = np.clip(host.starts[ranges], low, high), np.clip(host.ends[ranges], low, high)
        active = host.active[ranges]
        cover = _Covered.of(merge(first, last))
        runs = cover if active.all() else _Covered.of(merge(first[active], last[active]))
        edges = np.concatenate((first, last))
        sort(edges)
        return _SeenWaits(thread, runs, cover, edges)


@dataclass(frozen=True, slots=True, eq=False)
class _Covered:
    """Merged ranges, and the ns that lie in those before each one."""

    begins: I64
    ends: I64
    sums: I64

    @staticmethod
    def of(ranges: Ranges) -> _Covered:
        begins, ends = ranges
        return _Covered(begins, ends, np.append(0, np.cumsum(ends - begins)))

    def between(self, froms: I64, untils: I64) -> I64:
        """Return how many ns of the ranges lie between two times each."""
        return self._before(untils) - self._before(froms)

    def _before(self, at: I64) -> I64:
        if not self.begins.size:
            return np.zeros(at.size, np.int64)
        which = np.searchsorted(self.begins, at, "right")
        near = np.maximum(which - 1, 0)
        begins = self.begins[near]
        covered: I64 = np.minimum(at - begins, self.ends[near] - begins)
        covered += self.sums[near]
        covered[which == 0] = 0
        return covered


def _longest(lengths: I64, most: int) -> Mask:
    """Return which of the lengths are the longest `most`."""
    if lengths.size <= most:
        return np.ones(lengths.size, np.bool_)
    longest = np.zeros(lengths.size, np.bool_)
    longest[np.argpartition(lengths, -most)[-most:]] = True
    return longest


def _woke(other: _SeenWaits, froms: I64, untils: I64, bare: Mask, main: Mask) -> I64:
    """Return when a thread may have let others go on that paused; the pause's start where it did not.

    bare: pauses in which the thread that pauses is in no range. main: pauses of the main thread.
    """
    begins, ends = other.runs.begins, other.runs.ends
    at = np.searchsorted(ends, untils, "right") - 1
    ended = np.append(ends, np.iinfo(np.int64).min)[at]
    silent = np.append(begins, np.iinfo(np.int64).max)[at + 1] >= untils
    busy = other.runs.between(froms, untils)
    soon = untils - ended <= SOON
    works = busy >= LEAST_SHARE * (untils - froms)
    # Of a thread in no range, whoever lived meanwhile and did anything may have woken it, and may have gone on.
    lived = bare & works
    if other.cover is not other.runs:
        alive = other.cover.between(froms, untils)
        moved = np.searchsorted(other.edges, untils, "left") > np.searchsorted(other.edges, froms, "right")
        lived |= bare & moved & (alive >= LEAST_SHARE * (untils - froms))
    known = silent & (soon | works | lived) & (ended > froms)
    return np.where(known, ended, np.where(lived & ~main, untils, froms))


def _pauses(runs: Ranges, low: int) -> tuple[I64, I64, int]:
    """Return the times of LEAST_FREE ns or more between a thread's active runs, and before them; and what is long."""
    begins, ends = runs
    if not begins.size:
        return begins, ends, LONG
    froms = np.append(low, ends[:-1])
    pause = begins - froms
    between = pause[1:]
    enough = between.size >= _ENOUGH_PAUSES
    limit = min(LONG, LEAST_TIMES * int(np.median(between))) if enough else LEAST_FREE
    free = pause >= LEAST_FREE
    return froms[free], begins[free], limit


PAUSE = 20_000
"""ns: work that begins later than this after the work before it on its stream was held up by something else."""


def build_nodes(
    host: PathHost, device: PathDevice, waits: Waits, *, main: int, begin: int | None, end: int | None
) -> PathNodes:
    """Return the nodes of a window, and the edges of waits between them; arguments as in `critical_path.build`."""
    host.check()
    device.check(host.threads.size)
    cut_copies = CutCopies.of(host, device, waits)
    low, high = _window(host, device, main, begin, end)
    work = Works.of(host, cut_copies, low, high)
    timed = _in_window(host, low, high)
    stops, unseen = for_devices(host, cut_copies, work, waits, low, high)
    woken, unseen_pauses = between_threads(host, timed, low, high, main)
    lone = _lone(work)

    # An edge joins whole nodes, so threads are cut wherever a launch, a wait or the end of one may begin or end an
    # edge.
    hangs = np.flatnonzero(work.launch >= 0).astype(work.rows.dtype)
    threads_of, release = host.threads[work.launch[hangs]], work.release(hangs)
    splits = [(threads_of, release), (np.full(lone.size, main), work.starts[lone])]
    splits += [(stop.threads, at) for stop in stops for at in (stop.froms, stop.untils)]
    splits += [(threads, stop.untils) for stop in woken for threads in (stop.threads, stop.others)]
    threads = max(int(host.processes.size), 1)
    code = np.min_scalar_type(-max(threads, main) - 1)
    lanes = np.concatenate([lanes.astype(code) for lanes, _ in splits])
    times = np.concatenate([times for _, times in splits])
    del splits
    free = pieces_of(
        host.threads[timed],
        np.clip(host.starts[timed], low, high),
        np.clip(host.ends[timed], low, high),
        lanes,
        times,
    )
    free.rows = timed[free.rows]
    del lanes, times, timed
    free.leave(stops, threads)

    count = free.starts.size
    size = count + work.rows.size
    bounds = group_bounds(free.lanes, threads)
    launch = np.full(size, -1, place_type(size))
    # Work that began before the window depends on nothing: no piece ends by then.
    # A launch hangs from the last piece of its thread that ended by the time at which the call let the work go.
    found = search(bounds, free.ends, threads_of, release, "right") - 1
    real = found >= bounds[threads_of]
    launch[count:][hangs[real]] = found[real]
    del hangs, threads_of, release
    # Work without a launch call hangs from the main thread: something launched it by the time it began (see _lone).
    if main < threads:
        found = search(bounds, free.ends, np.full(lone.size, main), work.starts[lone], "right") - 1
        launch[count:][lone] = np.where(found >= bounds[main], found, -1)
    del found, real

    heads, tails, numbers = [], [], []
    for stop in stops:
        head = search(bounds, free.starts, stop.threads, stop.untils, "left")
        known = head < bounds[1:][stop.threads]
        heads.append(head[known])
        tails.append(count + stop.works[known])
        numbers.append(stop.numbers[known])
    del stops
    stream_heads, stream_tails = streams_for_streams(work, waits)
    # The nodes of devices are numbered behind those of the host.
    heads.append(count + stream_heads)
    tails.append(count + stream_tails)
    numbers.append(np.full(stream_heads.size, -1, np.int64))
    woken_heads, woken_tails, long = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.bool_)]
    for pause in woken:
        head = search(bounds, free.starts, pause.threads, pause.untils, "left")
        tail = search(bounds, free.ends, pause.others, pause.untils, "right") - 1
        known = (head < bounds[1:][pause.threads]) & (tail >= bounds[pause.others])
        woken_heads.append(head[known])
        woken_tails.append(tail[known])
        long.append(pause.long[known])
    ordered = np.zeros(size, np.bool_)
    ordered[count:] = told_to_wait(host, work, waits)
    # Each column goes as soon as it is in the nodes: the largest graphs are larger than all else.
    none = np.zeros(0, np.int64)
    starts, free.starts, work.starts = np.concatenate((free.starts, work.starts)), none, none
    ends, free.ends, work.ends = np.concatenate((free.ends, work.ends)), none, none
    chain = np.empty(size, np.min_scalar_type(-threads - int(work.lanes.max(initial=0)) - 1))
    chain[:count], chain[count:] = free.lanes, work.lanes
    chain[count:] += chain.dtype.type(threads)
    free.lanes = work.lanes = work.streams = work.launch = work.place = none
    rows = cut_copies.row(work.rows)
    names = np.concatenate((host.names[free.rows], device.names[rows]))
    parts = np.concatenate((host.parts[free.rows], device.parts[rows]))
    row = np.concatenate((free.rows, rows))
    return PathNodes(
        starts,
        ends,
        names,
        parts,
        chain,
        row,
        launch,
        count,
        low,
        np.concatenate(heads),
        np.concatenate(tails),
        np.concatenate(numbers),
        np.concatenate(woken_heads),
        np.concatenate(woken_tails),
        np.concatenate(long),
        ordered,
        unseen + unseen_pauses,
    )


def _in_window(host: PathHost, low: int, high: int) -> Rows:
    """Return the rows that take some time of the window."""
    inside = np.empty(host.starts.size, np.bool_)
    for first in range(0, inside.size, _BLOCK):
        block = slice(first, first + _BLOCK)
        inside[block] = np.clip(host.ends[block], low, high) > np.clip(host.starts[block], low, high)
    return np.flatnonzero(inside).astype(place_type(inside.size))


def _window(host: PathHost, device: PathDevice, main: int, begin: int | None, end: int | None) -> tuple[int, int]:
    on_main = host.threads == main
    starts = [host.starts[on_main] if on_main.any() else host.starts, device.starts]
    low = begin if begin is not None else min((int(each.min()) for each in starts if each.size), default=0)
    ends = [int(each.max()) for each in (host.ends, device.ends) if each.size]
    high = end if end is not None else max(ends, default=low)
    return low, max(low, high)


def _lone(work: Works) -> I64:
    """Return the work whose launch is not known, unless it followed other work of its stream at once.

    Something launched it, at the latest when it began. That time is taken, so a faster host makes this work earlier.
    """
    at = np.flatnonzero(work.launch < 0)
    before = np.maximum(at - 1, 0)
    follows = (at > 0) & (work.lanes[at] == work.lanes[before])
    held: Mask = work.starts[at] - work.ends[before] > PAUSE
    lone: I64 = at[held | ~follows]
    return lone

"""The nodes of a critical path's graph, made of ranges and work, and the edges that waits make between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import IntEnum
from heapq import heappop, heappush
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from tracekit.analysis.intervals import Ranges, merge
from tracekit.analysis.segments import (
    INT64_MAX,
    as_int64,
    check_same_length,
    narrow,
    previous_greater,
    rows_by,
    run_starts,
)
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Codes, Mask, Numbers

__all__ = ["PathDevice", "PathHost", "PathNodes", "PathPart", "Waits", "build_nodes", "in_order", "pieces_of"]

# The nodes of a critical path's graph: host threads cut into stretches, device work on streams (see critical_path).


LOWEST = -(1 << 63)
_FEW_LANES = 64


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

    threads: I64
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

    streams: I64
    starts: I64
    ends: I64
    names: Codes
    parts: Codes
    launch: I64

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
    stream to wait before this work. unseen: how many waits were not looked at, since there are too many.
    """

    starts: I64
    ends: I64
    names: Codes
    parts: Codes
    chain: I64
    row: I64
    launch: I64
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


def in_order(nodes: PathNodes, tail: I64, head: I64) -> Mask:
    """Return which edges run forward in time; nodes that touch in one instant compare by (start, end, number)."""
    before: Mask = nodes.ends[tail] < nodes.starts[head]
    touch = np.flatnonzero((tail >= 0) & (nodes.ends[tail] == nodes.starts[head]))
    a, b = tail[touch], head[touch]
    # Where neither is less, both nodes are the same instant.
    before[touch] = (nodes.starts[a] < nodes.starts[b]) | (nodes.ends[a] < nodes.ends[b]) | (a < b)
    return before & (tail >= 0)


def _check(**columns: Numbers) -> None:
    for name, column in columns.items():
        as_int64(column, name)
    check_same_length(**columns)


@dataclass(frozen=True, slots=True, eq=False)
class Works:
    """Device work of the window in order of lane and start. rows: of `PathDevice`. streams: as given; lanes: disjoint.

    launch: row of `PathHost`, -1 where unknown or where the work began before its call. called: when the call began,
    the lowest int64 where that is unknown. release: up to when the launch call held it, ns.
    """

    rows: I64
    lanes: I64
    streams: I64
    starts: I64
    ends: I64
    launch: I64
    called: I64
    release: I64
    place: I64
    """Place of each row of `PathDevice`; -1 for rows outside the window."""

    @classmethod
    def of(cls, host: PathHost, device: PathDevice, low: int, high: int) -> Works:
        """Return the work that runs in the window, or was launched there."""
        ends = np.maximum(device.starts, device.ends)
        launch = np.where(_began(host, device), device.launch, -1)
        known = launch >= 0
        called = np.where(known, host.starts[launch] if host.starts.size else device.starts, LOWEST)
        chosen = np.flatnonzero((ends > low) & (np.where(known, called, device.starts) < high))
        order = chosen[np.lexsort((ends[chosen], device.starts[chosen], device.streams[chosen]))]
        lanes = _disjoint(device.streams[order], device.starts[order], ends[order])
        again = np.lexsort((np.arange(order.size), lanes))
        order, lanes = order[again], lanes[again]
        starts, launch = device.starts[order], launch[order]
        call_ends = host.ends[launch] if host.ends.size else starts
        place = np.full(device.starts.size, -1, np.int64)
        place[order] = np.arange(order.size)
        return cls(
            order,
            lanes,
            device.streams[order],
            np.maximum(starts, low),
            ends[order],
            launch,
            called[order],
            np.where(launch >= 0, np.minimum(call_ends, starts), starts),
            place,
        )

    def by_stream(self) -> dict[int, I64]:
        """Return the places of each stream's work by start."""
        return {stream: at[np.argsort(self.starts[at], kind="stable")] for stream, at in rows_by(self.streams)}


def _began(host: PathHost, device: PathDevice) -> Mask:
    """Return which work began no earlier than its launch call; other work cannot depend on that call."""
    if not host.starts.size:
        return np.zeros(device.starts.size, np.bool_)
    known: Mask = (device.launch >= 0) & (device.starts >= host.starts[device.launch])
    return known


def _disjoint(lanes: I64, starts: I64, ends: I64) -> I64:
    """Return lanes on which nothing overlaps, for rows by (lane, start, end): extra ones where work of one overlaps.

    Loops only over the rows that overlap. These are rare, since a stream works in order.
    """
    out, extra = lanes.copy(), int(lanes.max()) + 1 if lanes.size else 0
    for first, last in pairwise([*run_starts(lanes).tolist(), lanes.size]):
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
                names.append(extra if names else int(lanes[first]))
                extra += len(names) > 1
            track = heappop(free)
            heappush(busy, (end, track))
            tracks.append(names[track])
        out[overlaps] = tracks
    return out


@dataclass(slots=True, eq=False)
class PathPieces:
    """Stretches of host threads, each in one innermost range; by lane and start."""

    lanes: I64
    starts: I64
    ends: I64
    rows: I64

    def without(self, stops: Sequence[PathStop], threads: int) -> PathPieces:
        """Return the pieces that lie in no wait."""
        edge = np.zeros(self.starts.size + 1, np.int64)
        bounds = np.searchsorted(self.lanes, np.arange(threads + 1))
        for stop in stops:
            np.add.at(edge, search(bounds, self.starts, stop.threads, stop.froms, "left"), 1)
            np.add.at(edge, search(bounds, self.starts, stop.threads, stop.untils, "left"), -1)
        keep = np.cumsum(edge)[:-1] <= 0
        return PathPieces(self.lanes[keep], self.starts[keep], self.ends[keep], self.rows[keep])


def pieces_of(lanes: I64, starts: I64, ends: I64, split_lanes: I64, split_times: I64) -> PathPieces:
    """Cut threads wherever a range begins or ends and at the splits; rows: the innermost range of each piece.

    The innermost range is the open one that began last, so ranges that overlap in part do no harm. Threads are cut one
    by one where they are few: these columns are the largest of a report.
    """
    threads = np.unique(np.concatenate((lanes, split_lanes)))
    if not 1 < threads.size <= _FEW_LANES:
        return _pieces_at_once(lanes, starts, ends, split_lanes, split_times)
    parts = []
    for lane in threads.tolist():
        in_lane, split = np.flatnonzero(lanes == lane), split_lanes == lane
        pieces = _pieces_at_once(lanes[in_lane], starts[in_lane], ends[in_lane], split_lanes[split], split_times[split])
        pieces.rows = in_lane[pieces.rows]
        parts.append(pieces)
    columns = ([getattr(part, name) for part in parts] for name in ("lanes", "starts", "ends", "rows"))
    return PathPieces(*map(np.concatenate, columns))


def _pieces_at_once(lanes: I64, starts: I64, ends: I64, split_lanes: I64, split_times: I64) -> PathPieces:
    n = starts.size
    # No column stays longer than it is needed.
    lane = narrow(np.concatenate((lanes, lanes, split_lanes)))
    time = np.concatenate((starts, ends, split_times))
    del lanes, starts, split_lanes, split_times
    opens = np.zeros(time.size, np.bool_)
    opens[:n] = True
    longest_first = np.zeros(time.size, np.int64)
    np.negative(ends, out=longest_first[:n])
    order = np.lexsort((longest_first, opens, time, lane)).astype(np.int32 if time.size < 1 << 31 else np.int64)
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
    return PathPieces(lane[real].astype(np.int64), time[real], time[real + 1], order[owner[real]].astype(np.int64))


def search(bounds: I64, values: I64, lanes: I64, times: I64, side: Literal["left", "right"]) -> I64:
    """Return `searchsorted` within each query's lane l; values ascend within it, bounds[l] .. bounds[l + 1]."""
    out = np.zeros(lanes.size, np.int64)
    order = np.argsort(lanes, kind="stable")
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


def cut_copies(host: PathHost, device: PathDevice, waits: Waits) -> tuple[PathDevice, I64]:
    """Return the device work with copies cut where the call that waited for them returned, and the row of each piece.

    The first piece keeps the row's place; pieces behind the end are the rest of their copies.
    """
    rows = np.arange(device.starts.size)
    known = waits.works >= 0
    row, returns = waits.works[known], host.ends[waits.calls[known]]
    start, end = device.starts[row], device.ends[row]
    cut = (returns < end) & (returns - start >= LEAST_SHARE * (end - start))
    row, at = row[cut], returns[cut]
    if not row.size:
        return device, rows
    row, first = np.unique(row, return_index=True)
    at = at[first]
    ends = device.ends.copy()
    ends[row] = at

    def more(column: I64, of_rest: I64) -> I64:
        return np.concatenate((column, of_rest))

    cut_device = PathDevice(
        more(device.streams, device.streams[row]),
        more(device.starts, at),
        more(ends, device.ends[row]),
        more(device.names, device.names[row]),
        more(device.parts, device.parts[row]),
        more(device.launch, device.launch[row]),
    )
    return cut_device, more(rows, row)


def _issue_times(host: PathHost, device: PathDevice, work: Works, idle: Mask) -> I64:
    """Return how long the call of each copy takes to issue it, shape of `work`; 0 for work that is no known copy.

    idle: shape of `work`: the work had nothing to wait for when its call began.
    """
    issue_times = np.zeros(work.rows.size, np.int64)
    at = np.flatnonzero((work.launch >= 0) & (device.parts[work.rows] == PathPart.COPY))
    if not at.size:
        return issue_times
    call = work.launch[at]
    until_copy, until_return = work.starts[at] - host.starts[call], host.ends[call] - host.starts[call]
    free = idle[at] | (until_return < until_copy)
    takes = np.minimum(until_copy, until_return)
    of_call = host.names[call].astype(np.int64)
    alike = np.unique(np.column_stack((of_call, device.names[work.rows[at]])), axis=0, return_inverse=True)[1].ravel()
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
    issue_times[at] = np.clip(issue, 0, MOST_ISSUE)
    return issue_times


def _before_copies(
    host: PathHost, device: PathDevice, work: Works, copies: I64, places: I64, calls: I64, low: int
) -> WorkStops:
    """Return the waits of copying calls for the work before their copy. copies: which of `Waits`; places: the copy."""
    begun = np.where(work.launch >= 0, work.called, work.starts)
    follows = np.zeros(work.rows.size, np.bool_)
    follows[1:] = work.lanes[1:] == work.lanes[:-1]
    before_same = np.where(follows, np.arange(work.rows.size) - 1, -1)
    by_end = np.argsort(work.ends, kind="stable")
    latest = np.append(by_end, -1)[np.searchsorted(work.ends[by_end], work.starts, "right") - 1]
    ends = np.append(work.ends, LOWEST)
    held = (latest >= 0) & (work.starts - ends[latest] <= HELD) & (work.launch[latest] != work.launch)
    other = np.where(held, latest, -1)
    idle = (ends[before_same] <= begun) & (ends[other] <= begun)
    issue = _issue_times(host, device, work, idle)
    # A call may copy in pieces: what it waited for came before the first of them.
    first = np.full(host.starts.size, work.rows.size, np.int64)
    linked = np.flatnonzero(work.launch >= 0)
    linked = linked[np.argsort(work.starts[linked], kind="stable")[::-1]]
    first[work.launch[linked]] = linked
    piece = np.where(first[calls] < work.rows.size, first[calls], places)
    froms = np.maximum(host.starts[calls] + issue[piece], low)
    before = np.where(ends[before_same[piece]] > froms, before_same[piece], other[piece])
    waited = (ends[before] > froms + TOLERANCE) & (ends[before] <= work.starts[piece])
    before, calls = before[waited], calls[waited]
    return WorkStops(host.threads[calls], froms[waited], ends[before], before, copies[waited])


def for_devices(
    host: PathHost, device: PathDevice, work: Works, waits: Waits, low: int, high: int
) -> tuple[list[WorkStops], int]:
    """Return the waits of calls, one for each stream that a call waits for, and how many calls were not looked at."""
    stops_of_calls = []
    copies = np.flatnonzero(waits.works >= 0)
    copies = copies[work.place[waits.works[copies]] >= 0]
    place = work.place[waits.works[copies]]
    call = waits.calls[copies]
    waited = (work.ends[place] <= host.ends[call]) & (work.release[place] > low)
    copies, place, call = copies[waited], place[waited], call[waited]
    stops_of_calls.append(WorkStops(host.threads[call], work.release[place], work.ends[place], place, copies))
    if copies.size:
        stops_of_calls.append(_before_copies(host, device, work, copies, place, call, low))

    calls = np.flatnonzero((waits.works < 0) & (host.ends[waits.calls] > low) & (host.starts[waits.calls] < high))
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
        asked = np.union1d(looked, of_one[stream]) if stream in of_one else looked
        last = np.searchsorted(np.maximum.accumulate(work.called[on_stream]), waits.before[calls[asked]], "left") - 1
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
    launched = launched[np.argsort(work.called[launched], kind="stable")]
    unknown = np.flatnonzero(unknown)
    by_thread = dict(rows_by(host.threads[work.launch[launched]]))
    for thread, places in rows_by(host.threads[waits.orders[unknown]]):
        ours, on_thread = unknown[places], launched[by_thread.get(thread, unknown[:0])]
        following = np.searchsorted(work.called[on_thread], at[ours], "left")
        stream[ours] = np.append(work.streams[on_thread], Waits.ANY)[following]
    streams = work.by_stream()
    for number, orders in rows_by(stream):
        if number not in streams:
            continue
        on_thread = streams[number]
        first = np.searchsorted(np.maximum.accumulate(work.called[on_thread]), at[orders], "left")
        told[on_thread[first[first < on_thread.size]]] = True
    return told


def streams_for_streams(work: Works, waits: Waits) -> tuple[I64, I64]:
    """Return for each wait of a stream the work that waited and the work that it waited for, as places."""
    heads, tails = np.full(waits.stream_heads.size, -1, np.int64), np.full(waits.stream_heads.size, -1, np.int64)
    of_head, of_tail, none = dict(rows_by(waits.stream_heads)), dict(rows_by(waits.stream_tails)), heads[:0]
    for stream, on_stream in work.by_stream().items():
        if stream not in of_head and stream not in of_tail:
            continue
        called = np.maximum.accumulate(work.called[on_stream])
        ours = of_head.get(stream, none)
        at = np.searchsorted(called, waits.stream_after[ours], "left")
        heads[ours[at < on_stream.size]] = on_stream[at[at < on_stream.size]]
        ours = of_tail.get(stream, none)
        at = np.searchsorted(called, waits.stream_before[ours], "left") - 1
        tails[ours[at >= 0]] = on_stream[at[at >= 0]]
    known = (heads >= 0) & (tails >= 0)
    return heads[known], tails[known]


def between_threads(
    host: PathHost, timed: I64, first: I64, last: I64, low: int, main: int
) -> tuple[list[ThreadStops], int]:
    """Return the waits of threads for other threads of their process, as far as the schedule tells.

    The number is that of the pauses that were not looked at.
    """
    seen = [_SeenWaits.of(thread, timed[at], host, first, last) for thread, at in rows_by(host.threads[timed])]
    if len(seen) < 2:
        return [], 0
    pauses = [_pauses(each.runs, low) for each in seen]
    sizes = [froms.size for froms, _, _ in pauses]
    froms, untils = (np.concatenate([each[i] for each in pauses]) for i in (0, 1))
    length = untils - froms
    long = length >= np.repeat(np.array([usual for _, _, usual in pauses], np.int64), sizes)
    thread = np.repeat(np.array([each.thread for each in seen], np.int64), sizes)
    within = [
        _covered(each.cover, stop) - _covered(each.cover, go) for each, (go, stop, _) in zip(seen, pauses, strict=True)
    ]
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
    runs: Ranges
    cover: Ranges
    edges: I64

    @staticmethod
    def of(thread: int, ranges: I64, host: PathHost, first: I64, last: I64) -> _SeenWaits:
        """ranges: the thread's ranges."""
        active = ranges[host.active[ranges]]
        return _SeenWaits(
            thread,
            merge(first[active], last[active]),
            merge(first[ranges], last[ranges]),
            np.sort(np.concatenate((first[ranges], last[ranges]))),
        )


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
    begins, ends = other.runs
    at = np.searchsorted(ends, untils, "right") - 1
    ended = np.append(ends, np.iinfo(np.int64).min)[at]
    silent = np.append(begins, np.iinfo(np.int64).max)[at + 1] >= untils
    busy = _covered(other.runs, untils) - _covered(other.runs, froms)
    soon = untils - ended <= SOON
    works = busy >= LEAST_SHARE * (untils - froms)
    # Of a thread in no range, whoever lived meanwhile and did anything may have woken it, and may have gone on.
    alive = _covered(other.cover, untils) - _covered(other.cover, froms)
    moved = np.searchsorted(other.edges, untils, "left") > np.searchsorted(other.edges, froms, "right")
    lived = bare & (works | (moved & (alive >= LEAST_SHARE * (untils - froms))))
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


def _covered(ranges: Ranges, at: I64) -> I64:
    """Return how many ns of merged ranges lie before each time."""
    first, last = ranges
    if not first.size:
        return np.zeros(at.size, np.int64)
    sums = np.append(0, np.cumsum(last - first))
    which = np.searchsorted(first, at, "right")
    near = np.maximum(which - 1, 0)
    covered: I64 = np.where(which > 0, sums[near] + np.minimum(at - first[near], (last - first)[near]), 0)
    return covered


PAUSE = 20_000
"""ns: work that begins later than this after the work before it on its stream was held up by something else."""


def build_nodes(
    host: PathHost, device: PathDevice, waits: Waits, *, main: int, begin: int | None, end: int | None
) -> PathNodes:
    """Return the nodes of a window, and the edges of waits between them; arguments as in `critical_path.build`."""
    host.check()
    device.check(host.threads.size)
    device, row = cut_copies(host, device, waits)
    low, high = _window(host, device, main, begin, end)
    work = Works.of(host, device, low, high)
    first, last = np.clip(host.starts, low, high), np.clip(host.ends, low, high)
    timed = np.flatnonzero(last > first)
    stops, unseen = for_devices(host, device, work, waits, low, high)
    woken, unseen_pauses = between_threads(host, timed, first, last, low, main)
    lone = _lone(work)

    # An edge joins whole nodes, so threads are cut wherever a launch, a wait or the end of one may begin or end an
    # edge.
    splits = [(host.threads[work.launch[work.launch >= 0]], work.release[work.launch >= 0])]
    splits.append((np.full(lone.size, main), work.starts[lone]))
    splits += [(stop.threads, at) for stop in stops for at in (stop.froms, stop.untils)]
    splits += [(threads, stop.untils) for stop in woken for threads in (stop.threads, stop.others)]
    lanes, times = (np.concatenate([each[i] for each in splits]) for i in (0, 1))
    del first, last
    pieces = pieces_of(
        host.threads[timed],
        np.clip(host.starts[timed], low, high),
        np.clip(host.ends[timed], low, high),
        lanes,
        times,
    )
    pieces.rows = timed[pieces.rows]
    threads = max(int(host.processes.size), 1)
    free = pieces.without(stops, threads)
    del pieces, splits, lanes, times

    count = free.starts.size
    bounds = np.searchsorted(free.lanes, np.arange(threads + 1))
    launch = np.full(work.rows.size, -1, np.int64)
    # Work that began before the window depends on nothing: no piece ends by then.
    hangs = np.flatnonzero(work.launch >= 0)
    # A launch hangs from the last piece of its thread that ended by the time at which the call let the work go.
    found = search(bounds, free.ends, host.threads[work.launch[hangs]], work.release[hangs], "right") - 1
    real = found >= bounds[host.threads[work.launch[hangs]]]
    launch[hangs[real]] = found[real]
    # Work without a launch call hangs from the main thread: something launched it by the time it began (see _lone).
    if main < threads:
        found = search(bounds, free.ends, np.full(lone.size, main), work.starts[lone], "right") - 1
        launch[lone] = np.where(found >= bounds[main], found, -1)

    heads, tails, numbers = [], [], []
    for stop in stops:
        head = search(bounds, free.starts, stop.threads, stop.untils, "left")
        known = head < bounds[stop.threads + 1]
        heads.append(head[known])
        tails.append(count + stop.works[known])
        numbers.append(stop.numbers[known])
    stream_heads, stream_tails = streams_for_streams(work, waits)
    # The nodes of devices are numbered behind those of the host.
    heads.append(count + stream_heads)
    tails.append(count + stream_tails)
    numbers.append(np.full(stream_heads.size, -1, np.int64))
    woken_heads, woken_tails, long = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.bool_)]
    for pause in woken:
        head = search(bounds, free.starts, pause.threads, pause.untils, "left")
        tail = search(bounds, free.ends, pause.others, pause.untils, "right") - 1
        known = (head < bounds[pause.threads + 1]) & (tail >= bounds[pause.others])
        woken_heads.append(head[known])
        woken_tails.append(tail[known])
        long.append(pause.long[known])
    return PathNodes(
        np.concatenate((free.starts, work.starts)),
        np.concatenate((free.ends, work.ends)),
        np.concatenate((host.names[free.rows], device.names[work.rows])),
        np.concatenate((host.parts[free.rows], device.parts[work.rows])),
        np.concatenate((free.lanes, threads + work.lanes)),
        np.concatenate((free.rows, row[work.rows])),
        np.concatenate((np.full(count, -1, np.int64), launch)),
        count,
        low,
        np.concatenate(heads),
        np.concatenate(tails),
        np.concatenate(numbers),
        np.concatenate(woken_heads),
        np.concatenate(woken_tails),
        np.concatenate(long),
        np.concatenate((np.zeros(count, np.bool_), told_to_wait(host, work, waits))),
        unseen + unseen_pauses,
    )


def _window(host: PathHost, device: PathDevice, main: int, begin: int | None, end: int | None) -> tuple[int, int]:
    on_main = host.threads == main
    starts = np.concatenate((host.starts[on_main] if on_main.any() else host.starts, device.starts))
    ends = np.concatenate((host.ends, device.ends))
    low = begin if begin is not None else int(starts.min()) if starts.size else 0
    high = end if end is not None else int(ends.max()) if ends.size else low
    return low, max(low, high)


def _lone(work: Works) -> I64:
    """Return the work whose launch is not known, unless it followed other work of its stream at once.

    Something launched it, at the latest when it began. That time is taken, so a faster host makes this work earlier.
    """
    follows = np.flatnonzero(work.lanes[1:] == work.lanes[:-1]) + 1
    at_once = np.zeros(work.starts.size, np.bool_)
    at_once[follows] = work.starts[follows] - work.ends[follows - 1] <= PAUSE
    return np.flatnonzero((work.launch < 0) & ~at_once)

"""The nodes of a critical path's graph: host threads cut into stretches, device work on streams (see critical_path)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush
from itertools import pairwise
from typing import Literal, Protocol

import numpy as np

from tracekit.analysis.segments import (
    INT64_MAX,
    as_int64,
    check_same_length,
    narrow,
    previous_greater,
    rows_by,
    run_starts,
)
from tracekit.columns.arrays import I64, Codes, Mask, Numbers

LOWEST = -(1 << 63)
_FEW_LANES = 64


class Part(IntEnum):
    """The classes of time on the path."""

    HOST = 0
    LAUNCH = 1
    KERNEL = 2
    COPY = 3
    SYNC = 4
    IDLE = 5


class Stop(Protocol):
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
class Host:
    """Ranges and calls on host threads, shape (n,), any order; ranges of one thread should nest.

    threads: 0 .. t - 1. starts, ends: ns. names: codes, 0 or more. parts: `Part`. active: false for a range in which a
    thread may also be waiting (a step, a range of the user's program). processes: of each thread, shape (t,).
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
class Device:
    """Work on streams, shape (m,), any order. streams: 0 .. s - 1. launch: row of `Host` that launched it, else -1."""

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

    calls: row of `Host`. streams: the stream that it waits for, ALL of the graph, or ANY for an unknown one. before:
    ns; it waits for work that was launched before. works: the one device row that it waits for; -1 for none.
    stream_heads: the stream that waits; stream_after: ns; work launched there from then on waits. stream_tails: the
    stream that it waits for; stream_before: ns; it waits for work launched there before then.
    orders: rows of `Host`, shape (o,): calls that tell a stream to wait, for what is not known; order_streams: that
    stream, or ANY.
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
class Nodes:
    """Nodes chain by chain, in order on each, none overlapping another of its chain; shape (n,).

    chain: a thread, or a stream (several chains where its work overlaps). row: of `Host`, or of
    `Device`. launch: the node that the launch depends on, -1 for none. devices_from: the first node on a device. begin:
    of the window. join_head, join_tail, join_wait: edges of waits; -1 as wait: between two streams. woken_head,
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


def in_order(nodes: Nodes, tail: I64, head: I64) -> Mask:
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
    """Device work of the window in order of lane and start. rows: of `Device`. streams: as given; lanes: disjoint.

    launch: row of `Host`, -1 where unknown or where the work began before its call. called: when the call began, the
    lowest int64 where that is unknown. release: up to when the launch call held it, ns.
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
    """Place of each row of `Device`; -1 for rows outside the window."""

    @classmethod
    def of(cls, host: Host, device: Device, low: int, high: int) -> Works:
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


def _began(host: Host, device: Device) -> Mask:
    """Return which work began no earlier than its launch call; other work cannot depend on that call."""
    if not host.starts.size:
        return np.zeros(device.starts.size, np.bool_)
    known: Mask = (device.launch >= 0) & (device.starts >= host.starts[device.launch])
    return known


def _disjoint(lanes: I64, starts: I64, ends: I64) -> I64:
    """Return lanes on which nothing overlaps, for rows by (lane, start, end): extra ones where work of one overlaps.

    Loops only over the rows of lanes on which work overlaps. These are rare, since a stream works in order.
    """
    out, extra = lanes.copy(), int(lanes.max()) + 1 if lanes.size else 0
    for first, last in pairwise([*run_starts(lanes).tolist(), lanes.size]):
        if (starts[first + 1 : last] >= np.maximum.accumulate(ends[first : last - 1])).all():
            continue
        names, free, busy = list[int](), list[int](), list[tuple[int, int]]()
        found = []
        for start, end in zip(starts[first:last].tolist(), ends[first:last].tolist(), strict=True):
            while busy and busy[0][0] <= start:
                heappush(free, heappop(busy)[1])
            if not free:
                heappush(free, len(names))
                names.append(extra if names else int(lanes[first]))
                extra += len(names) > 1
            track = heappop(free)
            heappush(busy, (end, track))
            found.append(names[track])
        out[first:last] = found
    return out


@dataclass(slots=True, eq=False)
class Pieces:
    """Stretches of host threads, each in one innermost range; by lane and start."""

    lanes: I64
    starts: I64
    ends: I64
    rows: I64

    def without(self, stops: Sequence[Stop], threads: int) -> Pieces:
        """Return the pieces that lie in no wait."""
        edge = np.zeros(self.starts.size + 1, np.int64)
        bounds = np.searchsorted(self.lanes, np.arange(threads + 1))
        for stop in stops:
            np.add.at(edge, search(bounds, self.starts, stop.threads, stop.froms, "left"), 1)
            np.add.at(edge, search(bounds, self.starts, stop.threads, stop.untils, "left"), -1)
        keep = np.cumsum(edge)[:-1] <= 0
        return Pieces(self.lanes[keep], self.starts[keep], self.ends[keep], self.rows[keep])


def pieces_of(lanes: I64, starts: I64, ends: I64, split_lanes: I64, split_times: I64) -> Pieces:
    """Cut threads wherever a range begins or ends and at the splits; rows: the innermost range of each piece.

    The innermost range is the open one that began last, so ranges that overlap in part do no harm. Threads are cut one
    by one where they are few: these columns are the largest of a report.
    """
    threads = np.unique(np.concatenate((lanes, split_lanes)))
    if not 1 < threads.size <= _FEW_LANES:
        return _pieces_at_once(lanes, starts, ends, split_lanes, split_times)
    parts = []
    for lane in threads.tolist():
        mine, split = np.flatnonzero(lanes == lane), split_lanes == lane
        found = _pieces_at_once(lanes[mine], starts[mine], ends[mine], split_lanes[split], split_times[split])
        found.rows = mine[found.rows]
        parts.append(found)
    columns = ([getattr(part, name) for part in parts] for name in ("lanes", "starts", "ends", "rows"))
    return Pieces(*map(np.concatenate, columns))


def _pieces_at_once(lanes: I64, starts: I64, ends: I64, split_lanes: I64, split_times: I64) -> Pieces:
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
    own = np.flatnonzero(opens)
    owner[own] = own
    real = np.flatnonzero((lane[1:] == lane[:-1]) & (time[1:] > time[:-1]) & (owner[:-1] >= 0)) if time.size else order
    return Pieces(lane[real].astype(np.int64), time[real], time[real + 1], order[owner[real]].astype(np.int64))


def search(bounds: I64, values: I64, lanes: I64, times: I64, side: Literal["left", "right"]) -> I64:
    """Return `searchsorted` within each query's lane l; values ascend within it, bounds[l] .. bounds[l + 1]."""
    out = np.zeros(lanes.size, np.int64)
    order = np.argsort(lanes, kind="stable")
    for first, last in pairwise([*run_starts(lanes[order]).tolist(), lanes.size]):
        mine = order[first:last]
        lane = int(lanes[mine[0]])
        low, high = int(bounds[lane]), int(bounds[lane + 1])
        out[mine] = low + np.searchsorted(values[low:high], times[mine], side)
    return out

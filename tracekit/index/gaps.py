"""Gaps of devices and streams, and the cause of each. The docstring of the view `idle` lists the rules."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import clip, coverage, gaps, merge
from tracekit.analysis.nesting import innermost
from tracekit.analysis.segments import rows_by
from tracekit.index import devices as _devices
from tracekit.index import grouping
from tracekit.index import launches as host_waits
from tracekit.index.devices import Devices, IndexedDevice
from tracekit.index.launches import LaunchedWork, launches_of
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.report import Cell
from tracekit.model.schema import API_CALLS, Kind

__all__ = ["CAUSES", "SHORT_GAP_NS", "THREAD", "Gaps", "find_gaps", "keys_of", "times_of"]

SHORT_GAP_NS = 30_000
"""A queued gap no longer than this is what starting a kernel takes (HTA's consecutive_kernel_delay: 30, of us)."""
WAITING_SHARE = 0.5

CAUSES = ("host late", "synchronization", "launch latency", "stream wait", "unknown", "no more work")
_LATE, _SYNC, _LATENCY, _STREAM, _UNKNOWN, _END = range(len(CAUSES))

THREAD = ("source", "pid", "tid")
_LOWEST = np.iinfo(np.int64).min

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """All gaps, n of them; arrays of shape (n,).

    lane: the device, or stream, that was idle, counting into `owners`. starts, ends: ns. after, before: positions in
    `Devices.rows` of the work that ended the gap and of the last that ended before it; -1 for none.
    cause: counts into CAUSES. launch: row of EVENTS that launched the work after; -1 where none is known.
    middle: the time at which the host is looked at.
    """

    lane: I64
    owners: list[tuple[IndexedDevice, Cell, Cell]]
    starts: I64
    ends: I64
    after: I64
    before: I64
    cause: I64
    launch: I64
    middle: I64


@join
def find_gaps(index: TraceIndex, *, by_stream: bool = False) -> Gaps:
    """Return all gaps with their causes, device by device, in order of time."""
    devices = _devices.find(index)
    launched = launches_of(index, devices.rows)
    pieces: list[tuple[I64, I64, I64, I64]] = []
    owners: list[tuple[IndexedDevice, Cell, Cell]] = []
    for device in devices.devices:
        for context, stream, positions in _lanes(devices, device) if by_stream else [(None, None, device.positions)]:
            pieces.append(_gaps_of(devices, positions, None if by_stream else (device.begin, device.end)))
            owners.append((device, context, stream))
    lane = np.repeat(np.arange(len(pieces)), [p[0].size for p in pieces])
    starts, ends, after, before = (np.concatenate([p[i] for p in pieces]) for i in range(4))
    launch = np.append(launched.launch, -1)[after]
    begun = np.append(devices.index.starts, 0)[launch]
    late = (launch >= 0) & (begun > starts)
    middle = np.where(late, starts + (np.minimum(begun, ends) - starts) // 2, begun)
    cause = _causes(devices, launched, starts, ends, after, launch, begun, late)
    return Gaps(lane, owners, starts, ends, after, before, cause, launch, middle)


def _lanes(devices: Devices, device: IndexedDevice) -> list[tuple[Cell, Cell, I64]]:
    """Return the streams of a device: context, stream, positions of its work."""
    rows = devices.rows[device.positions]
    keys = (devices.index.key(c, rows) for c in ("context", "stream"))
    groups = grouping.group_by(*keys)
    order = np.argsort(groups.codes, kind="stable")
    parts = np.split(device.positions[order], np.cumsum(np.bincount(groups.codes, minlength=groups.count))[:-1])
    return list(zip(*groups.labels, parts, strict=True))


def _gaps_of(devices: Devices, positions: I64, span: tuple[int, int] | None) -> tuple[I64, I64, I64, I64]:
    """Return starts and ends of the gaps of some work in order, the work after each and the last that ended before."""
    starts, ends = devices.starts[positions], devices.ends[positions]
    busy = merge(starts, ends)
    begin, end = span or (int(busy[0][0]), int(busy[1][-1]))
    first, last = gaps(busy, begin, end)
    at = np.searchsorted(starts, last, side="left")
    after = np.append(positions, -1)[at]
    by_end = np.argsort(ends, kind="stable")
    place = np.searchsorted(ends[by_end], first, side="right") - 1
    before = np.where(place >= 0, positions[by_end[np.maximum(place, 0)]], -1)
    return first, last, after, before


def _causes(
    devices: Devices, launched: LaunchedWork, starts: I64, ends: I64, after: I64, launch: I64, begun: I64, late: Mask
) -> I64:
    cause = np.full(starts.size, _UNKNOWN, np.int64)
    cause[after < 0] = _END
    cause[late] = _LATE
    waiting = _waited(devices, launched, starts, np.minimum(begun, ends), launch, late)
    cause[late & waiting] = _SYNC
    queued = (launch >= 0) & ~late
    calls_end = begun + np.append(devices.index.lengths, 0)[launch]
    soon = (calls_end > starts) | (ends - starts <= SHORT_GAP_NS)
    cause[queued & soon] = _LATENCY
    cause[queued & _behind_a_wait(devices, launched, after, queued)] = _STREAM
    return cause


def _waited(devices: Devices, launched: LaunchedWork, starts: I64, until: I64, launch: I64, late: Mask) -> Mask:
    """Return for each late gap whether its launching thread waited as it began, or for half of the time until then."""
    index, waited = devices.index, np.zeros(starts.size, np.bool_)
    calls = host_waits.blocking_calls(index, devices.rows, devices.ends, launched)
    some = np.flatnonzero(late)
    if not calls.size or not some.size:
        return waited
    lane = keys_of(index, np.concatenate((calls, launch[some])), THREAD)
    call_lane, gap_lane = lane[: calls.size], lane[calls.size :]
    begin, end = times_of(index, calls)
    waited[some] = innermost(call_lane, begin, end, gap_lane, starts[some]) >= 0
    calls_of = dict(rows_by(call_lane))
    for thread, places in rows_by(gap_lane):
        if thread in calls_of:
            of_thread, its_calls = some[places], calls_of[thread]
            covered = _covered(begin[its_calls], end[its_calls], starts[of_thread], until[of_thread])
            length = until[of_thread] - starts[of_thread]
            waited[of_thread] |= (length > 0) & (covered >= WAITING_SHARE * length)
    return waited


def _covered(begin: I64, end: I64, low: I64, high: I64) -> I64:
    """Return shape (windows,): the ns of each window [low[i], high[i]) that the ranges cover; windows in any order."""
    merged = clip(merge(begin, end), int(low.min()), max(int(high.max()), int(low.min())))
    edges = sets.unique(np.concatenate((low, high)))
    running = np.append(0, np.cumsum(coverage(*merged, edges)))
    covered: I64 = running[np.searchsorted(edges, high)] - running[np.searchsorted(edges, low)]
    return covered


def _behind_a_wait(devices: Devices, launched: LaunchedWork, after: I64, queued: Mask) -> Mask:
    """Return for each queued gap whether the work after it was queued behind a wait for another stream."""
    index, behind = devices.index, np.zeros(after.size, np.bool_)
    some = np.flatnonzero(queued)
    calls = np.flatnonzero(index.kind_mask(API_CALLS | {Kind.SYNC}))
    calls = calls[host_waits.named(index, calls, host_waits.STREAM_WAITS)]
    if not some.size or not calls.size:
        return behind
    work = after[some]
    rows = devices.rows
    # The launch before on the same stream: the last one before ours in the order of launches.
    stream = keys_of(index, rows, ("source", "rank", "pid", "device", "context", "stream"))
    linked = np.flatnonzero(launched.launch >= 0)
    order = linked[np.lexsort((launched.launch[linked], stream[linked]))]
    place = np.empty(rows.size, np.int64)
    place[order] = np.arange(order.size)
    earlier = order[np.maximum(place[work] - 1, 0)]
    same = (place[work] > 0) & (stream[earlier] == stream[work])
    ours = launched.launch[work]
    ts = index.starts
    since = np.where(same, ts[launched.launch[earlier]], _LOWEST)
    host = calls[~index.kind_mask({Kind.SYNC})[calls]]
    last = _last_at(keys_of(index, np.concatenate((host, ours)), THREAD), ts[host], ts[ours])
    # No wait at all lies before any launch, also where the stream's work has none before it.
    behind[some] = (last > _LOWEST) & (last >= since)
    # A profiler's own rows name the stream that waits: since the stream's work before, until ours began.
    recorded = sets.without(calls, host)
    recorded = recorded[index.has("stream")[recorded]]
    if recorded.size:
        keys = keys_of(index, np.concatenate((recorded, rows[work])), ("source", "pid", "device", "stream"))
        began = np.where(same, devices.starts[earlier], _LOWEST)
        last = _last_at(keys, ts[recorded], devices.starts[work])
        behind[some] |= (last > _LOWEST) & (last >= began)
    return behind


def _last_at(lanes: I64, times: I64, at: I64) -> I64:
    """Return for each time asked the last of `times` on its lane that is no later; the lowest int64 where none is.

    lanes: shape (n + m,): those of the n times, then those of the m times asked.
    """
    n = times.size
    forever = np.full(n, np.iinfo(np.int64).max)
    latest: I64 = np.append(times, _LOWEST)[innermost(lanes[:n], times, forever, lanes[n:], at)]
    return latest


def keys_of(index: TraceIndex, rows: I64, columns: tuple[str, ...]) -> I64:
    """Return one number a row, equal exactly where these columns are; null equals null."""
    return grouping.numbered(index.key(column, rows) for column in columns)


def times_of(index: TraceIndex, rows: I64) -> tuple[I64, I64]:
    """Return start and end of these rows, shape (n,); a row without a duration ends where it starts."""
    start: I64 = index.starts[rows]
    return start, start + index.lengths[rows]

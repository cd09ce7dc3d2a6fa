"""Waits on the critical path: calls that wait, by name, and the facts that rows of kind sync add (see `graph`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracekit.analysis.critical_path import Device, Host, Part, Waits
from tracekit.analysis.links import link
from tracekit.columns import args, arrow
from tracekit.columns.arrays import I32, I64, Mask
from tracekit.columns.arrow import Chunked
from tracekit.index import grouping
from tracekit.index.trace_index import TraceIndex

UNNAMED, IN_STEP = "(no name)", "(in a step, in no other range)"

_WHOLE = re.compile(r"(?:Device|Ctx|Context|Thread)Synchronize")
_ONE = re.compile(r"(?:Stream|Event)Synchronize")
_COPIES = re.compile(r"[Mm]emcpy")
_STREAM_WAIT = re.compile(r"Stream [Ww]ait")
_ORDER = re.compile(r"StreamWait(?:Event|Value)")
_RECORD = "wait_on_cuda_event_record_corr_id"
_ON_STREAM = "wait_on_stream"
"""Keys in the args of Kineto's rows of cat cuda_sync; -1 is "none" there."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Columns of EVENTS as arrays of shape (n,), and the role of each row, for all owners."""

    index: TraceIndex
    start: I64
    length: I64
    name: I32
    names: list[str]
    ranges: Mask
    steps: Mask
    active: Mask
    calls: Mask
    device: Mask
    sync: Mask
    correlation: I64
    correlated: Mask

    def end(self, at: I64) -> I64:
        """Return the ends of these rows."""
        return self.start[at] + self.length[at]


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Host rows that are calls which wait for all streams, wait for one stream or event, or copy; shape (h,)."""

    whole: Mask
    one: Mask
    copies: Mask


@dataclass(frozen=True, slots=True, eq=False)
class _SyncRows:
    """The facts in rows of kind sync, shape (s,), -1 where a row has none.

    caller: the host row of the call. own, on: the stream that waits, and the one it waits for, as codes of streams.
    recorded: the host row of the call that recorded the event.
    """

    caller: I64
    own: I64
    on: I64
    recorded: I64


def by_name(rows: Rows, host: I64) -> Waiting:
    """Return the calls that wait, or copy."""
    calls = rows.calls[host]
    return Waiting(*(_named(rows, host, pattern) & calls for pattern in (_WHOLE, _ONE, _COPIES)))


def _named(rows: Rows, at: I64, pattern: re.Pattern[str]) -> Mask:
    known = np.array([pattern.search(name) is not None for name in rows.names], np.bool_)
    found: Mask = known[rows.name[at]]
    return found


def linked(rows: Rows, calls: I64, others: I64) -> I64:
    """Return for each of the other rows the place of the call with its correlation id, in its input and process."""
    source = rows.index.ints("source")
    pid_of_call, pid_of_other = (rows.index.key("pid", at).codes for at in (calls, others))
    if not (bool((pid_of_other > 0).all()) and bool((pid_of_call > 0).all())):
        pid_of_call, pid_of_other = (np.zeros(at.size, np.int64) for at in (calls, others))

    def keys(at: I64, pid: I64) -> I64:
        return np.column_stack((source[at], pid, rows.correlation[at]))

    return link(
        keys(calls, pid_of_call),
        keys(others, pid_of_other),
        launch_known=rows.correlated[calls],
        device_known=rows.correlated[others],
    ).launch


def find(
    rows: Rows, sync: I64, host: I64, on_host: Host, on_device: Device, waiting: Waiting, streams: grouping.Groups
) -> Waits:
    """Return the waits of one owner. sync, host: its rows of EVENTS; streams: of the rows of `on_device`."""
    known_waits = _sync_rows(rows, sync, host, streams)
    starts = on_host.starts

    whole, one = np.flatnonzero(waiting.whole), np.flatnonzero(waiting.one)
    sync_row = np.full(host.size, -1, np.int64)
    real = np.flatnonzero(known_waits.caller >= 0)
    sync_row[known_waits.caller[real]] = real
    # A row of kind sync names the stream and event of its call; otherwise any stream and the call's own time count.
    stream, recorded = np.full(one.size, Waits.ANY), np.full(one.size, -1)
    known = np.flatnonzero(sync_row[one] >= 0)
    row = sync_row[one[known]]
    on, own = known_waits.on[row], known_waits.own[row]
    stream[known] = np.where(on >= 0, on, np.where(own >= 0, own, Waits.ANY))
    recorded[known] = known_waits.recorded[row]
    before = starts[np.where(recorded >= 0, recorded, one)]

    copies, works = _copies(on_device, waiting.copies)
    complete = (known_waits.own >= 0) & (known_waits.on >= 0) & (known_waits.recorded >= 0)
    stream_waits = np.flatnonzero(_named(rows, sync, _STREAM_WAIT) & complete)
    caller = known_waits.caller[stream_waits]
    after = rows.start[sync[stream_waits]]
    after[caller >= 0] = starts[caller[caller >= 0]]
    orders, order_streams = _orders(rows, sync, host, known_waits, complete)
    return Waits(
        np.concatenate((whole, one, copies)),
        np.concatenate((np.full(whole.size, Waits.ALL), stream, np.full(copies.size, Waits.ANY))),
        np.concatenate((starts[whole], before, starts[copies])),
        np.concatenate((np.full(whole.size + one.size, -1), works)),
        known_waits.own[stream_waits],
        after,
        known_waits.on[stream_waits],
        starts[known_waits.recorded[stream_waits]],
        orders,
        order_streams,
    )


def _orders(rows: Rows, sync: I64, host: I64, known_waits: _SyncRows, complete: Mask) -> tuple[I64, I64]:
    """Return the calls that tell a stream to wait for an event that is not known, and that stream where it is known.

    complete: rows of kind sync that name the event. Where there are any, calls without such a row wait for nothing.
    """
    told = _named(rows, sync, _STREAM_WAIT)
    calls = np.flatnonzero(rows.calls[host] & _named(rows, host, _ORDER))
    if (told & complete).any():
        calls = calls[:0]
    stream = np.full(host.size, int(Waits.ANY))
    partly = np.flatnonzero(told & ~complete & (known_waits.caller >= 0) & (known_waits.own >= 0))
    stream[known_waits.caller[partly]] = known_waits.own[partly]
    orders = np.union1d(calls, known_waits.caller[partly])
    return orders, stream[orders]


def _copies(on_device: Device, is_copy: Mask) -> tuple[I64, I64]:
    """Return the calls that copied, and the copy of each that ended last, as a row of `Device`."""
    copied = np.flatnonzero((on_device.launch >= 0) & (on_device.parts == Part.COPY))
    copied = copied[is_copy[on_device.launch[copied]]]
    copied = copied[np.lexsort((on_device.ends[copied], on_device.launch[copied]))]
    call = on_device.launch[copied]
    last = np.append(call[1:] != call[:-1], True) if call.size else np.zeros(0, np.bool_)
    return call[last], copied[last]


def _sync_rows(rows: Rows, sync: I64, host: I64, streams: grouping.Groups) -> _SyncRows:
    none = np.full(sync.size, -1, np.int64)
    calls = np.flatnonzero(rows.calls[host])
    if not sync.size or not calls.size:
        return _SyncRows(none, none, none, none)
    caller = linked(rows, host[calls], sync)
    index, chosen = rows.index, arrow.array(sync)
    events = index.events
    members = events.column("args").take(chosen).dictionary_encode()
    on_stream, record = (_number(members, key) for key in (_ON_STREAM, _RECORD))
    device = events.column("device").take(chosen).to_pylist()
    stream = events.column("stream").take(chosen).to_pylist()
    codes: dict[tuple[object, object], int] = {}
    for code, (where, which) in enumerate(zip(streams.labels[0], streams.labels[1], strict=True)):
        codes.setdefault((where, which), code)
    source = index.ints("source")
    recorder = link(
        np.column_stack((source[host[calls]].astype(np.int64), rows.correlation[host[calls]])),
        np.column_stack((source[sync].astype(np.int64), record)),
        launch_known=rows.correlated[host[calls]],
        device_known=record >= 0,
    ).launch
    return _SyncRows(
        np.where(caller >= 0, calls[caller], -1),
        _codes(codes, device, stream),
        _codes(codes, device, [None if n < 0 else n for n in on_stream.tolist()]),
        np.where(recorder >= 0, calls[recorder], -1),
    )


def _codes(codes: dict[tuple[object, object], int], device: list[object], stream: list[object]) -> I64:
    """Return the code of each stream; -1 where nothing ran on it, or the row names none."""
    found = [-1 if s is None else codes.get((d, s), -1) for d, s in zip(device, stream, strict=True)]
    return np.array(found, np.int64)


def _number(column: Chunked, key: str) -> I64:
    """Return the member of each row's args, -1 where it has none or one below zero."""
    numbers, known = args.integers(column, key)
    return np.where(known & (numbers >= 0), numbers, -1)

"""Who waits for whom on the critical path: calls by their names, and what rows of kind sync add (see _path_graph)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tracekit.analysis.critical_path import Device, Host, Part, Waits
from tracekit.analysis.intervals import I64
from tracekit.analysis.links import link
from tracekit.index import grouping
from tracekit.index.trace_index import TraceIndex

Mask = npt.NDArray[np.bool_]

UNNAMED, IN_STEP = "(no name)", "(in a step, in no other range)"

_WHOLE = re.compile(r"(?:Device|Ctx|Context|Thread)Synchronize")
_ONE = re.compile(r"(?:Stream|Event)Synchronize")
_COPIES = re.compile(r"[Mm]emcpy")
_STREAM_WAIT = re.compile(r"Stream [Ww]ait")
_RECORD = r'"wait_on_cuda_event_record_corr_id"\s*:\s*(?P<n>[0-9]{1,18})\s*[,}]'
_ON_STREAM = r'"wait_on_stream"\s*:\s*(?P<n>[0-9]{1,18})\s*[,}]'
"""In the args of Kineto's rows of cat cuda_sync; -1 is "none" there."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What all owners share: columns of EVENTS as arrays of shape (n,), and what each row is."""

    index: TraceIndex
    start: I64
    end: I64
    name: I64
    names: list[str]
    ranges: Mask
    steps: Mask
    active: Mask
    calls: Mask
    device: Mask
    sync: Mask
    threads: grouping.Key
    pids: grouping.Key
    no_thread: Mask
    correlation: I64
    correlated: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """Which host rows are calls that wait for all streams, for one stream or event, or copy; shape (h,)."""

    whole: Mask
    one: Mask
    copies: Mask


@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """What rows of kind sync tell, shape (s,), -1 where they do not.

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
    named = bool((rows.pids.codes[others] > 0).all() and (rows.pids.codes[calls] > 0).all())
    pid = rows.pids.codes if named else np.zeros(rows.start.size, np.int64)

    def keys(at: I64) -> I64:
        return np.column_stack((source[at].astype(np.int64), pid[at], rows.correlation[at]))

    return link(
        keys(calls), keys(others), launch_known=rows.correlated[calls], device_known=rows.correlated[others]
    ).launch


def find(
    rows: Rows, sync: I64, host: I64, on_host: Host, on_device: Device, waiting: Waiting, streams: grouping.Groups
) -> Waits:
    """Return the waits of one owner. sync, host: its rows of EVENTS; streams: of the rows of `on_device`."""
    told = _told(rows, sync, host, streams)
    starts = on_host.starts

    whole, one = np.flatnonzero(waiting.whole), np.flatnonzero(waiting.one)
    says = np.full(host.size, -1, np.int64)
    real = np.flatnonzero(told.caller >= 0)
    says[told.caller[real]] = real
    # Stream and event of a call whose row of kind sync names them; any stream and the call's own time else.
    stream, recorded = np.full(one.size, Waits.ANY), np.full(one.size, -1)
    known = np.flatnonzero(says[one] >= 0)
    row = says[one[known]]
    stream[known] = np.where(told.on[row] >= 0, told.on[row], np.where(told.own[row] >= 0, told.own[row], Waits.ANY))
    recorded[known] = told.recorded[row]
    before = starts[np.where(recorded >= 0, recorded, one)]

    copies, works = _copies(on_device, waiting.copies)
    lone = np.flatnonzero(_named(rows, sync, _STREAM_WAIT) & (told.own >= 0) & (told.on >= 0) & (told.recorded >= 0))
    caller = told.caller[lone]
    after = rows.start[sync[lone]]
    after[caller >= 0] = starts[caller[caller >= 0]]
    return Waits(
        np.concatenate((whole, one, copies)),
        np.concatenate((np.full(whole.size, Waits.ALL), stream, np.full(copies.size, Waits.ANY))),
        np.concatenate((starts[whole], before, starts[copies])),
        np.concatenate((np.full(whole.size + one.size, -1), works)),
        told.own[lone],
        after,
        told.on[lone],
        starts[told.recorded[lone]],
    )


def _copies(on_device: Device, is_copy: Mask) -> tuple[I64, I64]:
    """Return the calls that copied, and of each the copy that ended last, as a row of `Device`."""
    copied = np.flatnonzero((on_device.launch >= 0) & (on_device.parts == Part.COPY))
    copied = copied[is_copy[on_device.launch[copied]]]
    copied = copied[np.lexsort((on_device.ends[copied], on_device.launch[copied]))]
    call = on_device.launch[copied]
    last = np.append(call[1:] != call[:-1], True) if call.size else np.zeros(0, np.bool_)
    return call[last], copied[last]


def _told(rows: Rows, sync: I64, host: I64, streams: grouping.Groups) -> _Told:
    none = np.full(sync.size, -1, np.int64)
    calls = np.flatnonzero(rows.calls[host])
    if not sync.size or not calls.size:
        return _Told(none, none, none, none)
    caller = linked(rows, host[calls], sync)
    args = rows.index.events.column("args").take(sync)
    on_stream, record = (_number(args, pattern) for pattern in (_ON_STREAM, _RECORD))
    index, events = rows.index, rows.index.events
    device = events.column("device").take(sync).to_pylist()
    stream = events.column("stream").take(sync).to_pylist()
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
    return _Told(
        np.where(caller >= 0, calls[caller], -1),
        _codes(codes, device, stream),
        _codes(codes, device, [None if n < 0 else n for n in on_stream.tolist()]),
        np.where(recorder >= 0, calls[recorder], -1),
    )


def _codes(codes: dict[tuple[object, object], int], device: list[object], stream: list[object]) -> I64:
    """Return the code of each stream; -1 where nothing ran on it, or it is not named."""
    found = [-1 if s is None else codes.get((d, s), -1) for d, s in zip(device, stream, strict=True)]
    return np.array(found, np.int64)


def _number(args: object, pattern: str) -> I64:
    """Return the number that a pattern finds in each of the texts, -1 for none."""
    found = pc.struct_field(pc.extract_regex(args, pattern), "n")
    numbers: I64 = pc.fill_null(pc.cast(found, "int64"), -1).to_numpy()
    return numbers

"""From a trace to the graphs of its critical paths, one for each rank (process, input); see analysis/critical_path.

Host rows are operators, API calls, communication and ranges of the program on their threads. API calls and operators
without a thread count as those of one thread of their process. A call launches the device work of its correlation id;
work without one was launched when it began, unless it followed at once on other work of its stream.
Waits are: calls named ...Synchronize; copies that end inside their own call; streams that Kineto's "Stream Wait Event"
rows name. Rows of kind sync name the stream that a call waits for; Kineto's also name the record of an event.

Where no such rows name an event, waits of streams follow from calls (cudaStreamWaitEvent) and from the schedule; waits
of threads for threads always do (analysis/_path_doubts).

Not in a trace, so not in the graph: locks and queues between threads, other ranks, what the default stream waits for,
synchronization inside calls such as cudaFree, device work that began before its launch call.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from tracekit.analysis.critical_path import Path, PathGraph, connected, upper_bound, walk
from tracekit.analysis.links import link, link_columns
from tracekit.analysis.path_graph import PathDevice, PathHost, PathPart, Waits, build_nodes
from tracekit.analysis.segments import compact_codes, place_type
from tracekit.index import grouping
from tracekit.index import owners as _owners
from tracekit.index import steps as _steps
from tracekit.index.sources import synthetic_sources
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import args, arrow, sets
from tracekit.model.arrow import I32, I64, Chunked, Mask, Rows, pc
from tracekit.model.patterns import rows_found
from tracekit.model.schema import API_CALLS, DEVICE_WORK, USER_RANGES, Kind

__all__ = ["ARGS_OF", "COLUMNS", "OwnGraph", "count", "graphs", "path_of"]

# Waits on the critical path: calls that wait, by name, and the facts that rows of kind sync add (see `graph`).


UNNAMED, IN_STEP = "(no name)", "(in a step, in no other range)"

_WHOLE = lazy_pattern(r"(?:Device|Ctx|Context|Thread)Synchronize")
_ONE = lazy_pattern(r"(?:Stream|Event)Synchronize")
_COPIES = lazy_pattern(r"[Mm]emcpy")
_STREAM_WAIT = lazy_pattern(r"Stream [Ww]ait")
_ORDER = lazy_pattern(r"StreamWait(?:Event|Value)")
_RECORD = "wait_on_cuda_event_record_corr_id"
_ON_STREAM = "wait_on_stream"
"""Keys in the args of Kineto's rows of cat cuda_sync; -1 is "none" there."""


@dataclass(frozen=True, slots=True, eq=False)
class PathRows:
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


def by_name(rows: PathRows, host: I64) -> Waiting:
    """Return the calls that wait, or copy."""
    calls = rows.calls[host]
    names = np.where(calls, rows.name[host], -1)
    return Waiting(*(rows_found(pattern, rows.names, names) for pattern in (_WHOLE, _ONE, _COPIES)))


def _named(rows: PathRows, at: I64, pattern: re.Pattern[str]) -> Mask:
    return rows_found(pattern, rows.names, rows.name[at])


def linked_rows(rows: PathRows, calls: Rows, others: Rows) -> I64:
    """Return for each of the other rows the place of the call with its correlation id, in its input and process."""
    index = rows.index
    codes, labels = index.codes("pid")
    stated = bool((codes[others] > 0).all()) and bool((codes[calls] > 0).all())
    columns = (index.ints("source"), *((codes,) if stated and len(labels) > 2 else ()), rows.correlation)
    keys = (column for column in columns if column.strides != (0,))  # one number for all rows tells none apart
    return link_columns(keys, calls, others, known=rows.correlated).launch


def find(
    rows: PathRows,
    sync: I64,
    host: I64,
    on_host: PathHost,
    on_device: PathDevice,
    waiting: Waiting,
    streams: grouping.Groups,
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


def _orders(rows: PathRows, sync: I64, host: I64, known_waits: _SyncRows, complete: Mask) -> tuple[I64, I64]:
    """Return the calls that tell a stream to wait for an event that is not known, and that stream where it is known.

    complete: rows of kind sync that name the event. Where there are any, calls without such a row wait for nothing.
    """
    told = _named(rows, sync, _STREAM_WAIT)
    calls = np.flatnonzero(rows.calls[host])
    calls = calls[_named(rows, host[calls], _ORDER)]
    if (told & complete).any():
        calls = calls[:0]
    stream = np.full(host.size, int(Waits.ANY))
    partly = np.flatnonzero(told & ~complete & (known_waits.caller >= 0) & (known_waits.own >= 0))
    stream[known_waits.caller[partly]] = known_waits.own[partly]
    orders = sets.union(calls, known_waits.caller[partly])
    return orders, stream[orders]


def _copies(on_device: PathDevice, is_copy: Mask) -> tuple[I64, I64]:
    """Return the calls that copied, and the copy of each that ended last, as a row of `PathDevice`."""
    copied = np.flatnonzero((on_device.launch >= 0) & (on_device.parts == PathPart.COPY))
    copied = copied[is_copy[on_device.launch[copied]]]
    copied = copied[np.lexsort((on_device.ends[copied], on_device.launch[copied]))]
    call = on_device.launch[copied]
    last = np.append(call[1:] != call[:-1], True) if call.size else np.zeros(0, np.bool_)
    return call[last], copied[last]


def _sync_rows(rows: PathRows, sync: I64, host: I64, streams: grouping.Groups) -> _SyncRows:
    none = np.full(sync.size, -1, np.int64)
    calls = np.flatnonzero(rows.calls[host])
    if not sync.size or not calls.size:
        return _SyncRows(none, none, none, none)
    caller = linked_rows(rows, host[calls], sync)
    index, chosen = rows.index, arrow.array(sync)
    events = index.events
    members = pc.dictionary_encode(pc.take(events.column("args"), chosen))
    on_stream, record = (_number(members, key) for key in (_ON_STREAM, _RECORD))
    device = pc.take(events.column("device"), chosen).to_pylist()
    stream = pc.take(events.column("stream"), chosen).to_pylist()
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
    codes_of_rows = [-1 if s is None else codes.get((d, s), -1) for d, s in zip(device, stream, strict=True)]
    return np.array(codes_of_rows, np.int64)


def _number(column: Chunked, key: str) -> I64:
    """Return the member of each row's args, -1 where it has none or one below zero."""
    numbers, known = args.integers(column, key)
    return np.where(known & (numbers >= 0), numbers, -1)


COLUMNS = _steps.COLUMNS | {"name", "device", "context", "stream", "correlation", "args"}
ARGS_OF = frozenset({Kind.SYNC})
RANGES = USER_RANGES | {Kind.PYTHON_OP}
ACTIVE = frozenset({Kind.OPERATOR, Kind.OPERATOR_INNER, Kind.COMMUNICATION}) | API_CALLS


@dataclass(frozen=True, slots=True, eq=False)
class OwnGraph:
    """The graph of one owner. names: the text of each code of a name. rows: of EVENTS, for each node.

    waits: row of EVENTS of each wait's call. steps: whether its window is that of the steps. unlinked: pieces of device
    work whose launch is unknown; device: device events.
    """

    owner: int
    graph: PathGraph
    names: list[str]
    rows: Rows
    waits: Rows
    steps: bool
    device: int
    unlinked: int
    guessed_thread: bool

    def upper_bound(self, names: Collection[str], *, without: Collection[int] = ()) -> int:
        """Return the ns by which the window would be shorter if all work with one of these names took no time.

        without: rows of EVENTS of synchronizing calls that would not wait.
        """
        codes = [code for code, name in enumerate(self.names) if name in set(names)]
        calls = np.flatnonzero(np.isin(self.waits, np.array(sorted(without), np.int64))).tolist() if without else []
        return upper_bound(self.graph, codes, without=calls)

    @property
    def guessed_waits(self) -> int:
        """The number of pieces of work that seem to have waited for another stream, though no row or call says so."""
        doubts = self.graph.doubts
        return int(np.count_nonzero(~doubts.sure & (doubts.lags >= 0)))


@join
def graphs(index: TraceIndex, owners: _owners.Owners, *, most: int = 0) -> tuple[OwnGraph, ...]:
    """Return the graph of each owner with host rows, of the first `most` of them (0: of all)."""
    rows = _rows(index)
    steps = _steps.find(index, owners)
    hosts = np.bincount(owners.codes[rows.active | rows.steps], minlength=len(owners))
    able = np.flatnonzero(hosts > 0).tolist()
    owner_graphs = []
    for owner in able[:most] if most else able:
        of_owner = owners.codes == owner
        its_steps = steps.owner == owner
        window = None
        if its_steps.any():
            window = int(steps.starts[its_steps].min()), int((steps.starts + steps.durations)[its_steps].max())
        owner_graphs.append(_graph(rows, owner, of_owner, window))
        arrow.release_memory()
    return tuple(owner_graphs)


def path_of(index: TraceIndex, owner_graph: OwnGraph) -> Path:
    """Return the critical path through a graph."""
    return index.once((path_of, owner_graph), lambda: walk(owner_graph.graph))


def count(index: TraceIndex, owners: _owners.Owners) -> int:
    """Return the number of owners for which `graphs` returns a graph without a limit."""
    rows = _rows(index)
    return int(np.count_nonzero(np.bincount(owners.codes[rows.active | rows.steps], minlength=len(owners))))


def _rows(index: TraceIndex) -> PathRows:
    start = index.starts
    timed = index.has("dur_ns") & ~np.isin(index.ints("source"), synthetic_sources(index))
    name, names = index.texts("name")
    steps = index.kind_mask({Kind.STEP})
    number = np.where(name < 0, np.int32(len(names)), name)
    number[steps] = len(names) + 1
    placed = index.has("device")
    device = timed & (index.kind_mask(DEVICE_WORK) | (placed & index.kind_mask({Kind.COMMUNICATION})))
    threaded = index.has("tid")
    return PathRows(
        index,
        start,
        index.lengths,
        number,
        [*names, UNNAMED, IN_STEP],
        timed & threaded & ~placed & index.kind_mask(RANGES),
        timed & threaded & ~placed & steps,
        timed & ~placed & ~device & index.kind_mask(ACTIVE),
        timed & index.kind_mask(API_CALLS),
        device,
        timed & index.kind_mask({Kind.SYNC}),
        index.ints("correlation"),
        index.has("correlation"),
    )


def _graph(rows: PathRows, owner: int, of_owner: Mask, window: tuple[int, int] | None) -> OwnGraph:
    place = place_type(of_owner.size)
    host: Rows = np.flatnonzero(of_owner & (rows.active | rows.ranges)).astype(place)
    device: Rows = np.flatnonzero(of_owner & rows.device).astype(place)
    pids, tids = (rows.index.key(column, host) for column in ("pid", "tid"))
    width = len(tids.labels)
    lanes, threads = compact_codes(pids.codes * width + tids.codes, len(pids.labels) * width)
    threads = threads.astype(np.min_scalar_type(-lanes.size - 1))
    del pids, tids
    calls = np.flatnonzero(rows.calls[host])
    linked = linked_rows(rows, host[calls], device)
    launch = np.where(linked >= 0, calls[linked] if calls.size else -1, -1).astype(place)
    del calls, linked
    launches = np.zeros(host.size, np.bool_)
    launches[launch[launch >= 0]] = True

    waiting = by_name(rows, host)
    parts = np.full(host.size, int(PathPart.HOST), np.int8)
    parts[launches] = int(PathPart.LAUNCH)
    parts[waiting.whole | waiting.one] = int(PathPart.SYNC)
    on_host = PathHost(
        threads,
        rows.start[host],
        rows.end(host),
        rows.name[host],
        parts,
        rows.active[host],
        lanes // width,
    )
    streams = _streams(rows, device)
    copies = rows.index.kind_mask({Kind.MEMCPY, Kind.MEMSET})[device]
    on_device = PathDevice(
        streams.codes.astype(np.min_scalar_type(-streams.count - 1)),
        rows.start[device],
        rows.end(device),
        rows.name[device],
        np.where(copies, np.int8(PathPart.COPY), np.int8(PathPart.KERNEL)),
        launch,
    )
    waits = find(rows, np.flatnonzero(of_owner & rows.sync), host, on_host, on_device, waiting, streams)
    main = _main(rows, host, on_host, launches)
    arrow.release_memory()
    begin, end = window or (None, None)
    nodes = build_nodes(on_host, on_device, waits, main=main, begin=begin, end=end)
    # The graph is the largest of all joins: what built its nodes goes before they are connected.
    del on_host, on_device, streams, waiting, launches, parts, lanes, threads, of_owner, copies
    arrow.release_memory()
    graph = connected(nodes, main=main)
    drawn = nodes.row[nodes.devices_from :].copy()
    node_rows = nodes.row.astype(place, copy=False)  # the places in `host` and `device` are not needed again
    node_rows[: nodes.devices_from] = host[nodes.row[: nodes.devices_from]]
    node_rows[nodes.devices_from :] = device[drawn]
    return OwnGraph(
        owner,
        graph,
        rows.names,
        node_rows,
        host[waits.calls],
        window is not None,
        drawn.size,
        int(np.count_nonzero(launch[drawn] < 0)),
        not bool(rows.index.has("tid")[host].all()),
    )


def _streams(rows: PathRows, device: I64) -> grouping.Groups:
    index = rows.index
    if not device.size:
        return grouping.Groups(np.zeros(0, np.int64), 0, ([], [], [], []))
    return grouping.group_by(
        index.key("device", device),
        index.key("stream", device),
        index.key("context", device),
        index.key("pid", device),
    )


def _main(rows: PathRows, host: I64, on_host: PathHost, launches: Mask) -> int:
    """Return the thread that takes the steps; else the one that launches most; else the one that works longest."""
    size = max(on_host.processes.size, 1)
    length = on_host.ends - on_host.starts
    for weight in (
        np.where(rows.steps[host], length, 0),
        launches.astype(np.int64),
        np.where(on_host.active, length, 0),
    ):
        weights = np.bincount(on_host.threads, weight, minlength=size)
        if weights.any():
            return int(weights.argmax())
    return 0

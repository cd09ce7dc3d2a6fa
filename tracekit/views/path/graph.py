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

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from tracekit.analysis.critical_path import Device, Graph, Host, Part, Path, build_nodes, connected, upper_bound, walk
from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.index import grouping
from tracekit.index import owners as _owners
from tracekit.index import steps as _steps
from tracekit.index.sources import synthetic_sources
from tracekit.index.trace_index import TraceIndex, join
from tracekit.schema import API_CALLS, DEVICE_WORK, USER_RANGES, Kind
from tracekit.views.path import _waits
from tracekit.views.path._waits import IN_STEP, UNNAMED, Rows

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
    graph: Graph
    names: list[str]
    rows: I64
    waits: I64
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
    found = []
    for owner in able[:most] if most else able:
        own = owners.codes == owner
        mine = steps.owner == owner
        window = None
        if mine.any():
            window = int(steps.starts[mine].min()), int((steps.starts + steps.durations)[mine].max())
        found.append(_graph(rows, owner, own, window))
        arrow.release_memory()
    return tuple(found)


def path_of(index: TraceIndex, own: OwnGraph) -> Path:
    """Return the critical path through a graph."""
    return index.once((path_of, own), lambda: walk(own.graph))


def count(index: TraceIndex, owners: _owners.Owners) -> int:
    """Return the number of owners for which `graphs` returns a graph without a limit."""
    rows = _rows(index)
    return int(np.count_nonzero(np.bincount(owners.codes[rows.active | rows.steps], minlength=len(owners))))


def _rows(index: TraceIndex) -> Rows:
    start = index.starts
    timed = index.has("dur_ns") & ~np.isin(index.ints("source"), synthetic_sources(index))
    name, names = index.texts("name")
    steps = index.kind_mask({Kind.STEP})
    number = np.where(name < 0, np.int32(len(names)), name)
    number[steps] = len(names) + 1
    placed = index.has("device")
    device = timed & (index.kind_mask(DEVICE_WORK) | (placed & index.kind_mask({Kind.COMMUNICATION})))
    threaded = index.has("tid")
    return Rows(
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


def _graph(rows: Rows, owner: int, own: Mask, window: tuple[int, int] | None) -> OwnGraph:
    host = np.flatnonzero(own & (rows.active | rows.ranges))
    device = np.flatnonzero(own & rows.device)
    pids, tids = (rows.index.key(column, host) for column in ("pid", "tid"))
    width = len(tids.labels)
    lanes, threads = np.unique(pids.codes * width + tids.codes, return_inverse=True)
    del pids, tids
    calls = np.flatnonzero(rows.calls[host])
    linked = _waits.linked(rows, host[calls], device)
    launch = np.where(linked >= 0, calls[linked] if calls.size else -1, -1)
    launches = np.zeros(host.size, np.bool_)
    launches[launch[launch >= 0]] = True

    waiting = _waits.by_name(rows, host)
    parts = np.full(host.size, int(Part.HOST), np.int8)
    parts[launches] = int(Part.LAUNCH)
    parts[waiting.whole | waiting.one] = int(Part.SYNC)
    on_host = Host(
        threads.astype(np.int64, copy=False),
        rows.start[host],
        rows.end(host),
        rows.name[host],
        parts,
        rows.active[host],
        lanes // width,
    )
    streams = _streams(rows, device)
    kernel = np.isin(device, np.flatnonzero(rows.index.kind_mask({Kind.MEMCPY, Kind.MEMSET})))
    on_device = Device(
        streams.codes,
        rows.start[device],
        rows.end(device),
        rows.name[device],
        np.where(kernel, np.int8(Part.COPY), np.int8(Part.KERNEL)),
        launch,
    )
    waits = _waits.find(rows, np.flatnonzero(own & rows.sync), host, on_host, on_device, waiting, streams)
    main = _main(rows, host, on_host, launches)
    arrow.release_memory()
    begin, end = window or (None, None)
    nodes = build_nodes(on_host, on_device, waits, main=main, begin=begin, end=end)
    del on_host, on_device, streams, waiting, launches, parts, lanes, threads, own
    arrow.release_memory()
    graph = connected(nodes, main=main)
    drawn = nodes.row[nodes.devices_from :].copy()
    node_rows = nodes.row  # the places in `host` and `device` are not needed again
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


def _streams(rows: Rows, device: I64) -> grouping.Groups:
    index = rows.index
    if not device.size:
        return grouping.Groups(np.zeros(0, np.int64), 0, ([], [], [], []))
    return grouping.group_by(
        index.key("device", device),
        index.key("stream", device),
        index.key("context", device),
        index.key("pid", device),
    )


def _main(rows: Rows, host: I64, on_host: Host, launches: Mask) -> int:
    """Return the thread that takes the steps; else the one that launches most; else the one that works longest."""
    size = max(on_host.processes.size, 1)
    length = on_host.ends - on_host.starts
    for weight in (
        np.where(rows.steps[host], length, 0),
        launches.astype(np.int64),
        np.where(on_host.active, length, 0),
    ):
        found = np.bincount(on_host.threads, weight, minlength=size)
        if found.any():
            return int(found.argmax())
    return 0

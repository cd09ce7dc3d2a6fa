"""Lanes of a timeline: the rows of each lane, its label, and the order of the lanes.

A lane is a stream of a device, or a thread of the host. Lanes of one process follow each other, devices first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from tracekit.analysis.intervals import I64
from tracekit.index import grouping
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell
from tracekit.schema import DEVICE_WORK
from tracekit.trace import Run

COLUMNS = frozenset({"kind", "source", "rank", "pid", "tid", "device", "context", "stream"})


@dataclass(frozen=True, slots=True)
class Place:
    """The ids of a lane; None: the file does not name it. `device`, `context`, `stream` are None on the host."""

    source: int
    rank: Cell
    pid: Cell
    on_device: bool
    device: Cell
    context: Cell
    stream: Cell
    tid: Cell

    def order(self) -> tuple[object, ...]:
        """Return the sort key of the lane: process by process, devices before the host, by number.

        Device work without a process comes before all processes.
        """
        shared = self.on_device and self.pid is None
        own = (self.device, self.context, self.stream, self.tid)
        return (self.source, _last(self.rank), not shared, _last(self.pid), not self.on_device, *map(_last, own))


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes in order. codes: shape (n,), the lane of each row. labels, groups: a text a lane; one group alone is ""."""

    codes: I64
    places: list[Place]
    labels: list[str]
    groups: list[str]

    def __len__(self) -> int:
        return len(self.places)


def _last(cell: Cell) -> tuple[bool, Cell]:
    return cell is None, cell if cell is not None else 0


def find(index: TraceIndex, rows: I64) -> Lanes:
    """Return the lanes of these rows of EVENTS.

    A row is on a device if it is a kernel, copy or memset, or names a device. The thread of a device row and the stream
    of a host row are ignored.
    """
    on_device = index.kind_mask(DEVICE_WORK)[rows] | index.has("device")[rows]

    def key(column: str, side: bool | None = None) -> grouping.Key:
        found = index.key(column, rows)
        return found if side is None else grouping.Key(np.where(on_device == side, found.codes, 0), found.labels)

    sides = grouping.Key(on_device.astype(np.int64), [False, True])
    groups = grouping.group_by(
        key("source"),
        key("rank"),
        key("pid"),
        sides,
        key("device"),
        key("context", True),
        key("stream", True),
        key("tid", False),
    )
    places = [
        Place(int(source or 0), rank, pid, bool(device_side), device, context, stream, tid)
        for source, rank, pid, device_side, device, context, stream, tid in zip(*groups.labels, strict=True)
    ]
    order = sorted(range(len(places)), key=lambda i: places[i].order())
    rank_of = np.empty(len(places), np.int64)
    rank_of[order] = np.arange(len(places))
    places = [places[i] for i in order]
    return Lanes(rank_of[groups.codes], places, _labels(index.run, places), _group_labels(index, places))


def keep(lanes: Lanes, kept: I64) -> tuple[Lanes, I64]:
    """Return only the lanes with the ascending numbers `kept`, and the positions in `codes` of their rows."""
    number = np.full(len(lanes), -1, np.int64)
    number[kept] = np.arange(kept.size)
    codes = number[lanes.codes]
    rows = np.flatnonzero(codes >= 0)
    chosen = kept.tolist()
    fewer = Lanes(
        codes[rows],
        [lanes.places[i] for i in chosen],
        [lanes.labels[i] for i in chosen],
        [lanes.groups[i] for i in chosen],
    )
    return fewer, rows


def _labels(run: Run, places: list[Place]) -> list[str]:
    contexts = _distinct(
        ((p.source, p.rank, p.pid, p.device), p.context) for p in places if p.on_device and p.context is not None
    )
    return [
        _device_label(run, p, len(contexts.get((p.source, p.rank, p.pid, p.device), ())) > 1)
        if p.on_device
        else _host_label(run, p)
        for p in places
    ]


def device_label(device: Cell) -> str:
    """Return "GPU 0", or words where the file names no device."""
    return "GPU" if device is None else f"GPU {device}"


def _device_label(run: Run, place: Place, name_context: bool) -> str:
    parts = [device_label(place.device)]
    if name_context and place.context is not None:
        parts.append(f"context {_own_id(run, 'context', place.source, place.context)}")
    if place.stream is not None:
        parts.append(f"stream {_own_id(run, 'stream', place.source, place.stream)}")
        parts.append(run.streams.get((place.source, place.device, place.stream), ""))
    return " ".join(filter(None, parts))


def _host_label(run: Run, place: Place) -> str:
    if place.tid is None:
        return "host"
    name = run.threads.get((place.source, place.pid, place.tid), "")
    return f"host thread {_own_id(run, 'tid', place.source, place.tid)} {name}".rstrip()


def _own_id(run: Run, column: str, source: int, number: Cell) -> str:
    """Return the id as the file spells it, where that was text or too large for the column."""
    return run.ids.get((column, source, number), str(number))


def _group_labels(index: TraceIndex, places: list[Place]) -> list[str]:
    """Return the label of each lane's process, without the words that all lanes share."""
    owners = owner_labels(index, [(p.source, p.rank) for p in places])
    pids = _distinct(((p.source, p.rank), p.pid) for p in places if p.pid is not None)
    with_host = {(p.source, p.rank, p.pid) for p in places if not p.on_device}
    labels = []
    for p in places:
        parts = [owners[p.source, p.rank]]
        if len(pids.get((p.source, p.rank), ())) > 1:
            if p.pid is not None:
                name = index.run.processes.get((p.source, p.pid), "")
                parts.append(f"process {_own_id(index.run, 'pid', p.source, p.pid)} {name}".rstrip())
            else:
                parts.append("no process named" if (p.source, p.rank, p.pid) in with_host else "devices")
        labels.append(" · ".join(filter(None, parts)))
    return labels


def owner_labels(index: TraceIndex, owners: Iterable[tuple[int, Cell]]) -> dict[tuple[int, Cell], str]:
    """Return a word for each (source, rank), "" where there is one alone: "rank 3", the input's label, or both."""
    found = set(owners)
    sources, ranks = {source for source, _ in found}, {rank for _, rank in found}
    names = source_labels(index)
    out = {}
    for source, rank in found:
        parts = []
        # Where each input is one rank of its own, the rank is enough.
        if len(sources) > 1 and (None in ranks or len(ranks) < len(found) or len(sources) < len(found)):
            parts.append(source_label(names, source))
        if len(ranks) > 1:
            parts.append("no rank named" if rank is None else f"rank {rank}")
        out[source, rank] = " · ".join(parts)
    return out


def _distinct(pairs: Iterable[tuple[Hashable, Cell]]) -> dict[Hashable, set[Cell]]:
    out: dict[Hashable, set[Cell]] = {}
    for key, value in pairs:
        out.setdefault(key, set()).add(value)
    return out

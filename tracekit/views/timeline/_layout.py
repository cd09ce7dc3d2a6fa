"""Lanes, layers and rows of the events of a timeline.

The order of work keeps memory small: events are put in order by lane and layer at once, and then each layer alone gets
its rows. Events nested in others are on rows below them. Only layers whose events overlap in part (threads that share
an id, work that ends in any order) take the slow way, which gives each such event the first row that is free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.analysis.lanes import LaneAssigner
from tracekit.analysis.nesting import nest
from tracekit.analysis.segments import order_by_lane
from tracekit.columns.arrays import I64, Rows
from tracekit.index import lanes as _lanes
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell
from tracekit.report.timeline import LAYERS, Lane
from tracekit.schema import API_CALLS, USER_RANGES, Kind

_CALLS = API_CALLS | {Kind.SYNC, Kind.MEMORY, Kind.OVERHEAD}


@dataclass(frozen=True, slots=True)
class Layout:
    """order: shape (n,), rows of EVENTS by place. first: shape (rows + 1,), the place of each row's first event."""

    lanes: tuple[Lane, ...]
    order: Rows
    first: I64


def lay_out(index: TraceIndex, rows: Rows, starts: I64, lengths: I64) -> Layout:
    """Return the places of these rows of EVENTS, which come by start, of equal starts the longer first.

    starts, lengths: columns of EVENTS, ns.
    """
    found = _lanes.find(index, rows)
    kinds, words = index.texts("kind")
    layer_of = np.array([_layer(word) for word in words], np.uint8)
    layered = np.array([not place.on_device and not place.instants for place in found.places], np.uint8)
    parts = found.codes * len(LAYERS)
    parts += layer_of[kinds[rows]] * layered[found.codes]
    order = order_by_lane(parts)
    parts = parts[order]
    narrow = np.int32 if index.events.num_rows < 1 << 31 else np.int64
    order = rows[order].astype(narrow)
    begins = np.flatnonzero(np.diff(parts, prepend=-1))
    ends = np.append(begins[1:], order.size)
    codes = parts[begins].tolist()
    del parts
    layers: list[list[tuple[str, int]]] = [[] for _ in found.places]
    overlaps = [0] * len(found.places)
    first: list[I64] = []
    for code, begin, end in zip(codes, begins.tolist(), ends.tolist(), strict=True):
        lane, layer = divmod(code, len(LAYERS))
        mine = order[begin:end]
        level, odd = _levels(starts[mine], lengths[mine])
        count = np.ones(1, np.int64) * mine.size
        if level is not None:
            count = np.bincount(level)
            order[begin:end] = mine[order_by_lane(level)]
        first.append(begin + np.cumsum(count) - count)
        layers[lane].append((LAYERS[layer] if layered[lane] else "", count.size))
        overlaps[lane] += odd
    every = zip(found.places, found.labels, found.groups, layers, overlaps, found.hosts, strict=True)
    lanes = tuple(
        Lane(label, group, tuple(own), place.on_device, place.overlay, place.instants, odd, _ids(place), host)
        for place, label, group, own, odd, host in every
    )
    return Layout(lanes, order, np.concatenate([*first, np.array([order.size])]))


def _ids(place: _lanes.Place) -> tuple[tuple[str, int | str | None], ...]:
    cells = (place.source, place.rank, place.pid, place.device, place.context, place.stream, place.tid)
    words = ("source", "rank", "process", "device", "context", "stream", "thread")
    return tuple((word, None if cell is None else _id(cell)) for word, cell in zip(words, cells, strict=True))


def _id(cell: Cell) -> int | str:
    return cell if isinstance(cell, int) else str(cell)


def _layer(kind: str) -> int:
    if kind in USER_RANGES:
        return 0
    if kind == Kind.PYTHON_OP:
        return 1
    return 3 if kind in _CALLS else 2


def _levels(starts: I64, lengths: I64) -> tuple[I64 | None, int]:
    """Return the row of each event of a layer, None where all are on one, and how many overlap others in part."""
    ends = starts + lengths
    if (starts[1:] >= ends[:-1]).all():
        return None, 0
    one = np.zeros(starts.size, np.int64)
    tree = nest(one, starts, ends)
    if (tree.crosses < 0).all():
        return tree.depth, 0
    del tree
    track = LaneAssigner().assign(one, starts, lengths)
    depth = nest(track, starts, ends).depth
    height = np.zeros(int(track.max()) + 1, np.int64)
    np.maximum.at(height, track, depth + 1)
    levels: I64 = depth + (np.cumsum(height) - height)[track]
    return levels, int(np.count_nonzero(track))

"""Arrows on the timeline: from a launch call to its work, and arrows of the input (s, t and f of trace event files).

A point of an arrow is of the innermost event of its thread or stream that runs at its time; an end without "bp": "e" is
of the next event that begins. Points of one input with the same name, cat and id are one arrow; each end leads back to
the point before it that begins or continues the arrow. An arrow that repeats a launch is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tracekit.analysis.enclosing import innermost
from tracekit.analysis.links import one_key
from tracekit.analysis.segments import rows_by
from tracekit.columns import args
from tracekit.columns.arrays import I64, Mask, Rows
from tracekit.index import grouping
from tracekit.index import launches as _launches
from tracekit.index.trace_index import TraceIndex
from tracekit.report.timeline import LaneEvents
from tracekit.schema import DEVICE_WORK, Kind

_PHASES = ("s", "t", "f")
_FEW_LANES = 64


def launch_places(index: TraceIndex, events: LaneEvents) -> tuple[I64, I64]:
    """Return the places of launch calls and of the work of each, by the latter."""
    work = index.pick(DEVICE_WORK).rows
    found = _launches.launches_of(index, work)
    linked = found.launch >= 0
    calls, done = events.places_of(found.launch[linked]), events.places_of(work[linked])
    known = np.flatnonzero((calls >= 0) & (done >= 0))
    known = known[np.argsort(done[known])]
    return calls[known], done[known]


def flow_places(index: TraceIndex, events: LaneEvents, launches: tuple[I64, I64]) -> tuple[I64, I64, int]:
    """Return the places at both ends of the input's arrows, by the former, and how many points are of no arrow.

    Those have no other end, or no event runs there.
    """
    none = np.zeros(0, np.int64)
    points = np.flatnonzero(index.kind_mask({Kind.FLOW}) & index.has("correlation"))
    if not points.size:
        return none, none, 0
    column = index.events.column("args").take(points).combine_chunks().dictionary_encode()
    phases, cats = (args.texts(column, key) for key in ("ph", "cat"))
    phase = _renumbered(*phases)
    enclosing = _renumbered(*args.texts(column, "bp"), of=("e",)) == 0
    points, phase, cat, enclosing = (each[phase >= 0] for each in (points, phase, cats[0], enclosing))
    ids = (index.ints("source"), index.texts("name")[0], index.ints("correlation"))
    codes = one_key([*(each[points].astype(np.int64, copy=False) for each in ids), cat], points.size)
    order = np.lexsort((phase, index.starts[points], codes))
    points, phase, enclosing, codes = (each[order] for each in (points, phase, enclosing, codes))
    here = np.arange(points.size)
    before = np.maximum.accumulate(np.where(phase != 2, here, -1))  # the last point that begins or continues, or itself
    before = np.where(phase == 2, before, np.append(-1, before[:-1]))
    ends = np.flatnonzero(phase > 0)
    before = before[ends]
    linked = (before >= 0) & (codes[before] == codes[ends])
    place = _places(index, events, points, enclosing | (phase != 2))
    sources, targets = place[before[linked]], place[ends[linked]]
    whole = (sources >= 0) & (targets >= 0)
    used = np.zeros(points.size, np.bool_)
    used[before[linked][whole]] = used[ends[linked][whole]] = True
    drawn = whole & (sources != targets)
    sources, targets = sources[drawn], targets[drawn]
    size = max(len(events), 1)
    launched_by = np.full(size, -1, np.int64)  # of each place with work, of which there is one launch at most
    launched_by[launches[1]] = launches[0]
    new = launched_by[targets] != sources
    pairs = np.unique(sources[new] * size + targets[new])
    return pairs // size, pairs % size, int(np.count_nonzero(~used))


def _renumbered(codes: I64, texts: Sequence[str], of: Sequence[str] = _PHASES) -> I64:
    """Return the place of each row's text in `of`, -1 for any other."""
    number = np.array([*(of.index(text) if text in of else -1 for text in texts), -1], np.int64)
    found: I64 = number[codes]
    return found


def _places(index: TraceIndex, events: LaneEvents, points: Rows, enclosing: Mask) -> I64:
    """Return the place of the event of each point, -1 for none."""
    timed = np.flatnonzero(index.has("dur_ns"))
    lanes = _lanes(index, np.concatenate((timed, points)))
    of_events, of_points = lanes[: timed.size], lanes[timed.size :]
    mine = np.isin(of_events, of_points)
    timed, of_events = timed[mine], of_events[mine]
    starts, at = index.starts[timed], index.starts[points]
    found = np.full(points.size, -1, np.int64)
    lanes = np.unique(of_points)
    for lane in lanes.tolist() if lanes.size <= _FEW_LANES else [None]:  # lane by lane, in less memory
        asked = np.flatnonzero(of_points == lane) if lane is not None else np.arange(points.size)
        inside = np.flatnonzero(of_events == lane) if lane is not None else np.arange(timed.size)
        begins = starts[inside]
        ends = begins + index.lengths[timed[inside]]
        at_once = innermost(of_events[inside], begins, ends, of_points[asked], at[asked])
        found[asked] = np.append(inside, -1)[at_once]
    after, rows_of = np.flatnonzero(~enclosing), dict(rows_by(of_events))
    for lane, places in rows_by(of_points[after]):
        asked = after[places]
        inside = rows_of.get(lane, after[:0])
        next_ = np.searchsorted(starts[inside], at[asked])  # rows come by start, of equal starts the longer first
        found[asked] = np.append(inside, -1)[next_]
    known = np.flatnonzero(found >= 0)
    found[known] = events.places_of(timed[found[known]])
    return found


def _lanes(index: TraceIndex, rows: Rows) -> I64:
    """Return the number of the thread or stream of each row. A row that names a device is on a stream."""
    on_device = index.kind_mask(DEVICE_WORK)[rows] | index.has("device")[rows]

    def key(column: str, side: bool) -> grouping.Key:
        found = index.key(column, rows)
        return grouping.Key(np.where(on_device == side, found.codes, 0), found.labels)

    makers: list[Callable[[], grouping.Key]] = [
        lambda: index.key("source", rows),
        lambda: index.key("pid", rows),
        lambda: grouping.Key(on_device.astype(np.int64), [False, True]),
        lambda: key("device", True),
        lambda: key("stream", True),
        lambda: key("tid", False),
    ]
    return grouping.numbered(make() for make in makers)

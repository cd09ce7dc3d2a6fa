"""timeline: every event on its lane, and the time of the devices in parts.

The picture begins at time 0 of the tables: with the first event, also if that one has no duration. Events without a
duration are on lanes of their own, arrows and counters beside the lanes: every row of EVENTS is in the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from tracekit.analysis.intervals import coverage, merge, union_length_by
from tracekit.analysis.lanes import LaneAssigner
from tracekit.analysis.links import one_key
from tracekit.analysis.nesting import innermost, nest
from tracekit.analysis.segments import narrow, order_by_lane, rows_by
from tracekit.index import grouping
from tracekit.index import lanes as _lanes
from tracekit.index import launches as _launches
from tracekit.index.devices import by_clock, by_input, origins
from tracekit.index.lanes import device_label, device_model, owner_labels
from tracekit.index.memory_totals import TYPES, stated_totals
from tracekit.index.sources import source_label, source_labels, spans, synthetic_sources
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import args, arrow, sets
from tracekit.model.arrow import F64, I64, Chunked, Codes, Column, Mask, Rows
from tracekit.model.display import plural
from tracekit.model.report import Bar, Cell, Section, integer_of
from tracekit.model.schema import API_CALLS, DEVICE_WORK, USER_RANGES, Kind, describe
from tracekit.model.timeline import LAYERS, Argument, LaneEvents, Timeline, TimelineCounter, TimelineLane
from tracekit.model.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import View, ViewOptions
from tracekit.views.timeline.families import families

__all__ = ["UNNAMED", "VIEW"]

# Arrows on the timeline: from a launch call to its work, and arrows of the input (s, t and f of trace event files).
#
# A point of an arrow is of the innermost event of its thread or stream that runs at its time; an end without "bp": "e"
# is
# of the next event that begins. Points of one input with the same name, cat and id are one arrow; each end leads back
# to
# the point before it that begins or continues the arrow. An arrow that repeats a launch is left out.


_PHASES = ("s", "t", "f")
_FEW_LANES = 64
_AT_ONCE = 1 << 16
"""Rows whose args are looked at together."""


def launch_places(index: TraceIndex, events: LaneEvents) -> tuple[I64, I64]:
    """Return the places of launch calls and of the work of each, by the latter."""
    work = index.pick(DEVICE_WORK).rows
    launches = _launches.launches_of(index, work)
    linked = launches.launch >= 0
    calls, done = events.places_of(launches.launch[linked]), events.places_of(work[linked])
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
    points, phase, enclosing, codes = _by_arrow(index, points)
    numbers = np.arange(points.size)
    before = np.maximum.accumulate(
        np.where(phase != 2, numbers, -1)
    )  # the last point that begins or continues, or itself
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
    pairs = sets.unique(sources[new] * size + targets[new])
    return pairs // size, pairs % size, int(np.count_nonzero(~used))


def _by_arrow(index: TraceIndex, points: I64) -> tuple[I64, Codes, Mask, I64]:
    """Return the points that have a phase, those of an arrow together and in order of time.

    With each its phase, whether it is of the event around it by its own word, and the number of its arrow.
    """
    column = _encoded(index.events.column("args"), points)
    phase, cat = _renumbered(*args.texts(column, "ph")), args.texts(column, "cat")[0]
    enclosing = _renumbered(*args.texts(column, "bp"), of=("e",)) == 0
    del column
    if (phase < 0).any():
        points, phase, cat, enclosing = (each[phase >= 0] for each in (points, phase, cat, enclosing))
    ids = (index.ints("source"), index.texts("name")[0], index.ints("correlation"))
    codes = one_key([*(each[points].astype(np.int64, copy=False) for each in ids), cat], points.size)
    order = np.lexsort((phase, index.starts[points], codes))
    return points[order], phase[order], enclosing[order], codes[order]


def _encoded(column: Chunked, rows: I64) -> Column:
    """Return these rows of a column of texts as a dictionary; the texts are copied a part at a time."""
    parts = [arrow.take(column, rows[at : at + _AT_ONCE]).dictionary_encode() for at in range(0, rows.size, _AT_ONCE)]
    return pa.chunked_array([chunk for part in parts for chunk in part.chunks]).unify_dictionaries().combine_chunks()


def _renumbered(codes: I64, texts: Sequence[str], of: Sequence[str] = _PHASES) -> Codes:
    """Return the place of each row's text in `of`, -1 for any other."""
    number = np.array([*(of.index(text) if text in of else -1 for text in texts), -1], np.int8)
    places: Codes = number[codes]
    return places


def _places(index: TraceIndex, events: LaneEvents, points: Rows, enclosing: Mask) -> I64:
    """Return the place of the event of each point, -1 for none."""
    timed = np.flatnonzero(index.has("dur_ns"))
    lanes = narrow(_lanes_of(index, np.concatenate((timed, points))))
    of_events, of_points = lanes[: timed.size], lanes[timed.size :]
    asked_for = np.isin(of_events, of_points)
    timed, of_events = timed[asked_for], of_events[asked_for]
    starts, at = index.starts[timed], index.starts[points]
    event_of_point = np.full(points.size, -1, np.int64)
    lanes = sets.unique(of_points)
    for lane in lanes.tolist() if lanes.size <= _FEW_LANES else [None]:  # lane by lane, in less memory
        asked = np.flatnonzero(of_points == lane) if lane is not None else np.arange(points.size)
        inside = np.flatnonzero(of_events == lane) if lane is not None else np.arange(timed.size)
        begins = starts[inside]
        ends = begins + index.lengths[timed[inside]]
        at_once = innermost(of_events[inside], begins, ends, of_points[asked], at[asked])
        event_of_point[asked] = np.append(inside, -1)[at_once]
    after = np.flatnonzero(~enclosing)
    rows_of = dict(rows_by(of_events)) if after.size else {}
    for lane, places in rows_by(of_points[after]):
        asked = after[places]
        inside = rows_of.get(lane, after[:0])
        next_ = np.searchsorted(starts[inside], at[asked])  # rows come by start, of equal starts the longer first
        event_of_point[asked] = np.append(inside, -1)[next_]
    known = np.flatnonzero(event_of_point >= 0)
    event_of_point[known] = events.places_of(timed[event_of_point[known]])
    return event_of_point


def _lanes_of(index: TraceIndex, rows: Rows) -> I64:
    """Return the number of the thread or stream of each row. A row that names a device is on a stream."""
    on_device = index.kind_mask(DEVICE_WORK)[rows] | index.has("device")[rows]

    def key(column: str, side: bool | None = None) -> tuple[Rows, int]:
        codes, labels = index.codes(column)
        lanes = codes[rows]
        return (lanes if side is None else np.where(on_device == side, lanes, lanes.dtype.type(0))), len(labels)

    makers: list[Callable[[], tuple[Rows, int]]] = [
        lambda: key("source"),
        lambda: key("pid"),
        lambda: (on_device.astype(np.int8), 2),
        lambda: key("device", True),
        lambda: key("stream", True),
        lambda: key("tid", False),
    ]
    return grouping.numbered_codes(make() for make in makers)


# Tracks over time: a counter for each name, owner, process and device, and the memory that is held on each device.


_BYTES = frozenset({"Total Allocated", "Total Reserved"})
"""Counters of PyTorch: the running totals that its rows of kind memory have in their args."""


def tracks(index: TraceIndex, shift: I64) -> tuple[TimelineCounter, ...]:
    """Return a track for each counter. shift: shape (clocks,), ns to take off the times of each clock."""
    return (*_counters(index, shift), *_memory(index, shift))


def _counters(index: TraceIndex, shift: I64) -> Iterator[TimelineCounter]:
    rows = np.flatnonzero(index.kind_mask({Kind.COUNTER}) & index.has("value"))
    columns = ("source", "rank", "pid", "device", "name")
    groups = grouping.group_by(*(index.key(column, rows) for column in columns))
    sources, ranks, _, devices, names = groups.labels
    places = _counter_places(index, sources, ranks, devices)
    column = index.events.column("value")
    for number, of_counter in enumerate(_parted(groups, rows)):
        name = str(names[number] or "")
        values = _whole(arrow.floats(arrow.take(column, of_counter)))
        yield TimelineCounter(
            name, "bytes" if name in _BYTES else "", places[number], _times(index, of_counter, shift), values
        )


def _memory(index: TraceIndex, shift: I64) -> Iterator[TimelineCounter]:
    """Return what is held at each place: the running total that the file gives, else the sum of all rows so far.

    A sum is never below zero: what was allocated before the first row and is freed in the trace counts from the first
    row on. A file whose own counters have these totals (PyTorch's) has no second track.
    """
    sized = np.flatnonzero(index.kind_mask({Kind.MEMORY}) & index.has("bytes"))
    codes, names = index.texts("name")
    known = np.array([name in _BYTES for name in names] + [False], np.bool_)
    counted = sets.unique(index.ints("source")[index.kind_mask({Kind.COUNTER}) & known[codes]])
    rows = sized[~np.isin(index.ints("source")[sized], counted)]
    if not rows.size:
        return
    reserved = np.array([name.lower().startswith("reserved") for name in names] + [False], np.bool_)
    texts = index.events.column("args").take(rows)
    place, words = args.texts(texts, "place")
    stated_of = [stated_totals(texts, word) for word in TYPES]
    kinds = reserved[codes[rows]].astype(np.int64)
    groups = grouping.group_by(
        *(index.key(column, rows) for column in ("source", "rank", "device")),
        grouping.Key(place + 1, [None, *words]),
        grouping.Key(kinds, TYPES),
    )
    sources, ranks, devices, stated, types = groups.labels
    places = _counter_places(index, sources, ranks, devices)
    size = index.ints("bytes")
    at_row = np.zeros(index.events.num_rows, np.int64)
    at_row[rows] = np.arange(rows.size)
    for number, of_place in enumerate(_parted(groups, rows)):
        totals, known = stated_of[TYPES.index(str(types[number]))]
        held = _level(size[of_place], totals[at_row[of_place]], known[at_row[of_place]])
        where = stated[number] or ("host" if devices[number] is None else "")
        label = " ".join(filter(None, (f"memory {types[number]}", str(where))))
        yield TimelineCounter(label, "bytes", places[number], _times(index, of_place, shift), held)


def _level(sizes: I64, totals: I64, known: Mask) -> I64:
    """Return the bytes that are held after each row: the stated total where it is known, and sums between them."""
    held: I64 = np.cumsum(sizes)
    at = np.flatnonzero(known)
    if not at.size:
        return held - min(int(held.min()), 0)
    last = np.maximum(np.searchsorted(at, np.arange(held.size), "right") - 1, 0)
    return held + (totals[at] - held[at])[last]


def _counter_places(index: TraceIndex, sources: list[Cell], ranks: list[Cell], devices: list[Cell]) -> list[str]:
    """Return owner and device of each group, as the lanes of that device are called."""
    owners = owner_labels(index, [(integer_of(source), rank) for source, rank in zip(sources, ranks, strict=True)])
    return [
        " · ".join(filter(None, (owners[integer_of(source), rank], _device(index, source, device))))
        for source, rank, device in zip(sources, ranks, devices, strict=True)
    ]


def _parted(groups: grouping.Groups, rows: I64) -> Iterator[I64]:
    """Return the rows of each group, in order of time."""
    order = np.argsort(groups.codes, kind="stable")
    bounds = np.searchsorted(groups.codes[order], np.arange(groups.count + 1)).tolist()
    for number in range(groups.count):
        yield rows[order[bounds[number] : bounds[number + 1]]]


def _times(index: TraceIndex, rows: I64, shift: I64) -> I64:
    times: I64 = index.starts[rows] - shift[by_clock(index).codes[rows]]
    return times


def _whole(values: F64) -> I64 | F64:
    """Return values as integers where all of them are whole and exact."""
    if np.isfinite(values).all() and (np.abs(values) < 1 << 53).all() and (values == np.floor(values)).all():
        return values.astype(np.int64)
    return values


# The time of each device in parts, and how busy it was in each part of the span: plain unions, no names.
#
# A device has: kernels (the union over its streams), exposed copies (copies and memsets while no kernel ran, as in the
# view `breakdown`), and idle: the rest of the span. So the parts add up to the span exactly. The span is that of the
# view `device`: first start to last end of all rows of the same input (process, where a file holds several runs), host
# rows included; the share of kernels is that view's utilization.


BINS = 500
BARS = 8
SERIES = 16


@dataclass(frozen=True, slots=True)
class DeviceTimeBins:
    """bars: of all devices together where there are several, then of each. utilization: as in report.Timeline."""

    bars: tuple[Bar, ...] = ()
    utilization: tuple[tuple[str, list[float]], ...] = ()
    notes: tuple[str, ...] = ()


def device_time(index: TraceIndex, clocks: I64, shift: I64, begin: int, end: int) -> DeviceTimeBins:
    """Return the time of each device that worked.

    clocks: the clock of each row of EVENTS. shift: for each clock what is taken off its starts in the picture; begin,
    end: the picture's span, so shifted.
    """
    picked = index.pick(DEVICE_WORK)
    made_up = synthetic_sources(index)
    source = picked.key("source")
    known = np.array([label not in made_up for label in source.labels], np.bool_)[source.codes]
    if not known.any():
        return DeviceTimeBins()
    rows = picked.rows[known]
    inputs = by_input(index)
    place = grouping.Key(inputs.codes[picked.rows], range(inputs.count))
    keys = (source, picked.key("rank"), picked.key("device"), place)
    groups = grouping.group_by(*(grouping.Key(key.codes[known], key.labels) for key in keys))
    devices = sorted(range(groups.count), key=lambda g: _order(groups, inputs, g))
    starts = picked.starts[known]
    ends = starts + picked.durations[known]
    kernel = index.kind_mask({Kind.KERNEL})[rows]

    def union(of: Mask) -> list[int]:
        lengths: list[int] = union_length_by(groups.codes[of], groups.count, starts[of], ends[of]).tolist()
        return lengths

    kernels, busy = union(kernel), union(np.ones(starts.size, np.bool_))
    whole = _spans(index, inputs)
    names = _names(index, groups, inputs)
    bars = []
    totals = [0, 0, 0]
    for g in devices:
        span = whole[integer_of(groups.labels[3][g])]
        parts = (kernels[g], busy[g] - kernels[g], span - busy[g])
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
        model = index.run.devices.get((groups.labels[0][g], groups.labels[2][g]), "")
        bars.append(_bar(f"{f'Time of {names[g]} {device_model(model)}'.rstrip()}, of the run", parts))
    if not sum(totals):
        return DeviceTimeBins(notes=("all device work took no time at all: there is no share to show",))
    notes = []
    what = "devices" if set(inputs.labels[1]) == {None} else "runs on devices"
    if len(bars) > BARS:
        notes.append(f"device time is shown for all {len(bars):,} {what} together and for the first {BARS}")
    if len(bars) > 1:
        bars = [_bar(f"Time of all {len(bars):,} {what}, of the run", totals), *bars[:BARS]]
    if len(devices) > SERIES:
        notes.append(f"utilization over time is drawn for the first {SERIES} of {len(devices):,} devices")
    series = []
    for g in devices[:SERIES]:
        of_device = (groups.codes == g) & kernel
        off = shift[clocks[rows[groups.codes == g][0]]]
        series.append((names[g], _busy_shares(starts[of_device] - off, ends[of_device] - off, begin, end)))
    return DeviceTimeBins(tuple(bars), tuple(series), tuple(notes))


def _bar(title: str, parts: Sequence[int]) -> Bar:
    words = ("kernels", "exposed copies", "idle")
    shown = [(word, part) for word, part in zip(words, parts, strict=True) if part or word in ("kernels", "idle")]
    return Bar(title, Unit.NS, tuple(shown))


def _busy_shares(starts: I64, ends: I64, begin: int, end: int) -> list[float]:
    """Return the share of each bin that kernels cover; BINS equal bins, fewer where the span has fewer ns."""
    count = min(BINS, end - begin)
    if count <= 0:
        return []
    edges = np.array([begin + (end - begin) * i // count for i in range(count + 1)], np.int64)
    shares: list[float] = (coverage(*merge(starts, ends), edges) / np.diff(edges)).tolist()
    return shares


def _spans(index: TraceIndex, inputs: grouping.Groups) -> list[int]:
    start: I64 = index.starts
    length = index.lengths
    first, last = spans(inputs.codes, inputs.count, start, start + length)
    lengths: list[int] = (last - first).tolist()
    return lengths


def _order(groups: grouping.Groups, inputs: grouping.Groups, g: int) -> tuple[object, ...]:
    source, rank, device, place = (labels[g] for labels in groups.labels)
    cells = (source, rank, inputs.labels[1][integer_of(place)], device)
    return tuple((cell is None, cell if cell is not None else 0) for cell in cells)


def _names(index: TraceIndex, groups: grouping.Groups, inputs: grouping.Groups) -> list[str]:
    """Return what each device is called, with its rank, input or run where there are several."""
    sources, ranks, devices, places = groups.labels
    owners = owner_labels(index, zip(map(integer_of, sources), ranks, strict=True))
    out = []
    for source, rank, device, place in zip(sources, ranks, devices, places, strict=True):
        pid = inputs.labels[1][integer_of(place)]
        run = "" if pid is None else f"process {pid}"
        name = _device(index, source, device) or device_label(None)
        out.append(" · ".join(filter(None, (owners[integer_of(source), rank], run, name))))
    return out


def _device(index: TraceIndex, source: Cell, device: Cell) -> str:
    """Return the label of a device, "" for none."""
    if device is None:
        return ""
    return device_label(device, index.run.devices.get((integer_of(source), integer_of(device)), ""))


# Lanes, layers and rows of the events of a timeline.
#
# The order of work keeps memory small: events are put in order by lane and layer at once, and then each layer alone
# gets
# its rows. Events nested in others are on rows below them. Only layers whose events overlap in part (threads that share
# an id, work that ends in any order) take the slow way, which gives each such event the first row that is free.


_CALLS = API_CALLS | {Kind.SYNC, Kind.MEMORY, Kind.OVERHEAD}


@dataclass(frozen=True, slots=True)
class TimelineLayout:
    """order: shape (n,), rows of EVENTS by place. first: shape (rows + 1,), the place of each row's first event."""

    lanes: tuple[TimelineLane, ...]
    order: Rows
    first: I64


def lay_out(index: TraceIndex, rows: Rows, starts: I64, lengths: I64) -> TimelineLayout:
    """Return the places of these rows of EVENTS, which come by start, of equal starts the longer first.

    starts, lengths: columns of EVENTS, ns.
    """
    found_lanes = _lanes.find(index, rows)
    kinds, words = index.texts("kind")
    layer_of = np.array([_layer(word) for word in words], np.uint8)
    layered = np.array([not place.on_device and not place.instants for place in found_lanes.places], np.uint8)
    parts = found_lanes.codes * len(LAYERS)
    parts += layer_of[kinds[rows]] * layered[found_lanes.codes]
    order = order_by_lane(parts)
    parts = parts[order]
    narrow = np.int32 if index.events.num_rows < 1 << 31 else np.int64
    order = rows[order].astype(narrow)
    begins = np.flatnonzero(np.diff(parts, prepend=-1))
    ends = np.append(begins[1:], order.size)
    codes = parts[begins].tolist()
    del parts
    layers: list[list[tuple[str, int]]] = [[] for _ in found_lanes.places]
    overlaps = [0] * len(found_lanes.places)
    first: list[I64] = []
    for code, begin, end in zip(codes, begins.tolist(), ends.tolist(), strict=True):
        lane, layer = divmod(code, len(LAYERS))
        in_lane = order[begin:end]
        level, odd = _levels(starts[in_lane], lengths[in_lane])
        count = np.ones(1, np.int64) * in_lane.size
        if level is not None:
            count = np.bincount(level)
            order[begin:end] = in_lane[order_by_lane(level)]
        first.append(begin + np.cumsum(count) - count)
        layers[lane].append((LAYERS[layer] if layered[lane] else "", count.size))
        overlaps[lane] += odd
    every = zip(
        found_lanes.places, found_lanes.labels, found_lanes.groups, layers, overlaps, found_lanes.hosts, strict=True
    )
    lanes = tuple(
        TimelineLane(
            label, group, tuple(layers_of_lane), place.on_device, place.overlay, place.instants, odd, _ids(place), host
        )
        for place, label, group, layers_of_lane, odd, host in every
    )
    return TimelineLayout(lanes, order, np.concatenate([*first, np.array([order.size])]))


def _ids(place: _lanes.LanePlace) -> tuple[tuple[str, int | str | None], ...]:
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


UNNAMED = "(no name)"
LONGEST = 1 << 53
"""The most ns that a picture spans: the scripts of a page compute with floats."""
MOST_STEPS = 5_000
"""Steps with a mark of their own above the lanes; they have lanes too, where each one is."""

_TITLE = "Timeline"
_ARGS = (
    "raw_name", "step", "correlation", "copy_kind", "bytes", "grid_x", "grid_y", "grid_z", "block_x", "block_y",
    "block_z", "registers", "static_smem_bytes", "dynamic_smem_bytes",
)  # fmt: skip
"""Columns of EVENTS that are shown for a selected event."""
_COLUMNS = (
    frozenset({"ts_ns", "dur_ns", "name", "event_id", "value", "args", *_ARGS}) | _lanes.COLUMNS | _launches.COLUMNS
)
_BESIDE = frozenset({Kind.COUNTER, Kind.FLOW})
"""Kinds that are not on lanes."""


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the timeline, with the time of the devices as bars where devices worked. Raises: UsageError."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    notes = _option_notes(options)
    timed = index.has("dur_ns")
    shown = timed | ~index.kind_mask(_BESIDE)
    untimed_note = _untimed(index, np.flatnonzero(shown & ~timed))
    if not timed.any():
        if index.totals.num_rows:
            untimed_note.append("totals say how long things took, not when: there is no timeline of them")
        needs = "needs events with a duration; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *untimed_note, *notes))
    negative = int(np.count_nonzero(index.ints("dur_ns") < 0))
    if negative:
        notes.append(f"{negative:,} {'row has' if negative == 1 else 'rows have'} a duration below zero, drawn as 0")

    clock = by_clock(index)
    far = "the rows lie more than 104 days apart, so no picture is drawn; --time A:B leaves out what cannot be true"
    if max(-int(index.starts.min()), int(index.starts.max()), int(index.lengths.max())) > 1 << 62:
        return Section(VIEW.name, _TITLE, notes=(far, *untimed_note, *notes))
    first, last = origins(index), spans(clock.codes, clock.count, index.starts, index.starts + index.lengths)[1]
    # Inputs without a common clock each begin at 0; else nothing moves.
    shift = first if clock.count > 1 else np.zeros(1, np.int64)
    begin, end = int((first - shift).min()), int((last - shift).max())
    if end - begin >= LONGEST:
        return Section(VIEW.name, _TITLE, notes=(far, *untimed_note, *notes))
    work = device_time(index, clock.codes, shift, begin, end)
    figure, more = _figure(index, np.flatnonzero(shown), shift, begin, end, work.utilization)
    notes = [*untimed_note, *work.notes, *more, *_clock_notes(index, clock.count), *notes]
    return Section(VIEW.name, _TITLE, figures=(*work.bars, figure), notes=tuple(notes))


def _option_notes(options: ViewOptions) -> list[str]:
    notes = tabulate.option_notes(options)
    if options.sorted_by or options.top:
        notes.append("the timeline is complete and in order of time: --sort and --top have no effect")
    return notes


def _untimed(index: TraceIndex, rows: I64) -> list[str]:
    """Return a sentence that counts the rows without a duration by kind."""
    if not rows.size:
        return []
    codes, kinds = index.texts("kind")
    counts = np.bincount(codes[rows], minlength=len(kinds)).tolist()
    counted = sorted((-count, kind) for kind, count in zip(kinds, counts, strict=True) if count)
    words = ", ".join(plural(-count, f"{kind.replace('_', ' ')} event") for count, kind in counted)
    return [f"shown as instants, since they have no duration: {words}"]


def _figure(
    index: TraceIndex,
    rows: Rows,
    shift: I64,
    begin: int,
    end: int,
    utilization: tuple[tuple[str, list[float]], ...],
) -> tuple[Timeline, list[str]]:
    layout = lay_out(index, rows, index.starts, index.lengths)
    arrow.release_memory()
    clocks = by_clock(index).codes
    names, name_texts = index.texts("name")
    kinds, kind_texts = index.texts("kind")
    # Pairs of name and kind, the most frequent first: their numbers then take a byte each in most of the page.
    width = max(len(kind_texts), 1)
    pairs = names[rows].astype(np.int64)
    pairs += 1
    pairs *= width
    pairs += kinds[rows]
    counts = np.bincount(pairs, minlength=(len(name_texts) + 1) * width)
    del pairs
    used = np.flatnonzero(counts)
    used = used[np.argsort(-counts[used], kind="stable")]
    code_of = np.full(counts.size, -1, np.int32)
    code_of[used] = np.arange(used.size, dtype=np.int32)
    # Families of kernels and operators have classes of their own, and so colours of their own.
    classes, class_texts = families(index, used, width)
    present, kind_of = np.unique(classes, return_inverse=True)
    events = LaneEvents(
        order=layout.order,
        first=layout.first,
        starts=index.starts,
        lengths=index.lengths,
        names=names,
        kinds=kinds,
        kind_count=width,
        code_of=code_of,
        clocks=clocks,
        shift=shift + begin,
        ids=index.ints("event_id"),
    )
    launches = launch_places(index, events)
    sources, targets, lost = flow_places(index, events, launches)
    points = plural(lost, "flow event")
    notes = [f"not drawn: {points} of the input without a partner, or without an event at its time"] if lost else []
    figure = Timeline(
        lanes=layout.lanes,
        names=[name_texts[name - 1] if name else UNNAMED for name in (used // width).tolist()],
        kind_of=kind_of.tolist(),
        kinds=tuple(class_texts[each] for each in present.tolist()),
        events=events,
        begin_ns=begin,
        end_ns=end,
        launches=launches,
        flows=(sources, targets),
        steps=_steps(index, events),
        counters=tracks(index, shift + begin),
        utilization=utilization,
        args=_arguments(index),
        members=_members(index),
    )
    return figure, notes


def _arguments(index: TraceIndex) -> tuple[Argument, ...]:
    units = {spec.name: spec.unit for spec in describe("events")}
    columns = ((key, index.events.column(key)) for key in _ARGS)
    return tuple(Argument(key, units[key], column) for key, column in columns if column.null_count < len(column))


def _members(index: TraceIndex) -> Chunked | None:
    column = index.events.column("args")
    return column if column.null_count < len(column) else None


def _steps(index: TraceIndex, events: LaneEvents) -> tuple[tuple[int, int, str], ...]:
    """Return start, length and name of each step; the same step of several threads is one."""
    rows = index.pick({Kind.STEP}).rows
    codes, texts = index.texts("name")
    starts = index.starts[rows] - events.shift[events.clocks[rows]]
    named = (texts[code] if code >= 0 else UNNAMED for code in codes[rows].tolist())
    steps = sorted(set(zip(starts.tolist(), index.lengths[rows].tolist(), named, strict=True)))
    return tuple(steps[:MOST_STEPS])


def _clock_notes(index: TraceIndex, clocks: int) -> list[str]:
    notes = []
    if clocks > 1:
        notes.append("inputs or runs that share no clock: each begins at 0; their positions cannot be compared")
    sources = index.ints("source")
    if made_up := [number for number in synthetic_sources(index) if (sources == number).any()]:
        labels = source_labels(index)
        who = ", ".join(source_label(labels, number) for number in made_up[:3]) + (" ..." if len(made_up) > 3 else "")
        notes.append(f"{who}: the file has only durations; they are laid end to end, so gaps and overlaps mean nothing")
    return notes


VIEW = View(name="timeline", title=_TITLE, columns=_COLUMNS, kinds=frozenset(), compute=compute)

"""A batch of EVENTS as the viewers see it: each row gets its phase (the kind of its mark) and its track.

A row with a duration is a slice. A row without one is an instant, a sample of a counter or a point of an arrow. Work
that overlaps on its thread (no tid, an "id" in its args) is asynchronous. Slices of a lane that overlap in part are
spread over several tracks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import field
from itertools import chain, pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tracekit.analysis.lanes import LaneAssigner
from tracekit.analysis.segments import narrow
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema, sets
from tracekit.model.arrow import F64, I64, U64, Bytes, Column, DictColumn, Mask, Rows, pc
from tracekit.model.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.model.trace import Run
from tracekit.writers.base import Written
from tracekit.writers.json_text import all_parsed, parsed
from tracekit.writers.tracks.arrows import BOUND, FlowKey, FlowPoints, Flows
from tracekit.writers.tracks.digits import Piece
from tracekit.writers.tracks.lanes import LaneKey, TrackLanes

__all__ = [
    "ASYNC",
    "BOUND_END",
    "COUNTER",
    "END",
    "INSTANT",
    "LONE_INSTANT",
    "NOT_WRITTEN",
    "NUMBERS",
    "SHAPES",
    "SLICE",
    "START",
    "STEP",
    "UNDRAWN",
    "Batch",
    "Codes",
    "Integers",
    "Loader",
    "Present",
    "classes",
    "event_tables",
    "explain_missing_rows",
    "launch_columns",
    "number_pieces",
    "own_numbers",
    "value_codes",
]

# Small codes for rows that agree in several columns, found without sorting where the columns are narrow.


_NARROW = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class Integers:
    """A column of integers as numpy. values: shape (n,), 0 where null. valid: shape (n,), None when no row is null."""

    values: Rows
    valid: Mask | None
    all_null: bool

    def mask(self) -> Mask:
        """Return which rows have a value, shape (n,)."""
        if self.all_null:
            return np.zeros(len(self.values), np.bool_)
        return np.ones(len(self.values), np.bool_) if self.valid is None else self.valid


def integers(column: Column, masks: dict[bytes, Mask] | None = None) -> Integers:
    """Return a column of integers as numpy, or the codes of a dictionary column.

    masks: those of the columns so far, by their bits. Columns with the same nulls have the same mask.
    """
    if isinstance(column, pa.DictionaryArray):
        column = column.indices
    if column.null_count == len(column):
        return Integers(np.zeros(len(column), np.int32), None, True)
    column = column if pa.types.is_int32(column.type) else pc.cast(column, pa.int64())
    values: Rows = arrow.stored(column, np.int32) if pa.types.is_int32(column.type) else arrow.stored(column, np.int64)
    if column.null_count == 0:
        return Integers(values, None, False)
    valid = _mask(column, {} if masks is None else masks)
    return Integers(np.where(valid, values, 0), valid, False)


def _mask(column: Column, known: dict[bytes, Mask]) -> Mask:
    """Return which rows of a column with nulls have a value: one array for columns with the same bits."""
    first, skipped = divmod(column.offset, 8)
    size = len(column) + skipped
    bits = arrow.view(column.buffers()[0], np.uint8)[first : first + (size + 7) // 8]
    key = bytes([skipped]) + bits.tobytes()
    if key not in known:
        mask = np.unpackbits(bits, count=size, bitorder="little")[skipped:].view(np.bool_)
        mask.flags.writeable = False
        known[key] = mask
    return known[key]


Codes: TypeAlias = tuple[Rows, int]
"""Codes of shape (n,), all in 0 .. size - 1, and the size."""


def value_codes(column: Integers, where: Mask | None = None) -> Codes | None:
    """Return codes that are equal exactly where the values are equal; None where all rows agree.

    Null counts as one more value, and so does every row outside `where`.
    """
    if column.all_null:
        return None
    known = column.valid if where is None else where if column.valid is None else column.valid & where
    if known is not None and not known.any():
        return None
    values = column.values if known is None else column.values[known]
    low, high = int(values.min()), int(values.max())
    if low == high and known is None:
        return None
    shifted: Rows
    if high - low < 1 << 40:
        shifted, size = values.astype(np.int64) - low, high - low + 1
    else:
        distinct, shifted = np.unique(values, return_inverse=True)
        size = len(distinct)
    if known is None:
        return shifted, size
    codes = np.zeros(len(column.values), np.int64)
    codes[known] = shifted + 1
    return codes, size + 1


def classes(columns: list[Codes | None], rows: int) -> tuple[Rows, I64]:
    """Return the class of each row, shape (rows,), and the first row of each class.

    Rows of one class agree in all columns. Classes are numbered in order of their first row where they are few.
    """
    codes: Rows = np.zeros(rows, np.int64)
    size = 1
    for column in columns:
        if column is None:
            continue
        more, width = column
        if size * width > _NARROW and size > 1:
            codes, first = _dense(codes, size, rows)
            size = len(first)
        if size * width >= 1 << 62:
            distinct, more = np.unique(more, return_inverse=True)
            width = len(distinct)
        codes = codes * width + more
        size *= width
    if size == 1:
        return codes, np.zeros(1, np.int64)
    return _dense(codes, size, rows)


def _dense(codes: Rows, size: int, rows: int) -> tuple[I64, I64]:
    if size > max(_NARROW, 2 * rows):
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        return inverse.astype(np.int64, copy=False), first.astype(np.int64, copy=False)
    table = np.full(size, -1, np.int64)
    table[codes[::-1]] = np.arange(rows - 1, -1, -1)  # written from the last row to the first, the first stays
    present = np.flatnonzero(table >= 0)
    first = table[present]
    order = np.argsort(first)
    table[present[order]] = np.arange(len(present))
    return table[codes], first[order]


SLICE, INSTANT, LONE_INSTANT, COUNTER, ASYNC, START, STEP, END, BOUND_END, UNDRAWN, NOT_WRITTEN = range(11)
SHAPES = (("grid", ("grid_x", "grid_y", "grid_z")), ("block", ("block_x", "block_y", "block_z")))
_IDS_AND_SIZES = ("device", "context", "stream", "tid", "correlation", "step", "bytes")
_RESOURCES = ("registers", "static_smem_bytes", "dynamic_smem_bytes")
NUMBERS = (*_IDS_AND_SIZES, *SHAPES[0][1], *SHAPES[1][1], *_RESOURCES)

LATEST_NS = (1 << 62) - 1
"""Latest end after the first event (146 years) that viewers and our reader can hold."""


@dataclass(frozen=True, slots=True, eq=False)
class FlowRows:
    """Rows of kind "flow" and what their args say, as columns of shape (n,); rows ascend.

    phase: START, STEP or END; UNDRAWN for any other "ph". enclosing: bp is "e". category: the index of its text.
    """

    row: I64
    phase: Bytes
    enclosing: Mask
    category: I64
    categories: list[str | None]


_NONE = np.empty(0, np.int64)
NO_FLOWS = FlowRows(_NONE, np.empty(0, np.uint8), np.empty(0, np.bool_), _NONE, [])


@dataclass(slots=True)
class Batch:
    """A batch as numpy columns, each of shape (count,).

    ts: ns after the first event. dur: ns, 0 where has_dur is false. value: 0 where has_value is false.
    """

    count: int
    ts: I64
    dur: I64
    has_dur: Mask
    value: F64
    has_value: Mask
    columns: dict[str, Integers]
    """The other columns of numbers, and the dictionary codes of the columns of text."""
    texts: dict[str, list[str]]
    """The dictionaries of the columns of text."""
    args: Column
    on_device: Mask
    phase: Bytes
    distinct_args: DictColumn | None = None
    negative: dict[int, int] = field(default_factory=dict)
    """Rows whose duration is stated as below 0, and that duration."""
    identity: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    track: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    points: FlowRows = field(default_factory=lambda: NO_FLOWS)
    """Rows of kind "flow" with args."""
    bound: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Slices that are points of an arrow: the phase of that point, and the id of the arrow."""

    def code(self, name: str, row: int) -> int | None:
        """Return the dictionary code of a row's text."""
        return _value(self.columns[name], row)

    def text(self, name: str, row: int) -> str | None:
        """Return a text of a row."""
        code = self.code(name, row)
        return None if code is None else self.texts[name][code]

    def encoded_args(self) -> DictColumn:
        """Return the args with each distinct text once."""
        if self.distinct_args is None:
            self.distinct_args = arrow.encoded(self.args)
        return self.distinct_args

    def slices(self) -> I64:
        """Return the rows that are slices."""
        return np.flatnonzero(self.phase == SLICE)


_TOO_LATE, _NOT_FINITE = "beyond-what-viewers-hold", "counter-not-finite"


def explain_missing_rows(written: Written, *, not_finite: str = "they are not finite") -> None:
    """Note how many rows `Loader` could not hold, and why. not_finite: the reason for values of counters."""
    written.explain(_NOT_FINITE, f"counter values were not written: {not_finite}")
    written.explain(_TOO_LATE, "rows were not written: they end more than 146 years after the first event")


def event_tables(batches: Iterator[pa.RecordBatch], written: Written, most: int) -> Iterator[pa.Table]:
    """Yield EVENTS in tables with one chunk for each column; totals are counted, a timeline cannot show them."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if schema.is_totals(batch):
            written.leave_out("totals", batch.num_rows)
            continue
        if rows and rows + batch.num_rows > most:
            yield _joined(pending)
            rows = 0
        for start in range(0, batch.num_rows, most):
            # A slice would count its nulls anew.
            piece = batch if batch.num_rows <= most else batch.slice(start, most)
            if piece.num_rows == most:
                yield _joined([piece])
            else:
                pending.append(piece)
                rows += piece.num_rows
    if rows:
        yield _joined(pending)


def _joined(batches: list[pa.RecordBatch]) -> pa.Table:
    """Return batches as one table, and let go of them: they must not stay in memory while the table is written."""
    table = pa.Table.from_batches(batches)
    if len(batches) > 1:
        table = table.unify_dictionaries().combine_chunks()
    batches.clear()
    return table


class Loader:
    """Loads batches in order of start. Keeps the lanes, the ends of their slices, and the open arrows of the input."""

    def __init__(self, run: Run, written: Written, *, asynchronous: bool = True) -> None:
        """asynchronous: work that overlaps on its thread gets the phase ASYNC, else it is spread over tracks."""
        self.lanes = TrackLanes(run)
        self._asynchronous = asynchronous
        self.ends = np.empty(0, np.int64)
        """Last end of a slice on each track."""
        self.first_ns: int | None = None
        self.last_ns = 0
        self.clamped = self.moved = self.undrawn = 0
        self._written = written
        self._flows = Flows()
        self._assigner = LaneAssigner()
        self._lane_ends = np.empty(0, np.int64)
        self._async = 0

    def load(self, table: pa.Table) -> Batch | None:
        """Return a table of EVENTS, one chunk a column, with phases and tracks; None when no row is left."""
        batch = self._columns(table)
        if batch is None:
            return None
        lane = self._lane_of_row(batch)
        self._choose_phases(batch)
        self._place(batch, lane)
        if batch.points.row.size:
            self._choose_points(batch)
        self.undrawn += int(np.count_nonzero(batch.phase == UNDRAWN))
        return batch

    def carry(self, batch: Batch) -> None:
        """Remember the ends of the slices of a batch, for the next one."""
        rows = batch.slices()
        np.maximum.at(self.ends, batch.track[rows], batch.ts[rows] + batch.dur[rows])

    def _columns(self, table: pa.Table) -> Batch | None:
        """Return the columns, without the rows whose end no viewer can hold; None when no row is left."""
        if self.first_ns is None:
            self.first_ns = int(arrow.ints(table.column("ts_ns").slice(0, 1))[0])
        arrays = {name: table.column(name).chunks[0] for name in table.schema.names}
        ts = arrow.ints(arrays["ts_ns"]).view(np.uint64) - np.uint64(self.first_ns % (1 << 64))
        duration = integers(arrays["dur_ns"])
        dur, has_dur = duration.values.astype(np.int64, copy=False), duration.mask()
        far = _too_late(ts, dur)
        if far is not None:
            self._written.leave_out(_TOO_LATE, int(far.sum()))
            kept = table.filter(pa.array(~far)).combine_chunks()
            return self._columns(kept) if kept.num_rows else None
        names = ("kind", "name", "raw_name", "copy_kind")
        texts = {name: arrow.texts(arrow.encoded(arrays[name]).dictionary) for name in names}
        masks: dict[bytes, Mask] = {}
        columns = {name: integers(arrays[name], masks) for name in (*NUMBERS, "source", "rank", "pid", *names)}
        kinds = texts["kind"]
        kind = columns["kind"].values
        on_device = columns["device"].mask() | columns["stream"].mask() | is_any_of(kind, kinds, DEVICE_WORK)
        on_device &= ~is_any_of(kind, kinds, API_CALLS)
        phase = np.where(has_dur, SLICE, np.where(on_device | columns["tid"].mask(), INSTANT, LONE_INSTANT))
        start = ts.view(np.int64)
        no_values = arrays["value"].null_count == len(ts)
        batch = Batch(
            count=len(ts),
            ts=start,
            dur=dur,
            has_dur=has_dur,
            value=np.zeros(len(ts)) if no_values else arrow.floats(arrays["value"], 0.0),
            has_value=np.zeros(len(ts), np.bool_) if no_values else arrow.valid(arrays["value"]),
            columns=columns,
            texts=texts,
            args=arrays["args"],
            on_device=on_device,
            phase=phase.astype(np.uint8),
        )
        self.last_ns = max(self.last_ns, int((start + np.maximum(dur, 0)).max()))
        negative = np.flatnonzero(has_dur & (dur < 0))
        if len(negative):
            self.clamped += len(negative)
            batch.negative = dict(zip(negative.tolist(), dur[negative].tolist(), strict=True))
            batch.dur = np.maximum(dur, 0)
        return batch

    def _lane_of_row(self, batch: Batch) -> I64:
        columns, side = batch.columns, batch.on_device
        parts: list[Codes | None] = [value_codes(columns[n]) for n in ("source", "rank", "pid")]
        some, every = bool(side.any()), bool(side.all())
        if some:
            parts += [value_codes(columns[n], None if every else side) for n in ("device", "context", "stream")]
        if not every:
            parts += [value_codes(columns["tid"], ~side)]
        if some and not every:
            parts.append((side.astype(np.int64), 2))
        codes, first = classes(parts, batch.count)
        numbers = []
        api = {n for n, k in enumerate(batch.texts["kind"]) if k in API_CALLS}
        for row in first.tolist():
            known = {n: _value(columns[n], row) for n in ("rank", "pid", "device", "context", "stream", "tid")}
            source = int(columns["source"].values[row])
            key: LaneKey
            process = (source, known["rank"], known["pid"])
            if side[row]:
                key = (True, *process, known["device"], known["context"], known["stream"], None)
            else:
                key = (False, *process, None, None, None, known["tid"])
            numbers.append(self.lanes.lane(key, api=int(columns["kind"].values[row]) in api))
        return np.array(numbers, np.int64)[codes]

    def _choose_phases(self, batch: Batch) -> None:
        """Find the rows that are neither slices nor plain instants."""
        kinds, kind = batch.texts["kind"], batch.columns["kind"].values
        if Kind.COUNTER in kinds:
            counters = is_any_of(kind, kinds, {Kind.COUNTER}) & batch.has_value
            finite = np.isfinite(batch.value)
            not_finite = np.flatnonzero(counters & ~finite)
            self._written.leave_out(_NOT_FINITE, len(not_finite))
            batch.phase[not_finite] = NOT_WRITTEN
            batch.phase[counters & finite] = COUNTER
        flows = np.zeros(batch.count, np.bool_)
        if Kind.FLOW in kinds:
            flows = is_any_of(kind, kinds, {Kind.FLOW}) & (batch.phase != SLICE)
            batch.phase[flows] = UNDRAWN
        if batch.args.null_count == batch.count:
            return
        encoded = batch.encoded_args()
        self._bind(batch, encoded)
        overlapping = (
            self._asynchronous
            & batch.has_dur
            & ~batch.columns["tid"].mask()
            & ~batch.on_device
            & (batch.phase == SLICE)
        )
        batch.identity = np.zeros(batch.count, np.int64)
        if not flows.any() and not overlapping.any():
            return
        with_args = arrow.valid(batch.args) & (flows | overlapping)
        rows = np.flatnonzero(with_args & (batch.phase != NOT_WRITTEN))
        codes = arrow.codes(encoded)[rows]
        distinct = sets.unique(codes)
        objects = [found or {} for found in all_parsed(arrow.take(encoded.dictionary, distinct))]
        place = np.searchsorted(distinct, codes)
        points = flows[rows]
        batch.points = _flow_rows(rows[points], place[points], objects)
        has_id = np.array(["id" in each for each in objects], np.bool_)
        work = rows[~points & has_id[place]]
        batch.phase[work] = ASYNC
        batch.identity[work] = np.arange(self._async + 1, self._async + 1 + len(work))
        self._async += len(work)

    def _bind(self, batch: Batch, args: DictColumn) -> None:
        """Find the slices that are points of an arrow themselves: bind_id, with flow_out or flow_in."""
        bound = np.flatnonzero(arrow.bools(pc.match_substring(args.dictionary, '"bind_id"')))
        if not len(bound):
            return
        known = {code: parsed(args.dictionary[code].as_py()) or {} for code in bound.tolist()}
        codes = arrow.codes(args)
        for row in np.flatnonzero(np.isin(codes, bound) & (batch.phase == SLICE)).tolist():
            found = known[int(codes[row])]
            leaves, arrives = found.get("flow_out") is True, found.get("flow_in") is True
            phase = ("t" if arrives else "s") if leaves else "f" if arrives else ""
            key = int(batch.columns["source"].values[row]), repr(found.get("bind_id")), None, BOUND
            identity = self._flows.accept(phase, key, after_slice=True, enclosing=True)
            if identity is not None:
                batch.bound[row] = {"s": START, "t": STEP, "f": BOUND_END}[phase], identity

    def _place(self, batch: Batch, lane: I64) -> None:
        """Give each row its track. All rows but slices are on the first track of their lane."""
        extra = np.zeros(batch.count, np.int64)
        rows = self._may_overlap(batch, lane)
        extra[rows] = self._assigner.assign(lane[rows], batch.ts[rows], batch.dur[rows])
        moved = int(np.count_nonzero(extra))
        self.moved += moved
        lanes = np.arange(len(self.lanes.lanes))
        if moved:
            codes, first = classes([(lane, len(lanes)), (extra, int(extra.max()) + 1)], batch.count)
            tracks = [self.lanes.track(int(lane[row]), int(extra[row])) for row in first.tolist()]
            batch.track = np.array(tracks, np.int64)[codes]
        else:
            table = np.zeros(len(lanes), np.int64)
            table[lane] = 1
            used = np.flatnonzero(table)
            table[used] = [self.lanes.track(number, 0) for number in used.tolist()]
            batch.track = table[lane]
        if len(self.ends) < len(self.lanes.tracks):
            grown = np.full(2 * len(self.lanes.tracks), -1, np.int64)
            grown[: len(self.ends)] = self.ends
            self.ends = grown

    def _may_overlap(self, batch: Batch, lane: I64) -> I64:
        """Return the rows of slices that may overlap others of their lane.

        The other slices start after the previous one has ended, and end before the next one starts. Most kernels of a
        stream are such slices, and assigning tracks to them would cost more than the rest of their line.
        """
        if len(self._lane_ends) < len(self.lanes.lanes):
            grown = np.full(2 * len(self.lanes.lanes), -1, np.int64)
            grown[: len(self._lane_ends)] = self._lane_ends
            self._lane_ends = grown
        rows = batch.slices()
        lanes = lane[rows]
        order = np.argsort(lanes.astype(np.uint16) if len(self._lane_ends) <= 1 << 16 else lanes, kind="stable")
        lanes, starts = lanes[order], batch.ts[rows][order]
        ends = starts + batch.dur[rows][order]
        bounds = [0, *(np.flatnonzero(lanes[1:] != lanes[:-1]) + 1).tolist(), len(rows)]
        alone = np.zeros(len(rows), np.bool_)
        for start, end in pairwise(bounds):
            if start == end:
                continue
            here = int(lanes[start])
            latest = np.maximum.accumulate(np.concatenate((self._lane_ends[here : here + 1], ends[start:end])))
            gap = latest[:-1] <= starts[start:end]
            alone[start : end - 1] = gap[:-1] & gap[1:]  # the slice after the last one is not known yet
            self._lane_ends[here] = latest[-1]
        together = np.ones(len(rows), np.bool_)
        together[order] = ~alone
        return rows[together]

    def _choose_points(self, batch: Batch) -> None:
        """Make rows of kind "flow" flow events where Perfetto draws them; no viewer shows the others."""
        points, columns = batch.points, batch.columns
        started = self._tracks_of_points(batch)
        chosen = np.flatnonzero(columns["correlation"].mask()[points.row] & (points.phase != UNDRAWN))
        if not chosen.size:
            return
        rows, phase, enclosing = points.row[chosen], points.phase[chosen], points.enclosing[chosen]
        name = columns["name"]
        code, names = _numbered(np.where(name.mask()[rows], name.values[rows], -1), [*batch.texts["name"], None])
        category, categories = _numbered(points.category[chosen], points.categories)
        source, correlation = (Integers(columns[n].values[rows], None, False) for n in ("source", "correlation"))
        parts = [value_codes(source), value_codes(correlation), (code, len(names)), (category, len(categories))]
        key, first = classes(parts, rows.size)
        keys: list[FlowKey] = list(
            zip(
                source.values[first].tolist(),
                correlation.values[first].tolist(),
                [names[at] for at in code[first].tolist()],
                [categories[at] for at in category[first].tolist()],
                strict=True,
            )
        )
        found = self._flows.accept_all(FlowPoints(keys, key, phase == START, phase == END, started[chosen], enclosing))
        accepted = found > 0
        rows = rows[accepted]
        batch.identity[rows] = found[accepted]
        batch.phase[rows] = np.where((phase == END) & enclosing, BOUND_END, phase)[accepted]

    def _tracks_of_points(self, batch: Batch) -> Mask:
        """Move each point to the track of its lane on which a slice is open, and return which come after any slice."""
        rows = batch.points.row
        used, place = np.unique(batch.track[rows], return_inverse=True)
        # All tracks of the lane of each point: a pair for each, side by side.
        choices = [list(self.lanes.tracks[track].lane.tracks.values()) for track in used.tolist()]
        sizes = np.array([len(tracks) for tracks in choices], np.int64)
        counts = sizes[place]
        first = np.cumsum(counts) - counts
        point = np.repeat(np.arange(rows.size), counts)
        within = np.arange(point.size) - first[point]
        tracks = np.array(list(chain.from_iterable(choices)), np.int64)[
            (np.cumsum(sizes) - sizes)[place][point] + within
        ]
        latest, newest = self._before(batch, tracks, rows[point])
        is_open = latest >= batch.ts[rows][point]
        innermost = _first_largest(np.where(is_open, newest, -2), first, point)
        last = _first_largest(latest, first, point)
        batch.track[rows] = tracks[np.where(np.logical_or.reduceat(is_open, first), innermost, last)]
        started: Mask = latest[last] >= 0
        return started

    def _before(self, batch: Batch, tracks: I64, rows: I64) -> tuple[I64, I64]:
        """Return, of the slices on a track that start before a row, the last end and the last row, -1 for none.

        tracks, rows: shape (n,), what is asked. One search for all tracks, since a look at the batch for each of them
        would cost tracks times rows.
        """
        asked = np.zeros(len(self.ends), np.bool_)
        asked[tracks] = True
        slices = batch.slices()
        slices = slices[asked[batch.track[slices]]]
        slices = slices[np.argsort(narrow(batch.track[slices]), kind="stable")]
        on_track = batch.track[slices]
        group = np.cumsum(np.append(True, on_track[1:] != on_track[:-1])[: slices.size])
        latest = _running_largest((batch.ts + batch.dur)[slices], group)
        at = np.searchsorted(on_track * batch.count + slices, tracks * batch.count + rows) - 1
        some = at >= 0
        some[some] = on_track[at[some]] == tracks[some]
        ends, newest = np.full(rows.size, -1, np.int64), np.full(rows.size, -1, np.int64)
        ends[some], newest[some] = latest[at[some]], slices[at[some]]
        return np.maximum(ends, self.ends[tracks]), newest


_PHASES = {"s": START, "t": STEP, "f": END}


def _flow_rows(rows: I64, place: I64, objects: list[dict[str, object]]) -> FlowRows:
    """Return rows of kind "flow". place: the args of each row, an index of `objects`."""
    letters = [each.get("ph") for each in objects]
    phase = np.array([_PHASES.get(x, UNDRAWN) if isinstance(x, str) else UNDRAWN for x in letters], np.uint8)
    enclosing = np.array([each.get("bp") == "e" for each in objects], np.bool_)
    texts = [x if isinstance(x, str) else None for x in (each.get("cat") for each in objects)]
    return FlowRows(rows, phase[place], enclosing[place], place, texts)


def _numbered(codes: Rows, texts: list[str | None]) -> tuple[I64, list[str | None]]:
    """Return numbers that agree exactly where the texts of two rows do, and the text of each number.

    codes: shape (n,), indices of `texts`, of which two may be the same text.
    """
    used, place = np.unique(codes, return_inverse=True)
    numbers: dict[str | None, int] = {}
    table = np.array([numbers.setdefault(texts[at], len(numbers)) for at in used.tolist()], np.int64)
    return table[place], list(numbers)


def _running_largest(values: I64, group: I64) -> I64:
    """Return for each value the largest of its group up to it. group: ascending."""
    if not values.size:
        return values
    low = int(values.min())
    span = int(values.max()) - low + 1
    if int(group[-1]) * span < 1 << 62:
        base = group * span - low
        largest: I64 = np.maximum.accumulate(base + values) - base
        return largest
    distinct, rank = np.unique(values, return_inverse=True)
    found: I64 = distinct[np.maximum.accumulate(group * distinct.size + rank) - group * distinct.size]
    return found


def _first_largest(values: I64, first: I64, group: I64) -> I64:
    """Return the place of the largest value of each group, of equal ones the first. first: where each group begins."""
    largest = np.maximum.reduceat(values, first)
    places = np.where(values == largest[group], np.arange(values.size), values.size)
    found: I64 = np.minimum.reduceat(places, first)
    return found


def launch_columns(batch: Batch) -> tuple[Rows, Rows, Rows, I64]:
    """Return the slices with a correlation id, which of them are calls, which are device work, and their keys.

    The keys have shape (n, 4): source, pid, whether the pid is known, correlation.
    """
    columns, kinds = batch.columns, batch.texts["kind"]
    rows = np.flatnonzero((batch.phase == SLICE) & columns["correlation"].mask())
    kind = columns["kind"].values[rows]
    calls = np.flatnonzero(is_any_of(kind, kinds, API_CALLS))
    work = np.flatnonzero(is_any_of(kind, kinds, DEVICE_WORK))
    pid, source = columns["pid"], columns["source"].values
    keys = [x[rows].astype(np.int64) for x in (source, pid.values, pid.mask(), columns["correlation"].values)]
    return rows, calls, work, np.stack(keys).T


def _too_late(ts: U64, dur: I64) -> Mask | None:
    """Return which rows end after what viewers can hold, None where none does."""
    if int(ts.max()) + max(int(dur.max()), 0) <= LATEST_NS:
        return None
    far: Mask = (ts > LATEST_NS) | (np.minimum(ts, LATEST_NS).view(np.int64) > LATEST_NS - np.maximum(dur, 0))
    return far if far.any() else None


def is_any_of(codes: Rows, names: list[str], wanted: Collection[str]) -> Mask:
    """Return for each row whether the name of its code is one of the wanted ones."""
    table = np.array([name in wanted for name in names] or [False], np.bool_)
    return table[codes]


def _value(column: Integers, row: int) -> int | None:
    """Return the integer of a row, None for null."""
    if column.all_null or (column.valid is not None and not column.valid[row]):
        return None
    return int(column.values[row])


# The columns of numbers that the rows of a batch write beside name and time, as pieces of JSON objects.


_DEVICE_SIDE = ("device", "context", "stream")

Present: TypeAlias = list[tuple[str, Mask | None]]
"""Columns of numbers, and which rows write them (None: all rows)."""


def own_numbers(batch: Batch) -> Present:
    """Return the columns of numbers that some rows write, without the numbers that the lane has already."""
    out: Present = []
    some_host = not batch.on_device.all()
    for name in NUMBERS:
        column = batch.columns[name]
        if column.all_null:
            continue
        mask = column.valid
        if name in _DEVICE_SIDE:
            if not some_host:
                continue
            mask = ~batch.on_device if mask is None else mask & ~batch.on_device
        elif name == "tid":
            mask = batch.on_device if mask is None else mask & batch.on_device
        if mask is None or mask.any():
            out.append((name, mask))
    return out


def number_pieces(batch: Batch, names: list[str], rows: Rows) -> list[Piece]:
    """Return the pieces of the columns of numbers, commas between them; launch shapes as [x,y,z]."""
    pieces: list[Piece] = []
    rest = list(names)
    while rest:
        name = rest[0]
        key, columns = name, [name]
        for shape, parts in SHAPES:
            if name == parts[0] and tuple(rest[:3]) == parts:
                key, columns = shape, list(parts)
        values = [batch.columns[c].values[rows] for c in columns]
        pieces.append(f'{"," if pieces else ""}"{key}":{"[" if len(values) > 1 else ""}'.encode())
        pieces.append(values[0])
        for value in values[1:]:
            pieces += [b",", value]
        if len(values) > 1:
            pieces.append(b"]")
        rest = rest[len(columns) :]
    return pieces

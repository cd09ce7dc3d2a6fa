"""A batch of EVENTS as the viewers see it: each row gets its phase (the `ph` of its line) and its track.

A duration makes a slice; without one a row is an instant, a counter's sample or a point of an arrow. Work that overlaps
on its thread (no tid, an "id" in its args) is asynchronous. Slices that overlap in part on a lane get further tracks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.analysis.lanes import LaneAssigner
from tracekit.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.trace import Run
from tracekit.writers.base import Written
from tracekit.writers.chrome._arrows import Flows
from tracekit.writers.chrome._codes import Column, Mask, Part, agreeing, column, part
from tracekit.writers.chrome._lanes import LaneKey, Lanes
from tracekit.writers.chrome._text import merged, number, parsed, quoted

I64 = npt.NDArray[np.int64]

SLICE, INSTANT, LONE_INSTANT, COUNTER, ASYNC, START, STEP, END, BOUND_END, LEFT_OUT = range(10)
OPENING = {
    SLICE: '"ph":"X"', INSTANT: '"ph":"i","s":"t"', LONE_INSTANT: '"ph":"i","s":"p"', COUNTER: '"ph":"C"',
    LEFT_OUT: "", ASYNC: '"ph":"b"', START: '"ph":"s"', STEP: '"ph":"t"', END: '"ph":"f"',
    BOUND_END: '"ph":"f","bp":"e"',
}  # fmt: skip
WITH_ID = frozenset({ASYNC, START, STEP, END, BOUND_END})
SHAPES = (("grid", ("grid_x", "grid_y", "grid_z")), ("block", ("block_x", "block_y", "block_z")))
NUMBERS = (
    "device", "context", "stream", "tid", "correlation", "step", "bytes",
    *SHAPES[0][1], *SHAPES[1][1], "registers", "static_smem_bytes", "dynamic_smem_bytes",
)  # fmt: skip

LATEST_NS = (1 << 62) - 1
"""Ends later than this after the first event (146 years) are beyond what a viewer can hold, and our reader takes."""


@dataclass(slots=True)
class Batch:
    """A batch as numpy columns, each of shape (count,). ts: ns after the first event. dur: 0 where has_dur is false."""

    count: int
    ts: I64
    dur: I64
    has_dur: Mask
    columns: dict[str, Column]
    texts: dict[str, list[Any]]
    args: pa.Array
    on_device: Mask
    phase: npt.NDArray[np.uint8]
    own: dict[int, str] = field(default_factory=dict)
    """Row -> what few rows have in args besides their columns, each member with its comma."""
    members: pa.Array | None = None
    """Text of all members of its own in args, a row each, "" for none; None where no row has any."""
    has_members: Mask | None = None
    identity: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    track: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    points: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Rows of kind "flow" and their args."""

    def code(self, name: str, row: int) -> int | None:
        """Return the dictionary code of a row's text."""
        return _value(self.columns[name], row)

    def text(self, name: str, row: int) -> str | None:
        """Return a text of a row."""
        code = self.code(name, row)
        return None if code is None else str(self.texts[name][code])

    def slices(self) -> I64:
        """Return the rows that are slices."""
        return np.flatnonzero(self.phase == SLICE)


class Loader:
    """Loads batches in order of start; keeps the lanes, their open slices and the open arrows of the input."""

    def __init__(self, run: Run, written: Written) -> None:
        self.lanes = Lanes(run)
        self.ends = np.empty(0, np.int64)
        """Last end of each track."""
        self.first_ns: int | None = None
        self.last_ns = 0
        self.clamped = self.moved = 0
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
        lane = self._lane_codes(batch)
        self._choose_phases(batch)
        self._place(batch, lane)
        if batch.points:
            self._choose_points(batch)
        return batch

    def carry(self, batch: Batch) -> None:
        """Remember the ends of the slices of a batch, for the next one."""
        rows = batch.slices()
        np.maximum.at(self.ends, batch.track[rows], batch.ts[rows] + batch.dur[rows])

    def _columns(self, table: pa.Table) -> Batch | None:
        """Return the columns; rows whose end no viewer can hold are left out."""
        if self.first_ns is None:
            self.first_ns = table.column("ts_ns")[0].as_py()
        arrays = {name: table.column(name).chunk(0) for name in table.schema.names}
        ts = arrays["ts_ns"].to_numpy().view(np.uint64) - np.uint64(self.first_ns % (1 << 64))
        duration = column(arrays["dur_ns"])
        dur, has_dur = duration.values.astype(np.int64, copy=False), duration.mask()
        far = (ts > LATEST_NS) | (np.minimum(ts, LATEST_NS).view(np.int64) > LATEST_NS - np.maximum(dur, 0))
        if far.any():
            self._written.leave_out("beyond-what-viewers-hold", int(far.sum()))
            kept = table.filter(pa.array(~far)).combine_chunks()
            return self._columns(kept) if kept.num_rows else None
        texts = {n: arrays[n].dictionary.to_pylist() for n in ("kind", "name", "raw_name", "copy_kind")}
        columns = {n: column(arrays[n]) for n in (*NUMBERS, "source", "rank", "pid", "value", *texts)}
        kinds = texts["kind"]
        work, calls = ({n for n, k in enumerate(kinds) if k in some} for some in (DEVICE_WORK, API_CALLS))
        kind = columns["kind"].values
        on_device = columns["device"].mask() | columns["stream"].mask() | among(kind, work, len(kinds))
        on_device &= ~among(kind, calls, len(kinds))
        phase = np.where(has_dur, SLICE, np.where(on_device | columns["tid"].mask(), INSTANT, LONE_INSTANT))
        start = ts.view(np.int64)
        batch = Batch(len(ts), start, dur, has_dur, columns, texts, arrays["args"], on_device, phase.astype(np.uint8))
        self.last_ns = max(self.last_ns, int((start + np.maximum(dur, 0)).max()))
        negative = np.flatnonzero(has_dur & (dur < 0))
        if len(negative):
            self.clamped += len(negative)
            batch.own.update((row, f'"dur_ns":{value},') for row, value in _items(negative, dur))
            batch.dur = np.maximum(dur, 0)
        return batch

    def _lane_codes(self, batch: Batch) -> I64:
        columns, side = batch.columns, batch.on_device
        parts: list[Part | None] = [part(columns[n]) for n in ("source", "rank", "pid")]
        if side.any():
            parts += [part(columns[n], side) for n in ("device", "context", "stream")]
        if not side.all():
            parts += [part(columns["tid"], ~side)]
        if side.any() and not side.all():
            parts.append((side.astype(np.int64), 2))
        codes, first = agreeing(parts, batch.count)
        numbers = []
        api = {n for n, k in enumerate(batch.texts["kind"]) if k in API_CALLS}
        for row in first.tolist():
            device = bool(side[row])
            known = {n: _value(columns[n], row) for n in ("rank", "pid", "device", "context", "stream", "tid")}
            source = int(columns["source"].values[row])
            key: LaneKey
            if device:
                key = (
                    True,
                    source,
                    known["rank"],
                    known["pid"],
                    known["device"],
                    known["context"],
                    known["stream"],
                    None,
                )
            else:
                key = (False, source, known["rank"], known["pid"], None, None, None, known["tid"])
            numbers.append(self.lanes.lane(key, api=int(columns["kind"].values[row]) in api))
        return np.array(numbers, np.int64)[codes]

    def _choose_phases(self, batch: Batch) -> None:
        """Find the rows that are neither slices nor plain instants, and the texts that only single rows have."""
        columns = batch.columns
        kinds, kind = batch.texts["kind"], columns["kind"].values
        value = columns["value"]
        counters = among(kind, {n for n, k in enumerate(kinds) if k == Kind.COUNTER}, len(kinds)) & value.mask()
        finite = np.isfinite(value.values)
        lost = np.flatnonzero(counters & ~finite)
        self._written.leave_out("counter-not-finite", len(lost))
        batch.phase[lost] = LEFT_OUT
        others = np.flatnonzero(value.mask() & ~counters)
        for row, number_ in _items(others, value.values):
            batch.own[row] = batch.own.get(row, "") + f'"value":{number(number_)},'
        self._counters(batch, np.flatnonzero(counters & finite))
        if batch.args.null_count == batch.count:
            _gather_members(batch, None)
            return
        _gather_members(batch, batch.args)
        overlapping = batch.has_dur & ~columns["tid"].mask() & ~batch.on_device & (batch.phase == SLICE)
        flow_code = {n for n, k in enumerate(kinds) if k == Kind.FLOW}
        flows = among(kind, flow_code, len(kinds))
        batch.identity = np.zeros(batch.count, np.int64)
        stated = batch.args.is_valid().to_numpy(zero_copy_only=False) & (flows | overlapping)
        rows = np.flatnonzero(stated & (batch.phase != LEFT_OUT))
        for row, text in zip(rows.tolist(), batch.args.take(pa.array(rows)).to_pylist(), strict=True):
            if flows[row]:
                batch.points[row] = parsed(text) or {}
            elif overlapping[row] and "id" in (parsed(text) or {}):
                self._async += 1
                batch.phase[row] = ASYNC
                batch.identity[row] = self._async

    def _counters(self, batch: Batch, rows: I64) -> None:
        """What a counter has besides its value stands outside its args: each number there would be a series."""
        for row, value in _items(rows, batch.columns["value"].values):
            own = f'"value":{number(value)}}},"tracekit":{{' + batch.own.get(row, "")
            if batch.has_dur[row] and '"dur_ns":' not in own:
                own += f'"dur_ns":{batch.dur[row]},'
            if batch.text("name", row) is None:
                own += '"name":null,'
            for name in ("raw_name", "copy_kind"):
                text = batch.text(name, row)
                if text is not None:
                    own += f'"{name}":{quoted(text)},'
            batch.own[row] = own
        batch.phase[rows] = COUNTER

    def _place(self, batch: Batch, lane: I64) -> None:
        """Give each row its track; only slices need more than the first of a lane."""
        extra = np.zeros(batch.count, np.int64)
        rows = self._meeting(batch, lane)
        extra[rows] = self._assigner.assign(lane[rows], batch.ts[rows], batch.dur[rows])
        moved = int(np.count_nonzero(extra))
        self.moved += moved
        lanes = np.arange(len(self.lanes.lanes))
        if moved:
            codes, first = agreeing([(lane, len(lanes)), (extra, int(extra.max()) + 1)], batch.count)
            tracks = [self.lanes.track(int(lane[row]), int(extra[row])) for row in first.tolist()]
            batch.track = np.array(tracks, np.int64)[codes]
        else:
            used = np.unique(lane)
            table = np.zeros(len(lanes), np.int64)
            table[used] = [self.lanes.track(number_, 0) for number_ in used.tolist()]
            batch.track = table[lane]
        if len(self.ends) < len(self.lanes.tracks):
            grown = np.full(2 * len(self.lanes.tracks), -1, np.int64)
            grown[: len(self.ends)] = self.ends
            self.ends = grown

    def _meeting(self, batch: Batch, lane: I64) -> I64:
        """Return the slices that may meet others of their lane.

        The others stand alone: what came before has ended, what comes next starts later. So do most kernels of a
        stream, and looking for their track costs more than all else about them.
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
            alone[start : end - 1] = gap[:-1] & gap[1:]  # what comes after the last one is not known yet
            self._lane_ends[here] = latest[-1]
        together = np.ones(len(rows), np.bool_)
        together[order] = ~alone
        return rows[together]

    def _choose_points(self, batch: Batch) -> None:
        """Make rows of kind "flow" arrow points where a viewer can take them; the others stay instants."""
        inside: dict[int, bool] = {}
        rows = np.array(list(batch.points), np.int64)
        ends = batch.ts + batch.dur
        for track in np.unique(batch.track[rows]).tolist():
            own = np.flatnonzero((batch.track == track) & (batch.phase == SLICE))
            latest = np.maximum.accumulate(np.concatenate((self.ends[track : track + 1], ends[own])))
            mine = rows[batch.track[rows] == track]
            open_until = latest[np.searchsorted(own, mine)]
            inside.update(zip(mine.tolist(), (open_until > batch.ts[mine]).tolist(), strict=True))
        columns = batch.columns
        for row, args in batch.points.items():
            correlation = _value(columns["correlation"], row)
            phase, enclosing = args.get("ph"), args.get("bp") == "e"
            if batch.phase[row] not in (INSTANT, LONE_INSTANT) or correlation is None or phase not in ("s", "t", "f"):
                continue
            source = int(columns["source"].values[row])
            key = (source, correlation, batch.text("name", row))
            if self._flows.accept(phase, key, inside=inside[row], enclosing=enclosing):
                batch.phase[row] = START if phase == "s" else STEP if phase == "t" else BOUND_END if enclosing else END
                batch.identity[row] = self._flows.number(source, correlation)


def _gather_members(batch: Batch, args: pa.Array | None) -> None:
    """Set what stands in args besides the columns; each distinct text of `args` is made ready once."""
    texts: pa.Array | None = None
    if args is not None:
        encoded = args.dictionary_encode()
        ready = pa.array([merged(text) for text in encoded.dictionary.to_pylist()], pa.string())
        texts = pc.fill_null(ready.take(encoded.indices), "")
    if batch.own:
        few = pa.array([batch.own.get(row, "") for row in range(batch.count)], pa.string())
        texts = few if texts is None else pc.binary_join_element_wise(few, texts, "")
    if texts is not None:
        batch.members = texts
        batch.has_members = pc.not_equal(texts, "").to_numpy(zero_copy_only=False)


def among(codes: npt.NDArray[Any], wanted: set[int], size: int) -> Mask:
    """Return where the code is one of the wanted ones."""
    table = np.zeros(max(size, 1), np.bool_)
    table[list(wanted)] = True
    found: Mask = table[codes]
    return found


def _value(col: Column, row: int) -> int | None:
    """Return the integer of a row, None for null."""
    if col.none or (col.valid is not None and not col.valid[row]):
        return None
    return int(col.values[row])


def _items(rows: I64, values: npt.NDArray[Any]) -> Iterator[tuple[int, Any]]:
    return zip(rows.tolist(), values[rows].tolist(), strict=True)

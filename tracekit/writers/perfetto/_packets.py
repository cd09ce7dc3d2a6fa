"""A batch as packets, track by track.

A slice with nothing inside is about 25 bytes: begin and end side by side. What stays open goes on to the next batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np

from tracekit.errors import SchemaError
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Column, Mask, Rows, pc
from tracekit.model.digits import varint_sizes
from tracekit.writers.perfetto._annotations import Annotations, joined, of_args
from tracekit.writers.perfetto._arrows import Points
from tracekit.writers.perfetto._interned_names import InternedNames, Text
from tracekit.writers.perfetto._templates import PACKET_END, SharedState, Templates
from tracekit.writers.perfetto._wire import WireCells, message, number, packet, sizes_of, text
from tracekit.writers.tracks.batch import COUNTER, NOT_WRITTEN, SLICE, UNDRAWN, Batch, classes, value_codes
from tracekit.writers.tracks.lanes import Heading, Track, TrackLanes, TrackProcess
from tracekit.writers.tracks.nested import Order, TrackItems, order_packets

# Tracks of Perfetto: their descriptors, their packet sequences, and the texts that each sequence has defined.
#
# Each track is a packet sequence of its own, whose defaults name the track and a clock that counts from packet to
# packet. So a packet has neither a track nor an absolute time. pid, tid and uuid are small numbers of our own: Perfetto
# loses the name of a process or thread 0, and cuts ids to 32 bits.


TRACE_CLOCK, UNIX_CLOCK, STEP_CLOCK = 6, 1, 64
"""BOOTTIME, which the trace's time is; REALTIME; a clock that is private to a sequence."""
_EXPLICIT = 3
_ABOVE = -1
_COMMON = number(10, 1)
"""Sequence 1 has everything that is on no track."""


@dataclass(slots=True)
class PacketTimeline:
    """A track of the file with its packet sequence. track: None for a counter."""

    number: int
    process: TrackProcess
    track: Track | None
    name: str
    introduced: Heading | None = None
    defined: set[Text] = field(default_factory=set)

    @property
    def on_device(self) -> bool:
        return self.process.on_device

    @property
    def is_thread(self) -> bool:
        """Return whether Perfetto knows the track as a thread, or as part of one."""
        return self.track is not None and self.track.lane.is_thread


class Timelines:
    """All tracks of a file, numbered from 0 in order of appearance."""

    def __init__(self, lanes: TrackLanes, interned: InternedNames) -> None:
        self.all: list[PacketTimeline] = []
        self._lanes = lanes
        self._interned = interned
        self._of_track = np.full(16, -1, np.int64)
        self._counters: dict[tuple[int, str], int] = {}
        self.sequence = np.zeros(16, np.int64)
        """Number of the packet sequence of each track."""
        self.last = np.zeros(16, np.int64)
        """Time of the last packet on each track."""
        self.rank = np.zeros(16, np.int64)
        """Order in the file: at equal times an arrow must begin before it ends, so calls come before device work."""

    def of_tracks(self, tracks: I64) -> I64:
        """Return the number of each row's timeline. tracks: shape (n,), numbers of tracks of the lanes."""
        if len(self._of_track) < len(self._lanes.tracks):
            self._of_track = _grown(self._of_track, 2 * len(self._lanes.tracks), -1)
        used = np.zeros(len(self._of_track), np.bool_)
        used[tracks] = True
        for new in np.flatnonzero(used & (self._of_track < 0)).tolist():
            track = self._lanes.tracks[new]
            self._of_track[new] = self._add(PacketTimeline(track.number, track.lane.process, track, ""))
        return self._of_track[tracks]

    def counter(self, track: int, name: str) -> int:
        """Return the number of the timeline of a counter of the process that a track belongs to."""
        process = self._lanes.tracks[track].lane.process
        key = process.number, name
        if key not in self._counters:
            self._counters[key] = self._add(PacketTimeline(self._lanes.number(), process, None, name))
        return self._counters[key]

    def _add(self, timeline: PacketTimeline) -> int:
        at = len(self.all)
        self.all.append(timeline)
        if at == len(self.last):
            self.sequence, self.last, self.rank = (_grown(x, 2 * at, 0) for x in (self.sequence, self.last, self.rank))
        self.sequence[at] = timeline.number + 1
        self.rank[at] = at + (1 << 40 if timeline.on_device else 0)
        return at

    def introductions(self, numbers: I64) -> Iterator[bytes]:
        """Yield the packets that introduce tracks which are not in the file yet, and the clocks of their sequences."""
        for at in numbers.tolist():
            timeline = self.all[at]
            if timeline.introduced is None:
                yield from self._described(timeline)
                yield _sequence_start(timeline)

    def renamed(self) -> Iterator[bytes]:
        """Yield the descriptors of tracks whose name has changed since they were introduced."""
        for timeline in self.all:
            if timeline.introduced is not None:
                yield from self._described(timeline)

    def definitions(self, timeline: int, texts: list[Text]) -> bytes:
        """Return the packet that defines texts on a track."""
        one = self.all[timeline]
        one.defined.update(texts)
        head = number(8, 0) + number(10, one.number + 1) + number(13, 2)
        return packet(head, message(12, self._interned.definitions(texts)))

    def _described(self, timeline: PacketTimeline) -> Iterator[bytes]:
        process = timeline.process
        heading = self._lanes.process_heading(process)
        if process.introduced != heading:
            process.introduced = heading
            named = message(3, number(1, process.number), text(6, heading[0]))
            yield _descriptor(number(1, process.number), named, number(11, _EXPLICIT))
        track = timeline.track
        if track is None:
            if timeline.introduced is None:
                timeline.introduced = timeline.name, _ABOVE
                parts = number(5, process.number), text(2, timeline.name), message(8), number(12, _ABOVE)
                yield _descriptor(number(1, timeline.number), *parts)
            return
        _, place = self._lanes.track_heading(track)
        heading = self._lanes.lane_name(track.lane), place - min(track.extra, 999)
        if timeline.introduced == heading:
            return
        timeline.introduced = heading
        name, rank = heading
        if timeline.is_thread and track.extra == 0:
            thread = message(4, number(1, process.number), number(2, timeline.number), text(5, name))
            yield _descriptor(number(1, timeline.number), number(5, process.number), thread, number(12, rank))
        else:
            # Tracks of one name below one parent are shown as one track of several rows.
            parent = track.lane.tracks[0] if timeline.is_thread else -1
            above = self._lanes.tracks[parent].number if parent >= 0 else process.number
            yield _descriptor(number(1, timeline.number), number(5, above), text(2, name), number(12, rank))


def _descriptor(*parts: bytes) -> bytes:
    return packet(message(60, *parts), _COMMON)


def _sequence_start(timeline: PacketTimeline) -> bytes:
    """Return the first packet of a sequence: its clock counts on from packet to packet, its events are on the track."""
    clocks = (
        message(1, number(1, TRACE_CLOCK), number(2, 0)),
        message(1, number(1, STEP_CLOCK), number(2, 0), number(3, 1)),
    )
    defaults = message(59, number(58, STEP_CLOCK), message(11, number(11, timeline.number)))
    return packet(number(10, timeline.number + 1), number(13, 1), message(6, *clocks), defaults)


def unix_clock(base_ns: int) -> bytes:
    """Return the packet that says the Unix time of the trace's time 0, in ns."""
    clocks = message(1, number(1, TRACE_CLOCK), number(2, 0)), message(1, number(1, UNIX_CLOCK), number(2, base_ns))
    return packet(message(6, *clocks), _COMMON)


def facts_packet(facts: str) -> bytes:
    """Return the packet with the facts of the file, which Perfetto lists under "Info and stats" as cr-tracekit."""
    return packet(message(5, message(2, text(1, "tracekit"), text(2, facts))), _COMMON)


def _grown(values: I64, size: int, fill: int) -> I64:
    out = np.full(size, fill, np.int64)
    out[: len(values)] = values
    return out


CHUNK_BYTES = 1 << 24
"""Most bytes of packets that are built at once: a batch of long args is written in several chunks."""
_TABLE = 1 << 18
_SHORT = 64
"""Most bytes of templates that are stored as words, like numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """The order of a batch, with timeline, start and end of its items."""

    order: Order
    number: I64
    start: I64
    end: I64


class PacketMaker:
    """Turns batches in order of start into packets. Keeps open slices and the time of each track between batches."""

    def __init__(self, lanes: TrackLanes) -> None:
        self.interned = InternedNames()
        self.timelines = Timelines(lanes, self.interned)
        self.events = self.undrawn = 0
        self._templates = Templates(self.interned)
        # Slices that are open: the number of their timeline and their end; outermost first on each timeline.
        self._open = np.empty((2, 0), np.int64)
        # Each set of texts that some events need, and sorted: timeline and set, for those whose texts are defined.
        self._needs: dict[tuple[Text, ...], int] = {}
        self._paired = np.full(1, -1, np.int64)

    def chunks(self, batch: Batch, points: Points) -> Iterator[bytes | memoryview]:
        """Yield the packets of a batch in buffers."""
        timeline = self._timelines_of_rows(batch)
        drawn = (batch.phase != NOT_WRITTEN) & (batch.phase != UNDRAWN)
        self.undrawn += int(np.count_nonzero(batch.phase == UNDRAWN))
        rows = np.flatnonzero(drawn)
        self.events += len(rows) + points.absorbed
        if not len(rows):
            return
        # By track; calls come before device work, and carried slices before all others of their track.
        own, open_ = timeline[rows], self._open
        used = np.zeros(len(self.timelines.rank), np.bool_)
        used[own] = True
        new = np.flatnonzero(used)
        used[open_[0]] = True
        ranks = np.sort(self.timelines.rank[used])
        dense = np.searchsorted(ranks, self.timelines.rank)
        tracks = np.concatenate((dense[open_[0]], dense[own]))
        order = np.argsort(tracks.astype(np.uint16) if len(ranks) <= 1 << 16 else tracks, kind="stable")
        carried = order < open_.shape[1]
        number = np.concatenate((open_[0], own))[order]
        start = np.concatenate((np.zeros(open_.shape[1], np.int64), batch.ts[rows]))[order]
        end = np.concatenate((open_[1], batch.ts[rows] + batch.dur[rows]))[order]
        single = np.concatenate((np.zeros(open_.shape[1], np.bool_), batch.phase[rows] != SLICE))[order]
        placed = order_packets(TrackItems(tracks[order], start, end, single, carried), int(batch.ts[-1]))
        self._open = np.stack((number[placed.open], end[placed.open]))
        row_of_item = np.concatenate((np.full(open_.shape[1], -1), rows))[order]
        item_rows = row_of_item[placed.starters]
        yield from self.timelines.introductions(new)
        yield from self._packets(batch, points, _Placed(placed, number, start, end), item_rows)

    def rest(self) -> Iterator[bytes | memoryview]:
        """Yield the ends of the slices that are open after the last batch."""
        number, end = self._open
        if not len(number):
            return
        no, yes = np.zeros(len(number), np.bool_), np.ones(len(number), np.bool_)
        dense = np.append(0, np.cumsum(number[1:] != number[:-1]))
        placed = order_packets(TrackItems(dense, np.zeros(len(number), np.int64), end, no, yes), int(end.max()))
        self._open = np.empty((2, 0), np.int64)
        lone = _Placed(placed, number, end, end)
        steps, _, tracks = self._steps(lone)
        cells = _heads(self.timelines.sequence[tracks], steps, np.full(len(steps), len(PACKET_END), np.int64))
        cells.put(PACKET_END)
        yield _data(cells.column())

    def _timelines_of_rows(self, batch: Batch) -> I64:
        timeline = np.zeros(batch.count, np.int64)
        counters = batch.phase == COUNTER
        timeline[~counters] = self.timelines.of_tracks(batch.track[~counters])
        rows = np.flatnonzero(counters)
        if len(rows):
            name = batch.columns["name"]
            codes, first = classes(
                [(batch.track[rows], int(batch.track.max()) + 1), _of(value_codes(name), rows)], len(rows)
            )
            numbers = [
                self.timelines.counter(int(batch.track[row]), batch.text("name", row) or "")
                for row in rows[first].tolist()
            ]
            timeline[rows] = np.array(numbers, np.int64)[codes]
        return timeline

    def _packets(self, batch: Batch, points: Points, placed: _Placed, rows: I64) -> Iterator[bytes | memoryview]:
        """Yield the packets of the starters, with the ends between them. rows: row of the batch of each starter."""
        shared, own = self._templates.shared(batch)
        args = of_args(batch.encoded_args(), self.interned) if batch.args.null_count < batch.count else None
        order = placed.order
        yield from self._definitions(placed.number[order.starters], shared, args, rows)
        row = np.full(order.rows, -1, np.int64)
        row[order.starter_row] = rows
        begins = row >= 0 if len(order.enders) else None
        code = shared.code[row] if begins is None else np.where(begins, shared.code[row], len(shared.templates))
        body = WireCells(order.rows)
        own.put(body, row, begins)
        place = np.full(batch.count, -1, np.int64)
        place[rows] = order.starter_row
        behind = WireCells(order.rows)
        flows = points.put(behind, place)
        inner = shared.sizes[code] + body.sizes + behind.sizes
        if flows is not None:
            inner += sizes_of(flows)
        texts = None if args is None else np.where(row >= 0, args.code[row], -1)
        if args is not None and texts is not None and len(args.sizes):
            inner += np.where(texts >= 0, args.sizes[texts], 0)
        steps, durations, tracks = self._steps(placed)
        sequence = self.timelines.sequence[tracks]
        heads = _heads(sequence, steps, inner)
        heads.extend(body)
        short = int(shared.sizes.max()) <= _SHORT
        if short:
            heads.texts(shared.data, code)
        if flows is not None:
            behind = WireCells(order.rows)
        closed = np.zeros(order.rows, np.bool_)
        closed[order.starter_row] = order.closed
        _put_ends(behind, sequence, durations, closed)
        if short and args is None and flows is None:
            heads.extend(behind)
            yield _data(heads.column())
            return
        fields, ends, upto = heads.column(), behind.column(), np.cumsum(inner)
        first = 0
        while first < order.rows:
            before = int(upto[first - 1]) if first else 0
            last = max(int(np.searchsorted(upto, before + CHUNK_BYTES, "right")), first + 1)
            here, count = slice(first, last), min(last, order.rows) - first
            pieces = [fields.slice(first, count)]
            if not short:
                pieces.append(arrow.take(shared.data, code[here]))
            if args is not None and texts is not None:
                taken = args.data.take(arrow.array(texts[here], mask=texts[here] < 0))
                pieces.append(pc.fill_null(taken, b""))
            if flows is not None:
                pieces.append(flows.slice(first, count))
            yield _data(joined(*pieces, ends.slice(first, count)))
            first = last

    def _definitions(self, number: I64, shared: SharedState, args: Annotations | None, rows: I64) -> Iterator[bytes]:
        """Yield the texts that a track uses for the first time. number: timeline of each starter."""
        sources = [(shared.code[rows], [template.needs for template in shared.templates])]
        if args is not None:
            texts = args.code[rows]
            sources.append((np.where(texts >= 0, args.need[texts], len(args.needs)), [*args.needs, ()]))
        wanted: dict[int, dict[Text, None]] = {}
        for code, needs in sources:
            for timeline, which in self._new_pairs(number, code, needs):
                defined = self.timelines.all[timeline].defined
                missing = dict.fromkeys(text for text in needs[which] if text not in defined)
                wanted.setdefault(timeline, {}).update(missing)
        for timeline, found in wanted.items():
            if found:
                yield self.timelines.definitions(timeline, list(found))

    def _new_pairs(self, number: I64, code: Rows, needs: list[tuple[Text, ...]]) -> list[tuple[int, int]]:
        """Return timeline and index of `needs` for the pairs that no batch before had."""
        pairs = np.array(_distinct(number * len(needs) + code, len(self.timelines.all) * len(needs)), np.int64)
        timelines, which = np.divmod(pairs, len(needs))
        known = np.array([self._needs.setdefault(each, len(self._needs)) for each in needs], np.int64)
        keys = timelines << 32 | known[which]
        place = np.minimum(np.searchsorted(self._paired, keys), len(self._paired) - 1)
        new = self._paired[place] != keys
        if new.any():
            self._paired = sets.union(self._paired, keys[new])
        return list(zip(timelines[new].tolist(), which[new].tolist(), strict=True))

    def _steps(self, placed: _Placed) -> tuple[I64, I64, I64]:
        """Return the time from the packet before to each row's first packet, the durations within rows, and the tracks.

        Raises: SchemaError where time would go back on a track.
        """
        order = placed.order
        items = np.empty(order.rows, np.int64)
        items[order.starter_row], items[order.ender_row] = order.starters, order.enders
        tracks, times = placed.number[items], placed.start[items]
        times[order.ender_row] = placed.end[order.enders]
        durations = np.zeros(order.rows, np.int64)
        durations[order.starter_row] = np.where(
            order.closed, placed.end[order.starters] - placed.start[order.starters], 0
        )
        after = times + durations
        before = np.empty(order.rows, np.int64)
        before[1:] = after[:-1]
        begins = np.ones(order.rows, np.bool_)
        np.not_equal(tracks[1:], tracks[:-1], out=begins[1:])
        before[begins] = self.timelines.last[tracks[begins]]
        steps = times - before
        if order.rows and int(steps.min()) < 0:
            raise SchemaError("the packets of a track are not in order of time")
        last = np.append(begins[1:], True)
        self.timelines.last[tracks[last]] = after[last]
        return steps, durations, tracks


def _heads(sequence: I64, steps: I64, inner: I64) -> WireCells:
    """Return the begin of each packet: its length, time and sequence. inner: the bytes of the event."""
    sizes, step_sizes, inner_sizes = varint_sizes(sequence), varint_sizes(steps), varint_sizes(inner)
    total = inner + (inner_sizes + np.uint8(3) + sizes + step_sizes)
    cells = WireCells(len(inner))
    cells.put(b"\x0a")
    cells.varint(total, varint_sizes(total))
    cells.put(b"\x40")
    cells.varint(steps, step_sizes)
    cells.put(b"\x50")
    cells.varint(sequence, sizes)
    cells.put(b"\x5a")
    cells.varint(inner, inner_sizes)
    return cells


def _put_ends(cells: WireCells, sequence: I64, steps: I64, where: Mask) -> None:
    """Add the packets that end the slices of some rows."""
    sizes, step_sizes = varint_sizes(sequence), varint_sizes(steps)
    cells.put(b"\x0a", where)
    cells.byte(6 + sizes + step_sizes, where)
    cells.put(b"\x40", where)
    cells.varint(steps, step_sizes, where)
    cells.put(b"\x50", where)
    cells.varint(sequence, sizes, where)
    cells.put(b"\x5a\x02" + PACKET_END, where)


def _of(codes: tuple[Rows, int] | None, rows: I64) -> tuple[Rows, int] | None:
    return None if codes is None else (codes[0][rows], codes[1])


def _distinct(codes: I64, size: int) -> list[int]:
    """Return the codes that occur, each once. size: more than the largest code."""
    if size > _TABLE:
        distinct: list[int] = sets.unique(codes).tolist()
        return distinct
    used = np.zeros(size, np.bool_)
    used[codes] = True
    found: list[int] = np.flatnonzero(used).tolist()
    return found


def _data(packets: Column) -> memoryview:
    offsets, data = arrow.text_parts(packets)
    return data[int(offsets[0]) : int(offsets[-1])].data

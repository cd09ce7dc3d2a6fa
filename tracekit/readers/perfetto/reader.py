"""perfetto: Perfetto's own traces (`.pftrace`, `.perfetto-trace`: the messages of trace_packet.proto).

    packet: {timestamp: 131542961211562, trusted_packet_sequence_id: 2, track_event: {type: TYPE_SLICE_BEGIN,
             name_iid: 76, category_iids: 3, track_uuid: 17228401478048177274, flow_ids: 14124986797177178909}}
    packet: {timestamp: 131542961223002, trusted_packet_sequence_id: 2, track_event: {type: TYPE_SLICE_END}}

A record is a packet; compressed packets are records of their own, beside the packet that holds them. Kept: begins of
slices, moments, counters. Merged: ends. Facts: descriptors, clock snapshots, packets with interned texts alone. Packets
of other types are ignored and counted by type; a note names the types that hold measurements.

Times are ns of the trace's own clock (BOOTTIME, if no snapshot says otherwise). Times of other clocks are converted by
the clock snapshots before them; packets whose clock no snapshot has named yet wait for the end of the file.
`Run.origin_ns` comes from REALTIME in the snapshots. Without a snapshot times are as they are, Unix time from 2001 on.

Slices are user_range, moments mark, counters counter, ids of arrows rows of kind flow, with their phase in `args`.
Categories of rocprofv3 decide the kind: hip_api runtime, hsa_api driver, rccl_api communication; kernel_dispatch
kernel, memory_copy memcpy, with device, stream and correlation. The category is `cat` in `args`, beside the debug
annotations, source location and log message. A thread is a lane by pid and tid; each other track has a `tid` of its
own, which its name stands for. Values of counters are in the unit of their descriptor.

Stages of a GPU (gpu_render_stage_event) are kernel, with device, stream (the hardware queue) and the process of their
context; ids, launch shape and extra data are in `args`. gpu_counter_event and gpu_mem_total_event are counters.

An end closes the innermost open slice of its track with its name and category; one without them, or with an empty
name, closes the innermost one. Slices within a slice that ends, end with it. Chrome's phases B, E, X, b, e, S, F are
slices, C counters, s, t, f arrows, M names; all others are moments. Asynchronous ones (b, e, n, S, T, p, F) have no
tid, and their id in `args`.

A trace that tracekit wrote comes back with its lanes, kinds, columns and clock. No field of Perfetto holds the thread
of a counter; empty lists, empty objects and whole numbers beyond int64 within `args` come back as text.

Unlike Perfetto's engine (v52): N, O and D of objects are moments; an end with an empty name (Chrome's navigations) does
end a slice; a value of a GPU's counter has the time at which it was read, not that of the value before it.
Not supported: ftrace, samples, and all else; vulkan_api_event, graphics_frame_event.
Sources: protos/perfetto/trace and src/trace_processor/importers/proto of google/perfetto; files of rocprofv3, Chrome
and the Rust crate tracing-perfetto.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tracekit.model import arrow, sets
from tracekit.model.arrow import Mask
from tracekit.model.digits import varint_at
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine.wire import WireMessage
from tracekit.readers.head import Head
from tracekit.readers.packets import fields as numbers
from tracekit.readers.packets.framing import PacketBlock, Packets
from tracekit.readers.packets.rows import ARROWS, ENDED, FLOW, LOOSE, SCHEMA
from tracekit.readers.packets.sequences import Sequences
from tracekit.readers.packets.texts import PacketTexts
from tracekit.readers.packets.times import BAD, PacketTimes
from tracekit.readers.perfetto._gpu import Gpu
from tracekit.readers.perfetto._lanes import PerfettoLanes
from tracekit.readers.perfetto._own import Facts, Own, facts_of
from tracekit.readers.perfetto._slices import STORED, Blocks, Slices
from tracekit.readers.perfetto._track_events import TrackEvents
from tracekit.readers.perfetto._tracks import Tracks
from tracekit.readers.source import Source
from tracekit.safety.spill import Sorter, Spill, by_columns

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

# Recognition of a Perfetto trace by its first packets.


_WIRES = {
    **dict.fromkeys((3, 8, 10, 13, 41, 42, 58, 79, 87, 98), 0),
    **dict.fromkeys((2, 6, 11, 12, 43, 44, 45, 50, 52, 53, 59, 60, 69, 71, 89, 128, 133), 2),
    **{number: 2 for number in numbers.TYPES if number not in (1, 123)},
    1: 2,
    33: 2,
    36: 2,
}
_SURE = frozenset({6, 10, 11, 13, 33, 36, 43, 44, 50, 52, 53, 58, 59, 60, 69, 89, 133})
"""Fields that make a packet of what might be the message of another format."""
_MOST_PACKETS = 64
_ENOUGH = 3
"""Packets after which the file may be damaged."""


def sniff(head: Head) -> Confidence:
    """Return YES where all packets of the head have only fields of TracePacket, and most have one that marks them."""
    data, place = head.data, 0
    packets = sure = 0
    while place < len(data) and packets < _MOST_PACKETS:
        if data[place] != 0x0A:
            if packets < _ENOUGH:
                return Confidence.NO
            break
        length, start = varint_at(data, place + 1)
        if length < 0:
            break
        end = start + length
        numbers_seen = _fields(data, start, min(end, len(data)), whole=end <= len(data))
        if numbers_seen is None or (end > len(data) and head.complete and not packets):
            return Confidence.NO
        packets += 1
        sure += not _SURE.isdisjoint(numbers_seen)
        place = end
    return Confidence.YES if packets and 2 * sure >= packets else Confidence.NO


def _fields(data: bytes, place: int, end: int, *, whole: bool) -> set[int] | None:
    """Return the numbers of the fields of a packet, None for what is no packet."""
    numbers_seen: set[int] = set()
    while place < end:
        tag, place = varint_at(data, place)
        if tag < 0:
            return None if whole else numbers_seen
        number, wire = tag >> 3, tag & 7
        if _WIRES.get(number) != wire:
            return None
        value, place = varint_at(data, place)
        if value < 0 and whole:
            return None
        numbers_seen.add(number)
        if wire == 2:
            place += max(value, 0)
    return None if whole and place != end else numbers_seen


# A Perfetto trace from its packets to our rows.


_CHUNK_ROWS = 1 << 19
"""Rows that wait in memory for their clock or their end; more are on disk. Few do."""
_KEPT_ROWS = 1 << 18
"""All other rows that wait in memory for the end of the file; more are on disk."""
_EPOCH_NS = 10**18
"""Times without a clock from September 2001 on are Unix time."""
_MOST_NAMED = 8


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events. Raises: ParseError for a file that begins with no packet."""
    run = Run(sources=[SourceFacts(source.name, "perfetto", facts={"tool": "Perfetto"})])
    return ReadResult(run, _PerfettoReading(source, options, ledger, run).batches(), ordered=False, ledgers=(ledger,))


class _PerfettoReading:
    """One reading of one file."""

    def __init__(self, source: Source, options: ReadOptions, ledger: Ledger, run: Run) -> None:
        self.packets = Packets(source, ledger)
        self.options, self.ledger, self.run = options, ledger, run
        self.texts = PacketTexts(ledger)
        self.tracks = Tracks(run, options.source)
        self.sequences = Sequences(self.texts)
        self.times = PacketTimes()
        self.events = TrackEvents(self.texts, self.tracks, self.times, ledger)
        self.gpu = Gpu(self.texts, self.tracks, ledger)
        self._rows = 0
        self._own_facts: Facts | None = None
        self._first_ns: int | None = None
        self._unread: dict[int, int] = {}

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows; the run has its names afterwards."""
        with closing(Spill(SCHEMA)) as spill, closing(Spill(STORED)) as stored, closing(Spill(ARROWS)) as points:
            blocks = Blocks(stored, _KEPT_ROWS, self.texts.code(""))
            arrows = Sorter(points, by_columns("number", "ts", "seq"), _KEPT_ROWS)
            waiting = Sorter(spill, by_columns("seq"), _CHUNK_ROWS)
            for block in self.packets.blocks():
                for table in self._tables(block):
                    self._sort(self._numbered(table), blocks, arrows, waiting)
            for table in waiting.tables():
                self._sort(self._converted(table), blocks, arrows, None)
            self._describe()
            facts = self._own_facts
            own_facts = None if facts is None else Own(facts, self.tracks, self.run, self.options.source)
            lanes = PerfettoLanes(self.tracks, self.texts, self.options, self.ledger, own_facts)
            try:
                yield from self._slices(blocks, lanes)
                yield from lanes.arrows(arrows.tables())
            finally:
                lanes.close()
            lanes.name_run()

    def _slices(self, blocks: Blocks, lanes: PerfettoLanes) -> Iterator[pa.RecordBatch]:
        slices = Slices(lanes, self.ledger)
        with closing(Spill(LOOSE)) as spill, closing(Spill(ENDED)) as ended:
            loose = Sorter(spill, by_columns("track", "ts", "seq"), _CHUNK_ROWS)
            for table in blocks.loose():
                loose.add(table)
            ends = Sorter(ended, by_columns("place"), _CHUNK_ROWS)
            for table in slices.ended(loose.tables()):
                ends.add(table)
            yield from slices.batches(blocks, ends)

    def _tables(self, block: PacketBlock) -> list[pa.Table]:
        stated = self.sequences.read(block)
        timed = self.times.read(block, stated)
        fields = block.fields
        taken = self._take_facts(block)
        self.ledger.facts += int(np.count_nonzero(taken))
        bad = sets.unique(fields.bad)
        if len(bad):
            taken[bad] = True
            text = "dropped: packets that are no protobuf messages"
            self.ledger.drop("damaged", len(bad), where=f"packet {block.number + int(bad[0])}", text=text)
        # A packet has one type. The last one counts where a file says otherwise, as in protobuf.
        events = fields.of(numbers.TRACK_EVENT, 2).one_each(taken)
        taken[events.row] = True
        tables = self.gpu.tables(block, stated, timed, taken)
        self._count_others(block, taken)
        if not len(events):
            return tables
        may_be_own = self.times.from_zero
        return tables + self.events.tables(block, stated, timed, events, may_be_own=may_be_own)

    def _take_facts(self, block: PacketBlock) -> Mask:
        """Take what descriptors say, and the facts of a file of our own. Return the packets of the latter."""
        fields = block.fields
        of_facts = np.zeros(block.count, np.bool_)
        bundles = fields.of(numbers.CHROME_EVENTS, 2)
        for row, at, end in zip(bundles.row.tolist(), bundles.at.tolist(), bundles.ends.tolist(), strict=True):
            facts = facts_of(block.data[at:end].tobytes())
            if facts is not None:
                self._own_facts, of_facts[row] = facts, True
        for kind, take in (
            (numbers.DESCRIPTOR, self.tracks.describe),
            (numbers.PROCESS_TREE, self.tracks.name_tree),
            (numbers.PROCESS, lambda data: self.tracks.name_process(WireMessage(data))),
            (numbers.THREAD, lambda data: self.tracks.name_thread(WireMessage(data))),
        ):
            named_fields = fields.of(kind, 2)
            for at, end in zip(named_fields.at.tolist(), named_fields.ends.tolist(), strict=True):
                take(block.data[at:end].tobytes())
        return of_facts

    def _count_others(self, block: PacketBlock, counted: Mask) -> None:
        """Count the packets of other types."""
        ledger = self.ledger
        row, number, at = block.fields.besides(numbers.BESIDE)
        others = np.flatnonzero(~counted[row])
        row, number = row[others], number[others]
        order = np.lexsort((at[others], row))
        row, number = row[order], number[order]
        first = np.flatnonzero(np.append(True, row[1:] != row[:-1])[: len(row)])
        kinds = number[first]
        counted[row] = True
        for kind, count in zip(*(each.tolist() for each in np.unique(kinds, return_counts=True)), strict=True):
            if kind in numbers.FACTS:
                ledger.facts += count
            else:
                self._unread[kind] = self._unread.get(kind, 0) + count
                ledger.ignore(f"{_type(kind)} packets", count)
        ledger.facts += int(np.count_nonzero(~counted))

    def _numbered(self, table: pa.Table) -> pa.Table:
        first = self._rows
        self._rows += table.num_rows
        seq = arrow.array(np.arange(first, self._rows))
        return arrow.with_column(table, "seq", seq)

    def _sort(self, table: pa.Table, blocks: Blocks, arrows: Sorter, waiting: Sorter | None) -> None:
        """Give rows to the sorter that they belong to; drop those whose time is not known."""
        clock, ts = arrow.ints(table.column("clock")), arrow.ints(table.column("ts"))
        waits = clock >= 0
        if waiting is not None and waits.any():
            waiting.add(table.filter(arrow.array(waits)))
            table, ts = table.filter(arrow.array(~waits)), ts[~waits]
        elif waits.any():
            text = "dropped: their clock is in no snapshot"
            self._drop(table.filter(arrow.array(waits)), "clock-unknown", text)
            table, ts = table.filter(arrow.array(~waits)), ts[~waits]
        bad = ts == BAD
        if bad.any():
            self._drop(
                table.filter(arrow.array(bad)), "bad-time", "dropped: their time is out of range, lost or not stated"
            )
            table, ts = table.filter(arrow.array(~bad)), ts[~bad]
        if not len(ts):
            return
        least = int(ts.min())
        self._first_ns = least if self._first_ns is None else min(least, self._first_ns)
        flows = arrow.ints(table.column("what")) == FLOW
        if flows.all():
            arrows.add(table.select(ARROWS.names))
            return
        if flows.any():
            arrows.add(table.select(ARROWS.names).filter(arrow.array(flows)))
            table = table.filter(arrow.array(~flows))
        blocks.add(table)

    def _drop(self, table: pa.Table, code: str, text: str) -> None:
        primary = arrow.bools(table.column("primary"))
        first = int(arrow.ints(table.column("packet"))[0])
        if count := int(np.count_nonzero(primary)):
            self.ledger.drop(code, count, where=f"packet {first}", text=text)

    def _converted(self, table: pa.Table) -> pa.Table:
        """Return rows with their time on the clock of the trace, as far as all snapshots of the file say it."""
        clocks = self.times.clocks
        code, ts = arrow.ints(table.column("clock")).copy(), arrow.ints(table.column("ts")).copy()
        alone = not self.times.snapshots and len(self.times.waiting) == 1 and self._first_ns is None
        for number, clock in enumerate(self.times.waiting):
            on_clock = code == number
            if clocks.knows(clock):
                ts[on_clock] = clocks.convert(clock, ts[on_clock])
            elif alone:
                text = "no snapshot says what the clock of the events is: their times are as they are"
                self.ledger.note("clock-not-stated", text)
            else:
                continue
            code[on_clock] = -1
        for name, values in (("clock", code), ("ts", ts)):
            table = arrow.with_column(table, name, arrow.array(values))
        return table

    def _describe(self) -> None:
        ledger, run = self.ledger, self.run
        run.origin_ns = self.times.clocks.unix_offset()
        if run.origin_ns is None and not self.times.snapshots and (self._first_ns or 0) >= _EPOCH_NS:
            run.origin_ns = 0
        if unread := {kind: count for kind, count in self._unread.items() if kind in numbers.EVENT_TYPES}:
            shown = ", ".join(f"{_type(kind)} ({count:,})" for kind, count in sorted(unread.items())[:_MOST_NAMED])
            ledger.note("packets-not-read", f"packets that tracekit does not read: {shown}", sum(unread.values()))
        if self.sequences.lost:
            ledger.note("data-loss", "packets were lost before these, the producer says", self.sequences.lost)
        if self.events.unread:
            shown = ", ".join(f"{number} ({count:,})" for number, count in sorted(self.events.unread.items()))
            text = f"fields of track events that tracekit does not read, by number: {shown[:200]}"
            ledger.note("fields-not-read", text, sum(self.events.unread.values()))


def _type(number: int) -> str:
    return numbers.TYPES.get(number, f"type {number}")

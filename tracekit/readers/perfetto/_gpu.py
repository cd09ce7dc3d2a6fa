"""Work and counters of GPUs: render stages, counters of the driver, memory in all.

A stage has its duration with it. What its hardware queue and its kind of work are called is interned, or, by older
drivers, stated once by number.
"""

from __future__ import annotations

import numpy as np
import orjson
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import Mask
from tracekit.model.trace import Ledger
from tracekit.model.units import MAX_NS
from tracekit.readers.engine.wire import Fields, Picked, WireMessage, scan
from tracekit.readers.packets import fields as numbers
from tracekit.readers.packets.framing import PacketBlock
from tracekit.readers.packets.rows import COUNTER, WHOLE, table
from tracekit.readers.packets.sequences import Stated
from tracekit.readers.packets.texts import NONE, PacketTexts
from tracekit.readers.packets.times import Timed
from tracekit.readers.perfetto._args import ArgMembers, json_of
from tracekit.readers.perfetto._tracks import Tracks

_IDS = {1: "event_id", 5: "context", 8: "render_target", 9: "render_pass", 10: "submission_id", 12: "command_buffer"}
_CATEGORIES = {0: "other", 1: "graphics", 2: "compute"}
_OLD_STAGE, _OLD_QUEUE = "stage {}", "queue {}"


class Gpu:
    """Reads the packets of GPUs, block after block."""

    def __init__(self, texts: PacketTexts, tracks: Tracks, ledger: Ledger) -> None:
        self.texts, self.tracks, self.ledger = texts, tracks, ledger
        self._stages: dict[int, str] = {}
        self._queues: dict[int, str] = {}
        self._counters: dict[tuple[int, int], str] = {}

    def tables(self, block: PacketBlock, stated: Stated, timed: Timed, taken: Mask) -> list[pa.Table]:
        """Return the rows of a block. taken: packets that are damaged or of another type; those read here join them."""
        out = []
        for kind, read in (
            (numbers.GPU_STAGE, self._read_stages),
            (numbers.GPU_COUNTER, self._read_counters),
            (numbers.GPU_MEMORY, self._read_memory),
        ):
            messages = block.fields.of(kind, 2)
            messages = messages.one_each(taken)
            taken[messages.row] = True
            if len(messages):
                out += read(block, stated, timed, messages)
        return out

    def _read_stages(self, block: PacketBlock, stated: Stated, timed: Timed, stage_events: Picked) -> list[pa.Table]:
        inner, count, packets = (
            scan(block.view, stage_events.at, stage_events.ends),
            len(stage_events),
            stage_events.row,
        )
        for each in _messages(block, inner.of(7, 2)):
            self._queues.update(enumerate(WireMessage(one).text(1) for one in each.each(2)))
            self._stages.update(enumerate(WireMessage(one).text(1) for one in each.each(3)))
        duration, has = inner.last(2, 0, count)
        # The first packet of a driver may hold names alone.
        keep = np.flatnonzero(has & (duration >= 0) & (duration < MAX_NS))
        lost = count - len(keep)
        only_names = np.zeros(count, np.bool_)
        only_names[inner.of(7, 2).row] = True
        facts = int(np.count_nonzero(only_names & ~has))
        self.ledger.facts += facts
        if lost > facts:
            text = "dropped: stages of a GPU without a duration"
            self.ledger.drop("no-duration", lost - facts, where=f"packet {block.number + int(packets[0])}", text=text)
        gpu, _ = inner.last(11, 0, count)
        track, name = np.empty(count, np.int64), np.full(count, NONE, np.int32)
        members = ArgMembers(self.texts)
        queues, stages = (_pair(inner, interned, plain, count) for interned, plain in ((13, 3), (14, 4)))
        context, has_context = inner.last(5, 0, count)
        named, kernels = inner.of(17, 2), {}
        own = dict(zip(named.row.tolist(), self.texts.codes(block.data, named).tolist(), strict=True))
        for field in (20, 19):
            iids, there = inner.last(field, 0, count)
            kernels.update({row: int(iids[row]) for row in np.flatnonzero(there).tolist()})
        known: dict[tuple[int, ...], tuple[int, int, str]] = {}
        categories: list[str] = []
        for row in keep.tolist():
            packet = int(packets[row])
            key = (int(stated.state[packet]), *queues[row], *stages[row], int(gpu[row]), int(context[row]))
            if key not in known:
                pid = self._process(stated, packet, int(context[row])) if has_context[row] else -1
                queue, _ = self._described(stated, packet, queues[row], self._queues, _OLD_QUEUE)
                stage, category = self._described(stated, packet, stages[row], self._stages, _OLD_STAGE)
                code = self.tracks.gpu(int(gpu[row]), queues[row][1], queue, pid)
                known[key] = code, self.texts.code(stage), category
            track[row], name[row], category = known[key]
            name[row] = own.get(row, name[row])
            if row in kernels:
                text = stated.states[stated.state[packet]].interned.texts.get(numbers.KERNELS, {}).get(kernels[row])
                name[row] = name[row] if text is None else text
            categories.append(category)
        members.add_same(keep, "cat", arrow.array([orjson.dumps(each).decode() for each in categories], pa.string()))
        self._add_args(block, inner, members)
        args = members.column(count)
        columns = {
            "track": track,
            "ts": timed.ns[packets],
            "clock": timed.clock[packets],
            "packet": block.number + packets,
            "what": np.full(count, WHOLE),
            "name": name,
            "number": duration,
        }
        picked = {key: values[keep] for key, values in columns.items()}
        return [table(len(keep), {**picked, "args": arrow.take(args, keep)})]

    def _add_args(self, block: PacketBlock, inner: Fields, members: ArgMembers) -> None:
        for number, key in _IDS.items():
            ids = inner.of(number, 0)
            members.add_same(ids.row, key, arrow.array(ids.value).cast(pa.string()))
        extra = inner.of(6, 2)
        for row, each in zip(extra.row.tolist(), _messages(block, extra), strict=True):
            value = arrow.array([json_of(each.text(2))], pa.string())
            members.add_same(np.array([row]), each.text(1) or "extra", value)
        launches = inner.of(21, 2)
        for row, each in zip(launches.row.tolist(), _messages(block, launches), strict=True):
            for number, key in ((1, "grid"), (2, "block")):
                if number in each:
                    size = WireMessage(each.bytes(number))
                    shape = json_of([size.number(axis) or 1 for axis in (1, 2, 3)])
                    members.add_same(np.array([row]), key, arrow.array([shape], pa.string()))

    def _described(
        self, stated: Stated, packet: int, key: tuple[int, int], plain: dict[int, str], unnamed: str
    ) -> tuple[str, str]:
        """Return name and category of a queue or stage. key: whether it is interned, and its number."""
        interned, number = key
        raw = stated.raw(packet, numbers.SPECIFICATIONS, number) if interned else None
        if raw is not None:
            description = WireMessage(raw)
            return description.text(2) or unnamed.format(number), _CATEGORIES.get(description.number(4), "other")
        return plain.get(number) or unnamed.format(number), "other"

    def _process(self, stated: Stated, packet: int, context: int) -> int:
        raw = stated.raw(packet, numbers.CONTEXTS, context)
        return -1 if raw is None else WireMessage(raw).number(2)

    def _read_counters(self, block: PacketBlock, stated: Stated, timed: Timed, counters: Picked) -> list[pa.Table]:
        rows, tracks, values, first = [], [], [], []
        for row, each in zip(counters.row.tolist(), _messages(block, counters), strict=True):
            gpu = each.number(3)
            raw = stated.raw(row, numbers.COUNTER_DESCRIPTORS, each.number(4)) if 4 in each else None
            if raw is not None:
                described = WireMessage(raw)
                gpu = described.number(3)
                self._name_counters(gpu, WireMessage(described.bytes(2)))
            if 1 in each:
                self._name_counters(gpu, WireMessage(each.bytes(1)))
            began = True
            for counter in map(WireMessage, each.each(2)):
                number = counter.number(1)
                value = counter.double(3) if 3 in counter else float(counter.number(2))
                name = self._counters.get((gpu, number)) or f"counter {number}"
                rows.append(row)
                tracks.append(self.tracks.gpu_counter(gpu, name))
                values.append(value)
                first.append(began)
                began = False
            if began:
                self.ledger.facts += 1
        return [self._values(block, timed, rows, tracks, values, first)]

    def _name_counters(self, gpu: int, descriptor: WireMessage) -> None:
        for each in map(WireMessage, descriptor.each(1)):
            self._counters[gpu, each.number(1)] = each.text(2)

    def _read_memory(self, block: PacketBlock, stated: Stated, timed: Timed, picked: Picked) -> list[pa.Table]:
        del stated
        rows, tracks, values = picked.row.tolist(), [], []
        for each in _messages(block, picked):
            pid = each.number(2)
            name = f"GPU memory of process {pid}" if pid else "GPU memory"
            tracks.append(self.tracks.gpu_counter(each.number(1), name))
            values.append(float(each.number(3)))
        return [self._values(block, timed, rows, tracks, values, [True] * len(rows))]

    @staticmethod
    def _values(
        block: PacketBlock, timed: Timed, rows: list[int], tracks: list[int], values: list[float], first: list[bool]
    ) -> pa.Table:
        at = np.array(rows, np.int64)
        columns = {
            "track": np.array(tracks, np.int64),
            "ts": timed.ns[at],
            "clock": timed.clock[at],
            "packet": block.number + at,
            "what": np.full(len(at), COUNTER),
            "value": np.array(values, np.float64),
            "primary": np.array(first, np.bool_),
        }
        return table(len(at), columns)


def _messages(block: PacketBlock, picked: Picked) -> list[WireMessage]:
    return [
        WireMessage(block.data[at:end].tobytes())
        for at, end in zip(picked.at.tolist(), picked.ends.tolist(), strict=True)
    ]


def _pair(inner: Fields, interned: int, plain: int, count: int) -> list[tuple[int, int]]:
    """Return for each stage whether a name is interned, and its number."""
    iids, has = inner.last(interned, 0, count)
    ids, _ = inner.last(plain, 0, count)
    return list(zip(has.astype(np.int64).tolist(), np.where(has, iids, ids).tolist(), strict=True))

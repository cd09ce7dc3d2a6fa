"""Rows of a snapshot of PyTorch's allocator: its events in order of time, its segments and blocks, its stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import BATCH_ROWS, event_batch
from tracekit.readers.engine.pairing import OpenRanges
from tracekit.readers.printed.lines import TotalRows
from tracekit.readers.torch._snapshot_types import (
    Record,
    SnapshotStacks,
    fault_of_annotation,
    fault_of_block,
    fault_of_event,
    fault_of_segment,
    fits_json,
    identity,
    is_integer,
    plain_text,
    text_of,
    wanted,
    whole,
)
from tracekit.schema import Kind
from tracekit.trace import TIMES, Ledger, Run

_ALLOCATED = {"alloc": 1, "free_completed": -1, "free": -1}
_RESERVED = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_MARKS = ("oom", "snapshot")
_MOST = 1 << 62
_NO_TIMES = (
    "the snapshot has no times, as of PyTorch 2.1 and older: events are in their order, and when they happened is not "
    "known (PyTorch 2.2 and newer write times)"
)
_HELD = (
    "the segments at the end hold less than the trace left allocated: what was held before the first event is not "
    "known, so what is held (and its peak) is counted from the first event on, as a lower bound"
)


@dataclass(slots=True)
class _Columns:
    """Columns of EVENTS, row by row."""

    values: dict[str, list[object]] = field(
        default_factory=lambda: {
            key: []
            for key in (
                "ts_ns",
                "dur_ns",
                "event_id",
                "name",
                "raw_name",
                "kind",
                "device",
                "stream",
                "bytes",
                "args",
                "tid",
            )
        }
    )

    def __len__(self) -> int:
        return len(self.values["ts_ns"])

    def add(self, **row: object) -> None:
        for key, values in self.values.items():
            values.append(row.get(key))


class Snapshot:
    """A snapshot as `load` gives it. Whatever is not as PyTorch writes it is dropped with its reason."""

    def __init__(self, found: Record, options: ReadOptions, ledger: Ledger, run: Run) -> None:
        self.options, self.ledger, self.run = options, ledger, run
        self.seen: set[int] = set()
        segments = self._unshared(found.get("segments"))
        self.traces = [self._unshared(trace) for trace in self._unshared(found.get("device_traces"))]
        self.annotations = self._unshared(found.get("external_annotations"))
        self.blocks: list[tuple[int, object]] = []
        self.segments = [each for each in segments if self._is_segment(each)]
        self.timed = any(isinstance(each, dict) and "time_us" in each for trace in self.traces for each in trace)
        self.stacks = SnapshotStacks()
        self.facts = run.sources[0].facts
        self.facts["devices"] = len([trace for trace in self.traces if trace])
        settings = found.get("allocator_settings")
        if isinstance(settings, dict):
            self.facts["allocator_settings"] = text_of(settings, "PYTORCH_CUDA_ALLOC_CONF")

    def _unshared(self, found: object) -> list[Any]:
        """Return a list, [] for anything else. PyTorch writes no list of rows twice: another place has it for its own.

        Without this a small file would have a million segments with the same million blocks.
        """
        if not isinstance(found, list) or not found:
            return []
        if id(found) in self.seen:
            self.ledger.note("shared-list", "a list of rows that the snapshot has in two places was read once")
            return []
        self.seen.add(id(found))
        return found

    def _is_segment(self, segment: object) -> bool:
        """Return whether an object is a segment, and keep its blocks. Any other one is dropped."""
        if not isinstance(segment, dict):
            self.ledger.read += 1
            self.ledger.drop("bad-segment", text="dropped: a segment that is not one of PyTorch")
            return False
        device = segment.get("device")
        self.blocks += [(identity(device) or 0, block) for block in self._unshared(segment.get("blocks"))]
        return not self._has_fault("segment", fault_of_segment(segment))

    def _has_fault(self, what: str, key: str) -> bool:
        """Drop a record where a field has not its type. key: of the field, "" for a good record."""
        if key:
            self.ledger.read += 1
            text = f"dropped: {'an' if what[0] in 'ae' else 'a'} {what} whose {key} is not {wanted(key)}"
            self.ledger.drop(f"bad-{what}-{key.replace('_', '-')}", text=text)
        return bool(key)

    def events(self) -> Iterator[pa.RecordBatch]:
        """Yield the events of all devices and the annotations, by start."""
        rows: list[tuple[int, int, Record]] = []
        for device, trace in enumerate(self.traces):
            for record in trace:
                if not isinstance(record, dict) or not isinstance(record.get("action"), str):
                    self.ledger.read += 1
                    self.ledger.drop("bad-event", text="dropped: an event without an action")
                elif self.timed and record.get("time_us") is None:
                    self.ledger.read += 1
                    self.ledger.drop("bad-event-time-us", text="dropped: an event without a time")
                elif not self._has_fault("event", fault_of_event(record)):
                    self.ledger.read += 1
                    record["size"] = whole(record.get("size"))
                    rows.append((record["time_us"] if self.timed else 0, device, record))
        ranges = list(self._ranges())
        rows.sort(key=lambda row: row[0])
        starts = [time for time, _, _ in rows[:1] if self.timed] + [time for time, *_ in ranges]
        starts = starts or [0 for _ in rows[:1]]
        if not starts:
            return
        origin = min(starts)
        if self.timed or ranges:
            self.run.origin_ns = origin * 1000
        if rows and not self.timed:
            self.run.sources[0].synthetic_time = True
            self.facts[TIMES] = "not known: PyTorch 2.1 and older write none into a snapshot"
            self.ledger.note("no-times", _NO_TIMES)
            rows = [(origin, device, record) for _, device, record in rows]
        completed = {device for _, device, record in rows if record["action"] == "free_completed"}
        held = self._before_the_first(rows, completed)
        columns = _Columns()
        waiting: dict[tuple[int, object], list[int]] = {}
        owners: dict[tuple[int, object], str] = {}
        ranges.sort(key=lambda each: each[0])
        at = 0
        for number, (time, device, record) in enumerate(rows):
            while at < len(ranges) and ranges[at][0] <= time:
                self._add_range(columns, ranges[at], origin)
                at += 1
            self._event(columns, number, time - origin, device, record, held, completed, waiting, owners)
            if len(columns) >= BATCH_ROWS:
                yield self._batch(columns)
                columns = _Columns()
        for each in ranges[at:]:
            self._add_range(columns, each, origin)
        pending = sum(map(len, waiting.values()))
        self.ledger.ignore("frees that were not completed", pending)
        if pending:
            why = "memory whose free was requested is still held: the trace ends before these frees are completed"
            self.ledger.note("frees-not-completed", why, pending)
        if len(columns):
            yield self._batch(columns)

    def _batch(self, columns: _Columns) -> pa.RecordBatch:
        count = len(columns)
        self.ledger.events_out += count
        kinds = {
            "ts_ns": pa.int64(),
            "dur_ns": pa.int64(),
            "event_id": pa.int64(),
            "device": pa.int32(),
            "stream": pa.int64(),
        }
        arrays: dict[str, Any] = {
            key: pa.array(values, kinds.get(key, pa.int64() if key in ("bytes", "tid") else pa.string()))
            for key, values in columns.values.items()
        }
        return event_batch(count, arrays | {"source": self.options.source, "pid": 0})

    def _before_the_first(self, rows: list[tuple[int, int, Record]], completed: set[int]) -> dict[tuple[int, str], int]:
        """Return the bytes that were held before the first event, by device and type, from those at the end."""
        held: dict[tuple[int, str], int] = {}
        for segment in self.segments:
            device = segment.get("device")
            if is_integer(device):
                asked = segment.get("requested_size", segment.get("active_size", segment.get("allocated_size")))
                for name, size in (("allocated", asked), ("reserved", segment.get("total_size"))):
                    held[device, name] = held.get((device, name), 0) + whole(size)
        change: dict[tuple[int, str], int] = {}
        least: dict[tuple[int, str], int] = {}
        for _, device, record in rows:
            name, sign = _meaning(record["action"], requested=device not in completed)
            if sign:
                key = device, name
                change[key] = change.get(key, 0) + sign * record["size"]
                least[key] = min(least.get(key, 0), change[key])
        for key, gained in change.items():
            held[key] = held.get(key, 0) - gained
            if held[key] < -least[key]:
                # The segments are of another moment, or of another pool, than the trace.
                held[key] = -least[key]
                self.ledger.note("held-unknown", _HELD)
        return held

    def _event(
        self,
        columns: _Columns,
        number: int,
        after_us: int,
        device: int,
        record: Record,
        held: dict[tuple[int, str], int],
        completed: set[int],
        waiting: dict[tuple[int, object], list[int]],
        owners: dict[tuple[int, object], str],
    ) -> None:
        action, size, address = record["action"], record["size"], record.get("addr")
        name, sign = _meaning(action, requested=device not in completed)
        place = (device, address)
        args: dict[str, object] = {} if address is None else {"addr": address}
        if action == "free_requested" and device in completed:
            waiting.setdefault(place, []).append(record.get("time_us", 0))
            return
        common = {
            "ts_ns": after_us * 1000,
            "event_id": number,
            "device": device,
            "stream": identity(record.get("stream")),
            "tid": device,
        }
        self.ledger.kept += 1
        if not sign:
            kind = Kind.MARK if action in _MARKS else Kind.OTHER
            if kind is Kind.OTHER:
                self.ledger.note("unknown-action", "an action of the allocator that is not known was kept as it is")
            args |= {key: record[key] for key in ("size", "device_free") if fits_json(record.get(key))}
            columns.add(**common, name=plain_text(action), kind=str(kind), args=orjson.dumps(args).decode())
            return
        held[device, name] = held.get((device, name), 0) + sign * size
        if -_MOST < held[device, name] < _MOST:
            args[f"current_{name}"] = held[device, name]
        if name == "allocated":
            self._own(args, record, action, place, device, owners)
            if requests := waiting.get(place):
                requested = requests.pop(0)
                args |= {"requested_us": requested} if self.timed else {}
                self.ledger.merged += 1
                if not requests:
                    del waiting[place]
        columns.add(
            **common,
            name=name,
            raw_name=action,
            kind=str(Kind.MEMORY),
            bytes=sign * size,
            args=orjson.dumps(args).decode(),
        )

    def _own(
        self,
        args: dict[str, object],
        record: Record,
        action: str,
        place: tuple[int, object],
        device: int,
        owners: dict[tuple[int, object], str],
    ) -> None:
        """Note who allocated: an allocation by its own stack, a free by that of its allocation."""
        if action == "alloc":
            stack = self.stacks.of(record.get("frames"))
            if stack is None:
                owners.pop(place, None)
                return
            stack.calls, stack.size, stack.device = stack.calls + 1, stack.size + record["size"], device
            args["alloc_in"] = owners[place] = stack.line
        elif (owner := owners.pop(place, None)) is not None:
            args["alloc_in"] = owner

    def _ranges(self) -> Iterator[tuple[int, int, int, str]]:
        """Yield start and end in us, device and name of each annotation."""
        opened = OpenRanges[tuple[int, str], int]()
        last = 0
        for each in self.annotations:
            if not isinstance(each, dict) or each.get("time_us") is None:
                self.ledger.read += 1
                self.ledger.drop("bad-annotation", text="dropped: an annotation without a time")
                continue
            if self._has_fault("annotation", fault_of_annotation(each)):
                continue
            self.ledger.read += 1
            key = (identity(each.get("device")) or 0, text_of(each, "name"))
            last = max(last, each["time_us"])
            if each.get("stage") == "START":
                opened.begin(key, each["time_us"])
            elif (start := opened.end(key)) is not None:
                self.ledger.kept += 1
                self.ledger.merged += 1
                yield start, max(each["time_us"], start), *key
            else:
                self.ledger.drop("annotation-without-start", text="dropped: the end of an annotation without a start")
        for key, start in opened.left():
            self.ledger.kept += 1
            self.ledger.note("annotation-open", "annotations without an end: shown up to the last annotation")
            yield start, max(last, start), *key

    def _add_range(self, columns: _Columns, each: tuple[int, int, int, str], origin: int) -> None:
        start, end, device, name = each
        columns.add(
            ts_ns=(start - origin) * 1000,
            dur_ns=(end - start) * 1000,
            event_id=len(columns),
            name=name,
            kind=str(Kind.USER_RANGE),
            tid=device,
        )

    def totals(self) -> Iterator[pa.RecordBatch]:
        """Yield segments by type, blocks by state, and allocations by stack."""
        rows = TotalRows(self.options.source, self.ledger)
        segments: dict[tuple[int, str], list[int]] = {}
        blocks: dict[tuple[int, str], list[int]] = {}
        for segment in self.segments:
            name = f"{text_of(segment, 'segment_type', 'unknown')} segments"
            self._count(segments, (identity(segment.get("device")) or 0, name), segment, "total_size")
        for device, block in self.blocks:
            if not isinstance(block, dict):
                self.ledger.read += 1
                self.ledger.drop("bad-block", text="dropped: a block that is not one of PyTorch")
            elif not self._has_fault("block", fault_of_block(block)):
                self._count(blocks, (device, f"{text_of(block, 'state', 'unknown')} blocks"), block, "size")
        if self.stacks.faults:
            why = "frames of stacks with other types than text and integer are not shown"
            self.ledger.note("bad-frame", why, self.stacks.faults)
        for section, found in (("segments", segments), ("blocks", blocks)):
            for (device, name), (count, size, asked) in found.items():
                args = {"place": f"GPU {device}", "requested_bytes": asked}
                rows.add(0, section, name, str(Kind.MEMORY), args, device=device, calls=count, bytes=size)
        for stack in self.stacks.all():
            if stack.calls:
                args = {"place": f"GPU {stack.device}", "frames": stack.frames}
                rows.add(
                    0,
                    "allocations by stack",
                    stack.line,
                    str(Kind.MEMORY),
                    args,
                    device=stack.device,
                    calls=stack.calls,
                    bytes=min(stack.size, _MOST),
                )
            yield from rows.take()
        yield from rows.take(everything=True)

    def _count(self, found: dict[tuple[int, str], list[int]], key: tuple[int, str], record: Record, size: str) -> None:
        self.ledger.read += 1
        self.ledger.kept += 1
        sums = found.setdefault(key, [0, 0, 0])
        sums[0] += 1
        for place, name in ((1, size), (2, "requested_size")):
            sums[place] = min(sums[place] + whole(record.get(name)), _MOST)


def _meaning(action: str, *, requested: bool) -> tuple[str, int]:
    """Return the type of memory that an action changes, and the sign; 0 for none."""
    if action in _RESERVED:
        return "reserved", _RESERVED[action]
    if action == "free_requested":
        return "allocated", -1 if requested else 0
    return "allocated", _ALLOCATED.get(action, 0)

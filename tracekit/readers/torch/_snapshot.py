"""Rows of a snapshot of PyTorch's allocator: its events in order of time, its segments and blocks, its stacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import BATCH_ROWS, event_batch
from tracekit.readers.printed.lines import TotalRows
from tracekit.schema import Kind
from tracekit.trace import Ledger, Run

_ALLOCATED = {"alloc": 1, "free_completed": -1, "free": -1}
_RESERVED = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_MARKS = ("oom", "snapshot")
_OPERATORS = ("at::_ops::", "torch::autograd::generated::", "torch::autograd::")
"""Beginnings of the names of C++ functions that say what allocated, where no line of Python does."""
_MOST = 1 << 62
_MOST_FRAMES = 200
_MOST_TEXT = 2000

Record = dict[str, Any]


@dataclass(slots=True)
class _Stack:
    """One stack. line: the innermost line of Python outside of PyTorch. frames: the outermost first."""

    line: str
    frames: list[str]
    calls: int = 0
    size: int = 0
    device: int = 0


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
        self.segments = [each for each in _list(found.get("segments")) if isinstance(each, dict)]
        self.annotations = _list(found.get("external_annotations"))
        self.traces = _list(found.get("device_traces"))
        self.stacks: dict[tuple[str, ...], _Stack] = {}
        self.known: dict[int, _Stack] = {}
        self.facts = run.sources[0].facts
        self.facts["devices"] = len([trace for trace in self.traces if trace])
        settings = found.get("allocator_settings")
        if isinstance(settings, dict):
            self.facts["allocator_settings"] = _text(str(settings.get("PYTORCH_CUDA_ALLOC_CONF", "")))
        odd = len(_list(found.get("segments"))) - len(self.segments)
        ledger.read += odd
        ledger.drop("bad-segment", odd, text="dropped: a segment that is not one of PyTorch")

    def events(self) -> Iterator[pa.RecordBatch]:
        """Yield the events of all devices and the annotations, by start."""
        rows: list[tuple[int, int, Record]] = []
        for device, trace in enumerate(self.traces):
            for record in _list(trace):
                self.ledger.read += 1
                if not _is_event(record):
                    self.ledger.drop("bad-event", text="dropped: an event without action, size or time")
                    continue
                rows.append((record["time_us"], device, record))
        ranges = list(self._ranges())
        rows.sort(key=lambda row: row[0])
        starts = [time for time, _, _ in rows[:1]] + [time for time, *_ in ranges]
        if not starts:
            return
        origin = min(starts)
        self.run.origin_ns = origin * 1000
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
            if isinstance(device, int):
                wanted = segment.get("requested_size", segment.get("active_size", segment.get("allocated_size")))
                for name, size in (("allocated", wanted), ("reserved", segment.get("total_size"))):
                    held[device, name] = held.get((device, name), 0) + _whole(size)
        for _, device, record in rows:
            name, sign = _meaning(record["action"], requested=device not in completed)
            if sign:
                held[device, name] = held.get((device, name), 0) - sign * record["size"]
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
        args: dict[str, object] = {"addr": address} if isinstance(address, int) else {}
        if action == "free_requested" and device in completed:
            waiting.setdefault(place, []).append(record["time_us"])
            return
        common = {
            "ts_ns": after_us * 1000,
            "event_id": number,
            "device": device,
            "stream": _id(record.get("stream")),
            "tid": device,
        }
        self.ledger.kept += 1
        if not sign:
            kind = Kind.MARK if action in _MARKS else Kind.OTHER
            if kind is Kind.OTHER:
                self.ledger.note("unknown-action", "an action of the allocator that is not known was kept as it is")
            args |= {key: record[key] for key in ("size", "device_free") if isinstance(record.get(key), int)}
            columns.add(**common, name=_text(action), kind=str(kind), args=orjson.dumps(args).decode())
            return
        held[device, name] = held.get((device, name), 0) + sign * size
        if -_MOST < held[device, name] < _MOST:
            args[f"current_{name}"] = held[device, name]
        if name == "allocated":
            self._own(args, record, action, place, device, owners)
            if requests := waiting.get(place):
                args["requested_us"] = requests.pop(0)
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
            stack = self._stack(record.get("frames"))
            if stack is None:
                owners.pop(place, None)
                return
            stack.calls, stack.size, stack.device = stack.calls + 1, stack.size + record["size"], device
            args["alloc_in"] = owners[place] = stack.line
        elif (owner := owners.pop(place, None)) is not None:
            args["alloc_in"] = owner

    def _stack(self, frames: object) -> _Stack | None:
        if not isinstance(frames, list) or not frames:
            return None
        if (known := self.known.get(id(frames))) is not None:
            return known
        each = [frame for frame in frames[:_MOST_FRAMES] if isinstance(frame, dict)]
        python = [frame for frame in each if str(frame.get("filename", "")).endswith(".py")]
        outside = [frame for frame in python if "/torch/" not in str(frame.get("filename"))]
        shown = python or each
        if not shown:
            return None
        texts = [_frame(frame) for frame in shown]
        key = tuple(texts)
        stack = self.stacks.get(key)
        if stack is None:
            native = [frame for frame in each if str(frame.get("name", "")).startswith(_OPERATORS)]
            line = _frame((outside or python or native or each)[0])
            stack = self.stacks[key] = _Stack(line, texts[::-1])
        self.known[id(frames)] = stack
        return stack

    def _ranges(self) -> Iterator[tuple[int, int, int, str]]:
        """Yield start and end in us, device and name of each annotation."""
        opened: dict[tuple[int, str], list[int]] = {}
        last = 0
        for each in self.annotations:
            self.ledger.read += 1
            if not isinstance(each, dict) or not _is_time(each.get("time_us")):
                self.ledger.drop("bad-annotation", text="dropped: an annotation without a time")
                continue
            device = each.get("device")
            key = (device if isinstance(device, int) and 0 <= device < 1 << 31 else 0, _text(str(each.get("name", ""))))
            last = max(last, each["time_us"])
            if each.get("stage") == "START":
                opened.setdefault(key, []).append(each["time_us"])
            elif starts := opened.get(key):
                start = starts.pop()
                self.ledger.kept += 1
                self.ledger.merged += 1
                yield start, max(each["time_us"], start), *key
            else:
                self.ledger.drop("annotation-without-start", text="dropped: the end of an annotation without a start")
        left = [(start, key) for key, starts in opened.items() for start in starts]
        for start, key in left:
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
            device = _id(segment.get("device")) or 0
            self._count(
                segments,
                (device, f"{_text(str(segment.get('segment_type', 'unknown')))} segments"),
                segment,
                "total_size",
            )
            for block in _list(segment.get("blocks")):
                if isinstance(block, dict):
                    self._count(blocks, (device, f"{_text(str(block.get('state', 'unknown')))} blocks"), block, "size")
                else:
                    self.ledger.read += 1
                    self.ledger.drop("bad-block", text="dropped: a block that is not one of PyTorch")
        for section, found in (("segments", segments), ("blocks", blocks)):
            for (device, name), (count, size, asked) in found.items():
                args = {"place": f"GPU {device}", "requested_bytes": asked}
                rows.add(0, section, name, str(Kind.MEMORY), args, device=device, calls=count, bytes=size)
        for stack in self.stacks.values():
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
                    bytes=stack.size,
                )
            yield from rows.take()
        yield from rows.take(everything=True)

    def _count(self, found: dict[tuple[int, str], list[int]], key: tuple[int, str], record: Record, size: str) -> None:
        self.ledger.read += 1
        self.ledger.kept += 1
        sums = found.setdefault(key, [0, 0, 0])
        sums[0] += 1
        for place, name in ((1, size), (2, "requested_size")):
            sums[place] = min(sums[place] + _whole(record.get(name)), _MOST)


def _meaning(action: str, *, requested: bool) -> tuple[str, int]:
    """Return the type of memory that an action changes, and the sign; 0 for none."""
    if action in _RESERVED:
        return "reserved", _RESERVED[action]
    if action == "free_requested":
        return "allocated", -1 if requested else 0
    return "allocated", _ALLOCATED.get(action, 0)


def _is_event(record: object) -> bool:
    if not isinstance(record, dict) or not isinstance(record.get("action"), str):
        return False
    size = record.get("size", 0)
    record.setdefault("size", 0)
    return isinstance(size, int) and 0 <= size < _MOST >> 20 and _is_time(record.get("time_us"))


def _is_time(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _MOST // 1000


def _list(found: object) -> list[Any]:
    return found if isinstance(found, list) else []


def _whole(found: object) -> int:
    return found if isinstance(found, int) and 0 <= found < _MOST >> 20 else 0


def _id(found: object) -> int | None:
    return found if isinstance(found, int) and 0 <= found < 1 << 31 else None


def _text(found: str) -> str:
    """Return a text that is UTF-8: halves of characters stay as their escapes."""
    return found[:_MOST_TEXT].encode("utf-8", "backslashreplace").decode()


def _frame(frame: Mapping[str, object]) -> str:
    name, file, line = (_text(str(frame.get(key, "?"))) for key in ("name", "filename", "line"))
    return f"{'/'.join(file.split('/')[-2:])}:{line} {name}" if file != "??" else name

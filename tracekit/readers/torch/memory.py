"""torch-memory: snapshots of PyTorch's CUDA allocator, `torch.cuda.memory._dump_snapshot()` (PyTorch 2.0 to 2.13).

    {"segments": [{"device": 0, "address": 126968225857536, "total_size": 20971520, "blocks": [...], ...}],
     "device_traces": [[{"action": "alloc", "addr": 126972587876352, "size": 512, "time_us": 1773270053858957,
                         "frames": [{"name": "forward", "filename": "model.py", "line": 12}, ...]}, ...]], ...}

A record is an event of a device's trace, a segment, a block of a segment, or an external annotation. The file is a
pickle, which is a program: only plain containers are built, and a file that could run code is refused.

Events of kind memory: `allocated` (alloc, free_completed) and `reserved` (segment_alloc, segment_map, segment_free,
segment_unmap), with signed `bytes`. A free is one row, at free_completed; its free_requested is merged into it
(`requested_us` in `args`), or is the free itself where the trace has no free_completed. `current_allocated` and
`current_reserved` are what was held after the row: counted back from the segments at the end, so that memory from
before the first event is in them. Sizes of `allocated` are the requested ones. `alloc_in` is the line of Python that
allocated, the innermost outside of PyTorch; a free has that of its allocation. `phase` of an allocation is what its
stack shows: optimizer (a frame of torch/optim), backward (autograd's engine), recompute (a checkpoint in a backward
pass) or forward (a call of a module). oom and snapshot are marks.
Times are Unix us, exact. Snapshots of PyTorch up to 2.1 have none: events are in their order, and no view uses their
times. External annotations are ranges. Only texts and integers are taken for texts and integers: a field of another
type costs its record, and a frame of another type is not shown. Where the segments hold less than the trace left
allocated, what is held is counted from the first event on.

TOTALS: `segments` by type and `blocks` by state, as they were when the snapshot was taken; `allocations by stack`: how
often and how many bytes each stack of Python allocated in the trace (`frames` in `args`, the outermost first).
Not supported: the frames of C++ where there are frames of Python; the layout of blocks within a segment.
Sources: snapshots of PyTorch 2.9 and 2.10; torch/cuda/_memory_viz.py and torch/cuda/memory.py of 2.13.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeGuard

import orjson
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.model.trace import TIMES, Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import BATCH_ROWS, event_batch
from tracekit.readers.engine.pairing import OpenRanges
from tracekit.readers.head import Head
from tracekit.readers.printed.lines import TotalRows
from tracekit.readers.source import Source
from tracekit.readers.torch._plain_pickle import NotPlain, load

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_PROTOCOLS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_KEYS = (b"segments", b"device_traces")
_INNER = (b"total_size", b"allocated_size", b"device_traces", b"time_us")
_NEAR = 200


def sniff(head: Head) -> Confidence:
    """Return YES for a pickle whose first keys are those of a snapshot."""
    data = head.data
    if not data.startswith(_PROTOCOLS) or not any(key in data[:_NEAR] for key in _KEYS):
        return Confidence.NO
    return Confidence.YES if any(key in data for key in _INNER) else Confidence.NO


# Types of the fields in a snapshot of PyTorch's allocator: only texts and integers are taken for texts and integers.
#
# A pickle may hold anything anywhere: a list in the place of a name, a truth value in the place of a stream, a list
# that holds itself. So each field is compared with its type before anything else is done with it. `str()` of a nested
# object might never end.


Record = dict[str, Any]

MOST_BYTES = 1 << 42
"""No allocation is as large."""
_MOST_US = (1 << 62) // 1000
_MOST_WORD = 1 << 64
"""Addresses, handles of streams and pools have 64 bits."""
_MOST_TEXT = 2000
_MOST_FRAMES = 200
_MOST_OF_STACK = 1 << 17
"""Characters of the frames of a stack. Those behind them are not shown."""
_OPERATORS = ("at::_ops::", "torch::autograd::generated::", "torch::autograd::")
"""Beginnings of the names of C++ functions that say what allocated, where no line of Python does."""
_UNSIGNED = {
    **dict.fromkeys(("size", "total_size", "allocated_size", "active_size", "requested_size"), MOST_BYTES),
    "time_us": _MOST_US,
    "addr": _MOST_WORD,
}
_SIGNED = ("stream", "device", "device_free")
_TEXTS = ("action", "segment_type", "state", "name", "stage")
_LISTS = ("frames", "blocks")
_EVENT = ("action", "size", "time_us", "addr", "stream", "device_free", "frames")
_SEGMENT = ("device", "total_size", "requested_size", "active_size", "allocated_size", "segment_type", "blocks")
_BLOCK = ("state", "size", "requested_size")
_ANNOTATION = ("name", "stage", "device", "time_us")


def is_integer(value: object) -> TypeGuard[int]:
    """Return whether an object is an integer; a truth value is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def fits_json(value: object) -> bool:
    """Return whether an object is an integer that the writer of JSON takes."""
    return is_integer(value) and -(1 << 62) < value < 1 << 62


def whole(value: object) -> int:
    """Return an integer, 0 for anything else."""
    return value if is_integer(value) else 0


def identity(value: object) -> int | None:
    """Return the number of a device or stream, None for anything else."""
    return value if is_integer(value) and 0 <= value < 1 << 31 else None


def _fault(record: Mapping[str, object], keys: tuple[str, ...]) -> str:
    """Return the key of the first field that has not its type, "" for none. A missing field, or None, is no fault."""
    for key in keys:
        value = record.get(key)
        if value is None:
            continue
        if key in _UNSIGNED:
            good = is_integer(value) and 0 <= value < _UNSIGNED[key]
        elif key in _SIGNED:
            good = is_integer(value)
        else:
            good = isinstance(value, str if key in _TEXTS else list)
        if not good:
            return key
    return ""


def fault_of_event(record: Record) -> str:
    """Return the key of the field of an event that has not its type, "" for none."""
    return _fault(record, _EVENT)


def fault_of_segment(record: Record) -> str:
    """Return the key of the field of a segment that has not its type, "" for none."""
    return _fault(record, _SEGMENT)


def fault_of_block(record: Record) -> str:
    """Return the key of the field of a block that has not its type, "" for none."""
    return _fault(record, _BLOCK)


def fault_of_annotation(record: Record) -> str:
    """Return the key of the field of an annotation that has not its type, "" for none."""
    return _fault(record, _ANNOTATION)


def wanted(key: str) -> str:
    """Return the type of a field in words."""
    if key in _UNSIGNED or key in _SIGNED:
        return "an integer of its size" if key in _UNSIGNED else "an integer"
    return "a text" if key in _TEXTS else "a list"


def plain_text(text: str) -> str:
    """Return a text that is UTF-8: halves of characters stay as their escapes."""
    return text[:_MOST_TEXT].encode("utf-8", "backslashreplace").decode()


def text_of(record: Mapping[str, object], key: str, default: str = "") -> str:
    """Return the text of a field; the default for a missing one, or for another type."""
    text = record.get(key)
    return plain_text(text) if isinstance(text, str) else default


@dataclass(slots=True)
class SnapshotStack:
    """One stack. line: the innermost line of Python outside of PyTorch. frames: the outermost first."""

    line: str
    frames: list[str]
    calls: int = 0
    size: int = 0
    device: int = 0


@dataclass(slots=True)
class SnapshotStacks:
    """Stacks and their frames as texts. A snapshot has one list of frames at many events, one frame in many lists.

    faults: how many frames had another type than text and integer somewhere.
    """

    faults: int = 0
    _stacks: dict[tuple[str, ...], SnapshotStack] = field(default_factory=dict)
    _known: dict[int, SnapshotStack | None] = field(default_factory=dict)
    _frames: dict[tuple[str, str, int | str], str] = field(default_factory=dict)
    _phases: dict[int, str] = field(default_factory=dict)

    def phase(self, frames: object) -> str:
        """Return the phase of training that a list of frames shows, "" for none."""
        if not isinstance(frames, list) or not frames:
            return ""
        if id(frames) not in self._phases:
            self._phases[id(frames)] = _phase(
                [f for f in frames[:_MOST_FRAMES] if isinstance(f, dict) and _is_frame(f)]
            )
        return self._phases[id(frames)]

    def all(self) -> Iterable[SnapshotStack]:
        """Return the stacks in order of their first event."""
        return self._stacks.values()

    def of(self, frames: object) -> SnapshotStack | None:
        """Return the stack of a list of frames, None without one."""
        if not isinstance(frames, list) or not frames:
            return None
        if id(frames) not in self._known:
            self._known[id(frames)] = self._made(frames[:_MOST_FRAMES])
        return self._known[id(frames)]

    def _made(self, frames: list[Any]) -> SnapshotStack | None:
        each = [frame for frame in frames if isinstance(frame, dict) and _is_frame(frame)]
        self.faults += len(frames) - len(each)
        python = [frame for frame in each if frame.get("filename", "").endswith(".py")]
        outside = [frame for frame in python if "/torch/" not in frame["filename"]]
        shown = python or each
        if not shown:
            return None
        texts = [self._text(frame) for frame in shown]
        ends = accumulate(map(len, texts))
        key = tuple(text for text, end in zip(texts, ends, strict=True) if end <= _MOST_OF_STACK)
        if key not in self._stacks:
            native = [frame for frame in each if frame.get("name", "").startswith(_OPERATORS)]
            line = self._text((outside or python or native or each)[0])
            self._stacks[key] = SnapshotStack(line, list(key[::-1]))
        return self._stacks[key]

    def _text(self, frame: Record) -> str:
        """Return a frame in one line: `model.py:12 forward`, the function alone where no file is known."""
        name, file, line = frame.get("name", "?"), frame.get("filename", "?"), frame.get("line", "?")
        known = self._frames.get((name, file, line))
        if known is None:
            function, path = plain_text(name), plain_text(file)
            known = f"{'/'.join(path.split('/')[-2:])}:{line} {function}" if path != "??" else function
            self._frames[name, file, line] = known
        return known


def _phase(frames: list[Record]) -> str:
    """Return the phase that frames show, "" for none. An optimizer counts before all that is around it."""
    files = [(frame.get("filename", "").replace("\\", "/"), frame.get("name", "")) for frame in frames]
    if any("/torch/optim/" in file for file, _ in files):
        return "optimizer"
    in_engine = any(name.startswith(_ENGINE) for _, name in files)
    if in_engine or any("/torch/autograd/" in file and name in _ENGINE_CALLS for file, name in files):
        again = any(file.endswith("/torch/utils/checkpoint.py") and name == _AGAIN for file, name in files)
        return "recompute" if again else "backward"
    return "forward" if any(file.endswith("/torch/nn/modules/module.py") for file, _ in files) else ""


_ENGINE = "torch::autograd::Engine::"
_ENGINE_CALLS = ("_engine_run_backward", "backward", "grad")
_AGAIN = "recompute_fn"


def _is_frame(frame: Record) -> bool:
    line = frame.get("line", 0)
    return (
        isinstance(frame.get("name", ""), str)
        and isinstance(frame.get("filename", ""), str)
        and is_integer(line)
        and -_MOST_WORD < line < _MOST_WORD
    )


# Rows of a snapshot of PyTorch's allocator: its events in order of time, its segments and blocks, its stacks.


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

    def __init__(self, snapshot: Record, options: ReadOptions, ledger: Ledger, run: Run) -> None:
        self.options, self.ledger, self.run = options, ledger, run
        self.seen: set[int] = set()
        segments = self._unshared(snapshot.get("segments"))
        self.traces = [self._unshared(trace) for trace in self._unshared(snapshot.get("device_traces"))]
        self.annotations = self._unshared(snapshot.get("external_annotations"))
        self.blocks: list[tuple[int, object]] = []
        self.segments = [each for each in segments if self._is_segment(each)]
        self.timed = any(isinstance(each, dict) and "time_us" in each for trace in self.traces for each in trace)
        self.stacks = SnapshotStacks()
        self.facts = run.sources[0].facts
        self.facts["devices"] = len([trace for trace in self.traces if trace])
        settings = snapshot.get("allocator_settings")
        if isinstance(settings, dict):
            self.facts["allocator_settings"] = text_of(settings, "PYTORCH_CUDA_ALLOC_CONF")

    def _unshared(self, objects: object) -> list[Any]:
        """Return a list, [] for anything else. PyTorch writes no list of rows twice: another place has it for its own.

        Without this a small file would have a million segments with the same million blocks.
        """
        if not isinstance(objects, list) or not objects:
            return []
        if id(objects) in self.seen:
            self.ledger.note("shared-list", "a list of rows that the snapshot has in two places was read once")
            return []
        self.seen.add(id(objects))
        return objects

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
            if phase := self.stacks.phase(record.get("frames")):
                args["phase"] = phase
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
        for section, sums_by_name in (("segments", segments), ("blocks", blocks)):
            for (device, name), (count, size, asked) in sums_by_name.items():
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

    def _count(
        self, sums_by_name: dict[tuple[int, str], list[int]], key: tuple[int, str], record: Record, size: str
    ) -> None:
        self.ledger.read += 1
        self.ledger.kept += 1
        sums = sums_by_name.setdefault(key, [0, 0, 0])
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


# Reads a snapshot of PyTorch's allocator: the pickle, then the rows made of it.


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return events and totals. Raises: ParseError for a pickle of anything else."""
    try:
        snapshot = load(source.read_whole())
    except NotPlain as err:
        raise ParseError(
            source.name, "", f"not read: {err}", hint="make it again: torch.cuda.memory._dump_snapshot(FILE)"
        ) from err
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("device_traces", snapshot.get("segments")), list):
        raise ParseError(source.name, "", "a pickle without segments and device_traces: not a snapshot of PyTorch")
    run = Run(sources=[SourceFacts(source.name, "torch-memory", facts={"tool": "torch.cuda.memory"})])
    return ReadResult(run, _batches(Snapshot(snapshot, options, ledger, run)), True, (ledger,))


def _batches(snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
    yield from snapshot.events()
    yield from snapshot.totals()

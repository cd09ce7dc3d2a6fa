"""fluid-pb: the profile of Paddle's older profiler (profiler.proto), for tools/timeline.py and what else reads it.

    Profile { events { name: "conv2d" start_ns: ... end_ns: ... device_id: 0 sub_device_id: 4 type: CPU } ... }

Each range of the host becomes an event of type CPU, its thread in sub_device_id; calls of the CUDA API have device_id
-1, as timeline.py wants them. Kernels, copies and memsets are of type GPUKernel, with device and stream. The message
knows no process, no correlation, no launch shape: these are told in the notes. An allocation and its free, joined by
`allocation` or `addr` of their `args`, become one MemEvent; what is never freed ends with the last time of the trace.
Times are Unix ns, of the trace's own zero where it does not know the clock.
Source of the layout: profiler.proto as files of 1.8.5 and 2.6.2 have it, tools/timeline.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tracekit import schema
from tracekit.messages import EVENT_TYPES, PLACES, delimited, messages, varint
from tracekit.schema import DEVICE_WORK, Kind
from tracekit.writers.base import Stream, WriteOptions, Writer, Written, new_file

_COLUMNS = (
    "ts_ns", "dur_ns", "name", "kind", "source", "pid", "tid", "device", "stream", "bytes", "args",
)  # fmt: skip
_NO_PLACE = ("rank", "context", "correlation", "step", "grid_x", "registers", "value")
_LEFT = (Kind.COUNTER, Kind.MARK, Kind.FLOW)
_API = (Kind.RUNTIME, Kind.DRIVER)
_MAX = (1 << 63) - 1


@dataclass(slots=True)
class _State:
    """What the one pass keeps: the range of time, allocations not yet freed, what has no place."""

    written: Written
    origin: int
    first: int | None = None
    last: int = 0
    live: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    processes: set[tuple[int, int | None]] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.classes = messages("profile")

    classes: dict[str, Any] = field(init=False)

    def saw(self, start: int, end: int) -> None:
        self.first = start if self.first is None else min(self.first, start)
        self.last = max(self.last, end)


def _write(stream: Stream, target: Path, options: WriteOptions) -> Written:
    written = Written(target)
    state: _State | None = None
    with new_file(target, force=options.force) as out:
        for batch in stream.batches:
            state = state or _State(written, stream.run.origin_ns or 0)
            if schema.is_totals(batch):
                written.leave_out("totals have no place in a profile", batch.num_rows)
                continue
            _batch(out, batch, state)
        state = state or _State(written, 0)
        held = list(state.live.values())
        for message in held:
            message.end_ns = state.last
            out.write(delimited(4, message.SerializeToString()))
            written.events += 1
        first = state.first or 0
        out.write(varint(2 << 3) + varint(first) + varint(3 << 3) + varint(state.last))
    _tell(state, stream, len(held))
    return written


def _batch(out: BinaryIO, batch: pa.RecordBatch, state: _State) -> None:
    for name in _NO_PLACE:
        if batch.column(name).null_count < batch.num_rows:
            state.lost.add({"grid_x": "launch shape"}.get(name, name))
    columns = [batch.column(name) for name in _COLUMNS]
    lists = [pc.cast(c, pa.string()).to_pylist() if pa.types.is_dictionary(c.type) else c.to_pylist() for c in columns]
    pieces: list[bytes] = []
    for ts, dur, name, kind, source, pid, tid, device, stream, size, args in zip(*lists, strict=True):
        start = ts + state.origin
        if kind in _LEFT:
            state.written.leave_out(f"kind {kind}")
        elif not 0 <= start <= _MAX:
            state.written.leave_out("starts before the clock's zero")
        elif kind == Kind.MEMORY:
            _memory(pieces, state, (start, name or "", source, pid, tid, device, size, args))
        elif dur is None or dur < 0:
            state.written.leave_out("no duration" if dur is None else "negative duration")
        else:
            event = state.classes["Event"](name=(name or "").encode(), start_ns=start, end_ns=start + dur)
            members = _object(args)
            if kind in DEVICE_WORK:
                event.type = 2 if members.get("type") == EVENT_TYPES.index("NPUKernel") else 1
                if device is not None:
                    event.device_id = device
                if stream is not None:
                    event.sub_device_id = stream
                if size is not None:
                    event.memcopy.bytes = max(size, 0)
                if isinstance(operator := members.get("operator"), str):
                    event.name, event.detail_info = operator.encode(), event.name
            else:
                block = members.get("block")
                event.type = 0
                event.device_id = -1 if kind in _API else block if _is_int(block, 31) else 0
                if tid is not None:
                    event.sub_device_id = tid
            detail = members.get("detail_info")
            if isinstance(detail, str) and not event.detail_info:
                event.detail_info = detail.encode()
            if members.keys() - {"block", "detail_info", "operator", "type"}:
                state.lost.add("args")
            state.processes.add((source, pid))
            state.saw(start, event.end_ns)
            pieces.append(delimited(1, event.SerializeToString()))
            state.written.events += 1
    out.write(b"".join(pieces))


def _memory(pieces: list[bytes], state: _State, row: tuple[Any, ...]) -> None:
    """Join an allocation with its free; either may lack the other."""
    start, name, source, pid, tid, device, size, args = row
    members = _object(args)
    key_of = next((k for k in ("allocation", "addr") if members.get(k) is not None), None)
    if "reserved" in name.lower():
        state.written.leave_out("reserved memory")
        return
    if key_of is None or size is None:
        state.written.leave_out("an allocation without its address")
        return
    key = (source, pid, str(members.get("place")), str(members[key_of]))
    if size >= 0 and name != "Free":
        place = str(members.get("place", ""))
        message = state.classes["MemEvent"](start_ns=start, bytes=size, place=_place(place, device))
        message.thread_id = tid if tid is not None and tid >= 0 else 0
        other = members.get("device_id")
        message.device_id = device if device is not None else other if _is_int(other, 31) else 0
        message.alloc_in = str(members.get("alloc_in", "Unknown")).encode()
        if key in state.live:
            state.written.leave_out("an allocation whose free is missing")
        state.live[key] = message
        state.saw(start, start)
        return
    message = state.live.pop(key, None)
    if message is None:
        state.written.leave_out("a free without its allocation")
        return
    message.end_ns = start
    message.free_in = str(members.get("free_in", "Unknown")).encode()
    state.saw(start, start)
    pieces.append(delimited(4, message.SerializeToString()))
    state.written.events += 2


def _place(place: str, device: int | None) -> int:
    """Return the number of a place: profiler.proto's own word, or the newer profiler's `Place(gpu:0)`."""
    if place in PLACES:
        return PLACES.index(place)
    words = {"gpu_pinned": 2, "gpu": 0, "cpu": 1, "xpu": 3, "npu": 4}
    found = next((number for word, number in words.items() if f"({word}" in place.lower()), None)
    return found if found is not None else int(device is None)


def _object(args: str | None) -> dict[str, Any]:
    if args is None:
        return {}
    found = orjson.loads(args)
    return found if isinstance(found, dict) else {}


def _is_int(value: Any, bits: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits


def _tell(state: _State, stream: Stream, held: int) -> None:
    notes = state.written.notes
    if stream.run.origin_ns is None and state.written.events:
        notes.append("the trace does not know the wall clock: times count from its own zero")
    if held:
        notes.append(f"{held:,} allocations are never freed: they end with the last time of the trace")
    if len(state.processes) > 1:
        notes.append(f"{len(state.processes)} processes stand in one profile, which cannot tell their threads apart")
    if state.lost:
        notes.append(f"a profile has no place for: {', '.join(sorted(state.lost))}")


WRITERS_HERE: tuple[Writer, ...] = (Writer("fluid-pb", "Paddle fluid profile (protobuf)", (".prof",), _write),)

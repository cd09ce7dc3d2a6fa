"""fluid-pb: the profile of Paddle's older profiler (profiler.proto), for tools/timeline.py and other readers.

    Profile { events { name: "conv2d" start_ns: ... end_ns: ... device_id: 0 sub_device_id: 4 type: CPU } ... }

Each range of the host becomes an event of type CPU, with its thread in sub_device_id. Calls of the CUDA API have
device_id -1, as timeline.py requires. Kernels, copies and memsets have type GPUKernel, with device and stream. The
message has no process, no correlation and no launch shape: a note names them. An allocation and its free, joined by
`allocation` or `addr` of their `args`, become one MemEvent; without a free it ends with the last time of the trace.
Times are ns since the Unix epoch, or since the zero of a trace without that clock.
Source of the layout: profiler.proto of files from 1.8.5 and 2.6.2, tools/timeline.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.messages import EVENT_TYPES, PLACES, ProtobufMessage, messages
from tracekit.model import schema
from tracekit.model.digits import delimited, varint
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.writers.base import RowStream, WriteOptions, Written, new_file
from tracekit.writers.json_text import args_of

__all__ = ["write"]

_COLUMNS = ("ts_ns", "dur_ns", "name", "kind", "source", "pid", "tid", "device", "stream", "bytes", "args")
_NO_PLACE = ("rank", "context", "correlation", "step", "grid_x", "registers", "value")
_UNSUPPORTED = (Kind.COUNTER, Kind.MARK, Kind.FLOW)
_API = (Kind.RUNTIME, Kind.DRIVER)
_MAX = (1 << 63) - 1

Row: TypeAlias = tuple[Any, ...]
"""The values of a row, in the order of `_COLUMNS`."""
AllocationKey: TypeAlias = tuple[int, int | None, str, str]
"""(source, pid, place, address)."""


@dataclass(slots=True)
class _FluidPbState:
    """The state of the pass: the range of times, the allocations not yet freed, and the columns without a field."""

    written: Written
    origin: int
    first: int | None = None
    last: int = 0
    live: dict[AllocationKey, ProtobufMessage] = dataclass_field(default_factory=dict)
    processes: set[tuple[int, int | None]] = dataclass_field(default_factory=set)
    lost: set[str] = dataclass_field(default_factory=set)
    classes: dict[str, type[ProtobufMessage]] = dataclass_field(default_factory=lambda: messages("profile"))

    def extend(self, start: int, end: int) -> None:
        self.first = start if self.first is None else min(self.first, start)
        self.last = max(self.last, end)


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come. Raises: OutputExistsError, OutputError."""
    written = Written(target)
    state: _FluidPbState | None = None
    with new_file(target, force=options.force) as out:
        for batch in stream.batches:
            state = state or _FluidPbState(written, stream.run.origin_ns or 0)
            if schema.is_totals(batch):
                written.leave_out("totals have no place in a profile", batch.num_rows)
                continue
            _write_batch(out, batch, state)
        state = state or _FluidPbState(written, 0)
        unfreed = list(state.live.values())
        for message in unfreed:
            message.end_ns = state.last
            out.write(delimited(4, message.SerializeToString()))
            written.events += 1
        first = state.first or 0
        out.write(varint(2 << 3) + varint(first) + varint(3 << 3) + varint(state.last))
    _add_notes(state, stream, len(unfreed))
    return written


def _write_batch(out: BinaryIO, batch: pa.RecordBatch, state: _FluidPbState) -> None:
    for name in _NO_PLACE:
        if batch.column(name).null_count < batch.num_rows:
            state.lost.add({"grid_x": "launch shape"}.get(name, name))
    columns = [batch.column(name) for name in _COLUMNS]
    rows: Iterator[Row] = zip(*(column.to_pylist() for column in columns), strict=True)
    pieces: list[bytes] = []
    for ts, dur, name, kind, source, pid, tid, device, stream, size, args in rows:
        start = ts + state.origin
        if kind in _UNSUPPORTED:
            state.written.leave_out(f"kind {kind}")
        elif not 0 <= start <= _MAX:
            state.written.leave_out("starts before the clock's zero")
        elif kind == Kind.MEMORY:
            _memory(pieces, state, (start, name or "", source, pid, tid, device, size, args))
        elif dur is None or dur < 0:
            state.written.leave_out("no duration" if dur is None else "negative duration")
        else:
            event = state.classes["Event"](name=(name or "").encode(), start_ns=start, end_ns=start + dur)
            members = args_of(args)
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
            state.extend(start, event.end_ns)
            pieces.append(delimited(1, event.SerializeToString()))
            state.written.events += 1
    out.write(b"".join(pieces))


def _memory(pieces: list[bytes], state: _FluidPbState, row: Row) -> None:
    """Join an allocation with its free; one of them may be missing."""
    start, name, source, pid, tid, device, size, args = row
    members = args_of(args)
    address_key = next((k for k in ("allocation", "addr") if members.get(k) is not None), None)
    if "reserved" in name.lower():
        state.written.leave_out("reserved memory")
        return
    if address_key is None or size is None:
        state.written.leave_out("an allocation without its address")
        return
    key = (source, pid, str(members.get("place")), str(members[address_key]))
    if size >= 0 and name != "Free":
        place = str(members.get("place", ""))
        message = state.classes["MemEvent"](start_ns=start, bytes=size, place=_place(place, device))
        message.thread_id = tid if tid is not None and tid >= 0 else 0
        device_id = members.get("device_id")
        message.device_id = device if device is not None else device_id if _is_int(device_id, 31) else 0
        message.alloc_in = str(members.get("alloc_in", "Unknown")).encode()
        if key in state.live:
            state.written.leave_out("an allocation whose free is missing")
        state.live[key] = message
        state.extend(start, start)
        return
    freed = state.live.pop(key, None)
    if freed is None:
        state.written.leave_out("a free without its allocation")
        return
    freed.end_ns = start
    freed.free_in = str(members.get("free_in", "Unknown")).encode()
    state.extend(start, start)
    pieces.append(delimited(4, freed.SerializeToString()))
    state.written.events += 2


def _place(place: str, device: int | None) -> int:
    """Return the number of a place: a word of profiler.proto, or `Place(gpu:0)` of the newer profiler."""
    if place in PLACES:
        return PLACES.index(place)
    words = {"gpu_pinned": 2, "gpu": 0, "cpu": 1, "xpu": 3, "npu": 4}
    found = next((number for word, number in words.items() if f"({word}" in place.lower()), None)
    return found if found is not None else int(device is None)


def _is_int(value: object, bits: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits) <= value < 1 << bits


def _add_notes(state: _FluidPbState, stream: RowStream, unfreed: int) -> None:
    notes = state.written.notes
    if stream.run.origin_ns is None and state.written.events:
        notes.append("the trace has no wall clock: times count from the zero of the trace")
    if unfreed:
        notes.append(f"{unfreed:,} allocations are never freed: they end with the last time of the trace")
    if len(state.processes) > 1:
        notes.append(f"{len(state.processes)} processes are in one profile, which cannot distinguish their threads")
    if state.lost:
        notes.append(f"a profile has no place for: {', '.join(sorted(state.lost))}")

"""fluid-pb: the profile of Paddle's older profiler (fluid.profiler, `profile_path`; Paddle 0.11 to 2.6).

    Profile {
      events { name: "conv2d" start_ns: 1795226675920881253 end_ns: 1795226675920891248 device_id: 0 sub_device_id: 4 }
      events { name: "conv2d/compute" ... }  start_ns: 480249724  end_ns: 0 }

A record is an event, an allocation, or a fact of the file (its start and end). `event_id` is the record's number, in
the file's order, which is not that of time. Times are Unix ns on Linux (`Run.origin_ns` is None where the first is
before 2001). Files of 1.8 have whole microseconds in their ns.

Events of the host: `tid` is sub_device_id, a small number of the profiler's own; no process is named. device_id is the
depth of the block there, kept in `args` where it is not 0; -1 marks calls of the CUDA API, which become `runtime` or
`driver`. Files older than the field `type` have -1 for every host event and a device otherwise. A name with a slash
(`mul/compute`) is a part of an operator: `operator_inner`. Blocks and executors are `user_range_native`. All others are
`operator`, since the file does not distinguish operators from ranges of the user. Events of a device are kernels, and
copies if they have a size or the name of a copy. Where Paddle knew which operator launched one, `detail_info` is the
kernel's name and the event's own name the operator's (`operator` in `args`); else the event has the kernel's name.

An allocation becomes two rows, of its bytes when it is made and of minus its bytes when it is freed; `allocation` in
their `args` is the record's number, `alloc_in` and `free_in` say where. The file's own start and end are garbage in
runs without GPU (480249724 and 0): they are kept in `facts` and not used.

Not supported: fields that the message did not have in 0.11 to 2.6 are counted and noted.
Sources: files of 1.8.5 and 2.6.2 with the reports printed beside them, profiler.proto, tools/timeline.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.messages import PLACES, ProtobufMessage, messages
from tracekit.model.arrow import Values
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import MAX_NS
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import BATCH_ROWS, event_batch
from tracekit.readers.engine.protobuf import (
    EPOCH_NS,
    INT32_MAX,
    INT64_MAX,
    EventType,
    WireEvent,
    fields,
    good_range,
    plain,
    tell_cut,
    text_column,
    walk,
)
from tracekit.readers.fluid.report import host_kind
from tracekit.readers.head import Head
from tracekit.readers.names import Demangler
from tracekit.readers.options import STATE
from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_EVENT_FIELDS = {1: 2, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 2, 8: 0, 9: 2}
_MEMORY_FIELDS = {1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 7: 2, 8: 2}
_COPY = re.compile(rb"mem_?cpy.*?([HDAP]to[HDAP])?$", re.I)
_COLUMNS = (
    "event_id",
    "ts_ns",
    "dur_ns",
    "kind",
    "tid",
    "device",
    "stream",
    "bytes",
    "copy_kind",
)


def sniff(head: Head) -> Confidence:
    """Return YES if the first fields are events with a name and two times; MAYBE for a profile without events."""
    data = head.data
    if not data or data[0] not in (0x0A, 0x10, 0x22):
        return Confidence.NO
    try:
        found = fields(data, 4)
    except ValueError:
        return Confidence.NO
    if not found:
        return Confidence.NO
    events = 0
    for number, wire, value in found:
        if (number, wire) in ((2, 0), (3, 0)):
            continue
        if number not in (1, 4) or not isinstance(value, bytes) or wire != 2 or not _is_event(value, number):
            return Confidence.NO
        events += 1
    if events:
        return Confidence.YES
    return Confidence.MAYBE if head.complete and [n for n, _, _ in found] == [2, 3] else Confidence.NO


def _is_event(data: bytes, number: int) -> bool:
    wires = _EVENT_FIELDS if number == 1 else _MEMORY_FIELDS
    try:
        found = fields(data)
    except ValueError:
        return False
    if any(wires.get(n) != wire for n, wire, _ in found):
        return False
    have = {n: value for n, _, value in found}
    if number == 4:
        place = have.get(4)
        return {1, 2, 3} <= have.keys() and isinstance(place, int) and place < 16
    name = have.get(1)
    return {2, 3} <= have.keys() and isinstance(name, bytes) and len(name) > 0 and b"\0" not in name


class _FluidPbReading:
    """One reading of one file."""

    def __init__(self, source: Source, options: ReadOptions, ledger: Ledger, run: Run) -> None:
        self.source, self.options, self.ledger, self.run = source, options, ledger, run
        self.names = Demangler(ledger, enabled=options.demangle)
        classes = messages("profile")
        self.classes = {1: classes["Event"], 4: classes["MemEvent"]}
        self.held_names: list[bytes] = []
        self.rows: list[tuple[object, ...]] = []
        self.args: list[str | None] = []

    def batches(self) -> Iterator[pa.RecordBatch]:
        from google.protobuf.message import DecodeError

        ledger = self.ledger
        try:
            for met in walk(self.source.chunks(ledger), {}):
                if met.what in (EventType.DAMAGE, EventType.CUT):
                    tell_cut(ledger, met)
                    continue
                ledger.read += 1
                if met.number in self.classes and isinstance(met.value, bytes):
                    try:
                        message = self.classes[met.number].FromString(met.value)
                    except DecodeError:
                        ledger.drop("damaged", where=f"byte {met.at}", text="dropped: not a protobuf message")
                        continue
                    (self._event if met.number == 1 else self._memory)(message, met)
                    if len(self.rows) >= BATCH_ROWS:
                        yield self._take()
                elif met.number in (2, 3) and isinstance(met.value, int):
                    ledger.facts += 1
                    self.run.sources[0].facts["profile_start_ns" if met.number == 2 else "profile_end_ns"] = met.value
                else:
                    ledger.ignore("unknown-field")
                    ledger.note(
                        "unknown-field",
                        "a field that this reader does not know was skipped",
                        where=f"byte {met.at}",
                    )
            if self.rows:
                yield self._take()
        finally:
            self.names.close()

    def _add(self, name: bytes, args: dict[str, object], *row: object) -> None:
        self.held_names.append(name)
        self.rows.append(row)
        self.args.append(orjson.dumps(args).decode() if args else None)
        self.ledger.events_out += 1

    def _drop(self, met: WireEvent, reason: str) -> None:
        text = {
            "bad-time": "dropped: it ends before it begins, or its time is out of range",
            "bad-value": "dropped: a number in it is larger than a trace can hold",
        }[reason]
        self.ledger.drop(reason, where=f"byte {met.at}", text=text)

    def _event(self, event: ProtobufMessage, met: WireEvent) -> None:
        name, start, end = event.name, event.start_ns, event.end_ns
        if not good_range(start, end):
            self._drop(met, "bad-time")
            return
        size: int | None = None
        args: dict[str, object] = {}
        if event.HasField("detail_info"):
            args["detail_info"] = plain(event.detail_info, self.ledger)
        if event.HasField("memcopy"):
            copy = event.memcopy
            size = copy.bytes if copy.HasField("bytes") else copy.bytes_of_the_draft
        number = event.type if event.HasField("type") else int(event.device_id >= 0)
        if abs(event.device_id) > INT32_MAX or (size or 0) > INT64_MAX:
            self._drop(met, "bad-value")
            return
        sub = event.sub_device_id if event.HasField("sub_device_id") else None
        if number == 0:
            if event.device_id > 0 or event.device_id < -1:
                args["block"] = event.device_id
            kind = _host_kind(name, api=event.device_id == -1 and event.HasField("type"))
            lane = (sub, None, None)
            direction = None
        else:
            if number != 1:
                args["type"] = number
            if event.detail_info:
                # DeviceTracer::GenProfile: the name is that of its operator, the detail its own name.
                args["operator"], name = plain(name, self.ledger), event.detail_info
                del args["detail_info"]
            kind, direction = _device_kind(name, size)
            lane = (None, event.device_id if event.HasField("device_id") else None, sub)
        self.ledger.kept += 1
        self._add(name, args, self.ledger.read, start, end - start, str(kind), *lane, size, direction)

    def _memory(self, event: ProtobufMessage, met: WireEvent) -> None:
        start, end, size = event.start_ns, event.end_ns, event.bytes
        if not 0 <= start < MAX_NS:
            self._drop(met, "bad-time")
            return
        if size > INT64_MAX or event.thread_id > INT64_MAX or abs(event.device_id) > INT32_MAX:
            self._drop(met, "bad-value")
            return
        self.ledger.kept += 1
        record = self.ledger.read
        place = PLACES[event.place] if 0 <= event.place < len(PLACES) else str(event.place)
        device = event.device_id if place in ("CUDAPlace", "XPUPlace", "NPUPlace") else None
        common: dict[str, object] = {"allocation": record, "place": place}
        if device is None and event.device_id:
            common["device_id"] = event.device_id
        lane = (event.thread_id, device, None)
        args = common | ({"alloc_in": plain(event.alloc_in, self.ledger)} if event.HasField("alloc_in") else {})
        self._add(b"Allocate", args, record, start, None, str(Kind.MEMORY), *lane, size, None)
        if not start <= end < MAX_NS:
            self.ledger.note(
                "not-freed", "an allocation has no end after its start: it is never freed", where=f"byte {met.at}"
            )
            return
        args = common | ({"free_in": plain(event.free_in, self.ledger)} if event.HasField("free_in") else {})
        self._add(b"Free", args, record, end, None, str(Kind.MEMORY), *lane, -size, None)

    def _take(self) -> pa.RecordBatch:
        count = len(self.rows)
        columns: dict[str, Values | str | int | None] = {
            name: pa.array(values, pa.string() if name in ("kind", "copy_kind") else pa.int64())
            for name, values in zip(_COLUMNS, zip(*self.rows, strict=True), strict=True)
        }
        columns["name"], columns["raw_name"] = self.names.columns(text_column(self.held_names, self.ledger))
        columns["args"] = pa.array(self.args, pa.string())
        columns["source"] = self.options.source
        self.held_names, self.rows, self.args = [], [], []
        return event_batch(count, columns)


def _host_kind(name: bytes, *, api: bool) -> Kind:
    if api:
        return Kind.DRIVER if name.startswith(b"cu") and name[2:3].isupper() else Kind.RUNTIME
    return host_kind(name)


def _device_kind(name: bytes, size: int | None) -> tuple[Kind, str | None]:
    if b"memset" in name.lower():
        return Kind.MEMSET, None
    if found := _COPY.match(name):
        return Kind.MEMCPY, found[1].decode() if found[1] else None
    return (Kind.MEMCPY, None) if size else (Kind.KERNEL, None)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Open a profile. Option `state`: CPU, GPU or All.

    Raises: ParseError for another file that is read with --from.
    """
    state = options.value(STATE)
    head = source.head()
    if sniff(head) is Confidence.NO:
        raise ParseError(source.name, "byte 0", "no events of Paddle's profiler.proto")
    facts = {"tool": "fluid.profiler"}
    if state:
        facts["state"] = state
    run = Run(sources=[SourceFacts(source.name, "fluid-pb", facts=facts)])
    messages_first = ((number, value) for number, _, value in fields(head.data, 4) if isinstance(value, bytes))
    starts = ({n: v for n, _, v in fields(value)}.get(2 if number == 1 else 1) for number, value in messages_first)
    first = next(starts, None)
    run.origin_ns = 0 if not isinstance(first, int) or first >= EPOCH_NS else None
    return ReadResult(run, _FluidPbReading(source, options, ledger, run).batches(), ordered=False, ledgers=(ledger,))

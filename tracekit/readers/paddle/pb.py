"""paddle-pb: the tree file of paddle.profiler's export_protobuf (`*.paddle_trace.pb`, Paddle 2.2 to 3.x).

    NodeTreesProto { version: "1.0.2"  span_indx: 1
      thread_trees { thread_id: 3714
        host_nodes { id: 2 parentid: 1 host_trace_event { name: "conv2d dygraph" type: 0 start_ns: 17952... } } } }

A record is a node of a tree (host range, runtime call, device work, allocation, supplement), a tree itself, or a fact
of the file (version, span, extra information, a device). `event_id` is the record's number. Times are Unix ns on
Linux; a first time before 2001 is a clock of unknown zero, so `Run.origin_ns` is None. Trees are in order of nesting,
not of time.

Kinds: `_types.KIND_OF_TYPE`. Fields of a kernel, copy, memset or allocation without a column are in `args`. Ids of
nodes are not: they only repeat the nesting of the times on each thread. Zeros of fields that the format requires and
Paddle leaves at 0 are not either. Device work has the `pid` of the call that launched it, and the clock of the host.
The `bytes` of allocations are signed. Supplements (shapes, types, call stack of an operator) are in the `args` of their
node. The root node of each tree spans all time and is not an event: it is ignored, its children are not.

`facts`: version, span_indx, extra_info, device_properties. Names of threads, which Paddle 2.6 puts there, are in `Run`.
The file is read in pieces (`protobuf.walk`): memory does not grow with it.

Not supported: fields that a newer Paddle adds are counted and noted.
Sources: descriptors inside paddlepaddle 2.6.2, files of 2.6.2 and 3.3.1, deserialization_reader.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.messages import STAND_IN, TREE_TYPES, ProtobufMessage, messages
from tracekit.model.arrow import Values
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import MAX_NS
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import BATCH_ROWS, IdTable, event_batch
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
from tracekit.readers.head import Head
from tracekit.readers.names import Demangler
from tracekit.readers.paddle._nodes import (
    LAUNCHES,
    SHAPE_COLUMNS,
    device_row,
    kind_of,
    memory_args,
    runtime_kind,
    step_number,
    supplement,
)
from tracekit.readers.source import Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

# Messages of a Paddle trace: the recognition, and the batches.


_ENTER = {"": {3: "tree"}, "tree": {2: "node"}}
_ROOT_END = (1 << 64) - 1
_BAD_TIME = "dropped: it ends before it begins, or its time is out of range"
_BAD_VALUE = "dropped: a number in it is larger than a trace can hold"


def sniff(head: Head) -> Confidence:
    """Return YES for a version followed by a span or a tree."""
    data = head.data
    if not data.startswith(b"\x0a") or len(data) < 7 or not 3 <= data[1] <= 15:
        return Confidence.NO
    version, rest = data[2 : 2 + data[1]], data[2 + data[1] :]
    parts = version.split(b".")
    if len(parts) < 2 or not all(p.isdigit() for p in parts):
        return Confidence.NO
    if not rest:
        return Confidence.MAYBE
    try:
        found = fields(rest if head.complete else rest[:4096], 2)
    except ValueError:
        return Confidence.NO
    for number, wire, _ in found:
        if (number, wire) not in ((2, 0), (3, 2), (4, 2), (5, 2)):
            return Confidence.NO
    # A tree is longer than the head, so it is not among the fields: its tag follows the span.
    return Confidence.YES if found or rest.startswith(b"\x1a") else Confidence.MAYBE


@dataclass(slots=True)
class _PaddlePbRows:
    """Rows of one sort of record, as tuples, until a batch is made of them."""

    names: list[bytes] = field(default_factory=list)
    rows: list[tuple[object, ...]] = field(default_factory=list)
    args: list[str | None] = field(default_factory=list)

    def add(self, name: bytes, args: dict[str, object] | str | None, *row: object) -> None:
        self.names.append(name)
        self.rows.append(row)
        self.args.append(orjson.dumps(args).decode() if isinstance(args, dict) else args)


_COLUMNS = {
    "host": ("event_id", "ts_ns", "dur_ns", "kind", "pid", "tid", "step"),
    "runtime": ("event_id", "ts_ns", "dur_ns", "kind", "pid", "tid", "correlation"),
    "device": (
        "event_id",
        "ts_ns",
        "dur_ns",
        "kind",
        "pid",
        "device",
        "context",
        "stream",
        "correlation",
        "bytes",
        "copy_kind",
        *SHAPE_COLUMNS,
    ),
    "memory": ("event_id", "ts_ns", "pid", "tid", "bytes"),
}


@dataclass(slots=True)
class _Node:
    """The open node of a tree. row: its columns, None before its event.

    supplements: their number. more: the supplements after the first one, which is in `args`.
    """

    parent: int = 0
    row: tuple[object, ...] | None = None
    name: bytes = b""
    args: dict[str, object] = field(default_factory=dict)
    supplements: int = 0
    more: list[dict[str, object]] = field(default_factory=list)


class _PaddlePbReading:
    """One reading of one file."""

    def __init__(self, source: Source, options: ReadOptions, ledger: Ledger, run: Run) -> None:
        self.source, self.options, self.ledger, self.run = source, options, ledger, run
        self.facts = run.sources[0].facts
        self.names = Demangler(ledger, enabled=options.demangle)
        self.ids = {column: IdTable(run, column, options.source) for column in ("pid", "tid", "stream", "context")}
        self.sorts = {sort: _PaddlePbRows() for sort in _COLUMNS}
        self.classes = messages("nodetree")
        self.node = _Node()
        self.threads: dict[int, int] = {}
        self.known: dict[str, str] = {}
        self.nodes: dict[int, Callable[[bytes, WireEvent], None]] = {
            3: self._host,
            4: self._runtime,
            5: self._memory,
            6: self._supplement,
        }

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for met in walk(self.source.chunks(self.ledger), _ENTER):
                if met.what is EventType.FIELD:
                    self._field(met)
                elif met.level == "node" and met.what is EventType.OPEN:
                    self.node = _Node()
                elif met.level == "node" and met.what is EventType.CLOSE:
                    self._end_node()
                    if sum(len(s.rows) for s in self.sorts.values()) >= BATCH_ROWS:
                        yield from self._take()
                elif met.level == "tree" and met.what is EventType.OPEN:
                    self.ledger.read += 1
                    self.ledger.facts += 1
                elif met.what in (EventType.DAMAGE, EventType.CUT):
                    tell_cut(self.ledger, met)
            yield from self._take()
        finally:
            self.names.close()
        self._name_threads()

    def _field(self, met: WireEvent) -> None:
        ledger = self.ledger
        if met.level == "node":
            if met.number in (1, 2) and isinstance(met.value, int):
                if met.number == 2:
                    self.node.parent = met.value - (1 << 64) if met.value >> 63 else met.value
                return
            if met.number in self.nodes and isinstance(met.value, bytes):
                self.nodes[met.number](met.value, met)
                return
        elif met.level == "tree":
            if met.number == 1 and isinstance(met.value, int):
                return
        elif self._fact(met):
            ledger.read += 1
            ledger.facts += 1
            return
        ledger.read += 1
        ledger.ignore("unknown-field")
        ledger.note("unknown-field", "a field that this reader does not know was skipped", where=f"byte {met.at}")

    def _fact(self, met: WireEvent) -> bool:
        if met.number == 1 and isinstance(met.value, bytes):
            self.facts["version"] = plain(met.value, self.ledger)
        elif met.number == 2 and isinstance(met.value, int):
            self.facts["span_indx"] = met.value
        elif met.number == 4 and isinstance(met.value, bytes):
            info = self._decoded("ExtraInfoMap", met.value)
            if info is None:
                return False
            self.known[plain(info.key, self.ledger)] = plain(info.value, self.ledger)
        elif met.number == 5 and isinstance(met.value, bytes):
            device = self._decoded("DevicePropertyProto", met.value)
            if device is None:
                return False
            values = {key.name: value for key, value in device.ListFields() if value or key.name == "id"}
            values["name"] = plain(device.name, self.ledger)
            self.facts.setdefault("device_properties", []).append(values)
            if device.id <= INT32_MAX and values["name"]:
                self.run.devices[(self.options.source, int(device.id))] = values["name"]
        else:
            return False
        return True

    def _decoded(self, name: str, data: bytes) -> ProtobufMessage | None:
        """Return a message, None for bytes that are not one."""
        from google.protobuf.message import DecodeError

        try:
            return self.classes[name].FromString(data)
        except DecodeError:
            return None

    def _record(self, name: str, data: bytes, met: WireEvent) -> ProtobufMessage | None:
        """Count a record and decode it; None if it is dropped."""
        self.ledger.read += 1
        message = self._decoded(name, data)
        if message is None:
            self.ledger.drop("damaged", where=f"byte {met.at}", text="dropped: not a protobuf message")
        return message

    def _good(self, start: int, end: int, met: WireEvent) -> bool:
        if good_range(start, end):
            return True
        self.ledger.drop("bad-time", where=f"byte {met.at}", text=_BAD_TIME)
        return False

    def _keep(self, sort: str, name: bytes, args: dict[str, object] | str | None, *row: object) -> None:
        self.ledger.kept += 1
        self.ledger.events_out += 1
        self.sorts[sort].add(name, args, *row)

    def _thread(self, pid: int, tid: int) -> tuple[int, int]:
        pid, tid = self.ids["pid"].number(pid), self.ids["tid"].number(tid)
        self.threads.setdefault(tid, pid)
        return pid, tid

    def _host(self, data: bytes, met: WireEvent) -> None:
        if self.node.row is not None:
            self._end_node()
        event = self._record("HostTraceEventProto", data, met)
        if event is None:
            return
        if event.end_ns == _ROOT_END or (self.node.parent == -1 and event.start_ns == 0 == event.process_id):
            self.ledger.ignore("root-node")
            return
        if not self._good(event.start_ns, event.end_ns, met):
            return
        args: dict[str, object] = {}
        kind = kind_of(event.type)
        if kind is Kind.OTHER or TREE_TYPES[event.type] in LAUNCHES:
            args["type"] = event.type
        pid, tid = self._thread(event.process_id, event.thread_id)
        step = step_number(event.name.decode("utf-8", "replace")) if kind is Kind.STEP else None
        # Supplements follow their host event: the row waits for the end of the node.
        self.node.row = (*self._times(event), str(kind), pid, tid, step)
        self.node.name = event.name
        self.node.args = args | self.node.args

    def _end_node(self) -> None:
        node = self.node
        if node.row is None:
            self.ledger.ignore("supplement-without-event", node.supplements)
            return
        self.ledger.merged += node.supplements
        if node.more:
            node.args["supplements"] = node.more
        self._keep("host", node.name, node.args or None, *node.row)
        self.node = _Node()

    def _supplement(self, data: bytes, met: WireEvent) -> None:
        node = self._record("OperatorSupplementEventNodeProto", data, met)
        if node is None:
            return
        self.node.supplements += 1
        found = supplement(node.op_supplement_event, self.ledger)
        if "input_shapes" in self.node.args:
            self.node.more.append(found)
        else:
            self.node.args.update(found)

    def _runtime(self, data: bytes, met: WireEvent) -> None:
        node = self._record("CudaRuntimeTraceEventNodeProto", data, met)
        if node is None:
            return
        event = node.runtime_trace_event
        pid, tid = self._thread(event.process_id, event.thread_id)
        if event.name == STAND_IN.encode():
            self.ledger.ignore("stand-in-launch")
        elif event.correlation_id > INT64_MAX:
            self._bad_value(met)
        elif self._good(event.start_ns, event.end_ns, met):
            args = {"callback_id": event.callback_id} if event.callback_id else None
            kind = runtime_kind(event.name)
            self._keep("runtime", event.name, args, *self._times(event), kind, pid, tid, event.correlation_id)
        for device in node.device_nodes:
            self.ledger.read += 1
            self._device(device.device_event, pid, met)

    def _bad_value(self, met: WireEvent) -> None:
        self.ledger.drop("bad-value", where=f"byte {met.at}", text=_BAD_VALUE)

    def _device(self, event: ProtobufMessage, pid: int, met: WireEvent) -> None:
        if not self._good(event.start_ns, event.end_ns, met):
            return
        found = device_row(event, self.ledger)
        if found is None:
            self._bad_value(met)
            return
        (kind, *rest), args = found
        lane = event.device_id, self._id("context", event.context_id), self._id("stream", event.stream_id)
        self._keep("device", event.name, args or None, *self._times(event), kind, pid, *lane, *rest)

    def _times(self, event: ProtobufMessage) -> tuple[int, int, int]:
        return self.ledger.read, event.start_ns, event.end_ns - event.start_ns

    def _id(self, column: str, value: int) -> int:
        return self.ids[column].number(value)

    def _memory(self, data: bytes, met: WireEvent) -> None:
        node = self._record("MemTraceEventNodeProto", data, met)
        if node is None:
            return
        event = node.mem_event
        if not self._good(event.timestamp_ns, event.timestamp_ns, met):
            return
        name, args = memory_args(event, self.ledger)
        pid, tid = self._thread(event.process_id, event.thread_id)
        self._keep("memory", name, args, self.ledger.read, event.timestamp_ns, pid, tid, event.increase_bytes)

    def _take(self) -> Iterator[pa.RecordBatch]:
        for sort, held in self.sorts.items():
            if not held.rows:
                continue
            count = len(held.rows)
            columns: dict[str, Values | str | int | None] = {}
            for name, values in zip(_COLUMNS[sort], zip(*held.rows, strict=True), strict=True):
                columns[name] = pa.array(values, pa.string() if name in ("kind", "copy_kind") else pa.int64())
            columns["name"], columns["raw_name"] = self.names.columns(text_column(held.names, self.ledger))
            columns["args"] = pa.array(held.args, pa.string())
            columns["source"] = self.options.source
            if sort == "memory":
                columns["kind"] = str(Kind.MEMORY)
            self.sorts[sort] = _PaddlePbRows()
            yield event_batch(count, columns)

    def _name_threads(self) -> None:
        """Take the names of threads from the extra information, where Paddle 2.6 and later put them by id."""
        rest: dict[str, str] = {}
        for key, value in self.known.items():
            tid = int(key) if key.isdecimal() and len(key) < 19 else None
            if tid is not None and tid in self.threads:
                self.run.threads[(self.options.source, self.threads[tid], tid)] = value
            else:
                rest[key] = value
        if rest:
            self.facts["extra_info"] = rest


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Open a file. Raises: ParseError for another file that is read with --from."""
    head = source.head()
    if sniff(head) is Confidence.NO:
        raise ParseError(source.name, "byte 0", "no version and tree of a paddle.profiler protobuf file")
    run = Run(sources=[SourceFacts(source.name, "paddle-pb", facts={"tool": "paddle.profiler"})])
    first = _first_time(head)
    run.origin_ns = 0 if first is None or first >= EPOCH_NS else None
    return ReadResult(run, _PaddlePbReading(source, options, ledger, run).batches(), ordered=False, ledgers=(ledger,))


def _first_time(head: Head) -> int | None:
    """Return the first start in the head, None where there is none."""
    classes = messages("nodetree")
    from google.protobuf.message import DecodeError

    for met in walk([head.data], _ENTER):
        if met.what is not EventType.FIELD or met.level != "node" or met.number not in (3, 4, 5):
            continue
        if not isinstance(met.value, bytes):
            continue
        name, inner, column = {
            3: ("HostTraceEventProto", "", "start_ns"),
            4: ("CudaRuntimeTraceEventNodeProto", "runtime_trace_event", "start_ns"),
            5: ("MemTraceEventNodeProto", "mem_event", "timestamp_ns"),
        }[met.number]
        try:
            message = classes[name].FromString(met.value)
        except DecodeError:
            continue
        time = int(getattr(getattr(message, inner) if inner else message, column))
        if 0 < time < MAX_NS:
            return time
    return None

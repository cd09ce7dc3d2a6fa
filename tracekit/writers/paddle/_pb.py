"""Rows as the tree of nodes of a Paddle trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa

from tracekit.messages import (
    DEVICE_TYPES_BY_KIND,
    HOST_TYPES_BY_KIND,
    MEMORY_TYPES,
    STAND_IN,
    TREE_TYPES,
    ProtobufMessage,
    messages,
)
from tracekit.model import arrow, schema
from tracekit.model.arrow import I64, Column, Mask, Rows, pc
from tracekit.model.digits import delimited, varint
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.trace import Run
from tracekit.safety.scratch import StoredRows, scratch_file, scratch_folder, stored_rows, writing
from tracekit.writers.base import RowStream, WriteOptions, Written, new_file
from tracekit.writers.json_text import args_of

# Device work that waits on disk for its launch: the rows in a temporary Arrow file, their keys in memory.


Row: TypeAlias = dict[str, Any]
"""A row of EVENTS, as `to_pylist` returns it."""
_NO_PID = np.iinfo(np.int64).min
_BATCH_ROWS = 1 << 14
_EMPTY = np.empty(0, np.int64)


@dataclass(slots=True)
class DeviceRows:
    """Kernels, copies and memsets of the whole trace, found by (source, correlation) and, where both know it, pid."""

    path: Path
    _keys: list[tuple[I64, I64, I64]] = dataclass_field(default_factory=list)
    _writer: pa.RecordBatchFileWriter | None = None
    _sink: pa.OSFile | None = None
    _file: pa.RecordBatchFileReader | None = None
    _map: pa.MemoryMappedFile | None = None
    _source: I64 = dataclass_field(default_factory=lambda: _EMPTY)
    _correlation: I64 = dataclass_field(default_factory=lambda: _EMPTY)
    _pid: I64 = dataclass_field(default_factory=lambda: _EMPTY)
    _order: Rows = dataclass_field(default_factory=lambda: _EMPTY)
    _starts: Rows = dataclass_field(default_factory=lambda: _EMPTY)
    _taken: Mask = dataclass_field(default_factory=lambda: np.zeros(0, np.bool_))

    def put(self, batch: pa.RecordBatch) -> None:
        """Store rows."""
        with writing(self.path.parent):
            self._put(batch)

    def _put(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._sink = pa.OSFile(str(self.path), "wb")
            self._writer = pa.ipc.new_file(self._sink, batch.schema)
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            part = batch.slice(start, _BATCH_ROWS)
            self._writer.write_batch(part)
            source, correlation, pid = (part.column(name) for name in ("source", "correlation", "pid"))
            self._keys.append((arrow.ints(source), arrow.ints(correlation, _NO_PID), arrow.ints(pid, _NO_PID)))

    def seal(self) -> None:
        """Prepare the look-up, when all rows are stored."""
        if self._writer is None or self._sink is None:
            return
        with writing(self.path.parent):
            self._writer.close()
            self._sink.close()
            self._map = pa.memory_map(str(self.path))
        self._file = pa.ipc.open_file(self._map)
        self._starts = np.cumsum([0, *(len(k[0]) for k in self._keys)])
        self._source, self._correlation, self._pid = (np.concatenate(c) for c in zip(*self._keys, strict=True))
        self._keys = []
        self._order = np.lexsort((np.arange(len(self._source)), self._correlation, self._source))
        self._taken = np.zeros(len(self._source), np.bool_)

    def close(self) -> None:
        """Close the file."""
        if self._map is not None:
            self._file = None
            self._map.close()

    def taken_by(self, source: int, correlation: int, pid: int | None) -> list[int]:
        """Return the rows that this launch caused and no earlier one has taken, and mark them as taken."""
        first, last = self._span(source, correlation)
        found: list[int] = []
        for row in self._order[first:last].tolist():
            own = int(self._pid[row])
            if not self._taken[row] and (pid is None or own in (pid, _NO_PID)):
                self._taken[row] = True
                found.append(row)
        return found

    def _span(self, source: int, correlation: int) -> tuple[int, int]:
        if correlation == _NO_PID or not len(self._order):
            return 0, 0
        key = (source, correlation)
        return self._bisect(key, right=False), self._bisect(key, right=True)

    def _bisect(self, key: tuple[int, int], *, right: bool) -> int:
        low, high = 0, len(self._order)
        while low < high:
            middle = (low + high) // 2
            row = self._order[middle]
            here = (int(self._source[row]), int(self._correlation[row]))
            if here < key or (right and here == key):
                low = middle + 1
            else:
                high = middle
        return low

    def rows(self, wanted: list[int]) -> dict[int, Row]:
        """Return rows by their number."""
        out: dict[int, Row] = {}
        if not wanted or self._file is None:
            return out
        numbers = np.unique(np.array(wanted, np.int64))
        batch_of_row = np.searchsorted(self._starts, numbers, "right") - 1
        for batch in np.unique(batch_of_row).tolist():
            in_batch = numbers[batch_of_row == batch]
            table = arrow.take(self._file.get_batch(batch), in_batch - self._starts[batch])
            out.update(zip(in_batch.tolist(), table.to_pylist(), strict=True))
        return out

    def orphans(self) -> Iterator[Row]:
        """Yield the rows that no launch has taken, in order of start."""
        left = np.flatnonzero(~self._taken)
        for start in range(0, len(left), _BATCH_ROWS):
            part = left[start : start + _BATCH_ROWS].tolist()
            found = self.rows(part)
            yield from (found[row] for row in part)


# Messages of Paddle's trees from rows of EVENTS. Rows are dicts, `args` is the parsed object.


Args: TypeAlias = Mapping[str, object]
"""The object in the args of a row."""

HOST_TYPES = {**HOST_TYPES_BY_KIND, Kind.OVERHEAD: "UserDefined", Kind.OTHER: "UserDefined"}
CALLS = (Kind.RUNTIME, Kind.DRIVER, Kind.SYNC)
_KERNEL_COLUMNS = {
    **{name: name for name in ("block_x", "block_y", "block_z", "grid_x", "grid_y", "grid_z")},
    "dynamic_smem_bytes": "dynamic_shared_memory",
    "static_smem_bytes": "static_shared_memory",
    "registers": "registers_per_thread",
}
_KERNEL_INTEGERS = ("local_memory_per_thread", "local_memory_total", "queued", "submitted", "completed")
_KERNEL_FLOATS = ("blocks_per_sm", "warps_per_sm", "occupancy")
_MEMORY_ARGS = ("current_allocated", "current_reserved", "peak_allocated", "peak_reserved")
DEVICE_ARGS = frozenset(
    {*_KERNEL_INTEGERS, *_KERNEL_FLOATS, "copy_kind", "src_kind", "dst_kind", "memory_kind", "value", "type"}
)
MEMORY_ARGS = frozenset({*_MEMORY_ARGS, "addr", "place", "type"})
SUPPLEMENT_ARGS = frozenset({"input_shapes", "input_dtypes", "callstack", "op_type", "op_id", "supplement_ns"})


def unsigned(value: object) -> int | None:
    """Return an integer that an unsigned field can hold, None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 64:
        return None
    return value


def complete(message: ProtobufMessage) -> ProtobufMessage:
    """Set every missing field to zero, since Paddle declares them all required, and return the message."""
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        repeated = isinstance(value, MutableSequence)  # older versions of protobuf have no `field.is_repeated`
        if field.message_type is not None:
            for inner in value if repeated else [value] if message.HasField(field.name) else ():
                complete(inner)
        elif not repeated and not message.HasField(field.name):
            setattr(message, field.name, field.default_value)
    return message


def _set(message: ProtobufMessage, name: str, value: object) -> None:
    number = unsigned(value)
    if number is not None:
        setattr(message, name, number)


def _set_text(message: ProtobufMessage, name: str, value: object) -> None:
    if isinstance(value, str):
        setattr(message, name, value.encode("utf-8", "replace"))


def host_event(row: Row, start: int, pid: int, tid: int, type_number: int) -> ProtobufMessage:
    """Return a HostTraceEventProto."""
    return messages("nodetree")["HostTraceEventProto"](
        name=(row["name"] or "").encode(),
        type=type_number,
        start_ns=start,
        end_ns=start + row["dur_ns"],
        process_id=pid,
        thread_id=tid,
    )


def host_type(row: Row) -> int:
    """Return the type number of a range. It is never 15, which Paddle 3.x writes but cannot load."""
    return TREE_TYPES.index(HOST_TYPES[row["kind"]])


def call_event(name: str, start: int, dur: int, pid: int, tid: int, correlation: int | None) -> ProtobufMessage:
    """Return a CudaRuntimeTraceEventNodeProto without its device nodes."""
    node = messages("nodetree")["CudaRuntimeTraceEventNodeProto"]()
    event = node.runtime_trace_event
    event.name, event.start_ns, event.end_ns = name.encode(), start, start + dur
    event.process_id, event.thread_id = pid, tid
    event.correlation_id = unsigned(correlation) or 0
    event.callback_id = 0
    return node


def add_device(node: ProtobufMessage, row: Row, start: int, args: Args) -> None:
    """Add a kernel, copy or memset to its call."""
    device = node.device_nodes.add()
    event = device.device_event
    event.name = (row["name"] or "").encode()
    event.type = TREE_TYPES.index(DEVICE_TYPES_BY_KIND[row["kind"]])
    event.start_ns, event.end_ns = start, start + row["dur_ns"]
    for name, column in (("device_id", "device"), ("context_id", "context"), ("stream_id", "stream")):
        setattr(event, name, unsigned(row[column]) or 0)
    event.correlation_id = unsigned(row["correlation"]) or 0
    if row["kind"] == Kind.KERNEL:
        info = event.kernel_info
        info.SetInParent()
        for column, name in _KERNEL_COLUMNS.items():
            _set(info, name, row[column])
        for name in _KERNEL_INTEGERS:
            _set(info, name, args.get(name))
        for name in _KERNEL_FLOATS:
            value = args.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                setattr(info, name, value)
    elif row["kind"] == Kind.MEMCPY:
        info = event.memcpy_info
        info.SetInParent()
        _set(info, "num_bytes", row["bytes"])
        copy_kind = args.get("copy_kind") or (f"MEMCPY_{row['copy_kind']}" if row["copy_kind"] else None)
        _set_text(info, "copy_kind", copy_kind)
        _set_text(info, "src_kind", args.get("src_kind"))
        _set_text(info, "dst_kind", args.get("dst_kind"))
    else:
        info = event.memset_info
        info.SetInParent()
        _set(info, "num_bytes", row["bytes"])
        _set_text(info, "memory_kind", args.get("memory_kind"))
        _set(info, "value", args.get("value"))
    complete(device)


def memory_event(row: Row, start: int, pid: int, tid: int, args: Args) -> ProtobufMessage:
    """Return a MemTraceEventNodeProto. Its type follows from the row's name, else from the sign of its bytes."""
    node = messages("nodetree")["MemTraceEventNodeProto"]()
    event = node.mem_event
    size = row["bytes"] or 0
    event.timestamp_ns = start
    if row["name"] in MEMORY_TYPES:
        event.type = MEMORY_TYPES.index(row["name"])
    else:
        event.type = int(size < 0)
    event.process_id, event.thread_id, event.increase_bytes = pid, tid, size
    _set(event, "addr", args.get("addr"))
    _set_text(event, "place", args.get("place"))
    for name in _MEMORY_ARGS:
        _set(event, name, args.get(name))
    return complete(node)


def supplements(args: Args, start: int, pid: int, tid: int) -> list[ProtobufMessage]:
    """Return OperatorSupplementEventNodeProto messages of a range, from the args that Paddle's readers write."""
    found = [args] if isinstance(args.get("input_shapes"), dict) else []
    more = args.get("supplements")
    found += [item for item in more if isinstance(item, dict)] if isinstance(more, list) else []
    return [_supplement(item, start, pid, tid) for item in found]


def _supplement(args: Args, start: int, pid: int, tid: int) -> ProtobufMessage:
    node = messages("nodetree")["OperatorSupplementEventNodeProto"]()
    event = node.op_supplement_event
    event.process_id, event.thread_id = pid, tid
    event.timestamp_ns = unsigned(args.get("supplement_ns")) or start
    _set_text(event, "op_type", args.get("op_type"))
    _set_text(event, "callstack", args.get("callstack"))
    _set(event, "op_id", args.get("op_id"))
    shapes, dtypes = args.get("input_shapes"), args.get("input_dtypes")
    event.input_shapes.SetInParent()
    event.dtypes.SetInParent()
    for key, lists in shapes.items() if isinstance(shapes, dict) else ():
        vector = event.input_shapes.shape_vecs.add()
        event.input_shapes.key.append(str(key).encode())
        for sizes in lists if isinstance(lists, list) else ():
            shape = vector.shapes.add()
            shape.size.extend(
                n for n in (sizes if isinstance(sizes, list) else ()) if isinstance(n, int) and abs(n) < 1 << 63
            )
    for key, words in dtypes.items() if isinstance(dtypes, dict) else ():
        event.dtypes.key.append(str(key).encode())
        vector = event.dtypes.dtype_vecs.add()
        vector.dtype.extend(str(w).encode() for w in (words if isinstance(words, list) else ()))
    return complete(node)


# Long messages in pieces: incomplete messages wait in a temporary file, not in memory.
#
# Each protobuf message begins with its length, so an outer message can be written only when its last inner one is
# known.


HELD_BYTES = 1 << 16
_COPY_BYTES = 1 << 20


class MessagePieces:
    """Bytes in order. Bytes beyond 64 KiB are in `spool`, a file that several objects share."""

    __slots__ = ("_held", "_held_bytes", "_places", "_spool", "size")

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._places: list[tuple[int, int]] = []
        self._held: list[bytes] = []
        self._held_bytes = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        """Append bytes."""
        self._held.append(data)
        self._held_bytes += len(data)
        self.size += len(data)
        if self._held_bytes > HELD_BYTES:
            self._store()

    def message(self, number: int, inner: MessagePieces | bytes) -> None:
        """Append a field that holds a message."""
        if isinstance(inner, bytes):
            self.add(delimited(number, inner))
            return
        self.add(varint(number << 3 | 2) + varint(inner.size))
        self.append(inner)

    def append(self, inner: MessagePieces) -> None:
        """Append the bytes of another object with the same spool; `inner` must not be used any more."""
        if inner._places:
            self._store()
            self._places += inner._places
            self.size += inner.size - inner._held_bytes
        for data in inner._held:
            self.add(data)

    def _store(self) -> None:
        if not self._held:
            return
        data = b"".join(self._held)
        place = self._spool.seek(0, 2)
        self._spool.write(data)
        if self._places and sum(self._places[-1]) == place:
            self._places[-1] = (self._places[-1][0], self._places[-1][1] + len(data))
        else:
            self._places.append((place, len(data)))
        self._held, self._held_bytes = [], 0

    def copy_to(self, out: BinaryIO) -> None:
        """Write all bytes."""
        for place, length in self._places:
            self._spool.seek(place)
            left = length
            while left:
                data = self._spool.read(min(left, _COPY_BYTES))
                left -= len(data)
                out.write(data)
        out.write(b"".join(self._held))


# Nested nodes from the ranges of each thread: one pass in order of start, many threads at once.
#
# Memory is bounded by the open ranges.
#
# A node is written when a later row shows that it has ended, so children come before their parents. Paddle joins nodes
# by
# id and parentid, not by place (deserialization_reader.cc), and sorts children by id, which is the order of start.


HOST_NODE, CALL, MEMORY, SUPPLEMENT = 2, 4, 5, 6
"""Field numbers: host_nodes of a tree; runtime_nodes, mem_nodes and op_supplement_nodes of a node."""


@dataclass(slots=True)
class _OpenRange:
    start: int
    end: int
    number: int
    pieces: MessagePieces


@dataclass(slots=True)
class NodeTree:
    """The nodes of one thread. `crossing`: ranges that overlap another without lying within it."""

    thread: int
    spool: BinaryIO
    nodes: MessagePieces = dataclass_field(init=False)
    root: MessagePieces = dataclass_field(init=False)
    crossing: int = 0
    _open: list[_OpenRange] = dataclass_field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self.nodes, self.root = MessagePieces(self.spool), MessagePieces(self.spool)

    def add_range(self, start: int, end: int, event: ProtobufMessage, inner: list[ProtobufMessage]) -> None:
        """Open a node; ranges come by (start, -end)."""
        self._close_before(start)
        parent = next((o for o in reversed(self._open) if o.end >= end and (o.end > start or o.start == start)), None)
        if self._open and parent is not self._open[-1] and self._open[-1].end > start:
            self.crossing += 1
        self._count += 1
        pieces = MessagePieces(self.spool)
        # id, parentid, host_trace_event: the fields of a node in the order of their numbers.
        pieces.add(varint(1 << 3) + varint(self._count) + varint(2 << 3) + varint(parent.number if parent else 0))
        pieces.message(3, event.SerializeToString())
        for supplement in inner:
            pieces.message(SUPPLEMENT, supplement.SerializeToString())
        self._open.append(_OpenRange(start, end, self._count, pieces))

    def add_inner(self, start: int, end: int, number: int, message: ProtobufMessage) -> None:
        """Add a call or an allocation to the innermost node that contains it, else to the root."""
        self._close_before(start)
        owner = next((o.pieces for o in reversed(self._open) if o.start <= start and end <= o.end), self.root)
        owner.message(number, message.SerializeToString())

    def _close_before(self, start: int) -> None:
        """Write nodes that ended before `start`. A node that ends at `start` may still contain an allocation then."""
        while self._open and self._open[-1].end < start:
            self.nodes.message(HOST_NODE, self._open.pop().pieces)

    def finish(self) -> MessagePieces:
        """Return the ThreadNodeTreeProto. Its first node is a root, as in the files of Paddle."""
        while self._open:
            self.nodes.message(HOST_NODE, self._open.pop().pieces)
        event = messages("nodetree")["HostTraceEventProto"](
            name=b"root node",
            type=TREE_TYPES.index("UserDefined"),
            start_ns=0,
            end_ns=(1 << 64) - 1,
            process_id=0,
            thread_id=0,
        )
        root = MessagePieces(self.spool)
        root.add(varint(1 << 3) + varint(0) + varint(2 << 3) + varint(-1))
        root.message(3, event.SerializeToString())
        root.append(self.root)
        tree = MessagePieces(self.spool)
        tree.add(varint(1 << 3) + varint(self.thread))
        tree.message(HOST_NODE, root)
        tree.append(self.nodes)
        return tree


_COLUMN_NAMES = """
    ts_ns dur_ns name kind source pid tid device context stream correlation bytes copy_kind grid_x grid_y grid_z block_x
    block_y block_z registers static_smem_bytes dynamic_smem_bytes args
"""
_COLUMNS = tuple(_COLUMN_NAMES.split())


def _plain_field(field: pa.Field[pa.DataType]) -> pa.Field[pa.DataType]:
    return pa.field(field.name, pa.string()) if pa.types.is_dictionary(field.type) else field


_PLAIN = pa.schema([_plain_field(schema.EVENTS.field(name)) for name in _COLUMNS])
"""The columns in use, with plain texts instead of dictionaries."""
_NO_PLACE = ("rank", "value")
_CHUNK_ROWS = 1 << 13
_NAME_BYTES = 255
"""Paddle copies the name of a device into 256 bytes without checking its length."""

ThreadKey: TypeAlias = tuple[int, int | None, int]
"""(source, pid, tid)."""


@dataclass(slots=True)
class _PaddlePbState:
    """The state of both passes: the trees, and counts for the notes."""

    written: Written
    origin: int
    run: Run
    spool: BinaryIO
    devices: DeviceRows
    trees: dict[ThreadKey, NodeTree] = dataclass_field(default_factory=dict)
    threads: set[int] = dataclass_field(default_factory=set)
    lost: set[str] = dataclass_field(default_factory=set)
    renamed: int = 0
    recast: int = 0
    threadless: int = 0
    orphans: int = 0

    def tree(self, source: int, pid: int | None, tid: int) -> NodeTree:
        key = (source, pid, tid)
        if key not in self.trees:
            thread = unsigned(tid)
            if thread is None or thread in self.threads:
                self.renamed += 1
                thread = max(self.threads, default=0) + 1
                while thread in self.threads or thread >= 1 << 64:
                    thread = (thread + 1) % (1 << 64)
            self.threads.add(thread)
            self.trees[key] = NodeTree(thread, self.spool)
        return self.trees[key]


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    written = Written(target)
    with new_file(target, force=options.force) as out, scratch_folder() as folder:
        rows = folder / "rows.arrow"
        devices = DeviceRows(folder / "devices.arrow")
        try:
            with scratch_file(folder / "pieces") as spool:
                state = _PaddlePbState(written, 0, stream.run, spool, devices)
                with StoredRows(rows, _PLAIN) as store:
                    for batch in stream.batches:
                        if kept := _host_part(batch, state):
                            store.write_batch(kept)
                state.origin = stream.run.origin_ns or 0
                devices.seal()
                for chunk in _stored(rows):
                    _host_rows(chunk, state)
                _orphans(state)
                _assemble(out, state)
        finally:
            devices.close()
    _add_notes(state)
    return written


def _host_part(batch: pa.RecordBatch, state: _PaddlePbState) -> pa.RecordBatch | None:
    """Return the host rows, store device work, and count the rows that a tree cannot hold by reason."""
    written = state.written
    if schema.is_totals(batch):
        written.leave_out("totals have no place in a tree", batch.num_rows)
        return None
    for name in _NO_PLACE:
        if batch.column(name).null_count < batch.num_rows:
            state.lost.add(name)
    arrays = [pc.cast(batch.column(field.name), field.type) for field in _PLAIN]
    plain = pa.RecordBatch.from_arrays(arrays, schema=_PLAIN)
    kind: Column = plain.column("kind")
    dur: Column = plain.column("dur_ns")
    in_step = pc.and_(arrow.array(arrow.valid(batch.column("step"))), pc.not_equal(kind, "step"))
    if arrow.count(in_step):
        state.lost.add("step")
    keep = arrow.array([True] * plain.num_rows)
    for unsupported in (Kind.COUNTER, Kind.MARK, Kind.FLOW):
        keep = _count(written, keep, pc.not_equal(kind, str(unsupported)), f"kind {unsupported}")
    memory = pc.equal(kind, str(Kind.MEMORY))
    has_dur = pc.or_(memory, arrow.array(arrow.valid(dur)))
    keep = _count(written, keep, has_dur, "no duration")
    keep = _count(written, keep, pc.or_(memory, pc.greater_equal(pc.fill_null(dur, 0), 0)), "negative duration")
    device = pc.is_in(kind, value_set=arrow.array([str(k) for k in DEVICE_WORK]))
    call = pc.is_in(kind, value_set=arrow.array([str(k) for k in CALLS[:2]]))
    has_thread = pc.or_(pc.or_(device, call), arrow.array(arrow.valid(plain.column("tid"))))
    keep = _count(written, keep, has_thread, "no thread: it overlaps others, or its thread is not known")
    origin = state.run.origin_ns or 0
    keep = _count(written, keep, pc.greater_equal(plain.column("ts_ns"), -origin), "starts before the clock's zero")
    device_rows = plain.filter(pc.and_(keep, device))
    if device_rows.num_rows:
        state.devices.put(device_rows)
    return plain.filter(pc.and_(keep, pc.invert(device)))


def _count(written: Written, keep: Column, good: Column, reason: str) -> Column:
    written.leave_out(reason, arrow.count(pc.and_(keep, pc.invert(good))))
    return pc.and_(keep, good)


def _stored(path: Path) -> Iterator[list[Row]]:
    for batch in stored_rows(path):
        for start in range(0, batch.num_rows, _CHUNK_ROWS):
            yield batch.slice(start, _CHUNK_ROWS).to_pylist()


def _host_rows(chunk: list[Row], state: _PaddlePbState) -> None:
    work: dict[int, list[int]] = {}
    for at, row in enumerate(chunk):
        if row["kind"] in CALLS and row["correlation"] is not None:
            work[at] = state.devices.taken_by(row["source"], row["correlation"], row["pid"])
    found = state.devices.rows([number for numbers in work.values() for number in numbers])
    for at, row in enumerate(chunk):
        _host_row(row, [found[number] for number in work.get(at, ())], state)
    state.written.events += len(chunk)


def _host_row(row: Row, work: list[Row], state: _PaddlePbState) -> None:
    start = row["ts_ns"] + state.origin
    if row["tid"] is None:
        state.threadless += 1
    tree = state.tree(row["source"], row["pid"], row["tid"] or 0)
    pid, args = unsigned(row["pid"]) or 0, args_of(row["args"])
    if row["kind"] == Kind.MEMORY:
        _note_lost(state, args, MEMORY_ARGS)
        tree.add_inner(start, start, MEMORY, memory_event(row, start, pid, tree.thread, args))
    elif row["kind"] in CALLS:
        _note_lost(state, args, {"callback_id"})
        node = call_event(row["name"] or "", start, row["dur_ns"], pid, tree.thread, row["correlation"])
        if (number := unsigned(args.get("callback_id"))) is not None:
            node.runtime_trace_event.callback_id = number
        for device_row in work:
            _add_device(node, device_row, state)
        tree.add_inner(start, start + row["dur_ns"], CALL, node)
    else:
        _note_lost(state, args, SUPPLEMENT_ARGS | {"type", "supplements"})
        if row["kind"] in (Kind.OVERHEAD, Kind.OTHER) or "type" in args:
            state.recast += 1
        event = host_event(row, start, pid, tree.thread, host_type(row))
        tree.add_range(start, start + row["dur_ns"], event, supplements(args, start, pid, tree.thread))


def _add_device(node: ProtobufMessage, row: Row, state: _PaddlePbState) -> None:
    args = args_of(row["args"])
    _note_lost(state, args, DEVICE_ARGS)
    add_device(node, row, row["ts_ns"] + state.origin, args)
    state.written.events += 1


def _note_lost(state: _PaddlePbState, args: Args, known: set[str] | frozenset[str]) -> None:
    if args.keys() - known:
        state.lost.add("args")


def _orphans(state: _PaddlePbState) -> None:
    """Add device work without a launch to empty calls of thread 0."""
    for row in state.devices.orphans():
        start = row["ts_ns"] + state.origin
        tree = state.tree(row["source"], None, 0)
        node = call_event(STAND_IN, start, 0, unsigned(row["pid"]) or 0, tree.thread, row["correlation"])
        _add_device(node, row, state)
        tree.root.message(CALL, node.SerializeToString())
        state.orphans += 1


def _assemble(out: BinaryIO, state: _PaddlePbState) -> None:
    facts: Args = next((s.facts for s in state.run.sources if s.format == "paddle-pb"), {})
    whole = MessagePieces(state.spool)
    whole.message(1, b"1.0.2")
    whole.add(varint(2 << 3) + varint(unsigned(facts.get("span_indx")) or 0))
    for tree in state.trees.values():
        whole.message(3, tree.finish())
    info = facts.get("extra_info")
    pairs = {str(k): str(v) for k, v in info.items()} if isinstance(info, dict) else {}
    for (source, pid, tid), name in state.run.threads.items():
        named = state.trees.get((source, pid, tid))
        if named is not None:
            pairs[str(named.thread)] = name
    classes = messages("nodetree")
    for key, value in pairs.items():
        message = classes["ExtraInfoMap"](key=key.encode("utf-8", "replace"), value=value.encode("utf-8", "replace"))
        whole.message(4, message.SerializeToString())
    whole.copy_to(out)
    for device in _device_properties(state.run, facts):
        out.write(delimited(5, device.SerializeToString()))


def _device_properties(run: Run, facts: Args) -> Iterator[ProtobufMessage]:
    kind = messages("nodetree")["DevicePropertyProto"]
    known = {f.name for f in kind.DESCRIPTOR.fields}
    listed = facts.get("device_properties")
    seen: set[int] = set()
    for values in listed if isinstance(listed, list) else ():
        number = unsigned(values.get("id")) if isinstance(values, dict) else None
        if number is None:
            continue
        seen.add(number)
        device = kind(name=_device_name(str(values.get("name", ""))))
        for key, value in values.items():
            if key in known and key != "name" and unsigned(value) is not None:
                setattr(device, key, value)
        yield complete(device)
    for (_, ordinal), name in run.devices.items():
        if unsigned(ordinal) is not None and ordinal not in seen:
            seen.add(ordinal)
            yield complete(kind(id=ordinal, name=_device_name(name)))


def _device_name(name: str) -> bytes:
    return name.encode("utf-8", "replace")[:_NAME_BYTES].decode("utf-8", "ignore").encode()


def _add_notes(state: _PaddlePbState) -> None:
    notes = state.written.notes
    if state.run.origin_ns is None and state.written.events:
        notes.append("the trace has no wall clock: times count from the zero of the trace")
    if state.orphans:
        notes.append(
            f"{state.orphans:,} kernels and copies have no launch in the trace: each is under an empty call in thread 0"
        )
    if state.threadless:
        notes.append(f"{state.threadless:,} calls without a known thread are in thread 0")
    if state.recast:
        notes.append(f"{state.recast:,} ranges of types that Paddle cannot load became UserDefined or OperatorInner")
    crossing = sum(tree.crossing for tree in state.trees.values())
    if crossing:
        notes.append(f"{crossing:,} ranges overlap another range of their thread in part: they are not nested in it")
    if state.renamed:
        notes.append(f"{state.renamed:,} threads have the same id as a thread of another process: they got new ones")
    if state.lost:
        notes.append(f"a tree has no place for: {', '.join(sorted(state.lost))}")

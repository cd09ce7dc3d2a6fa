"""Messages of Paddle's trees from rows of EVENTS. Rows are dicts, `args` is the parsed object."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from typing import TypeAlias

from tracekit.messages import (
    DEVICE_TYPES_BY_KIND,
    HOST_TYPES_BY_KIND,
    MEMORY_TYPES,
    TREE_TYPES,
    ProtobufMessage,
    messages,
)
from tracekit.model.schema import Kind
from tracekit.writers.paddle._device_rows import Row

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

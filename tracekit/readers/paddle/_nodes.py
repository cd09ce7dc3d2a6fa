"""Columns from the nodes of Paddle's trees: device work, supplements, allocations. Messages are decoded already."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from tracekit.messages import MEMORY_TYPES, TREE_TYPES, ProtobufMessage
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger
from tracekit.readers.engine.protobuf import INT32_MAX, INT64_MAX, plain

# Kinds of event types, for the readers of both exports of paddle.profiler: JSON and protobuf.
#
# Source: TracerEventType in trace_event.h of Paddle 2.2 to 3.3, as both exports of the same runs have it.


KIND_OF_TYPE: Mapping[str, Kind] = MappingProxyType(
    {
        "Operator": Kind.OPERATOR,
        "Dataloader": Kind.DATALOADER,
        "ProfileStep": Kind.STEP,
        "CudaRuntime": Kind.RUNTIME,
        "Kernel": Kind.KERNEL,
        "Memcpy": Kind.MEMCPY,
        "Memset": Kind.MEMSET,
        "UserDefined": Kind.USER_RANGE_NATIVE,
        "OperatorInner": Kind.OPERATOR_INNER,
        "Forward": Kind.FORWARD,
        "Backward": Kind.BACKWARD,
        "Optimization": Kind.OPTIMIZER,
        "Communication": Kind.COMMUNICATION,
        "PythonOp": Kind.PYTHON_OP,
        "PythonUserDefined": Kind.USER_RANGE,
        "DygraphKernelLaunch": Kind.OPERATOR_INNER,
        "StaticKernelLaunch": Kind.OPERATOR_INNER,
        "MluRuntime": Kind.RUNTIME,
        "Allocate": Kind.MEMORY,
        "Free": Kind.MEMORY,
        "ReservedAllocate": Kind.MEMORY,
        "ReservedFree": Kind.MEMORY,
    }
)
"""The type (in JSON the `cat`) of an event to its kind. The name of a memory row is its type."""


LAUNCHES = frozenset({"DygraphKernelLaunch", "StaticKernelLaunch"})
"""Types that share a kind with another one; their rows keep the type in `args`."""


def step_number(name: str) -> int | None:
    """Return the number of a step from its name, None if it has none.

    >>> step_number("ProfileStep#12")
    12
    """
    digits = name.rpartition("#")[2]
    return int(digits) if name.startswith("ProfileStep#") and digits.isdecimal() and len(digits) < 10 else None


def copy_kind(text: str) -> str | None:
    """Return the direction of a copy in the words of other formats: Paddle writes `MEMCPY_HtoD`."""
    return text.removeprefix("MEMCPY_") or None


SHAPE_COLUMNS = (
    "block_x",
    "block_y",
    "block_z",
    "grid_x",
    "grid_y",
    "grid_z",
    "dynamic_smem_bytes",
    "static_smem_bytes",
    "registers",
)
_SHAPE_FIELDS = (*SHAPE_COLUMNS[:6], "dynamic_shared_memory", "static_shared_memory", "registers_per_thread")
_MEMORY_ARGS = ("addr", "place", "current_allocated", "current_reserved", "peak_allocated", "peak_reserved")

Row = tuple[object, ...]
Args = dict[str, object]


def kind_of(number: int) -> Kind:
    """Return the kind of a type number; `other` for one that is not in the list."""
    return KIND_OF_TYPE[TREE_TYPES[number]] if 0 <= number < len(TREE_TYPES) else Kind.OTHER


def runtime_kind(name: bytes) -> str:
    """Return driver for calls of the driver API (cuLaunchKernel), else runtime: Paddle keeps both in one message."""
    driver = name.startswith(b"cu") and name[2:3].isupper()
    return str(Kind.DRIVER if driver else Kind.RUNTIME)


def device_row(event: ProtobufMessage, ledger: Ledger) -> tuple[Row, Args] | None:
    """Return (kind, correlation, bytes, copy_kind, *SHAPE_COLUMNS) of a DeviceTraceEventProto, and its args.

    None: a number is larger than a trace can hold.
    """
    kind = kind_of(event.type)
    args: Args = {}
    if kind not in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET):
        args["type"] = event.type
    shape: list[int | None] = [None] * len(_SHAPE_FIELDS)
    size: int | None = None
    copy: str | None = None
    if event.HasField("kernel_info"):
        info = event.kernel_info
        # Every field is required, so 0 may mean "not known": a grid of 0 means that the message has no shape.
        known = info.grid_x > 0 or info.block_x > 0
        shape = [getattr(info, key) if info.HasField(key) and known else None for key in _SHAPE_FIELDS]
        for descriptor, value in info.ListFields():
            if descriptor.name not in _SHAPE_FIELDS and value:
                args[descriptor.name] = _shortest(value) if isinstance(value, float) else value
    if event.HasField("memcpy_info"):
        info = event.memcpy_info
        size = info.num_bytes if info.HasField("num_bytes") else None
        raw = plain(info.copy_kind, ledger)
        copy = copy_kind(raw)
        if raw and not raw.startswith("MEMCPY_"):
            args["copy_kind"] = raw
        args |= {key: plain(getattr(info, key), ledger) for key in ("src_kind", "dst_kind") if getattr(info, key)}
    if event.HasField("memset_info"):
        info = event.memset_info
        size = info.num_bytes if info.HasField("num_bytes") else None
        if info.memory_kind:
            args["memory_kind"] = plain(info.memory_kind, ledger)
        if info.value:
            args["value"] = info.value
    narrow = [event.device_id, *(value for value in (*shape[:6], shape[8]) if value is not None)]
    wide = [event.correlation_id, size or 0, shape[6] or 0, shape[7] or 0]
    if max(narrow) > INT32_MAX or max(wide) > INT64_MAX:
        return None
    return (str(kind), event.correlation_id, size, copy, *shape), args


def _shortest(value: float) -> float | None:
    """Return a float32 with as few digits as identify it; None for one that is not finite."""
    return float(str(np.float32(value))) if np.isfinite(value) else None


def supplement(event: ProtobufMessage, ledger: Ledger) -> Args:
    """Return the contents of an OperatorSupplementEventProto, under the names of Paddle's JSON export."""
    shapes, dtypes = event.input_shapes, event.dtypes
    found: Args = {
        "input_shapes": {
            plain(key, ledger): [list(shape.size) for shape in vector.shapes]
            for key, vector in zip(shapes.key, shapes.shape_vecs, strict=False)
        },
        "input_dtypes": {
            plain(key, ledger): [plain(dtype, ledger) for dtype in vector.dtype]
            for key, vector in zip(dtypes.key, dtypes.dtype_vecs, strict=False)
        },
        "callstack": plain(event.callstack, ledger),
    }
    if event.op_type:
        found["op_type"] = plain(event.op_type, ledger)
    if event.HasField("op_id"):
        found["op_id"] = event.op_id
    if event.HasField("timestamp_ns"):
        found["supplement_ns"] = event.timestamp_ns
    return found


def memory_args(event: ProtobufMessage, ledger: Ledger) -> tuple[bytes, Args]:
    """Return the name of a MemTraceEventProto, which is its type, and its args."""
    args: Args = {key.name: value for key, value in event.ListFields() if key.name in _MEMORY_ARGS and value}
    if "place" in args:
        args["place"] = plain(event.place, ledger)
    number = event.type
    if 0 <= number < len(MEMORY_TYPES):
        return MEMORY_TYPES[number].encode(), args
    return f"memory type {number}".encode(), args | {"type": number}

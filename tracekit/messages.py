"""Protobuf messages of Paddle, pprof, XPlane and XLA, built at run time from tables, for readers and writers.

`nodetree` is `*.paddle_trace.pb` (paddle.profiler, export_protobuf), `profile` the file of the older fluid profiler,
`pprof` profile.proto of google/pprof, `xplane` the parts of an XSpace (tsl/profiler/protobuf/xplane.proto), `hlo` the
parts of a compiled program (xla/service/hlo.proto, xla/xla_data.proto).
Sources: the descriptors inside paddlepaddle 2.6.2 and 1.8.5, and files of 1.8.5, 2.6.2 and 3.3.1.

The tables name fields, numbers and wire types. Strings are declared as bytes, because a name in a file need not be
UTF-8, and enumerations as integers, because a newer Paddle may have more of them: both are the same on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self

__all__ = [
    "DEVICE_TYPES_BY_KIND",
    "EVENT_TYPES",
    "HOST_TYPES_BY_KIND",
    "MEMORY_TYPES",
    "PLACES",
    "STAND_IN",
    "TREE_TYPES",
    "ProtobufMessage",
    "messages",
]

_TREE_TYPES = """
    Operator Dataloader ProfileStep CudaRuntime Kernel Memcpy Memset UserDefined OperatorInner Forward Backward
    Optimization Communication PythonOp PythonUserDefined DygraphKernelLaunch StaticKernelLaunch
"""
TREE_TYPES = tuple(_TREE_TYPES.split())
"""TracerEventType, by number, of Paddle 3. 15 was MluRuntime in some 2.x, which no host node of a file ever had."""

HOST_TYPES_BY_KIND: Mapping[str, str] = MappingProxyType(
    {
        "operator": "Operator",
        "dataloader": "Dataloader",
        "step": "ProfileStep",
        "user_range_native": "UserDefined",
        "operator_inner": "OperatorInner",
        "forward": "Forward",
        "backward": "Backward",
        "optimizer": "Optimization",
        "communication": "Communication",
        "python_op": "PythonOp",
        "user_range": "PythonUserDefined",
    }
)
"""The type of a range on the host by `schema.Kind`, which a training program does not load."""

DEVICE_TYPES_BY_KIND: Mapping[str, str] = MappingProxyType({"kernel": "Kernel", "memcpy": "Memcpy", "memset": "Memset"})

MEMORY_TYPES = ("Allocate", "Free", "ReservedAllocate", "ReservedFree")
"""TracerMemEventType, by number."""

PLACES = ("CUDAPlace", "CPUPlace", "CUDAPinnedPlace", "XPUPlace", "NPUPlace")
"""MemEvent.Place of `profile`, by number."""

EVENT_TYPES = ("CPU", "GPUKernel", "NPUKernel")
"""Event.EventType of `profile`, by number."""

STAND_IN = "(launch not in the trace)"
"""Name of the empty runtime call that our writer makes for device work without a launch: the format needs one."""

_NODETREE = """
NodeTreesProto = version 1 string, span_indx 2 uint, thread_trees 3 *ThreadNodeTreeProto, extra_info 4 *ExtraInfoMap,
    device_property 5 *DevicePropertyProto
ThreadNodeTreeProto = thread_id 1 uint, host_nodes 2 *HostTraceEventNodeProto
HostTraceEventNodeProto = id 1 int, parentid 2 int, host_trace_event 3 HostTraceEventProto,
    runtime_nodes 4 *CudaRuntimeTraceEventNodeProto, mem_nodes 5 *MemTraceEventNodeProto,
    op_supplement_nodes 6 *OperatorSupplementEventNodeProto
HostTraceEventProto = name 1 string, type 2 int, start_ns 3 uint, end_ns 4 uint, process_id 5 uint, thread_id 6 uint
CudaRuntimeTraceEventNodeProto = runtime_trace_event 1 CudaRuntimeTraceEventProto,
    device_nodes 2 *DeviceTraceEventNodeProto
CudaRuntimeTraceEventProto = name 1 string, start_ns 2 uint, end_ns 3 uint, process_id 4 uint, thread_id 5 uint,
    correlation_id 6 uint, callback_id 7 uint
DeviceTraceEventNodeProto = device_event 1 DeviceTraceEventProto
DeviceTraceEventProto = name 1 string, type 2 int, start_ns 3 uint, end_ns 4 uint, device_id 5 uint, context_id 6 uint,
    stream_id 7 uint, correlation_id 8 uint, kernel_info 9 KernelEventInfoProto, memcpy_info 10 MemcpyEventInfoProto,
    memset_info 11 MemsetEventInfoProto
KernelEventInfoProto = block_x 1 uint, block_y 2 uint, block_z 3 uint, grid_x 4 uint, grid_y 5 uint, grid_z 6 uint,
    dynamic_shared_memory 7 uint, static_shared_memory 8 uint, registers_per_thread 9 uint,
    local_memory_per_thread 10 uint, local_memory_total 11 uint, queued 12 uint, submitted 13 uint, completed 14 uint,
    blocks_per_sm 15 float, warps_per_sm 16 float, occupancy 17 float
MemcpyEventInfoProto = num_bytes 1 uint, copy_kind 2 string, src_kind 3 string, dst_kind 4 string
MemsetEventInfoProto = num_bytes 1 uint, memory_kind 2 string, value 3 uint
MemTraceEventNodeProto = mem_event 1 MemTraceEventProto
MemTraceEventProto = timestamp_ns 1 uint, type 2 int, addr 3 uint, process_id 4 uint, thread_id 5 uint,
    increase_bytes 6 int, place 7 string, current_allocated 8 uint, current_reserved 9 uint, peak_allocated 10 uint,
    peak_reserved 11 uint
OperatorSupplementEventNodeProto = op_supplement_event 1 OperatorSupplementEventProto
OperatorSupplementEventProto = timestamp_ns 1 uint, op_type 2 string, process_id 3 uint, thread_id 4 uint,
    input_shapes 5 InputShapeMap, dtypes 6 DtypeMap, callstack 7 string, op_id 8 uint
InputShapeMap = key 1 *string, shape_vecs 2 *ShapeVec
ShapeVec = shapes 1 *Shape
Shape = size 1 *int
DtypeMap = key 1 *string, dtype_vecs 2 *DtypeVec
DtypeVec = dtype 1 *string
ExtraInfoMap = key 1 string, value 2 string
DevicePropertyProto = id 1 uint, name 2 string, total_global_memory 3 uint, compute_major 4 uint, compute_minor 5 uint,
    max_threads_per_block 6 uint, max_threads_per_multiprocessor 7 uint, regs_per_block 8 uint,
    regs_per_multiprocessor 9 uint, warp_size 10 uint, shared_memory_per_block 11 uint,
    shared_memory_per_multiprocessor 12 uint, sm_count 13 uint, shared_memory_per_block_optin 14 uint
"""
_PROFILE = """
Profile = events 1 *Event, start_ns 2 uint, end_ns 3 uint, mem_events 4 *MemEvent
Event = name 1 string, start_ns 2 uint, end_ns 3 uint, device_id 5 int, sub_device_id 6 int, memcopy 7 MemCopy,
    type 8 int, detail_info 9 string
MemCopy = bytes 1 uint, bytes_of_the_draft 3 uint
MemEvent = start_ns 1 uint, end_ns 2 uint, bytes 3 uint, place 4 int, thread_id 5 uint, device_id 6 int,
    alloc_in 7 string, free_in 8 string
"""
_PPROF = """
Profile = sample_type 1 *ValueType, sample 2 *Sample, mapping 3 *Mapping, location 4 *Location, function 5 *Function,
    string_table 6 *string, time_nanos 9 int, duration_nanos 10 int, period_type 11 ValueType, period 12 int,
    default_sample_type 14 int
ValueType = type 1 int, unit 2 int
Sample = location_id 1 *uint, value 2 *int
Mapping = id 1 uint, filename 5 int
Location = id 1 uint, mapping_id 2 uint, address 3 uint, line 4 *Line
Line = function_id 1 uint, line 2 int
Function = id 1 uint, name 2 int, system_name 3 int
"""
_XPLANE = """
XLine = id 1 int, name 2 string, timestamp_ns 3 int, events 4 *string
XLineHead = id 1 int, name 2 string, timestamp_ns 3 int
XEvent = metadata_id 1 int, offset_ps 2 int, duration_ps 3 int, stats 4 *string, num_occurrences 5 int
XStat = metadata_id 1 int, double_value 2 double, uint64_value 3 uint, int64_value 4 int, str_value 5 string,
    bytes_value 6 string, ref_value 7 uint
EventEntry = key 1 int, value 2 Named
StatEntry = key 1 int, value 2 Named
Named = id 1 int, name 2 string, display_name 4 string, stats 5 *string
MemoryBreakdown = accessed 1 *MemoryAccessed
MemoryAccessed = operation 1 int, space 2 uint, bytes 3 int
"""
"""Events and stats are bytes here: they are decoded as columns."""
_HLO = """
HloProto = hlo_module 1 HloModule
HloModule = name 1 string, computations 3 *HloComputation, id 5 int, entry_computation_id 6 int, schedule 7 HloSchedule
HloSchedule = sequences 1 *HloScheduled
HloScheduled = key 1 int, value 2 HloSequence
HloSequence = instruction_ids 1 *int
HloComputation = name 1 string, instructions 2 *HloInstruction, id 5 int, root_id 6 int
HloInstruction = name 1 string, opcode 2 string, shape 3 HloShape, metadata 7 HloMetadata, parameter_number 9 int,
    tuple_index 13 int, window 15 HloWindow, convolution 16 HloConvolution, custom_call_target 28 string, dot 30 HloDot,
    id 35 int, operand_ids 36 *int, called_computation_ids 38 *int, backend_config 43 string,
    feature_group_count 50 int, batch_group_count 58 int
HloMetadata = op_name 2 string
HloShape = element_type 2 int, dimensions 3 *int, tuple_shapes 4 *HloShape
HloWindow = dimensions 1 *HloWindowDimension
HloWindowDimension = size 1 int, base_dilation 6 int
HloConvolution = kernel_input_feature 3 int, kernel_output_feature 4 int, kernel_spatial 6 *int
HloDot = lhs_contracting 1 *int, rhs_contracting 2 *int, lhs_batch 3 *int, rhs_batch 4 *int
"""
_TABLES = MappingProxyType(
    {"nodetree": _NODETREE, "profile": _PROFILE, "pprof": _PPROF, "xplane": _XPLANE, "hlo": _HLO}
)


class ProtobufMessage(Protocol):
    """A message of protobuf. Its fields are attributes, with the names of the tables."""

    DESCRIPTOR: ClassVar[Any]

    def __init__(self, **fields: object) -> None: ...

    def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: object) -> None: ...

    @classmethod
    def FromString(cls, data: bytes) -> Self:
        """Return the message that the bytes hold."""

    def SerializeToString(self) -> bytes:
        """Return the message as bytes."""


@lru_cache(maxsize=8)
def messages(table: str) -> dict[str, type[ProtobufMessage]]:
    """Return the message classes of one of the tables ("nodetree", "xplane", ...) by name, in a pool of our own."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    scalars = {
        "string": kinds.TYPE_BYTES,
        "uint": kinds.TYPE_UINT64,
        "int": kinds.TYPE_INT64,
        "float": kinds.TYPE_FLOAT,
        "double": kinds.TYPE_DOUBLE,
    }
    package = f"tracekit.{table}"
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    text = _TABLES[table].replace(",\n", ", ")
    for line in text.strip().splitlines():
        name, fields = line.split(" = ")
        message = file.message_type.add(name=name)
        for word in fields.split(","):
            field_name, number, kind = word.split()
            field = message.field.add(name=field_name, number=int(number), label=kinds.LABEL_OPTIONAL)
            if kind.startswith("*"):
                field.label = kinds.LABEL_REPEATED
                kind = kind[1:]
            if kind in scalars:
                field.type = scalars[kind]
            else:
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found: Any = message_factory.GetMessageClassesForFiles([file.name], pool)
    return {full.rpartition(".")[2]: cls for full, cls in found.items()}

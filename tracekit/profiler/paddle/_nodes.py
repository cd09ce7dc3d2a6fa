"""The trees of ranges that Paddle's result objects give: `get_data` and what goes with it.

The trace is written as Paddle's protobuf, whose trees these are, and read back: so the nodes of a window, of a loaded
file and of an exported one are the same.
Source: paddle/fluid/pybind/pybind.cc (HostPythonNode and its kind), Paddle 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tracekit.profiler.paddle._record_event import TracerEventType, TracerMemEventType
from tracekit.safety.scratch import scratch_folder, writing

if TYPE_CHECKING:
    from tracekit.messages import ProtobufMessage
    from tracekit.model.trace import Trace

ROOT_END_NS: Final = (1 << 64) - 1


@dataclass(slots=True)
class DeviceNode:
    """A kernel, copy or fill. Times are ns; a field that its type does not have is 0."""

    name: str
    type: TracerEventType
    start_ns: int
    end_ns: int
    device_id: int
    context_id: int
    stream_id: int
    correlation_id: int
    block_x: int = 0
    block_y: int = 0
    block_z: int = 0
    grid_x: int = 0
    grid_y: int = 0
    grid_z: int = 0
    shared_memory: int = 0
    registers_per_thread: int = 0
    blocks_per_sm: float = 0.0
    warps_per_sm: float = 0.0
    occupancy: float = 0.0
    num_bytes: int = 0
    value: int = 0


@dataclass(slots=True)
class MemoryNode:
    """An allocation or the freeing of one. Sizes are bytes."""

    timestamp_ns: int
    addr: int
    type: TracerMemEventType
    process_id: int
    thread_id: int
    increase_bytes: int
    place: str
    current_allocated: int
    current_reserved: int
    peak_allocated: int
    peak_reserved: int


@dataclass(slots=True)
class HostNode:
    """A range of a thread, or (in `runtime_node`) a call of the CUDA API. Times are ns."""

    name: str
    type: TracerEventType
    start_ns: int
    end_ns: int
    process_id: int
    thread_id: int
    correlation_id: int = 0
    input_shapes: dict[str, list[list[int]]] = field(default_factory=dict)
    dtypes: dict[str, list[str]] = field(default_factory=dict)
    callstack: str = ""
    attributes: dict[str, object] = field(default_factory=dict)
    op_id: int = 0
    children_node: list[HostNode] = field(default_factory=list)
    runtime_node: list[HostNode] = field(default_factory=list)
    device_node: list[DeviceNode] = field(default_factory=list)
    mem_node: list[MemoryNode] = field(default_factory=list)


@dataclass(slots=True)
class Trees:
    """The trees by thread id, with the facts of the file. extra: names of threads, load of the processors."""

    by_thread: dict[int, HostNode]
    extra: dict[str, str]
    version: str


def trees_of(trace: Trace) -> Trees:
    """Return the trees of a trace. Raises: TracekitError for one without a timeline."""
    from tracekit import pipeline
    from tracekit.messages import messages

    with scratch_folder("tracekit-profiler-") as folder:
        path = folder / "trees.pb"
        with writing(folder):
            pipeline.write(trace, path, to="paddle-pb")
        whole = messages("nodetree")["NodeTreesProto"].FromString(path.read_bytes())
    extra = {_text(pair.key): _text(pair.value) for pair in whole.extra_info}
    return Trees({int(tree.thread_id): _tree(tree) for tree in whole.thread_trees}, extra, _text(whole.version))


def _tree(tree: ProtobufMessage) -> HostNode:
    """Return the root of a thread. In the file a node may come before its parent, and a child before an earlier one."""
    root = HostNode("root node", TracerEventType.UserDefined, 0, ROOT_END_NS, 0, int(tree.thread_id))
    nodes = {message.id: _host(message) for message in tree.host_nodes}
    for message in sorted(tree.host_nodes, key=lambda m: (m.host_trace_event.start_ns, -m.host_trace_event.end_ns)):
        parent = nodes.get(message.parentid)
        if parent is None:
            root = nodes[message.id]
        else:
            parent.children_node.append(nodes[message.id])
    return root


def _host(message: ProtobufMessage) -> HostNode:
    event = message.host_trace_event
    node = HostNode(
        _text(event.name), TracerEventType(event.type), event.start_ns, event.end_ns, event.process_id, event.thread_id
    )
    node.runtime_node = [_call(call) for call in message.runtime_nodes]
    node.mem_node = [_memory(memory.mem_event) for memory in message.mem_nodes]
    for supplement in message.op_supplement_nodes:
        facts = supplement.op_supplement_event
        shapes, dtypes = facts.input_shapes, facts.dtypes
        node.input_shapes |= {
            _text(key): [list(shape.size) for shape in vector.shapes]
            for key, vector in zip(shapes.key, shapes.shape_vecs, strict=False)
        }
        node.dtypes |= {
            _text(key): [_text(dtype) for dtype in vector.dtype]
            for key, vector in zip(dtypes.key, dtypes.dtype_vecs, strict=False)
        }
        node.callstack, node.op_id = _text(facts.callstack), facts.op_id
    return node


def _call(message: ProtobufMessage) -> HostNode:
    event = message.runtime_trace_event
    node = HostNode(
        _text(event.name),
        TracerEventType.CudaRuntime,
        event.start_ns,
        event.end_ns,
        event.process_id,
        event.thread_id,
        event.correlation_id,
    )
    node.device_node = [_device(device.device_event) for device in message.device_nodes]
    return node


def _device(event: ProtobufMessage) -> DeviceNode:
    node = DeviceNode(
        _text(event.name),
        TracerEventType(event.type),
        event.start_ns,
        event.end_ns,
        event.device_id,
        event.context_id,
        event.stream_id,
        event.correlation_id,
    )
    if node.type is TracerEventType.Kernel:
        facts = event.kernel_info
        node.block_x, node.block_y, node.block_z = facts.block_x, facts.block_y, facts.block_z
        node.grid_x, node.grid_y, node.grid_z = facts.grid_x, facts.grid_y, facts.grid_z
        node.shared_memory = facts.dynamic_shared_memory + facts.static_shared_memory
        node.registers_per_thread = facts.registers_per_thread
        node.blocks_per_sm, node.warps_per_sm = facts.blocks_per_sm, facts.warps_per_sm
        node.occupancy = facts.occupancy
    elif node.type is TracerEventType.Memcpy:
        node.num_bytes = event.memcpy_info.num_bytes
    elif node.type is TracerEventType.Memset:
        node.num_bytes, node.value = event.memset_info.num_bytes, event.memset_info.value
    return node


def _memory(event: ProtobufMessage) -> MemoryNode:
    return MemoryNode(
        event.timestamp_ns,
        event.addr,
        TracerMemEventType(event.type),
        event.process_id,
        event.thread_id,
        event.increase_bytes,
        _text(event.place),
        event.current_allocated,
        event.current_reserved,
        event.peak_allocated,
        event.peak_reserved,
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")

"""A process of rocprofv3's JSON: its records as structures with what is read of them, and the names of things."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from tracekit.columns.args import items_of
from tracekit.trace import Run

R = TypeVar("R")
_MISSING = -1
_INT63 = (1 << 63) - 1
_GPU = 2
"""ROCPROFILER_AGENT_TYPE_GPU."""


class Handle(msgspec.Struct, gc=False, frozen=True):
    """A number that stands for a thing."""

    handle: int = _MISSING


NOTHING = Handle()


class Ids(msgspec.Struct, gc=False, frozen=True):
    """Correlation ids: that of the profiler, and one of the user."""

    internal: int = 0
    external: int = 0


NO_IDS = Ids()


class Sizes(msgspec.Struct, gc=False, frozen=True):
    """Three sizes."""

    x: int = 0
    y: int = 0
    z: int = 0


NO_SIZES = Sizes()


class Dispatch(msgspec.Struct, gc=False, frozen=True):
    """A launch on an agent. Grids are in work items."""

    agent_id: Handle = NOTHING
    queue_id: Handle = NOTHING
    kernel_id: int = _MISSING
    dispatch_id: int = 0
    private_segment_size: int = 0
    group_segment_size: int = 0
    workgroup_size: Sizes = NO_SIZES
    grid_size: Sizes = NO_SIZES


NO_DISPATCH = Dispatch()


class Record(msgspec.Struct, gc=False, frozen=True):
    """A record of any list of buffer_records."""

    kind: int = _MISSING
    operation: int = _MISSING
    thread_id: int | None = None
    correlation_id: Ids = NO_IDS
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    stream_id: Handle = NOTHING
    queue_id: Handle = NOTHING
    dispatch_info: Dispatch = NO_DISPATCH
    src_agent_id: Handle = NOTHING
    dst_agent_id: Handle = NOTHING
    agent_id: Handle = NOTHING
    bytes: int | None = None
    allocation_size: int | None = None
    address: int | str | Handle | None = None


class Value(msgspec.Struct, gc=False, frozen=True):
    """A value of a counter."""

    counter_id: Handle = NOTHING
    value: float = float("nan")


class DispatchData(msgspec.Struct, gc=False, frozen=True):
    """The launch of counters."""

    dispatch_info: Dispatch = NO_DISPATCH


NO_DATA = DispatchData()


class Counted(msgspec.Struct, gc=False, frozen=True):
    """The counters of one launch."""

    dispatch_data: DispatchData = NO_DATA
    records: tuple[Value, ...] = ()


def decoded(raw: msgspec.Raw, kind: type[R]) -> tuple[list[R], int]:
    """Return the elements of a list, and how many of them are no such records. Raises: msgspec.MsgspecError."""
    try:
        return msgspec.json.decode(raw, type=list[kind]), 0  # type: ignore[valid-type]
    except msgspec.ValidationError:
        pass
    found: list[R] = []
    parts = msgspec.json.decode(raw, type=list[msgspec.Raw])
    for part in parts:
        try:
            found.append(msgspec.json.decode(part, type=kind))
        except msgspec.ValidationError:
            continue
    return found, len(parts) - len(found)


class Process(msgspec.Struct, gc=False):
    """A process, with its lists of records as they are in the file."""

    metadata: dict[str, object] = msgspec.field(default_factory=dict)
    agents: list[dict[str, object]] = msgspec.field(default_factory=list)
    counters: list[dict[str, object]] = msgspec.field(default_factory=list)
    strings: dict[str, object] = msgspec.field(default_factory=dict)
    kernel_symbols: list[dict[str, object]] = msgspec.field(default_factory=list)
    buffer_records: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    callback_records: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A kernel. lds: bytes of static shared memory."""

    name: str
    raw_name: str | None
    registers: int | None
    accum_vgprs: int | None
    sgprs: int | None
    lds: int


@dataclass(frozen=True, slots=True)
class Names:
    """The things that records of a process name by number.

    devices: numbers of the GPUs, agents: names, both by handle. symbols: kernels. kinds: names of kinds of records,
    with those of their operations. messages: texts of roctx by correlation id. renamed: names that roctx gave kernels.
    """

    pid: int | None
    devices: dict[int, int]
    agents: dict[int, str]
    symbols: dict[int, Symbol]
    kinds: list[tuple[str, list[str]]]
    messages: dict[int, str]
    renamed: dict[int, str]

    def operation(self, kind: int, operation: int) -> tuple[str, str]:
        """Return kind and name of an operation."""
        group, names = self.kinds[kind] if 0 <= kind < len(self.kinds) else (f"kind {kind}", [])
        return group, names[operation] if 0 <= operation < len(names) else f"{group} operation {operation}"


def names_of(process: Process, run: Run, source: int) -> Names:
    """Return the names of a process; the run gets those of its devices, and the command."""
    facts, pid = run.sources[0].facts, _whole(process.metadata.get("pid"))
    command = process.metadata.get("command")
    if isinstance(command, list) and command and pid is not None:
        text = " ".join(str(word) for word in command)[:4096]
        facts.setdefault("command", text)
        run.processes.setdefault((source, pid), text)
    node = process.metadata.get("node")
    if isinstance(node, dict) and isinstance(node.get("hostname"), str):
        facts.setdefault("host", node["hostname"])
    devices: dict[int, int] = {}
    agents: dict[int, str] = {}
    for agent in process.agents:
        handle = handle_of(agent.get("id"))
        agents[handle] = next((str(agent[key]) for key in ("product_name", "name") if agent.get(key)), "")
        if agent.get("type") == _GPU:
            number = _whole(agent.get("logical_node_type_id"))
            devices[handle] = number if number is not None and 0 <= number < 1 << 16 else len(devices)
            if agents[handle]:
                run.devices.setdefault((source, devices[handle]), agents[handle])
    numbers = [(_whole(symbol.get("kernel_id")), symbol) for symbol in process.kernel_symbols]
    correlation = process.strings.get("correlation_id")
    return Names(
        pid,
        devices,
        agents,
        {number: _symbol(symbol) for number, symbol in numbers if number is not None},
        [_kind(each) for each in items_of(process.strings.get("buffer_records"))],
        _pairs(process.strings.get("marker_api")),
        _pairs(correlation.get("external")) if isinstance(correlation, dict) else {},
    )


def _symbol(symbol: dict[str, object]) -> Symbol:
    keys = ("formatted_kernel_name", "demangled_kernel_name", "kernel_name")
    texts = [str(symbol[key]) for key in keys if symbol.get(key)]
    name = texts[0] if texts else ""
    raw = str(symbol.get("kernel_name") or "")
    return Symbol(
        name,
        raw if raw and raw != name else None,
        _small(symbol.get("arch_vgpr_count")),
        _small(symbol.get("accum_vgpr_count")),
        _small(symbol.get("sgpr_count")),
        _whole(symbol.get("group_segment_size")) or 0,
    )


def _small(value: object) -> int | None:
    number = _whole(value)
    return number if number is not None and 0 <= number < 1 << 31 else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _INT63 else None


def handle_of(value: object) -> int:
    """Return the number of a thing, -1 for none."""
    number = value.get("handle") if isinstance(value, dict) else value
    return number if isinstance(number, int) else -1


def _kind(value: object) -> tuple[str, list[str]]:
    """Return the name of a kind, and those of its operations."""
    if not isinstance(value, dict):
        return "", []
    return str(value.get("kind", "")), [str(each) for each in items_of(value.get("operations"))]


def _pairs(value: object) -> dict[int, str]:
    """Return texts by number: rocprofv3 writes a map as a list of objects with key and value."""
    found = {}
    for each in items_of(value):
        if isinstance(each, dict) and isinstance(each.get("key"), int) and each.get("value"):
            found[each["key"]] = str(each["value"])
    return found

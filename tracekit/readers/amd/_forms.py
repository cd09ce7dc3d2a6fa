"""The tables of rocprof, rocprofv2 and rocprofv3: their columns, and rows as columns of EVENTS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrow import Column, DictColumn, pc
from tracekit.readers import rocm
from tracekit.readers.amd._cells import agent, args, small, whole
from tracekit.readers.amd._rows import copy_kind, region_kind
from tracekit.readers.builder import Values
from tracekit.schema import Kind

_TIMES = ("Start_Timestamp", "End_Timestamp")
Cells: TypeAlias = dict[str, Column]
Make: TypeAlias = Callable[[Cells, Column], dict[str, Values]]


@dataclass(frozen=True, slots=True)
class Form:
    """A kind of table. needed: columns by which it is found. start, end: columns of times; the same for moments.

    make: returns the columns of EVENTS of cells and durations, None for a table whose rows are no events.
    """

    name: str
    tool: str
    needed: frozenset[str]
    start: str = ""
    end: str = ""
    make: Make | None = None


def _place(cells: Cells) -> dict[str, Values]:
    correlation = whole(cells.get("Correlation_Id", cells.get("Correlation_ID")))
    stream = cells.get("Stream_Id", cells.get("Queue_Id", cells.get("Queue_ID")))
    return {
        "pid": whole(cells.get("Process_Id", cells.get("PID"))),
        "device": agent(cells.get("Agent_Id", cells.get("GPU_ID"))),
        "stream": whole(stream),
        "correlation": None if correlation is None else pc.if_else(pc.greater(correlation, 0), correlation, None),
    }


def _kernels(cells: Cells, _: Column) -> dict[str, Values]:
    keys = ["Dispatch_Id", "Thread_Id", "Scratch_Size", "Private_Segment_Size", "Accum_VGPR_Count", "SGPR_Count"]
    keys += ["Queue_Id"] if "Stream_Id" in cells else []
    columns = _place(cells) | {
        "kind": Kind.KERNEL,
        "name": arrow.encoded(cells["Kernel_Name"]),
        "registers": small(cells.get("VGPR_Count")),
        "static_smem_bytes": whole(cells.get("LDS_Block_Size", cells.get("Group_Segment_Size"))),
        "args": args(cells, keys),
    }
    for axis in "XYZ":
        threads, items = small(cells.get(f"Workgroup_Size_{axis}")), whole(cells.get(f"Grid_Size_{axis}"))
        columns[f"block_{axis.lower()}"] = threads
        if threads is not None and items is not None:
            size = pc.if_else(pc.greater(threads, 0), threads.cast(pa.int64()), None)
            blocks = pc.add(pc.divide(pc.subtract(items, 1), size), 1)
            columns[f"grid_{axis.lower()}"] = pc.if_else(pc.less(blocks, 1 << 31), blocks, None).cast(pa.int32())
    return columns


def _calls(cells: Cells, durations: Column) -> dict[str, Values]:
    pairs = pc.binary_join_element_wise(cells["Domain"], cells["Function"], "\n")
    encoded = arrow.encoded(pairs)
    kinds = [region_kind(*text.split("\n", 1), message=True) for text in arrow.texts(encoded.dictionary)]
    kind = arrow.take(arrow.array([str(k) for k in kinds], pa.string()), arrow.ints(encoded.indices))
    moment = pc.and_(pc.equal(kind, str(Kind.USER_RANGE)), pc.equal(durations, 0))
    return _place(cells) | {
        "kind": arrow.encoded(pc.if_else(moment, str(Kind.MARK), kind)),
        "tid": whole(cells.get("Thread_Id")),
        "name": arrow.encoded(cells["Function"]),
    }


def _copies(cells: Cells, _: Column) -> dict[str, Values]:
    names = arrow.encoded(cells["Direction"])
    kinds = [copy_kind(text) for text in arrow.texts(names.dictionary)]
    target, origin = agent(cells.get("Destination_Agent_Id")), agent(cells.get("Source_Agent_Id"))
    direction = arrow.take(arrow.array(kinds, pa.string()), arrow.ints(names.indices))
    to_host = pc.fill_null(pc.equal(direction, "DtoH"), False)
    device = origin if target is None else target if origin is None else pc.if_else(to_host, origin, target)
    if target is not None and origin is not None:
        peers = pc.and_(pc.equal(direction, "DtoD"), pc.not_equal(target, origin))
        direction = pc.if_else(pc.fill_null(peers, False), "PtoP", direction)
    return _place(cells) | {
        "kind": Kind.MEMCPY,
        "name": names,
        "copy_kind": arrow.encoded(direction),
        "device": device,
        "args": args(cells, ["Source_Agent_Id", "Destination_Agent_Id"]),
    }


def _memory(cells: Cells, _: Column) -> dict[str, Values]:
    size = whole(cells.get("Allocation_Size"))
    return _place(cells) | {
        "kind": Kind.MEMORY,
        "tid": whole(cells.get("Thread_Id")),
        "name": arrow.encoded(cells["Operation"]),
        "bytes": None if size is None else pc.if_else(pc.greater(size, 0), size, None),
        "args": args(cells, ["Address", "Alloc_Flags"]),
    }


def kernel_names(column: Column) -> Column:
    """Return names of kernels without quotation marks and the ending of a kernel descriptor."""
    plain = pc.replace_substring_regex(column, pattern=r'^"(.*)"$', replacement=r"\1")
    names: Column = pc.replace_substring_regex(plain, pattern=rocm.DESCRIPTOR, replacement="")
    return names


def results(cells: Cells, _: Column) -> dict[str, Values]:
    """Return the columns of kernels of rocprof 1."""
    known = ("Index", "KernelName", "gpu-id", "queue-id", "pid", "BeginNs", "EndNs", "DurationNs")
    names = kernel_names(cells["KernelName"])
    encoded = arrow.encoded(names)
    found = [rocm.activity(text) for text in arrow.texts(encoded.dictionary)]
    kinds = arrow.array([str(one[0] if one else Kind.KERNEL) for one in found], pa.string())
    return {
        "kind": arrow.encoded(arrow.take(kinds, arrow.ints(encoded.indices))),
        "name": encoded,
        "raw_name": _other_spelling(names, cells["KernelName"]),
        "pid": whole(cells.get("pid")),
        "device": agent(cells.get("gpu-id")),
        "stream": whole(cells.get("queue-id")),
        "registers": small(cells.get("arch_vgpr", cells.get("vgpr"))),
        "args": args(cells, [name for name in cells if name not in known]),
    }


def _other_spelling(names: Column, given: Column) -> DictColumn:
    plain = pc.replace_substring_regex(given, pattern=r'^"(.*)"$', replacement=r"\1")
    return arrow.encoded(pc.if_else(pc.equal(names, plain), None, plain))


def _dispatches(cells: Cells, _: Column) -> dict[str, Values]:
    known = {"GPU_ID", "Queue_ID", "PID", "Kernel_Name", "Correlation_ID", "Arch_VGPR", "XCC_Index", *_TIMES}
    names = kernel_names(cells["Kernel_Name"])
    return _place(cells) | {
        "kind": Kind.KERNEL,
        "name": arrow.encoded(names),
        "raw_name": _other_spelling(names, cells["Kernel_Name"]),
        "registers": small(cells.get("Arch_VGPR")),
        "args": args(cells, [name for name in cells if name not in known]),
    }


def activities(names: Column, operations: Column) -> dict[str, DictColumn]:
    """Return name, kind and direction of commands: kernels have names, others an operation alone."""
    shown = pc.if_else(pc.equal(names, ""), operations, names)
    pairs = arrow.encoded(pc.binary_join_element_wise(operations, names, "\n"))
    found = [_command(*text.split("\n", 1)) for text in arrow.texts(pairs.dictionary)]
    codes = arrow.ints(pairs.indices)
    return {
        "name": arrow.encoded(shown),
        "kind": arrow.encoded(arrow.take(arrow.array([str(kind) for kind, _ in found], pa.string()), codes)),
        "copy_kind": arrow.encoded(arrow.take(arrow.array([way for _, way in found], pa.string()), codes)),
    }


def _command(operation: str, name: str) -> tuple[Kind, str | None]:
    """Return kind and direction of a command. A Task with a name is a kernel that a graph started."""
    if name and operation in ("Task", "KernelExecution", "KernelDispatch", ""):
        return rocm.activity(name) or (Kind.KERNEL, None)
    if (way := copy_kind(operation)) is not None and operation.startswith("MEMORY_COPY"):
        return Kind.MEMCPY, way
    return rocm.activity(operation) or (Kind.KERNEL if name else Kind.OTHER, None)


def _activities(cells: Cells, durations: Column) -> dict[str, Values]:
    names = cells.get("Kernel_Name", arrow.array([""] * len(durations), pa.string()))
    return {**_place(cells), **activities(names, cells["Operation"])}


def _ranges(cells: Cells, _: Column) -> dict[str, Values]:
    return {
        "kind": Kind.MARK,
        "dur_ns": None,
        "name": arrow.encoded(pc.if_else(pc.equal(cells["Message"], ""), None, cells["Message"])),
        "args": args(cells, ["ROCTX_ID"]),
    }


_V3 = frozenset(_TIMES)
_V2 = ("Start_Timestamp", "Stop_Timestamp")
_MOMENT = ("Timestamp", "Timestamp")
_ROCTX = frozenset({"Domain", "ROCTX_ID", "Message"})
FORMS = (
    Form("counters", "rocprofv3", frozenset({"Counter_Name", "Counter_Value", "Kernel_Name", "Dispatch_Id"})),
    Form("kernels", "rocprofv3", _V3 | {"Kind", "Kernel_Name", "Dispatch_Id"}, *_TIMES, _kernels),
    Form("calls", "rocprofv3", _V3 | {"Domain", "Function", "Process_Id", "Thread_Id"}, *_TIMES, _calls),
    Form("copies", "rocprofv3", _V3 | {"Kind", "Direction"}, *_TIMES, _copies),
    Form("memory", "rocprofv3", _V3 | {"Kind", "Operation"}, *_TIMES, _memory),
    Form("samples", "rocprofv3", frozenset({"Sample_Timestamp", "Exec_Mask", "Dispatch_Id", "Instruction"})),
    Form("results", "rocprof", frozenset({"Index", "KernelName"}), "BeginNs", "EndNs", results),
    Form("dispatches", "rocprofv2", frozenset({"Dispatch_ID", "GPU_ID", "Kernel_Name"}), *_TIMES, _dispatches),
    Form("calls", "rocprofv2", _V3 | {"Domain", "Function", "Correlation_ID"}, *_TIMES, _calls),
    Form("commands", "rocprofv2", frozenset({"Domain", "Operation", "Correlation_ID", *_V2}), *_V2, _activities),
    Form("ranges", "rocprofv2", _ROCTX, *_MOMENT, _ranges),
    Form("sums", "rocprof or rocprofv3", frozenset({"Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage"})),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Counted:
    """A table with a column for each counter. kernel, device: columns of the launch. others: no counters."""

    kernel: str
    device: str
    others: frozenset[str]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COUNTED = {
    "results": Counted(
        "KernelName",
        "gpu-id",
        _words(
            "Index KernelName gpu-id queue-id queue-index pid tid grd wgr lds scr vgpr arch_vgpr accum_vgpr sgpr fbar "
            "wave_size sig obj DispatchNs BeginNs EndNs CompleteNs DurationNs"
        ),
    ),
    "dispatches": Counted(
        "Kernel_Name",
        "GPU_ID",
        _words(
            "Dispatch_ID GPU_ID Queue_ID PID TID Grid_Size Workgroup_Size LDS_Per_Workgroup Scratch_Per_Workitem "
            "Arch_VGPR Accum_VGPR SGPR Wave_Size Kernel_Name Start_Timestamp End_Timestamp Correlation_ID XCC_Index"
        ),
    ),
}

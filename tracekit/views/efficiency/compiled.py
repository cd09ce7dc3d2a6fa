"""compiled: kernels that torch.compile wrote in Triton, a row a kernel, its arguments and device.

operators: what was fused into the kernel, as its name tells. arguments: sizes and datatypes of its tensors. bytes:
those of all tensors, each whole and once; a kernel may read less. least_bytes: the elements that it writes, once: a
lower bound. source: the file of the code, where the trace names it. launch: the constants that the kernel was compiled
with.
"""

from __future__ import annotations

import numpy as np

from tracekit.analysis.efficiency.compiled import VIEWS, kind_of, operators_in, sizes_of
from tracekit.analysis.efficiency.formulas import COMPILED, operator_names
from tracekit.analysis.efficiency.operands import OperatorCall
from tracekit.index.trace_index import TraceIndex
from tracekit.index.work_units import ARGS_OF, KINDS, WorkUnits, work_units
from tracekit.model import args as members
from tracekit.model import arrow
from tracekit.model.arrow import I64
from tracekit.model.report import Cell, Section
from tracekit.model.schema import DEVICE_WORK
from tracekit.model.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.work_columns import BYTES, GBPS, NEEDED, OF_PEAK, sums_of, work_columns

__all__ = ["VIEW"]

_TITLE = "Compiled kernels"
_NEEDS = "needs kernels of torch.compile with shapes and device work; this trace has none"
_NOTE = "bytes: all tensors, each whole and once; a kernel may read less, and writes the least bytes at least"
_BY_WORK = ("bytes", "gbps", "of_peak")


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of kernels. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, NEEDED)
    units = work_units(index)
    wanted = [] if units is None else [i for i, g in enumerate(units.groups) if g.work.family == COMPILED]
    if units is None or not wanted:
        return Section(VIEW.name, _TITLE, notes=(_NEEDS, *tabulate.option_notes(options)))
    place = np.full(len(units.groups), -1, np.int64)
    place[wanted] = np.arange(len(wanted))
    unit = np.flatnonzero(place[units.group] >= 0)
    sums = sums_of(units, unit, place[units.group[unit]], list(range(len(wanted))))
    groups = [units.groups[i] for i in wanted]
    whole = int(units.host.work_ns.sum())
    first = np.full(len(wanted), -1, np.int64)
    first[place[units.group[unit[::-1]]]] = unit[::-1]
    source, launch = _texts(units, index, first, "kernel_file"), _launches(units, index, first)
    sizes = [sizes_of(each.call, str(text or "")) for each, text in zip(groups, launch, strict=True)]
    known = (
        operator_names()
        | VIEWS
        | {
            name.removeprefix("aten::")
            for name in index.texts("name")[1]
            if name.startswith("aten::") and len(name) < 99
        }
    )
    columns = [
        _SHOWN["name"].column([each.call.name for each in groups]),
        _SHOWN["kind"].column([kind_of(each.call.name) or None for each in groups], 4),
        _SHOWN["operators"].column([", ".join(operators_in(each.call.name, known)) for each in groups], 2),
        _SHOWN["arguments"].column([_arguments(each.call) for each in groups], 3),
        _SHOWN["elements"].column([each.elements if each else None for each in sizes], 5),
        _SHOWN["calls"].column([each.calls for each in groups], 1),
        _SHOWN["total"].column([each.ns for each in groups]),
        _SHOWN["ratio"].column([each.ns / whole if whole else None for each in groups], 2),
        *[column for column in work_columns(sums, sums.names) if column.name in _BY_WORK],
        _SHOWN["least_bytes"].column([each.least_bytes if each else None for each in sizes], 4),
        _SHOWN["launch"].column(launch, 7),
        _SHOWN["source"].column(source, 8),
    ]
    kept = [column for column in columns if any(cell is not None for cell in column.values)]
    table = tabulate.finish("compiled", _TITLE, kept, options)
    return Section(VIEW.name, _TITLE, (table,), notes=(_NOTE, *tabulate.option_notes(options, table)))


def _texts(units: WorkUnits, index: TraceIndex, first: I64, *keys: str) -> list[Cell]:
    """Return a member of the args of the first call of each kernel, None for none."""
    args = arrow.take(index.events.column("args"), units.rows[first])
    codes, found = members.values(args, *keys)
    return [str(found[code]) if code >= 0 else None for code in codes.tolist()]


def _launches(units: WorkUnits, index: TraceIndex, first: I64) -> list[Cell]:
    """Return the constants of each kernel: sizes of blocks, warps, stages."""
    blocks, warps, stages = (_texts(units, index, first, k) for k in ("kernel_kwargs", "num_warps", "num_stages"))
    out: list[Cell] = []
    for block, warp, stage in zip(blocks, warps, stages, strict=True):
        parts = [str(block)] * bool(block) + [f"warps={warp}"] * bool(warp) + [f"stages={stage}"] * bool(stage)
        out.append(", ".join(parts) or None)
    return out


def _arguments(call: OperatorCall) -> str:
    """Return the tensors of a call: sizes and datatypes."""
    return ", ".join(
        f"{'x'.join(map(str, each.dims)) or 'one'} {each.dtype.removeprefix('c10::')}" for each in call.tensors()
    )


_OWN = (
    ViewColumn("name", "Name", Unit.TEXT, "The name of the kernel."),
    ViewColumn("kind", "Kind", Unit.TEXT, "The kind of the kernel: pointwise, or a reduction."),
    ViewColumn("operators", "Operators", Unit.TEXT, "The operators that were fused into the kernel."),
    ViewColumn("arguments", "Arguments", Unit.TEXT, "The sizes and datatypes of the tensors."),
    ViewColumn("elements", "Elements", Unit.COUNT, "The elements that a call writes at least."),
    ViewColumn("calls", "Calls", Unit.COUNT, "The number of calls."),
    ViewColumn("total", "Device time", Unit.NS, "The sum of the durations of device events."),
    ViewColumn("ratio", "Ratio", Unit.RATIO, "The share of all device work."),
    ViewColumn(
        "least_bytes",
        "Least bytes",
        Unit.BYTES,
        "The bytes that a call writes: a lower bound of what it moves.",
    ),
    ViewColumn("launch", "Launch", Unit.TEXT, "The constants of the kernel: sizes of blocks, warps, stages."),
    ViewColumn("source", "Source", Unit.TEXT, "The file of the kernel's code."),
)
_SHOWN = {column.key: column for column in _OWN}

VIEW = View(
    name="compiled",
    title=_TITLE,
    columns=NEEDED,
    kinds=KINDS | DEVICE_WORK,
    compute=compute,
    shows=(*_OWN, BYTES, GBPS, OF_PEAK),
    args_of=ARGS_OF,
)

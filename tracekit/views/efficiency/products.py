"""Tables of operators with FLOPs by definition, a row a shape: what `gemm`, `convolution` and `attention` share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.analysis.efficiency.devices import Roof
from tracekit.analysis.efficiency.floors import roof_of
from tracekit.analysis.efficiency.formulas import ATTENTION, CONVOLUTION, Work, factors
from tracekit.analysis.efficiency.operands import OperatorCall, TensorOperand
from tracekit.analysis.kernel_class import LONGEST_NAME
from tracekit.index.trace_index import TraceIndex
from tracekit.index.work_units import ARGS_OF, KINDS, UnitGroup, WorkUnits, work_units
from tracekit.model.report import Cell, Column, Picture, ReportTable, Section
from tracekit.model.schema import DEVICE_WORK
from tracekit.model.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.untimed import UNTIMED_NOTE, distinct_calls
from tracekit.views.work_columns import BYTES, FLOPS, NEEDED, SHOWS, WorkSums, sums_of, work_columns

__all__ = ["view_of"]

_NAME = ViewColumn("name", "Operator", Unit.TEXT, "The name of the operator.")
_SHAPE = ViewColumn("shape", "Shape", Unit.TEXT, "The sizes of the operands.")
_LAYOUT = ViewColumn("layout", "Layout", Unit.TEXT, "The order of the operands' dimensions in memory.")
_DATATYPE = ViewColumn("datatype", "Datatype", Unit.TEXT, "The datatype of the operands, and the peak that counts.")
_CALLS = ViewColumn("calls", "Calls", Unit.COUNT, "The number of calls.")
_TOTAL = ViewColumn("total", "Device time", Unit.NS, "The sum of the durations of device events.")
_AVG = ViewColumn("avg", "Avg", Unit.NS, "The mean device time of a call.")
_KERNEL = ViewColumn("kernel", "Kernel", Unit.TEXT, "The kernel that took most of the time.")
_PRIORITIES = {"tflops": 4, "of_peak": 2, "could_save": 3, "bound": 4}
"""How far a shape is from the limit says more than who called it."""
_INTENSITY = ViewColumn("intensity", "FLOP/byte", Unit.NUMBER, "FLOPs for each of the least bytes to move.")
_PEAK = ViewColumn(
    "peak", "Peak TFLOP/s", Unit.NUMBER, "The peak of the device for the datatype that ran, in 10^12 a second."
)
_BANDWIDTH = ViewColumn("bandwidth", "Bandwidth", Unit.BYTES_PER_S, "The peak of the device's memory.")
_WHY = ViewColumn("why", "Reason", Unit.TEXT, "The reason for a bound that is unknown, or for a time below the floor.")


def view_of(name: str, title: str, families: Sequence[str], what: str) -> View:
    """Return the view of the operators of these families. what: one of them in words."""

    def compute(index: TraceIndex, options: ViewOptions) -> Section:
        tabulate.require(index, name, NEEDED)
        units = work_units(index)
        wanted = [] if units is None else [i for i, g in enumerate(units.groups) if g.work.family in families]
        untimed = distinct_calls(index, families) if units is None else []
        if untimed:
            table = _untimed(untimed, f"untimed_{name}", title, options)
            return Section(name, title, (table,), notes=(UNTIMED_NOTE, *tabulate.option_notes(options, table)))
        if units is None or not wanted:
            needs = f"needs {what} events with shapes and device work; this trace has none"
            return Section(name, title, notes=(needs, *tabulate.option_notes(options)))
        columns_of_rows, sums = _rows(units, wanted)
        groups = [units.groups[i] for i in wanted]
        roofs = [roof_of(each.work, each.device, each.kernel[:LONGEST_NAME])[0] for each in groups]
        found = [
            *columns_of_rows,
            *work_columns(sums, sums.names, priorities=_PRIORITIES),
            *_roof_columns(groups, roofs),
        ]
        why: list[Cell] = [units.groups[i].reach.unknown or None for i in wanted]
        if any(why):
            found.append(_WHY.column(why, 7))
        found.append(_KERNEL.column([units.groups[i].kernel for i in wanted], 7))
        table = tabulate.finish(f"{name}s" if name != "attention" else name, title, found, options)
        picture = _roofline(f"{name}.{table.name}", groups, roofs)
        return Section(name, title, (table,), (picture,), tuple(tabulate.option_notes(options, table)))

    shows = (
        _NAME, _SHAPE, _LAYOUT, _DATATYPE, _CALLS, _TOTAL, _AVG, *SHOWS, _INTENSITY, _PEAK, _BANDWIDTH, _WHY, _KERNEL
    )  # fmt: skip
    return View(name, title, NEEDED, KINDS | DEVICE_WORK, compute, None, shows, args_of=ARGS_OF)


def _rows(units: WorkUnits, wanted: Sequence[int]) -> tuple[list[Column], WorkSums]:
    """Return the columns that say what was computed, and the figures of each group."""
    place = np.full(len(units.groups), -1, np.int64)
    place[list(wanted)] = np.arange(len(wanted))
    unit = np.flatnonzero(place[units.group] >= 0)
    sums = sums_of(units, unit, place[units.group[unit]], list(range(len(wanted))))
    groups = [units.groups[i] for i in wanted]
    columns = [
        _NAME.column([each.call.name for each in groups], 5),
        _SHAPE.column([each.work.shape or _dims(each.call) for each in groups]),
        _LAYOUT.column([_layout(each.call, each.work) for each in groups], 4),
        _DATATYPE.column([_datatype(each) for each in groups], 2),
        _CALLS.column([each.calls for each in groups], 5),
        _TOTAL.column([each.ns for each in groups]),
        _AVG.column([round(each.ns / each.calls) for each in groups], 8),
    ]
    return columns, sums


def _untimed(
    every: Sequence[tuple[OperatorCall, Work, int]], name: str, title: str, options: ViewOptions
) -> ReportTable:
    """Return the calls of an execution trace by shape: how many, and their work; it has no times."""
    rows: dict[tuple[Cell, ...], list[int | None]] = {}
    for call, work, count in every:
        key = (call.name, work.shape or _dims(call), _layout(call, work), work.datatype.removeprefix("c10::"))
        had = rows.setdefault(key, [0, 0, 0])
        for place, value in enumerate((1, work.flops, work.bytes)):
            before = had[place]
            had[place] = None if value is None or before is None else before + value * count
    labels, figures = list(zip(*rows, strict=True)), list(zip(*rows.values(), strict=True))
    calls, flops, moved = figures
    columns = [
        _NAME.column([*labels[0]], 5),
        _SHAPE.column([*labels[1]]),
        _LAYOUT.column([*labels[2]], 4),
        _DATATYPE.column([*labels[3]], 2),
        _CALLS.column([*calls], 1),
        FLOPS.column([*flops], 1),
        BYTES.column([*moved], 1),
        _INTENSITY.column([f / b if f and b else None for f, b in zip(flops, moved, strict=True)], 3),
    ]
    return tabulate.finish(name, title, columns, options, own_order="flops")


def _roof_columns(groups: Sequence[UnitGroup], roofs: Sequence[Roof | None]) -> list[Column]:
    """Return the columns of a roofline beside those of the work; none for what is known of no row."""
    columns = [
        _INTENSITY.column([g.work.flops / g.work.bytes if g.work.flops and g.work.bytes else None for g in groups], 8),
        _PEAK.column([_tera(each.flops_per_s) if each and each.flops_per_s else None for each in roofs], 8),
        _BANDWIDTH.column([each.bytes_per_s if each else None for each in roofs], 9),
    ]
    return [column for column in columns if any(cell is not None for cell in column.values)]


def _tera(rate: float) -> float:
    return float(f"{rate / 1e12:.6g}")


def _roofline(table: str, groups: Sequence[UnitGroup], roofs: Sequence[Roof | None]) -> Picture:
    """Return the picture of a roofline, or why there is none."""
    title = "Roofline"
    known = [each for each, roof in zip(groups, roofs, strict=True) if roof is not None and roof.flops_per_s]
    if not any(each.work.flops and each.work.bytes for each in known):
        longest = max(groups, key=lambda each: each.ns)
        return Picture("roofline", title, "", (), remark=f"not drawn: {longest.reach.unknown or 'bytes are not known'}")
    sources = {each.device.peaks.name: each.device.peaks for each in known if each.device.peaks is not None}
    words = [f"peaks of {name}, {peaks.confidence}: {peaks.source}" for name, peaks in sorted(sources.items())]
    values = ("total", "intensity", "tflops", "peak", "bandwidth")
    return Picture("roofline", title, table, values, ("shape", "name"), by="datatype", remark="; ".join(words))


def _dims(call: OperatorCall) -> str:
    return ", ".join("x".join(map(str, each.dims)) for each in call.tensors())


def _datatype(group: UnitGroup) -> str:
    """Return the datatype of the operands, and the rate that ran where that is another one.

    fp32 operands may run as tf32.
    """
    plain = group.work.datatype.removeprefix("c10::")
    rate = group.reach.rate
    return f"{plain} as {rate}" if rate == "tf32" else plain


def _layout(call: OperatorCall, work: Work) -> str | None:
    """Return the order of the dimensions in memory, None where the file has no strides."""
    operands = call.tensors()
    if work.family == CONVOLUTION:
        return _image_layout(operands[0]) if operands else None
    if work.family == ATTENTION:
        queries = next((each for each in operands if len(each.dims) == 4), None)
        return _head_layout(queries) if queries is not None else None
    words = [_matrix_layout(each) for each in factors(call) if len(each.dims) >= 2]
    return " x ".join(words) if len(words) == 2 and all(words) else None


def _matrix_layout(matrix: TensorOperand) -> str:
    if len(matrix.strides) != len(matrix.dims):
        return ""
    return "row" if matrix.strides[-1] == 1 else "column" if matrix.strides[-2] == 1 else "strided"


def _image_layout(image: TensorOperand) -> str | None:
    if len(image.strides) != len(image.dims) or len(image.dims) < 3:
        return None
    return "channels first" if image.strides[-1] == 1 else "channels last" if image.strides[1] == 1 else "strided"


def _head_layout(queries: TensorOperand) -> str | None:
    """Return whether the heads of a token, or the tokens of a head, are beside each other."""
    if len(queries.strides) != 4:
        return None
    return "tokens first" if queries.strides[2] > queries.strides[1] else "heads first"

"""Tables of operators that have no times: counts, FLOPs and bytes, of execution traces (`index.untimed_calls`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tracekit.analysis.efficiency.formulas import FAMILIES, Work
from tracekit.analysis.efficiency.operands import OperatorCall
from tracekit.index.trace_index import TraceIndex
from tracekit.index.untimed_calls import untimed_calls
from tracekit.model.report import ReportTable
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import ViewColumn, ViewOptions
from tracekit.views.work_columns import BYTES, FLOPS

__all__ = ["UNTIMED_NOTE", "distinct_calls", "untimed_families", "untimed_operators"]

UNTIMED_NOTE = (
    "an execution trace has no times: durations and rates are not known. The Kineto trace of the same run beside it "
    "has them: profile(execution_trace_observer=ExecutionTraceObserver())"
)
_CALLS = ViewColumn("calls", "Calls", Unit.COUNT, "The number of calls.")
_FAMILY = ViewColumn("family", "Family", Unit.TEXT, "The family of the operators.")


def untimed_operators(index: TraceIndex, options: ViewOptions) -> ReportTable | None:
    """Return the operators by name, those with most FLOPs first; None where the trace has no calls without times."""
    found = untimed_calls(index)
    if found is None:
        return None
    calls, flops, moved = found.of_names()
    at = [place for place, count in enumerate(calls) if count]
    columns = [
        specs.NAME.column([found.names[place] for place in at]),
        _CALLS.column([calls[place] for place in at]),
        FLOPS.column([flops[place] for place in at], 1),
        BYTES.column([moved[place] for place in at], 1),
    ]
    return tabulate.finish("untimed_operators", "Operators without times", columns, options, own_order="flops")


def untimed_families(index: TraceIndex, options: ViewOptions) -> ReportTable | None:
    """Return the work of calls without times by family of operators, each call once; None without any known work."""
    every = distinct_calls(index, FAMILIES)
    if not every:
        return None
    calls: dict[str, int] = {}
    flops: dict[str, int] = {}
    moved: dict[str, int] = {}
    for _, work, count in every:
        calls[work.family] = calls.get(work.family, 0) + count
        if work.flops is not None:
            flops[work.family] = flops.get(work.family, 0) + work.flops * count
        if work.bytes is not None:
            moved[work.family] = moved.get(work.family, 0) + work.bytes * count
    names = [name for name in FAMILIES if name in calls]
    columns = [
        _FAMILY.column([*names]),
        _CALLS.column([calls[name] for name in names]),
        FLOPS.column([flops.get(name) for name in names], 1),
        BYTES.column([moved.get(name) for name in names], 1),
    ]
    title = "Families of operators without times"
    return tabulate.finish("untimed_families", title, columns, options, own_order="flops")


def distinct_calls(index: TraceIndex, families: Collection[str]) -> Sequence[tuple[OperatorCall, Work, int]]:
    """Return the distinct calls without times of these families whose work counts, and how many of each."""
    found = untimed_calls(index)
    return [] if found is None else [each for each in found.distinct() if each[1].family in families]

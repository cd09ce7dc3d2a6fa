"""graphs: CUDA and HIP graphs, the operators whose kernels they run, and what of them stays unknown.

A graph runs many kernels by one launch, which says nothing about their operators. The calls that a capture recorded
do: see `index.graphs` for what shows that a capture is that of a graph. A trace of the capture may be named beside the
trace of the run: `tracekit summary run.json capture.json --view graphs`. Table `graph_annotations`: the parts of graphs
that the program named itself with `mark_kernels`, where the annotations were merged into the trace.
"""

from __future__ import annotations

import numpy as np

from tracekit.index import grouping
from tracekit.index.graphs import ARGS_OF, COLUMNS, GraphWork, graph_work
from tracekit.index.host_tree import UNATTRIBUTED
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import HOST_RANGES, Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.advice import for_part
from tracekit.views.base import View, ViewColumn, ViewOptions

__all__ = ["VIEW"]

_TITLE = "Graphs"
_COLUMNS = COLUMNS


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables of graphs and of the operators in them. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    work = graph_work(index)
    if work is None:
        needs = "needs launches of CUDA or HIP graphs with device work; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *tabulate.option_notes(options)))
    graphs = _graphs(index, work, options)
    tables = (graphs, _operators(index, work, options), *_annotations(work, options))
    reasons = [(number, for_part(index, why)) for number, why in enumerate(work.why, 1) if why]
    notes = [f"graph {number}: operators not known: {why}" for number, why in reasons]
    return Section(VIEW.name, _TITLE, tables, notes=(*notes, *tabulate.option_notes(options, graphs)))


def _graphs(index: TraceIndex, work: GraphWork, options: ViewOptions) -> ReportTable:
    count = len(work.nodes)
    at = work.graph >= 0
    known = at & (work.call >= 0)
    total, attributed = (
        grouping.sums(work.graph[mask], count, work.host.work_ns[mask], "durations")[1] for mask in (at, known)
    )
    labels = source_labels(index)
    sources: list[Cell] = [source_label(labels, number) for number in work.source]
    columns = [
        specs.NAME.column([f"graph {number + 1}" for number in range(count)]),
        *([specs.SOURCE.column(sources, 2)] if len(set(sources)) > 1 else []),
        _SHOWN["calls"].column(work.launches),
        _SHOWN["nodes"].column(work.nodes),
        _SHOWN["device_total"].column(total),
        _SHOWN["attributed"].column(attributed),
        _SHOWN["attributed_ratio"].column(tabulate.shares_of(attributed, total)),
        _SHOWN["how"].column([how or "not known" for how in work.how], 1),
    ]
    return tabulate.finish("graphs", _TITLE, columns, options, own_order="device_total")


def _operators(index: TraceIndex, work: GraphWork, options: ViewOptions) -> ReportTable:
    host = work.host
    at = np.flatnonzero(work.graph >= 0)
    ranges = work.range[at]
    operator = np.append(host.nearest(index.kind_mask({Kind.OPERATOR})[host.rows]), -1)[ranges]
    place = np.where(operator >= 0, operator, ranges)
    names = index.key("name", np.append(host.rows, 0)[place])
    code = np.where(place >= 0, names.codes, len(names.labels))
    groups = grouping.group_by(grouping.Key(code, [*names.labels, UNATTRIBUTED]))
    events, total = grouping.sums(groups.codes, groups.count, host.work_ns[at], "durations")
    whole = sum(total)
    shares: list[Cell] = [ns / whole if whole else None for ns in total]
    columns: list[Column] = [
        specs.NAME.column(groups.labels[0]),
        _SHOWN["device_events"].column(events, 1),
        _SHOWN["device_total"].column(total),
        _SHOWN["device_ratio"].column(shares),
    ]
    return tabulate.finish("graph_operators", "Operators in graphs", columns, options, own_order="device_total")


def _annotations(work: GraphWork, options: ViewOptions) -> list[ReportTable]:
    """Return the parts of graphs that the program named itself; none where it named none."""
    at = np.flatnonzero(work.graph >= 0)
    if not (work.annotation[at] >= 0).any():
        return []
    code = np.where(work.annotation[at] >= 0, work.annotation[at], len(work.annotations))
    groups = grouping.group_by(grouping.Key(code, [*work.annotations, _NO_ANNOTATION]))
    events, total = grouping.sums(groups.codes, groups.count, work.host.work_ns[at], "durations")
    columns: list[Column] = [
        specs.NAME.column(groups.labels[0]),
        _SHOWN["device_events"].column(events, 1),
        _SHOWN["device_total"].column(total),
        _SHOWN["device_ratio"].column(tabulate.shares_of(total, [sum(total)] * len(total))),
    ]
    return [
        tabulate.finish("graph_annotations", "Annotated parts of graphs", columns, options, own_order="device_total")
    ]


_NO_ANNOTATION = "(no annotation)"
_SHOWS = (
    specs.NAME,
    specs.SOURCE,
    ViewColumn("calls", "Launches", Unit.COUNT, "The number of launches of graphs with these nodes."),
    ViewColumn("nodes", "Nodes", Unit.COUNT, "The number of kernels, copies and memsets of one launch."),
    ViewColumn("device_events", "Device events", Unit.COUNT, "The number of kernels, copies and memsets."),
    ViewColumn("device_total", "Device total", Unit.NS, "The sum of the durations of the device work."),
    ViewColumn("device_ratio", "Device ratio", Unit.RATIO, "The share of the device work of all graphs."),
    ViewColumn("attributed", "Attributed", Unit.NS, "The device work of which the captured call is known."),
    ViewColumn("attributed_ratio", "Attributed ratio", Unit.RATIO, "The share of the device work of the graph."),
    ViewColumn("how", "Shown by", Unit.TEXT, "What shows which call captured each node."),
)
_SHOWN = specs.by_key(_SHOWS)

VIEW = View(
    name="graphs",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=HOST_RANGES,
    args_of=ARGS_OF,
    compute=compute,
    shows=_SHOWS,
)

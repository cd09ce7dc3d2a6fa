"""metrics: what a profiler counted for each kernel: hardware metrics and events, from TOTALS (`nvprof --metrics`).

min, max, avg are over the calls of the kernel, as the file has them; a value that is no number ("High (7)") stands in
`text`. Units are the file's own.
"""

from __future__ import annotations

import json
from typing import Any

from tracekit.report import Cell, Column, Section
from tracekit.trace import Trace
from tracekit.units import Unit
from tracekit.views import _groups
from tracekit.views._sources import source_label, source_labels
from tracekit.views.base import View, ViewOptions

_TITLE = "Metrics"
_VALUES = ("value_min", "value_max", "value_avg", "value_text")
_SORTABLE = ("name", "metric", "unit", "calls", "min", "max", "avg", "text", "device", "run", "source", "rank")


def compute(trace: Trace, options: ViewOptions) -> Section:
    """Return the table of metrics, in the order of the file. Raises: UsageError for an unknown key of --sort."""
    _groups.check_sort(options, _SORTABLE)
    rows = [
        row
        for row in (trace.totals.to_pylist() if trace.totals.num_rows else [])
        if row["section"] != "header" and row["total_ns"] is None and any(row[v] is not None for v in _VALUES)
    ]
    if not rows:
        needs = "needs metrics, as nvprof --metrics writes them; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *_groups.option_notes(options)))
    rows.sort(key=lambda row: (row["source"], row["run"], row["order"]))
    labels = source_labels(trace)
    optional = [
        Column("text", "As printed", Unit.TEXT, [row["value_text"] for row in rows], 1),
        Column("device", "Device", Unit.ID, [row["device"] for row in rows], 5),
        Column("rank", "Rank", Unit.ID, [row["rank"] for row in rows], 2),
        Column("run", "Run", Unit.ID, [row["run"] for row in rows], 0),
        Column("source", "Source", Unit.TEXT, [source_label(labels, row["source"]) for row in rows], 2),
    ]
    columns = [
        Column("name", "Kernel", Unit.TEXT, [row["name"] for row in rows], 0),
        Column("metric", "Metric", Unit.TEXT, [_metric(row) for row in rows], 0),
        Column("calls", "Calls", Unit.COUNT, [row["calls"] for row in rows], 3),
        Column("min", "Min", Unit.NUMBER, [row["value_min"] for row in rows], 2),
        Column("max", "Max", Unit.NUMBER, [row["value_max"] for row in rows], 2),
        Column("avg", "Avg", Unit.NUMBER, [row["value_avg"] for row in rows], 0),
        Column("unit", "Unit", Unit.TEXT, [row["unit"] for row in rows], 1),
        *(c for c in optional if len(set(c.values)) > 1 or (c.name == "text" and c.values[0] is not None)),
    ]
    # The file's order is a block of its own for each row: ties by name must not tear the metrics of a kernel apart.
    places: list[tuple[Cell, ...]] = [(place,) for place in range(len(rows))]
    table = _groups.finish("metrics", _TITLE, columns, options, own_order="", blocks=places, top_each=False)
    return Section(VIEW.name, _TITLE, (table,), notes=tuple(_groups.option_notes(options, table)))


def _metric(row: dict[str, Any]) -> Cell:
    """Return what was counted: the file's name of it in `args`, else the section."""
    try:
        args = json.loads(row["args"] or "{}")
    except ValueError:
        args = {}
    for key in ("metric", "event", "name") if isinstance(args, dict) else ():
        if isinstance(args.get(key), str):
            return str(args[key])
    section = row["section"]
    return None if section is None else str(section)


VIEW = View(name="metrics", title=_TITLE, columns=frozenset(), kinds=frozenset(), compute=compute)

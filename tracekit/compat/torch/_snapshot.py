"""The state of PyTorch's allocator when a snapshot was taken, and what each stack allocated: rows of TOTALS."""

from __future__ import annotations

from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell, Column, ReportTable
from tracekit.schema import Kind
from tracekit.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import ViewOptions
from tracekit.views.totals import TotalsRow, frames_of, in_file_order, totals_rows, whole_number

_STATE = ("segments", "blocks")
_STACKS = "allocations by stack"


def tables_of_snapshots(index: TraceIndex, options: ViewOptions) -> list[ReportTable]:
    """Return the tables of segments and blocks, and of stacks; those without rows are left out."""
    rows = in_file_order(totals_rows(index, {Kind.MEMORY}))
    state = [row for row in rows if row["section"] in _STATE and "requested_bytes" in row["args"]]
    stacks = [row for row in rows if row["section"] == _STACKS]
    tables = []
    if state:
        asked: list[Cell] = [whole_number(row["args"].get("requested_bytes")) for row in state]
        columns = [*_named(index, state), Column("requested", "Requested", Unit.BYTES, asked, 1)]
        tables.append(tabulate.finish("state", "Segments and blocks", columns, options, own_order=""))
    if stacks:
        sizes = [row["bytes"] or 0 for row in stacks]
        frames = [frames_of(row) for row in stacks]
        columns = [
            *_named(index, stacks),
            specs.RATIO.column(tabulate.ratios(sizes), 1),
            Column("stack", "Stack", Unit.TEXT, [" < ".join(reversed(each)) for each in frames], 6),
        ]
        tables.append(tabulate.finish("stacks", "Allocations by stack", columns, options, own_order="bytes"))
    return tables


def _named(index: TraceIndex, rows: list[TotalsRow]) -> list[Column]:
    labels = source_labels(index)
    apart = [
        specs.DEVICE_ID.column([row["device"] for row in rows], 2),
        specs.SOURCE.column([source_label(labels, row["source"]) for row in rows], 2),
    ]
    return [
        specs.NAME.column([row["name"] for row in rows]),
        *(c for c in apart if len(set(c.values)) > 1),
        specs.CALLS.column([row["calls"] for row in rows], 1),
        specs.BYTES.column([row["bytes"] for row in rows], 0),
    ]

"""Memory as a profiler's own tables have it: rows of TOTALS of kind memory, as printed."""

from __future__ import annotations

from tracekit.index import grouping
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell, Column, Section
from tracekit.schema import Kind
from tracekit.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import ViewOptions
from tracekit.views.totals import in_file_order, totals_rows, whole_number


def count(index: TraceIndex) -> int:
    """Return how many rows of TOTALS are of memory."""
    return int(grouping.kind_mask(index.totals, {Kind.MEMORY}).sum()) if index.totals.num_rows else 0


def section(index: TraceIndex, options: ViewOptions, view: str, title: str) -> Section:
    """Return the rows of TOTALS of kind memory in the order of the file, or a section that says what is needed."""
    rows = in_file_order(totals_rows(index, {Kind.MEMORY}))
    if not rows:
        return tabulate.nothing(view, title, "memory", options)
    labels = source_labels(index)
    sources: list[Cell] = [source_label(labels, row["source"]) for row in rows]
    optional = [
        Column("place", "Place", Unit.TEXT, [_text(row["args"].get("place")) for row in rows], 1, "place"),
        Column("type", "Type", Unit.TEXT, [_text(row["args"].get("type")) for row in rows], 2),
        Column("allocations", "Allocations", Unit.COUNT, [row["calls"] for row in rows], 1),
        Column("frees", "Frees", Unit.COUNT, [whole_number(row["args"].get("frees")) for row in rows], 2),
        Column(
            "allocated", "Allocated", Unit.BYTES, [whole_number(row["args"].get("allocated_bytes")) for row in rows], 2
        ),
        Column("freed", "Freed", Unit.BYTES, [whole_number(row["args"].get("freed_bytes")) for row in rows], 3),
        Column("min", "Min", Unit.NUMBER, [row["value_min"] for row in rows], 2),
        Column("max", "Max", Unit.NUMBER, [row["value_max"] for row in rows], 1),
        Column("avg", "Avg", Unit.NUMBER, [row["value_avg"] for row in rows], 2),
        Column("unit", "Unit", Unit.TEXT, [row["unit"] for row in rows], 1),
    ]
    apart = [
        Column("section", "Section", Unit.TEXT, [row["section"] for row in rows], 3),
        Column("run", "Run", Unit.ID, [row["run"] for row in rows], 0, "place"),
        Column("source", "Source", Unit.TEXT, sources, 2, "place"),
    ]
    sizes: list[Cell] = [row["bytes"] for row in rows]
    columns = [
        Column("name", "Name", Unit.TEXT, [row["name"] for row in rows], 0),
        *([Column("increased", "Bytes", Unit.BYTES, sizes, 0)] if any(s is not None for s in sizes) else []),
        *(c for c in optional if any(v is not None for v in c.values)),
        *(c for c in apart if len(set(c.values)) > 1),
    ]
    places: list[tuple[Cell, ...]] = [(i,) for i in range(len(rows))]
    table = tabulate.finish("memory", title, columns, options, own_order="", blocks=places, top_each=False)
    note = "from totals that the profiler had summed itself, as printed: peaks, sizes, or what each row increased"
    return Section(view, title, (table,), notes=(note, *tabulate.option_notes(options, table)))


def _text(value: object) -> Cell:
    return value if isinstance(value, str) else None

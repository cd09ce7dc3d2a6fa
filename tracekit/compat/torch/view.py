"""torch: the rows of the tables that PyTorch's profilers printed, times on host and device side by side. For a snapshot
of its allocator: segments, blocks, and what each stack allocated.

By default times are numbers, a row a row of the file, ordered by self time; a ratio is of the self times of its table.
With `--compat torch` the tables have the cells as PyTorch printed them, and so has the text (`layout`).
"""

from __future__ import annotations

from collections.abc import Callable

from tracekit.compat.torch._printed import Printed, cells_of, printed_tables, stack_of
from tracekit.compat.torch._shows import SHOWS, key_of
from tracekit.compat.torch._snapshot import tables_of_snapshots
from tracekit.errors import Option, UsageError, sentence
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell, Column, ReportTable, Section
from tracekit.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewOptions
from tracekit.views.totals import TotalsRow, cell

NAME, TITLE = "torch", "PyTorch tables and snapshots"
LAYOUT_TABLE, LINES_TABLE, ROWS_TABLE = "layout", "lines", "rows"
_COLUMNS = frozenset({"ts_ns", "kind"})
_SNAPSHOT = "segments and blocks are those of the moment of the snapshot; stacks are those of its trace"
_NEEDS = "needs a table that PyTorch's profiler printed; this trace has none"
_ORDERS: dict[str, Callable[[TotalsRow], Cell]] = {
    "calls": lambda row: row["calls"],
    "total": lambda row: row["total_ns"] if row["section"] == "CPU" else None,
    "avg": lambda row: row["avg_ns"] if row["section"] == "CPU" else None,
    "self": lambda row: cell(row["args"].get("self_ns")),
    "device_self": lambda row: cell(row["args"].get("device_self_ns")),
    "device_total": lambda row: cell(row["args"].get("device_ns")),
}


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables. Raises: UsageError for a missing column or an unknown order."""
    tabulate.require(index, NAME, _COLUMNS)
    tables = printed_tables(index)
    if not tables and options.compat != NAME and (state := tables_of_snapshots(index, options)):
        return Section(NAME, TITLE, tuple(state), notes=(_SNAPSHOT, *tabulate.option_notes(options, state[0])))
    if not tables:
        return Section(NAME, TITLE, notes=(_NEEDS, *([] if options.compat == NAME else tabulate.option_notes(options))))
    if options.compat == NAME:
        return Section(NAME, TITLE, tuple(part for table in tables for part in _as_printed(table, options)))
    rows = [(table, place, row) for table in tables for place, row in enumerate(table.rows)]
    labels = source_labels(index)
    blocks: list[tuple[Cell, ...]] = [(table.source, row["run"]) for table, _, row in rows]
    own: list[Cell] = [cell(row["args"].get("self_ns")) for _, _, row in rows]
    shares = tabulate.ratios([ns if isinstance(ns, int) else 0 for ns in own], blocks)
    known: list[Cell] = [share if ns is not None else None for share, ns in zip(shares, own, strict=True)]
    texts = [_texts(table.titles, row) for table, _, row in rows]
    columns = [
        specs.NAME.column([row["name"] for _, _, row in rows]),
        specs.RUN.column([row["run"] for _, _, row in rows], 0),
        specs.SOURCE.column([source_label(labels, table.source) for table, _, _ in rows], 2),
    ]
    columns = [c for c in columns if c.name == "name" or len(set(c.values)) > 1]
    figures = [
        specs.CALLS.column([row["calls"] for _, _, row in rows], 1),
        Column("self", "CPU self", Unit.NS, own, 0),
        Column("total", "CPU total", Unit.NS, [_ORDERS["total"](row) for _, _, row in rows], 1),
        Column("avg", "CPU avg", Unit.NS, [_whole(_ORDERS["avg"](row)) for _, _, row in rows], 3),
        Column("self_ratio", "CPU self ratio", Unit.RATIO, known, 2),
        Column("device_self", "Device self", Unit.NS, [_ORDERS["device_self"](row) for _, _, row in rows], 0),
        Column("device_total", "Device total", Unit.NS, [_ORDERS["device_total"](row) for _, _, row in rows], 2),
        Column("memory", "CPU memory", Unit.BYTES, [_memory(t, p, "CPU") for t, p, _ in rows], 3),
        Column("device_memory", "Device memory", Unit.BYTES, [_memory(t, p, _device(r)) for t, p, r in rows], 3),
        Column("flops", "FLOPs", Unit.COUNT, [cell(row["args"].get("flops")) for _, _, row in rows], 4),
        Column("flop_rate", "FLOPs per s", Unit.COUNT, [cell(row["args"].get("flops_per_s")) for _, _, row in rows], 4),
        *(
            Column(key, title, Unit.TEXT, [text.get(key) or None for text in texts], priority)
            for key, title, priority in (
                ("overload", "Overload Name", 4),
                ("shapes", "Input Shapes", 5),
                ("location", "Source Location", 5),
                ("stack", "Stack", 8),
            )
        ),
    ]
    columns += [c for c in figures if any(value is not None for value in c.values)]
    table = tabulate.finish("rows", TITLE, columns, options, own_order="self", blocks=blocks)
    notes = [
        "from a printed table: CPU total counts what lies within a row again, and so does device total",
        "the device time of operators is that of the kernels below them: both are in the table",
    ]
    if len(set(blocks)) > 1:
        notes.append("each table is a run: two tables of one program show the same time")
    notes.append(
        "a ratio is of the self times of the rows of its table, which may lack rows that PyTorch did not print"
    )
    return Section(NAME, TITLE, (table,), notes=(*notes, *tabulate.option_notes(options, table)))


def _texts(titles: list[str], row: TotalsRow) -> dict[str, str]:
    """Return the cells of a row by column. With stacks and FLOPs the head has both in the other order than rows."""
    texts = dict(zip(map(key_of, titles), cells_of(row), strict=False))
    swapped = not {"flops", "flops_per_s"}.isdisjoint(row["args"]) and texts.get("location", "")[-1:].isdecimal()
    if swapped or texts.get("location") == "--":
        texts["location"] = texts.get("total_flops", "")
    return texts | {"stack": "\n".join(stack_of(row))}


def _memory(table: Printed, place: int, where: str) -> int | None:
    return table.memory.get((str(place), where)) if where else None


def _device(row: TotalsRow) -> str:
    found = row["args"].get("device")
    return found if isinstance(found, str) else ""


def _whole(value: Cell) -> Cell:
    return round(value) if isinstance(value, float) else value


def _as_printed(table: Printed, options: ViewOptions) -> list[ReportTable]:
    """Return the layout of a table, the lines around it, and its rows with their cells as printed."""
    titles = table.titles
    widths = table.layout.get("widths")
    sides = table.layout.get("sides")
    size = len(titles)
    layout = (
        Column("column", "Column", Unit.TEXT, titles),
        Column("width", "Width", Unit.COUNT, list(widths) if isinstance(widths, list) else [0] * size),
        Column("side", "Side", Unit.TEXT, list(sides) if isinstance(sides, list) else [">"] * size),
    )
    lines = [(place, line) for place in ("above", "totals") for line in table.lines(place)]
    lines += [("ends", line) for line in (table.layout.get("ends"),) if isinstance(line, str)]
    around = (
        Column("place", "Place", Unit.TEXT, [place for place, _ in lines]),
        Column("line", "Line", Unit.TEXT, [line for _, line in lines]),
    )
    rows = _sorted(table.rows, options)
    kept = rows[: options.top] if options.top > 0 else rows
    cells = [(cells_of(row) + [""] * size)[:size] for row in kept]
    columns = [
        Column(key_of(title), title, Unit.TEXT, [each[place] for each in cells]) for place, title in enumerate(titles)
    ]
    if any("stack" in row["args"] for row in table.rows) or "Source Location" in titles:
        columns.append(Column("stack", "Stack", Unit.TEXT, ["\n".join(stack_of(row)) for row in kept]))
    return [
        ReportTable(LAYOUT_TABLE, "Columns", layout),
        ReportTable(LINES_TABLE, "Lines around the rows", around),
        ReportTable(ROWS_TABLE, "Rows", tuple(columns), omitted=len(rows) - len(kept)),
    ]


def _sorted(rows: list[TotalsRow], options: ViewOptions) -> list[TotalsRow]:
    key, turned = tabulate.sort_key(options, _ORDERS)
    if not key:
        return rows
    if key not in _ORDERS:
        raise UsageError(sentence(Option("sort", key), ": PyTorch has no such order"), choices=_ORDERS)

    def figure(row: TotalsRow) -> float:
        value = _ORDERS[key](row)
        return float(value) if isinstance(value, (int, float)) else 0.0

    return sorted(rows, key=figure, reverse=not turned)


VIEW = View(NAME, TITLE, _COLUMNS, frozenset(), compute, shows=SHOWS)

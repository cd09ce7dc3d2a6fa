"""The door of this folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tracekit.compat.base import Compat
from tracekit.compat.fixed_width import fixed_width
from tracekit.errors import Option, UsageError, sentence
from tracekit.index.sources import facts_by_source, source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model.report import Cell, Column, Report, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.render.base import Renderer, RenderOptions
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.totals import HEADER, TotalsRow, cell, frames_of, in_file_order, totals_rows, whole_number

__all__ = ["COMPAT", "VIEW"]

# Rows of PyTorch's printed tables as its reader keeps them, table by table.


FORMAT = "torch-table"
MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class TorchPrinted:
    """One table. layout: its columns, widths, sides and the lines around it. rows: without those of memory."""

    source: int
    layout: Mapping[str, Any]
    rows: list[TotalsRow]
    memory: dict[tuple[str | None, str], int]

    @property
    def titles(self) -> list[str]:
        """Return the heads of its columns."""
        return _printed_texts(self.layout.get("columns"))

    def lines(self, place: str) -> list[str]:
        """Return the lines "above" its first rule, or its "totals"."""
        return _printed_texts(self.layout.get(place))


def printed_tables(index: TraceIndex) -> list[TorchPrinted]:
    """Return the tables of all inputs in the order of the files."""
    layouts: dict[tuple[int, int], TorchPrinted] = {}
    for source, facts in facts_by_source(index).items():
        known = facts.facts.get("tables") if facts.format == FORMAT else None
        for layout in known if isinstance(known, list) else ():
            if isinstance(layout, dict) and isinstance(layout.get("run"), int):
                layouts[source, layout["run"]] = TorchPrinted(source, layout, [], {})
    for row in in_file_order(totals_rows(index)):
        table = layouts.get((row["source"], row["run"]))
        if table is None or row["section"] == HEADER:
            continue
        if row["kind"] == MEMORY and table.rows:
            table.memory[str(len(table.rows) - 1), str(row["args"].get("place"))] = row["bytes"] or 0
        elif isinstance(row["args"].get("cells"), list):
            table.rows.append(row)
    return list(layouts.values())


def cells_of(row: TotalsRow) -> list[str]:
    """Return the cells of a row as they were printed."""
    return _printed_texts(row["args"].get("cells"))


def stack_of(row: TotalsRow) -> list[str]:
    """Return the frames that were printed below a row."""
    return _printed_texts(row["args"].get("stack"))


def _printed_texts(found: object) -> list[str]:
    return [str(each) for each in found] if isinstance(found, list) else []


# Columns of the tables of this folder.


_PRINTED = (
    ("name", "Name"),
    ("overload", "Overload Name"),
    ("self_percent", "Self CPU %"),
    ("self_cpu", "Self CPU"),
    ("percent", "CPU total %"),
    ("cpu_total", "CPU total"),
    ("cpu_avg", "CPU time avg"),
    ("self_device", "Self CUDA"),
    ("self_device_percent", "Self CUDA %"),
    ("device_percent", "CUDA total %"),
    ("cuda_total", "CUDA total"),
    ("cuda_avg", "CUDA time avg"),
    ("cpu_mem", "CPU Mem"),
    ("self_cpu_mem", "Self CPU Mem"),
    ("device_mem", "CUDA Mem"),
    ("self_device_mem", "Self CUDA Mem"),
    ("number_of_calls", "# of Calls"),
    ("node", "Node ID"),
    ("shapes", "Input Shapes"),
    ("location", "Source Location"),
    ("total_flops", "Total FLOPs"),
)
_TITLES = {title: key for key, title in _PRINTED} | {
    "Self CPU total %": "self_percent",
    "Self CPU total": "self_cpu",
    "CPU time": "cpu_avg",
    "CUDA time": "cuda_avg",
    "Number of Calls": "number_of_calls",
    "Calls": "number_of_calls",
}
_CPU_OR_FLOPS = re.compile(r"CPU|FLOP")
_DEVICE = re.compile(r"(?<=Self )\w+(?= |$)|^\w+(?= (?:total|time|Mem))")


def key_of(title: str) -> str:
    """Return the key of a printed column, whatever the device is called.

    >>> key_of("Self XPU %")
    'self_device_percent'
    """
    if "FLOP" in title:
        return "total_flops"
    return _TITLES.get(title) or _TITLES.get(_DEVICE.sub("CUDA", title, count=1), "other")


SHOWS = (
    specs.NAME,
    specs.CALLS,
    specs.RUN,
    specs.SOURCE,
    specs.DEVICE_ID,
    specs.BYTES,
    specs.RATIO,
    ViewColumn("requested", "Requested", Unit.BYTES, "The part of the bytes that the program asked for."),
    ViewColumn("self", "CPU self", Unit.NS, "The host time that no range or call inside took."),
    ViewColumn("total", "CPU total", Unit.NS, "The sum of the durations on the host."),
    ViewColumn("avg", "CPU avg", Unit.NS, "The mean duration on the host, as printed."),
    ViewColumn("self_ratio", "CPU self ratio", Unit.RATIO, "The share of the sum of the self times of the table."),
    ViewColumn("device_self", "Device self", Unit.NS, "The device time that PyTorch gives to the row alone."),
    ViewColumn("device_total", "Device total", Unit.NS, "The device time of the row and of all rows within it."),
    ViewColumn("memory", "CPU memory", Unit.BYTES, "What the row itself allocated on the host, less what it freed."),
    ViewColumn("device_memory", "Device memory", Unit.BYTES, "What the row itself allocated on the device."),
    ViewColumn("flops", "FLOPs", Unit.COUNT, "The number of floating-point operations, where the table has it."),
    ViewColumn("flop_rate", "FLOPs per s", Unit.COUNT, "The same divided by the time of the row: PyTorch 1.8 and 1.9."),
    *(
        ViewColumn(key, title, Unit.TEXT, f"The column {title}, as printed.")
        for key, title in _PRINTED
        if key != "name"
    ),
    ViewColumn("stack", "Stack", Unit.TEXT, "The frames that were printed below the row."),
    ViewColumn("column", "Column", Unit.TEXT, "The head of a column of the printed table."),
    ViewColumn("width", "Width", Unit.COUNT, "The number of characters of the column."),
    ViewColumn("side", "Side", Unit.TEXT, "The alignment of the column."),
    ViewColumn(
        "place", "Place", Unit.TEXT, "The place of a line outside of the rows: above, totals, or the ends of lines."
    ),
    ViewColumn("line", "Line", Unit.TEXT, "A line as printed."),
)

# The state of PyTorch's allocator when a snapshot was taken, and what each stack allocated: rows of TOTALS.


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


# torch: a report made with `--compat torch`, as the text of PyTorch's `key_averages().table()`.
#
# Sources: `_build_table` of torch/autograd/profiler_util.py; tables of PyTorch 1.0 to 2.15, held against this text.


_GAP = "  "
_FLOPS = re.compile(r"\d+\.\d{3}", re.ASCII)


def render(report: Report, _: RenderOptions) -> str:
    """Return the text: each table as `table()` returned it, a blank line between two."""
    tables = [table for section in report.sections if section.view == "torch" for table in section.tables]
    thirds = zip(tables[::3], tables[1::3], tables[2::3], strict=True)
    return "\n".join("".join(f"{line}\n" for line in _lines(*third)) for third in thirds)


def _lines(layout: ReportTable, around: ReportTable, rows: ReportTable) -> Iterator[str]:
    titles = [str(title) for title in layout.column("column").values]
    shape = [(str(side), int(width or 0)) for _, width, side in layout.rows()]
    # Tables of 1.1 and older have no blanks at the end of a line.
    bare = any(place == "ends" for place, _ in around.rows())
    rule = _line(["-" * width for _, width in shape], shape, bare=bare)
    above = [str(line) for place, line in around.rows() if place == "above"]
    if above:
        yield "=" * (sum(width for _, width in shape) + len(_GAP) * (len(shape) - 1))
        yield from above
    yield rule
    yield _line(titles, shape, bare=bare)
    yield rule
    stacks = rows.columns[-1].name == "stack" if rows.columns else False
    for row in rows.rows():
        cells = [_cell(cell) for cell in row]
        stack = cells.pop() if stacks else ""
        yield _line(cells, shape, bare=bare)
        if stacks:
            blanks = [""] * (len(shape) - 1)
            for frame in stack.split("\n") if stack else ():
                yield _line([*blanks, frame], shape, bare=bare)
            yield _line([*blanks, ""], shape, bare=bare)
    totals = [str(line) for place, line in around.rows() if place == "totals"]
    if totals:
        yield rule
        yield from totals


def _cell(cell: Cell) -> str:
    """Return a cell; FLOPs have eight characters at least, which shows where they are aligned to the left."""
    text = "" if cell is None else str(cell)
    return text.rjust(8) if _FLOPS.fullmatch(text) else text


def _line(cells: Sequence[str], shape: Sequence[tuple[str, int]], *, bare: bool) -> str:
    line = fixed_width(cells, [width for _, width in shape], "".join(side for side, _ in shape), _GAP)
    return line + ("" if bare else _GAP)


LAYOUT = Renderer(name="torch", suffixes=(), render=render)

# torch: the rows of the tables that PyTorch's profilers printed, times on host and device side by side. For a snapshot
# of its allocator: segments, blocks, and what each stack allocated.
#
# By default times are numbers, a row a row of the file, ordered by self time; a ratio is of the self times of its
# table. With `--compat torch` the tables have the cells as PyTorch printed them, and so has the text (`layout`).


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


def _memory(table: TorchPrinted, place: int, where: str) -> int | None:
    return table.memory.get((str(place), where)) if where else None


def _device(row: TotalsRow) -> str:
    found = row["args"].get("device")
    return found if isinstance(found, str) else ""


def _whole(value: Cell) -> Cell:
    return round(value) if isinstance(value, float) else value


def _as_printed(table: TorchPrinted, options: ViewOptions) -> list[ReportTable]:
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

COMPAT = Compat("torch", "PyTorch's key_averages().table()", (VIEW,), LAYOUT)

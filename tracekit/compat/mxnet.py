"""The door of this folder."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.compat.base import Compat
from tracekit.compat.fixed_width import fixed_width, padded, rows_of, time_unit
from tracekit.errors import Option, UsageError, sentence
from tracekit.index import grouping
from tracekit.index.grouping import INT64_MAX, Groups, Key, group_by, key_of, kind_mask, statistics
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, pc
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, Report, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import TIME_EXPONENT, Unit
from tracekit.render.base import Renderer, RenderOptions
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.totals import TotalsRow, cell, fields, totals_rows

__all__ = ["COMPAT", "VIEW"]

# Durations, counters and memory of a trace by category and name: what MXNet's aggregate statistics are made of.
#
# The category is MXNet's own where the trace has one ("operator", "MXNET_C_API", a domain), else the kind of the event.
# MXNet's trace holds each operator twice, as an event and as a task around it; its statistics count the event alone.
#
# Source: src/profiler/profiler.h and aggregate_stats.cc of MXNet 1.5 to 1.9, held against the tables of dumps().


COLUMNS = frozenset({"ts_ns", "dur_ns", "name", "kind", "source", "value", "bytes", "device", "args"})
TOOL = "MXNet profiler"
MEMORY = ("Device Storage", "Pool Memory")
"""Categories whose counters are bytes in use."""
_TWICE = frozenset({"operator", "Custom Operator"})

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Durations:
    """Rows with a duration in groups of (category, name)."""

    groups: Groups
    ns: I64


@dataclass(frozen=True, slots=True, eq=False)
class MxnetSamples:
    """Values of counters, in order of time, in groups of (category, name)."""

    groups: Groups
    values: F64


@dataclass(frozen=True, slots=True, eq=False)
class MxnetRows:
    """The rows of a trace. categories: all that occur, those of marks too."""

    durations: Durations
    counters: MxnetSamples
    memory: MxnetSamples
    categories: frozenset[str]
    is_mxnet: bool
    notes: tuple[str, ...]


def mxnet_rows(index: TraceIndex) -> MxnetRows:
    """Return the rows of a trace."""
    events = index.events
    mxnet = [n for n, facts in facts_by_source(index).items() if facts.facts.get("tool") == TOOL]
    is_mxnet = np.isin(events.column("source").to_numpy(), mxnet)
    category = _categories(events)
    args = events.column("args")
    timed = arrow.valid(events.column("dur_ns"))
    tasks = arrow.bools(pc.match_substring(args, '"id":'))
    twice = tasks & is_mxnet & timed & np.isin(category.codes, _codes_of(category, _TWICE))
    duration_rows = np.flatnonzero(timed & ~twice & ~kind_mask(events, [Kind.MEMORY, Kind.COUNTER, Kind.FLOW]))
    ns = np.maximum(arrow.ints(events.column("dur_ns"))[duration_rows], 0)
    values = arrow.floats(events.column("value"))
    is_counter = kind_mask(events, [Kind.COUNTER]) & np.isfinite(values)
    is_memory = is_counter & np.isin(category.codes, _codes_of(category, MEMORY))
    marks = np.flatnonzero(kind_mask(events, [Kind.MARK]) & is_mxnet)
    notes = []
    if count := int(twice.sum()):
        notes.append(f"counted once: {plural(count, 'operator')} that the trace holds as tasks, too")
    if count := int((kind_mask(events, [Kind.COUNTER]) & ~np.isfinite(values)).sum()):
        notes.append(f"not counted: {plural(count, 'sample')} of counters that are no numbers")
    if count := int((arrow.ints(events.column("dur_ns"))[duration_rows] < 0).sum()):
        notes.append(f"counted as 0: {plural(count, 'duration')} below zero")
    durations = Durations(_grouped(events, category, duration_rows), ns)
    counters, memory = (
        _samples(events, category, np.flatnonzero(rows)) for rows in (is_counter & ~is_memory, is_memory)
    )
    if not is_memory.any():
        memory = _in_use(events)
    known = {str(category.labels[code]) for code in sets.unique(category.codes[marks]).tolist()}
    for part in (durations, counters, memory):
        known |= {str(label) for label in part.groups.labels[0]}
    return MxnetRows(durations, counters, memory, frozenset(known), bool(mxnet), tuple(notes))


def _codes_of(key: Key, texts: frozenset[str] | tuple[str, ...]) -> list[int]:
    return [code for code, label in enumerate(key.labels) if label in texts]


def _categories(events: pa.Table) -> Key:
    """Return the category of each row of EVENTS: its `cat` in args, else its kind."""
    found = pc.struct_field(pc.extract_regex(events.column("args"), r'^\{"cat":"(?P<cat>(?:[^"\\]|\\.)*)"'), "cat")
    kinds = pc.cast(events.column("kind"), pa.string())
    every = np.arange(events.num_rows)
    key = key_of(pa.table([pc.coalesce(found, kinds)], names=["cat"]), "cat", every)
    return Key(key.codes, [label if label is None else _unescaped(str(label)) for label in key.labels])


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"')) if "\\" in text else text
    except ValueError:
        return text


def _grouped(events: pa.Table, category: Key, rows: I64) -> Groups:
    name = key_of(events, "name", rows)
    labels = [label if label is not None else "(no name)" for label in name.labels]
    return group_by(Key(category.codes[rows], category.labels), Key(name.codes, labels))


def _samples(events: pa.Table, category: Key, rows: I64) -> MxnetSamples:
    values = arrow.floats(events.column("value"), 0.0)[rows]
    return MxnetSamples(_grouped(events, category, rows), values)


def _in_use(events: pa.Table) -> MxnetSamples:
    """Return the bytes in use after each allocation and free, by device, of a trace that has no counter of them."""
    rows = np.flatnonzero(kind_mask(events, [Kind.MEMORY]) & events.column("bytes").is_valid().to_numpy())
    device = key_of(events, "device", rows)
    source = key_of(events, "source", rows)
    groups = group_by(source, device)
    sizes = arrow.ints(events.column("bytes"))[rows].astype(np.float64)
    values = np.zeros(len(rows))
    labels: list[Cell] = []
    several = len(set(groups.labels[0])) > 1
    for group, (source_number, number) in enumerate(zip(*groups.labels, strict=True)):
        mine = groups.codes == group
        values[mine] = np.cumsum(sizes[mine])
        where = "cpu/0" if number is None else f"gpu/{number}"
        labels.append(f"Memory: {where}{f' (input {source_number})' if several else ''}")
    return MxnetSamples(Groups(groups.codes, groups.count, ([MEMORY[0]] * groups.count, labels)), values)


def last_of(samples: MxnetSamples) -> F64:
    """Return the last value of each group; rows are in order of time."""
    last = np.zeros(samples.groups.count, np.int64)
    last[samples.groups.codes] = np.arange(len(samples.values))
    return samples.values[last] if len(samples.values) else np.zeros(samples.groups.count)


def bounds_of(samples: MxnetSamples) -> tuple[I64, F64, F64, F64]:
    """Return count, minimum, maximum and mean of each group, of the samples as they are."""
    count = np.bincount(samples.groups.codes, minlength=samples.groups.count)
    low, high = np.full(samples.groups.count, np.inf), np.full(samples.groups.count, -np.inf)
    np.minimum.at(low, samples.groups.codes, samples.values)
    np.maximum.at(high, samples.groups.codes, samples.values)
    total = np.bincount(samples.groups.codes, weights=samples.values, minlength=samples.groups.count)
    return count, low, high, total / np.maximum(count, 1)


# Columns of the tables of this folder.


SHOWS = (
    specs.NAME,
    *specs.STATISTICS,
    specs.RUN,
    ViewColumn("category", "Category", Unit.TEXT, "The category of the events."),
    ViewColumn("source", "Source", Unit.ID, "The number of the input."),
    ViewColumn("last", "Last", Unit.NUMBER, "The last value of the counter."),
    ViewColumn("last", "Last", Unit.BYTES, "The bytes that were held at the end."),
    ViewColumn("avg", "Mean", Unit.NUMBER, "The mean of the samples."),
    ViewColumn("avg", "Mean", Unit.BYTES, "The mean of the samples."),
    ViewColumn("min", "Min", Unit.NUMBER, "The smallest sample."),
    ViewColumn("min", "Min", Unit.BYTES, "The smallest number of bytes that were held."),
    ViewColumn("max", "Max", Unit.NUMBER, "The largest sample."),
    ViewColumn("max", "Peak", Unit.BYTES, "The largest number of bytes that were held."),
    ViewColumn("count", "Total Count", Unit.COUNT, "The number of events, as MXNet prints it."),
)

# The tables of `--compat mxnet`: one a category, with the figures that MXNet prints, defects and all.
#
# A counter stands among the times as if its value were us, and the average of counters and of memory is half of maximum
# less minimum. Memory is in MXNet's own "kB" of 1000 bytes; its "kb" before 1.9 was 100 (`--option memory_unit=kb`).
# Rows are ordered by one figure, the largest first unless asked otherwise, and by name, the last first, among equals.
#
# Source: aggregate_stats.cc of MXNet 1.5 and 1.9, held against the tables of dumps() in five orders.


FORMAT = "mxnet-table"
KEYS: Final = ("total", "avg", "min", "max", "count")
UNITS: Final = {"kB": 1000, "kb": 100}
"""Bytes of what MXNet calls so."""
_JSON_DIGITS = 4
RUN = "run"
"""Name of the table before those of each run."""


@dataclass(frozen=True, slots=True)
class MxnetLine:
    """One row: times in ns, of memory in the printed unit. keys: what rows are ordered by, in KEYS' order."""

    name: str
    count: int
    total: float
    low: float
    high: float
    average: float

    def key(self, by: str) -> float:
        """Return the figure of that name."""
        figures = (self.total, self.average, self.low, self.high, self.count)
        return float(figures[KEYS.index(by)])


def order_of(options: ViewOptions) -> tuple[str, bool]:
    """Return the key, "" where none is asked for, and whether it ascends. Raises: UsageError."""
    key = options.sorted_by.removeprefix("-")
    key = {"calls": "count", "ave": "avg"}.get(key, key)
    if key and key not in KEYS:
        hint = f"one of: {', '.join(KEYS)}; -KEY ascends"
        raise UsageError(sentence(Option("sort", key), ": MXNet has no such order"), hint=hint, choices=KEYS)
    return key, options.sorted_by.startswith("-")


def sorted_lines(lines: Sequence[MxnetLine], key: str, *, ascending: bool) -> list[MxnetLine]:
    """Return the rows in MXNet's order."""
    by_name = sorted(lines, key=lambda line: line.name.encode(), reverse=True)
    return sorted(by_name, key=lambda line: line.key(key) * (1 if ascending else -1))


def tables_of(index: TraceIndex, options: ViewOptions) -> tuple[list[ReportTable], list[str]]:
    """Return the tables that MXNet would print of the events of a trace, and notes.

    Raises: UsageError for another key of --sort; TracekitError where a sum exceeds int64.
    """
    key, ascending = order_of(options)
    rows = mxnet_rows(index)
    lines: dict[str, list[MxnetLine]] = {category: [] for category in rows.categories}
    stats = statistics(rows.durations.groups, rows.durations.ns)
    figures = zip(
        *rows.durations.groups.labels,
        *(a.tolist() for a in (stats.calls, stats.total, stats.min, stats.max)),
        strict=True,
    )
    for category, name, count, total, low, high in figures:
        lines[str(category)].append(MxnetLine(str(name), count, total, low, high, total / count))
    for category, line in _counter_lines(rows.counters, 1000.0):
        lines[category].append(line)
    unit = next((u for f in facts_by_source(index).values() if (u := f.facts.get("memory_unit")) in UNITS), "kB")
    for category, line in _counter_lines(rows.memory, 1 / UNITS[unit]):
        lines[category].append(line)
    tables = [
        _table(category, sorted_lines(found, key or "total", ascending=ascending), unit, options.top)
        for category, found in sorted(lines.items(), key=lambda item: item[0].encode())
    ]
    notes = list(rows.notes)
    if rows.counters.groups.count:
        notes.append("MXNet prints a counter as if it were us, and half of its maximum less its minimum as its average")
    if rows.memory.groups.count and rows.is_mxnet:
        notes.append(
            f"a {unit} of memory is {UNITS[unit]} bytes; older MXNet than 1.9: --option memory_unit=kb, of 100"
        )
    return tables, notes


def _counter_lines(samples: MxnetSamples, scale: float) -> list[tuple[str, MxnetLine]]:
    counts, lows, highs, _ = bounds_of(samples)
    columns = (*samples.groups.labels, counts.tolist(), last_of(samples).tolist(), lows.tolist(), highs.tolist())
    return [
        (str(category), MxnetLine(str(name), count, last * scale, low * scale, high * scale, _half(high - low) * scale))
        for category, name, count, last, low, high in zip(*columns, strict=True)
    ]


def _half(value: float) -> float:
    """Return the half; of a whole number without its rest, as MXNet divides integers."""
    return float(value // 2) if value.is_integer() else value / 2


def _ns(value: float) -> int | None:
    """Return whole ns; null for what int64 does not hold, as a counter may."""
    return round(value) if abs(value) < INT64_MAX else None


def _table(category: str, lines: Sequence[MxnetLine], unit: str, top: int) -> ReportTable:
    kept = lines[:top] if top > 0 else lines
    columns = [
        Column("name", "Name", Unit.TEXT, [line.name for line in kept]),
        Column("count", "Total Count", Unit.COUNT, [line.count for line in kept]),
    ]
    if category in MEMORY:
        columns += [
            Column(name, f"{title} Use ({unit})", Unit.NUMBER, [float(value) for value in values])
            for name, title, values in (
                ("min", "Min", [line.low for line in kept]),
                ("max", "Max", [line.high for line in kept]),
                ("avg", "Avg", [line.average for line in kept]),
            )
        ]
    else:
        columns += [
            Column("total", "Time", Unit.NS, [_ns(line.total) for line in kept]),
            Column("min", "Min Time", Unit.NS, [_ns(line.low) for line in kept]),
            Column("max", "Max Time", Unit.NS, [_ns(line.high) for line in kept]),
            Column("avg", "Avg Time (ns)", Unit.NUMBER, [float(line.average) for line in kept]),
        ]
    return ReportTable(category, category, tuple(columns), omitted=len(lines) - len(kept))


def printed_sources(index: TraceIndex) -> list[int]:
    """Return the inputs that are tables which MXNet printed."""
    return sorted(
        n for n, facts in facts_by_source(index).items() if facts.format == FORMAT or "sections" in facts.facts
    )


def printed_rows(index: TraceIndex) -> list[TotalsRow]:
    """Return the rows of TOTALS of such inputs."""
    sources = printed_sources(index)
    return [row for row in totals_rows(index) if row["source"] in sources] if sources else []


def tables_of_printed(index: TraceIndex, options: ViewOptions) -> tuple[list[ReportTable], list[str]]:
    """Return the tables as MXNet printed them, in its order unless another one is asked for. Raises: UsageError."""
    key, ascending = order_of(options)
    facts = facts_by_source(index)
    rows: dict[tuple[int, int, str], list[TotalsRow]] = {}
    notes: list[str] = []
    for source in printed_sources(index):
        found = facts[source].facts.get("sections")
        for place in found if isinstance(found, list) else ():
            if isinstance(place, list) and len(place) == 2 and isinstance(place[0], int):
                rows[source, place[0], str(place[1])] = []
        if facts[source].facts.get("form") == "json":
            notes.append(f"JSON of MXNet has {_JSON_DIGITS} digits of each figure; its tables have four decimals")
    for row in printed_rows(index):
        rows.setdefault((row["source"], row["run"], row["section"]), []).append(row)
    tables: list[ReportTable] = []
    runs = {place[:2] for place in rows}
    several = len(runs) > 1
    for place in sorted(rows) if notes else sorted(rows, key=lambda place: place[:2]):
        if several and place[:2] in runs:
            runs.discard(place[:2])
            tables.append(_run_table(*place[:2]))
        unit = next((str(row["unit"]) for row in rows[place] if row["unit"]), "kB")
        lines = [_printed_line(row) for row in rows[place]]
        lines = sorted_lines(lines, key, ascending=ascending) if key else lines
        tables.append(_table(place[2], lines, unit, options.top))
    return tables, notes


def _run_table(source: int, run: int) -> ReportTable:
    """Return the table that precedes those of a run where there are several."""
    columns = (Column("source", "Source", Unit.ID, [source]), Column("run", "Run", Unit.ID, [run]))
    return ReportTable(RUN, "Profile Statistics", columns)


def _printed_line(row: TotalsRow) -> MxnetLine:
    """Return the row; what it lacks is 0: MXNet prints all figures, so it was written by someone else."""
    timed = row["total_ns"] is not None
    names = ("total_ns", "min_ns", "max_ns", "avg_ns") if timed else ("value_min", "value_max", "value_avg")
    figures = list(fields(row, names))
    if not timed:
        figures.insert(0, cell(row["args"].get("last", 0)))
    scale = 1000.0 if row["kind"] == "counter" and not timed else 1
    known = (scale * f if isinstance(f, (int, float)) and math.isfinite(f) else 0 for f in figures)
    return MxnetLine(row["name"] or "", row["calls"] or 0, *known)


# mxnet: a report made with `--compat mxnet`, as the table of MXNet's `profiler.dumps()`.
#
# Times are ms with four decimals, of single floats, as MXNet makes them; names are padded, never cut.
# Source: aggregate_stats.cc of MXNet 1.9, held against the tables that it printed.


_NAME, _CELL = 25, 16
_LARGEST_SINGLE = 3.4028234663852886e38


def render(report: Report, options: RenderOptions) -> str:
    """Return the text. Raises: UsageError for an unknown unit of time."""
    unit = time_unit(options)
    lines: list[str] = []
    for section in report.sections:
        if section.view == "mxnet":
            for number, table in enumerate(section.tables):
                if table.name == "run" or not number:
                    lines += ["", "Profile Statistics:", "\tNote the difference in units for different entries."]
                if table.name != "run":
                    lines += _table_lines(table, unit)
    return "".join(f"{line}\n" for line in lines)


def _table_lines(table: ReportTable, unit: str) -> Iterator[str]:
    names = [column.name for column in table.columns]
    is_memory = "total" not in names
    if is_memory:
        unit_of_size = table.column("min").title.partition("(")[2].rstrip(")")
        heads = [f"{word} Use  ({unit_of_size})" for word in ("Min", "Max", "Avg")]
    else:
        heads = [f"Time ({unit})", *(f"{word} Time ({unit})" for word in ("Min", "Max", "Avg"))]
    rules = [*([] if is_memory else ["---------"]), *["-------------"] * 3]
    yield from (
        table.title,
        "=================",
        _line("Name", "Total Count", heads),
        _line("----", "-----------", rules),
    )
    for cells in rows_of(table):
        figures = [
            _figure(cells[name], None if is_memory else unit)
            for name in ("total", "min", "max", "avg")
            if name in cells
        ]
        yield _line(str(cells["name"]), str(cells["count"]), figures)
    yield ""


def _line(name: str, count: str, cells: list[str]) -> str:
    figures = [count, *cells]
    return padded(name, _NAME) + fixed_width(figures, [_CELL] * len(figures), ">" * len(figures), " ")


def _figure(value: Cell, unit: str | None) -> str:
    """Return a number as a single float with four decimals."""
    if not isinstance(value, (int, float)):
        return "-"
    number = value if unit is None else value / 10.0 ** TIME_EXPONENT[unit]
    if abs(number) > _LARGEST_SINGLE:
        return f"{number:.4f}"
    return f"{struct.unpack('f', struct.pack('f', number))[0]:.4f}"


LAYOUT = Renderer(name="mxnet", suffixes=(), render=render)

# mxnet: durations, counters and memory by category and name, as MXNet's aggregate statistics show them.
#
# By default with the figures that are right: percentiles, a mean that is one, bytes; the categories of a trace of
# another tool are the kinds of its events. With `--compat mxnet` the tables are those of `profiler.dumps()`, and so is
# the text (`compat/mxnet/layout.py`).


NAME, TITLE = "mxnet", "Statistics by category (MXNet)"
SORTS = ("category", "name", "calls", "total", "avg", "min", "max", "std", "p50", "p95", "p99", "ratio", "last")
_BYTES = {"kB": 1000, "kb": None}
"""Bytes of the unit that a table states; "kb" was 100 bytes or 1000, and the table does not say which."""


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the section: from EVENTS where there are durations, counters or memory, else from printed tables.

    Raises: UsageError for a missing column; TracekitError where a sum exceeds int64.
    """
    tabulate.require(index, NAME, COLUMNS)
    if options.compat == NAME:
        found, notes = tables_of(index, options)
        if not found:
            found, more = tables_of_printed(index, options)
            notes += more
        needs = [] if found else ["needs events with a duration, counters or memory; this trace has none"]
        return Section(NAME, TITLE, tuple(found), notes=(*needs, *notes))
    rows = mxnet_rows(index)
    parts = _times(rows.durations, options), _counters(rows.counters, options), _memory(rows.memory, options)
    tables = [table for table in parts if table]
    notes = list(rows.notes)
    if rows.durations.groups.count:
        notes.append(tabulate.PERCENTILE_NOTE)
        notes.append("a ratio is of the same category")
    if rows.counters.groups.count or rows.memory.groups.count:
        notes.append("the mean of a counter and of memory is that of its samples, however long each one stood")
    if not tables:
        tables, notes = _from_printed(index, options)
    if not tables:
        return tabulate.nothing(NAME, TITLE, "timed, counter or memory", options)
    return Section(NAME, TITLE, tuple(tables), notes=(*notes, *tabulate.option_notes(options, tables[0])))


def _times(durations: Durations, options: ViewOptions) -> ReportTable | None:
    if not durations.groups.count:
        return None
    categories, names = durations.groups.labels
    blocks: list[tuple[Cell, ...]] = [(category,) for category in categories]
    stats = grouping.statistics(durations.groups, durations.ns)
    found = tabulate.statistic_columns(stats, blocks)
    return tabulate.finish("times", "Times", [*_named(categories, names), *found], options, blocks=blocks)


def _named(categories: Sequence[Cell], names: Sequence[Cell]) -> list[Column]:
    return [Column("name", "Name", Unit.TEXT, names), Column("category", "Category", Unit.TEXT, categories, 1)]


def _counters(samples: MxnetSamples, options: ViewOptions) -> ReportTable | None:
    if not samples.groups.count:
        return None
    count, low, high, mean = bounds_of(samples)
    columns = [
        *_named(*samples.groups.labels),
        Column("calls", "Samples", Unit.COUNT, count.tolist(), 1),
        Column("last", "Last", Unit.NUMBER, last_of(samples).tolist()),
        Column("min", "Min", Unit.NUMBER, low.tolist(), 2),
        Column("max", "Max", Unit.NUMBER, high.tolist(), 1),
        Column("avg", "Mean", Unit.NUMBER, mean.tolist(), 2),
    ]
    return tabulate.finish("counters", "Counters", columns, options, own_order="calls")


def _memory(samples: MxnetSamples, options: ViewOptions) -> ReportTable | None:
    if not samples.groups.count:
        return None
    count, low, high, mean = bounds_of(samples)
    sizes = [[_bytes(v) for v in values.tolist()] for values in (last_of(samples), low, high, mean)]
    columns = [
        *_named(*samples.groups.labels),
        Column("calls", "Samples", Unit.COUNT, count.tolist(), 1),
        Column("last", "Last", Unit.BYTES, sizes[0], 2),
        Column("min", "Min", Unit.BYTES, sizes[1], 2),
        Column("max", "Peak", Unit.BYTES, sizes[2]),
        Column("avg", "Mean", Unit.BYTES, sizes[3], 2),
    ]
    return tabulate.finish("memory", "Memory in use", columns, options, own_order="max")


def _bytes(value: float) -> int | None:
    return round(value) if abs(value) < grouping.INT64_MAX else None


def _from_printed(index: TraceIndex, options: ViewOptions) -> tuple[list[ReportTable], list[str]]:
    """Return the tables of what MXNet printed: its averages of counters and memory are none, and are left out."""
    rows = printed_rows(index)
    notes = ["from a printed table: there are no percentiles"]
    timed = [row for row in rows if row["total_ns"] is not None]
    counters = [row for row in rows if row["kind"] == "counter"]
    memory = [row for row in rows if row["kind"] == "memory"]
    tables: list[ReportTable] = []
    if timed:
        blocks: list[tuple[Cell, ...]] = [(row["source"], row["run"], row["section"]) for row in timed]
        totals = [row["total_ns"] for row in timed]
        columns = [
            *_placed(timed),
            Column("calls", "Calls", Unit.COUNT, [row["calls"] for row in timed], 1),
            Column("total", "Total", Unit.NS, totals),
            Column("avg", "Avg", Unit.NS, [_rounded(row["avg_ns"]) for row in timed], 2),
            Column("min", "Min", Unit.NS, [row["min_ns"] for row in timed], 5),
            Column("max", "Max", Unit.NS, [row["max_ns"] for row in timed], 3),
            Column("ratio", "Ratio", Unit.RATIO, tabulate.ratios([ns or 0 for ns in totals], blocks), 1),
        ]
        tables.append(tabulate.finish("times", "Times", columns, options, blocks=blocks))
        notes.append("a ratio is of the same category")
    if counters:
        columns = [
            *_placed(counters),
            Column("calls", "Samples", Unit.COUNT, [row["calls"] for row in counters], 1),
            Column("last", "Last", Unit.NUMBER, [_float(row["args"].get("last")) for row in counters]),
            Column("min", "Min", Unit.NUMBER, [row["value_min"] for row in counters], 2),
            Column("max", "Max", Unit.NUMBER, [row["value_max"] for row in counters], 1),
        ]
        tables.append(tabulate.finish("counters", "Counters", columns, options, own_order="calls"))
    if memory:
        tables.append(_printed_memory(memory, options))
        if any(row["unit"] == "kb" for row in memory):
            notes.append('memory in "kb": 100 bytes in older MXNet, 1000 in newer; the table does not say which')
    if counters or memory:
        notes.append("what MXNet prints as the average of counters and memory is not an average, and is not shown")
    return tables, notes if tables else []


def _placed(rows: list[TotalsRow]) -> list[Column]:
    columns = [
        *_named([row["section"] for row in rows], [row["name"] for row in rows]),
        Column("run", "Run", Unit.ID, [row["run"] for row in rows], 2),
        Column("source", "Source", Unit.ID, [row["source"] for row in rows], 2),
    ]
    return [c for c in columns if c.name in ("name", "category") or len(set(c.values)) > 1]


def _printed_memory(rows: list[TotalsRow], options: ViewOptions) -> ReportTable:
    units = [_BYTES.get(row["unit"] or "") for row in rows]
    if None not in units:
        low, high = (
            [_bytes((value or 0) * unit) for value, unit in zip(values, units, strict=True) if unit]
            for values in ([row["value_min"] for row in rows], [row["value_max"] for row in rows])
        )
        sizes = [Column("min", "Min", Unit.BYTES, low, 2), Column("max", "Peak", Unit.BYTES, high)]
    else:
        stated = ", ".join(sorted({row["unit"] or "" for row in rows}))
        sizes = [
            Column("min", f"Min ({stated})", Unit.NUMBER, [row["value_min"] for row in rows], 2),
            Column("max", f"Peak ({stated})", Unit.NUMBER, [row["value_max"] for row in rows]),
        ]
    columns = [*_placed(rows), Column("calls", "Samples", Unit.COUNT, [row["calls"] for row in rows], 1), *sizes]
    return tabulate.finish("memory", "Memory in use", columns, options, own_order="max")


def _rounded(ns: float | None) -> int | None:
    return round(ns) if ns is not None and math.isfinite(ns) else None


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


VIEW = View(NAME, TITLE, COLUMNS, frozenset(), compute, shows=SHOWS)

COMPAT = Compat("mxnet", "MXNet aggregate statistics", (VIEW,), LAYOUT)

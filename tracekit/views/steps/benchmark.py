"""benchmark: the cost of loading a batch and of a step, and the speed: Paddle's Perf Summary with correct averages.

An iteration ends where a step ends and begins where the one before ended. The first iteration, and one after a gap in
the numbers of steps, begins with its step or with the loading before it. batch_cost: its whole time; reader_cost: the
time in dataloader ranges that ended in it, on the threads of the steps (ranges without a thread overlap the loop and do
not count); ips: steps per second, or samples where steps have a count (`num_samples` in args).

The first SKIPPED iterations are left out, unless there are no others. avg of batch_cost and ips: over all iterations
counted (ips: over their whole time); of reader_cost: over the steps that read. ratio: loading's share of the whole
time.

From TOTALS: the printed Perf Summary and lines of step_info, with Paddle's own averages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import TypedDict

import numpy as np

from tracekit.analysis.nesting import nest
from tracekit.analysis.statistics import nearest_rank
from tracekit.index import grouping
from tracekit.index import host_tree as host
from tracekit.index import owners as _owners
from tracekit.index import steps as _steps
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import args, arrow, sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.steps.pace import SAMPLES

__all__ = ["VIEW"]

# The Perf Summary and the lines of step_info as Paddle's timer printed them: rows of TOTALS with their own figures.


PERF, STEPS = "Perf Summary", "Benchmark"


class _BenchmarkRow(TypedDict):
    """A row of TOTALS, as far as this view reads it. step_info: the number of the printed line, 0 for none."""

    section: str
    source: int
    run: int
    order: int
    name: str | None
    unit: str | None
    avg_ns: float | None
    max_ns: int | None
    min_ns: int | None
    value_avg: float | None
    value_max: float | None
    value_min: float | None
    step_info: int


@dataclass(slots=True)
class _BenchmarkLine:
    """A printed line of step_info. costs: its rows by name."""

    number: int
    first: _BenchmarkRow
    costs: dict[str, _BenchmarkRow] = field(default_factory=dict)


_NOTE = (
    "as printed: of N steps Paddle sums the batches from the 10th on and divides by N - 10, and a value that raises "
    "the maximum is not looked at as a minimum"
)


def section(index: TraceIndex, options: ViewOptions, view: str, title: str, notes: Sequence[str]) -> Section:
    """Return the tables as printed, or a section with a note on what is missing."""
    rows = _rows(index)
    tables = [
        table for make in (_printed_costs, _printed_speeds, _lines) if (table := make(index, rows, options)) is not None
    ]
    if not tables:
        return tabulate.nothing(view, title, "step", options, notes)
    printed = [_NOTE] if any(row["section"] == PERF for row in rows) else []
    if any(table.name == "step_info" for table in tables):
        printed.append("step_info: averages since the line before")
    return Section(view, title, tuple(tables), notes=(*printed, *notes, *tabulate.option_notes(options, tables[0])))


def _rows(index: TraceIndex) -> list[_BenchmarkRow]:
    table = index.totals
    sections = table.column("section").to_pylist()
    totals = arrow.take(table, np.array([n for n, text in enumerate(sections) if text in (PERF, STEPS)], np.int64))
    if not totals.num_rows:
        return []
    import msgspec  # other traces have no such rows

    lines, _ = args.integers(totals.column("args"), "step_info")
    numbered = totals.append_column("step_info", arrow.array(lines))
    rows = msgspec.convert(numbered.select(list(_BenchmarkRow.__annotations__)).to_pylist(), list[_BenchmarkRow])
    return sorted(
        rows,
        key=lambda row: (row["source"], row["run"], row["order"]),
    )


def _which(index: TraceIndex, rows: list[_BenchmarkRow]) -> list[Column]:
    labels = source_labels(index)
    columns = [
        Column("run", "Run", Unit.ID, [row["run"] for row in rows], 0, "place"),
        Column("source", "Source", Unit.TEXT, [source_label(labels, row["source"]) for row in rows], 2, "place"),
    ]
    return [c for c in columns if len(set(c.values)) > 1]


def _table(name: str, title: str, columns: list[Column], options: ViewOptions) -> ReportTable:
    places: list[tuple[Cell, ...]] = [(i,) for i in range(len(columns[0].values))]
    return tabulate.finish(name, title, columns, options, own_order="", blocks=places, top_each=False)


def _printed_costs(index: TraceIndex, rows: list[_BenchmarkRow], options: ViewOptions) -> ReportTable | None:
    cost_rows = [row for row in rows if row["section"] == PERF and row["name"] in ("reader_cost", "batch_cost")]
    if not cost_rows:
        return None
    shares = {(row["source"], row["run"]): row["value_avg"] for row in rows if row["name"] == "Reader Ratio"}
    ratio: list[Cell] = []
    for row in cost_rows:
        percent = shares.get((row["source"], row["run"])) if row["name"] == "reader_cost" else None
        ratio.append(None if percent is None else percent / 100)
    columns = [
        Column("name", "Name", Unit.TEXT, [row["name"] for row in cost_rows], 0),
        *_which(index, cost_rows),
        Column("avg", "Avg", Unit.NS, [_ns(row) for row in cost_rows], 0),
        Column("max", "Max", Unit.NS, [row["max_ns"] for row in cost_rows], 1),
        Column("min", "Min", Unit.NS, [row["min_ns"] for row in cost_rows], 1),
        Column("ratio", "Share of time", Unit.RATIO, ratio, 0),
    ]
    return _table("costs", "Costs", columns, options)


def _printed_speeds(index: TraceIndex, rows: list[_BenchmarkRow], options: ViewOptions) -> ReportTable | None:
    speed_rows = [row for row in rows if row["section"] == PERF and row["name"] == "ips"]
    if not speed_rows:
        return None
    columns = [
        Column("name", "Name", Unit.TEXT, [row["name"] for row in speed_rows], 0),
        *_which(index, speed_rows),
        Column("unit", "Unit", Unit.TEXT, [row["unit"] for row in speed_rows], 0),
        Column("avg", "Avg", Unit.NUMBER, [row["value_avg"] for row in speed_rows], 0),
        Column("max", "Max", Unit.NUMBER, [row["value_max"] for row in speed_rows], 1),
        Column("min", "Min", Unit.NUMBER, [row["value_min"] for row in speed_rows], 1),
    ]
    return _table("ips", "Speed", columns, options)


def _lines(index: TraceIndex, rows: list[_BenchmarkRow], options: ViewOptions) -> ReportTable | None:
    """Return the lines of step_info, a row each."""
    lines: dict[tuple[int, int, int], _BenchmarkLine] = {}
    for row in rows:
        if row["section"] == STEPS:
            number = row["step_info"]
            lines.setdefault((row["source"], row["run"], number), _BenchmarkLine(number, row)).costs[
                row["name"] or ""
            ] = row
    if not lines:
        return None
    shown = list(lines.values())

    def cost(name: str) -> list[Cell]:
        rows_of_lines = [line.costs.get(name) for line in shown]
        return [None if row is None else _ns(row) for row in rows_of_lines]

    speeds = [line.costs.get("ips") for line in shown]
    columns = [
        Column("line", "Line", Unit.ID, [line.number for line in shown], 0, "event"),
        *_which(index, [line.first for line in shown]),
        Column("reader_cost", "Reader cost", Unit.NS, cost("reader_cost"), 0),
        Column("batch_cost", "Batch cost", Unit.NS, cost("batch_cost"), 0),
        Column("ips", "Ips", Unit.NUMBER, [row and row["value_avg"] for row in speeds], 0),
        Column("unit", "Unit", Unit.TEXT, [row and row["unit"] for row in speeds], 1),
    ]
    return _table("step_info", "Lines of step_info", columns, options)


def _ns(row: _BenchmarkRow) -> Cell:
    value = row["avg_ns"]
    return round(value) if value is not None and math.isfinite(value) else None


SKIPPED = 10
_TITLE = "Perf Summary"
_KINDS = frozenset({Kind.STEP, Kind.DATALOADER})
_COLUMNS = _steps.COLUMNS | {"step", "args"}


@dataclass(frozen=True, slots=True)
class _StepPerf:
    """The counted iterations of one owner. batch, reader: shape (n,), ns. amounts: steps or samples of each."""

    owner: int
    batch: I64
    reader: I64
    amounts: list[float]
    unit: str
    skipped: int


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the costs of iterations. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    owners = _owners.find(index)
    steps = _steps.find(index, owners)
    if not steps.rows.size:
        return section(index, options, VIEW.name, _TITLE, steps.notes)
    loading, aside = _loading(index, owners)
    order = sorted(sets.unique(steps.owner).tolist(), key=lambda o: (owners.ranks[o] is None, owners.ranks[o] or 0, o))
    perfs = [_perf(index, steps, loading, o) for o in order]
    tables = [_costs(owners, perfs, options), _speeds(owners, perfs, options)]
    notes = list(dict.fromkeys(_skipping(owners, perf) for perf in perfs))
    if aside:
        notes.append(f"{plural(aside, 'dataloader range')} without a thread: they overlap the loop and do not count")
    if not any(perf.reader.any() for perf in perfs):
        notes.append("no dataloader range ended in an iteration: reader_cost is unknown")
    notes += [tabulate.PERCENTILE_NOTE, *steps.notes, *tabulate.option_notes(options, tables[0])]
    return Section(VIEW.name, _TITLE, tuple(tables), notes=tuple(notes))


def _loading(index: TraceIndex, owners: _owners.Owners) -> tuple[tuple[I64, I64, I64], int]:
    """Return owner, start and end of the outermost dataloader ranges on threads, and the number without a thread."""
    picked = index.pick({Kind.DATALOADER})
    placed = index.has("tid")[picked.rows]
    rows, starts = picked.rows[placed], picked.starts[placed]
    ends = host.ends_of(starts, picked.durations[placed])
    outer = nest(host.lanes_of(index, rows), starts, ends).depth == 0 if rows.size else np.zeros(0, np.bool_)
    return (owners.codes[rows][outer], starts[outer], ends[outer]), int(np.count_nonzero(~placed))


def _perf(index: TraceIndex, steps: _steps.Steps, loading: tuple[I64, I64, I64], owner: int) -> _StepPerf:
    its_steps = np.flatnonzero(steps.owner == owner)
    ends = host.ends_of(steps.starts[its_steps], steps.durations[its_steps])
    order = np.argsort(ends, kind="stable")
    its_steps, ends = its_steps[order], ends[order]
    rows, starts = steps.rows[its_steps], steps.starts[its_steps]
    of_owner, read_from, read_to = loading
    at = of_owner == owner
    read_from, read_to = read_from[at], read_to[at]
    number = np.searchsorted(ends, read_to, "left")
    inside = number < ends.size
    # After a gap (another window of the profiler) an iteration begins with its own step or with its loading.
    begin = starts.copy()
    np.minimum.at(begin, number[inside], read_from[inside])
    begin[1:] = np.maximum(begin[1:], ends[:-1])
    follows = _follows(index, rows)
    begin[1:] = np.where(follows, ends[:-1], begin[1:])
    reader = np.zeros(ends.size, np.int64)
    spent = read_to[inside] - np.maximum(read_from[inside], begin[number[inside]])
    np.add.at(reader, number[inside], spent.clip(min=0))
    batch = ends - begin
    skipped = SKIPPED if ends.size > SKIPPED else 0
    amounts = _amounts(index, rows[skipped:])
    unit = "steps/s" if amounts is None else "samples/s"
    return _StepPerf(owner, batch[skipped:], reader[skipped:], amounts or [1.0] * (ends.size - skipped), unit, skipped)


def _follows(index: TraceIndex, rows: I64) -> Mask:
    """Return for each step but the first whether its number follows the one before; true where numbers are unknown."""
    known, numbers = index.has("step")[rows], index.ints("step")[rows]
    follows: Mask = ~(known[1:] & known[:-1]) | (numbers[1:] == numbers[:-1] + 1)
    return follows


def _amounts(index: TraceIndex, rows: I64) -> list[float] | None:
    """Return the number of samples of each step; None unless every step has one."""
    samples, known = args.floats(arrow.take(index.events.column("args"), rows), *SAMPLES)
    if not (known & (samples >= 0) & (samples < 1 << 53)).all():
        return None
    amounts: list[float] = samples.tolist()
    return amounts


def _skipping(owners: _owners.Owners, perf: _StepPerf) -> str:
    count = perf.batch.size
    if perf.skipped:
        return f"{owners.prefix(perf.owner)}over {plural(count, 'step')}; the first {perf.skipped} are skipped"
    few = "the only step" if count == 1 else f"all {count} steps"
    return f"{owners.prefix(perf.owner)}over {few}, the first ones too, for there are no more than {SKIPPED}"


def _costs(owners: _owners.Owners, perfs: list[_StepPerf], options: ViewOptions) -> ReportTable:
    names: list[Cell] = []
    of_owner: list[int] = []
    values: list[I64] = []
    ratios: list[Cell] = []
    for perf in perfs:
        whole = int(perf.batch.sum())
        if (read := perf.reader[perf.reader > 0]).size:
            names.append("reader_cost")
            of_owner.append(perf.owner)
            values.append(read)
            ratios.append(int(read.sum()) / whole if whole else None)
        names.append("batch_cost")
        of_owner.append(perf.owner)
        values.append(perf.batch)
        ratios.append(1.0 if whole else None)
    codes = np.repeat(np.arange(len(values)), [v.size for v in values])
    statistics = grouping.statistics(grouping.Groups(codes, len(values), ()), np.concatenate(values))
    columns = [
        Column("name", "Name", Unit.TEXT, names, 0),
        *owners.column(of_owner),
        *(c for c in tabulate.statistic_columns(statistics) if c.name != "ratio"),
        Column("ratio", "Share of time", Unit.RATIO, ratios, 0),
    ]
    places: list[tuple[Cell, ...]] = [(i,) for i in range(len(names))]
    return tabulate.finish("costs", "Costs", columns, options, own_order="", blocks=places, top_each=False)


def _speeds(owners: _owners.Owners, perfs: list[_StepPerf], options: ViewOptions) -> ReportTable:
    rows = [_speed(perf) for perf in perfs]
    titles = (
        ("calls", "Calls", 1),
        ("avg", "Avg", 0),
        ("min", "Min", 2),
        ("max", "Max", 2),
        ("p50", "P50", 3),
        ("p95", "P95", 3),
        ("p99", "P99", 3),
        ("std", "Std", 4),
    )
    columns = [
        Column("name", "Name", Unit.TEXT, ["ips"] * len(rows), 0),
        *owners.column([perf.owner for perf in perfs]),
        Column("unit", "Unit", Unit.TEXT, [perf.unit for perf in perfs], 0),
        *(
            Column(name, title, Unit.COUNT if name == "calls" else Unit.NUMBER, [row[name] for row in rows], priority)
            for name, title, priority in titles
        ),
    ]
    places: list[tuple[Cell, ...]] = [(i,) for i in range(len(rows))]
    return tabulate.finish("ips", "Speed", columns, options, own_order="", blocks=places, top_each=False)


def _speed(perf: _StepPerf) -> dict[str, Cell]:
    """Return the figures of ips to six decimals; percentiles are those of the ranks, std of a whole, as of times."""
    pairs = zip(perf.amounts, perf.batch.tolist(), strict=True)
    each = sorted(amount * 1e9 / ns for amount, ns in pairs if ns > 0)
    whole = int(perf.batch.sum())
    cells: dict[str, float | None] = {"avg": math.fsum(perf.amounts) * 1e9 / whole if whole else None}
    if each:
        mean = math.fsum(each) / len(each)
        cells |= {f"p{p}": each[nearest_rank(np.arange(len(each)), p)] for p in (50, 95, 99)}
        cells["std"] = math.sqrt(math.fsum((v - mean) ** 2 for v in each) / len(each))
        cells |= {"min": each[0], "max": each[-1]}
    names = ("avg", "min", "max", "p50", "p95", "p99", "std")
    rounded = {name: None if (value := cells.get(name)) is None else round(value, 6) for name in names}
    return {"calls": len(each), **rounded}


_SHOWS = (
    *specs.OWNER,
    specs.NAME,
    specs.CALLS,
    specs.TOTAL,
    *specs.SPREAD,
    specs.RUN,
    specs.SOURCE,
    ViewColumn("ratio", "Share of time", Unit.RATIO, "The share of loading in the whole time."),
    ViewColumn("unit", "Unit", Unit.TEXT, "The unit of the figures."),
    ViewColumn("avg", "Avg", Unit.NUMBER, "The mean over all counted iterations."),
    ViewColumn("min", "Min", Unit.NUMBER, "The smallest figure of an iteration."),
    ViewColumn("max", "Max", Unit.NUMBER, "The largest figure of an iteration."),
    ViewColumn("p50", "P50", Unit.NUMBER, "The median over the iterations."),
    ViewColumn("p95", "P95", Unit.NUMBER, "The 95th percentile over the iterations."),
    ViewColumn("p99", "P99", Unit.NUMBER, "The 99th percentile over the iterations."),
    ViewColumn("std", "Std", Unit.NUMBER, "The standard deviation over the iterations."),
    ViewColumn("line", "Line", Unit.ID, "The number of the printed line."),
    ViewColumn("reader_cost", "Reader cost", Unit.NS, "The time of loading a batch, as printed."),
    ViewColumn("batch_cost", "Batch cost", Unit.NS, "The time of an iteration, as printed."),
    ViewColumn("ips", "Ips", Unit.NUMBER, "Steps or samples per second, as printed."),
)

VIEW = View(
    name="benchmark",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=_KINDS,
    compute=compute,
    shows=_SHOWS,
    args_of=frozenset({Kind.STEP}),
)

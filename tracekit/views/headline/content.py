"""Choose what the first screen shows by what the trace has: names with their times, memory, samples, metrics.

Kernels come first. Without them the phases of training do, where they say where the time is: at least half of it is in
phases. Without steps they do so only where data loading is the largest of them. The operators, or the program's own
ranges where it has no operators, follow below the phases or take their place. Asynchronous ranges have a list of their
own where there is room.

A trace that is about something else than time shows that first: what held the memory at its peak, the functions that
were sampled most, how near kernels came to the peak of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest

from tracekit.analysis.kernel_class import classify
from tracekit.index.kernel_classes import rules
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Cell, LeadFigure, QuotedTable, ReportTable, Section, TopName, TopNames
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs
from tracekit.views.tables.metrics import OF_THE_RUN
from tracekit.views.tables.model import ON_NO_THREAD, OTHERS, PHASES, STEP
from tracekit.views.totals import HEADER, TotalsRow, totals_rows

__all__ = ["KINDS", "OF_STEPS", "OF_THREADS", "WITHOUT_THREAD", "choose", "quote", "rest"]

NAMES = 8
"""The most names of the first screen."""
TOP_VIEWS = {
    "kernel": "kernels",
    "operator": "operators",
    "model": "phases and layers",
    "user_defined": "user ranges",
    "api": "API calls",
    "memory_manipulation": "copies and memsets",
    "other": "other calls",
    "samples": "functions",
}
"""Views whose names may be the top names, the first one with a time, and what its names are."""
OF_THREADS, WITHOUT_THREAD = "ranges of threads", "ranges without a thread"
OF_LAYERS = "layers"
UNNAMED = "(no name)"
_DEVICE_VIEWS = ("kernel", "memory_manipulation")
_HOST_VIEWS = ("operator", "user_defined")
_BLOCK = (frozenset(spec.key for spec in specs.PLACED) - {"device"}) | {"grouping"}
_MOST_OTHERS = 0.5
"""The largest share outside of all phases with which phases still say where the time is."""
_LOADER = next(iter(PHASES.values()))


def choose(
    index: TraceIndex, section: Callable[[str], Section], more: Sequence[str], *, shares: bool
) -> tuple[TopNames | None, TopNames | None]:
    """Return the top names of a trace, and those to show below them. more: further views, of other profilers."""
    printed = _printed_wholes(index)

    def first(views: Sequence[str]) -> TopNames | None:
        return next(_candidates(views, section, printed, shares=shares), None)

    kernels = first(["kernel"])
    if kernels is not None:
        return (replace(kernels, title=OF_LAYERS) if _are_layers(index) else kernels), None
    operators, ranges, phases = (first([view]) for view in (*_HOST_VIEWS, "model"))
    host = operators or ranges
    asynchronous = _without_thread(section("user_defined"), shares=shares)
    if phases is not None and phases.of and _says_where(phases):
        return phases, host or asynchronous
    if host is None:
        others = first([view for view in (*TOP_VIEWS, *more) if view not in ("kernel", *_HOST_VIEWS)])
        return (asynchronous, None) if others is None else (others, asynchronous)
    if operators is None and asynchronous is not None:
        host = replace(host, title=OF_THREADS)  # "all ranges" would be wrong
    beside = ranges if index.events.num_rows else phases
    return host, (beside if operators is not None else None) or asynchronous


def quote(section: Callable[[str], Section], top: TopNames | None) -> tuple[LeadFigure | None, tuple[QuotedTable, ...]]:
    """Return the first figure and the tables of a trace that is about something else than time; None and () of others.

    top: the names that are shown in any case.
    """
    inference = _tables(section("inference"))
    if "latency" in inference:
        return None, (_first_rows("inference", inference["latency"], _OF_LATENCY),)
    metrics = _tables(section("metrics"))
    if "peak" in metrics:
        quoted = _quoted("metrics", metrics["peak"], _OF_METRICS, [each.name for each in top.names] if top else [])
        return _kernels_with(metrics) if top is None else None, (quoted,)
    if top is not None and top.view not in _HARDLY_WORK:
        return None, ()
    memory = _tables(section("memory"))
    if (lead := _peak(memory)) is not None:
        held = memory.get("at_peak") or memory.get("holders") or memory.get("categories")
        return lead, (_quoted("memory", held, _OF_MEMORY),) if held is not None else ()
    if top is not None:
        return None, ()
    if "layers" in inference:
        count = len(inference["layers"]) + inference["layers"].omitted
        lead = LeadFigure("", count, Unit.COUNT, f"{'layer' if count == 1 else 'layers'}, without times")
        return lead, (_first_rows("inference", inference["layers"], _OF_LAYERS_ALONE),)
    untimed = {each.name: each for each in section("operator").tables}.get("untimed_operators")
    if untimed is not None and len(untimed):
        total = sum(cell for cell in untimed.column("calls").values if isinstance(cell, int))
        lead = LeadFigure("", total, Unit.COUNT, f"operator {'call' if total == 1 else 'calls'}, without times")
        return lead, (_quoted("operator", untimed, ("calls", "flops", "bytes", "name")),)
    for table in section("samples").tables:
        column = next((column for column in table.columns if column.name.startswith(_OWN_SAMPLES)), None)
        weights = [cell for cell in column.values if isinstance(cell, int | float)] if column is not None else []
        if column is not None and sum(weights) > 0:
            unit = column.name.removeprefix(_OWN_SAMPLES)
            lead = LeadFigure("", round(sum(weights)), Unit.COUNT, f"{unit} in {len(table):,} functions")
            return lead, (_quoted("samples", table, (column.name, "ratio", "name")),)
    if "metrics" in metrics:
        return _kernels_with(metrics), (_quoted("metrics", metrics["metrics"], _OF_METRICS),)
    return None, ()


def rest(section: Callable[[str], Section], *, shares: bool) -> tuple[TopNames | None, tuple[QuotedTable, ...]]:
    """Return what to show of a trace that has neither names with times nor another figure: its kinds, else a table."""
    for table in section("overview").tables:
        columns = tuple(replace(column, name="name") if column.name == "kind" else column for column in table.columns)
        if (found := _names("overview", replace(table, columns=columns), (), shares=shares)) is not None:
            return replace(found, title=KINDS), ()
    for view in _TABLES_WITHOUT_TIMES:
        for table in section(view).tables:
            if len(table):
                ranked = sorted(table.columns, key=lambda column: column.priority)
                numbers = [column.name for column in ranked if column.unit is not Unit.TEXT][:_QUOTED_COLUMNS]
                return None, (_quoted(view, table, [*numbers, "name"]),)
    return None, ()


KINDS = "kinds"
_TABLES_WITHOUT_TIMES = (
    "benchmark",
    "memory_manipulation",
    "memory",
    "efficiency",
    "model",
    "user_defined",
    "api",
    "other",
    "device",
)
_QUOTED_COLUMNS = 4
_HARDLY_WORK = ("user_defined", "other")
"""Views of names that a snapshot of memory may have beside what it is about."""
_OF_METRICS = ("compute", "memory", "dram", "occupancy", "metric", "avg", "unit", "name")
_OF_MEMORY = ("held", "share", "blocks", "increased", "allocations", "name")
_OF_LATENCY = ("mean", "median", "percentile_99", "most", "part")
_OF_LAYERS_ALONE = ("type", "layer")
_OWN_SAMPLES = "self_"


def _tables(section: Section) -> dict[str, ReportTable]:
    return {table.name: table for table in section.tables if len(table)}


def _peak(memory: dict[str, ReportTable]) -> LeadFigure | None:
    """Return the greatest peak of allocated memory of any place; None where no table has one."""
    have = {column.name: column.values for column in memory["memory"].columns} if "memory" in memory else {}
    # A table of allocations alone has no peak.
    if not {"peak", "type", "name"} <= have.keys():
        return None
    places = zip(have["peak"], have["type"], have["name"], strict=True)
    known = [(peak, str(kind), str(place)) for peak, kind, place in places if isinstance(peak, int) and peak > 0]
    allocated = [each for each in known if each[1] == "allocated"] or known
    if not allocated:
        return None
    peak, kind, place = max(allocated, key=lambda each: each[0])
    article = "an " if str(place).startswith("unnamed") else ""
    return LeadFigure("Memory peaked at", peak, Unit.BYTES, f"{kind} on {article}{place}")


def _kernels_with(metrics: dict[str, ReportTable]) -> LeadFigure:
    column = metrics["metrics"].column("name")
    if column.title == OF_THE_RUN:
        return LeadFigure("", len(metrics["metrics"]), Unit.COUNT, "metrics of the run")
    count, what = len(set(column.values)), column.title.lower()
    return LeadFigure("", count, Unit.COUNT, f"{what if count == 1 else f'{what}s'} with metrics")


def _are_layers(index: TraceIndex) -> bool:
    """Return whether all kernels are layers of a network, as TensorRT times them: several kernels each."""
    kernels = [row for row in totals_rows(index, {Kind.KERNEL}) if row["section"] != HEADER]
    formats = {number: facts.format for number, facts in facts_by_source(index).items()}
    return (
        bool(kernels)
        and not index.kind_mask({Kind.KERNEL}).any()
        and all(
            row["section"] == "layers" and formats.get(row["source"], "").startswith("tensorrt-") for row in kernels
        )
    )


def _first_rows(view: str, table: ReportTable, wanted: Sequence[str]) -> QuotedTable:
    """Return the first rows of a table in its own order, of the wanted columns all that it has."""
    have = {column.name: replace(column, values=column.values[:NAMES]) for column in table.columns}
    return QuotedTable(
        view, table.name, table.title, tuple(have[name] for name in wanted if name in have), len(table) + table.omitted
    )


def _quoted(view: str, table: ReportTable, wanted: Sequence[str], first: Sequence[str] = ()) -> QuotedTable:
    """Return the first rows of a table, of the wanted columns those with a value, in this order.

    first: the names of rows that come before all others.
    """
    columns = {column.name: column.values for column in table.columns}
    names = columns.get("name", [None] * len(table))
    order = {name: place for place, name in enumerate(first)}
    telling = _telling(table)

    def place(row: int) -> tuple[int, float, int]:
        return order.get(str(names[row]), len(order)), telling[row], row

    rows = sorted(range(len(table)), key=place)[:NAMES]
    have = {column.name: replace(column, values=[column.values[row] for row in rows]) for column in table.columns}
    shown = (have[name] for name in wanted if name in have and any(cell is not None for cell in have[name].values))
    return QuotedTable(view, table.name, table.title, tuple(shown), len(table) + table.omitted)


_METRICS = (
    ("sm_efficiency", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("achieved_occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    ("dram_utilization", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("flop_sp_efficiency",),
    ("flop_dp_efficiency",),
    ("warp_execution_efficiency", "smsp__thread_inst_executed_per_inst_executed.ratio"),
    ("gld_efficiency",),
    ("gst_efficiency",),
    ("ipc", "smsp__inst_executed.avg.per_cycle_active"),
    ("l2_utilization",),
    ("stall_memory_dependency",),
)
"""Metrics that show how near a kernel is to the peak of the device, the most telling first."""


def _telling(table: ReportTable) -> list[float]:
    """Return a number for each row by which a table of metrics is sorted: small for the most telling ones, else 0."""
    have = {column.name: column.values for column in table.columns}
    metrics, values = have.get("metric"), have.get("avg", ())
    if metrics is None:
        return [0] * len(table)
    if len(set(metrics)) == 1 and all(isinstance(value, int | float) for value in values):
        # One metric of many kernels: the largest values first.
        return [-float(value or 0) for value in values]
    rank = {name: place for place, names in enumerate(_METRICS) for name in names}
    return [rank.get(str(metric), len(_METRICS)) for metric in metrics]


def _says_where(phases: TopNames) -> bool:
    """Return whether the phases say where the time is."""
    others = next((each.ns for each in phases.names if each.name == OTHERS), 0)
    if others > _MOST_OTHERS * phases.total_ns:
        return False
    # Without steps the phases are few of the things that ran, and only waiting for data is news.
    return phases.of != _OF_RUN or phases.names[0].name == _LOADER


def _candidates(
    views: Sequence[str], section: Callable[[str], Section], printed: Sequence[TotalsRow], *, shares: bool
) -> Iterator[TopNames]:
    for view in views:
        for table in section(view).tables:
            if (found := _names(view, table, printed, shares=shares)) is not None:
                yield found


def _printed_wholes(index: TraceIndex) -> list[TotalsRow]:
    """Return the totals below printed tables that lack rows, which their readers mark."""
    return [row for row in totals_rows(index) if row["section"] == HEADER and "whole_of" in row["args"]]


def _whole_of(view: str, column: str, run: Cell, printed: Sequence[TotalsRow]) -> TotalsRow | None:
    """Return the printed total of the table whose names are quoted, None where there is none, or more than one."""
    place = "device" if view in _DEVICE_VIEWS else "host" if column == "self" else ""
    found = [row for row in printed if row["args"]["whole_of"] == place and run in (None, row["run"])]
    return found[0] if len(found) == 1 else None


_OF_RUN, OF_STEPS = "the run", "the time in steps and phases"
_OF_PHASES = "all phases, in steps and outside"
"""Where much of the phases is outside the steps, such as the forward of an evaluation."""
_MOSTLY = 0.95
"""The share of the whole that steps and the loading between them have, where phases are those of the steps."""


_READ = frozenset({"self", "total", "name", "level", "ratio", "calls", "kind", "owner", *_BLOCK})
"""Columns that the top names are made of: others of a large table are not even made."""


def _names(view: str, table: ReportTable, printed: Sequence[TotalsRow], *, shares: bool) -> TopNames | None:
    """Return the top names of the block of a table that has most time, None where it has no names or no times.

    Rows without a name count, and so does a device whose work has no name at all.

    printed: totals of tables that lack rows: they are the whole, not the sum of the rows.
    """
    have = {column.name: list(column.values) for column in table.columns if column.name in _READ}
    column = "self" if "self" in have else "total"
    if column not in have or "name" not in have:
        return None
    levels = have.get("level", [0] * len(table))
    keys = [key for key in have if key in _BLOCK]
    # A blank name would be a gap on the screen.
    have["name"] = [UNNAMED if name is None or not str(name).strip() else name for name in have["name"]]
    known = [
        row
        for row, (name, cell, level) in enumerate(zip(have["name"], have[column], levels, strict=True))
        if level == 0 and isinstance(cell, int) and not str(name).endswith(ON_NO_THREAD)
    ]
    blocks: dict[tuple[Cell, ...], list[int]] = {(): known} if known and not keys else {}
    for row in known if keys else ():
        blocks.setdefault(tuple(have[key][row] for key in keys), []).append(row)
    named = any(have["name"][row] != UNNAMED for rows in blocks.values() for row in rows)
    if not blocks or not (named or view in _DEVICE_VIEWS):
        return None

    times = have[column]

    def time(row: int) -> int:
        return int(times[row] or 0)

    rows, part = max(
        ((_parts_alone(rows, have, view), key) for key, rows in blocks.items()),
        key=lambda block: (len(block[0]) > 1, sum(map(time, block[0]))),
    )
    every = blocks[part]
    whole = sum(map(time, rows))
    if not whole:
        return None
    total = _whole_of(view, column, dict(zip(keys, part, strict=True)).get("run"), printed)
    whole = max(whole, total["total_ns"] or 0) if total is not None else whole
    of, share_of = "", dict[int, float]()
    # A trace that lost records has no ratios.
    if view == "model" and have["name"][every[-1]] == OTHERS and any(have.get("ratio", [])):
        # Phases have a whole of their own, of which their table gives the ratios.
        of = _whole_of_phases(every, have)
        whole, share_of = _shares_of_phases(rows, [time(row) for row in rows], have)
    calls = have.get("calls", [None] * len(table))
    largest = nlargest(NAMES, (row for row in rows if time(row) or of), key=time)
    shown = {have["name"][row] for row in largest}
    alike = [row for row in rows if have["name"][row] in shown]
    labels = _labels(have["name"], [have[key] for key in ("kind", "owner") if key in have], alike)
    kernels = [str(have["name"][row]) for row in largest] if view == "kernel" else []
    classes = list(map(str, classify(kernels, rules()))) or [""] * len(largest)
    names = tuple(
        TopName(
            labels[row],
            time(row),
            count if isinstance(count := calls[row], int) else None,
            (share_of[row] if of else time(row) / whole) if shares else None,
            kernel_class,
        )
        for row, kernel_class in zip(largest, classes, strict=True)
    )
    words = ", ".join(f"{key} {cell}" for key, cell in zip(keys, part, strict=True) if cell is not None)
    title, source = TOP_VIEWS.get(view, table.title.lower()), (total["name"] or "") if total is not None else ""
    return TopNames(view, column, title, words, whole, len(rows), names, source, of)


def _without_thread(section: Section, *, shares: bool) -> TopNames | None:
    """Return the names of asynchronous ranges by their total, None where there are none.

    They overlap and have no self time, so they are never in one list with ranges of threads.
    """
    for table in section.tables:
        have = {column.name: column.values for column in table.columns}
        if table.name != "user_ranges" or not {"self", "total"} <= have.keys():
            continue
        times = zip(have["self"], have["total"], strict=True)
        rows = [row for row, (own, total) in enumerate(times) if own is None and isinstance(total, int)]
        kept = (column for column in table.columns if column.name not in ("self", "self_ratio"))
        columns = tuple(replace(column, values=[column.values[row] for row in rows]) for column in kept)
        found = _names(section.view, replace(table, columns=columns), (), shares=shares)
        return replace(found, title=WITHOUT_THREAD) if found is not None else None
    return None


def _whole_of_phases(every: list[int], have: dict[str, list[Cell]]) -> str:
    """Return the words for the time of which phases have their ratios."""
    steps = [float(have["ratio"][row] or 0.0) for row in every if have["name"][row] == STEP]
    if not steps:
        return _OF_RUN
    # Loops that are watched load their data between two steps.
    loaders = [float(have["ratio"][row] or 0.0) for row in every if have["name"][row] == PHASES[Kind.DATALOADER]]
    return OF_STEPS if sum(steps) + sum(loaders) >= _MOSTLY * len(steps) else _OF_PHASES


def _shares_of_phases(rows: list[int], times: list[int], have: dict[str, list[Cell]]) -> tuple[int, dict[int, float]]:
    """Return the time of which phases have their ratios, that of all ranks together, and the share of each row in it.

    A phase that overlaps itself on several threads has a ratio below its time, so the least quotient counts.
    """
    owners = have.get("owner", [None] * len(have["name"]))
    ratios = [float(have["ratio"][row] or 0.0) for row in rows]
    wholes: dict[Cell, int] = {}
    for row, ns, ratio in zip(rows, times, ratios, strict=True):
        if ratio > 0:
            whole = round(ns / ratio)
            wholes[owners[row]] = min(whole, wholes.get(owners[row], whole))
    total = sum(wholes.values())
    shares = [ratio * wholes.get(owners[row], 0) / total for row, ratio in zip(rows, ratios, strict=True)]
    return total, dict(zip(rows, shares, strict=True))


def _labels(names: Sequence[Cell], more: Sequence[Sequence[Cell]], rows: list[int]) -> dict[int, str]:
    """Return the name of each row; where rows have one name, with those of the other columns in which they differ."""
    alike: dict[Cell, list[int]] = {}
    for row in rows:
        alike.setdefault(names[row], []).append(row)
    labels = {}
    for name, same in alike.items():
        differ = [cells for cells in more if len({cells[row] for row in same}) > 1]
        for row in same:
            labels[row] = ", ".join([str(name), *(str(cells[row]) for cells in differ if cells[row] is not None)])
    return labels


def _parts_alone(rows: list[int], have: dict[str, list[Cell]], view: str) -> list[int]:
    """Return the phases without the steps that they are parts of."""
    if view != "model" or len(rows) < 2:
        return rows
    alone = [row for row in rows if have["name"][row] != STEP]
    return [] if all(have["name"][row] == OTHERS for row in alone) else alone

"""The tables of `--compat fluid`: a header, the overhead, the copies and the events of each report, then the memory.

They are the same whether reckoned from events (here) or read from a printed report (`_printed`). Times are ns.
What the header says in words (place, order, layout, width of names) is for the layout that prints it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tracekit.columns import arrow
from tracekit.columns.arrow import pc
from tracekit.compat.fluid._items import RANKS, STATES, Block, Overhead, Shown, block_of, overhead_of, shown, width_of
from tracekit.compat.fluid._names import SPECIAL, numbered, threaded
from tracekit.compat.fluid._ranges import TOOL, Ranges, ranges_of
from tracekit.errors import Option, UsageError, sentence
from tracekit.index.grouping import kind_mask
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Column, ReportTable
from tracekit.schema import Kind
from tracekit.units import Unit
from tracekit.views.base import ViewOptions

OLD, NEW = "1.8", "2.x"
"""Layouts: before 2.0 the overhead had no heading, and there was no report of memory."""
ORDERS: Final = {
    "": "event first end time",
    "calls": "number of calls",
    "total": "total time",
    "max": "maximum time",
    "min": "minimum time",
    "ave": "average time",
}
PLACES: Final = {"CPU": "CPU", "GPU": "CUDA", "All": "All"}
HEADER, OVERHEAD, COPIES, EVENTS, MEMORY = "header", "overhead", "copies", "events", "memory"
_ALLOCATED_AT = {"CPUPlace": "cpu", "CUDAPlace": "gpu", "CUDAPinnedPlace": "gpu_pinned", "XPUPlace": "xpu", None: "cpu"}
_PLACE_ORDER = ("CPUPlace", "CUDAPlace", "CUDAPinnedPlace", "XPUPlace", "NPUPlace")


def sort_key(options: ViewOptions) -> str:
    """Return the key as upstream names it, "" for the order of the first end. Raises: UsageError."""
    key = options.sorted_by
    key = {"avg": "ave", "default": ""}.get(key, key)
    if key and key not in RANKS:
        raise UsageError(sentence(Option("sort", key), ": fluid has no such order"), choices=("default", *RANKS))
    return key


def tables_of(index: TraceIndex, options: ViewOptions) -> tuple[list[ReportTable], list[str]]:
    """Return the tables of the reports that fluid would print of the ranges of a trace, and notes; none without ranges.

    Raises: UsageError for another key of --sort; TracekitError where a sum exceeds int64.
    """
    key = sort_key(options)
    ranges = ranges_of(index)
    if not len(ranges) and not any("state" in facts.facts for facts in index.run.sources):
        return [], list(ranges.notes)
    layout, state, notes = _manner(index, ranges)
    names = numbered([ranges.names[code] for code in dict.fromkeys(ranges.name.tolist())])
    plain = [names.get(name, name) for name in ranges.names]
    detail = options.op_detail
    numbers = sorted(ranges.labels, reverse=True)
    reports: list[tuple[list[Block], bool]] = []
    if len(numbers) > 1:
        reports.append(([block_of(ranges, np.arange(len(ranges)), plain, state)], True))
    specials = frozenset({SPECIAL} & set(plain)) if len(numbers) > 1 else frozenset()
    blocks = []
    for number in numbers:
        kept = np.array([name not in specials for name in plain], np.bool_)[ranges.name]
        rows = np.flatnonzero((ranges.thread == number) & kept)
        blocks.append(block_of(ranges, rows, [threaded(name, number, specials) for name in plain], state))
    reports.append((blocks, False))

    tables: list[ReportTable] = []
    for count, (found, merged) in enumerate(reports):
        title = "all threads merged" if merged else "by thread"
        tables += _report(
            found,
            merged=merged,
            key=key,
            state=state,
            layout=layout,
            detail=detail,
            top=options.top,
            suffix=f"_{count + 1}" if count else "",
            title=f"Profiling Report: {title}",
        )
    if layout == NEW:
        tables.append(memory_table(_allocations(index)))
    return tables, [*ranges.notes, *notes]


def _manner(index: TraceIndex, ranges: Ranges) -> tuple[str, str, list[str]]:
    """Return layout and state, and notes where they are a guess.

    The profile itself says neither. Paddle 1.8 wrote whole us into it; a later one is written in the state All.
    """
    facts = list(facts_by_source(index).values())
    starts = index.events.column("ts_ns").to_numpy()[ranges.rows]
    is_fluid = any(fact.facts.get("tool") == TOOL for fact in facts)
    whole_us = not (starts % 1000).any() and not (ranges.host_ns % 1000).any()
    layout = OLD if is_fluid and whole_us else NEW
    notes = []
    if is_fluid and whole_us:
        notes.append("Paddle 1.8 rounded the times of this profile to whole us; its own report had ns")
    elif is_fluid:
        notes.append("Paddle timed the events of its report apart from this profile: they differ by some 0.1 us")
    for fact in facts:
        if (state := fact.facts.get("state")) in STATES:
            return (OLD if fact.facts.get("layout") == OLD else layout), str(state), notes
    state = "All" if ranges.has_gpu or (is_fluid and layout == NEW) else "CPU"
    if is_fluid:
        notes.append(f"the profile does not say its state, {state} is taken; --option state=CPU, GPU or All says it")
    return layout, state, notes


def _report(
    blocks: Sequence[Block],
    *,
    merged: bool,
    key: str,
    state: str,
    layout: str,
    detail: bool,
    top: int,
    suffix: str,
    title: str,
) -> list[ReportTable]:
    facts = {
        "Place": PLACES[state],
        "Sorted by": f"{ORDERS[key]} in descending order in the same thread",
        "Layout": layout,
        "Name width": str(width_of(blocks, detail=detail)),
    }
    if merged:
        facts["Threads"] = "merged"
    tables = [header_table(facts, suffix, title)]
    if len(blocks) == 1:
        tables += overhead_tables(overhead_of(blocks[0], old=layout == OLD), suffix)
    rows: list[Shown] = []
    omitted = 0
    for block in blocks:
        found, left = shown(block, key=key, detail=detail, top=top)
        rows, omitted = rows + found, omitted + left
    return [*tables, _events_table(rows, state, suffix, omitted)]


def header_table(facts: Mapping[str, str], suffix: str, title: str) -> ReportTable:
    """Return the head of a report: keys Place, Sorted by, Layout, Name width and, of all threads, Threads."""
    return ReportTable(
        f"{HEADER}{suffix}",
        title,
        (Column("key", "Key", Unit.TEXT, list(facts)), Column("value", "Value", Unit.TEXT, list(facts.values()))),
    )


def overhead_tables(overhead: Overhead, suffix: str) -> list[ReportTable]:
    """Return the tables of overhead and copies."""
    rows: list[tuple[str, float, float | None]] = [("Total time", overhead.total, None)]
    if overhead.accumulated is not None:
        rows = [
            ("Elapsed time of events", overhead.total, None),
            ("Accumulated time of events", overhead.accumulated, None),
        ]
    rows += [
        ("Computation time", overhead.compute, overhead.compute_ratio),
        ("Framework overhead", overhead.framework, overhead.framework_ratio),
    ]
    return [overhead_table(rows, suffix), copies_table(overhead.copies, suffix)]


def overhead_table(rows: Sequence[tuple[str, float, float | None]], suffix: str) -> ReportTable:
    """Return the table of (part, total in ns, ratio)."""
    parts, totals, ratios = zip(*rows, strict=True)
    columns = (
        Column("part", "Part", Unit.TEXT, parts),
        Column("total", "Total (ns)", Unit.NUMBER, [float(t) for t in totals]),
        Column("ratio", "Ratio", Unit.RATIO, ratios),
    )
    return ReportTable(f"{OVERHEAD}{suffix}", "Overhead Summary", columns)


def copies_table(rows: Sequence[tuple[str, int, int, float | None]], suffix: str) -> ReportTable:
    """Return the table of (name, calls, total, ratio): all copies, then the kinds that there are."""
    kept = [row for place, row in enumerate(rows) if not place or row[1]]
    names, calls, totals, ratios = zip(*kept, strict=True)
    columns = (
        Column("name", "Name", Unit.TEXT, names),
        Column("calls", "Calls", Unit.COUNT, calls),
        Column("total", "Total", Unit.NS, totals),
        Column("ratio", "Ratio", Unit.RATIO, ratios),
    )
    return ReportTable(f"{COPIES}{suffix}", "GpuMemCpy Summary", columns)


def _events_table(rows: Sequence[Shown], state: str, suffix: str, omitted: int) -> ReportTable:
    items = [row.item for row in rows]
    columns = [
        Column("level", "Level", Unit.COUNT, [row.level for row in rows], 7),
        Column("name", "Event", Unit.TEXT, [row.name for row in rows]),
        Column("calls", "Calls", Unit.COUNT, [i.calls for i in items]),
        Column("total", "Total", Unit.NS, [i.total for i in items]),
    ]
    if state == "All":
        columns += [
            Column("cpu_time", "CPU Time", Unit.NS, [i.cpu for i in items]),
            Column("cpu_ratio", "CPU Ratio", Unit.RATIO, [_share(i.cpu, i.total) for i in items]),
            Column("gpu_time", "GPU Time", Unit.NS, [i.gpu for i in items]),
            Column("gpu_ratio", "GPU Ratio", Unit.RATIO, [_share(i.gpu, i.total) for i in items]),
        ]
    columns += [
        Column("min", "Min", Unit.NS, [i.min for i in items]),
        Column("max", "Max", Unit.NS, [i.max for i in items]),
        Column("avg", "Ave (ns)", Unit.NUMBER, [i.total / i.calls for i in items]),
        Column("ratio", "Ratio", Unit.RATIO, [i.ratio for i in items]),
    ]
    return ReportTable(f"{EVENTS}{suffix}", "Event Summary", tuple(columns), omitted=omitted)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


MemoryRow = tuple[str, int, float, int, float]


def memory_table(rows: Sequence[MemoryRow]) -> ReportTable:
    """Return the table of (event, allocations, bytes of them, frees, bytes of them)."""
    names, allocs, sizes, frees, freed = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    columns = (
        Column("name", "Event", Unit.TEXT, names),
        Column("allocs", "Alloc Calls", Unit.COUNT, allocs),
        Column("alloc_size", "Alloc Size (bytes)", Unit.NUMBER, sizes),
        Column("frees", "Free Calls", Unit.COUNT, frees),
        Column("free_size", "Free Size (bytes)", Unit.NUMBER, freed),
    )
    return ReportTable(MEMORY, "Memory Profiling Report", columns)


def _allocations(index: TraceIndex) -> list[MemoryRow]:
    """Return allocations and frees of fluid's profile by place and by the event in which they happened."""
    events = index.events
    fluid = [n for n, facts in facts_by_source(index).items() if facts.facts.get("tool") == TOOL]
    rows = np.flatnonzero(
        kind_mask(events, [Kind.MEMORY])
        & np.isin(events.column("source").to_numpy(), fluid)
        & events.column("bytes").is_valid().to_numpy()
    )
    if not len(rows):
        return []
    pattern = r'"place":"(?P<place>[^"]*)"(?:.*"(?:alloc|free)_in":"(?P<event>[^"]*)")?'
    parsed = pc.extract_regex(events.column("args").take(rows), pattern)
    places, names = (pc.struct_field(parsed, field).to_pylist() for field in ("place", "event"))
    devices = events.column("device").take(rows).to_pylist()
    sizes = arrow.ints(events.column("bytes"))[rows].tolist()
    found: dict[tuple[int, int, str], list[int]] = {}
    for place, device, name, size in zip(places, devices, names, sizes, strict=True):
        order = _PLACE_ORDER.index(place) if place in _PLACE_ORDER else len(_PLACE_ORDER)
        number = "" if device is None else f":{device}"
        event = f"Place({_ALLOCATED_AT.get(place, place)}{number}):{name or 'Unknown'}"
        row = found.setdefault((order, device or 0, event), [0, 0, 0, 0])
        at = 0 if size >= 0 else 2
        row[at] += 1
        row[at + 1] += abs(size)
    ordered = sorted(found.items(), key=lambda item: item[0][:2])
    return [(event, allocs, size, frees, freed) for (_, _, event), (allocs, size, frees, freed) in ordered]

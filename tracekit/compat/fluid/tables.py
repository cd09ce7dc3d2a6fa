"""The tables of `--compat fluid`: a header, the overhead, the copies and the events of each report, then the memory.

They are the same whether reckoned from events (here) or read from a printed report (`_printed`). Times are ns.
What the header says in words (place, order, layout, width of names) is for the layout that prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from tracekit.compat.fluid.names import (
    COPY,
    SPECIAL,
    FluidRole,
    cut_of,
    numbered,
    parent_of,
    printed_width,
    role_of,
    threaded,
)
from tracekit.compat.fluid.ranges import TOOL, FluidRanges, ranges_of
from tracekit.errors import Option, UsageError, sentence
from tracekit.index.grouping import Groups, kind_mask, statistics
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, pc
from tracekit.model.report import Column, ReportTable
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views.base import ViewOptions

__all__ = [
    "EVENTS",
    "NEW",
    "OLD",
    "ORDERS",
    "MemoryRow",
    "copies_table",
    "descending",
    "header_table",
    "memory_table",
    "overhead_table",
    "sort_key",
    "tables_of",
]

# The order that C++'s std::sort gives, in the library of gcc: among equals it is not that of the input.
#
# Upstream sorts its tables with it, so rows of equal figures stand as this algorithm leaves them: ranges of at most 16
# are sorted by insertion, which keeps equals in order; longer ones are first parted around the median of three. The
# fall back to a heap for hostile orders is not followed: there equals keep their order.
#
# Source: introsort (Musser 1997), with the threshold and the pivots of libstdc++.


_THRESHOLD = 16


def descending(keys: Sequence[float]) -> list[int]:
    """Return the order of rows, largest key first.

    >>> descending([1, 3, 2, 3])
    [1, 3, 2, 0]
    """
    order = list(range(len(keys)))
    _part(keys, order, 0, len(order), 2 * max(len(order).bit_length() - 1, 0))
    # The parts are in order among themselves: a stable sort of all does what insertion does.
    return sorted(order, key=lambda row: -keys[row])


def _part(keys: Sequence[float], order: list[int], first: int, last: int, depth: int) -> None:
    while last - first > _THRESHOLD and depth > 0:
        depth -= 1
        cut = _cut(keys, order, first, last)
        _part(keys, order, cut, last, depth)
        last = cut


def _cut(keys: Sequence[float], order: list[int], first: int, last: int) -> int:
    """Part the range around the median of its second, middle and last row; return where the smaller keys begin."""

    def before(a: int, b: int) -> bool:
        return keys[order[a]] > keys[order[b]]

    def swap(a: int, b: int) -> None:
        order[a], order[b] = order[b], order[a]

    low, mid, high = first + 1, first + (last - first) // 2, last - 1
    if before(low, mid):
        median = mid if before(mid, high) else high if before(low, high) else low
    else:
        median = low if before(low, high) else high if before(mid, high) else mid
    swap(first, median)
    left, right = first + 1, last
    while True:
        while before(left, first):
            left += 1
        right -= 1
        while before(first, right):
            right -= 1
        if left >= right:
            return left
        swap(left, right)
        left += 1


# The rows of fluid's report as upstream reckons them: by name within a thread, parts below what they are parts of.
#
# "op/compute" is a part of "op" where the same table has "op"; what is no part is a main row, and main rows add up to
# the total that ratios are of. All orders descend; the default one is that of the first end. Ratios are single floats.
#
# Source: paddle/fluid/platform/profiler_helper.h of Paddle 1.6, 1.8 and 2.x.


STATES: Final = ("CPU", "GPU", "All")


@dataclass(frozen=True, slots=True)
class Item:
    """One row. Times are ns; total, min and max are those of the state; ratio is null before the total is known."""

    name: str
    role: FluidRole
    calls: int
    total: int
    min: int
    max: int
    cpu: int
    gpu: int
    ratio: float | None = None


RANKS: Final[Mapping[str, Callable[[Item], float]]] = {
    "calls": lambda item: item.calls,
    "total": lambda item: item.total,
    "max": lambda item: item.max,
    "min": lambda item: item.min,
    "ave": lambda item: item.total / item.calls,
}


@dataclass(frozen=True, slots=True)
class FluidShown:
    """A row as it is printed: `name` without its path; `level` is how far it is indented."""

    level: int
    name: str
    item: Item


@dataclass(frozen=True, slots=True)
class FluidBlock:
    """The rows of a thread, or of all. parts: those of each name, in order of their first end."""

    main: list[Item]
    parts: dict[str, list[Item]]
    total: int

    def every_part(self) -> Iterator[tuple[str, Item]]:
        """Give all parts with the name that they are a part of, in upstream's order: that of those names."""
        for name in sorted(self.parts, key=str.encode):
            for item in self.parts[name]:
                yield name, item


def ratio(part: float, whole: float) -> float | None:
    """Return a ratio as a single float, null for 0 of 0.

    >>> ratio(1, 3)
    0.3333333432674408
    """
    return float(np.float32(part / whole)) if whole else None


def block_of(ranges: FluidRanges, rows: I64, name_of: Sequence[str], state: str) -> FluidBlock:
    """Return the rows of some ranges. name_of: what each of `of.names` is called here."""
    numbers: dict[str, int] = {}
    by_code = np.zeros(len(ranges.names), np.int64)
    for code in dict.fromkeys(ranges.name[rows].tolist()):
        by_code[code] = numbers.setdefault(name_of[code], len(numbers))
    codes = by_code[ranges.name[rows]]
    host, gpu = ranges.host_ns[rows], ranges.gpu_ns[rows]
    groups = Groups(codes, len(numbers), ())
    times = {"CPU": host, "GPU": gpu, "All": host + gpu}[state]
    stats, hosts, gpus = (statistics(groups, values) for values in (times, host, gpu))
    items = [
        Item(name, role_of(name), *figures)
        for name, *figures in zip(
            numbers,
            *(a.tolist() for a in (stats.calls, stats.total, stats.min, stats.max, hosts.total, gpus.total)),
            strict=True,
        )
    ]
    return tree_of(items)


def tree_of(items: Sequence[Item]) -> FluidBlock:
    """Return items, which are sorted by their first end, as a block; main rows get the ratio of their total."""
    names = {item.name for item in items}

    def above(item: Item) -> str:
        parent = parent_of(item.name)
        return parent if "/" in item.name and parent in names else ""

    total = sum(item.total for item in items if not above(item))
    parts: dict[str, list[Item]] = {}
    for item in items:
        parts.setdefault(above(item), []).append(replace(item, ratio=ratio(item.total, total)))
    return FluidBlock(parts.pop("", []), parts, total)


def width_of(blocks: Sequence[FluidBlock], *, detail: bool) -> int:
    """Return how wide the column of names is, without what upstream adds to it."""
    items = [item for block in blocks for items in (block.main, *block.parts.values()) for item in items]
    return max((printed_width(item.name, item.role, detail=detail) for item in items), default=0)


def shown(block: FluidBlock, *, key: str, detail: bool, top: int = 0) -> tuple[list[FluidShown], int]:
    """Return the rows as they are printed, and how many main rows are left out where `top` is not 0.

    key: "" for the order of the first end, or one of RANKS. detail: inner parts of operators are shown; else copies
    alone, which move up to the operator, and parts that are ranges of the program's own.
    """
    children = block.parts if detail else _without_detail(block)
    main = _sorted(block.main, key)
    kept = main[:top] if top > 0 else main
    out: list[FluidShown] = []
    stack = [(0, item) for item in reversed(kept)]
    while stack:
        level, item = stack.pop()
        out.append(FluidShown(level, item.name[cut_of(item.name, item.role) :], item))
        below = _sorted(children.get(item.name, []), key)
        stack += [(level + 1, part) for part in reversed(below)]
    return out, len(main) - len(kept)


def _sorted(items: list[Item], key: str) -> list[Item]:
    return [items[i] for i in descending([RANKS[key](item) for item in items])] if key else items


def _without_detail(block: FluidBlock) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    roles = {item.name: (item.role, parent) for parent, items in block.parts.items() for item in items}
    for parent, item in block.every_part():
        if COPY in item.name:
            above = parent
            while above in roles and roles[above][0] is not FluidRole.ORDINARY:
                above = roles[above][1]
            moved = replace(item, name=f"{above}/{item.name.rpartition('/')[2]}")
            found.setdefault(above, []).append(moved)
        elif item.role is FluidRole.ORDINARY:
            found.setdefault(parent, []).append(item)
    return found


@dataclass(frozen=True, slots=True)
class Overhead:
    """Computation and the rest, and copies, as upstream reckons them. Times in ns; ratios are null for 0 of 0.

    accumulated: where operators ran beside ParallelExecutor::Run, the time of all, more than `total`; else null.
    copies: (name, calls, total, ratio): all, asynchronous, synchronous.
    """

    total: int
    accumulated: int | None
    compute: float
    compute_ratio: float | None
    framework: float
    framework_ratio: float | None
    copies: tuple[tuple[str, int, int, float], ...]


def overhead_of(block: FluidBlock, *, old: bool) -> Overhead:
    """Return the overhead. old: as Paddle before 2.0, from ratios, which it adds as single floats."""
    parts = list(block.every_part())
    counted = [item for _, item in parts] if old else [*block.main, *(item for _, item in parts)]
    copies = [_copies(kind, counted) for kind in ("Async", "Sync")]
    both = (COPY, copies[0][1] + copies[1][1], copies[0][2] + copies[1][2], _single(copies[0][3], copies[1][3]))
    if old:
        share: float | None = _single(*(item.ratio or 0.0 for _, item in parts if "compute" in item.name))
        rest = float(np.float32(1) - np.float32(share))
        return Overhead(
            block.total, None, block.total * (share or 0.0), share, block.total * rest, rest, (both, *copies)
        )
    compute = sum(item.total for _, item in parts if "compute" in item.name and "compute/" not in item.name)
    accumulated = sum(item.total for item in block.main if item.role is not FluidRole.SPECIAL)
    accumulated += sum(item.total for parent, item in parts if parent == SPECIAL)
    special = any(item.role is FluidRole.SPECIAL for item in block.main)
    share = ratio(compute, accumulated)
    left = None if share is None else float(np.float32(1) - np.float32(share))
    return Overhead(
        block.total, accumulated if special else None, compute, share, accumulated - compute, left, (both, *copies)
    )


def _single(*values: float) -> float:
    """Add single floats as singles, in order."""
    total = np.float32(0)
    for value in values:
        total += np.float32(value)
    return float(total)


def _copies(kind: str, items: Sequence[Item]) -> tuple[str, int, int, float]:
    found = [item for item in items if f"{COPY}{kind}" in item.name]
    share = _single(*(item.ratio or 0.0 for item in found))
    return f"{COPY}{kind}", sum(i.calls for i in found), sum(i.total for i in found), share


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
    reports: list[tuple[list[FluidBlock], bool]] = []
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


def _manner(index: TraceIndex, ranges: FluidRanges) -> tuple[str, str, list[str]]:
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
    blocks: Sequence[FluidBlock],
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
    rows: list[FluidShown] = []
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


def _events_table(rows: Sequence[FluidShown], state: str, suffix: str, omitted: int) -> ReportTable:
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

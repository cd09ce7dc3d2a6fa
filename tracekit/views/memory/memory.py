"""memory: allocations and frees by place, the most that was held, and which operators hold it.

Of rows of kind memory (bytes signed: below zero is a free) three tables. `memory`, a row a place and type (allocated:
what the program asked for; reserved: what the framework took from the device): counts and sizes of both, increased =
allocated - freed bytes, peak: the largest running value that the file itself gives (PyTorch's Total Allocated and Total
Reserved, Paddle's current and peak values), else the largest sum of what was allocated and freed since the first row.
`holders`: the same by operator, the innermost around the row on its thread, else the innermost range; where the file
names the operator that allocated (fluid), that one. `at_peak`: who held how much when the place with the most memory
held the most, where the file has addresses and running values. `categories`, `peak_modules`: what the blocks are, as
far as their lifetimes show it (`views.memory.categories`). `counters`: counters of memory, of inputs without such
rows. A place is a device or the host of an input or rank; Paddle names it itself. From TOTALS: what the file printed.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tracekit.analysis.nesting import innermost
from tracekit.analysis.segments import rows_by
from tracekit.index import grouping
from tracekit.index import host_tree as _host
from tracekit.index.devices import since_origin
from tracekit.index.lanes import device_in, owner_labels
from tracekit.index.memory_blocks import memory_blocks
from tracekit.index.memory_totals import RUNNING_TOTALS, TYPES, extracted, stated_totals
from tracekit.index.sources import source_label, source_labels, synthetic_sources
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Chunked, pc
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, Curve, Picture, ReportTable, Section, StackedCurve
from tracekit.model.schema import HOST_RANGES, Kind
from tracekit.model.units import Unit, format_bytes
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.memory.categories import ARGS_OF, PlacedRows, by_category
from tracekit.views.memory.categories import SHOWS as _OF_CATEGORIES
from tracekit.views.memory.columns import edges_of, top_places
from tracekit.views.memory.stacked import category_curves
from tracekit.views.memory.stated import stated_categories, stated_curves, stated_table
from tracekit.views.totals import in_file_order, totals_rows, whole_number

__all__ = ["VIEW"]

# Curves of the memory that is held, by place: the running total of each type, over time.
#
# The running total is what the file gives (PyTorch's Total Allocated and Total Reserved, Paddle's current values), else
# the sum of what was allocated and freed since the first row. Where the file names the memory of a row (Nsight Systems:
# device, pinned, ...), each kind of memory has a total of its own. A column of the curve shows its greatest total.


FIGURES = 8
"""The most places whose curve is drawn."""


def curves(times: I64, sizes: I64, kinds: I64, places: I64, labels: list[str], args: Chunked) -> list[Curve]:
    """Return the curve of each place that has rows at more than one time.

    Arrays of shape (n,): times: ns after time 0; sizes: signed bytes; kinds: numbers in TYPES; places: numbers in
    `labels`. Raises: TracekitError where a total exceeds int64.
    """
    stated = {word: stated_totals(args, word) for word in TYPES}
    encoded = arrow.encoded(extracted(args, r'"mem_type":\s*"(?P<found>[^"\\]{1,60})"').combine_chunks())
    memory, words = arrow.ints(encoded.indices, -1), [*arrow.texts(encoded.dictionary), ""]
    drawn = []
    for place, label in enumerate(labels):
        at_place = np.flatnonzero(places == place)
        at_place = at_place[np.argsort(times[at_place], kind="stable")]
        if not at_place.size or times[at_place[0]] == times[at_place[-1]]:
            continue
        layers: list[tuple[str, I64, I64]] = []
        counted = []
        for kind, word in enumerate(TYPES):
            values, known = stated[word]
            of_file = at_place[known[at_place]]
            if of_file.size:
                layers.append((word, times[of_file], values[of_file]))
                continue
            of_kind = at_place[kinds[at_place] == kind]
            for code in sets.unique(memory[of_kind]).tolist():
                rows = of_kind[memory[of_kind] == code]
                name = f"{word}, {words[code]}" if words[code] else word
                layers.append((name, times[rows], _running(sizes[rows])))
                counted.append(name)
        layers = [layer for layer in layers if layer[2].any()]  # a total that is 0 all along says nothing
        if not layers:
            continue
        edges = edges_of(int(times[at_place[0]]), int(times[at_place[-1]]))
        names = [name for name, _, _ in layers]
        tops = [_tops(at, values, edges) for _, at, values in layers]
        counted = [name for name in names if name in counted]
        remarks = [f"counted from the first row on: {'; '.join(counted)}"] if counted else []
        remarks += _peaks_outside(arrow.take(args, at_place), {name: int(at.max()) for name, _, at in layers})
        drawn.append(Curve(f"Memory over time, {label}", Unit.BYTES, edges, names, tops, "; ".join(remarks)))
    return drawn


def _peaks_outside(args: Chunked, drawn: dict[str, int]) -> list[str]:
    """Return a remark on each peak of the file that is above all that is drawn, such as one from before the trace."""
    remarks = []
    for kind, key in _RUNNING:
        texts = extracted(args, rf'"{key}":\s*"?(?P<found>\d{{1,18}})')
        if kind in drawn and key not in _DRAWN and texts.null_count < len(texts):
            peak = int(pc.max(pc.cast(texts, pa.int64())).as_py())
            if peak > drawn[kind]:
                remarks.append(f"{kind}: the file gives a peak of {format_bytes(peak)}, which is not in these rows")
    return remarks


def _running(sizes: I64) -> I64:
    grouping.sums(np.zeros(sizes.size, np.int64), 1, np.abs(sizes), "sizes")  # raises where a total exceeds int64
    total: I64 = np.cumsum(sizes)
    return total


def _tops(at: I64, values: I64, edges: list[int]) -> list[int | None]:
    """Return the greatest running total in each column, None before the first row. A total is held until the next."""
    return [None if place < 0 else int(values[place]) for place in top_places(at, values, edges)]


# Memory as a profiler's own tables have it: rows of TOTALS of kind memory, as printed.


def count_totals(index: TraceIndex) -> int:
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


_TITLE = "Memory"
_COLUMNS = _host.COLUMNS | {"name", "args", "bytes", "device", "rank", "value"}
_COUNTER = r"(?i)memory|alloc|reserved"
_RUNNING = (
    ("allocated", "Total Allocated"),
    ("reserved", "Total Reserved"),
    ("allocated", "current_allocated"),
    ("allocated", "peak_allocated"),
    ("reserved", "current_reserved"),
    ("reserved", "peak_reserved"),
)
"""Running values in `args`: of which type each is."""
_DRAWN = frozenset(key for _, key in RUNNING_TOTALS)
NO_RANGE = "(in no range)"
BEFORE = "(allocated before the first row)"


@dataclass(frozen=True, slots=True, eq=False)
class _MemoryRows:
    """Rows of kind memory. kind: number in TYPES. place: code into `labels`."""

    rows: I64
    times: I64
    size: I64
    kind: I64
    place: I64
    labels: list[str]
    args: Chunked
    unsized: int


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables of memory. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    memory = _rows(index)
    counters = _counters(index, memory, options)
    if not memory.rows.size and counters is None:
        return section(index, options, VIEW.name, _TITLE)
    tables, notes = [], []
    drawn: list[Curve] = []
    if memory.rows.size:
        drawn = _drawn(index, memory)
        if len(drawn) > FIGURES:
            notes.append(f"only the first {FIGURES} of {len(drawn):,} places are drawn over time")
        table, computed = _places(memory, options)
        tables.append(table)
        if computed:
            notes.append("peak: counted from the first row on, since the file gives no running values")
        holder = _holder_of_row(index, memory)
        if holder is not None:
            tables.append(_holders(memory, holder, options))
            notes.append("holders: the innermost operator around the row on its thread, else the innermost range")
        elif memory.rows.size:
            notes.append("none of these rows is within a range: what allocated is unknown")
        if (held := _at_peak(index, memory, holder, options)) is not None:
            tables.append(held)
            notes.append(f"{held.title}: blocks of which the trace has the allocation and, until then, no free")
        placed = PlacedRows(memory.rows, memory.place, memory.labels, _peaks(index, memory))
        categories = stated_categories(memory.args)
        if categories is not None:
            tables.append(stated_table(placed, memory.size, categories, options))
            stacked, left_out = _stated(index, memory, categories), list[str]()
        else:
            more, said = by_category(index, placed, options)
            tables += more
            notes += said
            stacked, left_out = _stacked(index, memory)
        drawn += stacked
        notes += left_out
    if memory.unsized:
        verb = "has" if memory.unsized == 1 else "have"
        notes.append(f"{plural(memory.unsized, 'row')} {verb} no size and counts for nothing")
    if counters is not None:
        tables.append(counters)
        drawn += _counter_curves(index, memory)
    beside = count_totals(index)
    if beside:
        notes.append(f"counted from events, not from the {plural(beside, 'row')} of totals beside them")
    if any(tabulate.sort_key(options, t.column_names())[0] in t.column_names() for t in tables):
        return Section(VIEW.name, _TITLE, tuple(tables), tuple(drawn[:FIGURES]), tuple(notes))
    notes += tabulate.option_notes(options, tables[0])
    return Section(VIEW.name, _TITLE, tuple(tables), tuple(drawn[:FIGURES]), tuple(notes))


def _drawn(index: TraceIndex, memory: _MemoryRows) -> list[Curve]:
    """Return the curve of each place, without the inputs that have no starts."""
    timed = np.flatnonzero(~np.isin(index.ints("source")[memory.rows], synthetic_sources(index)))
    times = since_origin(index, memory.rows[timed], memory.times[timed])
    args = arrow.take(memory.args, timed)
    return curves(times, memory.size[timed], memory.kind[timed], memory.place[timed], memory.labels, args)


def _stacked(index: TraceIndex, memory: _MemoryRows) -> tuple[list[StackedCurve], list[str]]:
    """Return the curve of the categories of each place whose file gives its total, and notes on those without one."""
    blocks = memory_blocks(index)
    if blocks is None or not blocks.rows.size:
        return [], []
    values, known = stated_totals(memory.args, TYPES[0])
    timed = (memory.kind == 0) & ~np.isin(index.ints("source")[memory.rows], synthetic_sources(index))
    at = np.flatnonzero(timed)
    # A place of which some rows give no total has no whole that its categories could add up to.
    partly = sets.unique(memory.place[at[~known[at]]])
    at = at[~np.isin(memory.place[at], partly)]
    times = since_origin(index, memory.rows[at], memory.times[at])
    return category_curves(blocks, memory.rows[at], times, memory.place[at], values[at], memory.labels)


def _stated(index: TraceIndex, memory: _MemoryRows, categories: tuple[I64, list[str]]) -> list[StackedCurve]:
    """Return the curve of each place by the categories that the file states."""
    values, known = stated_totals(memory.args, TYPES[0])
    times = since_origin(index, memory.rows, memory.times)
    totals = np.where(known, values, -1)
    return stated_curves(times, memory.size, memory.place, categories, totals, memory.labels)


def _rows(index: TraceIndex) -> _MemoryRows:
    events = index.events
    mask = index.kind_mask({Kind.MEMORY})
    sized = index.has("bytes")
    rows = np.flatnonzero(mask & sized)
    codes, names = index.texts("name")
    reserved = np.array([name.lower().startswith("reserved") for name in names] + [False], np.bool_)
    args = arrow.take(events.column("args"), rows)
    place, labels = _place(index, rows, args)
    return _MemoryRows(
        rows,
        index.starts[rows],
        arrow.ints(events.column("bytes"))[rows],
        reserved[codes[rows]].astype(np.int64),
        place,
        labels,
        args,
        int(np.count_nonzero(mask & ~sized)),
    )


def _place(index: TraceIndex, rows: I64, args: Chunked) -> tuple[I64, list[str]]:
    """Return the place of each row and what places are called."""
    if not rows.size:
        return np.zeros(0, np.int64), []
    places = arrow.encoded(extracted(args, r'"place":\s*"(?P<found>[^"\\]{1,100})"').combine_chunks())
    stated = grouping.Key(arrow.ints(places.indices, -1) + 1, [None, *arrow.texts(places.dictionary)])
    keys = [index.key(column, rows) for column in ("source", "rank", "device")]
    groups = grouping.group_by(*keys, stated)
    sources, ranks, devices, words = groups.labels
    owners = owner_labels(index, [(s if isinstance(s, int) else 0, r) for s, r in zip(sources, ranks, strict=True)])
    labels = []
    for source, rank, device, place in zip(sources, ranks, devices, words, strict=True):
        where = str(place) if place else "host" if device is None else device_in(index.run, source, device)
        if place and device is not None:
            where = f"{place} {device}"
        labels.append(" · ".join(filter(None, (owners[source if isinstance(source, int) else 0, rank], where))))
    return groups.codes, labels


def _places(memory: _MemoryRows, options: ViewOptions) -> tuple[ReportTable, bool]:
    """Return the table of places, and whether a peak had to be counted."""
    size = len(memory.labels)
    codes = memory.place * len(TYPES) + memory.kind
    stated_peaks: dict[int, int] = {}
    for kind, key in _RUNNING:
        texts = extracted(memory.args, rf'"{key}":\s*"?(?P<found>\d{{1,18}})')
        known = texts.is_valid().to_numpy()
        at = memory.place[known] * len(TYPES) + TYPES.index(kind)
        values = pc.cast(texts.drop_null(), pa.int64()).to_numpy()
        most = np.full(size * len(TYPES), -1, np.int64)
        np.maximum.at(most, at, values)
        for code in np.flatnonzero(most >= 0).tolist():
            stated_peaks[code] = max(stated_peaks.get(code, 0), int(most[code]))
    present = np.bincount(codes, minlength=size * len(TYPES)) > 0
    # A reserved value that is 0 all along says nothing.
    shown = [c for c in range(size * len(TYPES)) if present[c] or stated_peaks.get(c, 0)]
    computed = False
    peaks: list[Cell] = []
    for code in shown:
        peak = stated_peaks.get(code)
        if peak is None:
            peak, computed = _counted(memory.size[codes == code]), True
        peaks.append(peak)
    place: list[Cell] = [memory.labels[c // len(TYPES)] for c in shown]
    columns = [
        Column("name", "Place", Unit.TEXT, place, 0, "place"),
        _SHOWN["type"].column([TYPES[c % len(TYPES)] for c in shown]),
        _SHOWN["peak"].column(peaks),
        *(
            replace(c, values=[c.values[i] if present[i] else None for i in shown])
            for c in _flow(codes, size * len(TYPES), memory.size)
        ),
    ]
    table = tabulate.finish("memory", "Memory by place", columns, options, own_order="peak")
    return table, computed


def _counted(sizes: I64) -> int:
    """Return the largest running sum, at least 0. Raises: TracekitError where it exceeds int64."""
    grouping.sums(np.zeros(sizes.size, np.int64), 1, np.abs(sizes), "sizes")
    return max(int(np.cumsum(sizes).max()), 0) if sizes.size else 0


def _flow(codes: I64, count: int, sizes: I64) -> list[Column]:
    """Return counts and sizes of allocations and frees, and the difference, by group."""
    frees = sizes < 0
    gained, size_in = grouping.sums(codes[~frees], count, sizes[~frees], "sizes")
    lost, size_out = grouping.sums(codes[frees], count, sizes[frees], "sizes")
    return [
        _SHOWN["increased"].column([a + b for a, b in zip(size_in, size_out, strict=True)], 1),
        _SHOWN["allocations"].column(gained, 1),
        _SHOWN["frees"].column(lost, 2),
        _SHOWN["allocated"].column(size_in, 2),
        _SHOWN["freed"].column([-b for b in size_out], 3),
    ]


def _holder_of_row(index: TraceIndex, memory: _MemoryRows) -> grouping.Key | None:
    """Return what allocated or freed, for each row; None where that is known of no row."""
    host = _host.host(index)
    on_thread = np.flatnonzero(index.has("tid")[memory.rows])
    holder = np.full(memory.rows.size, -1, np.int64)
    ranges = np.flatnonzero(~host.is_call)
    if ranges.size and on_thread.size:
        rows = memory.rows[on_thread]
        lanes = _host.lanes_of(index, np.concatenate((host.rows[ranges], rows)))
        at = innermost(
            lanes[: ranges.size], host.starts[ranges], host.ends[ranges], lanes[ranges.size :], memory.times[on_thread]
        )
        place = np.append(ranges, -1)[at]
        operator = np.append(host.nearest(index.kind_mask({Kind.OPERATOR})[host.rows]), -1)[place]
        place = np.where(operator >= 0, operator, place)
        holder[on_thread] = np.append(host.rows, -1)[place]
    names = index.key("name", np.maximum(holder, 0)) if index.events.num_rows else None
    labels: list[Cell] = [NO_RANGE, *(names.labels if names else ())]
    codes = np.where(holder >= 0, names.codes + 1, 0) if names else np.zeros(memory.rows.size, np.int64)
    holder_names = extracted(memory.args, r'"(?:alloc_in|free_in)":\s*"(?P<found>[^"\\]{1,200})"')
    if holder_names.null_count < len(holder_names):
        stated = arrow.encoded(holder_names.combine_chunks())
        stated_code = arrow.ints(stated.indices, -1)
        codes = np.where(stated_code >= 0, len(labels) + stated_code, codes)
        labels += arrow.texts(stated.dictionary)
    return grouping.Key(codes, labels) if codes.any() else None


def _holders(memory: _MemoryRows, holder: grouping.Key, options: ViewOptions) -> ReportTable:
    """Return the table of what allocated."""
    groups = grouping.group_by(holder, grouping.Key(memory.place, memory.labels), grouping.Key(memory.kind, TYPES))
    columns = [
        Column("name", "Operator or range", Unit.TEXT, groups.labels[0], 0),
        _SHOWN["place"].column(groups.labels[1], 2),
        _SHOWN["type"].column(groups.labels[2], 3),
        *_flow(groups.codes, groups.count, memory.size),
    ]
    columns = [c for c in columns if c.name not in ("place", "type") or len(set(c.values)) > 1]
    return tabulate.finish("holders", "Memory by operator", columns, options, own_order="increased")


def _at_peak(
    index: TraceIndex, memory: _MemoryRows, holder: grouping.Key | None, options: ViewOptions
) -> ReportTable | None:
    """Return what the place with the greatest peak held then; None where rows have no addresses or give no total.

    A block is held from its allocation to the next free of its address. Blocks from before the first row have no row of
    their own: they are the rest of the total.
    """
    addresses = extracted(memory.args, r'"[Aa]ddr":\s*"?(?P<found>\d{1,20})')
    peaks = _peak_rows(index, memory)
    if addresses.null_count or not peaks:
        return None
    total, place, last = max(peaks, key=lambda peak: (peak[0], -peak[1]))
    order = np.argsort(memory.times, kind="stable")
    until_peak = order[(memory.place[order] == place) & (memory.kind[order] == 0)]
    until_peak = until_peak[: int(np.flatnonzero(until_peak == last)[0]) + 1]
    # The last row of each address up to the peak counts: an allocation is held, a free is not.
    encoded = arrow.encoded(arrow.take(addresses, until_peak).combine_chunks())
    codes = arrow.ints(encoded.indices, -1)
    _, behind = np.unique(codes[::-1], return_index=True)
    latest = until_peak[until_peak.size - 1 - behind]
    held = latest[memory.size[latest] > 0]
    names = holder or grouping.Key(np.zeros(memory.rows.size, np.int64), [NO_RANGE])
    groups = grouping.group_by(grouping.Key(names.codes[held], names.labels))
    counts, sizes = grouping.sums(groups.codes, groups.count, memory.size[held], "sizes")
    rest = total - sum(sizes)
    if rest < 0:
        return None  # rows are missing: some of these blocks were freed
    labels: list[Cell] = [*groups.labels[0]]
    blocks: list[Cell] = [*counts]
    if rest:
        labels, blocks, sizes = [*labels, BEFORE], [*blocks, None], [*sizes, rest]
    columns = [
        Column("name", "Operator or range", Unit.TEXT, labels, 0),
        _SHOWN["held"].column(sizes),
        _SHOWN["share"].column([size / total for size in sizes], 1),
        _SHOWN["blocks"].column(blocks, 1),
    ]
    title = f"Held at the peak, {memory.labels[place]}"
    return tabulate.finish("at_peak", title, columns, options, own_order="held")


def _peaks(index: TraceIndex, memory: _MemoryRows) -> dict[int, tuple[int, int]]:
    """Return the row of EVENTS at which each place held the most, and the bytes that it held then."""
    return {place: (int(memory.rows[last]), total) for total, place, last in _peak_rows(index, memory)}


def _peak_rows(index: TraceIndex, memory: _MemoryRows) -> list[tuple[int, int, int]]:
    """Return the bytes, the place and the row of the greatest total of each place, as the file gives totals."""
    values, known = stated_totals(memory.args, TYPES[0])
    known &= ~np.isin(index.ints("source")[memory.rows], synthetic_sources(index)) & (memory.kind == 0)
    peaks = []
    for place, rows in rows_by(np.where(known, memory.place, -1)):
        if place >= 0 and (most := int(values[rows].max())) > 0:
            peaks.append((most, place, int(rows[np.argmax(values[rows])])))
    return peaks


def _counter_rows(index: TraceIndex, memory: _MemoryRows) -> I64:
    """Return the rows of counters of memory, of inputs without rows of kind memory."""
    codes, names = index.texts("name")
    wanted = pc.match_substring_regex(pa.array([*names, None], pa.string()), _COUNTER).fill_null(False)
    mask = index.kind_mask({Kind.COUNTER}) & wanted.to_numpy(zero_copy_only=False)[codes]
    mask &= index.has("value")
    sources = index.ints("source")
    mask &= ~np.isin(sources, sets.unique(sources[memory.rows]))
    return np.flatnonzero(mask)


def _counter_curves(index: TraceIndex, memory: _MemoryRows) -> list[Curve]:
    """Return the curve of each counter that has whole values at more than one time."""
    rows = _counter_rows(index, memory)
    rows = rows[~np.isin(index.ints("source")[rows], synthetic_sources(index))]
    values = arrow.floats(arrow.take(index.events.column("value"), rows), 0.0)
    times = since_origin(index, rows, index.starts[rows])
    keys = [index.key(column, rows) for column in ("name", "source", "rank", "device")]
    groups = grouping.group_by(*keys)
    drawn = []
    for group in range(groups.count):
        mine = np.flatnonzero(groups.codes == group)
        mine = mine[np.argsort(times[mine], kind="stable")]
        whole = bool((values[mine] == np.rint(values[mine])).all() and (np.abs(values[mine]) < 1 << 53).all())
        if whole and values[mine].any() and times[mine[0]] < times[mine[-1]]:
            edges = edges_of(int(times[mine[0]]), int(times[mine[-1]]))
            tops = _tops(times[mine], values[mine].astype(np.int64), edges)
            name, place = str(groups.labels[0][group]), _counter_places(index, groups)[group]
            title = " ".join(filter(None, (f"Counter {name} over time", f"({place})" if place else "")))
            drawn.append(Curve(title, Unit.NUMBER, edges, [name], [tops], "in the unit of the counter"))
    return drawn


def _counter_places(index: TraceIndex, groups: grouping.Groups) -> list[Cell]:
    """Return the place of each group of counters: rank or input, and device."""
    owners = owner_labels(
        index, [(s if isinstance(s, int) else 0, r) for s, r in zip(*groups.labels[1:3], strict=True)]
    )
    return [
        " · ".join(
            filter(None, (owners[s if isinstance(s, int) else 0, r], "" if d is None else device_in(index.run, s, d)))
        )
        or None
        for s, r, d in zip(*groups.labels[1:], strict=True)
    ]


def _counters(index: TraceIndex, memory: _MemoryRows, options: ViewOptions) -> ReportTable | None:
    """Return the table of counters of memory; None where there are none that no row of kind memory tells already."""
    rows = _counter_rows(index, memory)
    if not rows.size:
        return None
    keys = [index.key(column, rows) for column in ("name", "source", "rank", "device")]
    groups = grouping.group_by(*keys)
    values = arrow.floats(arrow.take(index.events.column("value"), rows), 0.0)
    order = np.argsort(groups.codes, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(groups.codes, minlength=groups.count))))
    values_of_group = [values[order[a:b]] for a, b in pairwise(bounds.tolist())]
    places = _counter_places(index, groups)
    columns = [
        Column("name", "Counter", Unit.TEXT, groups.labels[0], 0),
        *([_SHOWN["place"].column(places, 1)] if any(places) else []),
        _SHOWN["calls"].column([len(v) for v in values_of_group], 1),
        _SHOWN["min"].column([float(v.min()) for v in values_of_group], 1),
        _SHOWN["max"].column([float(v.max()) for v in values_of_group]),
        _SHOWN["last"].column([float(v[-1]) for v in values_of_group], 2),
    ]
    return tabulate.finish("counters", "Counters of memory", columns, options, own_order="name")


_SHOWS = (
    specs.SECTION,
    specs.RUN,
    specs.SOURCE,
    ViewColumn("name", "Name", Unit.TEXT, "The place, the operator or range, or the counter."),
    ViewColumn("place", "Place", Unit.TEXT, "The device, or the host of an input or rank.", "place"),
    ViewColumn(
        "type",
        "Type",
        Unit.TEXT,
        "Allocated (the program's requests) or reserved (taken from the device by the framework).",
    ),
    ViewColumn("peak", "Peak", Unit.BYTES, "The largest number of bytes that were held at one time."),
    ViewColumn("held", "Held", Unit.BYTES, "The bytes that were held when the place held the most."),
    ViewColumn("share", "Share", Unit.RATIO, "The part of the peak."),
    ViewColumn("blocks", "Blocks", Unit.COUNT, "The number of allocations that were held."),
    ViewColumn("increased", "Increased", Unit.BYTES, "Allocated bytes minus freed bytes."),
    ViewColumn("allocations", "Allocations", Unit.COUNT, "The number of allocations."),
    ViewColumn("frees", "Frees", Unit.COUNT, "The number of frees."),
    ViewColumn("allocated", "Allocated", Unit.BYTES, "The sum of the allocated bytes."),
    ViewColumn("freed", "Freed", Unit.BYTES, "The sum of the freed bytes."),
    ViewColumn("calls", "Samples", Unit.COUNT, "The number of samples of a counter."),
    ViewColumn("min", "Min", Unit.NUMBER, "The smallest value."),
    ViewColumn("max", "Max", Unit.NUMBER, "The largest value."),
    ViewColumn("avg", "Avg", Unit.NUMBER, "The mean value."),
    ViewColumn("last", "Last", Unit.NUMBER, "The last value of a counter."),
    ViewColumn("unit", "Unit", Unit.TEXT, "The unit of the values."),
    *_OF_CATEGORIES,
)
_SHOWN = specs.by_key(_SHOWS)

VIEW = View(
    name="memory",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=HOST_RANGES | {Kind.MEMORY, Kind.COUNTER},
    args_of=ARGS_OF | {Kind.MEMORY},
    compute=compute,
    shows=_SHOWS,
    pictures=(Picture("bars", "Who holds the memory at its peak", "memory.at_peak", ("held",), ("name",)),),
)

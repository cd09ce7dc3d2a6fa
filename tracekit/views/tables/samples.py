"""samples: the functions in the stacks of a sampling profiler, by their own samples and by those of all they called.

self: samples whose innermost frame is the function. total: samples that have it anywhere; a function that calls itself
counts once a sample, so totals overlap. Profiles of time have times; others have numbers in their own unit (samples,
bytes). A block for each input and unit; `--thread-sep`: for each thread. The page draws the stacks as a flame graph.

A table of hotspots has functions without their callers: then the total of a function is not known. It may be
of modules or threads in place of functions, or of several of them (grouping): such tables stay apart.
"""

from __future__ import annotations

from dataclasses import field

from tracekit.index.grouping import INT64_MAX
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, Flame, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.totals import TotalsRow, frames_of, in_file_order, totals_rows

__all__ = ["VIEW"]

_TITLE = "Sampled functions"
_COLUMNS = frozenset({"ts_ns", "kind"})
_SECTION = "samples"
_TIME = "ns"
MOST_PATHS = 20_000
"""Call paths of a flame graph, those with the most samples."""
_FLAMES = 8


@dataclass(slots=True)
class _SamplesBlock:
    """The stacks of one input, unit, thread ("": all) and grouping. own, all_: sums by function. paths: sums by stack.

    flat: rows without their callers are among them.
    stretches: (thread, begin, length, stack) of the times at which a stack was on; None where a row does not say it.
    """

    source: int
    unit: str
    thread: str
    grouping: str = ""
    flat: bool = False
    own: dict[str, float] = field(default_factory=dict)
    all_: dict[str, float] = field(default_factory=dict)
    paths: dict[tuple[str, ...], float] = field(default_factory=dict)
    stretches: list[tuple[str, int, int, tuple[str, ...]]] | None = field(default_factory=list)


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the tables of functions: one of times, one of each other unit. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    rows = [
        row for row in in_file_order(totals_rows(index, {Kind.OTHER})) if row["section"] == _SECTION and frames_of(row)
    ]
    if not rows:
        needs = "needs stacks of a sampling profiler; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *tabulate.option_notes(options)))
    blocks: dict[tuple[int, str, str, str], _SamplesBlock] = {}
    for row in rows:
        thread = str(row["args"].get("thread") or "") if options.thread_sep else ""
        unit = _TIME if row["total_ns"] is not None else row["unit"] or _SECTION
        key = row["source"], unit, thread, str(row["args"].get("grouping") or "")
        block = blocks.setdefault(key, _SamplesBlock(*key))
        _add(block, row, row["total_ns"] if row["total_ns"] is not None else row["value_avg"] or 0)
    shown = list(blocks.values())
    units = dict.fromkeys(block.unit for block in shown)
    tables = tuple(_table(index, [b for b in shown if b.unit == unit], unit, options) for unit in units)
    stacks = [block for block in shown if not block.flat]
    flames = tuple(_flame(index, block) for block in stacks[:_FLAMES])
    notes = ["self: the function is the innermost frame; totals overlap, since a sample counts for all its frames"]
    if not stacks:
        notes = ["self: the time in the function itself; the input does not say which functions called it"]
    if len(stacks) > _FLAMES:
        notes.append(f"only the first {_FLAMES} of {plural(len(stacks), 'flame graph')} are drawn")
    return Section(VIEW.name, _TITLE, tables, flames, (*notes, *tabulate.option_notes(options, tables[0])))


def _add(block: _SamplesBlock, row: TotalsRow, weight: float) -> None:
    frames = frames_of(row)
    block.flat |= row["args"].get("callers") == "unknown"
    block.own[frames[-1]] = block.own.get(frames[-1], 0) + weight
    for name in set(frames):
        block.all_[name] = block.all_.get(name, 0) + weight
    path = tuple(frames)
    block.paths[path] = block.paths.get(path, 0) + weight
    at = row["args"].get("at")
    if not isinstance(at, list) or len(at) % 2 or not all(map(_is_whole, at)):
        block.stretches = None
    elif block.stretches is not None:
        thread = str(row["args"].get("thread") or "")
        block.stretches += [(thread, begin, length, path) for begin, length in zip(at[::2], at[1::2], strict=True)]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT64_MAX


def _table(index: TraceIndex, blocks: list[_SamplesBlock], unit: str, options: ViewOptions) -> ReportTable:
    rows = [(block, name) for block in blocks for name in block.all_]
    labels = source_labels(index)
    places: list[tuple[Cell, ...]] = [(block.source, block.thread, block.grouping) for block, _ in rows]
    apart = [
        specs.THREAD.column([block.thread for block, _ in rows], 0),
        specs.SOURCE.column([source_label(labels, block.source) for block, _ in rows], 2),
        _GROUPING.column([block.grouping for block, _ in rows], 2),
    ]
    self_values = [block.own.get(name, 0) for block, name in rows]
    whole: dict[tuple[Cell, ...], float] = {}
    for place, value in zip(places, self_values, strict=True):
        whole[place] = whole.get(place, 0) + value
    shares: list[Cell] = [
        value / whole[place] if whole[place] else None for place, value in zip(places, self_values, strict=True)
    ]
    total: list[Cell] = [None if block.flat else block.all_[name] for block, name in rows]
    keys = ("self", "total") if unit == _TIME else ("self_samples", "total_samples")
    kind = Unit.NS if unit == _TIME else Unit.NUMBER
    words = "" if unit == _TIME else f" ({unit})"
    totals = Column(keys[1], f"Total{words}", kind, [_number(value, kind) for value in total], 1)
    columns = [
        specs.NAME.column([name for _, name in rows]),
        *(c for c in apart if len(set(c.values)) > 1),
        Column(keys[0], f"Self{words}", kind, [_number(value, kind) for value in self_values], 0),
        *([totals] if any(value is not None for value in total) else []),
        specs.RATIO.column(shares, 1),
    ]
    name = "functions" if unit == _TIME else f"functions_{unit}"
    return tabulate.finish(name, _TITLE, columns, options, own_order=keys[0], blocks=places)


def _number(value: Cell, kind: Unit) -> Cell:
    if not isinstance(value, int | float):
        return None
    return int(value) if kind is Unit.NS and abs(value) <= INT64_MAX else float(value)


def _flame(index: TraceIndex, block: _SamplesBlock) -> Flame:
    """Return the call paths of a block, each below its caller."""
    largest = sorted(block.paths.items(), key=lambda item: -item[1])[:MOST_PATHS]
    known: dict[tuple[int, str], int] = {}
    names: list[str] = []
    parents: list[int] = []
    self_values: list[int] = []
    place_of: dict[tuple[str, ...], int] = {}
    for path, weight in largest:
        above = -1
        for name in path:
            place = known.get((above, name))
            if place is None:
                place = known[above, name] = len(names)
                names.append(name)
                parents.append(above)
                self_values.append(0)
            above = place
        self_values[above] += round(weight)
        place_of[path] = above
    left_out = len(block.paths) - len(largest)
    parts = [source_label(source_labels(index), block.source) if len(index.run.sources) > 1 else "", block.thread]
    label = " ".join(filter(None, parts))
    what = "time" if block.unit == _TIME else block.unit
    # Threads follow each other: what several did at a time cannot be one above the other.
    stretches = sorted(block.stretches or (), key=lambda each: each[:2]) if not left_out else []
    return Flame(
        title=f"Sampled {what}{f' of {label}' if label else ''}",
        names=names,
        parents=parents,
        base=[],
        new=self_values,
        left_out=f"{plural(left_out, 'stack')} with fewer samples are not drawn" if left_out else "",
        unit=block.unit,
        order=[place_of[path] for *_, path in stretches],
        lengths=[length for _, _, length, _ in stretches],
    )


_GROUPING = ViewColumn(
    "grouping", "Grouping", Unit.TEXT, "What the rows are, where a table has others than functions.", "place"
)
_SHOWS = (
    specs.NAME,
    specs.THREAD,
    specs.SOURCE,
    _GROUPING,
    specs.RATIO,
    ViewColumn("self", "Self", Unit.NS, "The time of the samples whose innermost frame is the function."),
    ViewColumn("total", "Total", Unit.NS, "The time of the samples that have the function anywhere."),
    ViewColumn("self_samples", "Self", Unit.NUMBER, "The samples whose innermost frame is the function."),
    ViewColumn("total_samples", "Total", Unit.NUMBER, "The samples that have the function anywhere."),
)

VIEW = View(name="samples", title=_TITLE, columns=_COLUMNS, kinds=frozenset(), compute=compute, shows=_SHOWS)

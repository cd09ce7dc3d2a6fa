"""The same tables from TOTALS: rows that a profiler had already summed, merged only within one run and table.

A row without a total time is no statistic of durations (a metric, a fact of a header) and takes no part, but for the
sizes of copies, which some profilers print in a table of their own, and for what is counted alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypedDict, TypeVar

from tracekit.index.grouping import INT64_MAX, kind_mask, too_long
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import pc
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, Section
from tracekit.model.schema import DEVICE_WORK
from tracekit.model.units import Unit
from tracekit.views import specs
from tracekit.views.base import ViewOptions
from tracekit.views.tabulate import nothing, option_notes, ratios

__all__ = [
    "HEADER",
    "TOTALS_NOTE",
    "Summed",
    "TotalsRow",
    "block_columns",
    "block_notes",
    "both_note",
    "cell",
    "count_totals",
    "counted",
    "fields",
    "frames_of",
    "in_file_order",
    "nested_columns",
    "no_device_work",
    "of_domains",
    "of_header",
    "size_columns",
    "sized",
    "statistic_columns",
    "summed",
    "totals_rows",
    "whole_number",
    "with_all",
]

TOTALS_NOTE = "from totals that the profiler had summed itself: there are no percentiles"

_BLOCK = ("source", "rank", "run", "section", "range")
HEADER = "header"
_CUT = ("...", "…")
_BYTES = ("bytes", "B")
"""What readers call the unit of value_min and value_max where these are sizes in bytes."""
_RANGE_PARTS = ("domain", "thread", "range")
N = TypeVar("N", int, float)


class TotalsRow(TypedDict):
    """One row of TOTALS, with its columns; `args` is read, and `range` is the NVTX range, None for the run.

    self_ns, device_ns, device_self_ns: of a row with rows within it, what `args` has of them.
    """

    source: int
    rank: int | None
    run: int
    section: str
    order: int
    name: str | None
    raw_name: str | None
    kind: str | None
    calls: int | None
    total_ns: int | None
    min_ns: int | None
    max_ns: int | None
    median_ns: int | None
    std_ns: float | None
    avg_ns: float | None
    device: int | None
    bytes: int | None
    value_min: float | None
    value_max: float | None
    value_avg: float | None
    value_text: str | None
    unit: str | None
    args: dict[str, object]
    range: str | None
    self_ns: int | None
    device_ns: int | None
    device_self_ns: int | None


def totals_rows(index: TraceIndex, kinds: Collection[str] | None = None) -> list[TotalsRow]:
    """Return the rows of TOTALS, of these kinds where they are given, in the order of the table."""
    table = index.totals
    if not table.num_rows:
        return []
    untyped: Any = (table if kinds is None else table.filter(arrow.array(kind_mask(table, kinds)))).to_pylist()
    rows: list[TotalsRow] = untyped
    own = own_times(index)
    for row in untyped:
        row["args"] = _members(row["args"])
        row["range"] = _range(row["args"])
        for key in ("self_ns", "device_ns", "device_self_ns"):
            value = row["args"].get(key)
            untyped_row: Any = row
            untyped_row[key] = value if isinstance(value, int) else None
        if row["self_ns"] is None and own:
            row["self_ns"] = own.get((row["source"], row["order"]))
    return rows


@join
def own_times(index: TraceIndex) -> dict[tuple[int, int], int]:
    """Return the time of rows without that of the rows below them, by input and order.

    It is known where the file prints a tree: a row's `args` have the names above it (path). Where rows take less time
    than those below them (parallel work), the time of the whole table is not one of a tree, and none is known.
    """
    args = index.totals.column("args")
    if not args.length() or not pc.any(pc.match_substring(args, '"path":[')).as_py():
        return {}
    totals: dict[tuple[object, ...], int] = {}
    below: dict[tuple[object, ...], int] = {}
    at: dict[tuple[object, ...], tuple[int, int]] = {}
    nested: set[tuple[object, ...]] = set()
    broken: set[tuple[object, ...]] = set()
    columns = ["source", "rank", "run", "section", "order", "name", "total_ns", "args"]
    for row in index.totals.select(columns).to_pylist():
        more = _members(row["args"])
        above_it = more.get("path")
        path = tuple(above_it) if isinstance(above_it, list) else ()
        table = (row["source"], row["rank"], row["run"], row["section"])
        place = (*table, more.get("thread"))
        key = (*place, path, row["name"])
        if row["total_ns"] is None or key in totals:
            broken.add(table)
            continue
        totals[key], at[key] = row["total_ns"], (row["source"], row["order"])
        if path:
            nested.add(table)
            above = (*place, path[:-1], path[-1])
            below[above] = below.get(above, 0) + row["total_ns"]
    own = {key: ns - below.get(key, 0) for key, ns in totals.items() if key[:4] in nested}
    broken |= {key[:4] for key, ns in own.items() if ns < 0}
    return {at[key]: ns for key, ns in own.items() if key[:4] not in broken}


def in_file_order(rows: list[TotalsRow]) -> list[TotalsRow]:
    """Return rows by source, run and place in the file."""
    return sorted(rows, key=lambda row: (row["source"], row["run"], row["order"]))


def cell(value: object) -> Cell:
    """Return a member of `args` as a cell; null for what a cell cannot hold."""
    return value if isinstance(value, (int, float, str)) else None


def fields(row: TotalsRow, names: Sequence[str]) -> tuple[Cell, ...]:
    """Return the named columns of a row."""
    values: Mapping[str, object] = row
    return tuple(cell(values[name]) for name in names)


def _members(text: str | None) -> dict[str, object]:
    try:
        members = json.loads(text or "{}")
    except ValueError:
        return {}
    return members if isinstance(members, dict) else {}


@dataclass(frozen=True, slots=True)
class Summed:
    """Merged rows of TOTALS. blocks: for each row what it may be added up with: (source, rank, run, section, range)."""

    rows: list[TotalsRow]
    blocks: list[tuple[Cell, ...]]
    labels: dict[int, str]

    def __len__(self) -> int:
        return len(self.rows)

    def values(self, name: str) -> list[Cell]:
        """Return one column of all rows."""
        return [fields(row, (name,))[0] for row in self.rows]


def count_totals(index: TraceIndex, kinds: Collection[str]) -> int:
    """Return how many rows of TOTALS with a time are of these kinds."""
    table = index.totals
    if not table.num_rows:
        return 0
    timed = table.column("total_ns").is_valid().to_numpy()
    return int((kind_mask(table, kinds) & timed).sum())


def both_note(index: TraceIndex, kinds: Collection[str], what: str) -> list[str]:
    """Return a note where a trace with events of these kinds has totals of them too, which are not added."""
    count = count_totals(index, kinds)
    return [f"counted from events, not from the {plural(count, 'row')} of {what} totals beside them"] * bool(count)


def no_device_work(
    index: TraceIndex, view: str, title: str, options: ViewOptions, notes: Sequence[str] = ()
) -> Section:
    """Return the section of a view of devices where no event ran on one. notes: why such events do not count."""
    if count_totals(index, DEVICE_WORK):
        why = "needs events; this trace has only totals, which say how long work took and not when"
        return Section(view, title, notes=(why, *option_notes(options)))
    return nothing(view, title, "kernel, memcpy or memset", options, notes)


def summed(index: TraceIndex, kinds: Collection[str], by: Sequence[str]) -> Summed:
    """Return the rows of these kinds merged by `by` (columns of TOTALS) within their block and device.

    range: the NVTX range that a table is of (nvprof summaries), from `args`; None for the whole run.

    calls, total_ns, bytes: sums, null where one is unknown. min_ns, max_ns: of all. avg_ns, median_ns: as the file
    says for a row that stands alone (rounded to ns); of merged rows the mean is total / calls, a median is unknown.
    Raises: TracekitError where a sum exceeds int64.
    """
    return _summed(index, kinds, by, lambda row: row["total_ns"] is not None)


def sized(index: TraceIndex, kinds: Collection[str], by: Sequence[str]) -> Summed:
    """Return the rows of these kinds that have a size and no time, merged likewise (nsys cuda_gpu_mem_size_sum)."""
    return _summed(index, kinds, by, lambda row: row["total_ns"] is None and row["bytes"] is not None)


def counted(index: TraceIndex, kinds: Collection[str], by: Sequence[str]) -> Summed:
    """Return the rows of these kinds that have a count and no time, merged likewise (page faults of unified memory)."""
    return _summed(index, kinds, by, lambda row: row["total_ns"] is None and row["calls"] is not None)


def of_header(index: TraceIndex) -> Summed:
    """Return the times that the head or foot of a printed report says of all its tables together, a row each."""
    return _of_section(index, HEADER)


def of_domains(index: TraceIndex) -> Summed:
    """Return the sums of whole domains (HIP_API, KERNEL_DISPATCH), a row each: rocprofv3 has them in a file alone."""
    return _of_section(index, "domains")


def _of_section(index: TraceIndex, section: str) -> Summed:
    rows = [row for row in totals_rows(index) if row["section"] == section and row["total_ns"] is not None]
    for row in rows:
        row["range"] = None
    return Summed(rows, [fields(row, _BLOCK) for row in rows], source_labels(index))


def _summed(index: TraceIndex, kinds: Collection[str], by: Sequence[str], fits: Callable[[TotalsRow], bool]) -> Summed:
    merged: dict[tuple[Cell, ...], list[TotalsRow]] = {}
    for row in totals_rows(index, kinds):
        if fits(row) and row["section"] != HEADER:
            # Two names that were cut in print may be two names: only whole ones are merged.
            is_cut = "name" in by and (row["name"] or "").endswith(_CUT)
            merged.setdefault((*fields(row, (*_BLOCK, "device", *by)), row["order"] if is_cut else None), []).append(
                row
            )
    rows = [_merged(some) for some in merged.values()]
    return Summed(rows, [fields(row, _BLOCK) for row in rows], source_labels(index))


def _range(args: dict[str, object]) -> str | None:
    """Return the NVTX range of a row in words: ranges nest, so their rows may not be added up."""
    if not args:
        return None
    parts = {key.lower(): value for key, value in args.items()}
    if "range" not in parts:
        return None
    return " / ".join(str(parts[part]) for part in _RANGE_PARTS if parts.get(part)) or None


def _merged(rows: list[TotalsRow]) -> TotalsRow:
    out = rows[0].copy()
    if len(rows) == 1:
        printed = out["avg_ns"]
        known = printed is not None and math.isfinite(printed)
        out["avg_ns"] = round(printed) if printed is not None and known else _mean(out["total_ns"], out["calls"])
        return out
    out["calls"] = with_all(sum, [row["calls"] for row in rows])
    out["total_ns"] = with_all(sum, [row["total_ns"] for row in rows])
    out["bytes"] = with_all(sum, [row["bytes"] for row in rows])
    out["self_ns"] = with_all(sum, [row["self_ns"] for row in rows])
    out["device_ns"] = with_all(sum, [row["device_ns"] for row in rows])
    out["device_self_ns"] = with_all(sum, [row["device_self_ns"] for row in rows])
    out["min_ns"] = with_all(min, [row["min_ns"] for row in rows])
    out["max_ns"] = with_all(max, [row["max_ns"] for row in rows])
    out["value_min"] = with_all(min, [row["value_min"] for row in rows])
    out["value_max"] = with_all(max, [row["value_max"] for row in rows])
    if (out["total_ns"] or 0) > INT64_MAX:
        raise too_long()
    out["avg_ns"], out["median_ns"], out["value_avg"] = _mean(out["total_ns"], out["calls"]), None, None
    return out


def with_all(merge: Callable[[list[N]], N], values: list[N | None]) -> N | None:
    """Return the merged values, None where one of them is unknown."""
    known = [value for value in values if value is not None]
    return merge(known) if len(known) == len(values) else None


def _mean(total: int | None, calls: int | None) -> int | None:
    """Return total / calls rounded to an integer, a half to the even one."""
    if total is None or not calls:
        return None
    whole, rest = divmod(total, calls)
    return whole + (2 * rest > calls or (2 * rest == calls and whole % 2 == 1))


def statistic_columns(totals: Summed, declared: Iterable[specs.Statistic] = specs.STATISTICS) -> list[Column]:
    """Return those of the declared statistics that TOTALS has, and the median where the file has one, before shares."""
    columns, shares = [], []
    for spec in declared:
        if spec.of_whole:
            parts = [cell if isinstance(cell, int) else 0 for cell in totals.values(spec.totals)]
            shares.append(spec.column(ratios(parts, totals.blocks), spec.priority))
        elif spec.totals:
            columns.append(spec.column(totals.values(spec.totals), spec.priority))
    medians = totals.values("median_ns")
    if any(m is not None for m in medians):
        columns.append(specs.MEDIAN.column(medians, 4))
    return [*columns, *shares]


def nested_columns(totals: Summed) -> list[Column]:
    """Return self time and device times of rows that have rows within them, as far as the file has them."""
    self_ns = [row["self_ns"] for row in totals.rows]
    shares = ratios([ns or 0 for ns in self_ns], totals.blocks)
    columns = [
        Column("self", "CPU self", Unit.NS, self_ns, 1),
        Column("device_total", "Device total", Unit.NS, [row["device_ns"] for row in totals.rows], 1),
        Column("device_self", "Device self", Unit.NS, [row["device_self_ns"] for row in totals.rows], 2),
    ]
    if any(self_ns):
        known: list[Cell] = [share if ns is not None else None for share, ns in zip(shares, self_ns, strict=True)]
        columns.append(Column("self_ratio", "CPU self ratio", Unit.RATIO, known, 2))
    return [c for c in columns if any(c.values)]


def size_columns(totals: Summed) -> list[Column]:
    """Return calls, bytes and those of the least, the largest and the mean call."""

    def size(values: list[float | None]) -> list[Cell]:
        sizes = [v if row["unit"] in _BYTES else None for v, row in zip(values, totals.rows, strict=True)]
        return [round(v) if v is not None and abs(v) <= INT64_MAX else None for v in sizes]

    # The file's own mean, where it has one: what it prints of the sum is rounded more.
    both = zip(size([row["value_avg"] for row in totals.rows]), totals.rows, strict=True)
    means = [mean if mean is not None else _mean(row["bytes"], row["calls"]) for mean, row in both]
    return [
        Column("calls", "Calls", Unit.COUNT, totals.values("calls"), 0),
        Column("bytes", "Bytes", Unit.BYTES, totals.values("bytes"), 0),
        Column("avg", "Avg", Unit.BYTES, means, 1),
        Column("min", "Min", Unit.BYTES, size([row["value_min"] for row in totals.rows]), 3),
        Column("max", "Max", Unit.BYTES, size([row["value_max"] for row in totals.rows]), 2),
    ]


def block_columns(totals: Summed) -> list[Column]:
    """Return the columns that distinguish what was not added up: only those in which the rows differ."""
    sources = [source_label(totals.labels, row["source"]) for row in totals.rows]
    columns = [
        specs.RANGE.column(totals.values("range"), 2),
        # Two tables of a file may list the same work: which one a row is of decides what may be added up.
        specs.SECTION.column(totals.values("section"), 0),
        specs.RUN.column(totals.values("run"), 0),
        specs.DEVICE_ID.column(totals.values("device"), 2),
        specs.RANK.column(totals.values("rank"), 0),
        specs.SOURCE.column(sources, 2),
    ]
    return [c for c in columns if len(set(c.values)) > 1]


def block_notes(totals: Summed) -> list[str]:
    """Return what to know of tables made from totals."""
    parts = ("input", "rank", "run", "section", "range")
    apart = [part for part, labels in zip(parts, zip(*totals.blocks, strict=True), strict=True) if len(set(labels)) > 1]
    notes = [TOTALS_NOTE]
    if apart:
        again = ": two sections may count the same time" if "section" in apart else ""
        notes.append(f"a ratio is of the rows of the same {' and '.join(apart)}{again}")
    return notes


def frames_of(row: TotalsRow) -> list[str]:
    """Return the frames of a row's stack, [] without one."""
    frames = row["args"].get("frames")
    return [str(each) for each in frames] if isinstance(frames, list) else []


def whole_number(value: object) -> Cell:
    """Return an integer of `args`, null for anything else, true and false included."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None

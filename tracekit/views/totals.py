"""The same tables from TOTALS: rows that a profiler had already summed, merged only within one run and table.

A row without a total time is no statistic of durations (a metric, a fact of a header) and takes no part, but for the
sizes of copies, which some profilers print in a table of their own, and for what is counted alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tracekit.index.grouping import INT64_MAX, kind_mask, plural, too_long
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell, Column
from tracekit.units import Unit
from tracekit.views import specs
from tracekit.views.tabulate import ratios

TOTALS_NOTE = "from totals that the profiler had summed itself: there are no percentiles"

_BLOCK = ("source", "rank", "run", "section", "range")
HEADER = "header"
_BYTES = ("bytes", "B")
"""What readers call the unit of value_min and value_max where these are sizes in bytes."""
_RANGE_PARTS = ("domain", "thread", "range")
_MERGING: tuple[tuple[str, Callable[[list[Any]], Any]], ...] = (
    ("calls", sum),
    ("total_ns", sum),
    ("bytes", sum),
    ("min_ns", min),
    ("max_ns", max),
    ("value_min", min),
    ("value_max", max),
)


@dataclass(frozen=True, slots=True)
class Summed:
    """Merged rows of TOTALS. blocks: for each row what it may be added up with: (source, rank, run, section, range)."""

    rows: list[dict[str, Any]]
    blocks: list[tuple[Cell, ...]]
    labels: dict[int, str]

    def __len__(self) -> int:
        return len(self.rows)

    def values(self, name: str) -> list[Any]:
        """Return one field of all rows."""
        return [row[name] for row in self.rows]


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
    return [f"counted from events, not from the {plural('row', count)} of {what} totals beside them"] * bool(count)


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
    table = index.totals
    rows = [
        {**row, "range": None}
        for row in (table.to_pylist() if table.num_rows else ())
        if row["section"] == HEADER and row["total_ns"] is not None
    ]
    return Summed(rows, [tuple(row[k] for k in _BLOCK) for row in rows], source_labels(index))


def _summed(
    index: TraceIndex, kinds: Collection[str], by: Sequence[str], fits: Callable[[dict[str, Any]], bool]
) -> Summed:
    table = index.totals
    merged: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    if table.num_rows:
        for row in table.filter(kind_mask(table, kinds)).to_pylist():
            if fits(row) and row["section"] != HEADER:
                row["range"] = _range(row["args"])
                key = tuple(row[k] for k in (*_BLOCK, "device", *by))
                merged.setdefault(key, []).append(row)
    rows = [_merged(some) for some in merged.values()]
    return Summed(rows, [tuple(row[k] for k in _BLOCK) for row in rows], source_labels(index))


def _range(args: str | None) -> str | None:
    """Return the NVTX range of a row in words: ranges nest, so their rows may not be added up."""
    if not args or '"range"' not in args.lower():
        return None
    try:
        found = json.loads(args)
    except ValueError:
        return None
    parts = {str(key).lower(): value for key, value in found.items()} if isinstance(found, dict) else {}
    return " / ".join(str(parts[part]) for part in _RANGE_PARTS if parts.get(part)) or None


def _merged(rows: list[dict[str, Any]]) -> dict[str, Any]:
    if len(rows) == 1:
        out = dict(rows[0])
        printed = out["avg_ns"]
        known = printed is not None and math.isfinite(printed)
        out["avg_ns"] = round(printed) if known else _mean(out["total_ns"], out["calls"])
        return out
    out = dict(rows[0])
    for name, add in _MERGING:
        values = [row[name] for row in rows]
        out[name] = None if None in values else add(values)
    if (out["total_ns"] or 0) > INT64_MAX:
        raise too_long()
    out["avg_ns"], out["median_ns"], out["value_avg"] = _mean(out["total_ns"], out["calls"]), None, None
    return out


def _mean(total: int | None, calls: int | None) -> int | None:
    """Return total / calls rounded to an integer, a half to the even one."""
    if total is None or not calls:
        return None
    whole, rest = divmod(total, calls)
    return whole + (2 * rest > calls or (2 * rest == calls and whole % 2 == 1))


def statistic_columns(of: Summed) -> list[Column]:
    """Return calls, total, avg, min, max, median (where the file has one), ratio within each block."""
    totals = of.values("total_ns")
    columns = [
        specs.CALLS.column(of.values("calls"), 1),
        specs.TOTAL.column(totals, 0),
        specs.AVG.column(of.values("avg_ns"), 2),
        specs.MIN.column(of.values("min_ns"), 5),
        specs.MAX.column(of.values("max_ns"), 3),
    ]
    medians = of.values("median_ns")
    if any(m is not None for m in medians):
        columns.append(specs.MEDIAN.column(medians, 4))
    return [*columns, specs.RATIO.column(ratios(totals, of.blocks), 1)]


def size_columns(of: Summed) -> list[Column]:
    """Return calls, bytes and those of the least, the largest and the mean call."""

    def size(name: str) -> list[Cell]:
        found = [row[name] if row["unit"] in _BYTES else None for row in of.rows]
        return [round(v) if v is not None and abs(v) <= INT64_MAX else None for v in found]

    # The file's own mean, where it has one: what it prints of the sum is rounded more.
    both = zip(size("value_avg"), of.rows, strict=True)
    means = [mean if mean is not None else _mean(row["bytes"], row["calls"]) for mean, row in both]
    return [
        Column("calls", "Calls", Unit.COUNT, of.values("calls"), 0),
        Column("bytes", "Bytes", Unit.BYTES, of.values("bytes"), 0),
        Column("avg", "Avg", Unit.BYTES, means, 1),
        Column("min", "Min", Unit.BYTES, size("value_min"), 3),
        Column("max", "Max", Unit.BYTES, size("value_max"), 2),
    ]


def block_columns(of: Summed) -> list[Column]:
    """Return the columns that tell apart what was not added up: only those in which the rows differ."""
    sources = [source_label(of.labels, source) for source in of.values("source")]
    columns = [
        specs.RANGE.column(of.values("range"), 2),
        # Two tables of a file may list the same work: which one a row is of decides what may be added up.
        specs.SECTION.column(of.values("section"), 0),
        specs.RUN.column(of.values("run"), 0),
        specs.DEVICE_ID.column(of.values("device"), 2),
        specs.RANK.column(of.values("rank"), 0),
        specs.SOURCE.column(sources, 2),
    ]
    return [c for c in columns if len(set(c.values)) > 1]


def block_notes(of: Summed) -> list[str]:
    """Return what to know of tables made from totals."""
    parts = ("input", "rank", "run", "section", "range")
    apart = [part for part, found in zip(parts, zip(*of.blocks, strict=True), strict=True) if len(set(found)) > 1]
    notes = [TOTALS_NOTE]
    if apart:
        again = ": two sections may tell the same time" if "section" in apart else ""
        notes.append(f"a ratio is of the rows of the same {' and '.join(apart)}{again}")
    return notes

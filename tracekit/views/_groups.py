"""What the tables of statistics share: rows of some kinds, keys to group them by, columns, order and the cut by --top.

Only rows with a duration take part in statistics; how many have none is said in a note. A duration below zero counts as
zero, and a note says how many there are (upstream lets them subtract time).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import compress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.analysis.intervals import I64
from tracekit.analysis.statistics import Grouped, grouped
from tracekit.errors import TracekitError, UsageError
from tracekit.report import Cell, Column, ReportTable, Section
from tracekit.schema import Kind
from tracekit.trace import Trace, text_codes
from tracekit.units import Unit
from tracekit.views.base import ViewOptions

PERCENTILE_NOTE = "p50, p95 and p99 are by nearest rank: each is a duration that occurs in the trace"

SORT_KEYS = (
    "name", "kind", "copy_kind", "calls", "total", "avg", "min", "max", "median", "p50", "p95", "p99", "std", "ratio",
    "bytes", "bandwidth", "union", "share", "untimed", "utilization", "kernel_time", "busy", "busy_time", "kernels",
    "copies", "span", "self", "self_ratio", "device_total", "device_self", "device_avg", "device_max", "device_min",
    "device_ratio", "flops", "level", "place", "metric", "unit", "text", "device", "source", "rank", "run", "section",
    "range", "thread", "pid", "tid", "step", "compute", "exposed_comm", "exposed_copies", "idle", "compute_share",
    "exposed_comm_share", "exposed_copies_share", "idle_share", "communication", "overlap", "overlap_share", "active",
    "idle_active", "cause", "gap", "at", "host_range", "user_range", "next", "context", "stream", "launches",
    "launches_per_s", "call_total", "queue_total", "queue_max", "queue_mean", "full_time", "short", "short_share",
    "slow_calls", "late", "owner", "which", "steps", "start", "time", "said", "part", "pieces", "won", "left", "host",
    "launch", "copy", "sync_wait", "collectives", "wait", "wait_p50", "last", "last_share", "late_p50", "group",
    "ranks", "skew", "skew_p50", "skew_p95", "skew_max", "transfer", "transfer_p50", "waiting", "number", "latest",
    "offset", "drift_ppm", "uncertainty", "measure", "mean", "imbalance", "most", "confidence", "rule",
)  # fmt: skip
"""Columns of any table here. One that this table lacks is no error, since --sort speaks to all views of a summary."""

SORT_ALIASES: dict[str, tuple[str, ...]] = {
    "CPUTotal": ("total",), "CPUAvg": ("avg",), "CPUMax": ("max",), "CPUMin": ("-min",),
    "GPUTotal": ("device_total", "kernel_time", "total"), "GPUAvg": ("device_avg", "avg"),
    "GPUMax": ("device_max", "max"), "GPUMin": ("-device_min", "-min"), "ave": ("avg",), "count": ("calls",),
}  # fmt: skip
"""Words of the upstreams' --sort (Paddle, fluid, MXNet) and our columns, of which the first that a table has counts."""

_PLACES = frozenset({
    "source", "rank", "run", "pid", "tid", "thread", "device", "section", "range", "context", "stream", "kind",
    "copy_kind",
})  # fmt: skip
"""Columns that tell where a row is from, or which of several of a name it is."""

INT64_MAX = (1 << 63) - 1
_LEAVE_OUT = "leave out the rows that cannot be true: --time A:B, --name REGEX"


@dataclass(frozen=True, slots=True)
class Key:
    """One column that rows are grouped by: `codes` of shape (n,) count into `labels`; a label may be None."""

    codes: I64
    labels: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows in groups. codes: shape (n,), the group of each row. labels: for each key, a cell a group."""

    codes: I64
    count: int
    labels: tuple[list[Cell], ...]


@dataclass(frozen=True, slots=True)
class Picked:
    """Rows of EVENTS with a duration. rows: their numbers; starts, durations: ns; untimed, negative: what notes say."""

    trace: Trace
    rows: I64
    starts: I64
    durations: I64
    untimed: int
    negative: int

    def key(self, column: str) -> Key:
        """Return that column of EVENTS as a key."""
        return key_of(self.trace.events, column, self.rows)

    def notes(self, what: str) -> list[str]:
        """Return a sentence for rows without a duration, and one for durations below zero."""
        out = []
        if self.untimed:
            verbs = ("has", "is") if self.untimed == 1 else ("have", "are")
            out.append(f"{plural(what, self.untimed)} {verbs[0]} no duration and {verbs[1]} not counted")
        if self.negative:
            verb = "has" if self.negative == 1 else "have"
            out.append(f"{plural(what, self.negative)} {verb} a duration below zero, counted as 0")
        return out


def plural(what: str, count: int) -> str:
    """Return so many of them in words: "1 kernel", "2,000 kernels"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def require(trace: Trace, view: str, columns: Iterable[str]) -> None:
    """Raise UsageError where the trace was read without a column that the view needs."""
    lacking = sorted(set(columns) - set(trace.events.schema.names))
    if lacking:
        raise UsageError(
            f"the view {view} needs the column {lacking[0]}, which this trace was read without",
            hint="read the trace with all columns, or with those of tracekit.pipeline.columns_of([view, ...])",
        )


def kind_mask(table: pa.Table, kinds: Collection[str]) -> npt.NDArray[np.bool_]:
    """Return shape (n,): whether a row is of one of the kinds; a null kind is of none."""
    parts = [np.zeros(0, np.bool_)]
    for chunk in table.column("kind").chunks:
        wanted = np.array([text in kinds for text in chunk.dictionary.to_pylist()] + [False], np.bool_)
        parts.append(wanted[chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)])
    return parts[1] if len(parts) == 2 else np.concatenate(parts)


def pick(trace: Trace, kinds: Collection[Kind]) -> Picked:
    """Return the rows of these kinds that have a duration, durations below zero made 0.

    starts and durations may be the trace's own columns: they are not for writing.
    """
    mask = kind_mask(trace.events, kinds)
    dur = trace.events.column("dur_ns")
    timed = dur.is_valid().to_numpy()
    rows = np.flatnonzero(mask & timed)
    durations = _take(dur.fill_null(0).to_numpy(), rows)
    negative = int(np.count_nonzero(durations < 0))
    return Picked(
        trace,
        rows,
        _take(trace.events.column("ts_ns").to_numpy(), rows),
        np.maximum(durations, 0) if negative else durations,
        int(np.count_nonzero(mask & ~timed)),
        negative,
    )


def _take(values: I64, rows: I64) -> I64:
    """Return the values at these rows, ascending and distinct; without a copy where they are all rows."""
    return values if rows.size == values.size else values[rows]


def key_of(table: pa.Table, column: str, rows: I64) -> Key:
    """Return a column as a key for these rows; label 0 is None."""
    values = table.column(column)
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    codes, labels = text_codes(values.unify_dictionaries())
    codes = codes[rows]
    codes += 1
    return Key(codes, [None, *labels])


def group_by(*keys: Key) -> Groups:
    """Return the groups of rows that agree in all keys, in order of their labels' codes; each has a row at least."""
    count = len(keys[0].labels)
    found, codes = _dense(keys[0].codes, count)
    parts = [found]
    count = found.size
    for key in keys[1:]:
        width = len(key.labels)
        found, codes = _dense(codes * width + key.codes, count * width)
        parts = [part[found // width] for part in parts] + [found % width]
        count = found.size
    labels = tuple([key.labels[i] for i in part.tolist()] for key, part in zip(keys, parts, strict=True))
    return Groups(codes, count, labels)


def _dense(codes: I64, size: int) -> tuple[I64, I64]:
    """Return the codes that occur, ascending, and for each row the place of its code among them."""
    if size > max(4 * codes.size, 1 << 16):
        found, places = np.unique(codes, return_inverse=True)
        return found, places.astype(np.int64, copy=False)
    present = np.bincount(codes, minlength=size) > 0
    places = np.cumsum(present) - 1
    return np.flatnonzero(present), places[codes]


def statistics(groups: Groups, values: I64) -> Grouped:
    """Return calls, totals, percentiles of durations by group. Raises: TracekitError where a sum exceeds int64."""
    try:
        return grouped(groups.codes, groups.count, values)
    except OverflowError as err:
        raise too_long() from err


def sums(codes: I64, count: int, values: I64, what: str) -> tuple[list[int], list[int]]:
    """Return calls and total of the values of each group. Raises: TracekitError where a total exceeds int64."""
    try:
        of = grouped(codes, count, values, ())
    except OverflowError as err:
        raise TracekitError(f"the {what} add up to more than int64 holds", hint=_LEAVE_OUT) from err
    return of.calls.tolist(), of.total.tolist()


def too_long() -> TracekitError:
    """Return the error for durations that together exceed 292 years."""
    return TracekitError("the durations add up to more than 292 years", hint=_LEAVE_OUT)


def ratios(totals: Sequence[int], blocks: Sequence[Cell | tuple[Cell, ...]] = ()) -> list[Cell]:
    """Return each total as a share of all, or of those in the same block; null where that is 0."""
    whole: dict[object, int] = {}
    for total, block in zip(totals, blocks or [None] * len(totals), strict=True):
        whole[block] = whole.get(block, 0) + total
    return [
        total / whole[block] if whole[block] else None
        for total, block in zip(totals, blocks or [None] * len(totals), strict=True)
    ]


def statistic_columns(of: Grouped, blocks: Sequence[Cell | tuple[Cell, ...]] = ()) -> list[Column]:
    """Return calls, total, avg, min, max, p50, p95, p99, std, ratio as columns, a row a group.

    std is that of the population, since a trace holds all calls: exact, rounded to ns.
    """
    totals = of.total.tolist()
    return [
        Column("calls", "Calls", Unit.COUNT, of.calls.tolist(), 1),
        Column("total", "Total", Unit.NS, totals, 0),
        Column("avg", "Avg", Unit.NS, of.mean.tolist(), 2),
        Column("min", "Min", Unit.NS, of.min.tolist(), 5),
        Column("max", "Max", Unit.NS, of.max.tolist(), 3),
        *(
            Column(f"p{percent}", f"P{percent}", Unit.NS, of.percentile(percent).tolist(), priority)
            for percent, priority in ((50, 4), (95, 6), (99, 4))
        ),
        Column("std", "Std", Unit.NS, of.pstd.tolist(), 7),
        Column("ratio", "Ratio", Unit.RATIO, ratios(totals, blocks), 1),
    ]


def sort_key(options: ViewOptions, columns: Collection[str]) -> tuple[str, bool]:
    """Return the column of --sort, and whether it is turned around ("-"); upstream's words stand for our columns."""
    key = options.sorted_by
    bare = key.removeprefix("-")
    if bare in SORT_ALIASES:
        meant = next((k for k in SORT_ALIASES[bare] if k.removeprefix("-") in columns), SORT_ALIASES[bare][0])
        return meant.removeprefix("-"), meant.startswith("-") != key.startswith("-")
    return bare, key.startswith("-")


def check_sort(options: ViewOptions, columns: Sequence[str]) -> None:
    """Raise UsageError where the key of --sort is a column of no table here; `columns` are those of this view."""
    key, _ = sort_key(options, columns)
    if key in columns or key in SORT_KEYS or not options.sorted_by:
        return
    # The hint names what looks like it, of any view, and the columns of this one: all of all views would be a page.
    near = get_close_matches(key.lower(), sorted({*columns, *SORT_KEYS}), 3)
    perhaps = f"{' or '.join(near)}? " if near else ""
    raise UsageError(f"--sort {options.sorted_by}: no such column", hint=f"{perhaps}one of: {', '.join(columns)}")


def option_notes(options: ViewOptions, table: ReportTable | None = None) -> list[str]:
    """Return a note where the key of --sort is of other tables alone, and where no figures of another tool exist."""
    notes = []
    key, _ = sort_key(options, [c.name for c in table.columns] if table is not None else ())
    if table is not None and key and key not in [c.name for c in table.columns]:
        notes.append(f"no column {key} here: in the table's own order")
    if options.compat:
        notes.append(f"compat {options.compat} changes nothing here")
    return notes


def nothing(view: str, title: str, what: str, options: ViewOptions, notes: Sequence[str] = ()) -> Section:
    """Return a section that says what it needs; `notes` say why rows of the kind do not count, where there are any."""
    needs = f"needs {what} events{' with a duration' if notes else ''}; this trace has none"
    return Section(view, title, notes=(needs, *notes, *option_notes(options)))


def finish(
    name: str,
    title: str,
    columns: Sequence[Column],
    options: ViewOptions,
    *,
    own_order: str = "total",
    blocks: Sequence[tuple[Cell, ...]] = (),
    top_each: bool = True,
) -> ReportTable:
    """Return the table in its order, cut to --top rows; of each block, unless not `top_each`.

    Order: block by block unless the user names a column; then that column, else `own_order`: numbers largest first,
    text and ids ascending, "-" before the name turns it around, nulls last. Ties go by text and ids, so that equal rows
    have one order whatever the order of the events.
    """
    names = [c.name for c in columns]
    wanted, backwards = sort_key(options, names)
    asked = wanted in names
    chosen = wanted if asked else own_order
    turned = asked and backwards
    count = len(columns[0].values) if columns else 0
    by_blocks = blocks if blocks and not asked else [()] * count
    order = list(range(count))
    labels = [c.values for c in columns if c.unit in (Unit.TEXT, Unit.ID)]
    for values, reverse in [
        *((v, False) for v in reversed(labels)),
        *((c.values, turned != (c.unit not in (Unit.TEXT, Unit.ID))) for c in columns if c.name == chosen),
    ]:
        order = _stable(order, values, reverse=reverse)
    order.sort(key=lambda i: [_text_last(cell) for cell in by_blocks[i]])
    kept = _top(order, blocks if blocks and top_each else [()] * count, options.top)
    shown = [Column(c.name, c.title, c.unit, [c.values[i] for i in kept], c.priority) for c in columns]
    return ReportTable(name, title, tuple(_told_apart(shown)), omitted=count - len(kept))


def _told_apart(columns: Sequence[Column]) -> list[Column]:
    """Return the columns; where without a column of `_PLACES` rows would look alike, a narrow terminal keeps it too."""
    labels = [c for c in columns if c.unit in (Unit.TEXT, Unit.ID)]
    able = sorted((c for c in labels if c.priority and c.name in _PLACES), key=lambda c: c.priority)
    kept = [c for c in labels if not c.priority]

    def different(some: Sequence[Column]) -> int:
        return len(set(zip(*(c.values for c in some), strict=True))) or 1

    now, most = different(kept), different([*kept, *able]) if able else 0
    for column in able:
        if now < most and (more := different([*kept, column])) > now:
            kept.append(column)
            now = more
    return [replace(c, priority=0) if c.priority and any(c is k for k in kept) else c for c in columns]


def _stable(order: list[int], values: Sequence[Cell], *, reverse: bool) -> list[int]:
    """Return the order sorted by a column, nulls last; equal cells stay as they stand, reversed or not."""
    known = [values[i] is not None for i in order]
    some = sorted(compress(order, known), key=lambda i: _text_last(values[i]), reverse=reverse)
    return some + [i for i in order if values[i] is None]


def _text_last(cell: Cell) -> tuple[int, float | int, str]:
    """Return a sort key under which numbers, texts and None can be compared."""
    if cell is None:
        return 2, 0, ""
    return (1, 0, cell) if isinstance(cell, str) else (0, cell, "")


def _top(order: list[int], blocks: Sequence[tuple[Cell, ...]], top: int) -> list[int]:
    if top <= 0:
        return order
    seen: dict[tuple[Cell, ...], int] = {}
    kept = []
    for i in order:
        seen[blocks[i]] = seen.get(blocks[i], 0) + 1
        if seen[blocks[i]] <= top:
            kept.append(i)
    return kept

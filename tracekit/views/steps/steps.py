"""steps: the time of each training step, warm-up and outliers, and how busy the devices were.

A step is a row of kind `step` that no other step of its thread contains. Ranks, processes and inputs are separate.
Where the host runs ahead of the device, so that host ranges differ from the steps of the device by more than 5 %, the
time of a step is that of the device (tracekit/index/step_extents.py), and the host ranges are shown beside it.
The pace of the steps (pitch, samples per second) is shown where it is known: tracekit/views/steps/pace.py.
busy_time is the union of the kernels, copies and memsets of the same rank (process, input) inside the step, whoever
launched them; gap is the time from the end of the step before to the start of this one.

Warm-up is the leading steps that take longer than the median of all by 5.19 times the median distance to it (that is
3.5 robust standard deviations: Iglewicz and Hoaglin, 1993), and by 5 % at least; never more than half of the steps.
Outliers are later steps as far from the median of the steps after warm-up. With fewer than 5 steps none are marked. The
numbers are `tracekit.analysis.series.RULE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from tracekit.analysis.segments import rows_by
from tracekit.analysis.series import RULE, Judged, judge
from tracekit.analysis.statistics import grouped, nearest_rank
from tracekit.index import grouping
from tracekit.index import owners as _owners
from tracekit.index import step_extents as _extents
from tracekit.index import steps as _steps
from tracekit.index.devices import by_clock, since_origin
from tracekit.index.sources import synthetic_sources
from tracekit.index.step_extents import StepExtents
from tracekit.index.steps import HINT, Steps
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, Heat, Picture, ReportTable, Section, Series
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.units import Unit, format_span
from tracekit.views import specs, tabulate
from tracekit.views.base import Quantity, View, ViewColumn, ViewOptions
from tracekit.views.pictures import DEVICE_NAMES, LATE
from tracekit.views.quantities import ratio
from tracekit.views.steps.pace import Pace, pace_of

__all__ = ["VIEW", "StepTimes", "step_times"]

# The heat map of the steps: the time of each step on each rank, beside the median of the ranks in that step.
#
# Steps of the same number are the same step. Where a number is missing, or repeats in a rank, steps are matched by
# their
# place in the rank. With more than MOST_ROWS ranks or MOST_COLUMNS steps neighbours share a cell, which holds the
# greatest step time among them and the median of that step.


MOST_ROWS, MOST_COLUMNS = 64, 120


def heat(index: TraceIndex, steps: Steps) -> Heat | None:
    """Return the heat map of the steps; None where fewer than two owners have steps."""
    owners, row = np.unique(steps.owner, return_inverse=True)
    if owners.size < 2:
        return None
    labels, column, numbered = _matched(index, steps, row)
    medians = _medians(column, steps.durations, len(labels))[column]
    rows, row_edges = _blocks([steps.owners.labels[o] for o in owners.tolist()], MOST_ROWS)
    columns, column_edges = _blocks(labels, MOST_COLUMNS)
    cell = _block_of(row, row_edges) * len(columns) + _block_of(column, column_edges)
    order = np.lexsort((column, -steps.durations, cell))
    at = order[np.flatnonzero(np.diff(cell[order], prepend=-1))]
    values: list[Cell] = [None] * (len(rows) * len(columns))
    levels: list[Cell] = [None] * len(values)
    for place, row_of_steps in zip(cell[at].tolist(), at.tolist(), strict=True):
        values[place], levels[place] = int(steps.durations[row_of_steps]), int(medians[row_of_steps])
    who = "rank" if None not in steps.owners.ranks else "input"
    return Heat(
        f"Step time by {who}",
        Unit.NS,
        rows,
        columns,
        _whole(values),
        _whole(levels),
        "; ".join(_remarks(who, owners.size, len(labels), row_edges, column_edges, numbered)),
    )


def _matched(index: TraceIndex, steps: Steps, row: I64) -> tuple[list[str], I64, bool]:
    """Return a label for each column, the column of each step, and whether numbers decide it."""
    numbers = arrow.take(index.events.column("step"), steps.rows)
    if not numbers.null_count:
        known, column = np.unique(numbers.to_numpy().astype(np.int64), return_inverse=True)
        if sets.unique(row.astype(np.int64) * known.size + column).size == row.size:
            return [f"step {number}" for number in known.tolist()], column.astype(np.int64), True
    place = np.arange(row.size) - np.searchsorted(row, row)
    return [f"step at place {i}" for i in range(int(place.max()) + 1)], place.astype(np.int64), False


def _medians(column: I64, times: I64, count: int) -> I64:
    """Return the median of the times in each column by nearest rank, as the tables have it."""
    ordered = times[np.lexsort((times, column))]
    sizes = np.bincount(column, minlength=count)
    medians: I64 = ordered[np.cumsum(sizes) - sizes + (sizes - 1) // 2]
    return medians


def _blocks(labels: list[str], most: int) -> tuple[list[str], I64]:
    """Return the labels of at most so many blocks of neighbours, and where each begins; the last edge is the end."""
    count = min(len(labels), most)
    edges = np.arange(count + 1) * len(labels) // count
    shared = [labels[a] if b - a == 1 else f"{labels[a]} to {labels[b - 1]}" for a, b in pairwise(edges.tolist())]
    return shared, edges


def _block_of(places: I64, edges: I64) -> I64:
    blocks: I64 = np.searchsorted(edges, places, side="right") - 1
    return blocks


def _whole(cells: list[Cell]) -> list[int | None]:
    return [cell if isinstance(cell, int) else None for cell in cells]


def _remarks(who: str, owners: int, steps: int, rows: I64, columns: I64, numbered: bool) -> list[str]:
    remarks = []
    if rows.size <= owners or columns.size <= steps:
        widest = int(np.diff(rows).max()), int(np.diff(columns).max())
        shared = [f"{each:,} {word}s" for each, word in zip(widest, (who, "step"), strict=True) if each > 1]
        remarks.append(f"a cell is the greatest step time of up to {' and '.join(shared)}")
    if not numbered:
        remarks.append(f"steps are matched by their place in each {who}: numbers are missing or repeat")
    return remarks


NAMED = 5
"""The most outliers that a note names."""
FIGURES = 8
"""The most owners whose series is drawn."""

_TITLE = "Steps"
_COLUMNS = _extents.COLUMNS | {"step", "name"}
HOST = "host ranges"
"""The row of the statistics that has the host ranges, where the steps are those of the device."""


@dataclass(frozen=True, slots=True, eq=False)
class StepTimes:
    """The n steps of the view as arrays, by owner and start. For `tracekit compare`, which must count the same steps.

    owner_of_row: shape (rows of EVENTS,), the owner of each, a place in `owners`. owner, starts, durations: shape (n,),
    ns: the time that a step takes. busy: None where an owner has no device work. warm_up: shape (n,).
    ahead: shape (n,): the step is that of the device, since the host runs ahead. host_starts, host_durations: shape
    (n,), ns: the host ranges, in which the work of a step is launched; equal to the others where not `ahead`. pace: the
    pitch and the samples of each.
    """

    owners: tuple[str, ...]
    owner_of_row: I64
    owner: I64
    starts: I64
    durations: I64
    busy: tuple[int | None, ...]
    warm_up: Mask
    ahead: Mask
    host_starts: I64
    host_durations: I64
    pace: Pace


def step_times(index: TraceIndex) -> StepTimes:
    """Return the steps that the view shows, none where the trace has none. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    owners = _owners.find(index)
    extents = _extents.step_extents(index, owners)
    steps, host = extents.steps, extents.host
    judged = {o: judge(steps.durations[at]) for o, at in rows_by(steps.owner)}
    warm_up = np.array([word == "warm-up" for word in _marks(steps, judged)], np.bool_)
    return StepTimes(
        tuple(owners.labels),
        owners.codes,
        steps.owner,
        steps.starts,
        steps.durations,
        _steps.busy_inside(index, steps),
        warm_up,
        extents.ahead,
        host.starts,
        host.durations,
        pace_of(index, steps),
    )


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the statistics of the steps, each step, and their series. Raises: UsageError."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    owners = _owners.find(index)
    extents = _extents.step_extents(index, owners)
    steps = extents.steps
    if not steps.rows.size:
        nothing = tabulate.nothing(VIEW.name, _TITLE, "step", options, steps.notes)
        return Section(VIEW.name, _TITLE, notes=(nothing.notes[0], HINT, *nothing.notes[1:]))
    busy = _steps.busy_inside(index, steps)
    judged = {o: judge(steps.durations[at]) for o, at in rows_by(steps.owner)}
    marks = _marks(steps, judged)
    statistics = _statistics(extents, marks, busy, pace_of(index, steps), options)
    every = _every(index, extents, marks, busy, options)
    figures: tuple[Series | Heat, ...] = tuple(
        _series(index, steps, o, judged[o], marks) for o in list(judged)[:FIGURES]
    )
    over_ranks = heat(index, steps)
    figures = (over_ranks, *figures) if over_ranks else figures
    notes = [_of_the_device(extents, o) for o in extents.owners_ahead()]
    notes += [note for o in judged for note in _judgement(index, steps, o, judged[o])]
    if len(judged) > FIGURES:
        notes.append(f"only the first {FIGURES} of {len(judged):,} are drawn as bars")
    if steps.inner:
        notes.append(f"{plural(steps.inner, 'step')} inside another step skipped: the outer one counts them")
    made_up = np.isin(index.ints("source")[steps.rows], synthetic_sources(index))
    if made_up.any():
        notes.append("some inputs hold durations without starts: gaps and busy times of their steps mean nothing")
    notes += [*steps.notes, tabulate.PERCENTILE_NOTE, *tabulate.option_notes(options, every)]
    return Section(VIEW.name, _TITLE, (statistics, every), figures=figures, notes=tuple(notes))


def _marks(steps: Steps, judged: dict[int, Judged]) -> list[str]:
    """Return the mark of each step: "warm-up", "slow", "fast", or ""."""
    marks = np.full(steps.rows.size, "", dtype="<U8")
    for o, at in rows_by(steps.owner):
        judgement = judged[o]
        marks[at[: judgement.warm_up]] = "warm-up"
        slow = steps.durations[at] > judgement.high
        marks[at[judgement.outliers & slow]] = "slow"
        marks[at[judgement.outliers & ~slow]] = "fast"
    words: list[str] = marks.tolist()
    return words


def _of_the_device(extents: StepExtents, owner: int) -> str:
    """Return the note that the steps of an owner are those of the device."""
    at = np.flatnonzero(extents.host.owner == owner)
    taken, ranges = (nearest_rank(np.sort(steps.durations[at]), 50) for steps in (extents.steps, extents.host))
    return (
        f"{extents.host.owners.prefix(owner)}the host runs ahead, so a step is measured on the device: from the end of "
        f"the last work of the step before to the end of its own (median {format_span(taken)}); host ranges show how "
        f"fast the host launches (median {format_span(ranges)})"
    )


def _statistics(
    extents: StepExtents, marks: list[str], busy: tuple[int | None, ...], pace: Pace, options: ViewOptions
) -> ReportTable:
    """Return a row for all steps of each owner, and where some are warm-up one for these and one for the rest.

    Where the steps are those of the device, one more row has the host ranges.
    """
    steps = extents.steps
    warm = np.array([word == "warm-up" for word in marks], np.bool_)
    rows: list[tuple[int, str, I64]] = []
    for o, of_owner in rows_by(steps.owner):
        rows.append((o, "all", of_owner))
        if warm[of_owner].any():
            rows.append((o, "after warm-up", of_owner[~warm[of_owner]]))
            rows.append((o, "warm-up", of_owner[warm[of_owner]]))
        if extents.ahead[of_owner].any():
            rows.append((o, HOST, of_owner))
    codes = np.repeat(np.arange(len(rows)), [at.size for _, _, at in rows])
    durations = [(extents.host if which == HOST else steps).durations[at] for _, which, at in rows]
    try:
        times = grouped(codes, len(rows), np.concatenate(durations))
    except OverflowError as err:
        raise grouping.too_long() from err
    shares = [
        None if which == HOST else _share([busy[i] for i in at.tolist()], total)
        for (_, which, at), total in zip(rows, times.total, strict=True)
    ]
    columns = [
        *steps.owners.column([o for o, _, _ in rows]),
        _SHOWN["which"].column([which for _, which, _ in rows]),
        _SHOWN["steps"].column(times.calls.tolist()),
        Column("avg", "Mean", Unit.NS, times.mean.tolist(), 1),
        Column("std", "Std", Unit.NS, times.pstd.tolist(), 3),
        Column("min", "Min", Unit.NS, times.min.tolist(), 5),
        Column("p50", "P50", Unit.NS, times.percentile(50).tolist(), 0),
        Column("p95", "P95", Unit.NS, times.percentile(95).tolist(), 2),
        Column("p99", "P99", Unit.NS, times.percentile(99).tolist(), 4),
        Column("max", "Max", Unit.NS, times.max.tolist(), 3),
        _SHOWN["total"].column(times.total.tolist(), 4),
        Column("busy", "Device busy", Unit.RATIO, shares, 2),
        *_pace_columns(rows, pace),
    ]
    blocks: list[tuple[Cell, ...]] = [(o, place) for place, (o, _, _) in enumerate(rows)]
    return tabulate.finish("step_times", "Step times", columns, options, blocks=blocks, top_each=False)


def _pace_columns(rows: list[tuple[int, str, I64]], pace: Pace) -> list[Column]:
    """Return the columns of pitch and samples per second, where a row has one."""
    steps_at = [at if which != HOST else at[:0] for _, which, at in rows]
    pitches: list[Cell] = [pace.pitch(at) for at in steps_at]
    rates: list[Cell] = [None if (rate := pace.rate(at)) is None else round(rate, 6) for at in steps_at]
    columns = [_SHOWN["pitch"].column(pitches, 1), _SHOWN["samples_per_s"].column(rates, 1)]
    return [column for column in columns if any(cell is not None for cell in column.values)]


def _share(busy: Sequence[int | None], total: int) -> float | None:
    known = [ns for ns in busy if ns is not None]
    return sum(known) / int(total) if known and total else None


def _every(
    index: TraceIndex, extents: StepExtents, marks: list[str], busy: tuple[int | None, ...], options: ViewOptions
) -> ReportTable:
    events, steps = index.events, extents.steps
    names = arrow.take(events.column("name"), steps.rows).to_pylist()
    numbers = _numbers(index, steps)
    ends = steps.starts + steps.durations
    follows = np.flatnonzero(steps.owner[1:] == steps.owner[:-1]) + 1
    gap: list[Cell] = [None] * ends.size
    for place in follows.tolist():
        gap[place] = max(0, int(steps.starts[place]) - int(ends[place - 1]))
    times = steps.durations.tolist()
    shares = [b / t if b is not None and t else None for b, t in zip(busy, times, strict=True)]
    columns = [
        *steps.owners.column(steps.owner.tolist()),
        _SHOWN["step"].column(numbers),
        _SHOWN["start"].column(since_origin(index, steps.rows, steps.starts).tolist(), 3),
        _SHOWN["time"].column(times),
        *([_SHOWN["host_time"].column(extents.host.durations.tolist(), 2)] if extents.ahead.any() else []),
        _SHOWN["gap"].column(gap, 4),
        _SHOWN["busy_time"].column(busy, 3),
        _SHOWN["busy"].column(shares, 1),
        _SHOWN["said"].column([word or None for word in marks], 1),
        _SHOWN["name"].column(names, 5),
    ]
    if not any(marks):
        columns = [column for column in columns if column.name != "said"]
    if all(b is None for b in busy):
        columns = [column for column in columns if column.name not in ("busy", "busy_time")]
    blocks: list[tuple[Cell, ...]] = list(zip(steps.owner.tolist(), range(len(times)), strict=True))
    return tabulate.finish("steps", "Each step", columns, options, blocks=blocks, top_each=False)


def _numbers(index: TraceIndex, steps: Steps) -> list[Cell]:
    numbers: list[Cell] = arrow.take(index.events.column("step"), steps.rows).to_pylist()
    return numbers


def _label(index: TraceIndex, steps: Steps, place: int) -> str:
    number = index.events.column("step")[int(steps.rows[place])].as_py()
    return f"step {number}" if number is not None else f"step at place {place}"


def _series(index: TraceIndex, steps: Steps, owner: int, judged: Judged, marks: list[str]) -> Series:
    at = np.flatnonzero(steps.owner == owner)
    numbers = arrow.take(index.events.column("step"), steps.rows[at]).to_pylist()
    return Series(
        f"Step time{f', {steps.owners.labels[owner]}' if len(steps.owners) > 1 else ''}",
        Unit.NS,
        [f"step {i if number is None else number}" for i, number in enumerate(numbers)],
        steps.durations[at].tolist(),
        levels=(("median", judged.median),) if at.size > 1 else (),
        marks=tuple((i, marks[place]) for i, place in enumerate(at.tolist()) if marks[place]),
    )


def _judgement(index: TraceIndex, steps: Steps, owner: int, judged: Judged) -> list[str]:
    at = np.flatnonzero(steps.owner == owner)
    who = steps.owners.prefix(owner)
    if not judged.known:
        few = f"{plural(at.size, 'step')}, too few to tell warm-up and outliers (at least {RULE.least_values})"
        return [who + few]
    notes = []
    if judged.warm_up:
        longest = int(steps.durations[at[: judged.warm_up]].max())
        first = "the first step is" if judged.warm_up == 1 else f"the first {judged.warm_up:,} steps are"
        notes.append(
            f"{who}{first} warm-up: up to {format_span(longest)}, with a median of "
            f"{format_span(judged.median)} after it"
        )
    outliers = at[judged.outliers].tolist()
    if outliers:
        most = sorted(outliers, key=lambda place: -abs(int(steps.durations[place]) - judged.median))[:NAMED]
        words = [f"{_label(index, steps, p)} ({format_span(int(steps.durations[p]))})" for p in sorted(most)]
        more = f" and {len(outliers) - NAMED:,} more" if len(outliers) > NAMED else ""
        limits = f"beyond {format_span(judged.low)} to {format_span(judged.high)}"
        notes.append(f"{who}{plural(len(outliers), 'outlier')}, {limits}: {', '.join(words)}{more}")
    return notes


def _define(index: TraceIndex, _: ViewOptions, row: Mapping[str, Cell], column: str) -> Quantity | None:
    """Define the cells of both tables."""
    if row and row.get(column) is None:
        return None
    owners = _owners.find(index)
    extents = _extents.step_extents(index, owners)
    steps = extents.steps
    chosen = np.ones(steps.rows.size, np.bool_)
    if "owner" in row:
        chosen &= np.array([owners.labels[o] == row["owner"] for o in steps.owner.tolist()], np.bool_)
    if row.get("which") in ("after warm-up", "warm-up"):
        judged = {o: judge(steps.durations[at]) for o, at in rows_by(steps.owner)}
        warm = np.array([word == "warm-up" for word in _marks(steps, judged)], np.bool_)
        chosen &= warm == (row["which"] == "warm-up")
    if "start" in row:  # the table of each step
        starts = since_origin(index, steps.rows, steps.starts)
        chosen &= (starts == row["start"]) & (steps.durations == row.get("time"))
        chosen &= np.array([cell == row.get("step") for cell in _numbers(index, steps)], np.bool_)
        chosen &= np.arange(chosen.size) == np.argmax(chosen)
    which = {"after warm-up": "steps after warm-up", "warm-up": "warm-up steps"}.get(str(row.get("which")), "steps")
    one = f"step {row['step']}" if row.get("step") is not None else "the step" if "start" in row else f"the {which}"
    if row.get("which") == HOST or column == "host_time":
        steps, one = extents.host, f"{one}, host range" if "start" in row else HOST
    times = _of_steps(index, steps, chosen, "sum", f"sum of the durations of {one}")
    if column in ("total", "time", "host_time"):
        return times
    if column == "steps":
        return _of_steps(index, steps, chosen, "count", f"number of {which}")
    if measure := specs.measures(specs.STATISTICS).get(column):
        return _of_steps(index, steps, chosen, measure, f"{measure} of the durations of {one}")
    if column in ("busy", "busy_time"):
        return _busy_quantity(index, steps, np.flatnonzero(chosen), times, column, one)
    return None


def _of_steps(index: TraceIndex, steps: Steps, chosen: Mask, measure: str, words: str) -> Quantity:
    """Return a quantity of the times of these steps, which may be those of the device."""
    at = np.flatnonzero(chosen)
    at = at[np.argsort(steps.rows[at], kind="stable")]
    rows, clocks = steps.rows[at], by_clock(index).codes[steps.rows[at]]
    return Quantity(words, measure, rows, steps.starts[at], steps.starts[at] + steps.durations[at], clocks, clocks)


def _busy_quantity(index: TraceIndex, steps: Steps, at: I64, times: Quantity, column: str, one: str) -> Quantity | None:
    """Return the device time in the steps at these places. A lane is a step: work that runs on counts in both."""
    work = index.pick(DEVICE_WORK)
    owner = steps.owners.codes[work.rows]
    if not np.isin(steps.owner[at], owner).all():
        return None
    pieces = []
    for place in at.tolist():
        begin = int(steps.starts[place])
        end = begin + int(steps.durations[place])
        inside = np.flatnonzero(
            (owner == steps.owner[place]) & (work.starts < end) & (work.starts + work.durations > begin)
        )
        low = np.maximum(work.starts[inside], begin)
        high = np.minimum(work.starts[inside] + work.durations[inside], end)
        pieces.append((work.rows[inside], low, high, np.full(inside.size, place)))
    none = (np.zeros(0, np.int64),) * 4
    rows, starts, ends, lanes = (np.concatenate(parts) for parts in zip(none, *pieces, strict=True))
    words = f"time with at least one kernel, copy or memset within {one}"
    busy = Quantity(words, "union", rows, starts, ends, lanes, by_clock(index).codes[rows])
    return busy if column == "busy_time" else ratio(busy, times, f"{busy.words} / {times.words}")


_SHOWS = (
    *specs.OWNER,
    *specs.SPREAD,
    ViewColumn("which", "Which", Unit.TEXT, "The steps of the row: all, warm-up or steady, or the host ranges."),
    ViewColumn("steps", "Steps", Unit.COUNT, "The number of steps."),
    ViewColumn("total", "Total", Unit.NS, "The sum of the step times."),
    ViewColumn("pitch", "Pitch", Unit.NS, "The median time from the start of a step to that of the next one."),
    ViewColumn("samples_per_s", "Samples/s", Unit.NUMBER, "The median of a step's samples by its pitch."),
    ViewColumn("busy", "Busy", Unit.RATIO, "The device time in the steps, as a share of the step time."),
    ViewColumn("step", "Step", Unit.ID, "The number of the step."),
    ViewColumn("name", "Name", Unit.TEXT, "The name of the step."),
    ViewColumn("start", "Start", Unit.NS, "The start of the step, after the first event of the trace."),
    ViewColumn("time", "Time", Unit.NS, "The time of the step: on the device, where the host runs ahead."),
    ViewColumn("host_time", "Host range", Unit.NS, "The time in which the host launches the step, if it runs ahead."),
    ViewColumn("gap", "Gap before", Unit.NS, "The time since the end of the step before."),
    ViewColumn("busy_time", "Device busy", Unit.NS, "The union of the device work of the same rank in the step."),
    ViewColumn("said", "Stands out", Unit.TEXT, "A mark for warm-up steps and outliers.", "remark"),
)
_SHOWN = specs.by_key(_SHOWS)

VIEW = View(
    name="steps",
    title=_TITLE,
    columns=_COLUMNS | {"args"},
    kinds=frozenset({Kind.STEP}),
    compute=compute,
    define=_define,
    shows=_SHOWS,
    args_of=frozenset({Kind.STEP}),
    pictures=(
        Picture(
            "stack",
            "What each step is made of",
            "breakdown.steps",
            ("compute", "exposed_comm", "exposed_copies", "idle"),
            DEVICE_NAMES,
            "step",
        ),
        Picture("multiples", "Step time of each rank", "steps.steps", ("time",), ("owner",), "step", LATE),
    ),
)

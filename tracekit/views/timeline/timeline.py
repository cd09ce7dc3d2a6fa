"""timeline: all rows with a duration as rectangles on lanes, and the time of the devices in parts.

At most 50,000 rectangles are drawn. Where there are more, each line of the picture is cut into equal parts of the span:
the longest row that begins in each part is kept, then the longest of the other rows. So a busy lane looks busy. The
picture begins at time 0 of the tables: with the first event, also if that one has no duration and is not drawn. A note
counts the rows that are not drawn. Lanes and levels are limited too: the 60 busiest lanes (at least half of them are
devices or host where there are enough), and 8 levels of nesting, fewer where there are many lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tracekit.analysis.intervals import I64, union_length_by
from tracekit.analysis.lanes import LaneAssigner
from tracekit.analysis.nesting import nest
from tracekit.index import grouping
from tracekit.index import lanes as _lanes
from tracekit.index.clocks import by_clock, origins
from tracekit.index.sources import source_label, source_labels, spans, synthetic_sources
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Lane, Section, Timeline
from tracekit.units import MAX_NS
from tracekit.views import tabulate
from tracekit.views.base import View, ViewOptions
from tracekit.views.timeline._device_time import device_time

MOST_RECTANGLES = 50_000
MOST_LANES = 60
MOST_LEVELS = 8
MOST_LINES = 160
"""Levels of all lanes together: with more, each would be too thin to see."""

UNNAMED = "(no name)"

_TITLE = "Timeline"
_COLUMNS = frozenset({"ts_ns", "dur_ns", "name"}) | _lanes.COLUMNS


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Rows of EVENTS in the picture; all arrays of shape (n,).

    starts: ns after the picture's begin; levels: line of the lane, 0 on top.
    """

    rows: I64
    starts: I64
    durations: I64
    lanes: _lanes.Lanes
    levels: I64

    def take(self, positions: I64) -> _Drawn:
        return _Drawn(
            self.rows[positions],
            self.starts[positions],
            self.durations[positions],
            replace(self.lanes, codes=self.lanes.codes[positions]),
            self.levels[positions],
        )


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the timeline, with the time of the devices as bars where devices worked. Raises: UsageError."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    notes = _option_notes(options)
    timed = index.has("dur_ns")
    untimed_note = _untimed(index, np.flatnonzero(~timed))
    rows = np.flatnonzero(timed)
    if not rows.size:
        if index.totals.num_rows:
            untimed_note.append("totals say how long things took, not when: there is no timeline of them")
        needs = "needs events with a duration; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *untimed_note, *notes))
    starts = index.starts[rows]
    durations = index.ints("dur_ns")[rows]
    negative = int(np.count_nonzero(durations < 0))
    if negative:
        notes.append(f"{negative:,} {'row has' if negative == 1 else 'rows have'} a duration below zero, drawn as 0")
    durations = np.maximum(durations, 0)

    far = "the rows lie more than 146 years apart, so no picture is drawn; --time A:B leaves out what cannot be true"
    if max(-int(index.starts.min()), int(starts.max()), int(durations.max())) > MAX_NS:
        return Section(VIEW.name, _TITLE, notes=(far, *untimed_note, *notes))

    durations = np.minimum(durations, grouping.INT64_MAX - np.maximum(starts, 0))  # an end beyond int64 is its last ns
    clock = by_clock(index)
    clocks = clock.codes[rows]
    first, last = origins(index), spans(clocks, clock.count, starts, starts + durations)[1]
    # Inputs without a common clock each begin at 0; else nothing moves.
    shift = first if clock.count > 1 else np.zeros(1, np.int64)
    present = np.unique(clocks)
    begin = min(int(first[c]) - int(shift[c]) for c in present)
    end = max(int(last[c]) - int(shift[c]) for c in present)
    if end - begin >= MAX_NS:
        return Section(VIEW.name, _TITLE, notes=(far, *untimed_note, *notes))
    starts = starts - (shift + begin)[clocks]

    drawn, left_out = _laid_out(index, rows, starts, durations)
    drawn, thinned = thin(drawn, end - begin)
    limits = [thinned.format(total=rows.size)] if thinned else []
    if left_out and not thinned:
        limits.append(f"{drawn.rows.size:,} of {rows.size:,} rectangles are drawn")
    work = device_time(index, clock.codes, shift, begin, end)
    figure = _figure(index, drawn, begin, end, rows.size, "; ".join([*limits, *left_out]), work.utilization)
    notes = [*untimed_note, *work.notes, *_clock_notes(index, rows, present.size), *notes]
    return Section(VIEW.name, _TITLE, figures=(*work.bars, figure), notes=tuple(notes))


def _option_notes(options: ViewOptions) -> list[str]:
    notes = tabulate.option_notes(options)
    if options.sorted_by or options.top:
        notes.append("a timeline is in the order of time and whole: --sort and --top change nothing here")
    return notes


def _untimed(index: TraceIndex, rows: I64) -> list[str]:
    """Return a sentence that counts the rows without a duration by kind."""
    if not rows.size:
        return []
    codes, kinds = index.texts("kind")
    counts = np.bincount(codes[rows], minlength=len(kinds)).tolist()
    found = sorted((-count, kind) for kind, count in zip(kinds, counts, strict=True) if count)
    words = ", ".join(f"{-count:,} {kind}" for count, kind in found)
    return [f"not drawn, for they have no duration: {words}"]


def _laid_out(index: TraceIndex, rows: I64, starts: I64, durations: I64) -> tuple[_Drawn, list[str]]:
    """Return the rows on the lanes that are shown, each with its level, and sentences on what is not shown."""
    if (starts[1:] < starts[:-1]).any():  # clocks were shifted
        order = np.lexsort((-durations, starts))
        rows, starts, durations = rows[order], starts[order], durations[order]
    lanes = _lanes.find(index, rows)
    kept, words = _busiest(lanes, starts, durations)
    if words:
        lanes, positions = _lanes.keep(lanes, kept)
        words = [f"{words[0]} ({rows.size - positions.size:,} rectangles are on the others)"]
        rows, starts, durations = rows[positions], starts[positions], durations[positions]
    levels = _levels(lanes, starts, durations)
    drawn = _Drawn(rows, starts, durations, lanes, levels)
    depth = np.zeros(len(lanes), np.int64)
    np.maximum.at(depth, lanes.codes, levels + 1)
    most = MOST_LEVELS
    while most > 1 and int(np.minimum(depth, most).sum()) > MOST_LINES:
        most -= 1
    shown = levels < most
    if (deeper := int(np.count_nonzero(~shown))) == 0:
        return drawn, words
    what = f"{deeper:,} {'lies' if deeper == 1 else 'lie'} deeper than {most} {'level' if most == 1 else 'levels'}"
    return drawn.take(np.flatnonzero(shown)), [*words, what]


def _busiest(lanes: _lanes.Lanes, starts: I64, durations: I64) -> tuple[I64, list[str]]:
    """Return the lanes to show, ascending, and a sentence when these are not all: longest union first, then order."""
    if len(lanes) <= MOST_LANES:
        return np.arange(len(lanes)), []
    busy = union_length_by(lanes.codes, len(lanes), starts, starts + durations)
    best = np.lexsort((np.arange(len(lanes)), -busy))
    side = np.array([p.on_device for p in lanes.places], np.bool_)[best]
    half = MOST_LANES // 2
    devices = min(int(side.sum()), max(half, MOST_LANES - int((~side).sum())))
    kept = np.sort(np.concatenate((best[side][:devices], best[~side][: MOST_LANES - devices])))
    words = [
        f"{shown} of {count:,} {what} lanes"
        for what, shown, count in (
            ("device", devices, int(side.sum())),
            ("host", MOST_LANES - devices, int((~side).sum())),
        )
        if shown < count
    ]
    return kept, [f"the busiest {' and '.join(words)} are shown"]


def _levels(lanes: _lanes.Lanes, starts: I64, durations: I64) -> I64:
    """Return the level of each row on its lane: depth of nesting; rows that overlap in part are on levels below."""
    extra = LaneAssigner().assign(lanes.codes, starts, durations)
    tracks = int(extra.max()) + 1
    track = lanes.codes * tracks + extra
    depth = nest(track, starts, starts + durations).depth
    height = np.zeros(len(lanes) * tracks, np.int64)
    np.maximum.at(height, track, depth + 1)
    by_lane = height.reshape(len(lanes), tracks)
    above = np.cumsum(by_lane, axis=1) - by_lane
    levels: I64 = depth + above.ravel()[track]
    return levels


def thin(drawn: _Drawn, span: int) -> tuple[_Drawn, str]:
    """Return at most MOST_RECTANGLES rows in their order, and a sentence on the choice ("" when all are kept)."""
    count = drawn.rows.size
    if count <= MOST_RECTANGLES:
        return drawn, ""
    line = drawn.lanes.codes * MOST_LINES + drawn.levels
    lines = np.unique(line, return_inverse=True)[1]
    bins = MOST_RECTANGLES // (int(lines.max()) + 1)
    width = max(1, -(-span // bins))
    # A row that begins at the very end has no part of its own.
    cell = lines * bins + np.minimum(drawn.starts // width, bins - 1)
    by_length = np.argsort(-drawn.durations, kind="stable")
    firsts = np.unique(cell[by_length], return_index=True)[1]
    chosen = np.zeros(count, np.bool_)
    chosen[by_length[firsts]] = True
    others = by_length[~chosen[by_length]]
    chosen[others[: MOST_RECTANGLES - firsts.size]] = True
    words = (
        f"{MOST_RECTANGLES:,} of {{total:,}} rectangles are drawn: on each line the longest that begins in each of "
        f"{bins:,} equal parts of the span, then the longest of the others"
    )
    return drawn.take(np.flatnonzero(chosen)), words


def _figure(
    index: TraceIndex,
    drawn: _Drawn,
    begin: int,
    end: int,
    total: int,
    words: str,
    utilization: tuple[tuple[str, list[float]], ...],
) -> Timeline:
    names, name = _texts(index, "name", drawn.rows)
    kinds, kind = _texts(index, "kind", drawn.rows)
    depth = np.ones(len(drawn.lanes), np.int64)
    np.maximum.at(depth, drawn.lanes.codes, drawn.levels + 1)
    lanes = zip(drawn.lanes.labels, drawn.lanes.groups, depth.tolist(), strict=True)
    return Timeline(
        lanes=tuple(Lane(*lane) for lane in lanes),
        names=names,
        kinds=kinds,
        lane=drawn.lanes.codes.tolist(),
        level=drawn.levels.tolist(),
        start_ns=drawn.starts.tolist(),
        dur_ns=drawn.durations.tolist(),
        kind=kind,
        name=name,
        begin_ns=begin,
        end_ns=end,
        total=total,
        thinning=words,
        utilization=utilization,
    )


def _texts(index: TraceIndex, column: str, rows: I64) -> tuple[tuple[str, ...], list[int]]:
    """Return the texts that occur in these rows, in order of the dictionary, and the number of each row's text."""
    codes, texts = index.texts(column)
    found, numbers = np.unique(codes[rows], return_inverse=True)
    return tuple(texts[i] if i >= 0 else UNNAMED for i in found.tolist()), numbers.tolist()


def _clock_notes(index: TraceIndex, rows: I64, clocks: int) -> list[str]:
    notes = []
    if clocks > 1:
        notes.append("inputs or runs that share no clock: each begins at 0; their positions cannot be compared")
    sources = index.ints("source")[rows]
    if made_up := [number for number in synthetic_sources(index) if (sources == number).any()]:
        labels = source_labels(index)
        who = ", ".join(source_label(labels, number) for number in made_up[:3]) + (" ..." if len(made_up) > 3 else "")
        notes.append(
            f"{who}: the file has durations alone; they are laid end to end, so gaps and overlaps mean nothing"
        )
    return notes


VIEW = View(name="timeline", title=_TITLE, columns=_COLUMNS, kinds=frozenset(), compute=compute)

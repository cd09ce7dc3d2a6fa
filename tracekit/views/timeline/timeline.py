"""timeline: every event on its lane, and the time of the devices in parts.

The picture begins at time 0 of the tables: with the first event, also if that one has no duration. Events without a
duration are on lanes of their own, arrows and counters beside the lanes: every row of EVENTS is in the picture.
"""

from __future__ import annotations

import numpy as np

from tracekit.columns.arrays import I64, Rows
from tracekit.columns.arrow import Chunked
from tracekit.index import lanes as _lanes
from tracekit.index import launches as _launches
from tracekit.index.clocks import by_clock, origins
from tracekit.index.grouping import plural
from tracekit.index.kernel_classes import communicates
from tracekit.index.sources import source_label, source_labels, spans, synthetic_sources
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Section
from tracekit.report.timeline import COMMUNICATION, Argument, LaneEvents, Timeline
from tracekit.schema import Kind, describe
from tracekit.views import tabulate
from tracekit.views.base import View, ViewOptions
from tracekit.views.timeline import _arrows, _counters
from tracekit.views.timeline._device_time import device_time
from tracekit.views.timeline._layout import lay_out

UNNAMED = "(no name)"
LONGEST = 1 << 53
"""The most ns that a picture spans: the scripts of a page compute with floats."""
MOST_STEPS = 5_000
"""Steps with a mark of their own above the lanes; they have lanes too, where each one is."""

_TITLE = "Timeline"
_ARGS = (
    "raw_name", "step", "correlation", "copy_kind", "bytes", "grid_x", "grid_y", "grid_z", "block_x", "block_y",
    "block_z", "registers", "static_smem_bytes", "dynamic_smem_bytes",
)  # fmt: skip
"""Columns of EVENTS that are shown for a selected event."""
_COLUMNS = (
    frozenset({"ts_ns", "dur_ns", "name", "event_id", "value", "args", *_ARGS}) | _lanes.COLUMNS | _launches.COLUMNS
)
_BESIDE = frozenset({Kind.COUNTER, Kind.FLOW})
"""Kinds that are not on lanes."""


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the timeline, with the time of the devices as bars where devices worked. Raises: UsageError."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    notes = _option_notes(options)
    timed = index.has("dur_ns")
    shown = timed | ~index.kind_mask(_BESIDE)
    untimed_note = _untimed(index, np.flatnonzero(shown & ~timed))
    if not timed.any():
        if index.totals.num_rows:
            untimed_note.append("totals say how long things took, not when: there is no timeline of them")
        needs = "needs events with a duration; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *untimed_note, *notes))
    negative = int(np.count_nonzero(index.ints("dur_ns") < 0))
    if negative:
        notes.append(f"{negative:,} {'row has' if negative == 1 else 'rows have'} a duration below zero, drawn as 0")

    clock = by_clock(index)
    far = "the rows lie more than 104 days apart, so no picture is drawn; --time A:B leaves out what cannot be true"
    if max(-int(index.starts.min()), int(index.starts.max()), int(index.lengths.max())) > 1 << 62:
        return Section(VIEW.name, _TITLE, notes=(far, *untimed_note, *notes))
    first, last = origins(index), spans(clock.codes, clock.count, index.starts, index.starts + index.lengths)[1]
    # Inputs without a common clock each begin at 0; else nothing moves.
    shift = first if clock.count > 1 else np.zeros(1, np.int64)
    begin, end = int((first - shift).min()), int((last - shift).max())
    if end - begin >= LONGEST:
        return Section(VIEW.name, _TITLE, notes=(far, *untimed_note, *notes))
    work = device_time(index, clock.codes, shift, begin, end)
    figure, more = _figure(index, np.flatnonzero(shown), shift, begin, end, work.utilization)
    notes = [*untimed_note, *work.notes, *more, *_clock_notes(index, clock.count), *notes]
    return Section(VIEW.name, _TITLE, figures=(*work.bars, figure), notes=tuple(notes))


def _option_notes(options: ViewOptions) -> list[str]:
    notes = tabulate.option_notes(options)
    if options.sorted_by or options.top:
        notes.append("the timeline is complete and in order of time: --sort and --top have no effect")
    return notes


def _untimed(index: TraceIndex, rows: I64) -> list[str]:
    """Return a sentence that counts the rows without a duration by kind."""
    if not rows.size:
        return []
    codes, kinds = index.texts("kind")
    counts = np.bincount(codes[rows], minlength=len(kinds)).tolist()
    found = sorted((-count, kind) for kind, count in zip(kinds, counts, strict=True) if count)
    words = ", ".join(f"{-count:,} {kind}" for count, kind in found)
    return [f"shown as instants, since they have no duration: {words}"]


def _figure(
    index: TraceIndex,
    rows: Rows,
    shift: I64,
    begin: int,
    end: int,
    utilization: tuple[tuple[str, list[float]], ...],
) -> tuple[Timeline, list[str]]:
    layout = lay_out(index, rows, index.starts, index.lengths)
    clocks = by_clock(index).codes
    names, name_texts = index.texts("name")
    kinds, kind_texts = index.texts("kind")
    # Pairs of name and kind, the most frequent first: their numbers then take a byte each in most of the page.
    width = max(len(kind_texts), 1)
    pairs = names[rows].astype(np.int64)
    pairs += 1
    pairs *= width
    pairs += kinds[rows]
    counts = np.bincount(pairs, minlength=(len(name_texts) + 1) * width)
    del pairs
    used = np.flatnonzero(counts)
    used = used[np.argsort(-counts[used], kind="stable")]
    code_of = np.full(counts.size, -1, np.int32)
    code_of[used] = np.arange(used.size, dtype=np.int32)
    present, kind_of = np.unique(_classes(index, used, width), return_inverse=True)
    events = LaneEvents(
        order=layout.order,
        first=layout.first,
        starts=index.starts,
        lengths=index.lengths,
        names=names,
        kinds=kinds,
        kind_count=width,
        code_of=code_of,
        clocks=clocks,
        shift=shift + begin,
        ids=index.ints("event_id"),
    )
    launches = _arrows.launch_places(index, events)
    sources, targets, lost = _arrows.flow_places(index, events, launches)
    points = plural("flow event", lost)
    notes = [f"not drawn: {points} of the input without a partner, or without an event at its time"] if lost else []
    figure = Timeline(
        lanes=layout.lanes,
        names=[name_texts[name - 1] if name else UNNAMED for name in (used // width).tolist()],
        kind_of=kind_of.tolist(),
        kinds=tuple(kind_texts[kind] if kind < width else COMMUNICATION for kind in present.tolist()),
        events=events,
        begin_ns=begin,
        end_ns=end,
        launches=launches,
        flows=(sources, targets),
        steps=_steps(index, events),
        counters=_counters.tracks(index, shift + begin),
        utilization=utilization,
        args=_arguments(index),
        members=_members(index),
    )
    return figure, notes


def _classes(index: TraceIndex, pairs: I64, width: int) -> I64:
    """Return the code of the kind of each pair of name and kind; `width` for kernels that communicate."""
    kernels = np.flatnonzero(index.kind_mask({Kind.KERNEL}))
    rows = kernels[communicates(index, kernels)]
    own = np.unique((index.texts("name")[0][rows].astype(np.int64) + 1) * width + index.texts("kind")[0][rows])
    return np.where(np.isin(pairs, own), width, pairs % width)


def _arguments(index: TraceIndex) -> tuple[Argument, ...]:
    units = {spec.name: spec.unit for spec in describe("events")}
    columns = ((key, index.events.column(key)) for key in _ARGS)
    return tuple(Argument(key, units[key], column) for key, column in columns if column.null_count < len(column))


def _members(index: TraceIndex) -> Chunked | None:
    column = index.events.column("args")
    return column if column.null_count < len(column) else None


def _steps(index: TraceIndex, events: LaneEvents) -> tuple[tuple[int, int, str], ...]:
    """Return start, length and name of each step; the same step of several threads is one."""
    rows = index.pick({Kind.STEP}).rows
    codes, texts = index.texts("name")
    starts = index.starts[rows] - events.shift[events.clocks[rows]]
    named = (texts[code] if code >= 0 else UNNAMED for code in codes[rows].tolist())
    found = sorted(set(zip(starts.tolist(), index.lengths[rows].tolist(), named, strict=True)))
    return tuple(found[:MOST_STEPS])


def _clock_notes(index: TraceIndex, clocks: int) -> list[str]:
    notes = []
    if clocks > 1:
        notes.append("inputs or runs that share no clock: each begins at 0; their positions cannot be compared")
    sources = index.ints("source")
    if made_up := [number for number in synthetic_sources(index) if (sources == number).any()]:
        labels = source_labels(index)
        who = ", ".join(source_label(labels, number) for number in made_up[:3]) + (" ..." if len(made_up) > 3 else "")
        notes.append(f"{who}: the file has only durations; they are laid end to end, so gaps and overlaps mean nothing")
    return notes


VIEW = View(name="timeline", title=_TITLE, columns=_COLUMNS, kinds=frozenset(), compute=compute)

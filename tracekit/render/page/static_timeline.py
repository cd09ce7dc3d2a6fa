"""The picture of a timeline for print and for pages without JavaScript: how busy each lane was over time, as SVG.

A row is a lane, or where there are many all lanes of a device or process together. Each column has the exact share of
its time in which the row was busy, and the colour of the kind with most of that time. One with work is never empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tracekit.analysis.intervals import coverage, merge
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.display import escape_controls, plural, shown_name
from tracekit.model.names import short_names
from tracekit.model.timeline import Timeline, TimelineLane
from tracekit.model.units import percent, short_span
from tracekit.render.palette import color_of

__all__ = ["HEIGHT", "MOST_CHARACTERS", "MOST_ROWS", "Still", "still"]

COLUMNS = 240
"""Columns of a picture. One that would be too large has fewer."""
HEIGHT = 20
"""Units of height of a row: shares are rounded to one of them."""
MOST_ROWS = 20
MOST_CHARACTERS = 13_000
"""Characters of all paths of a picture."""
LEAST_COLUMNS = 30
_MOST_STEPS = 400
_NAMED_STEPS = 12
_LABEL = 32
_TICKS = 4
_SCALE = 1200
_BUSY_LAYERS = (frozenset({"operators", "calls"}), frozenset({"python"}))


@dataclass(frozen=True, slots=True)
class StillRow:
    """A row: its label, its busy share of the whole span in percent, and a path for each colour.

    heading: the group of lanes that begins with it, "" for none.
    """

    heading: str
    label: str
    share: str
    paths: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Still:
    """A picture. width: the columns. bands: paths of the odd and the even steps.

    band_names: left and width in percent, name. more: lanes that are not shown, "" for none. legend: (kind, colour).
    """

    width: int
    rows: tuple[StillRow, ...]
    bands_title: str
    bands: tuple[str, ...]
    band_names: tuple[tuple[str, str, str], ...]
    ticks: tuple[str, ...]
    more: str
    legend: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Busy:
    """starts, ends: of the events of a row, ns; kinds: their numbers."""

    heading: str
    label: str
    starts: I64
    ends: I64
    kinds: I64


def still(figure: Timeline) -> Still | None:
    """Return the picture of a timeline, None for one without lanes of events with a duration."""
    sources, hidden = _sources(figure)
    if not sources:
        return None
    before = np.cumsum([0, *(lane.depth for lane in figure.lanes)]).tolist()
    rows = [_busy(figure, before, *source) for source in sources]
    span = max(figure.end_ns - figure.begin_ns, 1)
    width = min(COLUMNS, span)
    made = _rows(figure, rows, span, width)
    while sum(len(path) for row in made for _, path in row.paths) > MOST_CHARACTERS and width > LEAST_COLUMNS:
        width = max(width * 3 // 4, LEAST_COLUMNS)
        made = _rows(figure, rows, span, width)
    used = {color for row in made for color, _ in row.paths}
    colors = [
        (escape_controls(kind).replace("_", " "), color_of(kind, place)) for place, kind in enumerate(figure.kinds)
    ]
    return Still(
        width,
        made,
        "steps",
        *_steps(figure, span),
        tuple(short_span(span * tick // _TICKS) if tick else "0" for tick in range(_TICKS + 1)),
        f"{plural(hidden, 'more lane')} not drawn" if hidden else "",
        tuple((kind, color) for kind, color in colors if color in used),
    )


def _sources(figure: Timeline) -> tuple[list[tuple[str, str, list[int]]], int]:
    """Return heading, label and lanes of each row, and how many lanes have none."""
    lanes = [number for number, lane in enumerate(figure.lanes) if not (lane.overlay or lane.instants)]
    if len(lanes) <= MOST_ROWS:
        labels = short_names([shown_name(figure.lanes[number].label) for number in lanes], _LABEL)
        headings = [escape_controls(figure.lanes[number].group) for number in lanes]
        begins = [i == 0 or headings[i - 1] != heading for i, heading in enumerate(headings)]
        shown = (heading if begin else "" for heading, begin in zip(headings, begins, strict=True))
        return [(word, label, [number]) for word, label, number in zip(shown, labels, lanes, strict=True)], 0
    groups: dict[str, list[int]] = {}
    for number in lanes:
        lane = figure.lanes[number]
        groups.setdefault(f"{lane.group} {'streams' if lane.on_device else 'threads'}".lstrip(), []).append(number)
    # Devices first: what they did is the question, and what is not drawn comes last.
    order = sorted(groups, key=lambda word: not figure.lanes[groups[word][0]].on_device)
    labels = short_names(list(map(escape_controls, order[:MOST_ROWS])), _LABEL)
    found = [("", label, groups[word]) for word, label in zip(order, labels, strict=False)]
    return found, sum(len(groups[word]) for word in order[MOST_ROWS:])


def _busy(figure: Timeline, before: Sequence[int], heading: str, label: str, lanes: Sequence[int]) -> _Busy:
    """Return the events of lanes of which every other one is a part: the outermost row of each layer that is work.

    before: the first row of each lane.
    """
    events = figure.events
    places = [np.zeros(0, np.int64)]
    for number in lanes:
        for row, count in _rows_of(figure.lanes[number], before[number]):
            places.append(np.arange(events.first[row], events.first[row + count]))
    mine = np.concatenate(places)
    starts = events.starts_at(mine)
    kinds = np.asarray(figure.kind_of, np.int64)[events.codes_at(mine)]
    return _Busy(heading, label, starts, starts + events.lengths_at(mine), kinds)


def _rows_of(lane: TimelineLane, row: int) -> Iterator[tuple[int, int]]:
    """Yield the rows of a lane that hold all of its work, which steps and user ranges are if there is no other.

    row: the lane's first. Rows that follow each other are one item: the first of them, and how many they are.
    """
    words = {word for word, _ in lane.layers}
    wanted = next((layers for layers in _BUSY_LAYERS if layers & words), words)
    for word, depth in lane.layers:
        if word in wanted:
            yield row, depth if lane.overlaps else min(depth, 1)
        row += depth


def _rows(figure: Timeline, rows: Sequence[_Busy], span: int, width: int) -> tuple[StillRow, ...]:
    edges = np.array([span * column // width for column in range(width + 1)], np.int64)
    return tuple(_row(figure, row, edges, span) for row in rows)


def _row(figure: Timeline, row: _Busy, edges: I64, span: int) -> StillRow:
    whole = coverage(*merge(row.starts, row.ends), edges)
    weights = np.zeros((len(figure.kinds), whole.size))
    present = np.flatnonzero(np.bincount(row.kinds, minlength=1))
    for kind in present.tolist():
        starts, ends = row.starts, row.ends
        if present.size > 1:
            mine = row.kinds == kind
            starts, ends = starts[mine], ends[mine]
        weights[kind] = coverage(*merge(starts, ends), edges) if present.size > 1 else whole
        instants = starts[starts == ends]  # work without length is work too
        weights[kind, np.clip(np.searchsorted(edges, instants, "right") - 1, 0, whole.size - 1)] += 0.25
    heights = np.rint(HEIGHT * whole / np.diff(edges)).astype(np.int64)
    heights = np.where(weights.any(axis=0), np.maximum(heights, 1), 0)
    kinds = np.where(heights > 0, weights.argmax(axis=0), -1)
    paths = tuple(
        (color_of(figure.kinds[kind], kind), _path(np.where(kinds == kind, heights, 0)))
        for kind in sets.unique(kinds[kinds >= 0]).tolist()
    )
    return StillRow(row.heading, row.label, percent(int(whole.sum()), span), paths)


def _path(heights: I64) -> str:
    """Return the outline of columns as an SVG path; columns of height 0 are not in it."""
    begins = np.flatnonzero(np.diff(heights, prepend=-1))
    runs = zip(begins.tolist(), np.diff(begins, append=heights.size).tolist(), heights[begins].tolist(), strict=True)
    path, before = [], 0
    for begin, count, height in runs:
        if height and not before:
            path.append(f"M{begin} {HEIGHT}")
        if height != before:
            path.append(f"v{before - height}")
        if height:
            path.append(f"h{count}")
        before = height
    return "".join([*path, f"v{before}"] if before else path)


def _steps(figure: Timeline, span: int) -> tuple[tuple[str, ...], tuple[tuple[str, str, str], ...]]:
    """Return the bands of the steps; where ranks have steps at the same time, those of the first."""
    shown: list[tuple[int, int, str]] = []
    for start, length, name in figure.steps:
        if not shown or start >= shown[-1][0] + shown[-1][1]:
            shown.append((start, length, name))
    if not shown or len(shown) > _MOST_STEPS:
        return (), ()
    bands: tuple[list[str], list[str]] = ([], [])
    for number, (start, length, _) in enumerate(shown):
        left = _SCALE * start // span
        wide = max(_SCALE * (start + length) // span - left, 1)
        bands[number % 2].append(f"M{left} 0h{wide}v9h-{wide}z")
    named = shown if len(shown) <= _NAMED_STEPS else []
    names = [
        (f"{100 * start / span:.2f}", f"{100 * length / span:.2f}", shown_name(name)) for start, length, name in named
    ]
    return tuple("".join(band) for band in bands if band), tuple(names)

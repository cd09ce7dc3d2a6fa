"""A timeline as data of the page: a head as JSON, and columns in parts that timeline.js decodes.

Times are whole units after the begin, of 1 ns, or of 1000 where every time is a multiple. Events come by place, in
chunks: the gap from the end of the event before on the same row (of a row's first event: its start), duration, and
number of the name. A launch is a step over the places of work, and one over those of calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.render._palette import color_of, dark_of
from tracekit.render.base import RenderOptions
from tracekit.render.page import _budget, _paths, pack
from tracekit.render.page._args import add_args
from tracekit.render.page._marks import marks
from tracekit.render.page._members import add_members
from tracekit.report import Finding
from tracekit.report.timeline import KINDS_OF, Counter, CriticalPath, LaneEvents, Timeline
from tracekit.text.display import visible

NAME_SHOWN = 1 << 14
"""Characters of a name, whose length is given where it is longer. Tables have whole names."""
_THOUSAND = 1000


@dataclass(slots=True)
class TimelineData:
    """head: the JSON of the page's timeline. names: packed. parts: in the order in which they are read.

    mark_of: the number of the mark of each finding that has one, by its view and row.
    """

    head: dict[str, object]
    names: str
    parts: list[pack.DataPart] = field(default_factory=list)
    mark_of: dict[tuple[str, int], int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Return the characters of the parts."""
        return sum(len(part.text) for part in self.parts)


def timeline_data(
    figure: Timeline,
    options: RenderOptions,
    title: str,
    version: str,
    findings: Sequence[tuple[str, int, Finding]] = (),
    paths: Sequence[CriticalPath] = (),
) -> TimelineData:
    """Return the data of a timeline within the budget of the options. findings: view, row from 1, and finding."""
    total = len(figure.events)
    shown, missing = _budget.within(figure, options.page_events)
    data = _data(shown, missing, total)
    while data.size > options.page_bytes and len(shown.events) > 1:
        fewer = min(int(len(shown.events) * 0.95 * options.page_bytes / data.size), len(shown.events) - 1)
        shown, missing = _budget.within(figure, fewer)
        data = _data(shown, missing, total)
    data.head |= {"title": visible(title), "version": version}
    drawn = _paths.add_paths(data.parts, shown, paths, int(str(data.head["unit"])))
    if drawn:
        data.head["paths"] = drawn
    size = data.size
    data.head["args"], left = add_args(data.parts, shown, options.args_bytes)
    if left:
        data.head["argsLeft"] = left
    members = add_members(data.parts, shown, options.args_bytes - (data.size - size))
    if members is not None:
        data.head["members"] = members
    found = marks(shown, findings, int(str(data.head["unit"])))
    data.head["marks"] = [mark for _, mark in found]
    data.mark_of = {place: number for number, (place, _) in enumerate(found)}
    return data


def _data(figure: Timeline, missing: _budget.Missing | None, total: int) -> TimelineData:
    unit = _unit(figure, missing)
    events = figure.events
    parts = list(_event_parts(events, unit))
    count = len(parts)
    parts += _launch_parts(figure.launches)
    parts += _flow_parts(figure.flows)
    groups = _groups(figure)
    group_of = [number for number, (*_, lanes) in enumerate(groups) for _ in lanes]
    counters = [*figure.counters, *_utilization(figure)]
    heads = []
    for number, counter in enumerate(counters):
        parts += _counter_parts(counter, number, unit)
        heads.append(_counter_head(counter, [label for label, *_ in groups]))
    heads += [] if missing is not None else _queues(figure, group_of)
    rows = np.cumsum([0, *(lane.depth for lane in figure.lanes)]).tolist()
    head: dict[str, object] = {
        "n": len(events),
        "total": total,
        "unit": unit,
        "span": (figure.end_ns - figure.begin_ns) // unit,
        "begin": str(figure.begin_ns),
        "first": events.first.tolist(),
        "lanes": [
            {
                "label": visible(lane.label),
                "host": not lane.on_device,
                "device": lane.on_device and not lane.overlay and not lane.instants,
                "note": lane.overlay or lane.instants,
                "row": row,
                "depth": lane.depth,
                "group": group_of[place],
                **({"layers": lane.layers} if lane.layers[0][0] else {}),
                "ids": dict(lane.ids),
                **({"instants": True} if lane.instants else {}),
                **({"overlaps": lane.overlaps} if lane.overlaps else {}),
            }
            for place, (lane, row) in enumerate(zip(figure.lanes, rows, strict=False))
        ],
        "groups": [
            {"label": visible(label), "lanes": lanes} | ({"host": visible(host)} if host else {})
            for label, host, lanes in groups
        ],
        "kindOf": list(figure.kind_of),
        "kinds": list(map(visible, figure.kinds)),
        "colors": {
            visible(kind): [color_of(kind, place), dark_of(color_of(kind, place))]
            for place, kind in enumerate(figure.kinds)
        },
        "kindsOf": {kind: KINDS_OF[kind] for kind in figure.kinds if kind in KINDS_OF},
        "steps": [(start // unit, length // unit, visible(name)) for start, length, name in figure.steps],
        "links": int(figure.launches[0].size),
        "flows": int(figure.flows[0].size),
        "eventParts": count,
        "counters": heads,
        "missing": _missing(missing, unit),
    }
    if missing is not None:
        left = int(missing.counts.sum())
        head["budget"] = (
            f"{left:,} of {total:,} events are not in this page, the shortest first; "
            "--page-events and --page-mb make it larger"
        )
    return TimelineData(head, pack.packed_texts([_shown_name(name) for name in figure.names]), parts)


def _shown_name(name: str) -> str:
    if len(name) <= NAME_SHOWN:
        return visible(name)
    return f"{visible(name[:NAME_SHOWN])}… ({len(name):,} characters in all)"


def _groups(figure: Timeline) -> list[tuple[str, str, list[int]]]:
    """Return the groups in order: label, machine, and the numbers of their lanes, which follow each other."""
    found: list[tuple[str, str, list[int]]] = []
    for number, lane in enumerate(figure.lanes):
        if not found or found[-1][:2] != (lane.group, lane.host):
            found.append((lane.group, lane.host, []))
        found[-1][2].append(number)
    return found


def _unit(figure: Timeline, missing: _budget.Missing | None) -> int:
    """Return 1000 where every time in the page is a multiple of it, else 1."""
    events = figure.events
    times: list[I64] = [np.array([figure.end_ns - figure.begin_ns], np.int64)]
    times += [counter.times for counter in figure.counters]
    times += [missing.begins, missing.ends, missing.busy] if missing is not None else []
    if any((each % _THOUSAND).any() for each in times):
        return 1
    for places in pack.chunks(len(events)):
        if (events.starts_at(places) % _THOUSAND).any() or (events.lengths_at(places) % _THOUSAND).any():
            return 1
    return _THOUSAND


def _event_parts(events: LaneEvents, unit: int) -> Iterator[pack.DataPart]:
    begins = events.first[:-1][np.diff(events.first) > 0]  # of rows from which everything is left out, none
    before = 0
    for places in pack.chunks(len(events)):
        start, length = events.starts_at(places) // unit, events.lengths_at(places) // unit
        end = start + length
        gap = start - np.append(before, end[:-1])
        low, high = np.searchsorted(begins, (places.start, places.stop)).tolist()
        fresh = begins[low:high] - places.start
        gap[fresh] = start[fresh]
        before = int(end[-1])
        text = pack.packed(pack.planes(gap), pack.planes(length), pack.planes(events.codes_at(places)))
        yield pack.DataPart("tl-part", text, (("n", gap.size),))


def _launch_parts(launches: tuple[I64, I64]) -> Iterator[pack.DataPart]:
    calls, work = launches
    over_work, over_calls = pack.steps(work, -1) - 1, pack.zigzag(pack.steps(calls))
    for part in pack.chunks(work.size):
        columns = np.concatenate((over_work[part], over_calls[part]))
        yield pack.DataPart("tl-part", pack.packed(pack.planes(columns)), (("n", over_work[part].size),))


def _flow_parts(flows: tuple[I64, I64]) -> Iterator[pack.DataPart]:
    sources, targets = flows
    over_sources, over_targets = pack.steps(sources), pack.zigzag(pack.steps(targets))
    for part in pack.chunks(sources.size):
        columns = np.concatenate((over_sources[part], over_targets[part]))
        yield pack.DataPart("tl-flow", pack.packed(pack.planes(columns)), (("n", over_sources[part].size),))


def _utilization(figure: Timeline) -> Iterator[Counter]:
    span = figure.end_ns - figure.begin_ns
    for label, shares in figure.utilization:
        edges = np.array([span * place // max(len(shares), 1) for place in range(len(shares))], np.int64)
        percent = np.rint(np.array(shares, np.float64) * 1000) / 10
        yield Counter(f"utilization {label}", "%", label, edges, percent)


def _counter_head(counter: Counter, groups: Sequence[str]) -> dict[str, object]:
    finite = counter.values[np.isfinite(counter.values)]
    return {
        "label": visible(counter.label),
        "unit": visible(counter.unit),
        "group": _group_of(counter.group, groups),
        "n": int(counter.times.size),
        "float": counter.values.dtype.kind == "f",
        "style": "bar" if counter.unit == "%" else "step",
        "max": float(finite.max()) if finite.size else 0,
    }


def _group_of(place: str, groups: Sequence[str]) -> int:
    """Return the only group whose label has all words of a place, such as "rank 3 · GPU 0"; -1 for none or several."""
    if not place:
        return -1
    words = set(place.split(" · "))
    found = [number for number, label in enumerate(groups) if words <= set(label.split(" · "))]
    return groups.index(place) if place in groups else found[0] if len(found) == 1 else -1


def _queues(figure: Timeline, group_of: Sequence[int]) -> list[dict[str, object]]:
    """Return a track for each group whose work was launched by calls: a script fills it from the launches."""
    lane_of_row = np.repeat(np.arange(len(figure.lanes)), [lane.depth for lane in figure.lanes])
    rows = np.searchsorted(figure.events.first, figure.launches[1], "right") - 1
    lanes = np.unique(lane_of_row[rows]).tolist()
    groups = sorted({group_of[lane] for lane in lanes})
    return [{"label": "queue", "unit": "", "group": group, "n": 0, "queue": True} for group in groups]


def _counter_parts(counter: Counter, number: int, unit: int) -> Iterator[pack.DataPart]:
    gaps = pack.steps(counter.times // unit)
    values = counter.values
    for part in pack.chunks(gaps.size):
        if values.dtype.kind == "f":
            body = pack.floats(values[part].astype(np.float64))
        else:
            whole = values.astype(np.int64)
            body = pack.planes(pack.zigzag(pack.steps(whole)[part]))
        text = pack.packed(pack.planes(gaps[part]), body)
        yield pack.DataPart("tl-counter", text, (("key", number), ("n", gaps[part].size)))


def _missing(missing: _budget.Missing | None, unit: int) -> list[dict[str, object]]:
    if missing is None:
        return []
    times = (missing.begins // unit, missing.ends // unit)
    columns = (missing.rows, missing.untils, *times, missing.counts, missing.busy // unit)
    return [
        {"rows": (row, until), "start": start, "end": end, "count": count, "busy": busy}
        for row, until, start, end, count, busy in zip(*(column.tolist() for column in columns), strict=True)
    ]

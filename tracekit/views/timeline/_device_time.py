"""The time of each device in parts, and how busy it was in each part of the span: plain unions, no names.

A device has: kernels (the union over its streams), exposed copies (while no kernel ran), exposed memsets (while
neither ran), and idle: the rest of the span. So the parts add up to the span exactly. The span is that of the view
`device`: first start to last end of all rows of the same input (process, where a file holds several runs), host
rows included; the share of kernels is that view's utilization.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import I64, coverage, merge, union_length_by
from tracekit.index import grouping
from tracekit.index.clocks import by_input
from tracekit.index.lanes import device_label, owner_labels
from tracekit.index.sources import spans, synthetic_sources
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Bar, integer_of
from tracekit.schema import DEVICE_WORK, Kind
from tracekit.units import Unit

BINS = 500
BARS = 8
SERIES = 16

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """bars: of all devices together where there are several, then of each. utilization: as in report.Timeline."""

    bars: tuple[Bar, ...] = ()
    utilization: tuple[tuple[str, list[float]], ...] = ()
    notes: tuple[str, ...] = ()


def device_time(index: TraceIndex, clocks: I64, shift: I64, begin: int, end: int) -> DeviceTime:
    """Return the time of each device that worked.

    clocks: the clock of each row of EVENTS. shift: for each clock what is taken off its starts in the picture; begin,
    end: the picture's span, so shifted.
    """
    picked = index.pick(DEVICE_WORK)
    made_up = synthetic_sources(index)
    source = picked.key("source")
    known = np.array([label not in made_up for label in source.labels], np.bool_)[source.codes]
    if not known.any():
        return DeviceTime()
    rows = picked.rows[known]
    inputs = by_input(index)
    place = grouping.Key(inputs.codes[picked.rows], range(inputs.count))
    keys = (source, picked.key("rank"), picked.key("device"), place)
    groups = grouping.group_by(*(grouping.Key(key.codes[known], key.labels) for key in keys))
    devices = sorted(range(groups.count), key=lambda g: _order(groups, inputs, g))
    starts = picked.starts[known]
    ends = starts + picked.durations[known]
    kernel, memcpy = (index.kind_mask({kind})[rows] for kind in (Kind.KERNEL, Kind.MEMCPY))

    def union(of: Mask) -> list[int]:
        lengths: list[int] = union_length_by(groups.codes[of], groups.count, starts[of], ends[of]).tolist()
        return lengths

    kernels, copies, busy = union(kernel), union(kernel | memcpy), union(np.ones(starts.size, np.bool_))
    whole = _spans(index, inputs)
    names = _names(index, groups, inputs)
    bars = []
    totals = [0, 0, 0, 0]
    for g in devices:
        span = whole[integer_of(groups.labels[3][g])]
        parts = (kernels[g], copies[g] - kernels[g], busy[g] - copies[g], span - busy[g])
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
        model = index.run.devices.get((groups.labels[0][g], groups.labels[2][g]), "")
        bars.append(_bar(f"Time of {names[g]} {model}".rstrip(), parts))
    if not sum(totals):
        return DeviceTime(notes=("all device work took no time at all: there is no share to show",))
    notes = []
    what = "devices" if set(inputs.labels[1]) == {None} else "runs on devices"
    if len(bars) > BARS:
        notes.append(f"device time is shown for all {len(bars):,} {what} together and for the first {BARS}")
    if len(bars) > 1:
        bars = [_bar(f"Time of all {len(bars):,} {what}", totals), *bars[:BARS]]
    if len(devices) > SERIES:
        notes.append(f"utilization over time is drawn for the first {SERIES} of {len(devices):,} devices")
    series = []
    for g in devices[:SERIES]:
        mine = (groups.codes == g) & kernel
        off = shift[clocks[rows[groups.codes == g][0]]]
        series.append((names[g], _busy_shares(starts[mine] - off, ends[mine] - off, begin, end)))
    return DeviceTime(tuple(bars), tuple(series), tuple(notes))


def _bar(title: str, parts: Sequence[int]) -> Bar:
    words = ("kernels", "exposed copies", "exposed memsets", "idle")
    shown = [(word, part) for word, part in zip(words, parts, strict=True) if part or word in ("kernels", "idle")]
    return Bar(title, Unit.NS, tuple(shown))


def _busy_shares(starts: I64, ends: I64, begin: int, end: int) -> list[float]:
    """Return the share of each bin that kernels cover; BINS equal bins, fewer where the span has fewer ns."""
    count = min(BINS, end - begin)
    if count <= 0:
        return []
    edges = np.array([begin + (end - begin) * i // count for i in range(count + 1)], np.int64)
    shares: list[float] = (coverage(*merge(starts, ends), edges) / np.diff(edges)).tolist()
    return shares


def _spans(index: TraceIndex, inputs: grouping.Groups) -> list[int]:
    start: I64 = index.starts
    length = index.lengths
    first, last = spans(inputs.codes, inputs.count, start, start + length)
    lengths: list[int] = (last - first).tolist()
    return lengths


def _order(groups: grouping.Groups, inputs: grouping.Groups, g: int) -> tuple[object, ...]:
    source, rank, device, place = (labels[g] for labels in groups.labels)
    cells = (source, rank, inputs.labels[1][integer_of(place)], device)
    return tuple((cell is None, cell if cell is not None else 0) for cell in cells)


def _names(index: TraceIndex, groups: grouping.Groups, inputs: grouping.Groups) -> list[str]:
    """Return what each device is called, with its rank, input or run where there are several."""
    sources, ranks, devices, places = groups.labels
    owners = owner_labels(index, zip(map(integer_of, sources), ranks, strict=True))
    out = []
    for source, rank, device, place in zip(sources, ranks, devices, places, strict=True):
        pid = inputs.labels[1][integer_of(place)]
        run = "" if pid is None else f"process {pid}"
        out.append(" · ".join(filter(None, (owners[integer_of(source), rank], run, device_label(device)))))
    return out

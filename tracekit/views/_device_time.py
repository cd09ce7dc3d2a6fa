"""Where the time of each device went, and how busy it was in each part of the span: plain unions, no names.

Of one device: kernels (the union over its streams), exposed copies (while no kernel ran), exposed memsets (while
neither ran), and idle: the rest of the span. So the parts add up to the span exactly. The span is that of the view
`device`: first start to last end of all rows of the same input, host rows included; the share of kernels is that
view's utilization.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import I64, coverage, merge, union_length_by
from tracekit.report import Bar, Cell
from tracekit.schema import DEVICE_WORK, Kind
from tracekit.trace import Trace
from tracekit.units import Unit
from tracekit.views import _groups
from tracekit.views._lanes import device_label, owner_labels
from tracekit.views._sources import spans, synthetic_sources

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


def device_time(trace: Trace, shift: dict[int, int], begin: int, end: int) -> DeviceTime:
    """Return the time of each device that worked.

    shift: for each source what is taken off its starts in the picture; begin, end: its span, so shifted.
    """
    picked = _groups.pick(trace, DEVICE_WORK)
    made_up = synthetic_sources(trace)
    source = picked.key("source")
    known = np.array([label not in made_up for label in source.labels], np.bool_)[source.codes]
    if not known.any():
        return DeviceTime()
    keys = [_groups.Key(k.codes[known], k.labels) for k in (source, picked.key("rank"), picked.key("device"))]
    groups = _groups.group_by(*keys)
    devices = sorted(range(groups.count), key=lambda g: _order(groups, g))
    starts = picked.starts[known]
    ends = starts + picked.durations[known]
    kernel, memcpy = (
        _groups.kind_mask(trace.events, {kind})[picked.rows[known]] for kind in (Kind.KERNEL, Kind.MEMCPY)
    )

    def union(of: Mask) -> list[int]:
        lengths: list[int] = union_length_by(groups.codes[of], groups.count, starts[of], ends[of]).tolist()
        return lengths

    kernels, copies, busy = union(kernel), union(kernel | memcpy), union(np.ones(starts.size, np.bool_))
    whole = _spans(trace)
    names = _names(trace, groups)
    bars = []
    totals = [0, 0, 0, 0]
    for g in devices:
        span = whole[groups.labels[0][g]]
        parts = (kernels[g], copies[g] - kernels[g], busy[g] - copies[g], span - busy[g])
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
        model = trace.run.devices.get((groups.labels[0][g], groups.labels[2][g]), "")
        bars.append(_bar(f"Time of {names[g]} {model}".rstrip(), parts))
    if not sum(totals):
        return DeviceTime(notes=("all device work took no time at all: there is no share to show",))
    notes = []
    if len(bars) > BARS:
        notes.append(f"device time is shown for all {len(bars):,} devices together and for the first {BARS}")
    if len(bars) > 1:
        bars = [_bar(f"Time of all {len(bars):,} devices", totals), *bars[:BARS]]
    if len(devices) > SERIES:
        notes.append(f"utilization over time is drawn for the first {SERIES} of {len(devices):,} devices")
    series = []
    for g in devices[:SERIES]:
        mine = (groups.codes == g) & kernel
        off = shift.get(_number(groups.labels[0][g]), 0)
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


def _spans(trace: Trace) -> dict[Cell, int]:
    key = _groups.key_of(trace.events, "source", np.arange(trace.events.num_rows))
    start: I64 = trace.events.column("ts_ns").to_numpy()
    length = np.maximum(trace.events.column("dur_ns").fill_null(0).to_numpy(), 0)
    first, last = spans(key.codes, len(key.labels), start, start + length)
    return dict(zip(key.labels, (last - first).tolist(), strict=True))


def _order(groups: _groups.Groups, g: int) -> tuple[object, ...]:
    return tuple((cell is None, cell if cell is not None else 0) for cell in (labels[g] for labels in groups.labels))


def _number(cell: Cell) -> int:
    return cell if isinstance(cell, int) else 0


def _names(trace: Trace, groups: _groups.Groups) -> list[str]:
    """Return what each device is called, with its rank or input where there are several."""
    sources, ranks, devices = groups.labels
    owners = owner_labels(trace, zip(map(_number, sources), ranks, strict=True))
    return [
        " · ".join(filter(None, (owners[_number(source), rank], device_label(device))))
        for source, rank, device in zip(sources, ranks, devices, strict=True)
    ]

"""The pieces of each part of device time: classes of kernels, collectives, copies, and what the host did meanwhile.

Pieces of a part add up to it exactly. Work of two names that runs at once counts for the name with more time. Idle time
is that of the gaps of the view `idle`: by the operator or range that the host was in where the host came late, by its
cause elsewhere. What has no name is "(no name)". A part has at most MOST pieces: the last one is the sum of all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import Ranges, coverage, difference, merge, union
from tracekit.analysis.kernel_class import KernelClass
from tracekit.index import collectives
from tracekit.index import devices as _devices
from tracekit.index.gaps import CAUSES, find_gaps
from tracekit.index.kernel_classes import kernel_classes
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.report import TimePiece
from tracekit.views.device import idle
from tracekit.views.device.breakdown import DeviceParts, all_work, device_parts, steps_of_devices

__all__ = ["MOST", "pieces_of"]

MOST = 7
"""The most pieces of a part: more are too narrow to be seen."""
UNNAMED = "(no name)"
OUTSIDE = "(not in a gap)"
_MOST_NAMES, _OTHERS = 200, "(other names)"
_HOST = frozenset({CAUSES.index("host late"), CAUSES.index("synchronization")})
_NO_RANGE = "{cause}, in no range"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PieceSums:
    """Time, and number of events or gaps that take some of it, of each name. view: that has a row of the name."""

    ns: dict[str, int]
    count: dict[str, int]
    view: Mapping[str, str]


def pieces_of(index: TraceIndex, chosen: Sequence[DeviceParts]) -> dict[str, tuple[TimePiece, ...]]:
    """Return the pieces of each part, of some devices together; {} where single events are not known."""
    if index.was_given(device_parts) or not chosen:
        return {}
    numbers = {id(device): number for number, device in enumerate(_devices.find(index).devices)}
    sums = [_of_device(index, numbers[id(each.device)]) for each in chosen if id(each.device) in numbers]
    if len(sums) < len(chosen):
        return {}
    return {part: _largest([each[part] for each in sums]) for part in sums[0]}


def _largest(sums: Sequence[PieceSums]) -> tuple[TimePiece, ...]:
    """Return the largest pieces, and the sum of the others."""
    ns, count, views = dict(sums[0].ns), dict(sums[0].count), dict(sums[0].view)
    for each in sums[1:]:
        views |= each.view
        for name, value in each.ns.items():
            ns[name] = ns.get(name, 0) + value
            count[name] = count.get(name, 0) + each.count.get(name, 0)
    known = [name for name in ns if ns[name]]
    order = nsmallest(MOST + 1, known, key=lambda name: (-ns[name], name))
    kept = order if len(known) <= MOST else order[: MOST - 1]
    found = [TimePiece(name, ns[name], count[name], views.get(name, "")) for name in kept]
    if rest := len(known) - len(kept):
        whole, events = (sum(of[name] for name in known) - sum(of[name] for name in kept) for of in (ns, count))
        found.append(TimePiece("", whole, events, "", rest, ns[order[len(kept)]]))
    return tuple(found)


def _of_device(index: TraceIndex, number: int) -> dict[str, PieceSums]:
    work = all_work(index)
    device = work.devices.devices[number]
    steps = steps_of_devices(index)[number]
    window = steps if steps is not None else (np.array([device.begin]), np.array([device.end]))
    rows = work.devices.rows[device.positions]
    starts, ends = work.devices.starts[device.positions], work.devices.ends[device.positions]
    computes, talks = work.computes[device.positions], work.talks[device.positions]
    parts = work.of(number)
    nothing: Ranges = (np.zeros(0, np.int64), np.zeros(0, np.int64))

    def pieces(mask: Mask, names: Sequence[str], codes: I64, hidden: Ranges, view: str) -> PieceSums:
        return _in_turn(starts[mask], ends[mask], names, codes, hidden, window, view)

    classes = [str(each) for each in KernelClass]
    idle_ns, idle_count, idle_views = _idle(index, number, window)
    whole_idle = int((window[1] - window[0]).sum()) - _within(parts.busy, window)
    if rest := whole_idle - sum(idle_ns.values()):
        idle_ns[OUTSIDE] = idle_ns.get(OUTSIDE, 0) + rest
    return {
        "compute": pieces(computes, classes, kernel_classes(index, rows[computes]), nothing, ""),
        "exposed_comm": pieces(talks, *_collectives(index, rows[talks]), parts.compute, ""),
        "exposed_copies": pieces(
            ~(computes | talks), *_named(index, rows[~(computes | talks)]), parts.kernels, "memory_manipulation"
        ),
        "idle": PieceSums(idle_ns, idle_count, idle_views),
    }


def _collectives(index: TraceIndex, rows: I64) -> tuple[list[str], I64]:
    """Return the operation of each collective, by the name of its kernel."""
    names, codes = _named(index, rows)
    plain = [collectives.operation(name) for name in names]
    labels = sorted(set(plain))
    place = {name: i for i, name in enumerate(labels)}
    return labels, np.array([place[name] for name in plain], np.int64)[codes] if plain else codes


def _named(index: TraceIndex, rows: I64) -> tuple[list[str], I64]:
    """Return the names of these rows, and which of them each row has."""
    codes, names = index.texts("name")
    used, place = np.unique(codes[rows].astype(np.int64), return_inverse=True)
    return [_shown(names[code]) if code >= 0 else UNNAMED for code in used.tolist()], place.astype(np.int64)


def _shown(name: str | None) -> str:
    return name if name is not None and name.strip() else UNNAMED


def _in_turn(
    starts: I64, ends: I64, names: Sequence[str], codes: I64, hidden: Ranges, window: Ranges, view: str
) -> PieceSums:
    """Return the time of each name that neither `hidden` nor a name with more time covers."""
    ns: dict[str, int] = {}
    count: dict[str, int] = {}
    total = np.zeros(len(names), np.int64)
    np.add.at(total, codes, ends - starts)
    number = np.bincount(codes, minlength=len(names))
    inside = _clipped(starts, ends, window) > 0
    taken = hidden
    order = [code for code in np.argsort(-total, kind="stable").tolist() if number[code]]
    for place, code in enumerate(order):
        # The many names behind the largest ones are in the last piece in any case.
        last = place == _MOST_NAMES
        mine = np.isin(codes, order[place:]) if last else codes == code
        ranges = merge(starts[mine], ends[mine])
        name = _OTHERS if last else names[code]
        ns[name] = ns.get(name, 0) + _within(difference(ranges, taken), window)
        count[name] = count.get(name, 0) + int(np.count_nonzero(mine & inside))
        taken = union(taken, ranges)
        if last:
            break
    return PieceSums(ns, count, dict.fromkeys(names, view))


def _within(ranges: Ranges, window: Ranges) -> int:
    """Return how much of merged ranges lies in the windows, which ascend and do not overlap."""
    edges = np.column_stack(window).ravel()
    return int(coverage(*ranges, edges)[::2].sum()) if ranges[0].size else 0


def _idle(index: TraceIndex, number: int, window: Ranges) -> tuple[dict[str, int], dict[str, int], dict[str, str]]:
    """Return the time and the number of gaps by what the host was in, or by cause; and the view of each name."""
    gaps = find_gaps(index)
    mine = np.flatnonzero(gaps.lane == number)
    length = _clipped(gaps.starts[mine], gaps.ends[mine], window)
    host, cause = idle.host_ranges(index)[mine], gaps.cause[mine]
    codes, names = index.texts("name")
    named = bool((host >= 0).any())
    code = np.where(host >= 0, codes[np.maximum(host, 0)], -1).astype(np.int64)
    by_host = np.isin(cause, list(_HOST)) & named
    key = np.where(by_host, code + 1 + len(CAUSES) * 2, cause)
    key = np.where(by_host & (code < 0), cause + len(CAUSES), key)
    ns: dict[str, int] = {}
    count: dict[str, int] = {}
    views: dict[str, str] = {}
    for label, time, gaps_in in _sums(key, length):
        if label < len(CAUSES):
            name, view = CAUSES[label], "idle"
        elif label < 2 * len(CAUSES):
            name, view = _NO_RANGE.format(cause=CAUSES[label - len(CAUSES)]), "idle"
        else:
            name, view = _shown(names[label - 1 - 2 * len(CAUSES)]), "idle"
        ns[name] = ns.get(name, 0) + time
        count[name] = count.get(name, 0) + gaps_in
        views[name] = view
    return ns, count, views


def _sums(keys: I64, lengths: I64) -> Iterator[tuple[int, int, int]]:
    """Yield each key, ascending, with the sum of its lengths and the number of those above 0."""
    if not keys.size:
        return
    order = np.argsort(keys, kind="stable")
    ordered, values = keys[order], lengths[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.add.reduceat((values != 0).astype(np.int64), begins)
    yield from zip(ordered[begins].tolist(), np.add.reduceat(values, begins).tolist(), counts.tolist(), strict=True)


def _clipped(starts: I64, ends: I64, window: Ranges) -> I64:
    """Return how much of each range lies in the windows."""
    edges = np.append(0, np.cumsum(window[1] - window[0]))

    def before(times: I64) -> I64:
        at = np.searchsorted(window[0], times, "right") - 1
        inside = np.minimum(times, window[1][np.maximum(at, 0)]) - window[0][np.maximum(at, 0)]
        found: I64 = np.where(at >= 0, edges[np.maximum(at, 0)] + inside, 0)
        return found

    return before(ends) - before(starts)

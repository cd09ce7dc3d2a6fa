"""Waits: of host calls for device work, of streams for streams, of threads for threads (see critical_path).

**Calls.** A synchronizing call waits for the last work that was launched before it on the streams that it names.
Work that ends after the call has returned was not waited for. Where the stream is not known (a handle that the
profiler did not resolve), it is the stream whose work ended last inside the call. Clocks of host and device may
disagree by `TOLERANCE` ns.

**Copies.** A call that lasts for half of its copy or more was waiting for it. From pageable memory the driver hands the
copy over in pieces, and the call may return before the last of them has ended: what the call waited for is the copy up
to then, so the copy is cut there.

**Threads.** Traces do not say that a thread waits for another (PyTorch's backward pass runs on a thread of its own). A
thread that does nothing for LEAST_FREE ns, while another of its process works and falls silent before the first goes
on, seems to have waited for that one. "Works" is LEAST_SHARE of the pause, or up to SOON ns before its end. A thread
that is in a range of the user's program could be computing there: then only the operators and calls of the other thread
count as its work; else any range of it does, if one begins or ends in the pause. Who wakes a thread that is in nothing
at all need not fall silent, unless that thread is the main one. None of this is certain: an upper bound allows for
both, that the thread waited and that it was busy with something that no row shows (`_path_doubts`). The path takes it
for a wait where the pause is long: LONG ns, or LEAST_TIMES the thread's median pause.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.analysis._path_nodes import Device, Host, Waits, Works
from tracekit.analysis.intervals import Ranges, merge
from tracekit.analysis.segments import rows_by
from tracekit.columns.arrays import I64, Mask

TOLERANCE = 2_000
LEAST_FREE = 20_000
LEAST_TIMES = 5
LONG = 1_000_000
LEAST_SHARE = 0.5
SOON = 50_000
_ENOUGH_PAUSES = 8
_MOST = 10_000
"""The most pauses of threads that are taken for possible waits, the longest: each is evaluated on its own."""
_MOST_PAIRS = 50_000_000
"""The most pairs of a pause and another thread of its process that are looked at: those of the longest pauses."""
_MOST_WIDE = 10_000_000
"""The most pairs of a call and a stream, of calls that may wait for any stream: those of the longest calls."""


@dataclass(frozen=True, slots=True, eq=False)
class WorkStops:
    """Times in which threads wait for device work: from `froms` to `untils`, ns.

    works: the place of the work. numbers: which of `Waits`.
    """

    threads: I64
    froms: I64
    untils: I64
    works: I64
    numbers: I64


@dataclass(frozen=True, slots=True, eq=False)
class ThreadStops:
    """Times in which threads wait for other threads: from `froms` to `untils`, ns.

    long: the pause is longer than what is usual on the thread.
    """

    threads: I64
    froms: I64
    untils: I64
    others: I64
    long: Mask


def cut_copies(host: Host, device: Device, waits: Waits) -> tuple[Device, I64]:
    """Return the device work with copies cut where the call that waited for them returned, and the row of each piece.

    The first piece keeps the row's place; pieces behind the end are the rest of their copies.
    """
    rows = np.arange(device.starts.size)
    known = waits.works >= 0
    row, returns = waits.works[known], host.ends[waits.calls[known]]
    start, end = device.starts[row], device.ends[row]
    cut = (returns < end) & (returns - start >= LEAST_SHARE * (end - start))
    row, at = row[cut], returns[cut]
    if not row.size:
        return device, rows
    row, first = np.unique(row, return_index=True)
    at = at[first]
    ends = device.ends.copy()
    ends[row] = at

    def more(column: I64, of_rest: I64) -> I64:
        return np.concatenate((column, of_rest))

    cut_device = Device(
        more(device.streams, device.streams[row]),
        more(device.starts, at),
        more(ends, device.ends[row]),
        more(device.names, device.names[row]),
        more(device.parts, device.parts[row]),
        more(device.launch, device.launch[row]),
    )
    return cut_device, more(rows, row)


def for_devices(host: Host, work: Works, waits: Waits, low: int, high: int) -> tuple[list[WorkStops], int]:
    """Return the waits of calls, one for each stream that a call waits for, and how many calls were not looked at."""
    found = []
    copies = np.flatnonzero(waits.works >= 0)
    copies = copies[work.place[waits.works[copies]] >= 0]
    place = work.place[waits.works[copies]]
    call = waits.calls[copies]
    waited = (work.ends[place] <= host.ends[call]) & (work.release[place] > low)
    copies, place, call = copies[waited], place[waited], call[waited]
    found.append(WorkStops(host.threads[call], work.release[place], work.ends[place], place, copies))

    calls = np.flatnonzero((waits.works < 0) & (host.ends[waits.calls] > low) & (host.starts[waits.calls] < high))
    row = waits.calls[calls]
    begins, returns = host.starts[row], host.ends[row]
    best, best_end = np.zeros(calls.size, np.int64), begins.copy()
    wants = waits.streams[calls]
    parts: list[tuple[I64, I64]] = []
    latest = begins.copy()
    streams = work.by_stream()
    wide = np.flatnonzero((wants == Waits.ALL) | (wants == Waits.ANY))
    looked = wide[_longest((returns - begins)[wide], _MOST_WIDE // max(len(streams), 1))]
    of_one = dict(rows_by(wants))
    for stream, mine in streams.items():
        asked = np.union1d(looked, of_one[stream]) if stream in of_one else looked
        last = np.searchsorted(np.maximum.accumulate(work.called[mine]), waits.before[calls[asked]], "left") - 1
        # The last of these whose launch is known must have ended; what has no known launch may have come later.
        sure_of = np.maximum.accumulate(np.where(work.launch[mine] >= 0, np.arange(mine.size), -1))
        surely = np.append(sure_of, -1)[last]  # -1 is the last place: nothing was launched before
        over = (surely < 0) | (work.ends[mine[np.maximum(surely, 0)]] <= returns[asked] + TOLERANCE)
        last = np.minimum(last, np.searchsorted(work.starts[mine], returns[asked], "left") - 1)
        ended = work.ends[mine[np.maximum(last, 0)]]
        known = (last >= 0) & (ended <= returns[asked] + TOLERANCE) & over
        sure = np.flatnonzero(known & (wants[asked] != Waits.ANY))
        parts.append((asked[sure], mine[last[sure]]))
        latest[asked[sure]] = np.maximum(latest[asked[sure]], ended[sure])
        maybe = np.flatnonzero(known & (wants[asked] == Waits.ANY) & (ended > best_end[asked]))
        best[asked[maybe]], best_end[asked[maybe]] = mine[last[maybe]], ended[maybe]
    guessed = np.flatnonzero(best_end > begins)
    parts.append((guessed, best[guessed]))
    latest[guessed] = best_end[guessed]
    for which, place in parts:
        found.append(WorkStops(host.threads[row[which]], begins[which], latest[which], place, calls[which]))
    return [stops for stops in found if stops.threads.size], wide.size - looked.size


def told_to_wait(host: Host, work: Works, waits: Waits) -> Mask:
    """Return for each place whether a call told its stream to wait, after the launch of the work before it there."""
    found = np.zeros(work.rows.size, np.bool_)
    at, stream = host.starts[waits.orders], waits.order_streams.copy()
    # A call does not name its stream in most traces: it is that of the next work that its thread launches.
    unknown = stream == Waits.ANY
    launched = np.flatnonzero(work.launch >= 0)
    launched = launched[np.argsort(work.called[launched], kind="stable")]
    unknown = np.flatnonzero(unknown)
    by_thread = dict(rows_by(host.threads[work.launch[launched]]))
    for thread, places in rows_by(host.threads[waits.orders[unknown]]):
        ours, mine = unknown[places], launched[by_thread.get(thread, unknown[:0])]
        following = np.searchsorted(work.called[mine], at[ours], "left")
        stream[ours] = np.append(work.streams[mine], Waits.ANY)[following]
    streams = work.by_stream()
    for number, orders in rows_by(stream):
        if number not in streams:
            continue
        mine = streams[number]
        first = np.searchsorted(np.maximum.accumulate(work.called[mine]), at[orders], "left")
        found[mine[first[first < mine.size]]] = True
    return found


def streams_for_streams(work: Works, waits: Waits) -> tuple[I64, I64]:
    """Return for each wait of a stream the work that waited and the work that it waited for, as places."""
    heads, tails = np.full(waits.stream_heads.size, -1, np.int64), np.full(waits.stream_heads.size, -1, np.int64)
    of_head, of_tail, none = dict(rows_by(waits.stream_heads)), dict(rows_by(waits.stream_tails)), heads[:0]
    for stream, mine in work.by_stream().items():
        if stream not in of_head and stream not in of_tail:
            continue
        called = np.maximum.accumulate(work.called[mine])
        ours = of_head.get(stream, none)
        at = np.searchsorted(called, waits.stream_after[ours], "left")
        heads[ours[at < mine.size]] = mine[at[at < mine.size]]
        ours = of_tail.get(stream, none)
        at = np.searchsorted(called, waits.stream_before[ours], "left") - 1
        tails[ours[at >= 0]] = mine[at[at >= 0]]
    known = (heads >= 0) & (tails >= 0)
    return heads[known], tails[known]


def between_threads(
    host: Host, timed: I64, first: I64, last: I64, low: int, main: int
) -> tuple[list[ThreadStops], int]:
    """Return the waits of threads for other threads of their process, as far as the schedule tells.

    The number is that of the pauses that were not looked at.
    """
    seen = [_Seen.of(thread, timed[at], host, first, last) for thread, at in rows_by(host.threads[timed])]
    if len(seen) < 2:
        return [], 0
    pauses = [_pauses(each.runs, low) for each in seen]
    sizes = [froms.size for froms, _, _ in pauses]
    froms, untils = (np.concatenate([each[i] for each in pauses]) for i in (0, 1))
    length = untils - froms
    long = length >= np.repeat(np.array([usual for _, _, usual in pauses], np.int64), sizes)
    thread = np.repeat(np.array([each.thread for each in seen], np.int64), sizes)
    within = [
        _covered(each.cover, stop) - _covered(each.cover, go) for each, (go, stop, _) in zip(seen, pauses, strict=True)
    ]
    bare = 2 * np.concatenate(within) < length
    best, best_end = np.zeros(froms.size, np.int64), froms.copy()
    process = host.processes[np.array([each.thread for each in seen], np.int64)]
    unseen = 0
    members = {number: [seen[at] for at in rows.tolist()] for number, rows in rows_by(process)}
    for number, pause in rows_by(np.repeat(process, sizes)):
        mine = pause[_longest(length[pause], _MOST_PAIRS // len(members[number]))]
        unseen += pause.size - mine.size
        for other in members[number]:
            near = mine[
                (untils[mine] > other.edges[0]) & (froms[mine] < other.edges[-1]) & (thread[mine] != other.thread)
            ]
            if not near.size:
                continue
            ended = _woke(other, froms[near], untils[near], bare[near], thread[near] == main)
            better = ended > best_end[near]
            best[near[better]], best_end[near[better]] = other.thread, ended[better]
    found = np.flatnonzero(best_end > froms)
    found = found[_longest((best_end - froms)[found], _MOST)]
    stops = ThreadStops(thread[found], froms[found], best_end[found], best[found], long[found])
    return [stops] if found.size else [], unseen


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """A thread in the window. runs: its work, merged; cover: all its ranges, merged; edges: of all, ascending."""

    thread: int
    runs: Ranges
    cover: Ranges
    edges: I64

    @staticmethod
    def of(thread: int, mine: I64, host: Host, first: I64, last: I64) -> _Seen:
        """mine: the thread's ranges."""
        active = mine[host.active[mine]]
        return _Seen(
            thread,
            merge(first[active], last[active]),
            merge(first[mine], last[mine]),
            np.sort(np.concatenate((first[mine], last[mine]))),
        )


def _longest(lengths: I64, most: int) -> Mask:
    """Return which of the lengths are the longest `most`."""
    if lengths.size <= most:
        return np.ones(lengths.size, np.bool_)
    longest = np.zeros(lengths.size, np.bool_)
    longest[np.argpartition(lengths, -most)[-most:]] = True
    return longest


def _woke(other: _Seen, froms: I64, untils: I64, bare: Mask, main: Mask) -> I64:
    """Return when a thread may have let others go on that paused; the pause's start where it did not.

    bare: pauses in which the thread that pauses is in no range. main: pauses of the main thread.
    """
    begins, ends = other.runs
    at = np.searchsorted(ends, untils, "right") - 1
    ended = np.append(ends, np.iinfo(np.int64).min)[at]
    silent = np.append(begins, np.iinfo(np.int64).max)[at + 1] >= untils
    busy = _covered(other.runs, untils) - _covered(other.runs, froms)
    soon = untils - ended <= SOON
    works = busy >= LEAST_SHARE * (untils - froms)
    # Of a thread in no range, whoever lived meanwhile and did anything may have woken it, and may have gone on.
    alive = _covered(other.cover, untils) - _covered(other.cover, froms)
    moved = np.searchsorted(other.edges, untils, "left") > np.searchsorted(other.edges, froms, "right")
    lived = bare & (works | (moved & (alive >= LEAST_SHARE * (untils - froms))))
    known = silent & (soon | works | lived) & (ended > froms)
    return np.where(known, ended, np.where(lived & ~main, untils, froms))


def _pauses(runs: Ranges, low: int) -> tuple[I64, I64, int]:
    """Return the times of LEAST_FREE ns or more between a thread's active runs, and before them; and what is long."""
    begins, ends = runs
    if not begins.size:
        return begins, ends, LONG
    froms = np.append(low, ends[:-1])
    pause = begins - froms
    between = pause[1:]
    enough = between.size >= _ENOUGH_PAUSES
    limit = min(LONG, LEAST_TIMES * int(np.median(between))) if enough else LEAST_FREE
    free = pause >= LEAST_FREE
    return froms[free], begins[free], limit


def _covered(ranges: Ranges, at: I64) -> I64:
    """Return how many ns of merged ranges lie before each time."""
    first, last = ranges
    if not first.size:
        return np.zeros(at.size, np.int64)
    sums = np.append(0, np.cumsum(last - first))
    which = np.searchsorted(first, at, "right")
    near = np.maximum(which - 1, 0)
    found: I64 = np.where(which > 0, sums[near] + np.minimum(at - first[near], (last - first)[near]), 0)
    return found

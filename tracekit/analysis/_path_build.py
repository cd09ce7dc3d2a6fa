"""The nodes of a critical path's graph, made of ranges and work, and the edges that waits make between them."""

from __future__ import annotations

import numpy as np

from tracekit.analysis._path_nodes import Device, Host, Nodes, Waits, Works, pieces_of, search
from tracekit.analysis._path_waits import between_threads, cut_copies, for_devices, streams_for_streams, told_to_wait
from tracekit.columns.arrays import I64

PAUSE = 20_000
"""ns: work that begins later than this after the work before it on its stream was held up by something else."""


def build_nodes(host: Host, device: Device, waits: Waits, *, main: int, begin: int | None, end: int | None) -> Nodes:
    """Return the nodes of a window, and the edges of waits between them; arguments as in `critical_path.build`."""
    host.check()
    device.check(host.threads.size)
    device, row = cut_copies(host, device, waits)
    low, high = _window(host, device, main, begin, end)
    work = Works.of(host, device, low, high)
    first, last = np.clip(host.starts, low, high), np.clip(host.ends, low, high)
    timed = np.flatnonzero(last > first)
    stops, unseen = for_devices(host, work, waits, low, high)
    woken, unseen_pauses = between_threads(host, timed, first, last, low, main)
    lone = _lone(work)

    splits = [(host.threads[work.launch[work.launch >= 0]], work.release[work.launch >= 0])]
    splits.append((np.full(lone.size, main), work.starts[lone]))
    splits += [(stop.threads, at) for stop in stops for at in (stop.froms, stop.untils)]
    splits += [(threads, stop.untils) for stop in woken for threads in (stop.threads, stop.others)]
    lanes, times = (np.concatenate([each[i] for each in splits]) for i in (0, 1))
    del first, last
    pieces = pieces_of(
        host.threads[timed],
        np.clip(host.starts[timed], low, high),
        np.clip(host.ends[timed], low, high),
        lanes,
        times,
    )
    pieces.rows = timed[pieces.rows]
    threads = max(int(host.processes.size), 1)
    free = pieces.without(stops, threads)
    del pieces, splits, lanes, times

    count = free.starts.size
    bounds = np.searchsorted(free.lanes, np.arange(threads + 1))
    launch = np.full(work.rows.size, -1, np.int64)
    # Work that began before the window depends on nothing: no piece ends by then.
    hangs = np.flatnonzero(work.launch >= 0)
    found = search(bounds, free.ends, host.threads[work.launch[hangs]], work.release[hangs], "right") - 1
    real = found >= bounds[host.threads[work.launch[hangs]]]
    launch[hangs[real]] = found[real]
    if main < threads:
        found = search(bounds, free.ends, np.full(lone.size, main), work.starts[lone], "right") - 1
        launch[lone] = np.where(found >= bounds[main], found, -1)

    heads, tails, numbers = [], [], []
    for stop in stops:
        head = search(bounds, free.starts, stop.threads, stop.untils, "left")
        known = head < bounds[stop.threads + 1]
        heads.append(head[known])
        tails.append(count + stop.works[known])
        numbers.append(stop.numbers[known])
    stream_heads, stream_tails = streams_for_streams(work, waits)
    heads.append(count + stream_heads)
    tails.append(count + stream_tails)
    numbers.append(np.full(stream_heads.size, -1, np.int64))
    woken_heads, woken_tails, long = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.bool_)]
    for pause in woken:
        head = search(bounds, free.starts, pause.threads, pause.untils, "left")
        tail = search(bounds, free.ends, pause.others, pause.untils, "right") - 1
        known = (head < bounds[pause.threads + 1]) & (tail >= bounds[pause.others])
        woken_heads.append(head[known])
        woken_tails.append(tail[known])
        long.append(pause.long[known])
    return Nodes(
        np.concatenate((free.starts, work.starts)),
        np.concatenate((free.ends, work.ends)),
        np.concatenate((host.names[free.rows], device.names[work.rows])),
        np.concatenate((host.parts[free.rows], device.parts[work.rows])),
        np.concatenate((free.lanes, threads + work.lanes)),
        np.concatenate((free.rows, row[work.rows])),
        np.concatenate((np.full(count, -1, np.int64), launch)),
        count,
        low,
        np.concatenate(heads),
        np.concatenate(tails),
        np.concatenate(numbers),
        np.concatenate(woken_heads),
        np.concatenate(woken_tails),
        np.concatenate(long),
        np.concatenate((np.zeros(count, np.bool_), told_to_wait(host, work, waits))),
        unseen + unseen_pauses,
    )


def _window(host: Host, device: Device, main: int, begin: int | None, end: int | None) -> tuple[int, int]:
    own = host.threads == main
    starts = np.concatenate((host.starts[own] if own.any() else host.starts, device.starts))
    ends = np.concatenate((host.ends, device.ends))
    low = begin if begin is not None else int(starts.min()) if starts.size else 0
    high = end if end is not None else int(ends.max()) if ends.size else low
    return low, max(low, high)


def _lone(work: Works) -> I64:
    """Return the work whose launch is not known, unless it followed other work of its stream at once.

    Something launched it, at the latest when it began. That time is taken, so a faster host makes this work earlier.
    """
    follows = np.flatnonzero(work.lanes[1:] == work.lanes[:-1]) + 1
    at_once = np.zeros(work.starts.size, np.bool_)
    at_once[follows] = work.starts[follows] - work.ends[follows - 1] <= PAUSE
    return np.flatnonzero((work.launch < 0) & ~at_once)

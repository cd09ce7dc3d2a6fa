"""Search for the offset, or the line, at which ranges that two files have of one process lie within one another."""

from __future__ import annotations

import numpy as np

from tracekit.analysis.clocks.line import Line, fit
from tracekit.columns.arrays import I64, Mask
from tracekit.run.shared_ranges import APART_NS, FEWEST, USUALLY_APART_NS, Ranges, Shared, keys_of, mutual, share

MOST_DIFFERENCES = 400_000
"""Differences of starts that are looked at to find an unknown offset; the rarest names come first."""
WINDOW_NS = 200_000
"""Differences this near to each other count as one offset while it is looked for."""
FINE_WINDOW_NS = 20_000
"""The same among few neighbouring ranges, in whose time a clock gains little."""
MOST_TRIED = 8
"""Offsets that are tried, those at which most ranges meet."""
FIRST_RANGES = 128
"""Ranges that a line begins with, where the two clocks are still near."""
EVENNESS = 4
"""Pairs of one run fit so many times better than those with the next range of the name."""
PLACES = (0.0, 0.5, 0.9)
"""Where in the second file a line is begun: the first file may be of a part of the time."""


def find_line(
    first: Ranges, second: Ranges, offset_ns: int, *, at: float = 0.0, apart_ns: int = APART_NS
) -> Line | None:
    """Return the clock of the first file against that of the second, None where their ranges show none.

    offset_ns: to add to the times of the first, right at this share `at` of the second. apart_ns: how far from each
    other starts may be. The line begins with a few ranges there, and each round looks at twice as many: a loop that
    repeats itself is next to the wrong turn far from there.
    """
    keys, others = keys_of(first, second)
    left, right = (np.flatnonzero(ranges.lengths >= 0) for ranges in (first, second))
    right = right[np.argsort(second.starts[right], kind="stable")]
    moved = first.starts + offset_ns
    line = None
    count = FIRST_RANGES
    middle = int(at * right.size)
    while right.size:
        window = right[max(0, min(middle, right.size - count)) : middle + count]
        begin, until = int(second.starts[window[0]]) - apart_ns, int(second.starts[window[-1]]) + apart_ns
        mine = left[(moved[left] >= begin) & (moved[left] <= until)]
        ours, theirs = mutual(keys[mine], moved[mine], others[window], second.starts[window])
        ours, theirs = mine[ours], window[theirs]
        near = np.abs(moved[ours] - second.starts[theirs]) <= apart_ns
        alike = _alike(first.lengths[ours], second.lengths[theirs])
        ours, theirs = ours[near & alike], theirs[near & alike]
        line = fit(second.starts[theirs], first.starts[ours] - second.starts[theirs]) if ours.size >= FEWEST else None
        if line is None:
            return None
        moved = line.corrected(first.starts)
        if count >= 2 * right.size:
            break
        count *= 2
        middle = max(0, middle - count // 2)
    return line


def find_clock(first: Ranges, second: Ranges, most_ns: int, fewest: int) -> tuple[Line, Shared] | None:
    """Return the one line on which ranges of both lie within one another, and these; None where none or several do.

    Nothing is known of the offset but that it is at most most_ns. Fewer pairs than `fewest` are no proof.
    """
    keys, others = keys_of(first, second)
    left, right = np.flatnonzero(first.lengths >= 0), np.flatnonzero(second.lengths >= 0)
    right = right[np.isin(others[right], keys[left])]
    right = right[np.argsort(second.starts[right], kind="stable")]
    for at in PLACES if right.size >= fewest else ():
        begin = int(at * right.size)
        offsets = _offsets(first, second, left, right[begin : begin + 2 * FIRST_RANGES], most_ns)
        found: list[tuple[Line, Shared]] = []
        for offset in offsets:
            line = find_line(first, second, offset, at=at, apart_ns=USUALLY_APART_NS)
            if line is None or any(abs(line.offset - other.offset) <= WINDOW_NS for other, _ in found):
                continue
            ours = on_line(first, line)
            shared = share(ours, second)
            if shared.proves(fewest) and not shared.contradicts and _fits(ours, second, keys, shared):
                found.append((line, shared))
        found.sort(key=lambda each: each[1].timed, reverse=True)
        if found and (len(found) == 1 or found[0][1].timed >= 2 * found[1][1].timed):
            return found[0]
    return None


def _fits(first: Ranges, second: Ranges, keys: I64, shared: Shared) -> bool:
    """Return whether starts of pairs differ much more evenly than those of one range and of the next of its partner.

    An even loop of another run also meets this one, but no better than the next turn would.
    """
    order = np.lexsort((first.starts[shared.first], keys[shared.first]))
    ours, theirs = shared.first[order], shared.second[order]
    key = keys[ours]
    apart = second.starts[theirs] - first.starts[ours]
    same = key[1:] == key[:-1]
    ahead = (second.starts[theirs[1:]] - first.starts[ours[:-1]])[same]
    often = np.isin(key, key[:-1][same])
    if ahead.size < FEWEST:
        return True  # names that are there once
    return EVENNESS * _scatter(key[often], apart[often]) <= _scatter(key[:-1][same], ahead)


def _scatter(keys: I64, apart: I64) -> float:
    """Return the median distance of differences from the median of their key."""
    order = np.lexsort((apart, keys))
    _, first, key, counts = np.unique(keys[order], return_index=True, return_inverse=True, return_counts=True)
    middle = apart[order][first + (counts - 1) // 2]
    return float(np.median(np.abs(apart[order] - middle[key])))


def _offsets(first: Ranges, second: Ranges, left: I64, right: I64, most_ns: int) -> list[int]:
    """Return the offsets of the first file at which most of these neighbouring ranges of the second have a partner."""
    keys, others = keys_of(first, second)
    every = _differences(first, second, keys, others, left, right)
    every = every[np.abs(every) <= most_ns]
    meet = np.searchsorted(every, every + FINE_WINDOW_NS, "right") - np.arange(every.size)
    out: list[int] = []
    while len(out) < MOST_TRIED and every.size:
        best = int(meet.argmax())
        if meet[best] < FEWEST:
            break
        out.append(int(np.median(every[best : best + int(meet[best])])))
        meet[np.abs(every - every[best]) <= 2 * FINE_WINDOW_NS] = 0
    return out


def _differences(first: Ranges, second: Ranges, keys: I64, others: I64, left: I64, right: I64) -> I64:
    """Return starts of the second less starts of the first, ascending, of ranges of one name and of like durations."""
    found: list[I64] = []
    budget = MOST_DIFFERENCES
    both, counts = np.unique(keys[left][np.isin(keys[left], others[right])], return_counts=True)
    for key in both[np.argsort(counts, kind="stable")].tolist():
        mine, other = left[keys[left] == key], right[others[right] == key]
        if mine.size * other.size > budget:
            break
        budget -= mine.size * other.size
        apart = second.starts[other][:, None] - first.starts[mine][None, :]
        found.append(apart[_alike(first.lengths[mine][None, :], second.lengths[other][:, None])])
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)


def _alike(lengths: I64, others: I64) -> Mask:
    alike: Mask = np.abs(others - lengths) <= np.maximum(lengths // 5, WINDOW_NS // 4)
    return alike


def on_line(ranges: Ranges, line: Line) -> Ranges:
    """Return the ranges with their times on the clock that the line is against."""
    starts = line.corrected(ranges.starts)
    ends = line.corrected(ranges.starts + np.maximum(ranges.lengths, 0))
    lengths = np.where(ranges.lengths >= 0, ends - starts, ranges.lengths)
    return Ranges(starts, lengths, ranges.threads, ranges.names, ranges.records, ranges.steps)


def find_offset(first: Ranges, second: Ranges) -> int | None:
    """Return the one offset at which ranges of one name lie within one another, None where none or several do.

    A loop that repeats itself evenly meets itself at several offsets.
    """
    keys, others = keys_of(first, second)
    left, right = np.flatnonzero(first.lengths >= 0), np.flatnonzero(second.lengths >= 0)
    every = _differences(first, second, keys, others, left, right)
    if every.size < FEWEST:
        return None
    meet = np.searchsorted(every, every + WINDOW_NS, "right") - np.arange(every.size)
    good: list[tuple[int, int]] = []
    for _ in range(MOST_TRIED):
        best = int(meet.argmax())
        if meet[best] < FEWEST:
            break
        offset = int(np.median(every[best : best + int(meet[best])]))
        found = share(first, second, offset)
        if found.proves(FEWEST):
            good.append((found.timed, offset))
        meet[np.abs(every - every[best]) <= 2 * WINDOW_NS] = 0
    good.sort(reverse=True)
    if not good or (len(good) > 1 and good[0][0] < 2 * good[1][0]):
        return None
    return good[0][1]

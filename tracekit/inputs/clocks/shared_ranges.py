"""Ranges that two files have of one process: which belong together, and how far apart the files' clocks are.

A program that marks a range for two tools (the recorder's log and NVTX, or torch's `record_function`) enters both marks
one after the other, and leaves them in the opposite order. So one of the two ranges lies within the other, and all
pairs together leave an interval of offsets between the two clocks: outside of it some range would begin before the one
around it. An interval that is empty says that the ranges are not the same, or that a clock does not run evenly.

Where the offset between two clocks is not known, it is searched for: the offset, or the line, at which ranges lie
within one another.
"""

from __future__ import annotations

import numpy as np

from tracekit.analysis.clocks.line import ClockLine, fit
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Mask

__all__ = [
    "FEWEST",
    "NO_THREAD",
    "ProcessRanges",
    "SharedRanges",
    "find_clock",
    "find_line",
    "find_offset",
    "on_line",
    "share",
]

NO_THREAD = np.iinfo(np.int64).min
"""The thread of a range that is on none: it may overlap others."""
APART_NS = 2_000_000
"""Two ranges are of one pair where their starts, and their ends, are at most this far apart."""
NESTED_APART_NS = 100_000_000
"""The same where one lies within the other: a thread can lose its processor between two marks."""
USUALLY_APART_NS = 200_000
"""The ranges of a name are the same ones if half of its pairs are at most this far apart, starts and ends together."""
SLACK_NS = 10_000
"""An interval of offsets may be empty by this much: the two marks are not taken at one instant."""
OUTLIERS = 0.05
"""Share of the pairs that may contradict the others."""
FEWEST = 8
"""Pairs that prove two files to be of one process: unrelated ranges lie within one another by chance alone."""


@dataclass(frozen=True, slots=True)
class ProcessRanges:
    """Host ranges and marks of one process, in columns of shape (n,).

    starts: ns. lengths: ns, -1 for a mark and where no end is known. threads: tid or NO_THREAD. names: the same number
    for the same text in both files. records: `event_id`. steps: the step's number, -1 for none.
    """

    starts: I64
    lengths: I64
    threads: I64
    names: I64
    records: I64
    steps: I64

    def take(self, rows: I64 | Mask) -> ProcessRanges:
        """Return some of the ranges."""
        columns = (self.starts, self.lengths, self.threads, self.names, self.records, self.steps)
        return ProcessRanges(*(column[rows] for column in columns))

    def within(self, first: int, last: int) -> I64:
        """Return the places of the ranges that lie within a time, ends included."""
        ends = self.starts + np.maximum(self.lengths, 0)
        return np.flatnonzero((self.starts >= first) & (ends <= last))


@dataclass(frozen=True, slots=True)
class SharedRanges:
    """Pairs of ranges, shape (n,) each: places in the two files. timed: pairs that have durations.

    common: how many ranges of the file that has fewer of them could have a partner. met, inside: how many have a
    nearest one of their name, and with how many of these one lies within the other. low, high: ns to add to the times
    of the first file, so that the ranges of all pairs lie within one another; high < low where none does.
    """

    first: I64
    second: I64
    timed: int
    common: int
    met: int
    inside: int
    low: int
    high: int

    @property
    def nested(self) -> bool:
        """Return whether one offset brings the ranges of the pairs within one another."""
        return self.timed > 0 and self.high - self.low >= -SLACK_NS

    @property
    def most(self) -> bool:
        """Return whether most ranges that could have a partner have one."""
        return 2 * len(self.first) >= self.common > 0

    @property
    def contradicts(self) -> bool:
        """Return whether ranges of one name and thread cross: those of one process do not."""
        return self.met >= 3 and self.inside < (1 - OUTLIERS) * self.met

    def proves(self, fewest: int) -> bool:
        """Return whether so many ranges are in both, and at one offset, that both files are of one process."""
        return self.timed >= fewest and self.most and self.nested

    def offset(self) -> tuple[int, int]:
        """Return the ns to add to the first file's times, and how far the true offset may be from that.

        0 where no offset is needed.
        """
        low, high = min(self.low, self.high), max(self.low, self.high)
        if low <= 0 <= high:
            return 0, max(-low, high)
        return (low + high) // 2, (high - low + 1) // 2


def share(first: ProcessRanges, second: ProcessRanges, offset_ns: int = 0) -> SharedRanges:
    """Return the pairs of two files. offset_ns: added to the times of the first."""
    keys, others = keys_of(first, second)
    ours, theirs = np.isin(keys, others), np.isin(others, keys)
    left, right = np.flatnonzero(ours), np.flatnonzero(theirs)
    if not left.size or not right.size:
        none = np.empty(0, np.int64)
        return SharedRanges(none, none, 0, 0, 0, 0, 0, 0)
    ends = [(r.starts + np.maximum(r.lengths, 0)) for r in (first, second)]
    # A file may be of a part of the time alone: only what lies in both could have a partner.
    begin = max(int(first.starts[left].min()) + offset_ns, int(second.starts[right].min())) - APART_NS
    end = min(int(ends[0][left].max()) + offset_ns, int(ends[1][right].max())) + APART_NS
    left = left[np.isin(left, first.within(begin - offset_ns, end - offset_ns))]
    right = right[np.isin(right, second.within(begin, end))]
    at, to = mutual(keys[left], first.starts[left] + offset_ns, others[right], second.starts[right])
    at, to = left[at], right[to]
    starts = second.starts[to] - first.starts[at] - offset_ns
    stops = ends[1][to] - ends[0][at] - offset_ns
    timed = (first.lengths[at] >= 0) & (second.lengths[to] >= 0)
    inside = ((starts <= SLACK_NS) & (stops >= -SLACK_NS)) | ((starts >= -SLACK_NS) & (stops <= SLACK_NS))
    met = int(np.count_nonzero(timed)), int(np.count_nonzero(inside & timed))
    most = np.where(inside, NESTED_APART_NS, APART_NS)
    near = (np.abs(starts) <= most) & (np.abs(stops) <= most)
    near &= timed | ((first.lengths[at] < 0) & (second.lengths[to] < 0))
    near &= _usually_near(keys[at], np.abs(starts) + np.abs(stops))
    at, to, starts, stops, timed = at[near], to[near], starts[near], stops[near], timed[near]
    more, more_to = _between(keys, first.starts + offset_ns, left, at, others, second.starts, right, to)
    late_starts = second.starts[more_to] - first.starts[more] - offset_ns
    late_stops = ends[1][more_to] - ends[0][more] - offset_ns
    within = (late_starts <= 0) & (late_stops >= 0) | (late_starts >= 0) & (late_stops <= 0)
    within &= (first.lengths[more] >= 0) & (second.lengths[more_to] >= 0)
    within &= np.maximum(np.abs(late_starts), np.abs(late_stops)) <= NESTED_APART_NS
    at, to = np.concatenate((at, more[within])), np.concatenate((to, more_to[within]))
    starts, stops = np.concatenate((starts, late_starts[within])), np.concatenate((stops, late_stops[within]))
    timed = np.concatenate((timed, np.ones(int(within.sum()), np.bool_)))
    low, high = _bounds(keys[at][timed], starts[timed], stops[timed])
    common = min(left.size, right.size)
    return SharedRanges(at, to, int(np.count_nonzero(timed)), common, *met, low + offset_ns, high + offset_ns)


def keys_of(first: ProcessRanges, second: ProcessRanges) -> tuple[I64, I64]:
    """Return one number for each thread and name, the same in both files."""
    threads = np.unique(np.concatenate((first.threads, second.threads)), return_inverse=True)[1]
    names = np.concatenate((first.names, second.names))
    keys = threads * (int(names.max(initial=0)) + 1) + names
    return keys[: len(first.starts)], keys[len(first.starts) :]


def mutual(keys: I64, starts: I64, other_keys: I64, other_starts: I64) -> tuple[I64, I64]:
    """Return the places of items that are each other's nearest of their key, by start."""
    n, m = len(keys), len(other_keys)
    key = np.concatenate((keys, other_keys))
    start = np.concatenate((starts, other_starts))
    order = np.lexsort((start, key))
    key, start, ours = key[order], start[order], order < n
    place = np.arange(n + m)

    def nearest(wanted: Mask) -> I64:
        before = np.maximum.accumulate(np.where(wanted, place, -1))
        after = np.minimum.accumulate(np.where(wanted, place, n + m)[::-1])[::-1]
        no_before = (before < 0) | (key[before] != key)
        after_in = np.minimum(after, n + m - 1)
        no_after = (after >= n + m) | (key[after_in] != key)
        back, ahead = start - start[before], start[after_in] - start
        choice = np.where(no_before | (~no_after & (ahead < back)), after_in, before)
        return np.where(no_before & no_after, -1, choice)

    of_theirs, of_ours = nearest(~ours), nearest(ours)
    candidates = np.flatnonzero(ours & (of_theirs >= 0))
    partner = of_theirs[candidates]
    mutual = of_ours[partner] == candidates
    return order[candidates[mutual]], order[partner[mutual]] - n


def _between(
    keys: I64, starts: I64, left: I64, at: I64, other_keys: I64, other_starts: I64, right: I64, to: I64
) -> tuple[I64, I64]:
    """Return the items without a partner that are the only ones of their key between two pairs, in both files.

    Where a thread lost its processor between two marks, the start of the next turn can be nearer than its partner's.
    """
    places = []
    for key, start, rows, paired in ((keys, starts, left, at), (other_keys, other_starts, right, to)):
        order = rows[np.lexsort((start[rows], key[rows]))]
        done = np.isin(order, paired)
        pairs_before: I64 = np.cumsum(done)
        begins = np.concatenate(([True], key[order][1:] != key[order][:-1]))
        pairs_before = pairs_before - (pairs_before - done)[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
        free = ~done
        gap = key[order][free] * (len(keys) + len(other_keys) + 1) + pairs_before[free]
        gap, first, count = np.unique(gap, return_index=True, return_counts=True)
        places.append((gap[count == 1], order[free][first[count == 1]]))
    (gaps, first_items), (other_gaps, theirs) = places
    _, first_at, there = np.intersect1d(gaps, other_gaps, assume_unique=True, return_indices=True)
    return first_items[first_at], theirs[there]


def _usually_near(keys: I64, apart: I64) -> Mask:
    """Return for each pair whether the pairs of its key are usually near each other."""
    order = np.lexsort((apart, keys))
    _, first, key, counts = np.unique(keys[order], return_index=True, return_inverse=True, return_counts=True)
    median = apart[order][first + (counts - 1) // 2]
    near = np.empty(keys.size, np.bool_)
    near[order] = (median <= USUALLY_APART_NS)[key]
    return near


def _bounds(keys: I64, starts: I64, stops: I64) -> tuple[int, int]:
    """Return the least and the largest offset of the first file. starts, stops: second less first.

    A name is at one place of the program, so all its pairs are nested the same way.
    """
    if not keys.size:
        return 0, 0
    _, key = np.unique(keys, return_inverse=True)
    # Length of the second less that of the first: above 0 where the second is around the first.
    around = np.bincount(key, np.sign(stops - starts))[key] >= 0
    low, high = np.where(around, starts, stops), np.where(around, stops, starts)
    trimmed = int(keys.size * OUTLIERS)
    return int(np.sort(low)[keys.size - 1 - trimmed]), int(np.sort(high)[trimmed])


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
    first: ProcessRanges, second: ProcessRanges, offset_ns: int, *, at: float = 0.0, apart_ns: int = APART_NS
) -> ClockLine | None:
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
        in_window = left[(moved[left] >= begin) & (moved[left] <= until)]
        ours, theirs = mutual(keys[in_window], moved[in_window], others[window], second.starts[window])
        ours, theirs = in_window[ours], window[theirs]
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


def find_clock(
    first: ProcessRanges, second: ProcessRanges, most_ns: int, fewest: int
) -> tuple[ClockLine, SharedRanges] | None:
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
        lines: list[tuple[ClockLine, SharedRanges]] = []
        for offset in offsets:
            line = find_line(first, second, offset, at=at, apart_ns=USUALLY_APART_NS)
            if line is None or any(abs(line.offset - other.offset) <= WINDOW_NS for other, _ in lines):
                continue
            ours = on_line(first, line)
            shared = share(ours, second)
            if shared.proves(fewest) and not shared.contradicts and _fits(ours, second, keys, shared):
                lines.append((line, shared))
        lines.sort(key=lambda each: each[1].timed, reverse=True)
        if lines and (len(lines) == 1 or lines[0][1].timed >= 2 * lines[1][1].timed):
            return lines[0]
    return None


def _fits(first: ProcessRanges, second: ProcessRanges, keys: I64, shared: SharedRanges) -> bool:
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


def _offsets(first: ProcessRanges, second: ProcessRanges, left: I64, right: I64, most_ns: int) -> list[int]:
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


def _differences(first: ProcessRanges, second: ProcessRanges, keys: I64, others: I64, left: I64, right: I64) -> I64:
    """Return starts of the second less starts of the first, ascending, of ranges of one name and of like durations."""
    differences: list[I64] = []
    budget = MOST_DIFFERENCES
    both, counts = np.unique(keys[left][np.isin(keys[left], others[right])], return_counts=True)
    for key in both[np.argsort(counts, kind="stable")].tolist():
        of_key, other = left[keys[left] == key], right[others[right] == key]
        if of_key.size * other.size > budget:
            break
        budget -= of_key.size * other.size
        apart = second.starts[other][:, None] - first.starts[of_key][None, :]
        differences.append(apart[_alike(first.lengths[of_key][None, :], second.lengths[other][:, None])])
    return np.sort(np.concatenate(differences)) if differences else np.empty(0, np.int64)


def _alike(lengths: I64, others: I64) -> Mask:
    alike: Mask = np.abs(others - lengths) <= np.maximum(lengths // 5, WINDOW_NS // 4)
    return alike


def on_line(ranges: ProcessRanges, line: ClockLine) -> ProcessRanges:
    """Return the ranges with their times on the clock that the line is against."""
    starts = line.corrected(ranges.starts)
    ends = line.corrected(ranges.starts + np.maximum(ranges.lengths, 0))
    lengths = np.where(ranges.lengths >= 0, ends - starts, ranges.lengths)
    return ProcessRanges(starts, lengths, ranges.threads, ranges.names, ranges.records, ranges.steps)


def find_offset(first: ProcessRanges, second: ProcessRanges) -> int | None:
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
        shared = share(first, second, offset)
        if shared.proves(FEWEST):
            good.append((shared.timed, offset))
        meet[np.abs(every - every[best]) <= 2 * WINDOW_NS] = 0
    good.sort(reverse=True)
    if not good or (len(good) > 1 and good[0][0] < 2 * good[1][0]):
        return None
    return good[0][1]

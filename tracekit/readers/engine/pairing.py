"""Begins and ends become ranges: one engine for all formats that record the two apart.

Formats agree on less than it seems. A reader names the rule of its format:

- Chrome's B/E and b/e (`TRACE_EVENT`): an end closes the innermost open begin of its name, without a name the innermost
  one. What is open within it stays open.
- Perfetto's slices (`SLICES`): the same, but a begin without a name fits each end, and what is open within ends too.
- our recorder's ranges (`NESTED`): an end closes the innermost open begin of its number, and ends what is open within.
- items with a handle (`take_turns`): an end closes the begin right before it that has its handle.
- records with a key, read one by one (`OpenRanges`): an end closes the last open begin of its key.

The first four work on whole columns, because a loop over a million rows takes longer than reading them. In nearly all
files begins and ends nest, and then the depth alone says who ends whom: in one lane, begins and ends of one depth take
turns, so one sort by lane and depth brings each begin before its end. Lanes in which a name contradicts that are
matched row by row by the rule of their format. `OpenRanges` is for readers that make one row at a time anyway: their
begins are objects, not rows of a column.

Perfetto's importers share one tracker in the same way. Source of its rule: `MatchingIncompleteSliceIndex` in
src/trace_processor/importers/common/slice_tracker.cc.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I32, I64, Mask
from tracekit.model.trace import Ledger

__all__ = [
    "MOST_OPEN",
    "NESTED",
    "SLICES",
    "TRACE_EVENT",
    "OpenRanges",
    "PairingRule",
    "drop_lost_ends",
    "match",
    "match_by_depth",
    "note_without_end",
    "take_turns",
]

MOST_OPEN = 1 << 16
"""Begins of one lane that wait for their end. Of more, the outermost get none: memory is bounded."""
_MOST_SEARCHED = 1 << 10
"""Open slices that an end with a name is compared with, the innermost first."""

Texts: TypeAlias = I32 | I64
"""Numbers of texts, equal for equal texts, -1 for none."""
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class PairingRule:
    """The rule of a format. ends_inner: an end also ends what is open within. any_end: a nameless begin fits each."""

    ends_inner: bool
    any_end: bool = False


TRACE_EVENT = PairingRule(ends_inner=False)
SLICES = PairingRule(ends_inner=True, any_end=True)
NESTED = PairingRule(ends_inner=True)


@dataclass(frozen=True, slots=True, eq=False)
class NestedPairs:
    """Rows that depth alone matches. begin, end: rows of each pair. lost: the ends for which nothing was open."""

    begin: I64
    end: I64
    lost: I64


def take_turns(key: I64, begins: Mask) -> tuple[I64, I64]:
    """Return the rows of begins and of their ends: the next row of the same key, if that is an end.

    key, begins: shape (n,), rows in the order in which they happened.
    >>> take_turns(np.array([7, 8, 7, 8]), np.array([True, True, False, True]))
    (array([0]), array([2]))
    """
    order = np.argsort(key, kind="stable")
    one, two = order[:-1], order[1:]
    pairs = begins[one] & ~begins[two] & (key[one] == key[two])
    return one[pairs], two[pairs]


def nest(begins: Mask, lane: I64 | None = None) -> NestedPairs:
    """Match begins and ends by depth, whatever their names are.

    begins: shape (n,), rows of a lane in the order in which they happened. lane: ascending, None for one lane.
    >>> found = nest(np.array([True, True, False, False, False]))
    >>> sorted(zip(found.begin.tolist(), found.end.tolist())), found.lost
    ([(0, 3), (1, 2)], array([4]))
    """
    count = len(begins)
    if not count:
        none = np.empty(0, np.int64)
        return NestedPairs(none, none, none)
    height = np.cumsum(np.where(begins, 1, -1))
    number = np.zeros(count, np.int64)
    if lane is not None:
        change = np.empty(count, np.bool_)
        change[0] = True
        np.not_equal(lane[1:], lane[:-1], out=change[1:])
        number = np.cumsum(change) - 1
        heads = np.flatnonzero(change)
        height -= np.append(0, height)[heads][number]
    kept = lost = np.empty(0, np.int64)
    everything = int(height.min()) >= 0
    depth = height + ~begins
    if not everything:
        # The least height so far in the lane, at most 0: ends below it have nothing to close.
        span = 2 * count + 2
        least = np.minimum.accumulate(np.minimum(height, 0) - number * span) + number * span
        before = np.append(0, least[:-1])
        if lane is not None:
            before[change] = 0
        is_lost = ~begins & (height == least) & (before > least)
        kept, lost = np.flatnonzero(~is_lost), np.flatnonzero(is_lost)
        depth, number, begins = (depth - least)[kept], number[kept], begins[kept]
    key = depth if lane is None else number * (int(depth.max(initial=0)) + 1) + depth
    if int(key.max(initial=0)) < 1 << 15:
        key = key.astype(np.int16)  # two bytes are sorted by radix, in one pass over the rows
    begin, end = take_turns(key, begins)
    return NestedPairs(begin, end, lost) if everything else NestedPairs(kept[begin], kept[end], lost)


def match(begins: Mask, lane: I64 | None, rule: PairingRule, name: Texts, category: Texts | None = None) -> I64:
    """Return for each begin the row of its end, and for each end that of its begin; -1 without one.

    begins, lane: as for `nest`. name, category: numbers of texts, -1 for none. An end that states both needs both.
    """
    partner, odd = match_by_depth(begins, lane, rule, name, category)
    if not len(odd):
        return partner
    heads, ends = np.zeros(1, np.int64), np.array([len(begins)])
    if lane is not None:
        heads = np.flatnonzero(np.append(True, lane[1:] != lane[:-1]))
        ends = np.append(heads[1:], len(lane))
    at = np.searchsorted(heads, odd, "right") - 1
    for first, last in zip(heads[at].tolist(), ends[at].tolist(), strict=True):
        kinds, names = begins[first:last].tolist(), name[first:last].tolist()
        if rule.any_end:
            groups = [-1] * len(names) if category is None else category[first:last].tolist()
            partners = np.array(_first_that_fits(kinds, names, groups), np.int64)
        else:
            partners = np.array(_by_name(kinds, names, ends_inner=rule.ends_inner), np.int64)
        partner[first:last] = np.where(partners >= 0, partners + first, -1)
    return partner


def match_by_depth(
    begins: Mask, lane: I64 | None, rule: PairingRule, name: Texts, category: Texts | None = None
) -> tuple[I64, I64]:
    """Return partners as `match` does, and one row of each lane in which names disagree: its partners are wrong."""
    partner = np.full(len(begins), -1, np.int64)
    nested = nest(begins, lane)
    partner[nested.begin], partner[nested.end] = nested.end, nested.begin
    odd = np.zeros(len(nested.end), np.bool_)
    for texts in (name,) if category is None else (name, category):
        of_begin, of_end = texts[nested.begin], texts[nested.end]
        differs = (of_end >= 0) & (of_end != of_begin)
        odd |= differs & (of_begin >= 0) if rule.any_end else differs
    rows = nested.end[odd]
    if len(rows):
        rows = rows[:1] if lane is None else rows[np.unique(lane[rows], return_index=True)[1]]
    return partner, rows


def _first_that_fits(begins: list[bool], names: list[int], groups: list[int]) -> list[int]:
    """Return the partners of the rows of one lane as Perfetto has them: a text that is missing on either side fits."""
    partner = [-1] * len(begins)
    stack: list[tuple[int, int, int]] = []
    for row, (begin, text, group) in enumerate(zip(begins, names, groups, strict=True)):
        if begin:
            stack.append((row, text, group))
            if len(stack) > MOST_OPEN:
                del stack[0]
            continue
        for at in range(len(stack) - 1, max(len(stack) - _MOST_SEARCHED, 0) - 1, -1):
            other, begin_text, own_group = stack[at]
            if (text < 0 or begin_text < 0 or text == begin_text) and (
                group < 0 or own_group < 0 or group == own_group
            ):
                for inner, _, _ in stack[at:]:
                    partner[inner] = row
                partner[row] = other
                del stack[at:]
                break
    return partner


def _by_name(begins: list[bool], names: list[int], *, ends_inner: bool) -> list[int]:
    """Return the partners of the rows of one lane, found by the exact name of an end."""
    partner = [-1] * len(begins)
    stack: list[int] = []
    by_name: dict[int, list[int]] = {}
    ended: set[int] = set()  # begins that are still in the stack, below others that are open
    for row, (begin, text) in enumerate(zip(begins, names, strict=True)):
        if begin:
            stack.append(row)
            by_name.setdefault(text, []).append(row)
            continue
        if text >= 0:
            open_begins = by_name.get(text)
        else:
            while stack and stack[-1] in ended:
                ended.discard(stack.pop())
            open_begins = by_name[names[stack[-1]]] if stack else None
        if not open_begins:
            continue
        begun = open_begins.pop()
        partner[begun], partner[row] = row, begun
        if stack[-1] == begun:
            stack.pop()
        elif ends_inner:
            while (inner := stack.pop()) != begun:
                by_name[names[inner]].pop()
                partner[inner] = row
        else:
            ended.add(begun)
    return partner


def drop_lost_ends(ledger: Ledger, what: str, record: str, numbers: I64) -> None:
    """Drop ends that have no begin. what, record: what the format calls ranges and records; numbers: of the ends."""
    if len(numbers):
        where = f"{record} {int(numbers.min())}"
        ledger.drop("end-without-begin", len(numbers), where=where, text=f"dropped: ends of {what} that did not begin")


def note_without_end(ledger: Ledger, what: str, record: str, numbers: I64) -> None:
    """Note begins that have no end, and so no duration. what, record, numbers: as for `drop_lost_ends`."""
    if len(numbers):
        where = f"{record} {int(numbers.min())}"
        ledger.note("open-range", f"{what} have no end: their duration is not known", len(numbers), where=where)


class OpenRanges(Generic[K, V]):
    """Begins that are open, by key, for a reader that takes one record after the other.

    most: of more open ranges the one whose key is open longest is given up. Without it keys are few, as names are.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._open: dict[K, list[V]] = {}
        self._count = 0

    def begin(self, key: K, value: V) -> V | None:
        """Take a begin. Return one that is given up for it, None where there is room."""
        oldest = None
        if self._most is not None and self._count >= self._most:
            oldest = self._pop(next(iter(self._open)), 0)
        self._open.setdefault(key, []).append(value)
        self._count += 1
        return oldest

    def end(self, key: K) -> V | None:
        """Return the last open begin of a key, which its end closes; None where there is none."""
        return self._pop(key, -1) if self._open.get(key) else None

    def _pop(self, key: K, place: int) -> V:
        begun = self._open[key].pop(place)
        self._count -= 1
        if self._most is not None and not self._open[key]:
            del self._open[key]  # ids are many, and come once
        return begun

    def left(self) -> Iterator[tuple[K, V]]:
        """Yield the begins that are still open, key by key, keys in order of their first begin."""
        for key, begun in self._open.items():
            for value in begun:
                yield key, value

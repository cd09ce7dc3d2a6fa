"""Groups of ranks that come late to collectives together: a slow node, a parallel group, or ranks that nothing names.

A rank that comes last now and then is no straggler where its whole node is slow: each of its ranks is last in turn.
Known groups (hosts, and the parallel groups that the files name) are compared with each other: a group comes late to a
collective if its median rank comes later than the median of all others, by more than the clocks' uncertainty. Ranks
that nothing groups are split where their median lateness has its widest gap; such a set comes late to a collective
only if all its ranks come after all others. Both are binomial tests at 1 %, corrected for the number of sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from tracekit.analysis.clocks.matched_collectives import RankClocks
from tracekit.index import owners as _owners
from tracekit.index import rank_groups
from tracekit.index.matched_collectives import MatchedCollectives
from tracekit.index.parallel_groups import HOST, listed
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import F64, I64, Mask
from tracekit.views.ranks.skews import CHANCE, LEAST_LATE, Skews, tail_chance

__all__ = ["LateGroup", "late_groups", "members_named", "ranks_named", "too_many"]

MOST_CELLS = 1 << 25
"""The most starts (collectives times ranks) that are compared: more would take gigabytes."""
_MOSTLY = 0.75
"""The least share of its collectives to which a known group comes late."""
_ALIKE = 0.5
"""The least lateness of each member, as a share of the median member's: a group is late as a whole."""
_MOST_SETS = 64
"""The most groups of a dimension that are compared."""


@dataclass(frozen=True, slots=True, eq=False)
class LateGroup:
    """A group that came late to `last` of `trials` collectives.

    name: for a sentence. is_known: the files name the group; otherwise `name` lists its ranks. owners: its members.
    median: of the ns from the last of the other ranks to the last of its own; late: their sum. meetings: the numbers of
    the collectives; lateness: the ns of each.
    """

    name: str
    is_known: bool
    owners: tuple[int, ...]
    last: int
    trials: int
    median: int
    late: int
    meetings: I64
    lateness: I64


@dataclass(frozen=True, slots=True, eq=False)
class _Arrivals:
    """The collectives as a table of (meeting, owner), shape (m, n): the start in ns, NaN where a rank took no part."""

    starts: F64
    unsure: F64
    judged: Mask


def late_groups(
    index: TraceIndex, owners: _owners.Owners, met: MatchedCollectives, skews: Skews, clocks: RankClocks
) -> list[LateGroup]:
    """Return the groups of two ranks or more that come late together, the latest first; none within another."""
    here = sets.unique(met.owner)
    if here.size < 3 or not skews.judged.any() or too_many(owners, met):
        return []
    arrivals = _arrivals(owners, met, skews, clocks)
    found: list[LateGroup] = []
    for noun, known in _known(index, owners, here):
        for name, group in known:
            if (late := _tested(arrivals, here, name, group, len(known), strict=False)) is not None:
                found.append(late)
        if found and noun == HOST:
            break  # what a host explains is not said again of its parallel groups
    if not found:
        for group in _split(arrivals, here):
            name = ranks_named(owners, group)
            sets_of_size = math.comb(here.size, len(group)) * here.size
            if (late := _tested(arrivals, here, name, group, sets_of_size, strict=True)) is not None:
                found.append(late)
    found.sort(key=lambda each: (-each.late, each.owners))
    out: list[LateGroup] = []
    for each in found:
        if not any(set(each.owners) & set(other.owners) for other in out):
            out.append(each)
    return out


def too_many(owners: _owners.Owners, met: MatchedCollectives) -> bool:
    """Return whether the run has more collectives and ranks than are compared group by group."""
    return met.count * len(owners) > MOST_CELLS


def ranks_named(owners: _owners.Owners, group: Sequence[int]) -> str:
    """Return the name of several ranks: "ranks 4-7"."""
    return f"ranks {members_named(owners, group)}"


def members_named(owners: _owners.Owners, group: Sequence[int]) -> str:
    """Return the numbers of several ranks: "4-7"."""
    return listed([_number(owners, o) for o in group])


def _number(owners: _owners.Owners, owner: int) -> int:
    rank = owners.ranks[owner]
    return rank if isinstance(rank, int) else owner


def _arrivals(owners: _owners.Owners, met: MatchedCollectives, skews: Skews, clocks: RankClocks) -> _Arrivals:
    starts = np.full((met.count, len(owners)), np.nan)
    corrected = clocks.corrected(met.owner, met.starts)
    origin = int(corrected.min())
    starts[met.meeting, met.owner] = corrected - origin
    return _Arrivals(starts, clocks.uncertainty.astype(np.float64), skews.judged)


def _known(
    index: TraceIndex, owners: _owners.Owners, here: I64
) -> Iterator[tuple[str, list[tuple[str, tuple[int, ...]]]]]:
    """Yield the dimensions in which the files name groups, with the groups that have two members or more."""
    first = np.full(len(owners), -1, np.int64)
    places, at = np.unique(owners.codes, return_index=True)
    first[places] = at
    for noun in (HOST, *rank_groups.dimensions(index).labels):
        groups = rank_groups.find(index, noun)
        of_owner = groups.events[first[here]]
        named = []
        for number in sets.unique(of_owner).tolist():
            members = tuple(here[of_owner == number].tolist())
            if number != groups.unknown and 2 <= len(members) < here.size:
                name = groups.labels[number] if noun != HOST else f"host {groups.labels[number]}"
                named.append((name, members))
        if 0 < len(named) <= _MOST_SETS:
            yield noun, named


def _split(arrivals: _Arrivals, here: I64) -> Iterator[tuple[int, ...]]:
    """Yield the ranks after the widest gap of the median lateness, if they are two or more and at most half of all."""
    table = arrivals.starts[arrivals.judged][:, here]
    whole = np.isfinite(table).sum(axis=1) >= 3
    if not whole.any():
        return
    lateness = table[whole] - np.nanmedian(table[whole], axis=1, keepdims=True)
    present = np.isfinite(lateness).any(axis=0)
    typical = np.where(present, 0.0, -np.inf)
    typical[present] = np.nanmedian(lateness[:, present], axis=0)
    order = np.argsort(typical, kind="stable")
    gaps = np.diff(typical[order])
    first = here.size // 2 + here.size % 2  # the first place of the later half
    wide = np.flatnonzero(np.isfinite(gaps))
    wide = wide[wide + 1 >= first]
    at = int(wide[gaps[wide].argmax()]) + 1 if wide.size else here.size
    if at <= here.size - 2:  # one rank alone is a straggler, not a group
        yield tuple(sorted(here[order[at:]].tolist()))


def _tested(
    arrivals: _Arrivals, here: I64, name: str, group: tuple[int, ...], sets: int, *, strict: bool
) -> LateGroup | None:
    """Return the group if it comes late more often than by chance.

    strict: a collective counts only if all ranks of the group come after all others.
    """
    others = [o for o in here.tolist() if o not in group]
    table = arrivals.starts
    own, rest = table[:, list(group)], table[:, others]
    both = arrivals.judged & np.isfinite(own).any(axis=1) & np.isfinite(rest).any(axis=1)
    meetings = np.flatnonzero(both)
    if meetings.size < LEAST_LATE:
        return None
    own, rest = own[meetings], rest[meetings]
    unsure = float(arrivals.unsure[list(group)].max() + arrivals.unsure[others].max())
    distance = np.nanmin(own, axis=1) - np.nanmax(rest, axis=1)
    chance = 1 / math.comb(here.size, len(group))
    if not strict:
        distance, chance = np.nanmedian(own, axis=1) - np.nanmedian(rest, axis=1), 0.5
    late = distance > unsure
    last, trials = int(np.count_nonzero(late)), meetings.size
    if last < LEAST_LATE or tail_chance(last, trials, chance) * sets > CHANCE or last < _MOSTLY * trials:
        return None
    # One straggler moves the median of a small group: each member must be later than the typical other rank.
    middle = np.nanmedian(rest, axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        of_members = np.array([_median(column) for column in (own - middle).T])
        of_others = np.array([_median(column) for column in (rest - middle).T])
    if not (of_members > max(unsure, float(np.nanmedian(of_others)))).all():
        return None
    if of_members.min() < _ALIKE * np.median(of_members):
        return None
    by = np.maximum(np.nanmax(own, axis=1) - np.nanmax(rest, axis=1), 0)[late]
    median, whole = round(float(np.median(by))), round(float(by.sum()))
    return LateGroup(name, not strict, group, last, trials, median, whole, meetings[late], np.ceil(by).astype(np.int64))


def _median(values: F64) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if known.size else -math.inf

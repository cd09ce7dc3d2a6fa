"""Collectives over ranks: the rows of different ranks that are one and the same collective.

Rows are kernels that communicate. A rank without any has host rows of kind communication instead (but not nccl:...:
such a range ends when the collective is queued). Sends and receives are no meetings.

A collective is identified by its process group and its number in it (TraceLens): Kineto's "Seq", else its place in
order of start. Without a group it is identified by its operation and its place among those of that name, stream by
stream. Rows with the identity of one collective but different operations are left out and counted: one of the traces
begins or ends elsewhere.
"""

from __future__ import annotations

import re

import numpy as np

from tracekit.index import collectives, grouping
from tracekit.index import owners as _owners
from tracekit.index.sources import synthetic_sources
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model.arrow import I64, Mask
from tracekit.model.patterns import rows_found
from tracekit.model.schema import Kind

__all__ = ["COLUMNS", "Candidates", "MatchedCollectives", "candidates", "communication", "find", "matched", "only"]

COLUMNS = _owners.COLUMNS | {"ts_ns", "dur_ns", "name", "device", "stream", "bytes", "args"}

_PAIRS = lazy_pattern(r"(?:^|[^a-z])i?(?:send|recv|send_?recv)", re.IGNORECASE)
_QUEUED = lazy_pattern(r"^(?:nccl|rccl|xccl|hccl):")
_TOGETHER = lazy_pattern(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier", re.IGNORECASE)
"""Operations that no rank leaves before the last one has entered: a broadcast's root may."""


@dataclass(frozen=True, slots=True, eq=False)
class MatchedCollectives:
    """Rows that met rows of other owners, in order of (meeting, owner); shape (n,).

    rows: of EVENTS; meeting: 0 .. count - 1, in order of their first start; owner. kind: of each meeting, shape
    (count,), an index into `names`: (operation, group, number of owners). together: for each meeting, whether its ends
    can align clocks. place: for each meeting, its number in its group or among those of its name. alone: rows that met
    no other; misfits: rows with the identity of one collective but different operations.
    """

    rows: I64
    meeting: I64
    owner: I64
    starts: I64
    ends: I64
    kind: I64
    names: list[tuple[str, str | None, int]]
    together: Mask
    place: I64
    alone: int
    misfits: int
    queued: int

    @property
    def count(self) -> int:
        """Return the number of meetings."""
        return int(self.kind.size)


def communication(index: TraceIndex, owners: _owners.Owners) -> tuple[I64, int]:
    """Return the rows that may be collectives, and the number of host rows that only queued one."""
    made_up = index.of_sources(synthetic_sources(index))
    on_device = collectives.kernels(index)[0]
    kind = index.kind_mask({Kind.COMMUNICATION}) & index.has("dur_ns")
    placed = index.has("device")
    on_device = np.concatenate((on_device, np.flatnonzero(kind & placed)))
    on_device = on_device[~made_up[on_device]]
    has = np.zeros(len(owners), np.bool_)
    has[owners.codes[on_device]] = True
    on_host = np.flatnonzero(kind & ~placed & ~made_up)
    on_host = on_host[~has[owners.codes[on_host]]]
    codes, names = index.texts("name")
    queue = rows_found(_QUEUED, names, codes[on_host])
    return np.sort(np.concatenate((on_device, on_host[~queue]))), int(np.count_nonzero(queue))


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Rows that may be collectives of several ranks; shape (n,).

    rows: of EVENTS; owner, starts, ends; lane: the place of the row's stream among those of its owner. operation,
    group, members: what a row says of its collective; number: of the collective in its group, -1 for none. size: bytes
    that the rank put in, -1 where it is not known; ranks: the number of ranks in the group, 0 where it is not known.
    queued: host rows that only queued a collective, which are not among these.
    """

    rows: I64
    owner: I64
    starts: I64
    ends: I64
    lane: I64
    operation: grouping.Key
    group: grouping.Key
    members: grouping.Key
    number: I64
    size: I64
    ranks: I64
    queued: int


@join
def find(index: TraceIndex, owners: _owners.Owners) -> MatchedCollectives:
    """Return the collectives that rows of at least two owners took part in."""
    return matched(candidates(index, owners))


@join
def candidates(index: TraceIndex, owners: _owners.Owners) -> Candidates:
    """Return the rows that may be collectives."""
    rows, queued = communication(index, owners)
    found = collectives.described(index, rows)
    pair = np.array([one.name is not None and _PAIRS.search(one.name) is not None for one in found], np.bool_)
    rows, found = rows[~pair], [one for one, skip in zip(found, pair.tolist(), strict=True) if not skip]
    operation, group = collectives.group_cells(found)
    starts = index.starts[rows]
    owner = owners.codes[rows]
    return Candidates(
        rows,
        owner,
        starts,
        starts + index.lengths[rows],
        _lane_places(index, rows, owner),
        operation,
        group,
        collectives.key_of([one.ranks for one in found]),
        np.array([one.number for one in found], np.int64),
        np.array([-1 if one.size is None else one.size for one in found], np.int64),
        np.array([one.members or 0 for one in found], np.int64),
        queued,
    )


def matched(of: Candidates) -> MatchedCollectives:
    """Return the collectives that at least two owners took part in."""
    rows, owner, starts, ends, seq = of.rows, of.owner, of.starts, of.ends, of.number
    operation, group, members, lane, queued = of.operation, of.group, of.members, of.lane, of.queued

    # The identity of a collective: group and members, or else operation and the stream's place among the owner's.
    grouped = group.codes > 0
    zero = np.zeros(rows.size, np.int64)
    key = (
        grouping.group_by(
            group,
            members,
            grouping.Key(np.where(grouped, 0, operation.codes), operation.labels),
            grouping.Key(np.where(grouped, zero, lane), range(int(lane.max(initial=0)) + 1)),
        )
        if rows.size
        else grouping.Groups(zero, 0, ())
    )
    place = _places(owner, key.codes, starts, _usable(key, owner, seq, grouped))
    width = int(place.max(initial=0)) + 1
    meeting = np.unique(key.codes * width + place, return_inverse=True)[1].astype(np.int64)

    count = int(meeting.max(initial=-1)) + 1
    # A meeting needs two rows or more, all of one operation. Others are counted for the notes, and left out.
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1)
    np.minimum.at(low, meeting, operation.codes)
    np.maximum.at(high, meeting, operation.codes)
    size = np.bincount(meeting, minlength=count)
    good = (size > 1) & (low == high)
    keep = good[meeting]
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, meeting, starts)
    number = np.full(count, -1)
    # Meetings are numbered by their first start, whatever the order of the inputs.
    chosen = np.flatnonzero(good)
    chosen = chosen[np.lexsort((chosen, first[chosen]))]
    number[chosen] = np.arange(chosen.size)

    at = np.flatnonzero(keep)
    at = at[np.lexsort((owner[at], number[meeting[at]]))]
    one = np.unique(number[meeting[at]], return_index=True)[1]
    kinds = [
        (str(operation.labels[operation.codes[i]] or "(no name)"), _text(group.labels[group.codes[i]]), int(n))
        for i, n in zip(at[one].tolist(), size[meeting[at[one]]].tolist(), strict=True)
    ]
    names = sorted(set(kinds), key=lambda each: (each[0], each[1] or "", each[2]))
    code = {each: i for i, each in enumerate(names)}
    kind = np.array([code[each] for each in kinds], np.int64)
    together = np.array([_TOGETHER.search(name) is not None for name, _, _ in names], np.bool_)
    return MatchedCollectives(
        rows[at],
        number[meeting[at]],
        owner[at],
        starts[at],
        ends[at],
        kind,
        names,
        together[kind] if kind.size else np.zeros(0, np.bool_),
        place[at[one]],
        int(np.count_nonzero((size == 1)[meeting])),
        int(np.count_nonzero(((size > 1) & (low != high))[meeting])),
        queued,
    )


def only(met: MatchedCollectives, keep: Mask) -> MatchedCollectives:
    """Return some of the meetings alone. keep: shape (count,)."""
    mine = keep[met.meeting]
    number = np.cumsum(keep) - 1
    return MatchedCollectives(
        met.rows[mine],
        number[met.meeting[mine]],
        met.owner[mine],
        met.starts[mine],
        met.ends[mine],
        met.kind[keep],
        met.names,
        met.together[keep],
        met.place[keep],
        met.alone,
        met.misfits,
        met.queued,
    )


def _text(cell: object) -> str | None:
    return None if cell is None else str(cell)


def _lane_places(index: TraceIndex, rows: I64, owner: I64) -> I64:
    """Return for each row the place of its stream among those of its owner, in order of their first row."""
    if not rows.size:
        return np.zeros(0, np.int64)
    groups = grouping.group_by(
        grouping.Key(owner, range(int(owner.max()) + 1)),
        index.key("device", rows),
        index.key("stream", rows),
    )
    lanes, first = np.unique(groups.codes, return_index=True)
    lane_owner = owner[first]
    order = np.lexsort((first, lane_owner))
    begins = np.append(True, lane_owner[order][1:] != lane_owner[order][:-1])
    place = np.empty(lanes.size, np.int64)
    place[order] = np.arange(lanes.size) - np.maximum.accumulate(np.where(begins, np.arange(lanes.size), 0))
    return place[groups.codes]


def _usable(key: grouping.Groups, owner: I64, seq: I64, grouped: Mask) -> I64:
    """Return the number that the file itself gives each row, -1 for all of a group in which one lacks or repeats it."""
    if not key.count:
        return seq
    bad = np.zeros(key.count, np.bool_)
    bad[key.codes[(seq < 0) | ~grouped]] = True
    order = np.lexsort((seq, owner, key.codes))
    same = (np.diff(key.codes[order]) == 0) & (np.diff(owner[order]) == 0) & (np.diff(seq[order]) == 0)
    bad[key.codes[order][1:][same]] = True
    return np.where(bad[key.codes], -1, seq)


def _places(owner: I64, key: I64, starts: I64, seq: I64) -> I64:
    """Return the file's own number of each row, else its place among the rows of its owner and key."""
    order = np.lexsort((starts, key, owner))
    begins = np.append(True, (np.diff(owner[order]) != 0) | (np.diff(key[order]) != 0))[: order.size]
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size) - np.maximum.accumulate(np.where(begins, np.arange(order.size), 0))
    _, dense = np.unique(seq, return_inverse=True)
    found: I64 = np.where(seq >= 0, dense, place)
    return found

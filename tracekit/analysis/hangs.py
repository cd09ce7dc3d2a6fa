"""Causes of a distributed hang: which rank waits for which, from the calls that each rank recorded.

Each rank has a dump: the collectives, sends and receives that its host put in the queue, in order. Collectives of a
group carry a number that every member counts alike, so a rank whose last number is smaller has not entered the next
one. Sends and receives have no common number: those of a pair of ranks are matched in order, if no entry is lost.

A rank is accused only where its own dump shows that it waits for nobody. These are not known, and nobody is accused:
a member without a dump, a ring that forgot the group, a dump that is older than what the others completed, ranks that
wait for each other, and fewer ranks that wait than ranks that they wait for (they may have called once too often).
Without a timeout nobody is accused either: a rank that is behind may be slow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from math import prod

from tracekit.lazy_dataclass import dataclass

__all__ = [
    "CAUSE_ORDER",
    "Cause",
    "GroupState",
    "HangReport",
    "PairState",
    "ProcessGroup",
    "RankDump",
    "RecordedCall",
    "Shapes",
    "find_hang",
]

Shapes = tuple[tuple[int, ...], ...]

_SAME_INPUTS = frozenset({
    "all_reduce", "allreduce_coalesced", "all_reduce_barrier", "barrier", "broadcast", "_broadcast_oop", "reduce",
    "_reduce_oop", "_all_gather_base", "all_gather_single", "all_gather_into_tensor_coalesced", "reduce_scatter",
    "reduce_scatter_v", "_reduce_scatter_base", "reduce_scatter_single", "reduce_scatter_tensor_coalesced", "gather",
})  # fmt: skip
"""Collectives whose ranks all have inputs of one size. The others may divide their tensors unevenly."""
_SAME_OUTPUTS = frozenset({
    "all_reduce", "allreduce_coalesced", "broadcast", "_broadcast_oop", "all_gather", "all_gather_v",
    "_all_gather_base", "all_gather_single", "all_gather_into_tensor_coalesced", "_reduce_scatter_base",
    "reduce_scatter_single", "reduce_scatter_tensor_coalesced", "scatter",
})  # fmt: skip
_REDUCTIONS = frozenset({
    "all_reduce", "allreduce_coalesced", "reduce", "_reduce_oop", "reduce_scatter", "reduce_scatter_v",
    "_reduce_scatter_base", "reduce_scatter_single", "reduce_scatter_tensor_coalesced",
})  # fmt: skip
"""Collectives that compute: a datatype is more than its size there."""
_WITHOUT_ROOT = frozenset({
    *_SAME_INPUTS, *_SAME_OUTPUTS, "all_to_all", "all_to_all_single", "all_to_all_v_single", "ALLGATHER_coalesced",
    "REDUCE_SCATTER_coalesced",
}) - {"broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "gather", "scatter"}  # fmt: skip
"""Collectives that no rank can complete before all have entered."""
_WITHOUT_STATES = frozenset({"gloo"})
"""Backends that note only when nobody waits for a call any more."""
_BATCH = "coalesced"
"""The end of the name of the entry that ends a batch; it has the state of all calls of the batch."""
_BYTES = {
    "Float": 4, "Double": 8, "Half": 2, "BFloat16": 2, "Int": 4, "Long": 8, "Short": 2, "Char": 1, "Byte": 1, "Bool": 1,
    "ComplexFloat": 8, "ComplexDouble": 16, "Float8_e4m3fn": 1, "Float8_e5m2": 1, "UInt16": 2, "UInt32": 4, "UInt64": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One entry of a dump.

    order: its place in the dump. seq: the number of the collective in its group; p2p_seq: of the send or receive.
    source, target: for sends and receives, the ranks within the group. completed: the recorder saw it end. retired:
    nothing waits for it any more; an entry that is retired and not completed has timed out, or its backend writes no
    states. line: the line of Python; stack: the number of its stack in the dump.
    """

    order: int
    name: str
    seq: int = 0
    p2p_seq: int = 0
    is_p2p: bool = False
    source: int = -1
    target: int = -1
    in_sizes: Shapes = ()
    out_sizes: Shapes = ()
    in_types: tuple[str, ...] = ()
    out_types: tuple[str, ...] = ()
    state: str = ""
    completed: bool = False
    retired: bool = False
    overdue: bool = False
    line: str = ""
    backend: str = ""
    stack: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A group. ranks: its members as ranks of the job, in the order of the group; None where no dump has them."""

    name: str
    desc: str = ""
    ranks: tuple[int, ...] | None = None

    @property
    def label(self) -> str:
        """Return the description with the name behind it, or the name alone."""
        own = self.desc if self.desc not in ("", "undefined") else ""
        return f"{own} ({self.name})" if own and self.name and own != self.name else own or self.name or "(no name)"


@dataclass(frozen=True, slots=True)
class RankDump:
    """The dump of one rank: its calls by group, in order. whole: no entry was forgotten or skipped."""

    rank: int
    calls: Mapping[ProcessGroup, Sequence[RecordedCall]] = field(default_factory=dict)
    whole: bool = True


class Cause(StrEnum):
    """Causes that hold up a group, a pair of ranks, or the run.

    MISMATCH: ranks entered different collectives. NOT_ENTERED: a rank has not entered what others wait in. CYCLE: ranks
    wait for each other. NO_DUMP: all ranks with a dump have entered, and a member has none. INSIDE: all have entered
    the same collective, which timed out. UNKNOWN: the dumps do not show it. BEHIND: a rank is behind, and nothing has
    timed out. RUNNING: all have entered, and nothing has timed out. IDLE: nothing is open.
    """

    MISMATCH = "mismatch"
    NOT_ENTERED = "not entered"
    CYCLE = "cycle"
    NO_DUMP = "no dump"
    INSIDE = "inside"
    UNKNOWN = "not known"
    BEHIND = "behind"
    RUNNING = "running"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class GroupState:
    """The state of a group.

    seq: the number of the collective that it is about, 0 for none. completed: the last number that all ranks with a
    dump have completed; completed_by_all is that of the whole group. end_unknown: nobody waits for the collective
    any more, and whether it ended well or timed out is not recorded. waiting: ranks that entered and have not
    completed. behind: ranks that have not entered. blocked: those of them that wait themselves. absent: members
    without a dump. unknown: ranks whose dump does not show how far they are. sides: for a mismatch, the calls and
    the ranks that made them, the most ranks first; difference: "operation", "sizes", "datatype" or "calls".
    swapped: the ranks entered both in another order. calls: an entered call of each rank at `seq`; last: the last
    call of each rank that is behind.
    """

    group: ProcessGroup
    cause: Cause
    seq: int = 0
    completed: int = 0
    timed_out: bool = False
    waiting: tuple[int, ...] = ()
    behind: tuple[int, ...] = ()
    blocked: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    sides: tuple[tuple[RecordedCall, tuple[int, ...]], ...] = ()
    difference: str = ""
    swapped: bool = False
    calls: Mapping[int, RecordedCall] = field(default_factory=dict)
    last: Mapping[int, RecordedCall] = field(default_factory=dict)
    end_unknown: bool = False

    @property
    def completed_by_all(self) -> int | None:
        """Return the last number that all members are known to have completed, None where a dump does not show it."""
        if self.absent or self.unknown or self.group.ranks is None or not (self.completed or self.seq):
            return None
        return self.completed


@dataclass(frozen=True, slots=True)
class PairState:
    """A send or receive that waits. waits: its rank; peer: the other rank, which has not made the matching call.

    cause: NOT_ENTERED, MISMATCH (sizes differ), NO_DUMP, UNKNOWN, INSIDE, BEHIND or RUNNING.
    """

    group: ProcessGroup
    call: RecordedCall
    waits: int
    peer: int
    cause: Cause
    timed_out: bool
    other: RecordedCall | None = None
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class HangReport:
    """The cause of a hang. accused: the ranks that hold up all others, empty where that is not known.

    group, pair: what the cause is about. cycle: the ranks that wait for each other.
    """

    cause: Cause
    accused: tuple[int, ...] = ()
    group: GroupState | None = None
    pair: PairState | None = None
    cycle: tuple[int, ...] = ()
    groups: tuple[GroupState, ...] = ()
    pairs: tuple[PairState, ...] = ()

    @property
    def hangs(self) -> bool:
        """Return whether something is wrong for sure: a timeout, or calls that do not fit together."""
        if self.group is not None and self.group.end_unknown:
            return False
        return self.cause not in (Cause.BEHIND, Cause.RUNNING, Cause.IDLE)


def find_hang(dumps: Sequence[RankDump]) -> HangReport:
    """Return why the ranks of a run wait. Each rank has one dump at most."""
    by_rank = {dump.rank: dump for dump in sorted(dumps, key=lambda dump: dump.rank)}
    groups = dict.fromkeys(group for dump in by_rank.values() for group in dump.calls)
    telling = _backends_with_states(by_rank.values())
    states = [_group_state(group, by_rank, telling) for group in groups]
    pairs = [pair for group in groups for pair in _pairs(group, by_rank, telling)]
    return _concluded(states, pairs)


def _backends_with_states(dumps: Iterable[RankDump]) -> frozenset[str]:
    """Return the backends that note when a call starts and completes; gloo does not."""
    return frozenset(
        call.backend
        for dump in dumps
        for calls in dump.calls.values()
        for call in calls
        if call.backend not in _WITHOUT_STATES or call.completed or call.state == "started"
    )


# Collectives.


@dataclass(slots=True)
class _Progress:
    """Progress of a rank in a group: its collectives by number, the last that is entered, and the last that is done."""

    by_seq: dict[int, list[RecordedCall]]
    known: bool
    telling: frozenset[str]
    last: int = 0
    done: int = 0

    def is_open(self, seq: int) -> bool:
        """Return whether the rank has entered a collective that is not done."""
        return seq in self.by_seq and seq > self.done

    def first_open(self) -> int:
        """Return the number of the first collective that is not done, 0 for none."""
        return min((seq for seq in self.by_seq if seq > self.done), default=0)

    def is_overdue(self, seq: int) -> bool:
        """Return whether a collective timed out."""
        return any(_is_overdue(call, self.telling) for call in self.by_seq.get(seq, ()))


def _progress(dump: RankDump, group: ProcessGroup, telling: frozenset[str]) -> _Progress:
    calls = [call for call in dump.calls.get(group, ()) if not call.is_p2p]
    by_seq: dict[int, list[RecordedCall]] = {}
    for call in calls:
        by_seq.setdefault(call.seq, []).append(call)
    found = _Progress(by_seq, bool(calls) or dump.whole, telling)
    found.last = max(by_seq, default=0)
    # Calls of a group run in their order: when one is done, so are those before it.
    found.done = max((call.seq for call in calls if _is_done(call, telling)), default=0)
    return found


def _is_done(call: RecordedCall, telling: frozenset[str]) -> bool:
    return call.completed or (call.retired and call.backend not in telling)


def _is_overdue(call: RecordedCall, telling: frozenset[str]) -> bool:
    return call.overdue or (call.retired and not call.completed and call.backend in telling)


def _group_state(group: ProcessGroup, dumps: Mapping[int, RankDump], telling: frozenset[str]) -> GroupState:
    members = _members(group, dumps)
    progress = {rank: _progress(dumps[rank], group, telling) for rank in members if rank in dumps}
    absent = tuple(rank for rank in members if rank not in dumps)
    unknown = tuple(rank for rank, each in progress.items() if not each.known)
    known = {rank: each for rank, each in progress.items() if each.known}
    if not any(each.by_seq for each in known.values()):
        return GroupState(group, Cause.IDLE, absent=absent, unknown=unknown)
    while old := _with_older_dumps(known):
        unknown = tuple(sorted({*unknown, *old}))
        known = {rank: each for rank, each in known.items() if rank not in old}
    low = min(each.last for each in known.values())
    high = max(each.last for each in known.values())
    opened = min((seq for each in known.values() if (seq := each.first_open())), default=0)
    completed = min(min(each.done for each in known.values()), low)
    common = GroupState(group, Cause.IDLE, completed=completed, absent=absent, unknown=unknown)

    mismatch = _mismatch(common, known, stuck=opened or (low + 1 if low < high else 0))
    if mismatch is not None:
        return mismatch
    if low < high:
        state = _behind(common, known, low, telling)
        if state is not None:
            return state
    if not opened and (state := _end_unknown(common, known, high, telling)) is not None:
        return state
    return _all_entered(common, known, opened)


def _end_unknown(
    common: GroupState, known: Mapping[int, _Progress], high: int, telling: frozenset[str]
) -> GroupState | None:
    """Return the state of a group whose last call may have timed out: nobody waits any more, and no state is recorded.

    Where the dumps of all members show that they entered it, it is idle. None where states are recorded.
    """
    every = not common.absent and not common.unknown and common.group.ranks is not None
    calls = {rank: each.by_seq[high][0] for rank, each in known.items() if high in each.by_seq}
    if any(call.completed or call.backend in telling for call in calls.values()):
        return None
    # A rank that went on to the last call saw those before it end well.
    before = replace(common, completed=min(common.completed, high - 1))
    if every:
        return before
    cause = Cause.NO_DUMP if common.absent and not common.unknown else Cause.UNKNOWN
    return replace(_with(before, cause, high, calls=calls), end_unknown=True)


def _with_older_dumps(known: Mapping[int, _Progress]) -> tuple[int, ...]:
    """Return ranks that have not entered a collective which others completed: their dumps are older.

    No rank completes a collective without a root before all have entered it.
    """
    low = min(each.last for each in known.values())
    later = [call for each in known.values() for call in each.by_seq.get(low + 1, ())]
    if not any(call.completed and call.name in _WITHOUT_ROOT for call in later):
        return ()
    return tuple(rank for rank, each in known.items() if each.last == low)


def _members(group: ProcessGroup, dumps: Mapping[int, RankDump]) -> tuple[int, ...]:
    """Return the members; where no dump has them, the ranks with calls of the group, all ranks for the default one."""
    if group.ranks is not None:
        return tuple(sorted(group.ranks))
    return tuple(rank for rank, dump in dumps.items() if group in dump.calls or group.desc == "default_pg")


def _behind(common: GroupState, known: Mapping[int, _Progress], low: int, telling: frozenset[str]) -> GroupState | None:
    """Return the state of a group of which some ranks have not entered a collective, None where they wait before it."""
    seq = low + 1
    late = {rank: each for rank, each in known.items() if each.last == low}
    free = tuple(rank for rank, each in late.items() if not each.first_open())
    entered = {rank: each for rank, each in known.items() if seq in each.by_seq}
    if not free or not entered:
        return None
    call = next(iter(entered.values())).by_seq[seq][0]
    waiting = tuple(rank for rank, each in entered.items() if each.is_open(seq))
    ended = [rank for rank, each in entered.items() if not each.is_open(seq)]
    timed_out = any(known[rank].is_overdue(seq) for rank in waiting)
    if call.name in _WITHOUT_ROOT and ended and call.backend not in telling:
        # This backend notes only that nobody waits any more. Nobody can have completed it: they gave up.
        waiting, timed_out = tuple(entered), True
    if not waiting:
        called = {rank: each.by_seq[seq][0] for rank, each in entered.items()}
        return _with(common, Cause.RUNNING, seq, behind=free, calls=called)
    return _with(
        common,
        Cause.NOT_ENTERED if timed_out else Cause.BEHIND,
        seq,
        timed_out=timed_out,
        waiting=waiting,
        behind=tuple(late),
        blocked=tuple(rank for rank in late if rank not in free),
        calls={rank: each.by_seq[seq][0] for rank, each in entered.items()},
        last={rank: each.by_seq[low][-1] for rank, each in late.items() if low in each.by_seq},
    )


def _all_entered(common: GroupState, known: Mapping[int, _Progress], seq: int) -> GroupState:
    """Return the state of a group whose ranks with a dump have all entered the first collective that is open."""
    if not seq:
        return common
    waiting = tuple(rank for rank, each in known.items() if each.is_open(seq))
    timed_out = any(known[rank].is_overdue(seq) for rank in waiting)
    cause = Cause.RUNNING
    if timed_out:
        # Who completes a call without a root knows that all have entered it.
        ended = any(
            seq <= each.done and each.by_seq[seq][0].name in _WITHOUT_ROOT
            for each in known.values()
            if seq in each.by_seq
        )
        cause = Cause.UNKNOWN if common.unknown else Cause.NO_DUMP if common.absent and not ended else Cause.INSIDE
    calls = {rank: each.by_seq[seq][0] for rank, each in known.items() if seq in each.by_seq}
    return _with(common, cause, seq, timed_out=timed_out, waiting=waiting, calls=calls)


def _with(
    common: GroupState,
    cause: Cause,
    seq: int,
    *,
    timed_out: bool = False,
    waiting: tuple[int, ...] = (),
    behind: tuple[int, ...] = (),
    blocked: tuple[int, ...] = (),
    calls: Mapping[int, RecordedCall] | None = None,
    last: Mapping[int, RecordedCall] | None = None,
) -> GroupState:
    return GroupState(
        common.group, cause, seq, common.completed, timed_out, waiting, behind, blocked, common.absent, common.unknown,
        calls=calls or {}, last=last or {},
    )  # fmt: skip


# Calls that do not fit together.


def _elements(sizes: Shapes) -> int:
    return sum(prod(each) for each in sizes)


def _bytes(sizes: Shapes, types: tuple[str, ...]) -> int | None:
    """Return the bytes of tensors, None where a datatype is not known."""
    widths = [_BYTES.get(each) for each in types]
    if not types or None in widths or len(types) not in (1, len(sizes)):
        return None
    wide = [width or 0 for width in widths] * (len(sizes) if len(types) == 1 else 1)
    return sum(prod(each) * width for each, width in zip(sizes, wide, strict=True))


def _difference(one: RecordedCall, other: RecordedCall) -> str:
    """Return how two calls with the same number do not fit together, "" where they do."""
    if one.name != other.name:
        return "operation"
    name = one.name
    for names, sizes, types in (
        (_SAME_INPUTS, (one.in_sizes, other.in_sizes), (one.in_types, other.in_types)),
        (_SAME_OUTPUTS, (one.out_sizes, other.out_sizes), (one.out_types, other.out_types)),
    ):
        # A rank that is not the root of a gather or reduce may have no tensor on one side.
        if name not in names or not all(sizes):
            continue
        alike = _elements(sizes[0]) == _elements(sizes[1])
        if set(types[0]) != set(types[1]) and all(types):
            if name in _REDUCTIONS:
                return "datatype" if alike else "sizes"
            moved = [_bytes(size, kind) for size, kind in zip(sizes, types, strict=True)]
            if moved[0] is None or moved[0] != moved[1]:
                return "datatype" if alike else "sizes"
        elif not alike:
            return "sizes"
    return ""


def _differ(one: Sequence[RecordedCall], other: Sequence[RecordedCall]) -> str:
    """Return how the calls of two ranks with the same number differ: one call, or those of a batch."""
    first, second = (
        [call for call in calls if len(calls) == 1 or call.name != _BATCH] or list(calls) for calls in (one, other)
    )
    if len(first) != len(second):
        # A batch that is not ended yet, or whose first entries are forgotten, says nothing.
        return ""
    return next((found for a, b in zip(first, second, strict=True) if (found := _difference(a, b))), "")


def _mismatch(common: GroupState, known: Mapping[int, _Progress], *, stuck: int) -> GroupState | None:
    """Return the first mismatch at or before the collective in which the group is stuck; None without one."""
    if not stuck:
        return None
    for seq in sorted({seq for each in known.values() for seq in each.by_seq if seq <= stuck}):
        at = {rank: each.by_seq[seq] for rank, each in known.items() if seq in each.by_seq}
        sides: list[tuple[list[RecordedCall], list[int]]] = []
        difference = ""
        for rank, calls in at.items():
            for first, ranks in sides:
                if not (found := _differ(first, calls)):
                    ranks.append(rank)
                    break
                difference = difference or found
            else:
                sides.append((calls, [rank]))
        if len(sides) < 2:
            continue
        sides.sort(key=lambda side: (-len(side[1]), side[1]))
        swapped = _swapped(known, seq, sides)
        return GroupState(
            common.group,
            Cause.MISMATCH,
            seq,
            min(common.completed, seq - 1),
            any(each.is_overdue(s) for each in known.values() for s in each.by_seq if s >= seq),
            tuple(rank for rank in at if known[rank].first_open()),
            absent=common.absent,
            unknown=common.unknown,
            sides=tuple((_told(calls, sides), tuple(ranks)) for calls, ranks in sides),
            difference=difference,
            swapped=swapped,
            calls={rank: calls[0] for rank, calls in at.items()},
        )
    return None


def _told(calls: Sequence[RecordedCall], sides: Sequence[tuple[list[RecordedCall], list[int]]]) -> RecordedCall:
    """Return the call of a batch that shows the difference."""
    others = next((other for other, _ in sides if other is not calls), calls)
    return next((a for a, b in zip(calls, others, strict=False) if _difference(a, b)), calls[0])


def _swapped(known: Mapping[int, _Progress], seq: int, sides: Sequence[tuple[list[RecordedCall], list[int]]]) -> bool:
    """Return whether both sides made the call of the other one next."""
    if len(sides) != 2:
        return False
    (first, one), (second, other) = sides
    later, other_later = known[one[0]].by_seq.get(seq + 1), known[other[0]].by_seq.get(seq + 1)
    if later is None or other_later is None:
        return False
    return not _differ(later, second) and not _differ(other_later, first)


# Sends and receives.


def _pairs(group: ProcessGroup, dumps: Mapping[int, RankDump], telling: frozenset[str]) -> list[PairState]:
    """Return the first send and the first receive of each pair of ranks that waits."""
    sends: dict[tuple[int, int], list[RecordedCall]] = {}
    receives: dict[tuple[int, int], list[RecordedCall]] = {}
    for rank, dump in dumps.items():
        for call in _with_states_of_batches(dump.calls.get(group, ())):
            ends = [_job_rank(group, each) for each in (call.source, call.target)]
            if call.is_p2p and None not in ends:
                pair = (ends[0] or 0, ends[1] or 0)
                if call.name.startswith("send") and pair[0] == rank:
                    sends.setdefault(pair, []).append(call)
                elif call.name.startswith("recv") and pair[1] == rank:
                    receives.setdefault(pair, []).append(call)
    found = []
    for pair in sorted({*sends, *receives}):
        own, others = sends.get(pair, []), receives.get(pair, [])
        found += _waiting_pair(group, dumps, pair[0], pair[1], own, others, telling)
        found += _waiting_pair(group, dumps, pair[1], pair[0], others, own, telling)
    return found


def _job_rank(group: ProcessGroup, rank: int) -> int | None:
    """Return the rank of the job for a rank of the group, None where it is not known."""
    if group.ranks is not None:
        return group.ranks[rank] if 0 <= rank < len(group.ranks) else None
    return rank if group.desc == "default_pg" and rank >= 0 else None


def _with_states_of_batches(calls: Sequence[RecordedCall]) -> list[RecordedCall]:
    """Return sends and receives; those of a batch have the state of the entry that ends the batch."""
    ends = {call.p2p_seq: call for call in calls if call.is_p2p and call.name == _BATCH}
    found = []
    for call in calls:
        end = ends.get(call.p2p_seq)
        if call.is_p2p and call.name != _BATCH:
            found.append(call if end is None else _like(call, end))
    return found


def _like(call: RecordedCall, end: RecordedCall) -> RecordedCall:
    return replace(
        call,
        state=end.state,
        completed=end.completed,
        retired=end.retired,
        overdue=end.overdue,
        line=call.line or end.line,
    )


def _waiting_pair(
    group: ProcessGroup,
    dumps: Mapping[int, RankDump],
    rank: int,
    peer: int,
    own: list[RecordedCall],
    others: list[RecordedCall],
    telling: frozenset[str],
) -> list[PairState]:
    """Return the state of the first call of a rank to its peer that is not done, as a list of one or none."""
    done = max((at for at, call in enumerate(own) if _is_done(call, telling)), default=-1)
    place = done + 1
    if place >= len(own):
        return []
    call = own[place]
    timed_out = any(_is_overdue(each, telling) for each in own[place:])
    other: RecordedCall | None = None
    if peer not in dumps:
        cause = Cause.NO_DUMP
    elif not (dumps[rank].whole and dumps[peer].whole):
        # Without the first entries the calls cannot be counted: open ones are matched with open ones.
        after = max((at for at, each in enumerate(others) if _is_done(each, telling)), default=-1) + 1
        other = others[after] if after < len(others) else None
        cause = Cause.UNKNOWN if other is None else Cause.INSIDE
    elif place < len(others):
        other = others[place]
        cause = Cause.INSIDE
    else:
        cause = Cause.NOT_ENTERED
    if cause is Cause.INSIDE and other is not None and not _fit(call, other):
        cause = Cause.MISMATCH
    if not timed_out and cause is not Cause.MISMATCH:
        cause = Cause.BEHIND if cause is Cause.NOT_ENTERED else Cause.RUNNING
    return [PairState(group, call, rank, peer, cause, timed_out, other)]


def _fit(one: RecordedCall, other: RecordedCall) -> bool:
    """Return whether a send and a receive move the same number of elements or bytes."""
    sent, received = (one, other) if one.name.startswith("send") else (other, one)
    out_sizes = received.out_sizes or received.in_sizes
    in_sizes = sent.in_sizes or sent.out_sizes
    if not in_sizes or not out_sizes or _elements(in_sizes) == _elements(out_sizes):
        return True
    moved = _bytes(in_sizes, sent.in_types or sent.out_types)
    return moved is not None and moved == _bytes(out_sizes, received.out_types or received.in_types)


# Who waits for whom.


def _concluded(states: list[GroupState], pairs: list[PairState]) -> HangReport:
    """Return the report: ranks that are late because they wait themselves are no cause."""
    waits: dict[int, set[int]] = {}
    stuck: set[int] = set()
    """Ranks that wait in something whose cause is not another rank that is late."""
    for state in states:
        late = [rank for rank in state.behind if rank not in state.blocked]
        if state.cause in (Cause.NOT_ENTERED, Cause.BEHIND):
            for rank in state.waiting:
                waits.setdefault(rank, set()).update(late)
        elif state.cause is not Cause.IDLE:
            stuck.update(state.waiting)
    for pair in pairs:
        if pair.cause in (Cause.NOT_ENTERED, Cause.BEHIND):
            waits.setdefault(pair.waits, set()).add(pair.peer)
        else:
            stuck.add(pair.waits)
    states, pairs = _with_what_they_wait_for(states, pairs, waits)
    blocked = {*waits, *stuck}
    groups = [_blocked(state, blocked) for state in states]
    pairs = [replace(each, blocked=True) if each.peer in blocked else each for each in pairs]
    idle = HangReport(Cause.IDLE, groups=tuple(groups), pairs=tuple(pairs))
    report = _mismatched(idle) or _late(idle, waits) or _not_shown(idle)
    return replace(report, groups=tuple(_with_pairs(each, pairs) for each in groups))


def _with_pairs(state: GroupState, pairs: Sequence[PairState]) -> GroupState:
    """Return the state of a group, that of its sends and receives where these tell more than its collectives."""
    own = [each for each in pairs if each.group == state.group]
    worst = min(own, key=lambda each: CAUSE_ORDER.index(each.cause), default=None)
    if worst is None or CAUSE_ORDER.index(worst.cause) >= CAUSE_ORDER.index(state.cause):
        return state
    late = {each.peer: each.blocked for each in own if each.cause in (Cause.NOT_ENTERED, Cause.BEHIND)}
    return GroupState(
        state.group,
        worst.cause,
        completed=state.completed,
        timed_out=any(each.timed_out for each in own),
        waiting=tuple(sorted({each.waits for each in own})),
        behind=tuple(sorted(late)),
        blocked=tuple(sorted(rank for rank, is_blocked in late.items() if is_blocked)),
        absent=state.absent,
        unknown=state.unknown,
        calls={each.waits: each.call for each in own},
    )


CAUSE_ORDER = (
    Cause.MISMATCH, Cause.NOT_ENTERED, Cause.CYCLE, Cause.NO_DUMP, Cause.INSIDE, Cause.UNKNOWN, Cause.BEHIND,
    Cause.RUNNING, Cause.IDLE,
)  # fmt: skip
"""Causes, the most telling first."""


def _mismatched(idle: HangReport) -> HangReport | None:
    """Return the report on calls that do not fit together, None where all fit. idle: a report without a cause."""
    mismatch = [each for each in idle.groups if each.cause is Cause.MISMATCH]
    if mismatch:
        first = min(mismatch, key=lambda each: (not each.timed_out, each.seq))
        (_, most), *rest = first.sides
        others = tuple(sorted(rank for _, ranks in rest for rank in ranks))
        accused = others if len(most) > len(others) else ()
        return replace(idle, cause=Cause.MISMATCH, accused=accused, group=first)
    unfit = next((each for each in idle.pairs if each.cause is Cause.MISMATCH), None)
    return None if unfit is None else replace(idle, cause=Cause.MISMATCH, pair=unfit)


def _late(idle: HangReport, waits: Mapping[int, set[int]]) -> HangReport | None:
    """Return the report on ranks that are late and wait for nobody, or that wait for each other; None without any."""
    for cause in (Cause.NOT_ENTERED, Cause.BEHIND):
        groups = [each for each in idle.groups if each.cause is cause and set(each.behind) - set(each.blocked)]
        if groups:
            free = {
                rank
                for each in groups
                if len(each.waiting) > len(each.behind)
                for rank in set(each.behind) - set(each.blocked)
            }
            accused = tuple(sorted(free)) if cause is Cause.NOT_ENTERED else ()
            # The group with the most ranks that wait shows the cause best.
            return replace(idle, cause=cause, accused=accused, group=max(groups, key=lambda each: len(each.waiting)))
        pair = next((each for each in idle.pairs if each.cause is cause and not each.blocked), None)
        if pair is not None:
            # One rank waits for one: either may have made a call too few or too many.
            return replace(idle, cause=cause, pair=pair)
        causes = {*(each.cause for each in idle.groups), *(each.cause for each in idle.pairs)}
        if cause in causes and (cycle := _cycle(waits)):
            if cause is Cause.BEHIND:
                return replace(idle, cause=cause)
            return replace(idle, cause=Cause.CYCLE, cycle=cycle)
    return None


def _not_shown(idle: HangReport) -> HangReport:
    """Return the report where no rank is known to be late."""
    for cause in (Cause.NO_DUMP, Cause.INSIDE, Cause.UNKNOWN, Cause.NOT_ENTERED, Cause.BEHIND, Cause.RUNNING):
        group = next((each for each in idle.groups if each.cause is cause and not each.end_unknown), None)
        pair = next((each for each in idle.pairs if each.cause is cause), None) if group is None else None
        if group is not None or pair is not None:
            # What a late rank waits for waits itself, and the dumps do not show why.
            shown = Cause.UNKNOWN if cause is Cause.NOT_ENTERED else cause
            return replace(idle, cause=shown, group=group, pair=pair)
    # Calls that may have ended well come after calls that are known to be open.
    unsure = next((each for each in idle.groups if each.end_unknown), None)
    return idle if unsure is None else replace(idle, cause=unsure.cause, group=unsure)


def _with_what_they_wait_for(
    states: list[GroupState], pairs: list[PairState], waits: Mapping[int, set[int]]
) -> tuple[list[GroupState], list[PairState]]:
    """Return the states, those in which late ranks of a timeout wait as if they had timed out as well.

    The watchdog of one rank sees one call time out; what that call waits for has waited at least nearly as long.
    """
    reached: set[int] = set()
    queue = [rank for each in states if each.cause is Cause.NOT_ENTERED for rank in each.behind]
    queue += [each.peer for each in pairs if each.cause is Cause.NOT_ENTERED]
    while queue:
        rank = queue.pop()
        if rank not in reached:
            reached.add(rank)
            queue += waits.get(rank, ())
    late = {Cause.BEHIND: Cause.NOT_ENTERED}
    return (
        [
            replace(each, cause=late.get(each.cause) or _inside(each))
            if each.cause in (Cause.BEHIND, Cause.RUNNING) and reached & {*each.waiting}
            else each
            for each in states
        ],
        [
            replace(each, cause=late.get(each.cause, Cause.INSIDE))
            if each.cause in (Cause.BEHIND, Cause.RUNNING) and each.waits in reached
            else each
            for each in pairs
        ],
    )


def _inside(state: GroupState) -> Cause:
    """Return why a group waits whose ranks with a dump have all entered."""
    return Cause.UNKNOWN if state.unknown or state.behind else Cause.NO_DUMP if state.absent else Cause.INSIDE


def _blocked(state: GroupState, blocked: set[int]) -> GroupState:
    """Return the state with the late ranks that wait elsewhere."""
    if state.cause not in (Cause.NOT_ENTERED, Cause.BEHIND):
        return state
    also = tuple(rank for rank in state.behind if rank in blocked or rank in state.blocked)
    return replace(state, blocked=also)


def _cycle(waits: Mapping[int, set[int]]) -> tuple[int, ...]:
    """Return ranks that wait for each other in a circle, () for none."""
    # Ranks that wait for nobody who waits are on no circle: they go, until circles and the ways to them are left.
    needs = {rank: set(others) for rank, others in waits.items()}
    while free := [rank for rank, others in needs.items() if not others & set(needs)]:
        for rank in free:
            del needs[rank]
    if not needs:
        return ()
    path: list[int] = []
    rank = min(needs)
    while rank not in path:
        path.append(rank)
        rank = min(needs[rank] & set(needs))
    return tuple(sorted(path[path.index(rank) :]))

"""Flight records: the dumps of the Flight Recorder in a trace, one a rank, as `analysis.hangs` compares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import orjson
import pyarrow as pa

from tracekit.analysis.hangs import HangReport, ProcessGroup, RankDump, RecordedCall, Shapes, find_hang
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import pc

__all__ = ["FlightRecords", "flight_records", "hang", "stacks"]

_CALLS, _GROUPS, _DUMP = "flight recorder calls", "flight recorder groups", "flight recorder"
_STACKS = "flight recorder stacks"
_DEFAULT = "default_pg"
T = TypeVar("T")
_ENDS = ("->", "<-")


@dataclass(frozen=True, slots=True)
class FlightRecords:
    """The dumps of a trace. dumps: one a rank. calls: how many entries they have.

    nameless: inputs whose rank is not known. repeated: ranks with several dumps: which of these belong together is not
    known, so no dump is compared. inputs: for repeated ranks, the name and the rank of each input. later: their dumps
    have calls in common, as those of one run at several times do. copies: inputs with the calls of another input.
    """

    dumps: tuple[RankDump, ...]
    calls: int
    nameless: tuple[str, ...] = ()
    repeated: tuple[int, ...] = ()
    inputs: tuple[tuple[str, int], ...] = ()
    later: bool = False
    copies: tuple[str, ...] = ()


@join
def flight_records(index: TraceIndex) -> FlightRecords | None:
    """Return the dumps of a trace, None without any."""
    dumps = _rows(index, _DUMP)
    if not dumps:
        return None
    labels = source_labels(index)
    nameless = tuple(source_label(labels, row["source"]) for row in dumps if row["rank"] is None)
    every, copies = _without_copies([row for row in dumps if row["rank"] is not None], _of_section(index, _CALLS))
    copied = tuple(source_label(labels, source) for source in copies)
    count = Counter(row["rank"] for row in every)
    repeated = tuple(sorted(rank for rank, often in count.items() if often > 1))
    if repeated:
        # A rank with one dump may be of another run than the rank beside it.
        inputs = tuple((source_label(labels, row["source"]), row["rank"]) for row in every)
        calls = _of_section(index, _CALLS)
        later = _are_of_one_run([row for row in every if count[row["rank"]] > 1], calls)
        return FlightRecords((), calls.num_rows, nameless, repeated, inputs, later, copied)
    by_rank = {row["rank"]: row for row in every}
    configured: dict[int, dict[str, tuple[str, tuple[int, ...] | None]]] = {}
    for row in _rows(index, _GROUPS):
        if row["rank"] in by_rank:
            of_rank = configured.setdefault(row["rank"], {})
            of_rank[row["name"] or ""] = (str(row["args"].get("desc", "")), _members(row["args"].get("ranks")))
    groups = _Groups(configured, set(by_rank))
    calls = _of_section(index, _CALLS)
    if copies:
        calls = calls.filter(pc.invert(pc.is_in(calls.column("source"), pa.array(copies, calls.column("source").type))))
    ranks = arrow.ints(calls.column("rank"), -1)
    order = np.argsort(ranks, kind="stable")
    # The entries of one rank at a time: those of a thousand ranks, as objects, would need gigabytes.
    found = []
    for rank in sorted(by_rank):
        low, high = np.searchsorted(ranks[order], (rank, rank + 1))
        rows = _parsed(calls.take(order[low:high]))
        found.append(_dump(rank, by_rank[rank]["args"], rows, groups))
    return FlightRecords(tuple(found), calls.num_rows, nameless, copies=copied)


def _without_copies(dumps: list[dict[str, Any]], calls: pa.Table) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the dumps without doubles (the same calls of one rank), and the inputs of these.

    A program may write its dump both as a pickle and as JSON.
    """
    count = Counter(row["rank"] for row in dumps)
    seen: dict[int, list[pa.Table]] = {}
    kept, copies = [], []
    for row in dumps:
        if count[row["rank"]] > 1:
            own = _calls_of(row, calls)
            if any(own.equals(other) for other in seen.setdefault(row["rank"], [])):
                copies.append(row["source"])
                continue
            seen[row["rank"]].append(own)
        kept.append(row)
    return kept, copies


def _calls_of(dump: Mapping[str, Any], calls: pa.Table) -> pa.Table:
    """Return the names and arguments of the calls of one input."""
    return calls.filter(pc.equal(calls.column("source"), dump["source"])).select(["name", "args"]).combine_chunks()


def _are_of_one_run(dumps: Sequence[Mapping[str, Any]], calls: pa.Table) -> bool:
    """Return whether all dumps of a rank have a call in common, made at the same nanosecond."""
    common: dict[int, set[tuple[str, int]]] = {}
    for dump in dumps:
        rows = _parsed(_calls_of(dump, calls))
        times = {(row["name"], time) for row in rows if (time := _integer(row["args"], "created_ns")) is not None}
        common[dump["rank"]] = common.get(dump["rank"], times) & times
    return all(common.values())


@join
def hang(index: TraceIndex) -> HangReport | None:
    """Return why the ranks of a run wait, None without dumps of the Flight Recorder."""
    records = flight_records(index)
    return None if records is None else find_hang(records.dumps)


@join
def stacks(index: TraceIndex) -> dict[tuple[int, int | None], list[str]]:
    """Return the frames of the stacks of a trace, the outermost first, by rank and number."""
    return {
        (row["rank"], _integer(row["args"], "stack")): [str(each) for each in _list(row["args"], "frames")]
        for row in _rows(index, _STACKS)
    }


def _of_section(index: TraceIndex, section: str) -> pa.Table:
    table = index.totals
    mask = pc.equal(pc.cast(table.column("section"), pa.string()), section)
    return table.filter(mask).select(["source", "rank", "name", "args"])


def _rows(index: TraceIndex, section: str) -> list[dict[str, Any]]:
    return _parsed(_of_section(index, section)) if index.totals.num_rows else []


def _parsed(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows with their `args` as objects. Any file may have such a section: what is odd there is left out."""
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        try:
            args = orjson.loads(row["args"] or "{}")
        except orjson.JSONDecodeError:
            args = {}
        row["args"] = args if isinstance(args, dict) else {}
    return rows


def _members(ranks: object) -> tuple[int, ...] | None:
    if not isinstance(ranks, list) or not ranks or not all(type(each) is int for each in ranks):
        return None
    return tuple(ranks)


def _list(args: Mapping[str, Any], key: str) -> list[Any]:
    value = args.get(key)
    return value if isinstance(value, list) else []


def _integer(args: Mapping[str, Any], key: str) -> int | None:
    value = args.get(key)
    return value if type(value) is int else None


@dataclass(frozen=True, slots=True)
class _Groups:
    """The groups of a run: configured has, by rank and name, the description and the members that its dump has."""

    configured: Mapping[int, Mapping[str, tuple[str, tuple[int, ...] | None]]]
    dumped: set[int]

    def of(self, rank: int, name: str, desc: str) -> ProcessGroup:
        """Return the group of a call."""
        own_desc, ranks = self.configured.get(rank, {}).get(name, ("", None))
        desc = desc or own_desc
        if ranks is not None and rank in ranks:
            return ProcessGroup(name, desc, ranks)
        every = {
            members
            for groups in self.configured.values()
            for members in [groups.get(name, ("", None))[1]]
            if members is not None and rank in members
        }
        if not every and desc == _DEFAULT:
            # gloo has the members of one group, without its name: those of all ranks are of the default group.
            every = {
                members
                for groups in self.configured.values()
                for members in [groups.get("", ("", None))[1]]
                if members is not None and self.dumped <= set(members)
            }
        return ProcessGroup(name, desc, every.pop() if len(every) == 1 else None)


def _dump(rank: int, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], groups: _Groups) -> RankDump:
    args = [row["args"] for row in rows]
    times = [_integer(each, key) for each in args for key in ("created_ns", "started_ns", "completed_ns")]
    latest = max((time for time in times if time is not None), default=0)
    known: dict[object, object] = {}
    calls: dict[ProcessGroup, list[RecordedCall]] = {}
    first: dict[ProcessGroup, int] = {}
    cache: dict[tuple[str, str], ProcessGroup] = {}
    for order, (row, each) in enumerate(zip(rows, args, strict=True)):
        key = str(each.get("group", "")), str(each.get("desc", ""))
        group = cache.get(key) or cache.setdefault(key, groups.of(rank, *key))
        call = _call(order, str(row["name"] or ""), each, latest, known)
        calls.setdefault(group, []).append(call)
        if not call.is_p2p:
            first.setdefault(group, call.seq)
    # After a reset the recorder counts its entries from 0 again, but a group goes on counting.
    whole = (
        facts.get("first_record") == 0
        and facts.get("without_gaps") is True
        and all(seq <= 1 for seq in first.values())
        and facts.get("entries") == len(rows)
    )
    return RankDump(rank, calls, whole)


def _call(order: int, title: str, args: Mapping[str, Any], latest: int, known: dict[object, object]) -> RecordedCall:
    """Return an entry. known: values that other entries have too; they are kept once."""

    def once(value: T) -> T:
        found: Any = known.setdefault(value, value)
        return cast("T", found)

    name, _, ends = title.partition(" ")
    source, target = _source_and_target(ends)
    created, timeout = _integer(args, "created_ns"), _integer(args, "timeout_ms")
    completed = args.get("state") == "completed"
    late = created is not None and timeout is not None and 0 < timeout * 1_000_000 <= latest - created
    return RecordedCall(
        order,
        once(name),
        _integer(args, "seq") or 0,
        _integer(args, "p2p_seq") or 0,
        is_p2p=args.get("p2p") is True or (name in ("send", "recv") and source >= 0),
        source=source,
        target=target,
        in_sizes=once(_shapes(args, "in")),
        out_sizes=once(_shapes(args, "out")),
        in_types=once(tuple(str(each) for each in _list(args, "in_types"))),
        out_types=once(tuple(str(each) for each in _list(args, "out_types"))),
        state=once(str(args.get("state", ""))),
        completed=completed,
        retired=args.get("retired") is True,
        overdue=late and not completed,
        line=once(str(args.get("line", ""))),
        backend=once(str(args.get("backend", ""))),
        stack=_integer(args, "stack"),
    )


def _shapes(args: Mapping[str, Any], key: str) -> Shapes:
    shapes = [each for each in _list(args, key) if isinstance(each, list)]
    return tuple(tuple(size for size in each if type(size) is int) for each in shapes)


def _source_and_target(ends: str) -> tuple[int, int]:
    """Return the ranks of `0->1` (send) or `1<-0` (recv), -1 for none."""
    for sign in _ENDS:
        left, found, right = ends.partition(sign)
        if found and left.isdecimal() and right.isdecimal() and len(ends) < 20:
            return (int(left), int(right)) if sign == "->" else (int(right), int(left))
    return -1, -1

"""Flight records: the dumps of the Flight Recorder in a trace, one a rank, as `analysis.hangs` compares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from tracekit.analysis.hangs import HangReport, ProcessGroup, RankDump, RecordedCall, Shapes, find_hang
from tracekit.index.sources import source_label, source_labels
from tracekit.index.trace_index import TraceIndex, join
from tracekit.model.arrow import pc

__all__ = ["FlightRecords", "flight_records", "hang", "stacks"]

_CALLS, _GROUPS, _DUMP = "flight recorder calls", "flight recorder groups", "flight recorder"
_STACKS = "flight recorder stacks"
_DEFAULT = "default_pg"
_ENDS = ("->", "<-")


@dataclass(frozen=True, slots=True)
class FlightRecords:
    """The dumps of a trace. dumps: one a rank. calls: how many entries they have.

    nameless: inputs whose rank is not known. repeated: ranks with several dumps, none of which is compared.
    """

    dumps: tuple[RankDump, ...]
    calls: int
    nameless: tuple[str, ...] = ()
    repeated: tuple[int, ...] = ()


@join
def flight_records(index: TraceIndex) -> FlightRecords | None:
    """Return the dumps of a trace, None without any."""
    rows = _rows(index)
    dumps = [row for row in rows if row["section"] == _DUMP]
    if not dumps:
        return None
    labels = source_labels(index)
    nameless = tuple(source_label(labels, row["source"]) for row in dumps if row["rank"] is None)
    count = Counter(row["rank"] for row in dumps if row["rank"] is not None)
    repeated = tuple(sorted(rank for rank, often in count.items() if often > 1))
    by_rank = {row["rank"]: row for row in dumps if count[row["rank"]] == 1}
    calls: dict[int, list[dict[str, Any]]] = {}
    configured: dict[int, dict[str, tuple[str, tuple[int, ...] | None]]] = {}
    for row in rows:
        rank = row["rank"]
        if rank not in by_rank:
            continue
        if row["section"] == _CALLS:
            calls.setdefault(rank, []).append(row)
        elif row["section"] == _GROUPS:
            ranks = row["args"].get("ranks")
            known = tuple(ranks) if isinstance(ranks, list) and ranks else None
            configured.setdefault(rank, {})[row["name"] or ""] = (str(row["args"].get("desc", "")), known)
    groups = _Groups(configured, set(by_rank))
    found = tuple(_dump(rank, by_rank[rank]["args"], calls.get(rank, []), groups) for rank in sorted(by_rank))
    return FlightRecords(found, sum(row["section"] == _CALLS for row in rows), nameless, repeated)


@join
def hang(index: TraceIndex) -> HangReport | None:
    """Return why the ranks of a run wait, None without dumps of the Flight Recorder."""
    records = flight_records(index)
    return None if records is None else find_hang(records.dumps)


@join
def stacks(index: TraceIndex) -> dict[tuple[int, int | None], list[str]]:
    """Return the frames of the stacks of a trace, the outermost first, by rank and number."""
    return {
        (row["rank"], row["args"].get("stack")): [str(each) for each in row["args"].get("frames") or ()]
        for row in _rows(index)
        if row["section"] == _STACKS
    }


@join
def _rows(index: TraceIndex) -> list[dict[str, Any]]:
    table = index.totals
    if not table.num_rows:
        return []
    ours = pc.starts_with(pc.cast(table.column("section"), pa.string()), _DUMP)
    rows: list[dict[str, Any]] = (
        table.filter(ours).select(["source", "rank", "section", "order", "name", "args"]).to_pylist()
    )
    for row in rows:
        try:
            args = orjson.loads(row["args"] or "{}")
        except orjson.JSONDecodeError:
            args = {}
        row["args"] = args if isinstance(args, dict) else {}
    return rows


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
    times = [each.get(key) for each in args for key in ("created_ns", "started_ns", "completed_ns")]
    latest = max((time for time in times if isinstance(time, int)), default=0)
    calls: dict[ProcessGroup, list[RecordedCall]] = {}
    first: dict[ProcessGroup, int] = {}
    cache: dict[tuple[str, str], ProcessGroup] = {}
    for order, (row, each) in enumerate(zip(rows, args, strict=True)):
        key = str(each.get("group", "")), str(each.get("desc", ""))
        group = cache.get(key) or cache.setdefault(key, groups.of(rank, *key))
        call = _call(order, str(row["name"] or ""), each, latest)
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


def _call(order: int, title: str, args: Mapping[str, Any], latest: int) -> RecordedCall:
    name, _, ends = title.partition(" ")
    source, target = _source_and_target(ends)
    created, timeout = args.get("created_ns"), args.get("timeout_ms")
    completed = args.get("state") == "completed"
    waited = isinstance(created, int) and isinstance(timeout, int) and timeout > 0
    return RecordedCall(
        order,
        name,
        _number(args, "seq"),
        _number(args, "p2p_seq"),
        is_p2p=args.get("p2p") is True or (name in ("send", "recv") and source >= 0),
        source=source,
        target=target,
        in_sizes=_shapes(args, "in"),
        out_sizes=_shapes(args, "out"),
        in_types=tuple(args.get("in_types") or ()),
        out_types=tuple(args.get("out_types") or ()),
        state=str(args.get("state", "")),
        completed=completed,
        retired=args.get("retired") is True,
        overdue=not completed and waited and latest - (created or 0) >= (timeout or 0) * 1_000_000,
        line=str(args.get("line", "")),
        backend=str(args.get("backend", "")),
        stack=args["stack"] if isinstance(args.get("stack"), int) else None,
    )


def _number(args: Mapping[str, Any], key: str) -> int:
    value = args.get(key)
    return value if isinstance(value, int) else 0


def _shapes(args: Mapping[str, Any], key: str) -> Shapes:
    value = args.get(key)
    return tuple(tuple(each) for each in value) if isinstance(value, list) else ()


def _source_and_target(ends: str) -> tuple[int, int]:
    """Return the ranks of `0->1` (send) or `1<-0` (recv), -1 for none."""
    for sign in _ENDS:
        left, found, right = ends.partition(sign)
        if found and left.isdecimal() and right.isdecimal() and len(ends) < 20:
            return (int(left), int(right)) if sign == "->" else (int(right), int(left))
    return -1, -1

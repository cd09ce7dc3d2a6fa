"""Rows of a trace in groups of ranks: by rank, by host, by parallel group.

A rank is an owner (see `owners`): two inputs of one host that name the same rank are one, and those of two hosts are
two. Rows of inputs that name no rank are groups of their own. Rows of TOTALS belong to the owner of their input and
rank. Parallel groups come from `--topology`, else from the process groups that the files name (`distributedInfo` of
Kineto); a rank that neither knows is in a group "not known".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from tracekit.errors import Option, UsageError, sentence
from tracekit.index import owners as _owners
from tracekit.index import parallel_groups, process_groups
from tracekit.index.parallel_groups import HOST, RANK, Labels
from tracekit.index.sources import facts_by_source, source_label, source_labels
from tracekit.index.topology import Topology
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64
from tracekit.options import no_such

__all__ = ["COLUMNS", "NamedGroups", "RankGroups", "dimensions", "find"]

COLUMNS = _owners.COLUMNS
NO_RANK = "(no rank)"


@dataclass(frozen=True, slots=True, eq=False)
class RankGroups:
    """Rows in groups. noun: of one group, "rank" or "tp group". labels: of each group, all different.

    events, totals: the group of each row of EVENTS and TOTALS. ranks: those of each group that are in the trace.
    sources: the inputs of each group. unknown: the number of the group of ranks whose group nothing says, -1 for none.
    notes: sentences on what is missing or contradictory.
    """

    noun: str
    labels: tuple[str, ...]
    events: I64
    totals: I64
    ranks: tuple[tuple[int, ...], ...]
    sources: tuple[frozenset[int], ...]
    unknown: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Members:
    """The ranks of a trace, and inputs or processes without one. hosts: "" for not known."""

    labels: list[str]
    ranks: list[int | None]
    hosts: list[str]
    sources: list[set[int]]
    events: I64
    totals: I64


@dataclass(frozen=True, slots=True, eq=False)
class Dimensions:
    """The group of each rank in each dimension that is known, and sentences on contradictions."""

    labels: Mapping[str, Labels]
    notes: tuple[str, ...]
    overlapping: Mapping[str, int]


def find(index: TraceIndex, by: str, topology: Topology | None = None) -> RankGroups:
    """Return the groups. by: "rank", "host", or a dimension that the topology or the files have.

    Raises: UsageError for a dimension that is not known, and for a topology of another number of ranks.
    """
    members = _members(index)
    known = dimensions(index, topology)
    if by == RANK:
        named = list(members.labels)
    elif by == HOST:
        of_rank = known.labels.get(HOST, {})
        named = [
            of_rank.get(-1 if rank is None else rank) or host or "host not known"
            for rank, host in zip(members.ranks, members.hosts, strict=True)
        ]
    else:
        named = _named(by, known, members.ranks)
    labels = tuple(dict.fromkeys(named))
    number = {label: i for i, label in enumerate(labels)}
    code = np.array([number[label] for label in named], np.int64)
    ranks: list[set[int]] = [set() for _ in labels]
    sources: list[set[int]] = [set() for _ in labels]
    for at, rank, inputs in zip(code.tolist(), members.ranks, members.sources, strict=True):
        sources[at] |= inputs
        ranks[at] |= set() if rank is None else {rank}
    in_order = tuple(tuple(sorted(each)) for each in ranks)
    notes = [*_absent(index, members.ranks, topology), *(known.notes if by != RANK else ())]
    if by not in (RANK, HOST):
        notes += _listing(labels, in_order)
    noun = f"{by} group" if by in parallel_groups.PARALLEL else by
    unknown = number.get(f"{by} not known", -1) if by != RANK else -1
    events, totals = code[members.events], code[members.totals]
    return RankGroups(noun, labels, events, totals, in_order, tuple(map(frozenset, sources)), unknown, tuple(notes))


def _named(by: str, known: Dimensions, ranks: Sequence[int | None]) -> list[str]:
    if by not in known.labels:
        if by in known.overlapping:
            raise UsageError(
                sentence(
                    Option("by", by),
                    f": the process groups of that name overlap (rank {known.overlapping[by]} is in several)",
                ),
                hint=sentence(Option("topology"), " names the groups, such as tp=8,pp=4,dp=32"),
            )
        names = (RANK, HOST, *(name for name in known.labels if name != HOST))
        if by in parallel_groups.PARALLEL or by.removesuffix("-rank") in parallel_groups.PARALLEL:
            problem = sentence(Option("by", by), f": the files do not say the {by.removesuffix('-rank')} groups")
            known_here = f", such as tp=8,pp=4,dp=32; known here: {', '.join(names)}"
            raise UsageError(problem, hint=sentence("add ", Option("topology"), known_here), choices=names)
        raise no_such(Option("by"), by, "dimension", names)
    of_rank = known.labels[by]
    return [of_rank.get(-1 if rank is None else rank, f"{by} not known") for rank in ranks]


def dimensions(index: TraceIndex, topology: Topology | None = None) -> Dimensions:
    """Return what the topology and the files know of the groups of ranks. Raises: UsageError."""
    return _dimensions(index, topology)


@join
def _dimensions(index: TraceIndex, topology: Topology | None) -> Dimensions:
    recorded, overlapping = process_groups.groups_of_processes(_process_groups(index))
    if topology is None:
        return Dimensions(recorded, (), overlapping)
    world = world_size(index)
    given = topology.dimensions(world)
    highest = max((rank for rank in _members(index).ranks if rank is not None), default=-1)
    if topology.sizes and highest >= (whole := topology.ranks(world)):
        raise UsageError(
            sentence(Option("topology", topology.text), f": {whole} ranks, and the run has a rank {highest}")
        )
    notes = []
    for name, labels in recorded.items():
        if (
            not name.endswith("-rank")
            and name in given
            and (differing := process_groups.contradiction(given[name], labels))
        ):
            given_ranks, recorded_ranks = (parallel_groups.listed(ranks) for ranks in differing)
            notes.append(
                f"--topology {topology.text} has ranks {given_ranks} as one {name} group, the process groups of the "
                f"files have ranks {recorded_ranks}: the tables use --topology"
            )
    return Dimensions({**recorded, **given}, tuple(notes), overlapping)


def world_size(index: TraceIndex) -> int | None:
    """Return the number of ranks of the run, None where no input says it."""
    sizes = [_world(facts.facts) for facts in facts_by_source(index).values()]
    return max((size for size in sizes if size), default=None)


def _world(facts: Mapping[str, object]) -> int:
    info = facts.get("distributedInfo")
    size = facts.get("world_size", info.get("world_size") if isinstance(info, dict) else None)
    return (
        size if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= parallel_groups.MOST_RANKS else 0
    )


def _process_groups(index: TraceIndex) -> list[tuple[str, list[int]]]:
    """Return the dimension and the ranks of each process group that an input names."""
    return [(dimension, ranks) for dimension, ranks in _groups_of_inputs(index).values() if ranks]


@join
def _groups_of_inputs(index: TraceIndex) -> dict[tuple[int, str], tuple[str, list[int]]]:
    """Return the dimension, "" for none, and the ranks of each process group by input and name."""
    groups_of_input: dict[tuple[int, str], tuple[str, list[int]]] = {}
    for source, facts in facts_by_source(index).items():
        info = facts.facts.get("distributedInfo")
        groups = info.get("pg_config") if isinstance(info, dict) else None
        for group in groups if isinstance(groups, list) else ():
            if not isinstance(group, dict):
                continue
            words = (str(group.get(key, "")) for key in ("pg_desc", "pg_name"))
            dimension = next(filter(None, map(process_groups.dimension_of, words)), "")
            ranks = group.get("ranks")
            if isinstance(ranks, list) and all(isinstance(rank, int) and rank >= 0 for rank in ranks):
                # torch writes no ranks for a group that has all of them.
                groups_of_input[source, str(group.get("pg_name"))] = (
                    dimension,
                    ranks or list(range(_world(facts.facts))),
                )
    return groups_of_input


@dataclass(frozen=True, slots=True, eq=False)
class NamedGroups:
    """Process groups by input and name, and the dimension of parallelism by ranks: what tells whom a collective joins.

    whole: the ranks of the run, "[0,1]", "" where their number is not known.
    """

    groups: Mapping[tuple[int, str], tuple[str, list[int]]]
    by_ranks: Mapping[str, str]
    whole: str

    @classmethod
    def of(cls, index: TraceIndex, topology: Topology | None) -> NamedGroups:
        """Return those of a trace. Raises: UsageError for a topology of another number of ranks."""
        by_ranks: dict[str, str] = {}
        labels = dimensions(index, topology).labels
        for name in (*parallel_groups.PARALLEL, *labels):
            if name in labels and not name.endswith("-rank") and name != HOST:
                for ranks in parallel_groups.members(labels[name]).values():
                    if len(ranks) > 1:
                        by_ranks.setdefault(_text(ranks), name)
        world = world_size(index)
        return cls(_groups_of_inputs(index), by_ranks, _text(list(range(world))) if world else "")

    def ranks(self, source: int, name: object) -> str | None:
        """Return the ranks of a group of an input, None where the input does not name them."""
        _, ranks = self.groups.get((source, str(name)), ("", []))
        return _text(ranks) if ranks else None

    def dimension(self, source: int, name: object, words: object, ranks: str | None) -> str | None:
        """Return the dimension of a group: of its description, else of the group with its ranks."""
        dimension = process_groups.dimension_of(words) if isinstance(words, str) else ""
        dimension = dimension or self.groups.get((source, str(name)), ("", []))[0]
        if dimension or ranks is None:
            return dimension or None
        return self.by_ranks.get(ranks) or ("all ranks" if ranks == self.whole else None)


def _text(ranks: Sequence[int]) -> str:
    return f"[{','.join(map(str, ranks))}]"


@join
def _members(index: TraceIndex) -> _Members:
    owners = _owners.find(index, join_ranks=True)
    events = index.events
    sources = index.ints("source")
    pairs = sets.unique(sources.astype(np.int64) * max(len(owners), 1) + owners.codes) if events.num_rows else ()
    sources_of: list[set[int]] = [set() for _ in range(len(owners))]
    for pair in np.asarray(pairs, np.int64).tolist():
        sources_of[pair % len(owners)].add(pair // len(owners))
    ranks: list[int | None] = [rank if isinstance(rank, int) else None for rank in owners.ranks]
    often = Counter(ranks)
    labels = [
        f"{label} {NO_RANK}" if rank is None else f"rank {rank}" if often[rank] == 1 else label
        for label, rank in zip(owners.labels, ranks, strict=True)
    ]
    codes = np.zeros(index.totals.num_rows, np.int64)
    if index.totals.num_rows:
        source, rank = (arrow.ints(index.totals.column(name), -1) for name in ("source", "rank"))
        seen, place = np.unique(np.stack((source, rank)), axis=1, return_inverse=True)
        taken = [_of_totals(index, s, None if r < 0 else r, (labels, ranks, sources_of)) for s, r in seen.T.tolist()]
        codes = np.array(taken, np.int64)[place.reshape(-1)]
    hosts = [next(filter(None, (_owners.host_of(index, source) for source in sorted(of))), "") for of in sources_of]
    return _Members(labels, ranks, hosts, sources_of, owners.codes, codes)


def _of_totals(
    index: TraceIndex, source: int, rank: int | None, found: tuple[list[str], list[int | None], list[set[int]]]
) -> int:
    """Return the member that rows of TOTALS of an input and a rank belong to, a new one where there is none."""
    labels, ranks, sources_of = found
    mine = [i for i, of in enumerate(sources_of) if source in of]
    if rank is None:
        if len(mine) == 1:
            return mine[0]
    elif same := [i for i in (mine or range(len(ranks))) if ranks[i] == rank]:
        sources_of[same[0]].add(source)
        return same[0]
    label = source_label(source_labels(index), source)
    text = f"{label} {NO_RANK}" if rank is None else f"rank {rank}"
    if text in labels:
        text = f"{label} · {text}" if rank is not None else f"{text} ({len(labels)})"
    labels.append(text)
    ranks.append(rank)
    sources_of.append({source})
    return len(labels) - 1


def _absent(index: TraceIndex, ranks: Sequence[int | None], topology: Topology | None) -> list[str]:
    """Return a sentence on ranks of the run that are not in the trace, and one where none is known."""
    here = {rank for rank in ranks if rank is not None}
    if not here:
        return ["no input names a rank: each input or process is a group of its own"]
    world = world_size(index)
    whole = world if topology is None else topology.ranks(world) if topology.sizes else world
    if whole is None or len(here) >= whole:
        return []
    lacking = parallel_groups.listed([rank for rank in range(whole) if rank not in here])
    return [f"{len(here):,} of {whole:,} ranks: the others are not in the trace (rank {lacking})"]


def _listing(labels: Sequence[str], ranks: Sequence[tuple[int, ...]], most: int = 8) -> list[str]:
    parts = [
        f"{label}: rank {parallel_groups.listed(group)}" for label, group in zip(labels, ranks, strict=True) if group
    ]
    more = f"; and {len(parts) - most:,} more" if len(parts) > most else ""
    return ["; ".join(parts[:most]) + more] if parts else []

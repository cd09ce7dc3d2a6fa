"""Owners: the rank, process or input that rows of EVENTS belong to, each with its own steps and devices.

An owner is an input, and in it a rank where rows name ranks; where they name none, a process where several processes
worked on devices, took steps or communicated. A row without a rank belongs to the only rank of its input.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tracekit.index import grouping
from tracekit.index.devices import by_input, sources_of_several_runs
from tracekit.index.sources import (
    clock_groups,
    facts_by_source,
    rank_label,
    several_clocks,
    source_label,
    source_labels,
)
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.report import Cell, Column
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.units import Unit

__all__ = ["COLUMNS", "Owners", "find", "host_of"]

COLUMNS = frozenset({"kind", "source", "rank", "pid"})
Mask = npt.NDArray[np.bool_]
_DECIDING = DEVICE_WORK | {Kind.STEP, Kind.COMMUNICATION}


@dataclass(frozen=True, slots=True, eq=False)
class Owners:
    """The owners. codes: shape (n,), the owner of each row of EVENTS. labels: a name for each, all different.

    ranks: of each owner, None where unknown. clocks: owners of the same number share a clock.
    """

    codes: I64
    labels: list[str]
    ranks: list[Cell]
    clocks: list[int]

    def __len__(self) -> int:
        return len(self.labels)

    def column(self, owners: list[int], priority: int = 0) -> list[Column]:
        """Return the column that names the owner of each row of a table; none where there is one owner alone."""
        if len(self) < 2:
            return []
        title = "Rank" if None not in self.ranks else "Input"
        return [Column("owner", title, Unit.TEXT, [self.labels[o] for o in owners], priority, "place")]

    def prefix(self, owner: int) -> str:
        """Return the beginning of a sentence about an owner: "rank 3: "; "" where there is one alone."""
        return f"{self.labels[owner]}: " if len(self) > 1 else ""


@join
def find(index: TraceIndex, *, join_ranks: bool = False) -> Owners:
    """Return the owners. join_ranks: inputs that share a clock and name the same rank are one owner.

    Inputs that name different hosts are never the same rank: each run counts its ranks from 0.
    """
    events = index.events
    every = np.arange(events.num_rows)
    inputs = by_input(index)
    place = grouping.Key(inputs.codes, range(inputs.count))
    rank = _only_rank(place, index.key("rank", every))
    pid = index.key("pid", every)
    split = _split_by_process(index, place, rank, pid)
    process = grouping.Key(np.where(split, pid.codes, 0), pid.labels)
    own_clocks = several_clocks(index) or bool(sources_of_several_runs(index))
    if join_ranks and not own_clocks:
        place = grouping.Key(np.where(rank.codes > 0, _joined(index, place, rank), place.codes), place.labels)
    groups = grouping.group_by(place, rank, process)
    keys = list(zip(*groups.labels, strict=True))
    # Ranks are in numeric order, whatever the order of the inputs; ranks of several runs are run by run.
    known = [rank for _, rank, _ in keys if rank is not None]
    by_rank = len(known) == len(keys) == len(set(known))
    order = sorted(
        range(groups.count),
        key=lambda g: [(cell is None, cell or 0) for cell in ((keys[g][1], *keys[g]) if by_rank else keys[g])],
    )
    number = np.empty(groups.count, np.int64)
    number[order] = np.arange(groups.count)
    places, ranks, pids = ([labels[g] for g in order] for labels in groups.labels)
    sources = [inputs.labels[0][p] if isinstance(p, int) else None for p in places]
    runs = [inputs.labels[1][p] if isinstance(p, int) else None for p in places]
    processes = [run if p is None else p for p, run in zip(pids, runs, strict=True)]
    shared = clock_groups(index)
    # Inputs that share a clock have one; several runs of an input have one each, numbered after those.
    by_place = [
        shared.get(s, 0) if r is None and isinstance(s, int) else len(shared) + p for p, s, r in _places(inputs)
    ]
    clocks = [by_place[p] if own_clocks and isinstance(p, int) else 0 for p in places]
    codes = number[groups.codes] if groups.count > 1 else groups.codes
    return Owners(codes, _labels(index, sources, ranks, processes), ranks, clocks)


def _joined(index: TraceIndex, place: grouping.Key, rank: grouping.Key) -> I64:
    """Return one place for all rows of a rank; one for each host where inputs on several hosts name the same rank."""
    inputs = by_input(index)
    pairs = sets.unique(place.codes * len(rank.labels) + rank.codes)
    of_rank: dict[int, dict[str, list[int]]] = {}
    for p, r in zip((pairs // len(rank.labels)).tolist(), (pairs % len(rank.labels)).tolist(), strict=True):
        source = inputs.labels[0][p]
        host = host_of(index, source) if isinstance(source, int) else ""
        of_rank.setdefault(r, {}).setdefault(host, []).append(p)
    first = np.zeros(len(rank.labels) * len(place.labels), np.int64)
    for r, hosts in of_rank.items():
        if len(hosts.keys() - {""}) > 1:
            for places in hosts.values():
                first[[r * len(place.labels) + p for p in places]] = places[0]
    found: I64 = first[rank.codes * len(place.labels) + place.codes]
    return found


def host_of(index: TraceIndex, source: int) -> str:
    """Return the host that an input is from, "" where it does not say so."""
    facts = facts_by_source(index).get(source)
    host = (facts.facts.get("host") or facts.facts.get("host_name")) if facts is not None else ""
    return host if isinstance(host, str) else ""


def _places(inputs: grouping.Groups) -> list[tuple[int, Cell, Cell]]:
    """Return number, source and, where the input holds several runs, process of each group by input."""
    return list(zip(range(inputs.count), inputs.labels[0], inputs.labels[1], strict=True))


def _only_rank(place: grouping.Key, rank: grouping.Key) -> grouping.Key:
    """Return the ranks with those filled in that a row lacks, where its input has one rank alone."""
    if not (rank.codes == 0).any() or len(rank.labels) == 1:
        return rank
    width = len(rank.labels)
    seen = sets.unique(place.codes * width + rank.codes)
    seen = seen[seen % width > 0]
    places, first, count = np.unique(seen // width, return_index=True, return_counts=True)
    alone = np.zeros(len(place.labels), np.int64)
    alone[places[count == 1]] = seen[first[count == 1]] % width
    return grouping.Key(np.where(rank.codes == 0, alone[place.codes], rank.codes), rank.labels)


def _split_by_process(index: TraceIndex, place: grouping.Key, rank: grouping.Key, pid: grouping.Key) -> Mask:
    """Return for each row whether its process is an owner of its own."""
    deciding = np.flatnonzero(index.kind_mask(_DECIDING) & (rank.codes == 0))
    count = len(place.labels)
    width = len(pid.labels)
    seen = sets.unique(place.codes[deciding] * width + pid.codes[deciding])
    processes = np.bincount(seen[seen % width > 0] // width, minlength=count)
    unnamed = np.bincount(seen[seen % width == 0] // width, minlength=count)
    several = (processes > 1) & (unnamed == 0)
    split: Mask = several[place.codes] & (rank.codes == 0)
    return split


def _labels(index: TraceIndex, sources: list[Cell], ranks: list[Cell], pids: list[Cell]) -> list[str]:
    names = source_labels(index)
    out = []
    for source, rank, pid in zip(sources, ranks, pids, strict=True):
        parts = [] if rank is None else [rank_label(index.run, source, rank)]
        shared = [s for s, r in zip(sources, ranks, strict=True) if r == rank]
        if isinstance(source, int) and (rank is None or len(shared) > 1) and (len(set(sources)) > 1 or pid is None):
            parts.insert(0, source_label(names, source))
        if pid is not None:
            parts.append(f"process {index.run.ids.get(('pid', source, pid), pid)}")
        out.append(" · ".join(parts))
    return [f"{text} ({i})" if out.count(text) > 1 else text for i, text in enumerate(out)]

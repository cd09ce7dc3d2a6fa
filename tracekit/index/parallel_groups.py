"""Groups of ranks in each dimension of parallelism: of the sizes of a formula, or of the coordinates of each rank.

The sizes number the ranks as Megatron-LM does (`RankGenerator`, megatron/core/parallel_state.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tracekit.errors import Option, Text, UsageError, sentence

__all__ = [
    "HOST",
    "MOST_RANKS",
    "ORDER",
    "PARALLEL",
    "RANK",
    "Labels",
    "groups_of_formula",
    "groups_of_rows",
    "labelled",
    "listed",
    "members",
    "ranks_of_formula",
    "topology_error",
]

RANK, HOST = "rank", "host"
PARALLEL = ("tp", "cp", "ep", "dp", "pp")
"""The dimensions of parallelism, in Megatron's order of ranks."""
ORDER = "-".join(PARALLEL)
MOST_RANKS = 1 << 20

Labels = Mapping[int, str]
"""The group of each rank in one dimension, by rank."""


def members(labels: Labels) -> dict[str, list[int]]:
    """Return the ranks of each group, ascending."""
    ranks_of_group: dict[str, list[int]] = {}
    for rank, label in sorted(labels.items()):
        ranks_of_group.setdefault(label, []).append(rank)
    return ranks_of_group


def listed(ranks: Sequence[int], most: int = 6) -> str:
    """Return ranks in words, short where there are many.

    >>> listed([0, 1, 2, 3]), listed([0, 8, 16]), listed(list(range(0, 64, 8)))
    ('0-3', '0, 8, 16', '0 to 56 by 8')
    """
    if len(ranks) > 2:
        steps = {b - a for a, b in pairwise(ranks)}
        if steps == {1}:
            return f"{ranks[0]}-{ranks[-1]}"
        if len(steps) == 1 and len(ranks) > most:
            return f"{ranks[0]} to {ranks[-1]} by {steps.pop()}"
    shown = ", ".join(map(str, ranks[:most]))
    return f"{shown} and {len(ranks) - most} more" if len(ranks) > most else shown


def topology_error(text: str, why: str, *, hint: Text = "") -> UsageError:
    """Return the error of a topology. text: the formula or file that the user gave."""
    return UsageError(sentence(Option("topology", text), f": {why}"), hint=hint)


def ranks_of_formula(text: str, sizes: Mapping[str, int], world: int | None) -> int:
    """Return the number of ranks of a formula. Raises: UsageError where it is not that of the run."""
    dense = math.prod(sizes.get(key, 1) for key in ("tp", "cp", "pp"))
    factors = " x ".join(f"{key} {sizes[key]}" for key in PARALLEL if key in sizes and key != "ep")
    factors += f" = {dense * sizes.get('dp', 1)}" if " x " in factors else ""
    if "dp" not in sizes:
        if world is None:
            reason = "the files do not say how many ranks there are"
            raise topology_error(text, reason, hint=sentence("name dp too: ", Option("topology", "tp=8,pp=4,dp=32")))
        if world % dense:
            reason = f"{factors} ranks do not divide the {world} of the run"
            raise topology_error(text, reason, hint="the product of the sizes, with dp, is the number of ranks")
        return world
    whole = dense * sizes["dp"]
    if whole > MOST_RANKS:
        raise topology_error(text, f"more than {MOST_RANKS:,} ranks")
    if world is not None and whole != world:
        reason = f"{factors} ranks, and the run has {world}"
        raise topology_error(text, reason, hint="the product of the sizes is the number of ranks")
    return whole


def groups_of_formula(text: str, sizes: Mapping[str, int], order: str, world: int | None) -> dict[str, Labels]:
    """Return the dimensions of these sizes, of as many ranks as they or the run say. Raises: UsageError."""
    whole = ranks_of_formula(text, sizes, world)
    tp, cp, ep, pp = (sizes.get(key, 1) for key in ("tp", "cp", "ep", "pp"))
    tokens = order.split("-")
    # Dense layers ignore ep. Data parallelism without a size takes the ranks that are left.
    dense = _orthogonal(tokens, {"tp": tp, "cp": cp, "ep": 1, "dp": whole // (tp * cp * pp), "pp": pp}, whole)
    dense = {key: groups for key, groups in dense.items() if key in sizes or key == "dp"}
    # Experts share the ranks of the dense layers: data and context parallelism make room for ep, and tensor parallelism
    # may be another one (etp).
    etp = sizes.get("etp", tp)
    if ep == 1 and etp == tp:
        dense |= {"ep": [(rank,) for rank in range(whole)]} if "ep" in sizes else {}
    else:
        share, left = divmod(whole, etp * ep * pp)
        if left:
            reason = f"etp {etp} x ep {ep} x pp {pp} does not divide the {whole} ranks"
            raise topology_error(text, reason, hint="ep divides cp x dp, unless etp is named")
        experts = _orthogonal(tokens, {"tp": etp, "cp": 1, "ep": ep, "dp": share, "pp": pp}, whole)
        if "pp" in dense and experts["pp"] != dense["pp"]:
            raise topology_error(text, f"order={order} gives experts other pipelines than the rest")
        dense["ep"] = experts["ep"]
    labels: dict[str, Labels] = {}
    for key in PARALLEL:
        if key in dense:
            labels |= labelled(key, dense[key])
    return labels


def _orthogonal(tokens: Sequence[str], sizes: Mapping[str, int], whole: int) -> dict[str, list[tuple[int, ...]]]:
    """Return the groups of each dimension: ranks that agree in all other coordinates, the first token fastest."""
    groups = {}
    stride = 1
    for token in tokens:
        size = sizes[token]
        firsts = [rank for rank in range(whole) if rank // stride % size == 0]
        groups[token] = [tuple(range(first, first + stride * size, stride)) for first in firsts]
        stride *= size
    return groups


def groups_of_rows(rows: Mapping[int, Mapping[str, str]]) -> dict[str, Labels]:
    """Return the dimensions of the columns of each rank: coordinates, or names of groups."""
    coordinates = [key for key in PARALLEL if any(key in row for row in rows.values())]
    labels: dict[str, Labels] = {}
    for key in coordinates:
        labels |= labelled(key, _agreeing(rows, key, [other for other in coordinates if other != key]))
        labels[f"{key}-rank"] = {
            rank: f"{key} rank {int(row[key])}" for rank, row in sorted(rows.items()) if key in row
        }
    for key in dict.fromkeys(key for row in rows.values() for key in row if key not in PARALLEL):
        labels[key] = {rank: row[key] for rank, row in sorted(rows.items()) if key in row}
    return labels


def _agreeing(rows: Mapping[int, Mapping[str, str]], key: str, others: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the ranks that differ in one coordinate alone.

    Experts share the ranks of data and context parallelism in another way: the first ones of each expert coordinate
    are a group, then the second ones, and so on.
    """
    same = [other for other in others if other != "ep"]
    if key == "ep":
        same = [other for other in same if other not in ("dp", "cp")]
    seen: dict[tuple[object, ...], int] = {}
    groups: dict[tuple[object, ...], list[int]] = {}
    for rank, row in sorted(rows.items()):
        if key not in row:
            continue
        place = tuple(row.get(other) for other in same)
        number = 0
        if key == "ep":
            number = seen.get((*place, int(row[key])), 0)
            seen[*place, int(row[key])] = number + 1
        groups.setdefault((*place, number), []).append(rank)
    return sorted(tuple(ranks) for ranks in groups.values())


def labelled(dimension: str, groups: Sequence[Sequence[int]]) -> dict[str, Labels]:
    """Return the dimension, with groups in order of their first rank, and the place of each rank in its group."""
    ordered = sorted(groups, key=lambda ranks: ranks[0])
    group = {rank: f"{dimension} group {i}" for i, ranks in enumerate(ordered) for rank in ranks}
    place = {rank: f"{dimension} rank {i}" for ranks in ordered for i, rank in enumerate(ranks)}
    return {dimension: group, f"{dimension}-rank": place}

"""The rows of fluid's report as upstream reckons them: by name within a thread, parts below what they are parts of.

"op/compute" is a part of "op" where the same table has "op"; what is no part is a main row, and main rows add up to
the total that ratios are of. All orders descend; the default one is that of the first end. Ratios are single floats.

Source: paddle/fluid/platform/profiler_helper.h of Paddle 1.6, 1.8 and 2.x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tracekit.analysis.intervals import I64
from tracekit.compat.fluid._names import COPY, SPECIAL, Role, cut_of, parent_of, printed_width, role_of
from tracekit.compat.fluid._ranges import Ranges
from tracekit.compat.fluid._std_sort import descending
from tracekit.index.grouping import Groups, statistics

STATES: Final = ("CPU", "GPU", "All")


@dataclass(frozen=True, slots=True)
class Item:
    """One row. Times are ns; total, min and max are those of the state; ratio is null before the total is known."""

    name: str
    role: Role
    calls: int
    total: int
    min: int
    max: int
    cpu: int
    gpu: int
    ratio: float | None = None


RANKS: Final[Mapping[str, Callable[[Item], float]]] = {
    "calls": lambda item: item.calls,
    "total": lambda item: item.total,
    "max": lambda item: item.max,
    "min": lambda item: item.min,
    "ave": lambda item: item.total / item.calls,
}


@dataclass(frozen=True, slots=True)
class Shown:
    """A row as it is printed: `name` without its path; `level` is how far it is indented."""

    level: int
    name: str
    item: Item


@dataclass(frozen=True, slots=True)
class Block:
    """The rows of a thread, or of all. parts: those of each name, in order of their first end."""

    main: list[Item]
    parts: dict[str, list[Item]]
    total: int

    def every_part(self) -> Iterator[tuple[str, Item]]:
        """Give all parts with the name that they are a part of, in upstream's order: that of those names."""
        for name in sorted(self.parts, key=str.encode):
            for item in self.parts[name]:
                yield name, item


def ratio(part: float, whole: float) -> float | None:
    """Return a ratio as a single float, null for 0 of 0.

    >>> ratio(1, 3)
    0.3333333432674408
    """
    return float(np.float32(part / whole)) if whole else None


def block_of(ranges: Ranges, rows: I64, name_of: Sequence[str], state: str) -> Block:
    """Return the rows of some ranges. name_of: what each of `of.names` is called here."""
    numbers: dict[str, int] = {}
    by_code = np.zeros(len(ranges.names), np.int64)
    for code in dict.fromkeys(ranges.name[rows].tolist()):
        by_code[code] = numbers.setdefault(name_of[code], len(numbers))
    codes = by_code[ranges.name[rows]]
    host, gpu = ranges.host_ns[rows], ranges.gpu_ns[rows]
    groups = Groups(codes, len(numbers), ())
    times = {"CPU": host, "GPU": gpu, "All": host + gpu}[state]
    stats, hosts, gpus = (statistics(groups, values) for values in (times, host, gpu))
    items = [
        Item(name, role_of(name), *figures)
        for name, *figures in zip(
            numbers,
            *(a.tolist() for a in (stats.calls, stats.total, stats.min, stats.max, hosts.total, gpus.total)),
            strict=True,
        )
    ]
    return tree_of(items)


def tree_of(items: Sequence[Item]) -> Block:
    """Return items, which are sorted by their first end, as a block; main rows get the ratio of their total."""
    names = {item.name for item in items}

    def above(item: Item) -> str:
        parent = parent_of(item.name)
        return parent if "/" in item.name and parent in names else ""

    total = sum(item.total for item in items if not above(item))
    parts: dict[str, list[Item]] = {}
    for item in items:
        parts.setdefault(above(item), []).append(replace(item, ratio=ratio(item.total, total)))
    return Block(parts.pop("", []), parts, total)


def width_of(blocks: Sequence[Block], *, detail: bool) -> int:
    """Return how wide the column of names is, without what upstream adds to it."""
    items = [item for block in blocks for items in (block.main, *block.parts.values()) for item in items]
    return max((printed_width(item.name, item.role, detail=detail) for item in items), default=0)


def shown(block: Block, *, key: str, detail: bool, top: int = 0) -> tuple[list[Shown], int]:
    """Return the rows as they are printed, and how many main rows are left out where `top` is not 0.

    key: "" for the order of the first end, or one of RANKS. detail: inner parts of operators are shown; else copies
    alone, which move up to the operator, and parts that are ranges of the program's own.
    """
    children = block.parts if detail else _without_detail(block)
    main = _sorted(block.main, key)
    kept = main[:top] if top > 0 else main
    out: list[Shown] = []
    stack = [(0, item) for item in reversed(kept)]
    while stack:
        level, item = stack.pop()
        out.append(Shown(level, item.name[cut_of(item.name, item.role) :], item))
        below = _sorted(children.get(item.name, []), key)
        stack += [(level + 1, part) for part in reversed(below)]
    return out, len(main) - len(kept)


def _sorted(items: list[Item], key: str) -> list[Item]:
    return [items[i] for i in descending([RANKS[key](item) for item in items])] if key else items


def _without_detail(block: Block) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    roles = {item.name: (item.role, parent) for parent, items in block.parts.items() for item in items}
    for parent, item in block.every_part():
        if COPY in item.name:
            above = parent
            while above in roles and roles[above][0] is not Role.ORDINARY:
                above = roles[above][1]
            moved = replace(item, name=f"{above}/{item.name.rpartition('/')[2]}")
            found.setdefault(above, []).append(moved)
        elif item.role is Role.ORDINARY:
            found.setdefault(parent, []).append(item)
    return found


@dataclass(frozen=True, slots=True)
class Overhead:
    """Computation and the rest, and copies, as upstream reckons them. Times in ns; ratios are null for 0 of 0.

    accumulated: where operators ran beside ParallelExecutor::Run, the time of all, more than `total`; else null.
    copies: (name, calls, total, ratio): all, asynchronous, synchronous.
    """

    total: int
    accumulated: int | None
    compute: float
    compute_ratio: float | None
    framework: float
    framework_ratio: float | None
    copies: tuple[tuple[str, int, int, float], ...]


def overhead_of(block: Block, *, old: bool) -> Overhead:
    """Return the overhead. old: as Paddle before 2.0, from ratios, which it adds as single floats."""
    parts = list(block.every_part())
    counted = [item for _, item in parts] if old else [*block.main, *(item for _, item in parts)]
    copies = [_copies(kind, counted) for kind in ("Async", "Sync")]
    both = (COPY, copies[0][1] + copies[1][1], copies[0][2] + copies[1][2], _single(copies[0][3], copies[1][3]))
    if old:
        share: float | None = _single(*(item.ratio or 0.0 for _, item in parts if "compute" in item.name))
        rest = float(np.float32(1) - np.float32(share))
        return Overhead(
            block.total, None, block.total * (share or 0.0), share, block.total * rest, rest, (both, *copies)
        )
    compute = sum(item.total for _, item in parts if "compute" in item.name and "compute/" not in item.name)
    accumulated = sum(item.total for item in block.main if item.role is not Role.SPECIAL)
    accumulated += sum(item.total for parent, item in parts if parent == SPECIAL)
    special = any(item.role is Role.SPECIAL for item in block.main)
    share = ratio(compute, accumulated)
    left = None if share is None else float(np.float32(1) - np.float32(share))
    return Overhead(
        block.total, accumulated if special else None, compute, share, accumulated - compute, left, (both, *copies)
    )


def _single(*values: float) -> float:
    """Add single floats as singles, in order."""
    total = np.float32(0)
    for value in values:
        total += np.float32(value)
    return float(total)


def _copies(kind: str, items: Sequence[Item]) -> tuple[str, int, int, float]:
    found = [item for item in items if f"{COPY}{kind}" in item.name]
    share = _single(*(item.ratio or 0.0 for item in found))
    return f"{COPY}{kind}", sum(i.calls for i in found), sum(i.total for i in found), share

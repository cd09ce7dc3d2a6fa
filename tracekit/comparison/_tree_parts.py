"""The change of device time by module or operator, in parts that add up to the nanosecond.

Work is aligned by module, operator and shapes; calls of the same key are alike. The change of each operator has these
parts, in this order:

- only here: the operator is on one side alone.
- more calls: the difference of the calls, at the time per call of the base.
- other shapes: the calls with shapes or datatypes that one side alone has; as many of them as both sides have differ in
  work.
- other kernel: calls with the same shapes that other kernels computed.
- other floor: the same calls and kernels with another least time (datatype, device), where the work is known.
- efficiency: the same calls and kernels, farther from or nearer to that least time.
- not known: the same calls and kernels, of which no least time is known.

Where all calls with shapes of their own have a floor, "other shapes" is the change of the floor, and the rest is
efficiency. A change of the floor counts in the time that the base takes for it: twice the work at the same share of the
peak takes twice the time, and its efficiency is the same. Where the least time is less than a tenth of the time of the
base, the work is not what takes it (a launch, a few bytes): then the time for other work is not known. Amounts are
exact fractions; each cell is rounded, and what rounding leaves goes to the largest cell of its row, so rows and columns
add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tracekit.comparison._measure import Sides, weights
from tracekit.comparison._parts import rounded
from tracekit.comparison._profile import Profile
from tracekit.comparison._tree import TreeAmount, TreeKey
from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import plural

__all__ = ["BY", "PARTS", "TreeChange", "TreeParts", "TreeRow", "tree_parts"]

BY = ("module", "operator")
PARTS = ("only_here", "more_calls", "other_shapes", "other_kernel", "other_floor", "efficiency", "not_known")
_PS = 1_000
"""Picoseconds in a nanosecond: the unit of floors."""
_LEAST_OF_FLOOR = Fraction(1, 10)
"""Share of the time of the base that its least time is at least, so that other work takes another time."""


@dataclass(frozen=True, slots=True)
class TreeMean:
    """The mean of a key over the runs of a side. floor: ns, None where one run does not know it."""

    calls: Fraction
    ns: Fraction
    floor: Fraction | None
    kernels: frozenset[str]


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A module or an operator. base, new: ns per step or run. parts: ns, one for each of PARTS; they add up."""

    label: str
    base: int
    new: int
    parts: tuple[int, ...]

    @property
    def difference(self) -> int:
        """Return new minus base."""
        return self.new - self.base


@dataclass(frozen=True, slots=True)
class TreeParts:
    """Rows, largest difference first. base, new, parts: the sums of the rows. aligned: by modules as well."""

    rows: tuple[TreeRow, ...]
    base: int
    new: int
    parts: tuple[int, ...]
    aligned: bool

    def __repr__(self) -> str:
        return f"parts of a change in {plural(len(self.rows), 'row')}: {self.base:,} ns -> {self.new:,} ns"


@dataclass(frozen=True, slots=True)
class TreeChange:
    """The change by "module" or "operator"; why: the reason where there is none, else ""."""

    by: str
    parts: TreeParts | None
    why: str = ""


def tree_parts(sides: Sides, by: str) -> TreeChange:
    """Return the change by module or operator."""
    runs = [run.tree for run in (*sides.base, *sides.new)]
    if any(tree is None or not tree.whole for tree in runs):
        return TreeChange(by, None, "not all runs have device work")
    with_modules = all(tree is not None and tree.modules for tree in runs)
    if by == "module" and not any(
        key.module for tree in runs if tree is not None for key in tree.whole if key.module[:1] != "("
    ):
        cut = any(run.cut for run in (*sides.base, *sides.new))
        advice = "" if cut else ": record with_stack=True, or name ranges"
        return TreeChange(by, None, f"no run names modules{advice}")
    base, new = (_means(side, sides, by) for side in (sides.base, sides.new))
    groups: dict[tuple[str, str], tuple[dict[str, TreeMean], dict[str, TreeMean]]] = {}
    for place, means in enumerate((base, new)):
        for key, mean in means.items():
            groups.setdefault((key.module, key.operator), ({}, {}))[place][key.shapes] = mean
    cells: dict[str, list[Fraction]] = {}
    times: dict[str, list[Fraction]] = {}
    for (module, operator), both in groups.items():
        label = module if by == "module" else operator
        own = cells.setdefault(label, [Fraction(0)] * len(PARTS))
        for number, ns in enumerate(parts_of(*both)):
            own[number] += ns
        whole = times.setdefault(label, [Fraction(0), Fraction(0)])
        for place in (0, 1):
            whole[place] += sum((mean.ns for mean in both[place].values()), Fraction(0))
    labels = sorted(cells, key=lambda label: (-abs(times[label][1] - times[label][0]), -times[label][0], label))
    sums = [rounded([times[label][place] for label in labels]) for place in (0, 1)]
    rows = tuple(
        TreeRow(label, before, after, whole_cells(cells[label], after - before))
        for label, before, after in zip(labels, *sums, strict=True)
    )
    parts = tuple(sum(row.parts[number] for row in rows) for number in range(len(PARTS)))
    return TreeChange(by, TreeParts(rows, sum(sums[0]), sum(sums[1]), parts, with_modules))


def whole_cells(cells: Sequence[Fraction], difference: int) -> tuple[int, ...]:
    """Return the cells as integers that add up to the difference."""
    out = [round(cell) for cell in cells]
    largest = max(range(len(cells)), key=lambda number: (abs(cells[number]), -number))
    out[largest] += difference - sum(out)
    return tuple(out)


def _means(runs: Sequence[Profile], sides: Sides, by: str) -> Mapping[TreeKey, TreeMean]:
    share = weights(runs, by_step=sides.by_step, by_runs=sides.by_runs)
    found: dict[TreeKey, TreeMean] = {}
    for run, weight in zip(runs, share, strict=True):
        tree = run.tree
        if tree is None:
            continue
        for key, amount in (tree.steady if sides.by_step else tree.whole).items():
            # Modules are no part of the question by operator: one that was renamed would be only here.
            wanted = key if by == "module" else key._replace(module="")
            found[wanted] = mean_with(found.get(wanted), amount, weight)
    return found


def mean_with(before: TreeMean | None, amount: TreeAmount, weight: Fraction) -> TreeMean:
    """Return the mean with the amount of one more run."""
    floor = None if amount.floor_ps is None else weight * Fraction(amount.floor_ps, _PS)
    calls, ns = weight * amount.calls, weight * amount.ns
    if before is None:
        return TreeMean(calls, ns, floor, amount.kernels)
    whole = None if floor is None or before.floor is None else before.floor + floor
    return TreeMean(before.calls + calls, before.ns + ns, whole, before.kernels | amount.kernels)


def parts_of(base: Mapping[str, TreeMean], new: Mapping[str, TreeMean]) -> list[Fraction]:
    """Return the parts of the change of an operator; base, new: by shapes."""
    out = dict.fromkeys(PARTS, Fraction(0))
    if not base or not new:
        out["only_here"] = sum((m.ns for m in new.values()), Fraction(0)) - sum(
            (m.ns for m in base.values()), Fraction(0)
        )
        return list(out.values())
    for shapes in base.keys() & new.keys():
        _same_shapes(base[shapes], new[shapes], out)
    gone = [mean for shapes, mean in base.items() if shapes not in new]
    came = [mean for shapes, mean in new.items() if shapes not in base]
    if gone and came:
        _changed_shapes(_together(gone), _together(came), out)
    else:
        # Calls that only one side makes, of shapes that the other has none of.
        out["other_shapes"] += sum((m.ns for m in came), Fraction(0)) - sum((m.ns for m in gone), Fraction(0))
    return list(out.values())


def _together(means: Sequence[TreeMean]) -> TreeMean:
    floors = [mean.floor for mean in means if mean.floor is not None]
    return TreeMean(
        sum((mean.calls for mean in means), Fraction(0)),
        sum((mean.ns for mean in means), Fraction(0)),
        sum(floors, Fraction(0)) if len(floors) == len(means) else None,
        frozenset().union(*(mean.kernels for mean in means)),
    )


def _same_shapes(base: TreeMean, new: TreeMean, out: dict[str, Fraction]) -> None:
    out["more_calls"] += (new.calls - base.calls) * base.ns / base.calls
    slower = new.ns - new.calls * base.ns / base.calls
    if base.kernels != new.kernels:
        out["other_kernel"] += slower
    elif (work := _by_work(base, new)) is None:
        # No time was lost or won: there is nothing to explain.
        out["not_known"] += slower
    else:
        out["other_floor"] += work
        out["efficiency"] += slower - work


def _changed_shapes(base: TreeMean, new: TreeMean, out: dict[str, Fraction]) -> None:
    out["more_calls"] += (new.calls - base.calls) * base.ns / base.calls
    longer = new.ns - new.calls * base.ns / base.calls
    work = _by_work(base, new)
    out["other_shapes"] += longer if work is None else work
    out["efficiency"] += Fraction(0) if work is None else longer - work


def _by_work(base: TreeMean, new: TreeMean) -> Fraction | None:
    """Return the ns that as many calls take longer for their floor alone, as efficient as the base; None: not known."""
    if not base.floor or new.floor is None:
        return None
    if new.floor / new.calls != base.floor / base.calls and base.floor < _LEAST_OF_FLOOR * base.ns:
        return None
    return new.floor * base.ns / base.floor - new.calls * base.ns / base.calls

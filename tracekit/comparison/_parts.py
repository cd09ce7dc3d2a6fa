"""Parts of a change, in integer ns; they add up to the change exactly.

A figure of a side is a mean over runs or steps, so it may be a fraction of ns. Each part is the difference of two
rounded sums: all names up to and including it, and all names before it. So the parts add up to the rounded whole, each
part is less than 1 ns off its exact value, and a name without time has 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from math import lcm

from tracekit.analysis.kernel_class import KernelClass, classify
from tracekit.comparison._amount import Key
from tracekit.comparison._match import NameGroup
from tracekit.comparison._measure import Sides, weights, with_rows
from tracekit.comparison._profile import PATH, Profile
from tracekit.lazy_dataclass import dataclass
from tracekit.model.change import PartOfChange
from tracekit.model.report import Flame
from tracekit.model.schema import Kind

IDLE = "(no device work)"
"""The row of the step time in which no kernel, copy or memset ran."""


@dataclass(frozen=True, slots=True)
class ChangePart:
    """One group of names. base, new: ns per step or run. group: None for the rest."""

    label: str
    group: NameGroup | None
    base: int
    new: int

    @property
    def difference(self) -> int:
        """Return new minus base."""
        return self.new - self.base


@dataclass(frozen=True, slots=True)
class ChangeParts:
    """The parts of a change. rows: largest difference first, the rest last. base, new: the sums of the rows."""

    rows: tuple[ChangePart, ...]
    base: int
    new: int


def rounded(parts: Sequence[Fraction]) -> list[int]:
    """Return integers that add up to the rounded sum, each less than 1 off.

    >>> rounded([Fraction(1, 3), Fraction(1, 3), Fraction(1, 3)])
    [0, 1, 0]
    """
    scale = lcm(*(part.denominator for part in parts)) if parts else 1
    sums = list(accumulate(part.numerator * (scale // part.denominator) for part in parts))
    # All halves go the same way, that of the sum: 1/2 + 1 as 0 + 2 would be 1 off.
    whole = sums[-1] if sums else 0
    down = round(Fraction(whole, scale)) != (2 * whole + scale) // (2 * scale)
    ends = [-((scale - 2 * done) // (2 * scale)) if down else (2 * done + scale) // (2 * scale) for done in sums]
    return [now - before for before, now in pairwise([0, *ends])]


def split(
    sides: Sides,
    groups: Sequence[NameGroup],
    ns: Callable[[Profile], Mapping[tuple[str, str], int]],
    rest: tuple[str, Callable[[Profile], int]] | None = None,
    what: str = "step",
) -> ChangeParts:
    """Return the parts by group. ns: the integer ns of each name in a run. rest: the label and ns of the rest.

    what: the kind of rows, as in metrics; runs without any of them are not averaged.
    """
    columns: list[list[int]] = []
    for runs, names in (
        (with_rows(sides.base, what), [group.base for group in groups]),
        (with_rows(sides.new, what), [group.new for group in groups]),
    ):
        share = weights(runs, by_step=sides.by_step, by_runs=sides.by_runs)
        exact = [Fraction(0)] * (len(groups) + (rest is not None))
        for run, weight in zip(runs, share, strict=True):
            amounts = ns(run)
            for place, keys in enumerate(names):
                exact[place] += weight * sum(amounts.get(key, 0) for key in keys)
            if rest is not None:
                exact[-1] += weight * rest[1](run)
        columns.append(rounded(exact))
    rows = [ChangePart(group.label, group, base, new) for group, base, new in zip(groups, *columns, strict=False)]
    rows.sort(key=lambda part: (-abs(part.difference), -part.base, part.label))
    if rest is not None:
        rows.append(ChangePart(rest[0], None, columns[0][-1], columns[1][-1]))
    return ChangeParts(tuple(rows), sum(columns[0]), sum(columns[1]))


def cut(parts: ChangeParts, top: int) -> tuple[list[ChangePart], int]:
    """Return the rows to show, one of them for all others, and the number of others."""
    named = [part for part in parts.rows if part.group is not None]
    rest = [part for part in parts.rows if part.group is None]
    if not top or len(named) <= top:
        return [*named, *rest], 0
    out = named[top:]
    others = ChangePart(
        f"({len(out):,} more names)", None, sum(part.base for part in out), sum(part.new for part in out)
    )
    return [*named[:top], others, *rest], len(out)


def named_groups(base: set[str], new: set[str], kind: str) -> list[NameGroup]:
    """Return the names of a kind of two sides, each in a group of its own."""
    groups = []
    for name in sorted(base | new):
        key = (kind, name)
        how = "same" if name in base and name in new else "gone" if name in base else "new"
        groups.append(NameGroup((key,) if name in base else (), (key,) if name in new else (), how))
    return groups


def operator_parts(sides: Sides, *, of_step: bool) -> ChangeParts:
    """Return the parts of the operators' own time by name, or with the rest of the mean step."""

    def amounts(run: Profile) -> dict[Key, int]:
        found = run.steady_host if sides.by_step else run.whole_host
        return {key: amount.total for key, amount in found.items() if key[0] == "operator"}

    base, new = ({key[1] for run in runs for key in amounts(run)} for runs in (sides.base, sides.new))
    rest = (OUTSIDE, lambda run: run.step_total - sum(amounts(run).values()))
    groups = named_groups(base, new, "operator")
    return split(sides, groups, amounts, rest if of_step else None, "step" if of_step else "operator")


OUTSIDE = "outside of operators"
"""The row of the step time that is no operator's own time."""


def by_name(whole: ChangeParts) -> tuple[PartOfChange, ...]:
    """Return the parts by name, with one row for all that hardly changed; the sums stay those of `whole`."""
    rows = [PartOfChange(row.label, row.base, row.new, row.group.how if row.group else "") for row in whole.rows]
    return _folded(sorted(rows, key=lambda part: -abs(part.difference)))


# The change by kind: kernels by class, copies, memsets, and idle time without device work.


_KINDS: dict[str, str] = {Kind.MEMCPY: "copies", Kind.MEMSET: "memsets"}
_CLASSES = {KernelClass.COLLECTIVE: "communication kernels", KernelClass.OTHER: "other kernels"}
_OWN_ROW = 0.1
"""Share of all differences from which on a kernel of no known class has a row of its own."""
_NO_WORK = "idle time"


def by_kind(whole: ChangeParts, class_of: Mapping[Key, KernelClass]) -> tuple[PartOfChange, ...]:
    """Return the parts by kind, each with its names; the largest difference is first. The sums stay those of `whole`.

    class_of: of the names of both sides; names without one are classified here.
    """
    moved = sum(abs(part.difference) for part in whole.rows)
    rows_of_kind: dict[str, list[ChangePart]] = {}
    for part in whole.rows:
        rows_of_kind.setdefault(_kind_of(part, class_of, moved), []).append(part)
    kinds = []
    for label, rows in rows_of_kind.items():
        how = {row.group.how if row.group else "" for row in rows}
        names = _folded(
            [PartOfChange(row.label, row.base, row.new, row.group.how if row.group else "") for row in rows]
        )
        one_sided = how.pop() if len(how) == 1 else ""
        kinds.append(
            PartOfChange(
                label,
                sum(row.base for row in rows),
                sum(row.new for row in rows),
                one_sided if one_sided in ("new", "gone") else "",
                () if len(names) == 1 and names[0].label in (label, IDLE) else names,
            )
        )
    return tuple(sorted(kinds, key=lambda part: (-abs(part.difference), -part.base, part.label)))


_NAMES_SHOWN = 20
_LEAST_SHOWN = 0.01
"""Share of the differences of a kind below which a name is folded into one row with the others."""


def _folded(names: list[PartOfChange]) -> tuple[PartOfChange, ...]:
    """Return the names that changed most, and one row for the others; the sums stay."""
    moved = sum(abs(each.difference) for each in names)
    shown = [each for each in names if each.difference and abs(each.difference) >= _LEAST_SHOWN * moved][:_NAMES_SHOWN]
    others = [each for each in names if each not in shown]
    if len(others) < 2:
        return tuple(names)
    label = f"({len(others):,} more names that hardly changed)"
    return (*shown, PartOfChange(label, sum(each.base for each in others), sum(each.new for each in others)))


def _kind_of(part: ChangePart, class_of: Mapping[Key, KernelClass], moved: int) -> str:
    if part.group is None:
        return _NO_WORK if part.label == IDLE else part.label
    if part.group.kind != Kind.KERNEL:
        return _KINDS.get(part.group.kind, part.label)
    # The class of the new name counts: that is the code which runs now.
    key = (part.group.new or part.group.base)[0]
    known = class_of[key] if key in class_of else classify([key[1]])[0]
    if known is KernelClass.OTHER and moved and abs(part.difference) >= _OWN_ROW * moved:
        return part.label
    return _CLASSES.get(known, f"{known} kernels")


# The change of the host's call paths as a flame graph.


MOST_PATHS = 4_000
"""Call paths of the flame graph, those with the most time."""


def flame(whole: ChangeParts, per: str) -> Flame:
    """Return the call paths as a flame graph: each with the paths above it, which may have no time of their own."""
    largest = sorted(whole.rows, key=lambda part: -max(part.base, part.new))[:MOST_PATHS]
    place: dict[str, int] = {}
    for part in largest:
        names = part.label.split(PATH)
        for depth in range(len(names)):
            place.setdefault(PATH.join(names[: depth + 1]), len(place))
    base, new = [0] * len(place), [0] * len(place)
    for part in largest:
        base[place[part.label]], new[place[part.label]] = part.base, part.new
    left_out = len(whole.rows) - len(largest)
    return Flame(
        title=f"Host time of {per} by call path",
        names=[text.rpartition(PATH)[2] for text in place],
        parents=[place.get(text.rpartition(PATH)[0], -1) for text in place],
        base=base,
        new=new,
        left_out=f"{left_out:,} call paths with less time are left out" if left_out else "",
    )


def step_parts(sides: Sides) -> ChangeParts:
    """Return the parts of the mean step: device work by name, and the time without device work."""
    return split(
        sides,
        sides.groups,
        lambda run: {key: amount.charged for key, amount in run.steady.items()},
        (IDLE, lambda run: run.step_total - sum(amount.charged for amount in run.steady.values())),
    )


def device_parts(sides: Sides) -> ChangeParts:
    """Return the parts of the device time of a step or a run, by name."""
    return split(
        sides,
        sides.groups,
        lambda run: {k: a.total for k, a in (run.steady if sides.by_step else run.whole).items()},
        what="device",
    )

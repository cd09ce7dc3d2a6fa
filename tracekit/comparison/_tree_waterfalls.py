"""The change by module or operator as two waterfalls: by reason, and by the rows that changed most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracekit.comparison._tree_parts import PARTS, TreeParts, TreeRow
from tracekit.model.change import REASON, UNCHANGED, PartOfChange, Waterfall

__all__ = ["tree_waterfalls"]

_SHOWN = 12
"""Rows of a waterfall, and rows that a reason unfolds to; one more has all others."""


def tree_waterfalls(
    rows: Sequence[TreeRow], whole: TreeParts, by: str, what: str, words: dict[str, str], tables: tuple[str, str]
) -> tuple[Waterfall, Waterfall]:
    """Return the change by reason, and by module or operator. Both add up to base and new, to the ns.

    rows: as the table has them. words: of each reason. tables: of the reasons, and of the rows.
    """
    reasons = [_reason(number, part, rows, whole, by, words) for number, part in enumerate(PARTS)]
    names = [_row(row, words) for row in rows]
    return (
        Waterfall(
            "By reason",
            what,
            whole.base,
            whole.new,
            (_unchanged(whole.base), *_largest_first(reasons)),
            (tables[0], tables[1]),
            spoken=True,
        ),
        Waterfall(f"By {by}", what, whole.base, whole.new, _few(_sorted(names), f"{by}s"), (tables[1],), spoken=True),
    )


def _reason(
    number: int, part: str, rows: Sequence[TreeRow], whole: TreeParts, by: str, words: dict[str, str]
) -> PartOfChange:
    """Return what a reason explains, with the rows that it is in."""
    inside = [
        PartOfChange(row.label, 0, row.parts[number], REASON, row=row.label, column=part)
        for row in rows
        if row.parts[number]
    ]
    return PartOfChange(words[part], 0, whole.parts[number], REASON, _few(_sorted(inside), f"{by}s"))


def _row(row: TreeRow, words: dict[str, str]) -> PartOfChange:
    """Return a module or an operator, with the reasons of its change."""
    reasons = [
        PartOfChange(words[part], 0, ns, REASON, row=row.label, column=part)
        for part, ns in zip(PARTS, row.parts, strict=True)
    ]
    moved = tuple(_largest_first(reasons))
    return PartOfChange(row.label, row.base, row.new, "", (_unchanged(row.base), *moved) if moved else ())


def _unchanged(base: int) -> PartOfChange:
    return PartOfChange("unchanged", base, base, UNCHANGED)


def _sorted(parts: Sequence[PartOfChange]) -> list[PartOfChange]:
    return sorted(parts, key=lambda part: -abs(part.difference))


def _largest_first(parts: Sequence[PartOfChange]) -> Iterator[PartOfChange]:
    yield from (part for part in _sorted(parts) if part.difference)


def _few(parts: list[PartOfChange], noun: str) -> tuple[PartOfChange, ...]:
    """Return the first parts, and one that has the sums of all others."""
    rest = parts[_SHOWN:]
    if len(rest) < 2:
        return tuple(parts)
    base, new = sum(part.base for part in rest), sum(part.new for part in rest)
    how = REASON if all(part.how == REASON for part in rest) else ""
    return (*parts[:_SHOWN], PartOfChange(f"({len(rest):,} more {noun})", base, new, how))

"""Rows of one slab of trace events, as columns, with the dialect's plan for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import Column
from tracekit.readers.trace_event.plan import Build


@dataclass(slots=True)
class Rows:
    """Rows of one slab. columns: those with values, all of `count` rows.

    plan: shape (count,), number of each row's plan. builds: plan -> the dialect's answer.
    """

    count: int
    columns: dict[str, Column]
    plan: I64
    builds: list[Build]
    flags: I64
    """Shape (count,), the flags of each row's plan."""
    _used: tuple[I64, I64] | None = None

    def has(self, flag: int) -> Mask:
        """Return which rows have a flag."""
        found: Mask = (self.flags & flag) != 0
        return found

    def used(self) -> tuple[I64, I64]:
        """Return the plans that occur, and for each row the place of its own among them."""
        if self._used is None:
            self._used = np.unique(self.plan, return_inverse=True)
        return self._used

    def take(self, rows: I64 | Mask) -> Rows:
        """Return some of the rows."""
        if rows.dtype == np.bool_:
            rows = np.flatnonzero(rows)
        index = arrow.array(rows)
        columns = {name: column.take(index) for name, column in self.columns.items()}
        return Rows(len(rows), columns, self.plan[rows], self.builds, self.flags[rows])

    def flag(self, of: Callable[[Build], bool]) -> Mask:
        """Return which rows have a plan with a property."""
        found: Mask = self.number(of) != 0
        return found

    def number(self, of: Callable[[Build], int]) -> I64:
        """Return a number of each row's plan."""
        used, place = self.used()
        return np.array([of(self.builds[p]) for p in used.tolist()], np.int64)[place]

    def ints(self, name: str) -> tuple[I64, Mask]:
        """Return the values of an integer column, 0 for null, and which are there."""
        column = self.columns.get(name)
        if column is None:
            return np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)
        return arrow.ints(column).copy(), arrow.valid(column)


def fact_rows(rows: Rows, columns: Iterable[str]) -> list[tuple[Build, tuple[int | None, ...]]]:
    """Return each distinct (build, values of the columns) of rows that are facts, in order of appearance."""
    if not rows.count:
        return []
    parts = [rows.plan]
    for name in columns:
        values, mask = rows.ints(name)
        parts += [values, mask.astype(np.int64)]
    _, index = np.unique(np.column_stack(parts), axis=0, return_index=True)
    index.sort()
    out = []
    for at in index.tolist():
        values_of = tuple(int(parts[i][at]) if parts[i + 1][at] else None for i in range(1, len(parts), 2))
        out.append((rows.builds[int(rows.plan[at])], values_of))
    return out

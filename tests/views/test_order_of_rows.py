"""The order of the rows of a table, which is computed from arrays: that of sorting by one column after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model.report import Cell, Column
from tracekit.model.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import ViewOptions

NUMBERS = st.one_of(st.integers(-2, 2), st.sampled_from([(1 << 63) - 1, -(1 << 63)]), st.none())
NAMES = st.sampled_from(["", "a", "b", "é", None])
IDS = st.sampled_from([1, 2, "x", None])
ROWS = st.lists(st.tuples(NUMBERS, NAMES, IDS))


def last(cell: Cell) -> tuple[int, float, str]:
    """Return the key of a text or id: numbers, texts, None."""
    if cell is None:
        return 2, 0, ""
    return (1, 0, cell) if isinstance(cell, str) else (0, cell, "")


def in_order(rows: Sequence[tuple[Cell, ...]], *, ascending: bool) -> list[tuple[Cell, ...]]:
    """Return the rows by number, unknown ones last; then by name and id."""
    by_label = sorted(rows, key=lambda row: (last(row[1]), last(row[2])))
    known = [row for row in by_label if row[0] is not None]
    return sorted(known, key=lambda row: row[0], reverse=not ascending) + [row for row in by_label if row[0] is None]


@given(ROWS, st.sampled_from(["", "total", "-total"]), st.integers(0, 5))
def test_rows_are_by_number_then_by_label(rows: list[tuple[Cell, ...]], sort: str, top: int) -> None:
    cells = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    units = (Unit.NS, Unit.TEXT, Unit.ID)
    columns = [Column(n, n, u, c) for n, u, c in zip(("total", "name", "stream"), units, cells, strict=True)]
    table = tabulate.finish("t", "T", columns, ViewOptions(sorted_by=sort, top=top))
    expected = in_order(rows, ascending=sort == "-total")
    shown = expected[:top] if top else expected
    assert [tuple(row) for row in table.rows()] == shown
    assert table.omitted == len(rows) - len(shown)


@given(st.lists(st.integers(0, 1 << 62)))
def test_shares_are_the_quotients_of_integers(totals: list[int]) -> None:
    whole = sum(totals)
    assert list(tabulate.shares(np.array(totals, np.int64))) == [n / whole if whole else None for n in totals]
    parts = np.array(totals, np.int64) // 3
    expected = [part / n if n else None for part, n in zip(parts.tolist(), totals, strict=True)]
    assert list(tabulate.shares_by_row(parts, np.array(totals, np.int64))) == expected

"""The groups of an icicle, which come from arrays: those of a loop over the rows of the table."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tracekit.model.display import shown_name
from tracekit.model.picture import Picture
from tracekit.model.report import Cell, Column, ReportTable
from tracekit.model.units import Unit
from tracekit.render.page.pictures.icicle import groups_of

NAMES = st.sampled_from(["a", "b", "", None])
VALUES = st.one_of(
    st.lists(st.one_of(st.integers(-1, 9), st.just(1 << 62), st.none()), max_size=9),
    st.lists(st.one_of(st.sampled_from([0.5, 2.0, float("nan")]), st.none()), max_size=9),
)
Found = list[tuple[str, float, list[tuple[Cell, float]]]]


def by_rows(
    names: Sequence[Cell],
    values: Sequence[float | None],
    groups: Sequence[str],
    levels: Sequence[Cell] | None,
    host: Sequence[Cell],
) -> Found:
    """Return each group with a whole, the greatest first: its word, its whole, and its names in the table's order."""
    words: dict[int | str, str] = {"": ""}
    inner: dict[int | str, list[tuple[Cell, float]]] = {}
    group: int | str = ""
    for row, name in enumerate(names):
        cell = values[row]
        value = cell if cell is not None and cell == cell else 0
        if levels is None:
            group = groups[row] if row < len(groups) else ""
            words[group] = group
        elif not levels[row]:
            group = row
            words[group] = shown_name(str(name or ""))
            continue
        elif host[row] is not None:
            continue
        inner.setdefault(group, []).append((name, value))
    found = [(words[key], sum(value for _, value in rows), rows) for key, rows in inner.items()]
    return sorted((each for each in found if each[1] > 0), key=lambda each: -each[1])


@given(VALUES, st.data())
def test_groups_are_those_of_a_loop_over_the_rows(values: list[float | None], data: st.DataObject) -> None:
    count = len(values)
    names = data.draw(st.lists(NAMES, min_size=count, max_size=count))
    has_levels = data.draw(st.booleans())
    groups = data.draw(st.lists(st.sampled_from(["x", "y", ""]), min_size=0 if has_levels else 1, max_size=count + 1))
    levels = data.draw(st.lists(st.sampled_from([0, 1, 2]), min_size=count, max_size=count)) if has_levels else None
    host = data.draw(st.lists(st.sampled_from([None, 3]), min_size=count, max_size=count))
    columns = [Column("name", "Name", Unit.TEXT, names), Column("v", "V", Unit.NS, values)]
    if levels is not None:
        columns += [Column("level", "Level", Unit.COUNT, levels), Column("total", "Total", Unit.NS, host)]
    picture = Picture("icicle", "T", "t.t", ("v",), ("name",), groups=tuple(groups))
    found = groups_of(picture, ReportTable("t", "T", tuple(columns)))
    assert found is not None
    made: Found = []
    for code in found.order:
        mine = [i for i, each in enumerate(found.codes.tolist()) if each == code]
        rows: list[tuple[Cell, float]] = [(names[int(found.rows[i])], found.values[i].item()) for i in mine]
        made.append((found.words(code), found.sums[code], rows))
    assert made == by_rows(names, values, groups, levels, host)

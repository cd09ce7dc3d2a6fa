"""Calls and launches of operators: the rows below each operator of the view, at levels 1 and 2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tracekit.analysis.intervals import I64
from tracekit.index import grouping
from tracekit.index.host.tree import CALLS, Host
from tracekit.report import Cell
from tracekit.views import specs
from tracekit.views.tables._ranges import Charged

Cells = dict[str, Cell]


@dataclass(frozen=True, slots=True)
class Row:
    """A row below an operator. cells: by name of column; a column that is not named has none."""

    level: int
    cells: Cells
    within: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Things:
    """Things below operators, one sort of them: host ranges and calls, or device work.

    group: that of the operator. above: number of the row of level 1 that each is in, 0 for one of level 1 itself. rows:
    of EVENTS. host_ns, self_ns: None for device work. device_ns: launched in it; what device work took itself.
    """

    group: I64
    above: I64
    rows: I64
    host_ns: I64 | None
    self_ns: I64 | None
    device_ns: I64


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Rows made of things. codes: the row of each thing. group, above: of each row."""

    codes: I64
    group: list[int]
    above: list[int]
    cells: list[Cells]


def details(charged: Charged, wanted: Iterable[int], top: int) -> tuple[dict[int, list[Row]], int]:
    """Return the rows of level 1 of each of the wanted groups of operators, in order, and how many --top left out."""
    host = charged.host
    shown = np.zeros(charged.groups.count + 1, np.bool_)
    shown[list(wanted)] = True
    group = np.full(host.rows.size + 1, -1, np.int64)  # the last: of a place -1
    placed = charged.places >= 0
    group[charged.places[placed]] = charged.groups.codes[placed]
    operator = np.append(host.nearest(charged.wanted), -1)

    head = _heads(host, charged)
    below = np.flatnonzero(head >= 0)
    below = below[shown[group[operator[below]]]]
    is_first = head[below] == below
    first, inner = below[is_first], below[~is_first]
    ones = _table(charged, _ranges(charged, first, group[operator[first]], np.zeros(first.size, np.int64)))
    number = np.zeros(host.rows.size, np.int64)
    number[first] = ones.codes + 1

    work = np.flatnonzero((host.owner >= 0) & shown[group[operator[host.owner]]])
    owner = host.owner[work]
    direct = charged.wanted[owner]
    above = np.where(direct, 0, number[np.where(direct, 0, head[owner])])
    launched = _Things(group[operator[owner]], above, host.work[work], None, None, host.work_ns[work])
    twos = _table(charged, _ranges(charged, inner, group[operator[inner]], number[head[inner]]))
    return _assembled(charged, ones, (twos, _table(charged, launched)), top)


def _heads(host: Host, charged: Charged) -> I64:
    """Return for each place the outermost range around it (or itself) below its operator; -1 for operators and what is
    in none."""
    head = np.full(host.rows.size, -1, np.int64)
    for here in host.levels()[1:]:
        mine = here[~charged.wanted[here]]
        above = host.tree.parent[mine]
        head[mine] = np.where(charged.wanted[above], mine, head[above])
    return head


def _ranges(charged: Charged, places: I64, group: I64, above: I64) -> _Things:
    host = charged.host
    return _Things(
        group,
        above,
        host.rows[places],
        host.ends[places] - host.starts[places],
        host.tree.self_ns[places],
        charged.total[places],
    )


def _table(charged: Charged, things: _Things) -> _Table:
    """Return the things by operator, row above, name and kind."""
    if not things.rows.size:
        return _Table(things.group, [], [], [])
    index = charged.host.index
    groups = grouping.group_by(
        grouping.Key(things.group, range(int(things.group.max()) + 1)),
        grouping.Key(things.above, range(int(things.above.max()) + 1)),
        index.key("name", things.rows),
        index.key("kind", things.rows),
    )
    on_device = grouping.statistics(groups, things.device_ns)
    figures: dict[str, list[Cell]] = {"calls": on_device.calls.tolist(), "device_total": on_device.total.tolist()}
    if things.host_ns is None or things.self_ns is None:
        figures["device_self"] = on_device.total.tolist()
    else:
        stats = grouping.statistics(groups, things.host_ns)
        _, own = grouping.sums(groups.codes, groups.count, things.self_ns, "durations")
        figures |= {"total": stats.total.tolist(), "self": list(own)}
        figures |= {spec.key: spec.values(stats).tolist() for spec in specs.SPREAD}
    figures |= {"device_avg": on_device.mean.tolist(), "device_min": on_device.min.tolist()}
    figures["device_max"] = on_device.max.tolist()
    if things.host_ns is not None:
        # What a call launched is charged to the range around it.
        for name in [name for name in figures if name.startswith("device_")]:
            figures[name] = [None if k in CALLS else v for k, v in zip(groups.labels[3], figures[name], strict=True)]
    cells: list[Cells] = [
        {"name": name} | {key: values[i] for key, values in figures.items()} for i, name in enumerate(groups.labels[2])
    ]
    group, above = ([int(cell or 0) for cell in labels] for labels in groups.labels[:2])
    return _Table(groups.codes, group, above, cells)


def _assembled(
    charged: Charged, ones: _Table, others: tuple[_Table, ...], top: int
) -> tuple[dict[int, list[Row]], int]:
    """Return the rows of level 1 by operator, those of level 2 within them; largest total first, then by name."""
    _, totals = grouping.sums(charged.groups.codes, charged.groups.count, charged.picked.durations, "durations")
    known = charged.places >= 0
    _, device = grouping.sums(
        charged.groups.codes[known], charged.groups.count, charged.total[charged.places[known]], "durations"
    )
    omitted = 0

    def row(level: int, group: int, cells: Cells, within: tuple[Row, ...] = ()) -> Row:
        for ratio, part, whole in (("ratio", "total", totals), ("device_ratio", "device_total", device)):
            ns = cells.get(part)
            cells[ratio] = ns / whole[group] if isinstance(ns, int) and whole[group] else None
        return Row(level, cells, within)

    def in_order(rows: list[Row]) -> list[Row]:
        nonlocal omitted
        rows.sort(key=_order)
        if top > 0:
            omitted += max(len(rows) - top, 0)
            rows = rows[:top]
        return rows

    within: dict[int, list[Row]] = {}
    outer: dict[int, list[Row]] = {}
    for table in others:
        for group, above, cells in zip(table.group, table.above, table.cells, strict=True):
            if above:
                within.setdefault(above - 1, []).append(row(2, group, cells))
            else:
                outer.setdefault(group, []).append(row(1, group, cells))
    for number, (group, cells) in enumerate(zip(ones.group, ones.cells, strict=True)):
        outer.setdefault(group, []).append(row(1, group, cells, tuple(in_order(within.get(number, [])))))
    return {group: in_order(rows) for group, rows in outer.items()}, omitted


def _order(row: Row) -> tuple[int, str, bool]:
    total, device = (value if isinstance(value := row.cells.get(key), int) else 0 for key in ("total", "device_total"))
    return -max(total, device), str(row.cells["name"] or ""), "total" in row.cells

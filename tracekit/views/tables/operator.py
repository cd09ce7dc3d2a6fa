"""operator: what each operator took on the host, and the device work that it launched, by name.

Columns: those of `_ranges`; ratio: of the sum of CPU totals, which counts nested operators twice; the ratios of self
times add up to 100 %. Operators that call each other by the same name count each. With `op_detail` the rows below an
operator follow it: at level 1 the ranges and calls in it that are no operators, by name, and the device work that it
launched itself; at level 2 what was called and launched within those. Their ratio is of the operator's total, their
device_ratio of its device total. With `thread_sep` each thread has a block.

flops, bytes and what follows from them are of the work units of an operator (`index.work_units`), where the trace has
shapes; flops that the file itself states go before them. known: the share of device_total whose work is known.

Kernels of a CUDA or HIP graph are work of the operator that captured them, where that is known (`index.graphs`), else
of the operator that launched the graph.

Operators: kind operator, and python_op but for the frames of PyTorch's stacks. Agrees with PyTorch's key_averages for
calls, self and total CPU time; there an operator whose only child has its own name is not counted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tracekit.index import grouping
from tracekit.index import host_tree as _host
from tracekit.index.graphs import COLUMNS as _GRAPH_COLUMNS
from tracekit.index.graphs import host_with_graphs
from tracekit.index.host_tree import CALLS, HostTree
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex, join
from tracekit.index.work_units import ARGS_OF as _WORK_ARGS
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Mask, pc
from tracekit.model.cells import Cells, joined, only, taken, whole_numbers
from tracekit.model.report import Cell, Column, Picture, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.graphs_note import graph_notes
from tracekit.views.named import from_totals, thread_columns, thread_keys
from tracekit.views.tables import ranges as _ranges
from tracekit.views.tables.ranges import Charged, of_ranges
from tracekit.views.totals import both_note
from tracekit.views.untimed import UNTIMED_NOTE, untimed_operators
from tracekit.views.work_columns import KNOWN, NEEDED, SHOWS, WorkSums, operator_work, work_columns

__all__ = ["VIEW", "FiguresByTime", "OperatorFigures", "RangeFigures", "charged", "figures"]

# Calls and launches of operators: the rows below each operator of the view, at levels 1 and 2.


@dataclass(frozen=True, slots=True, eq=False)
class DetailRows:
    """Rows below operators, shape (n,), in order: those of an operator together. group: the operator of each row.

    level: 1 or 2. cells: by name of column; a column that is not named has none. omitted: rows that --top left out.
    """

    group: I64
    level: I64
    cells: dict[str, Sequence[Cell]]
    omitted: int


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
class _OperatorTable:
    """Rows made of things. codes: the row of each thing. group, above: of each row. cells: by name of column."""

    codes: I64
    group: I64
    above: I64
    cells: dict[str, Sequence[Cell]]

    def __len__(self) -> int:
        return len(self.group)


def details(charged: Charged, wanted: Iterable[int], top: int) -> DetailRows:
    """Return the rows below each of the wanted groups of operators."""
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
    ones = _table(charged, _range_rows(charged, first, group[operator[first]], np.zeros(first.size, np.int64)))
    number = np.zeros(host.rows.size, np.int64)
    number[first] = ones.codes + 1

    work = np.flatnonzero((host.owner >= 0) & shown[group[operator[host.owner]]])
    owner = host.owner[work]
    direct = charged.wanted[owner]
    above = np.where(direct, 0, number[np.where(direct, 0, head[owner])])
    launched = _Things(group[operator[owner]], above, host.work[work], None, None, host.work_ns[work])
    twos = _table(charged, _range_rows(charged, inner, group[operator[inner]], number[head[inner]]))
    return _assembled(charged, ones, (twos, _table(charged, launched)), top)


def _heads(host: HostTree, charged: Charged) -> I64:
    """Return for each place the outermost range around it (or itself) below its operator; -1 for operators and what is
    in none."""
    head = np.full(host.rows.size, -1, np.int64)
    for level in host.levels()[1:]:
        within = level[~charged.wanted[level]]
        above = host.tree.parent[within]
        head[within] = np.where(charged.wanted[above], within, head[above])
    return head


def _range_rows(charged: Charged, places: I64, group: I64, above: I64) -> _Things:
    host = charged.host
    return _Things(
        group,
        above,
        host.rows[places],
        host.ends[places] - host.starts[places],
        host.tree.self_ns[places],
        charged.total[places],
    )


def _table(charged: Charged, things: _Things) -> _OperatorTable:
    """Return the things by operator, row above, name and kind."""
    if not things.rows.size:
        return _OperatorTable(things.group, things.group, things.above, {})
    index = charged.host.index
    groups = grouping.group_by(
        grouping.Key(things.group, range(int(things.group.max()) + 1)),
        grouping.Key(things.above, range(int(things.above.max()) + 1)),
        index.key("name", things.rows),
        index.key("kind", things.rows),
    )
    on_device = grouping.statistics(groups, things.device_ns)
    figures: dict[str, Sequence[Cell]] = {"calls": Cells.of(on_device.calls)}
    heard: Mask | None = None
    if things.host_ns is not None:
        # What a call launched is charged to the range around it.
        heard = np.array([kind not in CALLS for kind in groups.labels[3]], np.bool_)
    figures["device_total"] = Cells.of(on_device.total, heard)
    if things.host_ns is None or things.self_ns is None:
        figures["device_self"] = Cells.of(on_device.total, heard)
    else:
        stats = grouping.statistics(groups, things.host_ns)
        _, self_totals = grouping.sums(groups.codes, groups.count, things.self_ns, "durations")
        figures |= {"total": Cells.of(stats.total), "self": Cells.of(np.array(self_totals, np.int64))}
        figures |= {spec.key: Cells.of(spec.values(stats)) for spec in specs.SPREAD}
    figures |= {"device_avg": Cells.of(on_device.mean, heard), "device_min": Cells.of(on_device.min, heard)}
    figures["device_max"] = Cells.of(on_device.max, heard)
    group, above = (np.array([int(cell or 0) for cell in labels], np.int64) for labels in groups.labels[:2])
    return _OperatorTable(groups.codes, group, above, {"name": groups.labels[2]} | figures)


def _assembled(charged: Charged, ones: _OperatorTable, others: tuple[_OperatorTable, ...], top: int) -> DetailRows:
    """Return the rows of level 1 by operator, those of level 2 below theirs; largest total first, then by name."""
    tables = [table for table in (*others, ones) if len(table)]
    keys = dict.fromkeys(key for table in tables for key in table.cells)
    cells: dict[str, Sequence[Cell]]
    cells = {key: joined([table.cells.get(key) or Cells.unknown(len(table)) for table in tables]) for key in keys}
    group, above = (
        np.concatenate([np.zeros(0, np.int64), *(getattr(table, part) for table in tables)])
        for part in ("group", "above")
    )
    if not group.size:
        return DetailRows(group, group, {}, 0)
    cells |= _ratios(charged, group, cells)
    rank = _ranks(cells)
    level = np.where(above > 0, 2, 1)
    # The rows of level 1 that others are below are the last ones, numbered from 1.
    parent = np.where(above > 0, group.size - len(ones) + above - 1, np.arange(group.size))
    order = np.lexsort((rank, level, rank[parent], group))
    omitted = 0
    if top > 0:
        kept = _top(group, above, order, top)
        omitted = int(np.count_nonzero(~kept))
        order = order[(kept & kept[parent])[order]]
    return DetailRows(group[order], level[order], {key: taken(values, order) for key, values in cells.items()}, omitted)


def _ratios(charged: Charged, group: I64, cells: Mapping[str, Sequence[Cell]]) -> dict[str, Sequence[Cell]]:
    """Return the shares of rows in the totals of their operators."""
    _, totals = grouping.sums(charged.groups.codes, charged.groups.count, charged.picked.durations, "durations")
    known = charged.places >= 0
    _, device = grouping.sums(
        charged.groups.codes[known], charged.groups.count, charged.total[charged.places[known]], "durations"
    )
    found = {}
    for ratio, part, whole in (("ratio", "total", totals), ("device_ratio", "device_total", device)):
        times, known = _numbers(cells, part)
        shares = tabulate.shares_by_row(times, np.array(whole, np.int64)[group])
        found[ratio] = only(shares, known)
    return found


def _numbers(cells: Mapping[str, Sequence[Cell]], key: str) -> tuple[I64, Mask]:
    """Return the times of a column, 0 where there is none, and which are there."""
    found = whole_numbers(cells[key]) if key in cells else None
    if found is None:
        size = len(cells["name"])
        return np.zeros(size, np.int64), np.zeros(size, np.bool_)
    times, known = found
    return times, np.ones(times.size, np.bool_) if known is None else known


def _ranks(cells: Mapping[str, Sequence[Cell]]) -> I64:
    """Return the place of each row among all: by largest time, then by name, device work first."""
    total, of_host = _numbers(cells, "total")
    names = [str(name or "") for name in cells["name"]]
    order = tabulate.by_number(
        np.maximum(total, _numbers(cells, "device_total")[0]), None, [names, of_host.astype(np.int64).tolist()]
    )
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size)
    return rank


def _top(group: I64, above: I64, order: I64, top: int) -> Mask:
    """Return which rows are among the first of their parent: an operator, or a row of level 1."""
    parents = np.column_stack((group, above))[order]
    _, codes = np.unique(parents, axis=0, return_inverse=True)
    by_parent = np.argsort(codes.reshape(-1), kind="stable")
    begins = np.flatnonzero(np.diff(codes.reshape(-1)[by_parent], prepend=-1))
    nth = np.arange(order.size) - np.repeat(begins, np.diff(begins, append=order.size))
    kept = np.zeros(order.size, np.bool_)
    kept[order[by_parent]] = nth < top
    return kept


_TITLE = "Operators"
_KINDS = frozenset({Kind.OPERATOR, Kind.PYTHON_OP})
_COLUMNS = _host.COLUMNS | _GRAPH_COLUMNS
_FLOPS = r'"(?:flops|FLOPs|Flops|FLOPS)":\s*"?(?P<flops>\d{1,18})"?\s*[,}]'
_AT_ONCE = 1 << 14
"""Rows whose args are looked at together."""
_NUMBER = "#"
_DETAIL_NOTE = "rows below an operator (level 1, 2): what it called and launched, with ratios of that operator"


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of operators. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    picked = index.pick(_kinds(index))
    if not picked.rows.size:
        section = from_totals(
            index,
            options,
            view=VIEW.name,
            title=_TITLE,
            kinds=_KINDS,
            what="operator",
            nested=True,
            notes=picked.notes("operator"),
        )
        untimed = untimed_operators(index, options) if not section.tables else None
        if untimed is None:
            return section
        return Section(VIEW.name, _TITLE, (untimed,), notes=(UNTIMED_NOTE, *tabulate.option_notes(options, untimed)))
    computed = _figures(charged(index, by_thread=True)) if options.thread_sep else figures(index)
    blocks = computed.threads
    columns = [
        Column("name", "Name", Unit.TEXT, computed.names, 0),
        *(thread_columns(index, blocks) if blocks else []),
        *computed.ranges.columns(blocks),
    ]
    # The work is known by name, not by thread.
    work, stated = computed.work, computed.flops
    of_work = work_columns(work, computed.names, stated)
    # What the file itself says goes before what follows from shapes.
    columns += [replace(c, priority=3) if stated is not None and c.name == "flops" else c for c in of_work]
    if of_work and work is not None:
        columns.append(_known_share(work, computed))
    # The number of its group stays with a row while rows are put in order.
    number = Column(_NUMBER, "", Unit.COUNT, list(range(len(computed.names))))
    table = tabulate.finish("operators", _TITLE, [*columns, number], options, blocks=blocks)
    notes = [*([_ranges.SELF_NOTE] if computed.ranges.device is not None else []), tabulate.PERCENTILE_NOTE]
    if options.op_detail:
        arrow.release_memory()
        table = _with_details(table, charged(index, by_thread=options.thread_sep), options)
        notes.append(_DETAIL_NOTE)
    index.drop(charged)  # a number for each range, which no other view asks for
    table = replace(table, columns=tuple(c for c in table.columns if c.name != _NUMBER))
    table = _ranges.with_loose(table, computed.ranges)
    notes += [*computed.ranges.notes("operator"), *graph_notes(index), *both_note(index, _KINDS, "operator")]
    return Section(VIEW.name, _TITLE, (table,), notes=(*notes, *tabulate.option_notes(options, table)))


def _known_share(work: WorkSums, computed: OperatorFigures) -> Column:
    known = dict(zip(work.names, work.known_ns, strict=True))
    device = computed.ranges.device
    totals = device.total.tolist() if device is not None else [0] * len(computed.names)
    shares: list[Cell] = [
        known.get(name, 0) / total if total else None for name, total in zip(computed.names, totals, strict=True)
    ]
    return KNOWN.column(shares, 6)


RangeFigures = _ranges.RangeFigures
FiguresByTime = _ranges.FiguresByTime


@dataclass(frozen=True, slots=True, eq=False)
class OperatorFigures:
    """Figures of the operators, a row a name. threads: (source, pid, tid) of each row, none where threads are together.

    flops: sums of what the file says, None where it says none. work: what follows from shapes, None without any, and
    where threads are apart.
    """

    names: list[Cell]
    threads: list[tuple[Cell, ...]]
    ranges: _ranges.RangeFigures
    flops: list[Cell] | None
    work: WorkSums | None = None


@join
def figures(index: TraceIndex) -> OperatorFigures:
    """Return the figures of the operators of all threads together."""
    return replace(_figures(charged(index, by_thread=False)), work=operator_work(index, _kinds(index)))


@join
def charged(index: TraceIndex, *, by_thread: bool) -> _ranges.Charged:
    """Return the operators with the device work that is theirs."""
    picked = index.pick(_kinds(index))
    groups = grouping.group_by(picked.key("name"), *(thread_keys(picked) if by_thread else []))
    return _ranges.charge(host_with_graphs(index), picked, groups)


def _figures(ranges: _ranges.Charged) -> OperatorFigures:
    names, *threads = ranges.groups.labels
    return OperatorFigures(names, list(zip(*threads, strict=True)), ranges.figures(), _flops(ranges))


def _kinds(index: TraceIndex) -> frozenset[Kind]:
    stacks = any(facts.format in _host.STACKS for facts in facts_by_source(index).values())
    return frozenset({Kind.OPERATOR}) if stacks else _KINDS


def _flops(charged: _ranges.Charged) -> list[Cell] | None:
    """Return the sum of the FLOPs that the file itself says, of each group; None where it says none."""
    rows = charged.picked.rows
    args = charged.picked.index.events.column("args")
    if args.null_count == len(args):
        return None
    at = _saying_flops(args, rows)
    if not at.size:
        return None
    flops = pc.struct_field(pc.extract_regex(arrow.take(args, rows[at]), _FLOPS), "flops")
    known = arrow.bools(pc.greater(pc.utf8_length(flops), 0))
    values = pc.cast(flops.filter(arrow.array(known)), pa.int64()).to_numpy()
    having, sums = grouping.sums(charged.groups.codes[at[known]], charged.groups.count, values, "FLOPs")
    cells: list[Cell] = [total if n else None for n, total in zip(having, sums, strict=True)]
    return cells if any(having) else None


def _saying_flops(args: arrow.Chunked, rows: I64) -> I64:
    """Return the places among the rows whose args name FLOPs; the texts are copied a part at a time."""
    parts = [np.zeros(0, np.int64)]
    for begin in range(0, rows.size, _AT_ONCE):
        texts = arrow.take(args, rows[begin : begin + _AT_ONCE])
        parts.append(np.flatnonzero(arrow.bools(pc.match_substring(texts, "flops", ignore_case=True))) + begin)
    return np.concatenate(parts)


def _with_details(table: ReportTable, charged: _ranges.Charged, options: ViewOptions) -> ReportTable:
    """Return the table with the rows of what each operator called and launched below it."""
    groups = [int(cell) for cell in table.column(_NUMBER).values if cell is not None]
    rows = details(charged, groups, options.top)
    place = np.full(charged.groups.count, -1, np.int64)
    place[groups] = np.arange(len(groups))
    # Behind each operator the rows below it, in their order.
    order = np.argsort(np.concatenate((np.arange(len(table)), place[rows.group])), kind="stable")
    none = Cells.unknown(len(rows.group))
    columns = [replace(c, values=taken(joined([c.values, rows.cells.get(c.name, none)]), order)) for c in table.columns]
    levels = Cells.of(np.concatenate((np.zeros(len(table), np.int64), rows.level))[order])
    columns.insert(1, Column("level", "Level", Unit.COUNT, levels, 1))
    return replace(table, columns=tuple(columns), omitted=table.omitted + rows.omitted)


_SHOWS = (
    *_ranges.SHOWS,
    ViewColumn(
        "level",
        "Level",
        Unit.COUNT,
        "The depth of the row: 0 for operators, 1 and 2 for what they called and launched.",
    ),
    ViewColumn(
        "flops",
        "FLOPs",
        Unit.COUNT,
        "The floating-point operations, as the file states them, else from the shapes of the operands.",
    ),
    *SHOWS[1:],
    KNOWN,
)

VIEW = View(
    name="operator",
    title=_TITLE,
    columns=_COLUMNS | NEEDED,
    kinds=_host.KINDS,
    args_of=_KINDS | _WORK_ARGS,
    compute=compute,
    define=of_ranges(_kinds, "operator", ("name",), host_with_graphs),
    shows=_SHOWS,
    pictures=(
        Picture("icicle", "Device time by operator, then kernel", "operator.operators", ("device_self",), ("name",)),
    ),
)

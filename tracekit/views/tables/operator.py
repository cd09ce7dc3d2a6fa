"""operator: what each operator took on the host, and the device work that it launched, by name.

Columns: those of `_ranges`; ratio: of the sum of CPU totals, which counts nested operators twice; the ratios of self
times add up to 100 %. Operators that call each other by the same name count each. With `op_detail` the rows below an
operator follow it: at level 1 the ranges and calls in it that are no operators, by name, and the device work that it
launched itself; at level 2 what was called and launched within those. Their ratio is of the operator's total, their
device_ratio of its device total. With `thread_sep` each thread has a block. flops: where the file says them.

Operators: kind operator, and python_op but for the frames of PyTorch's stacks. Agrees with PyTorch's key_averages for
calls, self and total CPU time; there an operator whose only child has its own name is not counted again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64
from tracekit.columns.arrow import pc
from tracekit.index import grouping
from tracekit.index.host import tree as _host
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex, join
from tracekit.report import Cell, Column, ReportTable, Section
from tracekit.schema import Kind
from tracekit.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import ColumnSpec, View, ViewOptions
from tracekit.views.named import from_totals, thread_columns, thread_keys
from tracekit.views.tables import _ranges
from tracekit.views.tables._op_detail import details
from tracekit.views.tables._range_quantities import of_ranges
from tracekit.views.totals import both_note

_TITLE = "Operators"
_KINDS = frozenset({Kind.OPERATOR, Kind.PYTHON_OP})
_COLUMNS = _host.COLUMNS | {"name", "args"}
_FLOPS = r'"(?:flops|FLOPs|Flops|FLOPS)":\s*"?(?P<flops>\d{1,18})"?\s*[,}]'
_AT_ONCE = 1 << 16
"""Rows whose args are looked at together."""
_NUMBER = "#"
_DETAIL_NOTE = "rows below an operator (level 1, 2): what it called and launched, with ratios of that operator"


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of operators. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    picked = index.pick(_kinds(index))
    if not picked.rows.size:
        return from_totals(
            index,
            options,
            view=VIEW.name,
            title=_TITLE,
            kinds=_KINDS,
            what="operator",
            nested=True,
            notes=picked.notes("operator"),
        )
    found = _figures(charged(index, by_thread=True)) if options.thread_sep else figures(index)
    blocks = found.threads
    columns = [
        Column("name", "Name", Unit.TEXT, found.names, 0),
        *(thread_columns(index, blocks) if blocks else []),
        *found.ranges.columns(blocks),
    ]
    if found.flops is not None:
        columns.append(Column("flops", "FLOPs", Unit.COUNT, found.flops, 3))
    # The number of its group stays with a row while rows are put in order.
    number = Column(_NUMBER, "", Unit.COUNT, list(range(len(found.names))))
    table = tabulate.finish("operators", _TITLE, [*columns, number], options, blocks=blocks)
    notes = [*([_ranges.SELF_NOTE] if found.ranges.device is not None else []), tabulate.PERCENTILE_NOTE]
    if options.op_detail:
        table = _with_details(table, charged(index, by_thread=options.thread_sep), options)
        notes.append(_DETAIL_NOTE)
    table = replace(table, columns=tuple(c for c in table.columns if c.name != _NUMBER))
    table = _ranges.with_loose(table, found.ranges)
    notes += [*found.ranges.notes("operator"), *both_note(index, _KINDS, "operator")]
    return Section(VIEW.name, _TITLE, (table,), notes=(*notes, *tabulate.option_notes(options, table)))


RangeFigures = _ranges.RangeFigures
FiguresByTime = _ranges.FiguresByTime


@dataclass(frozen=True, slots=True, eq=False)
class OperatorFigures:
    """Figures of the operators, a row a name. threads: (source, pid, tid) of each row, none where threads are together.

    flops: sums of what the file says, None where it says none.
    """

    names: list[Cell]
    threads: list[tuple[Cell, ...]]
    ranges: _ranges.RangeFigures
    flops: list[Cell] | None


@join
def figures(index: TraceIndex) -> OperatorFigures:
    """Return the figures of the operators of all threads together."""
    return _figures(charged(index, by_thread=False))


@join
def charged(index: TraceIndex, *, by_thread: bool) -> _ranges.Charged:
    """Return the operators with the device work that is theirs."""
    picked = index.pick(_kinds(index))
    groups = grouping.group_by(picked.key("name"), *(thread_keys(picked) if by_thread else []))
    return _ranges.charge(_host.host(index), picked, groups)


def _figures(found: _ranges.Charged) -> OperatorFigures:
    names, *threads = found.groups.labels
    return OperatorFigures(names, list(zip(*threads, strict=True)), found.figures(), _flops(found))


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
    found = pc.struct_field(pc.extract_regex(arrow.take(args, rows[at]), _FLOPS), "flops")
    known = arrow.bools(pc.greater(pc.utf8_length(found), 0))
    values = pc.cast(found.filter(arrow.array(known)), pa.int64()).to_numpy()
    having, sums = grouping.sums(charged.groups.codes[at[known]], charged.groups.count, values, "FLOPs")
    cells: list[Cell] = [total if n else None for n, total in zip(having, sums, strict=True)]
    return cells if any(having) else None


def _saying_flops(args: arrow.Chunked, rows: I64) -> I64:
    """Return the places among the rows whose args name FLOPs; the texts are copied a part at a time."""
    parts = [np.zeros(0, np.int64)]
    for begin in range(0, rows.size, _AT_ONCE):
        own = arrow.take(args, rows[begin : begin + _AT_ONCE])
        parts.append(np.flatnonzero(arrow.bools(pc.match_substring(own, "flops", ignore_case=True))) + begin)
    return np.concatenate(parts)


def _with_details(table: ReportTable, charged: _ranges.Charged, options: ViewOptions) -> ReportTable:
    """Return the table with the rows of what each operator called and launched below it."""
    groups = [int(cell) for cell in table.column(_NUMBER).values if cell is not None]
    of_group, omitted = details(charged, groups, options.top)
    names = [c.name for c in table.columns]
    rows: list[list[Cell]] = []
    levels: list[Cell] = []
    for group, row in zip(groups, table.rows(), strict=True):
        rows.append(row)
        levels.append(0)
        for below in [each for one in of_group.get(group, ()) for each in (one, *one.within)]:
            rows.append([below.cells.get(name) for name in names])
            levels.append(below.level)
    columns = [replace(c, values=[row[i] for row in rows]) for i, c in enumerate(table.columns)]
    columns.insert(1, Column("level", "Level", Unit.COUNT, levels, 1))
    return replace(table, columns=tuple(columns), omitted=table.omitted + omitted)


_SHOWS = (
    *_ranges.SHOWS,
    ColumnSpec(
        "level",
        "Level",
        Unit.COUNT,
        "The depth of the row: 0 for operators, 1 and 2 for what they called and launched.",
    ),
    ColumnSpec("flops", "FLOPs", Unit.COUNT, "The number of floating-point operations, where the file has it."),
)

VIEW = View(
    name="operator",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=_host.KINDS,
    args_of=_KINDS,
    compute=compute,
    define=of_ranges(_kinds, "operator", ("name",)),
    shows=_SHOWS,
)

"""user_defined: the ranges that the program itself named: record_function, NVTX, RecordEvent, tracekit's recorder.

Kinds user_range and user_range_native, by name; columns as in the view operator (`_ranges`). A range without a thread
(NVTX start/end, an asyncio task) counts for calls and time; what it called and launched is not known. With `thread_sep`
each thread has a block. From TOTALS without percentiles.
"""

from __future__ import annotations

from tracekit.index import grouping
from tracekit.index import host_tree as host
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Cell, Column, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.base import View, ViewOptions
from tracekit.views.named import from_totals, thread_columns, thread_keys
from tracekit.views.tables import ranges
from tracekit.views.tables.ranges import of_ranges
from tracekit.views.totals import both_note, count_totals

__all__ = ["VIEW"]

_TITLE = "User ranges"
_KINDS = frozenset({Kind.USER_RANGE, Kind.USER_RANGE_NATIVE})
_NESTING = "ranges may lie within one another: totals do not add up, and a ratio is of their sum"
_COLUMNS = host.COLUMNS | {"name"}


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of user ranges. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    picked = index.pick(_KINDS)
    if not picked.rows.size:
        return from_totals(
            index,
            options,
            view=VIEW.name,
            title=_TITLE,
            kinds=_KINDS,
            what="user range",
            show_kind=True,
            nested=True,
            notes=(*[_NESTING] * bool(count_totals(index, _KINDS)), *picked.notes("user range")),
        )
    threads = thread_keys(picked) if options.thread_sep else []
    groups = grouping.group_by(picked.key("name"), picked.key("kind"), *threads)
    charged = ranges.charge(host.host(index), picked, groups).figures()
    blocks: list[tuple[Cell, ...]] = list(zip(*groups.labels[2:], strict=True)) if threads else []
    columns = [
        Column("name", "Name", Unit.TEXT, groups.labels[0], 0),
        Column("kind", "Kind", Unit.TEXT, groups.labels[1], 8),
        *(thread_columns(index, blocks) if threads else []),
        *charged.columns(blocks),
    ]
    table = ranges.with_loose(tabulate.finish("user_ranges", _TITLE, columns, options, blocks=blocks), charged)
    notes = [ranges.SELF_NOTE] if charged.device is not None else []
    notes += [tabulate.PERCENTILE_NOTE, *charged.notes("user range"), *both_note(index, _KINDS, "user range")]
    return Section(VIEW.name, _TITLE, (table,), notes=(*notes, *tabulate.option_notes(options, table)))


_SHOWS = (
    *ranges.SHOWS,
    specs.KIND,
)

VIEW = View(
    name="user_defined",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=host.KINDS,
    compute=compute,
    define=of_ranges(lambda _: _KINDS, "user range", ("name", "kind")),
    shows=_SHOWS,
)

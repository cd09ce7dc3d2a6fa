"""The contract of a view: a Trace in, a Section out; pure, numbers as numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from tracekit.arguments import checked_fields
from tracekit.errors import UsageError
from tracekit.index.batch_sums import BatchSums
from tracekit.index.kernel_classes import VARIABLE
from tracekit.index.topology import Topology
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.report import Cell, Column, Picture, Role, Section, without_shares
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.options import OptionSpec
from tracekit.options import value as option_value
from tracekit.views.pictures import pictured

__all__ = [
    "FINDINGS",
    "Compute",
    "Define",
    "Quantity",
    "View",
    "ViewColumn",
    "ViewOptions",
    "computed",
    "needs_events",
    "plain_section",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column that tables of a view can have. `--sort KEY`, help and the listings come from these declarations.

    unit: that of its cells. A view whose tables use one key for two units declares it twice. meaning: one sentence.
    title: the usual header; a table may have a header of its own. role: see `report.Role`.
    """

    key: str
    title: str
    unit: Unit
    meaning: str
    role: Role = ""

    def column(self, values: Sequence[Cell], priority: int = 0) -> Column:
        """Return a column of a table; priority: see `report.Column`."""
        return Column(self.key, self.title, self.unit, values, priority, self.role)


@checked_fields
@dataclass(frozen=True, slots=True)
class ViewOptions:
    """Options that every view takes.

    sorted_by: a column's key ("-" before it: ascending), "" for the view's own order. top: rows kept of each table, 0
    for all. thread_sep: a block for each thread. op_detail: below each operator, what it called and launched.
    by: a dimension (rank, host, tp ...) whose groups are compared, those of `topology` where it has them; each: their
    tables one after the other. compat: a profiler whose figures are shown in place of the exact ones, defects included;
    a name of `compat.COMPATS`.
    values: options of single views by key, those of `View.options`: `{"n_ops": 10}`.
    """

    sorted_by: str = ""
    top: int = 0
    thread_sep: bool = False
    op_detail: bool = True
    compat: str = ""
    values: Mapping[str, object] = field(default_factory=dict)
    by: str = ""
    each: bool = False
    topology: Topology | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for a number of rows that is none."""
        if self.top < 0:
            raise UsageError(f"top {self.top}: not a number of rows", hint="0 is all rows")

    def value(self, spec: OptionSpec[T]) -> T:
        """Return the value of a view's own option: the one given, else the default. Raises: UsageError."""
        return option_value(self.values, spec)


@dataclass(frozen=True, slots=True)
class Quantity:
    """The quantity that a cell measures: pieces of time, and how they become one number.

    words: the definition, without a full stop. rows, starts, ends: shape (n,): the row of EVENTS that each piece is of
    (-1: of none, such as a span) and the ns that count of it. lanes: shape (n,): a union is taken lane by lane, and the
    lanes added up. clocks: shape (n,): pieces of different clocks cannot overlap.
    measure: "sum" or "union" of the pieces, their "count", or a statistic of their lengths: "mean", "min", "max",
    "std", or a percentile such as "p95"; "ratio": their sum or union (`of`) over that of `whole`.
    """

    words: str
    measure: str
    rows: I64
    starts: I64
    ends: I64
    lanes: I64
    clocks: I64
    of: str = "sum"
    whole: Quantity | None = None


Compute = Callable[[TraceIndex, ViewOptions], Section]
Define = Callable[[TraceIndex, ViewOptions, Mapping[str, Cell], str], Quantity | None]
"""From a trace, options, the cells of a row of the view's table ({}: all rows together) and a column: what it measures;
None where a column has no such definition."""


@dataclass(frozen=True, slots=True)
class View:
    """One view.

    columns: the columns of EVENTS that it needs. kinds: the kinds of rows that it shows (empty: any). shows: the
    columns of its tables. args_of: the kinds of rows whose `args` it reads, None for all. options: its own options.
    define: the meaning of a cell, for `tracekit explain`. pictures: of its tables, or of those of other views.
    sums: returns what adds up, batch by batch, all that `compute` asks the index for, but for options that need events
    (`needs_events`); None for a view that needs all events at once.
    """

    name: str
    title: str
    columns: frozenset[str]
    kinds: frozenset[Kind]
    compute: Compute
    define: Define | None = None
    shows: tuple[ViewColumn, ...] = ()
    options: tuple[OptionSpec[object], ...] = ()
    args_of: frozenset[Kind] | None = None
    pictures: tuple[Picture, ...] = ()
    sums: Callable[[], tuple[BatchSums, ...]] | None = None


def needs_events(options: ViewOptions) -> bool:
    """Return whether some of these options make another table of the events than that of their sums."""
    return bool(options.thread_sep or options.compat or options.by or options.each or options.topology)


FINDINGS = "findings"
"""The view that concludes: it has nothing to say of a trace that lost records."""


def computed(view: View, index: TraceIndex, options: ViewOptions) -> Section:
    """Return the section of a view; of a trace that lost records one without shares and conclusions."""
    if not index.trace.incomplete:
        return pictured(plain_section(view, index, options), view.pictures, index)
    if view.name == FINDINGS:
        return Section(
            view.name,
            view.title,
            notes=("not checked: too many records of the trace are missing or could not be read",),
        )
    return without_shares(plain_section(view, index, options))


def plain_section(view: View, index: TraceIndex, options: ViewOptions) -> Section:
    """Return what a view computes; with the usual options once, for all who ask.

    A report shows tables that its findings quote. A user's rules for classes of kernels may change from call to call.
    """
    if options != ViewOptions() or VARIABLE in os.environ:
        return view.compute(index, options)
    # The view stays with its section, so that its id is of no other one.
    return index.once(("section", id(view)), lambda: (view, view.compute(index, options)))[1]

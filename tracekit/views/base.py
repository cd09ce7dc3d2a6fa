"""The contract of a view: a Trace in, a Section out; pure, numbers as numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tracekit.analysis.intervals import I64
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell, Section
from tracekit.schema import Kind


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What a caller may say to every view.

    sorted_by: a column's name ("-" before it: ascending), "" for the view's own order. top: rows kept a table, 0 all.
    thread_sep: a block for each thread. op_detail: rows of what an operator called and launched, below it.
    compat: an upstream whose figures are wanted instead of the right ones, defects and all; a name of `compat.NAMES`.
    Of single views, None for the view's own default (`summary --option n_apply=20`): n_ops, n_apply: rows that theano
    shows of its tables. min_memory_size: bytes of the outputs of a node that its memory table shows. verbosity: 1, 2 or
    3 of singa. iterations, skip_iterations: those that a SINGA profile is an average of, and those that it left out.
    thresholds: values of findings' rules other than the defaults; keys are those of `findings.thresholds.THRESHOLDS`.
    """

    sorted_by: str = ""
    top: int = 0
    thread_sep: bool = False
    op_detail: bool = True
    compat: str = ""
    n_ops: int | None = None
    n_apply: int | None = None
    min_memory_size: int | None = None
    verbosity: int | None = None
    iterations: int | None = None
    skip_iterations: int | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)


VIEW_NUMBERS = ("n_ops", "n_apply", "min_memory_size", "verbosity", "iterations", "skip_iterations")
"""Fields of ViewOptions that are options of single views, as `--option KEY=VALUE` has them."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a cell measures: pieces of time, and how they become one number.

    words: the definition, without a full stop. rows, starts, ends: shape (n,): the row of EVENTS that each piece is of
    (-1: of none, such as a span) and the ns that count of it. lanes: shape (n,): a union is taken lane by lane, and the
    lanes added up. clocks: shape (n,): pieces of different clocks cannot overlap.
    measure: "sum" or "union" of the pieces, their "count", or a statistic of their lengths: "mean", "min", "max",
    "std", "p50", "p95", "p99"; "ratio": their sum or union (`of`) over that of `whole`.
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
    """One view. `columns` of EVENTS are what it needs; `kinds` too (empty: any). `define` serves `tracekit explain`."""

    name: str
    title: str
    columns: frozenset[str]
    kinds: frozenset[Kind]
    compute: Compute
    define: Define | None = None

"""The contract of a view: a Trace in, a Section out; pure, numbers as numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracekit.report import Section
from tracekit.schema import Kind
from tracekit.trace import Trace


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What a caller may say to every view.

    sorted_by: a column's name ("-" before it: ascending), "" for the view's own order. top: rows kept a table, 0 all.
    thread_sep: a block for each thread. op_detail: rows of what an operator called and launched, below it.
    compat: an upstream whose figures are wanted instead of the right ones, defects and all; a name of `views.COMPATS`.
    """

    sorted_by: str = ""
    top: int = 0
    thread_sep: bool = False
    op_detail: bool = True
    compat: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """One view. `columns` of EVENTS are what it needs; `kinds` too (empty: any)."""

    name: str
    title: str
    columns: frozenset[str]
    kinds: frozenset[Kind]
    compute: Callable[[Trace, ViewOptions], Section]

"""TraceIndex: everything that is computed over one Trace and that several views ask for, each computed once.

A join is a function that takes the index, and what else it depends on, decorated with `join`:

    @join
    def find_devices(index: TraceIndex) -> Devices: ...

The first caller computes it and every later one gets the same object. A Trace is frozen, so nothing here goes stale.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import pyarrow as pa

from tracekit.trace import Ledger, Run, Trace

P = ParamSpec("P")
T = TypeVar("T")


class TraceIndex:
    """The joins over one trace, each computed on demand and once."""

    __slots__ = ("_found", "_trace")

    def __init__(self, trace: Trace) -> None:
        self._trace: Callable[[], Trace | None] = lambda: trace
        self._found: dict[Hashable, object] = {}

    @property
    def trace(self) -> Trace:
        """Return the trace."""
        trace = self._trace()
        if trace is None:  # pragma: no cover - who asks holds the trace
            raise ReferenceError("the trace of this index is gone")
        return trace

    @property
    def events(self) -> pa.Table:
        """Return the events of the trace."""
        return self.trace.events

    @property
    def totals(self) -> pa.Table:
        """Return the totals of the trace."""
        return self.trace.totals

    @property
    def run(self) -> Run:
        """Return the facts of the trace."""
        return self.trace.run

    @property
    def ledgers(self) -> tuple[Ledger, ...]:
        """Return the ledgers of the trace, one an input."""
        return self.trace.ledgers

    def span(self) -> tuple[int, int] | None:
        """Return first start and last end in ns, None without events."""
        return self.trace.span()

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what is kept under a key, computed when it is asked for first."""
        if key not in self._found:
            self._found[key] = compute()
        found: T = self._found[key]  # type: ignore[assignment]
        return found


def join(function: Callable[Concatenate[TraceIndex, P], T]) -> Callable[Concatenate[TraceIndex, P], T]:
    """Make a function of an index compute once an index; its other arguments are hashable."""

    @wraps(function)
    def computed_once(index: TraceIndex, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (function, args, tuple(kwargs.items()))
        return index.once(key, lambda: function(index, *args, **kwargs))

    return computed_once


_INDEXES: dict[int, TraceIndex] = {}
"""Indexes of traces that are alive, by the id of the trace. They hold their traces weakly."""


def index_of(trace: Trace) -> TraceIndex:
    """Return the index that is kept for a trace as long as the trace lives. The caller holds the trace."""
    index = _INDEXES.get(id(trace))
    if index is None:
        index = TraceIndex(trace)
        index._trace = weakref.ref(trace)
        weakref.finalize(trace, _INDEXES.pop, id(trace), None).atexit = False
        _INDEXES[id(trace)] = index
    return index

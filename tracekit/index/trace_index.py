"""TraceIndex: everything that is computed over one Trace and that several views ask for, each computed once.

A join is a function that takes the index, and what else it depends on, decorated with `join`:

    @join
    def find_devices(index: TraceIndex) -> Devices: ...

The first caller computes it and every later one gets the same object. A Trace is frozen, so nothing here goes stale.

`give` puts in the result of a join that was computed elsewhere: over the files of a run of many ranks, each where it is
(`tracekit.rank_summaries`). Then the trace has few rows, and only views whose joins were all given are right.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import wraps
from inspect import signature
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.index.grouping import Key
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I32, I64, Codes, Mask, Rows
from tracekit.model.display import plural
from tracekit.model.report import Cell
from tracekit.model.trace import Ledger, Run, Trace

__all__ = ["PickedRows", "TraceIndex", "coded", "index_of", "join", "notes_on_rows"]

P = ParamSpec("P")
T = TypeVar("T")


class TraceIndex:
    """The joins over one trace, each computed on demand and once."""

    __slots__ = ("_found", "_given", "_trace")

    def __init__(self, trace: Trace) -> None:
        self._trace: Callable[[], Trace | None] = lambda: trace
        self._found: dict[Hashable, object] = {}
        self._given: set[object] = set()

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

    @property
    def starts(self) -> I64:
        """Return the start of each row, ns. Like every column here it is shared: not for writing."""
        return self.ints("ts_ns")

    @property
    def lengths(self) -> I64:
        """Return the duration of each row, ns; 0 where it has none or one below zero."""
        return self.once("lengths", lambda: _not_negative(self.ints("dur_ns")))

    def ints(self, column: str) -> I64:
        """Return an integer column of EVENTS; 0 where a row has no value."""
        return self.once(("ints", column), lambda: _ints(self.events.column(column)))

    def has(self, column: str) -> Mask:
        """Return for each row of EVENTS whether it has a value in this column."""
        return self._mask(("has", column), lambda: arrow.valid(self.events.column(column)))

    def texts(self, column: str) -> tuple[I32, list[str]]:
        """Return a text column of EVENTS as the place of each row's text in a list, -1 for none, and the list."""
        return self.once(("texts", column), lambda: _texts(self.events.column(column)))

    def kind_mask(self, kinds: Collection[str]) -> Mask:
        """Return for each row of EVENTS whether it is of one of the kinds; a null kind is of none."""
        wanted = frozenset(kinds)
        return self._mask(("kind_mask", wanted), lambda: self._of_kinds(wanted))

    def of_sources(self, numbers: Collection[int]) -> Mask:
        """Return for each row of EVENTS whether it is of one of these inputs."""
        codes, labels = self.codes("source")
        wanted = frozenset(numbers)
        of_label = np.array([(label or 0) in wanted for label in labels], np.bool_)
        return of_label[codes] if of_label.any() else np.zeros(len(codes), np.bool_)

    def _of_kinds(self, wanted: frozenset[str]) -> Mask:
        codes, kinds = self.once("kinds", lambda: _short_codes(self.events.column("kind")))
        found = np.zeros(len(codes), np.bool_)
        for code, kind in enumerate(kinds):  # to compare bytes with a few numbers is faster than to look each one up
            if kind in wanted:
                found |= codes == code
        return found

    def _mask(self, key: Hashable, compute: Callable[[], Mask]) -> Mask:
        """Return a mask that is kept as bits: a report has thirty of them, and to unpack one takes no time."""
        bits = self.once(key, lambda: np.packbits(compute()))
        return _shared(np.unpackbits(bits, count=self.events.num_rows).view(np.bool_))

    def key(self, column: str, rows: Rows | None = None) -> Key:
        """Return a column of EVENTS as a key for these rows, all rows if none are named; label 0 is None."""
        codes, labels = self.codes(column)
        return Key((codes if rows is None else codes[rows]).astype(np.int64), labels)

    def codes(self, column: str) -> tuple[Rows, Sequence[Cell]]:
        """Return the place of each row's value of a column of EVENTS among labels, and the labels; label 0 is None."""
        return self.once(("key", column), lambda: coded(self.events.column(column)))

    def pick(self, kinds: Collection[str]) -> PickedRows:
        """Return the rows of these kinds that have a duration; a duration below zero counts as 0."""
        wanted = frozenset(kinds)
        return self.once(("pick", wanted), lambda: self._pick(wanted))

    def _pick(self, kinds: frozenset[str]) -> PickedRows:
        mask, timed = self.kind_mask(kinds), self.has("dur_ns")
        rows = np.flatnonzero(mask & timed)
        negative = int(np.count_nonzero(self.ints("dur_ns")[rows] < 0))
        untimed = int(np.count_nonzero(mask & ~timed))
        return PickedRows(self, rows, self.starts[rows], self.lengths[rows], untimed, negative)

    def span(self) -> tuple[int, int] | None:
        """Return first start and last end in ns, None without events."""
        return self.trace.span()

    def clear(self) -> None:
        """Forget everything that was computed: for the end of a command, when nothing is asked for again."""
        self._found.clear()
        arrow.release_memory()

    def give(self, function: Callable[..., T], value: T, *args: Hashable, **kwargs: Hashable) -> None:
        """Put in the result of a join for these arguments, so that it is not computed."""
        inner = getattr(function, "__wrapped__", function)
        self._found[inner, args, tuple(kwargs.items())] = _shared(value)
        self._given.add(inner)

    def was_given(self, function: Callable[..., object]) -> bool:
        """Return whether results of this join were put in."""
        return getattr(function, "__wrapped__", function) in self._given

    def drop(self, function: Callable[..., object]) -> None:
        """Forget what a join computed. For a large one, after the last view of a report that asks for it."""
        inner = getattr(function, "__wrapped__", function)
        for key in [key for key in self._found if isinstance(key, tuple) and key[0] is inner]:
            del self._found[key]

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what is kept under a key, computed when it is asked for first."""
        if key not in self._found:
            self._found[key] = _shared(compute())
        found: T = self._found[key]  # type: ignore[assignment]
        return found


@dataclass(frozen=True, slots=True)
class PickedRows:
    """Rows of EVENTS with a duration. rows: their numbers; starts, durations: ns; untimed, negative: what notes say."""

    index: TraceIndex
    rows: I64
    starts: I64
    durations: I64
    untimed: int
    negative: int

    def key(self, column: str) -> Key:
        """Return that column of EVENTS as a key."""
        return self.index.key(column, self.rows)

    def notes(self, what: str) -> list[str]:
        """Return a sentence for rows without a duration, and one for durations below zero."""
        return notes_on_rows(what, self.untimed, self.negative)


def notes_on_rows(what: str, untimed: int, negative: int) -> list[str]:
    """Return a sentence for rows without a duration, and one for durations below zero."""
    out = []
    if untimed:
        verbs = ("has", "is") if untimed == 1 else ("have", "are")
        out.append(f"{plural(untimed, what)} {verbs[0]} no duration and {verbs[1]} not counted")
    if negative:
        verb = "has" if negative == 1 else "have"
        out.append(f"{plural(negative, what)} {verb} a duration below zero, counted as 0")
    return out


def _shared(found: T) -> T:
    """Return an array as one that cannot be written to; anything else as it is."""
    if isinstance(found, np.ndarray):
        found.setflags(write=False)
    return found


def _ints(column: arrow.Chunked) -> I64:
    """Return an integer column as int64, 0 for null; without a copy where the column has 0 below its nulls.

    One number for all rows takes no memory.
    """
    if column.num_chunks != 1:
        return arrow.ints(column)
    if column.type == pa.int64():
        stored = arrow.stored(column.chunks[0], np.int64)
        return stored if not column.null_count or not stored[~arrow.valid(column)].any() else arrow.ints(column)
    low, high = (None, None) if column.null_count else arrow.bounds(column) or (None, None)
    return arrow.ints(column) if low is None or low != high else np.broadcast_to(np.int64(low), len(column))


def _not_negative(values: I64) -> I64:
    """Return the values, 0 in the place of one below zero; the same array where none is."""
    return np.maximum(values, 0) if values.size and int(values.min()) < 0 else values


def _short_codes(column: arrow.Chunked) -> tuple[Codes, list[str]]:
    """Return a text column as `_texts` does, in bytes: there are fewer kinds than a byte has numbers."""
    codes, texts = _texts(column)
    return codes.astype(np.int8), texts


def _texts(column: arrow.Chunked) -> tuple[I32, list[str]]:
    chunks = [arrow.encoded(chunk) for chunk in column.chunks]
    if not chunks:
        return np.zeros(0, np.int32), []
    if column.null_count == len(column):  # one number for all rows takes no memory
        return np.broadcast_to(np.int32(-1), len(column)), arrow.texts(chunks[-1].dictionary)
    codes = [arrow.codes(chunk) for chunk in chunks]
    return codes[0] if len(codes) == 1 else np.concatenate(codes), arrow.texts(chunks[-1].dictionary)


def coded(column: arrow.Chunked) -> tuple[npt.NDArray[np.signedinteger], Sequence[Cell]]:
    """Return the place of each row's value among the labels, in the smallest type that holds them; label 0 is None."""
    if pa.types.is_integer(column.type) and not column.null_count:
        low, high = arrow.bounds(column) or (None, None)
        if low is not None and low == high:  # one number for all rows takes no memory
            return np.broadcast_to(np.int8(1), len(column)), [None, low]
    if not pa.types.is_dictionary(column.type):
        column = arrow.pc.dictionary_encode(column)
    codes, labels = _texts(column.unify_dictionaries())
    small = np.min_scalar_type(-len(labels) - 1)
    if column.null_count == len(column):
        return np.broadcast_to(small.type(0), len(column)), [None, *labels]
    return codes.astype(small) + small.type(1), [None, *labels]


def join(function: Callable[Concatenate[TraceIndex, P], T]) -> Callable[Concatenate[TraceIndex, P], T]:
    """Make a function of an index compute once an index; its other arguments are hashable."""

    usual = {each.name: each.default for each in signature(function).parameters.values()}

    @wraps(function)
    def computed_once(index: TraceIndex, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # An argument that is given as its default is the same join.
        key = (function, args, tuple((name, value) for name, value in kwargs.items() if value != usual.get(name)))
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

"""Sums over the rows of EVENTS that views are made of, batch by batch: a view of them needs no events in memory.

What adds up declares itself as `BatchSums`. It takes each batch as it is read, in any order of rows, and in the end
puts its joins into the index of a trace of few rows (`TraceIndex.give`), as the shares of many ranks do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa

from tracekit.analysis.statistics import DEFAULT_PERCENTILES, Grouped
from tracekit.analysis.value_counts import ValueCounts, added, rounded, statistics
from tracekit.index.grouping import too_long
from tracekit.index.trace_index import TraceIndex
from tracekit.model.arrow import I64
from tracekit.model.report import Cell
from tracekit.model.schema import Kind

__all__ = ["BITS", "MOST_VALUES", "BatchSums", "Tallies"]

MOST_VALUES = 4_000_000
"""Different values that are kept of all groups of one table; with more, values are rounded: 24 bytes each."""
BITS = 11
"""Leading bits of rounded values: a percentile is then too low by at most 0.1 %."""
_FEW = 1_000_000
"""Values that wait at least before they are added up."""


class BatchSums(Protocol):
    """Sums that one or several views need of all rows, added up batch by batch.

    columns: those of EVENTS that `take` looks at. args_of: the kinds of rows whose `args` it looks at.
    """

    columns: ClassVar[frozenset[str]]
    args_of: ClassVar[frozenset[Kind]]

    def fits(self, formats: Collection[str], /) -> bool:
        """Return whether inputs of these formats have nothing that needs all events at once."""

    def take(self, batch: pa.RecordBatch) -> bool:
        """Add the rows of a batch of EVENTS; return False where they have something that needs all events at once."""

    def give(self, index: TraceIndex) -> None:
        """Put the joins of all rows into the index of a trace of few rows."""


class Tallies:
    """The tallies of one table, added up as they come. labels: those of the groups, in order of their first use.

    most: different values that are kept apart, None for all.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._numbers: dict[tuple[Cell, ...], int] = {}
        self._waiting: list[tuple[ValueCounts, I64]] = []
        self._rows = self._kept = 0

    @property
    def labels(self) -> list[tuple[Cell, ...]]:
        """Return the labels of each group."""
        return list(self._numbers)

    def add(self, labels: Sequence[Sequence[Cell]], tally: ValueCounts) -> list[int]:
        """Add a tally, and return the number that each of its groups has here."""
        numbers = [self._numbers.setdefault(key, len(self._numbers)) for key in zip(*labels, strict=True)]
        self._waiting.append((tally, np.array(numbers, np.int64)))
        self._rows += tally.value.size
        if self._rows > max(2 * self._kept, _FEW):
            self._settle()
        return numbers

    def _settle(self) -> None:
        """Make one tally of all that wait. Done when they are twice as many, so all rows are sorted a few times."""
        count = len(self._numbers)
        whole = added(self._waiting, count)
        if self._most is not None and whole.value.size > self._most:
            whole = rounded(whole, BITS)
        self._waiting = [(whole, np.arange(count))]
        self._rows = self._kept = whole.value.size

    @property
    def rounded(self) -> bool:
        """Return whether percentiles are not exact."""
        return any(tally.bits for tally, _ in self._waiting)

    def statistics(self, percents: Sequence[int] = DEFAULT_PERCENTILES) -> Grouped:
        """Return the statistics of each group. Raises: TracekitError where a sum exceeds int64."""
        self._settle()
        try:
            return statistics(self._waiting[0][0], percents)
        except OverflowError as err:
            raise too_long() from err

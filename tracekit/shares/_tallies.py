"""Tallies of many inputs, added up as they come, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.analysis.statistics import DEFAULT_PERCENTILES, Grouped
from tracekit.analysis.tallies import Tally, added, rounded, statistics
from tracekit.index.grouping import too_long
from tracekit.report import Cell

MOST_VALUES = 4_000_000
"""Different values that are kept of all groups of one table; with more, values are rounded: 24 bytes each."""
BITS = 11
"""Leading bits of rounded values: a percentile is then too low by at most 0.1 %."""
ROUNDED = "percentiles are up to 0.1 % too low: the run has more different durations than are kept apart"


class Tallies:
    """The tallies of one table over inputs. labels: those of the groups, in order of their first input."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Cell, ...], int] = {}
        self._waiting: list[tuple[Tally, np.ndarray[tuple[int, ...], np.dtype[np.int64]]]] = []
        self._rows = self._kept = 0

    @property
    def labels(self) -> list[tuple[Cell, ...]]:
        """Return the labels of each group."""
        return list(self._numbers)

    def add(self, labels: tuple[list[Cell], ...], tally: Tally) -> list[int]:
        """Add the tally of one input, and return the number that each of its groups has here."""
        numbers = [self._numbers.setdefault(key, len(self._numbers)) for key in zip(*labels, strict=True)]
        self._waiting.append((tally, np.array(numbers, np.int64)))
        self._rows += tally.value.size
        if self._rows > max(2 * self._kept, MOST_VALUES // 4):
            self._settle()
        return numbers

    def _settle(self) -> None:
        """Make one tally of all that wait. Done when they are twice as many, so all rows are sorted a few times."""
        count = len(self._numbers)
        whole = added(self._waiting, count)
        if whole.value.size > MOST_VALUES:
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

"""Two clocks read together: what one showed at a moment of the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["read_together"]


class ClockPair(NamedTuple):
    """At `outer` of one clock the other showed `inner`. apart: what the first clock counted around that reading."""

    outer: int
    inner: int
    apart: int


def read_together(outer: Callable[[], int], inner: Callable[[], int], tries: int) -> ClockPair:
    """Return the tightest of several readings, since the process may lose the processor in between.

    >>> ticks = iter([0, 90, 100, 104])
    >>> read_together(lambda: next(ticks), lambda: 7, 2)
    ClockPair(outer=102, inner=7, apart=4)
    """

    def one_reading() -> ClockPair:
        before = outer()
        shown = inner()
        after = outer()
        return ClockPair((before + after) // 2, shown, after - before)

    return min((one_reading() for _ in range(tries)), key=lambda pair: abs(pair.apart))

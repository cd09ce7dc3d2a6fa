"""The change between two sides, as a page draws it: the verdict, intervals of metrics, the parts of the change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tracekit.model.units import Unit

__all__ = ["ChangeInterval", "ChangeIntervals", "ChangeVerdict", "PartOfChange", "Waterfall"]


@dataclass(frozen=True, slots=True)
class ChangeVerdict:
    """The verdict in one sentence. state: "slower", "faster", "same" ...; meaning: how certain it is, and why."""

    sentence: str
    state: str
    meaning: str

    def __repr__(self) -> str:
        return f"verdict: {self.sentence}"


@dataclass(frozen=True, slots=True)
class ChangeInterval:
    """The change of one metric. ratio, low, high: new / base - 1, None where not known; base, new: in `unit`."""

    metric: str
    unit: Unit
    base: int
    new: int
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ChangeIntervals:
    """The changes of the main metrics. remark: a sentence on what an interval is."""

    title: str
    rows: tuple[ChangeInterval, ...]
    remark: str

    def __repr__(self) -> str:
        return f"intervals, {self.title}: {len(self.rows)} metrics"


@dataclass(frozen=True, slots=True)
class PartOfChange:
    """One part of a change: ns of both sides. how: "new" or "gone" where one side lacks it, or how its names match.

    names: its own parts, which add up to it; () for a single name.
    """

    label: str
    base: int
    new: int
    how: str = ""
    names: tuple[PartOfChange, ...] = ()

    @property
    def difference(self) -> int:
        """Return new minus base."""
        return self.new - self.base


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The parts of a change, largest first; they add up to `base` and `new`, to the ns. what: their whole, in words."""

    title: str
    what: str
    base: int
    new: int
    parts: tuple[PartOfChange, ...]

    def __repr__(self) -> str:
        return f"waterfall, {self.title}: {len(self.parts)} parts"

    def running(self) -> Iterator[tuple[PartOfChange, int, int]]:
        """Yield each part with the sum before it and the sum after it, from base to new."""
        at = self.base
        for part in self.parts:
            yield part, at, at + part.difference
            at += part.difference

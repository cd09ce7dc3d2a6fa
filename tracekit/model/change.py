"""The change between two sides, as a page draws it: the verdict, intervals of metrics, the parts of the change."""

from __future__ import annotations

from collections.abc import Iterator

from tracekit.lazy_dataclass import dataclass
from tracekit.model.units import Unit

__all__ = ["REASON", "UNCHANGED", "ChangeInterval", "ChangeIntervals", "ChangeVerdict", "PartOfChange", "Waterfall"]


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

    A part that a reason explains is REASON, with a base of 0; the base that is left with it is UNCHANGED.
    names: its own parts, which add up to it; () for a single name. row, column: its cell in a table of the waterfall;
    "" for the row with its label.
    """

    label: str
    base: int
    new: int
    how: str = ""
    names: tuple[PartOfChange, ...] = ()
    row: str = ""
    column: str = ""

    @property
    def difference(self) -> int:
        """Return new minus base."""
        return self.new - self.base


REASON, UNCHANGED = "reason", "unchanged"
"""Of a part of a change by reason: the ns that a reason explains, and the base that is left with them."""


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The parts of a change, largest first; they add up to `base` and `new`, to the ns. what: their whole, in words.

    tables: the names of the tables that have the parts as rows. spoken: no table says it in a few columns, so that
    texts have its parts in words.
    """

    title: str
    what: str
    base: int
    new: int
    parts: tuple[PartOfChange, ...]
    tables: tuple[str, ...] = ()
    spoken: bool = False

    def __repr__(self) -> str:
        return f"waterfall, {self.title}: {len(self.parts)} parts"

    def running(self) -> Iterator[tuple[PartOfChange, int, int]]:
        """Yield each part with the sum before it and the sum after it, from base to new."""
        at = self.base
        for part in self.parts:
            yield part, at, at + part.difference
            at += part.difference

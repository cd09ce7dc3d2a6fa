"""The change of a metric between two sides, and the words of its verdict."""

from __future__ import annotations

from tracekit.comparison._metrics import ComparedMetric
from tracekit.lazy_dataclass import dataclass
from tracekit.model.units import Unit

LEVEL = 0.965
MIN_VALUES = 5
"""Values on each side that a bootstrap needs."""
MIN_RUNS = 3
"""Runs of both sides together that Student's t needs."""
SLOWER, FASTER, SAME, UNKNOWN = "slower", "faster", "same", "not enough data"
TOO_FEW_RUNS = "not enough runs"
"""One run a side, and a change that may be noise between runs."""
MORE, LESS = "more", "less"
ONE_RUN_EACH = "one run each: no estimate of noise"


@dataclass(frozen=True, slots=True)
class Change:
    """A metric on both sides. base, new: None where a side lacks it. ratio, low, high: new / base - 1.

    values: "runs", "steps", "calls", or "" for no interval. count: values on each side. why: reason for no interval.
    single: the verdict is that of the change of one run a side, without an interval. shown: the smallest change that
    one run a side shows; None where several runs are compared.
    """

    metric: ComparedMetric
    base: float | None
    new: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    values: str = ""
    count: tuple[int, int] = (0, 0)
    verdict: str = UNKNOWN
    why: str = ""
    single: bool = False
    shown: float | None = None

    @property
    def undecided(self) -> bool:
        """Return whether the values decide neither for a change nor against it."""
        return self.verdict in (UNKNOWN, TOO_FEW_RUNS)

    @property
    def difference(self) -> int | None:
        """The difference of the rounded values."""
        if self.base is None or self.new is None:
            return None
        return round(self.new) - round(self.base)


@dataclass(frozen=True, slots=True)
class VerdictLimits:
    """Limits of the verdict. least: the smallest change that counts. same: an interval within it is "same"."""

    least: float = 0.01
    same: float = 0.03


def direction(change: Change) -> str:
    """Return the word for a change of this sign."""
    words = (SLOWER, FASTER) if change.metric.unit is Unit.NS else (MORE, LESS)
    return words[0] if change.ratio is not None and change.ratio > 0 else words[1]


def verdict(metric: ComparedMetric, ratio: float, low: float, high: float, limits: VerdictLimits) -> str:
    """Return the verdict on a change with this interval."""
    words = (SLOWER, FASTER) if metric.unit is Unit.NS else (MORE, LESS)
    if abs(ratio) >= limits.least and (low > 0 or high < 0):
        return words[0] if ratio > 0 else words[1]
    return SAME if -limits.same <= low and high <= limits.same else UNKNOWN

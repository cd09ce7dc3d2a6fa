"""The line through differences of two clocks: offset, drift, and how far the truth may be from them.

Differences are integers. Their median and the middle of the times are subtracted first, so floats hold small numbers
only. Huber's regression finds the line: differences far from it count less (Huber, Robust Estimation of a Location
Parameter, 1964). It starts from Theil's line, the median of the slopes between
difference i and difference i + m/2. The errors of offset and drift are the robust ones of such an estimate (Huber and
Ronchetti, Robust Statistics, 2009, section 7.6), and Student's distribution makes limits of them that hold in `SURELY`
of all cases for offset and drift together.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tracekit.analysis.statistics import nearest_rank
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import F64, I64

__all__ = ["LEAST", "LEAST_FOR_DRIFT", "ClockLine", "fit", "limit", "robust"]

LEAST = 3
"""With fewer differences there is no line: two points are always on one."""
LEAST_FOR_DRIFT = 8
"""With fewer differences only the offset is known."""
SURELY = 0.99
_DEVIATION = 1.4826
"""The standard deviation of a normal distribution, as a multiple of the median distance from its median."""
_BEND = 1.345
"""Differences further away than this many deviations count less: 95 % as exact as least squares on normal ones."""
_ROUNDS = 30


@dataclass(frozen=True, slots=True)
class ClockLine:
    """A clock against a reference: at its time `middle` (ns of the reference) it is `offset` ns ahead.

    drift: ns that it gains in each ns. at_middle, in_drift: limits of the errors of both. uncertainty: ns, the limit of
    the error of any corrected time from `first` to `last` (ns of the reference). count: differences.
    """

    offset: int
    drift: float
    middle: int
    at_middle: int
    in_drift: float
    uncertainty: int
    first: int
    last: int
    count: int

    def ahead(self, times: I64) -> I64:
        """Return by how many ns the clock is ahead at these times of the reference."""
        gained: I64 = np.rint(self.drift * (times - self.middle)).astype(np.int64)
        return self.offset + gained

    def corrected(self, times: I64) -> I64:
        """Return times of the clock as times of the reference. Their order stays, equal times stay equal."""
        moved: I64 = times - self.offset
        if not self.drift:
            return moved
        # The reference's own time is moved / (1 + drift); floats hold what was gained since the middle to the ns.
        rate = self.drift / (1 + self.drift)
        gained: I64 = np.rint(rate * (moved - self.middle)).astype(np.int64)
        return moved - gained

    def over(self, other: ClockLine) -> ClockLine:
        """Return this clock's line against the reference of another line. self: it is against the clock of `other`."""
        first, middle, last = other.corrected(np.array([self.first, self.middle, self.last])).tolist()
        ahead = self.offset + int(other.ahead(np.array([middle]))[0])
        drift = (1 + self.drift) * (1 + other.drift) - 1
        return replace(self, offset=ahead, drift=drift, middle=middle, first=first, last=last)

    def reversed(self) -> ClockLine:
        """Return the line of the reference against this clock."""
        times = np.array([self.first, self.middle, self.last])
        first, middle, last = (times + self.ahead(times)).tolist()
        slower = -self.drift / (1 + self.drift)
        return replace(self, offset=-self.offset, drift=slower, middle=middle, first=first, last=last)


def fit(times: I64, apart: I64, resolution: int = 1) -> ClockLine | None:
    """Return the line through differences `apart` at these times of the reference, None for fewer than LEAST.

    times, apart: shape (n,), ns. resolution: ns between two times that the clocks can distinguish.

    >>> line = fit(np.arange(0, 1_000_000, 100_000), np.full(10, 250))
    >>> line.offset, line.drift, line.middle, line.uncertainty, line.first, line.last, line.count
    (250, 0.0, 450000, 1, 0, 900000, 10)
    """
    if times.size < LEAST:
        return None
    order = np.argsort(times, kind="stable")
    times, apart = times[order], apart[order]
    first, last = int(times[0]), int(times[-1])
    middle = first + (last - first) // 2
    median = nearest_rank(np.sort(apart), 50)
    x, y = (times - middle).astype(np.float64), (apart - median).astype(np.float64)
    drifts = times.size >= LEAST_FOR_DRIFT and last > first
    shift, slope, covariance = _huber(x, y, drifts=drifts)
    wide = limit(times.size - 1 - drifts)
    in_drift = wide * math.sqrt(covariance[2])
    if abs(slope) <= in_drift:
        # A drift that could be chance is none. What it would have moved the offset by is part of the uncertainty.
        in_drift += abs(slope)
        slope = 0.0
    at_middle = wide * math.sqrt(covariance[0])
    reach = float(x[-1])  # both ends are as far from the middle
    if slope:
        most = wide * math.sqrt(covariance[0] + 2 * abs(covariance[1]) * reach + covariance[2] * reach**2)
    else:
        most = at_middle + in_drift * reach
    return ClockLine(
        offset=median + round(shift),
        drift=slope,
        middle=middle,
        at_middle=math.ceil(at_middle) + resolution,
        in_drift=in_drift,
        uncertainty=math.ceil(max(most, at_middle)) + resolution,
        first=first,
        last=last,
        count=int(times.size),
    )


def robust(x: F64, y: F64) -> tuple[float, float]:
    """Return shift and slope of the line through differences y at the times x."""
    return _huber(x, y, drifts=x.size >= LEAST_FOR_DRIFT and bool(x[-1] > x[0]))[:2]


def _huber(x: F64, y: F64, *, drifts: bool) -> tuple[float, float, tuple[float, float, float]]:
    """Return shift and slope, and their variances: of the shift, of both, of the slope."""
    slope = _theil(x, y) if drifts else 0.0
    shift = float(np.median(y - slope * x))
    scale = 0.0
    for _ in range(_ROUNDS):
        rest = y - shift - slope * x
        scale = _DEVIATION * float(np.median(np.abs(rest)))
        if not scale:
            # Half of the differences are on the line exactly: the others are what the error comes from.
            scale = float(np.abs(rest).mean())
        if not scale:
            return shift, slope, (0.0, 0.0, 0.0)
        weight = np.minimum(1.0, _BEND * scale / np.maximum(np.abs(rest), 1e-9))
        before = shift, slope
        shift, slope = _weighted(x, y, weight, drifts=drifts)
        if abs(shift - before[0]) < 0.01 and abs(slope - before[1]) * float(np.abs(x).max()) < 0.01:
            break
    rest = y - shift - slope * x
    bent = np.clip(rest, -_BEND * scale, _BEND * scale)
    straight = float((np.abs(rest) <= _BEND * scale).mean())
    parameters = 1 + drifts
    wrong = 1 + parameters / x.size * (1 - straight) / max(straight, 0.1)
    variance = wrong**2 * float(bent @ bent) / (x.size - parameters) / max(straight, 0.1) ** 2
    if not drifts:
        return shift, 0.0, (variance / x.size, 0.0, 0.0)
    mean, spread = float(x.mean()), float(((x - x.mean()) ** 2).sum())
    of_slope = variance / spread
    return shift, slope, (variance / x.size + mean**2 * of_slope, -mean * of_slope, of_slope)


def _weighted(x: F64, y: F64, weight: F64, *, drifts: bool) -> tuple[float, float]:
    whole = float(weight.sum())
    mean_x, mean_y = float(weight @ x) / whole, float(weight @ y) / whole
    if not drifts:
        return mean_y, 0.0
    from_mean = x - mean_x
    spread = float(weight @ (from_mean * from_mean))
    slope = float(weight @ (from_mean * (y - mean_y))) / spread if spread else 0.0
    return mean_y - slope * mean_x, slope


def _theil(x: F64, y: F64) -> float:
    half = x.size // 2
    length = x[-half:] - x[:half]
    slopes = (y[-half:] - y[:half])[length > 0] / length[length > 0]
    return float(np.median(slopes)) if slopes.size else 0.0


def limit(freedom: int) -> float:
    """Return how many standard errors an estimate stays within, for offset and drift together in SURELY of all cases.

    freedom: differences less the numbers that were fitted. Fisher's expansion of Student's distribution, which is a
    little too small below 4.

    >>> round(limit(1_000_000), 3), round(limit(10), 2)
    (2.807, 3.58)
    """
    z = 2.80703  # half of 1 - SURELY for each of offset and drift, on two sides
    n = max(freedom, 1)
    terms = (
        (z**3 + z) / 4 / n,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96 / n**2,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384 / n**3,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160 / n**4,
    )
    return z + sum(terms)

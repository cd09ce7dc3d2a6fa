"""The floor of a call: the least time in which a device can do its work at these shapes and in this precision.

`floor = max(FLOPs / peak, bytes / bandwidth)`. It holds where both figures are minima and the peak is true. Another
algorithm, a lower precision, or fusion with a neighbour may be quicker still: that is other work. A call that took less
than its floor shows that something of this does not hold; it is said, and nothing is clipped.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from tracekit.analysis.efficiency.datatypes import RateThatRan, datatype_that_ran
from tracekit.analysis.efficiency.devices import RatedDevice, Roof, roof
from tracekit.analysis.efficiency.formulas import CONVOLUTION, DEFINED, Work
from tracekit.lazy_dataclass import dataclass

__all__ = ["ABOVE", "FAR", "Limit", "Reach", "reach", "roof_of"]

FAR = 0.3
"""A call that reaches less than this part of both roofs is limited by neither: by latency, launching or its shape."""
ABOVE = 1.02
"""Times are rounded, so a call this much above a roof is not yet an exception."""


class Limit(StrEnum):
    """The limit of a call."""

    COMPUTE = "compute"
    MEMORY = "memory"
    CACHE = "in cache"
    FAR = "far from both"
    LESS_WORK = "less work than by definition"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reach:
    """The distance of calls from the limits of the device.

    floor_ns: the least time of all of the calls together, None where unknown; unknown says why. limit: what limits
    them. of_peak: the floor's part of the time, None in a cache or above a roof. of_best: the same against the most
    that was measured on such a device. rate: the rate that counts. could_save_ns: time above the floor.
    is_sure: the figures are minima, and the peak is from a data sheet. compute_ns: of a product, the time of its FLOPs
    alone at the peak. side: the limit that the floor is of, COMPUTE or MEMORY. best_ns: the
    floor with the best measured rate in place of the peak, None where nobody measured.
    """

    floor_ns: float | None = None
    limit: Limit = Limit.UNKNOWN
    of_peak: float | None = None
    of_best: float | None = None
    rate: str = ""
    could_save_ns: float | None = None
    unknown: str = ""
    is_sure: bool = False
    compute_ns: float | None = None
    side: Limit = Limit.UNKNOWN
    best_ns: float | None = None


def roof_of(work: Work, device: RatedDevice, kernel: str = "") -> tuple[Roof | None, str]:
    """Return the limits of work on a device, None for a device without peaks, and the rate that ran.

    kernel: the name of the kernel that computed, which may tell the datatype.
    """
    ran = (
        datatype_that_ran(work.datatype, kernel, device.peaks, work.family)
        if work.family in DEFINED
        else RateThatRan("fp32")  # not asked for: only bandwidth counts
    )
    return roof(device, ran.rate, factor=ran.factor, why=ran.unknown), ran.rate


def reach(work: Work, ns: float, device: RatedDevice, kernel: str = "", calls: int = 1) -> Reach:
    """Return the distance of `calls` calls of this work, which took `ns` together, from the limits of the device.

    kernel: the name of the kernel that computed. Unknown work, an unknown device, and for products an unknown datatype
    have no floor.
    """
    if not work.is_known:
        return Reach(unknown=work.unknown)
    computes = work.family in DEFINED
    top, ran = roof_of(work, device, kernel)
    if top is None or device.peaks is None:
        return Reach(unknown=device.note or "no peaks are known of this device")
    flops, moved = (work.flops or 0) if computes else 0, work.bytes or 0
    if computes and top.flops_per_s is None:
        return Reach(unknown=top.unknown, rate=ran)
    by_compute = calls * flops / top.flops_per_s * 1e9 if computes and top.flops_per_s else 0.0
    by_memory = calls * moved / top.bytes_per_s * 1e9
    floor = max(by_compute, by_memory)
    side = Limit.COMPUTE if by_compute >= by_memory else Limit.MEMORY
    rate = ran if computes else ""
    sure = work.is_bound and device.peaks.confidence in ("sheet", "derived")
    in_cache = moved <= device.peaks.l2_bytes
    if not floor or ns <= 0:
        return Reach(floor, Limit.UNKNOWN, rate=rate, unknown="it moves and computes nothing")
    share = floor / ns
    if share > ABOVE:
        found = _above(floor, by_compute > ABOVE * ns, in_cache, rate, work)
        return replace(found, compute_ns=by_compute if computes else None, side=side)
    limit = Limit.FAR if share < FAR else side
    best = top.best_flops_per_s
    best_ns = max(calls * flops / best * 1e9, by_memory) if best and by_compute >= by_memory else None
    of_best = best_ns / ns if best_ns is not None else None
    of_compute = by_compute if computes else None
    return Reach(floor, limit, share, of_best, rate, max(ns - floor, 0.0), "", sure, of_compute, side, best_ns)


def _above(floor: float, by_compute: bool, in_cache: bool, rate: str, work: Work) -> Reach:
    """Return the exception: quicker than the floor."""
    if not by_compute and in_cache:
        return Reach(floor, Limit.CACHE, rate=rate, could_save_ns=0.0, unknown="the operands fit in the cache")
    if not by_compute:
        why = "part of the operands was in the cache, or two operands are one tensor"
        return Reach(floor, Limit.CACHE, rate=rate, could_save_ns=0.0, unknown=why)
    why = "another datatype, sparsity, a clock above the one of the peak"
    if work.family == CONVOLUTION:
        why = f"an algorithm with less work (Winograd, FFT), {why}"
    return Reach(floor, Limit.LESS_WORK, rate=rate, could_save_ns=0.0, unknown=f"quicker than the peak: {why}")

"""The two clocks of a log: the monotonic one stamps events, the wall clock gives the time of day."""

from __future__ import annotations

import time
from typing import NamedTuple

now = _perf_counter_ns = time.perf_counter_ns
_time_ns = time.time_ns
ANCHOR_PERIOD_NS = 5_000_000_000


class Anchor(NamedTuple):
    """At `perf_ns` +- `uncertainty_ns` of the monotonic clock the wall clock showed `epoch_ns`."""

    perf_ns: int
    epoch_ns: int
    uncertainty_ns: int


def read_anchor() -> Anchor:
    """Read both clocks together; the tightest of three tries, since the process may lose the processor in between."""
    return min((_one_reading() for _ in range(3)), key=lambda anchor: anchor.uncertainty_ns)


def _one_reading() -> Anchor:
    before = _perf_counter_ns()
    try:
        epoch = time.time_ns()
    except Exception:  # noqa: BLE001 - a program may put its own clock in its place
        epoch = _time_ns()
    after = _perf_counter_ns()
    if type(epoch) is not int:
        epoch = _time_ns()
    return Anchor((before + after) // 2, epoch, abs(after - before) // 2 + 1)

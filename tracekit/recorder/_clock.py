"""The two clocks of a log: the monotonic one stamps events, the wall clock gives the time of day."""

from __future__ import annotations

import time
from typing import NamedTuple

from tracekit.recorder.clock_pairs import read_together

now = _perf_counter_ns = time.perf_counter_ns
_time_ns = time.time_ns
ANCHOR_PERIOD_NS = 5_000_000_000


class Anchor(NamedTuple):
    """At `perf_ns` +- `uncertainty_ns` of the monotonic clock the wall clock showed `epoch_ns`."""

    perf_ns: int
    epoch_ns: int
    uncertainty_ns: int


def read_anchor() -> Anchor:
    """Read both clocks together."""
    pair = read_together(_perf_counter_ns, _wall_clock, 3)
    return Anchor(pair.outer, pair.inner, abs(pair.apart) // 2 + 1)


def _wall_clock() -> int:
    try:
        epoch = time.time_ns()
    except Exception:  # noqa: BLE001 - a program may put its own clock in its place
        epoch = _time_ns()
    return epoch if type(epoch) is int else _time_ns()

"""Load of the processors: by this process, and of the whole machine.

Process: its processor time over elapsed time, so 1.0 is one core and more is possible. System: (all - idle) / all of
the machine's processor time, 0 to 1, from /proc/stat on Linux (man 5 proc); elsewhere unknown. These are the two
figures of Paddle's Device Summary (CPU(Process), CPU(System)).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

_STAT = Path("/proc/stat")


class CpuReading(NamedTuple):
    """Clocks read together: ns of the monotonic clock and of this process's processors; ticks of the machine's."""

    elapsed_ns: int
    process_ns: int
    busy_ticks: int
    all_ticks: int


class CpuUse(NamedTuple):
    """Shares between two readings; None: unknown. process may pass 1, system does not."""

    process: float | None
    system: float | None


def read_cpu(stat: Path = _STAT) -> CpuReading:
    """Read the clocks; ticks are 0 where the system does not show them."""
    busy, every = _ticks(stat)
    return CpuReading(time.perf_counter_ns(), time.process_time_ns(), busy, every)


def _ticks(stat: Path) -> tuple[int, int]:
    try:
        with stat.open("rb") as file:
            words = file.readline().split()
        # user nice system idle iowait irq softirq steal; user and nice include guests already
        ticks = [int(word) for word in words[1:9]]
    except (OSError, ValueError):
        return 0, 0
    if words[0] != b"cpu" or len(ticks) < 4:
        return 0, 0
    return sum(ticks) - sum(ticks[3:5]), sum(ticks)


def use_between(first: CpuReading, last: CpuReading) -> CpuUse:
    """Return the load from one reading to a later one.

    >>> use_between(CpuReading(0, 0, 10, 100), CpuReading(1000, 1500, 40, 160))
    CpuUse(process=1.5, system=0.5)
    """
    elapsed = last.elapsed_ns - first.elapsed_ns
    ticks = last.all_ticks - first.all_ticks
    process = (last.process_ns - first.process_ns) / elapsed if elapsed > 0 else None
    busy = last.busy_ticks - first.busy_ticks
    return CpuUse(process, min(max(busy / ticks, 0.0), 1.0) if ticks > 0 else None)

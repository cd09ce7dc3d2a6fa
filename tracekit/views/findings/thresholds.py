"""THRESHOLDS: when a rule of the view `findings` speaks. Data; `--option KEY=VALUE` sets one (docs/findings.md).

Sources: data loading 5 % and 20 % are xprof's limits for moderately and highly input-bound (tb_plugin: 5 %); exposed
communication 10 % is tb_plugin's, launch latency 10 % of idle time xprof's. The others are choices of tracekit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tracekit.errors import UsageError
from tracekit.units import Unit


@dataclass(frozen=True, slots=True)
class Threshold:
    """One limit. meaning: what must reach it, for the rule to speak."""

    default: float
    unit: Unit
    meaning: str


THRESHOLDS: dict[str, Threshold] = {
    "least_share": Threshold(0.01, Unit.RATIO, "any rule: ceiling, of the window; what can win less is not told"),
    "data_loading_share": Threshold(
        0.05, Unit.RATIO, "data loading: time in it, of the time in steps; and ceiling, of the window"
    ),
    "data_loading_heavy": Threshold(0.2, Unit.RATIO, 'data loading: the same, to be called "heavily input-bound"'),
    "sync_share": Threshold(0.02, Unit.RATIO, "needless synchronization: ceiling, of the window"),
    "parallelism_share": Threshold(0.05, Unit.RATIO, "little parallelism: ceiling, of the window"),
    "kernel_share": Threshold(0.25, Unit.RATIO, "expensive kernel: ceiling of one name, of the window"),
    "fp32_share": Threshold(0.2, Unit.RATIO, "fp32 arithmetic: time of fp32 kernels, of all kernel time"),
    "launch_idle_share": Threshold(
        0.1, Unit.RATIO, "launch-bound: idle by late host or launch latency, and ceiling, of the window"
    ),
    "launch_short_share": Threshold(
        0.5, Unit.RATIO, "launch-bound: kernels shorter than the time from launch to launch"
    ),
    "tiny_copy_bytes": Threshold(16_384, Unit.BYTES, "tiny copies: a copy of fewer bytes is tiny"),
    "tiny_copies": Threshold(20, Unit.COUNT, "tiny copies: how many there are at least"),
    "copy_share": Threshold(0.02, Unit.RATIO, "pageable copies, tiny copies: ceiling, of the window"),
    "exposed_copies_share": Threshold(0.1, Unit.RATIO, "exposed copies: time, of the device's span"),
    "communication_share": Threshold(0.1, Unit.RATIO, "exposed communication: time, of the device's span"),
    "straggler_share": Threshold(0.02, Unit.RATIO, "straggler: time that others waited for it, of their window"),
    "warm_up_share": Threshold(0.05, Unit.RATIO, "warm-up: excess over the later steps' median, of all step time"),
    "start_up_share": Threshold(0.1, Unit.RATIO, "start-up: ceiling, of the window"),
}


def chosen(options: Mapping[str, float]) -> dict[str, float]:
    """Return all thresholds, those of the options before the defaults.

    Raises: UsageError for an unknown key, and for a value that is no finite number of 0 or more.
    """
    for key, value in options.items():
        if key not in THRESHOLDS:
            raise UsageError(f"threshold {key}: no such threshold", hint=f"one of: {', '.join(THRESHOLDS)}")
        if not math.isfinite(value) or value < 0:
            raise UsageError(f"threshold {key}={value}: not a number of 0 or more", hint=THRESHOLDS[key].meaning)
    return {key: threshold.default for key, threshold in THRESHOLDS.items()} | dict(options)

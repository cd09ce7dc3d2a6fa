"""Facts that a recorder's log has about its process and its clocks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from tracekit.readers.recorder_log._ending import Ending
from tracekit.readers.recorder_log._lines import Header

MOST_STEP_NS = 10_000_000
"""Two anchors, some 5 s apart, that differ by more: the wall clock was set."""

Anchor = tuple[int, int, int]
"""perf_ns, epoch_ns, uncertainty_ns."""


def process_facts(head: Header, anchors: Sequence[Anchor], ending: Ending) -> dict[str, object]:
    """Return the facts of one log. clock_drift_ns: how far the wall clock went from the monotonic one, over all."""
    out: dict[str, object] = {"tool": "tracekit recorder", "tool_version": head.tracekit or None}
    if head.command:
        out["command"] = shlex.join(head.command)
    for key in ("process", "host", "python", "pid", "parent_pid", "rank", "world_size"):
        out[key] = getattr(head, key)
    if head.forked:
        out["forked"] = True
    if anchors:
        offsets = [epoch - perf for perf, epoch, _ in anchors]
        out["clock_anchors"] = len(offsets)
        out["clock_drift_ns"] = offsets[-1] - offsets[0]
        out["clock_uncertainty_ns"] = max(uncertainty for *_, uncertainty in anchors)
    out |= ending.facts()
    return {key: value for key, value in out.items() if value is not None}


def clock_jump_ns(anchors: Sequence[Anchor]) -> int:
    """Return by how much the wall clock was set between two anchors, 0 when it only drifted."""
    jumps = np.diff(np.array([epoch - perf for perf, epoch, _ in anchors], np.int64))
    if not jumps.size:
        return 0
    largest = int(jumps[np.abs(jumps).argmax()])
    return largest if abs(largest) > MOST_STEP_NS else 0

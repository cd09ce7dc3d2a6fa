"""The phase of a training step that each device event was launched in.

A range that names a phase counts first, then what the operators show (`index.training_phases`). Work that was launched
in no phase, or whose launch is not in the trace, has none.
"""

from __future__ import annotations

import numpy as np

from tracekit.index.host_tree import HostTree
from tracekit.index.trace_index import TraceIndex
from tracekit.index.training_phases import (
    ARGS_OF,
    BACKWARD,
    COLUMNS,
    FORWARD,
    NAMED,
    OPTIMIZER,
    RECOMPUTE,
    training_phases,
)
from tracekit.model.arrow import I64
from tracekit.model.schema import Kind

__all__ = ["ARGS_OF", "COLUMNS", "PHASES", "phase_of_work"]

PHASES = ("Forward", "Backward", "Recompute", "Optimization", "Dataloader", "(no phase)", "(launch not known)")
"""The phases, each at the number that `phase_of_work` has for it."""
_NUMBER = {FORWARD: 0, BACKWARD: 1, RECOMPUTE: 2, OPTIMIZER: 3}
_NO_PHASE, _NO_LAUNCH = 5, 6
_NAMES = {Kind.FORWARD: 0, Kind.BACKWARD: 1, Kind.OPTIMIZER: 3, Kind.DATALOADER: 4}


def phase_of_work(index: TraceIndex, host: HostTree) -> I64 | None:
    """Return the number in PHASES of each of the m device events of the host tree; None for a trace without phases."""
    found = training_phases(index)
    named = index.kind_mask(NAMED)[host.rows]
    if found is None and not named.any():
        return None
    phase = np.where(host.launch >= 0, _NO_PHASE, _NO_LAUNCH)
    if found is not None:
        for code, number in _NUMBER.items():
            phase[found.of_work == code] = number
    linked = np.flatnonzero(host.launch >= 0)
    near = np.append(host.nearest(named), -1)[host.places()[host.launch[linked]]]
    # The entry behind all places is that of no range.
    said = np.full(host.rows.size + 1, -1, np.int64)
    for kind, number in _NAMES.items():
        said[:-1][index.kind_mask({kind})[host.rows]] = number
    of_range = said[near]
    phase[linked[of_range >= 0]] = of_range[of_range >= 0]
    return phase if (phase < _NO_PHASE).any() else None

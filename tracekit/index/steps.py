"""Steps of training: their rows, their owners, and how busy the devices were inside each."""

from __future__ import annotations

import numpy as np

from tracekit.analysis.intervals import Ranges, merge
from tracekit.analysis.nesting import nest
from tracekit.analysis.segments import rows_by
from tracekit.index import cut_steps as _cut_steps
from tracekit.index import owners as _owners
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.display import plural
from tracekit.model.schema import DEVICE_WORK, Kind

__all__ = ["COLUMNS", "HINT", "Steps", "busy_inside", "covered", "cut_words", "find"]

COLUMNS = _owners.COLUMNS | _cut_steps.COLUMNS | {"ts_ns", "dur_ns", "tid"}
HINT = (
    "steps come from torch.profiler (prof.step() after each), paddle.profiler (the same) and the recorder "
    "(tracekit.recorder.step, or steps over a data loader)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps in order of (owner, start); arrays of shape (n,). rows: of EVENTS; owner: number of the owner; ns."""

    owners: _owners.Owners
    rows: I64
    owner: I64
    starts: I64
    durations: I64
    inner: int
    notes: list[str]


@join
def find(index: TraceIndex, owners: _owners.Owners) -> Steps:
    """Return the outermost steps of each thread, by owner and start, without those whose work is behind a cut."""
    picked = index.pick({Kind.STEP})
    owner = owners.codes[picked.rows]
    thread = picked.key("tid")
    pid = picked.key("pid")
    lanes = (owner * len(pid.labels) + pid.codes) * len(thread.labels) + thread.codes
    ends = picked.starts + picked.durations
    outer = np.flatnonzero(nest(lanes, picked.starts, ends).depth == 0) if picked.rows.size else picked.rows
    order = outer[np.lexsort((picked.rows[outer], picked.starts[outer], owner[outer]))]
    inner = picked.rows.size - order.size
    cut = _cut_steps.cut_steps(index)
    if cut.left_out.size:
        order = order[~np.isin(picked.rows[order], cut.left_out)]
    return Steps(
        owners,
        picked.rows[order],
        owner[order],
        picked.starts[order],
        picked.durations[order],
        inner,
        [*cut_words(cut), *picked.notes("step")],
    )


def cut_words(cut: _cut_steps.CutSteps) -> list[str]:
    """Return sentences on the steps whose device work is behind the cut of a file."""
    words = []
    if cut.left_out.size:
        some = plural(cut.left_out.size, "step")
        words.append(f"{some} left out: work that they launched on the device is behind the cut of the file")
    if cut.on_host.size:
        words.append("the time of a step is that of the host: device work of each step is behind the cut of the file")
    return words


def covered(ranges: Ranges, at: I64) -> I64:
    """Return the ns of merged ranges before each of the times, shape (n,)."""
    first, last = ranges
    if not first.size:
        return np.zeros(at.size, np.int64)
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(last - first)))
    which = np.searchsorted(first, at, "right")
    inside = np.minimum(at - first[np.maximum(which - 1, 0)], (last - first)[np.maximum(which - 1, 0)])
    return np.where(which > 0, before[np.maximum(which - 1, 0)] + inside, 0)


@join
def busy_inside(index: TraceIndex, steps: Steps) -> tuple[int | None, ...]:
    """Return the union of device work inside each step; None where its owner has no device work at all."""
    work = index.pick(DEVICE_WORK)
    owner = steps.owners.codes[work.rows]
    busy: list[int | None] = [None] * steps.rows.size
    ends, rows_of = work.starts + work.durations, dict(rows_by(owner))
    for o, at in rows_by(steps.owner):
        if o not in rows_of:
            continue
        ranges = merge(work.starts[rows_of[o]], ends[rows_of[o]])
        found = covered(ranges, (steps.starts + steps.durations)[at]) - covered(ranges, steps.starts[at])
        for place, ns in zip(at.tolist(), found.tolist(), strict=True):
            busy[place] = ns
    return tuple(busy)

"""Steps of an input that was cut whose device work is not all there: what they launched is behind the cut.

A profiler may write the rows of the host before those of the device. Half of such a file has each step, with its launch
calls, and the kernels of the first steps only. The others look as if they took no time on the device, so they are left
out; where no step has all of its work, only the time of the host is known.
"""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.links import one_key
from tracekit.analysis.segments import rows_by
from tracekit.index import owners as _owners
from tracekit.index.launches import COLUMNS as _LAUNCHES
from tracekit.index.launches import named
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.cuts import where_cut
from tracekit.model.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.model.trace import all_ledgers

__all__ = ["COLUMNS", "CutSteps", "cut_steps"]

COLUMNS = _owners.COLUMNS | _LAUNCHES
_LAUNCH_CALLS = re.compile(r"(?!.*HostFunc).*Launch")
"""Calls that launch kernels or graphs, by name; a function of the host is no row of a device."""


@dataclass(frozen=True, slots=True, eq=False)
class CutSteps:
    """Rows of the steps that lack device work. left_out: of owners with whole steps beside them. on_host: of others."""

    left_out: I64
    on_host: I64


@join
def cut_steps(index: TraceIndex) -> CutSteps:
    """Return the steps whose device work is behind the cut of their input; none of inputs that are whole."""
    none = np.zeros(0, np.int64)
    if not where_cut(all_ledgers(index.ledgers, index.run)):
        return CutSteps(none, none)
    steps = index.pick({Kind.STEP}).rows
    calls = np.flatnonzero(index.kind_mask(API_CALLS) & index.has("correlation"))
    launches = calls[named(index, calls, _LAUNCH_CALLS)]
    if not steps.size or not launches.size:
        return CutSteps(none, none)
    if not index.kind_mask(DEVICE_WORK).any():
        # The cut may be in the calls already, so that steps behind it have none.
        return CutSteps(none, steps)
    owners = _owners.find(index).codes
    missing = dict(rows_by(owners[lonely := _without_work(index, launches)]))
    left_out, on_host = [none], [none]
    for owner, at in rows_by(owners[steps]):
        if owner not in missing:
            continue
        begun = np.sort(index.starts[lonely[missing[owner]]])
        mine = steps[at]
        begins, ends = index.starts[mine], index.starts[mine] + index.lengths[mine]
        lacks = np.searchsorted(begun, ends, "left") > np.searchsorted(begun, begins, "left")
        (on_host if lacks.all() else left_out).append(mine[lacks])
    return CutSteps(np.concatenate(left_out), np.concatenate(on_host))


def _without_work(index: TraceIndex, launches: I64) -> I64:
    """Return the launch calls of which no device work is in the trace."""
    work = np.flatnonzero(index.kind_mask(DEVICE_WORK) & index.has("correlation"))
    rows = np.concatenate((launches, work))
    keys = one_key([index.ints(name)[rows] for name in ("source", "correlation")], rows.size)
    return launches[~np.isin(keys[: launches.size], keys[launches.size :])]

"""Operators that do nothing but what some calls do: `aten::item` holds a copy, the wait for it, and no other launch.

If the calls were not there, their operators would not be there either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracekit.analysis.enclosing import innermost
from tracekit.analysis.segments import distinct, rows_by
from tracekit.columns.arrays import I64, Mask
from tracekit.index import gaps as _gaps
from tracekit.schema import API_CALLS
from tracekit.views.findings._facts import OPERATORS, Facts


@dataclass(frozen=True, slots=True, eq=False)
class ReadBack:
    """Calls that wait, and what goes with them; rows of EVENTS. copies: device work that brings values to the host."""

    calls: I64
    operators: I64
    copies: I64


def operators(facts: Facts, calls: I64, others: I64) -> I64:
    """Return the operators that hold one of these calls, on its thread, and none of the others."""
    ranges = np.flatnonzero(facts.kinds(*OPERATORS) & facts.index.has("dur_ns") & facts.index.has("tid"))
    holds = _count(facts, ranges, calls) > 0
    ranges = ranges[holds]
    found: I64 = ranges[_count(facts, ranges, others) == 0]
    return found


def read_back(facts: Facts, calls: I64) -> ReadBack:
    """Return calls that wait with their operators, and the copies to the host that they wait for."""
    launch = facts.launched.launch
    linked = np.flatnonzero(launch >= 0)
    work, by = facts.devices.rows[linked], launch[linked]
    reads = _to_host(facts, work)
    others = distinct(by[~reads], facts.index.events.num_rows, but=by[reads])
    around = operators(facts, calls, others)
    copies, their_calls = work[reads], by[reads]
    # A copy goes with a wait that is its own call, in the same operator, or the next call of its thread.
    together = np.isin(their_calls, calls) | np.isin(their_calls, _before(facts, calls))
    together |= np.isin(their_calls, _inside(facts, their_calls, around))
    return ReadBack(np.union1d(calls, their_calls[together]), around, copies[together])


def _to_host(facts: Facts, work: I64) -> Mask:
    """Return for each of these rows of device work whether it is a copy from the device to the host."""
    codes, kinds = facts.index.texts("copy_kind")
    found: Mask = np.isin(codes[work], [place for place, kind in enumerate(kinds) if kind == "DtoH"])
    return found


def _before(facts: Facts, calls: I64) -> I64:
    """Return for each of these calls the call before it on its thread; none for the first of a thread."""
    every = np.flatnonzero(facts.kinds(*API_CALLS) & facts.index.has("tid"))
    lanes = _gaps.keys_of(facts.index, every, _gaps.THREAD)
    order = np.lexsort((facts.starts[every], lanes))
    every, lanes = every[order], lanes[order]
    at = np.flatnonzero(np.isin(every, calls))
    at = at[at > 0]
    found: I64 = every[at - 1][lanes[at - 1] == lanes[at]]
    return found


def _inside(facts: Facts, calls: I64, ranges: I64) -> I64:
    """Return those of the calls that begin in one of the ranges, on the same thread."""
    if not ranges.size or not calls.size:
        return calls[:0]
    lanes = _gaps.keys_of(facts.index, np.concatenate((ranges, calls)), _gaps.THREAD)
    starts, ends = facts.starts[ranges], facts.starts[ranges] + facts.lengths[ranges]
    at = innermost(lanes[: ranges.size], starts, ends, lanes[ranges.size :], facts.starts[calls])
    found: I64 = calls[at >= 0]
    return found


def _count(facts: Facts, ranges: I64, calls: I64) -> I64:
    """Return how many of the calls begin in each of the ranges, on the same thread."""
    found = np.zeros(ranges.size, np.int64)
    if not ranges.size or not calls.size:
        return found
    lanes = _gaps.keys_of(facts.index, np.concatenate((ranges, calls)), _gaps.THREAD)
    of_range, of_call = lanes[: ranges.size], lanes[ranges.size :]
    starts, ends = facts.starts[ranges], facts.starts[ranges] + facts.lengths[ranges]
    rows_of = dict(rows_by(of_range))
    for lane, at in rows_by(of_call):
        if lane not in rows_of:
            continue
        mine, begun = rows_of[lane], np.sort(facts.starts[calls[at]])
        found[mine] = np.searchsorted(begun, ends[mine], "left") - np.searchsorted(begun, starts[mine], "left")
    return found

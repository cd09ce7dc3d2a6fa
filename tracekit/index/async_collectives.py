"""Collectives that XLA splits in two: one op starts them, another one waits for them, and compute runs in between.

`%all-reduce-start.3` is in flight until `%all-reduce-done.3` ends, which names it as its operand; an op that was fused
has `-start` or `-done` in its own name. What compute hides of that time is overlap, as for a kernel on another stream.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask

__all__ = ["ends_in_flight", "is_half"]

_LONGEST = 1 << 14
_NAME = lazy_pattern(r"%?([\w.-]+)(?: = |$)", re.ASCII)
_HALF = lazy_pattern(r"-(start|done)(?=[-.\d]*$)", re.ASCII)
_CODE = lazy_pattern(r"\s[a-z][a-z-]*-(start|done)\((?:[^%]*%([\w.-]+))?", re.ASCII)


def ends_in_flight(index: TraceIndex, rows: I64, ends: I64, collective: Mask) -> I64:
    """Return the end of each row of device work: of an op that starts a collective that of the op that waits for it.

    rows: of EVENTS. collective: which of them communicate.
    """
    codes, names = index.texts("name")
    mine = np.flatnonzero(collective)
    if not mine.size:
        return ends
    of_row = codes[rows[mine]].astype(np.int64)
    keys, is_start = _halves(names, sets.unique(of_row[of_row >= 0]))
    split = keys[of_row] >= 0
    if not split.any():
        return ends
    mine, of_row = mine[split], of_row[split]
    place = [index.ints(column)[rows[mine]] for column in ("device", "source")]
    order = np.lexsort((index.starts[rows[mine]], keys[of_row], *place))
    mine, of_row = mine[order], of_row[order]
    same = np.ones(max(mine.size - 1, 0), np.bool_)
    for values in (keys[of_row], *(each[order] for each in place)):
        same &= values[1:] == values[:-1]
    # A start and what waits for it follow each other among the ops of their name.
    pairs = np.flatnonzero(same & is_start[of_row[:-1]] & ~is_start[of_row[1:]])
    out = ends.copy()
    out[mine[pairs]] = np.maximum(ends[mine[pairs]], ends[mine[pairs + 1]])
    return out


def _halves(names: Sequence[str], used: I64) -> tuple[I64, Mask]:
    """Return by code of a name which collective it is a half of, -1 for none, and which ones start it."""
    numbers: dict[str, int] = {}
    keys, is_start = np.full(len(names) + 1, -1, np.int64), np.zeros(len(names) + 1, np.bool_)
    for code in used.tolist():
        half = half_of(names[code][:_LONGEST])
        if half is not None:
            keys[code] = numbers.setdefault(half[0], len(numbers))
            is_start[code] = half[1]
    return keys, is_start


def is_half(name: str) -> bool:
    """Return whether an op of this name starts a collective, or waits for it."""
    return half_of(name[:_LONGEST]) is not None


def half_of(name: str) -> tuple[str, bool] | None:
    """Return the name of the op that starts a collective, and whether this is it; None for an op that is whole.

    >>> half_of("%done.7 = f32[5]{0} all-reduce-done((f32[5]{0}, f32[5]{0}) %all-reduce-start.3)")
    ('all-reduce-start.3', False)
    >>> half_of("%async-collective-done.2 = f32[5]{0} fusion(f32[5]{0} %x), kind=kCustom")
    ('async-collective-start.2', False)
    """
    own = _NAME.match(name)
    if own is None:
        return None
    code = _CODE.search(name, own.end(1))
    if code is not None:
        return (own[1], True) if code[1] == "start" else (code[2] or own[1], False)
    half = _HALF.search(own[1])
    if half is None:
        return None
    return _HALF.sub("-start", own[1]), half[1] == "start"

"""Chains of elementwise operators that one kernel could do: each reads what the one before it wrote.

In a chain, kernels follow each other on one stream, each is all of the device work of one operator, each operator is
limited by memory, and the result of one has the shape and the datatype of an operand of the next, which fills its
memory as a new result does. A trace has no addresses: that it is the same tensor is likely, not certain. Two operators
of one name that write in place (`aten::add_` on one gradient after the other) are no chain, since neither needs the
other.

A fusion saves that a result is written and read again. What that costs is the part of the bytes of these kernels, at
the rate that each reached. It saves the short pauses between these kernels too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.analysis.efficiency.floors import Limit
from tracekit.analysis.efficiency.formulas import elementwise_result
from tracekit.analysis.efficiency.operands import TensorOperand
from tracekit.index import grouping
from tracekit.index.trace_index import TraceIndex, join
from tracekit.index.work_units import LIMITS, UnitGroup, WorkUnits, work_units
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import F64, I64, Mask
from tracekit.model.schema import Kind

__all__ = ["COLUMNS", "FusionChains", "fusion_chains"]

COLUMNS = frozenset({"stream"})
"""Columns of EVENTS beside those of the work units."""

_BACK_TO_BACK = 5_000
"""ns: a longer pause between two kernels of a stream is that of a host that comes late, which launching explains."""


@dataclass(frozen=True, slots=True, eq=False)
class FusionChains:
    """Kernels that are part of a chain, n of them, in the order of their streams.

    rows: of EVENTS. unit: shape (n,), places in the work units. chain: shape (n,), the number of the chain, 0 to
    count - 1, each without a gap. lost: shape (n,), ns of each kernel that its intermediate results take, of the first
    one of a chain with the pauses in it. between:
    shape (n,), the bytes of the result that the next kernel of the chain reads, 0 for the last one. certain: shape
    (n,), whether the next kernel has one operand only that could be it, and the cache does not hold it.
    """

    units: WorkUnits
    rows: I64
    unit: I64
    chain: I64
    lost: I64
    between: I64
    certain: Mask

    @property
    def count(self) -> int:
        """The number of chains."""
        return int(self.chain[-1]) + 1 if self.chain.size else 0


@join
def fusion_chains(index: TraceIndex) -> FusionChains | None:
    """Return the chains; None where no work of elementwise operators is known, or of no stream."""
    units = work_units(index)
    if units is None or "stream" not in index.events.schema.names:
        return None
    results = [_result(group) for group in units.groups]
    able = np.array([each is not None for each in results], np.bool_)
    if not able.any():
        return None
    tree = units.host
    inside = units.of_work
    pieces = np.bincount(inside[inside >= 0], minlength=len(units))
    fit = able[units.group] & (pieces == 1) & (units.limit == LIMITS.index(Limit.MEMORY))
    of_work = np.where((inside >= 0) & np.append(fit, False)[inside], inside, -1)
    timed = index.kind_mask({Kind.KERNEL})[tree.work] & index.has("stream")[tree.work]
    of_work = np.where(timed, of_work, -1)
    streams = grouping.numbered(index.key(name, tree.work) for name in ("source", "device", "stream"))
    order = np.lexsort((tree.work, index.starts[tree.work], streams))
    unit, stream = of_work[order], streams[order]
    thread = np.where(unit >= 0, tree.lanes[np.maximum(units.place[unit], 0)], -1)
    beside = (unit[:-1] >= 0) & (unit[1:] >= 0) & (stream[:-1] == stream[1:]) & (thread[:-1] == thread[1:])
    first = np.flatnonzero(beside)
    if not first.size:
        return _none(units)
    count = len(units.groups)
    pair = units.group[unit[first]] * count + units.group[unit[first + 1]]
    distinct, code = np.unique(pair, return_inverse=True)
    found = [_between(units.groups, results, *divmod(each, count)) for each in distinct.tolist()]
    between = np.zeros(order.size, np.int64)
    certain = np.zeros(order.size, np.bool_)
    between[first] = np.array([size for size, _ in found], np.int64)[code.reshape(-1)]
    certain[first] = np.array([sure for _, sure in found], np.bool_)[code.reshape(-1)]
    before = np.concatenate(([0], between[:-1]))
    member = np.flatnonzero((between > 0) | (before > 0))
    if not member.size:
        return _none(units)
    rows = tree.work[order[member]]
    begins = before[member] == 0
    chain = np.cumsum(begins) - 1
    at = unit[member]
    moved = between[member] + before[member]
    ns = tree.work_ns[order[member]]
    part: F64 = np.minimum(moved / np.maximum(units.nbytes[at], 1), 1.0)
    lost = np.ceil(part * ns).astype(np.int64)
    # The first kernel stands for the one that does all of it: it starts later by the pauses that go.
    pause = np.where(begins[1:], 0, index.starts[rows[1:]] - index.starts[rows[:-1]] - ns[:-1])
    pause[(pause < 0) | (pause > _BACK_TO_BACK)] = 0
    gone = np.bincount(chain[1:], pause, chain[-1] + 1).astype(np.int64)
    lost[begins] = np.minimum(lost[begins] + gone, ns[begins])
    return FusionChains(units, rows, at, chain, lost, between[member], certain[member])


def _none(units: WorkUnits) -> FusionChains:
    none = np.zeros(0, np.int64)
    return FusionChains(units, none, none, none, none, none, np.zeros(0, np.bool_))


def _result(group: UnitGroup) -> TensorOperand | None:
    """Return the result of an elementwise operator with a floor, None for other work."""
    if not group.work.is_bound or group.reach.floor_ns is None:
        return None
    return elementwise_result(group.call)


def _between(
    groups: Sequence[UnitGroup], results: Sequence[TensorOperand | None], one: int, two: int
) -> tuple[int, bool]:
    """Return the bytes that a second operator reads of the result of the first, 0 for none, and whether that is sure.

    Sure: no other operand could be the result, and no cache holds it.
    """
    result, call, following = results[one], groups[one].call, groups[two].call
    if result is None or results[two] is None:
        return 0, False
    if call.name == following.name and call.name.endswith("_"):
        return 0, False
    same = [each for each in following.tensors() if _could_be(each, result)]
    if not same or not result.elements:
        return 0, False
    peaks = groups[two].device.peaks
    cached = peaks is None or result.bytes <= peaks.l2_bytes
    return result.elements * result.size, len(same) == 1 and not cached


def _could_be(operand: TensorOperand, result: TensorOperand) -> bool:
    """Return whether an operand may be this result: of the same kind, and without gaps, unless it was written into."""
    if operand.dims != result.dims or operand.dtype != result.dtype:
        return False
    if not operand.strides:
        return True
    return operand.strides == result.strides if result.strides else _is_dense(operand)


def _is_dense(operand: TensorOperand) -> bool:
    """Return whether a tensor fills its memory in some order of its dimensions, as a new result does.

    >>> [_is_dense(TensorOperand((2, 3), "float", strides)) for strides in ((3, 1), (1, 2), (6, 1), (0, 1))]
    [True, True, False, False]
    """
    expected = 1
    for stride, size in sorted(zip(operand.strides, operand.dims, strict=False)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True

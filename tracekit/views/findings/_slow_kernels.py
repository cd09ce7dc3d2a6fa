"""Rule of `findings` about operators whose kernels take far longer than the device needs for their work.

The savings are time minus floor: no kernel is quicker at these shapes and in this precision (`analysis.efficiency`).
"""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.efficiency.floors import Limit
from tracekit.analysis.efficiency.formulas import ATTENTION, CONVOLUTION, DEFINED, factors
from tracekit.analysis.intervals import Ranges
from tracekit.analysis.kernel_class import LONGEST_NAME
from tracekit.index import work_units as _work_units
from tracekit.index.work_units import UnitGroup, WorkUnits, work_units
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.patterns import rows_found
from tracekit.model.report import Finding
from tracekit.model.units import Unit
from tracekit.views.findings._facts import Bound, Facts, RuleResult, how, named, percent, span, sure
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.tables import kernel

__all__ = ["RULE", "SLOW_KERNEL", "with_floor"]

RULE = "slow kernel"
MOST_GROUPS = 5
"""The findings of one rank, those with the largest savings."""
_CANDIDATES = 12
"""Groups whose savings on the critical path are computed."""
_LEAST_FLOOR_NS = 2_000
"""Work that the device could do in less than this is limited by launching: a kernel takes 2 us, whatever it does."""
_NEAR_BEST, _NEAR_PEAK = 0.8, 0.7
"""A kernel that reaches this much of the best measured, or of the peak where nobody measured, is as good as any."""
_CONVERSION = lazy_pattern(r"nchwToNhwc|nhwcToNchw|transpose|permute|tensorTransform|SubTensorOp|im2col|convert", re.I)
_WHOLE_VECTOR = 8
"""Elements of 16 bits that a tensor core's loads take at once: 16 bytes."""
_EVEN_SIZES = "sizes that are multiples of 64 or 128, "
_OTHER_KERNEL = (
    "Try {}another layout of the operands, another library or an autotuned kernel "
    "(torch.compile(mode='max-autotune')). ncu shows what it waits for."
)
_EVEN = 64
_WORTH = 0.1
"""The least part of an operator's time that kernels beside its main one take, to be named."""


def with_floor(facts: Facts) -> Mask:
    """Return for each row of EVENTS whether it is device work whose floor is known."""
    found = np.zeros(facts.starts.size, np.bool_)
    units = work_units(facts.index)
    if units is not None:
        floored = np.array([each.work.is_bound and each.reach.floor_ns is not None for each in units.groups], np.bool_)
        inside = units.of_work >= 0
        rows = units.host.work[inside]
        found[rows] = floored[units.group[units.of_work[inside]]]
    return found


@dataclass(frozen=True, slots=True)
class _SlowGroup:
    """Calls of one operator and shape on a device. rows: their device events; losses: ns of each above the floor."""

    group: UnitGroup
    calls: int
    ns: int
    floor_ns: float
    rows: I64
    losses: I64


def slow_kernels(facts: Facts) -> RuleResult:
    """Return operators that take far longer than their floor."""
    units = work_units(facts.index)
    if units is None:
        return RuleResult(why_not="needs shapes of operators (PyTorch: record_shapes=True) and what they launched")
    able = np.array([each.reach.is_sure and each.reach.floor_ns is not None for each in units.groups], np.bool_)
    if not able.any():
        return RuleResult(why_not="the peaks of the device, or the precision of its kernels, are not known")
    least = max(facts.thresholds["slow_share"], facts.thresholds["least_share"])
    found: list[Finding] = []
    times: dict[str, Ranges] = {}
    for owner in facts.looked_at():
        low, high = facts.window(owner)
        slow = [g for g in _slow_groups(facts, owner, units, able) if g.losses.sum() >= least * (high - low)]
        slow.sort(key=lambda g: -int(g.losses.sum()))
        bounds = [(facts.shortened(owner, g.rows, g.losses), g) for g in slow[:_CANDIDATES]]
        kept = [(bound, g) for bound, g in bounds if bound.share >= least and bound.ns][:MOST_GROUPS]
        if kept:
            times[facts.label(owner)] = facts.ranges(*(g.rows for _, g in kept))
        found += [_finding(facts, owner, bound, g) for bound, g in kept]
    return RuleResult(tuple(found), times=times)


def _slow_groups(facts: Facts, owner: int, units: WorkUnits, able: Mask) -> list[_SlowGroup]:
    """Return the groups of an owner in its window that are far from what devices of their kind reach."""
    main = units.main
    mine = np.zeros(facts.starts.size, np.bool_)
    mine[facts.within(owner, sets.unique(main))] = True
    # Work that is nearly nothing has no floor worth comparing with: launching it takes longer.
    usable = mine[main] & able[units.group] & (units.floor_ns >= _LEAST_FLOOR_NS) & ~units.quicker
    out = []
    for code in sets.unique(units.group[usable]).tolist():
        at = np.flatnonzero(usable & (units.group == code))
        group = units.groups[code]
        ns, floor = int(units.ns[at].sum()), float(units.floor_ns[at].sum())
        best = group.reach.of_best
        reached = floor / ns
        if reached >= _NEAR_PEAK or (best is not None and best / (group.reach.of_peak or best) * reached >= _NEAR_BEST):
            continue
        work = np.flatnonzero(np.isin(units.of_work, at))
        of = units.of_work[work]
        # Each kernel of a call loses the same part of its time.
        part = 1 - units.floor_ns[of] / units.ns[of]
        losses = np.floor(np.maximum(part, 0.0) * units.host.work_ns[work]).astype(np.int64)
        out.append(_SlowGroup(group, int(at.size), ns, floor, units.host.work[work], losses))
    return out


def _finding(facts: Facts, owner: int, bound: Bound, slow: _SlowGroup) -> Finding:
    group = slow.group
    reached = slow.floor_ns / slow.ns
    calls = f"{slow.calls:,} {'call' if slow.calls == 1 else 'calls'}"
    shape = group.work.shape or ", ".join("x".join(map(str, each.dims)) or "a number" for each in group.call.tensors())
    best, peak = group.reach.of_best, group.reach.of_peak
    of_best = f", {percent(best / peak * reached)} of the best measured on such a device" if best and peak else ""
    limit = f"the {group.reach.rate} peak" if group.reach.side is Limit.COMPUTE else "the memory bandwidth"
    reason, fix = _likely(facts, slow)
    device = group.device.peaks
    source = f"{device.confidence}: {device.source}" if device is not None else ""
    return Finding(
        RULE,
        facts.label(owner),
        f"{group.call.name} of {shape} takes {span(slow.ns)} in {calls}; the device could do this work in "
        f"{span(round(slow.floor_ns))}. It reaches {percent(reached)} of {limit}{of_best}. {reason}",
        tuple(facts.own_cells(owner, "kernel", group.kernel, ("calls", "total", "of_peak"), name=group.kernel)),
        facts.ids(slow.rows),
        bound.ns,
        bound.share,
        # A device that was found by its size, or a slice with scaled peaks, is a little less sure.
        sure(bound, "medium" if group.device.note else "high"),
        f"FLOPs and bytes follow from the shapes; peaks of {device.name if device else 'the device'} ({source}). "
        "The upper bound is for this work in this precision; less work or a lower precision may save more" + how(bound),
        fix,
        f"tracekit summary NEW --view {_view(group)}: of_peak of this shape rises.",
    )


def _view(group: UnitGroup) -> str:
    if group.work.family in (ATTENTION, CONVOLUTION):
        return group.work.family
    return "gemm" if group.work.family in DEFINED else "operator"


def _likely(facts: Facts, slow: _SlowGroup) -> tuple[str, str]:
    """Return the likely reason, and what to try."""
    group = slow.group
    peaks = group.device.peaks
    if (converted := _conversions(facts, slow)) >= _WORTH:
        return (
            f"Kernels that convert the layout take {percent(converted)} of its time.",
            "Keep the operands in the layout that the kernel needs: channels_last for convolutions, else contiguous.",
        )
    if group.reach.rate == "fp32" and peaks is not None and "tf32" in peaks.rates and group.work.family in DEFINED:
        return (
            "It computes in fp32 on the plain cores.",
            "Allow TF32 (torch.set_float32_matmul_precision('high')), or use bf16 where the losses allow it.",
        )
    blocks = _blocks(facts, slow)
    if peaks is not None and blocks is not None and blocks < peaks.units:
        return (
            f"Its kernel has {blocks:,} blocks for {peaks.units} multiprocessors.",
            "Give it more at once: a larger batch, products of one shape in one batched call, split-K.",
        )
    if group.work.family == ATTENTION:
        return (
            f"The kernel is {named(group.kernel)}.",
            "Try another backend (torch.nn.attention.sdpa_kernel: cudnn, flash, efficient)"
            + (", and heads of 64 or 128." if _depth(group) % _EVEN else "."),
        )
    if group.work.family not in DEFINED:
        if _strided(group):
            return (
                "Its operands are not contiguous.",
                "Make the operands contiguous once, or let torch.compile fuse it with its neighbours.",
            )
        return (
            "Only memory limits such work, and it is far from that.",
            "Fuse it (torch.compile; scaled_dot_product_attention for a softmax of scores), or update the library.",
        )
    if (odd := _unaligned(group)) is not None:
        return (
            f"{odd:,} is no multiple of {_WHOLE_VECTOR}, so the kernel cannot load whole vectors.",
            f"Pad this dimension to a multiple of {_WHOLE_VECTOR}, or better of 64.",
        )
    # The fix names sizes only where they can become better.
    sides = [side for each in factors(group.call) for side in each.dims[-2:]]
    uneven = any(side % _EVEN for side in sides) or group.work.family == CONVOLUTION
    return (f"The kernel is {named(group.kernel)}.", _OTHER_KERNEL.format(_EVEN_SIZES if uneven else ""))


def _depth(group: UnitGroup) -> int:
    """Return the depth of the heads of attention."""
    return next((each.dims[-1] for each in group.call.tensors() if len(each.dims) == 4), 1)


def _unaligned(group: UnitGroup) -> int | None:
    """Return a dimension of a product in 16 bits or fewer that breaks the alignment of its rows, None for none."""
    if group.work.family in (ATTENTION, CONVOLUTION) or group.work.datatype in ("float", "double"):
        return None
    sides = [each.dims[-1] for each in group.call.tensors() if len(each.dims) > 1]
    sides += [each.dims[-2] for each in group.call.tensors() if len(each.dims) > 1]
    return max((side for side in sides if side % _WHOLE_VECTOR), default=None)


def _conversions(facts: Facts, slow: _SlowGroup) -> float:
    """Return the part of the time that kernels take which only convert layouts."""
    codes, names = facts.names
    lengths = facts.lengths[slow.rows]
    main = names.index(slow.group.kernel) if slow.group.kernel in names else -2
    beside = rows_found(_CONVERSION, names, codes[slow.rows], LONGEST_NAME) & (codes[slow.rows] != main)
    return float(lengths[beside].sum() / max(int(lengths.sum()), 1))


def _blocks(facts: Facts, slow: _SlowGroup) -> int | None:
    """Return the blocks of the main kernel, None where the file has no grid."""
    codes, names = facts.names
    if slow.group.kernel not in names:
        return None
    rows = slow.rows[codes[slow.rows] == names.index(slow.group.kernel)][:1]
    sizes = [
        int(arrow.ints(arrow.take(facts.index.events.column(f"grid_{axis}"), rows))[0]) for axis in "xyz" if rows.size
    ]
    return sizes[0] * sizes[1] * sizes[2] if sizes and min(sizes) > 0 else None


def _strided(group: UnitGroup) -> bool:
    """Return whether an operand is not stored in the order of its dimensions; an expanded one is."""
    for each in group.call.tensors():
        used = [stride for stride in each.strides if stride]
        if len(each.strides) == len(each.dims) and used != sorted(used, reverse=True):
            return True
    return False


SLOW_KERNEL = Rule(
    RULE,
    slow_kernels,
    thresholds=(
        threshold(
            "slow_share", 0.05, Unit.RATIO, "Slow kernel: the least savings of one shape, as a share of the window."
        ),
    ),
    columns=_work_units.COLUMNS | {"grid_x", "grid_y", "grid_z"},
    args_of=_work_units.ARGS_OF,
    evidence=(kernel.VIEW,),
)

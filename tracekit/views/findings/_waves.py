"""Rule of `findings` about the tail effect: kernels whose last wave of blocks leaves most of the device idle.

Limits of a multiprocessor are those of the CUDA C++ Programming Guide (technical specifications per compute
capability): blocks, threads, and 64 Ki registers, allotted to a warp in units of 256.
"""

from __future__ import annotations

import numpy as np

from tracekit.analysis.intervals import Ranges
from tracekit.index.kernel_classes import communicates
from tracekit.model import arrow
from tracekit.model.arrow import F64, I64
from tracekit.model.report import Finding
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views.findings._device import multiprocessors, properties_of
from tracekit.views.findings._facts import Facts, RuleResult, how, named, percent, span, sure
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.tables import kernel

_LIMITS = {
    (6, 0): (32, 2048, 64 << 10), (7, 0): (32, 2048, 96 << 10), (7, 5): (16, 1024, 64 << 10),
    (8, 0): (32, 2048, 164 << 10), (8, 6): (16, 1536, 100 << 10), (8, 9): (24, 1536, 100 << 10),
    (9, 0): (32, 2048, 228 << 10), (10, 0): (32, 2048, 228 << 10),
}  # fmt: skip
"""By compute capability: blocks, threads, and bytes of shared memory of a multiprocessor."""
_ONLY_MINOR = {9: (9, 0), 10: (10, 0)}
"""Where a file has the major number alone."""
_LAUNCH_SHAPE = frozenset(
    {
        *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
        *("registers", "static_smem_bytes", "dynamic_smem_bytes"),
    }
)
"""Columns that say how many blocks of a kernel fit on a multiprocessor."""
_REGISTERS = 1 << 16
_SMALL_WAVE = 0.1
"""A last wave up to this part of a full one can be left out by giving its blocks' work to the others."""


def tail_effect(facts: Facts) -> RuleResult:
    """Return kernels that fill the device a few times, and then run a last wave that is far from full."""
    kernels = np.flatnonzero(facts.kinds(Kind.KERNEL))
    kernels = kernels[~communicates(facts.index, kernels)] if kernels.size else kernels
    if not kernels.size:
        return RuleResult(why_not="the trace has no compute kernels")
    waves = _waves(facts, kernels)
    if np.isnan(waves).all():
        return RuleResult(
            why_not="needs grid, block and registers of kernels, and numSms and compute capability of the device"
        )
    most = np.ceil(waves - 1e-9)
    part = waves - np.floor(waves + 1e-9)
    lost = np.where(part <= _SMALL_WAVE, 1 - np.floor(waves + 1e-9) / most, 1 - waves / most)
    lost = np.where((waves > 1) & (part > 1e-9), lost, 0.0)
    lost[np.isnan(waves)] = 0.0
    unused = np.zeros(facts.starts.size)
    unused[kernels] = lost
    found = []
    times: dict[str, Ranges] = {}
    for owner in facts.looked_at():
        mine = facts.within(owner, kernels[lost > 0])
        if not mine.size:
            continue
        unused_ns = round(float((unused[mine] * facts.lengths[mine]).sum()))
        bound = facts.bound(owner, mine, most=unused_ns)
        if bound.share < max(facts.thresholds["tail_share"], facts.thresholds["least_share"]):
            continue
        times[facts.label(owner)] = facts.ranges(mine)
        name, weight = facts.most_common(mine, np.round(unused[mine] * facts.lengths[mine]).astype(np.int64))
        own = mine[facts.names[0][mine] == facts.names[1].index(name)] if name else mine
        at = int(np.searchsorted(kernels, own[0]))
        found.append(
            Finding(
                "tail effect",
                facts.label(owner),
                f"{mine.size:,} kernels run {span(int(facts.lengths[mine].sum()))}, and their last wave of blocks is "
                f"far from full. {named(name)} loses most ({span(weight)}): {waves[at]:.2f} waves take the time of "
                f"{most[at]:.0f}, and its last wave is {percent(float(part[at]))} full.",
                tuple(facts.own_cells(owner, "kernel", name, ("calls", "total"), name=name)) if name else (),
                facts.ids(mine),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "waves are computed from blocks, threads, registers and shared memory; blocks are taken to last "
                "equally long, and other streams may use what is idle" + how(bound),
                "Choose sizes that fill whole waves: another batch or tile size, fewer or more blocks, persistent or "
                "stream-K kernels, fewer registers for each thread.",
                "tracekit summary NEW --view kernel: time of these names falls.",
            )
        )
    return RuleResult(tuple(found), times=times)


def _waves(facts: Facts, kernels: I64) -> F64:
    """Return how often each kernel's blocks fill its device; nan where that is not known."""
    events = facts.index.events

    def column(name: str) -> F64:
        values = arrow.ints(arrow.take(events.column(name), kernels)).astype(np.float64)
        values[values <= 0] = np.nan
        return values

    blocks = column("grid_x") * column("grid_y") * column("grid_z")
    warps = np.ceil(column("block_x") * column("block_y") * column("block_z") / 32)
    registers = np.ceil(column("registers") * 32 / 256) * 256
    shared = np.zeros(kernels.size)
    for name in ("static_smem_bytes", "dynamic_smem_bytes"):
        shared += arrow.ints(arrow.take(events.column(name), kernels))
    source = facts.index.ints("source")[kernels]
    device = arrow.ints(arrow.take(events.column("device"), kernels), -1)
    sizes = multiprocessors(facts)
    found = np.full(kernels.size, np.nan)
    for number, properties in properties_of(facts):
        major, minor, ident = (properties.get(key) for key in ("computeMajor", "computeMinor", "id"))
        capability = (major, minor) if isinstance(major, int) and isinstance(minor, int) else None
        capability = capability or (_ONLY_MINOR.get(major) if isinstance(major, int) else None)
        limits = _LIMITS.get(capability) if capability else None
        if limits is None or not isinstance(ident, int) or (number, ident) not in sizes:
            continue
        mine = (source == number) & (device == ident)
        most, threads, memory = limits
        resident = np.minimum(np.floor(threads / 32 / warps), np.floor(_REGISTERS / registers / warps))
        own = shared + (1024 if capability and capability[0] >= 8 else 0)  # what the runtime takes for each block
        resident = np.minimum(
            np.minimum(resident, most), np.where(shared > 0, np.floor(memory / np.maximum(own, 1)), most)
        )
        filled = np.where(resident >= 1, blocks / (resident * sizes[number, ident]), np.nan)
        found[mine] = filled[mine]
    return found


TAIL_EFFECT = Rule(
    "tail effect",
    tail_effect,
    thresholds=(
        threshold("tail_share", 0.05, Unit.RATIO, "Tail effect: the least savings, as a share of the window."),
    ),
    columns=_LAUNCH_SHAPE,
    evidence=(kernel.VIEW,),
)

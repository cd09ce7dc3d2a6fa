"""Rule of `findings` about chains of elementwise kernels, whose results go through memory to the next one.

The savings are what writing and reading these results takes at the rate that the kernels reached (`fusion_chains`).
"""

from __future__ import annotations

import numpy as np

from tracekit.index import fusion_chains as _chains
from tracekit.index import work_units as _work_units
from tracekit.index.fusion_chains import FusionChains, fusion_chains
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.display import plural
from tracekit.model.report import Finding
from tracekit.model.units import Unit
from tracekit.views.findings._facts import Facts, RuleResult, how, size, span, sure
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.tables import operator

__all__ = ["RULE", "UNFUSED_KERNELS"]

RULE = "unfused elementwise kernels"
_CERTAIN = 0.5
"""The least part of the bytes of which it is clear what reads them, for a medium confidence."""
_NAMED = 4
"""The most operators of a chain that the claim names."""


def unfused_kernels(facts: Facts) -> RuleResult:
    """Return chains of elementwise operators that one kernel could do."""
    chains = fusion_chains(facts.index)
    if chains is None:
        return RuleResult(
            why_not="needs shapes of elementwise operators (PyTorch: record_shapes=True), what they launched, and the "
            "peaks of the device"
        )
    least = max(facts.thresholds["unfused_share"], facts.thresholds["least_share"])
    found = []
    for owner in facts.looked_at():
        low, high = facts.window(owner)
        at = np.flatnonzero(np.isin(chains.rows, facts.within(owner, chains.rows)))
        # Most owners have too little of it to look at the path.
        if not at.size or chains.lost[at].sum() < least * (high - low):
            continue
        bound = facts.shortened(owner, chains.rows[at], chains.lost[at])
        if not bound.ns or bound.share < least:
            continue
        between = int(chains.between[at].sum())
        certain = int(chains.between[at][chains.certain[at]].sum()) >= _CERTAIN * between
        ns = int(facts.lengths[chains.rows[at]].sum())
        names, calls = _largest(chains, at)
        count = sets.unique(chains.chain[at]).size
        first = chains.units.groups[int(chains.units.group[chains.unit[at[0]]])].call.name
        found.append(
            Finding(
                RULE,
                facts.label(owner),
                f"{plural(at.size, 'elementwise kernel')} in {plural(count, 'chain')} take {span(ns)}; by their "
                f"shapes, each reads what the one before it wrote. The results between them are {size(between)}, "
                f"written and read again. Most: {names} ({plural(calls, 'chain')}).",
                tuple(facts.own_cells(owner, "operator", first, ("calls", "bytes", "of_peak"), name=first)),
                facts.ids(chains.rows[at]),
                bound.ns,
                bound.share,
                sure(bound, "medium" if certain else "low"),
                "the shapes, datatypes and the order fit, but a trace does not show that it is the same tensor, nor "
                "whether the backward pass needs the result too; a small one may have stayed in the cache. The upper "
                "bound is the part of their bytes that a fusion saves, at the rate that they reached" + how(bound),
                "Let torch.compile fuse them, or use a fused operator (F.scaled_dot_product_attention, fused layer "
                "norm, optimizers with fused=True, a Triton kernel).",
                "tracekit summary NEW --view operator: fewer elementwise calls, and fewer bytes.",
            )
        )
    return RuleResult(tuple(found))


def _largest(chains: FusionChains, at: I64) -> tuple[str, int]:
    """Return the operators of the chains that lose most, and how many chains are like that.

    Chains are alike that begin with the same two operators and shapes, and have as many of them.
    """
    units = chains.units
    chain, place = np.unique(chains.chain[at], return_inverse=True)
    place = place.reshape(-1)
    length = np.bincount(place, minlength=chain.size)
    lost = np.bincount(place, chains.lost[at], chain.size)
    begin = np.flatnonzero(np.diff(place, prepend=-1))
    group = units.group[chains.unit[at]]
    after = group[np.minimum(begin + 1, group.size - 1)]
    _, kind = np.unique(np.column_stack((group[begin], after, length)), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    most = int(np.argmax(np.bincount(kind, lost)))
    alike = np.flatnonzero(kind == most)
    start, count = int(begin[alike[0]]), int(length[alike[0]])
    calls = [units.groups[int(each)].call for each in group[start : start + min(count, _NAMED)]]
    more = f" and {count - _NAMED:,} more" if count > _NAMED else ""
    shape = next(("x".join(map(str, each.dims)) for call in calls[:1] for each in call.tensors() if each.dims), "")
    return f"{', '.join(call.name for call in calls)}{more} of {shape or 'one number'}", int(alike.size)


UNFUSED_KERNELS = Rule(
    RULE,
    unfused_kernels,
    thresholds=(
        threshold("unfused_share", 0.02, Unit.RATIO, "Unfused elementwise kernels: savings, as a share of the window."),
    ),
    columns=_work_units.COLUMNS | _chains.COLUMNS,
    args_of=_work_units.ARGS_OF,
    evidence=(operator.VIEW,),
)

"""Rule of `findings` about memory that grows from step to step."""

from __future__ import annotations

import numpy as np

from tracekit.analysis.segments import rows_by
from tracekit.analysis.trend import chance_of_rise, median_slope
from tracekit.index.grouping import group_by
from tracekit.index.lanes import device_in
from tracekit.model.arrow import F64, I64
from tracekit.model.report import Finding
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views.findings._facts import Facts, RuleResult, size
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.memory import memory

LEAST_STEPS = 6
"""Steps after the first ones: with fewer, a trend may be chance."""
_SLICES = 16
CHANCE = 0.01
"""The chance (Mann-Kendall, one-sided) at which a trend is believed."""
_LATE = 0.25
"""The least slope of the second half, as a part of that of all: a cache that fills does not grow for ever."""


def memory_growth(facts: Facts) -> RuleResult:
    """Return places whose least allocated memory in each step rises from step to step."""
    rows = np.flatnonzero(facts.kinds(Kind.MEMORY) & facts.index.has("bytes"))
    codes, names = facts.names
    reserved = np.array([*(name.lower().startswith("reserved") for name in names), False], np.bool_)
    rows = rows[~reserved[codes[rows]]]
    if not rows.size:
        return RuleResult(why_not="the trace has no allocations; record them (profile_memory=True)")
    place = group_by(*(facts.index.key(column, rows) for column in ("source", "rank", "device")))
    sizes = facts.index.ints("bytes")
    found, tried = [], False
    for number, places in rows_by(place.codes):
        mine = rows[places]
        owner = int(facts.owners.codes[mine[0]])
        edges, unit = _edges(facts, owner, mine)
        level = np.cumsum(sizes[mine])
        lows = _least_in_each(facts.starts[mine], level, edges)
        if lows.size < LEAST_STEPS:
            continue
        tried = True
        slope = median_slope(lows)
        grown = slope * (lows.size - 1)
        late = median_slope(lows[lows.size // 2 :])
        if grown < facts.thresholds["growth_bytes"] or late < _LATE * slope or chance_of_rise(lows) > CHANCE:
            continue
        device = place.labels[2][number]
        where = "host" if device is None else device_in(facts.index.run, place.labels[0][number], device)
        label = " · ".join(filter(None, (facts.label(owner), where)))
        cells = facts.cells("memory", label, ("increased", "allocations"), name=label, type="allocated")
        found.append(
            Finding(
                "memory growth",
                facts.label(owner),
                f"The memory that stays allocated on {where} grows by {size(slope)} a {unit}: from {size(lows[0])} to "
                f"{size(lows[-1])} above that of the trace's begin, over {lows.size:,} {unit}s.",
                tuple(cells),
                facts.ids(mine[sizes[mine] > 0]),
                0,
                0.0,
                "high" if unit == "step" else "low",  # without steps, a program that starts looks like this
                f"the least memory of each {unit} rises (Mann-Kendall test, chance below 1 %), also in the second "
                "half; what still holds the memory is not in the trace",
                "Find what keeps tensors alive from step to step: losses summed with their graph (use .item() "
                "or .detach()), lists of outputs, hooks, caches without a limit. The view memory names who allocates.",
                "tracekit summary NEW --view memory: increased is near 0.",
            )
        )
    why = "" if tried else f"fewer than {LEAST_STEPS} steps, after the first ones, have allocations"
    return RuleResult(tuple(found), why)


def _edges(facts: Facts, owner: int, rows: I64) -> tuple[I64, str]:
    """Return the edges of the owner's steps after the first ones, or of equal slices of time, and what they are."""
    mine = np.flatnonzero(facts.steps.owner == owner)
    starts = facts.steps.starts[mine]
    if starts.size > LEAST_STEPS:
        last = int((facts.steps.starts + facts.steps.durations)[mine[-1]])
        return np.append(starts, last)[max(1, starts.size // 8) :], "step"
    if starts.size:
        return starts[:0], "step"
    low, high = int(facts.starts[rows[0]]), int(facts.starts[rows[-1]])
    return (low + (high - low) * np.arange(2, _SLICES + 1) // _SLICES).astype(np.int64), "slice of the time"


def _least_in_each(times: I64, level: I64, edges: I64) -> F64:
    """Return the least level in each interval, the level at its begin included."""
    bounds = np.searchsorted(times, edges)
    if not edges.size:
        return np.zeros(0, np.float64)
    before = np.append(level, 0)[np.maximum(bounds, 1) - 1]
    found: F64 = before[:-1].astype(np.float64)
    for i in range(found.size):  # few: the steps
        if bounds[i + 1] > bounds[i]:
            found[i] = min(found[i], float(level[bounds[i] : bounds[i + 1]].min()))
    return found


MEMORY_GROWTH = Rule(
    "memory growth",
    memory_growth,
    thresholds=(
        threshold("growth_bytes", 1 << 20, Unit.BYTES, "Memory growth: the least growth over the steps of the trace."),
    ),
    columns=frozenset({"bytes", "args"}),
    args_of=frozenset({Kind.MEMORY}),
    evidence=(memory.VIEW,),
)

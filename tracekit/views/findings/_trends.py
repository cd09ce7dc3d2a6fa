"""Rules of `findings` about steps that get slower over the run, and steps that take unequal times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracekit.analysis.intervals import Ranges, merge
from tracekit.analysis.segments import rows_by
from tracekit.analysis.series import change_points, judge
from tracekit.analysis.statistics import between, median
from tracekit.analysis.trend import Rise, rising
from tracekit.index.steps import covered
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import F64, I64, Mask
from tracekit.model.report import Finding
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views.findings._facts import Facts, RuleResult, named, span, whole_percent
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.steps import steps
from tracekit.views.tables import kernel

LEAST_STEPS = 8
"""Steps after the first ones: with fewer, a trend may be chance."""
CHANCE = 0.003
"""The chance (Mann-Kendall, one-sided) at which a trend is believed."""
_SHIFT_CHANCE = 0.002
_SLICES = 24
"""Without steps, the kernels of each name are compared with their own median in so many slices of the time."""
_LEAST_CALLS = 24
_OPERATORS = (Kind.OPERATOR, Kind.OPERATOR_INNER, Kind.PYTHON_OP, Kind.USER_RANGE, Kind.USER_RANGE_NATIVE)
_SLOWER = 1.05
"""A kernel whose median rises by less than this is not slower."""
_ALIKE = 1.1
"""The most that a first step takes, as a part of the longest later one, to be one of the slow steps and no warm-up."""
_ALL = 0.7
"""The share of the kernel time from which on "nearly all kernels" are slower."""


@dataclass(frozen=True, slots=True, eq=False)
class _StepTimes:
    """The steps of an owner after its first ones. at: their places in `Facts.steps`; skipped: the first ones.

    begins, ends: of each, ns; those of the device's work where the host runs ahead of it. first: ns of the first ones.
    """

    at: I64
    skipped: int
    begins: I64
    ends: I64
    first: F64

    @property
    def durations(self) -> F64:
        return (self.ends - self.begins).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _StepParts:
    """The parts of steps, one value a step, shape (n,). kernels, operators: ns by name; idle: of the device."""

    kernels: dict[str, F64]
    operators: dict[str, F64]
    idle: F64 | None


def slowing(facts: Facts) -> RuleResult:
    """Return owners whose steps, or else kernels, take longer and longer."""
    found: list[Finding] = []
    times: dict[str, Ranges] = {}
    tried = False
    for owner, timed in _long_runs(facts):
        at, durations = timed.at, timed.durations
        tried = True
        trend = _trend(durations, facts.thresholds["trend_rise"])
        if trend is None:
            continue
        # A level between the first steps of a rise is too high for an upper bound: their quickest is the level.
        # Only the first third counts, because a trace often cuts its last step.
        base = min(trend.base, float(durations[: max(3, at.size // 3)].min()))
        excess = int(np.maximum(durations - base, 0).sum())
        low, high = facts.window(owner)
        share = excess / (high - low if high > low else int(durations.sum()))
        if share < max(facts.thresholds["trend_share"], facts.thresholds["least_share"]):
            continue
        rows = facts.steps.rows[at]
        slow = np.arange(at.size) >= at.size - max(2, (at.size - trend.at) // 3)
        early = np.arange(at.size) < max(2, trend.at)
        cause = _difference(_parts(facts, owner, timed), slow, early)
        times[facts.label(owner)] = facts.ranges(rows[trend.at :])
        number, known = facts.index.ints("step")[rows[trend.at]], facts.index.has("step")[rows[trend.at]]
        first = f"step {number}" if known else f"step no. {timed.skipped + trend.at + 1}"
        found.append(
            Finding(
                "slower and slower",
                facts.label(owner),
                f"The steps take longer and longer from {first} on: {span(round(trend.base))} before, "
                f"{span(round(trend.last))} at the end ({span(round(trend.slope))} more each step). {cause}",
                tuple(facts.cells("steps", "step", ("p50", "max"), **facts.owned(owner))),
                facts.ids(rows[trend.at :]),
                excess,
                share,
                "medium",
                _because(trend),
                "If nearly all kernels are slower, look at the clocks, the heat and the power limit of the device "
                "(nvidia-smi -q -d CLOCK,PERFORMANCE). If the host is, look for what grows from step to step: a list "
                "that is walked, a cache, a graph of the loss that is kept, memory that is swapped.",
                "tracekit summary NEW --view steps: the last steps take as long as the first ones.",
            )
        )
    for owner in facts.looked_at():
        if (facts.steps.owner == owner).any():
            continue
        made = _slower_kernels(facts, owner)
        tried |= made is not None
        found += [made] if isinstance(made, Finding) else []
    return RuleResult(tuple(found), "" if tried else _too_few(facts), times)


def _too_few(facts: Facts) -> str:
    return f"fewer than {LEAST_STEPS} steps, after the first ones" if facts.steps.rows.size else "no steps in the trace"


def _trend(values: F64, least: float) -> Rise | None:
    """Return the rise of the values: a line, or one step up that stays."""
    line = rising(values, chance=CHANCE, least=least)
    changes = change_points(values, significance=_SHIFT_CHANCE)
    levels = [changes[0].before, *(each.after for each in changes)] if changes else []
    if not changes or levels != sorted(levels) or levels[-1] < (1 + least) * levels[0]:
        return line
    at, base, last = changes[0].at, levels[0], levels[-1]
    shift = Rise(at, base, (last - base) / max(values.size - at, 1), last, changes[0].chance)
    if line is None:
        return shift
    number = np.arange(values.size)
    fitted = np.where(number < line.at, line.base, line.base + line.slope * (number - line.at))
    places = [0, *(each.at for each in changes), values.size]
    stairs = np.repeat(np.array(levels), np.diff(places))
    return shift if np.abs(values - stairs).sum() < 0.8 * np.abs(values - fitted).sum() else line


def _because(trend: Rise) -> str:
    return (
        f"rank tests against noise (chance {max(trend.chance, 1e-6):.1g}), and the rise is more than three times the "
        "scatter; the upper bound is for steps that take as long as before the rise, and longer inputs make longer "
        "steps too"
    )


def _slower_kernels(facts: Facts, owner: int) -> Finding | bool | None:
    """Return a finding on kernels that get slower, False if they do not, None if there are too few of one name."""
    codes, names = facts.names
    rows = facts.work.rows[(facts.owners.codes[facts.work.rows] == owner)]
    rows = rows[facts.kinds(Kind.KERNEL)[rows] & (codes[rows] >= 0)]
    used, counts = np.unique(codes[rows], return_counts=True)
    rows = rows[np.isin(codes[rows], used[counts >= _LEAST_CALLS])]
    if not rows.size:
        return None
    rows = rows[np.argsort(facts.starts[rows], kind="stable")]
    lengths = facts.lengths[rows].astype(np.float64)
    typical = np.zeros(len(names) + 1)
    for code, at in rows_by(codes[rows].astype(np.int64)):
        typical[code] = max(median(lengths[at]), 1.0)
    ratios = lengths / typical[codes[rows]]
    low, high = int(facts.starts[rows[0]]), int(facts.starts[rows[-1]]) + 1
    place = (facts.starts[rows] - low) * _SLICES // (high - low)
    edges = np.searchsorted(place, np.arange(_SLICES + 1))
    kept = [i for i in range(_SLICES) if edges[i + 1] - edges[i] >= 8]
    if len(kept) < LEAST_STEPS:
        return None
    levels = np.array([median(ratios[edges[i] : edges[i + 1]]) for i in kept])
    trend = _trend(levels, facts.thresholds["trend_rise"])
    if trend is None:
        return False
    begin = edges[kept[trend.at]]
    base = typical[codes[rows]] * trend.base
    excess = int(np.maximum(lengths - base, 0)[begin:].sum())
    window = facts.window(owner)
    share = min(1.0, excess / max(window[1] - window[0], 1))
    if share < max(facts.thresholds["trend_share"], facts.thresholds["least_share"]):
        return False
    since = int(facts.starts[rows[begin]]) - window[0]
    name, _ = facts.most_common(rows[begin:], np.maximum(lengths - base, 0)[begin:].astype(np.int64))
    return Finding(
        "slower and slower",
        facts.label(owner),
        f"The kernels take longer and longer from {span(since)} after the begin on: {trend.last / trend.base:.2f} "
        f"times as long at the end ({whole_percent(trend.last / trend.base - 1)} more within "
        f"{span(high - int(facts.starts[rows[begin]]))}). {named(name)} loses most.",
        tuple(facts.cells("kernel", name, ("calls", "avg", "max"), name=name)),
        facts.ids(rows[begin:]),
        min(excess, window[1] - window[0]),
        share,
        "medium",
        f"kernels are compared with the median of their name; rank tests against noise (chance "
        f"{max(trend.chance, 1e-6):.1g}); the upper bound is for kernels as quick as before, and longer inputs make "
        "longer kernels too",
        "Look at the clocks, the heat and the power limit of the device (nvidia-smi -q -d CLOCK,PERFORMANCE), and at "
        "what grows with the run, such as a sequence or a cache.",
        "tracekit summary NEW --view findings: slower and slower is not found.",
    )


def uneven(facts: Facts) -> RuleResult:
    """Return owners whose steps take unequal times, without a trend, and what is longer in the slow ones."""
    found: list[Finding] = []
    times: dict[str, Ranges] = {}
    tried = False
    for owner, timed in _long_runs(facts):
        at, durations = timed.at, timed.durations
        tried = True
        low, middle, high = (between(durations, share) for share in (0.1, 0.5, 0.9))
        if (
            high - low < facts.thresholds["jitter"] * middle
            or _trend(durations, facts.thresholds["trend_rise"]) is not None
        ):
            continue
        # More than half of the steps may be slow: then the median is one of them.
        slow, quick = durations >= (low + high) / 2, durations <= (low + middle) / 2
        # First steps that are no longer than later slow ones are no warm-up.
        alike = timed.first[timed.first <= _ALIKE * durations.max()]
        excess = int(np.maximum(np.concatenate((alike, durations)) - low, 0).sum())
        begin, end = facts.window(owner)
        share = excess / (end - begin if end > begin else durations.sum())
        if share < facts.thresholds["least_share"]:
            continue
        rows = facts.steps.rows[at]
        times[facts.label(owner)] = facts.ranges(rows[slow])
        found.append(
            Finding(
                "uneven steps",
                facts.label(owner),
                f"The steps take unequal times: {span(round(low))} at the 10th percentile, {span(round(middle))} in "
                f"the median, {span(round(high))} at the 90th. In the {int(slow.sum()):,} slow ones: "
                f"{_difference(_parts(facts, owner, timed), slow, quick)}",
                tuple(facts.cells("steps", "step", ("p50", "max"), **facts.owned(owner))),
                facts.ids(rows[slow]),
                excess,
                share,
                "low",
                "the times are certain; inputs of unequal sizes make unequal steps too. The upper bound is for steps "
                "that all take as long as the 10th percentile",
                "Look at what is longer in the slow steps: inputs of unequal sizes (bucket or pad them), work that not "
                "every step does (logging, evaluation), other jobs on the machine.",
                "tracekit summary NEW --view steps: P95 is near P50.",
            )
        )
    return RuleResult(tuple(found), "" if tried else _too_few(facts), times)


def _long_runs(facts: Facts) -> Iterator[tuple[int, _StepTimes]]:
    """Yield the owners that have enough steps for a trend, with their steps."""
    for owner in sets.unique(facts.steps.owner).tolist():
        timed = _step_times(facts, owner)
        if timed.at.size >= LEAST_STEPS:
            yield owner, timed


def _step_times(facts: Facts, owner: int) -> _StepTimes:
    """Return the owner's steps after the first ones, as `Facts.extents` measures them."""
    taken = facts.extents.steps
    at = np.flatnonzero(taken.owner == owner)
    begins, ends = taken.starts[at], (taken.starts + taken.durations)[at]
    judged = judge(ends - begins)
    kept = judged.warm_up if judged.known else at.size
    of_first = (ends - begins)[:kept].astype(np.float64)
    return _StepTimes(at[kept:], kept, begins[kept:], ends[kept:], of_first)


def _parts(facts: Facts, owner: int, timed: _StepTimes) -> _StepParts:
    """Return what these steps consist of: kernels by name, operators and ranges by name, and idle time."""
    begins, ends = timed.begins, timed.ends
    mine = facts.owners.codes == owner
    on_device = facts.is_work & mine
    every = np.flatnonzero(on_device)
    idle = None
    if every.size:
        busy = merge(facts.starts[every], facts.starts[every] + facts.lengths[every])
        idle = (ends - begins - (covered(busy, ends) - covered(busy, begins))).astype(np.float64)
    host = np.flatnonzero(facts.kinds(*_OPERATORS) & mine & facts.timed & ~facts.index.has("device"))
    called = facts.steps.starts[timed.at]
    until = called + facts.steps.durations[timed.at]
    return _StepParts(_by_name(facts, every, begins, ends), _by_name(facts, host, called, until), idle)


def _by_name(facts: Facts, rows: I64, begins: I64, ends: I64) -> dict[str, F64]:
    """Return the time of the rows of each name in each step."""
    codes, names = facts.names
    place = np.searchsorted(begins, facts.starts[rows], "right") - 1
    kept = (place >= 0) & (codes[rows] >= 0)
    kept[kept] = facts.starts[rows[kept]] < ends[place[kept]]
    rows, place = rows[kept], place[kept]
    used, code = np.unique(codes[rows], return_inverse=True)
    table = np.bincount(
        code * begins.size + place, facts.lengths[rows].astype(np.float64), minlength=used.size * begins.size
    ).reshape(used.size, begins.size)
    return {names[int(c)]: table[i] for i, c in enumerate(used.tolist())}


def _difference(parts: _StepParts, slow: Mask, quick: Mask) -> str:
    """Return a sentence on what takes longer in the slow steps than in the quick ones."""

    def more(values: F64) -> float:
        return float(np.median(values[slow]) - np.median(values[quick]))

    kernels = sorted(((more(v), k) for k, v in parts.kernels.items()), reverse=True)
    operators = sorted(((more(v), k) for k, v in parts.operators.items()), reverse=True)
    of_kernels, of_idle = sum(max(ns, 0) for ns, _ in kernels), more(parts.idle) if parts.idle is not None else 0.0
    said = []
    if kernels and of_kernels > max(of_idle, 0) and of_kernels > 0:
        total = sum(float(np.median(v[quick])) for v in parts.kernels.values())
        slower = [k for ns, k in kernels if ns > (_SLOWER - 1) * float(np.median(parts.kernels[k][quick]))]
        part = sum(float(np.median(parts.kernels[k][quick])) for k in slower) / total if total else 0.0
        if part >= _ALL and len(slower) > 1:
            said.append(f"nearly all kernels take longer, {whole_percent(of_kernels / total)} in all")
        else:
            said.append(f"the kernel {named(kernels[0][1])} takes {span(round(kernels[0][0]))} longer")
    if of_idle > max(of_kernels, 0):
        said.append(f"the device is idle for {span(round(of_idle))} longer")
    if operators and operators[0][0] > 0 and (not said or of_idle > max(of_kernels, 0)):
        said.append(f"{named(operators[0][1])} takes {span(round(operators[0][0]))} longer on the host")
    text = ", and ".join(said) or "no kernel, operator or idle time of these steps accounts for it"
    return f"{text[0].upper()}{text[1:]}."


SLOWING = Rule(
    "slower and slower",
    slowing,
    thresholds=(
        threshold("trend_rise", 0.1, Unit.RATIO, "Slower and slower: the least rise, as a share of the first level."),
        threshold("trend_share", 0.03, Unit.RATIO, "Slower and slower: the least savings, as a share of the window."),
    ),
    evidence=(steps.VIEW, kernel.VIEW),
)

UNEVEN = Rule(
    "uneven steps",
    uneven,
    thresholds=(
        threshold(
            "jitter",
            0.2,
            Unit.RATIO,
            "Uneven steps: the least distance of the 10th and 90th percentile, as a share of the median.",
        ),
    ),
    evidence=(steps.VIEW,),
)

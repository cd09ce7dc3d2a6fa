"""Rules of `findings` about what a run pays once: slow first steps, and the calls before the first device work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracekit.analysis.intervals import Ranges, clip, length
from tracekit.analysis.segments import rows_by
from tracekit.analysis.series import judge
from tracekit.index.launches import named as named_like
from tracekit.index.pauses import waits
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.report import Finding
from tracekit.model.schema import API_CALLS, USER_RANGES, Kind
from tracekit.model.units import Unit
from tracekit.views.findings._facts import NO_PATH, NO_WORK, Facts, RuleResult, how, named, span, sure
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.steps import steps
from tracekit.views.tables import api, user_defined

ALLOCATES = lazy_pattern(
    r"^(?:cuda|cu|hip)(?:Mem)?(?:Malloc|Alloc|Free)(?!Async)(?:Pitch|Managed|Array|3D)*(?:_v\d+)?$"
)
"""Calls that allocate or free device memory."""
LEAST_ALLOCATIONS = 10
"""Fewer calls after the first work are those of a program that still starts."""
_SETS_UP = USER_RANGES - {Kind.STEP, Kind.DATALOADER}
"""Kinds of ranges that may hold what a process does once, before its first work."""
_MOST_NAMES = 3
_COPY = lazy_pattern(r"\w*[Mm]emcpy")
_LONG_CALL_NS = 1_000_000
"""How long a copy waits in its call, at least, if the call does something else first."""
_SYNCHRONIZE = lazy_pattern(r"\w*Synchronize")


def warm_up(facts: Facts) -> RuleResult:
    """Return the time that the first steps took beyond the later ones."""
    found = []
    tried = False
    times: dict[str, Ranges] = {}
    for owner, at in rows_by(facts.steps.owner):
        durations = facts.extents.steps.durations[at]
        judged = judge(durations)
        judged = replace(judged, warm_up=facts.first_steps(owner))
        whole = int(durations.sum())
        tried |= judged.known
        if not judged.warm_up or not whole:
            continue
        excess = int((durations[: judged.warm_up] - judged.median).sum())
        # Where the host runs ahead, the first step fills the pipeline: no step before it runs beside it.
        if excess <= judged.median and not judge(facts.steps.durations[at]).warm_up:
            continue
        share = excess / whole
        if share < max(facts.thresholds["warm_up_share"], facts.thresholds["least_share"]):
            continue
        many = judged.warm_up > 1
        times[facts.label(owner)] = facts.warm_up(owner)
        found.append(
            Finding(
                "warm-up",
                facts.label(owner),
                f"The first {f'{judged.warm_up:,} steps take' if many else 'step takes'} {span(excess)} more than "
                f"{'they' if many else 'it'} would at the median of the later steps ({span(judged.median)}): a "
                "one-time cost.",
                tuple(
                    facts.cells("steps", "warm-up", ("steps", "total"), which="warm-up", **facts.owned(owner))
                    + facts.cells("steps", "after warm-up", ("p50",), which="after warm-up", **facts.owned(owner))
                ),
                facts.ids(facts.steps.rows[at[: judged.warm_up]]),
                excess,
                share,
                "high",
                "steps follow each other on one thread, so the excess is all that a fix could save; it is paid once a "
                "run, and it weighs on every mean of this trace",
                "Do not measure the first steps (wait and warmup of the profiler's schedule). If the "
                "runs are short: keep compiled kernels and tuned algorithms between runs, and fill the loader early.",
                "tracekit summary NEW --view steps: no row warm-up.",
            )
        )
    why = "" if tried else "the trace has fewer than 5 steps" if facts.steps.rows.size else "no steps in the trace"
    return RuleResult(tuple(found), why, times)


def start_up(facts: Facts) -> RuleResult:
    """Return calls and ranges that were over before the device had its first work: what a process does once."""
    ranges = np.flatnonzero(facts.kinds(*_SETS_UP) & facts.timed & facts.index.has("tid"))
    if not facts.kinds(*API_CALLS).any() and not ranges.size:
        return RuleResult(why_not="the trace has no runtime or driver API calls, and no ranges of the program")
    if not facts.work.rows.size:
        return RuleResult(why_not=NO_WORK)
    if any(ledger.filtered for ledger in facts.index.ledgers):
        return RuleResult(why_not="rows were filtered, perhaps the first device work")
    every_call = calls = np.flatnonzero(facts.kinds(*API_CALLS) & facts.timed)
    calls = calls[~np.isin(calls, facts.calls_of(facts.work.rows))]
    # If a trace begins in the middle of a run, the host may wait for work that was launched before it.
    calls = calls[~named_like(facts.index, calls, _SYNCHRONIZE)]
    ranges = ranges[~np.isin(ranges, facts.loads)]
    of_work = facts.owners.codes[facts.work.rows]
    found = []
    times: dict[str, Ranges] = {}
    for owner in facts.graphs:
        begins = facts.work.starts[of_work == owner]
        if not begins.size:
            continue
        mine = facts.within(owner, calls)
        mine = mine[facts.starts[mine] + facts.lengths[mine] <= begins.min()]
        # Where a copy is the first thing that a program does, its call creates the context.
        mine = sets.union(mine, _first_copy(facts, owner, every_call))
        around = facts.within(owner, ranges)
        # With steps, the window begins with one, and a range before its first work is a phase of it.
        around = (
            around[facts.starts[around] + facts.lengths[around] <= begins.min()]
            if _no_steps(facts, owner)
            else mine[:0]
        )
        around = around[~waits(facts.index, around)]
        if not mine.size and not around.size:
            continue
        # A step that begins during a call, as a profiler may write it, does not take the call's time.
        low, first = facts.window(owner)[0], int(begins.min())
        in_calls = length(clip(facts.ranges(mine), low, first))
        taken = clip(facts.ranges(mine, around), low, first)
        every = sets.union(mine, around)
        masks = [facts.nodes_of(owner, every) | facts.inside(owner, every)]
        bound = facts.bounds(owner, masks, most=length(taken))[0]
        if bound.share < max(facts.thresholds["start_up_share"], facts.thresholds["least_share"]):
            continue
        times[facts.label(owner)] = taken
        by_calls = 2 * in_calls >= length(taken)
        named_rows = mine if by_calls else around
        name, most = facts.most_common(named_rows, facts.lengths[named_rows])
        if by_calls:
            claim = (
                f"{span(int(facts.lengths[mine].sum()))} pass in {mine.size:,} {'call' if mine.size == 1 else 'calls'} "
                f"before the device has its first work, {span(most)} of them in {named(name)}: a one-time cost."
            )
        else:
            claim = (
                f"The device has its first work after {span(int(begins.min()) - facts.window(owner)[0])}: before it "
                f"the host is in {_chain(facts, around)} for {span(length(facts.ranges(around)))}: a one-time cost."
            )
        view = "api" if by_calls else "user_defined"
        found.append(
            Finding(
                "start-up",
                facts.label(owner),
                claim,
                tuple(facts.cells(view, name, ("calls", "total"), name=name)),
                facts.ids(named_rows),
                bound.ns,
                bound.share,
                "high" if by_calls else "medium",
                "the device has no work yet; the first calls of a process create its context and load its kernels, "
                "whatever their names"
                if by_calls
                else "the device has no work yet, and the ranges name what the host does; a trace that begins in the "
                "middle of a run may begin so as well",
                "Do not measure it: start the profiler later, or run longer. If the runs are short: "
                "create the context while data are read, load kernels when first used (CUDA_MODULE_LOADING=LAZY), and "
                "build for the device, so that nothing is compiled at the start."
                if by_calls
                else "Do not measure it: start the profiler later, or run longer. If the runs are short: keep what is "
                "compiled, tuned or loaded here between runs, or prepare it while other things start.",
                f"tracekit summary NEW --view {view}: total of {named(name)} falls.",
            )
        )
    return RuleResult(tuple(found), "" if facts.graphs else NO_PATH, times)


def _first_copy(facts: Facts, owner: int, calls: I64) -> I64:
    """Return the call of the owner's first work if that is a copy to the device, and begins long after its call."""
    mine = np.flatnonzero(facts.owners.codes[facts.work.rows] == owner)
    first = mine[int(facts.work.starts[mine].argmin())]
    codes, kinds = facts.index.texts("copy_kind")
    code, begun = int(codes[facts.work.rows[first]]), int(facts.work.starts[first])
    if code < 0 or kinds[code] != "HtoD":
        return calls[:0]
    own = facts.within(owner, calls)
    ends = facts.starts[own] + facts.lengths[own]
    found: I64 = own[(facts.starts[own] + _LONG_CALL_NS <= begun) & (ends > begun)]
    return found[named_like(facts.index, found, _COPY)]


def _no_steps(facts: Facts, owner: int) -> bool:
    return not (facts.steps.owner == owner).any()


def _chain(facts: Facts, rows: I64) -> str:
    """Return the range that takes most, and the innermost one that takes most of it, for a sentence."""
    took, begun = facts.lengths[rows], facts.starts[rows]
    outer = rows[np.lexsort((rows, begun, -took))[0]]
    inside = rows[(begun >= facts.starts[outer]) & (begun + took <= facts.starts[outer] + facts.lengths[outer])]
    inside = inside[2 * facts.lengths[inside] >= facts.lengths[outer]]
    # Of ranges that begin and end together the file has the outer one first, or last: the name tells a compiler.
    names = list(dict.fromkeys(facts.name_of(row) for row in inside[np.argsort(-facts.lengths[inside])].tolist()))
    if len(names) < 2:
        return named(names[0]) if names else ""
    shown = [named(each, 40) for each in names[:_MOST_NAMES]]
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def device_allocation(facts: Facts) -> RuleResult:
    """Return allocations and frees of device memory while the program works: a free waits for the device."""
    if not facts.kinds(*API_CALLS).any():
        return RuleResult(why_not="the trace has no runtime or driver API calls")
    calls = np.flatnonzero(facts.kinds(*API_CALLS) & facts.timed)
    calls = calls[named_like(facts.index, calls, ALLOCATES)]
    found = []
    times: dict[str, Ranges] = {}
    for owner in facts.graphs:
        mine = facts.within(owner, calls)
        mine = mine[~facts.at_the_start(owner, mine)]
        for start, end in zip(*facts.warm_up(owner), strict=True):  # few: the first steps
            mine = mine[(facts.starts[mine] < start) | (facts.starts[mine] >= end)]
        if mine.size < LEAST_ALLOCATIONS:
            continue
        taken = facts.ranges(mine)
        bound = facts.bounds(owner, [facts.nodes_of(owner, mine) | facts.inside(owner, mine)], most=length(taken))[0]
        if bound.share < max(facts.thresholds["allocation_share"], facts.thresholds["least_share"]):
            continue
        times[facts.label(owner)] = taken
        name, most = facts.most_common(mine, facts.lengths[mine])
        found.append(
            Finding(
                "device allocation",
                facts.label(owner),
                f"{mine.size:,} calls allocate or free device memory while the program works, and take "
                f"{span(length(taken))}, {span(most)} of it in {named(name)}.",
                tuple(facts.cells("api", name, ("calls", "total"), name=name)),
                facts.ids(mine),
                bound.ns,
                bound.share,
                sure(bound, "medium"),
                "these calls go to the driver, and a free waits for all work of the device; the upper bound is for "
                "calls that take no time" + how(bound),
                "Keep memory between steps: allocate once, use the framework's caching allocator or a pool "
                "(cudaMallocAsync), and avoid torch.cuda.empty_cache() in the loop.",
                f"tracekit summary NEW --view api: total of {named(name)} falls.",
            )
        )
    return RuleResult(tuple(found), "" if facts.graphs else NO_PATH, times)


WARM_UP = Rule(
    "warm-up",
    warm_up,
    thresholds=(
        threshold(
            "warm_up_share",
            0.05,
            Unit.RATIO,
            "Warm-up: the least excess over the median of the later steps, as a share of all step time.",
        ),
    ),
    evidence=(steps.VIEW,),
    precedence=2,
)

START_UP = Rule(
    "start-up",
    start_up,
    thresholds=(
        threshold("start_up_share", 0.1, Unit.RATIO, "Start-up: the least savings, as a share of the window."),
    ),
    evidence=(api.VIEW, user_defined.VIEW),
    precedence=1,
)

DEVICE_ALLOCATION = Rule(
    "device allocation",
    device_allocation,
    thresholds=(
        threshold(
            "allocation_share", 0.02, Unit.RATIO, "Device allocation: the least savings, as a share of the window."
        ),
    ),
    evidence=(api.VIEW,),
    precedence=8,
)

"""Rule of `findings` about pauses of the host; a range, or the profiler's own rows, may name their reason."""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.intervals import Ranges, difference, intersection, length, merge, union, union_length_by
from tracekit.index.grouping import group_by
from tracekit.index.pauses import Pauses
from tracekit.index.steps import covered
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.display import plural
from tracekit.model.patterns import rows_found
from tracekit.model.report import Finding
from tracekit.model.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.model.units import Unit
from tracekit.views.device import idle
from tracekit.views.findings._facts import (
    NO_LINKS,
    NO_PATH,
    NO_WORK,
    OPERATORS,
    Bound,
    Facts,
    RuleResult,
    named,
    percent,
    span,
    whole_percent,
)
from tracekit.views.findings._long_calls import compiling
from tracekit.views.findings.rule import Rule, threshold

_COLLECTS = lazy_pattern(r"(?:^|[^a-z])gc(?![a-z])|garbage", re.IGNORECASE)
_ADVICE = (
    "Python's garbage collector pauses like this (gc.freeze() after the start, gc.disable(), and gc.collect() where it "
    "does no harm); so do logging, checkpoints, evaluation, and other processes on the same cores. To see which, "
    "record Python stacks (with_stack=True) or put ranges around what the host does there."
)
_ADVICE_WITHOUT_OPERATORS = (
    "See what the host does there: put NVTX ranges around it, or record calls of the system (nsys: --trace=osrt; a "
    "file that has them shows them with --option osrt=yes). Then overlap it with the work of the device."
)
_UNSEEN = "without operators, a pause looks like work of the host between two calls"
"""Why pauses that are the rule are not looked for: such stretches are idle time, whose cause is not in the trace."""
_USUAL = "pauses outside the steps are the rule here, so they may be waits for requests"
PROFILER_OVERHEAD = "profiler overhead"
_OF_THE_DRIVER = lazy_pattern(r"compil|loading|command buffer full", re.IGNORECASE)
"""Names of rows of overhead that the program pays for without a profiler too."""
_OF_THE_PROFILER = lazy_pattern(r"^(?!.*(?:compil|loading|command buffer full))", re.IGNORECASE)
_MAY_COMPUTE = ", so the host may compute in these pauses; "
_SHOWN = 5
"""The most steps that a claim names."""


def host_pauses(facts: Facts) -> RuleResult:
    """Return stretches without any operator, call or load on the threads that launch, while the device is idle."""
    if not facts.graphs:
        return RuleResult(why_not=NO_PATH)
    found: list[Finding] = []
    times: dict[str, Ranges] = {}
    tried = unseen = usual = False
    for owner in facts.graphs:
        pauses = facts.idle_pauses(owner)
        tried |= pauses is not None
        if pauses is None:
            continue
        unseen |= not facts.has_operators(owner)
        every = facts.pauses(owner)
        usual |= every is not None and bool((every.request & ~every.named).any())
        compiles = facts.within(owner, compiling(facts)[0])
        pauses = pauses.only(~_within(facts, compiles, pauses))
        overhead = _within(facts, overhead_of(facts, owner), pauses)
        for part, finding_of in ((pauses.only(~overhead), _finding), (pauses.only(overhead), _of_the_profiler)):
            if not part.starts.size:
                continue
            bound = _bound(facts, owner, part)
            if bound.share < max(facts.thresholds["pause_share"], facts.thresholds["least_share"]):
                continue
            label, own = facts.label(owner), merge(part.starts, part.ends)
            times[label] = union(times[label], own) if label in times else own
            found.append(finding_of(facts, owner, part, bound))
    why = "" if tried else NO_LINKS if facts.work.rows.size else NO_WORK
    return RuleResult(tuple(found), why or (_UNSEEN if unseen else _USUAL if usual else ""), times)


def overhead_of(facts: Facts, owner: int, pattern: re.Pattern[str] = _OF_THE_PROFILER) -> I64:
    """Return the profiler's rows on costs beside the program, with such a name, of the owner's inputs.

    They often name no process, or one of their own.
    """
    rows = np.flatnonzero(facts.kinds(Kind.OVERHEAD) & facts.timed)
    sources = facts.index.ints("source")
    rows = rows[
        np.isin(sources[rows], sets.unique(sources[facts.work.rows][facts.owners.codes[facts.work.rows] == owner]))
    ]
    codes, names = facts.names
    found: I64 = rows[rows_found(pattern, names, codes[rows])]
    return found


def _within(facts: Facts, rows: I64, pauses: Pauses) -> Mask:
    """Return which pauses lie for half of their time or more in these rows of EVENTS."""
    ranges = facts.ranges(rows)
    inside = covered(ranges, pauses.ends) - covered(ranges, pauses.starts)
    found: Mask = 2 * inside >= pauses.ends - pauses.starts
    return found


def _bound(facts: Facts, owner: int, pauses: Pauses) -> Bound:
    """Return the bound if the host did not pause: at most the pauses, and what the busiest stream idles from then on.

    The streams together may be idle for less: without the pauses, more of their work could overlap.
    """
    low, high = facts.window(owner)
    idle = idle_of_busiest_stream(facts, owner, int(pauses.starts.min()), high)
    most = min(int((pauses.ends - pauses.starts).sum()) + _tail(facts, owner, pauses), idle)
    most += _waits_around(facts, owner, pauses)
    return Bound(most, most / (high - low) if high > low else 0.0, True)


def _waits_around(facts: Facts, owner: int, pauses: Pauses) -> int:
    """Return the ns in which the host, between these pauses and in the ranges around them, waits without a kernel.

    A checkpoint copies to the host what it then writes: done elsewhere or less often, both go.
    """
    held = sets.unique(pauses.around[_known(facts, pauses)])
    if not held.size:
        return 0
    ranges, silent = facts.ranges(held), merge(pauses.starts, pauses.ends)
    held_silent = length(intersection(ranges, silent))
    if 2 * held_silent < length(ranges):  # the ranges do something else, and pause now and then
        return 0
    waits = facts.ranges(facts.within(owner, sets.unique(facts.graphs[owner].waits)))
    kernels = facts.kinds(Kind.KERNEL) & facts.timed & (facts.owners.codes == owner)
    return length(intersection(ranges, difference(waits, facts.ranges(np.flatnonzero(kernels)))))


def _tail(facts: Facts, owner: int, pauses: Pauses) -> int:
    """Return the ns from the last row of the host and the device to the end of the steps: a pause too, if one is usual.

    Nothing follows it, so it is not one of the pauses.
    """
    if not (pauses.in_step & pauses.regular).any():
        return 0
    active = facts.kinds(*OPERATORS, *API_CALLS, *DEVICE_WORK) & facts.timed & (facts.owners.codes == owner)
    rows = facts.within(owner, np.flatnonzero(active))
    last = int((facts.starts[rows] + facts.lengths[rows]).max(initial=facts.window(owner)[0]))
    return max(0, facts.window(owner)[1] - last)


def idle_of_busiest_stream(facts: Facts, owner: int, since: int, until: int) -> int:
    """Return the ns in a range of time in which the owner's busiest stream has no work."""
    mine = np.flatnonzero(facts.owners.codes[facts.work.rows] == owner)
    starts = np.clip(facts.work.starts[mine], since, until)
    ends = np.clip((facts.work.starts + facts.work.durations)[mine], since, until)
    rows = facts.work.rows[mine]
    streams = group_by(*(facts.index.key(column, rows) for column in ("device", "context", "stream")))
    return until - since - int(union_length_by(streams.codes, streams.count, starts, ends).max(initial=0))


def _finding(facts: Facts, owner: int, pauses: Pauses, bound: Bound) -> Finding:
    lengths = pauses.ends - pauses.starts
    longest = int(lengths.argmax())
    around, part = _around(facts, owner, pauses)
    mine = facts.name_of(int(pauses.around[longest]))
    where = f" in {named(mine)}" if mine and (_COLLECTS.search(mine) or not pauses.in_step[longest]) else ""
    operators = facts.has_operators(owner)
    runs = "operator, call or load" if operators else "call or load"
    held = ""
    if around and around != mine * bool(where):
        held = f", {'' if part > 0.995 else f'{whole_percent(part)} of it '}in the range {named(around)}"
    if around:
        because = "the pauses are certain, and the range around them names what the host does; "
    else:
        because = (
            "the pauses are certain, but no row that was read gives their reason; "
            if operators
            else facts.without_operators(owner) + _MAY_COMPUTE
        )
    advice = _ADVICE if operators else _ADVICE_WITHOUT_OPERATORS
    if around and not _COLLECTS.search(around):
        advice = (
            f"Do what {named(around)} does less often, or on another thread or in another process while the device "
            "works (asynchronous checkpoints, logging by a thread, evaluation by another job). To see what takes the "
            "time, put ranges inside it or record Python stacks (with_stack=True)."
        )
    return Finding(
        "host pauses",
        facts.label(owner),
        f"The host pauses {_claim(facts, owner, pauses, runs, held)}{where}.",
        tuple(facts.cells("idle", "host late", ("total",), cause="host late")),
        facts.ids(pauses.after),
        bound.ns,
        bound.share,
        "medium" if operators else "low",
        because + "the upper bound is for pauses that take no time, "
        "and not more than the busiest stream is idle from the first one on",
        advice,
        "tracekit summary NEW --view idle: host late falls.",
    )


def _of_the_profiler(facts: Facts, owner: int, pauses: Pauses, bound: Bound) -> Finding:
    """Return the finding about pauses in which the profiler works: a run without it does not have them."""
    rows = overhead_of(facts, owner)
    rows = rows[_touch(facts, rows, pauses)]
    name, _ = facts.most_common(rows, facts.lengths[rows])
    return Finding(
        PROFILER_OVERHEAD,
        facts.label(owner),
        f"The profiler itself stops the host {_claim(facts, owner, pauses, 'operator, call or load')}. "
        f"The profiler's rows there are mostly {named(name)}.",
        tuple(facts.cells("idle", "host late", ("total",), cause="host late")),
        facts.ids(pauses.after),
        bound.ns,
        bound.share,
        "low",
        "the rows are the profiler's own, and a run without it does not pay for them; the upper bound is for pauses "
        "that take no time",
        "Nothing in the program: leave this time out of what you measure. To lower it, record fewer steps or fewer "
        "activities, and give the profiler larger buffers.",
        "tracekit summary NEW --view idle: host late falls.",
    )


def _touch(facts: Facts, rows: I64, pauses: Pauses) -> Mask:
    """Return which of these rows of EVENTS run during a pause."""
    ranges, starts = merge(pauses.starts, pauses.ends), facts.starts[rows]
    found: Mask = covered(ranges, starts + facts.lengths[rows]) > covered(ranges, starts)
    return found


def _around(facts: Facts, owner: int, pauses: Pauses) -> tuple[str, float]:
    """Return the range that most of the pauses' time lies in, and that part of it; "" where less than half does."""
    lengths = pauses.ends - pauses.starts
    known = _known(facts, pauses)
    name, ns = facts.most_common(pauses.around[known], lengths[known])
    total = max(1, int(lengths.sum()))
    if 2 * ns < total:
        # The driver's own rows, such as "Lazy function loading", name what the host does as well.
        rows = overhead_of(facts, owner, _OF_THE_DRIVER)
        at = _within(facts, rows, pauses)
        ns = int(lengths[at].sum())
        rows = rows[_touch(facts, rows, pauses.only(at))]
        name, _ = facts.most_common(rows, facts.lengths[rows])
    return (name, ns / total) if 2 * ns >= total else ("", 0.0)


def _known(facts: Facts, pauses: Pauses) -> Mask:
    """Return which pauses lie in a range that says something about them: no step, and not one around everything."""
    lengths = pauses.ends - pauses.starts
    known: Mask = pauses.around >= 0
    # A range around everything, such as main or train, says nothing about a pause.
    whole = (
        facts.lengths[pauses.around] * 2 > int(pauses.ends.max() - pauses.starts.min()) if lengths.size > 1 else known
    )
    return known & ~facts.kinds(Kind.STEP)[pauses.around] & ~(whole & (facts.lengths[pauses.around] > 2 * lengths))


def _claim(facts: Facts, owner: int, pauses: Pauses, runs: str, held: str = "") -> str:
    """Return how often the host pauses, where, and between what the longest pause lies. held: the range around."""
    lengths = pauses.ends - pauses.starts
    longest = int(lengths.argmax())
    idle = percent(float(pauses.idle.sum() / lengths.sum()))
    before, after = (named(facts.name_of(int(rows[longest]))) for rows in (pauses.before, pauses.after))
    return (
        f"{plural(lengths.size, 'time')} for {span(int(lengths.sum()))} in all"
        f"{_steps(facts, owner, pauses)}{held}: no {runs} runs on the threads that launch, and the device is "
        f"idle for {idle} of that time. The longest pause ({span(int(lengths[longest]))}) comes after {before} and "
        f"before {after}"
    )


def _steps(facts: Facts, owner: int, pauses: Pauses) -> str:
    """Return the steps in which the pauses lie, for a sentence; "" where the trace has none."""
    mine = np.flatnonzero(facts.steps.owner == owner)
    if not mine.size:
        return ""
    starts = facts.steps.starts[mine]
    place = np.searchsorted(starts, pauses.starts + (pauses.ends - pauses.starts) // 2, "right") - 1
    held = sets.unique(place[pauses.in_step])
    if not held.size:
        return ", between the steps"
    rows = facts.steps.rows[mine[held]]
    number, known = facts.index.ints("step")[rows], facts.index.has("step")[rows]
    shown = [
        str(n) if k else f"no. {p + 1}" for n, k, p in zip(number.tolist(), known.tolist(), held.tolist(), strict=True)
    ]
    more = f" and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
    return f" in {'step' if len(shown) == 1 else 'steps'} {', '.join(shown[:_SHOWN])}{more}"


HOST_PAUSES = Rule(
    "host pauses",
    host_pauses,
    thresholds=(
        threshold("pause_ns", 1_000_000, Unit.NS, "Host pauses: the shortest stretch that counts as a pause."),
        threshold("pause_share", 0.02, Unit.RATIO, "Host pauses: the least savings, as a share of the window."),
    ),
    evidence=(idle.VIEW,),
    precedence=4,
)

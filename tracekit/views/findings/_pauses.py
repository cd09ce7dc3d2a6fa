"""Rule of `findings` about pauses of the host that nothing in the trace explains."""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.intervals import merge, union_length_by
from tracekit.index.grouping import group_by, plural
from tracekit.index.pauses import Pauses
from tracekit.model.report import Finding
from tracekit.model.units import Unit
from tracekit.views.device import idle
from tracekit.views.findings._facts import NO_LINKS, NO_PATH, NO_WORK, Bound, Facts, RuleResult, named, percent, span
from tracekit.views.findings.rule import Rule, threshold

_COLLECTS = re.compile(r"(?:^|[^a-z])gc(?![a-z])|garbage", re.IGNORECASE)
_ADVICE = (
    "Python's garbage collector pauses like this (gc.freeze() after the start, gc.disable(), and gc.collect() where it "
    "does no harm); so do logging, checkpoints, evaluation, and other processes on the same cores. To see which, "
    "record Python stacks (with_stack=True) or put ranges around what the host does there."
)
_ADVICE_WITHOUT_OPERATORS = (
    "See what the host does there: put NVTX ranges around it, or record calls of the system (nsys: --trace=osrt; a "
    "file that has them shows them with --option osrt=yes). Then overlap it with the work of the device."
)
_MAY_COMPUTE = "the trace has no operators, so the host may compute in these pauses; "
_SHOWN = 5
"""The most steps that a claim names."""


def host_pauses(facts: Facts) -> RuleResult:
    """Return stretches without any operator, call or load on the threads that launch, while the device is idle."""
    if not facts.graphs:
        return RuleResult(why_not=NO_PATH)
    found, times, tried = [], {}, False
    for owner in facts.graphs:
        pauses = facts.idle_pauses(owner)
        tried |= pauses is not None
        if pauses is None or not pauses.starts.size:
            continue
        bound = _bound(facts, owner, pauses)
        if bound.share < max(facts.thresholds["pause_share"], facts.thresholds["least_share"]):
            continue
        times[facts.label(owner)] = merge(pauses.starts, pauses.ends)
        found.append(_finding(facts, owner, pauses, bound))
    why = "" if tried else NO_LINKS if facts.work.rows.size else NO_WORK
    return RuleResult(tuple(found), why, times)


def _bound(facts: Facts, owner: int, pauses: Pauses) -> Bound:
    """Return the bound if the host did not pause: at most the pauses, and what the busiest stream idles from then on.

    The streams together may be idle for less: without the pauses, more of their work could overlap.
    """
    low, high = facts.window(owner)
    since = int(pauses.starts.min())
    mine = np.flatnonzero(facts.owners.codes[facts.work.rows] == owner)
    starts = np.clip(facts.work.starts[mine], since, high)
    ends = np.clip((facts.work.starts + facts.work.durations)[mine], since, high)
    rows = facts.work.rows[mine]
    streams = group_by(*(facts.index.key(column, rows) for column in ("device", "context", "stream")))
    idle = high - since - int(union_length_by(streams.codes, streams.count, starts, ends).max(initial=0))
    most = min(int((pauses.ends - pauses.starts).sum()), idle)
    return Bound(most, most / (high - low) if high > low else 0.0, True)


def _finding(facts: Facts, owner: int, pauses: Pauses, bound: Bound) -> Finding:
    lengths = pauses.ends - pauses.starts
    longest = int(lengths.argmax())
    codes, names = facts.names

    def name(row: int) -> str:
        return names[int(codes[row])] if row >= 0 and codes[row] >= 0 else ""

    around = name(int(pauses.around[longest]))
    where = f" in {named(around)}" if around and (_COLLECTS.search(around) or not pauses.in_step[longest]) else ""
    idle = percent(float(pauses.idle.sum() / lengths.sum()))
    before, after = (named(name(int(rows[longest]))) for rows in (pauses.before, pauses.after))
    operators = facts.has_operators(owner)
    runs = "operator, call or load" if operators else "call or load"
    what = (
        f"The host pauses {plural('time', lengths.size)} for {span(int(lengths.sum()))} in all"
        f"{_steps(facts, owner, pauses)}: no {runs} runs on the threads that launch, and the device is "
        f"idle for {idle} of that time. The longest pause ({span(int(lengths[longest]))}) comes after {before} and "
        f"before {after}{where}."
    )
    cells = facts.cells("idle", "host late", ("total",), cause="host late")
    return Finding(
        "host pauses",
        facts.label(owner),
        what,
        tuple(cells),
        facts.ids(pauses.after),
        bound.ns,
        bound.share,
        "medium" if operators else "low",
        ("the pauses are certain, but no row that was read gives their reason; " if operators else _MAY_COMPUTE)
        + "the upper bound is for pauses that take no time, "
        "and not more than the busiest stream is idle from the first one on",
        _ADVICE if operators else _ADVICE_WITHOUT_OPERATORS,
        "tracekit summary NEW --view idle: host late falls.",
    )


def _steps(facts: Facts, owner: int, pauses: Pauses) -> str:
    """Return the steps in which the pauses lie, for a sentence; "" where the trace has none."""
    mine = np.flatnonzero(facts.steps.owner == owner)
    if not mine.size:
        return ""
    starts = facts.steps.starts[mine]
    place = np.searchsorted(starts, pauses.starts + (pauses.ends - pauses.starts) // 2, "right") - 1
    held = np.unique(place[pauses.in_step])
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

"""Rule of `findings` about rows that the profiler lost, and the reservation that every other finding then carries."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from tracekit.analysis.captures import CAPTURE_BEGIN, CAPTURE_END, between
from tracekit.analysis.links import link_columns
from tracekit.index import gaps as _gaps
from tracekit.index.launches import named as named_like
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model.arrow import I64, Mask
from tracekit.model.report import Finding
from tracekit.model.schema import API_CALLS, Kind
from tracekit.model.units import Unit
from tracekit.views.advice import is_cut
from tracekit.views.findings._facts import LOWER, NO_LINKS, NO_WORK, Facts, RuleResult, percent
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.tables import api

RULE = "lost rows"
_NO_DEVICE_ROWS = "device-rows-missing"
"""The note of a reader that found launches, and no row of a device."""
_LAUNCHES = lazy_pattern(
    r"^(?:cuda|cu|hip|hipModule|hipExt|mu|musa)(?:Module)?Launch(?:Cooperative)?(?:Kernel\w*)?(?:_\w+)?$"
)
_PERHAPS = lazy_pattern(r"\b(?:might|may)\b", re.IGNORECASE)
"""Nsight Systems warns like this whenever a program stops the recording itself: rows may be missing, or not."""
_NOT_STARTED = lazy_pattern(r"\bnot been started\b")
"""Nsight Systems warns like this for each process that it profiled, also for one without CUDA."""
_NUMBER = lazy_pattern(r"\b(\d[\d,]*) (?:\w+ ){0,3}?(?:records?|events?|activities)\b")
"""How many rows a warning says are missing."""
_BUFFERS = lazy_pattern(r"not all|dropp|lost|losing|overflow|parse|buffer|incomplete|truncat", re.IGNORECASE)
_MANY = 20
"""Launches of which each has its kernel, so that a warning that rows may be missing is not of kernels."""
LEAST = 3
"""Fewer rows may be those that the profiler missed at its own start and stop."""


def lost_rows(facts: Facts) -> RuleResult:
    """Return kernels without a launch, and launches without a kernel, where the others have one."""
    warned = [
        str(note)
        for ledger in facts.index.ledgers
        for note in ledger.notes.values()
        if note.code.startswith("profiler-warning") or (note.code == _NO_DEVICE_ROWS and not is_cut(facts.index))
    ]
    count = sum(_NO_DEVICE_ROWS in ledger.notes for ledger in facts.index.ledgers)
    linked = facts.launched.launch >= 0
    calls = np.flatnonzero(facts.kinds(*API_CALLS) & facts.index.has("correlation"))
    launches = calls[named_like(facts.index, calls, _LAUNCHES)]
    if any(ledger.filtered for ledger in facts.index.ledgers):
        return RuleResult(why_not="rows were filtered")
    if is_cut(facts.index) and not warned:
        return RuleResult(why_not="the file was cut, so that rows may be missing for that reason")
    if not (linked.any() and launches.size) and not warned:
        return RuleResult(why_not=NO_LINKS if facts.work.rows.size else NO_WORK)
    kernels, orphans, without = (
        _counts(facts, launches, linked) if linked.any() and launches.size else (0, 0, launches[:0])
    )
    shares = orphans / max(kernels, 1), without.size / max(launches.size, 1)
    least = facts.thresholds["lost_share"]
    parts = []
    if orphans >= LEAST and shares[0] >= least:
        parts.append(f"{orphans:,} of {kernels:,} kernels without a launch ({percent(shares[0])})")
    if without.size >= LEAST and shares[1] >= least:
        parts.append(f"{without.size:,} of {launches.size:,} launches without a kernel ({percent(shares[1])})")
    if not parts:
        rows = facts.work.rows.size + calls.size
        warned = [each for each in warned if _counts_here(each, rows, launches.size if linked.any() else 0, least)]
    if not parts and not warned:
        return RuleResult()
    perhaps = not parts and all(_PERHAPS.search(each) for each in warned)
    claim = f"Rows are missing: {' and '.join(parts)}." if parts else ""
    if warned:
        claim = f"{claim} {warned[0]}".strip()
    name, _ = facts.most_common(launches, np.ones(launches.size, np.int64)) if launches.size else ("", 0)
    return RuleResult(
        (
            Finding(
                RULE,
                "",
                claim,
                tuple(facts.cells("api", name, ("calls",), name=name)) if name else (),
                facts.ids(without),
                0,
                0.0,
                "low" if perhaps else "high",
                "ids join each launch call and its work, and rows at the begin and the end of the trace do not count"
                if parts
                else "the file has launch calls, but no GPU rows"
                if len(warned) == count
                else "the file holds the profiler's own message",
                (_LESS if parts or any(_BUFFERS.search(each) for each in warned) else _MEND)
                + (" Sums of this trace are too low." if parts else ""),
                "tracekit summary NEW --view findings: lost rows are not found.",
            ),
        )
    )


_LESS = (
    "Record less at once: a shorter window, fewer kinds of activity, larger buffers (nsys: --cuda-flush-interval; "
    "CUPTI: more and larger activity buffers)."
)
_MEND = "Mend what the profiler names, and record again (nsys: --trace=cuda, and a program that ends by itself)."


def _counts_here(warning: str, rows: int, launches: int, least: float) -> bool:
    """Return whether a warning is a sign that rows of this trace are missing, where each launch has its work.

    rows: of devices, and calls with an id. launches: those of which some have work.
    """
    if (found := _NUMBER.search(warning)) is not None:
        gone = int(found[1].replace(",", ""))
        return gone >= least * (rows + gone)
    return not _PERHAPS.search(warning) or (launches < _MANY and not (launches and _NOT_STARTED.search(warning)))


def _counts(facts: Facts, launches: I64, linked: Mask) -> tuple[int, int, I64]:
    """Return the number of kernels, of those without a launch, and the launch calls without work."""
    rows, starts = facts.devices.rows, facts.devices.starts
    known = facts.index.has("correlation")[rows]
    kernel = facts.kinds(Kind.KERNEL)[rows] & known
    # The first and the last piece that has a launch bound what the profiler saw of both sides.
    low, high = int(starts[linked].min()), int(starts[linked].max())
    orphans = kernel & ~linked & (starts >= low) & (starts <= high)
    # One number for all rows tells none apart.
    keys = [each for each in map(facts.index.ints, ("source", "correlation")) if each.strides != (0,)]
    # Nulls are left out: launches have an id, and of the work the rows that are known alone count.
    without = link_columns(keys, rows[known], launches).launch < 0
    called = facts.launched.launch[linked]
    first, last = int(facts.starts[called].min()), int(facts.starts[called].max())
    begun = facts.starts[launches]
    without &= (begun >= first) & (begun <= last)
    without &= ~_captured(facts, launches)
    if without.any():  # a driver call within a runtime call has the same id
        without &= link_columns(keys, launches, launches).launch == np.arange(launches.size)
    return int(np.count_nonzero(kernel)), int(np.count_nonzero(orphans)), launches[without]


def _captured(facts: Facts, launches: I64) -> Mask:
    """Return which launches a CUDA graph captured: they launch nothing."""
    calls = np.flatnonzero(facts.kinds(*API_CALLS))
    begins, ends = (calls[named_like(facts.index, calls, pattern)] for pattern in (CAPTURE_BEGIN, CAPTURE_END))
    if not begins.size or not ends.size:
        return np.zeros(launches.size, np.bool_)
    groups = (begins, ends, launches)
    lanes = _gaps.keys_of(facts.index, np.concatenate(groups), _gaps.THREAD)
    cuts = [begins.size, begins.size + ends.size]
    pairs = [(lane, facts.starts[rows]) for lane, rows in zip(np.split(lanes, cuts), groups, strict=True)]
    return between(pairs[0], pairs[1], pairs[2])


def reserved(findings: list[Finding]) -> list[Finding]:
    """Return the findings; where rows are lost, all others with a lower confidence and a sentence that says why."""
    lost = next((each for each in findings if each.rule == RULE), None)
    if lost is None:
        return findings
    are = "may be" if lost.confidence == "low" else "are"
    return [
        each
        if each.rule == RULE
        else replace(
            each,
            confidence=LOWER[each.confidence],
            because=f"{each.because}; rows {are} missing here (lost rows), so figures may be too low or too high",
        )
        for each in findings
    ]


LOST_ROWS = Rule(
    RULE,
    lost_rows,
    thresholds=(
        threshold(
            "lost_share",
            0.01,
            Unit.RATIO,
            "Lost rows: the least share of kernels without launch, or of launches without kernel.",
        ),
    ),
    evidence=(api.VIEW,),
)

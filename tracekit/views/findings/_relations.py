"""Relations between findings: which one is the cause of another.

A cause explains a symptom if most of the time that the symptom's savings come from lies in the time of the cause, such
as idle time of the device during a load. The cause comes first, and the symptom names it (`Finding.part_of`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tracekit.analysis.intervals import intersection, length
from tracekit.model.report import Finding
from tracekit.views.findings._facts import LOWER, RuleResult
from tracekit.views.findings._lost import RULE

MOST = 0.5
"""The least part of a symptom's time that lies in its cause's."""

EARLY = 3
"""The first screen shows so many findings."""


def explained(results: Mapping[str, RuleResult], findings: list[Finding], causes: Sequence[str]) -> list[Finding]:
    """Return the findings, each with the rule that is its cause, where another one of them is.

    causes: rules whose findings may be causes; of two of them the earlier one may be the cause of the later one.
    """
    there = {each.rule for each in findings}
    rule_of = {each.rule: name for name, found in results.items() for each in found.findings}
    out = []
    for each in findings:
        cause = _cause(results, causes, there, rule_of[each.rule], each)
        if cause:
            because = f"{each.because}; most of its time lies in that of {cause}, and may go with it"
            each = replace(each, part_of=cause, confidence=LOWER[each.confidence], because=because)
        out.append(each)
    return out


def _cause(
    results: Mapping[str, RuleResult], causes: Sequence[str], there: set[str], rule: str, symptom: Finding
) -> str:
    times = results[rule].times.get(symptom.owner)
    if times is None or not (whole := length(times)):
        return ""
    best, most = "", MOST * whole
    for cause in causes[: causes.index(rule)] if rule in causes else causes:
        others = results[cause].times.get(symptom.owner) if cause in there else None
        shared = length(intersection(times, others)) if others is not None else 0
        if shared >= most and shared:
            best, most = cause, shared + 1
    return best


def in_order(findings: list[Finding]) -> list[Finding]:
    """Return lost rows first, then findings by savings, those of low confidence last, each symptom after its cause."""
    by_savings = sorted(
        findings,
        key=lambda each: (
            each.rule != RULE,
            each.confidence == "low",
            -each.saving_ns,
            each.rule,
            each.owner,
            each.claim,
        ),
    )
    there = {each.rule for each in by_savings}
    roots = [each for each in by_savings if each.part_of not in there]
    tree: dict[str, list[Finding]] = {}
    for each in by_savings:
        if each.part_of in there:
            tree.setdefault(each.part_of, []).append(each)

    def worth(root: Finding) -> tuple[bool, bool, int]:
        return root.rule == RULE, root.confidence != "low", max(each.saving_ns for each in _family(root, tree))

    roots.sort(key=worth, reverse=True)
    out: list[Finding] = []
    for root in roots:
        out += [each for each in _family(root, tree) if each not in out]
    return out


def with_idle_early(findings: list[Finding], rule: str) -> list[Finding]:
    """Return the findings with idle time of this rule in the third place at the latest, if it is the larger one there.

    Low confidence puts it behind all others, but a first screen of three findings must not hide the largest part.
    """
    place = next((place for place, each in enumerate(findings) if each.rule == rule), -1)
    if place < EARLY or findings[place].saving_ns <= findings[EARLY - 1].saving_ns:
        return findings
    rest = [*findings[:place], *findings[place + 1 :]]
    return [*rest[: EARLY - 1], findings[place], *rest[EARLY - 1 :]]


def _family(root: Finding, tree: Mapping[str, list[Finding]]) -> list[Finding]:
    """Return a finding and all that it explains. A cause is never explained by a later one, so this ends."""
    found = [root]
    for each in tree.get(root.rule, []):
        found += _family(each, tree)
    return found

"""findings: problems of a run, with evidence, and an upper bound of what a fix could save.

A finding has a claim in one sentence, cells of other views as evidence, the ids of its first events, an upper bound of
the savings, a confidence with its reason, what to do, and how to check the result. The largest upper bound comes first,
and a finding that another one explains comes after it (`_relations`).
A finding that several ranks share is listed once, for the rank with the largest upper bound.

The upper bound (`saving_ns`) is how much shorter the window would be on the critical path: the path is evaluated again
as if the work took no time (`_facts`, analysis/critical_path), so time that hides behind other work does not count.
Upper bounds do not add up: two rules may count the same idle time. share: of the window, which is that of the steps,
else of the run.

docs/findings.md lists rules and thresholds; each rule declares its own (`rule.Rule`). Without findings, a note lists
what was checked, and what could not be.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tracekit.index import collectives, matched_collectives
from tracekit.index import owners as _owners
from tracekit.index import steps as _steps
from tracekit.index.sources import synthetic_sources
from tracekit.index.trace_index import TraceIndex
from tracekit.model import arrow
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, Finding, ReportTable, Section
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.units import Unit
from tracekit.views import tabulate
from tracekit.views.advice import READ_ALL, for_part, is_cut, of_part
from tracekit.views.base import View, ViewColumn, ViewOptions, plain_section
from tracekit.views.findings import (
    _bandwidth,
    _copies,
    _device,
    _growth,
    _hangs,
    _host,
    _loading,
    _long_calls,
    _long_operators,
    _lost,
    _pauses,
    _ranks,
    _relations,
    _slow_kernels,
    _starts,
    _trends,
    _unexplained,
    _unfused,
    _waves,
)
from tracekit.views.findings._facts import Facts, RuleResult
from tracekit.views.findings._loading import LOADER, loader_pattern
from tracekit.views.findings.rule import LEAST_SHARE
from tracekit.views.path import graph

__all__ = ["RULES", "THRESHOLDS", "VIEW", "compute"]

RULES = (
    _loading.DATA_LOADING,
    _pauses.HOST_PAUSES,
    _long_calls.COMPILATION,
    _long_calls.LONG_CALLS,
    _host.NEEDLESS_SYNC,
    _waves.TAIL_EFFECT,
    _device.LITTLE_PARALLELISM,
    _slow_kernels.SLOW_KERNEL,
    _unfused.UNFUSED_KERNELS,
    _device.EXPENSIVE_ARITHMETIC,
    _long_operators.LONG_OPERATOR,
    _host.LAUNCH_BOUND,
    _copies.PAGEABLE_COPIES,
    _copies.TINY_COPIES,
    _copies.EXPOSED_COPIES,
    _device.EXPOSED_COMMUNICATION,
    _bandwidth.LOW_BANDWIDTH,
    _ranks.STRAGGLER,
    _starts.WARM_UP,
    _starts.START_UP,
    _starts.DEVICE_ALLOCATION,
    _growth.MEMORY_GROWTH,
    _trends.SLOWING,
    _trends.UNEVEN,
    _ranks.SHARED_DEVICE,
    _ranks.UNEQUAL_STAGES,
    _lost.LOST_ROWS,
    _unexplained.UNEXPLAINED_IDLE,
)
"""The rules, in the order in which they are checked; the last one reads what the others have found.

What a rule needs is in its own declaration.
"""

THRESHOLDS = tuple(dict.fromkeys((LEAST_SHARE, *(spec for rule in RULES for spec in rule.thresholds))))
"""The thresholds of all rules; a threshold that two rules share is there once."""

_FEW_RULES = 2
"""With so few rules, a trace without GPU activity was not examined."""
_TITLE = "Findings"
_CAUSES = tuple(
    rule.name for rule in sorted((r for r in RULES if r.precedence is not None), key=lambda r: r.precedence or 0)
)
_VIEWS = {view.name: view for rule in RULES for view in rule.evidence}
"""Views whose cells are evidence."""
_COLUMNS = frozenset({"event_id", "args"} | graph.COLUMNS | matched_collectives.COLUMNS | _steps.COLUMNS).union(
    *(rule.columns for rule in RULES), *(view.columns for view in _VIEWS.values())
)


_TOO_LITTLE = RuleResult(
    why_not="too few device events to judge, and no host thread with operators, API calls or steps"
)
"""For fewer than LEAST_WORK pieces. It has no number, so that a summary can group it with other empty views."""


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the findings, the largest upper bound first. Raises: UsageError."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    stuck = _hangs.hang_findings(index)
    if not index.has("dur_ns").any() and not stuck:
        needs = "needs events with a duration; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *tabulate.option_notes(options)))

    # The headline asks again for what a summary has sorted or cut.
    own = repr(sorted(options.values.items()))
    checked: tuple[list[Finding], list[str]] = ([], [])
    if index.has("dur_ns").any():
        checked = index.once((compute, own), lambda: _checked_rules(index, options))
    findings, notes = [*stuck, *checked[0]], [*checked[1]]
    if not findings:
        return Section(VIEW.name, _TITLE, notes=(*notes, *tabulate.option_notes(options)))
    table, findings = _table(findings, options)
    if len(findings) > len(stuck) + 1:
        notes.insert(0, "these savings overlap, so they do not add up")
    notes += tabulate.option_notes(options, table)
    return Section(VIEW.name, _TITLE, (table,), notes=tuple(notes), findings=tuple(findings))


def _checked_rules(index: TraceIndex, options: ViewOptions) -> tuple[list[Finding], list[str]]:
    """Return the findings, and notes on what was checked."""
    thresholds = {spec.key: options.value(spec) for spec in THRESHOLDS}

    def view(name: str, of: TraceIndex) -> Section:
        return plain_section(_VIEWS[name], of, ViewOptions())

    results: dict[str, RuleResult] = {}
    facts = Facts(index, thresholds, view, loader=loader_pattern(options), results=results)
    joined = _owners.find(index, join_ranks=True)
    over_ranks = facts if joined.labels == facts.owners.labels else replace(facts)
    if over_ranks is not facts:
        over_ranks.__dict__["owners"] = joined  # fills the cache: collectives are matched by rank, whatever the inputs
    for rule in RULES:
        seen = over_ranks if rule.joins_ranks else facts
        found = rule.check(seen)
        findings_of_rule = tuple(_of_part(index, _with_window(seen, each)) for each in found.findings)
        results[rule.name] = replace(found, findings=findings_of_rule, why_not=of_part(index, found.why_not))
        arrow.release_memory()
    # It is the answer where no rule has one: it is not one that is checked and not found.
    unanswered = results[_unexplained.UNEXPLAINED_IDLE.name]
    if next(facts.looked_at(), None) is None:
        # Without a graph and with little work no rule checks anything: that is not the same as nothing found.
        results = {name: found if found.findings or found.why_not else _TOO_LITTLE for name, found in results.items()}
    findings = [each for found in results.values() for each in _worst(found)]
    if not unanswered.findings:
        del results[_unexplained.UNEXPLAINED_IDLE.name]
    findings = _relations.in_order(_lost.reserved(_relations.explained(results, findings, _CAUSES)))
    findings = _relations.with_idle_early(findings, _unexplained.NAME)
    notes = _checked(results, findings, index)
    if len(facts.owners) > facts.examined and not len(facts.graphs) < facts.examined:
        notes.append(f"only the first {facts.examined:,} of {len(facts.owners):,} ranks or inputs were checked")
    return findings, notes


def _of_part(index: TraceIndex, finding: Finding) -> Finding:
    """Return the finding, without advice to record what an input that was cut may have had."""
    advice = for_part(index, finding.advice)
    return finding if advice == finding.advice else replace(finding, advice=advice)


def _with_window(facts: Facts, finding: Finding) -> Finding:
    """Return the finding with the length of its window, if its share is of the window of its owner."""
    labels = facts.owners.labels
    if finding.owner and finding.owner not in labels:
        return finding
    low, high = facts.window(labels.index(finding.owner) if finding.owner else 0)
    of_owner = high > low and math.isclose(finding.saving_ns / (high - low), finding.share, abs_tol=1e-9)
    return replace(finding, window_ns=high - low) if of_owner else finding


def _worst(found: RuleResult) -> list[Finding]:
    """Return each rule's findings of the rank with the largest upper bound, and name the other ranks in the claim.

    A rule may have several findings of one rank, such as kernels: all of them are kept.
    """
    out: list[Finding] = []
    for rule in dict.fromkeys(each.rule for each in found.findings):
        mine = _relations.in_order([each for each in found.findings if each.rule == rule])
        others = sorted({each.owner for each in mine} - {mine[0].owner})
        of_worst = [each for each in mine if each.owner == mine[0].owner]
        if others:
            some = ", ".join(others[:3]) + (" ..." if len(others) > 3 else "")
            more = f" {plural(len(others), 'other')} {'shows' if len(others) == 1 else 'show'} it too: {some}."
            of_worst = [replace(each, claim=each.claim + more) for each in of_worst]
        out += of_worst
    return out


def _table(findings: list[Finding], options: ViewOptions) -> tuple[ReportTable, list[Finding]]:
    """Return the small table of the findings, and the findings in its order, cut as it is."""
    owners = [each.who for each in findings]
    columns = [
        Column("won", "Could save up to", Unit.NS, [_saved(each, each.saving_ns) for each in findings], 0),
        Column("share", "Share", Unit.RATIO, [_saved(each, each.share) for each in findings], 0),
        Column("confidence", "Confidence", Unit.TEXT, [each.confidence for each in findings], 0),
        *([Column("owner", "Rank", Unit.TEXT, owners, 0)] if any(owners) else []),
        Column("rule", "Finding", Unit.TEXT, [each.rule for each in findings], 0),
        Column("number", "Number", Unit.ID, list(range(len(findings))), 9),
    ]
    table = tabulate.finish("findings", _TITLE, columns, options, own_order="number")
    order = [place for place in table.column("number").values if isinstance(place, int)]
    shown = tuple(column for column in table.columns if column.name != "number")
    return replace(table, columns=shown), [findings[place] for place in order]


def _saved(finding: Finding, amount: float) -> Cell:
    """Return what a fix saves; None for a hang, of which nobody knows how long it would have lasted."""
    return None if finding.rule == _hangs.RULE else amount


def _checked(results: dict[str, RuleResult], findings: list[Finding], index: TraceIndex) -> list[str]:
    """Return a note on the rules that found nothing, and one on the rules that could not be checked."""
    notes = []
    clean = [name for name, found in results.items() if not found.findings and not found.why_not]
    unable = [(name, found.why_not) for name, found in results.items() if found.why_not and not found.findings]
    if clean and not findings and len(clean) <= _FEW_RULES and not index.kind_mask(DEVICE_WORK).any():
        # "Nothing found" would sound as if the run had been examined.
        few = f"only {' and '.join(clean)} could be checked"
        missing = _missing(index)
        notes.append(f"No findings: {few}; {missing.replace('the rules', 'the other rules', 1)}")
    elif clean:
        notes.append(f"{'checked and not found' if findings else 'nothing found; checked'}: {', '.join(clean)}")
    elif not findings:
        # A summary lists it with the other empty views; this view alone gives the reasons.
        notes.append(f"No findings: {_missing(index)}")
    reasons: dict[str, list[str]] = {}
    for name, why in unable:
        reasons.setdefault(why, []).append(name)
    if reasons:
        texts = [f"{', '.join(names)} ({why})" for why, names in reasons.items()]
        more = f". {READ_ALL}" if is_cut(index) else ""
        notes.append(f"not checked: {'; '.join(texts)}{more}")
    return notes


def _missing(index: TraceIndex) -> str:
    """Return why no rule could be checked; the note on rules that were not checked says what a cut means."""
    return of_part(index, _what_is_missing(index))


def _what_is_missing(index: TraceIndex) -> str:
    """Return why no rule could be checked, by what the trace has, and what to record."""
    work = int(index.kind_mask(DEVICE_WORK).sum())
    if work and len(synthetic_sources(index)) == len(index.run.sources):
        return "the rules need to know when each event began, which this input does not show."
    if work:
        few = f"{plural(work, 'device event')} {'is' if work == 1 else 'are'} too few to judge"
        return f"{few}. Record more of the run, and the host's calls."
    if index.kind_mask({Kind.STEP}).any():
        return (
            "the rules need GPU activity, a data loader or at least 5 steps. Record more steps, and GPU activity "
            "(PyTorch: ProfilerActivity.CUDA)."
        )
    return (
        "the rules need GPU or step data. Record GPU activity and steps (PyTorch: ProfilerActivity.CUDA and a "
        "schedule)."
    )


_SHOWS = (
    ViewColumn("rule", "Finding", Unit.TEXT, "The name of the rule."),
    ViewColumn(
        "won",
        "Could save up to",
        Unit.NS,
        "The upper bound of the savings: how much shorter the critical path would be.",
    ),
    ViewColumn("share", "Share", Unit.RATIO, "The upper bound of the savings, as a share of the window."),
    ViewColumn("confidence", "Confidence", Unit.TEXT, "The confidence of the rule: high, medium or low."),
    ViewColumn("owner", "Rank", Unit.TEXT, "The rank, process or input."),
)

VIEW = View(
    name="findings",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=frozenset(),
    args_of=collectives.ARGS_OF | graph.ARGS_OF.union(*(rule.args_of for rule in RULES)),
    compute=compute,
    shows=_SHOWS,
    options=(*THRESHOLDS, LOADER),
)

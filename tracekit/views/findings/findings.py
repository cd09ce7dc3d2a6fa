"""findings: what is wrong, with evidence, and what mending it can bring at most.

A finding is a claim in one sentence, the cells of other views that it rests on, the ids of its first events, its
ceiling, how sure it is and why, what to do, and what to look at afterwards. Those of the largest ceiling stand first;
the same finding of several ranks is told once, for the rank that can win most.

ceiling: the most by which the window would be shorter, on the critical path: the path is evaluated again with the
pieces of work in question taking no time (`_facts`, analysis/critical_path), so time that hides behind other
work does not count. Ceilings do not add up: the same idle time may be told by two rules. share: of the window, which is
that of the steps, else of the run.

Rules and thresholds stand in docs/findings.md; the numbers are `thresholds.THRESHOLDS`. Where nothing is
found, a note says what was tried, and what could not be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tracekit.index import grouping, meetings
from tracekit.index import owners as _owners
from tracekit.index import steps as _steps
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Column, Finding, ReportTable, Section
from tracekit.units import Unit
from tracekit.views import tabulate
from tracekit.views.base import ColumnSpec, View, ViewOptions
from tracekit.views.device import breakdown, idle, launch
from tracekit.views.findings import _copies, _device, _facts, _host, _ranks
from tracekit.views.findings._facts import Facts, Found
from tracekit.views.findings.thresholds import THRESHOLDS, chosen
from tracekit.views.memory import manipulation
from tracekit.views.path import graph
from tracekit.views.ranks import ranks
from tracekit.views.steps import steps
from tracekit.views.tables import api, kernel, model

__all__ = ["RULES", "THRESHOLDS", "VIEW", "chosen", "compute"]

RULES: dict[str, Callable[[Facts], Found]] = {
    "data loading": _host.data_loading,
    "needless synchronization": _host.needless_sync,
    "little parallelism": _device.little_parallelism,
    "expensive arithmetic": _device.expensive_arithmetic,
    "launch-bound": _host.launch_bound,
    "pageable copies": _copies.pageable_copies,
    "tiny copies": _copies.tiny_copies,
    "exposed copies": _copies.exposed_copies,
    "exposed communication": _device.exposed_communication,
    "straggler": _ranks.straggler,
    "warm-up": _host.warm_up,
    "start-up": _host.start_up,
}
"""What is looked for, each by a rule of its own."""

_TITLE = "Findings"
_VIEWS = {
    view.name: view
    for view in (
        api.VIEW,
        breakdown.VIEW,
        idle.VIEW,
        kernel.VIEW,
        launch.VIEW,
        manipulation.VIEW,
        model.VIEW,
        ranks.VIEW,
        steps.VIEW,
    )
}
"""Views whose cells are evidence."""
_COLUMNS = frozenset(
    {"grid_x", "grid_y", "grid_z", "bytes", "args", "event_id"} | graph.COLUMNS | meetings.COLUMNS | _steps.COLUMNS
).union(*(view.columns for view in _VIEWS.values()))


_TOO_LITTLE = Found(why_not="too little device work to judge, and no host threads with operators, calls or steps")
"""Of fewer than LEAST_WORK pieces; no number, so that a summary gathers it with what else has nothing to show."""


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the findings, those of the largest ceiling first. Raises: UsageError."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    thresholds = chosen(options)
    if not index.has("dur_ns").any():
        needs = "needs events with a duration; this trace has none"
        return Section(VIEW.name, _TITLE, notes=(needs, *tabulate.option_notes(options)))

    def view(name: str) -> Section:
        return _VIEWS[name].compute(index, ViewOptions())

    facts = Facts(index, thresholds, view)
    joined = _owners.find(index, join_ranks=True)
    over_ranks = facts if joined.labels == facts.owners.labels else Facts(index, thresholds, view, facts.sections)
    if over_ranks is not facts:
        over_ranks.__dict__["owners"] = joined  # the cached value: collectives meet by rank, whatever the inputs
    said = {name: rule(over_ranks if name == "straggler" else facts) for name, rule in RULES.items()}
    if next(facts.looked_at(), None) is None:
        # Without a graph and with little work no rule looks at anything: that is not the same as nothing found.
        said = {name: found if found.findings or found.why_not else _TOO_LITTLE for name, found in said.items()}
    findings = _in_order([each for found in said.values() for each in _worst(found)])
    notes = _tried(said, findings)
    if len(facts.owners) > _facts.OWNERS and not len(facts.graphs) < _facts.OWNERS:
        notes.append(f"only the first {_facts.OWNERS} of {len(facts.owners):,} ranks or inputs were checked")
    if not findings:
        return Section(VIEW.name, _TITLE, notes=(*notes, *tabulate.option_notes(options)))
    table, findings = _table(findings, options)
    if len(findings) > 1:
        notes.insert(0, "these savings overlap, so they do not add up")
    notes += tabulate.option_notes(options, table)
    return Section(VIEW.name, _TITLE, (table,), notes=tuple(notes), findings=tuple(findings))


def _worst(found: Found) -> list[Finding]:
    """Return the finding of each kind of the rank that can win most, with how many others show it.

    A rule may give several findings of one rank, such as kernels; then each is told.
    """
    out: list[Finding] = []
    for rule in dict.fromkeys(each.rule for each in found.findings):
        mine = _in_order([each for each in found.findings if each.rule == rule])
        others = sorted({each.owner for each in mine} - {mine[0].owner})
        of_worst = [each for each in mine if each.owner == mine[0].owner]
        if others:
            some = ", ".join(others[:3]) + (" ..." if len(others) > 3 else "")
            more = f" {grouping.plural('other', len(others))} {'shows' if len(others) == 1 else 'show'} it too: {some}."
            of_worst = [replace(each, claim=each.claim + more) for each in of_worst]
        out += of_worst
    return out


def _in_order(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: (-each.ceiling_ns, each.rule, each.owner, each.claim))


def _table(findings: list[Finding], options: ViewOptions) -> tuple[ReportTable, list[Finding]]:
    """Return the small table of the findings, and the findings in its order, cut as it is."""
    owners = [each.owner for each in findings]
    columns = [
        Column("won", "Could save up to", Unit.NS, [each.ceiling_ns for each in findings], 0),
        Column("share", "Share", Unit.RATIO, [each.share for each in findings], 0),
        Column("confidence", "Confidence", Unit.TEXT, [each.confidence for each in findings], 0),
        *([Column("owner", "Rank", Unit.TEXT, owners, 0)] if any(owners) else []),
        Column("rule", "Finding", Unit.TEXT, [each.rule for each in findings], 0),
        Column("number", "Number", Unit.ID, list(range(len(findings))), 9),
    ]
    table = tabulate.finish("findings", _TITLE, columns, options, own_order="won")
    order = [place for place in table.column("number").values if isinstance(place, int)]
    shown = tuple(column for column in table.columns if column.name != "number")
    return replace(table, columns=shown), [findings[place] for place in order]


def _tried(said: dict[str, Found], findings: list[Finding]) -> list[str]:
    """Return a note on the rules that found nothing, and one on the rules that could not be checked."""
    notes = []
    clean = [name for name, found in said.items() if not found.findings and not found.why_not]
    unable = [(name, found.why_not) for name, found in said.items() if found.why_not and not found.findings]
    if clean:
        notes.append(f"{'checked and not found' if findings else 'nothing found; checked'}: {', '.join(clean)}")
    elif not findings:
        # "needs": a summary names it with the other views that have nothing to say, and this view alone says why.
        notes.append("needs device work, calls of the host, steps or a data loader; no rule could be checked here")
    reasons: dict[str, list[str]] = {}
    for name, why in unable:
        reasons.setdefault(why, []).append(name)
    if reasons:
        texts = [f"{', '.join(names)} ({why})" for why, names in reasons.items()]
        notes.append(f"not checked: {'; '.join(texts)}")
    return notes


_SHOWS = (
    ColumnSpec("rule", "Finding", Unit.TEXT, "The name of the rule."),
    ColumnSpec(
        "won", "Won at most", Unit.NS, "The upper bound of the savings: how much shorter the critical path would be."
    ),
    ColumnSpec("share", "Share", Unit.RATIO, "The upper bound of the savings, as a share of the window."),
    ColumnSpec("confidence", "Confidence", Unit.TEXT, "The confidence of the rule: high, medium or low."),
    ColumnSpec("owner", "Rank", Unit.TEXT, "The rank, process or input."),
)

VIEW = View(
    name="findings",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=frozenset(),
    compute=compute,
    shows=_SHOWS,
    options=THRESHOLDS,
)

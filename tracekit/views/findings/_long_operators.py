"""Rule of `findings` about operators that compute on the host for long while the device is idle.

An operator such as a sort on the CPU, once a step, is one cause with a name. It is not slow launching: what the host
takes from one launch to the next is short everywhere else. A piece of an operator is a stretch in which it runs no
other operator and no call. A piece is long if it takes many times the median of all pieces.
"""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.intervals import Ranges, difference, length, merge, union
from tracekit.analysis.path_graph import PathPart
from tracekit.index import gaps as _gaps
from tracekit.index.steps import covered
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.display import plural
from tracekit.model.report import Finding
from tracekit.model.schema import API_CALLS, Kind
from tracekit.model.units import Unit
from tracekit.views.findings._facts import (
    NO_PATH,
    NO_WORK,
    Bound,
    Facts,
    RuleResult,
    how,
    named,
    read_back,
    span,
    sure,
    whole_percent,
)
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.tables import operator

_KINDS = (Kind.OPERATOR, Kind.OPERATOR_INNER)
LONG = 20
"""How many times the median piece of an operator a long one takes."""
_SHORTEST_NS = 300_000
"""A shorter piece is never long, however quick the other operators are."""
_IDLE = 0.5
"""The least part of a long piece in which the device is idle: behind a busy device it does no harm."""
_JUST_BEFORE_NS = 100_000
"""The longest time between a read-back and the operator that computes with its result."""
_MOST_NAMES = 3
_LONGEST_NAME = 300
_WAITS = re.compile(r"copy|::item$|_local_scalar_dense|::_?to$")
"""Operators that wait for the device: without API calls, the wait is part of their own time."""


@dataclass(frozen=True, slots=True, eq=False)
class LongPieces:
    """The long pieces of an owner's operators. nodes: a mask over the nodes of its graph; times: merged."""

    nodes: Mask
    times: Ranges


def long_pieces(facts: Facts, owner: int) -> LongPieces:
    """Return the stretches in which an operator alone keeps the device waiting; none of them in a loader."""
    own = facts.graphs[owner]
    nodes, host = own.graph.nodes, own.graph.nodes.devices_from
    found = np.zeros(own.rows.size, np.bool_)
    pieces = np.flatnonzero((nodes.parts[:host] == PathPart.HOST) & facts.kinds(*_KINDS)[own.rows[:host]])
    lengths = nodes.ends[pieces] - nodes.starts[pieces]
    pieces, lengths = pieces[lengths > 0], lengths[lengths > 0]
    if pieces.size and facts.work.rows.size:
        pieces = pieces[lengths >= max(_SHORTEST_NS, LONG * float(np.median(lengths)))]
        starts, ends = nodes.starts[pieces], nodes.ends[pieces]
        work = facts.owners.codes[facts.work.rows] == owner
        busy = merge(facts.work.starts[work], (facts.work.starts + facts.work.durations)[work])
        quiet = ends - starts - (covered(busy, ends) - covered(busy, starts))
        found[pieces[quiet >= _IDLE * (ends - starts)]] = True
        if facts.loads.size:
            found &= ~facts.inside(owner, facts.loads)
    at = np.flatnonzero(found)
    return LongPieces(found, merge(nodes.starts[at], nodes.ends[at]))


def long_operators(facts: Facts) -> RuleResult:
    """Return operators that take long on the host, each by its name, while the device waits."""
    if not facts.graphs:
        return RuleResult(why_not=NO_PATH)
    if not facts.work.rows.size:
        return RuleResult(why_not=NO_WORK)
    if not facts.kinds(*_KINDS).any():
        return RuleResult(why_not="the trace has no operators")
    found: list[Finding] = []
    times: dict[str, Ranges] = {}
    codes, names = facts.names
    least = max(facts.thresholds["long_operator_share"], facts.thresholds["least_share"])
    for owner, own in facts.graphs.items():
        long = long_pieces(facts, owner)
        at = np.flatnonzero(long.nodes)
        by_name = sets.unique(codes[own.rows[at]])
        low, high = facts.window(owner)
        calls = bool((facts.kinds(*API_CALLS) & (facts.owners.codes == owner)).any())
        candidates = []
        for code in by_name.tolist():
            mine = at[codes[own.rows[at]] == code]
            taken = int((own.graph.nodes.ends - own.graph.nodes.starts)[mine].sum())
            if code < 0 or taken < least * (high - low) or (not calls and _WAITS.search(names[code][:_LONGEST_NAME])):
                continue
            bound = _bound(facts, owner, mine)
            if bound.share >= least:
                candidates.append((bound, mine, names[code]))
        candidates.sort(key=lambda each: (-each[0].ns, each[2]))
        for bound, mine, name in candidates[:_MOST_NAMES]:
            pieces = merge(own.graph.nodes.starts[mine], own.graph.nodes.ends[mine])
            label = facts.label(owner)
            times[label] = union(times[label], pieces) if label in times else pieces
            found.append(_finding(facts, owner, name, mine, bound))
    return RuleResult(tuple(found), times=times)


def _bound(facts: Facts, owner: int, pieces: I64) -> Bound:
    """Return the bound if these pieces took no time, nor the rest of their operators that launch nothing.

    Nor the read-backs just before them: an operator that computes on the host needs its input there.
    """
    own = facts.graphs[owner]
    rows = sets.unique(own.rows[pieces])
    mask = np.zeros(own.rows.size, np.bool_)
    mask[pieces] = True
    quiet = rows[~_holding(facts, rows, facts.calls_of(facts.work.rows))]
    if quiet.size:
        # A long call inside has a name of its own.
        mask |= facts.nodes_of(owner, quiet) | (facts.inside(owner, quiet) & ~facts.kinds(*API_CALLS)[own.rows])
    bound = facts.bounds(owner, [mask])[0]
    waits = _reads_before(facts, owner, quiet)
    if not waits.size:
        return bound
    gone = read_back(facts, waits)
    others = sets.unique(np.concatenate((own.rows[mask], gone.operators, gone.copies)))
    with_waits = facts.without(owner, gone.calls, others)
    return with_waits if with_waits.ns > bound.ns else bound


def _reads_before(facts: Facts, owner: int, rows: I64) -> I64:
    """Return the calls that wait for the device just before one of these operators, on its thread."""
    calls = np.flatnonzero(facts.kinds(*API_CALLS) & facts.index.has("tid") & (facts.owners.codes == owner))
    if not rows.size or not calls.size:
        return calls[:0]
    lanes = _gaps.keys_of(facts.index, np.concatenate((calls, rows)), _gaps.THREAD)
    of_rows = lanes[calls.size :]
    order = np.lexsort((facts.starts[calls], lanes[: calls.size]))
    calls, lanes = calls[order], lanes[: calls.size][order]
    found = []
    for lane in sets.unique(of_rows).tolist():  # few: the threads
        mine, own = calls[lanes == lane], rows[of_rows == lane]
        at = np.searchsorted(facts.starts[mine], facts.starts[own]) - 1
        own, at = own[at >= 0], at[at >= 0]
        before = mine[at]
        near = facts.starts[own] - (facts.starts[before] + facts.lengths[before])
        found.append(before[(near >= 0) & (near <= _JUST_BEFORE_NS)])
    last = sets.unique(np.concatenate(found))
    waits: I64 = last[np.isin(last, facts.graphs[owner].waits)]
    return waits


def _holding(facts: Facts, rows: I64, calls: I64) -> Mask:
    """Return which of these operators launch work, by the time of the calls on any thread of theirs."""
    begun = np.sort(facts.starts[calls])
    ends = facts.starts[rows] + facts.lengths[rows]
    found: Mask = np.searchsorted(begun, ends, "left") > np.searchsorted(begun, facts.starts[rows], "left")
    return found


def _finding(facts: Facts, owner: int, name: str, pieces: I64, bound: Bound) -> Finding:
    own = facts.graphs[owner]
    nodes = own.graph.nodes
    rows = sets.unique(own.rows[pieces])
    lengths = nodes.ends[pieces] - nodes.starts[pieces]
    each = np.zeros(rows.size, np.int64)
    np.add.at(each, np.searchsorted(rows, own.rows[pieces]), lengths)
    within = merge(nodes.starts[pieces], nodes.ends[pieces])
    low, high = facts.window(owner)
    mine = facts.owners.codes[facts.work.rows] == owner
    busy = merge(facts.work.starts[mine], (facts.work.starts + facts.work.durations)[mine])
    quiet = length(difference(within, busy)) / max(length(within), 1)
    often = (
        "once" if rows.size == 1 else f"{plural(rows.size, 'time')}, {span(int(np.median(each)))} each in the median"
    )
    return Finding(
        "long operator",
        facts.label(owner),
        f"One operator, {named(name)}, takes {span(int(lengths.sum()))} on the host ({often}; "
        f"{whole_percent(int(lengths.sum()) / max(high - low, 1))} of {facts.where(owner)}), and the device is idle in "
        f"{whole_percent(quiet)} of that time.",
        tuple(facts.cells("operator", name, ("calls", "self"), name=name)),
        facts.ids(rows),
        bound.ns,
        bound.share,
        sure(bound, "medium"),
        f"other pieces of operators take {LONG} times less in the median; the trace does not show whether the operator "
        "computes or waits for something on the host" + how(bound),
        f"Move {named(name)} to the device, do it in the background while the device works, or do it less often.",
        f"tracekit summary NEW --view operator: the host time of {named(name)} falls.",
    )


LONG_OPERATOR = Rule(
    "long operator",
    long_operators,
    thresholds=(
        threshold(
            "long_operator_share",
            0.05,
            Unit.RATIO,
            "Long operator: the least savings, as a share of the window.",
        ),
    ),
    evidence=(operator.VIEW,),
    precedence=14,
)

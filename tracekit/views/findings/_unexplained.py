"""Rule of `findings` about idle time of the device that no other rule explains: it is always answered.

It is checked last: it reads what the others have found. The idle time is that of the owner's busiest device, within
the window, with the time before the first work and after the last. A rule explains what lies in the times of its
findings; needless synchronization explains as much of the rest as it could save, unless the host then does for longer
what no row shows. Waits for requests that a range names are explained too: their cause is in the trace. Other regular
pauses are not silently taken for requests.
"""

from __future__ import annotations

import numpy as np

from tracekit.analysis.intervals import Ranges, clip, difference, gaps, intersection, length, merge, union
from tracekit.analysis.path_graph import PathPart
from tracekit.index import pauses as _pauses_of_hosts
from tracekit.index.gaps import THREAD, keys_of
from tracekit.index.pauses import Pauses
from tracekit.index.steps import covered
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.display import plural
from tracekit.model.report import Evidence, Finding
from tracekit.model.schema import API_CALLS, USER_RANGES, Kind
from tracekit.model.units import Unit
from tracekit.views.device import breakdown, idle
from tracekit.views.findings._facts import (
    NO_WORK,
    OPERATORS,
    Bound,
    Facts,
    RuleResult,
    named,
    row_of,
    span,
    whole_percent,
)
from tracekit.views.findings._pauses import idle_of_busiest_stream, overhead_of
from tracekit.views.findings.rule import Rule, threshold

NAME = "idle, cause not in the trace"
_SYNCHRONIZATION = "needless synchronization"
_HALF = 0.5
"""The least part of the idle time that rules must explain, or this one speaks."""
_SHORTEST_PAUSE = 20_000
"""A shorter stretch without host rows is Python between two operators."""
_SILENT = 100_000
"""A stretch without host rows that is this long is work of the host, whatever keeps the device waiting before it."""
_REGULAR_SPREAD = 0.5
"""Half of the distances between regular gaps differ by no more than this part of their median."""
_LEAST_REGULAR = 4
_LONG_GAPS = 0.9
"""Gaps are described by the longest of them, which hold this part of the idle time."""


def unexplained_idle(facts: Facts) -> RuleResult:
    """Return idle time of the device that no rule explains: how much, where, what the host does, what to record."""
    if not facts.work.rows.size:
        return RuleResult(why_not=NO_WORK)
    found = []
    times: dict[str, Ranges] = {}
    for owner in facts.looked_at():
        low, high = facts.window(owner)
        devices = [(_busy(facts, device.positions, low, high), device) for device in facts.devices_of(owner)]
        if not devices or high <= low:
            continue
        busy, device = max(devices, key=lambda each: length(each[0]))
        every = gaps(busy, low, high)
        whole = length(every)
        if whole < max(facts.thresholds["idle_share"] * (high - low), facts.thresholds["idle_ns"]):
            continue
        left = difference(every, _explained(facts, owner))
        waited = _waited(facts, owner)
        # Where the host does for longer what no row shows than the wait costs, the wait is not what the device waits
        # for: without it, the host would still come late.
        behind = bool(waited) and _silent_ns(facts, owner, left) > waited
        ns = length(left) - (0 if behind else min(waited, length(left)))
        if ns <= _HALF * whole:
            continue
        bound = _bound(facts, owner, left)
        times[facts.label(owner)] = left
        where = "the steps" if facts.where(owner) == "the steps" else "the run"
        silent = _silent(facts, owner, left)
        host, what = _host(facts, owner, left)
        requests = (
            silent is not None and what != "profiler" and _may_be_requests(silent, left, int(busy[0].min(initial=high)))
        )
        claim = (
            f"The device is idle for {span(whole)} ({whole_percent(whole / (high - low))} of {where}), and "
            f"{'no rule explains it' if ns == whole else f'no rule explains {span(ns)} of it'}"
            f"{'; if these are waits for requests, this is not a problem' if requests else ''}. "
            f"{_places(facts, left, device.positions)} {host}"
        )
        found.append(
            Finding(
                NAME,
                facts.label(owner),
                claim,
                tuple(
                    _of_whole(facts.cells("breakdown", device.name, ("idle", "idle_share"), **row_of(device)), whole)
                    + facts.cells("idle", "host late", ("total",), cause="host late", **row_of(device))
                ),
                facts.ids(_after(facts, left, device.positions)),
                bound.ns,
                bound.share,
                "medium" if behind and not requests else "low",
                "the idle time is certain, but no row that was read gives its cause"
                + ("; it is more than the waits before it cost" if behind else "")
                + ("; a server that waits for work looks the same" if requests else "")
                + "; the upper bound is for a host that keeps the device fed, and not more than its busiest stream is "
                "idle",
                _advice(facts, owner, what),
                "tracekit summary NEW --view findings: the idle time has a cause; --view idle: it falls.",
            )
        )
    return RuleResult(tuple(found), times=times)


def _of_whole(cells: list[Evidence], whole: int) -> list[Evidence]:
    """Return the cells of the idle time if they are of the same window, else none: they would contradict the claim."""
    same = cells and isinstance(cells[0].value, int) and abs(cells[0].value - whole) * 50 <= whole
    return cells if same else []


def _busy(facts: Facts, positions: I64, low: int, high: int) -> Ranges:
    return clip(merge(facts.devices.starts[positions], facts.devices.ends[positions]), low, high)


def _explained(facts: Facts, owner: int) -> Ranges:
    """Return the times that findings of other rules, and ranges that wait for requests, explain."""
    label = facts.label(owner)
    found = merge(np.zeros(0, np.int64), np.zeros(0, np.int64))
    for result in facts.results.values():
        if label in result.times and any(each.owner == label for each in result.findings):
            found = union(found, result.times[label])
    pauses = facts.pauses(owner)
    if pauses is not None:
        requests = pauses.only(pauses.named)
        found = union(found, merge(requests.starts, requests.ends))
    return found


def _waited(facts: Facts, owner: int) -> int:
    """Return the ns of idle time that goes with needless synchronization: the device idles after each wait."""
    result = facts.results.get(_SYNCHRONIZATION)
    mine = [each.saving_ns for each in result.findings if each.owner == facts.label(owner)] if result else []
    return max(mine, default=0)


def _silent_ns(facts: Facts, owner: int, left: Ranges) -> int:
    """Return the ns of these idle times in which the host has no rows for long."""
    pauses = _pauses_of_hosts.find(facts.index, facts.owners, owner, loader=facts.loader, least=_SILENT)
    if pauses is None:
        return 0
    return length(intersection(left, merge(pauses.starts, pauses.ends)))


def _bound(facts: Facts, owner: int, left: Ranges) -> Bound:
    """Return the bound if the device did not wait for what is not in the trace.

    Pauses of the host count whole, because work of the device may hide their first part.
    """
    low, high = facts.window(owner)
    since = int(left[0][0])
    most = max(length(left), idle_of_busiest_stream(facts, owner, since, high))
    pauses = _pauses_of_hosts.find(facts.index, facts.owners, owner, loader=facts.loader, least=_SHORTEST_PAUSE)
    spent = left
    if pauses is not None and pauses.starts.size:
        touched = covered(left, pauses.ends) > covered(left, pauses.starts)
        spent = union(left, merge(pauses.starts[touched], pauses.ends[touched]))
    ns = min(most, length(clip(spent, low, high)))
    return Bound(ns, ns / (high - low), owner in facts.graphs)


def _silent(facts: Facts, owner: int, left: Ranges) -> Pauses | None:
    """Return the pauses of the host in which the device idles without a cause; None where no launch is known."""
    pauses = facts.pauses(owner)
    if pauses is None or not pauses.starts.size:
        return None
    touched = covered(left, pauses.ends) > covered(left, pauses.starts)
    return pauses.only(touched)


def _may_be_requests(pauses: Pauses, left: Ranges, begin: int) -> bool:
    """Return whether most of the idle time lies in regular pauses of the host outside steps, after the first work."""
    some = pauses.only(pauses.regular & ~pauses.in_step & (pauses.starts >= begin))
    lengths = some.ends - some.starts
    if not lengths.size or 2 * lengths.max() > lengths.sum():  # one of them is most: that is not what is usual
        return False
    return 2 * length(intersection(left, merge(some.starts, some.ends))) >= length(left)


def _long(left: Ranges) -> Ranges:
    """Return the longest gaps, which make up most of the idle time, in order of time."""
    starts, ends = left
    lengths = ends - starts
    order = np.argsort(-lengths, kind="stable")
    kept = np.sort(order[: int(np.searchsorted(np.cumsum(lengths[order]), _LONG_GAPS * lengths.sum())) + 1])
    return starts[kept], ends[kept]


def _places(facts: Facts, left: Ranges, positions: I64) -> str:
    """Return how many gaps there are, how long they are, between what they lie, and whether they are regular."""
    starts, ends = _long(left)
    lengths = ends - starts
    before, after = _before(facts, starts, positions), _next(facts, ends, positions)
    codes, names = facts.names
    code = np.append(codes, -1)
    pair = code[before].astype(np.int64) * (len(names) + 2) + code[after]
    _, place = np.unique(pair, return_inverse=True)
    total = np.zeros(int(place.max()) + 1, np.int64)
    np.add.at(total, place, lengths)
    mine = place == int(total.argmax())
    first = int(np.flatnonzero(mine)[0])
    share = int(total.max()) / int(lengths.sum())
    follows, precedes = _called(facts, int(before[first]), "the start"), _called(facts, int(after[first]), "the end")
    comes = f"after {follows}, before {precedes}"
    if lengths.size == 1:
        return f"It lies {comes}, in one gap of {span(int(lengths[0]))}."
    text = (
        f"Most of it lies in {plural(lengths.size, 'gap')} of {span(int(np.median(lengths)))} (median; the longest "
        f"{span(int(lengths.max()))})"
    )
    distances = np.diff(starts)
    if lengths.size >= _LEAST_REGULAR:
        low, middle, high = (float(each) for each in np.quantile(distances, (0.25, 0.5, 0.75)))
        if high - low <= _REGULAR_SPREAD * middle:
            text += f", regular: one every {span(round(middle))}"
        else:
            text += ", not regular"
    part = "" if share > 0.995 else f"{whole_percent(share)} of it "
    return f"{text}; {part}{comes}."


def _called(facts: Facts, row: int, otherwise: str) -> str:
    return named(facts.name_of(row)) or "work without a name" if row >= 0 else f"{otherwise} of the window"


def _before(facts: Facts, at: I64, positions: I64) -> I64:
    """Return the row of the device work that ended last before each time, -1 for none."""
    ends = facts.devices.ends[positions]
    order = np.argsort(ends, kind="stable")
    rows = np.append(facts.devices.rows[positions[order]], -1)
    found: I64 = rows[np.searchsorted(ends[order], at, "right") - 1]
    return found


def _next(facts: Facts, at: I64, positions: I64) -> I64:
    """Return the row of the device work that begins first from each time on, -1 for none."""
    starts = facts.devices.starts[positions]
    order = np.argsort(starts, kind="stable")
    found: I64 = np.append(facts.devices.rows[positions[order]], -1)[np.searchsorted(starts[order], at, "left")]
    return found


def _after(facts: Facts, left: Ranges, positions: I64) -> I64:
    """Return the device work after each of the gaps that the claim counts."""
    rows = _next(facts, _long(left)[1], positions)
    return rows[rows >= 0]


def _host(facts: Facts, owner: int, left: Ranges) -> tuple[str, str]:
    """Return what the host does in the idle time, as a sentence and as one word: nothing, range, call, operator, ""."""
    if owner not in facts.graphs:
        return "What the host does is not known: the trace has no host rows.", ""
    own = facts.graphs[owner]
    nodes, host = own.graph.nodes, own.graph.nodes.devices_from
    launching = sets.unique(nodes.chain[:host][nodes.parts[:host] == PathPart.LAUNCH])
    if launching.size:
        at = np.flatnonzero(np.isin(nodes.chain[:host], launching))
        who = "the threads that launch"
    else:
        at, who = np.arange(host), "the host's threads"
    starts, ends, rows = nodes.starts[at], nodes.ends[at], own.rows[at]
    overlap = covered(left, ends) - covered(left, starts)
    whole = length(left)
    steps = facts.kinds(Kind.STEP)[rows]
    calls, ranges = facts.kinds(*API_CALLS)[rows], facts.kinds(*USER_RANGES)[rows]
    python = facts.kinds(Kind.PYTHON_OP)[rows]
    parts = [
        ("call", calls, "call"),
        ("operator", facts.kinds(*OPERATORS)[rows] & ~python, "operator"),
        ("range", python, "Python function"),
        ("range", ranges & ~steps, "range"),
    ]
    said: list[tuple[int, str, str]] = []
    known = merge(starts[~steps], ends[~steps])
    nothing = whole - length(intersection(left, known))
    rows_of = "operator, call or range" if facts.has_operators(owner) else "call or range"
    said.append((nothing, "nothing", f"no {rows_of} runs on {who}"))
    for word, mask, where in parts:
        name, _ = facts.most_common(rows[mask], overlap[mask])
        mine = _shared(starts[mask], ends[mask], left)
        if name and mine:
            of_name = mask & (facts.names[0][rows] == facts.names[1].index(name))
            own_ns = _shared(starts[of_name], ends[of_name], left)
            kind = f"the {where} {named(name)}"
            if own_ns <= 0.9 * mine:
                kind = f"{where}s (most in {named(name)}, {whole_percent(own_ns / whole)})"
            said.append((mine, word, f"the host is in {kind}"))
    said += _beside(facts, owner, rows, left)
    said.sort(key=lambda each: -each[0])
    shown = [f"for {whole_percent(ns / whole)} of that time {text}" for ns, _, text in said[:2] if ns >= 0.1 * whole]
    words = f"{'; '.join(shown)}." if shown else ""
    # What is there for half of the time says more than that no call is.
    telling = [word for ns, word, _ in said if word != "nothing" and 2 * ns >= whole]
    return words[:1].upper() + words[1:], telling[0] if telling else said[0][1]


def _beside(facts: Facts, owner: int, rows: I64, left: Ranges) -> list[tuple[int, str, str]]:
    """Return what rows beside the calls and ranges say: the profiler's own costs, and calls of the system.

    rows: of the threads in question.
    """
    found = []
    system = np.flatnonzero(facts.kinds(Kind.OTHER) & facts.timed & facts.index.has("tid") & ~facts.index.has("device"))
    lanes = keys_of(facts.index, np.concatenate((rows, system)), THREAD)
    system = system[np.isin(lanes[rows.size :], lanes[: rows.size])]
    overhead = overhead_of(facts, owner)
    for every, word, text in (
        (overhead, "profiler", "the profiler works itself, mostly in"),
        (system, "system", "the host is in calls of the system, mostly in"),
    ):
        overlap = covered(left, facts.starts[every] + facts.lengths[every]) - covered(left, facts.starts[every])
        name, ns = facts.most_common(every, overlap)
        if ns:
            shared = _shared(facts.starts[every], facts.starts[every] + facts.lengths[every], left)
            found.append((shared, word, f"{text} {named(name)}"))
    return found


def _shared(starts: I64, ends: I64, left: Ranges) -> int:
    """Return the ns of the merged ranges `left` in which one of the other ranges runs."""
    return length(intersection(left, merge(starts, ends)))


def _advice(facts: Facts, owner: int, what: str) -> str:
    """Return what to record, or to do, so that the idle time has a cause."""
    kinds = facts.kinds
    if owner not in facts.graphs or not (kinds(*API_CALLS) & (facts.owners.codes == owner)).any():
        return (
            "Record the host too: API calls and ranges (nsys: --trace=cuda,nvtx,osrt; PyTorch: ProfilerActivity.CPU; "
            "rocprofv3: --hip-trace --marker-trace; nvprof: without --print-gpu-trace)."
        )
    if what == "operator":
        return (
            "The device waits for these operators: make them cheaper or fewer (fused, compiled, larger batches), or "
            "let the host run ahead of the device. Python stacks (with_stack=True) show what is behind them."
        )
    if what == "profiler":
        return (
            "Leave this time out of what you measure: a run without the profiler does not have it. To lower it, record "
            "fewer steps or fewer activities, and give the profiler larger buffers."
        )
    if what == "system":
        return (
            "See what calls these: put ranges around what the host does there, or sample its stacks (nsys: "
            "--sample=cpu --python-sampling=true; py-spy record). Then do it beside the device's work."
        )
    if what == "call":
        return "Look at these calls in the view api, and at what makes them wait or work: --view api, --view idle."
    if what == "range":
        return (
            "Put ranges inside this one, or record Python stacks (with_stack=True), to see what takes the time; then "
            "let it run beside the device's work."
        )
    if facts.has_operators(owner):
        return (
            "Put a range (record_function) around what the host does there, such as scheduling, sampling, logging or "
            "loading, or record Python stacks (with_stack=True; py-spy record). Then prepare the next round while the "
            "device works."
        )
    return (
        "Put ranges around what the host does there (NVTX; PyTorch: record_function and ProfilerActivity.CPU), and "
        "record the system's calls (nsys: --trace=osrt --sample=cpu --python-sampling=true; a file that has them shows "
        "them with --option osrt=yes). A loader can run in other processes, a scheduler while the device works."
    )


UNEXPLAINED_IDLE = Rule(
    "unexplained idle time",
    unexplained_idle,
    thresholds=(
        threshold(
            "idle_share",
            0.2,
            Unit.RATIO,
            "Idle, cause not in the trace: the least idle time, as a share of the window.",
        ),
        threshold("idle_ns", 1_000_000, Unit.NS, "Idle, cause not in the trace: the least idle time."),
    ),
    evidence=(breakdown.VIEW, idle.VIEW),
)

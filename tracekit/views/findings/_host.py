"""Rules of `findings` about what the host does: data loading, synchronization, launching, warm-up, start-up."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from tracekit.analysis.intervals import Ranges, clip, difference, gaps, length, merge, union
from tracekit.analysis.nesting import innermost
from tracekit.analysis.path_graph import PathPart
from tracekit.analysis.segments import distinct
from tracekit.analysis.series import judge
from tracekit.index import gaps as _gaps
from tracekit.index import launches
from tracekit.index.devices import IndexedDevice
from tracekit.index.lanes import device_in
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.report import Finding
from tracekit.model.schema import API_CALLS, Kind
from tracekit.model.units import Unit
from tracekit.views.device import idle, launch
from tracekit.views.findings import _facts
from tracekit.views.findings._facts import (
    NAMED,
    NO_PATH,
    NO_WORK,
    OPERATORS,
    Bound,
    Facts,
    RuleResult,
    how,
    named,
    row_of,
    span,
    sure,
    whole_percent,
)
from tracekit.views.findings._long_operators import long_pieces
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.tables import api

_RANGES = (*OPERATORS, Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.FORWARD, Kind.BACKWARD, Kind.OPTIMIZER)
_SYNCHRONIZE = re.compile(r"\w*Synchronize")
LEAST_KERNELS = 10
"""Minimum number of kernels in the window before launch-bound is considered."""
_LAST_WAITS = "each wait is the last one before a pause that may be a wait for requests"
"""Why waits are not judged: the answer to a request needs their result."""
_MANY_KERNELS = 100
"""With fewer kernels, one long gap can be most of the idle time: the longest gaps may then not be."""
_LONGEST_GAPS = 0.1
_LONG_GAP = 20
"""How many times the median gap a gap takes that is not slow launching: it has a cause of its own."""
_SHORTEST_LONG_GAP = 300_000
_LONG_CALL = 20
"""How many times the median launch call one takes that does something else, such as loading a module."""


def needless_sync(facts: Facts) -> RuleResult:
    """Return where the host waits for a device and the device then waits for the host."""
    if not facts.kinds(*API_CALLS).any():
        return RuleResult(why_not="the trace has no runtime or driver API calls")
    if not facts.work.rows.size:
        return RuleResult(why_not=NO_WORK)
    found = []
    times: dict[str, Ranges] = {}
    linked = bool((facts.launched.launch >= 0).any())
    unseen = False
    blocking = launches.blocking_calls(facts.index, facts.devices.rows, facts.devices.ends, facts.launched)
    for owner, own_graph in facts.graphs.items():
        calls = facts.within(owner, distinct(own_graph.waits, facts.index.events.num_rows))
        last = _before_a_request(facts, owner, calls)
        calls = calls[~last]
        if not calls.size:
            unseen |= bool(last.any())
            continue
        low, high = facts.window(owner)
        waits, device = _idle(facts, owner, ("synchronization",))
        idle, least = length(waits), facts.thresholds["sync_share"] * (high - low)
        if idle and length(facts.ranges(sets.common(calls, blocking))) >= least:
            # Behind a long wait the device also waits for what the host could have launched meanwhile.
            idle = length(_idle(facts, owner, ("synchronization", "host late", "launch latency"))[0])
        # A wait behind which the device has work left keeps nothing waiting; where no launch is known, nor is this.
        if linked and idle < least:
            continue
        gone = _facts.read_back(facts, calls)
        bound = facts.without(owner, calls, np.concatenate((gone.calls, gone.operators, gone.copies)))
        if bound.share < max(facts.thresholds["sync_share"], facts.thresholds["least_share"]):
            continue
        took = facts.lengths[calls]
        name, _ = facts.most_common(calls, took)
        codes, names = facts.names
        own = calls[codes[calls] == names.index(name)] if name else calls
        where, _ = _under(facts, calls)
        place = {} if device is None else row_of(device)
        times[facts.label(owner)] = facts.ranges(calls)
        found.append(
            Finding(
                "needless synchronization",
                facts.label(owner),
                f"The host waits for the device in {calls.size:,} {'call' if calls.size == 1 else 'calls'} "
                f"({span(int(took.sum()))} in them, {named(name)} most), and the device then has no work."
                + (f" Most of it under {named(where)}." if where else ""),
                tuple(
                    facts.own_cells(owner, "api", name, ("calls", "total"), name=name)
                    + facts.cells("idle", "synchronization", ("total",), cause="synchronization", **place)
                ),
                facts.ids(own),
                bound.ns,
                bound.share,
                "medium",
                "the trace shows that the calls wait, not whether the program needs their result at once",
                "Find what reads a value back (.item(), .numpy(), print of a loss, a copy to the host, a shape that "
                "depends on data) and do it rarely, or asynchronously from pinned memory; drop explicit synchronize "
                "calls.",
                f"tracekit summary NEW --view api, and --view idle: total of {named(name)} and of the cause "
                "synchronization fall.",
            )
        )
    why = "" if facts.graphs else NO_PATH
    return RuleResult(tuple(found), why or (_LAST_WAITS if unseen else ""), times)


def _before_a_request(facts: Facts, owner: int, calls: I64) -> Mask:
    """Return which of these waits are the last of the program's work for one request: its result must be there.

    What comes next is the wait for another request, and that is over when the request comes, whatever the host does.
    """
    pauses = facts.pauses(owner)
    if pauses is None or not pauses.request.any():
        return np.zeros(calls.size, np.bool_)
    mine = facts.work.rows[facts.owners.codes[facts.work.rows] == owner]
    never = np.iinfo(np.int64).max
    launches = np.append(np.sort(facts.starts[facts.calls_of(mine)]), never)
    requests = np.append(pauses.ends[pauses.request], never)
    ends = facts.starts[calls] + facts.lengths[calls]
    found: Mask = launches[np.searchsorted(launches, ends)] >= requests[np.searchsorted(requests, ends)]
    # A request that has come already is taken at once: the same call is followed by the same operator or call.
    codes, _ = facts.names
    active = np.flatnonzero(facts.kinds(*OPERATORS, *API_CALLS) & facts.timed & (facts.owners.codes == owner))
    active = active[np.argsort(facts.starts[active], kind="stable")]
    after = np.append(active, -1)[np.searchsorted(facts.starts[active], ends)]
    alike = np.isin(codes[calls], codes[pauses.before[pauses.request]])
    return found | (alike & np.isin(codes[after], codes[pauses.after[pauses.request]]))


def _under(facts: Facts, calls: I64) -> tuple[str, int]:
    """Return the operator or range that these calls spent most time in, and how much."""
    ranges = np.flatnonzero(facts.kinds(*_RANGES) & facts.timed)
    if not ranges.size or not calls.size:
        return "", 0
    lanes = _gaps.keys_of(facts.index, np.concatenate((ranges, calls)), _gaps.THREAD)
    at = innermost(
        lanes[: ranges.size],
        facts.starts[ranges],
        facts.starts[ranges] + facts.lengths[ranges],
        lanes[ranges.size :],
        facts.starts[calls],
    )
    return facts.most_common(ranges[at[at >= 0]], facts.lengths[calls[at >= 0]])


def launch_bound(facts: Facts) -> RuleResult:
    """Return where the device waits for launches: most kernels are done before the host launches the next."""
    if not facts.graphs:
        return RuleResult(why_not=NO_PATH)
    if not (facts.launched.launch >= 0).any():
        return RuleResult(why_not="no device event names the call that launched it")
    found, tried = [], False
    times: dict[str, Ranges] = {}
    for owner in facts.graphs:
        kernels = facts.within(owner, np.flatnonzero(facts.kinds(Kind.KERNEL)))
        if kernels.size < LEAST_KERNELS:
            continue
        tried = True
        idle, device = _idle(facts, owner, ("host late", "launch latency"))
        # A loader, a pause of the host, a request that has not come: each has a name of its own.
        low, high = facts.window(owner)
        long = long_pieces(facts, owner)
        explained = union(facts.explained(owner), long.times)
        idle = difference(idle, explained)
        # Launching is slow everywhere or not at all: a few gaps that are much longer than the others are not it.
        longest = _longest(idle)
        idle, explained = difference(idle, longest), union(explained, longest)
        rest = gaps(explained, low, high)
        whole, taken = length(rest), length(idle)
        if device is None or not whole or taken / whole < facts.thresholds["launch_idle_share"]:
            continue
        if kernels.size < _MANY_KERNELS and _few_gaps(idle):
            continue
        own = kernels[_begin_in(rest, facts.starts[kernels])]
        apart = whole // max(own.size, 1)
        short = np.count_nonzero(facts.lengths[own] < apart) / max(own.size, 1)
        if short < facts.thresholds["launch_short_share"]:
            continue
        bound = _launch_bound(facts, owner, long.nodes)
        if bound.share < max(facts.thresholds["launch_idle_share"], facts.thresholds["least_share"]):
            continue
        calls, place = facts.calls_of(kernels), row_of(device)
        where = "each step" if facts.where(owner) == "the steps" else "the run"
        without = "" if whole == high - low else " (loading, pauses and first steps not counted)"
        times[facts.label(owner)] = idle
        operators = facts.has_operators(owner)
        word = device_in(facts.index.run, device.source, device.device).split()[0]
        found.append(
            Finding(
                "launch-bound",
                facts.label(owner),
                f"The {word} waits {whole_percent(taken / whole)} of {where}{without}: the host launches too late. "
                f"{whole_percent(float(short))} of {own.size:,} kernels take less than the {span(apart)} from one "
                "launch to the next.",
                tuple(
                    facts.cells("idle", "host late", ("total", "ratio"), cause="host late", **place)
                    + facts.cells("idle", "launch latency", ("total", "ratio"), cause="launch latency", **place)
                    + facts.cells("launch", device.name, ("launches_per_s",), **place)
                ),
                facts.ids(calls),
                bound.ns,
                bound.share,
                sure(bound, "medium" if operators else "low"),
                "the upper bound is for operators and launch calls that take no time at all; profilers slow them down "
                "as well"
                + ("" if operators else f"; {facts.without_operators(owner)}, so the host may do other work in between")
                + how(bound),
                "Launch less: a larger batch, fused operators (torch.compile, to_static, fused optimizers), CUDA "
                "graphs for what repeats; and less Python between launches.",
                "tracekit summary NEW --view idle: host late and launch latency fall; --view launch: fewer launches.",
            )
        )
    why = "" if tried else f"fewer than {LEAST_KERNELS} kernels are in the window"
    return RuleResult(tuple(found), why, times)


def _idle(facts: Facts, owner: int, causes: tuple[str, ...]) -> tuple[Ranges, IndexedDevice | None]:
    """Return the idle time of these causes in the window, of the device that has most of it, and the device."""
    low, high = facts.window(owner)
    found = facts.gaps
    wanted = np.isin(found.cause, [_gaps.CAUSES.index(cause) for cause in causes])
    own = {id(device) for device in facts.devices_of(owner)}
    most, chosen = merge(found.starts[:0], found.ends[:0]), None
    for lane, (device, _, _) in enumerate(found.owners):
        if id(device) not in own:
            continue
        mine = (found.lane == lane) & wanted
        idle = clip(merge(found.starts[mine], found.ends[mine]), low, max(low, high))
        if chosen is None or length(idle) > length(most):
            most, chosen = idle, device
    return most, chosen


def _few_gaps(idle: Ranges) -> bool:
    """Return whether the longest tenth of the gaps is most of the idle time: that is not how launching is slow."""
    lengths = np.sort(idle[1] - idle[0])[::-1]
    longest = max(1, round(_LONGEST_GAPS * lengths.size))
    return bool(2 * lengths[:longest].sum() >= lengths.sum())


def _longest(idle: Ranges) -> Ranges:
    """Return the gaps that take many times as long as the median one."""
    lengths = idle[1] - idle[0]
    if not lengths.size:
        return idle
    long = lengths >= max(_SHORTEST_LONG_GAP, _LONG_GAP * float(np.median(lengths)))
    return idle[0][long], idle[1][long]


def _begin_in(ranges: Ranges, times: I64) -> Mask:
    """Return which times lie in the merged ranges."""
    at = np.searchsorted(ranges[0], times, "right") - 1
    found: Mask = (at >= 0) & (times < np.append(ranges[1], 0)[at])
    return found


def _launch_bound(facts: Facts, owner: int, long: Mask) -> Bound:
    """Return the bound if operators and launch calls took no time; first steps keep their excess.

    long: nodes of the graph that have a cause of their own.
    """
    every = _launching(facts, owner)
    launching = every & ~long
    # Without operators, what the host does between two calls for a launch is no row: it goes too, unless it is so long
    # that it is a pause of the host.
    longest = None if facts.has_operators(owner) else int(min(facts.thresholds["pause_ns"], 2**62))
    # What is long would still have taken as long as the others.
    nodes = facts.graphs[owner].graph.nodes
    own = launching & (nodes.parts == PathPart.HOST)
    typical = int(np.median((nodes.ends - nodes.starts)[own])) if own.any() else 0
    extra = typical * int(np.count_nonzero(every & long))
    if longest is not None:
        launching |= _between(facts, owner, launching, longest) & ~long
    first, last = facts.warm_up(owner)
    most = None
    if first.size:
        slow = _begin_in((first, last), nodes.starts)
        mine = facts.steps.owner == owner
        judged = judge(facts.extents.steps.durations[mine])
        rest = facts.bounds(owner, [launching & ~slow], longest=longest)[0]
        most = rest.ns + judged.warm_up * judged.median
    bound = facts.bounds(owner, [launching], most=most, longest=longest)[0]
    low, high = facts.window(owner)
    return replace(bound, ns=bound.ns + extra, share=(bound.ns + extra) / max(high - low, 1)) if extra else bound


def _launching(facts: Facts, owner: int) -> Mask:
    """Return launch calls and operators on the threads that launch; not data loading, and not waits."""
    own = facts.graphs[owner]
    nodes, host = own.graph.nodes, own.graph.nodes.devices_from
    parts = nodes.parts[:host]
    launches = parts == PathPart.LAUNCH
    threads = sets.unique(nodes.chain[:host][launches])
    kinds = facts.kinds(*OPERATORS)[own.rows[:host]]
    found = np.zeros(own.rows.size, np.bool_)
    found[:host] = (launches | (kinds & (parts != PathPart.SYNC))) & np.isin(nodes.chain[:host], threads)
    found &= ~_named_nodes(facts, owner)
    # A call that takes many times the median loads a module or compiles: that is not how launching is slow.
    calls = np.flatnonzero(launches & found[:host])
    lengths = nodes.ends[calls] - nodes.starts[calls]
    if calls.size:
        found[calls[lengths >= max(_SHORTEST_LONG_GAP, _LONG_CALL * float(np.median(lengths)))]] = False
    return found


def _named_nodes(facts: Facts, owner: int) -> Mask:
    """Return the nodes of what has a finding of its own, and of data loading: they are not launching."""
    nodes, label = facts.graphs[owner].graph.nodes, facts.label(owner)
    found = facts.inside(owner, facts.loads) if facts.loads.size else np.zeros(nodes.starts.size, np.bool_)
    for name in NAMED:
        if name in facts.results and label in facts.results[name].times:
            found |= _begin_in(facts.results[name].times[label], nodes.starts)
    return found


def _between(facts: Facts, owner: int, launching: Mask, longest: int) -> Mask:
    """Return the host nodes from one launching node to the next one of its thread, at most `longest` ns apart.

    They are pieces of the range of a step, which says nothing about what runs in it, and API calls that prepare a
    launch, such as cuKernelGetAttribute. Where anything else lies between two launches, such as a range of the program
    or a wait, none of the nodes is returned.
    """
    own = facts.graphs[owner]
    nodes, host = own.graph.nodes, own.graph.nodes.devices_from
    rows = own.rows[:host]
    prepares = facts.kinds(*API_CALLS)[rows] & (nodes.parts[:host] == PathPart.HOST)
    plain = (facts.kinds(Kind.STEP)[rows] | prepares) & ~_named_nodes(facts, owner)[:host]
    at = np.flatnonzero(launching[:host])
    before, after = at[:-1], at[1:]
    others = np.concatenate(([0], np.cumsum(~plain)))
    near = (nodes.chain[before] == nodes.chain[after]) & (nodes.starts[after] - nodes.ends[before] <= longest)
    near &= others[after] == others[before + 1]
    change = np.zeros(launching.size + 1, np.int64)
    np.add.at(change, before[near] + 1, 1)
    np.add.at(change, after[near], -1)
    found: Mask = np.cumsum(change[:-1]) > 0
    return found


NEEDLESS_SYNC = Rule(
    "needless synchronization",
    needless_sync,
    thresholds=(
        threshold(
            "sync_share", 0.02, Unit.RATIO, "Needless synchronization: the least savings, as a share of the window."
        ),
    ),
    evidence=(
        api.VIEW,
        idle.VIEW,
    ),
)

LAUNCH_BOUND = Rule(
    "launch-bound",
    launch_bound,
    thresholds=(
        threshold(
            "launch_idle_share",
            0.1,
            Unit.RATIO,
            "Launch-bound: the least idle time by late launches, and the least savings, as a share of the window.",
        ),
        threshold(
            "launch_short_share",
            0.5,
            Unit.RATIO,
            "Launch-bound: the least share of kernels that are shorter than the time between two launches.",
        ),
    ),
    evidence=(
        idle.VIEW,
        launch.VIEW,
    ),
)

"""Rules of `findings` about what the host does: data loading, synchronization, launching, warm-up, start-up."""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.critical_path import Part
from tracekit.analysis.enclosing import innermost
from tracekit.analysis.intervals import intersection, length, merge, union_length
from tracekit.analysis.series import judge
from tracekit.arrays import I64, Mask
from tracekit.index import gaps as _gaps
from tracekit.index.devices import Device
from tracekit.index.host_waits import named as named_like
from tracekit.report import Finding
from tracekit.schema import API_CALLS, Kind
from tracekit.views.findings import _around
from tracekit.views.findings._facts import Facts, RuleResult, named, percent, row_of, span

_OPERATORS = (Kind.OPERATOR, Kind.OPERATOR_INNER, Kind.PYTHON_OP, Kind.COMMUNICATION)
_RANGES = (*_OPERATORS, Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.FORWARD, Kind.BACKWARD, Kind.OPTIMIZER)
_SYNCHRONIZE = re.compile(r"\w*Synchronize")
LEAST_KERNELS = 100
"""Minimum number of kernels in the window before launch-bound is considered."""


def data_loading(facts: Facts) -> RuleResult:
    """Return where the thread that takes the steps waits for its data."""
    loading = np.flatnonzero(facts.kinds(Kind.DATALOADER) & _timed(facts))
    if not loading.size:
        return RuleResult(
            why_not="no data loader is in the trace: the framework's own range, or one of kind dataloader"
        )
    found: list[Finding] = []
    tried = False
    for owner in facts.graphs:
        ranges, whole = _loading_of(facts, owner, loading)
        if not ranges.size or not whole:
            continue
        tried = True
        loads = merge(facts.starts[ranges], facts.starts[ranges] + facts.lengths[ranges])
        taken = length(loads)
        bound = facts.bounds(owner, [facts.inside(owner, ranges)])[0]
        share = taken / whole
        # Time that hides behind the device saves nothing, so the upper bound must reach the threshold too.
        worth = min(share, bound.share)
        if worth < max(facts.thresholds["data_loading_share"], facts.thresholds["least_share"]):
            continue
        heavy = worth >= facts.thresholds["data_loading_heavy"]
        whole_name = "the step time" if (facts.steps.owner == owner).any() else "the run"
        mine = facts.owners.codes[facts.work.rows] == owner
        confidence, because = "medium", "the trace has no device work: whether a device waits for the data is not known"
        if mine.any():
            work = facts.work
            busy = merge(work.starts[mine], (work.starts + work.durations)[mine])
            idle = 1 - length(intersection(busy, loads)) / taken if taken else 0.0
            confidence = "high" if idle >= 0.5 else "medium"
            because = f"the device was idle in {percent(idle)} of that time"
        found.append(
            Finding(
                "data loading",
                facts.label(owner),
                f"{'Heavily input-bound' if heavy else 'Input-bound'}: data loading takes {percent(share)} "
                f"of {whole_name} ({span(taken)} of {span(whole)}, {ranges.size:,} loads), on the "
                "thread that takes the steps.",
                tuple(
                    facts.cells("model", "Dataloader", ("total", "ratio"), name="Dataloader", **_owned(facts, owner))
                    + facts.cells("model", "ProfileStep", ("total",), name="ProfileStep", **_owned(facts, owner))
                ),
                facts.ids(ranges),
                bound.ns,
                bound.share,
                confidence,
                because,
                "Load in the background: more workers of the data loader (num_workers=4 and up), prefetching, pinned "
                "memory; then make the loading itself cheaper (decoding, augmentation, small files).",
                "tracekit summary NEW --view model: the ratio of Dataloader falls below "
                f"{percent(facts.thresholds['data_loading_share'])}.",
            )
        )
    return RuleResult(tuple(found), "" if tried else "the data loader's ranges are on no thread that steps or launches")


def _loading_of(facts: Facts, owner: int, loading: I64) -> tuple[I64, int]:
    """Return the outermost loads on the threads that take steps, and the time of these steps with the loads.

    Without steps: on the threads that launch work, and the window.
    """
    mine = facts.within(owner, loading)
    stepping = facts.steps.rows[facts.steps.owner == owner]
    by = stepping
    if not stepping.size:
        calls = np.flatnonzero(facts.kinds(*API_CALLS))
        by = calls[facts.owners.codes[calls] == owner]
    if not mine.size or not by.size:
        return mine[:0], 0
    lanes = _gaps.keys_of(facts.index, np.concatenate((mine, by)), _gaps.THREAD)
    threaded = facts.index.has("tid")[mine]
    mine = mine[np.isin(lanes[: mine.size], lanes[mine.size :]) & threaded]
    lanes = _gaps.keys_of(facts.index, mine, _gaps.THREAD) if mine.size else mine
    starts, ends = facts.starts[mine], facts.starts[mine] + facts.lengths[mine]
    order = np.lexsort((-ends, starts, lanes))
    outer = np.ones(mine.size, np.bool_)
    last_lane, last_end = -1, 0
    for i in order.tolist():  # few: a load or two a step
        if int(lanes[i]) == last_lane and int(ends[i]) <= last_end:
            outer[i] = False
        else:
            last_lane, last_end = int(lanes[i]), int(ends[i])
    mine = mine[outer]
    if not stepping.size:
        low, high = facts.window(owner)
        return mine, high - low
    every = np.concatenate((stepping, mine))
    return mine, length(merge(facts.starts[every], facts.starts[every] + facts.lengths[every]))


def needless_sync(facts: Facts) -> RuleResult:
    """Return where the host waits for a device and the device then waits for the host."""
    if not facts.kinds(*API_CALLS).any():
        return RuleResult(why_not="no calls of the runtime or driver are in the trace")
    if not facts.work.rows.size:
        return RuleResult(why_not="no device work is in the trace")
    found = []
    for owner, own_graph in facts.graphs.items():
        calls = facts.within(owner, np.unique(own_graph.waits))
        if not calls.size:
            continue
        gone = _around.read_back(facts, calls)
        bound = facts.without(owner, calls, np.concatenate((gone.calls, gone.operators, gone.copies)))
        if bound.share < max(facts.thresholds["sync_share"], facts.thresholds["least_share"]):
            continue
        took = facts.lengths[calls]
        name, _ = facts.most_common(calls, took)
        codes, names = facts.names
        own = calls[codes[calls] == names.index(name)] if name else calls
        where, _ = _under(facts, calls)
        found.append(
            Finding(
                "needless synchronization",
                facts.label(owner),
                f"The host waits for the device in {calls.size:,} {'call' if calls.size == 1 else 'calls'} "
                f"({span(int(took.sum()))} in them, {named(name)} most), and the device is then without work."
                + (f" Most of it under {named(where)}." if where else ""),
                tuple(
                    facts.cells("api", name, ("calls", "total"), name=name)
                    + facts.cells("idle", "synchronization", ("total",), cause="synchronization")
                ),
                facts.ids(own),
                bound.ns,
                bound.share,
                "medium",
                "the trace tells that the calls wait, not whether the program needs their result at once",
                "Find what reads a value back (.item(), .numpy(), print of a loss, a copy to the host, a shape that "
                "depends on data) and do it rarely, or asynchronously from pinned memory; drop explicit synchronize "
                "calls.",
                f"tracekit summary NEW --view api, and --view idle: total of {named(name)} and of the cause "
                "synchronization fall.",
            )
        )
    return RuleResult(tuple(found), "" if facts.graphs else _NO_PATH)


_NO_PATH = "no host threads with operators, calls or steps are in the trace"


def _under(facts: Facts, calls: I64) -> tuple[str, int]:
    """Return the operator or range that these calls spent most time in, and how much."""
    ranges = np.flatnonzero(facts.kinds(*_RANGES) & _timed(facts))
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
        return RuleResult(why_not=_NO_PATH)
    if not (facts.launched.launch >= 0).any():
        return RuleResult(why_not="no device work names the call that launched it")
    found = []
    for owner in facts.graphs:
        kernels = facts.within(owner, np.flatnonzero(facts.kinds(Kind.KERNEL)))
        if kernels.size < LEAST_KERNELS:
            continue
        idle, whole, device = _idle_for_launches(facts, owner)
        apart = whole // kernels.size
        short = np.count_nonzero(facts.lengths[kernels] < apart) / kernels.size
        if device is None or not whole or idle / whole < facts.thresholds["launch_idle_share"]:
            continue
        if short < facts.thresholds["launch_short_share"]:
            continue
        bound = facts.bounds(owner, [_launching(facts, owner)])[0]
        if bound.share < max(facts.thresholds["launch_idle_share"], facts.thresholds["least_share"]):
            continue
        calls, place = facts.calls_of(kernels), row_of(device)
        found.append(
            Finding(
                "launch-bound",
                facts.label(owner),
                f"The device is idle for {percent(idle / whole)} of {facts.where(owner)} because the host launches too "
                f"late: {percent(float(short))} of {kernels.size:,} kernels take less than the {span(apart)} from one "
                "launch to the next.",
                tuple(
                    facts.cells("idle", "host late", ("total", "ratio"), cause="host late", **place)
                    + facts.cells("idle", "launch latency", ("total", "ratio"), cause="launch latency", **place)
                    + facts.cells("launch", device.name, ("launches_per_s", "short_share"), **place)
                ),
                facts.ids(calls),
                bound.ns,
                bound.share,
                "medium",
                "the upper bound is for operators and launch calls that take no time at all; profilers slow them down "
                "as well",
                "Launch less: a larger batch, fused operators (torch.compile, to_static, fused optimizers), CUDA "
                "graphs for what repeats; and less Python between launches.",
                "tracekit summary NEW --view idle: host late and launch latency fall; --view launch: fewer launches.",
            )
        )
    return RuleResult(tuple(found))


def _idle_for_launches(facts: Facts, owner: int) -> tuple[int, int, Device | None]:
    """Return idle time by late launches and launch latency in the window, the window, and the device that has most."""
    low, high = facts.window(owner)
    gaps = facts.gaps
    wanted = [_gaps.CAUSES.index(cause) for cause in ("host late", "launch latency")]
    own = {id(device) for device in facts.devices_of(owner)}
    most, found = 0, None
    for lane, (device, _, _) in enumerate(gaps.owners):
        if id(device) not in own:
            continue
        mine = (gaps.lane == lane) & np.isin(gaps.cause, wanted)
        idle = int(np.maximum(np.minimum(gaps.ends[mine], high) - np.maximum(gaps.starts[mine], low), 0).sum())
        if idle > most or found is None:
            most, found = idle, device
    return most, high - low, found


def _launching(facts: Facts, owner: int) -> Mask:
    """Return launch calls and operators on the threads that launch; not data loading, and not waits."""
    own = facts.graphs[owner]
    nodes, host = own.graph.nodes, own.graph.nodes.devices_from
    parts = nodes.parts[:host]
    launches = parts == Part.LAUNCH
    threads = np.unique(nodes.thread[:host][launches])
    kinds = facts.kinds(*_OPERATORS)[own.rows[:host]]
    found = np.zeros(own.rows.size, np.bool_)
    found[:host] = (launches | (kinds & (parts != Part.SYNC))) & np.isin(nodes.thread[:host], threads)
    loads = np.flatnonzero(facts.kinds(Kind.DATALOADER))
    return found & ~facts.inside(owner, loads) if loads.size else found


def warm_up(facts: Facts) -> RuleResult:
    """Return the time that the first steps took beyond the later ones."""
    found = []
    tried = False
    for owner in np.unique(facts.steps.owner).tolist():
        at = np.flatnonzero(facts.steps.owner == owner)
        times = facts.steps.durations[at]
        judged = judge(times)
        whole = int(times.sum())
        tried |= judged.known
        if not judged.warm_up or not whole:
            continue
        excess = int((times[: judged.warm_up] - judged.median).sum())
        share = excess / whole
        if share < max(facts.thresholds["warm_up_share"], facts.thresholds["least_share"]):
            continue
        many = judged.warm_up > 1
        found.append(
            Finding(
                "warm-up",
                facts.label(owner),
                f"The first {f'{judged.warm_up:,} steps take' if many else 'step takes'} {span(excess)} more than "
                f"{'they' if many else 'it'} would at the median of the later steps ({span(judged.median)}): a "
                "one-time cost.",
                tuple(
                    facts.cells("steps", "warm-up", ("steps", "total"), which="warm-up", **_owned(facts, owner))
                    + facts.cells("steps", "after warm-up", ("p50",), which="after warm-up", **_owned(facts, owner))
                ),
                facts.ids(facts.steps.rows[at[: judged.warm_up]]),
                excess,
                share,
                "high",
                "steps follow each other on one thread, so the excess is all that a fix could save; it is paid once a "
                "run, and it weighs on every mean of this trace",
                "Leave the first steps out of what is measured (wait and warmup of the profiler's schedule). If the "
                "runs are short: keep compiled kernels and tuned algorithms between runs, and fill the loader early.",
                "tracekit summary NEW --view steps: no row warm-up.",
            )
        )
    why = "" if tried else "fewer than 5 steps are in the trace" if facts.steps.rows.size else "no steps in the trace"
    return RuleResult(tuple(found), why)


def start_up(facts: Facts) -> RuleResult:
    """Return calls that were over before the device had its first work: the context is created in them."""
    if not facts.kinds(*API_CALLS).any():
        return RuleResult(why_not="no calls of the runtime or driver are in the trace")
    if not facts.work.rows.size:
        return RuleResult(why_not="no device work is in the trace")
    if any(ledger.filtered for ledger in facts.index.ledgers):
        return RuleResult(why_not="the filters left out rows, perhaps the first device work")
    calls = np.flatnonzero(facts.kinds(*API_CALLS) & _timed(facts))
    calls = calls[~np.isin(calls, facts.calls_of(facts.work.rows))]
    # If a trace begins in the middle of a run, the host may wait for work that was launched before it.
    calls = calls[~named_like(facts.index, calls, _SYNCHRONIZE)]
    of_work = facts.owners.codes[facts.work.rows]
    found = []
    for owner in facts.graphs:
        begins = facts.work.starts[of_work == owner]
        if not begins.size:
            continue
        mine = facts.within(owner, calls)
        mine = mine[facts.starts[mine] + facts.lengths[mine] <= begins.min()]
        if not mine.size:
            continue
        # A step that begins during a call, as a profiler may write it, does not take the call's time.
        begins_at = facts.starts[mine]
        taken = union_length(begins_at, begins_at + facts.lengths[mine])
        bound = facts.bounds(owner, [facts.nodes_of(owner, mine) | facts.inside(owner, mine)], most=taken)[0]
        if bound.share < max(facts.thresholds["start_up_share"], facts.thresholds["least_share"]):
            continue
        name, most = facts.most_common(mine, facts.lengths[mine])
        found.append(
            Finding(
                "start-up",
                facts.label(owner),
                f"{span(int(facts.lengths[mine].sum()))} pass in {mine.size:,} {'call' if mine.size == 1 else 'calls'} "
                f"before the device has its first work, {span(most)} of them in {named(name)}: a one-time cost.",
                tuple(facts.cells("api", name, ("calls", "total"), name=name)),
                facts.ids(mine),
                bound.ns,
                bound.share,
                "high",
                "the device has no work yet; the first calls of a process create its context and load its kernels, "
                "whatever their names",
                "Leave it out of what is measured: start the profiler later, or run longer. If the runs are short: "
                "create the context while data are read, load kernels when first used (CUDA_MODULE_LOADING=LAZY), and "
                "build for the device, so that nothing is compiled at the start.",
                f"tracekit summary NEW --view api: total of {named(name)} falls.",
            )
        )
    return RuleResult(tuple(found), "" if facts.graphs else _NO_PATH)


def _timed(facts: Facts) -> Mask:
    found: Mask = facts.index.has("dur_ns")
    return found


def _owned(facts: Facts, owner: int) -> dict[str, str]:
    return {"owner": facts.owners.labels[owner]} if len(facts.owners) > 1 else {}

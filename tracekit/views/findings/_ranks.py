"""Rules of `findings` about ranks and processes that others wait for."""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.intervals import Ranges, clip, intersection, length, merge, union
from tracekit.analysis.segments import rows_by
from tracekit.index import collectives, matched_collectives
from tracekit.index.grouping import group_by
from tracekit.index.lanes import device_label
from tracekit.model.arrow import I64, Mask
from tracekit.model.report import Finding
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views.findings._facts import NO_WORK, OWNERS, Bound, Facts, RuleResult, how, percent, span
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.ranks import ranks
from tracekit.views.ranks.ranks import clocks_of, on_one_clock, skews_of, stragglers

LEAST_SHARED = 10
"""Pieces of device work: a process with fewer does not share the device."""
LEAST_CHANGES = 20
"""Changes from the work of one process to that of another: fewer are two that follow each other."""
CHANGE = 20_000
"""ns: the most time that a device takes to change from one process to another."""
_HOST = (Kind.OPERATOR, Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.COMMUNICATION)
_PASSES = re.compile(r"(?:^|[^a-z])i?(?:send|recv)_?(?![a-z])|nccl(?:Group)?(?:Send|Recv)", re.IGNORECASE)


def straggler(facts: Facts) -> RuleResult:
    """Return ranks that come last to collectives more often than chance. The owners of `facts` are ranks."""
    owners = facts.owners
    every = matched_collectives.find(facts.index, owners)
    if not every.count:
        return RuleResult(why_not="needs collectives on two or more ranks")
    clocks = clocks_of(owners, every)
    met = matched_collectives.only(every, on_one_clock(owners, every, clocks))
    if not met.count:
        return RuleResult(why_not="the clocks of the ranks could not be aligned")
    skews = skews_of(met, clocks)
    if not skews.judged.any():
        return RuleResult(why_not="the clocks of the ranks could not be aligned")
    found = []
    times: dict[str, Ranges] = {}
    for one in stragglers(owners, met, skews):
        waiting = np.isin(met.meeting, one.meetings) & (met.owner != one.owner)
        best, who = Bound(0, 0.0, on_path=False), -1
        for owner in np.unique(met.owner[waiting]).tolist():
            if facts.graphs and owner not in facts.graphs:
                continue
            mine = waiting & (met.owner == owner)
            rows = facts.within(owner, met.rows[mine])
            if not rows.size:
                continue
            # A collective keeps its transfer: what goes is the wait from the next to last rank to the last.
            late = np.zeros(facts.starts.size, np.int64)
            late[met.rows[mine]] = skews.late[met.meeting[mine]]
            bound = facts.shortened(owner, rows, late[rows])
            if bound.ns > best.ns:
                best, who = bound, owner
        if best.share < max(facts.thresholds["straggler_share"], facts.thresholds["least_share"]):
            continue
        for owner in np.unique(met.owner[waiting]).tolist():
            here = facts.ranges(met.rows[waiting & (met.owner == owner)])
            label = facts.label(owner)
            times[label] = union(times[label], here) if label in times else here
        label = owners.labels[one.owner]
        own = met.rows[np.isin(met.meeting, one.meetings) & (met.owner == one.owner)]
        reason = (
            f"the upper bound is for {owners.labels[who]}: its collectives with this rank keep their transfer, and do "
            "not wait for it"
        )
        found.append(
            Finding(
                "straggler",
                facts.label(one.owner),
                f"{label} comes last in {one.last:,} of {one.trials:,} collectives ({percent(one.last / one.trials)}), "
                f"by {span(one.median)} in the median and {span(one.late)} in all: the others wait.",
                tuple(facts.cells("ranks", label, ("last", "last_share", "late_p50", "late"), owner=label)),
                facts.ids(own),
                best.ns,
                best.share,
                "high" if best.on_path and not best.doubtful else "medium",
                "a binomial test over all collectives whose last rank is certain within the clocks' uncertainty; "
                + (reason + how(best) if best.on_path else f"{reason}; the trace has no host calls"),
                "Look at what this rank does before the collective: more or longer data, a slower device or host, "
                "other work on its machine.",
                "tracekit summary NEW --view ranks: last of this rank is near that of the others.",
            )
        )
    return RuleResult(tuple(found), times=times)


def shared_device(facts: Facts) -> RuleResult:
    """Return processes whose work alternates on one device of one machine. Only within an input is the device known.

    An input with names of ranks was joined from the files of these, and each of them may number devices of its own.
    """
    rows, starts, ends = facts.devices.rows, facts.devices.starts, facts.devices.ends
    if not rows.size:
        return RuleResult(why_not=NO_WORK)
    owner = facts.owners.codes[rows]
    place = group_by(*(facts.index.key(column, rows) for column in ("source", "device")))
    joined = {source for column, source, *_ in facts.index.run.ids if column == "rank"}
    found, tried = [], False
    times: dict[str, Ranges] = {}
    for number, mine in rows_by(place.codes):
        who, pieces = np.unique(owner[mine], return_counts=True)
        who = who[pieces >= LEAST_SHARED]
        if who.size < 2 or place.labels[1][number] is None or place.labels[0][number] in joined:
            continue
        tried = True
        mine = mine[np.isin(owner[mine], who)]
        changes = int(np.count_nonzero(np.diff(owner[mine])))
        if changes < LEAST_CHANGES:
            continue
        device = device_label(place.labels[1][number])
        for one in who[:OWNERS].tolist():
            others = merge(starts[mine[owner[mine] != one]], ends[mine[owner[mine] != one]])
            low, high = facts.window(one)
            others = clip(others, low, max(low, high))
            own = merge(starts[mine[owner[mine] == one]], ends[mine[owner[mine] == one]])
            both = length(intersection(own, others))
            # Two that run at once slow each other down by no more than the share of the device that each gives away.
            most = length(others) - both + both * (who.size - 1) // who.size + _changing(own, others)
            share = most / (high - low) if high > low else 0.0
            if share < max(facts.thresholds["shared_share"], facts.thresholds["least_share"]):
                continue
            label = facts.label(one)
            times[label] = others
            names = ", ".join(facts.owners.labels[each] for each in who.tolist()[:4] if each != one)
            found.append(
                Finding(
                    "shared device",
                    label,
                    f"{device} also works for {names}: their work alternates {changes:,} times, and the others run for "
                    f"{span(length(others))} of its window, {span(both)} of that at once with its own.",
                    (),
                    facts.ids(rows[mine[owner[mine] == one]]),
                    most,
                    share,
                    "medium",
                    "the device is the same by its number in one input; the upper bound is for a device of its own: no "
                    "waiting for the others' work, and what runs at once with it gets the whole device",
                    "Give each process a device of its own (CUDA_VISIBLE_DEVICES), or share it on purpose: MPS, MIG, "
                    "one process for both.",
                    "tracekit summary NEW --view findings: shared device is not found.",
                )
            )
    why = "" if tried else "no device of one input works for two processes; trace all processes of a machine together"
    return RuleResult(tuple(found), why, times)


def _changing(own: Ranges, others: Ranges) -> int:
    """Return the ns that the device rests beside work of others: a change from one process to the next takes time."""
    busy = union(own, others)
    begins, ends = busy[1][:-1], busy[0][1:]
    beside = np.isin(begins, others[1]) | np.isin(ends, others[0])
    return int((ends - begins)[beside & (ends - begins <= CHANGE)].sum())


def unequal_stages(facts: Facts) -> RuleResult:
    """Return pipeline ranks that pass their results on and compute for unequal times. The owners are ranks."""
    rows = collectives.kernels(facts.index)[0]
    codes, names = facts.names
    host = np.flatnonzero(facts.kinds(*_HOST) & ~facts.index.has("device"))
    used = np.unique(codes[np.concatenate((rows, host))])
    passes = np.zeros(len(names) + 1, np.bool_)
    passes[used] = [code >= 0 and _PASSES.search(names[code][:300]) is not None for code in used.tolist()]
    talk = np.unique(facts.owners.codes[host[passes[codes[host]]]])
    pairs = rows[passes[codes[rows]] | _both_ways(facts, rows)]
    pairs = pairs[np.isin(facts.owners.codes[pairs], talk)]
    owners = np.unique(facts.owners.codes[pairs])
    if owners.size < 2:
        return RuleResult(why_not="needs sends and receives on two or more ranks, with their API calls")
    work = collectives.kernels(facts.index)[1]
    busy = np.zeros(owners.size, np.int64)
    for at, owner in enumerate(owners.tolist()):
        mine = facts.within(owner, work) if owner in facts.graphs else work[facts.owners.codes[work] == owner]
        busy[at] = length(facts.ranges(mine))
    slow = int(busy.argmax())
    owner = int(owners[slow])
    low, high = facts.window(owner)
    most = int(busy[slow]) - int(busy.mean())
    share = most / (high - low) if high > low else 0.0
    if share < max(facts.thresholds["stage_share"], facts.thresholds["least_share"]):
        return RuleResult()
    times: dict[str, Ranges] = {}
    for each in owners.tolist():
        if each != owner:
            times[facts.label(each)] = facts.ranges(pairs[facts.owners.codes[pairs] == each])
    label = facts.owners.labels[owner]
    several = ", ".join(
        f"{facts.owners.labels[o]} {span(b)}" for o, b in zip(owners.tolist()[:8], busy.tolist(), strict=False)
    )
    return RuleResult(
        (
            Finding(
                "unequal stages",
                facts.label(owner),
                f"The stages of this pipeline compute for unequal times, and {label} for longest: {several}. The "
                "others wait for it in sends and receives.",
                (),
                facts.ids(pairs[facts.owners.codes[pairs] == owner]),
                most,
                share,
                "medium",
                "the times are certain; the upper bound is for stages that all compute for the mean of them",
                "Move layers from the slowest stage to the others, count the embedding and the loss as layers, and use "
                "more microbatches.",
                "tracekit summary NEW --view findings: unequal stages are not found.",
            ),
        ),
        times=times,
    )


def _both_ways(facts: Facts, rows: I64) -> Mask:
    """Return which kernels send and receive, by their name: an all-to-all has such a name too."""
    codes, names = facts.names
    used = np.unique(codes[rows])
    fits = np.zeros(len(names) + 1, np.bool_)
    fits[used] = [code >= 0 and "SendRecv" in names[code][:300] for code in used.tolist()]
    found: Mask = fits[codes[rows]]
    return found


STRAGGLER = Rule(
    "straggler",
    straggler,
    thresholds=(
        threshold(
            "straggler_share",
            0.02,
            Unit.RATIO,
            "Straggler: the least time that others waited for it, as a share of their window.",
        ),
    ),
    joins_ranks=True,
    evidence=(ranks.VIEW,),
    precedence=7,
)

SHARED_DEVICE = Rule(
    "shared device",
    shared_device,
    thresholds=(
        threshold("shared_share", 0.1, Unit.RATIO, "Shared device: the least savings, as a share of the window."),
    ),
    precedence=5,
)

UNEQUAL_STAGES = Rule(
    "unequal stages",
    unequal_stages,
    thresholds=(
        threshold("stage_share", 0.05, Unit.RATIO, "Unequal stages: the least savings, as a share of the window."),
    ),
    precedence=6,
)

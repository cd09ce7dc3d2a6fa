"""Rules of `findings` about ranks and processes that others wait for."""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.intervals import Ranges, clip, gaps, intersection, length, merge, union
from tracekit.analysis.segments import rows_by
from tracekit.index import collectives, matched_collectives
from tracekit.index.grouping import group_by
from tracekit.index.lanes import device_in
from tracekit.index.matched_collectives import MatchedCollectives
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.patterns import rows_found
from tracekit.model.report import Finding
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views.findings._facts import NO_WORK, Bound, Facts, RuleResult, how, percent, span
from tracekit.views.findings._slow_steps import slow_steps
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.ranks import ranks
from tracekit.views.ranks.late_groups import LateGroup, late_groups, ranks_named
from tracekit.views.ranks.skews import clocks_of, on_one_clock, skews_of, stragglers

LEAST_SHARED = 10
"""Pieces of device work: a process with fewer does not share the device."""
LEAST_CHANGES = 20
"""Changes from the work of one process to that of another: fewer are two that follow each other."""
FILL = 0.75
"""The least part of a stage's waits for others that are waits for their computation, and not for transfers."""
MOST_FILL = 1 / 3
"""The most that these waits take from the savings of unequal stages: a rank may also wait for something else."""
CHANGE = 20_000
"""ns: the most time that a device takes to change from one process to another."""
_HOST = (Kind.OPERATOR, Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.COMMUNICATION)
_PASSES = lazy_pattern(r"(?:^|[^a-z])i?(?:send|recv)_?(?![a-z])|nccl(?:Group)?(?:Send|Recv)", re.IGNORECASE)


def straggler(facts: Facts) -> RuleResult:
    """Return ranks that come last to collectives more often than chance. The owners of `facts` are ranks."""
    owners = facts.owners
    every = matched_collectives.find(facts.index, owners)
    slow = slow_steps(facts)
    if not every.count:
        return RuleResult(slow, why_not="needs collectives on two or more ranks")
    clocks = clocks_of(owners, every)
    met = matched_collectives.only(every, on_one_clock(owners, every, clocks))
    skews = skews_of(met, clocks) if met.count else None
    if skews is None or not skews.judged.any():
        return RuleResult(slow, why_not="the clocks of the ranks could not be aligned")
    found: list[Finding] = []
    times: dict[str, Ranges] = {}
    groups = late_groups(facts.index, owners, met, skews, clocks)
    together = {owner for group in groups for owner in group.owners}
    for group in groups:
        found += _group_finding(facts, met, group, times)
    for one in stragglers(owners, met, skews):
        # Where a whole node is late, which of its ranks is last is chance.
        if one.owner in together:
            continue
        waiting = np.isin(met.meeting, one.meetings) & (met.owner != one.owner)
        # A collective keeps its transfer: what goes is the wait from the next to last rank to the last.
        best, who = _saving(facts, met, waiting, skews.late)
        if best.share < max(facts.thresholds["straggler_share"], facts.thresholds["least_share"]):
            continue
        _add_times(facts, met, waiting, times)
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
    late = {each.owner for each in found} | {facts.label(owner) for owner in together}
    found += [each for each in slow if each.owner not in late]
    return RuleResult(tuple(found), times=times)


def _saving(facts: Facts, met: MatchedCollectives, waiting: Mask, late: I64) -> tuple[Bound, int]:
    """Return the largest bound of the owners that wait in these rows of `met`, and the owner.

    late: for each meeting, the ns by which its collectives would be shorter.
    """
    best, who = Bound(0, 0.0, on_path=False), -1
    by = np.zeros(facts.starts.size, np.int64)
    for owner in sets.unique(met.owner[waiting]).tolist():
        if facts.graphs and owner not in facts.graphs:
            continue
        mine = waiting & (met.owner == owner)
        rows = facts.within(owner, met.rows[mine])
        if not rows.size:
            continue
        by[met.rows[mine]] = late[met.meeting[mine]]
        bound = facts.shortened(owner, rows, by[rows])
        if bound.ns > best.ns:
            best, who = bound, owner
    return best, who


def _add_times(facts: Facts, met: MatchedCollectives, waiting: Mask, times: dict[str, Ranges]) -> None:
    """Add the times in which the owners of these rows of `met` wait."""
    for owner in sets.unique(met.owner[waiting]).tolist():
        here = facts.ranges(met.rows[waiting & (met.owner == owner)])
        label = facts.label(owner)
        times[label] = union(times[label], here) if label in times else here


def _group_finding(facts: Facts, met: MatchedCollectives, group: LateGroup, times: dict[str, Ranges]) -> list[Finding]:
    """Return the finding of a group that comes late together, if it is worth it."""
    members = list(group.owners)
    inside = np.isin(met.meeting, group.meetings)
    waiting = inside & ~np.isin(met.owner, members)
    late = np.zeros(met.count, np.int64)
    late[group.meetings] = group.lateness
    best, who = _saving(facts, met, waiting, late)
    if best.share < max(facts.thresholds["straggler_share"], facts.thresholds["least_share"]):
        return []
    _add_times(facts, met, waiting, times)
    labels = facts.owners.labels
    columns = ("last", "last_share", "late_p50", "late")
    who_is_late = f"{group.name[0].upper()}{group.name[1:]}"
    if group.is_known:
        who_is_late += f" ({len(members)} ranks: {', '.join(labels[o] for o in members[:8])})"
    reason = (
        f"the upper bound is for {labels[who]}: its collectives with these ranks keep their transfer, and do not wait "
        "for them"
    )
    return [
        Finding(
            "straggler",
            facts.label(members[0]),
            f"{who_is_late} {'comes' if group.is_known else 'come'} late together to {group.last:,} of "
            f"{group.trials:,} collectives ({percent(group.last / group.trials)}), by {span(group.median)} in the "
            f"median and {span(group.late)} in all: the others wait.",
            tuple(facts.cells("ranks", group.name, columns, late_group=group.name)),
            facts.ids(met.rows[inside & np.isin(met.owner, members)]),
            best.ns,
            best.share,
            "high" if best.on_path and not best.doubtful else "medium",
            "a binomial test over all collectives, of the whole group against the median of the other ranks; "
            + (reason + how(best) if best.on_path else f"{reason}; the trace has no host calls"),
            "Look at what these ranks share: the node (clocks and heat of its devices, its processors, its disks, "
            "other jobs on it), its network, or a part of the model that is larger than the others.",
            "tracekit summary NEW --view ranks: these ranks come last as often as the others.",
            ranks=ranks_named(facts.owners, members),
        )
    ]


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
        device = device_in(facts.index.run, *(labels[number] for labels in place.labels))
        for one in who.tolist():
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
    beside = sets.is_in(begins, others[1]) | sets.is_in(ends, others[0])
    return int((ends - begins)[beside & (ends - begins <= CHANGE)].sum())


def unequal_stages(facts: Facts) -> RuleResult:
    """Return pipeline ranks that pass their results on and compute for unequal times. The owners are ranks."""
    rows = collectives.kernels(facts.index)[0]
    codes, names = facts.names
    host = np.flatnonzero(facts.kinds(*_HOST) & ~facts.index.has("device"))
    host = host[rows_found(_PASSES, names, codes[host], 300)]
    talk = sets.unique(facts.owners.codes[host])
    pairs = rows[rows_found(_PASSES, names, codes[rows], 300) | _both_ways(facts, rows)]
    pairs = pairs[np.isin(facts.owners.codes[pairs], talk)]
    owners = sets.unique(facts.owners.codes[pairs])
    if owners.size < 2:
        return RuleResult(why_not="needs sends and receives on two or more ranks, with their API calls")
    work = collectives.kernels(facts.index)[1]
    busy = np.zeros(owners.size, np.int64)
    computes: list[Ranges] = []
    for at, owner in enumerate(owners.tolist()):
        mine = facts.within(owner, work) if owner in facts.graphs else work[facts.owners.codes[work] == owner]
        computes.append(facts.ranges(mine))
        busy[at] = length(computes[at])
    slow = int(busy.argmax())
    owner = int(owners[slow])
    low, high = facts.window(owner)
    most = int(busy[slow]) - int(busy.mean())
    most -= min(_longer_fill(facts, owners, computes, busy, slow), int(MOST_FILL * most))
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
                "the times are certain; the upper bound is for stages that all compute for the mean of them, and the "
                "slowest one then waits longer for the others to fill and to drain the pipeline",
                "Move layers from the slowest stage to the others, count the embedding and the loss as layers, and use "
                "more microbatches.",
                "tracekit summary NEW --view findings: unequal stages are not found.",
            ),
        ),
        times=times,
    )


def _longer_fill(facts: Facts, owners: I64, computes: list[Ranges], busy: I64, slow: int) -> int:
    """Return by how much the slowest stage waits longer for the others when all stages compute for the mean.

    While the pipeline fills and drains, the slowest stage waits for the others to compute, and these get more to do:
    each at least by what the busiest of them lacks to the mean. A part of these waits are transfers, which do not grow.
    Unknown, so 0, where the ranks share no clock.
    """
    others = [at for at in range(owners.size) if at != slow]
    if len({facts.owners.clocks[owner] for owner in owners.tolist()}) > 1 or not others:
        return 0
    most = int(busy[others].max())
    if not most or most >= busy.mean():
        return 0
    low, high = facts.window(int(owners[slow]))
    waits = gaps(computes[slow], low, max(low, high))
    elsewhere = merge(*(np.concatenate([computes[at][i] for at in others]) for i in (0, 1)))
    return int(FILL * length(intersection(waits, elsewhere)) * (float(busy.mean()) / most - 1))


def _both_ways(facts: Facts, rows: I64) -> Mask:
    """Return which kernels send and receive, by their name: an all-to-all has such a name too."""
    codes, names = facts.names
    used = sets.unique(codes[rows])
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

"""Rule of `findings` about ranks that others wait for."""

from __future__ import annotations

import numpy as np

from tracekit.analysis.intervals import Ranges, union
from tracekit.index import meetings
from tracekit.report import Finding
from tracekit.views.findings._facts import Bound, Facts, RuleResult, how
from tracekit.views.findings._words import percent, span
from tracekit.views.ranks.stragglers import clocks_of, on_one_clock, skews_of, stragglers


def straggler(facts: Facts) -> RuleResult:
    """Return ranks that come last to collectives more often than chance. The owners of `facts` are ranks."""
    owners = facts.owners
    every = meetings.find(facts.index, owners)
    if not every.count:
        return RuleResult(why_not="needs collectives on two or more ranks")
    clocks = clocks_of(owners, every)
    met = meetings.only(every, on_one_clock(owners, every, clocks))
    if not met.count:
        return RuleResult(why_not="the clocks of the ranks could not be brought in line")
    skews = skews_of(met, clocks)
    if not skews.judged.any():
        return RuleResult(why_not="the clocks of the ranks could not be brought in line")
    found = []
    times: dict[str, Ranges] = {}
    for one in stragglers(owners, met, skews):
        waiting = np.isin(met.meeting, one.meetings) & (met.owner != one.owner)
        best, who = Bound(0, 0.0, on_path=False), -1
        for owner in np.unique(met.owner[waiting]).tolist():
            if facts.graphs and owner not in facts.graphs:
                continue
            rows = facts.within(owner, met.rows[waiting & (met.owner == owner)])
            if not rows.size:
                continue
            bound = facts.bound(owner, rows, most=one.late)
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
            f"the upper bound is for {owners.labels[who]}: its collectives with this rank take no time, and not more "
            "than the lateness"
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
                + (reason + how(best) if best.on_path else f"{reason}; no host calls are in the trace"),
                "Look at what this rank does before the collective: more or longer data, a slower device or host, "
                "other work on its machine.",
                "tracekit summary NEW --view ranks: last of this rank is near that of the others.",
            )
        )
    return RuleResult(tuple(found), times=times)

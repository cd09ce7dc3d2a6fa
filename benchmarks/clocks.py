"""Clocks of a simulated cluster, found from its collectives: how often the truth is within the stated uncertainty.

    python -m benchmarks.clocks [TRIALS]

A trial is a cluster of its own: hosts, ranks, collectives, jitter and resolution are drawn with it. A clock counts as
right where no time within its span is off by more than the uncertainty, and its drift by no more than that of the
drift. ratio: the median uncertainty over the 95th percentile of the true error.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from benchmarks.truth.cluster import Cluster, simulate
from tracekit.analysis.clocks.matched_collectives import LEAST_IN_PART, ClockRelation, relate

SETTINGS = ("usual", "few", "coarse", "groups", "even")
"""usual: each rank has a habit, it always leaves up to the mean jitter later; few: 10 to 50 collectives; coarse: clocks
of 1 us; groups: no collective of all ranks; even: no habits."""
UNSEEN: dict[str, dict[str, Any]] = {
    "normal": {"noise": "normal"},
    "lognormal": {"noise": "lognormal"},
    "bimodal": {"noise": "bimodal"},
    "asymmetric": {"noise": "asymmetric"},
    "late rank": {"late_us": 5.0},
    "lost": {"lost": 0.4},
    "step": {"step_us": 500.0},
    "small step": {"step_us": 20.0},
    "slew": {"slew_us": 2_000.0},
}
"""Settings that the estimator was not made with: other noise, one rank that leaves later by 5 mean jitters more, 40 %
of the records lost, and a clock that is set by 500 us or 20 us, or slewed by 2 ms, in the middle third of the run."""
NEW_SEEDS = 50_000
"""Trials of these settings have seeds from here on."""


def drawn(setting: str, seed: int) -> Cluster:
    """Return the cluster of one trial."""
    seed += NEW_SEEDS * (setting in UNSEEN)
    rng = np.random.default_rng(1_000_000 + seed)
    hosts, per_host = int(rng.integers(2, 7)), int(rng.integers(1, 5))
    jitter = float(np.exp(rng.uniform(np.log(0.5), np.log(50))))
    seconds = float(rng.uniform(5, 300))
    common: dict[str, Any] = {"hosts": hosts, "ranks_per_host": per_host, "jitter_us": jitter, "seconds": seconds}
    common["lag_us"] = 0.0 if setting == "even" else jitter
    many = int(rng.integers(50, 1_000))
    if setting == "few":
        return simulate(seed, **common, collectives=int(rng.integers(10, 50)))
    if setting == "coarse":
        return simulate(seed, **common, collectives=many, resolution_ns=1_000)
    if setting == "groups":
        return simulate(seed, **{**common, "hosts": 6, "ranks_per_host": 2}, collectives=many, groups=3)
    more = dict(UNSEEN.get(setting, {}))
    if "late_us" in more:
        more["late_us"] *= jitter
    return simulate(seed, **common, collectives=many, **more)


def errors(cluster: Cluster, reference: int, clock: int, found: ClockRelation) -> tuple[int, float, int]:
    """Return how far corrected times are off at most, and the drift, and the error in the middle of the span."""
    span = cluster.shown_from(reference, np.array([found.line.first, found.line.middle, found.line.last]))
    corrected = found.line.corrected(cluster.shown(clock, span))
    off = np.abs(corrected - cluster.shown(reference, span))
    true = (1 + cluster.drift[clock]) / (1 + cluster.drift[reference]) - 1
    return int(off.max()), abs(found.line.drift - true), int(off[1])


def trial(setting: str, seed: int) -> list[tuple[int, float, int, int, float, bool, int, int]]:
    """Return for each clock that was found: errors of times, drift and middle, the two limits, whether the truth is
    within what the inequalities leave open, ranks on the host with fewest, and 0 for a break that was not stated, 1
    for one that was, 2 where there was none, 3 for one that is not there.
    """
    cluster = drawn(setting, seed)
    hosts = len(cluster.offset)
    reference, found = relate(cluster.meeting, cluster.clock, cluster.start, cluster.end, hosts, members=cluster.rank)
    out = []
    last_end = np.zeros(int(cluster.meeting.max(initial=0)) + 1, np.int64)
    np.maximum.at(last_end, cluster.meeting, cluster.true_end)
    fewest = int(np.bincount(cluster.host_of_rank).min())
    for clock, each in enumerate(found):
        if each is None:
            continue
        error, drift, middle = errors(cluster, reference, clock, each)
        at = cluster.shown_from(reference, np.array([each.bounds.middle]))
        ahead = int((cluster.shown(clock, at) - cluster.shown(reference, at))[0])
        inside = each.bounds.low - 1 <= ahead <= each.bounds.high + 1
        # A break counts where the two clocks met on both sides of it, often enough for a line.
        shared = np.intersect1d(cluster.meeting[cluster.clock == clock], cluster.meeting[cluster.clock == reference])
        left = last_end[shared]
        broken = any(
            b.host in (clock, reference)
            and LEAST_IN_PART <= np.count_nonzero(left < b.at_ns) <= left.size - LEAST_IN_PART
            for b in cluster.breaks
        )
        stated = 1 if broken and each.breaks else 0 if broken else 3 if each.breaks else 2
        out.append((error, drift, middle, each.uncertainty, each.in_drift, inside, fewest, stated))
    return out


def main(trials: int) -> None:
    """Print the figures of each setting."""
    print(
        f"{'setting':<16}{'clocks':>8}{'right':>9}{'error p95':>12}{'stated p50':>12}{'ratio':>7}{'bounds':>8}"
        f"{'seen':>9}{'false':>7}{'s':>7}"
    )
    for setting in (*SETTINGS, *UNSEEN):
        begun = time.perf_counter()
        rows = [row for seed in range(trials) for row in trial(setting, seed)]
        table = np.array(rows)
        for name, mine in ((setting, table), ("  1 rank a host", table[table[:, 6] == 1])):
            if not len(mine) or (name != setting and setting not in ("usual", "even", "late rank")):
                continue
            error, drift, _, stated, in_drift, inside, _, breaks = mine.T
            right = (error <= stated) & (drift <= in_drift)
            # Trials have their own jitter: what is compared with the limit is the error as a share of it.
            ratio = 1 / np.quantile(error / stated, 0.95)
            broken = np.isin(breaks, (0, 1))
            seen = f"{(breaks[broken] == 1).mean():.1%}" if broken.any() else "-"
            print(
                f"{name:<16}{len(mine):>8,}{right.mean():>9.2%}{np.quantile(error, 0.95):>9,.0f} ns"
                f"{np.median(stated):>9,.0f} ns{ratio:>7.2f}{inside.mean():>8.1%}{seen:>9}"
                f"{(breaks == 3).mean():>7.1%}{time.perf_counter() - begun:>7.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)

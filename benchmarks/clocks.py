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
from tracekit.analysis.clocks.meetings import Relation, relate

SETTINGS = ("usual", "few", "coarse", "groups", "even")
"""usual: each rank has a habit, it always leaves up to the mean jitter later; few: 10 to 50 collectives; coarse: clocks
of 1 us; groups: no collective of all ranks; even: no habits."""


def drawn(setting: str, seed: int) -> Cluster:
    """Return the cluster of one trial."""
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
    if setting == "lagging":
        return simulate(seed, **common, collectives=many, lag_us=jitter)
    return simulate(seed, **common, collectives=many)


def errors(cluster: Cluster, reference: int, clock: int, found: Relation) -> tuple[int, float, int]:
    """Return how far corrected times are off at most, and the drift, and the error in the middle of the span."""
    span = cluster.shown_from(reference, np.array([found.line.first, found.line.middle, found.line.last]))
    corrected = found.line.corrected(cluster.shown(clock, span))
    off = np.abs(corrected - cluster.shown(reference, span))
    true = (1 + cluster.drift[clock]) / (1 + cluster.drift[reference]) - 1
    return int(off.max()), abs(found.line.drift - true), int(off[1])


def trial(setting: str, seed: int) -> list[tuple[int, float, int, int, float, bool]]:
    """Return for each clock that was found: errors of times, drift and middle, the two limits, and whether the truth
    is within what the inequalities leave open.
    """
    cluster = drawn(setting, seed)
    hosts = len(cluster.offset)
    reference, found = relate(cluster.meeting, cluster.clock, cluster.start, cluster.end, hosts)
    out = []
    for clock, each in enumerate(found):
        if each is not None:
            error, drift, middle = errors(cluster, reference, clock, each)
            at = cluster.shown_from(reference, np.array([each.bounds.middle]))
            ahead = int((cluster.shown(clock, at) - cluster.shown(reference, at))[0])
            inside = each.bounds.low - 1 <= ahead <= each.bounds.high + 1
            out.append((error, drift, middle, each.uncertainty, each.in_drift, inside))
    return out


def main(trials: int) -> None:
    """Print the figures of each setting."""
    print(
        f"{'setting':<9}{'clocks':>8}{'right':>9}{'error p95':>11}{'stated p50':>12}{'ratio':>7}{'bounds':>8}{'s':>7}"
    )
    for setting in SETTINGS:
        begun = time.perf_counter()
        rows = [row for seed in range(trials) for row in trial(setting, seed)]
        error, drift, _, stated, in_drift, inside = (np.array(column) for column in zip(*rows, strict=True))
        right = (error <= stated) & (drift <= in_drift)
        # Trials have their own jitter: what is compared with the limit is the error as a share of it.
        ratio = 1 / np.quantile(error / stated, 0.95)
        print(
            f"{setting:<9}{len(rows):>8,}{right.mean():>9.2%}{np.quantile(error, 0.95):>8,.0f} ns"
            f"{np.median(stated):>9,.0f} ns{ratio:>7.2f}{inside.mean():>8.1%}{time.perf_counter() - begun:>7.1f}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)

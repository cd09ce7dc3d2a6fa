"""A simulated cluster: hosts whose clocks are seconds apart and drift, and ranks that meet in collectives.

The truth is drawn from a seed: each host's offset (within 5 s) and drift (within 50 ppm), when each rank comes to each
collective, how long the transfer takes, and how late each rank leaves. Every rank writes what its host's clock showed.
Ranks can be lost: some write nothing, some stop early, and single records are missing. A clock can be set, or
slewed, on the way.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
START_NS = 1_790_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class Break:
    """The clock of a host is set: by so many ns, at a time, at once or evenly over so many ns."""

    host: int
    at_ns: int
    by_ns: float
    over_ns: float = 0.0

    def gained(self, times: I64) -> F64:
        """Return by how many ns the clock has been set at these true times."""
        since = (times - self.at_ns).astype(np.float64)
        whole: F64 = self.by_ns * np.clip(since / self.over_ns if self.over_ns else since > 0, 0.0, 1.0)
        return whole


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the ranks wrote: shape (n,) each. clock: the host of each rank; offset, drift: of each host's clock."""

    meeting: I64
    rank: I64
    clock: I64
    start: I64
    end: I64
    host_of_rank: I64
    offset: F64
    drift: F64
    true_start: I64
    true_end: I64
    breaks: tuple[Break, ...] = ()

    def ahead(self, host: int, times: I64) -> I64:
        """Return by how many ns the clock of a host is ahead at these true times."""
        gained = self.offset[host] + self.drift[host] * (times - START_NS)
        gained = gained + sum((each.gained(times) for each in self.breaks if each.host == host), np.zeros(len(times)))
        return np.rint(gained).astype(np.int64)

    def shown(self, host: int, times: I64) -> I64:
        """Return what the clock of a host shows at these true times."""
        return times + self.ahead(host, times)

    def shown_from(self, host: int, shown: I64) -> I64:
        """Return the true times at which the clock of a host shows these ones, to the ns."""
        times = shown
        for _ in range(8):  # each round leaves the drift's share of the error before
            times = shown - self.ahead(host, times)
        return times


def _bimodal(rng: np.random.Generator, shape: tuple[int, int]) -> F64:
    slow = rng.random(shape) < 0.3
    return np.where(slow, rng.normal(3.0, 0.3, shape), rng.normal(0.4, 0.1, shape)).clip(0)


NOISES: dict[str, Callable[[np.random.Generator, tuple[int, int]], F64]] = {
    "exponential": lambda rng, shape: rng.exponential(1.0, shape),
    "lognormal": lambda rng, shape: np.exp(rng.normal(-0.72, 1.2, shape)),
    "bimodal": _bimodal,
    "asymmetric": lambda rng, shape: rng.pareto(2.2, shape).clip(0, 200),
    "normal": lambda rng, shape: rng.normal(3.0, 1.0, shape).clip(0),
}
"""How late a rank leaves, with a mean or scatter of about 1."""


def simulate(
    seed: int,
    *,
    hosts: int = 4,
    ranks_per_host: int = 2,
    collectives: int = 200,
    seconds: float = 60.0,
    jitter_us: float = 5.0,
    lag_us: float = 0.0,
    resolution_ns: int = 1,
    lose: bool = True,
    groups: int = 1,
    noise: str = "exponential",
    late_us: float = 0.0,
    lost: float = 0.01,
    step_us: float = 0.0,
    slew_us: float = 0.0,
) -> Cluster:
    """Return what the ranks of a cluster wrote.

    jitter_us: mean of how late a rank leaves; one end in a hundred is up to a hundred times later. lag_us: most that a
    rank always leaves late. groups: collectives go round so many overlapping groups of neighbouring ranks, 1 for all.
    noise: a key of NOISES. late_us: by so much one rank always leaves later than its lag. lost: share of the records
    that are missing. step_us, slew_us: one host's clock is set by so much in the middle third, at once or over 5 % of
    the time.
    """
    rng = np.random.default_rng(seed)
    ranks = hosts * ranks_per_host
    host_of_rank = np.repeat(np.arange(hosts), ranks_per_host)
    offset = rng.uniform(-5e9, 5e9, hosts)
    drift = rng.uniform(-50e-6, 50e-6, hosts)
    at = START_NS + np.sort(rng.uniform(0, seconds * 1e9, collectives)).astype(np.int64)
    slow = rng.exponential(300_000.0, ranks)
    came = at[:, None] + (rng.exponential(1.0, (collectives, ranks)) * slow).astype(np.int64)
    takes = np.exp(rng.uniform(np.log(20_000), np.log(2_000_000), collectives)).astype(np.int64)
    late = NOISES[noise](rng, (collectives, ranks)) * (jitter_us * 1e3)
    late += (rng.random((collectives, ranks)) < 0.01) * rng.exponential(jitter_us * 1e5, (collectives, ranks))
    late += rng.uniform(0, lag_us * 1e3, ranks)
    if late_us:
        late[:, int(rng.integers(ranks))] += late_us * 1e3
    inside = np.ones((collectives, ranks), np.bool_)
    if groups > 1:
        # Each group has the last ranks of the one before it too.
        width = ranks // groups
        first = (np.arange(collectives) % groups) * width
        place = np.arange(ranks)[None, :] - first[:, None]
        inside = (place >= -1) & (place < width)
    last = np.where(inside, came, np.iinfo(np.int64).min).max(axis=1)
    left = last[:, None] + takes[:, None] + late.astype(np.int64)
    if lose:
        inside &= rng.random((collectives, ranks)) > lost
        for rank in range(1, ranks):
            if rng.random() < 0.05:
                inside[:, rank] = False
            elif rng.random() < 0.1:
                inside[rng.integers(collectives // 2, collectives) :, rank] = False
    breaks: list[Break] = []
    for by, over in ((step_us, 0.0), (slew_us, 0.05 * seconds * 1e9)):
        if by:
            when = START_NS + int(rng.uniform(0.35, 0.6) * seconds * 1e9)
            breaks.append(Break(int(rng.integers(hosts)), when, by * 1e3, over))
    meeting, rank = (column.astype(np.int64) for column in np.nonzero(inside))
    host = host_of_rank[rank]
    made = Cluster(
        meeting, rank, host, came[inside], left[inside], host_of_rank, offset, drift, came[inside], left[inside],
        tuple(breaks),
    )  # fmt: skip
    shown = []
    for times in (made.true_start, made.true_end):
        at = np.empty_like(times)
        for number in range(hosts):
            at[host == number] = made.shown(number, times[host == number])
        shown.append(at // resolution_ns * resolution_ns)
    return replace(made, start=shown[0], end=shown[1])


def write_kineto(cluster: Cluster, folder: Path, *, wall_clock: bool = True, pid: int = 77) -> list[Path]:
    """Write a Kineto trace for each rank that is not lost: the collectives, each with the call that launches it.

    All ranks have the same process id, device, stream, correlation ids and arrows, as ranks in containers do.
    """
    out = []
    for rank in range(len(cluster.host_of_rank)):
        mine = np.flatnonzero(cluster.rank == rank)
        if not mine.size:
            continue
        host = int(cluster.host_of_rank[rank])
        base = int(cluster.start[mine].min()) // 1_000_000_000 * 1_000_000_000
        events: list[dict[str, object]] = []
        for number, start, end in zip(
            cluster.meeting[mine].tolist(), cluster.start[mine].tolist(), cluster.end[mine].tolist(), strict=True
        ):
            at, correlation = (start - base) / 1_000, number + 1
            call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid, "tid": pid}
            events.append(
                {**call, "ts": at - 20, "dur": 5, "args": {"correlation": correlation, "External id": number}}
            )
            arrow = {"name": "ac2g", "cat": "ac2g", "id": correlation}
            events.append({**arrow, "ph": "s", "pid": pid, "tid": pid, "ts": at - 20})
            args = {"device": 0, "stream": 7, "correlation": correlation, "External id": number}
            args |= {"Collective name": "allreduce", "Process Group Name": "0", "Seq": number}
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
            work = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "args": args}
            events.append({**work, "ts": at, "dur": (end - start) / 1_000})
            events.append({**arrow, "ph": "f", "bp": "e", "pid": 0, "tid": 7, "ts": at})
        whole: dict[str, object] = {
            "schemaVersion": 1,
            "host_name": f"node{host}",
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": len(cluster.host_of_rank)},
            "deviceProperties": [{"id": 0, "name": "GPU"}],
            "traceEvents": events,
        }
        if wall_clock:
            whole["baseTimeNanoseconds"] = base
        path = folder / f"rank{rank}.json"
        path.write_text(json.dumps(whole))
        out.append(path)
    return out

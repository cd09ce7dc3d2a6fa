"""A simulated cluster: hosts whose clocks are seconds apart and drift, and ranks that meet in collectives.

The truth is drawn from a seed: each host's offset (within 5 s) and drift (within 50 ppm), when each rank comes to each
collective, how long the transfer takes, and how late each rank leaves. Every rank writes what its host's clock showed.
Ranks can be lost: some write nothing, some stop early, and single records are missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
START_NS = 1_790_000_000_000_000_000


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

    def shown(self, host: int, times: I64) -> I64:
        """Return what the clock of a host shows at these true times."""
        since = times - START_NS
        gained: I64 = np.rint(self.offset[host] + self.drift[host] * since).astype(np.int64)
        return times + gained

    def shown_from(self, host: int, shown: I64) -> I64:
        """Return the true times at which the clock of a host shows these ones, to the ns."""
        since = shown - START_NS - round(self.offset[host])
        rate = self.drift[host] / (1 + self.drift[host])
        lost: I64 = np.rint(rate * since).astype(np.int64)
        return START_NS + since - lost


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
) -> Cluster:
    """Return what the ranks of a cluster wrote.

    jitter_us: mean of how late a rank leaves; one end in a hundred is up to a hundred times later. lag_us: most that a
    rank always leaves late. groups: collectives go round so many overlapping groups of neighbouring ranks, 1 for all.
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
    late = rng.exponential(jitter_us * 1e3, (collectives, ranks))
    late += (rng.random((collectives, ranks)) < 0.01) * rng.exponential(jitter_us * 1e5, (collectives, ranks))
    late += rng.uniform(0, lag_us * 1e3, ranks)
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
        inside &= rng.random((collectives, ranks)) > 0.01
        for rank in range(1, ranks):
            if rng.random() < 0.05:
                inside[:, rank] = False
            elif rng.random() < 0.1:
                inside[rng.integers(collectives // 2, collectives) :, rank] = False
    meeting, rank = (column.astype(np.int64) for column in np.nonzero(inside))
    host = host_of_rank[rank]
    made = Cluster(
        meeting, rank, host, came[inside], left[inside], host_of_rank, offset, drift, came[inside], left[inside]
    )
    shown = []
    for times in (made.true_start, made.true_end):
        gained = np.rint(offset[host] + drift[host] * (times - START_NS)).astype(np.int64)
        shown.append((times + gained) // resolution_ns * resolution_ns)
    return Cluster(meeting, rank, host, shown[0], shown[1], host_of_rank, offset, drift, made.true_start, made.true_end)


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

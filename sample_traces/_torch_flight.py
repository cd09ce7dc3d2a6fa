"""Write the samples of the Flight Recorder of torch.distributed that nobody recorded. Those of gloo were recorded.

    python sample_traces/_torch_flight.py [FOLDER]

Two pipelines of two ranks each. Rank 1 waits for a message of 4,096 elements in a batch; rank 0 sends 2,048.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TORCH = "/usr/lib/python3/site-packages/torch/distributed"
START_NS = 1_780_000_000_000_000_000
MS = 1_000_000
GROUPS = {"0": ("default_pg", [0, 1, 2, 3]), "7": ("pp", [0, 1]), "8": ("pp", [2, 3])}


class Recorder:
    """Entries of one rank, in order."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.entries: list[dict[str, Any]] = []
        self.seq: dict[str, list[int]] = {}

    def add(
        self,
        title: str,
        group: str,
        sizes: list[list[int]],
        line: int,
        *,
        p2p: bool = False,
        new: bool = True,
        ends: bool = True,
    ) -> None:
        """Add an entry. new: it is no further call of a batch. ends: it is done."""
        seq = self.seq.setdefault(group, [0, 0])
        seq[p2p] += new
        created = START_NS + len(self.entries) * MS
        self.entries.append({
            "frames": [
                {"name": title.split(" ")[0], "filename": f"{TORCH}/distributed_c10d.py", "line": 2600},
                {"name": "exchange", "filename": "/home/user/project/pipeline.py", "line": line},
                {"name": "<module>", "filename": "/home/user/project/train.py", "line": 88},
            ],
            "record_id": len(self.entries), "pg_id": list(GROUPS).index(group),
            "process_group": (group, GROUPS[group][0]),
            "collective_seq_id": seq[0], "p2p_seq_id": seq[1], "op_id": len(self.entries) + 1,
            "profiling_name": f"nccl:{title}", "time_created_ns": created,
            "input_sizes": sizes, "input_dtypes": ["BFloat16"] * len(sizes),
            "output_sizes": sizes, "output_dtypes": ["BFloat16"] * len(sizes),
            "state": "completed" if ends else "scheduled",
            "time_discovered_started_ns": None, "time_discovered_completed_ns": created + MS if ends else None,
            "retired": True, "timeout_ms": 600_000, "is_p2p": p2p,
        })  # fmt: skip
        if ends:
            self.entries[-1]["duration_ms"] = 0.5


def dump(rank: int) -> dict[str, Any]:
    """Return the dump of a rank."""
    it = Recorder(rank)
    group = "7" if rank < 2 else "8"
    it.add("all_reduce", "0", [[512, 4]], 20)
    for micro in range(2):
        last = micro == 1 and rank < 2
        count = 2048 if last and rank == 0 else 4096
        title = "send 0->1" if rank % 2 == 0 else "recv 1<-0"
        # The calls of a batch have no state of their own: the entry that ends it has it.
        it.add(title, group, [[count]], 31, p2p=True, ends=False)
        it.entries[-1]["retired"] = False
        it.add("coalesced", group, [], 32, p2p=True, new=False, ends=not last)
    if rank >= 2:
        it.add("all_reduce", "0", [[512, 4]], 40, ends=False)
    mine = {name: each for name, each in GROUPS.items() if rank in each[1]}
    return {
        "version": "2.10",
        "comm_lib_version": "2.28.9",
        "pg_config": {name: {"name": name, "desc": desc, "ranks": str(ranks)} for name, (desc, ranks) in mine.items()},
        "pg_status": {
            "0": {"last_enqueued_collective": 2, "last_started_collective": -1, "last_completed_collective": 1}
        },
        "entries": it.entries,
    }


def main(target: Path) -> None:
    """Write the files."""
    folder = target / "flight-recorder"
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(4):
        (folder / f"nccl_batch_rank_{rank}.pkl").write_bytes(pickle.dumps(dump(rank), protocol=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)

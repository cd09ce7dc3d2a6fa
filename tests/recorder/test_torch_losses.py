"""Workers of torch's DataLoader, and ranks of torch.distributed, leave logs that end truthfully."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest
from recorder.programs import environment, program, run
from recorder.test_losses import assert_cut, assert_whole, by_process, found, needs_fork
from support import LONG_S, missing

import tracekit

try:
    import torch
except ImportError:
    torch = None

AT_EXIT = "stopped when its process ended"


@pytest.fixture(autouse=True)
def torch_is_here() -> None:
    if torch is None:
        missing("torch is not installed (pip install torch==2.13.0)")


LOADS = """
import torch
from tracekit import recorder as r

class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, n):
        with r.range("item", payload=n):
            return torch.tensor(n)

if __name__ == "__main__":
    r.start("run.jsonl", nvtx=False)
    loader = torch.utils.data.DataLoader(Items(), batch_size=4, num_workers=2, multiprocessing_context="METHOD")
    for epoch in range(2):
        for batch in r.watch_loader(loader):
            with r.step():
                pass
"""


@needs_fork
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_data_loader_leave_whole_logs(tmp_path: Path, method: str) -> None:
    done = run(tmp_path, LOADS.replace("METHOD", method))
    assert done.returncode == 0, done.stderr
    logs = [found(path) for path in sorted(tmp_path.glob("*.jsonl"))]
    items = Counter(seen.payload for read in logs for seen in read.log.ranges if seen.name == "item")
    assert items == dict.fromkeys(range(40), 2)
    assert sum(bool(read.log.calls()["item"]) for read in logs) == 4, "two workers in each epoch"
    for read in logs:
        assert_whole(read, AT_EXIT)
    (main,) = [read for read in logs if not read.log.calls()["item"] and read.log.ranges]
    assert main.log.calls()["step"] == 20


TRAINS = """
import os
import torch
import torch.distributed as dist
from tracekit import recorder as r
from tracekit.recorder.torch import watch

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meet"), rank=rank, world_size=2)
r.start("run.jsonl", nvtx=False, process=f"rank {rank}")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with watch(model, optimizer=optimizer):
    for step in range(5):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
dist.barrier()
if rank == 0:
    dist.destroy_process_group()
else:
    r.flush()
    os._exit(0)
"""


def test_ranks_of_gloo_leave_logs_that_end_as_they_did(tmp_path: Path) -> None:
    command = program(tmp_path, TRAINS)
    ranks = [
        subprocess.Popen(command, cwd=tmp_path, env=environment(RANK=str(rank), WORLD_SIZE="2"), stderr=subprocess.PIPE)
        for rank in (0, 1)
    ]
    errors = [rank.communicate(timeout=LONG_S)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    logs = by_process(tmp_path)
    assert_whole(logs["rank 0"], AT_EXIT)
    assert_cut(logs["rank 1"])
    for rank, read in enumerate((logs["rank 0"], logs["rank 1"])):
        assert (read.log.head["rank"], read.log.head["world_size"]) == (rank, 2)
        assert {kind: read.log.calls()[kind] for kind in ("step", "forward", "backward", "optimizer")} == dict.fromkeys(
            ("step", "forward", "backward", "optimizer"), 5
        )
    both = tracekit.read([str(read.path) for read in logs.values()])
    assert [set(ledger.notes) & {"log-cut"} for ledger in both.ledgers].count({"log-cut"}) == 1
    assert not both.incomplete

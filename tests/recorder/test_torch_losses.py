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
    def __init__(self):
        self.reading, self.noted = r.range("read"), r.range("noted", payload="x")
        self.inner = r.watch_loader([1], name="inner")
    def __len__(self):
        return 40
    def __getitem__(self, n):
        with self.reading, self.noted, r.range("item", payload=n):
            return torch.tensor(n + sum(self.inner) - 1)

if __name__ == "__main__":
    r.start("run.jsonl", nvtx=False)
    loader = torch.utils.data.DataLoader(Items(), batch_size=4, num_workers=2, multiprocessing_context="METHOD")
    for epoch in range(2):
        seen = 0
        for batch in r.watch_loader(loader):
            with r.step():
                seen += int(batch.sum())
        assert seen == 780
"""


@needs_fork
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_data_loader_leave_whole_logs_with_every_range(tmp_path: Path, method: str) -> None:
    """Also those of ranges and loaders that the data set was copied with."""
    done = run(tmp_path, LOADS.replace("METHOD", method), OMP_NUM_THREADS="1")
    assert (done.returncode, done.stderr) == (0, "")
    logs = [found(path) for path in sorted(tmp_path.glob("*.jsonl"))]
    items = Counter(seen.payload for read in logs for seen in read.log.ranges if seen.name == "item")
    assert items == dict.fromkeys(range(40), 2)
    workers = [read.log for read in logs if read.log.calls()["item"]]
    assert len(workers) == 4, "two in each epoch"
    assert sum((log.calls() for log in workers), Counter()) == {
        "read": 80, "noted": 80, "item": 80, "inner (start)": 80, "inner": 160,
    }  # fmt: skip
    for read in logs:
        assert_whole(read, AT_EXIT)
        assert not read.log.notes
        assert not any(seen.unfinished for seen in read.log.ranges)
    (main,) = [read for read in logs if not read.log.calls()["item"] and read.log.ranges]
    assert main.log.calls() == {"dataloader (start)": 2, "dataloader": 22, "step": 20}


TRAINS = """
import os
import torch
import torch.distributed as dist
from tracekit import recorder as r
from tracekit.recorder.torch import watch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)
        self.timed = r.range("net")
    def forward(self, x):
        with self.timed:
            return self.linear(x)

dist.init_process_group("gloo")
rank = dist.get_rank()
r.start("run.jsonl", nvtx=False, process=f"rank {rank}")
model = torch.nn.parallel.DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.randn(40, 4), batch_size=8)
with watch(model, optimizer=optimizer, dataloader=loader):
    for batch in loader:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
dist.barrier()
del model
dist.destroy_process_group()  # of both: a thread of gloo ends its process when the other one is gone
if rank == 1:
    r.flush()
    os._exit(0)
"""
LAUNCH = (
    "import sys\nfrom torch.distributed.run import main\nmain(['--nproc-per-node=2', '--standalone', sys.argv[1]])\n"
)


def test_ranks_of_gloo_leave_logs_that_end_as_they_did(tmp_path: Path) -> None:
    if not torch.distributed.is_gloo_available():
        missing("this torch has no gloo")
    (tmp_path / "launch.py").write_text(LAUNCH, encoding="utf-8")
    command = [program(tmp_path, TRAINS)[0], "launch.py", "program.py"]
    env = environment(OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")
    for _ in range(5):
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LONG_S, check=False
        )
        # Once in some thirty runs a thread of PyTorch is alive at the end of its process, which aborts then.
        if done.returncode == 0 or "terminate called without an active exception" not in done.stderr:
            break
        for path in tmp_path.glob("*.jsonl"):
            path.unlink()
    assert done.returncode == 0, done.stderr
    logs = by_process(tmp_path)
    assert_whole(logs["rank 0"], AT_EXIT)
    assert_cut(logs["rank 1"])
    for rank, read in enumerate((logs["rank 0"], logs["rank 1"])):
        assert (read.log.head["rank"], read.log.head["world_size"]) == (rank, 2)
        kinds = ("net", "step", "forward", "backward", "optimizer", "dataloader")
        assert [read.log.calls()[kind] for kind in kinds] == [5, 5, 5, 5, 5, 6]
    both = tracekit.read([str(read.path) for read in logs.values()])
    assert [set(ledger.notes) & {"log-cut"} for ledger in both.ledgers].count({"log-cut"}) == 1
    assert not both.incomplete

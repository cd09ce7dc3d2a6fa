"""Record the programs of this folder on a GPU: python record.py FOLDER (PyTorch with CUDA; about a minute).

Each program has an ill and a cure. Their steps are timed without a profiler, in turn, and then with it. Traces keep no
name of a host and no path.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

Step = Callable[[], object]
WARM_UP, STEPS, RUNS = 2, 4, 3


def timed(step: Step, count: int) -> int:
    """Return the mean time of a step, ns, without a profiler."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter_ns()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - begin) // count


def traced(step: Step, path: Path) -> int:
    """Write the trace of STEPS steps, and return their mean time, ns."""

    def write(prof: profile) -> None:
        raw = path.with_suffix(".raw")
        prof.export_chrome_trace(str(raw))
        made: dict[str, Any] = json.loads(raw.read_text(encoding="utf-8"))
        raw.unlink()
        for key in ("traceName", "distributedInfo", "host_name"):
            made.pop(key, None)
        path.write_bytes(gzip.compress(json.dumps(made, separators=(",", ":")).encode(), 9, mtime=0))

    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    plan = schedule(wait=0, warmup=WARM_UP, active=STEPS)
    begin = took = 0
    with profile(schedule=plan, activities=activities, record_shapes=True, on_trace_ready=write) as prof:
        for number in range(WARM_UP + STEPS):
            if number == WARM_UP:
                torch.cuda.synchronize()
                begin = time.perf_counter_ns()
            step()
            if number == WARM_UP + STEPS - 1:
                torch.cuda.synchronize()  # within the last step, which the trace ends with
                took = (time.perf_counter_ns() - begin) // STEPS
            prof.step()
    return took


class Sleeper(torch.utils.data.Dataset[torch.Tensor]):
    """Samples that take so long to load, in seconds."""

    def __init__(self, each: float) -> None:
        self.each = each

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, _number: int) -> torch.Tensor:
        time.sleep(self.each)
        return torch.zeros(4)


def programs() -> Iterator[tuple[str, Step, Step, int]]:
    """Yield the name, the program with the ill, the one without, and how many steps to time."""
    torch.manual_seed(0)
    half: dict[str, Any] = {"device": "cuda", "dtype": torch.half}
    short: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    # Kernels of these layers take longer than their launches: without an ill, the device is the limit.
    net = nn.Sequential(*[nn.Sequential(nn.Linear(4096, 4096), nn.GELU()) for _ in range(4)]).to(**short)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, foreach=True)
    batch = torch.randn(8192, 4096, **short)

    def step() -> None:
        net(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    def norms(*, read: bool) -> None:
        step()
        for each in net.parameters():
            norm = each.square().sum()
            if read:
                norm.item()

    yield "sync_item", lambda: norms(read=True), lambda: norms(read=False), 30

    def loading(each: float) -> Step:
        loader = iter(torch.utils.data.DataLoader(Sleeper(each), batch_size=4))
        return lambda: (next(loader), step())

    yield "loader", loading(0.005), loading(0), 15
    host = torch.randn(16 << 20)
    pinned = host.pin_memory()
    yield "pageable", lambda: (host.cuda(), step()), lambda: (pinned.cuda(non_blocking=True), step()), 30
    small = [torch.randn(64, device="cuda") for _ in range(150)]

    def tiny() -> None:
        for each in small:
            each.mul_(1.0001).add_(1e-6)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tiny()
    yield "launch", tiny, graph.replay, 30
    wide = torch.randn(8192, 8192, device="cuda")
    narrow = wide.bfloat16()
    yield "fp32", lambda: wide @ wide, lambda: narrow @ narrow, 10
    big = torch.randn(256 << 20, device="cuda")

    def chain(value: torch.Tensor) -> torch.Tensor:
        return torch.tanh(value * 2 + 1) * value - 0.5

    fused = torch.compile(chain)
    yield "unfused", lambda: chain(big), lambda: fused(big), 10
    yield "empty_cache", lambda: (step(), torch.cuda.empty_cache()), step, 30
    values = torch.randn(400_000)
    yield "cpu_sort", lambda: (step(), values.sort()), step, 15
    count = iter(range(1_000_000))

    def saving() -> None:
        step()
        if next(count) % 2:
            with record_function("save_checkpoint"):
                time.sleep(0.03)

    yield "checkpoint", saving, step, 16
    rows = torch.randn(8, 1 << 22, device="cuda")
    yield "few_blocks", lambda: rows.cumsum(1), lambda: rows.view(128, -1).cumsum(1), 10
    image = torch.randn(64, 256, 56, 56, **half)
    last = image.to(memory_format=torch.channels_last)
    first_layer = nn.Conv2d(256, 256, 3, padding=1).to(**half)
    last_layer = nn.Conv2d(256, 256, 3, padding=1).to(memory_format=torch.channels_last, **half)
    with torch.no_grad():
        yield "layout", lambda: first_layer(image), lambda: last_layer(last), 15
    odd, even = torch.randn(4095, 4095, **short), torch.randn(4096, 4096, **short)
    yield "odd_sizes", lambda: odd @ odd, lambda: even @ even, 30
    yield "healthy", step, step, 30


def main() -> None:
    """Record all programs."""
    folder = Path(sys.argv[1])
    facts: dict[str, Any] = {"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "ills": {}}
    for name, ill, cure, count in programs():
        pairs = [(timed(ill, count), timed(cure, count)) for _ in range(RUNS)]
        facts["ills"][name] = {
            "step_ns": sorted(each for each, _ in pairs),
            "cured_step_ns": sorted(each for _, each in pairs),
            "profiled_step_ns": traced(ill, folder / f"{name}.json.gz"),
            "profiled_cured_step_ns": traced(cure, folder / f"{name}.cured.json.gz"),
        }
    (folder / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

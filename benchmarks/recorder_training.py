"""The cost of recording a training loop: steps with and without the hooks of `tracekit record`, in pairs.

    python benchmarks/recorder_training.py [--rounds 15] [--steps 100]

One process runs rounds of the same loop (a data loader, forward, loss, backward, optimizer) by turns: without the
recorder, with it (`watch_program`), and with each module (verbosity 2). A ratio is the median of the ratios of
neighbours in one round, so that a slow second of the machine hits both; the difference is that of the best rounds. CPU
time is that of the thread that trains, with one torch thread. On a GPU wall time counts, since the host launches ahead.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from tracekit import recorder
from tracekit.recorder.torch import watch_program

LAYERS = 8


def loop(width: int, device: str) -> Callable[[int], None]:
    """Return a function that trains so many steps."""
    blocks = [
        torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.LayerNorm(width), torch.nn.GELU())
        for _ in range(LAYERS)
    ]
    net = torch.nn.Sequential(*blocks, torch.nn.Linear(width, 10)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    criterion = torch.nn.CrossEntropyLoss()

    def run(steps: int) -> None:
        rows = torch.utils.data.TensorDataset(torch.randn(32 * steps, width), torch.zeros(32 * steps, dtype=torch.long))
        for x, y in torch.utils.data.DataLoader(rows, batch_size=32):
            optimizer.zero_grad()
            criterion(net(x.to(device)), y.to(device)).backward()
            optimizer.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return run


def cost(run: Callable[[int], None], steps: int, verbosity: int, folder: Path) -> tuple[float, float]:
    """Return CPU and wall time of a step in us. verbosity: 0 is without the recorder."""
    with ExitStack() as stack:
        if verbosity:
            stack.enter_context(recorder.record(folder / "run.jsonl", nvtx=False))
            stack.enter_context(watch_program(verbosity=verbosity))
        cpu, wall = time.thread_time(), time.perf_counter()
        run(steps)
        return (time.thread_time() - cpu) / steps * 1e6, (time.perf_counter() - wall) / steps * 1e6


def main() -> None:
    """Print a row for each width."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_num_threads(1)
    which: dict[str, int] = {"without": 0, "recorded": 1, "each module": 2}
    calls = 4 * LAYERS + 3
    print(f"{calls} calls of modules a step, {options.rounds} rounds of {options.steps} steps, {device}")
    with tempfile.TemporaryDirectory() as folder:
        for width in (16, 128):
            run = loop(width, device)
            run(options.steps)
            rounds: list[dict[str, Any]] = []
            for number in range(options.rounds):
                order = list(which.items())[:: 1 if number % 2 else -1]
                rounds.append({name: cost(run, options.steps, verbosity, Path(folder)) for name, verbosity in order})
            for clock, word in enumerate(("CPU", "wall")):
                least = {name: min(each[name][clock] for each in rounds) for name in which}
                cells = [f"width {width}, {word}: {least['without']:.1f} us a step"]
                for name in list(which)[1:]:
                    ratio = statistics.median(each[name][clock] / each["without"][clock] - 1 for each in rounds)
                    more = least[name] - least["without"]
                    cells.append(f"{name} {more:+.1f} us in the best rounds ({ratio:+.1%} in the median)")
                print(", ".join(cells))


if __name__ == "__main__":
    main()

"""Losses of a program that is killed, against the bound that its log states: hundreds of kills, idle and busy.

    python benchmarks/recorder_losses.py [--kills 100] [--busy 0] [--seed 1]

Each program records ranges in one to three threads without a pause, and writes down beside its log when each of them
was recorded. It is killed at a random moment of its first two seconds. From the two files follow

- the ranges that were recorded before the log's last sign of life and are not in it: there must be none;
- the loss: the time from that sign of life to the last range, against the bound that the reader states: twice the
  longest wait of an event that the log has measured until then. With fewer than ten flushes it states none.

--busy N: beside it N processes use their processors without a pause. Exit code 1 if a range is missing that the log
claims to have, or if a loss exceeds its bound.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent)]

from recorder.kills import Kill, kill  # noqa: E402

import tracekit  # noqa: E402

BURN = "while True: pass"


def ms(ns: float) -> str:
    return f"{ns / 1e6:.1f}"


def row(title: str, values: Sequence[float]) -> str:
    ordered = sorted(values)
    high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return f"| {title} | {ms(statistics.median(ordered))} | {ms(high)} | {ms(ordered[-1])} |"


@dataclass(frozen=True)
class Trial:
    """A kill, and the bound that tracekit's reader states of its log, if it states one."""

    kill: Kill
    bound_ns: int | None


def trial(folder: Path, *, threads: int, after_s: float) -> Trial:
    done = kill(folder, threads=threads, after_s=after_s)
    bound = tracekit.read(done.path).run.sources[0].facts.get("loss_bound_ns")
    return Trial(done, bound)


def show(trials: list[Trial]) -> bool:
    """Print the figures; return whether each log said the truth."""
    kills = [each.kill for each in trials]
    bounded = [(each.kill.lost_ns, each.bound_ns) for each in trials if each.bound_ns is not None]
    early = sum(each.lost_early for each in kills)
    recorded, kept = sum(each.recorded for each in kills), sum(each.kept for each in kills)
    print(f"{len(kills)} kills; the logs have {kept:,} of {recorded:,} ranges")
    print(f"ranges that are missing from before the last sign of life: {early}")
    print("\n| ms | median | 95 % | max |\n|---|---|---|---|")
    print(row("loss", [each.lost_ns for each in kills]))
    print(row("longest wait in the log", [each.wait_ns for each in kills]))
    print(row("stated bound", [bound for _, bound in bounded]))
    over = sum(lost > bound for lost, bound in bounded)
    worst = max(lost / bound for lost, bound in bounded)
    print(f"\nbound stated in {len(bounded)}, exceeded in {over}; the largest loss is {worst:.2f} times its bound")
    return not early and not over


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--busy", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    burning = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(options.busy)]
    try:
        with tempfile.TemporaryDirectory() as name:
            trials = [
                trial(Path(name) / str(number), threads=1 + number % 3, after_s=rng.uniform(0, 2))
                for number in range(options.kills)
            ]
    finally:
        for process in burning:
            process.kill()
            process.wait()
    return int(not show(trials))


if __name__ == "__main__":
    sys.exit(main())

"""The share of device time that the first screen shows for steps is the true one, with few steps as with many."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracekit
from benchmarks.truth.host_gaps import Rounds, loop
from benchmarks.truth.machine import Rank, World, window
from benchmarks.truth.score import write
from tracekit.model.report import DeviceTime, Headline

_HOST_BOUND = {
    "a gap after the work": {"gap_ms": 4.0},
    "a gap in a range": {"gap_ms": 4.0, "gap_range": "save", "batch_mib": 2.0},
    "slow operators": {"op_us": 400.0, "kernels": 6},
    "calls": {"call": "cudaMemGetInfo", "call_us": 300.0, "calls": 12},
}


def headline(rank: Rank, folder: Path) -> Headline:
    (path,) = write([rank], "kineto-api", folder)
    found = tracekit.summary(str(path)).headline
    assert found is not None
    return found


def idle_share(device: DeviceTime) -> float:
    return next(part.ns for part in device.parts if part.name == "idle") / device.window_ns


def true_idle_share(rank: Rank) -> float:
    """The idle share from the begin of the first step to the end of the last one, and of what it launched."""
    busy, now = 0, 0
    for work in sorted(rank.works, key=lambda each: each.start):
        busy += max(0, work.end - max(now, work.start))
        now = max(now, work.end)
    return 1 - busy / window(rank)


@pytest.mark.parametrize("shape", _HOST_BOUND)
@pytest.mark.parametrize("steps", [2, 3, 8])
def test_the_idle_share_of_a_host_bound_program_is_that_of_its_steps(shape: str, steps: int, tmp_path: Path) -> None:
    plan = Rounds(rounds=steps, steps=True, **_HOST_BOUND[shape])  # type: ignore[arg-type]
    (rank,) = loop(World(1), plan=plan)
    found = headline(rank, tmp_path)
    (device,) = found.devices
    assert device.window == "steps"
    assert idle_share(device) == pytest.approx(true_idle_share(rank), abs=0.005)
    assert found.opening is not None
    assert f" waits {100 * idle_share(device):.0f} % of " in found.opening.sentence


def test_a_device_that_the_host_runs_ahead_of_keeps_its_share(tmp_path: Path) -> None:
    (rank,) = loop(World(1), plan=Rounds(rounds=4, steps=True, read_back=False, kernel_us=400, op_us=2))
    (device,) = headline(rank, tmp_path).devices
    assert idle_share(device) == pytest.approx(true_idle_share(rank), abs=0.02)

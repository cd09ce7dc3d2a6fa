"""Half of a file: the step time and the device time are of the steps whose work is there, or not known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tracekit
from benchmarks.truth.host_gaps import Rounds, loop
from benchmarks.truth.machine import World
from benchmarks.truth.score import write
from tracekit import rank_summaries
from tracekit.inputs import USUAL
from tracekit.model.report import Headline

STEP_NS = 5_200_000
"""The device works that long in each step; the host launches it in 0.1 ms."""


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The rows of a program whose host runs ahead: those of the host come first, as PyTorch writes them."""
    (rank,) = loop(World(1), plan=Rounds(rounds=8, steps=True, read_back=False, kernel_us=400, op_us=2))
    (path,) = write([rank], "kineto-api", tmp_path_factory.mktemp("whole"))
    found: list[dict[str, object]] = json.loads(path.read_text())["traceEvents"]
    return found


def start_of(event: dict[str, object]) -> float:
    return float(str(event.get("ts", 0)))


def half(events: list[dict[str, object]], share: float, path: Path) -> Headline:
    text = json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=0)
    path.write_text(text[: int(len(text) * share)])
    found = tracekit.summary(str(path)).headline
    assert found is not None
    return found


@pytest.mark.parametrize("share", [0.95, 0.8, 0.65])
@pytest.mark.parametrize("order", ["host first", "by time"])
def test_steps_whose_work_is_behind_the_cut_are_left_out(
    events: list[dict[str, object]], share: float, order: str, tmp_path: Path
) -> None:
    rows = sorted(events, key=start_of) if order == "by time" else events
    found = half(rows, share, tmp_path / "half.json")
    assert found.step is not None
    assert 0 < found.step.steps < 8
    assert all(abs(ns - STEP_NS) < 0.05 * STEP_NS for ns in (found.step.p5_ns, found.step.median_ns, found.step.p95_ns))
    assert any(" left out: work that they launched" in text for text in found.reservations)
    assert found.opening is not None
    assert found.opening.sentence == "The GPU is busy more than 99 % of each step."
    (device,) = found.devices
    assert device.window_ns == pytest.approx(found.step.steps * STEP_NS, rel=0.03)


@pytest.mark.parametrize("share", [0.48, 0.3])
def test_where_no_step_has_all_of_its_work_the_step_time_is_said_to_be_that_of_the_host(
    events: list[dict[str, object]], share: float, tmp_path: Path
) -> None:
    found = half(events, share, tmp_path / "half.json")
    assert found.step is not None
    assert found.step.median_ns < 200_000
    assert any(text.startswith("The time of a step is that of the host: ") for text in found.reservations)
    assert not found.devices
    assert found.devices_note.startswith("Device time unknown")


def test_the_steps_of_a_whole_file_are_all_there(events: list[dict[str, object]], tmp_path: Path) -> None:
    found = half(events, 1, tmp_path / "whole.json")
    assert found.step is not None
    assert found.step.steps == 8
    assert not found.reservations


def test_ranks_that_are_read_apart_leave_out_the_same_steps(events: list[dict[str, object]], tmp_path: Path) -> None:
    paths = []
    for rank, share in enumerate((1, 0.8)):
        text = json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": events}, indent=0)
        paths.append(tmp_path / f"rank{rank}.json")
        paths[-1].write_text(text[: int(len(text) * share)])
    together = tracekit.summary(list(map(str, paths))).headline
    apart = rank_summaries.summary(list(map(str, paths)), USUAL, jobs=1).report.headline
    assert together is not None
    assert apart is not None
    assert together.step is not None
    assert together.step.steps < 16
    assert apart.step == together.step

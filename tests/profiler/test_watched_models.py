"""SINGA's and Mini-Caffe's documented calls around a torch model that is only watched: their tables are filled."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import missing

from tracekit import recorder
from tracekit.profiler import mini_caffe
from tracekit.profiler import singa as device
from tracekit.profiler.mini_caffe import Profiler
from tracekit.recorder.torch import watch

try:
    import torch
except ImportError:
    torch = None

LAYERS = ["0", "1", "2"]


@pytest.fixture(autouse=True)
def torch_is_here() -> None:
    if torch is None:
        missing("torch is not installed (pip install torch==2.13.0)")


def parts() -> tuple[Any, Any, Any]:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    return (
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        torch.utils.data.DataLoader(torch.randn(48, 4), batch_size=4),
    )


def train(verbosity: int) -> None:
    model, optimizer, loader = parts()
    with watch(model, optimizer=optimizer, dataloader=loader, verbosity=verbosity):
        for batch in loader:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()


def rows(said: str) -> list[str]:
    return [re.sub(r"[\d.e-]+ sec", "T sec", line) for line in said.splitlines()]


OPERATORS = [
    *(f"{layer}.forward" for layer in LAYERS), *(f"{layer}.backward" for layer in reversed(LAYERS)), "optimizer",
]  # fmt: skip


def test_singa_prints_the_layers_of_a_watched_model(capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    dev.SetSkipIteration(5)
    train(2)
    dev.PrintTimeProfiling()
    expected = [
        "", "Time Profiling:", "tracekit: 7 of 12 iterations measured, operators divided by 7",
        *(f"OP_ID{number}. {name} : T sec" for number, name in enumerate(OPERATORS)),
    ]  # fmt: skip
    assert rows(capsys.readouterr().out) == expected
    train(2)
    dev.PrintTimeProfiling()
    expected[2] = "tracekit: 19 of 24 iterations measured, operators divided by 19"
    assert rows(capsys.readouterr().out) == expected, "it goes on after it was printed"


def test_singa_prints_the_phases_of_a_watched_model(capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(1)
    train(1)
    dev.PrintTimeProfiling()
    said = capsys.readouterr().out
    assert rows(said)[3:] == ["Forward Propagation Time : T sec", "Backward Propagation Time : T sec"]
    assert all(float(time) > 0 for time in re.findall(r": ([\d.e-]+) sec", said))


def test_singa_beside_a_recording_of_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = recorder.start(tmp_path / "run.jsonl", nvtx=False)
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    train(2)
    dev.PrintTimeProfiling()
    assert recorder.log_path() == log
    assert [line.split()[1] for line in rows(capsys.readouterr().out)[3:]] == OPERATORS


def test_a_recording_that_the_program_begins_later_is_its_own(tmp_path: Path) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    log = recorder.start(tmp_path / "run.jsonl", nvtx=False)
    dev.SetVerbosity(0)
    assert recorder.log_path() == log


def test_a_graph_of_the_programs_own_is_measured_alone(capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    dev.SetSkipIteration(0)
    train(2)
    with dev.graph(), dev.op("ReLU"):
        torch.relu(torch.ones(3))
    assert not recorder.is_recording()
    dev.PrintTimeProfiling()
    assert rows(capsys.readouterr().out)[3:] == ["OP_ID0. ReLU : T sec"]


@pytest.mark.parametrize("verbosity", [1, 2, 3])
def test_singa_says_that_nothing_was_timed(verbosity: int, capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(verbosity)
    torch.relu(torch.ones(3))
    dev.PrintTimeProfiling()
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing was timed: neither `device.graph()` nor a step of a watched model ran" in said.err


def test_a_device_that_is_never_printed_leaves_no_word(capfd: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    train(1)
    del dev
    gc.collect()
    assert not recorder.is_recording()
    assert capfd.readouterr().err == ""


@pytest.fixture
def profiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Profiler]:
    monkeypatch.setattr(mini_caffe.Profiler, "_state", mini_caffe._CaffeState())
    yield Profiler.Get()
    if mini_caffe.Profiler._state.running:
        Profiler.disable()


def dumped(path: Path) -> list[tuple[str, str]]:
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)
    return [(event["ph"], event["name"]) for event in events]


def test_mini_caffe_has_the_layers_within_its_scopes(profiler: Profiler, tmp_path: Path) -> None:
    model, _, _ = parts()
    with watch(model, verbosity=2):
        model(torch.ones(1, 4))  # before it is on
        profiler.TurnON()
        profiler.ScopeStart("wgan")
        profiler.ScopeStart("G")
        model(torch.ones(1, 4))
        profiler.ScopeEnd()
        profiler.ScopeStart("output")
        profiler.ScopeEnd()
        profiler.ScopeEnd()
        model(torch.ones(1, 4))
        profiler.TurnOFF()
    profiler.DumpProfile(str(tmp_path / "profile.json"))

    def forward(around: str) -> list[tuple[str, str]]:
        layers = [
            edge
            for layer in LAYERS
            for edge in (("B", f"{around}:{layer}.forward"), ("E", f"{around}:{layer}.forward"))
        ]
        return [("B", around), *layers, ("E", around)]

    assert dumped(tmp_path / "profile.json") == [
        ("B", "wgan"), ("B", "wgan:G"), *forward("wgan:G:forward"), ("E", "wgan:G"), ("B", "wgan:output"),
        ("E", "wgan:output"), ("E", "wgan"), *forward("forward"),
    ]  # fmt: skip


def test_mini_caffe_says_that_its_profile_is_empty(
    profiler: Profiler, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profiler.TurnON()
    profiler.TurnOFF()
    profiler.DumpProfile(str(tmp_path / "profile.json"))
    assert dumped(tmp_path / "profile.json") == []
    assert "the profile is empty: neither a scope nor a watched model ran while it was on" in capsys.readouterr().err

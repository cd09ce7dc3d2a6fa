"""The documents that the faces come from: their examples run as they stand, with another import.

The code is read from the documents (../shared/seeds beside the checkout); what stands for the frameworks is plain
Python below, which records forward, backward and optimizer as the frameworks' own hooks do. Mended are the slips of the
documents alone: `make_scheduelr`, `ProfilerTarget` without its import, a missing indent.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
import types
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import corpus_root, without_corpus

import tracekit.profiler.fluid
import tracekit.profiler.paddle
from tracekit import recorder
from tracekit.profiler import mini_caffe, singa

pytestmark = [pytest.mark.corpus, pytest.mark.filterwarnings("ignore:Profiling .* is not supported")]

BLOCK = re.compile(r"^[ ]*```python\n(.*?)^[ ]*```", re.M | re.S)
RST_BLOCK = re.compile(r"^\.\. code-block:: python\n\n((?:[ ]+.*\n|\n)+)", re.M)


def document(mark: str) -> str:
    folder = corpus_root().parent / "seeds"
    for path in sorted(folder.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        if mark in text:
            return text
    without_corpus(f"the document with {mark!r} is not in {folder.name}/")
    raise AssertionError


class Tensor:
    def __init__(self, *values: Any) -> None:
        self.values = values

    def backward(self) -> None:
        with recorder.range("backward", kind="backward"):
            pass

    def numpy(self) -> float:
        return 0.5

    def __getitem__(self, key: Any) -> Tensor:
        return self


class Layer:
    def __call__(self, *inputs: Any) -> Tensor:
        with recorder.range(type(self).__name__, kind="forward"):
            return self.forward(*inputs)

    def forward(self, *inputs: Any) -> Tensor:
        return Tensor(inputs)

    def parameters(self) -> list[Tensor]:
        return []

    def train(self) -> None:
        pass

    eval = clear_gradients = train


class Linear(Layer):
    def __init__(self, inputs: int, outputs: int) -> None:
        pass


class Optimizer:
    def __init__(self, *, learning_rate: float, parameters: list[Tensor]) -> None:
        pass

    def step(self) -> None:
        with recorder.range("Optimization Step", kind="optimizer"):
            pass

    def minimize(self, loss: Tensor) -> None:
        self.step()

    def clear_grad(self) -> None:
        pass


class Dataset:
    pass


class DataLoader:
    def __init__(self, dataset: Any, *, batch_size: int, shuffle: bool = False, num_workers: int = 0) -> None:
        self.dataset, self.batch_size = dataset, batch_size

    def __call__(self) -> Any:
        return recorder.watch_loader(self)

    def __iter__(self) -> Any:
        for at in range(0, len(self.dataset), self.batch_size):
            rows = [self.dataset[i] for i in range(at, min(at + self.batch_size, len(self.dataset)))]
            time.sleep(0.0005)
            yield tuple(Tensor(column) for column in zip(*rows, strict=True))


def framework() -> dict[str, types.ModuleType]:
    """The modules that the documents import, as far as they use them."""
    paddle = types.ModuleType("paddle")
    make = lambda *a, **k: Tensor()  # noqa: E731
    paddle.randn = paddle.reshape = paddle.rand = paddle.randint = paddle.mean = make
    paddle.to_tensor = paddle.unsqueeze = make
    paddle.nn = SimpleNamespace(Linear=Linear, Layer=Layer, functional=SimpleNamespace(cross_entropy=make))
    paddle.optimizer = SimpleNamespace(Momentum=Optimizer, SGD=Optimizer, Adam=Optimizer)
    paddle.io = SimpleNamespace(Dataset=Dataset, DataLoader=DataLoader)
    paddle.metric = SimpleNamespace(accuracy=make)
    paddle.profiler = tracekit.profiler.paddle
    return {"paddle": paddle, "paddle.profiler": paddle.profiler}


def run(code: str, monkeypatch: pytest.MonkeyPatch, **names: Any) -> dict[str, Any]:
    for name, module in framework().items():
        monkeypatch.setitem(sys.modules, name, module)
    scope = {"ProfilerTarget": tracekit.profiler.paddle.ProfilerTarget, **names}
    exec(compile(code.replace("make_scheduelr", "make_scheduler"), "<document>", "exec"), scope)
    return scope


def example(number: int) -> str:
    return textwrap.dedent(BLOCK.findall(document("### 使用案例"))[number])


def exported(folder: str) -> list[list[int]]:
    """The steps in each file, by file."""
    found = []
    for path in sorted(Path(folder).iterdir()):
        names = [event["name"] for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]]
        found.append(sorted({int(name.split("#")[1]) for name in names if name.startswith("ProfileStep#")}))
    return found


def kinds(said: str) -> dict[str, int]:
    """Calls by kind, of the last Overview Summary."""
    table = said.rpartition("Overview Summary")[2]
    return {kind: int(calls) for calls, kind in re.findall(r"(?m)^ *(\d+)[ \d.,<]* ([a-z_]+)$", table)}


STEPS = list(range(2, 10))


def test_paddle_1_a_range_of_steps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    prof = run(example(0), monkeypatch)["prof"]
    assert exported("profiler_demo") == [STEPS]
    said = capsys.readouterr().out
    assert kinds(said) == {"step": 8, "forward": 8, "backward": 8, "optimizer": 8}
    assert [window.steps for window in prof.windows] == [(2, 9)]


def test_paddle_2_several_ranges_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    run(example(1), monkeypatch)
    assert exported("profiler_demo") == [[2, 3, 4, 5], [8, 9, 10, 11], [14, 15, 16, 17]]


def test_paddle_3_all_steps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(example(2), monkeypatch)
    assert exported("profiler_log") == [list(range(21))]
    said = capsys.readouterr().out
    assert kinds(said)["forward"] == 20
    assert kinds(said)["step"] == 21


def test_paddle_4_by_hand(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(example(3), monkeypatch)
    assert exported("profiler_demo") == [STEPS]
    assert kinds(capsys.readouterr().out)["optimizer"] == 8


def test_paddle_5_a_scheduler_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    prof = run(example(4), monkeypatch)["prof"]
    assert exported("profiler_demo") == [list(range(31))]
    assert prof.current_state is tracekit.profiler.paddle.ProfilerState.RECORD


def test_paddle_6_a_callback_of_the_users(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(example(5), monkeypatch)
    assert exported("profiler_demo") == [STEPS]
    assert capsys.readouterr().out.count("Overview Summary") == 1


def test_paddle_7_ranges_of_the_users(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    prof = run(example(6), monkeypatch, my_on_trace_ready=lambda prof: None)["prof"]
    rows = prof.windows[0].read().events.select(["name", "step"]).to_pylist()
    assert [row["step"] for row in rows if row["name"] == "DataPrepare"] == STEPS
    assert kinds(capsys.readouterr().out)["user_range"] == 8


def test_paddle_8_benchmark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(example(7), monkeypatch)
    said = capsys.readouterr().out
    line = r"Iter (\d+):  reader_cost: \d+\.\d{5} s batch_cost: \d+\.\d{5} s ips: \d+\.\d{3} images/s"
    assert re.findall(line, said) == ["0", "10"]
    assert "Time Unit: s, IPS Unit: images/s" in said
    assert [row.split()[1] for row in said.splitlines() if row.startswith("| ") and "_cost" in row] == [
        "reader_cost", "batch_cost",
    ]  # fmt: skip
    ratio = float(re.search(r"Reader Ratio: ([\d.]+)%", said)[1])
    assert 0 < ratio <= 100
    assert not list(Path().glob("profiler_log/*"))


def test_paddle_case_study(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """stop() inside of the callback, then on with training, evaluation by another loader, and stop() again."""
    rows = [(i, i % 10) for i in range(40)]
    scope = run(
        example(8), monkeypatch, paddle=framework()["paddle"], profiler=tracekit.profiler.paddle, np=np,
        F=SimpleNamespace(cross_entropy=lambda *a: Tensor()), learning_rate=1e-3, batch_size=2, epoch_num=2,
        cifar10_train=rows, cifar10_test=rows[:6], val_acc_history=[], val_loss_history=[],
    )  # fmt: skip
    scope["train"](Linear(3, 10))
    assert exported("profiler_demo") == [list(range(3, 14))]
    said = capsys.readouterr().out
    assert said.index("Perf Summary") < said.index("Overview Summary")
    assert (said.count("Perf Summary"), said.count("Overview Summary")) == (1, 1)
    found = kinds(said)
    assert {kind: found[kind] for kind in ("step", "dataloader", "forward", "backward", "optimizer")} == {
        "step": 11, "dataloader": 11, "forward": 11, "backward": 11, "optimizer": 11,
    }  # fmt: skip
    assert "Over 4 steps; the first 10 are skipped." in said
    assert said.count("[validation]") == 2
    assert not recorder.is_recording()


def fluid_example(number: int) -> str:
    lines = textwrap.dedent(RST_BLOCK.findall(document("fluid.profiler\n####"))[number]).splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith("with profiler.")), None)
    if at is not None and not lines[at + 1].startswith("    "):  # the missing indent
        lines[at + 1 :] = ["    " + line for line in lines[at + 1 :]]
    return "\n".join(lines) + "\n"


class Executor:
    def __init__(self, place: Any) -> None:
        pass

    def run(self, program: str, feed: Any = None) -> None:
        if program == "main":
            with recorder.range("conv2d"), recorder.range("conv2d/compute"):
                pass


def run_fluid(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fluid = types.ModuleType("paddle.fluid")
    fluid.layers = SimpleNamespace(data=lambda **k: Tensor(), conv2d=lambda *a, **k: Tensor())
    fluid.CPUPlace = fluid.CUDAPlace = lambda *a: None
    fluid.Executor = Executor
    fluid.default_startup_program, fluid.default_main_program = lambda: "startup", lambda: "main"
    fluid.profiler = tracekit.profiler.fluid
    package = types.ModuleType("paddle")
    package.fluid = fluid
    for name, module in (("paddle", package), ("paddle.fluid", fluid), ("paddle.fluid.profiler", fluid.profiler)):
        monkeypatch.setitem(sys.modules, name, module)
    names = {"fluid": fluid}  # one example lacks its import
    if number > 1:  # these iterate without doing anything: then each number is an iteration's work
        names["range"] = worked
    exec(compile(fluid_example(number), "<document>", "exec"), names)


def worked(count: int) -> Iterator[int]:
    for number in range(count):
        Executor(None).run("main")
        yield number


def calls(said: str) -> dict[str, int]:
    return {name: int(count) for name, count in re.findall(r"^ *thread0::(\S+) +(\d+)", said, re.M)}


def test_fluid_cuda_profiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from profiler.fake_cupti import FakeCupti, install

    gpu = install(monkeypatch, FakeCupti())
    launched = Executor.run

    def with_a_kernel(self: Executor, program: str, feed: Any = None) -> None:
        launched(self, program, feed)
        gpu.kernel()

    monkeypatch.setattr(Executor, "run", with_a_kernel)
    run_fluid(0, monkeypatch)
    text = Path("cuda_profiler.txt").read_text(encoding="utf-8")
    assert text.count("_Z6vecaddPiS_,") == 8
    assert "# CUDA_PROFILE_CSV 1" in text


def test_fluid_profiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run_fluid(1, monkeypatch)
    said = capsys.readouterr().out
    assert "Place: CPU" in said
    assert "Sorted by total time" in said
    assert calls(said) == {"conv2d": 8}


@pytest.mark.parametrize("number", [2, 3, 4])
def test_fluid_reset_start_and_stop(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten iterations; in the third, after its work, all so far is forgotten."""
    run_fluid(number, monkeypatch)
    said = capsys.readouterr().out
    assert ("Place: CPU" if number == 2 else "Place: CUDA") in said
    assert calls(said) == {"conv2d": 7}
    assert not recorder.is_recording()


def test_singa(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    setting, printing = (
        textwrap.dedent(block).replace("from singa import device", "from tracekit.profiler import singa as device")
        for block in BLOCK.findall(document("device.PrintTimeProfiling"))
    )
    scope: dict[str, Any] = {}
    exec(compile(setting, "<document>", "exec"), scope)
    dev = scope["dev"]
    assert isinstance(dev, singa.Device)
    for _ in range(8):
        with dev.graph():
            for name in ("SetValue", "cudnnConvForward", "cudnnConvBackwardW"):
                with dev.op(name):
                    time.sleep(0.0002)
    capsys.readouterr()
    exec(compile(printing, "<document>", "exec"), scope)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["", "Time Profiling:", "tracekit: 3 of 8 iterations measured, operators divided by 3"]
    assert [re.sub(r"[\d.e-]+ sec", "T sec", line) for line in lines[3:]] == [
        "OP_ID0. SetValue : T sec", "OP_ID1. cudnnConvForward : T sec", "OP_ID2. cudnnConvBackwardW : T sec",
    ]  # fmt: skip


def test_mini_caffe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C++ of the document, each call as it stands there."""
    monkeypatch.setattr(mini_caffe.Profiler, "_state", mini_caffe._CaffeState())
    code = re.search(r"(?s)caffe::Profiler \*profiler = .*?DumpProfile\(\"profile.json\"\);", document("TurnON"))[0]
    python = code.replace("caffe::Profiler *profiler = caffe::Profiler::Get();", "profiler = Profiler.Get()")
    python = python.replace("->", ".").replace(";", "").replace("//", "#").replace("\n...", "\npass")
    exec(compile(python, "<document>", "exec"), {"Profiler": mini_caffe.Profiler})
    events = json.loads(Path("profile.json").read_text(encoding="utf-8"))["traceEvents"]
    assert [(event["ph"], event["name"]) for event in events] == [("B", "wgan"), ("E", "wgan")]

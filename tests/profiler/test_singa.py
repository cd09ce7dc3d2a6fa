"""SINGA's face on a clock that the test turns: divisor, skipped iterations, layout."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from profiler.fake_cupti import FakeCupti, install
from recorder.reading import read_log
from support import corpus

import tracekit
from tracekit import pipeline, recorder
from tracekit.profiler import singa
from tracekit.profiler import singa as device

NS = {"SetValue": 17_372, "ConvForward": 612_724, "ReLU": 375_004, "ConvBackward": 1_200_000, "DistAllReduce": 90_000}
OUTSIDE_OPS = 50_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    now = [10**12]
    monkeypatch.setattr(singa.time, "perf_counter_ns", lambda: now[0])
    return now


def train(dev: singa.Device, now: list[int], iterations: int, *, slow_first: int = 0) -> None:
    for i in range(iterations):
        factor = 100 if i < slow_first else 1
        with dev.graph():
            for name in ("SetValue", "ConvForward", "ReLU", "ReLU", "ConvBackward", "DistAllReduce"):
                with dev.op(name):
                    now[0] += NS[name] * factor
            now[0] += OUTSIDE_OPS * factor


def lines(dev: singa.Device, capsys: pytest.CaptureFixture[str]) -> list[str]:
    dev.PrintTimeProfiling()
    return capsys.readouterr().out.splitlines()


def test_verbosity_0_measures_nothing(clock: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    train(dev, clock, 10)
    dev.PrintTimeProfiling()
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing was timed: the verbosity is 0" in said.err


def rows(dev: singa.Device, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of SINGA's own layout: all but the one that names the divisor."""
    printed = lines(dev, capsys)
    own = [line for line in printed if line.startswith("tracekit: ")]
    assert own == printed[2:3]
    assert not any(word in own[0] for word in ("OP_ID", "Propagation", " sec"))
    return printed[:2] + printed[3:]


def test_verbosity_1_forward_and_the_rest(clock: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(1)
    train(dev, clock, 12, slow_first=5)
    forward = NS["SetValue"] + NS["ConvForward"] + 2 * NS["ReLU"]
    backward = NS["ConvBackward"] + NS["DistAllReduce"] + OUTSIDE_OPS
    assert rows(dev, capsys) == [
        "", "Time Profiling:", f"Forward Propagation Time : {forward / 1e9:g} sec",
        f"Backward Propagation Time : {backward / 1e9:g} sec",
    ]  # fmt: skip


def test_verbosity_2_each_operator_in_order_not_merged(clock: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    train(dev, clock, 12, slow_first=5)
    assert rows(dev, capsys) == [
        "", "Time Profiling:", "OP_ID0. SetValue : 1.7372e-05 sec", "OP_ID1. ConvForward : 0.000612724 sec",
        "OP_ID2. ReLU : 0.000375004 sec", "OP_ID3. ReLU : 0.000375004 sec", "OP_ID4. ConvBackward : 0.0012 sec",
        "OP_ID5. DistAllReduce : 9e-05 sec",
    ]  # fmt: skip


def test_verbosity_3_communication_alone(clock: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(3)
    train(dev, clock, 12)
    assert rows(dev, capsys)[2:] == ["OP_ID5. DistAllReduce : 9e-05 sec"]


def test_compat_divides_by_all_iterations(clock: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu(compat="singa")
    dev.SetVerbosity(2)
    train(dev, clock, 12, slow_first=5)
    assert rows(dev, capsys)[3] == f"OP_ID1. ConvForward : {612_724 * 7 / 12 / 1e9:g} sec"
    dev.SetVerbosity(1)
    assert rows(dev, capsys)[2].startswith("Forward Propagation Time : 0.0013801")
    with pytest.raises(ValueError, match="compat"):
        singa.Device(compat="caffe")


@pytest.mark.parametrize(
    ("compat", "verbosity", "line"),
    [
        ("", 1, "tracekit: 7 of 12 iterations measured, phases divided by 7"),
        ("", 2, "tracekit: 7 of 12 iterations measured, operators divided by 7"),
        ("", 3, "tracekit: 7 of 12 iterations measured, operators divided by 7"),
        ("singa", 1, "tracekit: 7 of 12 iterations measured, phases divided by 7"),
        ("singa", 2, "tracekit: 7 of 12 iterations measured, operators divided by 12"),
    ],
)
def test_a_line_of_its_own_names_the_divisor(
    clock: list[int], compat: str, verbosity: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dev = device.create_cpu(compat=compat)
    dev.SetVerbosity(verbosity)
    train(dev, clock, 12)
    assert lines(dev, capsys)[:3] == ["", "Time Profiling:", line]


def test_iterations_that_are_skipped(clock: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    dev.SetSkipIteration(1)
    train(dev, clock, 2, slow_first=1)
    assert rows(dev, capsys)[2] == "OP_ID0. SetValue : 1.7372e-05 sec"


@pytest.mark.parametrize("verbosity", [1, 2, 3])
def test_nothing_measured_is_said_not_divided(
    verbosity: int, clock: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(verbosity)
    train(dev, clock, 5)
    dev.PrintTimeProfiling()
    said = capsys.readouterr()
    assert said.out == ""
    assert "no iteration was measured: 5 run, the first 5 are skipped" in said.err


def test_python_spellings_and_wrong_arguments() -> None:
    dev = singa.Device()
    dev.set_verbosity(2)
    dev.set_skip_iteration(0)
    for call, wrong in ((dev.set_verbosity, 4), (dev.set_verbosity, -1), (dev.set_skip_iteration, -1)):
        with pytest.raises(ValueError):
            call(wrong)
    dev.print_time_profiling()


def test_waiting_and_what_takes_no_time_are_not_shown(clock: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    dev.SetSkipIteration(0)
    with dev.graph():
        with dev.op("Waiting"):
            clock[0] += 500
        with dev.op("Nothing"):
            pass
        with dev.op("ReLU"):
            clock[0] += 500
    assert rows(dev, capsys)[2:] == ["OP_ID2. ReLU : 5e-07 sec"]


def test_an_operator_as_decorator_and_outside_of_a_graph(clock: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    dev.SetSkipIteration(0)

    @dev.op("ReLU")
    def relu() -> int:
        clock[0] += 1000
        return 7

    assert relu() == 7
    assert "outside of device.graph()" in capsys.readouterr().err
    for _ in range(4):
        with dev.graph():
            assert relu() + relu() == 14
    assert rows(dev, capsys)[2:] == ["OP_ID0. ReLU : 1e-06 sec", "OP_ID1. ReLU : 1e-06 sec"]


def test_an_exception_leaves_the_device_usable(clock: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    dev.SetSkipIteration(0)

    def fail() -> None:
        with dev.graph(), dev.op("ReLU"):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with dev.graph(), dev.op("ReLU"):
        clock[0] += 1000
    assert rows(dev, capsys)[2:] == ["OP_ID0. ReLU : 5e-07 sec"]


def test_gpu_work_is_waited_for(clock: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    pending = [0]

    def wait() -> None:
        clock[0] += pending[0]
        pending[0] = 0

    dev = singa.Device("gpu0", wait=wait)
    dev.SetVerbosity(2)
    dev.SetSkipIteration(0)
    with dev.graph():
        for ns in (3_000, 7_000):
            with dev.op(f"kernel{ns}"):
                pending[0] = ns
    assert rows(dev, capsys)[2:] == ["OP_ID0. kernel3000 : 3e-06 sec", "OP_ID1. kernel7000 : 7e-06 sec"]


def test_a_gpu_device_without_cuda_says_so_once(
    clock: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, FakeCupti(), driver=False)
    devices = [device.create_cuda_gpu(), device.create_cuda_gpu_on(1)]
    assert [dev.name for dev in devices] == ["gpu0", "gpu1"]
    assert capsys.readouterr().err.count("no CUDA here") == 1
    install(monkeypatch, FakeCupti())
    device.create_cuda_gpu()
    assert capsys.readouterr().err == ""


def test_the_recorder_gets_operators_and_iterations(tmp_path: Path) -> None:
    path = recorder.start(tmp_path / "run.jsonl", nvtx=False)
    dev = device.get_default_device()
    for _ in range(3):
        with dev.graph(), dev.op("ReLU"):
            time.sleep(0)
    recorder.stop()
    log = read_log(path)
    assert log.calls() == {"graph": 3, "ReLU": 3}
    assert {name["name"]: name["kind"] for name in log.names.values()} == {"graph": "step", "ReLU": "operator"}


@pytest.mark.corpus
def test_the_layout_is_singas(clock: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    """Times of the document's own output, fed as one measured iteration, give its text again."""
    text = corpus("singa/docs_en_verbosity2.txt").read_text(encoding="utf-8")
    document = [line for line in text.splitlines() if line.startswith("OP_ID")]
    assert len(document) == 101
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    dev.SetSkipIteration(0)
    with dev.graph():
        for line in document:
            name, seconds = re.fullmatch(r"OP_ID\d+\. (\S+) : (\S+) sec", line).groups()
            with dev.op(name):
                clock[0] += round(float(seconds) * 1e9)
    exact = [line for line in document if float(line.split()[-2]) * 1e9 == round(float(line.split()[-2]) * 1e9)]
    printed = rows(dev, capsys)[2:]
    assert [line.partition(" : ")[0] for line in printed] == [line.partition(" : ")[0] for line in document]
    assert len(exact) > 50
    assert set(exact) <= set(printed), "times of whole ns come back as they were printed"


def test_tracekit_reads_what_is_printed(clock: list[int], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    if "singa" not in pipeline.READERS:
        pytest.skip("this checkout has no reader singa yet")
    dev = device.create_cpu()
    dev.SetVerbosity(2)
    train(dev, clock, 8)
    (tmp_path / "out.txt").write_text("\n".join(lines(dev, capsys)) + "\n", encoding="utf-8")
    totals = tracekit.read(tmp_path / "out.txt", format="singa").totals.to_pylist()
    assert [row["name"] for row in totals if row["section"] != "header"] == [
        "SetValue", "ConvForward", "ReLU", "ReLU", "ConvBackward", "DistAllReduce",
    ]  # fmt: skip

"""The log of caffe time: samples in the format of every year, excerpts, damage."""

from __future__ import annotations

import json
import re
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import SAMPLES, sample

import tracekit
from tracekit.errors import ParseError, TracekitError
from tracekit.readers import READERS
from tracekit.readers.base import Confidence, Head
from tracekit.trace import Trace

Row = dict[str, Any]
EXPECTED: dict[str, Any] = json.loads((SAMPLES / "expected_printed_profiles.json").read_text("utf-8"))
NEW, OLD = "Average time per layer", "Time per layer"
GLOG = "I0803 16:17:17.206199  4515 caffe.cpp:406] "


def read(path: Path, text: str | bytes, **options: Any) -> Trace:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tracekit.read(path, **options)


def rows_of(trace: Trace, *sections: str) -> list[Row]:
    return [r for r in trace.totals.to_pylist() if not sections or r["section"] in sections]


@pytest.mark.parametrize("name", [n for n in EXPECTED if n.startswith("caffe-time/")])
def test_a_sample_gives_what_was_written(name: str) -> None:
    want = EXPECTED[name]
    trace = tracekit.read(sample(name))
    rows = rows_of(trace, NEW, OLD)
    found = re.findall(r"(\S+)\t(forward|backward): (\S+) m", sample(name).read_text("utf-8"))
    assert [(r["name"], json.loads(r["args"])["pass"], r["total_ns"]) for r in rows] == [
        (layer, way, int((Decimal(ms) * 10**6).to_integral_value())) for layer, way, ms in found
    ]
    assert (len(rows), sum(r["total_ns"] for r in rows)) == (want["layers"], want["layers_ns"])
    assert {r["kind"] for r in rows} == {"forward", "backward"}
    head = {r["name"]: r for r in rows_of(trace, "header")}
    assert (head["Iterations"]["calls"], head["Iterations"]["unit"]) == (want["iterations"], "iterations")
    ledger = trace.ledgers[0]
    assert ledger.kept == trace.totals.num_rows
    assert not ledger.dropped
    assert not ledger.notes


def test_the_averages_and_the_total_agree_with_the_iterations() -> None:
    trace = tracekit.read(sample("caffe-time/gpu.log"))
    took = rows_of(trace, "Iterations")
    head = {r["name"]: r["total_ns"] for r in rows_of(trace, "header")}
    assert len(took) == 50
    assert [json.loads(r["args"])["iteration"] for r in took] == list(range(1, 51))
    assert {r["kind"] for r in took} == {"step"}
    assert head["Total Time"] == Decimal(EXPECTED["caffe-time/gpu.log"]["total_ms"]) * 10**6
    assert sum(r["total_ns"] for r in took) == pytest.approx(head["Total Time"], rel=1e-5)
    assert head["Average Forward-Backward"] * 50 == pytest.approx(head["Total Time"], rel=1e-5)
    layers = rows_of(trace, NEW)
    for kind in ("Forward", "Backward"):
        spent = sum(r["total_ns"] for r in layers if r["kind"] == kind.lower())
        assert 0.97 < spent / head[f"Average {kind} pass"] <= 1


def test_the_device_is_that_of_the_log(tmp_path: Path) -> None:
    assert {r["device"] for r in rows_of(tracekit.read(sample("caffe-time/gpu.log")))} == {0}
    cpu = tracekit.read(sample("caffe-time/cpu.log"))
    assert {r["device"] for r in rows_of(cpu)} == {None}
    assert cpu.run.sources[0].facts["mode"] == "CPU"
    named = sample("caffe-time/gpu.log").read_text("utf-8").replace(
        "Use GPU with device ID 0", f"Use GPU with device ID 2\n{GLOG}GPU device name: Tesla K40c"
    )  # fmt: skip
    trace = read(tmp_path / "x", named)
    assert {r["device"] for r in rows_of(trace)} == {2}
    assert trace.run.devices == {(0, 2): "Tesla K40c"}


def test_sums_of_2014_have_the_number_of_iterations_as_calls() -> None:
    rows = rows_of(tracekit.read(sample("caffe-time/sums-of-2014.log")), OLD)
    assert {r["calls"] for r in rows} == {50}
    assert all(r["avg_ns"] == pytest.approx(r["total_ns"] / 50) for r in rows)


def test_an_excerpt_without_prefix_and_with_blanks_for_tabs_is_read(tmp_path: Path) -> None:
    text = sample("caffe-time/gpu.log").read_text("utf-8")
    whole = [{**r, "order": 0} for r in rows_of(tracekit.read(sample("caffe-time/gpu.log")))]
    single = "\n".join(" ".join(line.split()) for line in text.splitlines()) + "\n"
    assert [{**r, "order": 0} for r in rows_of(read(tmp_path / "x", single))] == whole
    bare = re.sub(r"(?m)^I\S+ \S+ +\d+ \S+\] ", "", text)
    assert [{**r, "order": 0} for r in rows_of(read(tmp_path / "y", bare))] == whole
    short = read(tmp_path / "z", "Average Forward pass: 175.87 ms.\nAverage Backward pass: 144.709 ms.\n"
                                 "Average Forward-Backward: 321.06 ms.\nTotal Time: 16053 ms.\n")  # fmt: skip
    assert [(r["name"], r["total_ns"]) for r in rows_of(short)] == [
        ("Average Forward pass", 175870000), ("Average Backward pass", 144709000),
        ("Average Forward-Backward", 321060000), ("Total Time", 16053000000),
    ]  # fmt: skip


def test_two_benchmarks_are_two_runs(tmp_path: Path) -> None:
    text = sample("caffe-time/cpu.log").read_text("utf-8")
    rows = rows_of(read(tmp_path / "x", text + sample("caffe-time/gpu.log").read_text("utf-8")))
    assert {(r["run"], r["device"]) for r in rows} == {(0, None), (1, 0)}


def test_layers_may_have_blanks_and_colons_in_their_names(tmp_path: Path) -> None:
    text = (
        f"{GLOG}*** Benchmark begins ***\n{GLOG} my layer: a\tforward: 1e-05 ms.\n{GLOG} b c\tbackward: 1.5e+06 ms.\n"
    )
    assert [(r["name"], r["total_ns"]) for r in rows_of(read(tmp_path / "x", text))] == [
        ("my layer: a", 10), ("b c", 1500000000000),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("      data\tforward: 0.01", "torn-row"), ("      data\tforward: 0.01 s.\n", "bad-row"),
        ("      data\tforward: 1e99 ms.\n", "bad-time"), ("Iteration: x forward-backward time: 1 ms.\n", "bad-row"),
    ],
)  # fmt: skip
def test_a_damaged_line_costs_that_line(line: str, reason: str, tmp_path: Path) -> None:
    trace = read(tmp_path / "x", f"{GLOG}*** Benchmark begins ***\n{GLOG}  a\tforward: 2 ms.\n{GLOG}{line}")
    assert trace.ledgers[0].dropped == {reason: 1}
    assert [r["total_ns"] for r in rows_of(trace)] == [2000000]


def test_no_iterations_give_no_times(tmp_path: Path) -> None:
    text = f"{GLOG}*** Benchmark begins ***\n{GLOG}Testing for 0 iterations.\n{GLOG}Average Forward pass: -nan ms.\n"
    trace = read(tmp_path / "x", text)
    assert [(r["name"], r["total_ns"], r["value_text"]) for r in rows_of(trace)] == [
        ("Iterations", None, None), ("Average Forward pass", None, "-nan"),
    ]  # fmt: skip
    assert "no-iteration" in trace.ledgers[0].notes


def test_the_log_of_a_training_is_refused_with_a_hint(tmp_path: Path) -> None:
    text = f"{GLOG}Use CPU.\n{GLOG}Iteration 100, loss = 0.3\n{GLOG}Optimization Done.\n"
    assert READERS["caffe-time"].sniff(Head("x", text.encode())) is Confidence.MAYBE
    with pytest.raises(ParseError, match="no benchmark") as caught:
        read(tmp_path / "x", text)
    assert "caffe time" in caught.value.hint


def test_a_benchmark_behind_a_long_start_is_found(tmp_path: Path) -> None:
    start = f"{GLOG.replace('caffe', 'net')}Creating Layer conv1\n" * 2000
    trace = read(tmp_path / "x", start + sample("caffe-time/cpu.log").read_text("utf-8"))
    assert trace.totals.num_rows == 28


def test_words_about_caffe_are_not_taken_for_its_log() -> None:
    sniff = READERS["caffe-time"].sniff
    assert sniff(Head("x", b"see *** Benchmark begins *** in caffe.cpp\n")) is Confidence.NO
    assert sniff(Head("x", b"the encoder's forward: 12.3 ms.\n")) is Confidence.NO
    assert sniff(Head("x", b"conv1\tforward: 12.3 ms.\n")) is Confidence.YES


LINES = st.sampled_from(
    [
        "*** Benchmark begins ***",
        "*** Benchmark ends ***",
        "Testing for 5 iterations.",
        "Average time per layer: ",
        "   conv1\tforward: 1.5 ms.",
        " conv1 backward: 1 ms.",
        "conv1\tforward: inf ms.",
        "Iteration: 3 forward-backward time: 2 ms.",
        "Average Forward pass: 1 ms.",
        "Total Time: 1 ms.",
        "Total Time: 2 milli seconds.",
        "Use GPU with device ID 999999999",
        "GPU 9999999999: x",
        "GPU 1: Tesla",
        "Use CPU.",
        "\tforward: 1 ms.",
        "x\tforward: 1",
    ]
)


@given(st.lists(st.tuples(st.booleans(), st.one_of(LINES, st.text(max_size=20))), max_size=40))
def test_any_mixture_of_lines_is_read_or_refused_kindly(lines: list[tuple[bool, str]]) -> None:
    text = "\n".join((GLOG if prefix else "") + line for prefix, line in lines)
    with tempfile.TemporaryDirectory() as folder:
        try:
            trace = read(Path(folder) / "x", text.encode("utf-8", "surrogatepass"), format="caffe-time")
        except TracekitError:
            return
    trace.ledgers[0].check()
    assert trace.ledgers[0].kept == trace.totals.num_rows

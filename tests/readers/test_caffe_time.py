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
from tracekit.formats import READERS
from tracekit.model.trace import Trace
from tracekit.readers.base import Confidence
from tracekit.readers.head import Head
from tracekit.readers.printed.prefix import Logged, logged

Row = dict[str, Any]
EXPECTED: dict[str, Any] = json.loads((SAMPLES / "expected_printed_profiles.json").read_text("utf-8"))
NEW, OLD = "Average time per layer", "Time per layer"
GLOG = "I0803 16:17:17.206199  4515 caffe.cpp:406] "


def read(path: Path, text: str | bytes, **options: Any) -> Trace:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tracekit.read(path, **options)


def rows_of(trace: Trace, *sections: str) -> list[Row]:
    return [r for r in trace.totals.to_pylist() if not sections or r["section"] in sections]


def test_output_of_the_program_without_a_line_end_is_no_part_of_the_line_behind_it() -> None:
    line = "Start trainingI0803 16:17:17.373861  4515 caffe.cpp:412]        ip2\tbackward: 6.64565 ms."
    assert logged(line) == Logged("ip2\tbackward: 6.64565 ms.", "caffe.cpp", "4515")


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


def test_all_words_for_milliseconds_of_2014_are_read(tmp_path: Path) -> None:
    text = sample("caffe-time/sums-of-2014.log").read_text("utf-8")
    assert "milli seconds" in text
    whole = tracekit.read(sample("caffe-time/sums-of-2014.log")).totals.to_pylist()
    assert read(tmp_path / "x", text.replace("milli seconds", "milliseconds")).totals.to_pylist() == whole
    one = f"{GLOG}conv1\tforward: 3.5 milliseconds.\n"
    assert READERS["caffe-time"].sniff(Head("x", one.encode())) is Confidence.YES


def test_the_shortest_times_of_intels_caffe_are_no_averages(tmp_path: Path) -> None:
    text = (
        f"{GLOG}*** Benchmark begins ***\n{GLOG}Testing for 8 iterations.\n{GLOG}Min time per layer: \n"
        f"{GLOG}    a\tforward: 2 ms.\n{GLOG}Min Forward pass: 3 ms.\n{GLOG}Min Forward-Backward: 5 ms.\n"
        f"{GLOG}Total Time: 48 ms.\n{GLOG}*** Benchmark ends ***\n{GLOG}    b\tforward: 1 ms.\n"
    )
    rows = rows_of(read(tmp_path / "x", text))
    assert [(r["section"], r["name"], r["calls"], r["total_ns"]) for r in rows[1:]] == [
        ("Min time per layer", "a", 1, 2000000), ("header", "Min Forward pass", 1, 3000000),
        ("header", "Min Forward-Backward", 1, 5000000), ("header", "Total Time", 8, 48000000),
        (NEW, "b", 1, 1000000),
    ]  # fmt: skip


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


def test_averages_alone_are_those_of_one_benchmark_after_another(tmp_path: Path) -> None:
    text = "# Mac\nAverage Forward pass: 3 ms.\nAverage Backward pass: 4 ms.\nAverage Forward-Backward: 7.5 ms\n"
    assert READERS["caffe-time"].sniff(Head("x", text.encode())) is Confidence.YES
    assert [(r["run"], r["total_ns"]) for r in rows_of(read(tmp_path / "x", text + text.replace("Mac", "PC")))] == [
        (0, 3000000), (0, 4000000), (0, 7500000), (1, 3000000), (1, 4000000), (1, 7500000),
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
    python = "I0101 12:00:00.123456  7 _caffe.cpp:128] \nforw   0     data : 0.05\nsolver total: 3.20\n"
    assert READERS["caffe-time"].sniff(Head("x", python.encode())) is Confidence.MAYBE


def test_a_benchmark_behind_a_long_start_is_found(tmp_path: Path) -> None:
    start = f"{GLOG.replace('caffe', 'net')}Creating Layer conv1\n" * 2000
    trace = read(tmp_path / "x", start + sample("caffe-time/cpu.log").read_text("utf-8"))
    assert trace.totals.num_rows == 28


def test_words_about_caffe_are_not_taken_for_its_log() -> None:
    sniff = READERS["caffe-time"].sniff
    assert sniff(Head("x", b"see *** Benchmark begins *** in caffe.cpp\n")) is Confidence.NO
    assert sniff(Head("x", b"the encoder's forward: 12.3 ms.\n")) is Confidence.NO
    assert sniff(Head("x", b"conv1\tforward: 12.3 ms.\n")) is Confidence.YES


def layers_of(trace: Trace) -> list[tuple[int, str, str, int]]:
    return [(r["run"], r["name"], r["kind"], r["total_ns"]) for r in rows_of(trace, NEW)]


@pytest.mark.parametrize(
    "prefix",
    [
        "> ",
        ">> ",
        "[1,0]<stderr>:",
        "2019-02-03T04:05:06.789Z ",
        "worker_1  | ",
        "Feb 03 04:05:06 box caffe[77]: ",
        "\t",
    ],
)
def test_what_stands_before_the_prefix_of_glog_does_not_hinder(prefix: str, tmp_path: Path) -> None:
    whole = tracekit.read(sample("caffe-time/gpu.log")).totals.to_pylist()
    text = re.sub("(?m)^", prefix, sample("caffe-time/gpu.log").read_text("utf-8"))
    assert READERS["caffe-time"].sniff(Head("x", text.encode())) is Confidence.YES
    rows = read(tmp_path / "x", text).totals.to_pylist()
    rank = 0 if prefix.startswith("[") else None
    assert [{**r, "rank": None} for r in rows] == whole
    assert {r["rank"] for r in rows} == {rank}


def test_colours_and_ends_of_lines_of_an_old_mac_change_nothing(tmp_path: Path) -> None:
    text = sample("caffe-time/gpu.log").read_text("utf-8")
    whole = tracekit.read(sample("caffe-time/gpu.log")).totals.to_pylist()
    for changed in (re.sub("(?m)^(.+)$", "\x1b[32m\\1\x1b[0m", text), text.replace("\n", "\r")):
        assert READERS["caffe-time"].sniff(Head("x", changed.encode())) is Confidence.YES
        assert read(tmp_path / "x", changed).totals.to_pylist() == whole


def test_a_copy_that_lost_the_first_letter_is_read(tmp_path: Path) -> None:
    trace = read(tmp_path / "x", f"...\n{GLOG[1:]}Average Forward pass: 3 ms.\n{GLOG}Average Backward pass: 4 ms.\n")
    assert [r["total_ns"] for r in rows_of(trace, "header")] == [3000000, 4000000]


def test_lines_of_two_processes_between_each_other_are_two_benchmarks(tmp_path: Path) -> None:
    def lines(thread: int, device: int, times: tuple[int, int]) -> list[str]:
        said = (
            f"Use GPU with device ID {device}", "*** Benchmark begins ***", "Testing for 9 iterations.",
            "Iteration: 1 forward-backward time: 7 ms.", "Average time per layer: ", f"    a\tforward: {times[0]} ms.",
            f"    a\tbackward: {times[1]} ms.", "Average Forward-Backward: 8 ms.", "*** Benchmark ends ***",
        )  # fmt: skip
        return [f"I0803 16:17:17.206199 {thread:5} caffe.cpp:406] {words}" for words in said]

    mixed = [line for pair in zip(lines(11, 0, (1, 2)), lines(12, 1, (3, 4)), strict=True) for line in pair]
    trace = read(tmp_path / "x", "\n".join(mixed) + "\n")
    assert layers_of(trace) == [
        (0, "a", "forward", 1000000), (1, "a", "forward", 3000000),
        (0, "a", "backward", 2000000), (1, "a", "backward", 4000000),
    ]  # fmt: skip
    assert {(r["run"], r["device"]) for r in rows_of(trace)} == {(0, 0), (1, 1)}
    assert not trace.ledgers[0].notes


def test_excerpts_of_two_benchmarks_are_not_added_up(tmp_path: Path) -> None:
    excerpt = f"{GLOG}  a   forward: 1 ms.\n{GLOG}  a   backward: 2 ms.\n{GLOG}  b   forward: 3 ms.\n"
    trace = read(tmp_path / "x", f"before:\n{excerpt}\nafter:\n{excerpt}")
    assert [r[:2] for r in layers_of(trace)] == [(0, "a"), (0, "a"), (0, "b"), (1, "a"), (1, "a"), (1, "b")]
    assert trace.ledgers[0].notes["benchmark-cut"].count == 2
    for said in ("Average Forward pass: 1 ms.", "Total Time: 1 ms.", "Iteration: 4 forward-backward time: 1 ms.",
                 "Testing for 3 iterations."):  # fmt: skip
        twice = read(tmp_path / "y", f"{GLOG}{said}\n" * 2)
        assert [r["run"] for r in rows_of(twice)] == [0, 1]


def test_averages_of_many_iterations_are_rows(tmp_path: Path) -> None:
    text = (
        f"{GLOG}Average Initialization Forward/Backward pass: 5.5 ms.\n{GLOG}*** Benchmark begins ***\n"
        f"{GLOG}Testing for 30 iterations.\n{GLOG}Iterations: 0-20 average forward-backward time: 1.25 ms.\n"
        f"{GLOG}Iterations: 20-30 average forward-backward time: 1.5 ms.\n{GLOG}Total Time: 40 ms.\n"
        f"{GLOG}*** Benchmark ends ***\n{GLOG}*** Stats ***\nLabels:    9\nIterations:     35\n"
    )
    trace = read(tmp_path / "x", text)
    assert {r["run"] for r in rows_of(trace)} == {0}
    took = [(r["calls"], r["total_ns"], r["avg_ns"], json.loads(r["args"])) for r in rows_of(trace, "Iterations")]
    assert took == [
        (20, 25000000, 1250000.0, {"first": 0, "last": 20}), (10, 15000000, 1500000.0, {"first": 20, "last": 30}),
    ]  # fmt: skip
    assert rows_of(trace, "header")[0]["total_ns"] == 5500000
    assert not trace.ledgers[0].dropped


def test_a_line_that_a_mail_broke_is_put_together(tmp_path: Path) -> None:
    text = (
        f"{GLOG}*** Benchmark begins ***\n{GLOG}Iteration: 1 forward-backward\ntime: 6 ms.\n"
        f"{GLOG}a_layer_with_a_long_name\nforward: 2 ms.\n{GLOG}Iteration: 2 forward-backward\nlost\n"
    )
    trace = read(tmp_path / "x", text)
    assert [(r["name"], r["total_ns"]) for r in rows_of(trace)] == [
        ("Iteration", 6000000), ("a_layer_with_a_long_name", 2000000),
    ]  # fmt: skip
    ledger = trace.ledgers[0]
    assert (ledger.merged, dict(ledger.dropped)) == (2, {"bad-row": 1})


def test_bare_lines_with_blanks_for_tabs_are_layers_below_their_heading(tmp_path: Path) -> None:
    text = "Average time per layer:\n data forward: 1 ms.\n data backward: 2 ms.\n"
    trace = read(tmp_path / "x", text, format="caffe-time")
    assert [r[1:] for r in layers_of(trace)] == [("data", "forward", 1000000), ("data", "backward", 2000000)]


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

"""The timer: right figures by default, Paddle's own bit for bit on demand, on a clock that the test turns."""

from __future__ import annotations

import math
import statistics

import pytest
from doors.profiler import BENCHMARK, Benchmark, Perf, perf_text
from hypothesis import given
from hypothesis import strategies as st

from tracekit import recorder
from tracekit.profiler.paddle import Profiler

MS = 1_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        return self.now


def timed(costs: list[tuple[int, int, float | None]], loader: object = "train") -> tuple[Benchmark, Clock]:
    """A timing of iterations (ns in the reader, ns after it, samples)."""
    clock = Clock()
    benchmark = Benchmark(clock)
    benchmark.begin()
    for reader, rest, samples in costs:
        begin = clock.now
        clock.now += reader
        if reader:
            benchmark.on_read(loader, begin, clock.now)
        clock.now += rest
        benchmark.step(samples)
    return benchmark, clock


def published(costs: list[tuple[int, int, float | None]]) -> dict[str, float]:
    """Upstream's arithmetic (python/paddle/profiler/timer.py, Paddle 2.3 to 3.3), in the order of its additions."""
    n = len(costs)
    samples_known = all(samples is not None for _, _, samples in costs)
    batch = [(reader + rest) / 1e9 for reader, rest, _ in costs]
    reader_total = batch_total = amount = 0.0
    extremes = {"reader": [0.0, math.inf], "batch": [0.0, math.inf], "ips": [0.0, math.inf]}

    def see(name: str, value: float) -> None:
        if value > extremes[name][0]:
            extremes[name][0] = value
        elif value < extremes[name][1]:
            extremes[name][1] = value

    for i, (reader, _, samples) in enumerate(costs, 1):
        if i > 10 and reader:
            see("reader", reader / 1e9)
            reader_total += reader / 1e9
        if i >= 10:
            see("batch", batch[i - 1])
            batch_total += batch[i - 1]
            if samples_known:
                amount += samples
                see("ips", float(samples) / batch[i - 1])
            else:
                see("ips", 1.0 / batch[i - 1])
    amount = amount if samples_known else float(n - 10)
    return {
        "reader": reader_total / (n - 10), "batch": batch_total / (n - 10), "ips": amount / batch_total,
        "ratio": reader_total / (n - 10) / (batch_total / (n - 10)) * 100,
        **{f"{name}_{end}": extremes[name][i] for name in extremes for i, end in enumerate(("max", "min"))},
    }  # fmt: skip


COSTS = st.lists(
    st.tuples(st.integers(0, 50 * MS), st.integers(1, 90 * MS), st.just(None)), min_size=11, max_size=40
) | st.lists(st.tuples(st.integers(0, 50 * MS), st.integers(1, 90 * MS), st.integers(1, 512)), min_size=11, max_size=40)


@given(COSTS)
def test_compat_paddle_is_upstream_bit_for_bit(costs) -> None:
    benchmark, _ = timed(costs)
    perf = benchmark.current.perf("paddle")
    expected = published(costs)
    assert perf.batch.avg == expected["batch"]
    assert perf.ratio == expected["ratio"]
    assert perf.ips.avg == expected["ips"]
    assert (perf.batch.max, perf.batch.min) == (expected["batch_max"], expected["batch_min"])
    assert (perf.ips.max, perf.ips.min) == (expected["ips_max"], expected["ips_min"])
    if expected["reader"]:
        found = perf.reader
        assert (found.avg, found.max, found.min) == (expected["reader"], expected["reader_max"], expected["reader_min"])
    else:
        assert perf.reader is None


def test_the_oddities_of_the_published_table_are_there() -> None:
    """N=11 of 0.02 s prints 0.04; rising readers have the minimum inf; an average stands above its maximum."""
    constant, _ = timed([(0, 20 * MS, None)] * 11)
    assert f"{constant.current.perf('paddle').batch.avg:.5f}" == "0.04000"
    rising, _ = timed([(10 * MS + i, 15 * MS, None) for i in range(14)])
    perf = rising.current.perf("paddle")
    assert perf.reader.min == math.inf
    assert perf.batch.avg > perf.batch.max
    assert perf.ips.avg < perf.ips.min
    assert "inf" in perf_text(perf)


def test_upstream_says_nothing_of_ten_steps() -> None:
    benchmark, _ = timed([(0, MS, None)] * 10)
    assert benchmark.current.perf("paddle") is None


@given(COSTS)
def test_the_right_figures(costs) -> None:
    benchmark, _ = timed(costs)
    perf = benchmark.current.perf()
    counted = costs[10:]
    batch = [(reader + rest) / 1e9 for reader, rest, _ in counted]
    assert perf.skipped == 10
    assert perf.iterations == len(costs)
    assert perf.batch.avg == pytest.approx(statistics.fmean(batch), rel=1e-12)
    assert (perf.batch.max, perf.batch.min) == (max(batch), min(batch))
    assert perf.batch.min <= perf.batch.spread[0] <= perf.batch.spread[1] <= perf.batch.spread[2] <= perf.batch.max
    std = statistics.stdev(batch) if len(batch) > 1 else 0.0
    assert perf.batch.spread[3] == pytest.approx(std, rel=1e-6, abs=1e-12)
    amounts = [1 if samples is None else samples for _, _, samples in counted]
    assert perf.ips.avg == pytest.approx(sum(amounts) / sum(batch), rel=1e-12)
    loading = [reader / 1e9 for reader, _, _ in counted if reader]
    assert perf.ratio == pytest.approx(100 * sum(loading) / sum(batch), rel=1e-9)
    if loading:
        assert perf.reader.avg == pytest.approx(statistics.fmean(loading), rel=1e-12)
        assert perf.reader.min == min(loading)
    else:
        assert perf.reader is None


def test_few_steps_are_all_counted_with_a_warning() -> None:
    benchmark, _ = timed([(0, 20 * MS, None)] * 4)
    perf = benchmark.current.perf()
    assert (perf.skipped, perf.batch.avg) == (0, pytest.approx(0.02))
    assert "Warning: over all 4 steps" in perf_text(perf)


def test_no_step_no_summary() -> None:
    benchmark, _ = timed([])
    assert benchmark.current.perf() is None


def test_step_info_averages_since_the_last_call() -> None:
    benchmark, clock = timed([(5 * MS, 15 * MS, 4)] * 2)
    timing = benchmark.current
    assert timing.info("images") == " reader_cost: 0.00500 s batch_cost: 0.02000 s ips: 200.000 images/s"
    assert timing.info("images") == ""
    clock.now += 10 * MS
    benchmark.step(4)
    assert timing.info(None) == " batch_cost: 0.01000 s ips: 400.000 samples/s"
    clock.now += 10 * MS
    benchmark.step(None)
    assert timing.info("images") == " batch_cost: 0.01000 s ips: 100.000 steps/s"
    clock.now += 10 * MS
    benchmark.step(4)
    assert timing.info("images") == " batch_cost: 0.01000 s ips: 100.000 steps/s", "steps/s for good"


def test_another_data_set_pauses_the_timing() -> None:
    benchmark, clock = timed([(MS, 9 * MS, None)] * 3)
    for _ in range(5):
        begin = clock.now
        clock.now += 7 * MS
        benchmark.on_read("evaluation", begin, clock.now)
        benchmark.step(None)
    begin = clock.now
    clock.now += MS
    benchmark.on_read("train", begin, clock.now)
    clock.now += 9 * MS
    benchmark.step(None)
    timing = benchmark.current
    assert list(timing.batch_ns) == [10 * MS] * 4
    assert list(timing.reader_ns) == [MS] * 4


def test_the_data_set_of_a_loader_is_what_counts() -> None:
    class Loader:
        def __init__(self, dataset: object) -> None:
            self.dataset = dataset

    data = object()
    benchmark, clock = timed([(MS, MS, None)], Loader(data))
    begin = clock.now
    clock.now += MS
    benchmark.on_read(Loader(data), begin, clock.now)
    benchmark.step(None)
    assert list(benchmark.current.reader_ns) == [MS, MS]


def test_timings_nest() -> None:
    benchmark, clock = timed([(0, 5 * MS, None)])
    outer = benchmark.current
    inner = benchmark.begin()
    clock.now += 100 * MS
    benchmark.step(None)
    benchmark.end(inner)
    clock.now += 5 * MS
    benchmark.step(None)
    assert list(outer.batch_ns) == [5 * MS, 5 * MS]
    assert list(inner.batch_ns) == [100 * MS]


def test_the_published_layout() -> None:
    """The first Perf Summary of Paddle's guide: title, ratio, units, cells centred in 15."""
    from doors.profiler import BenchmarkFigures

    perf = Perf(
        BenchmarkFigures(0.01236, 0.01277, math.inf), BenchmarkFigures(0.03228, 0.02624, 0.02544),
        BenchmarkFigures(30.98171, 39.30185, 38.11149),
        38.304, "steps/s", 14, 10,
    )  # fmt: skip
    assert perf_text(perf).splitlines() == [
        "============================================Perf Summary============================================",
        "Reader Ratio: 38.304%",
        "Time Unit: s, IPS Unit: steps/s",
        "|                 |       avg       |       max       |       min       |",
        "|   reader_cost   |     0.01236     |     0.01277     |       inf       |",
        "|    batch_cost   |     0.03228     |     0.02624     |     0.02544     |",
        "|       ips       |     30.98171    |     39.30185    |     38.11149    |",
    ]


def test_a_watched_loader_gives_reader_cost_with_the_recorder_off(capsys: pytest.CaptureFixture[str]) -> None:
    profiler = Profiler(timer_only=True, on_trace_ready=print)
    profiler.start()
    info = ""
    for i, _ in enumerate(recorder.watch_loader([7] * 14)):
        assert not recorder.is_recording()
        profiler.step(num_samples=4)
        if i == 10:
            info = profiler.step_info(unit="images")
    profiler.stop()
    said = capsys.readouterr().out
    assert info.startswith(" reader_cost: 0.0000")
    assert info.endswith(" images/s")
    assert "Reader Ratio: " in said
    assert "Time Unit: s, IPS Unit: images/s" in said
    assert [line.split("|")[1].strip() for line in said.splitlines() if line.startswith("|")] == [
        "", "reader_cost", "batch_cost", "ips",
    ]  # fmt: skip
    assert "Over 4 steps; the first 10 are skipped." in said
    profiler.stop()
    assert capsys.readouterr().out == ""
    assert BENCHMARK.current is None
    assert list(recorder.watch_loader([1, 2])) == [1, 2]


def test_compat_prints_the_published_table(capsys: pytest.CaptureFixture[str]) -> None:
    with Profiler(timer_only=True, on_trace_ready=print, compat="paddle") as profiler:
        for _ in range(12):
            profiler.step()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "Time Unit: s, IPS Unit: steps/s"
    assert lines[2] == "|                 |       avg       |       max       |       min       |"
    assert [line.split("|")[1].strip() for line in lines[3:]] == ["batch_cost", "ips"]
    with pytest.raises(ValueError, match="compat"):
        Profiler(compat="torch", on_trace_ready=print)

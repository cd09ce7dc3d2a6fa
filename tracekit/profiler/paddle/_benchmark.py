"""The timer of Paddle's profiler: time to load a batch, time of a step, samples or steps a second.

An iteration begins with `begin()` or with the end of the `step()` before, and ends with `step()`. Its batch cost is all
its time, loading included. Its reader cost is the time inside the `next` of Paddle's loaders and of loaders that
`tracekit.recorder.watch_loader` wraps. What the profiler does inside of `step()`, `on_trace_ready` included, is in
neither. A reader of another data set (evaluation inside of training) pauses the timing until the first one comes back.

The summary skips the first SKIPPED iterations, unless there are no others. By default each figure is over all the
iterations that are counted. `compat="paddle"` gives the figures that Paddle prints, bit for bit: its sums of batches
begin one iteration early and are divided by a count without it, and it does not compare a new maximum with the minimum.
Source: python/paddle/profiler/timer.py, Paddle 2.3 to 3.3.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tracekit.model.display import in_pipes

SKIPPED: Final = 10
STEPS: Final = "steps/s"
Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class BenchmarkFigures:
    """avg, max and min of one quantity; spread: (p50, p95, p99, std), None where Paddle prints none."""

    avg: float
    max: float
    min: float
    spread: tuple[float, float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class Perf:
    """The figures of the summary. Costs in s, ips in `unit`, ratio in percent. reader: None without a loader."""

    reader: BenchmarkFigures | None
    batch: BenchmarkFigures
    ips: BenchmarkFigures
    ratio: float
    unit: str
    iterations: int
    skipped: int


class _PaddleSums:
    """Paddle's own sums, which cannot be computed from the right ones afterwards."""

    __slots__ = ("max_value", "min_value", "total")

    def __init__(self) -> None:
        self.max_value, self.min_value, self.total = 0.0, math.inf, 0.0

    def add(self, value: float) -> None:
        if value > self.max_value:
            self.max_value = value
        elif value < self.min_value:
            self.min_value = value
        self.total += value


class BenchmarkTiming:
    """One timing, from begin to end: costs by iteration in ns, 8 bytes each."""

    def __init__(self) -> None:
        self.reader_ns, self.batch_ns = array("q"), array("q")
        self.samples = array("d")
        self.unit = "samples/s"
        self.by_samples = True
        self.source: object = None
        self.paused = False
        self._reading_ns = 0
        self._since_info = [0, 0, 0, 0, 0.0]  # reads, ns in reads, steps, ns in steps, samples
        self._old_reader, self._old_batch, self._old_speed = _PaddleSums(), _PaddleSums(), _PaddleSums()
        self._old_samples = 0.0

    def read(self, cost_ns: int) -> None:
        """Add one `next` of a loader. A time of 0 is not counted."""
        if cost_ns <= 0:
            return
        self._reading_ns += cost_ns
        self._since_info[0] += 1
        self._since_info[1] += cost_ns
        if len(self.batch_ns) >= SKIPPED:
            self._old_reader.add(cost_ns / 1e9)

    def step(self, cost_ns: int, samples: float | None) -> None:
        """Add one iteration."""
        if samples is None:
            self.by_samples, self.unit = False, STEPS
        self.reader_ns.append(self._reading_ns)
        self.batch_ns.append(cost_ns)
        self.samples.append(samples or 0.0)
        self._reading_ns = 0
        self._since_info[2] += 1
        self._since_info[3] += cost_ns
        self._since_info[4] += samples or 0.0
        if len(self.batch_ns) >= SKIPPED:
            cost = cost_ns / 1e9
            self._old_batch.add(cost)
            amount = float(samples or 0.0) if self.by_samples else 1.0
            self._old_samples += amount if self.by_samples else 0.0
            self._old_speed.add(amount / cost if cost else math.inf)

    def info(self, unit: str | None) -> str:
        """Return the averages since the last call as Paddle's line."""
        reads, read_ns, steps, steps_ns, samples = self._since_info
        self._since_info = [0, 0, 0, 0, 0.0]
        text = ""
        if reads and read_ns:
            text += f" reader_cost: {read_ns / 1e9 / reads:.5f} s"
        if not steps or not steps_ns:
            return text
        self.unit = f"{unit or 'samples'}/s" if self.by_samples else STEPS
        text += f" batch_cost: {steps_ns / 1e9 / steps:.5f} s"
        amount = samples if self.by_samples else steps
        return text + (f" ips: {amount / (steps_ns / 1e9):.3f} {self.unit}" if amount else "")

    def perf(self, compat: str = "") -> Perf | None:
        """Return the summary, None without an iteration to count."""
        return self._perf_as_paddle() if compat == "paddle" else self._perf()

    def _perf(self) -> Perf | None:
        count = len(self.batch_ns)
        if not count:
            return None
        skipped = SKIPPED if count > SKIPPED else 0
        batch = list(self.batch_ns[skipped:])
        reader = list(self.reader_ns[skipped:])
        amounts = list(self.samples[skipped:]) if self.by_samples else [1.0] * len(batch)
        speeds = [amount * 1e9 / ns for amount, ns in zip(amounts, batch, strict=True) if ns > 0]
        spent = sum(batch)
        batch_s = figures([ns / 1e9 for ns in batch], spent / 1e9 / len(batch))
        ips = figures(speeds, sum(amounts) * 1e9 / spent if spent else math.nan)
        loading = [ns / 1e9 for ns in reader if ns]
        loaded = figures(loading, sum(reader) / 1e9 / len(loading)) if loading else None
        ratio = 100 * sum(reader) / spent if spent else 0.0
        return Perf(loaded, batch_s, ips, ratio, self.unit, count, skipped)

    def _perf_as_paddle(self) -> Perf | None:
        count = len(self.batch_ns)
        if count <= SKIPPED:
            return None
        rest = float(count - SKIPPED)
        old_reader, old_batch, old_speed = self._old_reader, self._old_batch, self._old_speed
        reader_avg, batch_avg = old_reader.total / rest, old_batch.total / rest
        amount = self._old_samples if self.by_samples else rest
        speed = amount / old_batch.total if old_batch.total else math.nan
        return Perf(
            BenchmarkFigures(reader_avg, old_reader.max_value, old_reader.min_value) if reader_avg else None,
            BenchmarkFigures(batch_avg, old_batch.max_value, old_batch.min_value),
            BenchmarkFigures(speed, old_speed.max_value, old_speed.min_value),
            (reader_avg / batch_avg) * 100 if batch_avg else 0.0,
            self.unit,
            count,
            SKIPPED,
        )


def figures(values: Sequence[float], avg: float) -> BenchmarkFigures:
    """Return max, min, percentiles (nearest rank) and the standard deviation (n - 1) of values, beside their average.

    >>> figures([4.0, 2.0, 3.0], 3.0)
    BenchmarkFigures(avg=3.0, max=4.0, min=2.0, spread=(3.0, 4.0, 4.0, 1.0))
    """
    if not values:
        return BenchmarkFigures(avg, math.nan, math.nan, (math.nan,) * 4)
    ranked = sorted(values)
    p50, p95, p99 = (ranked[math.ceil(share * len(ranked) / 100) - 1] for share in (50, 95, 99))
    mean = math.fsum(ranked) / len(ranked)
    several = len(ranked) > 1
    std = math.sqrt(math.fsum((x - mean) ** 2 for x in ranked) / (len(ranked) - 1)) if several else 0.0
    return BenchmarkFigures(avg, ranked[-1], ranked[0], (p50, p95, p99, std))


def perf_text(perf: Perf) -> str:
    """Return the Perf Summary in Paddle's layout; with columns and notes of our own where there is a spread."""
    lines = ["Perf Summary".center(100, "=")]
    if perf.ratio:
        lines.append(f"Reader Ratio: {perf.ratio:.3f}%")
    lines.append(f"Time Unit: s, IPS Unit: {perf.unit}")
    spread = ["p50", "p95", "p99", "std"] if perf.batch.spread is not None else []
    lines.append(in_pipes("", "avg", "max", "min", *spread))
    for name, found in (("reader_cost", perf.reader), ("batch_cost", perf.batch), ("ips", perf.ips)):
        if found is not None:
            values = (found.avg, found.max, found.min, *(found.spread or ()))
            lines.append(in_pipes(name, *(f"{value:.5f}" for value in values)))
    if perf.batch.spread is not None:
        if perf.skipped:
            lines.append(f"Over {perf.iterations - perf.skipped} steps; the first {perf.skipped} are skipped.")
        else:
            few = "the only step" if perf.iterations == 1 else f"all {perf.iterations} steps"
            lines.append(f"Warning: over {few}: none is skipped, because there are no more than {SKIPPED}.")
    return "\n".join(lines) + "\n"


class Benchmark:
    """The timings of the process: one for each begin without its end, the newest of them running."""

    def __init__(self, clock: Clock = time.perf_counter_ns) -> None:
        self._clock = clock
        self._timings: list[BenchmarkTiming] = []
        self._start_ns = 0
        self._last_read = -1, -1

    @property
    def current(self) -> BenchmarkTiming | None:
        """The timing that runs, if one does."""
        return self._timings[-1] if self._timings else None

    def begin(self) -> BenchmarkTiming:
        """Begin a timing inside of the one that runs."""
        timing = BenchmarkTiming()
        self._timings.append(timing)
        self._start_ns = self._clock()
        return timing

    def on_read(self, loader: object, begin_ns: int, end_ns: int) -> None:
        """Add the time of one `next`; the recorder calls it for each loader that is watched."""
        self.read(getattr(loader, "dataset", loader), begin_ns, end_ns)

    def read(self, source: object, begin_ns: int, end_ns: int) -> None:
        """Add the time of one read of a data set. One around the last read is the same batch, seen twice."""
        timing = self.current
        last_begin, last_end = self._last_read
        if timing is None or (begin_ns <= last_begin and last_end <= end_ns):
            return
        self._last_read = begin_ns, end_ns
        if timing.source is None:
            timing.source = source
        if timing.source is not source:
            timing.paused = True
            return
        if timing.paused:
            timing.paused = False
            self._start_ns = begin_ns
        timing.read(end_ns - begin_ns)

    def step(self, samples: float | None) -> None:
        """End an iteration."""
        timing = self.current
        if timing is None or timing.paused:
            return
        timing.step(self._clock() - self._start_ns, samples)
        self._start_ns = self._clock()

    def resume(self, timing: BenchmarkTiming) -> None:
        """Begin the iteration of a timing now, if it runs: what the profiler did meanwhile is no part of a batch."""
        if timing is self.current and not timing.paused:
            self._start_ns = self._clock()

    def end(self, timing: BenchmarkTiming) -> None:
        """End a timing, and those begun inside of it that nobody ended; the one around it goes on from now."""
        if timing in self._timings:
            del self._timings[self._timings.index(timing) :]
            self._start_ns = self._clock()


BENCHMARK: Final = Benchmark()

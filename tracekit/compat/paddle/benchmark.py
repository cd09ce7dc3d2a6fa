"""Paddle's Perf Summary as its timer prints it, with its defects: costs of iterations, of what a recorder's log holds.

An iteration ends with a step and began with the one before. Of N iterations Paddle sums batches from the 10th and
readers from the 11th on, and divides both by N - 10; a value that raises a maximum is not looked at as a minimum, so
that a minimum may be infinite; it prints nothing unless N > 10. A reader's cost is the time of a Dataloader range.
A printed Perf Summary gives its own figures again. Paddle's own traces do not hold its timer.
Source: python/paddle/profiler/timer.py, Paddle 2.3 to 3.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field
from typing import Any, Final

import numpy as np
import orjson

from tracekit.compat.paddle.tree import PADDLE_FORMATS, PaddleColumns
from tracekit.index.grouping import kind_mask
from tracekit.index.trace_index import TraceIndex
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views.base import ViewOptions
from tracekit.views.tabulate import require

__all__ = ["BENCHMARK_COLUMNS", "benchmark"]

BENCHMARK_COLUMNS = frozenset({"ts_ns", "dur_ns", "event_id", "kind", "source", "pid"})
SKIPPED: Final = 10
_TITLE: Final = "Perf Summary"
_PRINTED: Final = "Perf Summary"
"""Section of TOTALS that holds a printed one."""


@dataclass(slots=True)
class _BenchmarkSum:
    """Paddle's sum, maximum and minimum of one quantity."""

    total: float = 0.0
    max: float = 0.0
    min: float = math.inf

    def add(self, value: float) -> None:
        self.total += value
        if value > self.max:
            self.max = value
        elif value < self.min:
            self.min = value


@dataclass(frozen=True, slots=True)
class _PaddlePerf:
    """One Perf Summary. rows: (name, avg, max, min), costs in s; ratio in percent, None or 0: not printed."""

    rows: list[tuple[str, float | None, float | None, float | None]]
    ratio: float | None = None
    unit: str = "steps/s"


@dataclass(slots=True)
class _Timer:
    """The timer, fed with costs in ns."""

    iterations: int = 0
    reader: _BenchmarkSum = field(default_factory=_BenchmarkSum)
    batch: _BenchmarkSum = field(default_factory=_BenchmarkSum)
    speed: _BenchmarkSum = field(default_factory=_BenchmarkSum)

    def read(self, cost_ns: int) -> None:
        if self.iterations >= SKIPPED and cost_ns > 0:
            self.reader.add(cost_ns / 1e9)

    def step(self, cost_ns: int) -> None:
        self.iterations += 1
        if self.iterations >= SKIPPED:
            cost = cost_ns / 1e9
            self.batch.add(cost)
            self.speed.add(1.0 / cost if cost else math.inf)

    def perf(self) -> _PaddlePerf | None:
        if self.iterations <= SKIPPED:
            return None
        rest = float(self.iterations - SKIPPED)
        reader, batch = self.reader.total / rest, self.batch.total / rest
        rows: list[tuple[str, float | None, float | None, float | None]] = []
        if reader:
            rows.append(("reader_cost", reader, self.reader.max, self.reader.min))
        speed = rest / self.batch.total if self.batch.total else math.nan
        rows.append(("batch_cost", batch, self.batch.max, self.batch.min))
        rows.append(("ips", speed, self.speed.max, self.speed.min))
        return _PaddlePerf(rows, reader / batch * 100 if batch else None)


def benchmark(index: TraceIndex, options: ViewOptions) -> Section:  # noqa: ARG001 - as all views
    """Return the Perf Summary of each process: table `perf`, and `facts` with the ratio and the unit of each."""
    require(index, "benchmark", BENCHMARK_COLUMNS)
    columns = PaddleColumns(index)
    notes: list[str] = []
    found = [*_printed(index), *_timed(index, columns, notes)]
    if not found:
        what = f"no {_TITLE}: it needs more than {SKIPPED} steps in a recorder's log, or a printed one"
        return Section("benchmark", _TITLE, notes=(what, *notes))
    return Section("benchmark", _TITLE, (_rows(found), _facts(found)), notes=tuple(notes))


def _timed(index: TraceIndex, columns: PaddleColumns, notes: list[str]) -> Iterable[_PaddlePerf]:
    """Yield the figures of each process that has steps."""
    pid, known = columns.numbers("pid")
    usable = columns.timed & ~columns.of_format(*PADDLE_FORMATS)
    step = kind_mask(index.events, {Kind.STEP})
    if (step & columns.of_format(*PADDLE_FORMATS)).any():
        notes.append("Paddle's traces do not hold its timer, which counts from marks of its own")
    reads = kind_mask(index.events, {Kind.DATALOADER}) & usable
    step &= usable
    process = np.stack((columns.source, np.where(known, pid, -1)), axis=1)
    for key in np.unique(process[step], axis=0):
        mine = (process == key).all(axis=1)
        timer = _filled(columns, np.flatnonzero(step & mine), np.flatnonzero(reads & mine))
        perf = timer.perf()
        if perf is None:
            notes.append(f"{plural(timer.iterations, 'step')}: Paddle prints its figures for more than {SKIPPED}")
        else:
            yield perf


def _filled(columns: PaddleColumns, steps: I64, reads: I64) -> _Timer:
    steps = steps[np.lexsort((columns.event_id[steps], columns.end[steps]))]
    ends = columns.end[steps]
    begin = int(columns.start[np.concatenate((steps, reads))].min())
    reads = reads[np.argsort(columns.end[reads], kind="stable")]
    before = np.searchsorted(ends, columns.end[reads], "left")
    costs = (columns.end[reads] - columns.start[reads]).tolist()
    timer, at = _Timer(), 0
    last = begin
    for number, end in enumerate(ends.tolist()):
        while at < len(costs) and before[at] <= number:
            timer.read(costs[at])
            at += 1
        timer.step(end - last)
        last = end
    return timer


def _printed(index: TraceIndex) -> Iterable[_PaddlePerf]:
    """Yield the figures of each printed summary among the totals."""
    totals = index.totals
    keys = ("source", "run", "section", "name", "avg_ns", "max_ns", "min_ns", "value_avg", "value_max", "value_min")
    runs: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in totals.select([*keys, "unit", "args"]).to_pylist() if totals.num_rows else ():
        if row["section"] == _PRINTED:
            runs.setdefault((row["source"], row["run"]), []).append(row)
    for found in runs.values():
        rows, ratio, unit = [], None, "steps/s"
        for row in found:
            if row["name"] == "Reader Ratio":
                ratio = row["value_avg"]
                continue
            absent = orjson.loads(row["args"]) if row["args"] else {}
            is_speed = row["name"] == "ips"
            unit = (row["unit"] or unit) if is_speed else unit
            scale = 1.0 if is_speed else 1e9
            cells = []
            for key in ("avg", "max", "min"):
                value = row[f"value_{key}" if is_speed else f"{key}_ns"]
                cells.append(_absent(absent.get(key)) if value is None else value / scale)
            rows.append((row["name"], *cells))
        yield _PaddlePerf(rows, ratio, unit)


def _absent(text: object) -> float | None:
    return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}.get(str(text))


def _rows(found: list[_PaddlePerf]) -> ReportTable:
    rows = [(number, *row) for number, perf in enumerate(found) for row in perf.rows]
    titles = (
        ("summary", "Summary", Unit.ID),
        ("name", "Name", Unit.TEXT),
        ("avg", "Avg", Unit.NUMBER),
        ("max", "Max", Unit.NUMBER),
        ("min", "Min", Unit.NUMBER),
    )
    columns = [Column(*title, list(cells)) for title, cells in zip(titles, zip(*rows, strict=True), strict=True)]
    return ReportTable("perf", _TITLE, tuple(columns))


def _facts(found: list[_PaddlePerf]) -> ReportTable:
    ratios: list[Cell] = [perf.ratio for perf in found]
    columns = (
        Column("summary", "Summary", Unit.ID, list(range(len(found)))),
        Column("reader_ratio", "Reader Ratio (%)", Unit.NUMBER, ratios),
        Column("unit", "IPS Unit", Unit.TEXT, [perf.unit for perf in found]),
    )
    return ReportTable("facts", "Facts", columns)

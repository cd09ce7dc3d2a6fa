"""The history of a metric: runs in order of time, with the points where its level changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracekit.analysis.series import ChangePoint, change_points
from tracekit.comparison._inputs import RunInput
from tracekit.comparison._measure import metric_of_run
from tracekit.comparison._metrics import ComparedMetric, parse_metric
from tracekit.comparison._profile import Profile
from tracekit.lazy_dataclass import dataclass
from tracekit.model.report import Cell, Column, ReportTable, Section, Series
from tracekit.model.units import Unit, format_span

_MIN_RUNS_AROUND = 4
"""Runs on each side of a change point."""


@dataclass(frozen=True, slots=True)
class History:
    """A metric over runs. labels, dates, values: one for each run, in order; a value is None without the metric.

    points: the changes of level, each with the index of its first run.
    """

    metric: ComparedMetric
    labels: tuple[str, ...]
    dates: tuple[str | None, ...]
    values: tuple[int | None, ...]
    points: tuple[tuple[int, ChangePoint], ...]

    @property
    def since(self) -> int:
        """Return the index of the first run after the last change of level, 0 for no change."""
        return self.points[-1][0] if self.points else 0


def history_of(profiles: Sequence[Profile], runs: Sequence[RunInput], whole: Sequence[Profile]) -> History:
    """Return the history of step times; without steps, of device work; without that, of operators.

    whole: the runs that are not left out; the others have no value.
    """
    name = "step.mean"
    if not any(run.step_count for run in profiles):
        name = "device.total" if any(run.whole for run in profiles) else "operator.total"
    metric = parse_metric(name)
    values: list[int | None] = []
    for run in profiles:
        value = metric_of_run(run, metric, None, by_step=False) if run in whole else None
        values.append(None if value is None else round(value))
    known = [number for number, value in enumerate(values) if value is not None]
    points = change_points(np.array([values[number] for number in known], np.float64), least=_MIN_RUNS_AROUND)
    return History(
        metric,
        tuple(run.label for run in runs),
        tuple(run.entry.date.isoformat() if run.entry else None for run in runs),
        tuple(values),
        tuple((known[point.at], point) for point in points),
    )


def history_section(history: History) -> Section:
    """Return the section of a history: table, series and notes."""
    ratios: list[Cell] = []
    before: int | None = None
    for value in history.values:
        ratios.append(value / before - 1 if value is not None and before else None)
        before = value if value is not None else before
    levels = {number: _change_text(point) for number, point in history.points}
    columns = [
        Column("run", "Run", Unit.TEXT, list(history.labels), 0),
        Column("date", "Date", Unit.TEXT, list(history.dates), 1),
        Column("value", history.metric.text, Unit.NS, list(history.values), 0),
        Column("change", "Since previous run", Unit.RATIO, ratios, 1),
        Column("said", "Level", Unit.TEXT, [levels.get(number) for number in range(len(history.labels))], 0),
    ]
    if not any(history.dates):
        del columns[1]
    series = Series(
        f"{history.metric.text} by run",
        Unit.NS,
        list(history.labels),
        list(history.values),
        marks=tuple((number, "change point") for number in levels),
    )
    notes = []
    for number, point in history.points:
        notes.append(
            f"since {history.labels[number]}: {format_span(round(point.before))} -> {format_span(round(point.after))} "
            f"({_change_text(point)}; probability by chance: at most {100 * point.chance:.1f} %)"
        )
    count = sum(value is not None for value in history.values)
    if not history.points:
        few = f"; at least {2 * _MIN_RUNS_AROUND} runs are needed" if count < 2 * _MIN_RUNS_AROUND else ""
        notes.append(f"no change point in {count:,} {'run' if count == 1 else 'runs'}{few}")
    lacking = len(history.values) - count
    if lacking:
        notes.append(f"{lacking:,} {'run has' if lacking == 1 else 'runs have'} no {history.metric.text}")
    return Section("compare", "History", (ReportTable("history", "History", tuple(columns)),), (series,), tuple(notes))


def _change_text(point: ChangePoint) -> str:
    if not point.before:
        return "changed"
    return f"{'up' if point.after > point.before else 'down'} {100 * (point.after / point.before - 1):+.2f} %"

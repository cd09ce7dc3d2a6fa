"""History: a metric over runs in order of time, with the places where its level changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracekit.analysis.series import ChangePoint, change_points
from tracekit.compare._inputs import RunInput
from tracekit.compare._measure import Metric, of_run, parse_metric
from tracekit.compare._profile import Profile
from tracekit.report import Cell, Column, ReportTable, Section, Series
from tracekit.units import Unit, format_span

_LEAST = 4
"""Runs on each side of a change point."""


@dataclass(frozen=True, slots=True)
class History:
    """labels, dates, values: one a run, in order; a value is None where a run lacks the metric.

    points: where the level changed, by place among all runs. since: the place of the last change, 0 for none.
    """

    metric: Metric
    labels: tuple[str, ...]
    dates: tuple[str | None, ...]
    values: tuple[int | None, ...]
    points: tuple[tuple[int, ChangePoint], ...]

    @property
    def since(self) -> int:
        """The place of the last change of level, 0 for none."""
        return self.points[-1][0] if self.points else 0


def history_of(profiles: Sequence[Profile], runs: Sequence[RunInput]) -> History:
    """Return the history of step times; of traces without steps that of device work, else of operators."""
    wanted = "step.mean"
    if not any(run.step_count for run in profiles):
        wanted = "device.total" if any(run.whole for run in profiles) else "operator.total"
    metric = parse_metric(wanted)
    values: list[int | None] = []
    for run in profiles:
        found = of_run(run, metric, None, by_step=False)
        values.append(None if found is None else round(found))
    known = [place for place, value in enumerate(values) if value is not None]
    points = change_points(np.array([values[place] for place in known], np.float64), least=_LEAST)
    return History(
        metric,
        tuple(run.label for run in runs),
        tuple(run.entry.date.isoformat() if run.entry else None for run in runs),
        tuple(values),
        tuple((known[point.at], point) for point in points),
    )


def section_of(history: History) -> Section:
    """Return table, series and words of a history."""
    ratios: list[Cell] = []
    before: int | None = None
    for value in history.values:
        ratios.append(value / before - 1 if value is not None and before else None)
        before = value if value is not None else before
    marks = {place: _said(point) for place, point in history.points}
    columns = [
        Column("run", "Run", Unit.TEXT, list(history.labels), 0),
        Column("date", "Date", Unit.TEXT, list(history.dates), 1),
        Column("value", history.metric.text, Unit.NS, list(history.values), 0),
        Column("change", "To the run before", Unit.RATIO, ratios, 1),
        Column("said", "Level", Unit.TEXT, [marks.get(place) for place in range(len(history.labels))], 0),
    ]
    if not any(history.dates):
        del columns[1]
    series = Series(
        f"{history.metric.text} by run",
        Unit.NS,
        list(history.labels),
        list(history.values),
        marks=tuple((place, "change point") for place in marks),
    )
    notes = []
    for place, point in history.points:
        notes.append(
            f"from {history.labels[place]} on: {format_span(round(point.before))} -> {format_span(round(point.after))} "
            f"({_said(point)}; as clear a change by chance: at most {100 * point.chance:.1f} %)"
        )
    count = sum(value is not None for value in history.values)
    if not history.points:
        few = f"; at least {2 * _LEAST} runs are needed" if count < 2 * _LEAST else ""
        notes.append(f"no change point in {count:,} {'run' if count == 1 else 'runs'}{few}")
    lacking = len(history.values) - count
    if lacking:
        notes.append(f"{lacking:,} {'run has' if lacking == 1 else 'runs have'} no {history.metric.text}")
    return Section("compare", "History", (ReportTable("history", "History", tuple(columns)),), (series,), tuple(notes))


def _said(point: ChangePoint) -> str:
    if not point.before:
        return "changed"
    return f"{'up' if point.after > point.before else 'down'} {100 * (point.after / point.before - 1):+.2f} %"

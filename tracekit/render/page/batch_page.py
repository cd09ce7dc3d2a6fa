"""The page over many runs: failures with their reasons, each program with its course, every run, figures over time.

Style and script are linked: they are beside the page already, for the reports of the runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escape_controls
from tracekit.model.report import ReportTable, Series
from tracekit.model.units import Unit, short_span
from tracekit.render.base import RenderOptions
from tracekit.render.figures import Chart, chart
from tracekit.render.page import shell
from tracekit.render.page.shell import MOST_ROWS, Sheet, sheet
from tracekit.render.page.sparkline import Spark, amount_at_a_glance, spark

__all__ = ["BatchPage", "Link", "Program", "Trend", "render"]


@dataclass(frozen=True, slots=True)
class Link:
    """A word that leads somewhere. to: relative URL, percent-encoded."""

    text: str
    to: str


@dataclass(frozen=True, slots=True)
class Trend:
    """Key figures of runs of one kind over time. charts: a series for each figure, with a value for each run."""

    title: str
    summary: str
    charts: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """Runs of one program and format, in order of time.

    course: a figure of all runs, None where they have none. failed_places: runs of it that failed. change: of the last
    run, beside the median of those before. newest: URL of the report of the newest run that has one.
    """

    title: str
    formats: str
    runs: int
    failed: int
    dates: str
    course: Series | None
    failed_places: tuple[int, ...]
    change: str
    newest: str | None


@dataclass(frozen=True, slots=True)
class BatchPage:
    """Contents of the page.

    runs, failures: tables whose first column is the run. run_links, failure_links: where each row's name leads, None
    for nowhere. files: further links of each run. cut: what the page does not show, "" for nothing.
    lists: (title, lines) to unfold. incomplete: the sentences above everything, on runs that lost records.
    """

    title: str
    version: str
    facts: tuple[tuple[str, str], ...]
    runs: ReportTable
    run_links: Sequence[str | None]
    files: Sequence[tuple[Link, ...]]
    failures: ReportTable
    failure_links: Sequence[str | None]
    programs: tuple[Program, ...] = ()
    trends: tuple[Trend, ...] = ()
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()
    notes: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Trend:
    title: str
    summary: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True, slots=True)
class _ProgramRow:
    """A program ready for the template. last, exact: the last value as text and as a number. anchor: of its trend."""

    title: str
    formats: str
    runs: int
    failed: int
    dates: str
    figure: str
    spark: Spark | None
    last: str
    exact: str
    change: str
    newest: str | None
    anchor: str


def _program(program: Program, anchors: Mapping[str, str]) -> _ProgramRow:
    course = program.course
    known = [value for value in course.values if value is not None] if course is not None else []
    label = f"{program.title} · {program.formats}"
    return _ProgramRow(
        escape_controls(program.title),
        escape_controls(program.formats),
        program.runs,
        program.failed,
        program.dates,
        course.title if course is not None else "",
        spark(course, program.failed_places) if course is not None and program.runs > 1 else None,
        amount_at_a_glance(known[-1], course.unit) if course is not None and known else "",
        repr(known[-1]) if known else "",
        program.change,
        program.newest,
        anchors.get(label, ""),
    )


def render(page: BatchPage, options: RenderOptions) -> str:
    """Return the page. Raises: UsageError for an unknown unit of time."""
    trends = [
        _Trend(escape_controls(t.title), escape_controls(t.summary), tuple(map(chart, t.charts))) for t in page.trends
    ]
    anchors = {trend.title: f"trend-{number}" for number, trend in enumerate(page.trends, 1)}
    return shell.written(
        "batch_index.html.j2",
        options,
        frozenset({"tables", "batch", "bare"}),
        title=escape_controls(page.title),
        version=page.version,
        facts=[(escape_controls(key), escape_controls(text)) for key, text in page.facts],
        runs=_sheet(page.runs, options),
        run_links=page.run_links,
        files=[[replace(link, text=escape_controls(link.text)) for link in links] for links in page.files],
        failures=_sheet(page.failures, options),
        failure_links=page.failure_links,
        programs=[_program(each, anchors) for each in page.programs],
        trends=trends,
        lists=[(escape_controls(title), [escape_controls(line) for line in lines]) for title, lines in page.lists],
        notes=list(map(escape_controls, page.notes)),
        incomplete=list(map(escape_controls, page.incomplete)),
    )


def _with_short_times(made: Sheet, table: ReportTable) -> Sheet:
    """Return a sheet in which each time has a unit of its own: runs of very different lengths share a column."""
    times = [column.unit is Unit.NS for column in table.columns]
    heads = tuple(replace(head, unit="") if t else head for head, t in zip(made.heads, times, strict=True))
    rows = tuple(
        tuple(
            replace(cell, text=short_span(int(cell.exact))) if t and cell.exact else cell
            for cell, t in zip(row, times, strict=True)
        )
        for row in made.rows
    )
    return replace(made, heads=heads, rows=rows)


def _sheet(table: ReportTable, options: RenderOptions) -> Sheet:
    made = sheet(table, options.time_unit)
    if not options.time_unit:
        made = _with_short_times(made, table)
    cut = f"the first {MOST_ROWS:,} of {len(table):,} rows; index.json has them all" if len(table) > MOST_ROWS else ""
    return replace(made, cut=cut)

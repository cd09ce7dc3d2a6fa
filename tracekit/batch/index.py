"""index.html and index.json: the page over all runs in OUT.

Both are made from `runs/` and `roots/` in OUT alone, so every batch that shares OUT writes the same bytes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict
from urllib.parse import quote

import numpy as np

from tracekit._version import __version__
from tracekit.analysis.series import change_points
from tracekit.analysis.siblings import lacking
from tracekit.batch._program_titles import program_titles
from tracekit.batch._programs import kind_of_result, programs_of
from tracekit.batch._store import (
    FORM_VERSION,
    Number,
    OutputFolder,
    ReasonJson,
    RootJson,
    RunResult,
    json_text,
    read_json,
    write_text,
)
from tracekit.batch.slower import slowdown
from tracekit.errors import Option, UsageError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model.report import Column, Report, ReportTable, Series
from tracekit.model.trace import Trace
from tracekit.model.units import (
    BYTE_FACTOR,
    TIME_EXPONENT,
    Unit,
    format_bytes,
    format_ratio,
    format_span,
    split_quantity,
    to_bytes,
    to_ns,
)
from tracekit.render.base import RenderOptions
from tracekit.render.page import batch_page, shell
from tracekit.render.page.batch_page import BatchPage, Link, Program, Trend

__all__ = [
    "Budget",
    "SlowProgram",
    "broken",
    "figures_of",
    "forget",
    "left_out",
    "parse",
    "reasons_of",
    "slower_programs",
    "unmatched",
    "write",
    "write_assets",
]

# The key figures of a run, read from the tables of its report: page and report always agree.


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One key figure. name: its key in JSON. has_chart: the page draws it over time. metric: that of `compare`."""

    name: str
    title: str
    unit: Unit
    has_chart: bool
    metric: str = ""

    @property
    def shown(self) -> str:
        """Return the name in messages: where `compare` has the figure too, it has one name for people."""
        return self.metric or self.name

    def is_named(self, text: str) -> bool:
        """Return whether a text names this figure: step.p50 and step_p50 do."""
        return text.replace(".", "_") in (self.name, self.metric.replace(".", "_"))


KEY_FIGURES = (
    KeyFigure("span", "Span", Unit.NS, True),
    KeyFigure("steps", "Steps", Unit.COUNT, False),
    KeyFigure("step_p50", "Step p50", Unit.NS, True, "step.p50"),
    KeyFigure("busy", "Device busy", Unit.RATIO, True),
    KeyFigure("kernel_time", "Kernels", Unit.NS, True),
    KeyFigure("kernel_calls", "Kernel calls", Unit.COUNT, False),
    KeyFigure("operator_time", "Operators", Unit.NS, True),
    KeyFigure("exposed_comm", "Exposed comm.", Unit.NS, True),
    KeyFigure("peak_memory", "Peak memory", Unit.BYTES, True, "memory.peak"),
)
"""span: first start to last end, where one clock covers everything. steps: their number; step_p50: the median time.
busy: time with work on a device divided by its span, all devices together. kernel_time, operator_time: sums of
durations. exposed_comm: communication not hidden by computation. peak_memory: allocated bytes, of the highest device.
A figure that the trace does not have is null."""


def figures_of(trace: Trace, report: Report) -> dict[str, Number]:
    """Return the key figures of a run by name."""
    tables = {(section.view, table.name): table for section in report.sections for table in section.tables}
    devices = tables.get(("device", "devices"))
    kinds = tables.get(("overview", "kinds"))
    all_steps = _where(tables.get(("steps", "step_times")), "which", "all")
    allocated = _where(tables.get(("memory", "memory")), "type", "allocated")
    busy, span = _sum(devices, "busy_time"), _sum(devices, "span")
    return {
        "span": _span(trace),
        "steps": _sum(all_steps, "steps"),
        "step_p50": max(_cells(all_steps, "p50"), default=None),
        "busy": busy / span if busy is not None and span and not report.incomplete else None,
        "kernel_time": _sum(_where(kinds, "kind", "kernel"), "total"),
        "kernel_calls": _sum(_where(kinds, "kind", "kernel"), "calls"),
        "operator_time": _sum(_where(kinds, "kind", "operator"), "total"),
        "exposed_comm": _sum(tables.get(("breakdown", "devices")), "exposed_comm"),
        "peak_memory": max(_cells(allocated, "peak"), default=None),
    }


def _span(trace: Trace) -> int | None:
    run = trace.run
    if run.origin_ns is None and (len(run.sources) > 1 or any(len(s.facts.get("runs", ())) > 1 for s in run.sources)):
        return None  # several clocks
    span = trace.span()
    return None if span is None else span[1] - span[0]


_RowsOf = tuple[ReportTable, Sequence[int]] | None


def _where(table: ReportTable | None, column: str, value: str) -> _RowsOf:
    if table is None or all(c.name != column for c in table.columns):
        return None
    return table, [i for i, cell in enumerate(table.column(column).values) if cell == value]


def _cells(rows: ReportTable | _RowsOf, column: str) -> list[int | float]:
    """Return the numbers of a column, of all rows or of the chosen ones; none without such a table or column."""
    if rows is None:
        return []
    table, chosen = (rows, range(len(rows))) if isinstance(rows, ReportTable) else rows
    if all(c.name != column for c in table.columns):
        return []
    values = table.column(column).values
    return [value for i in chosen if isinstance(value := values[i], (int, float))]


def _sum(rows: ReportTable | _RowsOf, column: str) -> Number:
    cells = _cells(rows, column)
    return sum(cells) if cells else None


# Budgets: limits for key figures, such as "step.p50 <= 120ms". A root has its own, which hold for all its runs.


_TEXT = re.compile(r"\s*(?P<figure>[\w.]+)\s*(?P<op>>=|<=|>|<)\s*(?P<limit>[^<>=]+)")
_HOLDS = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit that a key figure is to keep. limit: ns, bytes, a count, or a ratio (0..1)."""

    text: str
    figure: KeyFigure
    op: str
    limit: int | float

    def broken_by(self, result: RunResult) -> str:
        """Return a sentence if a run breaks this budget; "" if it keeps it, or if its figure is not known."""
        value = result["figures"].get(self.figure.name)
        if value is None or _HOLDS[self.op](value, self.limit):
            return ""
        return f"{self.figure.title.lower()} {_amount(value, self.figure.unit)}; the budget is {self.text}"


def parse(text: str) -> Budget:
    """Return the budget in a text. Raises: UsageError, with the names of the figures or the units."""
    found = _TEXT.fullmatch(text)
    figure = next((f for f in KEY_FIGURES if found and f.is_named(found["figure"])), None)
    if found is None or figure is None:
        names = ", ".join(f.shown for f in KEY_FIGURES)
        raise UsageError(
            sentence(Option("budget", repr(text)), ": not a budget"),
            hint=f'FIGURE <= LIMIT, such as "step.p50 <= 120ms"; FIGURE: {names}',
        )
    try:
        limit = _limit(found["limit"].strip(), figure.unit)
    except ValueError:
        raise UsageError(
            sentence(Option("budget", repr(text)), f": not a limit for {figure.shown}"),
            hint=f"give {_UNITS[figure.unit]}",
        ) from None
    return Budget(" ".join((figure.shown, found["op"], found["limit"].strip())), figure, found["op"], limit)


def unmatched(budgets: Sequence[Budget], results: Sequence[RunResult]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each budget whose figure no run has, with the figures that some run has: such a budget limits nothing.

    Without a readable run nothing is yielded: that the runs failed is said elsewhere.
    """
    read = [result["figures"] for result in results if result["status"] != "failed"]
    known = tuple(figure for figure in KEY_FIGURES if any(each.get(figure.name) is not None for each in read))
    for budget in budgets if read else ():
        if budget.figure not in known:
            yield budget.text, tuple(figure.shown for figure in known)


def broken(budgets: Sequence[Budget], result: RunResult) -> list[str]:
    """Return a sentence for each budget that a run breaks."""
    return [text for text in (budget.broken_by(result) for budget in budgets) if text]


_UNITS = {
    Unit.NS: "a time in ns, us, ms or s",
    Unit.BYTES: "a size in B, KiB, MiB or GiB",
    Unit.COUNT: "a whole number",
    Unit.RATIO: "a share in %",
}


def _limit(text: str, unit: Unit) -> int | float:
    number, word = split_quantity(text)
    if unit is Unit.NS and word in TIME_EXPONENT:
        return to_ns(number, word)
    if unit is Unit.BYTES and (binary := word.replace("iB", "B")) in BYTE_FACTOR:
        return to_bytes(number, binary)
    if unit is Unit.COUNT and not word and number == int(number):
        return int(number)
    if unit is Unit.RATIO and word == "%":
        return float(number) / 100
    raise ValueError(text)


def _amount(value: int | float, unit: Unit) -> str:
    if unit is Unit.NS:
        return format_span(round(value))
    if unit is Unit.RATIO:
        return f"{format_ratio(value)} %"
    return format_bytes(round(value)) if unit is Unit.BYTES else f"{value:,}"


MAX_TRENDS = 40
"""Programs whose figures the page draws over time, those with most runs first; index.json has all numbers."""


@dataclass(frozen=True, slots=True)
class _IndexRow:
    """One run of the index. gone: its files no longer exist. budgets: those of its root. program: its label.

    lacks: kinds of rows that it lacks and most runs of its program have. siblings: the number of those runs.
    """

    key: str
    result: RunResult
    gone: bool
    budgets: tuple[Budget, ...] = ()
    program: str = ""
    lacks: tuple[str, ...] = ()
    siblings: int = 0

    @property
    def order(self) -> tuple[str, int, str, str]:
        return self.result["date"], self.result["start_ns"] or 0, self.result["run"], self.key

    @property
    def incomplete(self) -> list[str]:
        """Return the sentences on inputs that lost too many records; results of earlier versions have none."""
        return self.result.get("incomplete", [])

    @property
    def left_out(self) -> bool:
        """Return whether the run is in no trend: it was cut, or lacks rows that its siblings have."""
        return bool(self.lacks or (self.siblings > 1 and self.result.get("cut")))

    @property
    def over(self) -> list[str]:
        """Return a sentence for each budget that the run breaks."""
        return broken(self.budgets, self.result)

    @property
    def dropped(self) -> int:
        """Return the number of records that could not be read."""
        return sum(self.result["records"]["dropped"].values())


def write_assets(out: OutputFolder) -> None:
    """Write the style and scripts that all pages share."""
    for name, text in shell.assets().items():
        write_text(out.path / "assets" / name, text)


def write(out: OutputFolder) -> None:
    """Write index.json and index.html."""
    rows, roots = _rows(out), _roots(out)
    write_text(out.path / "index.json", json_text(_json(rows, roots)))
    page = batch_page.render(_page(rows, roots), RenderOptions(assets="assets"))
    write_text(out.path / "index.html", page)


def forget(out: OutputFolder, trash: Path, *, all_gone: bool) -> int:
    """Remove results whose files are gone, either all or only failed ones. Return how many."""
    gone = [row for row in _rows(out) if row.gone and (all_gone or row.result["status"] == "failed")]
    for row in gone:
        out.remove(row.key, trash)
    return len(gone)


def reasons_of(result: RunResult) -> tuple[str, ...]:
    """Return why a run, or a part of it, failed: one sentence each."""
    return tuple(_sentence(each) for each in result["reasons"])


def losses_of(result: RunResult) -> tuple[str, ...]:
    """Return a sentence for each input of a run whose records could not all be read; earlier versions have none."""
    return tuple(_sentence(each) for each in result.get("lost", []))


def _sentence(each: ReasonJson) -> str:
    named = not each["file"] or each["file"] in each["reason"]
    return each["reason"] if named else f"{each['file']}: {each['reason']}"


def _roots(out: OutputFolder) -> list[RootJson]:
    found = [read_json(path, RootJson) for path in sorted(out.roots.glob("*.json"))]
    return sorted((root for root in found if root is not None), key=lambda root: root["root"])


def _rows(out: OutputFolder) -> list[_IndexRow]:
    """Return all runs, oldest first."""
    roots = {root["root"]: root for root in _roots(out)}
    runs = {name: set(root["runs"]) for name, root in roots.items()}
    budgets = {name: tuple(map(parse, root.get("budgets", []))) for name, root in roots.items()}
    rows = [
        _IndexRow(key, result, key not in runs.get(result["root"], {key}), budgets.get(result["root"], ()))
        for key, result in out.results().items()
    ]
    rows.sort(key=lambda row: row.order)
    labels = programs_of([row.result for row in rows])
    return _compared_with_siblings([replace(row, program=label) for row, label in zip(rows, labels, strict=True)])


_ROWS_OF_FIGURES = {"kernel_time": "kernels", "steps": "steps", "operator_time": "operators"}
"""The rows of a run, by the key figure that is null without them."""


def _compared_with_siblings(rows: Sequence[_IndexRow]) -> list[_IndexRow]:
    """Return the rows, each with what it lacks and most runs of its program have. Failed runs have no figures."""
    out = list(rows)
    programs: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        if row.result["status"] != "failed":
            programs.setdefault(row.program, []).append(place)
    for places in programs.values():
        have = [
            {word for figure, word in _ROWS_OF_FIGURES.items() if rows[place].result["figures"].get(figure) is not None}
            for place in places
        ]
        for place, lacks in zip(places, lacking(have), strict=True):
            out[place] = replace(rows[place], lacks=lacks, siblings=len(places))
    return out


def left_out(out: OutputFolder) -> dict[str, str]:
    """Return a sentence for each run that is in no trend, since it was cut or lacks rows, by key."""
    rows = _rows(out)
    return {row.key: _left_out(row, rows) for row in rows if row.left_out}


def _left_out(row: _IndexRow, rows: Sequence[_IndexRow]) -> str:
    if not row.lacks:
        return f"was cut: {row.result['cut']}; left out of the trends"
    siblings = [each for each in rows if each.program == row.program and each.siblings]
    having = sum(row.lacks[0] not in each.lacks for each in siblings)
    what = " and no ".join(row.lacks)
    return f"no {what}, which {having:,} of {row.siblings:,} runs of its kind have; left out of the trends"


def _json(rows: Sequence[_IndexRow], roots: Sequence[RootJson]) -> dict[str, object]:
    lost = list(_incomplete(rows))
    return {
        **({"incomplete": lost} if lost else {}),
        "form": FORM_VERSION,
        "tracekit": __version__,
        "counts": _counts(rows),
        "figures": [{"name": f.name, "title": f.title, "unit": str(f.unit)} for f in KEY_FIGURES],
        "runs": [_run_json(row) for row in rows],
        "roots": [{key: value for key, value in root.items() if key not in ("form", "runs")} for root in roots],
    }


def _incomplete(rows: Sequence[_IndexRow]) -> Iterator[str]:
    """Yield the sentence above the page, if runs have inputs that lost too many records."""
    names = [row.result["run"] for row in rows if row.incomplete]
    if names:
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
        yield (
            f"INCOMPLETE: too many records of {len(names):,} of {len(rows):,} runs are missing or could not be read "
            f"({shown}): their times and counts cover the other records only, and their shares are unknown"
        )


_ONLY_IN_RESULT = {"program", "form", "tracekit", "tool", "options", "again", "sources", "others", "outputs"}


def _run_json(row: _IndexRow) -> dict[str, object]:
    result = row.result
    return {
        **{name: value for name, value in result.items() if name not in _ONLY_IN_RESULT},
        "kind": kind_of_result(result),
        "program": row.program,
        "dropped": row.dropped,
        "gone": row.gone,
        "over": row.over,
        **({"lacks": list(row.lacks)} if row.lacks else {}),
        "sources": [{k: v for k, v in source.items() if k != "mtime_ns"} for source in result["sources"]],
        "others": [other["path"] for other in result["others"]],
        "outputs": [f"runs/{row.key}/{each['path']}" for each in result["outputs"]],
    }


class _Counts(TypedDict):
    runs: int
    ok: int
    partial: int
    failed: int
    gone: int
    over: int
    events: int
    totals: int
    dropped: int


def _counts(rows: Sequence[_IndexRow]) -> _Counts:
    status = [row.result["status"] for row in rows]
    return {
        "runs": len(rows),
        "ok": status.count("ok"),
        "partial": status.count("partial"),
        "failed": status.count("failed"),
        "gone": sum(row.gone for row in rows),
        "over": sum(bool(row.over) for row in rows),
        "events": sum(row.result["events"] for row in rows),
        "totals": sum(row.result["totals"] for row in rows),
        "dropped": sum(row.dropped for row in rows),
    }


def _page(rows: Sequence[_IndexRow], roots: Sequence[RootJson]) -> BatchPage:
    newest = list(reversed(rows))
    failed_first = sorted(newest, key=lambda row: row.result["status"] != "failed")
    reasons = [(row, reason) for row in failed_first for reason in _reasons(row)]
    figures = [f for f in KEY_FIGURES if any(row.result["figures"].get(f.name) is not None for row in rows)]
    names = [Path(root["root"]).name or root["root"] for root in roots]
    titles = program_titles({label: [row.result for row in mine] for label, mine in _by_program(rows).items()})
    trends, more = _trends([row for row in rows if row.result["status"] != "failed" and not row.left_out], titles)
    notes = [f"{len(more):,} more programs are not drawn; index.json has their figures"] if more else []
    problems = [f"{problem['path']}: {problem['reason']}" for root in roots for problem in root["problems"]]
    return BatchPage(
        title=", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "") or "no runs",
        version=__version__,
        incomplete=tuple(_incomplete(rows)),
        facts=(
            *_facts(rows),
            *(("left out", f"{row.result['run']}: {_left_out(row, rows)}") for row in newest if row.left_out),
        ),
        runs=ReportTable(
            "runs",
            "Runs",
            (
                Column("run", "Run", Unit.TEXT, [row.result["run"] for row in newest]),
                Column("date", "Date", Unit.TEXT, [row.result["date"] for row in newest]),
                Column("status", "Status", Unit.TEXT, [_status(row) for row in newest]),
                *_dropped_column(newest),
                *(
                    Column(f.name, f.title, f.unit, [row.result["figures"].get(f.name) for row in newest])
                    for f in figures
                ),
                Column("events", "Events", Unit.COUNT, [row.result["events"] or None for row in newest]),
                Column("sources", "Sources", Unit.COUNT, [len(row.result["sources"]) for row in newest]),
                Column("device", "Device", Unit.TEXT, [row.result["facts"].get("device") for row in newest]),
            ),
        ),
        run_links=[_report_link(row) for row in newest],
        files=[tuple(_links(row)) for row in newest],
        programs=tuple(_programs(rows, titles)),
        failures=ReportTable(
            "failures",
            "What to look at, and why",
            (
                Column("run", "Run", Unit.TEXT, [row.result["run"] for row, _ in reasons]),
                Column("reason", "Reason", Unit.TEXT, [reason for _, reason in reasons]),
                Column("status", "Status", Unit.TEXT, [_status(row) for row, _ in reasons]),
            ),
        ),
        failure_links=[_report_link(row) for row, _ in reasons],
        trends=trends,
        lists=tuple(_lists(rows, roots, problems)),
        notes=tuple(notes),
    )


def _reasons(row: _IndexRow) -> list[str]:
    """Return why a run failed, is only partly there, or is beyond a budget."""
    reasons = [_short_reason(row, reason) for reason in (*row.result["reasons"], *row.result.get("lost", []))]
    return [*(reasons or row.incomplete), *(f"over budget: {text}" for text in row.over)]


def _short_reason(row: _IndexRow, reason: ReasonJson) -> str:
    """Return a reason with the file's path relative to the run, which the same row names."""
    home = f"{row.result['root']}/{row.result['inside']}/"
    text = reason["reason"].replace(home, "")
    return text if not reason["file"] or reason["file"] in text else f"{reason['file']}: {text}"


def _status(row: _IndexRow) -> str:
    more = {"over budget": bool(row.over), "files gone": row.gone}
    return ", ".join([row.result["status"], *(words for words, holds in more.items() if holds)])


def _dropped_column(rows: Sequence[_IndexRow]) -> Iterator[Column]:
    """Yield the column of dropped records if any run has some."""
    if any(row.dropped for row in rows):
        yield Column("dropped", "Records dropped", Unit.COUNT, [row.dropped or None for row in rows])


def _facts(rows: Sequence[_IndexRow]) -> Iterator[tuple[str, str]]:
    counts = _counts(rows)
    yield "runs", f"{counts['runs']:,}"
    for name, count in (
        ("failed", counts["failed"]),
        ("partial", counts["partial"]),
        ("over budget", counts["over"]),
        ("gone", counts["gone"]),
    ):
        if count:
            yield name, f"{count:,}"
    if rows:
        first, last = rows[0].result["date"], rows[-1].result["date"]
        yield "dates", first if first == last else f"{first} to {last}"
    for name, count in (("events", counts["events"]), ("totals", counts["totals"])):
        if count:
            yield name, f"{count:,}"
    read = sum(row.result["records"]["read"] for row in rows)
    runs = sum(row.dropped > 0 for row in rows)
    dropped = f"{counts['dropped']:,} dropped, in {runs:,} {'run' if runs == 1 else 'runs'}" if runs else "none dropped"
    yield "records", f"{read:,} read, {dropped}"


def _report_link(row: _IndexRow) -> str | None:
    has_one = any(each["path"] == "report.html" for each in row.result["outputs"])
    return f"runs/{quote(row.key)}/report.html" if has_one else None


def _links(row: _IndexRow) -> Iterator[Link]:
    for each in row.result["outputs"]:
        if each["path"] != "report.html":
            yield Link(each["path"], f"runs/{quote(row.key)}/{quote(each['path'])}")
    if row.result["archive"] and row.result["options"]["archive"] == "archive":
        yield Link("parquet", "archive/" + quote(row.result["archive"]["name"]))
    yield Link("json", f"runs/{quote(row.key)}/result.json")


def _lists(
    rows: Sequence[_IndexRow], roots: Sequence[RootJson], problems: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    beside = [f"{row.result['run']}: {other['path']}" for row in rows for other in row.result["others"]]
    unknown = [f"{root['root']}/{name}" for root in roots for name in root["unknown"]]
    outside = [f"{root['root']}/{name}" for root in roots for name in root["outside"]]
    skipped = [f"{note['path']}: {note['reason']}" for root in roots for note in root["notes"]]
    for lines, what in (
        (problems, "could not be scanned"),
        (unknown, "in folders without a profile"),
        (outside, "outside of the pattern for runs"),
        (beside, "beside profiles, not read: of no known format, or a report whose export was read"),
        (skipped, "skipped on purpose"),
    ):
        if lines:
            yield f"{len(lines):,} {what}", tuple(lines)


def _by_program(rows: Sequence[_IndexRow]) -> dict[str, list[_IndexRow]]:
    """Return the runs of each program in order of time, the programs with most runs first."""
    programs: dict[str, list[_IndexRow]] = {}
    for row in rows:
        programs.setdefault(row.program, []).append(row)
    return dict(sorted(programs.items(), key=lambda each: (-len(each[1]), each[0])))


def _trends(rows: Sequence[_IndexRow], titles: Mapping[str, str]) -> tuple[tuple[Trend, ...], list[str]]:
    """Return the trends of programs with several runs, and the programs that are not drawn."""
    several = {label: mine for label, mine in _by_program(rows).items() if len(mine) > 1}
    trends = []
    for label in list(several)[:MAX_TRENDS]:
        mine = several[label]
        charts = tuple(_charts(mine))
        if charts:
            changed = "".join(f"; {text}" for text in map(_level_change, charts) if text)
            title = f"{titles[label]} · {label.partition(' · ')[2]}"
            trends.append(Trend(title, f"{len(mine):,} runs, {_dates(mine)}{changed}", charts))
    return tuple(trends), list(several)[MAX_TRENDS:]


def _dates(rows: Sequence[_IndexRow]) -> str:
    first, last = rows[0].result["date"], rows[-1].result["date"]
    return first if first == last else f"{first} to {last}"


_SPARKS = ("step_p50", "kernel_time", "operator_time", "span")
"""Figures whose course is beside the name of a program: the first one that its runs have."""


def _programs(rows: Sequence[_IndexRow], titles: Mapping[str, str]) -> Iterator[Program]:
    """Yield each program with the course of its first figure, over all of its runs; those left out have no value."""
    for label, mine in _by_program(rows).items():
        figure = _course_figure([row for row in mine if not row.left_out])
        values = [None if row.left_out or figure is None else row.result["figures"].get(figure.name) for row in mine]
        labels = [f"{row.result['date']} {row.result['run']}" for row in mine]
        yield Program(
            title=titles[label],
            formats=label.partition(" · ")[2],
            runs=len(mine),
            failed=sum(row.result["status"] == "failed" for row in mine),
            dates=_dates(mine),
            course=None if figure is None else Series(figure.title, figure.unit, labels, values),
            failed_places=tuple(place for place, row in enumerate(mine) if row.result["status"] == "failed"),
            change="" if figure is None else _last_change(values),
            newest=next((link for row in reversed(mine) if (link := _report_link(row))), None),
        )


@dataclass(frozen=True, slots=True)
class SlowProgram:
    """A program that became slower. key: of the run that is slow, or of the first one of a level that is.

    title: of the program. run: the name of that run, as its result has it. ratio: how many times the usual value it is.
    change: the figure before and after, such as "step p50 10.10 ms before, now 15.20 ms (+50.5 %)". others: the number
    of runs that it is compared with. since: all runs from that one on are slower.
    """

    key: str
    title: str
    run: str
    ratio: float
    change: str
    others: int
    since: bool


def slower_programs(out: OutputFolder, here: Collection[str], new: Collection[str]) -> list[SlowProgram]:
    """Return the programs that are slower than before, the worst first.

    here: the keys of all runs of this batch: programs without one of them are not looked at. new: those of new runs.
    """
    rows = _rows(out)
    titles = program_titles({label: [row.result for row in mine] for label, mine in _by_program(rows).items()})
    slow = []
    for label, mine in _by_program(rows).items():
        known = [row for row in mine if not row.left_out and row.result["status"] != "failed"]
        if any(row.key in here for row in known):
            slow += [_slow_program(titles[label], known, new)]
    worst_first = sorted(filter(None, slow), key=lambda each: (-each.ratio, each.title, each.key))
    return [each for each in worst_first if each.since or each.key in here]


def _slow_program(title: str, rows: Sequence[_IndexRow], new: Collection[str]) -> SlowProgram | None:
    """Return how the figure beside the name of a program became worse, None where it did not."""
    figure = _course_figure(rows)
    if figure is None:
        return None
    known = [row for row in rows if row.result["figures"].get(figure.name) is not None]
    values = [row.result["figures"][figure.name] or 0 for row in known]
    places = [place for place, row in enumerate(known) if row.key in new]
    found = slowdown(values, places, _work(figure, known))
    if found is None:
        return None
    usual, value = format_span(round(found.usual)), format_span(round(found.value))
    change = f"{figure.name.replace('_', ' ')} {usual} before, now {value} ({_beside(found.value, found.usual)})"
    row = known[found.at]
    return SlowProgram(row.key, title, row.result["run"], found.ratio, change, found.others, found.since)


def _work(figure: KeyFigure, rows: Sequence[_IndexRow]) -> list[Number]:
    """Return how much each run did, where the figure is a sum of times: a run that does more takes longer."""
    if figure.name == "step_p50":
        return []
    if figure.name == "kernel_time":
        return [row.result["figures"].get("kernel_calls") for row in rows]
    return [row.result["events"] or row.result["totals"] for row in rows]


def _course_figure(rows: Sequence[_IndexRow]) -> KeyFigure | None:
    """Return the figure whose course stands for a program: the first one that its runs have."""
    has = {name for name in _SPARKS for row in rows if row.result["figures"].get(name) is not None}
    return next((each for name in _SPARKS for each in KEY_FIGURES if each.name == name and name in has), None)


_MANY_TIMES = 10
"""From so many times the value on, a percentage says nothing."""


def _last_change(values: Sequence[Number]) -> str:
    """Return the last value beside the median of those before: "+3.0 %"; "" for fewer than two."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return ""
    before = sorted(known[:-1])
    return _beside(known[-1], before[(len(before) - 1) // 2])


def _beside(value: float, level: float) -> str:
    """Return a value beside a level: "+3.0 %", and "12 times" or "a 12th" where it is far from it."""
    if level <= 0 or value < 0:
        return ""
    if value >= _MANY_TIMES * level:
        return f"{value / level:,.0f} times"
    if _MANY_TIMES * value <= level:
        return f"1/{level / value:,.0f}" if value else "0"
    return f"{100 * (value / level - 1):+.1f} %"


def _charts(rows: Sequence[_IndexRow]) -> Iterator[Series]:
    for figure in KEY_FIGURES:
        values: list[Number] = [row.result["figures"].get(figure.name) for row in rows]
        known = [value for value in values if value is not None]
        if not figure.has_chart or len(known) < 2 or not any(known):
            continue
        labels = [f"{row.result['date']} {row.result['run']}" for row in rows]
        before = sorted(known[:-1])
        middle = before[(len(before) - 1) // 2]
        change = f", last {text}" if (text := _last_change(values)) else ""
        limits = {budget: None for row in rows for budget in row.budgets if budget.figure is figure}
        levels = (("median before", middle), *((f"budget {budget.op}", budget.limit) for budget in limits))
        yield Series(f"{figure.title}{change}", figure.unit, labels, values, levels, tuple(_marks(values)))


def _marks(values: Sequence[Number]) -> Iterator[tuple[int, str]]:
    """Yield the first run of each new level of a figure, with the change."""
    places = [place for place, value in enumerate(values) if value is not None]
    for point in change_points(np.array([values[place] for place in places], np.float64)):
        if words := _beside(point.after, point.before):
            yield places[point.at], f"level {words}"


def _level_change(chart: Series) -> str:
    """Return the last change of level of a figure in words, "" for none."""
    if not chart.marks:
        return ""
    place, words = chart.marks[-1]
    return f"{chart.title.partition(',')[0].lower()}: {words} since {chart.labels[place]}"

"""html: one page that opens offline: facts, device time, timeline, every table, and what became of each record.

Text of the traces is hostile: jinja2 escapes it, JSON contains no `<`, and scripts write text nodes. The same report
makes the same bytes. Styles and scripts come from `shell`.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escape_controls, plural
from tracekit.model.ledger_lines import LedgerCounts, count_of, ledger_lines
from tracekit.model.report import (
    Bar,
    Column,
    Curve,
    Finding,
    Flame,
    Heat,
    Picture,
    Report,
    ReportTable,
    Section,
    Series,
)
from tracekit.model.timeline import CriticalPath, Timeline
from tracekit.model.units import Unit, format_bytes, format_span, percent, short_span
from tracekit.render import prose
from tracekit.render.base import Renderer, RenderOptions
from tracekit.render.figures import HeatMap, heat_map
from tracekit.render.page import shell
from tracekit.render.page.change import ChangeBox, change_box, folded
from tracekit.render.page.data import packed, place_of
from tracekit.render.page.overview import overview
from tracekit.render.page.pictures import drawn, has_steps, tables_of
from tracekit.render.page.pictures.curve import curve
from tracekit.render.page.pictures.series import series
from tracekit.render.page.sections import grouped, in_order, is_folded, line_of, with_first_bars
from tracekit.render.page.shell import Use, sheet
from tracekit.render.page.static_timeline import Still, still
from tracekit.render.page.tables import LongNames, cell_link, table_html
from tracekit.render.page.timeline import TimelineData, timeline_data
from tracekit.render.palette import color_of

__all__ = ["RENDERER"]

LEAST_CONTENTS = 4
"""Pages with at least this many sections have a table of contents."""


@dataclass(frozen=True, slots=True)
class BarPart:
    """One part of a bar: its share in percent as text and as width, its amount short and exact."""

    label: str
    color: str
    share: str
    width: str
    amount: str
    exact: str


@dataclass(frozen=True, slots=True)
class BarBox:
    """A bar with its title; the large number above it is the share of the first part."""

    title: str
    whole: str
    parts: tuple[BarPart, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A timeline: its data for the scripts, and a sentence for readers who cannot see it.

    has_host: it has ranges of threads, so that a flame graph can be drawn. still: its picture without a script.
    """

    data: TimelineData
    summary: str
    has_host: bool
    still: Still | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A finding: its title, and words with their texts below it. A text is in pieces: (text, link to a cell or "").

    mark: the number of its mark on the timeline, None for none.
    """

    title: str
    lines: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    mark: int | None


@dataclass(frozen=True, slots=True)
class FlameBox:
    """A flame graph, which the scripts draw from the data of the page: at `place`, section and figure by number."""

    place: str
    title: str
    unit: str


@dataclass(frozen=True, slots=True)
class PagePart:
    """One section of the page. pictures: HTML. sheets: title and HTML. line: what is in it, "" where it is open."""

    title: str
    view: str
    anchor: str
    line: str
    bars: tuple[BarBox, ...]
    drawings: tuple[Drawing, ...]
    heat_maps: tuple[HeatMap, ...]
    pictures: tuple[str, ...]
    flames: tuple[FlameBox, ...]
    sheets: tuple[tuple[str, str], ...]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Navigation:
    """The links of the header: those beside each other, and those of the menu of tables in groups: anchor and title."""

    top: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


@dataclass(slots=True)
class _Page:
    report: Report
    names: LongNames
    bars: list[BarBox] = field(default_factory=list)
    parts: list[PagePart] = field(default_factory=list)
    empty: list[tuple[str, str]] = field(default_factory=list)
    without: list[tuple[str, str]] = field(default_factory=list)
    data: TimelineData | None = None
    change: ChangeBox | None = None


def render(report: Report, options: RenderOptions) -> str:
    """Return the page. Raises: UsageError for an unknown unit of time."""
    return "".join(pieces(report, options))


def pieces(report: Report, options: RenderOptions) -> Iterator[str]:
    """Return the page, piece by piece. Raises: UsageError for an unknown unit of time, before the first piece."""
    data = packed(report)
    page = _Page(report, LongNames(data.short), change=change_box(report, options))
    telling, _ = prose.nothing_to_show(report.sections)
    for number in in_order(report.sections):
        section = report.sections[number]
        _add(page, report, number, options, telling=any(section is each for each in telling))
    return shell.pieces(
        "report.html.j2",
        options,
        _uses(page),
        title=escape_controls(report.title),
        version=report.version,
        facts=[(escape_controls(key), escape_controls(text)) for key, text in report.facts],
        bars=page.bars,
        change=page.change,
        screen=None if report.headline is None else overview(report, report.headline, options, _marks(page.data)),
        parts=page.parts,
        data=data,
        timeline=page.data,
        some_left_out=any("<p class=more>" in sheet for part in page.parts for _, sheet in part.sheets),
        navigation=_navigation(page),
        empty=page.empty,
        without=page.without,
        ledger=sheet(_ledger(report.ledgers)) if report.ledgers else None,
        account=[_sentence(line) for line in ledger_lines(report.ledgers)],
        notes=list(map(escape_controls, report.notes)),
        incomplete=list(map(escape_controls, report.incomplete)),
    )


def _uses(page: _Page) -> frozenset[Use]:
    tables = any(part.sheets for part in page.parts) or len(page.report.ledgers) > 1
    flames = any(part.flames or any(drawing.has_host for drawing in part.drawings) for part in page.parts)
    drawn: list[tuple[Use, bool]] = [
        ("tables", tables),
        ("timeline", page.data is not None),
        ("flame", flames),
        ("change", page.change is not None),
        ("bare", page.report.headline is None),
        ("heat", any(part.heat_maps for part in page.parts)),
        ("pictures", any(part.pictures for part in page.parts)),
        ("steps", any(has_steps(each) for part in page.parts for each in part.pictures)),
    ]
    return frozenset(use for use, shown in drawn if shown)


def _navigation(page: _Page) -> Navigation | None:
    """Return the links of the header; None for a page with few sections."""
    if len(page.parts) < LEAST_CONTENTS:
        return None
    rest = [("nothing-to-show", "Nothing to show")] if page.empty or page.without else []
    groups = grouped([(part.view, (part.anchor, part.title)) for part in page.parts if not part.drawings])
    if not groups:
        return Navigation((*((part.anchor, part.title) for part in page.parts), *rest), ())
    top = [("first-screen", "Overview")] if page.report.headline is not None else []
    for part in page.parts:
        if part.drawings:
            top += [(part.anchor, part.title)]
            top += [("flame", "Flame graph")] if any(drawing.has_host for drawing in part.drawings) else []
    if rest:
        groups.append(("Not in this trace", tuple(rest)))
    return Navigation(tuple(top), tuple(groups))


def _add(page: _Page, report: Report, number: int, options: RenderOptions, *, telling: bool) -> None:
    section = report.sections[number]
    title = escape_controls(section.title)
    notes = tuple(map(escape_controls, section.notes))
    if not (section.tables or section.figures):
        (page.empty if telling else page.without).append((title, "; ".join(notes)))
        return
    bars = tuple(_bar(figure) for figure in section.figures if isinstance(figure, Bar))
    if number == with_first_bars(report.sections, Bar):  # they are on top of the page, or its first screen has them
        page.bars, bars = list(bars), ()
    drawings = []
    for figure in section.figures:
        if isinstance(figure, Timeline) and page.data is None:  # one a page: the scripts know one
            page.data = timeline_data(
                figure, options, report.title, report.version, _findings(report), _critical_paths(report)
            )
            has_host = any(not (lane.on_device or lane.overlay or lane.instants) for lane in figure.lanes)
            drawings.append(Drawing(page.data, _summary(figure, page.data), has_host, still(figure)))
    heat_maps = tuple(heat_map(figure) for figure in section.figures if isinstance(figure, Heat))
    tables = tables_of(report)
    found = [drawn(figure, tables) for figure in section.figures if isinstance(figure, Picture)]
    charts = [series(figure) for figure in section.figures if isinstance(figure, Series)]
    curves = (curve(figure) for figure in section.figures if isinstance(figure, Curve))
    pictures = tuple(filter(None, (*curves, *found, *_folded(charts, found))))
    flames = tuple(_flame(section, number, figure) for figure in section.figures if isinstance(figure, Flame))
    groups = {figure.table: figure.groups for figure in section.figures if isinstance(figure, Picture)}
    sheets = tuple(
        (
            escape_controls(table.title),
            _sheet(
                page,
                table,
                section.view,
                f"{number}.{place}",
                options.time_unit,
                groups.get(f"{section.view}.{table.name}", ()),
            ),
        )
        for place, table in enumerate(section.tables)
    )
    mark_of = page.data.mark_of if page.data else {}
    claims = tuple(
        _claim(report, each, mark_of.get((section.view, row))) for row, each in enumerate(section.findings, 1)
    )
    anchor = _anchor(page, section)
    line = line_of(section) if is_folded(report.sections, section) else ""
    page.parts.append(
        PagePart(
            title,
            section.view,
            anchor,
            line,
            bars,
            tuple(drawings),
            heat_maps,
            pictures,
            flames,
            sheets,
            claims,
            notes,
        )
    )


def _folded(charts: list[str], found: list[str]) -> list[str]:
    """Return the series of a section, folded where one picture has all of their ranks already."""
    if len(charts) < 2 or not any('"pic pic-multiples"' in each for each in found):
        return charts
    summary = f"<summary>{plural(len(charts), 'rank')} one by one</summary>"
    return [f'<details class="pics">{summary}{"".join(charts)}</details>']


def _sheet(page: _Page, table: ReportTable, view: str, place: str, time_unit: str, groups: Sequence[str]) -> str:
    made = table_html(table, view, place, time_unit, page.names, groups)
    return folded(table, made) if page.change is not None else made


def _claim(report: Report, finding: Finding, mark: int | None) -> Claim:
    cells = tuple((prose.evidence_text(each), cell_link(report, each)) for each in finding.evidence)
    lines = ((word, cells if word == "evidence" else ((text, ""),)) for word, text in prose.finding_lines(finding))
    return Claim(prose.finding_title(finding), tuple(lines), mark)


def _anchor(page: _Page, section: Section) -> str:
    """Return the place of a section in links: its view's name; with the title where the view has several sections."""
    view = escape_controls(section.view)
    named = f"{view}-{'-'.join(re.findall(r'[a-z0-9]+', section.title.lower()))}"
    taken = {part.anchor for part in page.parts}
    numbered = (f"{named}-{number}" for number in range(2, len(taken) + 3))
    return next(anchor for anchor in (view, named, *numbered) if anchor not in taken)


def _findings(report: Report) -> list[tuple[str, int, Finding]]:
    return [(section.view, row, each) for section in report.sections for row, each in enumerate(section.findings, 1)]


def _marks(data: TimelineData | None) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the number of the mark of each finding, and of its events, by view and row."""
    if data is None:
        return {}
    heads = typing.cast("list[dict[str, int]]", data.head.get("marks", []))
    return {key: (number, heads[number].get("all", heads[number]["n"])) for key, number in data.mark_of.items()}


def _critical_paths(report: Report) -> list[CriticalPath]:
    return [each for section in report.sections for each in section.figures if isinstance(each, CriticalPath)]


def _bar(bar: Bar) -> BarBox:
    whole = sum(value for _, value in bar.parts)
    parts = [
        BarPart(
            escape_controls(label),
            color_of(label, place),
            percent(value, whole) if whole else "0.0",
            f"{100 * value / whole if whole else 0:.4f}",
            *_amounts(value, bar.unit),
        )
        for place, (label, value) in enumerate(bar.parts)
    ]
    return BarBox(escape_controls(bar.title), _amounts(whole, bar.unit)[0], tuple(parts))


def _amounts(value: int, unit: Unit) -> tuple[str, str]:
    """Return an amount in short form and in exact form."""
    if unit is Unit.NS:
        return short_span(value), f"{value:,} ns"
    if unit is Unit.BYTES:
        return format_bytes(value), f"{value:,} bytes"
    return f"{value:,}", f"{value:,}"


def _summary(figure: Timeline, data: TimelineData) -> str:
    total, shown = len(figure.events), data.head["n"]
    events = f"{total:,} {'event' if total == 1 else 'events'}"
    lanes = f"{len(figure.lanes):,} {'lane' if len(figure.lanes) == 1 else 'lanes'}"
    words = f"{events} on {lanes}, {format_span(figure.end_ns - figure.begin_ns)}"
    return words if shown == total else f"{words}; {data.head['budget']}"


def _flame(section: Section, number: int, figure: Flame) -> FlameBox:
    """Return where the data of the page has a flame graph, and its texts as people see them."""
    place = f"{number}.{place_of(section, figure)}"
    return FlameBox(place, escape_controls(figure.title), escape_controls(figure.unit))


_COUNTS = {name: name.capitalize() for name in ("read", "kept", "merged", "facts", "ignored", "filtered", "dropped")}


def _ledger(ledgers: Sequence[LedgerCounts]) -> ReportTable:
    """Return what became of the records of each input, as one more table."""
    counts = _COUNTS | {"events_out": "Events", "totals_out": "Totals"}
    return ReportTable(
        "ledger",
        "Records",
        (
            Column("path", "Input", Unit.TEXT, [Path(str(ledger.get("path", ""))).name for ledger in ledgers]),
            Column("format", "Format", Unit.TEXT, [str(ledger.get("format", "")) for ledger in ledgers]),
            *(
                Column(name, title, Unit.COUNT, [count_of(ledger, name) for ledger in ledgers])
                for name, title in counts.items()
            ),
        ),
    )


def _sentence(line: str) -> str:
    """Return a line with a capital, unless it begins with the name of an input."""
    return f"R{line[1:]}" if line.startswith("read ") else line


RENDERER = Renderer(name="html", suffixes=(".html", ".htm"), render=render, pieces=pieces)

"""html: one page that opens offline: facts, device time, timeline, every table, and what became of each record.

Style, script and Bokeh are in the page. Its content security policy forbids every request, and every script but those
whose hashes it lists. With `assets` they are linked, for many pages that share them; then the policy names the page's
own site. Text of the traces is hostile: jinja2 escapes it, JSON contains no `<`, and report.js writes text nodes. The
same report makes the same bytes. A page without a timeline has no Bokeh and is small.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.display import visible
from tracekit.render import _prose
from tracekit.render._palette import color_of, place_of
from tracekit.render._picture import Picture, picture
from tracekit.render._series import Chart, chart
from tracekit.render._sheet import Sheet, percent, sheet, short_span
from tracekit.render.base import Renderer, RenderOptions
from tracekit.report import Bar, Column, Report, ReportTable, Section, Series, Timeline
from tracekit.units import Unit, format_bytes, format_span

if TYPE_CHECKING:
    import jinja2


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
    """A timeline with its legend (word, colour) and a sentence for readers who cannot see it."""

    number: int
    picture: Picture
    legend: tuple[tuple[str, str], ...]
    summary: str
    thinning: str


@dataclass(frozen=True, slots=True)
class Part:
    """One section of the page. claims, of findings: title, and (word, text) below it."""

    title: str
    anchor: str
    bars: tuple[BarBox, ...]
    drawings: tuple[Drawing, ...]
    charts: tuple[Chart, ...]
    sheets: tuple[Sheet, ...]
    claims: tuple[tuple[str, list[tuple[str, str]]], ...]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Page:
    bars: list[BarBox] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    empty: list[tuple[str, str]] = field(default_factory=list)
    without: list[tuple[str, str]] = field(default_factory=list)
    drawings: int = 0


def render(report: Report, options: RenderOptions) -> str:
    """Return the page. Raises: UsageError for an unknown unit of time."""
    page = _Page()
    telling, _ = _prose.nothing_to_show(report.sections)
    for section in report.sections:
        _add(page, section, options, telling=any(section is each for each in telling))
    return written(
        "report.html.j2",
        options,
        bokeh=bool(page.drawings),
        title=visible(report.title),
        version=report.version,
        facts=[(visible(key), visible(text)) for key, text in report.facts],
        bars=page.bars,
        parts=page.parts,
        contents=_contents(page),
        empty=page.empty,
        without=page.without,
        ledger=sheet(_ledger(report.ledgers)) if report.ledgers else None,
        account=[_sentence(line) for line in _prose.ledger_lines(report.ledgers)],
        notes=list(map(visible, report.notes)),
        incomplete=list(map(visible, report.incomplete)),
    )


def written(template: str, options: RenderOptions, *, bokeh: bool = False, **values: object) -> str:
    """Return a page of a template, with style and scripts inside or linked. bokeh: it has a timeline."""
    folder = _templates()
    page = _environment(str(folder)).get_template(template)
    if options.assets:
        return page.render(
            assets=options.assets, style="", script="", bokeh="yes" if bokeh else "", policy=_LINKED, **values
        )
    script = _text(folder, "report.js")
    plot = _bokeh() if bokeh else ""
    policy = _policy([script, plot] if plot else [script])
    return page.render(assets="", style=_text(folder, "report.css"), script=script, bokeh=plot, policy=policy, **values)


def assets() -> dict[str, str]:
    """Return the files that pages with linked assets share: name -> text."""
    folder = _templates()
    return {name: _text(folder, name) for name in ("report.css", "report.js")} | {"bokeh.js": _bokeh()}


def templates() -> dict[str, str]:
    """Return the templates: name -> text. A cache of pages uses them to know when a page is out of date."""
    folder = _templates()
    return {name: _text(folder, name) for name in ("report.html.j2", "_macros.html.j2")}


# A hash cannot name a linked file on a disk. 'self' is the site only: pages opened from a disk need file: too.
_LINKED = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file: 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def _contents(page: _Page) -> list[tuple[str, str]]:
    """Return anchor and title of each section; nothing for a page with few sections."""
    found = [(part.anchor, part.title) for part in page.parts]
    if page.empty or page.without:
        found.append(("nothing-to-show", "Nothing to show"))
    return found if len(page.parts) >= LEAST_CONTENTS else []


def _add(page: _Page, section: Section, options: RenderOptions, *, telling: bool) -> None:
    title = visible(section.title)
    notes = tuple(map(visible, section.notes))
    if not (section.tables or section.figures):
        (page.empty if telling else page.without).append((title, "; ".join(notes)))
        return
    bars = tuple(_bar(figure) for figure in section.figures if isinstance(figure, Bar))
    if not page.bars:  # the bars of the first section with any are at the top of the page
        page.bars, bars = list(bars), ()
    drawings = []
    for figure in section.figures:
        if isinstance(figure, Timeline):
            page.drawings += 1
            drawings.append(_drawing(figure, page.drawings))
    charts = tuple(chart(figure) for figure in section.figures if isinstance(figure, Series))
    sheets = tuple(sheet(table, options.time_unit) for table in section.tables)
    claims = tuple((_prose.finding_title(each), _prose.finding_lines(each)) for each in section.findings)
    page.parts.append(Part(title, visible(section.view), bars, tuple(drawings), charts, sheets, claims, notes))


def _bar(bar: Bar) -> BarBox:
    whole = sum(value for _, value in bar.parts)
    parts = [
        BarPart(
            visible(label),
            "var(--idle)" if label == "idle" else color_of(label, place),
            percent(value, whole) if whole else "0.0",
            f"{100 * value / whole if whole else 0:.4f}",
            *_amounts(value, bar.unit),
        )
        for place, (label, value) in enumerate(bar.parts)
    ]
    return BarBox(visible(bar.title), _amounts(whole, bar.unit)[0], tuple(parts))


def _amounts(value: int, unit: Unit) -> tuple[str, str]:
    """Return an amount in short form and in exact form."""
    if unit is Unit.NS:
        return short_span(value), f"{value:,} ns"
    if unit is Unit.BYTES:
        return format_bytes(value), f"{value:,} bytes"
    return f"{value:,}", f"{value:,}"


def _drawing(figure: Timeline, number: int) -> Drawing:
    drawn = len(figure.start_ns)
    of = "" if drawn == figure.total else f" of {figure.total:,}"
    lanes = f"{len(figure.lanes):,} {'lane' if len(figure.lanes) == 1 else 'lanes'}"
    things = "rectangle" if figure.total == 1 else "rectangles"
    summary = f"{drawn:,}{of} {things} on {lanes}, {format_span(figure.end_ns - figure.begin_ns)}"
    legend = [
        (place_of(kind), visible(kind.replace("_", " ")), color_of(kind, i)) for i, kind in enumerate(figure.kinds)
    ]
    words = tuple((word, color) for _, word, color in sorted(legend))
    return Drawing(number, picture(figure), words, summary, visible(figure.thinning))


_COUNTS = {name: name.capitalize() for name in ("read", "kept", "merged", "facts", "ignored", "filtered", "dropped")}


def _ledger(ledgers: Sequence[_prose.Ledger]) -> ReportTable:
    """Return what became of the records of each input, as one more table."""
    counts = _COUNTS | {"events_out": "Events", "totals_out": "Totals"}
    return ReportTable(
        "ledger",
        "Records",
        (
            Column("path", "Input", Unit.TEXT, [Path(str(ledger.get("path", ""))).name for ledger in ledgers]),
            Column("format", "Format", Unit.TEXT, [str(ledger.get("format", "")) for ledger in ledgers]),
            *(
                Column(name, title, Unit.COUNT, [_prose.count_of(ledger, name) for ledger in ledgers])
                for name, title in counts.items()
            ),
        ),
    )


def _sentence(line: str) -> str:
    """Return a line with a capital, unless it begins with the name of an input."""
    return f"R{line[1:]}" if line.startswith("read ") else line


def _bokeh() -> str:
    """Return BokehJS: the core alone, without widgets, tables, typesetting and WebGL."""
    from bokeh.resources import Resources

    parts = Resources(mode="inline", components=["bokeh"], log_level="error").js_raw
    return "\n".join(parts).replace("\r\n", "\n").replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _templates() -> Traversable:
    """Return the folder of the templates: in the wheel beside the package, else at the top of the checkout."""
    packed = importlib.resources.files("tracekit") / "_templates"
    return packed if packed.is_dir() else Path(__file__).resolve().parents[2] / "templates"


def _text(folder: Traversable, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8").replace("\r\n", "\n")


@lru_cache(maxsize=2)
def _environment(place: str) -> jinja2.Environment:  # noqa: ARG001 - another place has another environment
    """Return the environment of the templates, which keeps them compiled: that takes longer than a small page."""
    import jinja2

    folder = _templates()
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _text(folder, name)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Bokeh defines a model at its first use and refers to it later: sorted keys would reverse that.
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False, "separators": (",", ":")}
    return environment


def _policy(scripts: Sequence[str]) -> str:
    """Return the content security policy: nothing from anywhere, and no script but these."""
    return "; ".join(_directives(scripts))


def _directives(scripts: Sequence[str]) -> Iterator[str]:
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    yield "default-src 'none'"
    yield "script-src " + " ".join(f"'sha256-{each}'" for each in hashes)
    yield "style-src 'unsafe-inline'"
    yield "img-src data:"
    yield "base-uri 'none'"
    yield "form-action 'none'"


RENDERER = Renderer(name="html", suffixes=(".html", ".htm"), render=render)

"""The first screen of a page: where the time goes in two levels, what to do, the steps, what takes most time.

The words are those of `render.screen`, which the terminal prints too. Shares of the bar are widths in percent of it; a
bar of savings is on the scale of one step, or of the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escape_controls, plural
from tracekit.model.names import short_names
from tracekit.model.report import (
    Curve,
    DeviceTime,
    Finding,
    Headline,
    QuotedTable,
    Report,
    ReportTable,
    Series,
    StepTime,
    TimePart,
    TimePiece,
    TopNames,
)
from tracekit.model.units import Unit, four_digits_of, percent, sentence_span
from tracekit.render.base import RenderOptions
from tracekit.render.cells import shown_columns
from tracekit.render.page.pictures.curve import curve
from tracekit.render.palette import class_color
from tracekit.render.screen import Screen, ShareBar, noun, screen, share_text, shown_first, span_text

__all__ = ["Overview", "overview"]

_PIXELS, _LETTER = 11.9, 7.2
"""Pixels of a percent of the bar on a screen of 1300, and of a letter in it."""
_LINK = 3.0
"""From this width on, in percent, a piece can be hit with a finger."""
_WORDS = 4.5
_SEEN, _OPEN = 0.1, 2.0
"""From this width on, in percent, a piece is drawn, and a part shows its pieces."""
MOST_STEPS = 120
"""Bars of step times: more steps share a bar, which shows the longest of them."""
_NAMES = 6
_NAME_WIDTH = 44
_CAUSE_VIEWS = {
    "compute": ("kernel", "kernels"),
    "exposed_comm": ("distributed", "communication"),
    "exposed_copies": ("memory_manipulation", "copies"),
    "idle": ("idle", "gaps"),
}
_COUNTED = {"compute": "kernel", "exposed_comm": "collective", "exposed_copies": "operation", "idle": "gap"}
_SHORT = {"exposed_comm": "communication", "exposed_copies": "copies"}
_WHERE = {"steps": "Where one step goes", "run": "Where the run goes"}
_CONFIDENCE = {"high": "high confidence", "medium": "medium confidence", "low": "low confidence: it may be wrong"}


@dataclass(frozen=True, slots=True)
class BlockPiece:
    """A piece of a part: its label, width in percent of the whole bar, and tooltip. ns: exact.

    name: as the tables have it, "" for a sum. link: the anchor to go to, "" for a piece too narrow to be hit. worded:
    it has room for its label. color: of a family of kernels, "" for that of the part.
    """

    label: str
    name: str
    width: float
    title: str
    ns: str
    link: str
    worded: bool
    color: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the bar with its pieces. wide: it has room for its words; else they are below the bar. roomy: for its
    amount too.
    """

    name: str
    label: str
    percent: str
    amount: str
    color: str
    width: float
    title: str
    ns: str
    over: str
    link: str
    wide: bool
    roomy: bool
    pieces: tuple[BlockPiece, ...]


@dataclass(frozen=True, slots=True)
class BlockBar:
    """A bar of two levels: where the time goes, its title, the whole, and the parts that add up to it."""

    where: str
    title: str
    whole: str
    exact: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Fix:
    """A finding as something to do. advice: the fix, whole. claim: what was found.

    saving: "up to 178 ms of 222.4 ms a step"; width: of its bar in percent, -1 for none; sure: the bound is the saving.
    mark: the number of its mark on the timeline, -1 for none. events: "2,440 events".
    """

    number: int
    view: str
    rule: str
    advice: str
    claim: str
    saving: str
    width: float
    sure: bool
    confidence: str
    exact: str
    mark: int
    events: str


@dataclass(frozen=True, slots=True)
class StepBars:
    """The times of the steps as bars: (height in percent, tooltip); the words beside them."""

    title: str
    bars: tuple[tuple[float, str], ...]
    words: str
    spread: str


@dataclass(frozen=True, slots=True)
class NameRow:
    """A name with its measures. width: of its bar in percent of the largest, -1 for none. title: the tooltip.

    color: of its family of kernels, as on the timeline; "" for another name.
    """

    label: str
    cells: tuple[str, ...]
    width: float
    title: str
    color: str = ""


@dataclass(frozen=True, slots=True)
class NameTable:
    """Names with bars, in one or two columns. aside: what the shares are of. view: that has all of them."""

    title: str
    aside: str
    view: str
    rows: tuple[NameRow, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """The first screen of a page.

    words: those of the terminal. fixes_aside: the scale of the bars of the fixes. why: the reason for having
    no findings, "" where there are some. pace: the times of the steps. ahead: the steps of the host are not those of
    the device. lanes: they say where the time goes. curve: of memory, where the trace is about it.
    """

    words: Screen
    bars: tuple[BlockBar, ...]
    more_bars: tuple[BlockBar, ...]
    fixes: tuple[Fix, ...]
    fixes_aside: str
    why_title: str
    why: str
    pace: StepBars | None
    ahead: bool
    lanes: bool
    curve: str
    tables: tuple[NameTable, ...]


def overview(
    report: Report, headline: Headline, options: RenderOptions, marks: Mapping[tuple[str, int], tuple[int, int]]
) -> Overview:
    """Return the first screen. marks: the number of the mark of each finding on the timeline, and of its events."""
    unit = options.time_unit
    words = screen(report, headline, unit)
    anchors = {section.view for section in report.sections if section.tables or section.figures}
    bars = [
        _device_bar(bar, group, anchors, unit)
        for bar, group in zip(words.bars, headline.devices, strict=not words.by_name)
    ]
    if words.by_name and headline.figure is not None:
        bars = []  # its names are beside what it is about
    elif words.by_name:
        bars = [_names_bar(bar, headline, anchors) for bar in words.bars]
    fixes = tuple(_fix(number, each, headline, unit, marks) for number, each in enumerate(headline.findings))
    return Overview(
        words=words,
        bars=tuple(bars[:2]),
        more_bars=tuple(bars[2:]),
        fixes=fixes,
        fixes_aside=_scale(headline, fixes),
        why_title="Why no findings?",
        why=words.card_note,
        pace=_step_bars(report, headline.step, unit),
        ahead=headline.step is not None and headline.step.host_ns is not None,
        lanes=headline.figure is None,
        curve=_memory_curve(report, headline),
        tables=tuple(_table(each, unit) for each in shown_first(headline)[:2]),
    )


def _device_bar(bar: ShareBar, group: DeviceTime, anchors: set[str], unit: str) -> BlockBar:
    blocks = []
    for shown, part in zip(bar.parts, group.parts, strict=True):
        view, _ = _CAUSE_VIEWS[part.name]
        link = view if view in anchors else "breakdown" if "breakdown" in anchors else ""
        pieces = tuple(_piece(each, part, group, anchors, link, unit) for each in part.pieces)
        pieces = tuple(each for each in pieces if each.width >= _SEEN) if shown.width >= _OPEN else ()
        title = f"{shown.label}: {shown.percent} %, {shown.exact}"
        inside = _SHORT.get(part.name, shown.label)
        wide, roomy = _room(inside, shown.width)
        blocks.append(
            Block(
                part.name,
                inside if wide else shown.label,
                shown.percent,
                shown.amount,
                shown.color,
                shown.width,
                title,
                shown.exact,
                shown.over,
                link,
                wide,
                roomy,
                pieces,
            )
        )
    return BlockBar(_WHERE[group.window], bar.title, bar.whole, bar.exact, tuple(blocks))


def _room(label: str, width: float) -> tuple[bool, bool]:
    """Return whether a part has room for its label and its share, and for its amount too."""
    letters = (_PIXELS * width - 20) / _LETTER
    return letters >= len(label) + 7, letters >= len(label) + 17


def _piece(piece: TimePiece, part: TimePart, group: DeviceTime, anchors: set[str], link: str, unit: str) -> BlockPiece:
    width = 100 * piece.ns / group.window_ns
    share = percent(piece.ns, group.window_ns)
    if piece.others:
        most = span_text(piece.most_ns, unit) if unit else sentence_span(piece.most_ns)
        name, label = "", f"{piece.others:,} more, {most} or less each"
    else:
        name = escape_controls(piece.name)
        label = name
    counted = f", {plural(piece.count, _COUNTED[part.name])}" if piece.count else ""
    title = f"{label}: {share} %, {piece.ns:,} ns{counted}"
    to = piece.view if piece.view in anchors else link
    color = class_color(piece.name) if part.name == "compute" and not piece.others else ""
    linked = to if width >= _LINK else ""
    return BlockPiece(label, name, width, title, f"{piece.ns:,} ns", linked, width >= _WORDS, color)


def _names_bar(bar: ShareBar, headline: Headline, anchors: set[str]) -> BlockBar:
    view = headline.top.view if headline.top is not None and headline.top.view in anchors else ""
    blocks = tuple(
        Block(
            part.name,
            part.label,
            part.percent,
            part.amount,
            part.color,
            part.width,
            f"{part.full or part.label}: {part.percent} %, {part.exact}",
            part.exact,
            "",
            view,
            *_room(part.label, part.width),
            (),
        )
        for part in bar.parts
    )
    return BlockBar("Where the time goes", bar.title, bar.whole, bar.exact, blocks)


def _fix(
    number: int, each: Finding, headline: Headline, unit: str, marks: Mapping[tuple[str, int], tuple[int, int]]
) -> Fix:
    mark, count = marks.get(("findings", number + 1), (-1, 0))
    owner = f" ({escape_controls(each.who)})" if each.who else ""
    saving, width = "", -1.0
    if each.saving_ns:
        saving = f"up to {_time(each.saving_ns, unit)}"
        if math.isfinite(each.share) and each.share >= 0:
            width = min(100 * each.share, 100.0)
            step = headline.step
            if step is not None and each.window_ns and _per_step(each, headline):
                share = step.share_of(each)
                width = min(100 * share, 100.0)
                saving = f"up to {_time(round(share * step.median_ns), unit)} of {_time(step.median_ns, unit)} a step"
            else:
                saving = f"{saving} of {_time(each.window_ns, unit)}" if each.window_ns else f"{saving} in all"
    part = f"; part of {escape_controls(each.part_of)}" if each.part_of else ""
    exact = f"{each.saving_ns:,} ns" + (f" of {each.window_ns:,} ns" if each.window_ns else "")
    return Fix(
        number=number,
        view="findings",
        rule=f"{escape_controls(each.rule)}{owner}",
        advice=escape_controls(each.advice),
        claim=escape_controls(each.claim),
        saving=saving,
        width=width,
        sure=each.confidence == "high",
        confidence=f"{_CONFIDENCE.get(each.confidence, each.confidence)}{part}",
        exact=f"{exact}: {escape_controls(each.because)}",
        mark=mark,
        events=plural(count, "event"),
    )


def _per_step(each: Finding, headline: Headline) -> bool:
    """Return whether the window of a finding is that of the steps."""
    return (
        any(
            group.window == "steps" and math.isclose(each.window_ns, group.window_ns / group.devices, rel_tol=0.02)
            for group in headline.devices
        )
        or not headline.devices
    )


def _of_scale(each: Finding, headline: Headline) -> bool:
    """Return whether the window of a finding is that of the steps, or of the run where there are none."""
    if headline.step is not None:
        return bool(each.window_ns) and _per_step(each, headline)
    return headline.run_ns is None or math.isclose(each.window_ns, headline.run_ns, rel_tol=0.02)


def _scale(headline: Headline, fixes: Sequence[Fix]) -> str:
    bars = [each for each in fixes if each.width >= 0]
    if not bars:
        return ""
    scale = "one step" if headline.step is not None else "the run"
    if any(not _of_scale(each, headline) for each in headline.findings if each.saving_ns):
        scale = "the time beside each"
    said = [f"bars on the scale of {scale}"]
    if any(not each.sure for each in bars):
        said.append("hatched: an upper bound")
    if len(bars) > 1:
        said.append("they overlap")
    return "; ".join(said)


def _time(ns: int, unit: str) -> str:
    return span_text(ns, unit) if unit else sentence_span(ns)


def _step_bars(report: Report, step: StepTime | None, unit: str) -> StepBars | None:
    """Return the times of the steps as bars, of the first series of them."""
    series = next(
        (
            each
            for section in report.sections
            if section.view == "steps"
            for each in section.figures
            if isinstance(each, Series) and each.unit is Unit.NS
        ),
        None,
    )
    if series is None or step is None:
        return None
    known = [
        (str(label), int(value)) for label, value in zip(series.labels, series.values, strict=True) if value is not None
    ]
    if not known:
        return None
    most = max(value for _, value in known) or 1
    size = -(-len(known) // MOST_STEPS)
    bars = []
    for first in range(0, len(known), size):
        label, value = max(known[first : first + size], key=lambda each: each[1])
        bars.append((100 * value / most, f"{escape_controls(label)}: {value:,} ns"))
    few = " · ".join(_time(value, unit) for _, value in known) if len(known) <= 3 else ""
    return StepBars(
        f"{plural(len(known), 'step')}",
        tuple(bars),
        few or f"median {_time(step.median_ns, unit)}, p95 {_time(step.p95_ns, unit)}",
        f"p5 to p95: {percent(step.p95_ns - step.p5_ns, step.median_ns)} %"
        if step.median_ns and step.steps > 1
        else "",
    )


def _memory_curve(report: Report, headline: Headline) -> str:
    """Return the picture of memory over time where the trace is about it, "" elsewhere."""
    if headline.figure is None or headline.figure.unit is not Unit.BYTES:
        return ""
    return next(
        (
            curve(each)
            for section in report.sections
            if section.view == "memory"
            for each in section.figures
            if isinstance(each, Curve)
        ),
        "",
    )


def _table(it: QuotedTable | TopNames, unit: str) -> NameTable:
    return _top_table(it, unit) if isinstance(it, TopNames) else _quoted_table(it)


def _top_table(top: TopNames, unit: str) -> NameTable:
    shown = top.names[:_NAMES]
    labels = short_names([escape_controls(each.name) for each in shown], _NAME_WIDTH)
    most = max(each.ns for each in shown) or 1
    rows = []
    for label, each in zip(labels, shown, strict=True):
        calls = "" if each.calls is None else plural(each.calls, "call")
        share = "" if each.share is None else f"{share_text(each, top)} %"
        full = escape_controls(each.name)
        cells = (calls, span_text(each.ns, unit), share)
        exact = f"{each.ns:,} ns{f', class {each.kernel_class}' if each.kernel_class else ''}"
        color = class_color(each.kernel_class) if each.kernel_class else ""
        tooltip = exact if label == full else f"{full}: {exact}"
        rows.append(NameRow(label, cells, 100 * each.ns / most, tooltip, color))
    device = top.view in ("kernel", "memory_manipulation")
    part = f", {escape_controls(top.part)}" if top.part else ""
    whole = _time(top.total_ns, unit)
    of = f"shares of {top.of}, {whole}" if top.of else f"of {whole} in {top.count:,} {noun(top)}"
    of = f"of {whole}" if top.count == 1 else of
    title = "Most device time" if device else f"Most time: {noun(top)}"
    return NameTable(f"{title}{part}", of, top.view, tuple(rows))


def _quoted_table(quoted: QuotedTable) -> NameTable:
    columns = shown_columns(ReportTable(quoted.table, quoted.title, quoted.columns), "")
    names = next((column for column in columns if column.key == "name"), columns[-1])
    measures = [column for column in columns if column is not names]
    raw = {column.name: column.values for column in quoted.columns}
    scaled = next((column for column in measures if column.right), None)
    values = [
        float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else 0.0
        for cell in (raw[scaled.key] if scaled is not None else [])
    ]
    # Numbers for people: all digits are in the table below.
    short = {
        column.name: [four_digits_of(cell) if isinstance(cell, int | float) and math.isfinite(cell) else "-"
                      for cell in column.values]
        for column in quoted.columns if column.unit is Unit.NUMBER
    }  # fmt: skip
    # Shares of a peak are on the scale of that peak.
    most = 1.0 if quoted.table == "peak" else max([*values, 0.0])
    rows = []
    labels = short_names(names.texts[:_NAMES], _NAME_WIDTH)
    for row, label in enumerate(labels):
        cells = tuple(
            text if column.key in ("metric", "unit") else f"{column.title}: {text}"
            for column in measures
            if (text := short.get(column.key, column.texts)[row]) != "-"
        )
        width = min(100 * values[row] / most, 100.0) if values and most > 0 and values[row] >= 0 else -1.0
        rows.append(NameRow(label, cells, width, "" if label == names.texts[row] else names.texts[row]))
    more = f"{len(labels):,} of {quoted.count:,}"
    return NameTable(escape_controls(quoted.title), more, quoted.view, tuple(rows))

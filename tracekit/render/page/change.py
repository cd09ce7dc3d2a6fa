"""The first screen of a comparison: the verdict, an interval for each metric, and a waterfall from BASE to NEW.

Pictures are SVG in percent of their width: they fit every screen, need no script, and can be printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tracekit.lazy_dataclass import dataclass
from tracekit.model.change import (
    REASON,
    UNCHANGED,
    ChangeInterval,
    ChangeIntervals,
    ChangeVerdict,
    PartOfChange,
    Waterfall,
)
from tracekit.model.display import cell_width, escape_controls, plural, shown_name, typical_time_unit
from tracekit.model.names import short_names
from tracekit.model.report import Report, ReportTable
from tracekit.model.units import Unit, format_bytes, format_ratio, rounded, sentence_span
from tracekit.render.base import RenderOptions

__all__ = ["ChangeBox", "change_box", "folded"]

_WORSE, _BETTER, _SAME, _UNDECIDED = "worse", "better", "same", "open"
_STATE = {"slower": _WORSE, "more": _WORSE, "faster": _BETTER, "less": _BETTER, "same": _SAME}
_MOST_RATIO = 2.0
"""The picture ends at this change; a metric beyond it has an arrow there."""
_HARDLY = 0.01
"""Share of all differences below which a part is folded."""
_LEAST_SHOWN = 0.05
"""Part of the whole that a waterfall is wide at least."""
_ONLY_IN = {"new": "only in NEW", "gone": "only in BASE"}
_LABEL = 32
"""Letters of a label that fit beside the bars."""


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """One metric. at, low, width: percent of the picture; low: "" without an interval. beyond: "left", "right", ""."""

    metric: str
    meaning: str
    state: str
    verdict: str
    change: str
    interval: str
    amounts: str
    at: str
    low: str
    width: str
    beyond: str


@dataclass(frozen=True, slots=True)
class WaterfallRow:
    """One bar. left, width: percent of the picture. exact: of both sides. rows: its own bars, to unfold.

    title: the whole label. link: to its row in a table, "" for none.
    """

    label: str
    title: str
    link: str
    remark: str
    state: str
    left: str
    width: str
    text: str
    exact: str
    rows: tuple[WaterfallRow, ...] = ()


@dataclass(frozen=True, slots=True)
class WaterfallBox:
    """A waterfall ready for the template. ends: place and text of base and of new. unit: of all texts."""

    title: str
    what: str
    unit: str
    base: tuple[str, str, str]
    new: tuple[str, str, str]
    rows: tuple[WaterfallRow, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class ChangeBox:
    """The first screen ready for the template. zero: percent of the width where the intervals have no change."""

    state: str
    sentence: str
    meaning: str
    facts: tuple[tuple[str, str], ...]
    intervals: tuple[IntervalRow, ...]
    zero: str
    remark: str
    waterfalls: tuple[WaterfallBox, ...]


def change_box(report: Report, options: RenderOptions) -> ChangeBox | None:
    """Return the first screen of a comparison, None for another report. Raises: UsageError for an unknown unit."""
    figures = [figure for section in report.sections for figure in section.figures]
    verdict = next((each for each in figures if isinstance(each, ChangeVerdict)), None)
    if verdict is None:
        return None
    intervals = next((each for each in figures if isinstance(each, ChangeIntervals)), None)
    waterfalls = [each for each in figures if isinstance(each, Waterfall)]
    cells = _cells_of(report)
    rows, zero = _interval_rows(intervals.rows) if intervals is not None else ((), "")
    return ChangeBox(
        _STATE.get(verdict.state, _UNDECIDED),
        escape_controls(verdict.sentence),
        escape_controls(verdict.meaning),
        tuple((key, text) for key, text in report.facts if key != "verdict"),
        rows,
        zero,
        intervals.remark if intervals is not None else "",
        tuple(_waterfall_box(each, options, cells) for each in waterfalls),
    )


# Intervals


def _interval_rows(changes: Sequence[ChangeInterval]) -> tuple[tuple[IntervalRow, ...], str]:
    known = [v for each in changes for v in (each.ratio, each.low, each.high) if v is not None]
    begin = max(min([0.0, *known]), -_MOST_RATIO)
    end = min(max([0.01, *known]), _MOST_RATIO)
    # Room for the marks, which are wider than their places.
    margin = 0.06 * (end - begin)

    def place(ratio: float) -> float:
        return 100 * (min(max(ratio, begin), end) - begin + margin) / (end - begin + 2 * margin)

    rows = []
    for each in changes:
        has_interval = each.low is not None and each.high is not None
        low, high = (place(each.low or 0.0), place(each.high or 0.0)) if has_interval else (0.0, 0.0)
        ratio = each.ratio
        rows.append(
            IntervalRow(
                each.metric,
                each.meaning,
                _STATE.get(each.verdict, _UNDECIDED),
                each.verdict,
                "not known" if ratio is None else f"{_signed(ratio)} %",
                f"{_signed(each.low or 0.0)} to {_signed(each.high or 0.0)} %" if has_interval else "no interval",
                f"{_amount(each.base, each.unit)} → {_amount(each.new, each.unit)}",
                "" if ratio is None else f"{place(ratio):.2f}",
                f"{low:.2f}" if has_interval else "",
                f"{high - low:.2f}",
                "" if ratio is None or begin <= ratio <= end else "left" if ratio < begin else "right",
            )
        )
    return tuple(rows), f"{place(0.0):.2f}"


def _signed(ratio: float) -> str:
    return f"{'+' if ratio > 0 else ''}{format_ratio(ratio)}"


def _amount(value: int, unit: Unit) -> str:
    return sentence_span(value) if unit is Unit.NS else format_bytes(value)


# Waterfall


@dataclass(frozen=True, slots=True)
class CellPlace:
    """The place of a table in links: its view, its number in it, and its rows by name."""

    view: str
    number: int
    rows: dict[str, int]
    columns: frozenset[str]


def _cells_of(report: Report) -> dict[str, CellPlace]:
    """Return the tables of a report by name, with the places that links have for their rows."""
    places: dict[str, CellPlace] = {}
    count: dict[str, int] = {}
    for section in report.sections:
        for table in section.tables:
            count[section.view] = count.get(section.view, 0) + 1
            named = next((column.values for column in table.columns if column.name in ("name", "part")), ())
            rows = {str(value): row for row, value in reversed(list(enumerate(named, 1)))}
            columns = frozenset(column.name for column in table.columns)
            places.setdefault(table.name, CellPlace(section.view, count[section.view], rows, columns))
    return places


def _link_of(part: PartOfChange, tables: Sequence[str], cells: dict[str, CellPlace]) -> str:
    """Return the link to the row of a part in the first table that has it, "" for none."""
    for table in tables:
        place = cells.get(table)
        row = place.rows.get(part.row or part.label, 0) if place is not None else 0
        if place is not None and row:
            column = f"&column={part.column}" if part.column in place.columns else ""
            return f"#view={place.view}&table={place.number}&row={row}{column}"
    return ""


def _labels_of(parts: Sequence[PartOfChange]) -> list[str]:
    """Return the labels of parts: short where they are long, and each another."""
    names = [shown_name(part.label) for part in parts]
    # A remark beside a label takes of its room.
    rooms = [_LABEL - len(_remark_of(part)) if _remark_of(part) else _LABEL for part in parts]
    labels = [_short_label(name, room) for name, room in zip(names, rooms, strict=True)]
    return labels if len(set(labels)) == len(set(names)) else short_names(names, min(rooms, default=_LABEL))


def _short_label(name: str, room: int) -> str:
    """Return a label that fits; a path keeps its end, which tells the modules of a model apart.

    >>> _short_label("DistributedDataParallel_0/GPT_0/Block_3/Linear_1", 32)
    '…/GPT_0/Block_3/Linear_1'
    """
    if cell_width(name) > room and "/" in name and not name.startswith("("):
        ends = [f"…{name[place:]}" for place, letter in enumerate(name) if letter == "/"]
        fitting = next((end for end in ends if cell_width(end) <= room), "")
        if fitting:
            return fitting
    return short_names([name], room)[0]


def _is_said(part: PartOfChange) -> bool:
    """Return whether a part has one reason, which is said beside its label; two are bars of their own."""
    return len(part.names) == 2 and part.names[0].how == UNCHANGED


def _remark_of(part: PartOfChange) -> str:
    """Return what is said beside a label: the one reason of its change, or the side that it is on alone."""
    reason = part.names[-1].label if _is_said(part) else ""
    return reason or _ONLY_IN.get(part.how, "")


def _waterfall_box(figure: Waterfall, options: RenderOptions, cells: dict[str, CellPlace]) -> WaterfallBox:
    differences = [part.difference for part in figure.parts]
    unit = typical_time_unit([figure.base, figure.new, *differences], options.time_unit)
    moved = sum(map(abs, differences))
    # The base that stays is the line that the bars begin at.
    parts = [part for part in figure.parts if part.how != UNCHANGED]
    small = [part for part in parts if abs(part.difference) <= _HARDLY * moved]
    large = [part for part in parts if abs(part.difference) > _HARDLY * moved]
    if len(small) > 1:
        label = f"{len(small):,} parts that hardly changed"
        base, new = sum(part.base for part in small), sum(part.new for part in small)
        how = REASON if all(part.how == REASON for part in small) else ""
        large.append(PartOfChange(label, base, new, how, tuple(small)))
    else:
        large += small
    sums = [figure.base, figure.new, *_sums(figure.base, large)]
    begin, end = min(sums), max(sums)
    # A change that nobody would notice must not fill the picture.
    narrow = max(int(_LEAST_SHOWN * max(figure.base, figure.new)) - (end - begin), 0)
    begin, end = begin - narrow // 2, end + narrow // 2
    room = max(end - begin, 1)
    begin, end = begin - room // 20 - 1, end + room // 20 + 1

    def place(ns: int) -> float:
        return 100 * (ns - begin) / (end - begin)

    def link(part: PartOfChange) -> str:
        return _link_of(part, figure.tables, cells)

    rows, at = [], figure.base
    for part, label in zip(large, _labels_of(large), strict=True):
        rows.append(_bar_of(part, label, at, place, link, unit))
        at += part.difference
    ends = [(f"{place(ns):.3f}", rounded(ns, unit), f"{ns:,} ns") for ns in (figure.base, figure.new)]
    words = "; ".join(f"{each.label} {each.text} {unit}" for each in rows)
    return WaterfallBox(
        figure.title,
        figure.what,
        unit,
        ends[0],
        ends[1],
        tuple(rows),
        f"From BASE {ends[0][1]} {unit} to NEW {ends[1][1]} {unit}: {words}",
    )


def _bar_of(
    part: PartOfChange,
    label: str,
    before: int,
    place: Callable[[int], float],
    link: Callable[[PartOfChange], str],
    unit: str,
) -> WaterfallRow:
    """Return the bar of a part, and below it those of its names. before: the sum that the bar begins at."""
    names = [name for name in part.names if name.how != UNCHANGED]
    rows, at = [], before
    for name, short in zip(names, _labels_of(names), strict=True):
        rows.append(_bar_of(name, short, at, place, link, unit))
        at += name.difference
    difference, after = part.difference, before + part.difference
    exact = f"{difference:+,} ns" if part.how == REASON else f"{part.base:,} ns → {part.new:,} ns, {difference:+,} ns"
    return WaterfallRow(
        label,
        shown_name(part.label),
        link(part),
        _remark_of(part),
        _WORSE if difference > 0 else _BETTER if difference < 0 else _SAME,
        f"{place(min(before, after)):.3f}",
        f"{place(max(before, after)) - place(min(before, after)):.3f}",
        f"{'+' if difference > 0 else ''}{rounded(difference, unit)}",
        exact,
        () if _is_said(part) else tuple(rows),
    )


def _sums(at: int, parts: Sequence[PartOfChange]) -> Iterator[int]:
    """Yield the sum after each part and after each of its names, from the sum before them on."""
    for part in parts:
        yield from _sums(at, part.names)
        at += part.difference
        yield at


# Tables of names, in which most rows are the same on both sides.


def folded(table: ReportTable, html: str) -> str:
    """Return a table that unfolds: one of names under a line that counts what changed, or one of the first screen."""
    if table.name in _SHOWN_ABOVE:
        return _details("as a table", html)
    columns = {column.name: column.values for column in table.columns}
    if "match" not in columns or "difference" not in columns:
        return html
    differences, matches = columns["difference"], columns["match"]
    counts = [
        plural(len(differences), "row"),
        f"{sum(bool(each) for each in differences):,} with a difference",
        *(
            f"{count:,} {words}"
            for how, words in (("new", "only in NEW"), ("gone", "only in BASE"))
            if (count := sum(each == how for each in matches))
        ),
    ]
    return _details(", ".join(counts), html)


_SHOWN_ABOVE = ("verdict", "change_parts", "change_reasons")


def _details(summary: str, html: str) -> str:
    return f'<details class="fold"><summary>{summary}</summary>\n{html}\n</details>'

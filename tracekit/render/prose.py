"""Sentences that the renderers for people share: a figure in words, a finding."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tracekit.lazy_pattern import lazy_pattern
from tracekit.model.change import REASON, UNCHANGED, ChangeIntervals, ChangeVerdict, PartOfChange, Waterfall
from tracekit.model.display import escape_controls, plural
from tracekit.model.report import (
    Bar,
    Cell,
    Curve,
    Evidence,
    Figure,
    Finding,
    Flame,
    Heat,
    Picture,
    ReportTable,
    Section,
    Series,
)
from tracekit.model.timeline import CriticalPath
from tracekit.model.units import (
    Unit,
    format_bytes,
    format_rate,
    format_ratio,
    format_span,
    sentence_span,
    split_quantity,
    to_ns,
)
from tracekit.render.figures import series_lines

__all__ = [
    "evidence_text",
    "fact_text",
    "figure_lines",
    "finding_lines",
    "finding_title",
    "levels",
    "nothing_to_show",
    "omitted_line",
    "short_notes",
]

_COUNT = lazy_pattern(r"(?<![\w.])[0-9][0-9,]* ", re.ASCII)
_NEEDS = ("needs ", "No findings: ")
NAMED = 2
"""Views with nothing to show that each get a line; more of them share one line, unless they say more than a need."""


def fact_text(key: str, text: str) -> str:
    """Return a fact of a report for a person: a span with four digits.

    >>> fact_text("span", "395.141681 ms"), fact_text("tool", "nvprof")
    ('395.1 ms', 'nvprof')
    """
    if key != "span":
        return text
    try:
        return sentence_span(to_ns(*split_quantity(text)))
    except ValueError:  # a span of several clocks is a sentence
        return text


def nothing_to_show(sections: Sequence[Section]) -> tuple[list[Section], str]:
    """Return the sections without tables and figures that keep their own notes, and a line that names the others.

    A section keeps its notes if they count something beyond what the view needs (such as rows without a duration), if
    no section has a result, or if few sections are without one.
    """
    empty = [s for s in sections if not (s.tables or s.figures)]
    plain = [s for s in empty if not s.notes or (s.notes[0].startswith(_NEEDS) and not _counts(s.notes[1:]))]
    if len(plain) <= NAMED or len(empty) == len(sections):
        return empty, ""
    names = ", ".join(f"{s.title} ({s.view})" for s in plain)
    gathered = {id(s) for s in plain}
    return [s for s in empty if id(s) not in gathered], f"nothing to show: {names}; --view NAME shows what each needs"


_REASON = lazy_pattern(r" \((?:[^()]|\([^()]*\))*\)")
"""The reason in parentheses behind the name of a rule that could not look."""


def short_notes(section: Section) -> list[str]:
    """Return the notes of a section among others: the rules that could not look are one line."""
    shown = []
    for note in section.notes:
        head, mark, rules = note.partition("not checked: ")
        if section.view == "findings" and mark and not head:
            names = [name for name in re.split("[;,]", _REASON.sub("", rules)) if name.strip()]
            shown.append(f"not checked: {plural(len(names), 'rule')}; --view findings has the names and the reasons")
        else:
            shown.append(note)
    return shown


def _counts(notes: Sequence[str]) -> bool:
    return any(_COUNT.search(note) for note in notes)


def levels(table: ReportTable) -> list[int]:
    """Return the indentation of each row's name: with a column "level", rows belong to the row above them."""
    for column in table.columns:
        if column.name == "level" and column.unit is Unit.COUNT:
            return [value if isinstance(value, int) and 0 <= value <= 8 else 0 for value in column.values]
    return [0] * len(table)


def omitted_line(table: ReportTable) -> str:
    """Return the number of rows that were cut as a sentence, "" for none."""
    if not table.omitted:
        return ""
    counted = "; ratios include them" if any(c.unit is Unit.RATIO for c in table.columns) else ""
    return f"{plural(table.omitted, 'more row')} not shown{counted}"


def figure_lines(figure: Figure) -> list[str]:
    """Return a figure in words: the parts of a bar, the size of a timeline or a series; tables have the rest."""
    if isinstance(figure, (CriticalPath, Picture, ChangeVerdict, ChangeIntervals)):
        return []
    if isinstance(figure, Waterfall):
        return change_lines(figure) if figure.spoken else []
    if isinstance(figure, Series):
        return series_lines(figure)
    if isinstance(figure, Bar):
        whole = sum(value for _, value in figure.parts)
        shares = [f" ({format_ratio(value / whole)} %)" if whole else "" for _, value in figure.parts]
        parts = [
            f"{escape_controls(label)}: {_amount(value, figure.unit)}{share}"
            for (label, value), share in zip(figure.parts, shares, strict=True)
        ]
        return [escape_controls(figure.title), *parts]
    more = figure.left_out if isinstance(figure, Flame) else figure.remark if isinstance(figure, (Heat, Curve)) else ""
    return [f"{figure!r}: drawn in the html report", *([escape_controls(more)] if more else [])]


_PARTS_SAID = 8


def change_lines(figure: Waterfall) -> list[str]:
    """Return a change in words: the whole with its reasons in one line, or a line for each part that changed most."""
    parts = [part for part in figure.parts if part.how != UNCHANGED and part.difference]
    if not parts:
        return []
    if all(part.how == REASON for part in parts):
        ends = f"{sentence_span(figure.base)} -> {sentence_span(figure.new)}"
        return [f"{ends}: {', '.join(map(_signed, parts))}"]
    lines = []
    for part in parts[:_PARTS_SAID]:
        reasons = [reason for reason in part.names if reason.how == REASON]
        # One reason has the amount of the whole.
        said = reasons[0].label if len(reasons) == 1 else ", ".join(map(_signed, reasons))
        lines.append(f"{_signed(part)}: {said}" if said else _signed(part))
    if len(parts) > _PARTS_SAID:
        lines.append(f"{plural(len(parts) - _PARTS_SAID, 'more row')} below")
    return lines


def _signed(part: PartOfChange) -> str:
    sign = "+" if part.difference > 0 else ""
    return f"{escape_controls(part.label)} {sign}{sentence_span(part.difference)}"


def finding_title(finding: Finding) -> str:
    """Return rule, owner and claim of a finding: "data loading (rank 1): ..."."""
    owner = f" ({escape_controls(finding.who)})" if finding.who else ""
    return f"{finding.rule}{owner}: {escape_controls(finding.claim)}"


def finding_lines(finding: Finding) -> list[tuple[str, str]]:
    """Return the lines below a finding's title: (word, text)."""
    share = format_ratio(finding.share) if math.isfinite(finding.share) else "-"
    of = f" of {sentence_span(finding.window_ns)}" if finding.window_ns else ""
    lines = [
        (
            "could save",
            f"up to {sentence_span(finding.saving_ns)} ({share} %{of})" if finding.saving_ns else "nothing by itself",
        ),
        ("confidence", f"{finding.confidence}: {escape_controls(finding.because)}"),
    ]
    if finding.part_of:
        lines.append(("part of", f"{escape_controls(finding.part_of)}: see there first"))
    if finding.evidence:
        lines.append(("evidence", "; ".join(map(evidence_text, finding.evidence))))
    if finding.events:
        lines.append(("first events", ", ".join(map(str, finding.events))))
    return [*lines, ("fix", escape_controls(finding.advice)), ("check", escape_controls(finding.check))]


def evidence_text(each: Evidence) -> str:
    """Return a cell that a finding rests on, with its value."""
    return f"{escape_controls(each.cell)} = {_value(each.value, each.unit)}"


def _value(value: Cell, unit: Unit) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, str) or unit in (Unit.TEXT, Unit.ID):
        return escape_controls(str(value))
    if unit is Unit.RATIO:
        return f"{format_ratio(value)} %"
    if unit is Unit.BYTES_PER_S:
        return format_rate(value)
    return _amount(value, unit) if isinstance(value, int) else f"{value:,}"


def _amount(value: int, unit: Unit) -> str:
    if unit is Unit.NS:
        return format_span(value)
    return format_bytes(value) if unit is Unit.BYTES else f"{value:,}"

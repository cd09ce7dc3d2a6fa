"""markdown: pipe tables (GitHub's), for an issue or a merge request.

Names are code, so that none of their characters is a mark or a tag; all other text of the trace is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracekit.model.display import UNKNOWN, escape_controls
from tracekit.model.ledger_lines import ledger_lines
from tracekit.model.report import Report, ReportTable, Section
from tracekit.render import cells as _cells
from tracekit.render import prose
from tracekit.render.base import Renderer, RenderOptions
from tracekit.render.cells import ShownCell

__all__ = ["RENDERER", "code", "plain"]

_MARKS = re.compile(r"[\\`*_\[\]<>|&~#$]")
_LIST_MARK = re.compile(r"^([+-](?=[\s-]|$)|\d+[.)](?=\s|$))")
_CODE_BREAKS = re.compile(r"`|\\\||\\$")


def render(report: Report, options: RenderOptions) -> str:
    """Return the report as markdown. Raises: UsageError for an unknown unit of time."""
    lines = [line for text in report.incomplete for line in (f"**{plain(text)}**", "")]
    lines += [f"# {plain(report.title)}", ""]
    lines += [f"- {plain(key)}: {plain(text)}" for key, text in report.facts]
    telling, names = prose.nothing_to_show(report.sections)
    own = {id(section) for section in telling}
    for section in report.sections:
        if section.tables or section.figures or id(section) in own:
            lines += ["", f"## {plain(section.title)}", *_section(section, options)]
    if names:
        lines += ["", plain(f"{names[:1].upper()}{names[1:]}.")]
    footer = [*report.notes, *ledger_lines(report.ledgers)]
    if footer:
        lines += ["", "---", "", *(f"- {plain(note)}" for note in footer)]
    return "\n".join(lines) + "\n"


def _section(section: Section, options: RenderOptions) -> Iterator[str]:
    for table in section.tables:
        if table.title != section.title:
            yield from ("", f"### {plain(table.title)}")
        yield from ("", *_table(table, options))
    for finding in section.findings:
        yield from ("", f"**{plain(prose.finding_title(finding))}**", "")
        yield from (f"- {word}: {plain(text)}" for word, text in prose.finding_lines(finding))
    notes = [line for figure in section.figures for line in prose.figure_lines(figure)]
    notes += [line for table in section.tables if (line := prose.omitted_line(table))]
    notes += section.notes
    if notes:
        yield from ("", *(f"- {plain(note)}" for note in notes))


def _table(table: ReportTable, options: RenderOptions) -> Iterator[str]:
    columns = _cells.shown_columns(table, options.time_unit)
    yield _row([plain(column.title) for column in columns])
    yield _row(["---:" if column.right else "---" for column in columns])
    texts = [_texts(column) for column in columns]
    for row in zip(*texts, strict=True):
        yield _row(list(row))


def _texts(column: ShownCell) -> list[str]:
    if not column.is_text:
        return column.texts
    return [text if text == UNKNOWN else code(text) for text in column.texts]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def plain(text: str) -> str:
    """Return text that reads as written: every mark, tag and entity escaped, in one line."""
    marked = _MARKS.sub(r"\\\g<0>", escape_controls(text)).strip()
    return _LIST_MARK.sub(lambda match: f"{match[0][:-1]}\\{match[0][-1]}", marked)


def code(text: str) -> str:
    """Return a text as code in a cell of a table. Pipes are escaped; text that a code span cannot hold becomes <code>.

    A backslash before a pipe or at the end would remove the cell's border in some viewers, and backticks end a span:
    such a text is written in character references, which every viewer shows as the characters.
    """
    text = escape_controls(text)
    if not text.strip() or text != text.strip() or _CODE_BREAKS.search(text):
        references = "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in text)
        return f"<code>{references}</code>"
    escaped = text.replace("|", "\\|")
    return f"`{escaped}`"


RENDERER = Renderer(name="markdown", suffixes=(".md", ".markdown"), render=render)

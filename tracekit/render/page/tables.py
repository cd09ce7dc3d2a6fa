"""Tables of a page: their first rows as HTML, for print and for pages without JavaScript.

tables.js shows all rows from the data of the page (`data.py`), in the same form: units and titles stay as written here.
Cells are written here and not by a template, which costs ten times as much.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from tracekit.model.display import cell_texts, escaped, is_words, plural, shown_name, typical_time_unit
from tracekit.model.report import Cell, Column, Evidence, Report, ReportTable
from tracekit.model.units import Unit
from tracekit.render.cells import columns_to_scale
from tracekit.render.page.data import PROSE
from tracekit.render.prose import levels

__all__ = ["FIRST_ROWS", "cell_link", "table_html"]

FIRST_ROWS = 10
"""Rows of a table that are in the page as HTML."""
MOST_COLUMNS = 10
"""Columns of these rows that are in the page as HTML, where the others may be hidden."""
PAPER = 700
"""CSS pixels between the margins of A4. Columns that do not fit are not in the page as HTML, and not printed."""
_LETTER, _MONO, _PADDING = 6.0, 5.0, 9
_NAME_LETTERS, _TEXT_LETTERS = 40, 24
_INDENT = 14


def table_html(table: ReportTable, view: str, place: str, time_unit: str = "") -> str:
    """Return a table as HTML with its first rows. place: "SECTION.TABLE", numbers in the report's order.

    Raises: UsageError for an unknown unit of time.
    """
    named = next((i for i, c in enumerate(table.columns) if c.unit is Unit.TEXT), -1)
    units = [
        _unit(column, scale, time_unit) for column, scale in zip(table.columns, columns_to_scale(table), strict=True)
    ]
    texts = [
        cell_texts(column.values[:FIRST_ROWS], column.unit, unit)
        for column, unit in zip(table.columns, units, strict=True)
    ]
    for column, cells in zip(table.columns, texts, strict=True):
        if is_words(column.values, column.unit):
            is_name = column.name == "name" or (named >= 0 and column is table.columns[named])
            cells[:] = [shown_name(text) if text or is_name else text for text in cells]
    hidden = _hidden(table.columns, texts, units, named)
    heads = "".join(_head(column, unit, i in hidden) for i, (column, unit) in enumerate(zip(table.columns, units)))
    columns = [
        _row_heads(cells, levels(table)) if i == named else _cells(column, cells)
        for i, (column, cells) in enumerate(zip(table.columns, texts, strict=True))
        if i not in hidden
    ]
    rows = "".join(f"<tr>{''.join(row)}</tr>\n" for row in zip(*columns, strict=True))
    note = _note(table, view, len(hidden))
    return (
        f'<div class="sheet" data-table="{place}">\n'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(table.title)}"><table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
        f"{note}</div>"
    )


def cell_link(report: Report, evidence: Evidence) -> str:
    """Return the link within the page to the cell that a finding rests on, "" where the page does not show it."""
    view, _, rest = evidence.cell.partition(".")
    row, _, name = rest.rpartition(".")
    for section in report.sections:
        if section.view != view:
            continue
        for number, table in enumerate(section.tables, 1):
            values = next((column.values for column in table.columns if column.name == name), ())
            found = [i for i, value in enumerate(values) if value == evidence.value]
            exact = [i for i in found if any(column.values[i] == row for column in table.columns)]
            if exact or len(found) == 1:
                which = f"&table={number}" if number > 1 else ""
                return f"#view={view}{which}&row={(exact or found)[0] + 1}&column={name}"
    return ""


def _hidden(columns: Sequence[Column], texts: Sequence[Sequence[str]], units: Sequence[str], named: int) -> set[int]:
    """Return the places of the columns that need JavaScript: as in text, those of the highest priority number first.

    named: the column that names the rows. It is there always, and one other at least.
    """
    widths = [_width(*each, is_name=i == named) for i, each in enumerate(zip(columns, texts, units, strict=True))]
    able = sorted((i for i in range(len(columns)) if i != named), key=lambda i: (columns[i].priority, i))
    room = sum(widths)
    hidden: set[int] = set()
    while able[1:]:
        last = able.pop()
        if room <= PAPER and (len(columns) - len(hidden) <= MOST_COLUMNS or not columns[last].priority):
            break
        hidden.add(last)
        room -= widths[last]
    return hidden


def _width(column: Column, texts: Sequence[str], unit: str, *, is_name: bool) -> float:
    """Return the least width of a column on paper; words are wrapped, and so are titles."""
    letters = max(map(len, texts), default=1)
    if is_words(column.values, column.unit):
        return min(letters, _NAME_LETTERS if is_name else _TEXT_LETTERS) * _MONO + _PADDING
    return max(letters, *map(len, column.title.split()), len(unit)) * _LETTER + _PADDING


def _note(table: ReportTable, view: str, hidden: int) -> str:
    """Return what is not shown: rows that were cut before, and rows and columns that need JavaScript."""
    whole = len(table) + table.omitted
    lines = []
    if table.omitted:
        lines.append(f'<p class="note">the first {len(table):,} of {whole:,} rows; ratios are of all rows</p>\n')
    absent = []
    if len(table) > FIRST_ROWS:
        absent.append(f"the first {FIRST_ROWS} of {plural(len(table), 'row')}")
    if hidden:
        absent.append(f"{len(table.columns) - hidden} of {plural(len(table.columns), 'column')}")
    if absent:
        form = " --format csv" if hidden else ""
        lines.append(
            f'<p class="note first-rows">{" and ".join(absent)}; all with JavaScript or '
            f"<code>tracekit summary --view {escaped(view)}{form}</code></p>\n"
        )
    return "".join(lines)


def _unit(column: Column, scale: Sequence[Cell], wanted: str) -> str:
    """Return the unit of a column's cells, "" for none. Times: the unit in which the first digits of most differ.

    scale: the times that choose it.
    """
    if column.unit is Unit.RATIO:
        return "%"
    if column.unit is not Unit.NS:
        return ""
    return typical_time_unit(scale, wanted)


def _head(column: Column, unit: str, hidden: bool) -> str:
    words = ' class="t"' if is_words(column.values, column.unit) else ""
    small = f" <small>{unit}</small>" if unit else ""
    return f"<th{words}{' hidden' if hidden else ''}>{escaped(column.title)}{small}</th>"


def _cells(column: Column, shown: Sequence[str]) -> list[str]:
    texts = map(html.escape, shown)
    if column.unit is Unit.RATIO:
        return list(map(_ratio, column.values[:FIRST_ROWS], texts))
    mark = ' class="t"' if is_words(column.values, column.unit) else ""
    if column.name in PROSE:
        mark = ' class="t prose"'
    return [f"<td{mark}>{text}</td>" for text in texts]


def _row_heads(shown: Sequence[str], steps: Sequence[int]) -> list[str]:
    texts = map(html.escape, shown)
    indents = (f' style="padding-left:{6 + _INDENT * step}px"' if step else "" for step in steps)
    return [f'<th scope="row" class="t"{indent}>{text}</th>' for text, indent in zip(texts, indents, strict=False)]


def _ratio(value: Cell, text: str) -> str:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return f"<td>{text}</td>"
    width = min(max(100 * float(value), 0.0), 100.0)
    return f'<td class="r"><i style="width:{width:.4g}%"></i>{text}</td>'

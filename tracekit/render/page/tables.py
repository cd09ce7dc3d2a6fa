"""Tables of a page: their first rows as HTML, for print and for pages without JavaScript.

tables.js shows all rows from the data of the page (`data.py`), in the same form. Cells are written here and not by a
template, which costs ten times as much; end tags that HTML does not need are left out, for a page has many cells.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeGuard

import numpy as np

from tracekit.lazy_dataclass import dataclass
from tracekit.model.cells import whole_numbers
from tracekit.model.display import UNKNOWN, cell_texts, escaped, is_words, plural, shown_name, typical_time_unit
from tracekit.model.report import Cell, Column, Evidence, Report, ReportTable
from tracekit.model.units import TIME_EXPONENT, Unit, four_digits, four_digits_of
from tracekit.render.page.data import PROSE
from tracekit.render.prose import levels

__all__ = ["FIRST_ROWS", "LongNames", "cell_link", "main_time", "table_html", "time_unit"]

FIRST_ROWS = 10
"""Rows of a table that are in the page as HTML."""
MOST_COLUMNS = 10
"""Columns of these rows that are in the page as HTML, where the others may be hidden."""
POINTS = ("start", "at")
"""Columns of times that are no durations."""
PAPER = 700
"""CSS pixels between the margins of A4. Columns that do not fit are not in the page as HTML, and not printed."""
_LETTER, _MONO, _PADDING = 6.0, 5.0, 9
_NAME_LETTERS, _TEXT_LETTERS = 40, 24
_INDENT = 14
_DIGIT, _POINT = "\u2007", "\u2008"
"""Blanks as wide as a digit and as a point."""
_MOST_UNITS = 10**5
_LEAST = -(1 << 63)
"""Its size is beyond int64."""


def time_unit(table: ReportTable, wanted: str = "") -> str:
    """Return the one unit of all times of a table: the first digits of most of them differ, and none has six digits.

    Raises: UsageError where the wanted one is not a unit of time.
    """
    times = [column for column in table.columns if column.unit is Unit.NS]
    lengths = [column for column in times if column.name not in POINTS]
    ends = _middle_and_largest([column.values for column in lengths or times])
    unit = typical_time_unit([*ends[:1], *ends], wanted)  # it asks for the middle one and the largest
    while not wanted and unit != "s" and ends and ends[1] >= _MOST_UNITS * 10 ** TIME_EXPONENT[unit]:
        larger = "ms" if unit == "us" else "s"
        if ends[0] < 10 ** TIME_EXPONENT[larger] // 1000:
            break  # most would begin with 0.000
        unit = larger
    return unit


def _middle_and_largest(columns: Sequence[Sequence[Cell]]) -> tuple[int, int] | tuple[()]:
    """Return the middle and the largest size of all cells that are known and not 0; () for none."""
    found = [whole_numbers(cells) for cells in columns]
    parts = [each[0] for each in found if each is not None]  # an unknown one is 0 there
    if len(parts) < len(columns) or any(part.size and int(part.min()) == _LEAST for part in parts):
        sizes = sorted(map(abs, map(int, [value for cells in columns for value in cells if value])))
        return (sizes[len(sizes) // 2], sizes[-1]) if sizes else ()
    whole = np.abs(np.concatenate([np.zeros(0, np.int64), *parts]))
    whole = whole[whole > 0]
    place = whole.size // 2
    return (int(np.partition(whole, place)[place]), int(whole.max())) if whole.size else ()


@dataclass(slots=True)
class LongNames:
    """The long names of a page: whole where one comes first, short in the tables after that. short: name -> text."""

    short: Mapping[str, str] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)

    def text(self, value: Cell, text: str) -> str:
        """Return the text of a cell."""
        return self.short.get(value, text) if isinstance(value, str) and value in self.whole else text

    def add(self, column: Column) -> None:
        """Keep in mind that the page has the first cells of a column."""
        self.whole.update(value for value in column.values[:FIRST_ROWS] if isinstance(value, str))


def table_html(
    table: ReportTable,
    view: str,
    place: str,
    wanted: str = "",
    names: LongNames | None = None,
    groups: Sequence[str] = (),
) -> str:
    """Return a table as HTML with its first rows. place: "SECTION.TABLE", numbers in the report's order.

    wanted: the unit of time, "" for the one that suits. groups: the class of each row, which its filter knows. Raises:
    UsageError for an unknown unit of time.
    """
    names = names or LongNames()
    named = next((i for i, c in enumerate(table.columns) if c.unit is Unit.TEXT), -1)
    unit = time_unit(table, wanted)
    texts = [_texts(column, unit, names) for column in table.columns]
    for i, (column, cells) in enumerate(zip(table.columns, texts, strict=True)):
        if is_words(column.values, column.unit):
            cells[:] = [shown_name(text) if text or column.name == "name" or i == named else text for text in cells]
    hidden = _hidden(table.columns, texts, unit, named)
    shown = [i for i in range(len(table.columns)) if i not in hidden]
    for i in shown:
        names.add(table.columns[i])
    heads = "".join(_head(table.columns[i], unit) for i in shown)
    bars = main_time(table)
    columns = [
        _row_heads(texts[i], levels(table)) if i == named else _cells(table.columns[i], texts[i], with_bars=i == bars)
        for i in shown
    ]
    rows = "".join(f"<tr>{''.join(row)}" for row in zip(*columns, strict=True))
    left_out = f" data-off={','.join(map(str, hidden))}" if hidden else ""
    if not any(table.columns[i].unit is Unit.NS for i in shown) and any(c.unit is Unit.NS for c in table.columns):
        left_out += f" data-time={unit}"
    left_out += _classes(groups)
    return (
        f'<div class=sheet data-table={place}{left_out}><div class=scroll tabindex=0 role=region aria-label="'
        f'{escaped(table.title)}"><table><thead><tr>{heads}<tbody>{rows}</table></div>{_note(table, view, len(hidden))}'
        "</div>"
    )


_CODES = "0123456789abcdefghijklmnopqrstuvwxyz"


def _classes(groups: Sequence[str]) -> str:
    """Return the classes of the rows for the scripts: their words, and a digit a row; "" for fewer than two classes."""
    words = list(dict.fromkeys(groups))
    if not 2 <= len(words) <= len(_CODES):
        return ""
    return f' data-classes="{escaped(",".join(words))};{"".join(_CODES[words.index(each)] for each in groups)}"'


def main_time(table: ReportTable) -> int:
    """Return the place of the column that a reader compares first: the total, else the first duration; -1 for none.

    Where a table puts device time before the total on the host, it is the device total.
    """
    times = [i for i, each in enumerate(table.columns) if each.unit is Unit.NS and each.name not in POINTS]
    named = {table.columns[i].name: i for i in times}
    total, device = named.get("total", -1), named.get("device_total", -1)
    if total >= 0 and device >= 0 and table.columns[device].priority < table.columns[total].priority:
        return device
    return total if total >= 0 else times[0] if times else -1


def _texts(column: Column, unit: str, names: LongNames) -> list[str]:
    values = column.values[:FIRST_ROWS]
    if column.unit is Unit.NS:
        return [UNKNOWN if value is None else four_digits(int(value), unit) for value in values]
    if column.unit is Unit.NUMBER:
        return [four_digits_of(value) if _is_finite(value) else UNKNOWN for value in values]
    texts = cell_texts(values, column.unit, unit)
    return [names.text(value, text) for value, text in zip(values, texts, strict=True)]


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


def _hidden(columns: Sequence[Column], texts: Sequence[Sequence[str]], unit: str, named: int) -> list[int]:
    """Return the places of the columns that need JavaScript: as in text, those of the highest priority number first.

    In this order the scripts hide them too, where a screen has no room.

    named: the column that names the rows. It is there always, and one other at least.
    """
    widths = [_width(*each, unit, is_name=i == named) for i, each in enumerate(zip(columns, texts, strict=True))]
    able = sorted((i for i in range(len(columns)) if i != named), key=lambda i: (columns[i].priority, i))
    room = sum(widths)
    hidden: list[int] = []
    while able[1:]:
        last = able.pop()
        if room <= PAPER and (len(columns) - len(hidden) <= MOST_COLUMNS or not columns[last].priority):
            break
        hidden.append(last)
        room -= widths[last]
    return hidden


def _width(column: Column, texts: Sequence[str], unit: str, *, is_name: bool) -> float:
    """Return the least width of a column on paper; words are wrapped, and so are titles."""
    letters = max(map(len, texts), default=1)
    if is_words(column.values, column.unit):
        return min(letters, _NAME_LETTERS if is_name else _TEXT_LETTERS) * _MONO + _PADDING
    return max(letters, *map(len, column.title.split()), len(_unit(column, unit))) * _LETTER + _PADDING


def _note(table: ReportTable, view: str, hidden: int) -> str:
    """Return what is not shown: rows that were cut before, and rows and columns that need JavaScript."""
    whole = len(table) + table.omitted
    lines = []
    if table.omitted:
        lines.append(f"<p class=note>the first {len(table):,} of {whole:,} rows; ratios are of all rows</p>")
    absent = []
    if len(table) > FIRST_ROWS:
        absent.append(f"the first {FIRST_ROWS} of {plural(len(table), 'row')}")
    if hidden:
        absent.append(f"{len(table.columns) - hidden} of {plural(len(table.columns), 'column')}")
    if absent:
        lines.append(f"<p class=more>{' and '.join(absent)} (--view {escaped(view)})</p>")
    return "".join(lines)


def _unit(column: Column, unit: str) -> str:
    """Return the unit of a column's cells, "" for none. unit: of times."""
    return {Unit.RATIO: "%", Unit.NS: unit}.get(column.unit, "")


def _head(column: Column, unit: str) -> str:
    words = " class=t" if is_words(column.values, column.unit) else ""
    unit = f" {shown}" if (shown := _unit(column, unit)) else ""
    return f"<th{words}>{escaped(column.title)}{unit}"


def _cells(column: Column, shown: Sequence[str], *, with_bars: bool) -> list[str]:
    texts = [html.escape(text, quote=False) for text in shown]
    if column.name in PROSE:
        return [f'<td class="t prose">{text}' for text in texts]
    if is_words(column.values, column.unit):
        return [f"<td class=t>{text}" for text in texts]
    if column.unit in (Unit.NS, Unit.NUMBER):
        texts = _aligned(texts)
    whole = 1.0 if column.unit is Unit.RATIO else _largest(column.values) if with_bars else 0.0
    return [_with_bar(_size(value), whole, text) for value, text in zip(column.values, texts, strict=False)]


def _aligned(texts: Sequence[str]) -> list[str]:
    """Return numbers with blanks as wide as digits behind them, so that their points are below each other."""
    plain = [text != UNKNOWN and "e" not in text for text in texts]
    tails = [len(text) - text.find(".") if is_plain and "." in text else 0 for is_plain, text in zip(plain, texts)]
    most = max(tails, default=0)
    blanks = [_DIGIT * (most - tail) if tail else _POINT + _DIGIT * (most - 1) if most else "" for tail in tails]
    return [text + blank if is_plain else text for is_plain, text, blank in zip(plain, texts, blanks, strict=True)]


def _row_heads(shown: Sequence[str], steps: Sequence[int]) -> list[str]:
    texts = (html.escape(text, quote=False) for text in shown)
    indents = (f" style=padding-left:{6 + _INDENT * step}px" if step else "" for step in steps)
    return [f"<th{indent}>{text}" for text, indent in zip(texts, indents, strict=False)]


def _largest(values: Sequence[Cell]) -> float:
    """Return the largest size of a cell, 0 for none."""
    if (numbers := whole_numbers(values)) is not None:
        return float(max(int(numbers[0].max(initial=0)), 0))
    return float(max(map(_size, values), default=0))


def _size(value: Cell) -> float:
    return max(float(value), 0.0) if _is_finite(value) else 0.0


def _is_finite(value: Cell) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _with_bar(size: float, whole: float, text: str) -> str:
    """Return a cell with a bar behind its number, in percent of the whole; 0: nothing to see."""
    percent = round(min(100 * size / whole, 100.0)) if whole else 0
    return f"<td style=--w:{percent}>{text}" if percent else f"<td>{text}"

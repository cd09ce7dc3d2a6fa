"""The parts that all pictures share: frame, axes, bars, texts, and the cells of their tables.

Widths are percentages and heights pixels, so that texts keep their size on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escaped, shown_name
from tracekit.model.picture import Picture
from tracekit.model.report import Cell, Column, ReportTable
from tracekit.model.units import Unit, format_bytes, format_ratio
from tracekit.render.axes import Axis, linear
from tracekit.render.figures import amount
from tracekit.render.palette import color_of

HEIGHT = 120
"""Pixels of a plot."""
ROOM = 18
"""Pixels for the labels below a plot."""
NAME = 40
"""Characters of a name."""
_LABELS = 6
_MEANT = {"exposed comm": "exposed communication", "overlap": "compute"}
"""Words of tables, and the word of the palette that means the same, or what hides the communication."""
WORDS = {Unit.NS: " ns", Unit.BYTES: " bytes"}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar, or one layer of a stack: its words and its colour."""

    words: str
    color: str


def part(words: str, place: int) -> Part:
    """Return a part with the colour of its words, or of its place."""
    return Part(words, color_of(_MEANT.get(words, words), place))


_SVG = frozenset({"svg", "g", "path", "rect", "line", "circle", "text", "title"})


def tag(name: str, inside: str = "", **attributes: object) -> str:
    """Return an element; what is inside is HTML already. `_` in a key is "-"; an attribute "" is left out."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(str(value))}"'
        for key, value in attributes.items()
        if value != ""
    )
    # HTML closes no element of its own by "/>".
    return f"<{name}{words}/>" if not inside and name in _SVG else f"<{name}{words}>{inside}</{name}>"


def figure(picture: Picture, remarks: Sequence[str], inside: str, parts: Sequence[Part] = ()) -> str:
    """Return the frame of a picture: title, remarks, what is inside, and a legend."""
    small = escaped("; ".join(filter(None, (*remarks, picture.remark))))
    caption = tag("b", escaped(picture.title)) + (f" {tag('small', small)}" if small else "")
    legend = "".join(tag("li", tag("i", style=f"background:{it.color}") + escaped(it.words)) for it in parts)
    below = tag("ul", legend, class_="legend") if legend else ""
    return tag("figure", f"{tag('figcaption', caption)}\n{inside}{below}", class_=f"pic pic-{picture.form}")


def drawing(picture: Picture, summary: str, height: int, inside: str) -> str:
    """Return the drawing, with words for those who do not see it."""
    return tag("svg", inside, role="img", aria_label=f"{picture.title}: {summary}", height=height)


def number(value: float) -> str:
    """Return a coordinate, short.

    >>> number(12.0), number(0.5), number(33.3333), number(0)
    ('12', '.5', '33.33', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return text.removeprefix("0") or "0"


def percentage(value: float) -> str:
    """Return a percentage of a width; "" for 0, the default of x."""
    return f"{number(value)}%" if number(value) != "0" else ""


def plot(inside: str, width: int) -> str:
    """Return what is drawn in `width` units from left to right, stretched to the room there is."""
    return tag(
        "svg",
        inside,
        viewBox=f"0 0 {width} {HEIGHT}",
        preserveAspectRatio="none",
        width="100%",
        height=HEIGHT,
    )


def axis_at_left(axis: Axis) -> str:
    """Return the axis at the left of a plot: labels, and lines across it."""
    places = [(HEIGHT * (1 - axis.place(value)), label) for value, label in axis.ticks]
    lines = plot(tag("path", class_="ax", d="".join(f"M0 {number(y)}h1" for y, _ in places)), 1)
    return lines + tag("g", "".join(tag("text", label, x=-5, y=number(y + 4)) for y, label in places), class_="y")


def axis_below(axis: Axis, y: int) -> str:
    """Return the axis below bars, with lines through them."""
    places = [(100 * axis.place(value), label) for value, label in axis.ticks]
    lines = (tag("line", x1=percentage(x), x2=percentage(x), y2=y, class_="ax") for x, _ in places)
    return "".join(lines) + texts_below(places, y + 13)


def texts_below(places: Sequence[tuple[float, str]], y: int) -> str:
    """Return the labels below a plot, in the middle of their places; at an end they stay within the plot."""
    return "".join(
        tag("text", escaped(label), x=percentage(x), y=y, class_="e" if x > 98 else "m" if x > 3 else "")
        for x, label in places
    )


def few_labels(labels: Sequence[str], word: str) -> list[tuple[float, str]]:
    """Return labels below the middle of places that are equally wide: all of a few, else some, the first among them."""
    apart = -(-len(labels) // _LABELS)
    wide = 100 / len(labels)
    return [
        (wide * (i + 0.5), f"{word} {labels[i]}".strip() if i == 0 else labels[i]) for i in range(0, len(labels), apart)
    ]


def bar(x: float, y: int, width: float, height: int, color: str, title: str) -> str:
    """Return a bar: x and width in percent, y and height in pixels; title: its exact value."""
    size = {"x": percentage(x), "y": y or "", "width": percentage(max(width, 0.1)), "height": height}
    return tag("rect", tag("title", escaped(title)), **size, fill=color)


def exact(value: float, unit: Unit) -> str:
    """Return a value with every digit and its unit."""
    return f"{format_ratio(value)} %" if unit is Unit.RATIO else f"{round(value):,}{WORDS.get(unit, '')}"


def short(value: float, unit: Unit) -> str:
    """Return a value for a glance: four digits.

    >>> short(2_795_300, Unit.NS), short(999, Unit.NS)
    ('2.795 ms', '999 ns')
    """
    if unit is not Unit.NS:
        return format_bytes(round(value)) if unit is Unit.BYTES else amount(value, unit)
    word = linear(value, unit).word
    return f"{value / {'ns': 1, 'us': 1e3, 'ms': 1e6, 's': 1e9}[word]:.4g} {word}"


def columns_of(picture: Picture, table: ReportTable) -> list[Column]:
    """Return the columns that are drawn, none where the table lacks one."""
    known = {column.name: column for column in table.columns}
    return [known[name] for name in picture.values] if known.keys() >= set(picture.values) else []


def cells_of(table: ReportTable, name: str) -> Sequence[Cell] | None:
    """Return the cells of a column, None where the table does not have it."""
    return next((column.values for column in table.columns if column.name == name), None)


def row_names(picture: Picture, table: ReportTable) -> list[str]:
    """Return the name of each row: the first column that tells all rows apart, else all that tell some apart."""
    known = {column.name: column for column in table.columns}
    columns = [known[name] for name in picture.names if name in known]
    telling = [column for column in columns if len(set(column.values)) > 1] or columns[:1]
    rows = set(zip(*(column.values for column in telling), strict=True))
    alone = next((column for column in telling if len(set(column.values)) == len(rows)), None)
    # A number alone says little: it has its title before it.
    texts = [
        [shown_name(cell) if isinstance(cell, str) else f"{column.title.lower()} {cell}" for cell in column.values]
        for column in ([alone] if alone else telling)
    ]
    return [" · ".join(row) for row in zip(*texts, strict=True)] if texts else [""] * len(table)


def value_of(cell: Cell) -> float | None:
    """Return the number in a cell, None where there is none."""
    return cell if isinstance(cell, (int, float)) and math.isfinite(cell) else None

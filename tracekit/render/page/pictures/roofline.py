"""A roofline: FLOP/s of kernels over their FLOPs a byte, both logarithmic, below what the device can do."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escaped, plural
from tracekit.model.names import short_names
from tracekit.model.picture import Picture
from tracekit.model.report import ReportTable
from tracekit.model.units import Unit, format_rate
from tracekit.render.axes import Axis, logarithmic
from tracekit.render.page.pictures import _drawing as draw
from tracekit.render.palette import color_of

__all__ = ["roofline"]

MOST_POINTS = 40
_NAMED = 3
_VALUES = 5
_LINE = 12
"""Pixels of a line of text."""
_WIDE = 40
"""The percent of the width that a name takes on a phone."""
_ROOM = 1.6
"""The axis reaches this many times the highest roof."""
_SMALL, _LARGE = 3, 10
"""Pixels of the radius of a point: its area goes with the time."""


def roofline(picture: Picture, table: ReportTable) -> str:
    """Return the points of the rows with the most time below the roofs; "" for no row with FLOPs, bytes and time.

    values of the picture: time, FLOPs a byte, FLOP/s, and the peaks of both. Roofs are those of the row with the most
    time; where `by` names the datatype of a row, those of each datatype.
    """
    numbers = _numbers(picture, table)
    rows = [row for row in sorted(numbers, key=lambda row: -numbers[row].time) if numbers[row].is_drawn]
    if not rows:
        return ""
    names = draw.row_names(picture, table)
    shown = rows[:MOST_POINTS]
    roofs = _roofs_of(picture, table, numbers, rows)
    xs = [numbers[row].intensity for row in shown] + [each.flops / each.moved for each in roofs]
    ys = [numbers[row].rate for row in shown] + [each.flops for each in roofs]
    # A name has room above its roof.
    across, down = logarithmic(min(xs), max(xs)), logarithmic(min(ys), max(ys) * (_ROOM if picture.by else 1))
    longest = numbers[rows[0]].time or 1
    labels = short_names([names[row] for row in shown], draw.NAME)
    body = [draw.axis_at_left(down), draw.plot(_lines(across, down, roofs), 100)]
    names_of_roofs, taken = _roof_names(down, roofs) if picture.by else ([], [])
    body += names_of_roofs
    for place, (row, label) in enumerate(zip(shown, labels, strict=True)):
        it = numbers[row]
        title = f"{label}: {it.intensity:,.4g} FLOP/byte, {_rate(it.rate)}, {draw.exact(it.time, Unit.NS)}"
        at, up = 100 * across.place(it.intensity), draw.HEIGHT * (1 - down.place(it.rate))
        radius = draw.number(_SMALL + (_LARGE - _SMALL) * (it.time / longest) ** 0.5)
        color = color_of("kernel")
        tag = draw.tag("title", escaped(title))
        body.append(draw.tag("circle", tag, cx=draw.percentage(at) or "0", cy=draw.number(up), r=radius, fill=color))
        # Names that would lie on each other are for the tooltip alone.
        beside = [
            100 * across.place(numbers[each].intensity) - at for each in shown if _is_level(down, numbers[each], up)
        ]
        side_of_name = -1 if at > 60 else 1
        is_free = not picture.by or not any(0 < side_of_name * each < _WIDE for each in beside)
        if place < _NAMED and is_free and all(abs(up - other) >= _LINE for other in taken):
            taken += [up] if picture.by else []
            side = "e" if side_of_name < 0 else ""
            shift = -12 if side else 12
            text = {"x": draw.percentage(at), "dx": shift, "y": draw.number(up + 4), "class_": side}
            body.append(draw.tag("text", escaped(label), **text))
    ticks = [(100 * across.place(value), label) for value, label in across.ticks]
    body.append(draw.texts_below(ticks, draw.HEIGHT + 14))
    what, whose = ("shapes", "shape") if picture.by else ("kernels", "kernel")
    of = "least bytes to move" if picture.by else "byte of device memory"
    remarks = [
        f"FLOP/s over FLOP per {of}, both logarithmic; the area of a point is the {whose}'s time",
        _in_words(roofs, with_names=bool(picture.by)),
        f"{len(shown)} of {len(rows):,} {what}" if len(rows) > len(shown) else "",
        _without(rows, numbers, len(table)) if picture.by else "",
    ]
    known = zip(shown[:4], labels, strict=False)
    summary = "; ".join(
        f"{label} {numbers[row].intensity:.4g} FLOP/byte, {_rate(numbers[row].rate)}" for row, label in known
    )
    return draw.figure(picture, remarks, draw.drawing(picture, summary, draw.HEIGHT + draw.ROOM, "".join(body)))


@dataclass(frozen=True, slots=True)
class RoofPoint:
    """A row of a roofline: ns, FLOPs a byte, FLOP/s, and the peaks in FLOP/s and bytes/s; 0 where one is not known."""

    time: float
    intensity: float
    rate: float
    flops: float
    moved: float

    @property
    def is_drawn(self) -> bool:
        """Return whether it has a place on logarithmic axes."""
        return self.intensity > 0 and self.rate > 0


@dataclass(frozen=True, slots=True)
class DrawnRoof:
    """A roof: FLOP/s at most, the bytes/s that lead up to it, and its name, "" for none."""

    flops: float
    moved: float
    name: str = ""


def _numbers(picture: Picture, table: ReportTable) -> dict[int, RoofPoint]:
    """Return the numbers of each row. Rates in TFLOP/s, as the title of their column says, become FLOP/s."""
    columns = {column.name: column for column in table.columns}
    found = []
    for name in picture.values:
        column = columns.get(name)
        scale = 1e12 if column is not None and "TFLOP/s" in column.title else 1.0
        cells = column.values if column is not None else [None] * len(table)
        found.append([(draw.value_of(cell) or 0) * scale for cell in cells])
    return {row: RoofPoint(*each) for row, each in enumerate(zip(*found, strict=True))} if len(found) == _VALUES else {}


def _roofs_of(
    picture: Picture, table: ReportTable, numbers: dict[int, RoofPoint], rows: Sequence[int]
) -> list[DrawnRoof]:
    """Return the roofs, the highest first; datatypes with the same peaks are one roof."""
    if not picture.by:
        first = numbers[rows[0]]
        return [DrawnRoof(first.flops, first.moved)] if first.flops and first.moved else []
    datatypes = draw.cells_of(table, picture.by) or [""] * len(table)
    names: dict[tuple[float, float], dict[str, None]] = {}
    for row in rows:
        it = numbers[row]
        if it.flops and it.moved:
            names.setdefault((it.flops, it.moved), {})[str(datatypes[row] or "")] = None
    return [DrawnRoof(*peaks, ", ".join(filter(None, of))) for peaks, of in sorted(names.items(), reverse=True)]


def _lines(across: Axis, down: Axis, roofs: Sequence[DrawnRoof]) -> str:
    """Return the lines of what each memory can feed, and from them to the right what the units can compute."""
    paths = []
    for moved in dict.fromkeys(each.moved for each in roofs):
        tops = sorted((each.flops for each in roofs if each.moved == moved), reverse=True)
        low = max(across.low, down.low / moved)
        places = [(low, low * moved), *((top / moved, top) for top in tops[:1])]
        paths.append([*places, (max(across.high, tops[0] / moved), tops[0])])
        paths += [[(top / moved, top), (max(across.high, top / moved), top)] for top in tops[1:]]
    return "".join(
        draw.tag("path", class_="ax b", d=f"M{'L'.join(_spot(across, down, *place) for place in path)}")
        for path in paths
    )


def _spot(across: Axis, down: Axis, x: float, y: float) -> str:
    return f"{100 * across.place(x):.1f} {draw.HEIGHT * (1 - down.place(y)):.1f}"


def _is_level(down: Axis, point: RoofPoint, up: float) -> bool:
    """Return whether a point is in the line of text at this height."""
    return abs(draw.HEIGHT * (1 - down.place(point.rate)) - up) < _LINE


def _roof_names(down: Axis, roofs: Sequence[DrawnRoof]) -> tuple[list[str], list[float]]:
    """Return the names of the roofs at their right ends, and their heights; one without room is in the remark alone."""
    made: list[str] = []
    taken: list[float] = []
    for each in roofs:
        y = draw.HEIGHT * (1 - down.place(each.flops)) - 3
        if each.name and all(abs(y - other) >= _LINE for other in taken):
            made.append(draw.tag("text", escaped(each.name), x="100%", y=draw.number(y), class_="e"))
            taken.append(y)
    return made, taken


def _in_words(roofs: Sequence[DrawnRoof], *, with_names: bool) -> str:
    """Return the roofs with their numbers."""
    if not roofs:
        return "the roofs are not known"
    if not with_names:
        return f"roofs {_rate(roofs[0].flops)} and {format_rate(roofs[0].moved)}"
    memories = " or ".join(format_rate(moved) for moved in dict.fromkeys(each.moved for each in roofs))
    return f"roofs: memory {memories}; " + ", ".join(f"{each.name} {_rate(each.flops)}".strip() for each in roofs)


def _without(rows: Sequence[int], numbers: dict[int, RoofPoint], count: int) -> str:
    """Return how many rows have no point or no roof, "" for none."""
    bare = sum(not numbers[row].flops for row in rows)
    words = [f"{plural(count - len(rows), 'shape')} without FLOPs or bytes not drawn"] if count > len(rows) else []
    words += [f"the peak of {plural(bare, 'shape')} is not known"] if bare else []
    return "; ".join(words)


def _rate(value: float | None) -> str:
    """Return operations a second: "32.26 TFLOP/s"."""
    if value is None:
        return "not known"
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.4g} {prefix}FLOP/s"
    return f"{value:,.4g} FLOP/s"

"""A roofline: FLOP/s of kernels over their FLOPs a byte, both logarithmic, below what the device can do."""

from __future__ import annotations

from tracekit.model.display import escaped
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
_SMALL, _LARGE = 3, 10
"""Pixels of the radius of a point: its area goes with the time."""


def roofline(picture: Picture, table: ReportTable) -> str:
    """Return the points of the kernels with the most time, and the roofs of the one with the most."""
    cells = {name: draw.cells_of(table, name) for name in ("time", "intensity", "rate", "peak_flops", "peak_bytes")}
    rows = sorted(range(len(table)), key=lambda row: -(_number(cells["time"], row) or 0))
    rows = [
        row for row in rows if (_number(cells["intensity"], row) or 0) > 0 and (_number(cells["rate"], row) or 0) > 0
    ]
    if not rows:
        return ""
    names = [f"{name}" for name in draw.row_names(picture, table)]
    shown = rows[:MOST_POINTS]
    points = [(row, _number(cells["intensity"], row) or 1, _number(cells["rate"], row) or 1) for row in shown]
    flops, moved = _number(cells["peak_flops"], rows[0]), _number(cells["peak_bytes"], rows[0])
    ridge = [flops / moved] if flops and moved else []
    across = logarithmic(min(x for _, x, _ in points), max([x for _, x, _ in points] + ridge))
    tops = [y for *_, y in points] + ([flops] if flops else [])
    down = logarithmic(min(y for *_, y in points), max(tops))
    longest = _number(cells["time"], rows[0]) or 1
    labels = short_names([names[row] for row in shown], draw.NAME)
    body = [draw.axis_at_left(down), draw.plot(_roofs(across, down, flops, moved), 100)]
    for place, ((row, x, y), label) in enumerate(zip(points, labels, strict=True)):
        time = _number(cells["time"], row) or 0
        title = f"{label}: {x:,.4g} FLOP/byte, {_rate(y)}, {draw.exact(time, Unit.NS)}"
        at, up = 100 * across.place(x), draw.HEIGHT * (1 - down.place(y))
        radius = draw.number(_SMALL + (_LARGE - _SMALL) * (time / longest) ** 0.5)
        color = color_of("kernel")
        tag = draw.tag("title", escaped(title))
        body.append(draw.tag("circle", tag, cx=draw.percentage(at) or "0", cy=draw.number(up), r=radius, fill=color))
        if place < _NAMED:
            side = "e" if at > 60 else ""
            shift = -12 if side else 12
            text = {"x": draw.percentage(at), "dx": shift, "y": draw.number(up + 4), "class_": side}
            body.append(draw.tag("text", escaped(label), **text))
    ticks = [(100 * across.place(value), label) for value, label in across.ticks]
    body.append(draw.texts_below(ticks, draw.HEIGHT + 14))
    remarks = [
        "FLOP/s over FLOP per byte of device memory, both logarithmic; the area of a point is the kernel's time",
        f"roofs {_rate(flops)} and {format_rate(moved)}" if flops and moved else "the roofs are not known",
        f"{len(shown)} of {len(rows):,} kernels" if len(rows) > len(shown) else "",
    ]
    known = zip(points[:4], labels, strict=False)
    summary = "; ".join(f"{label} {x:.4g} FLOP/byte, {_rate(y)}" for (_, x, y), label in known)
    return draw.figure(picture, remarks, draw.drawing(picture, summary, draw.HEIGHT + draw.ROOM, "".join(body)))


def _number(cells: object, row: int) -> float | None:
    return draw.value_of(cells[row]) if isinstance(cells, (list, tuple)) else None


def _roofs(across: Axis, down: Axis, flops: float | None, moved: float | None) -> str:
    """Return the line of what the memory can feed up to the line of what the units can compute."""
    if not flops or not moved:
        return ""
    low = max(across.low, down.low / moved)
    places = [(low, low * moved), (flops / moved, flops), (max(across.high, flops / moved), flops)]
    spots = (f"{100 * across.place(x):.1f} {draw.HEIGHT * (1 - down.place(y)):.1f}" for x, y in places)
    return draw.tag("path", class_="ax b", d=f"M{'L'.join(spots)}")


def _rate(value: float | None) -> str:
    """Return operations a second: "32.26 TFLOP/s"."""
    if value is None:
        return "not known"
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.4g} {prefix}FLOP/s"
    return f"{value:,.4g} FLOP/s"

"""A series as bars: one for each value, or for the largest of neighbours, with lines across and marked values."""

from __future__ import annotations

from tracekit.model.display import escape_controls, shortened
from tracekit.model.picture import Picture
from tracekit.model.report import Series
from tracekit.render.axes import linear
from tracekit.render.figures import WIDTH, chart
from tracekit.render.page.pictures import _drawing as draw
from tracekit.render.palette import color_of

__all__ = ["MOST_BARS_OF_PAGE", "series"]

MOST_BARS_OF_PAGE = 50
_LABEL = 12


def series(figure: Series) -> str:
    """Return the drawing of a series, with an axis that fits its largest value and its lines."""
    box = chart(figure, MOST_BARS_OF_PAGE)
    known = [value for value in figure.values if value is not None]
    top = max([*known, *(value for _, value in figure.levels)], default=0)
    axis = linear(top, figure.unit)
    height = draw.HEIGHT * axis.place(top) if top > 0 else draw.HEIGHT
    plain = color_of("kernel")
    bars = "".join(
        draw.tag(
            "rect",
            draw.tag("title", each.text.translate(_MARKUP)),
            x=f"{float(each.x):.0f}",
            y=f"{float(each.y):.0f}",
            width=f"{float(each.width):.0f}",
            height=f"{max(float(each.height), 1):.0f}",
            fill="" if each.color == plain else each.color,
        )
        for each in box.strokes
    )
    lines = "".join(draw.tag("line", x2=WIDTH, y1=y, y2=y, class_="ax level") for y, _ in box.levels)
    drawn = draw.tag(
        "svg",
        draw.tag("g", bars, fill=plain) + lines,
        y=draw.number(draw.HEIGHT - height),
        width="100%",
        height=draw.number(height),
        viewBox=f"0 0 {WIDTH} {draw.HEIGHT}",
        preserveAspectRatio="none",
    )
    labels = [shortened(escape_controls(str(label)), _LABEL) for label in figure.labels]
    body = draw.axis_at_left(axis) + drawn
    if labels:
        body += draw.texts_below(draw.few_labels(labels, ""), draw.HEIGHT + 14)
    picture = Picture("series", figure.title, "", ())
    made = draw.drawing(picture, box.summary.removeprefix(f"{box.title}: "), draw.HEIGHT + draw.ROOM, body)
    parts = [draw.Part(word, color) for word, color in box.legend]
    return draw.figure(picture, [f"– – {text}" for _, text in box.levels], made, parts)


_MARKUP = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}

"""A timeline as a Bokeh document: plain JSON, the same bytes for the same figure.

A rectangle has ns after the begin as x and pixels below the top as y: the picture is as high as its content. report.js
writes the tooltips and the text of the time axis from whole ns: Bokeh's own formats go through floats and HTML.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracekit.display import visible
from tracekit.render._palette import TONES, color_of, tones
from tracekit.render.cells import cut_middle
from tracekit.report import Timeline

EXACT = 1 << 53
"""Whole numbers below it are exact in JavaScript; larger times travel as text."""
NAME_SHOWN = 2000
"""Characters of a name in a tooltip, which gives the length of a longer name. Tables have whole names."""
LABEL_CELLS = 28
_TALLEST, _LOWEST, _ROOM = 15, 6, 900
_BUSY_COLOR = "#8fb0dc"
_LANE_GAP, _GROUP_TITLE, _BUSY, _BUSY_GAP = 7, 20, 38, 9


@dataclass(frozen=True, slots=True)
class Picture:
    """document: what Bokeh.Document.from_json takes. texts: what report.js writes into tooltips. height: pixels."""

    document: object
    texts: dict[str, object]
    height: int


@dataclass(frozen=True, slots=True)
class _Rows:
    """Places in pixels from the top. tops: of each lane. busy: baselines of the utilization rows."""

    line: int
    tops: list[int]
    groups: list[tuple[int, str]]
    busy: list[int]
    height: int


def _rows(figure: Timeline) -> _Rows:
    lines = sum(lane.depth for lane in figure.lanes)
    line = max(_LOWEST, min(_TALLEST, _ROOM // max(lines, 1)))
    named = any(lane.group for lane in figure.lanes)
    y = 4
    tops, groups = [], []
    before = None
    for lane in figure.lanes:
        if named and lane.group != before:
            groups.append((y, lane.group))
            y += _GROUP_TITLE
            before = lane.group
        tops.append(y)
        y += lane.depth * line + _LANE_GAP
        # A lane of one thin line still needs room for its label.
        y += max(0, 13 - lane.depth * line - _LANE_GAP)
    if len(figure.utilization) > 1:
        groups.append((y + 4, "utilization"))
        y += _GROUP_TITLE
    y += 6 if figure.utilization else 0
    busy = []
    for _ in figure.utilization:
        y += _BUSY
        busy.append(y)
        y += _BUSY_GAP
    return _Rows(line, tops, groups, busy, y)


def picture(figure: Timeline) -> Picture:
    """Return the picture of a timeline. Bokeh is imported here, not with the package, because it is slow to import."""
    from bokeh.models import (
        BasicTicker,
        ColumnDataSource,
        FixedTicker,
        HoverTool,
        Label,
        LinearAxis,
        PlainText,
        Range1d,
        ResetTool,
        WheelZoomTool,
    )
    from bokeh.plotting import figure as plot_of

    rows = _rows(figure)
    span = max(figure.end_ns - figure.begin_ns, 1)
    x_range = Range1d(0, float(span), bounds=(0, float(span)), min_interval=min(span, 20))
    plot = plot_of(
        x_range=x_range,
        y_range=Range1d(rows.height, 0),
        frame_height=rows.height,
        sizing_mode="stretch_width",
        tools="xpan,xbox_zoom",
        active_drag="xpan",
        toolbar_location="above",
        min_border_left=_left_border(figure),
        min_border_right=22,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        lod_threshold=10_000,
        lod_factor=4,
    )
    plot.toolbar.logo = None
    plot.ygrid.visible = False

    palette = [tone for i, kind in enumerate(figure.kinds) for tone in tones(color_of(kind, i))]
    source = ColumnDataSource(_rectangles(figure, rows), name="rectangles")
    fill = _by_number(palette)
    quads = plot.hbar(
        y="y",
        height=rows.line - 1,
        left="left",
        right="right",
        source=source,
        fill_color=fill,
        line_color=fill,
        line_alpha=0.55,
        line_width=1,
        hover_line_color="#111111",
        hover_line_alpha=1,
        hover_fill_color=fill,
    )
    hover = HoverTool(tooltips=[], renderers=[quads], name="hover", visible=False, point_policy="follow_mouse")
    if figure.utilization:
        shares = ColumnDataSource(_shares(figure, rows, span), name="utilization")
        bars = plot.quad(
            left="left",
            right="right",
            top="top",
            bottom="bottom",
            source=shares,
            fill_color=_BUSY_COLOR,
            line_color=_BUSY_COLOR,
            line_width=1,
        )
        hover.renderers = [quads, bars]
        plot.hspan(y=rows.busy, line_color="#8a95a1", line_alpha=0.5, line_width=1)
    wheel = {"dimensions": "width"}
    if "modifiers" in WheelZoomTool.properties():  # the wheel alone still scrolls the page
        wheel["modifiers"] = "ctrl"
    zoom = WheelZoomTool(**wheel)
    plot.add_tools(zoom, ResetTool(), hover)
    if "modifiers" in wheel:
        plot.toolbar.active_scroll = zoom

    axis, times = plot.yaxis[0], plot.xaxis[0]
    labels = dict(_labels(figure, rows))
    axis.ticker = FixedTicker(ticks=sorted(labels), minor_ticks=[])
    # PlainText: a label between "$$" would make Bokeh fetch a typesetter from the network.
    axis.major_label_overrides = {y: PlainText(text=_label(text)) for y, text in sorted(labels.items())}
    times.ticker = BasicTicker(desired_num_ticks=8, num_minor_ticks=0, mantissas=[1, 2, 5], min_interval=1)
    times.name = "times"
    plot.xgrid.ticker = times.ticker
    plot.xgrid.grid_line_color = "#8a95a1"
    plot.xgrid.grid_line_alpha = 0.2
    above = LinearAxis(ticker=times.ticker, name="times-above")
    plot.add_layout(above, "above")
    for each in (axis, times, above):
        each.axis_line_color = None
        each.major_tick_line_color = None if each is axis else "#8a95a1"
        each.minor_tick_line_color = None
        each.major_tick_in, each.major_tick_out = 0, 4
        each.major_label_text_color = "#66727f"
        each.major_label_text_font_size = "11px"
        each.major_label_text_font = "system-ui, sans-serif"
    for y, text in rows.groups:
        title = PlainText(text=visible(text))
        plot.add_layout(
            Label(
                x=0,
                y=y + _GROUP_TITLE - 4,
                text=title,
                text_font_size="11px",
                text_font="system-ui, sans-serif",
                text_font_style="bold",
                text_color="#66727f",
                x_units="screen",
                name="group",
            )
        )
    plot.hspan(y=[y for y, _ in rows.groups[1:]], line_color="#8a95a1", line_alpha=0.45, line_width=1)
    return Picture(_document(plot), _texts(figure), rows.height)


def _by_number(palette: list[str]) -> dict[str, object]:
    from bokeh.models import LinearColorMapper

    mapper = LinearColorMapper(palette=palette, low=-0.5, high=len(palette) - 0.5)
    return {"field": "color", "transform": mapper}


def _rectangles(figure: Timeline, rows: _Rows) -> dict[str, object]:
    lane = np.array(figure.lane, np.int64)
    level = np.array(figure.level, np.int64)
    start, length = np.array(figure.start_ns, np.int64), np.array(figure.dur_ns, np.int64)
    end = start + length
    name = np.array(figure.name, np.int64)
    columns: dict[str, object] = {
        "left": start.astype(np.float64),
        "right": end.astype(np.float64),
        "y": (np.array(rows.tops, np.int64)[lane] + level * rows.line + rows.line / 2).astype(np.float32),
        "color": (np.array(figure.kind, np.int64) * TONES + name % TONES).astype(np.uint8),
        "name": name.astype(np.int32),
        "lane": lane.astype(np.uint16),
    }
    if end.size and int(end.max()) >= EXACT:
        columns["start"] = [str(ns) for ns in start.tolist()]
        columns["length"] = [str(ns) for ns in length.tolist()]
    return columns


def _shares(figure: Timeline, rows: _Rows, span: int) -> dict[str, object]:
    """Return a bar for each bin in which the device worked."""
    left, right, share, device = [], [], [], []
    for number, (_, values) in enumerate(figure.utilization):
        edges = np.array([span * i // max(len(values), 1) for i in range(len(values) + 1)], np.float64)
        busy = np.array(values, np.float64)
        some = np.flatnonzero(busy > 0)
        left.append(edges[:-1][some])
        right.append(edges[1:][some])
        share.append(busy[some])
        device.append(np.full(some.size, number, np.uint16))
    shares, devices = np.concatenate(share), np.concatenate(device)
    base = np.array(rows.busy, np.float32)[devices]
    return {
        "left": np.concatenate(left),
        "right": np.concatenate(right),
        "bottom": base,
        "top": (base - shares * _BUSY).astype(np.float32),
        "share": shares,
        "device": devices,
    }


def _labels(figure: Timeline, rows: _Rows) -> Iterator[tuple[float, str]]:
    for lane, top in zip(figure.lanes, rows.tops, strict=True):
        yield top + max(rows.line, 11) / 2, lane.label
    one = len(figure.utilization) == 1
    for (device, _), base in zip(figure.utilization, rows.busy, strict=True):
        yield base - _BUSY / 2, "utilization" if one else device


def _label(text: str) -> str:
    return cut_middle(visible(text), LABEL_CELLS)


def _left_border(figure: Timeline) -> int:
    """Return about how many pixels the longest label takes."""
    texts = [lane.label for lane in figure.lanes] + ["utilization", *(device for device, _ in figure.utilization)]
    return 14 + 6 * max(len(_label(text)) for text in texts)


def _texts(figure: Timeline) -> dict[str, object]:
    return {
        "names": [_tooltip_name(name) for name in figure.names],
        "kinds": list(map(visible, figure.kinds)),
        "tones": TONES,
        "lanes": [visible(" · ".join(filter(None, (lane.group, lane.label)))) for lane in figure.lanes],
        "devices": [visible(device) for device, _ in figure.utilization],
    }


def _tooltip_name(name: str) -> str:
    if len(name) <= NAME_SHOWN:
        return visible(name)
    return f"{visible(name[:NAME_SHOWN])}… ({len(name):,} characters in all)"


def _document(plot: object) -> object:
    """Return the document's JSON with its models numbered anew.

    Bokeh numbers models from the start of the process, so that a second report would differ from the first.
    """
    from bokeh.embed import json_item

    return _numbered(json_item(plot)["doc"], {})


def _numbered(part: object, ids: dict[str, str]) -> object:
    """Return a copy with new ids. A model is {"type", "id", ...}, a reference {"id"}; data are never such objects."""
    if isinstance(part, dict):
        name = part.get("id")
        if not isinstance(name, str) or ("type" not in part and len(part) > 1):
            return {key: _numbered(value, ids) for key, value in part.items()}
        # The models in a model get their numbers before it does.
        copy = {key: _numbered(value, ids) for key, value in part.items() if key != "id"}
        return {"id": ids.setdefault(name, f"m{len(ids) + 1}"), **copy}
    return [_numbered(value, ids) for value in part] if isinstance(part, (list, tuple)) else part

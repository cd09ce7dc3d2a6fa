from __future__ import annotations

import re
from xml.etree import ElementTree

from doors.pages import HEIGHT, MOST_BARS, WIDTH, amount, chart, series_lines
from doors.pictures import MOST_BARS_OF_PAGE, series
from hypothesis import given
from hypothesis import strategies as st

from tracekit.model.report import Report, Section, Series
from tracekit.model.units import Unit
from tracekit.pipeline import render

VALUES = st.lists(st.none() | st.integers(0, 1 << 60), max_size=30)


def of(values: list[int | None], **more: object) -> Series:
    return Series("Step time", Unit.NS, [f"step {i}" for i in range(len(values))], values, **more)  # type: ignore[arg-type]


@given(VALUES)
def test_bars_stand_in_order_inside_the_drawing_and_are_as_high_as_their_values(values: list[int | None]) -> None:
    made = chart(of(values))
    known = [v for v in values if v is not None]
    assert len(made.strokes) == len(known)
    assert [s.text.split(": ")[0] for s in made.strokes] == [f"step {i}" for i, v in enumerate(values) if v is not None]
    left = [float(s.x) for s in made.strokes]
    assert left == sorted(left)
    for stroke, value in zip(made.strokes, known, strict=True):
        assert 0 <= float(stroke.x) <= float(stroke.x) + float(stroke.width) <= WIDTH + 0.1
        if max(known):
            assert abs(float(stroke.height) - max(HEIGHT * value / max(known), 0.8)) < 0.11


def test_neighbours_share_a_bar_where_there_are_many_and_the_largest_is_drawn_and_told() -> None:
    values: list[int | None] = [100] * (MOST_BARS * 5)
    values[777] = 900
    made = chart(of(values, marks=((777, "outlier"),)))
    assert len(made.strokes) == MOST_BARS
    (told,) = [s for s in made.strokes if "outlier" in s.text]
    assert told.text == "step 777: 900 ns, outlier (the largest of 5)"
    assert float(told.y) == 0
    assert made.legend == (("outlier", told.color),)


def test_a_series_in_words() -> None:
    figure = of([5000, None, 1000, 3000], levels=(("median", 3000),), marks=((0, "warm-up"),))
    assert series_lines(figure) == [
        "Step time: 3 values, 1 us to 5 us (the largest at step 0)", "median 3 us, warm-up: 1",
    ]  # fmt: skip
    assert series_lines(of([7])) == ["Step time: 1 value, 7 ns to 7 ns"]
    assert series_lines(of([None])) == ["Step time: all values are unknown"]


def test_every_form_takes_a_series_and_text_of_the_trace_is_escaped_on_the_page() -> None:
    figure = Series("<b>&", Unit.RATIO, ["</svg><script>"], [0.5], (("<i>", 0.4),), ((0, "<u>"),))
    report = Report("t", "0", sections=(Section("steps", "Steps", figures=(figure,)),))
    page = render(report, "html")
    assert "&lt;/svg&gt;&lt;script&gt;: 50.00 %, &lt;u&gt;" in page
    assert "</svg><script>" not in page.replace("</svg>\n", "")
    assert re.search(r'<svg role="img" aria-label="&lt;b&gt;&amp;: 1 value', page)
    assert "50.00 % to 50.00 %" in render(report, "text")
    for form in ("markdown", "csv", "json"):
        render(report, form)


@given(st.lists(st.none() | st.integers(0, 1 << 60), min_size=1, max_size=700))
def test_a_series_on_the_page_is_small_and_its_axis_holds_all_values(values: list[int | None]) -> None:
    figure = of(values, levels=(("median", 3000),), marks=((0, "slow"),) if values[0] is not None else ())
    made = series(figure)
    tree = ElementTree.fromstring(made)
    assert len(made.encode()) <= 6_400
    bars = list(tree.iter("rect"))
    assert len(bars) <= MOST_BARS_OF_PAGE
    assert len(bars) == len(chart(figure, MOST_BARS_OF_PAGE).strokes)
    known = [value for value in values if value is not None]
    if known:
        largest = max(known)
        assert any(amount(largest, Unit.NS) in (bar.find("title").text or "") for bar in bars)  # type: ignore[union-attr]
    assert all(0 <= int(bar.get("y", "")) <= 120 for bar in bars)
    assert next(each.text for each in tree.iter("text")) == "0"
    assert len(list(tree.iter("line"))) == 1

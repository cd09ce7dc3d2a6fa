"""The picture of a timeline without a script: exact busy shares, small, there without JavaScript and in print."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import sample
from timelines import NONE, a_timeline, drawn
from viewers import chromium_page
from views.tables import Row, event_rows, trace

from tracekit import pipeline
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Report, Section
from tracekit.model.timeline import LaneEvents, Timeline, TimelineLane
from tracekit.model.trace import Trace
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions
from tracekit.render.page.static_timeline import HEIGHT, MOST_CHARACTERS, MOST_ROWS, still
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions


def figure_of(made: Trace) -> Timeline | None:
    figures = VIEWS["timeline"].compute(TraceIndex(made), ViewOptions()).figures
    return next((each for each in figures if isinstance(each, Timeline)), None)


def columns(path: str, width: int) -> list[int]:
    """Return the height of each column of an outline."""
    found = [0] * width
    x, height = 0, 0
    for word, numbers in re.findall(r"([Mvh])(-?\d+(?: \d+)?)", path):
        if word == "M":
            assert height == 0
            x = int(numbers.split()[0])
        elif word == "v":
            height -= int(numbers)
        else:
            for place in range(x, x + int(numbers)):
                assert found[place] == 0
                found[place] = height
            x += int(numbers)
    assert height == 0
    assert re.sub(r"M\d+ \d+|[vh]-?\d+", "", path) == ""
    return found


def shares(events: list[tuple[int, int]], span: int, width: int) -> list[tuple[Fraction, bool]]:
    """Return of each column the share of its time that events cover, and whether there is work in it."""
    edges = [span * column // width for column in range(width + 1)]
    runs: list[list[int]] = []
    for start, end in sorted(events):
        if runs and start <= runs[-1][1]:
            runs[-1][1] = max(runs[-1][1], end)
        else:
            runs.append([start, end])
    found = []
    for low, high in pairwise(edges):
        busy = sum(max(min(end, high) - max(start, low), 0) for start, end in runs)
        begun = any(low <= start < high or (start >= span and high == span) for start, _ in events)
        found.append((Fraction(busy, high - low), begun or busy > 0))
    return found


def check(figure: Timeline) -> None:
    """Compare each row of a picture in which each lane has a row with the events of its lane."""
    made = still(figure)
    lanes = [lane for lane in figure.lanes if not (lane.overlay or lane.instants)]
    if made is None:
        assert not lanes
        return
    assert len(made.rows) == len(lanes)
    span = max(figure.end_ns - figure.begin_ns, 1)
    every = drawn(figure)
    at = 0
    of_lane = []
    for lane in figure.lanes:
        count = int(figure.events.first[at + lane.depth] - figure.events.first[at])
        begin = int(figure.events.first[at])
        layers = np.repeat([word for word, _ in lane.layers], [rows for _, rows in lane.layers]).tolist()
        of_lane.append((lane, layers, every[begin : begin + count]))
        at += lane.depth
    mine = [each for each in of_lane if not (each[0].overlay or each[0].instants)]
    for row, (lane, layers, events) in zip(made.rows, mine, strict=True):
        words = {word for word, _ in lane.layers}
        wanted = words & {"operators", "calls"} or words & {"python"} or words
        work = [(each.start, each.start + each.length) for each in events if layers[each.row] in wanted]
        heights = [sum(column) for column in zip(*(columns(path, made.width) for _, path in row.paths), strict=True)]
        for height, (share, is_work) in zip(heights or [0] * made.width, shares(work, span, made.width), strict=True):
            assert abs(height - HEIGHT * share) <= Fraction(1, 2) or (height == 1 and is_work)
            assert (height > 0) == is_work


@given(rows=event_rows())
def test_each_column_has_the_exact_share_of_its_time(rows: list[Row]) -> None:
    figure = figure_of(trace(*rows))
    if figure is not None and len(figure.lanes) <= MOST_ROWS:
        check(figure)


@pytest.mark.parametrize(
    "name", ["kineto/gpu.pt.trace.json", "nsys-sqlite/two-processes.sqlite", "recorder-log/rank0.jsonl"]
)
def test_the_picture_of_a_sample_is_that_of_its_events(name: str) -> None:
    figure = figure_of(pipeline.read(sample(name)))
    assert figure is not None
    check(figure)


@given(heights=st.lists(st.integers(0, HEIGHT), min_size=1, max_size=60))
def test_an_outline_holds_the_heights_of_its_columns(heights: list[int]) -> None:
    from tracekit.render.page import static_timeline as module

    assert columns(module._path(np.array(heights, np.int64)), len(heights)) == heights


def busy_lanes(count: int, events: int) -> Timeline:
    """Lanes of devices whose busy shares differ from column to column as much as they can."""
    draw = np.random.default_rng(3)
    total = count * events
    place = np.arange(total)
    return Timeline(
        lanes=tuple(TimelineLane(f"stream {i}", f"GPU {i // 4}", (("", 1),), on_device=True) for i in range(count)),
        names=["a", "b"],
        kind_of=[0, 1],
        kinds=("kernel", "memcpy"),
        events=LaneEvents(
            order=place,
            first=np.arange(count + 1) * events,
            starts=1000 * (place % events),
            lengths=draw.integers(0, 1000, total),
            names=np.zeros(total, np.int32),
            kinds=draw.integers(0, 2, total).astype(np.int32),
            kind_count=2,
            code_of=np.array([-1, -1, 0, 1], np.int32),
            clocks=np.zeros(total, np.int64),
            shift=np.array([0]),
            ids=place,
        ),
        begin_ns=0,
        end_ns=1000 * events,
        launches=(NONE, NONE),
        flows=(NONE, NONE),
    )


def test_a_picture_of_busy_lanes_is_small_and_still_exact() -> None:
    figure = busy_lanes(MOST_ROWS, 500)
    made = still(figure)
    assert made is not None
    assert sum(len(path) for row in made.rows for _, path in row.paths) <= MOST_CHARACTERS
    assert len(made.rows) == MOST_ROWS
    check(figure)
    page = RENDERERS["html"].render(
        Report("t", "0", sections=(Section("timeline", "Timeline", figures=(figure,)),)), RenderOptions()
    )
    begin = page.index('<div class="still">')
    assert page.index("</figure>", begin) - begin <= 20_000


def test_many_lanes_share_a_row_by_device_and_those_not_drawn_are_counted() -> None:
    made = still(busy_lanes(24, 50))
    assert made is not None
    assert [row.label for row in made.rows] == [f"GPU {i} streams" for i in range(6)]
    assert made.more == ""
    made = still(busy_lanes(4 * MOST_ROWS + 7, 50))
    assert made is not None
    assert len(made.rows) == MOST_ROWS
    assert made.more == "7 more lanes not drawn"


def test_a_row_of_a_device_is_busy_where_any_of_its_streams_is() -> None:
    figure = busy_lanes(24, 10)
    made = still(figure)
    assert made is not None
    every = drawn(figure)
    for number, row in enumerate(made.rows):
        work = [(each.start, each.start + each.length) for each in every[number * 40 : number * 40 + 40]]
        heights = [sum(column) for column in zip(*(columns(path, made.width) for _, path in row.paths), strict=True)]
        for height, (share, _) in zip(heights, shares(work, 10_000, made.width), strict=True):
            assert abs(height - HEIGHT * share) <= Fraction(1, 2) or height == 1


def test_many_lanes_and_many_rows_of_a_lane_cost_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a stranger can have a million of either, and each drawn row looked at all lanes."""
    asked: list[TimelineLane] = []
    depth = TimelineLane.depth
    monkeypatch.setattr(TimelineLane, "depth", property(lambda lane: asked.append(lane) or depth.__get__(lane)))
    figure = busy_lanes(400, 5)
    assert still(figure) is not None
    assert len(asked) == len(figure.lanes)

    def ranges(count: int) -> int:
        """Return how many ranges of places are made for a stream on which so many kernels overlap."""
        figure = figure_of(trace(*({"name": "k", "kind": "kernel", "ts_ns": i, "dur_ns": 900} for i in range(count))))
        assert figure is not None
        assert depth.__get__(figure.lanes[0]) == count
        made: list[object] = []
        with monkeypatch.context() as patch:
            patch.setattr(np, "arange", lambda *given, **named: made.append(given) or arange(*given, **named))
            assert still(figure) is not None
        return len(made)

    arange = np.arange
    assert ranges(300) == ranges(3)


def test_a_picture_has_steps_while_they_can_be_told_apart() -> None:
    made = still(a_timeline())
    assert made is not None
    assert made.bands == ()
    figure = figure_of(pipeline.read(sample("kineto/gpu.pt.trace.json")))
    assert figure is not None
    made = still(figure)
    assert made is not None
    assert len(made.bands) == 2
    assert [name for *_, name in made.band_names] == ["ProfilerStep#10", "ProfilerStep#11", "ProfilerStep#12"]


VISIBLE = """(() => { const seen = (each) => !!each && each.getBoundingClientRect().height > 0;
  const picture = document.querySelector(".still");
  const paths = picture.querySelectorAll("path").length;
  return [seen(picture), seen(document.querySelector("#tl canvas")), paths > 0]; })()"""


@pytest.mark.viewer
@pytest.mark.parametrize(("scripts", "media", "expected"), [
    (False, "", [True, False, True]),
    (False, "print", [True, False, True]),
    (True, "", [False, True, True]),
    (True, "print", [True, False, True]),
])  # fmt: skip
def test_the_picture_is_there_without_scripts_and_in_print(
    scripts: bool, media: str, expected: list[bool], tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    pipeline.write_report(pipeline.read(sample("kineto/gpu.pt.trace.json")), page)
    ready = "(window.tracekit?.timeline?.ready ?? Promise.resolve()).then(() => %s)"
    seen = chromium_page(page, scripts=scripts, media=media, script=ready % VISIBLE)
    assert seen.value == expected
    assert (seen.console, seen.page_errors, seen.requests) == ([], [], [])

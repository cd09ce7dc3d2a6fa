"""Marks of findings on the timeline: each is all events of its finding, drawn where these are and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from render.test_timeline_data import figure_of
from support import sample
from timelines import column, inflated, read_page
from viewed import WITH_EVENTS, read_once
from viewers import chromium_page
from views.tables import trace

from tracekit import pipeline
from tracekit.model.arrow import I64
from tracekit.model.report import Finding, FindingEvents, Report, ReportTable, Section
from tracekit.model.timeline import Timeline
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions
from tracekit.render.page.timeline import MARK_BYTES


def places_of(text: str) -> list[list[int]]:
    """Return the places of each mark of a page, read back as the scripts of the page do."""
    page = read_page(text)
    first, rows = page.head["first"], [(lane["row"], lane["depth"]) for lane in page.head["lanes"]]
    found = []
    for number, mark in enumerate(page.head["marks"]):
        if "places" in mark:
            found.append(mark["places"])
            continue
        part = re.search(rf'class="tl-mark" data-key="{number}"([^>]*)>([^<]*)<', text)
        assert part
        facts = {word: int(value) for word, value in re.findall(r'data-(\w+)="(\d+)"', part[1])}
        raw, at, lists = inflated(part[2]), 0, []
        for word in ("lanes", "names", "n"):
            values, at = column(raw, at, facts[word])
            lists.append(np.cumsum(values))
        lanes, names, wrong = lists
        hit = np.zeros(page.head["n"], np.bool_)
        for row, depth in (rows[lane] for lane in lanes.tolist()):
            s = slice(first[row], first[row + depth])
            inside = (page.start[s] >= facts["from"]) & (page.start[s] <= facts["to"])
            hit[s] = np.isin(page.code[s], names) & inside
        hit[wrong] ^= True
        found.append(np.flatnonzero(hit).tolist())
    return found


def html_of(figure: Timeline, *rows: I64) -> str:
    ids = figure.events.ids
    findings = tuple(
        Finding(f"rule {n}", "", "c", (), FindingEvents(ids[each[:5]].tolist(), each), 5, 0.1, "high", "b", "a", "c")
        for n, each in enumerate(rows)
    )
    sections = (
        Section("timeline", "Timeline", figures=(figure,)),
        Section("findings", "Findings", (ReportTable("t", "T", ()),), findings=findings),
    )
    return RENDERERS["html"].render(Report("t", "0", sections=sections), RenderOptions())


def kernels(count: int, names: int = 7) -> Timeline:
    """Kernels of 40 ns every 100 ns on two streams; several inputs would have the same ids."""
    rows = (
        {"ts_ns": 100 * i, "dur_ns": 40 + i % 3, "name": f"k{i * i % names}", "device": 0, "stream": i % 2}
        for i in range(count)
    )
    return figure_of(trace(*({**row, "event_id": i % 50} for i, row in enumerate(rows))))


@pytest.mark.parametrize("name", WITH_EVENTS)
def test_every_mark_is_the_rows_of_its_finding(name: str) -> None:
    report = pipeline.report(read_once(sample(name)))
    figures = [figure for section in report.sections for figure in section.figures if isinstance(figure, Timeline)]
    findings = [finding for section in report.sections for finding in section.findings]
    if not figures or not findings:
        return
    text = pipeline.render(report, "html")
    marks = read_page(text).head["marks"]
    order = figures[0].events.order
    for mark, places in zip(marks, places_of(text), strict=True):
        events = findings[mark["row"] - 1].events
        assert isinstance(events, FindingEvents)
        assert events.rows is not None
        assert mark["n"] == len(places)
        assert mark.get("all", mark["n"]) == events.rows.size
        drawn = np.sort(order[places])
        assert np.array_equal(drawn, np.intersect1d(events.rows, order))


@pytest.mark.parametrize("every", [1, 2, 3, 7, 50])
def test_a_mark_of_many_events_is_all_of_them(every: int) -> None:
    figure = kernels(3000)
    rows = np.arange(0, 3000, every)
    by_name = np.flatnonzero(figure.events.names == figure.events.names[4])
    late = np.append(by_name[by_name > 1500], 3)  # a name, from a time on, and one event more
    found = places_of(html_of(figure, rows, by_name, late))
    for places, wanted in zip(found, (rows, by_name, late), strict=True):
        assert sorted(figure.events.order[places].tolist()) == np.sort(wanted).tolist()


def test_a_mark_without_a_rule_has_the_longest_events_and_says_of_how_many() -> None:
    figure = kernels(60_000)
    rows = np.flatnonzero(np.random.default_rng(5).integers(0, 2, 60_000))
    text = html_of(figure, rows)
    (places,), (mark,) = places_of(text), read_page(text).head["marks"]
    assert mark["all"] == rows.size > mark["n"] == len(places) > 1000
    part = re.search(r'class="tl-mark"[^>]*>([^<]*)<', text)
    assert part
    assert len(part[1]) <= MARK_BYTES
    drawn = figure.events.order[places]
    assert set(drawn.tolist()) <= set(rows.tolist())
    others = np.setdiff1d(rows, drawn)
    assert figure.events.lengths[drawn].min() >= figure.events.lengths[others].max()


def test_marks_of_half_a_million_events_take_a_few_kb() -> None:
    figure = kernels(500_000)
    by_name = np.flatnonzero(figure.events.names <= 2)
    plain, marked = html_of(figure), html_of(figure, np.arange(500_000), by_name)
    assert len(marked) - len(plain) < 6_000
    assert [len(places) for places in places_of(marked)] == [500_000, by_name.size]


HELP = """
    while (!window.tracekit?.timeline) await new Promise((done) => setTimeout(done, 5));
    await tracekit.timeline.ready;
    const T = tracekit.timeline, pause = (ms) => new Promise((done) => setTimeout(done, ms));
    const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
"""


def opened(path: Path, script: str, **options: Any) -> Any:
    page = chromium_page(path, script=f"(async () => {{ {HELP} {script} }})()", **options)
    assert (page.console, page.page_errors, page.requests, page.overflow_px) == ([], [], [], 0)
    return page.value


@pytest.mark.viewer
@pytest.mark.parametrize("width", [1300, 420])
def test_the_strip_is_drawn_where_events_are_and_nowhere_else_at_every_zoom(tmp_path: Path, width: int) -> None:
    figure = kernels(2125)
    rows = np.append(np.arange(0, 700), np.arange(1900, 2125, 25))  # in two parts, with a gap of 120 us
    path = tmp_path / "page.html"
    path.write_text(html_of(figure, rows), encoding="utf-8")
    script = """
        const { axis } = T.parts.canvases, { ratio, left } = T.picture(), out = [];
        const { places } = await T.data.markOf(0);
        for (const wanted of [[0, 212600], [60000, 80000], [188000, 200000], [69800, 70200], [100000, 150000]]) {
            T.show(...wanted); await frame();
            const { t0: a, t1: b } = T.view;
            const w = axis.width - left, y = axis.height - Math.round(6 * ratio);
            const copy = new OffscreenCanvas(w, 1).getContext("2d"), per = (b - a) / w;
            copy.drawImage(axis, left, y, w, 1, 0, 0, w, 1);
            const line = copy.getImageData(0, 0, w, 1).data, ground = hexOf(T.parts.size().color.bg);
            let drawn = 0, missed = 0, false_ = 0;
            for (let c = 1; c < w - 1; c++) {
                const is = [0, 1, 2].some((k) => Math.abs(line[4 * c + k] - ground[k]) > 12);
                // a column may differ from its neighbour by rounding
                const at = (from, to) => places.some((i) => T.start[i] < a + to * per && T.end(i) > a + from * per);
                drawn += is;
                if (is && !at(c - 1, c + 2)) false_++;
                if (!is && at(c + 0.01, c + 0.99)) missed++;
            }
            out.push([drawn > 0, missed, false_]);
        }
        function hexOf(text) { return [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)); }
        return out;
    """
    found = opened(path, script, width=width)
    assert found == [[True, 0, 0], [True, 0, 0], [True, 0, 0], [True, 0, 0], [False, 0, 0]]


@pytest.mark.viewer
def test_the_button_of_a_finding_leads_to_all_its_events(tmp_path: Path) -> None:
    figure = kernels(2125)
    path = tmp_path / "page.html"
    path.write_text(html_of(figure, np.arange(2125)), encoding="utf-8")
    script = """
        T.show(100, 2000);
        document.querySelector("[data-finding]").click();
        await pause(900);
        const { t0, t1 } = T.view, said = document.querySelector(".tl-card").textContent;
        return [T.marked.total, t0 <= 0, t1 >= 212400, said, location.hash];
    """
    total, begin, end, said, address = opened(path, script)
    assert (total, begin, end) == (2125, True, True)
    assert "2,125 events" in said
    assert "mark=0" in address

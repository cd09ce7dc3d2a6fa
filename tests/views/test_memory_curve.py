"""Curves of memory over time: every column, what is counted and what the file gives, and what the page draws."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from render.reports import HOSTILE
from support import corpus, sample
from viewers import chromium_page
from views.tables import on_trace, trace

from tracekit.api import read
from tracekit.model.report import Curve, Report, Section, StackedCurve
from tracekit.model.trace import Run, SourceFacts
from tracekit.model.units import Unit
from tracekit.pipeline import render
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

MEMORY = on_trace(VIEWS["memory"])
COLUMNS = 200


def row(at: int, size: int, name: str = "[memory]", device: int | None = 0, **args: Any) -> dict[str, Any]:
    more = {"device": device, "args": json.dumps(args) if args else None}
    return {"name": name, "kind": "memory", "ts_ns": at, "bytes": size, "pid": 1, "tid": 7, **more}


def curves(*rows: dict[str, Any]) -> list[Curve]:
    return [each for each in MEMORY(trace(*rows), ViewOptions()).figures if isinstance(each, Curve)]


def test_the_total_is_counted_from_the_first_row_and_held_until_the_next() -> None:
    assert curves(row(10, 100), row(12, 50), row(12, -120), row(15, -40)) == [
        Curve(
            "Memory over time, GPU 0",
            Unit.BYTES,
            [0, 1, 2, 3, 4, 5, 6],
            ["allocated"],
            [[100, 100, 150, 30, 30, -10]],
            "counted from the first row on: allocated",
        )
    ]


def test_running_values_of_the_file_are_the_totals_and_need_no_counting() -> None:
    rows = (
        row(0, 8, **{"Total Allocated": 108, "Total Reserved": 512}),
        row(2, -8, **{"Total Allocated": 100, "Total Reserved": 512}),
        row(3, 4, **{"Total Allocated": 104, "Total Reserved": 1024}),
    )
    [found] = curves(*rows)
    assert (found.layers, found.remark) == (["allocated", "reserved"], "")
    assert found.values == [[108, 108, 100, 104], [512, 512, 512, 1024]]


def test_each_device_and_each_kind_of_memory_has_a_total_of_its_own() -> None:
    rows = (
        row(0, 10, mem_type="Device"), row(1, 5, mem_type="Pinned"), row(2, -10, mem_type="Device"),
        row(0, 7, device=1), row(1, -7, device=1), row(0, 9, "ReservedAllocate", device=1),
    )  # fmt: skip
    first, second = curves(*rows)
    assert first.layers == ["allocated, Device", "allocated, Pinned"]
    assert first.values == [[10, 10, 0], [None, 5, 5]]
    assert (second.title, second.layers) == ("Memory over time, GPU 1", ["allocated", "reserved"])
    assert second.values == [[7, 0], [9, 9]]


def test_inputs_without_starts_have_no_curve() -> None:
    run = Run(origin_ns=0, sources=[SourceFacts("a", "f", synthetic_time=True), SourceFacts("b", "f")])
    rows = [row(0, 10), row(5, 10), {**row(0, 7, device=1), "source": 1}, {**row(5, 1, device=1), "source": 1}]
    found = MEMORY(trace(*rows, run=run), ViewOptions()).figures
    assert [(each.title.split(" · ")[-1], each.values[0][-1]) for each in found if isinstance(each, Curve)] == [
        ("GPU 1", 8)
    ]
    assert MEMORY(trace(*rows[:2], run=run), ViewOptions()).figures == ()


def test_a_trace_without_times_or_without_memory_has_no_curve() -> None:
    assert curves(row(5, 8), row(5, -8)) == []
    assert curves(row(5, 0), row(9, 0)) == []
    assert curves({"ts_ns": 0, "dur_ns": 5, "device": 0}) == []


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(-99, 99)), min_size=1, max_size=30).map(
        lambda rows: sorted(rows, key=lambda each: each[0])
    )
)
def test_every_column_has_the_greatest_total_within_it(rows: list[tuple[int, int]]) -> None:
    found = curves(*(row(at, size) for at, size in rows))
    totals = [(at, sum(size for _, size in rows[: place + 1])) for place, (at, _) in enumerate(rows)]
    if rows[0][0] == rows[-1][0] or not any(total for _, total in totals):
        assert found == []
        return
    [curve] = found
    origin = rows[0][0]
    assert (curve.edges[0], curve.edges[-1]) == (0, rows[-1][0] + 1 - origin)
    assert len(curve.edges) - 1 == min(COLUMNS, curve.edges[-1])
    ends = dict(totals)  # the last total of each time
    for column, (low, high) in enumerate(zip(curve.edges, curve.edges[1:], strict=False)):
        assert low < high
        within = [total for at, total in totals if low <= at - origin < high]
        if low + origin not in ends:
            within.append(ends[max(at for at in ends if at - origin < low)])
        assert curve.values[0][column] == max(within)


@pytest.mark.parametrize("torch", [True, False])
def test_the_highest_column_of_a_real_trace_is_at_most_the_peak_of_the_table(torch: bool) -> None:
    found_in = sample("paddle-pb/paddle3-memory.paddle_trace.pb")
    section = MEMORY(read(corpus("generated/torch/sched1.pt.trace.json") if torch else found_in), ViewOptions())
    found = [each for each in section.figures if isinstance(each, Curve)]
    table = next(each for each in section.tables if each.name == "memory")
    names, types, peaks = (table.column(key).values for key in ("name", "type", "peak"))
    told = {(name, kind): peak for name, kind, peak in zip(names, types, peaks, strict=True)}
    assert found
    for curve in found:
        if isinstance(curve, StackedCurve):
            continue  # its layers are no rows of this table
        for layer, values in zip(curve.layers, curve.values, strict=True):
            most = max(value for value in values if value is not None)
            peak = told[curve.title.removeprefix("Memory over time, "), layer]
            assert isinstance(peak, int)
            assert 0 < most <= peak


def hostile() -> Report:
    names = list(HOSTILE[:12])
    values = [[None, 100 * place, 50, 50] for place in range(len(names))]
    figure = Curve("<b>&", Unit.BYTES, [0, 10, 20, 30, 40], names, values, "<i>")
    return Report("t", "0", sections=(Section("memory", "Memory", figures=(figure,)),))


def test_every_form_takes_a_curve_and_text_of_the_trace_is_escaped_on_the_page() -> None:
    page = render(hostile(), "html")
    assert HOSTILE[0] not in page
    titles = [unescape(each) for each in re.findall(r"<rect [^>]*><title>([^<]*)</title>", page)]
    assert [each.split(": ")[0] for each in titles] == ["0 ns to 9 ns", "10 ns to 19 ns", "20 ns to 39 ns"]
    assert titles[0] == "0 ns to 9 ns: not known"
    assert "<img src=x onerror=alert(1)> 50 bytes" in titles[2]
    text = " ".join(render(hostile(), "text").split())
    assert "curve <b>& (bytes), 12 totals: drawn in the html report <i>" in text
    for form in ("markdown", "csv", "json"):
        render(hostile(), form)


@pytest.mark.viewer
def test_the_page_draws_each_curve_without_an_error_at_both_widths_and_schemes(tmp_path: Path) -> None:
    rows = [row(100 * n, (1 << 20) * (1 if n % 3 else -1), **{"Total Reserved": 1 << 29}) for n in range(300)]
    report = Report("t", "0", sections=(MEMORY(trace(*rows), ViewOptions()), *hostile().sections))
    path = tmp_path / "page.html"
    path.write_text(render(report, "html"), encoding="utf-8")
    script = """[...document.querySelectorAll(".pic-curve")].map((figure) => [
      figure.querySelectorAll("path[fill]").length, figure.querySelectorAll("img, script").length,
      figure.querySelector("svg").getBoundingClientRect().height > 50])"""
    for width in (420, 1300):
        for scheme in ("light", "dark"):
            shot = tmp_path / f"{width}.png"
            seen = chromium_page(path, width=width, scheme=scheme, script=script, screenshot=shot)
            assert (seen.console, seen.page_errors, seen.requests, seen.overflow_px) == ([], [], [], 0)
            assert seen.value == [[2, 0, True], [12, 0, True]]

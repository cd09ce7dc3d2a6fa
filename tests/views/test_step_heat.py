"""The heat map of the steps: every cell, its median, how steps are matched, and what the page draws."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from statistics import median_low
from typing import Any

import pytest
from doors.pages import heat_map, shade
from doors.pages import steps_heat as _heat
from hypothesis import given
from hypothesis import strategies as st
from render.reports import HOSTILE
from viewers import chromium_page
from views.tables import dicts, on_trace, trace

from tracekit.model.report import Heat, Report, Section
from tracekit.model.trace import Run, SourceFacts
from tracekit.model.units import Unit
from tracekit.pipeline import render
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

STEPS = on_trace(VIEWS["steps"])


def steps(rank: int, times: dict[int, int], **more: Any) -> list[dict[str, Any]]:
    """Return the steps of a rank, {number: time}, one after the other."""
    rows, at = [], 0
    for number, time in times.items():
        rows.append({"kind": "step", "name": "s", "ts_ns": at, "dur_ns": time, "rank": rank, "step": number, **more})
        at += time + 1
    return rows


def heat_of(*rows: dict[str, Any]) -> Heat | None:
    found = [each for each in STEPS(trace(*rows), ViewOptions()).figures if isinstance(each, Heat)]
    assert len(found) <= 1
    return found[0] if found else None


def test_a_cell_is_the_time_of_a_step_on_a_rank_beside_the_median_of_the_ranks() -> None:
    found = heat_of(*steps(0, {1: 100, 2: 90}), *steps(1, {1: 160, 2: 100, 3: 70}), *steps(2, {1: 101, 3: 71}))
    assert found == Heat(
        "Step time by rank",
        Unit.NS,
        ["rank 0", "rank 1", "rank 2"],
        ["step 1", "step 2", "step 3"],
        [100, 90, None, 160, 100, 70, 101, None, 71],
        [101, 90, None, 101, 90, 70, 101, None, 70],
    )
    assert [cells for _, cells in heat_map(found).rows] == [
        (("c", "step 1: 100 ns (median 101 ns)"), ("c", "step 2: 90 ns (median 90 ns)"), ("n", "step 3: none")),
        (
            ("f", "step 1: 160 ns (median 101 ns)"),
            ("d", "step 2: 100 ns (median 90 ns)"),
            ("c", "step 3: 70 ns (median 70 ns)"),
        ),
        (("c", "step 1: 101 ns (median 101 ns)"), ("n", "step 2: none"), ("c", "step 3: 71 ns (median 70 ns)")),
    ]


def test_one_rank_alone_has_no_heat_map() -> None:
    assert heat_of(*steps(0, {1: 100, 2: 90})) is None
    assert heat_of(*steps(0, {1: 100}), {"ts_ns": 0, "dur_ns": 5, "rank": 1}) is None


def test_steps_are_matched_by_place_where_a_number_repeats_or_is_missing() -> None:
    again = steps(0, {7: 10}) + [{**row, "ts_ns": 50} for row in steps(0, {7: 20})]
    for rows in ([*again, *steps(1, {7: 30})], [*again[:1], {**again[1], "step": None}, *steps(1, {8: 30})]):
        found = heat_of(*rows)
        assert found is not None
        assert (found.columns, found.values) == (["step at place 0", "step at place 1"], [10, 20, 30, None])
        assert found.remark == "steps are matched by their place in each rank: numbers are missing or repeat"


def test_ranks_and_steps_that_share_a_cell_show_the_greatest_step_time() -> None:
    rows = [
        {"kind": "step", "name": "s", "ts_ns": 1000 * n, "dur_ns": 100 + (rank == 129) * n, "rank": rank, "step": n}
        for rank in range(130)
        for n in range(250)
    ]
    found = heat_of(*rows)
    assert found is not None
    assert (len(found.rows), len(found.columns)) == (_heat.MOST_ROWS, _heat.MOST_COLUMNS)
    assert found.remark == "a cell is the greatest step time of up to 3 ranks and 3 steps"
    assert (found.rows[0], found.rows[-1]) == ("rank 0 to rank 1", "rank 127 to rank 129")
    assert (found.columns[0], found.columns[-1]) == ("step 0 to step 1", "step 247 to step 249")
    last = found.values[-_heat.MOST_COLUMNS :]
    assert last == [100 + 250 * (block + 1) // 120 - 1 for block in range(120)]
    assert set(found.values[: -_heat.MOST_COLUMNS]) == {100}
    assert set(found.levels) == {100}


@given(
    st.dictionaries(
        st.integers(0, 6), st.dictionaries(st.integers(0, 9), st.integers(0, 99), min_size=1), min_size=2, max_size=5
    )
)
def test_every_cell_is_in_the_table_of_each_step_and_the_median_is_that_of_plain_python(
    times: dict[int, dict[int, int]],
) -> None:
    rows = [row for rank, each in times.items() for row in steps(rank, each)]
    section = STEPS(trace(*rows), ViewOptions())
    found = next(each for each in section.figures if isinstance(each, Heat))
    numbers = sorted({number for each in times.values() for number in each})
    assert found.columns == [f"step {number}" for number in numbers]
    ranks = sorted(times)
    assert found.values == [times[rank].get(number) for rank in ranks for number in numbers]
    medians = {n: median_low([each[n] for each in times.values() if n in each]) for n in numbers}
    assert found.levels == [medians[n] if n in times[rank] else None for rank in ranks for n in numbers]
    told = {(row["owner"], row["step"]): row["time"] for row in dicts(section.tables[1])}
    drawn = {(f"rank {rank}", n): time for rank, each in times.items() for n, time in each.items()}
    assert told == drawn


def test_shades_have_exact_limits() -> None:
    limits = {79: "a", 80: "a", 81: "b", 95: "b", 96: "c", 104: "c", 105: "d", 119: "d", 120: "e", 149: "e", 150: "f"}
    assert {value: shade(value, 100) for value in limits} == limits
    assert (shade(0, 0), shade(1, 0), shade(0, 1), shade(5, None), shade(None, 5)) == ("c", "f", "a", "c", "n")
    assert shade(3 * (1 << 61), 1 << 62) == "f"
    assert shade(3 * (1 << 61) - 1, 1 << 62) == "e"


def hostile() -> Report:
    names = [*HOSTILE[:20], "rank " + "long" * 100]
    cells = [100 + 7 * place for place in range(len(names) * 30)]
    figure = Heat("<b>&", Unit.NS, names, names[::-1] + names[:9], cells, [150] * len(cells), "<i>")
    return Report("t", "0", sections=(Section("steps", "Steps", figures=(figure,)),))


def test_every_form_takes_a_heat_map_and_text_of_the_trace_is_escaped_on_the_page() -> None:
    page = render(hostile(), "html")
    assert HOSTILE[0] not in page
    titles = re.findall(r'<td class="[a-f]" title="([^"]*)"></td>', page)
    assert len(titles) == 21 * 30
    assert "<img src=x onerror=alert(1)>: 240 ns (median 150 ns)" in map(unescape, titles)
    line = "heat map <b>& (ns), 21 rows, 30 columns: drawn in the html report"
    assert line in " ".join(render(hostile(), "text").split())
    for form in ("markdown", "csv", "json"):
        render(hostile(), form)


@pytest.mark.viewer
def test_the_page_draws_every_cell_without_an_error_at_both_widths_and_schemes(tmp_path: Path) -> None:
    rows = [row for rank in range(70) for row in steps(rank, {n: 100 + (rank * n) % 90 for n in range(130)})]
    run = Run(origin_ns=0, sources=[SourceFacts("x/<script>a", "f")])
    section = STEPS(trace(*rows, run=run), ViewOptions())
    report = Report("t", "0", sections=(section, *hostile().sections))
    path = tmp_path / "page.html"
    path.write_text(render(report, "html"), encoding="utf-8")
    script = """[...document.querySelectorAll(".heat")].map((figure) => {
      const boxes = [...figure.querySelectorAll("td")].map((cell) => cell.getBoundingClientRect());
      const seen = boxes.every((box) => box.width > 1 && box.height > 4);
      return [boxes.length, seen, figure.querySelectorAll("img, script").length];
    })"""
    for width in (420, 1300):
        for scheme in ("light", "dark"):
            seen = chromium_page(path, width=width, scheme=scheme, script=script)
            assert (seen.console, seen.page_errors, seen.requests, seen.overflow_px) == ([], [], [], 0)
            assert seen.value == [[64 * 120, True, 0], [21 * 30, True, 0]]

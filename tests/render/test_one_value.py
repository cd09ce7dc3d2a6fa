"""One quantity has one value on every screen of a run: the page, the first screen, the text of all views, the tables.

Every figure is collected where it is shown, with the words beside it: whose it is, what it is, and of which window.
Those with the same words must have the same value; a window without words is an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from html import unescape
from itertools import pairwise

import pytest
from support import SAMPLES, read_sample

from tracekit import pipeline
from tracekit.model.report import Curve, Report, ReportTable, Series
from tracekit.model.timeline import Timeline
from tracekit.model.units import Unit, format_bytes
from tracekit.render.base import RenderOptions
from tracekit.views.headline.content import OF_THREADS, WITHOUT_THREAD

EVERY = sorted(
    path.relative_to(SAMPLES).as_posix()
    for path in SAMPLES.glob("*/*")
    if path.is_file() and not path.name.startswith("_") and path.suffix != ".md"
)
SCALE = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
SAME_PART = {
    "exposed communication": "exposed comm",
    "exposed_comm": "exposed comm",
    "exposed_copies": "exposed copies",
}
Words = tuple[str, str, str]
"""Whose, what, and of which window."""
Shown = tuple[Decimal, Decimal, str]
"""A value, by how much rounding may have changed it, and where it is shown."""
TIME = r"(?P<value>[\d,]+(?:\.\d+)?) (?P<unit>ns|us|ms|s|min)"


def part_of(label: str) -> str:
    return SAME_PART.get(label, label)


def time_of(found: re.Match[str]) -> tuple[Decimal, Decimal]:
    """Return the ns of a time in words, and what its last digit may hide."""
    value = Decimal(found["value"].replace(",", ""))
    last = Decimal(10) ** int(value.as_tuple().exponent)
    exact = Decimal(0) if found["unit"] == "ns" else last * SCALE[found["unit"]]
    return value * SCALE[found["unit"]], exact


def of_the_page(page: str) -> Iterator[tuple[Words, Shown]]:
    """Yield the parts of the bars of device time in the page, which has them to the ns."""
    for box in re.findall(r'<div class="share" role="group".*?</ul>', page, re.DOTALL):
        title = unescape(re.search(r'aria-label="(.*?): [^:"]*"', box)[1])
        whose, _, window = title.rpartition(", ")
        for name, ns in re.findall(r'data-part="(\w+)" data-ns="([\d,]+) ns"', box):
            if not name.startswith(("name", "others")):
                yield (whose, part_of(name), window), (Decimal(ns.replace(",", "")), Decimal(0), "page")


def of_the_first_screen(text: str) -> Iterator[tuple[Words, Shown]]:
    """Yield the parts of device time, as a terminal shows them."""
    whose = window = ""
    for line in text.splitlines():
        if title := re.match(rf"(\S.*), (of the \w+): {TIME}$", line):
            whose, window = title[1], title[2]
        elif not line.startswith("  "):
            whose = ""
        elif whose:
            for part in re.finditer(rf"  (\w[\w ]*?) +[<>]?[\d.]+ % +{TIME}", line):
                yield (whose, part_of(part[1]), window), (*time_of(part), "first screen")


def of_the_text(text: str) -> Iterator[tuple[Words, Shown]]:
    """Yield the parts of the bars below the tables of all views."""
    whose = window = ""
    for line in text.splitlines():
        if title := re.match(r"  Time of (.*?)(?:, (of the \w+))?$", line):
            whose, window = title[1], title[2] or ""
        elif whose and (part := re.match(rf"  ([\w ]+): {TIME}", line)):
            yield (whose, part_of(part[1]), window), (*time_of(part), "text")
        else:
            whose = ""


def of_the_tables(report: Report) -> Iterator[tuple[Words, Shown]]:
    """Yield the cells of the breakdown, and the sum of the gaps of each device."""
    for section in report.sections:
        for table in section.tables:
            if (section.view, table.name) == ("breakdown", "devices"):
                yield from _breakdown(table)
            if (section.view, table.name) == ("idle", "causes"):
                gaps: dict[str, int] = defaultdict(int)
                for name, ns in zip(owners(table), table.column("total").values, strict=True):
                    gaps[str(name)] += int(ns or 0)
                for whose, total in gaps.items():
                    window = table.title.rpartition(", ")[2]
                    yield (whose, "idle", window), (Decimal(total), Decimal(0), "idle")


def owners(table: ReportTable) -> list[str]:
    """Return the device of each row, with its rank, process and input where the table has columns for them."""
    columns = [column for column in table.columns if column.name in ("rank", "pid", "run", "source", "owner")]
    places = list(zip(*(column.values for column in columns), strict=True)) or [()] * len(table)
    names = table.column("name").values
    return [" ".join(map(str, (*place, name))) for place, name in zip(places, names, strict=True)]


def _breakdown(table: ReportTable) -> Iterator[tuple[Words, Shown]]:
    for name in ("compute", "exposed_comm", "exposed_copies", "idle"):
        for whose, ns in zip(owners(table), table.column(name).values, strict=True):
            if isinstance(ns, int):
                yield (
                    (str(whose), part_of(name), table.title.rpartition(", ")[2]),
                    (Decimal(ns), Decimal(0), "breakdown"),
                )


@cache
def report_of(name: str) -> Report:
    return pipeline.report(read_sample(name))


def figures(name: str) -> dict[Words, list[Shown]]:
    report = report_of(name)
    found: dict[Words, list[Shown]] = defaultdict(list)
    for words, shown in (
        *of_the_page(pipeline.render(report, "html")),
        *of_the_first_screen(pipeline.first_screen(pipeline.summary(read_sample(name)), RenderOptions(width=120))),
        *of_the_text(pipeline.render(report, "text")),
        *of_the_tables(report),
    ):
        found[words].append(shown)
    return found


@pytest.mark.parametrize("name", EVERY)
def test_times_with_the_same_words_are_the_same_wherever_they_are_shown(name: str) -> None:
    found = figures(name)
    for (whose, what, window), shown in found.items():
        assert window in ("of the run", "of the steps"), (whose, what, shown)
        for (one, rounded, here), (other, also, there) in pairwise(shown):
            assert abs(one - other) <= rounded + also, (whose, what, window, here, one, there, other)


def test_all_places_are_looked_at_and_a_window_of_steps_is_not_that_of_the_run() -> None:
    found = figures("kineto/gpu.pt.trace.json")
    device = "GPU 0 Tesla P100-PCIE-16GB"
    assert {shown[2] for shown in found[device, "idle", "of the steps"]} == {"page", "first screen"}
    assert {shown[2] for shown in found[device, "idle", "of the run"]} == {"text", "breakdown", "idle"}
    assert found[device, "idle", "of the steps"][0][0] != found[device, "idle", "of the run"][0][0]


@pytest.mark.parametrize("name", EVERY)
def test_names_have_one_share_and_steps_one_median(name: str) -> None:
    report = report_of(name)
    headline = report.headline
    assert headline is not None
    sections = {section.view: section for section in report.sections}
    for top in filter(None, (headline.top, headline.below)):
        if top.title in (OF_THREADS, WITHOUT_THREAD):
            continue  # a share of these ranges alone, as the title says; the table has that of all ranges
        tables = [t for t in sections[top.view].tables if "ratio" in t.column_names() and not top.printed]
        ratios = defaultdict(set)
        for table in tables:
            share = "self_ratio" if top.column == "self" and "self_ratio" in table.column_names() else "ratio"
            for label, ratio, ns in zip(
                *(table.column(column).values for column in ("name", share, top.column)), strict=True
            ):
                ratios[str(label), ns].add(round(ratio, 9) if isinstance(ratio, float) else None)
        for each in top.names:
            there = ratios.get((each.name, each.ns))
            blocks = {"owner", "run", "section", "source", "thread"} & {c for t in tables for c in t.column_names()}
            # Of a table with blocks the first screen quotes one, or the ranks together.
            assert not there or blocks or round(each.share or 0, 9) in there, (top.view, each, there)
    if headline.step is not None and headline.step.owners == 1:
        levels = [level for f in sections["steps"].figures if isinstance(f, Series) for level in f.levels]
        assert {value for word, value in levels if word == "median"} <= {headline.step.median_ns}


@pytest.mark.parametrize("name", [name for name in EVERY if name.startswith(("torch-memory", "kineto", "paddle"))])
def test_a_peak_of_memory_is_the_same_in_table_curve_track_and_first_screen(name: str) -> None:
    report = report_of(name)
    sections = {section.view: section for section in report.sections}
    tables = {table.name: table for table in sections["memory"].tables}
    if "memory" not in tables or "peak" not in tables["memory"].column_names():
        return
    table = tables["memory"]
    columns = (table.column(column).values for column in ("name", "type", "peak"))
    peaks = {(str(place), str(kind)): peak for place, kind, peak in zip(*columns, strict=True)}
    for curve in (each for each in sections["memory"].figures if isinstance(each, Curve)):
        place = curve.title.removeprefix("Memory over time, ")
        for layer, values in zip(curve.layers, curve.values, strict=True):
            peak = peaks.get((place, layer))
            most = max(v for v in values if v is not None)
            # Paddle's own peak may be from before the trace, and the curve says so.
            assert peak in (most, None) or f"{layer}: the file gives a peak of {format_bytes(peak)}" in curve.remark
    for figure in sections["timeline"].figures:
        for track in figure.counters if isinstance(figure, Timeline) else ():
            if track.label in ("memory allocated", "memory reserved") and track.group:
                peak = peaks[track.group, track.label.removeprefix("memory ")]
                assert int(track.values.max()) == peak, track.label
    lead = report.headline.figure if report.headline is not None else None
    if lead is not None and lead.unit is Unit.BYTES:
        kind, place = lead.after.split(" on ")
        assert lead.value == peaks[place.removeprefix("an "), kind]
        assert format_bytes(lead.value) in pipeline.first_screen(pipeline.summary(read_sample(name)))

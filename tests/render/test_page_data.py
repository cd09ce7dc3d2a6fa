"""The data of a page: what goes in comes back, and a page from anywhere does no harm."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from render.reports import reports, sample

from tracekit.errors import ParseError
from tracekit.model.change import ChangeInterval, ChangeIntervals, ChangeVerdict, PartOfChange, Waterfall
from tracekit.model.report import (
    Bar,
    Column,
    Curve,
    Evidence,
    Finding,
    Flame,
    Heat,
    Report,
    ReportTable,
    Section,
    Series,
    StackedCurve,
)
from tracekit.model.units import Unit
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions
from tracekit.render.page.data import PAGE_HEAD, is_page, packed, report_in


def rendered(report: Report, form: str = "html") -> str:
    return RENDERERS[form].render(report, RenderOptions())


def forged(data: object, **more: str) -> bytes:
    """A page whose data is well packed and hashed, but ours."""
    text = data if isinstance(data, str) else json.dumps(data)
    body = base64.b64encode(zlib.compress(text.encode())).decode()
    return page_with(body, hashlib.sha256(body.encode()).hexdigest(), **more)


def page_with(body: str, sha256: str, *, form: str = "1") -> bytes:
    return (
        '<!doctype html>\n<meta name="generator" content="tracekit 9.9">\n<script type="text/plain" id="report-data" '
        f'data-format="{form}" data-sha256="{sha256}">{body}</script></html>\n'
    ).encode()


def a_report() -> Report:
    finding = Finding(
        "idle", "rank 1", "it waits",
        (Evidence("kernel.k.total", (1 << 60) + 1, Unit.NS), Evidence("a.b", None, Unit.TEXT)),
        (1, 2), 5, math.nan, "high", "because", "advice", "check",
    )  # fmt: skip
    figures = (
        Bar("Time", Unit.NS, (("a", 1 << 60), ("b", 2))),
        Series("Steps", Unit.NS, ("1", "2"), (1, None), (("median", 1.5),), ((0, "first"),)),
        Curve("Held", Unit.BYTES, (0, 1, 1 << 60), ("a", "b"), ((1, None), (1 << 60, -2)), "r"),
        StackedCurve("Held by what", Unit.BYTES, (0, 1, 2), ("a", "b"), ((1, 0), (2, 3))),
        Flame("Calls", ("a", "b", "\x1b", ""), (-1, 0, 1, -1), (1, 0, 2, 3), (5, 6, 7, 1 << 60), "more"),
        Flame("Samples of \x07", ("a",), (-1,), (), (1,), unit="samples", order=(0, 0), lengths=(1, 0)),
        ChangeVerdict("NEW is 5 % slower", "slower", "why"),
        ChangeIntervals("t", (ChangeInterval("m", Unit.NS, 1, 2, 1.0, None, 2.0, "slower", "x"),), "r"),
        Waterfall("t", "w", 3, 5, (PartOfChange("p", 3, 5, "", (PartOfChange("q", 3, 5, "renamed"),)),)),
        Heat("Ranks", Unit.NS, ("0", "1"), ("s",), (1 << 60, None), (7, None), "r"),
    )
    found = Section("findings", "Findings", figures=figures, findings=(finding,))
    return replace(sample(), sections=(sample().sections[0], found), incomplete=("rows are lost",))


@pytest.mark.parametrize("form", ["json", "csv"])
@given(report=reports())
@settings(max_examples=30)
def test_any_report_comes_back_from_its_page_with_every_number(form: str, report: Report) -> None:
    page = rendered(report).encode()
    assert is_page(page[:PAGE_HEAD])
    assert rendered(report_in(page, "p"), form) == rendered(report, form)


def test_findings_bars_and_series_come_back() -> None:
    report = a_report()
    back = report_in(rendered(report).encode(), "p")
    assert rendered(back, "json") == rendered(report, "json")
    assert back.sections[-1].figures == report.sections[-1].figures
    assert back.incomplete == report.incomplete
    assert back.facts == report.facts


def test_a_text_is_in_the_data_once() -> None:
    long = "".join(chr(33 + (i * i) % 90) for i in range(3000))
    tables = tuple(ReportTable(f"t{i}", "T", (Column("name", "N", Unit.TEXT, [long] * 40),)) for i in range(5))
    one = len(packed(Report("r", "0", sections=(Section("v", "V", tables[:1]),))).text)
    five = len(packed(Report("r", "0", sections=(Section("v", "V", tables),))).text)
    assert five < one + 400


def test_a_page_of_the_form_before_comes_back() -> None:
    """It has the names and parents of flame graphs in full."""
    flame = Flame("Calls", ["a", "b", "a"], [-1, 0, 1], [1, 0, 2], [5, 6, 7])
    report = Report("r", "0", sections=(Section("v", "V", figures=(flame,)),))
    body = json.loads(zlib.decompress(base64.b64decode(packed(report).text)))
    (figure,) = body["report"]["sections"][0]["figures"]
    figure["names"] = list(flame.names)
    figure["parents"] = list(flame.parents)
    for name in ("up", "order", "lengths"):
        del figure[name]
    (read,) = report_in(forged(body, form="1"), "p.html").sections[0].figures
    assert isinstance(read, Flame)
    assert (list(read.names), list(read.parents)) == (flame.names, flame.parents)


def with_flame(**changed: object) -> dict[str, object]:
    """The data of a page with one flame graph, whose columns are ours."""
    flame = Flame("Calls", ["a", "b"], [-1, 0], [], [5, 6], unit="ns")
    report = Report("r", "0", sections=(Section("v", "V", figures=(flame,)),))
    body: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed(report).text)))
    body["report"]["sections"][0]["figures"][0].update(changed)
    return body


CASES = {
    "another tool": (b"<!doctype html><html><title>x</title></html>", "another tool"),
    "no data": (b'<!doctype html><meta name="generator" content="tracekit 0.1"></html>', "no data to read back"),
    "newer": (page_with("", "0" * 64, form="3"), "made by tracekit 9.9, whose data this version cannot read"),
    "changed": (page_with("AAAA", "0" * 64), "changed after it was written"),
    "no base64": (page_with("!", hashlib.sha256(b"!").hexdigest()), "damaged"),
    "no deflate": (page_with("AAAA", hashlib.sha256(b"AAAA").hexdigest()), "damaged"),
    "no json": (forged("{"), "damaged"),
    "deep": (forged("[" * 200_000), "damaged"),
    "a huge number": (forged('{"texts": [], "report": 1' + "0" * 6000 + "}"), "damaged"),
    "a list": (forged([]), "damaged"),
    "no report": (forged({"texts": []}), "damaged"),
    "a wrong report": (forged({"texts": [], "report": {"title": 1}}), "damaged"),
    "a parent behind its call": (forged(with_flame(up=[1, 0])), "damaged"),
    "a parent before all": (forged(with_flame(up=[1, 9])), "damaged"),
    "a name that is no text": (forged(with_flame(names=[0, 7])), "damaged"),
    "names that are no list": (forged(with_flame(names=5)), "damaged"),
    "an order of other calls": (forged(with_flame(order=[2], lengths=[1])), "damaged"),
    "an order without lengths": (forged(with_flame(order=[1])), "damaged"),
    "more calls than times": (forged(with_flame(new=[5])), "damaged"),
    "texts of numbers": (forged({"texts": [1], "report": {}}), "damaged"),
}


@pytest.mark.parametrize(("page", "words"), CASES.values(), ids=CASES)
def test_a_page_that_holds_no_report_costs_one_sentence(page: bytes, words: str) -> None:
    with pytest.raises(ParseError, match=words) as caught:
        report_in(page, "p.html")
    assert str(caught.value).startswith("p.html: ")
    assert "\n" not in str(caught.value)


@given(place=st.floats(0, 1))
@settings(max_examples=40)
def test_a_page_cut_off_anywhere_is_refused_or_whole(place: float) -> None:
    whole = rendered(a_report()).encode()
    cut = whole[: int(place * len(whole))]
    if b"</script>" in cut.partition(b'id="report-data"')[2]:
        assert rendered(report_in(cut, "p"), "json") == rendered(a_report(), "json")
    else:
        with pytest.raises(ParseError, match=r"cut off|another tool|no data"):
            report_in(cut, "p")


@given(data=st.data())
@settings(max_examples=60)
def test_data_of_other_types_is_refused_or_a_report_that_every_form_can_show(data: st.DataObject) -> None:
    page = rendered(a_report())
    found = re.search(r'id="report-data"[^>]*>([^<]*)<', page)
    assert found
    tree = json.loads(zlib.decompress(base64.b64decode(found[1])))
    places: list[tuple[Any, Any]] = []

    def walk(part: Any) -> None:
        for key in part if isinstance(part, dict) else range(len(part)):
            places.append((part, key))
            if isinstance(part[key], (dict, list)):
                walk(part[key])

    walk(tree)
    part, key = places[data.draw(st.integers(0, len(places) - 1))]
    part[key] = data.draw(st.sampled_from([None, 1, -1, "x", "12", 1.5, True, [], {}, [[]], [0], 10**30, "9" * 50]))
    try:
        back = report_in(forged(tree), "p")
    except ParseError:
        return
    for form in ("json", "csv", "text", "markdown", "html"):
        rendered(back, form)


def test_a_sentence_in_a_cell_is_no_name_that_is_shortened() -> None:
    text = "sum of the self times of operators on the host, " * 3
    columns = (Column("name", "X", Unit.TEXT, [f"name {text}"]), Column("meaning", "X", Unit.TEXT, [f"meaning {text}"]))
    report = Report("r", "0", (), (Section("v", "V", (ReportTable("t", "T", columns),)),))
    made = json.loads(zlib.decompress(base64.b64decode(packed(report).text)))
    assert [made["texts"][int(place)].split()[0] for place in made["short"]] == ["name"]

"""html: one page that opens offline, holds every number, and does nothing that a trace's text asks for."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jinja2
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from render.reports import HOSTILE, ledger, reports, sample
from support import ROOT, TEMPLATES
from timelines import a_timeline, read_page
from viewers import PageResult, chromium_page, one_browser

from tracekit import pipeline
from tracekit.errors import UsageError
from tracekit.model.display import UNKNOWN, escape_controls, shown_name, typical_time_unit
from tracekit.model.report import Bar, Column, Report, ReportTable, Section
from tracekit.model.trace import Trace
from tracekit.model.units import TIME_EXPONENT, Unit, four_digits, percent, rounded, short_span
from tracekit.readers.builder import RowBuilder
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions
from tracekit.render.page import batch_page, shell
from tracekit.render.page.batch_page import BatchPage
from tracekit.render.page.tables import time_unit
from tracekit.views import VIEWS

ATTACKS = (
    "<img src=x onerror='window.pwned=1'>", "</script><script>window.pwned=2</script>", "<!--<script>", "{{7*7}}",
    "@{name} @color", "$name $index", "$$\\frac{1}{2}$$", "</style><script>window.pwned=3</script>", "]]>", "&lt;b&gt;",
    "\"><svg onload='window.pwned=4'>", "\u2028\u2029", "javascript:window.pwned=5",
)  # fmt: skip


def rendered(report: Report, **options: Any) -> str:
    return RENDERERS["html"].render(report, RenderOptions(**options))


def a_table(rows: int, name: str = "kernels") -> ReportTable:
    return ReportTable(
        name,
        "Kernels",
        (
            Column("name", "Name", Unit.TEXT, [f"k{i}" for i in range(rows)]),
            Column("total", "Total", Unit.NS, [None if i == 1 else (i * 37) % 101 * 10**i for i in range(rows)]),
            Column("ratio", "Ratio", Unit.RATIO, [i / rows for i in range(rows)]),
        ),
    )


def page_of(*sections: Section, **more: Any) -> Report:
    return Report("run.csv", "0.0.0", sections=sections, **more)


class Page(HTMLParser):
    """Scripts, and for each table its header texts and cells: (text, data-v, title)."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[list[list[tuple[str, str | None, str | None]]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.meta: dict[str, str] = {}
        self.text = ""
        self.tags: list[str] = []
        self.left_out: list[list[int]] = []
        """Of each table the places of the columns that need JavaScript."""
        self._off = ""
        self._into: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        assert not any(name.startswith("on") for name in found), (tag, found)
        if tag == "table":
            self.tables.append([])
            self.left_out.append([int(place) for place in self._off.split(",") if place])
            self._off = ""
        elif tag == "div" and (off := found.get("data-off")):
            self._off = off
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append(("", found.get("data-v"), found.get("title")))
            self._into = tag
        elif tag in ("script", "style"):
            self.scripts.append((found, "")) if tag == "script" else None
            self._into = tag
        elif tag == "meta" and (key := found.get("http-equiv") or found.get("name")):
            self.meta[key] = found.get("content") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == self._into or (tag == "table" and self._into in ("td", "th")):
            self._into = None

    def handle_data(self, data: str) -> None:
        if self._into in ("td", "th") and self.tables[-1]:
            text, *rest = self.tables[-1][-1][-1]
            self.tables[-1][-1][-1] = (text + data, *rest)  # type: ignore[assignment]
        if self._into == "script":
            attrs, text = self.scripts[-1]
            self.scripts[-1] = (attrs, text + data)
        elif self._into != "style":
            self.text += data

    def run(self) -> list[str]:
        """Return the scripts that the page runs: plain and packed."""
        plain = [text for attrs, text in self.scripts if "type" not in attrs]
        return [*plain, *(text for name, text in self.packed().items() if name.endswith(".js"))]

    def packed(self) -> dict[str, str]:
        """Return the styles and scripts that the page carries packed."""
        found = [(attrs, text) for attrs, text in self.scripts if attrs.get("class") == "packed"]
        if not found:
            return {}
        ((attrs, text),) = found
        deflated = base64.b85decode(text.translate(str.maketrans(",.:", "<>&")))
        texts = zlib.decompress(deflated).decode().split("\0")
        return dict(zip((attrs["data-names"] or "").split(), texts, strict=True))


def ours() -> set[str]:
    """Return the scripts of the project, as pages have them."""
    return {*shell.assets().values(), shell.unpacker()}


def test_the_same_report_gives_the_same_bytes_again_and_in_any_process() -> None:
    text = rendered(sample())
    assert rendered(sample()) == text
    code = (
        "import sys, hashlib; sys.path.insert(0, 'tests'); from render.reports import sample;"
        "from tracekit.render import RENDERERS; from tracekit.render.base import RenderOptions;"
        "print(hashlib.sha256(RENDERERS['html'].render(sample(), RenderOptions()).encode()).hexdigest())"
    )
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"  # another one than here
    env = {**os.environ, "PYTHONHASHSEED": seed}
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == hashlib.sha256(text.encode()).hexdigest()


@given(report=reports())
@settings(max_examples=20)
def test_a_page_in_pieces_is_the_page(report: Report) -> None:
    pieces = RENDERERS["html"].pieces
    assert pieces is not None
    assert "".join(pieces(report, RenderOptions())) == rendered(report)


def two_kernels() -> Trace:
    rows = RowBuilder()
    for number, name in enumerate(("a\r\nb", "é – \u2028")):
        rows.add(ts_ns=5 * number, dur_ns=4, event_id=number, name=name, kind="kernel", source=0)
    return Trace(pa.Table.from_batches([rows.take()]))


@pytest.mark.parametrize("form", ["html", "json", "text"])
def test_a_written_report_has_the_bytes_of_the_rendered_one(form: str, tmp_path: Path) -> None:
    pipeline.write_report(two_kernels(), tmp_path / "made", form=form)
    text = pipeline.render(pipeline.report(two_kernels()), form)
    assert (tmp_path / "made").read_bytes() == text.encode("utf-8", "replace")


def test_an_unknown_unit_is_refused_before_a_file_is_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="weeks"):
        pipeline.write_report(two_kernels(), tmp_path / "page.html", options=RenderOptions(time_unit="weeks"))
    assert list(tmp_path.iterdir()) == []


def test_templates_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered(sample())
    compiled: list[object] = []
    monkeypatch.setattr(jinja2.Environment, "compile", lambda *words, **_: compiled.append(words))
    rendered(sample())
    assert compiled == []


def test_a_page_has_the_scripts_of_what_it_shows() -> None:
    scripts = shell.assets()
    text = rendered(page_of(Section("timeline", "Timeline", figures=(a_timeline(),))))
    plain = Page(rendered(page_of(Section("kernel", "Kernels", (a_table(3),))))).run()
    drawn = Page(text).run()
    assert scripts["tables.js"] in plain
    assert scripts["timeline.js"] not in plain
    assert scripts["timeline.js"] in drawn
    assert scripts["tables.js"] not in drawn
    assert shell.unpacker() not in Page(rendered(page_of())).run()
    assert len(text) < 100_000


def test_the_policy_names_the_scripts_by_hash_and_allows_nothing_else() -> None:
    page = Page(rendered(page_of(Section("timeline", "Timeline", figures=(a_timeline(),)))))
    policy = dict(part.split(" ", 1) for part in page.meta["Content-Security-Policy"].split("; "))
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in page.run()]
    assert set(policy.pop("script-src").split()) == {f"'sha256-{each}'" for each in hashes}
    assert policy == {
        "default-src": "'none'", "style-src": "'unsafe-inline'", "img-src": "data:", "base-uri": "'none'",
        "form-action": "'none'",
    }  # fmt: skip


@given(report=reports())
@settings(max_examples=100)
def test_every_cell_of_any_report_that_fits_on_paper_is_in_the_page_as_text(report: Report) -> None:
    text = rendered(report)
    text.encode()
    page = Page(text)
    tables = [table for section in report.sections for table in section.tables]
    shown = page.tables[: len(tables)]
    assert len(shown) == len(tables)
    for table, (heads, *rows), left_out in zip(tables, shown, page.left_out, strict=False):
        fitting = [place for place in range(len(table.columns)) if place not in left_out]
        assert [title.split(" ")[0] for title, *_ in heads] == [
            escape_controls(table.columns[place].title).split(" ")[0] for place in fitting
        ]
        assert len(rows) == (len(table) if table.columns else 0)
        for wanted, row in zip(table.rows(), rows, strict=True):
            for place, (head, *_), (cell, *_) in zip(fitting, heads, row, strict=True):
                column, value = table.columns[place], wanted[place]
                if value is None:
                    assert cell == UNKNOWN
                elif isinstance(value, str):
                    first = next((each for each in table.columns if each.unit is Unit.TEXT), None)
                    is_name = column.name == "name" or column is first
                    assert cell == (shown_name(value) if value or is_name else "")
                elif column.unit is Unit.NS:
                    assert cell.rstrip() == four_digits(value, head.rsplit(" ", 1)[-1])
                elif column.unit in (Unit.COUNT, Unit.ID):
                    assert cell.replace(",", "") == str(value)


@given(report=reports())
def test_text_of_a_report_makes_no_element_and_no_attribute(report: Report) -> None:
    page = Page(rendered(report))
    allowed = {
        "html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "dl", "div", "dt", "dd", "main",
        "section", "table", "thead", "tbody", "tr", "th", "td", "small", "i", "span", "p", "ul", "li", "footer",
        "script", "code",
    }  # fmt: skip
    assert set(page.tags) <= allowed
    assert set(page.run()) <= ours()
    assert {attrs.get("id", attrs.get("class")) for attrs, _ in page.scripts if "type" in attrs} <= {
        "report-data",
        "packed",
    }


@pytest.mark.parametrize("name", [*HOSTILE, *ATTACKS])
def test_names_of_a_timeline_cannot_leave_their_script_block(name: str) -> None:
    text = rendered(page_of(Section("timeline", "Timeline", figures=(a_timeline((name,), lanes=(name,)),))))
    page = Page(text)
    data = [text for attrs, text in page.scripts if "type" in attrs]
    assert not any(re.search("[<>&'\u2028\u2029]", text) for text in data)
    assert len(data) == 3 + len(re.findall('class="(?:tl-|packed)', text))
    assert set(page.run()) <= ours()
    found = read_page(text)
    assert set(found.names) == {shown_name(name)}
    assert [lane["label"] for lane in found.head["lanes"]] == [shown_name(name)]


def test_very_long_names_are_cut_on_the_timeline_with_their_length_and_whole_in_the_table() -> None:
    long = "k" * 70_000
    text = rendered(page_of(Section("timeline", "Timeline", figures=(a_timeline((long,)),))))
    assert set(read_page(text).names) == {f"{'k' * 16384}… (70,000 characters in all)"}
    table = ReportTable("t", "T", (Column("name", "Name", Unit.TEXT, [long]),))
    assert long in Page(rendered(page_of(Section("kernel", "Kernels", (table,))))).tables[0][1][0][0]


def test_ledger_notes_facts_and_empty_views_are_told() -> None:
    text = Page(rendered(sample())).text
    for words in (
        "Read 76 records: 61 kept, 3 header rows, 11 ignored (header 1, preamble 10), nothing filtered",
        "the last row is cut (first at line 76)", "python train.py --lr 0.1", "needs API call events",
        "p50 is by nearest rank", "the first 3 of 5 rows; ratios are of all rows", "tracekit 0.0.0",
        "2 events on 2 lanes, 100 ns.",
    ):  # fmt: skip
        assert words.replace(", nothing filtered", "") in text
    assert "1 dropped (torn-row 1)" in text


SECTIONS = tuple(Section(f"v{i}", f"View {i}", (a_table(2),)) for i in range(4))
EMPTY = tuple(
    Section(f"e{i}", f"Empty {i}", notes=(f"needs thing {i}; this trace has none", "a hint")) for i in range(3)
)


def test_a_page_of_many_sections_has_contents_whose_links_lead_to_them() -> None:
    text = rendered(page_of(*SECTIONS, *EMPTY))
    links = re.findall(r'<a href="#([^"]+)">([^<]+)</a>', text)
    assert links == [*((f"v{i}", f"View {i}") for i in range(4)), ("nothing-to-show", "Nothing to show")]
    assert all(f'<section id="{anchor}"' in text or f'id="{anchor}">' in text for anchor, _ in links)
    assert "<nav" not in rendered(page_of(*SECTIONS[:3], *EMPTY))


def test_sections_of_one_view_have_places_of_their_own() -> None:
    table = ReportTable("runs", "Runs", (Column("run", "Run", Unit.TEXT, ["a"]),))
    titles = ["Verdict", "Device time", "Device time", "API <calls>"]
    page = rendered(page_of(*(Section("compare", title, (table,)) for title in titles)))
    places = re.findall(r'<section id="([^"]*)"', page)
    assert places == ["compare", "compare-device-time", "compare-device-time-2", "compare-api-calls"]
    assert re.findall(r'href="#([^"]*)"', page) == places


def test_views_with_nothing_to_show_fold_into_one_line_but_those_that_count_rows() -> None:
    counting = Section("c", "Counting", notes=("needs kernels with a duration", "7 kernels have no duration"))
    text = rendered(page_of(*SECTIONS, *EMPTY, counting))
    assert "<summary>Also nothing in: Empty 0, Empty 1, Empty 2</summary>" in text
    before, folded = text.split("<details>")
    assert "7 kernels have no duration" in before
    assert "needs thing 2; this trace has none; a hint" in folded
    assert "<summary>Nothing to show: Empty 0, Empty 1, Empty 2</summary>" in rendered(page_of(*SECTIONS, *EMPTY))


def test_bars_of_the_first_section_that_has_any_are_on_top_and_others_in_their_sections() -> None:
    bars = [Bar(f"Bar {i}", Unit.NS, (("kernels", 1), ("idle", 1))) for i in range(2)]
    text = rendered(page_of(*(Section(f"b{i}", f"B{i}", figures=(bar,)) for i, bar in enumerate(bars))))
    assert text.index("Bar 0") < text.index('<section id="b0"') < text.index('<section id="b1"') < text.index("Bar 1")


def test_records_of_several_inputs_are_a_table() -> None:
    inputs = tuple(ledger(f"dir/{i}.csv", read=10 + i, kept=9 + i, ignored={"header": 1}) for i in range(3))
    page = Page(rendered(page_of(ledgers=inputs)))
    ((heads, *rows),) = page.tables
    assert [h[0] for h in heads[:4]] == ["Input", "Format", "Read", "Kept"]
    assert [[c[0] for c in row][:4] for row in rows] == [
        [f"{i}.csv", "nvprof-csv", f"{10 + i}", f"{9 + i}"] for i in range(3)
    ]
    assert rows[0][6][1] == "1"


def test_a_path_is_not_changed_to_begin_a_sentence() -> None:
    inputs = (ledger("dir/a.csv", read=1, kept=1), ledger("read me.csv", read=1, kept=1))
    text = Page(rendered(page_of(ledgers=inputs))).text
    assert "dir/a.csv: read 1 record: 1 kept" in text
    assert "Read 1 record: 1 kept" in Page(rendered(page_of(ledgers=inputs[:1]))).text


def test_a_ratio_that_is_not_nothing_does_not_read_so() -> None:
    values = [0.0, 1e-9, -1e-9, 0.00005, 1.0, float("nan")]
    names, ratios = Column("run", "Run", Unit.TEXT, list("abcdef")), Column("r", "R", Unit.RATIO, values)
    runs, none = ReportTable("runs", "Runs", (names, ratios)), ReportTable("failed", "Failed", ())
    page = BatchPage("Runs", "0.0.0", (), runs, [None] * 6, [()] * 6, none, [])
    rows = Page(batch_page.render(page, RenderOptions(assets="assets"))).tables[0][1:]
    assert [row[1][0] for row in rows] == ["0.00", "<0.01", ">-0.01", "0.01", "100.00", UNKNOWN]


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([], "us"), ([None, 0], "us"), ([9_999_999], "us"), ([10_000_000], "ms"), ([10**11], "s"), ([-(10**11)], "s"),
        ([391_204_000, 36_000, 2_000], "us"), ([391_204_000, 100_000, 2_000], "ms"), ([10**11, 5_000, 3_000], "us"),
        ([10**11, 10**7, 10**6], "ms"),
    ],
)  # fmt: skip
def test_a_column_of_times_has_the_unit_in_which_most_of_it_can_be_read(values: list[int | None], unit: str) -> None:
    assert typical_time_unit(values) == unit


@pytest.mark.parametrize(
    ("starts", "lengths", "unit"),
    [
        ([], [], "us"), ([0, 10**12], [2_000, 3_000], "us"), ([0, 10**12], [], "s"),
        ([], [46_762_000, 15_000, 9_000], "us"), ([], [391_204_000, 36_000, 2_000], "ms"),
        ([], [391_204_000, 900, 800, 700], "us"), ([], [10**12, 10**9, 10**8], "s"),
    ],
)  # fmt: skip
def test_a_table_has_one_unit_that_suits_its_durations(starts: list[int], lengths: list[int], unit: str) -> None:
    rows = max(len(starts), len(lengths))
    columns = [
        Column(name, name, Unit.NS, [*values, *[None] * (rows - len(values))])
        for name, values in (("start", starts), ("total", lengths), ("avg", lengths))
        if values
    ]
    assert time_unit(ReportTable("t", "T", tuple(columns))) == unit
    assert time_unit(ReportTable("t", "T", tuple(columns)), "ns") == "ns"


def test_inputs_beyond_the_most_are_cut_and_told() -> None:
    inputs = tuple(ledger(f"{i}.csv", read=1, kept=1) for i in range(2_007))
    page = Page(rendered(page_of(ledgers=inputs)))
    assert len(page.tables[0]) == 1 + 2_000
    assert "the first 2,000 of 2,007 rows; tracekit inspect prints them all" in page.text


def test_a_chosen_unit_is_that_of_the_page_and_an_unknown_one_is_refused() -> None:
    section = Section("kernel", "Kernels", (a_table(4),))
    text = [row[1][0].rstrip() for row in Page(rendered(page_of(section), time_unit="s")).tables[0][1:]]
    assert text == ["0", UNKNOWN, "0.000007400", "0.00001000"]
    with pytest.raises(UsageError, match="not a unit of time"):
        rendered(page_of(section), time_unit="h")


@given(ns=st.integers(-(1 << 63), (1 << 63) - 1), unit=st.sampled_from(["s", "ms", "us", "ns"]))
def test_shown_times_are_rounded_half_to_even_and_never_to_nothing(ns: int, unit: str) -> None:
    text = rounded(ns, unit)
    exact = Decimal(ns).scaleb(-TIME_EXPONENT[unit])
    right = exact.quantize(Decimal("0.001") if unit != "ns" else Decimal(1), ROUND_HALF_EVEN)
    if ns and not right:
        assert text == ("<0.001" if ns > 0 else ">-0.001")
    else:
        assert Decimal(text.replace(",", "")) == right


@given(ns=st.integers(-(1 << 63), (1 << 63) - 1), unit=st.sampled_from(["s", "ms", "us", "ns"]))
@example(ns=9_999_500, unit="ms")
@example(ns=99_995, unit="us")
def test_times_in_tables_have_four_digits_half_to_even_and_all_before_the_point(ns: int, unit: str) -> None:
    text = four_digits(ns, unit)
    exact, shown = Decimal(ns).scaleb(-TIME_EXPONENT[unit]), Decimal(text.replace(",", ""))
    digits = text.replace(",", "").lstrip("-0.").replace(".", "")
    if abs(exact) >= 1000 or not ns:
        assert shown == exact.quantize(Decimal(1), ROUND_HALF_EVEN)
    elif shown != exact:
        assert len(digits) == 4
        assert abs(shown - exact) <= Decimal("0.5").scaleb(shown.as_tuple().exponent)
    assert len(digits) <= 4 or "." not in text


@given(part=st.integers(0, 1 << 62), rest=st.integers(0, 1 << 62))
def test_shares_neither_hide_a_part_nor_round_it_to_all(part: int, rest: int) -> None:
    if not (whole := part + rest):
        return
    text = percent(part, whole)
    if text == "<0.1":
        assert 0 < 2000 * part < whole
    elif text == ">99.9":
        assert 0 < 2000 * rest <= whole
    else:
        assert abs(Decimal(text) / 100 - Decimal(part) / whole) <= Decimal("0.0005000001")
        assert (text == "0.0") <= (part == 0)
        assert (text == "100.0") <= (rest == 0)


def test_short_spans_read_well() -> None:
    assert [short_span(ns) for ns in (0, 999, 1000, 684_372_939, 12_345_678_901)] == [
        "0 ns", "999 ns", "1.000 us", "684.373 ms", "12.346 s",
    ]  # fmt: skip


def test_bars_of_nothing_and_of_other_units_are_drawn() -> None:
    bars = (
        Bar("Nothing", Unit.NS, (("kernels", 0), ("idle", 0))),
        Bar("Memory", Unit.BYTES, (("used", 3 << 20), ("free", 1 << 20))),
        Bar("Calls", Unit.COUNT, (("a", 2), ("<b>", 1))),
    )
    text = Page(rendered(page_of(Section("x", "X", figures=bars)))).text
    assert "0.0 % kernels" in re.sub(r"\s+", " ", text)
    assert "75.0 %" in text
    assert "66.7 %" in text


def test_a_bar_large_number_is_its_first_part() -> None:
    bar = Bar("Time of GPU 0", Unit.NS, (("kernels", 1), ("idle", 3)))
    text = re.sub(r"\s+", " ", Page(rendered(page_of(Section("x", "X", figures=(bar,))))).text)
    assert "25.0 % kernels" in text
    assert "Time of GPU 0: 4 ns" in text


def test_every_kind_and_part_has_a_colour() -> None:
    bar = Bar("Time", Unit.NS, (("kernel", 1), ("never heard of", 1), ("memcpy", 1)))
    colors = re.findall(r'background:(var\(--[\w-]+\))" title=', rendered(page_of(Section("x", "X", figures=(bar,)))))
    assert len(colors) == len(set(colors)) == 3


def test_templates_know_no_view_by_name() -> None:
    for file in sorted(TEMPLATES.glob("*.j2")):
        words = set(re.findall(r"\w+", re.sub(r"{#.*?#}|class=\"[^\"]*\"", "", file.read_text(encoding="utf-8"))))
        assert not words & (set(VIEWS) - {"timeline", "device"}), file.name


def test_templates_in_the_package_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packed = tmp_path / "_templates"
    for file in filter(Path.is_file, TEMPLATES.rglob("*")):
        text = file.read_text(encoding="utf-8")
        target = packed / file.relative_to(TEMPLATES)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text.replace("Nothing to show", "Packed"), encoding="utf-8", newline="\r\n")
    monkeypatch.setattr(importlib.resources, "files", lambda _: tmp_path)
    text = rendered(sample())
    assert "Packed" in text
    assert "\r" not in text


# In a browser

HELP = """
const deep = (root, what, out = []) => { for (const e of root.querySelectorAll('*')) {
  if (e.matches(what)) out.push(e); if (e.shadowRoot) deep(e.shadowRoot, what, out); } return out; };
const rest = (ms) => new Promise((done) => setTimeout(done, ms));
"""


@pytest.fixture(scope="module", autouse=True)
def _browser() -> Iterator[None]:
    with one_browser():
        yield


def opened(tmp_path: Path, report: Report, script: str = "", **more: Any) -> PageResult:
    file = tmp_path / "report.html"
    file.write_bytes(rendered(report).encode())
    found = chromium_page(file, script=f"(async () => {{ {HELP} {script} }})()" if script else None, **more)
    assert (found.console, found.page_errors, found.requests) == ([], [], [])
    assert found.overflow_px == 0
    return found


@pytest.mark.viewer
@pytest.mark.parametrize("width", [1300, 420])
def test_the_page_opens_without_error_request_or_overflow(tmp_path: Path, width: int) -> None:
    sections = (
        Section("timeline", "Timeline", figures=(Bar("Time", Unit.NS, (("kernels", 5), ("idle", 9))), a_timeline())),
        Section("kernel", "Kernels", (a_table(9), *sample().sections[0].tables)),
        *SECTIONS, *EMPTY,
    )  # fmt: skip
    report = Report("run.csv", "0", sample().facts, sections, sample().ledgers, ("n" * 400,))
    found = opened(tmp_path, report, width=width)
    assert found.title == "run.csv – tracekit report"


@pytest.mark.viewer
def test_contents_lead_to_the_section_and_mark_it(tmp_path: Path) -> None:
    tall = tuple(Section(f"v{i}", f"View {i}", (a_table(15),)) for i in range(8))
    script = """
        document.querySelector('a[href="#v5"]').click();
        await new Promise((done) => setTimeout(done, 300));
        const top = document.getElementById("v5").getBoundingClientRect().top;
        return [document.querySelector('a[aria-current]').hash, top];
    """
    current, top = opened(tmp_path, page_of(*tall), script).value
    assert current == "#v5"
    assert 0 < top < 120


@pytest.mark.viewer
def test_a_page_without_a_timeline_opens_too(tmp_path: Path) -> None:
    assert opened(tmp_path, page_of(Section("kernel", "Kernels", (a_table(3),)))).html.count("<tr") == 4


@pytest.mark.viewer
def test_hostile_text_is_shown_and_does_nothing(tmp_path: Path) -> None:
    table = ReportTable("t", ATTACKS[0], (Column("name", ATTACKS[1], Unit.TEXT, list(ATTACKS)),))
    figure = a_timeline(ATTACKS, lanes=ATTACKS)
    bar = Bar(ATTACKS[0], Unit.NS, tuple((name, 1) for name in ATTACKS))
    report = Report(
        ATTACKS[1], "0", tuple((name, name) for name in ATTACKS),
        (Section(ATTACKS[0], ATTACKS[1], (table,), (bar, figure), ATTACKS), Section("e", ATTACKS[0], notes=ATTACKS)),
        (ledger(ATTACKS[0], read=2, kept=1, dropped={ATTACKS[1]: 1}),), ATTACKS,
    )  # fmt: skip
    script = """
      return { pwned: window.pwned ?? null, images: deep(document, 'img, svg[onload]').length,
        cells: [...document.querySelectorAll('tbody .t')].map((cell) => cell.textContent) };
    """
    found = opened(tmp_path, report, script)
    assert found.value["pwned"] is None
    assert found.value["images"] == 0
    assert found.value["cells"] == [escape_controls(name) for name in ATTACKS]

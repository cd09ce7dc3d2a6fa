"""report: what objects show of themselves is small, harmless and escaped; tables become DataFrames."""

from __future__ import annotations

import doctest
import html.parser
import subprocess
import sys
from importlib import import_module

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from render.reports import HOSTILE, reports, sample
from timelines import a_timeline

import tracekit
from tracekit.model import display
from tracekit.model.report import LINES_SHOWN, ROWS_SHOWN, Bar, Column, Finding, Report, ReportTable, Section, Series
from tracekit.model.trace import Trace
from tracekit.model.units import Unit
from tracekit.readers.builder import RowBuilder
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions

LINES = 2 * LINES_SHOWN + 2
WIDEST = 2 * display.SCREEN


@pytest.mark.parametrize("module", [import_module("tracekit.model.report"), display])
def test_the_examples_run(module) -> None:
    assert doctest.testmod(module).failed == 0


def table(count: int, *, name: str = "gemm", columns: int = 2) -> ReportTable:
    numbers = (Column(f"c{i}", f"Column {i}", Unit.COUNT, [10**9] * count) for i in range(columns))
    return ReportTable("kernel", "Kernels", (Column("name", "Name", Unit.TEXT, [name] * count), *numbers))


def finding(text: str) -> Finding:
    return Finding("idle", text, text, (), (1,), 1500000, 0.25, "high", text, text, text)


class Tags(html.parser.HTMLParser):
    """Collects tags and attributes, and checks that each tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen |= {tag, *(f"{key}={value}" for key, value in attrs)}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


ALLOWED = {
    "div", "p", "b", "h3", "h4", "table", "thead", "tbody", "tr", "th", "td", "details", "summary",
    "style=text-align:left", "style=text-align:right", "class=tex2jax_ignore mathjax_ignore",
    "pre", "style=white-space:pre;line-height:1.2",
}  # fmt: skip


def page(shown: object) -> Tags:
    tags = Tags()
    tags.feed(shown._repr_html_())
    tags.close()
    assert tags.open == []
    assert tags.seen <= ALLOWED
    return tags


@given(made=reports())
def test_every_report_fits_a_screen_and_is_harmless(made: Report) -> None:
    for shown in (made, *made.sections, *(t for s in made.sections for t in s.tables)):
        lines = repr(shown).split("\n")
        assert len(lines) <= LINES
        assert max(map(len, lines)) <= WIDEST
        assert all(line == display.escape_controls(line) for line in lines)
        page(shown)


@pytest.mark.parametrize("text", [*HOSTILE, "<script>alert(1)</script>", '"><img src=x onerror=1>', "&lt;b&gt;"])
def test_names_of_a_trace_are_text_in_html_and_in_a_terminal(text: str) -> None:
    shown = (table(1, name=text), Section(text, text, (table(1),), notes=(text,), findings=(finding(text),)))
    for each in (*shown, Report(text, "1", ((text, text),), shown[1:]), finding(text)):
        assert "script" not in page(each).seen
        assert repr(each).replace("\n", "").isprintable() or "\u200d" in text or "\u200c" in text
    assert display.escape_controls("<b>") in page(table(1, name="<b>")).text


@pytest.mark.parametrize(
    "text", ["<img src=x onerror=alert(1)>", "</pre><script>x</script>", "$\\href{javascript:x}{y}$"]
)
def test_the_first_screen_in_a_notebook_is_text_and_no_formula_whatever_names_are(text: str) -> None:
    builder = RowBuilder()
    builder.add(ts_ns=0, dur_ns=50_000, event_id=0, name=text, kind="kernel", source=0, device=0, stream=0)
    made = tracekit.summary(Trace(pa.Table.from_batches([builder.take()])))
    shown = page(made)
    assert not shown.seen & {"img", "script", "a"}
    assert made.headline is not None
    first = made._repr_html_()
    assert first.startswith('<div class="tex2jax_ignore mathjax_ignore"><pre')
    # The screen comes first, and each section below it is folded.
    assert first.index("</pre>") < first.index("<details>")
    assert first.count("<details>") == sum(bool(each.tables or each.figures) for each in made) + 1
    assert "Not in this trace" in shown.text


def test_a_long_and_wide_table_says_how_much_it_hides() -> None:
    lines = repr(table(25, columns=20)).split("\n")
    assert lines[0] == "table kernel, Kernels: 25 rows, 21 columns"
    assert lines[-1] == "  ... 15 more rows"
    assert lines[-2].startswith("  (14 more columns: Column 6, Column 7,")
    assert len(lines) == 1 + 1 + ROWS_SHOWN + 2
    assert page(table(25)).text.count("gemm") == ROWS_SHOWN


def test_a_report_with_many_sections_stays_on_one_screen() -> None:
    many = Report("t", "1", sections=tuple(Section(f"v{i}", "V", (table(1),)) for i in range(200)))
    assert repr(many).split("\n")[-1] == "... 172 more lines"


def test_figures_and_columns_show_their_size_and_no_value() -> None:
    count = 50_000
    line = a_timeline(("gemm",) * count)
    assert repr(line) == "timeline of 100,000 events on 2 lanes"
    assert repr(Series("Steps", Unit.NS, ["a"] * count, [1] * count)) == "series Steps (ns), 50,000 values"
    assert repr(Column("total", "Total", Unit.NS, [1] * count)) == "column total (ns), 50,000 rows"
    section = Section("s", "S", figures=(line, Bar("b", Unit.NS, (("idle", 1),))))
    assert repr(section).split("\n")[1].startswith("timeline of")


def test_a_finding_says_what_it_saves() -> None:
    lines = repr(finding("claim")).split("\n")
    assert lines[0] == "idle (claim): claim"
    assert lines[1] == "  could save   up to 1.5 ms (25.00 %)"
    assert "up to 1.5 ms" in page(finding("claim")).text


def test_tables_become_data_frames_by_name() -> None:
    made = Report("t", "1", sections=(Section("a", "A"), Section("kernel", "K", (table(3),))))
    assert made.to_pandas().equals(made.to_pandas("kernel", "kernel"))
    assert made.to_pandas("kernel").shape == (3, 3)
    assert made.to_pandas("kernel").attrs["units"]["c0"] == "count"
    assert isinstance(made.to_pandas("a"), pd.DataFrame)
    with pytest.raises(KeyError, match="kernels: no such view; did you mean kernel\\?"):
        made.to_pandas("kernels")
    with pytest.raises(KeyError, match="none: no such table"):
        made.to_pandas("kernel", "none")


def test_show_prints_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    sample().show(width=80)
    assert capsys.readouterr().out == RENDERERS["text"].render(sample(), RenderOptions(width=80))


def test_without_the_renderers_a_report_shows_its_outline() -> None:
    code = "from tracekit.model.report import Report; Report('t', '1').show()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "report t: 0 sections\n"

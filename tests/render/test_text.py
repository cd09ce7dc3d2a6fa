from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from render.reports import HOSTILE, ledger, reports, sample

from tracekit.errors import UsageError
from tracekit.model.display import cell_width, cut_middle, escape_controls
from tracekit.model.report import Bar, Column, Report, ReportTable, Section
from tracekit.model.units import Unit
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions
from tracekit.render.cells import wrapped
from tracekit.render.page.tables import table_html

TEXT = RENDERERS["text"].render
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def report_of(*columns: Column, omitted: int = 0) -> Report:
    return Report("t", "0", sections=(Section("v", "V", (ReportTable("t", "V", columns, omitted),)),))


@pytest.mark.parametrize("width", [0, 120, 80, 40])
def test_the_sample_report(width: int, golden: Callable[[str, str], None]) -> None:
    golden(f"render/text-{width or 'unlimited'}.txt", TEXT(sample(), RenderOptions(width=width)))


@given(report=reports(), width=st.integers(40, 140), color=st.booleans())
def test_no_line_is_wider_than_the_limit(report: Report, width: int, color: bool) -> None:
    for line in TEXT(report, RenderOptions(width=width, color=color)).split("\n"):
        assert cell_width(STYLE.sub("", line)) <= width


@given(report=reports(), width=st.sampled_from([0, 60]))
def test_nothing_that_a_terminal_obeys_comes_through(report: Report, width: int) -> None:
    text = TEXT(report, RenderOptions(width=width))
    bad = [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp", "Cn")]
    assert bad == []
    assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\ufeff")
    text.encode()


@given(report=reports())
def test_colour_adds_styles_and_nothing_else(report: Report) -> None:
    plain, styled = (TEXT(report, RenderOptions(width=80, color=color)) for color in (False, True))
    assert STYLE.sub("", styled) == plain


@given(values=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1), unit=st.sampled_from(["", "s", "ms", "ns"]))
def test_every_nanosecond_of_a_time_can_be_read_back(values: list[int], unit: str) -> None:
    text = TEXT(report_of(Column("total", "Total", Unit.NS, values)), RenderOptions(time_unit=unit, verbose=True))
    header, _, *rows = text.split("\n")[3:-1]
    scale = {"s": 9, "ms": 6, "us": 3, "ns": 0}[header.strip()[len("Total (") : -1]]
    assert [int(Decimal(row.strip().replace(",", "")).scaleb(scale)) for row in rows] == values


def test_a_time_unit_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="unit h"):
        TEXT(sample(), RenderOptions(time_unit="h"))


def test_columns_are_hidden_by_priority_and_the_reader_is_told() -> None:
    columns = (
        Column("name", "Name", Unit.TEXT, ["n" * 100]),
        *(Column(f"c{i}", f"C{i}", Unit.COUNT, [10**9], i) for i in range(5)),
    )
    text = TEXT(report_of(*columns), RenderOptions(width=76))
    assert "2 columns hidden (C3, C4): widen the terminal or use --format csv" in " ".join(text.split())
    assert re.search(r"C0 +C1 +C2 +Name", text)


def test_a_column_without_a_known_cell_goes_before_those_that_say_something() -> None:
    unknown = Column("bytes", "Bytes", Unit.BYTES, [None, None], 1)
    most = Column("max", "Max", Unit.NS, [5_000_000, 6_000_000], 3)
    names = Column("name", "Name", Unit.TEXT, ["a_long_name_of_a_kernel", "b"], 0)
    lines = TEXT(report_of(names, unknown, most), RenderOptions(width=40, verbose=True)).split("\n")
    assert any("Max" in line for line in lines)
    assert "  1 column hidden (Bytes): widen the" in lines
    assert "Bytes" in TEXT(report_of(names, unknown, most), RenderOptions(width=80))


def test_columns_that_may_not_be_hidden_and_do_not_fit_become_lines() -> None:
    columns = (
        Column("name", "Name", Unit.TEXT, ["gemm", "relu"]),
        *(Column(f"c{i}", f"C{i}", Unit.COUNT, [10**12 + i, i]) for i in range(4)),
    )
    assert TEXT(report_of(*columns), RenderOptions(width=40)).split("\n")[3:-1] == [
        "Name  gemm", "C0    1,000,000,000,000", "C1    1,000,000,000,001", "C2    1,000,000,000,002",
        "C3    1,000,000,000,003", "", "Name  relu", "C0    0", "C1    1", "C2    2", "C3    3",
    ]  # fmt: skip


def test_titles_take_two_lines_before_rows_become_blocks() -> None:
    columns = (
        Column("name", "Name", Unit.TEXT, ["GPU 0", "GPU 1"]),
        Column("idle", "Idle", Unit.NS, [5000, 12345678]),
        Column("comm", "Exposed comm", Unit.NS, [1000, 2000]),
        Column("copies", "Exposed copies", Unit.NS, [3000, 4000]),
    )
    assert TEXT(report_of(*columns), RenderOptions(width=41, verbose=True)).split("\n")[3:-1] == [
        "              Exposed      Exposed",
        " Idle (us)  comm (us)  copies (us)  Name",
        "----------  ---------  -----------  -----",
        "     5.000      1.000        3.000  GPU 0",
        "12,345.678      2.000        4.000  GPU 1",
    ]


def test_a_width_below_the_least_is_taken_as_the_least() -> None:
    assert TEXT(sample(), RenderOptions(width=3)) == TEXT(sample(), RenderOptions(width=40))


def test_names_are_whole_without_a_limit() -> None:
    name = "n" * 5000
    assert name in TEXT(report_of(Column("name", "Name", Unit.TEXT, [name])), RenderOptions())


def test_many_inputs_are_one_line_and_one_for_each_that_lost_records() -> None:
    few = [ledger(f"{i}.csv", read=2, kept=2) for i in range(2)]
    many = [ledger(f"{i}.csv", read=2000, kept=1999, dropped={"bad-time": 1}) for i in range(6)]
    footer = TEXT(Report("t", "0", ledgers=tuple(few)), RenderOptions(verbose=True)).split("\n")[2:-1]
    assert footer == [f"{i}.csv: read 2 records: 2 kept, nothing dropped" for i in range(2)]
    footer = TEXT(Report("t", "0", ledgers=tuple(many)), RenderOptions(verbose=True)).split("\n")[2:-1]
    assert footer[0] == "6 inputs: read 12,000 records: 11,994 kept, 6 dropped (bad-time 6)"
    assert footer[1] == "0.csv: read 2,000 records: 1,999 kept, 1 dropped (bad-time 1)"
    assert footer[5] == "and 2 more inputs with dropped records"


@pytest.mark.parametrize(
    ("bar", "lines"),
    [
        (Bar("b", Unit.BYTES, (("a", 4096), ("b", 0))), ["b", "a: 4.00 KiB (100.00 %)", "b: 0 B (0.00 %)"]),
        (Bar("b", Unit.COUNT, (("a\x1b", 0),)), ["b", "a\\x1b: 0"]),
    ],
)
def test_a_bar_is_told_in_its_unit(bar: Bar, lines: list[str]) -> None:
    text = TEXT(Report("t", "0", sections=(Section("v", "V", figures=(bar,)),)), RenderOptions())
    assert text.split("\n")[3:-1] == [f"  {line}" for line in lines]


def test_many_inputs_that_lost_nothing_are_one_line() -> None:
    ledgers = tuple(ledger(f"{i}.csv", read=1, facts=1) for i in range(5))
    assert TEXT(Report("t", "0", ledgers=ledgers), RenderOptions(verbose=True)).split("\n")[2:-1] == [
        "5 inputs: read 5 records: 0 kept, 5 header rows, nothing dropped"
    ]


class TestWidths:
    @pytest.mark.parametrize(
        ("text", "width"),
        [
            ("kernel", 6),
            ("核心", 4),
            ("🙂", 2),
            ("e\u0301", 1),
            ("❤\ufe0f", 2),
            ("한국", 4),
            ("ｆ", 2),
            ("a\u200db", 2),
        ],
    )
    def test_wide_and_combining_characters(self, text: str, width: int) -> None:
        assert cell_width(text) == width

    @given(text=st.text(alphabet="aé核🙂e\u0301\u200d ❤\ufe0f"), width=st.integers(0, 30))
    def test_a_cut_text_fits_and_keeps_both_its_ends(self, text: str, width: int) -> None:
        cut = cut_middle(text, width)
        assert cell_width(cut) <= width
        if cell_width(text) <= width:
            assert cut == text
        elif width >= 2:
            first, last = cut.split("…")
            assert text.startswith(first)
            assert text.endswith(last)

    @given(text=st.text(alphabet="ab核 \u0301🙂"), width=st.integers(6, 30), indent=st.integers(0, 4))
    def test_wrapped_lines_fit_and_lose_no_word(self, text: str, width: int, indent: int) -> None:
        lines = wrapped(text, width, indent=indent)
        assert all(cell_width(line) <= width for line in lines)
        assert "".join("".join(lines).split()) == "".join(text.split())

    @pytest.mark.parametrize("text", HOSTILE)
    def test_visible_text_is_one_line_of_harmless_characters(self, text: str) -> None:
        assert all(c.isprintable() or c in "\u200d\u200c" for c in escape_controls(text))
        assert escape_controls(escape_controls(text)) == escape_controls(text)

    def test_spaces_of_other_scripts_and_private_characters_stay(self) -> None:
        assert escape_controls("a\u3000b\xa0c\ue0b0") == "a\u3000b\xa0c\ue0b0"


def test_rows_below_others_are_indented_by_their_level() -> None:
    columns = (
        Column("name", "Name", Unit.TEXT, ["conv", "kernel", "copy"]),
        Column("level", "Level", Unit.COUNT, [0, 1, None]),
        Column("calls", "Calls", Unit.COUNT, [1, 2, 3]),
    )
    assert TEXT(report_of(*columns), RenderOptions()).split("\n")[3:-1] == [
        "Calls  Name", "-----  --------", "    1  conv", "    2    kernel", "    3  copy",
    ]  # fmt: skip


class TestNothingToShow:
    SHOWN = Section("a", "A", (ReportTable("t", "T", (Column("n", "N", Unit.COUNT, [1]),)),))
    EMPTY = tuple(Section(f"v{i}", f"V{i}", notes=(f"needs thing {i}; this trace has none",)) for i in range(3))

    def lines(self, *sections: Section) -> list[str]:
        return TEXT(Report("t", "0", sections=sections), RenderOptions()).split("\n")

    def test_several_views_share_one_line(self) -> None:
        line = "nothing to show: V0 (v0), V1 (v1), V2 (v2); --view NAME shows what each needs"
        assert self.lines(self.SHOWN, *self.EMPTY)[-2] == line

    def test_one_or_two_have_a_line_each_and_so_have_all_where_nothing_is_shown(self) -> None:
        assert self.lines(self.SHOWN, *self.EMPTY[:2])[-3:-1] == [f"V{i}: {self.EMPTY[i].notes[0]}" for i in range(2)]
        assert self.lines(*self.EMPTY)[-4:-1] == [f"V{i}: {self.EMPTY[i].notes[0]}" for i in range(3)]

    def test_a_view_with_more_to_say_keeps_its_words(self) -> None:
        told = Section("k", "K", notes=("needs kernels with a duration", "7 kernels have no duration"))
        lines = self.lines(self.SHOWN, *self.EMPTY, told)
        assert lines[-3] == "K: needs kernels with a duration; 7 kernels have no duration"
        assert lines[-2].startswith("nothing to show: V0")

    def test_markdown_gathers_them_too(self) -> None:
        text = RENDERERS["markdown"].render(Report("t", "0", sections=(self.SHOWN, *self.EMPTY)), RenderOptions())
        assert "## V0" not in text
        assert "Nothing to show: V0 (v0), V1 (v1), V2 (v2)" in text


def test_a_person_reads_four_digits_in_one_unit_a_column() -> None:
    columns = (
        Column("name", "Name", Unit.TEXT, ["a", "b"]),
        Column("total", "Total", Unit.NS, [30_012_242_000, 1_234_567_891]),
        Column("rate", "Rate", Unit.NUMBER, [1.23456789, 12345.678]),
        Column("calls", "Calls", Unit.COUNT, [1234567, 1]),
    )
    lines = TEXT(report_of(*columns), RenderOptions()).split("\n")[3:-1]
    assert [line.split() for line in lines] == [
        ["Total", "(ms)", "Rate", "Calls", "Name"],
        ["----------", "------", "---------", "----"],
        ["30,012", "1.235", "1,234,567", "a"],
        ["1,235", "12,346", "1", "b"],
    ]
    # A unit that the user names, and -v, have every digit.
    assert "30,012,242,000" in TEXT(report_of(*columns), RenderOptions(time_unit="ns"))
    assert "30,012.242000" in TEXT(report_of(*columns), RenderOptions(verbose=True))


def test_the_records_are_accounted_for_in_one_short_line() -> None:
    def footer(ledgers: list[dict[str, object]], **options: bool) -> list[str]:
        return TEXT(Report("t", "0", ledgers=tuple(ledgers)), RenderOptions(**options)).split("\n")[2:-1]

    whole = ledger("a.csv", read=1000, kept=990, facts=10)
    losing = ledger("b.csv", read=20, kept=17, dropped={"bad-time": 2, "torn": 1})
    assert footer([whole]) == ["read 1,000 records, nothing dropped"]
    assert footer([whole, whole]) == ["read 2,000 records of 2 inputs, nothing dropped"]
    assert footer([losing]) == ["read 20 records, 3 dropped (bad-time 2, torn 1)"]
    assert footer([whole, losing]) == [
        "read 1,020 records of 2 inputs, 3 dropped",
        "b.csv: read 20 records, 3 dropped (bad-time 2, torn 1)",
    ]
    assert footer([ledger("c.csv", read=9, kept=4, filtered=5)]) == ["read 9 records, 5 filtered, nothing dropped"]
    # What was dropped is never silent.
    assert footer([whole], quiet=True) == []
    assert footer([whole, losing], quiet=True) == ["b.csv: read 20 records, 3 dropped (bad-time 2, torn 1)"]
    assert footer([losing] * 6)[-1] == "and 2 more inputs with dropped records"


def test_times_that_are_compared_have_one_unit() -> None:
    columns = (
        Column("name", "Name", Unit.TEXT, ["a", "b"]),
        Column("base", "Base", Unit.NS, [1_500, None]),
        Column("new", "New", Unit.NS, [None, 395_067_000_123]),
        Column("difference", "Difference", Unit.NS, [-7, None]),
        Column("other", "Other", Unit.NS, [1_500, 2_500]),
    )
    report = Report("r", "0", (), (Section("v", "V", (ReportTable("t", "T", columns),)),))
    text = RENDERERS["text"].render(report, RenderOptions(verbose=True))
    assert "Base (ms)  New (ms)" in re.sub(" {2,}", "  ", text)
    assert "Difference (ms)  Other (us)" in re.sub(" {2,}", "  ", text)
    assert " 0.001500 " in text
    assert "395,067.000123" in text
    heads = re.findall(r"<th[^>]*>(\w+ \w*s)(?=<)", table_html(report.sections[0].tables[0], "v", "0.0"))
    assert heads == ["Base ms", "New ms", "Difference ms", "Other ms"]  # a table of a page has one unit


@pytest.mark.parametrize("word", ["not enough runs", "not enough data", "faster"])
@pytest.mark.parametrize("length", [30, 90])
def test_a_short_text_is_whole_where_titles_and_the_name_can_give_way(word: str, length: int) -> None:
    columns = (
        Column("name", "Name", Unit.TEXT, ["void " + "n" * length + "(float*)"], 0),
        Column("base", "Base", Unit.NS, [1_420_229], 0),
        Column("new", "New", Unit.NS, [1_482_343], 0),
        Column("difference", "Difference", Unit.NS, [62_114], 0),
        Column("change", "Change", Unit.RATIO, [0.0437], 0),
        Column("verdict", "Verdict", Unit.TEXT, [word], 0),
    )
    lines = TEXT(report_of(*columns), RenderOptions(width=80)).splitlines()
    assert any(word in line and "62" in line for line in lines)
    assert max(map(cell_width, lines)) <= 80


def test_titles_stay_in_one_line_where_no_text_is_cut() -> None:
    columns = (
        Column("name", "Name", Unit.TEXT, ["gemm"], 0),
        Column("difference", "Difference", Unit.NS, [62_114], 0),
        Column("verdict", "Verdict", Unit.TEXT, ["not enough runs"], 0),
    )
    assert "Difference (us)  Verdict          Name" in TEXT(report_of(*columns), RenderOptions(width=80))


def test_the_name_of_a_row_is_the_first_text_that_is_never_hidden() -> None:
    """An operator that a narrow terminal hides does not stand for the shapes that tell the rows apart."""
    shapes = [f"8x12 heads, 512x512x{depth}, causal backward" for depth in (64, 65)]
    columns = (
        Column("name", "Operator", Unit.TEXT, ["aten::_scaled_dot_product_cudnn_attention_backward"] * 2, 5),
        Column("shape", "Shape", Unit.TEXT, shapes, 0),
        *(Column(f"c{i}", f"Device time {i}", Unit.NS, [1_000_000 * i, 1], i) for i in range(5)),
    )
    report = Report("r", "0", sections=(Section("attention", "Attention", (ReportTable("a", "A", columns),)),))
    lines = RENDERERS["text"].render(report, RenderOptions(width=80)).splitlines()
    for shape in shapes:
        assert any(line.endswith(shape) for line in lines)

"""Printed numbers: the styles of locales, times with the range that their digits leave, and what is refused."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from doors.readers import RowError
from doors.readers import cuda_profile_columns as cuda
from doors.readers import ncu_values as ncu
from doors.readers import nvprof_row as nvprof
from doors.readers import torch_columns as torch
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small

from tracekit.errors import ParseError
from tracekit.model.trace import Ledger
from tracekit.model.units import MAX_NS
from tracekit.readers.base import ReadOptions
from tracekit.readers.engine import cells
from tracekit.readers.printed import locale
from tracekit.readers.printed.lines import PrintedLines, printed
from tracekit.readers.printed.locale import NumberCells, as_csv, as_printed
from tracekit.readers.printed.numbers import COMMA, POINT, STYLES, Style, choose, styles_of
from tracekit.readers.source import open_source

BLANKS = "'\u2019\u00a0\u2009\u202f"
SEPARATORS = {POINT: "," + BLANKS, COMMA: "." + BLANKS}


def sizes_of(digits: int) -> list[int]:
    """The sizes of the groups of a number with that many digits, the first one first."""
    head = digits % 3 or 3
    return [head] + [3] * ((digits - head) // 3)


def grouped(digits: str, separator: str) -> str:
    parts, at = [], 0
    for size in sizes_of(len(digits)):
        parts.append(digits[at : at + size])
        at += size
    return separator.join(parts)


def read(style: Style, text: str) -> str | None:
    """A second reading of a number in a style, without regular expressions."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    for mark in "eE":
        if mark in rest:
            rest, _, power = rest.partition(mark)
            power = power[1:] if power[:1] in ("+", "-") else power
            if not (power.isascii() and power.isdecimal() and len(power) <= 3):
                return None
            break
    whole, point, fraction = rest.partition(style.decimal)
    if point and not (fraction.isascii() and fraction.isdecimal()):
        return None
    for separator in SEPARATORS[style]:
        groups = whole.split(separator)
        if len(groups) > 1:
            digits = "".join(groups)
            fits = digits.isascii() and digits.isdecimal() and [len(g) for g in groups] == sizes_of(len(digits))
            if not fits or digits.startswith("0"):
                return None
            return text.replace(separator, "").replace(style.decimal, ".")
    return text.replace(style.decimal, ".") if whole.isascii() and whole.isdecimal() else None


@given(st.sampled_from(STYLES), st.integers(0, 10**14), st.text("0123456789", max_size=4), st.data())
def test_a_number_that_a_locale_prints_is_read(style: Style, number: int, fraction: str, data: st.DataObject) -> None:
    sign, power = data.draw(st.sampled_from(["", "-", "+"])), data.draw(st.sampled_from(["", "e5", "E-12", "e+300"]))
    separator = data.draw(st.sampled_from(["", *SEPARATORS[style]]))
    text = sign + grouped(str(number), separator) + (style.decimal + fraction if fraction else "") + power
    want = f"{sign}{number}{'.' if fraction else ''}{fraction}{power}"
    assert style.plain(text) == read(style, text) == want


@given(
    st.sampled_from(STYLES),
    st.text("0012.,'e-\u00a0", max_size=12) | st.from_regex(r"[1-9]\d?\d?([.,]\d{2,4}){1,3}", fullmatch=True),
)
def test_no_other_text_is_a_number(style: Style, text: str) -> None:
    assert style.plain(text) == read(style, text)


@pytest.mark.parametrize(("cells", "styles"), [
    (["25.369.833", "27,0"], [COMMA]), (["44,0087,8248", "1.5"], [POINT]), (["12,34,567.8", "2,5"], [COMMA]),
    (["1,234,567.8", "12"], [POINT]), (["1,234"], [POINT, COMMA]), (["12,3456"], [COMMA]),
    (["12", "7"], []), ([], []), (["1.234"], [POINT, COMMA]), (["0,5", "1,234"], [COMMA]), (["n/a", "-"], [POINT]),
    (["1.234,5", "n/a", "1,5"], [COMMA]),
])  # fmt: skip
def test_the_style_of_a_table_is_the_one_that_reads_most_cells(cells: list[str], styles: list[Style]) -> None:
    assert styles_of([(text, False) for text in cells]) == styles


def test_columns_of_whole_numbers_have_no_decimals() -> None:
    assert styles_of([("1,234", True)]) == [POINT]
    assert styles_of([("1.234", True)]) == [COMMA]
    assert styles_of([("1,000", True)]) == [POINT, COMMA]  # 1000, or a 1 that was printed with decimals
    assert styles_of([("1,234", True), ("12", True), ("1,5", False)]) == [POINT, COMMA]
    assert styles_of([("1,234", False)], ",") == [COMMA]
    assert styles_of([("1,234", False)], ".") == [POINT]


def test_of_several_styles_the_sums_the_file_and_the_program_decide() -> None:
    both = (POINT, COMMA)
    assert choose(both, lambda style: style is COMMA, ["1,234"], POINT) is COMMA
    assert choose(both, lambda _: True, ["1,234"], COMMA) is COMMA
    assert choose(both, lambda _: False, ["1,234"], COMMA) is COMMA
    assert choose(both, lambda _: True, ["1,234"], None) is None
    assert choose(both, lambda _: True, ["1.234"], None) is POINT
    assert choose((COMMA,), lambda _: False, ["1,234"], None) is COMMA


@pytest.mark.parametrize(("padded", "row"), [(False, "row (1234567.5)  0.5 f"), (True, "row (  1234567.5)  0.5 f")])
def test_a_number_keeps_its_width_only_where_columns_are_cut_by_place(padded: bool, row: str, tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_text("of 1.234,5 elsewhere\nrow (1.234.567,5)  0,5 f\n", "utf-8")
    cells = NumberCells(re.compile("^row ")) if not padded else NumberCells(re.compile("^row "), padded=True)
    with open_source(str(path)) as source:
        blocks = as_printed(source, ReadOptions(), cells).line_blocks(Ledger())
        assert b"".join(block.data for block in blocks).decode() == f"of 1.234,5 elsewhere\n{row}\n"


@pytest.mark.parametrize("place", range((256 << 10) - 2, (256 << 10) + 2))
@pytest.mark.parametrize("end", ["", "µ"])
def test_a_comma_is_found_wherever_the_file_is_cut_to_look_for_it(place: int, end: str, tmp_path: Path) -> None:
    """A file is looked at in pieces of 256 KiB; with a byte that is not ASCII, in pieces of whole lines."""
    path, row = tmp_path / "table.txt", "row 0,5 f\n"
    path.write_text(f"{'x' * (place - row.index(',') - 1)}\n{row}{end}", "utf-8")
    with open_source(str(path)) as source:
        assert as_printed(source, ReadOptions(), NumberCells(re.compile("^row "))) is not source
    path.write_text(f"{'x' * (place - row.index(',') - 1)}\n{row.replace(',', '.')}{end}", "utf-8")
    with open_source(str(path)) as source:
        assert as_printed(source, ReadOptions(), NumberCells(re.compile("^row "))) is source


# --- tables of another locale, read as if the program had printed them ---

ROWS = NumberCells(re.compile("^row "))
BOTH = "the numbers follow two conventions: "


def reread(text: str, tmp_path: Path, cells: NumberCells | None = ROWS, decimal: str = "") -> tuple[str, bool]:
    """Return the text of rows, or (cells: None) of a file of cells, as a reader gets it, and whether it was changed."""
    path, options = tmp_path / "table", ReadOptions(values={"decimal": decimal} if decimal else {})
    path.write_bytes(text.encode())
    with open_source(str(path)) as source:
        found = as_csv(source, options) if cells is None else as_printed(source, options, cells)
        assert (found.name, found.path, found.head().data) == (str(path), path, text.encode())
        ledger = Ledger()
        out = b"".join(block.data for block in found.line_blocks(ledger)).decode()
        assert found.share_read() == source.share_read()
        assert (found is source) == (not ledger.notes)
        assert set(ledger.notes) <= {"numbers-of-another-locale"}
        return out, found is not source


@pytest.mark.parametrize(("text", "wanted"), [
    ("row 0,5\nrow 1.234\n", "row 0.5\nrow 1234\n"), ("row 1,234.5 1,234\n", "row 1234.5 1234\n"),
    ("row 1'234 7\n", "row 1234 7\n"), ("row 1\u2019234\n", "row 1234\n"), ("row 1\u202f234us\n", "row 1234us\n"),
    ("0,5\nrow 1,5 (2,5) |3,5|x4,5 a=4,5\n", "0,5\nrow 1.5 (2.5) |3.5|x4,5 a=4,5\n"),
    ("row 1.234.567,5e3\r\nrow 8,0%\r\n", "row 1234567.5e3\r\nrow 8.0%\r\n"),
])  # fmt: skip
def test_rows_are_read_in_the_one_style_that_fits_them(text: str, wanted: str, tmp_path: Path) -> None:
    assert reread(text, tmp_path) == (wanted, True)


@pytest.mark.parametrize(
    "text", ["row 1.5 12\n", "row 12\n", "", "0,5\nrow 1.5\n", "row a,b don't\n", "'1,\nrow ,5'\n"]
)
def test_a_table_in_the_program_s_own_style_is_left_alone(text: str, tmp_path: Path) -> None:
    assert reread(text, tmp_path) == (text, False)


def test_a_number_that_always_has_decimals_is_no_whole_one(tmp_path: Path) -> None:
    cells = NumberCells(re.compile("^row "), fraction=re.compile(r"[\d.,e]+us"))
    assert reread("row 1,234us 7\n", tmp_path, cells) == ("row 1.234us 7\n", True)
    assert reread("row 1,234us 5e3us\n", tmp_path, cells) == ("row 1.234us 5e3us\n", True)
    with pytest.raises(ParseError, match=r"'1,234' may be 1\.234 or 1234"):
        reread("row 1,234ms 7\n", tmp_path, cells)


@pytest.mark.parametrize("cells", [ROWS, None])
@pytest.mark.parametrize(("numbers", "where", "words"), [
    (["1.5", "2.5", "3,5", "4,5"], 1, BOTH + "'1.5' here, '3,5' on line 3"),
    (["1,5", "2,5", "3.5", "4.5"], 1, BOTH + "'1,5' here, '3.5' on line 3"),
    (["7", "1,5", "3.5"], 2, BOTH + "'1,5' here, '3.5' on line 3"),
    (["1'234", "7", "1,234"], 3, "'1,234' may be 1.234 or 1234, and no other number of the file shows which"),
    (["1.234", "1,234"], 1, "'1.234' may be 1.234 or 1234, and no other number of the file shows which"),
])  # fmt: skip
def test_numbers_that_do_not_show_their_style_are_refused_by_line(
    cells: NumberCells | None, numbers: list[str], where: int, words: str, tmp_path: Path
) -> None:
    text = "".join(f"x;{number};\n" if cells is None else f"row {number}\n" for number in numbers)
    with pytest.raises(ParseError) as caught:
        reread(text, tmp_path, cells)
    assert str(caught.value) == f"{tmp_path / 'table'}: line {where}: {words}"
    assert caught.value.hint == "options decimal=, (or decimal=.) names the decimal separator"


def test_the_user_may_name_the_decimal_separator(tmp_path: Path) -> None:
    assert reread("row 1,234\n", tmp_path, decimal=",") == ("row 1.234\n", True)
    assert reread("row 1,234\n", tmp_path, decimal=".") == ("row 1234\n", True)
    # A number that is not of this style stays as it is.
    assert reread("row 1,5 2.5\n", tmp_path, decimal=".") == ("row 1,5 2.5\n", True)


def test_a_line_that_is_too_long_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.LOCALE_ROW_CHARACTERS, 10)
    assert reread("row 12,345\nrow 123,45\nrow 12,3456\nrow 123,456\n", tmp_path) == (
        "row 12.345\nrow 123.45\nrow 12,3456\nrow 123,456\n", True
    )  # fmt: skip


@given(st.text("0159/:,'a\u2019\u00a0 ", max_size=6))
def test_a_separator_stands_between_digits(text: str) -> None:
    wanted = re.search("[\u2019\u00a0\u2009\u202f]|[0-9][,'][0-9]", text) is not None
    assert locale._has_separators(text.encode()) == wanted


@pytest.mark.parametrize("character", "/09:")
def test_only_digits_make_a_comma_a_separator(character: str) -> None:
    for mark in ",'":
        assert locale._has_separators(f"{character}{mark}5".encode()) == character.isdecimal()
        assert locale._has_separators(f"x5{mark}{character}x".encode()) == character.isdecimal()


@pytest.mark.parametrize(("data", "delimiter"), [
    (b"", ","), (b"# a;b;c\n= a;b\n", ","), (b"\n  \n# a\tb\n=a\tb\n\na;b;c,d\nx,y,z\n", ";"), (b"a;b,c\n", ","),
    (b"a\tb;c\td\n", "\t"), (b"\xef\xbb\xbf#x;\na,b\n", ","), (b"\xef\xbb\xbfa;b\n", ";"), (b"a\nb;c\n", ","),
])  # fmt: skip
def test_the_delimiter_is_that_of_the_first_line_of_cells(data: bytes, delimiter: str) -> None:
    assert locale.delimiter_of(data) == delimiter


@pytest.mark.parametrize(("text", "wanted"), [
    ("# made;;\r\na;b\n\n1.234;2,5\n", "# made\na,b\n\n1234,2.5\n"),
    ('a;"b;c"; 1,5 ;+2,5;-1\n"x,y";"q""r";-;n/a;7\n', 'a,b;c,1.5,+2.5,-1\n"x,y","q""r",-,n/a,7\n'),
    ('a,b,c\n"1.234,5",x,7\n', "a,b,c\n1234.5,x,7\n"), ("a,b\n1'234,5\n", "a,b\n1234,5\n"),
    ("a,b\n1\u202f234,-5\n", "a,b\n1234,-5\n"), ("a\tb\n1\t2.5\n", "a,b\n1,2.5\n"), ("a;b\n-1,5;x\n", "a,b\n-1.5,x\n"),
])  # fmt: skip
def test_a_file_of_cells_gets_commas_and_points(text: str, wanted: str, tmp_path: Path) -> None:
    assert reread(text, tmp_path, None) == (wanted, True)


@pytest.mark.parametrize("text", ["a,b\n1,2.5\n", 'a,b\n"1.5","x,5"\n', "a,b\n1,don't\n", ""])
def test_a_file_with_commas_and_points_is_left_alone(text: str, tmp_path: Path) -> None:
    assert reread(text, tmp_path, None) == (text, False)


# --- times with a range ---

TIMES = st.builds(PrintedLines, st.integers(-50, 50).map(Decimal), st.integers(0, 20).map(lambda n: Decimal(n) / 2))


@given(TIMES, TIMES)
def test_two_prints_of_one_time_narrow_each_other(one: PrintedLines, other: PrintedLines) -> None:
    def inside(ns: Decimal, time: PrintedLines) -> bool:
        return time.ns - time.off <= ns <= time.ns + time.off

    halves = [Decimal(n) / 2 for n in range(-160, 161)]
    assert one.apart(other) == (not any(inside(ns, one) and inside(ns, other) for ns in halves))
    best = one.narrowed(other)
    fine, coarse = (one, other) if one.off <= other.off else (other, one)
    assert best.off == min(one.off, other.off)
    assert inside(best.ns, coarse)
    if inside(fine.ns, coarse):
        assert best.ns == fine.ns
    else:
        assert abs(best.ns - coarse.ns) == coarse.off
        assert abs(best.ns - fine.ns) == min(abs(ns - fine.ns) for ns in halves if inside(ns, coarse))


@given(st.integers(-(10**6), 10**6), st.integers(0, 8), st.sampled_from(["s", "ms", "us", "ns"]), st.integers(0, 9))
def test_a_printed_time_is_off_by_half_of_its_last_digit(number: int, places: int, unit: str, count: int) -> None:
    text = f"{Decimal(number).scaleb(-places):f}"
    found = printed(text, unit)
    scale = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    assert Fraction(found.ns) == Fraction(number, 10**places) * scale
    assert Fraction(found.off) == Fraction(scale, 2 * 10**places)
    assert found.rounded() == round(Fraction(found.ns))
    many = found.times(count)
    assert (many.ns, many.off) == (found.ns * count, found.off * count)


def test_printed_times_beyond_146_years_and_other_texts_are_refused() -> None:
    most = (1 << 62) - 1
    assert printed(str(most), "ns").ns == most
    assert printed("1e-399").ns == Decimal("1e-390")
    for text in (str(1 << 62), str(-(1 << 62)), "1e30"):
        with pytest.raises(ValueError, match="146 years"):
            printed(text, "ns")
    with pytest.raises(ValueError, match="146 years"):
        printed(str(1 << 61), "ns").times(2)
    with pytest.raises(ValueError, match="146 years"):
        printed("4611686018.427387904")
    for text in ("nan", "inf", "1e400", "1e-400", "x", ""):
        with pytest.raises(ValueError, match="not a"):
            printed(text)


# --- nvprof ---


@pytest.mark.parametrize(("cell", "decimal", "plain"), [
    ("12.5us", ".", "12.5us"), ("12.5us", "", "12.5us"), ("1,234.5", ".", "1234.5"), ("1,234,567", ".", "1234567"),
    ("1'234", ".", "1234"), ("1\u202f234\u202f567.5ms", ".", "1234567.5ms"), ("-1,234.5GB/s", ".", "-1234.5GB/s"),
    ("<1,234.50%", ".", "<1234.50%"), ("1,234,567e+03", ".", "1234567e+03"), ("1'234.", ".", "1234."),
    ("12,5us", ",", "12.5us"), ("1.234,5", ",", "1234.5"), ("1.234.567", ",", "1234567"), ("1'234,5", ",", "1234.5"),
    ("1,234", ",", "1.234"), ("1\u00a0234", ",", "1234"), ("123", ",", "123"),
])  # fmt: skip
def test_separators_of_thousands_are_taken_out(cell: str, decimal: str, plain: str) -> None:
    assert nvprof.plain_number(cell, decimal) == plain


@pytest.mark.parametrize(("cell", "decimal"), [
    ("1,234", "."), ("1,234us", "."), ("12,34.5", "."), ("1,234.5,6", "."), ("１２", "."), ("1.234", ","),
    ("1,234,567", ","), ("1.23,4", ","), ("1'23", "."), ("1'23", ","), ("1,234.5", ","), ("１２", ","),
])  # fmt: skip
def test_separators_that_may_mean_either_are_refused(cell: str, decimal: str) -> None:
    with pytest.raises(RowError) as found:
        nvprof.plain_number(cell, decimal)
    assert found.value.code == "ambiguous-number"


def test_times_of_cells_carry_their_unit_or_that_of_the_column() -> None:
    assert nvprof.time_ns("12.5", "us") == 12_500
    assert nvprof.time_ns("12.5ms", "us") == 12_500_000
    assert nvprof.time_ns("1.234,5", "us", ",") == 1_234_500
    assert nvprof.time_ns("0", "s") == 0


@pytest.mark.parametrize(("cell", "unit", "code"), [
    ("abc", "us", "bad-time"), ("", "us", "bad-time"), ("1.5", "", "no-unit"), ("1.5", "parsec", "no-unit"),
    ("-1", "us", "negative-time"), ("5000000000", "s", "absurd-time"),
])  # fmt: skip
def test_cells_that_are_no_time_say_why(cell: str, unit: str, code: str) -> None:
    with pytest.raises(RowError) as found:
        nvprof.time_ns(cell, unit)
    assert found.value.code == code
    assert not cell or cell in found.value.text or unit in found.value.text


def test_sizes_are_whole_bytes_below_4_eib() -> None:
    assert nvprof.size_bytes("1.5", "KB") == nvprof.size_bytes("1.5KB", "MB") == 1536
    assert nvprof.size_bytes("1,5", "KB", ",") == 1536
    # Nothing is nothing in any unit.
    assert nvprof.size_bytes("0", "") == nvprof.size_bytes("0", "furlong") == nvprof.size_bytes("0.0", "B") == 0
    assert nvprof.size_bytes(str((1 << 62) - 1), "B") == (1 << 62) - 1
    for cell, unit in (("1", ""), ("1", "furlong"), ("-1", "B"), (str(1 << 62), "B"), ("x", "B"), ("9e99", "B")):
        with pytest.raises(RowError) as found:
            nvprof.size_bytes(cell, unit)
        assert found.value.code == "bad-size"


def test_whole_numbers_may_have_separators_but_no_decimals() -> None:
    known = [
        ("7", "."),
        ("999999999", "."),
        ("1,234", "."),
        ("1.234", ","),
        ("1,234,567", "."),
        ("12.0", "."),
        ("-7", "."),
    ]
    assert [nvprof.integer(cell, decimal, 1 << 31) for cell, decimal in known] == [
        7, 999_999_999, 1234, 1234, 1_234_567, 12, -7,
    ]  # fmt: skip
    assert nvprof.integer(str((1 << 31) - 1), ".", 1 << 31) == (1 << 31) - 1
    for cell, decimal in (
        (str(1 << 31), "."),
        (f"-{1 << 31}", "."),
        ("1.5", "."),
        ("3us", "."),
        ("1,5", "."),
        ("x", "."),
        ("1.234", "."),
    ):
        with pytest.raises(RowError) as found:
            nvprof.integer(cell, decimal, 1 << 31)
        assert found.value.code in ("bad-number", "ambiguous-number")


# --- declared tables ---


def test_cells_of_declared_tables_are_exact_or_refused() -> None:
    assert cells.number("1,234.5", POINT) == Decimal("1234.5")
    assert cells.integer("1.234", COMMA) == 1234
    assert cells.integer("12.0", POINT) == 12
    assert cells.integer("-5", POINT, 5) == -5
    assert cells.time("1,5", "us", COMMA) == 1500
    assert (cells.size("1.5", "KiB", POINT), cells.SIZE.rounded("KiB")) == (1536, True)
    assert cells.size("7", "", POINT) == cells.size("7", "B", POINT) == 7
    assert cells.size(str((1 << 62) - 1), "B", POINT) == (1 << 62) - 1
    assert not cells.SIZE.rounded("")
    assert not cells.SIZE.rounded("B")
    refused = (
        lambda: cells.number("1.234,5", POINT),
        lambda: cells.integer("1.5", POINT),
        lambda: cells.integer("6", POINT, 5),
        lambda: cells.integer("-6", POINT, 5),
        lambda: cells.time(str(1 << 62), "ns", POINT),
        lambda: cells.size(str(1 << 62), "B", POINT),
        lambda: cells.size(f"-{1 << 62}", "B", POINT),
    )
    for call in refused:
        with pytest.raises(RowError):
            call()


# --- Nsight Compute ---


@pytest.mark.parametrize(("unit", "base"), [
    ("second", ("ns", 9)), ("s", ("ns", 9)), ("ms", ("ns", 6)), ("usecond", ("ns", 3)), ("µs", ("ns", 3)),
    ("μsecond", ("ns", 3)), ("nsecond", ("ns", 0)), ("byte", ("B", 0)), ("Kbyte", ("B", 3)), ("Mbyte", ("B", 6)),
    ("Gbyte/second", ("B/s", 9)), ("Tbyte/s", ("B/s", 12)), ("Pbyte/s", ("B/s", 15)), ("byte/usecond", ("B/s", 6)),
    ("hz", ("Hz", 0)), ("kHz", ("Hz", 3)), ("MHz", ("Hz", 6)), ("Ghz", ("Hz", 9)), ("cycle/second", ("Hz", 0)),
    ("cycle/nsecond", ("Hz", 9)), ("cycle/ms", ("Hz", 3)), ("inst/cycle", ("inst/cycle", 0)), ("%", ("%", 0)),
    ("", ("", 0)), ("byte/block", ("B/block", 0)), ("register/thread", ("register/thread", 0)), ("bytes", ("bytes", 0)),
])  # fmt: skip
def test_a_unit_of_ncu_is_a_base_unit_and_a_power_of_ten(unit: str, base: tuple[str, int]) -> None:
    assert ncu.base_unit(unit) == base


def test_numbers_of_ncu_are_those_that_a_double_may_hold() -> None:
    known = {"54,207,744": 54207744, "-1.5": Decimal("-1.5"), "0": 0, "0e999": 0, "1e299": Decimal("1e299")}
    known["1e-299"] = Decimal("1e-299")
    assert {text: ncu.value_of(text, POINT) for text in known} == known
    for text in ("", "CachePreferNone", "1e300", "1e-300", "9" * 61, "nan", "1.5.5", "1,5"):
        assert ncu.value_of(text, POINT) is None
    assert ncu.value_of("9" * 60, POINT) == Decimal("9" * 60)
    assert ncu.value_of("1.234,5", COMMA) == Decimal("1234.5")
    assert [ncu.is_number(text) for text in ("1'2.3,4e5", "x", "9" * 60, "9" * 61)] == [True, False, True, False]
    most = Decimal(1 << 53)
    assert [ncu.is_exact(value) for value in (most, -most, most + 1, -most - 1)] == [True, True, False, False]


@pytest.mark.parametrize(("metric", "unit", "whole"), [
    ("Threads", "thread", True), ("Grid Size", "", True), ("Block Limit SM", "block", True), ("Duration", "ns", False),
    ("gpu__time_duration.sum", "nsecond", True), ("gpu__time_duration.sum", "usecond", False),
    ("dram__bytes.sum", "byte", True), ("dram__bytes.sum", "Mbyte", False), ("inst.avg", "inst", False),
])  # fmt: skip
def test_sums_of_what_is_counted_are_whole(metric: str, unit: str, whole: bool) -> None:
    assert ncu.is_whole(metric, unit) == whole


# --- the CUDA profiler's logs ---


def test_odd_cells_of_cuda_logs_are_exact() -> None:
    assert cuda.exact("gputime", " 1.5 ") == 1500
    assert cuda.exact("gpustarttimestamp", "fF") == 255
    assert cuda.exact("gpuendtimestamp", f"{MAX_NS - 1:016x}") == MAX_NS - 1
    assert [cuda.exact("gridsizeX", text) for text in ("3", "3.0", "0", "3e2", " 7")] == [3, 3, 0, 300, 7]
    assert cuda.exact("gridsizeX", str(MAX_NS - 1)) == MAX_NS - 1


@pytest.mark.parametrize(("column", "text"), [
    ("gputime", "-0.001"), ("gputime", "x"), ("gputime", "1,5"), ("gpustarttimestamp", "fg"), ("gpustarttimestamp", ""),
    ("gpustarttimestamp", "0" * 17), ("gpustarttimestamp", f"{MAX_NS:x}"), ("gridsizeX", "3.5"), ("gridsizeX", "nan"),
    ("gridsizeX", "-1"), ("gridsizeX", "1e21"), ("gridsizeX", "1e20"), ("gridsizeX", str(MAX_NS)), ("gridsizeX", "x"),
])  # fmt: skip
def test_cells_of_cuda_logs_that_no_column_holds_are_refused(column: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"not (?:a |hex)"):
        cuda.exact(column, text)


def test_digits_below_1_ns_are_seen() -> None:
    texts = ("1.0005", "0.0001", "1.000", "1.0000", "7", "1e-4", "x", "1e999999999", " 1.5 ")
    assert [cuda.below_ns(text) for text in texts] == [True, True, False, False, False, True, False, False, False]


# --- PyTorch's tables ---


@pytest.mark.parametrize(("title", "scale"), [
    ("FLOPS", 1), ("Total FLOPs", 1), ("KFLOPS", 10**3), ("Total KFLOPs", 10**3), ("Total MFLOPs", 10**6),
    ("GFLOPS", 10**9), ("Total TFLOPs", 10**12), ("Total PFLOPs", 10**15),
])  # fmt: skip
def test_flops_are_in_the_scale_of_their_head(title: str, scale: int) -> None:
    columns = torch.columns_of(f"Name  Self CPU  # of Calls  {title}")
    assert columns is not None
    assert [columns.flops(columns.roles[-1], cell) for cell in ("1.5", "3", "0", "--", "x", "")] == [
        round(Decimal("1.5") * scale), 3 * scale, 0, None, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(("title", "scale"), [("KFLOPS", 10**3), ("Total PFLOPs", 10**15)])
def test_flops_beyond_2_to_the_62_are_not_known(title: str, scale: int) -> None:
    columns = torch.columns_of(f"Name  Self CPU  # of Calls  {title}")
    assert columns is not None
    beyond = (1 << 62) // scale + 1
    assert columns.flops(columns.roles[-1], str(beyond - 2)) == (beyond - 2) * scale
    assert columns.flops(columns.roles[-1], str(beyond)) is None

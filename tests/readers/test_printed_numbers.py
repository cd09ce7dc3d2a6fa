"""Printed numbers: the styles of locales, times with the range that their digits leave, and what is refused."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.readers.base import ReadOptions
from tracekit.readers.cuda_profile import _columns as cuda
from tracekit.readers.nsys import _tables as nsys
from tracekit.readers.nvprof import _row as nvprof
from tracekit.readers.nvprof._state import RowError
from tracekit.readers.printed.lines import Printed, printed
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import COMMA, LAKHS, MYRIADS, POINT, STYLES, Style, choose, styles_of
from tracekit.readers.source import open_source
from tracekit.readers.torch import _columns as torch
from tracekit.trace import Ledger
from tracekit.units import MAX_NS

BLANKS = "'\u2019\u00a0\u2009\u202f"
SEPARATORS = {POINT: "," + BLANKS, COMMA: "." + BLANKS, MYRIADS: ",", LAKHS: ","}


def sizes_of(style: Style, digits: int) -> list[int]:
    """The sizes of the groups of a number with that many digits, the first one first."""
    if style is LAKHS:
        return [digits] if digits <= 3 else [*sizes_of_equal(digits - 3, 2), 3]
    return sizes_of_equal(digits, 4 if style is MYRIADS else 3)


def sizes_of_equal(digits: int, size: int) -> list[int]:
    head = digits % size or size
    return [head] + [size] * ((digits - head) // size)


def grouped(style: Style, digits: str, separator: str) -> str:
    parts, at = [], 0
    for size in sizes_of(style, len(digits)):
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
            fits = digits.isascii() and digits.isdecimal() and [len(g) for g in groups] == sizes_of(style, len(digits))
            if not fits or digits.startswith("0"):
                return None
            return text.replace(separator, "").replace(style.decimal, ".")
    return text.replace(style.decimal, ".") if whole.isascii() and whole.isdecimal() else None


@given(st.sampled_from(STYLES), st.integers(0, 10**14), st.text("0123456789", max_size=4), st.data())
def test_a_number_that_a_locale_prints_is_read(style: Style, number: int, fraction: str, data: st.DataObject) -> None:
    sign, power = data.draw(st.sampled_from(["", "-", "+"])), data.draw(st.sampled_from(["", "e5", "E-12", "e+300"]))
    separator = data.draw(st.sampled_from(["", *SEPARATORS[style]]))
    text = sign + grouped(style, str(number), separator) + (style.decimal + fraction if fraction else "") + power
    want = f"{sign}{number}{'.' if fraction else ''}{fraction}{power}"
    assert style.plain(text) == read(style, text) == want


@given(
    st.sampled_from(STYLES),
    st.text("0012.,'e-\u00a0", max_size=12) | st.from_regex(r"[1-9]\d?\d?([.,]\d{2,4}){1,3}", fullmatch=True),
)
def test_no_other_text_is_a_number(style: Style, text: str) -> None:
    assert style.plain(text) == read(style, text)


@pytest.mark.parametrize(("cells", "styles"), [
    (["25.369.833", "27,0"], [COMMA]), (["44,0087,8248", "1.5"], [MYRIADS]), (["12,34,567.8"], [LAKHS]),
    (["1,234,567.8", "12"], [POINT]), (["1,234"], [POINT, COMMA]), (["12,3456"], [COMMA, MYRIADS]),
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
    assert choose(both, lambda _: True, ["1,234"], MYRIADS) is None
    assert choose(both, lambda _: True, ["1.234"], None) is POINT
    assert choose((COMMA, MYRIADS), lambda _: True, ["1.234"], None) is None


@pytest.mark.parametrize(("padded", "row"), [(False, "row (1234567.5)  0.5 f"), (True, "row (  1234567.5)  0.5 f")])
def test_a_number_keeps_its_width_only_where_columns_are_cut_by_place(padded: bool, row: str, tmp_path: Path) -> None:
    path = tmp_path / "table.txt"
    path.write_text("of 1.234,5 elsewhere\nrow (1.234.567,5)  0,5 f\n", "utf-8")
    cells = NumberCells(re.compile("^row ")) if not padded else NumberCells(re.compile("^row "), padded=True)
    with open_source(str(path)) as source:
        blocks = as_printed(source, ReadOptions(), cells).line_blocks(Ledger())
        assert b"".join(block.data for block in blocks).decode() == f"of 1.234,5 elsewhere\n{row}\n"


# --- times with a range ---

TIMES = st.builds(Printed, st.integers(-50, 50).map(Decimal), st.integers(0, 20).map(lambda n: Decimal(n) / 2))


@given(TIMES, TIMES)
def test_two_prints_of_one_time_narrow_each_other(one: Printed, other: Printed) -> None:
    def inside(ns: Decimal, time: Printed) -> bool:
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


# --- nsys ---


def test_cells_of_nsys_are_exact_or_refused() -> None:
    assert nsys.number("1,234.5", POINT) == Decimal("1234.5")
    assert nsys.integer("1.234", COMMA) == 1234
    assert nsys.integer("12.0", POINT) == 12
    assert nsys.integer("-5", POINT, 5) == -5
    assert nsys.time("1,5", "us", COMMA) == 1500
    assert nsys.size("1.5", "KiB", POINT) == (1536, True)
    assert nsys.size("7", "", POINT) == nsys.size("7", "B", POINT) == (7, False)
    assert nsys.size(str((1 << 62) - 1), "B", POINT) == ((1 << 62) - 1, False)
    refused = (
        lambda: nsys.number("1.234,5", POINT),
        lambda: nsys.integer("1.5", POINT),
        lambda: nsys.integer("6", POINT, 5),
        lambda: nsys.integer("-6", POINT, 5),
        lambda: nsys.time(str(1 << 62), "ns", POINT),
        lambda: nsys.size(str(1 << 62), "B", POINT),
        lambda: nsys.size(f"-{1 << 62}", "B", POINT),
    )
    for call in refused:
        with pytest.raises(nsys.RowError):
            call()


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

from __future__ import annotations

import doctest
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tracekit.model import units


def test_examples_in_docstrings_run() -> None:
    assert doctest.testmod(units).failed == 0


@given(st.integers(-(10**18), 10**18), st.sampled_from(["s", "ms", "us", "ns"]))
def test_ns_to_text_and_back_is_exact(ns: int, unit: str) -> None:
    text = units.format_ns(ns, unit, grouped=False)
    assert units.to_ns(text, unit) == ns
    assert units.format_ns(ns, unit).replace(",", "") == text


@given(st.decimals(-(10**6), 10**6, places=9), st.sampled_from(["s", "ms", "us"]))
def test_to_ns_rounds_half_to_even_below_one_ns(number: Decimal, unit: str) -> None:
    exact = number * 10 ** units.TIME_EXPONENT[unit]
    got = units.to_ns(str(number), unit)
    assert abs(Decimal(got) - exact) <= Decimal("0.5")


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1.18208s", 1182080000),
        ("128.83us", 128830),
        ("0ns", 0),
        ("16.5µs", 16500),
        ("16.5μs", 16500),
        ("1e3 us", 10**6),
    ],
)
def test_cells_carry_their_unit(text: str, ns: int) -> None:
    assert units.to_ns(*units.split_quantity(text)) == ns


@pytest.mark.parametrize(
    "text", ["", "us", "1,5us", "nan", "inf", "1e999us", "1 2us", "0x10us", "１us", "5 parsec", "-"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        units.to_ns(*units.split_quantity(text))


def test_a_time_beyond_146_years_is_refused() -> None:
    assert units.to_ns(str((1 << 62) - 1), "ns") == (1 << 62) - 1
    assert units.to_ns(str(1 - (1 << 62)), "ns") == 1 - (1 << 62)
    for text, unit in ((str(1 << 62), "ns"), (str(-(1 << 62)), "ns"), ("5000000000", "s"), ("9" * 21, "ns")):
        with pytest.raises(ValueError, match="146 years"):
            units.to_ns(text, unit)
    with pytest.raises(ValueError, match="not a time"):
        units.to_ns("1" + "0" * 21, "ns")
    for text in ("nan", "-inf", "1..2"):
        with pytest.raises(ValueError, match="not a"):
            units.to_ns(text, "s")


def test_sizes_are_powers_of_1024() -> None:
    assert units.to_bytes("1.562500", "MB") == 1638400
    with pytest.raises(ValueError, match="unit of size"):
        units.to_bytes("1", "KiBi")
    assert [units.to_bytes("3", unit) for unit in ("B", "KB", "MB", "GB", "TB")] == [3 << 10 * n for n in range(5)]
    assert units.to_bytes(str(2**63 - 1), "B") == 2**63 - 1
    for text, unit in ((str(2**63), "B"), (str(-(2**63)), "B"), ("9" * 21, "TB")):
        with pytest.raises(ValueError, match="8 EiB"):
            units.to_bytes(text, unit)
    for text in ("1" + "0" * 21, "1e999999", "nan", "inf"):
        with pytest.raises(ValueError, match="not a size:"):
            units.to_bytes(text, "B")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (-1023, "-1023 B"), (1024, "1.00 KiB"), (-1024, "-1.00 KiB"),
        (100 << 10, "100.0 KiB"), ((100 << 10) - 52, "99.95 KiB"), (1 << 20, "1.00 MiB"), (1 << 60, "1,024.0 PiB"),
    ],
)  # fmt: skip
def test_format_bytes(count: int, text: str) -> None:
    assert units.format_bytes(count) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"), (999, "999 ns"), (-999, "-999 ns"), (1_000, "1 us"), (-1_000, "-1 us"), (999_999, "999.999 us"),
        (1_000_000, "1 ms"), (100_000_000, "100 ms"), (1_000_000_001, "1.000000001 s"), (-(10**10), "-10 s"),
    ],
)  # fmt: skip
def test_format_span_keeps_every_digit(ns: int, text: str) -> None:
    assert units.format_span(ns) == text


def test_best_time_unit_grows_with_the_time() -> None:
    times = (5, 10**9 - 1, 10**9, 10**12 - 1, 10**12, -(10**9), -(10**12))
    assert [units.best_time_unit(x) for x in times] == ["us", "us", "ms", "ms", "s", "ms", "s"]


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (4_846_000_000.0, "4.85 GB/s"), (12.0, "12.00 B/s"), (999.0, "999.00 B/s"), (1000.0, "1.00 kB/s"),
        (-2_000_000.0, "-2.00 MB/s"), (1e12, "1.00 TB/s"), (5e15, "5,000.00 TB/s"),
    ],
)  # fmt: skip
def test_rates_are_in_powers_of_1000(rate: float, text: str) -> None:
    assert units.format_rate(rate) == text


def test_only_zero_reads_as_zero_percent() -> None:
    ratios = (0.28341, 0.0, -0.0, 1e-6, -1e-6, 5.1e-5, -5.1e-5, -0.5, 1.0)
    texts = ["28.34", "0.00", "-0.00", "<0.01", ">-0.01", "0.01", "-0.01", "-50.00", "100.00"]
    assert [units.format_ratio(x) for x in ratios] == texts


EXACT = Context(prec=60, rounding=ROUND_HALF_EVEN)


@given(
    st.one_of(
        st.integers(-3000, 3000), st.integers(-(10**18), 10**18), st.integers(-99, 99).map(lambda n: n * 500_000)
    ),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.integers(1, 4),
)
@example(12_345, "us", 2)
@example(-12_355, "us", 2)
def test_rounded_is_half_to_even_as_decimal_does_it(ns: int, unit: str, digits: int) -> None:
    exponent = units.TIME_EXPONENT[unit]
    digits = min(digits, exponent)
    want = Decimal(ns).scaleb(-exponent, EXACT).quantize(Decimal(1).scaleb(-digits), context=EXACT)
    least = f"{Decimal(1).scaleb(-digits):f}"
    if ns and not want:
        assert units.rounded(ns, unit, digits) == (f"<{least}" if ns > 0 else f">-{least}")
    else:
        assert units.rounded(ns, unit, digits) == f"{want:,.{digits}f}"


def test_a_glance_has_three_decimals_from_1_us_on() -> None:
    times = (0, 999, -999, 1_000, 1_234_567, -1_234_567, 1_000_000_000, 59_999_500_000, 59_999_499_999)
    texts = ["0 ns", "999 ns", "-999 ns", "1.000 us", "1.235 ms", "-1.235 ms", "1.000 s", "60.000 s", "59.999 s"]
    assert [units.short_span(ns) for ns in times] == texts


@given(st.integers(0, 3000), st.integers(1, 2000))
def test_a_share_is_rounded_to_a_tenth_and_never_to_all_or_nothing(part: int, whole: int) -> None:
    tenths = (1000 * Fraction(part, whole) + Fraction(1, 2)).__floor__()
    want = "<0.1" if part and not tenths else ">99.9" if part < whole and tenths >= 1000 else f"{tenths / 10:.1f}"
    assert units.percent(part, whole) == want


@given(st.integers(-(1 << 63), 1 << 63))
def test_bytes_have_at_most_four_digits_of_the_largest_unit_that_fits(count: int) -> None:
    if abs(count) < 1024:
        assert units.format_bytes(count) == f"{count} B"
        return
    number, unit = units.format_bytes(count).split(" ")
    power = {"KiB": 1, "MiB": 2, "GiB": 3, "TiB": 4, "PiB": 5}[unit]
    size = Fraction(abs(count), 1024**power)
    assert 1 <= size < 1024 or unit == "PiB"
    whole, _, decimals = number.lstrip("-").replace(",", "").partition(".")
    assert len(decimals) == (2 if size < 100 else 1)
    assert abs(Fraction(f"{whole}.{decimals}") - size) <= Fraction(6, 10 ** (len(decimals) + 1))
    assert number.startswith("-") == (count < 0)


@pytest.mark.parametrize("text", ["1" * 100_000 + "!", "1" + " " * 100_000 + "!", "." + "1" * 100_000 + "!"])
def test_a_long_text_that_is_no_quantity_costs_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="not a number with a unit"):
        units.split_quantity(text)

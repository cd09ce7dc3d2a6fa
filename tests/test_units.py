from __future__ import annotations

import doctest
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit import units


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
    with pytest.raises(ValueError, match="146 years"):
        units.to_ns("5000000000", "s")


def test_sizes_are_powers_of_1024() -> None:
    assert units.to_bytes("1.562500", "MB") == 1638400
    with pytest.raises(ValueError, match="unit of size"):
        units.to_bytes("1", "KiBi")
    with pytest.raises(ValueError, match="8 EiB"):
        units.to_bytes(str(2**63), "B")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (-1024, "-1.00 KiB"), (1 << 60, "1,024.0 PiB")],
)
def test_format_bytes(count: int, text: str) -> None:
    assert units.format_bytes(count) == text


def test_format_span_keeps_every_digit() -> None:
    assert units.format_span(0) == "0 ns"
    assert units.format_span(1_000_000_001) == "1.000000001 s"


def test_best_time_unit_grows_with_the_time() -> None:
    assert [units.best_time_unit(x) for x in (5, 10**9, 10**12)] == ["us", "ms", "s"]


def test_rates_and_ratios() -> None:
    assert units.format_rate(4_846_000_000.0) == "4.85 GB/s"
    assert units.format_rate(12.0) == "12.00 B/s"
    assert units.format_ratio(0.28341) == "28.34"

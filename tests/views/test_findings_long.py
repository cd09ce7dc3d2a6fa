"""Findings that name one long operator of the host, and leave few long gaps out of launch-bound."""

from __future__ import annotations

import pytest
from views.hosts import call, op, work
from views.tables import Row, trace
from views.test_findings import FINDINGS, MS, US, found, one, step

from tracekit.views.base import ViewOptions


def training(long: dict[int, int], name: str = "aten::sort", kernel: int = 60 * US, steps: int = 8) -> list[Row]:
    """Steps of 30 operators of 20 us each with a kernel; long: ns of an operator on the host in a step."""
    rows: list[Row] = []
    at = free = correlation = 0
    for number in range(steps):
        begin = at
        for i in range(30):
            correlation += 1
            begun = max(at + 20 * US, free)
            free = begun + kernel
            rows += [
                op("aten::mm", at, at + 20 * US), call(correlation, at + 15 * US, at + 20 * US),
                work("gemm", correlation, begun, free),
            ]  # fmt: skip
            at += 22 * US
            if i == 15 and number in long:
                # The operator needs its input on the host.
                rows.append(op("cudaStreamSynchronize", at, max(at, free), "runtime", correlation=9_000 + number))
                at = max(at, free)
                rows.append(op(name, at, at + long[number]))
                at += long[number]
        rows.append(op("cudaDeviceSynchronize", at, max(at, free), "runtime", correlation=8_000 + number))
        at = max(at, free)
        rows.append(step(number, begin, at))
    return rows


def length(rows: list[Row]) -> int:
    return max(int(row["ts_ns"]) + int(row["dur_ns"]) for row in rows)


@pytest.mark.parametrize("kernel", [60 * US, 4 * US])
@pytest.mark.parametrize("long", [dict.fromkeys(range(8), 15 * MS), {4: 250 * MS}, dict.fromkeys((2, 6), 40 * MS)])
def test_one_long_operator_is_named_and_is_not_launching(long: dict[int, int], kernel: int) -> None:
    rows, cured = training(long, kernel=kernel), training({}, kernel=kernel)
    true = length(rows) - length(cured)
    finding = one(trace(*rows), "long operator")
    assert "aten::sort" in finding.claim
    assert 0.98 * true <= finding.saving_ns <= 1.25 * true
    assert finding.confidence == "medium"
    first = FINDINGS(trace(*rows), ViewOptions()).findings[0]
    assert first.rule == "long operator"
    assert kernel < 20 * US or not found(trace(*rows), "launch-bound")


def test_slow_launching_beside_a_long_operator_keeps_its_own_savings() -> None:
    """The savings are those of 240 operators of 20 us with kernels of 4 us, with the long operators or without."""
    alone = one(trace(*training({}, kernel=4 * US)), "launch-bound").saving_ns
    beside = one(trace(*training(dict.fromkeys(range(8), 1 * MS), kernel=4 * US)), "launch-bound").saving_ns
    assert 0.98 * alone <= beside <= 1.1 * alone


def test_an_operator_that_hides_behind_the_device_is_no_finding() -> None:
    rows: list[Row] = []
    for i in range(120):
        rows += [op("aten::mm", i * 20 * US, i * 20 * US + 10 * US), call(i, i * 20 * US, i * 20 * US + 5 * US)]
        rows += [work("gemm", i, (i + 1) * MS, (i + 2) * MS)]
    rows.append(op("aten::sort", 3 * MS, 60 * MS))
    assert not found(trace(*rows), "long operator")


def test_operators_that_are_all_slow_are_launching_and_none_of_them_is_long() -> None:
    rows: list[Row] = []
    for i in range(150):
        at = i * 700 * US
        rows += [
            op("aten::add", at, at + 600 * US), call(i, at + 590 * US, at + 600 * US),
            work("add", i, at + 600 * US, at + 620 * US),
        ]  # fmt: skip
    assert not found(trace(*rows), "long operator")
    assert found(trace(*rows), "launch-bound")


@pytest.mark.parametrize("launches", [1, 7])
def test_a_few_long_launch_calls_are_not_launching(launches: int) -> None:
    """Each of them loads a module; all others take 5 us, and the device is busy behind them."""
    rows: list[Row] = []
    at = free = 0
    for i in range(500):
        took = 250 * MS // launches if i < launches else 5 * US
        begun = max(at + took, free)
        free = begun + 300 * US
        rows += [
            op("aten::mm", at, at + took + 5 * US), call(i, at, at + took), work("gemm", i, begun, free),
        ]  # fmt: skip
        at += took + 7 * US
    assert not found(trace(*rows), "launch-bound")

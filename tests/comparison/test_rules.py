"""--fail-on: the grammar, and when a rule is violated, met, or cannot be decided."""

from __future__ import annotations

from dataclasses import replace

import pytest
from doors.compare import (
    MET,
    METRICS,
    UNDECIDED,
    UNKNOWN,
    VIOLATED,
    Change,
    judge_rule,
    parse_metric,
    parse_rule,
)
from support import sample

import tracekit
from tracekit.errors import UsageError


def change(ratio: float | None, low: float | None = None, high: float | None = None, base: float = 1e6) -> Change:
    new = base if ratio is None else base * (1 + ratio)
    return Change(parse_metric("step.p50"), base, new, ratio, low, high, "runs", (10, 10), why="too few")


@pytest.mark.parametrize(
    ("text", "metric", "op", "threshold", "relative"),
    [
        ("step.p50 > 3%", "step.p50", ">", 0.03, True),
        ("step.p50>3 %", "step.p50", ">", 0.03, True),
        ("step_p50 > 3%", "step.p50", ">", 0.03, True),
        ("device_busy > 3%", "device.busy", ">", 0.03, True),
        ("peak_memory > 1MiB", "memory.peak", ">", 1 << 20, False),
        ("step.mean >= 1.5ms", "step.mean", ">=", 1_500_000, False),
        ("device.busy < -2us", "device.busy", "<", -2_000, False),
        ("memory.peak > 100MiB", "memory.peak", ">", 100 << 20, False),
        ("kernel.calls <= -10", "kernel.calls", "<=", -10, False),
        ('kernel["gemm<float, 4>(int)"].avg > 5%', 'kernel["gemm<float, 4>(int)"].avg', ">", 0.05, True),
        ('operator["a > b"].total > 1ms', 'operator["a > b"].total', ">", 1_000_000, False),
    ],
)
def test_the_grammar(text: str, metric: str, op: str, threshold: float, relative: bool) -> None:
    rule = parse_rule(text)
    assert (rule.metric.text, rule.op, rule.threshold, rule.relative) == (metric, op, threshold, relative)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "step.p50",
        "step.p50 > ",
        "step.p51 > 3%",
        "> 3%",
        "step.p50 == 3%",
        "step.p50 > 3 parsecs",
        "step.p50 > 3",
        "step.p50 > 3MiB",
        "memory.peak > 3ms",
        "kernel.calls > 3us",
        'kernel["x"].speed > 3%',
        'gpu["x"].avg > 3%',
        "step.p50 > nan%",
        "step.p50 > 1e400%",
        "kernel.calls > 1e400",
        "step.p50 > 1e999999%",
    ],
)
def test_an_invalid_rule_is_an_error_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule(text)
    assert caught.value.hint


def test_an_unknown_metric_is_answered_with_the_list() -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule("step.median > 3%")
    assert all(name in caught.value.hint for name in METRICS)


@pytest.mark.parametrize(
    ("text", "found", "state"),
    [
        ("step.p50 > 3%", change(0.05, 0.01, 0.09), VIOLATED),
        ("step.p50 > 3%", change(0.05, -0.01, 0.11), UNDECIDED),  # it might be no change at all
        ("step.p50 > 3%", change(0.02, 0.01, 0.03), MET),
        ("step.p50 > 3%", change(-0.20, -0.3, -0.1), MET),
        ("step.p50 > 3%", change(0.05), UNKNOWN),
        ("step.p50 > 3%", change(0.0), UNKNOWN),
        ("step.p50 > 3%", change(None), UNKNOWN),
        ("step.p50 > 3%", change(0.03, 0.01, 0.05), UNDECIDED),
        ("step.p50 >= 3%", change(0.03, 0.01, 0.05), VIOLATED),
        ("step.p50 > 10us", change(0.02, 0.01, 0.03), VIOLATED),
        ("step.p50 > 30us", change(0.02, 0.01, 0.03), MET),
        ("step.p50 > -5%", change(-0.02, -0.03, -0.01), VIOLATED),  # an improvement of 5 % was asked for
        ("step.p50 > -5%", change(-0.02, -0.07, 0.03), UNDECIDED),
        ("step.p50 > -5%", change(-0.08, -0.1, -0.06), MET),
        ("step.p50 < -3%", change(-0.05, -0.09, -0.01), VIOLATED),
        ("step.p50 < -3%", change(-0.05, -0.11, 0.01), UNDECIDED),
        ("step.p50 < -3%", change(0.05, 0.01, 0.09), MET),
    ],
)
def test_the_state_of_a_rule(text: str, found: Change, state: str) -> None:
    assert judge_rule(parse_rule(text), found).state == state


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("step.p50 > 3%", change(0.01, -0.02, 0.04)),
        ("step.p50 > 3%", change(-0.01, -0.06, 0.04)),
        ("step.p50 >= 3%", change(0.01, 0.0, 0.03)),
        ("step.p50 > 30us", change(0.01, -0.02, 0.04)),
        ("step.p50 < -3%", change(-0.01, -0.04, 0.02)),
        ("step.p50 > -5%", change(-0.08, -0.12, -0.04)),
    ],
)
def test_a_limit_within_the_interval_is_undecided_and_says_how_many_runs_decide(text: str, found: Change) -> None:
    judged = judge_rule(parse_rule(text), found)
    assert judged.state == UNDECIDED
    assert "within the interval; about " in judged.text
    assert judged.text.endswith(" runs a side would decide it")


def test_the_number_of_runs_that_decide_follows_from_the_width_of_the_interval() -> None:
    rule = parse_rule("step.p50 > 3%")
    # The interval reaches 4 points above the change, and the limit is 2 points above it, so half the width is needed.
    assert "; about 40 runs a side" in judge_rule(rule, change(0.01, -0.03, 0.05)).text
    # The other way round: 5 points above zero, an interval that reaches 6 points below the change.
    assert "may be no change; about 15 runs a side" in judge_rule(rule, change(0.05, -0.01, 0.11)).text
    assert "; more than 1,000 runs a side" in judge_rule(rule, change(0.0299, -0.03, 0.09)).text
    assert "no number of runs decides" in judge_rule(rule, change(0.03, 0.01, 0.05)).text
    steps_only = replace(change(0.01, -0.03, 0.05), values="steps")
    assert judge_rule(rule, steps_only).text.endswith("; more runs a side may decide it")


@pytest.mark.parametrize(
    ("rules", "passed"),
    [
        ([], True),
        (["step.p50 > 3%", "step.max > 600us"], True),
        (["step.p50 > -20%", "step.max > 600us"], False),  # violated: no improvement
        (["step.max > 600us", "step.p50 > 0.5%"], False),  # one run each cannot decide it
    ],
)
def test_a_comparison_says_whether_all_its_rules_are_met(rules: list[str], passed: bool) -> None:
    sides = [sample(f"recorder-log/rank{rank}.jsonl") for rank in range(2)]
    assert tracekit.compare(*sides, rules=rules).passed is passed

"""Parts add up to the whole change, in integer ns, whatever the runs hold."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from typing import Any

from compare_runs import trace
from doors.compare import (
    METRICS,
    Profile,
    Sides,
    VerdictLimits,
    device_parts,
    match,
    measure,
    parse_metric,
    profile_of,
    rounded,
    step_parts,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import traces as any_traces

from tracekit.errors import TracekitError
from tracekit.model.trace import Trace

Row = dict[str, Any]


@given(st.lists(st.fractions(min_value=0, max_value=10**15, max_denominator=97), max_size=30))
@example([Fraction(1, 2), Fraction(1)])
@example([Fraction(1), Fraction(3, 2)])
@example([Fraction(1, 2)])
def test_rounded_parts_add_up_and_are_less_than_one_off(parts: list[Fraction]) -> None:
    found = rounded(parts)
    whole = sum(parts, Fraction(0))
    assert sum(found) == round(whole)
    assert all(abs(part - exact) < 1 for part, exact in zip(found, parts, strict=True))
    assert all(part == 0 for part, exact in zip(found, parts, strict=True) if exact == 0)


@st.composite
def runs(draw: st.DrawFn) -> list[Row]:
    """Steps and device work at random: overlapping, crossing steps, on two devices and two ranks, some launched."""
    rows: list[Row] = []
    work = st.sampled_from(("kernel", "memcpy"))
    ranks = draw(st.sampled_from(([None], [0, 1])))
    for rank in ranks:
        now = draw(st.integers(0, 20))
        for _ in range(draw(st.integers(0, 7))):
            length = draw(st.integers(0, 40))
            rows.append({"ts_ns": now, "dur_ns": length, "kind": "step", "name": "s", "pid": 1, "tid": 1, "rank": rank})
            now += length + draw(st.integers(0, 5))
        for number in range(draw(st.integers(0, 12))):
            start = draw(st.integers(0, 200))
            known = draw(st.booleans())
            rows.append(
                {
                    "ts_ns": start,
                    "dur_ns": draw(st.integers(0, 50)),
                    "kind": draw(work),
                    "name": draw(st.sampled_from(("a", "b", "c", None))),
                    "pid": 1,
                    "rank": rank,
                    "device": draw(st.integers(0, 1)),
                    "stream": draw(st.integers(7, 8)),
                    "correlation": 100 * (rank or 0) + number if known else None,
                }
            )
            if known:
                rows.append(
                    {
                        "ts_ns": max(0, start - draw(st.integers(0, 30))),
                        "dur_ns": 1,
                        "kind": "runtime",
                        "name": "l",
                        "pid": 1,
                        "tid": 1,
                        "rank": rank,
                        "correlation": 100 * (rank or 0) + number,
                    }
                )
    return rows


@given(st.lists(runs(), min_size=1, max_size=6), st.lists(runs(), min_size=1, max_size=6))
def test_the_parts_of_a_comparison_add_up(base: list[list[Row]], new: list[list[Row]]) -> None:
    left, right = (tuple(profile_of(trace(rows), "r") for rows in side) for side in (base, new))
    by_step = all(run.step_count for run in (*left, *right))
    names = [{key for run in side for key in (run.steady if by_step else run.whole)} for side in (left, right)]
    sides = Sides(left, right, tuple(match(*names, {}, {}, (), ())), by_step)
    device = device_parts(sides)
    for place, side in enumerate((left, right)):
        column = [(part.base, part.new)[place] for part in device.rows]
        assert sum(column) == (device.base, device.new)[place]
        side = tuple(run for run in side if run.whole) or side
        share = [sum(a.total for a in (run.steady if by_step else run.whole).values()) for run in side]
        if by_step and not sides.by_runs:
            exact = Fraction(sum(share), sum(run.step_count for run in side))
        else:
            exact = sum(Fraction(s, run.step_count if by_step else 1) for s, run in zip(share, side, strict=True))
            exact /= len(side)
        assert abs(sum(column) - exact) <= Fraction(1, 2)
    assert sum(part.difference for part in device.rows) == device.new - device.base
    said = measure(sides, parse_metric("device.total"), VerdictLimits())
    if said.difference is not None:
        assert said.difference == device.new - device.base
    if by_step:
        steps = step_parts(sides)
        assert sum(part.difference for part in steps.rows) == steps.new - steps.base
        assert measure(sides, parse_metric("step.mean"), VerdictLimits()).difference == steps.new - steps.base
        assert all(part.base >= 0 and part.new >= 0 for part in steps.rows)
        for run in (*left, *right):
            charged = sum(amount.charged for amount in run.steady.values())
            assert 0 <= charged <= run.step_total


@given(runs())
def test_step_charges_are_the_busy_time_of_the_view(rows: list[Row]) -> None:
    run = profile_of(trace(rows), "r")
    if run.busy is not None:
        scale = run.owners if run.owners * run.steps.size == run.step_count else 1
        busy = round(float(run.busy.sum()) * scale)
        assert sum(amount.charged for amount in run.steady.values()) == busy


def test_a_name_that_takes_the_time_of_another_changes_nothing_in_the_whole() -> None:
    """Of work that overlaps, the first has the time: the parts add up to the union, not to the sum."""
    step = {"ts_ns": 0, "dur_ns": 100, "kind": "step", "name": "s", "pid": 1, "tid": 1}
    first = {"ts_ns": 10, "dur_ns": 50, "name": "a", "pid": 1, "device": 0, "stream": 7}
    second = {"ts_ns": 30, "dur_ns": 60, "name": "b", "pid": 1, "device": 0, "stream": 8}
    run = profile_of(trace([step, first, second]), "r")
    assert {key[1]: amount.charged for key, amount in run.steady.items()} == {"a": 50, "b": 30}
    assert {key[1]: amount.total for key, amount in run.steady.items()} == {"a": 50, "b": 60}


def test_the_public_names_are_there() -> None:
    module = import_module("tracekit.comparison")
    assert all(hasattr(module, name) for name in module.__all__)


@settings(max_examples=25)
@given(any_traces(), any_traces())
def test_any_rows_of_the_schema_are_compared(base: Trace, new: Trace) -> None:
    sides = tuple(_profile(side) for side in (base, new))
    if None in sides:
        return  # refused with a sentence: durations beyond 292 years
    left, right = (run for run in sides if run is not None)
    by_step = bool(left.step_count and right.step_count)
    names = [set(run.steady if by_step else run.whole) for run in (left, right)]
    groups = match(*names, left.signatures, right.signatures, left.sequences, right.sequences)
    both = Sides((left,), (right,), tuple(groups), by_step)
    device = device_parts(both)
    assert sum(part.difference for part in device.rows) == device.new - device.base
    for text in METRICS:
        found = measure(both, parse_metric(text), VerdictLimits())
        assert found.low is None or found.high is None or found.low <= found.high


def _profile(trace: Trace) -> Profile | None:
    try:
        return profile_of(trace, "r")
    except TracekitError:
        return None

"""The first screen of a comparison: a sentence, intervals of the main metrics, and the parts of the change."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.comparison._change import FASTER, SAME, SLOWER, TOO_FEW_RUNS, UNKNOWN, Change, VerdictLimits
from tracekit.comparison._measure import Sides
from tracekit.comparison._metrics import METRICS
from tracekit.comparison._parts import ChangeParts, by_kind, by_name, device_parts, operator_parts, step_parts
from tracekit.comparison._rules import percent
from tracekit.model.change import ChangeInterval, ChangeIntervals, ChangeVerdict, Waterfall
from tracekit.model.units import Unit, sentence_span

_MAIN_METRICS = (
    *("step.mean", "step.p50", "step.p95", "device.busy", "device.idle", "device.total", "kernel.total"),
    *("copy.total", "operator.total", "api.total", "memory.peak"),
)
_PER = {"step.mean": "a step", "device.total": "of device time", "operator.total": "of operators' own time"}
"""What the time of a verdict is of, in a sentence."""
_MOST = 0.5
"""Share of the change from which on one part is most of it."""
_MANY_TIMES = 5
"""From so many times the time on, a percentage is hard to read."""


def verdict_of(main: Change | None, why: str, waterfall: Waterfall | None, limits: VerdictLimits) -> ChangeVerdict:
    """Return the verdict in one sentence, with its certainty below. why: the reason for no verdict, "" for none."""
    if main is None or main.base is None or main.new is None:
        return ChangeVerdict("No verdict", UNKNOWN, why or "Both sides need steps, device work or operators.")
    amounts = f"{sentence_span(round(main.base))} → {sentence_span(round(main.new))} {_PER[main.metric.text]}"
    certainty = _certainty(main, limits)
    if main.verdict in (SLOWER, FASTER):
        cause = _cause(waterfall)
        difference = sentence_span(abs(main.difference or 0))
        changed = f"NEW is {_size(main)} {main.verdict}: {difference} {_PER[main.metric.text]}"
        return ChangeVerdict(f"{changed}{cause}", main.verdict, f"{amounts}. {certainty}")
    return ChangeVerdict("No difference that these runs can show", main.verdict, f"{amounts}. {certainty}")


def _size(change: Change) -> str:
    """Return the size of a change as people say it: "12 %", "2.5 times"."""
    ratio = abs(change.ratio or 0.0)
    if change.verdict == SLOWER and ratio >= _MANY_TIMES:
        return f"{ratio + 1:,.0f} times"
    return f"{100 * ratio:.3g} %"


def _cause(waterfall: Waterfall | None) -> str:
    """Return ", most of it in gemm kernels" where one part or two are at least half of the change; else ""."""
    if waterfall is None or waterfall.new == waterfall.base:
        return ""
    whole = waterfall.new - waterfall.base
    shares = [(part.difference / whole, part.label) for part in waterfall.parts]
    shares.sort(key=lambda each: -each[0])
    if shares[0][0] >= _MOST:
        return f", {'all' if len(shares) == 1 else 'most'} of it in {shares[0][1]}"
    if len(shares) > 1 and shares[0][0] + shares[1][0] >= _MOST:
        return f", most of it in {shares[0][1]} and {shares[1][1]}"
    return ""


def _certainty(main: Change, limits: VerdictLimits) -> str:
    if main.verdict == TOO_FEW_RUNS:
        change = percent(main.ratio or 0)
        return f"The change of {change} may be the difference between two runs of one program: repeat the runs."
    if main.low is None or main.high is None:
        return f"{main.why[:1].upper()}{main.why[1:]}." if main.why else ""
    counts = f"{main.count[0]:,} and {main.count[1]:,} {main.values}"
    between = f"The true change is between {percent(main.low)} and {percent(main.high)} (from {counts})."
    if main.verdict == UNKNOWN:
        return f"{between} A change of more than {100 * limits.same:g} % is possible: more runs are needed."
    if main.verdict == SAME:
        return f"{between} Up to {100 * limits.same:g} % counts as the same."
    return between


def intervals_of(changes: Sequence[Change]) -> ChangeIntervals:
    """Return the changes of the main metrics that both sides have."""
    by_name = {change.metric.text: change for change in changes}
    rows = tuple(
        ChangeInterval(
            name,
            change.metric.unit,
            round(change.base),
            round(change.new),
            change.ratio,
            change.low,
            change.high,
            change.verdict,
            METRICS[name][1],
        )
        for name in _MAIN_METRICS
        if (change := by_name.get(name)) and change.base is not None and change.new is not None
        if change.metric.unit in (Unit.NS, Unit.BYTES)
    )
    return ChangeIntervals("Change of each metric", rows, "A point is the change, a line the interval of the true one.")


def waterfall_of(sides: Sides, main: Change | None) -> Waterfall | None:
    """Return the parts of the change that the verdict is about; None where they are not known."""
    title = "Where the change is"
    if main is None or main.base is None or main.new is None:
        return None
    if main.metric.text == "operator.total":
        parts = operator_parts(sides, of_step=False)
        return Waterfall(title, "operators' own time, by name", parts.base, parts.new, by_name(parts), _OF_OPERATORS)
    if main.metric.text == "device.total":
        return _by_kind(title, "the device time, kernels by class", sides, device_parts(sides), "device_parts")
    if any(run.steady for run in (*sides.base, *sides.new)):
        return _by_kind(title, "a mean step, kernels by class", sides, step_parts(sides), "step_parts")
    parts = operator_parts(sides, of_step=True)
    # Operators of several threads may take more time than the step has.
    outside = parts.rows[-1]
    if len(parts.rows) < 2 or min(outside.base, outside.new) < 0:
        return None
    return Waterfall(title, "a mean step, by operator", parts.base, parts.new, by_name(parts), _OF_OPERATORS)


_OF_OPERATORS = ("operator_parts", "change_parts")


def _by_kind(title: str, what: str, sides: Sides, whole: ChangeParts, table: str) -> Waterfall:
    runs = (*reversed(sides.base), *reversed(sides.new))
    class_of = {key: signature.kernel_class for run in runs for key, signature in run.signatures.items()}
    parts = by_kind(whole, class_of)
    return Waterfall(title, what, whole.base, whole.new, parts, (table, "change_parts"))

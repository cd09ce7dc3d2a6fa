"""Rules of --fail-on: METRIC OP THRESHOLD, such as "step.p50 > 3%".

The threshold limits the change, new minus base: in percent of the base, or in the metric's own unit (ns to s, B to
TiB, plain numbers for counts). The state of a rule is

* "violated": the change is beyond the threshold, and its whole interval is beyond zero. A threshold that requires an
  improvement ("step.p50 > -5%" requires 5 % less) needs the whole interval beyond the threshold;
* "met": the change is not beyond the threshold, nor is any of its interval;
* "undecided": the threshold is within the interval, so that the true change may be on either side of it;
* "not enough data": there is no interval;
* "not judged": a side was cut, or lacks what the rule measures.

With one run a side the verdict on the change decides: a rule is violated where it is slower or faster, and "not enough
runs" where the change may be noise between runs.

A rule that is not judged fails a pipeline as one that is violated does: the run that it should judge is not there.
"""

from __future__ import annotations

import math
import re

from tracekit.comparison._change import (
    LEVEL,
    ONE_RUN_EACH,
    SAME,
    TOO_FEW_RUNS,
    UNKNOWN,
    Change,
    VerdictLimits,
    direction,
)
from tracekit.comparison._measure import Sides, measure, names_known, names_meant
from tracekit.comparison._metrics import METRICS, NAMED, ComparedMetric, metric_hint, parse_metric
from tracekit.comparison._named import NamedRow, no_such_name, rows_meant
from tracekit.errors import Option, UsageError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.model.units import (
    BYTE_FACTOR,
    TIME_EXPONENT,
    Unit,
    format_bytes,
    sentence_span,
    split_quantity,
    to_bytes,
    to_ns,
)

VIOLATED, MET = "violated", "met"
UNDECIDED, NOT_JUDGED = "undecided", "not judged"
FAILING = frozenset({VIOLATED, NOT_JUDGED})
"""The states of a rule that fail a pipeline, with or without --strict."""
_MOST_RUNS = 1_000
"""More runs a side than anybody records: then the number is not named."""
_RULE = re.compile(r'(?P<metric>.*\S)\s*(?P<op>>=|<=|>|<)\s*(?P<threshold>[^<>="\]]+)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class GateRule:
    """One rule. threshold: a ratio (0.03) if relative, else ns, bytes or a count."""

    text: str
    metric: ComparedMetric
    op: str
    threshold: float
    relative: bool


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """The state of a rule, such as "violated" or "met", with a sentence."""

    rule: GateRule
    state: str
    text: str
    change: Change


def parse_rule(text: str) -> GateRule:
    """Return the rule in a text. Raises: UsageError, with the grammar or the list of metrics."""
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            sentence(Option("fail-on", repr(text)), ": not a rule"),
            hint=f'METRIC > THRESHOLD, such as "step.p50 > 3%"; METRIC: {metric_hint()}',
        )
    metric = parse_metric(found["metric"])
    try:
        number, unit = split_quantity(found["threshold"])
        binary = unit.replace("iB", "B")
        if not math.isfinite(float(number)):
            raise ValueError("infinite: nothing could violate it")
        if unit == "%":
            return GateRule(text.strip(), metric, found["op"], float(number) / 100, relative=True)
        if metric.unit is Unit.NS and unit in TIME_EXPONENT:
            return GateRule(text.strip(), metric, found["op"], to_ns(number, unit), relative=False)
        if metric.unit is Unit.BYTES and binary in BYTE_FACTOR:
            return GateRule(text.strip(), metric, found["op"], to_bytes(number, binary), relative=False)
        if metric.unit is Unit.COUNT and not unit:
            return GateRule(text.strip(), metric, found["op"], float(number), relative=False)
    except ValueError:
        pass
    units = {Unit.NS: "ns, us, ms or s", Unit.BYTES: "B, KiB, MiB or GiB", Unit.COUNT: "a plain number"}
    raise UsageError(
        sentence(Option("fail-on", repr(text)), f": not a threshold for {metric.text}"),
        hint=f"give a change in %, or in {units[metric.unit]}",
    )


def check(rule: GateRule, sides: Sides, limits: VerdictLimits, *, cut: bool = False) -> CheckedRule:
    """Return the state of a rule. Raises: UsageError for a name, or a metric, that fits nothing on either side.

    cut: a side was cut, so that what it lacks shows nothing about the rule.
    """
    metric = rule.metric
    if metric.name is not None and not sides.incomplete:
        # A misspelt name would be met for ever. Names outside of steps are known, although nothing is compared there.
        known = {what: names_known(sides, what) for what in NAMED}
        outside = [NamedRow(name, (name,)) for name in sorted(known[metric.what])]
        if not names_meant(sides, metric) and not rows_meant(metric.name, outside):
            raise no_such_name(metric, known)
    change = measure(sides, metric, limits)
    if metric.name is None and change.base is None and change.new is None and not (sides.incomplete or cut):
        raise _no_such_values(metric, sides, limits)
    if metric.name is None and (change.base is None or change.new is None):
        # Without a name it is no kernel that a change removed: a side was recorded without what the rule is about.
        return CheckedRule(rule, NOT_JUDGED, f"{metric.text}: {change.why}", change)
    return judge_rule(rule, change)


def _no_such_values(metric: ComparedMetric, sides: Sides, limits: VerdictLimits) -> UsageError:
    """Return the error of a rule on a metric that neither side has, such as steps: nothing could ever violate it."""
    changes = [measure(sides, parse_metric(text), limits) for text in METRICS]
    known = [each.metric.text for each in changes if each.base is not None or each.new is not None]
    near = [text for text in known if text.endswith(f".{metric.field}")] or known
    shown = sentence(Option("fail-on"), f" takes one of: {', '.join(known)}")
    return UsageError(
        f"{metric.text}: neither side has it{f'; did you mean {near[0]}?' if near else ''}",
        hint=shown if known else "compare runs with kernels, operators or steps, or remove the rule",
    )


def judge_rule(rule: GateRule, change: Change) -> CheckedRule:
    """Return the state of a rule for this change."""
    if change.ratio is None or change.base is None or change.new is None:
        return CheckedRule(rule, UNKNOWN, change.why or "nothing to compare", change)
    text = f"{describe(change)} ({ONE_RUN_EACH})" if change.single else describe(change)
    low, high = (change.ratio, change.ratio) if change.single else (change.low, change.high)
    if low is None or high is None:
        return CheckedRule(rule, UNKNOWN, f"{text}; {change.why}", change)
    scale = 1.0 if rule.relative else change.base
    value, low, high = ((x * scale) for x in (change.ratio, low, high))
    if not rule.relative:
        value = change.new - change.base
    up = rule.op.startswith(">")
    sign = 1 if up else -1
    beyond = _is_beyond(rule, value)
    nearest, farthest = (low, high) if up else (high, low)
    if not beyond:
        if _is_beyond(rule, farthest):
            return _undecided(rule, change, text, value, rule.threshold, farthest)
        return CheckedRule(rule, MET, text, change)
    if change.shown is not None:
        # One run a side: the difference between runs is not in the interval. The verdict on the change decides; a
        # threshold that requires an improvement allows for that difference.
        reach = change.shown * scale
        nearest = min(nearest, value - reach) if up else max(nearest, value + reach)
        proven = (
            sign * nearest > sign * rule.threshold if sign * rule.threshold < 0 else change.verdict == direction(change)
        )
    else:
        proven = sign * nearest > min(0.0, sign * rule.threshold) or (change.low == change.high == change.ratio)
    if proven:
        return CheckedRule(rule, VIOLATED, text, change)
    if change.shown is not None:
        text = f"{describe(change, interval=False)}: one run each, so it may be noise"
        return CheckedRule(rule, TOO_FEW_RUNS, text, change)
    return _undecided(rule, change, text, value, sign * min(0.0, sign * rule.threshold), nearest)


def _is_beyond(rule: GateRule, value: float) -> bool:
    sign = 1 if rule.op.startswith(">") else -1
    return sign * value > sign * rule.threshold or ("=" in rule.op and value == rule.threshold)


def _undecided(rule: GateRule, change: Change, text: str, value: float, bound: float, end: float) -> CheckedRule:
    """Return an undecided rule, with the runs that would decide it. bound: what the interval of `value` must not reach.

    end: the end of the interval on the side of the bound.
    """
    what = "it may be no change" if bound == 0 else f"the limit of {_limit_text(rule)} is within the interval"
    return CheckedRule(rule, UNDECIDED, f"{text}: {what}{_runs_needed(change, value, bound, end)}", change)


def _limit_text(rule: GateRule) -> str:
    return rule.text[rule.text.rindex(rule.op) + len(rule.op) :].strip()


def _runs_needed(change: Change, value: float, bound: float, end: float) -> str:
    """Return a clause with the runs a side that would decide a rule, "" where they are not known.

    The width of an interval falls with the square root of the number of values, if the change and the spread stay.
    The steps of one run a side do not show how much runs differ: then the number is not known.
    """
    if change.values != "runs":
        return "; more runs a side may decide it"
    if value == bound:
        return "; no number of runs decides a change that is the limit itself"
    runs = max(change.count)
    needed = max(runs + 1, math.ceil(round(runs * ((end - value) / (bound - value)) ** 2, 6)))
    if needed > _MOST_RUNS:
        return f"; more than {_MOST_RUNS:,} runs a side would be needed to decide it"
    return f"; about {needed:,} runs a side would decide it"


def percent(ratio: float) -> str:
    """Return a ratio with its sign in percent: "+3.00 %"."""
    return f"{100 * ratio:+.2f} %"


def amount(value: float, unit: Unit) -> str:
    """Return a value of a metric with its unit."""
    if unit is Unit.NS:
        return sentence_span(round(value))
    return format_bytes(round(value)) if unit is Unit.BYTES else f"{round(value, 3):,}".removesuffix(".0")


def describe(change: Change, *, interval: bool = True) -> str:
    """Return "step.p50 10.1 ms -> 11.2 ms, +10.89 % (96.5 % interval +9.10 % to +12.30 %, from 10 and 10 runs)"."""
    if change.base is None or change.new is None:
        return f"{change.metric.text}: {change.why}"
    unit = change.metric.unit
    text = f"{change.metric.text} {amount(change.base, unit)} -> {amount(change.new, unit)}"
    if change.ratio is not None:
        text += f", {percent(change.ratio)}"
    if change.low is None or change.high is None or not interval:
        return text
    counts = f"{change.count[0]:,} and {change.count[1]:,} {change.values}"
    if change.low == change.high:
        return f"{text} (equal in all, from {counts})"
    return f"{text} ({100 * LEVEL:g} % interval {percent(change.low)} to {percent(change.high)}, from {counts})"


def describe_single(change: Change) -> str:
    """Return "slower by 100 % (one run each: no estimate of noise): step.p50 10.1 ms -> 20.2 ms, +100.00 %"."""
    size = f"{100 * abs(change.ratio or 0):.2f}".rstrip("0").rstrip(".")
    by = "" if change.verdict == SAME else f" by {size} %"
    return f"{change.verdict}{by} ({ONE_RUN_EACH}): {describe(change)}"

"""Metrics of a run, the difference of two sides with its interval, and the verdict.

**Values.** With three or more runs in all, each run is one value: its mean, its p50 and so on. Runs differ from each
other (clocks, neighbours, placement), so only this interval is valid for the next run too. With one run a side, the
steps after warm-up are the values; in a trace without steps, the calls of a kernel. That interval excludes differences
between runs, and the report says so. Fewer than 5 values on a side give no interval.

**The interval** contains the true change with 96.5 % probability: `analysis.resample.bootstrap_difference` of the mean
over runs, relative to the base. Fewer than 5 runs on a side cannot be resampled: Student's t instead. With 96.5 %,
fewer than 4 in 100 comparisons of equal sides differ by chance. With 10 runs and 2 % of noise, more than 8 of 10
comparisons still show a change of 3 %.

**The verdict.** "slower" or "faster" ("more" or "less" for bytes and counts): the interval excludes zero, and the
change is at least the minimum effect (1 %). "same": the whole interval is within 3 %. Otherwise "not enough data".

**One run a side** has a verdict of its own: `_one_run.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tracekit.analysis.resample import bootstrap_difference, relative_difference_of_few, statistic
from tracekit.comparison._amount import Amount, Key
from tracekit.comparison._change import (
    LEVEL,
    MIN_RUNS,
    MIN_VALUES,
    Change,
    VerdictLimits,
    direction,
    verdict,
)
from tracekit.comparison._match import NameGroup
from tracekit.comparison._metrics import HOST, NAMED, ComparedMetric
from tracekit.comparison._named import NamedRow, Row, rows_meant
from tracekit.comparison._one_run import judge_one_run_each, smallest_shown
from tracekit.comparison._profile import Profile
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import F64
from tracekit.model.display import plural
from tracekit.model.units import Unit

_STATISTIC = {"mean": "mean", "p50": "p50", "p95": "p95", "p99": "p99", "max": "p100"}
_MIN_BEYOND = 5
"""Values beyond a percentile that its interval needs: p95 needs 100 steps."""


@dataclass(frozen=True, slots=True)
class Sides:
    """Two sides. by_step: all runs have steps, and amounts are per step after warm-up; else per run."""

    base: tuple[Profile, ...]
    new: tuple[Profile, ...]
    groups: tuple[NameGroup, ...]
    by_step: bool

    def __repr__(self) -> str:
        return f"sides of {plural(len(self.base), 'run')} and {plural(len(self.new), 'run')}"

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Return a sentence for each input that lost too many of its records to be compared."""
        return tuple(dict.fromkeys(text for run in (*self.base, *self.new) for text in run.incomplete))

    @property
    def by_runs(self) -> bool:
        """Return whether each run is one value, and figures are means over runs."""
        return len(self.base) + len(self.new) >= MIN_RUNS


def measure(sides: Sides, metric: ComparedMetric, limits: VerdictLimits, *, level: float = LEVEL) -> Change:
    """Return the change of a metric."""
    base, new = _keys_of(sides, metric)
    if metric.what in NAMED and not base and not new:
        named = "" if metric.name is None else " with this name"
        return Change(metric, None, None, why=f"neither side has a {metric.what}{named}")
    return measure_names(sides, metric, base, new, limits, level=level)


def measure_names(
    sides: Sides,
    metric: ComparedMetric,
    base: frozenset[Key],
    new: frozenset[Key],
    limits: VerdictLimits,
    *,
    level: float = LEVEL,
) -> Change:
    """Return the change of a metric over these names of each side."""
    change = _measured(sides, metric, base, new, limits, level=level)
    return _with_exact_ns(sides, change, base, new)


def _measured(
    sides: Sides,
    metric: ComparedMetric,
    base: frozenset[Key],
    new: frozenset[Key],
    limits: VerdictLimits,
    *,
    level: float,
) -> Change:
    left = [metric_of_run(run, metric, base, by_step=sides.by_step) for run in sides.base]
    right = [metric_of_run(run, metric, new, by_step=sides.by_step) for run in sides.new]
    if metric.field in ("total", "calls"):
        # A run with other rows of this kind spent no time on it: zero. Without such rows its time is not known.
        left, right = (
            [
                0.0 if v is None and any(values) and has_rows(run, metric.what) else v
                for v, run in zip(values, runs, strict=True)
            ]
            for values, runs in ((left, sides.base), (right, sides.new))
        )
    known = [[v for v in side if v is not None] for side in (left, right)]
    for side, found in zip(("base", "new"), known, strict=True):
        if not found:
            return Change(metric, _mean(known[0]), _mean(known[1]), why=f"{side} has none")
    if sum(map(len, known)) >= MIN_RUNS:
        return changed(metric, "runs", np.array(known[0]), np.array(known[1]), "mean", limits, level=level)
    return _measured_within(sides, metric, (base, new), known, limits, level=level)


def has_rows(run: Profile, what: str) -> bool:
    """Return whether a run has rows of the kind that metrics of `what` count, anywhere in it."""
    if what in (*HOST, "path"):
        return any(kind == what for kind, _ in run.whole_host)
    return bool(run.whole) or what == "step"


def with_rows(runs: Sequence[Profile], what: str) -> tuple[Profile, ...]:
    """Return the runs that have rows of a kind, for an average without the zeros of the others; all if none has."""
    return tuple(run for run in runs if has_rows(run, what)) or tuple(runs)


def _measured_within(
    sides: Sides,
    metric: ComparedMetric,
    keys: tuple[frozenset[Key], frozenset[Key]],
    known: list[list[float]],
    limits: VerdictLimits,
    *,
    level: float,
) -> Change:
    """Return the change between one run a side, with an interval from the values within the runs, if there are some."""
    shown = smallest_shown([run.steps for run in (*sides.base, *sides.new)])
    base = _values_within(sides.base, metric, keys[0], by_step=sides.by_step)
    new = _values_within(sides.new, metric, keys[1], by_step=sides.by_step)
    if base is not None and new is not None and base[0] == new[0]:
        which = _STATISTIC.get(metric.field, "mean") if metric.what == "step" else "mean"
        change = changed(metric, base[0], base[1], new[1], which, limits, level=level)
        agrees = True
        if which != "mean" and change.low is None and min(base[1].size, new[1].size) >= MIN_VALUES:
            # One slow step moves a percentile without an interval: the mean must have changed in the same direction.
            mean = changed(metric, base[0], base[1], new[1], "mean", limits, level=level)
            agrees = mean.verdict == direction(change)
        return judge_one_run_each(change, limits, shown, agrees=agrees)
    means = (_mean(known[0]), _mean(known[1]))
    ratio = _ratio(*means)
    if ratio is not None and _is_certain(metric, known):
        count = (len(known[0]), len(known[1]))
        return Change(metric, *means, ratio, ratio, ratio, "runs", count, verdict(metric, ratio, ratio, ratio, limits))
    return judge_one_run_each(Change(metric, *means, ratio, why="the base is zero"), limits, shown)


def weights(runs: Sequence[Profile], *, by_step: bool, by_runs: bool) -> list[Fraction]:
    """Return the weight of a ns of each run: for the mean over runs (per step of each), or over all steps."""
    if not by_step:
        return [Fraction(1, len(runs))] * len(runs)
    if by_runs:
        return [Fraction(1, len(runs) * run.step_count) for run in runs]
    return [Fraction(1, sum(run.step_count for run in runs))] * len(runs)


def _with_exact_ns(sides: Sides, change: Change, base: frozenset[Key], new: frozenset[Key]) -> Change:
    """Return the change with sums and mean steps rounded from exact values, so that the parts add up to them."""
    metric = change.metric
    if change.base is None or change.new is None or not (metric.text == "step.mean" or metric.field == "total"):
        return change
    if metric.text == "step.mean" and not sides.by_step:
        return change
    exact = []
    for runs, keys in ((sides.base, base), (sides.new, new)):
        whole = Fraction(0)
        runs = with_rows(runs, metric.what)
        for run, weight in zip(runs, weights(runs, by_step=sides.by_step, by_runs=sides.by_runs), strict=True):
            amounts = {} if metric.what == "step" else _amounts(run, metric, by_step=sides.by_step)
            ns = run.step_total if metric.what == "step" else sum(a.total for k, a in amounts.items() if k in keys)
            whole += weight * ns
        exact.append(float(round(whole)))
    return replace(change, base=exact[0], new=exact[1])


def _counted(count: int, values: str) -> str:
    return f"{count:,} {values[:-1] if count == 1 else values}"


def _is_certain(metric: ComparedMetric, known: list[list[float]]) -> bool:
    """Return whether a metric needs no interval: bytes and counts that are equal in all runs of a side."""
    return metric.unit is not Unit.NS and all(len(set(side)) == 1 for side in known)


def changed(
    metric: ComparedMetric, values: str, base: F64, new: F64, which: str, limits: VerdictLimits, *, level: float = LEVEL
) -> Change:
    """Return the change between two samples. which: the statistic, as in `analysis.resample`."""
    count = (base.size, new.size)
    if min(count) == 0:
        return Change(metric, None, None, why="a side has no values")
    points = (statistic(base, which), statistic(new, which))
    ratio = _ratio(*points)
    needed = MIN_VALUES
    if which not in ("mean", "p50"):
        share = float(which[1:]) / 100
        needed = MIN_VALUES if share == 0 else round(_MIN_BEYOND / (1 - share)) if share < 1 else 0
    few_runs = values == "runs" and min(count) < MIN_VALUES and sum(count) >= MIN_RUNS
    if (min(count) < needed or not needed) and not few_runs:
        few = f"{_counted(count[0], values)} of base and {count[1]:,} of new: an interval needs {needed:,} of each"
        return Change(metric, *points, ratio, why=few if needed else "a maximum has no interval")
    if ratio is None:
        return Change(metric, *points, why="the base is zero")
    if base.max() == new.max() == base.min() == new.min():
        low = high = 0.0
    elif few_runs:
        if base.min() < 0 or points[1] <= 0:
            why = f"some of the few values are not positive: an interval needs {MIN_VALUES} of each"
            return Change(metric, *points, ratio, why=why)
        few_found = relative_difference_of_few(base, new, level=level)
        low, high = few_found.low, few_found.high
    elif base.min() > 0 and new.min() > 0:
        found = bootstrap_difference(base, new, which, relative=True, level=level)
        low, high = found.low, found.high
    else:
        found = bootstrap_difference(base, new, which, level=level)
        low, high = found.low / points[0], found.high / points[0]
    return Change(metric, *points, ratio, low, high, values, count, verdict(metric, ratio, low, high, limits))


def _mean(values: Sequence[float]) -> float | None:
    return statistic(np.array(values, np.float64), "mean") if values else None


def _ratio(base: float | None, new: float | None) -> float | None:
    if base is None or new is None:
        return None
    return new / base - 1 if base > 0 else 0.0 if new == base == 0 else None


def _keys_of(sides: Sides, metric: ComparedMetric) -> tuple[frozenset[Key], frozenset[Key]]:
    """Return the names of each side that a metric counts. The replacement of a name counts as the name."""
    if metric.what in HOST:
        names = {key for run in (*sides.base, *sides.new) for key in run.whole_host if key[0] == metric.what}
        both = frozenset(_chosen(metric, [NamedRow(key, (key[1],)) for key in sorted(names)]))
        return both, both
    chosen = _chosen(
        metric, [NamedRow(group, _texts(group)) for group in sides.groups if group.kind in kinds_of(metric.what)]
    )
    return (
        frozenset(key for group in chosen for key in group.base),
        frozenset(key for group in chosen for key in group.new),
    )


def names_meant(sides: Sides, metric: ComparedMetric) -> frozenset[str]:
    """Return the names that a metric counts, of both sides. Raises: UsageError for a cut name that fits several."""
    base, new = _keys_of(sides, metric)
    return frozenset(name for _, name in base | new)


def _chosen(metric: ComparedMetric, rows: Sequence[NamedRow[Row]]) -> list[Row]:
    return [each.row for each in rows] if metric.name is None else rows_meant(metric.name, rows)


def _texts(group: NameGroup) -> tuple[str, ...]:
    """Return the texts that name a group: each name, and what the tables show for it."""
    names = tuple(name for _, name in (*group.base, *group.new))
    sides = tuple(" + ".join(name for _, name in keys) for keys in (group.base, group.new) if len(keys) > 1)
    return (*dict.fromkeys(names), group.label, *sides)


def kinds_of(what: str) -> frozenset[str]:
    """Return the kinds of device work that a metric of kernels, copies or the device counts."""
    kinds = {"kernel": {"kernel"}, "copy": {"memcpy", "memset"}}
    return frozenset(kinds.get(what, {"kernel", "memcpy", "memset"}))


def names_known(sides: Sides, what: str) -> set[str]:
    """Return the names of both sides that a rule about `what` could mean, in steps or outside of them."""
    runs = (*sides.base, *sides.new)
    if what in HOST:
        return {name for run in runs for kind, name in run.whole_host if kind == what}
    kinds = kinds_of(what)
    return {name for run in runs for kind, name in run.whole if kind in kinds}


def _amounts(run: Profile, metric: ComparedMetric, *, by_step: bool) -> dict[Key, Amount]:
    if metric.what in HOST:
        host = run.steady_host if by_step else run.whole_host
        return {key: amount for key, amount in host.items() if key[0] == metric.what}
    return dict(run.steady if by_step else run.whole)


def metric_of_run(run: Profile, metric: ComparedMetric, keys: frozenset[Key] | None, *, by_step: bool) -> float | None:
    """Return the metric of one run, None where it has none. keys: the names that count, None for all."""
    if metric.what == "step":
        return statistic(run.steps, _STATISTIC[metric.field]) if run.steps.size else None
    if metric.what == "memory":
        return None if run.peak is None else float(run.peak)
    if metric.text in ("device.busy", "device.idle"):
        if by_step:
            if run.busy is None or not run.busy.size:
                return None
            times = run.busy if metric.field == "busy" else run.steps - run.busy
            return float(times.mean())
        return None if metric.field == "idle" or run.whole_busy is None else float(run.whole_busy)
    amounts = _amounts(run, metric, by_step=by_step)
    if not amounts:
        return None
    found = [amount for key, amount in amounts.items() if keys is None or key in keys]
    calls, total = sum(a.calls for a in found), sum(a.total for a in found)
    if metric.field == "avg":
        return total / calls if calls else None
    return (calls if metric.field == "calls" else total) / (run.step_count if by_step else 1)


def _values_within(
    side: Sequence[Profile], metric: ComparedMetric, keys: frozenset[Key], *, by_step: bool
) -> tuple[str, F64] | None:
    """Return the values within the runs of a side, "steps" or "calls"; None without any."""
    if by_step or metric.what == "step":
        parts = [_by_step(run, metric, keys) for run in side if run.steps.size]
        known = [part for part in parts if part is not None]
        return ("steps", np.concatenate(known)) if known and len(known) == len(parts) else None
    if metric.what in ("kernel", "copy") and metric.field == "avg":
        calls = []
        for run in side:
            wanted = np.array([key in keys for key in run.keys], np.bool_)
            key, durations = run.durations
            if run.from_totals or not key.size:
                return None
            calls.append(durations[wanted[key]].astype(np.float64))
        return "calls", np.concatenate(calls)
    return None


def _by_step(run: Profile, metric: ComparedMetric, keys: frozenset[Key]) -> F64 | None:
    if metric.what == "step":
        return run.steps
    if metric.text in ("device.busy", "device.idle"):
        if run.busy is None:
            return None
        return run.busy if metric.field == "busy" else run.steps - run.busy
    if metric.what not in ("device", "kernel", "copy") or not run.steady:
        return None
    wanted = np.array([key in keys for key in run.keys], np.bool_)
    chosen = wanted[run.by_step.key] if wanted.size else np.zeros(0, np.bool_)
    n = run.steps.size
    step = run.by_step.step[chosen]
    calls = np.bincount(step, weights=run.by_step.calls[chosen], minlength=n)
    ns = np.bincount(step, weights=run.by_step.ns[chosen], minlength=n)
    if metric.field == "avg":
        some = calls > 0
        found: F64 = ns[some] / calls[some]
        return found
    chosen_values: F64 = (calls if metric.field == "calls" else ns).astype(np.float64)
    return chosen_values

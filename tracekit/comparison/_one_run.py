"""The verdict where each side is one run: which change two runs can show.

Two runs of one program differ: clocks, temperature, neighbours and placement. The steps of a run do not show that
difference, so an interval from steps alone would call most pairs of equal runs different.

* A change in time counts from 7.5 % on. Where runs differ by 2 % (standard deviation), two of them differ by more than
  that in 1 of 100 cases.
* It counts from 5 % on where the steps of both runs vary by less than 0.5 %: so quiet a machine has quiet runs too.
* The interval within the runs, where there is one, must exclude zero as well.

Smaller changes are "not enough runs", except those below the minimum effect, which are "same" if the interval within
the runs agrees. Counts and bytes have no noise of clocks: these limits do not apply to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracekit.comparison._change import ONE_RUN_EACH, SAME, TOO_FEW_RUNS, Change, VerdictLimits, direction
from tracekit.model.arrow import F64
from tracekit.model.units import Unit

SHOWN_BY_TWO_RUNS = 0.075
"""The smallest change that one run a side can show."""
SHOWN_BY_QUIET_RUNS = 0.05
"""The same where the steps of both runs hardly vary."""
QUIET = 0.005
"""Standard deviation of the steps, relative to their mean, below which a run is quiet."""
STEPS_FOR_SPREAD = 5
"""Fewer steps say nothing about the spread."""


def smallest_shown(steps_of_runs: Sequence[F64]) -> float:
    """Return the smallest change that counts between these runs, given the time of their steps."""
    return SHOWN_BY_QUIET_RUNS if all(map(_is_quiet, steps_of_runs)) else SHOWN_BY_TWO_RUNS


def _is_quiet(steps: F64) -> bool:
    if steps.size < STEPS_FOR_SPREAD or steps.mean() <= 0:
        return False
    # Steps that are equal to the ns were not measured one by one: their spread is not known.
    return bool(0 < steps.std(ddof=1) / steps.mean() < QUIET)


def judge_one_run_each(change: Change, limits: VerdictLimits, shown: float, *, agrees: bool = True) -> Change:
    """Return the change with the verdict for one run a side. shown: the smallest change that counts.

    agrees: False where another statistic of the same values denies the direction.
    """
    if change.ratio is None:
        return change
    single = change.low is None or change.high is None
    timed = change.metric.unit is Unit.NS
    if not timed and not single:
        return change
    size, needed = abs(change.ratio), max(shown if timed else limits.same, limits.least)
    low = change.ratio if change.low is None else change.low
    high = change.ratio if change.high is None else change.high
    why = ONE_RUN_EACH if single else change.why
    if size >= needed and (low > 0 or high < 0) and agrees:
        word = direction(change)
    elif size < limits.least and -limits.same <= low and high <= limits.same:
        word = SAME
    else:
        word = TOO_FEW_RUNS
        noise = (
            f"a change below {100 * needed:g} % may be noise" if limits.least <= size < needed else "its values vary"
        )
        why = f"one run each: {noise}"
    return replace(change, verdict=word, why=why, single=single, shown=needed)

"""Compare two sides of runs: what changed, by how much, with what certainty, and the parts of the change.

Rules: `docs/compare.md`. `compare` returns a Comparison, `report_of` its Report for all renderers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tracekit.analysis.series import ChangePoint, change_points
from tracekit.comparison._change import (
    FASTER,
    LEVEL,
    MIN_VALUES,
    SAME,
    SLOWER,
    TOO_FEW_RUNS,
    UNKNOWN,
    Change,
    VerdictLimits,
)
from tracekit.comparison._checks import checks_of
from tracekit.comparison._cut_runs import why_no_verdict, without_cut_runs
from tracekit.comparison._history import History, history_of
from tracekit.comparison._inputs import LoadedRuns, LoadOptions, find_runs, load, name_of, unique_runs
from tracekit.comparison._match import NameGroup, match
from tracekit.comparison._measure import Sides, measure
from tracekit.comparison._metrics import METRICS, parse_metric
from tracekit.comparison._one_run import smallest_shown
from tracekit.comparison._own_runs import without_own_runs
from tracekit.comparison._profile import Profile
from tracekit.comparison._report import Comparison, report_of, short_report
from tracekit.comparison._rules import FAILING, MET, NOT_JUDGED, VIOLATED, CheckedRule, GateRule, check, parse_rule
from tracekit.comparison._tree_parts import BY, TreeChange, TreeParts, TreeRow, tree_parts
from tracekit.errors import Option, PerSurface, UsageError, sentence
from tracekit.model.schema import Kind
from tracekit.model.trace import Trace
from tracekit.model.units import format_span

__all__ = [
    "FAILING",
    "FASTER",
    "LEVEL",
    "MET",
    "METRICS",
    "MIN_VALUES",
    "NOT_JUDGED",
    "SAME",
    "SLOWER",
    "TOO_FEW_RUNS",
    "UNKNOWN",
    "VIOLATED",
    "Change",
    "ChangePoint",
    "CheckedRule",
    "Comparison",
    "GateRule",
    "History",
    "NameGroup",
    "TreeChange",
    "TreeParts",
    "TreeRow",
    "VerdictLimits",
    "change_points",
    "checks_of",
    "compare",
    "parse_rule",
    "report_of",
    "short_report",
]


def compare(
    base: str | Sequence[str | Trace],
    new: str | Sequence[str | Trace] = (),
    *,
    rules: Sequence[str | GateRule] = (),
    limits: VerdictLimits | None = None,
    history: bool = False,
    format: str = "",
    one_run: bool = False,
    partial: bool = False,
    by: str = "",
    progress: Callable[[float], None] | None = None,
) -> Comparison:
    """Return the comparison of two sides, each named as on the command line of `tracekit compare`, or traces.

    rules: gates, as texts or parsed. history: the base is a series in order of time, searched for change points; only
    its runs after the last change point are compared. Without `new` the result is the history alone.
    partial: name the runs that cannot be read in the result; without it, the first one raises.
    by: "module" or "operator": the change of the device time by these as well, in parts that add up.
    Raises: TracekitError.
    """
    words: list[list[str | Trace]] = [[side] if isinstance(side, str) else list(side) for side in (base, new)]
    parsed = [parse_rule(rule) if isinstance(rule, str) else rule for rule in rules]
    if by and by not in BY:
        raise UsageError(
            sentence(Option("by", takes=by), " is no way to divide a change"), hint=f"one of: {', '.join(BY)}"
        )
    if not words[0]:
        raise UsageError(
            "BASE is missing",
            hint=PerSurface("tracekit compare BASE NEW", "compare(base, new)", "name profiles in `base`"),
        )
    if not words[1] and not history:
        raise UsageError(
            "NEW is missing",
            hint=PerSurface("tracekit compare BASE NEW", "compare(base, new)", "name profiles in `new`"),
        )
    if not words[1] and parsed:
        hint = sentence("tracekit compare BASE NEW ", Option("fail-on", takes="RULE"))
        raise UsageError(sentence(Option("fail-on"), " needs NEW: a rule limits a change"), hint=hint)
    # A run that is named twice would make the spread of runs look too small (`unique_runs`).
    unique = [
        unique_runs(find_runs(side, LoadOptions(format, one_run, tree=bool(by))) if side else []) for side in words
    ]
    chosen = [runs for runs, _ in unique]
    own_notes: list[str] = []
    # A folder of earlier runs often holds NEW too: beside itself a change looks smaller than it is.
    if words[0] != words[1]:
        chosen[0], own_notes = without_own_runs(chosen[0], chosen[1])
    total = sum(map(len, chosen))
    done = 0
    sides: list[LoadedRuns] = []
    for runs, (_, notes) in zip(chosen, unique, strict=True):

        def side_progress(share: float, before: int = done, count: int = len(runs)) -> None:
            if progress is not None:
                progress((before + share * count) / total)

        options = LoadOptions(format, one_run, partial, side_progress, tree=bool(by))
        loaded = load(runs, options) if runs else LoadedRuns([], [], [])
        sides.append(replace(loaded, notes=[*notes, *loaded.notes]))
        done += len(runs)
    whole, left_out = without_cut_runs(sides)
    trend = None
    if history:
        trend = history_of(sides[0].profiles, sides[0].runs, whole[0].profiles)
        if trend.since and sides[1].profiles:
            sides[0] = replace(sides[0], profiles=sides[0].profiles[trend.since :], runs=sides[0].runs[trend.since :])
            # Which runs are whole is decided among the runs that are left.
            whole, left_out = without_cut_runs(sides)
    whole[0] = replace(whole[0], notes=[*own_notes, *whole[0].notes])
    names = (", ".join(map(name_of, words[0])), ", ".join(map(name_of, words[1])))
    failures = tuple(failure for side in sides for failure in side.failures)
    if not sides[1].profiles:
        said = [f"left out: {text}" for text in left_out]
        return Comparison(None, (), None, (), trend, (*said, *whole[0].notes), names=names, failures=failures)
    found = _compared(whole, parsed, limits or VerdictLimits(), trend)
    if by and found.sides is not None:
        found = replace(found, tree=tree_parts(found.sides, by))
    return replace(found, names=names, failures=failures, left_out=tuple(left_out))


def _compared(
    sides: list[LoadedRuns], rules: list[GateRule], limits: VerdictLimits, trend: History | None
) -> Comparison:
    base, new = (tuple(side.profiles) for side in sides)
    by_step = all(run.step_count for run in (*base, *new))
    names = [{key for run in runs for key in (run.steady if by_step else run.whole)} for runs in (base, new)]
    signed = [{k: s for run in reversed(runs) for k, s in run.signatures.items()} for runs in (base, new)]
    groups = match(names[0], names[1], signed[0], signed[1], base[0].sequences, new[0].sequences)
    both = Sides(base, new, tuple(groups), by_step)
    changes = tuple(measure(both, parse_metric(text), limits) for text in METRICS)
    why = why_no_verdict(base, new)
    main = None if both.incomplete or why else _main(both, changes)
    checked = tuple(check(rule, both, limits, cut=bool(why)) for rule in rules)
    if why:
        # The steps of a part of a run say nothing about the run, nor do host steps without their kernels.
        changes = tuple(replace(each, verdict=UNKNOWN, why=why) for each in changes)
        checked = tuple(CheckedRule(each.rule, NOT_JUDGED, why, each.change) for each in checked)
    notes = [note for side in sides for note in side.notes]
    return Comparison(both, changes, main, checked, trend, (*notes, *_notes(both, names)), limits, undecided=why)


def _main(sides: Sides, changes: Sequence[Change]) -> Change | None:
    """Return the change that the verdict is about: the step, else device work, else operators."""
    runs = (*sides.base, *sides.new)
    wanted = "step.mean" if sides.by_step else ""
    if not wanted and all(run.whole for run in runs):
        wanted = "device.total"
    if not wanted and all(any(kind == "operator" for kind, _ in run.whole_host) for run in runs):
        wanted = "operator.total"
    return next((change for change in changes if change.metric.text == wanted), None)


def _notes(sides: Sides, names: list[set[tuple[str, str]]]) -> list[str]:
    notes = []
    formats = [sorted({f for run in runs for f in run.formats}) for runs in (sides.base, sides.new)]
    if formats[0] != formats[1]:
        notes.append(
            f"different formats: {', '.join(formats[0])} and {', '.join(formats[1])}; tools differ in names "
            "and times, so a difference may come from the tools"
        )
    for runs, side in ((sides.base, "base"), (sides.new, "new")):
        lacking = sum(not run.step_count for run in runs)
        if lacking and any(run.step_count for run in (*sides.base, *sides.new)):
            notes.append(f"{lacking} of {len(runs)} runs of {side} have no steps: amounts are per run")
        warm = sum(run.warm_up for run in runs)
        if warm and sides.by_step:
            notes.append(f"{side}: {warm} warm-up {'step' if warm == 1 else 'steps'} skipped (as in the view `steps`)")
        ahead = [run for run in runs if run.ahead]
        if ahead and sides.by_step:
            host = sum(run.host_step_total for run in ahead) / sum(run.step_count for run in ahead)
            notes.append(
                f"{side}: the host runs ahead, so a step is measured on the device (as in the view `steps`); its range "
                f"on the host takes {format_span(round(host))} on average"
            )
        empty = [run.label for run in runs if not (run.whole or run.whole_host or run.step_count or run.totals)]
        if empty:
            notes.append(f"{side}: nothing to compare in {', '.join(empty[:3])}{' ...' if len(empty) > 3 else ''}")
        if any(run.from_totals for run in runs):
            notes.append(f"{side}: device work is from totals summed by the profiler")
    sections = [{section for run in runs for section, _ in run.totals} for runs in (sides.base, sides.new)]
    if not all(run.totals for run in (*sides.base, *sides.new)) and (sections[0] or sections[1]):
        alone = ", ".join(sorted(sections[0] | sections[1]))
        notes.append(f"tables of totals that only some runs have are not compared: {alone}")
    if sides.by_step:
        outside = {k for run in (*sides.base, *sides.new) for k in run.whole} - names[0] - names[1]
        if outside:
            notes.append(
                f"{len(outside):,} {'name' if len(outside) == 1 else 'names'} of device work not compared (only in "
                "warm-up or outside of steps)"
            )
    if sides.by_runs and min(len(sides.base), len(sides.new)) < MIN_VALUES:
        notes.append(
            f"fewer than {MIN_VALUES} runs on a side: the intervals (by Student's t) are wide; more runs make them "
            "narrower"
        )
    if not sides.by_runs and any(_measures(run) for run in (*sides.base, *sides.new)):
        shown = smallest_shown([run.steps for run in (*sides.base, *sides.new)])
        notes.append(
            "one run a side: the intervals include variation within the runs, and not between runs. A time that "
            f"changed by less than {100 * shown:g} % may be noise: repeat the runs"
        )
    return notes


def _measures(run: Profile) -> bool:
    """Return whether a run has something to measure: steps or kernels."""
    return bool(run.step_count or any(kind == Kind.KERNEL for kind, _ in run.whole))

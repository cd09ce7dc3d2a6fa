"""Rule of `findings` about data loading on the thread that takes the steps."""

from __future__ import annotations

import re

import numpy as np

from tracekit.analysis.intervals import Ranges, intersection, length, merge
from tracekit.errors import Option, UsageError, sentence
from tracekit.index import gaps as _gaps
from tracekit.model.arrow import I64
from tracekit.model.report import Evidence, Finding
from tracekit.model.schema import API_CALLS, Kind
from tracekit.model.units import Unit
from tracekit.options import OptionSpec
from tracekit.views.base import ViewOptions
from tracekit.views.findings._facts import OPERATORS, Facts, RuleResult, how, percent, span, sure
from tracekit.views.findings.rule import Rule, threshold
from tracekit.views.tables import model, user_defined

LOADER = OptionSpec(
    "loader",
    str,
    "",
    "Data loading: a regular expression; host ranges with such a name load data, beside the known ones.",
)


def loader_pattern(options: ViewOptions) -> str:
    """Return the user's pattern of names of loaders, "" for none. Raises: UsageError for one that is not valid."""
    pattern = options.value(LOADER)
    try:
        re.compile(pattern)
    except re.error as err:
        raise UsageError(
            sentence(Option("option", f"loader={pattern}"), f": not a valid regular expression ({err})"),
            hint="such as loader=load_batch",
        ) from err
    return pattern


def data_loading(facts: Facts) -> RuleResult:
    """Return where the thread that takes the steps waits for its data."""
    loading = facts.loads
    if not loading.size:
        return RuleResult(
            why_not="the trace has no data loader; record the framework's own range, or put one around the "
            "loading and name it with --option loader=REGEX"
        )
    found: list[Finding] = []
    times: dict[str, Ranges] = {}
    tried = False
    for owner in facts.graphs:
        ranges, whole, does = _loading_of(facts, owner, loading)
        if not ranges.size or not whole:
            continue
        tried = True
        loads = merge(facts.starts[ranges], facts.starts[ranges] + facts.lengths[ranges])
        taken = length(loads)
        bound = facts.bounds(owner, [facts.inside(owner, ranges)])[0]
        share = taken / whole
        # Time that hides behind the device saves nothing, so the upper bound must reach the threshold too.
        worth = min(share, bound.share)
        if worth < max(facts.thresholds["data_loading_share"], facts.thresholds["least_share"]):
            continue
        heavy = worth >= facts.thresholds["data_loading_heavy"]
        whole_name = "the step time" if (facts.steps.owner == owner).any() else "the run"
        mine = facts.owners.codes[facts.work.rows] == owner
        confidence, because = "medium", "the trace has no GPU activity: whether the GPU waits for the data is unknown"
        if mine.any():
            work = facts.work
            busy = merge(work.starts[mine], (work.starts + work.durations)[mine])
            idle = 1 - length(intersection(busy, loads)) / taken if taken else 0.0
            confidence = "high" if idle >= 0.5 else "medium"
            because = f"the device was idle in {percent(idle)} of that time"
        if not _marked(facts, ranges):
            # A name such as get_batch or tokenize may mean something else in this program.
            confidence = "medium"
            because += "; only the name of the range says that it loads data"
        times[facts.label(owner)] = loads
        found.append(
            Finding(
                "data loading",
                facts.label(owner),
                f"{'Heavily input-bound' if heavy else 'Input-bound'}: data loading takes {percent(share)} "
                f"of {whole_name} ({span(taken)} of {span(whole)}, {ranges.size:,} loads), on the "
                f"thread that {does}.",
                tuple(_loading_cells(facts, owner, ranges)),
                facts.ids(ranges),
                bound.ns,
                bound.share,
                sure(bound, confidence),
                because + how(bound),
                "Load in the background: more workers of the data loader (num_workers=4 and up), prefetching, pinned "
                "memory; then make the loading itself cheaper (decoding, augmentation, small files).",
                _check(facts, ranges),
            )
        )
    why = "" if tried else "no data loader range is on a thread that runs steps, launches or operators"
    return RuleResult(tuple(found), why, times)


def _marked(facts: Facts, ranges: I64) -> bool:
    """Return whether a loader's class, its producer or the user marks most of this loading."""
    certain = np.isin(ranges, facts.certain_loads)
    return 2 * int(facts.lengths[ranges[certain]].sum()) >= int(facts.lengths[ranges].sum())


def _check(facts: Facts, ranges: I64) -> str:
    below = f"falls below {percent(facts.thresholds['data_loading_share'])}"
    if facts.kinds(Kind.DATALOADER)[ranges].any():
        return f"tracekit summary NEW --view model: the ratio of Dataloader {below}."
    return f"tracekit summary NEW --view findings: data loading {below} of the step time, or is not found."


def _loading_cells(facts: Facts, owner: int, ranges: I64) -> list[Evidence]:
    """Return the cells of the phases of training; of the program's own ranges where it names the loading itself."""
    step = facts.cells("model", "ProfileStep", ("total",), name="ProfileStep", **facts.owned(owner))
    if facts.kinds(Kind.DATALOADER)[ranges].any():
        cells = ("total", "ratio")
        return facts.cells("model", "Dataloader", cells, name="Dataloader", **facts.owned(owner)) + step
    name, _ = facts.most_common(ranges, facts.lengths[ranges])
    return (facts.cells("user_defined", name, ("calls", "total"), name=name) if name else []) + step


def _loading_of(facts: Facts, owner: int, loading: I64) -> tuple[I64, int, str]:
    """Return the outermost loads on the threads that take steps, the time of these steps with the loads, and a verb.

    Without steps, or where these are without a thread: on the threads that launch work, and in a program that launches
    none on the thread that computes; without steps, the window.
    """
    mine = facts.within(owner, loading)
    stepping = facts.steps.rows[facts.steps.owner == owner]
    by, does = stepping[facts.index.has("tid")[stepping]], "takes the steps"
    if not by.size:
        does = "launches the work"
        calls = np.flatnonzero(facts.kinds(*API_CALLS))
        by = calls[facts.owners.codes[calls] == owner]
    if not by.size:
        by, does = _computing(facts, owner), "computes"
    if not mine.size or not by.size:
        return mine[:0], 0, does
    lanes = _gaps.keys_of(facts.index, np.concatenate((mine, by)), _gaps.THREAD)
    threaded = facts.index.has("tid")[mine]
    mine = mine[np.isin(lanes[: mine.size], lanes[mine.size :]) & threaded]
    lanes = _gaps.keys_of(facts.index, mine, _gaps.THREAD) if mine.size else mine
    starts, ends = facts.starts[mine], facts.starts[mine] + facts.lengths[mine]
    order = np.lexsort((-ends, starts, lanes))
    outer = np.ones(mine.size, np.bool_)
    last_lane, last_end = -1, 0
    for i in order.tolist():  # few: a load or two a step
        if int(lanes[i]) == last_lane and int(ends[i]) <= last_end:
            outer[i] = False
        else:
            last_lane, last_end = int(lanes[i]), int(ends[i])
    mine = mine[outer]
    if not stepping.size:
        low, high = facts.window(owner)
        return mine, high - low, does
    every = np.concatenate((stepping, mine))
    return mine, length(merge(facts.starts[every], facts.starts[every] + facts.lengths[every])), does


def _computing(facts: Facts, owner: int) -> I64:
    """Return the rows of operators on the thread that spends most time in them: programs on the CPU launch nothing."""
    operators = facts.within(owner, np.flatnonzero(facts.kinds(*OPERATORS) & facts.index.has("tid")))
    if not operators.size:
        return operators
    threads = _gaps.keys_of(facts.index, operators, _gaps.THREAD)
    # Operators within operators count several times; so do they on every thread.
    taken = np.bincount(threads, weights=facts.lengths[operators])
    most: I64 = operators[threads == taken.argmax()]
    return most


DATA_LOADING = Rule(
    "data loading",
    data_loading,
    thresholds=(
        threshold(
            "data_loading_share",
            0.05,
            Unit.RATIO,
            "Data loading: the least time in it, as a share of the steps, and the least savings, as a share of the "
            "window.",
        ),
        threshold(
            "data_loading_heavy",
            0.2,
            Unit.RATIO,
            "Data loading: the share from which the run is called heavily input-bound.",
        ),
    ),
    evidence=(
        model.VIEW,
        user_defined.VIEW,
    ),
    precedence=3,
)

"""Operators that do nothing but what some calls do: `aten::item` holds a copy, the wait for it, and no other launch.

If the calls were not there, their operators would not be there either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache, cached_property, partial

import numpy as np

from tracekit.analysis.critical_path import SHORT_PAUSE, Path, UpperBounds
from tracekit.analysis.intervals import Ranges, length, merge, union, union_length
from tracekit.analysis.nesting import innermost
from tracekit.analysis.path_graph import PathPart
from tracekit.analysis.segments import distinct, fitting, gathered, narrow, place_type, rows_by
from tracekit.analysis.series import judge
from tracekit.index import devices as _devices
from tracekit.index import gaps as _gaps
from tracekit.index import launches, loaders
from tracekit.index import owners as _owners
from tracekit.index import pauses as _pauses
from tracekit.index import step_extents as _extents
from tracekit.index import steps as _steps
from tracekit.index.pauses import Pauses
from tracekit.index.sources import synthetic_sources
from tracekit.index.trace_index import PickedRows, TraceIndex, index_of
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I32, I64, Mask, Rows
from tracekit.model.names import short_names
from tracekit.model.report import Cell, Evidence, Finding, FindingEvents, Section
from tracekit.model.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.model.trace import Trace
from tracekit.model.units import sentence_span
from tracekit.views.path import graph as _path_graph
from tracekit.views.path.graph import OwnGraph

# Upper bounds of savings, the confidence that they allow, and the reason for it.


_UNLINKED = (
    "much of the device work names no launch call, so the upper bound is the time in which at least one of them ran"
)
_DOUBTFUL = (
    "the trace does not show which stream waits for which; the upper bound holds whether work that began as that of "
    "another stream ended waited for it or not"
)
_NOT_ON_PATH = "the trace has no host calls, so the upper bound is the time in which at least one of them ran"
LOWER = {"high": "medium", "medium": "low", "low": "low"}
"""The confidence one level lower."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper bound of savings. share: of the window. on_path: from the critical path, else from device time alone.

    in_doubt: tells `doubtful`, None where nothing is in doubt; most bounds are too small to be shown, and nobody asks.
    unlinked: much device work names no launch call.
    """

    ns: int
    share: float
    on_path: bool
    in_doubt: Callable[[], bool] | None = field(default=None, compare=False, repr=False)
    unlinked: bool = False

    @property
    def doubtful(self) -> bool:
        """Return whether it would be smaller if no stream had waited for another but where a row or a call says so."""
        return self.in_doubt is not None and self.in_doubt()


def sure(bound: Bound, confidence: str) -> str:
    """Return the confidence of a finding: low unless its upper bound is from the path, lower where that is doubtful."""
    if not bound.on_path:
        return "low"
    return LOWER[confidence] if bound.doubtful or bound.unlinked else confidence


def how(bound: Bound) -> str:
    """Return the end of the reason for the confidence: what the upper bound rests on, where that is not the path."""
    if not bound.on_path:
        return f"; {_NOT_ON_PATH}"
    if bound.unlinked:
        return f"; {_UNLINKED}"
    return f"; {_DOUBTFUL}" if bound.doubtful else ""


# Names, shares and times in the sentences of `findings`.


def named(text: str, most: int = 60) -> str:
    """Return a name for a sentence: whole, or without what says least."""
    return short_names([text], most)[0]


def percent(share: float) -> str:
    """Return a share for a sentence.

    >>> percent(0.49111)
    '49.11 %'
    """
    return f"{100 * share:.2f} %"


def whole_percent(share: float) -> str:
    """Return a share for a sentence in which a glance is enough; neither "0 %" for some nor "100 %" for less than all.

    >>> whole_percent(0.7605), whole_percent(0.001), whole_percent(0.999)
    ('76 %', '<1 %', '>99 %')
    """
    text = f"{100 * share:.0f}"
    if text == "0" and share > 0:
        return "<1 %"
    return ">99 %" if text == "100" and share < 1 else f"{text} %"


span = sentence_span
"""A time for a sentence; the exact one is in the evidence."""


def size(amount: float) -> str:
    """Return a size for a sentence, in binary units.

    >>> size(25165824), size(100)
    ('24.00 MiB', '100 bytes')
    """
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(amount) >= scale:
            return f"{amount / scale:.2f} {unit}"
    return f"{amount:.0f} bytes"


# Facts for the rules of the view `findings`: owners, steps, graphs, device work, and upper bounds of savings.
#
# An upper bound comes from the critical path (analysis/critical_path): the graph of the owner's window is evaluated
# again
# as if the rows took no time. Without host rows there is no such graph. Then the bound is the time in which at least
# one
# of the rows ran: the savings cannot exceed that either, and the finding says so.


OWNERS = 8
"""The ranks whose critical path is computed, however many events they have."""
MOST_ROWS = 4_000_000
"""More ranks are examined as long as their rows are not more than this together."""
LEAST_WORK = 10
"""Pieces of device work: an owner without host rows needs at least this many to be checked."""
PAUSE_IDLE = 0.1
"""The least part of a pause of the host in which the device is idle: behind a busy device a pause does no harm."""
EVENTS = 5
"""The most events that a finding names; a timeline marks all of them."""
_TIMES_LATER = 4
"""How many times as many calls of a name are later, if those before the first work are like them."""
_USUAL = 2.0
"""How many times the median of its later ones a call takes that is like them."""
_BETWEEN = 20_000
"""ns: a longer idle time from one copy or collective to the next is not theirs."""
_ALIKE = 0.5
"""The least length of a later pause, as a part of the longest one in the first steps, for both to be of one kind."""

DOUBT = 1.02
"""An upper bound that is larger than this times the savings without doubtful waits rests on them."""

UNLINKED = 0.01
"""The share of a rank's device work without a launch call from which a bound by the path alone may be too small."""

NO_WORK = "the trace has no GPU activity"
NO_LINKS = "no device event names the call that launched it; record the runtime API calls"
NO_PATH = "the trace has no host thread with operators, API calls or steps"
NAMED = ("long host calls", "compilation")
"""Rules whose time is not that of launching: they are checked before the rule launch-bound."""
OPERATORS = (Kind.OPERATOR, Kind.OPERATOR_INNER, Kind.PYTHON_OP, Kind.COMMUNICATION)
"""The kinds of rows that are work of the host by name."""
_OPTIONAL_KEYS = frozenset({"owner", "rank", "pid"})


@dataclass(frozen=True, slots=True)
class Bare:
    """Time in which a device does one thing, and no kernel hides it. share: of the device's span.

    between: ns of short idle times from one such thing to the next: if they were not there, neither were these.
    """

    device: _devices.IndexedDevice
    ns: int
    share: float
    between: int


@dataclass(frozen=True, slots=True)
class RuleResult:
    """The findings of one rule. why_not: the reason why the rule could not be checked, "" where it was.

    times: by the label of an owner, the ranges of time (merged) that the savings come from. A cause may also have times
    of owners that suffer from it without a finding of their own. note: what else is to be said.
    """

    findings: tuple[Finding, ...] = ()
    why_not: str = ""
    times: Mapping[str, Ranges] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, eq=False)
class Facts:
    """The facts of one trace, each computed once.

    sections: the sections of other views, of the whole trace or of one owner ("" or its label), computed on demand.
    loader: the user's regular expression for names of ranges that load data. traces: the rows of one owner, by label.
    results: of the rules that were checked so far, by name.
    """

    index: TraceIndex
    thresholds: Mapping[str, float]
    view: Callable[[str, TraceIndex], Section]
    sections: dict[tuple[str, str], Section] = field(default_factory=dict)
    loader: str = ""
    results: dict[str, RuleResult] = field(default_factory=dict)
    traces: dict[str, Trace] = field(default_factory=dict)

    @cached_property
    def owners(self) -> _owners.Owners:
        return _owners.find(self.index)

    @cached_property
    def steps(self) -> _steps.Steps:
        return _steps.find(self.index, self.owners)

    @cached_property
    def extents(self) -> _extents.StepExtents:
        """The steps with the time that each takes: on the device, where the host runs ahead."""
        return _extents.step_extents(self.index, self.owners)

    @cached_property
    def graphs(self) -> dict[int, OwnGraph]:
        """The graph of each examined owner with host rows; none where times are impossible."""
        try:
            found = _path_graph.graphs(self.index, self.owners, most=self.examined)
            return {each.owner: each for each in found if each.graph.span}
        except OverflowError:
            return {}

    @cached_property
    def examined(self) -> int:
        """The number of owners, the first ones, that are examined: all of them, unless they have very many events."""
        rows = np.cumsum(np.bincount(self.owners.codes, minlength=len(self.owners)))
        return max(OWNERS, int(np.count_nonzero(rows <= MOST_ROWS)))

    @cached_property
    def paths(self) -> dict[int, Path]:
        return {owner: _path_graph.path_of(self.index, each) for owner, each in self.graphs.items()}

    @cached_property
    def upper_bounds(self) -> dict[int, UpperBounds]:
        return {owner: UpperBounds(each.graph, self.paths[owner]) for owner, each in self.graphs.items()}

    @cached_property
    def work(self) -> PickedRows:
        """Device work with a duration and a known start."""
        picked = self.index.pick(DEVICE_WORK)
        made_up = synthetic_sources(self.index)
        if not made_up:
            return picked
        keep = ~np.isin(self.index.ints("source")[picked.rows], made_up)
        return PickedRows(
            self.index, picked.rows[keep], picked.starts[keep], picked.durations[keep], picked.untimed, picked.negative
        )

    @cached_property
    def devices(self) -> _devices.Devices:
        return _devices.find(self.index)

    @cached_property
    def launched(self) -> launches.LaunchedWork:
        return launches.launches_of(self.index, self.devices.rows)

    @cached_property
    def gaps(self) -> _gaps.Gaps:
        return _gaps.find_gaps(self.index)

    @cached_property
    def starts(self) -> I64:
        return self.index.starts

    @cached_property
    def lengths(self) -> I64:
        return self.index.lengths

    @cached_property
    def is_work(self) -> Mask:
        """For each row of EVENTS, whether it is one of `work`."""
        return self.marked(self.work.rows)

    def marked(self, *rows: Rows) -> Mask:
        """Return for each row of EVENTS whether it is one of these; to look rows up there, nothing is sorted."""
        found = np.zeros(self.index.events.num_rows, np.bool_)
        for each in rows:
            found[each] = True
        return found

    @cached_property
    def calls_in_order(self) -> tuple[Rows, Rows]:
        """API calls on a thread, by thread and start, and the number of the thread of each."""
        every = np.flatnonzero(self.kinds(*API_CALLS) & self.index.has("tid"))
        lanes = narrow(_gaps.keys_of(self.index, every, _gaps.THREAD))
        starts = self.starts[every]
        # Rows of EVENTS are in order of start.
        sorted_by_start = not bool((starts[1:] < starts[:-1]).any())
        order = np.argsort(lanes, kind="stable") if sorted_by_start else np.lexsort((starts, lanes))
        return every.astype(place_type(self.starts.size))[order], lanes[order].astype(np.int32)

    @cached_property
    def names(self) -> tuple[I32, list[str]]:
        return self.index.texts("name")

    @cached_property
    def timed(self) -> Mask:
        """For each row of EVENTS, whether it has a duration."""
        return self.index.has("dur_ns")

    def owned(self, owner: int) -> dict[str, str]:
        """Return the cell that names the owner in tables of several."""
        return {"owner": self.owners.labels[owner]} if len(self.owners) > 1 else {}

    def kinds(self, *kinds: str) -> Mask:
        return self.index.kind_mask(frozenset(kinds))

    @cached_property
    def loads(self) -> I64:
        """Rows of EVENTS that load data."""
        return loaders.find_loaders(self.index, self.loader)

    @cached_property
    def certain_loads(self) -> I64:
        """Those of `loads` that a loader's class, its producer or the user marks, not their name alone."""
        return loaders.certain_loaders(self.index, self.loader)

    def pauses(self, owner: int) -> Pauses | None:
        """Return the pauses of the owner's host; None where no thread is known to launch."""
        least = max(1, round(self.thresholds["pause_ns"]))
        return _pauses.find(self.index, self.owners, owner, loader=self.loader, least=least)

    def idle_pauses(self, owner: int) -> Pauses | None:
        """Return the pauses that keep a device waiting, without waits for requests, the start, and the first steps."""
        pauses = self.pauses(owner)
        if pauses is None:
            return None
        low, high = self.window(owner)
        found = ~pauses.request & (pauses.idle >= PAUSE_IDLE * (pauses.ends - pauses.starts))
        found &= ~self._like_requests(pauses)
        # Where no operators are recorded, such stretches are what the host does between launches.
        found &= ~pauses.regular | self.has_operators(owner)
        mine = self.owners.codes[self.work.rows] == owner
        begin = int(self.work.starts[mine].min(initial=high))  # before it: start-up
        found &= (pauses.starts >= max(low, begin)) & (pauses.ends <= high)
        for start, end in zip(*self.warm_up(owner), strict=True):  # few: the first steps
            found &= (pauses.ends <= start) | (pauses.starts >= end)
        return pauses.only(found)

    def _like_requests(self, pauses: Pauses) -> Mask:
        """Return which pauses come after the same as pauses that are the rule, and are as long: the last of a run."""
        usual = pauses.request & ~pauses.named
        if not usual.any():
            return usual
        lengths = pauses.ends - pauses.starts
        codes, _ = self.names
        same = np.isin(codes[pauses.before], codes[pauses.before[usual]])
        found: Mask = same & ~pauses.in_step & (lengths <= 2 * int(lengths[usual].max()))
        return found

    def has_operators(self, owner: int) -> bool:
        """Return whether operators show what the owner's host does between two launches of the window.

        Without them the host may work where no call runs. Operators outside the window, such as those of other steps,
        and operators of threads that launch nothing say nothing about it.
        """
        found = self.kinds(*OPERATORS) & (self.owners.codes == owner)
        if owner not in self.graphs or not found.any():
            return bool(found.any())
        own, (low, high) = self.graphs[owner], self.window(owner)
        nodes, host = own.graph.nodes, own.graph.nodes.devices_from
        rows, chain = own.rows[:host], nodes.chain[:host]
        launches = nodes.parts[:host] == PathPart.LAUNCH
        if not launches.any():
            return bool(found.any())
        there = found[rows] & np.isin(chain, chain[launches])
        return bool((there & (self.starts[rows] < high) & (self.starts[rows] + self.lengths[rows] > low)).any())

    def without_operators(self, owner: int) -> str:
        """Return how a sentence says that `has_operators` is not so."""
        some = bool((self.kinds(*OPERATORS) & (self.owners.codes == owner)).any())
        return f"the trace has no operators{f' of the launching threads in {self.where(owner)}' if some else ''}"

    def first_steps(self, owner: int) -> int:
        """Return the number of the owner's first steps that are unusually long (the rule of the view `steps`).

        None are where the host pauses in them without a reason, as it does in later steps: that comes again.
        """
        taken, host = self.extents.steps, self.extents.host
        at = np.flatnonzero(taken.owner == owner)
        judged = judge(taken.durations[at])
        pauses = self.pauses(owner) if judged.warm_up else None
        if pauses is None:
            return judged.warm_up
        excess = int((taken.durations[at[: judged.warm_up]] - judged.median).sum())
        until = int((host.starts + host.durations)[at[judged.warm_up - 1]])
        silent = pauses.only(pauses.in_step & ~pauses.named)
        lengths, first = silent.ends - silent.starts, silent.starts < until
        most = int(lengths[first].max(initial=0))
        alike = int(lengths[~first].max(initial=0)) >= _ALIKE * most
        return 0 if alike and 2 * int(lengths[first].sum()) >= excess else judged.warm_up

    def warm_up(self, owner: int) -> Ranges:
        """Return the ranges of the owner's first steps that are unusually long (the rule of the view `steps`)."""
        taken, host = self.extents.steps, self.extents.host
        at = np.flatnonzero(taken.owner == owner)
        first = at[: self.first_steps(owner)]
        # Where the host runs ahead, what it does for these steps lies before what the device does.
        return union(*(merge(steps.starts[first], (steps.starts + steps.durations)[first]) for steps in (host, taken)))

    def explained(self, owner: int) -> Ranges:
        """Return the times in which the device may be idle for a reason that has a name of its own.

        These are pauses of the host and waits for requests, data loading, and the first steps; and what the rules of
        `NAMED` have found.
        """
        found = self.warm_up(owner)
        for name in NAMED:
            if name in self.results:
                found = union(found, self.results[name].times.get(self.label(owner), merge(found[0][:0], found[1][:0])))
        pauses = self.pauses(owner)
        if pauses is not None:
            found = union(found, merge(pauses.starts, pauses.ends))
        loads = self.loads[self.owners.codes[self.loads] == owner]
        loads = loads[self.index.has("tid")[loads]]
        return union(found, merge(self.starts[loads], self.starts[loads] + self.lengths[loads]))

    def at_the_start(self, owner: int, rows: I64) -> Mask:
        """Return which of these rows of EVENTS are over before the owner's first device work, as the start of a run.

        One that is no longer than the later ones of its name is not of the start, if those are many: each round of the
        program begins with one, and the first round too.
        """
        mine = self.owners.codes[self.work.rows] == owner
        first = int(self.work.starts[mine].min(initial=np.iinfo(np.int64).max))
        codes, _ = self.names
        early: Mask = self.starts[rows] + self.lengths[rows] <= first
        for code in sets.unique(codes[rows[early]]).tolist():  # few: the names of calls before the first work
            of_name = codes[rows] == code
            before, later = of_name & early, of_name & ~early
            if np.count_nonzero(later) >= _TIMES_LATER * np.count_nonzero(before):
                usual = float(np.median(self.lengths[rows[later]]))
                early &= ~(before & (self.lengths[rows] <= _USUAL * usual))
        return early

    def looked_at(self) -> Iterator[int]:
        """Yield the owners with a graph; without any, those with LEAST_WORK device events. `examined` at most."""
        pieces = np.bincount(self.owners.codes[self.work.rows], minlength=len(self.owners))
        alone = [] if self.graphs else np.flatnonzero(pieces >= LEAST_WORK).tolist()
        yield from sorted({*self.graphs, *alone})[: self.examined]

    def window(self, owner: int) -> tuple[int, int]:
        """Return the begin and end of the window that shares of this owner refer to."""
        if owner in self.graphs:
            return self.graphs[owner].graph.begin, self.graphs[owner].graph.end
        mine = self.owners.codes[self.work.rows] == owner
        if not mine.any():
            return 0, 0
        return int(self.work.starts[mine].min()), int((self.work.starts + self.work.durations)[mine].max())

    def where(self, owner: int) -> str:
        """Return the name of the window: "the steps" or "the run"."""
        return "the steps" if owner in self.graphs and self.graphs[owner].steps else "the run"

    def bound(self, owner: int, rows: I64, *, most: int | None = None) -> Bound:
        """Return the upper bound if all of these rows of EVENTS took no time, and at most `most`."""
        low, high = self.window(owner)
        work = rows[self.is_work[rows]] if owner in self.graphs else rows
        starts = np.clip(self.starts[work], low, high)
        ns = union_length(starts, np.clip(self.starts[work] + self.lengths[work], low, high))
        if owner not in self.graphs:
            return self._bound(owner, ns, most, on_path=False)
        own, bound = self.graphs[owner], self.bounds(owner, [self.nodes_of(owner, rows)], most=most)[0]
        if own.unlinked <= UNLINKED * own.device:
            return bound
        # The path takes such work as launched when it began, so it would not begin earlier without these rows.
        by_time = self._bound(owner, ns, most)
        return replace(bound if bound.ns >= by_time.ns else by_time, unlinked=True)

    def shortened(self, owner: int, rows: I64, by: I64) -> Bound:
        """Return the upper bound if each of these rows of device work were shorter by so many ns, and not gone."""
        by = np.minimum(by, self.lengths[rows])
        most = int(by.sum())
        if owner not in self.graphs:
            return self._bound(owner, self.bound(owner, rows).ns, most, on_path=False)
        less = np.zeros(self.starts.size, np.int64)
        less[rows] = by
        bound = self.bounds(owner, [gathered(less, self.graphs[owner].rows)])[0]
        own = self.graphs[owner]
        if own.unlinked <= UNLINKED * own.device:
            return bound
        by_time = self._bound(owner, self.bound(owner, rows).ns, most)
        return replace(bound if bound.ns >= by_time.ns else by_time, unlinked=True)

    def bounds(
        self, owner: int, masks: Sequence[Mask | Rows], *, most: int | None = None, longest: int | None = None
    ) -> list[Bound]:
        """Return the same for several sets of nodes of the owner's graph, or the ns that each of its nodes loses.

        longest: ns, of the pauses between two nodes of a set that go with them; None: SHORT_PAUSE.
        """
        of = self.upper_bounds[owner].of
        found = of(masks, pauses=True, longest=longest).tolist()
        bounds = [self._bound(owner, ns, most) for ns in found]
        if not self.graphs[owner].guessed_waits:
            return bounds

        @cache
        def certain() -> list[int]:
            least: list[int] = of(masks, pauses=True, longest=longest, certain=True).tolist()
            return least

        def in_doubt(place: int) -> bool:
            return bool(found[place] > DOUBT * certain()[place])

        return [replace(bound, in_doubt=partial(in_doubt, place)) for place, bound in enumerate(bounds)]

    def without(self, owner: int, calls: I64, others: I64) -> Bound:
        """Return the upper bound if these calls did not wait, and took no time, nor these other rows of EVENTS.

        It may exceed the time in which they ran: without the wait, the host's other work goes on beside the device's.
        """
        own = self.graphs[owner]
        waits = np.flatnonzero(self.marked(calls)[own.waits])
        gone = self.nodes_of(owner, calls, others)
        masks: list[Mask | Rows] = [gone]
        if not self.has_operators(owner):
            masks.append(self._with_preparation(owner, gone))
        saved = int(self.upper_bounds[owner].of(masks, without=waits, pauses=True).max())
        return self._bound(owner, saved, None)

    def _with_preparation(self, owner: int, gone: Mask) -> Rows:
        """Return the ns that each node loses without these host nodes, and what the host does just before each.

        Without operators, the part of `aten::item` before its copy is no row. It is taken from the node before.
        """
        nodes = self.graphs[owner].graph.nodes
        less = fitting(nodes.ends - nodes.starts)
        before = np.flatnonzero(gone[1:] & ~gone[:-1] & (nodes.chain[1:] == nodes.chain[:-1]))
        before = before[before + 1 < nodes.devices_from]
        pause = nodes.starts[before + 1] - nodes.ends[before]
        of_pause = np.where(pause <= SHORT_PAUSE, np.clip(pause, 0, less[before]), 0)
        less *= gone
        less[before] = of_pause
        return less

    def _bound(self, owner: int, ns: int, most: int | None, *, on_path: bool = True) -> Bound:
        low, high = self.window(owner)
        ns = ns if most is None else min(ns, most)
        return Bound(ns, ns / (high - low) if high > low else 0.0, on_path)

    def nodes_of(self, owner: int, *rows: Rows) -> Mask:
        """Return the nodes of the owner's graph that are pieces of these rows."""
        return gathered(self.marked(*rows), self.graphs[owner].rows)

    def inside(self, owner: int, ranges: I64) -> Mask:
        """Return the host nodes of the owner's graph that lie in these rows of EVENTS, on the same thread."""
        own = self.graphs[owner]
        host = own.graph.nodes.devices_from
        found = np.zeros(own.rows.size, np.bool_)
        if ranges.size and host:
            lanes = _gaps.keys_of(self.index, np.concatenate((ranges, own.rows[:host])), _gaps.THREAD)
            held = innermost(
                lanes[: ranges.size],
                self.starts[ranges],
                self.starts[ranges] + self.lengths[ranges],
                lanes[ranges.size :],
                own.graph.nodes.starts[:host],
            )
            found[:host] = held >= 0
        return found

    def calls_of(self, rows: I64) -> I64:
        """Return the calls that launched these rows of device work."""
        at = np.searchsorted(self.devices.rows, rows)
        known = at < self.devices.rows.size
        known[known] = self.devices.rows[at[known]] == rows[known]
        launch = self.launched.launch[at[known]]
        return distinct(launch[launch >= 0], self.index.events.num_rows)

    def launches_but(self, calls: I64) -> I64:
        """Return the calls that launched any device work, without these."""
        launch = self.launched.launch
        return distinct(launch[launch >= 0], self.index.events.num_rows, but=calls)

    def within(self, owner: int, rows: I64) -> I64:
        """Return those of these rows of EVENTS that are the owner's and begin in its window."""
        low, high = self.window(owner)
        mine = (self.owners.codes[rows] == owner) & (self.starts[rows] >= low) & (self.starts[rows] < high)
        found: I64 = rows[mine]
        return found

    def ranges(self, *rows: I64) -> Ranges:
        """Return the time in which at least one of these rows of EVENTS ran."""
        every = np.concatenate(rows)
        return merge(self.starts[every], self.starts[every] + self.lengths[every])

    def ids(self, rows: I64) -> FindingEvents:
        """Return the event ids of the first of these rows, which remember all rows: a timeline marks each of them."""
        every = distinct(rows, self.index.events.num_rows)
        ids: list[int] = self.index.ints("event_id")[every[:EVENTS]].tolist()
        return FindingEvents(ids, every.astype(np.int32))

    def label(self, owner: int) -> str:
        return self.owners.labels[owner] if len(self.owners) > 1 else ""

    def devices_of(self, owner: int) -> list[_devices.IndexedDevice]:
        """Return the devices whose work is the owner's."""
        codes = self.owners.codes[self.devices.rows]
        return [d for d in self.devices.devices if d.positions.size and codes[d.positions[0]] == owner]

    def bare(self, owner: int, rows: I64, kernels: I64) -> Bare | None:
        """Return the longest time in which a device of the owner did these rows of EVENTS and no other kernel."""
        most = None
        for device in self.devices_of(owner):
            own = self.devices.rows[device.positions]
            starts, ends = self.devices.starts[device.positions], self.devices.ends[device.positions]
            mine = np.isin(own, rows)
            others = np.isin(own, kernels) & ~mine
            hidden = merge(starts[others], ends[others])
            ns = length(union(hidden, merge(starts[mine], ends[mine]))) - length(hidden)
            if device.end > device.begin and (most is None or ns > most.ns):
                most = Bare(device, ns, ns / (device.end - device.begin), _between(starts, ends, mine))
        return most

    def most_common(self, rows: I64, weights: I64) -> tuple[str, int]:
        """Return the name with the largest weight among these rows, and its weight; "" where no row has a name."""
        codes, names = self.names
        mine = codes[rows]
        known = mine >= 0
        if not known.any():
            return "", 0
        found, inverse = np.unique(mine[known], return_inverse=True)
        totals = np.zeros(found.size, np.int64)
        np.add.at(totals, inverse, weights[known])
        best = int(totals.argmax())
        return names[int(found[best])], int(totals[best])

    def name_of(self, row: int) -> str:
        """Return the name of a row of EVENTS; "" for none, and for row -1."""
        codes, names = self.names
        return names[int(codes[row])] if row >= 0 and codes[row] >= 0 else ""

    def cells(self, view: str, row: str, columns: tuple[str, ...], **match: Cell) -> list[Evidence]:
        """Return cells of the first row of a view that has all values of `match`; none where a column is not there.

        Keys of `_OPTIONAL_KEYS` are compared only where the table has such a column.
        """
        return self._cells(self.index, "", view, row, columns, match)

    def own_cells(self, owner: int, view: str, row: str, columns: tuple[str, ...], **match: Cell) -> list[Evidence]:
        """Return cells of a view that adds up all processes, made of the owner's rows alone; they name the owner."""
        label = self.label(owner)
        return self._cells(self._rows_of(owner) if label else self.index, label, view, row, columns, match)

    def section(self, view: str) -> Section:
        """Return the section of a view of the whole trace, computed once."""
        return self._section(self.index, "", view)

    def _section(self, index: TraceIndex, label: str, view: str) -> Section:
        if (view, label) not in self.sections:
            if "upper_bounds" in self.__dict__:  # a view may take as much memory as they do
                for each in self.upper_bounds.values():
                    each.forget()
                arrow.release_memory()
            self.sections[view, label] = self.view(view, index)
        return self.sections[view, label]

    def _cells(
        self,
        index: TraceIndex,
        label: str,
        view: str,
        row: str,
        columns: tuple[str, ...],
        match: Mapping[str, Cell],
    ) -> list[Evidence]:
        of = f" ({label})" if label else ""
        for table in self._section(index, label, view).tables:
            have = {column.name: column.values for column in table.columns}
            wanted = {key: value for key, value in match.items() if key in have or key not in _OPTIONAL_KEYS}
            if not (set(wanted) <= set(have) and set(columns) <= set(have)):
                continue
            for i in range(len(table)):
                if all(have[key][i] == value for key, value in wanted.items()):
                    return [
                        Evidence(f"{view}.{row}.{name}{of}", have[name][i], table.column(name).unit) for name in columns
                    ]
        return []

    def _rows_of(self, owner: int) -> TraceIndex:
        """Return an index of the owner's rows alone."""
        label = self.owners.labels[owner]
        if label not in self.traces:
            mine = self.index.events.take(arrow.array(np.flatnonzero(self.owners.codes == owner)))
            self.traces[label] = Trace(mine, run=self.index.run, ledgers=self.index.ledgers)
        return index_of(self.traces[label])


def _between(starts: I64, ends: I64, mine: Mask) -> int:
    """Return the ns of idle times of a device, up to `_BETWEEN` each, that begin and end with some of its work."""
    busy = merge(starts, ends)
    begins, until = busy[1][:-1], busy[0][1:]
    short = (until - begins <= _BETWEEN) & np.isin(begins, ends[mine]) & np.isin(until, starts[mine])
    return int((until - begins)[short].sum())


def row_of(device: _devices.IndexedDevice) -> dict[str, Cell]:
    """Return the values of the rows of a device in the columns that name it."""
    return {"name": device.name, "rank": device.rank, "pid": device.pid}


@dataclass(frozen=True, slots=True, eq=False)
class ReadBack:
    """Calls that wait, and what goes with them; rows of EVENTS. copies: device work that brings values to the host."""

    calls: I64
    operators: I64
    copies: I64


def operators(facts: Facts, calls: I64, others: I64) -> I64:
    """Return the operators that hold one of these calls, on its thread, and none of the others."""
    ranges = np.flatnonzero(facts.kinds(*OPERATORS) & facts.index.has("dur_ns") & facts.index.has("tid"))
    holds = _count(facts, ranges, calls) > 0
    ranges = ranges[holds]
    found: I64 = ranges[_count(facts, ranges, others) == 0]
    return found


def read_back(facts: Facts, calls: I64) -> ReadBack:
    """Return calls that wait with their operators, and the copies to the host that they wait for."""
    launch = facts.launched.launch
    linked = np.flatnonzero(launch >= 0)
    work, by = facts.devices.rows[linked], launch[linked]
    reads = to_host(facts, work)
    others = distinct(by[~reads], facts.index.events.num_rows, but=by[reads])
    around = operators(facts, calls, others)
    copies, their_calls = work[reads], by[reads]
    # A copy goes with a wait that is its own call, in the same operator, or the next call of its thread.
    near = next_to(facts, calls, -1), _inside(facts, their_calls, around)
    together = facts.marked(calls, *near)[their_calls]
    return ReadBack(sets.union(calls, their_calls[together]), around, copies[together])


def waits_with(facts: Facts, calls: I64, waits: I64) -> I64:
    """Return those of the waits that belong to calls which launch copies; rows of EVENTS.

    They lie in an operator that launches nothing else; without an operator around the call, it is the next one.
    """
    around = operators(facts, calls, facts.launches_but(calls))
    held = _inside(facts, calls, around)
    size = facts.index.events.num_rows
    inside = _inside(facts, calls, np.flatnonzero(facts.kinds(*OPERATORS) & facts.timed))
    lone = distinct(calls, size, but=inside)
    found = distinct(waits[facts.marked(next_to(facts, lone, 1))[waits]], size) if lone.size else waits[:0]
    return distinct(np.concatenate((found, _inside(facts, waits, around))), size) if held.size else found


def to_host(facts: Facts, work: I64) -> Mask:
    """Return for each of these rows of device work whether it is a copy from the device to the host."""
    codes, kinds = facts.index.texts("copy_kind")
    found: Mask = np.isin(codes[work], [place for place, kind in enumerate(kinds) if kind == "DtoH"])
    return found


def next_to(facts: Facts, calls: I64, by: int) -> I64:
    """Return for each of these calls the call before it (by: -1) or after it (1) on its thread, where there is one."""
    every, lanes = facts.calls_in_order
    at = np.flatnonzero(facts.marked(calls)[every])
    at = at[(at + by >= 0) & (at + by < every.size)]
    found: I64 = every[at + by][lanes[at + by] == lanes[at]].astype(np.int64)
    return found


def _inside(facts: Facts, calls: I64, ranges: I64) -> I64:
    """Return those of the calls that begin in one of the ranges, on the same thread."""
    if not ranges.size or not calls.size:
        return calls[:0]
    lanes = _gaps.keys_of(facts.index, np.concatenate((ranges, calls)), _gaps.THREAD)
    starts, ends = facts.starts[ranges], facts.starts[ranges] + facts.lengths[ranges]
    at = innermost(lanes[: ranges.size], starts, ends, lanes[ranges.size :], facts.starts[calls])
    found: I64 = calls[at >= 0]
    return found


def _count(facts: Facts, ranges: I64, calls: I64) -> I64:
    """Return how many of the calls begin in each of the ranges, on the same thread."""
    found = np.zeros(ranges.size, np.int64)
    if not ranges.size or not calls.size:
        return found
    lanes = _gaps.keys_of(facts.index, np.concatenate((ranges, calls)), _gaps.THREAD)
    of_range, of_call = lanes[: ranges.size], lanes[ranges.size :]
    starts, ends = facts.starts[ranges], facts.starts[ranges] + facts.lengths[ranges]
    rows_of = dict(rows_by(of_range))
    for lane, at in rows_by(of_call):
        if lane not in rows_of:
            continue
        mine, begun = rows_of[lane], np.sort(facts.starts[calls[at]])
        found[mine] = np.searchsorted(begun, ends[mine], "left") - np.searchsorted(begun, starts[mine], "left")
    return found

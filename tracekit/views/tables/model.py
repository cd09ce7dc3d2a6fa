"""model: how the time of training splits into loading, forward, backward and optimizer, and what is left of it.

Rows: ProfileStep, Dataloader, Forward, Backward, Optimization (kinds step, dataloader, forward, backward, optimizer),
and Others. On each path from the outermost range of a thread inwards the first phase counts, and what lies in it is
part of it; steps count beside the phases in them. total: sum over these.

ratio: the time that at least one of these covers, as a share of the whole. The whole is the time in steps and phases
(the union over all threads), since loops that a program watches load their data between two steps; without steps, it
is the span. Others is the part of the whole in which no phase ran. So no ratio is above 100 % or below zero, and phases
that do not overlap each other add up to 100 % with Others. Phases without a thread (a prefetch that overlaps the
loop) have rows of their own and no part in Others and in the whole.

device_total: of a step, the device work that was launched while it ran, by any thread of its process; of a phase, what
was launched in it, or while it ran by a thread that has no phases of its own (autograd's). device_ratio: of the work
launched in steps and phases. device_by_time: where no call of the input shows launches, the work that started while the
step or phase ran, an estimate (`index.host.by_time`). Each rank is a block.

PyTorch names the optimizer alone. Where its operators show backward passes, Forward, Backward and Recompute are found
from them (`index.training_phases`), unless ranges of the rank name these phases. Then a second table divides all device
work by phase: its times add up to the time in which the device was busy, and what belongs to no phase has a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from tracekit.analysis.intervals import Ranges, difference, intersection, length, merge
from tracekit.analysis.nesting import innermost
from tracekit.analysis.segments import rows_by
from tracekit.index import grouping
from tracekit.index import host_tree as _host
from tracekit.index import owners as _owners
from tracekit.index.devices import by_clock
from tracekit.index.host_tree import ByTime, by_time
from tracekit.index.trace_index import PickedRows, TraceIndex
from tracekit.index.training_phases import ARGS_OF, BACKWARD, FORWARD, RECOMPUTE, TrainingPhases, training_phases
from tracekit.index.training_phases import COLUMNS as _PHASE_COLUMNS
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64, Mask
from tracekit.model.display import plural
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit, format_span
from tracekit.views import specs, tabulate
from tracekit.views.base import Quantity, View, ViewColumn, ViewOptions
from tracekit.views.named import from_totals
from tracekit.views.quantities import ratio, span
from tracekit.views.totals import both_note

__all__ = ["NO_LAUNCH", "NO_PHASE", "ON_NO_THREAD", "OTHERS", "PHASES", "STEP", "VIEW"]

PHASES = {
    Kind.DATALOADER: "Dataloader",
    Kind.FORWARD: "Forward",
    Kind.BACKWARD: "Backward",
    Kind.OPTIMIZER: "Optimization",
}
STEP, OTHERS = "ProfileStep", "Others"
_TITLE = "Model"
_KINDS = frozenset({Kind.STEP, *PHASES})
_COLUMNS = _host.COLUMNS | _owners.COLUMNS
_ALL_COLUMNS = _COLUMNS | _PHASE_COLUMNS | {"device"}
ON_NO_THREAD = ", without a thread"
"""End of the names of phases that overlap the others."""
_NAMES = (STEP, *PHASES.values(), *(f"{name}{ON_NO_THREAD}" for name in PHASES.values()))
_ASIDE = len(PHASES)
_RECOMPUTE = len(_NAMES)
_NAMES = (*_NAMES, "Recompute")
_KIND_OF_FOUND = {FORWARD: 2, BACKWARD: 3, RECOMPUTE: _RECOMPUTE}
"""Numbers of phases that operators show: the places of their names."""
NO_PHASE, NO_LAUNCH = "(no phase)", "(launch not known)"
_NAMES_BY_WORK = ("Forward", "Backward", "Recompute", "Optimization", "(other named phases)", NO_PHASE, NO_LAUNCH)
WorkOf: TypeAlias = dict[int, tuple[int, int]]
"""Owner -> device ns that were launched in its steps, and in its steps and phases."""


@dataclass(frozen=True, slots=True, eq=False)
class _CountedRanges:
    """Steps and outermost phases, m of them. kind: 0 for a step, else the number of the phase, plus _ASIDE for one that
    is without a thread, or _RECOMPUTE. owner: whose. place: in the tree, -1 for one without a thread, or one that is
    found from operators. found: its place among those, -1 for others. work: device ns; by_time: the estimate where
    calls show none."""

    rows: I64
    kind: I64
    owner: I64
    place: I64
    found: I64
    starts: I64
    ends: I64
    work: I64
    by_time: I64

    @property
    def is_phase(self) -> Mask:
        """Return which are phases on a thread."""
        phase: Mask = ((self.kind > 0) & (self.kind <= _ASIDE)) | (self.kind == _RECOMPUTE)
        return phase


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return the table of phases. Raises: UsageError for a missing column."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    picked = index.pick(_KINDS)
    phases = index.kind_mask(PHASES)[picked.rows]
    notes = picked.notes("step or phase")
    found = training_phases(index)
    if not picked.rows.size and found is None:
        return from_totals(
            index,
            options,
            view=VIEW.name,
            title=_TITLE,
            kinds=_KINDS,
            what="step or phase",
            show_kind=True,
            notes=notes,
        )
    if not phases.any() and found is None:
        steps = plural(picked.rows.size, "step")
        needs = f"needs dataloader, forward, backward or optimizer events; this trace has {steps} and no phases in them"
        return Section(VIEW.name, _TITLE, notes=(needs, *notes, *tabulate.option_notes(options)))
    host = _host.host(index)
    owners = _owners.find(index)
    counted = _with_found(_outermost(index, host, owners, picked), owners, found)
    in_steps = _with_work(index, host, owners, counted, found)
    timed = by_time(index)
    started = _with_work_by_time(timed, owners, counted)
    order = sorted(
        sets.unique(counted.owner).tolist(), key=lambda o: (owners.ranks[o] is None, owners.ranks[o] or 0, o)
    )
    blocks = [_ModelBlock(index, owners, counted, in_steps, o, timed, started) for o in order]
    columns = _columns(timed, owners, counted, blocks)
    places: list[tuple[Cell, ...]] = [(n, i) for n, block in enumerate(blocks) for i in range(len(block.kinds) + 1)]
    table = tabulate.finish("model", _TITLE, columns, options, own_order="", blocks=places, top_each=False)
    if ((counted.kind > _ASIDE) & (counted.kind != _RECOMPUTE)).any():
        notes.append("Phases without a thread are listed, but not subtracted from Others.")
    for block in blocks:
        notes += block.notes
    notes += timed.notes()
    lost = int(np.count_nonzero(host.launch < 0)) - timed.said[0]
    if lost:
        notes.append(f"{lost:,} of {plural(host.work.size, 'device event')} have no launch call here")
    notes += [tabulate.PERCENTILE_NOTE, *both_note(index, _KINDS, "phase"), *tabulate.option_notes(options, table)]
    tables = [table]
    if found is not None and (counted.found >= 0).any():
        notes.append(_FOUND_NOTE if (counted.kind == _RECOMPUTE).any() else _FOUND_NOTE.partition(";")[0])
        tables += _by_phase(index, owners, found)
    return Section(VIEW.name, _TITLE, tuple(tables), notes=tuple(dict.fromkeys(notes)))


def _outermost(index: TraceIndex, host: _host.HostTree, owners: _owners.Owners, picked: PickedRows) -> _CountedRanges:
    place = host.places_of(picked.rows)
    kind = np.zeros(picked.rows.size, np.int64)
    for number, phase in enumerate(PHASES, 1):
        kind[index.kind_mask({phase})[picked.rows]] = number
    kind += np.where((kind > 0) & (place < 0), _ASIDE, 0)
    outer = np.ones(picked.rows.size, np.bool_)
    for of_kind in (kind == 0, kind > 0):
        wanted = np.zeros(host.rows.size, np.bool_)
        at = place[of_kind & (place >= 0)]
        wanted[at] = True
        above = np.append(host.nearest(wanted), -1)[host.tree.parent[at]]
        outer[np.flatnonzero(of_kind & (place >= 0))] = above < 0
    rows = picked.rows[outer]
    starts, durations = picked.starts[outer], picked.durations[outer]
    nothing = np.zeros(rows.size, np.int64)
    ends = _host.ends_of(starts, durations)
    counts = nothing, nothing.copy()
    return _CountedRanges(rows, kind[outer], owners.codes[rows], place[outer], nothing - 1, starts, ends, *counts)


_FOUND_NOTE = (
    "forward and backward are found from PyTorch's operators: each call is a pass on a thread; recompute (activation "
    "checkpointing) interrupts a backward pass, and each part of the pass is a call"
)


def _with_found(counted: _CountedRanges, owners: _owners.Owners, found: TrainingPhases | None) -> _CountedRanges:
    """Return the ranges with the phases that operators show, of owners that name no forward or backward themselves."""
    if found is None:
        return counted
    named = np.zeros(len(owners), np.bool_)
    named[counted.owner[np.isin((counted.kind - 1) % _ASIDE, (1, 2)) & (counted.kind > 0)]] = True
    at = np.flatnonzero(~named[owners.codes[found.rows]])
    kind = np.array([_KIND_OF_FOUND[phase] for phase in range(len(_KIND_OF_FOUND))], np.int64)[found.phase[at]]
    nothing = np.zeros(at.size, np.int64)
    columns = (
        (counted.rows, found.rows[at]),
        (counted.kind, kind),
        (counted.owner, owners.codes[found.rows[at]]),
        (counted.place, nothing - 1),
        (counted.found, at),
        (counted.starts, found.starts[at]),
        (counted.ends, found.ends[at]),
        (counted.work, nothing),
        (counted.by_time, nothing),
    )
    return _CountedRanges(*(np.concatenate(pair) for pair in columns))


def _by_phase(index: TraceIndex, owners: _owners.Owners, found: TrainingPhases) -> list[ReportTable]:
    """Return the table of all device work by phase; none where no device worked."""
    host = found.nodes.host
    if not host.work.size:
        return []
    phase = _phase_by_work(host, found)
    owner = owners.codes[host.work]
    groups = grouping.group_by(grouping.Key(owner, range(len(owners))), grouping.Key(phase, range(len(_NAMES_BY_WORK))))
    pieces, totals = grouping.sums(groups.codes, groups.count, host.work_ns, "durations")
    busy = grouping.sums(groups.codes, groups.count, _busy_time(index, host, owner), "durations")[1]
    busy_of: dict[Cell, int] = {}
    for each, ns in zip(groups.labels[0], busy, strict=True):
        busy_of[each] = busy_of.get(each, 0) + ns
    shares: list[Cell] = [
        ns / busy_of[each] if busy_of[each] else None for each, ns in zip(groups.labels[0], busy, strict=True)
    ]
    names: list[Cell] = [_NAMES_BY_WORK[number] for number in groups.labels[1] if isinstance(number, int)]
    columns = [
        Column("name", "Phase", Unit.TEXT, names, 0),
        *owners.column([each for each in groups.labels[0] if isinstance(each, int)], 0),
        _SHOWN["device_events"].column(pieces, 1),
        Column("device_total", "Device total", Unit.NS, totals, 1),
        _SHOWN["device_busy"].column(busy),
        _SHOWN["busy_ratio"].column(shares),
    ]
    return [ReportTable("phases", "Device time by phase", tuple(columns))]


def _phase_by_work(host: _host.HostTree, found: TrainingPhases) -> I64:
    """Return the place in `_NAMES_BY_WORK` of each device event."""
    phase = np.where(found.of_work >= 0, found.of_work, len(_NAMES_BY_WORK) - 2)
    return np.where(host.launch < 0, len(_NAMES_BY_WORK) - 1, phase)


def _busy_time(index: TraceIndex, host: _host.HostTree, owner: I64) -> I64:
    """Return by how many ns each device event extends the time in which its device was busy: these add up to it."""
    device = grouping.numbered((grouping.Key(owner, range(int(owner.max()) + 1)), index.key("device", host.work)))
    clocks = by_clock(index)
    clock = grouping.Key(clocks.codes[host.work], range(clocks.count))
    device = grouping.numbered((grouping.Key(device, range(int(device.max()) + 1)), clock))
    starts: I64 = index.starts[host.work]
    ends = _host.ends_of(starts, host.work_ns)
    out = np.zeros(host.work.size, np.int64)
    for _, rows in rows_by(device):
        order = rows[np.argsort(starts[rows], kind="stable")]
        before = np.concatenate((starts[order[:1]], np.maximum.accumulate(ends[order])[:-1]))
        out[order] = np.maximum(ends[order] - np.maximum(starts[order], before), 0)
    return out


def _launched_in(
    index: TraceIndex,
    host: _host.HostTree,
    owners: _owners.Owners,
    counted: _CountedRanges,
    found: TrainingPhases | None,
) -> tuple[I64, I64]:
    """Return the device events that have a launch, by place, and the phase that each is launched in, -1 for none."""
    linked = np.flatnonzero(host.launch >= 0)
    launch = host.launch[linked]
    begun: I64 = index.starts[launch]
    owner = owners.codes[launch]
    to = np.full(linked.size, -1, np.int64)
    phase = np.flatnonzero((counted.kind > 0) & (counted.place >= 0))
    of_operators = np.flatnonzero(counted.found >= 0)
    if (phase.size or of_operators.size) and host.rows.size:
        wanted = np.zeros(host.rows.size, np.bool_)
        wanted[counted.place[phase]] = True
        number = np.full(host.rows.size + 1, -1, np.int64)
        number[counted.place[phase]] = phase
        to = number[np.append(host.nearest(wanted), -1)[host.owner[linked]]]
        own_lanes = host.lanes[counted.place[phase]]
        if found is not None and of_operators.size:
            range_of = np.full(found.phase.size + 1, -1, np.int64)
            range_of[counted.found[of_operators]] = of_operators
            to = np.where(to >= 0, to, range_of[found.at[linked]])
            own_lanes = np.concatenate((own_lanes, found.lanes[counted.found[of_operators]]))
        # A thread that has phases of its own launched the rest outside of them.
        lane = np.full(index.events.num_rows, -1, np.int64)
        lane[host.rows] = host.lanes
        own_phases = np.isin(lane[launch], own_lanes)
        free = np.flatnonzero((to < 0) & ~own_phases)
        around = innermost(counted.owner[phase], counted.starts[phase], counted.ends[phase], owner[free], begun[free])
        to[free] = np.append(phase, -1)[around]
    return linked, to


def _with_work(
    index: TraceIndex,
    host: _host.HostTree,
    owners: _owners.Owners,
    counted: _CountedRanges,
    found: TrainingPhases | None,
) -> WorkOf:
    """Fill in the device work of each step and phase; return that of all steps, and with phases, of each owner."""
    linked, to = _launched_in(index, host, owners, counted, found)
    launch = host.launch[linked]
    begun: I64 = index.starts[launch]
    owner, ns = owners.codes[launch], host.work_ns[linked]
    np.add.at(counted.work, to[to >= 0], ns[to >= 0])
    return _in_steps(counted, owner, begun, ns, counted.work)


def _with_work_by_time(timed: ByTime, owners: _owners.Owners, counted: _CountedRanges) -> WorkOf:
    """Fill in the device work that is charged by time; return that of all steps, and with phases, of each owner."""
    host, known = timed.host, np.flatnonzero(timed.known)
    phase = np.flatnonzero((counted.kind > 0) & (counted.place >= 0))
    if phase.size and known.size:
        wanted = np.zeros(host.rows.size, np.bool_)
        wanted[counted.place[phase]] = True
        number = np.full(host.rows.size + 1, -1, np.int64)
        number[counted.place[phase]] = phase
        to = number[np.append(host.nearest(wanted), -1)[timed.owner[known]]]
        np.add.at(counted.by_time, to[to >= 0], host.work_ns[known][to >= 0])
    owner = owners.codes[host.rows[timed.thread[known]]]
    return _in_steps(counted, owner, timed.times[known], host.work_ns[known], counted.by_time)


def _in_steps(counted: _CountedRanges, owner: I64, begun: I64, ns: I64, work: I64) -> WorkOf:
    """Fill in the work of each step, by when it began; return that of all steps, and with phases, of each owner."""
    whole = {}
    rows_of, none = dict(rows_by(owner)), np.zeros(0, np.int64)
    for o, of_owner in rows_by(counted.owner):
        work_rows = rows_of.get(o, none)
        order = np.argsort(begun[work_rows], kind="stable")
        times = begun[work_rows][order]
        sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(ns[work_rows][order])))
        steps = of_owner[counted.kind[of_owner] == 0]

        def inside(starts: I64, ends: I64, times: I64 = times, sums: I64 = sums) -> I64:
            return sums[np.searchsorted(times, ends)] - sums[np.searchsorted(times, starts)]

        work[steps] = inside(counted.starts[steps], counted.ends[steps])
        every = of_owner[(counted.kind[of_owner] == 0) | counted.is_phase[of_owner]]
        sets = (merge(counted.starts[rows], counted.ends[rows]) for rows in (steps, every))
        of_steps, of_all = (int(inside(*ranges).sum()) for ranges in sets)
        whole[o] = of_steps, of_all
    return whole


class _ModelBlock:
    """The rows of one owner: its kinds in order, the time that each covers, the whole, what is left of it."""

    def __init__(
        self,
        index: TraceIndex,
        owners: _owners.Owners,
        counted: _CountedRanges,
        in_steps: WorkOf,
        owner: int,
        timed: ByTime,
        started: WorkOf,
    ) -> None:
        of_owner = counted.owner == owner
        self.owner = owner
        self.kinds: list[int] = sets.unique(counted.kind[of_owner]).tolist()
        self.steps = 0 in self.kinds
        steps, phases = of_owner & (counted.kind == 0), of_owner & counted.is_phase
        self.notes: list[str] = []
        prefix = owners.prefix(owner)
        in_phases = merge(counted.starts[phases], counted.ends[phases])
        outside = length(difference(in_phases, merge(counted.starts[steps], counted.ends[steps])))
        whole: Ranges = merge(counted.starts[steps | phases], counted.ends[steps | phases])
        if not self.steps:
            whole = _span(index, owners.codes == owner)
            self.notes.append(f"{prefix}no steps in this trace: ratios are of its span, {format_span(length(whole))}")
        elif outside:
            self.notes.append(
                f"{prefix}phases ran for {format_span(outside)} outside of steps: ratios are of the time in steps and "
                f"phases, {format_span(length(whole))}"
            )
        self.time = length(whole)
        each = [
            merge(counted.starts[of_owner & (counted.kind == k)], counted.ends[of_owner & (counted.kind == k)])
            for k in self.kinds
        ]
        self.covered = [length(intersection(ranges, whole)) for ranges in each]
        self.rest = self.time - length(in_phases)
        self.step_work, self.work = in_steps[owner]
        if not self.steps:
            self.work = int(counted.work[phases].sum())
        self.work_rest = self.work - int(counted.work[phases].sum())
        # No call of its input could show what it launched.
        self.silent = bool(timed.silent(counted.rows[of_owner]).all())
        self.step_started, in_all = started[owner]
        in_phases_ns = int(counted.by_time[phases].sum())
        self.started_rest = (in_all if self.steps else in_phases_ns) - in_phases_ns
        ran = [ns for kind, ns in zip(self.kinds, self.covered, strict=True) if _is_phase(kind)]
        if sum(ran) > length(in_phases):
            self.notes.append(f"{prefix}phases overlap each other (on several threads): their ratios do not add up")


def _is_phase(kind: int) -> bool:
    """Return whether the number is that of a phase on a thread."""
    return 0 < kind <= _ASIDE or kind == _RECOMPUTE


def _span(index: TraceIndex, rows: Mask) -> Ranges:
    start: I64 = index.starts[rows]
    ends = _host.ends_of(start, index.lengths[rows])
    return start.min(keepdims=True), ends.max(keepdims=True)


def _columns(
    timed: ByTime, owners: _owners.Owners, counted: _CountedRanges, blocks: Sequence[_ModelBlock]
) -> list[Column]:
    groups = [(block, kind) for block in blocks for kind in block.kinds]
    code = {(block.owner, kind): i for i, (block, kind) in enumerate(groups)}
    codes = np.array([code[o, k] for o, k in zip(counted.owner.tolist(), counted.kind.tolist(), strict=True)], np.int64)
    stats = grouping.statistics(grouping.Groups(codes, len(groups), ()), counted.ends - counted.starts)
    figures = [c for c in tabulate.statistic_columns(stats) if c.name != "ratio"]

    def each(values: Sequence[Cell], rest: Sequence[Cell]) -> list[Cell]:
        """Put what is left behind the rows of its block."""
        out: list[Cell] = []
        left = iter(values)
        for block, last in zip(blocks, rest, strict=True):
            out += [next(left) for _ in block.kinds]
            out.append(last)
        return out

    def shares(parts: Sequence[Cell], whole: Sequence[int]) -> list[Cell]:
        return [part / ns if isinstance(part, int) and ns else None for part, ns in zip(parts, whole, strict=True)]

    owner_of = [block.owner for block in blocks for _ in (*block.kinds, None)]
    times = [block.time for block in blocks for _ in (*block.kinds, None)]
    columns = [Column("name", "Name", Unit.TEXT, each([_NAMES[k] for _, k in groups], [OTHERS] * len(blocks)), 0)]
    columns += owners.column(owner_of, 0)
    for c in figures:
        rest = [block.rest if c.name == "total" else None for block in blocks]
        columns.append(replace(c, values=each(c.values, rest)))
        if c.name == "total":
            covered = each([ns for block in blocks for ns in block.covered], [block.rest for block in blocks])
            ratio = shares(covered, times)
            columns.append(Column("ratio", "Ratio", Unit.RATIO, ratio, 0))
    if not timed.host.work.size:
        return columns
    worked = grouping.statistics(grouping.Groups(codes, len(groups), ()), counted.work)
    known = [(k == 0 or _is_phase(k)) and not block.silent for block, k in groups]
    totals = [block.step_work if k == 0 else ns for (block, k), ns in zip(groups, worked.total.tolist(), strict=True)]
    rests = [None if b.silent else b.work_rest for b in blocks]
    total = each([ns if k else None for ns, k in zip(totals, known, strict=True)], rests)
    mean = each([ns if k else None for ns, k in zip(worked.mean.tolist(), known, strict=True)], [None] * len(blocks))
    bases = [block.work for block in blocks for _ in (*block.kinds, None)]
    started = grouping.statistics(grouping.Groups(codes, len(groups), ()), counted.by_time).total.tolist()
    started = [b.step_started if k == 0 else ns for (b, k), ns in zip(groups, started, strict=True)]
    started = [
        ns if (k == 0 or _is_phase(k)) and b.silent else None for (b, k), ns in zip(groups, started, strict=True)
    ]
    by_times = Column(
        "device_by_time",
        "Device by time",
        Unit.NS,
        each(started, [b.started_rest if b.silent else None for b in blocks]),
        1,
    )
    return [
        *columns,
        Column("device_total", "Device total", Unit.NS, total, 1),
        *([by_times] if timed.known.any() else []),
        Column("device_avg", "Device avg", Unit.NS, mean, 4),
        Column("device_ratio", "Device ratio", Unit.RATIO, shares(total, bases), 2),
    ]


def _define(index: TraceIndex, _: ViewOptions, row: Mapping[str, Cell], column: str) -> Quantity | None:
    """Define times of steps and phases; Others, which may be below zero, is what is left of them and no time itself."""
    if not row or row.get(column) is None or row["name"] == OTHERS:
        return None
    host, owners = _host.host(index), _owners.find(index)
    found = training_phases(index)
    if column in _OF_DEVICE or (column == "device_total" and "device_busy" in row):
        return _device_quantity(index, owners, found, row, column)
    if row["name"] not in _NAMES:
        return None  # a row of totals
    counted = _with_found(_outermost(index, host, owners, index.pick(_KINDS)), owners, found)
    of_owner = np.array([row.get("owner") in (None, label) for label in owners.labels], np.bool_)[counted.owner]
    of_kind = of_owner & (counted.kind == _NAMES.index(str(row["name"])))
    passes = bool((counted.found[of_kind] >= 0).any())
    who = "steps" if row["name"] == STEP else f"{row['name']} ranges that no other phase holds"
    who = f"{row['name']} passes, found from PyTorch's operators" if passes else who
    if column == "device_total":
        return _launched_quantity(index, host, owners, counted, found, of_kind, who)
    if column == "calls":
        return _of_ranges(index, counted, of_kind, "count", f"number of {who}")
    if measure := specs.measures(specs.STATISTICS).get(column):
        return _of_ranges(index, counted, of_kind, measure, f"{measure} of the durations of {who}")
    if column not in ("total", "ratio"):
        return None
    part = _of_ranges(index, counted, of_kind, "sum", f"sum of the durations of {who}")
    if column == "total":
        return part
    if str(row["name"]) not in (*_NAMES[: _ASIDE + 1], _NAMES[_RECOMPUTE]):
        return None
    covered = _of_ranges(index, counted, of_kind, "union", f"time in {who}, on any thread", lanes=owners.codes)
    if not (of_owner & (counted.kind == 0)).any():
        rows = np.flatnonzero(of_owner)
        mask = np.isin(owners.codes, counted.owner[rows])
        whole = span(index, owners.codes, mask, "first start to last end of all rows")
    else:
        every = of_owner & ((counted.kind == 0) | counted.is_phase)
        words = "time in steps and phases, on any thread"
        whole = _of_ranges(index, counted, every, "union", words, lanes=owners.codes)
    return ratio(covered, whole, f"{covered.words} / {whole.words}")


_OF_DEVICE = ("device_events", "device_busy", "busy_ratio")
"""Columns of the second table alone."""


def _of_ranges(
    index: TraceIndex, counted: _CountedRanges, mask: Mask, measure: str, words: str, *, lanes: I64 | None = None
) -> Quantity:
    """Return the quantity of steps and phases. lanes: as in `quantity`."""
    order = np.flatnonzero(mask)
    order = order[np.argsort(counted.rows[order], kind="stable")]
    rows = counted.rows[order]
    clocks = by_clock(index).codes[rows]
    of_lane = clocks if lanes is None else lanes[rows]
    return Quantity(words, measure, rows, counted.starts[order], counted.ends[order], of_lane, clocks)


def _launched_quantity(
    index: TraceIndex,
    host: _host.HostTree,
    owners: _owners.Owners,
    counted: _CountedRanges,
    found: TrainingPhases | None,
    mask: Mask,
    who: str,
) -> Quantity | None:
    """Return the device work that was launched in phases; None for steps, which count it by the time of its launch."""
    if not counted.is_phase[mask].all():
        return None
    linked, to = _launched_in(index, host, owners, counted, found)
    at = linked[np.append(mask, False)[to]]
    return _work(index, host, at, host.work_ns[at], "sum", f"sum of the durations of the device work launched in {who}")


def _device_quantity(
    index: TraceIndex, owners: _owners.Owners, found: TrainingPhases | None, row: Mapping[str, Cell], column: str
) -> Quantity | None:
    """Return a cell of the table of all device work by phase."""
    if found is None or str(row["name"]) not in _NAMES_BY_WORK:
        return None
    host = found.nodes.host
    owner = owners.codes[host.work]
    mine = np.array([row.get("owner") in (None, label) for label in owners.labels], np.bool_)[owner]
    at = np.flatnonzero(mine & (_phase_by_work(host, found) == _NAMES_BY_WORK.index(str(row["name"]))))
    which = f"the device work of {row['name']}"
    if column == "device_events":
        return _work(index, host, at, host.work_ns[at], "count", f"number of kernels, copies and memsets: {which}")
    if column == "device_total":
        return _work(index, host, at, host.work_ns[at], "sum", f"sum of the durations of {which}")
    busy = _busy_time(index, host, owner)
    words = f"time in which the device is busy with {which}; where works overlap, with the one that began first"
    part = _work(index, host, at, busy[at], "sum", words)
    if column == "device_busy":
        return part
    every = np.flatnonzero(mine)
    whole = _work(index, host, every, busy[every], "sum", "time in which the device is busy")
    return ratio(part, whole, f"{part.words} / {whole.words}")


def _work(index: TraceIndex, host: _host.HostTree, at: I64, ns: I64, measure: str, words: str) -> Quantity:
    """Return the quantity of device events by place. ns: how much of each counts, at its end."""
    rows = host.work[at]
    ends = _host.ends_of(index.starts[rows], host.work_ns[at])
    clocks = by_clock(index).codes[rows]
    return Quantity(words, measure, rows, ends - ns, ends, clocks, clocks)


_SHOWS = (
    *specs.OWNER,
    specs.NAME,
    specs.KIND,
    *specs.STATISTICS,
    specs.MEDIAN,
    *specs.PLACED,
    ViewColumn("device_total", "Device total", Unit.NS, "The device work that was launched in the phase."),
    ViewColumn("device_avg", "Device avg", Unit.NS, "The mean device work of one phase."),
    ViewColumn(
        "device_ratio",
        "Device ratio",
        Unit.RATIO,
        "The share of the device work launched in steps and phases.",
    ),
    ViewColumn(
        "device_by_time",
        "Device by time",
        Unit.NS,
        "An estimate, where no call shows the launch: the device work that started while the phase ran.",
    ),
    ViewColumn("device_events", "Device events", Unit.COUNT, "The number of kernels, copies and memsets."),
    ViewColumn(
        "device_busy",
        "Device busy",
        Unit.NS,
        "The time in which the device was busy with work of the phase; where works overlap, with the one that began "
        "first. These times add up.",
    ),
    ViewColumn("busy_ratio", "Busy ratio", Unit.RATIO, "The share of the time in which the device was busy."),
)
_SHOWN = specs.by_key(_SHOWS)

VIEW = View(
    name="model",
    title=_TITLE,
    columns=_ALL_COLUMNS,
    kinds=_host.KINDS,
    args_of=ARGS_OF,
    compute=compute,
    define=_define,
    shows=_SHOWS,
)

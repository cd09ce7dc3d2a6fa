"""efficiency: how well the devices were used: the known part of their time first, then rates, floors and MFU.

Table `known`: all device time by what is known of its work, and by the reason why not. Everything else is about the
first row alone. Table `without_floor`: known work that has no floor, by reason. Table `devices`: the floor of the known
work, the time by limit, and the peaks that count, with their source. Table `phases`: floor and rates by phase of the
training step, beside all of its device time. Table `families`: the same by family of operators. Table `steps`: for each
rank, the model FLOPs of its steps as a share of what its devices could have computed then.

mfu: FLOPs of matrix products, convolutions and attention, without what activation checkpointing computes again, each at
the peak of the datatype that it ran in, over the time of the step. hfu: with it. Both are lower bounds where not all
work is known: known is the share of the device time, without products of which no peak is known. Table `each_step` has
the single steps.

Tables `measured` and `measured_flops` come first where the file has hardware counters: `measured`. So does `stated`
where the program stated its work.

Table `untimed_families` is all that an execution trace has: FLOPs and bytes by family, without times.

A floor is the least time at these shapes and in this precision. Another algorithm, a lower precision or fusion with a
neighbour may be quicker: docs/efficiency.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tracekit.analysis.efficiency.devices import RatedDevice
from tracekit.analysis.efficiency.floors import Limit
from tracekit.analysis.efficiency.formulas import DEFINED, FAMILIES
from tracekit.index import device_peaks, lanes
from tracekit.index import owners as _owners
from tracekit.index import step_extents as _extents
from tracekit.index.recomputation import recomputed
from tracekit.index.trace_index import TraceIndex
from tracekit.index.work_phases import ARGS_OF as _PHASE_ARGS
from tracekit.index.work_phases import COLUMNS as _PHASE_COLUMNS
from tracekit.index.work_phases import PHASES, phase_of_work
from tracekit.index.work_units import ARGS_OF, KINDS, LIMITS, WorkUnits, work_units
from tracekit.model import sets
from tracekit.model.arrow import F64, I64, Mask
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.units import Unit
from tracekit.views import specs, tabulate
from tracekit.views.advice import for_part
from tracekit.views.base import View, ViewColumn, ViewOptions
from tracekit.views.efficiency.measured import MEASURED_NOTE, MEASURED_SHOWS, measured_tables, roof_notes
from tracekit.views.efficiency.stated import STATED_NOTE, STATED_SHOWS, device_notes, stated_tables
from tracekit.views.untimed import UNTIMED_NOTE, untimed_families
from tracekit.views.work_columns import (
    BOUND,
    BYTES,
    FLOOR,
    FLOPS,
    GBPS,
    KNOWN,
    NEEDED,
    OF_BEST,
    OF_PEAK,
    SAVING,
    TFLOPS,
    sums_of,
    work_columns,
)

__all__ = ["VIEW"]

_TITLE = "Efficiency"
_KNOWN = "known"
_PRIORITIES = {"of_peak": 3, "could_save": 3, "bound": 4}
_NUMBER = "number"
"""A column for the order of rows, which is not shown."""
_COLUMNS = NEEDED | _extents.COLUMNS | _PHASE_COLUMNS | {"step"}
_NEEDS = (
    "needs shapes of operators, device events and their launch calls; this trace has none. "
    "Record with torch.profiler.profile(record_shapes=True)"
)
_CPU_ONLY = "needs work of a device; this trace has no GPU activity. Record with ProfilerActivity.CUDA"
_FLOOR_NOTE = (
    "floor: the least time at these shapes and in this precision; a lower precision, fusion or another algorithm may "
    "be quicker still"
)
_TIMES = (
    ("compute", Limit.COMPUTE, "Compute", "near the limit of arithmetic"),
    ("memory", Limit.MEMORY, "Memory", "near the limit of memory"),
    ("cache", Limit.CACHE, "In cache", "quicker than memory could be"),
    ("far", Limit.FAR, "Far from both", "at less than 30 % of both limits: latency, launching, or the shape"),
    ("less", Limit.LESS_WORK, "Less work", "quicker than the peak: the algorithm or the datatype is another one"),
    ("no_floor", Limit.UNKNOWN, "No floor", "of known work, without a known peak"),
)


def compute(index: TraceIndex, options: ViewOptions) -> Section:
    """Return what is known of the work, and how near it came to the limits. Raises: UsageError."""
    tabulate.require(index, VIEW.name, _COLUMNS)
    units = work_units(index)
    measured, stated = measured_tables(index, options), stated_tables(index, options)
    own_notes = [
        *([MEASURED_NOTE, *roof_notes(index)] if measured else []),
        *([STATED_NOTE, *device_notes(index)] if stated else []),
    ]
    if units is None and not own_notes and (untimed := untimed_families(index, options)) is not None:
        return Section(VIEW.name, _TITLE, (untimed,), notes=(UNTIMED_NOTE, *tabulate.option_notes(options, untimed)))
    if units is None:
        needs = _NEEDS if index.kind_mask(DEVICE_WORK).any() else _CPU_ONLY
        notes = own_notes or [for_part(index, needs)]
        return Section(VIEW.name, _TITLE, (*measured, *stated), notes=(*notes, *tabulate.option_notes(options)))
    tables = (
        *measured,
        *stated,
        _known(units, options),
        *_without_floor(units, options),
        _devices(index, units, options),
        *_phases(index, units, options),
        _families(units, options),
        *_steps(index, units, options),
    )
    return Section(
        VIEW.name,
        _TITLE,
        tables,
        notes=(*own_notes, *_notes(units), *tabulate.option_notes(options)),
    )


def _notes(units: WorkUnits) -> list[str]:
    notes = [_FLOOR_NOTE]
    noted = {(each.device.name or "a device without a name", each.device.note) for each in units.groups}
    notes += [f"{name}: {note}" for name, note in sorted(noted) if note]
    quick = int(np.count_nonzero(units.quicker))
    if quick:
        why = sorted({g.reach.unknown for g in units.groups if g.reach.limit in (Limit.CACHE, Limit.LESS_WORK)})
        reason = "; ".join(why) or "their operands were in the cache"
        notes.append(f"{quick:,} of {len(units):,} calls took less than their floor: {reason}")
    return notes


def _known(units: WorkUnits, options: ViewOptions) -> ReportTable:
    """Return the device time by what is known of its work, the known part first."""
    ns = units.host.work_ns
    count = len(units.reasons) + 1
    place = units.reason + 1
    totals = np.bincount(place, ns, count).astype(np.int64).tolist()
    calls = np.bincount(place, minlength=count).tolist()
    labels = [_KNOWN, *units.reasons]
    order = [0, *sorted((i for i in range(1, count) if calls[i]), key=lambda i: (-totals[i], labels[i]))]
    whole = sum(totals)
    columns = [
        Column(_NUMBER, "", Unit.ID, list(range(len(order)))),
        _SHOWN["work"].column([labels[i] for i in order]),
        _SHOWN["total"].column([totals[i] for i in order]),
        _SHOWN["share"].column([totals[i] / whole if whole else None for i in order]),
        _SHOWN["events"].column([calls[i] for i in order], 1),
    ]
    table = tabulate.finish("known", "Device time by what is known of its work", columns, options, own_order=_NUMBER)
    return replace(table, columns=tuple(column for column in table.columns if column.name != _NUMBER))


def _without_floor(units: WorkUnits, options: ViewOptions) -> list[ReportTable]:
    """Return the known work that has no floor, by reason: a peak, or the precision that ran, is not known."""
    totals: dict[str, list[int]] = {}
    for group in units.groups:
        # What moves and computes nothing needs no time.
        if group.work.is_known and not group.over_link and group.reach.floor_ns is None:
            one = totals.setdefault(group.reach.unknown, [0, 0])
            one[0] += group.ns
            one[1] += group.calls
    if not totals:
        return []
    order = sorted(totals, key=lambda reason: (-totals[reason][0], reason))
    columns = [
        _SHOWN["total"].column([totals[reason][0] for reason in order]),
        _SHOWN["calls"].column([totals[reason][1] for reason in order], 1),
        _SHOWN["why"].column([*order]),
    ]
    return [tabulate.finish("without_floor", "Known work without a floor", columns, options)]


def _devices(index: TraceIndex, units: WorkUnits, options: ViewOptions) -> ReportTable:
    """Return the devices with the floor of their known work, the time by limit, and their peaks."""
    source, device = index.ints("source"), np.where(index.has("device"), index.ints("device"), -1)
    tree = units.host
    pairs, of_work = np.unique(np.column_stack((source[tree.work], device[tree.work])), axis=0, return_inverse=True)
    of_work = of_work.reshape(-1)
    busy = np.bincount(of_work, tree.work_ns, len(pairs))
    # Each unit is on the device of its longest kernel.
    number = {tuple(pair): place for place, pair in enumerate(pairs.tolist())}
    of_unit = np.array(
        [number[s, d] for s, d in zip(source[units.main].tolist(), device[units.main].tolist(), strict=True)], np.int64
    )
    rated = [device_peaks.device_of(index, s, d if d >= 0 else None) for s, d in pairs.tolist()]
    labels: list[Cell] = [
        lanes.device_title(d if d >= 0 else None, index.run.devices.get((s, d), "") or on.name)
        for (s, d), on in zip(pairs.tolist(), rated, strict=True)
    ]
    sums = sums_of(units, np.arange(len(units)), of_unit, list(range(len(pairs))))
    known = np.bincount(of_work[units.reason < 0], tree.work_ns[units.reason < 0], len(pairs))
    columns = [
        specs.DEVICE[0].column(labels),
        _SHOWN["total"].column(busy.astype(np.int64).tolist()),
        KNOWN.column(_shares(known, busy), 5),
        *work_columns(sums, sums.names, priorities=_PRIORITIES),
        *_limit_columns(units, of_unit, len(pairs)),
        *_peak_columns(rated),
    ]
    return tabulate.finish("devices", "Devices", columns, options)


def _limit_columns(units: WorkUnits, code: I64, count: int) -> list[Column]:
    known = units.known
    out = []
    for key, which, _, _ in _TIMES:
        mine = known & (units.limit == LIMITS.index(which))
        totals = np.bincount(code[mine], units.ns[mine], count).astype(np.int64).tolist()
        if any(totals):
            out.append(_SHOWN[key].column(totals, 5))
    return out


def _peak_columns(rated: Sequence[RatedDevice]) -> list[Column]:
    """Return the peaks that count, with their source."""
    peaks = [each.peaks for each in rated]

    def rate(name: str) -> list[Cell]:
        return [each.rates.get(name) if each else None for each in peaks]

    return [
        _SHOWN["peak"].column(rate("bf16"), 6),
        _SHOWN["bandwidth"].column([each.memory_gbps * 1e9 if each else None for each in peaks], 6),
        _SHOWN["source"].column([f"{each.confidence}: {each.source}" if each else None for each in peaks], 9),
    ]


def _phases(index: TraceIndex, units: WorkUnits, options: ViewOptions) -> list[ReportTable]:
    """Return all device time by phase of the training step, with the known work of each; none without phases."""
    tree = units.host
    of_work = phase_of_work(index, tree)
    if of_work is None:
        return []
    # A call is of the phase of its longest kernel.
    event = np.full(index.events.num_rows, -1, np.int64)
    event[tree.work] = np.arange(tree.work.size)
    of_unit = of_work[event[units.main]]
    used = sets.unique(of_work).tolist()
    names: list[Cell] = [PHASES[code] for code in used]
    place = np.full(len(PHASES), -1, np.int64)
    place[used] = np.arange(len(used))
    sums = sums_of(units, np.arange(len(units)), place[of_unit], names)
    busy = np.bincount(place[of_work], tree.work_ns, len(used))
    known = np.bincount(place[of_work], np.where(units.reason < 0, tree.work_ns, 0), len(used))
    whole = float(busy.sum())
    columns = [
        Column(_NUMBER, "", Unit.ID, list(range(len(used)))),
        _SHOWN["phase"].column(names),
        _SHOWN["total"].column(busy.astype(np.int64).tolist()),
        _SHOWN["share"].column([each / whole if whole else None for each in busy.tolist()]),
        KNOWN.column(_shares(known, busy)),
        *work_columns(sums, names),
    ]
    table = tabulate.finish("phases", "Phases of the step", columns, options, own_order=_NUMBER)
    return [replace(table, columns=tuple(column for column in table.columns if column.name != _NUMBER))]


def _families(units: WorkUnits, options: ViewOptions) -> ReportTable:
    """Return the known work by family of operators."""
    names = [name for name in FAMILIES if any(each.work.family == name for each in units.groups)]
    code = np.array([names.index(each.work.family) for each in units.groups], np.int64)[units.group]
    every = np.arange(len(units))
    sums = sums_of(units, every, code, list(names))
    totals = np.bincount(code, units.ns, len(names)).astype(np.int64).tolist()
    columns = [
        _SHOWN["family"].column(list(names)),
        _SHOWN["calls"].column(np.bincount(code, minlength=len(names)).tolist(), 1),
        _SHOWN["total"].column(totals),
        *work_columns(sums, names, priorities=_PRIORITIES),
    ]
    return tabulate.finish("families", "Families of operators", columns, options)


def _steps(index: TraceIndex, units: WorkUnits, options: ViewOptions) -> list[ReportTable]:
    """Return MFU and HFU of the steps of each owner; without steps, from its first to its last device work."""
    owners = _owners.find(index)
    extents = _extents.step_extents(index, owners)
    host, steps = extents.host, extents.steps
    ideal, counted = _ideal(units), _counted(units)
    again = recomputed(index, units.host, units.place)
    unit_owner = owners.codes[units.launched]
    begun = index.starts[units.launched]
    tree = units.host
    work_owner = owners.codes[tree.work]
    launched = np.where(tree.launch >= 0, index.starts[np.maximum(tree.launch, 0)], index.starts[tree.work])
    every: dict[str, list[Cell]] = {key: [] for key in ("owner", "step", "step_time", "mfu", "hfu", "known")}
    rows: dict[str, list[Cell]] = {key: [] for key in ("owner", "steps", "step_time", "mfu", "mfu_min", "hfu", "known")}
    for owner in sets.unique(unit_owner).tolist():
        mine, own_work = unit_owner == owner, work_owner == owner
        devices = len(sets.unique(index.ints("device")[tree.work[own_work]]))
        at = np.flatnonzero(host.owner == owner)
        if at.size:
            # Work is of the step that was open when it was launched.
            of_unit = _step_of(begun[mine], host.starts[at], host.durations[at])
            of_work = _step_of(launched[own_work], host.starts[at], host.durations[at])
            taken, count = steps.durations[at].astype(np.float64), at.size
        else:
            of_unit, of_work = np.zeros(int(mine.sum()), np.int64), np.zeros(int(own_work.sum()), np.int64)
            starts = index.starts[tree.work[own_work]]
            span = int((starts + tree.work_ns[own_work]).max() - starts.min())
            taken, count = np.array([span], np.float64), 1
        once = _sums(of_unit, np.where(again[mine], 0.0, ideal[mine]), count)
        whole = _sums(of_unit, ideal[mine], count)
        known = _sums(of_work, np.where(counted[own_work], tree.work_ns[own_work], 0), count)
        busy = _sums(of_work, tree.work_ns[own_work], count)
        good = taken > 0
        if not good.any() or not whole.any():
            continue
        mfu, hfu = once[good] / taken[good] / devices, whole[good] / taken[good] / devices
        values: Mapping[str, Cell] = {
            "owner": owners.labels[owner],
            "steps": int(at.size) or None,
            "step_time": int(np.median(taken[good])),
            "mfu": float(np.median(mfu)),
            "mfu_min": float(mfu.min()),
            "hfu": float(np.median(hfu)),
            "known": float(known.sum() / busy.sum()) if busy.sum() else None,
        }
        for key, value in values.items():
            rows[key].append(value)
        if at.size > 1:
            every["owner"] += [owners.labels[owner]] * int(good.sum())
            every["step"] += _numbers(index, host.rows[at][good])
            every["step_time"] += taken[good].astype(np.int64).tolist()
            every["mfu"] += mfu.tolist()
            every["hfu"] += hfu.tolist()
            every["known"] += _shares(known[good], busy[good])
    if not rows["owner"]:
        return []
    columns = [
        *([specs.OWNER[0].column(rows["owner"])] if len(owners) > 1 else []),
        _SHOWN["mfu"].column(rows["mfu"]),
        _SHOWN["mfu_min"].column(rows["mfu_min"], 4),
        _SHOWN["hfu"].column(rows["hfu"], 1),
        KNOWN.column(rows["known"]),
        _SHOWN["steps"].column(rows["steps"], 2),
        _SHOWN["step_time"].column(rows["step_time"], 2),
    ]
    tables = [tabulate.finish("steps", "Model FLOPs of the steps", columns, options, own_order="")]
    if every["step"]:
        columns = [
            *([specs.OWNER[0].column(every["owner"])] if len(owners) > 1 else []),
            _SHOWN["step"].column(every["step"]),
            _SHOWN["step_time"].column(every["step_time"]),
            _SHOWN["mfu"].column(every["mfu"]),
            _SHOWN["hfu"].column(every["hfu"], 1),
            KNOWN.column(every["known"]),
        ]
        tables.append(tabulate.finish("each_step", "Model FLOPs of each step", columns, options, own_order="step"))
    return tables


def _numbers(index: TraceIndex, rows: I64) -> list[Cell]:
    """Return the number of each step as the file has it, else its place among the steps."""
    known = index.has("step")[rows]
    numbers: list[Cell] = index.ints("step")[rows].tolist() if known.all() else list(range(rows.size))
    return numbers


def _ideal(units: WorkUnits) -> F64:
    """Return the time of the FLOPs of each unit at the peak of its datatype, 0 where it is unknown."""
    each = np.array([(g.reach.compute_ns or 0.0) / g.calls for g in units.groups], np.float64)
    return each[units.group]


def _counted(units: WorkUnits) -> Mask:
    """Return for each device event whether its FLOPs are known and count: they need the peak of what they ran in."""
    lacking = np.array([g.work.family in DEFINED and g.reach.compute_ns is None for g in units.groups], np.bool_)
    of_unit = np.append(lacking[units.group], False)
    found: Mask = (units.reason < 0) & ~of_unit[units.of_work]
    return found


def _step_of(times: I64, starts: I64, durations: I64) -> I64:
    """Return the place of the step that each time is in, -1 for none. starts: in order."""
    at = np.searchsorted(starts, times, "right") - 1
    inside = (at >= 0) & (times < (starts + durations)[np.maximum(at, 0)])
    return np.where(inside, at, -1)


def _sums(code: I64, values: F64 | I64, count: int) -> F64:
    known = code >= 0
    return np.bincount(code[known], values[known], count).astype(np.float64)


def _shares(parts: F64 | I64, wholes: F64 | I64) -> list[Cell]:
    return [part / whole if whole else None for part, whole in zip(parts.tolist(), wholes.tolist(), strict=True)]


_OWN = (
    ViewColumn("work", "Work", Unit.TEXT, "Known, or the reason why the work of these device events is unknown."),
    ViewColumn("why", "Reason", Unit.TEXT, "The reason why known work has no floor."),
    ViewColumn("share", "Share", Unit.RATIO, "The share of all device time."),
    ViewColumn("phase", "Phase", Unit.TEXT, "The phase of the training step in which the work was launched."),
    ViewColumn("events", "Events", Unit.COUNT, "The number of device events."),
    ViewColumn("total", "Device time", Unit.NS, "The sum of the durations of device events."),
    ViewColumn("family", "Family", Unit.TEXT, "The family of the operators."),
    ViewColumn("calls", "Calls", Unit.COUNT, "The number of operator calls with this work."),
    *(ViewColumn(key, title, Unit.NS, f"The time of known work {words}.") for key, _, title, words in _TIMES),
    ViewColumn("peak", "Peak bf16", Unit.NUMBER, "The dense peak of bf16, in 10^12 operations a second."),
    ViewColumn("bandwidth", "Bandwidth", Unit.BYTES_PER_S, "The peak of the memory."),
    ViewColumn("source", "Source of peaks", Unit.TEXT, "The confidence in the peaks, and where they are published."),
    ViewColumn(
        "mfu", "MFU", Unit.RATIO, "Model FLOPs at their peak, over the time: of the step, or the median. A lower bound."
    ),
    ViewColumn("mfu_min", "MFU min", Unit.RATIO, "The smallest of the steps."),
    ViewColumn("hfu", "HFU", Unit.RATIO, "The same with what is computed again for the backward pass."),
    ViewColumn("steps", "Steps", Unit.COUNT, "The number of steps; none: the time from the first to the last work."),
    ViewColumn("step", "Step", Unit.ID, "The number of the step."),
    ViewColumn("step_time", "Step time", Unit.NS, "The duration of the step, or the median of the steps."),
)
_SHOWN = specs.by_key(_OWN)

VIEW = View(
    name="efficiency",
    title=_TITLE,
    columns=_COLUMNS,
    kinds=KINDS | DEVICE_WORK,
    compute=compute,
    shows=(
        *_OWN, *MEASURED_SHOWS, *STATED_SHOWS, specs.DEVICE[0], *specs.OWNER, KNOWN, FLOPS, BYTES, TFLOPS, GBPS,
        OF_PEAK, OF_BEST, BOUND, FLOOR, SAVING,
    ),
    args_of=ARGS_OF | _PHASE_ARGS | {Kind.KERNEL},
)  # fmt: skip

"""Profile: the data of one run that a comparison uses, small enough to hold many runs.

Device work is counted twice: over the whole run, and over its steps after warm-up (those of the view `steps`). Work
belongs to the step in which its launch call began, where the launch is known, else in which it began itself.

`charged` splits the time of the steps: each kernel or copy is charged with the time by which it extends the busy time
of its rank. Where several overlap, the first to begin has the time. With the idle time, the charges of a step add up to
the step exactly.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tracekit import pipeline
from tracekit.analysis.intervals import union_length_by
from tracekit.analysis.kernel_class import KernelClass, classify
from tracekit.analysis.links import link
from tracekit.analysis.nesting import innermost
from tracekit.errors import TracekitError
from tracekit.index.host_tree import call_paths
from tracekit.index.trace_index import index_of
from tracekit.model.arrow import F64, I64, Chunked, Column, Mask, codes, encoded, ints, nulls, take, valid
from tracekit.model.report import Cell, Section
from tracekit.model.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.model.trace import Ledger, Trace, text_codes
from tracekit.views.base import ViewOptions
from tracekit.views.steps.steps import StepTimes, step_times

# Device work of a trace: its names, steps and launches, and the step time that each event accounts for.


INT64_MAX = (1 << 63) - 1
SEQUENCE = 20_000
"""Number of kernels and copies whose order is compared, to find names that replaced others."""
NO_NAME = "(no name)"


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWork:
    """Device work (kernels, copies, memsets) in order of start; arrays of shape (m,), one entry an event.

    rows: rows of EVENTS. key: index into `keys`, which holds (kind, name). durations: ns. launch: the row of EVENTS
    that launched it, -1 for unknown. step: its step after warm-up, from 0; -1 outside of steps. step_owner: the rank or
    process that ran the step, from 0. charged: ns of step time after warm-up. streams: the stream, from 0.
    steady_rows: rows of EVENTS, of all kinds, that began in steps after warm-up. busy: ns, union by device.
    """

    rows: I64
    keys: tuple[tuple[str, str], ...]
    key: I64
    durations: I64
    launch: I64
    step: I64
    step_owner: I64
    charged: I64
    streams: I64
    steady_rows: I64
    busy: int

    def sequences(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """Return the names of device work in order, stream by stream: of the first steps, else of the first rows."""
        first = np.flatnonzero(self.step >= 0) if (self.step >= 0).any() else np.arange(self.rows.size)
        first = first[:SEQUENCE]
        return tuple(
            tuple(self.keys[k] for k in self.key[first[self.streams[first] == stream]].tolist())
            for stream in np.unique(self.streams[first]).tolist()
        )


def kind_mask(trace: Trace, kinds: Collection[str]) -> Mask:
    """Return shape (n,): true for each row of EVENTS of one of the kinds."""
    codes, names = text_codes(trace.events.column("kind"))
    mask: Mask = np.array([*(name in kinds for name in names), False], np.bool_)[codes]
    return mask


def find_work(trace: Trace, steps: StepTimes) -> DeviceWork:
    """Return the device work that has a duration."""
    events = trace.events
    timed = valid(events.column("dur_ns"))
    rows = np.flatnonzero(kind_mask(trace, DEVICE_WORK) & timed)
    starts = ints(events.column("ts_ns"))
    durations = np.maximum(ints(events.column("dur_ns")), 0)[rows]
    latest = int(starts[rows].max(initial=0)) + int(durations.max(initial=0))
    if latest >= INT64_MAX or float(durations.sum(dtype=np.float64)) >= INT64_MAX:
        raise TracekitError(
            "the durations add up to more than 292 years", hint="remove the impossible events from the trace"
        )
    keys, key = _keys(trace, rows)
    launch = _launches(trace, rows)
    begun = starts.copy()
    known = launch >= 0
    begun[rows[known]] = starts[launch[known]]
    step = np.full(events.num_rows, -1, np.int64)
    step_owner = np.zeros(events.num_rows, np.int64)
    charged = np.zeros(rows.size, np.int64)
    for number, owner in enumerate(np.unique(steps.owner).tolist()):
        mine = steps.owner == owner
        steady = mine & ~steps.warm_up
        # Rows belong to the step that the host was in; where it runs ahead, the time of a step is that of the device.
        first, length = steps.host_starts[steady], steps.host_durations[steady]
        of_owner = np.flatnonzero(steps.owner_of_row == owner)
        at = np.searchsorted(first, begun[of_owner], side="right") - 1
        inside = at >= 0
        inside[inside] = begun[of_owner[inside]] < (first + length)[at[inside]]
        step[of_owner] = np.where(inside, at, -1)
        step_owner[of_owner] = number
        own = np.flatnonzero(steps.owner_of_row[rows] == owner)
        charged[own] = _charges(
            starts[rows[own]], starts[rows[own]] + durations[own], steps.starts[steady], steps.durations[steady]
        )
    device = codes_of(trace, rows, ("source", "rank", "pid", "device"))
    union = union_length_by(device, int(device.max(initial=-1)) + 1, starts[rows], starts[rows] + durations)
    return DeviceWork(
        rows=rows,
        keys=keys,
        key=key,
        durations=durations,
        launch=launch,
        step=step[rows],
        step_owner=step_owner[rows],
        charged=charged,
        streams=codes_of(trace, rows, ("source", "rank", "pid", "device", "context", "stream")),
        steady_rows=np.flatnonzero(step >= 0),
        busy=sum(union.tolist()),
    )


def _keys(trace: Trace, rows: I64) -> tuple[tuple[tuple[str, str], ...], I64]:
    """Return the distinct (kind, name) by first use, and the index of each row into them."""
    codes, names = text_codes(trace.events.column("name"))
    kinds, kind_names = text_codes(trace.events.column("kind"))
    width = len(names) + 1
    found, first, code = np.unique(kinds[rows] * width + codes[rows] + 1, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    number = np.empty(order.size, np.int64)
    number[order] = np.arange(order.size)
    keys = tuple(
        (kind_names[int(f) // width], names[int(f) % width - 1] if int(f) % width else NO_NAME) for f in found[order]
    )
    return keys, number[code]


def _launches(trace: Trace, rows: I64) -> I64:
    """Return the row of the launch of each row of device work, joined by source, process and correlation."""
    events = trace.events
    calls = np.flatnonzero(kind_mask(trace, API_CALLS))
    if not calls.size or not rows.size:
        return np.full(rows.size, -1, np.int64)
    correlation, pid = events.column("correlation"), events.column("pid")
    known = valid(correlation)
    keys = np.column_stack(
        (
            ints(events.column("source")),
            ints(pid),
            valid(pid).astype(np.int64),
            ints(correlation),
        )
    )
    found = link(keys[calls], keys[rows], launch_known=known[calls], device_known=known[rows])
    return np.append(calls, -1)[found.launch]


def codes_of(trace: Trace, rows: I64, columns: tuple[str, ...]) -> I64:
    """Return shape (n,): a number from 0 for each row, equal for rows with equal values in the columns."""
    code, size = np.zeros(rows.size, np.int64), 1
    for column in columns:
        own = encoded(_one_chunk(take(trace.events.column(column), rows)))
        width = len(own.dictionary) + 1
        if width == 1 or (width == 2 and not own.null_count):
            continue
        if size * width >= 1 << 62:
            found, code = np.unique(code, return_inverse=True)
            size = found.size
        code = code * width + codes(own) + 1
        size *= width
    if size > max(4 * rows.size, 1 << 16):
        return np.unique(code, return_inverse=True)[1].astype(np.int64, copy=False)
    dense = np.cumsum(np.bincount(code, minlength=size) > 0) - 1
    return dense[code]


def _one_chunk(column: Chunked) -> Column:
    return pa.concat_arrays(column.chunks) if column.num_chunks else nulls(0, column.type)


def _charges(starts: I64, ends: I64, first: I64, length: I64) -> I64:
    """Return by how many ns each range extends the busy time inside the steps [first, first + length).

    starts ascend. Steps of several threads may overlap: time in two steps counts twice, as it does in their sum.
    """
    if not starts.size or not first.size:
        return np.zeros(starts.size, np.int64)
    before = np.concatenate((starts[:1], np.maximum.accumulate(ends)[:-1]))
    begin = np.maximum(starts, before)
    return _time_in_steps(np.maximum(ends, begin), first, length) - _time_in_steps(begin, first, length)


def _time_in_steps(at: I64, first: I64, length: I64) -> I64:
    """Return for each time the ns of all steps before it, added up."""
    origin = int(first.min())
    opened, closed = np.sort(first - origin), np.sort(first + length - origin)
    when = np.clip(at, origin, origin + int(closed[-1])) - origin

    def up_to(edges: I64) -> I64:
        count = np.searchsorted(edges, when, side="left")
        # count * when may exceed int64; sums of a difference do not: both wrap around alike.
        return count * when - np.concatenate((np.zeros(1, np.int64), np.cumsum(edges)))[count]

    return up_to(opened) - up_to(closed)


def host_kinds() -> frozenset[Kind]:
    """Return the kinds of ranges that can name the operator of a launch."""
    return frozenset(
        {Kind.OPERATOR, Kind.USER_RANGE, Kind.USER_RANGE_NATIVE, Kind.FORWARD, Kind.BACKWARD, Kind.OPTIMIZER}
    )


# Signatures: facts about a kernel that survive a change of its name.


_SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
_WORD = re.compile(r"[a-z]{3,}")
_COMMON_WORDS = frozenset(
    _WORD.findall(
        "void float double half int const kernel triton poi red per fused native cuda device std "
        "array char bool long unsigned ampere volta hopper turing"
    )
)


@dataclass(frozen=True, slots=True)
class Signature:
    """operator: the range that launched most calls. shape: grid and block of most calls. "" and () where unknown.

    bare: the name without template arguments, parameters and numbers. words: the distinctive words of the name.
    """

    operator: str
    shape: tuple[int | None, ...]
    kernel_class: KernelClass
    bare: str
    words: frozenset[str]


def bare_name(name: str) -> str:
    """Return the name without template arguments, parameters, numbers and a leading "void".

    >>> bare_name("void at::native::add_kernel<float, 4>(int, float*)"), bare_name("triton_poi_fused_add_12")
    ('at::native::add_kernel', 'triton_poi_fused_add')
    """
    text, depth = [], 0
    for char in name[:4096]:
        if char in "<(":
            depth += 1
        elif char in ">)":
            depth = max(0, depth - 1)
        elif not depth:
            text.append(char)
    bare = "".join(text).removeprefix("void ").strip()
    return re.sub(r"(?<![_\W])[_\W]*+\d+[xX]?\d*", "", bare).strip("_ ") or bare or name[:4096]


def _most(codes: I64, values: I64, count: int) -> I64:
    """Return the most frequent value of each of `count` codes, the lowest of equally frequent ones; -1 for no row."""
    values_of = np.full(count, -1, np.int64)
    if codes.size:
        width = int(values.max()) + 1
        pairs, times = np.unique(codes * width + values, return_counts=True)
        order = np.lexsort((-pairs, times))
        values_of[pairs[order] // width] = pairs[order] % width
    return values_of


def signatures(trace: Trace, work: DeviceWork) -> Mapping[tuple[str, str], Signature]:
    """Return the signature of each name of device work."""
    if not work.rows.size:
        return {}
    operators = _operators(trace, work)
    shapes = _shapes(trace, work)
    classes = classify([name for _, name in work.keys])
    found = {}
    for number, key in enumerate(work.keys):
        name = key[1] if key[1] != NO_NAME else ""
        words = frozenset(_WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name[:4096]).lower())) - _COMMON_WORDS
        found[key] = Signature(operators[number], shapes[number], classes[number], bare_name(name), words)
    return found


def _operators(trace: Trace, work: DeviceWork) -> list[str]:
    """Return for each name the innermost range around most of its launches, on their thread."""
    events = trace.events
    known = work.launch >= 0
    ranges = np.flatnonzero(
        kind_mask(trace, host_kinds()) & valid(events.column("dur_ns")) & valid(events.column("tid"))
    )
    out = [""] * len(work.keys)
    if not known.any() or not ranges.size:
        return out
    calls = work.launch[known]
    lane = codes_of(trace, np.concatenate((ranges, calls)), ("source", "pid", "tid"))
    starts = ints(events.column("ts_ns"))
    ends = starts + np.maximum(ints(events.column("dur_ns")), 0)
    at = innermost(lane[: ranges.size], starts[ranges], ends[ranges], lane[ranges.size :], starts[calls])
    codes, names = text_codes(events.column("name"))
    inside = at >= 0
    of_call = codes[ranges[at[inside]]]
    named = of_call >= 0
    best = _most(work.key[known][inside][named], of_call[named], len(work.keys))
    return [names[code] if code >= 0 else "" for code in best.tolist()]


def _shapes(trace: Trace, work: DeviceWork) -> list[tuple[int | None, ...]]:
    code = codes_of(trace, work.rows, _SHAPE)
    known = valid(trace.events.column("grid_x"))[work.rows]
    best = _most(work.key[known], code[known], len(work.keys))
    first = np.zeros(int(code.max(initial=-1)) + 1, np.int64)
    first[code[::-1]] = work.rows[::-1]
    rows = first[np.maximum(best, 0)]
    shapes = zip(*(take(trace.events.column(c), rows).to_pylist() for c in _SHAPE), strict=True)
    return [tuple(shape) if known else () for shape, known in zip(shapes, (best >= 0).tolist(), strict=True)]


Key = tuple[str, str]
"""Kind and name of device work."""

PATH = " › "
"""Stands between the names of a call path, from the outermost on."""

COLUMNS = pipeline.columns_of(["steps", "operator", "api", "memory"]) | {
    *("name", "kind", "source", "rank", "pid", "tid", "device", "context", "stream", "correlation"),
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
}
_HOST_OPTIONS = ViewOptions(op_detail=False)
_COMPARED_AS_EVENTS = DEVICE_WORK | API_CALLS | {Kind.SYNC}


@dataclass(frozen=True, slots=True)
class Amount:
    """Calls and total ns of one name. charged: ns of step time, only in steps after warm-up."""

    calls: int
    total: int
    charged: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ByStep:
    """Device work by name and step, sparse: shape (s,) each. key: index into Profile.keys. step: index of the step."""

    key: I64
    step: I64
    calls: F64
    ns: F64


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One run.

    steps: shape (p,), ns: the time of each step after warm-up. Where all ranks have equally many steps, each value is
    the mean over the ranks. busy: the same for device time; None without device work. step_count, step_total: number
    and ns of the steps after warm-up, all ranks together. warm_up: the number of warm-up steps.
    whole, steady: amounts by name, in the run and in steps after warm-up. by_step: steady by step. keys: all names.
    durations: (index into keys, ns) of all device work, only for a run without steps.
    whole_host, steady_host: calls and self time by ("operator", name) and by ("path", names joined by PATH), calls and
    total by ("api", name).
    whole_busy: ns, union by device; None without device work.
    totals: (section, name) -> amount, from tables that the profiler summed. peak: most bytes of memory held at once.
    """

    label: str
    formats: tuple[str, ...]
    ledgers: tuple[Ledger, ...]
    incomplete: tuple[str, ...]
    ranks: tuple[int, ...]
    owners: int
    steps: F64
    busy: F64 | None
    step_count: int
    step_total: int
    warm_up: int
    keys: tuple[Key, ...]
    whole: Mapping[Key, Amount]
    steady: Mapping[Key, Amount]
    by_step: ByStep
    durations: tuple[I64, I64]
    whole_host: Mapping[Key, Amount]
    steady_host: Mapping[Key, Amount]
    whole_busy: int | None
    totals: Mapping[tuple[str, str], Amount]
    from_totals: bool
    peak: int | None
    signatures: Mapping[Key, Signature]
    sequences: tuple[tuple[Key, ...], ...]


def profile_of(trace: Trace, label: str) -> Profile:
    """Return the profile of a run. The trace needs COLUMNS. Raises: TracekitError."""
    steps = step_times(index_of(trace))
    work = find_work(trace, steps)
    totals = _totals(trace)
    everything = np.ones(work.rows.size, np.bool_)
    whole = _amounts(work, everything, everything, np.zeros(work.rows.size, np.int64))
    from_totals = not whole and any(kind in DEVICE_WORK for _, kind, _ in totals)
    if from_totals:
        whole = _device_totals(totals)
    inside = work.step >= 0
    steady = _amounts(work, inside, inside | (work.charged > 0), work.charged)
    counts = [int(np.count_nonzero(~steps.warm_up[steps.owner == o])) for o in np.unique(steps.owner).tolist()]
    shared_steps = counts[0] if counts and len(set(counts)) == 1 else 0
    ranks: list[int | None] = trace.events.column("rank").unique().to_pylist() if trace.events.num_rows else []
    return Profile(
        label=label,
        formats=tuple(sorted({source.format for source in trace.run.sources})),
        ledgers=trace.ledgers,
        incomplete=trace.incomplete,
        ranks=tuple(sorted(rank for rank in ranks if rank is not None)),
        owners=len(counts),
        steps=_after_warm_up(steps, steps.durations.astype(np.float64), shared_steps),
        busy=None
        if None in steps.busy or not counts
        else _after_warm_up(steps, np.array(steps.busy, np.float64), shared_steps),
        step_count=sum(counts),
        step_total=int(steps.durations[~steps.warm_up].sum()),
        warm_up=int(np.count_nonzero(steps.warm_up)),
        keys=work.keys,
        whole=whole,
        steady=steady,
        by_step=_by_step(work, counts, shared=shared_steps > 0),
        durations=(work.key, work.durations) if not counts else (np.zeros(0, np.int64), np.zeros(0, np.int64)),
        whole_host=_host(trace),
        steady_host=_host(_only(trace, work.steady_rows)) if counts else {},
        whole_busy=work.busy if work.rows.size else None,
        totals=_by_section(totals),
        from_totals=from_totals,
        peak=_peak(trace),
        signatures=signatures(trace, work),
        sequences=work.sequences(),
    )


def _after_warm_up(steps: StepTimes, values: F64, shared_steps: int) -> F64:
    """Return the values of steps after warm-up. shared_steps: steps of each rank, for the mean over ranks."""
    kept = values[~steps.warm_up]
    return kept.reshape(-1, shared_steps).mean(axis=0) if shared_steps else kept


def _amounts(work: DeviceWork, counted: Mask, charging: Mask, charged: I64) -> dict[Key, Amount]:
    n = len(work.keys)
    calls = np.bincount(work.key[counted], minlength=n).tolist()
    total, step_time = np.zeros(n, np.int64), np.zeros(n, np.int64)
    np.add.at(total, work.key[counted], work.durations[counted])
    np.add.at(step_time, work.key[charging], charged[charging])
    rows = zip(work.keys, calls, total.tolist(), step_time.tolist(), strict=True)
    return {key: Amount(c, t, s) for key, c, t, s in rows if c or s}


def _by_step(work: DeviceWork, counts: Sequence[int], *, shared: bool) -> ByStep:
    """Return device work by step. shared: ranks have the same steps, and amounts are the mean over ranks."""
    at = np.flatnonzero(work.step >= 0)
    if not at.size:
        empty = np.zeros(0, np.int64)
        return ByStep(empty, empty, np.zeros(0), np.zeros(0))
    step = work.step[at]
    if not shared:
        step = step + np.concatenate(([0], np.cumsum(counts)))[work.step_owner[at]]
    width = int(step.max()) + 1
    found, codes = np.unique(work.key[at] * width + step, return_inverse=True)
    share = 1 / len(counts) if shared else 1.0
    calls = np.bincount(codes).astype(np.float64) * share
    ns: F64 = np.bincount(codes, weights=work.durations[at].astype(np.float64)).astype(np.float64) * share
    return ByStep(found // width, found % width, calls, ns)


def _only(trace: Trace, rows: I64) -> Trace:
    return Trace(take(trace.events, rows), trace.totals.slice(0, 0), trace.run)


def _host(trace: Trace) -> dict[Key, Amount]:
    """Return operators by self time, and API calls by total. (Totals would count nested operators twice.)"""
    found: dict[Key, Amount] = {}
    for kind, view, name, value in (
        ("operator", "operator", "operators", "self"),
        ("api", "api", "api_calls", "total"),
    ):
        table = _table(pipeline.view(trace, view, _HOST_OPTIONS), name)
        if table is None or value not in table:
            continue
        ranges = table.get("range", [None] * len(table["name"]))  # nvprof sums the calls by NVTX range as well
        whole = any(each is None for each in ranges)
        for label, calls, ns, nvtx_range in zip(table["name"], table["calls"], table[value], ranges, strict=True):
            if not isinstance(calls, int) or not isinstance(ns, int) or (whole and nvtx_range is not None):
                continue
            key = (kind, NO_NAME if label is None else str(label))
            old = found.get(key, Amount(0, 0))
            found[key] = Amount(old.calls + calls, old.total + ns)
    return found | _paths(trace)


def _paths(trace: Trace) -> dict[Key, Amount]:
    """Return calls and self time of each call path of the host."""
    paths = call_paths(index_of(trace))
    whole: list[str] = []
    for parent, name in zip(paths.parents.tolist(), paths.names, strict=True):
        own = name.replace(PATH.strip(), ">")
        whole.append(own if parent < 0 else whole[parent] + PATH + own)
    calls, self_ns = paths.calls.tolist(), paths.self_ns.tolist()
    return {("path", text): Amount(n, ns) for text, n, ns in zip(whole, calls, self_ns, strict=True)}


def _table(section: Section, name: str) -> dict[str, Sequence[Cell]] | None:
    for table in section.tables:
        if table.name == name:
            return {column.name: column.values for column in table.columns}
    return None


def _peak(trace: Trace) -> int | None:
    table = _table(pipeline.view(trace, "memory"), "memory")
    if table is None or "peak" not in table:
        return None
    kinds = table.get("type", ["allocated"] * len(table["peak"]))
    peaks = zip(table["peak"], kinds, strict=True)
    return max((peak for peak, kind in peaks if isinstance(peak, int) and kind == "allocated"), default=None)


_TotalRows = dict[tuple[str, str, str], Amount]


def _totals(trace: Trace) -> _TotalRows:
    """Return the rows of TOTALS with a time: (section, kind, name) -> amount."""
    found: _TotalRows = {}
    table = trace.totals
    if not table.num_rows:
        return found
    for row in table.select(["section", "kind", "name", "calls", "total_ns", "args"]).to_pylist():
        if row["total_ns"] is None or row["section"] == "header":
            continue
        section = " · ".join(filter(None, (row["section"], _nvtx_range(row["args"]))))
        key = (section, row["kind"] or "other", row["name"] or NO_NAME)
        old = found.get(key, Amount(0, 0))
        found[key] = Amount(old.calls + (row["calls"] or 0), old.total + row["total_ns"])
    return found


def _nvtx_range(args: str | None) -> str:
    """Return the NVTX range of a row of nvprof, "" for none. Rows of ranges repeat time of other rows."""
    if not args or '"range"' not in args.lower():
        return ""
    try:
        members = json.loads(args)
    except ValueError:
        return ""
    found = {str(k).lower(): v for k, v in members.items()} if isinstance(members, dict) else {}
    return " / ".join(str(found[part]) for part in ("domain", "thread", "range") if found.get(part))


def _device_totals(totals: _TotalRows) -> dict[Key, Amount]:
    """Return device work by name. Rows of NVTX ranges count only where no row is of the whole run."""
    rows = {key: amount for key, amount in totals.items() if key[1] in DEVICE_WORK}
    whole = {key: amount for key, amount in rows.items() if " · " not in key[0]}
    found: dict[Key, Amount] = {}
    for (_, kind, name), amount in (whole or rows).items():
        old = found.get((kind, name), Amount(0, 0))
        found[kind, name] = Amount(old.calls + amount.calls, old.total + amount.total)
    return found


def _by_section(totals: _TotalRows) -> dict[tuple[str, str], Amount]:
    """Return the totals to compare table by table: all but device work and API calls, which are compared as events."""
    found: dict[tuple[str, str], Amount] = {}
    for (section, kind, name), amount in totals.items():
        if kind in _COMPARED_AS_EVENTS:
            continue
        key = (section or str(Kind(kind)), name)
        old = found.get(key, Amount(0, 0))
        found[key] = Amount(old.calls + amount.calls, old.total + amount.total)
    return found

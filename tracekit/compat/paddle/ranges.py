"""Paddle's Device, Overview and Distribution Summary: unions of ranges.

Device: the kernels of each device, over its streams, to T; the two figures of the processors are the recorder's own.
Overview: for each type of event the union over all threads, but for Dataloader, Forward, Backward and Optimization the
sum of the Model Summary, and for Communication the ranges of the Distribution Summary, each (start, end) counted once.
Device work that no host event holds counts in none of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracekit.analysis.intervals import Ranges, intersection, length, merge, union, union_length, union_length_by
from tracekit.compat.paddle import tree
from tracekit.compat.paddle.items import PHASES, group, phase_items
from tracekit.compat.paddle.tree import CALL, TREE_COLUMNS, TYPES, Forest, forest
from tracekit.index.grouping import kind_mask
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.model import arrow
from tracekit.model.arrow import Mask
from tracekit.model.report import Cell, Column, ReportTable, Section
from tracekit.model.schema import Kind
from tracekit.model.units import Unit
from tracekit.views.base import ViewOptions
from tracekit.views.tabulate import require

__all__ = ["DEVICE_COLUMNS", "OVERVIEW_COLUMNS", "device", "distributed", "overview"]

DEVICE_COLUMNS = TREE_COLUMNS | {"value"}
OVERVIEW_COLUMNS = TREE_COLUMNS | {"args"}
_CPU = (("CPU(Process)", "Process Cpu Utilization"), ("CPU(System)", "System Cpu Utilization"))
_COMMUNICATION = ("allreduce", "broadcast", "rpc")
"""What makes an operator a communication, in its name."""
_COLLECTIVE = ("nccl", "xccl")
"""What makes a kernel one."""
NO_STEPS = "no time in ProfileStep ranges: ratios to it are unknown, where Paddle stops or divides by zero"


def device(index: TraceIndex, options: ViewOptions) -> Section:  # noqa: ARG001 - as all views
    """Return the Device Summary; the table `steps` holds T."""
    require(index, "device", DEVICE_COLUMNS)
    trees = forest(index)
    shares = _processors(trees)
    names: list[Cell] = [name for name, _ in _CPU]
    cells: list[Cell] = [shares.get(key) for _, key in _CPU]
    total = trees.step_ns
    notes = [*trees.notes, *([] if total else [NO_STEPS])]
    if None in cells:
        notes.append("how busy the processors were is not in the file: a recorder measures it")
    for number, spent in _kernel_time(trees):
        names.append("GPU" if number is None else f"GPU{number}")
        cells.append(spent / total if total else None)
    columns = (Column("name", "Device", Unit.TEXT, names), Column("utilization", "Utilization", Unit.RATIO, cells))
    steps = ReportTable("steps", "Time in ProfileStep", (Column("total", "Total", Unit.NS, [total]),))
    return Section("device", "Device Summary", (ReportTable("devices", "Devices", columns), steps), notes=tuple(notes))


def _processors(trees: Forest) -> dict[str, float]:
    """Return the recorder's figures: of Paddle's extra information, else the mean of the counters that ours writes."""
    found: dict[str, float] = {}
    for facts in facts_by_source(trees.columns.index).values():
        for place in ("extra_info", "ExtraInfo"):
            known = facts.facts.get(place)
            for _, key in _CPU:
                share = _number(known.get(key)) if isinstance(known, dict) else None
                if share is not None:
                    found.setdefault(key, share)
    for _, key in _CPU:
        share = None if key in found else _counted(trees, key)
        if share is not None:
            found[key] = share
    return found


def _counted(trees: Forest, name: str) -> float | None:
    """Return the mean over time of a counter whose values tell of the time since the one before; None without any."""
    columns = trees.columns
    if name not in trees.names:
        return None
    events = columns.index.events
    value = events.column("value")
    is_counter = kind_mask(events, {Kind.COUNTER}) & value.is_valid().to_numpy()
    rows = np.flatnonzero(is_counter & (trees.name == trees.names.index(name)))
    rows = rows[np.lexsort((columns.start[rows], columns.source[rows]))]
    if not rows.size:
        return None
    source, at = columns.source[rows], columns.start[rows]
    numbers, which = np.unique(source, return_inverse=True)
    begins = np.array([columns.start[columns.source == number].min() for number in numbers.tolist()])[which]
    before = np.concatenate((begins[:1], np.where(source[1:] == source[:-1], at[:-1], begins[1:])))
    weight = (at - before).astype(np.float64)
    shares = arrow.floats(value, 0.0)[rows]
    mean = float(np.average(shares, weights=weight if weight.sum() > 0 else None))
    return mean if np.isfinite(mean) else None


def _number(text: object) -> float | None:
    try:
        value = float(text) if isinstance(text, (str, int, float)) else float("nan")
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _kernel_time(trees: Forest) -> list[tuple[int | None, int]]:
    """Return (ordinal, union of its kernels) of each device, as they are met."""
    work = trees.work.taken(trees.work.owner >= 0)
    source, ordinal = _places(trees, work.rows)
    devices = group(np.arange(work.rows.size), source, ordinal)
    kernel = trees.kind[work.rows] == TYPES.index("Kernel")
    rows = work.rows[kernel]
    start, end = trees.columns.start[rows], trees.columns.end[rows]
    spent = union_length_by(devices.codes[kernel], devices.count, start, end).tolist()
    numbers = ordinal[devices.first].tolist()
    return [(None if number < 0 else number, ns) for number, ns in zip(numbers, spent, strict=True)]


def _places(trees: Forest, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ordinal, known = trees.columns.numbers("device")
    return trees.columns.source[rows], np.where(known, ordinal, -1)[rows]


def overview(index: TraceIndex, options: ViewOptions) -> Section:  # noqa: ARG001 - as all views
    """Return the Overview Summary, of host events and of device work."""
    require(index, "overview", OVERVIEW_COLUMNS)
    trees = forest(index, launches=True)
    total = trees.step_ns
    talk = _Communication(trees)
    host = _host_types(trees)
    host.pop("Communication", None)
    if talk.host_calls:
        host["Communication"] = (talk.host_calls, length(talk.host))
    for name, item in phase_items(trees).items():
        if name in PHASES and name in host:
            host[name] = (item[0].calls, item[0].total)
    ranked = sorted(host.items(), key=lambda item: item[1][1], reverse=True)
    work = _work_types(trees)
    if talk.device_calls:
        work.append(("Communication", (talk.device_calls, length(talk.device))))
    notes = [*trees.notes, *([] if total else [NO_STEPS])]
    tables = [
        _types("host", "Host events", ranked, total, [int(i > 0) for i in range(len(ranked))]),
        _types("device", "Device work", work, total, [1] * len(work)),
    ]
    return Section("overview", "Overview Summary", tuple(tables), notes=tuple(notes))


def _types(
    name: str, title: str, rows: Iterable[tuple[str, tuple[int, int]]], total: int, levels: list[int]
) -> ReportTable:
    found = list(rows)
    return ReportTable(
        name,
        title,
        (
            Column("name", "Event Type", Unit.TEXT, [kind for kind, _ in found]),
            Column("level", "Level", Unit.COUNT, levels, 3),
            Column("calls", "Calls", Unit.COUNT, [calls for _, (calls, _) in found]),
            Column("time", "Time", Unit.NS, [ns for _, (_, ns) in found]),
            Column("ratio", "Ratio", Unit.RATIO, [ns / total if total else None for _, (_, ns) in found]),
        ),
    )


def _host_types(trees: Forest) -> dict[str, tuple[int, int]]:
    """Return (calls, union) of each type of host event and of runtime calls, in the order in which they are met."""
    hosts, calls = trees.hosts, trees.calls.taken(trees.calls.owner >= 0)
    kind = np.concatenate((hosts.kind, np.full(calls.rows.size, CALL)))
    # A node is met, then the calls on it.
    met = np.concatenate((hosts.seen * 2, hosts.seen[calls.owner] * 2 + 1))
    types = group(met, kind)
    count = np.bincount(types.codes, minlength=types.count).tolist()
    found = {}
    for row, n in zip(types.first.tolist(), count, strict=True):
        if kind[row] == CALL:
            covered = union_length(trees.columns.start[calls.rows], trees.columns.end[calls.rows])
        else:
            covered = hosts.covered(hosts.kind == kind[row])
        found[TYPES[kind[row]]] = (n, covered)
    return found


def _work_types(trees: Forest) -> list[tuple[str, tuple[int, int]]]:
    """Return (calls, union over all devices) of each type of device work: device by device, in the order of meeting."""
    work = trees.work.taken(trees.work.owner >= 0)
    devices = group(np.arange(work.rows.size), *_places(trees, work.rows))
    kind = trees.kind[work.rows]
    met = np.empty(work.rows.size, np.int64)
    met[np.argsort(devices.codes, kind="stable")] = np.arange(work.rows.size)
    types = group(met, kind)
    start, end = trees.columns.start[work.rows], trees.columns.end[work.rows]
    spent = union_length_by(types.codes, types.count, start, end).tolist()
    count = np.bincount(types.codes, minlength=types.count).tolist()
    return [(TYPES[kind[row]], (n, ns)) for row, n, ns in zip(types.first.tolist(), count, spent, strict=True)]


class _Communication:
    """The rows that Paddle counts as communication and as computation.

    host: Communication events and operators named so; device: kernels launched anywhere below these, and collective
    kernels elsewhere; computation: the other kernels that no such event launches itself. A kernel launched by a child
    of a communication is in both.
    """

    def __init__(self, trees: Forest) -> None:
        hosts, columns = trees.hosts, trees.columns
        talks = hosts.is_kind("Communication")
        talks |= hosts.is_kind("Operator") & _named(trees.names, _COMMUNICATION)[hosts.name]
        self.host_calls = _distinct(hosts.start[talks], hosts.end[talks])
        self.host: Ranges = merge(hosts.start[talks], hosts.end[talks])

        kernels = trees.work.taken((trees.work.owner >= 0) & trees.work_is("Kernel"))
        start, end = columns.start[kernels.rows], columns.end[kernels.rows]
        directly = talks[kernels.owner]
        within = directly | tree.rows_below(hosts.parent, hosts.depth, talks)[kernels.owner]
        collective = _named(trees.names, _COLLECTIVE)[trees.name[kernels.rows]]
        own = within | collective
        self.device_calls = _distinct(start[own], end[own])
        self.device: Ranges = merge(start[own], end[own])
        rest = ~directly & ~collective
        self.computation: Ranges = merge(start[rest], end[rest])


def _named(names: list[str], parts: tuple[str, ...]) -> Mask:
    return np.array([any(part in name.lower() for part in parts) for name in names] + [False], np.bool_)


def _distinct(start: np.ndarray, end: np.ndarray) -> int:
    order = np.lexsort((end, start))
    start, end = start[order], end[order]
    return int(np.count_nonzero((start[1:] != start[:-1]) | (end[1:] != end[:-1]))) + int(start.size > 0)


def distributed(index: TraceIndex, options: ViewOptions) -> Section:  # noqa: ARG001 - as all views
    """Return the Distribution Summary; no table where nothing is communication."""
    require(index, "distributed", TREE_COLUMNS)
    trees = forest(index)
    total = trees.step_ns
    talk = _Communication(trees)
    both = union(talk.host, talk.device)
    if not both[0].size:
        return Section(
            "distributed",
            "Distribution Summary",
            notes=(*trees.notes, "no Distribution Summary: it needs communication"),
        )
    overlap = intersection(both, talk.computation)
    times = [total, length(both), length(talk.computation), length(overlap)]
    names = ["ProfileStep", "Communication", "Computation", "Overlap"]
    columns = (
        Column("name", "Name", Unit.TEXT, names),
        Column("level", "Level", Unit.COUNT, [0, 1, 1, 1], 3),
        Column("total", "Total Time", Unit.NS, times),
        Column("ratio", "Ratio", Unit.RATIO, [ns / total if total else None for ns in times]),
    )
    notes = (*trees.notes, *([] if total else [NO_STEPS]))
    table = ReportTable("distribution", "Distribution Summary", columns)
    return Section("distributed", "Distribution Summary", (table,), notes=notes)

"""Profile: the data of one run that a comparison uses, small enough to hold many runs.

Device work is counted twice: over the whole run, and over its steps after warm-up (those of the view `steps`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tracekit import pipeline
from tracekit.comparison._amount import Amount, Key
from tracekit.comparison._device_work import NO_NAME, DeviceWork, find_work
from tracekit.comparison._signatures import Signature, signatures
from tracekit.comparison._totals import device_totals, rows_of_totals, totals_by_section
from tracekit.comparison._tree import TreeWork, tree_work
from tracekit.index.host_tree import call_paths
from tracekit.index.trace_index import index_of
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import F64, I64, Mask, take
from tracekit.model.cuts import where_cut
from tracekit.model.display import escape_controls, plural
from tracekit.model.report import Cell, Section
from tracekit.model.schema import DEVICE_WORK
from tracekit.model.trace import Ledger, Trace, all_ledgers
from tracekit.views.base import ViewOptions
from tracekit.views.steps.steps import StepTimes, step_times

PATH = " › "
"""Stands between the names of a call path, from the outermost on."""

COLUMNS = pipeline.columns_of(["steps", "operator", "api", "memory"]) | {
    *("name", "kind", "source", "rank", "pid", "tid", "device", "context", "stream", "correlation"),
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
}
_HOST_OPTIONS = ViewOptions(op_detail=False)


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
    cut: how and where an input of it ends too early, "" if none does.
    ahead: whether steps are measured on the device, since the host runs ahead. host_step_total: ns of the host ranges.
    whole, steady: amounts by name, in the run and in steps after warm-up. by_step: steady by step. keys: all names.
    durations: (index into keys, ns) of all device work, only for a run without steps.
    whole_host, steady_host: calls and self time by ("operator", name) and by ("path", names joined by PATH), calls and
    total by ("api", name).
    whole_busy: ns, union by device; None without device work.
    totals: (section, name) -> amount, from tables that the profiler summed. peak: most bytes of memory held at once.
    tree: device work by module, operator and shapes; None unless it was asked for.
    """

    label: str
    formats: tuple[str, ...]
    ledgers: tuple[Ledger, ...]
    incomplete: tuple[str, ...]
    cut: str
    ranks: tuple[int, ...]
    owners: int
    steps: F64
    busy: F64 | None
    step_count: int
    step_total: int
    warm_up: int
    ahead: bool
    host_step_total: int
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
    tree: TreeWork | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether the inputs have neither events nor totals."""
        return all(ledger.is_empty for ledger in self.ledgers)

    def __repr__(self) -> str:
        steps = f"{plural(self.step_count, 'step')} after warm-up"
        return f"profile of {escape_controls(self.label)}: {steps}, {plural(len(self.whole), 'name')} of device work"


def profile_of(trace: Trace, label: str, *, tree: bool = False) -> Profile:
    """Return the profile of a run. The trace needs COLUMNS. tree: with `Profile.tree`. Raises: TracekitError."""
    steps = step_times(index_of(trace))
    work = find_work(trace, steps)
    totals = rows_of_totals(trace)
    everything = np.ones(work.rows.size, np.bool_)
    whole = _amounts(work, everything, everything, np.zeros(work.rows.size, np.int64))
    from_totals = not whole and any(kind in DEVICE_WORK for _, kind, _ in totals)
    if from_totals:
        whole = device_totals(totals)
    inside = work.step >= 0
    steady = _amounts(work, inside, inside | (work.charged > 0), work.charged)
    counts = [int(np.count_nonzero(~steps.warm_up[steps.owner == o])) for o in sets.unique(steps.owner).tolist()]
    shared_steps = counts[0] if counts and len(set(counts)) == 1 else 0
    ranks: list[int | None] = trace.events.column("rank").unique().to_pylist() if trace.events.num_rows else []
    return Profile(
        label=label,
        formats=tuple(sorted({source.format for source in trace.run.sources})),
        ledgers=trace.ledgers,
        incomplete=trace.incomplete,
        cut=where_cut(all_ledgers(trace.ledgers, trace.run)),
        ranks=tuple(sorted(rank for rank in ranks if rank is not None)),
        owners=len(counts),
        steps=_after_warm_up(steps, steps.durations.astype(np.float64), shared_steps),
        busy=None
        if None in steps.busy or not counts
        else _after_warm_up(steps, np.array(steps.busy, np.float64), shared_steps),
        step_count=sum(counts),
        step_total=int(steps.durations[~steps.warm_up].sum()),
        warm_up=int(np.count_nonzero(steps.warm_up)),
        ahead=bool(steps.ahead.any()),
        host_step_total=int(steps.host_durations[~steps.warm_up].sum()),
        keys=work.keys,
        whole=whole,
        steady=steady,
        by_step=_by_step(work, counts, shared=shared_steps > 0),
        durations=(work.key, work.durations) if not counts else (np.zeros(0, np.int64), np.zeros(0, np.int64)),
        whole_host=_host(trace),
        steady_host=_host(_only(trace, work.steady_rows)) if counts else {},
        whole_busy=work.busy if work.rows.size else None,
        totals=totals_by_section(totals),
        from_totals=from_totals,
        peak=_peak(trace),
        signatures=signatures(trace, work),
        sequences=work.sequences(),
        tree=tree_work(trace, work) if tree else None,
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

"""Profile: what a comparison needs of one run, small enough to hold many of them.

Device work is counted twice: over the whole run, and over its steps after warm-up (those of the view `steps`). Work
belongs to the step in which its launch call began, where the launch is known, else in which it began itself.

`charged` splits the time of the steps: each piece of device work is charged with the time by which it extended the
time that its rank was busy, so of pieces that overlap the one that began first has the time; with the idle time the
charges of a step add up to the step exactly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit import pipeline
from tracekit.compare._signature import Signature, signatures
from tracekit.compare._work import NO_NAME, DeviceWork, find_work
from tracekit.report import Section
from tracekit.schema import API_CALLS, DEVICE_WORK, Kind
from tracekit.trace import Ledger, Trace
from tracekit.views.base import ViewOptions
from tracekit.views.steps.steps import StepTimes, step_times

F64 = npt.NDArray[np.float64]
Key = tuple[str, str]
"""Kind and name of device work."""

COLUMNS = pipeline.columns_of(["steps", "operator", "api", "memory"]) | {
    "name",
    "kind",
    "source",
    "rank",
    "pid",
    "tid",
    "device",
    "context",
    "stream",
    "correlation",
    "grid_x",
    "grid_y",
    "grid_z",
    "block_x",
    "block_y",
    "block_z",
}
_HOST = ViewOptions(op_detail=False)
_ELSEWHERE = DEVICE_WORK | API_CALLS | {Kind.SYNC}


@dataclass(frozen=True, slots=True)
class Amount:
    """calls and total (ns): of one name. charged: ns of step time, in steps after warm-up only."""

    calls: int
    total: int
    charged: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ByStep:
    """Device work by name and step, sparse: shape (s,) each. key: place in Profile.keys; place: of the step."""

    key: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]
    calls: F64
    ns: F64


@dataclass(frozen=True, slots=True, eq=False)
class Profile:
    """One run.

    steps: shape (p,), ns: the time of each step after warm-up; where several ranks took equally many, the mean over
    the ranks at each place. busy: the same of device time; None without device work. step_count, step_total: steps
    after warm-up of all ranks together, and their ns. warm_up: how many were left out.
    whole, steady: amounts by name, over the run and in steps after warm-up. by_step: of steady. keys: names by place.
    durations: of each piece of device work (place in keys, ns), of a run without steps.
    whole_host, steady_host: by ("operator", name) calls and self time, by ("api", name) calls and total.
    whole_busy: union by device, None for none.
    totals: (section, name) -> amount, of tables that the profiler had summed. peak: bytes of memory held at most.
    """

    label: str
    formats: tuple[str, ...]
    ledgers: tuple[Ledger, ...]
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
    durations: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    whole_host: Mapping[Key, Amount]
    steady_host: Mapping[Key, Amount]
    whole_busy: int | None
    totals: Mapping[tuple[str, str], Amount]
    from_totals: bool
    peak: int | None
    signatures: Mapping[Key, Signature]
    sequences: tuple[tuple[Key, ...], ...]


def profile_of(trace: Trace, label: str) -> Profile:
    """Return what a comparison needs. The trace must have been read with COLUMNS. Raises: TracekitError."""
    steps = step_times(trace)
    work = find_work(trace, steps)
    totals = _totals(trace)
    whole = _amounts(work, np.ones(work.rows.size, np.bool_), np.zeros(work.rows.size, np.int64))
    from_totals = not whole and any(kind in DEVICE_WORK for _, kind, _ in totals)
    if from_totals:
        whole = _device_totals(totals)
    inside = work.place >= 0
    steady = _amounts(work, inside | (work.charged > 0), work.charged, counted=inside)
    counts = [int(np.count_nonzero(~steps.warm_up[steps.owner == o])) for o in np.unique(steps.owner).tolist()]
    places = counts[0] if counts and len(set(counts)) == 1 else 0
    ranks = trace.events.column("rank").unique().to_pylist() if trace.events.num_rows else []
    return Profile(
        label=label,
        formats=tuple(sorted({source.format for source in trace.run.sources})),
        ledgers=trace.ledgers,
        ranks=tuple(sorted(rank for rank in ranks if rank is not None)),
        owners=len(counts),
        steps=_by_place(steps, steps.durations.astype(np.float64), places),
        busy=None if None in steps.busy or not counts else _by_place(steps, np.array(steps.busy, np.float64), places),
        step_count=sum(counts),
        step_total=int(steps.durations[~steps.warm_up].sum()),
        warm_up=int(np.count_nonzero(steps.warm_up)),
        keys=work.keys,
        whole=whole,
        steady=steady,
        by_step=_by_step(work, counts, shared=places > 0),
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


def _by_place(steps: StepTimes, values: F64, places: int) -> F64:
    """Return the values of steps after warm-up: by place, the mean over ranks; else in a row."""
    kept = values[~steps.warm_up]
    return kept.reshape(-1, places).mean(axis=0) if places else kept


def _amounts(work: DeviceWork, wanted: Any, charged: Any, counted: Any = None) -> dict[Key, Amount]:
    counted = wanted if counted is None else counted
    n = len(work.keys)
    calls = np.bincount(work.key[counted], minlength=n).tolist()
    total, extra = np.zeros(n, np.int64), np.zeros(n, np.int64)
    np.add.at(total, work.key[counted], work.durations[counted])
    np.add.at(extra, work.key[wanted], charged[wanted])
    rows = zip(work.keys, calls, total.tolist(), extra.tolist(), strict=True)
    return {key: Amount(c, t, x) for key, c, t, x in rows if c or x}


def _by_step(work: DeviceWork, counts: Sequence[int], *, shared: bool) -> ByStep:
    """shared: places are the same steps of all ranks, and amounts the mean over them."""
    at = np.flatnonzero(work.place >= 0)
    if not at.size:
        empty = np.zeros(0, np.int64)
        return ByStep(empty, empty, np.zeros(0), np.zeros(0))
    place = work.place[at]
    if not shared:
        place = place + np.concatenate(([0], np.cumsum(counts)))[work.rank_of_step[at]]
    width = int(place.max()) + 1
    found, codes = np.unique(work.key[at] * width + place, return_inverse=True)
    share = 1 / len(counts) if shared else 1.0
    calls = np.bincount(codes).astype(np.float64) * share
    ns: F64 = np.bincount(codes, weights=work.durations[at].astype(np.float64)).astype(np.float64) * share
    return ByStep(found // width, found % width, calls, ns)


def _only(trace: Trace, rows: npt.NDArray[np.int64]) -> Trace:
    return Trace(trace.events.take(rows), trace.totals.slice(0, 0), trace.run)


def _host(trace: Trace) -> dict[Key, Amount]:
    """Return operators by self time (self times add up, totals count nested operators twice) and calls of the API."""
    found: dict[Key, Amount] = {}
    for kind, view, name, value in (
        ("operator", "operator", "operators", "self"),
        ("api", "api", "api_calls", "total"),
    ):
        table = _table(pipeline.view(trace, view, _HOST), name)
        if table is None or value not in table:
            continue
        ranges = table.get("range", [None] * len(table["name"]))  # nvprof sums calls up by NVTX range once more
        whole = any(r is None for r in ranges)
        for label, calls, ns, of_range in zip(table["name"], table["calls"], table[value], ranges, strict=True):
            if ns is None or calls is None or (whole and of_range is not None):
                continue
            key = (kind, NO_NAME if label is None else str(label))
            old = found.get(key, Amount(0, 0))
            found[key] = Amount(old.calls + int(calls), old.total + int(ns))
    return found


def _table(section: Section, name: str) -> dict[str, Sequence[Any]] | None:
    for table in section.tables:
        if table.name == name:
            return {column.name: column.values for column in table.columns}
    return None


def _peak(trace: Trace) -> int | None:
    table = _table(pipeline.view(trace, "memory"), "memory")
    if table is None or "peak" not in table:
        return None
    kinds = table.get("type", ["allocated"] * len(table["peak"]))
    found = [p for p, kind in zip(table["peak"], kinds, strict=True) if p is not None and kind == "allocated"]
    return max(found, default=None)


Total = dict[tuple[str, str, str], Amount]


def _totals(trace: Trace) -> Total:
    """Return rows of TOTALS that have a time: (section, kind, name) -> amount."""
    found: Total = {}
    table = trace.totals
    if not table.num_rows:
        return found
    for row in table.select(["section", "kind", "name", "calls", "total_ns", "args"]).to_pylist():
        if row["total_ns"] is None or row["section"] == "header":
            continue
        section = " · ".join(filter(None, (row["section"], _range(row["args"]))))
        key = (section, row["kind"] or "other", row["name"] or NO_NAME)
        old = found.get(key, Amount(0, 0))
        found[key] = Amount(old.calls + (row["calls"] or 0), old.total + row["total_ns"])
    return found


def _range(args: str | None) -> str:
    """Return the NVTX range that a row of nvprof is of: rows of ranges are part of others."""
    if not args or '"range"' not in args.lower():
        return ""
    try:
        members = json.loads(args)
    except ValueError:
        return ""
    found = {str(k).lower(): v for k, v in members.items()} if isinstance(members, dict) else {}
    return " / ".join(str(found[part]) for part in ("domain", "thread", "range") if found.get(part))


def _device_totals(totals: Total) -> dict[Key, Amount]:
    """Return device work by name; rows of NVTX ranges are left out where there are rows of the whole run."""
    rows = {key: amount for key, amount in totals.items() if key[1] in DEVICE_WORK}
    whole = {key: amount for key, amount in rows.items() if " · " not in key[0]}
    found: dict[Key, Amount] = {}
    for (_, kind, name), amount in (whole or rows).items():
        old = found.get((kind, name), Amount(0, 0))
        found[kind, name] = Amount(old.calls + amount.calls, old.total + amount.total)
    return found


def _by_section(totals: Total) -> dict[tuple[str, str], Amount]:
    """Return what is compared table by table: device work and calls of the API are compared by name as of events."""
    found: dict[tuple[str, str], Amount] = {}
    for (section, kind, name), amount in totals.items():
        if kind in _ELSEWHERE:
            continue
        key = (section or str(Kind(kind)), name)
        old = found.get(key, Amount(0, 0))
        found[key] = Amount(old.calls + amount.calls, old.total + amount.total)
    return found

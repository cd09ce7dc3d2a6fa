"""What the rules of the view `findings` share: owners, steps, graphs, device work, and the ceiling of a set of rows.

A ceiling is taken on the critical path (analysis/critical_path): the graph of the owner's window is evaluated again
with those pieces of work taking no time. Where a trace has no host rows there is no such graph; then it is the time in
which at least one of these pieces ran, which the gain cannot exceed either, and the finding says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tracekit.analysis.critical_path import Path, ceilings
from tracekit.analysis.enclosing import innermost
from tracekit.analysis.intervals import length, merge, union, union_length
from tracekit.arrays import I32, I64, Mask
from tracekit.index import devices as _devices
from tracekit.index import gaps as _gaps
from tracekit.index import launches
from tracekit.index import owners as _owners
from tracekit.index import steps as _steps
from tracekit.index.sources import synthetic_sources
from tracekit.index.trace_index import Picked, TraceIndex
from tracekit.report import Cell, Evidence, Finding, Section
from tracekit.schema import DEVICE_WORK
from tracekit.views.path import graph as _path_graph
from tracekit.views.path.graph import OwnGraph

OWNERS = 8
"""Ranks whose critical path is looked at."""
LEAST_WORK = 10
"""Pieces of device work, of fewer of which nothing is said where there are no host rows."""
EVENTS = 5
"""Events that a finding names."""


_NOT_ON_PATH = "no host calls are in the trace, so the ceiling is the time in which at least one of them ran"
_IF_THERE = frozenset({"owner", "rank", "pid"})


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that can be won. share: of the window. on_path: on the critical path, else by device time alone."""

    ns: int
    share: float
    on_path: bool


@dataclass(frozen=True, slots=True)
class Bare:
    """Time in which a device does one thing, and no kernel hides it. share: of the device's span."""

    device: _devices.Device
    ns: int
    share: float


@dataclass(frozen=True, slots=True)
class Found:
    """What one rule said. why_not: why it could not be tried at all, "" where it was."""

    findings: tuple[Finding, ...] = ()
    why_not: str = ""


@dataclass(frozen=True, eq=False)
class Facts:
    """All that the rules ask of one trace, each computed once. sections: other views' answers, made where asked for."""

    index: TraceIndex
    thresholds: Mapping[str, float]
    view: Callable[[str], Section]
    sections: dict[str, Section] = field(default_factory=dict)

    @cached_property
    def owners(self) -> _owners.Owners:
        return _owners.find(self.index)

    @cached_property
    def steps(self) -> _steps.Steps:
        return _steps.find(self.index, self.owners)

    @cached_property
    def graphs(self) -> dict[int, OwnGraph]:
        """The graph of each owner with host rows, of the first OWNERS; none where times cannot be true."""
        try:
            found = _path_graph.graphs(self.index, self.owners, most=OWNERS)
            return {each.owner: each for each in found if each.graph.span}
        except OverflowError:
            return {}

    @cached_property
    def paths(self) -> dict[int, Path]:
        return {owner: _path_graph.path_of(self.index, each) for owner, each in self.graphs.items()}

    @cached_property
    def work(self) -> Picked:
        """Device work with a duration and a known start."""
        picked = self.index.pick(DEVICE_WORK)
        made_up = synthetic_sources(self.index)
        if not made_up:
            return picked
        keep = ~np.isin(self.index.ints("source")[picked.rows], made_up)
        return Picked(
            self.index, picked.rows[keep], picked.starts[keep], picked.durations[keep], picked.untimed, picked.negative
        )

    @cached_property
    def devices(self) -> _devices.Devices:
        return _devices.find(self.index)

    @cached_property
    def launched(self) -> launches.Launched:
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
    def names(self) -> tuple[I32, list[str]]:
        return self.index.texts("name")

    def kinds(self, *kinds: str) -> Mask:
        return self.index.kind_mask(frozenset(kinds))

    def looked_at(self) -> Iterator[int]:
        """Give the owners that have a graph; where none has, those with device work worth a word. OWNERS at most."""
        pieces = np.bincount(self.owners.codes[self.work.rows], minlength=len(self.owners))
        alone = [] if self.graphs else np.flatnonzero(pieces >= LEAST_WORK).tolist()
        yield from sorted({*self.graphs, *alone})[:OWNERS]

    def window(self, owner: int) -> tuple[int, int]:
        """Return begin and end that shares of this owner are held against."""
        if owner in self.graphs:
            return self.graphs[owner].graph.begin, self.graphs[owner].graph.end
        mine = self.owners.codes[self.work.rows] == owner
        if not mine.any():
            return 0, 0
        return int(self.work.starts[mine].min()), int((self.work.starts + self.work.durations)[mine].max())

    def where(self, owner: int) -> str:
        """Return what the window is called: "the steps" or "the run"."""
        return "the steps" if owner in self.graphs and self.graphs[owner].steps else "the run"

    def bound(self, owner: int, rows: I64, *, most: int | None = None) -> Bound:
        """Return the most that is won where all of these rows of EVENTS take no time, and not more than `most`."""
        if owner in self.graphs:
            return self.bounds(owner, [self.nodes_of(owner, rows)], most=most)[0]
        low, high = self.window(owner)
        starts = np.clip(self.starts[rows], low, high)
        ns = union_length(starts, np.clip(self.starts[rows] + self.lengths[rows], low, high))
        return self._bound(owner, ns, most, on_path=False)

    def bounds(self, owner: int, masks: list[Mask], *, most: int | None = None) -> list[Bound]:
        """Return the same for several sets of nodes of the owner's graph."""
        graph = self.graphs[owner].graph
        found = ceilings(graph, masks, path=self.paths[owner]).tolist()
        return [self._bound(owner, ns, most, on_path=True) for ns in found]

    def without(self, owner: int, rows: I64) -> Bound:
        """Return the most that is won where these calls did not wait, and took no time.

        That is never more than what they took: a host that goes on so much earlier has all after it so much earlier.
        """
        each = self.graphs[owner]
        waits = np.flatnonzero(np.isin(each.waits, rows)).tolist()
        won = int(ceilings(each.graph, [self.nodes_of(owner, rows)], without=waits)[0])
        return self._bound(owner, won, int(self.lengths[rows].sum()))

    def _bound(self, owner: int, ns: int, most: int | None, *, on_path: bool = True) -> Bound:
        low, high = self.window(owner)
        ns = ns if most is None else min(ns, most)
        return Bound(ns, ns / (high - low) if high > low else 0.0, on_path)

    def nodes_of(self, owner: int, rows: I64) -> Mask:
        """Return the nodes of the owner's graph that are pieces of these rows."""
        flag = np.zeros(self.starts.size, np.bool_)
        flag[rows] = True
        found: Mask = flag[self.graphs[owner].rows]
        return found

    def inside(self, owner: int, ranges: I64) -> Mask:
        """Return the host nodes of the owner's graph that lie in these rows of EVENTS, on the same thread."""
        each = self.graphs[owner]
        host = each.graph.nodes.devices_from
        found = np.zeros(each.rows.size, np.bool_)
        if ranges.size and host:
            lanes = _gaps.keys_of(self.index, np.concatenate((ranges, each.rows[:host])), _gaps.THREAD)
            held = innermost(
                lanes[: ranges.size],
                self.starts[ranges],
                self.starts[ranges] + self.lengths[ranges],
                lanes[ranges.size :],
                each.graph.nodes.starts[:host],
            )
            found[:host] = held >= 0
        return found

    def calls_of(self, rows: I64) -> I64:
        """Return the calls that launched these rows of device work."""
        at = np.searchsorted(self.devices.rows, rows)
        known = at < self.devices.rows.size
        known[known] = self.devices.rows[at[known]] == rows[known]
        launch = self.launched.launch[at[known]]
        return np.unique(launch[launch >= 0])

    def within(self, owner: int, rows: I64) -> I64:
        """Return those of these rows of EVENTS that are the owner's and begin in its window."""
        low, high = self.window(owner)
        mine = (self.owners.codes[rows] == owner) & (self.starts[rows] >= low) & (self.starts[rows] < high)
        found: I64 = rows[mine]
        return found

    def ids(self, rows: I64) -> tuple[int, ...]:
        """Return the event ids of the first of these rows."""
        first = np.sort(rows)[:EVENTS]
        ids: list[int] = self.index.events.column("event_id").to_numpy()[first].tolist()
        return tuple(ids)

    def label(self, owner: int) -> str:
        return self.owners.labels[owner] if len(self.owners) > 1 else ""

    def devices_of(self, owner: int) -> list[_devices.Device]:
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
                most = Bare(device, ns, ns / (device.end - device.begin))
        return most

    def most_common(self, rows: I64, weights: I64) -> tuple[str, int]:
        """Return the name that these rows have most of by weight, and its weight; "" where there is none."""
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

    def cells(self, view: str, row: str, columns: tuple[str, ...], **match: Cell) -> list[Evidence]:
        """Return cells of the first row of a view in which all of `match` holds; a column that is not there is none.

        Keys of `_IF_THERE` are looked at only where the table has such a column.
        """
        if view not in self.sections:
            self.sections[view] = self.view(view)
        for table in self.sections[view].tables:
            have = {column.name: column.values for column in table.columns}
            wanted = {key: value for key, value in match.items() if key in have or key not in _IF_THERE}
            if not (set(wanted) <= set(have) and set(columns) <= set(have)):
                continue
            for i in range(len(table)):
                if all(have[key][i] == value for key, value in wanted.items()):
                    return [
                        Evidence(f"{view}.{row}.{name}", have[name][i], table.column(name).unit) for name in columns
                    ]
        return []


def row_of(device: _devices.Device) -> dict[str, Cell]:
    """Return what the rows of a device have in the columns that name it."""
    return {"name": device.name, "rank": device.rank, "pid": device.pid}


def sure(bound: Bound, confidence: str) -> str:
    """Return how sure a finding is, where its ceiling is taken on the critical path; else that is low."""
    return confidence if bound.on_path else "low"


def how(bound: Bound) -> str:
    """Return what the reason for the confidence ends with: how the ceiling was taken, where not on the path."""
    return "" if bound.on_path else f"; {_NOT_ON_PATH}"


def named(text: str, most: int = 60) -> str:
    """Return a name for a sentence: whole, or its two ends."""
    return text if len(text) <= most else f"{text[: most - 20]}...{text[-17:]}"


def percent(share: float) -> str:
    """Return a share for a sentence.

    >>> percent(0.49111)
    '49.11 %'
    """
    return f"{100 * share:.2f} %"


def span(ns: int) -> str:
    """Return a time for a sentence: four digits, since the exact one stands in the evidence.

    >>> span(144088000), span(999)
    ('144.1 ms', '999 ns')
    """
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if abs(ns) >= size:
            value = ns / size
            digits = max(0, 4 - len(str(int(abs(value)))))
            return f"{value:.{digits}f} {unit}"
    return f"{ns} ns"

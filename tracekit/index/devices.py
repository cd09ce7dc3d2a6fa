"""The devices of a trace, with their work in order and the span that their shares refer to.

A device is (input, rank, device), and the process too where a file holds several runs on clocks of their own. Its span
is that of its input or run: first start to last end of all rows, host rows included, as in the view `device`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tracekit.analysis.segments import narrow
from tracekit.index import grouping
from tracekit.index.grouping import Groups, Key, group_by, zeros
from tracekit.index.lanes import device_not_named, device_title, owner_labels
from tracekit.index.sources import (
    clock_groups,
    facts_by_source,
    several_clocks,
    source_label,
    source_labels,
    spans,
    synthetic_sources,
)
from tracekit.index.trace_index import TraceIndex, join, notes_on_rows
from tracekit.lazy_dataclass import dataclass
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.report import Cell, Column, integer_of
from tracekit.model.schema import DEVICE_WORK
from tracekit.model.units import Unit

__all__ = [
    "COLUMNS",
    "DeviceKey",
    "Devices",
    "IndexedDevice",
    "by_clock",
    "by_input",
    "find",
    "origins",
    "since_origin",
    "sources_of_several_runs",
    "without_rows",
]

# Groups of rows that share a clock. Times on different clocks cannot be compared.
#
# Inputs that all know the wall clock are put onto one clock when they are read. Otherwise each input starts at zero. So
# does each of several runs in one file (nvprof counts from the start of its process): the reader lists these runs in
# `facts["runs"]`.


@join
def sources_of_several_runs(index: TraceIndex) -> list[int]:
    """Return the inputs that hold several runs, each on its own clock."""
    if index.run.origin_ns is not None:
        return []
    runs = {number: facts.facts.get("runs") for number, facts in facts_by_source(index).items()}
    return sorted(number for number, found in runs.items() if isinstance(found, list) and len(found) > 1)


@join
def by_input(index: TraceIndex) -> Groups:
    """Return all rows of EVENTS in groups by input, and by process where an input holds several runs.

    labels: source, and pid: None also where the input has one run.
    """
    every = np.arange(index.events.num_rows)
    source, pid = index.key("source", every), index.key("pid", every)
    codes = np.zeros_like(pid.codes)
    if several := sources_of_several_runs(index):
        own = np.isin(index.ints("source"), several)
        codes[own] = pid.codes[own]
    return group_by(source, Key(codes, pid.labels))


@join
def by_clock(index: TraceIndex) -> Groups:
    """Return all rows of EVENTS in groups that share a clock; a single group where all do."""
    if not several_clocks(index) and not sources_of_several_runs(index):
        return Groups(zeros(index.events.num_rows), 1, ())
    groups = clock_groups(index)
    if len(set(groups.values())) == len(groups):
        return by_input(index)
    every = np.arange(index.events.num_rows)
    source, pid = index.key("source", every), index.key("pid", every)
    numbers = [0, *(groups.get(label, 0) + 1 if isinstance(label, int) else 0 for label in source.labels[1:])]
    clock = Key(np.array(numbers, np.int64)[source.codes], range(len(groups) + 1))
    codes = np.where(np.isin(index.ints("source"), sources_of_several_runs(index)), pid.codes, 0)
    return group_by(clock, Key(codes, pid.labels))


@join
def origins(index: TraceIndex) -> I64:
    """Return the time 0 of each clock in tables and pictures, shape (number of clocks,): the start of its first row."""
    clock = by_clock(index)
    return spans(clock.codes, clock.count, index.starts, index.starts)[0]


def since_origin(index: TraceIndex, rows: I64, times: I64) -> I64:
    """Return times on the clocks of these rows of EVENTS as ns after time 0; all of shape (n,)."""
    return times - origins(index)[by_clock(index).codes[rows]]


COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "source", "rank", "device", "pid"})

Mask = npt.NDArray[np.bool_]


DeviceKey = tuple[int, Cell, Cell, int]
"""A device: source, rank, number, and its place: the group of `by_input` that it belongs to."""


@dataclass(frozen=True, slots=True)
class IndexedDevice:
    """One device. index: positions of its work in `Devices.rows`, ascending by start. begin, end: its span, ns.

    place: the group of `Devices.places` (input, or run) that it belongs to. pid: of its run, else None.
    """

    source: int
    rank: Cell
    device: Cell
    pid: Cell
    place: int
    positions: I64
    begin: int
    end: int
    name: str
    label: str

    @property
    def key(self) -> DeviceKey:
        """Return the key that the device has alone."""
        return self.source, self.rank, self.device, self.place


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """rows: rows of EVENTS that are device work with a duration, in order; starts, ends: shape (n,), ns."""

    index: TraceIndex
    rows: I64
    starts: I64
    ends: I64
    places: grouping.Groups
    devices: tuple[IndexedDevice, ...]
    notes: tuple[str, ...]

    def identity(self, chosen: list[IndexedDevice]) -> list[Column]:
        """Return the columns that name the device of each row of a table; there is a row for each of `chosen`."""
        labels = source_labels(self.index)
        columns = [Column("name", "Device", Unit.TEXT, [d.name for d in chosen], 0, "place")]
        if len({d.source for d in self.devices}) > 1:
            texts = [source_label(labels, d.source) for d in chosen]
            columns.append(Column("source", "Source", Unit.TEXT, texts, 1, "place"))
        if len({d.rank for d in self.devices}) > 1:
            columns.append(Column("rank", "Rank", Unit.ID, [d.rank for d in chosen], 1, "place"))
        if len({d.pid for d in self.devices}) > 1:
            columns.append(Column("pid", "Pid", Unit.ID, [d.pid for d in chosen], 1, "place"))
        columns.append(Column("device", "Number", Unit.ID, [d.device for d in chosen], 8, "place"))
        return columns


@join
def find(index: TraceIndex) -> Devices:
    """Return the devices that worked, in order of input, rank, run, number; none where no work has a known start."""
    picked = index.pick(DEVICE_WORK)
    made_up = synthetic_sources(index)
    source = picked.key("source")
    known = np.ones(picked.rows.size, np.bool_)
    unknown: set[Cell] = set()
    if made_up:
        known = np.array([label not in made_up for label in source.labels], np.bool_)[source.codes]
        unknown = {source.labels[c] for c in sets.unique(source.codes).tolist()} & {*made_up}
    rows, starts, durations = picked.rows, picked.starts, picked.durations
    if not known.all():
        rows, starts, durations = rows[known], starts[known], durations[known]
    ends = starts + durations
    places = by_input(index)
    notes = _notes(index, picked.untimed, picked.negative, unknown)
    if not rows.size:
        return Devices(index, rows, starts, ends, places, (), tuple(notes))
    place = grouping.Key(places.codes[rows], range(places.count))
    groups = grouping.group_by(*(index.key(c, rows) for c in ("source", "rank", "device")), place)
    order = np.argsort(narrow(groups.codes), kind="stable")
    bounds = np.cumsum(np.bincount(groups.codes, minlength=groups.count))[:-1]
    keys = [(integer_of(s), r, d, integer_of(p)) for s, r, d, p in zip(*groups.labels, strict=True)]
    devices = _each(index, dict(zip(keys, np.split(order, bounds), strict=True)), places)
    return Devices(index, rows, starts, ends, places, devices, (*notes, *_notes_on_places(index, devices)))


def without_rows(index: TraceIndex, keys: Iterable[DeviceKey], untimed: int, negative: int) -> Devices:
    """Return the devices with these keys as `find` does, where their work was added up and its rows let go.

    index: of a trace with a row or two for each process. untimed, negative: work without a duration, and below zero.
    """
    made_up = synthetic_sources(index)
    none, places = np.zeros(0, np.int64), by_input(index)
    worked = list(keys)
    notes = _notes(index, untimed, negative, {source for source, *_ in worked} & set(made_up))
    devices = _each(index, {key: none for key in worked if key[0] not in made_up}, places)
    return Devices(index, none, none, none, places, devices, (*notes, *_notes_on_places(index, devices)))


def _notes(index: TraceIndex, untimed: int, negative: int, unknown: Iterable[Cell]) -> list[str]:
    """Return the notes on rows that do not count. unknown: inputs with work whose files hold only durations."""
    labels = source_labels(index)
    notes = notes_on_rows("row of device work" if untimed != 1 else "row", untimed, negative)
    for number in sorted(map(integer_of, unknown)):
        notes.append(f"{source_label(labels, number)}: its file has only durations, so when work ran is unknown")
    return notes


def _notes_on_places(index: TraceIndex, devices: Sequence[IndexedDevice]) -> list[str]:
    notes = []
    if devices and sources_of_several_runs(index):
        notes.append("each run of a file has a clock of its own: a row and a span for each process")
    if any(device.device is None for device in devices):
        notes.append("rows that name no device are taken as those of one device")
    return notes


def _each(index: TraceIndex, positions: Mapping[DeviceKey, I64], places: grouping.Groups) -> tuple[IndexedDevice, ...]:
    """Return the devices with these keys. positions: of the work of each."""
    start: I64 = index.starts
    length = index.lengths
    first, last = spans(places.codes, places.count, start, start + length)
    owners = owner_labels(index, [(source, rank) for source, rank, *_ in positions])
    found = []
    for (source, rank, number, where), own in positions.items():
        pid = places.labels[1][where]
        stated = index.run.devices.get((source, number), "")
        unnamed = device_not_named(stated)
        name = unnamed if number is None else device_title(number, stated)
        run = "" if pid is None else f"process {pid}"
        label = " · ".join(filter(None, (owners[source, rank], run, name)))
        span = int(first[where]), int(last[where])
        found.append(IndexedDevice(source, rank, number, pid, where, own, *span, name, label))
    return tuple(sorted(found, key=lambda d: [(c is None, c or 0) for c in (d.source, d.rank, d.pid, d.device)]))

"""The devices of a trace, with their work in order and the span that their shares refer to.

A device is (input, rank, device), and the process too where a file holds several runs on clocks of their own. Its span
is that of its input or run: first start to last end of all rows, host rows included, as in the view `device`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import I64
from tracekit.index import grouping
from tracekit.index.clocks import by_input, sources_of_several_runs
from tracekit.index.lanes import device_label, owner_labels
from tracekit.index.sources import source_label, source_labels, spans, synthetic_sources
from tracekit.index.trace_index import TraceIndex, join
from tracekit.report import Cell, Column, integer_of
from tracekit.schema import DEVICE_WORK
from tracekit.units import Unit

COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "source", "rank", "device", "pid"})

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Device:
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


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """rows: rows of EVENTS that are device work with a duration, in order; starts, ends: shape (n,), ns."""

    index: TraceIndex
    rows: I64
    starts: I64
    ends: I64
    places: grouping.Groups
    devices: tuple[Device, ...]
    notes: tuple[str, ...]

    def identity(self, chosen: list[Device]) -> list[Column]:
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
    notes = picked.notes("row of device work") if picked.untimed != 1 else picked.notes("row")
    labels = source_labels(index)
    source = picked.key("source")
    known = np.ones(picked.rows.size, np.bool_)
    if made_up:
        known = np.array([label not in made_up for label in source.labels], np.bool_)[source.codes]
        for number in sorted(set(made_up) & {source.labels[c] for c in np.unique(source.codes).tolist()}):
            notes.append(f"{source_label(labels, number)}: its file has only durations, so when work ran is unknown")
    rows = picked.rows[known]
    starts = picked.starts[known]
    ends = starts + picked.durations[known]
    places = by_input(index)
    if not rows.size:
        return Devices(index, rows, starts, ends, places, (), tuple(notes))
    place = grouping.Key(places.codes[rows], range(places.count))
    groups = grouping.group_by(*(index.key(c, rows) for c in ("source", "rank", "device")), place)
    if sources_of_several_runs(index):
        notes.append("each run of a file has a clock of its own: a row and a span for each process")
    if None in groups.labels[2]:
        notes.append("rows that name no device are taken as those of one device")
    devices = _each(index, groups, places)
    return Devices(index, rows, starts, ends, places, devices, tuple(notes))


def _each(index: TraceIndex, groups: grouping.Groups, places: grouping.Groups) -> tuple[Device, ...]:
    start: I64 = index.starts
    length = index.lengths
    first, last = spans(places.codes, places.count, start, start + length)
    order = np.argsort(groups.codes, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(np.bincount(groups.codes, minlength=groups.count))))
    sources, ranks, numbers, of_place = groups.labels
    owners = owner_labels(index, [(integer_of(s), r) for s, r in zip(sources, ranks, strict=True)])
    found = []
    for g in range(groups.count):
        source, where = integer_of(sources[g]), integer_of(of_place[g])
        pid = places.labels[1][where]
        model = index.run.devices.get((source, numbers[g]), "")
        name = f"{'device not named' if numbers[g] is None else device_label(numbers[g])} {model}".rstrip()
        run = "" if pid is None else f"process {pid}"
        label = " · ".join(filter(None, (owners[source, ranks[g]], run, name)))
        positions = order[bounds[g] : bounds[g + 1]]
        span = int(first[where]), int(last[where])
        found.append(Device(source, ranks[g], numbers[g], pid, where, positions, *span, name, label))
    return tuple(sorted(found, key=lambda d: [(c is None, c or 0) for c in (d.source, d.rank, d.pid, d.device)]))

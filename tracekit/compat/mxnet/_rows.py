"""Durations, counters and memory of a trace by category and name: what MXNet's aggregate statistics are made of.

The category is MXNet's own where the trace has one ("operator", "MXNET_C_API", a domain), else the kind of the event.
MXNet's trace holds each operator twice, as an event and as a task around it; its statistics count the event alone.

Source: src/profiler/profiler.h and aggregate_stats.cc of MXNet 1.5 to 1.9, held against the tables of dumps().
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.analysis.intervals import I64
from tracekit.columns import arrow
from tracekit.columns.arrow import pc
from tracekit.index.grouping import Groups, Key, group_by, key_of, kind_mask, plural
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.report import Cell
from tracekit.schema import Kind

COLUMNS = frozenset({"ts_ns", "dur_ns", "name", "kind", "source", "value", "bytes", "device", "args"})
TOOL = "MXNet profiler"
MEMORY = ("Device Storage", "Pool Memory")
"""Categories whose counters are bytes in use."""
_TWICE = frozenset({"operator", "Custom Operator"})

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Durations:
    """Rows with a duration in groups of (category, name)."""

    groups: Groups
    ns: I64


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Values of counters, in order of time, in groups of (category, name)."""

    groups: Groups
    values: F64


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of a trace. categories: all that occur, those of marks too."""

    durations: Durations
    counters: Samples
    memory: Samples
    categories: frozenset[str]
    is_mxnet: bool
    notes: tuple[str, ...]


def rows_of(index: TraceIndex) -> Rows:
    """Return the rows of a trace."""
    events = index.events
    mxnet = [n for n, facts in facts_by_source(index).items() if facts.facts.get("tool") == TOOL]
    is_mxnet = np.isin(events.column("source").to_numpy(), mxnet)
    category = _categories(events)
    args = events.column("args")
    timed = events.column("dur_ns").is_valid().to_numpy()
    tasks = arrow.bools(pc.match_substring(args, '"id":'))
    twice = tasks & is_mxnet & timed & np.isin(category.codes, _codes_of(category, _TWICE))
    duration_rows = np.flatnonzero(timed & ~twice & ~kind_mask(events, [Kind.MEMORY, Kind.COUNTER, Kind.FLOW]))
    ns = np.maximum(arrow.ints(events.column("dur_ns"))[duration_rows], 0)
    values = arrow.floats(events.column("value"))
    is_counter = kind_mask(events, [Kind.COUNTER]) & np.isfinite(values)
    is_memory = is_counter & np.isin(category.codes, _codes_of(category, MEMORY))
    marks = np.flatnonzero(kind_mask(events, [Kind.MARK]) & is_mxnet)
    notes = []
    if count := int(twice.sum()):
        notes.append(f"counted once: {plural('operator', count)} that the trace holds as tasks, too")
    if count := int((kind_mask(events, [Kind.COUNTER]) & ~np.isfinite(values)).sum()):
        notes.append(f"not counted: {plural('sample', count)} of counters that are no numbers")
    if count := int((arrow.ints(events.column("dur_ns"))[duration_rows] < 0).sum()):
        notes.append(f"counted as 0: {plural('duration', count)} below zero")
    durations = Durations(_grouped(events, category, duration_rows), ns)
    counters, memory = (
        _samples(events, category, np.flatnonzero(rows)) for rows in (is_counter & ~is_memory, is_memory)
    )
    if not is_memory.any():
        memory = _in_use(events)
    known = {str(category.labels[code]) for code in np.unique(category.codes[marks]).tolist()}
    for part in (durations, counters, memory):
        known |= {str(label) for label in part.groups.labels[0]}
    return Rows(durations, counters, memory, frozenset(known), bool(mxnet), tuple(notes))


def _codes_of(key: Key, texts: frozenset[str] | tuple[str, ...]) -> list[int]:
    return [code for code, label in enumerate(key.labels) if label in texts]


def _categories(events: pa.Table) -> Key:
    """Return the category of each row of EVENTS: its `cat` in args, else its kind."""
    found = pc.struct_field(pc.extract_regex(events.column("args"), r'^\{"cat":"(?P<cat>(?:[^"\\]|\\.)*)"'), "cat")
    kinds = pc.cast(events.column("kind"), pa.string())
    every = np.arange(events.num_rows)
    key = key_of(pa.table([pc.coalesce(found, kinds)], names=["cat"]), "cat", every)
    return Key(key.codes, [label if label is None else _unescaped(str(label)) for label in key.labels])


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"')) if "\\" in text else text
    except ValueError:
        return text


def _grouped(events: pa.Table, category: Key, rows: I64) -> Groups:
    name = key_of(events, "name", rows)
    labels = [label if label is not None else "(no name)" for label in name.labels]
    return group_by(Key(category.codes[rows], category.labels), Key(name.codes, labels))


def _samples(events: pa.Table, category: Key, rows: I64) -> Samples:
    values = arrow.floats(events.column("value"), 0.0)[rows]
    return Samples(_grouped(events, category, rows), values)


def _in_use(events: pa.Table) -> Samples:
    """Return the bytes in use after each allocation and free, by device, of a trace that has no counter of them."""
    rows = np.flatnonzero(kind_mask(events, [Kind.MEMORY]) & events.column("bytes").is_valid().to_numpy())
    device = key_of(events, "device", rows)
    source = key_of(events, "source", rows)
    groups = group_by(source, device)
    sizes = arrow.ints(events.column("bytes"))[rows].astype(np.float64)
    values = np.zeros(len(rows))
    labels: list[Cell] = []
    several = len(set(groups.labels[0])) > 1
    for group, (source_number, number) in enumerate(zip(*groups.labels, strict=True)):
        mine = groups.codes == group
        values[mine] = np.cumsum(sizes[mine])
        where = "cpu/0" if number is None else f"gpu/{number}"
        labels.append(f"Memory: {where}{f' (input {source_number})' if several else ''}")
    return Samples(Groups(groups.codes, groups.count, ([MEMORY[0]] * groups.count, labels)), values)


def last_of(samples: Samples) -> F64:
    """Return the last value of each group; rows are in order of time."""
    last = np.zeros(samples.groups.count, np.int64)
    last[samples.groups.codes] = np.arange(len(samples.values))
    return samples.values[last] if len(samples.values) else np.zeros(samples.groups.count)


def bounds_of(samples: Samples) -> tuple[I64, F64, F64, F64]:
    """Return count, minimum, maximum and mean of each group, of the samples as they are."""
    count = np.bincount(samples.groups.codes, minlength=samples.groups.count)
    low, high = np.full(samples.groups.count, np.inf), np.full(samples.groups.count, -np.inf)
    np.minimum.at(low, samples.groups.codes, samples.values)
    np.maximum.at(high, samples.groups.codes, samples.values)
    total = np.bincount(samples.groups.codes, weights=samples.values, minlength=samples.groups.count)
    return count, low, high, total / np.maximum(count, 1)

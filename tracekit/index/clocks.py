"""Groups of rows that share a clock. Times on different clocks cannot be compared.

Inputs that all know the wall clock are put onto one clock when they are read. Otherwise each input starts at zero. So
does each of several runs in one file (nvprof counts from the start of its process): the reader lists these runs in
`facts["runs"]`.
"""

from __future__ import annotations

import numpy as np

from tracekit.columns.arrays import I64
from tracekit.index.grouping import Groups, Key, group_by, zeros
from tracekit.index.sources import clock_groups, facts_by_source, several_clocks, spans
from tracekit.index.trace_index import TraceIndex, join


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

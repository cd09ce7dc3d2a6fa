"""Owners that are parts of one process, one after the other: a program has a log of each block that it records."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tracekit.index.owners import find
from tracekit.index.sources import facts_by_source
from tracekit.index.trace_index import TraceIndex
from tracekit.model import sets
from tracekit.model.arrow import I64

__all__ = ["processes_of_parts"]

_OF_PROCESS = ("host", "pid", "parent_pid", "command", "rank")


def processes_of_parts(index: TraceIndex, owner: I64, starts: I64, durations: I64) -> tuple[int, ...]:
    """Return the ids of the processes of these rows, if at least one has several owners; else none.

    Processes are known of logs of the recorder only. A process has one log at a time, so where owners overlap in time,
    equal ids are those of several processes (of containers, say).
    """
    facts = facts_by_source(index)
    if len(facts) < 2 or any(each.format != "recorder-log" for each in facts.values()):
        return ()
    owners = find(index)
    width = max(len(owners), 1)
    pairs = sets.unique(index.ints("source").astype(np.int64) * width + owners.codes)
    parts: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for pair in pairs.tolist():
        source, number = divmod(pair, width)
        if source not in facts or not (rows := owner == number).any():
            continue
        process = tuple(facts[source].facts.get(name) for name in _OF_PROCESS)
        if not isinstance(facts[source].facts.get("pid"), int):
            return ()
        parts.setdefault(process, []).append((int(starts[rows].min()), int((starts[rows] + durations[rows]).max())))
    spans = [sorted(each) for each in parts.values()]
    overlap = any(before[1] > after[0] for each in spans for before, after in pairwise(each))
    if overlap or all(len(each) == 1 for each in spans):
        return ()
    return tuple(sorted(process[1] for process in parts if isinstance(process[1], int)))

"""Findings as rows of a trace, so that a viewer shows them: a lane a finding, with the events that it is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import orjson
import pyarrow as pa

from tracekit.index import owners as _owners
from tracekit.index.trace_index import TraceIndex
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64
from tracekit.model.report import Finding
from tracekit.model.schema import Kind
from tracekit.model.trace import Key, Trace

__all__ = ["with_findings"]

_PLACE = ("ts_ns", "dur_ns", "source", "rank", "pid", "step")
"""Columns that a mark has from its event."""


def with_findings(index: TraceIndex, findings: Sequence[Finding]) -> tuple[Trace, int]:
    """Return the trace with a row for each event that a finding names, and the number of these rows.

    A mark is a range over its event, on a thread of its own in the event's process. Its name is the rule; `args` have
    the claim, the most that a fix saves, its confidence, and the advice.
    """
    trace = index.trace
    threads: dict[Key, str] = dict(trace.run.threads)
    marks = list(_marks(index, findings, threads))
    if not marks:
        return trace, 0
    rows = pa.concat_tables([trace.events, *(part.cast(trace.events.schema) for part in marks)])
    order = np.argsort(arrow.ints(rows.column("ts_ns").combine_chunks()), kind="stable")
    run = replace(trace.run, threads=threads)
    return replace(trace, run=run, events=rows.take(arrow.array(order))), sum(part.num_rows for part in marks)


def _marks(index: TraceIndex, findings: Sequence[Finding], threads: dict[Key, str]) -> Iterator[pa.Table]:
    events = index.events
    lane = int(index.ints("tid").max(initial=0)) + 1
    number = int(index.ints("event_id").max(initial=0)) + 1
    for place, finding in enumerate(findings, 1):
        rows = _rows_of(index, finding)
        if not rows.size:
            continue
        title = f"finding {place}: {finding.rule}"
        for key in _processes(events, rows):
            threads[(*key, lane)] = title
        count = len(rows)
        taken = events.take(arrow.array(rows))
        own = {
            "event_id": pa.chunked_array([arrow.array(np.arange(number, number + count))]),
            "name": pa.chunked_array([arrow.array([title] * count).dictionary_encode()]),
            "kind": pa.chunked_array([arrow.array([str(Kind.USER_RANGE)] * count).dictionary_encode()]),
            "tid": pa.chunked_array([arrow.array(np.full(count, lane))]),
            "args": pa.chunked_array([arrow.array([_args(finding)] * count)]),
        }
        made = {
            field.name: taken.column(field.name) if field.name in _PLACE else own.get(field.name)
            for field in events.schema
        }
        columns = [
            pa.chunked_array([pa.nulls(count, events.schema.field(name).type)]) if column is None else column
            for name, column in made.items()
        ]
        yield pa.table(columns, names=list(made))
        lane, number = lane + 1, number + count


def _rows_of(index: TraceIndex, finding: Finding) -> I64:
    """Return the rows of EVENTS that a finding names; none where an id is that of several events."""
    ids = index.ints("event_id")
    rows = np.flatnonzero(np.isin(ids, np.array(finding.events, np.int64)))
    owners = _owners.find(index)
    if finding.owner in owners.labels:
        rows = rows[owners.codes[rows] == owners.labels.index(finding.owner)]
    return rows if sets.unique(ids[rows]).size == rows.size else rows[:0]


def _processes(events: pa.Table, rows: I64) -> set[tuple[int | None, ...]]:
    taken = events.select(["source", "pid"]).take(arrow.array(rows))
    return {(row["source"], row["pid"]) for row in taken.to_pylist()}


def _args(finding: Finding) -> str:
    facts = {
        "claim": finding.claim,
        "could_save_ns": finding.saving_ns,
        "confidence": f"{finding.confidence}: {finding.because}",
        "fix": finding.advice,
        "check": finding.check,
        "about": finding.owner,
    }
    return orjson.dumps({key: value for key, value in facts.items() if value != ""}).decode()

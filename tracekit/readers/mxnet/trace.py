"""MXNet's profiler (1.x, profiler.dump): trace events in JSON, with hashes of 64 bits as process and thread ids.

    { "traceEvents": [ { "ph": "M", "args": { "name": "cpu/0" }, "pid": 0, "name": "process_name" },
        { "name": "dot", "cat": "operator", "ph": "B", "ts": 1795227825131876, "pid": 0, "tid": 13774319520209737161 },
        { "name": "dot", "cat": "operator", "ph": "E", "ts": 1795227825131987, ... } ], "displayTimeUnit": "ms" }

A record is an element of the list. ts is µs of Unix time; before MXNet 1.2, where the cat of all is "category", it is
µs since the profiler was made: no stated clock. Operators are pairs B, E (operator); API calls, tasks and
`DeleteVariable` are asynchronous pairs b, e (id: the thread's hash; cat MXNET_C_API: other; a user's domain:
user_range); frames are pairs of phases "(" and ")"; counters C; markers n. Ids beyond int64 become small numbers,
`Run.ids` has them.
Names are written unescaped, so a quote in one breaks the JSON: such events are repaired, with a note.

Facts of files: tests/readers/test_mxnet.py. Not supported: the aggregate JSON and table of dumps() (`mxnet-table`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.options import MEMORY_UNIT

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read"]

NAME = "mxnet"


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events."""
    from tracekit.model.schema import Kind
    from tracekit.readers.trace_event import events
    from tracekit.readers.trace_event.generic import read_generic
    from tracekit.readers.trace_event.look import Dialect

    kinds = {"operator": Kind.OPERATOR, "category": Kind.OPERATOR, "MXNET_C_API": Kind.OTHER}
    opened = read_generic(source, options, ledger, Dialect(NAME, "MXNet profiler", kinds))
    opened.run.origin_ns = 0 if events.first_time(source) >= events.EPOCH_FROM_US else None
    if unit := options.value(MEMORY_UNIT):
        opened.run.sources[0].facts["memory_unit"] = unit
    return opened

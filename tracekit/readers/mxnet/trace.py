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

from tracekit.options import OptionSpec
from tracekit.readers.base import Mark, Marks, Opened, Reader, ReadOptions, Strength

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger

NAME = "mxnet"
_WORDS = rb'"args"\s*:\s*\{\s*"name"\s*:\s*"(?:cpu|gpu)/[0-9]+"|"cat"\s*:\s*"MXNET_C_API"'
_PAIRS = (
    rb'"cat"\s*:\s*"operator"\s*,\s*"ph"\s*:\s*"[BE]"\s*,\s*"ts"\s*:\s*[0-9]+\s*,\s*"pid"\s*:\s*[0-9]+\s*,'
    rb'\s*"tid"\s*:\s*[0-9]+\s*\}'
)
"""Operators as MXNet writes them: all that a piece of a trace without its beginning has."""
MEMORY_UNIT = OptionSpec(
    "memory_unit", str, "", "Unit of memory in MXNet's tables: kB as in 1.9, or kb as before it.", ("kB", "kb")
)
"""For `--compat mxnet`. MXNet's tables call 1000 bytes a kB from 1.9 on, and called 100 bytes a kb before."""


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events."""
    from tracekit.readers.trace_event import events
    from tracekit.readers.trace_event.generic import read_generic
    from tracekit.readers.trace_event.look import Dialect
    from tracekit.schema import Kind

    kinds = {"operator": Kind.OPERATOR, "category": Kind.OPERATOR, "MXNET_C_API": Kind.OTHER}
    opened = read_generic(source, options, ledger, Dialect(NAME, "MXNet profiler", kinds))
    opened.run.origin_ns = 0 if events.first_time(source) >= events.EPOCH_FROM_US else None
    if unit := options.value(MEMORY_UNIT):
        opened.run.sources[0].facts["memory_unit"] = unit
    return opened


READER = Reader(
    name=NAME,
    title="MXNet profiler trace",
    suffixes=(".json", ".json.gz"),
    sniff=None,
    read=read,
    options=(MEMORY_UNIT,),
    marks=Marks(json=(Mark(_WORDS), Mark(_PAIRS, Strength.HABIT)), late=(rb'"MXNET_C_API"', rb'"(?:cpu|gpu)/[0-9]')),
    record="event",
    trace_events=True,
)

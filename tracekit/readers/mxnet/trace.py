"""MXNet's profiler (1.x, profiler.dump): trace events in JSON, with hashes of 64 bits as process and thread ids.

    { "traceEvents": [ { "ph": "M", "args": { "name": "cpu/0" }, "pid": 0, "name": "process_name" },
        { "name": "dot", "cat": "operator", "ph": "B", "ts": 1795227825131876, "pid": 0, "tid": 13774319520209737161 },
        { "name": "dot", "cat": "operator", "ph": "E", "ts": 1795227825131987, ... } ], "displayTimeUnit": "ms" }

A record is an element of the list. ts is µs of Unix time; before MXNet 1.2, where the cat of all is "category", it is
µs since the profiler was made: no stated clock. Operators are pairs B, E (operator); API calls, tasks and
`DeleteVariable` are asynchronous pairs b, e (id: the thread's hash; cat MXNET_C_API: other; a user's domain:
user_range); frames are pairs of phases "(" and ")"; counters C; markers n. Ids beyond int64 become small numbers,
`Run.ids` has them.
Names are written unescaped, so a quote in one breaks the JSON: such events are mended, with a note.

Facts of files: tests/readers/test_mxnet.py. Not supported: the aggregate JSON and table of dumps() (`mxnet-table`).
"""

from __future__ import annotations

import re

from tracekit.errors import UsageError
from tracekit.readers.base import Mark, Marks, Opened, Reader, ReadOptions
from tracekit.readers.source import Source
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.generic import ChromeReading
from tracekit.readers.trace_event.look import MXNET as DIALECT
from tracekit.trace import Ledger

NAME = "mxnet"
_WORDS = re.compile(rb'"args"\s*:\s*\{\s*"name"\s*:\s*"(?:cpu|gpu)/[0-9]+"|"cat"\s*:\s*"MXNET_C_API"')
MEMORY_UNITS = ("kB", "kb")
"""What MXNet's own tables call 1000 bytes (1.9) and 100 bytes (before): option `memory_unit`, for `--compat mxnet`."""


def _read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    reading = events.begin(source, options, ledger, DIALECT.tool, NAME)
    reading.run.origin_ns = 0 if events.first_time(source) >= events.EPOCH_FROM_US else None
    if unit := options.extra.get("memory_unit"):
        if unit not in MEMORY_UNITS:
            raise UsageError(f"--option memory_unit={unit}: no such unit", hint=f"one of: {', '.join(MEMORY_UNITS)}")
        reading.run.sources[0].facts["memory_unit"] = unit
    return Opened(reading.run, ChromeReading(reading, DIALECT).batches(), False, (ledger,))


READER = Reader(
    name=NAME,
    title="MXNet profiler trace",
    suffixes=(".json", ".json.gz"),
    sniff=None,
    read=_read,
    options=(("memory_unit", "kB or kb: what MXNet's own tables call 1000 bytes (1.9) and 100 bytes (before)"),),
    marks=Marks(json=(Mark(_WORDS.search),)),
)

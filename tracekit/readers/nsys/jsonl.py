"""nsys export --type jsonlines: one object a line, with a number of its type; names are places in an array of texts.

    {"data":["[Unknown]","cudaMalloc_v3020","vectorAdd(float*, float*)", ...]}
    {"Type":48,"TraceProcessEvent":{"startNs":"68078778","endNs":"257222655","correlationId":100,"name":"1", ...}}
    {"Type":79,"CudaEvent":{"startNs":"1517727052","endNs":"1517728492","kernel":{"shortName":"2","gridX":1, ...}, ...}}

A record is a line, and `event_id` is its number. Calls (TraceProcessEvent, CudaApiEvent), kernels, copies, memsets and
synchronization (CudaEvent) and NVTX (NvtxEvent: push/pop, start/end, marks) are events, as in the reader of the SQLite
export. Domains, categories and names of threads are facts. Other types are ignored, each under its own name. So are
calls of other libraries than CUDA (OS runtime and so on, by eventClass), unless `--option osrt=yes` is given.

The array of texts may be anywhere in the file, so the file is read twice. With `--separate-strings true` each text is a
line:

    {"type":"String","id":"316","value":"vectorAdd(float*, float*)"}

Without texts names are null, with a note. CommEvent names processes. Warnings of the profiler itself (DiagnosticEvent:
events may be missing) become notes. Times are ns from the start of the session. The lines do not have its wall clock
time, so `Run.origin_ns` is None. args has members without a place in the schema, under their own names. Not kept:
gridId. Not supported: the types that are ignored. Sources: public programs that read such files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head
from tracekit.readers.options import OSRT

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source


def sniff(head: Head) -> Confidence:
    """Return YES for lines with such events, MAYBE for texts alone: another program may have written them."""
    from tracekit.readers.nsys import _jsonl

    return _jsonl.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events."""
    from tracekit.readers.nsys import _jsonl

    return _jsonl.read(source, options, ledger, osrt=options.value(OSRT))

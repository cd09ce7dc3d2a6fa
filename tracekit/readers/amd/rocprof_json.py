"""rocprof-json: the JSON of rocprofv3 (`--output-format json`, `*_results.json`), ROCm 6.2 to 7.

    {"rocprofiler-sdk-tool": [{"metadata": {"pid": 4242, ...}, "agents": [...], "counters": [...], "strings": {...},
      "kernel_symbols": [...], "callback_records": {"counter_collection": [...]},
      "buffer_records": {"kernel_dispatch": [...], "hip_api": [...], "memory_copy": [...], ...}}]}

A record is an element of a list of buffer_records or callback_records. `event_id` counts them in the order in which
they are read. Times are ns of the machine's clock since it was started. Members are found by name. An element of the
outer list is a process.

Read: kernels, copies with bytes and direction, allocations and scratch memory, calls of HIP, HSA, RCCL, rocDecode and
rocJPEG, roctx ranges and marks (named by their message). `correlation` is the internal correlation id, `device` the
number among the GPUs (logical_node_type_id), `stream` HIP's stream, or the queue in files without one. Names, kinds and
shapes are as in the database of the same run (`rocpd`). Counters become totals: a row for each device, kernel and
counter; the instances of a counter are added up within a launch. The launches of counters are no events: rocprofv3 runs
the program again for them, or has them among the kernels too.

args: queue, dispatch_id, tid (thread that started the work), scratch_bytes, sgprs, accum_vgprs, src_device and
dst_device of a copy between two GPUs, address, agent, region (a roctx name for the kernel), external_correlation. Not
supported: PC samples, which are counted as ignored; `summary`, which repeats the records; files beyond 256 MiB, for
which rocprofv3 has `--output-format rocpd`. rocprof up to ROCm 6 wrote Chrome traces as results.json (`chrome-trace`).
Sources: rocprofv3-schema.json, generateJSON.cpp and the tests of rocprofiler-sdk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for an object whose first member has the name of the tool."""
    begin = head.data[:4096].lstrip()
    member = begin[1:].lstrip() if begin[:1] == b"{" else b""
    return Confidence.YES if member.startswith(b'"rocprofiler-sdk-tool"') else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events and totals. Raises: ParseError for damaged JSON, or one of another program."""
    from tracekit.readers.amd import _rocprof_json

    return _rocprof_json.read(source, options, ledger)

"""nvprof -o FILE: the SQLite database of nvprof and the Visual Profiler (.nvprof, .nvvp), versions 8 to 12.

    StringTable(_id_, value): (3, '_ZN10tensorflow7functor...')
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL(..., start, end, ..., name): (..., 1510947070044042187, ..., 3)
    CUPTI_ACTIVITY_KIND_RUNTIME(_id_, cbid, start, end, processId, threadId, ...): (1, 31, 1510..., 30375, -41998592)

A record is a row of a table. `event_id` counts the rows of the tables in the order in which they are read. Times are ns
since 1970. Tables and columns are found by name, in every version. A table without events is counted as facts (names,
devices) or as ignored, under its own name.

Read: kernels (and those that kernels launched), copies, peer copies, memsets, calls of both APIs, markers, overhead,
synchronization, unified memory. Calls have a number instead of a name (`cbid`). The names are those of libcupti
(`_cupti_names.json`), without the version behind them. The start and the end of a marker become one range (the end is
`merged`), and a moment becomes a `mark`. A range without an end has no duration and `"unfinished": true`. Thread ids
are the low 32 bits that CUPTI keeps. Device work names no process: it gets the process of the calls if there is only
one. Copies of unified memory are `memcpy`; page faults, throttling and the like are `overhead`, as in the CSV reader.

args: src_mem_type, dst_mem_type, async, the sides of a peer copy, value of a memset, returnValue unless 0, domain,
payload and color of a marker, and columns of kernels that have no place of their own. Not kept: gridId and completed
(it repeats the end).

Metrics and events become the totals that `nvprof --csv` prints: a row for each device, kernel and counter, with the
smallest, largest and mean value over its calls (`merged` counts the calls beyond the first). Percentages are as
printed, throughputs in B/s; the unit of a utilization level is "level".

Not supported (a note says so): counters of single units (EVENT_INSTANCE, METRIC_INSTANCE), OpenACC, OpenMP, clocks and
power (ENVIRONMENT), PC samples.
Sources: cupti_activity.h of CUDA 11.8, a file of version 8, libcupti 11.8, 12.9 and 13.0 for the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for the two tables that every such database has."""
    return Confidence.YES if {"StringTable", "Version"} <= head.tables else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events and totals."""
    from tracekit.readers.nvprof import _sqlite

    return _sqlite.read(source, options, ledger)

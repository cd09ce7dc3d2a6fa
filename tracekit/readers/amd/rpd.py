"""rpd: the database of rocmProfileData (`runTracer.sh`, `rpdTracerControl`; `*.rpd`), schema versions 2 and 3.

    rocpd_api(id, pid, tid, start, end, apiName_id, args_id)             3: also category_id, domain_id
    rocpd_op(id, gpuId, queueId, sequenceId, start, end, description_id, opType_id)
    rocpd_api_ops(api_id, op_id)   rocpd_copyapi(api_ptr_id, size, ...)   rocpd_kernelapi(api_ptr_id, gridX, ...)

A record is a row of a table. `event_id` counts the rows of the tables in the order in which they are read. Times are ns
of the machine's clock since it was started (the database's own views show µs). rocprofv3's database has the same prefix
and another design: `rocpd`.

rocpd_op: kernels, copies, fills and barriers. A Task with a name is a kernel that a graph started. rocpd_api: calls of
HIP, roctx and rlog ranges (UserMarker: named by their message) and marks, the profiler's own work (overhead). Ranges
that autograd made (ext_autogradapi, or domain torch) are operators. rocpd_monitor: counters (sclk in MHz and others), a
row where a value begins. Counters of kernels (rocpd_counter) become totals: a row for each device, kernel and counter.

Work has pid and `correlation` of its call. `bytes` and shape are those of the call, if it started this work alone.
`device` is gpuId, `stream` queueId. hipExtModuleLaunchKernel counts work items, other launches count blocks, but where
rocprofiler-sdk collected, all count work items. Where the file does not show which it was, the numbers are in `args`.

args: args, category, sizes and seq (autograd), stream (a handle), sequence, op_type, grid, group_segment_size.
Not supported: stack frames (rocpd_stackframe), ext_callstack (sums that rpd made), addresses of copies. Sources: files
of 2023 and 2025, tableSchema.cmd, RoctracerDataSource.cpp, RocprofDataSource.cpp and tracing.py of rocmProfileData.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for the two tables of calls and work."""
    return Confidence.YES if {"rocpd_api", "rocpd_op", "rocpd_string"} <= head.tables else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events and totals. Raises: ParseError for a damaged database, or one of another program."""
    from tracekit.readers.amd import _rpd

    return _rpd.read(source, options, ledger)

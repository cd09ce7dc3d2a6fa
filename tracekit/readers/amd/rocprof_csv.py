"""rocprof-csv: the tables of rocprofv3 (`*_kernel_trace.csv` and others), rocprofv2, and rocprof up to ROCm 6.

    "Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
    "HIP_RUNTIME_API_EXT","hipLaunchKernel","2684120","2684120","40071","342331487543011","342331490589617"

A record is a row; `event_id` is its number. Times are ns of the machine's clock since it was started. Columns are
found by name, so every version is read, also what `rocpd convert` writes.

Events: kernel_trace (2024 and since), hip, hsa, marker and rccl traces, memory_copy_trace, memory_allocation_trace,
scratch_memory_trace; of rocprofv2 results, hip_api_trace, hsa_api_trace, hcc_ops_trace, async_copy_trace and
roctx_trace; the kernels of rocprof's results.csv. `device` is the number of the agent in the file (`Agent 4` is 4):
which of them are GPUs is in another file. `stream` is HIP's stream, or the queue in files without one. Grids are in
work items in the file and in blocks here. rocprofv3 does not write the bytes of a copy into its CSV, so they are not
known; its kernels name no process, nor do the traces of rocprofv2. A range of roctx has its message as its name; a
moment is a mark. rocprofv2 writes the moments alone at which ranges begin (with the message) and end (without).

Totals: *_stats.csv and domain_stats.csv of all versions (section by the file's kind of row), counter_collection.csv,
and columns of results that are named after a counter: a row for each device, kernel and counter. `merged` counts the
rows beyond the first. The program ran once more for each pass of counters, so the kernels of counter_collection.csv are
no events. Launches in results without times are totals too (section gpu), and so are PC samples (section samples).
Where rocprofv2 has a row for each die of a GPU (XCC_Index), they are one launch, and their counters are added up.

results.csv: grd, wgr and lds have no axes, so they are in `args` with the counters; DispatchNs and CompleteNs are
times of the host, and stay there too. Names lose `.kd`. Not supported: agent_info.csv, memcopy_info.csv. Sources: files
of ROCm 4 to 7, generateCSV.cpp of rocprofiler-sdk, tblextr.py and file.cpp of rocprofiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for a first line that is the header of such a table."""
    from tracekit.readers.amd import _csv

    return Confidence.YES if head.text and _csv.header_of(head.data) is not None else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events or totals. Raises: ParseError for another header."""
    from tracekit.readers.amd import _csv

    return _csv.read(source, options, ledger)

"""nsys stats: its reports as CSV or as columns, one or many in a file.

    Processing [report1.sqlite] with [/opt/nvidia/nsight-systems/2024.5.1/host-linux-x64/reports/cuda_gpu_trace.py]...
    Start (ns),Duration (ns),CorrId,GrdX,...,Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name
    1540178479,1632,171,,,,,,,,,,0.000,0.002,Device,Pinned,NVIDIA GeForce RTX 3080 (0),1,7,[CUDA memcpy Device-to-Host]

A record is a line, and `event_id` is its number. Traces (cuda_gpu_trace, cuda_api_trace, nvtx_pushpop_trace and all
others with Start, Duration and Name) become EVENTS. Sums (cuda_gpu_kern_sum, cuda_api_sum, nvtx_sum,
cuda_gpu_mem_time_sum ...) become TOTALS; those of cuda_gpu_mem_size_sum have `bytes`, and value_min, value_max and
value_avg in bytes. `section` is the name of the report, from the line before the table, else by its columns. The header
names columns and units, in all versions. In 2019 and 2020 the unit is in the title ("CUDA API Statistics
(nanoseconds)").

Console output is read as it is pasted or logged: with other output around the tables, with an indent or a prefix before
each line. Tags of several ranks (`[1,0]<stdout>:`) keep their tables apart and fill `rank`. Without tags the lines of
several processes may be mixed: a call among kernels, or a kernel among calls, goes to the table that it belongs to. A
row that is shifted against the dashes is divided at its blanks, or not read. A name in quotes may have line ends: it
is one row, and its further lines count as merged.

Times are ns from the start of the session, whose wall clock time is not printed: `Run.origin_ns` is None. Device rows
name no process. Sizes in KiB or MiB (older versions: KB, MB) are rounded in print: a note says so. `args` has the
columns without a place in the schema, as printed, under the names of the header. nvtx_gpu_proj_trace has ranges at
their projected times, nvtx_gpu_proj_sum their projected total, cuda_kern_exec_trace kernels (with their calls in
`args`).

The numbers of a table are in the locale's style: `1,234.5` or `1.234,5`. The table decides which:
each cell must be a number in it, counts and ns must be whole, and calls x average must be the total. If its numbers may
still mean either of two, other tables of the file decide; else it is not read (`--option decimal=,` decides).

A cell beside start, duration and total that cannot be read (`552.9…`) is not known, and its row is kept. Starts that
are all the same, or too coarse for the work of one stream, hold no order: only durations and counts are used.

Tables with bars (--format table, Markdown) and with tabs (--format tsv) are read too.

Not supported: HTML and JSON forms; reports without Start or Total Time (cuda_kern_exec_sum, um_sum; their lines
are ignored, with a note).
Sources: output of 2019.5 to 2026.3 that forums, teaching and NVIDIA's documentation quote, the SQL of the reports of
2020 to 2024.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

LATE = (
    rb"(?:Start|Duration|Total|Total Time|Avg|TAvg) ?\((?:ns|nsec|us|ms|s|KiB|MB|B)\)",
    rb"Total Time",
    rb"(?:Processing|Running|Exporting) \[",
    rb"Executing '",
    rb" contain .*\bdata\b",
    rb"Statistics \(",
    rb"[Mm]igration [Ss]ize",
)
"""Patterns that show a table behind the head of a long log."""


def sniff(head: Head) -> Confidence:
    """Return YES for a header of such a table, or for the line that names a report."""
    from tracekit.readers.nsys import _stats_csv

    return _stats_csv.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events and totals."""
    from tracekit.readers.nsys import _stats_csv

    return _stats_csv.read(source, options, ledger, LATE)

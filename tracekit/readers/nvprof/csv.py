"""nvprof --csv: GPU traces, API traces, both in one; summaries, metrics and events; several runs in one file.

    ==4242== Profiling result:
    "Start","Duration","Grid X",...,"Device","Context","Stream","Name","Correlation_ID"
    ms,us,,,,,,,,KB,B,KB,GB/s,,,,,,,
    391.803247,443.072000,,,,,,,,,,4704.000000,10.124955,"Pageable","Device","Tesla P100 (0)","1","14","[CUDA...]",8

A record is a line, and `event_id` is its number. Traces become EVENTS, all other tables TOTALS. nvprof does not print
when time 0 was, so `Run.origin_ns` is None. API rows name no thread, so `tid` is null.

The header names the columns. The unit of a time or size is in its cell, else in the row of units below the header. The
name of a row tells copies, memsets and kernels apart. Rows of unified memory other than copies (page faults,
throttling, thrashing) are `overhead`; those without a printed duration have none. Throughput is not kept: it is bytes
over duration. `args` keeps all other columns without a place in the schema, as printed, with their unit.

Totals: `section` is "GPU activities", "API calls" and so on as printed, "NVTX GPU activities" for the part of one NVTX
range (whose name is in `args`), "metrics" and "events" (the counter's name in `args`), "Unified Memory" (value_min,
value_max, value_avg: sizes in bytes). `run` counts the runs of the file; `facts["runs"]` has their pid and command.

Lines of several processes may be mixed (`mpirun nvprof`). With tags (`[1,0]<stderr>:`) each rank is read separately and
fills `rank`. Without tags, rows that may be of several processes have no pid, and a note says so.

Not supported: CPU samples, device clocks, dependency analysis (ignored, with a note). Sources: files of nvprof 5 to
11, NVIDIA's Profiler User's Guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["LATE", "WORDS", "read", "sniff"]

WORDS = (
    *("==", "start", "duration", "invocations", "context", "total", "time(%)", "time (%)"),
    *("activities:", "calls:", "openacc", "openmp"),
)
"""Each output of nvprof has one of them: of a table's header, or before a line of nvprof."""
LATE = (
    rb"==[0-9]+== ",
    rb"={8} (?:NVPROF|PGPROF|Profiling|Warning|Error)",
    rb"Time ?\(%\)",
    rb"Start[\", ;\t]+Duration",
    rb"Invocations",
    rb"(?:GPU activities|API calls|Open(?:ACC|MP) \([a-z]+\)): +[0-9]",
)


def sniff(head: Head) -> Confidence:
    """Return YES for a header of nvprof's CSV, or for nvprof's own lines in a file named .csv."""
    from tracekit.readers.nvprof._read import sniff_nvprof

    return sniff_nvprof(head, text=False)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events and totals. Raises: ParseError for a trace without Start, Duration, Name or units."""
    from tracekit.readers.nvprof._read import read_nvprof

    return read_nvprof(source, options, ledger, "nvprof-csv", LATE)

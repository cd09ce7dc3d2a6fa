"""fluid-report: the tables that Paddle's older profiler prints when it stops (fluid.profiler; Paddle 0.11 to 2.6).

    ------------------------->     Profiling Report     <-------------------------
    Event                  Calls       Total       Min.        Max.        Ave.        Ratio.
    thread0::adam          20          0.213529    0.008252    0.015483    0.0106765   0.224625

A record is a line. Each `Profiling Report` is a run: with several threads Paddle prints one of all threads merged, and
one with a prefix `thread0::` to each name. Both describe the same events, so they are never added up.

Sections: `Event Summary` has the events of the upper level; `Event Summary, parts` the events indented below them,
whose time is part of theirs (`level` and `parent` in `args`). The prefix becomes `thread` in `args`, `raw_name` keeps
it. Total is CPU time, GPU time, or both, depending on the state; a table with both has them in `args` as printed.
`ratio` is a fraction of the upper events of that thread, as printed ("0.5*", of reorders, is of their operator).
`GpuMemCpy Summary` and its parts; `Memory Profiling Report`: `calls` and `bytes` of allocations, frees in `args` (a MB
is 2^20 bytes). Section `header`: place, order, total time, computation and framework overhead. Six digits are printed:
`0.0193331` ms is 19333.1 ns on average. `reports` in the facts: the layout of each report, for printing it again.

Kinds follow from the name (`_kinds.host_kind`): the report does not distinguish operators from ranges of the user.
Not supported: the profile itself is another format, fluid-pb.
Sources: reports of 1.8.5 and 2.6.2, PrintProfiler in paddle/fluid/platform/profiler_helper.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for the title of a report, or for its table of events if the title is missing."""
    from tracekit.readers.fluid import _report

    return _report.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals."""
    from tracekit.readers.fluid import _report

    return _report.read(source, options, ledger)

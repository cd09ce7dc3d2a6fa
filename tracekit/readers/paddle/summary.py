"""paddle-summary: the output of `paddle.profiler.Profiler.summary()` and of the benchmark timer (Paddle 2.2 to 3.x).

    -----------------------------------------------Model Summary-----------------------------------------------
    Name             Calls   CPU Total / Avg / Max / Min / Ratio(%)    GPU Total / Avg / Max / Min / Ratio(%)
    ProfileStep      4       1.25 / 0.31 / 0.35 / 0.28 / 100.00        0.00 / 0.00 / 0.00 / 0.00 / 0.00

A record is a line. A log may have several reports between the program's own lines: a title that cannot follow the
last one begins a new run. `section` is the title. Indented rows are parts of the row above them: they have section
`TITLE, parts` (`level` and `parent` in `args`). A line with times of the GPU that are not all 0.00 has a second row, of
section `TITLE, GPU` or `TITLE, GPU, parts`; if all times of the CPU are `-`, it has only that one.
`percent` in `args` is the ratio as printed; `time_unit` the unit that the times are printed in, with two decimals;
`thread` the block of the table.

Overview times are unions by type of event, all others sums. Its rows of device types and runtime calls are `other`, as
other tables list the same work by name. Device: value_avg in %. Memory: `bytes` is the increased size, counts and
sizes are in `args`, the peaks in section `header`. Perf Summary: avg_ns, min_ns, max_ns of the costs, value_* for
ips; Paddle's averages there divide by the wrong number (a note says so). tracekit's own Profiler adds columns there:
p50 (median_ns), std (std_ns), p95 and p99 (in `args`), and how many steps were measured (`calls` of a row of section
`header`). `step_info` lines: section `Benchmark`.
A `-`, and the `inf` that Paddle prints without a value, is null.

Cells are cut by the rules of dashes, since names hold single blanks; a name that is cut ends in `...`.
Not supported: the output of the Flops Profiler, which is skipped with a note.
Sources: summaries of 2.6.2 and 3.3.1 in all units and views, profiler_statistic.py (of 2.3 too), timer.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for a title of a summary or of the benchmark, or for a line of the benchmark."""
    from tracekit.readers.paddle import _summary

    return _summary.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError, at the end, when no table was found."""
    from tracekit.readers.paddle import _summary

    return _summary.read(source, options, ledger)

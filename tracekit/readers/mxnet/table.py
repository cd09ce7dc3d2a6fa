"""mxnet-table: the sums that MXNet's profiler prints, `profiler.dumps()` as a table or as JSON (MXNet 1.2 to 2.0).

    operator
    =================
    Name                          Total Count        Time (ms)    Min Time (ms)    Max Time (ms)    Avg Time (ms)
    FullyConnected                          6          21.0670           0.0390          20.8020           3.5112

A record is a line of the table, in JSON one name with its figures. `section` is MXNet's domain as printed; each
`Profile Statistics:` (1.4 and older: `Profile Statistics.`) is a run. Times are ms; the table has 4 decimals, JSON 4
digits (1.5: 6), and both are of single precision: of a longer time not all digits are true.

Memory (`Device Storage`, `Pool Memory`) has no times: value_min, value_max and value_avg are as printed, in the unit
that the heading states, `kB` or `kb`. MXNet 1.9 divides bytes by 1000 for it, older ones by 100: the file does not say.
Up to 1.4 memory is among the times, its bytes divided by 1000 as if they were us: that is kB, too, and `last` in
`args` its last value.
Counters are among the times as if they were us: value_min and value_max are the counter's own numbers (printed x
1000), `last` in `args` its last one, `total_ns` is null; a note says so. A row is a counter where it can be no duration
(its total is less than its maximum or more than the maximum each time, or total / count is not the average), and
where MXNet's own name says it. What MXNet prints as the average of counters and memory is half of max - min.

JSON of 1.5 and older has a stray comma and lacks its last brace: it is read line by line, as it is laid out. Several
objects may be in one log, between other output: each is a run.
Not supported: the trace itself (`profiler.dump`) is another format, mxnet.
Sources: dumps of 1.9.1 in five orders, aggregate_stats.cc of January 2018 to 1.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source


LATE = (rb"Name +Total Count", rb"Profile Statistics[:.]", rb'\{\s*"(?:Time|Memory)"\s*:\s*\{')
"""Patterns that show a table behind the head of a long log."""


def sniff(head: Head) -> Confidence:
    """Return YES for the table's title and headings, or an object of Time or Memory whose entries have a Count."""
    from tracekit.readers.mxnet import _table

    return _table.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError, at the end, when no table was found."""
    from tracekit.readers.mxnet import _table

    return _table.read(source, options, ledger, LATE)

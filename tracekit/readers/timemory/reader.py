"""timemory: the tables of rocprof-sys, Omnitrace and timemory (`wall_clock.txt`, `sampling_percent.txt` and others).

    |              REAL-CLOCK TIMER (I.E. WALL-CLOCK TIMER)                                                  |
    |       LABEL         | COUNT  | DEPTH  |   METRIC   | UNITS  |   SUM    |   MEAN   | ... | STDDEV | % SELF |
    | |00>>> |_conj_grad  |     76 |      1 | wall_clock | sec    | 10.641165 | 0.140015 | ... | 0.004080 |  1.0 |

A record is a line. Each table is a run; its section is the metric, and a row is one total. `rank` and `thread` (args)
come from the label (`|MM|NN>>>`), `depth` from its column, `path` (args) from the labels above it: the sum of a row
holds those of the rows below it, so only rows of one depth may be added up. Columns are found by name, in any order.
Units of time (sec, msec, usec, nsec) become ns: SUM is `total_ns`, with six digits of seconds exact to the
µs. Metrics of other units (MB, %, degrees ...) are of section `metrics`. Labels that the tool cut stay cut.

Calls of HIP and HSA are runtime and driver calls, other labels user ranges, those of sampling metrics other. Tables
are found in logs, also with colours or behind prefixes of lines. Sources: the manuals of Omnitrace and rocprof-sys,
files of timemory 3. Not supported: the JSON beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for the column heads of such a table."""
    from tracekit.readers.timemory import _table

    return _table.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError where there is no table."""
    from tracekit.readers.timemory import _table

    return _table.read(source, options, ledger)

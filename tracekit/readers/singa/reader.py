"""SINGA's time profiling, as `Device.PrintTimeProfiling` prints it between a program's own lines.

    Time Profiling:
    OP_ID0. SetValue : 1.73722e-05 sec
    OP_ID1. cudnnConvForward : 0.000612724 sec

A record is a line. Each `Time Profiling:` is a run; its section `header` has the verbosity. Verbosity 1 gives two rows
of section `Propagation`, 2 a row for each operator of section `Operators`, in the order of the graph; `op_id` in `args`
is the node's number. Verbosity 3 prints only operators whose name contains `Dist`: when all names do, it may be either.
SINGA prints an empty line above `Time Profiling:`; `below_blank` in `args` of the header is true if it is there.
All are seconds of an average iteration, in which a node runs once: `calls` is 1, `avg_ns` the time as printed,
`total_ns` the same rounded to ns. A time that is not a number (all iterations were skipped) has a null `total_ns`, and
`value_text` has the word. SINGA divides the operators of verbosity 2 and 3 by all iterations, even the ones that it
skipped and did not time (5 by default), so their times are too small. The file does not show by how much: a note says
so. tracekit's own face of SINGA (`tracekit.profiler.singa`) prints a line below its heading, which is a fact:

    tracekit: 7 of 12 iterations measured, operators divided by 7

Then `args` of the header has `measured`, `iterations` and `divisor`, and nothing is guessed.

Text before a row, such as a time stamp or the `>` of a quotation, is removed. The tags of ranks, `[1,RANK]<stdout>:` of
mpirun and `RANK:` of srun, become `rank`. If the lines of several blocks are mixed, the rising numbers of the operators
separate them; a note says that this is a guess. Three lines of dots, as in the documentation, mean that the rest of the
list was cut.

Sources: Graph::PrintTimeProfiling in src/core/scheduler/scheduler.cc of Apache SINGA 3.1; the output in its
documentation (docs-site/docs/time-profiling.md). Not supported: the tables of `Graph::Debug`; there are no time stamps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for a line of the profile; MAYBE for the heading alone, as verbosity 0 prints it."""
    from tracekit.readers.singa import _reading

    return _reading.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError, at the end, when no line of a profile was found."""
    from tracekit.readers.singa import _reading

    return _reading.read(source, options, ledger)

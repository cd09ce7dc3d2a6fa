"""The profile that Theano, Theano-PyMC, Aesara and PyTensor print at exit (profile=True) or by `summary()`.

    Function profiling
      Time in 200 calls to Function.__call__: 4.998040e-02s
      64.3%    64.3%       0.012s       3.12e-05s     Py     400       2   theano.tensor.blas.Gemv

A record is a line. Each block (`Function profiling`, `Scan Op profiling`) is a run, and so are an optimizer's profile
and tips after it that belong to no function. Sections: `header` has the lines of the block's head, under the same names
for all versions, with the line's own words in `raw_name`; `Class`, `Ops` and `Apply` the tables; `Node make_thunk` the
nodes that were slowest to compile; `Memory Profile` bytes by node and `Memory Profile: peaks`; `Scan overhead`;
`Optimizer Profile` the steps of the optimizer, those within a step in `Optimizer Profile: STEP`, with the lines between
them as `details` in `args`. The same times are in several tables, so rows may be added up only within a section of a
run. `Sum of all(N) printed profiles` repeats the other blocks: its sections are named `Sum of all: Class` and so on,
with `"sum": true` in `args` of its header; those of a scan, whose time its function has too, `Scan Op: Class`.

Everything that the profiler prints is kept, so that the view `theano` can print it again: `s` in `args` is a time as it
was printed, in s. Words without a number (tips, headings of memory and optimizer, the end of a complete table) are rows
of `header`.

The tables print the time of a node in ms and the time of a call with three digits; `total_ns` is the time that both
allow (time per call x calls where that is finer), so a sum is as exact as those digits; a note says so. `avg_ns` is the
time per call as printed. The first 20 rows are printed only: `... (remaining 5 Ops account for 2.00%(0.01s) of the
runtime)` is a row of the same section, `"remaining": 5` in `args`, whose time follows from its percentage where that is
finer. With it a table sums up to `Time in thunks`. Lines `input 0: dtype=...` belong to the row of Apply above them.
Sizes are printed in KB of 1024 B.

Blocks may be mixed with other output: warnings, tracebacks and other lines are counted by class. The prefix of other
tools (a time stamp, `>`) is learned from the heading and removed; the tag of mpirun separates the blocks of several
processes and becomes `rank`. A name with a small constant has several lines, and a terminal may wrap a long name: the
lines are joined by their brackets. The remainder of a scan's table, whose block prints no `Time in thunks`, gets its
time from the largest row and its share.
Indentation (notebooks), single blanks (copies from pages) and the name of a table at the end of the line before it are
accepted. Only the steps within a step of the optimizer cannot be separated then; a note says so.

Sources: the files named in `_patterns`; outputs of Theano 0.6 and 1.0.5, Theano-PyMC 1.1.2, PyTensor 3.0.7. Not
supported: ProfileMode, of Theano before 0.6 (a note names it); times within one optimizer, which stay words
(`details`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for a block's head, or the header or end of a table; MAYBE for a warning of Theano."""
    from tracekit.readers.theano import _reading

    return _reading.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError, at the end, when there was no profile."""
    from tracekit.readers.theano import _reading

    return _reading.read(source, options, ledger)

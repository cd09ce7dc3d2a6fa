"""torch-table: the tables that PyTorch's profilers print, `key_averages().table()` (PyTorch 0.4 to 2.15).

    -----------------  ------------  ------------  ------------  ------------  ------------  ------------
                 Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
    -----------------  ------------  ------------  ------------  ------------  ------------  ------------
             aten::mm        61.04%     131.207us        62.11%     133.507us      66.754us             2

A record is a line. Each table is a run, as tables of one program mostly show the same time. Rows are kept as they are
printed: the same operator is in several rows if shapes or stacks are grouped, or if the events were not aggregated.

`section`: `CPU` for rows with time on the host (`total_ns` is CPU total, which counts what lies within again), the
word for the device (`CUDA`, `XPU`, `MTIA`, ...) for rows without; `CPU self` or `CUDA self` where a table has no column
of totals. In `args`: `self_ns`, `device_ns`, `device_self_ns`, `flops`, the `stack` below a row, and the `cells` as
printed. Kinds follow from names. A row with time on the device alone is a kernel or copy, but a range where a row of
the host has its name: its section is `CUDA, ranges`. The device time of operators is that of kernels again.

Memory has rows of its own (section `memory`): what each row itself allocated, negative for freed, of one place. Below a
table are its totals: section `header`. A total is of all events; a table shows the first 100 rows unless asked for
more, which a note says. PyTorch before 1.8 adds nested rows in its total of CUDA.

With `top_level_events_only` a table has the events that are within no other, which a note says too. PyTorch takes an
average for such an event if the first of its events is: an operator that runs within another one first is missing,
although it runs at the top later. PyTorch 1.8 and 1.9 print FLOPs divided by the time of the row, below `FLOPS`: they
are `flops_per_s` in `args`, not `flops`.

Times have three digits of the unit that fits; memory has two. Names are cut at 52 characters and shapes at 80, so two
rows with one name may be different kernels. Tables are found in logs, notebooks, comments, quotations and documents,
also with columns and rows removed by hand, and with rules that do not fit. In a head with stacks and FLOPs PyTorch
changes the order of the two columns: cells are taken by what they are.

`torch.utils.bottleneck` prints two tables of single events, one for each mode: the same program, run twice. Their
totals are those of their 15 rows. Its output of cProfile is skipped.
Sources: tables of each minor version from 1.0 to 2.15 in all forms, held against `key_averages()` (printed by
`tests/torch_tables.py`); profiler_util.py of 1.8 to 2.13, and profiler.py of 0.4 to 1.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for the head of a table."""
    from tracekit.readers.torch import _table

    return _table.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError, at the end, when no table was found."""
    from tracekit.readers.torch import _table

    return _table.read(source, options, ledger)

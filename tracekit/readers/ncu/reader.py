"""ncu: output of Nsight Compute, `ncu` and `ncu --import run.ncu-rep`, with --csv and without (2019 to 2026).

    "ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",...
    "0","4242","train","127.0.0.1","gemm(float *)","1","7","(32, 32, 1)","(64, 64, 1)","0","8.0","Command line ...
    "0","4242","train","127.0.0.1","gemm(float *)","1","7","(32, 32, 1)","(64, 64, 1)","0","8.0","GPU Speed Of ...

A record is a line. Three tables of --csv are read: a line for each metric of a launch (details, --metrics), a line for
each launch with a column for each metric (--page raw; the second line has the units), and a line for each metric of a
kernel (--print-summary). Text is read by sections, or without them (--page raw), and so are its summaries, of 2021 too.
Metric rows may end behind their value (2025). `run` counts the tables of --csv.

ncu replays each kernel in several passes, one kernel at a time: durations are of launches alone, and there is no start,
so all is TOTALS. `section` "launches" has a row for each launch, with its duration in `total_ns` where the file has it,
and in `args` id, grid, block, context, stream, process and compute capability. "metrics" has a row for each metric of
each launch, `args` its name, section and `id`. With --print-summary a row is of all launches, and their total is the
mean times their number.

Units are scaled by ncu, launch by launch, so values come in one unit: times in ns, sizes in B (Kbyte is 1000 bytes),
rates by s, clocks in Hz. `args` has a value as `printed` where that changed it, or where a double would round it. What
is not a number is `value_text`. The attributes of a device (`device__attribute_...`) are facts of the run.

Digits may be grouped as the locale does: the whole file shows which sign is the decimal one (counts are whole, grid
and block sizes are known). Where it does not, values are kept as text, with a note; `--option decimal=,` decides.

Not supported: the advice of rules, and tables of source lines. They are skipped and counted. `.ncu-rep` files are
closed: `ncu --import run.ncu-rep --csv --page raw` prints them.
Sources: files of 2023.3 to 2026, NVIDIA's documentation of the Nsight Compute CLI.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for the head of a table, the line of a kernel, or a message of ncu."""
    from tracekit.readers.ncu import _read

    return _read.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError, at the end, when no kernel was profiled."""
    from tracekit.readers.ncu import _read

    return _read.read(source, options, ledger)

"""nvprof without --csv: the same tables in columns of fixed width.

    ==4242== Profiling result:
       Start  Duration   Grid Size   Block Size  Regs*  ...         Device   Context    Stream  Name
    391.80ms  443.07us           -            -      -  ...    Tesla T4 (0)        1        14  [CUDA memcpy HtoD]

A record is a line. A cell ends under the end of its header's word, `-` is an empty cell, each cell has its own unit,
and the name is the rest of the line. Times and sizes have about five digits, and so has their sum: a note says so.
nvprof cuts the names of devices to 15 characters, often before their number: such devices are numbered from 100 on. All
other rules are those of nvprof-csv, and so are the sources and what is not supported. A file may hold tables of both
forms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head
from tracekit.readers.nvprof.csv import LATE

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]


def sniff(head: Head) -> Confidence:
    """Return YES for a header of nvprof's text tables, or for nvprof's own lines in a file that is not named .csv."""
    from tracekit.readers.nvprof._read import sniff_nvprof

    return sniff_nvprof(head, text=True)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events and totals. Raises: ParseError as the reader of CSV."""
    from tracekit.readers.nvprof._read import read_nvprof

    return read_nvprof(source, options, ledger, "nvprof-text", LATE)

"""Nsight Systems' own report (.nsys-rep; .qdrep until 2021), every version from 2019.6 to 2026.2.

    NVIDIA Tegra Profiler Report 2025@1@3@140-251335620677v0.
    (sections of protobuf messages; the events in blocks of LZ4)
    U3w[END]

A record is a row of a table of the SQLite export: the report is read into the same tables, with the same columns and
the same integers, and what the page of nsys-sqlite says of them holds here. So `event_id` counts as it does there.
Nsight Systems is not needed: no software of NVIDIA was used to find the format out, or is used to read it.

The format is not documented, and tracekit is not affiliated with NVIDIA. What stands here was found by comparing public
reports with the exports beside them: 293 pairs of 32 versions have no row of an event table that differs, and 702
reports of 49 versions are read. Checked in every file: the counts of events, strings, threads and samples that its
head announces. A part that is not known (a type of event, a class, a field) is named in a note, and everything else is
read. Damage is refused with its place. There is no checksum in the format: a flipped bit within a number is not seen.

Read, but not proven by an export with values other than 0: numbers of NVTX payloads, categories and the end thread of
a range; cluster sizes of kernels; the peers of copies between devices; GPU metrics; memory usage and memory pools;
OpenACC (counted); the node of a CUDA graph that a copy is. Nodes of kernels and memsets, and the creation of nodes, are
those of an export of 2025.3. Page faults of unified memory were in no report: they would be named.
MPI calls are NVTX ranges of the domain MPI here, without sizes and ranks; an export has them as MPI_* tables. Both are
`communication`. Overheads of CUDA (loading of functions and modules) are in the reports since 2022, and in the exports
since 2025.5: events that an older export lacks.

Private: a report holds the environment of the profiled program, the command lines of all processes of the machine and
what the program printed. None of it is read. The command of the profiled program, the name of the machine, its system,
driver and processor are shown, as they are for an export.

Not supported: CPU samples, call chains, scheduling (counted as ignored, under the names of the export); a raw stream
(.qdstrm), which is no report yet. OSRT_API is read with `--option osrt=yes` only. Sources: 702 public reports, the
exports beside them, NVIDIA's "SQLite Schema Reference" for names of tables, columns and event types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head
from tracekit.readers.options import OSRT

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

MAGIC = b"NVIDIA Tegra Profiler Report "


def sniff(head: Head) -> Confidence:
    """Return YES for the first line of a report, whatever the file is called."""
    return Confidence.YES if head.data.startswith(MAGIC) else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events. Raises: ParseError for a damaged report, or one whose times or compression are not known."""
    from tracekit.readers.nsys.report.tables import open_report
    from tracekit.readers.nsys.sqlite import read_tables

    osrt = options.value(OSRT)
    tables = open_report(source, ledger, osrt=osrt)
    return read_tables(tables, "nsys-report", source, options, ledger, osrt=osrt, known=tables.meta)

"""rocprof-db: the database of rocprof up to ROCm 6 (`rocprof --stats`, `--hip-trace`, `--sys-trace`: `results.db`).

    KERN("Index", "KernelName", "gpu-id", "queue-id", ..., "DispatchNs", "BeginNs", "EndNs", "CompleteNs", "DurationNs")
    HIP("BeginNs", "EndNs", "pid", "tid", "Name", "args", "Index", "Data", "__section", "__lane", "DurationNs")
    OPS("BeginNs", "EndNs", "dev-id", "queue-id", "Name", "pid", "tid", "Index", "Data", ...)

A record is a row of a table. `event_id` counts the rows of the tables in the order in which they are read. Times are ns
of the machine's clock since it was started. Tables and columns are found by name: there is no version.

KERN (A in older files): kernels, as in results.csv, with `args` as there. HIP: runtime calls. HSA, KFD: calls of
the driver. OPS: kernels and barriers. COPY: copies and fills; async-copy is one of HSA. rocTX: ranges; one of 1 ns is a
mark, since rocprof writes marks so. Columns of KERN that are named after a counter become totals: a row for each
device, kernel and counter.

`Index` joins a call to its work: it is `correlation`. Where HIP and HSA are both there, the ids of HSA begin at 2^40.
Older files have the row of rocprof's page in `pid`; there the process of work is in `proc-id`, and calls have it too if
it is the only one. `bytes` of a copy are those of its call (sizeBytes, width times height), if the call made this copy
alone. `device` is the number in the file. `stream` is the number that rocprof gave the HIP stream; the queue is in
`args`. A roctx range that was started and stopped by its id may overlap others, so its thread is in `args`.

Where KERN and OPS both have kernels they are the same launches: those of OPS are events, and KERN gives the counters.
Not supported: MM (memcopy_info.csv again). Sources: files of ROCm 4 to 6, tblextr.py, sqlitedb.py, mem_manager.py of
rocprofiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger

_TABLES = frozenset({"KERN", "A", "HIP", "HSA", "KFD", "OPS", "COPY", "rocTX", "MM"})


def sniff(head: Head) -> Confidence:
    """Return YES for the tables of rocprof and no others."""
    found = frozenset(name for name in head.tables if not name.startswith("sqlite_"))
    return Confidence.YES if found and found <= _TABLES and found != {"A"} else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events and totals. Raises: ParseError for a damaged database, or one of another program."""
    from tracekit.readers.amd import _rocprof_db

    return _rocprof_db.read(source, options, ledger)

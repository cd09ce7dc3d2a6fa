"""rocpd: the SQLite database of rocprofv3 (`--output-format rocpd`) and rocprof-sys, ROCm 6.4 to 7.

    rocpd_kernel_dispatch_<uuid>(id, pid, tid, agent_id, kernel_id, queue_id, stream_id, start, end, ..., event_id)
    rocpd_region_<uuid>(id, pid, tid, start, end, name_id, event_id)
    rocpd_event_<uuid>(id, category_id, stack_id, correlation_id, extdata, ...)

A record is a row of a table. `event_id` counts the rows of the tables in the order in which they are read. Times are ns
of the machine's clock since it was started. Tables are found by the beginning of their names. Those with one ending
belong together: a merged database has one set for each process. Columns are found by name. The database's own views are
not used, because they leave out rows without an event, a thread or a text.

Read: kernels, copies, allocations, calls of HIP and HSA, roctx ranges and marks (named by their message), calls of RCCL
(communication), events of the kernel driver (overhead), other regions (those of rocprof-sys too), samples. A sample
with a counter is a counter, another one a mark. `correlation` is `stack_id`, which work has from the call that started
it. `device` is the number among the GPUs (`type_index`). The device of a copy is its destination, or its source when
that alone is a GPU. `stream` is HIP's stream; the queue of HSA is in `args`. grid_x, grid_y and grid_z count blocks,
where the file counts work items. `registers` are vector registers. Shared memory is LDS: static of the kernel, dynamic
beyond that in the launch. A FREE has the size of the ALLOC at its address before it.

Counters of kernels become totals: a row for each device, kernel and counter, with the smallest, largest and mean value
over its launches (`merged` counts the rows beyond the first). The instances of a counter (one for each shader engine
and the like) are added up within a launch, as rocprofv3 does.

args: queue, dispatch_id, tid (thread that started the work), scratch_bytes, sgprs, accum_vgprs, region (a roctx name
for the kernel), external_correlation; src_device and dst_device of a copy between two GPUs; address, agent, level.
Not supported: arguments of calls (rocpd_arg), which are counted as ignored; call stacks.
Sources: a file of ROCm 7.2, `rocpd_tables.sql`, `data_views.sql` and generateRocpd.cpp of rocprofiler-sdk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger

_TABLES = ("rocpd_metadata", "rocpd_info_process", "rocpd_kernel_dispatch")


def sniff(head: Head) -> Confidence:
    """Return YES for tables whose names begin as three that every such database has."""
    found = [name for name in head.tables if name.startswith("rocpd_")]
    every = all(any(name.startswith(table) for name in found) for table in _TABLES)
    return Confidence.YES if every else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events and totals. Raises: ParseError for a damaged database, or one of another program."""
    from tracekit.readers.amd import _rocpd

    return _rocpd.read(source, options, ledger)

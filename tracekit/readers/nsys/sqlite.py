"""nsys export --type sqlite: the database of Nsight Systems, every schema from 2020 to 3.25 (nsys 2026).

    StringIds(id, value): (911, 'cudaFree_v3020')
    CUPTI_ACTIVITY_KIND_RUNTIME(start, end, eventClass, globalTid, ..., nameId): (68078778, 257222655, 0, 28..., 911)
    NVTX_EVENTS(start, end, eventType, ..., text, globalTid): (155357596302, 155357609579, 59, ..., 'aten::view', 28...)

A record is a row of a table. `event_id` counts the rows of the tables in the order in which they are read. The version
does not matter: a missing table has no rows, and a missing column has no values. Of NVTX_EVENTS and its newer versions
(NVTX_EVENTS_V2 ...) the newest with rows is read. Tables with names and other facts count as facts, all others as
ignored under their own names (ENUM_ tables together).

Times are ns from the start of the session. `Run.origin_ns` is its Unix time if the export has it, less `--ts-shift`, or
0 after `--ts-normalize`. globalTid and globalPid hold machine, process and thread (8+8, 24, 24 bits). Equal pids of
several machines become different numbers. `device`, and src_device and dst_device of peer copies, are ids of
TARGET_INFO_GPU. TARGET_INFO_CUDA_DEVICE corrects them if a process numbers its devices in another way.

- CUPTI_ACTIVITY_KIND_KERNEL: `kernel`, each node of a CUDA graph too (graphNodeId in args, the launch's correlation).
- CUPTI_ACTIVITY_KIND_GRAPH_TRACE: `kernel`, a CUDA graph that was traced as a whole: "[CUDA graph 109]".
- CUPTI_ACTIVITY_KIND_MEMCPY, _MEMSET: copies (copyKind 11 to 13: of unified memory) and memsets.
- CUPTI_ACTIVITY_KIND_RUNTIME, _DRIVER: `runtime` or `driver` by eventClass, else by name. The version behind a name
  (cudaFree_v3020) is removed, `raw_name` keeps it.
- CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: `sync`. CUPTI_ACTIVITY_KIND_OVERHEAD, PROFILER_OVERHEAD: `overhead`.
- CUDA_GPU_MEMORY_USAGE_EVENTS: `memory`, freed bytes are negative.
- NVTX_EVENTS: push/pop ranges are `user_range`; start/end ranges too, without tid since they may overlap (args has `id`
  and `tid`); marks are `mark`. args has domains, categories, payloads and colors. Ranges that PyTorch records
  ("aten::mm, op_id = 12") have the kinds of Kineto's, and names without the numbers: `raw_name` keeps the whole text.
  "step 3" is a `step`.
- MPI_*_EVENTS: `communication`. All events of a process have the `rank` that MPI_RANKS gives it. CUBLAS_EVENTS,
  CUDNN_EVENTS: `other`. OSRT_API is read with `--option osrt=yes` only.
- GPU_METRICS: `counter`, its device is the low byte of typeId.

A range or an MPI call without an end has no duration and `"unfinished": true`. Warnings of Nsight Systems itself in
DIAGNOSTIC_EVENT (about missing events) become notes. Not kept: gridId (the number of a launch). Not supported: samples
and call chains, scheduling, other diagnostics, ETW, graphics. Sources: five exports of 2021 to 2026, the
ENUM_ tables in them, NVIDIA's "SQLite Schema Reference" and the SQL of the reports of `nsys stats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head
from tracekit.readers.options import OSRT

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

SIGNATURE = (
    "NVTX_EVENTS",
    "TARGET_INFO_",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "CUPTI_ACTIVITY_KIND_",
    "OSRT_API",
    "ProcessStreams",
)

_OWN = tuple(name for name in SIGNATURE if name not in ("OSRT_API", "ProcessStreams"))
_NVPROF = {"StringTable", "Version"}


def sniff(head: Head) -> Confidence:
    """Return YES for StringIds beside any table of such an export, or alone.

    MAYBE for tables of such an export without StringIds: it is called by its name, unless another reader is sure.
    """
    others = head.tables - {"StringIds"}
    if "StringIds" in head.tables:
        known = not others or any(table.startswith(SIGNATURE) for table in others)
        return Confidence.YES if known else Confidence.NO
    known = _NVPROF.isdisjoint(others) and any(table.startswith(_OWN) for table in others)
    return Confidence.MAYBE if known else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events. Raises: ParseError for a damaged database, or one that is not such an export."""
    from tracekit.readers.nsys import _sqlite

    return _sqlite.read(source, options, ledger, osrt=options.value(OSRT))

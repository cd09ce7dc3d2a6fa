"""torch-memory: snapshots of PyTorch's CUDA allocator, `torch.cuda.memory._dump_snapshot()` (PyTorch 2.0 to 2.13).

    {"segments": [{"device": 0, "address": 126968225857536, "total_size": 20971520, "blocks": [...], ...}],
     "device_traces": [[{"action": "alloc", "addr": 126972587876352, "size": 512, "time_us": 1773270053858957,
                         "frames": [{"name": "forward", "filename": "model.py", "line": 12}, ...]}, ...]], ...}

A record is an event of a device's trace, a segment, a block of a segment, or an external annotation. The file is a
pickle, which is a program: only plain containers are built, and a file that could run code is refused.

Events of kind memory: `allocated` (alloc, free_completed) and `reserved` (segment_alloc, segment_map, segment_free,
segment_unmap), with signed `bytes`. A free is one row, at free_completed; its free_requested is merged into it
(`requested_us` in `args`), or is the free itself where the trace has no free_completed. `current_allocated` and
`current_reserved` are what was held after the row: counted back from the segments at the end, so that memory from
before the first event is in them. Sizes of `allocated` are the requested ones. `alloc_in` is the line of Python that
allocated, the innermost outside of PyTorch; a free has that of its allocation. oom and snapshot are marks.
Times are Unix us, exact. Snapshots of PyTorch up to 2.1 have none: events are in their order, and no view uses their
times. External annotations are ranges. Only texts and integers are taken for texts and integers: a field of another
type costs its record, and a frame of another type is not shown. Where the segments hold less than the trace left
allocated, what is held is counted from the first event on.

TOTALS: `segments` by type and `blocks` by state, as they were when the snapshot was taken; `allocations by stack`: how
often and how many bytes each stack of Python allocated in the trace (`frames` in `args`, the outermost first).
Not supported: the frames of C++ where there are frames of Python; the layout of blocks within a segment.
Sources: snapshots of PyTorch 2.9 and 2.10; torch/cuda/_memory_viz.py and torch/cuda/memory.py of 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger

_PROTOCOLS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_KEYS = (b"segments", b"device_traces")
_INNER = (b"total_size", b"allocated_size", b"device_traces", b"time_us")
_NEAR = 200


def sniff(head: Head) -> Confidence:
    """Return YES for a pickle whose first keys are those of a snapshot."""
    data = head.data
    if not data.startswith(_PROTOCOLS) or not any(key in data[:_NEAR] for key in _KEYS):
        return Confidence.NO
    return Confidence.YES if any(key in data for key in _INNER) else Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return events and totals. Raises: ParseError for a pickle of anything else."""
    from tracekit.readers.torch import _memory

    return _memory.read(source, options, ledger)

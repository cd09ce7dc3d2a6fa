"""Calls in which the host waits for a device, by name. The tables are data.

Sources: the synchronization behaviour of the CUDA runtime ("API synchronization behavior" in its reference: cudaMemcpy
and cudaMemset to host memory, cudaFree), its driver names (cuMemcpyHtoD_v2) and HIP's (hipMemcpyWithStream waits for
its stream). An asynchronous copy from or to pageable memory waits as well: its call ends after the copy itself, which
only the times tell.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from tracekit.analysis.intervals import I64
from tracekit.analysis.segments import distinct
from tracekit.index.launches import Launched
from tracekit.index.trace_index import TraceIndex
from tracekit.schema import API_CALLS

Mask = npt.NDArray[np.bool_]

WAITS = re.compile(
    r"^(?:cuda|cu|hip|mu|musa)(?:"
    r"\w*Synchronize(?:_\w+)?"
    r"|Memcpy(?!\w*Async)\w*"
    r"|Free(?!Async)(?:Host|Array)?(?:_v\d+)?|MemFree(?!Async)(?:Host)?(?:_v\d+)?"
    r")$"
)
STREAM_WAITS = re.compile(
    r"^(?:cuda|cu|hip|mu|musa)StreamWait(?:Event|Value)\w*$|^Stream [Ww]ait (?:[Ee]vent|[Ss]ync)$"
)
"""A stream is told to wait for another: the call, and the rows of kind sync that Kineto and nsys write of it."""


def named(index: TraceIndex, rows: I64, pattern: re.Pattern[str]) -> Mask:
    """Return for each of these rows whether its name fits."""
    codes, names = index.texts("name")
    fits = np.zeros(len(names) + 1, np.bool_)
    mine = codes[rows]
    used = distinct(mine[mine >= 0], len(names))
    fits[used] = [pattern.match(names[i]) is not None for i in used.tolist()]
    found: Mask = fits[mine]
    return found


def blocking_calls(index: TraceIndex, work: I64, work_ends: I64, launched: Launched) -> I64:
    """Return the calls (rows of EVENTS, with a duration) in which the host waited for a device.

    work, work_ends: device rows and their ends, ns, with their launches. A copy's call that ends no earlier than the
    copy waited for it, whatever its name.
    """
    calls = np.flatnonzero(index.kind_mask(API_CALLS) & index.has("dur_ns"))
    waits = calls[named(index, calls, WAITS)]
    copies = index.kind_mask({"memcpy"})[work] & (launched.launch >= 0)
    launch = launched.launch[copies]
    starts = index.starts
    ends = starts[launch] + index.ints("dur_ns")[launch]
    found: I64 = np.union1d(waits, launch[ends >= work_ends[copies]])
    return found

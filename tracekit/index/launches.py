"""The call of the runtime or driver that launched each device event, for breakdown, idle and launch.

Rows are joined by (source, process, correlation), since ids repeat across files, ranks and processes. The context is no
part of the key, since calls do not name one in any format. Where several calls have one id (a driver call within a
runtime call), the first counts. One call may launch many (a CUDA graph). Work whose call is not in the trace is an
orphan; a note counts the orphans.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from tracekit.analysis.links import link_columns
from tracekit.analysis.segments import distinct
from tracekit.index.trace_index import TraceIndex, join
from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.model import sets
from tracekit.model.arrow import I64
from tracekit.model.display import plural
from tracekit.model.schema import API_CALLS, DEVICE_WORK

__all__ = ["COLUMNS", "STREAM_WAITS", "LaunchedWork", "blocking_calls", "launches_of", "named"]

COLUMNS = frozenset({"ts_ns", "dur_ns", "kind", "source", "pid", "correlation"})


@dataclass(frozen=True, slots=True)
class LaunchedWork:
    """Launch calls of m device rows. launch: shape (m,), the row of EVENTS of each one's call; -1 for an orphan.

    first: shape (m,): whether it is the first work of its call (by start); false for orphans. calls: API calls in the
    trace. graphs: calls that launched more than one. duplicates: calls with the id of an earlier one.
    """

    launch: I64
    first: npt.NDArray[np.bool_]
    calls: int
    graphs: int
    orphans: int
    duplicates: int

    def notes(self, what: str = "row of device work") -> list[str]:
        """Return sentences on orphans and on calls that launched several."""
        out = []
        if self.orphans and self.orphans == self.launch.size:
            why = "the trace has no runtime or driver call with its correlation id"
            out.append(f"the launch calls of the device work are unknown: {why}")
        elif self.orphans:
            rows = f"{self.orphans:,} of {self.launch.size:,} {what.replace('row ', 'rows ', 1)}"
            out.append(f"{rows} have no launch call in the trace")
        if self.graphs:
            calls = plural(self.graphs, "call")
            out.append(f"{calls} launched more than one (CUDA graphs): their time is charged to the first work of each")
        return out


def launches_of(index: TraceIndex, rows: I64) -> LaunchedWork:
    """Return the launch of each of these rows of EVENTS, device work in the order of the trace."""
    if np.array_equal(rows, index.pick(DEVICE_WORK).rows):
        return _launches_of_all(index)
    return _joined(index, rows)


@join
def _launches_of_all(index: TraceIndex) -> LaunchedWork:
    return _joined(index, index.pick(DEVICE_WORK).rows)


def _joined(index: TraceIndex, rows: I64) -> LaunchedWork:
    calls = np.flatnonzero(index.kind_mask(API_CALLS))
    known = index.has("correlation")
    # A column with one number for all rows tells none apart.
    columns = (index.ints(name) for name in ("source", "pid", "correlation"))
    keys = (*(column for column in columns if column.strides != (0,)), index.has("pid"))
    found = link_columns(keys, calls, rows, known=known)
    launch = np.append(calls, -1)[found.launch] if calls.size else np.full(rows.size, -1, np.int64)
    linked = np.flatnonzero(found.launch >= 0)
    first_of_call = np.full(calls.size, -1, np.int64)
    # Rows are in order of start: the first that names a call is its first work. It is written last.
    first_of_call[found.launch[linked[::-1]]] = linked[::-1]
    first = np.zeros(rows.size, np.bool_)
    first[first_of_call[first_of_call >= 0]] = True
    graphs = int(np.count_nonzero(found.work > 1))
    return LaunchedWork(launch, first, int(calls.size), graphs, found.orphans, found.duplicates)


# Calls in which the host waits for a device, by name. The tables are data.
#
# Sources: the synchronization behaviour of the CUDA runtime ("API synchronization behavior" in its reference:
# cudaMemcpy and cudaMemset to host memory, cudaFree), its driver names (cuMemcpyHtoD_v2) and HIP's (hipMemcpyWithStream
# waits for its stream). An asynchronous copy from or to pageable memory waits as well: its call ends after the copy
# itself, which only the times tell.


Mask = npt.NDArray[np.bool_]

WAITS = lazy_pattern(
    r"^(?:cuda|cu|hip|mu|musa)(?:"
    r"\w*Synchronize(?:_\w+)?"
    r"|Memcpy(?!\w*Async)\w*"
    r"|Free(?!Async)(?:Host|Array)?(?:_v\d+)?|MemFree(?!Async)(?:Host)?(?:_v\d+)?"
    r")$"
)
STREAM_WAITS = lazy_pattern(
    r"^(?:cuda|cu|hip|mu|musa)StreamWait(?:Event|Value)\w*$|^Stream [Ww]ait (?:[Ee]vent|[Ss]ync)$"
)
"""A stream waits for another: the call, and the rows of kind sync that Kineto and nsys write of it."""


def named(index: TraceIndex, rows: I64, pattern: re.Pattern[str]) -> Mask:
    """Return for each of these rows whether its name fits."""
    codes, names = index.texts("name")
    fits = np.zeros(len(names) + 1, np.bool_)
    mine = codes[rows]
    used = distinct(mine[mine >= 0], len(names))
    fits[used] = [pattern.match(names[i]) is not None for i in used.tolist()]
    found: Mask = fits[mine]
    return found


def blocking_calls(index: TraceIndex, work: I64, work_ends: I64, launched: LaunchedWork) -> I64:
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
    found: I64 = sets.union(waits, launch[ends >= work_ends[copies]])
    return found

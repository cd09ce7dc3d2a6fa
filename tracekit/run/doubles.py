"""Processes of which two inputs have device work of the same time: most likely two profiles of one run count twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from tracekit import schema
from tracekit.analysis.segments import rows_by
from tracekit.columns import arrow
from tracekit.run.joining import LARGEST_PID
from tracekit.run.same_process import FIRST_ORDINARY_PID, differ
from tracekit.trace import Ledger, Note, Run

COLUMNS = frozenset({"ts_ns", "dur_ns", "pid", "rank", "device", "stream"})
"""Columns of EVENTS that are looked at."""
CODE = "process-twice"


@dataclass(slots=True)
class _Work:
    """Device work of one process in one input: first start and last end in ns, and the ranks of the rows."""

    first: int
    last: int
    ranks: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Seen:
    run: Run
    group: int
    processes: dict[int, _Work] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the input for people."""
        return self.run.sources[0].label or Path(self.run.sources[0].path).name

    @property
    def host(self) -> str:
        """The host that the input states, "" for none."""
        facts = self.run.sources[0].facts
        host = facts.get("host") or facts.get("host_name") or ""
        return host if isinstance(host, str) else ""


class Doubles:
    """Watches the rows of the inputs of a run while they pass."""

    def __init__(self) -> None:
        self._whole: list[_Seen] = []

    def watched(
        self, batches: Iterator[pa.RecordBatch], run: Run, ledger: Ledger, group: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an input; after the last one its ledger has a note for each process that is here twice.

        group: inputs of one group share a clock; the rows are on it.
        """
        seen = _Seen(run, group)
        for batch in batches:
            if not schema.is_totals(batch) and batch.num_rows and set(batch.schema.names) >= COLUMNS:
                _look(batch, seen.processes)
            yield batch
        for other in self._whole:
            both = [pid for pid in sorted(seen.processes.keys() & other.processes) if _overlap(seen, other, pid)]
            if both:
                pids = ", ".join(map(str, both[:3])) + (" ..." if len(both) > 3 else "")
                text = (
                    f"{other.name} has device work of process {pids} too, at the same time: "
                    "if both are profiles of one run, what both recorded counts twice"
                )
                ledger.notes[CODE] = Note(CODE, text, len(both))
        self._whole.append(seen)


def _look(batch: pa.RecordBatch, found: dict[int, _Work]) -> None:
    on_device = arrow.valid(batch.column("device")) | arrow.valid(batch.column("stream"))
    rows = np.flatnonzero(on_device & arrow.valid(batch.column("pid")))
    if not rows.size:
        return
    pids, starts = arrow.ints(batch.column("pid"))[rows], arrow.ints(batch.column("ts_ns"))[rows]
    ends = starts + arrow.ints(batch.column("dur_ns"))[rows]
    ranks = np.where(arrow.valid(batch.column("rank")), arrow.ints(batch.column("rank")), -1)[rows]
    for pid, mine in rows_by(pids):
        if FIRST_ORDINARY_PID <= pid <= LARGEST_PID:
            first, last = int(starts[mine].min()), int(ends[mine].max())
            work = found.setdefault(pid, _Work(first, last))
            work.first, work.last = min(work.first, first), max(work.last, last)
            work.ranks.update(rank for rank in np.unique(ranks[mine]).tolist() if rank >= 0)


def _overlap(one: _Seen, other: _Seen, pid: int) -> bool:
    """Return whether two inputs may have the same work of a process: nothing says that it is of two."""
    first, second = one.processes[pid], other.processes[pid]
    ranks_differ = bool(first.ranks) and bool(second.ranks) and not first.ranks & second.ranks
    together = one.group == other.group and first.first < second.last and second.first < first.last
    return together and not ranks_differ and not differ(one.host, other.host)

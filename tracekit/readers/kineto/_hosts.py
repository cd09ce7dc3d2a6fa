"""The processes that device rows belong to: one in a file of Kineto, several where a tool joined the files of ranks.

Device rows have pid = device, and only the file says which process launched them. Tools that join files
(SGLang's ProfileMerger) put a label before each pid, "[TP00] 4711" and "[TP00] 0": then the label says it. Others keep
the pids as they are: then the process is not known, and the rows have no pid.
A label names the rank too (`events.RankLabels`).

The process that launches is the one that calls the runtime or driver. Others may have ranges and frames in the file
too, and do not make it one of several. Without any such call all processes with rows of the host count.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.readers.builder import FIRST_TEXT_ID
from tracekit.readers.trace_event import events
from tracekit.readers.trace_event.plan import MOVABLE
from tracekit.readers.trace_event.rows import Rows
from tracekit.trace import Ledger, Run


class Hosts:
    """The host processes of one file, by their label. first: the one that the file's rank is of."""

    def __init__(self, run: Run, source: int, ledger: Ledger) -> None:
        self._run, self._source, self._ledger = run, source, ledger
        self._by_label: dict[str, set[int]] = {}
        self._noted = False
        self.calls = False
        """Whether a call has been seen."""
        self.devices: dict[int, int] = {}
        """Device by labelled pid."""
        self.first: int | None = None
        self.several = False
        self.ranks = events.RankLabels(run, source)

    def _label(self, pid: int) -> str:
        return self.ranks.label(pid)

    def see(self, callers: I64, pids: I64) -> None:
        """Take the pids of calls of the runtime or driver, and those of all rows of the host."""
        if len(callers) and not self.calls:
            self.calls, self.first, self.several = True, None, False
            self._by_label.clear()
        if self.calls:
            pids = callers
        if self.first is not None and bool((pids == self.first).all()):
            return  # as almost always
        for pid in np.unique(pids).tolist():
            self._by_label.setdefault(self._label(pid), set()).add(pid)
        if self.first is None and len(pids):
            self.first = int(pids[0])
        self.several = sum(map(len, self._by_label.values())) > 1

    def note(self) -> None:
        """Put a note into the ledger where device rows are of several processes."""
        if self.several and not self._noted:
            self._noted = True
            self._ledger.note(
                "joined-files",
                "host ranges are of several processes: files joined into one. The rank is "
                + ("in the label before each pid" if self.ranks.names() else "that of the first process")
                + ", and device work has no process where no label before its pid has it",
            )

    def see_devices(self, pids: I64, devices: I64) -> None:
        """Take the pids of device rows, and the devices that they state."""
        if not len(pids) or int(pids.max()) < FIRST_TEXT_ID:
            return
        pairs, at = np.unique(np.column_stack((pids, devices)), axis=0, return_index=True)
        for pid, device in pairs[np.argsort(at)].tolist():
            if self._label(pid):
                self.devices.setdefault(pid, device)

    def of(self, pids: I64) -> tuple[I64, Mask]:
        """Return the host of device rows by their pids in the file, and which are known."""
        if not self.several:
            return np.full(len(pids), self.first or 0), np.full(len(pids), self.first is not None)
        known_pids, place = np.unique(pids, return_inverse=True)
        found = []
        for pid in known_pids.tolist():
            own = self._by_label.get(self._label(pid), set())
            found.append(next(iter(own)) if len(own) == 1 else -1)
        hosts = np.array(found, np.int64)[place]
        return hosts, hosts >= 0

    def move_arrows(self, rows: Rows) -> None:
        """Move arrows that end on a labelled device to the lane of its rows."""
        pid, known = rows.ints("pid")
        moved = rows.has(MOVABLE) & known & np.isin(pid, list(self.devices))
        if not moved.any():
            return
        columns, count = rows.columns, rows.count
        device = arrow.array([self.devices.get(p) for p in pid[moved].tolist()], pa.int32())
        old = {n: events.filled(columns.get(n), count, pa.int64()) for n in ("pid", "tid", "stream")}
        at = arrow.array(np.cumsum(moved) - 1, mask=~moved)
        columns["device"] = events.where(
            moved, device.take(at), events.filled(columns.get("device"), count, pa.int32())
        )
        columns["stream"] = events.where(moved, old["tid"], old["stream"])
        columns["tid"] = events.where(moved, arrow.nulls(count, pa.int64()), old["tid"])
        host, found = self.of(pid)
        columns["pid"] = events.where(moved, arrow.array(host, mask=~found), old["pid"])

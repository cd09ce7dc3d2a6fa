"""Duplicates among the inputs: a file by two names, copies byte for byte, two profiles of one process.

A file by two names is read once. Copies, and processes of which two inputs have device work of the same time, are read:
two runs may print the same. A note says that they most likely count twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from filecmp import cmp
from pathlib import Path

import numpy as np
import pyarrow as pa

from tracekit.analysis.segments import rows_by
from tracekit.inputs.clocks.one_process import LARGEST_PID
from tracekit.inputs.clocks.same_process import FIRST_ORDINARY_PID, differ
from tracekit.inputs.paths import Input, files_of
from tracekit.inputs.stages import Stage
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema, sets
from tracekit.model.trace import Ledger, Note, Run

__all__ = ["ProcessesTwice", "same_bytes", "without_copies"]

HEAD_BYTES = 1 << 12
"""Files of one size are compared whole where these first bytes are the same."""
COLUMNS = frozenset({"ts_ns", "dur_ns", "pid", "rank", "device", "stream"})
"""Columns of EVENTS that are looked at."""
CODE = "process-twice"


def without_copies(items: Sequence[Input]) -> tuple[list[Input], dict[int, list[str]]]:
    """Return the inputs without repeated ones, and the names of the repeated ones by the number of the first.

    A file by two names is one file; a copy of it is not: two runs may print the same. An input that the user gave
    another NAME stays.
    """
    kept: list[Input] = []
    again: dict[int, list[str]] = {}
    found: dict[tuple[str, int, int], int] = {}
    for item in items:
        try:
            path = Path(item.name)
            status = path.stat() if path.is_file() else None
        except (OSError, ValueError):
            status = None
        if status is not None and status.st_ino and status.st_size:
            first = found.setdefault((item.label, status.st_dev, status.st_ino), len(kept))
            if first < len(kept):
                again.setdefault(first, []).append(item.name)
                continue
        kept.append(item)
    return kept, again


def same_bytes(items: Sequence[Input]) -> dict[int, list[str]]:
    """Return the names of inputs that are copies of an earlier one, byte for byte, by the number of that one.

    They count: two runs of a program that prints little may print the same. An input with a NAME is meant as it is.
    """
    first: dict[tuple[int, bytes], int] = {}
    found: dict[int, list[str]] = {}
    sizes: dict[int, list[int]] = {}
    for number, item in enumerate(items):
        with suppress(OSError, ValueError):
            # Two runs of one program may have the same texts, and an export in a folder is named by its texts.
            whole = len(files_of(Path(item.name))) == 1
            if whole and not item.label and Path(item.name).is_file() and (size := Path(item.name).stat().st_size):
                sizes.setdefault(size, []).append(number)
    for size, numbers in sizes.items():
        for number in numbers if len(numbers) > 1 else ():
            with suppress(OSError):
                with Path(items[number].name).open("rb") as file:
                    key = size, file.read(HEAD_BYTES)
                other = first.setdefault(key, number)
                if other != number and cmp(items[other].name, items[number].name, shallow=False):
                    found.setdefault(other, []).append(items[number].name)
    return found


@dataclass(slots=True)
class _ProcessWork:
    """Device work of one process in one input: first start and last end in ns, and the ranks of the rows."""

    first: int
    last: int
    ranks: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _WatchedInput:
    """The device work of one input that has passed. group: of inputs that share a clock."""

    run: Run
    group: int
    processes: dict[int, _ProcessWork] = field(default_factory=dict)

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


class ProcessesTwice:
    """Watches the rows of the inputs of a run while they pass."""

    def __init__(self) -> None:
        self._whole: list[_WatchedInput] = []

    def stage(self, run: Run, ledger: Ledger, group: int) -> Stage:
        """Return the stage of an input; after its last row its ledger has a note for each process that is here twice.

        group: inputs of one group share a clock; the rows are on it.
        """
        seen = _WatchedInput(run, group)

        def take(batch: pa.RecordBatch) -> pa.RecordBatch:
            if not schema.is_totals(batch) and batch.num_rows and set(batch.schema.names) >= COLUMNS:
                _look(batch, seen.processes)
            return batch

        def end() -> None:
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

        return Stage("processes twice", take, end)


def _look(batch: pa.RecordBatch, found: dict[int, _ProcessWork]) -> None:
    on_device = arrow.valid(batch.column("device")) | arrow.valid(batch.column("stream"))
    rows = np.flatnonzero(on_device & arrow.valid(batch.column("pid")))
    if not rows.size:
        return
    pids, starts = arrow.ints(batch.column("pid"))[rows], arrow.ints(batch.column("ts_ns"))[rows]
    ends = starts + arrow.ints(batch.column("dur_ns"))[rows]
    ranks = arrow.ints(batch.column("rank"), -1)[rows]
    for pid, mine in rows_by(pids):
        if FIRST_ORDINARY_PID <= pid <= LARGEST_PID:
            first, last = int(starts[mine].min()), int(ends[mine].max())
            work = found.setdefault(pid, _ProcessWork(first, last))
            work.first, work.last = min(work.first, first), max(work.last, last)
            work.ranks.update(rank for rank in sets.unique(ranks[mine]).tolist() if rank >= 0)


def _overlap(one: _WatchedInput, other: _WatchedInput, pid: int) -> bool:
    """Return whether two inputs may have the same work of a process: nothing says that it is of two."""
    first, second = one.processes[pid], other.processes[pid]
    ranks_differ = bool(first.ranks) and bool(second.ranks) and not first.ranks & second.ranks
    together = one.group == other.group and first.first < second.last and second.first < first.last
    return together and not ranks_differ and not differ(one.host, other.host)

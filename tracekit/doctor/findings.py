"""The parts of a diagnosis: findings, with their examples and the time that they concern."""

from __future__ import annotations

from dataclasses import field

import numpy as np
import pyarrow as pa

from tracekit.analysis.intervals import union_length
from tracekit.credentials import masked
from tracekit.doctor.defects import DEFECTS, Defect
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import I64, Mask
from tracekit.model.trace import LedgerJson

__all__ = ["EXAMPLES", "Diagnosis", "Example", "FoundDefect", "Gathered", "gather"]

EXAMPLES = 3
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Example:
    """One place of a defect. where: "event 12", "line 40". text: the name of the event, "" where it is not known."""

    where: str
    text: str = ""

    def __str__(self) -> str:
        return f'{self.where} "{self.text}"' if self.text else self.where


@dataclass(slots=True)
class FoundDefect:
    """The records of one input that have one defect.

    count: records, or other places where it occurs. time_ns: ns that these records cover (their union), None where the
    records have no times. share: part of the span of the trace, 0..1. text: the words of the reader, for notes.
    rows: numbers of the records, where they are known; not in the JSON.
    """

    defect: Defect
    count: int
    examples: list[Example] = field(default_factory=list)
    time_ns: int | None = None
    share: float | None = None
    text: str = ""
    rows: I64 = field(default_factory=lambda: _NONE)
    is_viewed: bool = True
    """Viewers read such a file themselves; of a cut CSV there is nothing to say about them."""

    def viewers(self) -> dict[str, str]:
        """Return what each viewer does with it, where it gets to see it."""
        return self.defect.viewers() if self.is_viewed else {}

    def to_json(self) -> dict[str, object]:
        """Return the public form."""
        return {
            "code": self.defect.code,
            "title": self.defect.title,
            "meaning": self.defect.meaning,
            "count": self.count,
            "examples": [{"where": each.where, "text": each.text} for each in self.examples],
            "text": self.text,
            "time_ns": self.time_ns,
            "share": self.share,
            "viewers": self.viewers(),
            "fix": self.defect.fix,
        }


@dataclass(slots=True)
class Gathered:
    """The rows with one defect, as they come batch by batch. Memory: 24 bytes a row."""

    code: str
    _numbers: list[I64] = field(default_factory=list)
    _starts: list[I64] = field(default_factory=list)
    _ends: list[I64] = field(default_factory=list)
    examples: list[tuple[int, str]] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch, mask: Mask) -> None:
        """Take the rows of a batch for which the mask is set."""
        if mask.any():
            rows = np.flatnonzero(mask)
            names = batch.column("name")
            self.take(
                arrow.ints(batch.column("event_id"))[rows],
                arrow.ints(batch.column("ts_ns"))[rows],
                arrow.ints(batch.column("dur_ns"))[rows],
                [names[row].as_py() or "" for row in rows[:EXAMPLES].tolist()],
            )

    def take(self, numbers: I64, starts: I64, durations: I64, names: list[str]) -> None:
        """Take rows as arrays of shape (n,); names: those of the first rows."""
        self._numbers.append(numbers)
        self._starts.append(starts)
        self._ends.append(starts + np.maximum(durations, 0))
        more = EXAMPLES - len(self.examples)
        self.examples += list(zip(numbers.tolist(), names, strict=False))[: max(more, 0)]

    def join(self, other: Gathered) -> None:
        """Take the rows of another one."""
        self._numbers += other._numbers
        self._starts += other._starts
        self._ends += other._ends
        self.examples = [*self.examples, *other.examples][:EXAMPLES]

    def numbers(self) -> I64:
        """Return the numbers of the records."""
        return np.concatenate(self._numbers) if self._numbers else _NONE

    def finding(self, word: str, span_ns: int) -> FoundDefect | None:
        """Return the finding, None without rows. word: what the format calls a record. span_ns: of the trace."""
        if not self._numbers:
            return None
        rows = self.numbers()
        time = union_length(np.concatenate(self._starts), np.concatenate(self._ends))
        return FoundDefect(
            DEFECTS[self.code],
            len(rows),
            [Example(f"{word} {number}", masked(name)) for number, name in self.examples],
            time,
            time / span_ns if span_ns > 0 else None,
            rows=rows,
        )


@dataclass(slots=True)
class Diagnosis:
    """The defects and remarks of one input.

    events: rows read. span_ns: from the first start to the last end. ledger: what became of each record.
    """

    path: str
    format: str
    findings: list[FoundDefect]
    remarks: list[FoundDefect]
    events: int
    totals: int
    span_ns: int
    ledger: LedgerJson

    @property
    def is_clean(self) -> bool:
        """Return whether there is no defect."""
        return not self.findings

    def to_json(self) -> dict[str, object]:
        """Return the public form, one of the `inputs` of `tracekit doctor --format json`."""
        return {
            "path": self.path,
            "format": self.format,
            "clean": self.is_clean,
            "events": self.events,
            "totals": self.totals,
            "span_ns": self.span_ns,
            "defects": [each.to_json() for each in self.findings],
            "remarks": [each.to_json() for each in self.remarks],
            "ledger": self.ledger,
        }


def gather(found: dict[str, Gathered], code: str, batch: pa.RecordBatch, mask: Mask) -> None:
    """Add the rows of a batch that have a defect to those of the same class, if there are any."""
    if mask.any():
        found.setdefault(code, Gathered(code)).add(batch, mask)

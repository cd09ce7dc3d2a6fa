"""Writing a trace without the defects of its input, with a list of every change.

The input is read a second time. Rows with a defect are changed by the repair of its class, or left out. The reader has
repaired the text before, and the writer gives each track slices that nest, small ids and times that viewers keep.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import field
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
from isal import igzip

from tracekit._version import __version__
from tracekit.arguments import checked
from tracekit.conversion import writer_for
from tracekit.credentials import masked
from tracekit.doctor.diagnosis import USUAL, DoctorOptions, Examined, begin, examine, sources
from tracekit.doctor.findings import Diagnosis
from tracekit.doctor.rows import RowGroup
from tracekit.errors import Option, OutputExistsError, UsageError, sentence
from tracekit.inputs import refuse_inputs, steps
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema, sets
from tracekit.model.args import with_member
from tracekit.model.arrow import I64, Mask
from tracekit.model.schema import Kind
from tracekit.readers.source import Source
from tracekit.safety.anonymize import CODE, Guard
from tracekit.writers.base import RowStream, WriteOptions, Writer, new_file

__all__ = ["Repair", "repair"]

# The repairs of rows: which rows change, how, and a line in the list of changes for each.


_GAP_NS = 10**6
"""Between groups of events that were moved next to each other."""
_BY_THE_WRITER = {
    "overlapping-slices": "moved to an extra track",
    "coarse-times": "written from the first event on",
    "wide-id": "written with a small id",
    "negative-duration": "written with the duration 0",
    "bad-escape": "written as valid JSON",
}
"""Changes that the reader and the writer make, by class."""
_OPEN = frozenset({"no-duration", "null-time", "bad-time", "unmatched-begin"})
_MOMENTS = frozenset({Kind.MARK, Kind.COUNTER, Kind.FLOW, Kind.MEMORY})
_WITHOUT_DURATION = ("zero-duration", "covered-work")
_WITHOUT_LAUNCH = ("orphan-work", "orphan-launch", "clock-skew", "duplicate-id", "missing-table")

Line = Callable[[dict[str, object]], None]
"""Takes one change for the list."""


@dataclass(slots=True)
class Changes:
    """Repairs rows batch by batch.

    codes: all classes of defects that the input has. rows: class -> numbers of the records with that defect. points:
    numbers of the ends of bad arrows. groups: events that lie far from each other. word: what the format calls a
    record.
    """

    codes: set[str]
    rows: dict[str, I64]
    points: I64
    groups: Sequence[RowGroup]
    word: str
    line: Line
    counts: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    _changed: list[I64] = field(default_factory=list)

    def changed(self) -> int:
        """Return the number of records of which a row was changed."""
        return len(sets.unique(np.concatenate(self._changed))) if self._changed else 0

    def apply(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the repaired rows, in the same order of start."""
        shifts = _shifts(self.groups)
        for batch in batches:
            if schema.is_totals(batch) or not batch.num_rows:
                yield batch
                continue
            kept = self._without_points(batch)
            yield self._repaired(kept, shifts) if kept.num_rows else kept

    def _without_points(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        kinds = arrow.encoded(batch.column("kind"))
        flow = np.array([text == Kind.FLOW for text in arrow.texts(kinds.dictionary)] or [False])[arrow.codes(kinds)]
        bad = self._those(batch, self.points) & flow
        if not bad.any():
            return batch
        self._list("arrow", batch, bad, "skipped")
        self.dropped += int(bad.sum())
        return batch.filter(pa.array(~bad))

    def _repaired(self, batch: pa.RecordBatch, shifts: tuple[I64, I64] | None) -> pa.RecordBatch:
        for code, text in _BY_THE_WRITER.items():
            if code in self.rows and (mask := self._those(batch, self.rows[code])).any():
                self._list(code, batch, mask, text)
        if self.codes & _OPEN and (mask := self._open(batch)).any():
            self._list("no-duration", batch, mask, "written as a moment: its duration is unknown")
        if "bad-encoding" in self.codes and (mask := _with_replaced(batch)).any():
            self._list("bad-encoding", batch, mask, "bytes that are not UTF-8 became U+FFFD")
        for code in _WITHOUT_DURATION:
            if code in self.rows and (mask := self._those(batch, self.rows[code])).any():
                batch = self._emptied(batch, code, "dur_ns", "measured_dur_ns", mask)
        for code in _WITHOUT_LAUNCH:
            if code in self.rows and (mask := self._those(batch, self.rows[code])).any():
                batch = self._emptied(batch, code, "correlation", "launch_correlation", mask)
        return batch if shifts is None else self._moved(batch, *shifts)

    def _those(self, batch: pa.RecordBatch, numbers: I64) -> Mask:
        found: Mask = np.isin(arrow.ints(batch.column("event_id")), numbers)
        return found

    def _open(self, batch: pa.RecordBatch) -> Mask:
        """Return the ranges without a duration."""
        kinds = arrow.encoded(batch.column("kind"))
        ranges = np.array([text not in _MOMENTS for text in arrow.texts(kinds.dictionary)] or [False])
        found: Mask = ranges[arrow.codes(kinds)] & ~arrow.valid(batch.column("dur_ns"))
        return found

    def _emptied(self, batch: pa.RecordBatch, code: str, column: str, key: str, mask: Mask) -> pa.RecordBatch:
        """Move the values of a column into args, where nothing looks for them."""
        mask = mask & arrow.valid(batch.column(column))
        if not mask.any():
            return batch
        self._list(code, batch, mask, f"{column} moved to args.{key}", column)
        batch = _with_args(batch, mask, key, arrow.ints(batch.column(column)))
        values = batch.column(column)
        return arrow.with_column(batch, column, arrow.array(arrow.ints(values), mask=mask | ~arrow.valid(values)))

    def _moved(self, batch: pa.RecordBatch, begins: I64, shift: I64) -> pa.RecordBatch:
        ts = arrow.ints(batch.column("ts_ns"))
        by = shift[np.maximum(np.searchsorted(begins, ts, "right") - 1, 0)]
        mask = by != 0
        if not mask.any():
            return batch
        self._list("clock-reset", batch, mask, "moved next to the other events", "ts_ns")
        return arrow.with_column(_with_args(batch, mask, "measured_ts_ns", ts), "ts_ns", arrow.array(ts + by))

    def _list(self, code: str, batch: pa.RecordBatch, mask: Mask, change: str, column: str = "") -> None:
        rows = np.flatnonzero(mask)
        numbers = arrow.ints(batch.column("event_id"))[rows]
        if code != "arrow":
            self._changed.append(sets.unique(numbers))
        self.counts[code] = self.counts.get(code, 0) + len(rows)
        names = arrow.take(batch, rows).column("name").to_pylist()
        before = arrow.ints(batch.column(column))[rows].tolist() if column else [None] * len(rows)
        for number, name, value in zip(numbers.tolist(), names, before, strict=True):
            line: dict[str, object] = {
                "record": f"{self.word} {number}",
                "name": name,
                "defect": code,
                "change": change,
            }
            self.line(line | ({"before": value} if column else {}))


def _shifts(groups: Sequence[RowGroup]) -> tuple[I64, I64] | None:
    """Return the first start of each group and the ns by which it is moved, None for a single group.

    The largest group stays; those before and behind it are moved next to it, in their order.
    """
    if len(groups) < 2:
        return None
    main = max(range(len(groups)), key=lambda at: groups[at].count)
    shift = [0] * len(groups)
    for at in range(main + 1, len(groups)):
        shift[at] = groups[at - 1].last_ns + shift[at - 1] + _GAP_NS - groups[at].first_ns
    for at in range(main - 1, -1, -1):
        shift[at] = groups[at + 1].first_ns + shift[at + 1] - _GAP_NS - groups[at].last_ns
    return np.array([group.first_ns for group in groups], np.int64), np.array(shift, np.int64)


def _with_replaced(batch: pa.RecordBatch) -> Mask:
    found = np.zeros(batch.num_rows, np.bool_)
    for name in ("name", "args"):
        column = arrow.encoded(batch.column(name))
        bad = np.array([text is not None and "\ufffd" in text for text in arrow.optional_texts(column.dictionary)])
        if bad.any():
            found |= bad[arrow.codes(column)] & arrow.valid(batch.column(name))
    return found


def _with_args(batch: pa.RecordBatch, mask: Mask, key: str, values: I64) -> pa.RecordBatch:
    """Return the batch with a member in the args of some rows."""
    args = batch.column("args").to_pylist()
    for row in np.flatnonzero(mask).tolist():
        args[row] = with_member(args[row], key, int(values[row]))
    return arrow.with_column(batch, "args", arrow.array(args, pa.string()))


_WRITTEN_ANEW = {"empty-object", "open-list"}
"""Remarks that a viewer stumbles over all the same."""
TARGETS = ("chrome", "perfetto")
_SEARCHED_BYTES = 1 << 20
_OVERLAP_BYTES = 1 << 13
"""Longer than a credential with its key."""
_ESCAPE = re.compile(r"\\u00([2-7][0-9a-fA-F])")


@dataclass(slots=True)
class Repair:
    """The result of a repair. before: the input's diagnosis. after: the output's, None for one that is not read.

    Records: read = kept + changed + merged + facts + sum(ignored) + sum(dropped). changes: class -> rows changed or
    left out. ledger: the file with every change.
    """

    before: Diagnosis
    after: Diagnosis | None
    output: Path
    ledger: Path
    read: int = 0
    kept: int = 0
    changed: int = 0
    merged: int = 0
    facts: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    written: int = 0
    masked: int = 0
    """Values that look like credentials, and that the output has as `[masked]`."""
    has_unread_credentials: bool = False
    """The text of the input has credentials that no row or fact has; a copy would have them too."""

    def to_json(self) -> dict[str, object]:
        """Return the public form: the first line of the ledger file, and `fixed` of `--format json`."""
        return {
            "input": self.before.path,
            "output": self.output.name,
            "ledger": self.ledger.name,
            "read": self.read,
            "kept": self.kept,
            "changed": self.changed,
            "merged": self.merged,
            "facts": self.facts,
            "ignored": dict(sorted(self.ignored.items())),
            "dropped": dict(sorted(self.dropped.items())),
            "changes": dict(sorted(self.changes.items())),
            "written": self.written,
            **({CODE: self.masked} if self.masked else {}),
            "clean": None if self.after is None else self.after.is_clean,
        }


@checked()
def repair(
    name: str,
    target: str | Path,
    options: DoctorOptions = USUAL,
    *,
    to: str = "",
    force: bool = False,
    ledger: str | Path | None = None,
) -> Repair:
    """Write a trace without the defects of an input, and the list of changes; the suffix or `to` names the target.

    ledger: the file for the changes; None: beside the target, with ".ledger.jsonl" behind its name. Each is written
    whole or not at all, the trace first: a kill between the two leaves it without its list.
    Raises: TracekitError.
    """
    target = Path(target)
    listing = target.with_name(f"{target.name}.ledger.jsonl") if ledger is None else Path(ledger)
    writer = writer_for(target, to)
    if writer.name not in TARGETS:
        raise UsageError(
            sentence(Option("fix"), f" writes a trace for viewers, not {writer.name}"),
            hint=sentence("pass ", Option("to", takes="TARGET"), f"; targets: {', '.join(TARGETS)}"),
            choices=TARGETS,
        )
    for path in (target, listing):
        refuse_inputs(path, [name])
        if path.exists() and not force:
            raise OutputExistsError(str(path))
    with sources(name) as source:
        examined = examine(source, name, options)
        if examined.diagnosis.totals and not examined.diagnosis.events:
            raise UsageError(
                f"{examined.diagnosis.path} has only totals, no events: a trace needs a timeline",
                hint="`tracekit summary` shows the totals",
            )
        done = Repair(examined.diagnosis, None, target, listing)
        with new_file(listing, force=force) as changes:

            def line(change: dict[str, object]) -> None:
                changes.write(orjson.dumps(change, default=str) + b"\n")

            stays = _may_stay(examined) and writer.name == "chrome"
            if stays and _has_credentials(source, examined, name, options):
                stays, done.has_unread_credentials = False, True
            if stays:
                _copy(source, target, force=force)
                _add_up(done, examined, None)
            else:
                _write(done, examined, source, name, options, writer, line, force=force)
            if writer.name == "chrome":
                with sources(str(target)) as written:
                    done.after = examine(written, str(target), DoctorOptions()).diagnosis
            line({"summary": {"tracekit": __version__, **done.to_json()}})
    return done


def _may_stay(examined: Examined) -> bool:
    """Return whether the input is a trace in JSON that every viewer takes as it is."""
    remarks = {each.defect.code for each in examined.diagnosis.remarks}
    return examined.reader.trace_events and examined.diagnosis.is_clean and not remarks & _WRITTEN_ANEW


def _has_credentials(source: Source, examined: Examined, name: str, options: DoctorOptions) -> bool:
    """Return whether a copy of the input would have values that look like credentials.

    The text is searched, as it has also what no row has. The rows are searched as well: a text in JSON may be escaped.
    """
    with closing(source.binary()) as text:
        before = b""
        while block := text.read(_SEARCHED_BYTES):
            piece = _unescaped((before + block).decode("utf-8", "replace"))
            if masked(piece) != piece:
                return True
            before = (before + block)[-_OVERLAP_BYTES:]  # a value may begin in one block and end in the next
    reading = begin(source, name, options, sort=examined.sort)
    guard = Guard(reading.opened.run, (reading.ledger, *reading.opened.ledgers[1:]))
    with closing(reading.rows()) as rows:
        for batch in rows:
            guard.rows(batch)
    guard.facts(last=True)
    return any(code.startswith(CODE) for code in reading.ledger.notes)


def _unescaped(text: str) -> str:
    """Return a text with the escapes of ASCII characters in JSON replaced: a credential may be written with them."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text) if "\\u00" in text else text


def _copy(source: Source, target: Path, *, force: bool) -> None:
    """Write the text of a trace without defects as it is; packed where the name of the target ends with .gz."""
    with new_file(target, force=force) as out, closing(source.binary()) as text:
        if not target.name.lower().endswith(".gz"):
            shutil.copyfileobj(text, out, 1 << 20)
            return
        with igzip.IGzipFile(filename="", mode="wb", fileobj=out, compresslevel=1, mtime=0) as packed:
            shutil.copyfileobj(text, packed, 1 << 20)


def _write(
    done: Repair,
    examined: Examined,
    source: Source,
    name: str,
    options: DoctorOptions,
    writer: Writer,
    line: Callable[[dict[str, object]], None],
    *,
    force: bool,
) -> None:
    reading = begin(source, name, options, sort=examined.sort)
    found = {each.defect.code: each.rows for each in examined.diagnosis.findings if len(each.rows)}
    if "clock-skew" in found:
        found["clock-skew"] = np.concatenate((found["clock-skew"], examined.checks.forsaken))
    if len(broken := examined.repaired_json()):
        found["bad-escape"] = broken
    codes = {each.defect.code for each in examined.diagnosis.findings}
    changes = Changes(codes, found, examined.bad_points, examined.checks.groups, examined.reader.record, line)
    ledgers = (reading.ledger, *reading.opened.ledgers[1:])
    with closing(reading.rows()) as rows:
        batches = steps.marked(rows, reading.ledger) if examined.reader.steps else rows
        guard = Guard(reading.opened.run, ledgers)
        stream = RowStream(reading.opened.run, changes.apply(map(guard.rows, batches)), ledgers)
        written = writer.write(stream, done.output, WriteOptions(force=force, version=__version__))
        guard.facts(last=True)
    for code, note in reading.ledger.notes.items():
        if code.startswith(CODE):
            done.masked += note.count
            place = reading.ledger.every[code][0] if reading.ledger.every.get(code) else ""
            line({"record": place, "defect": CODE, "change": note.text, "count": note.count})
    for code, places in reading.ledger.every.items():
        if code in reading.ledger.dropped:
            note = reading.ledger.notes[code]
            for place in places:
                line({"record": place, "defect": code, "change": note.text, "count": note.count})
    done.written, done.output = written.events, written.path
    _add_up(done, examined, changes)
    for reason, count in written.left_out.items():
        done.dropped[reason] = done.dropped.get(reason, 0) + count
        done.kept -= count


def _add_up(done: Repair, examined: Examined, changes: Changes | None) -> None:
    """Put the numbers of records into the result; without changes all are as they were."""
    ledger = examined.ledger
    done.read, done.merged, done.facts = ledger.read, ledger.merged, ledger.facts
    done.ignored, done.dropped = dict(ledger.ignored), dict(ledger.dropped)
    done.kept = ledger.kept
    if changes is None:
        done.written = ledger.events_out
    if changes is not None:
        done.changed, done.changes = changes.changed(), changes.counts
        done.kept -= done.changed
        if changes.dropped:
            done.dropped["arrow with a defect"] = changes.dropped
            done.kept -= changes.dropped

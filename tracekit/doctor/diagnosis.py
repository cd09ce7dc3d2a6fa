"""Reading an input for the doctor: its rows in order of start, its ledger with all places, and the findings."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field

import numpy as np
import pyarrow as pa

from tracekit import options as declared
from tracekit.arguments import checked
from tracekit.doctor import raw as _raw
from tracekit.doctor.defects import OF_JSON_TEXT
from tracekit.doctor.findings import Diagnosis, FoundDefect
from tracekit.doctor.note_classes import findings_of_notes
from tracekit.doctor.raw import FullLedger
from tracekit.doctor.rows import RowChecks
from tracekit.errors import InputError, LimitError, OutOfOrderError, TracekitError
from tracekit.inputs import order
from tracekit.inputs.paths import reader_for, refuse_unknown_options, stored_name
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64
from tracekit.model.trace import Ledger
from tracekit.readers.base import Reader, ReadOptions, ReadResult
from tracekit.readers.source import Source, open_source

__all__ = ["USUAL", "DoctorOptions", "Examined", "begin", "diagnose", "examine", "sources"]

_ARCHIVES = ("parquet", "events-jsonl")
"""Formats that no viewer opens, and that keep rows as they were: what crosses there is checked where they come from."""


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """The way to read an input.

    format: a reader's name, "" lets the content decide. options: `key: value` of the format. progress: called with
    the share done, 0..1.
    """

    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    demangle: bool = True
    progress: Callable[[float], None] | None = None


USUAL = DoctorOptions()


@dataclass(slots=True)
class DoctorReading:
    """One input that is open. ledger: complete when `rows` is exhausted."""

    name: str
    source: Source
    reader: Reader
    options: DoctorOptions
    ledger: FullLedger
    opened: ReadResult
    sort: bool
    count: int = 0

    def rows(self) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows in order of start. Raises: OutOfOrderError where the format's promise of order is false."""
        batches = self.opened.batches
        for batch in order.in_order(batches) if self.sort or not self.opened.ordered else order.checked(batches):
            if self.options.progress is not None:
                self.options.progress(self.source.share_read())
            self._refuse_more(batch.num_rows)
            yield batch
        if self.source.stopped is not None:
            raise LimitError(self.name, self.source.stopped)

    def _refuse_more(self, rows: int) -> None:
        """Count rows. Raises: LimitError beyond a limit: half an input has defects that the whole does not have."""
        self.count += rows
        limits = self.source.limits
        if limits.read_events and self.count > limits.read_events:
            raise LimitError(self.name, limits.at_most_events())
        if (late := limits.late()) is not None:
            raise LimitError(self.name, late)


@contextmanager
def sources(name: str) -> Iterator[Source]:
    """Open an input. Raises: TracekitError."""
    with open_source(name) as source:
        yield source


def begin(source: Source, name: str, options: DoctorOptions, *, sort: bool) -> DoctorReading:
    """Return the reading of an input. Raises: TracekitError."""
    refuse_unknown_options(options.options)
    reader = reader_for(source, options.format)
    own = {spec.key for spec in reader.options}
    given = {key: value for key, value in options.options.items() if key in own}
    values = declared.parse(given, reader.options, owner=reader.name)
    source.stopped = None
    ledger = FullLedger(path=stored_name(name), opened=name, format=reader.name)
    how = ReadOptions(demangle=options.demangle, values=values)
    opened = reader.read(source, how, ledger)
    for facts in opened.run.sources:
        if facts.path == source.name:
            facts.path, facts.opened = stored_name(name), name
        if facts.size_bytes is None:
            facts.size_bytes = source.size_bytes()
    return DoctorReading(name, source, reader, options, ledger, opened, sort)


@dataclass(slots=True)
class Examined:
    """A diagnosis, and what a repair needs of it."""

    diagnosis: Diagnosis
    checks: RowChecks
    ledger: FullLedger
    raw: FullLedger | None
    reader: Reader
    bad_points: I64
    """Numbers of the events that are flow events with defects."""
    sort: bool
    """The rows are not in the order that the format promises."""

    def repaired_json(self) -> I64:
        """Return the numbers of the events whose JSON the reader repaired."""
        places = self.ledger.every.get("mended-json", []) if self.reader.trace_events else []
        return np.array([int(place.removeprefix("event ")) for place in places], np.int64)


@checked()
def diagnose(name: str, options: DoctorOptions = USUAL) -> Diagnosis:
    """Return what is wrong with an input: a path, "-" or a URL. Raises: TracekitError where it cannot be read."""
    with sources(name) as source:
        return examine(source, name, options).diagnosis


def examine(source: Source, name: str, options: DoctorOptions) -> Examined:
    """Return the diagnosis of an open input, with what a repair needs. Raises: TracekitError."""
    for sort in (False, True):
        reading = begin(source, name, options, sort=sort)
        reader = reading.reader
        lanes = not reader.trace_events and reader.name not in _ARCHIVES
        checks = RowChecks(lanes=lanes, parts=reader.trace_events or reader.record == "row")
        try:
            checks.streams.begin(reading.opened.run, 0)
            for batch in reading.rows():
                checks.streams.take(batch)
                checks.see(batch)
        except OutOfOrderError:
            continue
        break
    ledger = reading.ledger
    ledger.check()
    raw: FullLedger | None = None
    found, bad_points = checks.findings(reader.record), np.empty(0, np.int64)
    if reader.trace_events:
        raw = FullLedger(path=ledger.path, format=reader.name)
        of_tracks, bad_points = _tracks(source, ledger, raw)
        found += of_tracks
    source.check_unchanged(ledger, exactly=False)
    ledgers: list[Ledger] = [ledger] if raw is None else [ledger, raw]
    defects, remarks = findings_of_notes(ledgers, found)
    for finding in (*defects, *remarks):
        finding.is_viewed = reader.trace_events or finding.defect.code not in OF_JSON_TEXT
    diagnosis = Diagnosis(
        ledger.path, reader.name, defects, remarks, checks.events, checks.totals, checks.span_ns(), ledger.to_json()
    )
    return Examined(diagnosis, checks, ledger, raw, reader, bad_points, sort)


def _tracks(source: Source, ledger: Ledger, raw: FullLedger) -> tuple[list[FoundDefect], I64]:
    """Return the defects of the tracks in the file, and the points of bad arrows."""
    try:
        return _raw.check(source, raw, per_unit=1 if ledger.notes.keys() & {"ns-in-us", "ns-guessed"} else 1000)
    except InputError:
        raise  # the system fails: what was not looked at has no "no defects"
    except TracekitError:  # pragma: no cover - what the reader could read, this can
        return [], np.empty(0, np.int64)

"""Inputs as a Trace, as a file of a target, or as an inventory: read, convert, write, inspect.

Only what these need is imported: no view, no renderer, and the readers and writers that are asked for. `pipeline` has
the same names beside those of views and reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tracekit._version import __version__
from tracekit.errors import (
    Failure,
    InputError,
    NamedPath,
    Option,
    OutOfOrderError,
    OutputError,
    OutputExistsError,
    UsageError,
    sentence,
)
from tracekit.inputs import USUAL, InputOptions, Inputs, PathLike, refuse_inputs, steps
from tracekit.inputs.covered import RECORD, without_impossible
from tracekit.inputs.inventory import StockJson, incomplete_stock, take_stock
from tracekit.inputs.selection import LEFT_NOTHING
from tracekit.inputs.stages import Stage, through
from tracekit.lazy_dataclass import dataclass
from tracekit.model import schema
from tracekit.model.arrow import Column
from tracekit.model.display import first_few, plural
from tracekit.model.tables import sorted_by_start, unshared
from tracekit.model.trace import Ledger, Run, Trace, concat
from tracekit.options import no_such
from tracekit.safety.anonymize import masked_copy, masked_rows
from tracekit.writers import WRITERS
from tracekit.writers.base import WHOLE, OutputSubset, RowStream, WriteOptions, Writer, Written
from tracekit.writers.overlapped import write_overlapped

if TYPE_CHECKING:
    from tracekit.inputs.summed import BatchSums, SummedTrace

__all__ = ["BATCH_ROWS", "Conversion", "Inspection", "convert", "inspect", "read", "read_summed", "write", "writer_for"]

BATCH_ROWS = 1 << 16


def read(inputs: PathLike | Sequence[PathLike], options: InputOptions = USUAL) -> Trace:
    """Return the trace of one or several inputs (paths, folders, patterns, "-", URLs). Raises: TracekitError."""
    with Inputs(inputs, options) as joined:
        return _collected(joined)


def read_summed(
    inputs: PathLike | Sequence[PathLike], options: InputOptions, sums: Sequence[BatchSums]
) -> SummedTrace | Trace:
    """Return the inputs added up batch by batch, else their trace: where they show what needs all events at once.

    Raises: TracekitError.
    """
    from tracekit.inputs.summed import add_up

    with Inputs(inputs, options) as joined:
        columns = joined.columns(())
        kept = [n for n in schema.EVENTS.names if columns is None or n in columns | {"ts_ns", "dur_ns"}]
        found = add_up(joined, sums, kept)
        return _collected(joined) if found is None else found


def _collected(joined: Inputs) -> Trace:
    events: list[pa.RecordBatch] = []
    totals: list[pa.RecordBatch] = []
    nulls: dict[pa.DataType, Column] = {}
    stream = joined.stream(order=False)
    columns = joined.columns(joined.formats)
    # `step` is still to be set, which takes columns of its own.
    unmarked = joined.unmarked and (columns is None or "step" in columns)
    asked = None if columns is None else columns | {"ts_ns", "dur_ns"}
    needed = asked if asked is None or not unmarked else asked | steps.COLUMNS
    kept = [n for n in schema.EVENTS.names if needed is None or n in needed]
    keep = [n for n in schema.EVENTS.names if n in kept or n in RECORD]
    for batch in stream.batches:
        if schema.is_totals(batch):
            totals.append(batch)
        else:
            events.append(unshared(batch if columns is None else batch.select(keep), nulls))
    failures = joined.bad()
    work = joined.work
    empty = pa.schema([schema.EVENTS.field(n) for n in keep]).with_metadata(schema.EVENTS.metadata)
    summed = concat(totals, schema.TOTALS)
    table = without_impossible(sorted_by_start(events, empty), work, stream.ledgers).select(kept)
    trace = Trace(table, summed, stream.run, stream.ledgers, failures)
    if not unmarked:
        return trace
    marked = steps.marked_table(trace.events).select([n for n in kept if asked is None or n in asked])
    return Trace(marked, trace.totals, trace.run, trace.ledgers, failures)


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion: rows written and left out, facts, a ledger for each source, inputs that failed."""

    written: Written
    run: Run
    ledgers: tuple[Ledger, ...]
    failures: tuple[Failure, ...] = ()

    @property
    def path(self) -> Path:
        """The file that was written."""
        return self.written.path

    def __repr__(self) -> str:
        of_ledgers = [f"  {line}" for ledger in self.ledgers for line in repr(ledger).splitlines()]
        lines = [f"conversion to {self.written!r}", *first_few(of_ledgers, "line")]
        failed = first_few([f"  failed: {each.name}: {each.error}" for each in self.failures], "failure")
        return "\n".join([*lines, *failed])


def writer_for(target: PathLike, to: str = "") -> Writer:
    """Return the writer of that name, or the one whose suffix the target has. Raises: UsageError."""
    if to:
        if to not in WRITERS:
            raise no_such(Option("to"), to, "target", WRITERS)
        return WRITERS[to]
    name = Path(target).name.lower()
    found = [(len(s), w.name) for w in WRITERS.values() for s in w.suffixes if name.endswith(s)]
    if not found:
        raise UsageError(
            "the suffix names no target",
            path=target,
            hint=sentence("pass ", Option("to", takes="TARGET"), f"; targets: {', '.join(sorted(WRITERS))}"),
            choices=sorted(WRITERS),
        )
    return WRITERS[max(found)[1]]


def convert(
    source: PathLike | Sequence[PathLike],
    target: PathLike,
    options: InputOptions = USUAL,
    *,
    to: str = "",
    force: bool = False,
    viewer: str = "",
    label: Callable[[Run, int | None], str] | None = None,
    shape: OutputSubset = WHOLE,
    plain: bool = False,
) -> Conversion:
    """Convert inputs into one file, as a stream: memory does not grow with the input.

    to: a writer's name; "" lets the target's suffix decide. force: replace a file that exists. Nothing is left
    half-written. label: what an archive writes into its file's metadata (`WriteOptions.label`). shape: pieces with an
    index, which is the path of the result, or the longest events alone. plain: rows alone, of a target that can be
    written so. Raises: TracekitError.
    """
    writer = writer_for(target, to)
    if plain and not writer.plain:
        able = ", ".join(each.name for each in WRITERS.values() if each.plain)
        raise UsageError(f"{writer.name} cannot be written as plain rows", hint=f"these can: {able}")
    if Path(target).exists() and not force and not shape.split:
        raise OutputExistsError(str(target))
    if shape != WHOLE:
        from tracekit.writers.split.limit import shaped

        writer = shaped(writer, shape)
    wanted = WriteOptions(force=force, viewer=viewer, version=__version__, label=label, plain=plain)
    with Inputs(source, replace(options, fingerprint=writer.fingerprint, columns=None)) as joined:
        refuse_inputs(target, joined.names())
        for sort in (False, True):
            timeline = _Timeline(writer, is_filtered=bool(options.selection))
            stream = joined.stream(order=True, sort=sort, then=[timeline.stage()])
            timeline.set_ledgers(stream.ledgers)
            joined.bad()
            try:
                written = write_overlapped(writer, stream, Path(target), wanted)
            except OutOfOrderError:
                continue  # the format's promise was false for this file: once more, sorted on disk
            return Conversion(_counted(written, stream), stream.run, stream.ledgers, joined.bad())
    raise OutputError("the rows cannot be brought into order", path=target)  # pragma: no cover - the sort gives order


def write(trace: Trace, target: PathLike, *, to: str = "", force: bool = False, viewer: str = "") -> Written:
    """Write a trace into a file; the suffix or `to` names the target. Raises: TracekitError."""
    batches = map(masked_rows, [*trace.totals.to_batches(), *trace.events.to_batches(max_chunksize=BATCH_ROWS)])
    # A trace may be made by hand. Ledgers of its own: what a file did not take is no fact of the trace.
    writer, ledgers = writer_for(target, to), tuple(map(copy, trace.ledgers))
    stages = [_Timeline(writer, ledgers).stage()]
    stream = RowStream(masked_copy(trace.run), through(batches, stages), ledgers)
    options = WriteOptions(force, viewer, __version__)
    return _counted(write_overlapped(writer, stream, Path(target), options), stream)


def _counted(written: Written, stream: RowStream) -> Written:
    """Put what was written into the ledger of a single source."""
    if len(stream.ledgers) == 1:
        stream.ledgers[0].written = written.events + written.totals
        stream.ledgers[0].left_out = dict(written.left_out)
    return written


@dataclass(slots=True)
class _Timeline:
    """The check that a writer of timelines gets events: durations without starts are never unfolded into invented ones.

    ledgers: of what is written; the first one names it.
    """

    writer: Writer
    ledgers: tuple[Ledger, ...] = ()
    is_filtered: bool = False
    _events: int = 0
    _totals: int = 0
    _has_ended: bool = False

    def stage(self) -> Stage:
        """Return the check as a stage."""
        return Stage("has a timeline", self._count, self._refuse)

    def _count(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if schema.is_totals(batch):
            self._totals += batch.num_rows
        else:
            self._events += batch.num_rows
        return batch

    def set_ledgers(self, ledgers: tuple[Ledger, ...]) -> None:
        """Set the ledgers of what is written. A single input that leaves no batch has ended before they are known."""
        self.ledgers = ledgers
        if self._has_ended:
            self._refuse_filtered_to_nothing()

    def _refuse(self) -> None:
        self._has_ended = True
        self._refuse_filtered_to_nothing()
        self._refuse_totals_alone()

    def _refuse_filtered_to_nothing(self) -> None:
        if not self.is_filtered or self._events or self._totals or not any(each.filtered for each in self.ledgers):
            return
        notes = {ledger.name_in_errors: ledger.notes.get(LEFT_NOTHING) for ledger in self.ledgers if ledger.filtered}
        said = {path: note.text for path, note in notes.items() if note is not None}
        if len(set(said.values())) > 1:
            text = "no event passes the filters; " + "; ".join(
                first_few([f"{Path(path).name}: {each.partition(': ')[2]}" for path, each in said.items()], "input")
            )
        else:
            text = next(iter(said.values()), "no event passes the filters")
        hint = "no file was written; `tracekit inspect` counts the events of each kind"
        raise InputError(text, path=next(iter(notes)), hint=hint)

    def _refuse_totals_alone(self) -> None:
        if self._totals and not self._events and self.writer.holds == "events":
            path = self.ledgers[0].name_in_errors if self.ledgers else "the trace"
            raise UsageError(
                sentence(NamedPath(path), f" has only totals, no events: {self.writer.name} needs a timeline"),
                hint=sentence("`tracekit summary` shows the totals; ", Option("to", "parquet"), " keeps them"),
            )


@dataclass(frozen=True, slots=True)
class Inspection:
    """The inventory of each input, as the documented JSON of `tracekit inspect`, and the inputs that failed.

    names: the whole names of the inputs, for errors.
    """

    inputs: tuple[StockJson, ...]
    failures: tuple[Failure, ...]
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = [
            f"  {each['path']} ({each['format']}): {plural(each['events'], 'event')}, {plural(each['totals'], 'total')}"
            for each in self.inputs
        ]
        failed = first_few([f"  failed: {each.name}: {each.error}" for each in self.failures], "failure")
        return "\n".join([f"inspection of {plural(len(self.inputs), 'input')}", *first_few(lines, "input"), *failed])

    def to_json(self) -> dict[str, object]:
        """Return the documented JSON object."""
        lost = incomplete_stock(self.inputs)
        return {**({"incomplete": lost} if lost else {}), "tracekit": __version__, "inputs": list(self.inputs)}


def inspect(inputs: PathLike | Sequence[PathLike], options: InputOptions = USUAL) -> Inspection:
    """Return what each input is and holds. Streams. Raises: TracekitError."""
    with Inputs(inputs, options) as joined:
        entries, names = [], []
        for opened in joined.each():
            names.append(opened.ledgers[0].name_in_errors)
            entry = take_stock(opened.run, opened.batches, opened.ledgers)
            if opened.original:
                entry["archived_ledgers"] = [ledger.to_json() for ledger in opened.original]
            entries.append(entry)
        return Inspection(tuple(entries), joined.bad(), tuple(names))

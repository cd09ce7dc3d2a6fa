"""Input files: each opened once, and read by the reader of its format as often as that is needed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import chain

import pyarrow as pa

from tracekit import options as declared
from tracekit.errors import Option, TracekitError, sentence
from tracekit.inputs import covered, steps
from tracekit.inputs.options import InputOptions, rank_in
from tracekit.inputs.paths import Input, reader_for, stored_name
from tracekit.inputs.stages import Stage, through
from tracekit.model import arrow, schema
from tracekit.model.arrow import pc
from tracekit.model.trace import Ledger
from tracekit.readers.base import Reader, ReadOptions, ReadResult
from tracekit.readers.source import Source, open_source

__all__ = ["InputFiles", "args_looked_at", "columns_looked_at", "columns_of", "first_start"]


class InputFiles:
    """The files of the inputs. items: as the user named them; copies of one file are taken out by `keep`."""

    def __init__(self, items: Sequence[Input], options: InputOptions) -> None:
        self.items = list(items)
        self._options = options
        self._stack = ExitStack()
        self._sources: dict[int, Source] = {}

    def close(self) -> None:
        """Close all files."""
        self._stack.close()

    def source(self, number: int) -> Source:
        """Return an input, which is opened once. Raises: InputError."""
        if number not in self._sources:
            self._sources[number] = self._stack.enter_context(open_source(self.items[number].name))
        return self._sources[number]

    def share_read(self) -> float:
        """Return the share of all inputs that was read, 0..1."""
        return min(sum(source.share_read() for source in self._sources.values()) / len(self.items), 1.0)

    def reader(self, number: int) -> Reader:
        """Return the reader of an input. Raises: TracekitError."""
        return reader_for(self.source(number), self._options.format)

    def formats(self) -> list[str]:
        """Return the format of each input, "" where it cannot be read."""
        return [self._format(number) for number in range(len(self.items))]

    def _format(self, number: int) -> str:
        with suppress(TracekitError):
            return self.reader(number).name
        return ""

    def shown(self, name: str) -> str:
        """Return the name of an input as outputs have it."""
        stored, anonymizer = stored_name(name), self._options.anonymize
        return stored if anonymizer is None else anonymizer.file(stored)

    def shown_names(self) -> list[str]:
        """Return the name of each input for people: its NAME, else its name as outputs have it."""
        return [item.label or self.shown(item.name) for item in self.items]

    def read(
        self,
        number: int,
        first_source: int,
        columns: frozenset[str] | None,
        args_of: frozenset[str] | None,
        *,
        strict: bool,
    ) -> tuple[Reader, ReadResult, list[Stage]]:
        """Return the reader of an input, what it gives, and the stages for what its name says. Raises: TracekitError.

        columns, args_of: see `ReadOptions`.
        """
        how, item, source = self._options, self.items[number], self.source(number)
        reader = reader_for(source, how.format)
        # Each of several inputs takes the options of its own format.
        own = {spec.key for spec in reader.options} if len(self.items) > 1 else how.options
        given = {key: value for key, value in how.options.items() if key in own}
        values = declared.parse(given, reader.options, owner=reader.name)
        shown, source.stopped = self.shown(item.name), None
        ledger = Ledger(source=first_source, path=shown, opened=item.name, format=reader.name, strict=strict)
        item.note(ledger, self.shown)
        options = ReadOptions(
            source=first_source, demangle=how.demangle, values=values, columns=columns, args_of=args_of
        )
        opened = reader.read(source, options, ledger)
        stages = self._rank_of_name(item.name, opened.ledgers[0])
        for facts in opened.run.sources:
            if facts.path == source.name:
                facts.path, facts.opened = shown, item.name
            facts.label = item.label or facts.label
            if item.session:
                facts.facts = facts.facts | {"session": self.shown(item.session)}
            if facts.size_bytes is None:
                facts.size_bytes = source.size_bytes()
        return reader, opened, stages

    def look(
        self, number: int, first_source: int, columns: frozenset[str], args_of: frozenset[str] | None
    ) -> ReadResult:
        """Return an input whose first batch was read, for a look before its rows are read. Raises: TracekitError."""
        _, opened, stages = self.read(number, first_source, columns, args_of, strict=False)
        batches = through(opened.batches, stages)
        first = next(batches, None)
        return replace(opened, batches=batches if first is None else chain([first], batches))

    def _rank_of_name(self, name: str, ledger: Ledger) -> list[Stage]:
        """Return the stage that gives rows without a rank that of the input's name, where the user asks for it."""
        if not self._options.rank_from:
            return []
        rank = rank_in(name, self._options.rank_from)
        if rank is None:
            text = sentence(
                Option("rank-from"),
                " finds no rank in the name of the input: its rows have the rank that the file states",
            )
            ledger.note("no-rank-in-name", text)
            return []

        def fill(batch: pa.RecordBatch) -> pa.RecordBatch:
            ranks = pc.fill_null(batch.column("rank"), pa.scalar(rank, pa.int32()))
            return arrow.with_column(batch, "rank", ranks)

        return [Stage("rank of the name", fill)]


def first_start(batch: pa.RecordBatch) -> int | None:
    """Return the first start of a batch in ns, None for TOTALS."""
    if schema.is_totals(batch):
        return None
    return (arrow.bounds(batch.column("ts_ns")) or (None,))[0]


def columns_of(options: InputOptions, formats: Collection[str]) -> frozenset[str] | None:
    """Return the columns to keep of inputs of these formats, None for all."""
    named, more = options.columns, options.more_columns
    if named is None or more is None:
        return named
    return named.union(*map(more, formats))


def columns_looked_at(options: InputOptions, name: str) -> frozenset[str] | None:
    """Return the columns that anyone will look at in an input of that format, None for all."""
    named = columns_of(options, [name])
    # A selection needs columns of its own; steps and the order of rows need some that no one named.
    return None if named is None or options.selection else named | steps.COLUMNS | covered.COLUMNS


def args_looked_at(options: InputOptions, name: str) -> frozenset[str] | None:
    """Return the kinds of rows whose `args` anyone will look at in an input of that format, None for all."""
    more = options.more_columns
    every = options.selection or (more is not None and "args" in more(name))
    return None if every else options.args_of

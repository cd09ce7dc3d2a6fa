"""The inputs (files, folders, patterns, URLs, stdin) as one stream of batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import chain
from typing import Self

import pyarrow as pa

from tracekit import options as declared
from tracekit import schema
from tracekit.columns import arrow
from tracekit.errors import AllInputsError, Failure, InputError, Option, TracekitError, command_line, sentence
from tracekit.inputs import steps, together
from tracekit.inputs.looks import Looks, choices
from tracekit.inputs.options import ALL as ALL
from tracekit.inputs.options import USUAL as USUAL
from tracekit.inputs.options import InputOptions as InputOptions
from tracekit.inputs.options import rank_in
from tracekit.inputs.outcome import nothing_read
from tracekit.inputs.paths import Input as Input
from tracekit.inputs.paths import PathLike as PathLike
from tracekit.inputs.paths import expand as expand
from tracekit.inputs.paths import exported as exported
from tracekit.inputs.paths import names_databases as names_databases
from tracekit.inputs.paths import reader_for as reader_for
from tracekit.inputs.paths import refuse_inputs as refuse_inputs
from tracekit.inputs.paths import refuse_unknown_options
from tracekit.inputs.paths import stored_name as stored_name
from tracekit.inputs.together import Begun, Met
from tracekit.privacy.guard import Guard
from tracekit.readers.base import Opened, Reader, ReadOptions
from tracekit.readers.builder import bounded_names
from tracekit.readers.source import Source, open_source
from tracekit.run import covered, device_rows, one_process
from tracekit.run import streams as runs
from tracekit.run.alignment import LAUNCHES, RANGES, Placed
from tracekit.run.covered import StreamWork
from tracekit.run.one_process import Joins
from tracekit.selection import first_rows
from tracekit.trace import ARCHIVED_LEDGERS, STRICT, Ledger, Note, Run
from tracekit.writers.base import Stream


class Inputs:
    """The inputs, opened once; `stream` and `each` read them, as often as they are called.

    A bad input among several is kept in `failures`; a single bad one raises.
    """

    def __init__(self, inputs: PathLike | Sequence[PathLike], options: InputOptions) -> None:
        refuse_unknown_options(options.options)
        self._options = options
        self._stack = ExitStack()
        self._items = expand(inputs)
        self._sources: dict[int, Source] = {}
        self._joins: Joins | None = None
        self._met = Met()
        self._again: dict[int, list[str]] = {}
        self._copies: dict[int, list[str]] = {}
        self.work: StreamWork | None = None
        """The work of streams in what `stream` reads without order, each row before the user's filter."""
        self.failures: list[Failure] = []
        self.formats: set[str] = set()
        """The formats of the stream; for an archive, the formats that were archived."""
        self.unmarked = False
        """The stream has steps, and rows whose `step` is still to be set."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def bad(self) -> tuple[Failure, ...]:
        """Return the inputs that could not be read. Raises: the first one's error, unless the options say `partial`."""
        if self.failures and not self._options.partial:
            raise self.failures[0].error
        return tuple(self.failures)

    def names(self) -> list[str]:
        """Return the names of the inputs."""
        return [item.name for item in self._items]

    def each(self) -> Iterator[Opened]:
        """Yield the inputs one after the other, each on its own clock. Their facts say what they have in common."""
        joins = self._same_processes()
        if len(self._items) == 1 and not self._again:
            return (begun.opened for begun in self._begun(Joins()))
        begun = list(self._begun(Joins()))
        placed = self._clocks(begun, joins, [(b.opened.original or b.opened.ledgers)[0] for b in begun])
        return (each.opened for each in together.with_facts(begun, placed, joins))

    def _begun(self, joins: Joins) -> Iterator[Begun]:
        self.failures.clear()
        first_source = self._options.first_source
        for number, item in enumerate(self._items):
            failed = len(self.failures)
            try:
                first_source = joins.sources.get(number, first_source)
                opened, unmarked = self._open(number, item, first_source, joins)
                # The first batch now: what a file's head says (its clock) must be known before inputs are joined.
                first = next(opened.batches, None)
            except TracekitError as err:
                self._fail(item, err)
                continue
            if len(self.failures) > failed:
                continue
            # An archive may hold several sources; the next input's come after them.
            first_source += max(1, len(opened.run.sources))
            first_ns = None
            if first is not None:
                if not schema.is_totals(first):
                    first_ns = (arrow.bounds(first.column("ts_ns")) or (None,))[0]
                opened = replace(opened, batches=chain([first], opened.batches))
            yield Begun(number, item, opened, first_ns, unmarked)

    def stream(self, *, order: bool, sort: bool = False) -> Stream:
        """Return all inputs as one stream. order: rows come by start; sort: through the sort on disk, also where a
        format promises order.

        While it runs it raises OutOfOrderError when a promise was false.
        """
        joins = self._same_processes()
        self.work = None if order else StreamWork()
        begun = list(self._begun(joins))
        if not begun:
            raise AllInputsError(self.failures)
        if len(self._items) > 1:
            named = [
                (self._shown(b.item.name), b.item.label, b.opened.run.sources, bool(b.opened.original)) for b in begun
            ]
            runs.label_as_named(named)
        opened = [b.opened for b in begun]
        run = opened[0].run if len(self._items) == 1 else Run()
        shown = [self._told(o) for o in opened]
        placed = self._clocks(begun, joins, [ledgers[0] for ledgers in shown])
        if len(self._items) > 1:
            begun = together.on_one_clock(run, begun, placed)
        self.formats = {facts.format for o in opened for facts in o.run.sources}
        self.unmarked = not order and any(b.unmarked for b in begun)
        streams = [self._timed(b, order=order, sort=sort) for b in begun]
        return Stream(
            run, self._joined(run, opened, streams, joins, order=order), tuple(x for each in shown for x in each)
        )

    def _told(self, opened: Opened) -> tuple[Ledger, ...]:
        """Return the ledgers that a user is shown: an archived file read as a whole speaks as its sources did."""
        if opened.original and self._options.selection:
            first = opened.run.sources[0]
            made = [*first.facts.get(ARCHIVED_LEDGERS, []), *(ledger.to_json() for ledger in opened.original)]
            first.facts = first.facts | {ARCHIVED_LEDGERS: made}
        if not opened.original or self._options.selection:
            return opened.ledgers
        for ledger in opened.original if self._options.strict else ():
            for note in ledger.notes.values():
                raise TracekitError(note.sentence(), path=ledger.path, hint=STRICT)
        return opened.original

    def columns(self, formats: Collection[str]) -> frozenset[str] | None:
        """Return the columns to keep of inputs of these formats, None for all."""
        named, more = self._options.columns, self._options.more_columns
        if named is None or more is None:
            return named
        return named.union(*map(more, formats))

    def _looked_at(self, name: str) -> frozenset[str] | None:
        """Return the columns that anyone will look at in an input of that format, None for all."""
        named = self.columns([name])
        # A selection needs columns of its own; steps and the order of rows need some that no one named.
        return None if named is None or self._options.selection else named | steps.COLUMNS | covered.COLUMNS

    def _args_of(self, name: str) -> frozenset[str] | None:
        """Return the kinds of rows whose `args` anyone will look at in an input of that format, None for all."""
        more = self._options.more_columns
        every = self._options.selection or (more is not None and "args" in more(name))
        return None if every else self._options.args_of

    def _same_processes(self) -> Joins:
        """Return which logs and traces are of one process, and find what else inputs have in common."""
        if self._joins is None:
            self._items, self._again = together.without_copies(self._items)
            self._copies = together.same_bytes(self._items) if len(self._items) > 1 else {}
            self._joins, align = Joins(), self._options.align
            if len(self._items) > 1 and self._options.same_process:
                wanted = choices(align, [(item.name, item.label) for item in self._items])
                looks = Looks(self._look_at, [self._format_of(number) for number in range(len(self._items))])
                self._joins = looks.joins() if align.uses(RANGES) else self._joins
                followers = {each.log for each in self._joins.joined}
                self._met = Met(looks.relations(align, followers), looks.launches(wanted, followers), wanted)
            elif len(self._items) == 1 and align.of_first(self._items[0].name, self._items[0].label) == LAUNCHES:
                looks = Looks(self._look_at, [self._format_of(0)])
                self._met = Met(launches=looks.launches([LAUNCHES], ()), choices=[LAUNCHES])
        return self._joins

    def _on_host_clock(self, number: int, opened: Opened) -> Opened:
        """Return an input whose device rows are moved by its own launches, where the user names that method for it."""
        look = self._met.launches.get(number)
        if look is None or self._met.choices[number] != LAUNCHES:
            return opened
        lines = device_rows.repairs(device_rows.within(look))
        if not lines:
            return opened
        first, told = opened.run.sources[0], (opened.original or opened.ledgers)[0]
        if text := device_rows.repair_text(lines):
            told.notes["device-rows-moved"] = Note("device-rows-moved", text, 1)
        moved = device_rows.moved(opened.batches, lines)
        first.facts = first.facts | {device_rows.DEVICE_CLOCKS: [each.facts() for each in lines]}
        return replace(opened, batches=moved, ordered=opened.ordered and not text)

    def _clocks(self, begun: list[Begun], joins: Joins, shown: list[Ledger]) -> dict[int, Placed]:
        """Return the clock of each of several inputs, and put what a user should know into these ledgers."""
        for each, ledger in zip(begun, shown, strict=True):
            for name in self._again.get(each.number, ()):
                text = f"{self._shown(name)} is the same file: it is read once"
                ledger.notes["same-file"] = Note("same-file", text, 1)
            for name in self._copies.get(each.number, ()):
                text = f"{self._shown(name)} has the same bytes: remove it if it is a copy, or its rows count twice"
                ledger.notes["same-bytes"] = Note("same-bytes", text, len(self._copies[each.number]))
        if len(self._items) == 1:
            return {}
        names = [item.label or self._shown(item.name) for item in self._items]
        return together.clocks(begun, joins, self._met, names, shown)

    def _format_of(self, number: int) -> str:
        """Return the format of an input, "" where it cannot be read."""
        with suppress(TracekitError):
            return reader_for(self._source(number), self._options.format).name
        return ""

    def _look_at(
        self, number: int, first_source: int, columns: frozenset[str], args_of: frozenset[str] | None
    ) -> Opened:
        opened = self._reading(number, first_source, columns, args_of, strict=False)[1]
        first = next(opened.batches, None)
        return opened if first is None else replace(opened, batches=chain([first], opened.batches))

    def _shown(self, name: str) -> str:
        """Return the name of an input as outputs have it."""
        stored, anonymizer = stored_name(name), self._options.anonymize
        return stored if anonymizer is None else anonymizer.file(stored)

    def _source(self, number: int) -> Source:
        if number not in self._sources:
            self._sources[number] = self._stack.enter_context(open_source(self._items[number].name))
        return self._sources[number]

    def _reading(
        self,
        number: int,
        first_source: int,
        columns: frozenset[str] | None,
        args_of: frozenset[str] | None,
        *,
        strict: bool,
    ) -> tuple[Reader, Opened]:
        """Return the reader of an input, and what it gives."""
        how, item, source = self._options, self._items[number], self._source(number)
        reader = reader_for(source, how.format)
        # Each of several inputs takes the options of its own format.
        own = {spec.key for spec in reader.options} if len(self._items) > 1 else how.options
        given = {key: value for key, value in how.options.items() if key in own}
        values = declared.parse(given, reader.options, owner=reader.name)
        shown, source.stopped = self._shown(item.name), None
        ledger = Ledger(source=first_source, path=shown, format=reader.name, strict=strict)
        item.note(ledger, self._shown)
        options = ReadOptions(
            source=first_source, demangle=how.demangle, values=values, columns=columns, args_of=args_of
        )
        opened = reader.read(source, options, ledger)
        if how.rank_from:
            opened = self._ranked(opened, item.name)
        for facts in opened.run.sources:
            if facts.path == source.name:
                facts.path, facts.opened = shown, item.name
            facts.label = item.label or facts.label
            if item.session:
                facts.facts = facts.facts | {"session": self._shown(item.session)}
            if facts.size_bytes is None:
                facts.size_bytes = source.size_bytes()
        return reader, opened

    def _ranked(self, opened: Opened, name: str) -> Opened:
        """Return an input whose rows have the rank in its name, where they state none."""
        rank = rank_in(name, self._options.rank_from)
        if rank is None:
            text = sentence(
                Option("rank-from"),
                " finds no rank in the name of the input: its rows have the rank that the file states",
            )
            opened.ledgers[0].note("no-rank-in-name", text)
            return opened
        return replace(opened, batches=runs.ranked(opened.batches, rank))

    def _open(self, number: int, item: Input, first_source: int, joins: Joins) -> tuple[Opened, bool]:
        """Return what the reader made of an input, and whether `step` is still to be set."""
        how, source = self._options, self._source(number)
        name = reader_for(source, how.format).name
        columns, args_of = self._looked_at(name), self._args_of(name)
        if columns is not None and joins.of(number):
            columns |= one_process.COLUMNS
        if columns is not None and self._met.launches:
            columns |= device_rows.COLUMNS
        reader, opened = self._reading(number, first_source, columns, args_of, strict=how.strict)
        opened = self._on_host_clock(number, opened)
        ledger = opened.ledgers[0]
        joins.settle(number, opened.run)
        told = (opened.original or opened.ledgers)[0]
        batches = joins.batches(number, opened.batches, ledger, told)
        if self.work is not None:
            batches = self.work.watched(batches, opened.run, first_source)
        opened = replace(opened, batches=batches, ordered=opened.ordered and not joins.of(number))
        unmarked = reader.steps
        taken = joins.steps(number)
        if taken is not None:
            # The steps of the log are those of the trace's rows too, or the other way round.
            opened = replace(opened, batches=steps.marked(runs.in_order(opened.batches), ledger, taken), ordered=True)
            unmarked = False
        elif unmarked and how.selection:
            # Before the filter, which may take away the steps, or the calls that say where device work belongs.
            opened = replace(opened, batches=steps.marked(runs.in_order(opened.batches), ledger), ordered=True)
            unmarked = False
        guard = Guard(opened.run, (told, *opened.ledgers, *opened.original), how.anonymize)
        guard.facts()
        return replace(opened, batches=self._selected(opened, opened.batches, source, item, guard)), unmarked

    def _selected(
        self, opened: Opened, batches: Iterator[pa.RecordBatch], source: Source, item: Input, guard: Guard
    ) -> Iterator[pa.RecordBatch]:
        """Pass on what the user wants, without credentials; at the end the ledger must add up."""
        ledger = opened.ledgers[0]
        most, seen = source.limits.read_events, 0
        lowest: int | None = None
        highest = 0
        wanted = self._options.selection.steps is not None
        first_step: int | None = None
        last_step = 0
        timed = False
        try:
            for batch in (bounded_names(each, ledger) for each in batches):
                if (shown := self._options.progress) is not None:
                    shown(min(sum(s.share_read() for s in self._sources.values()) / len(self._items), 1.0))
                if (late := source.limits.late()) is not None:
                    source.stop(late)
                if most and seen + batch.num_rows > most:
                    source.stop(source.limits.at_most_events())
                    batch = first_rows(batch, most - seen, ledger)
                seen += batch.num_rows
                if self._options.selection.times_ns and not schema.is_totals(batch):
                    low, high = arrow.bounds(batch.column("ts_ns")) or (0, 0)
                    lowest = low if lowest is None else min(lowest, low)
                    highest = max(highest, high)
                if wanted and not schema.is_totals(batch):
                    timed = True
                    if (steps_there := arrow.bounds(batch.column("step"))) is not None:
                        first_step = steps_there[0] if first_step is None else min(first_step, steps_there[0])
                        last_step = max(last_step, steps_there[1])
                kept = self._options.selection.apply(batch, ledger)
                if kept.num_rows:
                    yield guard.rows(kept)
            guard.facts(last=True)
            if (stop := source.stopped) is not None:
                for each in (ledger, *opened.original[:1]):
                    each.note(stop.code, sentence("the input ", stop.rest()))
                    each.reserve(command_line(stop.rest()))
            exactly = self._options.fingerprint
            for facts in opened.run.sources if exactly else ():
                facts.sha256 = facts.sha256 or source.sha256()
            source.check_unchanged((opened.original or opened.ledgers)[0], exactly=exactly)
        except TracekitError as err:
            self._fail(item, err)
            return
        for each in opened.ledgers:
            each.check()
        if lowest is not None and ledger.filtered and not ledger.kept:
            ledger.note("filter-left-nothing", f"no event passes the filter: they start at {lowest} ns to {highest} ns")
        if first_step is not None and ledger.filtered and not ledger.kept:
            there = f"is step {first_step}" if first_step == last_step else f"are steps {first_step} to {last_step}"
            ledger.note("filter-left-nothing", f"no event passes the filter: there {there}")
        if timed and first_step is None:
            text = sentence(Option("step"), " selects steps, and this trace has none")
            self._fail(item, InputError(text, path=item.name, hint=_NO_STEPS))
        if (nothing := nothing_read(ledger)) is not None:
            self._fail(item, nothing)

    def _fail(self, item: Input, err: TracekitError) -> None:
        if len(self._items) == 1:
            raise err
        self.failures.append(Failure(item.name, err))

    def _timed(self, begun: Begun, *, order: bool, sort: bool) -> Iterator[pa.RecordBatch]:
        opened, batches = begun.opened, begun.opened.batches
        if not order:
            return batches
        batches = runs.in_order(batches) if sort or not opened.ordered else runs.checked(batches)
        return steps.marked(batches, opened.ledgers[0]) if begun.unmarked else batches

    def _joined(
        self, run: Run, opened: list[Opened], streams: list[Iterator[pa.RecordBatch]], joins: Joins, *, order: bool
    ) -> Iterator[pa.RecordBatch]:
        if order:
            yield from runs.merged(streams)
        else:
            for stream in streams:
                yield from stream
        if run is not opened[0].run:
            runs.joined_runs(run, [o.run for o in opened])
            joins.name(run)


_NO_STEPS = sentence(
    Option("time", takes="A:B"),
    " selects by time; ",
    Option("view", "steps"),
    " says which programs record steps",
)

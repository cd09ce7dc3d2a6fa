"""The inputs (files, folders, patterns, URLs, stdin) as one stream of batches: the way of a row, from top to bottom.

    run.csv: read nvprof-csv > cut names > limits > select > mask > source unchanged > account > check order

Each input has a list of stages (`stages.py`). What concerns several inputs (copies, logs and traces of one process,
clocks) is decided before the first row is read (`plan.py`). `Inputs.described` prints the stages of a stream.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, takewhile
from typing import Self

import pyarrow as pa

from tracekit.errors import (
    AllInputsError,
    Failure,
    InputError,
    Option,
    ParseError,
    TracekitError,
    command_line,
    sentence,
)
from tracekit.inputs import execution_traces, reading, steps
from tracekit.inputs import order as ordering
from tracekit.inputs.clocks import launches, one_process
from tracekit.inputs.clocks.alignment import OpenedInput, common_clock, facts_stage, place_inputs, set_joined
from tracekit.inputs.clocks.one_process import Joins
from tracekit.inputs.clocks.placement import LAUNCHES, Placed
from tracekit.inputs.covered import StreamWork
from tracekit.inputs.options import InputOptions
from tracekit.inputs.paths import Input, PathLike, expand, refuse_unknown_options
from tracekit.inputs.plan import RunPlan, plan_run
from tracekit.inputs.reading import InputFiles
from tracekit.inputs.run_facts import join_runs, label_as_named
from tracekit.inputs.selection import SelectionBounds, first_rows
from tracekit.inputs.stages import AnyStage, Stage, WholeStage, described, through
from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import ARCHIVED_LEDGERS, STRICT, Ledger, Note, Run, is_cut
from tracekit.readers.base import ReadResult
from tracekit.readers.builder import bounded_names
from tracekit.readers.source import Source
from tracekit.safety.anonymize import Guard
from tracekit.writers.base import RowStream

__all__ = ["Inputs", "LookedAt"]


@dataclass(frozen=True, slots=True)
class LookedAt:
    """Columns of EVENTS, and the kinds of rows whose `args` are looked at."""

    columns: frozenset[str]
    args_of: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Demands on a stream. order: rows come by start. sort: they are sorted on disk, whatever the format promises.

    then: stages of the caller, behind all others. looked_at: what the caller looks at, None for what the options name.
    """

    order: bool = False
    sort: bool = False
    then: Sequence[Stage] = ()
    looked_at: LookedAt | None = None


class Inputs:
    """The inputs, opened once; `stream` and `each` read them, as often as they are called.

    A bad input among several is kept in `failures`; a single bad one raises.
    """

    def __init__(self, inputs: PathLike | Sequence[PathLike], options: InputOptions) -> None:
        refuse_unknown_options(options.options)
        self._options = options
        self._files = InputFiles(expand(inputs), options)
        self._plan: RunPlan | None = None
        self._described: list[str] = []
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
        self._files.close()

    def bad(self) -> tuple[Failure, ...]:
        """Return the inputs that could not be read. Raises: the first one's error, unless the options say `partial`."""
        if self.failures and not self._options.partial:
            raise self.failures[0].error
        return tuple(self.failures)

    def names(self) -> list[str]:
        """Return the names of the inputs."""
        return [item.name for item in self._files.items]

    def readers(self) -> set[str]:
        """Return the formats that the inputs are read as, before anything is read; "" for one that cannot be read."""
        return set(self._files.formats())

    def columns(self, formats: Collection[str]) -> frozenset[str] | None:
        """Return the columns to keep of inputs of these formats, None for all."""
        return reading.columns_of(self._options, formats)

    def described(self) -> str:
        """Return the stages that batches pass, in order: a line for each input, and one for several together."""
        return "\n".join(self._described)

    # ---- all inputs

    def each(self) -> Iterator[ReadResult]:
        """Yield the inputs one after the other, each on its own clock. Their facts say what they have in common."""
        plan = self._planned()
        if self._alone and not plan.repeated:
            return (each.opened for each in self._begin(Joins(), _Wanted()))
        inputs = list(self._begin(Joins(), _Wanted()))
        placed = self._place(inputs, [(each.opened.original or each.opened.ledgers)[0] for each in inputs])
        set_joined(inputs, plan.joins)
        return (self._with_clock(each, placed) for each in inputs)

    def _with_clock(self, each: OpenedInput, placed: dict[int, Placed]) -> ReadResult:
        if each.number not in placed:
            return each.opened
        return replace(each.opened, batches=through(each.opened.batches, [facts_stage(each, placed[each.number])]))

    def stream(
        self, *, order: bool, sort: bool = False, then: Sequence[Stage] = (), looked_at: LookedAt | None = None
    ) -> RowStream:
        """Return all inputs as one stream. order: rows come by start; sort: through the sort on disk, also where a
        format promises order. then: stages of the caller. looked_at: what the caller looks at, where
        that is less than the options name.

        While it runs it raises OutOfOrderError when a promise was false.
        """
        plan, wanted = self._planned(), _Wanted(order, sort, then, looked_at)
        self.work = None if order else StreamWork()
        inputs = list(self._begin(plan.joins, wanted))
        if not inputs:
            raise AllInputsError(self.failures)
        if not self._alone:
            label_as_named(
                [
                    (self._files.shown(b.item.name), b.item.label, b.opened.run.sources, bool(b.opened.original))
                    for b in inputs
                ]
            )
        opened = [each.opened for each in inputs]
        told = [self._told(each) for each in opened]
        placed = self._place(inputs, [ledgers[0] for ledgers in told])
        self.formats = {facts.format for each in opened for facts in each.run.sources}
        self.unmarked = not order and any(each.unmarked for each in inputs)
        run, batches = opened[0].run, opened[0].batches
        if not self._alone:
            run = Run()
            batches = self._merged(run, inputs, placed, wanted)
        return RowStream(run, batches, tuple(chain.from_iterable(told)))

    def _merged(
        self, run: Run, inputs: Sequence[OpenedInput], placed: dict[int, Placed], wanted: _Wanted
    ) -> Iterator[pa.RecordBatch]:
        """Return the batches of several inputs on one clock, and set the facts of their run."""
        streams = []
        for each, stages in zip(inputs, common_clock(run, inputs, placed), strict=True):
            later: list[AnyStage] = [*stages, *self._ordering(each.opened, each.unmarked, wanted)]
            self._described[each.number] += f" > {described(later)}"
            streams.append(through(each.opened.batches, later))

        def join_facts() -> None:
            join_runs(run, [each.opened.run for each in inputs])
            self._planned().joins.name(run)

        last = [Stage("facts of the run", end=join_facts), *wanted.then]
        how = "[merge by start]" if wanted.order else "[one after the other]"
        self._described.append(f"all inputs: {how} > {described(last)}")
        return through(ordering.merged(streams) if wanted.order else chain.from_iterable(streams), last)

    @property
    def _alone(self) -> bool:
        return len(self._files.items) == 1

    def _planned(self) -> RunPlan:
        """Return the plan of the run: it is made once, when inputs are first read."""
        if self._plan is None:
            self._plan = plan_run(self._files, self._options)
        return self._plan

    def _place(self, inputs: Sequence[OpenedInput], told: Sequence[Ledger]) -> dict[int, Placed]:
        """Return the clock of each of several inputs, and put what a user should know into these ledgers."""
        plan = self._planned()
        for each, ledger in zip(inputs, told, strict=True):
            plan.note_twice(each.number, ledger, self._files)
        if self._alone:
            return {}
        return place_inputs(inputs, plan.joins, plan.evidence, self._files.shown_names(), told)

    def _told(self, opened: ReadResult) -> tuple[Ledger, ...]:
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

    # ---- one input

    def _begin(self, joins: Joins, wanted: _Wanted) -> Iterator[OpenedInput]:
        """Yield each input that can be read, after its first batch, with the stages that do not need the others."""
        self.failures.clear()
        self._described.clear()
        first_source = self._options.first_source
        for number, item in enumerate(self._files.items):
            failed = len(self.failures)
            self._described.append(f"{item.name}: cannot be read")
            try:
                first_source = joins.sources.get(number, first_source)
                opened, stages, unmarked = self._open(number, item, first_source, joins, wanted.looked_at)
                later: list[AnyStage] = []
                if self._alone:
                    later = [*self._ordering(opened, unmarked, wanted), *wanted.then]
                    # One loop for all stages of single batches: nothing is on the stack twice.
                    beside = list(takewhile(lambda stage: isinstance(stage, Stage), later))
                    stages, later = [*stages, *beside], later[len(beside) :]
                self._described[-1] = f"{item.name}: read {opened.ledgers[0].format} > {described([*stages, *later])}"
                batches = through(opened.batches, stages)
                # The first batch now: what a file's head says (its clock) must be known before inputs are joined.
                first = next(batches, None)
            except TracekitError as err:
                self._fail(item, err)
                continue
            if len(self.failures) > failed:
                continue
            # An archive may hold several sources; the next input's come after them.
            first_source += max(1, len(opened.run.sources))
            if first is not None:
                batches = chain([first], batches)
            opened = replace(opened, batches=through(batches, later))
            yield OpenedInput(number, item, opened, None if first is None else reading.first_start(first), unmarked)

    def _open(
        self, number: int, item: Input, first_source: int, joins: Joins, looked_at: LookedAt | None
    ) -> tuple[ReadResult, list[AnyStage], bool]:
        """Return what the reader gives of an input, its stages, and whether `step` is still to be set after them."""
        how, files = self._options, self._files
        name = files.reader(number).name
        asked = how
        if looked_at is not None:
            asked = replace(how, columns=looked_at.columns, args_of=looked_at.args_of, more_columns=None)
        columns, args_of = reading.columns_looked_at(asked, name), reading.args_looked_at(asked, name)
        if columns is not None and joins.of(number):
            columns |= one_process.COLUMNS
        executions = self._planned().executions
        if columns is not None and executions.of(number):
            columns |= execution_traces.COLUMNS
        if columns is not None and self._planned().evidence.launches:
            columns |= launches.MOVED_COLUMNS
        reader, opened, named = files.read(number, first_source, columns, args_of, strict=how.strict)
        stages: list[AnyStage] = [*named]
        source, ledger, told = files.source(number), opened.ledgers[0], (opened.original or opened.ledgers)[0]

        # Whose rows are they, and when were they? Before the user's filter, which is about the answers.
        ordered = opened.ordered
        if lines := self._device_lines(number):
            opened.run.sources[0].facts |= {launches.DEVICE_CLOCKS: [each.facts() for each in lines]}
            if text := launches.repair_text(lines):
                told.notes["device-rows-moved"] = Note("device-rows-moved", text, 1)
                ordered = False
            stages.append(Stage("device rows on the host's clock", launches.device_rows_mover(lines)))
        joins.settle(number, opened.run)
        stages += [Stage("one process", move) for move in joins.movers(number, ledger, told)]
        ordered = ordered and not joins.of(number)
        if (mover := executions.mover(number, opened.run, told)) is not None:
            stages.append(Stage("execution trace", mover))
        if self.work is not None:
            self.work.begin(opened.run, first_source)
            stages.append(Stage("work of streams", self.work.take))
        unmarked, taken = reader.steps, joins.steps(number)
        if taken is not None or (unmarked and how.selection):
            # The steps of a log are those of the trace's rows too, or the other way round. And a filter may take away
            # the steps, or the calls that say where device work belongs.
            stages += [WholeStage("sort", ordering.in_order), _steps_stage(ledger, taken)]
            ordered, unmarked = True, False
        opened = replace(opened, ordered=ordered)

        # What of it does the user want, and what may leave the program?
        guard = Guard(opened.run, (told, *opened.ledgers, *opened.original), how.anonymize)
        guard.facts()
        bounds = SelectionBounds(how.selection)
        stages.append(Stage("cut names", lambda batch: bounded_names(batch, ledger)))
        if how.progress is not None:
            stages.append(Stage("progress", self._show_progress))
        stages.append(Stage("limits", _Limits(source, ledger).take))
        if how.selection:
            stages.append(Stage("bounds", bounds.take))
        stages += [
            Stage("select", partial(self._selected, ledger=ledger)),
            Stage("mask", guard.rows, partial(guard.facts, last=True)),
            Stage("source unchanged", end=partial(self._close, opened, source)),
        ]

        # Is every record accounted for? An input that fails among others is left out, and they go on.
        account = partial(self._account, item, opened, bounds)
        if self._alone:
            stages.append(Stage("account", end=account))
        else:
            stages.append(WholeStage("account, or leave the input out", partial(self._left_out, item, account)))
        return opened, stages, unmarked

    def _ordering(self, opened: ReadResult, unmarked: bool, wanted: _Wanted) -> list[AnyStage]:
        """Return the stages that bring rows into order of start, and set their steps, which need that order."""
        if not wanted.order:
            return []
        stages: list[AnyStage] = [WholeStage("sort", ordering.in_order)]
        if opened.ordered and not wanted.sort:
            stages = [Stage("check order", ordering.OrderCheck().take)]
        if unmarked:
            stages.append(_steps_stage(opened.ledgers[0], None))
        return stages

    def _device_lines(self, number: int) -> list[launches.DeviceLine]:
        """Return how the rows of devices are moved by their own launches, [] unless the user names that method."""
        evidence = self._planned().evidence
        look = evidence.launches.get(number)
        if look is None or evidence.choices[number] != LAUNCHES:
            return []
        return launches.repairs(launches.within(look))

    def _show_progress(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._options.progress is not None:
            self._options.progress(self._files.share_read())
        return batch

    def _selected(self, batch: pa.RecordBatch, ledger: Ledger) -> pa.RecordBatch | None:
        kept = self._options.selection.apply(batch, ledger)
        return kept if kept.num_rows else None

    def _close(self, opened: ReadResult, source: Source) -> None:
        """Note at which limit the input was stopped, and whether it changed while it was read."""
        if (stop := source.stopped) is not None:
            for each in (opened.ledgers[0], *opened.original[:1]):
                each.note(stop.code, sentence("the input ", stop.rest()))
                each.reserve(command_line(stop.rest()))
        exactly = self._options.fingerprint
        for facts in opened.run.sources if exactly else ():
            facts.sha256 = facts.sha256 or source.sha256()
        source.check_unchanged((opened.original or opened.ledgers)[0], exactly=exactly)

    def _account(self, item: Input, opened: ReadResult, bounds: SelectionBounds) -> None:
        """Check that the ledger adds up and that there was something to read. Raises: SchemaError."""
        ledger = opened.ledgers[0]
        for each in opened.ledgers:
            each.check()
        bounds.note(ledger)
        if bounds.lacks_steps:
            text = sentence(Option("step"), " selects steps, and this trace has none")
            self._fail(item, InputError(text, path=item.name, hint=_NO_STEPS))
        if (nothing := _nothing_read(ledger)) is not None:
            self._fail(item, nothing)

    def _left_out(
        self, item: Input, account: partial[None], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except TracekitError as err:
            self._fail(item, err)
            return
        account()

    def _fail(self, item: Input, err: TracekitError) -> None:
        if self._alone:
            raise err
        self.failures.append(Failure(item.name, err))


class _Limits:
    """The user's limits on time and rows: behind one, the source of the input ends."""

    def __init__(self, source: Source, ledger: Ledger) -> None:
        self._source, self._ledger, self._seen = source, ledger, 0

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows within the limits."""
        limits = self._source.limits
        if (late := limits.late()) is not None:
            self._source.stop(late)
        most = limits.read_events
        if most and self._seen + batch.num_rows > most:
            self._source.stop(limits.at_most_events())
            batch = first_rows(batch, most - self._seen, self._ledger)
        self._seen += batch.num_rows
        return batch


def _steps_stage(ledger: Ledger, known: pa.RecordBatch | None) -> WholeStage:
    return WholeStage("steps", lambda batches: steps.marked(batches, ledger, known))


def _nothing_read(ledger: Ledger) -> TracekitError | None:
    """Return the error of an input that has records, none of which could be read."""
    bad = [code for code in ledger.dropped if not is_cut(code)]  # a cut alone is no error: what came before counts
    if ledger.kept or ledger.merged or ledger.filtered or not bad:
        return None
    reasons = [part for code in bad if code in ledger.notes for part in ("; ", ledger.notes[code].sentence())]
    return ParseError(ledger.path, "", sentence("no record of it can be read: ", *reasons[1:]), hint=_DAMAGED)


_DAMAGED = sentence("check that the file is complete; ", Option("from", takes="NAME"), " reads it as another format")
_NO_STEPS = sentence(
    Option("time", takes="A:B"),
    " selects by time; ",
    Option("view", "steps"),
    " says which programs record steps",
)

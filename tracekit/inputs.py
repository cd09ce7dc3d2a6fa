"""The inputs (files, folders, patterns, URLs, stdin) as one stream of batches."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Self

import pyarrow as pa

from tracekit import arrow, schema, steps
from tracekit import options as declared
from tracekit import run as runs
from tracekit.errors import (
    AllInputsError,
    Failure,
    InputError,
    OutputError,
    ParseError,
    TracekitError,
    UnknownFormatError,
    UsageError,
)
from tracekit.readers import READERS
from tracekit.readers.base import Opened, Reader, ReadOptions
from tracekit.readers.sniff import identify
from tracekit.readers.source import Source, open_source
from tracekit.selection import Selection
from tracekit.trace import ARCHIVED_LEDGERS, Ledger, Run, is_cut
from tracekit.writers.base import Stream

PathLike = str | Path
ALL = Selection()


@dataclass(frozen=True, slots=True)
class Input:
    """One input as the user named it: `label` is the NAME of NAME=INPUT, else ""."""

    name: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class InputOptions:
    """Options of reading inputs.

    format: a reader's name, "" lets the content decide. selection: the user's filter. strict: the first note is an
    error. demangle: make C++ names readable. options: `key: value` of one format. columns: those of EVENTS to keep,
    None for all. partial: a bad input among several becomes a failure of the result; else it raises. fingerprint: put
    each source's SHA-256 into the facts of the run. progress: called with the share done, 0..1. more_columns: returns
    the columns to keep besides, for the name of a format that was found. args_of: the kinds of rows whose `args` to
    keep, None for all; where `more_columns` has args, all are kept.
    """

    format: str = ""
    selection: Selection = ALL
    strict: bool = False
    demangle: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    columns: frozenset[str] | None = None
    partial: bool = False
    fingerprint: bool = False
    progress: Callable[[float], None] | None = None
    more_columns: Callable[[str], frozenset[str]] | None = None
    args_of: frozenset[str] | None = None


USUAL = InputOptions()
"""Every event, as the content says, with all columns."""


def expand(inputs: PathLike | Sequence[PathLike]) -> list[Input]:
    """Return the inputs that the user's words name: files, "-", URLs, patterns, folders (all readable files below).

    Raises: InputError for a pattern or folder that names nothing; UsageError when no word is given.
    """
    words = [inputs] if not isinstance(inputs, Sequence) or isinstance(inputs, str) else list(inputs)
    if not words:
        raise UsageError("no input is named", hint="name a file, a folder, or - for stdin")
    out: list[Input] = []
    for word in map(_text_of, words):
        label, equals, rest = word.partition("=")
        if not equals or Path(word).exists() or not label or "/" in label:
            label, rest = "", word
        if not rest.strip():
            raise UsageError("an input has an empty name", hint="is a variable of the shell unset?")
        path = Path(rest)
        if path.is_dir():
            out.extend(Input(name, label) for name in _in_folder(path))
        elif any(c in rest for c in "*?[") and "://" not in rest and not path.exists():
            found = sorted(name for name in glob.glob(rest, recursive=True) if Path(name).is_file())  # noqa: PTH207 - any root
            if not found:
                raise InputError(f"{rest}: no file matches", hint="is the pattern right?")
            out.extend(Input(name, label) for name in found)
        else:
            out.append(Input(rest, label))
    return out


def _text_of(word: object) -> str:
    """Return an input as text. Raises: UsageError for an open file or another object."""
    if isinstance(word, (str, os.PathLike)):
        return os.fsdecode(word)
    name = getattr(word, "name", None)
    if hasattr(word, "read"):
        hint = f"name it instead: {name!r}" if isinstance(name, str) else "write it into a file, and name that"
        raise UsageError("an open file is not an input: inputs are names of files", hint=hint)
    raise UsageError(f"{type(word).__name__} is not an input: inputs are names of files", hint="a str or a Path")


def _in_folder(folder: Path) -> list[str]:
    """Return the files below a folder that some reader knows; the others are no part of the run."""
    found = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")):
        try:
            with open_source(str(path)) as source:
                identify(source, READERS.values())
        except UnknownFormatError:
            continue
        except TracekitError:
            pass  # named with its reason when it is opened
        found.append(str(path))
    if not found:
        raise InputError(f"{folder}: no file in this folder is a known profile format", hint=UnknownFormatError.hint)
    return found


def refuse_inputs(target: PathLike, names: Sequence[str]) -> None:
    """Raise OutputError where the target is one of the inputs: replacing it would destroy what is being read."""
    path = Path(target)
    if not path.exists():
        return
    for name in names:
        if Path(name).exists() and path.samefile(name):
            raise OutputError(f"{target} is an input itself", hint="choose another name with -o")


def reader_for(source: Source, name: str = "") -> Reader:
    """Return the reader of that name, or the one that knows the content. Raises: UsageError, UnknownFormatError."""
    if not name:
        return identify(source, READERS.values())
    if name not in READERS:
        raise declared.no_such("--from", name, "format", READERS, hint="`tracekit formats` lists them")
    return READERS[name]


@dataclass(frozen=True, slots=True)
class _Begun:
    """An input whose first batch has been read. item: as the user named it.

    first_ns: start of the first rows. unmarked: it has steps, and `step` of the rows inside them is still to be set.
    """

    item: Input
    opened: Opened
    first_ns: int | None
    unmarked: bool


class Inputs:
    """The inputs, opened once; `stream` and `each` read them, as often as they are called.

    A bad input among several is kept in `failures`; a single bad one raises.
    """

    def __init__(self, inputs: PathLike | Sequence[PathLike], options: InputOptions) -> None:
        _refuse_unknown(options)
        self._options = options
        self._stack = ExitStack()
        self._items = expand(inputs)
        self._sources: dict[int, Source] = {}
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
        """Yield the inputs one after the other, each by itself."""
        return (begun.opened for begun in self._begun())

    def _begun(self) -> Iterator[_Begun]:
        self.failures.clear()
        first_source = 0
        for number, item in enumerate(self._items):
            failed = len(self.failures)
            try:
                opened, unmarked = self._open(number, item, first_source)
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
            yield _Begun(item, opened, first_ns, unmarked)

    def stream(self, *, order: bool, sort: bool = False) -> Stream:
        """Return all inputs as one stream. order: rows come by start; sort: through the sort on disk, also where a
        format promises order.

        While it runs it raises OutOfOrderError when a promise was false.
        """
        begun = list(self._begun())
        if not begun:
            raise AllInputsError(self.failures)
        if len(self._items) > 1:
            named = [(b.item.name, b.item.label, b.opened.run.sources, bool(b.opened.original)) for b in begun]
            runs.label_as_named(named)
        opened = [b.opened for b in begun]
        run = opened[0].run if len(self._items) == 1 else Run()
        origins = [o.run.origin_ns for o in opened]
        known = [o for o in origins if o is not None]
        shown = [self._told(o) for o in opened]
        if len(self._items) > 1 and len(known) == len(opened):
            run.origin_ns = min(known)
        elif len(self._items) > 1 and known:
            shown[0][0].note(
                "clocks-not-comparable",
                "only some inputs have the wall clock: each input starts at its own zero",
            )
            # On a clock of its own each: those of the wall clock begin at zero as the others do, not in 1970.
            begun = [_from_zero(b) if b.opened.run.origin_ns is not None else b for b in begun]
        self.formats = {facts.format for o in opened for facts in o.run.sources}
        self.unmarked = not order and any(b.unmarked for b in begun)
        streams = [self._timed(b, run, order=order, sort=sort) for b in begun]
        return Stream(run, self._joined(run, opened, streams, order), tuple(x for each in shown for x in each))

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
                raise TracekitError(f"{ledger.path}: {note}", hint="--strict makes the first note an error")
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
        return None if named is None or self._options.selection else named | steps.COLUMNS | {"ts_ns", "dur_ns"}

    def _args_of(self, name: str) -> frozenset[str] | None:
        """Return the kinds of rows whose `args` anyone will look at in an input of that format, None for all."""
        more = self._options.more_columns
        every = self._options.selection or (more is not None and "args" in more(name))
        return None if every else self._options.args_of

    def _open(self, number: int, item: Input, first_source: int) -> tuple[Opened, bool]:
        """Return what the reader made of an input, and whether `step` is still to be set."""
        how = self._options
        if number not in self._sources:
            self._sources[number] = self._stack.enter_context(open_source(item.name))
        source = self._sources[number]
        reader = reader_for(source, how.format)
        # Each of several inputs takes the options of its own format.
        own = {spec.key for spec in reader.options} if len(self._items) > 1 else how.options
        given = {key: value for key, value in how.options.items() if key in own}
        values = declared.parse(given, reader.options, owner=reader.name)
        # A file name can have bytes that are not text, but names that are shown or stored must be text.
        shown = os.fsencode(item.name).decode("utf-8", "replace")
        ledger = Ledger(source=first_source, path=shown, format=reader.name, strict=how.strict)
        options = ReadOptions(
            source=first_source,
            demangle=how.demangle,
            values=values,
            columns=self._looked_at(reader.name),
            args_of=self._args_of(reader.name),
        )
        opened = reader.read(source, options, ledger)
        for facts in opened.run.sources:
            facts.path = shown if facts.path == source.name else facts.path
            facts.label = item.label or facts.label
            if facts.size_bytes is None:
                facts.size_bytes = source.size_bytes()
        unmarked = reader.steps
        if unmarked and how.selection:
            # Before the filter, which may take away the steps, or the calls that say where device work belongs.
            opened = replace(opened, batches=steps.marked(runs.in_order(opened.batches), ledger), ordered=True)
            unmarked = False
        return replace(opened, batches=self._selected(opened, opened.batches, source, item)), unmarked

    def _selected(
        self, opened: Opened, batches: Iterator[pa.RecordBatch], source: Source, item: Input
    ) -> Iterator[pa.RecordBatch]:
        """Pass on what the user wants; at the end the ledger must add up."""
        ledger = opened.ledgers[0]
        lowest: int | None = None
        highest = 0
        no_step = self._options.selection.steps is not None
        timed = False
        try:
            for batch in batches:
                if self._options.progress is not None:
                    done = sum(s.share_read() for s in self._sources.values())
                    self._options.progress(min(done / len(self._items), 1.0))
                if self._options.selection.times_ns and not schema.is_totals(batch):
                    low, high = arrow.bounds(batch.column("ts_ns")) or (0, 0)
                    lowest = low if lowest is None else min(lowest, low)
                    highest = max(highest, high)
                if no_step and not schema.is_totals(batch):
                    timed, no_step = True, batch.column("step").null_count == batch.num_rows
                kept = self._options.selection.apply(batch, ledger)
                if kept.num_rows:
                    yield kept
        except TracekitError as err:
            self._fail(item, err)
            return
        for each in opened.ledgers:
            each.check()
        if lowest is not None and ledger.filtered and not ledger.kept:
            ledger.note("filter-left-nothing", f"the filter left nothing: starts lie from {lowest} ns to {highest} ns")
        if timed and no_step:
            self._fail(item, InputError(f"{item.name}: --step selects steps, and this trace has none", hint=_NO_STEPS))
        if (nothing := _nothing_read(ledger)) is not None:
            self._fail(item, nothing)
        for facts in opened.run.sources if self._options.fingerprint else ():
            facts.sha256 = facts.sha256 or source.sha256()

    def _fail(self, item: Input, err: TracekitError) -> None:
        if len(self._items) == 1:
            raise err
        self.failures.append(Failure(item.name, err))

    def _timed(self, begun: _Begun, run: Run, *, order: bool, sort: bool) -> Iterator[pa.RecordBatch]:
        opened, batches = begun.opened, begun.opened.batches
        if run.origin_ns is not None and opened.run.origin_ns is not None and run is not opened.run:
            batches = runs.shifted(batches, opened.run.origin_ns - run.origin_ns)
        if not order:
            return batches
        batches = runs.in_order(batches) if sort or not opened.ordered else runs.checked(batches)
        return steps.marked(batches, opened.ledgers[0]) if begun.unmarked else batches

    def _joined(
        self, run: Run, opened: list[Opened], streams: list[Iterator[pa.RecordBatch]], order: bool
    ) -> Iterator[pa.RecordBatch]:
        if order:
            yield from runs.merged(streams)
        else:
            for stream in streams:
                yield from stream
        if run is not opened[0].run:
            runs.joined_runs(run, [o.run for o in opened])


def _from_zero(begun: _Begun) -> _Begun:
    """Return an input whose first rows start at 0."""
    batches = runs.shifted(begun.opened.batches, -(begun.first_ns or 0))
    return replace(begun, opened=replace(begun.opened, batches=batches))


def _refuse_unknown(options: InputOptions) -> None:
    """Raise UsageError for an option that no format has."""
    specs = [spec for reader in READERS.values() for spec in reader.options]
    for key in options.options:
        if key not in {spec.key for spec in specs}:
            raise declared.unknown_option(key, specs, owner="format")


def _nothing_read(ledger: Ledger) -> TracekitError | None:
    """Return the error of an input that has records, none of which could be read."""
    bad = [code for code in ledger.dropped if not is_cut(code)]  # a cut alone is no error: what came before counts
    if ledger.kept or ledger.merged or ledger.filtered or not bad:
        return None
    reasons = "; ".join(str(ledger.notes[code]) for code in bad if code in ledger.notes)
    return ParseError(ledger.path, "", f"no record of it can be read: {reasons}", hint=_DAMAGED)


_NO_STEPS = "--time A:B selects by time; --view steps says which programs record steps"
_DAMAGED = "is the file whole, and is it what its first lines say? --from NAME reads it as another format"

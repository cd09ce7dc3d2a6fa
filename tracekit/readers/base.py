"""The contract of a reader: what it declares, what it is asked, what it returns.

`tracekit.formats` declares all readers of tracekit. Recognition imports the modules of `sniff` of those whose marks a
file has. So such a module imports what reading needs (pyarrow, numpy) inside its functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from tracekit.lazy_dataclass import dataclass
from tracekit.options import OptionSpec, value
from tracekit.plugins import Place as Place
from tracekit.readers.head import Head as Head

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Ledger, Run
    from tracekit.readers.source import Source

__all__ = ["Confidence", "Head", "Mark", "Marks", "Place", "ReadOptions", "ReadResult", "Reader", "Strength"]

T = TypeVar("T")


class Confidence(IntEnum):
    """Certainty of a sniffer that a file is of its format."""

    NO = 0
    MAYBE = 1
    YES = 2


class Strength(IntEnum):
    """Ranks of the marks of JSON traces. The reader with the strongest mark in a file reads the file.

    GRAMMAR: any trace-event file has it. HABIT: the producer's events look so, and others' may too. EVENTS: names,
    categories or arguments that nobody else writes. HEADER: members of the outermost object that nobody else writes;
    the list of events may begin beyond the head. FIRST_BYTES: the file begins so, whatever words it holds.
    """

    GRAMMAR = 0
    HABIT = 1
    EVENTS = 2
    HEADER = 3
    FIRST_BYTES = 4


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark by which a JSON trace shows its producer.

    found: a regular expression that is searched in the head from its first bracket on, or a predicate of that text; any
    true result means that the mark is there.
    """

    found: bytes | Callable[[bytes], object]
    strength: Strength = Strength.EVENTS

    def is_in(self, data: bytes) -> bool:
        """Return whether the mark is in a head."""
        return bool(re.search(self.found, data) if isinstance(self.found, bytes) else self.found(data))


@dataclass(frozen=True, slots=True)
class Marks:
    """Means to find files of a format besides its sniffer.

    json: marks of the producer in JSON traces; `sniff.votes` compares those of all readers. in_logs: programs print
    this format between their own output, so the sniffer is also asked about the end of a long text, and about places in
    its middle where a pattern of `late` is. words: the head of
    each file of the format has one of these; the sniffer is asked about no other file, with () about each. They are
    compared in lower case and with single blanks for all white space. late: regular expressions that Python and RE2
    read alike. Where the head of a JSON trace shows only the grammar, the rest of the file is searched for them, and
    `json` is asked about the text around them too. phases: those of the events that the format has, "" for all: a file
    whose head has others does not become one of the format by what comes late.
    """

    json: tuple[Mark, ...] = ()
    in_logs: bool = False
    words: tuple[str, ...] = ()
    late: tuple[bytes, ...] = ()
    phases: str = ""
    begins: tuple[bytes, ...] = ()
    """The first bytes of each file of the format are one of these; the sniffer is asked about no other file."""
    tables: bool = False
    """The format is an SQLite database; the sniffer is asked about files with tables alone."""

    def __post_init__(self) -> None:
        """Raise ValueError for words that no head has: they are searched for in lower case."""
        if any(word != word.lower() for word in self.words):
            raise ValueError(f"words in lower case are needed: {self.words}")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Choices of the caller, for every reader.

    source: number that goes into the column `source` and the keys of Run. demangle: make C++ names readable. values:
    the options of the format that were given, of the types that it declares. columns: those of EVENTS that will be
    looked at, None for all; a reader may leave others null where that saves work, but its ledger and its run stay the
    same. args_of: the kinds of rows whose `args` will be looked at, None for all; a reader may leave others' null.
    """

    source: int = 0
    demangle: bool = True
    values: Mapping[str, object] = field(default_factory=dict)
    columns: frozenset[str] | None = None
    args_of: frozenset[str] | None = None

    def wants(self, column: str) -> bool:
        """Return whether a column will be looked at."""
        return self.columns is None or column in self.columns

    def value(self, option: OptionSpec[T]) -> T:
        """Return the value of an option of the format, or its default."""
        return value(self.values, option)


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The result of a reader.

    run: complete once `batches` is exhausted. batches: RecordBatches of schema.EVENTS or schema.TOTALS.
    ordered: rows of EVENTS come by start as far as the format promises; the pipeline checks it, and
    sorts where they don't.
    ledgers: one for each source, complete once `batches` is exhausted.
    original: for an archived file, the ledgers of the sources that it was made from; a report of all its rows shows
    them.
    """

    run: Run
    batches: Iterator[pa.RecordBatch]
    ordered: bool
    ledgers: tuple[Ledger, ...]
    original: tuple[Ledger, ...] = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """One format. `suffixes` are a hint for people and listings, no proof.

    sniff: pure, never raises; None where the marks alone recognise the format. read: raises ParseError where the head
    is wrong, and streams; a bad row costs that row and a note.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    sniff: Callable[[Head], Confidence] | None
    read: Callable[[Source, ReadOptions, Ledger], ReadResult]
    gives: str = "events"
    """ "events", "totals" or "both": for the listing."""
    steps: bool = False
    """The format marks steps as ranges and leaves `step` of the other rows open: `tracekit.inputs.steps` sets it."""
    options: tuple[OptionSpec[object], ...] = ()
    """Each `--option KEY=VALUE` of the format; `read` asks `ReadOptions.value` for them. Others are refused."""
    marks: Marks = Marks()
    record: str = "record"
    """The word for what `event_id` numbers: an event, line, row or record."""
    trace_events: bool = False
    """The format is JSON of the Trace Event grammar, which viewers open as it is."""

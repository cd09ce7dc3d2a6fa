"""Lines of a Theano profile, rank by rank: the recognition, and the batches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.readers.base import Confidence, Head, Opened, ReadOptions
from tracekit.readers.printed.lines import TotalRows, first_lines, text_lines
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.pasted import Plain, RankRows
from tracekit.readers.source import Source
from tracekit.readers.theano import _patterns as patterns
from tracekit.readers.theano._state import State
from tracekit.trace import Ledger, Run, SourceFacts

_PROGRAM = re.compile(r"\b(?:theano|pytensor|aesara)\b", re.IGNORECASE)


_ALONE = ("Max peak memory with current setting", "<Sum apply outputs (bytes)> <Apply outputs shape>")
"""Lines that identify a copy with the memory profile alone."""
_OLD = "ProfileMode, the profiler before Theano 0.6, is not read: profile=True gives a profile that is"


def sniff(head: Head) -> Confidence:
    """Return YES for a block's head, or the header or end of a table; MAYBE for a warning of Theano."""
    if head.tables or not head.text:
        return Confidence.NO
    heading = warned = False
    plain = Plain(patterns.MARK)
    for line in first_lines(head.data):
        _, text = plain.of(line)
        words = " ".join(text[-4096:].split())
        if heading and (words.startswith("Message: ") or (words and not words.strip("="))):
            return Confidence.YES
        if words:
            heading = words.endswith(patterns.FUNCTION) or bool(patterns.SCAN_HEAD.match(words))
        if "<apply time>" in words and patterns.TABLE.match(words):
            return Confidence.YES
        if words.startswith(_ALONE) or patterns.REMAINDER.fullmatch(words) or patterns.PROFILE_MODE.match(words):
            return Confidence.YES
        warned = warned or bool(patterns.WARNING.search(words) and _PROGRAM.search(words))
    return Confidence.MAYBE if heading or warned else Confidence.NO


_CELLS = NumberCells(
    re.compile(rf"(?:^|[ \t(]){LOCAL_NUMBER}(?:%%?|s)(?:[ \t\r):\\]|$)"), fraction=re.compile(rf"{LOCAL_NUMBER}(?:%|s)")
)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError, at the end, when there was no profile."""
    run = Run(sources=[SourceFacts(source.name, "theano")])
    source = as_printed(source, options, _CELLS)
    return Opened(run, _batches(source, options, ledger, run), True, (ledger,))


def _batches(source: Source, options: ReadOptions, ledger: Ledger, run: Run) -> Iterator[pa.RecordBatch]:
    rows, numbers, plain = TotalRows(options.source, ledger), count(), Plain(patterns.MARK)
    states: dict[int | None, State] = {}
    for line in text_lines(source, ledger):
        rank, text = plain.of(line.text)
        if rank not in states:
            states[rank] = State(RankRows(rows, rank), numbers, ledger, run)
        states[rank].line(line if text == line.text else replace(line, text=text))
        yield from rows.take()
    for state in states.values():
        state.finish()
    yield from rows.take(everything=True)
    if not any(state.blocks for state in states.values()) and not ledger.dropped:
        is_old = any(state.profile_mode for state in states.values())
        raise ParseError(
            source.name, "", "no profile of Theano, Aesara or PyTensor was found", hint=_OLD if is_old else ""
        )
    if not any(state.out.found for state in states.values()):
        ledger.note("no-rows", "the profile has no times: was the program ended before it was printed?")

"""Output of Nsight Compute: the recognition, and the batches."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.readers.base import Confidence, Head, Opened, ReadOptions
from tracekit.readers.ncu._columns import HEAD, columns_of
from tracekit.readers.ncu._lines import NO_PERMISSION, PERMIT, Lines
from tracekit.readers.ncu._text import kernel_of
from tracekit.readers.printed.lines import first_lines
from tracekit.readers.printed.numbers import DECIMAL
from tracekit.readers.printed.pasted import Plain, RankRows, read_reports
from tracekit.readers.source import Source
from tracekit.trace import Ledger, Run, SourceFacts

_MARK = re.compile(rf"(?:{HEAD.pattern}|==(?:PROF|WARNING|ERROR)== ).*")

_WORDS = ("Process ID", "==")
_PROGRESS = re.compile(
    r"==PROF== (?:Connected to|Disconnected from|Profiling|Attempting|Report|Target|Waiting|Creating) ?"
)
"""Messages of ncu that text about ncu hardly has."""


def sniff(head: Head) -> Confidence:
    """Return YES for the head of a table, the line of a kernel, or a message of ncu."""
    if head.tables or not head.text:
        return Confidence.NO
    plain = Plain(_MARK, _WORDS)
    for line in first_lines(head.data):
        text = plain.of(line)[1]
        if _PROGRESS.match(text.lstrip()):
            return Confidence.YES
        if columns_of(text) is not None or kernel_of(text) is not None:
            return Confidence.YES
    return Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError, at the end, when no kernel was profiled."""
    facts: dict[str, object] = {"tool": "Nsight Compute"}
    run = Run(sources=[SourceFacts(source.name, "ncu", facts=facts)])
    return Opened(run, _batches(source, options, ledger, facts), True, (ledger,))


def _batches(
    source: Source, options: ReadOptions, ledger: Ledger, facts: dict[str, object]
) -> Iterator[pa.RecordBatch]:
    errors: list[str] = []

    def begin(rows: RankRows, runs: Iterator[int]) -> Lines:
        return Lines(rows, ledger, runs, options.value(DECIMAL), facts, errors)

    try:
        what = "kernel that Nsight Compute profiled"
        yield from read_reports(source, options, ledger, _MARK, what, begin, _WORDS, Lines.block)
    except ParseError as err:
        if not errors:
            raise
        if any(NO_PERMISSION in error for error in errors):
            why = f"no kernel was profiled: ncu had no permission to read the GPU's counters ({NO_PERMISSION})"
            raise ParseError(source.name, "", why, hint=PERMIT) from err
        why = f"no kernel was profiled; ncu says: {' '.join(errors)}"
        raise ParseError(source.name, "", why) from err

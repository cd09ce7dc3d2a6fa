"""Lines of a Paddle summary: the recognition, and the batches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions
from tracekit.readers.paddle._tables import MARK, Tables, is_report_line
from tracekit.readers.printed.lines import first_lines
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.pasted import Plain, RankRows, read_reports
from tracekit.readers.source import Source
from tracekit.trace import Ledger, Run, SourceFacts

_ROWS = (
    rf"\S[ \t]{{2,}}{LOCAL_NUMBER}(?:[ \t]|$)",
    rf"(?:batch_cost|reader_cost|ips|Ratio|Memory): {LOCAL_NUMBER}",
    r"^\|.*\|",
)
_CELLS = NumberCells(re.compile("|".join(_ROWS)), padded=True)


def sniff(head: Head) -> Confidence:
    """Return YES for a title of a summary or of the benchmark, or for a line of the benchmark."""
    if head.tables or not head.text:
        return Confidence.NO
    plain = Plain(MARK)
    for text in first_lines(head.data):
        if is_report_line(plain.of(text[:4096])[1]):
            return Confidence.YES
    return Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError, at the end, when no table was found."""
    run = Run(sources=[SourceFacts(source.name, "paddle-summary", facts={"tool": "paddle.profiler"})])

    def begin(rows: RankRows, runs: Iterator[int]) -> Tables:
        return Tables(rows, ledger, runs)

    source = as_printed(source, options, _CELLS)
    batches = read_reports(source, options, ledger, MARK, "summary of paddle.profiler", begin)
    return Opened(run, batches, True, (ledger,))

"""Tables of PyTorch's profilers: the recognition, and the batches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions
from tracekit.readers.printed.lines import first_lines
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.pasted import Plain, RankRows, read_reports
from tracekit.readers.source import Source
from tracekit.readers.torch._columns import RULE, columns_of
from tracekit.readers.torch._tables import Tables
from tracekit.trace import Ledger, Run, SourceFacts

_CELLS = NumberCells(
    re.compile(rf"[ \t]{LOCAL_NUMBER}(?:%|[mun]?s)(?:[ \t\r\\]|$)"),
    padded=True,
    fraction=re.compile(rf"{LOCAL_NUMBER}(?:%|[mu]?s)"),
)


def sniff(head: Head) -> Confidence:
    """Return YES for the head of a table."""
    if head.tables or not head.text or b"Name" not in head.data:
        return Confidence.NO
    plain = Plain(RULE)
    for text in first_lines(head.data):
        if "Name" in text and columns_of(plain.of(text[:4096])[1]) is not None:
            return Confidence.YES
        plain.of(text[:4096])
    return Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError, at the end, when no table was found."""
    layouts: list[dict[str, object]] = []
    run = Run(sources=[SourceFacts(source.name, "torch-table", facts={"tool": "torch.profiler", "tables": layouts})])

    def begin(rows: RankRows, runs: Iterator[int]) -> Tables:
        return Tables(rows, ledger, runs, layouts)

    source = as_printed(source, options, _CELLS)
    batches = read_reports(source, options, ledger, RULE, "table of PyTorch's profiler", begin)
    return Opened(run, batches, True, (ledger,))

"""folded: stacks with a number, a line each: py-spy `--format raw`, `stackcollapse-*.pl`, async-profiler, simpleperf.

    main;train;forward 120
    main;train;backward 75
    main;save 3

A record is a line. The number is behind the last blank of the line: names have blanks, commas and parentheses, too. The
file does not say what is counted (samples, ms, page faults, bytes), so it is no time: `value_avg` in TOTALS, with unit
`samples`. Lines of one stack are added up. `frames` in `args` has the stack, the outermost frame first.
Comments (`#`, `//`) and lines without a number are skipped. UTF-16 of PowerShell is read, too.
Not supported: the order of the lines in time.
Sources: files of stackcollapse-perf, simpleperf, py-spy and speedscope; the scripts of FlameGraph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import ReadOptions, ReadResult
from tracekit.readers.samples._lines import COMMENTS, LINE
from tracekit.readers.samples._stacks import SECTION, Stacks
from tracekit.readers.source import Source

__all__ = ["read"]

_LINE = re.compile(LINE, re.ASCII)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError, at the end, when no line is a stack."""
    run = Run(sources=[SourceFacts(source.name, "folded")])
    return ReadResult(run, _batches(source, options, ledger), True, (ledger,))


def _batches(source: Source, options: ReadOptions, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    stacks = Stacks(options, ledger)
    for block in source.line_blocks(ledger):
        lines = block.data.decode("utf-8", "replace").split("\n")
        if not block.torn:
            lines.pop()
        for place, line in enumerate(lines):
            ledger.read += 1
            text = line.strip("\ufeff\r\0").rstrip()
            found = _LINE.fullmatch(text) if not text.startswith(COMMENTS) else None
            if found is not None:
                number = Decimal(found[2])
                weight = int(number) if number == number.to_integral_value() else number
                stacks.add(0, "", SECTION, found[1].split(";"), weight, 1)
                ledger.kept += 1
            elif not text:
                ledger.ignore("blank lines")
            elif text.startswith(COMMENTS):
                ledger.ignore("comments")
            else:
                ledger.ignore("lines without a stack")
                why = "lines without a stack and a number were skipped"
                ledger.note("not-a-stack", why, where=f"line {block.line + place}")
    if not len(stacks):
        raise ParseError(source.name, "", "no stack with a number in it")
    ledger.note("unit-unknown", "what the numbers count is not in the file: they are shown as samples")
    yield from stacks.batches()

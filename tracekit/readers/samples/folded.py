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

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source


_FIRST = 12
"""Lines by which most other texts show that they are none of ours."""


def sniff(head: Head) -> Confidence:
    """Return YES where most of the first lines are stacks and a number."""
    if not head.text or head.tables or not head.data[:1].strip() or head.data[:1] in b'{["':
        return Confidence.NO
    lines = [line.strip() for line in head.data.split(b"\n", _FIRST)[:_FIRST]]
    lines = [line for line in lines if line and not line.startswith((b"#", b"//"))]
    last = [line.replace(b".", b"").rsplit(None, 1)[-1:] for line in lines]  # empty for a line of points
    if 2 * sum(word[0].isdigit() for word in last if word) < len(lines):
        return Confidence.NO
    from tracekit.readers.samples import _lines

    return _lines.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError, at the end, when no line is a stack."""
    from tracekit.readers.samples import _folded

    return _folded.read(source, options, ledger)

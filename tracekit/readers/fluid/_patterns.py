"""Patterns for the lines of the reports that fluid.profiler prints."""

from __future__ import annotations

import re

from tracekit.readers.printed.lines import CUT_NUMBER, NUMBER

MARK = re.compile(
    r"-(?<!--)-{4,}(?:>\s*(?:Memory )?Profiling Report\s*<-{5,}\s*$"
    r"|\s*(?:Overhead Summary|GpuMemCpy Summary|Event Summary)\s*-{5,}\s*$)"
)
"""It begins at the first dash: a search for a fixed first character is fast."""
TITLE = re.compile(r"-{5,}>\s*((?:Memory )?Profiling Report)\s*<-{5,}")
HEADING = re.compile(r"-{5,}\s*(Overhead Summary|GpuMemCpy Summary|Event Summary)\s*-{5,}")
COLUMNS = re.compile(
    r"Event\s+Calls\s+Total\s+(CPU Time \(Ratio\)\s+GPU Time \(Ratio\)\s+)?Min\.\s+Max\.\s+Ave\.(\s+Ratio\.)?"
)
OTHER_COLUMNS = re.compile(r"Event\s+Calls\s+Total\b.*")
_FIGURE = re.compile(r"[-+]?[\d.(]|-?nan|inf", re.ASCII)
MEMORY_COLUMNS = re.compile(r"Event\s+Alloc Calls\s+Size\(MB\)\s+Free Calls\s+Size\(MB\)")
_RATIO = rf"(?:{NUMBER}|-?nan|inf|{CUT_NUMBER})\*?"
_CELL = rf"(?:{NUMBER}|{CUT_NUMBER})"
ROW = re.compile(
    rf"( *)(\S.*?)(?<!\s)\s+(\d{{1,18}})\s+({NUMBER})(?:\s+({_CELL}) \(({_RATIO})\)\s*({_CELL}) \(({_RATIO})\))?"
    rf"\s+({_CELL})\s+({_CELL})\s+({_CELL})(?:\s+({_RATIO}))?\s*",
    re.ASCII,
)
MEMORY_ROW = re.compile(
    rf"( *)(\S.*?)(?<!\s)\s+(\d{{1,18}})\s+({NUMBER})\s+(\d{{1,18}}|{CUT_NUMBER})\s+({_CELL})\s*", re.ASCII
)
OVERHEAD = re.compile(rf"(Computation time|Framework overhead)\s+Total: ({NUMBER})\s+Ratio: ({_RATIO})%", re.ASCII)
TOTAL = re.compile(rf"(Total time|Elapsed time of events|Accumulated time of events): ({NUMBER})", re.ASCII)
COPY = re.compile(rf"( *)(Gpu[Mm]em[Cc]py\w*)\s+Calls: (\d{{1,18}})\s+Total: ({NUMBER})\s+Ratio: ({_RATIO})%", re.ASCII)
FACT = re.compile(r"(Place|Time unit|Sorted by)(?::)? (.{1,200})")
CUT_FACT = re.compile(r" *(?:Gpu[Mm]em[Cc]py\w*\s+Calls: |Computation time\s+Total: |Framework overhead\s+Total: ).*")
"""A line of the facts of a report that has a figure which cannot be read."""
MERGED = "Note! This Report merge all thread info into one."
THREAD = re.compile(r"thread(\d{1,18})::(.+)", re.DOTALL)
MOST_LEVELS = 100
MOST_LAYOUTS = 10_000
MORE_THAN_NAMES = 8
"""The column of names is wider than the longest name by this many characters."""
_LONGEST_ROW = 4096
MOST_DOUBTFUL = 1000
"""A table ends after this many lines below it that are not rows of it."""


def looks_like_row(text: str) -> bool:
    """Return whether a line ends like a row: with a count and at least two figures."""
    words = text[: _LONGEST_ROW + 1].split()
    figures = 0
    while len(text) <= _LONGEST_ROW and len(words) > 1 and _FIGURE.match(word := words.pop()):
        if figures > 1 and len(word) <= 18 and word.isdecimal():
            return True
        figures += 1
    return False

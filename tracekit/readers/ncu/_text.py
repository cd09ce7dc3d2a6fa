"""The text that Nsight Compute prints: lines of kernels, sections, tables between rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracekit.readers.ncu._columns import dimensions
from tracekit.readers.ncu._launches import Launch, Launches, Metric
from tracekit.readers.printed.lines import TextLine, drop_torn
from tracekit.trace import Ledger

_GRID = r"(?: \((?P<grid>\d{1,10}, \d{1,10}, \d{1,10})\)x\((?P<block>\d{1,10}, \d{1,10}, \d{1,10})\))?"
_DEVICE = r"(?:, Device (?P<device>\d{1,9}))"
_CC = r"(?:, CC (?P<cc>\d{1,3}\.\d))?"
_CALLS = r"(?:, Invocations (?P<calls>\d{1,9})|, (?P<times>\d{1,9}) invocations?)"
_AT = r"(?:, (?P<at>\d{4}-\w{3}-\d\d [\d:]{8}))?"
_STREAM = r", Context (?P<context>\d{1,9}), Stream (?P<stream>\d{1,18})"
_SIZES = r"(?:, Block Size (?P<threads>\d{1,18}), Grid Size (?P<blocks>\d{1,18}))?"
_WHERE = (
    (", Context ", re.compile(rf"{_GRID}{_AT}{_STREAM}{_DEVICE}?{_CC}{_CALLS}?\s*", re.ASCII)),
    (", Device ", re.compile(rf"{_GRID}{_SIZES}{_DEVICE}{_CC}{_CALLS}\s*", re.ASCII)),
)
"""A word in the line of a kernel, and the end of the line with it. A summary has neither context nor stream, since its
launches may have run in several."""
_PROCESS = re.compile(r"\[(\d{1,18})\] (\S[^@]{0,200})@(\S{1,200})")
_SECTION = re.compile(r"Section: (\S.*)")
_RULE = re.compile(r"-{3,}(?: {1,4}-{3,})+")
_GAP = re.compile(r"\s{2,}")
_HEADS = (
    ("Metric Name", "Metric Unit", "Metric Value"),
    ("Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"),
)
_LONGEST_TAIL = 200
_MOST_DOUBTFUL = 3
_ADVICE = "advice of rules"


def kernel_of(text: str) -> tuple[str, re.Match[str]] | None:
    """Return the name in the line of a kernel, and where it ran; None for another line."""
    for word, pattern in _WHERE:
        if (at := text.rfind(word)) > 0:
            for found in pattern.finditer(text, max(0, at - _LONGEST_TAIL)):
                name = text[: found.start()].strip()
                if found.end() == len(text) and name:
                    return name, found
    return None


class Text:
    """Makes launches of lines of text."""

    def __init__(self, launches: Launches, ledger: Ledger, runs: Iterator[int]) -> None:
        self.launches, self.ledger, self.runs = launches, ledger, runs
        self.run = -1
        self.process: dict[str, object] = {}
        self.launch: Launch | None = None
        self.section = ""
        self.spans: tuple[tuple[int, int], ...] = ()
        self.rows = 0
        self.doubtful = 0
        self.parted = False

    def line(self, text: str, line: TextLine) -> None:
        """Take a line that is none of a table of --csv."""
        stripped = text.strip()
        if not stripped:
            self.ledger.ignore("blank lines")
            self.parted = self.rows > 0
        elif (kernel := kernel_of(text)) is not None and not line.torn:
            self._begin(*kernel)
        elif (process := _PROCESS.fullmatch(stripped)) is not None:
            self.process = {"pid": int(process[1]), "process": process[2], "host": process[3]}
            self.ledger.ignore("headings")
        elif self.launch is None:
            self.ledger.ignore("other output")
        elif (section := _SECTION.fullmatch(stripped)) is not None:
            self.section, self.spans, self.rows = section[1], (), 0
            self.ledger.ignore("headings")
        elif _RULE.fullmatch(stripped):
            self._rule(text)
        elif self.spans:
            self._content(self.launch, text, line)
        else:
            self.ledger.ignore(_ADVICE)

    def close(self) -> None:
        """Note that no line of text follows."""
        if self.launch is not None:
            self.launches.add(self.launch)
            self.launch, self.run = None, -1
        self.process = {}

    def _begin(self, name: str, found: re.Match[str]) -> None:
        if self.launch is not None:
            self.launches.add(self.launch)
        elif self.run < 0:
            self.run = next(self.runs)
        named = {key: value for key, value in found.groupdict().items() if value}
        args: dict[str, object] = {key: int(named[key]) for key in ("context", "stream") if key in named}
        args |= self.process | {key: dimensions(f"({named[key]})") for key in ("grid", "block") if key in named}
        for key, group in (("profiled_at", "at"), ("cc", "cc")):
            args |= {key: named[group]} if group in named else {}
        for key, group in (("grid_size", "blocks"), ("block_size", "threads")):
            args |= {key: int(named[group])} if group in named else {}
        device = int(named["device"]) if "device" in named else None
        self.launch = Launch(self.run, name, args, device, int(named.get("calls") or named.get("times") or 1))
        self.section, self.spans = "", ()
        self.ledger.kept += 1

    def _rule(self, text: str) -> None:
        """Take a rule: above or below the head of a table, or below its rows."""
        self.ledger.ignore("rules")
        spans = tuple(found.span() for found in re.finditer("-+", text))
        self.spans = () if self.rows or len(spans) not in (3, 5) else spans
        self.rows = self.doubtful = 0

    def _content(self, launch: Launch, text: str, line: TextLine) -> None:
        cells = None if line.torn else self._cells(text)
        if cells in _HEADS:
            self.ledger.ignore("headings")
        elif cells is not None:
            self.rows += 1
            self.parted = False
            if launch.add(Metric(cells[0], cells[1], self.section, cells[2:])):
                self.ledger.kept += 1
            else:
                self.ledger.merged += 1
        elif self.parted:
            # A summary of 2021 has no rule below its last row.
            self.spans = ()
            self.ledger.ignore("other output")
        elif line.torn:
            drop_torn(line, self.ledger)
        else:
            self.ledger.drop("bad-row", where=line.where, text="dropped: a line within a table that is no row of it")
            self.doubtful += 1
            if self.doubtful > _MOST_DOUBTFUL:
                self.spans = ()

    def _cells(self, text: str) -> tuple[str, ...] | None:
        """Return the cells of a row; None for another line. A unit may be missing."""
        starts = [start for start, _ in self.spans[1:]]
        ends = [end for _, end in self.spans[:-1]]
        last = self.spans[-1][1]
        if len(text.rstrip()) <= last and not any(text[a:b].strip() for a, b in zip(ends, starts, strict=True)):
            cells = tuple(text[start:end].strip() for start, end in self.spans)
            if cells[0] and all(cells[2:]):
                return cells
        cells = tuple(_GAP.split(text.strip()))
        if len(cells) == len(self.spans) - 1:
            cells = (cells[0], "", *cells[1:])
        return cells if len(cells) == len(self.spans) else None

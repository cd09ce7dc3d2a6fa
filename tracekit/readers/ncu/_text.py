"""The text that Nsight Compute prints: lines of kernels, sections, tables between rules."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracekit.readers.ncu._launches import Launch, Launches, Metric
from tracekit.readers.printed.lines import TextLine
from tracekit.trace import Ledger

_CONTEXT = ", Context "
_WHERE = re.compile(
    r"(?: \((\d{1,10}), (\d{1,10}), (\d{1,10})\)x\((\d{1,10}), (\d{1,10}), (\d{1,10})\))?"
    r"(?:, (\d{4}-\w{3}-\d\d [\d:]{8}))?"
    r", Context (\d{1,9}), Stream (\d{1,18})(?:, Device (\d{1,9}))?(?:, CC (\d{1,3}\.\d))?"
    r"(?:, Invocations (\d{1,9}))?\s*",
    re.ASCII,
)
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
    at = text.rfind(_CONTEXT)
    if at < 1:
        return None
    for found in _WHERE.finditer(text, max(0, at - _LONGEST_TAIL)):
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

    def line(self, text: str, line: TextLine) -> None:
        """Take a line that is none of a table of --csv."""
        stripped = text.strip()
        if not stripped:
            self.ledger.ignore("blank lines")
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
        args: dict[str, object] = {"context": int(found[8]), "stream": int(found[9]), **self.process}
        if found[1]:
            args["grid"] = [int(found[group]) for group in (1, 2, 3)]
            args["block"] = [int(found[group]) for group in (4, 5, 6)]
        args |= {key: found[group] for key, group in (("profiled_at", 7), ("cc", 11)) if found[group]}
        device = int(found[10]) if found[10] else None
        self.launch = Launch(self.run, name, args, device, int(found[12]) if found[12] else 1)
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
            if launch.add(Metric(cells[0], cells[1], self.section, cells[2:])):
                self.ledger.kept += 1
            else:
                self.ledger.merged += 1
        elif line.torn:
            self.ledger.drop("torn-row", where=line.where, text="dropped: the last line was cut")
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

"""fluid-report: the tables that Paddle's older profiler prints when it stops (fluid.profiler; Paddle 0.11 to 2.6).

    ------------------------->     Profiling Report     <-------------------------
    Event                  Calls       Total       Min.        Max.        Ave.        Ratio.
    thread0::adam          20          0.213529    0.008252    0.015483    0.0106765   0.224625

A record is a line. Each `Profiling Report` is a run: with several threads Paddle prints one of all threads merged, and
one with a prefix `thread0::` to each name. Both describe the same events, so they are never added up.

Sections: `Event Summary` has the events of the upper level; `Event Summary, parts` the events indented below them,
whose time is part of theirs (`level` and `parent` in `args`). The prefix becomes `thread` in `args`, `raw_name` keeps
it. Total is CPU time, GPU time, or both, depending on the state; a table with both has them in `args` as printed.
`ratio` is a fraction of the upper events of that thread, as printed ("0.5*", of reorders, is of their operator).
`GpuMemCpy Summary` and its parts; `Memory Profiling Report`: `calls` and `bytes` of allocations, frees in `args` (a MB
is 2^20 bytes). Section `header`: place, order, total time, computation and framework overhead. Six digits are printed:
`0.0193331` ms is 19333.1 ns on average. `reports` in the facts: the layout of each report, for printing it again.

Kinds follow from the name (`_kinds.host_kind`): the report does not distinguish operators from ranges of the user.
Not supported: the profile itself is another format, fluid-pb.
Sources: reports of 1.8.5 and 2.6.2, PrintProfiler in paddle/fluid/platform/profiler_helper.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import TIME_EXPONENT, to_bytes
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.head import Head
from tracekit.readers.printed.lines import CUT_NUMBER, NUMBER, TextLine, first_lines, known_cell, printed
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.pasted import Plain, RankRows, closes, read_reports
from tracekit.readers.source import Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["host_kind", "read", "sniff"]

# Kinds by name, for the readers of both outputs of fluid.profiler: the profile and the printed report.


_FRAME = re.compile(rb"(?:block_-?\d+|.*Executor.*)")


def host_kind(name: bytes) -> Kind:
    """Return the kind of a range of the host from its name, since neither output has it.

    >>> [str(host_kind(name)) for name in (b"mul", b"mul/compute", b"block_0")]
    ['operator', 'operator_inner', 'user_range_native']
    """
    if b"/" in name:
        return Kind.OPERATOR_INNER
    return Kind.USER_RANGE_NATIVE if _FRAME.fullmatch(name) else Kind.OPERATOR


# Patterns for the lines of the reports that fluid.profiler prints.


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


# Lines of a fluid report: the recognition, and the batches.


def sniff(head: Head) -> Confidence:
    """Return YES for the title of a report, or for its table of events if the title is missing."""
    if head.tables or not head.text:
        return Confidence.NO
    plain = Plain(MARK)
    for text in first_lines(head.data):
        line = plain.of(text[:4096])[1].strip()
        if line.startswith("-") and (TITLE.fullmatch(line) or HEADING.fullmatch(line)):
            return Confidence.YES
        if line.startswith("Event ") and (COLUMNS.fullmatch(line) or MEMORY_COLUMNS.fullmatch(line)):
            return Confidence.YES
    return Confidence.NO


class _FluidReportReading:
    """The reports of a whole file, or of the lines of one rank. found: whether there are any."""

    def __init__(self, rows: RankRows, ledger: Ledger, runs: Iterator[int], layouts: list[dict[str, object]]) -> None:
        self.ledger = ledger
        self.layouts = layouts
        self.layout: dict[str, object] = {}
        self.rows = rows
        self.runs = runs
        self.run = -1
        self.found = False
        self.indent = 0
        self.doubtful: list[str] = []
        self.unit = "ms"
        self.table = self.parted = ""
        self.full = False
        self.ratio = False
        self.begun = False
        self.above: list[tuple[int, str]] = []
        self.thread: int | None = None

    def line(self, line: TextLine) -> None:
        ledger = self.ledger
        stripped = line.text.strip()
        if not stripped:
            # The events end at a blank line: what follows may be anything, rows behind output of another thread too.
            if self.begun:
                table = self.table or self.parted
                self._end()
                self.parted = table
            ledger.ignore("blank lines")
        elif match := TITLE.fullmatch(stripped):
            self._title(match[1])
        elif match := HEADING.fullmatch(stripped):
            self._begin_where_needed(line)
            if match[1] == "Overhead Summary":
                self._layout(overhead_heading=True)
            ledger.ignore("headings")
        elif match := COLUMNS.fullmatch(stripped):
            self._begin_where_needed(line)
            self.table, self.full, self.ratio = "Event Summary", bool(match[1]), bool(match[2])
            self.above, self.thread, self.begun = [], None, False
            names = line.text[self.indent : line.text.index("Calls")]
            self._layout(name_width=len(names.encode()) - MORE_THAN_NAMES)
            ledger.ignore("headings")
        elif MEMORY_COLUMNS.fullmatch(stripped):
            self._begin_where_needed(line)
            self.table, self.begun = "Memory Profiling Report", False
            self._layout(memory=True)
            ledger.ignore("headings")
        elif self.run >= 0 and OTHER_COLUMNS.fullmatch(stripped):
            self._end()
            ledger.ignore("headings")
            why = "a table with other columns than Paddle's was not read"
            ledger.note("unknown-columns", why, where=line.where)
        elif self.begun and closes(stripped):
            self._end()
            ledger.ignore("other output")
        else:
            self._content(line, stripped)

    def close(self) -> bool:
        """Note that no line follows."""
        self._end()
        return self.found

    def _end(self) -> None:
        """End the table. Nothing marks its end, so lines after its last row were not part of it."""
        self.ledger.ignore("other output", len(self.doubtful))
        self.doubtful.clear()
        self.table = self.parted = ""

    def _title(self, title: str) -> None:
        """Begin a report. A memory report belongs to the profiling report before it."""
        self.found = True
        if title == "Profiling Report" or self.run < 0:
            self.run = next(self.runs)
        self._end()
        self.unit = "ms"
        self.ledger.ignore("headings")

    def _begin_where_needed(self, line: TextLine) -> None:
        """Begin a table, and a report if its title is missing."""
        self.found = True
        self._end()
        self.begun = False
        self.indent = len(line.text) - len(line.text.lstrip())
        if self.run < 0:
            self.run = next(self.runs)

    def _layout(self, **facts: object) -> None:
        """Keep facts of the layout that rows do not have, so that the report can be printed again."""
        if self.layout.get("run") != self.run:
            self.layout = {"run": self.run, "overhead_heading": False}
            if len(self.layouts) < MOST_LAYOUTS:
                self.layouts.append(self.layout)
        self.layout.update(facts)

    def _content(self, line: TextLine, stripped: str) -> None:
        text = line.text.rstrip()
        try:
            taken = (
                self._fact(line, stripped)
                or self._copy(line, text)
                or self._row(line, text)
                or self._parted_row(line, text)
            )
        except ValueError:
            self.ledger.drop("bad-time", where=line.where, text="dropped: times or sizes beyond what a trace can hold")
            return
        if taken:
            return
        if self.run >= 0 and not line.torn and CUT_FACT.fullmatch(text):
            self.ledger.drop("bad-row", where=line.where, text="dropped: a line of the report with a cut figure")
            return
        if self.table and not line.torn and looks_like_row(text):
            self._bad_row(line.where)
            return
        if self.table and not line.torn and self.begun:
            self.doubtful.append(line.where)
            if len(self.doubtful) > MOST_DOUBTFUL:
                self._end()
            return
        self.ledger.ignore("other output")

    def _bad_row(self, where: str) -> None:
        self.ledger.drop("bad-row", where=where, text="dropped: a line within the table that is not a row of it")

    def _count_row(self) -> None:
        """Count a row. Lines before it that are not rows were within the table, so they are dropped."""
        for where in self.doubtful:
            self._bad_row(where)
        self.doubtful.clear()
        self.ledger.kept += 1
        self.begun = True

    def _level(self, blanks: str) -> int:
        """Return the level of a row below the head of the table, which a document may have indented as a whole."""
        return max(len(blanks) - self.indent, 0) // 2

    def _fact(self, line: TextLine, stripped: str) -> bool:
        if self.run < 0:
            return False
        if stripped == MERGED:
            self._header("Threads", value_text="merged")
        elif match := TOTAL.fullmatch(stripped):
            self._header(match[1], total_ns=printed(match[2], self.unit).rounded())
        elif match := OVERHEAD.fullmatch(stripped):
            exact = printed(match[2], self.unit)
            args = self._share(match[3], line)
            if exact.ns != exact.rounded():
                args["printed_ns"] = str(exact.ns)
            self._header(match[1], args, total_ns=exact.rounded())
        elif not self.table and (match := FACT.fullmatch(stripped)):
            if match[1] == "Time unit":
                if match[2] not in TIME_EXPONENT:
                    return False
                self.unit = match[2]
            self._header(match[1], value_text=match[2])
        else:
            return False
        return True

    def _header(self, name: str, args: dict[str, object] | None = None, **more: object) -> None:
        self.rows.add(self.run, "header", name, str(Kind.OTHER), args, **more)
        self.ledger.kept += 1

    def _share(self, cell: str, line: TextLine) -> dict[str, object]:
        return {} if (known := self._known("Ratio", cell, line)) is None else {"percent": known}

    def _copy(self, line: TextLine, text: str) -> bool:
        match = COPY.fullmatch(text.rstrip())
        if match is None or self.run < 0:
            return False
        # Parts are recognized by their names too, because a web page removes the blanks before them.
        is_part = self._level(match[1]) or match[2].lower() != "gpumemcpy"
        section = "GpuMemCpy Summary" + (", parts" if is_part else "")
        total = printed(match[4], self.unit).rounded()
        self.rows.add(
            self.run,
            section,
            match[2],
            str(Kind.MEMCPY),
            self._share(match[5], line),
            calls=int(match[3]),
            total_ns=total,
        )
        self.ledger.kept += 1
        return True

    def _row(self, line: TextLine, text: str) -> bool:
        if not self.table:
            return False
        if self.table.startswith("Memory"):
            return self._memory(line, text)
        match = ROW.fullmatch(text)
        if match is None or bool(match[5]) != self.full or bool(match[12]) != self.ratio:
            if line.torn and (self.begun or looks_like_row(text)):
                drop_torn(self.ledger, line.where)
                return True
            return False
        if line.torn and not line.text.endswith(" "):
            # Cells are padded to their width: a last one without a blank behind it may have lost digits.
            drop_torn(self.ledger, line.where)
            return True
        level = self._level(match[1])
        while self.above and self.above[-1][0] >= level:
            self.above.pop()
        name, raw = match[2], None
        if thread := THREAD.fullmatch(name):
            name, raw, self.thread = thread[2], name, int(thread[1])
        args: dict[str, object] = {}
        if self.thread is not None:
            args["thread"] = self.thread
        if level:
            args |= {"level": level} | ({"parent": self.above[-1][1]} if self.above else {})
        if self.full:
            figures = {"cpu_time": match[5], "cpu_ratio": match[6], "gpu_time": match[7], "gpu_ratio": match[8]}
            args |= {key: cell for key, cell in figures.items() if self._known(key, cell, line) is not None}
        if match[12] and (ratio := self._known("Ratio.", match[12], line)) is not None:
            args["ratio"] = ratio
        total = printed(match[4], self.unit)
        cells = {key: self._known(key, match[n], line) for key, n in (("Min.", 9), ("Max.", 10), ("Ave.", 11))}
        low, high, mean = (None if cell is None else printed(cell, self.unit) for cell in cells.values())
        section = self.table + (", parts" if level else "")
        kind = host_kind(name.encode())
        if level and kind is Kind.OPERATOR:
            kind = Kind.OPERATOR_INNER
        self.rows.add(
            self.run,
            section,
            name,
            str(kind),
            args,
            raw_name=raw,
            calls=int(match[3]),
            total_ns=total.rounded(),
            min_ns=low and low.rounded(),
            max_ns=high and high.rounded(),
            avg_ns=mean and float(mean.ns),
        )
        self._count_row()
        if len(self.above) < MOST_LEVELS:
            self.above.append((level, name))
        return True

    def _known(self, column: str, cell: str, line: TextLine) -> str | None:
        return known_cell(cell, column, self.ledger, line.where)

    def _parted_row(self, line: TextLine, text: str) -> bool:
        """Take a row after a blank line that ended the table."""
        if not self.parted or line.torn or not looks_like_row(text):
            return False
        self.table = self.parted
        if not self._row(line, text):
            self.table = ""
            return False
        why = "rows after a blank line within a table were read as rows of the table"
        self.ledger.note("table-parted", why, where=line.where)
        return True

    def _memory(self, line: TextLine, text: str) -> bool:
        match = MEMORY_ROW.fullmatch(text)
        if match is None or (line.torn and not line.text.endswith(" ")):
            if line.torn:
                drop_torn(self.ledger, line.where)
            return line.torn
        try:
            size = to_bytes(Decimal(match[4]), "MB")
        except ValueError:
            self.ledger.drop("bad-size", where=line.where, text="dropped: a size beyond 8 EiB")
            return True
        args: dict[str, object] = {"alloc_mb": match[4]}
        if (free_calls := self._known("Free Calls", match[5], line)) is not None:
            args["free_calls"] = int(free_calls)
        if (free_mb := self._known("Size(MB)", match[6], line)) is not None:
            args["free_mb"] = free_mb
        section = self.table + (", parts" if self._level(match[1]) else "")
        self.rows.add(
            self.run,
            section,
            match[2],
            str(Kind.MEMORY),
            args,
            calls=int(match[3]),
            bytes=size,
        )
        self._count_row()
        return True


_CELLS = NumberCells(
    re.compile(rf"\S[ \t]{{2,}}{LOCAL_NUMBER}(?:[ \t]|$)|\b(?:time|Total|Calls|Ratio): +{LOCAL_NUMBER}"), padded=True
)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError, at the end, when no report was found."""
    layouts: list[dict[str, object]] = []
    facts = {"tool": "fluid.profiler", "reports": layouts}
    run = Run(sources=[SourceFacts(source.name, "fluid-report", facts=facts)])

    def begin(rows: RankRows, runs: Iterator[int]) -> _FluidReportReading:
        return _FluidReportReading(rows, ledger, runs, layouts)

    source = as_printed(source, options, _CELLS)
    batches = read_reports(source, options, ledger, MARK, "Profiling Report of fluid.profiler", begin)
    return ReadResult(run, batches, True, (ledger,))

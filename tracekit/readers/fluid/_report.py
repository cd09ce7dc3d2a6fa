"""Lines of a fluid report: the recognition, and the batches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.fluid import _patterns as patterns
from tracekit.readers.fluid._kinds import host_kind
from tracekit.readers.printed.lines import TextLine, first_lines, known_cell, printed
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.pasted import Plain, RankRows, closes, read_reports
from tracekit.readers.source import Source
from tracekit.schema import Kind
from tracekit.trace import Ledger, Run, SourceFacts
from tracekit.units import TIME_EXPONENT, to_bytes


def sniff(head: Head) -> Confidence:
    """Return YES for the title of a report, or for its table of events if the title is missing."""
    if head.tables or not head.text:
        return Confidence.NO
    plain = Plain(patterns.MARK)
    for text in first_lines(head.data):
        line = plain.of(text[:4096])[1].strip()
        if line.startswith("-") and (patterns.TITLE.fullmatch(line) or patterns.HEADING.fullmatch(line)):
            return Confidence.YES
        if line.startswith("Event ") and (patterns.COLUMNS.fullmatch(line) or patterns.MEMORY_COLUMNS.fullmatch(line)):
            return Confidence.YES
    return Confidence.NO


class _Reading:
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
        elif found := patterns.TITLE.fullmatch(stripped):
            self._title(found[1])
        elif found := patterns.HEADING.fullmatch(stripped):
            self._begin_where_needed(line)
            if found[1] == "Overhead Summary":
                self._layout(overhead_heading=True)
            ledger.ignore("headings")
        elif found := patterns.COLUMNS.fullmatch(stripped):
            self._begin_where_needed(line)
            self.table, self.full, self.ratio = "Event Summary", bool(found[1]), bool(found[2])
            self.above, self.thread, self.begun = [], None, False
            names = line.text[self.indent : line.text.index("Calls")]
            self._layout(name_width=len(names.encode()) - patterns.MORE_THAN_NAMES)
            ledger.ignore("headings")
        elif patterns.MEMORY_COLUMNS.fullmatch(stripped):
            self._begin_where_needed(line)
            self.table, self.begun = "Memory Profiling Report", False
            self._layout(memory=True)
            ledger.ignore("headings")
        elif self.run >= 0 and patterns.OTHER_COLUMNS.fullmatch(stripped):
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
            if len(self.layouts) < patterns.MOST_LAYOUTS:
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
        if self.run >= 0 and not line.torn and patterns.CUT_FACT.fullmatch(text):
            self.ledger.drop("bad-row", where=line.where, text="dropped: a line of the report with a cut figure")
            return
        if self.table and not line.torn and patterns.looks_like_row(text):
            self._bad_row(line.where)
            return
        if self.table and not line.torn and self.begun:
            self.doubtful.append(line.where)
            if len(self.doubtful) > patterns.MOST_DOUBTFUL:
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
        if stripped == patterns.MERGED:
            self._header("Threads", value_text="merged")
        elif found := patterns.TOTAL.fullmatch(stripped):
            self._header(found[1], total_ns=printed(found[2], self.unit).rounded())
        elif found := patterns.OVERHEAD.fullmatch(stripped):
            exact = printed(found[2], self.unit)
            args = self._share(found[3], line)
            if exact.ns != exact.rounded():
                args["printed_ns"] = str(exact.ns)
            self._header(found[1], args, total_ns=exact.rounded())
        elif not self.table and (found := patterns.FACT.fullmatch(stripped)):
            if found[1] == "Time unit":
                if found[2] not in TIME_EXPONENT:
                    return False
                self.unit = found[2]
            self._header(found[1], value_text=found[2])
        else:
            return False
        return True

    def _header(self, name: str, args: dict[str, object] | None = None, **more: object) -> None:
        self.rows.add(self.run, "header", name, str(Kind.OTHER), args, **more)
        self.ledger.kept += 1

    def _share(self, cell: str, line: TextLine) -> dict[str, object]:
        return {} if (known := self._known("Ratio", cell, line)) is None else {"percent": known}

    def _copy(self, line: TextLine, text: str) -> bool:
        found = patterns.COPY.fullmatch(text.rstrip())
        if found is None or self.run < 0:
            return False
        # Parts are recognized by their names too, because a web page removes the blanks before them.
        is_part = self._level(found[1]) or found[2].lower() != "gpumemcpy"
        section = "GpuMemCpy Summary" + (", parts" if is_part else "")
        total = printed(found[4], self.unit).rounded()
        self.rows.add(
            self.run,
            section,
            found[2],
            str(Kind.MEMCPY),
            self._share(found[5], line),
            calls=int(found[3]),
            total_ns=total,
        )
        self.ledger.kept += 1
        return True

    def _row(self, line: TextLine, text: str) -> bool:
        if not self.table:
            return False
        if self.table.startswith("Memory"):
            return self._memory(line, text)
        found = patterns.ROW.fullmatch(text)
        if found is None or bool(found[5]) != self.full or bool(found[12]) != self.ratio:
            if line.torn and (self.begun or patterns.looks_like_row(text)):
                drop_torn(self.ledger, line.where)
                return True
            return False
        if line.torn and not line.text.endswith(" "):
            # Cells are padded to their width: a last one without a blank behind it may have lost digits.
            drop_torn(self.ledger, line.where)
            return True
        level = self._level(found[1])
        while self.above and self.above[-1][0] >= level:
            self.above.pop()
        name, raw = found[2], None
        if thread := patterns.THREAD.fullmatch(name):
            name, raw, self.thread = thread[2], name, int(thread[1])
        args: dict[str, object] = {}
        if self.thread is not None:
            args["thread"] = self.thread
        if level:
            args |= {"level": level} | ({"parent": self.above[-1][1]} if self.above else {})
        if self.full:
            figures = {"cpu_time": found[5], "cpu_ratio": found[6], "gpu_time": found[7], "gpu_ratio": found[8]}
            args |= {key: cell for key, cell in figures.items() if self._known(key, cell, line) is not None}
        if found[12] and (ratio := self._known("Ratio.", found[12], line)) is not None:
            args["ratio"] = ratio
        total = printed(found[4], self.unit)
        cells = {key: self._known(key, found[n], line) for key, n in (("Min.", 9), ("Max.", 10), ("Ave.", 11))}
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
            calls=int(found[3]),
            total_ns=total.rounded(),
            min_ns=low and low.rounded(),
            max_ns=high and high.rounded(),
            avg_ns=mean and float(mean.ns),
        )
        self._count_row()
        if len(self.above) < patterns.MOST_LEVELS:
            self.above.append((level, name))
        return True

    def _known(self, column: str, cell: str, line: TextLine) -> str | None:
        return known_cell(cell, column, self.ledger, line.where)

    def _parted_row(self, line: TextLine, text: str) -> bool:
        """Take a row after a blank line that ended the table."""
        if not self.parted or line.torn or not patterns.looks_like_row(text):
            return False
        self.table = self.parted
        if not self._row(line, text):
            self.table = ""
            return False
        why = "rows after a blank line within a table were read as rows of the table"
        self.ledger.note("table-parted", why, where=line.where)
        return True

    def _memory(self, line: TextLine, text: str) -> bool:
        found = patterns.MEMORY_ROW.fullmatch(text)
        if found is None or (line.torn and not line.text.endswith(" ")):
            if line.torn:
                drop_torn(self.ledger, line.where)
            return line.torn
        try:
            size = to_bytes(Decimal(found[4]), "MB")
        except ValueError:
            self.ledger.drop("bad-size", where=line.where, text="dropped: a size beyond 8 EiB")
            return True
        args: dict[str, object] = {"alloc_mb": found[4]}
        if (free_calls := self._known("Free Calls", found[5], line)) is not None:
            args["free_calls"] = int(free_calls)
        if (free_mb := self._known("Size(MB)", found[6], line)) is not None:
            args["free_mb"] = free_mb
        section = self.table + (", parts" if self._level(found[1]) else "")
        self.rows.add(
            self.run,
            section,
            found[2],
            str(Kind.MEMORY),
            args,
            calls=int(found[3]),
            bytes=size,
        )
        self._count_row()
        return True


_CELLS = NumberCells(
    re.compile(rf"\S[ \t]{{2,}}{LOCAL_NUMBER}(?:[ \t]|$)|\b(?:time|Total|Calls|Ratio): +{LOCAL_NUMBER}"), padded=True
)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the totals. Raises: ParseError, at the end, when no report was found."""
    layouts: list[dict[str, object]] = []
    facts = {"tool": "fluid.profiler", "reports": layouts}
    run = Run(sources=[SourceFacts(source.name, "fluid-report", facts=facts)])

    def begin(rows: RankRows, runs: Iterator[int]) -> _Reading:
        return _Reading(rows, ledger, runs, layouts)

    source = as_printed(source, options, _CELLS)
    batches = read_reports(source, options, ledger, patterns.MARK, "Profiling Report of fluid.profiler", begin)
    return Opened(run, batches, True, (ledger,))

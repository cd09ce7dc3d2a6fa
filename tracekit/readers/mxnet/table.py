"""mxnet-table: the sums that MXNet's profiler prints, `profiler.dumps()` as a table or as JSON (MXNet 1.2 to 2.0).

    operator
    =================
    Name                          Total Count        Time (ms)    Min Time (ms)    Max Time (ms)    Avg Time (ms)
    FullyConnected                          6          21.0670           0.0390          20.8020           3.5112

A record is a line of the table, in JSON one name with its figures. `section` is MXNet's domain as printed; each
`Profile Statistics:` (1.4 and older: `Profile Statistics.`) is a run. Times are ms; the table has 4 decimals, JSON 4
digits (1.5: 6), and both are of single precision: of a longer time not all digits are true.

Memory (`Device Storage`, `Pool Memory`) has no times: value_min, value_max and value_avg are as printed, in the unit
that the heading states, `kB` or `kb`. MXNet 1.9 divides bytes by 1000 for it, older ones by 100: the file does not say.
Up to 1.4 memory is among the times, its bytes divided by 1000 as if they were us: that is kB, too, and `last` in
`args` its last value.
Counters are among the times as if they were us: value_min and value_max are the counter's own numbers (printed x
1000), `last` in `args` its last one, `total_ns` is null; a note says so. A row is a counter where it can be no duration
(its total is less than its maximum or more than the maximum each time, or total / count is not the average), and
where MXNet's own name says it. What MXNet prints as the average of counters and memory is half of max - min.

JSON of 1.5 and older has a stray comma and lacks its last brace: it is read line by line, as it is laid out. Several
objects may be in one log, between other output: each is a run.
Not supported: the trace itself (`profiler.dump`) is another format, mxnet.
Sources: dumps of 1.9.1 in five orders, aggregate_stats.cc of January 2018 to 1.9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import count, pairwise

import pyarrow as pa

from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.head import Head
from tracekit.readers.mxnet.marks import LATE
from tracekit.readers.printed.late import heads
from tracekit.readers.printed.lines import (
    CUT_NUMBER,
    NUMBER,
    TextLine,
    TotalRows,
    first_lines,
    known_cell,
    printed,
)
from tracekit.readers.printed.locale import NumberCells, as_printed
from tracekit.readers.printed.numbers import LOCAL_NUMBER
from tracekit.readers.printed.pasted import Plain, RankRows, closes, read_reports
from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_TITLE = re.compile(r"Profile Statistics[:.]")
_MARK = re.compile(r"(?:Profile Statistics[:.]|Name\s+Total Count\s+(?:Time \(ms\)|Min Use)\s.*\S)\s*$")
_COLUMNS = re.compile(
    r"Name\s+Total Count\s+(?:(Time) \(ms\)\s+Min Time \(ms\)\s+Max Time \(ms\)\s+Avg Time \(ms\)"
    r"|Min Use\s+\((k[bB])\)\s+Max Use\s+\(k[bB]\)\s+Avg Use\s+\(k[bB]\))"
)
_RULE = re.compile(r"={5,}|-{4,}(?: +-{4,})+")
_CELL = rf"({NUMBER}|{CUT_NUMBER})"
_ROW = re.compile(rf"(.*?)(?<!\s)\s+(\d{{1,18}}|{CUT_NUMBER})\s+{_CELL}\s+{_CELL}\s+{_CELL}(?:\s+{_CELL})?", re.ASCII)
_JSON = re.compile(rb'\s*\{\s*"(?:Time|Memory)"\s*:\s*\{')
_START = re.compile(rb'^[^\n"]{0,200}?(\{\s*"(?:Time|Memory)"\s*:\s*\{)', re.MULTILINE)
_ENTRY = re.compile(rb'"(?:Count|Total)"\s*:\s*[0-9]|"Unit"\s*:\s*\{\s*"(?:Time|Memory)"')
_OPENS = re.compile(r'"(.*)": \{(\s*\},?)?')
_FIGURE = re.compile(rf'"(Count|Total|Min|Max|Avg)": ({NUMBER}),?', re.ASCII)
_COUNT = re.compile(r'\bCount"?\s*:|"Count"')
_UNIT = re.compile(r'"(Time|Memory)": "(\w{1,8})",?')
_MEMORY = ("Device Storage", "Pool Memory")
_OWN_COUNTERS = ("MXNet C API Calls", "MXNet C API Concurrency")
_LONGEST_JSON_NAME = 4096
_MOST_SECTIONS = 10_000
_ENTRIES, _FIGURES = 3, 4
"""Levels of braces."""
_SINGLE = Decimal(2) ** -23
"""MXNet prints numbers of single precision: by this part of itself each may differ from the true one."""


def _form(head: Head) -> tuple[str, Confidence]:
    """Return which form the statistics have, and how sure that is."""
    if _JSON.match(head.data):
        return "json", Confidence.YES if _ENTRY.search(head.data) else Confidence.MAYBE
    title = False
    plain = Plain(_MARK)
    for text in first_lines(head.data):
        line = plain.of(text[:4096])[1].strip()
        if line.startswith("Name ") and _COLUMNS.fullmatch(line):
            return "table", Confidence.YES
        title = title or _TITLE.fullmatch(line) is not None
    if _START.search(head.data) and _ENTRY.search(head.data):
        return "json", Confidence.YES
    return "table", Confidence.MAYBE if title else Confidence.NO


def sniff(head: Head) -> Confidence:
    """Return YES for the table's title and headings, or an object of Time or Memory whose entries have a Count."""
    return Confidence.NO if head.tables or not head.text else _form(head)[1]


class _MxnetReading:
    """The tables of one writer: the whole file, or the lines of one rank. found: whether there are any."""

    def __init__(self, rows: RankRows, ledger: Ledger, runs: Iterator[int], sections: list[list[int | str]]) -> None:
        self.ledger = ledger
        self.sections = sections
        self.begun: set[tuple[int, str]] = set()
        self.rows = rows
        self.runs = runs
        self.run = -1
        self.found = False
        self.section = ""
        self.last = ""
        self.memory_unit = ""
        self.in_table = False
        self.indent = ""

    def line(self, line: TextLine) -> None:
        ledger = self.ledger
        stripped = line.text.strip()
        if not stripped:
            self.in_table = False
            ledger.ignore("blank lines")
        elif _TITLE.fullmatch(stripped):
            self.run = next(self.runs)
            self.found = True
            self.in_table = False
            ledger.ignore("headings")
        elif match := _COLUMNS.fullmatch(stripped):
            self.section = self.last or "unnamed"
            self.memory_unit = match[2] or ""
            self.indent = line.text[: line.text.index("Name")]
            self.in_table = True
            self.begin(self.section)
            ledger.ignore("headings")
        elif _RULE.fullmatch(stripped):
            ledger.ignore("rules")
        elif self.in_table and closes(stripped):
            self.in_table = False
            ledger.ignore("other output")
        elif self.in_table:
            self._row(line)
        else:
            # A domain's name is alone on the line before a rule of `=`.
            self.last = stripped[:4096]
            ledger.ignore("headings" if self.run >= 0 else "other output")

    def close(self) -> bool:
        """Note that no line follows."""
        return self.found

    def begin(self, section: str) -> None:
        """Keep that there is such a table: it may have no rows."""
        self.found = True
        if self.run < 0:
            self.run = next(self.runs)
        place = self.run, section
        if place not in self.begun and len(self.begun) < _MOST_SECTIONS:
            self.begun.add(place)
            self.sections.append(list(place))

    def _row(self, line: TextLine) -> None:
        match = _ROW.fullmatch(line.text.removeprefix(self.indent).rstrip())
        if line.torn:
            drop_torn(self.ledger, line.where)
        elif match is None or bool(match[6]) == bool(self.memory_unit):
            self.ledger.drop("bad-row", where=line.where, text="dropped: a line within a table that is no row of it")
        else:
            names = ("Min", "Max", "Avg") if self.memory_unit else ("Total", "Min", "Max", "Avg")
            printed_cells = dict(zip(names, match.groups()[2:], strict=False))
            figures = {key: known_cell(cell, key, self.ledger, line.where) for key, cell in printed_cells.items()}
            if not self.memory_unit and figures["Total"] is None:
                why = "dropped: a line within a table that is no row of it"
                self.ledger.drop("bad-row", where=line.where, text=why)
                return
            figures["Count"] = known_cell(match[2], "Count", self.ledger, line.where)
            self.entry(self.section, match[1], figures, self.memory_unit, line.where)

    def entry(self, section: str, name: str, figures: Mapping[str, str | None], memory_unit: str, where: str) -> None:
        """Make the row of one name; figures are texts of numbers, None for what is not known."""
        calls = None if figures["Count"] is None else int(figures["Count"])
        try:
            if memory_unit or section in _MEMORY:
                low, high, mean = (_float(figures[k]) for k in ("Min", "Max", "Avg"))
                args = None
                if not memory_unit:
                    why = "memory is printed as if it were time: its ms are kB of 1000 bytes"
                    self.ledger.note("memory-as-times", why, where=where)
                    memory_unit, args = "kB", {"last": _float(figures["Total"])}
                self.rows.add(
                    self.run,
                    section,
                    name,
                    str(Kind.MEMORY),
                    args,
                    calls=calls,
                    unit=memory_unit,
                    value_min=low,
                    value_max=high,
                    value_avg=mean,
                )
            else:
                self._time(section, name, calls, figures, where)
        except ValueError:
            self.ledger.drop("bad-time", where=where, text="dropped: times beyond 146 years")
            return
        self.ledger.kept += 1

    def _time(self, section: str, name: str, calls: int | None, figures: Mapping[str, str | None], where: str) -> None:
        times = {key: printed(text, "ms") for key, text in figures.items() if text is not None and key != "Count"}
        run = self.run
        if len(times) < 4 or calls is None:
            low, high, mean = (times.get(key) for key in ("Min", "Max", "Avg"))
            self.rows.add(
                run,
                section,
                name,
                str(_kind(section)),
                calls=calls,
                total_ns=times["Total"].rounded(),
                min_ns=low and low.rounded(),
                max_ns=high and high.rounded(),
                avg_ns=mean and float(mean.ns),
            )
            return
        total, low, high, mean = (times[key] for key in ("Total", "Min", "Max", "Avg"))
        total_off, high_off, mean_off = (time.off + abs(time.ns) * _SINGLE for time in (total, high, mean))
        no_sum = total.ns + total_off + high_off < high.ns or total.ns - total_off > (high.ns + high_off) * max(
            calls, 1
        )
        each = total.ns / calls if calls else Decimal(0)
        no_mean = abs(each - mean.ns) > mean_off + total_off / max(calls, 1)
        if no_sum or no_mean or name in _OWN_COUNTERS:
            why = "counters are printed as if they were times: kept as numbers"
            self.ledger.note("counters-as-times", why, where=where)
            last = float(total.ns / 1000)
            args = {"last": int(last) if last.is_integer() else last}
            self.rows.add(
                run,
                section,
                name,
                str(Kind.COUNTER),
                args,
                calls=calls,
                value_min=float(low.ns / 1000),
                value_max=float(high.ns / 1000),
                value_avg=float(mean.ns / 1000),
            )
            return
        self.rows.add(
            run,
            section,
            name,
            str(_kind(section)),
            calls=calls,
            total_ns=total.rounded(),
            min_ns=low.rounded(),
            max_ns=high.rounded(),
            avg_ns=float(mean.ns),
        )


def _float(text: str | None) -> float | None:
    return None if text is None else float(text)


def _kind(section: str) -> Kind:
    if section == "operator":
        return Kind.OPERATOR
    if section == "MXNET_C_API":
        return Kind.OTHER
    return Kind.MARK if section.endswith(",instant_marker") else Kind.USER_RANGE


def _whole(text: str, reading: _MxnetReading) -> int | None:
    """Read JSON that is JSON, and return where it ends; None where it is not."""
    try:
        document, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    unit = document.get("Unit")
    # Older MXNet states no unit.
    stated = str(unit.get("Memory", "kB")) if isinstance(unit, dict) else ""
    memory_unit = _text(stated)[:16] or "kb"
    for top, domains in document.items():
        if top not in ("Time", "Memory"):
            reading.ledger.read += 1
            reading.ledger.facts += 1
            continue
        for section, names in domains.items() if isinstance(domains, dict) else ():
            reading.begin(_text(section))
            for name, figures in names.items() if isinstance(names, dict) else ():
                _entry(reading, top, _text(section), _text(name), figures, memory_unit)
    return end


def _text(text: str) -> str:
    """Return a text that is UTF-8: halves of characters, which JSON can name, stay as their escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _entry(reading: _MxnetReading, top: str, section: str, name: str, figures: object, memory_unit: str) -> None:
    ledger = reading.ledger
    ledger.read += 1
    wanted = ("Count", "Min", "Max", "Avg") if top == "Memory" else ("Count", "Total", "Min", "Max", "Avg")
    where = f"{top} / {section} / {name}"[:120]
    texts = {key: str(figures.get(key)) for key in wanted} if isinstance(figures, dict) else {}
    good = bool(texts) and re.fullmatch(r"\d{1,18}", texts["Count"])
    if not good or not all(re.fullmatch(NUMBER, text) for text in texts.values()):
        ledger.drop("bad-row", where=where, text="dropped: an entry without all of its figures")
        return
    reading.entry(section, name, texts, memory_unit if top == "Memory" else "", where)


def _by_lines(data: str, reading: _MxnetReading) -> None:
    """Read JSON that is broken, lacks its end, or has commas too many, by the layout that MXNet gives it.

    A line's indentation says its level, so that a lost quote or brace costs no other line.
    """
    reading.ledger.note("bad-json", "not valid JSON (MXNet 1.5 and older write it so): read line by line")
    lines = _JsonLines(reading, data)
    for text in data.splitlines():
        lines.see(text)
    if lines.entry is not None:
        reading.ledger.read += 1
        reading.ledger.drop("torn-row", text="dropped: the input ends within an entry")
    if (missing := len(_COUNT.findall(data)) - lines.entries - (lines.entry is not None)) > 0:
        reading.ledger.read += missing
        reading.ledger.drop("bad-row", missing, text="dropped: entries of which the text does not show where they are")


class _JsonLines:
    """The lines of one object of statistics: Time or Memory, sections in them, their entries, the figures of each.

    entry: the name of the entry that is open. entries: how many are closed.
    """

    def __init__(self, reading: _MxnetReading, data: str) -> None:
        self._reading = reading
        match = re.search(r'"Unit"\s*:[^}]*"Memory"\s*:\s*"(\w{1,8})"', data)
        self._memory_unit = match[1] if match else "kb"
        first = re.search(r"\n([ \t]*)\S", data)
        self._step = len(first[1]) if first else 0
        self._path: list[str] = []
        self._figures: dict[str, str] = {}
        self.entry: str | None = None
        self.entries = 0

    def see(self, text: str) -> None:
        """Take the next line."""
        stripped = text.strip()
        if stripped in ("", ",", "{"):
            return
        closes = stripped in ("}", "},")
        if figure := _FIGURE.fullmatch(stripped):
            self._figures[figure[1]] = figure[2]
        elif _UNIT.fullmatch(stripped):
            self._reading.ledger.read += 1
            self._reading.ledger.facts += 1
        elif (level := self._level(text, closes=closes)) < _FIGURES:
            self._close(level)
            opened = _OPENS.fullmatch(stripped[:_LONGEST_JSON_NAME])
            if not closes and level > 0 and (opened is None or not opened[2] or level == 2):
                self._open(level, opened[1] if opened else stripped[:_LONGEST_JSON_NAME].strip('":{}, '))

    def _level(self, text: str, *, closes: bool) -> int:
        """Return how many braces are open before a line: by its indentation, else by the lines before."""
        if self._step:
            return (len(text) - len(text.lstrip())) // self._step
        depth = len(self._path) + (self.entry is not None)
        return max(depth - 1, 0) + 1 if closes else depth + 1

    def _open(self, level: int, name: str) -> None:
        if level == _ENTRIES:
            self.entry, self._figures = name, {}
            return
        self._path = [*self._path[: level - 1], name]
        if level == 2:
            self._reading.begin(name)

    def _close(self, level: int) -> None:
        """Close all from a level on; braces may be missing."""
        if self.entry is not None and level <= _ENTRIES:
            name, self.entry = self.entry, None
            if len(self._path) == 2 and self._path[0] in ("Time", "Memory"):
                self.entries += 1
                _entry(self._reading, self._path[0], self._path[1], name, self._figures, self._memory_unit)
        del self._path[max(level - 1, 0) :]


def _json(source: Source, rows: TotalRows, reading: _MxnetReading) -> Iterator[pa.RecordBatch]:
    """Read each object in the text as a run: other output may be before and after it."""
    data = source.read_whole().removeprefix(b"\xef\xbb\xbf")
    starts = [match.start(1) for match in _START.finditer(data)]
    _other_output(data[: starts[0]].decode("utf-8", "replace") if starts else "", reading.ledger)
    for start, end in pairwise([*starts, len(data)]):
        reading.run = -1
        text = data[start:end].decode("utf-8", "replace")
        rest = _whole(text, reading)
        if rest is None:
            _by_lines(text, reading)
        else:
            _other_output(text[rest:], reading.ledger)
        yield from rows.take()
    yield from rows.take(everything=True)


def _other_output(text: str, ledger: Ledger) -> None:
    lines = sum(1 for line in text.splitlines() if line.strip())
    ledger.read += lines
    ledger.ignore("other output", lines)


_CELLS = NumberCells(re.compile(rf"\S[ \t]+{LOCAL_NUMBER}[ \t]+{LOCAL_NUMBER}(?:[ \t\r]|$)"), padded=True)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError, at the end, when no table was found."""
    forms = map(_form, heads(source, LATE))
    form = next((form for form, sure in forms if sure is not Confidence.NO), "table")
    sections: list[list[int | str]] = []
    facts = {"tool": "MXNet profiler", "form": form, "sections": sections}
    run = Run(sources=[SourceFacts(source.name, "mxnet-table", facts=facts)])

    def begin(rows: RankRows, runs: Iterator[int]) -> _MxnetReading:
        return _MxnetReading(rows, ledger, runs, sections)

    if form == "json":
        rows = TotalRows(options.source, ledger)
        batches = _json(source, rows, begin(RankRows(rows, None), count()))
    else:
        source = as_printed(source, options, _CELLS)
        batches = read_reports(source, options, ledger, _MARK, "statistics of MXNet's profiler", begin)
    return ReadResult(run, batches, True, (ledger,))

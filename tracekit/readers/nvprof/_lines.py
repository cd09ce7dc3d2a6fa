"""Lines of nvprof's text and CSV output: preamble, headers, rows of units, cells.

Facts from the printed output of nvprof 5.0 to 11.8: a line of nvprof itself begins with `==PID== `, or with eight equal
signs if no process is known (`nvprof -i`). Headers name the columns: CSV in quotes, text above their right ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from tracekit.readers.nvprof._text_tables import squeezed_columns
from tracekit.readers.printed.lines import uncoloured

PREFIX = re.compile(r'^[\s"]*(?:==(\d+)==|={8})(?: (.*))?$', re.DOTALL)
MID_PREFIX = re.compile(
    r"==(\d+)== ((?:NVPROF is|PGPROF is|Profiling |Metric result|Event result|API calls|Warning|Error|NVTX result"
    r"|Unified Memory|OpenACC|OpenMP|Some kernel|Generated result).*)$",
    re.DOTALL,
)
"""A line of nvprof behind output of the program without a line end (a progress bar)."""

STARTED = re.compile(r"^(NVPROF|PGPROF) is profiling process (\d+)[,;\t]\s*command: ?(.*)$", re.DOTALL)
SECTION = re.compile(r"^(API calls|GPU activities|OpenACC \(\w+\)|OpenMP \(\w+\)|OpenACC|OpenMP):\s*$")
BARE_SECTION = re.compile(r'^[\s"]*(API calls|GPU activities|OpenACC \(\w+\)|OpenMP \(\w+\)|OpenACC|OpenMP):["\s,;]*$')
"""The heading of a group on a line of its own: a report that was passed on without `==PID==`, or with broken lines."""
NVTX_PART = re.compile(r'^\s*(Thread|Domain|Range) "?(.*?)"?(?: \(id = (\d+)\))?$', re.DOTALL)
UNREAD = re.compile(r"^(System profiling result|CPU profiling result|Dependency Analysis|CPU thread|Analysis progress)")
"""Headings of tables that are not read: device clocks, samples of the CPU, the critical path."""

PAGE_FAULTS = re.compile(r"^\s*Total ((?:CPU|remote mapping)[\w ]{0,40}): (\d{1,18})\s*$", re.IGNORECASE)
"""`Total CPU Page faults: 49`, `Total CPU thrashes: 32`: below the totals of unified memory."""
MESSAGE = re.compile(
    r'^\s*+(?:"[^"]*",")?'
    r"(No (?:kernels|API activities|API calls|events/metrics|ranges?) were profiled\.?|This can happen |"
    r'Replaying kernel "|\s*No (?:NVTX|OpenACC|OpenMP)[ \w/]* profiled)'
)
LEGEND = re.compile(r"^\s*(?:Regs|SSMem|DSMem|SrcMemType|DstMemType): ")
DEVICE_LINE = re.compile(r'^\s*Device "(.*?)"(?:\s+Kernel: (.*))?\s*$', re.DOTALL)
KERNEL_LINE = re.compile(r"^\s+Kernel: (.*)$", re.DOTALL)

NARROW = 8
"""Tables with fewer columns look like CSV of the program: their rows must also have quotes."""
UNIT = re.compile(r"^(?:%|[nmuµμ]?s|[KMGTP]?B(?:/s)?)$")
DELIMITERS = (",", ";", "\t")
ORDINAL = re.compile(r"^(.*) \((\d{1,9})\)$", re.DOTALL)
"""`GeForce GTX 950 (0)`: name and number of a device."""

HEADLESS = re.compile(
    r"^\s*(?:GPU activities|API calls|Open(?:ACC|MP) \(\w+\)): +\d+\.\d+% +\d\S*s +\d+(?: +\d\S*s){3} +\S", re.ASCII
)
"""The first row of a group, which is clear without a header: reports are often passed on without it."""
NO_HEADER = "a summary has lost its header: its columns were taken in their usual order"

_MAYBE_HEADER = re.compile(
    r'(?:^|["\s,;])(?:Start|Duration|Grid X|Time ?\(%\)|Kernel|Invocations|Total Size)(?:["\s,;]|$)'
)
"""Every header has one of these words between its delimiters."""
_WORDS = re.compile(r"\S+(?: \S+)*")


CSV_NAMES = {"Regs*": "Registers Per Thread", "SSMem*": "Static SMem", "DSMem*": "Dynamic SMem"}
"""Columns of text tables, and their names in CSV."""
SHAPES = {"Grid Size": "Grid", "Block Size": "Block"}
"""Columns of text tables that hold three columns of CSV."""
HOST_CALLS, DEVICE_CALLS = "Calls (host)", "Calls (device)"
"""Columns in place of Calls if kernels launched kernels (dynamic parallelism). Source: summaries of nvprof 7 and 10."""


class Table(StrEnum):
    """Contents of a table. A trace becomes EVENTS, all others TOTALS."""

    TRACE = "trace"
    SUMMARY = "summary"
    COUNTERS = "counters"
    PER_CALL = "counters of each call"
    UNIFIED = "unified memory"


@dataclass(frozen=True)
class NvprofHeader:
    """The header of a table.

    columns: names in order, "" for a padding column (a table saved from a sheet). delimiter: "" for a text table. ends:
    where the words of a text header end, exclusive. quoted: the names are in quotes, so the text cells of the rows are
    too. squeezed: a text table that lost its gaps (`_text_tables.py`).
    """

    table: Table
    columns: tuple[str, ...]
    delimiter: str = ""
    quoted: bool = False
    ends: tuple[int, ...] = ()
    squeezed: bool = False

    @cached_property
    def place_of(self) -> dict[str, int]:
        """Return the first place of each column."""
        return {column: place for place, column in reversed([*enumerate(self.columns)])}

    @cached_property
    def csv_columns(self) -> tuple[str, ...]:
        """Return the columns under the names that they have in CSV."""
        if not self.is_text:
            return self.columns
        shapes = {name: [f"{shape} {axis}" for axis in "XYZ"] for name, shape in SHAPES.items()}
        return tuple(name for column in self.columns for name in shapes.get(column, [CSV_NAMES.get(column, column)]))

    @property
    def is_text(self) -> bool:
        """True for a table of fixed width, false for CSV."""
        return not self.delimiter


def split_cells(line: str, delimiter: str) -> tuple[list[str], bool]:
    """Return the cells of a CSV line, and whether its last cell is closed by a quote.

    A quote ends a cell only before a delimiter or the end of the line, because a name may hold quotes. Doubled quotes
    count once. Unlike the csv module this has no limit on the length of a cell.
    """
    if '"' not in line:
        return line.split(delimiter), False
    cells: list[str] = []
    at, size = 0, len(line)
    while True:
        if not line.startswith('"', at):
            end = line.find(delimiter, at)
            cells.append(line[at : end if end >= 0 else size])
            if end < 0:
                return cells, False
            at = end + 1
            continue
        end = at + 1
        while True:
            end = line.find('"', end)
            if end < 0:
                cells.append(line[at + 1 :])
                return cells, False
            if end + 1 == size or line[end + 1] == delimiter:
                break
            end += 2 if line[end + 1] == '"' else 1
        cells.append(line[at + 1 : end].replace('""', '"'))
        if end + 1 == size:
            return cells, True
        at = end + 2


SUMMARY = NvprofHeader(Table.SUMMARY, ("Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"), squeezed=True)


def find_header(line: str) -> NvprofHeader | None:
    """Return the header in a line, CSV or text, None for another line."""
    if line.lstrip()[:1].isdigit() or _MAYBE_HEADER.search(line) is None:
        return None
    for delimiter in DELIMITERS:
        # Tabs beside gaps are blanks of a text table that an editor has put together.
        if delimiter in line and not (delimiter == "\t" and "  " in line.strip()):
            cells = [c.strip() for c in split_cells(line.strip(" \r\0"), delimiter)[0]]
            table = _table(cells)
            if table is not None:
                return NvprofHeader(table, tuple(cells), delimiter, quoted='"' in line)
    words = list(_WORDS.finditer(line))
    columns = [w[0] for w in words]
    table = _table(columns)
    if table is not None and len(columns) >= 3:
        return NvprofHeader(table, tuple(columns), ends=tuple(w.end() for w in words))
    squeezed = squeezed_columns(line)
    table = _table(list(squeezed))
    return NvprofHeader(table, squeezed, squeezed=True) if table is not None else None


def find_late_header(line: str) -> NvprofHeader | None:
    """Return the CSV header behind output of the program on one line."""
    if line.lstrip().startswith('"'):
        return None
    for start in ('"Start","Duration"', '"Time(%)","Time"', '"Type","Time(%)"'):
        at = line.find(start)
        if at > 0:
            return find_header(line[at:])
    return None


_TRACE_COLUMNS = {
    *("Start", "Duration", "Name", "Grid X", "Grid Size", "Block X", "Registers Per Thread", "Static SMem"),
    *("Dynamic SMem", "Size", "Throughput", "Device", "Context", "Stream", "Correlation_ID"),
}


def _table(columns: list[str]) -> Table | None:
    have = set(columns)
    if {"Kernel", "Invocations"} <= have or ({"Invocations", "Min", "Max"} <= have):
        return Table.COUNTERS if have & {"Metric Name", "Event Name"} else None
    if {"Count", "Total Size", "Total Time"} <= have:
        return Table.UNIFIED
    if {"Time(%)", "Time", "Name"} <= have and have & {"Calls", HOST_CALLS}:
        return Table.SUMMARY
    if {"Device", "Context", "Stream", "Kernel"} <= have:
        return Table.PER_CALL
    if len(have & {"Start", "Duration", "Name"}) >= 2 and len(have & _TRACE_COLUMNS) >= 3:
        return Table.TRACE
    return None


def units_of(line: str, header: NvprofHeader) -> tuple[str, ...] | None:
    """Return the units of the columns in a line below a CSV header ("" for none), None for another line."""
    if header.is_text or not line or line[0].isdigit():
        return None
    cells = [c.strip() for c in split_cells(line.strip(" \r\0"), header.delimiter)[0]]
    while len(cells) > len(header.columns) and not cells[-1]:
        cells.pop()
    if len(cells) > len(header.columns) or not any(cells) or not all(UNIT.match(c) for c in cells if c):
        return None
    if len(cells) < len(header.columns) and len(cells) < 2:
        return None
    return tuple(cells + [""] * (len(header.columns) - len(cells)))


def plain(line: str, header: NvprofHeader | None = None) -> str:
    """Return a line without the colours of a terminal. header: of the open table.

    No-break spaces of a web page become spaces, except in CSV, where they may separate thousands.
    """
    line = uncoloured(line)
    return line.replace("\xa0", " ") if "\xa0" in line and (header is None or header.is_text) else line


def is_blank(line: str) -> bool:
    """Return whether a line holds only blanks, NUL bytes and delimiters of a sheet."""
    return not line.strip(" \t\r\0;,\ufeff")

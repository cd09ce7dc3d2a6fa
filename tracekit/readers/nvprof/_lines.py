"""Lines of nvprof's text and CSV output: preamble, headers, rows of units, cells.

Facts from the printed output of nvprof 5.0 to 11.8: a line of nvprof itself begins with `==PID== `, or with eight equal
signs if no process is known (`nvprof -i`). Headers name the columns: CSV in quotes, text above their right ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property, lru_cache

from tracekit.lazy_dataclass import dataclass
from tracekit.lazy_pattern import lazy_pattern
from tracekit.readers.printed.lines import uncoloured

PREFIX = lazy_pattern(r'^[\s"]*(?:==(\d+)==|={8})(?: (.*))?$', re.DOTALL)
MID_PREFIX = lazy_pattern(
    r"==(\d+)== ((?:NVPROF is|PGPROF is|Profiling |Metric result|Event result|API calls|Warning|Error|NVTX result"
    r"|Unified Memory|OpenACC|OpenMP|Some kernel|Generated result).*)$",
    re.DOTALL,
)
"""A line of nvprof behind output of the program without a line end (a progress bar)."""

STARTED = lazy_pattern(r"^(NVPROF|PGPROF) is profiling process (\d+)[,;\t]\s*command: ?(.*)$", re.DOTALL)
SECTION = lazy_pattern(r"^(API calls|GPU activities|OpenACC \(\w+\)|OpenMP \(\w+\)|OpenACC|OpenMP):\s*$")
BARE_SECTION = lazy_pattern(
    r'^[\s"]*(API calls|GPU activities|OpenACC \(\w+\)|OpenMP \(\w+\)|OpenACC|OpenMP):["\s,;]*$'
)
"""The heading of a group on a line of its own: a report that was passed on without `==PID==`, or with broken lines."""
NVTX_PART = lazy_pattern(r'^\s*(Thread|Domain|Range) "?(.*?)"?(?: \(id = (\d+)\))?$', re.DOTALL)
UNREAD = lazy_pattern(
    r"^(System profiling result|CPU profiling result|Dependency Analysis|CPU thread|Analysis progress)"
)
"""Headings of tables that are not read: device clocks, samples of the CPU, the critical path."""

PAGE_FAULTS = lazy_pattern(r"^\s*Total ((?:CPU|remote mapping)[\w ]{0,40}): (\d{1,18})\s*$", re.IGNORECASE)
"""`Total CPU Page faults: 49`, `Total CPU thrashes: 32`: below the totals of unified memory."""
MESSAGE = lazy_pattern(
    r'^\s*+(?:"[^"]*",")?'
    r"(No (?:kernels|API activities|API calls|events/metrics|ranges?) were profiled\.?|This can happen |"
    r'Replaying kernel "|\s*No (?:NVTX|OpenACC|OpenMP)[ \w/]* profiled)'
)
LEGEND = lazy_pattern(r"^\s*(?:Regs|SSMem|DSMem|SrcMemType|DstMemType): ")
DEVICE_LINE = lazy_pattern(r'^\s*Device "(.*?)"(?:\s+Kernel: (.*))?\s*$', re.DOTALL)
KERNEL_LINE = lazy_pattern(r"^\s+Kernel: (.*)$", re.DOTALL)

NARROW = 8
"""Tables with fewer columns look like CSV of the program: their rows must also have quotes."""
UNIT = lazy_pattern(r"^(?:%|[nmuµμ]?s|[KMGTP]?B(?:/s)?)$")
DELIMITERS = (",", ";", "\t")
ORDINAL = lazy_pattern(r"^(.*) \((\d{1,9})\)$", re.DOTALL)
"""`GeForce GTX 950 (0)`: name and number of a device."""

HEADLESS = lazy_pattern(
    r"^\s*(?:GPU activities|API calls|Open(?:ACC|MP) \(\w+\)): +\d+\.\d+% +\d\S*s +\d+(?: +\d\S*s){3} +\S", re.ASCII
)
"""The first row of a group, which is clear without a header: reports are often passed on without it."""
NO_HEADER = "a summary has lost its header: its columns were taken in their usual order"

_MAYBE_HEADER = lazy_pattern(
    r'(?:^|["\s,;])(?:Start|Duration|Grid X|Time ?\(%\)|Kernel|Invocations|Total Size)(?:["\s,;]|$)'
)
"""Every header has one of these words between its delimiters."""
_TITLES = lazy_pattern(r"\S+(?: \S+)*")


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
    too. squeezed: a text table that lost its gaps (at the end of this file).
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
    words = list(_TITLES.finditer(line))
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


# Rows of text tables: cells under the header's words, and tables that lost their gaps. A web page or a mail may leave
# one blank between all cells:
#
#     Start Duration Grid Size Block Size Regs* SSMem* DSMem* Size Throughput Device Context Stream Name
#     134.90ms 3.7037ms (20 10 1) (32 32 1) 29 8.1920KB 0B - - GeForce GT 640M 1 2 void f<int>(float*) [94]
#
# Such cells are recognised by their form. A name does not begin with a digit. So the numbers behind the name of a
# device are the context and the stream.

_GAP = lazy_pattern(r" {2,}")

_DEVICE = r"(-|(?!\d)\S.{0,39}?)"
_NUMBER = r"(\d+|-)"
_SHAPE = r"(\(\d+ \d+ \d+\)|-)"
_FORMS = {
    "Type": r"((?:GPU activities|API calls|Range|Open(?:ACC|MP)(?: \(\w+\))?):)?",
    "Time(%)": r"(\d+(?:\.\d+)?%?)",
    "Calls": r"(\d+)",
    "Unified Memory": r"(PC \S+|\S+)",
    "Name": r"(?!\d)(\S.*)",
    **dict.fromkeys(("Grid Size", "Block Size"), _SHAPE),
    **dict.fromkeys(("Device", "Src Dev", "Dst Dev"), _DEVICE),
    **dict.fromkeys(["Regs*", "Context", "Stream", "Src Ctx", "Dst Ctx", "Calls (host)", "Calls (device)"], _NUMBER),
    **dict.fromkeys(("Time", "Avg", "Min", "Max", "Start", "Duration", "SSMem*", "DSMem*"), r"(\S+)"),
    **dict.fromkeys(("Size", "Throughput", "SrcMemType", "DstMemType", "Virtual Address"), r"(\S+)"),
}
"""Column of a trace or a summary -> form of its cells."""
_WORDS = lazy_pattern(
    r"Time ?\(%\)|Calls \((?:host|device)\)|(?:Grid|Block) Size|Unified Memory|Virtual Address"
    r"|(?:Src|Dst) (?:Dev|Ctx)\b|\S+"
)


def cut_cells(line: str, ends: Sequence[int], *, optional_first: bool = False) -> list[str] | None:
    """Return the cells of a row, or None when the line is not a row of this table.

    ends: ends of the header's words, exclusive. The last column is the rest of the line, and may hold any blanks. Two
    or more blanks divide cells. A cell wider than its column moves the cells behind it, so places in the line count
    only where the gaps do not give as many cells as the header. optional_first: the first cell may be empty, as in a
    group whose name is in its first row only.

    >>> cut_cells("391.80ms  443.07us  a  b", (8, 18, 24))
    ['391.80ms', '443.07us', 'a  b']
    """
    text = line.rstrip()
    count = len(ends)
    cells = _GAP.split(text.lstrip(), count - 1)
    if len(cells) == count:
        if optional_first and _GAP.split(text.lstrip(), count - 2)[0].endswith("%"):
            # A name with two blanks in it makes one cell too many: the first cell is the percentage, not the group.
            return ["", *_GAP.split(text.lstrip(), count - 2)]
        return cells
    if optional_first and len(cells) == count - 1:
        return ["", *cells]
    return _cells_by_place(text, ends)


def _cells_by_place(text: str, ends: Sequence[int]) -> list[str] | None:
    """Cut a line under the ends of the header's words; None unless a blank follows each end."""
    start = 0
    cells = []
    for end in ends[:-1]:
        if end >= len(text) or text[end] != " ":
            return None
        cells.append(text[start:end].strip())
        start = end
    cells.append(text[start:].strip())
    return cells if all(cells[:-1]) else None


def squeezed_columns(line: str) -> tuple[str, ...]:
    """Return the columns of a header whose words are one blank apart, () when the line is not such a header."""
    if "Name" not in line or len(line) > 1000:
        return ()
    columns = tuple("Time(%)" if w == "Time (%)" else w for w in _WORDS.findall(line))
    known = columns[-1] == "Name" and len(set(columns)) == len(columns) and all(c in _FORMS for c in columns)
    return columns if known else ()


def squeezed_cells(line: str, columns: tuple[str, ...]) -> list[str] | None:
    """Return the cells of a row that lost its gaps, or None when the line is not a row of this table."""
    match = _squeezed_row(columns).match(line)
    return [cell or "" for cell in match.groups()] if match else None


@lru_cache(maxsize=64)
def _squeezed_row(columns: tuple[str, ...]) -> re.Pattern[str]:
    gaps = (r"\s*+" if column == "Type" else r"\s++" for column in columns[:-1])
    cells = [_FORMS[column] for column in columns]
    return re.compile(r"\s*+" + "".join(c + g for c, g in zip(cells, gaps, strict=False)) + cells[-1] + r"$", re.ASCII)

"""vtune-csv: tables that Intel VTune's command line writes as CSV: CPU time of functions, GPU time of computing tasks.

    Computing Task;Work Size:Global;Work Size:Local;Computing Task:Total Time;...;Computing Task:Instance Count
    gemm_kernel;128 x 8;64 x 8;0.026427;...;50

A record is a line. A table is grouped by `Function`, `Module`, `Package`, `Computing Task`, or several of them. Times
are seconds, without a unit or with `s`. Cells are divided by a comma, a tab, `;`, `|` or `^` (`-csv-delimiter`).

Computing tasks (`-collect gpu-hotspots`, `gpu-offload`) are kernels; commands of Level Zero and OpenCL are copies,
fills or other. `total_ns` is Total Time, `calls` Instance Count, `avg_ns` Average Time; args has `simd`, `global_size`
and `local_size`; `section` is the grouping. Task types are user ranges. `raw_name` is Function (Full), where it
differs. Other cells are in args, under the names of their columns.

Functions, modules and the like are what VTune saw in samples: `section` is `samples`, the grouping is in args, and
`total_ns` is the CPU time. A row of hotspots has its name as its only frame and `callers` "unknown"; a row of a
top-down tree has its whole stack and CPU Time:Self. A tree without own times has no frames: only own times add up.

`-report summary` has the section `metrics`: each number is a metric of the run, a time is one in seconds (Elapsed Time
and the CPU time of all cores are no sum), and `level` is the depth in the list. Command, computer and system are facts.
Its tables inside the list are not read.

Sources: reports of VTune 2018 to 2021 in PerfLab-EXaCT/utools (hotspots), a report of gpu-hotspots and a summary that
tests of public programs quote, the documentation of oneDNN, stackcollapse-vtune.pl. Not supported: tables without
times (`-report hw-events`), and text or HTML.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, ReadOptions, ReadResult
from tracekit.readers.printed.lines import NUMBER, first_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.schema import Kind
    from tracekit.model.trace import Ledger, Run
    from tracekit.readers.printed.lines import TextLine, TotalRows
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

GROUPINGS = (
    "Source Line", "Basic Block", "Code Location", "Function Stack", "Source Function Stack", "Call Stack",
    "Computing Task", "Source Function", "Function", "Task Type", "Class", "Source File", "Source File Path", "Module",
    "Module Path", "Thread", "TID", "Process", "PID", "Logical Core", "Physical Core", "Core", "Package", "VCore",
)  # fmt: skip
"""What a table may be grouped by, the finest first: the finest column has the names."""
_DELIMITERS = "\t,;|^"
_TIMES = ("Computing Task:Total Time", "CPU Time:Self", "CPU Time")
_TASK_TIMES = ("Computing Task:Total Time", "Total Time")
_OWN_WORDS = re.compile(
    r"CPU Time:|Computing Task:|Work Size:|Function \(Full\)|Hardware Event Count|Bound\(%\)|CPI Rate|Clockticks"
)
"""Parts of columns that only VTune writes."""
_SUMMARY = ("Hierarchy Level", "Metric Name", "Metric Value")
_SECONDS = re.compile(rf"({NUMBER}) ?s?", re.ASCII)
_NUMBER = re.compile(NUMBER, re.ASCII)
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_SIZE = re.compile(r"\d{1,18}(?: x \d{1,18}){0,2}", re.ASCII)
_COMMAND = re.compile(r"(?:ze|cl)[A-Z]\w{0,100}", re.ASCII)
_FACTS = {"Application Command Line": "command", "Computer Name": "host", "Operating System": "os"}
_KNOWN = {
    "Computing Task:SIMD Width": "simd",
    "Work Size:Global": "global_size",
    "Work Size:Local": "local_size",
    "Computing Task:Spill Memory Size": "spill_bytes",
}
_LINES_ABOVE = 20
"""Lines above the header in which messages may be: `war:Column filter is ON.`."""
_LONGEST_HEADER = 1 << 16
_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class _VtuneTable:
    """The header of a table. name, time: their columns. groups: columns of other groupings. summary: of metrics."""

    delimiter: str
    columns: tuple[str, ...]
    name: int
    time: int
    groups: tuple[int, ...] = ()
    summary: bool = False

    @property
    def section(self) -> str:
        """The name of the table."""
        return ", ".join(self.columns[at] for at in sorted((*self.groups, self.name)))

    @property
    def is_tree(self) -> bool:
        """True where a row is below its caller: its name is indented."""
        return self.columns[self.name].endswith("Stack")

    @property
    def of_tasks(self) -> bool:
        """True where the rows are work of a GPU."""
        return self.columns[self.name] == "Computing Task"


def _header(line: str) -> _VtuneTable | None:
    """Return the table whose header a line is."""
    line = line.removeprefix("\ufeff").rstrip("\r\n")
    if len(line) > _LONGEST_HEADER or not ("Time" in line or _SUMMARY[0] in line):
        return None
    for delimiter in _DELIMITERS:
        if delimiter not in line:
            continue
        columns = tuple(cell.strip() for cell in _cells(line, delimiter))
        if columns == _SUMMARY:
            return _VtuneTable(delimiter, columns, 1, 2, summary=True)
        leading = 0  # columns of names come first
        while leading < len(columns) and columns[leading] in GROUPINGS:
            leading += 1
        if not leading or len(set(columns[:leading])) != leading:
            continue
        name = min(range(leading), key=lambda at: GROUPINGS.index(columns[at]))
        wanted = _TASK_TIMES if columns[name] == "Computing Task" else _TIMES
        time = next((columns.index(each) for each in wanted if each in columns), -1)
        # `Function,CPU Time` alone may be a table of another program, in another unit.
        if time < leading or not (_OWN_WORDS.search(line) or {"Module", "Computing Task"} & set(columns)):
            continue
        return _VtuneTable(delimiter, columns, name, time, tuple(at for at in range(leading) if at != name))
    return None


def _cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line; a quote that is never closed goes to its end."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:  # a cell that is longer than Python's limit
        return line.split(delimiter)


def sniff(head: Head) -> Confidence:
    """Return YES for a header of such a table with a row below it."""
    if head.tables or not head.text:
        return Confidence.NO
    table = None
    for line in first_lines(head.data)[: _LINES_ABOVE + 200]:
        if table is None:
            table = _header(line)
            continue
        cells = _cells(line.rstrip("\r"), table.delimiter)
        if len(cells) == len(table.columns) and (table.summary or _SECONDS.fullmatch(cells[table.time].strip())):
            return Confidence.YES
    return Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError where there is no table."""
    from tracekit.model.trace import Run, SourceFacts

    run = Run(sources=[SourceFacts(source.name, "vtune-csv", facts={"tool": "Intel VTune"})])
    return ReadResult(run, _batches(source, options, ledger, run), True, (ledger,))


def _batches(source: Source, options: ReadOptions, ledger: Ledger, run: Run) -> Iterator[pa.RecordBatch]:
    from tracekit.errors import ParseError
    from tracekit.readers.engine.torn import drop_torn
    from tracekit.readers.printed.lines import TotalRows, text_lines

    rows = TotalRows(options.source, ledger)
    table: _VtuneTable | None = None
    callers: list[tuple[int, str]] = []
    tables = -1
    for line in text_lines(source, ledger):
        if not line.text.strip():
            ledger.ignore("blank lines")
        elif (found := _header(line.text)) is not None:
            table = found
            tables += 1
            callers.clear()
            ledger.ignore("headers")
        elif table is None:
            ledger.ignore("other output")
        elif line.torn:  # its last number may go on
            drop_torn(ledger, line.where)
        elif table.summary:
            _metric(table, tables, line, rows, run, ledger)
        else:
            _row(table, tables, line, callers, rows, ledger)
        yield from rows.take()
    if table is None:
        raise ParseError(source.name, "", "no table of Intel VTune with a column of times")
    yield from rows.take(everything=True)


def _row(
    table: _VtuneTable,
    run: int,
    line: TextLine,
    callers: list[tuple[int, str]],
    rows: TotalRows,
    ledger: Ledger,
) -> None:
    """Take a row of a table that is grouped by something. callers: depth and name of those above it in a tree."""
    cells = _cells(line.text, table.delimiter)
    if len(cells) != len(table.columns):
        ledger.drop("bad-row", where=line.where, text="dropped: a row with more or fewer cells than its header")
        return
    printed = cells[table.time].strip()
    shown = cells[table.name]
    name = shown.strip()
    depth = len(shown) - len(shown.lstrip(" "))
    if table.is_tree:
        while callers and callers[-1][0] >= depth:
            callers.pop()
        callers.append((depth, name))
    if not printed:
        ledger.ignore("rows without a time")
        return
    total = _nanoseconds(printed)
    if total is None:
        ledger.drop("bad-row", where=line.where, text="dropped: a row whose time is not a number of seconds")
        return
    args: dict[str, object] = {table.columns[at]: cells[at].strip() for at in table.groups if cells[at].strip()}
    if table.is_tree:
        args["depth"] = depth
    section = table.section
    if not table.of_tasks and table.columns[table.name] != "Task Type":
        section = "samples"
        args["grouping"] = table.section
        if thread := args.get("Thread"):
            args["thread"] = thread
        if not table.is_tree:
            args |= {"frames": [name], "callers": "unknown"}
        elif table.columns[table.time] == "CPU Time:Self":
            args["frames"] = [each for _, each in callers]
    more: dict[str, object] = {"total_ns": total}
    for at, (column, cell) in enumerate(zip(table.columns, map(str.strip, cells), strict=True)):
        if at in (table.name, table.time) or at in table.groups or not cell:
            continue
        _cell(column, cell, name, args, more)
    rows.add(run, section, name, str(_kind(table, name)), args, **more)
    ledger.kept += 1


def _cell(column: str, cell: str, name: str, args: dict[str, object], more: dict[str, object]) -> None:
    """Put a cell into its column of the row, or into args."""
    from tracekit.readers.printed.lines import ANY_NUMBER

    if column in ("Computing Task:Instance Count", "Instance Count") and _WHOLE.fullmatch(cell):
        more["calls"] = int(cell)
    elif column in ("Computing Task:Average Time", "Average Time") and (mean := _nanoseconds(cell)) is not None:
        more["avg_ns"] = float(mean)
    elif column == "Function (Full)":
        more["raw_name"] = cell if cell != name else None
    elif column in _KNOWN and column.startswith("Work Size") and _SIZE.fullmatch(cell):
        args[_KNOWN[column]] = [int(each) for each in cell.split(" x ")]
    elif _WHOLE.fullmatch(cell):
        args[_KNOWN.get(column, column)] = int(cell)
    elif re.fullmatch(ANY_NUMBER, cell, re.ASCII) and abs(float(cell)) < _MOST:
        args[_KNOWN.get(column, column)] = float(cell)
    else:
        args[_KNOWN.get(column, column)] = cell


def _nanoseconds(cell: str) -> int | None:
    """Return the ns of a time in seconds, None for other text and for times below zero."""
    from tracekit.model.units import to_ns

    found = _SECONDS.fullmatch(cell)
    if found is None or found[1].startswith("-"):
        return None
    try:
        return to_ns(found[1], "s")
    except ValueError:
        return None


def _kind(table: _VtuneTable, name: str) -> Kind:
    """Return the kind of a row. Functions of samples are not calls: their time is that of a CPU."""
    from tracekit.model.schema import Kind

    if table.columns[table.name] == "Task Type" and not name.startswith("["):
        return Kind.USER_RANGE
    if not table.of_tasks or name.startswith("[") or not name:  # [Outside any task], [Unknown]
        return Kind.OTHER
    if _COMMAND.fullmatch(name) is None:
        return Kind.KERNEL
    if "Fill" in name:
        return Kind.MEMSET
    return Kind.MEMCPY if any(word in name for word in ("Copy", "Read", "Write")) else Kind.OTHER


def _metric(table: _VtuneTable, run: int, line: TextLine, rows: TotalRows, facts: Run, ledger: Ledger) -> None:
    """Take a line of a summary."""
    from tracekit.model.schema import Kind
    from tracekit.model.trace import ELAPSED

    cells = [cell.strip() for cell in _cells(line.text, table.delimiter)]
    if len(cells) > len(table.columns):
        ledger.ignore("tables inside the summary")
        return
    if len(cells) != len(table.columns) or not _WHOLE.fullmatch(cells[0]):
        ledger.drop("bad-row", where=line.where, text="dropped: a line of a summary without level, name and value")
        return
    name, text = cells[1], cells[2]
    value = _value(name, text)
    if value is None:
        if (fact := _FACTS.get(name)) is not None and text:
            facts.sources[0].facts.setdefault(fact, text)
            ledger.facts += 1
        else:
            ledger.ignore("metrics that are not numbers")
        return
    if name == "Elapsed Time" and (elapsed := _nanoseconds(text)) is not None:
        facts.sources[0].facts.setdefault(ELAPSED, elapsed)
    rows.add(run, "metrics", "the run", str(Kind.OTHER), {"metric": name, "level": int(cells[0])}, **value)
    ledger.kept += 1


def _value(name: str, text: str) -> Mapping[str, object] | None:
    """Return the columns of a metric: of a time in seconds, or of a number with its unit; None for text."""
    is_time = name == "Time" or name.endswith(" Time")
    if (is_time or text.endswith("s")) and _nanoseconds(text) is not None:
        return {"value_avg": float(text.removesuffix("s")), "value_text": text, "unit": "s"}
    number = text.removesuffix("%").rstrip()
    if is_time or not _NUMBER.fullmatch(number):
        return None
    unit = "%" if text.endswith("%") or name.endswith("(%)") else None
    return {"value_avg": float(number), "value_text": text, "unit": unit}

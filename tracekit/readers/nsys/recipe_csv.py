"""nsys-recipe-csv: tables of `nsys recipe ... --csv`: all_stats.csv, rank_stats.csv and rank_stats_by_device.csv.

    Name,Sum,Count,Mean,Std,Min,Q1,Median,Q3,Max,Rank
    ampere_sgemm_128x64_nn,7443743,20,372187.15,9004.2,355208.0,368001.0,371000.5,376310.0,401666.0,0

A record is a line. Each row is one name of one rank, of one device (`Device ID`), or of all ranks. Times are ns. `rank`
is the number that the recipe gave to a report, in the order of the names of the files.

Recipes since 2024 have Sum, Median and Std, in all_stats.csv `Median (approx)`, `Q1 (approx)`, `Q3 (approx)` and `Std
(approx)`; older ones Total Time, Med and StdDev, and Min Rank and Max Rank in all_stats.csv. What a recipe only
approximates is in args, and so are quartiles. cuda_gpu_mem_size_sum has `bytes`, and value_min, value_max and value_avg
in bytes.

No column says which recipe it was: that is the name of the file, else `RecipeName` of the `.nsys-analysis` beside it,
else its folder (`cuda_gpu_kern_sum-1`), else the columns and names of the rows. Copies of which nothing says whether
they are sums of times or of sizes have no total, with a note. `section` is the recipe.

Of a folder rank_stats.csv is read: all_stats.csv and rank_stats_by_device.csv have the same work once more. Sources:
the recipes, their notebooks and nsys_display.py of Nsight Systems 2022 to 2024, which public repositories carry; none
has lib/summary.py, so that Count and Mean are read where they are, and not needed. Not supported: network_sum,
nvlink_sum, diff, maps, traces, paces, and the Parquet files beside the tables.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, ReadOptions, ReadResult
from tracekit.readers.printed.lines import NUMBER, first_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.schema import Kind
    from tracekit.model.trace import Ledger
    from tracekit.readers.printed.lines import TextLine, TotalRows
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_NAMES = ("Name", "name", "Text", "text", "Range", "Operation", "Event")
_RANGES = ("Text", "text", "Range")
_TOTALS = ("Total Time", "Sum", "Total")
_CALLS = ("Instances", "Num Calls", "Count")
_MEANS, _MEDIANS, _SPREADS = ("Avg", "Mean"), ("Med", "Median"), ("StdDev", "Std")
_DEVICES = ("Device ID", "deviceId")
_SHARES = ("Time", "Time (%)", "Time(%)")
_APPROXIMATE = ("Min Rank", "Max Rank", "Q1 (approx)", "Median (approx)")
"""Columns that only all_stats.csv has: its medians are medians of the medians of each rank."""
_RECIPE = re.compile(
    r"(?<![a-z])(cuda_api_sum|cuda_gpu_kern_sum|cuda_gpu_mem_(?:size|time)_sum|mpi_sum|nccl_sum|nccl_gpu_proj_sum"
    r"|nvtx_sum|nvtx_gpu_proj_sum|osrt_sum)(?![a-z_])"
)
_MEMORY = re.compile(r"CUDA_MEM(?:CPY|SET)|\[CUDA mem(?:cpy|set)")
_OS_CALL = re.compile(
    r"^(?:poll|ppoll|select|epoll_wait|ioctl|read|write|open(?:at)?(?:64)?|fopen(?:64)?|fread|fwrite|fgets|mmap(?:64)?"
    r"|munmap|pthread_\w{1,60}|sem_\w{1,60}|nanosleep|usleep|sleep|futex|waitpid|recvmsg|sendmsg|accept4?),",
    re.MULTILINE | re.ASCII,
)
"""Names that a table of OS calls has. Such a table looks like one of kernels else."""
_NUMBER = re.compile(NUMBER, re.ASCII)
_NOT_KNOWN = (
    "copies without a total: tables of times and of sizes have the same columns; keep the name of the recipe "
    "in that of the file or its folder (cuda_gpu_mem_time_sum-1)"
)
_LONGEST_HEADER = 4096
_MOST_LINES = 64
"""Lines of one name: texts of NVTX may have line ends."""
_LONGEST_ANALYSIS = 1 << 20
_INT32 = (1 << 31) - 1
_MOST = 1 << 62


@dataclass(frozen=True, slots=True)
class _RecipeTable:
    """The header of a table. name, total: their columns. recipe: "" where nothing says it. of_os_calls: by names."""

    columns: tuple[str, ...]
    name: int
    total: int
    recipe: str = ""
    of_os_calls: bool = False

    @property
    def approximate(self) -> bool:
        """True for a table of all ranks."""
        return any(column in self.columns for column in _APPROXIMATE)

    @property
    def of_sizes(self) -> bool:
        """True where totals are bytes."""
        return self.recipe == "cuda_gpu_mem_size_sum" or self.columns[self.total] == "Total"

    @property
    def section(self) -> str:
        """The recipe, or what has such columns."""
        if self.recipe:
            return self.recipe
        if self.of_sizes:
            return "cuda_gpu_mem_size_sum"
        if "Num Calls" in self.columns:
            return "api_sum"
        if self.columns[self.name] in _RANGES:
            return "nvtx_sum"
        if self.of_os_calls:
            return "osrt_sum"
        return "cuda_gpu_kern_sum" if "Instances" in self.columns else "sums"


def _header(line: str) -> _RecipeTable | None:
    """Return the table whose header a line is."""
    line = line.removeprefix("\ufeff").rstrip("\r\n")
    if len(line) > _LONGEST_HEADER or "," not in line:
        return None
    columns = tuple(cell.strip() for cell in _cells(line))
    if len(set(columns)) != len(columns) or not {"Min", "Max"} <= set(columns):
        return None
    name = next((columns.index(each) for each in _NAMES if each in columns), -1)
    total = next((columns.index(each) for each in _TOTALS if each in columns), -1)
    # Tables of other programs have names and sums too: quartiles or ranks are those of a recipe.
    quartiles = {"Q1", "Q3"} <= set(columns) or {"Q1 (approx)", "Q3 (approx)"} <= set(columns)
    ranks = not {"Rank", "Min Rank"}.isdisjoint(columns)
    spread = not {*_SPREADS, "Std (approx)"}.isdisjoint(columns)
    if name < 0 or total < 0 or not spread or not (quartiles or (ranks and "StdDev" in columns)):
        return None
    return _RecipeTable(columns, name, total)


def _cells(text: str) -> list[str]:
    """Return the cells of a record, which may have line ends inside quotes."""
    try:
        return next(csv.reader(text.splitlines(keepends=True)), [])
    except csv.Error:  # a cell that is longer than Python's limit
        return text.split(",")


def sniff(head: Head) -> Confidence:
    """Return YES for a header of such a table with a row below it."""
    if head.tables or not head.text:
        return Confidence.NO
    table = None
    for line in (line for line in first_lines(head.data)[:200] if line.strip()):
        if table is None:
            table = _header(line)
            if table is None:
                return Confidence.NO
            continue
        cells = _cells(line.rstrip("\r"))
        if len(cells) == len(table.columns) and _NUMBER.fullmatch(cells[table.total].strip()):
            return Confidence.YES
    return Confidence.NO


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the totals. Raises: ParseError for another header."""
    from tracekit.model.trace import Run, SourceFacts

    facts: dict[str, object] = {"tool": "Nsight Systems"}
    if recipe := _recipe_of(source):
        facts["recipe"] = recipe
    run = Run(sources=[SourceFacts(source.name, "nsys-recipe-csv", facts=facts)])
    return ReadResult(run, _batches(source, options, ledger, recipe), True, (ledger,))


def _recipe_of(source: Source) -> str:
    """Return the recipe that wrote a table: as its name, the analysis beside it, or its folder says; "" for none."""
    path = PurePath(source.name)
    if (found := _RECIPE.search(path.name)) is not None:
        return found[1]
    if source.path == Path(source.name):  # a copy of stdin or of a URL has other files beside it
        analyses = sorted(source.path.parent.glob("*.nsys-analysis"))[:2]
        if len(analyses) == 1 and (named := _named_recipe(analyses[0])):
            return named
    found = _RECIPE.search(path.parent.name)
    return found[1] if found is not None else ""


def _named_recipe(file: Path) -> str:
    """Return RecipeName of an analysis, "" where it has none that is read."""
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _LONGEST_ANALYSIS:
            return ""
        analysis = json.loads(file.read_text("utf-8", "replace"))
    except (OSError, ValueError, RecursionError):
        return ""
    name = analysis.get("RecipeName") if isinstance(analysis, dict) else None
    found = _RECIPE.search(name) if isinstance(name, str) else None
    return found[1] if found is not None else ""


def _batches(source: Source, options: ReadOptions, ledger: Ledger, recipe: str) -> Iterator[pa.RecordBatch]:
    from tracekit.errors import ParseError
    from tracekit.readers.engine.torn import drop_torn
    from tracekit.readers.printed.lines import TotalRows, text_lines

    rows = TotalRows(options.source, ledger)
    table: _RecipeTable | None = None
    parts: list[str] = []
    for line in text_lines(source, ledger):
        if not parts and not line.text.strip():
            ledger.ignore("blank lines")
        elif table is None:
            table = _header(line.text)
            if table is None:
                raise ParseError(source.name, line.where, "not the header of a table of `nsys recipe`")
            of_os_calls = _OS_CALL.search(source.head().data.decode("utf-8", "replace")) is not None
            table = _RecipeTable(table.columns, table.name, table.total, recipe, of_os_calls)
            ledger.ignore("headers")
        elif line.torn:  # its last number may go on
            drop_torn(ledger, line.where)
            ledger.merged += len(parts)
            parts.clear()
        else:
            parts.append(line.text)
            text = "\n".join(parts)
            if text.count('"') % 2 and len(parts) < _MOST_LINES:  # the name goes on in the next line
                continue
            _row(table, text, len(parts), line, rows, ledger)
            parts.clear()
        yield from rows.take()
    if parts:
        drop_torn(ledger, "the last line")
        ledger.merged += len(parts) - 1
    if table is None:
        raise ParseError(source.name, "", "no table of `nsys recipe`")
    yield from rows.take(everything=True)


def _row(table: _RecipeTable, text: str, count: int, line: TextLine, rows: TotalRows, ledger: Ledger) -> None:
    """Take a record of a number of lines, of which the last is given."""
    ledger.merged += count - 1
    cells = [cell.strip() for cell in _cells(text)]
    if len(cells) != len(table.columns):
        why = "dropped: a row with more or fewer cells than its header"
        ledger.drop("bad-row", where=line.where, text=why)
        return
    values = {column: _number(cell) for column, cell in zip(table.columns, cells, strict=True)}
    total = values[table.columns[table.total]]
    if total is None or total < 0 or not _whole(total, _MOST):
        ledger.drop("bad-row", where=line.where, text="dropped: a row whose total is not a number of ns or bytes")
        return
    shown = cells[table.name]
    kind, name = _kind_of(table, shown)
    args: dict[str, object] = {}
    unit = "bytes" if table.of_sizes else "ns"
    if unit == "ns" and not table.recipe and table.columns[table.total] == "Sum" and _MEMORY.match(shown):
        unit = ""
        ledger.note("recipe-not-known", _NOT_KNOWN, where=line.where)
        args[table.columns[table.total]] = int(total)
    more = _columns(table, values, unit, total, args)
    for column, cell in zip(table.columns, cells, strict=True):
        if column in _KEPT or (column in _MEDIANS and not table.approximate) or column == table.columns[table.total]:
            continue
        if cell and column != table.columns[table.name]:
            value = values[column]
            args[column] = cell if value is None else int(value) if _whole(value, _MOST) else float(value)
    rows.add(0, table.section, name, str(kind), args, raw_name=shown if shown != name else None, **more)
    ledger.kept += 1


_KEPT = frozenset((*_CALLS, *_MEANS, *_SPREADS, *_DEVICES, *_SHARES, "Min", "Max", "Rank"))
"""Columns that have a place in the row, and shares, which follow from it."""


def _columns(
    table: _RecipeTable, values: Mapping[str, Decimal | None], unit: str, total: Decimal, args: dict[str, object]
) -> dict[str, object]:
    """Return the columns of a row. unit: "ns", "bytes", or "" where it is not known."""

    def of(names: tuple[str, ...]) -> Decimal | None:
        return next((values[name] for name in names if name in values), None)

    more: dict[str, object] = {}
    for column, names in (("calls", _CALLS), ("rank", ("Rank",)), ("device", _DEVICES)):
        number = of(names)
        if number is not None and number >= 0 and _whole(number, _MOST if column == "calls" else _INT32):
            more[column] = int(number)
    mean, least, most = of(_MEANS), of(("Min",)), of(("Max",))
    median = None if table.approximate else of(_MEDIANS)
    if unit != "ns":
        if unit:
            more |= {"bytes": int(total), "unit": unit}
        for column, number in (("value_avg", mean), ("value_min", least), ("value_max", most)):
            if number is not None:
                more[column] = float(number)
        if median is not None:
            args[_name_in(table, _MEDIANS)] = float(median)
        if (spread := of(_SPREADS)) is not None:
            args[_name_in(table, _SPREADS)] = float(spread)
        return more
    more["total_ns"] = int(total)
    for column, number in (("min_ns", least), ("max_ns", most), ("median_ns", median)):
        if number is not None and 0 <= number < _MOST:
            more[column] = int(number.to_integral_value())
            if not _whole(number, _MOST):  # the median of two has half a ns
                args[column] = float(number)
    for column, number in (("avg_ns", mean), ("std_ns", of(_SPREADS))):
        if number is not None and 0 <= number < _MOST:
            more[column] = float(number)
    return more


def _name_in(table: _RecipeTable, names: tuple[str, ...]) -> str:
    return next(name for name in names if name in table.columns)


def _number(cell: str) -> Decimal | None:
    """Return the number in a cell, None for other text."""
    if _NUMBER.fullmatch(cell) is None:
        return None
    try:
        number = Decimal(cell)
    except InvalidOperation:
        return None
    return number if number.is_finite() and number.adjusted() < 40 else None


def _whole(number: Decimal, most: int) -> bool:
    return abs(number) <= most and number == number.to_integral_value()


def _kind_of(table: _RecipeTable, shown: str) -> tuple[Kind, str]:
    """Return the kind of a row and its name, which is without the version that CUPTI appends to a call."""
    from tracekit.model.schema import Kind
    from tracekit.readers.nsys._tables import HOST_CALL
    from tracekit.readers.sqlite.cupti import call_kind, call_name

    recipe = table.recipe
    if not recipe or recipe == "cuda_api_sum":
        if HOST_CALL.match(shown) and "(" not in shown:
            return call_kind(shown), call_name(shown)
        if recipe:
            return Kind.RUNTIME, shown
    if recipe.startswith("cuda_gpu_mem") or (not recipe and _MEMORY.match(shown)):
        return (Kind.MEMSET if "memset" in shown.lower() else Kind.MEMCPY), shown
    if recipe.startswith(("mpi", "nccl")) or (not recipe and shown.startswith("MPI_")):
        return Kind.COMMUNICATION, shown
    if recipe.startswith("nvtx") or table.columns[table.name] in _RANGES:
        return Kind.USER_RANGE, shown
    no_kernels = table.of_os_calls or "Num Calls" in table.columns or table.columns[table.name] == "name"
    if recipe == "osrt_sum" or (not recipe and no_kernels):
        return Kind.OTHER, shown
    return Kind.KERNEL, shown

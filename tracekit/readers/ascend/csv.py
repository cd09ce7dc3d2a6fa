"""ascend-csv: the tables of msprof (CANN) and of torch_npu's profiler for Ascend NPUs.

    Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),Duration(us),...
    19,0,4294967295,61653,2,aclnnMatmul_MatMulV2,MatMulV2,dynamic,AI_CORE,"1736413971558972.912\\t",185.504,...

A record is a row; `event_id` is its number. Columns are found by name, so all versions are read. Times are Unix time
in us with up to three decimals, behind which a tab may follow; here they are exact ns.

Events: kernel_details.csv, op_summary_*.csv and task_time_*.csv. Tasks of AI cores, vector cores, AI CPUs and DSA are
kernels, and so are communication operators (HCCL): they have the name of their collective, and no stream. `grid_x` is
the number of blocks. All other cells are in `args` under the file's own names: type, accelerator, shapes, datatypes,
formats, wait time, and the metrics of the cores (one that is 0 is left out). Shapes of inputs and outputs lead to FLOPs
and bytes of matrix products, convolutions, attention without a mask, and operators that read and write each element
once (`analysis/efficiency/npu_operators.py`); what needs an attribute of the operator is not known. In task_time, `N/A`
is the name of a task that is no operator: it has the name of its type.

Totals: op_statistic, communication_statistic, api_statistic, step_trace_time.csv (a row for each part of each step) and
operator_details.csv (a row for each operator; `merged` counts its further calls). Their figures are those of the file.
Ratios and variances are in `args`.

kernel_details.csv has the same tasks as trace_view.json and ascend_pytorch_profiler.db beside it, and op_summary the
same as msprof_*.db: of a folder one of them is read.

Not supported: tables of memory, caches, bandwidth and host use; step_trace_*.csv of msprof. Sources: profile_data_file_
references.md and the exporters of msprof 26, the analysis code of torch_npu, files of msprof-analyze and of CANN 8.5.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import Column, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import WITHOUT_TIMES, Ledger, Run, SourceFacts
from tracekit.model.units import MAX_NS, to_ns
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import RowBuilder, bounded, event_batch, map_texts
from tracekit.readers.cann import call_kind, kernel_kind, task_kind
from tracekit.readers.engine.torn import without_torn
from tracekit.readers.head import Head
from tracekit.readers.printed.locale import as_csv
from tracekit.readers.printed.starts import with_order
from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

_HEADER_BYTES = 16384
_TIME = re.compile(r"(.*?) ?\((ns|us|ms|s)\)")
"""A column of times, with its unit: `Start Time(us)`."""


@dataclass(frozen=True, slots=True)
class AscendTable:
    """A table by the columns that it needs; times without their unit. makes: events, sums, steps or operators."""

    name: str
    needed: frozenset[str]
    makes: str


_TABLES = (
    AscendTable("kernel_details", frozenset({"Name", "Accelerator Core", "Start Time", "Duration"}), "events"),
    AscendTable("op_summary", frozenset({"Op Name", "Task Start Time", "Task Duration"}), "events"),
    AscendTable("op_summary", frozenset({"Op Name", "Start Time", "Task Duration"}), "events"),
    AscendTable("task_time", frozenset({"kernel_name", "kernel_type", "task_start", "task_stop"}), "events"),
    AscendTable("op_statistic", frozenset({"OP Type", "Core Type", "Count", "Total Time"}), "sums"),
    AscendTable("communication_statistic", frozenset({"OP Type", "Count", "Total Time"}), "sums"),
    AscendTable("api_statistic", frozenset({"Level", "API Name", "Time", "Count"}), "sums"),
    AscendTable(
        "step_trace_time", frozenset({"Step", "Computing", "Communication(Not Overlapped)", "Communication"}), "steps"
    ),
    AscendTable(
        "operator_details", frozenset({"Name", "Host Self Duration", "Host Total Duration"}), "operators"
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AscendHeader:
    """The columns of a file in their order, without the units of times, and the unit of each time."""

    table: AscendTable
    columns: tuple[str, ...]
    titles: Mapping[str, str]
    units: Mapping[str, str]


def sniff(head: Head) -> Confidence:
    """Return YES for a first line that is the header of such a table."""
    return Confidence.YES if head.text and header_of(head.data) is not None else Confidence.NO


def header_of(data: bytes) -> AscendHeader | None:
    """Return the header in the first line with text, None if it is no such table."""
    line = data.lstrip(b"\xef\xbb\xbf \r\n")[:_HEADER_BYTES].partition(b"\n")[0].decode("utf-8", "replace").strip()
    try:
        cells = next(csv.reader([line], delimiter=_delimiter(line)), [])
    except csv.Error:  # a line end of old Macs in the middle
        return None
    columns: list[str] = []
    titles: dict[str, str] = {}
    units: dict[str, str] = {}
    for place, cell in enumerate(map(str.strip, cells)):
        timed = _TIME.fullmatch(cell)
        name = timed[1] if timed else cell
        # A second column of one name is not looked at, but has its place in each row.
        columns.append(name if name and name not in titles else f"\0{place}")
        titles.setdefault(columns[-1], cell)
        if timed:
            units.setdefault(columns[-1], timed[2])
    table = next((each for each in _TABLES if each.needed <= set(columns)), None)
    if table is None or (table.makes == "events" and _timed(table) & units.keys() != _timed(table)):
        return None
    return AscendHeader(table, tuple(columns), titles, units)


def _delimiter(line: str) -> str:
    return max(",;\t", key=line.count)


def _timed(table: AscendTable) -> set[str]:
    """Return the columns of a table that must have a unit: without it a time has no meaning."""
    return {name for name in table.needed if "Start" in name or "Duration" in name or name.startswith("task_")}


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events or totals. Raises: ParseError for another header."""
    header = header_of(source.head().data)
    if header is None:
        raise ParseError(source.name, "line 1", "not the header of a table of msprof or torch_npu")
    facts: dict[str, object] = {"tool": "Ascend profiler (msprof, torch_npu)", "table": header.table.name}
    run = Run(sources=[SourceFacts(source.name, "ascend-csv", facts=facts)])
    if header.table.makes == "events":
        run.origin_ns = 0
    else:
        facts[WITHOUT_TIMES] = True
    first = next((line for line in source.head().data.splitlines() if line.strip()), b"").decode("utf-8", "replace")
    # A sheet may have numbers of another locale; between commas, shapes such as `4,1024` would look like some.
    if _delimiter(first) != "," or "Input Shapes" not in header.columns:
        source = as_csv(source, options)
    batches = _AscendCsvReading(header, options, ledger, run).batches(source)
    if header.table.makes == "events":
        batches = with_order(batches, run, ledger)
    return ReadResult(run, batches, False, (ledger,))


_LONGEST_RECORD = 1 << 20
"""Bytes of a row with line ends in a cell: a quotation mark that is never closed would take all rows behind it."""


@dataclass(frozen=True, slots=True)
class RecordBlock:
    """Whole rows of a table. line: number of the first line. torn: the file ends within the last row."""

    rows: list[bytes]
    line: int
    torn: bool


def record_blocks(source: Source, ledger: Ledger) -> Iterator[RecordBlock]:
    """Yield the rows of a table. A cell in quotation marks may have line ends: stacks of operator_details.csv do."""
    carry, line = b"", 1
    for block in source.line_blocks(ledger):
        data, line = carry + block.data, line if carry else block.line
        carry = b""
        if data.count(b'"') % 2:
            cut = _whole_rows(data)
            if len(data) - cut <= _LONGEST_RECORD:
                data, carry = data[:cut], data[cut:]
        if data:
            yield RecordBlock(_split(data), line, block.torn and not carry)
        line += data.count(b"\n")
    if carry:  # the file ends within quotation marks
        yield RecordBlock([carry], line, True)


def _whole_rows(data: bytes) -> int:
    """Return the number of bytes up to the last line end that is in no quotation marks."""
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw == 10)
    inside = np.searchsorted(np.flatnonzero(raw == 34), ends) % 2 == 1
    outside = ends[~inside]
    return int(outside[-1]) + 1 if outside.size else 0


def _split(data: bytes) -> list[bytes]:
    """Return the rows of a text; where its quotation marks have no partner, each line is one."""
    if b'"' not in data or data.count(b'"') % 2:
        return data.split(b"\n")[: data.count(b"\n") + (not data.endswith(b"\n"))]
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw == 10)
    inside = np.searchsorted(np.flatnonzero(raw == 34), ends) % 2 == 1
    places = [0, *(ends[~inside] + 1).tolist()]
    rows = [data[start : end - 1] for start, end in pairwise(places)]
    return rows if places[-1] == len(data) else [*rows, data[places[-1] :]]


def _without_open_quotes(rows: list[bytes], width: int) -> list[bytes]:
    """Return the rows; one of several lines that is none becomes its lines, if some of them are rows.

    A quotation mark that is not closed takes the rows behind it up to the next mark.
    """
    found: list[bytes] = []
    for row in rows:
        lines = row.split(b"\n") if b"\n" in row and _parsed(row, width) is None else [row]
        found += lines if any(_parsed(line, width) for line in lines) else [row]
    return found


_PLAIN = r"^(?:[0-9]{1,%d}|[1-4][0-9]{%d})(?:\.[0-9]{%d,%d})?$"
"""A time that int64 holds in ns: the most digits before the point, twice, and those behind it."""
_DIGITS = {"ns": 0, "us": 3, "ms": 6, "s": 9}
_WHOLE = r"^[0-9]{1,18}$"
_METRIC = re.compile(r"ai[cv\*]|cube_utilization|vector_", re.ASCII)
"""Columns of metrics of the cores: of a core that the task did not use they are 0."""
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,15})?", re.ASCII)
_NO_MODEL = str((1 << 32) - 1)
_INT32 = 1 << 31


def _texts(column: Column) -> Column:
    """Return cells without blanks, and without a tab that keeps a sheet from rounding a number."""
    return pc.utf8_trim_whitespace(column)


def _times(column: Column, unit: str) -> Column:
    """Return cells as ns, null where a cell is no time. Half a ns and less is rounded to the even one."""
    digits = _DIGITS[unit]
    pattern = _PLAIN % (18 - digits, 18 - digits, min(digits, 1), digits)
    is_plain = pc.match_substring_regex(column, pattern=pattern)
    plain = pc.if_else(is_plain, column, None).cast(pa.decimal128(25, digits))
    scale = pa.scalar(Decimal(10**digits), pa.decimal128(10, 0))
    found: Column = pc.multiply(plain, scale).cast(pa.decimal128(38, 0)).cast(pa.int64())
    if arrow.bools(is_plain).all():
        return found
    encoded = arrow.encoded(pc.if_else(is_plain, None, column))
    odd = arrow.array([_odd_time(text, unit) for text in arrow.texts(encoded.dictionary)], pa.int64())
    return pc.coalesce(found, arrow.in_one(pa.chunked_array([odd.take(encoded.indices)])))


def _odd_time(text: str, unit: str) -> int | None:
    try:
        return to_ns(text, unit)
    except ValueError:
        return None


def _integers(column: Column, limit: int = 1 << 62) -> Column:
    """Return cells as integers below a limit, null for others."""
    values = pc.if_else(pc.match_substring_regex(column, pattern=_WHOLE), column, None).cast(pa.int64())
    return pc.if_else(pc.less(values, limit), values, None)


def _members(title: str, text: str) -> str | None:
    """Return a cell as a member of a JSON object, None where it says nothing."""
    text = text.strip().strip('"').strip()
    if text in ("", "N/A") or (text == _NO_MODEL and title == "Model ID"):
        return None
    if _NUMBER.fullmatch(text) and not title.endswith("Shapes"):
        if _METRIC.match(title) and not text.strip("0."):
            return None
        return f"{orjson.dumps(title).decode()}:{text}"
    return f"{orjson.dumps(title).decode()}:{orjson.dumps(text).decode()}"


class _AscendCsvReading:
    def __init__(self, header: AscendHeader, options: ReadOptions, ledger: Ledger, run: Run) -> None:
        self.header, self.options, self.ledger, self.run = header, options, ledger, run
        self.row = 0
        self.totals = RowBuilder("totals")
        self.operators: list[pa.Table] = []

    def batches(self, source: Source) -> Iterator[pa.RecordBatch]:
        has_header = False
        for block in record_blocks(source, self.ledger):
            rows, ledger = _without_open_quotes(block.rows, len(self.header.columns)), self.ledger
            ledger.read += len(rows)
            full = [row for row in rows if row.strip(b"\xef\xbb\xbf \r\t")]
            ledger.ignore("blank", len(rows) - len(full))
            if not has_header and full:
                ledger.ignore("header", 1)
                full, has_header = full[1:], True
            if block.torn:
                cells_of = partial(_parsed, width=len(self.header.columns))
                full = without_torn(full, cells_of, block.line + len(rows) - 1, ledger)
            if (cells := self._cells(full, block.line)) is not None:
                yield from self._rows(cells)
                self.row += len(next(iter(cells.values())))
        self._add_operators()
        if len(self.totals):
            self.ledger.totals_out += len(self.totals)
            yield self.totals.take()

    def _cells(self, rows: list[bytes], line: int) -> dict[str, Column] | None:
        """Return the cells of rows as texts by the name of their column. A row with too few or too many is dropped."""
        names = self.header.columns
        table = self._table(rows)
        if table is None or table.num_rows != len(rows):
            parsed = [row for each in rows if (row := _parsed(each, len(names))) is not None]
            text = "dropped: a row with another number of cells than the header"
            self.ledger.drop("bad-row", len(rows) - len(parsed), where=f"after line {line}", text=text)
            columns = [arrow.array([row[place] for row in parsed], pa.string()) for place in range(len(names))]
            table = pa.table(columns, names=list(names))
        cells = {name: _texts(arrow.in_one(table.column(name))) for name in names}
        # Files that were put behind each other have a header each.
        named = next(name for name in names if name in self.header.table.needed)
        repeated = arrow.bools(pc.equal(cells[named], self.header.titles[named]))
        if repeated.any():
            self.ledger.ignore("header", int(repeated.sum()))
            cells = {name: column.filter(arrow.array(~repeated)) for name, column in cells.items()}
        return cells if len(cells[named]) else None

    def _table(self, rows: list[bytes]) -> pa.Table | None:
        """Return the cells of rows as texts, None where they are not read so."""
        names = list(self.header.columns)
        if not rows:
            return None
        try:
            return pacsv.read_csv(
                io.BytesIO(b"\n".join(rows)),
                pacsv.ReadOptions(column_names=names, use_threads=False, block_size=64 << 20),
                pacsv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda _: "skip"),
                pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
            )
        except pa.ArrowException:
            return None

    def _rows(self, cells: Mapping[str, Column]) -> Iterator[pa.RecordBatch]:
        """Yield the events of some rows, or keep what they add to the totals."""
        makes = self.header.table.makes
        if makes == "events":
            yield from self._events(cells)
        elif makes == "sums":
            self._sums(cells)
        elif makes == "steps":
            self._steps(cells)
        else:
            self._operators(cells)

    def _events(self, cells: Mapping[str, Column]) -> Iterator[pa.RecordBatch]:
        ledger, units, table = self.ledger, self.header.units, self.header.table.name
        start, length = _SPANS[table]
        start = start if start in cells else "Start Time"
        starts, second = _times(cells[start], units[start]), _times(cells[length], units[length])
        ts, dur = arrow.ints(starts), arrow.ints(second)
        if table == "task_time":
            dur = dur - ts
        known = arrow.valid(starts) & arrow.valid(second)
        bad_time = ~known | (ts < 0) | (ts >= MAX_NS) | (dur >= MAX_NS - np.clip(ts, 0, MAX_NS))
        backward = ~bad_time & (dur < 0)
        for code, bad, text in (
            ("bad-time", bad_time, "dropped: a row without its start or duration"),
            ("ends-before-start", backward, "dropped: a row that ends before it starts"),
        ):
            if bad.any():
                where = f"row {self.row + 1 + int(np.flatnonzero(bad)[0])}"
                ledger.drop(code, int(np.count_nonzero(bad)), where=where, text=text)
        good = ~bad_time & ~backward
        count = int(np.count_nonzero(good))
        if not count:
            return
        mask = arrow.array(good)
        kept = {name: column.filter(mask) for name, column in cells.items()}
        ledger.kept += count
        ledger.events_out += count
        yield event_batch(
            count,
            {
                "ts_ns": ts[good],
                "dur_ns": dur[good],
                "event_id": np.arange(self.row + 1, self.row + 1 + len(good))[good],
                "source": self.options.source,
                **self._named(kept),
                **self._placed(kept),
                "args": self._args(kept) if self.options.wants("args") else None,
            },
        )

    def _named(self, cells: Mapping[str, Column]) -> dict[str, Column]:
        """Return name and kind of rows."""
        table = self.header.table.name
        names = cells[_NAMES[table]]
        if table == "task_time":
            types = cells["kernel_type"]
            names = pc.if_else(pc.is_in(names, pa.array(["", "N/A"])), types, names)
            kinds = map_texts(types, lambda text: str(task_kind(text, "")))
        else:
            cores = cells.get("Accelerator Core", cells.get("Task Type"))
            kinds = map_texts(names if cores is None else cores, lambda text: str(kernel_kind(text if cores else "")))
        return {"name": map_texts(names, lambda text: bounded(text, self.ledger) or None), "kind": kinds}

    def _placed(self, cells: Mapping[str, Column]) -> dict[str, Column | int | None]:
        """Return device, stream, step and blocks of rows."""

        def whole(*names: str, limit: int = _INT32) -> Column | None:
            found = next((cells[name] for name in names if name in cells), None)
            return None if found is None else _integers(found, limit)

        devices = whole("Device_id", "device_id")
        placed: dict[str, Column | int | None] = {
            "device": devices,
            "stream": whole("Stream ID", "stream_id", limit=1 << 62),
            "step": whole("Step Id"),
        }
        if devices is not None:  # the file names no model
            for number in pc.unique(devices).drop_null().to_pylist():
                self.run.devices.setdefault((self.options.source, number), "NPU")
        else:
            self.run.devices.setdefault((self.options.source, None), "NPU")
        if (blocks := whole("Block Dim", "Block Num")) is not None:
            # A program of CANN names one number of blocks: <<<blocks, l2, stream>>>.
            some = pc.if_else(pc.greater(blocks, 0), blocks, None)
            one = pc.if_else(pc.greater(blocks, 0), pa.scalar(1, pa.int64()), None)
            placed |= {"grid_x": some, "grid_y": one, "grid_z": one}
        return placed

    def _args(self, cells: Mapping[str, Column]) -> Column | None:
        """Return a JSON object of the cells that have no column."""
        parts = []
        for name, column in cells.items():
            if name in _TAKEN or name.startswith("\0"):
                continue
            encoded = arrow.encoded(column)
            members = [_members(self.header.titles[name], text) for text in arrow.texts(encoded.dictionary)]
            if any(members):
                parts.append(arrow.take(arrow.array(members, pa.string()), arrow.ints(encoded.indices)))
        if not parts:
            return None
        joined = arrow.joined(parts, ",")
        return pc.if_else(pc.equal(joined, ""), None, pc.binary_join_element_wise("{", joined, "}", ""))

    def _sums(self, cells: Mapping[str, Column]) -> None:
        """Add the rows of a table of sums to the totals."""
        table, units = self.header.table.name, self.header.units
        of_calls = table == "api_statistic"
        name, total = ("API Name", "Time") if of_calls else ("OP Type", "Total Time")
        texts = {key: arrow.texts(column) for key, column in cells.items()}
        for at in range(len(texts[name])):
            row = {key: column[at] for key, column in texts.items()}

            def ns(key: str, row: Mapping[str, str] = row) -> int | None:
                return _odd_time(row[key], units[key]) if key in row and key in units else None

            calls, total_ns = (int(row["Count"]) if re.fullmatch(_WHOLE, row["Count"]) else None), ns(total)
            if calls is None or total_ns is None or total_ns < 0:
                where = f"row {self.row + at + 1}"
                self.ledger.drop("bad-row", where=where, text="dropped: a row without its numbers")
                continue
            edges = [next((ns(f"{what}{ending}") for ending in (" Time", "") if f"{what}{ending}" in row), None)
                     for what in ("Min", "Max")]  # fmt: skip
            mean = next((key for key in ("Avg Time", "Avg") if key in row), "")
            variance = _number(row.get("Variance", ""))
            self.totals.add(
                source=self.options.source,
                run=0,
                section=table,
                order=len(self.totals),
                name=self._bounded(row[name]),
                kind=str(call_kind(row["Level"]) if of_calls else kernel_kind(row.get("Core Type", ""))),
                calls=calls,
                total_ns=total_ns,
                min_ns=edges[0],
                max_ns=edges[1],
                avg_ns=None if (avg := _number(row.get(mean, ""))) is None else avg * _NS[units.get(mean, "us")],
                std_ns=None if variance is None or variance < 0 else math.sqrt(variance) * _NS[units[total]],
                device=_device(row),
                args=_object(self.header.titles, row, ("Level", "Core Type", "Ratio(%)", "Variance", "Model Name")),
            )
            self.ledger.kept += 1

    def _bounded(self, text: str) -> str | None:
        return bounded(text, self.ledger) or None

    def _steps(self, cells: Mapping[str, Column]) -> None:
        """Add the parts of steps to the totals, as printed. The header has no unit: all of them are us.

        They are metrics of a step, not calls: some are within others, so their sum has no meaning.
        """
        parts = [name for name in self.header.columns if name not in _OF_STEPS and not name.startswith("\0")]
        texts = {key: arrow.texts(column) for key, column in cells.items()}
        for at in range(len(texts["Step"])):
            row = {key: column[at] for key, column in texts.items()}
            found = {name: _number(row[name]) for name in parts if row[name] not in ("", "N/A")}
            if not found or None in found.values():
                where = f"row {self.row + at + 1}"
                self.ledger.drop("bad-row", where=where, text="dropped: a row without its numbers")
                continue
            step = f"step {row['Step']}" if row["Step"] else ""
            name = " ".join(filter(None, (step, row.get("Type"), row.get("Index")))) or "all"
            for metric, value in found.items():
                self.totals.add(
                    source=self.options.source,
                    run=0,
                    section=self.header.table.name,
                    order=len(self.totals),
                    name=name,
                    kind=str(Kind.STEP),
                    calls=1,
                    value_min=value,
                    value_max=value,
                    value_avg=value,
                    unit="us",
                    device=_device(row),
                    args=orjson.dumps({"metric": metric}).decode(),
                )
            self.ledger.kept += 1

    def _operators(self, cells: Mapping[str, Column]) -> None:
        """Collect the calls of operators: only their sums stay."""
        columns = {key: _times(cells[title], self.header.units.get(title, "us"))
                   for title, key in _OPERATOR_TIMES.items() if title in cells}  # fmt: skip
        good = np.logical_and.reduce([arrow.valid(column) for column in columns.values()])
        if not good.all():
            where = f"row {self.row + 1 + int(np.flatnonzero(~good)[0])}"
            text = "dropped: a row without its numbers"
            self.ledger.drop("bad-row", int(np.count_nonzero(~good)), where=where, text=text)
        calls = {name: column.filter(arrow.array(good)) for name, column in ({"name": cells["Name"]} | columns).items()}
        self.operators = [_grouped([*self.operators, _once(calls)])]

    def _add_operators(self) -> None:
        """Add the sums of the operators to the totals, in the order in which they were first called."""
        for table in self.operators:
            for row in table.to_pylist():
                times_ns = {key: int(row[key]) for key in _OPERATOR_TIMES.values() if key in row}
                if any(abs(ns) >= MAX_NS for ns in times_ns.values()):
                    text = "dropped: calls of an operator whose times add up to more than 146 years"
                    self.ledger.drop("bad-time", row["calls"], where=str(row["name"])[:80], text=text)
                    continue
                self.totals.add(
                    source=self.options.source,
                    run=0,
                    section=self.header.table.name,
                    order=len(self.totals),
                    name=self._bounded(row["name"]),
                    kind=str(Kind.OPERATOR),
                    calls=row["calls"],
                    total_ns=times_ns.pop("total_ns"),
                    min_ns=row["min_ns"],
                    max_ns=row["max_ns"],
                    args=orjson.dumps(times_ns).decode(),
                )
                self.ledger.kept += 1
                self.ledger.merged += row["calls"] - 1


_SPANS = {
    "kernel_details": ("Start Time", "Duration"),
    "op_summary": ("Task Start Time", "Task Duration"),
    "task_time": ("task_start", "task_stop"),
}
"""The columns of start and duration, or of start and end."""
_NAMES = {"kernel_details": "Name", "op_summary": "Op Name", "task_time": "kernel_name"}
_TAKEN = frozenset(
    {
        *("Name", "Op Name", "kernel_name", "Start Time", "Duration", "Task Start Time", "Task Duration"),
        *("task_start", "task_stop", "task_time", "Device_id", "device_id", "Stream ID", "stream_id", "Step Id"),
        *("Block Dim", "Block Num"),
    }
)
"""Columns whose cells have a column of EVENTS."""
_OF_STEPS = frozenset({"Device_id", "Step", "Type", "Index"})
_OPERATOR_TIMES = {
    "Host Total Duration": "total_ns",
    "Host Self Duration": "self_ns",
    "Device Total Duration": "device_ns",
    "Device Self Duration": "device_self_ns",
    "Device Self Duration With AICore": "ai_core_self_ns",
    "Device Total Duration With AICore": "ai_core_ns",
}
_WIDE = pa.decimal128(38, 0)
_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def _device(row: Mapping[str, str]) -> int | None:
    """Return the device of a row; API calls have the word `host` there."""
    text = row.get("Device_id", "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _parsed(row: bytes, width: int) -> list[str] | None:
    """Return the cells of a row, None where it has too few or too many."""
    try:
        cells = next(csv.reader(io.StringIO(row.decode("utf-8", "replace")), strict=True), [])
    except csv.Error:
        return None
    return cells if len(cells) == width else None


def _object(titles: Mapping[str, str], row: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    """Return a JSON object of these cells."""
    members = [member for key in keys if key in row and (member := _members(titles[key], row[key]))]
    return "{" + ",".join(members) + "}" if members else None


def _once(columns: Mapping[str, Column]) -> pa.Table:
    """Return calls as sums of one call each."""
    total = columns["total_ns"]
    # Sums of a damaged file may exceed int64.
    figures = {name: column.cast(_WIDE) for name, column in columns.items() if name != "name"}
    edges = {"calls": arrow.array(np.ones(len(total), np.int64)), "min_ns": total, "max_ns": total}
    return pa.table({"name": columns["name"]} | figures | edges)


def _grouped(tables: list[pa.Table]) -> pa.Table:
    """Return the sums of each name."""
    table = pa.concat_tables(tables)
    edges = {"min_ns": "min", "max_ns": "max"}
    ways: Any = {name: edges.get(name, "sum") for name in table.column_names if name != "name"}
    found = table.group_by("name", use_threads=False).aggregate(list(ways.items()))
    return pa.table({"name": found["name"]} | {name: found[f"{name}_{way}"] for name, way in ways.items()})

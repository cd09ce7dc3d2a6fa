"""Tables of rocprof and rocprofv3: recognition, cells, events and totals."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv

from tracekit.columns import arrow
from tracekit.columns.arrow import Column, pc
from tracekit.errors import ParseError
from tracekit.readers import rocm
from tracekit.readers.amd._rows import copy_kind, region_kind
from tracekit.readers.base import Opened, ReadOptions
from tracekit.readers.builder import RowBuilder, Values, event_batch
from tracekit.readers.source import LineBlock, Source
from tracekit.schema import Kind
from tracekit.trace import Ledger, Run, SourceFacts
from tracekit.units import MAX_NS

_V3 = {"Start_Timestamp", "End_Timestamp"}
_FORMS = (
    ("counters", {"Counter_Name", "Counter_Value", "Kernel_Name", "Dispatch_Id"}),
    ("kernels", {"Kind", "Kernel_Name", "Dispatch_Id"} | _V3),
    ("calls", {"Domain", "Function", "Process_Id", "Thread_Id"} | _V3),
    ("copies", {"Kind", "Direction"} | _V3),
    ("memory", {"Kind", "Operation"} | _V3),
    ("results", {"Index", "KernelName", "gpu-id", "BeginNs", "EndNs"}),
    ("sums", {"Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage"}),
)
_INTEGER = r"^[0-9]{1,18}$"
_AGENT = r"^(?:Agent |GPU |CPU )?([0-9]{1,9})$"
_WHOLE = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a file, and what its rows are."""

    form: str
    columns: tuple[str, ...]


def header_of(data: bytes) -> Header | None:
    """Return the header in the first line with text, None if it is no such table."""
    line = data.lstrip(b"\xef\xbb\xbf \r\n")[:16384].partition(b"\n")[0].decode("utf-8", "replace").strip()
    try:
        columns = tuple(cell.strip() for cell in next(csv.reader([line]), []))
    except csv.Error:  # a line end of old Macs in the middle
        return None
    if len(set(columns)) < len(columns):
        return None
    form = next((name for name, needed in _FORMS if needed <= set(columns)), "")
    return Header(form, columns) if form else None


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events or totals. Raises: ParseError for another header."""
    header = header_of(source.head().data)
    if header is None:
        raise ParseError(source.name, "line 1", "not the header of a table of rocprof or rocprofv3")
    tool = "rocprof" if header.form == "results" else "rocprofv3" if header.form != "sums" else "rocprof or rocprofv3"
    run = Run(sources=[SourceFacts(source.name, "rocprof-csv", facts={"tool": tool, "table": header.form})])
    reading = _Reading(header, options, ledger)
    return Opened(run, reading.batches(source), False, (ledger,))


class _Reading:
    def __init__(self, header: Header, options: ReadOptions, ledger: Ledger) -> None:
        self.header, self.options, self.ledger = header, options, ledger
        self.row = 0
        self.totals = RowBuilder("totals")
        self.counters: dict[tuple[str, ...], list[float]] = {}

    def batches(self, source: Source) -> Iterator[pa.RecordBatch]:
        first = True
        for block in source.line_blocks(self.ledger):
            lines = block.data.decode("utf-8", "replace").splitlines()
            if first:
                start = next((at for at, line in enumerate(lines) if line.strip("\ufeff \r")), len(lines))
                self.ledger.read += min(start + 1, len(lines))
                self.ledger.ignore("blank", start)
                if start < len(lines):
                    self.ledger.ignore("header", 1)
                lines, first = lines[start + 1 :], False
            yield from self._block(block, lines)
        if self.header.form == "counters":
            self._counted()
        if len(self.totals):
            self.ledger.totals_out += len(self.totals)
            yield self.totals.take()

    def _block(self, block: LineBlock, lines: list[str]) -> Iterator[pa.RecordBatch]:
        ledger, width = self.ledger, len(self.header.columns)
        ledger.read += len(lines)
        full = [line for line in lines if line.strip()]
        ledger.ignore("blank", len(lines) - len(full))
        table = self._table(full)
        if table is None or table.num_rows < len(full):
            rows = [row for line in full if (row := self._cells(line)) is not None]
            if len(rows) < len(full):
                text = "dropped: a row with another number of cells than the header"
                ledger.drop("bad-row", len(full) - len(rows), where=f"after line {block.line}", text=text)
            columns = [arrow.array([row[i] for row in rows], pa.string()) for i in range(width)]
            table = pa.table(columns, names=list(self.header.columns))
        if not table.num_rows:
            return
        cells = {
            name: pa.concat_arrays(column.chunks)
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
        if self.header.form == "sums":
            self._sums(cells)
        elif self.header.form == "counters":
            self._count(cells)
        else:
            yield from self._events(cells)
        self.row += table.num_rows

    def _table(self, lines: list[str]) -> pa.Table | None:
        """Return the cells of lines as texts, None where they are not read so."""
        names = list(self.header.columns)
        if not lines or self.header.form == "sums":
            return None
        try:
            return pacsv.read_csv(
                io.BytesIO("\n".join(lines).encode()),
                pacsv.ReadOptions(column_names=names, use_threads=False, block_size=64 << 20),
                pacsv.ParseOptions(invalid_row_handler=lambda _: "skip"),
                pacsv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
            )
        except pa.ArrowException:
            return None

    def _cells(self, line: str) -> list[str] | None:
        """Return the cells of a line. Old tables of sums have names with commas, without quotation marks."""
        width = len(self.header.columns)
        try:
            cells = next(csv.reader([line], strict=True), [])
        except csv.Error:
            return None
        if self.header.form == "sums" and len(cells) > width and not line.startswith('"'):
            cells = line.rsplit(",", width - 1)
        return cells if len(cells) == width else None

    def _events(self, cells: dict[str, Column]) -> Iterator[pa.RecordBatch]:
        ledger, old = self.ledger, self.header.form == "results"
        names = ("BeginNs", "EndNs") if old else ("Start_Timestamp", "End_Timestamp")
        starts, ends = (_integers(cells[name]) for name in names)
        good = arrow.valid(starts) & arrow.valid(ends)
        ts, stop = arrow.ints(starts), arrow.ints(ends)
        backward = good & (stop < ts)
        for code, bad, text in (
            ("bad-time", ~good | (stop >= MAX_NS), "dropped: a row without both times"),
            ("ends-before-start", backward, "dropped: a row that ends before it starts"),
        ):
            if bad.any():
                where = f"row {self.row + 1 + int(np.flatnonzero(bad)[0])}"
                ledger.drop(code, int((bad & (code == "bad-time") | bad & good).sum()), where=where, text=text)
        good &= ~backward & (stop < MAX_NS)
        count = int(good.sum())
        if not count:
            return
        mask = arrow.array(good)
        kept = {name: column.filter(mask) for name, column in cells.items()}
        columns: dict[str, Values] = {
            "ts_ns": ts[good],
            "dur_ns": (stop - ts)[good],
            "event_id": np.arange(self.row + 1, self.row + 1 + len(good))[good],
            "source": self.options.source,
        }
        columns |= getattr(self, f"_{self.header.form}")(kept, (stop - ts)[good])
        ledger.kept += count
        ledger.events_out += count
        yield event_batch(count, columns)

    def _place(self, cells: dict[str, Column]) -> dict[str, Values]:
        correlation = whole(cells.get("Correlation_Id"))
        return {
            "pid": whole(cells.get("Process_Id")),
            "device": agent(cells.get("Agent_Id")),
            "stream": whole(cells.get("Stream_Id", cells.get("Queue_Id"))),
            "correlation": None if correlation is None else pc.if_else(pc.greater(correlation, 0), correlation, None),
        }

    def _kernels(self, cells: dict[str, Column], _: object) -> dict[str, Values]:
        keys = ["Dispatch_Id", "Thread_Id", "Scratch_Size", "Private_Segment_Size", "Accum_VGPR_Count", "SGPR_Count"]
        keys += ["Queue_Id"] if "Stream_Id" in cells else []
        columns = self._place(cells) | {
            "kind": Kind.KERNEL,
            "name": arrow.encoded(cells["Kernel_Name"]),
            "registers": small(cells.get("VGPR_Count")),
            "static_smem_bytes": whole(cells.get("LDS_Block_Size", cells.get("Group_Segment_Size"))),
            "args": args(cells, keys),
        }
        for axis in "XYZ":
            threads, items = small(cells.get(f"Workgroup_Size_{axis}")), whole(cells.get(f"Grid_Size_{axis}"))
            columns[f"block_{axis.lower()}"] = threads
            if threads is not None and items is not None:
                size = pc.if_else(pc.greater(threads, 0), threads.cast(pa.int64()), None)
                blocks = pc.add(pc.divide(pc.subtract(items, 1), size), 1)
                columns[f"grid_{axis.lower()}"] = pc.if_else(pc.less(blocks, 1 << 31), blocks, None).cast(pa.int32())
        return columns

    def _calls(self, cells: dict[str, Column], durations: object) -> dict[str, Values]:
        pairs = pc.binary_join_element_wise(cells["Domain"], cells["Function"], "\n")
        encoded = arrow.encoded(pairs)
        kinds = [region_kind(*text.split("\n", 1), message=True) for text in arrow.texts(encoded.dictionary)]
        kind = arrow.take(arrow.array([str(k) for k in kinds], pa.string()), arrow.ints(encoded.indices))
        moment = pc.and_(pc.equal(kind, str(Kind.USER_RANGE)), pc.equal(arrow.array(durations), 0))
        return self._place(cells) | {
            "kind": arrow.encoded(pc.if_else(moment, str(Kind.MARK), kind)),
            "tid": whole(cells["Thread_Id"]),
            "name": arrow.encoded(cells["Function"]),
        }

    def _copies(self, cells: dict[str, Column], _: object) -> dict[str, Values]:
        names = arrow.encoded(cells["Direction"])
        kinds = [copy_kind(text) for text in arrow.texts(names.dictionary)]
        target, origin = agent(cells.get("Destination_Agent_Id")), agent(cells.get("Source_Agent_Id"))
        direction = arrow.take(arrow.array(kinds, pa.string()), arrow.ints(names.indices))
        to_host = pc.fill_null(pc.equal(direction, "DtoH"), False)
        device = origin if target is None else target if origin is None else pc.if_else(to_host, origin, target)
        if target is not None and origin is not None:
            peers = pc.and_(pc.equal(direction, "DtoD"), pc.not_equal(target, origin))
            direction = pc.if_else(pc.fill_null(peers, False), "PtoP", direction)
        return self._place(cells) | {
            "kind": Kind.MEMCPY,
            "name": names,
            "copy_kind": arrow.encoded(direction),
            "device": device,
            "args": args(cells, ["Source_Agent_Id", "Destination_Agent_Id"]),
        }

    def _memory(self, cells: dict[str, Column], _: object) -> dict[str, Values]:
        size = whole(cells.get("Allocation_Size"))
        return self._place(cells) | {
            "kind": Kind.MEMORY,
            "tid": whole(cells.get("Thread_Id")),
            "name": arrow.encoded(cells["Operation"]),
            "bytes": None if size is None else pc.if_else(pc.greater(size, 0), size, None),
            "args": args(cells, ["Address", "Alloc_Flags"]),
        }

    def _results(self, cells: dict[str, Column], _: object) -> dict[str, Values]:
        known = ("Index", "KernelName", "gpu-id", "queue-id", "pid", "BeginNs", "EndNs", "DurationNs")
        names = pc.replace_substring_regex(cells["KernelName"], pattern=r"( \[clone )?\.kd\]?$", replacement="")
        encoded = arrow.encoded(names)
        found = [rocm.activity(text) for text in arrow.texts(encoded.dictionary)]
        kinds = arrow.array([str(one[0] if one else Kind.KERNEL) for one in found], pa.string())
        return {
            "kind": arrow.encoded(arrow.take(kinds, arrow.ints(encoded.indices))),
            "name": encoded,
            "raw_name": arrow.encoded(pc.if_else(pc.equal(names, cells["KernelName"]), None, cells["KernelName"])),
            "pid": whole(cells.get("pid")),
            "device": agent(cells["gpu-id"]),
            "stream": whole(cells.get("queue-id")),
            "registers": small(cells.get("arch_vgpr", cells.get("vgpr"))),
            "args": args(cells, [name for name in cells if name not in known]),
        }

    def _sums(self, cells: dict[str, Column]) -> None:
        """Add the totals of a table of sums."""
        columns = {name: arrow.texts(column) for name, column in cells.items()}
        for at, name in enumerate(columns["Name"]):
            texts = {key: values[at].strip() for key, values in columns.items()}
            if not all(_WHOLE.fullmatch(texts[key]) for key in ("Calls", "TotalDurationNs")):
                self.ledger.drop("bad-row", where=f"row {self.row + at + 1}", text="dropped: a row without its numbers")
                continue
            found = rocm.activity(name)
            call = rocm.call_kind(name)
            kind = found[0] if found else call or Kind.KERNEL
            section = "domains" if re.fullmatch(r"[A-Z]+(_[A-Z]+)*", name) else "api" if call else "gpu"
            limits = {key: texts.get(column, "") for key, column in (("min_ns", "MinNs"), ("max_ns", "MaxNs"))}
            rest = {key: text for key, text in texts.items() if key in ("Percentage", "StdDev") and text}
            self.totals.add(
                source=self.options.source,
                run=0,
                section=section,
                order=len(self.totals),
                name=name,
                kind=None if section == "domains" else str(kind),
                calls=int(texts["Calls"]),
                total_ns=int(texts["TotalDurationNs"]),
                avg_ns=_float(texts["AverageNs"]),
                args=orjson.dumps(rest).decode() if rest else None,
                **{key: int(text) for key, text in limits.items() if _WHOLE.fullmatch(text)},
            )
            self.ledger.kept += 1

    def _count(self, cells: dict[str, Column]) -> None:
        """Collect the values of counters."""
        agents = cells.get("Agent_Id", arrow.array([""] * len(cells["Kernel_Name"]), pa.string()))
        keys = pc.binary_join_element_wise(agents, cells["Counter_Name"], cells["Kernel_Name"], "\n")
        encoded = arrow.encoded(keys)
        values = np.array([_float(text) for text in arrow.texts(cells["Counter_Value"])], np.float64)
        codes = arrow.ints(encoded.indices)
        bad = ~np.isfinite(values)
        if bad.any():
            self.ledger.drop("bad-value", int(bad.sum()), text="dropped: a counter without a value")
        for code, text in enumerate(arrow.texts(encoded.dictionary)):
            mine = values[(codes == code) & ~bad]
            if len(mine):
                one = self.counters.setdefault(tuple(text.split("\n", 2)), [0.0, np.inf, -np.inf, 0.0])
                one[0] += len(mine)
                one[1], one[2] = min(one[1], float(mine.min())), max(one[2], float(mine.max()))
                one[3] += float(mine.sum())

    def _counted(self) -> None:
        for (device, counter, kernel), (calls, low, high, total) in self.counters.items():
            self.totals.add(
                source=self.options.source,
                run=0,
                section="metrics",
                order=len(self.totals),
                name=kernel,
                kind=str(Kind.KERNEL),
                calls=int(calls),
                value_min=low,
                value_max=high,
                value_avg=total / calls,
                device=_agent(arrow.array([device], pa.string()))[0].as_py(),
                args=orjson.dumps({"metric": counter, "total": total}).decode(),
            )
            self.ledger.kept += 1
            self.ledger.merged += int(calls) - 1


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def whole(column: Column | None) -> Column | None:
    """Return a column of texts as integers, null where a text is none; None for a missing column."""
    return None if column is None else _integers(column)


def _integers(column: Column) -> Column:
    good = pc.match_substring_regex(column, pattern=_INTEGER)
    return pc.if_else(good, column, None).cast(pa.int64())


def small(column: Column | None) -> Column | None:
    """Return a column of texts as int32, null beyond that."""
    return None if column is None else _int32(column)


def _int32(column: Column) -> Column:
    values = _integers(column)
    return pc.if_else(pc.less(values, 1 << 31), values, None).cast(pa.int32())


def agent(column: Column | None) -> Column | None:
    """Return the numbers of agents: `4` or `Agent 4`."""
    return None if column is None else _agent(column)


def _agent(column: Column) -> Column:
    return _int32(pc.replace_substring_regex(column, pattern=_AGENT, replacement=r"\1"))


def args(cells: dict[str, Column], keys: list[str]) -> Column | None:
    """Return a JSON object of these cells for each row, without cells that are empty or 0."""
    parts = []
    for key in keys:
        if (column := cells.get(key)) is None:
            continue
        encoded = arrow.encoded(column)
        members = [_member(key, text) for text in arrow.texts(encoded.dictionary)]
        if any(members):
            parts.append(arrow.take(arrow.array(members, pa.string()), arrow.ints(encoded.indices)))
    if not parts:
        return None
    joined = arrow.joined(parts, ",")
    return pc.if_else(pc.equal(joined, ""), None, pc.binary_join_element_wise("{", joined, "}", ""))


def _member(key: str, text: str) -> str | None:
    if text in ("", "0"):
        return None
    return f'"{key}":{int(text) if _WHOLE.fullmatch(text) else orjson.dumps(text).decode()}'

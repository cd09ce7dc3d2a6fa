"""rocprof-csv: the tables of rocprofv3 (`*_kernel_trace.csv` and others), rocprofv2, and rocprof up to ROCm 6.

    "Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
    "HIP_RUNTIME_API_EXT","hipLaunchKernel","2684120","2684120","40071","342331487543011","342331490589617"

A record is a row; `event_id` is its number. Times are ns of the machine's clock since it was started. Columns are
found by name, so every version is read, also what `rocpd convert` writes.

Events: kernel_trace (2024 and since), hip, hsa, marker and rccl traces, memory_copy_trace, memory_allocation_trace,
scratch_memory_trace; of rocprofv2 results, hip_api_trace, hsa_api_trace, hcc_ops_trace, async_copy_trace and
roctx_trace; the kernels of rocprof's results.csv. `device` is the number of the agent in the file (`Agent 4` is 4):
which of them are GPUs is in another file. `stream` is HIP's stream, or the queue in files without one. Grids are in
work items in the file and in blocks here. rocprofv3 does not write the bytes of a copy into its CSV, so they are not
known; its kernels name no process, nor do the traces of rocprofv2. A range of roctx has its message as its name; a
moment is a mark. rocprofv2 writes the moments alone at which ranges begin (with the message) and end (without).

Totals: *_stats.csv and domain_stats.csv of all versions (section by the file's kind of row), counter_collection.csv,
and columns of results that are named after a counter: a row for each device, kernel and counter. `merged` counts the
rows beyond the first. The program ran once more for each pass of counters, so the kernels of counter_collection.csv are
no events. Launches in results without times are totals too (section gpu), and so are PC samples (section samples).
Where rocprofv2 has a row for each die of a GPU (XCC_Index), they are one launch, and their counters are added up.

rocprof-compute (Omniperf): pmc_perf.csv has the counters of all passes and the times of one. Facts are in sysinfo.csv
beside it, and in roofline.csv the roofs that were measured on each device: totals of section `roofs`, with the
low and the high. In a folder the tables of other passes (SQ_*.csv, timestamps.csv) are not read: they have the same
launches. Where a spreadsheet rounded the times, launches are totals.

results.csv: grd, wgr and lds have no axes, so they are in `args` with the counters; DispatchNs and CompleteNs are
times of the host, and stay there too. Names lose `.kd`. Not supported: agent_info.csv, memcopy_info.csv. Sources: files
of ROCm 4 to 7, generateCSV.cpp of rocprofiler-sdk, tblextr.py and file.cpp of rocprofiler, workloads in the tests of
rocprofiler-compute.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.csv as pacsv

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import Column, Mask, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import MAX_NS
from tracekit.readers import rocm
from tracekit.readers.amd._rows import (
    COUNTED,
    FORMS,
    WHOLE,
    Cells,
    Form,
    KernelCounters,
    agent,
    integers_of,
    kernel_names,
    number,
)
from tracekit.readers.amd.compute_folder import PASSES, ROOFS, SYSTEM, rows_of, system_facts
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import RowBuilder, Values, event_batch
from tracekit.readers.engine.torn import without_torn
from tracekit.readers.head import Head
from tracekit.readers.printed.locale import as_csv, delimiter_of
from tracekit.readers.source import LineBlock, Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]


def sniff(head: Head) -> Confidence:
    """Return YES for a first line that is the header of such a table."""
    # FOLD

    return Confidence.YES if head.text and header_of(head.data) is not None else Confidence.NO


# Tables of rocprof and rocprofv3: recognition, cells, events and totals.
#
# They are not declared for the engine of tables. Durations, blocks of a grid, kinds and directions follow from several
# cells, `args` has its own order and numbers, and the same functions of columns read rocprof's databases: a declaration
# would hold ids alone, and `_rows.py` would still have to compute the rest.


@dataclass(frozen=True, slots=True)
class RocprofHeader:
    """The columns of a file, and what its rows are."""

    form: Form
    columns: tuple[str, ...]


def header_of(data: bytes) -> RocprofHeader | None:
    """Return the header in the first line with text, None if it is no such table."""
    line = data.lstrip(b"\xef\xbb\xbf \r\n").partition(b"\n")[0].decode("utf-8", "replace").strip()
    try:
        columns = tuple(cell.strip() for cell in next(csv.reader([line], delimiter=delimiter_of(data)), []))
    except csv.Error:  # a line end of old Macs in the middle
        return None
    if len(set(columns)) < len(columns):
        return None
    form = next((form for form in FORMS if form.needed <= set(columns)), None)
    if form is None or (form.name == "results" and columns[:2] != ("Index", "KernelName")):
        return None
    return RocprofHeader(form, columns)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events or totals. Raises: ParseError for another header."""
    header = header_of(_first_lines(source))
    if header is None:
        raise ParseError(source.name, "line 1", "not the header of a table of rocprof or rocprofv3")
    facts: dict[str, object] = {"tool": header.form.tool, "table": header.form.name}
    if source.path.name == PASSES and header.form.name == "dispatches":
        facts |= {"tool": "rocprof-compute"} | system_facts(source.path.with_name(SYSTEM))
    run = Run(sources=[SourceFacts(source.name, "rocprof-csv", facts=facts)])
    source = as_csv(source, options)
    beside = rows_of(source.path.with_name(ROOFS)) if facts["tool"] == "rocprof-compute" else []
    reading = _RocprofCsvReading(header, options, ledger, beside if header.form.name == "dispatches" else [])
    return ReadResult(run, reading.batches(source), False, (ledger,))


_ROUNDED = r"^\s*\d(?:\.\d{1,15})?[eE]\+\d{1,2}\s*$"
MOST_HEADER = 4 << 20
"""Bytes of a header: a table with a column for each counter of each channel has thousands."""


def _triples(names: tuple[str, ...]) -> list[int]:
    """Return the places of rates that have a low and a high one behind them."""
    ends = [name.lower() for name in names]
    return [at for at in range(len(names) - 2) if ends[at + 1].endswith("low") and ends[at + 2].endswith("high")]


def _first_lines(source: Source) -> bytes:
    """Return the beginning of a table with its whole header, which may be longer than a head."""
    head = source.head()
    if head.complete or b"\n" in head.data.lstrip(b"\xef\xbb\xbf \r\n"):
        return head.data
    with closing(source.binary()) as stream:
        return stream.read(MOST_HEADER)


class _RocprofCsvReading:
    def __init__(
        self, header: RocprofHeader, options: ReadOptions, ledger: Ledger, beside: list[dict[str, str]]
    ) -> None:
        self.header, self.options, self.ledger = header, options, ledger
        self.beside = beside
        """Rows of the roofs in the same folder."""
        self.row = 0
        self.totals = RowBuilder("totals")
        self.counters = KernelCounters()
        self.launches: dict[tuple[int | None, str], int] = {}
        """Launches without times, by device and name."""
        self.dies: list[pa.Table] = []
        """Counters of files with a row for each die of a GPU."""
        self.samples: dict[tuple[str, ...], int] = {}
        """Samples by place in the source and instruction."""

    def batches(self, source: Source) -> Iterator[pa.RecordBatch]:
        first = True
        for block in source.line_blocks(self.ledger):
            lines = [line.decode("utf-8", "replace") for line in block.data.splitlines()]  # not at U+2028 in a name
            if first:
                start = next((at for at, line in enumerate(lines) if line.strip("\ufeff \r")), len(lines))
                self.ledger.read += min(start + 1, len(lines))
                self.ledger.ignore("blank", start)
                if start == len(lines):
                    continue  # the header is in a later block
                self.ledger.ignore("header", 1)
                lines, first = lines[start + 1 :], False
            yield from self._block(block, lines)
        self._counted()
        if self.beside:
            self.ledger.read += len(self.beside)
            self.row = 0
            self._roofs({name: [row[name] for row in self.beside] for name in self.beside[0]})
        if len(self.totals):
            self.ledger.totals_out += len(self.totals)
            yield self.totals.take()

    def _block(self, block: LineBlock, lines: list[str]) -> Iterator[pa.RecordBatch]:
        ledger, width = self.ledger, len(self.header.columns)
        ledger.read += len(lines)
        full = [line for line in lines if line.strip()]
        ledger.ignore("blank", len(lines) - len(full))
        if block.torn:
            last = block.line + block.data.count(b"\n")
            # The last cell of a sample is an id, which no sum of samples has.
            full = without_torn(full, self._cells, last, ledger, matters=self.header.form.name != "samples")
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
        form = self.header.form
        if form.name == "sums":
            self._sums(cells)
        elif form.name == "counters":
            self._count(cells)
        elif form.name == "roofs":
            self._roofs({name: arrow.texts(column) for name, column in cells.items()})
        elif form.name == "samples":
            self._sample(cells)
        else:
            yield from self._events(cells)
        self.row += table.num_rows

    def _table(self, lines: list[str]) -> pa.Table | None:
        """Return the cells of lines as texts, None where they are not read so."""
        names = list(self.header.columns)
        if not lines or self.header.form.name == "sums":
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
        if self.header.form.name == "sums" and len(cells) > width and not line.startswith('"'):
            cells = line.rsplit(",", width - 1)
        return cells if len(cells) == width else None

    def _events(self, cells: Cells) -> Iterator[pa.RecordBatch]:
        ledger, form = self.ledger, self.header.form
        self._take_counters(cells)
        if form.make is None or form.start not in cells or form.end not in cells:
            self._launched(cells)
            return
        cells = self._without_repeats(cells)
        starts, ends = (integers_of(cells[name]) for name in (form.start, form.end))
        good = arrow.valid(starts) & arrow.valid(ends)
        ts, stop = arrow.ints(starts), arrow.ints(ends)
        backward = good & (stop < ts)
        lost = ~good & self._without_digits(cells)
        if lost.any() and self.header.form.name in COUNTED:
            text = "a spreadsheet rounded the times (8.1E+14): its launches are counted, and when they ran is not known"
            ledger.note("rounded-times", text, int(lost.sum()))
            self._launched({name: column.filter(arrow.array(lost)) for name, column in cells.items()})
            cells = {name: column.filter(arrow.array(~lost)) for name, column in cells.items()}
            good, ts, stop, backward = good[~lost], ts[~lost], stop[~lost], backward[~lost]
        for code, bad, text in (
            ("bad-time", ~good | (stop >= MAX_NS), "dropped: a row without both times"),
            ("ends-before-start", backward & (stop < MAX_NS), "dropped: a row that ends before it starts"),
        ):
            if bad.any():
                where = f"row {self.row + 1 + int(np.flatnonzero(bad)[0])}"
                ledger.drop(code, int(np.count_nonzero(bad)), where=where, text=text)
        good &= ~backward & (stop < MAX_NS)
        count = int(np.count_nonzero(good))
        if not count:
            return
        mask = arrow.array(good)
        kept = {name: column.filter(mask) for name, column in cells.items()}
        durations = (stop - ts)[good]
        columns: dict[str, Values] = {
            "ts_ns": ts[good],
            "dur_ns": durations,
            "event_id": np.arange(self.row + 1, self.row + 1 + len(good))[good],
            "source": self.options.source,
        }
        columns |= form.make(kept, arrow.array(durations))
        ledger.kept += count
        ledger.events_out += count
        yield event_batch(count, columns)

    def _without_digits(self, cells: Cells) -> Mask:
        """Return for each row whether a spreadsheet rounded its times, so that they are no whole numbers any more."""
        form = self.header.form
        both = [arrow.bools(pc.match_substring_regex(cells[name], pattern=_ROUNDED)) for name in (form.start, form.end)]
        found: Mask = both[0] & both[1]
        return found

    def _roofs(self, texts: dict[str, list[str]]) -> None:
        """Add a total for each rate that rocprof-compute measured of a device: mean, low and high."""
        names = tuple(texts)
        for at, place in enumerate(texts.get("device", [])):
            rates = [(names[k], [number(texts[names[k + each]][at]) for each in range(3)]) for k in _triples(names)]
            if not WHOLE.fullmatch(place) or not rates or any(values[0] is None for _, values in rates):
                self.ledger.drop("bad-row", where=f"row {self.row + at + 1}", text="dropped: a row without its numbers")
                continue
            for name, (mean, low, high) in rates:
                self.totals.add(
                    source=self.options.source, run=0, section="roofs", order=len(self.totals),
                    name="measured roof",
                    kind=str(Kind.OTHER), device=int(place) if int(place) < 1 << 31 else None,
                    value_avg=mean, value_min=low, value_max=high,
                    unit="GB/s" if name.lower().endswith("bw") else f"G{'FLOP' if name.endswith('Flops') else 'OP'}/s",
                    args=orjson.dumps({"metric": name, "source": "measured"}).decode(),
                )  # fmt: skip
            self.ledger.kept += 1

    def _launched(self, cells: Cells) -> None:
        """Count launches in a table without times."""
        counted = COUNTED.get(self.header.form.name)
        if counted is None:
            rows = len(next(iter(cells.values())))
            self.ledger.drop("no-column", rows, text="dropped: the rows of a table without a column of its times")
            return
        devices, names = agent(cells.get(counted.device)), arrow.texts(kernel_names(cells[counted.kernel]))
        numbers = [None] * len(names) if devices is None else devices.to_pylist()
        for key, calls in Counter(zip(numbers, names, strict=True)).items():
            self.launches[key] = self.launches.get(key, 0) + calls

    def _take_counters(self, cells: Cells) -> None:
        """Collect the values of counters that have a column each."""
        counted = COUNTED.get(self.header.form.name)
        if counted is None:
            return
        names, devices = kernel_names(cells[counted.kernel]), agent(cells.get(counted.device))
        found = {
            counter: np.array([number(text) for text in arrow.texts(column)], np.float64)
            for counter, column in cells.items()
            if counted.is_counter(counter)
        }
        if "XCC_Index" in cells and found:
            launch = pc.binary_join_element_wise(cells["Dispatch_ID"], cells.get("PID", cells["Dispatch_ID"]), " ")
            device = arrow.nulls(len(names), pa.int32()) if devices is None else devices
            columns = {"launch": launch, "kernel": names, "device": device}
            self.dies.append(pa.table(columns | {f"counter {k}": arrow.array(v) for k, v in found.items()}))
            return
        for counter, values in found.items():
            self.counters.add(counter, names, devices, values)

    def _add_dies(self) -> None:
        """Add up the counters of the dies of a launch."""
        if not self.dies:
            return
        keys = ["launch", "kernel", "device"]
        names = self.dies[0].column_names[len(keys) :]
        groups = pa.concat_tables(self.dies).group_by(keys, use_threads=False)
        table = groups.aggregate([(name, "sum") for name in names])
        kernel, device = (pa.concat_arrays(table[name].chunks) for name in ("kernel", "device"))
        for name in names:
            self.counters.add(name.removeprefix("counter "), kernel, device, arrow.floats(table[f"{name}_sum"]))

    def _without_repeats(self, cells: Cells) -> Cells:
        """Return the rows without those of further dies: rocprofv2 may write a row for each die of a GPU (XCC)."""
        dies = cells.get("XCC_Index")
        if dies is None:
            return cells
        first = arrow.bools(pc.is_in(dies, pa.array(["0", ""])))
        self.ledger.merged += int(np.count_nonzero(~first))
        return {name: column.filter(arrow.array(first)) for name, column in cells.items()}

    def _sample(self, cells: Cells) -> None:
        """Count samples of instructions."""
        places = cells.get("Instruction_Comment")
        texts = arrow.texts(cells["Instruction"])
        comments = [""] * len(texts) if places is None else arrow.texts(places)
        for comment, text in zip(comments, texts, strict=True):
            key = (comment, text) if comment else (text,)
            self.samples[key] = self.samples.get(key, 0) + 1

    def _sums(self, cells: dict[str, Column]) -> None:
        """Add the totals of a table of sums."""
        columns = {name: arrow.texts(column) for name, column in cells.items()}
        for at, name in enumerate(columns["Name"]):
            texts = {key: values[at].strip() for key, values in columns.items()}
            if not all(WHOLE.fullmatch(texts[key]) for key in ("Calls", "TotalDurationNs")):
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
                avg_ns=number(texts["AverageNs"]),
                args=orjson.dumps(rest).decode() if rest else None,
                **{key: int(text) for key, text in limits.items() if WHOLE.fullmatch(text)},
            )
            self.ledger.kept += 1

    def _count(self, cells: Cells) -> None:
        """Collect the values of counters, one in a row."""
        values = np.array([number(text) for text in arrow.texts(cells["Counter_Value"])], np.float64)
        bad = self.counters.add(cells["Counter_Name"], cells["Kernel_Name"], agent(cells.get("Agent_Id")), values)
        self.ledger.drop("bad-value", bad, text="dropped: a counter without a value")

    def _counted(self) -> None:
        """Add the totals of counters, launches without times, and samples."""
        ledger, source = self.ledger, self.options.source
        for (device, name), calls in self.launches.items():
            row = {"section": "gpu", "name": name, "kind": str(Kind.KERNEL), "calls": calls, "device": device}
            self.totals.add(source=source, run=0, order=len(self.totals), **row)
            ledger.kept += 1
            ledger.merged += calls - 1
        for frames, count in self.samples.items():
            args = orjson.dumps({"frames": frames, "samples": count}).decode()
            row = {"section": "samples", "name": frames[-1], "kind": str(Kind.OTHER), "value_avg": float(count)}
            self.totals.add(source=source, run=0, order=len(self.totals), unit="samples", args=args, **row)
            ledger.kept += 1
            ledger.merged += count - 1
        self._add_dies()
        before = len(self.totals)
        values = self.counters.rows(self.totals, source)
        if self.header.form.name == "counters":
            ledger.kept += len(self.totals) - before
            ledger.merged += values - (len(self.totals) - before)

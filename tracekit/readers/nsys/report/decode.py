"""Blocks of events as rows of the export's tables, and the count of everything that is not understood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field as dataclass_field
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Column, Mask, pc
from tracekit.readers.builder import BATCH_ROWS
from tracekit.readers.engine.wire import BYTES, FIXED32, FIXED64, VARINT, WireError, checked_varint
from tracekit.readers.nsys.report import layout
from tracekit.readers.nsys.report.container import Container
from tracekit.readers.nsys.report.messages import Buffer, Messages, Spans, first_of_each, places_among
from tracekit.safety.scratch import scratch_directory, scratch_file
from tracekit.safety.spill import PackedBatches
from tracekit.safety.unfinished import Unfinished

__all__ = ["MEMORY_BYTES", "Decoder", "NotNanoseconds", "TableStore"]

# Rows of tables that come in any order: in memory while they are few, else on disk.


MEMORY_BYTES = 16 << 20
"""Rows that stay in memory; more go into a temporary file, compressed."""

Columns = dict[str, Column]


@dataclass(slots=True)
class _StoredTable:
    """Rows of one table: its batches, and the chunks of the next one. columns: all that any row had.

    packed: batches in memory, or place and size of those in the file.
    """

    packed: list[pa.RecordBatch | tuple[int, int]] = dataclass_field(default_factory=list)
    waiting: list[tuple[int, Columns]] = dataclass_field(default_factory=list)
    columns: dict[str, pa.DataType] = dataclass_field(default_factory=dict)
    rows: int = 0
    waiting_rows: int = 0


class TableStore:
    """Tables of a file. Close it: it may have a temporary file."""

    def __init__(self) -> None:
        self._tables: dict[str, _StoredTable] = {}
        self._bytes = 0
        self._folder: Unfinished | None = None
        self._file: BinaryIO | None = None
        self._on_disk: PackedBatches | None = None

    def close(self) -> None:
        """Remove the temporary file, if there is one."""
        self._tables = {}
        if self._file is not None:
            self._file.close()
            self._file = self._on_disk = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def tables(self) -> dict[str, tuple[str, ...]]:
        """Return the columns of each table."""
        return {name: tuple(table.columns) for name, table in self._tables.items()}

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return self._tables[table].rows if table in self._tables else 0

    def add(self, name: str, count: int, columns: Columns) -> None:
        """Add rows to a table. A column that they lack is null. Raises: ScratchError."""
        if not count:
            return
        table = self._tables.setdefault(name, _StoredTable())
        for column, values in columns.items():
            table.columns.setdefault(column, values.type)
        table.waiting.append((count, columns))
        table.rows += count
        table.waiting_rows += count
        if table.waiting_rows >= BATCH_ROWS // 2:
            self._pack(table)

    def _pack(self, table: _StoredTable) -> None:
        parts = {
            name: [columns[name] if name in columns else arrow.nulls(count, kind) for count, columns in table.waiting]
            for name, kind in table.columns.items()
        }
        batch = pa.RecordBatch.from_arrays([pa.concat_arrays(chunks) for chunks in parts.values()], list(parts))
        table.waiting, table.waiting_rows = [], 0
        if self._bytes + batch.nbytes <= MEMORY_BYTES:
            self._bytes += batch.nbytes
            table.packed.append(batch)
            return
        if self._on_disk is None:
            self._folder = scratch_directory()
            self._file = scratch_file(self._folder.path / "rows")
            self._on_disk = PackedBatches(self._file)
        table.packed.append(self._on_disk.add(batch))

    def batches(self, name: str, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in the order in which they came, `size` at a time, with all of its columns."""
        table = self._tables.get(name)
        if table is None:
            return
        if table.waiting:
            self._pack(table)
        parts: list[pa.RecordBatch] = []
        for packed in table.packed:
            parts.append(_with_columns(self._content(packed), table.columns))
            rows = sum(part.num_rows for part in parts)
            if rows < size:
                continue
            whole = _joined(parts)
            full = rows - rows % size
            for start in range(0, full, size):
                yield whole.slice(start, size)
            parts = [whole.slice(full)]
        if parts and (rest := _joined(parts)).num_rows:
            yield rest

    def _content(self, packed: pa.RecordBatch | tuple[int, int]) -> pa.RecordBatch:
        """Return a batch from memory or from the file."""
        if isinstance(packed, pa.RecordBatch):
            return packed
        if self._on_disk is None:
            raise ValueError("the store is closed")
        return self._on_disk.read(packed)


def _with_columns(batch: pa.RecordBatch, columns: dict[str, pa.DataType]) -> pa.RecordBatch:
    """Return a batch with all columns of its table: a column that its rows lack is null."""
    have = set(batch.schema.names)
    if len(have) == len(columns):
        return batch
    arrays = [batch.column(n) if n in have else arrow.nulls(batch.num_rows, kind) for n, kind in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, list(columns))


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of the same columns as one."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches)
    columns = [arrow.in_one(table.column(number)) for number in range(table.num_columns)]
    return pa.RecordBatch.from_arrays(columns, table.schema.names)


EVENT, GENERIC = 0x0A, 0x12
"""Tags of a block's two lists: events, and self-describing events."""


class NotNanoseconds(ValueError):
    """Times are in another unit than ns."""


class Decoder:
    """Takes the blocks of a report one after the other, and adds their rows to a store.

    wants: says whether the rows of a table are looked at; of others only the number is taken. counts: those numbers.
    unknown: what is not understood, by name. events, generic: number of events so far. bad_strings: ids of names for
    which the report has no text.
    """

    def __init__(self, report: Container, store: TableStore, wants: Callable[[str], bool]) -> None:
        self.report, self.store, self.wants = report, store, wants
        self.counts: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.events = self.generic = 0
        self._chains = {"OSRT_API": 0, "COMPOSITE_EVENTS": 0}
        """Number of the last call chain of each table; the export numbers them by table in the order of the file."""
        self.metrics: dict[tuple[int, int], str] = {}
        """Names of GPU metrics by (type, number of the metric)."""

    def block(self, data: bytes) -> None:
        """Add the rows of one block. Raises: WireError, NotNanoseconds, ScratchError."""
        buffer = Buffer(data)
        is_generic, starts, ends = _items(buffer)
        if is_generic.any():
            self.generic += int(np.count_nonzero(is_generic))
            self._generic(buffer, starts[is_generic], ends[is_generic])
            starts, ends = starts[~is_generic], ends[~is_generic]
        if len(starts):
            self.events += len(starts)
            kinds, families, body_starts, body_ends = self._bodies(buffer, starts, ends)
            for family in sets.unique(families).tolist():
                mine = np.flatnonzero(families == family)
                self._family(family, kinds[mine], buffer, body_starts[mine], body_ends[mine])

    def _bodies(self, buffer: Buffer, starts: I64, ends: I64) -> tuple[I64, I64, I64, I64]:
        """Return type and family of each event, and the place of its body. Family 0: an event without a body."""
        tag, at = buffer.varints(starts)
        kind, at = buffer.varints(at)
        body, at = buffer.varints(at)
        size, at = buffer.varints(at)
        plain = (tag == 8) & (body & 7 == BYTES) & (at + size == ends)
        family, end = body >> 3, at + size
        if not plain.all():  # in another order, or with more fields than these two
            odd = np.flatnonzero(~plain)
            kind[odd], family[odd], at[odd], end[odd] = self._odd_bodies(Messages(buffer, starts[odd], ends[odd]))
        return kind, family, at, end

    def _odd_bodies(self, fields: Messages) -> tuple[I64, I64, I64, I64]:
        """Return type, family and place of the first body of events of another form; their other fields are unknown."""
        types = fields.integers(1)
        family, start, end = (np.zeros(fields.count, np.int64) for _ in range(3))
        for number, wire in sorted(fields.present):
            if (number, wire) == (1, VARINT):
                continue
            left = fields.number_of(number, wire)
            if wire == BYTES and (spans := fields.spans(number)) is not None:
                spans = _of_rows(first_of_each(spans), family == 0)
                family[spans.rows], start[spans.rows], end[spans.rows] = number, spans.starts, spans.ends
                left -= len(spans.rows)
            if left:
                self.unknown[f"event field {number}"] += left
        return (np.full(fields.count, -1, np.int64) if types is None else types[0]), family, start, end

    def _family(self, family: int, kinds: I64, buffer: Buffer, starts: I64, ends: I64) -> None:
        count = len(starts)
        name = layout.COUNTED.get(family)
        if name is not None and not self.wants(name):
            self.counts[name] += count
            return
        take = {
            layout.CUDA: self._cuda,
            layout.TRACE: self._trace,
            layout.NVTX: self._nvtx,
            layout.DIAGNOSTIC: self._diagnostic,
            layout.PROCESS: self._process,
            layout.MEMORY_USAGE: self._memory_usage,
            layout.MEMORY_POOL: self._memory_pool,
            layout.SCHEDULING: self._scheduling,
            layout.COMPOSITE: self._composite,
        }.get(family)
        if take is None:
            for kind, number in zip(*(each.tolist() for each in np.unique(kinds, return_counts=True)), strict=True):
                self.counts[name or f"unknown events (type {kind}, field {family})"] += number
                if name is None:
                    self.unknown[f"event type {kind} (field {family})"] += number
            return
        take(Messages(buffer, starts, ends), kinds)

    def _note_unknown(self, fields: Messages, what: str, known: set[tuple[int, int]]) -> None:
        for field, wire in fields.present.keys() - known:
            self.unknown[f"{what} field {field}"] += fields.number_of(field, wire)

    # CUDA

    def _cuda(self, fields: Messages, kinds: I64) -> None:
        common = {name: fields.integers(number) for number, name in layout.CUDA_COLUMNS.items()}
        classes = fields.integers(layout.CUDA_CLASS)
        known = {(number, VARINT) for number in (*layout.CUDA_COLUMNS, layout.CUDA_CLASS)}
        known |= {(number, BYTES) for number in layout.CUDA_PARTS}
        self._note_unknown(fields, "CudaEvent", known)
        without = np.ones(fields.count, np.bool_)
        for number, part in layout.CUDA_PARTS.items():
            spans = fields.spans(number)
            if spans is None:
                continue
            spans = _of_rows(first_of_each(spans), without)
            rows = spans.rows
            without[rows] = False
            found = np.full(fields.count, -1, np.int64) if classes is None else classes[0]
            if (odd := found[rows] != part.event_class).any():
                self.unknown[f"CudaEvent of another class than its part {number}"] += int(np.count_nonzero(odd))
            inner = fields.inner(spans)
            known = {(n, VARINT) for n in part.columns} | {(n, w) for n in part.silent for w in (VARINT, BYTES)}
            self._note_unknown(inner, part.table, known)
            columns = {name: column for name, pair in common.items() if (column := _column(pair, rows)) is not None}
            for field, name in part.columns.items():
                if (column := inner.column(field)) is not None:
                    columns[name] = pc.coalesce(columns[name], column) if name in columns else column
            if number == layout.EVENT_RECORD:
                columns.pop("end", None)
                if "start" in columns:
                    columns["timestamp"] = columns.pop("start")
            self.store.add(part.table, len(rows), columns)
        self._count_unknown_parts("CudaEvent", kinds, without)

    def _count_unknown_parts(self, what: str, kinds: I64, without: Mask) -> None:
        numbers, counts = np.unique(kinds[without], return_counts=True)
        for kind, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self.unknown[f"{what} of type {kind} without a known part"] += count
            self.counts[f"unknown {what} (type {kind})"] += count

    # API calls, calls of the OS, overhead, OpenACC ...

    def _trace(self, fields: Messages, _: I64) -> None:
        classes = fields.integers(layout.TRACE_CLASS)
        class_of = np.full(fields.count, -1, np.int64) if classes is None else classes[0]
        if classes is not None and classes[1] is not None:
            class_of = np.where(classes[1], class_of, -1)
        known = {(number, VARINT) for number in layout.TRACE_COLUMNS}
        known |= {(number, wire) for number in layout.TRACE_SILENT for wire in (VARINT, BYTES)}
        self._note_unknown(fields, "TraceProcessEvent", known)
        common = {name: fields.integers(number) for number, name in layout.TRACE_COLUMNS.items()}
        by_table: dict[str, list[int]] = {}
        for number in sets.unique(class_of).tolist():
            table = layout.TRACE_TABLES.get(number, "")
            by_table.setdefault(table, []).append(number)
            if not table:
                count = int(np.count_nonzero(class_of == number))
                self.unknown[f"TraceProcessEvent class {number}"] += count
                self.counts[f"unknown TraceProcessEvent (class {number})"] += count
        chains = fields.spans(layout.TRACE_CHAIN)
        for table, numbers in by_table.items():
            if not table:
                continue
            rows = np.flatnonzero(np.isin(class_of, numbers))
            if not self.wants(table):
                self.counts[table] += len(rows)
                continue
            columns = {name: column for name, pair in common.items() if (column := _column(pair, rows)) is not None}
            if numbers[0] in layout.OVERHEAD_CLASSES and "returnValue" in columns:
                columns["overheadType"] = columns["returnValue"]
            if table == "OSRT_API":
                columns["callchainId"] = arrow.array(self._chain_ids(table, "OSRT_CALLCHAINS", fields, chains, rows))
            elif table == "CUDA_GRAPH_EVENTS":
                columns |= self._graphs(fields, rows)
            elif table == "CUDA_GRAPH_NODE_EVENTS":
                columns |= self._graph_nodes(fields, rows)
            elif table == "OPENACC":
                columns |= self._openacc(fields, rows)
            elif table not in layout.WITH_CHAINS and chains is not None and np.isin(chains.rows, rows).any():
                self.unknown[f"call chains of {table}"] += int(np.count_nonzero(np.isin(chains.rows, rows)))
            self.store.add(table, len(rows), columns)

    def _chain_ids(self, table: str, frames: str, fields: Messages, chains: Spans | None, rows: I64) -> I64:
        """Return the number of each row's call chain, 0 for none, and add the frames if they are looked at."""
        owns = np.zeros(fields.count, np.bool_)
        if chains is not None:
            owns[chains.rows] = True
        numbers = np.where(owns[rows], np.cumsum(owns[rows]) + self._chains[table], 0)
        self._chains[table] += int(np.count_nonzero(owns[rows]))
        if chains is not None and self.wants(frames):
            of_row = np.zeros(fields.count, np.int64)
            of_row[rows] = numbers
            mine = of_row[chains.rows] > 0
            self._frames(frames, fields, Spans(chains.rows[mine], chains.starts[mine], chains.ends[mine]), of_row)
        return numbers

    def _frames(self, table: str, fields: Messages, spans: Spans, ids: I64) -> None:
        inner = fields.inner(spans)
        self._note_unknown(inner, "frame", {(number, VARINT) for number in layout.FRAME_COLUMNS})
        begins = np.flatnonzero(np.diff(spans.rows, prepend=-1))
        depth = np.arange(len(spans.rows)) - np.repeat(begins, np.diff(np.append(begins, len(spans.rows))))
        columns: Columns = {"id": arrow.array(ids[spans.rows]), "stackDepth": arrow.array(depth)}
        for number, name in layout.FRAME_COLUMNS.items():
            if (column := inner.column(number)) is not None:
                columns[name] = column
        self.store.add(table, len(spans.rows), columns)

    def _graphs(self, fields: Messages, rows: I64) -> Columns:
        launched = self._part(fields, layout.TRACE_GRAPH_LAUNCH, {1: "graphId", 2: "graphExecId"}, rows)
        made = self._part(fields, layout.TRACE_GRAPH, {1: "graphId"}, rows)
        for name, column in made.items():
            launched[name] = pc.coalesce(launched[name], column) if name in launched else column
        return launched

    def _graph_nodes(self, fields: Messages, rows: I64) -> Columns:
        if (spans := fields.spans(layout.TRACE_GRAPH_NODE)) is not None:
            known = {(number, VARINT) for number in layout.TRACE_GRAPH_NODE_COLUMNS}
            self._note_unknown(fields.inner(first_of_each(spans)), "graph node", known)
        return self._part(fields, layout.TRACE_GRAPH_NODE, layout.TRACE_GRAPH_NODE_COLUMNS, rows)

    def _openacc(self, fields: Messages, rows: I64) -> Columns:
        return self._part(fields, layout.TRACE_OPENACC, layout.OPENACC_COLUMNS, rows, inner_parts=True)

    def _part(
        self, fields: Messages, number: int, names: Mapping[int, str], rows: I64, *, inner_parts: bool = False
    ) -> Columns:
        """Return the columns of an inner message for these rows of the outer ones."""
        spans = fields.spans(number)
        if spans is None:
            return {}
        spans = first_of_each(spans)
        inner = fields.inner(spans)
        columns = {name: column for field, name in names.items() if (column := inner.column(field)) is not None}
        if inner_parts:
            for field, part in layout.OPENACC_PARTS.items():
                if (deeper := inner.spans(field)) is None:
                    continue
                deepest = inner.inner(deeper)
                place = places_among(deeper.rows, inner.count)
                for sub, name in part.items():
                    column = deepest.column(sub) if (sub, VARINT) in deepest.present else deepest.texts(sub)
                    if column is not None:
                        columns[name] = pc.take(column, place)
                self._note_unknown(deepest, "OpenACC part", {(n, wire) for n in part for wire in (VARINT, BYTES)})
            known = {(n, VARINT) for n in names} | {(n, BYTES) for n in layout.OPENACC_PARTS}
            self._note_unknown(inner, "OpenACC", known)
        place = arrow.take(places_among(spans.rows, fields.count), rows)
        return {name: pc.take(column, place) for name, column in columns.items()}

    # NVTX

    def _nvtx(self, fields: Messages, kinds: I64) -> None:
        columns = {name: c for number, name in layout.NVTX_COLUMNS.items() if (c := fields.column(number)) is not None}
        clock = fields.integers(layout.NVTX_CLOCK)
        if clock is not None and (clock[0][slice(None) if clock[1] is None else clock[1]] != 1).any():
            raise NotNanoseconds
        if (text := fields.texts(layout.NVTX_TEXT)) is not None:
            columns["text"] = text
        known = {(number, VARINT) for number in (*layout.NVTX_COLUMNS, layout.NVTX_CLOCK)}
        known |= {(layout.NVTX_TEXT, BYTES), (layout.NVTX_PAYLOAD, BYTES)}
        self._note_unknown(fields, "NvtxEvent", known)
        for kind in sets.unique(kinds).tolist():
            if kind not in layout.NVTX_TYPES:
                self.unknown[f"NvtxEvent type {kind}"] += int(np.count_nonzero(kinds == kind))
        columns |= self._payloads(fields)
        columns.setdefault("eventType", arrow.array(kinds))
        self.store.add("NVTX_EVENTS", fields.count, columns)

    def _payloads(self, fields: Messages) -> Columns:
        spans = fields.spans(layout.NVTX_PAYLOAD)
        if spans is None:
            return {}
        spans = first_of_each(spans)
        inner = fields.inner(spans)
        columns: Columns = {}
        for number, name in layout.PAYLOAD_INTEGERS.items():
            if (column := inner.column(number)) is not None:
                columns[name] = column
        for number, name in layout.PAYLOAD_REALS.items():
            if (column := inner.reals(number)) is not None:
                columns[name] = column
        if (column := inner.texts(layout.PAYLOAD_JSON)) is not None:
            columns["jsonText"] = column
        if (binary := inner.spans(layout.PAYLOAD_BINARY)) is not None:
            columns |= self._binary(inner, binary)
        known = {(number, VARINT) for number in layout.PAYLOAD_INTEGERS}
        known |= {(number, wire) for number in layout.PAYLOAD_REALS for wire in (FIXED32, FIXED64)}
        known |= {(layout.PAYLOAD_JSON, BYTES), (layout.PAYLOAD_BINARY, BYTES)}
        self._note_unknown(inner, "NVTX payload", known)
        place = places_among(spans.rows, fields.count)
        return {name: column.take(place) for name, column in columns.items()}

    def _binary(self, inner: Messages, spans: Spans) -> Columns:
        """Return the schema and the bytes of payloads with a schema, as hexadecimal digits."""
        deeper = inner.inner(spans)
        place = places_among(spans.rows, inner.count)
        columns: Columns = {}
        if (column := deeper.column(1)) is not None:
            columns["schemaId"] = column.take(place)
        if (data := deeper.spans(2)) is not None:
            digits: list[str | None] = [None] * deeper.count
            for row, start, end in zip(data.rows.tolist(), data.starts.tolist(), data.ends.tolist(), strict=True):
                digits[row] = deeper.buffer.data[start:end].hex()
            columns["binaryData"] = arrow.array(digits, pa.string()).take(place)
        return columns

    # Smaller families

    def _diagnostic(self, fields: Messages, _: I64) -> None:
        columns = self._plain(fields, layout.DIAGNOSTIC_PART)
        every = np.arange(fields.count)
        columns |= self._part(fields, layout.DIAGNOSTIC_TIME, {1: "timestamp", 2: "timestampType"}, every)
        if (text := fields.texts(layout.DIAGNOSTIC_TEXT)) is not None:
            columns["text"] = text
        known = {(layout.DIAGNOSTIC_TIME, BYTES), (layout.DIAGNOSTIC_TEXT, BYTES)}
        self._note_unknown(fields, "DiagnosticEvent", _known(layout.DIAGNOSTIC_PART) | known)
        self.store.add("DIAGNOSTIC_EVENT", fields.count, columns)

    def _process(self, fields: Messages, _: I64) -> None:
        """Add the processes that have a name: the export leaves out the others."""
        ids = fields.column(layout.PROCESS_ID)
        names = [t for t in (fields.texts(n) for n in (layout.PROCESS_NAME, layout.PROCESS_PATH)) if t is not None]
        known = {(layout.PROCESS_ID, VARINT), (layout.PROCESS_NAME, BYTES), (layout.PROCESS_PATH, BYTES)}
        known |= {(number, wire) for number in layout.PROCESS_SILENT for wire in (VARINT, BYTES)}
        self._note_unknown(fields, "ProcessEvent", known)
        named = np.zeros(fields.count, np.bool_)
        if names and ids is not None:
            name = pc.coalesce(*names)
            named = arrow.valid(name)
            rows = arrow.array(named)
            ids = ids.filter(rows)
            pids = pc.bit_wise_and(pc.shift_right(ids, 24), 0xFFFFFF)
            columns = {"globalPid": ids, "pid": pids, "name": name.filter(rows)}
            self.store.add("PROCESSES", int(np.count_nonzero(named)), columns)
        self.counts["processes without a name"] += int(np.count_nonzero(~named))

    def _memory_usage(self, fields: Messages, _: I64) -> None:
        columns = self._plain(fields, layout.MEMORY_USAGE_PART)
        known = _known(layout.MEMORY_USAGE_PART) | {(layout.MEMORY_USAGE_POOL, BYTES)}
        known |= {(layout.MEMORY_USAGE_NAME, wire) for wire in (VARINT, BYTES)}
        self._note_unknown(fields, "CudaMemoryUsage", known)
        if (name := fields.texts(layout.MEMORY_USAGE_NAME)) is not None:
            columns["name"] = name
        elif (numbers := fields.column(layout.MEMORY_USAGE_NAME)) is not None:
            texts = [None if number is None else self.report.string(number) for number in numbers.to_pylist()]
            columns["name"] = arrow.array(texts, pa.string())
        every = np.arange(fields.count)
        columns |= self._part(fields, layout.MEMORY_USAGE_POOL, layout.MEMORY_USAGE_SIZES, every)
        self.store.add("CUDA_GPU_MEMORY_USAGE_EVENTS", fields.count, columns)

    def _memory_pool(self, fields: Messages, _: I64) -> None:
        columns = self._plain(fields, layout.MEMORY_POOL_PART)
        known = _known(layout.MEMORY_POOL_PART) | {(layout.MEMORY_POOL_SIZES_FIELD, BYTES)}
        self._note_unknown(fields, "CudaMemoryPool", known)
        every = np.arange(fields.count)
        columns |= self._part(fields, layout.MEMORY_POOL_SIZES_FIELD, layout.MEMORY_POOL_SIZES, every)
        self.store.add("CUDA_GPU_MEMORY_POOL_EVENTS", fields.count, columns)

    def _scheduling(self, fields: Messages, _: I64) -> None:
        self._note_unknown(fields, "SchedEvent", _known(layout.SCHEDULING_PART))
        self.store.add("SCHED_EVENTS", fields.count, self._plain(fields, layout.SCHEDULING_PART))

    def _composite(self, fields: Messages, _: I64) -> None:
        columns = self._plain(fields, layout.COMPOSITE_PART)
        every = np.arange(fields.count)
        before = self._chains["COMPOSITE_EVENTS"]
        self._chains["COMPOSITE_EVENTS"] += fields.count
        columns["id"] = arrow.array(every + before + 1)
        columns |= self._part(fields, layout.COMPOSITE_CYCLES, {2: "cpuCycles"}, every)
        chains = fields.spans(layout.COMPOSITE_CHAIN)
        if chains is not None and self.wants("SAMPLING_CALLCHAINS"):
            self._frames("SAMPLING_CALLCHAINS", fields, chains, every + before + 1)
        known = {(layout.COMPOSITE_CHAIN, BYTES), (layout.COMPOSITE_CYCLES, BYTES)}
        known |= {(number, BYTES) for number in layout.COMPOSITE_PART.silent}
        self._note_unknown(fields, "CompositeEvent", _known(layout.COMPOSITE_PART) | known)
        self.store.add("COMPOSITE_EVENTS", fields.count, columns)

    def _plain(self, fields: Messages, part: layout.MessageLayout) -> Columns:
        return {name: c for number, name in part.columns.items() if (c := fields.column(number)) is not None}

    # Self-describing events: GPU metrics

    def _generic(self, buffer: Buffer, starts: I64, ends: I64) -> None:
        fields = Messages(buffer, starts, ends)
        kinds, times, raw = fields.integers(1), fields.integers(2), fields.spans(3)
        if kinds is None or raw is None:
            self.counts["self-describing events without a type"] += fields.count
            return
        raw = first_of_each(raw)
        at, size = np.zeros(fields.count, np.int64), np.zeros(fields.count, np.int64)
        at[raw.rows], size[raw.rows] = raw.starts, raw.ends - raw.starts
        when = np.zeros(fields.count, np.int64) if times is None else times[0]
        for kind in sets.unique(kinds[0]).tolist():
            mine = np.flatnonzero(kinds[0] == kind)
            self._generic_type(buffer, kind, when[mine], at[mine], size[mine])

    def _generic_type(self, buffer: Buffer, kind: int, when: I64, at: I64, size: I64) -> None:
        head = self.report.head
        number = head.sources.get(kind, head.sources.get(kind & ~0xFF))
        source = None if number is None else self.report.string(number)
        columns = head.types.get(kind)
        if source != layout.GPU_METRICS or columns is None:
            self.counts[f"self-describing events of {source or f'type {kind}'}"] += len(when)
            if columns is None:
                self.unknown[f"self-describing events of type {kind}"] += len(when)
            return
        needed = max((offset + width for _, offset, width, _ in columns), default=0)
        whole = size >= needed
        if not whole.all():
            self.unknown["samples of GPU metrics that are too short"] += int(np.count_nonzero(~whole))
            self.counts["samples of GPU metrics that are too short"] += int(np.count_nonzero(~whole))
        when, at = when[whole], at[whole]
        values = np.empty((len(when), len(columns)), np.float64)
        for place, (name, offset, width, c_type) in enumerate(columns):
            kind_of = _number_type(width, c_type)
            if kind_of is None:
                self.unknown[f"GPU metric of {width} bytes"] += len(when)
                values[:, place] = np.nan
            else:
                cells = buffer.bytes[(at + offset)[:, None] + np.arange(width)]
                values[:, place] = cells.view(kind_of)[:, 0]
            self.metrics[kind, place] = self.report.string(name) or f"metric {place}"
        count = values.size
        flat = values.reshape(-1)
        self.store.add(
            "GPU_METRICS",
            count,
            {
                "timestamp": arrow.array(np.repeat(when, len(columns))),
                "typeId": arrow.array(np.full(count, kind, np.int64)),
                "metricId": arrow.array(np.tile(np.arange(len(columns)), len(when))),
                "value": arrow.array(flat, mask=np.isnan(flat)),
            },
        )


def _number_type(width: int, c_type: str) -> str | None:
    """Return numpy's type of a number of a self-describing event, None for one that numpy has not."""
    if width not in (1, 2, 4, 8):
        return None
    if c_type in ("float", "double"):
        return f"<f{width}" if width > 2 else None
    return f"<{'i' if c_type.startswith('int') else 'u'}{width}"


def _known(part: layout.MessageLayout) -> set[tuple[int, int]]:
    return {(number, VARINT) for number in (*part.columns, *part.silent)}


def _items(buffer: Buffer) -> tuple[Mask, I64, I64]:
    """Return which items of a block are self-describing events, and where each item starts and ends.

    The place of an item follows from the size of the one before: the one loop over events of this reader, and the
    reason that it does nothing else.

    Raises: WireError.
    """
    data, end = buffer.data + b"\0\0", buffer.size
    tags: list[int] = []
    add = tags.append
    at = 0
    while at < end:
        add(at)
        size = data[at + 1]
        if size < 128:
            at += size + 2
            continue
        more = data[at + 2]
        if more < 128:
            at += (size & 127) + (more << 7) + 3
        else:
            size, start = checked_varint(data, at + 1)
            at = start + size
    if at != end:
        raise WireError("an event that ends beyond its block")
    places = np.array([*tags, end], np.int64)
    kinds = buffer.bytes[places[:-1]]
    if not ((kinds == EVENT) | (kinds == GENERIC)).all():
        raise WireError("a list of a block that is not known")
    _, starts = buffer.varints(places[:-1] + 1)
    return kinds == GENERIC, starts, places[1:]


def _column(pair: tuple[I64, Mask | None] | None, rows: I64) -> Column | None:
    """Return the values of these rows as a column, None where no row has one."""
    if pair is None:
        return None
    values, have = pair
    if have is None:
        return arrow.array(values[rows])
    present = have[rows]
    return arrow.array(values[rows], mask=~present) if present.any() else None


def _of_rows(spans: Spans, rows: Mask) -> Spans:
    """Return the spans of the messages where the mask is true."""
    keep = rows[spans.rows]
    return spans if keep.all() else Spans(spans.rows[keep], spans.starts[keep], spans.ends[keep])

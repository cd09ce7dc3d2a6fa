"""nvprof -o FILE: the SQLite database of nvprof and the Visual Profiler (.nvprof, .nvvp), versions 8 to 12.

    StringTable(_id_, value): (3, '_ZN10tensorflow7functor...')
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL(..., start, end, ..., name): (..., 1510947070044042187, ..., 3)
    CUPTI_ACTIVITY_KIND_RUNTIME(_id_, cbid, start, end, processId, threadId, ...): (1, 31, 1510..., 30375, -41998592)

A record is a row of a table. `event_id` counts the rows of the tables in the order in which they are read. Times are ns
since 1970. Tables and columns are found by name, in every version. A table without events is counted as facts (names,
devices) or as ignored, under its own name.

Read: kernels (and those that kernels launched), copies, peer copies, memsets, calls of both APIs, markers, overhead,
synchronization, unified memory. Calls have a number instead of a name (`cbid`). The names are those of libcupti
(`_cupti_names.json`), without the version behind them. The start and the end of a marker become one range (the end is
`merged`), and a moment becomes a `mark`. A range without an end has no duration and `"unfinished": true`. Thread ids
are the low 32 bits that CUPTI keeps. Device work names no process: it gets the process of the calls if there is only
one. Copies of unified memory are `memcpy`; page faults, throttling and the like are `overhead`, as in the CSV reader.

args: src_mem_type, dst_mem_type, async, the sides of a peer copy, value of a memset, returnValue unless 0, domain,
payload and color of a marker, and columns of kernels that have no place of their own. Not kept: gridId and completed
(it repeats the end).

Metrics and events become the totals that `nvprof --csv` prints: a row for each device, kernel and counter, with the
smallest, largest and mean value over its calls (`merged` counts the calls beyond the first). Percentages are as
printed, throughputs in B/s; the unit of a utilization level is "level".

Not supported (a note says so): counters of single units (EVENT_INSTANCE, METRIC_INSTANCE), OpenACC, OpenMP, clocks and
power (ENVIRONMENT), PC samples.
Sources: cupti_activity.h of CUDA 11.8, a file of version 8, libcupti 11.8, 12.9 and 13.0 for the names.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow
from tracekit.model.arrow import F64, I64, Column, DictColumn, Mask, pc
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.model.units import MAX_NS
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import RowBuilder, bounded
from tracekit.readers.engine.pairing import OpenRanges
from tracekit.readers.head import Head
from tracekit.readers.names import Demangler
from tracekit.readers.source import Source
from tracekit.readers.sqlite import cupti as cuda
from tracekit.readers.sqlite.cupti import (
    PLACE,
    SHAPE,
    SPAN,
    Columns,
    Extra,
    SqlContext,
    above_zero,
    args_of,
    as_is,
    coded,
    integers,
    with_lost_work,
)
from tracekit.readers.sqlite.database import CellType, Database, RowBlock

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]


def sniff(head: Head) -> Confidence:
    """Return YES for the two tables that every such database has."""
    return Confidence.YES if {"StringTable", "Version"} <= head.tables else Confidence.NO


# Metrics and events in nvprof's databases: the totals that `nvprof --csv` prints, by kernel and counter.
#
# A row of METRIC or EVENT is the value of one counter in one call of a kernel, which has the same correlation id.
# Counters have a number instead of a name, and the bytes of a metric mean what its kind says (CUpti_MetricValueKind):
# both are libcupti's (`_cupti_counters.json`).


METRIC, EVENT = "CUPTI_ACTIVITY_KIND_METRIC", "CUPTI_ACTIVITY_KIND_EVENT"
_UNITS = {"percent": "%", "throughput": "B/s", "level": "level"}
_LEVELS = ("Idle", "Low", "Low", "Low", "Mid", "Mid", "Mid", "High", "High", "High", "Max")
"""Words that nvprof prints for utilization levels from 0 to 10."""
_NO_NAME = "metrics or events that libcupti 11.8 does not know by their numbers: without name and value"
NameOf = Callable[[int], tuple[str | None, str | None]]


@dataclass(frozen=True, slots=True)
class NvprofCounter:
    """A metric or an event. kind: of its values: double, uint64, int64, percent, throughput or level; "" if unknown."""

    name: str
    kind: str
    description: str = ""


@lru_cache(maxsize=1)
def _known() -> tuple[dict[int, NvprofCounter], dict[int, NvprofCounter]]:
    """Return metrics and events by id."""
    data = json.loads(files("tracekit.readers.nvprof").joinpath("_cupti_counters.json").read_text(encoding="utf-8"))
    metrics = {number: NvprofCounter(name, kind, description) for number, name, kind, description in data["metrics"]}
    return metrics, {number: NvprofCounter(name, "uint64") for number, name in data["events"]}


@dataclass(slots=True)
class Kernels:
    """The launches of kernels: correlation id, sorted, with the number of the kernel's name and its device."""

    correlation: I64
    name: I64
    device: I64

    def find(self, correlation: I64) -> tuple[I64, I64]:
        """Return the number of the name and the device of calls, -1 for a call that is not there."""
        if not len(self.correlation):
            none = np.full(len(correlation), -1, np.int64)
            return none, none
        place = np.minimum(np.searchsorted(self.correlation, correlation), len(self.correlation) - 1)
        found = self.correlation[place] == correlation
        return np.where(found, self.name[place], -1), np.where(found, self.device[place], -1)


def kernels_of(ctx: SqlContext, tables: Sequence[str]) -> Kernels:
    """Return the launches of kernels in these tables."""
    parts = [
        [block.integers(name, -1) for name in ("correlationId", "name", "deviceId")]
        for table in tables
        if {"correlationId", "name", "deviceId"} <= set(ctx.db.tables[table])
        for block in ctx.db.blocks(table, integers("correlationId", "name", "deviceId"))
    ]
    correlation, name, device = (
        np.concatenate([part[i] for part in parts]) if parts else np.zeros(0, np.int64) for i in range(3)
    )
    order = np.argsort(correlation, kind="stable")
    return Kernels(correlation[order], name[order], device[order])


def totals(ctx: SqlContext, kernel_tables: Sequence[str], name_of: NameOf) -> Iterator[pa.RecordBatch]:
    """Yield the totals of both tables. name_of: returns the readable and the other name of a text's number."""
    rows = RowBuilder("totals")
    kernels: Kernels | None = None
    for table, section in ((METRIC, "metrics"), (EVENT, "events")):
        # Both tables are in every database, and empty unless counters were asked for: kernels are looked up for them.
        if {"id", "value", "correlationId"} <= set(ctx.db.tables.get(table, ())) and not ctx.db.is_empty(table):
            kernels = kernels or kernels_of(ctx, kernel_tables)
            _add(ctx, table, _known()[table == EVENT], section, kernels, name_of, rows)
    if len(rows):
        ctx.ledger.totals_out += len(rows)
        yield rows.take()


def _add(
    ctx: SqlContext,
    table: str,
    known: Mapping[int, NvprofCounter],
    section: str,
    kernels: Kernels,
    name_of: NameOf,
    rows: RowBuilder,
) -> None:
    """Add a total for each device, kernel and counter of a table, and count its rows."""
    ledger = ctx.ledger
    wanted = integers("id", "correlationId") | {"value": CellType.HEX if table == METRIC else CellType.INTEGER}
    parts: list[tuple[I64, I64 | F64]] = []
    for block in ctx.db.blocks(table, wanted):
        ledger.read += block.count
        ids = block.integers("id", -1)
        values, good = _values(block, ids, known)
        name, device = kernels.find(block.integers("correlationId", -1))
        unnamed = ~np.isin(ids, list(known))
        if unnamed.any():
            ledger.note("counters-unknown", _NO_NAME, int(unnamed.sum()), where=table)
        bad = ~good & ~unnamed
        if bad.any():
            ledger.drop("bad-value", int(bad.sum()), where=table, text="dropped: a counter without a value")
        parts.append((np.column_stack((device, name, ids))[~bad], values[~bad]))
    ctx.base += ctx.db.count(table)
    if not parts:
        return
    keys, values = np.concatenate([key for key, _ in parts]), np.concatenate([value for _, value in parts])
    # One total a device, kernel and counter, in the order of the first row of each.
    groups, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    place = place.reshape(-1)
    calls = np.bincount(place, minlength=len(groups))
    lows, highs = values[first].copy(), values[first].copy()
    np.minimum.at(lows, place, values)
    np.maximum.at(highs, place, values)
    sums = np.zeros(len(groups), values.dtype)  # of events: exact
    np.add.at(sums, place, values)
    for at in np.argsort(first, kind="stable").tolist():
        device, name, number = groups[at].tolist()
        counter = known.get(number, NvprofCounter(f"{section[:-1]} {number}", ""))
        args: dict[str, object] = {section[:-1]: counter.name}
        args |= {"description": counter.description} if counter.description else {}
        row: dict[str, object] = {"section": section, "kind": str(Kind.KERNEL), "calls": int(calls[at])}
        if counter.kind:
            average = float(sums[at] / calls[at])
            row |= {"value_min": float(lows[at]), "value_max": float(highs[at]), "value_avg": average}
            row["unit"] = _UNITS.get(counter.kind)
            if counter.kind == "level":
                level = min(max(round(average), 0), len(_LEVELS) - 1)
                row["value_text"] = f"{_LEVELS[level]} ({level})"
            if section == "events":
                args["total"] = int(sums[at])
        row["name"], row["raw_name"] = name_of(name)
        row["device"] = device if 0 <= device < 1 << 31 else None
        order = ctx.ledger.totals_out + len(rows)
        rows.add(**row, source=ctx.options.source, run=0, order=order, args=orjson.dumps(args).decode())
    ledger.kept += len(groups)
    ledger.merged += len(keys) - len(groups)


def _values(block: RowBlock, ids: I64, known: Mapping[int, NvprofCounter]) -> tuple[I64 | F64, Mask]:
    """Return the values of a block's rows (of events int64), and which rows have one; 0 where they have none."""
    if block.table == EVENT:
        return block.integers("value"), block.valid("value")
    texts = arrow.optional_texts(block.columns["value"])
    raw = np.frombuffer(b"".join(bytes.fromhex(t) if t and len(t) == 16 else bytes(8) for t in texts), "<u8")
    good = np.array([t is not None and len(t) == 16 for t in texts], np.bool_)
    values = np.zeros(block.count)
    for kind in sorted({counter.kind for counter in known.values()}):
        mine = np.isin(ids, [number for number, counter in known.items() if counter.kind == kind])
        bits = raw[mine]
        if kind in ("double", "percent"):
            values[mine] = bits.view(np.float64)
        elif kind == "level":
            values[mine] = bits & 0xFFFFFFFF  # an enum of 32 bits
        else:
            values[mine] = bits.view(np.int64) if kind == "int64" else bits
    finite = np.isfinite(values)
    return np.where(finite, values, 0.0), good & finite


# NVTX markers in nvprof's database: a row for the start and one for the end become a range.
#
#     MARKER(_id_, flags, timestamp, id, objectKind, objectId, name, domain): (1, 2, 15..., 1, 2, x'A7760000...', 7, 0)
#     MARKER(...): (2, 4, 15..., 1, 2, x'A7760000...', 0, 0)
#
# objectId is a CUpti_ActivityObjectKindId. By objectKind it holds process and thread (two 32-bit numbers), or device,
# context and stream (three). Source: cupti_activity.h.


TABLE = "CUPTI_ACTIVITY_KIND_MARKER"
DATA = "CUPTI_ACTIVITY_KIND_MARKER_DATA"
INSTANT, START, END = 1, 2, 4
"""CUpti_ActivityFlag: CUPTI_ACTIVITY_FLAG_MARKER_*; higher bits are about synchronization."""
PROCESS, THREAD, DEVICE, CONTEXT, STREAM = 1, 2, 3, 4, 5
OPEN_RANGES = 1 << 20
"""Maximum number of open ranges. Beyond it the oldest is kept as an unfinished one."""
BATCH = 1 << 14

Names: TypeAlias = Callable[[int], str | None]


def objects_of(block: RowBlock) -> list[tuple[int, str]]:
    """Return kind and blob (in hexadecimal digits) of each row's object."""
    blobs = block.columns.get("objectId")
    texts = [""] * block.count if blobs is None else [blob or "" for blob in arrow.optional_texts(blobs)]
    return list(zip(block.integers("objectKind").tolist(), texts, strict=True))


def places_of(block: RowBlock) -> dict[str, Column]:
    """Return the columns pid, tid, device, context and stream of the rows. Each distinct object is decoded once."""
    kinds = arrow.array(block.integers("objectKind")).cast(pa.string())
    blobs = block.columns.get("objectId")
    blobs = arrow.nulls(block.count, pa.string()) if blobs is None else blobs
    objects = arrow.encoded(pc.binary_join_element_wise(kinds, pc.fill_null(blobs, ""), ":"))
    pairs = (text.split(":") for text in arrow.texts(objects.dictionary))
    places = [place_of(int(kind), blob) for kind, blob in pairs]
    return {
        key: arrow.array([place.get(key) for place in places], pa.int64()).take(objects.indices)
        for key in ("pid", "tid", "device", "context", "stream")
    }


def place_of(kind: int, blob: str) -> dict[str, int]:
    """Return the pid and tid, or the device, context and stream of a blob; {} for another blob.

    >>> place_of(2, "A7760000F0257FFD00000000")
    {'pid': 30375, 'tid': 4252968432}
    """
    try:
        numbers = struct.unpack("<3I", bytes.fromhex(blob)[:12])
    except (ValueError, struct.error):
        return {}
    if kind == PROCESS:
        return {"pid": numbers[0]}
    if kind == THREAD:
        return {"pid": numbers[0], "tid": numbers[1]}
    if kind not in (DEVICE, CONTEXT, STREAM) or numbers[0] >= 1 << 31:
        return {}
    names = ("device", "context", "stream")[: kind - DEVICE + 1]
    return dict(zip(names, numbers, strict=False))


@dataclass(slots=True)
class _Marker:
    """A mark, or a range that began. number: of its record."""

    number: int
    ts: int
    place: dict[str, int]
    name: str | None
    args: dict[str, object]


@dataclass(slots=True)
class _NvprofSqliteState:
    ctx: SqlContext
    names: Names
    data: dict[int, dict[str, object]]
    rows: RowBuilder = field(default_factory=RowBuilder)
    open_ranges: OpenRanges[int, _Marker] = field(default_factory=lambda: OpenRanges(OPEN_RANGES))

    def add(self, marker: _Marker, dur: int | None, kind: Kind) -> None:
        """Add the event of a marker."""
        name, raw_name = self.ctx.names.one(marker.name) if marker.name else (None, None)
        self.rows.add(
            ts_ns=marker.ts,
            dur_ns=dur,
            event_id=marker.number,
            name=name,
            raw_name=raw_name,
            kind=kind,
            source=self.ctx.options.source,
            args=orjson.dumps(marker.args).decode() if marker.args else None,
            **marker.place,
        )
        self.ctx.ledger.kept += 1
        self.ctx.ledger.events_out += 1

    def add_unfinished(self, begun: _Marker) -> None:
        """Add a range without an end."""
        begun.args["unfinished"] = True
        self.add(begun, None, Kind.USER_RANGE)
        text = "a range did not end before the profile did: it has no duration"
        self.ctx.ledger.note("open-range", text, where=f"{TABLE} record {begun.number}")


def markers(ctx: SqlContext, names: Names) -> Iterator[pa.RecordBatch]:
    """Yield ranges and marks. Their args hold the color, category and payload of MARKER_DATA."""
    state = _NvprofSqliteState(ctx, names, _data(ctx))
    if TABLE not in ctx.db.tables:
        return
    wanted = integers("flags", "timestamp", "id", "objectKind", "name", "domain") | {"objectId": CellType.HEX}
    last = 0
    for block in ctx.db.blocks(TABLE, wanted):
        ctx.ledger.read += block.count
        last = block.first + block.count - 1
        cells = [block.integers(name).tolist() for name in ("flags", "timestamp", "id", "name", "domain")]
        valid = block.valid("timestamp") & (np.abs(block.integers("timestamp")) < MAX_NS)
        rows = zip(*cells, objects_of(block), valid.tolist(), strict=True)
        for number, row in enumerate(rows, ctx.base + block.first):
            _add_record(state, number, *row)
            if len(state.rows) >= BATCH:
                yield state.rows.take()
    for _, begun in state.open_ranges.left():
        state.add_unfinished(begun)
    if len(state.rows):
        yield state.rows.take()
    ctx.base += last


def _add_record(
    state: _NvprofSqliteState,
    number: int,
    flags: int,
    ts: int,
    ident: int,
    name: int,
    domain: int,
    owner: tuple[int, str],
    ok: bool,
) -> None:
    """Add the event of a record, or begin a range. ident: id of the marker. ok: its time is possible."""
    ledger = state.ctx.ledger
    where = f"{TABLE} record {number}"
    if not ok or ts <= 0:
        ledger.drop("no-time", where=where, text="dropped: a row whose times were not measured")
        return
    if flags & END:
        begun = state.open_ranges.end(ident)
        if begun is None:
            ledger.drop("end-without-start", where=where, text="dropped: the end of a range without a start")
        elif ts < begun.ts:
            begun.args["unfinished"] = True
            state.add(begun, None, Kind.USER_RANGE)
            ledger.drop("ends-before-start", where=where, text="dropped: an end before the start of its range")
        else:
            state.add(begun, ts - begun.ts, Kind.USER_RANGE)
            ledger.merged += 1
        return
    args = dict(state.data.get(ident, {}))
    if text := state.names(domain):
        args["domain"] = text
    marker = _Marker(number, ts, place_of(*owner), state.names(name), args)
    if flags & START:
        again = state.open_ranges.end(ident)  # an id that starts again: the end between was lost
        for given_up in (again, state.open_ranges.begin(ident, marker)):
            if given_up is not None:
                state.add_unfinished(given_up)
    elif flags & INSTANT:
        state.add(marker, None, Kind.MARK)
    else:
        ledger.drop("unknown-marker", where=where, text="dropped: a marker that is not a start, an end or a moment")


_PAYLOADS = {0: "<d", 1: "<Q", 2: "<d", 3: "<Q", 4: "<q", 5: "<I"}
"""CUpti_MetricValueKind: double, uint64, percent, throughput, int64, level. No payload is 0 of kind 0."""


def _data(ctx: SqlContext) -> dict[int, dict[str, object]]:
    """Return color, category and payload by the id of the marker."""
    if DATA not in ctx.db.tables:
        return {}
    data: dict[int, dict[str, object]] = {}
    wanted = integers("id", "payloadKind", "color", "category") | {"payload": CellType.HEX}
    for block in ctx.db.blocks(DATA, wanted):
        ctx.ledger.read += block.count
        ctx.ledger.merged += block.count
        payloads = block.columns.get("payload")
        blobs = [None] * block.count if payloads is None else arrow.optional_texts(payloads)
        cells = [block.integers(name).tolist() for name in ("id", "payloadKind", "color", "category")]
        for ident, kind, color, category, blob in zip(*cells, blobs, strict=True):
            members: dict[str, object] = {}
            if color:
                members["color"] = f"#{color & 0xFFFFFFFF:08X}"
            if category:
                members["category"] = category
            if value := _payload(kind, blob):
                members["payload"] = value
            if members:
                data[ident] = members
    return data


def _payload(kind: int, blob: str | None) -> object:
    form = _PAYLOADS.get(kind)
    if form is None or not blob:
        return None
    try:
        value: object = struct.unpack_from(form, bytes.fromhex(blob))[0]
    except (ValueError, struct.error):
        return blob
    return value


# The tables of nvprof's database, one after the other, as batches.


PREFIX = "CUPTI_ACTIVITY_KIND_"
UNREAD = re.compile(PREFIX + "(OPENACC|OPENMP|EVENT_I|METRIC_I|INSTANTANEOUS|PC_SAMPLING$|ENVIRONMENT)")
"""Tables with data that a user may look for. They are not read, and a note names them."""
KERNELS = ("KERNEL", "CONCURRENT_KERNEL", "CDP_KERNEL")
COPIES = ("MEMCPY", "MEMCPY2")
CALLS = ("RUNTIME", "DRIVER")
FACTS = frozenset({"StringTable", "Version", *(PREFIX + name for name in ("DEVICE", "CONTEXT", "NAME"))})
MEMORY = {1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed", 6: "Device Static", 7: "Managed Static"}
"""CUpti_ActivityMemoryKind: one more than the numbers of Nsight Systems."""
OVERHEAD = {
    1: "Driver compiler",
    1 << 16: "Buffer flush",
    2 << 16: "Instrumentation",
    3 << 16: "Resource",
    4 << 16: "Runtime triggered module loading",
    5 << 16: "Lazy function loading",
    6 << 16: "Command buffer full",
    7 << 16: "Activity buffer request",
    8 << 16: "UVM activity init",
}
UNIFIED = {
    1: "[Unified Memory Memcpy HtoD]",
    2: "[Unified Memory Memcpy DtoH]",
    3: "[Unified Memory CPU page faults]",
    4: "[Unified Memory GPU page faults]",
    5: "[Unified Memory thrashing]",
    6: "[Unified Memory throttling]",
    7: "[Unified Memory remote mapping]",
    8: "[Unified Memory Memcpy DtoD]",
}
UNIFIED_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD"}
NONE = "-- null --"
"""Row 0 of StringTable."""


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events. Raises: ParseError for a damaged database, or one of another program."""
    db = Database(source, ledger)
    run = Run(origin_ns=0)
    ctx = SqlContext(db, run, options, ledger, Demangler(ledger, enabled=options.demangle))
    try:
        if "StringTable" not in db.tables:
            raise db.error(ValueError("no table StringTable"))
        run.sources.append(SourceFacts(path=source.name, format="nvprof-sqlite", facts=_facts(ctx)))
        pid = _process(ctx)
    except BaseException:
        db.close()
        raise
    return ReadResult(run, with_lost_work(_batches(ctx, pid), source, ledger), False, (ledger,))


def _batches(ctx: SqlContext, pid: int | None) -> Iterator[pa.RecordBatch]:
    with ctx.db:
        try:
            tables = [name for name in ctx.db.tables if name.startswith(PREFIX)]
            read: set[str] = set()
            for name in KERNELS + COPIES + CALLS + ("MEMSET", "OVERHEAD", "SYNCHRONIZATION", "UNIFIED_MEMORY_COUNTER"):
                if PREFIX + name in tables:
                    read.add(PREFIX + name)
                    yield from _table(ctx, name, pid)
            of_kernels = [table for table in tables if table.removeprefix(PREFIX) in KERNELS]
            yield from totals(ctx, of_kernels, lambda number: _kernel_name(ctx, number))
            read |= {METRIC, EVENT}
            yield from markers(ctx, lambda number: _string(ctx, number))
            read |= {PREFIX + "MARKER", PREFIX + "MARKER_DATA"}
            cuda.ignore_others(ctx, read, set(FACTS))
            if unread := [f"{t.removeprefix(PREFIX)} ({n})" for t, n in ctx.ledger.ignored.items() if UNREAD.match(t)]:
                ctx.ledger.note("tables-not-read", f"tables that were not read, with their rows: {', '.join(unread)}")
        finally:
            ctx.names.close()


def _table(ctx: SqlContext, name: str, pid: int | None) -> Iterator[pa.RecordBatch]:
    table = PREFIX + name
    if name in KERNELS:
        wanted = SPAN | PLACE | SHAPE | integers("name", *_KERNEL_EXTRAS)
        unread = _unread(ctx, _KERNEL_EXTRAS, Kind.KERNEL) | cuda.unread_shapes(ctx)
        return cuda.events(ctx, table, wanted, lambda b: _kernels(ctx, b, pid), zero="start", unread=unread)
    if name in COPIES:
        wanted = SPAN | PLACE | integers("copyKind", "srcKind", "dstKind", "flags", "bytes", *cuda.PEERS)
        wanted |= integers("runtimeCorrelationId")
        unread = _unread(ctx, _COPY_EXTRAS, Kind.MEMCPY)
        return cuda.events(ctx, table, wanted, lambda b: _copies(ctx, b, pid), zero="start", unread=unread)
    if name == "MEMSET":
        wanted = SPAN | PLACE | integers("value", "bytes", "memoryKind", "flags", "runtimeCorrelationId")
        return cuda.events(ctx, table, wanted, lambda b: _memsets(ctx, b, pid), zero="start")
    if name in CALLS:
        wanted = SPAN | integers("cbid", "processId", "threadId", "correlationId", "returnValue")
        unread = _unread(ctx, ("returnValue",), Kind.RUNTIME, Kind.DRIVER)
        return cuda.events(ctx, table, wanted, lambda b: _calls(ctx, b, name), zero="start", unread=unread)
    if name == "OVERHEAD":
        wanted = SPAN | integers("overheadKind", "objectKind") | {"objectId": CellType.HEX}
        return cuda.events(ctx, table, wanted, _overhead, zero="start")
    if name == "SYNCHRONIZATION":
        wanted = SPAN | PLACE | integers("type", "cudaEventId")
        return cuda.events(ctx, table, wanted, lambda b: _synchronization(ctx, b, pid), zero="start")
    wanted = SPAN | integers("counterKind", "value", "address", "srcId", "dstId", "streamId", "processId")
    return cuda.events(ctx, table, wanted, _unified, zero="start", open_ends="zero")


_KERNEL_EXTRAS = (
    *("localMemoryPerThread", "localMemoryTotal", "sharedMemoryConfig", "partitionedGlobalCacheRequested"),
    *("partitionedGlobalCacheExecuted", "queued", "submitted", "launchType", "isSharedMemoryCarveoutRequested"),
    *("sharedMemoryCarveoutRequested", "sharedMemoryExecuted", "graphNodeId", "parentGridId"),
    *("parentBlockX", "parentBlockY", "parentBlockZ"),
)
_COPY_EXTRAS = ("srcKind", "dstKind", "flags", *cuda.PEERS)
"""Columns that go into args alone."""


def _unread(ctx: SqlContext, extras: Sequence[str], *kinds: Kind) -> frozenset[str]:
    """Return those of the columns that go into args alone, if nobody will look at the args of these kinds."""
    return frozenset() if cuda.reads_args(ctx, *kinds) else frozenset(extras)


def _kernels(ctx: SqlContext, block: RowBlock, pid: int | None) -> Columns:
    name, raw = _names(ctx, block.columns.get("name"))
    columns: Columns = {"kind": Kind.KERNEL, "name": name, "raw_name": raw, "pid": pid}
    if cuda.reads_args(ctx, Kind.KERNEL):
        columns["args"] = args_of(block.count, [Extra(key, block.columns.get(key)) for key in _KERNEL_EXTRAS])
    return columns | cuda.place(ctx, block) | cuda.shape(ctx, block)


def _copies(ctx: SqlContext, block: RowBlock, pid: int | None) -> Columns:
    kinds = block.columns.get("copyKind")
    extras = [
        Extra("src_mem_type", block.columns.get("srcKind"), MEMORY.get),
        Extra("dst_mem_type", block.columns.get("dstKind"), MEMORY.get),
        Extra("async", block.columns.get("flags"), _true_if_async),
        *(Extra(key, block.columns.get(name), as_is) for name, key in cuda.PEERS.items()),
    ]
    columns: Columns = {
        "kind": Kind.MEMCPY,
        "pid": pid,
        "bytes": block.columns.get("bytes"),
        "args": args_of(block.count, extras) if cuda.reads_args(ctx, Kind.MEMCPY) else None,
        "name": coded(kinds, copy_name) if kinds is not None else "[CUDA memcpy]",
        "copy_kind": coded(kinds, cuda.COPY_KINDS.get),
    }
    return columns | _work(ctx, block)


def _true_if_async(flags: int) -> bool | None:
    return True if flags & 1 else None


def copy_name(kind: int) -> str:
    """Return the name of a copy, as nvprof prints it."""
    return f"[CUDA memcpy {cuda.COPY_KINDS[kind]}]" if kind in cuda.COPY_KINDS else "[CUDA memcpy]"


def _memsets(ctx: SqlContext, block: RowBlock, pid: int | None) -> Columns:
    extras = [
        Extra("value", block.columns.get("value"), as_is),
        Extra("mem_type", block.columns.get("memoryKind"), MEMORY.get),
        Extra("async", block.columns.get("flags"), _true_if_async),
    ]
    columns: Columns = {
        "kind": Kind.MEMSET,
        "name": "[CUDA memset]",
        "pid": pid,
        "bytes": block.columns.get("bytes"),
        "args": args_of(block.count, extras),
    }
    return columns | _work(ctx, block)


def _work(ctx: SqlContext, block: RowBlock) -> Columns:
    """Return the place of a copy or memset. Some versions have the id of the launch in runtimeCorrelationId only."""
    columns = cuda.place(ctx, block)
    runtime_id = cuda.above_zero(block.columns.get("runtimeCorrelationId"))
    if runtime_id is not None:
        own_id = cuda.above_zero(block.columns.get("correlationId"))
        columns["correlation"] = runtime_id if own_id is None else pc.coalesce(own_id, runtime_id)
    return columns


def _calls(ctx: SqlContext, block: RowBlock, name: str) -> Columns:
    known = _api_names(name.lower())
    ids = block.columns.get("cbid")
    thread = block.columns.get("threadId")
    columns: Columns = {
        "kind": Kind.RUNTIME if name == "RUNTIME" else Kind.DRIVER,
        "name": None if ids is None else coded(ids, lambda cbid: _call_name(known, cbid)),
        "pid": block.columns.get("processId"),
        "tid": None if thread is None else pc.bit_wise_and(thread, 0xFFFFFFFF),
        "correlation": cuda.above_zero(block.columns.get("correlationId")),
    }
    if cuda.reads_args(ctx, Kind.RUNTIME, Kind.DRIVER):
        columns["args"] = args_of(block.count, [Extra("returnValue", block.columns.get("returnValue"))])
    return columns


@lru_cache(maxsize=2)
def _api_names(interface: str) -> tuple[str, ...]:
    data = files("tracekit.readers.nvprof").joinpath("_cupti_names.json").read_text(encoding="utf-8")
    return tuple(json.loads(data)[interface])


def _call_name(known: tuple[str, ...], cbid: int) -> str:
    return cuda.call_name(known[cbid]) if 0 < cbid < len(known) and known[cbid] else f"cbid {cbid}"


def _overhead(block: RowBlock) -> Columns:
    kinds = block.columns.get("overheadKind")
    return {
        "kind": Kind.OVERHEAD,
        "name": None if kinds is None else coded(kinds, lambda kind: OVERHEAD.get(kind, f"Overhead {kind}")),
        **places_of(block),
    }


def _synchronization(ctx: SqlContext, block: RowBlock, pid: int | None) -> Columns:
    kinds = block.columns.get("type")
    event = cuda.below(block.columns.get("cudaEventId"), cuda.NO_ID)
    columns = cuda.place(ctx, block) | {
        "kind": Kind.SYNC,
        "pid": pid,
        "name": None if kinds is None else coded(kinds, lambda kind: cuda.SYNC_NAMES.get(kind, f"Sync {kind}")),
        "args": args_of(block.count, [Extra("cudaEventId", event)]),
    }
    columns["stream"] = cuda.below(block.columns.get("streamId"), cuda.NO_ID)
    return columns


def _unified(block: RowBlock) -> Columns:
    kinds = block.integers("counterKind")
    copies = np.isin(kinds, tuple(UNIFIED_COPIES))
    # A copy to the host runs on its source device, everything else on its destination.
    place = np.where(kinds == 2, block.integers("srcId", -1), block.integers("dstId", -1))
    known = (place >= 0) & (place < 1 << 16)
    counted = pa.array(block.integers("value"), mask=copies)
    return {
        "kind": coded(pa.array(kinds), lambda kind: Kind.MEMCPY if kind in UNIFIED_COPIES else Kind.OVERHEAD),
        "name": coded(pa.array(kinds), lambda kind: UNIFIED.get(kind, f"[Unified Memory counter {kind}]")),
        "copy_kind": coded(pa.array(kinds), UNIFIED_COPIES.get),
        "bytes": pa.array(block.integers("value"), mask=~copies | ~block.valid("value")),
        "pid": block.columns.get("processId"),
        "device": pa.array(place, mask=~known),
        "stream": above_zero(cuda.below(block.columns.get("streamId"), cuda.NO_ID)),
        "args": args_of(
            block.count,
            [
                Extra("unified_memory", pa.array(copies), lambda copy: True if copy else None),
                Extra("count", counted),
                Extra("address", block.columns.get("address")),
            ],
        ),
    }


def _string(ctx: SqlContext, number: int) -> str | None:
    """Return a text of StringTable, None for no text."""
    text = ctx.strings.get(number)
    if text is None:
        rows = ctx.db.rows("select value from StringTable where _id_ = ?", (number,))
        found = str(rows[0][0]) if rows and rows[0][0] is not None else ""
        text = ctx.strings[number] = bounded(found, ctx.ledger)
    return None if text in ("", NONE) else text


def _kernel_name(ctx: SqlContext, number: int) -> tuple[str | None, str | None]:
    text = _string(ctx, number) if number >= 0 else None
    return ctx.names.one(text) if text else (None, None)


def _names(ctx: SqlContext, ids: Column | None) -> tuple[DictColumn | None, DictColumn | None]:
    names = coded(ids, lambda number: _string(ctx, number))
    return (None, None) if names is None else ctx.names.columns(names)


def _process(ctx: SqlContext) -> int | None:
    """Return the process that made the calls (or that the file names). None, with a note, when there are several."""
    pids: set[int] = set()
    for name in CALLS:
        if "processId" in ctx.db.tables.get(PREFIX + name, ()):
            bounds = ctx.db.rows(f"select min(processId), max(processId) from {PREFIX}{name}")[0]
            pids |= {pid for pid in bounds if isinstance(pid, int)}
    if not pids:
        pids = {pid for _, pid in ctx.run.processes}
    if len(pids) > 1:
        ctx.ledger.note(
            "several-processes", "the calls are of several processes; device work names none, so it has no process"
        )
    return pids.pop() if len(pids) == 1 else None


def _facts(ctx: SqlContext) -> dict[str, object]:
    """Add the names of devices, processes, threads and streams to the run, and return the facts of the source."""
    source, run, db = ctx.options.source, ctx.run, ctx.db
    facts: dict[str, object] = {"tool": "nvprof"}
    version = db.small("Version", "version", limit=1)
    if version and isinstance(version[0][0], int):
        facts["schema_version"] = version[0][0]
    for device, name in db.small(PREFIX + "DEVICE", "id", "name"):
        if isinstance(device, int) and isinstance(name, int) and (text := _string(ctx, name)):
            run.devices[(source, device)] = text
    for device, stream in db.small(PREFIX + "CONTEXT", "deviceId", "nullStreamId"):
        if isinstance(device, int) and isinstance(stream, int):
            run.streams[(source, device, stream)] = "default"
    if PREFIX + "NAME" in db.tables:
        wanted = integers("objectKind", "name") | {"objectId": CellType.HEX}
        for block in db.blocks(PREFIX + "NAME", wanted):
            for (kind, blob), name in zip(objects_of(block), block.integers("name").tolist(), strict=True):
                if text := _string(ctx, name):
                    _add_name(ctx, kind, place_of(kind, blob), text, facts)
    return facts


def _add_name(ctx: SqlContext, kind: int, place: dict[str, int], text: str, facts: dict[str, object]) -> None:
    source, run = ctx.options.source, ctx.run
    if kind == PROCESS and "pid" in place:
        run.processes[(source, place["pid"])] = text
        facts.setdefault("command", text)
    elif kind == THREAD and "tid" in place:
        run.threads[(source, place["pid"], place["tid"])] = text
    elif kind == DEVICE and "device" in place:
        run.devices.setdefault((source, place["device"]), text)
    elif kind == STREAM and "stream" in place:
        run.streams[(source, place["device"], place["stream"])] = text

"""The CUPTI tables of nvprof and Nsight Systems: names of CUPTI's numbers, and blocks of rows as columns of EVENTS.

Sources of the numbers: cupti_activity.h of CUPTI (CUpti_ActivityMemcpyKind, ...MemoryKind, ...OverheadKind,
...SynchronizationType), and the ENUM_ tables in exports of Nsight Systems. Both agree, except for the kinds of memory:
each reader has its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, schema
from tracekit.model.arrow import I64, Column, DictColumn, Mask, pc
from tracekit.model.schema import DEVICE_WORK, Kind
from tracekit.model.trace import Ledger, Run
from tracekit.model.units import MAX_NS
from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import Values, event_batch
from tracekit.readers.names import Demangler
from tracekit.readers.source import Source
from tracekit.readers.sqlite.database import CellType, Database, RowBlock, TableSource

__all__ = [
    "COPY_KINDS",
    "GRID",
    "NO_ID",
    "PEERS",
    "PLACE",
    "SHAPE",
    "SPAN",
    "SYNC_NAMES",
    "Columns",
    "Context",
    "Extra",
    "SqlContext",
    "above_zero",
    "args_of",
    "as_is",
    "below",
    "call_kind",
    "call_name",
    "coded",
    "distinct_rows",
    "events",
    "ignore_others",
    "int32",
    "integers",
    "place",
    "reads_args",
    "shape",
    "texts_by_number",
    "unread_shapes",
    "with_lost_work",
]

# Captures that have calls which launch work on a device, and not one row of such work.


_LAUNCHES = re.compile(r"(?:cuda|cu)Launch(?:Cooperative)?(?:Kernel\w*)?|(?:cuda|cu)GraphLaunch(?:_\w+)?")
_FEWEST = 3
"""Fewer launches may lie at the end of a capture, before their work began."""


def with_lost_work(batches: Iterator[pa.RecordBatch], source: Source, ledger: Ledger) -> Iterator[pa.RecordBatch]:
    """Yield batches; at the end, note that the rows of devices are missing where there are launches alone.

    Nothing is said where a limit ended the reading: the rows may be behind it.
    """
    launches, has_work = 0, False
    for batch in batches:
        if not has_work and not schema.is_totals(batch):
            kinds = arrow.encoded(batch.column("kind"))
            in_use = pc.take(kinds.dictionary, pc.unique(kinds.indices))
            has_work = any(kind in DEVICE_WORK for kind in arrow.texts(in_use))
            launches += _launches(batch)
        yield batch
    if launches >= _FEWEST and not has_work and source.stopped is None:
        why = (
            f"{launches:,} calls launched work, and no kernel, copy or memset is in the file: the profiler lost the "
            "rows of devices, or did not record them"
        )
        ledger.note("device-rows-missing", why)


def _launches(batch: pa.RecordBatch) -> int:
    names = arrow.encoded(batch.column("name"))
    texts = arrow.optional_texts(names.dictionary)
    is_launch = np.array([*(text is not None and _LAUNCHES.fullmatch(text) is not None for text in texts), False])
    return int(np.count_nonzero(is_launch[arrow.codes(names)]))


PEERS = {
    "srcDeviceId": "src_device",
    "srcContextId": "src_context",
    "dstDeviceId": "dst_device",
    "dstContextId": "dst_context",
}
"""Columns of the two ends of a copy between devices, and their names in args."""
COPY_KINDS = dict(enumerate(["HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"], 1))
SYNC_NAMES = {1: "Event sync", 2: "Stream wait sync", 3: "Stream sync", 4: "Context sync"}
NO_ID = 0xFFFFFFFF
"""CUPTI_SYNCHRONIZATION_INVALID_VALUE: no stream, no event."""
FEW = 1024
"""Up to this number of distinct values in a block, each value of a column is written as JSON once."""

_VERSION = re.compile(r"_v\d+$")
_DRIVER = re.compile(r"cu[A-Z]")
_INT32 = (1 << 31) - 1

GRID = {
    "grid_x": "gridX",
    "grid_y": "gridY",
    "grid_z": "gridZ",
    "block_x": "blockX",
    "block_y": "blockY",
    "block_z": "blockZ",
    "registers": "registersPerThread",
}


def integers(*names: str) -> dict[str, CellType]:
    """Return these columns with the type integer."""
    return dict.fromkeys(names, CellType.INTEGER)


SPAN = integers("start", "end")
PLACE = integers("deviceId", "contextId", "streamId", "correlationId")
SHAPE = integers(*GRID.values(), "staticSharedMemory", "dynamicSharedMemory")


@dataclass(slots=True)
class Context:
    """The state of reading the tables of one file.

    base: number of records in the tables that were read before the present one. strings: texts of the string table that
    were looked up. seen: threads and processes that rows name. machines: machines that the processes ran on.
    """

    db: TableSource
    run: Run
    options: ReadOptions
    ledger: Ledger
    names: Demangler
    base: int = 0
    strings: dict[int, str] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    machines: set[int] = field(default_factory=set)


@dataclass(slots=True)
class SqlContext(Context):
    """The state of reading one database of SQLite, for readers with queries of their own."""

    db: Database


Columns: TypeAlias = dict[str, Values]
Make: TypeAlias = Callable[[RowBlock], Columns]
Select: TypeAlias = Callable[[RowBlock], Mask | None]


def events(
    ctx: Context,
    table: str,
    wanted: Mapping[str, CellType],
    make: Make,
    *,
    start: str = "start",
    end: str | None = "end",
    open_ends: str = "",
    zero: str = "both",
    select: Select | None = None,
    unread: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the events of a table. Rows with bad times are dropped, each with its reason.

    end: None if the rows are moments. open_ends: "null" if a null end is a range that did not end, "zero" if an end of
    0 is a moment. zero: when a time of 0 means "not measured": if "both" are 0, if the "start" is 0, or "never".
    select: returns the mask of the rows that are events, None for all, and counts the others in the ledger.
    unread: columns that `make` can do without, as in `TableSource.blocks`.
    """
    ledger = ctx.ledger
    missing = [c for c in (start, end) if c is not None and c not in ctx.db.tables[table]]
    if missing:
        count = ctx.db.count(table)
        ctx.base += count
        ledger.read += count
        ledger.drop("no-column", count, where=table, text=f"dropped: the rows of a table without a column {missing[0]}")
        return
    last = 0
    for block in ctx.db.blocks(table, wanted, unread=unread):
        ledger.read += block.count
        if open_ends == "zero" and end is not None:
            ends = block.columns[end]
            block.columns[end] = pc.if_else(pc.greater(ends, 0), ends, None)
        last = block.first + block.count - 1
        numbers: I64 = np.arange(ctx.base + block.first, ctx.base + block.first + block.count)
        selected = None if select is None else select(block)
        if selected is not None:
            block, numbers = block.filter(selected), numbers[selected]
            if not block.count:
                continue
        good = _good_rows(ledger, block, numbers - ctx.base, start, end, open_ends=bool(open_ends), zero=zero)
        if good is not None:
            block, numbers = block.filter(good), numbers[good]
            if not block.count:
                continue
        ts = block.integers(start)
        columns: Columns = {"ts_ns": ts, "dur_ns": None, "event_id": numbers, "source": ctx.options.source}
        if end is not None:
            dur = block.integers(end) - ts
            columns["dur_ns"] = dur
            if open_ends and not (ended := block.valid(end)).all():
                columns["dur_ns"] = arrow.array(dur, mask=~ended)
        columns |= make(block)
        ledger.kept += block.count
        ledger.events_out += block.count
        yield event_batch(block.count, columns)
    # Ids go on from table to table, so that no two rows of a file share one.
    ctx.base += last


_DROPS = {
    "no-time": "dropped: a row whose times were not measured",
    "bad-time": "dropped: a row with a time beyond 146 years",
    "no-duration": "dropped: a row without an end",
    "ends-before-start": "dropped: a row that ends before it starts",
}


def _good_rows(
    ledger: Ledger, block: RowBlock, numbers: I64, start: str, end: str | None, *, open_ends: bool, zero: str
) -> Mask | None:
    """Return the mask of the rows with good times, None for all, and drop the other rows."""
    ts = block.integers(start)
    stop = ts if end is None else block.integers(end)
    ended = block.valid(end) if end is not None and open_ends else None
    if ended is not None:
        stop = np.where(ended, stop, ts)
    checks = [
        ("no-time", ~block.valid(start)),
        ("no-duration", ~block.valid(end) if end is not None and not open_ends else None),
        ("no-time", None if zero == "never" else (ts == 0) if zero == "start" else (ts == 0) & (stop == 0)),
        ("bad-time", (ts >= MAX_NS) | (ts <= -MAX_NS) | (stop >= MAX_NS) | (stop <= -MAX_NS)),
        ("ends-before-start", stop < ts),
    ]
    if not any(bad is not None and bad.any() for _, bad in checks):
        return None
    good = np.ones(block.count, np.bool_)
    for code, bad in checks:
        failed = good & bad if bad is not None else np.zeros(0, np.bool_)
        if failed.any():
            first = int(numbers[failed][0])
            ledger.drop(code, int(np.count_nonzero(failed)), where=f"{block.table} row {first}", text=_DROPS[code])
            good &= ~failed
    return good


def texts_by_number(values: Column, text_of: Callable[[int], str | None]) -> DictColumn:
    """Return the texts of a column of numbers. Each distinct number is looked up once; null stays null."""
    encoded = arrow.encoded(values)
    texts = [None if v is None else text_of(v) for v in encoded.dictionary.to_pylist()]
    dictionary = arrow.array(texts, pa.string())
    if dictionary.null_count or len(set(texts)) < len(texts):
        return arrow.encoded(pc.take(arrow.encoded(dictionary), encoded.indices))
    return pa.DictionaryArray.from_arrays(encoded.indices, dictionary)


def coded(values: Column | None, text_of: Callable[[int], str | None]) -> DictColumn | None:
    """Return `texts_by_number`, None for a missing column."""
    return None if values is None else texts_by_number(values, text_of)


def distinct_rows(*columns: I64) -> tuple[Column, list[tuple[int, ...]]]:
    """Return a number for each row, the same for equal rows, and the distinct rows by number."""
    codes = np.zeros(len(columns[0]), np.int64)
    rows: list[tuple[int, ...]] = [()]
    for column in columns:
        encoded = arrow.encoded(arrow.array(column))
        values = arrow.ints(encoded.dictionary).tolist()
        combined = arrow.encoded(arrow.array(codes * len(values) + arrow.ints(encoded.indices)))
        pairs = (divmod(code, len(values)) for code in arrow.ints(combined.dictionary).tolist())
        rows = [(*rows[before], values[own]) for before, own in pairs]
        codes = arrow.ints(combined.indices)
    return arrow.array(codes), rows


def above_zero(values: Column | None) -> Column | None:
    """Return the column with null where it is not above 0: correlation ids begin at 1."""
    if values is None:
        return None
    bounds = arrow.bounds(values)
    return values if bounds is not None and bounds[0] > 0 else pc.if_else(pc.greater(values, 0), values, None)


def below(values: Column | None, limit: int) -> Column | None:
    """Return the column with null where it is negative or at least `limit`."""
    if values is None:
        return None
    bounds = arrow.bounds(values)
    if bounds is None or (bounds[0] >= 0 and bounds[1] < limit):
        return values
    return pc.if_else(pc.and_(pc.greater_equal(values, 0), pc.less(values, limit)), values, None)


def int32(ctx: Context, block: RowBlock, name: str) -> Column | None:
    """Return a column as int32. A value beyond 32 bits becomes null, with a note."""
    values = block.columns.get(name)
    if values is None:
        return None
    bounds = arrow.bounds(values)
    if bounds is not None and (bounds[0] < -_INT32 or bounds[1] > _INT32):
        fits = pc.and_(pc.greater_equal(values, -_INT32), pc.less_equal(values, _INT32))
        count = block.count - arrow.count(fits) - values.null_count
        ctx.ledger.note("number-too-large", f"{name} is beyond 32 bits: it counts as empty", count, where=block.table)
        values = pc.if_else(fits, values, None)
    return pc.cast(values, pa.int32())


def reads_args(ctx: Context, *kinds: Kind) -> bool:
    """Return whether the `args` of rows of one of these kinds will be looked at."""
    of = ctx.options.args_of
    return ctx.options.wants("args") and (of is None or not of.isdisjoint(kinds))


def unread_shapes(ctx: Context) -> frozenset[str]:
    """Return the columns of `shape` where nobody will look at any of them."""
    made = (*GRID, "static_smem_bytes", "dynamic_smem_bytes")
    return frozenset() if any(ctx.options.wants(name) for name in made) else frozenset(SHAPE)


def shape(ctx: Context, block: RowBlock) -> Columns:
    """Return grid, block, registers and shared memory of kernels."""
    columns: Columns = {target: int32(ctx, block, name) for target, name in GRID.items()}
    columns["static_smem_bytes"] = block.columns.get("staticSharedMemory")
    columns["dynamic_smem_bytes"] = block.columns.get("dynamicSharedMemory")
    return columns


def place(ctx: Context, block: RowBlock) -> Columns:
    """Return device, context, stream and correlation of device work."""
    return {
        "device": int32(ctx, block, "deviceId"),
        "context": block.columns.get("contextId"),
        "stream": block.columns.get("streamId"),
        "correlation": above_zero(block.columns.get("correlationId")),
    }


def call_name(text: str) -> str:
    """Return the name of an API call without the version that CUPTI appends to it.

    >>> call_name("cudaLaunchKernel_v7000")
    'cudaLaunchKernel'
    """
    return _VERSION.sub("", text)


def call_kind(text: str) -> Kind:
    """Return driver for names like cuLaunchKernel, runtime for all others."""
    return Kind.DRIVER if _DRIVER.match(text) else Kind.RUNTIME


@dataclass(frozen=True, slots=True)
class Extra:
    """A column that goes into args.

    to_json: makes a JSON value of a value, None to leave it out. Without it a value stands as it is, and 0 is left out.
    """

    key: str
    values: Column | None
    to_json: Callable[[int], object] | None = None

    def member(self, value: int | None) -> str | None:
        """Return `"key":value`, None when it is left out."""
        if value is None:
            return None
        shown = (value or None) if self.to_json is None else self.to_json(value)
        return None if shown is None else f'"{self.key}":{orjson.dumps(shown).decode()}'


def as_is(value: int) -> int:
    """Return the value: it goes into args even if it is 0."""
    return value


def args_of(count: int, extras: Sequence[Extra]) -> Column | None:
    """Return the column args: one JSON object a row, null for a row without members; None when no row has any."""
    fixed: list[str] = []
    codes: I64 | None = None
    parts: list[tuple[str, ...]] = [()]
    long_columns: list[Column] = []
    for extra in extras:
        values = extra.values
        if values is None or values.null_count == count:
            continue
        plain_integers = pa.types.is_integer(values.type) and extra.to_json is None
        if plain_integers and arrow.bounds(values) == (0, 0):
            continue
        encoded = arrow.encoded(values)
        distinct = encoded.dictionary.to_pylist()
        if len(distinct) > FEW and plain_integers:
            text = pc.binary_join_element_wise(f'"{extra.key}":', values.cast(pa.string()), "")
            long_columns.append(pc.if_else(pc.not_equal(values, 0), text, None))
            continue
        members = [extra.member(v) for v in distinct]
        if len(members) == 1 and not values.null_count:
            fixed += [m for m in members if m]
            continue
        own_codes = arrow.ints(encoded.indices, len(members))
        members.append(None)
        combined = arrow.encoded(arrow.array(own_codes if codes is None else codes * len(members) + own_codes))
        codes = arrow.ints(combined.indices)
        pairs = (divmod(code, len(members)) for code in arrow.ints(combined.dictionary).tolist())
        parts = [(*parts[before], *((member,) if (member := members[own]) else ())) for before, own in pairs]
    known = [",".join((*fixed, *part)) or None for part in parts]
    if not long_columns:
        objects = arrow.array([None if t is None else "{" + t + "}" for t in known], pa.string())
        return None if objects.null_count == len(objects) else _spread(objects, codes, count)
    first = _spread(arrow.array(known, pa.string()), codes, count)
    joined = arrow.joined([first, *long_columns], ",")
    return pc.if_else(pc.equal(joined, ""), None, pc.binary_join_element_wise("{", joined, "}", ""))


def _spread(distinct: Column, codes: I64 | None, count: int) -> Column:
    """Return the distinct value of each row: those of the codes, or the only one `count` times."""
    return arrow.take(distinct, np.zeros(count, np.int64) if codes is None else codes)


def ignore_others(ctx: Context, read: set[str], facts: set[str]) -> None:
    """Count the tables without events: as facts of the run, or as ignored under the name of the table."""
    for table in ctx.db.tables:
        if table in read:
            continue
        count = ctx.db.count(table)
        ctx.ledger.read += count
        if table in facts:
            ctx.ledger.facts += count
        else:
            ctx.ledger.ignore("ENUM_*" if table.startswith("ENUM_") else table, count)

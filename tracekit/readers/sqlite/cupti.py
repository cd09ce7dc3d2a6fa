"""What the tables of nvprof and Nsight Systems share: CUPTI's numbers by name, and blocks of rows to columns of EVENTS.

Numbers: CUPTI's cupti_activity.h (CUpti_ActivityMemcpyKind, ...MemoryKind, ...OverheadKind, ...SynchronizationType) and
the ENUM_ tables of Nsight Systems' own exports, which say the same; memory kinds differ, see each reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.readers.base import ReadOptions
from tracekit.readers.builder import event_batch
from tracekit.readers.names import Demangler
from tracekit.readers.sqlite.database import I64, Block, Database, Mask
from tracekit.readers.sqlite.database import Kind as Cell
from tracekit.schema import Kind
from tracekit.trace import Ledger, Run
from tracekit.units import MAX_NS

PEERS = {
    "srcDeviceId": "src_device",
    "srcContextId": "src_context",
    "dstDeviceId": "dst_device",
    "dstContextId": "dst_context",
}
"""Columns of the two ends of a copy between devices, and their names in args."""
COPY_KINDS = {
    1: "HtoD",
    2: "DtoH",
    3: "HtoA",
    4: "AtoH",
    5: "AtoA",
    6: "AtoD",
    7: "DtoA",
    8: "DtoD",
    9: "HtoH",
    10: "PtoP",
}
SYNC_NAMES = {1: "Event sync", 2: "Stream wait sync", 3: "Stream sync", 4: "Context sync"}
NO_ID = 0xFFFFFFFF
"""CUPTI_SYNCHRONIZATION_INVALID_VALUE: no stream, no event."""
FEW = 1024
"""A column with at most so many values in a block goes into args by its values, each made once."""

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
INT = Cell.INTEGER


def integers(*names: str) -> dict[str, Cell]:
    """Return these columns as integers."""
    return dict.fromkeys(names, INT)


SPAN = integers("start", "end")
PLACE = integers("deviceId", "contextId", "streamId", "correlationId")
SHAPE = integers(*GRID.values(), "staticSharedMemory", "dynamicSharedMemory")


@dataclass(slots=True)
class Context:
    """What reading one database carries along. base: records of the tables before the present one.

    strings: texts of the string table that were asked for. seen: the threads and processes that rows name. machines:
    those of the processes.
    """

    db: Database
    run: Run
    options: ReadOptions
    ledger: Ledger
    names: Demangler
    base: int = 0
    strings: dict[int, str] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    machines: set[int] = field(default_factory=set)


Columns = dict[str, Any]
Make = Callable[[Block], Columns]
Select = Callable[[Block], Mask | None]


def events(
    ctx: Context,
    table: str,
    wanted: Mapping[str, Cell],
    make: Make,
    *,
    start: str = "start",
    end: str | None = "end",
    open_ends: str = "",
    zero: str = "both",
    select: Select | None = None,
) -> Iterator[pa.RecordBatch]:
    """Give the events of a table; rows without good times are dropped, each with its reason.

    end: None where the rows are moments. open_ends: "null": a null end is a range that did not end; "zero": an end of 0
    says that the row is a moment. zero: times of 0 mean "not taken" where "both" are 0, the "start" is 0, or "never".
    select: tells which rows are events, None for all, and accounts for the others.
    """
    ledger = ctx.ledger
    missing = [c for c in (start, end) if c is not None and c not in ctx.db.tables[table]]
    if missing:
        count = ctx.db.count(table)
        ctx.base += count
        ledger.read += count
        ledger.drop(
            "no-column", count, where=table, text=f"dropped: the rows of a table that has no column {missing[0]}"
        )
        return
    last = 0
    for block in ctx.db.blocks(table, wanted):
        ledger.read += block.count
        if open_ends == "zero" and end is not None:
            block.columns[end] = above_zero(block.columns[end])
        last = block.first + block.count - 1
        numbers = np.arange(ctx.base + block.first, ctx.base + block.first + block.count)
        mine = None if select is None else select(block)
        if mine is not None:
            block, numbers = block.take(mine), numbers[mine]
            if not block.count:
                continue
        good = _good(ledger, block, numbers - ctx.base, start, end, open_ends=bool(open_ends), zero=zero)
        if good is not None:
            block, numbers = block.take(good), numbers[good]
            if not block.count:
                continue
        ts = block.integers(start)
        columns: Columns = {"ts_ns": ts, "dur_ns": None, "event_id": numbers, "source": ctx.options.source}
        if end is not None:
            dur: Any = block.integers(end) - ts
            if open_ends and not (ended := block.valid(end)).all():
                dur = pa.array(dur, mask=~ended)
            columns["dur_ns"] = dur
        columns |= make(block)
        ledger.kept += block.count
        ledger.events_out += block.count
        yield event_batch(block.count, columns)
    ctx.base += last


_DROPS = {
    "no-time": "dropped: a row whose times were not taken",
    "bad-time": "dropped: a row with a time beyond 146 years",
    "no-duration": "dropped: a row without an end",
    "ends-before-start": "dropped: a row that ends before it starts",
}


def _good(
    ledger: Ledger, block: Block, numbers: I64, start: str, end: str | None, *, open_ends: bool, zero: str
) -> Mask | None:
    """Return which rows have good times, None for all; the others are dropped."""
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
        mine = good & bad if bad is not None else np.zeros(0, np.bool_)
        if mine.any():
            first = int(numbers[mine][0])
            ledger.drop(code, int(np.count_nonzero(mine)), where=f"{block.table} row {first}", text=_DROPS[code])
            good &= ~mine
    return good


def coded(values: pa.Array | None, text_of: Callable[[Any], str | None]) -> pa.DictionaryArray | None:
    """Return the texts of numbers as a dictionary array, each distinct number looked up once; null gives null."""
    if values is None:
        return None
    encoded = values.dictionary_encode()
    texts = [None if v is None else text_of(v) for v in encoded.dictionary.to_pylist()]
    dictionary = pa.array(texts, pa.string())
    if dictionary.null_count or len(set(texts)) < len(texts):
        return dictionary.dictionary_encode().take(encoded.indices)
    return pa.DictionaryArray.from_arrays(encoded.indices, dictionary)


def above_zero(values: pa.Array | None) -> pa.Array | None:
    """Return the column with null where it is not above 0: correlation ids begin at 1."""
    if values is None:
        return None
    low = pc.min(values).as_py()
    return values if low is not None and low > 0 else pc.if_else(pc.greater(values, 0), values, None)


def below(values: pa.Array | None, limit: int) -> pa.Array | None:
    """Return the column with null where it is negative or at least `limit`."""
    if values is None:
        return None
    bounds = pc.min_max(values).as_py()
    if bounds["min"] is None or (bounds["min"] >= 0 and bounds["max"] < limit):
        return values
    return pc.if_else(pc.and_(pc.greater_equal(values, 0), pc.less(values, limit)), values, None)


def int32(ctx: Context, block: Block, name: str) -> pa.Array | None:
    """Return a column that fits into 32 bits; what does not becomes null, with a note."""
    values = block.columns.get(name)
    if values is None:
        return None
    bounds = pc.min_max(values).as_py()
    if bounds["min"] is not None and (bounds["min"] < -_INT32 or bounds["max"] > _INT32):
        fits = pc.and_(pc.greater_equal(values, -_INT32), pc.less_equal(values, _INT32))
        count = block.count - (pc.sum(fits).as_py() or 0) - values.null_count
        ctx.ledger.note("number-too-large", f"{name} is beyond 32 bits: it counts as empty", count, where=block.table)
        values = pc.if_else(fits, values, None)
    return values.cast(pa.int32())


def shape(ctx: Context, block: Block) -> Columns:
    """Return grid, block, registers and shared memory of kernels."""
    columns: Columns = {target: int32(ctx, block, name) for target, name in GRID.items()}
    columns["static_smem_bytes"] = block.columns.get("staticSharedMemory")
    columns["dynamic_smem_bytes"] = block.columns.get("dynamicSharedMemory")
    return columns


def place(ctx: Context, block: Block) -> Columns:
    """Return device, context, stream and correlation of device work."""
    return {
        "device": int32(ctx, block, "deviceId"),
        "context": block.columns.get("contextId"),
        "stream": block.columns.get("streamId"),
        "correlation": above_zero(block.columns.get("correlationId")),
    }


def call_name(text: str) -> str:
    """Return the name of an API call without the version that CUPTI puts behind it.

    >>> call_name("cudaLaunchKernel_v7000")
    'cudaLaunchKernel'
    """
    return _VERSION.sub("", text)


def call_kind(text: str) -> Kind:
    """Return driver for names like cuLaunchKernel, runtime for all others."""
    return Kind.DRIVER if _DRIVER.match(text) else Kind.RUNTIME


@dataclass(frozen=True, slots=True)
class Extra:
    """A column that goes into args. text: value -> JSON value, None leaves it out; by default 0 is left out."""

    key: str
    values: pa.Array | None
    text: Callable[[Any], Any] | None = None

    def json(self, value: Any) -> str | None:
        """Return `"key":value`, None when it is left out."""
        if value is None:
            return None
        shown = (value or None) if self.text is None else self.text(value)
        return None if shown is None else f'"{self.key}":{orjson.dumps(shown).decode()}'


def args_of(count: int, extras: Sequence[Extra]) -> pa.Array | None:
    """Return the column args: a JSON object of what each row has, null where nothing is left; None when no row has."""
    fixed: list[str] = []
    codes: I64 | None = None
    parts: list[tuple[str, ...]] = [()]
    many: list[pa.Array] = []
    for extra in extras:
        if extra.values is None or extra.values.null_count == count:
            continue
        if pa.types.is_integer(extra.values.type) and extra.text is None:
            bounds = pc.min_max(extra.values).as_py()
            if bounds["min"] == bounds["max"] == 0:
                continue
        encoded = extra.values.dictionary_encode()
        distinct = encoded.dictionary.to_pylist()
        if len(distinct) > FEW and extra.text is None and pa.types.is_integer(extra.values.type):
            text = pc.binary_join_element_wise(f'"{extra.key}":', extra.values.cast(pa.string()), "")
            many.append(pc.if_else(pc.not_equal(extra.values, 0), text, None))
            continue
        texts = [extra.json(v) for v in distinct]
        if len(texts) == 1 and not extra.values.null_count:
            fixed += [t for t in texts if t]
            continue
        mine = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
        texts.append(None)
        combined = mine if codes is None else codes * len(texts) + mine
        again = pa.array(combined).dictionary_encode()
        codes = again.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        parts = [
            (*parts[c // len(texts)], *((found,) if (found := texts[c % len(texts)]) else ()))
            for c in again.dictionary.to_pylist()
        ]
    known = [",".join((*fixed, *part)) or None for part in parts]
    if not many:
        whole = pa.array([None if t is None else "{" + t + "}" for t in known], pa.string())
        if whole.null_count == len(whole):
            return None
        return whole.take(pa.array(codes)) if codes is not None else pa.repeat(whole[0], count)
    few = pa.array(known, pa.string())
    first = few.take(pa.array(codes)) if codes is not None else pa.repeat(few[0], count)
    joined = pc.binary_join_element_wise(first, *many, ",", null_handling="skip")
    return pc.if_else(pc.equal(joined, ""), None, pc.binary_join_element_wise("{", joined, "}", ""))


def ignore_others(ctx: Context, read: set[str], facts: set[str]) -> None:
    """Account for the tables that hold no events: facts of the run, and what nobody reads, by the table's name."""
    for table in ctx.db.tables:
        if table in read:
            continue
        count = ctx.db.count(table)
        ctx.ledger.read += count
        if table in facts:
            ctx.ledger.facts += count
        else:
            ctx.ledger.ignore("ENUM_*" if table.startswith("ENUM_") else table, count)

"""NVTX markers of nvprof's database: start rows and end rows become ranges; whose they are stands in a blob.

    MARKER(_id_, flags, timestamp, id, objectKind, objectId, name, domain): (1, 2, 15..., 1, 2, x'A7760000...', 7, 0)
    MARKER(...): (2, 4, 15..., 1, 2, x'A7760000...', 0, 0)

objectId is CUpti_ActivityObjectKindId: process and thread (two 32-bit numbers), or device, context and stream (three),
whichever objectKind says. Source: cupti_activity.h.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from tracekit.readers.builder import RowBuilder
from tracekit.readers.sqlite.cupti import Context, integers
from tracekit.readers.sqlite.database import Block
from tracekit.readers.sqlite.database import Kind as Cell
from tracekit.schema import Kind
from tracekit.units import MAX_NS

TABLE = "CUPTI_ACTIVITY_KIND_MARKER"
DATA = "CUPTI_ACTIVITY_KIND_MARKER_DATA"
INSTANT, START, END = 1, 2, 4
"""CUpti_ActivityFlag: CUPTI_ACTIVITY_FLAG_MARKER_*; higher bits speak of synchronization."""
PROCESS, THREAD, DEVICE, CONTEXT, STREAM = 1, 2, 3, 4, 5
OPEN_RANGES = 1 << 20
"""Ranges open at once; beyond, the oldest is given up as one without an end."""
BATCH = 1 << 14

Names = Callable[[int], str | None]


def objects_of(block: Block) -> list[tuple[int, str]]:
    """Return kind and blob (in hexadecimal digits) of each row."""
    blobs = block.columns.get("objectId")
    texts = [""] * block.count if blobs is None else [b or "" for b in blobs.to_pylist()]
    return list(zip(block.integers("objectKind").tolist(), texts, strict=True))


def places_of(block: Block) -> dict[str, pa.Array]:
    """Return the columns pid, tid, device, context and stream of the rows; each distinct object is looked at once."""
    kinds = pa.array(block.integers("objectKind")).cast(pa.string())
    blobs = block.columns.get("objectId", pa.nulls(block.count, pa.string()))
    encoded = pc.binary_join_element_wise(kinds, blobs.fill_null(""), ":").dictionary_encode()
    found = [whose(int(text.split(":")[0]), text.split(":")[1]) for text in encoded.dictionary.to_pylist()]
    return {
        key: pa.array([place.get(key) for place in found], pa.int64()).take(encoded.indices)
        for key in ("pid", "tid", "device", "context", "stream")
    }


def whose(kind: int, blob: str) -> dict[str, int]:
    """Return what the blob names: pid and tid, or device, context and stream; {} when it is not such a blob.

    >>> whose(2, "A7760000F0257FFD00000000")
    {'pid': 30375, 'tid': 4253033968}
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
class _Open:
    """A range that began. number: of its record."""

    number: int
    ts: int
    place: dict[str, int]
    name: str | None
    args: dict[str, Any]


@dataclass(slots=True)
class _State:
    ctx: Context
    names: Names
    data: dict[int, dict[str, Any]]
    rows: RowBuilder = field(default_factory=RowBuilder)
    open: dict[int, _Open] = field(default_factory=dict)

    def row(self, begun: _Open, dur: int | None, kind: Kind) -> None:
        shown, raw = self.ctx.names.one(begun.name) if begun.name else (None, None)
        place = begun.place
        self.rows.add(
            ts_ns=begun.ts,
            dur_ns=dur,
            event_id=begun.number,
            name=shown,
            raw_name=raw,
            kind=kind,
            source=self.ctx.options.source,
            args=orjson.dumps(begun.args).decode() if begun.args else None,
            **place,
        )
        self.ctx.ledger.kept += 1
        self.ctx.ledger.events_out += 1

    def unfinished(self, begun: _Open) -> None:
        begun.args["unfinished"] = True
        self.row(begun, None, Kind.USER_RANGE)
        text = "a range did not end before the profile did: it has no duration"
        self.ctx.ledger.note("open-range", text, where=f"{TABLE} record {begun.number}")


def markers(ctx: Context, names: Names) -> Iterator[pa.RecordBatch]:
    """Give ranges and marks; what MARKER_DATA says of them stands in their args."""
    state = _State(ctx, names, _data(ctx))
    if TABLE not in ctx.db.tables:
        return
    wanted = integers("flags", "timestamp", "id", "objectKind", "name", "domain") | {"objectId": Cell.HEX}
    last = 0
    for block in ctx.db.blocks(TABLE, wanted):
        ctx.ledger.read += block.count
        last = block.first + block.count - 1
        cells = [block.integers(name).tolist() for name in ("flags", "timestamp", "id", "name", "domain")]
        valid = block.valid("timestamp") & (np.abs(block.integers("timestamp")) < MAX_NS)
        rows = zip(*cells, objects_of(block), valid.tolist(), strict=True)
        for number, row in enumerate(rows, ctx.base + block.first):
            _marker(state, number, *row)
            if len(state.rows) >= BATCH:
                yield state.rows.take()
    for begun in state.open.values():
        state.unfinished(begun)
    if len(state.rows):
        yield state.rows.take()
    ctx.base += last


def _marker(
    state: _State, number: int, flags: int, ts: int, ident: int, name: int, domain: int, whom: tuple[int, str], ok: bool
) -> None:
    ledger = state.ctx.ledger
    where = f"{TABLE} record {number}"
    if not ok or ts <= 0:
        ledger.drop("no-time", where=where, text="dropped: a row whose times were not taken")
        return
    if flags & END:
        begun = state.open.pop(ident, None)
        if begun is None:
            ledger.drop("end-without-start", where=where, text="dropped: the end of a range whose start is not there")
        elif ts < begun.ts:
            begun.args["unfinished"] = True
            state.row(begun, None, Kind.USER_RANGE)
            ledger.drop("ends-before-start", where=where, text="dropped: an end before the start of its range")
        else:
            state.row(begun, ts - begun.ts, Kind.USER_RANGE)
            ledger.merged += 1
        return
    args = dict(state.data.get(ident, {}))
    if text := state.names(domain):
        args["domain"] = text
    begun = _Open(number, ts, whose(*whom), state.names(name), args)
    if flags & START:
        if ident in state.open:
            state.unfinished(state.open.pop(ident))
        elif len(state.open) >= OPEN_RANGES:
            state.unfinished(state.open.pop(next(iter(state.open))))
        state.open[ident] = begun
    elif flags & INSTANT:
        state.row(begun, None, Kind.MARK)
    else:
        ledger.drop("unknown-marker", where=where, text="dropped: a marker that is no start, end or moment")


_PAYLOADS = {0: "<d", 1: "<Q", 2: "<d", 3: "<Q", 4: "<q", 5: "<I"}
"""CUpti_MetricValueKind: double, uint64, percent, throughput, int64, level. Without payload: 0 of kind 0."""


def _data(ctx: Context) -> dict[int, dict[str, Any]]:
    """Return color, category and payload by the marker's id."""
    if DATA not in ctx.db.tables:
        return {}
    out: dict[int, dict[str, Any]] = {}
    wanted = integers("id", "payloadKind", "color", "category") | {"payload": Cell.HEX}
    for block in ctx.db.blocks(DATA, wanted):
        ctx.ledger.read += block.count
        ctx.ledger.merged += block.count
        payloads = block.columns.get("payload")
        texts = [None] * block.count if payloads is None else payloads.to_pylist()
        cells = [block.integers(name).tolist() for name in ("id", "payloadKind", "color", "category")]
        for ident, kind, color, category, payload in zip(*cells, texts, strict=True):
            found: dict[str, Any] = {}
            if color:
                found["color"] = f"#{color & 0xFFFFFFFF:08X}"
            if category:
                found["category"] = category
            value = _payload(kind, payload)
            if value:
                found["payload"] = value
            if found:
                out[ident] = found
    return out


def _payload(kind: int, blob: str | None) -> Any:
    form = _PAYLOADS.get(kind)
    if form is None or not blob:
        return None
    try:
        return struct.unpack_from(form, bytes.fromhex(blob))[0]
    except (ValueError, struct.error):
        return blob

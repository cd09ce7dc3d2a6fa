"""NVTX markers in nvprof's database: a row for the start and one for the end become a range.

    MARKER(_id_, flags, timestamp, id, objectKind, objectId, name, domain): (1, 2, 15..., 1, 2, x'A7760000...', 7, 0)
    MARKER(...): (2, 4, 15..., 1, 2, x'A7760000...', 0, 0)

objectId is a CUpti_ActivityObjectKindId. By objectKind it holds process and thread (two 32-bit numbers), or device,
context and stream (three). Source: cupti_activity.h.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrow import Column, pc
from tracekit.readers.builder import RowBuilder
from tracekit.readers.engine.pairing import OpenRanges
from tracekit.readers.sqlite.cupti import SqlContext, integers
from tracekit.readers.sqlite.database import Block, CellType
from tracekit.schema import Kind
from tracekit.units import MAX_NS

TABLE = "CUPTI_ACTIVITY_KIND_MARKER"
DATA = "CUPTI_ACTIVITY_KIND_MARKER_DATA"
INSTANT, START, END = 1, 2, 4
"""CUpti_ActivityFlag: CUPTI_ACTIVITY_FLAG_MARKER_*; higher bits are about synchronization."""
PROCESS, THREAD, DEVICE, CONTEXT, STREAM = 1, 2, 3, 4, 5
OPEN_RANGES = 1 << 20
"""Maximum number of open ranges. Beyond it the oldest is kept as an unfinished one."""
BATCH = 1 << 14

Names: TypeAlias = Callable[[int], str | None]


def objects_of(block: Block) -> list[tuple[int, str]]:
    """Return kind and blob (in hexadecimal digits) of each row's object."""
    blobs = block.columns.get("objectId")
    texts = [""] * block.count if blobs is None else [blob or "" for blob in arrow.optional_texts(blobs)]
    return list(zip(block.integers("objectKind").tolist(), texts, strict=True))


def places_of(block: Block) -> dict[str, Column]:
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
class _State:
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
    state = _State(ctx, names, _data(ctx))
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
    state: _State,
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

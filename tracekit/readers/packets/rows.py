"""Rows between the packets and our columns: by track, in order of time, begins and ends apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import Column
from tracekit.model.trace import concat

__all__ = [
    "ARROWS",
    "BEGIN",
    "COUNTER",
    "END",
    "ENDED",
    "FINISH",
    "FLOW",
    "HELD",
    "LAST",
    "LOOSE",
    "MARK",
    "PIECE_ROWS",
    "PLAIN",
    "SCHEMA",
    "START",
    "STEP",
    "WHOLE",
    "in_pieces",
    "table",
]

BEGIN, END, WHOLE, MARK, COUNTER, FLOW = range(6)
"""`what` of a row: begin and end of a slice, a slice with its duration, a moment, a value, a point of an arrow."""

PLAIN, LAST, START, STEP, FINISH = 0, 1, 10, 11, 12
"""`value` of a point of an arrow: a flow id, one that ends; s, t and f of the Trace Event format."""

HELD = pa.list_(pa.int64())
_COLUMNS: list[pa.Field[Any]] = [
    pa.field("track", pa.int64()),
    pa.field("ts", pa.int64()),
    pa.field("seq", pa.int64()),
    pa.field("what", pa.int8()),
    pa.field("primary", pa.bool_()),
    pa.field("packet", pa.int64()),
    pa.field("name", pa.int32()),
    pa.field("category", pa.int32()),
    pa.field("number", pa.int64()),
    pa.field("value", pa.float64()),
    pa.field("clock", pa.int64()),
    pa.field("args", pa.string()),
    pa.field("shape", pa.int64()),
    pa.field("held", HELD),
]
SCHEMA = pa.schema(_COLUMNS)
"""number: duration of a whole slice, id of an arrow. primary: the row is what its packet is counted as. clock: the
clock that `ts` has, where it waits for a snapshot, else -1. name, category: numbers of texts, -1 for none.
shape, held: columns of our own traces (see perfetto/_held.py).
"""
_OF_ARROWS = ("track", "ts", "seq", "primary", "packet", "name", "category", "number", "value")
ARROWS = pa.schema([field for field in _COLUMNS if field.name in _OF_ARROWS])
"""Points of arrows."""
_MATCHED = ("track", "ts", "seq", "what", "name", "category", "packet")
_LOOSE: list[pa.Field[Any]] = [field for field in _COLUMNS if field.name in _MATCHED]
_LOOSE += [pa.field("place", pa.int64()), pa.field("args", pa.string())]
LOOSE = pa.schema(_LOOSE)
"""Begins and ends that are matched over the whole file. place: number of the row. args: of an end."""
_ENDED: list[pa.Field[Any]] = [
    pa.field("place", pa.int64()),
    pa.field("ts", pa.int64()),
    pa.field("args", pa.string()),
]
ENDED = pa.schema(_ENDED)
"""The ends of begins. place: of the begin. ts, args: of the end."""
PIECE_ROWS = 1 << 16
"""Rows that are worked on at once, when all packets were read."""
_DEFAULTS: Mapping[str, object] = {
    "what": MARK,
    "primary": True,
    "name": -1,
    "category": -1,
    "number": -1,
    "value": 0.0,
    "clock": -1,
}


def table(count: int, columns: Mapping[str, npt.NDArray[np.generic] | Column]) -> pa.Table:
    """Return rows; `seq` is set later. A column that is not named has its default."""
    arrays: list[Column] = []
    for field in SCHEMA:
        values = columns.get(field.name)
        if values is None and field.name in ("args", "held"):
            arrays.append(arrow.nulls(count, field.type))
        elif values is None:
            kind = arrow.dtype_of(field.type)
            arrays.append(arrow.array(np.full(count, _DEFAULTS.get(field.name, 0), kind), field.type))
        elif isinstance(values, np.ndarray):
            arrays.append(arrow.array(values.astype(arrow.dtype_of(field.type), copy=False), field.type))
        else:
            arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def in_pieces(tables: Iterator[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows in tables that are not small."""
    parts: list[pa.Table] = []
    for table in tables:
        parts.append(table)
        if sum(part.num_rows for part in parts) >= PIECE_ROWS:
            yield concat(parts, schema)
            parts = []
    if parts:
        yield concat(parts, schema)

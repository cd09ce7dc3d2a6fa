"""The columns of numbers that the rows of a batch write beside name and time, as pieces of JSON objects."""

from __future__ import annotations

from typing import TypeAlias

from tracekit.columns.arrays import Mask, Rows
from tracekit.writers.tracks.batch import NUMBERS, SHAPES, Batch
from tracekit.writers.tracks.digits import Piece

_DEVICE_SIDE = ("device", "context", "stream")

Present: TypeAlias = list[tuple[str, Mask | None]]
"""Columns of numbers, and which rows write them (None: all rows)."""


def own_numbers(batch: Batch) -> Present:
    """Return the columns of numbers that some rows write, without the numbers that the lane has already."""
    out: Present = []
    some_host = not batch.on_device.all()
    for name in NUMBERS:
        column = batch.columns[name]
        if column.all_null:
            continue
        mask = column.valid
        if name in _DEVICE_SIDE:
            if not some_host:
                continue
            mask = ~batch.on_device if mask is None else mask & ~batch.on_device
        elif name == "tid":
            mask = batch.on_device if mask is None else mask & batch.on_device
        if mask is None or mask.any():
            out.append((name, mask))
    return out


def number_pieces(batch: Batch, names: list[str], rows: Rows) -> list[Piece]:
    """Return the pieces of the columns of numbers, commas between them; launch shapes as [x,y,z]."""
    pieces: list[Piece] = []
    rest = list(names)
    while rest:
        name = rest[0]
        key, columns = name, [name]
        for shape, parts in SHAPES:
            if name == parts[0] and tuple(rest[:3]) == parts:
                key, columns = shape, list(parts)
        values = [batch.columns[c].values[rows] for c in columns]
        pieces.append(f'{"," if pieces else ""}"{key}":{"[" if len(values) > 1 else ""}'.encode())
        pieces.append(values[0])
        for value in values[1:]:
            pieces += [b",", value]
        if len(values) > 1:
            pieces.append(b"]")
        rest = rest[len(columns) :]
    return pieces

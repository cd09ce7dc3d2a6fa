"""Columns of our own traces, taken from the annotations of events as numbers: no text of them is made and parsed.

Only the last packet of a file says that it is one of ours, so the columns are held beside the rest of the arguments.
`shape` says which columns a row holds, five bits for each in the order of its annotations; `held` has their numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Column, Mask
from tracekit.readers.engine.protobuf import INT32_MAX, INT64_MAX
from tracekit.readers.engine.wire import Fields, Picked, scan
from tracekit.readers.packets.framing import PacketBlock
from tracekit.readers.packets.rows import HELD
from tracekit.readers.packets.sequences import Stated
from tracekit.readers.packets.texts import NONE, PacketTexts
from tracekit.readers.perfetto._args import INT, INTERNED, LIST, STRING, DecodedAnnotations, texts_of
from tracekit.readers.perfetto._own_args import SHAPES, SMALL, TEXTS, TYPES, WIDE

NAMES = (*SMALL, *WIDE, *TEXTS, *SHAPES)
_FIRST_TEXT = len(SMALL) + len(WIDE)
_FIRST_SHAPE = _FIRST_TEXT + len(TEXTS)
_MOST = np.array([INT32_MAX] * len(SMALL) + [INT64_MAX] * len(WIDE) + [-1] * (len(TEXTS) + len(SHAPES)), np.int64)
_BITS = 5
_MOST_HELD = 64 // _BITS


class Holder:
    """Takes the columns out of the annotations of a file."""

    def __init__(self, texts: PacketTexts) -> None:
        self._texts = texts
        self._codes = [texts.code(name) for name in NAMES]

    def take(
        self, block: PacketBlock, stated: Stated, found: DecodedAnnotations, packets: I64, where: Mask
    ) -> tuple[DecodedAnnotations, dict[str, I64 | Column]]:
        """Return the annotations that are left, and the columns `shape` and `held` of the events.

        found: of events. packets: packet of each event. where: the events that may hold columns. The first
        annotations of an event are held, up to one that is no column or has a name that the event had before.
        """
        if not len(found.row):
            return found, {}
        ranks = np.full(len(self._texts.all), -1, np.int8)
        ranks[self._codes] = np.arange(len(NAMES))
        rank = ranks[found.keys]
        values, fits = self._values(block, stated, found.fields, packets[found.row], rank)
        fits &= where[found.row]
        rows = found.row.astype(np.uint16) if len(packets) <= 1 << 16 else found.row
        order = np.argsort(rows, kind="stable")
        row, rank, fits = found.row[order], rank[order].astype(np.int64), fits[order]
        first = np.flatnonzero(np.append(True, row[1:] != row[:-1]))
        each = np.diff(np.append(first, len(row)))
        place = np.arange(len(row)) - np.repeat(first, each)
        misses = np.cumsum(~fits)
        fits &= (misses == np.repeat(misses[first] - ~fits[first], each)) & (place < _MOST_HELD)
        bits = np.where(fits, np.int64(1) << np.maximum(rank, 0), 0)
        again = np.bitwise_or.reduceat(bits, first) != np.add.reduceat(bits, first)
        if again.any():
            fits &= ~np.repeat(again, each)
        if not fits.any():
            return found, {}
        shape = np.zeros(len(packets), np.int64)
        code = np.where(fits, (rank + 1) << np.minimum(_BITS * place, 59), 0)
        shape[row[first]] = np.bitwise_or.reduceat(code, first)
        taken = order[fits]
        wide = rank[fits] >= _FIRST_SHAPE
        sizes = np.where(wide, 3, 1)
        ends = np.cumsum(sizes)
        flat = np.empty(int(ends[-1]), np.int64)
        flat[ends - sizes] = values[taken, 0]
        for axis in (1, 2):
            flat[(ends - sizes)[wide] + axis] = values[taken[wide], axis]
        offsets = np.zeros(len(packets) + 1, np.int64)
        np.cumsum(np.bincount(row[fits], sizes, len(packets)), out=offsets[1:])
        untyped: Any = arrow.array(offsets.astype(np.int32))
        held: Column = pa.ListArray.from_arrays(untyped, arrow.array(flat))
        left = np.ones(len(found.row), np.bool_)
        left[taken] = False
        return found.among(left), {"shape": shape, "held": held.cast(HELD)}

    def _values(
        self, block: PacketBlock, stated: Stated, inner: Fields, owner: I64, rank: np.ndarray
    ) -> tuple[I64, Mask]:
        """Return up to three numbers of each annotation, and whether it is a column."""
        count = len(owner)
        fields = inner.per_message(count)
        values, fits = np.zeros((count, 3), np.int64), np.zeros(count, np.bool_)
        whole = inner.of(INT, 0)
        values[whole.row, 0] = whole.value.view(np.int64)
        fits[whole.row] = True
        most = _MOST[rank]
        fits &= (rank >= 0) & (values[:, 0] <= most) & (values[:, 0] >= -most) & (fields == 2)
        if (text := (rank >= _FIRST_TEXT) & (rank < _FIRST_SHAPE)).any():
            fits[text] = False
            for kind in (STRING, INTERNED):
                picked = inner.of(kind, 2 if kind == STRING else 0)
                picked = picked.where(text[picked.row] & (fields[picked.row] == 2))
                codes = texts_of(kind, block, stated, self._texts, picked, owner)
                values[picked.row, 0] = codes
                fits[picked.row] = codes != NONE
        if (shape := rank >= _FIRST_SHAPE).any():
            fits[shape] = False
            lists = inner.of(LIST, 2)
            lists = lists.where(shape[lists.row] & (fields[lists.row] == 4))
            lists = lists.where(np.bincount(lists.row, minlength=count)[lists.row] == 3)
            order = np.argsort(lists.row, kind="stable")
            lists = Picked(lists.row[order], lists.value[order], lists.at[order])
            sizes = scan(block.view, lists.at, lists.ends)
            numbers = sizes.of(INT, 0)
            if len(numbers) == sum(sizes.counts().values()) == len(lists):
                each = np.empty(len(lists), np.int64)
                each[numbers.row] = numbers.value.view(np.int64)
                at = lists.row[::3]
                values[at] = each.reshape(-1, 3)
                fits[at] = np.all(np.abs(values[at]) <= INT32_MAX, axis=1)
        return values, fits


def columns_held(shape: I64, held: Column, texts: PacketTexts) -> dict[str, Column]:
    """Return the columns that rows hold. shape, held: as `Holder.take` returns them."""
    count = len(shape)
    flat, first = _numbers(held)
    out: dict[str, tuple[I64, Mask]] = {}
    for code in sets.unique(shape[shape != 0]).tolist():
        rows = np.flatnonzero(shape == code)
        at = first[rows]
        for name in _names(code):
            for column in SHAPES.get(name, (name,)):
                values, known = out.setdefault(column, (np.zeros(count, np.int64), np.zeros(count, np.bool_)))
                values[rows], known[rows] = flat[at], True
                at = at + 1
    columns: dict[str, Column] = {}
    for name, (values, known) in out.items():
        if name in TEXTS:
            used, place = np.unique(np.where(known, values, -1), return_inverse=True)
            shown = [None if code < 0 else texts.all[code] for code in used.tolist()]
            columns[name] = arrow.take(arrow.array(shown, pa.string()), place)
        else:
            columns[name] = arrow.array(values, mask=~known).cast(TYPES[name])
    return columns


def args_with_held(shape: I64, held: Column, args: Column, texts: PacketTexts) -> Column:
    """Return the args of rows with the columns that they hold, as they stood in the file."""
    if not shape.any():
        return args
    flat, first = _numbers(held)
    shown: list[str | None] = arrow.optional_texts(args)
    for row in np.flatnonzero(shape).tolist():
        at = int(first[row])
        members: list[str] = []
        for name in _names(int(shape[row])):
            if name in SHAPES:
                value: object = flat[at : at + 3].tolist()
            else:
                value = texts.all[int(flat[at])] if name in TEXTS else int(flat[at])
            at += 3 if name in SHAPES else 1
            members.append(f'"{name}":{orjson.dumps(value).decode()}')
        rest = shown[row]
        shown[row] = "{" + ",".join(members) + ("}" if rest is None else "," + rest[1:])
    return arrow.array(shown, pa.string())


def _numbers(held: Column) -> tuple[I64, I64]:
    untyped: Any = held
    return arrow.ints(untyped.values), arrow.ints(untyped.offsets)[:-1]


def _names(shape: int) -> list[str]:
    out = []
    while shape:
        out.append(NAMES[(shape & (1 << _BITS) - 1) - 1])
        shape >>= _BITS
    return out

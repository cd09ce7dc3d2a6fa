"""Messages of a report: the fields of all messages of a block as columns, and small messages one by one.

`readers/engine/wire.py` reads the fields of many messages together. Here they become columns with nulls, and damage
becomes an error: a report announces how many events it has, so an event that cannot be read refuses the file.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model import arrow, sets
from tracekit.model.arrow import I64, Column, Mask
from tracekit.readers.engine import wire
from tracekit.readers.engine.wire import BYTES, FIXED32, FIXED64, VARINT, Picked, WireError, fields_of
from tracekit.readers.packets.texts import slices

__all__ = ["Buffer", "Messages", "Spans", "first_of_each", "last_values", "message", "places_among"]

MOST_FIELDS = 1 << 14
"""Most fields of a message in a block, where each is a step: a call chain has a field for each of its frames."""
MOST_SMALL_FIELDS = 1 << 20
"""Most fields of a message that is read one by one: the names of all threads of a machine are one message."""


class Buffer:
    """Bytes in which many places are read at once. size: their number; `bytes` and `words` have room behind them."""

    def __init__(self, data: bytes) -> None:
        self.data, self.size = data, len(data)
        self.bytes = wire.padded(data)
        self.words = wire.words_of(self.bytes)

    def varints(self, places: I64) -> tuple[I64, I64]:
        """Return the numbers at these places, as int64, and the places behind them. Raises: WireError."""
        values, sizes = wire.varints(self.words, np.minimum(places, self.size))
        if not sizes.all():
            raise WireError("a number that does not end")
        return values.view(np.int64), places + sizes


@dataclass(frozen=True, slots=True)
class Spans:
    """Byte strings in a buffer: the message that each is of, its first byte, and the byte behind it."""

    rows: I64
    starts: I64
    ends: I64


FieldPiece = tuple[I64, I64, I64]
"""Values of one field that were read in one step: messages, values (or counts of bytes), places."""


class Messages:
    """The fields of `count` messages of a buffer.

    present: (field number, wire type) -> its values, step by step. Most events of a block have the same fields in the
    same order, so most fields are one piece.
    """

    def __init__(self, buffer: Buffer, starts: I64, ends: I64) -> None:
        """Read the fields of the messages between these places. Raises: WireError."""
        self.buffer, self.count = buffer, len(starts)
        self.present: dict[tuple[int, int], list[FieldPiece]] = {}
        self._steps = 0
        wire.walk(buffer.words, starts, ends, self)

    def add(self, row: I64, tag: wire.Words, value: wire.Words, at: I64) -> None:
        """Take one field of each of some messages: `wire.walk` calls this."""
        self._steps += 1
        if self._steps > MOST_FIELDS:
            raise WireError(f"a message with more than {MOST_FIELDS:,} fields")
        values, first = value.view(np.int64), tag[0]
        if (tag == first).all():
            self.present.setdefault((int(first) >> 3, int(first) & 7), []).append((row, values, at))
            return
        for each in sets.unique(tag).tolist():
            mine = np.flatnonzero(tag == each)
            self.present.setdefault((each >> 3, each & 7), []).append((row[mine], values[mine], at[mine]))

    def damaged(self, row: I64) -> None:
        """Refuse the messages. Raises: WireError."""
        raise WireError(f"message {int(row[0]) + 1} of {self.count:,} is damaged, or a field ends beyond it")

    def integers(self, field: int) -> tuple[I64, Mask | None] | None:
        """Return a varint of each message, and the mask of the messages that have it (None: all have it).

        The last one counts where a field is repeated. None: no message has the field.
        """
        pieces = self.present.get((field, VARINT))
        if pieces is None:
            return None
        if len(pieces) == 1 and len(pieces[0][0]) == self.count:
            return pieces[0][1], None
        out, have = np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)
        for rows, values, _ in pieces:
            out[rows], have[rows] = values, True
        return out, (None if have.all() else have)

    def column(self, field: int) -> Column | None:
        """Return a varint of each message as a column, null where a message lacks it; None where all lack it."""
        found = self.integers(field)
        if found is None:
            return None
        values, have = found
        return arrow.array(values) if have is None else arrow.array(values, mask=~have)

    def reals(self, field: int) -> Column | None:
        """Return a double or float of each message as a column of float64, null where a message lacks it."""
        for kind, bits, form in ((FIXED64, np.int64, np.float64), (FIXED32, np.int32, np.float32)):
            if pieces := self.present.get((field, kind)):
                out, missing = np.zeros(self.count, np.float64), np.ones(self.count, np.bool_)
                for rows, values, _ in pieces:
                    out[rows], missing[rows] = values.astype(bits).view(form), False
                return arrow.array(out, mask=missing)
        return None

    def spans(self, field: int) -> Spans | None:
        """Return the texts or inner messages of a field, in the order of their messages; None where none has it."""
        pieces = self.present.get((field, BYTES))
        if pieces is None:
            return None
        if len(pieces) == 1:
            rows, sizes, starts = pieces[0]
            return Spans(rows, starts, starts + sizes)
        rows, sizes, starts = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        order = np.argsort(rows, kind="stable")  # stable: repeated fields of a message keep their order
        return Spans(rows[order], starts[order], (starts + sizes)[order])

    def texts(self, field: int) -> Column | None:
        """Return the first text of each message, null where it lacks one; bytes that are not UTF-8 become U+FFFD."""
        spans = self.spans(field)
        if spans is None:
            return None
        spans = first_of_each(spans)
        sizes = (spans.ends - spans.starts).view(np.uint64)
        data = slices(self.buffer.bytes, Picked(spans.rows, sizes, spans.starts))
        try:
            texts: Column = data.cast(pa.string())
        except pa.ArrowInvalid:
            texts = arrow.array([each.decode("utf-8", "replace") for each in arrow.binaries(data)], pa.string())
        return texts.take(places_among(spans.rows, self.count))

    def number_of(self, field: int, kind: int) -> int:
        """Return how many values a field has. kind: the wire type."""
        return sum(len(rows) for rows, _, _ in self.present[field, kind])

    def inner(self, spans: Spans) -> Messages:
        """Return messages within these. Raises: WireError."""
        return Messages(self.buffer, spans.starts, spans.ends)


def first_of_each(spans: Spans) -> Spans:
    """Return the first span of each message."""
    keep = np.ones(len(spans.rows), np.bool_)
    keep[1:] = spans.rows[1:] != spans.rows[:-1]
    return spans if keep.all() else Spans(spans.rows[keep], spans.starts[keep], spans.ends[keep])


def places_among(rows: I64, count: int) -> Column:
    """Return for each of `count` messages its place among those in `rows`, null where it is not among them."""
    place, missing = np.zeros(count, np.int64), np.ones(count, np.bool_)
    place[rows], missing[rows] = np.arange(len(rows)), False
    return arrow.array(place, mask=missing)


def message(data: bytes) -> list[tuple[int, int, int | bytes]]:
    """Return the fields of one small message: number, wire type, value (varints unsigned, others as bytes).

    Raises: WireError, where `WireMessage` has the fields before the damage.
    """
    fields: list[tuple[int, int, int | bytes]] = []
    for field in fields_of(data):
        if field.end > len(data):
            raise WireError("a field that ends beyond its message")
        fields.append((field.number, field.wire, field.value if field.wire == VARINT else data[field.at : field.end]))
        if len(fields) > MOST_SMALL_FIELDS:
            raise WireError(f"a message with more than {MOST_SMALL_FIELDS:,} fields")
    return fields


def last_values(fields: Iterable[tuple[int, int, int | bytes]]) -> dict[int, int | bytes]:
    """Return the last value of each field."""
    return {field: value for field, _, value in fields}

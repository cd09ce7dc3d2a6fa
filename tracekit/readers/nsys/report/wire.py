"""Many protobuf messages at once: the fields of all messages of a block, as numpy arrays.

Each message has a cursor, which begins at its first field. A step reads one tag and one value of all messages together
and moves the cursors on, until the last message has ended. A text or an inner message is a place and a length; inner
messages are read by a second call. So any mixture of fields costs as many steps as the longest message has fields, and
no message is looked at alone. Source: the wire format of protobuf (varints, tags, lengths).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tracekit.columns import arrow
from tracekit.columns.arrays import I64, Mask
from tracekit.columns.arrow import Column

U64 = npt.NDArray[np.uint64]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""
PADDING = 64
"""Zero bytes behind the data of a buffer, so that a read near its end stays within it."""


class WireError(ValueError):
    """Bytes that are not the messages that they should be. Its text is the reason."""


def _number(value: int) -> np.uint64:
    return np.uint64(value)


_STOPS = _number(0x8080808080808080)
_LOW7 = _number(0x7F7F7F7F7F7F7F7F)
_ONE, _SHIFT61 = _number(1), _number(61)
# The last byte of a varint is the first one below 128. Its top bit is one of eight powers of two; times this constant,
# each of them has other top three bits.
_CODES = (0, 1, 2, 3, 7, 5, 6, 4)
_HASH = _number(sum(code << (54 - 8 * k) for k, code in enumerate(_CODES[:7])) | 1)
_SIZES = np.array([_CODES.index(code) + 1 for code in range(8)], np.int64)
_SQUEEZE = tuple(
    (_number(keep), _number(move), _number(by))
    for keep, move, by in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)


class Buffer:
    """Bytes in which varints are read at many places at once.

    size: number of bytes without the padding. Places up to `size` may be read; what is behind is zeros.
    """

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self.data = data + bytes(PADDING)
        self.bytes = np.frombuffer(self.data, np.uint8)
        # The eight bytes from any place on, as one number: overlapping views of the same memory.
        self._eight: U64 = np.ndarray((len(self.data) - 8,), np.dtype("<u8"), self.data, strides=(1,))

    def varints(self, places: I64) -> tuple[I64, I64]:
        """Return the numbers at these places, int64 (two's complement), and the places behind them.

        Raises: WireError for a number of more than ten bytes.
        """
        # Most columns of most blocks are small: one byte each, with the top bit clear.
        first = self.bytes[places]
        if first.max(initial=0) < 128:
            return first.astype(np.int64), places + 1
        eight = self._eight[places]
        stops = ~eight & _STOPS
        low = stops & (~stops + _ONE)
        size = _SIZES[(low * _HASH) >> _SHIFT61]
        value = eight & (low - _ONE) & _LOW7
        for keep, move, by in _SQUEEZE:
            value = (value & keep) | ((value & move) >> by)
        if not low.all():  # nine or ten bytes: a negative number, or an id beyond 56 bits
            long = np.flatnonzero(low == 0)
            ninth, tenth = (self.bytes[places[long] + k].astype(np.uint64) for k in (8, 9))
            value[long] |= (ninth & _number(127)) << _number(56)
            two = ninth > 127
            if (two & (tenth > 1)).any():
                raise WireError("a number of more than 64 bits")
            value[long] |= np.where(two, tenth & _ONE, _number(0)) << _number(63)
            size[long] = np.where(two, 10, 9)
        return value.view(np.int64), places + size


@dataclass(frozen=True, slots=True)
class Spans:
    """Byte strings in a buffer: the message that each is of, its first byte, and the byte behind it."""

    rows: I64
    starts: I64
    ends: I64


Piece = tuple[I64, I64, I64]
"""The values of one field that were read in one step: messages, values (sizes of bytes), places of the values."""


class Fields:
    """The fields of `count` messages of a buffer.

    present: (field number, wire type) -> its values, step by step.
    """

    def __init__(self, buffer: Buffer, count: int) -> None:
        self.buffer, self.count = buffer, count
        self.present: dict[tuple[int, int], list[Piece]] = {}

    def add(self, tag: int, rows: I64, at: I64) -> I64:
        """Read a value of one tag for each of these messages. Return the places behind. Raises: WireError."""
        wire = tag & 7
        if tag < 8 or tag >> 16:
            raise WireError("a field number that no message has")
        values, behind = (at, at) if wire in (FIXED64, FIXED32) else self.buffer.varints(at)
        places = behind
        if wire == BYTES:
            if values.min() < 0 or values.max() > self.buffer.size:
                raise WireError("a length beyond the end of the message")
            behind = behind + values
        elif wire in (FIXED64, FIXED32):
            behind = at + (8 if wire == FIXED64 else 4)
        elif wire != VARINT:
            raise WireError("a wire type that no message has")
        self.present.setdefault((tag >> 3, wire), []).append((rows, values, places))
        return behind

    def integers(self, field: int) -> tuple[I64, Mask | None] | None:
        """Return a varint of each message, and the mask of the messages that have it (None: all have it).

        The last one counts where a field is repeated. None: no message has the field.
        """
        pieces = self.present.get((field, VARINT))
        if pieces is None:
            return None
        if len(pieces) == 1 and len(pieces[0][0]) == self.count:
            return pieces[0][1], None
        out = np.zeros(self.count, np.int64)
        have = np.zeros(self.count, np.bool_)
        for rows, values, _ in pieces:
            out[rows] = values
            have[rows] = True
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
        for wire, kind in ((FIXED64, "<f8"), (FIXED32, "<f4")):
            if pieces := self.present.get((field, wire)):
                out = np.zeros(self.count, np.float64)
                missing = np.ones(self.count, np.bool_)
                for rows, _, places in pieces:
                    cells = self.buffer.bytes[places[:, None] + np.arange(np.dtype(kind).itemsize)]
                    out[rows] = cells.view(kind)[:, 0]
                    missing[rows] = False
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
        """Return the text of each message, null where it lacks one; bytes that are not UTF-8 become U+FFFD."""
        spans = self.spans(field)
        return None if spans is None else texts_of(self.buffer, spans, self.count)

    def number_of(self, field: int, wire: int) -> int:
        """Return how many values a field has."""
        return sum(len(rows) for rows, _, _ in self.present[field, wire])


def fields_of(buffer: Buffer, starts: I64, ends: I64) -> Fields:
    """Return the fields of the messages between these places. Raises: WireError."""
    fields = Fields(buffer, len(starts))
    row = np.flatnonzero(starts < ends)
    at, end = starts[row], ends[row]
    while len(row):
        tags, at = buffer.varints(at)
        tag = int(tags[0])
        if (tags == tag).all():
            at = fields.add(tag, row, at)
        else:
            for tag in np.unique(tags).tolist():
                mine = np.flatnonzero(tags == tag)
                at[mine] = fields.add(tag, row[mine], at[mine])
        more = at < end
        if not more.all():
            if (at > end).any():
                raise WireError("a field that ends beyond its message")
            row, at, end = row[more], at[more], end[more]
    return fields


def texts_of(buffer: Buffer, spans: Spans, count: int) -> Column:
    """Return the bytes of the spans as `count` texts, null for a message without one. A text counts once a message."""
    spans = first_of_each(spans)
    lengths = np.zeros(count + 1, np.int64)
    lengths[spans.rows + 1] = spans.ends - spans.starts
    offsets = np.cumsum(lengths)
    if offsets[-1] >= 1 << 31:
        raise WireError("texts of more than 2 GiB in one block")
    have = np.zeros(count, np.bool_)
    have[spans.rows] = True
    bits = pa.py_buffer(np.packbits(have, bitorder="little").tobytes())
    # Slices and not one gather of bytes: its places take eight times the memory of a long text.
    data = b"".join(
        [buffer.data[start:end] for start, end in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)]
    )
    column: Column = pa.StringArray.from_buffers(
        count, pa.py_buffer(offsets.astype(np.int32).tobytes()), pa.py_buffer(data), bits
    )
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return arrow.array(_cells(buffer, spans, count), pa.string())
    return column


def _cells(buffer: Buffer, spans: Spans, count: int) -> list[str | None]:
    """Return the texts one by one: some are not UTF-8."""
    cells: list[str | None] = [None] * count
    for row, start, end in zip(spans.rows.tolist(), spans.starts.tolist(), spans.ends.tolist(), strict=True):
        cells[row] = buffer.data[start:end].decode("utf-8", "replace")
    return cells


def message(data: bytes) -> list[tuple[int, int, int | bytes]]:
    """Return the fields of one small message: number, wire type, value (varints unsigned, others as bytes).

    Raises: WireError.
    """
    fields: list[tuple[int, int, int | bytes]] = []
    at, end = 0, len(data)
    while at < end:
        tag, at = varint(data, at, end)
        wire = tag & 7
        value: int | bytes
        if tag < 8:
            raise WireError("a field number that no message has")
        if wire == VARINT:
            value, at = varint(data, at, end)
        elif wire in (BYTES, FIXED64, FIXED32):
            length, at = varint(data, at, end) if wire == BYTES else (8 if wire == FIXED64 else 4, at)
            value = data[at : at + length]
            at += length
        else:
            raise WireError("a wire type that no message has")
        if at > end:
            raise WireError("a field that ends beyond its message")
        fields.append((tag >> 3, wire, value))
    return fields


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number at a place of bytes, unsigned, and the place behind it. Raises: WireError."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & ((1 << 64) - 1), at
        shift += 7
    raise WireError("a number that does not end")


def signed(value: int) -> int:
    """Return a varint as the signed number that it is.

    >>> signed((1 << 64) - 5)
    -5
    """
    return value - (1 << 64) if value >> 63 else value


def last_values(fields: Iterable[tuple[int, int, int | bytes]]) -> dict[int, int | bytes]:
    """Return the last value of each field."""
    return {field: value for field, _, value in fields}


def first_of_each(spans: Spans) -> Spans:
    """Return the first span of each message."""
    keep = np.ones(len(spans.rows), np.bool_)
    keep[1:] = spans.rows[1:] != spans.rows[:-1]
    return spans if keep.all() else Spans(spans.rows[keep], spans.starts[keep], spans.ends[keep])

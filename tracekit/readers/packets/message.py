"""Messages that are read field by field: for the few packets that describe others."""

from __future__ import annotations

import struct

from tracekit.readers.protobuf import varint_at


class Message:
    """A message that is read field by field: for the few packets that describe others."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[int | bytes]] = {}
        for number, value in _walk(data):
            self._fields.setdefault(number, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def all(self, number: int) -> list[int]:
        """Return the numbers of a repeated field, as int64."""
        return [signed(value) for value in self._fields.get(number, ()) if isinstance(value, int)]

    def each(self, number: int) -> list[bytes]:
        """Return the texts or messages of a repeated field."""
        return [value for value in self._fields.get(number, ()) if isinstance(value, bytes)]

    def optional(self, number: int) -> int | None:
        """Return a number as int64, None where the field is not there."""
        return values[-1] if (values := self.all(number)) else None

    def number(self, number: int) -> int:
        """Return a number as int64, 0 where the field is not there."""
        return self.optional(number) or 0

    def double(self, number: int) -> float:
        """Return a number that is stored as a double."""
        value: float = struct.unpack("<d", struct.pack("<q", self.number(number)))[0]
        return value

    def bytes(self, number: int) -> bytes:
        """Return a text or message, b"" where the field is not there."""
        return values[-1] if (values := self.each(number)) else b""

    def text(self, number: int) -> str:
        """Return a text."""
        return self.bytes(number).decode("utf-8", "replace")


def _walk(data: bytes) -> list[tuple[int, int | bytes]]:
    found: list[tuple[int, int | bytes]] = []
    place = 0
    while place < len(data):
        tag, place = varint_at(data, place)
        wire = tag & 7
        if tag < 8 or wire not in (0, 1, 2, 5):
            break
        if wire in (1, 5):
            size = 8 if wire == 1 else 4
            if place + size > len(data):
                break
            found.append((tag >> 3, int.from_bytes(data[place : place + size], "little")))
            place += size
            continue
        value, place = varint_at(data, place)
        if value < 0:
            break
        value &= (1 << 64) - 1
        if wire == 2:
            if place + value > len(data):
                break
            found.append((tag >> 3, data[place : place + value]))
            place += value
        else:
            found.append((tag >> 3, value))
    return found


def signed(value: int) -> int:
    """Return 64 bits as int64."""
    return value - (1 << 64) if value >= 1 << 63 else value

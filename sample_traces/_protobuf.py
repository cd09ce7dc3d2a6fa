"""Messages of protobuf for the samples."""

from __future__ import annotations

import struct
from typing import Any


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


class Fixed(int):
    """A number of eight bytes (fixed64)."""


def message(*fields: tuple[int, Any]) -> bytes:
    """Return a message of protobuf: fields as number and value, bytes for a message within it."""
    parts = []
    for number, value in fields:
        if isinstance(value, float):
            parts.append(varint(number << 3 | 1) + struct.pack("<d", value))
        elif isinstance(value, Fixed):
            parts.append(varint(number << 3 | 1) + struct.pack("<Q", value))
        elif isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
        else:
            data = value.encode() if isinstance(value, str) else value
            parts.append(varint(number << 3 | 2) + varint(len(data)) + data)
    return b"".join(parts)

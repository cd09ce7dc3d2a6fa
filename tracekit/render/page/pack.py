"""Columns of whole numbers as text: byte planes, deflated, base64. What the page's scripts decode.

A plane holds one byte of each number, the lowest first; before the planes stands their number. So the high bytes of
small numbers cost nothing, and those of neighbours that resemble each other almost nothing.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tracekit.columns.arrays import F64, I64, Numbers

CHUNK = 1 << 16
"""Events of one element: a script decodes one after the other, and lets the page breathe between them."""
_LEVEL = 6
_SAMPLE, _EVERY = 1 << 13, 1 << 16
"""Bytes that are tried of every so many, before that many more are compressed."""


@dataclass(frozen=True, slots=True)
class DataPart:
    """One element with data. kind: its class. text: base64, or JSON where `is_json`. facts: (attribute, number)."""

    kind: str
    text: str
    facts: tuple[tuple[str, int], ...]
    is_json: bool = False


def chunks(count: int, size: int = CHUNK) -> Iterator[slice]:
    """Return the places of each element, in order."""
    for begin in range(0, count, size):
        yield slice(begin, min(begin + size, count))


def planes(values: Numbers) -> bytes:
    """Return whole numbers >= 0 as byte planes, as many as the largest needs.

    >>> planes(np.array([1, 258]))
    b'\\x02\\x01\\x02\\x00\\x01'
    """
    count = max(1, (int(values.max()).bit_length() + 7) // 8) if values.size else 1
    raw = np.ascontiguousarray(values.astype("<u8")).view(np.uint8).reshape(-1, 8)[:, :count]
    return bytes([count]) + raw.T.tobytes()


def zigzag(values: I64) -> I64:
    """Return whole numbers as numbers >= 0: 0, -1, 1, -2 become 0, 1, 2, 3."""
    folded: I64 = (values << 1) ^ (values >> 63)
    return folded


def steps(values: I64, before: int = 0) -> I64:
    """Return the difference of each number to the one before it. before: that of the first one."""
    return np.diff(values, prepend=np.int64(before))


def floats(values: F64) -> bytes:
    """Return floats as they are, 8 bytes each."""
    return values.astype("<f8").tobytes()


def packed(*columns: bytes) -> str:
    """Return columns one after the other as text."""
    return base64.b64encode(deflated(b"".join(columns))).decode("ascii")


def deflated(raw: bytes) -> bytes:
    """Return bytes in zlib's form.

    Times that never repeat have no strings worth looking for: then runs and letters alone are smaller, in a fourth of
    the time. A sample decides.
    """
    if len(raw) > _EVERY:
        sample = b"".join(raw[at : at + _SAMPLE] for at in range(0, len(raw), _EVERY))
        if len(_runs(sample)) < 0.99 * len(zlib.compress(sample, _LEVEL)):
            return _runs(raw)
    return zlib.compress(raw, _LEVEL)


def _runs(raw: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_RLE)
    return packer.compress(raw) + packer.flush()


def packed_texts(texts: Sequence[str]) -> str:
    """Return texts as one packed JSON list."""
    return packed(json.dumps(list(texts), separators=(",", ":")).encode("ascii"))

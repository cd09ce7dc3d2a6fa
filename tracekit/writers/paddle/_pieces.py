"""Long messages in pieces: incomplete messages wait in a temporary file, not in memory.

Each protobuf message begins with its length, so an outer message can be written only when its last inner one is known.
"""

from __future__ import annotations

from typing import BinaryIO

from tracekit.columns.varints import delimited, varint

HELD_BYTES = 1 << 16
_COPY_BYTES = 1 << 20


class Pieces:
    """Bytes in order. Bytes beyond 64 KiB are in `spool`, a file that several objects share."""

    __slots__ = ("_held", "_held_bytes", "_places", "_spool", "size")

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._places: list[tuple[int, int]] = []
        self._held: list[bytes] = []
        self._held_bytes = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        """Append bytes."""
        self._held.append(data)
        self._held_bytes += len(data)
        self.size += len(data)
        if self._held_bytes > HELD_BYTES:
            self._store()

    def message(self, number: int, inner: Pieces | bytes) -> None:
        """Append a field that holds a message."""
        if isinstance(inner, bytes):
            self.add(delimited(number, inner))
            return
        self.add(varint(number << 3 | 2) + varint(inner.size))
        self.append(inner)

    def append(self, inner: Pieces) -> None:
        """Append the bytes of another object with the same spool; `inner` must not be used any more."""
        if inner._places:
            self._store()
            self._places += inner._places
            self.size += inner.size - inner._held_bytes
        for data in inner._held:
            self.add(data)

    def _store(self) -> None:
        if not self._held:
            return
        data = b"".join(self._held)
        place = self._spool.seek(0, 2)
        self._spool.write(data)
        if self._places and sum(self._places[-1]) == place:
            self._places[-1] = (self._places[-1][0], self._places[-1][1] + len(data))
        else:
            self._places.append((place, len(data)))
        self._held, self._held_bytes = [], 0

    def copy_to(self, out: BinaryIO) -> None:
        """Write all bytes."""
        for place, length in self._places:
            self._spool.seek(place)
            left = length
            while left:
                data = self._spool.read(min(left, _COPY_BYTES))
                left -= len(data)
                out.write(data)
        out.write(b"".join(self._held))

"""A zstd file as a stream that notices when its last frame is cut; the library's own reader ends there silently."""

from __future__ import annotations

import io
from typing import BinaryIO

import zstandard

PIECE_BYTES = 8 << 10
"""Compressed bytes taken at once: what they become in memory is bounded by zstd's ratio, so few are taken."""


class ZstdStream(io.RawIOBase):
    """Decompressed bytes of one or more frames. Raises EOFError where a frame is cut, ZstdError for damage."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._ready = bytearray()
        self._damage: zstandard.ZstdError | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all that is left for a negative one; nothing at the end."""
        if self._damage is not None and not self._ready:
            raise self._damage
        while (size < 0 or len(self._ready) < size) and self._damage is None:
            piece = self._file.read(PIECE_BYTES)
            if not piece:
                if self._frame is not None and not self._ready:
                    self._frame = None
                    raise EOFError("the last frame is cut")
                break
            while piece:
                if self._frame is None:
                    self._frame = zstandard.ZstdDecompressor().decompressobj()
                try:
                    self._ready += self._frame.decompress(piece)
                except zstandard.ZstdError as err:
                    if not self._ready:
                        raise
                    self._damage = err  # raised by the next call: what came before the damage is whole
                    break
                piece = b""
                if self._frame.eof:
                    piece, self._frame = self._frame.unused_data, None
        count = len(self._ready) if size < 0 else size
        out = bytes(self._ready[:count])
        del self._ready[:count]
        return out

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()

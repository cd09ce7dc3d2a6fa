"""A zstd file as a stream that notices when its last frame is cut; the library's own reader ends there silently."""

from __future__ import annotations

import io
from typing import BinaryIO

import zstandard

PIECE_BYTES = 8 << 10
"""Compressed bytes taken at once. A byte may become 32 KiB, so that fewer are taken while much comes of them."""
LEAST_PIECE = 64
MUCH = 4 << 20


class ZstdStream(io.RawIOBase):
    """Decompressed bytes of one or more frames. Raises EOFError where a frame is cut, ZstdError for damage."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._ready = memoryview(b"")
        self._piece = PIECE_BYTES
        self._damage: zstandard.ZstdError | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all that is left for a negative one; nothing at the end."""
        if self._damage is not None and not self._ready:
            raise self._damage
        parts: list[memoryview] = []
        have = 0
        while size < 0 or have < size:
            if not self._ready and not self._fill(first=not have):
                break
            part = self._ready if size < 0 else self._ready[: size - have]
            self._ready = self._ready[len(part) :]
            parts.append(part)
            have += len(part)
        return b"".join(parts)

    def _fill(self, *, first: bool) -> bool:
        """Unpack the next piece; False at the end. first: there is nothing that an error would lose."""
        found: list[bytes] = []
        while not found and self._damage is None:
            piece = self._file.read(self._piece)
            if not piece:
                if self._frame is not None and first:
                    self._frame = None
                    raise EOFError("the last frame is cut")
                return False
            while piece:
                if self._frame is None:
                    self._frame = zstandard.ZstdDecompressor().decompressobj()
                try:
                    out = self._frame.decompress(piece)
                except zstandard.ZstdError as err:
                    if first and not found:
                        raise
                    self._damage = err  # raised by the next call: what came before the damage is whole
                    break
                found += [out] if out else []
                piece = b""
                if self._frame.eof:
                    piece, self._frame = self._frame.unused_data, None
        self._ready = memoryview(b"".join(found))
        self._piece = max(LEAST_PIECE, self._piece >> 2) if len(self._ready) > MUCH else PIECE_BYTES
        return bool(found)

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()

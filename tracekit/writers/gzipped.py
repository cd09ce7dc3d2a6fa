"""Gzip in blocks that are compressed beside each other, in threads.

The file is one gzip member, which every reader opens: blocks of a fixed size end with a full flush, so that each can be
compressed alone. The bytes depend on the text alone, neither on how it was cut into writes nor on threads.
"""

from __future__ import annotations

import contextlib
import struct
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Protocol

from isal import isal_zlib

from tracekit.safety.limits import cpus

__all__ = ["BLOCK", "Sink", "compressed", "gzipped"]

BLOCK = 1 << 20
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""No name and no time: those of the temporary file would make the bytes differ."""
_AHEAD = 4
"""Most blocks that are in work."""
_LAST_BLOCK = b"\x03\x00"


class Sink(Protocol):
    """A file that bytes are written to."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Write bytes and return how many were written."""


class GzipBlocks:
    """A file for text bytes, which reach `file` as gzip. The last bytes follow with `finish`."""

    def __init__(self, file: BinaryIO, level: int, threads: ThreadPoolExecutor | None) -> None:
        self._file = file
        self._level = level
        self._threads = threads
        self._waiting: list[memoryview] = []
        self._size = 0
        self._packed: deque[Future[bytes]] = deque()
        self._crc = self._count = 0
        file.write(_HEADER)

    def write(self, data: bytes | memoryview, /) -> int:
        """Take bytes, which must not change any more, and return how many they are."""
        view = memoryview(data)
        at = 0
        while self._size + view.nbytes - at >= BLOCK:
            end = at + BLOCK - self._size
            self._add(view[at:end])
            self._end_block()
            at = end
        if at < view.nbytes:
            self._add(view[at:])
        return view.nbytes

    def _add(self, view: memoryview) -> None:
        self._waiting.append(view)
        self._size += view.nbytes

    def _end_block(self) -> None:
        """Compress what waits as one block, and write the blocks before it that are done."""
        block = b"".join(self._waiting)
        self._waiting, self._size = [], 0
        self._crc = isal_zlib.crc32(block, self._crc)
        self._count += len(block)
        if self._threads is None:
            self._file.write(_deflated(block, self._level))
            return
        self._packed.append(self._threads.submit(_deflated, block, self._level))
        while len(self._packed) > _AHEAD or (self._packed and self._packed[0].done()):
            self._file.write(self._packed.popleft().result())

    def finish(self) -> None:
        """Write what is left, and the end of the file."""
        if self._waiting:
            self._end_block()
        while self._packed:
            self._file.write(self._packed.popleft().result())
        self._file.write(_LAST_BLOCK + struct.pack("<II", self._crc, self._count & 0xFFFFFFFF))


def _deflated(block: bytes, level: int) -> bytes:
    """Return a block as a part of a deflate stream: it ends at a whole byte and does not need the blocks before it."""
    packer = isal_zlib.compressobj(level, isal_zlib.DEFLATED, -15)
    return packer.compress(block) + packer.flush(isal_zlib.Z_FULL_FLUSH)


@contextlib.contextmanager
def gzipped(file: BinaryIO, level: int = 1) -> Iterator[GzipBlocks]:
    """Yield a file for text bytes, which reach `file` as gzip; no thread is left behind, whatever happens."""
    threads = ThreadPoolExecutor(min(2, cpus()), "tracekit-gzip") if cpus() > 1 else None
    try:
        packed = GzipBlocks(file, level, threads)
        yield packed
        packed.finish()
    finally:
        if threads is not None:
            threads.shutdown(cancel_futures=True)


# Text files that are compressed if their suffix asks for it. The same text gives the same bytes.


GZIP_LEVEL = 2
"""isal: 12 times as fast as zlib's level 6, the file 1.3 times as large (isal 1.9.1, 259 MB of Chrome JSON)."""


@contextlib.contextmanager
def compressed(file: BinaryIO, target: Path) -> Iterator[Sink]:
    """Yield a file for text bytes, which reach `file` in the form of the target's suffix: .gz, .zst, else plain."""
    suffix = target.suffix.lower()
    if suffix == ".gz":
        with gzipped(file, GZIP_LEVEL) as out:
            yield out
    elif suffix == ".zst":
        import zstandard

        with zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False) as zst:
            yield zst
    else:
        yield file

"""Text files that are compressed if their suffix asks for it. The same text gives the same bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

GZIP_LEVEL = 2
"""isal: 12 times as fast as zlib's level 6, the file 1.3 times as large (PERFORMANCE.md section 9)."""


class Sink(Protocol):
    """A file that bytes are written to."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Write bytes and return how many were written."""


@contextlib.contextmanager
def compressed(file: BinaryIO, target: Path) -> Iterator[Sink]:
    """Yield a file for text bytes, which reach `file` in the form of the target's suffix: .gz, .zst, else plain."""
    suffix = target.suffix.lower()
    if suffix == ".gz":
        from isal import igzip

        # No name and no time: gzip's header would hold those of the temporary file.
        with igzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=file, mtime=0) as out:
            yield out
    elif suffix == ".zst":
        import zstandard

        with zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False) as zst:
            yield zst
    else:
        yield file

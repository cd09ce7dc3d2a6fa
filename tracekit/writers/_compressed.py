"""A text file that its suffix asks to be compressed: the same text gives the same bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

GZIP_LEVEL = 2
"""isal: 12 times as fast as zlib's level 6, the file 1.3 times as large (PERFORMANCE.md section 9)."""


@contextlib.contextmanager
def compressed(file: BinaryIO, target: Path) -> Iterator[BinaryIO]:
    """Give a file to write text bytes to; they reach `file` as the target's suffix (.gz, .zst, else plain) says."""
    suffix = target.suffix.lower()
    if suffix == ".gz":
        from isal import igzip

        # No name and no time: gzip's header would hold the temporary file's.
        with igzip.GzipFile(filename="", mode="wb", compresslevel=GZIP_LEVEL, fileobj=file, mtime=0) as out:
            yield cast(BinaryIO, out)
    elif suffix == ".zst":
        import zstandard

        with zstandard.ZstdCompressor(level=3).stream_writer(file, closefd=False) as zst:
            yield cast(BinaryIO, zst)
    else:
        yield file

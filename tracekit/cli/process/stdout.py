"""A stdout whose errors say that it is stdout: a full disk behind it is no fault of an input or an output file."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STDOUT = "stdout"
"""The `filename` of its errors."""


class _RawStdout(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        """Return the number of bytes written. Raises: OSError with `STDOUT` as its file."""
        try:
            return super().write(data)
        except OSError as err:
            raise OSError(err.errno, err.strerror, STDOUT) from err


def name_stdout() -> None:
    """Let errors of stdout name it, where it is a file or a pipe. For a process of our own."""
    old = sys.stdout
    try:
        number = old.fileno()
        if old.isatty():
            return
        old.flush()
        raw = io.BufferedWriter(_RawStdout(number, "w", closefd=False))
    except (OSError, ValueError, AttributeError):
        return  # closed, or no file at all
    sys.stdout = io.TextIOWrapper(raw, encoding=old.encoding, errors=old.errors, line_buffering=False)

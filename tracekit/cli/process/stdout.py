"""A stdout whose errors name it, and that takes every character: it escapes what its encoding lacks.

A full disk behind it is no fault of an input or an output file. Windows redirects in the encoding of the machine, and a
name may have any character.
"""

from __future__ import annotations

import codecs
import io
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STDOUT = "stdout"
"""The `filename` of its errors."""


ESCAPE = "tracekit-escape"
"""The name of the error handler that escapes."""


def _escaped(err: UnicodeError) -> tuple[str, int]:
    r"""Return what an encoding lacks as \uXXXX, which JSON knows too; a character of 32 bits is two of them."""
    if not isinstance(err, UnicodeEncodeError):
        raise err
    wide = err.object[err.start : err.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{wide[at : at + 2].hex()}" for at in range(0, len(wide), 2)), err.end


codecs.register_error(ESCAPE, _escaped)


class _RawStdout(io.FileIO):
    def write(self, data: ReadableBuffer, /) -> int:
        """Return the number of bytes written. Raises: OSError with `STDOUT` as its file."""
        try:
            return super().write(data)
        except OSError as err:
            raise OSError(err.errno, err.strerror, STDOUT) from err


def is_utf8() -> bool:
    """Return whether stdout can print every character."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("_", "-").startswith(("utf", "u8"))


def escape_what_streams_lack() -> None:
    """Let stdout and stderr escape the characters that their encodings lack. For a process of our own."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors=ESCAPE)


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

"""Logs that were copied with line numbers, prefixes of a logger or a diff, or quotation marks: the lines of the driver.

        1  # CUDA_PROFILE_LOG_VERSION 2.0            > # CUDA_PROFILE_LOG_VERSION 2.0
        2  # CUDA_DEVICE 0 Tesla C2050               "method,gputime,cputime,occupancy"

The first line of a log shows its prefix; its digits may differ from line to line. Lines in quotation marks lose them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tracekit.readers.head import Head
from tracekit.readers.source import LineBlock, Source
from tracekit.trace import Ledger

_BLOCK_BYTES = 2 << 20
_TITLE = re.compile(rb"^(?P<prefix>[^\n]{0,100}?)# ?(?:CUDA|OPENCL)_PROFILE_LOG_VERSION[ \t]+[\d.]+[ \t\r\"]*$", re.M)
_ROW = re.compile(rb"method=\[ |\b(?:method|gputime)\b[\w, ]{0,400},[ \t]*(?:gputime|cputime|method)\b")


def prefix_of(data: bytes) -> re.Pattern[bytes] | None:
    """Return a pattern of what is before each line of a log, None where there is nothing, or only blanks."""
    title = _TITLE.search(data)
    if title is None or not (prefix := title["prefix"]).strip() or not _ROW.search(data, title.end()):
        return None
    core = prefix.strip()
    gap = len(prefix) - len(prefix.rstrip())
    if core.endswith(b'"'):
        core, gap = core[:-1].rstrip(), 8
    parts = (rb"\d{1,19}" if place % 2 else re.escape(part) for place, part in enumerate(re.split(rb"(\d+)", core)))
    return re.compile(rb"[ \t]*" + b"".join(parts) + rb"[ \t]{0,%d}" % gap)


def is_quoted(data: bytes) -> bool:
    """Return whether a line of columns or a row is in quotation marks."""
    return re.search(rb'^"(?:# ?(?:CUDA|OPENCL)_|[\w, ]*\bgputime\b|method=).*"[ \t\r]*$', data, re.M) is not None


class Copied(Source):
    """A source whose lines have a prefix or quotation marks, without them."""

    def __init__(self, inner: Source, prefix: re.Pattern[bytes] | None) -> None:
        super().__init__(inner.name, inner.path)
        self._inner, self._prefix = inner, prefix

    def head(self) -> Head:
        """Return the head, without prefixes."""
        head = self._inner.head()
        return replace(head, data=b"\n".join(map(self._line, head.data.split(b"\n"))))

    def share_read(self) -> float:
        """Return how much of the input is read, 0..1."""
        return self._inner.share_read()

    def line_blocks(self, ledger: Ledger, size: int = _BLOCK_BYTES) -> Iterator[LineBlock]:
        """Yield the text in blocks of whole lines."""
        for block in self._inner.line_blocks(ledger, size):
            yield replace(block, data=b"\n".join(map(self._line, block.data.split(b"\n"))))

    def _line(self, line: bytes) -> bytes:
        if self._prefix is not None and (found := self._prefix.match(line)):
            line = line[found.end() :]
        text = line.rstrip(b" \t\r")
        if len(text) > 1 and text[:1] == text[-1:] == b'"' and b'"' not in text[1:-1].replace(b'""', b""):
            return text[1:-1].replace(b'""', b'"')
        return line


def as_written(source: Source) -> Source:
    """Return the source without prefixes and quotation marks of its lines; the same one where it has none."""
    data = source.head().data
    prefix = prefix_of(data)
    return Copied(source, prefix) if prefix is not None or is_quoted(data) else source

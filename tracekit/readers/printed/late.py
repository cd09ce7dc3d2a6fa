"""Text beyond the head of a file, around the words that show what the head does not: a producer, a table in a log.

Most files show their producer in the first 64 KiB. Some begin with many events that any producer may write, and name
their devices at the end; a program may print much before its profile, and behind it. One pass over the file finds the
words then, at some 500 MB/s; memory is that of two blocks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import pyarrow as pa

from tracekit.model.arrow import pc
from tracekit.model.trace import Ledger
from tracekit.readers.head import Head
from tracekit.readers.source import HEAD_BYTES, Source

__all__ = [
    "AROUND_BYTES",
    "BLOCK_BYTES",
    "MOST_MATCHES",
    "MOST_WINDOWS",
    "SEARCH_SHARE",
    "heads",
    "heads_behind",
    "text_around",
]

BEFORE_BYTES = 16 << 10
BEHIND_BYTES = 48 << 10
MOST_WINDOWS = 1 << 12
"""Places of a log at which sniffers are asked: in a log that has the words of a table again and again without one."""
SEARCH_SHARE = 0.4
"""Part of the time that the user allows (--max-time) at which a search ends: reading needs the rest, or says so."""
BLOCK_BYTES = 2 << 20
AROUND_BYTES = 1 << 10
"""Bytes before and behind the begin of a match: the event that it is in."""
MOST_MATCHES = 4
"""Windows in which a pattern is found; it is not searched for any longer then."""


def text_around(source: Source, patterns: Sequence[bytes]) -> bytes:
    """Return the text around the first matches of each pattern behind the head, b"" for a file that is all head.

    patterns: regular expressions that Python and RE2 read alike. The answer is kept in the source: a search for some
    of the same patterns costs nothing.
    """
    if source.head().complete or not patterns:
        return b""
    wanted = frozenset(patterns)
    known = next((text for searched, text in source.late.items() if wanted <= searched), None)
    if known is None:
        known = source.late[wanted] = b"\n".join(_first_matches(source, patterns))
    return known


def _first_matches(source: Source, patterns: Sequence[bytes]) -> Iterator[bytes]:
    left = dict.fromkeys(patterns, MOST_MATCHES)
    for window in windows(source, left, AROUND_BYTES, AROUND_BYTES):
        yield window
        for pattern in list(left):
            left[pattern] -= bool(re.search(pattern, window))
            if not left[pattern]:
                del left[pattern]


def windows(source: Source, patterns: Collection[bytes], before: int, behind: int) -> Iterator[bytes]:
    """Yield the text around each match behind the head: up to `before` bytes before its begin, `behind` from there on.

    Further matches in the part behind have no window of their own. patterns: they may become fewer meanwhile; the
    search ends when there are none.
    """
    data, begin, more = b"", HEAD_BYTES - before, True
    with source.searched():
        chunks = source.text_chunks(Ledger(), BLOCK_BYTES)
        while patterns and more and source.limits.late(SEARCH_SHARE) is None:
            chunk = next(chunks, b"")
            more = bool(chunk)
            data += chunk
            end = len(data) - behind if more else len(data)
            while patterns and (at := _find(data, begin, end, patterns)) >= 0:
                yield data[max(0, at - before) : at + behind]
                begin = at + behind
            cut = max(0, end - before)
            data, begin = data[cut:], max(begin, end) - cut


def _find(data: bytes, begin: int, end: int, patterns: Collection[bytes]) -> int:
    """Return the place of the first match that begins within [begin, end), -1 without one."""
    if begin >= end:
        return -1
    text = pa.array([memoryview(data)[begin:]], pa.large_binary())
    found = int(pc.find_substring_regex(text, pattern=b"|".join(patterns).decode())[0].as_py())
    return begin + found if 0 <= found < end - begin else -1


def heads(source: Source, patterns: Sequence[bytes]) -> Iterator[Head]:
    """Yield the head of a text, its end where it is long, and what `heads_behind` yields: the places to be asked."""
    yield source.head()
    if (end := source.end()) is not None:
        yield end
    yield from heads_behind(source, patterns)


def heads_behind(source: Source, patterns: Sequence[bytes]) -> Iterator[Head]:
    """Yield the whole lines around each match in a long text, as heads for sniffers; nothing for a short file.

    patterns: regular expressions that RE2 reads, of lines that the tables have.
    """
    head = source.head()
    if head.complete or not head.text or not patterns:
        return
    for text in islice(windows(source, patterns, BEFORE_BYTES, BEHIND_BYTES), MOST_WINDOWS):
        yield replace(head, data=text[text.find(b"\n") + 1 :])

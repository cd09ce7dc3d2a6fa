"""The reader for an input, by its content. Foreign and closed formats get advice that helps."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from tracekit.errors import AmbiguousFormatError, UnknownFormatError
from tracekit.plugins import PluginWarning
from tracekit.readers.base import Confidence, Marks, Reader, Strength
from tracekit.readers.head import Head
from tracekit.readers.source import SQLITE_MAGIC, Source
from tracekit.readers.streams import GZIP_MAGIC, ZSTD_MAGIC
from tracekit.readers.trace_event.marks import EVENT_LIST, PHASE, claimants

__all__ = ["identify", "votes"]


_PACKED = (SQLITE_MAGIC, b"PAR1")
"""The first bytes of databases and Parquet files: they have bytes of any value, and their words are whole."""
_SPEEDSCOPE = re.compile(rb'\s{0,100}\{\s{0,100}"\$schema"\s{0,20}:\s{0,20}"https://www\.speedscope\.app/')


def votes(head: Head, readers: Iterable[Reader]) -> list[tuple[Reader, Confidence]]:
    """Return how sure each reader is: by its sniffer, or by its marks where it has no sniffer.

    Warns: PluginWarning for a reader whose sniffer or mark raises; its answer is NO.
    """
    readers = tuple(readers)
    marked = [reader for reader in readers if reader.marks.json]
    try:
        claimed = _claimants(head, marked)
    except Exception:  # noqa: BLE001 - a mark of a plugin may raise anything
        claimed = _claimants(head, [reader for reader in marked if _has_sound_marks(head, reader)])
    text = _words_of(head.data)
    return [
        (reader, _vote(head, reader, by_marks=reader.name in claimed))
        if _may_be(head, text, reader.marks)
        else (reader, Confidence.NO)
        for reader in readers
    ]


def _may_be(head: Head, text: str | None, marks: Marks) -> bool:
    """Return whether a file may be of a format with these marks, so that its sniffer is worth asking."""
    if (marks.begins and not head.data.startswith(marks.begins)) or (marks.tables and not head.tables):
        return False
    # The schema of a database has the words of many printed tables, and asking their sniffers would load the readers.
    if head.data.startswith(SQLITE_MAGIC) and (marks.in_logs or marks.json):
        return False
    return text is None or not marks.words or any(word in text for word in marks.words)


def _words_of(data: bytes) -> str | None:
    """Return a head as `Marks.words` are compared with it; None where colours or escapes may stand within words."""
    if not data.startswith(_PACKED) and (b"\x1b" in data or b"\\u00" in data):
        return None
    return " ".join(data.decode("utf-8", "replace").lower().split())


def _claimants(head: Head, readers: Iterable[Reader]) -> frozenset[str]:
    return claimants(head, ((reader.name, reader.marks.json) for reader in readers))


def _has_sound_marks(head: Head, reader: Reader) -> bool:
    try:
        _claimants(head, [reader])
    except Exception as err:  # noqa: BLE001
        _skip(reader, f"a mark raised {type(err).__name__}: {err}")
        return False
    return True


def _vote(head: Head, reader: Reader, *, by_marks: bool) -> Confidence:
    if reader.sniff is None:
        return Confidence.YES if by_marks else Confidence.NO
    try:
        return Confidence(reader.sniff(head))
    except Exception as err:  # noqa: BLE001 - a plugin's sniffer may raise anything
        _skip(reader, f"its sniffer failed with {type(err).__name__}: {err}")
        return Confidence.NO


def _skip(reader: Reader, reason: str) -> None:
    warnings.warn(f"reader {reader.name} skipped ({reason})", PluginWarning, stacklevel=2)


def identify(source: Source, readers: Iterable[Reader]) -> Reader:
    """Return the one reader that is sure; without one, the single reader that answers MAYBE.

    The rest of a long text counts where no reader is sure of its beginning: a program may have printed much before the
    profile, and behind it. Only readers whose marks say so are asked about it, its end first, and only YES counts.

    Raises: UnknownFormatError with a hint of its own for formats that are known to be closed or foreign;
    AmbiguousFormatError, which names the candidates.
    """
    readers = tuple(readers)
    head = source.head()
    answers = votes(head, readers)
    if candidates := [reader for reader, answer in answers if answer is Confidence.YES]:
        return _by_late_marks(source, _one(source, candidates), readers)
    if candidates := _printed_behind(source, readers):
        return _one(source, candidates)
    if candidates := [reader for reader, answer in answers if answer is Confidence.MAYBE]:
        return _one(source, candidates)
    is_object = head.text and not head.complete and head.data.lstrip()[:1] == b"{"
    # The members before the list of events may be longer than the head.
    if is_object and (late := _claimant_behind(source, readers, EVENT_LIST)) is not None:
        return late
    raise _unknown(source, head, source.end())


def _printed_behind(source: Source, readers: Iterable[Reader]) -> list[Reader]:
    """Return the readers of tables that are sure of the end of a long text, or of a place in its middle."""
    from tracekit.readers.printed.late import heads_behind

    printed = [reader for reader in readers if reader.marks.in_logs]
    patterns = [pattern for reader in printed for pattern in reader.marks.late]
    key = frozenset(reader.name for reader in printed)
    if (known := source.printed.get(key)) is not None:  # each command asks more than once
        places: Iterable[Head] = [replace(source.head(), data=known)] if known else []
    else:
        end = source.end()
        places = chain([end] if end is not None else [], heads_behind(source, patterns))
    for place in places:
        if candidates := [reader for reader, answer in votes(place, printed) if answer is Confidence.YES]:
            source.printed[key] = place.data
            return candidates
    source.printed[key] = b""
    return []


def _by_late_marks(source: Source, reader: Reader, readers: Iterable[Reader]) -> Reader:
    """Return the reader whose marks are behind the head; `reader` if there are none, or if the head has its marks.

    The head of a long JSON trace may show the grammar alone. Then the rest of the file is searched, once.
    """
    data, own = source.head().data, reader.marks
    if source.head().complete or not own.json:
        return reader
    if any(mark.strength >= Strength.EVENTS and mark.is_in(data) for mark in own.json):
        return reader
    if any(re.search(pattern, data) for pattern in own.late):
        return reader
    return _claimant_behind(source, readers) or reader


def _claimant_behind(source: Source, readers: Iterable[Reader], *more: bytes) -> Reader | None:
    """Return the one reader of JSON traces that claims the head and what is behind it. more: patterns to search for."""
    from tracekit.readers.printed.late import text_around

    head, marked = source.head(), [reader for reader in readers if reader.marks.json]
    text = text_around(source, [*more, *(pattern for reader in marked for pattern in reader.marks.late)])
    whole = replace(head, data=head.data + b"\n" + text)
    phases = frozenset(match[-2:-1].decode() for match in re.findall(PHASE, whole.data))
    able = [reader for reader in marked if not reader.marks.phases or phases <= frozenset(reader.marks.phases)]
    claimed = _claimants(whole, able)
    return next((reader for reader in able if {reader.name} == claimed), None)


def _one(source: Source, candidates: list[Reader]) -> Reader:
    # A speedscope file names its format at its beginning; what is in its names does not count.
    if len(candidates) > 1 and _SPEEDSCOPE.match(source.head().data):
        candidates = [reader for reader in candidates if reader.name == "speedscope"] or candidates
    if len(candidates) > 1:
        raise AmbiguousFormatError(source.name, [reader.name for reader in candidates])
    return candidates[0]


def _unknown(source: Source, head: Head, end: Head | None) -> UnknownFormatError:
    from tracekit.readers.foreign import foreign_end, foreign_format

    reason, hint = _why(head, source.name)
    if end is not None and foreign_format(head) is None and (printed := foreign_end(end)) is not None:
        reason, hint = f"at its end {printed.title}", printed.hint(source.name)
    return UnknownFormatError(source.name, reason, hint=hint)


def _why(head: Head, path: str) -> tuple[str, str]:
    """Return a description of the input, and what to do; "" for the general hint. path: as the user named it."""
    from tracekit.readers.foreign import foreign_format

    data = head.data
    if not data.strip(b"\0 \t\r\n"):
        what = "begins with zero bytes and blanks alone" if data else "is empty"
        return f"the file {what}", "was the program killed before the profiler wrote it?"
    if data.startswith((GZIP_MAGIC, ZSTD_MAGIC)):  # it was unpacked once already
        return "a compressed file within a compressed one", "unpack the outer one: `gunzip FILE` or `zstd -d FILE`"
    if (foreign := foreign_format(head)) is not None:
        return foreign.title, foreign.hint(path)
    if data.startswith(SQLITE_MAGIC) and not head.tables:
        hint = "if the file was cut or damaged, export or copy it again, or try `sqlite3 FILE .recover`"
        return "an SQLite database in which no table can be read", hint
    if data.startswith(SQLITE_MAGIC):
        return "an SQLite database without the tables of nvprof or Nsight Systems", ""
    if not head.text:
        return "a binary file", ""
    first = next((line for line in head.lines() if line.strip()), b"")[:60].decode("utf-8", "replace").strip()
    return f"text that begins with {first!r}", ""

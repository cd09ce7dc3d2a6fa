"""The container of a report: sections, a head with the exact counts, compressed blocks of events, strings.

    "NVIDIA Tegra Profiler Report " version "."  sections ...  table of contents, its offset (8 bytes), "U3w[END]"
    Raw Sampling Data: "QDTEXT00" session, head, blocks of events, block of strings, thread names, target, schemas

The layout is the same in all versions from 2019.6 to 2026.2. There is no checksum: a cut, a wrong length, a wrong count
and broken LZ4 are seen, a flipped bit within a number is not.

A report holds the whole environment of the profiled program (Analysis Options Data, the session, Agent activity list)
and the command lines of all processes. Of these only what `session.py` names is ever taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from itertools import pairwise
from typing import BinaryIO

import pyarrow as pa

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.readers.engine.protobuf import plain
from tracekit.readers.engine.wire import BYTES, VARINT, WireError, checked_varint
from tracekit.readers.nsys.report.messages import last_values, message
from tracekit.readers.source import Source

__all__ = ["Container"]

MAGIC = b"NVIDIA Tegra Profiler Report "
TRAILER = b"U3w[END]"
RAW_MAGIC = b"QDTEXT00"
MAX_BLOCK_BYTES = 32 << 20
"""Largest block of events that is unpacked. The largest of 702 public reports has 3.7 MB."""
MAX_STRINGS_BYTES = 256 << 20
"""Largest block of strings that is unpacked."""
MOST_STRINGS = 1 << 23
"""Most texts of a report; each takes some fifty bytes of memory, and two of the file."""
MAX_SAMPLE_BYTES = 1 << 20
"""Largest self-describing event. Those of GPU metrics have about 30 bytes."""
MAX_SECTION_BYTES = 64 << 20
"""Largest section or message that is read whole; the raw data are read block by block."""
_EXPANSION = 256
"""LZ4 makes at most 255 bytes of one."""
_HINT = "copy or record it again; a whole report ends with the bytes U3w[END]"


@dataclass(slots=True)
class ReportHead:
    """The counts that the file announces, and the kinds of self-describing events."""

    events: int | None = None
    generic: int | None = None
    strings: int | None = None
    threads: int | None = None
    sources: dict[int, int] = field(default_factory=dict)
    """String ids of the names of sources, by id of the source."""
    types: dict[int, list[tuple[int, int, int, str]]] = field(default_factory=dict)
    """(string id of the name, offset, size, C type) of each number, by id of the type."""


class Container:
    """One report, open for reading. Raises: ParseError with the place of what is damaged."""

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self._source = source
        self._file: BinaryIO = source.plain_path().open("rb")
        try:
            self._size = self._file.seek(0, 2)
            self.sections = self._contents()
            self._open_raw()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def damaged(self, at: int, reason: str, hint: str = _HINT) -> ParseError:
        """Return the error of a damaged report. at: byte of the file."""
        self._source.check_readable()
        return ParseError(self.name, f"byte {at}", reason, hint=hint)

    def _read(self, at: int, count: int) -> bytes:
        self._file.seek(at)
        return self._file.read(count)

    def section(self, name: str) -> bytes:
        """Return a small section, b"" if the report lacks it."""
        at, size = self.sections.get(name, (0, 0))
        if size > MAX_SECTION_BYTES:
            raise self.damaged(at, f"section {name!r} has {size:,} bytes: no report has so many")
        return self._read(at, size)

    def fields(self, data: bytes, at: int, what: str) -> list[tuple[int, int, int | bytes]]:
        """Return the fields of a small message. at: its byte in the file. Raises: ParseError."""
        try:
            return message(data)
        except WireError as err:
            raise self.damaged(at, f"{what} cannot be read ({err})") from err

    def _contents(self) -> dict[str, tuple[int, int]]:
        """Return the place and size of each section."""
        start = self._read(0, 256)
        if not start.startswith(MAGIC) or b"." not in start[len(MAGIC) :]:
            raise self.damaged(0, "not a report of Nsight Systems: its first line is missing")
        end = self._read(max(0, self._size - 16), 16)
        if len(end) < 16 or end[8:] != TRAILER:
            raise self.damaged(self._size, f"the report is cut: its last bytes are {end[8:]!r}, not {TRAILER!r}")
        at = int.from_bytes(end[:8], "little")
        if not len(MAGIC) < at <= self._size - 16 or self._size - 16 - at > MAX_SECTION_BYTES:
            raise self.damaged(self._size - 16, f"its table of contents is said to be at byte {at}, outside the file")
        sections: dict[str, tuple[int, int]] = {}
        for number, wire, value in self.fields(self._read(at, self._size - 16 - at), at, "the table of contents"):
            if number != 1 or wire != BYTES or not isinstance(value, bytes):
                continue
            entry = last_values(self.fields(value, at, "the table of contents"))
            name, offset, size = entry.get(1, b""), entry.get(2, 0), entry.get(3, 0)
            if not isinstance(name, bytes) or not isinstance(offset, int) or not isinstance(size, int):
                raise self.damaged(at, "the table of contents cannot be read")
            if offset + size > at:
                raise self.damaged(at, f"section {plain(name)!r} ends at byte {offset + size}, behind the sections")
            sections[plain(name)] = (offset, size)
        for needed in ("Raw Sampling Data", "Sampling Data Offsets"):
            if needed not in sections:
                raise self.damaged(at, f"its table of contents has no section {needed!r}")
        return sections

    def _open_raw(self) -> None:
        """Read all of the raw data but the blocks of events."""
        self._raw, size = self.sections["Raw Sampling Data"]
        self._raw_end = self._raw + size
        if (magic := self._read(self._raw, 8)) != RAW_MAGIC:
            raise self.damaged(self._raw, f"its raw data begin with {magic!r}, not {RAW_MAGIC!r}")
        place = self.sections["Sampling Data Offsets"][0]
        offsets = last_values(self.fields(self.section("Sampling Data Offsets"), place, "the table of offsets"))
        compression = offsets.get(1, b"")
        if compression != b"lz4":
            shown = plain(compression) if isinstance(compression, bytes) else str(compression)
            hint = "nsys export --type sqlite writes a database that tracekit reads"
            raise self.damaged(place, f"its compression {shown!r} is not known: lz4 is", hint)
        strings_at = offsets.get(2)
        if not isinstance(strings_at, int) or not 0 < strings_at < size - 8:
            raise self.damaged(place, "the place of its strings is outside the raw data")
        self.strings_at = self._raw + 8 + strings_at
        self.session, at = self._message(self._raw + 8, self.strings_at, "the session")
        head, self._first_block = self._message(at, self.strings_at, "the head")
        self.head = self._head(head, at)
        at = self._strings()
        at = self._threads(at)
        self.target = b""
        if at < self._raw_end:
            self.target, at = self._message(at, self._raw_end, "the target information")
        while at < self._raw_end:  # schemas of NVTX payloads
            at = self._block(at, self._raw_end, "a block of payload schemas")[1]
        self._check("strings", self.head.strings, len(self.strings), self.strings_at)
        self._check("thread names", self.head.threads, len(self.threads), self.strings_at)

    def _check(self, what: str, announced: int | None, count: int, at: int) -> None:
        if announced is not None and announced != count:
            raise self.damaged(at, f"the report has {count:,} {what}, but its head announces {announced:,}")

    def check_counts(self, events: int, generic: int) -> None:
        """Hold the numbers of events against those of the head. Raises: ParseError."""
        self._check("events", self.head.events, events, self._first_block)
        self._check("self-describing events", self.head.generic, generic, self._first_block)

    def _number(self, at: int, end: int, what: str) -> tuple[int, int]:
        data = self._read(at, 10)
        try:
            value, width = checked_varint(data[: end - at], 0)
        except WireError as err:
            raise self.damaged(at, f"{what} cannot be read ({err})") from err
        return value, at + width

    def _message(self, at: int, end: int, what: str) -> tuple[bytes, int]:
        """Return a message that is not compressed, and the place behind it."""
        size, start = self._number(at, end, what)
        if start + size > end or size > MAX_SECTION_BYTES:
            raise self.damaged(at, f"{what} is said to have {size:,} bytes, more than there are")
        return self._read(start, size), start + size

    def _block(self, at: int, end: int, what: str, most: int = MAX_BLOCK_BYTES) -> tuple[bytes, int]:
        """Return the content of a compressed block, and the place behind it."""
        packed, start = self._number(at, end, what)
        size, start = self._number(start, end, what)
        if start + packed > end:
            raise self.damaged(at, f"{what} is said to have {packed:,} bytes, more than there are")
        if size > min(most, packed * _EXPANSION):
            raise self.damaged(at, f"{what} is said to unpack from {packed:,} to {size:,} bytes: no block does")
        data = self._read(start, packed)
        try:
            content = pa.Codec("lz4_raw").decompress(data, decompressed_size=size, asbytes=True) if size else b""
        except (OSError, pa.ArrowException) as err:
            raise self.damaged(at, f"{what} is damaged (LZ4)") from err
        if len(content) != size:
            raise self.damaged(at, f"{what} is damaged (LZ4): it holds {len(content):,} of {size:,} bytes")
        return content, start + packed

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the message of each block of events, and the place of the block in the file."""
        at = self._first_block
        while at < self.strings_at:
            content, behind = self._block(at, self.strings_at, "a block of events")
            yield at, self._delimited(content, at, "a block of events")
            at = behind

    def _delimited(self, content: bytes, at: int, what: str) -> bytes:
        """Return the one message of a block, after its length."""
        try:
            size, start = checked_varint(content, 0)
        except WireError as err:
            raise self.damaged(at, f"{what} cannot be read ({err})") from err
        if start + size != len(content):
            raise self.damaged(at, f"{what} has {len(content) - start:,} bytes, but its length says {size:,}")
        return content[start:]

    def _head(self, data: bytes, at: int) -> ReportHead:
        head = ReportHead()
        for number, wire, value in self.fields(data, at, "the head"):
            if wire == VARINT and isinstance(value, int):
                if number == 1:
                    head.events = value
                elif number == 3:
                    head.strings = value
                elif number == 5:
                    head.threads = value
                elif number == 15:
                    head.generic = value
            elif number == 13 and isinstance(value, bytes):
                entry = last_values(self.fields(value, at, "the head"))
                ident, name = entry.get(1), entry.get(3)
                if isinstance(ident, int) and isinstance(name, int):
                    head.sources[ident] = name
            elif number == 14 and isinstance(value, bytes):
                self._add_type(head, value, at)
        return head

    def _add_type(self, head: ReportHead, data: bytes, at: int) -> None:
        """Add a type of self-describing events: the columns of its bytes."""
        ident = -1
        columns: list[tuple[int, int, int, str]] = []
        for number, _, value in self.fields(data, at, "the head"):
            if number == 1 and isinstance(value, int):
                ident = value
            elif number == 3 and isinstance(value, bytes):
                entry = last_values(self.fields(value, at, "the head"))
                name, offset, size, form = entry.get(1), entry.get(2, 0), entry.get(3), entry.get(5)
                c_type = last_values(self.fields(form, at, "the head")).get(1) if isinstance(form, bytes) else b""
                if not isinstance(name, int) or not isinstance(offset, int) or not isinstance(size, int):
                    continue
                if offset + size > MAX_SAMPLE_BYTES:
                    return  # no event has so many bytes: its events are counted as of a type that is not known
                columns.append((name, offset, size, plain(c_type) if isinstance(c_type, bytes) else ""))
        columns.sort(key=lambda column: column[1])
        if any(at + max(size, 1) > behind for (_, at, size, _), (_, behind, _, _) in pairwise(columns)):
            return  # numbers that overlap: a few bytes would be thousands of them
        head.types[ident] = columns

    def _strings(self) -> int:
        """Read the strings, and return the place behind them. streams: process, file name and content as string ids."""
        content, behind = self._block(self.strings_at, self._raw_end, "the block of strings", MAX_STRINGS_BYTES)
        data = self._delimited(content, self.strings_at, "the block of strings")
        self.strings: list[bytes] = []
        self.streams: list[tuple[int, int | None, int | None]] = []
        self.unknown_in_strings = 0
        at, end = 0, len(data)
        keep = self.strings.append
        most = MOST_STRINGS if self.head.strings is None else min(self.head.strings, MOST_STRINGS)
        try:
            while at < end:
                if len(self.strings) > most:
                    raise WireError(f"more than {most:,} texts")
                if data[at] == 0x0A:  # most are shorter than 128 bytes: one byte of tag, one of length
                    size, start = data[at + 1] if at + 1 < end else 128, at + 2
                    if size > 127:
                        size, start = checked_varint(data, at + 1)
                    at = start + size
                    if at > end:
                        raise WireError("a text that ends beyond the block")
                    keep(data[start:at])
                    continue
                start = at
                tag, at = checked_varint(data, at)
                if tag & 7 != BYTES:
                    raise WireError("a wire type that no message has")
                size, at = checked_varint(data, at)
                at += size
                if at > end:
                    raise WireError("a field that ends beyond the block")
                if tag >> 3 == 2:
                    entry = last_values(message(data[at - size : at]))
                    process, name, text = (entry.get(n) for n in (1, 2, 3))
                    ids = (name if isinstance(name, int) else None, text if isinstance(text, int) else None)
                    self.streams.append((process if isinstance(process, int) else 0, *ids))
                else:
                    self.unknown_in_strings += 1
        except WireError as err:
            raise self.damaged(self.strings_at, f"the block of strings cannot be read ({err})") from err
        return behind

    def _threads(self, at: int) -> int:
        """Read the names of threads: (string id, priority, thread). Without any the message is left out."""
        self.threads: list[tuple[int | None, int | None, int | None]] = []
        if not self.head.threads:
            return at
        data, behind = self._message(at, self._raw_end, "the names of threads")
        for number, _, value in self.fields(data, at, "the names of threads"):
            if number == 1 and isinstance(value, bytes):
                entry = last_values(self.fields(value, at, "the names of threads"))
                name, priority, thread = (entry.get(n) for n in (2, 3, 4))
                self.threads.append(
                    (
                        name if isinstance(name, int) else None,
                        priority if isinstance(priority, int) else None,
                        thread if isinstance(thread, int) else None,
                    )
                )
        return behind

    def string(self, number: int) -> str | None:
        """Return the text of a string id; None for a number that the report has no text for."""
        return plain(self.strings[number]) if 0 <= number < len(self.strings) else None

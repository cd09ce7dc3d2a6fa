"""Source: the bytes of one input, wherever they are (file, stdin, URL; plain, gzip, zstd; UTF-8 or UTF-16), bounded.

Text readers see UTF-8 without a byte order mark, in blocks of whole lines; what had to be repaired is noted in the
ledger: bytes that are not UTF-8, a line beyond 16 MiB, a compressed file that ends too early.
"""

from __future__ import annotations

import codecs
import io
import itertools
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, Self

import numpy as np

from tracekit.errors import InputError, MissingExtraError, ParseError, TracekitError
from tracekit.readers._encoding import as_utf8, cleaned, encoding_of, is_text
from tracekit.readers._remote import cannot_open
from tracekit.readers._zstd import ZstdStream
from tracekit.readers.head import Head
from tracekit.trace import Ledger

HEAD_BYTES = 64 << 10
BLOCK_BYTES = 2 << 20
TAIL_BYTES = 256 << 10
MAX_LINE_BYTES = 16 << 20
WHOLE_FILE_BYTES = 256 << 20
"""Formats that cannot be read in pieces (protobuf messages) are read whole up to this size."""

SQLITE_MAGIC = b"SQLite format 3\0"
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class SupportsRead(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, all that is left for a negative one; nothing at the end."""


class Stream(SupportsRead, Protocol):
    """Decompressed bytes of an input."""

    def close(self) -> None:
        """Close the file too."""


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines. offset: byte of the first in the decoded text. line: its number, from 1. torn: the last line of
    `data` has no line end, because the input ends there.
    """

    data: bytes
    offset: int
    line: int
    torn: bool = False


class Source:
    """One input. `name` is what the user wrote; `path` a local file (of stdin and URLs a temporary copy)."""

    def __init__(self, name: str, path: Path, *, temporary: tempfile.TemporaryDirectory[str] | None = None) -> None:
        self.name = name
        self.path = path
        self._temporary = temporary
        self._head: Head | None = None
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open and remove what was copied."""
        if self._file is not None:
            self._file.close()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def size_bytes(self) -> int:
        """Return the size of the input in bytes, compressed or not."""
        return self.path.stat().st_size

    def share_read(self) -> float:
        """Return how much of the input the stream opened last has taken, 0..1, for a progress bar."""
        if self._file is None or self._file.closed:
            return 0.0
        return self._file.tell() / max(self.size_bytes(), 1)

    def sha256(self) -> str:
        """Return the SHA-256 of the input, compressed or not."""
        import hashlib

        digest = hashlib.sha256()
        with self._open() as file:
            while chunk := file.read(BLOCK_BYTES):
                digest.update(chunk)
        return digest.hexdigest()

    def head(self) -> Head:
        """Return the head for sniffers. Raises: InputError when the input cannot be opened or decompressed at all."""
        if self._head is None:
            with closing(self.binary()) as stream:
                data, err = _read_part(stream, HEAD_BYTES + 1)
            if err is not None:
                for rest in self._salvaged(len(data)):
                    data += rest[: HEAD_BYTES + 1 - len(data)]
                if not data:
                    raise InputError(f"{self.name}: the compressed data is damaged ({err})", hint="copy it again")
            encoding = encoding_of(data)
            if encoding:
                data = data[: len(data) & ~1].decode(encoding, "replace").lstrip("\ufeff").encode()
            complete = len(data) <= HEAD_BYTES
            data = data[:HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
            tables = self._sqlite_tables() if data.startswith(SQLITE_MAGIC) else frozenset()
            self._head = Head(Path(self.name).name, data, complete, is_text(data), tables)
        return self._head

    def binary(self) -> Stream:
        """Return the decompressed bytes as a stream. Raises: InputError."""
        file = self._file = self._open()
        magic = file.read(4)
        file.seek(0)
        if magic[:2] == GZIP_MAGIC:
            from isal import igzip

            stream = igzip.GzipFile(fileobj=file, mode="rb")
            stream.myfileobj = file  # closing the stream then closes the file, as for a name
            opened: Stream = stream
            return opened
        return ZstdStream(file) if magic == ZSTD_MAGIC else file

    def chunks(self, ledger: Ledger, size: int = BLOCK_BYTES) -> Iterator[bytes]:
        """Yield the decompressed bytes in pieces of at most `size`; a damaged end is noted and ends the input."""
        with closing(self.binary()) as stream:
            count = 0
            while True:
                chunk, err = _read_part(stream, size)
                if err is not None:
                    for rest in itertools.chain([chunk] * bool(chunk), self._salvaged(count + len(chunk))):
                        count += len(rest)
                        yield rest
                    ledger.note(
                        "compressed-file-damaged",
                        f"the compressed data is damaged or cut ({err}); what came before was read",
                        where=f"byte {count} of the text",
                    )
                    return
                if not chunk:
                    return
                count += len(chunk)
                yield chunk

    def tail(self, size: int) -> bytes:
        """Return the last bytes of the decompressed data, at most `size`; b"" where damage hides the end."""
        with closing(self.binary()) as stream:
            if isinstance(stream, io.BufferedReader):
                stream.seek(max(0, stream.seek(0, io.SEEK_END) - size))
                return stream.read(size)
            tail = b""
            while True:
                chunk, err = _read_part(stream, BLOCK_BYTES)
                if err is not None:
                    return b""
                if not chunk:
                    return tail
                tail = (tail + chunk)[-size:]

    def end(self) -> Head | None:
        """Return the end of a long text as a head, from its first whole line on; None for a short file or no text."""
        head = self.head()
        if not head.text or head.complete:
            return None
        end = self.tail(TAIL_BYTES)
        return Head(head.name, end[end.find(b"\n") + 1 :], False, True)

    def _salvaged(self, skip: int) -> Iterator[bytes]:
        """Yield what zlib makes of a damaged gzip file behind the first `skip` bytes: fast readers give up early."""
        with self._open() as file:
            if file.read(2) != GZIP_MAGIC:
                return
            file.seek(0)
            unpack = zlib.decompressobj(wbits=31)
            while data := file.read(1 << 13):
                while data:
                    try:
                        out = unpack.decompress(data)
                    except zlib.error:
                        return
                    if out[skip:]:
                        yield out[skip:]
                    skip = max(0, skip - len(out))
                    data = unpack.unused_data
                    if unpack.eof:
                        unpack = zlib.decompressobj(wbits=31)

    def text_chunks(self, ledger: Ledger, size: int = BLOCK_BYTES) -> Iterator[bytes]:
        """Yield the text in pieces of about `size` bytes as UTF-8, cut anywhere; bytes that are no UTF-8 stay."""
        return as_utf8(self.chunks(ledger, size), ledger)

    def line_blocks(self, ledger: Ledger, size: int = BLOCK_BYTES) -> Iterator[LineBlock]:
        """Yield the text in blocks of whole lines of about `size` bytes, as clean UTF-8.

        A line beyond 16 MiB counts as one record, dropped. Bytes that are not UTF-8 become U+FFFD, with a note.
        """
        offset, line = 0, 1
        carry: list[bytes] = []
        carried = 0
        skipping = False
        for chunk in as_utf8(self.chunks(ledger, size), ledger):
            cut = chunk.rfind(b"\n") + 1
            if skipping:
                first = chunk.find(b"\n") + 1
                offset += first or len(chunk)
                if not first:
                    continue
                skipping, chunk, cut, line = False, chunk[first:], cut - first, line + 1
            if not cut:
                carry.append(chunk)
                carried += len(chunk)
                if carried > MAX_LINE_BYTES:
                    ledger.read += 1
                    ledger.drop(
                        "line-too-long", where=f"line {line}", text="dropped: a line longer than 16 MiB is no record"
                    )
                    offset += carried
                    carry, carried, skipping = [], 0, True
                continue
            data = b"".join((*carry, chunk[:cut]))
            carry, carried = [chunk[cut:]], len(chunk) - cut
            yield LineBlock(cleaned(data, offset, ledger), offset, line)
            offset += len(data)
            line += int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))
        rest = b"".join(carry)
        if rest:
            yield LineBlock(cleaned(rest, offset, ledger), offset, line, torn=True)

    def read_whole(self, limit: int = WHOLE_FILE_BYTES) -> bytes:
        """Return all decompressed bytes. Raises: ParseError beyond the limit, InputError for damaged compression."""
        with closing(self.binary()) as stream:
            try:
                data = _read_up_to(stream, limit + 1)
            except _DAMAGE as err:
                raise InputError(f"{self.name}: the compressed data is damaged ({err})", hint="copy it again") from err
        if len(data) > limit:
            raise ParseError(self.name, "", f"larger than {limit >> 20} MiB, which is the most for this format")
        return data

    def plain_path(self) -> Path:
        """Return a local file with the decompressed bytes, for libraries that want a path (SQLite)."""
        with self._open() as file:
            magic = file.read(4)
        if magic[:2] != GZIP_MAGIC and magic != ZSTD_MAGIC:
            return self.path
        folder = tempfile.TemporaryDirectory(prefix="tracekit-")
        plain = Path(folder.name) / "plain"
        with closing(self.binary()) as stream, plain.open("wb") as out:
            try:
                shutil.copyfileobj(stream, out, BLOCK_BYTES)
            except _DAMAGE as err:
                folder.cleanup()
                raise InputError(f"{self.name}: the compressed data is damaged ({err})", hint="copy it again") from err
        if self._temporary is not None:
            self._temporary.cleanup()
        self.path, self._temporary = plain, folder
        return plain

    def _open(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as err:
            raise _cannot_open(self.name, err) from err

    def _sqlite_tables(self) -> frozenset[str]:
        import sqlite3

        try:
            uri = f"{self.plain_path().absolute().as_uri()}?mode=ro&immutable=1"
            with closing(sqlite3.connect(uri, uri=True)) as db:
                db.text_factory = lambda data: data.decode("utf-8", "replace")
                rows = db.execute("select name from sqlite_master where type in ('table', 'view')").fetchall()
        except (sqlite3.Error, UnicodeDecodeError, InputError):  # SQLite quotes damaged bytes in its own messages
            return frozenset()
        return frozenset(str(r[0]) for r in rows)


def _damage() -> tuple[type[Exception], ...]:
    import zstandard
    from isal import igzip_lib

    isal_error: object = igzip_lib.IsalError  # its stubs call the class an instance
    found = (EOFError, zlib.error, OSError, zstandard.ZstdError)
    return (*found, isal_error) if isinstance(isal_error, type) and issubclass(isal_error, Exception) else found


_DAMAGE = _damage()
"""Errors of the decompressors for damaged or cut data; gzip's BadGzipFile is an OSError."""


def open_source(name: str) -> Source:
    """Return the source for an input: a path, "-" for stdin, or a URL that fsspec knows.

    Raises: InputError, MissingExtraError.
    """
    if name == "-":
        return _spooled("stdin", sys.stdin.buffer)
    if "://" in name:
        try:
            import fsspec
        except ImportError as err:
            raise MissingExtraError(f"reading {name}", "remote") from err
        try:
            with fsspec.open(name, "rb") as file:
                return _spooled(name, file)
        except TracekitError:
            raise
        except ImportError as err:
            raise MissingExtraError(f"reading {name}", "remote") from err
        except Exception as err:  # each library of an object store raises errors of its own (botocore: no OSError)
            raise cannot_open(name, err) from err
    path = Path(name)
    try:
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise InputError(f"{name}: is a device, not a file", hint="- reads stdin")
        with path.open("rb") as file:
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                return _spooled(name, file)  # a pipe can be read once only
            file.read(1)
    except OSError as err:
        raise _cannot_open(name, err) from err
    return Source(name, path)


def _spooled(name: str, stream: SupportsRead) -> Source:
    folder = tempfile.TemporaryDirectory(prefix="tracekit-")
    path = Path(folder.name) / "input"
    with path.open("wb") as out:
        shutil.copyfileobj(stream, out, BLOCK_BYTES)
    return Source(name, path, temporary=folder)


def _cannot_open(name: str, err: OSError) -> InputError:
    if isinstance(err, FileNotFoundError):
        return InputError(
            f"{name}: no such file", hint="is the name right? Patterns need quotes or a shell that expands"
        )
    if isinstance(err, PermissionError):
        return InputError(f"{name}: no permission to read", hint="chmod, or ask its owner")
    if isinstance(err, IsADirectoryError):
        return InputError(f"{name}: is a folder", hint="name the files in it")
    return InputError(f"{name}: cannot be read ({err.strerror or err})")


def _read_part(stream: SupportsRead, size: int) -> tuple[bytes, Exception | None]:
    """Return up to `size` bytes, and what ended the reading early: bytes before the damage are whole."""
    out = io.BytesIO()
    read = getattr(stream, "read1", stream.read)  # read() would lose what it had when the damage comes
    while (missing := size - out.tell()) > 0:
        try:
            chunk = read(missing)
        except _DAMAGE as err:
            return out.getvalue(), err
        if not chunk:
            break
        out.write(chunk)
    return out.getvalue(), None


def _read_up_to(stream: SupportsRead, count: int) -> bytes:
    data, err = _read_part(stream, count)
    if err is not None and not data:
        raise err
    return data

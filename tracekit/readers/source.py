"""Source: the bytes of one input, wherever they are (file, stdin, URL; plain, gzip, zstd; UTF-8 or UTF-16), bounded.

Text readers see UTF-8 without a byte order mark, in blocks of whole lines; what had to be repaired is noted in the
ledger: bytes that are not UTF-8, a line beyond 16 MiB, a compressed file that ends too early.
"""

from __future__ import annotations

import codecs
import io
import itertools
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np

from tracekit.errors import (
    InputError,
    LimitError,
    MissingExtraError,
    ParseError,
    ScratchError,
    StopReading,
    TracekitError,
)
from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Ledger
from tracekit.readers import zipped
from tracekit.readers.beside import ARROW_MAGICS, tables_beside
from tracekit.readers.head import Head
from tracekit.readers.streams import (
    BLOCK_BYTES,
    DAMAGE,
    Bounded,
    ByteStream,
    RawFile,
    SupportsRead,
    cannot_open_file,
    cannot_unpack,
    check_same,
    copy,
    is_packed,
    read_part,
    salvaged,
    unpacked,
)
from tracekit.safety.limits import in_force
from tracekit.safety.scratch import cannot_read_back, scratch_directory

if TYPE_CHECKING:
    from tracekit.safety.unfinished import Unfinished

__all__ = [
    "HEAD_BYTES",
    "MAX_LINE_BYTES",
    "SQLITE_MAGIC",
    "TAIL_BYTES",
    "WHOLE_FILE_BYTES",
    "LineBlock",
    "Source",
    "as_utf8",
    "cannot_open",
    "cleaned",
    "encoding_of",
    "is_text",
    "needs_package",
    "of_windows",
    "open_source",
]

# Text as bytes: its encoding, whether it is text at all, and clean UTF-8 out of it, with every repair noted.


_GROUP_OF_WINDOWS = re.compile(rb"(?<=\d)[\xa0\x92](?=\d{3})")
_MICRO_OF_WINDOWS = re.compile(rb"(?<=[\d ;,\t(\"])\xb5(?=s\b)")


def of_windows(data: bytes) -> bytes:
    r"""Return the same bytes with the signs of numbers in Windows-1252 as UTF-8, where nothing else can be meant.

    >>> of_windows(b"1\xa0234 us, 12 \xb5s").decode()
    "1'234 us, 12 µs"
    """
    return _MICRO_OF_WINDOWS.sub("\N{MICRO SIGN}".encode(), _GROUP_OF_WINDOWS.sub(b"'", data))


def encoding_of(head: bytes) -> str:
    """Return "utf-16-le", "utf-16-be", or "" for UTF-8: PowerShell's `>` writes UTF-16 with a byte order mark."""
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    sample = head[:2048]
    if len(sample) >= 8 and b"\0\0" not in sample:
        if sample[1::2].count(0) > 0.8 * len(sample) / 2 and not sample[0::2].count(0):
            return "utf-16-le"
        if sample[0::2].count(0) > 0.8 * len(sample) / 2 and not sample[1::2].count(0):
            return "utf-16-be"
    return ""


def is_text(head: bytes) -> bool:
    """Return whether the beginning of an input is text, but for a few bytes."""
    # A text log padded with NUL after a crash is text still.
    head = head.rstrip(b"\0")
    bad = head.count(b"\0") + head.decode("utf-8", "replace").count("\ufffd")
    return bad <= 2 + len(head) // 20


def as_utf8(chunks: Iterator[bytes], ledger: Ledger) -> Iterator[bytes]:
    """Yield the same text as UTF-8 without a byte order mark, lines ended by a newline."""
    first, seen, returns = True, False, False
    decoder: codecs.IncrementalDecoder | None = None
    for chunk in chunks:
        data = chunk
        if first:
            first = False
            if encoding := encoding_of(data):
                decoder = codecs.getincrementaldecoder(encoding)("replace")
                ledger.note("utf-16", "the text is UTF-16 (PowerShell's > writes it so); it was read as such")
            else:
                data = data.removeprefix(codecs.BOM_UTF8)
        if decoder is not None:
            data = decoder.decode(data).replace("\ufeff", "").encode("utf-8", "replace")
        if not seen:
            seen = True
            returns = b"\r" in data and b"\n" not in data
            if returns:
                ledger.note("cr-line-ends", "lines end with a carriage return alone; they were read as lines")
        yield data.replace(b"\r", b"\n") if returns else data
    if decoder is not None and (rest := decoder.decode(b"", final=True)):
        yield rest.encode("utf-8", "replace")


def _line_ends(data: bytes) -> int:
    """Return the number of newlines: in pieces, whose masks stay in the processor's cache."""
    codes = np.frombuffer(data, np.uint8)
    return sum(int(np.count_nonzero(codes[at : at + _PIECE] == ord("\n"))) for at in range(0, len(codes), _PIECE))


def cleaned(data: bytes, offset: int, ledger: Ledger) -> bytes:
    """Return the same text with U+FFFD for each byte that is no UTF-8."""
    if data.isascii():
        return data
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as err:
        data = of_windows(data)
        text = data.decode("utf-8", "replace")
        if "\ufffd" not in text:
            ledger.note("windows-1252", "numbers have signs of Windows-1252", where=f"byte {offset + err.start}")
            return data
        ledger.note("not-utf-8", "bytes that are not UTF-8 were replaced by U+FFFD", where=f"byte {offset + err.start}")
        return text.encode("utf-8")
    return data


# Why an input at a URL could not be opened, in one sentence: fsspec says "file not found" for each failure of HTTP.


_STATUS = {
    401: ("the server asks for a login", "check the login in the environment"),
    403: ("the server refuses access", "check that this login may read it"),
    404: ("no such file on the server", "check the address"),
    407: ("the proxy asks for a login", "check the login of the proxy"),
    410: ("the file is no longer on the server", "check the address"),
    429: ("the server asks to wait", "try again later"),
}
_BY_KIND = {
    "TooManyRedirects": ("the server redirects in a circle", "check the address"),
    "RedirectClientError": ("the server redirects to an address that is not of the web", "check the address"),
    "ContentLengthError": ("the connection ended before the file did", "try again"),
    "TransferEncodingError": ("the connection ended before the file did", "try again"),
    "PayloadEncodingError": ("its content is not compressed as the server says", "ask who runs the server"),
    "HttpProcessingError": ("the answer is not HTTP", "check that a web server answers on this port"),
    "ServerDisconnectedError": ("the server closed the connection without an answer", "try again"),
}
"""By the name of a class of aiohttp, special ones first: some have the status 400, which no server sent."""
_OTHER = (("the server refuses", "check the address"), ("the server failed", "try again later"))


def cannot_open(name: str, err: Exception) -> InputError:
    """Return the error for a URL, by the status of the server, or by what stopped the connection."""
    why, hint = _wrong_address(name) or _reason(name, err)
    return InputError(f"cannot be opened ({why})", path=name, hint=hint)


def needs_package(name: str, err: ImportError) -> TracekitError:
    """Return the error for a URL whose library is not installed: one of ours, or that of another store."""
    if name.startswith(("http://", "https://", "s3://")):
        return MissingExtraError(f"reading {name}", "remote")
    why = (str(err).strip().splitlines() or ["a package is missing"])[0]
    return InputError(f"cannot be opened ({why})", path=name, hint="pip install the package of this kind of store")


def _wrong_address(name: str) -> tuple[str, str] | None:
    """Return what is wrong with the text of a URL; libraries fail in odd ways there."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(name)
        web = parts.scheme in ("http", "https")
        why = "it has no host" if web and not (parts.port or parts.netloc) else ""
    except ValueError as err:  # a port beyond 65535, brackets that do not close
        why = str(err)
    return (f"the address is not valid: {why}", "check the address") if why else None


def _reason(name: str, err: Exception) -> tuple[str, str]:
    import socket
    import ssl

    causes = _causes(err)
    kinds = {kind.__name__ for cause in causes for kind in type(cause).__mro__}
    if known := next((reason for kind, reason in _BY_KIND.items() if kind in kinds), None):
        return known
    for cause in causes:
        status = getattr(cause, "status", None)
        if isinstance(status, int):
            why, hint = _STATUS.get(status) or _OTHER[status >= 500]
            return f"{why}: HTTP {status}", hint
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return "its host has no address in the network", "check the name of the host"
        if isinstance(cause, ConnectionRefusedError):
            return "the host refuses the connection", "check that the server runs on this port"
        if isinstance(cause, TimeoutError):
            return "the host does not answer", "check the network"
        if isinstance(cause, ssl.SSLError):
            known_as = [getattr(each, key, "") for key in ("verify_message", "reason") for each in causes]
            why = next(filter(None, known_as), "no TLS")
            return f"no secure connection: {why}", "check that the server uses https and a certificate known here"
        if isinstance(cause, ConnectionResetError):
            return "the connection was reset", "check whether the server uses http or https on this port"
        if isinstance(cause, FileNotFoundError) and not cause.__cause__:
            return "no such file", "check the address"
    if "Protocol not known" in str(err):
        return f"no known kind of address: {name.partition(':')[0]}", "https:// and s3:// are known"
    # fsspec's own error is often the address alone.
    texts = [(str(cause).strip().splitlines() or [""])[0] for cause in causes]
    text = next((text for text in texts if text not in ("", name)), type(causes[-1]).__name__)
    return text, "check the address and the login"


def _causes(err: BaseException) -> list[BaseException]:
    """Return the error and what led to it; libraries keep the error of the system in `os_error` or as the cause."""
    found: list[BaseException] = []
    queue: list[object] = [err]
    while queue:
        each = queue.pop(0)
        if isinstance(each, BaseException) and each not in found:
            found.append(each)
            queue += [getattr(each, "os_error", None), each.__cause__, each.__context__]
    return found


HEAD_BYTES = 64 << 10
TAIL_BYTES = 256 << 10
MAX_LINE_BYTES = 16 << 20
_BUFFER_BYTES = 128 << 10
_PIECE = 256 << 10
WHOLE_FILE_BYTES = 256 << 20
"""Formats that cannot be read in pieces (protobuf messages) are read whole up to this size."""

SQLITE_MAGIC = b"SQLite format 3\0"


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
    """One input. `name` is what the user wrote; `path` a local file (of stdin and URLs a temporary copy).

    limits: those in force when it was opened. stopped: the limit at which its reading ended, None before the end.
    status: of the file when it was opened, None for what is no file. late: what searches behind the head found, by
    what they searched for.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        *,
        temporary: Unfinished | None = None,
        status: os.stat_result | None = None,
    ) -> None:
        self.name = name
        self.path = path
        self._given, self._status = path, status
        self._temporary = temporary
        self._head: Head | None = None
        self._wide = False
        self._file: BinaryIO | None = None
        self._opened: list[io.BufferedReader] = []
        self.limits = in_force()
        self.stopped: StopReading | None = None
        self.late: dict[frozenset[bytes], bytes] = {}
        self.printed: dict[frozenset[str], bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open and remove what was copied."""
        for file in self._opened:  # an error can leave a reader in the middle, and its file open
            file.close()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def size_bytes(self) -> int:
        """Return the size of the input in bytes, compressed or not. Raises: InputError for a file that is gone."""
        try:
            return self.path.stat().st_size
        except OSError as err:
            raise self._failed(err) from err

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
            with closing(unpacked(self._open())) as stream:
                data, err = self._part(stream, HEAD_BYTES + 1)
            if err is not None:
                with self._open() as file:
                    for rest in salvaged(file, len(data)):
                        data += rest[: HEAD_BYTES + 1 - len(data)]
                if not data:
                    raise cannot_unpack(self.name, err)
            encoding, complete = encoding_of(data), len(data) <= HEAD_BYTES
            if encoding:
                self._wide = True
                data = data[: len(data) & ~1].decode(encoding, "replace").lstrip("\ufeff").encode()
            elif b"\0" not in data and (b"\xa0" in data or b"\x92" in data):
                data = of_windows(data)
            data = data[:HEAD_BYTES].removeprefix(codecs.BOM_UTF8)
            tables = self._sqlite_tables() if data.startswith(SQLITE_MAGIC) else frozenset()
            beside = (
                tables_beside(self.path) if self._temporary is None and data.startswith(ARROW_MAGICS) else frozenset()
            )
            self._head = Head(Path(self.name).name, data, complete, is_text(data), tables, beside)
        return self._head

    def binary(self) -> ByteStream:
        """Return the decompressed bytes as a stream. Raises: InputError. Its `read` raises LimitError at a limit."""
        file = self._file = self._open()
        packed, size = is_packed(file.peek(4)), self.size_bytes()
        most = self.limits.most_bytes(size, packed=packed)
        stream = unpacked(file)
        if not self.limits.seconds and (most is None or (not packed and size <= most)):
            return stream
        return Bounded(stream, self.limits, most, self.limits.at_most_bytes(size, most or 0), self.name)

    def chunks(self, ledger: Ledger, size: int = BLOCK_BYTES) -> Iterator[bytes]:
        """Yield the decompressed bytes in pieces of at most `size`.

        A damaged end is noted and ends the input. A limit ends it too: `stopped` then says which.
        """
        with closing(self.binary()) as stream:
            count = 0
            while self.stopped is None:
                chunk, err = self._part(stream, size)
                if isinstance(err, LimitError):
                    self.stopped = err.stop
                    if chunk:
                        yield chunk
                    return
                if err is not None:
                    with self._open() as file:
                        for rest in itertools.chain([chunk] * bool(chunk), salvaged(file, count + len(chunk))):
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
        """Return the last bytes of the decompressed data, at most `size`; b"" where damage or a limit hides the end."""
        with self._open() as file:
            if not is_packed(file.peek(4)):
                file.seek(max(0, file.seek(0, io.SEEK_END) - size))
                return file.read(size)
        with closing(self.binary()) as stream:
            tail = b""
            while True:
                chunk, err = self._part(stream, BLOCK_BYTES)
                if err is not None:
                    return b""
                if not chunk:
                    return tail
                tail = (tail + chunk)[-size:]

    def end(self) -> Head | None:
        """Return the end of a long text of UTF-8 as a head, from its first whole line on; None for any other file."""
        head = self.head()
        if not head.text or head.complete or self._wide:
            return None
        end = self.tail(TAIL_BYTES)
        return Head(head.name, end[end.find(b"\n") + 1 :], False, True)

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
            data = b"".join((*carry, memoryview(chunk)[:cut]))
            carry, carried = [chunk[cut:]], len(chunk) - cut
            yield LineBlock(cleaned(data, offset, ledger), offset, line)
            offset += len(data)
            line += _line_ends(data)
        rest = b"".join(carry)
        if rest:
            yield LineBlock(cleaned(rest, offset, ledger), offset, line, torn=True)

    def read_whole(self, limit: int = WHOLE_FILE_BYTES) -> bytes:
        """Return all decompressed bytes.

        Raises: ParseError beyond `limit`, LimitError beyond one of the user's, InputError for damaged compression.
        """
        with closing(self.binary()) as stream:
            data, err = self._part(stream, limit + 1)
        if isinstance(err, LimitError):
            raise err
        if err is not None and not data:
            raise cannot_unpack(self.name, err) from err
        if len(data) > limit:
            raise ParseError(self.name, "", f"larger than {limit >> 20} MiB, which is the most for this format")
        return data

    def plain_path(self) -> Path:
        """Return a local file with the decompressed bytes, for libraries that want a path (SQLite)."""
        with self._open() as file:
            if not is_packed(file.peek(4)):
                return self.path
        folder = scratch_directory()
        plain = Path(folder.name) / "plain"
        try:
            with closing(self.binary()) as stream:
                copy(stream, plain, self.name, replace(self.limits, read_bytes=0))  # the stream counts
        except (ScratchError, InputError, LimitError):
            folder.cleanup()
            raise
        except DAMAGE as err:
            folder.cleanup()
            raise cannot_unpack(self.name, err) from err
        except BaseException:
            folder.cleanup()
            raise
        if self._temporary is not None:
            self._temporary.cleanup()
        self.path, self._temporary = plain, folder
        return plain

    def check_unchanged(self, ledger: Ledger, *, exactly: bool) -> None:
        """Note that the file was written to while it was read. Raises: InputError as `check_same` says."""
        if self._status is not None:
            check_same(self.name, self._given, self._status, ledger, exactly=exactly)

    def _part(self, stream: SupportsRead, size: int) -> tuple[bytes, Exception | None]:
        """Return up to `size` bytes, and the damage or the limit behind them. Raises: InputError."""
        try:
            return read_part(stream, size)
        except OSError as err:
            raise self._failed(err) from err

    @contextmanager
    def searched(self) -> Iterator[None]:
        """Search the input within the block: a limit that is met there ends the search, not the reading."""
        stopped = self.stopped
        try:
            yield
        finally:
            self.stopped = stopped

    def stop(self, stop: StopReading) -> None:
        """End the reading: the next block is the last."""
        self.stopped = self.stopped or stop

    def _open(self) -> io.BufferedReader:
        try:
            file: io.BufferedReader = io.BufferedReader(RawFile(self.path, self._failed), _BUFFER_BYTES)
        except OSError as err:
            raise self._failed(err) from err
        self._opened = [*(each for each in self._opened if not each.closed), file]
        return file

    def _sqlite_tables(self) -> frozenset[str]:
        import sqlite3

        from tracekit.readers.sqlite.database import refuse_repeated_pages

        try:
            path = self.plain_path()
            refuse_repeated_pages(self.name, path)
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
                db.text_factory = lambda data: data.decode("utf-8", "replace")
                rows = db.execute("select name from sqlite_master where type in ('table', 'view')").fetchall()
        except (sqlite3.Error, UnicodeDecodeError):  # SQLite quotes damaged bytes in its own messages
            self.check_readable()
            return frozenset()
        except InputError as err:
            if isinstance(err.__cause__, OSError) and err.__cause__.errno:
                raise
            return frozenset()
        return frozenset(str(r[0]) for r in rows)

    def check_readable(self) -> None:
        """Read all bytes, for libraries take an error of the system for damage of the file.

        Raises: InputError where the system cannot read it, ScratchError where that is a temporary copy.
        """
        with self._open() as file:
            while file.read(BLOCK_BYTES):
                pass

    def _failed(self, err: OSError) -> TracekitError:
        """Return the error of a file that the system cannot read."""
        return cannot_open_file(self.name, err) if self._temporary is None else cannot_read_back(self.path.parent, err)


def open_source(name: str) -> Source:
    """Return the source for an input: a path, one of a file in a zip archive, "-" for stdin, or a URL for fsspec.

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
            raise needs_package(name, err) from err
        except Exception as err:  # each library of an object store raises errors of its own (botocore: no OSError)
            raise cannot_open(name, err) from err
    path = Path(name)
    try:
        status = path.stat()
        mode = status.st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise InputError("is a device, not a file", path=name, hint="- reads stdin")
        with path.open("rb") as file:
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                return _spooled(name, file)  # a pipe can be read once only
            file.read(1)
    except OSError as err:
        if isinstance(err, (NotADirectoryError, FileNotFoundError)) and (inside := zipped.split(name)) is not None:
            return _of_zip(name, *inside)
        raise cannot_open_file(name, err) from err
    return Source(name, path, status=status)


def _of_zip(name: str, path: Path, member: str) -> Source:
    with zipped.opened(name, path, member) as (stream, size):
        limits = in_force()
        most = limits.most_bytes(size, packed=True)
        return _spooled(name, Bounded(stream, limits, most, limits.at_most_bytes(size, most or 0), name))


def _spooled(name: str, stream: SupportsRead) -> Source:
    folder = scratch_directory()
    path = Path(folder.name) / "input"
    try:
        copy(stream, path, name, in_force())
    except BaseException:
        folder.cleanup()
        raise
    return Source(name, path, temporary=folder)

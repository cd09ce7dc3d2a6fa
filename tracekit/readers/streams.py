"""Streams of bytes under a source: files that fail or change, unpacking, what damage leaves, limits, copies."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

import zstandard

from tracekit.errors import InputError, LimitError, StopReading, TracekitError
from tracekit.model.trace import Ledger
from tracekit.options import did_you_mean
from tracekit.safety.limits import Limits
from tracekit.safety.scratch import writing

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = [
    "BLOCK_BYTES",
    "DAMAGE",
    "GZIP_MAGIC",
    "ZSTD_MAGIC",
    "Bounded",
    "ByteStream",
    "RawFile",
    "SupportsRead",
    "cannot_open_file",
    "cannot_unpack",
    "check_same",
    "copy",
    "is_packed",
    "read_part",
    "salvaged",
    "unpacked",
]

# A zstd file as a stream that notices when its last frame is cut; the library's own reader ends there silently.


PIECE_BYTES = 8 << 10
"""Compressed bytes taken at once. A byte may become 32 KiB, so that fewer are taken while much comes of them."""
LEAST_PIECE = 64
MUCH = 4 << 20


class ZstdStream(io.RawIOBase):
    """Decompressed bytes of one or more frames. Raises EOFError where a frame is cut, ZstdError for damage."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._ready = memoryview(b"")
        self._piece = PIECE_BYTES
        self._damage: zstandard.ZstdError | None = None

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all that is left for a negative one; nothing at the end."""
        if self._damage is not None and not self._ready:
            raise self._damage
        parts: list[memoryview] = []
        have = 0
        while size < 0 or have < size:
            if not self._ready and not self._fill(first=not have):
                break
            part = self._ready if size < 0 else self._ready[: size - have]
            self._ready = self._ready[len(part) :]
            parts.append(part)
            have += len(part)
        return b"".join(parts)

    def _fill(self, *, first: bool) -> bool:
        """Unpack the next piece; False at the end. first: there is nothing that an error would lose."""
        found: list[bytes] = []
        while not found and self._damage is None:
            piece = self._file.read(self._piece)
            if not piece:
                if self._frame is not None and first:
                    self._frame = None
                    raise EOFError("the last frame is cut")
                return False
            while piece:
                if self._frame is None:
                    self._frame = zstandard.ZstdDecompressor().decompressobj()
                try:
                    out = self._frame.decompress(piece)
                except zstandard.ZstdError as err:
                    if first and not found:
                        raise
                    self._damage = err  # raised by the next call: what came before the damage is whole
                    break
                found += [out] if out else []
                piece = b""
                if self._frame.eof:
                    piece, self._frame = self._frame.unused_data, None
        self._ready = memoryview(b"".join(found))
        self._piece = max(LEAST_PIECE, self._piece >> 2) if len(self._ready) > MUCH else PIECE_BYTES
        return bool(found)

    def close(self) -> None:
        """Close the file too."""
        self._file.close()
        super().close()


BLOCK_BYTES = 2 << 20
_AGAIN = "read it again when its program has ended"
_LOOK_BYTES = 1 << 20
"""Bytes between two looks at the clock."""
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class SupportsRead(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, all that is left for a negative one; nothing at the end."""


class ByteStream(SupportsRead, Protocol):
    """Decompressed bytes of an input."""

    def close(self) -> None:
        """Close the file too."""


class Bounded(io.RawIOBase):
    """A stream that raises LimitError where an input has more bytes than `most`, or takes too long to read.

    stop: the reason for too many bytes. All bytes before the limit are given first.
    """

    def __init__(self, stream: ByteStream, limits: Limits, most: int | None, stop: StopReading, name: str) -> None:
        self._stream, self._limits, self._left, self._stop, self._name = stream, limits, most, stop, name

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all that is left for a negative one; nothing at the end. Raises: LimitError."""
        if (late := self._limits.late()) is not None:
            raise LimitError(self._name, late)
        if self._left is None:
            return self._stream.read(min(size, _LOOK_BYTES))
        if self._left == 0:
            if self._stream.read(1):
                raise LimitError(self._name, self._stop)
            return b""
        if size < 0:
            data, err = read_part(self, self._left + 1)
            if err is not None:
                raise err
            return data
        data = getattr(self._stream, "read1", self._stream.read)(min(size, self._left))
        self._left -= len(data)
        return bytes(data)

    def close(self) -> None:
        """Close the file too."""
        self._stream.close()
        super().close()


def is_packed(magic: bytes) -> bool:
    """Return whether an input that begins so is compressed."""
    return magic[:2] == GZIP_MAGIC or magic[:4] == ZSTD_MAGIC


def unpacked(file: BinaryIO) -> ByteStream:
    """Return the decompressed bytes of a file. Closing the stream closes the file."""
    magic = file.read(4)
    file.seek(0)
    if magic[:2] == GZIP_MAGIC:
        from isal import igzip

        stream = igzip.GzipFile(fileobj=file, mode="rb")
        stream.myfileobj = file  # closing the stream then closes the file, as for a name
        opened: ByteStream = stream
        return opened
    return ZstdStream(file) if magic == ZSTD_MAGIC else file


def salvaged(file: BinaryIO, skip: int) -> Iterator[bytes]:
    """Yield what zlib makes of a damaged gzip file behind the first `skip` bytes: fast readers give up early."""
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


def _damage() -> tuple[type[Exception], ...]:
    import zstandard
    from isal import igzip_lib

    isal_error: object = igzip_lib.IsalError  # its stubs call the class an instance
    found = (EOFError, zlib.error, OSError, OverflowError, zstandard.ZstdError)
    return (*found, isal_error) if isinstance(isal_error, type) and issubclass(isal_error, Exception) else found


MOST_LOOKED_AT = 10_000
"""Entries of a folder that are looked at for names like that of a missing file."""
DAMAGE = _damage()
"""Errors of the decompressors for damaged or cut data; gzip's BadGzipFile is an OSError, a huge head overflows."""


def cannot_open_file(name: str, err: OSError) -> InputError:
    """Return the error for a file that the system cannot open or read."""
    if isinstance(err, FileNotFoundError):
        return InputError("no such file", path=name, hint=f"check the path{_files_like(name)}")
    if isinstance(err, PermissionError):
        return InputError("no permission to read", path=name, hint="chmod, or ask its owner")
    if isinstance(err, IsADirectoryError):
        return InputError("is a folder", path=name, hint="name the files in it")
    return InputError(f"cannot be read ({err.strerror or err})", path=name)


def _files_like(name: str) -> str:
    """Return "; did you mean ok.csv?" where the folder of a missing file has files with such names, else "".

    Where the folder is missing too, the names are those of folders like it.
    """
    path = Path(name)
    try:
        while not path.parent.exists() and path.parent != path:
            path = path.parent
        with os.scandir(path.parent) as entries:
            known = [entry.name for entry in islice(entries, MOST_LOOKED_AT)]
    except (OSError, ValueError):
        return ""
    # The recorder and PyTorch put a rank or a process number behind the name that a user chose: run.rank0.jsonl.
    longer = [each for each in sorted(known) if each.startswith(f"{path.stem}.") and each.endswith(path.suffix)]
    if path.stem and path.suffix and longer:
        return f"; did you mean {' or '.join(longer[:3])}?"
    return did_you_mean(path.name, known)


def cannot_unpack(name: str, err: Exception) -> InputError:
    """Return the error for an input of which nothing can be unpacked."""
    if "too much memory" in str(err):  # zstd: a window beyond the usual 128 MiB
        text = "needs more than 128 MiB of memory to be unpacked (a zstd window)"
        return InputError(text, path=name, hint="if you know where it comes from: `zstd -d --long=31 FILE`")
    return InputError(f"the compressed data is damaged ({err})", path=name, hint="copy it again")


_DAMAGE_OR_LIMIT: tuple[type[Exception], ...] = (*DAMAGE, LimitError)


def read_part(stream: SupportsRead, size: int) -> tuple[bytes, Exception | None]:
    """Return up to `size` bytes, and what ended the reading early: bytes before the damage are whole."""
    chunks: list[bytes] = []
    missing = size
    read = getattr(stream, "read1", stream.read)  # read() would lose what it had when the damage comes
    while missing > 0:
        try:
            chunk = read(missing)
        except _DAMAGE_OR_LIMIT as err:
            if isinstance(err, OSError) and err.errno:
                raise  # a device that fails is no damaged file
            return b"".join(chunks), err
        if not chunk:
            break
        chunks.append(chunk)
        missing -= len(chunk)
    return b"".join(chunks), None  # a plain file gives all at once, which join does not copy


def copy(stream: SupportsRead, path: Path, name: str, limits: Limits) -> None:
    """Write what a stream has into a file of a temporary folder. name: of the input.

    Raises: ScratchError where the folder is full; LimitError beyond the time; InputError where reading fails.
    """
    with writing(path.parent):
        out = path.open("wb")
    try:
        left = limits.read_bytes + 1 if limits.read_bytes else None
        while left is None or left > 0:
            if (late := limits.late()) is not None:
                raise LimitError(name, late)
            try:
                chunk = stream.read(BLOCK_BYTES if left is None else min(left, BLOCK_BYTES))
            except OSError as err:
                if not err.errno:
                    raise
                raise InputError(f"cannot be read ({err.strerror or err})", path=name) from err
            if not chunk:
                break
            left = None if left is None else left - len(chunk)
            with writing(path.parent):
                out.write(chunk)
    finally:
        with writing(path.parent):
            out.close()


class RawFile(io.FileIO):
    """The file under a buffer. failed: returns the error to raise for one of the system, whoever reads."""

    def __init__(self, path: Path, failed: Callable[[OSError], TracekitError]) -> None:
        super().__init__(path)
        self._failed = failed

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        """Return the number of bytes read. Raises: the error for one of the system."""
        try:
            return super().readinto(buffer)
        except OSError as err:
            raise self._failed(err) from err

    def readall(self) -> bytes:
        """Return all bytes that are left. Raises: the error for one of the system."""
        try:
            return super().readall()
        except OSError as err:
            raise self._failed(err) from err


def check_same(name: str, path: Path, before: os.stat_result, ledger: Ledger, *, exactly: bool) -> None:
    """Note that a file was written to since `before`; with `exactly` that is an error, as its digest is of other bytes.

    Raises: InputError for another file or a smaller one. Files are read in parts, some of them twice, and parts of two
    files are the profile of no program.
    """
    try:
        now = path.stat()
    except OSError:
        return  # removed; what was open was read to its end
    if (before.st_size, before.st_mtime_ns) == (now.st_size, now.st_mtime_ns):
        return  # also where another number says another file: some network file systems number anew at each look
    size = f": it had {before.st_size:,} bytes at first, {now.st_size:,} at the end"
    if (before.st_dev, before.st_ino) != (now.st_dev, now.st_ino):
        raise InputError("was replaced by another file while it was read", path=name, hint=_AGAIN)
    if now.st_size < before.st_size:
        raise InputError(f"became smaller while it was read{size}", path=name, hint=_AGAIN)
    size = size if now.st_size > before.st_size else ""
    if exactly:
        raise InputError(f"was written to while it was read{size}", path=name, hint=_AGAIN)
    shown = Path(ledger.path).name
    ledger.note("input-was-written-to", f"{shown} was written to while it was read{size}; {_AGAIN}")

"""Files in a zip archive, each an input of its own: `traces.zip/rank0.pftrace`."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import InputError, TracekitError
from tracekit.safety.limits import size_text

if TYPE_CHECKING:
    from zipfile import ZipExtFile, ZipInfo

    from tracekit.readers.streams import ByteStream

__all__ = ["members", "opened", "split"]

_MAGIC = b"PK\x03\x04"
_ENCRYPTED = 0x1 | 0x40 | 0x2000
"""Bits of a member: by a password, by a certificate, its place in the list too."""
_LOCAL_HEAD = 30
_LZMA = 14
_LZMA_DICTIONARY = 64 << 20
"""Bytes. A file of a few bytes can ask for 4 GiB, which are taken at once."""
_LEFT_OUT = ("__MACOSX/", ".")
"""Beginnings of names that macOS puts beside files, and of hidden ones."""


def members(path: Path) -> list[str]:
    """Return the names of the files in an archive, [] for any other file, also for one that cannot be read."""
    names = [name for name, each in (_directory(path) or {}).items() if not each.is_dir()]
    return sorted(name for name in names if not name.startswith(_LEFT_OUT) and not Path(name).name.startswith("."))


def split(name: str) -> tuple[Path, str] | None:
    """Return the archive and the name in it of an input such as `traces.zip/rank0.pftrace`, None for another one."""
    for parent in Path(name).parents:
        try:
            if parent.is_file():
                return (parent, Path(name).relative_to(parent).as_posix()) if is_zip(parent) else None
        except (OSError, ValueError):
            return None
    return None


@contextmanager
def opened(name: str, path: Path, member: str) -> Iterator[tuple[ByteStream, int]]:
    """Yield the bytes of a file in an archive, and its packed size. name: of the input. Raises: InputError."""
    archive = _directory(path)
    if archive is None:
        raise InputError("cannot be read as a zip archive", path=path, hint="copy it again")
    found = archive.get(member)
    if found is None:
        raise InputError("no such file in the zip archive", path=name, hint="check the name")
    if found.flag_bits & _ENCRYPTED:
        raise InputError("is encrypted", path=name, hint="unpack the archive with its password first")
    with ExitStack() as stack:
        with _in_words(name):
            stream = stack.enter_context(_stream(name, path, found))
        yield _ZipMember(stream, name), found.compress_size


@contextmanager
def _in_words(name: str) -> Iterator[None]:
    """Turn whatever a decompressor raises into a sentence with the member's name. Raises: InputError."""
    try:
        yield
    except (TracekitError, MemoryError):
        raise
    except RuntimeError as err:  # or a Python that was made without bz2 or lzma
        text = f"{name}: is compressed in a way that is not supported ({err})"
        raise InputError(text, hint="unpack the archive yourself") from err
    except Exception as err:  # each decompressor has errors of its own, some of them not public
        if isinstance(err, OSError) and err.errno:
            raise  # a disk that fails is no damage; an error of bz2 has no number
        why = str(err) or type(err).__name__
        raise InputError(f"cannot be unpacked ({why})", path=name, hint="copy the archive again") from err


class _ZipMember:
    """The bytes of a member. Its damage is one sentence with the member's name."""

    def __init__(self, stream: ZipExtFile, name: str) -> None:
        self._stream, self._name = stream, name

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, all that is left for a negative one. Raises: InputError."""
        with _in_words(self._name):
            return self._stream.read(size)

    def read1(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, what one step of the decompressor gives. Raises: InputError."""
        with _in_words(self._name):
            return self._stream.read1(size)

    def close(self) -> None:
        """Close the archive too."""
        self._stream.close()


@contextmanager
def _stream(name: str, path: Path, member: ZipInfo) -> Iterator[ZipExtFile]:
    """Yield the bytes of a member. Its place is known, so that the list of all members is not read for each."""
    from zipfile import BadZipFile, ZipExtFile

    with path.open("rb") as file:
        file.seek(max(member.header_offset, 0))  # a list that is damaged may name a place before the begin
        head = file.read(_LOCAL_HEAD) if member.header_offset >= 0 else b""
        if len(head) < _LOCAL_HEAD or not head.startswith(_MAGIC):
            raise BadZipFile("no file begins where the list of files says")
        file.seek(sum(struct.unpack("<HH", head[26:])), 1)
        if member.compress_type == _LZMA:
            properties = file.read(9)
            file.seek(-len(properties), 1)
            needed = int.from_bytes(properties[5:9], "little")
            if needed > _LZMA_DICTIONARY:
                text = f"needs {size_text(needed)} of memory to be unpacked, more than {size_text(_LZMA_DICTIONARY)}"
                raise InputError(text, path=name, hint="if you know where it comes from, unpack the archive yourself")
        with ZipExtFile(file, "r", member) as stream:
            yield stream


def is_zip(path: Path) -> bool:
    """Return whether a file begins as a zip archive. Raises: OSError."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _directory(path: Path) -> Mapping[str, ZipInfo] | None:
    """Return the members of an archive by name, None for another file; of equal names the first."""
    try:
        if not path.is_file() or not is_zip(path):
            return None
        facts = path.stat()
        return _read_directory(str(path), facts.st_size, facts.st_mtime_ns, facts.st_ino)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=4)
def _read_directory(path: str, *_state: int) -> Mapping[str, ZipInfo] | None:
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as archive:
            return {each.filename: each for each in reversed(archive.infolist())}
    except (BadZipFile, NotImplementedError, struct.error, IndexError, OverflowError):
        return None

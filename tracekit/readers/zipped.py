"""Files in a zip archive, each an input of its own: `traces.zip/rank0.pftrace`."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tracekit.errors import InputError

if TYPE_CHECKING:
    from zipfile import ZipFile

    from tracekit.readers._streams import Stream

_MAGIC = b"PK\x03\x04"
_ENCRYPTED = 1
_LEFT_OUT = ("__MACOSX/", ".")
"""Beginnings of names that macOS puts beside files, and of hidden ones."""


def members(path: Path) -> list[str]:
    """Return the names of the files in an archive, [] for any other file, also for one that cannot be read."""
    archive = _archive(path)
    if archive is None:
        return []
    with archive:
        names = [each.filename for each in archive.infolist() if not each.is_dir()]
    return sorted(
        name for name in dict.fromkeys(names) if not name.startswith(_LEFT_OUT) and not Path(name).name.startswith(".")
    )


def split(name: str) -> tuple[Path, str] | None:
    """Return the archive and the name in it of an input such as `traces.zip/rank0.pftrace`, None for another one."""
    for parent in Path(name).parents:
        try:
            if parent.is_file():
                return (parent, Path(name).relative_to(parent).as_posix()) if _is_zip(parent) else None
        except (OSError, ValueError):
            return None
    return None


@contextmanager
def opened(name: str, path: Path, member: str) -> Iterator[tuple[Stream, int]]:
    """Yield the bytes of a file in an archive, and its packed size. name: of the input. Raises: InputError."""
    from zipfile import BadZipFile

    archive = _archive(path)
    if archive is None:
        raise InputError(f"{path}: cannot be read as a zip archive", hint="copy it again")
    with archive:
        found = next((each for each in archive.infolist() if each.filename == member), None)
        if found is None:
            raise InputError(f"{name}: no such file in the zip archive", hint="is the name right?")
        if found.flag_bits & _ENCRYPTED:
            raise InputError(f"{name}: is encrypted", hint="unpack the archive with its password first")
        try:
            with archive.open(found) as stream:
                yield stream, found.compress_size
        except (BadZipFile, NotImplementedError, EOFError, zlib.error) as err:
            raise InputError(f"{name}: cannot be unpacked ({err})", hint="copy the archive again") from err


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def _archive(path: Path) -> ZipFile | None:
    try:
        if not path.is_file() or not _is_zip(path):
            return None
        from zipfile import BadZipFile, ZipFile

        try:
            return ZipFile(path)
        except (BadZipFile, NotImplementedError):
            return None
    except (OSError, ValueError):
        return None

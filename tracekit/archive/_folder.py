"""A folder of this machine that other processes change at the same time."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from tracekit.errors import InputError, OutputError


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, [] if another process has just removed it. (Path.glob would raise.)

    Raises: InputError where the system cannot read it.
    """
    try:
        return [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as err:
        raise cannot_read(str(folder), err) from err


def version_of(path: Path) -> tuple[int, int] | None:
    """Return what changes when another process puts a file at this place; None without one."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def sync_folder(folder: Path) -> None:
    """Write a new name to the disk, if the system can, so that it survives a power cut."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cannot_read(path: str, err: OSError) -> InputError:
    return InputError(f"cannot be read ({err.strerror or err})", path=path)


def cannot_write(path: str, err: OSError) -> OutputError:
    hint = "free some space" if err.errno == errno.ENOSPC else "check the permission to write"
    return OutputError(f"cannot be written ({err.strerror or err})", path=path, hint=hint)

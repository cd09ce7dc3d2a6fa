"""Unfinished files and folders of our own: they go when their work fails, and after a kill when the next process comes.

Each is locked while its process lives; the system releases the lock when the process ends, however it ends. The next
process that makes one in the same folder removes those of dead processes. A name has the host in it, for locks need not
work between hosts. Where a file system has no locks, and on Windows, what a killed process leaves stays.
"""

from __future__ import annotations

import os
import re
import shutil
import weakref
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

__all__ = ["SCRATCH", "Unfinished", "remove_dead", "temporary_folder", "unfinished_file", "unfinished_folder"]

PART = ".part"
SCRATCH = "tracekit-"
"""How the names of temporary folders begin."""
_TRIES = 100


class Unfinished:
    """A new file or folder. It is removed by `cleanup`, or with this object, unless it got another name before.

    path: of it. handle: of a file, open for writing and reading, to be closed by its user.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.handle = -1
        self._locks: list[int] = []
        self._end = weakref.finalize(self, _end, path, self._locks, os.getpid())

    @property
    def name(self) -> str:
        """The path as text."""
        return str(self.path)

    def cleanup(self) -> None:
        """Remove it, if it still has this name, and release its lock."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()

    def lock(self, handle: int) -> bool:
        """Lock it by an open handle, which is closed in the end. Return False where another process removes it.

        A file system without locks counts as locked.
        """
        self._locks.append(handle)
        fcntl = _locks()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self.path))  # noqa: PTH116
        except OSError:
            return False


def _end(path: Path, locks: list[int], maker: int) -> None:
    if os.getpid() == maker:  # a forked child only closes its copy of the lock
        with suppress(OSError):
            _remove(path)
    while locks:
        with suppress(OSError):
            os.close(locks.pop())


def unfinished_file(target: Path) -> Unfinished:
    """Return a new, private file beside the target. Raises: OSError."""
    remove_dead(target.parent)
    for _ in range(_TRIES):
        made = Unfinished(_new_path(target))
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
        made.handle = os.open(made.path, flags, 0o600)
        try:
            if _locks() is None or made.lock(os.dup(made.handle)):
                return made
        except BaseException:
            os.close(made.handle)
            raise
        os.close(made.handle)
    raise FileExistsError(f"no name for a new file beside {target}")


def unfinished_folder(target: Path) -> Unfinished:
    """Return a new, private folder beside the target. Raises: OSError."""
    remove_dead(target.parent)
    return _folder(lambda: _new_path(target))


def temporary_folder(prefix: str, folder: Path) -> Unfinished:
    """Return a new, private folder in `folder`. prefix: begins with `SCRATCH`. Raises: OSError."""
    remove_dead(folder)
    return _folder(lambda: folder.absolute() / f"{prefix}{_new_name()}")


def _folder(new_path: Callable[[], Path]) -> Unfinished:
    for _ in range(_TRIES):
        made = Unfinished(new_path())
        made.path.mkdir(0o700)
        if _locks() is None or made.lock(os.open(made.path, os.O_RDONLY | os.O_DIRECTORY)):
            return made
    raise FileExistsError(f"no name for a new folder like {new_path()}")


def _new_path(target: Path) -> Path:
    return target.parent / f".{target.name[:80]}.{_new_name()}{PART}"


def _new_name() -> str:
    return f"{_host()}-{os.urandom(4).hex()}"


@cache
def remove_dead(folder: Path) -> None:
    """Remove the unfinished files and folders of dead processes of this host and user, once in a process."""
    if _locks() is None:
        return
    ours = rf"(?:\..*\.{_host()}-[0-9a-f]{{8}}{re.escape(PART)}|{SCRATCH}(?:[a-z]+-)?{_host()}-[0-9a-f]{{8}})"
    pattern = re.compile(ours, re.DOTALL)
    with suppress(OSError), os.scandir(folder) as found:
        for each in [each for each in found if pattern.fullmatch(each.name)]:
            with suppress(OSError):
                _remove_if_dead(Path(each.path), is_folder=each.is_dir(follow_symlinks=False))


def _remove_if_dead(path: Path, *, is_folder: bool) -> None:
    fcntl = _locks()
    handle = os.open(path, os.O_NOFOLLOW | (os.O_RDONLY | os.O_DIRECTORY if is_folder else os.O_RDWR | os.O_NONBLOCK))
    try:
        if os.fstat(handle).st_uid == os.getuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(path)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@cache
def _locks() -> Any:
    """Return the module of the system's locks, None on Windows."""
    try:
        import fcntl
    except ImportError:
        return None
    return fcntl


@cache
def _host() -> str:
    name = os.uname().nodename if hasattr(os, "uname") else ""
    return f"{zlib.crc32(name.encode()):08x}"

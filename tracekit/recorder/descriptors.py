"""Files and stderr inside a process whose descriptors belong to the program.

A program may close descriptors that it did not open (daemons close all of them), and the system uses a closed number
again for the next file that is opened. So before each use the descriptor is compared with the file by device and
inode. A number that is not the file's any more is neither written to nor closed.

Between the comparison and the write, Python may run another thread for 5 ms and longer, and that thread may give the
number to another file. So the number is not among the lowest, which are the next to be used. And the file has a mark:
the flag O_NONBLOCK, which has no effect on regular files, and which opened files do not have. The mark is read last, by
a call that lets no other thread run.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from pathlib import Path
from typing import Any, Final

__all__ = ["LostFileError", "OwnFile", "print_line"]

if sys.platform != "win32":
    import resource

IS_WINDOWS: Final = sys.platform == "win32"
FIRST: Final = 3
"""Descriptors below are stdin, stdout and stderr, also in a program that was started without them."""
OUT_OF_THE_WAY: Final = 32
"""The system gives the lowest free numbers to new files. So few programs open a file under a number that was ours."""

SMALL: Final = 1 << 16
"""A smaller file may have a hole that the number of its blocks does not show."""

# The functions of the system as they are now: a program may put its own in their place.
_fstat, _close, _getpid = os.fstat, os.close, os.getpid
_is_blocking = getattr(os, "get_blocking", lambda _: False)


class LostFileError(OSError):
    """The descriptor is not the file's any more, or the process may not use it."""


class OwnFile:
    """A new file that this process alone writes. Its methods raise OSError, and LostFileError before they do harm.

    was_removed: the file had no name any more when it was last used, so that nobody can read it.
    """

    def __init__(self, path: Path) -> None:
        """Create the file. Raises: FileExistsError, OSError."""
        self._pid = _getpid()
        self._fd, self._is_readable = _created(path)
        found = _fstat(self._fd)
        self._identity = found.st_dev, found.st_ino
        self._had_name = found.st_nlink > 0  # some file systems do not count names
        self.was_removed = False
        self._is_marked = self._may_have_hole = False
        if not IS_WINDOWS:
            with contextlib.suppress(OSError):
                os.set_blocking(self._fd, False)
                self._is_marked = not _is_blocking(self._fd)

    def size(self) -> int:
        """Return the size, after a check that the descriptor is still that of the file."""
        if self._fd < 0:
            raise LostFileError("its descriptor was lost")
        if _getpid() != self._pid:
            raise LostFileError("the process was forked without Python's hooks")
        try:
            found = _fstat(self._fd)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            raise self._lost("was closed by the program") from error
        if (found.st_dev, found.st_ino) != self._identity:
            raise self._lost("belongs to another file now")
        self.was_removed = self._had_name and found.st_nlink == 0
        blocks = getattr(found, "st_blocks", 0)
        self._may_have_hole = found.st_size < SMALL or 512 * blocks + 8192 < found.st_size
        self._check_mark()
        return found.st_size

    def write(self, data: bytes, *, least: int = 0) -> bool:
        """Write where the last `write` ended; return false, and write nothing, where the file is shorter than `least`.

        Each call of the system costs a wait for the interpreter while other threads use it, so there are few.
        """
        view = memoryview(data)
        while len(view):
            size = self.size()
            if size < least:
                return False
            _check_limit(size + len(view))
            self._check_mark()
            view = view[os.write(self._fd, view) :]
        return True

    def write_at(self, offset: int, data: bytes, *, least: int) -> bool:
        """Write over what is there, as `write`. False also where the file begins with a hole.

        The next `write` goes on where the last one ended.
        """
        if self.size() < least or (self._may_have_hole and self.begins_with_hole()):
            return False
        _check_limit(offset + len(data))
        self._check_mark()
        if IS_WINDOWS:
            end = os.lseek(self._fd, 0, os.SEEK_CUR)
            os.lseek(self._fd, offset, os.SEEK_SET)
            os.write(self._fd, data)
            os.lseek(self._fd, end, os.SEEK_SET)
        else:
            os.pwrite(self._fd, data, offset)
        return True

    def go_to(self, offset: int) -> None:
        """Let the next `write` begin at an offset."""
        self.size()
        os.lseek(self._fd, offset, os.SEEK_SET)

    def cut(self, length: int) -> None:
        """Remove all behind a length."""
        if self.size() > length:
            os.ftruncate(self._fd, length)

    def begins_with_hole(self) -> bool:
        """Return whether the file begins with NUL: it was truncated between a look at its size and a write."""
        return self._is_readable and os.pread(self._fd, 1, 0) == b"\0"

    def close(self) -> None:
        """Close the descriptor if it is the file's. A forked child closes its copy. This does not raise."""
        self._pid = _getpid()
        with contextlib.suppress(OSError):
            self.size()
            _close(self._fd)
        self._fd = -1

    def _check_mark(self) -> None:
        """Do the last check before a write: another thread may have run since the others."""
        if self._is_marked and _is_blocking(self._fd):
            raise self._lost("belongs to another file now")

    def _lost(self, how: str) -> LostFileError:
        number, self._fd = self._fd, -1
        return LostFileError(f"its descriptor {number} {how}")


def _created(path: Path) -> tuple[int, bool]:
    """Return the descriptor of a new file, and whether it can be read: some mounts only take files that are written."""
    flags = os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    is_readable = hasattr(os, "pread")
    try:
        fd = os.open(path, flags | os.O_RDWR, 0o666)
    except FileExistsError:
        raise
    except OSError:
        fd, is_readable = os.open(path, flags | os.O_WRONLY, 0o666), False
    return _moved(fd), is_readable


def _moved(fd: int) -> int:
    """Return another descriptor of the file, out of the way of the program, and close this one."""
    if IS_WINDOWS:
        return fd
    import fcntl

    for lowest in (OUT_OF_THE_WAY, FIRST):
        with contextlib.suppress(OSError):  # the limit on descriptors is lower, or all are in use
            moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
            _close(fd)
            return moved
    if fd < FIRST:  # what a child of the program prints must not go into the log
        _close(fd)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    return fd


def _check_limit(size: int) -> None:
    """Raise OSError where the system does not let a file become so large.

    The write itself would also send a signal to the program, which may end it.
    """
    if sys.platform != "win32":
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit != resource.RLIM_INFINITY and size > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))


def print_line(text: str) -> None:
    """Write one line to stderr, if there is a stderr. This does not raise.

    A failed write leaves nothing in a buffer, which Python would try to write again at exit, with exit code 120. And
    where the program has closed stderr, a file that it opened may have the number 2: Python closes its files in child
    processes, but not what is meant as stderr. Such a file gets no line.
    """
    line = " ".join(text.split()) + "\n"
    with contextlib.suppress(Exception):
        stream = sys.stderr
        if type(stream) is not io.TextIOWrapper:  # of a notebook, a test, the program
            stream.write(line)
            stream.flush()
            return
        stream.flush()
        fd = stream.fileno()
        if IS_WINDOWS or fd >= FIRST or os.get_inheritable(fd):
            unbuffered: Any = getattr(stream.buffer, "raw", stream.buffer)
            unbuffered.write(line.encode(stream.encoding, "backslashreplace"))

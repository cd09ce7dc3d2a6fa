"""A fence around a process that reads untrusted files: it opens files of the named folders and no others.

Names are checked before (`folders`). This is the second check, for files that a reader or a library opens on its own:
Python reports every file, connection and program that it opens (PEP 578), and the fence refuses those outside. It
cannot be taken down again. Libraries in C that open files themselves do not report them.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

__all__ = ["put_up"]

_SYSTEM_FILES = frozenset(
    [
        "/dev/null",
        "/dev/urandom",
        "/etc/localtime",
        "/proc/cpuinfo",
        "/proc/meminfo",
        *(f"/proc/self/{name}" for name in ("cgroup", "maps", "mountinfo", "stat", "statm", "status")),
    ]
)
"""Files of the system that libraries ask about the machine."""
_SYSTEM_FOLDERS = ("/usr/share/zoneinfo", "/sys/fs/cgroup", "/sys/devices/system")
_FILES = frozenset(["open", "os.listdir", "os.scandir"])
_CHANGES = frozenset(["os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"])
_NETWORK = frozenset(["socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"])
_PROGRAMS = frozenset(["subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.startfile"])
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def put_up(folders: Iterable[Path], scratch: Path) -> None:
    """Let this process read only these folders, Python's own and `scratch`, and write only to `scratch`."""
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(os.__file__).parent), *filter(None, sys.path)]
    rules = filter(None, [os.environ.get("TRACEKIT_KERNEL_CLASSES")])  # a file of the user's own
    readable = _folders([*map(str, folders), *python, *rules, *_SYSTEM_FOLDERS, str(scratch)])
    writable = _folders([str(scratch)])
    program = sys.executable

    def guard(event: str, args: tuple[object, ...]) -> None:
        if event in _FILES:
            flags = args[2] if event == "open" and len(args) > 2 else 0
            writes = isinstance(flags, int) and bool(flags & _WRITES)
            _refuse_outside(args[0], writable if writes else readable, writes=writes)
        elif event in _CHANGES:
            for path in args[:2]:
                _refuse_outside(path, writable, writes=True)
        elif event == "sqlite3.connect":
            _refuse_outside(_database(args[0]), readable, writes=False)
        elif event in _NETWORK or (event in _PROGRAMS and args[0] != program):
            raise PermissionError(errno.EACCES, "the server for agents opens no connection and no program")

    sys.addaudithook(guard)


def _folders(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the folders without links, each with a separator at its end."""
    return tuple(dict.fromkeys(f"{os.path.realpath(path)}{os.sep}" for path in paths))


def _refuse_outside(path: object, folders: tuple[str, ...], *, writes: bool) -> None:
    """Raise PermissionError for a path outside of the folders; a file that is open already has a number, not a path."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return
    text = os.fsdecode(path)
    real = os.path.realpath(text)
    if f"{real}{os.sep}".startswith(folders) or text in ({"/dev/null"} if writes else _SYSTEM_FILES):
        return
    raise PermissionError(errno.EACCES, "outside the folders of the server for agents", text)


def _database(given: object) -> object:
    """Return the path of a database that may be given as a URI; None for one in memory."""
    if not isinstance(given, (str, bytes)):
        return given
    text = os.fsdecode(given)
    if text in ("", ":memory:"):
        return None
    return unquote(text.removeprefix("file:").partition("?")[0]).replace("//", "/", 1) if text[:5] == "file:" else text

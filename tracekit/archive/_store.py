"""The place of an archive: a local folder or an fsspec URL. A file gets its name when it is complete."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from filelock import FileLock, Timeout

from tracekit.errors import InputError, MissingExtraError, OutputError, TracekitError
from tracekit.lazy_dataclass import dataclass
from tracekit.safety.scratch import scratch_file, scratch_folder

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

# A folder of this machine that other processes change at the same time.


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


TABLES = ("events", "totals")
"""The top folders of an archive."""
WORKSPACE = ".adding-"
"""Prefix of the folder in which a local add prepares its file. A killed add leaves the folder."""
COPY_BYTES = 1 << 20
_NO_LOCK = (Timeout, OSError, NotImplementedError)
OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory"})
"""Stores where an object appears when it is complete. In others, a file is written under another name first."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One file. name: relative to the archive, with /. path: what every command takes as an input. modified: Unix s.

    problem: why it cannot be read (a folder without permission, a broken link, a pipe), "" for a regular file.
    unknown: the system could not look at it.
    """

    name: str
    path: str
    size: int
    modified: float = 0.0
    problem: str = ""
    unknown: bool = False


class Store(Protocol):
    """The operations of an archive on its place. All methods raise only TracekitError."""

    root: str
    remote: bool

    def files(self, pattern: str = "*") -> list[StoredEntry]:
        """Return the files whose relative name matches, sorted by name; * also matches /."""

    def below(self, run: str, pattern: str) -> list[StoredEntry]:
        """Return the matching files in the folders of a run ("run=NAME"), of any table and date."""

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading, with seek."""

    def workspace(self, within: Path | None = None) -> contextlib.AbstractContextManager[Path]:
        """Return a context with a local folder from which `put` is cheap; removed at the end. within: its parent."""

    def put(self, local: Path, name: str) -> None:
        """Move a file of the workspace to its name, and replace an existing file."""

    def delete(self, name: str) -> None:
        """Remove a file if it exists, and its folder if that is empty then."""

    def local(self, name: str) -> contextlib.AbstractContextManager[Path]:
        """Return a context with the file's bytes as a local file."""

    def arrow(self) -> tuple[FileSystem, str]:
        """Return the place as an Arrow file system, and the path in it."""


def open_store(root: str | Path, *, create: bool = False) -> Store:
    """Return the place of an archive. create: make the folder if there is none.

    Raises: InputError without such a folder, MissingExtraError for a URL without fsspec, OutputError.
    """
    text = str(root)
    if not text.strip():
        raise InputError("the archive has an empty name", hint="is a variable of the shell unset?")
    if "://" in text and not text.startswith("file://"):
        return _Remote(text.rstrip("/"))
    path = Path(text.removeprefix("file://"))
    if create:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as err:
            raise OutputError(f"cannot be made a folder ({err.strerror or err})", path=root) from err
    if not path.is_dir():
        reason = "not a folder" if path.exists() else "no such archive"
        raise InputError(reason, path=root, hint="`tracekit archive add ARCHIVE INPUT...` makes one")
    store = _LocalFolder(path)
    if create:
        store.remove_dead_workspaces()
    return store


class _LocalFolder:
    """A folder of this machine."""

    remote = False

    def __init__(self, path: Path) -> None:
        self.root = str(path)
        self._path = path

    def files(self, pattern: str = "*") -> list[StoredEntry]:
        found: list[StoredEntry] = []

        def note_problem(err: OSError) -> None:
            path = Path(str(err.filename))
            if not isinstance(err, FileNotFoundError):  # another process has just removed it
                name = path.relative_to(self._path).as_posix()
                reason = f"cannot be read ({err.strerror or err})"
                found.append(StoredEntry(name, str(path), 0, problem=reason, unknown=True))

        # Links too, as `below` does: the runs of old days may be on another disk.
        for folder, inner, names in os.walk(self._path, onerror=note_problem, followlinks=True):
            for path in [path for name in inner if self._leads_back(path := Path(folder, name))]:
                inner.remove(path.name)
                name = path.relative_to(self._path).as_posix()
                found.append(StoredEntry(name, str(path), 0, problem="a link to a folder above it"))
            found += self._listed(Path(folder).relative_to(self._path).as_posix(), names, pattern)
        return sorted(found, key=lambda each: each.name)

    def _leads_back(self, path: Path) -> bool:
        """Return whether a folder is a link to one that it is in: whoever follows it has no end."""
        if not path.is_symlink():
            return False
        target = path.resolve()
        within = [parent for parent in path.parents if parent.is_relative_to(self._path)]
        return any(parent.resolve().is_relative_to(target) for parent in within)

    def below(self, run: str, pattern: str) -> list[StoredEntry]:
        folders = [
            f"{table}/{day}/{run}"
            for table in TABLES
            for day in names_in(self._path / table)
            if day.startswith("date=")
        ]
        found = [
            stored
            for folder in folders
            for stored in self._listed(folder, names_in(self._path / folder), f"{folder}/{pattern}")
        ]
        return sorted(found, key=lambda each: each.name)

    def _listed(self, folder: str, names: Iterable[str], pattern: str) -> list[StoredEntry]:
        """Return the matching files of a list of names.

        If one is gone by now, another process may have put a new file in its place that the list lacks: list again.
        """
        while True:
            relative = ((Path(folder) / name).as_posix() for name in names)
            found = [self._stored(name) for name in relative if fnmatch.fnmatchcase(name, pattern)]
            there = [stored for stored in found if stored is not None]
            if len(there) == len(found):
                return there
            names = [name for name in names_in(self._path / folder) if not (self._path / folder / name).is_dir()]

    def _stored(self, name: str) -> StoredEntry | None:
        """Return what is known of a file; None if another process has just removed it."""
        path = self._path / name
        try:
            facts = path.stat()
        except FileNotFoundError:
            if path.is_symlink():
                return StoredEntry(name, str(path), 0, problem="a link to a missing file")
            return None
        except OSError as err:
            return StoredEntry(name, str(path), 0, problem=f"cannot be read ({err.strerror or err})", unknown=True)
        if not stat.S_ISREG(facts.st_mode):  # opening a pipe would wait for its writer
            return StoredEntry(name, str(path), 0, problem="not a regular file")
        return StoredEntry(name, str(path), facts.st_size, facts.st_mtime)

    def open(self, name: str) -> BinaryIO:
        try:
            return (self._path / name).open("rb")
        except OSError as err:
            raise cannot_read(str(self._path / name), err) from err

    @contextlib.contextmanager
    def workspace(self, within: Path | None = None) -> Iterator[Path]:
        while True:
            try:
                folder = tempfile.TemporaryDirectory(
                    prefix=WORKSPACE, dir=within or self._path, ignore_cleanup_errors=True
                )
            except OSError as err:
                raise cannot_write(self.root, err) from err
            with folder as name, _alive(Path(name)) as ours:
                if ours:
                    yield Path(name)
                    return

    def remove_dead_workspaces(self) -> None:
        """Remove the workspaces of this machine whose process was killed: the system has released their lock.

        One that is still empty goes too: if its process lives, it makes another one.
        """
        for name in names_in(self._path):
            folder = self._path / name
            with contextlib.suppress(*_NO_LOCK):  # OSError also for one of another user, whose own next add removes it
                if name.startswith(WORKSPACE) and (folder / _lock_name()).is_file():
                    with FileLock(folder / _lock_name(), timeout=0):
                        shutil.rmtree(folder, ignore_errors=True)
                elif name.startswith(WORKSPACE):
                    folder.rmdir()

    def put(self, local: Path, name: str) -> None:
        target = self._path / name
        try:
            with local.open("rb") as file:
                os.fsync(file.fileno())
            for attempt in range(8):
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    local.replace(target)
                    break
                except FileNotFoundError:
                    # A prune may remove the empty folder between the two steps.
                    if attempt == 7 or not local.exists():
                        raise
            sync_folder(target.parent)
        except OSError as err:
            raise cannot_write(str(target), err) from err

    def delete(self, name: str) -> None:
        target = self._path / name
        try:
            target.unlink(missing_ok=True)
        except OSError as err:
            raise cannot_write(str(target), err) from err
        for folder in target.parents:
            if folder == self._path:
                break
            try:
                folder.rmdir()
            except OSError:
                break  # not empty

    @contextlib.contextmanager
    def local(self, name: str) -> Iterator[Path]:
        yield self._path / name

    def arrow(self) -> tuple[FileSystem, str]:
        from pyarrow import fs

        return fs.LocalFileSystem(), self.root


def _lock_name() -> str:
    """Return the name of the lock in a workspace of this machine. Locks need not work between machines."""
    return f"alive-{socket.gethostname()}"


@contextlib.contextmanager
def _alive(workspace: Path) -> Iterator[bool]:
    """Lock a workspace while its process lives. Yield whether it is ours.

    Until it is locked it looks like that of a dead process, so another one may take it, and remove it.
    """
    lock = FileLock(workspace / _lock_name())
    try:
        lock.acquire(timeout=0)
        ours = Path(lock.lock_file).is_file()
    except Timeout:
        ours = False
    except (OSError, NotImplementedError):  # a file system without locks: `prune` removes it when it is a day old
        ours = workspace.is_dir()
    try:
        yield ours
    finally:
        lock.release()


class _Remote:
    """A URL that fsspec knows. Login and endpoint come from the environment, as for other tools of that store."""

    remote = True

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as err:
            raise MissingExtraError(f"the archive {url}", "remote") from err
        self.root = url
        try:
            # Other processes may add files: a cached listing would hide them.
            self._fs, self._path = fsspec.core.url_to_fs(url, use_listings_cache=False)
        except ImportError as err:
            raise MissingExtraError(f"the archive {url}", "remote") from err
        except ValueError as err:
            raise InputError(
                f"not a known kind of place ({err})", path=url, hint="use a folder or a URL such as s3://BUCKET/FOLDER"
            ) from err
        protocol = self._fs.protocol
        self._objects = not OBJECT_STORES.isdisjoint([protocol] if isinstance(protocol, str) else protocol)

    def arrow(self) -> tuple[FileSystem, str]:
        from pyarrow import fs

        handler: Callable[[object], fs.FileSystemHandler] = fs.FSSpecHandler  # pyarrow-stubs calls it abstract
        return fs.PyFileSystem(handler(self._fs)), self._path

    def files(self, pattern: str = "*") -> list[StoredEntry]:
        with self._translated_errors():
            self._fs.invalidate_cache()
            try:
                found = self._fs.find(self._path, detail=True)
            except FileNotFoundError as err:
                raise InputError("no such place", path=self.root, hint="check that the bucket exists") from err
            if not found and not self._objects:
                # find() takes any failure of a server for an empty folder.
                with contextlib.suppress(FileNotFoundError):
                    self._fs.ls(self._path, detail=False)
        out = []
        for path, facts in found.items():
            name = path[len(self._path) :].lstrip("/")
            if name and fnmatch.fnmatchcase(name, pattern):
                changed = facts.get("LastModified") or facts.get("mtime") or facts.get("created")
                modified = changed.timestamp() if hasattr(changed, "timestamp") else float(changed or 0)
                out.append(StoredEntry(name, f"{self.root}/{name}", int(facts["size"]), modified))
        return sorted(out, key=lambda each: each.name)

    def below(self, run: str, pattern: str) -> list[StoredEntry]:
        return self.files(f"*/date=*/{run}/{pattern}")

    def open(self, name: str) -> BinaryIO:
        with self._translated_errors():
            file: BinaryIO = self._fs.open(f"{self._path}/{name}", "rb")
            return file

    @contextlib.contextmanager
    def workspace(self, within: Path | None = None) -> Iterator[Path]:
        with scratch_folder(within=within) as folder:
            yield folder

    def put(self, local: Path, name: str) -> None:
        with self._translated_errors(writing=True):
            target = f"{self._path}/{name}"
            if self._objects:
                self._fs.put_file(str(local), target)
                return
            part = f"{self._path}/{WORKSPACE}{Path(name).name}.{os.getpid()}"
            self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            self._fs.put_file(str(local), part)
            self._fs.mv(part, target)

    def delete(self, name: str) -> None:
        with self._translated_errors(writing=True), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._path}/{name}")

    @contextlib.contextmanager
    def local(self, name: str) -> Iterator[Path]:
        with scratch_folder() as folder:
            path = folder / Path(name).name
            with (
                self._translated_errors(),
                self._fs.open(f"{self._path}/{name}", "rb") as file,
                scratch_file(path) as out,
            ):
                shutil.copyfileobj(file, out, COPY_BYTES)
            yield path

    @contextlib.contextmanager
    def _translated_errors(self, *, writing: bool = False) -> Iterator[None]:
        """Turn the exceptions of the store's library into one sentence."""
        try:
            yield
        except TracekitError:
            raise
        except remote_errors() as err:
            text = (str(err).strip().splitlines() or [""])[0] or type(err).__name__
            kind = OutputError if writing else InputError
            raise kind(
                f"{self.root}: cannot be {'written' if writing else 'read'} ({text})",
                hint="check the address, and the login in the environment",
            ) from err


def remote_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of object stores for a place that cannot be reached or a refused login."""
    found: list[type[Exception]] = [OSError, ValueError, TimeoutError, NotImplementedError]
    with contextlib.suppress(ImportError):
        from botocore.exceptions import BotoCoreError, ClientError

        found += [BotoCoreError, ClientError]
    with contextlib.suppress(ImportError):
        from aiohttp import ClientError as WebError

        found.append(WebError)
    return tuple(found)

"""Where an archive lies: a local folder, or a URL that fsspec knows. A file appears in it whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from tracekit.errors import InputError, MissingExtraError, OutputError, TracekitError

TABLES = ("events", "totals")
"""The top folders of an archive."""
WORKSPACE = ".adding-"
"""Local adds prepare their file in a folder of this prefix; one that is left was killed in the middle."""
COPY_BYTES = 1 << 20
OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory"})
"""Where an object appears when it is complete; elsewhere a file is written under another name first."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One file. name: relative to the archive, with /. path: what every command takes as an input. modified: Unix s.

    problem: why it cannot be read at all (a folder without permission, a broken link, a pipe), "" for a usual file.
    """

    name: str
    path: str
    size: int
    modified: float = 0.0
    problem: str = ""


class Store(Protocol):
    """What an archive needs of the place where it lies. All methods raise TracekitError alone."""

    root: str
    remote: bool

    def files(self, pattern: str = "*") -> list[Stored]:
        """Return the files whose relative name matches (* matches / too), sorted by name."""

    def below(self, run: str, pattern: str) -> list[Stored]:
        """Return the files of that pattern in a run's folders ("run=NAME"), whatever their table and date."""

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; it can be sought."""

    def workspace(self, within: Path | None = None) -> contextlib.AbstractContextManager[Path]:
        """Give a local folder from which `put` is cheap, in `within` if that is named; it vanishes afterwards."""

    def put(self, local: Path, name: str) -> None:
        """Give a file of the workspace its name, in place of what is there."""

    def delete(self, name: str) -> None:
        """Remove a file, if it is there still, and its folder, if it is empty now."""

    def local(self, name: str) -> contextlib.AbstractContextManager[Path]:
        """Give the file's bytes as a local file."""

    def arrow(self) -> tuple[Any, str]:
        """Return the place as an Arrow file system, and the path in it."""


def open_store(root: str | Path, *, create: bool = False) -> Store:
    """Return the place of an archive. create: make the folder if there is none.

    Raises: InputError where there is no such folder, MissingExtraError for a URL without fsspec, OutputError.
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
            raise OutputError(f"{root}: cannot be made a folder ({err.strerror or err})") from err
    if not path.is_dir():
        reason = "is no folder" if path.exists() else "no such archive"
        raise InputError(f"{root}: {reason}", hint="`tracekit archive add ARCHIVE INPUT...` makes one")
    return _Local(path)


class _Local:
    """A folder of this machine."""

    remote = False

    def __init__(self, path: Path) -> None:
        self.root = str(path)
        self._path = path

    def files(self, pattern: str = "*") -> list[Stored]:
        found: list[Stored] = []

        def unread(err: OSError) -> None:
            path = Path(str(err.filename))
            if not isinstance(err, FileNotFoundError):  # gone is no problem: another process has removed it
                name = path.relative_to(self._path).as_posix()
                found.append(Stored(name, str(path), 0, problem=f"cannot be read ({err.strerror or err})"))

        for folder, _, names in os.walk(self._path, onerror=unread):
            inside = Path(folder).relative_to(self._path)
            for name in names:
                relative = (inside / name).as_posix()
                if not fnmatch.fnmatchcase(relative, pattern):
                    continue
                found += self._stored(relative)
        return sorted(found, key=lambda each: each.name)

    def below(self, run: str, pattern: str) -> list[Stored]:
        names = [
            f"{table}/{day}/{run}/{name}"
            for table in TABLES
            for day in names_in(self._path / table)
            if day.startswith("date=")
            for name in names_in(self._path / table / day / run)
            if fnmatch.fnmatchcase(name, pattern)
        ]
        return [stored for name in sorted(names) for stored in self._stored(name)]

    def _stored(self, name: str) -> list[Stored]:
        path = self._path / name
        try:
            facts = path.stat()
        except FileNotFoundError:
            if path.is_symlink():
                return [Stored(name, str(path), 0, problem="a link to a file that is not there")]
            return []  # another process has just removed it
        except OSError as err:
            return [Stored(name, str(path), 0, problem=f"cannot be read ({err.strerror or err})")]
        if not stat.S_ISREG(facts.st_mode):  # a pipe would wait for its writer for ever
            return [Stored(name, str(path), 0, problem="no regular file")]
        return [Stored(name, str(path), facts.st_size, facts.st_mtime)]

    def open(self, name: str) -> BinaryIO:
        try:
            return (self._path / name).open("rb")
        except OSError as err:
            raise _cannot_read(str(self._path / name), err) from err

    @contextlib.contextmanager
    def workspace(self, within: Path | None = None) -> Iterator[Path]:
        try:
            folder = tempfile.TemporaryDirectory(prefix=WORKSPACE, dir=within or self._path, ignore_cleanup_errors=True)
        except OSError as err:
            raise _cannot_write(self.root, err) from err
        with folder as name:
            yield Path(name)

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
                    # A prune removes empty folders: ours may have gone between the two steps.
                    if attempt == 7 or not local.exists():
                        raise
            _sync_folder(target.parent)
        except OSError as err:
            raise _cannot_write(str(target), err) from err

    def delete(self, name: str) -> None:
        target = self._path / name
        try:
            target.unlink(missing_ok=True)
        except OSError as err:
            raise _cannot_write(str(target), err) from err
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

    def arrow(self) -> tuple[Any, str]:
        from pyarrow import fs

        return fs.LocalFileSystem(), self.root


def names_in(folder: Path) -> list[str]:
    """Return what is in a folder; one that another process has just removed holds nothing. (Path.glob would raise.)"""
    try:
        return [path.name for path in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _sync_folder(folder: Path) -> None:
    """Make a new name last through a loss of power, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _Remote:
    """A URL that fsspec knows. Login and endpoint come from the environment, as for every tool of that store."""

    remote = True

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as err:
            raise MissingExtraError(f"the archive {url}", "remote") from err
        self.root = url
        try:
            # Other processes add while we look: a listing kept from before would hide their files.
            self._fs, self._path = fsspec.core.url_to_fs(url, use_listings_cache=False)
        except ImportError as err:
            raise MissingExtraError(f"the archive {url}", "remote") from err
        except ValueError as err:
            raise InputError(f"{url}: no place that I know ({err})", hint="s3://BUCKET/FOLDER, for example") from err
        protocol = self._fs.protocol
        self._objects = not OBJECT_STORES.isdisjoint([protocol] if isinstance(protocol, str) else protocol)

    def arrow(self) -> tuple[Any, str]:
        from pyarrow import fs

        return fs.PyFileSystem(fs.FSSpecHandler(self._fs)), self._path

    def files(self, pattern: str = "*") -> list[Stored]:
        with self._told():
            self._fs.invalidate_cache()
            try:
                found = self._fs.find(self._path, detail=True)
            except FileNotFoundError as err:
                raise InputError(f"{self.root}: no such place", hint="does the bucket exist?") from err
        out = []
        for path, facts in found.items():
            name = path[len(self._path) :].lstrip("/")
            if name and fnmatch.fnmatchcase(name, pattern):
                changed = facts.get("LastModified") or facts.get("mtime") or facts.get("created")
                modified = changed.timestamp() if hasattr(changed, "timestamp") else float(changed or 0)
                out.append(Stored(name, f"{self.root}/{name}", int(facts["size"]), modified))
        return sorted(out, key=lambda each: each.name)

    def below(self, run: str, pattern: str) -> list[Stored]:
        return self.files(f"*/date=*/{run}/{pattern}")

    def open(self, name: str) -> BinaryIO:
        with self._told():
            return cast(BinaryIO, self._fs.open(f"{self._path}/{name}", "rb"))

    @contextlib.contextmanager
    def workspace(self, within: Path | None = None) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="tracekit-", dir=within) as folder:
            yield Path(folder)

    def put(self, local: Path, name: str) -> None:
        with self._told(writing=True):
            target = f"{self._path}/{name}"
            if self._objects:
                self._fs.put_file(str(local), target)
                return
            part = f"{self._path}/{WORKSPACE}{Path(name).name}.{os.getpid()}"
            self._fs.makedirs(target.rpartition("/")[0], exist_ok=True)
            self._fs.put_file(str(local), part)
            self._fs.mv(part, target)

    def delete(self, name: str) -> None:
        with self._told(writing=True), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._path}/{name}")

    @contextlib.contextmanager
    def local(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="tracekit-") as folder:
            path = Path(folder) / Path(name).name
            with self._told(), self._fs.open(f"{self._path}/{name}", "rb") as file, path.open("wb") as out:
                shutil.copyfileobj(file, out, COPY_BYTES)
            yield path

    @contextlib.contextmanager
    def _told(self, *, writing: bool = False) -> Iterator[None]:
        """Turn what stores raise (each library its own) into one sentence."""
        try:
            yield
        except TracekitError:
            raise
        except remote_errors() as err:
            text = (str(err).strip().splitlines() or [""])[0] or type(err).__name__
            kind = OutputError if writing else InputError
            raise kind(
                f"{self.root}: cannot be {'written' if writing else 'read'} ({text})",
                hint="is the address right, and the login in the environment?",
            ) from err


def remote_errors() -> tuple[type[Exception], ...]:
    """Return what libraries of object stores raise where a place cannot be reached, or a login is refused."""
    found: list[type[Exception]] = [OSError, ValueError, TimeoutError, NotImplementedError]
    with contextlib.suppress(ImportError):
        from botocore.exceptions import BotoCoreError, ClientError

        found += [BotoCoreError, ClientError]
    return tuple(found)


def _cannot_read(path: str, err: OSError) -> InputError:
    return InputError(f"{path}: cannot be read ({err.strerror or err})")


def _cannot_write(path: str, err: OSError) -> OutputError:
    hint = "free some space" if err.errno == errno.ENOSPC else "is there permission to write?"
    return OutputError(f"{path}: cannot be written ({err.strerror or err})", hint=hint)

"""Files made for the browser, kept in the user's cache folder for the next time: by content, private, bounded.

An entry is a folder, named by the hash of all that decides about its content, with the file and what was said when it
was made. It is made under another name and gets its own at the end, so that nobody sees a half-written one.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path

from tracekit.lazy_dataclass import dataclass
from tracekit.safety.scratch import scratch_folder
from tracekit.safety.unfinished import unfinished_folder

__all__ = ["MOST_BYTES", "Made", "cache_folder", "digest", "entry", "prune"]

MOST_BYTES = 2 << 30
MOST_ENTRIES = 64
_SAID = "said.json"
_UNFINISHED = "."
_STALE_S = 86_400
"""Age of an unfinished entry whose maker is taken to be dead."""


@dataclass(slots=True)
class Made:
    """A file for the browser. said: sentences about it for the user. keep: whether it may be used another time."""

    path: Path
    said: list[str] = field(default_factory=list)
    keep: bool = True


def cache_folder() -> Path | None:
    """Return the folder of the entries, for this user alone; None where there can be none."""
    import platformdirs

    try:
        folder = platformdirs.user_cache_path("tracekit", appauthor=False) / "open"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if hasattr(os, "getuid"):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                return None
            if stat.S_IMODE(status.st_mode) & 0o077:
                folder.chmod(0o700)
    except (OSError, RuntimeError):  # no home, or not ours
        return None
    return folder


@contextmanager
def entry(folder: Path | None, key: str, name: str, make: Callable[[Path], Made]) -> Iterator[Made]:
    """Give the file of a key: the kept one, or a new one that `make` writes to the path that it gets.

    folder: None, or "" as the key, for a file that is there within the block alone.
    """
    if folder is not None and key and (kept := _found(folder, key, name)) is not None:
        yield kept
        return
    with _workspace(folder, key or name) as work:
        new = make(work / name)
        new.path.chmod(0o600)
        if folder is not None and key and new.keep and _bytes(work) <= MOST_BYTES:
            with suppress(OSError):  # the disk is full, or somebody else has just made it
                (work / _SAID).write_text(json.dumps(new.said), encoding="utf-8")
                work.rename(folder / key)
            if (kept := _found(folder, key, name)) is not None:
                new.path = kept.path
            prune(folder, spare=key)
        yield new


@contextmanager
def _workspace(folder: Path | None, key: str) -> Iterator[Path]:
    """Yield a new private folder: of the cache, or where that is full or missing, a temporary one."""
    if folder is not None:
        try:
            workspace = unfinished_folder(folder / key)
        except OSError:
            workspace = None
        if workspace is not None:
            with workspace:
                yield workspace.path
            return
    with scratch_folder() as work:
        yield work


def _found(folder: Path, key: str, name: str) -> Made | None:
    """Return the kept file, which is now the one that was used last."""
    place = folder / key
    try:
        lines = json.loads((place / _SAID).read_text(encoding="utf-8"))
        with (place / name).open("rb"):
            os.utime(place)
    except (OSError, ValueError):
        return None
    return Made(place / name, [str(text) for text in lines])


def prune(folder: Path, *, spare: str = "", most_bytes: int | None = None, most_entries: int | None = None) -> None:
    """Remove the entries that were not used for the longest time, until the rest is small enough.

    spare: an entry that stays. Others may remove or make entries at the same time.
    """
    most_bytes = MOST_BYTES if most_bytes is None else most_bytes
    most_entries = MOST_ENTRIES if most_entries is None else most_entries
    used: list[tuple[float, Path]] = []
    for place in folder.iterdir():
        with suppress(OSError):
            age = place.stat().st_mtime
            if not place.name.startswith(_UNFINISHED):
                used.append((age, place))
            elif time.time() - age > _STALE_S:
                shutil.rmtree(place, ignore_errors=True)
    size = 0
    newest = sorted(used, key=lambda each: (each[1].name == spare, each[0]), reverse=True)
    for count, (_, place) in enumerate(newest, 1):
        size += _bytes(place)
        if place.name != spare and (size > most_bytes or count > most_entries):
            _remove(place)


def _remove(place: Path) -> None:
    """Remove an entry: first its name, so that nobody finds half of it."""
    gone = place.with_name(f"{_UNFINISHED}{place.name}-{os.getpid()}")
    with suppress(OSError):
        place.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _bytes(place: Path) -> int:
    size = 0
    for path in place.rglob("*"):
        with suppress(OSError):
            size += path.stat().st_size
    return size


def digest(files: Sequence[Path], facts: object) -> str:
    """Return the key of an entry: the hash of the bytes of some files, and of facts that JSON can write.

    Returns "" if one is not a regular file, which could not be read twice, or cannot be read: its reader says why.
    """
    import hashlib

    whole = hashlib.sha256(json.dumps(facts, sort_keys=True).encode("utf-8", "surrogateescape"))
    for path in files:
        if not path.is_file():
            return ""
        try:
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        except OSError:
            return ""
    return whole.hexdigest()

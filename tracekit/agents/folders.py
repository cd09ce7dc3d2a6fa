"""The folders that the user names, and the profiles in them by name. A name never leads out of the folders.

A profile's name is FOLDER/PATH, where FOLDER is the last part of a folder's own path. Refused are "..", "~", URLs,
links that lead out, and anything that is not a regular file or a folder, such as a FIFO or a device.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from tracekit.errors import InputError, UsageError
from tracekit.inputs.paths import files_of
from tracekit.lazy_dataclass import dataclass

__all__ = ["MOST_FILES", "Fingerprint", "ProfileFolders", "profile_folders"]

MOST_FILES = 20_000
"""Files of a folder that are looked at when it is named as one profile."""
_SYSTEM = ("/", "/proc", "/sys", "/dev")
"""Folders that are refused, and all that is in them but for the first."""
_BESIDE = ("-wal", "-journal", "-shm")
"""Ends of the names of files that SQLite reads beside a database."""

Fingerprint = tuple[tuple[str, int, int, int], ...]
"""Path, inode, time of change and size of each file of a profile: whether it has changed since it was read."""


@dataclass(frozen=True, slots=True)
class ProfileFolders:
    """The folders by their labels, each without links in its path."""

    by_label: dict[str, Path]

    def name_of(self, path: Path) -> str:
        """Return the name of a path inside one of the folders."""
        for label, root in self.by_label.items():
            if path == root:
                return label
            if path.is_relative_to(root):
                return f"{label}/{path.relative_to(root).as_posix()}"
        raise _outside(str(path))

    def named(self, text: str) -> str:
        """Return a text with the names of profiles in place of their paths."""
        for label, root in self.by_label.items():
            text = text.replace(f"{root}{os.sep}", f"{label}/")
        return text

    def path_of(self, name: str) -> Path:
        """Return the file or folder of that name, without links in its path. Raises: UsageError, InputError."""
        if not name.strip() or "\0" in name:
            raise UsageError("a profile has an empty name", hint="the tool `profiles` lists the names")
        if "://" in name or name.startswith("~") or ".." in PurePath(name.replace("\\", "/")).parts:
            raise _outside(name)
        for candidate in self._candidates(name):
            try:
                found = candidate.resolve(strict=True)
                mode = found.stat().st_mode
            except (OSError, ValueError, RuntimeError):  # RuntimeError: links in a circle, before Python 3.13
                continue
            if not self.holds(found):
                raise _outside(name)
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise InputError("neither a file nor a folder", path=name, hint="the tool `profiles` lists the names")
            self._refuse_links_out(found, name)
            return found
        if Path(name).is_absolute():
            raise _outside(name)
        raise InputError("no such profile", path=name, hint="the tool `profiles` lists the names")

    def _candidates(self, name: str) -> Iterator[Path]:
        """Give the paths that a name may mean. Of absolute paths only those below a folder are looked at."""
        if Path(name).is_absolute():
            plain = Path(os.path.normpath(name))
            if self.holds(plain):
                yield plain
            return
        label, _, rest = name.partition("/")
        if label in self.by_label:
            yield self.by_label[label] / rest
        for root in self.by_label.values():
            yield root / name

    def holds(self, path: Path) -> bool:
        """Return whether a path without links is one of the folders or inside one."""
        return any(path == root or path.is_relative_to(root) for root in self.by_label.values())

    def _refuse_links_out(self, path: Path, name: str) -> None:
        """Raise UsageError where reading the path would follow a link out of the folders."""
        if path.is_dir():
            links = [each for each in _entries(path, name) if each.is_symlink()]
        else:
            links = [each for end in _BESIDE if (each := path.with_name(path.name + end)).is_symlink()]
            links += [each for each in files_of(path) if each.is_symlink()]  # the other tables of an export
        for link in links:
            if not self.holds(Path(os.path.realpath(link))):
                raise UsageError(
                    f"{self.name_of(link)} is a link that leads out of the folders of this server",
                    hint="name single files, or start the server with the other folder too",
                )

    def fingerprint(self, path: Path) -> Fingerprint:
        """Return what changes when the profile is written again."""
        files = [each for each in _entries(path, str(path)) if each.is_file()] if path.is_dir() else files_of(path)
        files += [each for file in files for end in _BESIDE if (each := file.with_name(file.name + end)).exists()]
        return tuple(_print_of(file) for file in sorted(files))

    def files(self, within: Path | None = None) -> Iterator[Path]:
        """Give each regular file in the folders, in the order of names; hidden files and links out are skipped.

        within: only the files in this folder.
        """
        for root in self.by_label.values() if within is None else [within]:
            yield from self._files_in(root)

    def _files_in(self, folder: Path) -> Iterator[Path]:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:  # no permission, or gone
            return
        for entry in entries:
            if entry.name.startswith("."):
                continue
            path = Path(entry.path)
            if entry.is_symlink() and not (self.holds(Path(os.path.realpath(path))) and path.is_file()):
                continue
            if entry.is_dir():
                yield from self._files_in(path)
            elif entry.is_file():
                yield path


def profile_folders(words: Sequence[str | Path]) -> ProfileFolders:
    """Return the folders that words name. Raises: UsageError for a word that is not a folder, or a system folder."""
    by_label: dict[str, Path] = {}
    for word in words:
        try:
            root = Path(word).expanduser().resolve(strict=True)
        except (OSError, ValueError, RuntimeError) as err:
            raise UsageError(f"{word}: no such folder", hint="tracekit mcp FOLDER...") from err
        if not root.is_dir():
            raise UsageError(f"{word}: not a folder", hint="name the folder that has the profiles")
        if any(root == Path(each) or (each != "/" and root.is_relative_to(each)) for each in _SYSTEM):
            raise UsageError(f"{word}: a folder of the system", hint="name the folder that has the profiles")
        if any(root.is_relative_to(each) for each in by_label.values()):
            continue
        label, number = root.name, 2
        while label in by_label:
            label, number = f"{root.name}-{number}", number + 1
        by_label[label] = root
    if not by_label:
        raise UsageError("no folder is named", hint="tracekit mcp FOLDER...")
    return ProfileFolders(by_label)


def _entries(folder: Path, name: str) -> list[Path]:
    """Return all that is below a folder; links to folders are not followed. Raises: UsageError for too many files."""
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        found += [Path(parent, each) for each in (*folders, *files)]
        if len(found) > MOST_FILES:
            raise UsageError(f"{name}: more than {MOST_FILES:,} files", hint="name a folder below it, or single files")
    return found


def _print_of(file: Path) -> tuple[str, int, int, int]:
    try:
        facts = file.stat()
    except OSError:
        return (str(file), 0, 0, 0)
    return (str(file), facts.st_ino, facts.st_mtime_ns, facts.st_size)


def _outside(name: str) -> UsageError:
    return UsageError(
        f"{name}: not in the folders of this server", hint="the tool `profiles` lists the names that can be read"
    )

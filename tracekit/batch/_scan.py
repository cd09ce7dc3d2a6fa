"""Finding runs below roots: which files belong to which run, and what each file looks like from outside."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tracekit.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class Mark:
    """A file as the file system shows it. path: relative to the run's folder, with /. mtime_ns: Unix time."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder, or one file, that may be a run. folder: absolute; inside: its name relative to the root, with /.

    marks: every visible regular file that would belong to it, by name.
    """

    root: str
    inside: str
    folder: str
    marks: tuple[Mark, ...]


@dataclass(slots=True)
class Scan:
    """What lies below one root. outside: files that --run-pattern names as no run's.

    problems: (path, reason) of what may hold runs and was not looked into; notes: of what was passed over and holds
    none. links: to folders, until `settle` has said which of the two they are. walked: the folders looked into, by
    device and inode. barred: the real places of results of batches, which were not.
    """

    root: str
    candidates: list[Candidate] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    walked: set[tuple[int, int]] = field(default_factory=set)
    barred: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file of a folder. identity: device and inode of what a link leads to."""

    mark: Mark
    identity: tuple[int, int]
    is_link: bool


def absolute_roots(roots: Sequence[str | Path]) -> list[str]:
    """Return the roots as absolute paths, each once. Raises: UsageError, InputError."""
    if not roots:
        raise UsageError("no root is named", hint="name a folder of runs")
    found: list[str] = []
    for root in map(str, roots):
        if not root.strip():
            raise UsageError("a root has an empty name", hint="is a variable of the shell unset?")
        if not Path(root).is_dir():
            reason = "is no folder" if Path(root).exists() else "no such folder"
            raise InputError(f"{root}: {reason}", hint="a root is a folder that holds runs")
        path = os.path.abspath(root)  # noqa: PTH100 - resolving links would change the name that the user knows
        if path not in found:
            found.append(path)
    for path in found:
        for other in found:
            if path != other and Path(path).is_relative_to(other):
                raise UsageError(f"{path} lies in {other}", hint="name one of them: a run belongs to one root")
    return found


def scan(root: str, *, pattern: str = "", without: Sequence[Path] = ()) -> Scan:
    """Look through a root. pattern: a glob relative to it, each match (a folder or file) is one run; "" makes every
    folder with files a candidate. without: folders that are not looked into (our own output).
    """
    out = Scan(root, barred=[os.path.realpath(folder) for folder in without])
    barred = {key for folder in without if (key := _identity(folder)) is not None}
    folders = {folder: files for folder, files in _walk(root, barred, out) if files}
    if not pattern:
        for folder, files in folders.items():
            home = os.path.join(root, folder)  # noqa: PTH118
            out.candidates.append(Candidate(root, folder or ".", home, _once(home, files, out)))
        return out
    heads = _matches(root, pattern)
    grouped: dict[str, list[_Seen]] = {}
    for folder, files in folders.items():
        for file in files:
            mark = file.mark
            name = f"{folder}/{mark.path}" if folder else mark.path
            head = next((h for h in _heads_of(name) if h in heads), None)
            if head is None:
                out.outside.append(name)
                continue
            below = name.rpartition("/")[2] if head == name else name[len(head) + 1 :] if head != "." else name
            grouped.setdefault(head, []).append(replace(file, mark=replace(mark, path=below)))
    for head, files in sorted(grouped.items()):
        path = Path(root, head)
        home = str(path if path.is_dir() else path.parent)
        marks = _once(home, sorted(files, key=lambda file: file.mark.path), out)
        out.candidates.append(Candidate(root, head, home, marks))
    return out


def settle(scans: Sequence[Scan]) -> None:
    """Tell what each link to a folder is, once all roots are walked: a note where the folder was looked into under its
    real name (its runs count once), or is the results of a batch; else a problem, since it may hold runs.
    """
    walked = {key for scan in scans for key in scan.walked}
    barred = {Path(path) for scan in scans for path in scan.barred}
    for scan in scans:
        for link in scan.links:
            if _identity(Path(link)) in walked:
                scan.notes.append((link, "a link to a folder that is read under its real name"))
            elif any(Path(os.path.realpath(link)).is_relative_to(path) for path in barred):
                scan.notes.append((link, "a link to results of a batch is not followed"))
            else:
                scan.problems.append((link, "a link to a folder is not followed"))
        scan.links.clear()


def _once(folder: str, files: Sequence[_Seen], out: Scan) -> tuple[Mark, ...]:
    """Return the marks of one run without links to files that it has already: these would count twice."""
    have = {file.identity for file in files if not file.is_link}
    marks: list[Mark] = []
    for file in files:
        if file.is_link and file.identity in have:
            out.notes.append((os.path.join(folder, file.mark.path), "a link to a file of the same run"))  # noqa: PTH118
            continue
        have.add(file.identity)
        marks.append(file.mark)
    return tuple(marks)


def _heads_of(name: str) -> Iterator[str]:
    """Give the names that could make a file part of a run, outermost first."""
    yield "."
    parts = name.split("/")
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])


def _matches(root: str, pattern: str) -> set[str]:
    if pattern.startswith("/") or ".." in Path(pattern).parts:
        raise UsageError(f"--run-pattern {pattern}: not relative to a root", hint="such as 'nightly/*' or '*.nvprof'")
    try:
        return {path.relative_to(root).as_posix() for path in Path(root).glob(pattern.rstrip("/"))}
    except (ValueError, NotImplementedError) as err:
        raise UsageError(f"--run-pattern {pattern}: not a pattern ({err})", hint="such as 'nightly/*'") from err


def _walk(root: str, barred: set[tuple[int, int]], out: Scan) -> Iterator[tuple[str, list[_Seen]]]:
    """Give each folder below a root, relative to it ("" is the root itself), with its regular files, by name."""

    def refused(err: OSError) -> None:
        out.problems.append((str(err.filename), err.strerror or str(err)))

    for folder, inner, names in os.walk(root, onerror=refused):
        if (here := _identity(Path(folder))) is not None:
            out.walked.add(here)
        inner[:] = sorted(name for name in inner if _is_looked_into(Path(folder, name), barred, out))
        files: list[_Seen] = []
        for name in sorted(names):
            if name.startswith("."):
                continue
            path = Path(folder, name)
            try:
                facts = path.stat()
                is_link = path.is_symlink()
            except OSError as err:
                out.problems.append((str(path), err.strerror or str(err)))
                continue
            if stat.S_ISREG(facts.st_mode):
                mark = Mark(name, facts.st_size, facts.st_mtime_ns)
                files.append(_Seen(mark, (facts.st_dev, facts.st_ino), is_link))
            else:
                out.notes.append((str(path), f"{_kind(facts.st_mode)} is not read"))
        inside = Path(folder).relative_to(root).as_posix()
        yield "" if inside == "." else inside, files


def _is_looked_into(path: Path, barred: set[tuple[int, int]], out: Scan) -> bool:
    """Tell whether a folder is walked through; a link to one that might be is written down."""
    if path.name.startswith(".") or _identity(path) in barred:
        return False
    if _is_out(path):
        out.barred.append(os.path.realpath(path))
        return False
    if path.is_symlink():
        out.links.append(str(path))
        return False
    return True


def _kind(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _is_out(path: Path) -> bool:
    """Tell whether a folder is the OUT of some batch: its archive would give every run a second time."""
    return all((path / part).is_dir() for part in ("assets", "roots", "runs")) and (path / "index.json").is_file()


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        facts = folder.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino

"""Finding runs below roots: which files belong to which run, and what each file looks like from outside."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
    """What lies below one root. outside: files that --run-pattern names as no run's. problems: (path, reason)."""

    root: str
    candidates: list[Candidate] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)


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
    out = Scan(root)
    barred = {key for folder in without if (key := _identity(folder)) is not None}
    folders = {folder: marks for folder, marks in _walk(root, barred, out) if marks}
    if not pattern:
        for folder, marks in folders.items():
            out.candidates.append(Candidate(root, folder or ".", os.path.join(root, folder), tuple(marks)))  # noqa: PTH118
        return out
    heads = _matches(root, pattern)
    grouped: dict[str, list[Mark]] = {}
    for folder, marks in folders.items():
        for mark in marks:
            name = f"{folder}/{mark.path}" if folder else mark.path
            head = next((h for h in _heads_of(name) if h in heads), None)
            if head is None:
                out.outside.append(name)
                continue
            below = name.rpartition("/")[2] if head == name else name[len(head) + 1 :] if head != "." else name
            grouped.setdefault(head, []).append(Mark(below, mark.size, mark.mtime_ns))
    for head, marks in sorted(grouped.items()):
        path = Path(root, head)
        home = path if path.is_dir() else path.parent
        out.candidates.append(Candidate(root, head, str(home), tuple(sorted(marks, key=lambda m: m.path))))
    return out


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


def _walk(root: str, barred: set[tuple[int, int]], out: Scan) -> Iterator[tuple[str, list[Mark]]]:
    """Give each folder below a root, relative to it ("" is the root itself), with the marks of its files, by name."""

    def refused(err: OSError) -> None:
        out.problems.append((str(err.filename), err.strerror or str(err)))

    for folder, inner, names in os.walk(root, onerror=refused):
        inner[:] = sorted(
            name
            for name in inner
            if not name.startswith(".") and _identity(Path(folder, name)) not in barred and not _is_out(folder, name)
        )
        for name in list(inner):
            if Path(folder, name).is_symlink():
                out.problems.append((os.path.join(folder, name), "a link to a folder is not followed"))  # noqa: PTH118
                inner.remove(name)
        marks: list[Mark] = []
        for name in sorted(names):
            if name.startswith("."):
                continue
            path = Path(folder, name)
            try:
                facts = path.stat()
            except OSError as err:
                out.problems.append((str(path), err.strerror or str(err)))
                continue
            if stat.S_ISREG(facts.st_mode):
                marks.append(Mark(name, facts.st_size, facts.st_mtime_ns))
        inside = Path(folder).relative_to(root).as_posix()
        yield "" if inside == "." else inside, marks


def _is_out(folder: str, name: str) -> bool:
    """Tell whether a folder is the OUT of some batch: its archive would give every run a second time."""
    path = Path(folder, name)
    return all((path / part).is_dir() for part in ("assets", "roots", "runs")) and (path / "index.json").is_file()


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        facts = folder.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino

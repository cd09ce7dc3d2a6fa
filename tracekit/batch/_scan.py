"""The scan of a root: the files of each run, with sizes and times, not their contents."""

from __future__ import annotations

import copy
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from pathlib import Path

from tracekit.batch._store import (
    FileJson,
    OutputFolder,
    PathReason,
    ReasonJson,
    RootJson,
    RunResult,
    SourceJson,
    read_json,
)
from tracekit.errors import InputError, Option, UsageError, sentence
from tracekit.lazy_dataclass import dataclass
from tracekit.safety.anonymize import Anonymizer

# Tokens in OUT in the place of folders, files and who they name: `--anonymize` of a batch.
#
# The plan and the work use the real names; all that is written into OUT has tokens. These follow from the key alone, so
# the next batch with that key finds its runs again. The name of a run in OUT is its key.


def run_key(anonymizer: Anonymizer, root: str, inside: str) -> str:
    """Return the name of a run, and of its folder in OUT. Two tokens long: a large tree has no two equal ones."""
    place = f"{root}\0{inside}"
    return anonymizer.token("run", place) + anonymizer.token("", f"{place}\0").removeprefix("-")


def mark_of(anonymizer: Anonymizer | None) -> str:
    """Return the text by which OUT knows the key of its tokens, "" without one."""
    return "" if anonymizer is None else anonymizer.token("key", "of a batch")


def anonymizer_of_run(anonymizer: Anonymizer, *known: str) -> Anonymizer:
    """Return an anonymizer for one run: its tokens must not depend on other runs. known: texts to learn from."""
    copied = copy.deepcopy(anonymizer)
    for text in known:
        copied.learn(text)
    return copied


def refuse_mixed(out: OutputFolder, anonymizer: Anonymizer | None) -> None:
    """Refuse an OUT whose results have real names, or tokens of another key: its page would show both.

    Raises: UsageError.
    """
    roots = (read_json(path, RootJson) for path in sorted(out.roots.glob("*.json")))
    marks = {result["options"].get("anonymized", "") for result in out.results().values()}
    marks |= {root.get("anonymized", "") for root in roots if root is not None}
    if marks <= {mark_of(anonymizer)}:
        return
    given, key = Option("o", str(out.path)), Option("anonymize-key")
    another = sentence("choose another folder with ", Option("o"))
    if "" in marks and anonymizer is not None:
        raise UsageError(sentence(given, ": its results are not anonymized"), hint=another)
    if anonymizer is None:
        hint = sentence("add ", Option("anonymize"), " and its ", key)
        raise UsageError(sentence(given, ": its results are anonymized"), hint=hint)
    raise UsageError(
        sentence(given, ": its results are anonymized with another key"),
        hint=sentence("repeat the ", key, " of the first batch, or ", another),
    )


def with_real_paths(result: RunResult, names: Iterable[str], anonymizer: Anonymizer | None) -> RunResult:
    """Return a result with the paths of these files in the place of their tokens: the plan compares by path."""
    if anonymizer is None:
        return result
    real = {anonymizer.file(name): name for name in names}
    return _renamed(result, lambda path: real.get(path, path))


def with_token_paths(result: RunResult, anonymizer: Anonymizer | None) -> RunResult:
    """Return a result with tokens in the place of the paths of its files."""
    return result if anonymizer is None else _renamed(result, anonymizer.file)


def _renamed(result: RunResult, new: Callable[[str], str]) -> RunResult:
    sources: list[SourceJson] = [{**each, "path": new(each["path"])} for each in result["sources"]]
    others: list[FileJson] = [{**each, "path": new(each["path"])} for each in result["others"]]
    return {**result, "sources": sources, "others": others}


def hidden_result(result: RunResult, folder: str, anonymizer: Anonymizer | None) -> RunResult:
    """Return a result as it is written into OUT. folder: the run's own, as an absolute path."""
    if anonymizer is None:
        return result
    files = [each["path"] for each in (*result["sources"], *result["others"])]
    places = {str(Path(folder, name)): anonymizer.file(name) for name in files}
    places |= {folder: result["key"], result["root"]: anonymizer.file(result["root"])}
    names = {name: anonymizer.file(name) for name in files}

    def hidden(text: str) -> str:
        for each, token in sorted(places.items(), key=lambda pair: -len(pair[0])):
            text = text.replace(each, token)
        for each, token in sorted(names.items(), key=lambda pair: -len(pair[0])):
            text = re.sub(rf"(?<![\w./-]){re.escape(each)}(?![\w/-])", token, text)
        return anonymizer.text(text)

    def reasons(found: Sequence[ReasonJson]) -> list[ReasonJson]:
        return [{"file": anonymizer.file(each["file"]), "reason": hidden(each["reason"])} for each in found]

    made: RunResult = {
        **with_token_paths(result, anonymizer),
        "root": anonymizer.file(result["root"]),
        "inside": result["key"],
        "reasons": reasons(result["reasons"]),
        "lost": reasons(result.get("lost", [])),
        "notes": list(map(hidden, result["notes"])),
        "incomplete": list(map(hidden, result["incomplete"])),
    }
    if "cut" in result:
        made["cut"] = hidden(result["cut"])
    return made


def hidden_root(root: RootJson, anonymizer: Anonymizer) -> RootJson:
    """Return the scan of a root as it is written into OUT."""

    def places(found: Sequence[PathReason]) -> list[PathReason]:
        return [{"path": anonymizer.file(each["path"]), "reason": anonymizer.text(each["reason"])} for each in found]

    return {
        **root,
        "anonymized": mark_of(anonymizer),
        "root": anonymizer.file(root["root"]),
        "run_pattern": anonymizer.token("path", root["run_pattern"]),
        "outside": sorted(map(anonymizer.file, root["outside"])),
        "unknown": sorted(map(anonymizer.file, root["unknown"])),
        "problems": places(root["problems"]),
        "notes": places(root["notes"]),
    }


@dataclass(frozen=True, slots=True)
class FileState:
    """A file by its directory entry. path: relative to the run's folder, with /. mtime_ns: Unix time."""

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A folder or file that may be a run. folder: absolute; inside: its name relative to the root, with /.

    files: every visible regular file of it, by name.
    """

    root: str
    inside: str
    folder: str
    files: tuple[FileState, ...]


@dataclass(slots=True)
class RootScan:
    """The contents of one root. outside: files outside of --run-pattern.

    problems: (path, reason) of places that may hold runs and could not be scanned. notes: of places that were skipped
    and hold no run of their own. links: links to folders; `settle_links` turns each into a note or a problem. scanned:
    folders by device and inode. barred: the real paths of results of batches, which are not scanned.
    """

    root: str
    candidates: list[Candidate] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    scanned: set[tuple[int, int]] = field(default_factory=set)
    barred: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _FolderFile:
    """A file of a folder. identity: device and inode, of the target if it is a link."""

    state: FileState
    identity: tuple[int, int]
    is_link: bool


def absolute_roots(roots: Sequence[str | Path]) -> list[str]:
    """Return the roots as absolute paths, each once. Raises: UsageError, InputError."""
    if not roots:
        raise UsageError("no ROOT was given", hint="name a folder of runs")
    found: list[str] = []
    for root in map(str, roots):
        if not root.strip():
            raise UsageError("a root has an empty name", hint="is a variable of the shell unset?")
        if not Path(root).is_dir():
            reason = "not a folder" if Path(root).exists() else "no such folder"
            raise InputError(reason, path=root, hint="a root is a folder with runs")
        path = os.path.abspath(root)  # noqa: PTH100 - resolving links would change the name that the user knows
        if path not in found:
            found.append(path)
    for path in found:
        for other in found:
            if path != other and Path(path).is_relative_to(other):
                raise UsageError(f"{path} is inside {other}", hint="name one of them: a run belongs to one root")
    return found


def scan(root: str, *, pattern: str = "", without: Sequence[Path] = ()) -> RootScan:
    """Scan a root. pattern: a glob relative to it; each match, a folder or a file, is one run. "" makes every folder
    with files a candidate. without: folders to skip (our own output).
    """
    out = RootScan(root, barred=[os.path.realpath(folder) for folder in without])
    barred = {key for folder in without if (key := _identity(folder)) is not None}
    folders = {folder: files for folder, files in _walk(root, barred, out) if files}
    if not pattern:
        for folder, files in folders.items():
            home = os.path.join(root, folder)  # noqa: PTH118
            out.candidates.append(Candidate(root, folder or ".", home, _without_repeats(home, files, out)))
        return out
    run_names = _matches(root, pattern)
    grouped: dict[str, list[_FolderFile]] = {}
    for folder, files in folders.items():
        for file in files:
            name = f"{folder}/{file.state.path}" if folder else file.state.path
            run = next((each for each in _possible_runs(name) if each in run_names), None)
            if run is None:
                out.outside.append(name)
                continue
            below = name.rpartition("/")[2] if run == name else name[len(run) + 1 :] if run != "." else name
            grouped.setdefault(run, []).append(replace(file, state=replace(file.state, path=below)))
    for run, files in sorted(grouped.items()):
        path = Path(root, run)
        home = str(path if path.is_dir() else path.parent)
        states = _without_repeats(home, sorted(files, key=lambda file: file.state.path), out)
        out.candidates.append(Candidate(root, run, home, states))
    return out


def settle_links(scans: Sequence[RootScan]) -> None:
    """Turn each link to a folder into a note or a problem, after all roots were scanned.

    A note: the folder was scanned under its real name (its runs count once), or it holds results of a batch. Any other
    link is a problem, since its folder may hold runs.
    """
    scanned = {key for scan in scans for key in scan.scanned}
    barred = {Path(path) for scan in scans for path in scan.barred}
    for scan in scans:
        for link in scan.links:
            if _identity(Path(link)) in scanned:
                scan.notes.append((link, "a link to a folder that is read under its real name"))
            elif any(Path(os.path.realpath(link)).is_relative_to(path) for path in barred):
                scan.notes.append((link, "a link to results of a batch was not followed"))
            else:
                scan.problems.append((link, "a link to a folder was not followed"))
        scan.links.clear()


def _without_repeats(folder: str, files: Sequence[_FolderFile], out: RootScan) -> tuple[FileState, ...]:
    """Return the files of one run without links to its own files, which would count twice."""
    present = {file.identity for file in files if not file.is_link}
    states: list[FileState] = []
    for file in files:
        if file.is_link and file.identity in present:
            path = os.path.join(folder, file.state.path)  # noqa: PTH118
            out.notes.append((path, "a link to a file of the same run"))
            continue
        present.add(file.identity)
        states.append(file.state)
    return tuple(states)


def _possible_runs(name: str) -> Iterator[str]:
    """Yield the names of runs that a file could belong to, outermost first."""
    yield "."
    parts = name.split("/")
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])


def _matches(root: str, pattern: str) -> set[str]:
    given = Option("run-pattern", pattern)
    if pattern.startswith("/") or ".." in Path(pattern).parts:
        raise UsageError(sentence(given, ": not relative to a root"), hint="such as 'nightly/*' or '*.nvprof'")
    try:
        return {path.relative_to(root).as_posix() for path in Path(root).glob(pattern.rstrip("/"))}
    except (ValueError, NotImplementedError) as err:
        raise UsageError(sentence(given, f": not a pattern ({err})"), hint="such as 'nightly/*'") from err


def _walk(root: str, barred: set[tuple[int, int]], out: RootScan) -> Iterator[tuple[str, list[_FolderFile]]]:
    """Yield each folder below a root, relative to it ("" is the root itself), with its regular files, by name."""

    def note_problem(err: OSError) -> None:
        out.problems.append((str(err.filename), err.strerror or str(err)))

    for folder, inner, names in os.walk(root, onerror=note_problem):
        if (here := _identity(Path(folder))) is not None:
            out.scanned.add(here)
        inner[:] = sorted(name for name in inner if _is_scanned(Path(folder, name), barred, out))
        files: list[_FolderFile] = []
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
                state = FileState(name, facts.st_size, facts.st_mtime_ns)
                files.append(_FolderFile(state, (facts.st_dev, facts.st_ino), is_link))
            else:
                out.notes.append((str(path), f"{_kind_of_file(facts.st_mode)} was not read"))
        inside = Path(folder).relative_to(root).as_posix()
        yield "" if inside == "." else inside, files


def _is_scanned(path: Path, barred: set[tuple[int, int]], out: RootScan) -> bool:
    """Return whether to scan a folder. A link to one is recorded in `out.links`."""
    if path.name.startswith(".") or _identity(path) in barred:
        return False
    if _is_batch_output(path):
        out.barred.append(os.path.realpath(path))
        return False
    if path.is_symlink():
        out.links.append(str(path))
        return False
    return True


def _kind_of_file(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _is_batch_output(path: Path) -> bool:
    """Return whether a folder is the OUT of a batch: its archive holds every run a second time."""
    return all((path / part).is_dir() for part in ("assets", "roots", "runs")) and (path / "index.json").is_file()


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        facts = folder.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino

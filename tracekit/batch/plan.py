"""The plan of a batch: every run found, compared with its existing result.

A run is unchanged when the same tracekit made its result with the same options from the same files, and its outputs
still exist. Files are compared by path, size and time of change first. Where only the time differs, the SHA-256 of the
content decides: a copy or a touch is no change. A run that failed because of the machine (a worker died, a full disk)
is done again. One that failed because of its input files, or at a limit, is not: the same bytes would fail again.
Limits are options, so other limits do it again.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from tracekit._version import __version__
from tracekit.batch._scan import Candidate, FileState, RootScan, mark_of, run_key, with_real_paths, with_token_paths
from tracekit.batch._store import FileJson, OptionsJson, OutputFolder, RunResult, SourceJson, key_of, kind_of
from tracekit.credentials import masked
from tracekit.errors import TracekitError, UnknownFormatError
from tracekit.inputs import exported, names_databases, reader_for, same_work
from tracekit.lazy_dataclass import dataclass
from tracekit.readers.source import open_source
from tracekit.render.base import RenderOptions
from tracekit.render.page import shell
from tracekit.safety.anonymize import Anonymizer
from tracekit.safety.limits import Limits

__all__ = [
    "PlannedRun",
    "RunOptions",
    "RunTask",
    "file_state_json",
    "plan_runs",
    "reason_of",
    "sha256_of",
    "tool_digest",
    "touched_result",
]

MAX_NAME_BYTES = 200
"""Limit for a run's name, which is the name of a folder in an archive."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The outputs to make of every run.

    archive: folder or URL, "" for none. to: names of writers. strict: the first note of a reader fails its file.
    page: how the pages are made. anonymize: makes the tokens, None to write what is there. limits: of each run.
    """

    archive: str
    to: tuple[str, ...] = ()
    strict: bool = False
    page: RenderOptions = RenderOptions()
    anonymize: Anonymizer | None = None
    limits: Limits = field(default_factory=Limits)

    def to_json(self, out: Path) -> OptionsJson:
        """Return the options as a result records them. An archive in OUT moves with it."""
        place = "archive" if self.archive == str(out / "archive") else masked(self.archive)
        tokens = self.anonymize
        written: OptionsJson = {
            "archive": place if tokens is None or place == "archive" else tokens.file(place),
            "to": list(self.to),
            "strict": self.strict,
            "page_events": self.page.page_events,
            "page_mb": float(self.page.page_mb),
            "page_args_mb": float(self.page.page_args_mb),
        }
        if tokens is not None:
            written["anonymized"], written["anonymized_names"] = mark_of(tokens), tokens.names
        if self.limits.read_bytes:
            written["max_read_bytes"] = self.limits.read_bytes
        if self.limits.read_events:
            written["max_read_events"] = self.limits.read_events
        if self.limits.seconds:
            written["max_time_s"] = float(self.limits.seconds)
        if self.limits.memory:
            written["max_memory"] = self.limits.memory
        return written


@dataclass(frozen=True, slots=True)
class RunTask:
    """One run for a worker, maybe on another machine. All paths are absolute.

    files: the profiles. others: files beside them that are not read, as `_profiles_and_others` says.
    work: the folder to make the result in. name: as outputs have it. kind: of runs that repeat each other, where their
    names do not say it.
    """

    key: str
    name: str
    kind: str
    root: str
    inside: str
    folder: str
    files: tuple[FileState, ...]
    others: tuple[FileState, ...]
    out: str
    work: str
    options: RunOptions
    tool: str
    version: str
    replaces: tuple[str, ...] = ()
    """The archived versions of this run from before its files changed."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run. why: the reason for doing it, "" if there is nothing to do. name: as the user knows it.

    Reasons: "new", "changed", "version", "options", "output missing", "retry", "forced".
    touched: unchanged, but its files have new times, to be written into the result. replaces: the id of what was
    archived of the run before.
    """

    key: str
    name: str
    candidate: Candidate
    files: tuple[FileState, ...]
    others: tuple[FileState, ...]
    why: str = ""
    touched: bool = False
    replaces: tuple[str, ...] = ()

    def task(self, out: OutputFolder, work: Path, options: RunOptions) -> RunTask:
        """Return the task for a worker."""
        return RunTask(
            key=self.key,
            name=self.name if options.anonymize is None else self.key,
            kind="" if options.anonymize is None else options.anonymize.token("run", kind_of(self.name)),
            root=self.candidate.root,
            inside=self.candidate.inside,
            folder=self.candidate.folder,
            files=self.files,
            others=self.others,
            out=str(out.path),
            work=str(work),
            options=options,
            tool=tool_digest(),
            version=__version__,
            replaces=self.replaces,
        )


@cache
def tool_digest() -> str:
    """Return a digest of templates, style and scripts: with the version they decide how a page looks."""
    parts = shell.templates() | shell.assets()
    return hashlib.sha256(json.dumps(sorted(parts.items())).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def plan_runs(
    scans: Sequence[RootScan],
    results: Mapping[str, RunResult],
    out: OutputFolder,
    options: RunOptions,
    *,
    force: bool = False,
) -> Iterator[PlannedRun]:
    """Yield every run below the roots, by root and name.

    A folder without a file of a known format is no run: the page lists its files with the root.
    """
    found: list[tuple[Candidate, str, tuple[FileState, ...], tuple[FileState, ...]]] = []
    for scan in scans:
        for candidate in scan.candidates:
            key = _key(candidate, options)
            old = results.get(key)
            known = None if old is None else _real(old, candidate.files, options)
            files, others = _profiles_and_others(candidate, known)
            if files:
                found.append((candidate, key, files, others))
    names = run_names([candidate for candidate, *_ in found])
    for (candidate, key, files, others), name in zip(found, names, strict=True):
        plan = PlannedRun(key, name, candidate, files, others)
        old = results.get(key)
        why, touched = reason_of(plan, old, out, options)
        archived = old["archive"] if old is not None else None
        replaces = (archived["id"],) if archived else ()
        yield replace(plan, why="forced" if force and not why else why, touched=touched, replaces=replaces)


def _key(candidate: Candidate, options: RunOptions) -> str:
    if options.anonymize is None:
        return key_of(candidate.root, candidate.inside)
    return run_key(options.anonymize, candidate.root, candidate.inside)


def _real(old: RunResult, files: Sequence[FileState], options: RunOptions) -> RunResult:
    return with_real_paths(old, (file.path for file in files), options.anonymize)


def reason_of(plan: PlannedRun, old: RunResult | None, out: OutputFolder, options: RunOptions) -> tuple[str, bool]:
    """Return why a run must be done ("" if it need not be), and whether its files were only touched."""
    if old is None:
        return "new", False
    old = _real(old, plan.candidate.files, options)
    name = plan.name if options.anonymize is None else plan.key
    if (old["tracekit"], old["tool"]) != (__version__, tool_digest()):
        return "version", False
    if old["options"] != options.to_json(out.path) or old["run"] != name:
        return "options", False
    if old["again"]:
        return "retry", False
    if not _has_outputs(old, plan.key, out):
        return "output missing", False
    before = {s["path"]: s for s in old["sources"]}
    if before.keys() != {file.path for file in plan.files}:
        return "changed", False
    touched = [file for file in plan.files if _differs(file, before[file.path])]
    for file in touched:
        if file.size != before[file.path]["size"]:
            return "changed", False
        if sha256_of(Path(plan.candidate.folder, file.path)) != before[file.path]["sha256"]:
            return "changed", False
    return "", bool(touched) or list(map(file_state_json, plan.others)) != old["others"]


def _differs(file: FileState, old: FileJson) -> bool:
    return (file.size, file.mtime_ns) != (old["size"], old["mtime_ns"])


def _has_outputs(old: RunResult, key: str, out: OutputFolder) -> bool:
    """Return whether all outputs of a result still exist. An archive outside of OUT is not checked."""
    places = [(out.runs / key / each["path"], each["bytes"]) for each in old["outputs"]]
    if old["archive"] and old["options"]["archive"] == "archive":
        places.append((out.path / "archive" / old["archive"]["name"], old["archive"]["bytes"]))
    try:
        return all(path.stat().st_size == size for path, size in places)
    except OSError:
        return False


def touched_result(old: RunResult, plan: PlannedRun, options: RunOptions) -> RunResult:
    """Return a result with the present times of its files."""
    real = _real(old, plan.candidate.files, options)
    times = {file.path: file.mtime_ns for file in plan.files}
    sources: list[SourceJson] = [{**source, "mtime_ns": times[source["path"]]} for source in real["sources"]]
    new: RunResult = {**real, "sources": sources, "others": list(map(file_state_json, plan.others))}
    return with_token_paths(new, options.anonymize)


def file_state_json(file: FileState) -> FileJson:
    """Return a file as results hold it."""
    return {"path": file.path, "size": file.size, "mtime_ns": file.mtime_ns}


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, "" when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _profiles_and_others(
    candidate: Candidate, old: RunResult | None
) -> tuple[tuple[FileState, ...], tuple[FileState, ...]]:
    """Return the profiles of a candidate, and its other files. Files unchanged since the old result are not opened.

    A file that cannot be opened, or that could be of several formats, counts as a profile: its run fails with the
    reason. So does a file of no known format that was a profile before, or that has a profile's suffix. The other files
    are of no known format, or a report of Nsight Systems whose export is a profile here.
    """
    known: dict[tuple[str, int, int], bool] = {}
    if old is not None and old["tracekit"] == __version__:
        known = {(each["path"], each["size"], each["mtime_ns"]): False for each in old["others"]}
        known |= {(each["path"], each["size"], each["mtime_ns"]): True for each in old["sources"]}
    were_profiles = {each["path"] for each in old["sources"]} if old is not None else set()
    files: list[FileState] = []
    others: list[FileState] = []
    for file in candidate.files:
        before = known.get((file.path, file.size, file.mtime_ns))
        expected = file.path in were_profiles or file.path.lower().endswith(_PROFILE_SUFFIXES)
        is_profile = _is_profile(str(Path(candidate.folder, file.path)), expected) if before is None else before
        (files if is_profile else others).append(file)
    # A report of Nsight Systems beside its export, or a task in several forms, is not read: rows would count twice.
    paths = [file.path for file in files]
    left_out = {*exported(paths).values(), *chain.from_iterable(same_work(paths).values())}
    others += [file for file in files if file.path in left_out]
    return tuple(file for file in files if file.path not in left_out), tuple(others)


_PROFILE_SUFFIXES = (
    *(".nvprof", ".nvvp", ".kvp", ".paddle_trace.json", ".paddle_trace.pb", ".pt.trace.json", ".pt.trace.json.gz"),
    *(".nsys-rep", ".qdrep", ".qdstrm"),
)
"""Suffixes of profiles only. Such a file of no known format is damaged or closed: an error, never skipped."""


def _is_profile(path: str, expected: bool) -> bool:
    """Return whether a file belongs to the run. expected: the answer for a file of no known format."""
    try:
        with open_source(path) as source:
            reader_for(source)
    except UnknownFormatError:
        return expected and not names_databases(Path(path))
    except TracekitError:
        pass  # reading it fails with the reason
    return True


def run_names(candidates: Sequence[Candidate]) -> list[str]:
    """Return a different name for each run: its path below the root, after the root's name where two are equal."""
    short = [_shown(c.inside if c.inside != "." else Path(c.root).name or "root") for c in candidates]
    with_root_name = [_shown(f"{Path(c.root).name}/{c.inside}") for c in candidates]
    absolute = [_shown(f"{c.root}/{c.inside}") for c in candidates]
    names = short
    for longer in (with_root_name, absolute):
        count = Counter(names)
        names = [other if count[name] > 1 else name for name, other in zip(names, longer, strict=True)]
    count = Counter(names)
    return [_archivable(name, c, alone=count[name] == 1) for name, c in zip(names, candidates, strict=True)]


def _shown(name: str) -> str:
    """Return a file name as one line of text; it may hold any bytes."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _archivable(name: str, candidate: Candidate, *, alone: bool) -> str:
    """Return the name if it can be a folder in an archive, else its end with a digest."""
    if alone and "\ufffd" not in name and name.strip() and len(quote(name, safe="")) <= MAX_NAME_BYTES:
        return name
    digest = hashlib.sha256(json.dumps([candidate.root, candidate.inside]).encode()).hexdigest()[:12]
    end = name
    while len(quote(end, safe="")) > MAX_NAME_BYTES - 13:
        end = end[1:]
    return f"{end.strip()}~{digest}"

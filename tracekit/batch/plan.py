"""What is to be done: each run found, held against the result that is there.

A run is unchanged when the same tracekit made its result with the same options from the same files, and what it made is
still there. Files are held against path, size and time of change first; where these differ, the SHA-256 of the content
decides: a copy or a touch is no change. A result that the machine spoilt (a worker that died, a full disk) is done
again; one that the input spoilt is not, since the same bytes would fail again.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from urllib.parse import quote

from tracekit._version import __version__
from tracekit.batch._scan import Candidate, Mark, Scan
from tracekit.batch._store import Out, Result, key_of
from tracekit.errors import TracekitError, UnknownFormatError
from tracekit.inputs import reader_for
from tracekit.readers.source import open_source
from tracekit.render import html

MOST_NAME_BYTES = 200
"""Of a run's name in an archive, where it is a folder's name."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is made of every run.

    archive: folder or URL, "" for none. to: names of writers. strict: the first note of a reader fails its file.
    """

    archive: str
    to: tuple[str, ...] = ()
    strict: bool = False

    def to_json(self, out: Path) -> dict[str, object]:
        """Return the part of the fingerprint that the options are. An archive in OUT moves with it."""
        inside = self.archive == str(out / "archive")
        return {"archive": "archive" if inside else self.archive, "to": list(self.to), "strict": self.strict}


@dataclass(frozen=True, slots=True)
class Task:
    """One run to be done; it goes to a worker, maybe on another machine. All paths are absolute.

    files: what is read. others: what lies beside them and no reader knows. work: where to put the result.
    """

    key: str
    name: str
    root: str
    inside: str
    folder: str
    files: tuple[Mark, ...]
    others: tuple[Mark, ...]
    out: str
    work: str
    wanted: Wanted
    tool: str
    version: str


@dataclass(frozen=True, slots=True)
class Planned:
    """One run. why: "new", "changed", "version", "options", "lost", "retry", "forced"; "" when nothing is to be done.

    touched: unchanged, but its files have other times; the result takes them over.
    """

    key: str
    name: str
    candidate: Candidate
    files: tuple[Mark, ...]
    others: tuple[Mark, ...]
    why: str = ""
    touched: bool = False

    def task(self, out: Out, work: Path, wanted: Wanted) -> Task:
        """Return what a worker needs."""
        return Task(
            self.key, self.name, self.candidate.root, self.candidate.inside, self.candidate.folder, self.files,
            self.others, str(out.path), str(work), wanted, tool_digest(), __version__,
        )  # fmt: skip


@cache
def tool_digest() -> str:
    """Return what else of tracekit decides how a page looks: a digest of templates, style and scripts."""
    parts = html.templates() | html.assets()
    return hashlib.sha256(json.dumps(sorted(parts.items())).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def planned(
    scans: Sequence[Scan], results: Mapping[str, Result], out: Out, wanted: Wanted, *, force: bool = False
) -> Iterator[Planned]:
    """Give every run below the roots, in order of root and name, with what is to be done.

    A folder in which no reader knows a file is no run: its files are listed with the root.
    """
    found: list[tuple[Candidate, str, tuple[Mark, ...], tuple[Mark, ...]]] = []
    for scan in scans:
        for candidate in scan.candidates:
            key = key_of(candidate.root, candidate.inside)
            files, others = _sorted_out(candidate, results.get(key))
            if files:
                found.append((candidate, key, files, others))
    names = run_names([candidate for candidate, *_ in found])
    for (candidate, key, files, others), name in zip(found, names, strict=True):
        plan = Planned(key, name, candidate, files, others)
        why, touched = reason_of(plan, results.get(key), out, wanted)
        yield replace(plan, why="forced" if force and not why else why, touched=touched)


def reason_of(plan: Planned, old: Result | None, out: Out, wanted: Wanted) -> tuple[str, bool]:
    """Return why a run is to be done ("" if it is not), and whether its files were only touched."""
    if old is None:
        return "new", False
    if (old["tracekit"], old["tool"]) != (__version__, tool_digest()):
        return "version", False
    if old["options"] != wanted.to_json(out.path) or old["run"] != plan.name:
        return "options", False
    if old["again"]:
        return "retry", False
    if not _outputs_there(old, plan.key, out):
        return "lost", False
    before = {s["path"]: s for s in old["sources"]}
    if before.keys() != {mark.path for mark in plan.files}:
        return "changed", False
    touched = [mark for mark in plan.files if _differs(mark, before[mark.path])]
    for mark in touched:
        if mark.size != before[mark.path]["size"]:
            return "changed", False
        if sha256_of(Path(plan.candidate.folder, mark.path)) != before[mark.path]["sha256"]:
            return "changed", False
    return "", bool(touched) or list(map(mark_json, plan.others)) != old["others"]


def _differs(mark: Mark, old: Mapping[str, object]) -> bool:
    return (mark.size, mark.mtime_ns) != (old["size"], old["mtime_ns"])


def _outputs_there(old: Result, key: str, out: Out) -> bool:
    """Tell whether all that was made is still there; what lies in another store than OUT is that store's business."""
    places = [(out.runs / key / each["path"], each["bytes"]) for each in old["outputs"]]
    if old["archive"] and old["options"]["archive"] == "archive":
        places.append((out.path / "archive" / old["archive"]["name"], old["archive"]["bytes"]))
    try:
        return all(path.stat().st_size == size for path, size in places)
    except OSError:
        return False


def touched_result(old: Result, files: Sequence[Mark], others: Sequence[Mark]) -> dict[str, object]:
    """Return a result with the present times of its files."""
    times = {mark.path: mark.mtime_ns for mark in files}
    sources = [{**source, "mtime_ns": times[source["path"]]} for source in old["sources"]]
    return {**old, "sources": sources, "others": list(map(mark_json, others))}


def mark_json(mark: Mark) -> dict[str, object]:
    """Return a mark as results hold it."""
    return {"path": mark.path, "size": mark.size, "mtime_ns": mark.mtime_ns}


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, "" when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _sorted_out(candidate: Candidate, old: Result | None) -> tuple[tuple[Mark, ...], tuple[Mark, ...]]:
    """Return the files that are profiles, and the others. What was looked at before and did not change since is known.

    A file that cannot be opened, or that is of several formats, is a profile with a reason to fail; so is one that was
    a profile before, or that has the name of one, and is none.
    """
    were = {each["path"] for each in old["sources"]} if old is not None else set()
    known: dict[tuple[str, int, int], bool] = {}
    if old is not None and old["tracekit"] == __version__:
        for group, is_profile in (("others", False), ("sources", True)):
            known |= {(each["path"], each["size"], each["mtime_ns"]): is_profile for each in old[group]}
    files: list[Mark] = []
    others: list[Mark] = []
    for mark in candidate.marks:
        before = known.get((mark.path, mark.size, mark.mtime_ns))
        expected = mark.path in were or mark.path.lower().endswith(_PROFILES_ALONE)
        is_profile = _is_profile(str(Path(candidate.folder, mark.path)), expected) if before is None else before
        (files if is_profile else others).append(mark)
    return tuple(files), tuple(others)


_PROFILES_ALONE = (
    ".nvprof", ".nvvp", ".kvp", ".paddle_trace.json", ".paddle_trace.pb", ".pt.trace.json", ".pt.trace.json.gz",
    ".nsys-rep", ".qdrep", ".qdstrm",
)  # fmt: skip
"""Ends of names that only profiles have: where no reader knows such a file, it is damaged, or closed, and is told."""


def _is_profile(path: str, expected: bool) -> bool:
    """Tell whether a file belongs to the run. expected: also when no reader knows it, to fail with that reason."""
    try:
        with open_source(path) as source:
            reader_for(source)
    except UnknownFormatError:
        return expected
    except TracekitError:
        pass  # named with its reason when it is read
    return True


def run_names(candidates: Sequence[Candidate]) -> list[str]:
    """Return a name for each run, all different: its place below the root, with the root's name where two are equal."""
    short = [_shown(c.inside if c.inside != "." else Path(c.root).name or "root") for c in candidates]
    longer = [_shown(f"{Path(c.root).name}/{c.inside}") for c in candidates]
    whole = [_shown(f"{c.root}/{c.inside}") for c in candidates]
    names = short
    for instead in (longer, whole):
        count = Counter(names)
        names = [other if count[name] > 1 else name for name, other in zip(names, instead, strict=True)]
    count = Counter(names)
    return [_archivable(name, c, alone=count[name] == 1) for name, c in zip(names, candidates, strict=True)]


def _shown(name: str) -> str:
    """Return a name as text in one line: file names are bytes, and may be anything."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _archivable(name: str, candidate: Candidate, *, alone: bool) -> str:
    """Return the name, or its end with a digest, where an archive could not have it as the name of a folder."""
    if alone and "\ufffd" not in name and name.strip() and len(quote(name, safe="")) <= MOST_NAME_BYTES:
        return name
    digest = hashlib.sha256(json.dumps([candidate.root, candidate.inside]).encode()).hexdigest()[:12]
    end = name
    while len(quote(end, safe="")) > MOST_NAME_BYTES - 13:
        end = end[1:]
    return f"{end.strip()}~{digest}"

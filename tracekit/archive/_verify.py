"""Proving that an archive is what was put into it: every byte hashed, every row counted, every name checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit import pipeline
from tracekit.archive._entry import DIGEST_DIGITS, NAME, Entry, file_sha256, folder_of, name_of, read_entry
from tracekit.archive._store import WORKSPACE, Store, Stored, open_store
from tracekit.errors import SchemaError, TracekitError
from tracekit.trace import Ledger


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one file.

    code: "damaged" (its bytes are not those that its name tells), "wrong-name" (whole, and archived, but not where or
    what its name says), "foreign-file", "wrong-ledger" (rows and ledgers differ), "unreadable" (whole, but this
    tracekit cannot read it; or a folder, a link or a pipe that cannot be read at all), "twice" (another file has the
    same sources under the same run).
    """

    path: str
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked at: whole files, their rows and bytes; problems; and leftovers of adds that were killed."""

    files: int = 0
    events: int = 0
    totals: int = 0
    bytes: int = 0
    problems: tuple[Problem, ...] = field(default=())
    leftovers: tuple[str, ...] = field(default=())


def verify(root: str | Path, *, progress: Callable[[float], None] | None = None) -> Verification:
    """Read every file of an archive as a whole and return what was found. A file that is gone leaves no trace.

    Raises: InputError where there is no archive, or its place cannot be reached.
    """
    store = open_store(root)
    listed = store.files()
    whole = sum(stored.size for stored in listed) or 1
    problems: list[Problem] = []
    good: list[Entry] = []
    leftovers: list[str] = []
    read = 0
    for stored in listed:
        if stored.name.startswith(WORKSPACE):
            leftovers.append(stored.path)
        elif isinstance(found := _checked(store, stored), Problem):
            problems.append(found)
        elif found is not None:
            good.append(found)
        read += stored.size
        if progress is not None:
            progress(read / whole)
    by_id: dict[str, list[Entry]] = defaultdict(list)
    for entry in good:
        by_id[entry.id].append(entry)
    for same in by_id.values():
        problems += [
            Problem(other.path, "twice", f"the same sources under the same run as {same[0].path}") for other in same[1:]
        ]
    return Verification(
        files=len(good),
        events=sum(e.events for e in good),
        totals=sum(e.totals for e in good),
        bytes=sum(e.bytes for e in good),
        problems=tuple(sorted(problems, key=lambda p: (p.path, p.code))),
        leftovers=tuple(leftovers),
    )


def _checked(store: Store, stored: Stored) -> Entry | Problem | None:
    """Return the entry of a file, what is wrong with it, or None for one that was removed meanwhile."""
    name = NAME.fullmatch(stored.name)
    if stored.problem:
        return Problem(stored.path, "unreadable", stored.problem)
    try:
        with store.local(stored.name) as path:
            try:
                file = path.open("rb")
            except FileNotFoundError:
                return None
            with file:
                sha256 = file_sha256(file)
            as_named = name is not None and name["digest"] == sha256[:DIGEST_DIGITS]
            try:
                entry = read_entry(path, path=stored.path, name=stored.name, size=path.stat().st_size)
                seen = pipeline.inspect(path, format="parquet")["inputs"][0]
            except SchemaError as err:
                return Problem(stored.path, "wrong-ledger", str(err))
            except TracekitError as err:
                reason = str(err).replace(f"{path}: ", "").replace(str(path), stored.path)
                if name is None:
                    return Problem(stored.path, "foreign-file", f"no file of this archive: {reason}")
                return Problem(stored.path, "unreadable" if as_named else "damaged", reason)
    except TracekitError as err:
        return Problem(stored.path, "unreadable", str(err))
    right = name_of(entry.table, entry.date, entry.run, entry.id, sha256)
    if stored.name == right:
        return _counted(entry, seen)
    if name is not None and name["id"] == entry.id and _folder(stored) == folder_of(entry.table, entry.date, entry.run):
        # Right place, right id, and all that the file itself can check is well: a byte that nothing in it covers.
        return Problem(
            stored.path, "damaged", f"its SHA-256 begins with {sha256[:DIGEST_DIGITS]}, not as its name says"
        )
    return Problem(stored.path, "wrong-name", f"by what it holds it is {right}")


def _folder(stored: Stored) -> str:
    return stored.name.rpartition("/")[0]


def _counted(entry: Entry, seen: dict[str, Any]) -> Entry | Problem:
    """Hold the rows of a file against the ledgers of its sources."""
    try:
        for ledger in entry.ledgers:
            ledger.check()
    except SchemaError as err:
        return Problem(entry.path, "wrong-ledger", str(err))
    rows = seen["events"], seen["totals"]
    if rows != (entry.events, entry.totals):
        return Problem(
            entry.path,
            "wrong-ledger",
            f"it holds {rows[0]:,} events and {rows[1]:,} totals; "
            f"its ledgers tell of {entry.events:,} and {entry.totals:,}",
        )
    read = Ledger.from_json(seen["ledger"])
    if read.notes or read.dropped:
        return Problem(entry.path, "wrong-ledger", "; ".join(str(note) for note in read.notes.values()))
    return entry

"""Verify an archive: hash every byte, count every row, check every name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tracekit import pipeline
from tracekit.archive._entry import DIGEST_DIGITS, NAME, Entry, file_sha256, folder_of, name_of, read_entry
from tracekit.archive._revisions import superseded
from tracekit.archive._store import WORKSPACE, Store, Stored, open_store
from tracekit.errors import SchemaError, TracekitError
from tracekit.inputs import InputOptions
from tracekit.trace import Ledger


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of one file.

    code: "damaged" (its bytes differ from the digest in its name), "wrong-name" (an undamaged archived file with a
    wrong name or folder), "foreign-file", "wrong-ledger" (rows and ledgers differ), "unreadable" (undamaged, but this
    tracekit cannot read it; or a folder, link or pipe that cannot be read), "twice" (another file has the same sources
    under the same run with other tags).
    """

    path: str
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of `verify`: good files with their rows and bytes, problems, and what killed adds left.

    leftovers: workspaces, and older files of an entry. The next add removes them.
    """

    files: int = 0
    events: int = 0
    totals: int = 0
    bytes: int = 0
    problems: tuple[Problem, ...] = field(default=())
    leftovers: tuple[str, ...] = field(default=())


def verify(root: str | Path, *, progress: Callable[[float], None] | None = None) -> Verification:
    """Read every file of an archive completely and return the problems. It cannot notice that a file was removed.

    Raises: InputError if there is no archive, or its place cannot be reached.
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
    older = {entry.name for entry in superseded(good)}
    leftovers += [entry.path for entry in good if entry.name in older]
    good = [entry for entry in good if entry.name not in older]
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
    """Return the entry of a file, its problem, or None for a file that was removed meanwhile."""
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
                inspected = pipeline.inspect(path, InputOptions(format="parquet")).inputs[0]
            except SchemaError as err:
                return Problem(stored.path, "wrong-ledger", str(err))
            except TracekitError as err:
                reason = str(err).replace(f"{path}: ", "").replace(str(path), stored.path)
                if name is None:
                    return Problem(stored.path, "foreign-file", f"not a file of this archive: {reason}")
                return Problem(stored.path, "unreadable" if as_named else "damaged", reason)
    except TracekitError as err:
        return Problem(stored.path, "unreadable", str(err))
    right = name_of(entry.table, entry.date, entry.run, entry.id, sha256)
    if stored.name == right:
        return _counted(entry, inspected["events"], inspected["totals"], Ledger.from_json(inspected["ledger"]))
    if name is not None and name["id"] == entry.id and _folder(stored) == folder_of(entry.table, entry.date, entry.run):
        # Only the digest is wrong: the changed byte is one that the file itself does not check.
        return Problem(stored.path, "damaged", f"its SHA-256 begins with {sha256[:DIGEST_DIGITS]}, unlike its name")
    return Problem(stored.path, "wrong-name", f"by its content its name is {right}")


def _folder(stored: Stored) -> str:
    return stored.name.rpartition("/")[0]


def _counted(entry: Entry, events: int, totals: int, read: Ledger) -> Entry | Problem:
    """Compare the rows of a file with the ledgers of its sources."""
    try:
        for ledger in entry.ledgers:
            ledger.check()
    except SchemaError as err:
        return Problem(entry.path, "wrong-ledger", str(err))
    if (events, totals) != (entry.events, entry.totals):
        return Problem(
            entry.path,
            "wrong-ledger",
            f"it has {events:,} events and {totals:,} totals; its ledgers count {entry.events:,} and {entry.totals:,}",
        )
    if read.notes or read.dropped:
        return Problem(entry.path, "wrong-ledger", "; ".join(str(note) for note in read.notes.values()))
    return entry

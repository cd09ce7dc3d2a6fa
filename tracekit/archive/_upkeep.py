"""Verify an archive: hash every byte, count every row, check every name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from datetime import date as Date
from pathlib import Path

from tracekit import pipeline
from tracekit.archive._entry import (
    DIGEST_DIGITS,
    NAME,
    Entry,
    file_sha256,
    folder_of,
    id_of,
    merged,
    name_of,
    read_entry,
    superseded,
)
from tracekit.archive._list import listing
from tracekit.archive._store import WORKSPACE, Store, StoredEntry, open_store, version_of
from tracekit.arguments import checked
from tracekit.errors import COMMAND_LINE, Failure, SchemaError, TracekitError, UsageError
from tracekit.inputs import InputOptions
from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Ledger

# Remove entries by age, size, tag or run.


LEFTOVER_AGE_S = 24 * 3600
"""Age at which the workspace of an add belongs to a killed process."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """The entries removed (or to remove, with `dry_run`), what is kept, and removed workspaces of killed adds."""

    removed: tuple[Entry, ...]
    kept: int
    kept_bytes: int
    leftovers: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    """Damaged files: they are kept."""

    @property
    def bytes(self) -> int:
        """Return the bytes of the removed files."""
        return sum(entry.bytes for entry in self.removed)


@checked()
def prune(
    root: str | Path,
    *,
    before: Date | None = None,
    max_bytes: int | None = None,
    tag: str | Sequence[str] = (),
    run: str | None = None,
    keep: str | Sequence[str] = (),
    dry_run: bool = False,
    partial: bool = False,
) -> Pruned:
    """Remove entries and return them; with `dry_run` nothing is removed.

    tag, run: only entries with these can be removed. keep: entries with such a tag are always kept. before: remove
    those with an earlier date. max_bytes: then remove the oldest until the whole archive is not larger. Without before
    and max_bytes, all entries with the tag or run are removed. partial: keep damaged
    files and name them in the result; without it, the first one raises.
    Raises: UsageError without a criterion; InputError, OutputError.
    """
    if before is None and max_bytes is None and not tag and run is None:
        raise UsageError(
            "no criterion says which runs to remove",
            hint="an age, a size, a tag or a run",
        )
    store = open_store(root)
    there = store.files()  # before the labels are read: a file that comes later was judged by nobody, and stays
    listed = listing(root)
    if listed.failures and not partial:
        raise listed.failures[0].error
    found = _joined(listed.entries)
    wanted, kept = ([t] if isinstance(t, str) else list(t) for t in (tag, keep))
    removable = [
        e
        for e in found
        if all(e.matches(t) for t in wanted) and run in (None, e.run) and not any(e.matches(t) for t in kept)
    ]
    gone = removable if max_bytes is None and before is None else []
    if before is not None:
        gone = [entry for entry in removable if entry.date < before]
    if max_bytes is not None:
        size = sum(entry.bytes for entry in found) - sum(entry.bytes for entry in gone)
        names = {entry.name for entry in gone}
        for entry in removable:  # oldest first
            if size <= max_bytes:
                break
            if entry.name not in names:
                gone = [*gone, entry]
                size -= entry.bytes
    ids = {entry.id for entry in gone}
    gone = [entry for entry in found if entry.id in ids]
    now = datetime.now(UTC).timestamp()
    # What the system could not look at has no age: the folder of another user, whose add may be running.
    leftovers = [
        s for s in there if s.name.startswith(WORKSPACE) and not s.unknown and now - s.modified > LEFTOVER_AGE_S
    ]
    if not dry_run:
        # With all its files, also older ones that a killed add left: they would be the entry again. They go first.
        newest = [entry.name for entry in gone]
        older = [stored.name for stored in there if id_of(stored.name) in ids and stored.name not in newest]
        for name in [*older, *newest, *(stored.name for stored in leftovers)]:
            store.delete(name)
    return Pruned(
        tuple(gone),
        len(found) - len(gone),
        sum(e.bytes for e in found) - sum(e.bytes for e in gone),
        tuple(stored.path for stored in leftovers),
        listed.failures,
    )


def _joined(found: Sequence[Entry]) -> list[Entry]:
    """Return the entries, oldest first, each with the tags and the date of all files that it has.

    An entry has several after adds at the same moment and after copies. It is one run: a tag to keep keeps all of it.
    """
    of_id: dict[str, list[Entry]] = {}
    for entry in found:
        of_id.setdefault(entry.id, []).append(entry)
    labels = {entry_id: merged(same) for entry_id, same in of_id.items() if len(same) > 1}
    joined = [
        replace(entry, tags=label.tags, date=label.date) if (label := labels.get(entry.id)) is not None else entry
        for entry in found
    ]
    return sorted(joined, key=lambda entry: (entry.date, entry.run, entry.id))


_ROUNDS = 10
"""Times that files are read again because another process has replaced them: enough, and never without an end."""


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


@checked()
def verify(root: str | Path, *, progress: Callable[[float], None] | None = None) -> Verification:
    """Read every file of an archive completely and return the problems. It cannot notice that a file was removed.

    Raises: InputError if there is no archive, or its place cannot be reached.
    """
    store = open_store(root)
    listed = store.files()
    whole = sum(stored.size for stored in listed) or 1
    leftovers = [stored.path for stored in listed if stored.name.startswith(WORKSPACE)]
    todo = [stored for stored in listed if not stored.name.startswith(WORKSPACE)]
    checked: dict[str, Entry | Problem | None] = {}
    read = 0
    for _ in range(_ROUNDS):
        for stored in todo:
            checked[stored.name] = _checked(store, stored)
            read += stored.size
            if progress is not None:
                progress(min(read / whole, 1.0))
        if not (todo := _came_meanwhile(store, checked)):
            break
    good = [each for each in checked.values() if isinstance(each, Entry)]
    problems = [each for each in checked.values() if isinstance(each, Problem)]
    older = {entry.name for entry in superseded(good)}
    leftovers += [entry.path for entry in good if entry.name in older]
    good = [entry for entry in good if entry.name not in older]
    for same in _by_id(good).values():
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


def _by_id(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    of_id: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        of_id[entry.id].append(entry)
    return of_id


def _came_meanwhile(store: Store, checked: dict[str, Entry | Problem | None]) -> list[StoredEntry]:
    """Return the files that adds have put in the place of files that were checked, or were gone by then.

    Those replaced are marked as gone: two files of one run, put at the same moment, are one a moment later.
    """
    several = {name for name, same in _by_id(e for e in checked.values() if isinstance(e, Entry)).items() if same[1:]}
    ids = {id_of(name) for name, each in checked.items() if each is None and id_of(name)} | several
    if not ids:
        return []
    there = {stored.name: stored for stored in store.files("*.parquet") if id_of(stored.name) in ids}
    for name in checked:
        if id_of(name) in ids and name not in there:
            checked[name] = None
    return [stored for name, stored in there.items() if checked.get(name) is None]


def _checked(store: Store, stored: StoredEntry) -> Entry | Problem | None:
    """Return the entry of a file, its problem, or None for a file that was removed meanwhile."""
    if stored.problem:
        return Problem(stored.path, "unreadable", stored.problem)
    try:
        with store.local(stored.name) as path:
            for _ in range(_ROUNDS):
                before = version_of(path)
                found = _content(stored, path)
                if isinstance(found, Entry) or (now := version_of(path)) == before:
                    break
                if now is None:
                    return None
                # Another process has put the same file once more, while it was read.
            return found
    except TracekitError as err:
        if isinstance(err.__cause__, FileNotFoundError):
            return None
        return Problem(stored.path, "unreadable", err.worded(COMMAND_LINE))


def _content(stored: StoredEntry, path: Path) -> Entry | Problem | None:
    """Return the entry of a file by its content, or its problem; None without a file."""
    name = NAME.fullmatch(stored.name)
    try:
        with path.open("rb") as file:
            sha256 = file_sha256(file)
        as_named = name is not None and name["digest"] == sha256[:DIGEST_DIGITS]
        try:
            entry = read_entry(path, path=stored.path, name=stored.name, size=path.stat().st_size)
            inspected = pipeline.inspect(path, InputOptions(format="parquet")).inputs[0]
        except SchemaError as err:
            return Problem(stored.path, "wrong-ledger", err.worded(COMMAND_LINE))
        except TracekitError as err:
            told = err.sentence.without_place() if err.path == str(path) else err.sentence
            reason = told.worded(COMMAND_LINE).replace(str(path), stored.path)  # Arrow's messages name the local copy
            if name is None:
                return Problem(stored.path, "foreign-file", f"not a file of this archive: {reason}")
            return Problem(stored.path, "unreadable" if as_named else "damaged", reason)
    except FileNotFoundError:
        return None
    right = name_of(entry.table, entry.date, entry.run, entry.id, sha256)
    if stored.name == right:
        return _counted(entry, inspected["events"], inspected["totals"], Ledger.from_json(inspected["ledger"]))
    if name is not None and name["id"] == entry.id and _folder(stored) == folder_of(entry.table, entry.date, entry.run):
        # Only the digest is wrong: the changed byte is one that the file itself does not check.
        return Problem(stored.path, "damaged", f"its SHA-256 begins with {sha256[:DIGEST_DIGITS]}, unlike its name")
    return Problem(stored.path, "wrong-name", f"by its content its name is {right}")


def _folder(stored: StoredEntry) -> str:
    return stored.name.rpartition("/")[0]


def _counted(entry: Entry, events: int, totals: int, read: Ledger) -> Entry | Problem:
    """Compare the rows of a file with the ledgers of its sources."""
    try:
        for ledger in entry.ledgers:
            ledger.check()
    except SchemaError as err:
        return Problem(entry.path, "wrong-ledger", err.worded(COMMAND_LINE))
    if (events, totals) != (entry.events, entry.totals):
        return Problem(
            entry.path,
            "wrong-ledger",
            f"it has {events:,} events and {totals:,} totals; its ledgers count {entry.events:,} and {entry.totals:,}",
        )
    if read.notes or read.dropped:
        return Problem(entry.path, "wrong-ledger", "; ".join(str(note) for note in read.notes.values()))
    return entry

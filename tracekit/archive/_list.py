"""Find and read archived runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date
from pathlib import Path

from pyarrow import fs

from tracekit import pipeline
from tracekit.archive._entry import (
    VERIFY,
    Entry,
    by_revision,
    checked_date,
    day_of,
    id_of,
    read_entry,
    replaced,
    run_of,
    superseded,
)
from tracekit.archive._store import TABLES, Store, StoredEntry, names_in, open_store
from tracekit.arguments import checked
from tracekit.errors import Failure, InputError, TracekitError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Trace

REMOTE_READERS = 16
"""Footers read at the same time: each waits for the network."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Archived runs, oldest first, and the damaged files among them."""

    entries: list[Entry]
    failures: tuple[Failure, ...]


@checked()
def entries(
    root: str | Path,
    *,
    tag: str | Sequence[str] = (),
    since: str | date | None = None,
    until: str | date | None = None,
    run: str | None = None,
    newest: bool = False,
) -> list[Entry]:
    """Return the archived runs, oldest first: by date, then run, then id. Only footers are read.

    tag: "KEY" or "KEY=VALUE"; an entry needs all of several. since, until: dates, both included. run: its whole name.
    newest: without the older versions of runs that a batch archived again because their files changed.
    Raises: InputError if there is no archive, ParseError for the first damaged file.
    """
    found = listing(root, tag=tag, since=since, until=until, run=run, newest=newest)
    if found.failures:
        raise found.failures[0].error
    return found.entries


@checked()
def listing(
    root: str | Path,
    *,
    tag: str | Sequence[str] = (),
    since: str | date | None = None,
    until: str | date | None = None,
    run: str | None = None,
    newest: bool = False,
) -> Listing:
    """Return the archived runs as `entries` does, and name the damaged files. Raises: InputError without an archive."""
    store = open_store(root)
    failures: list[Failure] = []
    low, high = (
        checked_date(d, option) if isinstance(d, str) else d for option, d in (("since", since), ("until", until))
    )
    wanted = [tag] if isinstance(tag, str) else list(tag)
    named = []
    for stored in store.files():
        if id_of(stored.name):
            named.append(stored)
        elif stored.problem and _may_hold_runs(stored):
            error = InputError(stored.problem, path=stored.path, hint=VERIFY)
            failures.append(Failure(stored.path, error))
    files = Counter(id_of(stored.name) for stored in named)

    def is_wanted(name: str) -> bool:
        # The date may not exist (2026-02-31). `verify` reports that; here it is compared as text.
        day = day_of(name)
        within = (not low or day >= low.isoformat()) and (not high or day <= high.isoformat())
        return within and (run is None or run_of(name) == run)

    # All files of an entry that has several are read: one may be an older version of another.
    opened = _opened(store, [s for s in named if files[id_of(s.name)] > 1 or is_wanted(s.name)])
    failures += [each for each in opened if isinstance(each, Failure)]
    read = [each for each in opened if isinstance(each, Entry)]
    older = {entry.name for entry in (*superseded(read), *(replaced(read) if newest else ()))}
    out = [each for each in read if each.name not in older and is_wanted(each.name) and all(map(each.matches, wanted))]
    return Listing(sorted(out, key=lambda entry: (entry.date, entry.run, entry.id)), tuple(failures))


def _may_hold_runs(stored: StoredEntry) -> bool:
    """Return whether an unreadable place is a folder of an archive, so that its runs would be missing."""
    top, _, inside = stored.name.partition("/")
    return stored.name == "." or (top in TABLES and (not inside or inside.startswith("date=")))


def _opened(store: Store, chosen: list[StoredEntry]) -> list[Entry | Failure]:
    """Return the entries of files, without the runs that were removed since these were listed.

    If a file is gone, another process may have put a newer one in its place, which the list lacks: that is read.
    """

    def read(stored: StoredEntry) -> Entry | Failure | None:
        try:
            return entry_of(store, stored)
        except TracekitError as err:
            was_removed = isinstance(err.__cause__, FileNotFoundError)  # since it was listed
            return None if was_removed else Failure(stored.path, err)

    opened: list[Entry | Failure] = []
    known: set[str] = set()
    while chosen:
        if store.remote and len(chosen) > 1:
            with ThreadPoolExecutor(REMOTE_READERS) as pool:
                found = list(pool.map(read, chosen))
        else:
            found = list(map(read, chosen))
        opened += [each for each in found if each is not None]
        known |= {stored.name for stored in chosen}
        gone = {id_of(stored.name) for stored, each in zip(chosen, found, strict=True) if each is None}
        chosen = [s for s in store.files("*.parquet") if id_of(s.name) in gone and s.name not in known] if gone else []
    return opened


def entry_of(store: Store, stored: StoredEntry) -> Entry:
    """Return the entry of one file. Raises: InputError, ParseError."""
    if stored.problem:
        raise InputError(stored.problem, path=stored.path, hint=VERIFY)
    with closing(store.open(stored.name)) as file:
        return read_entry(file, path=stored.path, name=stored.name, size=stored.size)


def entry_at(path: str | Path) -> Entry | None:
    """Return the entry of the file at a path or URL, None if that is not an archived file. Raises: TracekitError."""
    text = str(path)
    if not text.endswith(".parquet"):
        return None
    if "://" not in text:
        local = Path(text)
        if not local.is_file():
            return None
        try:
            return read_entry(local, path=text, name=local.name, size=local.stat().st_size)
        except TracekitError:
            return None
    folder, _, name = text.rpartition("/")
    store = open_store(folder)
    for stored in store.files(name):
        try:
            return entry_of(store, stored)
        except TracekitError:
            return None
    return None


def arrow_file(path: str) -> tuple[fs.FileSystem, str]:
    """Return the Arrow file system of a path or URL, and the path in it, to read parts of a file."""
    if "://" not in path:
        return fs.LocalFileSystem(), path
    return open_store(path).arrow()


@checked()
def find(root: str | Path, entry_id: str) -> Entry:
    """Return the entry whose id begins with at least 4 digits. Raises: InputError for none or several."""
    store = open_store(root)
    wanted = entry_id.strip().lower()
    if len(wanted) < 4 or not set(wanted) <= set("0123456789abcdef"):
        raise InputError(f"{entry_id}: not an id", hint=_IDS)
    found = [stored for stored in store.files("*.parquet") if id_of(stored.name).startswith(wanted)]
    if not found:
        raise InputError(f"no entry's id begins with {entry_id}", path=root, hint=_IDS)
    ids = {id_of(stored.name) for stored in found}
    if len(ids) > 1:
        raise InputError(f"{len(ids)} ids begin with {entry_id}", path=root, hint="give more digits")
    # Two files of one id: two processes archived it at once, or one was moved. An add would keep the newer file.
    opened = _opened(store, found)
    read = by_revision(each for each in opened if isinstance(each, Entry))
    return read[-1] if read else entry_of(store, found[-1])


_IDS = "`tracekit archive list ARCHIVE` shows the ids"


@checked()
def read(entry: Entry) -> Trace:
    """Return the archived trace, with the rows, facts and ledgers of its sources. Raises: TracekitError."""
    return pipeline.read(entry.path)


def is_archive(root: str | Path) -> bool:
    """Return whether a folder or URL looks like an archive. Raises: TracekitError for a URL that cannot be read."""
    if "://" not in str(root):
        return any(name.startswith("date=") for table in TABLES for name in names_in(Path(root) / table))
    return any(id_of(stored.name) for stored in open_store(root).files("*.parquet"))

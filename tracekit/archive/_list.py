"""Find and read archived runs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date
from pathlib import Path

from pyarrow import fs

from tracekit import pipeline
from tracekit.archive._entry import NAME, VERIFY, Entry, checked_date, read_entry, run_of
from tracekit.archive._store import TABLES, Store, Stored, names_in, open_store
from tracekit.errors import InputError, TracekitError
from tracekit.inputs import Failure
from tracekit.trace import Trace

REMOTE_READERS = 16
"""Footers read at the same time: each waits for the network."""


def entries(
    root: str | Path,
    *,
    tag: str | Sequence[str] = (),
    since: str | date | None = None,
    until: str | date | None = None,
    run: str | None = None,
    failures: list[Failure] | None = None,
) -> list[Entry]:
    """Return the archived runs, oldest first: by date, then run, then id. Only footers are read.

    tag: "KEY" or "KEY=VALUE"; an entry needs all of several. since, until: dates, both included. run: its whole name.
    failures: receives the damaged files; without it, the first one raises.
    Raises: InputError if there is no archive, ParseError.
    """
    store = open_store(root)
    low, high = (
        checked_date(d, f"--{option}") if isinstance(d, str) else d
        for option, d in (("since", since), ("until", until))
    )
    wanted = [tag] if isinstance(tag, str) else list(tag)
    chosen = []
    for stored in store.files():
        found = NAME.fullmatch(stored.name)
        if found is None:
            if stored.problem and _may_hold_runs(stored):
                failure = Failure(stored.path, InputError(f"{stored.path}: {stored.problem}", hint=VERIFY))
                if failures is None:
                    raise failure.error
                failures.append(failure)
            continue
        # The date may not exist (2026-02-31). `verify` reports that; here it is compared as text.
        day = found["date"]
        if (low and day < low.isoformat()) or (high and day > high.isoformat()):
            continue
        if run is None or run_of(stored.name) == run:
            chosen.append(stored)
    out = [entry for entry in _opened(store, chosen, failures) if all(entry.matches(t) for t in wanted)]
    return sorted(out, key=lambda entry: (entry.date, entry.run, entry.id))


def _may_hold_runs(stored: Stored) -> bool:
    """Return whether an unreadable place is a folder of an archive, so that its runs would be missing."""
    top, _, inside = stored.name.partition("/")
    return stored.name == "." or (top in TABLES and (not inside or inside.startswith("date=")))


def _opened(store: Store, chosen: list[Stored], failures: list[Failure] | None) -> list[Entry]:
    def read(stored: Stored) -> Entry | Failure | None:
        try:
            return entry_of(store, stored)
        except TracekitError as err:
            was_removed = isinstance(err.__cause__, FileNotFoundError)  # since it was listed
            return None if was_removed else Failure(stored.path, err)

    if store.remote and len(chosen) > 1:
        with ThreadPoolExecutor(REMOTE_READERS) as pool:
            found = list(pool.map(read, chosen))
    else:
        found = [read(stored) for stored in chosen]
    out = []
    for each in found:
        if isinstance(each, Failure):
            if failures is None:
                raise each.error
            failures.append(each)
        elif each is not None:
            out.append(each)
    return out


def entry_of(store: Store, stored: Stored) -> Entry:
    """Return the entry of one file. Raises: InputError, ParseError."""
    if stored.problem:
        raise InputError(f"{stored.path}: {stored.problem}", hint=VERIFY)
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


def find(root: str | Path, entry_id: str) -> Entry:
    """Return the entry whose id begins with at least 4 digits. Raises: InputError for none or several."""
    store = open_store(root)
    wanted = entry_id.strip().lower()
    if len(wanted) < 4 or not set(wanted) <= set("0123456789abcdef"):
        raise InputError(f"{entry_id}: not an id", hint=_IDS)
    found = [s for s in store.files("*.parquet") if (m := NAME.fullmatch(s.name)) and m["id"].startswith(wanted)]
    if not found:
        raise InputError(f"{root}: no entry's id begins with {entry_id}", hint=_IDS)
    ids = {stored.name.rpartition("/")[2][:16] for stored in found}
    if len(ids) > 1:
        raise InputError(f"{root}: {len(ids)} ids begin with {entry_id}", hint="give more digits")
    # Two files of one id: two processes archived it at once, or one was moved. An add would keep the newer file.
    return entry_of(store, max(found, key=lambda stored: (stored.modified, stored.name)))


_IDS = "`tracekit archive list ARCHIVE` shows the ids"


def read(entry: Entry) -> Trace:
    """Return the archived trace, with the rows, facts and ledgers of its sources. Raises: TracekitError."""
    return pipeline.read(entry.path)


def is_archive(root: str | Path) -> bool:
    """Return whether a folder or URL looks like an archive. Raises: TracekitError for a URL that cannot be read."""
    if "://" not in str(root):
        return any(name.startswith("date=") for table in TABLES for name in names_in(Path(root) / table))
    return any(NAME.fullmatch(stored.name) for stored in open_store(root).files("*.parquet"))

"""Files of one entry that several processes wrote become one file, without a lock and on any store.

A file is only removed when there is one of a later revision with all its tags, so that nothing that was acknowledged is
lost: not by several adds at the same moment, not by a kill between a write and a removal, not by copying one archive
over another. If a tag has two values, that of the later revision stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

from tracekit.archive._entry import Entry, file_sha256, name_of
from tracekit.archive._folder import version_of
from tracekit.archive._list import entry_of
from tracekit.archive._revisions import Label, by_revision, is_contained, merged
from tracekit.archive._store import Store, Stored
from tracekit.errors import InputError, TracekitError


def files_of(store: Store, run: str, entry_id: str) -> list[Stored]:
    """Return the files of an entry: usually one, several after adds at the same moment."""
    return store.below(f"run={quote(run, safe='')}", f"{entry_id}-*.parquet")


def _names_of(files: Iterable[Stored]) -> set[str]:
    """Return the names of files."""
    return {stored.name for stored in files}


def readable(store: Store, files: Iterable[Stored]) -> list[Entry]:
    """Return the entries of the files that are whole and still there.

    Raises: InputError where the system cannot read one: it may be whole, so it must not count as damaged.
    """
    found = []
    for stored in files:
        try:
            found.append(entry_of(store, stored))
        except TracekitError as err:
            if stored.unknown or (is_of_system(err) and not isinstance(err.__cause__, FileNotFoundError)):
                raise
            continue  # damaged, or removed by another process
    return found


def is_of_system(err: TracekitError) -> bool:
    """Return whether the system has failed, and not the content of a file."""
    return isinstance(err.__cause__, OSError) and bool(err.__cause__.errno)


def settle(
    store: Store, run: str, entry_id: str, part: Path, write: Callable[[Path, Label, Path], str]
) -> Entry | None:
    """Make one file of those of an entry, and return it; None if another process removed them all.

    write(source, label, part): write the rows of an archived file to `part` under another label, and return the table.
    """
    while True:
        listed = files_of(store, run, entry_id)
        ordered = by_revision(readable(store, listed))
        if (len(ordered) < len(listed) or not listed) and _names_of(files_of(store, run, entry_id)) != _names_of(
            listed
        ):
            continue  # another process has put its file in the place of one of them after we listed them
        if not ordered:
            return None
        *older, newest = ordered
        if all(is_contained(entry, newest) for entry in older):
            for entry in older:
                store.delete(entry.name)
            return newest
        label = merged(ordered)
        try:
            with store.local(newest.name) as source:
                before = version_of(source)
                try:
                    table = write(source, label, part)
                except InputError:
                    if version_of(source) == before:
                        raise
                    continue  # another process has put the same revision once more, or a later one
        except (TracekitError, OSError):
            if newest.name in _names_of(files_of(store, run, entry_id)):
                raise
            continue  # another process has just put a later revision in its place
        with part.open("rb") as file:
            name = name_of(table, label.date, run, entry_id, file_sha256(file))
        store.put(part, name)

"""Remove entries by age, size, tag or run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from datetime import date as Date
from pathlib import Path

from tracekit.archive._entry import Entry, id_of
from tracekit.archive._list import listing
from tracekit.archive._revisions import merged
from tracekit.archive._store import WORKSPACE, open_store
from tracekit.errors import Failure, UsageError

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

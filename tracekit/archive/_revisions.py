"""Labels of archived files: read several of one entry as one, and decide which is newer.

Each file has a revision, one above the highest that its writer saw, as in a Lamport clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date as Date

from tracekit.archive._entry import Entry


@dataclass(frozen=True, slots=True)
class Label:
    """The archive's metadata in a file."""

    id: str
    run: str
    date: Date
    date_from: str
    tags: Mapping[str, str]
    revision: int = 1

    def text(self) -> str:
        """Return the JSON that is stored."""
        facts = {"id": self.id, "run": self.run, "date": self.date.isoformat(), "date_from": self.date_from}
        return json.dumps(facts | {"tags": self.tags, "revision": self.revision}, separators=(",", ":"))


def by_revision(entries: Iterable[Entry]) -> list[Entry]:
    """Return the files of one entry, the newest last. Equal revisions have the order of their names everywhere."""
    return sorted(entries, key=lambda entry: (entry.revision, entry.name))


def merged(entries: Sequence[Entry]) -> Label:
    """Return the label that says what all files of one entry say, with the next revision."""
    ordered = by_revision(entries)
    tags = {key: value for entry in ordered for key, value in entry.tags.items()}
    dated = next((e for e in reversed(ordered) if e.date_from == "given"), ordered[-1])
    last = ordered[-1]
    return Label(last.id, last.run, dated.date, dated.date_from, dict(sorted(tags.items())), last.revision + 1)


def unchanged(label: Label, entries: Sequence[Entry]) -> Label:
    """Return the label with the revision of the newest file if that says the same: then it is no new revision."""
    if entries:
        newest = by_revision(entries)[-1]
        same = replace(label, revision=newest.revision)
        if same == Label(newest.id, newest.run, newest.date, newest.date_from, dict(newest.tags), newest.revision):
            return same
    return label


def is_contained(old: Entry, new: Entry) -> bool:
    """Return whether all tags of an older file are in a newer one, and its date if somebody gave it."""
    return old.tags.keys() <= new.tags.keys() and (old.date_from != "given" or new.date_from == "given")


def superseded(entries: Iterable[Entry]) -> list[Entry]:
    """Return the files that a newer file of the same entry contains: left by a process that was killed."""
    of_id: dict[str, list[Entry]] = {}
    for entry in entries:
        of_id.setdefault(entry.id, []).append(entry)
    found = []
    for same in of_id.values():
        *older, newest = by_revision(same)
        found += [entry for entry in older if entry.revision < newest.revision and is_contained(entry, newest)]
    return found

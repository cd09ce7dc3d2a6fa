"""Add a run: read the inputs, write a file in a workspace, name it by its content, move it into the archive."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from datetime import date as Date
from pathlib import Path
from urllib.parse import quote

from tracekit import pipeline
from tracekit.archive._entry import (
    DIGEST_DIGITS,
    Entry,
    Label,
    by_revision,
    checked_date,
    checked_run,
    checked_tags,
    clock_date,
    file_sha256,
    identity,
    is_contained,
    merged,
    name_of,
    unchanged,
)
from tracekit.archive._list import entry_at, entry_of
from tracekit.archive._store import Store, StoredEntry, open_store, remote_errors, version_of
from tracekit.arguments import checked
from tracekit.errors import Failure, InputError, OutputError, SchemaError, TracekitError, UsageError
from tracekit.inputs import ALL, USUAL, Input, InputOptions, PathLike, expand, words_of
from tracekit.inputs.selection import Selection
from tracekit.lazy_dataclass import dataclass
from tracekit.model.trace import Ledger, Run
from tracekit.safety.anonymize import Anonymizer

# Files of one entry that several processes wrote become one file, without a lock and on any store.
#
# A file is only removed when there is one of a later revision with all its tags, so that nothing that was acknowledged
# is lost: not by several adds at the same moment, not by a kill between a write and a removal, not by copying one
# archive over another. If a tag has two values, that of the later revision stays.


def files_of(store: Store, run: str, entry_id: str) -> list[StoredEntry]:
    """Return the files of an entry: usually one, several after adds at the same moment."""
    return store.below(f"run={quote(run, safe='')}", f"{entry_id}-*.parquet")


def _names_of(files: Iterable[StoredEntry]) -> set[str]:
    """Return the names of files."""
    return {stored.name for stored in files}


def readable(store: Store, files: Iterable[StoredEntry]) -> list[Entry]:
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


@dataclass(frozen=True, slots=True)
class Added:
    """The result of an add.

    path: the file, an input for every command. new: False if the archive had the same sources under this run already.
    changed: the existing file has new tags or another date, or was made again with `force`.
    """

    path: str
    id: str
    new: bool
    changed: bool
    run: str
    date: Date
    date_from: str
    tags: Mapping[str, str]
    events: int
    totals: int
    bytes: int
    ledgers: tuple[Ledger, ...] = field(repr=False, default=())
    failures: tuple[Failure, ...] = ()


@dataclass(frozen=True, slots=True)
class _Request:
    """The arguments of an add. None and "": not given."""

    run: str
    date: Date | None
    date_from: str
    tags: dict[str, str]
    reading: str
    modified: Date | None
    """The day of the last change of the oldest input; None if that is unknown."""
    replaces: tuple[str, ...] = ()

    def label(self, store: Store, run: Run, first_ns: int | None) -> tuple[Label, list[StoredEntry]]:
        """Return the label of a run that was read, and the files that it replaces. Raises: UsageError for no date."""
        entry_id = identity([str(s.sha256) for s in run.sources], self.run, self.reading)
        existing = files_of(store, self.run, entry_id)
        known = readable(store, existing)
        old = merged(known) if known else None
        tags = {**(old.tags if old else {}), **self.tags}
        if self.date is not None:
            day, how = self.date, self.date_from
        elif old is not None and old.date_from == "given":
            day, how = old.date, old.date_from
        elif (clock := clock_date(run, first_ns)) is not None:
            day, how = clock, "trace"
        elif old is not None:
            day, how = old.date, old.date_from
        elif self.modified is not None:
            day, how = self.modified, "file"
        else:
            raise UsageError(
                "the day of the run is unknown: the trace has no wall clock, and its source no time of change",
                hint="give a date: YYYY-MM-DD",
            )
        older = self.older_versions(store, entry_id)
        replaces = {*(old.replaces if old else ()), *(each.id for each in older)}
        replaces |= {each for entry in older for each in entry.replaces}
        made = Label(
            entry_id,
            self.run,
            day,
            how,
            dict(sorted(tags.items())),
            old.revision if old else 1,
            tuple(sorted(replaces - {entry_id})),
        )
        made = unchanged(made, known)
        later = max((each.revision for each in older), default=0) + 1
        return replace(made, revision=max(made.revision, later)), existing

    def older_versions(self, store: Store, entry_id: str) -> list[Entry]:
        """Return the entries of the versions that this one replaces, as far as the archive still has them."""
        ids = [each for each in self.replaces if each != entry_id]
        return [entry for each in ids for entry in readable(store, files_of(store, self.run, each))]

    def is_met_by(self, store: Store, old: Entry) -> bool:
        """Return whether an entry has the tags and the date of the request, and is newer than what it replaces."""
        older = self.older_versions(store, old.id)
        is_newest = all(each.id in old.replaces and each.revision < old.revision for each in older)
        return self.tags.items() <= old.tags.items() and self.date in (None, old.date) and is_newest


@checked("inputs")
def add(
    root: str | Path,
    inputs: PathLike | Sequence[PathLike],
    options: InputOptions = USUAL,
    *,
    run: str = "",
    tags: Mapping[str, str] | None = None,
    date: str | Date | None = None,
    force: bool = False,
    workspace: Path | None = None,
    replaces: Sequence[str] = (),
) -> Added:
    """Archive the inputs as one run and return its place. Memory does not grow with the input.

    root: a folder, made if there is none, or a URL that fsspec knows. run: the name of the run; by default the label of
    the first input, the name of the folder, or the name of the first file up to its first dot. tags: added to those of
    an earlier add. date: of the run; by default the day of the first event by the trace's wall clock, else of the
    source's last change, in UTC. force: read and write again what the archive has already. workspace: a
    folder on the archive's file system to prepare the file in, which the caller removes after a kill; by default a
    hidden one in the archive. replaces: ids of older versions of this run, whose files changed; both stay, and queries
    and comparisons count the newest one.

    Adding the same bytes under the same run again does nothing, or updates the tags and the date. A single input that
    is an archived file keeps its run, date and tags unless others are given.
    Raises: TracekitError; then nothing is added.
    """
    given = checked_date(date) if isinstance(date, str) else date
    words = words_of(inputs)
    items = expand(words)
    copied = entry_at(items[0].name) if len(items) == 1 else None
    request = _Request(
        run=checked_run(run or (copied.run if copied else _usual_run(words, items, options.anonymize))),
        date=given or (copied.date if copied else None),
        date_from="given" if given or not copied else copied.date_from,
        tags=checked_tags({**(copied.tags if copied else {}), **(tags or {})}),
        reading=_reading(options.selection, options.demangle, options.options, options.anonymize),
        modified=None if given else _last_change(items),
        replaces=tuple(replaces),
    )
    store = open_store(root, create=True)
    # What is archived already was perhaps read without `strict`: only reading the inputs again shows a note.
    if not force and not options.strict and (old := _existing(store, request, items)) is not None:
        return _unchanged(old)
    with store.workspace(workspace) as folder:
        part = folder / ".trace.part"  # not *.parquet: readers of the tree must not find it
        label: Label | None = None
        replaced: list[StoredEntry] = []

        def text(facts: Run, first_ns: int | None) -> str:
            nonlocal label, replaced
            label, replaced = request.label(store, facts, first_ns)
            return label.text()

        all_bad: list[Failure] = []
        while True:
            done = pipeline.convert(
                [_word(item) for item in items],
                part,
                replace(options, partial=True),
                to="parquet",
                label=text,
                force=True,
            )
            all_bad += done.failures
            if not done.failures:
                break
            # The rows of a bad input before its error must not stay: convert again without it.
            failed = {failure.name for failure in done.failures}
            items = [item for item in items if item.name not in failed]
            if not options.partial or not items or any(item.name == "-" for item in items):
                raise done.failures[0].error
        if label is None:
            raise SchemaError("the writer did not call `label`")
        _check_rows(done, part)
        if not force and (old := _existing_as_requested(store, request, replaced)) is not None:
            return replace(_unchanged(old), failures=tuple(all_bad))
        name = _name(done, label, part)
        known = readable(store, replaced)
        same = len(replaced) == 1 and [entry.name for entry in known] == [name]
        if same and not force and _is_undamaged(store, replaced[0]):
            return replace(_unchanged(known[0]), ledgers=done.ledgers, failures=tuple(all_bad))
        if name not in {entry.name for entry in known} and any(e.revision >= label.revision for e in known):
            # Other rows under the old label, from another version of tracekit: these are the newer ones.
            label = replace(label, revision=label.revision + 1)
            made = folder / ".labelled.part"
            _relabelled(part, label, made)
            part = made
            name = _name(done, label, part)
        # Entries that this one replaces and that cannot be read are deleted last: a kill before that loses nothing.
        damaged = {stored.name for stored in replaced} - {entry.name for entry in known} - {name}
        store.put(part, name)
        entry = settle(store, label.run, label.id, part, _relabelled)
        for each in sorted(damaged):
            store.delete(each)
    if entry is None:
        raise OutputError(f"{store.root}/{name}: another process removed it at once", hint="add it again")
    return replace(
        _unchanged(entry), new=not replaced, changed=bool(replaced), ledgers=done.ledgers, failures=tuple(all_bad)
    )


def _name(done: pipeline.Conversion, label: Label, part: Path) -> str:
    with part.open("rb") as file:
        return name_of(_table(done), label.date, label.run, label.id, file_sha256(file))


def _table(done: pipeline.Conversion) -> str:
    return "totals" if done.written.totals and not done.written.events else "events"


def _relabelled(source: Path, label: Label, part: Path) -> str:
    """Write an archived file again with another label, and return the table that it is in."""
    done = pipeline.convert(
        [source], part, InputOptions(format="parquet"), to="parquet", label=lambda *_: label.text(), force=True
    )
    _check_rows(done, part)
    return _table(done)


def _word(item: Input) -> str:
    return f"{item.label}={item.name}" if item.label else item.name


def _usual_run(words: Sequence[PathLike], items: Sequence[Input], anonymizer: Anonymizer | None = None) -> str:
    if anonymizer is not None:
        return anonymizer.token("run", _usual_run(words, items))
    if items[0].label:
        return items[0].label
    first = Path(str(words[0]))
    if first.is_dir():
        return first.resolve().name or "root"
    address = items[0].name.partition("?")[0] if "://" in items[0].name else items[0].name
    name = "stdin" if address == "-" else address.rstrip("/").rpartition("/")[2]
    usual = name.split(".")[0] or name
    return usual.encode("utf-8", "replace").decode()


def _reading(
    selection: Selection, demangle: bool, options: Mapping[str, str], anonymizer: Anonymizer | None = None
) -> str:
    """Return the filters and options of reading as text, "" for the defaults: other rows make another entry."""
    if anonymizer is not None:
        names = " with names" if anonymizer.names else ""
        return f"anonymized{names} {_reading(selection, demangle, options)}"
    if not selection and demangle and not options:
        return ""
    filters = {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name in Selection.__dataclass_fields__
        if (value := getattr(selection, name)) != getattr(ALL, name)
    }
    return json.dumps([filters, demangle, dict(sorted(options.items()))], sort_keys=True)


def _last_change(items: Sequence[Input]) -> Date | None:
    """Return the day of the last change of the oldest input, None if one is unknown."""
    days = [_day_of_change(item.name) for item in items]
    known = [day for day in days if day is not None]
    return min(known) if len(known) == len(days) else None


def _day_of_change(name: str) -> Date | None:
    if name == "-":
        return None
    if "://" not in name:
        path = Path(name)
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).date() if path.is_file() else None
    try:
        import fsspec

        filesystem, path_there = fsspec.core.url_to_fs(name)
        when = filesystem.modified(path_there)
    except ImportError:
        return None
    except remote_errors():
        return None
    return when.astimezone(UTC).date() if isinstance(when, datetime) else None


def _existing(store: Store, request: _Request, items: Sequence[Input]) -> Entry | None:
    """Return the entry that an add would make, if the inputs' SHA-256 alone shows that the archive has it."""
    fingerprints = []
    for item in items:
        path = Path(item.name)
        if not path.is_file():
            return None
        try:
            with path.open("rb") as file:
                fingerprints.append(file_sha256(file))
        except OSError:
            return None
    entry_id = identity(fingerprints, request.run, request.reading)
    return _existing_as_requested(store, request, files_of(store, request.run, entry_id))


def _existing_as_requested(store: Store, request: _Request, existing: Sequence[StoredEntry]) -> Entry | None:
    """Return the entry of the only existing file, if that is undamaged, whole, and has the requested tags and date.

    One whose reading ended at a limit is not whole: it is read again, perhaps with another limit.
    """
    if len(existing) != 1 or not _is_undamaged(store, existing[0]):
        return None
    old = next(iter(readable(store, existing)), None)
    return old if old is not None and request.is_met_by(store, old) and not _is_cut(old) else None


def _is_cut(entry: Entry) -> bool:
    return any(code.startswith("limit-of-") for ledger in entry.ledgers for code in ledger.notes)


def _is_undamaged(store: Store, stored: StoredEntry) -> bool:
    """Return whether the digest in a file's name is right. A remote file is not read here, only by `verify`."""
    if store.remote:
        return True
    if stored.problem:
        return False
    try:
        with store.open(stored.name) as file:
            return stored.name.endswith(f"-{file_sha256(file)[:DIGEST_DIGITS]}.parquet")
    except OSError as err:
        raise InputError(f"cannot be read ({err.strerror or err})", path=stored.path) from err
    except TracekitError as err:
        if is_of_system(err) and not isinstance(err.__cause__, FileNotFoundError):
            raise
        return False  # another process has just replaced it


def _check_rows(done: pipeline.Conversion, part: Path) -> None:
    """Raise unless the file has every row that the ledgers count."""
    if done.written.left_out:
        reasons = ", ".join(f"{n:,} rows: {reason}" for reason, n in sorted(done.written.left_out.items()))
        raise OutputError(f"the run does not fit into one file ({reasons})", hint="archive its inputs one by one")
    counted = sum(x.events_out for x in done.ledgers), sum(x.totals_out for x in done.ledgers)
    if counted != (done.written.events, done.written.totals):
        raise SchemaError(f"{part.name}: the ledgers count {counted} rows, but {done.written} were written")


def _unchanged(old: Entry) -> Added:
    return Added(
        path=old.path,
        id=old.id,
        new=False,
        changed=False,
        run=old.run,
        date=old.date,
        date_from=old.date_from,
        tags=old.tags,
        events=old.events,
        totals=old.totals,
        bytes=old.bytes,
        ledgers=old.ledgers,
    )

"""Adding a run: read, write beside the archive, name by content, show."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from datetime import date as Date
from pathlib import Path
from urllib.parse import quote

from tracekit import pipeline
from tracekit.archive._entry import (
    DIGEST_DIGITS,
    Entry,
    checked_date,
    checked_run,
    checked_tags,
    clock_date,
    file_sha256,
    identity,
    name_of,
)
from tracekit.archive._list import entry_at, entry_of
from tracekit.archive._store import Store, Stored, open_store, remote_errors
from tracekit.errors import OutputError, SchemaError, TracekitError, UsageError
from tracekit.inputs import ALL, Failure, Input, PathLike, expand
from tracekit.selection import Selection
from tracekit.trace import Ledger, Run


@dataclass(frozen=True, slots=True)
class Added:
    """What became of an add.

    path: the file, an input for every command. new: False when the same sources stood under this run already.
    changed: a file that was there has new tags or another date, or was made again with `force`.
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


@dataclass(frozen=True, slots=True)
class _Label:
    """What a file says of its place in the archive."""

    id: str
    run: str
    date: Date
    date_from: str
    tags: dict[str, str]

    def text(self) -> str:
        facts = {"id": self.id, "run": self.run, "date": self.date.isoformat(), "date_from": self.date_from}
        return json.dumps(facts | {"tags": self.tags}, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the caller asked for. A field that is None or "" was left to us."""

    run: str
    date: Date | None
    date_from: str
    tags: dict[str, str]
    reading: str
    modified: Date | None
    """The day on which the oldest of the inputs was last changed; None where that cannot be known."""

    def label(self, store: Store, run: Run, first_ns: int | None) -> tuple[_Label, list[Stored]]:
        """Return the label of what was read, and the files that it replaces. Raises: UsageError without any date."""
        entry_id = identity([str(s.sha256) for s in run.sources], self.run, self.reading)
        there = _same(store, self.run, entry_id)
        old = _readable(store, there)
        tags = {**(old.tags if old else {}), **self.tags}
        if self.date is not None:
            day, how = self.date, self.date_from
        elif (clock := clock_date(run, first_ns)) is not None:
            day, how = clock, "trace"
        elif old is not None:
            day, how = old.date, old.date_from
        elif self.modified is not None:
            day, how = self.modified, "file"
        else:
            raise UsageError(
                "the day of the run is unknown: the trace tells no wall clock, and its source no time of change",
                hint="say it with --date YYYY-MM-DD",
            )
        return _Label(entry_id, self.run, day, how, dict(sorted(tags.items()))), there

    def met_by(self, old: Entry) -> bool:
        """Tell whether what is there is all that was asked for."""
        return self.tags.items() <= old.tags.items() and self.date in (None, old.date)


def add(
    root: str | Path,
    inputs: PathLike | Sequence[PathLike],
    *,
    run: str = "",
    tags: Mapping[str, str] | None = None,
    date: str | Date | None = None,
    format: str = "",
    selection: Selection = ALL,
    strict: bool = False,
    demangle: bool = True,
    options: Mapping[str, str] | None = None,
    force: bool = False,
    failures: list[Failure] | None = None,
    progress: Callable[[float], None] | None = None,
    workspace: Path | None = None,
) -> Added:
    """Archive inputs as one run, side by side, and return where. Memory does not grow with the input.

    root: a folder, which is made, or a URL that fsspec knows. run: its name; without it the label of the first input,
    the name of the folder, or of the first file up to its first dot. tags: are added to those of an earlier add.
    date: of the run; without it the day of the first event by the trace's wall clock, else of the source's last change;
    all in UTC. force: read and write also what is there already. failures: takes the bad inputs among several; without
    it the first of them raises. workspace: a folder on the file system of the archive, in which the file is prepared
    (whoever names one clears it after a kill); else a hidden one in the archive. The others as in `pipeline.convert`.

    Adding the same bytes under the same run again does nothing, or brings the tags and the date up to date. An
    archived file as the one input keeps its run, date and tags where none are given.
    Raises: TracekitError; nothing is added then.
    """
    given = checked_date(date) if isinstance(date, str) else date
    words = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    items = expand(words)
    copied = entry_at(items[0].name) if len(items) == 1 else None
    wish = _Wish(
        run=checked_run(run or (copied.run if copied else _usual_run(words, items))),
        date=given or (copied.date if copied else None),
        date_from="given" if given or not copied else copied.date_from,
        tags=checked_tags({**(copied.tags if copied else {}), **(tags or {})}),
        reading=_reading(selection, demangle, options or {}),
        modified=None if given else _last_change(items),
    )
    store = open_store(root, create=True)
    if not force and (old := _already(store, wish, items)) is not None:
        return _unchanged(old)
    with store.workspace(workspace) as folder:
        part = folder / ".trace.part"  # no *.parquet: what reads the tree meanwhile must not meet it
        label: _Label | None = None
        replaced: list[Stored] = []

        def text(facts: Run, first_ns: int | None) -> str:
            nonlocal label, replaced
            label, replaced = wish.label(store, facts, first_ns)
            return label.text()

        found: list[Failure] = []
        while True:
            bad: list[Failure] = []
            done = pipeline.convert(
                [_word(item) for item in items],
                part,
                to="parquet",
                format=format,
                selection=selection,
                strict=strict,
                demangle=demangle,
                options=options,
                failures=bad,
                progress=progress,
                label=text,
                force=True,
            )
            found += bad
            if not bad:
                break
            # What a bad input gave before its error must not stay: once more, without it.
            lost = {failure.name for failure in bad}
            items = [item for item in items if item.name not in lost]
            if failures is None or not items or any(item.name == "-" for item in items):
                raise bad[0].error
        if failures is not None:
            failures.extend(found)
        if label is None:
            raise SchemaError("the writer did not ask for the label of the archive")
        _nothing_lost(done, part)
        if not force and (old := _met(store, wish, replaced)) is not None:
            return _unchanged(old)
        with part.open("rb") as file:
            sha256 = file_sha256(file)
        table = "totals" if done.written.totals and not done.written.events else "events"
        name = name_of(table, label.date, label.run, label.id, sha256)
        size = part.stat().st_size
        store.put(part, name)
        for stored in replaced:
            if stored.name != name:
                store.delete(stored.name)
    return Added(
        path=f"{store.root}/{name}",
        id=label.id,
        new=not replaced,
        changed=bool(replaced),
        run=label.run,
        date=label.date,
        date_from=label.date_from,
        tags=label.tags,
        events=done.written.events,
        totals=done.written.totals,
        bytes=size,
        ledgers=done.ledgers,
    )


def _word(item: Input) -> str:
    return f"{item.label}={item.name}" if item.label else item.name


def _usual_run(words: Sequence[PathLike], items: Sequence[Input]) -> str:
    if items[0].label:
        return items[0].label
    first = Path(str(words[0]))
    if first.is_dir():
        return first.resolve().name or "root"
    name = "stdin" if items[0].name == "-" else items[0].name.rstrip("/").rpartition("/")[2]
    usual = name.split(".")[0] or name
    return usual.encode("utf-8", "replace").decode()


def _reading(selection: Selection, demangle: bool, options: Mapping[str, str]) -> str:
    """Return how the sources are read, "" for the usual way: other rows are another entry."""
    if not selection and demangle and not options:
        return ""
    asked = {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name in Selection.__dataclass_fields__
        if (value := getattr(selection, name)) != getattr(ALL, name)
    }
    return json.dumps([asked, demangle, dict(sorted(options.items()))], sort_keys=True)


def _last_change(items: Sequence[Input]) -> Date | None:
    """Return the day on which the oldest input was last changed, None where one does not tell."""
    days = [_changed(item.name) for item in items]
    known = [day for day in days if day is not None]
    return min(known) if len(known) == len(days) else None


def _changed(name: str) -> Date | None:
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


def _same(store: Store, run: str, entry_id: str) -> list[Stored]:
    """Return the files of an id: one, but for a moment of two adds at once."""
    return store.below(f"run={quote(run, safe='')}", f"{entry_id}-*.parquet")


def _readable(store: Store, there: Sequence[Stored]) -> Entry | None:
    """Return the entry of the newest file that can be read; a damaged one is as good as none."""
    for stored in sorted(there, key=lambda each: (each.modified, each.name), reverse=True):
        try:
            return entry_of(store, stored)
        except TracekitError:
            continue
    return None


def _already(store: Store, wish: _Wish, items: Sequence[Input]) -> Entry | None:
    """Return what is there, where the bytes of the inputs say without reading them that nothing is to be done."""
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
    return _met(store, wish, _same(store, wish.run, identity(fingerprints, wish.run, wish.reading)))


def _met(store: Store, wish: _Wish, there: Sequence[Stored]) -> Entry | None:
    """Return the one file that is there, if it is whole and all that was asked for."""
    if len(there) != 1 or not _is_whole(store, there[0]):
        return None
    old = _readable(store, there)
    return old if old is not None and wish.met_by(old) else None


def _is_whole(store: Store, stored: Stored) -> bool:
    """Tell whether a local file has the bytes that its name tells; of a remote one only `verify` asks for them all."""
    if store.remote:
        return True
    if stored.problem:
        return False
    try:
        with store.open(stored.name) as file:
            return stored.name.endswith(f"-{file_sha256(file)[:DIGEST_DIGITS]}.parquet")
    except TracekitError:
        return False  # another process has just replaced it


def _nothing_lost(done: pipeline.Conversion, part: Path) -> None:
    """Raise where the file does not hold every row that the ledgers tell of."""
    if done.written.left_out:
        reasons = ", ".join(f"{n:,} rows: {reason}" for reason, n in sorted(done.written.left_out.items()))
        raise OutputError(f"the run does not fit into one file ({reasons})", hint="archive its inputs one by one")
    told = sum(x.events_out for x in done.ledgers), sum(x.totals_out for x in done.ledgers)
    if told != (done.written.events, done.written.totals):
        raise SchemaError(f"{part.name}: ledgers tell of {told} rows, written were {done.written}")


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

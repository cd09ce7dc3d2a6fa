"""The footer of one archived file as an Entry, and the names of files."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, date, datetime
from datetime import date as Date
from pathlib import Path
from typing import BinaryIO, NotRequired, TypedDict
from urllib.parse import quote, unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.errors import InputError, ParseError, UsageError, first_line
from tracekit.lazy_dataclass import dataclass
from tracekit.model.display import escape_controls, plural, shortened
from tracekit.model.trace import Ledger, Run, SourceFacts
from tracekit.safety.anonymize import masked_run

ID_DIGITS, DIGEST_DIGITS = 16, 32
NAME = re.compile(
    r"(?P<table>events|totals)/date=(?P<date>\d{4}-\d\d-\d\d)/run=(?P<run>[^/]+)/"
    r"(?P<id>[0-9a-f]{16})-(?P<digest>[0-9a-f]{32})\.parquet",
    re.ASCII,
)
MAX_RUN_BYTES = 200
"""File systems allow names of 255 bytes."""
FIRST_DATE = date(2000, 1, 1)
"""An earlier date comes from a clock that was never set: no trace of a GPU is older."""

_WRONG = (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError)
_DAMAGE = (pa.ArrowException, msgspec.MsgspecError, OSError, *_WRONG)


@dataclass(frozen=True, slots=True)
class Entry:
    """One archived run.

    path: an input for every command. name: relative to the archive. id: 16 hex digits; equal sources archived under an
    equal run have an equal id. date: of the run, in UTC. date_from: "trace" (its clock), "file" (last change of the
    source) or "given". events, totals: numbers of rows. bytes: size of the file.
    facts: the sources' own facts (tool, command ...; the first source has precedence), and "formats" and "devices".
    fingerprints: SHA-256 of each source. ledgers: the counts of each source's records.
    schema, version: of the event schema, and of the tracekit that wrote the file. as_written: False if another program
    rewrote the file; its rows are then unverified, and `verify` reports it.
    revision: counts the files that were written for this entry; 0 in files of older versions. replaces: the ids of the
    older versions of this run, whose files changed.
    """

    id: str
    path: str
    name: str
    run: str
    date: date
    date_from: str
    tags: Mapping[str, str]
    events: int
    totals: int
    bytes: int
    facts: Mapping[str, object]
    fingerprints: tuple[str, ...]
    sources: tuple[SourceFacts, ...]
    ledgers: tuple[Ledger, ...] = field(repr=False)
    origin_ns: int | None
    table: str
    schema: int
    version: str
    as_written: bool
    revision: int = 0
    replaces: tuple[str, ...] = ()

    def __repr__(self) -> str:
        tags = "".join(f", {key}={value}" if value else f", {key}" for key, value in self.tags.items())
        rows = f"{plural(self.events, 'event')}, {plural(self.totals, 'total')}"
        text = f"entry {self.id} of {self.run} on {self.date.isoformat()}: {rows}{tags}"
        return shortened(escape_controls(text), 200)

    def matches(self, tag: str) -> bool:
        """Return whether the entry has a tag: "KEY", or "KEY=VALUE"."""
        key, equals, value = tag.partition("=")
        return key in self.tags and (not equals or self.tags[key] == value)

    def to_json(self) -> dict[str, object]:
        """Return the public JSON object, as `tracekit archive list|show --format json` prints it."""
        return {
            "id": self.id,
            "path": self.path,
            "run": self.run,
            "date": self.date.isoformat(),
            "date_from": self.date_from,
            "tags": dict(self.tags),
            "events": self.events,
            "totals": self.totals,
            "bytes": self.bytes,
            "schema": self.schema,
            "tracekit": self.version,
            "origin_ns": self.origin_ns,
            "facts": dict(self.facts),
            "sources": [source.to_json() for source in self.sources],
            "ledgers": [ledger.to_json() for ledger in self.ledgers],
        }


def identity(fingerprints: Sequence[str], run: str, reading: str) -> str:
    """Return the id of sources archived under a run. reading: the filters and options of reading, "" for defaults."""
    text = json.dumps([sorted(fingerprints), run, reading], ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def folder_of(table: str, day: date, run: str) -> str:
    """Return the folder of a file, relative to the archive."""
    return f"{table}/date={day.isoformat()}/run={quote(run, safe='')}"


def name_of(table: str, day: date, run: str, entry_id: str, sha256: str) -> str:
    """Return the name of a file, relative to the archive. sha256: of its bytes, in hex."""
    return f"{folder_of(table, day, run)}/{entry_id}-{sha256[:DIGEST_DIGITS]}.parquet"


def checked_run(run: str) -> str:
    """Return the name of a run. Raises: UsageError for one that cannot name a folder."""
    try:
        size = len(quote(run, safe="", errors="strict"))
    except UnicodeEncodeError:
        size = 0
    if not run.strip() or not 0 < size <= MAX_RUN_BYTES or not run.isprintable():
        raise UsageError(
            f"run {run[:60]!r}: not a name for a run",
            hint=f"printable text of at most {MAX_RUN_BYTES} bytes as the name of a folder; there ü is %C3%BC, 6 bytes",
        )
    return run


def checked_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return tags by key, sorted. Raises: UsageError for an empty key, a key with =, and unprintable text."""
    for key, value in tags.items():
        if not key.strip() or "=" in key or not key.isprintable() or not value.isprintable():
            shown = f"{key}={value}"
            shown = shown if shown.isprintable() else repr(shown)  # a line break must not look like a second line
            raise UsageError(f"tag {shown}: not a tag", hint="KEY=VALUE, printable text")
    return dict(sorted(tags.items()))


def checked_date(text: str, what: str = "date") -> date:
    """Return the date of "2026-01-31". Raises: UsageError."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError as err:
        raise UsageError(f"{what} {text}: not a date", hint="YYYY-MM-DD, for example 2026-01-31") from err


def clock_date(run: Run, first_ns: int | None) -> date | None:
    """Return the date of the first event by the trace's wall clock, in UTC; None without a plausible clock."""
    if run.origin_ns is None:
        return None
    try:
        found = datetime.fromtimestamp((run.origin_ns + (first_ns or 0)) // 1_000_000_000, UTC).date()
    except (OverflowError, ValueError, OSError):
        return None
    return found if found >= FIRST_DATE else None


def file_sha256(file: BinaryIO) -> str:
    """Return the SHA-256 of a file from its present position on, in hex."""
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


class _LabelJson(TypedDict):
    id: str
    run: str
    date: str
    date_from: str
    tags: dict[str, str]
    revision: NotRequired[int]
    replaces: NotRequired[list[str]]


class _CheckJson(TypedDict):
    data_bytes: int


def read_entry(file: BinaryIO | Path, *, path: str, name: str, size: int) -> Entry:
    """Return the entry in a file's footer.

    Raises: ParseError for a damaged file, or one that is not archived; InputError where the system cannot read it.
    """
    try:
        footer = pq.read_metadata(file)
        texts = {k.decode(): v for k, v in (footer.metadata or {}).items() if k.startswith(b"tracekit.")}
    except _DAMAGE as err:
        if isinstance(err, OSError) and err.errno:
            raise InputError(f"cannot be read ({err.strerror or err})", path=path) from err
        raise ParseError(path, "", f"not a readable Parquet file ({first_line(err)})", hint=VERIFY) from err
    if "tracekit.archive" not in texts:
        raise ParseError(path, "", "not a file of an archive: its metadata lacks tracekit.archive", hint=VERIFY)
    try:
        label = msgspec.convert(json.loads(texts["tracekit.archive"]), _LabelJson)
        check = msgspec.json.decode(texts["tracekit.check"], type=_CheckJson)
        run = Run.from_json(json.loads(texts["tracekit.run"]))
        masked_run(run)  # older versions wrote credentials into archives
        ledgers = tuple(map(Ledger.from_json, json.loads(texts["tracekit.ledger"])))
        return Entry(
            id=label["id"],
            path=path,
            name=name,
            run=label["run"],
            date=date.fromisoformat(label["date"]),
            date_from=label["date_from"],
            tags=label["tags"],
            events=sum(ledger.events_out for ledger in ledgers),
            totals=sum(ledger.totals_out for ledger in ledgers),
            bytes=size,
            facts=_facts(run),
            fingerprints=tuple(str(s.sha256) for s in run.sources),
            sources=tuple(run.sources),
            ledgers=ledgers,
            origin_ns=run.origin_ns,
            table=texts["tracekit.table"].decode(),
            schema=int(texts["tracekit.schema"]),
            version=texts["tracekit.version"].decode(),
            as_written=check["data_bytes"] == size - 8 - footer.serialized_size,
            revision=label.get("revision", 0),
            replaces=tuple(label.get("replaces", ())),
        )
    except _DAMAGE as err:
        raise ParseError(path, "footer", f"the metadata cannot be read ({first_line(err)})", hint=VERIFY) from err


VERIFY = "`tracekit archive verify` checks every file"


def _facts(run: Run) -> dict[str, object]:
    facts: dict[str, object] = {}
    for source in reversed(run.sources):
        facts |= source.facts
    facts["formats"] = sorted({source.format for source in run.sources})
    facts["devices"] = sorted(set(run.devices.values()))
    return facts


def run_of(name: str) -> str:
    """Return the run in a file's name. Raises: InputError for another name."""
    return unquote(_parts(name)["run"])


def day_of(name: str) -> str:
    """Return the date in a file's name as text; it may not exist. Raises: InputError for another name."""
    return _parts(name)["date"]


def _parts(name: str) -> re.Match[str]:
    found = NAME.fullmatch(name)
    if found is None:
        raise InputError("not the name of an archived file", path=name)
    return found


def id_of(name: str) -> str:
    """Return the id in a file's name, "" for another name."""
    found = NAME.fullmatch(name)
    return found["id"] if found is not None else ""


# Labels of archived files: read several of one entry as one, and decide which is newer.
#
# Each file has a revision, one above the highest that its writer saw, as in a Lamport clock.


@dataclass(frozen=True, slots=True)
class Label:
    """The archive's metadata in a file."""

    id: str
    run: str
    date: Date
    date_from: str
    tags: Mapping[str, str]
    revision: int = 1
    replaces: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the JSON that is stored."""
        facts = {"id": self.id, "run": self.run, "date": self.date.isoformat(), "date_from": self.date_from}
        replaces = {"replaces": self.replaces} if self.replaces else {}
        return json.dumps(facts | {"tags": self.tags, "revision": self.revision} | replaces, separators=(",", ":"))


def by_revision(entries: Iterable[Entry]) -> list[Entry]:
    """Return the files of one entry, the newest last. Equal revisions have the order of their names everywhere."""
    return sorted(entries, key=lambda entry: (entry.revision, entry.name))


def merged(entries: Sequence[Entry]) -> Label:
    """Return the label that says what all files of one entry say, with the next revision."""
    ordered = by_revision(entries)
    tags = {key: value for entry in ordered for key, value in entry.tags.items()}
    dated = next((e for e in reversed(ordered) if e.date_from == "given"), ordered[-1])
    last = ordered[-1]
    replaces = tuple(sorted({each for entry in ordered for each in entry.replaces}))
    return Label(
        last.id, last.run, dated.date, dated.date_from, dict(sorted(tags.items())), last.revision + 1, replaces
    )


def unchanged(label: Label, entries: Sequence[Entry]) -> Label:
    """Return the label with the revision of the newest file if that says the same: then it is no new revision."""
    if entries:
        newest = by_revision(entries)[-1]
        same = replace(label, revision=newest.revision)
        stored = Label(
            newest.id,
            newest.run,
            newest.date,
            newest.date_from,
            dict(newest.tags),
            newest.revision,
            newest.replaces,
        )
        if same == stored:
            return same
    return label


def is_contained(old: Entry, new: Entry) -> bool:
    """Return whether all tags of an older file are in a newer one, and its date if somebody gave it."""
    has_labels = old.tags.keys() <= new.tags.keys() and set(old.replaces) <= set(new.replaces)
    return has_labels and (old.date_from != "given" or new.date_from == "given")


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


def replaced(entries: Iterable[Entry]) -> list[Entry]:
    """Return the older versions of runs whose files changed, among entries that have the newer ones too.

    Two versions replace each other where a file was changed back: that of the later revision counts.
    """
    every = list(entries)
    newest: dict[str, int] = {}
    for entry in every:
        for older in entry.replaces:
            newest[older] = max(newest.get(older, 0), entry.revision)
    return [entry for entry in every if newest.get(entry.id, -1) > entry.revision]

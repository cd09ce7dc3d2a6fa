"""Entry: what the footer of one archived file says; and the names that files have."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tracekit.errors import InputError, ParseError, UsageError
from tracekit.trace import Ledger, Run, SourceFacts

ID_DIGITS, DIGEST_DIGITS = 16, 32
NAME = re.compile(
    r"(?P<table>events|totals)/date=(?P<date>\d{4}-\d\d-\d\d)/run=(?P<run>[^/]+)/"
    r"(?P<id>[0-9a-f]{16})-(?P<digest>[0-9a-f]{32})\.parquet",
    re.ASCII,
)
MOST_RUN_BYTES = 200
"""File systems take names of 255 bytes."""
FIRST_DATE = date(2000, 1, 1)
"""A clock that shows less was never set: no trace of a GPU is older."""

_BAD = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError)


@dataclass(frozen=True, slots=True)
class Entry:
    """One archived run.

    path: takes part in every command as an input. name: relative to the archive. id: 16 hex digits, the same wherever
    the same sources are archived under the same run. date: of the run, in UTC; date_from: "trace" (its own clock),
    "file" (when the source was last changed) or "given". events, totals: rows. bytes: size of the file.
    facts: what the sources say of themselves (tool, command ...), the first source's word first, with "formats" and
    "devices". fingerprints: SHA-256 of each source as it lay there. ledgers: what became of each record of each source.
    schema, version: of the event schema, and of the tracekit that wrote the file. as_written: False when another
    program wrote the file anew (its rows are then unverified); `verify` finds it.
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
    facts: Mapping[str, Any]
    fingerprints: tuple[str, ...]
    sources: tuple[SourceFacts, ...]
    ledgers: tuple[Ledger, ...] = field(repr=False)
    origin_ns: int | None
    table: str
    schema: int
    version: str
    as_written: bool

    def matches(self, tag: str) -> bool:
        """Tell whether the entry has this tag: "KEY", or "KEY=VALUE"."""
        key, equals, value = tag.partition("=")
        return key in self.tags and (not equals or self.tags[key] == value)

    def to_json(self) -> dict[str, Any]:
        """Return the public form, as `tracekit archive list|show --format json` prints it."""
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
    """Return the id of sources archived under a run. reading: how they were read, where that was not the usual way."""
    text = json.dumps([sorted(fingerprints), run, reading], ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]


def folder_of(table: str, day: date, run: str) -> str:
    """Return the folder of a file, relative to the archive."""
    return f"{table}/date={day.isoformat()}/run={quote(run, safe='')}"


def name_of(table: str, day: date, run: str, entry_id: str, sha256: str) -> str:
    """Return the name of a file, relative to the archive. sha256: of its bytes, in hex."""
    return f"{folder_of(table, day, run)}/{entry_id}-{sha256[:DIGEST_DIGITS]}.parquet"


def checked_run(run: str) -> str:
    """Return the name of a run. Raises: UsageError for one that can be no folder's."""
    try:
        size = len(quote(run, safe="", errors="strict"))
    except UnicodeEncodeError:
        size = 0
    if not run.strip() or not 0 < size <= MOST_RUN_BYTES or not run.isprintable():
        raise UsageError(
            f"--run {run[:60]!r}: no name for a run", hint=f"printable text of at most {MOST_RUN_BYTES} bytes"
        )
    return run


def checked_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return tags by key, sorted. Raises: UsageError for a key that is empty or has =, and text that is none."""
    for key, value in tags.items():
        if not key.strip() or "=" in key or not key.isprintable() or not value.isprintable():
            raise UsageError(f"--tag {key}={value}: no tag", hint="--tag KEY=VALUE, printable text")
    return dict(sorted(tags.items()))


def checked_date(text: str, option: str = "--date") -> date:
    """Return the date of "2026-01-31". Raises: UsageError."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError as err:
        raise UsageError(f"{option} {text}: not a date", hint=f"{option} YYYY-MM-DD") from err


def clock_date(run: Run, first_ns: int | None) -> date | None:
    """Return the date of the first event by the trace's own clock, in UTC; None when it does not tell the time."""
    if run.origin_ns is None:
        return None
    try:
        found = datetime.fromtimestamp((run.origin_ns + (first_ns or 0)) // 1_000_000_000, UTC).date()
    except (OverflowError, ValueError, OSError):
        return None
    return found if found >= FIRST_DATE else None


def file_sha256(file: BinaryIO) -> str:
    """Return the SHA-256 of what is left to read, in hex."""
    digest = hashlib.sha256()
    while chunk := file.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


def read_entry(file: BinaryIO | Path, *, path: str, name: str, size: int) -> Entry:
    """Return what a file's footer says. Raises: ParseError for a file that is none of an archive, or damaged."""
    try:
        footer = pq.read_metadata(file)
        texts = {k.decode(): v for k, v in (footer.metadata or {}).items() if k.startswith(b"tracekit.")}
    except _BAD as err:
        raise ParseError(path, "", f"no readable Parquet file ({_short(err)})", hint=VERIFY) from err
    if "tracekit.archive" not in texts:
        raise ParseError(path, "", "no file of an archive: its metadata has no tracekit.archive", hint=VERIFY)
    try:
        label = json.loads(texts["tracekit.archive"])
        run = Run.from_json(json.loads(texts["tracekit.run"]))
        ledgers = tuple(map(Ledger.from_json, json.loads(texts["tracekit.ledger"])))
        return Entry(
            id=str(label["id"]),
            path=path,
            name=name,
            run=str(label["run"]),
            date=date.fromisoformat(label["date"]),
            date_from=str(label["date_from"]),
            tags={str(k): str(v) for k, v in dict(label["tags"]).items()},
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
            as_written=int(json.loads(texts["tracekit.check"])["data_bytes"]) == size - 8 - footer.serialized_size,
        )
    except _BAD as err:
        raise ParseError(path, "footer", f"its facts cannot be read ({_short(err)})", hint=VERIFY) from err


VERIFY = "`tracekit archive verify` looks at every file"


def _facts(run: Run) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for source in reversed(run.sources):
        facts |= source.facts
    facts["formats"] = sorted({source.format for source in run.sources})
    facts["devices"] = sorted(set(run.devices.values()))
    return facts


def _short(err: BaseException) -> str:
    return str(err).partition("\n")[0][:200] or type(err).__name__


def run_of(name: str) -> str:
    """Return the run that a file's name tells. Raises: InputError for another name."""
    found = NAME.fullmatch(name)
    if found is None:
        raise InputError(f"{name}: not the name of an archived file")
    return unquote(found["run"])

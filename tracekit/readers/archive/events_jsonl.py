"""JSON Lines with the schema's names, as writers/jsonl.py gives them, or as anybody's script does.

    {"tracekit":"events-jsonl","schema":1,"version":"0.1.0","run":{...}}
    {"ts_ns":120,"dur_ns":35,"event_id":7,"name":"gemm","kind":"kernel","source":0,"device":0,"args":{"x":1}}
    {"tracekit":"end","events":1,"totals":0,"run":{...},"ledger":[...]}

A record is a line; an empty line is none. Lines of EVENTS and, with "table":"totals", of TOTALS are kept; the header
and the end line are facts; lines of NULs and blanks (a disk's padding) are ignored. A line that is no JSON object, or
whose values do not fit their columns, is dropped with its reason and costs itself alone.

Files of others need no header: `ts_ns` and `kind` are enough. Without `event_id` an event has its line's number,
without `source` it is of this input; a kind that is none of ours becomes "other"; it and every key that is no column
go into `args`. The ledgers of the conversion that made the file are facts of its sources ("archived_ledgers").

Not supported: several of our files joined by `cat` (name them all instead).
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from tracekit.errors import ParseError, UnsupportedVersionError
from tracekit.model import arrow, schema
from tracekit.model.arrow import Column, pc
from tracekit.model.trace import MOST_DROPPED, Ledger, Run
from tracekit.readers.archive._conform import conform, known_versions, renumbered, run_from_json, upgraded, with_ledgers
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.head import Head
from tracekit.readers.source import MAX_LINE_BYTES, LineBlock, Source

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source

__all__ = ["read", "sniff"]

# Rows of events-jsonl one by one, where the columnar path cannot go: totals, keys of others, damage.


NON_FINITE: Mapping[str, float] = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Texts in place of the floats that JSON lacks."""

_OBJECT: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RANGE = {pa.int32(): (-(1 << 31), (1 << 31) - 1), pa.int64(): (-(1 << 63), (1 << 63) - 1)}
Row = dict[str, object]


class OddRows:
    """Takes lines, counts each in the ledger, gives columns."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._rows: dict[str, list[Row]] = {"totals": [], "events": []}

    def add(self, line: bytes, number: int, *, torn: bool) -> None:
        """Take one line without its newline. number: from 1. torn: it had none, because the file ends there."""
        ledger = self._ledger
        text = line.strip(b"\0 \t\r")
        if not text:
            if b"\0" in line:
                ledger.read += 1
                ledger.ignore("padding")
            return
        where = f"line {number}"
        ledger.read += 1
        try:
            values = _OBJECT.decode(text)
        except (msgspec.DecodeError, RecursionError):
            if torn:
                drop_torn(ledger, where)
            else:
                ledger.drop("not-json", where=where, text="dropped: lines that are no JSON object")
            return
        table = "events"
        if bytes(values.get("table", b"")) == b'"totals"':
            table = "totals"
            del values["table"]
        try:
            row = _row(table, values, number)
        except (ValueError, msgspec.MsgspecError, RecursionError) as err:
            ledger.drop("bad-value", where=where, text=f"dropped: values that do not fit their column ({err})")
            return
        if row.pop("strange_kind", None):
            ledger.note("unknown-kind", 'kinds that are none of the list became "other"', where=where)
        ledger.kept += 1
        self._rows[table].append(row)

    def take(self) -> Iterator[tuple[str, dict[str, Column], int]]:
        """Yield (table, columns, number of rows) for each table that has rows, and start anew."""
        for table, rows in self._rows.items():
            if rows:
                want = schema.EVENTS if table == "events" else schema.TOTALS
                columns = {}
                for field in want:
                    kind = pa.string() if field.type == schema.TEXT else field.type
                    columns[field.name] = arrow.array([row.get(field.name) for row in rows], kind)
                yield table, columns, len(rows)
        self._rows = {"totals": [], "events": []}


def _row(table: str, values: dict[str, msgspec.Raw], number: int) -> Row:
    """Return the row. Raises: ValueError with the name of the key that does not fit."""
    want = schema.EVENTS if table == "events" else schema.TOTALS
    row: Row = {}
    strange: dict[str, str] = {}
    args: str | None = None
    for key, raw in values.items():
        text = str(raw, "utf-8")
        if text == "null":
            continue
        index = want.get_field_index(key)
        if index < 0:
            strange[key] = text
        elif key == "args":
            row[key] = args = _args(text)
        else:
            row[key] = _value(key, text, want.field(index).type)
    if table == "events":
        row.setdefault("event_id", number)
    row.setdefault("source", 0)
    kind = row.get("kind")
    if kind is not None and kind not in schema.KINDS:
        strange["kind"] = json.dumps(kind)
        row["kind"] = "other"
        row["strange_kind"] = True
    if missing := [f.name for f in want if not f.nullable and f.name not in row]:
        raise ValueError(f"{missing[0]} is missing")
    if strange:
        row["args"] = _with(args, strange)
    return row


def _value(key: str, text: str, kind: pa.DataType) -> int | float | str:
    try:
        if kind in _RANGE:
            number = _integer(text)
            low, high = _RANGE[kind]
            if not low <= number <= high:
                raise ValueError("too large")
            return number
        if kind == pa.float64():
            return NON_FINITE[json.loads(text)] if text[:1] == '"' else msgspec.json.decode(text, type=float)
        return msgspec.json.decode(text, type=str)
    except (ValueError, msgspec.MsgspecError, KeyError) as err:
        raise ValueError(f"{key}: {text[:40]}") from err


def _integer(text: str) -> int:
    """Return the integer; pandas writes those of a column with nulls as 35.0, which is taken where it is exact."""
    number: int | float = msgspec.json.decode(text, type=int | float)
    if isinstance(number, float):
        if not number.is_integer() or abs(number) >= 1 << 53:
            raise ValueError("no integer")
        return int(number)
    return number


def _args(text: str) -> str:
    if text[:1] == '"':
        return msgspec.json.decode(text, type=str)
    return text if text[:1] == "{" else f'{{"args":{text}}}'


def _with(args: str | None, strange: Mapping[str, str]) -> str:
    """Return the args with the other keys, as they are in the file; a key that is taken already gets a "_" more."""
    taken: set[str] = set()
    if args is not None:
        try:
            taken = set(_OBJECT.decode(args))
        except (msgspec.DecodeError, RecursionError):
            args = json.dumps({"args": args})
            taken = {"args"}
    parts = []
    for key, text in strange.items():
        while key in taken:
            key += "_"
        taken.add(key)
        parts.append(f"{json.dumps(key, ensure_ascii=False)}:{text}")
    inner = (args or "{}").strip()[1:-1].strip()
    return "{" + ",".join([*([inner] if inner else []), *parts]) + "}"


# Lines of EVENTS and TOTALS: the recognition, whole blocks as columns, and odd lines one by one.


HEAD = b'{"tracekit":"events-jsonl"'
FACTS = b'{"tracekit":'
"""Begin of the header and of the end line."""
NEWLINE = b"\n"
NAME = "events-jsonl"

_COLUMNS = pa.schema([pa.field(f.name, pa.string() if f.type == schema.TEXT else f.type) for f in schema.EVENTS])
_PARSE = pj.ParseOptions(
    explicit_schema=_COLUMNS.remove(_COLUMNS.get_field_index("args")), unexpected_field_behavior="error"
)
_ARGS = msgspec.json.Decoder(list[msgspec.Raw])

_FAILS = (pa.ArrowException, msgspec.DecodeError, RecursionError, ValueError, TypeError)
"""Errors for a block with a line that needs the slow path."""


def sniff(head: Head) -> Confidence:
    """Return YES for our header, or an event with ts_ns and kind in the first line; MAYBE for a cut one."""
    first = _first_line(head)
    if first.startswith(HEAD):
        return Confidence.YES
    if first.startswith(b"{") and b'"ts_ns"' in first and b'"kind"' in first:
        return Confidence.YES if _looks_like_event(first) else Confidence.MAYBE
    return Confidence.NO


def _first_line(head: Head) -> bytes:
    """Return the first line that holds something; NULs at its ends are a disk's padding."""
    return next((line for line in (line.strip(b" \t\0") for line in head.lines()) if line), b"")


def _looks_like_event(line: bytes) -> bool:
    try:
        keys = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return False  # cut by the end of the head, or damaged
    return "ts_ns" in keys and "kind" in keys


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events and totals. Raises: ParseError, UnsupportedVersionError."""
    first = _first_line(source.head())
    if not first.startswith(b"{"):
        raise ParseError(source.name, "line 1", "no JSON object", hint="each line is one event: `tracekit formats`")
    reading = _EventsJsonlReading(source.name, options, ledger)
    if first.startswith(HEAD):
        last = _last_line(source)
        if last.startswith(b'{"tracekit":"end"'):
            reading.take_facts(last, "the last line")
        elif source.head().complete or first != source.head().lines()[-1]:
            reading.take_facts(first, "line 1")
        reading.begin()
    else:
        reading.begin()
    return ReadResult(reading.run, reading.batches(source), True, (ledger,))


def _last_line(source: Source) -> bytes:
    """Return the last line of the text, b"" when it is longer than a line may be or has no end."""
    size = 1 << 16
    while True:
        tail = source.tail(size)
        if b"\n" in tail.rstrip(b"\r\n\0") or len(tail) < size or size >= MAX_LINE_BYTES:
            break
        size = MAX_LINE_BYTES
    lines = tail.rstrip(b"\r\n\0").rsplit(b"\n", 1)
    return lines[1] if len(lines) == 2 else b""


class _EventsJsonlReading:
    """The state of one reading: facts, counts, and rows block by block."""

    def __init__(self, name: str, options: ReadOptions, ledger: Ledger) -> None:
        self._name, self._options, self._ledger = name, options, ledger
        self.run = Run()
        self._version = schema.VERSION
        self._head = False
        self._end: dict[str, object] | None = None
        self._seen = {"events": 0, "totals": 0}

    def take_facts(self, line: bytes, where: str) -> None:
        """Take the run of a header or an end line. Raises: ParseError, UnsupportedVersionError."""
        facts = self._facts(line, where)
        try:
            ledgers = facts.get("ledger", [])
            if not isinstance(ledgers, list):
                raise TypeError("the ledgers are no list")
            self.run = with_ledgers(run_from_json(facts["run"]), ledgers, self._name, NAME)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as err:
            raise ParseError(self._name, where, f"the facts of the run cannot be read ({err})") from err

    def _facts(self, line: bytes, where: str) -> dict[str, object]:
        try:
            # Not msgspec: names of files may hold lone surrogates, which only json reads back.
            facts = json.loads(line)
        except (ValueError, RecursionError) as err:
            raise ParseError(self._name, where, f"the facts cannot be read ({err})") from err
        if not isinstance(facts, dict):
            raise ParseError(self._name, where, "no JSON object")
        return facts

    def begin(self) -> None:
        """Number the sources; from here on `run` is the one that the caller has."""
        if not self.run.sources:
            with_ledgers(self.run, [], self._name, NAME)
        renumbered(self.run, self._options.source)

    def batches(self, source: Source) -> Iterator[pa.RecordBatch]:
        for block in source.line_blocks(self._ledger):
            for batch in self._rows(block):
                if batch.num_rows:
                    self._count(batch)
                    yield batch
        self._check_end()

    def _count(self, batch: pa.RecordBatch) -> None:
        if schema.is_totals(batch):
            self._ledger.totals_out += batch.num_rows
        else:
            self._ledger.events_out += batch.num_rows

    def _rows(self, block: LineBlock) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a block; the header and the end line are taken off first, so that the rest is one table."""
        data, line = block.data, block.line
        if data.startswith(FACTS):
            head, newline, data = data.partition(b"\n")
            self._fact_line(head, f"line {line}", torn=block.torn and not newline)
            line += 1
        last = data.rfind(b"\n", 0, len(data) - 1) + 1
        end = data[last:] if data[last:].startswith(FACTS) else b""
        data = data[: len(data) - len(end)]
        if data:
            yield from self._events(LineBlock(data, block.offset, line, torn=block.torn and not end))
        if end:
            self._fact_line(end.rstrip(b"\n"), f"line {line + data.count(NEWLINE)}", torn=block.torn)

    def _events(self, block: LineBlock) -> Iterator[pa.RecordBatch]:
        try:
            if self._version != schema.VERSION:
                raise ValueError("columns of an older version")
            lines = block.data.count(NEWLINE) + block.torn
            columns, count = _columns(block.data, lines, block.line)
            batch = conform("events", columns, count, self._options.source)
        except _FAILS:
            yield from self._odd_rows(block)
            return
        self._ledger.read += batch.num_rows
        self._ledger.kept += batch.num_rows
        self._seen["events"] += batch.num_rows
        yield batch

    def _odd_rows(self, block: LineBlock) -> Iterator[pa.RecordBatch]:
        """Line by line: totals, keys of others, damage."""
        rows = OddRows(self._ledger)
        lines = block.data.split(NEWLINE)
        if not block.torn:
            lines.pop()
        for place, line in enumerate(lines):
            where, torn = f"line {block.line + place}", block.torn and place == len(lines) - 1
            if line.startswith(FACTS):
                self._fact_line(line, where, torn=torn)
            else:
                rows.add(line, block.line + place, torn=torn)
        for table, columns, count in rows.take():
            self._seen[table] += count
            yield conform(table, upgraded(table, columns, self._version), count, self._options.source)

    def _fact_line(self, line: bytes, where: str, *, torn: bool) -> None:
        ledger = self._ledger
        ledger.read += 1
        try:
            facts = self._facts(line, where)
        except ParseError:
            if torn:
                drop_torn(ledger, where)
            else:
                ledger.drop("not-json", where=where, text="dropped: a line that is no JSON")
            return
        ledger.facts += 1
        if facts.get("tracekit") == NAME:
            if self._head:
                raise ParseError(
                    self._name, where, "a second file begins here", hint="name the files one by one instead of cat"
                )
            self._head = True
            self._version = _version(self._name, facts.get("schema"))
        else:
            self._end = facts

    def _check_end(self) -> None:
        if not self._head:
            return
        if self._end is None:
            self._ledger.note("no-end-line", "the file has no end line: it was cut, rows may be missing")
            return
        for table, seen in self._seen.items():
            stated = self._end.get(table)
            if stated != seen:
                text = f"the end line says {stated} {table}, {seen} were read"
                self._ledger.note("rows-missing", text)
                missing = stated - seen - sum(self._ledger.dropped.values()) if isinstance(stated, int) else 0
                if isinstance(stated, int) and missing > MOST_DROPPED * stated:
                    self._ledger.reserve(
                        f"has lost {stated - seen:,} of the {stated:,} {table} that were written to it"
                    )


def _version(name: str, version: object) -> int:
    if not isinstance(version, int) or not 1 <= version <= schema.VERSION:
        hint = "a newer tracekit wrote this file: pip install --upgrade tracekit-gpu"
        raise UnsupportedVersionError(name, str(version), known_versions(), hint=hint)
    return version


def _columns(data: bytes, lines: int, number: int) -> tuple[dict[str, Column], int]:
    """Return the columns that occur in a block of events, and its rows.

    Raises: one of _FAILS where a line is not as writers/jsonl.py writes it.
    """
    args: Column | None = None
    if b',"args":' in data:
        data, args = _without_args(data)
    options = pj.ReadOptions(use_threads=False, block_size=len(data) + 1)
    table = pj.read_json(io.BytesIO(data), options, _PARSE).combine_chunks()
    if table.num_rows != lines:
        raise ValueError("empty lines, or several objects on one")
    columns = {
        name: column.chunks[0]
        for name, column in zip(table.schema.names, table.columns, strict=True)
        if column.null_count < lines
    }
    if args is not None:
        columns["args"] = args
    own, source = columns.get("event_id"), columns.get("source")
    if own is None or own.null_count:
        ids = arrow.array(np.arange(number, number + lines))
        columns["event_id"] = ids if own is None else pc.coalesce(own, ids)
    if source is None or source.null_count:
        columns["source"] = arrow.array(np.zeros(lines, np.int32)) if source is None else pc.fill_null(source, 0)
    return columns, lines


def _without_args(data: bytes) -> tuple[bytes, Column]:
    """Return the lines without their last key, "args", and its values as text.

    Inside a JSON string a quote has its backslash, so the bytes looked for are a key. Whether it is the last one of
    the line shows when the values are parsed: each must be one JSON value. Raises: one of _FAILS.
    """
    heads: list[bytes] = []
    tails: list[bytes | None] = []
    for line in data.splitlines():
        head, key, tail = line.partition(b',"args":')
        heads.append(head + b"}" if key else head)
        tails.append(tail.rstrip()[:-1] if key else None)
        if key and not tail.rstrip().endswith(b"}"):
            raise ValueError("args is not the last key")
    there = [tail for tail in tails if tail is not None]
    raws = _ARGS.decode(b"[" + b",".join(there) + b"]")
    if list(map(bytes, raws)) != there:
        raise ValueError("args is not the last key")
    texts = [None if tail is None else _object(tail) for tail in tails]
    return b"\n".join(heads) + b"\n", arrow.array(texts, pa.binary()).cast(pa.string())


def _object(raw: bytes) -> bytes | None:
    """Return the text of args: an object as it is, a string decoded. Raises: ValueError for anything else."""
    if raw[:1] == b"{":
        return raw
    if raw[:1] == b'"':
        return msgspec.json.decode(raw, type=str).encode()
    if raw == b"null":
        return None
    raise ValueError("args is no object")

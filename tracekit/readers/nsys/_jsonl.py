"""Lines of the JSON export of Nsight Systems: the recognition, and the batches."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson
import pyarrow as pa

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions
from tracekit.readers.builder import BATCH_ROWS, RowBuilder
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.names import Demangler
from tracekit.readers.nsys._codes import BITS, CATEGORY, DOMAIN, MARK, OPEN_RANGE, PUSH_POP, START_END, THREAD
from tracekit.readers.nsys._facts import note_warnings
from tracekit.readers.nsys._json import Members, ObjectError, Tables, call, integer, nvtx, work
from tracekit.readers.source import Source
from tracekit.readers.sqlite.lost import with_lost_work
from tracekit.schema import Kind
from tracekit.trace import MOST_DROPPED, Ledger, Run, SourceFacts

_EVENT = re.compile(rb'^\s*\{.*"(?:TraceProcessEvent|CudaApiEvent|CudaEvent|NvtxEvent)"\s*:\s*\{')
_TEXTS = re.compile(rb'^\s*\{\s*"data"\s*:\s*\[\s*"')
_TEXT = re.compile(rb'^\s*\{(?=.*"type"\s*:\s*"String")(?=.*"id"\s*:)(?=.*"value"\s*:)')
_DEFINITION = re.compile(rb'"Type"\s*:\s*"?(?:33|39|75)"?\s*[,}]')
_CALLS = ("TraceProcessEvent", "CudaApiEvent")


def sniff(head: Head) -> Confidence:
    """Return YES for lines with such events, MAYBE for texts alone: another program may have written them."""
    if not head.text or head.data.lstrip()[:1] != b"{":
        return Confidence.NO
    lines = head.lines()
    if any(_EVENT.match(line) for line in lines[:500]):
        return Confidence.YES
    texts_only = bool(lines) and ((_TEXTS.match(lines[0]) and len(lines) == 1) or _TEXT.match(lines[0]))
    return Confidence.MAYBE if texts_only else Confidence.NO


@dataclass(slots=True)
class _State:
    run: Run
    options: ReadOptions
    ledger: Ledger
    names: Demangler
    tables: Tables
    osrt: bool
    unnamed: dict[int, str]
    rows: RowBuilder = field(default_factory=RowBuilder)
    size: int = 0
    zeroed: int = 0
    """Bytes of broken lines that hold NULs: line ends were among them, and so the lines are not known."""


def read(source: Source, options: ReadOptions, ledger: Ledger, *, osrt: bool) -> Opened:
    """Return the events."""
    run = Run()
    run.sources.append(SourceFacts(path=source.name, format="nsys-jsonl", facts={"tool": "Nsight Systems"}))
    tables = _tables(source)
    if tables.texts is None and not tables.separate:
        ledger.note("no-texts", "no line holds the array of texts: calls and kernels have no names")
    note_warnings(ledger, tables.warnings)
    for thread, name in tables.threads.items():
        run.threads[(options.source, thread >> 24 & BITS, thread & BITS)] = name
    demangler = Demangler(ledger, enabled=options.demangle)
    state = _State(run, options, ledger, demangler, tables, osrt, dict(tables.processes))
    return Opened(run, with_lost_work(_batches(source, state), source, ledger), False, (ledger,))


_READ_FIRST = (b'"data"', b'"String"', b'"DiagnosticEvent"', b'"CommEvent"')


def _tables(source: Source) -> Tables:
    """Return the texts, the definitions and the warnings of the profiler from all lines of the file."""
    tables = Tables()
    definitions: list[tuple[int, Members]] = []
    for block in source.line_blocks(Ledger()):
        if not any(word in block.data for word in _READ_FIRST) and not _DEFINITION.search(block.data):
            continue
        for line in block.data.split(b"\n"):
            definition = _DEFINITION.search(line) and b'"NvtxEvent"' in line
            if not definition and not any(word in line for word in _READ_FIRST):
                continue
            members = _object(line)
            if members is None:
                continue
            if definition:
                event, kind = members.get("NvtxEvent"), integer(members.get("Type"))
                if isinstance(event, dict) and kind in (CATEGORY, THREAD, DOMAIN):
                    definitions.append((kind, event))
            else:
                tables.take(members)
    for kind, members in definitions:
        tables.define(kind, members)
    return tables


def _object(line: bytes) -> Members | None:
    try:
        value = orjson.loads(line.strip(b"\0\r \t"))
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _batches(source: Source, state: _State) -> Iterator[pa.RecordBatch]:
    try:
        for block in source.line_blocks(state.ledger):
            lines = block.data.split(b"\n")
            if not lines[-1]:
                lines.pop()
            state.ledger.read += len(lines)
            state.size += len(block.data)
            for at, line in enumerate(lines):
                _line(state, line, block.line + at, torn=block.torn and at == len(lines) - 1)
                if len(state.rows) >= BATCH_ROWS:
                    yield state.rows.take()
        if len(state.rows):
            yield state.rows.take()
        if state.zeroed > MOST_DROPPED * state.size:
            state.ledger.reserve(
                f"has {state.zeroed:,} bytes, of {state.size:,}, in lines that zeros were written over"
            )
    finally:
        state.names.close()


def _line(state: _State, line: bytes, number: int, *, torn: bool) -> None:
    ledger, where = state.ledger, f"line {number}"
    if not line.strip(b"\0\r \t"):
        ledger.ignore("blank")
        return
    members = _object(line)
    if members is None:
        if torn:
            drop_torn(ledger, where)
        else:
            ledger.drop("bad-row", where=where, text="dropped: a line that is not a JSON object")
            state.zeroed += len(line) if b"\0" in line else 0
        return
    kind = integer(members.get("Type"))
    if kind is None:
        if isinstance(members.get("data"), list) or (members.get("type") == "String" and "value" in members):
            ledger.facts += 1
        else:
            ledger.ignore("no event")
        return
    named = next(((key, value) for key, value in members.items() if isinstance(value, dict)), None)
    try:
        row = _row(state, named[0], kind, named[1], number) if named is not None else None
    except ObjectError as err:
        ledger.drop("bad-row", where=where, text=f"dropped: an object that cannot be read ({err})")
        return
    if row is _COUNTED:
        return
    if row is None:
        name = named[0] if named is not None else f"Type {kind}"
        ledger.ignore(f"{name[:60]} type {kind}")
        return
    state.rows.add(**row, event_id=number, source=state.options.source)
    ledger.kept += 1
    ledger.events_out += 1


_COUNTED: Members = {}
"""Stands for an object that became no row and is already counted."""


def _row(state: _State, name: str, kind: int, members: Members, number: int) -> Members | None:
    """Return the row of an object, None for a type that is not read. Raises: ObjectError."""
    row: Members | None = None
    if name in _CALLS:
        row = call(members, state.tables)
        if row["kind"] is Kind.OTHER and not state.osrt:
            state.ledger.ignore("calls of other libraries")
            return _COUNTED
    elif name == "CudaEvent":
        row = work(members, state.tables, state.names)
    elif name == "CommEvent" or (name == "NvtxEvent" and kind in (CATEGORY, THREAD, DOMAIN)):
        state.ledger.facts += 1
        return _COUNTED
    elif name == "NvtxEvent" and kind in (MARK, PUSH_POP, START_END):
        row = nvtx(members, kind, state.tables, number)
        if row["dur_ns"] is None and kind != MARK:
            state.ledger.note("open-range", OPEN_RANGE, where=f"line {number}")
    if row is not None and isinstance(pid := row.get("pid"), int) and pid in state.unnamed:
        state.run.processes[(state.options.source, pid)] = state.unnamed.pop(pid)
    return row

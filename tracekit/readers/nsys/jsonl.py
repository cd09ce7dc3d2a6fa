"""nsys export --type jsonlines: one object a line, with a number of its type; names are places in an array of texts.

    {"data":["[Unknown]","cudaMalloc_v3020","vectorAdd(float*, float*)", ...]}
    {"Type":48,"TraceProcessEvent":{"startNs":"68078778","endNs":"257222655","correlationId":100,"name":"1", ...}}
    {"Type":79,"CudaEvent":{"startNs":"1517727052","endNs":"1517728492","kernel":{"shortName":"2","gridX":1, ...}, ...}}

A record is a line, and `event_id` is its number. Calls (TraceProcessEvent, CudaApiEvent), kernels, copies, memsets and
synchronization (CudaEvent) and NVTX (NvtxEvent: push/pop, start/end, marks) are events, as in the reader of the SQLite
export. Domains, categories and names of threads are facts. Other types are ignored, each under its own name. So are
calls of other libraries than CUDA (OS runtime and so on, by eventClass), unless `--option osrt=yes` is given.

The array of texts may be anywhere in the file, so the file is read twice. With `--separate-strings true` each text is a
line:

    {"type":"String","id":"316","value":"vectorAdd(float*, float*)"}

Without texts names are null, with a note. CommEvent names processes. Warnings of the profiler itself (DiagnosticEvent:
events may be missing) become notes. Times are ns from the start of the session. The lines do not have its wall clock
time, so `Run.origin_ns` is None. args has members without a place in the schema, under their own names. Not kept:
gridId. Not supported: the types that are ignored. Sources: public programs that read such files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TypeAlias

import orjson
import pyarrow as pa

from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.model.trace import MOST_DROPPED, Ledger, Run, SourceFacts
from tracekit.model.units import MAX_NS
from tracekit.readers import torch_ranges
from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.builder import BATCH_ROWS, RowBuilder
from tracekit.readers.engine.torn import drop_torn
from tracekit.readers.head import Head
from tracekit.readers.names import Demangler
from tracekit.readers.nsys._facts import (
    BITS,
    CATEGORY,
    COPY_KINDS,
    DOMAIN,
    MARK,
    MEMORY,
    OPEN_RANGE,
    PUSH_POP,
    START_END,
    THREAD,
    UNIFIED,
    color,
    copy_name,
    note_warnings,
)
from tracekit.readers.options import OSRT
from tracekit.readers.source import Source
from tracekit.readers.sqlite.cupti import GRID, NO_ID, SYNC_NAMES, call_kind, call_name, with_lost_work

__all__ = ["read", "sniff"]

# Rows of EVENTS from objects in Nsight Systems' JSON lines. 64-bit numbers are texts, names are places in an array.


SMEM = {"staticSharedMemory": "static_smem_bytes", "dynamicSharedMemory": "dynamic_smem_bytes"}
_INT = re.compile(r"-?\d{1,20}", re.ASCII)
_DROPPED = ("gridId",)
_NOTHING = {"returnValue": 0, "returnValue32": 0, "greenContextId": 0, "eventId": NO_ID, "eventSyncId": NO_ID}
"""Members with these numbers are left out: a call that succeeded, no green context, no event."""

Members: TypeAlias = dict[str, object]


class ObjectError(Exception):
    """An object that cannot become an event; its text says why."""


@dataclass(slots=True)
class NsysTables:
    """Texts and names from other lines.

    texts: by place. separate: texts of lines of their own, by number. domains: by (process, number). categories: by
    (process, domain, number). threads: by global id. processes: by pid. warnings: level and text.
    """

    texts: list[object] | None = None
    separate: dict[int, str] = field(default_factory=dict)
    domains: dict[tuple[int, int], str] = field(default_factory=dict)
    categories: dict[tuple[int, int, int], str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def take(self, line: Members) -> None:
        """Take texts, the name of a process or a warning from a line; other lines have none."""
        data, message, named = line.get("data"), line.get("DiagnosticEvent"), line.get("CommEvent")
        if isinstance(data, list) and "Type" not in line:
            self.texts = data
        elif line.get("type") == "String":
            number, value = integer(line.get("id")), line.get("value")
            if number is not None and isinstance(value, str):
                self.separate[number] = value
        elif isinstance(message, dict):
            level, text = message.get("Level"), message.get("Text")
            if isinstance(level, str) and isinstance(text, str):
                self.warnings.append((level, text))
        elif isinstance(named, dict):
            process, name = integer(named.get("GlobalPid")), named.get("Commname")
            if process is not None and isinstance(name, str) and name and not name.isdigit():
                self.processes.setdefault(process >> 24 & BITS, name)

    def text(self, place: object) -> str | None:
        """Return the text at a place, None when there is none."""
        number = integer(place)
        if number is None:
            return None
        if self.texts is None or not 0 <= number < len(self.texts):
            return self.separate.get(number) or None
        text = self.texts[number]
        return text if isinstance(text, str) and text else None

    def define(self, kind: int, members: Members) -> None:
        """Add the name of a domain, a category or a thread."""
        label = members.get("Text") or self.text(members.get("TextId"))
        thread = integer(members.get("GlobalTid")) or 0
        if not isinstance(label, str) or not label:
            return
        domain, category = integer(members.get("DomainId")) or 0, integer(members.get("Category")) or 0
        if kind == THREAD:
            self.threads[thread] = label
        elif kind == DOMAIN:
            self.domains[(thread >> 24, domain)] = label
        else:
            self.categories[(thread >> 24, domain, category)] = label


def integer(value: object) -> int | None:
    """Return a number, which may be written as a text; None for other values and beyond 64 bits."""
    if isinstance(value, str) and _INT.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        return None
    return value


def _take(members: Members, key: str, limit: int = 1 << 63) -> int | None:
    """Take a number out of the members. One beyond the limit stays there."""
    value = integer(members.get(key))
    if value is None or abs(value) >= limit:
        return None
    del members[key]
    return value


def _start(members: Members, key: str) -> int:
    """Take a start out of the members. Raises: ObjectError."""
    start = integer(members.pop(key, None))
    if start is None or abs(start) >= MAX_NS:
        raise ObjectError(f"{key} is not a time")
    return start


def _optional_duration(members: Members, start: int, key: str) -> int | None:
    """Take an end out of the members and return the duration, None without an end. Raises: ObjectError."""
    value = members.pop(key, None)
    if value is None:
        return None
    end = integer(value)
    if end is None or abs(end) >= MAX_NS:
        raise ObjectError(f"{key} is not a time")
    if end < start:
        raise ObjectError("it ends before it starts")
    return end - start


def _duration(members: Members, start: int) -> int:
    """Take endNs out of the members and return the duration. Raises: ObjectError."""
    duration = _optional_duration(members, start, "endNs")
    if duration is None:
        raise ObjectError("it has no endNs")
    return duration


def _args(members: Mapping[str, object]) -> str | None:
    """Return the remaining members as JSON. Raises: ObjectError for what no library could write."""
    left = {
        key: value
        for key, value in members.items()
        if value is not None
        and value != ""
        and key not in _DROPPED
        and (key not in _NOTHING or integer(value) != _NOTHING[key])
    }
    try:
        return orjson.dumps(left).decode() if left else None
    except orjson.JSONEncodeError as err:
        raise ObjectError("it nests too deep") from err


def call(members: Members, tables: NsysTables) -> Members:
    """Return the row of a TraceProcessEvent or CudaApiEvent. Raises: ObjectError."""
    ts = _start(members, "startNs")
    dur = _duration(members, ts)
    thread = integer(members.pop("globalTid", None))
    raw = tables.text(members.pop("name", None))
    event_class = integer(members.pop("eventClass", None))
    correlation = integer(members.pop("correlationId", None))
    name = None if raw is None else call_name(raw)
    kind = Kind.OTHER
    if event_class in (0, 1):
        kind = Kind.RUNTIME if event_class == 0 else Kind.DRIVER
    elif raw is not None and re.match(r"cuda[A-Z_]|cu[A-Z]", raw) and event_class in (None, 26):
        kind = call_kind(raw)
    row: Members = {"ts_ns": ts, "dur_ns": dur, "kind": kind, "name": name, "raw_name": raw if raw != name else None}
    if thread is not None:
        row |= {"pid": thread >> 24 & BITS, "tid": thread & BITS}
    if correlation is not None and correlation > 0:
        row["correlation"] = correlation
    if kind is Kind.OTHER and event_class is not None:
        members["eventClass"] = event_class
    row["args"] = _args(members)
    return row


def work(members: Members, tables: NsysTables, names: Demangler) -> Members | None:
    """Return the row of a CudaEvent, None for one without duration (an event record). Raises: ObjectError."""
    what = next((key for key in ("kernel", "memcpy", "memset", "sync") if isinstance(members.get(key), dict)), None)
    part = members.pop(what) if what is not None else None
    if not isinstance(part, dict):
        return None
    ts = _start(members, "startNs")
    dur = _duration(members, ts)
    members.pop("eventClass", None)
    row: Members = {"ts_ns": ts, "dur_ns": dur}
    process = integer(members.pop("globalPid", None))
    row["pid"] = None if process is None else process >> 24 & BITS
    row["device"] = _take(members, "deviceId", 1 << 31)
    row["context"], row["stream"] = _take(members, "contextId"), _take(members, "streamId")
    correlation = integer(members.pop("correlationId", None))
    row["correlation"] = correlation if correlation is not None and correlation > 0 else None
    if what == "kernel":
        _kernel(row, part, tables, names)
    elif what == "memcpy":
        _copy(row, part)
    elif what == "memset":
        _memset(row, part)
    else:
        _sync(row, part)
    row["args"] = _args(part | members)
    return row


def _kernel(row: Members, part: Members, tables: NsysTables, names: Demangler) -> None:
    texts = [tables.text(part.pop(key, None)) for key in ("demangledName", "shortName", "mangledName")]
    shown = next((text for text in texts if text), None)
    category = tables.text(part.get("eventCategory"))
    if category is not None:
        part["eventCategory"] = category if category not in texts else None
    row["kind"] = Kind.KERNEL
    if shown is not None:
        name, raw_name = names.one(shown)
        mangled = texts[2] if texts[2] != name else None
        row |= {"name": name, "raw_name": raw_name or mangled}
    row |= {target: _take(part, key, 1 << 31) for target, key in GRID.items()}
    row |= {target: _take(part, key) for key, target in SMEM.items()}


def _size(part: Members) -> int | None:
    return _take(part, "sizebytes") if "sizebytes" in part else _take(part, "bytes")


def _memory(part: Members, key: str, target: str) -> None:
    number = integer(part.get(key))
    if number is not None and number in MEMORY:
        del part[key]
        part[target] = MEMORY[number]


def _copy(row: Members, part: Members) -> None:
    kind = integer(part.get("copyKind"))
    row |= {"kind": Kind.MEMCPY, "name": "[CUDA memcpy]", "bytes": _size(part)}
    if kind is not None and kind in COPY_KINDS:
        del part["copyKind"]
        row |= {"copy_kind": COPY_KINDS[kind], "name": copy_name(kind)}
        if kind in UNIFIED:
            part["unified_memory"] = True
    _memory(part, "srcKind", "src_mem_type")
    _memory(part, "dstKind", "dst_mem_type")


def _memset(row: Members, part: Members) -> None:
    row |= {"kind": Kind.MEMSET, "name": "[CUDA memset]", "bytes": _size(part)}
    _memory(part, "memKind", "mem_type")


def _sync(row: Members, part: Members) -> None:
    """Name a wait by what it waits for: the numbers of syncType changed from version to version."""
    has_event = integer(part.get("eventId")) not in (None, NO_ID)
    if row["stream"] == NO_ID:
        row["stream"] = None
    has_stream = row["stream"] is not None
    row |= {"kind": Kind.SYNC, "name": SYNC_NAMES[(2 if has_stream else 1) if has_event else (3 if has_stream else 4)]}


def nvtx(members: Members, kind: int, tables: NsysTables, number: int) -> Members:
    """Return the row of an NvtxEvent. number: line, the id of a range without one. Raises: ObjectError."""
    ts = _start(members, "Timestamp")
    dur = _optional_duration(members, ts, "EndTimestamp")
    thread = integer(members.pop("GlobalTid", None))
    text = members.pop("Text", None)
    name = text if isinstance(text, str) and text else tables.text(members.get("TextId"))
    members.pop("TextId", None)
    for key in ("Type", "NsTime"):
        members.pop(key, None)
    process = 0 if thread is None else thread >> 24
    domain, category = integer(members.pop("DomainId", None)) or 0, integer(members.pop("Category", None)) or 0
    if domain:
        members["domain"] = tables.domains.get((process, domain), domain)
    if category:
        members["category"] = tables.categories.get((process, domain, category), category)
    argb = integer(members.pop("Color", None))
    if argb:
        members["color"] = color(argb)
    row: Members = {"ts_ns": ts, "dur_ns": None if kind == MARK else dur, "name": name}
    row["kind"] = Kind.MARK if kind == MARK else Kind.USER_RANGE
    if name:
        short, recorded, numbered = torch_ranges.split(name)
        if recorded:
            row |= {"name": short, "raw_name": name}
        if kind not in (MARK, START_END):
            found = torch_ranges.range_of(short, recorded=recorded, numbered=numbered)
            row |= {"kind": found.kind, "step": found.step}
    if thread is not None:
        row |= {"pid": thread >> 24 & BITS, "tid": thread & BITS}
    if kind == START_END:
        members["id"] = integer(members.pop("RangeId", None)) or number
        if thread is not None:
            members["tid"] = row.pop("tid")
        end = integer(members.pop("EndGlobalTid", None))
        if end is not None and end != thread and end:
            members["end_tid"] = end & BITS
    if dur is None and kind != MARK:
        members["unfinished"] = True
    row["args"] = _args(members)
    return row


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
class _JsonlState:
    run: Run
    options: ReadOptions
    ledger: Ledger
    names: Demangler
    tables: NsysTables
    osrt: bool
    unnamed: dict[int, str]
    rows: RowBuilder = field(default_factory=RowBuilder)
    size: int = 0
    zeroed: int = 0
    """Bytes of broken lines that hold NULs: line ends were among them, and so the lines are not known."""


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events."""
    osrt = options.value(OSRT)
    run = Run()
    run.sources.append(SourceFacts(path=source.name, format="nsys-jsonl", facts={"tool": "Nsight Systems"}))
    tables = _tables(source)
    if tables.texts is None and not tables.separate:
        ledger.note("no-texts", "no line holds the array of texts: calls and kernels have no names")
    note_warnings(ledger, tables.warnings)
    for thread, name in tables.threads.items():
        run.threads[(options.source, thread >> 24 & BITS, thread & BITS)] = name
    demangler = Demangler(ledger, enabled=options.demangle)
    state = _JsonlState(run, options, ledger, demangler, tables, osrt, dict(tables.processes))
    return ReadResult(run, with_lost_work(_batches(source, state), source, ledger), False, (ledger,))


_READ_FIRST = (b'"data"', b'"String"', b'"DiagnosticEvent"', b'"CommEvent"')


def _tables(source: Source) -> NsysTables:
    """Return the texts, the definitions and the warnings of the profiler from all lines of the file."""
    tables = NsysTables()
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


def _batches(source: Source, state: _JsonlState) -> Iterator[pa.RecordBatch]:
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


def _line(state: _JsonlState, line: bytes, number: int, *, torn: bool) -> None:
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


def _row(state: _JsonlState, name: str, kind: int, members: Members, number: int) -> Members | None:
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

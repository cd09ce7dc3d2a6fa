"""Objects of Nsight Systems' JSON lines to rows of EVENTS: 64-bit numbers are texts, names are places in an array."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tracekit.readers.names import Demangler
from tracekit.readers.sqlite.cupti import COPY_KINDS as CUPTI_COPIES
from tracekit.readers.sqlite.cupti import NO_ID, SYNC_NAMES, call_kind, call_name
from tracekit.schema import Kind
from tracekit.units import MAX_NS

BITS = 0xFFFFFF
CATEGORY, MARK, THREAD, PUSH_POP, START_END, DOMAIN = 33, 34, 39, 59, 60, 75
MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}
COPY_KINDS = CUPTI_COPIES | {11: "HtoD", 12: "DtoH", 13: "DtoD"}
SHAPE = {
    "gridX": "grid_x",
    "gridY": "grid_y",
    "gridZ": "grid_z",
    "blockX": "block_x",
    "blockY": "block_y",
    "blockZ": "block_z",
    "registersPerThread": "registers",
}
SMEM = {"staticSharedMemory": "static_smem_bytes", "dynamicSharedMemory": "dynamic_smem_bytes"}
_INT = re.compile(r"-?\d{1,20}", re.ASCII)
_DROPPED = ("gridId",)
_NOTHING = {"returnValue": 0, "returnValue32": 0, "greenContextId": 0, "eventId": NO_ID, "eventSyncId": NO_ID}
"""Numbers that say that there is none: a call that succeeded, no green context, no event."""

Members = dict[str, Any]


class ObjectError(Exception):
    """An object that cannot become an event; its text says why."""


@dataclass(slots=True)
class Tables:
    """What other lines say: texts by place (of an array, or each with its number), domains by (process, number),
    categories by (process, domain, number), names of threads and processes, level and text of warnings.
    """

    texts: list[Any] | None = None
    separate: dict[int, str] = field(default_factory=dict)
    domains: dict[tuple[int, int], str] = field(default_factory=dict)
    categories: dict[tuple[int, int, int], str] = field(default_factory=dict)
    threads: dict[int, str] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)
    warnings: list[tuple[str, str]] = field(default_factory=list)

    def take(self, line: Members) -> None:
        """Take a line of texts, of a process's name, or of what the profiler says; another says nothing."""
        if isinstance(line.get("data"), list) and "Type" not in line:
            self.texts = line["data"]
        elif line.get("type") == "String":
            number, value = integer(line.get("id")), line.get("value")
            if number is not None and isinstance(value, str):
                self.separate[number] = value
        elif isinstance(said := line.get("DiagnosticEvent"), dict):
            if isinstance(said.get("Level"), str) and isinstance(said.get("Text"), str):
                self.warnings.append((said["Level"], said["Text"]))
        elif isinstance(named := line.get("CommEvent"), dict):
            process, name = integer(named.get("GlobalPid")), named.get("Commname")
            if process is not None and isinstance(name, str) and name and not name.isdigit():
                self.processes.setdefault(process >> 24 & BITS, name)

    def text(self, place: Any) -> str | None:
        """Return the text at a place, None when there is none."""
        number = integer(place)
        if number is None:
            return None
        if self.texts is None or not 0 <= number < len(self.texts):
            return self.separate.get(number) or None
        found = self.texts[number]
        return found if isinstance(found, str) and found else None

    def define(self, kind: int, members: Members) -> None:
        """Take a definition: a domain, a category, a thread's name."""
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


def integer(value: Any) -> int | None:
    """Return a number that may be written as a text; None for all else, and for what exceeds 64 bits."""
    if isinstance(value, str) and _INT.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        return None
    return value


def _take(members: Members, key: str, limit: int = 1 << 63) -> int | None:
    """Take a number out of the members; one that does not fit stays there."""
    value = integer(members.get(key))
    if value is None or abs(value) >= limit:
        return None
    del members[key]
    return value


def _span(members: Members, start: str, end: str) -> tuple[int, int | None]:
    begin, stop = integer(members.pop(start, None)), members.pop(end, None)
    if begin is None or abs(begin) >= MAX_NS:
        raise ObjectError(f"{start} is no time")
    if stop is None:
        return begin, None
    finish = integer(stop)
    if finish is None or abs(finish) >= MAX_NS:
        raise ObjectError(f"{end} is no time")
    if finish < begin:
        raise ObjectError("it ends before it starts")
    return begin, finish - begin


def _args(members: Mapping[str, Any]) -> str | None:
    """Return what is left as JSON. Raises: ObjectError for what no library could write."""
    left = {
        k: v
        for k, v in members.items()
        if v is not None and v != "" and k not in _DROPPED and (k not in _NOTHING or integer(v) != _NOTHING[k])
    }
    try:
        return orjson.dumps(left).decode() if left else None
    except orjson.JSONEncodeError as err:
        raise ObjectError("it nests too deep") from err


def call(members: Members, tables: Tables) -> Members:
    """Return the row of a TraceProcessEvent or CudaApiEvent. Raises: ObjectError."""
    ts, dur = _span(members, "startNs", "endNs")
    if dur is None:
        raise ObjectError("it has no endNs")
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
    row = {"ts_ns": ts, "dur_ns": dur, "kind": kind, "name": name, "raw_name": raw if raw != name else None}
    if thread is not None:
        row |= {"pid": thread >> 24 & BITS, "tid": thread & BITS}
    if correlation is not None and correlation > 0:
        row["correlation"] = correlation
    if kind is Kind.OTHER and event_class is not None:
        members["eventClass"] = event_class
    row["args"] = _args(members)
    return row


def work(members: Members, tables: Tables, names: Demangler) -> Members | None:
    """Return the row of a CudaEvent, None for one without duration (an event record). Raises: ObjectError."""
    parts = [key for key in ("kernel", "memcpy", "memset", "sync") if isinstance(members.get(key), dict)]
    if not parts:
        return None
    part: Members = members.pop(parts[0])
    ts, dur = _span(members, "startNs", "endNs")
    if dur is None:
        raise ObjectError("it has no endNs")
    members.pop("eventClass", None)
    row: Members = {"ts_ns": ts, "dur_ns": dur}
    process = integer(members.pop("globalPid", None))
    row["pid"] = None if process is None else process >> 24 & BITS
    row["device"] = _take(members, "deviceId", 1 << 31)
    row["context"], row["stream"] = _take(members, "contextId"), _take(members, "streamId")
    correlation = integer(members.pop("correlationId", None))
    row["correlation"] = correlation if correlation is not None and correlation > 0 else None
    if parts[0] == "kernel":
        _kernel(row, part, tables, names)
    else:
        _OTHERS[parts[0]](row, part)
    row["args"] = _args(part | members)
    return row


def _kernel(row: Members, part: Members, tables: Tables, names: Demangler) -> None:
    texts = [tables.text(part.pop(key, None)) for key in ("demangledName", "shortName", "mangledName")]
    shown = next((text for text in texts if text), None)
    category = tables.text(part.get("eventCategory"))
    if category is not None:
        part["eventCategory"] = category if category not in texts else None
    row["kind"] = Kind.KERNEL
    if shown is not None:
        row["name"], row["raw_name"] = names.one(shown)
        if row["raw_name"] is None and texts[2] != row["name"]:
            row["raw_name"] = texts[2]
    row |= {target: _take(part, key, 1 << 31) for key, target in SHAPE.items()}
    row |= {target: _take(part, key) for key, target in SMEM.items()}


def _size(part: Members) -> int | None:
    return _take(part, "sizebytes") if "sizebytes" in part else _take(part, "bytes")


def _memory(part: Members, key: str, target: str) -> None:
    number = integer(part.get(key))
    if number in MEMORY:
        del part[key]
        part[target] = MEMORY[number]


def _copy(row: Members, part: Members) -> None:
    kind = integer(part.get("copyKind"))
    row |= {"kind": Kind.MEMCPY, "name": "[CUDA memcpy]", "bytes": _size(part)}
    if kind in COPY_KINDS:
        del part["copyKind"]
        which = "CUDA Unified Memory" if kind > 10 else "CUDA"
        row |= {"copy_kind": COPY_KINDS[kind], "name": f"[{which} memcpy {COPY_KINDS[kind]}]"}
        if kind > 10:
            part["unified_memory"] = True
    _memory(part, "srcKind", "src_mem_type")
    _memory(part, "dstKind", "dst_mem_type")


def _set(row: Members, part: Members) -> None:
    row |= {"kind": Kind.MEMSET, "name": "[CUDA memset]", "bytes": _size(part)}
    _memory(part, "memKind", "mem_type")


def _sync(row: Members, part: Members) -> None:
    """Name it by what it waits for: the numbers of syncType changed from version to version."""
    event = integer(part.get("eventId"))
    if event == NO_ID:
        event = None
    if row["stream"] == NO_ID:
        row["stream"] = None
    number = 2 if event is not None and row["stream"] is not None else 1 if event is not None else 3
    row |= {"kind": Kind.SYNC, "name": SYNC_NAMES[number if event is not None or row["stream"] is not None else 4]}


_OTHERS = {"memcpy": _copy, "memset": _set, "sync": _sync}


def nvtx(members: Members, kind: int, tables: Tables, number: int) -> Members:
    """Return the row of an NvtxEvent. number: of the line, for a range without id. Raises: ObjectError."""
    ts, dur = _span(members, "Timestamp", "EndTimestamp")
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
    color = integer(members.pop("Color", None))
    if color:
        members["color"] = f"#{color & 0xFFFFFFFF:08X}"
    row: Members = {"ts_ns": ts, "dur_ns": None if kind == MARK else dur, "name": name}
    row["kind"] = Kind.MARK if kind == MARK else Kind.USER_RANGE
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

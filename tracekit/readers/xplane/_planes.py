"""Planes of an XSpace: how the file is recognised, and the names and stats that come behind the events.

Names of events come behind the events of their plane, so the file is read twice: here without the events.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from functools import lru_cache

from tracekit.lazy_dataclass import dataclass
from tracekit.messages import ProtobufMessage, messages
from tracekit.model.digits import varint_at
from tracekit.model.schema import Kind
from tracekit.model.trace import Ledger, Run
from tracekit.model.units import MAX_NS
from tracekit.readers.base import Confidence
from tracekit.readers.engine.protobuf import EPOCH_NS, INT32_MAX, INT64_MAX, EventType, WireEvent, fields, plain, walk
from tracekit.readers.head import Head
from tracekit.readers.source import Source

ENTER = {"": {1: "plane"}}
MOST_BYTES = 256 << 20
"""A larger line is dropped: it would need some GB of memory."""
_NAME = re.compile(rb"/host:[A-Za-z]|/device:[A-Z]|Task Environment$|#Chip|/custom:")
_DEVICE = re.compile(r"/device:(?:GPU|TPU):([0-9]{1,9})(.*)", re.ASCII | re.DOTALL)
_SUBSTITUTE = b"\xef\xbf\xbd"
_MANY = 4
_FEW_BYTES = 64


def sniff(head: Head) -> Confidence:
    """Return YES if the first plane has one of XPlane's names; its id may come before it."""
    length, place = varint_at(head.data, 1)
    if length < 0:
        return Confidence.NO
    try:
        first = fields(head.data[place : place + min(length, 512)], 2)
    except ValueError:
        return Confidence.NO
    name = next((value for number, _, value in first if number == 2), None)
    return Confidence.YES if isinstance(name, bytes) and _NAME.match(name) else Confidence.NO


def is_changed(head: Head) -> bool:
    """Return whether a program took the file for text: all is UTF-8, with U+FFFD in place of what was not."""
    if head.data.count(_SUBSTITUTE) < _MANY:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head.data)
    except UnicodeDecodeError:
        return False
    return True


@dataclass(slots=True)
class PlaneName:
    """Common parts of the events of one metadata id: name, its short form, stats as raw bytes."""

    name: str
    short: str
    stats: tuple[bytes, ...]


@dataclass(slots=True)
class Plane:
    """A plane without its events. device: its number, None for the host; part: of a device (SparseCore), else ""."""

    name: str = ""
    device: int | None = None
    part: str = ""
    names: dict[int, PlaneName] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    """Names of stats, by id. A reference is to one of these too."""
    stats: list[bytes] = field(default_factory=list)

    def named(self, name: str) -> None:
        """Take the name of the plane."""
        self.name = name
        found = _DEVICE.fullmatch(name)
        if found and int(found[1]) <= INT32_MAX:
            self.device, self.part = int(found[1]), found[2]

    def key(self, number: int) -> str:
        """Return the name of a stat; a reference is to one of these too."""
        number &= (1 << 64) - 1
        return self.keys.get(number, f"stat {number}")

    def stat(self, data: bytes) -> tuple[str, object]:
        """Return key and value of a stat. Raises: DecodeError."""
        stat = messages("xplane")["XStat"].FromString(data)
        key = self.keys.get(stat.metadata_id, f"stat {stat.metadata_id}")
        for each, value in stat.ListFields():
            if each.name == "ref_value":
                return key, self.keys.get(value, f"stat {value}")
            if each.name == "bytes_value":
                if key == "memory_access_breakdown" and (parts := _memory_parts(value)) is not None:
                    return key, parts
                return key, value.hex() if len(value) <= _FEW_BYTES else f"{len(value)} bytes"
            if isinstance(value, bytes):
                return key, value.decode("utf-8", "replace")
            if isinstance(value, float):
                return key, value if math.isfinite(value) else str(value)
            if each.name != "metadata_id":
                return key, value
        return key, None

    def all_stats(self, stats: Iterable[bytes]) -> dict[str, object]:
        """Return stats by key; what is damaged is left out."""
        from google.protobuf.message import DecodeError

        found: dict[str, object] = {}
        for data in stats:
            try:
                key, value = self.stat(data)
            except DecodeError:
                continue
            found[key] = value
        return found


_OPERATIONS = {1: "read", 2: "write"}
_MEMORIES = {1: "HBM"}


def _memory_parts(data: bytes) -> list[dict[str, object]] | None:
    """Return the bytes that an op of a TPU reads and writes in each memory, None for bytes that do not say it.

    Sources: MemoryAccessed and MemorySpace of xprof's op_metrics.proto; another space than HBM is on the chip.
    """
    from google.protobuf.message import DecodeError

    try:
        parts = messages("xplane")["MemoryBreakdown"].FromString(data).accessed
    except DecodeError:
        return None
    return [
        {
            "operation": _OPERATIONS.get(part.operation, f"operation {part.operation}"),
            "memory": _MEMORIES.get(part.space, f"space {part.space}"),
            "bytes": part.bytes,
        }
        for part in parts
    ]


@dataclass(slots=True)
class Space:
    """Findings of a first reading. starts: the smallest and the largest `timestamp_ns` of lines with events."""

    planes: list[Plane] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    starts: tuple[int, int] | None = None

    def describe(self, run: Run, source: int, ledger: Ledger) -> None:
        """Give the run its facts, names and origin."""
        facts = run.sources[0].facts
        if self.hosts:
            facts["host"] = ", ".join(self.hosts)
        for text in self.said:
            ledger.note("profiler-said", f"the profiler said: {text[:300]}")
        began: object = None
        properties: dict[str, object] = {}
        for plane in self.planes:
            stats = plane.all_stats(plane.stats)
            if plane.name == "Task Environment":
                began = stats.get("profile_start_time")
            if stats:
                properties[plane.name] = stats
            if plane.device is not None and not plane.part:
                kind = stats.get("device_type_string") or stats.get("gpu_device_name")
                run.devices[source, plane.device] = f"{plane.name} ({kind})" if isinstance(kind, str) else plane.name
        if properties:
            facts["planes"] = properties
        low, high = self.starts or (0, 0)
        if low >= EPOCH_NS:
            run.origin_ns = 0
        elif high >= EPOCH_NS:
            ledger.note("two-clocks", "some lines have Unix time and others do not: they cannot be compared")
        elif isinstance(began, int) and EPOCH_NS <= began < MAX_NS:
            run.origin_ns = began


def look(source: Source) -> Space:
    """Return all of a file but its events."""
    space = Space()
    unread = Ledger(path=source.name, format="xplane")
    for met in walk(source.chunks(unread), ENTER, MOST_BYTES):
        if met.what is EventType.OPEN:
            space.planes.append(Plane())
        elif met.what is EventType.FIELD and met.level == "plane":
            _take(space, space.planes[-1], met)
        elif met.what is EventType.FIELD and isinstance(met.value, bytes):
            if met.number == 4:
                space.hosts.append(plain(met.value))
            elif met.number in (2, 3):
                space.said.append(plain(met.value))
    return space


def _take(space: Space, plane: Plane, met: WireEvent) -> None:
    from google.protobuf.message import DecodeError

    classes = messages("xplane")
    if not isinstance(met.value, bytes):
        return
    try:
        if met.number == 2:
            plane.named(plain(met.value))
        elif met.number == 3:
            _look_at_line(space, met.value)
        elif met.number == 4:
            number, named = _entry(classes["EventEntry"].FromString(met.value))
            plane.names[number] = PlaneName(plain(named.name), plain(named.display_name), tuple(named.stats))
        elif met.number == 5:
            number, named = _entry(classes["StatEntry"].FromString(met.value))
            plane.keys[number] = plain(named.name)
        elif met.number == 6:
            plane.stats.append(met.value)
    except DecodeError:
        return


def _entry(entry: ProtobufMessage) -> tuple[int, ProtobufMessage]:
    return (entry.key or entry.value.id), entry.value


def _look_at_line(space: Space, data: bytes) -> None:
    """Learn when a line with events starts: its own fields come before its events."""
    try:
        first: Mapping[int, object] = {number: value for number, _, value in fields(data[:4096], 8)}
    except ValueError:
        return
    start = first.get(3, 0)
    if 4 in first and isinstance(start, int) and start < MAX_NS:
        low, high = space.starts or (start, start)
        space.starts = min(low, start), max(high, start)


# Kinds of lines and events, and the texts in which CUPTI's details are written.


class PlaneRole(StrEnum):
    """Roles of lines, by which their events are counted."""

    HOST = "host"
    STREAM = "stream"
    OPS = "ops"
    DERIVED = "derived"
    OTHER = "other"


DETAILS = frozenset({"kernel_details", "memcpy_details", "memset_details"})
"""Stats whose texts CUPTI's details are."""
_OPS = ("XLA Ops", "Sparse Core Ops")
_COPY = re.compile(r"mem_?cpy_?(?:([HDAP])2([HDAP]))?", re.I | re.ASCII)
_SET = re.compile(r"memset", re.I)
_CALL = re.compile(r"(?:(cuda|hip)|cu)[A-Z]", re.ASCII)
_OPERATOR = re.compile(r"[^:\s]+:[A-Z_][A-Za-z0-9_]*", re.ASCII)
"""Types that TensorFlow puts in itself begin with `_`: `_FusedConv2D`, `_MklMatMul`."""
_DETAIL = re.compile(r"([a-z_]{1,40}):([^\s]{1,200})", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_SHAPE = re.compile(r"([0-9]{1,18}),([0-9]{1,18}),([0-9]{1,18})", re.ASCII)
_COLUMNS = {
    "regs": "registers",
    "static_shared": "static_smem_bytes",
    "dynamic_shared": "dynamic_smem_bytes",
    "size": "bytes",
    "num_bytes": "bytes",
}
_SHAPES = frozenset(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")
_SMALL = _SHAPES | {"registers"}


def role_of(plane: Plane, line: str) -> PlaneRole:
    """Return the role of a line."""
    if plane.device is None:
        return PlaneRole.HOST if plane.name.startswith("/host:") else PlaneRole.OTHER
    if plane.name.startswith("/device:GPU"):
        return PlaneRole.STREAM if line.startswith("Stream #") else PlaneRole.DERIVED
    return PlaneRole.OPS if line in _OPS else PlaneRole.DERIVED


# The code of an op of XLA comes behind its shape: "%copy-done.2 = f32[5]{0:T(8,128)} copy-done((f32[5], ...) %x)".
_ASYNC_COPY = re.compile(r"(?:^%?|\s)(?:copy|slice)-(?:start|done)(?:\(|[.\d]*$)", re.ASCII)


@lru_cache(maxsize=1 << 14)
def kind_of(role: PlaneRole, text: str) -> tuple[Kind, str | None]:
    """Return the kind of the events of this name on a line, and the direction of a copy."""
    if role in (PlaneRole.STREAM, PlaneRole.OPS):
        if role is PlaneRole.STREAM and (found := _COPY.match(text)):
            return Kind.MEMCPY, f"{found[1].upper()}to{found[2].upper()}" if found[1] else None
        if role is PlaneRole.OPS and _ASYNC_COPY.search(text):
            return Kind.MEMCPY, None
        return (Kind.MEMSET if role is PlaneRole.STREAM and _SET.match(text) else Kind.KERNEL), None
    if role is not PlaneRole.HOST:
        return Kind.OTHER, None
    if text.startswith("$"):
        return Kind.PYTHON_OP, None
    if call := _CALL.match(text):
        return (Kind.RUNTIME if call[1] else Kind.DRIVER), None
    return Kind.OPERATOR if _OPERATOR.fullmatch(text) else Kind.OTHER, None


@lru_cache(maxsize=4096)
def details(text: str) -> tuple[dict[str, int], str]:
    """Return the columns of a text of details, and what is left of it.

    >>> details("regs:38 static_shared:0 grid:160,1,1 occ_pct:50")[1]
    'occ_pct:50'
    """
    found: dict[str, int] = {}
    left = []
    for word in text.split():
        match = _DETAIL.fullmatch(word)
        taken: dict[str, int] = {}
        if match and match[1] in _COLUMNS and _NUMBER.fullmatch(match[2]):
            taken = {_COLUMNS[match[1]]: int(match[2])}
        elif match and match[1] in ("grid", "block") and (shape := _SHAPE.fullmatch(match[2])):
            taken = {f"{match[1]}_{axis}": int(size) for axis, size in zip("xyz", shape.groups(), strict=True)}
        fits = all(
            (name in _SHAPES) <= value <= (INT32_MAX if name in _SMALL else INT64_MAX) for name, value in taken.items()
        )
        if taken and fits and not taken.keys() & found.keys():
            found |= taken
        else:
            left.append(word)
    return found, " ".join(left)

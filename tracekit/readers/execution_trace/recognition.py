"""Recognition of execution traces; what only reading needs is imported by the modules that read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tracekit.lazy_pattern import lazy_pattern
from tracekit.readers.base import Confidence, Head

__all__ = ["CHAKRA_BEGINS", "sniff_chakra", "sniff_pytorch"]

_NODES = lazy_pattern(rb'"nodes"\s*:\s*\[')
_OWN_NODE = lazy_pattern(
    rb'"\[pytorch\|profiler\|execution_(?:trace|graph)\||"(?:ctrl_deps|parent)"\s*:.*?"(?:rf_id|op_schema|fw_parent)"'
    rb'|"rf_id".*?"(?:ctrl_deps|parent|fw_parent)"\s*:',
    re.DOTALL,
)


def sniff_pytorch(head: Head) -> Confidence:
    """Return YES for a JSON object with a list of PyTorch's nodes."""
    data = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not data.startswith(b"{") or b'"traceEvents"' in data:
        return Confidence.NO
    nodes = _NODES.search(data)
    return Confidence.YES if nodes and _OWN_NODE.search(data, nodes.end()) else Confidence.NO


CHAKRA_BEGINS = (
    *(bytes((length, tag)) for length in range(2, 128) for tag in (0x0A, 0x12)),
    *(bytes((length,)) for length in range(128, 256)),
)
"""The length of the metadata, in one byte or two, and the tag of its first field."""
_VERSION = lazy_pattern(rb"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}[-.+a-z0-9]{0,20}")
_WIRE_TYPES = {1: (0,), 2: (2,), 3: (0,), 4: (0, 2), 5: (0, 2), 6: (0,), 7: (0,), 8: (2,), 9: (2,), 10: (2,)}
"""The wire types of the fields of a node."""
_ATTRIBUTE = lazy_pattern(rb"\x0a(?P<size>[\x01-\x7f])(?P<name>[A-Za-z0-9_. -]{1,127})")
_KNOWN_ATTRIBUTES = (b"schema", b"pid", b"time", b"start_ts", b"finish_ts", b"version")


def sniff_chakra(head: Head) -> Confidence:
    """Return YES for messages of Chakra with their lengths: metadata with a version or its attributes, then nodes."""
    data = head.data
    size, at = _varint(data, 0)
    if size is None or not 0 < size <= 1 << 15 or at + size > len(data) or not _is_metadata(data[at : at + size]):
        return Confidence.NO
    at += size
    if at == len(data):
        return Confidence.YES if head.complete else Confidence.NO
    size, at = _varint(data, at)
    if size is None or not size:
        return Confidence.NO
    node = data[at : at + size]
    numbers = [number for number, wire, _ in _fields(node, cut=len(node) < size) if wire in _WIRE_TYPES.get(number, ())]
    count = sum(1 for _ in _fields(node, cut=len(node) < size))
    return Confidence.YES if count and len(numbers) == count and {1, 2} & set(numbers) else Confidence.NO


def _is_metadata(data: bytes) -> bool:
    """Return whether a message is the metadata of a file: a version, or attributes that Chakra's converter writes."""
    fields = list(_fields(data))
    if not fields or any(number not in (1, 2) or wire != 2 for number, wire, _ in fields):
        return False
    for number, _, value in fields:
        if number == 1 and not _VERSION.fullmatch(value):
            return False
    names = [value[2 : 2 + value[1]] for number, _, value in fields if number == 2 and _ATTRIBUTE.match(value)]
    if len(names) < sum(number == 2 for number, _, _ in fields):
        return False
    return any(number == 1 for number, _, _ in fields) or any(name in _KNOWN_ATTRIBUTES for name in names)


def _varint(data: bytes, at: int) -> tuple[int | None, int]:
    """Return the number at a place and the place behind it; None where it does not end within five bytes."""
    value = shift = 0
    for place in range(at, min(at + 5, len(data))):
        value |= (data[place] & 127) << shift
        if data[place] < 128:
            return value, place + 1
        shift += 7
    return None, at


def _fields(data: bytes, *, cut: bool = False) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, wire type and bytes of the fields of a message, 99 for damage. cut: more bytes follow."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = -1 if tag is None else tag & 7
        size: int | None = {1: 8, 5: 4}.get(wire)
        if wire == 0:
            end = next((place for place in range(at, min(at + 10, len(data))) if data[place] < 128), None)
            size = None if end is None else end + 1 - at
        elif wire == 2:
            size, at = _varint(data, at)
        if tag is None or size is None or at + size > len(data):
            if not cut:
                yield 99, -1, b""
            return
        yield tag >> 3, wire, data[at : at + size]
        at += size

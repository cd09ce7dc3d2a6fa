"""Recognition of a Perfetto trace by its first packets."""

from __future__ import annotations

from tracekit.columns.varints import varint_at
from tracekit.readers.base import Confidence, Head
from tracekit.readers.packets import fields as numbers

_WIRES = {
    **dict.fromkeys((3, 8, 10, 13, 41, 42, 58, 79, 87, 98), 0),
    **dict.fromkeys((2, 6, 11, 12, 43, 44, 45, 50, 52, 53, 59, 60, 69, 71, 89, 128, 133), 2),
    **{number: 2 for number in numbers.TYPES if number not in (1, 123)},
    1: 2,
    33: 2,
    36: 2,
}
_SURE = frozenset({6, 10, 11, 13, 33, 36, 43, 44, 50, 52, 53, 58, 59, 60, 69, 89, 133})
"""Fields that make a packet of what might be the message of another format."""
_MOST_PACKETS = 64
_ENOUGH = 3
"""Packets after which the file may be damaged."""


def sniff(head: Head) -> Confidence:
    """Return YES where all packets of the head have only fields of TracePacket, and most have one that marks them."""
    data, place = head.data, 0
    packets = sure = 0
    while place < len(data) and packets < _MOST_PACKETS:
        if data[place] != 0x0A:
            if packets < _ENOUGH:
                return Confidence.NO
            break
        length, start = varint_at(data, place + 1)
        if length < 0:
            break
        end = start + length
        found = _fields(data, start, min(end, len(data)), whole=end <= len(data))
        if found is None or (end > len(data) and head.complete and not packets):
            return Confidence.NO
        packets += 1
        sure += not _SURE.isdisjoint(found)
        place = end
    return Confidence.YES if packets and 2 * sure >= packets else Confidence.NO


def _fields(data: bytes, place: int, end: int, *, whole: bool) -> set[int] | None:
    """Return the numbers of the fields of a packet, None for what is no packet."""
    found: set[int] = set()
    while place < end:
        tag, place = varint_at(data, place)
        if tag < 0:
            return None if whole else found
        number, wire = tag >> 3, tag & 7
        if _WIRES.get(number) != wire:
            return None
        value, place = varint_at(data, place)
        if value < 0 and whole:
            return None
        found.add(number)
        if wire == 2:
            place += max(value, 0)
    return None if whole and place != end else found

"""Packets of a file, in blocks: where each begins and ends. Compressed packets are replaced by what they hold."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

from tracekit.errors import ParseError
from tracekit.lazy_dataclass import dataclass
from tracekit.model.arrow import I64, Bytes
from tracekit.model.digits import varint_at
from tracekit.model.trace import Ledger
from tracekit.readers.engine.torn import TORN
from tracekit.readers.engine.wire import Fields, Words, padded, scan, varints, words_of
from tracekit.readers.packets.fields import COMPRESSED, ZSTD_COMPRESSED
from tracekit.readers.source import Source

__all__ = ["PacketBlock", "Packets", "frame"]

BLOCK_BYTES = 4 << 20
MOST_PACKET_BYTES = 64 << 20
"""A larger packet is dropped; it would need some GB of memory."""
_MOST_PACKETS = 1 << 16
_PACKET = 0x0A
_FEW_BYTES = 1 << 10
"""Bytes in which packets are found one by one."""
_WINDOW_BYTES = 1 << 18
"""Bytes in which packets are found by columns, which stay in the processor's cache."""
_TAIL = 32
_DOUBLINGS = 5


@dataclass(frozen=True, slots=True, eq=False)
class PacketBlock:
    """Packets in order. fields: of all packets. number: of the first packet, from 1. where: its byte in the file."""

    data: Bytes
    view: Words
    fields: Fields
    starts: I64
    ends: I64
    number: int
    where: str

    @property
    def count(self) -> int:
        """Return the number of packets."""
        return len(self.starts)


class Packets:
    """The packets of one file, counted in the ledger."""

    def __init__(self, source: Source, ledger: Ledger) -> None:
        self._source, self._ledger = source, ledger

    def blocks(self) -> Iterator[PacketBlock]:
        """Yield the packets. Raises: ParseError for a file that begins with none."""
        for values, starts, ends, at in self._framed():
            block = self._block(values, starts, ends, f"byte {at}")
            if (packed := _packed(block)) is None:
                yield block
                continue
            for inner in self._unpacked(block, packed):
                first, last, end = frame(inner)
                self._damage(inner, end, block.where)
                if len(first):
                    yield self._block(padded(inner), first, last, block.where)

    def _block(self, values: Bytes, starts: I64, ends: I64, where: str) -> PacketBlock:
        view = words_of(values)
        number = self._ledger.read + 1
        self._ledger.read += len(starts)
        return PacketBlock(values, view, scan(view, starts, ends), starts, ends, number, where)

    def _framed(self) -> Iterator[tuple[Bytes, I64, I64, int]]:
        """Yield `padded` bytes with the packets in them, and the byte of the file that they begin at."""
        rest, at, skip = b"", 0, 0
        for chunk in self._source.chunks(self._ledger, BLOCK_BYTES):
            if skip:
                step = min(skip, len(chunk))
                skip, chunk, at = skip - step, chunk[step:], at + step
            data = rest + chunk if rest else chunk
            starts, ends, end = frame(data)
            values = padded(data)
            for first in range(0, len(starts), _MOST_PACKETS):
                part = slice(first, first + _MOST_PACKETS)
                yield values, starts[part], ends[part], at
            rest, at = data[end:], at + end
            if rest and (reason := _no_packet(rest)):
                if not at:
                    raise ParseError(self._source.name, "byte 0", f"no packet of Perfetto: {reason}")
                self._lost("damaged", f"dropped: {reason}, up to the end of the file", f"byte {at}")
                return
            size = _size(rest)
            if size > MOST_PACKET_BYTES:
                self._lost("too-large", f"dropped: packets larger than {MOST_PACKET_BYTES >> 20} MiB", f"byte {at}")
                skip, at, rest = size - len(rest), at + len(rest), b""
        if rest or skip:
            self._lost(TORN, "dropped: the file ends within a packet", f"byte {at}")

    def _lost(self, code: str, text: str, where: str) -> None:
        self._ledger.read += 1
        self._ledger.drop(code, where=where, text=text)

    def _damage(self, data: bytes, end: int, where: str) -> None:
        if end < len(data):
            self._lost("damaged", "dropped: the rest of compressed packets, which is damaged", where)

    def _unpacked(self, block: PacketBlock, packed: dict[int, tuple[int, int, int]]) -> Iterator[bytes]:
        """Yield the packets of a block, framed, with compressed ones in their place."""
        own = block.data.tobytes()
        parts: list[bytes] = []
        size = last = 0
        self._ledger.read -= block.count
        for row in sorted(packed):
            parts.append(_framed_again(own, block, last, row))
            last = row + 1
            number, at, end = packed[row]
            data = _inflated(own[at:end], number)
            if data is None:
                self._lost("damaged", "dropped: compressed packets that cannot be decompressed", block.where)
                continue
            self._ledger.read += 1
            self._ledger.facts += 1
            parts.append(data)
            size += len(data)
            if size >= BLOCK_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
        parts.append(_framed_again(own, block, last, block.count))
        yield b"".join(parts)


def _framed_again(data: bytes, block: PacketBlock, first: int, last: int) -> bytes:
    out = bytearray()
    for start, end in zip(block.starts[first:last].tolist(), block.ends[first:last].tolist(), strict=True):
        out.append(_PACKET)
        rest = end - start
        while rest > 127:
            out.append(rest & 127 | 128)
            rest >>= 7
        out.append(rest)
        out += data[start:end]
    return bytes(out)


def _packed(block: PacketBlock) -> dict[int, tuple[int, int, int]] | None:
    """Return field, begin and end of the compressed bytes by packet; None where no packet is compressed."""
    found: dict[int, tuple[int, int, int]] = {}
    for number in (COMPRESSED, ZSTD_COMPRESSED):
        fields = block.fields.of(number, 2)
        for row, at, end in zip(fields.row.tolist(), fields.at.tolist(), fields.ends.tolist(), strict=True):
            found[row] = number, at, end
    return found or None


def _inflated(data: bytes, number: int) -> bytes | None:
    """Return decompressed packets; None for damage, packets in packets, and beyond the limit."""
    try:
        if number == COMPRESSED:
            unpack = zlib.decompressobj()
            out = unpack.decompress(data, MOST_PACKET_BYTES)
            if unpack.unconsumed_tail:
                return None
        else:
            import zstandard

            with zstandard.ZstdDecompressor().stream_reader(data) as stream:
                out = stream.read(MOST_PACKET_BYTES + 1)
    except Exception as err:
        if type(err).__name__ not in ("error", "ZstdError"):
            raise
        return None
    return out if len(out) <= MOST_PACKET_BYTES else None


def frame(data: bytes) -> tuple[I64, I64, int]:
    """Return begins and ends of the packets that are whole, and where the last of them ends."""
    place = 0
    starts: list[I64] = []
    ends: list[I64] = []
    while True:
        if len(data) - place > _FEW_BYTES:
            first, last = _chain(data, place)
            starts.append(first)
            ends.append(last)
            place = int(last[-1]) if len(last) else place
        first, last, end = _one_by_one(data, place, len(data) if len(data) - place <= _FEW_BYTES else place + 1)
        starts.append(first)
        ends.append(last)
        if end == place or len(data) - end <= 0:
            return np.concatenate(starts), np.concatenate(ends), end
        place = end


def _chain(data: bytes, place: int) -> tuple[I64, I64]:
    """Return begins and ends of packets from a byte on, up to one that needs a closer look.

    Each byte that may begin a packet says where the next one would begin. Steps of 32 packets are found for all of
    these bytes by doubling, so that a loop takes them from the first packet on; what lies between follows by columns.
    """
    values = np.frombuffer(data, np.uint8)
    at = np.flatnonzero(values[place : min(len(data) - _TAIL, place + _WINDOW_BYTES)] == _PACKET) + place
    length = values[at + 1].astype(np.int64)
    begin = at + 2
    long = np.flatnonzero(length > 127)
    whole = np.ones(len(at), np.bool_)
    if len(long):
        length[long], size = (each.view(np.int64) for each in varints(words_of(values), at[long] + 1))
        begin[long] += size - 1
        whole[long] = (size > 0) & (size < 9)
    after = begin + length
    whole &= after <= len(data)
    count = len(at)
    if not count or at[0] != place or not whole[0]:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    # Which of these bytes is at each byte of the window; none of them is at the others.
    number = np.full(int(at[-1]) - place + 2, -1, np.int32)
    number[at - place] = np.arange(count, dtype=np.int32)
    following = number[np.clip(after - place, 0, len(number) - 1)]
    good = whole & (following >= 0) & whole[following]
    step = np.full(count + 1, count, np.int32)
    step[:-1][good] = following[good]
    leap = step
    for _ in range(_DOUBLINGS):
        leap = leap[leap]
    heads = []
    head = 0
    while head < count:
        heads.append(head)
        head = int(leap[head])
    steps = np.empty((1 << _DOUBLINGS, len(heads)), np.int32)
    steps[0] = heads
    for n in range(1, len(steps)):
        steps[n] = step[steps[n - 1]]
    found = steps.T.ravel()
    found = found[found < count]
    return begin[found], after[found]


def _one_by_one(data: bytes, place: int, stop: int) -> tuple[I64, I64, int]:
    """Return begins and ends of the packets that begin before `stop`, and where the last of them ends."""
    starts: list[int] = []
    ends: list[int] = []
    size = len(data)
    try:
        while place < stop:
            if data[place] != _PACKET:
                break
            length = data[place + 1]
            at = place + 2
            if length > 127:
                more = data[at]
                at += 1
                length = length & 127 | (more & 127) << 7
                shift = 14
                while more > 127 and shift < 63:
                    more = data[at]
                    at += 1
                    length |= (more & 127) << shift
                    shift += 7
            after = at + length
            if after > size:
                break
            starts.append(at)
            ends.append(after)
            place = after
    except IndexError:
        pass
    return np.array(starts, np.int64), np.array(ends, np.int64), place


def _no_packet(data: bytes) -> str:
    """Return why the bytes do not begin a packet, "" where they may."""
    if data[0] != _PACKET:
        return f"byte 0x{data[0]:02x} where a packet begins with 0x0a"
    length, _ = varint_at(data[:12], 1)
    if length < 0 and len(data) > 11:
        return "a length that has no end"
    return ""


def _size(data: bytes) -> int:
    """Return the bytes of the packet that begins here, 0 where that is not known."""
    length, place = varint_at(data[:12], 1)
    return length + place if length >= 0 else 0

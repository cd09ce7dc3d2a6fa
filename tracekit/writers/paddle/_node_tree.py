"""Nested nodes from the ranges of each thread: one pass in order of start, many threads at once.

A node is written when a later row shows that it has ended, so children come before their parents. Paddle joins nodes by
id and parentid, not by place (deserialization_reader.cc), and sorts children by id, which is the order of start. Memory
is bounded by the open ranges: incomplete messages wait in a temporary file.
"""

from __future__ import annotations

from dataclasses import field as dataclass_field
from typing import BinaryIO

from tracekit.lazy_dataclass import dataclass
from tracekit.messages import (
    TREE_TYPES,
    ProtobufMessage,
    messages,
)
from tracekit.model.digits import delimited, varint

HELD_BYTES = 1 << 16
_COPY_BYTES = 1 << 20


class MessagePieces:
    """Bytes in order. Bytes beyond 64 KiB are in `spool`, a file that several objects share."""

    __slots__ = ("_held", "_held_bytes", "_places", "_spool", "size")

    def __init__(self, spool: BinaryIO) -> None:
        self._spool = spool
        self._places: list[tuple[int, int]] = []
        self._held: list[bytes] = []
        self._held_bytes = 0
        self.size = 0

    def add(self, data: bytes) -> None:
        """Append bytes."""
        self._held.append(data)
        self._held_bytes += len(data)
        self.size += len(data)
        if self._held_bytes > HELD_BYTES:
            self._store()

    def message(self, number: int, inner: MessagePieces | bytes) -> None:
        """Append a field that holds a message."""
        if isinstance(inner, bytes):
            self.add(delimited(number, inner))
            return
        self.add(varint(number << 3 | 2) + varint(inner.size))
        self.append(inner)

    def append(self, inner: MessagePieces) -> None:
        """Append the bytes of another object with the same spool; `inner` must not be used any more."""
        if inner._places:
            self._store()
            self._places += inner._places
            self.size += inner.size - inner._held_bytes
        for data in inner._held:
            self.add(data)

    def _store(self) -> None:
        if not self._held:
            return
        data = b"".join(self._held)
        place = self._spool.seek(0, 2)
        self._spool.write(data)
        if self._places and sum(self._places[-1]) == place:
            self._places[-1] = (self._places[-1][0], self._places[-1][1] + len(data))
        else:
            self._places.append((place, len(data)))
        self._held, self._held_bytes = [], 0

    def copy_to(self, out: BinaryIO) -> None:
        """Write all bytes."""
        for place, length in self._places:
            self._spool.seek(place)
            left = length
            while left:
                data = self._spool.read(min(left, _COPY_BYTES))
                left -= len(data)
                out.write(data)
        out.write(b"".join(self._held))


HOST_NODE, CALL, MEMORY, SUPPLEMENT = 2, 4, 5, 6
"""Field numbers: host_nodes of a tree; runtime_nodes, mem_nodes and op_supplement_nodes of a node."""


@dataclass(slots=True)
class _OpenRange:
    start: int
    end: int
    number: int
    pieces: MessagePieces


@dataclass(slots=True)
class NodeTree:
    """The nodes of one thread. `crossing`: ranges that overlap another without lying within it."""

    thread: int
    spool: BinaryIO
    nodes: MessagePieces = dataclass_field(init=False)
    root: MessagePieces = dataclass_field(init=False)
    crossing: int = 0
    _open: list[_OpenRange] = dataclass_field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self.nodes, self.root = MessagePieces(self.spool), MessagePieces(self.spool)

    def add_range(self, start: int, end: int, event: ProtobufMessage, inner: list[ProtobufMessage]) -> None:
        """Open a node; ranges come by (start, -end)."""
        self._close_before(start)
        parent = next((o for o in reversed(self._open) if o.end >= end and (o.end > start or o.start == start)), None)
        if self._open and parent is not self._open[-1] and self._open[-1].end > start:
            self.crossing += 1
        self._count += 1
        pieces = MessagePieces(self.spool)
        # id, parentid, host_trace_event: the fields of a node in the order of their numbers.
        pieces.add(varint(1 << 3) + varint(self._count) + varint(2 << 3) + varint(parent.number if parent else 0))
        pieces.message(3, event.SerializeToString())
        for supplement in inner:
            pieces.message(SUPPLEMENT, supplement.SerializeToString())
        self._open.append(_OpenRange(start, end, self._count, pieces))

    def add_inner(self, start: int, end: int, number: int, message: ProtobufMessage) -> None:
        """Add a call or an allocation to the innermost node that contains it, else to the root."""
        self._close_before(start)
        owner = next((o.pieces for o in reversed(self._open) if o.start <= start and end <= o.end), self.root)
        owner.message(number, message.SerializeToString())

    def _close_before(self, start: int) -> None:
        """Write nodes that ended before `start`. A node that ends at `start` may still contain an allocation then."""
        while self._open and self._open[-1].end < start:
            self.nodes.message(HOST_NODE, self._open.pop().pieces)

    def finish(self) -> MessagePieces:
        """Return the ThreadNodeTreeProto. Its first node is a root, as in the files of Paddle."""
        while self._open:
            self.nodes.message(HOST_NODE, self._open.pop().pieces)
        event = messages("nodetree")["HostTraceEventProto"](
            name=b"root node",
            type=TREE_TYPES.index("UserDefined"),
            start_ns=0,
            end_ns=(1 << 64) - 1,
            process_id=0,
            thread_id=0,
        )
        root = MessagePieces(self.spool)
        root.add(varint(1 << 3) + varint(0) + varint(2 << 3) + varint(-1))
        root.message(3, event.SerializeToString())
        root.append(self.root)
        tree = MessagePieces(self.spool)
        tree.add(varint(1 << 3) + varint(self.thread))
        tree.message(HOST_NODE, root)
        tree.append(self.nodes)
        return tree

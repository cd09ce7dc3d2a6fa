"""Nested nodes from the ranges of each thread: one pass in order of start, many threads at once.

Memory is bounded by the open ranges.

A node is written when a later row shows that it has ended, so children come before their parents. Paddle joins nodes by
id and parentid, not by place (deserialization_reader.cc), and sorts children by id, which is the order of start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import BinaryIO

from tracekit.columns.varints import varint
from tracekit.messages import TREE_TYPES, Message, messages
from tracekit.writers.paddle._pieces import Pieces

HOST_NODE, CALL, MEMORY, SUPPLEMENT = 2, 4, 5, 6
"""Field numbers: host_nodes of a tree; runtime_nodes, mem_nodes and op_supplement_nodes of a node."""


@dataclass(slots=True)
class _OpenRange:
    start: int
    end: int
    number: int
    pieces: Pieces


@dataclass(slots=True)
class Tree:
    """The nodes of one thread. `crossing`: ranges that overlap another without lying within it."""

    thread: int
    spool: BinaryIO
    nodes: Pieces = field(init=False)
    root: Pieces = field(init=False)
    crossing: int = 0
    _open: list[_OpenRange] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        self.nodes, self.root = Pieces(self.spool), Pieces(self.spool)

    def add_range(self, start: int, end: int, event: Message, inner: list[Message]) -> None:
        """Open a node; ranges come by (start, -end)."""
        self._close_before(start)
        parent = next((o for o in reversed(self._open) if o.end >= end and (o.end > start or o.start == start)), None)
        if self._open and parent is not self._open[-1] and self._open[-1].end > start:
            self.crossing += 1
        self._count += 1
        pieces = Pieces(self.spool)
        # id, parentid, host_trace_event: the fields of a node in the order of their numbers.
        pieces.add(varint(1 << 3) + varint(self._count) + varint(2 << 3) + varint(parent.number if parent else 0))
        pieces.message(3, event.SerializeToString())
        for supplement in inner:
            pieces.message(SUPPLEMENT, supplement.SerializeToString())
        self._open.append(_OpenRange(start, end, self._count, pieces))

    def add_inner(self, start: int, end: int, number: int, message: Message) -> None:
        """Add a call or an allocation to the innermost node that contains it, else to the root."""
        self._close_before(start)
        owner = next((o.pieces for o in reversed(self._open) if o.start <= start and end <= o.end), self.root)
        owner.message(number, message.SerializeToString())

    def _close_before(self, start: int) -> None:
        """Write nodes that ended before `start`. A node that ends at `start` may still contain an allocation then."""
        while self._open and self._open[-1].end < start:
            self.nodes.message(HOST_NODE, self._open.pop().pieces)

    def finish(self) -> Pieces:
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
        root = Pieces(self.spool)
        root.add(varint(1 << 3) + varint(0) + varint(2 << 3) + varint(-1))
        root.message(3, event.SerializeToString())
        root.append(self.root)
        tree = Pieces(self.spool)
        tree.add(varint(1 << 3) + varint(self.thread))
        tree.message(HOST_NODE, root)
        tree.append(self.nodes)
        return tree

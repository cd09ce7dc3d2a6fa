"""Rows of the nodes of an execution trace: EVENTS for nodes that have a start, TOTALS for all others.

A node without a start is no event: nothing says when it ran. Its row of TOTALS has one call, its duration where the
file has one, and everything else in `args`. The members of operands go first, so that views can cut them off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

import orjson

from tracekit.lazy_dataclass import dataclass
from tracekit.model.schema import Kind
from tracekit.readers.builder import RowBuilder
from tracekit.readers.execution_trace._operands import Record
from tracekit.readers.printed.lines import TotalRows
from tracekit.readers.torch_ranges import range_of

if TYPE_CHECKING:
    import pyarrow as pa

    from tracekit.model.trace import Ledger

__all__ = ["SECTION", "NodeRows", "TraceNode", "kind_of"]

SECTION = "execution trace"
"""The section of TOTALS."""
_USER_SCOPE = 7
_OWN = "[pytorch|profiler|execution_"
_COMMUNICATION = "record_param_comms"
_BATCH = 1 << 13


def kind_of(name: str, scope: int | None) -> tuple[Kind, int | None]:
    """Return the kind of a node of PyTorch, and the number of a step. scope: of the record function.

    >>> kind_of("aten::mm", 0), kind_of("Optimizer.step#SGD.step", 7)
    ((<Kind.OPERATOR: 'operator'>, None), (<Kind.OPTIMIZER: 'optimizer'>, None))
    """
    if name.startswith(_OWN):
        return Kind.OTHER, None
    if name == _COMMUNICATION:
        return Kind.COMMUNICATION, None
    if scope != _USER_SCOPE:
        return Kind.OPERATOR, None
    found = range_of(name, recorded=True, numbered=False)
    return (Kind.USER_RANGE if found.kind is Kind.OPERATOR else found.kind), found.step


@dataclass(slots=True)
class TraceNode:
    """One node. start_ns: on the clock of the file, None where it has none. args: the operands first."""

    name: str
    kind: Kind
    args: Record
    start_ns: int | None = None
    dur_ns: int | None = None
    bytes: int | None = None
    step: int | None = None
    pid: int | None = None
    tid: int | None = None
    stream: int | None = None


@dataclass(slots=True)
class NodeRows:
    """The rows of nodes, in the order of the file; those with a start by their start."""

    source: int
    ledger: Ledger
    totals: TotalRows = field(init=False)
    timed: list[tuple[int, int, TraceNode]] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        """Begin the rows of TOTALS."""
        self.totals = TotalRows(self.source, self.ledger)

    def add(self, node: TraceNode) -> Iterator[pa.RecordBatch]:
        """Take a node; yield the rows that are many enough for a batch."""
        self.ledger.kept += 1
        self.count += 1
        if node.start_ns is not None:
            self.timed.append((node.start_ns, self.count, node))
            return
        self.totals.add(
            0, SECTION, node.name, str(node.kind), node.args, calls=1, total_ns=node.dur_ns, bytes=node.bytes
        )
        yield from self.totals.take()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are left."""
        yield from self.totals.take(everything=True)
        self.timed.sort(key=lambda each: each[:2])
        for first in range(0, len(self.timed), _BATCH):
            rows = RowBuilder()
            for start, number, node in self.timed[first : first + _BATCH]:
                rows.add(
                    ts_ns=start, dur_ns=node.dur_ns, event_id=number, name=node.name, kind=str(node.kind),
                    source=self.source, bytes=node.bytes, step=node.step, pid=node.pid, tid=node.tid,
                    stream=node.stream, args=orjson.dumps(node.args).decode(),
                )  # fmt: skip
            self.ledger.events_out += len(rows)
            yield rows.take()

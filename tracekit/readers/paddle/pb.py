"""paddle-pb: the tree file of paddle.profiler's export_protobuf (`*.paddle_trace.pb`, Paddle 2.2 to 3.x).

    NodeTreesProto { version: "1.0.2"  span_indx: 1
      thread_trees { thread_id: 3714
        host_nodes { id: 2 parentid: 1 host_trace_event { name: "conv2d dygraph" type: 0 start_ns: 17952... } } } }

A record is a node of a tree (host range, runtime call, device work, allocation, supplement), a tree itself, or a fact
of the file (version, span, extra information, a device). `event_id` is the record's number. Times are Unix ns on
Linux; a first time before 2001 is a clock of unknown zero, so `Run.origin_ns` is None. Trees are in order of nesting,
not of time.

Kinds: `_types.KIND_OF_TYPE`. Fields of a kernel, copy, memset or allocation without a column are in `args`. Ids of
nodes are not: they only repeat the nesting of the times on each thread. Zeros of fields that the format requires and
Paddle leaves at 0 are not either. Device work has the `pid` of the call that launched it, and the clock of the host.
The `bytes` of allocations are signed. Supplements (shapes, types, call stack of an operator) are in the `args` of their
node. The root node of each tree spans all time and is not an event: it is ignored, its children are not.

`facts`: version, span_indx, extra_info, device_properties. Names of threads, which Paddle 2.6 puts there, are in `Run`.
The file is read in pieces (`protobuf.walk`): memory does not grow with it.

Not supported: fields that a newer Paddle adds are counted and noted.
Sources: descriptors inside paddlepaddle 2.6.2, files of 2.6.2 and 3.3.1, deserialization_reader.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for a version followed by a span or a tree."""
    if not head.data.startswith(b"\x0a"):
        return Confidence.NO
    from tracekit.readers.paddle import _pb

    return _pb.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events."""
    from tracekit.readers.paddle import _pb

    return _pb.read(source, options, ledger)

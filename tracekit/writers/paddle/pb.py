"""paddle-pb: the tree file of paddle.profiler (`*.paddle_trace.pb`), which paddle.profiler.load_profiler_result reads.

    NodeTreesProto { version: "1.0.2"  span_indx: 0
      thread_trees { thread_id: 3714  host_nodes { id: 0 parentid: -1 host_trace_event { name: "root node" ... } }
                     host_nodes { id: 2 parentid: 1 host_trace_event { ... } runtime_nodes { ... device_nodes } } } }

Each thread becomes a tree. The parent of a range, a call of the CUDA API or an allocation is the innermost range that
contains it. The parent of device work is the call with its correlation id, of the same source and process. A range that
overlaps another in part keeps its times; its parent is an outer range that contains it.

Device work without a launch is put under an empty call named "(launch not in the trace)" in thread 0, since Paddle
shows only work with a call; our reader skips that call again. Calls without a known thread are in thread 0 too. Kinds
that Paddle lacks: `sync` becomes a call, `overhead` and `other` become UserDefined; type 15, which Paddle 3 writes and
cannot load, becomes OperatorInner. Paddle declares every field required: unknown values are 0 or empty. Counters,
marks, arrows, ranges without duration and device-side synchronization are counted and not written. Threads of several
processes with the same id get new ids, since Paddle's tree has one process. Names are the readable ones.

Times are ns since the Unix epoch, or since the zero of a trace without that clock. The file is written in two passes
over a temporary file: memory holds the open ranges and about 40 bytes for each row of a device.
Source of the layout: the files of paddlepaddle 2.6.2 and 3.3.1, deserialization_reader.cc; 2.6.2 loads our files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

if TYPE_CHECKING:
    from pathlib import Path


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come."""
    from tracekit.writers.paddle import _pb

    return _pb.write(stream, target, options)


WRITERS_HERE: tuple[Writer, ...] = (Writer("paddle-pb", "Paddle protobuf trace", (".paddle_trace.pb", ".pb"), write),)

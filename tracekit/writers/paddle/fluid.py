"""fluid-pb: the profile of Paddle's older profiler (profiler.proto), for tools/timeline.py and other readers.

    Profile { events { name: "conv2d" start_ns: ... end_ns: ... device_id: 0 sub_device_id: 4 type: CPU } ... }

Each range of the host becomes an event of type CPU, with its thread in sub_device_id. Calls of the CUDA API have
device_id -1, as timeline.py requires. Kernels, copies and memsets have type GPUKernel, with device and stream. The
message has no process, no correlation and no launch shape: a note names them. An allocation and its free, joined by
`allocation` or `addr` of their `args`, become one MemEvent; without a free it ends with the last time of the trace.
Times are ns since the Unix epoch, or since the zero of a trace without that clock.
Source of the layout: profiler.proto of files from 1.8.5 and 2.6.2, tools/timeline.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

if TYPE_CHECKING:
    from pathlib import Path


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows as they come."""
    from tracekit.writers.paddle import _fluid

    return _fluid.write(stream, target, options)


WRITERS_HERE: tuple[Writer, ...] = (Writer("fluid-pb", "Paddle fluid profile (protobuf)", (".prof",), write),)

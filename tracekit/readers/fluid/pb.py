"""fluid-pb: the profile of Paddle's older profiler (fluid.profiler, `profile_path`; Paddle 0.11 to 2.6).

    Profile {
      events { name: "conv2d" start_ns: 1795226675920881253 end_ns: 1795226675920891248 device_id: 0 sub_device_id: 4 }
      events { name: "conv2d/compute" ... }  start_ns: 480249724  end_ns: 0 }

A record is an event, an allocation, or a fact of the file (its start and end). `event_id` is the record's number, in
the file's order, which is not that of time. Times are Unix ns on Linux (`Run.origin_ns` is None where the first is
before 2001). Files of 1.8 have whole microseconds in their ns.

Events of the host: `tid` is sub_device_id, a small number of the profiler's own; no process is named. device_id is the
depth of the block there, kept in `args` where it is not 0; -1 marks calls of the CUDA API, which become `runtime` or
`driver`. Files older than the field `type` have -1 for every host event and a device otherwise. A name with a slash
(`mul/compute`) is a part of an operator: `operator_inner`. Blocks and executors are `user_range_native`. All others are
`operator`, since the file does not distinguish operators from ranges of the user. Events of a device are kernels, and
copies if they have a size or the name of a copy. Where Paddle knew which operator launched one, `detail_info` is the
kernel's name and the event's own name the operator's (`operator` in `args`); else the event has the kernel's name.

An allocation becomes two rows, of its bytes when it is made and of minus its bytes when it is freed; `allocation` in
their `args` is the record's number, `alloc_in` and `free_in` say where. The file's own start and end are garbage in
runs without GPU (480249724 and 0): they are kept in `facts` and not used.

Not supported: fields that the message did not have in 0.11 to 2.6 are counted and noted.
Sources: files of 1.8.5 and 2.6.2 with the reports printed beside them, profiler.proto, tools/timeline.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, ReadOptions, ReadResult
from tracekit.readers.head import Head
from tracekit.readers.options import STATE

if TYPE_CHECKING:
    from tracekit.model.trace import Ledger
    from tracekit.readers.source import Source


def sniff(head: Head) -> Confidence:
    """Return YES if the first fields are events with a name and two times; MAYBE for a profile without events."""
    if head.data[:1] not in (b"\x0a", b"\x10", b"\x22"):
        return Confidence.NO
    from tracekit.readers.fluid import _pb

    return _pb.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> ReadResult:
    """Return the events. Raises: ParseError for another file that is read with --from."""
    from tracekit.readers.fluid import _pb

    return _pb.read(source, options, ledger, state=options.value(STATE))

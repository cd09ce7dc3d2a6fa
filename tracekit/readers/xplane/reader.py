"""xplane: profiles of TensorFlow, JAX and PyTorch/XLA (`*.xplane.pb`, the messages of xplane.proto).

    planes: {name: "/device:GPU:0", lines: {id: 7, name: "Stream #7(Compute)", timestamp_ns: 237916,
             events: {metadata_id: 2, offset_ps: 1921054081000, duration_ps: 57343000, stats: ...}}}

A record is an event of a line. A start is the `timestamp_ns` of the line plus the `offset_ps` of the event. `ts_ns` and
the end are whole ns, rounded down, so that what lies within a range stays within it. `args` has what is left, in ps:
`ts_ps` (0 to 999) and `dur_ps` (-999 to 999); `dur_ns * 1000 + dur_ps` is the exact duration. Neither is there for 0.

Kinds: work on the lines `Stream #n(...)` of a GPU and on `XLA Ops` and `Sparse Core Ops` of a TPU is kernel, memcpy or
memset. An op of a TPU that encloses others (a loop) is other, as its time is theirs. All other lines of devices are
derived from these or overlap them (Steps, XLA Modules, TensorFlow Ops and Name Scope, Async XLA Ops, ...): their rows
are other, with `derived` in `args`, and are in no sum of device work. On the host: calls of CUDA and HIP, Python
functions (`$file.py:12 f`), other rows with a correlation id (TensorFlow names calls of the driver after their kernel),
operators of TensorFlow (`name:Type`) and of XLA on a CPU (ranges with an `hlo_op`), steps (ranges with a `step_num`).
All else is other, as ranges of users look like those of XLA.

Stats of an event, and of all events of its name, are in `args`. Columns: `correlation`, launch shape and bytes out of
`kernel_details`, `memcpy_details`, `memset_details`. `device` is the number in the name of the plane, `stream` the id
of the line, `tid` the line of the host. An event with a number of occurrences has no time and is a row of totals.

Times are Unix time where the lines have it, or where the plane `Task Environment` says when the profile began; else
they count from an unknown zero. Lines of devices may have another zero than those of the host.
Not supported: the HLO modules of `/host:metadata`, and what they say about memory.
Sources: xplane.proto and xplane_schema.h of tsl/profiler; files of TensorFlow 2.4 (8 GPUs) and JAX (4 TPUs), and of
TensorFlow 2.21 and JAX 0.10 on a CPU, whose sums are those of JAX's `ProfileData` and of xprof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES if the file begins with a plane that has one of XPlane's names."""
    if head.data[:1] != b"\x0a":
        return Confidence.NO
    from tracekit.readers.xplane import _planes

    return _planes.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events. Raises: ParseError for a file that was changed as if it were text, and without planes."""
    from tracekit.readers.xplane import _reading

    return _reading.read(source, options, ledger)

"""cuda-kvp, cuda-csv: the log of the CUDA command line profiler, for tools that still read it.

    # CUDA_PROFILE_LOG_VERSION 2.0
    # CUDA_DEVICE 0 Tesla C2050
    # CUDA_CONTEXT 1
    gpustarttimestamp,gpuendtimestamp,method,gputime,cputime,streamid
    gpustarttimestamp=[ 13e224f5bd69f44f ] gpuendtimestamp=[ ... ] method=[ memcpyHtoD ] gputime=[ 443.072 ] ...

The log holds kernels, copies and memsets; rows of other kinds are counted and not written. Only columns that have a
value are written. Names are the raw ones where the trace has them: mangled names have no commas, and CSV puts other
names in quotes. A copy or memset of another profiler gets a name of this log (`memcpyHtoD`). The format has one context
for each file. Several contexts are written one after the other, each with its header, and our reader reads them back.

Time stamps are hexadecimal ns, since the Unix epoch if the trace has that clock, else since the zero of the trace. A
trace whose times were laid end to end gets none, as its source had none. One whose starts are the host's `timestamp`
(version 1) gets that column back. Flat members of `args` become columns of their name; cputime_ns and gputime_ns become
cputime and gputime in us. A note counts the texts in `args` that a cell cannot hold.
Source of the layout: the real logs that the reader `cuda-profile` is tested with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

if TYPE_CHECKING:
    from pathlib import Path


def write_kvp(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the log with names before the values."""
    from tracekit.writers import _cuda_profile

    return _cuda_profile.write(False, stream, target, options)


def write_csv(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the log with commas between the values."""
    from tracekit.writers import _cuda_profile

    return _cuda_profile.write(True, stream, target, options)


WRITERS_HERE = (
    Writer("cuda-kvp", "CUDA profiler log, key-value", (".kvp",), write_kvp),
    Writer("cuda-csv", "CUDA profiler log, CSV", (), write_csv),
)

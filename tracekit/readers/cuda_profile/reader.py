"""cuda-profile: logs of the CUDA and OpenCL command line profiler (COMPUTE_PROFILE=1; Paddle's cuda_profiler).

    # CUDA_PROFILE_LOG_VERSION 2.0
    # CUDA_DEVICE 0 Tesla C2050
    method,gputime,cputime,occupancy
    method=[ memcpyHtoD ] gputime=[ 328.800 ] cputime=[ 739.000 ]

A record is a line. Read are LOG_VERSION 1.x and 2.0, key-value and CSV (both have the line of columns), CUDA_ and
OPENCL_ words, and several logs appended to one file. Warnings of the driver (NV_Warning) become notes. gputime, cputime
and timestamp are us; gpustarttimestamp and gpuendtimestamp are hexadecimal ns since the Unix epoch. A CSV row may end
early. Lines may be behind line numbers or the prefix of a logger, or in quotation marks. Mangled names become readable,
and `raw_name` keeps the spelling of the log. `stream` is streamid, `context` and `device` come from the header. `args`
has the columns without a place in the schema, and cputime_ns.

Rows of a log without time stamps are laid end to end, for each context, and for each stream if there is a streamid
column: such times are synthetic, and a note says so. `timestamp` (version 1) is the time of the host's call, on a clock
of unknown zero. The first log of a file sets the clock. Rows of an appended log with another clock are laid behind the
rows before them, with a note, and keep their stamps in `args`.

Not supported: prof_trigger and other settings, which leave no trace in the log.
Sources: real logs of three drivers, NVIDIA's "Compute Command Line Profiler User Guide".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.readers.base import Confidence, Head, Opened, ReadOptions

if TYPE_CHECKING:
    from tracekit.readers.source import Source
    from tracekit.trace import Ledger


def sniff(head: Head) -> Confidence:
    """Return YES for the version line, or for the column line followed by rows if the header was cut away."""
    from tracekit.readers.cuda_profile import _reading

    return _reading.sniff(head)


def read(source: Source, options: ReadOptions, ledger: Ledger) -> Opened:
    """Return the events."""
    from tracekit.readers.cuda_profile import _reading

    return _reading.read(source, options, ledger)

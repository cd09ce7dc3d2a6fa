"""OTF2 archive: the trace format of Score-P, which Vampir and other tools of high-performance computing open.

| in the trace | in the archive |
|---|---|
| the host of an input, where its file names it | a node of the system tree |
| a process; the part of a process on a device | a location group: PROCESS; ACCELERATOR |
| a thread; a stream | a location: CPU_THREAD; ACCELERATOR_STREAM |
| a name and its kind | a region; the kind is its description, its role and paradigm, and a group of regions |
| a row with a duration | enter and leave; below 0: at one time |
| of kind counter, with a value | a metric of a METRIC location of its process |
| any other (marks, memory, flow events) | not written: counted |

Slices that overlap in part are on locations of their own, numbered (2), (3) ... The paradigm is CUDA for device work
and its calls (HIP for calls named hip...), MPI for communication named MPI_..., USER for ranges and operators, and else
unknown. A NUL in a name is written as \\0. `args` and further columns (correlation, bytes, grid ...) are not written.

Times are whole ns after the first event, and the clock has 1,000,000,000 ticks a second. Where the input states its
clock, the archive states the Unix time of its first event. Beside the archive's own files, `tracekit.json` has version,
clock, sources, lanes, ledgers and the number of rows that were not written. The library writes the files; it takes one
call for each enter and leave.

The low-level bindings `_otf2` of the package otf2 are used: `otf2.writer` puts the time of writing into the archive as
that of its first event, and takes twice as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracekit.errors import Option
from tracekit.writers.base import RowStream, WriteOptions, Writer, Written

if TYPE_CHECKING:
    from pathlib import Path


def write(stream: RowStream, target: Path, options: WriteOptions) -> Written:
    """Write the rows by location, once all have come. Raises: MissingExtraError without the package otf2."""
    from tracekit.errors import MissingExtraError

    try:
        import _otf2  # noqa: F401
    except ImportError as err:
        raise MissingExtraError(Option("to", "otf2"), "otf2") from err
    from tracekit.writers.otf2 import _trace

    return _trace.write(stream, target, options)


WRITER = Writer("otf2", "OTF2 archive, a folder (Vampir, Score-P's tools)", (".otf2",), write, folder=True)
WRITERS_HERE = (WRITER,)

"""Hold the reader of Perfetto traces against protobuf's own C library (upb), in pairs, on this machine, now.

    python benchmarks/perfetto_read.py [--rows N] [--rounds N]

Two traces of the same events (`perfetto.py`): what our writer makes of them, and one protobuf object a packet
(`perfetto_objects.py`), as programs with Perfetto's SDK write them. Ours: every column of EVENTS, batch by batch.
The baseline parses the same bytes into protobuf's messages (`ParseFromString`), and looks at none of them.
Both run in this process, in turns; the figure is the median over the rounds of the ratio of CPU seconds.
Target: at most 3 times the baseline. Exit code: 0 met, 1 missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import perfetto
import perfetto_objects

MOST = 3.0


def trace_class() -> Any:
    """Return the class of a trace: packets in field 1."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    packet = perfetto_objects.packet_class().DESCRIPTOR
    file = descriptor_pb2.FileDescriptorProto()
    packet.file.CopyToProto(file)
    made = file.message_type.add(name="Trace").field.add(name="packet", number=1, type=11, label=3)
    made.type_name = ".objects.Packet"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("objects.Trace"))


def ours(path: Path) -> tuple[float, int]:
    """CPU seconds of reading all columns, and the number of rows."""
    from tracekit.formats import READERS
    from tracekit.model.trace import Ledger
    from tracekit.readers.base import ReadOptions
    from tracekit.readers.source import open_source

    begin = time.process_time()
    with open_source(str(path)) as source:
        opened = READERS["perfetto"].read(source, ReadOptions(), Ledger())
        rows = sum(batch.num_rows for batch in opened.batches)
    return time.process_time() - begin, rows


def theirs(data: bytes, trace: Any) -> float:
    """CPU seconds of parsing."""
    begin = time.process_time()
    trace().ParseFromString(data)
    return time.process_time() - begin


def main() -> int:
    """Print the table; the exit code is 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    trace, missed = trace_class(), 0
    with tempfile.TemporaryDirectory(prefix="tracekit-bench-") as folder:
        for name in ("x.pftrace", "x.objects"):
            path = Path(folder) / name
            perfetto.write_case(path, given.rows, streamed=False)
            data = path.read_bytes()
            ours(path)  # imports
            pairs = [(theirs(data, trace), ours(path)) for _ in range(given.rounds)]
            ratio = statistics.median(mine / base for base, (mine, _) in pairs)
            base, mine = (statistics.median(each) for each in zip(*((b, m) for b, (m, _) in pairs), strict=True))
            what = "our writer's" if name == "x.pftrace" else "one object a packet"
            size = f"{len(data) / 1e6:.1f} MB, {pairs[0][1][1]:,} rows"
            met = "yes" if ratio <= MOST else "NO"
            print(f"{what:<20} | {size:<26} | {ratio:.1f}x ({mine:.2f} against {base:.2f} s) | <= {MOST:g}x | {met}")
            missed += ratio > MOST
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""A writer of `nvprof --csv --print-gpu-trace --print-api-trace`: one table of device work and API calls.

It has no threads, no ranges and no events. Starts are in ms and durations in us, each with six decimals, so times are
exact to the nanosecond. The device is that of the other formats, although nvprof itself does not know it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.truth.machine import Rank

_HEADER = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem",'
    '"Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream","Name","Correlation_ID"'
)
_UNITS = "ms,us,,,,,,,,KB,B,KB,GB/s,,,,,,,"


def write(rank: Rank, path: Path, clock: Callable[[int], int] = lambda ns: ns) -> None:
    """Write the table of one rank. clock: from the simulation's time to the time of this rank's clock."""
    rows: list[tuple[int, str]] = []
    for call in rank.calls:
        rows.append(
            (clock(call.start), f'{_times(call.start, call.end, clock)}{"," * 16},"{call.name}",{call.correlation}')
        )
    device = f'"NVIDIA H100 80GB HBM3 ({rank.device})","1"'
    for work in rank.works:
        if work.lost:
            continue
        name = work.name
        if work.kind == "kernel":
            shape = ",".join(map(str, (*work.grid, *work.block)))
            cells = f"{shape},64,16.000000,0,,,,"
        else:
            sizes = f"{work.bytes / 1024:.6f},{work.bytes / max(1, work.end - work.start):.6f}"
            source = work.source or "Device"
            cells = f'{"," * 8},{sizes},"{source}",' + (f'"{work.target}"' if work.kind == "memcpy" else "")
            name = "[CUDA memset]" if work.kind == "memset" else f"[CUDA memcpy {work.name.split()[1]}]"
        times = _times(work.start, work.end, clock)
        rows.append((clock(work.start), f'{times},{cells},{device},"{work.stream}","{name}",{work.correlation}'))
    rows.sort(key=lambda row: row[0])
    head = [f"=={rank.pid}== NVPROF is profiling process {rank.pid}, command: python train.py"]
    head += [f"=={rank.pid}== Profiling application: python train.py", f"=={rank.pid}== Profiling result:"]
    path.write_text("\n".join([*head, _HEADER, _UNITS, *(row for _, row in rows)]) + "\n", encoding="utf-8")


def _times(start: int, end: int, clock: Callable[[int], int]) -> str:
    start, end = clock(start), clock(end)
    return f"{start // 1_000_000}.{start % 1_000_000:06d},{(end - start) // 1000}.{(end - start) % 1000:03d}000"

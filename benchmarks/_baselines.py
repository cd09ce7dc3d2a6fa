"""The timed cases: named baselines, and tracekit's side of each pair. One case a process; run.py starts them.

    python benchmarks/_baselines.py CASE [ARGUMENT]...     prints one line of JSON: wall and CPU seconds, and a check

Setting up (imports, loading what a case takes as given) is not timed. CPU seconds count this process and its children.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

BLOCK = 2 << 20
PIECE = 4 << 20
NEEDED = [
    "Start",
    "Duration",
    "Grid X",
    "Grid Y",
    "Grid Z",
    "Block X",
    "Block Y",
    "Block Z",
    "Size",
    "Device",
    "Stream",
    "Name",
    "Correlation_ID",
]
Timed = Callable[[], dict[str, Any]]


def _blocks(path: str) -> Iterator[bytes]:
    """Blocks of 2 MiB cut at line ends, without nvprof's own lines; one at a time."""
    rest = b""
    with Path(path).open("rb", buffering=0) as file:
        while data := file.read(BLOCK):
            cut = data.rfind(b"\n") + 1
            block, rest = rest + data[:cut], data[cut:]
            if b"\n==" in block or block.startswith(b"=="):
                block = re.sub(rb"(?m)^==.*\n", b"", block)
            yield block
    if rest:
        yield rest


def _parser(path: str) -> tuple[Callable[[bytes], Any], Iterator[bytes]]:
    """A typed pyarrow parse of the columns that a converter needs, and the blocks of data rows."""
    import pyarrow as pa
    import pyarrow.csv as csv

    blocks = _blocks(path)
    first = next(blocks)
    names, _units, first = first.split(b"\n", 2)
    columns = [name.strip('"') for name in names.decode().split(",")]
    text = pa.dictionary(pa.int32(), pa.string())
    whole = dict.fromkeys(NEEDED, pa.int32())
    types = whole | dict.fromkeys(("Start", "Duration", "Size"), pa.float64())
    types |= {"Device": text, "Name": pa.string(), "Correlation_ID": pa.int64()}
    read = csv.ReadOptions(column_names=columns, block_size=1 << 20, use_threads=False)
    convert = csv.ConvertOptions(column_types=types, include_columns=NEEDED)

    def parse(block: bytes) -> Any:
        return csv.read_csv(pa.BufferReader(block), read, convert_options=convert)

    def data() -> Iterator[bytes]:
        yield first
        yield from blocks

    return parse, data()


def floor(path: str, size: str, target: str) -> Timed:
    """The streaming floor: typed parse of the needed columns, and a write of as many bytes as the converter wrote.

    No exact ns, no lanes, no text made: less than any converter must do.
    """
    import pyarrow as pa
    import pyarrow.csv

    pa.set_cpu_count(1)
    _warm(target, size)
    piece = memoryview(os.urandom(1 << 16) * (PIECE >> 16))

    def run() -> dict[str, Any]:
        parse, data = _parser(path)
        rows = sum(parse(block).num_rows for block in data)
        _write_pieces(target, (piece[: min(PIECE, int(size) - at)] for at in range(0, int(size), PIECE)))
        return {"rows": rows}

    return run


def _warm(target: str, size: str) -> None:
    """Have the kernel hold free pages for the output.

    A virtual machine gives free memory back to its host; the first writer of a page then pays seven times as much.
    Which side of a pair that hits is chance, so each side writes and removes a file of that size just before.
    """
    other = target + ".warm"
    piece = memoryview(bytes(PIECE))
    _write_pieces(other, (piece for _ in range(0, int(size), PIECE)))
    Path(other).unlink()
    Path(target).unlink(missing_ok=True)


def _write_pieces(target: str, pieces: Iterator[memoryview]) -> None:
    with Path(target).open("wb", buffering=0) as file:
        for piece in pieces:
            file.write(piece)


def raw_write(source: str, target: str) -> Timed:
    """The bytes that the writer wrote, already in memory, into a file."""
    data = memoryview(Path(source).read_bytes())
    _warm(target, str(len(data)))

    def run() -> dict[str, Any]:
        _write_pieces(target, (data[at : at + PIECE] for at in range(0, len(data), PIECE)))
        return {"bytes": len(data)}

    return run


_LINE = re.compile(
    r"gpustarttimestamp=\[ ([0-9a-f]+) \] gpuendtimestamp=\[ ([0-9a-f]+) \] method=\[ (\S+) \] "
    r"gputime=\[ (\d+)\.(\d{3}) \] cputime=\[ (\d+)\.(\d{3}) \] "
    r"(?:gridsizeX=\[ (\d+) \] gridsizeY=\[ (\d+) \] gridsizeZ=\[ (\d+) \] "
    r"threadblocksizeX=\[ (\d+) \] threadblocksizeY=\[ (\d+) \] threadblocksizeZ=\[ (\d+) \] )?streamid=\[ (\d+) \] "
)


def kvp_loop(path: str) -> Timed:
    """A compiled regex on each line, written for exactly this log, into typed columns."""
    import pyarrow as pa

    names = ["ts_ns", "dur_ns", "cpu_ns", "gx", "gy", "gz", "bx", "by", "bz", "stream"]
    schema = pa.schema([("name", pa.dictionary(pa.int32(), pa.string())), *((name, pa.int64()) for name in names)])

    def run() -> dict[str, Any]:
        batches, rows = [], []
        match = _LINE.match
        with Path(path).open(encoding="utf-8") as lines:
            for line in lines:
                found = match(line)
                if found is None:
                    continue
                start, _, method, us, ns, cpu_us, cpu_ns, gx, gy, gz, bx, by, bz, stream = found.groups()
                shape = (None,) * 6 if gx is None else (int(gx), int(gy), int(gz), int(bx), int(by), int(bz))
                dur, cpu = int(us) * 1000 + int(ns), int(cpu_us) * 1000 + int(cpu_ns)
                rows.append((method, int(start, 16), dur, cpu, *shape, int(stream)))
                if len(rows) == 100_000:
                    batches.append(_batch(rows, schema))
                    rows = []
        if rows:
            batches.append(_batch(rows, schema))
        table = pa.Table.from_batches(batches, schema)
        return _figures(table)

    return run


def _batch(rows: list[tuple[Any, ...]], schema: Any) -> Any:
    import pyarrow as pa

    name, *columns = zip(*rows, strict=True)
    arrays = [pa.array(name).dictionary_encode(), *(pa.array(column, pa.int64()) for column in columns)]
    return pa.record_batch(arrays, schema=schema)


def _figures(table: Any) -> dict[str, Any]:
    import pyarrow.compute as pc

    return {"rows": table.num_rows, "sum_dur_ns": pc.sum(table["dur_ns"]).as_py() or 0}


def parquet_floor(path: str, target: str) -> Timed:
    """Convert the needed columns with pyarrow alone: takes the converter's place when the benchmark tests itself."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)

    def run() -> dict[str, Any]:
        parse, data = _parser(path)
        table = pa.concat_tables([parse(block) for block in data], promote_options="permissive")
        pq.write_table(table, target, compression="zstd")
        return {"rows": table.num_rows}

    return run


# ---- tracekit's side


def convert(path: str, target: str, size: str = "0") -> Timed:
    """tracekit.convert, to what the target's suffix says; size: of the output, where it is known."""
    import tracekit

    work = tracekit.convert
    _warm(target, size)

    def run() -> dict[str, Any]:
        return {"rows": work(path, target, force=True).written.events}

    return run


def read(path: str) -> Timed:
    """tracekit.read: all columns of all events, sorted."""
    import tracekit

    work = tracekit.read

    def run() -> dict[str, Any]:
        return _figures(work(path).events)

    return run


def emit(path: str, target: str, size: str = "0") -> Timed:
    """tracekit.write of events that are in memory already."""
    import tracekit

    trace, work = tracekit.read(path), tracekit.write
    _warm(target, size)

    def run() -> dict[str, Any]:
        return {"rows": work(trace, target, force=True).events}

    return run


def count_slices(path: str) -> Timed:
    """Count the complete events of a Chrome trace: a check, not a benchmark."""

    def run() -> dict[str, Any]:
        count, kept = 0, b""
        with Path(path).open("rb") as file:
            while data := file.read(PIECE):
                piece = kept + data
                found = [match.end() for match in re.finditer(rb'"ph": ?"X"', piece)]
                count += len(found)
                kept = piece[max(len(piece) - 8, found[-1] if found else 0) :]
        return {"rows": count}

    return run


CASES: dict[str, Callable[..., Timed]] = {
    case.__name__: case for case in (floor, raw_write, kvp_loop, parquet_floor, convert, read, emit, count_slices)
}


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def main(arguments: list[str]) -> None:
    import pyarrow as pa

    run = CASES[arguments[0]](*arguments[1:])
    if arguments[0] != "floor":  # also the process that small commands are held against
        pa.array([])  # imports pandas, where it is installed: imports are not timed
    cpu, wall = _cpu(), time.perf_counter()
    checks = run()
    seconds = {"wall": time.perf_counter() - wall, "cpu": _cpu() - cpu}
    print(json.dumps(seconds | checks))


if __name__ == "__main__":
    main(sys.argv[1:])

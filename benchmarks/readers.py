"""Four readers against named baselines: XPlane, Nsight Compute's CSV, rocpd, reports of Nsight Systems.

    python benchmarks/readers.py [--rows N] [--rounds N] [--quick]

`xplane`: a profile of N events in the forms that TensorFlow and JAX write, against protobuf's own C++ (upb), which
parses the same bytes with the whole schema and makes nothing of them. `ncu`: a raw page of --csv against nvprof's CSV,
in rows and MB a second. `rocpd`: kernels, copies and calls in rocprofv3's database against the same ones in that of
Nsight Systems, in rows a second. `nsys-report`: a report of Nsight Systems against the export of the same rows. Each
case runs in a process of its own, on one core, in alternating order; a figure is the median over the rounds of the
ratio of CPU seconds within a round. Exit code: 0 met, 1 missed.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _options

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "sample_traces")]

UPB = """
XSpace = planes 1 *XPlane, errors 2 *string, warnings 3 *string, hostnames 4 *string
XPlane = id 1 int64, name 2 string, lines 3 *XLine, event_metadata 4 *EventEntry, stat_metadata 5 *StatEntry,
    stats 6 *XStat
EventEntry = key 1 int64, value 2 XEventMetadata
StatEntry = key 1 int64, value 2 XStatMetadata
XLine = id 1 int64, name 2 string, timestamp_ns 3 int64, events 4 *XEvent, duration_ps 9 int64, display_id 10 int64,
    display_name 11 string
XEvent = metadata_id 1 int64, offset_ps 2 int64, num_occurrences 5 int64, duration_ps 3 int64, stats 4 *XStat
XStat = metadata_id 1 int64, double_value 2 double, uint64_value 3 uint64, int64_value 4 int64, str_value 5 string,
    bytes_value 6 bytes, ref_value 7 uint64
XEventMetadata = id 1 int64, name 2 string, metadata 3 bytes, display_name 4 string, stats 5 *XStat, child_id 6 *int64
XStatMetadata = id 1 int64, name 2 string, description 3 string
"""
"""xplane.proto of tsl/profiler, all fields. Its maps are repeated entries here, which is the same on the wire."""


def xplane(path: Path, rows: int) -> None:
    """Write a profile: a quarter of the events on GPUs with launches, a quarter of a TPU's ops, half on the host."""
    import _xplane as made

    draw = random.Random(rows)
    host, gpu, tpu = made.Plane(0, "/host:CPU"), made.Plane(1, "/device:GPU:0"), made.Plane(2, "/device:TPU:0")
    lines: dict[tuple[Any, int, str], list[Any]] = {}
    at = 0
    names = [f"model/layer_{n}/dense/MatMul:MatMul" for n in range(400)]
    ops = [f"%fusion.{n} = f32[8,128]{{1,0}} fusion(f32[8,128] %p)" for n in range(200)]
    for name in ops:
        tpu.name(name, name[1:12], hlo_category="fusion", flops=4096, bytes_accessed=65_536)
    shape = "&regs:38 static_shared:1024 dynamic_shared:0 grid:{},1,1 block:256,1,1 occ_pct:50"
    for n in range(rows // 4):
        at += draw.randrange(1_000_000, 90_000_000)
        length, name = draw.randrange(700_000, 90_000_000), draw.choice(names)
        own = {"group_id": n // 1000, "is_eager": 0}
        calls = lines.setdefault((host, 10 + n % 8, f"tf_Compute/{n % 8}"), [])
        calls.append(host.event(name, at - 5_000_000, 4_000_000, **own))
        more = {"region_type": "temp", "bytes_allocated": draw.randrange(1 << 33), "addr": draw.randrange(1 << 46)}
        calls.append(host.event("MemoryAllocation", at - 4_000_000, 0, id=3, fragmentation=draw.random(), **more))
        kernel = {"correlation_id": n, "kernel_details": shape.format(draw.randrange(1, 60)), "group_id": n // 1000}
        lines.setdefault((gpu, 24, "Stream #24(Compute)"), []).append(gpu.event(name, at, length, **kernel))
        op = {"device_offset_ps": at + 1000, "device_duration_ps": length - 77}
        lines.setdefault((tpu, 3, "XLA Ops"), []).append(tpu.event(draw.choice(ops), at + 78, length, **op))
    for (plane, number, name), events in lines.items():
        plane.line(number, name, 237_916, events)
    path.write_bytes(made.message(*(plane.data() for plane in (host, gpu, tpu))))


def ncu(path: Path, rows: int) -> None:
    """Write a raw page of launches with 250 metrics each."""
    draw = random.Random(rows)
    metrics = [f"sm__inst_executed_pipe_{n}.sum" for n in range(200)]
    metrics += [f"sm__pipe_{n}.avg.pct_of_peak_sustained_active" for n in range(50)]
    first = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size"]
    first += ["Grid Size", "Device", "CC", "gpu__time_duration.sum"]
    units = ["", *[""] * 10, "ns", *["inst"] * 200, *["%"] * 50]
    with path.open("w", encoding="utf-8") as file:
        for cells in ([*first, *metrics], units):
            file.write(",".join(f'"{cell}"' for cell in cells) + "\n")
        for n in range(max(rows // 251, 8)):
            cells = [str(n), "4242", "train", "127.0.0.1", f"gemm_{n % 40}(float *)", "1", "7", "(32, 32, 1)"]
            cells += ["(64, 64, 1)", "0", "9.0", f"{draw.randrange(1000, 90_000):,}"]
            cells += [f"{draw.randrange(1 << 30):,}" for _ in range(200)]
            cells += [f"{draw.random() * 100:.2f}" for _ in range(50)]
            file.write(",".join(f'"{cell}"' for cell in cells) + "\n")


def nvprof(path: Path, rows: int) -> None:
    """Write nvprof's CSV."""
    command = [sys.executable, str(HERE / "generate.py"), str(path.parent), "--rows", str(rows), "--kind", "nvprof-csv"]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    Path(made.stdout.strip()).rename(path)


def nsys(path: Path, rows: int) -> None:
    """Write a database of Nsight Systems: N kernels, N/12 copies, N calls."""
    import sqlite_read

    sqlite_read.make("nsys", path, rows)


def rocpd(path: Path, rows: int) -> None:
    """Write a database of rocprofv3: N kernels, N/12 copies, their calls, no counters."""
    import sqlite3

    import _amd

    db = sqlite3.connect(path)
    db.executescript("pragma journal_mode = off; pragma synchronous = off;")
    process, draw = _amd.Process(db, 4242), random.Random(rows)
    for n in range(rows):
        process.kernel(1 + n % 2, 1 + n % 2, draw.randrange(700, 90_000), (draw.randrange(1, 4000), 1, 1))
        if n % 12 == 0:
            process.copy(0, 1, 4 * n + 4)
    db.execute(f'delete from "rocpd_pmc_event{process.ending}"')
    db.commit()
    db.close()


def nsys_report(path: Path, rows: int) -> None:
    """Write a report of Nsight Systems with the rows of the database of the same size: calls, kernels, copies."""
    import sqlite3

    import _nsys_reports as made
    import pyarrow as pa
    from _protobuf import message

    database = path.with_name(path.name + ".sqlite")
    nsys(database, rows)
    codec = pa.Codec("lz4_raw")
    tables, strings = {}, []
    with sqlite3.connect(database) as db:
        db.row_factory = sqlite3.Row
        strings = [""] + [text for (text,) in db.execute("select value from StringIds order by id")]
        for table in ("RUNTIME", "KERNEL", "MEMCPY"):
            tables[table] = db.execute(f"select * from CUPTI_ACTIVITY_KIND_{table}")
        blocks, events, count = [], [], 0
        for number in range(1, rows + 1):
            events.append((1, made.call_event(dict(next(tables["RUNTIME"])))))
            events.append((1, made.work_event("KERNEL", dict(next(tables["KERNEL"])))))
            if number % 12 == 0:
                events.append((1, made.work_event("MEMCPY", dict(next(tables["MEMCPY"])))))
            if len(events) > 7000 or number == rows:
                blocks.append(made.block(message(*events), lambda data: codec.compress(data, asbytes=True)))
                count, events = count + len(events), []
    db.close()
    database.unlink()
    head = message((1, count), (3, len(strings)), (5, 0), (9, "lz4"), (15, 0))
    first = made.delimited(message((17, 0), (18, 1 << 40))) + made.delimited(head)
    texts = message(*((1, text) for text in strings))
    path.write_bytes(made.container("2022", "2024.6.2.225", first, blocks, texts, made.delimited(b"")))


MAKERS: dict[str, Callable[[Path, int], None]] = {
    "xplane.pb": xplane,
    "ncu.csv": ncu,
    "nvprof.csv": nvprof,
    "rocpd.db": rocpd,
    "nsys.sqlite": nsys,
    "run.nsys-rep": nsys_report,
}


def upb(path: Path) -> int:
    """Parse an XSpace with protobuf's own C++. Return its events."""
    space = _class().FromString(path.read_bytes())
    return sum(len(line.events) for plane in space.planes for line in plane.lines)


def _class() -> Any:
    """Return the class of XSpace, made of UPB."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.internal import api_implementation

    if api_implementation.Type() != "upb":
        raise SystemExit(f"protobuf runs as {api_implementation.Type()}, not as upb")
    file = descriptor_pb2.FileDescriptorProto(name="bench.proto", package="bench", syntax="proto3")
    for line in UPB.strip().replace(",\n    ", ", ").splitlines():
        name, fields = line.split(" = ")
        message = file.message_type.add(name=name)
        for words in fields.split(", "):
            field, number, kind = words.split()
            one = message.field.add(name=field, number=int(number), label=3 if kind[0] == "*" else 1)
            kind = kind.lstrip("*")
            if kind[0] == "X" or kind.endswith("Entry"):
                one.type, one.type_name = 11, f".bench.{kind}"
            else:
                one.type = {"double": 1, "int64": 3, "uint64": 4, "string": 9, "bytes": 12}[kind]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClassesForFiles([file.name], pool)["bench.XSpace"]


def read(path: Path) -> int:
    """Read a file in batches. Return its rows."""
    from tracekit.formats import READERS
    from tracekit.model.trace import Ledger
    from tracekit.readers.base import ReadOptions
    from tracekit.readers.sniff import identify
    from tracekit.readers.source import open_source

    with open_source(str(path)) as source:
        opened = identify(source, READERS.values()).read(source, ReadOptions(), Ledger())
        return sum(batch.num_rows for batch in opened.batches)


def case(name: str, path: str) -> None:
    """Run one case; what a first reading imports is not timed."""
    run = {"upb": upb, "read": read}[name]
    small = Path(path).with_name("small-" + Path(path).name)
    run(small if small.exists() else Path(path))
    begun = time.process_time()
    rows = run(Path(path))
    cpu = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": cpu, "rows": rows, "bytes": Path(path).stat().st_size, "rss_mb": peak}))


def timed(name: str, path: Path) -> dict[str, Any]:
    """Run a case in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--case", name, str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} {path.name}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rounds(one: tuple[str, Path], other: tuple[str, Path], count: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the costs of two cases, round by round; the order turns round."""
    costs = []
    for number in range(count):
        first, second = timed(*(other if number % 2 else one)), timed(*(one if number % 2 else other))
        costs.append((second, first) if number % 2 else (first, second))
    return costs


def rate(cost: dict[str, Any], key: str) -> float:
    """Return rows or bytes a CPU second."""
    return float(cost[key] / cost["cpu"])


def main() -> int:
    given = _options.given(__doc__, case, rows=400_000)
    if given is None:
        return 0
    met = True

    def show(what: str, ratio: float, figures: str, *, most: float = 0.0, least: float = 0.0) -> None:
        nonlocal met
        good = ratio <= most if most else ratio >= least
        met = met and (good or given.quick)
        target = f"<= {most:g}x" if most else f">= {least:g}x"
        print(f"{what}: {ratio:.2f}x ({figures}), target {target}: {'-' if given.quick else 'yes' if good else 'NO'}")

    with tempfile.TemporaryDirectory(prefix="tracekit-bench-") as folder:
        files = {name: Path(folder) / name for name in MAKERS}
        for name, make in MAKERS.items():
            make(files[name], given.rows)
            make(files[name].with_name("small-" + name), 2000)
        costs = rounds(("read", files["xplane.pb"]), ("upb", files["xplane.pb"]), given.rounds)
        ratio = statistics.median(mine["cpu"] / theirs["cpu"] for mine, theirs in costs)
        mine, theirs = costs[-1]
        peak = f"peak RSS {mine['rss_mb']:.0f} against {theirs['rss_mb']:.0f} MB"
        what = f"XPlane, {mine['rows']:,} events, {mine['bytes'] / 1e6:.1f} MB: ours / upb"
        show(what, ratio, f"{mine['cpu']:.2f} against {theirs['cpu']:.2f} s CPU; {peak}", most=3)
        for what, one, other, least in (
            ("ncu --csv --page raw / nvprof-csv", "ncu.csv", "nvprof.csv", 0.8),
            ("rocpd / nsys-sqlite", "rocpd.db", "nsys.sqlite", 0.8),
            # The export is columns already; a report is unpacked, and its events are taken apart.
            ("nsys-report / nsys-sqlite", "run.nsys-rep", "nsys.sqlite", 0.7),
        ):
            costs = rounds(("read", files[one]), ("read", files[other]), given.rounds)
            ratio = statistics.median(rate(mine, "rows") / rate(theirs, "rows") for mine, theirs in costs)
            mine, theirs = costs[-1]
            figures = f"{rate(mine, 'rows'):,.0f} against {rate(theirs, 'rows'):,.0f} rows/s"
            figures += f"; {rate(mine, 'bytes') / 1e6:.1f} against {rate(theirs, 'bytes') / 1e6:.1f} MB/s"
            show(f"{what}, rows a second", ratio, figures, least=least)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

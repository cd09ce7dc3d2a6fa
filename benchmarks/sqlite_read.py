"""Reading nvprof's and Nsight Systems' databases against `sqlite3` fetchmany into columns.

    python benchmarks/sqlite_read.py [--rows N] [--rounds N] [--quick]

A database of N kernels, N/12 copies and as many calls is made from a seed. The baseline selects just the columns that
our reader selects of just these tables, 65,536 rows at a time with `fetchmany`, into numpy columns; it looks at no row,
names nothing and makes no batch. Ours makes whole EVENTS batches of them. Each case runs in a process of its own, on
one core, in alternating order; the figure is the median over the rounds of the ratio of CPU seconds within a round.
Target: the baseline takes at least 2.5 times as long. Exit code: 0 met, 1 missed.
"""

from __future__ import annotations

import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path
from typing import Any

import _options

STEP = 1 << 16
TARGET = 2.5
C = "CUPTI_ACTIVITY_KIND_"
FORMATS = ("nvprof", "nsys")
NVPROF = f"""
create table StringTable(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL UNIQUE);
create table Version(version INTEGER); insert into Version values (11);
create table {C}CONCURRENT_KERNEL(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, start INT NOT NULL, end INT NOT NULL,
 deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL, correlationId INT NOT NULL, gridX INT NOT NULL,
 gridY INT NOT NULL, gridZ INT NOT NULL, blockX INT NOT NULL, blockY INT NOT NULL, blockZ INT NOT NULL,
 registersPerThread INT NOT NULL, staticSharedMemory INT NOT NULL, dynamicSharedMemory INT NOT NULL,
 localMemoryPerThread INT NOT NULL, localMemoryTotal INT NOT NULL, name INT NOT NULL, gridId INT NOT NULL);
create table {C}MEMCPY(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, start INT NOT NULL, end INT NOT NULL,
 deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL, correlationId INT NOT NULL,
 copyKind INT NOT NULL,
 srcKind INT NOT NULL, dstKind INT NOT NULL, flags INT NOT NULL, bytes INT NOT NULL);
create table {C}RUNTIME(_id_ INTEGER PRIMARY KEY AUTOINCREMENT, cbid INT NOT NULL, start INT NOT NULL, end INT NOT NULL,
 processId INT NOT NULL, threadId INT NOT NULL, correlationId INT NOT NULL, returnValue INT NOT NULL);
"""
NSYS = f"""
create table StringIds(id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
create table {C}KERNEL(start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
 contextId INTEGER NOT NULL,
 streamId INTEGER NOT NULL, correlationId INTEGER, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL,
 gridZ INTEGER NOT NULL,
 blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, registersPerThread INTEGER NOT NULL,
 staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER NOT NULL,
 localMemoryTotal INTEGER NOT NULL, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, globalPid INTEGER);
create table {C}MEMCPY(start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
 contextId INTEGER NOT NULL,
 streamId INTEGER NOT NULL, correlationId INTEGER, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER,
 bytes INTEGER NOT NULL, globalPid INTEGER);
create table {C}RUNTIME(start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
 correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
"""
NAMES = [
    f"void at::native::vectorized_elementwise_kernel<{n}, at::native::Functor{n}<float>>(int, float, float*)"
    for n in range(200)
]
CALLS = ["cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaStreamSynchronize_v3020"]
PID = 4242


def make(form: str, path: Path, rows: int) -> None:
    """Write the database; the same one each time."""
    draw = random.Random(rows)
    db = sqlite3.connect(path)
    db.executescript("pragma journal_mode = off; pragma synchronous = off;" + (NVPROF if form == "nvprof" else NSYS))
    strings = "StringTable" if form == "nvprof" else "StringIds"
    db.executemany(f"insert into {strings} values (?, ?)", enumerate([*NAMES, *CALLS], 1))
    kernels, copies, calls = [], [], []
    at, first = 1_600_000_000_000_000_000 if form == "nvprof" else 0, form == "nvprof"
    for n in range(1, rows + 1):
        at += draw.randrange(200, 9000)
        dur, name = draw.randrange(700, 90_000), draw.randrange(1, 201)
        grid = (draw.randrange(1, 4000), draw.randrange(1, 8), 1, 32 << draw.randrange(5), 1, 1, draw.randrange(8, 128))
        work = (at, at + dur, n & 1, 1, 7 + n % 3, n)
        tail = (0, 0, 0, 78_643_200, name) + ((n,) if first else (name, PID << 24))
        kernels.append(((None,) if first else ()) + work + grid + tail)
        call = (at - 5000, at - 4000)
        if first:
            calls.append((None, 211, *call, PID, -41_998_592, n, 0))
        else:
            calls.append((*call, 0, PID << 24 | PID, n, 201, 0))
        if n % 12 == 0:
            more = (1 + n % 2, 1, 3, 1, 4 * n) if first else (1 + n % 2, 0, 2, 4 * n, PID << 24)
            copies.append(((None,) if first else ()) + work + more)
        if len(kernels) == STEP or n == rows:
            tables = (
                (C + ("CONCURRENT_KERNEL" if first else "KERNEL"), kernels),
                (C + "MEMCPY", copies),
                (C + "RUNTIME", calls),
            )
            for table, found in tables:
                if found:
                    db.executemany(f"insert into {table} values ({', '.join('?' * len(found[0]))})", found)
                    found.clear()
    db.commit()
    db.close()


def fetchmany(path: str) -> dict[str, Any]:
    """The baseline: all columns but the keys and gridId into numpy columns."""
    import numpy as np

    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    tables = [r[0] for r in db.execute(f"select name from sqlite_master where name like '{C}%'")]
    rows = total = 0
    for table in tables:
        names = [r[1] for r in db.execute(f"pragma table_info({table})")]
        names = [n for n in names if n not in ("_id_", "gridId")]
        wanted = ", ".join(f'"{name}"' for name in names)
        cursor = db.execute(f"select {wanted} from {table}")
        while found := cursor.fetchmany(STEP):
            flat = np.fromiter(chain.from_iterable(found), np.int64, len(found) * len(names))
            columns = np.ascontiguousarray(flat.reshape(-1, len(names)).T)
            rows += len(found)
            total += int((columns[names.index("end")] - columns[names.index("start")]).sum())
    return {"rows": rows, "dur_ns": total}


def group_by(path: str) -> dict[str, Any]:
    """What a user would type instead of a view of kernels: count, sum, mean, least and most of each name, in SQL."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    figures = (
        "count(*), sum(k.end - k.start) as total, avg(k.end - k.start), min(k.end - k.start), max(k.end - k.start)"
    )
    found = db.execute(
        f"select s.value, {figures} from {C}KERNEL k join StringIds s on s.id = k.demangledName "
        "group by k.demangledName order by total desc"
    ).fetchall()
    return {"rows": sum(row[1] for row in found), "dur_ns": sum(row[2] for row in found)}


def ours(path: str) -> dict[str, Any]:
    """Our reader: whole EVENTS batches."""
    import pyarrow.compute as pc

    from tracekit.formats import READERS
    from tracekit.model.trace import Ledger
    from tracekit.readers.base import ReadOptions
    from tracekit.readers.sniff import identify
    from tracekit.readers.source import open_source

    rows = total = 0
    with open_source(path) as source:
        opened = identify(source, READERS.values()).read(source, ReadOptions(), Ledger())
        for batch in opened.batches:
            rows += batch.num_rows
            total += pc.sum(batch.column("dur_ns")).as_py() or 0
    return {"rows": rows, "dur_ns": total}


def timed(name: str, path: Path) -> dict[str, Any]:
    """Run a case in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--case", name, str(path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def case(name: str, path: str) -> None:
    if name == "group_by":  # timed as a whole process, by run.py
        print(json.dumps(group_by(path)))
        return
    import adbc_driver_sqlite.dbapi  # noqa: F401 - imports are not timed
    import numpy as np  # noqa: F401

    import tracekit.readers  # noqa: F401

    run = {"fetchmany": fetchmany, "ours": ours}[name]
    cpu, wall = time.process_time(), time.perf_counter()
    checks = run(path)
    print(json.dumps({"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall} | checks))


def pairs(form: str, path: Path, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Return the costs of both cases, round by round; the order turns round. Raises: SystemExit where they disagree."""
    costs: dict[str, list[dict[str, Any]]] = {"ours": [], "fetchmany": []}
    for number in range(rounds):
        found = {name: timed(name, path) for name in (list(costs) if number % 2 else list(costs)[::-1])}
        if len({(one["rows"], one["dur_ns"]) for one in found.values()}) > 1:
            raise SystemExit(f"{form}: the cases read different rows: {found}")
        for name, cost in found.items():
            costs[name].append(cost)
    return costs


def main() -> int:
    given = _options.given(__doc__, case, rows=1_000_000)
    if given is None:
        return 0
    met = True
    for form in FORMATS:
        with tempfile.TemporaryDirectory(prefix="tracekit-bench-") as folder:
            path = Path(folder) / f"{form}.sqlite"
            make(form, path, given.rows)
            costs = pairs(form, path, given.rounds)
            ratios = [theirs["cpu"] / mine["cpu"] for mine, theirs in zip(*costs.values(), strict=True)]
            found = {name: each[-1] for name, each in costs.items()}
            ratio = statistics.median(ratios)
            verdict = "-" if given.quick else "yes" if ratio >= TARGET else "NO"
            met = met and verdict != "NO"
            figures = ", ".join(f"{name} {f['cpu']:.2f} s CPU" for name, f in sorted(found.items()))
            what = f"{form}, {found['ours']['rows']:,} rows: fetchmany / ours {ratio:.2f}x ({figures})"
            print(f"{what}, target >= {TARGET}x: {verdict}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

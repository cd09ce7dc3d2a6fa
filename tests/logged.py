"""A simulated program that marks ranges, the log that the recorder writes of it, and the trace of another profiler."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tracekit.recorder import log_format as log

EPOCH = 1_790_000_000_000_000_000
PERF = 5_000_000_000_000
PID, TID, OTHER_TID = 4242, 4242, 4250
US, MS = 1_000, 1_000_000


@dataclass(frozen=True)
class Range:
    """A range of the simulated program: ns after its start."""

    name: str
    start: int
    end: int
    tid: int = TID
    kind: str | None = None


def program(seed: int = 1, steps: int = 20) -> list[Range]:
    """A loop of uneven steps with a block in each, on one thread, and a loader on another."""
    rng = random.Random(seed)
    out, now = [], 10 * MS
    for _ in range(steps):
        begin = now
        block = begin + rng.randrange(100 * US, 900 * US)
        end = block + rng.randrange(2 * MS, 9 * MS)
        out.append(Range("block", block, end))
        out.append(Range("load", begin + 20 * US, end - 300 * US, OTHER_TID, "dataloader"))
        now = end + rng.randrange(200 * US, 900 * US)
        out.append(Range("loop", begin, now - 50 * US))
    return sorted(out, key=lambda r: (r.start, -r.end))


def write_log(
    path: Path,
    ranges: Iterable[Range],
    *,
    pid: int = PID,
    host: str | None = "node1",
    rank: int | None = None,
    epoch: int = EPOCH,
    drift_ns: int = 0,
    steps: bool = False,
    tid: int = TID,
    ident: int | None = None,
) -> Path:
    """Write the log of a program; the wall clock at its start is `epoch`."""
    lines = [
        log.head_line(tracekit="1", pid=pid, perf_ns=PERF, epoch_ns=epoch, host=host, rank=rank, process="train.py"),
        log.thread_line(index=0, tid=tid, name="MainThread", ident=ident),
        log.thread_line(index=1, tid=OTHER_TID, name="loader"),
    ]
    numbers: dict[str, int] = {}
    items: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    last = 0
    for r in ranges:
        if r.name not in numbers:
            numbers[r.name] = len(numbers) + 1
            lines.append(log.name_line(name_id=numbers[r.name], name=r.name, kind=r.kind))
        items[int(r.tid == OTHER_TID)] += [(PERF + r.start, numbers[r.name]), (PERF + r.end, -numbers[r.name])]
        last = max(last, r.end)
    for thread, found in items.items():
        flat = [x for t, number in sorted(found, key=lambda item: (item[0], item[1])) for x in (number, t)]
        if flat:
            lines.append(log.range_line(thread=thread, items=flat))
    if steps:
        lines.append(log.name_line(name_id=900, name="step", kind="step"))
        loops = [r for r in ranges if r.name == "loop"]
        lines.append(log.step_line(items=[x for n, r in enumerate(loops) for x in (n, PERF + r.start, 0)]))
        spans = [x for n, r in enumerate(loops) for x in (900, PERF + r.start, n + 1, 0, -900, PERF + r.end, n + 1, 0)]
        lines.append(log.async_line(items=spans))
    lines.append(log.clock_line(perf_ns=PERF + last, epoch_ns=epoch + last + drift_ns, uncertainty_ns=100))
    lines.append(log.end_line(perf_ns=PERF + last, items=0))
    path.write_bytes(b"".join(log.encode(line) for line in lines))
    return path


def write_kineto(
    path: Path,
    ranges: Iterable[Range],
    *,
    pid: int = PID,
    host: str | None = "node1",
    rank: int | None = None,
    epoch: int | None = EPOCH,
    extra: Iterable[dict[str, object]] = (),
) -> Path:
    """Write a Kineto trace with these ranges as annotations, and an operator in each; epoch None: no wall clock."""
    events: list[dict[str, object]] = []
    for r in ranges:
        common = {"ph": "X", "pid": pid, "tid": r.tid}
        args = {"External id": len(events)}
        times = {"ts": (r.start - 3 * US) / 1000, "dur": (r.end - r.start + 8 * US) / 1000}
        events.append({**common, "cat": "user_annotation", "name": r.name, **times, "args": args})
        inner = {"ts": (r.start + 30 * US) / 1000, "dur": 20.0}
        events.append({**common, "cat": "cpu_op", "name": "aten::mm", **inner, "args": args})
    whole: dict[str, object] = {"schemaVersion": 1, "deviceProperties": []}
    if host is not None:
        whole["host_name"] = host
    if rank is not None:
        whole["distributedInfo"] = {"rank": rank}
    if epoch is not None:
        whole["baseTimeNanoseconds"] = epoch
    path.write_text(json.dumps({**whole, "traceEvents": [*events, *extra]}))
    return path


def shifted(ranges: Iterable[Range], by: int) -> list[Range]:
    return [replace(r, start=r.start + by, end=r.end + by) for r in ranges]


def write_nsys(path: Path, ranges: Iterable[Range], *, host: str = "node1", start_ns: int = EPOCH) -> Path:
    """Write an export of Nsight Systems: the ranges in NVTX, and a kernel that each block launches."""
    db = sqlite3.connect(path)
    db.executescript("""
        create table StringIds (id integer, value text);
        create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer);
        create table TARGET_INFO_SYSTEM_ENV (name text, value text);
        create table NVTX_EVENTS (start integer, end integer, eventType integer, text text, globalTid integer);
        create table CUPTI_ACTIVITY_KIND_RUNTIME (start integer, end integer, eventClass integer, globalTid integer,
            correlationId integer, nameId integer);
        create table CUPTI_ACTIVITY_KIND_KERNEL (start integer, end integer, deviceId integer, contextId integer,
            streamId integer, correlationId integer, globalPid integer, demangledName integer, shortName integer);
        insert into StringIds values (1, 'cudaLaunchKernel_v7000'), (2, 'gemm');
    """)
    db.execute("insert into TARGET_INFO_SESSION_START_TIME values (?)", (start_ns,))
    db.execute("insert into TARGET_INFO_SYSTEM_ENV values ('Hostname', ?)", (host,))
    process = PID << 24
    for number, r in enumerate(ranges, 1):
        thread = process | r.tid
        db.execute("insert into NVTX_EVENTS values (?, ?, 59, ?, ?)", (r.start - 300, r.end + 200, r.name, thread))
        if r.name == "block":
            call = (r.start + 50 * US, r.start + 60 * US, 0, thread, number, 1)
            db.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?, ?, ?, ?, ?, ?)", call)
            work = (r.start + 70 * US, r.start + 70 * US + number * US, 0, 1, 7, number, process, 2, 2)
            db.execute("insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, ?, ?, ?, ?, ?, ?, ?)", work)
    db.commit()
    db.close()
    return path

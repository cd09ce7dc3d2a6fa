"""Nothing is worse than linear: the calls that a command makes, counted at n, 2n and 4n of whatever can be many."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from doors.readers import NvprofHeader, OpenTable, ProfiledRun, Table
from support import run_command as run

FEW = 60
Json = dict[str, object]


def slice_(i: int, **more: object) -> Json:
    # 50 us apart: even the fewest are idle for longer than 1 ms, from which on idle time is a finding.
    return {"ph": "X", "name": "k", "cat": "cpu_op", "ts": i * 100, "dur": 50, "pid": 1, "tid": 1} | more


def kernel(i: int, device: int = 0, stream: int = 7, **more: object) -> Json:
    args = {"device": device, "stream": stream, "correlation": i}
    return slice_(i, cat="kernel", pid=device, tid=stream, args=args) | more


def point(ph: str, i: int, ts: int, **more: object) -> Json:
    return {"ph": ph, "id": i, "name": "f", "cat": "f", "ts": ts, "pid": 1, "tid": 1} | more


def collective(i: int) -> Json:
    args = {"device": 0, "stream": 7, "correlation": i, "Collective name": "allreduce", "Process Group Name": f"{i}"}
    return kernel(i, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL", args=args)


def trace(events: list[Json]) -> str:
    return json.dumps({"traceEvents": events})


def nvprof(columns: list[str], units: list[str], rows: list[list[str]]) -> str:
    lines = [",".join(f'"{cell}"' for cell in row) for row in (columns, units, *rows)]
    return "==1== NVPROF is profiling process 1, command: x\n==1== Profiling result:\n" + "\n".join(lines) + "\n"


_TRACE = ["Start", "Duration", "Device", "Context", "Stream", "Name"]
_UNITS = ["ms", "us", "", "", "", ""]
MANY: dict[str, Callable[[int], str]] = {
    "events": lambda n: trace([slice_(i) for i in range(n)]),
    "threads": lambda n: trace([slice_(i, tid=i) for i in range(n)]),
    "processes": lambda n: trace([slice_(i, pid=i) for i in range(n)]),
    "streams": lambda n: trace([kernel(i, stream=i) for i in range(n)]),
    "devices": lambda n: trace([kernel(i, device=i) for i in range(n)]),
    "names": lambda n: trace([slice_(i, name=f"k{i}") for i in range(n)]),
    "kernel names": lambda n: trace([kernel(i, name=f"void k{i}<float>(int)") for i in range(n)]),
    "categories": lambda n: trace([slice_(i, cat=f"c{i}") for i in range(n)]),
    "counters": lambda n: trace([slice_(i, ph="C", name=f"c{i}", args={"v": i}) for i in range(n)]),
    "series of a counter": lambda n: trace([slice_(0, ph="C", args={f"s{i}": i for i in range(n)}), slice_(1)]),
    "keys of args": lambda n: trace([slice_(i, args={f"a{i}": i}) for i in range(n)]),
    "keys of one event": lambda n: trace([slice_(0, args={f"a{i}": i for i in range(n)}), slice_(1)]),
    "depth of ranges": lambda n: trace([slice_(i, ts=i, dur=2 * (n - i)) for i in range(n)]),
    "open ranges": lambda n: trace([slice_(i, ph="B") for i in range(n)] + [slice_(n + i, ph="E") for i in range(n)]),
    "overlaps": lambda n: trace([slice_(i, ts=i, dur=n + 1) for i in range(n)]),
    "arrows to one slice": lambda n: trace(
        [slice_(0, dur=9 * n)] + [point(ph, i, at, bp="e") for i in range(n) for ph, at in (("s", 1), ("f", 2))]
    ),
    "points of one arrow": lambda n: trace(
        [slice_(i) for i in range(n)] + [point("s" if not i else "t", 1, i * 100 + 1) for i in range(n)]
    ),
    "async ranges": lambda n: trace([point(ph, i, i + n * (ph == "e")) for i in range(n) for ph in "be"]),
    "steps": lambda n: trace(
        [e for i in range(n) for e in (slice_(i, cat="user_annotation", name=f"ProfilerStep#{i}", dur=90), slice_(i))]
    ),
    "collectives": lambda n: trace([collective(i) for i in range(n)]),
    "kernels of a launch": lambda n: trace(
        [slice_(0, cat="cuda_runtime", name="cudaLaunchKernel", args={"correlation": 5})]
        + [kernel(i, args={"device": 0, "stream": 7, "correlation": 5}) for i in range(1, n)]
    ),
    "launches and devices": lambda n: trace(
        [
            e
            for i in range(n)
            for e in (
                slice_(i, cat="cuda_runtime", name="cudaLaunchKernel", args={"correlation": i + 1}),
                kernel(i, args={"device": i, "stream": 7, "correlation": i + 1}),
            )
        ]
    ),
    "threads that launch and wait": lambda n: trace(
        [
            e
            for i in range(2 * n)  # few threads are cut one by one
            for e in (
                slice_(i, cat="cuda_runtime", name="cudaLaunchKernel", tid=i, args={"correlation": i + 1}),
                slice_(i, cat="cuda_runtime", name="cudaStreamSynchronize", tid=i, ts=i * 10 + 300, dur=30),
                kernel(i, args={"device": 0, "stream": 7, "correlation": i + 1}),
            )
        ]
    ),
    "names of threads": lambda n: trace(
        [slice_(0)]
        + [{"ph": "M", "name": "thread_name", "pid": 1, "tid": i, "args": {"name": f"t{i}"}} for i in range(n)]
    ),
    "columns of a table": lambda n: nvprof(
        [*_TRACE, *(f"c{i}" for i in range(n))],
        _UNITS + [""] * n,
        [["1.0", "2.0", "GPU (0)", "1", "7", "k"] + ["1"] * n],
    ),
    "devices of a table": lambda n: nvprof(
        _TRACE, _UNITS, [[f"{i}.0", "1.0", f"GPU {i} ({i})", "1", "7", f"k{i}"] for i in range(n)]
    ),
}


def calls(work: Callable[[], object]) -> int:
    """Return how many functions are called, of Python and of C."""
    count = 0

    def see(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # else what was garbage before is counted; to collect it first took half of the time of this file
    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


@pytest.mark.parametrize("many", MANY)
@pytest.mark.parametrize("command", ["summary", "convert"])
def test_four_times_as_many_take_four_times_the_calls(command: str, many: str, tmp_path: Path) -> None:
    more = ["--all"] if command == "summary" else ["-o", tmp_path / "out.json", "--force"]
    found = []
    for times in (1, 2, 4):
        path = tmp_path / f"{times}.{'csv' if 'table' in many else 'json'}"
        path.write_text(MANY[many](FEW * times))
        if times == 1:
            run(command, path, *more, code=None)  # loads modules
        found.append(calls(lambda path=path: run(command, path, *more, code=None)))
    one, two, four = found
    assert four - two <= 2.3 * (two - one) + 0.05 * one, found


def test_the_unit_of_a_column_is_found_without_a_search() -> None:
    class Name(str):
        compared = 0
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, str(other))

        __hash__ = str.__hash__

    def compared(count: int) -> int:
        columns = tuple(Name(f"c{i}") for i in range(count))
        table = OpenTable(NvprofHeader(Table.TRACE, columns), ProfiledRun(0, None, {}), "", 1, units=("ms",) * count)
        Name.compared = 0
        assert {table.unit(Name(column)) for column in columns} == {"ms"}
        return Name.compared

    assert compared(400) <= 2.5 * compared(200)

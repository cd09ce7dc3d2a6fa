"""A copy call that returns after its own copy: it issues the copy, and then it waits."""

from __future__ import annotations

from typing import Any

import pytest
from views.tables import trace

from tracekit.analysis.path_graph import PathPart
from tracekit.index import owners as _owners
from tracekit.index.trace_index import index_of
from tracekit.model.report import Finding
from tracekit.model.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions
from tracekit.views.path import graph as _path_graph

US = 1_000
COPIES = {
    "cudaMemcpyAsync": "Memcpy DtoH (Device -> Pageable)",
    "cudaMemcpy": "[CUDA memcpy DtoH]",
    "hipMemcpyWithStream": "Memcpy DtoH (Device -> Host)",
    "cuMemcpyDtoH_v2": "[CUDA memcpy Device-to-Host]",
}


def program(call: str, *, waits_by: str = "copy", stream: int = 7, steps: int = 10) -> Trace:
    """Return steps of a kernel of 3 ms, an all-reduce of 4 ms, and a value that the host reads.

    call: the name of the call that copies. waits_by: "copy" for one that returns after its copy, "synchronize" for a
    pinned copy that a call waits for. stream: of the copy.
    """
    rows: list[dict[str, Any]] = []
    now, correlation = 0, 0
    host = {"pid": 1, "tid": 1}

    def launch(name: str, ns: int, kind: str, work: str, start: int, takes: int, on: int) -> int:
        nonlocal correlation
        correlation += 1
        rows.append({**host, "ts_ns": now, "dur_ns": ns, "kind": "runtime", "name": name, "correlation": correlation})
        more = {"copy_kind": "DtoH", "bytes": 4} if kind == "memcpy" else {}
        device = {"pid": 1, "device": 0, "stream": on, "correlation": correlation, **more}
        rows.append({**device, "ts_ns": start, "dur_ns": takes, "kind": kind, "name": work})
        return start + takes

    for number in range(steps):
        begin = now
        end = launch("cudaLaunchKernel", 5 * US, "kernel", "gemm", now + 10 * US, 3_000 * US, 7)
        now += 50 * US
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        end = launch("cudaLaunchKernelExC", 5 * US, "kernel", name, end + US, 4_000 * US, 7)
        now += 50 * US
        if waits_by == "copy":
            end = launch(call, end + 4 * US - now, "memcpy", COPIES[call], end + US, 2 * US, stream)
            now = end + 5 * US
        else:
            end = launch(call, 5 * US, "memcpy", "Memcpy DtoH (Device -> Pinned)", end + US, 2 * US, stream)
            now += 10 * US
            sync = {"ts_ns": now, "dur_ns": end + 3 * US - now, "kind": "runtime", "name": "cudaStreamSynchronize"}
            rows.append({**host, **sync})
            now = end + 5 * US
        now += 20 * US
        step = {"ts_ns": begin, "dur_ns": now - begin, "kind": "step", "step": number, "name": f"ProfilerStep#{number}"}
        rows.append({**host, **step})
    return trace(*rows)


def findings(made: Trace) -> dict[str, Finding]:
    return {each.rule: each for each in VIEWS["findings"].compute(index_of(made), ViewOptions()).findings}


def on_path(made: Trace, part: PathPart) -> int:
    index = index_of(made)
    (own,) = _path_graph.graphs(index, _owners.find(index))
    path = _path_graph.path_of(index, own)
    return int((path.ends - path.starts)[path.parts == part].sum())


@pytest.mark.parametrize("call", COPIES)
def test_work_behind_a_call_that_copies_and_waits_is_on_the_path(call: str) -> None:
    made = program(call)
    assert on_path(made, PathPart.KERNEL) >= 10 * 6_900 * US
    assert on_path(made, PathPart.LAUNCH) < 10 * 150 * US


@pytest.mark.parametrize("call", COPIES)
def test_what_a_pinned_read_back_shows_a_blocking_copy_shows_too(call: str) -> None:
    pinned = findings(program("cudaMemcpyAsync", waits_by="synchronize"))["exposed communication"]
    blocking = findings(program(call))["exposed communication"]
    assert abs(blocking.saving_ns - pinned.saving_ns) < 0.02 * pinned.saving_ns
    assert blocking.saving_ns > 0.98 * 10 * 4_000 * US


def test_a_copy_of_another_stream_that_begins_when_the_work_has_ended_waited_for_it() -> None:
    assert findings(program("cudaMemcpy", stream=13))["exposed communication"].saving_ns > 0.98 * 10 * 4_000 * US


def test_a_call_that_copies_from_an_idle_device_works_up_to_its_copy() -> None:
    """Nothing was in the queue: what comes before the copy is staging, and the host's."""
    rows: list[dict[str, Any]] = []
    for number in range(12):
        at = number * 5_000 * US
        call = {"kind": "runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "correlation": number}
        copy = {"kind": "memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 1, "device": 0, "stream": 7}
        rows.append({**call, "ts_ns": at, "dur_ns": 4_000 * US})
        rows.append({**copy, "ts_ns": at + 3_000 * US, "dur_ns": 900 * US, "correlation": number, "bytes": 1 << 24})
    made = trace(*rows)
    assert on_path(made, PathPart.LAUNCH) >= 12 * 3_000 * US
    assert findings(made)["pageable copies"].saving_ns >= 12 * 3_900 * US


def test_the_staging_behind_the_work_before_is_the_calls_own() -> None:
    """The stream was busy until 2 ms, and the copy begins at 3 ms: without the call, that millisecond is gone."""
    rows: list[dict[str, Any]] = []
    for number in range(12):
        at = number * 6_000 * US
        for call, correlation, after, takes in (
            ("cudaLaunchKernel", 2 * number, 0, 5),
            ("cudaMemcpyAsync", 2 * number + 1, 20, 4_000),
        ):
            row = {"kind": "runtime", "name": call, "pid": 1, "tid": 1, "correlation": correlation}
            rows.append({**row, "ts_ns": at + after * US, "dur_ns": takes * US})
        device = {"pid": 1, "device": 0, "stream": 7}
        kernel = {"kind": "kernel", "name": "gemm", "ts_ns": at + 10 * US, "dur_ns": 2_000 * US}
        rows.append({**device, **kernel, "correlation": 2 * number})
        copy = {"kind": "memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "bytes": 1 << 24}
        rows.append({**device, **copy, "ts_ns": at + 3_000 * US, "dur_ns": 900 * US, "correlation": 2 * number + 1})
    made = trace(*rows)
    assert on_path(made, PathPart.KERNEL) >= 12 * 1_900 * US
    assert findings(made)["pageable copies"].saving_ns >= 12 * 1_850 * US

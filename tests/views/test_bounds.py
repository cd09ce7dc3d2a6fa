"""Savings against true gains: a small program is scheduled with an ill and without it, in traces of several makes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from views.tables import on_trace, trace

from tracekit.model.report import Finding
from tracekit.model.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

FINDINGS = on_trace(VIEWS["findings"])
US = 1_000
COMPUTE, COMM = 7, 20
MAIN, ENGINE = 100, 160
Row = dict[str, Any]


@dataclass
class Run:
    """A schedule of host threads and streams; each call takes 4 us, a stream goes on 1 us after what it waited for.

    waits: what the profiler writes of waits between streams: "rows", "calls" or "nothing".
    """

    waits: str = "rows"
    rows: list[Row] = field(default_factory=list)
    now: dict[int, int] = field(default_factory=lambda: {MAIN: 0, ENGINE: 0})
    ready: dict[int, int] = field(default_factory=lambda: {COMPUTE: 0, COMM: 0})
    number: int = 0

    def host(self, tid: int, ns: int, name: str = "", kind: str = "operator", **more: Any) -> int:
        """Let a thread work, in a range if that has a name; return the call's number."""
        self.number += 1
        if name:
            correlation = {"correlation": self.number} if kind == "runtime" else {}
            self.rows.append(self.row(name, kind, self.now[tid], ns, tid=tid, **correlation, **more))
        self.now[tid] += ns
        return self.number

    def row(self, name: str, kind: str, start: int, ns: int, **more: Any) -> Row:
        return {"name": name, "kind": kind, "ts_ns": start, "dur_ns": ns, "pid": 1, **more}

    def launch(self, tid: int, name: str, ns: int, stream: int = COMPUTE, kind: str = "kernel", **more: Any) -> int:
        """Launch work; return its end."""
        call = "cudaLaunchKernel" if kind == "kernel" else "cudaMemcpyAsync"
        number = self.host(tid, 4 * US, call, "runtime")
        start = max(self.now[tid] + US, self.ready[stream] + US)
        self.rows.append(self.row(name, kind, start, ns, device=0, stream=stream, correlation=number, **more))
        self.ready[stream] = start + ns
        return start + ns

    def hold(self, tid: int, stream: int, other: int) -> None:
        """Let a stream wait for what another has to do now."""
        calls = self.waits != "nothing"
        recorded = self.host(tid, 2 * US, "cudaEventRecord" if calls else "", "runtime")
        at = self.now[tid]
        number = self.host(tid, 2 * US, "cudaStreamWaitEvent" if calls else "", "runtime")
        if self.waits == "rows":
            args = f'{{"wait_on_stream":{other},"wait_on_cuda_event_record_corr_id":{recorded}}}'
            more = {"device": 0, "stream": stream, "correlation": number, "args": args}
            self.rows.append(self.row("Stream Wait Event", "sync", at, US, **more))
        self.ready[stream] = max(self.ready[stream], self.ready[other])

    def finish(self, tid: int, stream: int, name: str = "cudaStreamSynchronize") -> None:
        """Wait until a stream has done all."""
        until = max(self.now[tid], self.ready[stream]) + 2 * US
        self.host(tid, until - self.now[tid], name, "runtime")

    def trace(self) -> Trace:
        return trace(*sorted(self.rows, key=lambda row: (row["ts_ns"], -row["dur_ns"])))


def trained(
    *,
    waits: str = "rows",
    backward: str = "paused",
    load: int = 0,
    reduce: int = 0,
    item: bool = False,
    tiny: int = 0,
    steps: int = 6,
    layers: int = 6,
    kernel: int = 80 * US,
) -> Run:
    """Train: load, forward on one thread, backward on another, an all-reduce, an optimizer; the ills that are set.

    backward: "paused" between operators, "tight" without pauses, "one" range a step.
    """
    run = Run(waits)
    for step in range(steps):
        begin = run.now[MAIN]
        run.host(MAIN, 20 * US)
        run.host(MAIN, load + 10 * US, "enumerate(DataLoader)#__next__", "dataloader")
        for _ in range(tiny):
            start = run.now[MAIN]
            run.host(MAIN, 6 * US)
            run.launch(MAIN, "Memcpy HtoD (Pinned -> Device)", US, kind="memcpy", bytes=64, copy_kind="HtoD")
            run.rows.append(run.row("aten::to", "operator", start, run.now[MAIN] - start, tid=MAIN))
        for _ in range(layers):
            start = run.now[MAIN]
            run.host(MAIN, 8 * US)
            run.launch(MAIN, "gemm", kernel)
            run.rows.append(run.row("aten::mm", "operator", start, run.now[MAIN] - start, tid=MAIN))
            run.host(MAIN, 9 * US)
            if item:
                start = run.now[MAIN]
                run.host(MAIN, 3 * US)
                run.launch(MAIN, "Memcpy DtoH (Device -> Pageable)", 2 * US, kind="memcpy", bytes=4, copy_kind="DtoH")
                run.finish(MAIN, COMPUTE)
                run.rows.append(run.row("aten::item", "operator", start, run.now[MAIN] - start, tid=MAIN))
        run.now[ENGINE] = began = run.now[MAIN] + 30 * US
        for _ in range(layers):
            start = run.now[ENGINE]
            run.host(ENGINE, 8 * US)
            run.launch(ENGINE, "gemm_back", 2 * kernel)
            if backward != "one":
                run.rows.append(run.row("MmBackward0", "operator", start, run.now[ENGINE] - start, tid=ENGINE))
            if backward == "paused":
                run.host(ENGINE, 25 * US)
        if backward == "one":
            run.rows.append(run.row("CompiledFunctionBackward", "operator", began, run.now[ENGINE] - began, tid=ENGINE))
        run.now[MAIN] = run.now[ENGINE] + 15 * US
        if reduce:
            run.hold(MAIN, COMM, COMPUTE)
            run.launch(MAIN, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", reduce, COMM)
            run.hold(MAIN, COMPUTE, COMM)
        run.launch(MAIN, "adam", kernel)
        run.host(MAIN, 10 * US)
        run.rows.append(run.row(f"ProfilerStep#{step}", "step", begin, run.now[MAIN] - begin, tid=MAIN, step=step))
    run.finish(MAIN, COMPUTE, "cudaDeviceSynchronize")
    return run


def one(run: Run, rule: str) -> Finding:
    (finding,) = [each for each in FINDINGS(run.trace(), ViewOptions()).findings if each.rule == rule]
    return finding


def window(run: Run) -> int:
    """The window of the savings: from the first step to the end of what the last one launched."""
    return max(run.ready[COMPUTE], *(r["ts_ns"] + r["dur_ns"] for r in run.rows if r["kind"] == "step"))


def holds(finding: Finding, ill: Run, cured: Run, *, tight: float = 1.25) -> None:
    """Check that the savings are no less than the true gain, and not much more."""
    gain = window(ill) - window(cured)
    assert 0.98 * gain <= finding.saving_ns <= tight * gain


@pytest.mark.parametrize("backward", ["paused", "tight", "one"])
@pytest.mark.parametrize("waits", ["rows", "calls", "nothing"])
def test_loading_is_saved_however_backward_runs(waits: str, backward: str) -> None:
    """The thread of backward waits for forward, also where it never pauses but between steps."""
    ill = trained(waits=waits, backward=backward, load=20_000 * US, steps=12)
    cured = trained(waits=waits, backward=backward, steps=12)
    holds(one(ill, "data loading"), ill, cured)


@pytest.mark.parametrize(("waits", "confidence"), [("rows", "medium"), ("calls", "medium"), ("nothing", "low")])
def test_an_all_reduce_that_nothing_hides_is_saved_whether_its_waits_are_recorded(waits: str, confidence: str) -> None:
    ill, cured = trained(waits=waits, reduce=2_000 * US), trained(waits=waits)
    finding = one(ill, "exposed communication")
    holds(finding, ill, cured)
    assert finding.confidence == confidence
    assert ("does not show which stream waits" in finding.because) == (waits == "nothing")


def test_a_pause_of_a_stream_that_no_other_explains_stays() -> None:
    """The other stream's work ends long before: it is not what held the work up."""
    run = Run("nothing")
    run.host(MAIN, 10 * US, "aten::mm")
    run.launch(MAIN, "gemm", 3_000 * US)
    run.launch(MAIN, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 5_000 * US, COMM)
    run.ready[COMPUTE] = 5_500 * US
    run.launch(MAIN, "adam", 2_000 * US)
    run.finish(MAIN, COMPUTE)
    assert not [each for each in FINDINGS(run.trace(), ViewOptions()).findings if each.rule == "exposed communication"]


@pytest.mark.parametrize("layers", [6, 24])
def test_values_that_are_read_back_in_each_layer_go_with_their_copies_and_operators(layers: int) -> None:
    ill, cured = trained(item=True, layers=layers), trained(layers=layers)
    holds(one(ill, "needless synchronization"), ill, cured, tight=1.35)


def test_tiny_copies_go_with_their_operators() -> None:
    ill, cured = trained(tiny=300), trained()
    holds(one(ill, "tiny copies"), ill, cured)

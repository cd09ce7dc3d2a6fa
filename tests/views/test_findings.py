from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from doors.findings import with_idle_early
from hypothesis import given, settings
from hypothesis import strategies as st
from paddle_case import AFTER, write_case_study
from strategies import traces
from support import SAMPLE_FILES, SAMPLES, corpus_root, run_command
from views.hosts import call, op, work
from views.tables import Row, dicts, on_trace, trace
from views.test_ranks import collective

import tracekit
from tracekit.api import read
from tracekit.errors import TracekitError, UsageError
from tracekit.model.display import cell_width
from tracekit.model.report import Finding, Section
from tracekit.model.trace import Ledger, Run, SourceFacts, Trace
from tracekit.model.units import sentence_span
from tracekit.pipeline import render, report_of, summary, view
from tracekit.render.base import RenderOptions
from tracekit.views import SUMMARY, VIEWS
from tracekit.views.base import ViewOptions
from tracekit.views.findings.findings import RULES, THRESHOLDS

FINDINGS = on_trace(VIEWS["findings"])
US = 1000
MS = 1_000_000


def found(made: Trace, rule: str, **thresholds: float) -> list[Finding]:
    section = FINDINGS(made, ViewOptions(values=thresholds))
    return [each for each in section.findings if each.rule == rule]


def one(made: Trace, rule: str, **thresholds: float) -> Finding:
    (finding,) = found(made, rule, **thresholds)
    return finding


def step(number: int, start: int, end: int) -> Row:
    return op(f"ProfileStep#{number}", start, end, "step", step=number)


def with_devices(made: Trace, **properties: Any) -> Trace:
    facts = {"deviceProperties": [{"id": 0, **properties}]}
    run = Run(origin_ns=0, sources=[SourceFacts("a.json", "kineto", facts=facts)])
    return replace(made, run=run)


# The case study of Paddle's guide to its profiler: 11 steps, single-threaded loading, then num_workers=4.


def test_the_case_study_finds_data_loading_and_its_savings(tmp_path: Path) -> None:
    made = read(write_case_study(tmp_path / "before.json"))
    finding = one(made, "data loading")
    assert "49.11 %" in finding.claim
    assert finding.claim.startswith("Heavily input-bound")
    # The loader's 144.088 ms all lie on the thread that takes the steps, and nothing runs behind them.
    assert finding.saving_ns == 144_088_000
    assert finding.share == pytest.approx(0.4911, abs=1e-4)
    assert finding.confidence == "high"
    model = {row["name"]: row for row in dicts(view(made, "model"))}
    told = {each.cell: each.value for each in finding.evidence}
    assert told["model.Dataloader.ratio"] == model["Dataloader"]["ratio"]
    assert told["model.ProfileStep.total"] == model["ProfileStep"]["total"] == 293_390_000
    kinds = dict(zip(made.events["event_id"].to_pylist(), made.events["kind"].to_pylist(), strict=True))
    assert [kinds[each] for each in finding.events] == ["dataloader"] * 5


def test_after_num_workers_the_finding_is_gone(tmp_path: Path) -> None:
    made = read(write_case_study(tmp_path / "after.json", AFTER))
    section = FINDINGS(made, ViewOptions())
    assert [(each.rule, each.confidence) for each in section.findings] == [("idle, cause not in the trace", "low")]
    assert section.notes[0].startswith("checked and not found: data loading, ")
    assert "warm-up" in section.notes[0]
    assert section.notes[1].startswith("not checked: ")


def test_a_threshold_that_is_set_counts(tmp_path: Path) -> None:
    after = read(write_case_study(tmp_path / "after.json", AFTER))
    finding = one(after, "data loading", data_loading_share=0.018)
    assert finding.claim.startswith("Input-bound: data loading takes 1.82 %")
    before = read(write_case_study(tmp_path / "before.json"))
    assert not found(before, "data loading", data_loading_share=0.5)
    assert found(before, "data loading", data_loading_share=0.5, least_share=0.0) == []


def test_loading_that_hides_behind_the_device_is_no_finding() -> None:
    """Half of each step is loading, but the device works all the time: nothing can be won."""
    rows: list[Row] = []
    for i in range(30):
        at = i * 100 * US
        rows += [
            step(i, at, at + 100 * US), op("loader", at, at + 50 * US, "dataloader"),
            call(i, at + 60 * US, at + 61 * US), work("gemm", i, at + 61 * US, at + 161 * US),
        ]  # fmt: skip
    made = trace(*rows)
    assert not found(made, "data loading")


def test_a_loader_of_another_thread_is_no_finding() -> None:
    rows = [step(i, i * 100 * US, (i + 1) * 100 * US) for i in range(6)]
    rows += [op("worker", i * 100 * US, i * 100 * US + 90 * US, "dataloader", tid=99) for i in range(6)]
    section = FINDINGS(trace(*rows), ViewOptions())
    assert not section.findings
    unseen = "no data loader range is on a thread that runs steps, launches or operators"
    assert any(unseen in note for note in section.notes)


def on_the_cpu(loader_tid: int) -> Trace:
    """Return 8 rounds of 6 ms of loading and 4 ms of operators on thread 1, without steps and without a device."""
    rows: list[Row] = []
    for i in range(8):
        at = i * 10 * MS
        rows += [
            op("DataLoader.__next__", at, at + 6 * MS, "dataloader", tid=loader_tid),
            op("aten::linear", at + 6 * MS, at + 10 * MS, tid=1),
            op("aten::copy_", at, at + MS, tid=2),
        ]
    return trace(*rows)


def test_a_loader_counts_without_steps_on_the_thread_that_computes() -> None:
    finding = one(on_the_cpu(loader_tid=1), "data loading")
    assert finding.saving_ns == 48 * MS
    assert "60.00 % of the run" in finding.claim
    assert finding.claim.endswith("on the thread that computes.")
    assert finding.confidence == "medium"


@pytest.mark.parametrize("tid", [2, 99])
def test_a_loader_beside_the_thread_that_computes_is_no_finding(tid: int) -> None:
    assert not found(on_the_cpu(tid), "data loading")


# The other rules, each with a trace that has the fault, and one in which the same rows do no harm.


def syncing(wait: int, sleep: int) -> Trace:
    """Each round launches a kernel, waits for it, and then works on the host."""
    rows: list[Row] = []
    at = 0
    for i in range(10):
        launched = at + 10 * US
        done = launched + wait
        rows += [
            call(i, at, launched), work("gemm", i, launched, done),
            op("cudaStreamSynchronize", launched, done + US, "runtime", correlation=100 + i),
            op("aten::add", done + US, done + US + sleep),
        ]  # fmt: skip
        at = done + US + sleep
    return trace(*rows)


def test_synchronization_that_keeps_the_device_waiting() -> None:
    made = syncing(100 * US, 80 * US)
    finding = one(made, "needless synchronization")
    assert "10 calls" in finding.claim
    assert "cudaStreamSynchronize" in finding.claim
    api = {row["name"]: row for row in dicts(view(made, "api"))}
    assert ("api.cudaStreamSynchronize.total", api["cudaStreamSynchronize"]["total"]) in [
        (each.cell, each.value) for each in finding.evidence
    ]
    # Host (10 + 80 us a round) and device (100 us a round) could overlap but for the first launch: never more than the
    # time in the calls.
    assert 0 < finding.saving_ns <= api["cudaStreamSynchronize"]["total"]
    whole = 10 * 191 * US
    assert whole - finding.saving_ns >= 10 * 100 * US


def test_a_wait_at_the_end_wins_nothing() -> None:
    rows = [call(i, i * 10 * US, i * 10 * US + US) for i in range(20)]
    rows += [work("gemm", i, US + i * 50 * US, US + (i + 1) * 50 * US) for i in range(20)]
    rows.append(op("cudaDeviceSynchronize", 200 * US, 1001 * US, "runtime", correlation=99))
    assert not found(trace(*rows), "needless synchronization")


def launching(kernel: int, count: int = 200, own: int = 0) -> Trace:
    """An operator of 20 us launches each kernel, in a call of 5 us at its end.

    own: the first ns of these 20 us are a range of the program instead.
    """
    rows: list[Row] = []
    free = 0
    for i in range(count):
        at = i * 20 * US
        begin = max(at + 20 * US, free)
        free = begin + kernel
        rows += [
            op("aten::add", at + own, at + 20 * US), call(i, at + 15 * US, at + 20 * US), work("add", i, begin, free),
        ]  # fmt: skip
        rows += [op("own", at, at + own, "user_range")] if own else []
    return trace(*rows)


def test_short_kernels_are_launch_bound() -> None:
    made = launching(4 * US)
    finding = one(made, "launch-bound")
    assert "100 % of 200 kernels" in finding.claim
    # Without launching and operators the kernels alone are left: 200 x 4 us of 4,004 us.
    assert finding.saving_ns == 4004 * US - 800 * US
    assert not found(made, "launch-bound", launch_idle_share=0.9)


def test_without_operators_the_host_may_do_other_work_between_launches() -> None:
    assert one(launching(4 * US), "launch-bound").confidence == "medium"
    rows = [call(i, i * 20 * US, i * 20 * US + 15 * US) for i in range(200)]
    rows += [work("add", i, (i * 20 + 15) * US, (i * 20 + 19) * US) for i in range(200)]
    finding = one(trace(*rows), "launch-bound")
    assert finding.confidence == "low"
    assert "the trace has no operators" in finding.because


def in_steps(between: str = "", operators_at: int = -1, kernel: int = 4 * US) -> Trace:
    """Ten steps of 20 launches, one each 20 us, and no operator in them.

    between: the name of an API call or range before each launch. operators_at: ns of the begin of 50 operators with
    their launches, beside the steps.
    """
    rows: list[Row] = []
    free = 0
    for i in range(200):
        at = i * 20 * US
        begin = max(at + 17 * US, free)
        free = begin + kernel
        rows += [call(i, at + 12 * US, at + 16 * US), work("add", i, begin, free)]
        if between:
            kind = "driver" if between.startswith("cu") else "user_range"
            rows.append(
                op(between, at + 4 * US, at + 5 * US, kind, **({"correlation": 5000 + i} if kind == "driver" else {}))
            )
    rows += [step(i, i * 400 * US, (i + 1) * 400 * US) for i in range(10)]
    if operators_at >= 0:
        for i in range(50):
            at = operators_at + i * 20 * US
            rows += [
                op("aten::mm", at, at + 10 * US),
                call(1000 + i, at + 5 * US, at + 9 * US),
                work("add", 1000 + i, at + 10 * US, at + 14 * US),
            ]
    return trace(*rows)


@pytest.mark.parametrize("between", ["", "cuKernelGetName"])
@pytest.mark.parametrize("operators_at", [-1, 6000 * US])
def test_whether_operators_show_the_host_is_asked_of_the_steps(between: str, operators_at: int) -> None:
    """Operators behind the steps say nothing about what the host does in them."""
    finding = one(in_steps(between, operators_at), "launch-bound")
    assert finding.confidence == "low"
    assert ("of the launching threads in the steps" in finding.because) == (operators_at >= 0)
    # The device is idle for 16 us of each 20 us.
    assert 0.7 <= finding.share <= 0.8


def test_a_device_that_is_kept_busy_without_operators_is_not_launch_bound() -> None:
    assert not found(in_steps("cuKernelGetName", 6000 * US, kernel=19 * US), "launch-bound")


def test_ranges_of_the_program_between_launches_stay_without_operators_too() -> None:
    finding = found(in_steps("mine"), "launch-bound")
    assert not finding or finding[0].share < 0.7


def test_the_programs_own_work_between_launches_stays() -> None:
    finding = one(launching(4 * US, own=8 * US), "launch-bound")
    # 8 us before each of 200 kernels, and the last kernel.
    assert finding.saving_ns == 4004 * US - (200 * 8 + 4) * US


def test_long_kernels_are_not() -> None:
    assert not found(launching(40 * US), "launch-bound")


def test_fewer_blocks_than_multiprocessors() -> None:
    grid = {"grid_x": 27, "grid_y": 1, "grid_z": 1}
    rows = [call(i, i * 2 * US, i * 2 * US + US) for i in range(30)]
    rows += [work("small", i, (i + 1) * 100 * US, (i + 2) * 100 * US, **grid) for i in range(30)]
    made = trace(*rows)
    assert any("does not say how many multiprocessors" in n for n in FINDINGS(made, ViewOptions()).notes)
    finding = one(with_devices(made, numSms=108), "little parallelism")
    # A quarter of the device works: three quarters of the kernels' time.
    assert finding.saving_ns == 3000 * US * 3 // 4
    assert not found(with_devices(made, numSms=27), "little parallelism")


def test_collectives_are_never_little_parallelism() -> None:
    grid = {"grid_x": 2, "grid_y": 1, "grid_z": 1}
    rows = [call(i, i * 2 * US, i * 2 * US + US) for i in range(30)]
    rows += [work("ncclDevKernel_AllReduce", i, (i + 1) * 100 * US, (i + 2) * 100 * US, **grid) for i in range(30)]
    section = FINDINGS(with_devices(trace(*rows), numSms=108), ViewOptions())
    assert "little parallelism" not in [each.rule for each in section.findings]
    assert any("little parallelism, expensive arithmetic (the trace has no compute kernels" in n for n in section.notes)


def test_one_kernel_that_takes_most_of_the_path() -> None:
    rows = [call(i, i * US, i * US + 500) for i in range(4)]
    rows += [work(name, i, 10 * US + i * 50 * US, 60 * US + i * 50 * US) for i, name in enumerate(["big"] * 3 + ["no"])]
    made = trace(*rows)
    finding = one(made, "expensive kernel", kernel_share=0.3)
    assert finding.claim.startswith("One kernel, big, takes 150 us in 3 calls")
    assert finding.confidence == "low"
    assert finding.saving_ns == 150 * US
    assert not found(made, "expensive kernel", kernel_share=0.9)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("volta_sgemm_128x64_nn", True), ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n", True),
        ("cudnn::cnn::implicit_convolve_sgemm<float, 1024>", True), ("maxwell_scudnn_128x32_relu_small_nn_v1", True),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_nn", False), ("volta_s884gemm_fp16_64x64", False),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128", False), ("ampere_s1688gemm_fp32_256x64", False),
        ("vectorized_elementwise_kernel", False), ("volta_fp16_sgemm_fp16_128x128", False),
    ],
)  # fmt: skip
def test_fp32_products_by_their_names(name: str, told: bool) -> None:
    rows = [call(0, 0, US), work(name, 0, 2 * US, 100 * US)]
    finding = found(trace(*rows), "fp32 arithmetic")
    assert bool(finding) == told
    if finding:
        assert finding[0].confidence == "low"
        assert not found(with_devices(trace(*rows), numSms=10, computeMajor=6), "fp32 arithmetic")


def copies(name: str, size: int, count: int = 40) -> Trace:
    rows: list[Row] = []
    for i in range(count):
        at = i * 100 * US
        rows += [
            op("cudaMemcpyAsync", at, at + 60 * US, "runtime", correlation=i),
            work(name, i, at + 10 * US, at + 50 * US, "memcpy", bytes=size, copy_kind="HtoD"),
        ]  # fmt: skip
    return trace(*rows)


def test_pageable_copies() -> None:
    finding = one(copies("Memcpy HtoD (Pageable -> Device)", 1 << 20), "pageable copies")
    assert "40 copies" in finding.claim
    assert f"{40 << 20:,} bytes" in finding.claim
    assert finding.saving_ns > 40 * 40 * US
    assert not found(copies("Memcpy HtoD (Pinned -> Device)", 1 << 20), "pageable copies")
    assert any("no copy names the memory" in n for n in FINDINGS(copies("Memcpy", 1 << 20), ViewOptions()).notes)


def test_memory_that_the_args_name_is_pageable_too() -> None:
    args = json.dumps({"src_mem_type": "Pageable", "dst_mem_type": "Device"})
    row = {"kind": "memcpy", "name": "[CUDA memcpy HtoD]", "dur_ns": 50 * US, "bytes": 1 << 20, "device": 0}
    finding = one(trace(*({**row, "args": args, "ts_ns": i * 100 * US} for i in range(10))), "pageable copies")
    assert finding.confidence == "low"  # no host calls: no critical path
    assert "the trace has no host calls" in finding.because
    assert finding.saving_ns == 500 * US


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ({"src_mem_type": "Pinned", "note": {"src_mem_type": "Pageable"}}, False),
        ({"src_mem_type": "Pinned", "note": '"src_mem_type": "Pageable"'}, False),
        ({"src_mem_type": "Pageable", "note": {"src_mem_type": "Pinned"}}, True),
        ({"note": "src_mem_type", "dst_mem_type": "Pageable"}, True),
    ],
)
def test_only_members_of_the_args_themselves_name_the_memory(args: dict[str, Any], told: bool) -> None:
    row = {"kind": "memcpy", "name": "copy", "dur_ns": 50 * US, "bytes": 1 << 20, "device": 0}
    rows = ({**row, "args": json.dumps({**args, "id": i}), "ts_ns": i * 100 * US} for i in range(10))
    assert bool(found(trace(*rows), "pageable copies")) == told


def test_tiny_copies() -> None:
    made = copies("Memcpy DtoH (Device -> Pageable)", 4)
    finding = one(made, "tiny copies")
    assert finding.claim.startswith("40 copies of less than 16,384 bytes")
    assert not found(made, "pageable copies")
    assert not found(made, "tiny copies", tiny_copies=41)
    assert not found(made, "tiny copies", tiny_copy_bytes=4)


@pytest.mark.parametrize("memory", ["", " (Pinned -> Device)"])
def test_exposed_copies(memory: str) -> None:
    made = copies(f"Memcpy HtoD{memory}", 1 << 20)
    finding = one(made, "exposed copies")
    breakdown = dicts(view(made, "breakdown"))[0]
    assert finding.evidence[0].value == breakdown["exposed_copies"] == 40 * 40 * US
    assert f"40 copies for {40 << 20:,} bytes; Memcpy HtoD{memory} takes 1.6 ms in all" in finding.claim
    assert 0 < finding.saving_ns <= 40 * 40 * US
    assert not found(made, "exposed copies", exposed_copies_share=0.9)


@pytest.mark.parametrize(
    ("kinds", "does"),
    [
        (("memset",), "only sets memory, in 40 memsets"),
        (("memcpy", "memset"), "only copies or sets memory, in 20 copies and 20 memsets"),
    ],
)
def test_memsets_are_exposed_copies_as_in_the_breakdown(kinds: tuple[str, ...], does: str) -> None:
    rows: list[Row] = []
    for i in range(40):
        at, kind = i * 100 * US, kinds[i % len(kinds)]
        name = "Memset (Device)" if kind == "memset" else "Memcpy HtoD (Pinned -> Device)"
        rows += [
            op(f"cuda{kind.capitalize()}Async", at, at + 5 * US, "runtime", correlation=2 * i),
            work(name, 2 * i, at + 10 * US, at + 50 * US, kind, bytes=1 << 20),
            call(2 * i + 1, at + 5 * US, at + 8 * US),
            work("gemm", 2 * i + 1, at + 60 * US, at + 90 * US),
        ]
    made = trace(*rows)
    finding = one(made, "exposed copies")
    assert does in finding.claim
    assert finding.evidence[0].value == dicts(view(made, "breakdown"))[0]["exposed_copies"] == 40 * 40 * US
    notes = FINDINGS(made, ViewOptions()).notes
    assert any("the trace has memsets, and no copies" in note for note in notes) == (kinds == ("memset",))
    assert not any("the trace has no copies" in note for note in notes)
    headline = tracekit.summary(made).headline
    assert headline is not None
    assert headline.opening is not None
    assert f"the GPU {does.partition(',')[0]}" in headline.opening.sentence


def test_copies_among_work_without_launches_save_up_to_their_exposed_time() -> None:
    """Work that names no launch would perhaps begin earlier without the copies, so the path alone is no bound."""
    rows: list[Row] = [op("aten::copy_", 0, 4 * MS), call(0, 0, 5 * US), work("gemm", 0, 5 * US, 10 * US)]
    for i in range(40):
        at = 100 * US + i * 90 * US
        rows += [
            work("Memcpy HtoD", None, at, at + 40 * US, "memcpy", bytes=1 << 20, copy_kind="HtoD"),
            work("gemm", None, at + 65 * US, at + 85 * US),
        ]
    made = trace(*rows)
    finding = one(made, "exposed copies")
    assert finding.saving_ns == dicts(view(made, "breakdown"))[0]["exposed_copies"] == 40 * 40 * US
    assert finding.confidence == "low"
    assert "much of the device work names no launch call" in finding.because


def test_copies_behind_kernels_and_pageable_ones_are_not_told_as_exposed() -> None:
    assert not found(copies("Memcpy HtoD (Pageable -> Device)", 1 << 20), "exposed copies")
    rows: list[Row] = []
    for i in range(40):
        at = i * 100 * US
        rows += [
            op("cudaMemcpyAsync", at, at + 5 * US, "runtime", correlation=2 * i),
            work("Memcpy HtoD", 2 * i, at + 10 * US, at + 50 * US, "memcpy", bytes=1 << 20, copy_kind="HtoD", stream=2),
            call(2 * i + 1, at + 5 * US, at + 8 * US), work("gemm", 2 * i + 1, at + 8 * US, at + 90 * US),
        ]  # fmt: skip
    assert not found(trace(*rows), "exposed copies")


def starting(create: int, *, idle_before: int = 0) -> Trace:
    """A run that creates its context for so long, then runs ten kernels; other device work may come before it."""
    rows: list[Row] = [op("cudaMalloc", 0, create, "runtime", correlation=100)]
    if idle_before:
        rows.append(work("warm", 101, 0, 1 * US))
    for i in range(10):
        at = create + i * 100 * US
        rows += [call(i, at, at + 5 * US), work("gemm", i, at + 5 * US, at + 95 * US)]
    return trace(*rows)


def test_start_up() -> None:
    made = starting(50 * MS)
    finding = one(made, "start-up")
    assert finding.claim.startswith("50 ms pass in 1 call before the device has its first work, 50 ms of them in")
    assert finding.saving_ns == 50 * MS
    assert finding.confidence == "high"
    assert [each.cell for each in finding.evidence] == ["api.cudaMalloc.calls", "api.cudaMalloc.total"]
    assert not found(made, "start-up", start_up_share=0.99)
    assert not found(starting(50 * US), "start-up")
    assert not found(starting(50 * MS, idle_before=1), "start-up")


def test_start_up_is_the_same_whatever_steps_are_laid_over_it() -> None:
    """A profiler that starts in a call writes steps that begin in it: the call's time stays the call's."""
    rows = starting(50 * MS).events.to_pylist()
    steps = [step(i, i * 20 * MS, (i + 1) * 20 * MS) for i in range(3)]
    assert one(trace(*rows, *steps), "start-up").saving_ns == one(trace(*rows), "start-up").saving_ns == 50 * MS


def test_the_sample_run_starts_up_alike_in_every_format() -> None:
    files = ("nvprof-csv/gpu-and-api-trace.csv", "kineto/gpu.pt.trace.json", "nsys-sqlite/schema-of-2021.sqlite")
    savings = {name: one(read(SAMPLES / name), "start-up").saving_ns for name in files}
    assert set(savings.values()) == {391_789_380}, savings


def test_a_trace_that_begins_in_the_middle_of_a_run_shows_no_start_up() -> None:
    waiting = starting(50 * MS)
    rows = waiting.events.to_pylist()
    rows[0]["name"] = "cudaDeviceSynchronize"  # of work from before the trace, as far as one can know
    assert not found(trace(*rows), "start-up")
    cut = replace(starting(50 * MS), ledgers=(Ledger(path="a.json", format="kineto", read=9, filtered=9),))
    assert not found(cut, "start-up")
    assert any("start-up (rows were filtered" in note for note in FINDINGS(cut, ViewOptions()).notes)


def talking(overlap: bool) -> Trace:
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"
    rows: list[Row] = []
    for i in range(10):
        at, called = i * MS + 100 * US, i * 4 * US
        begin = at + (4 if overlap else 600) * US
        rows += [
            call(2 * i, called, called + US), work("gemm", 2 * i, at, at + (1000 if overlap else 600) * US),
            call(2 * i + 1, called + 2 * US, called + 3 * US),
            work(nccl, 2 * i + 1, begin, begin + 400 * US, stream=2 if overlap else 1),
        ]  # fmt: skip
    return trace(*rows)


def test_exposed_communication() -> None:
    made = talking(overlap=False)
    finding = one(made, "exposed communication")
    breakdown = dicts(view(made, "breakdown"))[0]
    assert {each.cell.rpartition(".")[2]: each.value for each in finding.evidence} == {
        key: breakdown[key] for key in ("exposed_comm", "exposed_comm_share", "overlap_share")
    }
    assert 0 < finding.saving_ns <= breakdown["exposed_comm"]
    assert not found(talking(overlap=True), "exposed communication")


def late(by: int) -> Trace:
    """Four ranks, of which rank 2 comes late to each of 30 collectives."""
    rows: list[Row] = []
    end = 0
    for i in range(30):
        begin = end + 20 * US
        starts = [begin + (by if rank == 2 else 0) for rank in range(4)]
        end = max(starts) + 100 * US
        for rank, start in enumerate(starts):
            own = {"pid": rank, "rank": rank, "source": rank}
            rows += [
                call(i, start - 5 * US, start, **own), collective(rank, start, end + rank, pid=rank, correlation=i),
                op("cudaStreamSynchronize", start, end + rank, "runtime", correlation=100 + i, **own),
            ]  # fmt: skip
    return trace(*rows)


def test_a_straggler() -> None:
    finding = one(late(200 * US), "straggler")
    assert finding.owner == "rank 2"
    assert finding.claim.startswith("rank 2 comes last in 30 of 30 collectives (100.00 %)")
    assert finding.confidence == "high"
    told = {each.cell: each.value for each in finding.evidence}
    assert told["ranks.rank 2.last"] == 30
    assert 0 < finding.saving_ns <= told["ranks.rank 2.late"]  # type: ignore[operator]
    assert not found(late(0), "straggler")


def test_warm_up() -> None:
    times = [50, 10, 11, 10, 9, 10, 10, 11]
    rows, at = [], 0
    for i, ms in enumerate(times):
        rows.append(step(i, at, at + ms * MS))
        at += ms * MS
    finding = one(trace(*rows), "warm-up")
    assert finding.saving_ns == 40 * MS
    assert "one-time" in finding.claim
    assert not found(trace(*rows), "warm-up", warm_up_share=0.4)
    assert not found(trace(*rows[1:]), "warm-up")


# What holds for all findings.


def test_the_largest_savings_stand_first_and_the_table_agrees() -> None:
    section = FINDINGS(copies("Memcpy HtoD (Pageable -> Device)", 1 << 20), ViewOptions())
    upper_bounds = [each.saving_ns for each in section.findings]
    assert len(upper_bounds) > 1
    own = [each.saving_ns for each in section.findings if not each.part_of]  # a symptom comes after its cause
    assert own == sorted(own, reverse=True)
    assert [row["won"] for row in dicts(section)] == upper_bounds
    assert [row["rule"] for row in dicts(section)] == [each.rule for each in section.findings]
    top = FINDINGS(copies("Memcpy HtoD (Pageable -> Device)", 1 << 20), ViewOptions(top=1, sorted_by="-won"))
    assert [each.saving_ns for each in top.findings] == [min(upper_bounds)]


def sound(section: Section) -> None:
    for each in section.findings:
        if each.rule == "hang":  # nobody knows how long it would have lasted
            assert (each.saving_ns, each.share) == (0, 0)
        else:
            assert each.saving_ns > 0
            assert 0 < each.share <= 1
        assert each.confidence in ("high", "medium", "low")
        assert all((each.claim, each.because, each.advice, each.check))
    assert section.findings or section.notes


@settings(max_examples=60)
@given(made=traces(), least=st.sampled_from([0.0, 0.01]))
def test_any_trace_is_judged_and_no_savings_exceed_its_window(made: Trace, least: float) -> None:
    nothing = dict.fromkeys((spec.key for spec in THRESHOLDS), 0.0) | {"least_share": least, "tiny_copy_bytes": 1e6}
    for thresholds in ({}, nothing):
        try:
            section = FINDINGS(made, ViewOptions(values=thresholds))
        except TracekitError:  # times that add up to more than int64 holds
            continue
        for each in section.findings:
            assert 0 <= each.share <= 1.0001, each
        for form in ("text", "json", "markdown", "html", "csv"):
            assert render(report_of(made, [section]), form, RenderOptions(width=80))


FILES = SAMPLE_FILES


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_sample_is_judged(path: Path) -> None:
    try:
        made = read(path)
    except TracekitError:
        pytest.skip("a sample that is no trace by itself")
    sound(FINDINGS(made, ViewOptions()))


CORPUS = sorted(p for p in (corpus_root() / "kineto").glob("*") if p.is_file())


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.name)
def test_real_traces_of_torch_are_judged(path: Path) -> None:
    sound(FINDINGS(read(path), ViewOptions()))


def test_every_form_says_all_of_a_finding(tmp_path: Path) -> None:
    made = read(write_case_study(tmp_path / "before.json"))
    report = summary(made, views=["findings"])
    (finding,) = report.sections[0].findings
    (section,) = json.loads(render(report, "json", RenderOptions()))["sections"]
    (told,) = section["findings"]
    assert told["saving_ns"] == finding.saving_ns
    assert told["window_ns"] * told["share"] == pytest.approx(told["saving_ns"])
    assert told["events"] == list(finding.events)
    assert {each["cell"]: each["value"] for each in told["evidence"]}["model.Dataloader.total"] == 144_088_000
    assert set(told) == set(Finding.__slots__)
    text = render(report, "text", RenderOptions(width=80))
    assert all(cell_width(line) <= 80 for line in text.splitlines())
    flat = " ".join(text.split())
    for words in (
        finding.claim,
        finding.because,
        finding.advice,
        finding.check,
        f"could save up to 144.1 ms (49.11 % of {sentence_span(finding.window_ns)})",
    ):
        assert words in flat
    html = render(report, "html", RenderOptions())
    markdown = render(report, "markdown", RenderOptions())
    for words in ("Heavily input-bound", "model.Dataloader.total", "144.088 ms", "num"):
        assert words in html
        assert words in markdown or words.replace("_", "\\_") in markdown
    rows = render(report, "csv", RenderOptions()).splitlines()
    assert rows[0] == "view,table,won_ns,share,confidence,rule"
    assert rows[1].startswith("findings,findings,144088000,0.49")


def test_findings_stand_first_in_a_summary() -> None:
    assert SUMMARY[0] == "findings"
    assert list(VIEWS)[:2] == ["timeline", "findings"]


def test_a_bad_threshold_is_refused() -> None:
    for value in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="not a number of 0 or more"):
            FINDINGS(trace({"dur_ns": 1}), ViewOptions(values={"sync_share": value}))


def test_a_threshold_of_the_command_line(tmp_path: Path) -> None:
    path = write_case_study(tmp_path / "before.json")
    words = ("summary", path, "--view", "findings")
    found = run_command(*words)
    assert "data loading" in found.stdout
    assert "Heavily" in found.stdout
    gone = run_command(*words, "--option", "data_loading_share=0.6")
    assert "Heavily" not in gone.stdout
    assert "checked and not found: data loading" in gone.stdout
    run_command(*words, "--option", "data_loading_share=much", code=2)


def test_no_two_rules_share_a_name_a_key_or_a_place_among_the_causes() -> None:
    places = [rule.precedence for rule in RULES if rule.precedence is not None]
    for several in ([rule.name for rule in RULES], [spec.key for spec in THRESHOLDS], places):
        assert len(set(several)) == len(several)


def test_every_threshold_is_documented() -> None:
    text = (SAMPLES.parent / "docs" / "findings.md").read_text(encoding="utf-8")
    for spec in THRESHOLDS:
        assert f"| `{spec.key}` | {spec.default:g} | {spec.unit} |" in text, spec.key


def test_what_is_too_little_to_judge_is_not_called_clean() -> None:
    copy = {"dur_ns": 90, "kind": "memcpy", "name": "[CUDA memcpy HtoD]", "device": 0}
    few = [{"ts_ns": 100 * n, **copy} for n in range(3)]
    notes = FINDINGS(trace(*few), ViewOptions()).notes
    assert notes[0].startswith("No findings: 3 device events are too few to judge.")
    assert "exposed copies (too few device events to judge" in notes[1]
    many = [{**few[0], "ts_ns": 100 * n} for n in range(20)]
    assert [each.rule for each in FINDINGS(trace(*many), ViewOptions()).findings] == ["exposed copies"]


def test_a_summary_of_ranges_alone_names_the_findings_with_what_has_nothing_to_show() -> None:
    text = render(summary(trace({"kind": "user_range", "name": "build", "dur_ns": 9, "tid": 1})), "text")
    assert "nothing to show: Findings (findings), " in text
    assert "not checked" not in text


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([{"kind": "kernel", "name": "k", "device": 0}], "1 device event is too few to judge."),
        (
            [{"kind": "step", "name": "s", "step": n, "tid": 1, "ts_ns": 9 * n} for n in range(2)],
            "the rules need GPU activity, a data loader or at least 5 steps.",
        ),
        ([{"kind": "user_range", "name": "mm", "tid": 1}], "the rules need GPU or step data."),
    ],
)
def test_where_no_rule_can_be_checked_the_reason_is_true_of_the_trace(rows: list[Row], sentence: str) -> None:
    notes = FINDINGS(trace(*({"ts_ns": 0, "dur_ns": 9, **row} for row in rows)), ViewOptions()).notes
    assert notes[0].startswith(f"No findings: {sentence}")


def _finding(rule: str, saving: int, confidence: str) -> Finding:
    return Finding(rule, "", "", (), (), saving, saving / 100, confidence, "", "", "")


@pytest.mark.parametrize(("idle", "place"), [(70, 2), (21, 2), (19, 4)])
def test_the_largest_idle_time_is_among_the_first_three(idle: int, place: int) -> None:
    others = [_finding(f"r{n}", saving, "medium") for n, saving in enumerate((40, 30, 20, 10))]
    found = with_idle_early([*others, _finding("idle", idle, "low")], "idle")
    assert [each.rule for each in found].index("idle") == place
    assert [each for each in found if each.rule != "idle"] == others


@pytest.mark.parametrize("operator", ["aten::mm", "conv"])
def test_a_trace_in_which_one_rule_could_be_checked_was_not_examined(operator: str) -> None:
    memory = [{"kind": "memory", "name": "[memory]", "ts_ns": n, "bytes": 8, "pid": 1, "tid": 1} for n in range(30)]
    rows = [
        {"kind": "operator", "name": operator, "ts_ns": n, "dur_ns": 9, "pid": 1, "tid": 1} for n in range(0, 900, 9)
    ]
    (note, *more) = FINDINGS(trace(*memory, *rows), ViewOptions()).notes
    assert note.startswith("No findings: only memory growth could be checked; the other rules need GPU or step data.")
    assert not any("nothing found" in text for text in more)


@pytest.mark.parametrize("kind", ["kernel", "memcpy"])
def test_durations_without_starts_are_no_missing_gpu_data(kind: str) -> None:
    run = Run(origin_ns=0, sources=[SourceFacts("a.log", "cuda-profile", synthetic_time=True)])
    rows = [{"kind": kind, "name": "k", "ts_ns": 9 * n, "dur_ns": 9, "device": 0} for n in range(3)]
    notes = FINDINGS(trace(*rows, run=run), ViewOptions()).notes
    assert notes[0].startswith("No findings: the rules need to know when each event began")

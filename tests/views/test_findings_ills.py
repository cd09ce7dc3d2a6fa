"""Findings about memory, waves of blocks, shared devices, lost rows and unequal stages."""

from __future__ import annotations

from dataclasses import replace

import pytest
from views.hosts import call, op, work
from views.tables import Row, dicts, trace
from views.test_findings import FINDINGS, MS, US, found, one, step, with_devices

from tracekit.model.trace import Ledger, Note
from tracekit.pipeline import view
from tracekit.views.base import ViewOptions

MIB = 1 << 20


def allocating(kept: list[int]) -> list[Row]:
    """Steps of 10 ms that allocate 64 MiB and free it but for so many bytes."""
    rows: list[Row] = []
    for i, size in enumerate(kept):
        at = i * 10 * MS
        rows += [
            step(i, at, at + 10 * MS),
            {"name": "[memory]", "kind": "memory", "ts_ns": at + MS, "bytes": 64 * MIB, "device": 0},
            {"name": "[memory]", "kind": "memory", "ts_ns": at + 8 * MS, "bytes": size - 64 * MIB, "device": 0},
        ]  # fmt: skip
    return rows


def test_memory_that_grows_from_step_to_step() -> None:
    made = trace(*allocating([4 * MIB] * 16))
    finding = one(made, "memory growth")
    assert "4.00 MiB a step" in finding.claim
    assert (finding.saving_ns, finding.confidence) == (0, "high")
    memory = next(row for row in dicts(view(made, "memory")) if row["type"] == "allocated")
    assert [each.value for each in finding.evidence] == [memory["increased"], memory["allocations"]]
    assert "nothing by itself" in repr(finding)
    assert not found(made, "memory growth", growth_bytes=100 * MIB)


@pytest.mark.parametrize(
    "kept",
    [
        [0] * 16, [64 * MIB] + [0] * 15, [8 * MIB] * 8 + [0] * 12, [4 * MIB, -4 * MIB] * 8,
        [3 * MIB, -2 * MIB, -MIB, 2 * MIB, -2 * MIB, 0, MIB, -MIB, 2 * MIB, -2 * MIB, 0, 0, MIB, -MIB],
    ],
    ids=["steady", "first step", "a cache that fills", "up and down", "noise"],
)  # fmt: skip
def test_memory_that_does_not_grow_for_ever_is_no_finding(kept: list[int]) -> None:
    assert not found(trace(*allocating(kept)), "memory growth")


def test_memory_that_is_not_recorded_is_not_checked() -> None:
    notes = FINDINGS(trace(*allocating([0] * 3)), ViewOptions()).notes
    assert any("memory growth (fewer than 6 steps" in note for note in notes)
    notes = FINDINGS(trace(step(0, 0, MS)), ViewOptions()).notes
    assert any("the trace has no allocations; record them" in note for note in notes)


def waves(blocks: int, registers: int = 64) -> list[Row]:
    shape = {"grid_x": blocks, "grid_y": 1, "grid_z": 1, "block_x": 1024, "block_y": 1, "block_z": 1}
    rows: list[Row] = []
    for i in range(30):
        rows += [
            call(i, i * 2 * US, i * 2 * US + US),
            work("softmax", i, (i + 1) * 100 * US, (i + 2) * 100 * US, registers=registers, **shape),
        ]
    return rows


def test_a_last_wave_that_is_almost_empty() -> None:
    """1,024 threads of 64 registers take all 65,536: a block a multiprocessor, so 135 blocks on 132 take two waves."""
    made = with_devices(trace(*waves(135)), numSms=132, computeMajor=9, computeMinor=0)
    finding = one(made, "tail effect")
    assert "1.02 waves take the time of 2, and its last wave is 2.27 % full" in finding.claim
    assert finding.saving_ns == pytest.approx(3000 * US // 2, rel=0.01)
    for blocks in (132, 264, 60, 132 * 40 + 3):
        whole = with_devices(trace(*waves(blocks)), numSms=132, computeMajor=9, computeMinor=0)
        assert not found(whole, "tail effect")
    roomier = with_devices(trace(*waves(135, registers=32)), numSms=132, computeMajor=9, computeMinor=0)
    assert not found(roomier, "tail effect")  # two blocks fit: half a wave
    unknown = FINDINGS(with_devices(trace(*waves(135)), numSms=132), ViewOptions()).notes
    assert any("tail effect (needs grid, block and registers" in note for note in unknown)


def test_two_processes_on_one_device() -> None:
    rows: list[Row] = []
    for i in range(40):
        for pid in (1, 2):
            own = {"pid": pid, "tid": pid}
            rows += [
                call(i, i * 200 * US, i * 200 * US + 5 * US, **own),
                work("gemm", i, (2 * i + pid) * 100 * US, (2 * i + pid + 1) * 100 * US, **own),
            ]
    finding = one(trace(*rows), "shared device")
    assert finding.owner in ("process 1", "process 2")
    assert "their work alternates 79 times" in finding.claim
    assert 39 * 100 * US <= finding.saving_ns <= 41 * 100 * US
    apart = [{**row, "device": row["pid"]} if "device" in row else row for row in rows]
    assert not found(trace(*apart), "shared device")
    later = [{**row, "ts_ns": row["ts_ns"] + (100 * MS if row["pid"] == 2 else 0)} for row in rows]
    assert not found(trace(*later), "shared device")


def running(count: int = 200) -> list[Row]:
    rows: list[Row] = []
    for i in range(count):
        at = i * 100 * US
        rows += [op("aten::mm", at, at + 20 * US), call(i, at + 10 * US, at + 15 * US)]
        rows.append(work("gemm", i, at + 20 * US, at + 95 * US))
    return rows


@pytest.mark.parametrize("lost", ["kernel", "runtime"])
def test_lost_rows_come_first_and_every_other_finding_says_so(lost: str) -> None:
    rows = running()
    whole = {
        each.rule: each.confidence
        for each in FINDINGS(trace(*rows), ViewOptions(values={"kernel_share": 0.1})).findings
    }
    assert "lost rows" not in whole
    gone = [row for row in rows if not (row["kind"] == lost and row["correlation"] % 10 == 3)]
    section = FINDINGS(trace(*gone), ViewOptions(values={"kernel_share": 0.1}))
    first, *others = section.findings
    assert (first.rule, first.confidence, first.saving_ns) == ("lost rows", "high", 0)
    assert ("20 of 200 launches without a kernel (10.00 %)" in first.claim) == (lost == "kernel")
    assert ("20 of 200 kernels without a launch (10.00 %)" in first.claim) == (lost == "runtime")
    assert others
    for each in others:
        assert "rows are missing here (lost rows)" in each.because
        assert each.confidence != "high"


def test_what_the_profiler_missed_at_its_start_and_stop_is_not_lost() -> None:
    rows = running()
    cut = [row for row in rows if not (row["kind"] == "runtime" and row["correlation"] < 20)]
    cut = [row for row in cut if not (row["kind"] == "kernel" and row["correlation"] >= 180)]
    assert not found(trace(*cut), "lost rows")


def test_launches_that_a_graph_captures_are_not_lost() -> None:
    rows = running()
    begin, end = 50 * 100 * US, 90 * 100 * US
    rows = [row for row in rows if not (row["kind"] == "kernel" and 50 <= row["correlation"] < 90)]
    rows += [
        op("cudaStreamBeginCapture", begin, begin + US, "runtime", correlation=900),
        op("cudaStreamEndCapture", end, end + US, "runtime", correlation=901),
    ]
    assert not found(trace(*rows), "lost rows")
    assert found(trace(*rows[:-2]), "lost rows")


def test_a_warning_of_the_profiler_is_a_finding() -> None:
    ledger = Ledger(path="a.sqlite", format="nsys-sqlite")
    ledger.notes["profiler-warning-1"] = Note("profiler-warning-1", "Nsight Systems itself warned: events dropped", 1)
    finding = one(replace(trace(*running()), ledgers=(ledger,)), "lost rows")
    assert finding.claim == "Nsight Systems itself warned: events dropped"


@pytest.mark.parametrize("whole", [True, False])
def test_a_warning_that_rows_may_be_missing_counts_where_launches_lack_their_work(whole: bool) -> None:
    # Nsight Systems writes it whenever the program stops the recording itself.
    text = "Nsight Systems itself warned: Not all CUDA events might have been collected."
    ledger = Ledger(path="a.nsys-rep", format="nsys-report")
    ledger.notes["profiler-warning-1"] = Note("profiler-warning-1", text, 1)
    rows = [row for row in running() if whole or row["kind"] != "kernel" or row["correlation"] % 10 != 3]
    lost = found(replace(trace(*rows), ledgers=(ledger,)), "lost rows")
    assert bool(lost) is not whole
    few = found(replace(trace(*running(5)), ledgers=(ledger,)), "lost rows")
    assert few  # nothing shows that all is there


@pytest.mark.parametrize(
    ("text", "pieces", "confidence"),
    [
        ("CUDA profiling might have not been started correctly.", 5, None),  # that of another process
        ("CUDA profiling might have not been started correctly.", 0, "low"),
        ("Not all CUDA events might have been collected.", 5, "low"),
        ("Could not parse 2 CUPTI activity records.", 5, "high"),
        ("Could not parse 2 CUPTI activity records.", 200, None),  # two of four hundred
        ("Could not parse 1,200 CUPTI activity records.", 200, "high"),
        ("it failed", 200, "high"),
    ],
)
def test_a_warning_weighs_what_the_trace_shows_beside_it(text: str, pieces: int, confidence: str | None) -> None:
    ledger = Ledger(path="a.nsys-rep", format="nsys-report")
    ledger.notes["profiler-warning-1"] = Note("profiler-warning-1", text, 1)
    rows = running(pieces) or [op("evt", 0, 100 * US, "user_range")]
    lost = found(replace(trace(*rows), ledgers=(ledger,)), "lost rows")
    assert [each.confidence for each in lost] == ([] if confidence is None else [confidence])


def stages(busy: list[int]) -> list[Row]:
    """Four ranks that compute for so many us in each of 20 rounds, and pass their results on."""
    rows: list[Row] = []
    slowest = max(busy)
    for rank, us in enumerate(busy):
        own = {"pid": rank, "rank": rank, "tid": 7}
        for i in range(20):
            at = i * (slowest + 20) * US
            rows += [
                op("aten::mm", at, at + 10 * US, **own), call(2 * i, at + 5 * US, at + 9 * US, **own),
                op("c10d::send", at + 10 * US, at + 20 * US, **own), call(2 * i + 1, at + 15 * US, at + 19 * US, **own),
            ]  # fmt: skip
            placed = {"pid": rank, "rank": rank, "device": rank}
            rows += [
                work("gemm", 2 * i, at + 10 * US, at + (10 + us) * US, **placed),
                work("ncclDevKernel_SendRecv", 2 * i + 1, at + (10 + us) * US, at + (15 + slowest) * US, **placed),
            ]
    return rows


def test_stages_of_a_pipeline_that_are_unequal() -> None:
    finding = one(trace(*stages([100, 100, 220, 100])), "unequal stages")
    assert finding.owner == "rank 2"
    assert finding.saving_ns == 20 * (220 - 130) * US
    assert not found(trace(*stages([100, 103, 98, 100])), "unequal stages")
    exchange = [
        {**row, "name": "c10d::alltoall_"} if row["name"] == "c10d::send" else row for row in stages([100, 220])
    ]
    assert not found(trace(*exchange), "unequal stages")  # SendRecv is the kernel of an all-to-all too


def test_memory_that_is_taken_from_the_driver_in_each_round() -> None:
    rows: list[Row] = []
    for i in range(40):
        at = i * 100 * US
        rows += [
            op("cudaMalloc", at, at + 30 * US, "runtime", correlation=2 * i + 1000),
            op("aten::mm", at + 30 * US, at + 40 * US),
            call(i, at + 32 * US, at + 38 * US), work("gemm", i, at + 40 * US, at + 70 * US),
            op("cudaFree", at + 70 * US, at + 100 * US, "runtime", correlation=2 * i + 1001),
        ]  # fmt: skip
    finding = one(trace(*rows), "device allocation")
    # The first round begins with one as well: it is no start of the run.
    assert finding.claim.startswith("80 calls allocate or free")
    assert 0 < finding.saving_ns <= 80 * 30 * US
    assert not found(trace(*running()), "device allocation")

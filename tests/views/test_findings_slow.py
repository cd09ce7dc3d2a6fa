"""The rule about slow kernels: time above the floor, and never an alarm about what no device does better."""

from __future__ import annotations

from pathlib import Path

import pytest
from shaped_traces import BF, F32, ShapedTrace

import tracekit
from tracekit.model.report import Finding
from tracekit.views.base import ViewOptions

PEAK, BEST, MEMORY = 989.4e12, 794.5e12, 3350e9
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"


def findings(trace: ShapedTrace, folder: Path) -> dict[str, list[Finding]]:
    section = tracekit.view(tracekit.read(trace.write(folder)), "findings", options=ViewOptions())
    out: dict[str, list[Finding]] = {}
    for each in section.findings:
        out.setdefault(each.rule, []).append(each)
    return out


def run_of(
    shape: tuple[int, int, int], share: float, *, kernel: str = GEMM, calls: int = 20
) -> tuple[ShapedTrace, float]:
    """A run of products that reach this share of the peak, one after the other; and the ns that they could save."""
    m, n, k = shape
    floor = 2 * m * n * k / PEAK * 1e9
    trace = ShapedTrace(back_to_back=True)
    for _ in range(calls):
        trace.op("aten::mm", ([m, k], BF), ([k, n], BF), us=floor / share / 1e3, kernel=kernel)
    return trace, calls * floor * (1 / share - 1)


@pytest.mark.parametrize("share", [0.2, 0.35, 0.5])
def test_the_bound_is_the_time_above_the_floor(tmp_path: Path, share: float) -> None:
    trace, could_save = run_of((4096, 4096, 4096), share)
    (found,) = findings(trace, tmp_path)["slow kernel"]
    assert found.saving_ns == pytest.approx(could_save, rel=0.01)
    assert found.confidence == "high"
    assert found.claim.startswith("aten::mm of 4096x4096x4096 takes ")
    assert f"{100 * share:.2f} % of the bf16 peak" in found.claim
    assert f"{100 * share * PEAK / BEST:.2f} % of the best measured" in found.claim


def test_a_fix_does_not_ask_for_what_is_already_so(tmp_path: Path) -> None:
    even, _ = run_of((4096, 4096, 4096), 0.3)
    uneven, _ = run_of((4096, 4096, 4104), 0.3)
    (good,), (odd,) = findings(even, tmp_path)["slow kernel"], findings(uneven, tmp_path)["slow kernel"]
    assert "multiples" not in good.advice
    assert "multiples of 64" in odd.advice
    for depth in (128, 72):
        trace = ShapedTrace(back_to_back=True)
        heads = ([2, 32, 2048, depth], BF)
        for _ in range(20):
            trace.op("aten::_scaled_dot_product_flash_attention", heads, heads, heads, "0.", "False", "False", "0.1",
                     us=1000.0, kernel="flash_fwd_kernel")  # fmt: skip
        (found,) = findings(trace, tmp_path)["slow kernel"]
        assert ("heads of 64 or 128" in found.advice) is (depth == 72)


@pytest.mark.parametrize("share", [0.66, 0.8, 0.95, 1.04])
def test_no_alarm_about_a_kernel_near_the_best_that_was_measured(tmp_path: Path, share: float) -> None:
    trace, _ = run_of((4096, 4096, 4096), share)
    found = findings(trace, tmp_path)
    assert "slow kernel" not in found
    assert "expensive kernel" not in found  # how far it is from the limit is known


FP32 = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8"


@pytest.mark.parametrize("shape", [(8192, 8192, 8192), (8192, 64, 64)])
def test_fp32_products_save_the_time_above_their_floor_in_16_bits(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    trace = ShapedTrace(back_to_back=True)
    for _ in range(20):
        trace.op("aten::mm", ([m, k], F32), ([k, n], F32), us=21_000, kernel=FP32)
    (found,) = findings(trace, tmp_path)["fp32 arithmetic"]
    floor = max(2 * m * n * k / PEAK, 2 * (m * k + k * n + m * n) / MEMORY) * 1e9
    assert found.saving_ns == pytest.approx(20 * (21e6 - floor), rel=1e-6)
    assert found.confidence == "medium"
    assert "In 16 bits, this device could do this work in " in found.claim


def test_fp32_products_without_shapes_may_save_all_of_their_time(tmp_path: Path) -> None:
    trace = ShapedTrace(back_to_back=True)
    for _ in range(20):
        trace.op("aten::mm", ([8192, 8192], F32), ([8192, 8192], F32), us=21_000, kernel=FP32)
        trace.op("aten::mm", us=21_000, kernel=FP32)
    (found,) = findings(trace, tmp_path)["fp32 arithmetic"]
    floor = 2 * 8192**3 / PEAK * 1e9
    assert found.saving_ns == pytest.approx(20 * (2 * 21e6 - floor), rel=1e-6)
    assert found.confidence == "low"
    assert "the known part of this work" in found.claim
    assert "no time where their shapes are not known" in found.because


def test_no_alarm_about_work_that_is_nearly_nothing(tmp_path: Path) -> None:
    trace, _ = run_of((128, 128, 128), 0.01, calls=400)
    assert "slow kernel" not in findings(trace, tmp_path)


def test_no_alarm_without_a_known_peak_or_precision(tmp_path: Path) -> None:
    trace = ShapedTrace({"id": 0, "name": "NVIDIA Thor", "numSms": 20}, back_to_back=True)
    for _ in range(20):
        trace.op("aten::mm", ([4096, 4096], BF), ([4096, 4096], BF), us=5000.0, kernel=GEMM)
    found = findings(trace, tmp_path)
    assert "slow kernel" not in found
    assert "expensive kernel" in found  # it remains for what is unknown
    unnamed = ShapedTrace(back_to_back=True)
    for _ in range(20):
        unnamed.op("aten::mm", ([4096, 4096], F32), ([4096, 4096], F32), us=5000.0, kernel="nvjet_sss")
    assert "slow kernel" not in findings(unnamed, tmp_path)


def test_a_device_that_is_found_by_its_size_makes_it_less_sure(tmp_path: Path) -> None:
    unnamed = {"id": 0, "name": "", "totalGlobalMem": 206141652992, "computeMajor": 9, "computeMinor": 4, "numSms": 304}
    trace = ShapedTrace(unnamed, back_to_back=True)
    for _ in range(20):
        trace.op("aten::mm", ([4096, 4096], BF), ([4096, 4096], BF), us=900.0, kernel="Cijk_Ailk_Bljk_BBS")
    (found,) = findings(trace, tmp_path)["slow kernel"]
    assert found.confidence == "medium"


def test_a_lookup_is_no_bound_so_there_is_no_alarm(tmp_path: Path) -> None:
    trace = ShapedTrace(back_to_back=True)
    for _ in range(20):
        trace.op("aten::embedding", ([50_000, 4096], BF), ([65_536], "long int"), "-1", us=4000.0)
    assert "slow kernel" not in findings(trace, tmp_path)


def slow_claims(trace: ShapedTrace, folder: Path) -> str:
    return " ".join(each.claim for each in findings(trace, folder)["slow kernel"])


def test_the_likely_reason_is_named(tmp_path: Path) -> None:
    odd, _ = run_of((4096, 4099, 4096), 0.2)
    assert "4,099 is no multiple of 8" in slow_claims(odd, tmp_path)
    few, _ = run_of((4096, 4096, 4096), 0.2)
    for event in few.events:
        if event["cat"] == "kernel":
            event["args"] |= {"grid": [16, 1, 1]}  # type: ignore[operator]
    assert "16 blocks for 132 multiprocessors" in slow_claims(few, tmp_path)
    converted = ShapedTrace(back_to_back=True)
    x, w = ([64, 256, 56, 56], BF), ([256, 256, 3, 3], BF)
    for _ in range(20):
        converted.begin("aten::convolution", x, w, ([], ""), "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")
        converted.kernel(400.0, "void cudnn::nchwToNhwcKernel<__half>")
        converted.kernel(900.0, "sm90_xmma_fprop_implicit_gemm_bf16bf16")
        converted.end()
    assert "Kernels that convert the layout take 30.77 % of its time" in slow_claims(converted, tmp_path)
    plain = ShapedTrace(back_to_back=True)
    for _ in range(20):
        plain.op("aten::mm", ([4096, 4096], F32), ([4096, 4096], F32), us=9000.0, kernel="ampere_sgemm_128x64_tn")
    assert "fp32 on the plain cores" in slow_claims(plain, tmp_path)


def test_memory_bound_work_is_held_against_the_bandwidth(tmp_path: Path) -> None:
    trace = ShapedTrace(back_to_back=True)
    scores = ([8, 12, 3137, 3137], BF)
    for _ in range(12):
        trace.op("aten::_softmax", scores, "-1", "False", us=5700.0, kernel="cunn_SoftMaxForward")
    (found,) = findings(trace, tmp_path)["slow kernel"]
    floor = 2 * 2 * 8 * 12 * 3137 * 3137 / MEMORY * 1e9
    assert found.saving_ns == pytest.approx(12 * (5_700_000 - floor), rel=0.01)
    assert "of the memory bandwidth" in found.claim
    assert "scaled_dot_product_attention" in found.advice


def test_time_that_hides_behind_other_work_does_not_count(tmp_path: Path) -> None:
    trace, could_save = run_of((4096, 4096, 4096), 0.5)
    hidden = ShapedTrace(back_to_back=True)
    hidden.events = [dict(each) for each in trace.events]
    kernels = [each for each in hidden.events if each["cat"] == "kernel"]
    first, last = float(str(kernels[0]["ts"])), float(str(kernels[-1]["ts"])) + float(str(kernels[-1]["dur"]))
    call = {"External id": 9999, "correlation": 9999, "cbid": 211}
    hidden.events.insert(0, {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7,
                             "ts": 1000.0, "dur": 0.5, "args": call})  # fmt: skip
    work = {"correlation": 9999, "device": 0, "stream": 9, "context": 1, "grid": [132, 1, 1], "block": [128, 1, 1]}
    hidden.events.append({"ph": "X", "cat": "kernel", "name": "other", "pid": 0, "tid": 9, "ts": first,
                          "dur": last - first, "args": work})  # fmt: skip
    bounds = [each.saving_ns for each in findings(hidden, tmp_path).get("slow kernel", [])]
    assert max(bounds, default=0) < 0.1 * could_save

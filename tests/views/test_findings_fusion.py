"""The rule about elementwise kernels that one kernel could do: bytes of their intermediate results, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from shaped_traces import BF, F32, ShapedTrace

import tracekit
from tracekit.index.fusion_chains import fusion_chains
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Finding
from tracekit.views.base import ViewOptions

RULE = "unfused elementwise kernels"
BANDWIDTH = 3350e9
SIDE = 8192
BIG, SMALL = [SIDE, SIDE], [1024, 1024]
Step = tuple[str, tuple[tuple[list[int], str], ...], int]
"""An operator, its operands, and how many tensors it reads and writes."""


def trace_of(*steps: Step, share: float = 0.9, rounds: int = 10, apart: bool = False) -> ShapedTrace:
    """Rounds of a large product and these operators at a share of the bandwidth, one after the other."""
    trace = ShapedTrace(back_to_back=True)
    for _ in range(rounds):
        gemm(trace)
        for name, operands, moved in steps:
            dims, dtype = operands[0]
            size = dims[0] * dims[1] * (4 if dtype == F32 else 2)
            trace.op(name, *operands, us=moved * size / BANDWIDTH * 1e6 / share, kernel="elementwise_kernel")
            if apart:
                gemm(trace)
    return trace


def gemm(trace: ShapedTrace) -> None:
    square = ([4096, 4096], BF)
    trace.op("aten::mm", square, square, us=170.0, kernel="sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64")


def found_in(trace: ShapedTrace, folder: Path) -> list[Finding]:
    section = tracekit.view(tracekit.read(trace.write(folder)), "findings", options=ViewOptions())
    return [each for each in section.findings if each.rule == RULE]


X, HALF = (BIG, BF), (SMALL, BF)
CHAIN: tuple[Step, ...] = (("aten::mul", (X, X), 3), ("aten::sigmoid", (X,), 2), ("aten::neg", (X,), 2))


@pytest.mark.parametrize("share", [0.5, 0.8, 1.0])
def test_the_bound_is_the_intermediate_results_at_the_rate_of_the_kernels(tmp_path: Path, share: float) -> None:
    (found,) = found_in(trace_of(*CHAIN, share=share), tmp_path)
    # Seven tensors were moved, and one kernel moves three of them.
    assert found.saving_ns == pytest.approx(10 * 4 * SIDE * SIDE * 2 / BANDWIDTH * 1e9 / share, rel=0.001)
    assert found.confidence == "medium"
    assert "30 elementwise kernels in 10 chains" in found.claim
    assert "aten::mul, aten::sigmoid, aten::neg of 8192x8192 (10 chains)" in found.claim
    assert "2.50 GiB" in found.claim


def test_small_results_and_operands_that_could_be_other_tensors_are_less_sure(tmp_path: Path) -> None:
    small: tuple[Step, ...] = (("aten::mul", (([4096, 4096], BF), ([4096, 4096], BF)), 3),
                               ("aten::sigmoid", (([4096, 4096], BF),), 2))  # fmt: skip
    (cached,) = found_in(trace_of(*small), tmp_path)
    assert cached.confidence == "low"  # 32 MiB may have stayed in the cache
    (two,) = found_in(trace_of(("aten::sigmoid", (X,), 2), ("aten::mul", (X, X), 3)), tmp_path)
    assert two.confidence == "low"


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("another shape", (("aten::sigmoid", (X,), 2), ("aten::neg", (([4096, 16384], BF),), 2))),
        ("another datatype", (("aten::sigmoid", (X,), 2), ("aten::neg", ((BIG, F32),), 2))),
        ("in place, one tensor after the other", (("aten::add_", (X, X), 3), ("aten::add_", (X, X), 3))),
        ("one alone", (("aten::sigmoid", (X,), 2),)),
        ("a reduction after it", (("aten::sigmoid", (X,), 2), ("aten::sum", (X,), 1))),
    ],
)
def test_operators_that_do_not_feed_each_other_are_no_chain(tmp_path: Path, name: str, steps: tuple[Step, ...]) -> None:
    assert found_in(trace_of(*steps), tmp_path) == [], name


def test_what_runs_between_two_kernels_ends_the_chain(tmp_path: Path) -> None:
    assert found_in(trace_of(*CHAIN, apart=True), tmp_path) == []


def test_kernels_that_memory_does_not_limit_are_no_chain(tmp_path: Path) -> None:
    assert found_in(trace_of(*CHAIN, share=0.2), tmp_path) == []
    assert found_in(trace_of(*CHAIN, share=1.5), tmp_path) == []  # in the cache


def test_a_chain_below_two_percent_of_the_window_is_none(tmp_path: Path) -> None:
    tiny: tuple[Step, ...] = (("aten::mul", (HALF, HALF), 3), ("aten::sigmoid", (HALF,), 2))
    trace = trace_of(*tiny)
    assert found_in(trace, tmp_path) == []
    chains = fusion_chains(TraceIndex(tracekit.read(trace.write(tmp_path))))
    assert chains is not None
    assert chains.count == 10
    assert chains.between.sum() == 10 * 1024 * 1024 * 2


@pytest.mark.parametrize(
    ("strides", "chains"),
    [([SIDE, 1], 10), ([1, SIDE], 10), ([2 * SIDE, 1], 0), ([0, 1], 0)],
    ids=["in order", "transposed", "a part of a larger tensor", "expanded"],
)
def test_an_operand_with_gaps_is_no_new_result(tmp_path: Path, strides: list[int], chains: int) -> None:
    trace = trace_of(("aten::sigmoid", (X,), 2), ("aten::neg", (X,), 2))
    for event in trace.events:
        if event["name"] == "aten::neg":
            event["args"] |= {"Input Strides": [strides]}  # type: ignore[operator]
    found = fusion_chains(TraceIndex(tracekit.read(trace.write(tmp_path))))
    assert found is not None
    assert found.count == chains


def test_streams_have_chains_of_their_own(tmp_path: Path) -> None:
    trace = trace_of(("aten::sigmoid", (X,), 2), ("aten::neg", (X,), 2))
    streams = {"elementwise_kernel": iter([7, 9] * 10)}
    for event in trace.events:
        if event["cat"] == "kernel" and event["name"] in streams:
            event["args"] |= {"stream": next(streams[str(event["name"])])}  # type: ignore[operator]
            event["tid"] = event["args"]["stream"]  # type: ignore[index]
    chains = fusion_chains(TraceIndex(tracekit.read(trace.write(tmp_path))))
    assert chains is not None
    # On the second stream one follows the other, but none reads the shape and comes from the same place:
    # neg after neg of another round is found there, sigmoid before a product is not.
    kinds = {chains.units.groups[int(each)].call.name for each in chains.units.group[chains.unit]}
    assert kinds <= {"aten::neg"}


def test_without_shapes_or_a_known_device_the_rule_says_what_it_needs(tmp_path: Path) -> None:
    trace = trace_of(*CHAIN)
    trace.device = {"id": 0, "name": "NVIDIA Thor", "numSms": 20}
    section = tracekit.view(tracekit.read(trace.write(tmp_path)), "findings", options=ViewOptions())
    assert any(f"{RULE} (needs shapes of elementwise operators" in note for note in section.notes)

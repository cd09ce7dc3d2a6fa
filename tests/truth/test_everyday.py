"""Programs as people write them: each ill is named first with savings that hold, and its healthy twin has no alarm."""

from __future__ import annotations

import pytest

from benchmarks.truth.score import healthy_case, ill_case

_ILLS = (
    # A read with pinned memory is a wait, not a tiny copy; more Python behind it than it costs comes first.
    ("graph replays, a read and 0.6 ms between", "kineto-sync"),
    ("graph replays in steps, a read and 0.8 ms between", "nvprof"),
    # A pause in the first step, as later steps have it, is no warm-up.
    ("garbage collection without a row", "kineto-api"),
    # A checkpoint copies what it then writes.
    ("torch.save in a range every fifth step", "nsys"),
    # The first round allocates before the first work, as each later one does.
    ("empty_cache each step", "kineto-bare"),
    ("cudaMalloc in each step", "nvprof"),
    # Without operators, the part of .tolist() before its copy is no row.
    ("decode of short kernels, .tolist() of each token", "nvprof"),
    # The idle time from one collective to the next goes with them.
    ("gradients reduced in 30 pieces", "kineto-api"),
    ("a loader without a range starves every 4th batch", "kineto-sync"),
    ("a rank whose loader is slow", "nsys"),
)


@pytest.mark.parametrize(("name", "variant"), _ILLS)
def test_an_ill_of_an_everyday_program_is_named_first(name: str, variant: str) -> None:
    outcome = ill_case(name, variant, 1)
    assert outcome.place == 1
    assert not outcome.alarms
    assert 0.98 <= outcome.shown / outcome.true <= 1.25


@pytest.mark.parametrize(
    "name", ["decode, a read each 16 tokens", "graph replays with a read each", "blocks taken in the first step"]
)
def test_a_healthy_program_like_it_has_no_alarm(name: str) -> None:
    assert not healthy_case(name, "kineto-sync", 1).alarms


@pytest.mark.parametrize("variant", ["kineto-api", "nvprof"])
def test_products_in_fp32_come_before_the_kernel_that_computes_them(variant: str) -> None:
    outcome = ill_case("fp32 products", variant, 1)
    assert outcome.place == 1
    kernel = next(each for each in outcome.findings if each.rule == "expensive kernel")
    assert kernel.part_of == "fp32 arithmetic"

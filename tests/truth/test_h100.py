"""Programs recorded on an H100, each with a planted ill: it is named first, and its savings were gained.

`h100/` has a trace of each program (PyTorch 2.11, 4 steps), and `record.py`, which has the programs. `facts.json` has
the mean time of their steps with and without the ill: of 3 runs of 10 to 30 steps without a profiler, and of the
profiled steps.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

import tracekit
from tracekit.model.report import Headline
from tracekit.views.base import ViewOptions

FOLDER = Path(__file__).with_name("h100")
FACTS = json.loads((FOLDER / "facts.json").read_text(encoding="utf-8"))["ills"]
STEPS = 4

_ILLS = {
    # ill: (rule, what the first sentence says)
    "checkpoint": ("host pauses", "the host pauses"),
    "cpu_sort": ("long operator", "one operator holds up the host"),
    "empty_cache": ("device allocation", "memory is allocated in between"),
    "few_blocks": ("slow kernel", "is busy"),
    "fp32": ("fp32 arithmetic", "is busy"),
    "launch": ("launch-bound", "the host launches too late"),
    "loader": ("data loading", "it waits for data"),
    "odd_sizes": ("slow kernel", "is busy"),
    "pageable": ("pageable copies", "pageable memory slows the copies"),
    "sync_item": ("needless synchronization", "the host waits for results"),
    "unfused": ("unfused elementwise kernels", "is busy"),
}
_ABOVE = {
    # The kernel of the warm-up has no launch in the trace, so no shape: all of its time counts.
    "fp32": 1.35,
}
_BELOW = {
    # The graph that cures it also saves the latency from each launch to its kernel.
    "launch": 0.8,
    # Without the ill, memory comes from the cache without any call: allocations cost the host more than these calls.
    "empty_cache": 0.9,
}


def gained(name: str) -> int:
    facts = FACTS[name]
    gain: int = facts["profiled_step_ns"] - facts["profiled_cured_step_ns"]
    return gain


@cache
def headline_of(name: str) -> Headline:
    found = tracekit.summary(FOLDER / f"{name}.json.gz").headline
    assert found is not None
    return found


@pytest.mark.parametrize("name", _ILLS)
def test_the_ill_is_named_first_and_its_savings_were_gained(name: str) -> None:
    rule, sentence = _ILLS[name]
    headline = headline_of(name)
    first = tracekit.view(FOLDER / f"{name}.json.gz", "findings", options=ViewOptions()).findings[0]
    assert first.rule == rule
    assert _BELOW.get(name, 1.0) <= first.saving_ns / STEPS / gained(name) <= _ABOVE.get(name, 1.25)
    assert headline.opening is not None
    assert sentence in headline.opening.sentence


@pytest.mark.parametrize("name", sorted({*_ILLS} - {"checkpoint"}))
def test_the_time_of_a_step_is_that_of_the_clock(name: str) -> None:
    step = headline_of(name).step
    assert step is not None
    assert step.median_ns == pytest.approx(FACTS[name]["profiled_step_ns"], rel=0.1)


@pytest.mark.parametrize("name", ["fp32", "healthy", "few_blocks", "odd_sizes"])
def test_work_of_the_warm_up_is_not_counted_into_the_first_step(name: str) -> None:
    step = headline_of(name).step
    assert step is not None
    assert step.p95_ns < 1.15 * step.median_ns


def test_a_bound_of_the_floor_holds_where_a_fix_gains_a_part_of_it() -> None:
    # channels_last gains half of what the device could do.
    first = headline_of("layout").findings[0]
    assert first.rule == "slow kernel"
    assert first.saving_ns / STEPS >= gained("layout")


def test_the_program_without_an_ill_has_no_alarm() -> None:
    headline = headline_of("healthy")
    assert all(each.share < 0.05 or each.confidence == "low" for each in headline.findings)
    assert headline.opening is not None
    assert "is busy 97 % of each step" in headline.opening.sentence

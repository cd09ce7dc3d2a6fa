"""The state of each step, as Paddle's profiler.py computes it, and as the examples of its guide describe it."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.profiler.paddle import Profiler, ProfilerState, make_scheduler

RECORDING = {ProfilerState.RECORD, ProfilerState.RECORD_AND_RETURN}


def windows(state_of, steps: int = 60) -> list[tuple[int, int]]:
    """The recorded ranges, both ends included, each ended by a RECORD_AND_RETURN."""
    found = []
    for is_recording, group in groupby(range(steps), key=lambda step: state_of(step) in RECORDING):
        numbers = list(group)
        if is_recording:
            returns = [step for step in numbers if state_of(step) is ProfilerState.RECORD_AND_RETURN]
            begin = numbers[0]
            for end in returns:
                found.append((begin, end))
                begin = end + 1
    return found


def test_the_examples_of_the_document() -> None:
    assert windows(make_scheduler(closed=1, ready=1, record=4, repeat=1)) == [(2, 5)]
    assert windows(make_scheduler(closed=1, ready=1, record=4, repeat=3)) == [(2, 5), (8, 11), (14, 17)]
    assert windows(make_scheduler(closed=1, ready=1, record=4, skip_first=1))[:3] == [(3, 6), (9, 12), (15, 18)]


def test_one_recorded_step_is_the_last_one_at_once() -> None:
    state_of = make_scheduler(closed=1, ready=1, record=1)
    assert ProfilerState.RECORD not in {state_of(step) for step in range(30)}


@given(
    closed=st.integers(0, 4), ready=st.integers(1, 4), record=st.integers(1, 5), repeat=st.integers(0, 4),
    skip_first=st.integers(0, 5), step=st.integers(0, 120),
)  # fmt: skip
def test_every_step_has_the_state_of_the_table(closed, ready, record, repeat, skip_first, step) -> None:
    state_of = make_scheduler(closed=closed, ready=ready, record=record, repeat=repeat, skip_first=skip_first)
    cycle = [ProfilerState.CLOSED] * closed + [ProfilerState.READY] * ready
    cycle += [ProfilerState.RECORD] * (record - 1) + [ProfilerState.RECORD_AND_RETURN]
    rounds = repeat or 200
    whole = [ProfilerState.CLOSED] * skip_first + cycle * rounds + [ProfilerState.CLOSED] * 200
    assert state_of(step) is whole[step]


@pytest.mark.parametrize("wrong", [{"closed": -1}, {"ready": -1}, {"record": 0}, {"repeat": -1}, {"skip_first": -1}])
def test_wrong_numbers_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(AssertionError, match="Invalid profiler scheduler arguments"):
        make_scheduler(**({"closed": 1, "ready": 1, "record": 1} | wrong))
    with pytest.raises(TypeError):
        make_scheduler(1, 1, 1)  # type: ignore[misc]
    with pytest.raises(AssertionError):
        make_scheduler(closed=1, ready=1, record=1)(-1)


def test_recording_without_getting_ready_warns() -> None:
    with pytest.warns(UserWarning, match="noisy"):
        make_scheduler(closed=1, ready=0, record=1)


@pytest.mark.parametrize(("told", "expected"), [((2, 10), [(2, 9)]), ([3, 14], [(3, 13)]), ((1, 2), [(1, 1)])])
def test_a_pair_is_a_half_open_range(told, expected) -> None:
    assert windows(Profiler(scheduler=told, on_trace_ready=print).scheduler) == expected


@pytest.mark.filterwarnings("ignore:Profiler will record data")
@pytest.mark.parametrize("told", [(0, 3), (-5, 3)])
def test_a_range_from_the_first_step_starts_at_once(told) -> None:
    with pytest.warns(UserWarning, match="noisy"):
        profiler = Profiler(scheduler=told, on_trace_ready=print)
    assert windows(profiler.scheduler) == [(0, 2)]
    assert profiler.current_state is ProfilerState.RECORD


@pytest.mark.parametrize("told", [(1, 2, 3), (5, 5), (7, 3), [4]])
def test_a_pair_that_is_no_range_is_refused(told) -> None:
    with pytest.raises(AssertionError):
        Profiler(scheduler=told, on_trace_ready=print)


def test_a_range_that_ends_before_the_first_step_is_refused() -> None:
    with pytest.raises(AssertionError, match="Invalid profiler scheduler arguments"):
        Profiler(scheduler=(-7, -2), on_trace_ready=print)


def test_without_a_scheduler_all_is_recorded() -> None:
    profiler = Profiler(on_trace_ready=print)
    assert {profiler.scheduler(step) for step in range(50)} == {ProfilerState.RECORD}

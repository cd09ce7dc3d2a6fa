"""The states of Paddle's scheduler, by upstream's rules and the seeds' examples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.recorder._schedule import ProfilerState, always_record, make_scheduler, scheduler_of

RECORDING = (ProfilerState.RECORD, ProfilerState.RECORD_AND_RETURN)


def windows(schedule, steps: int = 40) -> list[tuple[int, int]]:
    found, begun = [], None
    for step in range(steps):
        state = schedule(step)
        if state in RECORDING and begun is None:
            begun = step
        if state is ProfilerState.RECORD_AND_RETURN:
            found.append((begun, step))
            begun = None
    return found


def test_the_examples_of_the_documentation() -> None:
    assert windows(make_scheduler(closed=1, ready=1, record=4, repeat=1)) == [(2, 5)]
    assert windows(make_scheduler(closed=1, ready=1, record=4, repeat=3)) == [(2, 5), (8, 11), (14, 17)]
    assert windows(make_scheduler(closed=1, ready=1, record=4, skip_first=1))[:2] == [(3, 6), (9, 12)]
    assert ProfilerState.RECORD not in map(make_scheduler(closed=0, ready=1, record=1), range(20))


@given(*[st.integers(0, 5)] * 2, st.integers(1, 5), st.integers(0, 4), st.integers(0, 5), st.integers(0, 200))
@pytest.mark.filterwarnings("ignore:Profiler will record")
def test_each_step_has_the_state_that_the_table_gives(
    closed: int, ready: int, record: int, repeat: int, skip: int, step: int
) -> None:
    state = make_scheduler(closed=closed, ready=ready, record=record, repeat=repeat, skip_first=skip)(step)
    cycle = ["CLOSED"] * closed + ["READY"] * ready + ["RECORD"] * (record - 1) + ["RECORD_AND_RETURN"]
    line = ["CLOSED"] * skip + cycle * (repeat or 300)
    assert state.name == (line[step] if step < len(line) else "CLOSED")


@pytest.mark.parametrize(
    "bad", [{"closed": -1}, {"ready": -1}, {"record": 0}, {"record": -3}, {"repeat": -1}, {"skip_first": -1}]
)
def test_bad_counts_are_refused_as_upstream_refuses_them(bad: dict[str, int]) -> None:
    with pytest.raises(AssertionError, match="Invalid profiler scheduler arguments"):
        make_scheduler(**{"closed": 1, "ready": 1, "record": 1, **bad})
    with pytest.raises(AssertionError):
        make_scheduler(closed=1, ready=1, record=1)(-1)


def test_without_a_ready_step_it_warns() -> None:
    with pytest.warns(UserWarning, match="noisy"):
        assert windows(scheduler_of((0, 3))) == [(0, 2)]


def test_what_a_profiler_may_be_given() -> None:
    assert windows(scheduler_of([3, 5])) == [(3, 4)]
    assert [scheduler_of((3, 5))(step).value for step in range(6)] == [0, 0, 1, 2, 3, 0]
    assert scheduler_of(None) is always_record
    assert always_record(7) is ProfilerState.RECORD
    assert scheduler_of(always_record) is always_record
    with pytest.warns(UserWarning, match="noisy"):
        assert windows(scheduler_of((-2, 2))) == [(0, 1)]
    for bad in ((1,), (1, 2, 3), (3, 3), (4, 2)):
        with pytest.raises(AssertionError, match="is not"):
            scheduler_of(bad)
    with pytest.raises(AssertionError, match="Invalid"):
        scheduler_of((-3, 0))
    with pytest.raises(TypeError, match="not int"):
        scheduler_of(7)  # type: ignore[arg-type]

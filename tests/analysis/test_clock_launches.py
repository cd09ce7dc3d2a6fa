"""The clock of a device from launches and waits: simulated programs whose clocks are known."""

from __future__ import annotations

import doctest
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tracekit.analysis.clocks import bounds
from tracekit.analysis.clocks.bounds import OPEN, DeviceClock, LaunchCalls, LaunchedRows, device_clock, solve

BASE = 1_790_000_000_000_000_000


def program(
    seed: int, *, count: int = 400, seconds: float = 2.0, syncs: bool = True, copies: bool = True
) -> tuple[LaunchCalls, LaunchedRows]:
    """One stream: launches with delays of 3 us and more, waits for the device, copies to the host. One true clock."""
    rng = np.random.default_rng(seed)
    at, free = 0, 0
    calls: list[tuple[int, int, int, bool, bool]] = []
    work: list[tuple[int, int, int, bool]] = []
    for key in range(count):
        at += int(rng.exponential(seconds * 1e9 / count))
        start = at
        begin = max(start + 3_000 + int(rng.exponential(4_000)), free)
        free = begin + int(rng.exponential(200_000)) + 500
        to_host = copies and rng.random() < 0.05
        at += 4_000
        if to_host:
            at = max(at, free + 2_000 + int(rng.exponential(3_000)))
        calls.append((key, start, at, False, bool(to_host)))
        work.append((key, begin, free, bool(to_host)))
        if syncs and rng.random() < 0.05:
            start = at + 500
            at = max(start + 1_000, free + 2_000 + int(rng.exponential(5_000)))
            calls.append((count + key, start, at, True, False))
    keys, starts, ends, all_work, own_work = (np.array(column) for column in zip(*calls, strict=True))
    made = LaunchCalls(keys, starts + BASE, ends + BASE, all_work, own_work)
    keys, starts, ends, to_hosts = (np.array(column) for column in zip(*work, strict=True))
    return made, LaunchedRows(keys, starts + BASE, ends + BASE, to_hosts)


def shown(work: LaunchedRows, offset: int, drift: float) -> LaunchedRows:
    """The work as a device shows it whose clock is ahead by `offset`, and gains `drift` ns in each ns."""
    ahead = [offset + np.rint(drift * (times - BASE)).astype(np.int64) for times in (work.starts, work.ends)]
    return LaunchedRows(work.keys, work.starts + ahead[0], work.ends + ahead[1], work.to_host)


def found(calls: LaunchCalls, work: LaunchedRows) -> DeviceClock:
    made = device_clock(calls, work)
    assert made is not None
    return made


@pytest.mark.parametrize("drift", [0.0, 30e-6, -120e-6])
def test_the_truth_is_always_inside(drift: float) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        offset = int(rng.integers(-(10**10), 10**10))
        calls, work = program(seed, syncs=seed % 3 != 0, copies=seed % 2 == 0)
        clock = found(calls, shown(work, offset, drift))
        assert clock.bounds is not None
        truth = offset + round(drift * (clock.bounds.middle - BASE))
        assert clock.bounds.low - 1 <= truth <= clock.bounds.high + 1
        assert clock.bounds.slowest <= drift <= clock.bounds.fastest
        assert clock.pairs == 400
        if not drift and clock.waits:
            assert clock.bounds.high - clock.bounds.low < 200_000


CALLS = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from([4, 19, 20, 21, 60]), st.booleans(), st.booleans()), max_size=6
)
WORK = st.lists(st.tuples(st.integers(0, 7), st.integers(-30, 90), st.integers(0, 60), st.booleans()), max_size=8)


@settings(max_examples=300, deadline=None)
@given(CALLS, WORK, st.sampled_from([0, 3_000]), st.permutations(range(6)))
@example([(0, 20, False, True)], [(0, 5, 20, True)], 0, list(range(6)))
def test_it_is_what_each_launch_and_each_wait_says(
    drawn_calls: list[tuple[int, int, bool, bool]],
    drawn_work: list[tuple[int, int, int, bool]],
    slack: int,
    keys: list[int],
) -> None:
    """Times are drawn in us, so that ends and begins meet. Keys 6 and 7 are of no call."""
    calls = [
        (key, BASE + start * 10_000, BASE + start * 10_000 + length * 1_000, *waits)
        for key, (start, length, *waits) in zip(keys, drawn_calls, strict=False)
    ]
    work = [(key, BASE + at * 1_000, BASE + (at + length) * 1_000, copy) for key, at, length, copy in drawn_work]
    call_of = {key: rest for key, *rest in calls}
    # How far the device's clock is ahead at most, and at least, at which times.
    most = [(call_of[key][0], start - call_of[key][0]) for key, start, _, _ in work if key in call_of]
    least = [
        (call_of[key][1], end - call_of[key][1]) for key, _, end, copy in work if copy and call_of.get(key, [0] * 4)[3]
    ]
    waited = {key for key, _, _, copy in work if copy and call_of.get(key, [0] * 4)[3]}
    for key, start, end, all_work, _ in calls:
        ended = [last for each, _, last, _ in work if each in call_of and call_of[each][1] <= start]
        if all_work and end - start >= 20_000 and ended:
            least.append((end, max(ended) - end))
            waited.add(key)

    made = device_clock(LaunchCalls(*columns(calls, 5)), LaunchedRows(*columns(work, 4)), slack)
    if not most:
        assert made is None
        return
    assert made is not None
    assert made.pairs == len(most)
    assert made.calls == len({key for key, *_ in work if key in call_of})
    assert made.waits == len(waited)
    assert made.early == sum(ahead < -slack for _, ahead in most)
    assert made.late == sum(ahead > slack for _, ahead in least)
    lows, highs = ([ahead for _, ahead in each] for each in (least, most))
    shifts = [0, *(slack - ahead for ahead in lows), *(-slack - ahead for ahead in highs)]
    repairs = [
        by for by in shifts if all(low + by <= slack for low in lows) and all(high + by >= -slack for high in highs)
    ]
    assert made.least_shift == min(repairs, key=abs, default=None)
    rows = [(at, -OPEN, ahead) for at, ahead in most] + [(at, ahead, OPEN) for at, ahead in least]
    assert made.bounds == solve(*columns(rows, 3), slack)


def columns(rows: Sequence[Sequence[int]], count: int) -> list[Any]:
    """The columns of rows: flags as booleans, everything else as int64."""
    values = list(zip(*rows, strict=True)) or [()] * count
    return [np.array(each, np.bool_ if each and isinstance(each[0], bool) else np.int64) for each in values]


def test_examples_of_the_documentation() -> None:
    outcome = doctest.testmod(bounds)
    assert outcome.attempted >= 1
    assert outcome.failed == 0


def test_a_right_clock_needs_no_shift() -> None:
    calls, work = program(1)
    clock = found(calls, work)
    assert (clock.early, clock.late, clock.least_shift) == (0, 0, 0)


def test_the_least_shift_repairs_and_a_smaller_one_does_not() -> None:
    for seed, offset in ((1, -700_000), (2, -5_000), (3, 2_000_000), (4, -4_000)):
        calls, work = program(seed)
        off = shown(work, offset, 0.0)
        clock = found(calls, off)
        assert clock.least_shift is not None
        assert abs(clock.least_shift) <= abs(offset)
        assert clock.early + clock.late > 0
        repaired = found(calls, shown(off, clock.least_shift, 0.0))
        assert (repaired.early, repaired.late, repaired.least_shift) == (0, 0, 0)
        less = clock.least_shift - (1 if clock.least_shift > 0 else -1)
        almost = found(calls, shown(off, less, 0.0))
        assert almost.early + almost.late > 0


def test_a_clock_that_drifts_far_needs_more_than_a_shift() -> None:
    calls, work = program(5, seconds=20.0)
    clock = found(calls, shown(work, 0, 150e-6))
    assert clock.least_shift is None
    assert clock.bounds is not None
    assert not clock.bounds.steady
    assert 0 < clock.bounds.slowest <= 150e-6 <= clock.bounds.fastest


def test_without_waits_only_one_side_is_known() -> None:
    calls, work = program(6, syncs=False, copies=False)
    clock = found(calls, work)
    assert clock.waits == 0
    assert clock.bounds is not None
    assert clock.bounds.low < -(1 << 61)
    # The fastest launch took 3 us or a little more; in 2 s a clock may gain 200 us to the middle and no more.
    assert 3_000 <= clock.bounds.steady_high <= 6_000
    assert clock.bounds.steady_high <= clock.bounds.high <= clock.bounds.steady_high + 210_000


def test_a_short_synchronization_says_nothing() -> None:
    """It may be of another device, which had nothing to do."""
    no, yes = np.array([False, False]), np.array([False, True])
    calls = LaunchCalls(np.array([1, 2]), np.array([0, 5_000]), np.array([4_000, 6_000]), yes, no)
    clock = found(calls, LaunchedRows(np.array([1]), np.array([8_000]), np.array([900_000]), np.array([False])))
    assert clock.waits == clock.late == 0


def test_work_of_other_calls_says_nothing() -> None:
    calls, work = program(7)
    other = LaunchedRows(work.keys + 10**6, work.starts, work.ends, work.to_host)
    assert device_clock(calls, other) is None
    none = np.empty(0, np.int64)
    assert device_clock(LaunchCalls(none, none, none, none == 0, none == 0), work) is None


def test_contradictions_are_said() -> None:
    """A wait ends before its work, and a kernel before its call, by more than any drift makes."""
    no, copy = np.zeros(4, np.bool_), np.array([True, False, True, False])
    at = np.array([0, 100_000, 200_000, 300_000])
    calls = LaunchCalls(np.arange(4), at, at + 50_000, no, copy)
    work = LaunchedRows(
        np.arange(4), at + np.array([0, -90_000, 0, -90_000]), at + np.array([150_000, 0, 150_000, 0]), copy
    )
    clock = found(calls, work)
    assert clock.bounds is None
    assert clock.least_shift is None
    assert (clock.early, clock.late) == (2, 2)


def test_one_call_has_its_work_and_work_of_other_calls_has_none() -> None:
    calls = LaunchCalls(*(np.array([value]) for value in (7, 100, 160)), np.array([False]), np.array([False]))
    keys, starts = np.array([3, 7, 9]), np.array([0, 130, 900])
    clock = found(calls, LaunchedRows(keys, starts, starts + 10, np.zeros(3, np.bool_)))
    assert (clock.pairs, clock.calls, clock.waits, clock.early) == (1, 1, 0, 0)
    assert device_clock(calls, LaunchedRows(keys[::2], starts[::2], starts[::2], np.zeros(2, np.bool_))) is None

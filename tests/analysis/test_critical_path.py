from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from doors.analysis import analysis_path_waits as _path_waits
from doors.analysis import pieces_of
from hypothesis import given, settings
from hypothesis import strategies as st
from path_cases import COPY, GEMM, LAUNCH, OP, RANGE, SYNC, cases, device, edges_of, host, ints, slow_end, waits
from small_limits import Limit, small

from tracekit.analysis.critical_path import MOST_SPAN, Lag, PathGraph, build, upper_bound, upper_bounds, walk
from tracekit.analysis.path_graph import PathPart, Waits


def told(graph: PathGraph) -> list[tuple[int, int, int, int]]:
    path = walk(graph)
    columns = (path.starts, path.ends, path.names, path.parts)
    return [(int(a), int(b), int(n), int(p)) for a, b, n, p in zip(*columns, strict=True)]


def test_a_launched_kernel_and_a_synchronization_by_hand() -> None:
    """op 0-10, launch 10-15, kernel 20-60, sync 15-63, op 63-70: the path goes through the launch and the kernel."""
    graph = build(
        host((0, 0, 10, OP), (0, 10, 15, LAUNCH), (0, 15, 63, SYNC), (0, 63, 70, OP)),
        device((0, 20, 60, GEMM, 1)),
        waits((2, Waits.ALL, 15)),
    )
    assert told(graph) == [
        (0, 10, OP, PathPart.HOST), (10, 15, LAUNCH, PathPart.LAUNCH), (15, 20, Lag.LAUNCH, PathPart.LAUNCH),
        (20, 60, GEMM, PathPart.KERNEL), (60, 63, SYNC, PathPart.SYNC), (63, 70, OP, PathPart.HOST),
    ]  # fmt: skip
    assert [upper_bound(graph, [name]) for name in (OP, LAUNCH, GEMM, SYNC)] == [17, 5, 40, 3]
    assert upper_bound(graph, [OP, GEMM]) == 57
    # Without the wait the host ends at 15 + 3 + 7, but the kernel still ends at 60.
    assert upper_bound(graph, [], without=[0]) == 10


def test_what_is_hidden_behind_another_chain_wins_only_what_that_leaves() -> None:
    """Two streams, 20-60 and 20-50, and a sync of both: without the long kernel the other one still takes to 50."""
    graph = build(
        host((0, 0, 5, LAUNCH), (0, 5, 10, LAUNCH), (0, 10, 60, SYNC)),
        device((0, 20, 60, GEMM, 0), (1, 20, 50, COPY, 1)),
        waits((2, Waits.ALL, 10)),
    )
    assert (graph.span, upper_bound(graph, [GEMM]), upper_bound(graph, [COPY]), upper_bound(graph, [GEMM, COPY])) == (
        60,
        10,
        0,
        40,
    )


def test_host_time_behind_a_busy_stream_wins_nothing() -> None:
    """Kernels follow each other without a pause: to launch faster gains what comes before the first of them alone."""
    calls = [(0, 10 * i, 10 * i + 10, LAUNCH) for i in range(5)]
    work = [(0, 20 + 100 * i, 120 + 100 * i, GEMM, i) for i in range(5)]
    graph = build(host(*calls, (0, 50, 520, SYNC)), device(*work), waits((5, Waits.ALL, 50)))
    assert upper_bound(graph, [LAUNCH]) == 10
    # Then the last launch ends it all, at 50.
    assert upper_bound(graph, [GEMM]) == 470
    assert sum(b - a for a, b, n, _ in told(graph) if n == GEMM) == 500


def test_a_blocking_copy_holds_the_host_until_its_own_end() -> None:
    graph = build(
        host((0, 0, 50, LAUNCH), (0, 50, 60, OP)), device((0, 10, 45, COPY, 0)), waits((0, Waits.ANY, 0), works=(0,))
    )
    assert told(graph) == [
        (0, 10, LAUNCH, PathPart.LAUNCH), (10, 45, COPY, PathPart.COPY), (45, 50, LAUNCH, PathPart.LAUNCH), (50, 60, OP,
        PathPart.HOST),
    ]  # fmt: skip
    assert upper_bound(graph, [COPY]) == 35


def test_a_copy_that_outlasts_its_call_is_cut_where_the_call_returned() -> None:
    """From pageable memory: the call hands over pieces until 40, the last of them ends at 45, a sync waits for it."""
    rows = host((0, 0, 40, LAUNCH), (0, 40, 46, SYNC), (0, 46, 60, OP))
    graph = build(rows, device((0, 10, 45, COPY, 0)), waits((0, Waits.ANY, 0), (1, Waits.ALL, 40), works=(0, -1)))
    assert [(a, b, n) for a, b, n, _ in told(graph)] == [
        (0, 10, LAUNCH), (10, 40, COPY), (40, 45, COPY), (45, 46, SYNC), (46, 60, OP),
    ]  # fmt: skip
    assert graph.nodes.row[graph.nodes.devices_from :].tolist() == [0, 0]
    assert upper_bound(graph, [COPY]) == 35
    quick = host((0, 0, 12, LAUNCH), (0, 12, 46, SYNC), (0, 46, 60, OP))
    graph = build(quick, device((0, 10, 45, COPY, 0)), waits((0, Waits.ANY, 0), (1, Waits.ALL, 12), works=(0, -1)))
    assert [(a, b, n) for a, b, n, _ in told(graph)][:2] == [(0, 10, LAUNCH), (10, 45, COPY)]
    assert upper_bound(graph, [COPY]) == 46 - 12 - 1


def test_a_sync_of_an_unknown_stream_waits_for_what_ended_last_inside_it() -> None:
    rows = host((0, 0, 5, LAUNCH), (0, 5, 10, LAUNCH), (0, 10, 62, SYNC))
    work = device((0, 12, 40, COPY, 0), (1, 12, 60, GEMM, 1))
    graph = build(rows, work, waits((2, Waits.ANY, 10)))
    assert GEMM in [n for _, _, n, _ in told(graph)]
    # Nobody waits for the other stream's work then, but it still ends at 40.
    assert upper_bound(graph, [GEMM]) == 22
    still_running = device((0, 12, 40, COPY, 0), (1, 12, 9_000, GEMM, 1))
    graph = build(rows, still_running, waits((2, Waits.ANY, 10)), end=62)
    assert graph.end == 9_000
    named = build(rows, device((0, 12, 40, COPY, 0), (1, 12, 60, GEMM, 1)), waits((2, 0, 10)))
    assert [n for _, _, n, _ in told(named)] == [LAUNCH, Lag.LAUNCH, COPY, SYNC]


def test_a_stream_waits_for_a_stream() -> None:
    """The second kernel was launched at once and began when the first stream's work had ended."""
    rows = host((0, 0, 5, LAUNCH), (0, 5, 10, OP), (0, 10, 15, LAUNCH))
    work = device((0, 5, 100, GEMM, 0), (1, 101, 150, COPY, 2))
    alone = build(rows, work)
    assert upper_bound(alone, [GEMM]) == 0
    joined = build(rows, work, waits(streams=((1, 7, 0, 6),)))
    assert told(joined)[-3:] == [
        (5, 100, GEMM, PathPart.KERNEL),
        (100, 101, Lag.WAIT, PathPart.IDLE),
        (101, 150, COPY, PathPart.COPY),
    ]
    # The launch of the second one ends at 15, which would then hold it up.
    assert upper_bound(joined, [GEMM]) == 150 - (15 + 49)


def test_of_a_launch_and_a_stream_that_end_together_the_path_takes_the_launch() -> None:
    rows, work = host((0, 0, 50, LAUNCH)), device((0, 60, 100, COPY, 0), (1, 10, 50, GEMM, -1))
    graph = build(rows, work, waits(streams=((0, 0, 1, 60),)))
    assert graph.join_head.size == 1
    assert [(a, b, n) for a, b, n, _ in told(graph)][-2:] == [(50, 60, Lag.LAUNCH), (60, 100, COPY)]


def test_a_thread_that_was_free_waited_for_the_one_that_worked_then() -> None:
    """Forward on thread 0, backward on thread 1, optimizer on thread 0, all inside a step of thread 0."""
    rows = host((0, 0, 400_000, RANGE), (0, 0, 100_000, OP), (1, 101_000, 300_000, GEMM), (0, 302_000, 400_000, OP))
    graph = build(rows, device())
    assert [(a, b, n) for a, b, n, _ in told(graph)] == [
        (0, 100_000, OP), (100_000, 101_000, Lag.WAIT), (101_000, 300_000, GEMM), (300_000, 302_000, RANGE),
        (302_000, 400_000, OP),
    ]  # fmt: skip
    assert upper_bound(graph, [GEMM]) == 199_000
    others = host(
        (0, 0, 400_000, RANGE), (0, 0, 100_000, OP), (1, 101_000, 300_000, GEMM), (0, 302_000, 400_000, OP), processes=1
    )
    assert upper_bound(build(others, device()), [GEMM]) == 0


def test_a_watchdog_that_looks_in_is_nobody_that_one_waits_for() -> None:
    rows = host((0, 0, 100_000, OP), (1, 150_000, 155_000, GEMM), (0, 300_000, 400_000, OP))
    assert upper_bound(build(rows, device()), [GEMM]) == 0


def test_a_thread_that_two_explanations_fit_may_gain_by_the_better_one() -> None:
    """Thread 0 goes on as thread 1 ends: it waited, or was busy with what no row shows. The bound allows for both."""
    rows = host((0, 0, 100_000, OP), (1, 20_000, 190_000, GEMM), (0, 200_000, 300_000, SYNC))
    graph = build(rows, device())
    assert graph.doubts.heads.size == 2
    # If thread 0 waited, 170,000 are saved less its own pause; if not, what comes before the pause.
    assert upper_bound(graph, [GEMM]) == 170_000
    assert upper_bound(graph, [OP]) == 100_000


def test_work_that_began_as_that_of_another_stream_ended_may_have_waited_for_it() -> None:
    """100 us after its launch, 1 us after the other stream's end. A call before it makes the wait certain."""
    calls = ((0, 0, 5_000, LAUNCH), (0, 5_000, 6_000, OP), (0, 6_000, 10_000, LAUNCH))
    work = device((0, 5_000, 100_000, GEMM, 0), (1, 101_000, 150_000, COPY, 2))
    guessed = build(host(*calls), work)
    assert told(guessed)[-2:] == [
        (100_000, 101_000, Lag.WAIT, PathPart.IDLE),
        (101_000, 150_000, COPY, PathPart.COPY),
    ]
    assert upper_bound(guessed, [GEMM]) == 150_000 - (10_000 + 49_000)
    # Without a wait the launch could be all that held the copy up, so its own time saves as much as before it.
    assert upper_bound(guessed, [LAUNCH]) == 9_000
    assert upper_bounds(guessed, [guessed.nodes.names == GEMM], certain=True).tolist() == [0]
    empty = np.zeros(0, np.int64)
    ordered = Waits(empty, empty, empty, empty, empty, empty, empty, empty, ints([1]), ints([Waits.ANY]))
    sure = build(host(*calls), work, ordered)
    assert upper_bound(sure, [GEMM]) == 91_000
    assert upper_bound(sure, [LAUNCH]) == 5_000
    assert upper_bounds(sure, [sure.nodes.names == GEMM], certain=True).tolist() == [91_000]


@pytest.mark.parametrize(("pause", "candidates"), [(20_000, 1), (20_001, 0)])
def test_a_stream_goes_on_within_twenty_us_after_work_that_it_may_have_waited_for(pause: int, candidates: int) -> None:
    calls = host((0, 0, 5_000, LAUNCH), (0, 5_000, 10_000, LAUNCH))
    work = device((0, 5_000, 100_000, GEMM, 0), (1, 100_000 + pause, 150_000, COPY, 1))
    assert build(calls, work).doubts.tails.size == candidates


def test_doubts_have_a_limit_and_the_longest_pauses_come_first() -> None:
    """Each doubt is evaluated on its own, so that tens of thousands would take long."""
    turns = [(i % 2, i * 100_000, i * 100_000 + 60_000 - i % 2 * (i > 11_000) * 30_000, OP) for i in range(12_000)]
    graph = build(host(*turns), device())
    assert graph.doubts.heads.size == 10_000
    count = 10_050
    calls = [(0, i, i + 1, LAUNCH) for i in range(2 * count)]
    pairs = [
        ((0, at, at + 50_000, GEMM), (1, at + 51_000, at + 90_000, COPY))
        for at in range(100_000, count * 100_000, 100_000)
    ]
    works = [(*work, i) for i, work in enumerate(each for pair in pairs for each in pair)]
    assert build(host(*calls), device(*works)).doubts.heads.size == 10_000


@pytest.mark.parametrize(("streams", "pairs", "calls"), [(1, 1, 1), (1, 2, 2), (2, 2, 1), (2, 3, 1), (2, 4, 2)])
def test_of_too_many_calls_that_wait_for_all_streams_the_longest_are_followed(
    streams: int, pairs: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call of 90 ns, and one of 10 ns long after it; each is held against each stream."""
    small(monkeypatch, Limit.PATH_WIDE_WAIT_PAIRS, pairs)
    rows = host((0, 0, 10, LAUNCH), (0, 10, 100, SYNC), (0, 1_000, 1_005, LAUNCH), (0, 1_005, 1_015, SYNC))
    work = device(*((s, a, b, GEMM, n) for s in range(streams) for a, b, n in ((5, 90, 0), (1_003, 1_010, 2))))
    nodes = build(rows, work, waits((1, Waits.ALL, 10), (3, Waits.ALL, 1_005))).nodes
    assert sorted(set(nodes.join_wait.tolist())) == list(range(calls))
    assert nodes.unseen == 2 - calls


TURNS = [(0, 0, 110, OP), (1, 110, 300, GEMM), (0, 300, 400, OP), (1, 400, 450, GEMM), (0, 450, 460, OP)]
"""Two threads that work by turns, us: pauses up to 110 and from 300 to 400 of one, and between these of the other."""


@pytest.mark.parametrize(
    ("pairs", "goes_on"),
    [(4, [110, 300]), (5, [110, 300]), (6, [110, 300, 400]), (8, [110, 300, 400, 450])],
)
def test_of_too_many_pauses_of_threads_the_longest_are_looked_at(
    pairs: int, goes_on: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of four pauses is held against both threads."""
    small(monkeypatch, Limit.PATH_WAIT_PAIRS, pairs)
    nodes = build(host(*((t, a * 1_000, b * 1_000, n) for t, a, b, n in TURNS)), device()).nodes
    assert sorted((nodes.starts[nodes.woken_head] // 1_000).tolist()) == goes_on
    assert nodes.unseen == 4 - len(goes_on)


def test_of_too_many_waits_of_threads_the_longest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.PATH_WAITS, 2)
    nodes = build(host(*((t, a * 1_000, b * 1_000, n) for t, a, b, n in TURNS)), device()).nodes
    assert sorted((nodes.starts[nodes.woken_head] // 1_000).tolist()) == [110, 300]
    assert nodes.unseen == 0


def test_the_number_of_waits_not_looked_at_is_that_of_calls_and_of_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.PATH_WAIT_PAIRS, 2)
    small(monkeypatch, Limit.PATH_WIDE_WAIT_PAIRS, 1)
    rows = host(*((t, a * 1_000, b * 1_000, n) for t, a, b, n in TURNS))
    both = waits((0, Waits.ALL, 10), (2, Waits.ALL, 300_010))
    assert build(rows, device((0, 5, 90, GEMM, -1)), both).nodes.unseen == 1 + 3


@pytest.mark.parametrize(
    ("most", "told_to_wait", "waited"), [(3, 0, [1, 3, 5]), (2, 0, [3, 5]), (1, 0, [3]), (1, 1, [1, 3])]
)
def test_of_too_many_waits_of_streams_the_longest_stay_and_those_that_were_told(
    most: int, told_to_wait: int, waited: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each copy begins 1 us after a kernel of the other stream, 24, 51 and 26 us after all that it is known to need.

    A second kernel ends 5 us before the second copy begins.
    """
    small(monkeypatch, Limit.PATH_GUESSED_PAUSES, most)
    kernels, copies = ((10, 25), (32, 90), (92, 125)), ((26, 40), (91, 100), (126, 130))
    pairs = [((0, *kernel, GEMM), (1, *copy, COPY)) for kernel, copy in zip(kernels, copies, strict=True)]
    works = [*(work for pair in pairs for work in pair), (2, 6, 86, GEMM)]
    rows = host(*((0, 1_000 * i, 1_000 * i + 1_000, LAUNCH) for i in range(len(works))))
    empty = np.zeros(0, np.int64)
    orders = Waits(*[empty] * 8, ints([0] * told_to_wait), ints([1] * told_to_wait))
    graph = build(rows, device(*((s, 1_000 * a, 1_000 * b, n, i) for i, (s, a, b, n) in enumerate(works))), orders)
    row, doubts = graph.nodes.row, graph.doubts
    assert row[doubts.heads].tolist() == waited
    tails = [row[doubts.tails[a:b]].tolist() for a, b in pairwise(doubts.first.tolist())]
    assert tails == [{1: [0], 3: [2, 6], 5: [4]}[head] for head in waited]
    assert doubts.sure.tolist() == [head == 1 and told_to_wait > 0 for head in waited]


def test_of_two_pauses_before_a_thread_goes_on_the_later_one_counts() -> None:
    """Between them the thread only waits for a kernel."""
    rows = [(0, 0, 100, LAUNCH), (0, 200, 300, SYNC), (0, 400, 500, OP), (1, 100, 200, GEMM), (1, 300, 400, GEMM)]
    kernel = device((0, 100_000, 300_000, COPY, 0))
    graph = build(host(*((t, a * 1_000, b * 1_000, n) for t, a, b, n in rows)), kernel, waits((1, 0, 200_000)))
    at = graph.nodes.starts[graph.doubts.heads] == 400_000
    assert graph.nodes.ends[graph.doubts.tails[at]].tolist() == [400_000]


@pytest.mark.parametrize(("worked", "waited"), [(100_000, True), (99_999, False)])
def test_a_thread_waited_for_one_that_worked_for_half_of_the_pause(worked: int, waited: bool) -> None:
    """And that was idle for 100 us before the first went on; the first is in a range of the user's all the time."""
    rows = [
        (0, 0, 500_000, RANGE),
        (0, 0, 100_000, OP),
        (1, 100_000, 100_000 + worked, GEMM),
        (0, 300_000, 400_000, OP),
    ]
    assert (upper_bound(build(host(*rows), device()), [GEMM]) == worked) == waited


@pytest.mark.parametrize(("covered", "woken"), [(99_999, 1), (100_000, 0)])
def test_a_thread_in_a_range_for_half_of_its_pause_is_not_woken_by_one_that_goes_on(covered: int, woken: int) -> None:
    helper = [(1, 0, 100_000, OP), (1, 100_000, 100_000 + covered, RANGE), (1, 300_000, 400_000, OP)]
    assert build(host((0, 0, 400_000, OP), *helper), device()).nodes.woken_head.size == woken


@pytest.mark.parametrize(("ranges", "woken"), [([(0, 400)], 0), ([(0, 400), (150, 160)], 1), ([(0, 250)], 1)])
def test_who_is_in_ranges_of_the_program_may_wake_a_helper_if_one_begins_or_ends_meanwhile(
    ranges: list[tuple[int, int]], woken: int
) -> None:
    """The main thread does nothing else from 100 us on, as the helper pauses, until that goes on at 300."""
    rows = [(0, a * 1_000, b * 1_000, RANGE) for a, b in ranges]
    rows += [(t, a, a + 100_000, OP) for t, a in ((0, 0), (1, 0), (1, 300_000))]
    assert build(host(*rows), device()).nodes.woken_head.size == woken


def test_a_call_that_returned_as_the_window_began_holds_nothing_in_it() -> None:
    """Its work seems to end 1 ns later: clocks of host and device differ."""
    rows = host((0, 0, 5, LAUNCH), (0, 5, 10, SYNC), (0, 10, 20, OP))
    graph = build(rows, device((0, 5, 11, GEMM, 0)), waits((1, Waits.ALL, 5)), begin=10)
    assert told(graph) == [(10, 20, OP, PathPart.HOST)]
    assert upper_bound(graph, [OP]) == 9


def test_work_without_a_launch_call_was_launched_when_it_began() -> None:
    """The second follows at once on the first: only its stream holds it up. The third comes after a pause."""
    rows = host((0, 0, 400_000, OP))
    work = device((0, 100_000, 110_000, GEMM, -1), (0, 111_000, 120_000, COPY, -1), (0, 200_000, 410_000, GEMM, -1))
    graph = build(rows, work)
    assert [(a, b, n) for a, b, n, _ in told(graph)] == [
        (0, 100_000, OP), (100_000, 200_000, OP), (200_000, 410_000, GEMM),
    ]  # fmt: skip
    # The end of the second is 100,000 earlier then, and 80,000 before the third.
    assert upper_bound(graph, [OP]) == 180_000
    assert upper_bound(graph, [GEMM]) == 10_000


def test_work_that_began_before_its_launch_call_does_not_depend_on_that_call() -> None:
    """As if the call were not known: the main thread launched it when it began, not the thread of the call."""
    rows = host((0, 0, 100, OP), (1, 0, 20, RANGE), (1, 40, 50, LAUNCH))
    for launch in (2, -1):
        graph = build(rows, device((0, 30, 120, GEMM, launch)))
        assert told(graph) == [(0, 30, OP, PathPart.HOST), (30, 120, GEMM, PathPart.KERNEL)]


def test_a_thread_that_begins_with_a_wait_keeps_it_when_waits_are_left_out() -> None:
    """A sync from the first instant on, for work up to 50: nothing else says when its thread could go on."""
    graph = build(host((0, 0, 60, SYNC), (0, 60, 70, OP)), device((0, 10, 50, GEMM, -1)), waits((0, Waits.ALL, 0)))
    assert upper_bound(graph, [GEMM]) == upper_bound(graph, [GEMM], without=[0]) == 40


def test_a_sync_waits_for_work_without_a_launch_call_that_ran_meanwhile() -> None:
    rows = host((0, 0, 10, OP), (0, 10, 500, SYNC), (0, 500, 510, OP))
    work = device((0, 5, 300, GEMM, -1), (0, 300, 498, COPY, -1), (0, 505, 509, COPY, -1))
    graph = build(rows, work, waits((1, Waits.ALL, 10)))
    assert [(a, b, n) for a, b, n, _ in told(graph)][-4:] == [
        (5, 300, GEMM), (300, 498, COPY), (498, 500, SYNC), (500, 510, OP),
    ]  # fmt: skip
    assert upper_bound(graph, [GEMM]) == 295


def test_work_that_ended_an_instant_before_the_call_that_waits_for_it_held_nothing_up() -> None:
    calls = host((0, 0, 5, LAUNCH), (0, 5, 50, OP), (0, 50, 60, SYNC))
    for end, binding in ((49, OP), (50, GEMM)):  # both at once: the work goes before the call that waits
        graph = build(calls, device((0, 20, end, GEMM, 0)), waits((2, Waits.ALL, 50)))
        assert [(b, n) for _, b, n, _ in told(graph)][-2:] == [(50, binding), (60, SYNC)]


def test_a_helper_thread_is_woken_by_one_that_goes_on() -> None:
    rows = host((0, 0, 90_000, OP), (1, 50_000, 150_000, GEMM), (0, 151_000, 160_000, SYNC))
    graph = build(rows, device())
    assert [(a, b, n) for a, b, n, _ in told(graph)][:2] == [(0, 50_000, OP), (50_000, 150_000, GEMM)]


def test_a_window_cuts_host_ranges_and_takes_what_was_launched_in_it() -> None:
    rows = host((0, 0, 10, OP), (0, 10, 20, LAUNCH), (0, 20, 90, OP), (0, 90, 100, LAUNCH))
    work = device((0, 12, 30, GEMM, 1), (0, 95, 120, GEMM, 3))
    graph = build(rows, work, begin=15, end=50)
    assert (graph.begin, graph.end) == (15, 50)
    assert told(graph) == [(15, 20, LAUNCH, PathPart.LAUNCH), (20, 50, OP, PathPart.HOST)]
    assert build(rows, work, begin=15, end=95).end == 120


@pytest.mark.parametrize(("pauses", "limit"), [(7, _path_waits.LEAST_FREE), (8, 40 * _path_waits.LEAST_TIMES)])
def test_a_long_pause_is_one_that_is_longer_than_the_usual_ones_where_these_are_known(pauses: int, limit: int) -> None:
    begins = 100 + 140 * np.arange(pauses + 1)
    assert _path_waits._pauses((begins, begins + 100), 100)[2] == limit


def test_lags_before_and_between_work_differ_by_name() -> None:
    thread = build(host((0, 10, 20, OP), (0, 30, 40, OP)), device(), begin=0)
    calls = host((0, 0, 5, LAUNCH), (0, 5, 10, LAUNCH), (0, 10, 70, SYNC))
    stream = build(calls, device((0, 10, 40, GEMM, 0), (0, 45, 65, GEMM, 1)), waits((2, Waits.ALL, 10)))
    joined = build(
        host((0, 0, 5, LAUNCH), (0, 5, 10, LAUNCH)),
        device((0, 5, 20, GEMM, 0), (1, 25, 40, COPY, 1)),
        waits(streams=((1, 5, 0, 5),)),
    )
    lags = [[(a, b, Lag(n).name) for a, b, n, _ in told(graph) if n < 0] for graph in (thread, stream, joined)]
    assert lags == [
        [(0, 10, "BEFORE"), (20, 30, "THREAD")],
        [(5, 10, "LAUNCH"), (40, 45, "STREAM")],
        [(20, 25, "WAIT")],
    ]


def test_nothing_gives_an_empty_path() -> None:
    graph = build(host(), device())
    assert (told(graph), graph.begin, graph.span, upper_bound(graph, [0])) == ([], 0, 0, 0)
    assert upper_bounds(graph, [np.zeros(0, np.bool_)]).tolist() == [0]


def test_one_kernel_alone_is_the_whole_path() -> None:
    graph = build(host(), device((0, 5, 15, GEMM, -1)))
    assert (told(graph), upper_bound(graph, [GEMM])) == ([(5, 15, GEMM, PathPart.KERNEL)], 10)


def test_columns_are_checked() -> None:
    rows, work = host((0, 0, 1, OP), (0, 1, 2, OP)), device((0, 0, 1, GEMM, -1), (0, 1, 2, GEMM, 1))
    build(rows, work)
    for launch in (2, -2):
        with pytest.raises(ValueError, match="launch"):
            build(rows, replace(work, launch=ints([0, launch])))
    with pytest.raises(ValueError, match="active"):
        build(replace(rows, active=np.ones(1, np.bool_)), work)
    for column in ("threads", "starts", "ends", "names", "parts"):
        with pytest.raises(ValueError, match=f"one length.*{column} has 1"):
            build(replace(rows, **{column: ints([0])}), work)
        with pytest.raises(TypeError, match=column):
            build(replace(rows, **{column: np.zeros(2)}), work)
    for column in ("streams", "starts", "ends", "names", "launch"):
        with pytest.raises(ValueError, match=f"one length.*{column} has 1"):
            build(rows, replace(work, **{column: ints([0])}))
        with pytest.raises(TypeError, match=column):
            build(rows, replace(work, **{column: np.zeros(2)}))


def test_a_window_is_shorter_than_nine_years() -> None:
    """Also where the longest thread is not the one that the run ends on."""
    for rows in ([(0, 5, 5 + MOST_SPAN, OP)], [(0, 5, 10, OP), (1, 5, 5 + MOST_SPAN, OP)]):
        with pytest.raises(OverflowError, match="nine years"):
            build(host(*rows), device(), begin=5)
        assert build(host(*rows), device(), begin=6).begin == 6


# --- properties -------------------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(cases() | cases(10_000))
def test_the_parts_of_the_path_follow_each_other_and_add_up_to_the_span(case: tuple[Any, ...]) -> None:
    made, on, found, window = case
    graph = build(made, on, found, **window)
    path = told(graph)
    assert sum(b - a for a, b, _, _ in path) == graph.span
    assert all(a < b for a, b, _, _ in path)
    assert all(x[1] == y[0] for x, y in pairwise(path))
    if path:
        assert (path[0][0], path[-1][1]) == (graph.begin, graph.end)


@settings(max_examples=200, deadline=None)
@given(cases() | cases(10_000))
def test_nodes_of_a_chain_do_not_overlap_and_slack_is_never_negative(case: tuple[Any, ...]) -> None:
    made, on, found, window = case
    graph = build(made, on, found, **window)
    nodes = graph.nodes
    same = nodes.chain[1:] == nodes.chain[:-1]
    assert (nodes.starts[1:][same] >= nodes.ends[:-1][same]).all()
    assert (nodes.ends >= nodes.starts).all()
    for slack in (graph.chain_slack, graph.launch_slack, graph.join_slack):
        assert (slack >= 0).all()
    for v, edges in edges_of(graph).items():
        assert not edges or min(slack for _, slack in edges) == 0
        assert not edges or graph.bind[v] in {t for t, _ in edges} | set(graph.doubts.tails.tolist())
        assert all(nodes.ends[t] <= nodes.starts[v] for t, _ in edges)
    if graph.sink >= 0:
        assert slow_end(graph, set()) == graph.end


@settings(max_examples=200, deadline=None)
@given(cases() | cases(10_000), st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=4))
def test_an_upper_bound_is_what_the_longest_path_says_and_at_most_the_time_on_the_path(
    case: tuple[Any, ...], sets: list[set[int]]
) -> None:
    made, on, found, window = case
    graph = build(made, on, found, **window)
    won = upper_bounds(graph, [np.isin(graph.nodes.names, sorted(names)) for names in sets]).tolist()
    path = told(graph)
    for names, gain in zip(sets, won, strict=True):
        assert gain == upper_bound(graph, names)
        on_path = sum(b - a for a, b, n, _ in path if n in names)
        assert 0 <= gain <= (graph.span if graph.doubts.heads.size else on_path)
        if graph.sink >= 0:
            assert graph.end - gain == slow_end(graph, names)


@settings(max_examples=150, deadline=None)
@given(cases(), st.sets(st.integers(0, 5)), st.sets(st.integers(0, 3)))
def test_without_a_wait_nothing_comes_later(case: tuple[Any, ...], names: set[int], without: set[int]) -> None:
    made, on, found, window = case
    graph = build(made, on, found, **window)
    assert upper_bound(graph, names) <= upper_bound(graph, names, without=without) <= graph.span


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20), st.integers(1, 12)), max_size=8), st.data())
def test_each_instant_of_a_thread_belongs_to_what_began_last_of_all_that_is_open(
    rows: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    splits = data.draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30)), max_size=4))
    made = pieces_of(
        ints(r[0] for r in rows), ints(r[1] for r in rows), ints(r[1] + r[2] for r in rows),
        ints(s[0] for s in splits), ints(s[1] for s in splits),
    )  # fmt: skip
    found = {}
    for lane, a, b, row in zip(made.lanes, made.starts, made.ends, made.rows, strict=True):
        assert not any(s[0] == lane and a < s[1] < b for s in splits)
        for t in range(int(a), int(b)):
            found[int(lane), t] = int(row)
    for lane in (0, 1):
        for t in range(40):
            open_ = [(a, -d, i) for i, (x, a, d) in enumerate(rows) if x == lane and a <= t < a + d]
            assert found.get((lane, t)) == (max(open_)[2] if open_ else None)


SPLITS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=12)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(1, 6)), max_size=30),
    SPLITS,
    st.integers(1, 5),
    st.sampled_from([1, 10**6, 1 << 57]),
)
def test_threads_that_are_cut_in_blocks_are_cut_as_all_at_once(
    rows: list[tuple[int, int, int]], splits: list[tuple[int, int]], block: int, scale: int
) -> None:
    columns = (
        ints(r[0] for r in rows), ints(r[1] * scale for r in rows), ints((r[1] + r[2]) * scale for r in rows),
        ints(s[0] for s in splits), ints(s[1] * scale for s in splits),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        small(patch, Limit.PATH_FEW_LANES, 0)
        at_once = pieces_of(*columns)
        small(patch, Limit.PATH_FEW_LANES, 64)
        small(patch, Limit.PATH_BLOCK, block)
        in_blocks = pieces_of(*columns)
    for name in ("lanes", "starts", "ends", "rows"):
        assert getattr(in_blocks, name).tolist() == getattr(at_once, name).tolist()


@pytest.mark.parametrize("threads", [2, 64, 65, 90])
def test_many_threads_are_cut_as_each_alone(threads: int) -> None:
    rng = np.random.default_rng(threads)
    lanes, starts = rng.integers(0, threads, 400), rng.integers(0, 300, 400)
    ends = starts + rng.integers(1, 60, 400)
    split_lanes, split_times = rng.integers(0, threads, 50), rng.integers(0, 360, 50)
    made = pieces_of(lanes, starts, ends, split_lanes, split_times)
    at = 0
    for lane in np.unique(lanes).tolist():
        mine, split = np.flatnonzero(lanes == lane), split_lanes == lane
        alone = pieces_of(lanes[mine], starts[mine], ends[mine], split_lanes[split], split_times[split])
        piece = slice(at, at := at + alone.rows.size)
        assert set(made.lanes[piece].tolist()) == {lane}
        assert made.starts[piece].tolist() == alone.starts.tolist()
        assert made.ends[piece].tolist() == alone.ends.tolist()
        assert made.rows[piece].tolist() == mine[alone.rows].tolist()
    assert at == made.rows.size

"""Upper bounds on the critical path, against programs whose end without the named work is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from doors.analysis import analysis_path_gains as _path_gains
from hypothesis import given, settings
from hypothesis import strategies as st
from path_cases import COPY, GEMM, LAUNCH, OP, SYNC, cases, device, edges_of, few_ns, host, slow_end, waits, window
from small_limits import Limit, small

from tracekit.analysis.critical_path import SHORT_PAUSE, PathGraph, build, upper_bounds
from tracekit.analysis.path_graph import Waits


def bound(graph: PathGraph, *names: int, **options: bool) -> int:
    return int(upper_bounds(graph, [np.isin(graph.nodes.names, names)], **options)[0])


def in_small_blocks(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Make blocks so small that a window has several, and numbers of nodes as wide as those of the largest graphs."""
    small(monkeypatch, Limit.PATH_BLOCK, 1 + seed % 6)
    small(monkeypatch, Limit.PATH_GAIN_STOPS, 1 + seed % 4)
    small(monkeypatch, Limit.PATH_GAIN_FEW_SETS, (0, 9)[seed % 2])
    if seed % 3 == 0:
        small(monkeypatch, Limit.PLACES_IN_FOUR_BYTES, 0)


def test_pauses_between_work_of_one_kind_end_with_it() -> None:
    """Three kernels that follow each other after 5 us: without them and their pauses only the launches stay."""
    calls = [(0, 1_000 * i, 1_000 * i + 1_000, LAUNCH) for i in range(3)]
    work = [(0, 10_000 + 25_000 * i, 30_000 + 25_000 * i, GEMM, i) for i in range(3)]
    graph = build(host(*calls, (0, 3_000, 80_000, SYNC)), device(*work), waits((3, Waits.ALL, 3_000)))
    assert graph.end == 80_000
    assert bound(graph, GEMM) == 60_000
    # The first kernel's 9 us after its launch stay: nothing of the set is before it.
    assert bound(graph, GEMM, pauses=True) == 70_000


@pytest.mark.parametrize(("pause", "saved"), [(SHORT_PAUSE, 40 + SHORT_PAUSE), (SHORT_PAUSE + 1, 40)])
def test_a_long_pause_is_not_taken_for_that_of_the_work_around_it(pause: int, saved: int) -> None:
    rows = host(
        (0, 0, 10, OP), (0, 10, 30, LAUNCH), (0, 30 + pause, 50 + pause, LAUNCH), (0, 50 + pause, 60 + pause, OP)
    )
    assert bound(build(rows, device()), LAUNCH, pauses=True) == saved


def test_a_pause_in_which_a_stream_waited_for_something_else_stays() -> None:
    """The second kernel began when its launch had returned: the 15 ns before it are the host's."""
    rows = host((0, 0, 10, LAUNCH), (0, 10, 50, OP), (0, 50, 60, LAUNCH), (0, 60, 100, SYNC))
    graph = build(rows, device((0, 10, 40, GEMM, 0), (0, 60, 90, GEMM, 2)), waits((3, Waits.ALL, 60)))
    assert bound(graph, GEMM, pauses=True) == bound(graph, GEMM) == 30


@settings(max_examples=200, deadline=None)
@given(cases() | cases(10_000), st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=4), st.booleans())
def test_bounds_with_pauses_and_without_guesses_are_what_the_longest_path_says(
    case: tuple[Any, ...], sets: list[set[int]], certain: bool
) -> None:
    made, on, found, window = case
    graph = build(made, on, found, **window)
    masks = [np.isin(graph.nodes.names, sorted(names)) for names in sets]
    saved = upper_bounds(graph, masks, pauses=True, certain=certain).tolist()
    for names, gain in zip(sets, saved, strict=True):
        assert gain == bound(graph, *names, pauses=True, certain=certain)
        if graph.sink >= 0:
            assert graph.end - gain == slow_end(graph, names, pauses=True, certain=certain)


@pytest.mark.parametrize("seed", range(20))
def test_bounds_of_windows_with_doubts_of_all_kinds_are_what_the_longest_path_says(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    small(monkeypatch, Limit.PATH_GAIN_RUNS, 1 + seed % 8)
    in_small_blocks(monkeypatch, seed)
    with few_ns():
        for case in range(60 * seed, 60 * seed + 60):
            made, on, found, options = window(case)
            small(monkeypatch, Limit.PATH_GAIN_FEW_SETS, (0, 9)[case // 3 % 2])
            graph = build(made, on, found, **options)
            sets = [{case % 6}, {case % 6, case % 5}, {0, 1, 2}, {3, 4, 5}, set(range(6))]
            masks = [np.isin(graph.nodes.names, sorted(names)) for names in sets]
            how = {
                "pauses": case % 2 > 0,
                "certain": case % 5 == 0,
                "without": [[], [], [0], [0, 1, 2, 3]][case // 2 % 4],
            }
            slow = [graph.end - slow_end(graph, names, **how) for names in sets] if graph.sink >= 0 else [0] * 5
            assert upper_bounds(graph, masks, **how).tolist() == slow


def test_work_that_was_launched_long_before_may_have_waited_for_another_stream() -> None:
    """The second copy was launched at 15 us, its stream was free at 50, it began as the kernel of another ended."""
    calls = [(0, 5_000 * i, 5_000 * i + 5_000, LAUNCH) for i in range(3)]
    work = [(0, 5_000, 200_000, GEMM, 0), (1, 10_000, 50_000, COPY, 1), (1, 201_000, 250_000, COPY, 2)]
    graph = build(host(*calls), device(*work))
    # Without the kernel it could begin when its own stream was free, and no earlier.
    assert bound(graph, GEMM) == 151_000
    assert bound(graph, COPY) == 50_000
    # Nothing else holds it then but its launch at 15 us, and it takes no time itself.
    assert bound(graph, GEMM, COPY) == 250_000 - 15_000
    assert bound(graph, GEMM, certain=True) == 0


def test_work_behind_that_of_before_the_window_still_waits_for_the_first_call() -> None:
    """The second work is launched by 10, the third follows at once: without the first they begin 90 earlier."""
    work = device((0, 0, 100, GEMM, -1), (0, 100, 150, COPY, 0), (0, 151, 160, COPY, -1))
    assert bound(build(host((0, 0, 10, LAUNCH)), work), GEMM) == 90


def test_sets_that_are_evaluated_one_by_one_save_what_they_do_together(monkeypatch: pytest.MonkeyPatch) -> None:
    made, on, found, options = window(1)
    graph = build(made, on, found, **options)
    masks = [graph.nodes.names == name for name in range(6)]
    together = upper_bounds(graph, masks).tolist()
    assert len(set(together)) > 2
    for cells in (1, 2 * graph.nodes.starts.size, 4 * graph.nodes.starts.size):
        small(monkeypatch, Limit.PATH_GAIN_CELLS, cells)
        assert upper_bounds(graph, masks).tolist() == together


@pytest.mark.parametrize("highest", [5, (1 << 31) - 1])
def test_inputs_are_in_order_of_read_and_stop_however_many_stops_there_are(highest: int) -> None:
    rng = np.random.default_rng(highest)
    reads = np.repeat(np.arange(70_000), rng.integers(1, 4, 70_000))
    sources = rng.integers(0, 5, reads.size).astype(np.int32)
    sources[-1] = highest
    order = _path_gains._order(reads, sources)
    assert order.tolist() == np.lexsort((sources, reads)).tolist()


def test_streams_that_many_threads_launch_onto_save_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [build(made, on, found, **options) for made, on, found, options in map(window, range(100, 160))]
    sets = [[graph.nodes.names == name for name in range(6)] for graph in graphs]
    kept = [upper_bounds(graph, masks).tolist() for graph, masks in zip(graphs, sets, strict=True)]
    small(monkeypatch, Limit.PATH_GAIN_RUNS, 1)
    assert [upper_bounds(graph, masks).tolist() for graph, masks in zip(graphs, sets, strict=True)] == kept
    assert any(any(gains) for gains in kept)


def test_the_launches_of_two_threads_hold_one_stream() -> None:
    """Main launches a kernel of 40 ns at once, the other thread one of 40 ns after 80 ns of its own work."""
    rows = host((0, 0, 10, LAUNCH), (0, 10, 145, SYNC), (1, 0, 80, OP), (1, 80, 90, LAUNCH))
    graph = build(rows, device((0, 20, 60, GEMM, 0), (0, 100, 140, COPY, 3)), waits((1, 0, 145)))
    assert [bound(graph, name) for name in (OP, LAUNCH, GEMM, COPY)] == [40, 10, 0, 40]
    assert bound(graph, OP, LAUNCH) == 50
    assert bound(graph, OP, GEMM) == 80


def test_work_whose_launch_is_not_known_is_evaluated_up_to_what_waits_for_it() -> None:
    """Two works run when the window begins; a call waits for the second, and what it launches then is known."""
    rows = host((0, 0, 10, OP), (0, 10, 55, SYNC), (0, 55, 60, LAUNCH), (0, 60, 70, OP), (0, 70, 105, SYNC))
    work = device((0, 0, 30, GEMM, -1), (0, 31, 50, COPY, -1), (0, 65, 100, GEMM, 2))
    graph = build(rows, work, waits((1, 0, 10), (4, Waits.ALL, 70)))
    assert bound(graph, COPY) == 19
    # Then the second work ends at 20, the host launches at 25, is done at 40, and its last wait ends 5 later.
    assert bound(graph, GEMM) == 105 - 45
    # Then the host waits for nothing: 10, and 5 to return, 5 to launch, 10, and 5 to return.
    assert bound(graph, GEMM, COPY) == 105 - 35


def test_a_wait_that_holds_only_because_of_the_pauses_counts() -> None:
    """The kernels take 40 us and their pause 5, but the call also waits for a copy that ends 42 us before them."""
    rows = host(
        *((0, 1_000 * i, 1_000 * i + 1_000, LAUNCH) for i in range(3)),
        (0, 3_000, 56_000, SYNC),
        (0, 56_000, 66_000, OP),
    )
    work = device((0, 10_000, 30_000, GEMM, 0), (0, 35_000, 55_000, GEMM, 1), (1, 5_000, 13_000, COPY, 2))
    graph = build(rows, work, waits((3, Waits.ALL, 3_000)))
    assert bound(graph, GEMM) == 40_000
    assert bound(graph, GEMM, pauses=True) == 42_000
    assert bound(graph, GEMM, COPY, pauses=True) == 45_000


@pytest.mark.parametrize("seed", range(20))
def test_nodes_that_become_shorter_save_what_graphs_with_shorter_nodes_say(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The whole length of some nodes, given in ns, is what the same nodes save that take no time."""
    in_small_blocks(monkeypatch, seed)
    rng = np.random.default_rng(seed)
    for case in range(20 * seed, 20 * seed + 20):
        on_host, on_device, found, options = window(case)
        graph = build(on_host, on_device, found, **options)
        nodes = graph.nodes
        if not nodes.starts.size:
            continue
        length = nodes.ends - nodes.starts
        some = rng.random(length.size) < 0.5
        half = np.where(some, length // 2, 0)
        whole, same, less = upper_bounds(graph, [some, np.where(some, 2 * length, 0), half]).tolist()
        assert whole == same
        assert 0 <= less <= whole
        assert less == slow_end_of(graph, half)


def slow_end_of(graph: PathGraph, less: np.ndarray[Any, np.dtype[np.int64]]) -> int:
    """Return the gain of nodes that become shorter: each is cut into two, of which the first takes no time."""
    nodes = graph.nodes
    edges, doubts = edges_of(graph), graph.doubts
    doubt_of = {int(head): i for i, head in enumerate(doubts.heads)}
    ends: dict[int, int] = {}
    for v in sorted(edges, key=lambda v: (nodes.starts[v], nodes.ends[v], v)):
        start, end = int(nodes.starts[v]), int(nodes.ends[v])
        begin = max((ends[t] + start - int(nodes.ends[t]) - slack for t, slack in edges[v]), default=start)
        if v in doubt_of:
            i = doubt_of[v]
            tails = doubts.tails[doubts.first[i] : doubts.first[i + 1]].tolist()
            earliest = min(ends[t] + start - int(nodes.ends[t]) for t in tails)
            if doubts.lags[i] >= 0:
                earliest = max([earliest, graph.begin, *(ends[t] for t, _ in edges[v])])
            begin = earliest if doubts.sure[i] and edges[v] else min(begin, earliest)
        ends[v] = begin + end - start - int(less[v])
    return graph.end - max(ends[v] for v in graph.last.tolist())

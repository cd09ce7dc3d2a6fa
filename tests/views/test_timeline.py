"""timeline: every row with a duration is drawn or counted, and the parts of device time add up to the span."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from views.tables import Row, dicts, event_rows, on_trace, trace, union

from tracekit.errors import UsageError
from tracekit.pipeline import render, report
from tracekit.report import Bar, Section, Timeline
from tracekit.trace import Ledger, Run, SourceFacts, Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions
from tracekit.views.timeline import timeline


def view(made: Trace, **options: Any) -> Section:
    return on_trace(VIEWS["timeline"])(made, ViewOptions(**options))


def figure(section: Section) -> Timeline:
    (found,) = [f for f in section.figures if isinstance(f, Timeline)]
    return found


def bars(section: Section) -> dict[str, dict[str, int]]:
    return {bar.title: dict(bar.parts) for bar in section.figures if isinstance(bar, Bar)}


def rectangles(of: Timeline) -> list[tuple[str, int, int, int, str, str]]:
    """Lane, level, start, duration, kind, name of each rectangle."""
    columns = zip(of.lane, of.level, of.start_ns, of.dur_ns, of.kind, of.name, strict=True)
    return [(of.lanes[a].label, b, c, d, of.kinds[e], of.names[f]) for a, b, c, d, e, f in columns]


def runs(count: int, *, origin: int | None = 0, **facts: Any) -> Run:
    return Run(origin_ns=origin, sources=[SourceFacts(f"run{i}.csv", "nvprof-csv", **facts) for i in range(count)])


SMALL = (
    {"ts_ns": 1000, "dur_ns": 100, "kind": "operator", "name": "step", "pid": 5, "tid": 9},
    {"ts_ns": 1010, "dur_ns": 20, "kind": "runtime", "name": "cudaLaunchKernel", "pid": 5, "tid": 9},
    {"ts_ns": 1040, "dur_ns": 30, "name": "gemm", "device": 0, "stream": 7},
    {"ts_ns": 1050, "dur_ns": 40, "kind": "memcpy", "name": "HtoD", "device": 0, "stream": 8},
    {"ts_ns": 1090, "dur_ns": 4, "kind": "memset", "name": "zero", "device": 0, "stream": 8},
    {"ts_ns": 1095, "kind": "mark", "name": "m", "pid": 5, "tid": 9},
)


def test_devices_stand_above_the_host_and_nested_rows_below_each_other() -> None:
    found = view(trace(*SMALL))
    assert rectangles(figure(found)) == [
        ("host thread 9", 0, 0, 100, "operator", "step"),
        ("host thread 9", 1, 10, 20, "runtime", "cudaLaunchKernel"),
        ("GPU 0 stream 7", 0, 40, 30, "kernel", "gemm"),
        ("GPU 0 stream 8", 0, 50, 40, "memcpy", "HtoD"),
        ("GPU 0 stream 8", 0, 90, 4, "memset", "zero"),
    ]
    assert [(lane.label, lane.group, lane.depth) for lane in figure(found).lanes] == [
        ("GPU 0 stream 7", "", 1), ("GPU 0 stream 8", "", 1), ("host thread 9", "", 2),
    ]  # fmt: skip
    assert (figure(found).begin_ns, figure(found).end_ns, figure(found).total) == (1000, 1100, 5)
    assert figure(found).thinning == ""
    assert found.notes == ("not drawn, for they have no duration: 1 mark",)


def test_the_picture_and_the_tables_have_the_same_time_0() -> None:
    made = trace(
        {"ts_ns": 1000, "kind": "mark", "name": "start of the profiler", "pid": 5, "tid": 9},
        {"ts_ns": 1_000_001_000, "dur_ns": 500, "kind": "step", "name": "step", "step": 3, "pid": 5, "tid": 9},
        {"ts_ns": 1_000_001_100, "dur_ns": 100, "name": "a", "device": 0, "stream": 7},
        {"ts_ns": 1_000_001_300, "dur_ns": 100, "name": "b", "device": 0, "stream": 7},
    )
    drawn = figure(view(made))
    assert (drawn.begin_ns, drawn.end_ns) == (1000, 1_000_001_500)
    positions = {drawn.names[name]: start for name, start in zip(drawn.name, drawn.start_ns, strict=True)}
    assert positions == {"step": 1_000_000_000, "a": 1_000_000_100, "b": 1_000_000_300}
    (step,) = dicts(on_trace(VIEWS["steps"])(made, ViewOptions()).tables[-1])
    assert step["start"] == positions["step"]
    gaps = dicts(on_trace(VIEWS["idle"])(made, ViewOptions()).tables[-1])
    assert {row["at"] for row in gaps} == {0, positions["a"] + 100, positions["b"] + 100}


def test_device_time_is_parted_and_adds_up_to_the_span() -> None:
    parts = bars(view(trace(*SMALL)))["Time of GPU 0"]
    assert parts == {"kernels": 30, "exposed copies": 20, "exposed memsets": 4, "idle": 46}
    assert sum(parts.values()) == 100


@given(rows=event_rows(), apart=st.booleans())
def test_device_time_agrees_with_the_view_of_devices(rows: list[Row], apart: bool) -> None:
    run = runs(3, origin=None, facts={"runs": [{}, {}]}) if apart else runs(3)
    made = trace(*rows, run=run)
    found = bars(view(made))
    table = on_trace(VIEWS["device"])(made, ViewOptions())
    if not table.tables:
        assert found == {}
        return
    devices = dicts(table)
    shown = [found[title] for title in found if not title.startswith("Time of all")]
    if not sum(d["span"] for d in devices):
        assert found == {}
        return
    assert len(shown) == min(len(devices), 8)
    if len(devices) > 1:
        assert found[next(t for t in found if t.startswith("Time of all"))]["kernels"] == sum(
            d["kernel_time"] for d in devices
        )
    if len(devices) <= 8:
        expected = Counter((d["kernel_time"], d["busy_time"], d["span"]) for d in devices)
        sums = [
            (p["kernels"], sum(v for k, v in p.items() if k != "idle"), sum(p.values()))
            for p in shown
        ]  # fmt: skip
        assert Counter(sums) == expected
    assert all(value >= 0 for parts in found.values() for value in parts.values())


@given(rows=event_rows(("kernel", "memcpy", "operator")))
def test_utilization_is_the_share_of_each_bin_that_kernels_cover(rows: list[Row]) -> None:
    rows = [{**r, "source": 0, "rank": None, "device": 0} for r in rows]
    found = view(trace(*rows))
    timed = [r for r in rows if r["dur_ns"] is not None]
    work = [r for r in timed if r["kind"] in ("kernel", "memcpy")]
    if not work or not bars(found):
        return
    ((label, shares),) = figure(found).utilization
    begin, end = figure(found).begin_ns, figure(found).end_ns
    assert label == "GPU 0"
    assert len(shares) == end - begin  # a bin for each ns: the span is short
    kernels = [(r["ts_ns"], r["ts_ns"] + max(r["dur_ns"], 0)) for r in work if r["kind"] == "kernel"]
    assert list(shares) == [union([(a, b) for a, b in kernels if a <= t < b]) > 0 for t in range(begin, end)]


def test_utilization_of_a_long_span_has_500_bins_that_hold_the_kernel_time() -> None:
    rows = [{"ts_ns": (1 << 60) + i * 7_777, "dur_ns": 3_001, "device": 0} for i in range(3000)]
    ((_, shares),) = figure(view(trace(*rows))).utilization
    span = 2999 * 7_777 + 3_001
    assert len(shares) == 500
    widths = [span * (i + 1) // 500 - span * i // 500 for i in range(500)]
    assert sum(s * w for s, w in zip(shares, widths, strict=True)) == pytest.approx(3000 * 3_001)
    assert max(shares) <= 1


@given(rows=event_rows())
def test_every_row_with_a_duration_is_drawn_or_counted(rows: list[Row]) -> None:
    timed = [r for r in rows if r["dur_ns"] is not None]
    found = view(trace(*rows))
    if not timed:
        assert found.figures == ()
        assert found.notes[0].startswith("needs events with a duration")
        return
    drawn = figure(found)
    deeper = len(timed) - len(drawn.start_ns)
    assert drawn.total == len(timed)
    assert (f"{deeper} lie deeper" in drawn.thinning or f"{deeper} lies deeper" in drawn.thinning) or not deeper
    names = Counter((r["name"] or timeline.UNNAMED, r["kind"], max(r["dur_ns"], 0)) for r in timed)
    assert Counter((name, kind, dur) for _, _, _, dur, kind, name in rectangles(drawn)) <= names


@given(rows=event_rows())
def test_rectangles_of_one_line_do_not_overlap_and_lie_within_the_span(rows: list[Row]) -> None:
    found = view(trace(*rows))
    if not found.figures:
        return
    drawn = figure(found)
    lines: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for lane, level, start, dur in zip(drawn.lane, drawn.level, drawn.start_ns, drawn.dur_ns, strict=True):
        assert 0 <= level < drawn.lanes[lane].depth
        assert 0 <= start <= start + dur <= drawn.end_ns - drawn.begin_ns
        if dur:
            lines.setdefault((lane, level), []).append((start, start + dur))
    for ranges in lines.values():
        assert all(before[1] <= after[0] for before, after in pairwise(sorted(ranges)))


def test_a_trace_without_durations_has_a_note_and_no_figure() -> None:
    assert view(trace()).notes == ("needs events with a duration; this trace has none",)
    totals = ({"name": "k", "calls": 2, "total_ns": 7},)
    assert "totals say how long" in view(trace(totals=totals)).notes[1]
    found = view(trace({"kind": "mark"}, {"kind": "counter"}, {"kind": "mark"}))
    assert found.figures == ()
    assert found.notes[1] == "not drawn, for they have no duration: 2 mark, 1 counter"


def test_a_lone_instant_has_a_timeline_and_no_shares() -> None:
    found = view(trace({"ts_ns": 1 << 60, "dur_ns": 0, "device": 0}))
    assert rectangles(figure(found)) == [("GPU 0", 0, 0, 0, "kernel", timeline.UNNAMED)]
    assert (figure(found).begin_ns, figure(found).end_ns) == (1 << 60, 1 << 60)
    assert bars(found) == {}
    assert "no time at all" in found.notes[0]


def test_a_kernel_without_length_beside_a_mark_has_a_span_and_no_utilization() -> None:
    made = trace({"ts_ns": 5, "dur_ns": 0, "device": 0}, {"ts_ns": 15, "kind": "mark"})
    found = view(made)
    assert bars(found) == {"Time of GPU 0": {"kernels": 0, "idle": 10}}
    assert [list(shares) for _, shares in figure(found).utilization] == [[]]
    assert "0.0<small> % kernels" in render(report(made), "html")


def test_times_near_the_end_of_int64_stay_exact() -> None:
    begin = (1 << 62) - 10**9
    found = figure(view(trace({"ts_ns": begin, "dur_ns": 1}, {"ts_ns": begin + 123_456_789, "dur_ns": 7})))
    assert (found.begin_ns, found.start_ns, found.dur_ns) == (begin, [0, 123_456_789], [1, 7])


@pytest.mark.parametrize(
    "rows",
    [
        ({"ts_ns": -(1 << 61), "dur_ns": 1}, {"ts_ns": (1 << 61) + 1, "dur_ns": 1}),
        ({"ts_ns": 0, "dur_ns": (1 << 63) - 1},),
        ({"ts_ns": -(1 << 63), "dur_ns": 1},),
    ],
)
def test_rows_centuries_apart_are_told_and_not_drawn(rows: tuple[Row, ...]) -> None:
    found = view(trace(*rows))
    assert found.figures == ()
    assert "more than 146 years apart" in found.notes[0]


def test_negative_durations_are_drawn_as_nothing_and_told() -> None:
    found = view(trace({"dur_ns": -5}, {"dur_ns": 10, "ts_ns": 3}))
    assert sorted(figure(found).dur_ns) == [0, 10]
    assert "1 row has a duration below zero, drawn as 0" in found.notes


def test_rows_that_overlap_in_part_stand_on_lines_of_their_own() -> None:
    rows = [{"ts_ns": t, "dur_ns": 10, "device": 0, "stream": 7, "name": n} for t, n in ((0, "a"), (5, "b"), (12, "c"))]
    assert [(n, level) for _, level, _, _, _, n in rectangles(figure(view(trace(*rows))))] == [
        ("a", 0), ("b", 1), ("c", 0),
    ]  # fmt: skip


def test_nesting_beyond_eight_levels_is_counted() -> None:
    rows = [{"ts_ns": i, "dur_ns": 100 - 2 * i, "kind": "operator", "tid": 1} for i in range(11)]
    found = figure(view(trace(*rows)))
    assert max(found.level) == 7
    assert found.thinning == "8 of 11 rectangles are drawn; 3 lie deeper than 8 levels"


def test_many_lanes_leave_room_for_fewer_levels() -> None:
    rows = [
        {"ts_ns": i, "dur_ns": 100 - 2 * i, "kind": "operator", "tid": tid} for tid in range(50) for i in range(6)
    ]  # fmt: skip
    found = figure(view(trace(*rows)))
    assert len(found.lanes) == 50
    assert {lane.depth for lane in found.lanes} == {3}
    assert found.thinning == "150 of 300 rectangles are drawn; 150 lie deeper than 3 levels"


def test_of_very_many_lanes_the_busiest_of_devices_and_host_are_shown() -> None:
    streams = [{"ts_ns": 0, "dur_ns": 100 + s, "device": 0, "stream": s} for s in range(70)]
    threads = [{"ts_ns": 0, "dur_ns": 9000 - t, "kind": "operator", "tid": t} for t in range(45)]
    found = figure(view(trace(*streams, *threads)))
    labels = [lane.label for lane in found.lanes]
    assert labels == [f"GPU 0 stream {s}" for s in range(40, 70)] + [f"host thread {t}" for t in range(30)]
    assert found.thinning == (
        "60 of 115 rectangles are drawn; the busiest 30 of 70 device lanes and 30 of 45 host lanes are shown "
        "(55 rectangles are on the others)"
    )
    few_threads = figure(view(trace(*streams, *threads[:4])))
    assert len(few_threads.lanes) == 60
    assert sum(lane.label.startswith("host") for lane in few_threads.lanes) == 4


def thinned(rows: int, monkeypatch: pytest.MonkeyPatch, most: int) -> Timeline:
    monkeypatch.setattr(timeline, "MOST_RECTANGLES", most)
    made = [
        {"ts_ns": 100 * i, "dur_ns": 1 + (i * 7919) % 97, "device": 0, "stream": i % 2, "name": f"k{i}"}
        for i in range(rows)
    ]
    return figure(view(trace(*made)))


def test_thinning_keeps_the_longest_of_each_part_of_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = thinned(1000, monkeypatch, 40)
    assert len(found.start_ns) == 40
    assert (
        "40 of 1,000 rectangles are drawn: on each line the longest that begins in each of 20 equal" in found.thinning
    )
    width = -(-(found.end_ns - found.begin_ns) // 20)
    kept = set(zip(found.lane, found.start_ns, strict=True))
    cells: dict[tuple[int, int], tuple[int, int]] = {}
    for i in range(1000):
        key = (i % 2, 100 * i // width)
        cells[key] = max(cells.get(key, (0, 0)), (1 + (i * 7919) % 97, -100 * i))
    assert kept == {(lane, -start) for (lane, _), (_, start) in cells.items()}
    assert found.start_ns == sorted(found.start_ns)


@given(rows=st.integers(30, 300), most=st.integers(4, 29))
def test_thinning_fills_all_room_and_the_longest_of_all_stays(rows: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        found = thinned(rows, patch, most)
    assert len(found.start_ns) == most
    assert max(found.dur_ns) == max(1 + (i * 7919) % 97 for i in range(rows))
    assert found.total == rows


def test_at_most_fifty_thousand_rectangles_are_drawn() -> None:
    rows = [{"ts_ns": 10 * i, "dur_ns": 5, "device": 0, "stream": 7} for i in range(50_001)]
    found = figure(view(trace(*rows)))
    assert len(found.start_ns) == 50_000
    assert found.thinning.startswith("50,000 of 50,001 rectangles are drawn: on each line the longest")
    assert figure(view(trace(*rows[:50_000]))).thinning == ""


def test_lanes_are_called_what_the_files_call_them() -> None:
    run = runs(1)
    run.devices = {(0, 0): "Tesla K40c"}
    run.streams = {(0, 0, 7): "Default"}
    run.threads = {(0, 5, 2): "main"}
    run.ids = {("tid", 0, 1): "0x7fe1a2b3c4d5e6f7", ("stream", 0, 3): "0x99aabbccddeeff00"}
    rows = (
        {"dur_ns": 9, "device": 0, "stream": 7},
        {"dur_ns": 9, "device": 0, "stream": 3},
        {"dur_ns": 9},
        {"dur_ns": 9, "kind": "runtime", "pid": 5, "tid": 1},
        {"dur_ns": 9, "kind": "runtime", "pid": 5, "tid": 2},
        {"dur_ns": 9, "kind": "runtime", "pid": 5},
    )
    found = view(trace(*rows, run=run))
    assert [lane.label for lane in figure(found).lanes] == [
        "GPU 0 stream 0x99aabbccddeeff00", "GPU 0 stream 7 Default", "GPU", "host thread 0x7fe1a2b3c4d5e6f7",
        "host thread 2 main", "host",
    ]  # fmt: skip
    assert {lane.group for lane in figure(found).lanes} == {""}
    assert list(bars(found)) == ["Time of all 2 devices", "Time of GPU 0 Tesla K40c", "Time of GPU"]


def test_contexts_are_named_where_a_device_has_several() -> None:
    rows = [{"dur_ns": 9, "device": 0, "context": c, "stream": 7} for c in (1, 2)]
    assert [lane.label for lane in figure(view(trace(*rows))).lanes] == [
        "GPU 0 context 1 stream 7", "GPU 0 context 2 stream 7",
    ]  # fmt: skip
    assert figure(view(trace(rows[0]))).lanes[0].label == "GPU 0 stream 7"


def test_lanes_are_grouped_by_input_rank_and_process_where_there_are_several() -> None:
    def groups(*rows: Row, count: int = 2) -> list[str]:
        run = runs(count)
        run.processes = {(0, 5): "python"}
        found = figure(view(trace(*({"dur_ns": 9, "kind": "operator", **row} for row in rows), run=run)))
        return [lane.group for lane in found.lanes]

    assert groups({"rank": 0}, {"rank": 1, "source": 1}) == ["rank 0", "rank 1"]
    assert groups({"rank": 0}, {"rank": 0, "source": 1}) == ["run0.csv", "run1.csv"]
    assert groups({"rank": 0}, {"source": 1}) == ["run0.csv · rank 0", "run1.csv · no rank named"]
    assert groups({"pid": 5}, {"pid": 6}) == ["process 5 python", "process 6"]
    kernel = {"kind": "kernel", "device": 0}
    assert groups(kernel, {"pid": 5}, {"pid": 6}) == ["devices", "process 5 python", "process 6"]
    assert groups({"pid": 5}, {"pid": 6}, {}) == ["process 5 python", "process 6", "no process named"]
    assert groups(kernel, {"pid": 5}) == ["", ""]


def test_inputs_without_a_common_clock_begin_at_zero_each() -> None:
    rows = (
        {"ts_ns": 1 << 60, "dur_ns": 10, "device": 0},
        {"ts_ns": (1 << 60) + 90, "dur_ns": 10, "device": 0},
        {"ts_ns": 500, "dur_ns": 7, "device": 0, "source": 1},
        {"ts_ns": 530, "dur_ns": 7, "device": 0, "source": 1},
    )
    found = view(trace(*rows, run=runs(2, origin=None)))
    assert sorted(zip(figure(found).lane, figure(found).start_ns, strict=True)) == [(0, 0), (0, 90), (1, 0), (1, 30)]
    assert (figure(found).begin_ns, figure(found).end_ns) == (0, 100)
    assert any("share no clock" in note for note in found.notes)
    of_all = bars(found)["Time of all 2 devices"]
    assert of_all == {"kernels": 34, "idle": 137 - 34}
    assert [sum(shares) for _, shares in figure(found).utilization] == [20, 14]


def test_runs_of_one_file_begin_at_zero_each_and_have_bars_of_their_own() -> None:
    rows = (
        {"ts_ns": 700, "dur_ns": 10, "device": 0, "pid": 5},
        {"ts_ns": 790, "dur_ns": 10, "device": 0, "pid": 5},
        {"ts_ns": 300, "dur_ns": 20, "device": 0, "pid": 6},
    )
    found = view(trace(*rows, run=runs(1, origin=None, facts={"runs": [{"pid": 5}, {"pid": 6}]})))
    assert sorted(zip(figure(found).lane, figure(found).start_ns, strict=True)) == [(0, 0), (0, 90), (1, 0)]
    assert [lane.group for lane in figure(found).lanes] == ["process 5", "process 6"]
    assert bars(found) == {
        "Time of all 2 runs on devices": {"kernels": 40, "idle": 80},
        "Time of process 5 · GPU 0": {"kernels": 20, "idle": 80},
        "Time of process 6 · GPU 0": {"kernels": 20, "idle": 0},
    }
    assert [(label, sum(shares)) for label, shares in figure(found).utilization] == [
        ("process 5 · GPU 0", 20), ("process 6 · GPU 0", 20),
    ]  # fmt: skip
    assert any("share no clock" in note for note in found.notes)


def test_made_up_starts_give_no_shares_of_time() -> None:
    found = view(trace({"dur_ns": 5, "device": 0}, run=runs(1, synthetic_time=True)))
    assert bars(found) == {}
    assert figure(found).utilization == ()
    assert found.notes == (
        "run0.csv: the file has durations alone; they are laid end to end, so gaps and overlaps mean nothing",
    )


def test_of_many_devices_the_first_are_shown_and_the_rest_told() -> None:
    rows = [{"ts_ns": 0, "dur_ns": 10 + d, "device": d} for d in range(20)]
    found = view(trace(*rows))
    assert len(bars(found)) == 9
    assert bars(found)["Time of all 20 devices"]["kernels"] == sum(10 + d for d in range(20))
    assert len(figure(found).utilization) == 16
    assert "device time is shown for all 20 devices together and for the first 8" in found.notes
    assert "utilization over time is drawn for the first 16 of 20 devices" in found.notes


def test_a_failed_input_leaves_a_gap_in_the_numbers_and_no_wrong_label() -> None:
    run = runs(2)
    ledgers = (Ledger(source=1, path="run0.csv"), Ledger(source=4, path="run1.csv"))
    rows = ({"dur_ns": 1, "source": 1}, {"dur_ns": 1, "source": 4})
    assert [x.group for x in figure(view(trace(*rows, run=run, ledgers=ledgers))).lanes] == ["run0.csv", "run1.csv"]


def test_options_that_change_nothing_are_told() -> None:
    notes = view(trace({"dur_ns": 1}), sorted_by="total", compat="paddle").notes
    assert "compat paddle changes nothing here" in notes
    assert any("--sort and --top change nothing" in note for note in notes)


def test_a_trace_read_without_a_needed_column_is_refused_by_name() -> None:
    narrow = Trace(trace({"dur_ns": 1}).events.select(["ts_ns", "dur_ns"]))
    with pytest.raises(UsageError, match="the view timeline needs the column"):
        view(narrow)


@given(rows=event_rows())
def test_the_columns_that_the_view_names_are_enough(rows: list[Row]) -> None:
    whole = trace(*rows)
    narrow = Trace(whole.events.select([c for c in whole.events.schema.names if c in VIEWS["timeline"].columns]))
    assert view(narrow) == view(Trace(whole.events))

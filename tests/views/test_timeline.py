"""timeline: every row with a duration is drawn or counted, and the parts of device time add up to the span."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import read_sample
from timelines import Drawn, drawn
from views.tables import Row, dicts, event_rows, on_trace, trace, union

import tracekit
from tracekit.errors import UsageError
from tracekit.model.report import Bar, Section
from tracekit.model.timeline import Timeline
from tracekit.model.trace import Ledger, Run, SourceFacts, Trace
from tracekit.pipeline import render, report
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


def test_devices_are_above_the_host_whose_layers_follow_each_other() -> None:
    found = view(trace(*SMALL))
    assert drawn(figure(found)) == [
        ("stream 7", 0, 40, 30, "kernel", "gemm"),
        ("stream 8", 0, 50, 40, "memcpy", "HtoD"),
        ("stream 8", 0, 90, 4, "memset", "zero"),
        ("thread 9", 0, 0, 100, "operator", "step"),
        ("thread 9", 1, 10, 20, "runtime", "cudaLaunchKernel"),
        ("thread 9 instants", 0, 95, 0, "mark", "m"),
    ]
    assert [(lane.label, lane.group, lane.layers) for lane in figure(found).lanes] == [
        ("stream 7", "GPU 0", (("", 1),)),
        ("stream 8", "GPU 0", (("", 1),)),
        ("thread 9", "process 5", (("operators", 1), ("calls", 1))),
        ("thread 9 instants", "process 5", (("", 1),)),
    ]
    assert (figure(found).begin_ns, figure(found).end_ns) == (1000, 1100)
    assert found.notes == ("shown as instants, since they have no duration: 1 mark event",)


def test_steps_and_ranges_are_above_python_which_is_above_operators_and_calls() -> None:
    on = {"pid": 5, "tid": 9}
    frames = [{"ts_ns": i, "dur_ns": 200 - 2 * i, "kind": "python_op", "name": f"f{i}", **on} for i in range(20)]
    inner = (
        {"ts_ns": 30, "dur_ns": 60, "kind": "step", "name": "step", **on},
        {"ts_ns": 31, "dur_ns": 20, "kind": "user_range", "name": "forward", **on},
        {"ts_ns": 32, "dur_ns": 5, "kind": "operator", "name": "mm", **on},
        {"ts_ns": 33, "dur_ns": 1, "kind": "runtime", "name": "cudaLaunchKernel", **on},
    )
    found = figure(view(trace(*frames, *inner)))
    (lane,) = found.lanes
    assert lane.layers == (("ranges", 2), ("python", 20), ("operators", 1), ("calls", 1))
    assert [(d.row, d.name) for d in drawn(found)] == [
        (0, "step"), (1, "forward"), *((2 + i, f"f{i}") for i in range(20)), (22, "mm"), (23, "cudaLaunchKernel"),
    ]  # fmt: skip


def test_annotations_on_a_stream_have_a_lane_of_another_name() -> None:
    rows = (
        {"ts_ns": 0, "dur_ns": 10, "device": 0, "stream": 7, "name": "gemm"},
        {"ts_ns": 0, "dur_ns": 90, "device": 0, "stream": 7, "kind": "user_range", "name": "forward"},
    )
    found = figure(view(trace(*rows)))
    assert [(lane.label, lane.overlay) for lane in found.lanes] == [("stream 7", False), ("stream 7 annotations", True)]
    assert [(d.lane, d.name) for d in drawn(found)] == [("stream 7", "gemm"), ("stream 7 annotations", "forward")]


def test_launches_lead_from_the_call_to_its_work() -> None:
    found = figure(view(trace(
        {"ts_ns": 0, "dur_ns": 5, "kind": "runtime", "name": "a", "tid": 1, "correlation": 3},
        {"ts_ns": 5, "dur_ns": 5, "kind": "runtime", "name": "b", "tid": 1, "correlation": 4},
        {"ts_ns": 20, "dur_ns": 5, "name": "of b", "device": 0, "stream": 7, "correlation": 4},
        {"ts_ns": 30, "dur_ns": 5, "name": "of a", "device": 0, "stream": 7, "correlation": 3},
        {"ts_ns": 40, "dur_ns": 5, "name": "of a too", "device": 0, "stream": 7, "correlation": 3},
        {"ts_ns": 50, "dur_ns": 5, "name": "orphan", "device": 0, "stream": 7, "correlation": 9},
    )))  # fmt: skip
    names = [d.name for d in drawn(found)]
    pairs = zip(*(places.tolist() for places in found.launches), strict=True)
    assert [(names[call], names[work]) for call, work in pairs] == [("b", "of b"), ("a", "of a"), ("a", "of a too")]


def test_counters_become_tracks() -> None:
    found = figure(view(trace(
        {"ts_ns": 100, "dur_ns": 9, "device": 0},
        {"ts_ns": 105, "kind": "counter", "name": "queue", "value": 3.0, "device": 0},
        {"ts_ns": 107, "kind": "counter", "name": "queue", "value": 1.0, "device": 0},
        {"ts_ns": 106, "kind": "counter", "name": "load", "value": 0.5},
    )))  # fmt: skip
    made = {c.label: (c.group, c.times.tolist(), c.values.tolist()) for c in found.counters}
    assert made == {"load": ("", [6], [0.5]), "queue": ("GPU 0", [5, 7], [3, 1])}
    assert {c.label: c.values.dtype.kind for c in found.counters} == {"load": "f", "queue": "i"}


def test_memory_on_a_device_is_a_running_total_that_is_never_below_zero() -> None:
    def memory(ts: int, size: int | None, name: str = "Allocate", **more: object) -> Row:
        return {"ts_ns": ts, "kind": "memory", "name": name, "bytes": size, "device": 0, **more}

    host = {"device": None, "args": '{"place":"Place(cpu)"}'}
    found = figure(view(trace(
        {"ts_ns": 100, "dur_ns": 9, "device": 0},
        memory(101, 50), memory(102, -70), memory(103, 30), memory(104, None),
        memory(105, 8, "Reserved"),
        memory(106, 4, **host),
    )))  # fmt: skip
    made = {c.label: (c.unit, c.group, c.times.tolist(), c.values.tolist()) for c in found.counters}
    assert made == {
        "memory allocated": ("bytes", "GPU 0", [1, 2, 3], [70, 0, 30]),
        "memory reserved": ("bytes", "GPU 0", [5], [8]),
        "memory allocated Place(cpu)": ("bytes", "", [6], [4]),
    }


def test_totals_that_the_file_counts_have_one_track() -> None:
    found = figure(view(trace(
        {"ts_ns": 0, "dur_ns": 9, "device": 0},
        {"ts_ns": 1, "kind": "memory", "name": "[memory]", "bytes": 5, "device": 0},
        {"ts_ns": 1, "kind": "counter", "name": "Total Allocated", "value": 105.0, "device": 0},
    )))  # fmt: skip
    assert [(c.label, c.unit, c.values.tolist()) for c in found.counters] == [("Total Allocated", "bytes", [105])]


@pytest.mark.parametrize(
    ("kind", "name", "family"),
    [
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication kernel"),
        ("kernel", "ampere_sgemm_128x64_nn", "gemm kernel"),
        ("kernel", "sm80_xmma_fprop_implicit_gemm_tf32f32", "conv kernel"),
        ("kernel", "flash_fwd_kernel", "attention kernel"),
        ("kernel", "void at::native::reduce_kernel<512, 1>", "reduction kernel"),
        ("kernel", "radixSortKVInPlace", "data movement kernel"),
        ("kernel", "my_own_thing", "kernel"),
        ("kernel", None, "kernel"),
        ("operator", "aten::linear", "matrix operator"),
        ("operator", "autograd::engine::evaluate_function: AddmmBackward0", "matrix operator"),
        ("operator", "FullyConnected", "matrix operator"),
        ("operator", "MulBackward0", "elementwise operator"),
        ("operator", "aten::batch_norm", "normalization operator"),
        ("operator_inner", "aten::copy_", "data movement operator_inner"),
        ("operator", "c10d::allreduce_", "communication operator"),
        ("operator", "aten::view", "operator"),
        ("operator", "aten::flatten_dense_tensors", "operator"),
        ("operator", None, "operator"),
        ("runtime", "cublasSgemm", "runtime"),
    ],
)
def test_kernels_and_operators_have_the_family_of_their_name(kind: str, name: str | None, family: str) -> None:
    place = {"device": 0} if kind == "kernel" else {"pid": 1, "tid": 1}
    # Another kernel and another operator of the same names change nothing.
    found = figure(view(trace(
        {"ts_ns": 0, "dur_ns": 9, "name": name, "kind": kind, **place},
        {"ts_ns": 9, "dur_ns": 9, "name": "conv", "kind": "user_range", "pid": 1, "tid": 1},
    )))  # fmt: skip
    classes = [found.kinds[kind] for kind in found.kind_of]
    assert sorted(classes) == sorted([family, "user_range"])


def test_rules_of_the_user_decide_the_family_of_a_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rules = tmp_path / "classes.toml"
    rules.write_text('attention = "my_own_thing"\n', encoding="utf-8")
    monkeypatch.setenv("TRACEKIT_KERNEL_CLASSES", str(rules))
    found = figure(view(trace({"ts_ns": 0, "dur_ns": 9, "name": "my_own_thing", "device": 0})))
    assert found.kinds == ("attention kernel",)


def test_the_picture_and_the_tables_have_the_same_time_0() -> None:
    made = trace(
        {"ts_ns": 1000, "kind": "mark", "name": "start of the profiler", "pid": 5, "tid": 9},
        {"ts_ns": 1_000_001_000, "dur_ns": 500, "kind": "step", "name": "step", "step": 3, "pid": 5, "tid": 9},
        {"ts_ns": 1_000_001_100, "dur_ns": 100, "name": "a", "device": 0, "stream": 7},
        {"ts_ns": 1_000_001_300, "dur_ns": 100, "name": "b", "device": 0, "stream": 7},
    )
    found = figure(view(made))
    assert (found.begin_ns, found.end_ns) == (1000, 1_000_001_500)
    assert found.steps == ((1_000_000_000, 500, "step"),)
    positions = {d.name: d.start for d in drawn(found) if d.kind != "mark"}
    assert positions == {"step": 1_000_000_000, "a": 1_000_000_100, "b": 1_000_000_300}
    (step,) = dicts(on_trace(VIEWS["steps"])(made, ViewOptions()).tables[-1])
    assert step["start"] == positions["step"]
    gaps = dicts(on_trace(VIEWS["idle"])(made, ViewOptions()).tables[-1])
    assert {row["at"] for row in gaps} == {0, positions["a"] + 100, positions["b"] + 100}


def test_device_time_is_parted_and_adds_up_to_the_span() -> None:
    parts = bars(view(trace(*SMALL)))["Time of GPU 0, of the run"]
    assert parts == {"kernels": 30, "exposed copies": 24, "idle": 46}
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
def test_every_row_is_drawn_once_with_its_own_figures(rows: list[Row]) -> None:
    made = trace(*rows)
    found = view(made)
    if all(r["dur_ns"] is None for r in rows):
        assert found.figures == ()
        assert found.notes[0].startswith("needs events with a duration")
        return
    shown = figure(found)
    begin = min(r["ts_ns"] for r in rows)
    assert (shown.begin_ns, shown.end_ns) == (begin, max(r["ts_ns"] + max(r["dur_ns"] or 0, 0) for r in rows))
    expected = Counter(
        (r["ts_ns"] - begin, max(r["dur_ns"] or 0, 0), r["kind"], r["name"] or timeline.UNNAMED) for r in rows
    )
    assert Counter(each[2:] for each in drawn(shown)) == expected
    assert sorted(shown.events.order.tolist()) == list(range(len(rows)))


@given(rows=event_rows())
def test_events_of_one_row_follow_each_other_and_inner_ones_are_below(rows: list[Row]) -> None:
    found = view(trace(*rows))
    if not found.figures:
        return
    lines: dict[tuple[str, int], list[Drawn]] = {}
    shown = figure(found)
    for number, each in enumerate(drawn(shown)):
        row = int(np.searchsorted(shown.events.first, number, "right")) - 1
        lines.setdefault((each.lane, row), []).append(each)
    for line in lines.values():
        assert all(before.start + before.length <= after.start for before, after in pairwise(line))


def test_a_trace_without_durations_has_a_note_and_no_figure() -> None:
    assert view(trace()).notes == ("needs events with a duration; this trace has none",)
    totals = ({"name": "k", "calls": 2, "total_ns": 7},)
    assert "totals say how long" in view(trace(totals=totals)).notes[1]
    found = view(trace({"kind": "mark"}, {"kind": "counter"}, {"kind": "mark"}))
    assert found.figures == ()
    assert found.notes[1] == "shown as instants, since they have no duration: 2 mark events"


def test_a_lone_instant_has_a_timeline_and_no_shares() -> None:
    found = view(trace({"ts_ns": 1 << 60, "dur_ns": 0, "device": 0}))
    assert drawn(figure(found)) == [("GPU 0", 0, 0, 0, "kernel", timeline.UNNAMED)]
    assert (figure(found).begin_ns, figure(found).end_ns) == (1 << 60, 1 << 60)
    assert bars(found) == {}
    assert "no time at all" in found.notes[0]


def test_a_kernel_without_length_beside_a_mark_has_a_span() -> None:
    made = trace({"ts_ns": 5, "dur_ns": 0, "device": 0}, {"ts_ns": 15, "kind": "mark"})
    found = view(made)
    assert bars(found) == {"Time of GPU 0, of the run": {"kernels": 0, "idle": 10}}
    assert [list(shares) for _, shares in figure(found).utilization] == [[0.0] * 10]
    assert "compute <b>0.0 %</b>" in render(report(made), "html")


def test_times_near_the_end_of_int64_stay_exact() -> None:
    begin = (1 << 62) - 10**9
    found = figure(view(trace({"ts_ns": begin, "dur_ns": 1}, {"ts_ns": begin + 123_456_789, "dur_ns": 7})))
    assert (found.begin_ns, [(d.start, d.length) for d in drawn(found)]) == (begin, [(0, 1), (123_456_789, 7)])


@pytest.mark.parametrize(
    "rows",
    [
        ({"ts_ns": -(1 << 61), "dur_ns": 1}, {"ts_ns": (1 << 61) + 1, "dur_ns": 1}),
        ({"ts_ns": 0, "dur_ns": (1 << 63) - 1},),
        ({"ts_ns": -(1 << 63), "dur_ns": 1},),
        ({"ts_ns": 0, "dur_ns": 1}, {"ts_ns": (1 << 53) - 1, "dur_ns": 1}),
    ],
)
def test_rows_too_far_apart_for_a_script_are_not_drawn(rows: tuple[Row, ...]) -> None:
    found = view(trace(*rows))
    assert found.figures == ()
    assert "more than 104 days apart" in found.notes[0]


def test_negative_durations_are_drawn_as_nothing_and_told() -> None:
    found = view(trace({"dur_ns": -5}, {"dur_ns": 10, "ts_ns": 3}))
    assert sorted(d.length for d in drawn(figure(found))) == [0, 10]
    assert "1 row has a duration below zero, drawn as 0" in found.notes


def test_rows_that_overlap_in_part_have_rows_of_their_own() -> None:
    rows = [{"ts_ns": t, "dur_ns": 10, "device": 0, "stream": 7, "name": n} for t, n in ((0, "a"), (5, "b"), (12, "c"))]
    found = figure(view(trace(*rows)))
    assert [(d.name, d.row) for d in drawn(found)] == [("a", 0), ("c", 0), ("b", 1)]
    assert found.lanes[0].overlaps == 1


def test_nesting_of_any_depth_is_shown() -> None:
    rows = [{"ts_ns": i, "dur_ns": 1000 - 2 * i, "kind": "operator", "tid": 1} for i in range(300)]
    found = figure(view(trace(*rows)))
    assert [d.row for d in drawn(found)] == list(range(300))
    assert found.lanes[0].overlaps == 0


def test_thousands_of_lanes_are_shown() -> None:
    rows = [{"ts_ns": 0, "dur_ns": 100 + s, "device": s // 100, "stream": s} for s in range(3000)]
    found = figure(view(trace(*rows)))
    assert [lane.label for lane in found.lanes] == [f"stream {s}" for s in range(3000)]
    assert len({lane.group for lane in found.lanes}) == 30


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
        "stream 0x99aabbccddeeff00", "stream 7 Default", "GPU", "thread 0x7fe1a2b3c4d5e6f7", "thread 2 main",
        "no thread named",
    ]  # fmt: skip
    assert list(dict.fromkeys(lane.group for lane in figure(found).lanes)) == ["GPU 0", "GPU", "process 5"]
    assert list(bars(found)) == [
        "Time of all 2 devices, of the run",
        "Time of GPU 0 Tesla K40c, of the run",
        "Time of GPU, of the run",
    ]


def test_contexts_are_named_where_a_device_has_several() -> None:
    rows = [{"dur_ns": 9, "device": 0, "context": c, "stream": 7} for c in (1, 2)]
    assert [lane.label for lane in figure(view(trace(*rows))).lanes] == [
        "context 1 stream 7", "context 2 stream 7",
    ]  # fmt: skip
    assert figure(view(trace(rows[0]))).lanes[0].label == "stream 7"


def test_lanes_are_grouped_by_input_rank_and_process_where_there_are_several() -> None:
    def groups(*rows: Row, count: int = 2) -> list[str]:
        run = runs(count)
        run.processes = {(0, 5): "python"}
        found = figure(view(trace(*({"dur_ns": 9, "kind": "operator", **row} for row in rows), run=run)))
        return [lane.group for lane in found.lanes]

    assert groups({"rank": 0}, {"rank": 1, "source": 1}) == ["rank 0 · host", "rank 1 · host"]
    assert groups({"rank": 0}, {"rank": 0, "source": 1}) == ["run0.csv · host", "run1.csv · host"]
    assert groups({"rank": 0}, {"source": 1}) == [
        "run0.csv · rank 0 · host", "run1.csv · no rank named · host",
    ]  # fmt: skip
    assert groups({"pid": 5}, {"pid": 6}) == ["process 5 python", "process 6"]
    kernel = {"kind": "kernel", "device": 0}
    assert groups(kernel, {"pid": 5}, {"pid": 6}) == ["GPU 0", "process 5 python", "process 6"]
    assert groups({"pid": 5}, {"pid": 6}, {}) == ["process 5 python", "process 6", "host"]
    assert groups(kernel, {"pid": 5}) == ["GPU 0", "process 5 python"]


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([0, 1, 10, 11, 2], [0, 1, 2, 10, 11]),  # as a shell lists rank*.json
        ([10, 2], [2, 10]),
        ([3, None, 1], [1, 3, None]),
    ],
)
def test_lanes_of_ranks_are_in_the_order_of_their_numbers(ranks: list[int | None], expected: list[int | None]) -> None:
    rows = [{"dur_ns": 9, "device": 0, "rank": rank, "source": i} for i, rank in enumerate(ranks)]
    found = figure(view(trace(*rows, run=runs(len(ranks)))))
    words = ["no rank named" if rank is None else f"rank {rank}" for rank in expected]
    assert len(found.lanes) == len(ranks)
    assert [word in lane.group.split(" · ") for word, lane in zip(words, found.lanes, strict=True)] == [True] * len(
        words
    )


def test_inputs_of_several_ranks_each_stay_together() -> None:
    places = [(0, 4), (0, 12), (1, 0), (1, 5)]
    rows = [{"dur_ns": 9, "device": 0, "rank": rank, "source": source} for source, rank in places]
    found = figure(view(trace(*rows, run=runs(2))))
    words = [" ".join(lane.group.split(" · ")) for lane in found.lanes]
    assert [word.rpartition("rank ")[2].split()[0] for word in words] == ["0", "5", "4", "12"]


def test_inputs_without_a_common_clock_begin_at_zero_each() -> None:
    rows = (
        {"ts_ns": 1 << 60, "dur_ns": 10, "device": 0},
        {"ts_ns": (1 << 60) + 90, "dur_ns": 10, "device": 0},
        {"ts_ns": 500, "dur_ns": 7, "device": 0, "source": 1},
        {"ts_ns": 530, "dur_ns": 7, "device": 0, "source": 1},
    )
    found = view(trace(*rows, run=runs(2, origin=None)))
    assert [d.start for d in drawn(figure(found))] == [0, 90, 0, 30]
    assert figure(found).events.first.tolist() == [0, 2, 4]
    assert (figure(found).begin_ns, figure(found).end_ns) == (0, 100)
    assert any("share no clock" in note for note in found.notes)
    of_all = bars(found)["Time of all 2 devices, of the run"]
    assert of_all == {"kernels": 34, "idle": 137 - 34}
    assert [sum(shares) for _, shares in figure(found).utilization] == [20, 14]


def test_runs_of_one_file_begin_at_zero_each_and_have_bars_of_their_own() -> None:
    rows = (
        {"ts_ns": 700, "dur_ns": 10, "device": 0, "pid": 5},
        {"ts_ns": 790, "dur_ns": 10, "device": 0, "pid": 5},
        {"ts_ns": 300, "dur_ns": 20, "device": 0, "pid": 6},
    )
    found = view(trace(*rows, run=runs(1, origin=None, facts={"runs": [{"pid": 5}, {"pid": 6}]})))
    assert [d.start for d in drawn(figure(found))] == [0, 90, 0]
    assert [lane.group for lane in figure(found).lanes] == ["process 5 · GPU 0", "process 6 · GPU 0"]
    assert bars(found) == {
        "Time of all 2 runs on devices, of the run": {"kernels": 40, "idle": 80},
        "Time of process 5 · GPU 0, of the run": {"kernels": 20, "idle": 80},
        "Time of process 6 · GPU 0, of the run": {"kernels": 20, "idle": 0},
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
        "run0.csv: the file has only durations; they are laid end to end, so gaps and overlaps mean nothing",
    )


def test_of_many_devices_the_first_are_shown_and_the_rest_told() -> None:
    rows = [{"ts_ns": 0, "dur_ns": 10 + d, "device": d} for d in range(20)]
    found = view(trace(*rows))
    assert len(bars(found)) == 9
    assert bars(found)["Time of all 20 devices, of the run"]["kernels"] == sum(10 + d for d in range(20))
    assert len(figure(found).utilization) == 16
    assert "device time is shown for all 20 devices together and for the first 8" in found.notes
    assert "utilization over time is drawn for the first 16 of 20 devices" in found.notes


def test_a_failed_input_leaves_a_gap_in_the_numbers_and_no_wrong_label() -> None:
    run = runs(2)
    ledgers = (Ledger(source=1, path="run0.csv"), Ledger(source=4, path="run1.csv"))
    rows = ({"dur_ns": 1, "source": 1}, {"dur_ns": 1, "source": 4})
    lanes = figure(view(trace(*rows, run=run, ledgers=ledgers))).lanes
    assert [lane.group for lane in lanes] == ["run0.csv · GPU", "run1.csv · GPU"]


def test_options_that_change_nothing_are_told() -> None:
    notes = view(trace({"dur_ns": 1}), sorted_by="total", compat="paddle").notes
    assert "--compat paddle has no effect here" in notes
    assert any("--sort and --top have no effect" in note for note in notes)


def test_a_trace_read_without_a_needed_column_is_refused_by_name() -> None:
    narrow = Trace(trace({"dur_ns": 1}).events.select(["ts_ns", "dur_ns"]))
    with pytest.raises(UsageError, match="the view timeline needs the column"):
        view(narrow)


@given(rows=event_rows())
def test_the_columns_that_the_view_names_are_enough(rows: list[Row]) -> None:
    whole = trace(*rows)
    narrow = Trace(whole.events.select([c for c in whole.events.schema.names if c in VIEWS["timeline"].columns]))
    found, expected = view(narrow), view(Trace(whole.events))
    assert (found.notes, bars(found)) == (expected.notes, bars(expected))
    assert len(found.figures) == len(expected.figures)
    if found.figures:
        assert drawn(figure(found)) == drawn(figure(expected))
        assert figure(found).lanes == figure(expected).lanes


def test_a_track_of_memory_begins_at_the_level_that_the_file_gives() -> None:
    def memory(ts: int, size: int, total: int | None, key: str = "Total Allocated", **more: object) -> Row:
        row = {"ts_ns": ts, "kind": "memory", "name": "[memory]", "bytes": size, "device": 0, **more}
        return row | ({} if total is None else {"args": json.dumps({key: total, "Total Reserved": 9_000})})

    found = figure(view(trace(
        {"ts_ns": 100, "dur_ns": 9, "device": 0},
        memory(101, -20, 980), memory(102, 50, 1_030), memory(103, -10, None), memory(104, 5, 1_025),
        memory(105, 7, 507, "current_allocated", device=1),
        memory(106, 7, None, device=2),
    )))  # fmt: skip
    made = {c.group: c.values.tolist() for c in found.counters}
    assert made == {"GPU 0": [980, 1_030, 1_020, 1_025], "GPU 1": [507], "GPU 2": [7]}


def test_a_track_of_memory_has_the_peak_of_the_table() -> None:
    made = read_sample("torch-memory/two-gpus.pickle")
    tracks = {c.group: int(c.values.max()) for c in figure(view(made)).counters if c.label == "memory allocated"}
    table = tracekit.view(made, "memory").tables[0].rows()
    assert tracks == {row[0]: row[2] for row in table if row[1] == "allocated"}

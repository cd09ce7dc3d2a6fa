"""The data of a page's timeline, read back in Python, equals the trace: events, links, counters, what is missing."""

from __future__ import annotations

import zlib
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_limits import Limit, small
from support import SAMPLES
from timelines import Drawn, PageTimeline, a_timeline, drawn, read_page
from views.tables import Row, event_rows, trace

import tracekit
from tracekit.index.trace_index import TraceIndex
from tracekit.model.display import escape_controls, shown_name
from tracekit.model.report import Finding, Report, ReportTable, Section
from tracekit.model.timeline import CriticalPath, Timeline
from tracekit.model.trace import Trace
from tracekit.pipeline import report
from tracekit.render import RENDERERS
from tracekit.render.base import RenderOptions
from tracekit.render.page import timeline
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions


def figure_of(made: Trace) -> Timeline:
    (found,) = (
        f for f in VIEWS["timeline"].compute(TraceIndex(made), ViewOptions()).figures if isinstance(f, Timeline)
    )
    return found


def page_of(figure: Timeline, events: int = 2_000_000, mb: float = 32, args_mb: float = 8) -> PageTimeline:
    made = Report("t", "0", sections=(Section("timeline", "Timeline", figures=(figure,)),))
    options = RenderOptions(page_events=events, page_mb=mb, page_args_mb=args_mb)
    return read_page(RENDERERS["html"].render(made, options))


def shown(each: Drawn) -> Drawn:
    return each._replace(lane=shown_name(each.lane), kind=escape_controls(each.kind), name=shown_name(each.name))


@given(rows=event_rows())
def test_every_event_of_any_trace_is_in_the_page_exactly(rows: list[Row]) -> None:
    if all(row["dur_ns"] is None for row in rows):
        return
    figure = figure_of(trace(*rows))
    page = page_of(figure)
    assert page.events() == [shown(each) for each in drawn(figure)]
    assert page.head["span"] * page.head["unit"] == figure.end_ns - figure.begin_ns
    assert page.head["begin"] == str(figure.begin_ns)
    calls, work = (places.tolist() for places in figure.launches)
    assert page.launches == dict(zip(work, calls, strict=True))
    assert [at for lane in page.head["lanes"] for at in (lane["row"], lane["row"] + lane["depth"])][-1] + 1 == len(
        page.head["first"]
    )


def many(count: int) -> Trace:
    """Calls that launch kernels on 3 streams, out of order, with idle time between, times that need several bytes."""
    draw = np.random.default_rng(5)
    rows: list[Row] = []
    at = 0
    free = [0, 0, 0]
    for number in range(count):
        at += int(draw.integers(1_000, 9_000)) + (10**11 if number == count // 2 else 0)
        stream = int(draw.integers(3))
        begin = max(free[stream], at + int(draw.integers(5_000, 90_000)))
        length = int(draw.integers(1, 60_000))
        free[stream] = begin + length
        name = f"k{int(draw.integers(300))}"
        rows.append({"ts_ns": at, "dur_ns": 900, "kind": "runtime", "name": "l", "tid": 1, "correlation": number})
        rows.append(
            {"ts_ns": begin, "dur_ns": length, "name": name, "device": 0, "stream": stream, "correlation": number}
        )
    return trace(*rows)


@pytest.fixture(scope="module")
def large() -> Timeline:
    return figure_of(many(40_000))


def test_events_of_several_chunks_stay_exact(large: Timeline) -> None:
    page = page_of(large)
    assert page.head["eventParts"] == 2
    every = slice(None)
    assert np.array_equal(page.start, large.events.starts_at(every))
    assert np.array_equal(page.length, large.events.lengths_at(every))
    assert np.array_equal(page.code, large.events.codes_at(every))
    assert page.launches == dict(zip(large.launches[1].tolist(), large.launches[0].tolist(), strict=True))
    assert len(page.launches) == 40_000


@pytest.mark.parametrize(("events", "mb"), [(50_000, 32), (70_001, 32), (1, 32), (2_000_000, 0.25)])
def test_what_is_beyond_the_budget_is_counted_where_it_is_missing(large: Timeline, events: int, mb: float) -> None:
    page = page_of(large, events, mb)
    head = page.head
    left = sum(each["count"] for each in head["missing"])
    assert 0 < head["n"] <= events or events == 1
    assert (head["n"] + left, head["total"]) == (80_000, 80_000)
    assert f"{left:,} of 80,000 events are not in this page" in head["budget"]
    every = slice(None)
    start, length = large.events.starts_at(every), large.events.lengths_at(every)
    for row, (begin, end) in enumerate(pairwise(large.events.first.tolist())):
        truth = Counter(zip(start[begin:end].tolist(), length[begin:end].tolist(), strict=True))
        a, b = head["first"][row], head["first"][row + 1]
        truth -= Counter(zip(page.start[a:b].tolist(), page.length[a:b].tolist(), strict=True))
        stretches = [each for each in head["missing"] if each["rows"] == [row, row + 1]]
        assert sum(truth.values()) == sum(each["count"] for each in stretches)
        times = np.array(sorted(truth), np.int64).reshape(-1, 2)
        for each in stretches:
            low = np.searchsorted(times[:, 0], each["start"], "left")
            high = np.searchsorted(times[:, 0], each["end"], "left")
            inside = times[low:high]
            inside = inside[inside.sum(axis=1) <= each["end"]]
            assert each["count"] == len(inside)
            assert each["busy"] == inside[:, 1].sum()
            assert inside[0, 0] == each["start"]
            assert inside[-1].sum() == each["end"]
    names = {(s, n, c) for s, n, c in zip(page.start.tolist(), page.length.tolist(), page.code.tolist(), strict=True)}
    truth_names = zip(start.tolist(), length.tolist(), large.events.codes_at(every).tolist(), strict=True)
    assert names <= set(truth_names)
    for work, call in page.launches.items():
        assert page.names[page.code[call]] == "l"
        assert page.start[call] < page.start[work]


def test_a_million_rows_make_no_million_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, Limit.PAGE_STRETCHES, 40)
    kernels = [
        {"kind": "kernel", "name": "k", "ts_ns": 7 * n, "dur_ns": 9_000 + n, "device": 0, "stream": 7 + n % 2, "pid": 1}
        for n in range(1_200)
    ]
    figure = figure_of(trace(*kernels))
    assert len(figure.events.first) > 1_000  # they overlap: most have a row of their own
    page = page_of(figure, 100)
    head, stretches = page.head, page.head["missing"]
    assert 20 < len(stretches) <= 40 + len(head["lanes"])
    assert sum(each["count"] for each in stretches) == head["total"] - head["n"]
    layers = [(lane["row"], lane["row"] + lane["depth"]) for lane in head["lanes"]]
    assert all(any(low <= a < b <= high for low, high in layers) for a, b in (each["rows"] for each in stretches))
    start, length = (take(slice(None)) for take in (figure.events.starts_at, figure.events.lengths_at))
    busy = 0
    for row, (begin, end) in enumerate(pairwise(figure.events.first.tolist())):
        whole = Counter(zip(start[begin:end].tolist(), length[begin:end].tolist(), strict=True))
        a, b = head["first"][row], head["first"][row + 1]
        for at, long in whole - Counter(zip(page.start[a:b].tolist(), page.length[a:b].tolist(), strict=True)):
            busy += long
            around = [each for each in stretches if each["rows"][0] <= row < each["rows"][1]]
            assert any(each["start"] <= at and at + long <= each["end"] for each in around)
    assert busy == sum(each["busy"] for each in stretches)


def test_the_shortest_events_go_first(large: Timeline) -> None:
    page = page_of(large, 40_000)
    longest_missing = max(each["busy"] / each["count"] for each in page.head["missing"])
    assert longest_missing <= 900  # the calls, which are 900 ns each; kernels have up to 60 us
    assert 60_000 - int(page.length.max()) < 100


def test_times_in_whole_microseconds_take_a_unit_of_their_own() -> None:
    rows = [{"ts_ns": 1000 * i + 7, "dur_ns": 1000, "device": 0} for i in range(9)]
    page = page_of(figure_of(trace(*rows)))
    assert (page.head["unit"], page.length.tolist()) == (1000, [1] * 9)
    assert page_of(figure_of(trace(*rows, {"ts_ns": 3, "dur_ns": 1, "device": 0}))).head["unit"] == 1


def test_what_else_is_known_of_an_event_is_read_back() -> None:
    rows = (
        {
            "ts_ns": 0,
            "dur_ns": 5,
            "device": 0,
            "kind": "memcpy",
            "bytes": 1 << 40,
            "copy_kind": "HtoD",
            "correlation": 7,
        },
        {"ts_ns": 5, "dur_ns": 5, "device": 0, "registers": 32, "raw_name": "</script><b>", "correlation": 0},
        {"ts_ns": 10, "dur_ns": 5, "device": 0, "kind": "memcpy", "bytes": -3, "copy_kind": "DtoH"},
    )
    assert page_of(figure_of(trace(*rows))).args == {
        "raw_name": {1: "</script><b>"}, "correlation": {0: 7, 1: 0}, "copy_kind": {0: "HtoD", 2: "DtoH"},
        "bytes": {0: 1 << 40, 2: -3}, "registers": {1: 32},
    }  # fmt: skip


def test_arguments_of_several_chunks_follow_their_events(large: Timeline) -> None:
    page = page_of(large)
    known = page.args["correlation"]
    assert len(known) == 80_000
    assert all(known[work] == known[call] for work, call in page.launches.items())
    without = page_of(large, args_mb=0.001)
    assert (without.args, without.head["argsLeft"]) == ({}, ["correlation"])


DIGITS = st.text("0123456789", min_size=1, max_size=18)
ARGS = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.sampled_from(["", "{}", "[1]", "7", "0", "-0.05e3", "\0\1\2", '{"a":"\0"}', "007", "9" * 17, "1e999", "é7€"]),
    st.builds('{{"id":{},"list":[{},{}]}}'.format, DIGITS, DIGITS, DIGITS),
    st.builds('{{"x":{}.{}}}'.format, DIGITS, DIGITS),
)


@given(texts=st.lists(ARGS, min_size=1, max_size=30))
def test_arguments_without_a_column_come_back_digit_by_digit(texts: list[str | None]) -> None:
    rows = [{"ts_ns": i, "dur_ns": 1, "device": 0, "args": text} for i, text in enumerate(texts)]
    page = page_of(figure_of(trace(*rows)))
    expected = {i: text for i, text in enumerate(texts) if text is not None}
    for mark in "\0\1\2":  # no JSON has them
        expected = {i: text.replace(mark, f"\\u{ord(mark):04x}") for i, text in expected.items()}
    assert page.members == expected
    assert page.head.get("members") == ({"n": len(expected), "left": []} if expected else None)


def test_arguments_beyond_their_budget_are_counted_where_they_are_missing() -> None:
    count = 40_000
    rows = [{"ts_ns": i, "dur_ns": 1, "device": 0, "args": f'{{"a":"{i * 7919 % 10**9:x}"}}'} for i in range(count)]
    figure = figure_of(trace(*rows))
    whole = page_of(figure)
    assert whole.members == {i: row["args"] for i, row in enumerate(rows)}
    part = page_of(figure, args_mb=0.12)
    assert part.head["members"] == {"n": 1 << 14, "left": [[16384, 32768, 16384], [32768, count, count - 32768]]}
    assert part.members == {i: whole.members[i] for i in range(1 << 14)}
    assert page_of(figure, args_mb=0).members == {}


def test_counters_and_utilization_are_read_back() -> None:
    rows = [{"ts_ns": 10 * i, "kind": "counter", "name": "q", "value": float(v)} for i, v in enumerate((5, 0, -3, 7))]
    rows += [{"ts_ns": 5 + 10 * i, "kind": "counter", "name": "f", "value": v} for i, v in enumerate((0.1, 1e300))]
    page = page_of(figure_of(trace({"ts_ns": 0, "dur_ns": 100, "device": 0}, *rows)))
    found = {
        head["label"]: (times.tolist(), values.tolist())
        for head, (times, values) in zip(page.head["counters"], page.counters, strict=True)
    }
    assert found["q"] == ([0, 10, 20, 30], [5, 0, -3, 7])
    assert found["f"] == ([5, 15], [0.1, 1e300])
    assert found["utilization GPU 0"] == (list(range(100)), [100.0] * 100)


def test_tracks_are_below_the_lanes_of_their_device() -> None:
    rows = [
        {"ts_ns": 0, "dur_ns": 5, "kind": "kernel", "pid": pid, "device": device, "stream": 7}
        for pid, device in ((1, 0), (2, 1), (3, 1))
    ]
    rows += [{"ts_ns": i, "kind": "counter", "name": "c", "value": 1.0, "device": i, "pid": 9} for i in (0, 1)]
    head = page_of(figure_of(trace(*rows))).head
    labels = [*(group["label"] for group in head["groups"]), "none"]
    found = {(each["label"], labels[each["group"]]) for each in head["counters"]}
    # two processes share GPU 1: its tracks are of neither
    assert found == {
        ("c", "process 1 · GPU 0"), ("utilization GPU 0", "process 1 · GPU 0"),
        ("c", "none"), ("utilization GPU 1", "none"),
    }  # fmt: skip


def a_finding(*events: int, owner: str = "") -> Finding:
    return Finding("idle", owner, "claim", (), events, 5, 0.1, "high", "because", "advice", "check")


def marked(figure: Timeline, *findings: Finding) -> list[tuple[str, int, list[int], int, int]]:
    sections = (
        Section("timeline", "Timeline", figures=(figure,)),
        Section("findings", "Findings", (ReportTable("t", "T", ()),), findings=findings),
    )
    text = RENDERERS["html"].render(Report("t", "0", sections=sections), RenderOptions())
    marks = read_page(text).head["marks"]
    return [(m["view"], m["row"], m["places"], m["start"], m["end"]) for m in marks]


def test_a_finding_marks_its_events_by_place_and_time() -> None:
    rows = [{"ts_ns": 10 * i, "dur_ns": 5, "device": 0, "stream": 2 - i, "event_id": 40 + i} for i in range(3)]
    figure = figure_of(trace(*rows))  # stream 0 is above stream 2: places count backwards
    assert marked(figure, a_finding(40, 41), a_finding(7), a_finding(42)) == [
        ("findings", 1, [1, 2], 0, 15), ("findings", 3, [0], 20, 25),
    ]  # fmt: skip


def test_an_id_that_several_inputs_have_marks_the_event_of_the_owner_or_none() -> None:
    rows = [{"ts_ns": i, "dur_ns": 5, "device": 0, "rank": i, "event_id": 4} for i in range(2)]
    figure = figure_of(trace(*rows))
    assert marked(figure, a_finding(4)) == []
    assert marked(figure, a_finding(4, owner="rank 1")) == [("findings", 1, [1], 1, 6)]


PATH = CriticalPath("rank 0", 90, np.array([0, 1, 2, 0]), np.array([0, 10, 20, 30]), np.array([8, 19, 28, 35]))


def pathed(figure: Timeline, path: CriticalPath = PATH, events: int = 2_000_000) -> list[dict[str, object]]:
    sections = (
        Section("timeline", "Timeline", figures=(figure,)),
        Section("critical_path", "Critical path", figures=(path,)),
    )
    text = RENDERERS["html"].render(Report("t", "0", sections=sections), RenderOptions(page_events=events))
    found: list[dict[str, object]] = read_page(text).head.get("paths", [])
    return found


def test_the_pieces_of_a_path_that_are_not_in_the_page_are_counted() -> None:
    rows = [{"ts_ns": 0, "dur_ns": 40, "device": 0, "stream": 1}]
    rows += [{"ts_ns": 10 * i, "dur_ns": 9, "device": 0, "stream": 2} for i in (1, 2)]
    figure = figure_of(trace(*rows))
    whole = {"label": "rank 0", "n": 4, "left": 0, "ns": 30, "span": 90}
    assert pathed(figure) == [whole]
    assert pathed(figure, events=1) == [whole | {"n": 2, "left": 2}]
    many = np.arange(300_002) * 5
    long = figure_of(trace({"ts_ns": 0, "dur_ns": 2_000_000, "device": 0}))
    path = CriticalPath("", 9, np.zeros(many.size, np.int64), many, many + 2 + (many == 40))
    (found,) = pathed(long, path)
    assert (found["n"], found["left"], found["ns"]) == (300_000, 2, 2 * many.size + 1)


def test_groups_hold_their_lanes_in_order() -> None:
    page = page_of(a_timeline(lanes=("a", "b", "c")))
    assert [(group["label"], group["lanes"]) for group in page.head["groups"]] == [("", [0, 1, 2])]
    assert [lane["group"] for lane in page.head["lanes"]] == [0, 0, 0]


@given(values=st.lists(st.integers(0, (1 << 53) - 1), max_size=20))
def test_planes_hold_whole_numbers_of_53_bits(values: list[int]) -> None:
    raw = timeline.planes(np.array(values, np.int64))
    assert len(raw) == 1 + raw[0] * len(values)
    rest = np.frombuffer(raw[1:], np.uint8).reshape(raw[0], len(values))
    assert [sum(int(rest[k, i]) << (8 * k) for k in range(raw[0])) for i in range(len(values))] == values


@given(values=st.lists(st.integers(-(1 << 53), 1 << 53), max_size=20))
def test_zigzag_gives_small_numbers_for_small_steps_of_either_sign(values: list[int]) -> None:
    folded = timeline.zigzag(np.array(values, np.int64)).tolist()
    assert folded == [2 * v if v >= 0 else -2 * v - 1 for v in values]


@pytest.mark.parametrize("name", ["kineto", "nvprof-csv", "nsys-sqlite"])
def test_the_page_of_a_sample_holds_its_trace(name: str) -> None:
    file = next(file for file in sorted(Path(SAMPLES, name).iterdir()) if file.suffix in (".json", ".csv", ".sqlite"))
    made = tracekit.read(file)
    page = read_page(RENDERERS["html"].render(report(made), RenderOptions()))
    names = made.events.column("name").to_pylist()
    starts = made.events.column("ts_ns").to_pylist()
    lengths = made.events.column("dur_ns").to_pylist()
    kinds = made.events.column("kind").to_pylist()
    begin = int(page.head["begin"])
    expected = Counter(
        (start - begin, max(length or 0, 0), kind, escape_controls(name or "(no name)"))
        for name, start, length, kind in zip(names, starts, lengths, kinds, strict=True)
        if length is not None or kind not in ("flow", "counter")
    )
    assert Counter(each[2:] for each in page.events()) == expected


def test_numbers_without_strings_are_packed_smaller_and_those_with_strings_as_small_as_ever() -> None:
    random = np.random.default_rng(3)
    noise = timeline.planes(np.floor(10 ** random.uniform(2, 5, 1 << 16)).astype(np.int64))
    repeated = timeline.planes(np.tile(random.integers(0, 60_000, 997), 66))
    for raw in (noise, repeated, b"", b"x" * 1000):
        assert zlib.decompress(timeline.deflated(raw)) == raw
    assert len(timeline.deflated(noise)) < len(zlib.compress(noise, 6))
    assert timeline.deflated(repeated) == zlib.compress(repeated, 6)

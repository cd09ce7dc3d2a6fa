"""The view breakdown: parts that add up, held against a look at each instant."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from views.device_rows import Row, end, in_order, launch_of, parts, span, traces, work_by_device
from views.tables import dicts, on_trace, trace
from views.test_step_extents import program

from tracekit.model.report import Bar, Section
from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions
from tracekit.views.device import breakdown as module

PARTS = ("compute", "exposed_comm", "exposed_copies", "idle")
NAMES = ("span", *PARTS, "communication", "overlap")


def breakdown(made: Trace, **options: Any) -> Section:
    return on_trace(VIEWS["breakdown"])(made, ViewOptions(**options))


def by_source(*rows: Row, count: int = 2) -> Trace:
    facts = [SourceFacts(f"{n}.json", "kineto") for n in range(count)]
    return trace(*rows, run=Run(origin_ns=0, sources=facts))


def table(section: Section, name: str) -> list[Row]:
    return next((dicts(t) for t in section.tables if t.name == name), [])


@settings(max_examples=100)
@given(rows=traces())
def test_parts_of_a_device_are_those_of_each_instant_and_add_up_to_the_span(rows: list[Row]) -> None:
    section = breakdown(trace(*rows))
    wanted = work_by_device(rows)
    found = table(section, "devices")
    assert sorted(str(row["device"]) for row in found) == sorted(str(device) for _, device in wanted)
    for row in found:
        work = wanted[0, row["device"]]
        assert {k: row[k] for k in NAMES} == parts(work, *span(rows, 0))
        assert sum(row[k] for k in PARTS) == row["span"]
        active = min(r["ts_ns"] for r in work), max(map(end, work))
        assert row["active"] == active[1] - active[0]
        assert row["idle_active"] == parts(work, *active)["idle"]
        for k in PARTS:
            assert row[f"{k}_share"] == (row[k] / row["span"] if row["span"] else None)
        assert row["overlap_share"] == (row["overlap"] / row["communication"] if row["communication"] else None)
        # |A or B| = |A| + |B| - |A and B|
        assert row["compute"] + row["exposed_comm"] == row["compute"] + row["communication"] - row["overlap"]


def slow_windows(rows: list[Row], work: list[Row]) -> list[tuple[Any, int, int]]:
    """Step, begin and end of each window on a device, process by process, read off the definition."""
    steps = defaultdict(list)
    for row in in_order(rows):
        if row["kind"] == "step" and row["dur_ns"] is not None:
            mine = steps[row["pid"]]
            if all(end(row) > end(other) for other in mine):
                mine.append(row)
    calls = [(w, launch_of(rows, w)) for w in work]
    if all(call is None for _, call in calls):
        if len(steps) != 1:
            return []
        (mine,) = steps.values()
        starts = [row["ts_ns"] for row in mine]
        ends = [min(end(row), after) for row, after in zip(mine, [*starts[1:], end(mine[-1])], strict=True)]
        return [(name(row, i), starts[i], ends[i]) for i, row in enumerate(mine)]
    found = []
    for pid in sorted(steps, key=lambda p: (p is not None, p or 0)):
        mine = steps[pid]
        own: list[list[Row]] = [[] for _ in mine]
        for w, call in calls:
            if call is not None and call["pid"] == pid:
                begun = [i for i, row in enumerate(mine) if row["ts_ns"] <= call["ts_ns"]]
                if begun and call["ts_ns"] < end(mine[begun[-1]]):
                    own[begun[-1]].append(w)
        if any(own):
            begins: list[int] = []
            for row, launched in zip(mine, own, strict=True):
                begin = min((w["ts_ns"] for w in launched), default=row["ts_ns"])
                begins.append(max([begin, begins[-1]]) if begins else min(begin, row["ts_ns"]))
            last = max([begins[-1], end(mine[-1]), *map(end, own[-1])])
            found += [
                (name(r, i), b, e) for i, (r, b, e) in enumerate(zip(mine, begins, [*begins[1:], last], strict=True))
            ]
    return found


def name(row: Row, place: int) -> int:
    return place if row["step"] is None else int(row["step"])


@settings(max_examples=100)
@given(rows=traces())
def test_a_step_on_a_device_is_what_its_definition_says(rows: list[Row]) -> None:
    found = table(breakdown(trace(*rows)), "steps")
    wanted = []
    for (_, device), work in work_by_device(rows).items():
        wanted += [(device, step, parts(work, low, high)) for step, low, high in slow_windows(rows, work)]
    got = [(row["device"], row["step"], {k: row[k] for k in NAMES}) for row in found]
    assert sorted(got, key=str) == sorted(wanted, key=str)
    for row in found:
        assert sum(row[k] for k in PARTS) == row["span"]


def figures(rows: list[Row]) -> list[list[Any]]:
    return sorted(([row.get(k) for k in ("device", "step", *NAMES)] for row in rows), key=str)


@given(rows=traces(sources=2))
def test_inputs_beside_each_other_have_the_parts_that_each_has_alone(rows: list[Row]) -> None:
    both = breakdown(by_source(*rows))
    for key in ("devices", "steps"):
        alone = []
        for source in (0, 1):
            mine = [row for row in rows if row["source"] == source]
            alone += table(breakdown(by_source(*mine)), key)
        assert figures(table(both, key)) == figures(alone)
    whole = next((f for f in both.figures if isinstance(f, Bar)), None)
    if whole is not None:
        sums = [sum(row[k] for row in table(both, "devices")) for k in PARTS]
        assert [value for _, value in whole.parts] == sums


@given(rows=traces())
def test_a_trace_cut_in_two_and_merged_is_the_whole(rows: list[Row]) -> None:
    whole = trace(*rows)
    cut = [trace(*({**r, "event_id": n} for n, r in enumerate(rows) if n % 2 == half)) for half in (0, 1)]
    merged = Trace(pa.concat_tables([part.events for part in cut]), run=whole.run)
    for view in ("breakdown", "idle", "launch"):
        # Rows that agree in start and length may change places: only those of one name can.
        if len({(r["ts_ns"], r["dur_ns"]) for r in rows}) == len(rows):
            assert on_trace(VIEWS[view])(merged, ViewOptions()) == on_trace(VIEWS[view])(whole, ViewOptions())


def work(start: int, duration: int, **more: Any) -> Row:
    return {"ts_ns": start, "dur_ns": duration, "kind": "kernel", "name": "gemm", "device": 0, "stream": 7, **more}


def call(start: int, duration: int, number: int, **more: Any) -> Row:
    made = {"ts_ns": start, "dur_ns": duration, "kind": "runtime", "name": "cudaLaunchKernel", "correlation": number}
    return {**made, "pid": 1, "tid": 1, **more}


class TestByHand:
    ROWS = (
        {"ts_ns": 0, "dur_ns": 40, "kind": "step", "name": "ProfilerStep#5", "step": 5, "pid": 1, "tid": 1},
        {"ts_ns": 40, "dur_ns": 40, "kind": "step", "name": "ProfilerStep#6", "step": 6, "pid": 1, "tid": 1},
        call(5, 2, 1), call(10, 2, 2), call(45, 2, 3), call(50, 2, 4),
        work(20, 30, correlation=1, pid=1),
        work(40, 25, correlation=2, pid=1, name="ncclDevKernel_AllReduce", stream=8),
        work(60, 20, correlation=3, pid=1),
        work(90, 10, correlation=4, pid=1, kind="memcpy", name="Memcpy HtoD"),
    )  # fmt: skip

    def test_the_second_step_begins_on_the_device_where_its_first_work_does(self) -> None:
        section = breakdown(trace(*self.ROWS))
        keep = ("step", "span", *PARTS, "overlap_share")
        assert [tuple(row[k] for k in keep) for row in table(section, "steps")] == [
            (5, 60, 30, 10, 0, 20, 0.5),
            (6, 40, 20, 0, 10, 10, 1.0),
        ]
        (device,) = table(section, "devices")
        assert [device[k] for k in ("span", *PARTS)] == [100, 50, 10, 10, 30]

    def test_a_first_step_whose_work_was_overtaken_begins_with_its_range_on_the_host(self) -> None:
        late = [{**row, "ts_ns": 95} if row.get("correlation") in (1, 2) and row["kind"] == "kernel" else row
                for row in self.ROWS]  # fmt: skip
        found = table(breakdown(trace(*late)), "steps")
        # The second step's work begins at 60, and that of the first at 95: the first begins with its range on the host.
        assert [(row["step"], row["span"]) for row in found] == [(5, 60), (6, 40)]
        assert all(row["idle"] >= 0 for row in found)

    def test_the_last_step_ends_with_its_range_on_the_host_or_later_with_its_work(self) -> None:
        for tail, end_of_work, whole in ((0, 160, 100), (60, 160, 160), (0, 202, 102), (60, 202, 160)):
            steps = [
                {"ts_ns": at, "dur_ns": 100 + more, "kind": "step", "name": f"s{at}", "pid": 1, "tid": 1}
                for at, more in ((0, 0), (100, tail))
            ]
            works = (work(50, 40, correlation=1, pid=1), work(150, end_of_work - 150, correlation=2, pid=1))
            found = table(breakdown(trace(*steps, call(48, 1, 1), call(148, 1, 2), *works)), "steps")
            # The second step begins on the device at 150.
            assert [row["span"] for row in found] == [150, whole - 50]
            assert sum(row["idle"] for row in found) == 100 + whole - 40 - (end_of_work - 150)

    def test_a_step_within_a_step_is_told_and_left_out(self) -> None:
        inner = {**self.ROWS[0], "ts_ns": 3, "dur_ns": 9, "step": 77}
        section = breakdown(trace(*self.ROWS, inner))
        assert [row["step"] for row in table(section, "steps")] == [5, 6]
        assert "1 step within another step: not counted separately" in section.notes

    def test_without_steps_there_is_the_span_alone_and_a_note(self) -> None:
        section = breakdown(trace(*self.ROWS[2:]))
        assert [t.name for t in section.tables] == ["devices"]
        assert "no steps in the trace: the whole span only" in section.notes

    def test_without_launches_steps_are_their_ranges_on_the_host(self) -> None:
        section = breakdown(trace(*self.ROWS[:2], *self.ROWS[6:]))
        assert [(r["step"], r["span"]) for r in table(section, "steps")] == [(5, 40), (6, 40)]
        assert any("range on the host" in note for note in section.notes)

    def test_all_devices_together_and_each_are_drawn(self) -> None:
        section = breakdown(trace(*self.ROWS, work(0, 100, device=1)))
        titles = [f.title for f in section.figures if isinstance(f, Bar)]
        assert titles == ["Time of all 2 devices, of the run", "Time of GPU 0, of the run", "Time of GPU 1, of the run"]

    def test_steps_stay_in_order_of_time_and_a_named_column_sorts_them(self) -> None:
        section = breakdown(trace(*self.ROWS), sorted_by="exposed_copies")
        assert [row["step"] for row in table(section, "steps")] == [6, 5]


def test_durations_without_starts_have_no_breakdown() -> None:
    run = Run(origin_ns=0, sources=[SourceFacts("a.log", "cuda-kvp", synthetic_time=True)])
    section = breakdown(trace(work(0, 5), run=run))
    assert not section.tables
    assert any("only durations" in note for note in section.notes)


def test_totals_alone_and_work_without_durations_are_told() -> None:
    assert "only totals" in breakdown(trace(totals=({"name": "k", "calls": 1, "total_ns": 5},))).notes[0]
    section = breakdown(trace({"kind": "kernel"}))
    assert section.notes[0] == "needs kernel, memcpy or memset events with a duration; this trace has none"


def test_a_span_of_no_time_has_no_shares() -> None:
    (row,) = table(breakdown(trace(work(5, 0))), "devices")
    assert [row[k] for k in NAMES] == [0] * len(NAMES)
    assert row["idle_share"] is None


def test_bars_are_made_for_the_devices_that_have_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(module, "Bar", lambda title, *rest: made.append(title) or Bar(title, *rest))
    rows = [{"device": n, "stream": 7, "ts_ns": 10 * n, "dur_ns": 5} for n in range(40)]
    section = breakdown(trace(*rows))
    assert len(section.figures) == len(made) == 9
    whole = section.figures[0]
    assert isinstance(whole, Bar)
    assert whole.title == "Time of all 40 devices, of the run"
    assert sum(amount for _, amount in whole.parts) == 40 * 395


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("queued_us", [0, 30_000])
def test_where_the_host_runs_ahead_the_steps_are_those_of_the_view_steps(prefetch: bool, queued_us: int) -> None:
    # Each step copies ahead of time on a stream of its own: the copy is no begin of the step's work.
    made = trace(*program(prefetch=prefetch, queued_us=queued_us))
    section = breakdown(made)
    each = dicts(on_trace(VIEWS["steps"])(made, ViewOptions()).tables[1])
    steps = table(section, "steps")
    assert [row["span"] for row in steps] == [row["time"] for row in each]
    assert all(9_000_000 < row["compute"] <= row["span"] for row in steps[1:])
    assert any("the host runs ahead" in note for note in section.notes)


def test_a_rank_whose_host_does_not_run_ahead_keeps_its_windows() -> None:
    ahead, even = program(owner={"rank": 0, "source": 0}), program(wait_each=1, owner={"rank": 1, "source": 1})
    together = table(breakdown(by_source(*ahead, *even)), "steps")
    alone = [*table(breakdown(trace(*program())), "steps"), *table(breakdown(trace(*program(wait_each=1))), "steps")]
    assert [row["span"] for row in together] == [row["span"] for row in alone]
    assert max(row["span"] for row in alone[:8]) < 2 * min(row["span"] for row in alone[1:8])

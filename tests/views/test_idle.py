"""The view idle: every gap, its cause and what the host was in, held against plain Python."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from views.device_rows import Row, end, in_order, instants, launch_of, span, traces, work_by_device
from views.tables import dicts, on_trace, statistics, trace
from views.test_breakdown import call, work

from tracekit.index import gaps as _gaps
from tracekit.model.report import Bar, Section
from tracekit.model.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions
from tracekit.views.device import idle


def compute(made: Trace, **options: Any) -> Section:
    return on_trace(VIEWS["idle"])(made, ViewOptions(**options))


def table(section: Section, name: str) -> list[Row]:
    return next((dicts(t) for t in section.tables if t.name == name), [])


def slow_gaps(work_rows: list[Row], low: int, high: int) -> list[tuple[int, int]]:
    busy = instants(work_rows)
    found: list[tuple[int, int]] = []
    for t in range(low, high):
        if t in busy:
            continue
        if found and found[-1][1] == t:
            found[-1] = (found[-1][0], t + 1)
        else:
            found.append((t, t + 1))
    return found


def slow_cause(rows: list[Row], mine: list[Row], begin: int, finish: int) -> tuple[str, Any]:
    """The cause by the rules as the view's docstring has them, and the innermost range of the host."""
    following = [row for row in mine if row["ts_ns"] >= finish]
    if not following:
        return "no more work", None
    after = following[0]
    launch = launch_of(rows, after)
    if launch is None:
        return "unknown", None
    thread = [r for r in rows if all(r.get(k) == launch.get(k) for k in ("source", "pid", "tid"))]
    timed = [r for r in thread if r["dur_ns"] is not None]
    late = launch["ts_ns"] > begin
    until = min(launch["ts_ns"], finish)
    at = begin + (until - begin) // 2 if late else launch["ts_ns"]
    ranges = [
        (r["ts_ns"], -end(r), number, r.get("name"))
        for number, r in enumerate(in_order(timed))
        if r["kind"] in ("operator", "user_range", "step") and r["ts_ns"] <= at < end(r)
    ]
    host = max(ranges)[3] if ranges else None
    if late:
        waits = [r for r in timed if r["kind"] in ("runtime", "driver") and waited(rows, r)]
        covered = len(instants(waits) & set(range(begin, until)))
        waiting = any(r["ts_ns"] <= begin < end(r) for r in waits) or 2 * covered >= until - begin
        return ("synchronization" if waiting else "host late"), host
    stream = [
        row for row in in_order(rows)
        if row["kind"] in ("kernel", "memcpy", "memset") and row["dur_ns"] is not None
        and all(row[k] == after[k] for k in ("source", "pid", "device", "stream"))
    ]  # fmt: skip
    order = in_order(rows)
    launched = [(order.index(found), i, row) for i, row in enumerate(stream) if (found := launch_of(rows, row))]
    launched.sort(key=lambda item: item[:2])
    place = next(i for i, item in enumerate(launched) if item[2]["event_id"] == after["event_id"])
    since = order[launched[place - 1][0]]["ts_ns"] if place else None
    waits = [r["ts_ns"] for r in thread if r.get("name") == "cudaStreamWaitEvent" and r["ts_ns"] <= launch["ts_ns"]]
    if any(since is None or t >= since for t in waits):
        return "stream wait", host
    return ("launch latency" if end(launch) > begin or finish - begin <= _gaps.SHORT_GAP_NS else "unknown"), host


def waited(rows: list[Row], row: Row) -> bool:
    if row["name"] in ("cudaStreamSynchronize", "cudaMemcpy"):
        return True
    numbered = next(r for r in in_order(rows) if r["event_id"] == row["event_id"])
    copies = [r for r in in_order(rows) if r["kind"] == "memcpy" and r["dur_ns"] is not None]
    launched = [c for c in copies if (found := launch_of(rows, c)) and found["event_id"] == numbered["event_id"]]
    return any(end(row) >= end(c) for c in launched)


@settings(max_examples=120)
@given(rows=traces())
def test_gaps_causes_and_ranges_are_those_of_the_rules(rows: list[Row]) -> None:
    rows = in_order(rows)
    section = compute(trace(*rows))
    wanted, names = [], []
    for (_, device), mine in work_by_device(rows).items():
        low, high = span(rows, 0)
        for begin, finish in slow_gaps(mine, low, high):
            cause, host = slow_cause(rows, mine, begin, finish)
            wanted.append((str(device), begin - low, finish - begin, cause))
            names.append((cause, host, finish - begin))
    gaps = table(section, "gaps")
    assert sorted((str(r["device"]), r["at"], r["gap"], r["cause"]) for r in gaps) == sorted(wanted)
    assert sorted((r["cause"], str(r["host_range"]), r["gap"]) for r in gaps) == sorted(
        (cause, str(host), gap) for cause, host, gap in names
    )
    for row in table(section, "causes"):
        mine_gaps = [g for d, _, g, c in wanted if (d, c) == (str(row["device"]), row["cause"])]
        found = statistics(mine_gaps)
        assert {k: row[k] for k in found} == found
    for row in table(section, "ranges"):
        assert row["total"] == sum(g for c, h, g in names if (c, h) == (row["cause"], row["host_range"]))


@settings(max_examples=60)
@given(rows=traces(sources=2))
def test_the_gaps_of_a_device_are_the_idle_time_of_the_breakdown(rows: list[Row]) -> None:
    made = trace(*rows)
    found = table(compute(made), "causes")
    beside = on_trace(VIEWS["breakdown"])(made, ViewOptions())
    for row in dicts(beside) if beside.tables else []:
        mine = [r["total"] for r in found if (r["device"], r.get("source")) == (row["device"], row.get("source"))]
        assert sum(mine) == row["idle"]
    bars = [f for f in compute(made).figures if isinstance(f, Bar)]
    assert sum(value for bar in bars for _, value in bar.parts) == sum(row["total"] for row in found)


@given(rows=traces())
def test_the_gaps_of_a_stream_lie_between_its_first_start_and_last_end(rows: list[Row]) -> None:
    found = table(compute(trace(*rows), thread_sep=True), "causes")
    wanted = {}
    for (_, device), mine in work_by_device(rows).items():
        for stream in {r["stream"] for r in mine}:
            own = [r for r in mine if r["stream"] == stream]
            gaps = slow_gaps(own, min(r["ts_ns"] for r in own), max(map(end, own)))
            if gaps:
                wanted[device, stream] = sum(b - a for a, b in gaps)
    got: dict[Any, int] = {}
    for row in found:
        key = row["device"], row["stream"]
        got[key] = got.get(key, 0) + row["total"]
        assert row["cause"] != "no more work"
    assert got == wanted


class TestCauses:
    """One gap each, from 20 to 100 us; the span begins with the first work."""

    BEFORE = (call(0, 2, 1), work(0, 20_000, correlation=1, pid=1))

    def gap(self, *rows: Row, until: int = 100_000, **next_work: Any) -> Row:
        after = work(until, 10_000, correlation=2, pid=1, **next_work)
        (found,) = table(compute(trace(*self.BEFORE, *rows, after)), "gaps")
        return found

    def test_a_launch_after_the_gap_began_is_the_host_late(self) -> None:
        found = self.gap(call(90_000, 5, 2))
        assert (found["cause"], found["gap"], found["at"]) == ("host late", 80_000, 20_000)
        assert (found["before_event"], found["launch_event"], found["next_event"]) == (1, 2, 3)

    def test_a_launch_as_the_gap_begins_is_no_host_late(self) -> None:
        assert self.gap(call(20_000, 5, 2))["cause"] == "launch latency"

    def test_a_sync_that_was_waiting_as_the_gap_began_is_synchronization(self) -> None:
        sync = call(5_000, 15_001, 9, name="cudaDeviceSynchronize")
        assert self.gap(sync, call(90_000, 5, 2))["cause"] == "synchronization"
        assert self.gap({**sync, "tid": 2}, call(90_000, 5, 2))["cause"] == "host late"
        assert self.gap({**sync, "dur_ns": 15_000}, call(90_000, 5, 2))["cause"] == "host late"

    def test_a_sync_in_half_of_the_time_before_the_launch_is_synchronization(self) -> None:
        sync = call(30_000, 35_000, 9, name="cudaEventSynchronize")
        assert self.gap(sync, call(90_000, 5, 2))["cause"] == "synchronization"
        assert self.gap({**sync, "dur_ns": 34_999}, call(90_000, 5, 2))["cause"] == "host late"

    def test_a_copy_whose_call_outlasts_it_blocks_and_one_that_returns_before_does_not(self) -> None:
        copy = work(12_000, 8_000, kind="memcpy", name="Memcpy DtoH", correlation=3, pid=1)
        late = call(90_000, 5, 2)
        assert self.gap(call(11_000, 9_100, 3, name="cudaMemcpyAsync"), copy, late)["cause"] == "synchronization"
        assert self.gap(call(11_000, 500, 3, name="cudaMemcpyAsync"), copy, late)["cause"] == "host late"
        # A blocking call by its name, though the copy that it made is not known.
        assert self.gap(call(11_000, 9_100, 8, name="cudaMemcpy"), late)["cause"] == "synchronization"

    def test_a_call_that_had_not_returned_is_launch_latency(self) -> None:
        assert self.gap(call(10_000, 10_001, 2))["cause"] == "launch latency"
        assert self.gap(call(10_000, 10_000, 2))["cause"] == "unknown"

    def test_a_short_gap_of_queued_work_is_launch_latency(self) -> None:
        assert self.gap(call(10_000, 5, 2), until=50_000)["cause"] == "launch latency"
        assert self.gap(call(10_000, 5, 2), until=50_001)["cause"] == "unknown"

    def test_work_behind_a_wait_for_another_stream_is_a_stream_wait(self) -> None:
        wait = call(9_000, 5, 9, name="cudaStreamWaitEvent")
        assert self.gap(wait, call(10_000, 5, 2))["cause"] == "stream wait"
        assert self.gap({**wait, "tid": 2}, call(10_000, 5, 2))["cause"] == "unknown"
        assert self.gap({**wait, "ts_ns": 10_001}, call(10_000, 5, 2))["cause"] == "unknown"

    def test_the_profilers_own_row_of_a_wait_counts_for_its_stream(self) -> None:
        told = work(50_000, 5, kind="sync", name="Stream Wait Event", pid=1, correlation=9)
        assert self.gap(told, call(10_000, 5, 2))["cause"] == "stream wait"
        assert self.gap({**told, "stream": 8}, call(10_000, 5, 2))["cause"] == "unknown"
        assert self.gap({**told, "name": "Stream Sync"}, call(10_000, 5, 2))["cause"] == "unknown"

    def test_the_first_work_of_a_stream_stands_behind_no_wait_of_another_thread_or_stream(self) -> None:
        elsewhere = call(9_000, 5, 9, name="cudaStreamWaitEvent", tid=2)
        assert self.gap(elsewhere, call(10_000, 5, 2), stream=9)["cause"] == "unknown"
        assert self.gap({**elsewhere, "tid": 1}, call(10_000, 5, 2), stream=9)["cause"] == "stream wait"
        told = work(50_000, 5, kind="sync", name="Stream Wait Event", pid=1, correlation=9)
        assert self.gap(told, call(10_000, 5, 2), stream=9)["cause"] == "unknown"

    def test_the_wait_must_come_after_the_launch_of_the_streams_work_before(self) -> None:
        wait = call(9_000, 5, 9, name="cudaStreamWaitEvent")
        between = (call(9_500, 5, 3), work(20_000, 0, correlation=3, pid=1))
        assert self.gap(wait, *between, call(10_000, 5, 2))["cause"] == "unknown"

    def test_work_without_a_launch_is_unknown_and_counted_in_a_note(self) -> None:
        section = compute(trace(*self.BEFORE, work(100_000, 5)))
        assert table(section, "gaps")[0]["cause"] == "unknown"
        assert "1 of 2 rows of device work have no launch call in the trace" in section.notes

    def test_time_after_the_last_work_has_no_more_work(self) -> None:
        section = compute(trace(*self.BEFORE, {"ts_ns": 0, "dur_ns": 50_000, "kind": "operator", "name": "a"}))
        (found,) = table(section, "gaps")
        assert (found["cause"], found["next_event"], found["gap"]) == ("no more work", None, 30_000)

    def test_the_range_halfway_to_the_launch_and_the_users_range_around_it_are_named(self) -> None:
        def host(name: str, start: int, duration: int, kind: str = "operator") -> Row:
            return {"ts_ns": start, "dur_ns": duration, "kind": kind, "name": name, "pid": 1, "tid": 1}

        ranges = (
            host("train", 0, 100_000, "user_range"), host("load", 50_000, 20_000), host("decode", 54_999, 2),
            host("launching", 80_000, 20_000),
        )  # fmt: skip
        found = self.gap(*ranges, call(90_000, 5, 2))
        assert (found["host_range"], found["user_range"]) == ("decode", "train")
        found = self.gap(*ranges, call(10_000, 10_001, 2))
        assert (found["host_range"], found["user_range"]) == ("train", "train")


def test_of_many_gaps_the_largest_are_listed_and_all_are_counted() -> None:
    count = idle.MOST_GAPS + 50
    rows = [work(10_000 * n, 9_999 - n, correlation=n, pid=1) for n in range(count + 1)]
    section = compute(trace(*rows))
    assert table(section, "causes")[0]["calls"] == count
    shown = next(t for t in section.tables if t.name == "gaps")
    assert (len(shown), shown.omitted) == (idle.MOST_GAPS, 50)
    assert f"the {idle.MOST_GAPS} largest of {count} gaps are listed" in section.notes
    assert dicts(shown)[0]["gap"] == count
    few = next(t for t in compute(trace(*rows), top=3).tables if t.name == "gaps")
    assert (len(few), few.omitted) == (3, count - 3)


def test_a_device_that_never_rests_has_no_gap() -> None:
    section = compute(trace(work(0, 10), work(10, 10)))
    assert section.tables == ()
    assert section.notes[0] == "no device was idle: there is no gap"


def test_totals_alone_are_told() -> None:
    assert "only totals" in compute(trace(totals=({"name": "k", "calls": 1, "total_ns": 5},))).notes[0]

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_limits import Limit, small
from support import corpus, sample
from views.tables import NAMES, Row, dicts, on_trace, trace

from tracekit.api import read
from tracekit.index import owners as _owners
from tracekit.index.trace_index import TraceIndex
from tracekit.model.trace import Run, SourceFacts, Trace
from tracekit.pipeline import render, summary
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions
from tracekit.views.path import graph

PATH = on_trace(VIEWS["critical_path"])
PARTS = ("host", "launch", "kernel", "copy", "sync_wait", "idle")


def call(at: int, takes: int, name: str, correlation: int | None = None, **more: Any) -> Row:
    base = {"ts_ns": at, "dur_ns": takes, "kind": "runtime", "name": name, "correlation": correlation}
    return {**base, "pid": 1, "tid": 1, **more}


def work(at: int, takes: int, name: str, correlation: int | None, stream: int = 7, **more: Any) -> Row:
    base = {"ts_ns": at, "dur_ns": takes, "kind": "kernel", "name": name, "correlation": correlation, "stream": stream}
    return {**base, "pid": 1, "device": 0, **more}


def step(at: int, takes: int, number: int) -> Row:
    return {"ts_ns": at, "dur_ns": takes, "kind": "step", "step": number, "pid": 1, "tid": 1}


TWO_STEPS = (
    step(0, 100, 4), step(110, 90, 5),
    call(5, 10, "cudaLaunchKernel", 1), work(20, 60, "gemm", 1), call(20, 65, "cudaDeviceSynchronize", 2),
    call(115, 10, "cudaLaunchKernel", 3), work(130, 100, "relu", 3),
)  # fmt: skip


def test_the_path_of_two_steps_by_hand() -> None:
    section = PATH(trace(*TWO_STEPS), ViewOptions())
    parts, names, steps = section.tables
    assert {r["part"]: r["time"] for r in dicts(parts)} == {
        "host": 5 + 15 + 5, "launch": 10 + 5 + 10 + 5, "kernel": 60 + 100, "copy": 0, "sync wait": 5, "idle": 10,
    }  # fmt: skip
    by_name = {r["name"]: r for r in dicts(names)}
    assert (by_name["gemm"]["time"], by_name["gemm"]["won"], by_name["gemm"]["left"]) == (60, 60, 170)
    # The last step's host range ends at 200 whatever the device does.
    assert (by_name["relu"]["won"], by_name["relu"]["left"]) == (30, 200)
    assert (by_name["cudaDeviceSynchronize"]["time"], by_name["cudaDeviceSynchronize"]["won"]) == (5, 5)
    assert by_name["(thread in no range)"]["won"] is None
    assert [(r["step"], r["time"], [r[p] for p in PARTS]) for r in dicts(steps)] == [
        ("4", 100, [20, 15, 60, 0, 5, 0]), ("5", 90, [5, 15, 70, 0, 0, 0]),
        ("between", 10, [0, 0, 0, 0, 0, 10]), ("after", 30, [0, 0, 30, 0, 0, 0]),
    ]  # fmt: skip
    assert "span 230 ns: the steps and what was launched in them" in section.notes


def test_the_rest_of_the_names_has_a_row_so_that_parts_add_up() -> None:
    for top in (1, 2, 50):
        rows = dicts(PATH(trace(*TWO_STEPS), ViewOptions(top=top)).tables[1])
        assert sum(r["time"] for r in rows) == 230
        assert len(rows) == min(top + 1, 7)
    assert rows[0]["name"] == "relu"
    sorted_ = dicts(PATH(trace(*TWO_STEPS), ViewOptions(sorted_by="won")).tables[1])
    assert [r["won"] for r in sorted_[:2]] == [60, 30]


def test_rows_of_kind_sync_say_which_stream_is_waited_for() -> None:
    rows = (
        call(0, 10, "cudaLaunchKernel", 1), work(10, 50, "slow", 1, 7),
        call(10, 10, "cudaLaunchKernel", 2), work(20, 10, "quick", 2, 8),
        call(20, 42, "cudaStreamSynchronize", 3), call(62, 200, "cudaMalloc"),
    )  # fmt: skip
    sync = {"ts_ns": 21, "dur_ns": 40, "kind": "sync", "name": "Stream Sync", "correlation": 3, "pid": 1, "device": 0}
    guessed = {r["name"]: r for r in dicts(PATH(trace(*rows), ViewOptions()).tables[1])}
    assert guessed["slow"]["won"] == 40
    told = {r["name"]: r for r in dicts(PATH(trace(*rows, sync | {"stream": 8}), ViewOptions()).tables[1])}
    assert "slow" not in told
    assert told["quick"]["time"] == 10
    event = sync | {
        "name": "Event Sync", "args": '{"wait_on_stream":8,"wait_on_cuda_event_record_corr_id":2,"x":1}'
    }  # fmt: skip
    recorded_before = {r["name"]: r for r in dicts(PATH(trace(*rows, event), ViewOptions()).tables[1])}
    assert "quick" not in recorded_before


def test_a_stream_that_waits_for_an_event_hangs_on_the_other_stream() -> None:
    rows = (
        call(0, 10, "cudaLaunchKernel", 1), work(10, 90, "first", 1, 7), call(10, 2, "cudaEventRecord", 2),
        call(12, 2, "cudaStreamWaitEvent", 3), call(14, 6, "cudaLaunchKernel", 4), work(102, 50, "second", 4, 8),
    )  # fmt: skip
    wait = {
        "ts_ns": 12, "dur_ns": 1, "kind": "sync", "name": "Stream Wait Event", "correlation": 3, "pid": 1, "device": 0,
        "stream": 8, "args": '{"wait_on_stream":7, "wait_on_cuda_event_record_corr_id":2 }',
    }  # fmt: skip
    alone = {r["name"]: r for r in dicts(PATH(trace(*rows), ViewOptions()).tables[1])}
    assert "first" not in alone
    joined = {r["name"]: r for r in dicts(PATH(trace(*rows, wait), ViewOptions()).tables[1])}
    assert (joined["first"]["time"], joined["first"]["won"]) == (90, 82)


def test_findings_ask_for_names_and_for_waits_left_out() -> None:
    made = trace(*TWO_STEPS)
    index = TraceIndex(made)
    (of,) = graph.graphs(index, _owners.find(index))
    assert of.upper_bound(["gemm"]) == 60
    assert of.upper_bound(["gemm", "relu"]) == 90
    assert of.upper_bound(["no such name"]) == 0
    names = made.events.column("name").to_pylist()
    sync = names.index("cudaDeviceSynchronize")
    assert made.events.column("name")[int(of.waits[0])].as_py() == "cudaDeviceSynchronize"
    # The host is then 60 earlier, but the second kernel cannot begin before the first has ended, at 80.
    assert of.upper_bound([], without=[sync]) == 230 - (80 + 100)


def test_ranks_have_a_path_each() -> None:
    rows = [dict(r, rank=rank) for rank in (0, 1) for r in TWO_STEPS]
    section = PATH(trace(*rows), ViewOptions())
    assert {r["owner"] for r in dicts(section)} == {"rank 0", "rank 1"}
    single = dicts(PATH(trace(*TWO_STEPS), ViewOptions()))
    assert [{k: v for k, v in r.items() if k != "owner"} for r in dicts(section) if r["owner"] == "rank 1"] == single
    many = [dict(r, rank=rank) for rank in range(11) for r in TWO_STEPS]
    assert "the paths of the first 8 of 11 are shown" in PATH(trace(*many), ViewOptions()).notes


def test_what_the_trace_does_not_say_is_said() -> None:
    unlinked = PATH(trace(*TWO_STEPS, work(140, 5, "orphan", 99, 9)), ViewOptions())
    assert any(note.startswith("1 of 3 device events name no launch call") for note in unlinked.notes)
    host_alone = PATH(trace(step(0, 5, 0)), ViewOptions())
    assert "no device work: the path has host threads only" in host_alone.notes
    no_thread = PATH(trace(call(0, 5, "cudaMalloc", tid=None)), ViewOptions())
    assert "calls without a thread are treated as calls of one thread" in no_thread.notes


@pytest.mark.parametrize("rows", [(), (work(0, 5, "gemm", 1),), (call(0, 5, "x") | {"dur_ns": None},)])
def test_without_host_rows_there_is_a_note(rows: tuple[Row, ...]) -> None:
    section = PATH(trace(*rows), ViewOptions())
    assert section.tables == ()
    assert section.notes[0].startswith("needs operators, API calls or steps")
    assert ("device events alone do not show what they waited for" in section.notes) is bool(rows)
    totals = PATH(trace(totals=({"name": "a", "calls": 1, "total_ns": 5},)), ViewOptions())
    assert totals.notes[0].startswith("needs ")


def test_waits_that_are_too_many_are_left_out_the_shortest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        row
        for i in range(8)
        for row in (
            call(1_000 * i, 10, "cudaLaunchKernel", i + 1),
            work(1_000 * i + 20, 60 + 10 * i, f"k{i}", i + 1, stream=i % 4),
            call(1_000 * i + 30, 60 + 10 * i, "cudaDeviceSynchronize", 100 + i),
        )
    ]

    def shown() -> tuple[dict[str, int], list[str]]:
        section = PATH(trace(*rows), ViewOptions())
        return {r["part"]: r["time"] for r in dicts(section.tables[0])}, [n for n in section.notes if "too many" in n]

    every, notes = shown()
    assert (every["kernel"], notes) == (sum(60 + 10 * i for i in range(8)), [])
    small(monkeypatch, Limit.PATH_WIDE_WAIT_PAIRS, 4 * 3)  # four streams: three calls
    fewer, notes = shown()
    assert notes == ["too many waits to follow: the shortest 5 are ignored"]
    assert fewer["kernel"] == sum(60 + 10 * i for i in range(5, 8))
    assert sum(fewer.values()) == sum(every.values())


def test_pauses_of_threads_that_are_too_many_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def host(at: int, takes: int, tid: int) -> Row:
        return {"ts_ns": at, "dur_ns": takes, "kind": "operator", "name": "op", "pid": 1, "tid": tid}

    rows = [host(2_000_000 * i + 1_000_000 * (t - 1), 1_000_000, t) for i in range(6) for t in (1, 2)]
    assert not [note for note in PATH(trace(*rows), ViewOptions()).notes if "too many" in note]
    small(monkeypatch, Limit.PATH_WAIT_PAIRS, 2 * 4)  # two threads: four pauses
    [note] = [note for note in PATH(trace(*rows), ViewOptions()).notes if "too many" in note]
    assert note == "too many waits to follow: the shortest 7 are ignored"


def test_made_up_starts_make_no_path() -> None:
    run = Run(sources=[SourceFacts("old.log", "f", synthetic_time=True)])
    assert PATH(trace(*TWO_STEPS, run=run), ViewOptions()).tables == ()


def test_far_times_and_unknown_columns_are_told() -> None:
    far = PATH(trace(call(0, 5, "a"), call(1 << 60, 5, "b")), ViewOptions())
    assert far.tables == ()
    assert "nine years" in far.notes[0]


KINDS = (
    "kernel",
    "memcpy",
    "runtime",
    "runtime",
    "driver",
    "sync",
    "operator",
    "operator",
    "step",
    "user_range",
    "mark",
)
CALLS = (*NAMES, "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaMemcpy", "cudaEventSynchronize", "Stream Wait")


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    row = st.fixed_dictionaries(
        {
            "ts_ns": st.integers(0, 60), "dur_ns": st.none() | st.integers(-3, 30), "kind": st.sampled_from(KINDS),
            "name": st.sampled_from(CALLS), "source": st.integers(0, 1), "rank": st.none() | st.integers(0, 1),
            "device": st.none() | st.integers(0, 1), "stream": st.none() | st.integers(7, 8),
            "pid": st.none() | st.integers(1, 2), "tid": st.none() | st.integers(7, 8),
            "correlation": st.none() | st.integers(1, 6), "step": st.none() | st.integers(0, 3),
            "args": st.none() | st.sampled_from(
                ['{"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":3}', '{"wait_on_stream":-1}', "{}"]
            ),
        }
    )  # fmt: skip
    return trace(*draw(st.lists(row, max_size=25)))


@settings(max_examples=200, deadline=None)
@given(made=traces(), top=st.integers(0, 4))
def test_parts_names_and_steps_add_up_to_the_span_and_savings_lie_between(made: Trace, top: int) -> None:
    section = PATH(made, ViewOptions(top=top))
    if not section.tables:
        return
    index = TraceIndex(made)
    owners = _owners.find(index)
    whole = PATH(made, ViewOptions())
    for of in graph.graphs(index, owners):
        who = owners.labels[of.owner]
        span = of.graph.span

        def mine(table: Any, who: str = who) -> list[Row]:
            return [r for r in dicts(table) if r.get("owner", who) == who]

        assert sum(r["time"] for r in mine(whole.tables[0])) == span
        assert sum(r["time"] for r in mine(whole.tables[1])) == span
        for row in mine(whole.tables[1]):
            if row["won"] is not None:
                assert 0 <= row["won"] <= row["time"] <= row["total"]
                assert row["left"] == span - row["won"]
        steps = mine(whole.tables[2]) if len(whole.tables) > 2 else []
        for row in steps:
            assert sum(row[p] for p in PARTS) == row["time"] >= 0
        if steps:
            assert sum(r["time"] for r in steps) == span
    if top and len(owners) == 1:
        assert sum(r["time"] for r in dicts(section.tables[1])) == sum(r["time"] for r in dicts(whole.tables[1]))


@settings(max_examples=50, deadline=None)
@given(made=traces())
def test_the_columns_that_the_view_names_are_enough(made: Trace) -> None:
    keep = [c for c in made.events.schema.names if c in VIEWS["critical_path"].columns]
    assert PATH(Trace(made.events.select(keep), made.totals, made.run), ViewOptions()) == PATH(made, ViewOptions())


@pytest.mark.parametrize("name", [
    "kineto/gpu.pt.trace.json", "nsys-sqlite/nvtx-v2.sqlite", "nvprof-csv/gpu-and-api-trace.csv",
    "paddle-pb/gpu.paddle_trace.pb", "recorder-log/rank0.jsonl", "kineto/cpu.pt.trace.json",
])  # fmt: skip
def test_samples_are_rendered_in_every_form(name: str) -> None:
    made = summary(read(sample(name)), views=["critical_path"])
    assert made.sections[0].tables
    for form in ("text", "json", "csv", "markdown", "html"):
        assert "idle" in render(made, form)


def test_a_run_that_its_devices_hold_up_has_its_path_on_them() -> None:
    """Of corpus/kineto: the GPU of the first is busy for 98 % of its time, that of the second for a quarter."""
    busy, waiting = (
        {r["part"]: r["share"] for r in dicts(PATH(read(corpus(f"kineto/{name}.json.gz")), ViewOptions()))}
        for name in ("hta_ns_resolution_rank0", "hta_nccl_data")
    )
    assert busy["kernel"] > 0.95
    assert waiting["host"] > 0.85
    assert waiting["kernel"] < 0.01


def test_copies_from_pageable_memory_hold_their_calls_up() -> None:
    """HTA's alexnet: 16 copies of 55.5 ms, during which the calls last; nothing else hides them."""
    rows = {r["name"]: r for r in dicts(PATH(read(corpus("kineto/hta_alexnet.json.gz")), ViewOptions()).tables[1])}
    copy = rows["Memcpy HtoD (Pageable -> Device)"]
    assert copy["won"] >= 0.99 * copy["time"]


def test_times_by_name_are_added_up_whatever_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = PATH(trace(*TWO_STEPS), ViewOptions())
    for size in (1, 2, 3):
        small(monkeypatch, Limit.PATH_TOTALS_NODES, size)
        assert PATH(trace(*TWO_STEPS), ViewOptions()) == whole

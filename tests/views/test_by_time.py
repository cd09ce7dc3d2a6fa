"""Device work that no launch call shows: charged by time, in columns of its own, or not known."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logged import EPOCH, PERF, PID, TID, US, Range, program, write_log, write_nsys
from support import corpus, sample
from views.hosts import Row, call, nested, op, work
from views.tables import dicts, on_trace, trace

import tracekit
from tracekit import Trace
from tracekit.conversion import read
from tracekit.explanation import explain
from tracekit.index.host_tree import by_time, host
from tracekit.index.trace_index import index_of
from tracekit.pipeline import view
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

USER = on_trace(VIEWS["user_defined"])
MODEL = on_trace(VIEWS["model"])
ESTIMATE = "device by time is an estimate"


def shown(found: list[Row]) -> dict[str, tuple[object, ...]]:
    names = ("device_total", "device_self", "device_by_time", "device_self_by_time")
    return {row["name"]: tuple(row.get(name) for name in names) for row in found}


def test_work_without_calls_is_charged_to_the_range_that_was_open_when_it_started() -> None:
    rows = (
        op("outer", 0, 100, "user_range"), op("inner", 20, 60, "user_range"), op("mm", 30, 40),
        work("k", None, 35, 45), work("k", None, 60, 67), work("k", None, 150, 153),
    )  # fmt: skip
    section = USER(trace(*rows), ViewOptions())
    assert shown(dicts(section)) == {
        "outer": (None, None, 17, 7), "inner": (None, None, 10, 10), "(unattributed)": (20, 20, 3, 3),
    }  # fmt: skip
    [note] = [note for note in section.notes if ESTIMATE in note]
    assert note.startswith("3 of 3 device events have no launch call")
    assert not any("have no launch call here" in note for note in section.notes)


def test_where_calls_show_launches_nothing_is_charged_by_time() -> None:
    """A piece whose call is missing there was launched before the profile began, or its call was lost."""
    rows = op("a", 0, 100, "user_range"), call(1, 10, 12), work("k", 1, 50, 60), work("k", 9, 70, 80)
    section = USER(trace(*rows), ViewOptions())
    assert shown(dicts(section)) == {"a": (10, 10, None, None), "(unattributed)": (10, 10, None, None)}
    assert "1 of 2 device events have no launch call here" in section.notes
    assert not any("by time" in note for note in section.notes)


def test_with_two_threads_it_is_not_known_and_no_range_shows_zero() -> None:
    rows = op("a", 0, 100, "user_range"), op("b", 0, 100, "user_range", tid=8), work("k", None, 35, 45)
    section = USER(trace(*rows), ViewOptions())
    assert {name: cells[0] for name, cells in shown(dicts(section)).items()} == {
        "a": None, "b": None, "(unattributed)": 10,
    }  # fmt: skip
    assert any(
        "1 of 1 device event have no known range: no launch call, and several threads have ranges" in note
        for note in section.notes
    )


def test_work_that_states_its_thread_is_charged_to_that_thread() -> None:
    rows = (
        op("a", 0, 100, "user_range"), op("b", 0, 100, "user_range", tid=8),
        work("k", None, 35, 45, tid=8), work("k", None, 50, 53),
    )  # fmt: skip
    found = shown(dicts(USER(trace(*rows), ViewOptions())))
    assert (found["a"][2], found["b"][2], found["(unattributed)"][0]) == (0, 10, 13)


def test_a_call_without_a_thread_says_when_and_the_only_thread_says_where() -> None:
    rows = (
        op("a", 0, 40, "user_range"), op("b", 50, 100, "user_range"),
        call(1, 10, 12, tid=None), work("k", 1, 60, 70),
    )  # fmt: skip
    section = USER(trace(*rows), ViewOptions())
    assert {name: cells[2] for name, cells in shown(dicts(section)).items()} == {"a": 10, "b": 0, "(unattributed)": 0}
    assert any("have a launch call without a thread" in note for note in section.notes)
    assert not any(ESTIMATE in note or "launched outside ranges" in note for note in section.notes)


def test_processes_do_not_take_each_others_work() -> None:
    rows = op("a", 0, 100, "user_range"), work("k", None, 35, 45, pid=2), op("b", 0, 90, "user_range", pid=2)
    found = shown(dicts(USER(trace(*rows), ViewOptions())))
    assert (found["a"][2], found["b"][2]) == (0, 10)
    rows = op("a", 0, 100, "user_range"), work("k", None, 35, 45, pid=2)
    section = USER(trace(*rows), ViewOptions())
    assert shown(dicts(section))["a"] == (None, None, None, None)
    assert any("no single process with ranges" in note for note in section.notes)


def test_work_without_a_process_is_of_the_only_one_of_its_input() -> None:
    rows = op("a", 0, 100, "user_range"), work("k", None, 35, 45, pid=None)
    assert shown(dicts(USER(trace(*rows), ViewOptions())))["a"][2] == 10


def test_steps_and_phases_have_the_work_that_started_in_them() -> None:
    rows = (
        op("step 0", 0, 100, "step"), op("forward", 10, 50, "forward"), op("backward", 50, 90, "backward"),
        work("k", None, 20, 60), work("k", None, 60, 65), work("k", None, 95, 98), work("k", None, 120, 121),
    )  # fmt: skip
    section = MODEL(trace(*rows), ViewOptions())
    assert {r["name"]: (r["device_total"], r["device_by_time"]) for r in dicts(section)} == {
        "ProfileStep": (None, 48), "Forward": (None, 40), "Backward": (None, 5), "Others": (None, 3),
    }  # fmt: skip
    assert any(ESTIMATE in note for note in section.notes)


@st.composite
def without_calls(draw: st.DrawFn) -> list[Row]:
    rows = [op(draw(st.sampled_from("abc")), *times, "user_range") for times in draw(nested())]
    for _ in range(draw(st.integers(1, 12))):
        at = draw(st.integers(0, 90))
        rows.append(work("k", draw(st.none() | st.integers(0, 3)), at, at + draw(st.integers(0, 20))))
    return rows


@given(without_calls())
def test_the_estimate_agrees_with_a_slow_one_and_adds_up(rows: list[Row]) -> None:
    ranges = [row for row in rows if row["kind"] == "user_range"]
    if not ranges:
        return
    found = shown(dicts(USER(trace(*rows), ViewOptions())))
    totals, loose = dict.fromkeys((row["name"] for row in ranges), 0), 0
    for piece in (row for row in rows if row["kind"] == "kernel"):
        holding = [r for r in ranges if r["ts_ns"] <= piece["ts_ns"] < r["ts_ns"] + r["dur_ns"]]
        for each in holding:
            totals[each["name"]] += piece["dur_ns"]
        loose += 0 if holding else piece["dur_ns"]
    assert {name: found[name][2] for name in totals} == totals
    assert found["(unattributed)"][2] == loose
    whole = sum(row["dur_ns"] for row in rows if row["kind"] == "kernel")
    assert sum(int(str(cells[3])) for cells in found.values()) == whole


def test_explain_shows_the_pieces() -> None:
    rows = op("a", 0, 100, "user_range"), op("b", 20, 60, "user_range"), work("k", None, 35, 45)
    made = explain(trace(*rows), "user_defined.a.device_by_time", "user_defined.b.device_self_by_time")
    text = " ".join(str(column.values) for section in made.sections for t in section.tables for column in t.columns)
    text += " ".join(note for section in made.sections for note in section.notes)
    assert "started while user ranges named a were open" in text


def silent_export(tmp_path: Path, ranges: list[Range]) -> Path:
    """An export of nsys without the calls, as `--trace=cuda-hw,nvtx` gives it."""
    path = write_nsys(tmp_path / "run.sqlite", ranges)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("drop table CUPTI_ACTIVITY_KIND_RUNTIME")
    return path


def test_ranges_of_a_log_have_an_estimate_from_an_export_without_calls(tmp_path: Path) -> None:
    main = [r for r in program() if r.tid == TID]
    inner = [Range("mine", r.start + 20 * US, r.end - 20 * US, kind="forward") for r in main if r.name == "block"]
    log = write_log(tmp_path / "log.jsonl", sorted([*main, *inner], key=lambda r: (r.start, -r.end)), steps=True)
    read_both = read([log, silent_export(tmp_path, main)])
    rows = {row["name"]: row for row in dicts(view(read_both, "model"))}
    kernels = read_both.to_pandas().query("kind == 'kernel'")
    assert rows["Forward"]["device_by_time"] == rows["ProfileStep"]["device_by_time"] == kernels["dur_ns"].sum()
    assert rows["Forward"]["device_total"] is None


def charged(log: Path, other: str | Path, align: str) -> tuple[dict[str, tuple[object, ...]], Trace]:
    read_both = tracekit.read([log, other], align=align)
    return shown(dicts(view(read_both, "user_defined"))), read_both


@pytest.mark.parametrize(
    ("name", "clock", "zero"),
    [
        ("cuda-profile/kvp-timestamps.log", "clocks-by-wall-clock", EPOCH),
        ("nvprof-csv/gpu-trace-17-columns.csv", "clocks-not-comparable", PERF),
    ],
)
def test_a_log_beside_gpu_work_alone_needs_the_users_word_for_the_clock(
    tmp_path: Path, name: str, clock: str, zero: int
) -> None:
    """The offset is added to Unix times where the file has them, else to time 0 of the log."""
    alone = read(sample(name)).to_pandas()
    gpu = alone[alone["kind"].isin(["kernel", "memcpy", "memset"])]
    pid = int(gpu["pid"].iloc[0]) if gpu["pid"].notna().all() else PID
    first, last = int(gpu["ts_ns"].min()), int((gpu["ts_ns"] + gpu["dur_ns"]).max())
    half = int(gpu["ts_ns"].median()) - first
    ranges = [Range("one", 0, half, pid), Range("two", half, last - first + 1, pid)]
    log = write_log(tmp_path / "log.jsonl", ranges, pid=pid, tid=pid)
    found, both = charged(log, sample(name), "auto")
    assert found["one"][0] is found["two"][0] is None
    assert all(cells[2] is None for cells in found.values())
    assert any(clock in ledger.notes for ledger in both.ledgers)
    found, both = charged(log, sample(name), f"{Path(name).name}={zero - first:+}ns")
    early = gpu["ts_ns"] < first + half
    assert found["one"][2:] == (gpu[early]["dur_ns"].sum(),) * 2
    assert found["two"][2:] == (gpu[~early]["dur_ns"].sum(),) * 2
    assert found["(unattributed)"][0] == gpu["dur_ns"].sum()


def test_the_estimate_is_never_of_a_later_range_on_a_real_program(tmp_path: Path) -> None:
    """Its kernels wait in deep queues: a quarter of the time comes to the range that launched it, none to an earlier
    one than that."""
    source = corpus("nsys_sqlite/h100_2gpu_1s_2026.2.sqlite")
    silent = tmp_path / "silent.sqlite"
    shutil.copy(source, silent)
    silent.chmod(0o644)
    with closing(sqlite3.connect(silent)) as db, db:
        db.execute("drop table CUPTI_ACTIVITY_KIND_RUNTIME")
    whole, without = index_of(a := read(source)), index_of(b := read(silent))
    assert a.events.num_rows > b.events.num_rows
    true, timed = host(whole), by_time(without)
    names = ("ts_ns", "dur_ns", "pid", "device", "stream")
    orders = [
        np.lexsort([index.ints(name)[rows] for name in names])
        for index, rows in ((whole, true.work), (without, timed.host.work))
    ]
    for name in names:
        first = whole.ints(name)[true.work][orders[0]]
        second = without.ints(name)[timed.host.work][orders[1]]
        assert (first == second).all()
    launched, guessed = true.owner[orders[0]], timed.owner[orders[1]]
    both = (launched >= 0) & (guessed >= 0)
    at = whole.starts[true.rows[launched[both]]]
    shown_at = without.starts[timed.host.rows[guessed[both]]]
    earlier = shown_at < at
    # An earlier start is that of a range around the true one, which had ended when the piece started.
    assert (timed.host.ends[guessed[both]][earlier] >= true.ends[launched[both]][earlier]).all()
    times = true.work_ns[orders[0]][both]
    assert both.sum() > 1_000
    assert 0.1 < times[shown_at == at].sum() / times.sum() < 0.5

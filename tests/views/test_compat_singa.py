"""Compat singa: printed profiles print themselves again; of events what SINGA would print, with its defect."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from support import corpus, sample
from views.tables import Row, dicts, event_rows, trace

import tracekit
from tracekit import pipeline
from tracekit.errors import UsageError
from tracekit.model.trace import Trace
from tracekit.pipeline import render, summary, view
from tracekit.profiler import singa
from tracekit.views.base import ViewOptions

SINGA = ViewOptions(compat="singa")


def printed(made: Trace, options: ViewOptions = SINGA) -> list[str]:
    text = render(summary(made, options=options), "text", compat="singa")
    assert text.endswith("\n") or not text
    return [line.rstrip() for line in text.splitlines()]


def table(made: Trace, name: str, options: ViewOptions | None = None) -> list[Row]:
    found = [t for t in view(made, "singa", options).tables if t.name == name]
    return dicts(found[0]) if found else []


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["docs_en_verbosity1.txt", "docs_en_verbosity2.txt"])
def test_the_documented_output_prints_itself_again(name: str) -> None:
    path = corpus(f"singa/{name}")
    # Three lines of dots are the words of the documentation, not of SINGA.
    lines = [line for line in path.read_text("utf-8").splitlines() if line != "."]
    assert printed(tracekit.read(path)) == lines


def profile_lines(text: str) -> list[str]:
    """The lines of a profile among others: without what mpirun or a progress bar put before them."""
    kept = []
    for line in text.splitlines():
        line = line.rpartition("<stdout>:")[2]
        if line.endswith("Time Profiling:"):
            kept.append("Time Profiling:")
        elif line.startswith(("OP_ID", "Forward", "Backward")):
            kept.append(line)
    return kept


@pytest.mark.parametrize("name", ["verbosity-1.txt", "verbosity-2.txt", "verbosity-3-two-ranks.txt"])
def test_a_sample_prints_itself_again(name: str) -> None:
    path = sample(f"singa/{name}")
    lines, wanted = printed(tracekit.read(path)), profile_lines(path.read_text("utf-8"))
    if "ranks" in name:  # the lines of two ranks alternate there; here one stands after the other
        assert Counter(lines) == Counter(wanted)
        assert lines[:2] == ["Time Profiling:", "OP_ID12. Dist_Synch : 0.00028887 sec"]
    else:
        assert [line for line in lines if line] == wanted


def test_an_empty_line_above_the_heading_is_printed_where_it_was(tmp_path: Any) -> None:
    text = "Time Profiling:\nOP_ID0. A : 1e-06 sec\nloss 3\n\nTime Profiling:\nOP_ID0. A : 2e-06 sec\n"
    (tmp_path / "x").write_text(text, "utf-8")
    assert printed(tracekit.read(tmp_path / "x")) == text.replace("loss 3\n", "").splitlines()


def test_what_our_own_face_prints_is_printed_again(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    device = singa.create_cpu()
    for verbosity in (1, 2, 3):
        device.SetVerbosity(verbosity)
        device.SetSkipIteration(1)
        for _ in range(3):
            with device.graph():
                for name in ("Add", "Dist_Synch", "ReLU", "ReLU", "ReLUBackward"):
                    with device.op(name):
                        sum(range(100))
        device.PrintTimeProfiling()
    text = capsys.readouterr().out
    (tmp_path / "x").write_text(text, "utf-8")
    assert printed(tracekit.read(tmp_path / "x")) == text.splitlines()


def test_times_that_are_no_numbers_are_printed_as_they_were(tmp_path: Any) -> None:
    text = "Time Profiling:\nForward Propagation Time : -nan sec\nBackward Propagation Time : inf sec\n"
    (tmp_path / "x").write_text(text, "utf-8")
    assert printed(tracekit.read(tmp_path / "x")) == text.splitlines()


def test_given_iterations_the_divisor_is_put_right_but_not_under_compat() -> None:
    made = tracekit.read(sample("singa/verbosity-2.txt"))
    asked = ViewOptions(values={"iterations": 20, "skip_iterations": 4})
    plain, right = table(made, "operators"), table(made, "operators", asked)
    assert [r["avg"] for r in right] == [pytest.approx(r["avg"] * 20 / 16, abs=1) for r in plain]
    assert any("too small" in note for note in view(made, "singa").notes)
    assert not any("too small" in note for note in view(made, "singa", asked).notes)
    assert printed(made, ViewOptions(compat="singa", values={"iterations": 20})) == printed(made)
    with pytest.raises(UsageError, match="all of them are skipped"):
        view(made, "singa", ViewOptions(values={"iterations": 5}))


@pytest.mark.parametrize(("compat", "shown_ms"), [("", 10.148), ("singa", 10.148 / 6)])
def test_a_figure_of_our_own_face_is_right_without_and_with_the_option(
    compat: str, shown_ms: float, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of six iterations is measured, and takes 10.148 ms: no option and no note makes 60.888 ms of it."""
    now = [0]
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])
    device = singa.create_cpu(compat=compat)
    device.SetVerbosity(2)
    for _ in range(6):
        with device.graph(), device.op("A"):
            now[0] += 10_148_000
    device.PrintTimeProfiling()
    monkeypatch.undo()
    text = capsys.readouterr().out
    assert f"OP_ID0. A : {shown_ms / 1e3:g} sec" in text
    (tmp_path / "x").write_text(text, "utf-8")
    made = tracekit.read(tmp_path / "x")
    asked = ViewOptions(values={"iterations": 6})
    for options in (None, asked):
        [row] = table(made, "operators", options)
        assert row["avg"] == pytest.approx(10_148_000, rel=1e-5)  # six digits are printed
        assert not any("too small" in note for note in view(made, "singa", options).notes)
    assert any("no effect" in note for note in view(made, "singa", asked).notes)
    corrected = [note for note in view(made, "singa").notes if "divided by 6 iterations, of which 1" in note]
    assert len(corrected) == (compat == "singa")
    assert printed(made, ViewOptions(compat="singa", values={"iterations": 6})) == text.splitlines()


def test_phases_of_printed_operators_are_divided_at_the_first_backward(tmp_path: Any) -> None:
    lines = ["OP_ID0. A : 1e-06 sec", "OP_ID2. B : 2e-06 sec", "OP_ID3. ABackward : 4e-06 sec", "OP_ID9. B : 8e-06 sec"]
    (tmp_path / "x").write_text("\n".join(["Time Profiling:", *lines, ""]), "utf-8")
    found = table(tracekit.read(tmp_path / "x"), "phases")
    assert [(r["name"], r["avg"], r["ratio"]) for r in found] == [
        ("Forward Propagation", 3000, 0.2), ("Backward Propagation", 12000, 0.8),
    ]  # fmt: skip


def training(steps: int) -> Trace:
    """Steps of 100 ns at 1000 ns each: two operators of one name, a nested one, Waiting, a Dist, then backward."""
    rows: list[Row] = []
    for step in range(steps):
        begin = 1000 * step
        rows.append({"ts_ns": begin, "dur_ns": 100, "kind": "step", "name": f"step {step}", "pid": 1, "tid": 7})
        for start, length, kind, name in (
            (0, 10 + step, "operator", "conv"), (2, 5, "operator", "inner"), (20, 6, "operator", "Waiting"),
            (30, 10, "operator", "conv"), (50, 4, "communication", "Dist_Synch"), (60, 20, "operator", "convBackward"),
        ):  # fmt: skip
            rows.append({"ts_ns": begin + start, "dur_ns": length, "kind": kind, "name": name, "pid": 1, "tid": 7})
    return trace(*rows)


def test_operators_of_events_are_those_of_the_graph_in_order_of_start() -> None:
    found = table(training(4), "operators")
    assert [(r["op_id"], r["name"], r["calls"], r["avg"]) for r in found] == [
        (0, "conv", 4, 12), (2, "conv", 4, 10), (3, "Dist_Synch", 4, 4), (4, "convBackward", 4, 20),
    ]  # fmt: skip
    assert [found[0][k] for k in ("min", "p50", "p95", "max")] == [10, 11, 13, 13]
    assert [(r["name"], r["avg"]) for r in table(training(4), "phases")] == [
        ("Forward Propagation", 26), ("Backward Propagation", 74), ("Iteration", 100),
    ]  # fmt: skip


def test_skipped_iterations_do_not_count_and_only_compat_divides_by_them() -> None:
    made = training(8)
    right = table(made, "operators", ViewOptions(values={"skip_iterations": 6}))
    assert [r["avg"] for r in right] == [16, 10, 4, 20]
    asked = ViewOptions(compat="singa", values={"skip_iterations": 6})
    assert printed(made, asked) == [
        "", "Time Profiling:", "OP_ID0. conv : 4.125e-09 sec", "OP_ID2. conv : 2.5e-09 sec",
        "OP_ID3. Dist_Synch : 1e-09 sec", "OP_ID4. convBackward : 5e-09 sec",
    ]  # fmt: skip
    # SINGA skips five unless told otherwise.
    assert printed(made)[3] == "OP_ID2. conv : 3.75e-09 sec"
    # Forward and backward are divided by the iterations that were measured, by SINGA too.
    passes = printed(made, ViewOptions(compat="singa", values={"skip_iterations": 6, "verbosity": 1}))
    assert passes[2:] == ["Forward Propagation Time : 3.05e-08 sec", "Backward Propagation Time : 6.95e-08 sec"]
    assert printed(made, ViewOptions(compat="singa", values={"verbosity": 3}))[2:] == [
        "OP_ID3. Dist_Synch : 1.5e-09 sec"
    ]


def test_phases_that_a_trace_has_stand_as_they_are() -> None:
    rows: list[Row] = [
        {"ts_ns": 0, "dur_ns": 10, "kind": "forward", "name": "f"},
        {"ts_ns": 1, "dur_ns": 2, "kind": "forward"},
        {"ts_ns": 20, "dur_ns": 30, "kind": "backward"},
        {"ts_ns": 60, "dur_ns": 5, "kind": "optimizer"},
        {"ts_ns": 0, "dur_ns": 100, "kind": "step"},
        {"ts_ns": 1, "dur_ns": 1, "kind": "operator", "name": "a"},
    ]
    found = table(trace(*rows), "phases")
    assert [(r["name"], r["avg"], r["ratio"]) for r in found] == [
        ("Forward Propagation", 10, 0.1), ("Backward Propagation", 30, 0.3), ("Optimizer", 5, 0.05),
        ("Iteration", 100, 1.0),
    ]  # fmt: skip


def test_all_iterations_skipped_give_no_time_and_a_note() -> None:
    made = training(2)
    found = view(made, "singa", ViewOptions(values={"skip_iterations": 9}))
    assert found.tables == ()
    assert "all 2 iterations skipped: there is no time of an average one" in found.notes
    assert printed(made, ViewOptions(compat="singa", values={"skip_iterations": 9})) == ["", "Time Profiling:"]


def test_events_outside_of_the_steps_are_told() -> None:
    rows = [{"dur_ns": 5, "kind": "operator", "step": 1}, {"ts_ns": 9, "dur_ns": 5, "kind": "operator"}]
    assert "1 event within no iteration not counted" in view(trace(*rows), "singa").notes


def test_of_very_many_operators_the_first_are_shown_and_the_rest_told() -> None:
    made = trace(*({"ts_ns": 9 * n, "dur_ns": 1 + n % 7, "kind": "operator", "name": "a"} for n in range(700)))
    section = view(made, "singa")
    found = next(t for t in section.tables if t.name == "operators")
    assert (len(found), found.omitted) == (200, 500)
    assert "of 700 operators the 200 that ran first are shown: --top N shows N" in section.notes
    assert found.column("ratio").values[0] == 1 / 2800
    longest = table(made, "operators", ViewOptions(sorted_by="avg"))
    assert [r["avg"] for r in longest] == [7] * 100 + [6] * 100
    assert len(table(made, "operators", ViewOptions(top=300))) == 300
    assert len(printed(made)) == 702


def test_a_verbosity_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="verbosity=4: not a whole number from 1 to 3"):
        view(training(1), "singa", ViewOptions(values={"verbosity": 4}))


def test_an_empty_trace_gives_a_note_in_every_form() -> None:
    assert view(trace(), "singa").notes[0].startswith("needs ")
    assert printed(trace()) == []


@given(rows=event_rows())
def test_the_operators_of_any_trace_add_up_to_its_outermost_events(rows: list[Row]) -> None:
    made = trace(*({**r, "kind": "operator", "tid": n} for n, r in enumerate(rows)))
    found = table(made, "operators")
    timed = [max(r["dur_ns"], 0) for r in rows if r["dur_ns"] is not None]
    assert sum(r["avg"] for r in found) == sum(timed)
    assert len(found) == len(timed)


@given(rows=event_rows())
@pytest.mark.parametrize("compat", ["", "singa"])
def test_any_trace_goes_through_with_the_columns_that_it_names(rows: list[Row], compat: str) -> None:
    whole = trace(*rows)
    keep = [c for c in whole.events.schema.names if c in pipeline.columns_of(["singa"])]
    narrow = Trace(whole.events.select(keep), whole.totals, whole.run)
    options = ViewOptions(compat=compat)
    assert view(narrow, "singa", options) == view(whole, "singa", options)
    if compat:
        printed(whole)


def test_a_printed_line_without_a_name_is_shown() -> None:
    read = tracekit.read(sample("singa/verbosity-2.txt"))
    place = read.totals.schema.get_field_index("name")
    nameless = pa.nulls(read.totals.num_rows, read.totals.schema.field(place).type)
    of = replace(read, totals=read.totals.set_column(place, read.totals.schema.field(place), nameless))
    shown = pipeline.view(of, "singa")
    assert sum(map(len, shown.tables)) > 0

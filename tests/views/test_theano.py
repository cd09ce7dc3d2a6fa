"""The view theano: of profiles what they say, of any trace class, op and node, with what is left out told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import sample
from views.tables import Row, dicts, event_rows, trace
from views.tables import rank as nearest

import tracekit
from tracekit import pipeline
from tracekit.analysis.nesting import nest
from tracekit.errors import UsageError
from tracekit.model.trace import Trace
from tracekit.pipeline import render, summary, view
from tracekit.render.base import RenderOptions
from tracekit.views.base import ViewOptions

ALL = ViewOptions(values={"n_ops": 1000, "n_apply": 1000})


def table(made: Trace, name: str, options: ViewOptions | None = None) -> list[Row]:
    found = [t for t in view(made, "theano", options).tables if t.name == name]
    return dicts(found[0]) if found else []


def ranges(*rows: tuple[int, int, str, str], **more: Any) -> list[Row]:
    return [{"ts_ns": t, "dur_ns": d, "kind": k, "name": n, "pid": 1, "tid": 7, **more} for t, d, k, n in rows]


STEPS = [
    *ranges((0, 100, "step", "s"), (0, 40, "operator", "conv"), (10, 20, "operator", "gemm"), step=0),
    *ranges((50, 30, "operator", "conv"), step=0),
    *ranges((200, 100, "step", "s"), (200, 50, "operator", "conv"), (210, 20, "operator", "gemm"), step=1),
    *ranges((260, 6, "operator", "conv"), step=1),
    {"ts_ns": 15, "dur_ns": 60, "kind": "kernel", "name": "k", "device": 0, "stream": 7, "step": 0},
]


def test_times_are_self_times_and_nodes_are_places_in_a_step() -> None:
    made = trace(*STEPS)
    assert [(r["name"], r["calls"], r["total"], r["nodes"]) for r in table(made, "class")] == [
        ("operator", 6, 126, 3), ("kernel", 1, 60, 1),
    ]  # fmt: skip
    assert [(r["name"], r["kind"], r["calls"], r["total"], r["nodes"]) for r in table(made, "ops")] == [
        ("conv", "operator", 4, 86, 2), ("k", "kernel", 1, 60, 1), ("gemm", "operator", 2, 40, 1),
    ]  # fmt: skip
    assert [(r["name"], r["id"], r["calls"], r["total"], r["p50"], r["max"]) for r in table(made, "apply")] == [
        ("k", 0, 1, 60, 60, 60), ("conv", 0, 2, 50, 20, 30), ("gemm", 1, 2, 40, 20, 20), ("conv", 2, 2, 36, 6, 30),
    ]  # fmt: skip
    function = table(made, "functions")[0]
    assert (function["calls"], function["total"], function["thunks"], function["nodes"]) == (2, 200, 186, 4)
    assert function["ratio"] == 186 / 200


def test_what_is_left_out_is_the_last_row() -> None:
    made = trace(*STEPS)
    found = table(made, "ops", ViewOptions(values={"n_ops": 1}))
    assert [(r["name"], r["total"], r["ratio"], r["sum_ratio"], r["remaining"]) for r in found] == [
        ("conv", 86, 86 / 186, 86 / 186, None), ("(remaining 2 Ops)", 100, 100 / 186, 1.0, 2),
    ]  # fmt: skip
    assert table(made, "ops", ViewOptions(top=1)) == found
    assert [r["remaining"] for r in table(made, "apply", ViewOptions(values={"n_apply": 3}))] == [None, None, None, 1]


def test_threads_apart_are_functions_with_their_sum() -> None:
    made = trace(*STEPS)
    found = table(made, "functions", ViewOptions(thread_sep=True))
    assert [(r["name"], r["kind"], r["thunks"]) for r in found] == [
        ("thread 7", "function", 126), ("device 0 stream 7", "function", 60), ("Sum of all(2)", "sum", 186),
    ]  # fmt: skip
    ops = table(made, "ops", ViewOptions(thread_sep=True))
    assert [(r["function"], r["name"], r["ratio"]) for r in ops[:2]] == [
        ("thread 7", "conv", 86 / 126), ("thread 7", "gemm", 40 / 126),
    ]  # fmt: skip


def test_a_key_of_sort_orders_the_rows_of_each_function() -> None:
    made = trace(*STEPS)
    assert [r["name"] for r in table(made, "ops", ViewOptions(sorted_by="name"))] == ["conv", "gemm", "k"]
    assert [r["max"] for r in table(made, "ops", ViewOptions(sorted_by="-max"))] == [20, 30, 60]


@given(rows=event_rows(), most=st.integers(0, 4))
def test_the_tables_of_any_trace_add_up_to_its_self_times(rows: list[Row], most: int) -> None:
    made = trace(*({**r, "step": n % 3} for n, r in enumerate(rows)))
    timed = [r for r in rows if r["dur_ns"] is not None and r["kind"] != "mark"]
    device = {"kernel", "memcpy", "memset"}
    lanes = [
        (r["source"], r["device"]) if r["kind"] in device else (r["source"], r["pid"], r["tid"], "host") for r in timed
    ]
    ids = sorted(set(lanes), key=str)
    start = np.array([r["ts_ns"] for r in timed], np.int64)
    long = np.array([max(r["dur_ns"], 0) for r in timed], np.int64)
    own = nest(np.array([ids.index(lane) for lane in lanes], np.int64), start, start + long).self_ns
    options = ViewOptions(values={"n_ops": most, "n_apply": most})
    for name in ("class", "ops", "apply"):
        for asked in (ALL, options):
            assert sum(r["total"] for r in table(made, name, asked)) == own.sum()
        whole = table(made, name, ALL)
        assert sum(r["calls"] for r in whole) == len(timed)
    kinds = {r["kind"] for r in timed}
    assert {r["name"] for r in table(made, "class", ALL)} == kinds
    for row in table(made, "class", ALL):
        mine = [int(t) for t, r in zip(own, timed, strict=True) if r["kind"] == row["name"]]
        assert (row["p95"], row["min"], row["max"]) == (nearest(mine, 95), min(mine), max(mine))
    nodes = sum(r["nodes"] for r in table(made, "ops", ALL))
    assert nodes == len(table(made, "apply", ALL)) == sum(r["nodes"] for r in table(made, "class", ALL))


@given(rows=event_rows())
@pytest.mark.parametrize("compat", ["", "theano", "paddle"])
def test_any_trace_goes_through_with_the_columns_that_it_names(rows: list[Row], compat: str) -> None:
    whole = trace(*rows)
    keep = [c for c in whole.events.schema.names if c in pipeline.columns_of(["theano"])]
    narrow = Trace(whole.events.select(keep), whole.totals, whole.run)
    options = ViewOptions(compat=compat)
    section = view(whole, "theano", options)
    assert view(narrow, "theano", options) == section
    if compat == "theano":
        text = render(summary(whole, options=options), "text", compat="theano")
        assert "nan" not in text
        assert len(text.splitlines()) == text.count("\n")
    else:
        assert ("--compat paddle has no effect here" in section.notes) == (compat == "paddle")


def test_events_print_as_theano_prints_with_dashes_for_what_is_unknown() -> None:
    text = render(
        summary(trace(*STEPS), options=ViewOptions(compat="theano", values={"n_apply": 1})), "text", compat="theano"
    )
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[2:8] == [
        "  Message: a.csv", "  Time in 2 calls to Function.__call__: 2.000000e-07s",
        "  Time in Function.fn.__call__: -",
        "  Time in thunks: 1.860000e-07s (93.000%)", "  Total compile time: -", "    Number of Apply nodes: 4",
    ]  # fmt: skip
    assert "  67.7%    67.7%       0.000s       2.10e-08s     C        6       3   operator" in lines
    assert lines[-4:] == [
        "<% time> <sum %> <apply time> <time per call> <#call> <id> <Apply name>",
        "  32.3%    32.3%       0.000s       6.00e-08s      1     0   k",
        "   ... (remaining 3 Apply instances account for 67.74%(0.00s) of the runtime)", "",
    ]  # fmt: skip


def test_a_hostile_name_stays_on_its_line() -> None:
    made = trace({"dur_ns": 5, "name": "a\n<b>\x1b[31m", "kind": "operator"})
    text = render(summary(made, options=ViewOptions(compat="theano")), "text", compat="theano")
    assert "\x1b" not in text
    assert sum("<b>" in line for line in text.splitlines()) == 2


def test_a_profile_of_several_functions_has_a_row_for_each_and_its_sum() -> None:
    made = tracekit.read(sample("theano/two-functions-scan-and-sum.txt"))
    found = table(made, "functions")
    assert [(r["name"], r["kind"]) for r in found] == [
        ("train", "function"), ("scan_fn", "scan"), ("predict.py:42", "function"),
        ("Sum of all(2) printed profiles at exit excluding Scan op profile.", "sum"),
    ]  # fmt: skip
    for name in ("class", "ops", "apply"):
        rows = table(made, name)
        for function in found:
            mine = [r for r in rows if r["function"] == function["name"]]
            assert sum(r["ratio"] for r in mine) == pytest.approx(1)
            assert mine[-1]["sum_ratio"] == pytest.approx(1)
            if function["thunks"]:
                assert sum(r["total"] for r in mine) == pytest.approx(function["thunks"], rel=5e-3)


def test_fewer_rows_of_a_profile_leave_its_sums_as_they_are() -> None:
    made = tracekit.read(sample("theano/two-functions-scan-and-sum.txt"))
    for name in ("class", "ops", "apply"):
        whole, some = table(made, name), table(made, name, ViewOptions(values={"n_ops": 2, "n_apply": 2}))
        for function in {r["function"] for r in whole}:
            mine, less = ([r for r in rows if r["function"] == function] for rows in (whole, some))
            assert sum(r["total"] for r in mine) == sum(r["total"] for r in less)
            count = sum(r.get("remaining") or 1 for r in mine)
            assert count == sum(r.get("remaining") or 1 for r in less)
            assert len(less) <= 3


def test_memory_scans_and_the_optimizer_have_tables(tmp_path: Path) -> None:
    made = tracekit.read(sample("theano/theano-1.0.5.txt"))
    assert [t.name for t in view(made, "theano").tables] == [
        "functions", "class", "ops", "apply", "make_thunk", "memory_peaks", "memory", "optimizer",
    ]  # fmt: skip
    steps = table(made, "optimizer")
    assert steps[0]["name"] == "canonicalize"
    assert {r["within"] for r in steps} >= {None, "BlasOpt"}
    assert sum(r["total"] for r in table(made, "class")) == pytest.approx(
        table(made, "functions")[0]["thunks"], rel=1e-2
    )


def test_small_outputs_go_into_the_last_row() -> None:
    path = sample("theano/theano-1.0.5.txt")
    made = tracekit.read(path)
    assert table(made, "memory", ViewOptions(values={"min_memory_size": 1 << 40})) == table(made, "memory")
    rows = (
        {"section": "Memory Profile", "name": "a", "bytes": 900, "args": "{}", "kind": "memory", "order": 0},
        {"section": "Memory Profile", "name": "b", "bytes": 60, "args": "{}", "kind": "memory", "order": 1},
        {"section": "Memory Profile", "name": "rest", "bytes": 40, "kind": "memory", "order": 2,
         "args": '{"remaining": 3, "percent": "4.00", "bytes_of_all": 1000}'},
    )  # fmt: skip
    found = table(trace(totals=rows), "memory", ViewOptions(values={"min_memory_size": 100}))
    assert [(r["name"], r["bytes"], r["ratio"], r["remaining"]) for r in found] == [
        ("a", 900, 0.9, None), ("rest", 100, 0.1, 4),
    ]  # fmt: skip


def test_totals_of_another_profiler_give_class_and_op() -> None:
    rows = (
        {"name": "gemm", "calls": 2, "total_ns": 60}, {"name": "copy", "kind": "memcpy", "calls": 1, "total_ns": 20},
        {"name": "launch", "kind": "runtime", "section": "API calls", "calls": 3, "total_ns": 20},
        {"name": "gemm", "calls": 2, "total_ns": 50, "section": "Range a"},
    )  # fmt: skip
    made = trace(totals=rows)
    assert [(r["name"], r["total"], r["ratio"]) for r in table(made, "class")] == [
        ("kernel", 60, 0.6), ("runtime", 20, 0.2), ("memcpy", 20, 0.2),
    ]  # fmt: skip
    assert [r["name"] for r in table(made, "ops")] == ["gemm", "launch", "copy"]
    assert table(made, "apply") == []


def test_an_empty_trace_gives_a_note_in_every_form() -> None:
    section = view(trace(), "theano")
    assert (section.tables, section.notes[0][:6]) == ((), "needs ")
    assert render(summary(trace(), options=ViewOptions(compat="theano")), "text", compat="theano") == ""


def test_a_trace_read_without_a_needed_column_is_refused_by_name() -> None:
    whole = trace({"dur_ns": 1})
    narrow = Trace(whole.events.select(["ts_ns", "dur_ns"]), whole.totals, whole.run)
    with pytest.raises(UsageError, match="the view theano needs the column"):
        view(narrow, "theano")


@pytest.mark.parametrize("form", ["text", "json", "csv", "markdown"])
@pytest.mark.parametrize("compat", ["", "theano"])
def test_every_form_shows_the_tables(form: str, compat: str) -> None:
    made = tracekit.read(sample("theano/theano-1.0.5.txt"))
    report = summary(made, views=["theano"], options=ViewOptions(compat=compat))
    text = render(report, form, RenderOptions(width=100), compat=compat)
    assert "Gemm{inplace}" in text

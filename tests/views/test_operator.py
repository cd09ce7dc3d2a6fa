"""The view operator: PyTorch's and Paddle's own tables are the oracle for calls, self and total times."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from support import corpus
from views.hosts import around, call, launch_of, op, programs, work
from views.tables import dicts, on_trace, trace

from tracekit.api import read
from tracekit.model.trace import Run, SourceFacts
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

OPERATOR, USER = on_trace(VIEWS["operator"]), on_trace(VIEWS["user_defined"])
FLAT = ViewOptions(op_detail=False)


@pytest.mark.parametrize("name", ["plain", "sched1", "ddp_rank0", "ddp_rank1"])
def test_calls_self_and_total_times_are_those_of_torch_key_averages(name: str) -> None:
    made = read(corpus(f"generated/torch/{name}.pt.trace.json"))
    averages = json.loads(corpus(f"generated/torch/{name}.averages.json").read_text(encoding="utf-8"))
    wanted = {
        row["name"]: (row["count"], round(1000 * row["self_cpu_us"]), round(1000 * row["cpu_us"])) for row in averages
    }
    found = {row["name"]: (row["calls"], row["self"], row["total"]) for row in dicts(OPERATOR(made, FLAT))}
    assert len(found) >= 48
    assert found == {key: wanted[key] for key in found}
    ranges = {row["name"]: (row["calls"], row["self"], row["total"]) for row in dicts(USER(made, FLAT))}
    if name == "sched1":
        # With stacks torch takes the Python functions within a range off its self time; here frames are no ranges.
        assert {k: (v[0], v[2]) for k, v in ranges.items()} == {k: (wanted[k][0], wanted[k][2]) for k in ranges}
    else:
        assert ranges == {key: wanted[key] for key in ranges}
        # What is left are phases, steps (under one name there) and collectives, which have views of their own.
        left = {key for key in wanted if key not in found and key not in ranges}
        phases: dict[str, list[int]] = {}
        for row in made.events.to_pylist():
            if row["kind"] in ("dataloader", "optimizer"):
                phases.setdefault(row["name"], []).append(row["dur_ns"])
        assert {key: (len(durs), sum(durs)) for key, durs in phases.items()} == {
            key: (wanted[key][0], wanted[key][2]) for key in phases
        }
        assert all(key in phases or key == "ProfilerStep*" or key.startswith("gloo:") for key in left)


@pytest.mark.parametrize("name", ["paddle3/all", "paddle26/range", "paddle26/workers"])
def test_calls_and_times_are_those_of_paddles_printed_table(name: str) -> None:
    unit = "ns" if name == "paddle3/all" else "ms"
    printed = read(corpus(f"generated/{name}.summary.{unit}.op0.thr0.txt")).totals.to_pylist()
    wanted = {row["name"]: row for row in printed if row["section"] == "Operator Summary"}
    found = {row["name"]: row for row in dicts(OPERATOR(read(corpus(f"generated/{name}.0.pb")), FLAT))}
    assert len(wanted) > 10
    assert found.keys() == wanted.keys()
    for key, row in found.items():
        assert row["calls"] == wanted[key]["calls"]
        for column, other in (("total", "total_ns"), ("max", "max_ns"), ("min", "min_ns")):
            assert abs(row[column] - wanted[key][other]) <= (0 if unit == "ns" else 5_000)


@given(rows=programs())
def test_device_times_are_those_of_plain_python_and_add_up_with_the_unattributed_row(
    rows: list[dict[str, Any]],
) -> None:
    section = OPERATOR(trace(*rows), FLAT)
    operators = [r for r in rows if r["kind"] == "operator"]
    if not operators:
        assert section.tables == ()
        return
    pieces = [r for r in rows if r["kind"] in ("kernel", "memcpy")]
    found = {row["name"]: row for row in dicts(section)}
    own: dict[str, int] = dict.fromkeys(found, 0)
    for piece in pieces:
        launch = launch_of(rows, piece)
        holder = around(rows, launch, ("operator",)) if launch else None
        name = holder["name"] if holder else "(unattributed)"
        own[name] = own.get(name, 0) + piece["dur_ns"]
    if not pieces:
        assert all("device_total" not in row for row in found.values())
        return
    if not any(r["kind"] == "runtime" for r in rows):
        # Nothing shows a launch: what a range launched is not known.
        assert all(row["device_self"] is None for name, row in found.items() if name != "(unattributed)")
        assert found["(unattributed)"]["device_self"] == sum(own.values())
        return
    # Of equal ranges either is the innermost: only the sum over the table is the same in both.
    assert sum(row["device_self"] for row in found.values()) == sum(own.values())
    assert found.get("(unattributed)", {"device_self": 0})["device_self"] == own.get("(unattributed)", 0)
    whole = sum(own.values())
    if whole:
        assert sum(row["device_ratio"] for row in found.values()) == pytest.approx(1)
    self_times = [row["self_ratio"] for row in found.values() if row["self_ratio"] is not None]
    assert not self_times or sum(self_times) == pytest.approx(1)


class TestDetails:
    ROWS = (
        op("conv", 0, 100), op("inner", 10, 50, "operator_inner"), call(1, 20, 30), call(2, 60, 70), op("relu", 80, 90),
        call(3, 82, 84), op("lone", 200, 210, "user_range"), call(4, 202, 204),
        work("k1", 1, 100, 140), work("k2", 2, 140, 160), work("k3", 3, 160, 165), work("k4", 4, 300, 307),
        work("k5", 9, 400, 411),
    )  # fmt: skip

    def rows(self, **options: Any) -> list[dict[str, Any]]:
        return dicts(OPERATOR(trace(*self.ROWS), ViewOptions(**options)))

    def test_levels_say_what_an_operator_called_and_launched(self) -> None:
        shown = [(r["level"], r["name"], r["calls"], r["total"], r["self"], r["device_total"]) for r in self.rows()]
        assert shown == [
            (0, "conv", 1, 100, 40, 65),
            (1, "inner", 1, 40, 30, 40),
            (2, "k1", 1, None, None, 40),
            (2, "cudaLaunchKernel", 1, 10, 10, None),
            (1, "k2", 1, None, None, 20),
            (1, "cudaLaunchKernel", 1, 10, 10, None),
            (0, "relu", 1, 10, 8, 5),
            (1, "k3", 1, None, None, 5),
            (1, "cudaLaunchKernel", 1, 2, 2, None),
            (0, "(unattributed)", None, None, None, 18),
        ]

    def test_without_details_there_are_operators_alone(self) -> None:
        assert [r["name"] for r in self.rows(op_detail=False)] == ["conv", "relu", "(unattributed)"]
        assert "level" not in self.rows(op_detail=False)[0]

    def test_ratios_of_details_are_of_their_operator(self) -> None:
        conv, inner, k1 = self.rows()[:3]
        assert conv["ratio"] == 100 / 110
        assert inner["ratio"] == 40 / 100
        assert k1["device_ratio"] == 40 / 65

    def test_device_self_leaves_out_what_a_nested_operator_launched(self) -> None:
        assert [(r["name"], r["device_self"]) for r in self.rows(op_detail=False)] == [
            ("conv", 60), ("relu", 5), ("(unattributed)", 18),
        ]  # fmt: skip

    def test_top_cuts_operators_and_the_rows_below_each_and_counts_them(self) -> None:
        table = OPERATOR(trace(*self.ROWS), ViewOptions(top=1)).tables[0]
        assert [r["name"] for r in dicts(table)] == ["conv", "inner", "k1", "(unattributed)"]
        assert table.omitted == 1 + 2 + 1

    @pytest.mark.parametrize(
        ("key", "first"),
        [("CPUTotal", "conv"), ("CPUMin", "relu"), ("GPUTotal", "conv"), ("GPUMin", "relu"), ("-total", "relu")],
    )
    def test_upstreams_words_sort_as_upstream_does(self, key: str, first: str) -> None:
        assert self.rows(sorted_by=key, op_detail=False)[0]["name"] == first


def test_each_thread_is_a_block_with_ratios_of_its_own() -> None:
    rows = op("a", 0, 10), op("b", 10, 40), op("a", 0, 30, tid=8)
    run = Run(origin_ns=0, sources=[SourceFacts("x", "y")], threads={(0, 1, 8): "autograd"})
    found = dicts(OPERATOR(trace(*rows, run=run), ViewOptions(thread_sep=True, op_detail=False)))
    assert [(r["thread"], r["name"], r["total"], r["ratio"]) for r in found] == [
        ("thread 7", "b", 30, 30 / 40), ("thread 7", "a", 10, 10 / 40), ("autograd", "a", 30, 1.0),
    ]  # fmt: skip


def test_operators_on_no_thread_count_and_what_they_called_is_not_known() -> None:
    section = OPERATOR(trace(op("a", 0, 10), op("b", 0, 30, tid=None)), FLAT)
    assert [(r["name"], r["total"], r["self"]) for r in dicts(section)] == [("b", 30, None), ("a", 10, 10)]
    assert "1 operator is without a thread: calls and launches in them are unknown" in section.notes


def test_flops_that_the_file_says_are_added() -> None:
    rows = op("a", 0, 10, args='{"flops": 7}'), op("a", 10, 20, args='{"FLOPs":"5"}'), op("b", 30, 40, args='{"x":1}')
    assert {r["name"]: r["flops"] for r in dicts(OPERATOR(trace(*rows), FLAT))} == {"a": 12, "b": None}


def test_totals_alone_give_the_printed_table() -> None:
    row = {"name": "conv", "kind": "operator", "section": "Operator Summary", "calls": 2, "total_ns": 10, "avg_ns": 5.0}
    section = OPERATOR(trace(totals=(row,)), ViewOptions())
    assert dicts(section)[0]["total"] == 10
    assert "there are no percentiles" in section.notes[0]

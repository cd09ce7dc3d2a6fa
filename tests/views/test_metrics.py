from __future__ import annotations

import json
from typing import Any

import pytest
from views.tables import dicts, on_trace, trace

from tracekit.model.trace import Run, SourceFacts
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

METRICS = on_trace(VIEWS["metrics"])


def counted(name: str, metric: str, value: float, **more: Any) -> dict[str, Any]:
    return {
        "name": name, "section": "metrics", "calls": 3, "value_min": value, "value_max": value + 1, "value_avg": value,
        "args": json.dumps({"metric": metric}), **more,
    }  # fmt: skip


def test_metrics_stand_in_the_order_of_the_file() -> None:
    rows = (
        counted("b", "ipc", 1.5),
        counted("b", "dram_utilization", 2.0, unit="level", value_text="Low (2)"),
        counted("a", "ipc", 1.25),
        {"name": "a", "calls": 3, "total_ns": 7},
    )
    section = METRICS(trace(totals=rows), ViewOptions())
    assert section.notes == ()
    assert [c.name for c in section.tables[0].columns] == [
        "name", "metric", "calls", "min", "max", "avg", "unit", "text",
    ]  # fmt: skip
    assert section.tables[0].rows() == [
        ["b", "ipc", 3, 1.5, 2.5, 1.5, None, None],
        ["b", "dram_utilization", 3, 2.0, 3.0, 2.0, "level", "Low (2)"],
        ["a", "ipc", 3, 1.25, 2.25, 1.25, None, None],
    ]


def test_single_calls_are_merged_and_the_mean_is_weighted() -> None:
    rows = (
        counted("a", "ipc", 1.0, calls=1, value_text="x"),
        counted("a", "ipc", 4.0, calls=2, value_text="x"),
        counted("a", "ipc", 9.0, calls=1, device=1),
    )
    found = dicts(METRICS(trace(totals=rows), ViewOptions()))
    assert [(r["calls"], r["min"], r["max"], r["avg"], r["text"], r["device"]) for r in found] == [
        (3, 1.0, 5.0, 3.0, "x", None),
        (1, 9.0, 10.0, 9.0, None, 1),
    ]


def test_what_one_of_the_merged_rows_does_not_say_is_unknown() -> None:
    rows = (
        counted("a", "ipc", 1.0, calls=None, value_text="x"),
        counted("a", "ipc", 4.0, value_min=None, value_text="y"),
    )
    (row,) = dicts(METRICS(trace(totals=rows), ViewOptions()))
    assert (row["calls"], row["min"], row["max"], row["avg"], row.get("text")) == (None, None, 5.0, None, None)


def test_runs_and_inputs_stay_apart() -> None:
    rows = (counted("a", "ipc", 1.0, source=1), counted("a", "ipc", 1.0), counted("a", "ipc", 1.0, run=1))
    run = Run(sources=[SourceFacts("x.csv", "f"), SourceFacts("y.csv", "f")])
    found = dicts(METRICS(trace(totals=rows, run=run), ViewOptions()))
    assert [(r["source"], r["run"]) for r in found] == [("x.csv", 0), ("x.csv", 1), ("y.csv", 0)]


@pytest.mark.parametrize("args", [None, "{", "[]", '{"metric": 3}'])
def test_a_row_whose_metric_is_not_named_carries_the_name_of_its_table(args: str | None) -> None:
    (row,) = dicts(METRICS(trace(totals=(counted("a", "", 1.0, args=args),)), ViewOptions()))
    assert row["metric"] == "metrics"


def test_other_totals_are_no_metrics() -> None:
    sizes = {"name": "Host To Device", "section": "Unified Memory", "calls": 1, "value_avg": 4096.0}
    section = METRICS(trace(totals=(sizes,)), ViewOptions())
    assert section.tables == ()
    assert section.notes == ("needs metrics, as nvprof --metrics and ncu write them; this trace has none",)


def test_columns_sort_and_top_cuts() -> None:
    rows = (counted("a", "ipc", 1.0), counted("b", "ipc", 3.0), counted("c", "ipc", 2.0))
    table = METRICS(trace(totals=rows), ViewOptions(sorted_by="avg", top=2)).tables[0]
    assert [r["name"] for r in dicts(table)] == ["b", "c"]
    assert table.omitted == 1

"""A trace holds all calls, no sample of them: the deviation is that of the population in every view that gives one."""

from __future__ import annotations

import pytest
from views.tables import dicts, trace

import tracekit
from tracekit.model.trace import Trace
from tracekit.views import VIEWS

TIMES = (10, 20, 30)
DEVIATION = 8  # the root of 200 / 3; a sample's would be 10


def three_steps() -> Trace:
    rows = []
    for number, takes in enumerate(TIMES):
        at = 100 * number
        rows += [
            {"ts_ns": at, "dur_ns": takes, "kind": "step", "step": number, "name": f"step {number}", "tid": 1},
            {"ts_ns": at, "dur_ns": takes, "kind": "operator", "name": "op", "tid": 1},
            {"ts_ns": at, "dur_ns": takes, "kind": "user_range", "name": "range", "tid": 1},
            {"ts_ns": at, "dur_ns": takes, "kind": "forward", "name": "forward", "tid": 1},
            {"ts_ns": at, "dur_ns": takes, "kind": "runtime", "name": "call", "tid": 2},
            {"ts_ns": at, "dur_ns": takes, "name": "kernel", "device": 0, "stream": 7},
        ]
    return trace(*rows)


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("timeline", "findings")])
def test_the_deviation_is_that_of_the_population_in_every_view(name: str) -> None:
    for table in tracekit.view(three_steps(), name).tables:
        for row in dicts(table):
            calls = row.get("calls", row.get("steps"))
            if calls == 3 and (row.get("min"), row.get("max")) == (10, 30) and "std" in row:
                assert row["std"] == DEVIATION, (table.name, row)
            if calls == 1 and row.get("min") is not None and "std" in row:
                assert row["std"] == 0, (table.name, row)


def test_the_views_of_steps_ops_and_kernels_give_it() -> None:
    found = {
        name: [row["std"] for table in tracekit.view(three_steps(), name).tables
               for row in dicts(table) if "std" in row]
        for name in ("steps", "kernel", "operator", "theano", "model")
    }  # fmt: skip
    assert all(DEVIATION in values for values in found.values()), found

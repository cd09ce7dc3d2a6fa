"""Phases, modules, graphs and categories of any trace at all: no error, and every sum is that of the rows."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from views.hosts import Row, op, work
from views.tables import dicts
from views.test_training_phases import EVALUATE, index_of_rows

from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

NAMES = (
    f"{EVALUATE}MmBackward0",
    "MmBackward0",
    "CheckpointFunctionBackward",
    "aten::mm",
    "aten::relu",
    "torch/utils/checkpoint.py(12): recompute_fn",
    "nn.Module: Net_0",
    "nn.Module: Linear_0",
    "train.py(3): main",
    "my range",
    "net.forward",
)
NUMBER = st.integers(0, 4)


@st.composite
def ranges(draw: st.DrawFn) -> Row:
    name = draw(st.sampled_from(NAMES))
    start = draw(st.integers(0, 60))
    kind = "python_op" if name.startswith(("nn.", "train", "torch/")) else "operator"
    if name in ("my range", "net.forward"):
        kind = draw(st.sampled_from(("user_range", "forward", "backward", "optimizer", "step")))
    told: dict[str, Any] = {}
    if draw(st.booleans()):
        told = {"Sequence number": draw(NUMBER), "Fwd thread id": draw(st.integers(0, 2))}
    if kind == "python_op" and draw(st.booleans()):
        told = {"Python id": draw(NUMBER), "Python parent id": draw(st.none() | NUMBER)}
    return op(
        name, start, start + draw(st.integers(0, 40)), kind, tid=draw(st.sampled_from((7, 9))), args=json.dumps(told)
    )


@st.composite
def calls(draw: st.DrawFn) -> Row:
    name = draw(st.sampled_from(("hipLaunchKernel", "hipGraphLaunch", "hipStreamBeginCapture", "hipStreamEndCapture")))
    at = draw(st.integers(0, 90))
    told = draw(st.sampled_from(({}, {"kernel": "a"}, {"kernel": "b"}, {"graph node id": 3})))
    return op(name, at, at + draw(st.integers(0, 4)), "runtime", correlation=draw(NUMBER),
              tid=draw(st.sampled_from((7, 9))), args=json.dumps(told))  # fmt: skip


@st.composite
def kernels(draw: st.DrawFn) -> Row:
    at = draw(st.integers(0, 90))
    told = draw(st.sampled_from(({}, {"graph node id": 3}, {"graph node id": 4})))
    return work(draw(st.sampled_from("ab")), draw(st.none() | NUMBER), at, at + draw(st.integers(0, 20)),
                draw(st.sampled_from(("kernel", "memcpy"))), args=json.dumps(told))  # fmt: skip


@st.composite
def memory(draw: st.DrawFn) -> Row:
    told = json.dumps({"Addr": draw(NUMBER), "Total Allocated": draw(st.integers(0, 500))})
    return {"name": "[memory]", "kind": "memory", "pid": 1, "tid": draw(st.sampled_from((7, 9))), "device": 0,
            "ts_ns": draw(st.integers(0, 100)), "bytes": draw(st.integers(-90, 90)), "args": told}  # fmt: skip


@st.composite
def arrows(draw: st.DrawFn) -> Row:
    return {"name": "fwdbwd", "kind": "flow", "pid": 1, "tid": draw(st.sampled_from((7, 9))),
            "correlation": draw(NUMBER), "ts_ns": draw(st.integers(0, 100))}  # fmt: skip


@settings(max_examples=300)
@given(st.lists(ranges() | calls() | kernels() | memory() | arrows(), max_size=30))
def test_sums_of_any_trace_are_those_of_its_rows(rows: list[Row]) -> None:
    index = index_of_rows(*rows)
    whole = sum(row["dur_ns"] for row in rows if row["kind"] in ("kernel", "memcpy"))
    tables = {
        (name, table.name): dicts(table)
        for name in ("model", "modules", "graphs", "memory")
        for table in VIEWS[name].compute(index, ViewOptions()).tables
    }
    if (phases := tables.get(("model", "phases"))) is not None:
        assert sum(row["device_total"] for row in phases) == whole
        pieces = [(row["ts_ns"], row["ts_ns"] + row["dur_ns"]) for row in rows if row["kind"] in ("kernel", "memcpy")]
        busy = {t for start, end in pieces for t in range(start, end)}
        assert sum(row["device_busy"] for row in phases) == len(busy)
        assert sum(row["ratio"] or 0 for row in tables["model", "model"] if row["name"] == "Others") <= 1
    if (modules := tables.get(("modules", "modules"))) is not None and "device_self" in modules[0]:
        assert sum(row["device_self"] for row in modules) == whole
        assert sum(row["device_total"] for row in modules if row["level"] == 0) == whole
    if (graphs := tables.get(("graphs", "graphs"))) is not None:
        operators = tables["graphs", "graph_operators"]
        assert sum(row["device_total"] for row in graphs) == sum(row["device_total"] for row in operators)
    if (categories := tables.get(("memory", "categories"))) is not None:
        assert sum(row["allocations"] or 0 for row in categories) == sum(
            row["kind"] == "memory" and row["bytes"] > 0 for row in rows
        )

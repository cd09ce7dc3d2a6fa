"""Execution traces alone: counts and work of operators, each call once, and no duration that nobody measured."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from support import run_command, sample

import tracekit
from tracekit.index.trace_index import index_of
from tracekit.index.untimed_calls import untimed_calls
from tracekit.model.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

RECORDED = "execution-trace/linear.et.json"
TENSOR = "Tensor(float)"


def node(number: int, name: str, parent: int, *shapes: list[int], results: tuple[int, ...] = (), **more: Any) -> Any:
    """Return a node whose operands are tensors of these shapes, with the ids 100, 101 ...; results: ids of its own."""
    return {
        "id": number, "name": name, "ctrl_deps": parent,
        "inputs": {"values": [[100 + at, 5, 0, 8, 4, "cpu"] for at in range(len(shapes))], "shapes": [*shapes],
                   "types": [TENSOR] * len(shapes)},
        "outputs": {"values": [[each, 5, 0, 8, 4, "cpu"] for each in results], "shapes": [[8]] * len(results),
                    "types": [TENSOR] * len(results)},
        "attrs": [{"name": "rf_id", "value": number}, {"name": "scope", "value": 0}], **more,
    }  # fmt: skip


def trace_of(tmp_path: Path, *nodes: Any) -> Trace:
    path = tmp_path / "run.et.json"
    path.write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "pid": 7, "nodes": nodes}))
    return tracekit.read(path)


def rows(trace: Trace, view: str) -> dict[str, dict[str, Any]]:
    """Return the rows of the only table of a view, by their first text."""
    section = VIEWS[view].compute(index_of(trace), ViewOptions())
    (table,) = section.tables
    assert any("has no times" in note for note in section.notes)
    assert not {column.unit.value for column in table.columns} & {"ns", "ratio", "bytes/s"}
    key = "family" if view == "efficiency" else "name"
    names = table.column(key).values
    return {str(name): {column.name: column.values[at] for column in table.columns} for at, name in enumerate(names)}


def test_counts_are_those_of_the_file_and_flops_those_of_the_shapes() -> None:
    nodes = json.loads(sample(RECORDED).read_bytes())["nodes"]
    trace = tracekit.read(sample(RECORDED))
    scopes = [{each["name"]: each["value"] for each in one["attrs"]}["scope"] for one in nodes]
    wanted = Counter(one["name"] for one, scope in zip(nodes, scopes, strict=True) if scope != 7)
    found = rows(trace, "operator")
    assert {name: row["calls"] for name, row in found.items()} == wanted
    flops = 0
    for one in nodes:
        if one["name"] in ("aten::mm", "aten::addmm"):
            (m, k), (_, n) = one["inputs"]["shapes"][-2 - 2 * (one["name"] == "aten::addmm") :][:2]
            flops += 2 * m * k * n + m * n * (one["name"] == "aten::addmm")
    assert sum(row["flops"] for row in rows(trace, "gemm").values()) == flops
    assert rows(trace, "efficiency")["matrix product"]["flops"] == flops


def test_work_of_a_call_is_counted_once_and_belongs_to_the_calls_around_it(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        node(12, "aten::mm", 11, [64, 32], [32, 16]),
        node(11, "aten::matmul", 10, [64, 32], [32, 16]),
        node(10, "aten::linear", 2, [64, 32], [16, 32]),
        node(15, "aten::copy_", 14, [8], [8]),
        node(14, "aten::_to_copy", 13, [8]),
        node(13, "aten::to", 2, [8]),
        node(20, "aten::mm", 2, [64, 32], [32, 16]),
    )
    one = 2 * 64 * 32 * 16
    found = rows(trace, "operator")
    assert {name: row["flops"] for name, row in found.items() if row["flops"]} == {
        "aten::linear": one, "aten::matmul": one, "aten::mm": 2 * one
    }  # fmt: skip
    families = rows(trace, "efficiency")
    assert (families["matrix product"]["calls"], families["copy"]["calls"]) == (2, 1)
    assert families["copy"]["bytes"] == 2 * 8 * 4


def test_a_copy_that_returns_what_it_was_given_did_nothing(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        node(3, "aten::contiguous", 2, [8], results=(100,)),
        node(4, "aten::contiguous", 2, [8], results=(7,)),
        node(5, "aten::copy_", 2, [8], [8], results=(100,)),
    )
    assert rows(trace, "efficiency")["copy"]["calls"] == 2


def test_calls_that_name_each_other_or_themselves_make_no_circle(tmp_path: Path) -> None:
    deep = [node(1000 + at, "aten::linear", 999 + at, [2, 2], [2, 2]) for at in range(600)]
    trace = trace_of(
        tmp_path,
        node(3, "aten::mm", 3, [4, 4], [4, 4]),
        node(4, "aten::mm", 5, [4, 4], [4, 4]),
        node(5, "aten::mm", 4, [4, 4], [4, 4]),
        node(5, "aten::mm", 99, [4, 4], [4, 4]),
        *deep,
        node(9999, "aten::mm", 1599, [4, 4], [4, 4]),
    )
    found = untimed_calls(index_of(trace))
    assert found is not None
    assert found.above[:4].tolist() == [-1, -1, 1, -1]
    assert rows(trace, "operator")["aten::mm"]["calls"] == 5
    assert rows(trace, "efficiency")["matrix product"]["flops"] == 4 * 2 * 4**3


def test_operands_that_fit_no_formula_have_unknown_work(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        node(3, "aten::mm", 2, [4, 5], [4, 5]),
        node(4, "aten::mm", 2),
        node(5, "aten::mm", 2, [1 << 40, 1 << 40], [1 << 40, 1 << 40]),
        node(6, "aten::relu", 2, [4]),
    )
    assert rows(trace, "operator")["aten::mm"]["flops"] is None
    assert not any(table for table in VIEWS["gemm"].compute(index_of(trace), ViewOptions()).tables)


def test_collectives_have_counts_and_the_bytes_that_were_put_in(tmp_path: Path) -> None:
    def call(number: int, **attributes: Any) -> Any:
        one = node(number, "record_param_comms", 2)
        return one | {"attrs": [*one["attrs"], *({"name": key, "value": each} for key, each in attributes.items())]}

    told = {"collective_name": "allreduce", "dtype": "Float", "pg_name": "0", "pg_size": 2}
    trace = trace_of(
        tmp_path,
        call(3, **told, in_msg_nelems=10),
        call(4, **told, in_msg_nelems=5),
        node(9, "nccl:all_reduce", 2) | {"attrs": [{"name": "scope", "value": 7}, {"name": "rf_id", "value": 9}]},
        call(5, **told | {"pg_name": "1", "dtype": "new"}, in_msg_nelems=5),
    )
    (table,) = VIEWS["distributed"].compute(index_of(trace), ViewOptions()).tables
    have = {column.name: column.values for column in table.columns}
    assert [(*each,) for each in zip(*(have[key] for key in ("name", "group", "calls", "bytes")), strict=True)] == [
        ("all_reduce", "0", 2, 60),
        ("all_reduce", "1", 1, None),
    ]


def test_a_trace_with_times_has_no_table_without(tmp_path: Path) -> None:
    for inputs in ([sample("kineto/linear.pt.trace.json"), sample(RECORDED)], [sample("chakra/converted.et")]):
        trace = tracekit.read(inputs)
        section = VIEWS["operator"].compute(index_of(trace), ViewOptions())
        assert [table.name for table in section.tables] == ["operators"]


def test_the_first_screen_says_that_there_are_no_times() -> None:
    done = run_command("summary", str(sample(RECORDED)))
    first = done.stdout.split("\n")
    assert first[0] == "56 operator calls, without times."
    assert "aten::addmm" in done.stdout
    assert not [line for line in first if " us " in line or " ms " in line]

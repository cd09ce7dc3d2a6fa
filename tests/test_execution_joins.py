"""An execution trace beside the Kineto trace of its run: each event gets the operands of its own node, or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import sample

import tracekit
from tracekit.index.trace_index import index_of
from tracekit.model.report import ReportTable
from tracekit.model.trace import Trace
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

KINETO, NODES = "kineto/linear.pt.trace.json", "execution-trace/linear.et.json"
TWO = [7, 8, 0, 2048, 4, "cuda:0"], [9, 10, 0, 512, 4, "cuda:0"]
PRODUCT = ("Tensor(float)", [64, 32], TWO[0]), ("Tensor(float)", [32, 16], TWO[1])
Operand = tuple[str, object, object]


def args(trace: Trace, name: str) -> list[dict[str, Any]]:
    """Return the args of the events of a name."""
    return [json.loads(row["args"]) for row in trace.events.to_pylist() if row["name"] == name]


def notes(trace: Trace) -> dict[str, str]:
    """Return the notes of all inputs."""
    return {code: str(note) for ledger in trace.ledgers for code, note in ledger.notes.items()}


def kineto(path: Path, *calls: tuple[int, str], pid: int = 7, **more: object) -> Path:
    """Write a Kineto trace of operators with these record function ids, each of which launches a kernel."""
    events: list[dict[str, Any]] = []
    for place, (number, name) in enumerate(calls):
        at, launch = 1000 + 100 * place, {"External id": place, "correlation": 50 + place}
        own = {"External id": place, "Record function id": number, "Ev Idx": place, **more}
        events += [
            {"ph": "X", "cat": "cpu_op", "name": name, "pid": pid, "tid": 1, "ts": at, "dur": 90, "args": own},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid, "tid": 1, "ts": at + 5, "dur": 9,
             "args": launch},
            {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": at + 20, "dur": 30,
             "args": {**launch, "device": 0, "stream": 7, "context": 1}},
        ]  # fmt: skip
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}))
    return path


def nodes(path: Path, *calls: tuple[int, str, tuple[Operand, ...]], pid: int = 7, **members: object) -> Path:
    """Write an execution trace of operators with these record function ids and operands."""
    every = [
        {"id": 10 + place, "name": name, "ctrl_deps": 2, "outputs": {"values": [], "shapes": [], "types": []},
         "inputs": dict(zip(("types", "shapes", "values"), map(list, zip(*operands, strict=True)), strict=True))
         if operands else {},
         "attrs": [{"name": "rf_id", "type": "uint64", "value": number}, {"name": "scope", "value": 0}]}
        for place, (number, name, operands) in enumerate(calls)
    ]  # fmt: skip
    path.write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "pid": pid, **members, "nodes": every}))
    return path


def table(trace: Trace, view: str, name: str) -> ReportTable:
    """Return a table of a view."""
    section = VIEWS[view].compute(index_of(trace), ViewOptions())
    return next(each for each in section.tables if each.name == name)


def test_both_files_of_one_recording_name_each_other_and_share_their_operands() -> None:
    trace = tracekit.read([sample(KINETO), sample(NODES)])
    recorded = json.loads(sample(NODES).read_bytes())["nodes"]
    ids = {each["id"]: {one["name"]: one["value"] for one in each["attrs"]}["rf_id"] for each in recorded}
    by_id = {each["id"]: each for each in recorded}
    events = [row for row in trace.events.to_pylist() if '"Record function id"' in (row["args"] or "")]
    assert len(events) == sum(number > 0 for number in ids.values())
    for row in events:
        own = json.loads(row["args"])
        other = by_id[own["also_in"]["node"]]
        assert (ids[other["id"]], other["name"]) == (own["Record function id"], row["name"])
        assert own["also_in"]["input"] == "linear.et.json"
        kinds = other["inputs"]["types"]
        assert len(own.get("Input Dims", [])) == len(kinds)
        for place, kind in enumerate(kinds):
            if kind.startswith("Tensor("):
                assert own["Input Dims"][place] == other["inputs"]["shapes"][place]
    matched = [json.loads(row["args"]) for row in trace.totals.to_pylist() if "also_in" in row["args"]]
    records = {row["event_id"]: row["name"] for row in events}
    assert [records[each["also_in"]["record"]] for each in matched] == [by_id[each["node"]]["name"] for each in matched]
    assert "60 of 62 nodes are events of linear.pt.trace.json" in notes(trace)["execution-trace-joined"]
    assert trace.run.sources[0].facts["shapes_from"] == "linear.et.json"
    assert not notes(trace).keys() & {"clocks-not-comparable", "execution-trace-apart"}


def test_work_is_known_of_operators_whose_shapes_only_the_execution_trace_has(tmp_path: Path) -> None:
    calls = [(4, "aten::mm"), (5, "aten::mm"), (6, "aten::relu")]
    events = kineto(tmp_path / "run.json", *calls)
    et = nodes(tmp_path / "run.et.json", *((number, name, PRODUCT) for number, name in calls[:2]))
    assert not VIEWS["gemm"].compute(index_of(tracekit.read(events)), ViewOptions()).tables
    for inputs in ([events, et], [et, events]):
        found = table(tracekit.read(inputs), "gemm", "gemms")
        values = {column.name: column.values for column in found.columns}
        # One shape, one row: what differs from call to call is not a shape.
        assert (values["calls"], values["flops"], values["total"]) == ([2], [2 * 2 * 64 * 32 * 16], [60_000])
        known = table(tracekit.read(inputs), "efficiency", "known").columns
        assert [column.values[0] for column in known if column.name in ("work", "total")] == ["known", 60_000]


def test_shapes_that_kineto_has_stay_except_for_long_lists_which_it_leaves_out(tmp_path: Path) -> None:
    own = {"Input Dims": [[1, 2]], "Input type": ["double"], "Input Strides": [[2, 1]], "Concrete Inputs": [""]}
    events = kineto(tmp_path / "run.json", (4, "aten::relu"), (5, "aten::_foreach_add_"), **own)
    tensor = [7, 8, 0, 6, 4, "cpu"]
    lists = [(f"GenericList[{','.join(['Tensor(float)'] * count)}]", [[2, 3]] * count, [tensor] * count)
             for count in (31, 30)]  # fmt: skip
    for long, renamed in zip(lists, (True, False), strict=True):
        et = nodes(tmp_path / "run.et.json", (4, "aten::relu", PRODUCT[:1]), (5, "aten::_foreach_add_", (long,)))
        trace = tracekit.read([events, et])
        assert args(trace, "aten::relu")[0]["Input Dims"] == [[1, 2]]
        (found,) = args(trace, "aten::_foreach_add_")
        assert (found["Input Dims"] == [[[2, 3]] * 31]) is renamed
        assert found.get("Kineto Input Dims") == ([[1, 2]] if renamed else None)
        assert ("lists of more than 30" in notes(trace)["execution-trace-joined"]) is renamed


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"pid": 8}, "it is of another process (8 here)"),
        ({"time": "2020-01-01 00:00:00"}, "it was recorded on another day"),
        ({"first": 400}, "no record function id is in both"),
        ({"names": "aten::add"}, "it is of another run: 3 of 3 record function ids have another name"),
        ({"names": "aten::mm "}, "another name"),
    ],
)
def test_another_run_gives_no_shapes_and_says_why(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    events = kineto(tmp_path / "run.json", *((number, "aten::mm") for number in (4, 5, 6)))
    text = json.loads(events.read_text()) | {"baseTimeNanoseconds": 1_780_000_000_000_000_000}
    events.write_text(json.dumps(text))
    first, name = change.pop("first", 4), change.pop("names", "aten::mm")
    et = nodes(tmp_path / "run.et.json", *((first + at, name, PRODUCT) for at in range(3)), **change)
    trace = tracekit.read([events, et])
    assert all("Input Dims" not in each and "also_in" not in each for each in args(trace, "aten::mm"))
    assert reason in notes(trace)["execution-trace-apart"]
    assert "run.json gets no shapes from here" in notes(trace)["execution-trace-apart"]


def test_a_trace_without_record_function_ids_says_how_to_record_both(tmp_path: Path) -> None:
    events = kineto(tmp_path / "run.json", (0, "aten::mm"))
    et = nodes(tmp_path / "run.et.json", (4, "aten::mm", PRODUCT))
    assert "execution_trace_observer" in notes(tracekit.read([events, et]))["execution-trace-apart"]


def test_of_two_runs_that_fit_equally_neither_gets_shapes(tmp_path: Path) -> None:
    """Two processes of one program in containers have one process id, and the same numbers and names."""
    both = [kineto(tmp_path / f"{name}.json", (4, "aten::mm")) for name in ("one", "two")]
    both[1].write_text(both[1].read_text() + " ")
    et = nodes(tmp_path / "run.et.json", (4, "aten::mm", PRODUCT))
    trace = tracekit.read([*both, et])
    assert all("also_in" not in each for each in args(trace, "aten::mm"))
    assert "fits as well" in notes(trace)["execution-trace-apart"]


def test_pairs_of_several_ranks_find_each_other(tmp_path: Path) -> None:
    inputs = []
    for rank in range(2):
        inputs.append(kineto(tmp_path / f"rank{rank}.json", (4, "aten::mm"), pid=100 + rank))
        shape = ("Tensor(float)", [rank + 1, 3], [7, 8, 0, 6, 4, "cpu"])
        inputs.append(nodes(tmp_path / f"rank{rank}.et.json", (4, "aten::mm", (shape,)), pid=100 + rank))
    trace = tracekit.read(inputs)
    assert [each["Input Dims"] for each in args(trace, "aten::mm")] == [[[1, 3]], [[2, 3]]]


def test_a_number_that_two_nodes_or_events_have_joins_nothing(tmp_path: Path) -> None:
    events = kineto(tmp_path / "run.json", (4, "aten::mm"), (5, "aten::mm"), (5, "aten::mm"), (6, "aten::mm"))
    et = nodes(tmp_path / "run.et.json", *((number, "aten::mm", PRODUCT) for number in (4, 4, 5, 6)))
    found = args(tracekit.read([events, et]), "aten::mm")
    assert ["Input Dims" in each for each in found] == [False, False, False, True]


def test_traces_of_chakra_are_joined_too(tmp_path: Path) -> None:
    events = kineto(tmp_path / "run.json", (4, "aten::mm"), pid=4242)
    trace = tracekit.read([events, sample("chakra/converted.et")])
    (found,) = args(trace, "aten::mm")
    # The kernel below the operator has its number too, and is no call.
    assert (found["Input Dims"], found["also_in"]["node"]) == ([[64, 8], [8, 16]], 7)

"""Execution traces: each node once, operands in Kineto's form, no time that the file does not have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import sample, sure_readers

import tracekit
from tracekit.errors import ParseError
from tracekit.model.trace import Trace

RECORDED = "execution-trace/linear.et.json"
CONVERTED, SIMULATED = "chakra/converted.et", "chakra/simulated.et"
NODE = '"attrs": [{"name": "rf_id", "type": "uint64", "value": 4}, {"name": "scope", "type": "uint64", "value": 0}]'


def rows(trace: Trace) -> list[dict[str, Any]]:
    """Return the rows of TOTALS with their `args` as objects."""
    return [row | {"args": json.loads(row["args"])} for row in trace.totals.to_pylist()]


def node(number: int, name: str, *operands: tuple[object, object, str], rf: int = 4, **more: object) -> dict[str, Any]:
    """Return a node of schema 1.1.0. operands: value, shape and type of each."""
    values, shapes, types = ([each[at] for each in operands] for at in range(3))
    attributes = [("rf_id", rf), ("fw_parent", 0), ("seq_id", -1), ("scope", 0), ("tid", 1), ("op_schema", "")]
    return {
        "id": number, "name": name, "ctrl_deps": 2,
        "inputs": {"values": values, "shapes": shapes, "types": types},
        "outputs": {"values": [], "shapes": [], "types": []},
        "attrs": [{"name": key, "type": "uint64", "value": more.pop(key, value)} for key, value in attributes],
        **more,
    }  # fmt: skip


def trace_of(tmp_path: Path, *nodes: object, name: str = "run.et.json", **members: object) -> Trace:
    """Return the trace of a file with these nodes."""
    path = tmp_path / name
    path.write_text(json.dumps({"schema": "1.1.0-chakra.0.0.4", "pid": 7, **members, "nodes": list(nodes)}))
    return tracekit.read(path)


def test_each_node_is_one_untimed_row_with_its_operands_and_its_caller() -> None:
    nodes = json.loads(sample(RECORDED).read_bytes())["nodes"]
    trace = tracekit.read(sample(RECORDED))
    assert not len(trace.events)
    found = rows(trace)
    assert [row["name"] for row in found] == [each["name"] for each in nodes]
    assert [row["args"]["node"] for row in found] == [each["id"] for each in nodes]
    assert [row["args"]["parent"] for row in found] == [each["ctrl_deps"] for each in nodes]
    assert all(row["calls"] == 1 and row["total_ns"] is None for row in found)
    for row, each in zip(found, nodes, strict=True):
        dims = row["args"].get("Input Dims", [])
        for place, kind in enumerate(each["inputs"]["types"]):
            if kind.startswith("Tensor("):
                assert dims[place] == each["inputs"]["shapes"][place]
                assert row["args"]["Input type"][place] == kind.removeprefix("Tensor(").removesuffix(")")
    facts = trace.run.sources[0].facts
    assert (facts["pid"], facts["schema"]) == (4242, "1.1.1-chakra.0.0.4")


def test_operands_have_the_form_of_kineto(tmp_path: Path) -> None:
    tensor = [5, 6, 0, 12, 4, "cpu"]
    trace = trace_of(
        tmp_path,
        node(3, "aten::f", (tensor, [3, 4], "Tensor(float)"), ([tensor, tensor], [[3, 4], [3, 4]],
             "GenericList[Tensor(float),Tensor(float)]"), ([3, 4], [[], []], "GenericList[Int,Int]"),
             (True, [], "Bool"), ("-inf", [], "Double"), ("<None>", [], "None"), ("cpu", [], "Device"),
             ([84, 0, 0, 0, 0, ""], [], "Tensor(nullptr (uninitialized))")),
        node(4, "aten::index", (tensor, [3, 4], "Tensor(float)"), ([tensor], [[3]], "GenericList[Tensor(long int)]"),
             op_schema="aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor"),
        node(5, "record_param_comms", ([[tensor, tensor]], [[[3], [3]]],
             "GenericList[GenericList[Tensor(float),Tensor(float)]]")),
    )  # fmt: skip
    first, index, nested = (row["args"] for row in rows(trace))
    assert first["Input type"] == ["float", "TensorList", "ScalarList", "Scalar", "Scalar", "", "", ""]
    assert first["Input Dims"] == [[3, 4], [[3, 4], [3, 4]], [], [], [], [], [], []]
    assert first["Concrete Inputs"] == ["", "", "[3, 4]", "True", "-inf", "", "", ""]
    assert first["reads"] == [tensor] * 3
    assert (index["Input type"], index["Input Dims"]) == (["float", ""], [[3, 4], []])
    assert (nested["Input type"], nested["reads"]) == ([""], [tensor, tensor])
    assert [row["kind"] for row in rows(trace)] == ["operator", "operator", "communication"]


@pytest.mark.parametrize("version", ["1.0.1", "1.1.0-chakra.0.0.4", "2.0.0"])
def test_versions_differ_in_form_alone(version: str, tmp_path: Path) -> None:
    new = node(3, "aten::mm", ([5, 6, 0, 32, 4, "cpu"], [8, 4], "Tensor(float)"), ([7, 8, 0, 8, 4, "cpu"], [4, 2],
               "Tensor(float)"))  # fmt: skip
    old = {
        "name": "aten::mm", "id": 3, "rf_id": 4, "parent": 2, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 1,
        "op_schema": "", "inputs": new["inputs"]["values"], "input_shapes": new["inputs"]["shapes"],
        "input_types": new["inputs"]["types"], "outputs": [], "output_shapes": [], "output_types": [],
    }  # fmt: skip
    wanted = rows(trace_of(tmp_path, new, name="new"))
    assert rows(trace_of(tmp_path, old if version == "1.0.1" else new, schema=version)) == wanted
    assert wanted[0]["args"]["Input Dims"] == [[8, 4], [4, 2]]


def test_a_program_that_ended_while_it_recorded_leaves_its_whole_nodes(tmp_path: Path) -> None:
    whole = sample(RECORDED).read_text()
    names = [each["name"] for each in json.loads(whole)["nodes"]]
    places = [at for at in range(len(whole)) if whole.startswith('"name": "aten::', at)]
    path = tmp_path / "cut.et.json"
    for number, end in ((3, places[3] + 9), (len(names), whole.rindex("]"))):
        path.write_text(whole[:end])
        trace = tracekit.read(path)
        found = [row["name"] for row in rows(trace)]
        assert found == names[: len(found)]
        assert len(found) >= number
        assert trace.ledgers[0].notes.keys() & {"torn-row", "unfinished-file"}
        assert trace.run.sources[0].facts["pid"] == 4242


def test_a_damaged_node_costs_that_node_alone(tmp_path: Path) -> None:
    good = node(3, "aten::mm", ([5, 6, 0, 32, 4, "cpu"], [8, 4], "Tensor(float)"))
    bad: list[object] = [
        7, {}, good | {"id": "x"}, good | {"id": -1}, good | {"name": 5}, good | {"attrs": [3]}, good | {"ts": "now"},
        good | {"inputs": {"values": [1], "shapes": [], "types": ["Int"]}}, good | {"inclusive_dur": -1},
        good | {"inputs": {"values": [[1, 2, 3, 4, "x", "cpu"]], "shapes": [[1]], "types": ["Tensor(float)"]}},
        good | {"inputs": {"values": [[[[[[[[[1]]]]]]]]], "shapes": [[1]], "types": ["Tensor(float)"]}},
        good | {"inputs": {"values": [[]], "shapes": [["a"]], "types": ["Tensor(float)"]}},
    ]  # fmt: skip
    trace = trace_of(tmp_path, good, *bad)
    assert [row["name"] for row in rows(trace)] == ["aten::mm"]
    assert sum(trace.ledgers[0].dropped.values()) == len(bad)
    text = json.dumps({"pid": 7, "nodes": [good, good, good]})
    path = tmp_path / "broken.et.json"
    path.write_text(text.replace('"values"', '"values', 2).replace('"values', '"values"', 1))
    assert len(rows(tracekit.read(path))) == 2


def test_nodes_with_times_of_the_trace_linker_are_events(tmp_path: Path) -> None:
    mm = node(3, "aten::mm", ts=1_000_000.25, inclusive_dur=31, exclusive_dur=20)
    kernel = node(9, "sgemm", ts=1_000_010, inclusive_dur=12, cat="kernel", stream=7, ctrl_deps=3)
    trace = trace_of(tmp_path, kernel, mm, node(4, "aten::t"))
    events = trace.events.to_pylist()
    assert [(row["name"], row["kind"], row["ts_ns"], row["dur_ns"], row["stream"]) for row in events] == [
        ("aten::mm", "operator", 1_000_000_250, 31_000, None),
        ("sgemm", "kernel", 1_000_010_000, 12_000, 7),
    ]
    assert [row["name"] for row in rows(trace)] == ["aten::t"]


def test_what_is_no_execution_trace_is_not_taken_for_one(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in (
        '{"schema": "1.0.1", "nodes": [{"id": 1, "label": "a"}], "edges": []}',
        '{"nodes": [{"name": "a", "inputs": []}], "graph": {"ctrl_deps": 3}}',
        '{"traceEvents": [{"ph": "X", "name": "nodes", "args": {"rf_id": 1, "ctrl_deps": 2}}], "nodes": [1]}',
    ):
        path.write_text(text)
        assert "execution-trace" not in sure_readers(path), text
    path.write_bytes(b"\x07\x0a\x05hello\x0f\x08\x01\x12\x09aten::mul\x18\x04")
    assert sure_readers(path) == []
    path.write_text('{"nodes": 3, "rf_id": 1, "ctrl_deps": 2}')
    with pytest.raises(ParseError, match="no list of nodes"):
        tracekit.read(path, format="execution-trace")


@pytest.mark.parametrize(
    "head",
    [
        b"\x07\x0a\x050.0.4" + b"\x0f\x08\x01\x12\x09aten::mul\x18\x04",
        b"\x07\x0a\x050.0.4" + b"\x0d\x12\x09aten::add\x18\x04",
        b"\x09\x0a\x070.10.12" + b"\x12\x08\xac\x02\x12\x0bnccl:reduce\x18\x07",
        b"\x07\x0a\x050.0.4",
        b"\x23\x0a\x050.0.4\x12\x1a\x0a\x06schema\xea\x01\x0f1.0.2-chakra.00",
    ],
)
def test_chakra_is_known_by_its_metadata_and_first_node(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    path.write_bytes(head)
    assert sure_readers(path) == ["chakra"]


def test_chakra_s_converter_writes_durations_without_starts() -> None:
    trace = tracekit.read(sample(CONVERTED))
    assert not len(trace.events)
    found = {row["name"].partition("(")[0]: row for row in rows(trace)}
    assert [(row["kind"], row["total_ns"], row["bytes"]) for row in found.values()] == [
        ("other", None, None), ("operator", 31_000, None), ("kernel", 12_000, None), ("operator", 20_000, None),
        ("kernel", 45_000, 4096),
    ]  # fmt: skip
    mm = found["aten::mm"]["args"]
    assert (mm["Input Dims"], mm["Input type"]) == ([[64, 8], [8, 16]], ["float", "float"])
    assert mm["reads"] == [[3, 4, 0, 512, 4, "cuda:0"], [5, 6, 0, 128, 4, "cuda:0"]]
    assert mm["writes"] == [[9, 10, 0, 1024, 4, "cuda:0"]]
    reduce = found["ncclDevKernel_AllReduce_Sum_f32_RING_LL"]["args"]
    assert (reduce["Collective name"], reduce["Process Group Name"]) == ("all_reduce", "0")
    assert (reduce["parent"], reduce["needs"]) == (11, [8, 11])


def test_nodes_of_chakra_with_a_start_are_events_also_the_first_at_0() -> None:
    trace = tracekit.read(sample(SIMULATED))
    assert not len(trace.totals)
    assert [(row["kind"], row["ts_ns"], row["dur_ns"], row["bytes"]) for row in trace.events.to_pylist()] == [
        ("operator", 0, 100_000, None), ("communication", 100_000, 250_000, 1 << 20),
        ("communication", 100_000, 40_000, 65_536), ("communication", 350_000, 300_000, 1 << 20),
    ]  # fmt: skip
    assert trace.run.sources[0].facts["tool_version"] == "0.0.4"


def test_a_cut_or_damaged_chakra_file_keeps_its_whole_nodes(tmp_path: Path) -> None:
    data = sample(CONVERTED).read_bytes()
    path = tmp_path / "cut.et"
    path.write_bytes(data[:-5])
    trace = tracekit.read(path)
    assert (len(trace.totals), dict(trace.ledgers[0].dropped)) == (4, {"torn-row": 1})
    path.write_bytes(data + b"\x04\x12\x02\xc3\x28" + b"\x03\x0d\x01\x02" + b"\x02\x08\x07" + b"\xff" * 12)
    trace = tracekit.read(path)
    # A name that is not UTF-8 is kept; a field beyond its node, a node without a name and a damaged length are not.
    assert len(trace.totals) == 6
    assert sum(trace.ledgers[0].dropped.values()) == 3


def test_attributes_of_chakra_of_all_types_have_their_values(tmp_path: Path) -> None:
    import struct

    def attribute(name: str, stored: bytes) -> bytes:
        inside = bytes((0x0A, len(name))) + name.encode() + stored
        return bytes((0x52, len(inside))) + inside

    body = b"\x08\x01\x12\x01n\x18\x04"
    for name, stored in (
        ("double", b"\x19" + struct.pack("<d", 1.5)), ("float", b"\x2d" + struct.pack("<f", 0.5)),
        ("nan", b"\x19" + struct.pack("<d", float("nan"))), ("int", b"\x48" + b"\xff" * 9 + b"\x01"),
        ("zigzag", b"\x78\x03"), ("fixed", b"\x9d\x01" + struct.pack("<I", 7)), ("truth", b"\xd8\x01\x01"),
        ("sfixed", b"\xbd\x01" + struct.pack("<i", -7)), ("bytes", b"\xfa\x01\x02\xff\x00"),
        ("list", b"\x52\x04\x0a\x02\x01\x02"), ("doubles", b"\x22\x0a\x0a\x08" + struct.pack("<d", 2.5)),
        ("texts", b"\xf2\x01\x06\x0a\x01a\x0a\x01b"), ("truths", b"\xe2\x01\x03\x0a\x01\x01"),
    ):  # fmt: skip
        body += attribute(name, stored)
    path = tmp_path / "all.et"
    path.write_bytes(b"\x07\x0a\x051.0.0" + bytes((len(body) & 127 | 128, len(body) >> 7)) + body)
    (row,) = rows(tracekit.read(path))
    wanted = {
        "double": 1.5, "float": 0.5, "nan": "nan", "int": -1, "zigzag": -2, "fixed": 7, "truth": True, "sfixed": -7,
        "bytes": "ff00", "list": [1, 2], "doubles": [2.5], "texts": ["a", "b"], "truths": [True],
    }  # fmt: skip
    assert {key: row["args"][key] for key in wanted} == wanted

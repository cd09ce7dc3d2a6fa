"""Kernels of CUDA graphs in exports of Nsight Systems: the events of their nodes' creation show where they are from."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import _nsys_reports as made
import pytest
from _protobuf import message
from views.tables import dicts

import tracekit
from tracekit.explanation import value_of
from tracekit.index.trace_index import TraceIndex
from tracekit.model.report import Section
from tracekit.views import VIEWS
from tracekit.views.base import ViewOptions

C = "CUPTI_ACTIVITY_KIND_"
NAMES = {1: "cudaLaunchKernel_v7000", 2: "cudaGraphLaunch_v10000", 3: "cudaGraphInstantiate_v12000",
         4: "Graph Node Creation", 5: "gemm", 6: "relu", 7: "cudaGraphAddKernelNode_v10000"}  # fmt: skip
LAUNCH, GRAPH, INSTANTIATE, CREATION, GEMM, RELU, ADD_NODE = NAMES


class Export:
    """An export of one or more processes: ranges, calls, creations of nodes, and kernels."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int, int, str, int]] = []
        self.calls: list[tuple[int, int, int, int, int]] = []
        self.nodes: list[tuple[int, int, int, int, int, int | None]] = []
        self.kernels: list[tuple[int, int, int, int, int, int, int | None]] = []

    def range(self, name: str, start: int, end: int, process: int = 70) -> None:
        self.ranges.append((start, end, 59, name, process << 24 | 1))

    def call(self, name: int, start: int, end: int, number: int, process: int = 70) -> None:
        self.calls.append((start, end, process << 24 | 1, number, name))

    def node(self, at: int, number: int, original: int | None = None, process: int = 70) -> None:
        self.nodes.append((at, at, process << 24 | 1, CREATION, number, original))

    def kernel(self, name: int, start: int, end: int, launch: int, node: int | None = None, process: int = 70) -> None:
        self.kernels.append((start, end, process << 24, launch, name, 0, node))

    def replay(self, start: int, launch: int, nodes: dict[int, int], process: int = 70) -> None:
        """A launch, and a kernel of 10 ns for each node."""
        self.call(GRAPH, start, start + 2, launch, process)
        for place, (node, name) in enumerate(nodes.items()):
            self.kernel(name, start + 10 + 10 * place, start + 20 + 10 * place, launch, node, process)

    def write(self, folder: Path) -> Path:
        path = folder / "graphs.sqlite"
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as db:
            db.executescript(f"""create table StringIds (id integer primary key, value text);
                create table NVTX_EVENTS (start integer, end integer, eventType integer, text text, globalTid integer);
                create table {C}RUNTIME (start integer, end integer, globalTid integer, correlationId integer,
                                         nameId integer);
                create table CUDA_GRAPH_NODE_EVENTS (start integer, end integer, globalTid integer, nameId integer,
                                                     graphNodeId integer, originalGraphNodeId integer);
                create table {C}KERNEL (start integer, end integer, globalPid integer, correlationId integer,
                                        shortName integer, deviceId integer, graphNodeId integer);""")
            for table, rows in (
                ("StringIds", list(NAMES.items())), ("NVTX_EVENTS", self.ranges), (C + "RUNTIME", self.calls),
                ("CUDA_GRAPH_NODE_EVENTS", self.nodes), (C + "KERNEL", self.kernels),
            ):  # fmt: skip
                for row in rows:
                    db.execute(f"insert into {table} values ({','.join('?' * len(row))})", row)
            db.commit()
        return path

    def write_report(self, folder: Path) -> Path:
        """The same rows as a report, before its export."""
        events = [
            *(nvtx(start, end, name, thread) for start, end, _, name, thread in self.ranges),
            *(call(48, start, end, 0, name, thread, number) for start, end, thread, number, name in self.calls),
            *(
                call(113, start, end, 77, name, thread, 0, (33, message(*numbered({1: node, 2: original}))))
                for start, end, thread, name, node, original in self.nodes
            ),
            *(
                message((1, 79), (107, message(
                    (1, start), (2, end), (3, launch), (4, device), (7, 3), (8, process),
                    (101, message((2, name), *numbered({27: node})))
                )))
                for start, end, process, launch, name, device, node in self.kernels
            ),
        ]  # fmt: skip
        texts = [NAMES.get(number, "") for number in range(max(NAMES) + 1)]
        head = message((1, len(events)), (3, len(texts)), (5, 0), (9, "lz4"), (15, 0))
        first = made.delimited(message((17, 0), (18, 1000))) + made.delimited(head)
        blocks = [made.block(message(*((1, event) for event in events)))]
        strings = message(*((1, text) for text in texts))
        path = folder / "graphs.nsys-rep"
        path.write_bytes(made.container("2022", "2025.3.1.1", first, blocks, strings, made.delimited(b"")))
        return path

    def view(self, folder: Path, name: str = "graphs") -> Section:
        return VIEWS[name].compute(TraceIndex(tracekit.read(self.write(folder))), ViewOptions())

    def operators(self, folder: Path) -> dict[str, int]:
        table = next(table for table in self.view(folder).tables if table.name == "graph_operators")
        return {row["name"]: row["device_total"] for row in dicts(table)}


def numbered(fields: dict[int, int | None]) -> list[tuple[int, int]]:
    return [(number, value) for number, value in fields.items() if value is not None]


def nvtx(start: int, end: int, name: str, thread: int) -> bytes:
    body = message((1, 59), (2, start), (7, name), (9, thread), (10, end), (14, 1))
    return message((1, 59), (102, body))


def call(kind: int, start: int, end: int, event_class: int, name: int, thread: int, number: int,
         *more: tuple[int, bytes]) -> bytes:  # fmt: skip
    body = message((1, start), (2, end), (3, number), (6, event_class), (7, name), (8, 0), (13, thread), *more)
    return message((1, kind), (108, body))


def captured() -> Export:
    """A capture of two operators within a range, the executable graph made outside of it, and no launch yet."""
    export = Export()
    export.range("capture", 0, 100)
    export.range("aten::mm, op_id = 1", 10, 40)
    export.call(LAUNCH, 20, 30, 1)
    export.node(25, 101)
    export.range("my layer", 50, 80)
    export.call(LAUNCH, 60, 70, 2)
    export.node(65, 102)
    export.range("prepare", 110, 190)
    export.call(INSTANTIATE, 120, 180, 3)
    export.node(130, 201, 101)
    export.node(131, 202, 102)
    return export


NODES = {201: GEMM, 202: RELU}


def test_each_kernel_belongs_to_the_range_in_which_its_node_was_made_whatever_launched_the_graph(
    tmp_path: Path,
) -> None:
    export = captured()
    export.range("step", 190, 400)
    export.replay(200, 10, NODES)
    export.replay(300, 11, NODES)
    assert export.operators(tmp_path) == {"aten::mm": 20, "my layer": 20}
    (row,) = dicts(export.view(tmp_path).tables[0])
    assert (row["calls"], row["nodes"], row["attributed"], row["how"]) == (2, 2, 40, "creation of the node")


def test_the_table_of_operators_has_the_work_of_graphs_and_says_what_is_not_known(tmp_path: Path) -> None:
    export = captured()
    export.replay(200, 10, {**NODES, 999: RELU})
    section = export.view(tmp_path, "operator")
    rows = {row["name"]: row["device_total"] for row in dicts(section) if not row["level"]}
    assert rows == {"aten::mm": 10, "(unattributed)": 20}
    assert any("10 ns of 30 ns in graphs (33.3 %)" in note for note in section.notes), section.notes


def test_modules_are_the_ranges_around_the_creation(tmp_path: Path) -> None:
    export = captured()
    export.range("step", 190, 400)
    export.replay(200, 10, NODES)
    rows = {row["name"]: row["device_self"] for row in dicts(export.view(tmp_path, "modules"))}
    assert rows["my layer"] == 10
    assert rows["step"] == 0


def test_copies_of_copies_lead_to_the_first_node(tmp_path: Path) -> None:
    export = captured()
    export.node(140, 301, 201)
    export.node(141, 401, 301)
    export.replay(200, 10, {401: GEMM, 202: RELU})
    assert export.operators(tmp_path) == {"aten::mm": 10, "my layer": 10}


def test_a_copy_that_has_an_event_of_its_own_too_is_still_a_copy(tmp_path: Path) -> None:
    export = captured()
    export.node(129, 201)
    export.replay(200, 10, NODES)
    assert export.operators(tmp_path) == {"aten::mm": 10, "my layer": 10}


def test_nodes_made_before_recording_stay_unknown_and_their_number_is_said(tmp_path: Path) -> None:
    export = captured()
    export.nodes = [row for row in export.nodes if row[4] != 101]
    export.replay(200, 10, NODES)
    section = export.view(tmp_path)
    assert export.operators(tmp_path) == {"(unattributed)": 10, "my layer": 10}
    assert "1 of 2 nodes were made before recording" in section.notes[0]


def test_a_node_that_only_making_the_executable_graph_shows_is_of_no_range(tmp_path: Path) -> None:
    """An export without originalGraphNodeId has no more than the creation of the copy."""
    export = captured()
    export.nodes = [(*row[:5], None) for row in export.nodes if row[4] in NODES]
    export.replay(200, 10, NODES)
    assert export.operators(tmp_path) == {"(unattributed)": 20}


def test_a_number_with_two_origins_has_none(tmp_path: Path) -> None:
    export = captured()
    export.node(140, 201, 102)
    export.replay(200, 10, NODES)
    assert export.operators(tmp_path) == {"(unattributed)": 10, "my layer": 10}


def test_nodes_that_are_copies_of_each_other_in_a_circle_have_no_origin(tmp_path: Path) -> None:
    export = captured()
    export.node(140, 501, 502)
    export.node(141, 502, 501)
    export.replay(200, 10, {501: GEMM, 202: RELU})
    assert export.operators(tmp_path) == {"(unattributed)": 10, "my layer": 10}


def test_numbers_of_nodes_are_those_of_their_process(tmp_path: Path) -> None:
    export = captured()
    export.range("other", 0, 100, process=80)
    export.call(LAUNCH, 20, 30, 1, process=80)
    export.node(25, 101, process=80)
    export.node(130, 201, 101, process=80)
    export.replay(200, 10, NODES)
    export.replay(200, 10, {201: GEMM}, process=80)
    assert export.operators(tmp_path) == {"aten::mm": 10, "my layer": 10, "other": 10}


def test_a_graph_that_the_program_builds_itself_belongs_to_the_ranges_around_its_calls(tmp_path: Path) -> None:
    export = Export()
    export.range("build", 0, 50)
    export.call(ADD_NODE, 10, 20, 1)
    export.node(15, 7)
    export.replay(200, 10, {7: GEMM})
    assert export.operators(tmp_path) == {"build": 10}


def test_creations_are_marks_of_their_thread_and_every_record_counts(tmp_path: Path) -> None:
    trace = tracekit.read(captured().write(tmp_path))
    marks = [row for row in trace.events.to_pylist() if row["kind"] == "mark"]
    assert [(row["name"], row["ts_ns"], row["dur_ns"], row["tid"]) for row in marks[:1]] == [
        ("Graph Node Creation", 25, None, 1)
    ]
    assert [json.loads(row["args"]) for row in marks] == [
        {"graphNodeId": 101}, {"graphNodeId": 102}, {"graphNodeId": 201, "originalGraphNodeId": 101},
        {"graphNodeId": 202, "originalGraphNodeId": 102},
    ]  # fmt: skip
    (ledger,) = trace.ledgers
    assert ledger.ignored.get("CUDA_GRAPH_NODE_EVENTS") is None
    assert not ledger.dropped


def test_a_graph_that_was_traced_as_a_whole_says_how_to_see_its_kernels(tmp_path: Path) -> None:
    export = Export()
    export.call(GRAPH, 200, 202, 10)
    path = export.write(tmp_path)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(f"""create table {C}GRAPH_TRACE (start integer, end integer, globalPid integer,
            correlationId integer, deviceId integer, graphId integer);
            insert into {C}GRAPH_TRACE values (210, 230, {70 << 24}, 10, 0, 5);""")
        db.commit()
    section = VIEWS["graphs"].compute(TraceIndex(tracekit.read(path)), ViewOptions())
    assert "--cuda-graph-trace=node" in section.notes[0]


def test_each_cell_of_the_operators_can_be_explained_with_the_work_of_graphs(tmp_path: Path) -> None:
    export = captured()
    export.range("aten::step, op_id = 9", 190, 400)
    export.replay(200, 10, {**NODES, 999: RELU})
    trace = tracekit.read(export.write(tmp_path))
    index = TraceIndex(trace)
    view = VIEWS["operator"]
    (table,) = view.compute(index, ViewOptions()).tables
    defined = 0
    for row in dicts(table):
        for column in ("device_total", "device_self", "device_ratio"):
            assert view.define is not None
            quantity = view.define(index, ViewOptions(), row, column)
            if quantity is not None:
                defined += 1
                assert value_of(quantity) == row[column], (row["name"], column)
    assert defined >= 6


@pytest.mark.parametrize("nodes", [NODES, {101: GEMM, 102: RELU}, {**NODES, 999: RELU}, {201: GEMM}])
def test_a_report_has_the_graphs_of_its_export(nodes: dict[int, int], tmp_path: Path) -> None:
    export = captured()
    export.node(140, 301, 201)
    export.range("step", 190, 400)
    export.replay(200, 10, nodes)
    export.replay(300, 11, nodes)
    export.kernel(GEMM, 500, 510, 12)
    report, theirs = tracekit.read(export.write_report(tmp_path)), tracekit.read(export.write(tmp_path))
    assert "unknown-parts" not in report.ledgers[0].notes
    for name in ("graphs", "operator", "modules", "kernel"):
        sections = [VIEWS[name].compute(TraceIndex(trace), ViewOptions()) for trace in (report, theirs)]
        mine, other = ([dicts(table) for table in section.tables] for section in sections)
        assert mine == other, name
        assert sections[0].notes == sections[1].notes
    (graph,) = dicts(VIEWS["graphs"].compute(TraceIndex(report), ViewOptions()).tables[0])
    assert (graph["calls"], graph["how"]) == (2, "creation of the node")

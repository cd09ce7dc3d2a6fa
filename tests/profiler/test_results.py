"""The result objects of Paddle's face: `profiler_result`, and what `load_profiler_result` gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import sample

import tracekit.profiler.paddle as profiler
from tracekit.errors import TracekitError
from tracekit.model.schema import Kind
from tracekit.profiler.paddle import TracerEventType


def recorded(steps: int = 2) -> profiler.Profiler:
    with profiler.Profiler(on_trace_ready=lambda _: None, targets=[profiler.ProfilerTarget.CPU]) as prof:
        for _ in range(steps):
            with (
                profiler.RecordEvent("net", TracerEventType.Forward),
                profiler.RecordEvent("layer", TracerEventType.Forward),
            ):
                pass
            prof.step()
    return prof


def shape(node: object) -> tuple[str, str, list[object]]:
    """Name and type of a node, and the same of those below it."""
    return node.name, node.type.name, [shape(child) for child in node.children_node]


def test_every_type_of_event_has_paddles_number() -> None:
    names = """
        Operator Dataloader ProfileStep CudaRuntime Kernel Memcpy Memset UserDefined OperatorInner Forward Backward
        Optimization Communication PythonOp PythonUserDefined DygraphKernelLaunch StaticKernelLaunch
    """
    assert [(kind.name, kind.value) for kind in TracerEventType] == [(n, i) for i, n in enumerate(names.split())]


def test_a_window_gives_the_tree_of_each_thread() -> None:
    result = recorded().profiler_result
    [root] = result.get_data().values()
    inside = [("net", "Forward", [("layer", "Forward", [])])]
    assert shape(root)[2] == [
        ("ProfileStep#0", "ProfileStep", inside), ("ProfileStep#1", "ProfileStep", inside),
        ("ProfileStep#2", "ProfileStep", []),
    ]  # fmt: skip
    events = result.read().events.to_pylist()
    assert [row["dur_ns"] for row in events if row["kind"] == Kind.STEP] == [
        step.end_ns - step.start_ns for step in root.children_node
    ]
    step = root.children_node[0]
    assert step.start_ns <= step.children_node[0].start_ns
    assert step.children_node[0].end_ns <= step.end_ns
    assert (step.runtime_node, step.device_node, step.mem_node, step.input_shapes) == ([], [], [], {})


def test_a_window_gives_version_number_threads_and_load() -> None:
    prof = profiler.Profiler(
        scheduler=profiler.make_scheduler(closed=1, ready=1, record=1, repeat=2), on_trace_ready=lambda _: None
    )
    with prof:
        for _ in range(7):
            prof.step()
    assert [window.get_span_index() for window in prof.windows] == [0, 1]
    assert prof.profiler_result is prof.windows[-1]
    assert prof.profiler_result.get_version() == "1.0.2"
    [thread] = prof.profiler_result.get_data()
    extra = prof.profiler_result.get_extra_info()
    assert extra[str(thread)] == "MainThread"
    assert float(extra["Process Cpu Utilization"]) >= 0


@pytest.mark.parametrize("format", ["pb", "json"])
def test_an_exported_file_gives_the_same_trees_again(format: str, tmp_path: Path) -> None:
    prof = recorded()
    prof.export(str(tmp_path / f"run.{format}"), format)
    loaded = profiler.load_profiler_result(str(tmp_path / f"run.{format}"))
    assert [shape(tree) for tree in loaded.get_data().values()] == [
        shape(tree) for tree in prof.profiler_result.get_data().values()
    ]
    assert loaded.get_span_index() == 0
    assert loaded.get_version() == ("1.0.2" if format == "pb" else "")
    assert "MainThread" in loaded.get_extra_info().values()


def test_a_file_of_paddle_gives_operators_calls_kernels_and_memory(tmp_path: Path) -> None:
    loaded = profiler.load_profiler_result(str(sample("paddle-pb") / "gpu.paddle_trace.pb"))
    found: dict[str, int] = {}

    def walk(node: object) -> None:
        for child in [*node.children_node, *node.runtime_node, *node.device_node, *node.mem_node]:
            found[child.type.name] = found.get(child.type.name, 0) + 1
            if hasattr(child, "children_node"):
                walk(child)

    for root in loaded.get_data().values():
        walk(root)
    rows = [row["kind"] for row in loaded.events.select(["kind"]).to_pylist()]
    assert found["Operator"] == rows.count(Kind.OPERATOR)
    assert found["Kernel"] == rows.count(Kind.KERNEL) > 0
    assert sum(found.get(name, 0) for name in ("Allocate", "Free", "ReservedAllocate", "ReservedFree")) == rows.count(
        Kind.MEMORY
    )
    loaded.save(str(tmp_path / "again.pb"), "pb")
    again = profiler.load_profiler_result(str(tmp_path / "again.pb"))
    assert [shape(tree) for tree in again.get_data().values()] == [shape(tree) for tree in loaded.get_data().values()]
    with pytest.raises(ValueError, match="'json' or 'pb'"):
        loaded.save(str(tmp_path / "x"), "xml")


def test_totals_have_no_tree() -> None:
    loaded = profiler.load_profiler_result(str(sample("theano") / "theano-1.0.5.txt"))
    assert (loaded.get_version(), loaded.get_span_index()) == ("", 0)
    with pytest.raises(TracekitError):
        loaded.get_data()


def test_an_event_type_of_paddles_own_is_known_by_its_name() -> None:
    class Foreign:
        name = "Backward"

    with profiler.Profiler(on_trace_ready=lambda _: None) as prof, profiler.RecordEvent("b", Foreign()):
        pass
    rows = prof.windows[0].read().events.select(["name", "kind"]).to_pylist()
    assert {"name": "b", "kind": "backward"} in rows

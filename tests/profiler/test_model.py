"""The Model Summary on logs written by hand, figure by figure."""

from __future__ import annotations

from pathlib import Path

import pytest
from profiler.fake_cupti import FakeCupti, install

import tracekit
from tracekit.profiler import paddle
from tracekit.profiler._model import model_section
from tracekit.recorder import log_format as lf

KINDS = ["step", "dataloader", "forward", "backward", "optimizer", "user_range"]
MS = 1_000_000


def trace_of(tmp_path: Path, *threads: list[tuple[str, int, int]]) -> tracekit.Trace:
    """A trace of ranges (kind, begin ms, end ms), nested, one list a thread."""
    lines = [lf.head_line(tracekit="0", pid=9, perf_ns=1, epoch_ns=10**18)]
    lines += [lf.name_line(name_id=i, name=kind, kind=kind) for i, kind in enumerate(KINDS, 1)]
    for thread, ranges in enumerate(threads):
        lines.append(lf.thread_line(index=thread, tid=100 + thread, name=f"t{thread}"))
        edges = []
        for order, (kind, begin, end) in enumerate(ranges):
            number = KINDS.index(kind) + 1
            edges += [(begin, 1, order, number), (end, 0, -order, -number)]
        edges.sort()
        items = [value for at, _, _, signed in edges for value in (signed, (at + 1) * MS)]
        lines.append(lf.range_line(thread=thread, items=items))
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(lf.encode(line) for line in lines))
    return tracekit.read(path)


def table(trace: tracekit.Trace) -> dict[str, list[object]]:
    [made] = model_section(trace).tables
    return {str(row[0]).strip(): row[1:] for row in made.rows()}


def test_phases_of_steps_and_what_they_leave(tmp_path: Path) -> None:
    ranges = [
        ("step", 0, 100), ("dataloader", 0, 20), ("forward", 20, 50), ("user_range", 25, 30), ("backward", 50, 80),
        ("optimizer", 80, 90), ("step", 100, 160), ("dataloader", 100, 101), ("forward", 110, 150),
    ]  # fmt: skip
    found = table(trace_of(tmp_path, ranges))
    assert found["ProfileStep"] == [2, 160 * MS, 80 * MS, 100 * MS, 60 * MS, 1.0]
    assert found["Dataloader"] == [2, 21 * MS, 10_500_000, 20 * MS, MS, 21 / 160]
    assert found["Forward"] == [2, 70 * MS, 35 * MS, 40 * MS, 30 * MS, 70 / 160]
    assert found["Backward"] == [1, 30 * MS, 30 * MS, 30 * MS, 30 * MS, 30 / 160]
    assert found["Optimization"][:2] == [1, 10 * MS]
    assert found["Others"] == [None, 29 * MS, None, None, None, 29 / 160]


def test_a_phase_inside_of_a_phase_is_part_of_it(tmp_path: Path) -> None:
    ranges = [
        ("step", 0, 100), ("forward", 10, 60), ("forward", 10, 30), ("forward", 40, 60), ("dataloader", 45, 50),
        ("forward", 60, 70),
    ]  # fmt: skip
    found = table(trace_of(tmp_path, ranges))
    assert found["Forward"][:2] == [2, 60 * MS]
    assert "Dataloader" not in found


def test_phases_beside_the_steps_leave_less_than_nothing_and_that_is_said(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, [("step", 0, 40)], [("forward", 0, 30)], [("dataloader", 5, 25)])
    assert table(trace)["Others"][1] == -10 * MS
    assert any("below zero" in note for note in model_section(trace).notes)


def test_steps_of_several_threads_are_a_union(tmp_path: Path) -> None:
    found = table(trace_of(tmp_path, [("step", 0, 40), ("forward", 0, 10)], [("step", 20, 50)]))
    assert found["ProfileStep"][1] == 70 * MS
    assert found["Forward"][5] == 10 / 50


@pytest.mark.parametrize("ranges", [[], [("forward", 0, 5)], [("step", 0, 5), ("step", 5, 9)]])
def test_without_steps_or_phases_it_says_what_it_needs(ranges, tmp_path: Path) -> None:
    section = model_section(trace_of(tmp_path, ranges))
    assert section.tables == ()
    assert section.notes[0].startswith("needs steps")


def test_kernels_are_of_the_phase_that_launched_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = install(monkeypatch, FakeCupti())
    with paddle.Profiler(on_trace_ready=lambda prof: None) as prof:
        for _ in range(2):
            with paddle.RecordEvent("f", paddle.TracerEventType.Forward):
                gpu.kernel(ns=3 * MS)
                gpu.copy(ns=MS)
            with paddle.RecordEvent("b", paddle.TracerEventType.Backward):
                gpu.kernel(ns=5 * MS)
            gpu.kernel(ns=MS)
            prof.step()
    found = table(prof.windows[0].read())
    assert found["Forward"][6:] == [6 * MS, 3 * MS, 3 * MS, 3 * MS, 6 / 18]
    assert found["Backward"][6:] == [10 * MS, 5 * MS, 5 * MS, 5 * MS, 10 / 18]
    assert found["ProfileStep"][6] == 18 * MS
    assert found["Others"][6] == 2 * MS
    capsys.readouterr()
    prof.summary(views=paddle.SummaryView.ModelView)
    said = capsys.readouterr().out
    assert "Model Summary" in said
    assert "GPU total (ms)" in said

"""Windows under odd conditions: other recordings, other processes, lost files, unusual machines."""

from __future__ import annotations

import asyncio
import errno
import multiprocessing
import os
import sys
import types
from pathlib import Path

import pytest
from doors.profiler import profiler_cupti as _cupti
from doors.profiler import profiler_gpu_rows as _gpu_rows
from doors.profiler import profiler_window as _window
from doors.profiler import read_cpu, use_between
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from profiler.fake_cupti import FakeCupti, install
from recorder.reading import read_log

import tracekit.profiler.paddle as profiler
from tracekit import pipeline, recorder
from tracekit.profiler import singa


def nothing(_: object) -> None:
    pass


def run(steps: int = 2, **options: object) -> profiler.Profiler:
    with profiler.Profiler(on_trace_ready=nothing, **options) as prof:
        for _ in range(steps):
            prof.step()
    return prof


def test_a_recording_to_nvtx_alone_is_taken_up_again() -> None:
    recorder.start(None)
    prof = run()
    assert recorder.is_recording()
    assert recorder.log_path() is None
    assert len(prof.windows) == 1


def test_a_part_of_a_recording_that_ended_early_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder.start(tmp_path / "all.jsonl", nvtx=False)
    prof = profiler.Profiler(on_trace_ready=nothing)
    prof.start()
    with profiler.RecordEvent("kept"):
        pass
    recorder.flush()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, profiler.RecordEvent("lost"):
        patch.setattr(os, "write", full)
        recorder.flush()
    prof.stop()
    trace = prof.windows[0].read()
    assert "ended by a full disk after" in trace.incomplete[0]
    names = trace.events.column("name").to_pylist()
    assert "kept" in names
    assert "lost" not in names


def test_a_profiler_inside_of_a_window_has_its_part_of_it() -> None:
    """Evaluation in training; the inner one may even end later than the outer one."""
    inner = profiler.Profiler(on_trace_ready=nothing)
    with profiler.Profiler(on_trace_ready=nothing) as outer:
        with profiler.RecordEvent("training"):
            pass
        inner.start()
        with profiler.RecordEvent("evaluation"):
            pass
        inner.step()
        outer.step()
    assert not recorder.is_recording()
    inner.stop()
    events = [[row["name"] for row in prof.windows[0].read().events.to_pylist()] for prof in (outer, inner)]
    assert {"training", "evaluation", "ProfileStep#0", "ProfileStep#1"} <= set(events[0])
    assert "training" not in events[1]
    assert "evaluation" in events[1]


STATES = st.lists(st.sampled_from(list(profiler.ProfilerState)), min_size=1, max_size=9)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(states=STATES)
@pytest.mark.filterwarnings("ignore:Improper")
def test_any_sequence_of_states_gives_the_windows_of_the_table(states: list[profiler.ProfilerState]) -> None:
    closed, ready, record, last = profiler.ProfilerState
    expected, begun = [], None
    for step, (before, now) in enumerate(zip([closed, *states], [*states, closed], strict=True)):
        if before is last:
            expected.append((begun, step - 1))
            begun = None
        if step == len(states):
            if before is record:
                expected.append((begun, step - 1))
            break
        if before is record and now in (closed, ready):
            begun = None
        if now in (record, last) and begun is None:
            begun = step
    calls = []
    prof = profiler.Profiler(scheduler=lambda step: states[step], on_trace_ready=lambda p: calls.append(len(p.windows)))
    with prof:
        for _ in states[1:]:
            prof.step()
    assert [window.steps for window in prof.windows] == expected
    assert calls == list(range(1, len(expected) + 1))
    for window in prof.windows:
        first, end = window.steps
        log = read_log(window.logs[0])
        assert set(log.calls()) == {f"ProfileStep#{n}" for n in range(first, end + 1)}
    assert not recorder.is_recording()


def in_child() -> None:
    with recorder.range("in the child"):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_forked_workers_are_in_the_window() -> None:
    with profiler.Profiler(on_trace_ready=nothing) as prof:
        worker = multiprocessing.get_context("fork").Process(target=in_child)
        worker.start()
        worker.join()
        prof.step()
    [window] = prof.windows
    assert len(window.logs) == 2
    assert window.read().events.column("name").to_pylist().count("in the child") == 1


def test_a_worker_killed_before_its_first_line_is_left_out_and_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    [window] = run().windows
    (window.logs[0].parent / "window0.pid99.jsonl").write_bytes(b"")
    assert window.read().events.num_rows >= 3
    assert "left out: " in capsys.readouterr().err
    window.save(tmp_path / "out.json")
    assert "window0.pid99.jsonl" in capsys.readouterr().err
    with pytest.raises(ValueError, match="'json', 'pb'"):
        window.save(tmp_path / "out.txt", "text")


def test_a_log_that_was_removed_costs_its_window(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with profiler.Profiler(on_trace_ready=nothing, log_dir=tmp_path / "logs") as prof:
        [log] = (tmp_path / "logs").iterdir()
        log.unlink()
        prof.step()
    assert prof.windows == ()
    assert "its log is gone" in capsys.readouterr().err


def test_a_folder_that_was_removed_costs_its_window(tmp_path: Path) -> None:
    with profiler.Profiler(on_trace_ready=nothing, log_dir=tmp_path / "logs") as prof:
        [log] = (tmp_path / "logs").iterdir()
        log.unlink()
        (tmp_path / "logs").rmdir()
        prof.step()
    assert prof.windows == ()


def test_gpu_rows_that_cannot_be_written_leave_the_rest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = install(monkeypatch, FakeCupti())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_window, "write_rows", full)
    with profiler.Profiler(on_trace_ready=nothing) as prof:
        gpu.kernel()
        prof.step()
    [window] = prof.windows
    assert "a window is incomplete: [Errno 28]" in capsys.readouterr().err
    assert window.remarks == ("incomplete: [Errno 28] No space left on device",)
    prof.summary(views=profiler.SummaryView.OverView)
    assert "window 0: incomplete: [Errno 28] No space left" in capsys.readouterr().out


def test_a_gpu_that_refuses_is_remarked_and_the_host_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeCupti(refuse=_kind("MEMSET")))
    [window] = run().windows
    assert window.remarks == ("no GPU work is recorded: CUPTI refuses (CUPTI_ERROR_NOT_COMPATIBLE)",)
    assert window.read().events.num_rows >= 3


def _kind(name: str) -> object:
    from profiler.fake_cupti import ActivityKind

    return ActivityKind[name]


def test_what_was_lost_is_remarked(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = install(monkeypatch, FakeCupti())
    gpu.dropped = 3
    [window] = run().windows
    assert window.remarks == ("GPU: 3 records that CUPTI had no room for are lost",)
    assert window.read().run.sources[0].facts.get("lost") or window.read().run.sources[1].facts.get("lost")


def test_in_an_asyncio_task() -> None:
    async def train() -> profiler.Profiler:
        with profiler.Profiler(on_trace_ready=nothing) as prof:
            for _ in range(3):
                with profiler.RecordEvent("forward", profiler.TracerEventType.Forward):
                    await asyncio.sleep(0)
                prof.step()
        return prof

    [window] = asyncio.run(train()).windows
    [table] = pipeline.view(window.read(), "model").tables
    calls = dict(zip(table.column("name").values, table.column("calls").values, strict=True))
    assert calls["ProfileStep"] == 4
    assert sum(n or 0 for name, n in calls.items() if str(name).startswith("Forward")) == 3


def test_processors_of_machines_that_do_not_tell(tmp_path: Path) -> None:
    assert read_cpu(tmp_path / "no stat")[2:] == (0, 0)
    for text in ("intr 1 2 3 4 5 6\n", "cpu one two\n", "cpu 1\n", ""):
        (tmp_path / "stat").write_text(text)
        if text:
            assert read_cpu(tmp_path / "stat")[2:] == (0, 0)
    (tmp_path / "stat").write_text("cpu  10 1 5 80 4 0 0 0 3 0\ncpu0 1 2 3 4\n")
    assert read_cpu(tmp_path / "stat")[2:] == (16, 100)
    now = read_cpu(tmp_path / "no stat")
    assert use_between(now, now) == (None, None)


def test_a_package_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cupti").mkdir()
    (tmp_path / "cupti" / "__init__.py").write_text("raise OSError('libcupti.so.99: not found')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "cupti", raising=False)
    monkeypatch.setattr(_cupti, "has_driver", lambda: True)
    with pytest.raises(_cupti.CuptiUnavailableError, match=r"libcupti\.so\.99"):
        _cupti.load()


def test_symbols_that_are_none_or_too_long_stay() -> None:
    assert _gpu_rows.demangled("vecadd") == "vecadd"
    assert _gpu_rows.demangled("_Z6vecaddPiS_") == "vecadd(int*, int*)"
    assert _gpu_rows.demangled("_Zbroken") == "_Zbroken"
    assert _gpu_rows.demangled("_Z1" + "a" * 5000) == "_Z1" + "a" * 5000


def test_singa_waits_for_torch_where_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(is_available=lambda: True, synchronize=waited.append)
    monkeypatch.setitem(sys.modules, "torch", torch)
    dev = singa.create_cuda_gpu_on(3)
    dev.SetVerbosity(1)
    with dev.graph():
        pass
    assert waited == [3, 3]

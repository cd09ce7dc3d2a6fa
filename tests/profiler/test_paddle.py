"""Paddle's face: which steps end up in which window, what callbacks may do, what files and tables come out."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import socket
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
from profiler.fake_cupti import FakeCupti, install
from recorder.reading import read_log

import tracekit.profiler.paddle as profiler
from tracekit import recorder
from tracekit.errors import TracekitError
from tracekit.profiler.paddle import ProfilerState, ProfilerTarget, RecordEvent, TracerEventType
from tracekit.writers import WRITERS

CLOSED, READY, RECORD, RETURN = ProfilerState
TRACE_NAME = re.compile(r"(.+)_time_\d{4}(_\d\d){5}_\d{6}\.paddle_trace\.json")


def nothing(_: object) -> None:
    pass


def steps_of(window: profiler.Window) -> list[str]:
    return names_of(window, "step")


def names_of(window: profiler.Window, kind: str) -> list[str]:
    events = window.read().events
    return [row["name"] for row in events.select(["name", "kind"]).to_pylist() if row["kind"] == kind]


def run(prof: profiler.Profiler, steps: int) -> profiler.Profiler:
    with prof:
        for _ in range(steps):
            with RecordEvent("work"):
                pass
            prof.step()
    return prof


def test_the_values_of_the_enumerations() -> None:
    assert [(s.name, s.value) for s in ProfilerState] == [
        ("CLOSED", 0), ("READY", 1), ("RECORD", 2), ("RECORD_AND_RETURN", 3),
    ]  # fmt: skip
    assert [(t.name, t.value) for t in ProfilerTarget][:2] == [("CPU", 0), ("GPU", 1)]
    assert [k.name for k in profiler.SortedKeys] == [
        "CPUTotal", "CPUAvg", "CPUMax", "CPUMin", "GPUTotal", "GPUAvg", "GPUMax", "GPUMin",
    ]  # fmt: skip
    assert [k.value for k in profiler.SortedKeys] == list(range(8))
    assert [v.name for v in profiler.SummaryView] == [
        "DeviceView", "OverView", "ModelView", "DistributedView", "KernelView", "OperatorView", "MemoryView",
        "MemoryManipulationView", "UDFView",
    ]  # fmt: skip
    assert [v.value for v in profiler.SummaryView] == list(range(9))


def test_each_window_holds_its_steps_and_no_others() -> None:
    prof = run(
        profiler.Profiler(
            scheduler=profiler.make_scheduler(closed=1, ready=1, record=4, repeat=3), on_trace_ready=nothing
        ),
        30,
    )
    assert [window.steps for window in prof.windows] == [(2, 5), (8, 11), (14, 17)]
    for window, (first, last) in zip(prof.windows, [(2, 5), (8, 11), (14, 17)], strict=True):
        assert steps_of(window) == [f"ProfileStep#{n}" for n in range(first, last + 1)]
        assert names_of(window, "user_range") == ["work"] * 4
        rows = window.read().events.select(["name", "step"]).to_pylist()
        assert [row["step"] for row in rows if row["name"] == "work"] == list(range(first, last + 1))
    assert prof.profiler_result is prof.windows[-1]
    assert (prof.step_num, prof.current_state) == (30, CLOSED)
    assert not recorder.is_recording()


def test_states_are_those_of_the_scheduler_at_every_step() -> None:
    prof = profiler.Profiler(scheduler=(2, 4), on_trace_ready=nothing)
    seen = [(prof.step_num, prof.previous_state, prof.current_state)]
    with prof:
        for _ in range(5):
            prof.step()
            seen.append((prof.step_num, prof.previous_state, prof.current_state))
    assert seen == [
        (0, CLOSED, CLOSED), (1, CLOSED, READY), (2, READY, RECORD), (3, RECORD, RETURN), (4, RETURN, CLOSED),
        (5, CLOSED, CLOSED),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("states", "windows", "warning"),
    [
        ([CLOSED, READY, CLOSED], [], "Improper schedule: READY->CLOSED"),
        ([RECORD, RECORD, CLOSED], [], "Improper schedule: RECORD->CLOSED"),
        ([RECORD, READY, RETURN, CLOSED], [(2, 2)], "Improper schedule: RECORD->READY"),
        ([CLOSED, RETURN, RETURN, CLOSED], [(1, 1), (2, 2)], ""),
        ([RETURN, RECORD, RETURN, READY, RECORD, RETURN, CLOSED], [(0, 0), (1, 2), (4, 5)], ""),
        ([RECORD, RECORD], [(0, 1)], ""),
        ([CLOSED, CLOSED], [], ""),
    ],
)
def test_every_transition_does_what_the_table_says(states, windows, warning) -> None:
    calls: list[tuple[int, int] | None] = []
    prof = profiler.Profiler(
        scheduler=lambda step: states[step], on_trace_ready=lambda p: calls.append(p.profiler_result.steps)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(prof, len(states) - 1)
    assert [window.steps for window in prof.windows] == windows
    assert calls == windows
    assert [str(w.message).startswith(warning) for w in caught] == ([True] if warning else [])


def test_stopping_while_getting_ready_warns_and_saves_nothing() -> None:
    prof = profiler.Profiler(scheduler=(2, 9), on_trace_ready=nothing)
    prof.start()
    prof.step()
    with pytest.warns(UserWarning, match="READY->CLOSED"):
        prof.stop()
    assert prof.windows == ()


def test_stop_inside_the_callback_is_safe(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Paddle's guide does it: stop and summarise when the window is there, then step on and stop again."""
    calls = []

    def ready(prof: profiler.Profiler) -> None:
        calls.append(prof.step_num)
        profiler.export_chrome_tracing(str(tmp_path / "demo"))(prof)
        prof.stop()
        prof.summary(sorted_by=profiler.SortedKeys.GPUTotal)

    prof = profiler.Profiler(scheduler=[3, 14], on_trace_ready=ready)
    run(prof, 40)
    assert calls == [14]
    assert [window.steps for window in prof.windows] == [(3, 13)]
    said = capsys.readouterr().out
    assert said.count("Perf Summary") == 1
    assert said.count("Overview Summary") == 1
    assert len(list((tmp_path / "demo").iterdir())) == 1


def test_stop_inside_the_callback_of_a_repeating_schedule() -> None:
    calls = []

    def ready(prof: profiler.Profiler) -> None:
        calls.append(prof.profiler_result.steps)
        prof.stop()

    prof = run(profiler.Profiler(scheduler=lambda step: RETURN, on_trace_ready=ready), 5)
    assert calls == [(0, 0)]
    assert len(prof.windows) == 1, "the window begun for step 1 holds nothing"
    assert not recorder.is_recording()


def test_stop_inside_the_callback_of_stop() -> None:
    calls = []

    def ready(prof: profiler.Profiler) -> None:
        calls.append(1)
        prof.stop()

    run(profiler.Profiler(on_trace_ready=ready), 3)
    assert calls == [1]


def test_the_block_is_stopped_by_an_exception() -> None:
    prof = profiler.Profiler(on_trace_ready=nothing)

    def fail() -> None:
        with prof:
            prof.step()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert [window.steps for window in prof.windows] == [(0, 1)]
    assert not recorder.is_recording()


def test_it_can_be_started_again() -> None:
    prof = profiler.Profiler(on_trace_ready=nothing)
    run(prof, 2)
    run(prof, 2)
    assert [window.steps for window in prof.windows] == [(0, 2), (2, 4)]


def test_the_default_writes_into_profiler_log() -> None:
    prof = profiler.Profiler()
    assert Path("profiler_log").is_dir(), "made with the object, as upstream makes it"
    run(prof, 3)
    [file] = Path("profiler_log").iterdir()
    assert TRACE_NAME.fullmatch(file.name)
    assert file.name.startswith(f"host_{socket.gethostname()}pid_")
    events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
    names = [event["name"] for event in events if event["ph"] == "X"]
    assert names.count("work") == 3
    assert {name for name in names if name != "work"} == {f"ProfileStep#{n}" for n in range(4)}


def test_each_window_has_a_file_of_its_own(tmp_path: Path) -> None:
    schedule = profiler.make_scheduler(closed=1, ready=1, record=4, repeat=3)
    run(
        profiler.Profiler(
            scheduler=schedule, on_trace_ready=profiler.export_chrome_tracing(str(tmp_path / "a/b"), "worker7")
        ),
        30,
    )
    files = sorted((tmp_path / "a/b").iterdir())
    assert [TRACE_NAME.fullmatch(file.name)[1] for file in files] == ["worker7"] * 3
    steps = [re.findall(r"ProfileStep#(\d+)", file.read_text(encoding="utf-8")) for file in files]
    assert [sorted(map(int, set(found))) for found in steps] == [[2, 3, 4, 5], [8, 9, 10, 11], [14, 15, 16, 17]]


def test_a_directory_that_cannot_be_made_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for export in (profiler.export_chrome_tracing, profiler.export_protobuf):
        with pytest.raises(RuntimeError, match="Can not create directory"):
            export(str(tmp_path / "file" / "below"))


def test_a_failing_export_costs_the_file_not_the_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ready = profiler.export_chrome_tracing(str(tmp_path / "gone"))
    (tmp_path / "gone").rmdir()
    (tmp_path / "gone").write_text("in the way")
    prof = run(profiler.Profiler(on_trace_ready=ready), 2)
    assert "nothing is exported" in capsys.readouterr().err
    assert len(prof.windows) == 1
    with pytest.raises(TracekitError):
        prof.export(str(tmp_path / "gone" / "x.json"))


def test_export_by_hand(tmp_path: Path) -> None:
    prof = profiler.Profiler(on_trace_ready=nothing)
    prof.export(str(tmp_path / "before.json"))
    assert not (tmp_path / "before.json").exists(), "without a result it does nothing"
    run(prof, 2)
    for _ in range(2):
        prof.export(str(tmp_path / "trace.json"))
    assert "ProfileStep#1" in (tmp_path / "trace.json").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="'json' or 'pb'"):
        prof.export(str(tmp_path / "x"), format="xml")


def test_the_protobuf_comes_back(tmp_path: Path) -> None:
    if "paddle-pb" not in WRITERS:
        pytest.skip("this checkout has no writer paddle-pb yet")
    prof = run(profiler.Profiler(on_trace_ready=profiler.export_protobuf(str(tmp_path))), 3)
    [file] = tmp_path.glob("*.paddle_trace.pb")
    back = profiler.load_profiler_result(str(file)).events.select(["name", "dur_ns"]).to_pylist()
    written = prof.windows[0].read().events.select(["name", "dur_ns"]).to_pylist()
    assert sorted((r["name"], r["dur_ns"]) for r in back if r["dur_ns"] is not None) == sorted(
        (r["name"], r["dur_ns"]) for r in written if r["dur_ns"] is not None
    )


def test_summary_prints_the_tables_under_their_paddle_names(capsys: pytest.CaptureFixture[str]) -> None:
    prof = run(profiler.Profiler(scheduler=(1, 4), on_trace_ready=nothing), 6)
    capsys.readouterr()
    prof.summary()
    said = capsys.readouterr().out
    assert said.startswith("window 0: steps 1 to 3\n")
    titles = ("Device", "Overview", "Model", "Distribution", "Operator", "Kernel", "Memory Manipulation", "UserDefined")
    assert [said.count(f"{title} Summary") for title in (*titles, "Memory")] == [1] * 9
    assert "CPU(Process)" in said
    assert "CPU(System)" in said
    [step] = [line.split() for line in said.splitlines() if line.endswith(" step")]
    assert step[0] == "3"


def test_summary_under_compat_is_what_paddle_prints_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with profiler.Profiler(on_trace_ready=nothing, compat="paddle") as prof:
        for _ in range(3):
            with RecordEvent("loaded", TracerEventType.Dataloader), RecordEvent("inner"):
                pass
            with RecordEvent("named", TracerEventType.Forward):
                pass
            prof.step()
    capsys.readouterr()
    prof.summary(sorted_by=profiler.SortedKeys.CPUMin, thread_sep=True, time_unit="us")
    said = capsys.readouterr()
    titles = [line.strip("-") for line in said.out.splitlines() if line.startswith("-") and line.strip("- ")]
    assert titles[:3] == ["Device Summary", "Overview Summary", "Model Summary"]
    assert titles[3] == "UserDefined Summary"
    assert titles[4] == f"Thread: {threading.get_native_id()}"
    rows = {line.split()[0]: line.split()[1:] for line in said.out.splitlines() if line.split()}
    assert rows["CPU(Process)"][0] not in ("-", "0.00")
    assert rows["Dataloader"][0] == rows["Forward"][0] == rows["inner"][0] == "3"
    assert "no Operator Summary: it needs operator events" in said.err
    prof.summary(views=profiler.SummaryView.KernelView)
    assert capsys.readouterr().out == "\n"


def test_kernels_and_their_phases_are_in_the_model_summary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu = install(monkeypatch, FakeCupti())
    with profiler.Profiler(on_trace_ready=nothing, compat="paddle") as prof:
        for _ in range(2):
            with RecordEvent("f", TracerEventType.Forward):
                gpu.kernel(ns=3_000_000)
                gpu.copy(ns=1_000_000)
            with RecordEvent("b", TracerEventType.Backward):
                gpu.kernel(ns=5_000_000)
            gpu.kernel(ns=1_000_000)
            prof.step()
    capsys.readouterr()
    prof.summary(views=profiler.SummaryView.ModelView)
    lines = [re.split(r" {2,}", line.strip()) for line in capsys.readouterr().out.splitlines() if " / " in line]
    shown = {cells[0]: cells[-1] for cells in lines}
    assert shown["Forward"] == "6.00 / 3.00 / 3.00 / 3.00 / 33.33"
    assert shown["Backward"] == "10.00 / 5.00 / 5.00 / 5.00 / 55.56"
    assert shown["Others"] == "2.00 / - / - / - / 11.11"


def test_summary_of_one_window_each_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    schedule = profiler.make_scheduler(closed=0, ready=1, record=2, repeat=3)
    prof = run(profiler.Profiler(scheduler=schedule, on_trace_ready=nothing), 12)
    capsys.readouterr()

    def said(**options: object) -> str:
        prof.summary(views=profiler.SummaryView.OverView, **options)
        return capsys.readouterr().out

    assert said().startswith("window 2: steps 7 to 8\n")
    assert said(window=0).startswith("window 0: steps 1 to 2\n")
    assert re.findall(r"^window \d: .*$", said(window="each"), re.M) == [
        "window 0: steps 1 to 2", "window 1: steps 4 to 5", "window 2: steps 7 to 8",
    ]  # fmt: skip
    together = said(window="all")
    assert together.startswith("3 windows: steps 1 to 2, steps 4 to 5, steps 7 to 8\n")
    [step] = [line.split() for line in together.splitlines() if line.endswith(" step")]
    assert step[0] == "6"
    for wrong, error in ((3, IndexError), ("some", ValueError)):
        with pytest.raises(error):
            prof.summary(window=wrong)


def test_summary_refuses_what_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    prof = profiler.Profiler(on_trace_ready=nothing)
    prof.summary()
    assert capsys.readouterr().out == "", "without a result it does nothing"
    with pytest.raises(ValueError, match="time_unit"):
        prof.summary(time_unit="fortnights")
    with pytest.raises(TypeError, match="SummaryView"):
        prof.summary(views=["Overview"])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_summary_in_each_unit(unit: str, capsys: pytest.CaptureFixture[str]) -> None:
    prof = run(profiler.Profiler(on_trace_ready=nothing), 2)
    prof.summary(time_unit=unit, views=[profiler.SummaryView.OverView])
    assert f"Total ({unit})" in capsys.readouterr().out


def test_record_event_in_all_its_forms() -> None:
    @RecordEvent("decorated", TracerEventType.Forward)
    def forward() -> int:
        """Documented."""
        return 7

    assert forward.__name__ == "forward"
    assert forward() == 7
    twice = RecordEvent("twice")
    never = RecordEvent("never")
    with profiler.Profiler(on_trace_ready=nothing) as prof:
        assert forward() == 7
        with RecordEvent("loaded", TracerEventType.Dataloader), RecordEvent("inner"):
            pass
        twice.begin()
        twice.begin()
        twice.end()
        twice.end()
        never.end()
        prof.step()
    [window] = prof.windows
    log = read_log(window.logs[0])
    assert log.calls() == {
        "ProfileStep#0": 1, "ProfileStep#1": 1, "decorated": 1, "loaded": 1, "inner": 1, "twice": 2,
    }  # fmt: skip
    assert not log.notes
    assert not any(seen.unfinished for seen in log.ranges)
    assert names_of(window, "forward") == ["decorated"]
    assert names_of(window, "dataloader") == ["loaded"]


def test_record_event_around_coroutines_and_generators() -> None:
    @RecordEvent("coroutine", TracerEventType.Backward)
    async def wait() -> int:
        await asyncio.sleep(0.01)
        return 7

    @RecordEvent("generator")
    def give():
        yield 1
        time.sleep(0.01)
        yield 2

    @RecordEvent("wrong type", TracerEventType.Kernel)
    def wrong() -> int:
        return 7

    with profiler.Profiler(on_trace_ready=nothing) as prof:
        assert asyncio.run(wait()) == 7
        assert list(give()) == [1, 2]
        with pytest.warns(UserWarning, match="Only TracerEvent Type in"):
            assert wrong() == 7
    rows = {row["name"]: row for row in prof.windows[0].read().events.to_pylist()}
    assert rows["coroutine"]["dur_ns"] >= 10**7
    assert rows["coroutine"]["kind"] == "backward"
    assert rows["generator"]["dur_ns"] >= 10**7
    assert "wrong type" not in rows


def test_types_that_a_program_may_not_record_warn_and_leave_nothing() -> None:
    with RecordEvent("silent while nothing is profiled", TracerEventType.Kernel):
        pass
    with profiler.Profiler(on_trace_ready=nothing) as prof:
        event = RecordEvent("kernel", TracerEventType.Kernel)
        with pytest.warns(UserWarning, match="Only TracerEvent Type in"):
            event.begin()
        event.end()
        with pytest.warns(UserWarning, match="Only TracerEvent Type in"), RecordEvent("op", TracerEventType.Operator):
            pass
    assert set(read_log(prof.windows[0].logs[0]).calls()) == {"ProfileStep#0"}


def test_targets_that_are_not_there_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler, "supported_targets", lambda: [ProfilerTarget.CPU])
    with pytest.warns(UserWarning, match=r"Profiling ProfilerTarget.GPU is not supported in current context\."):
        prof = profiler.Profiler(targets=[ProfilerTarget.CPU, ProfilerTarget.GPU], on_trace_ready=nothing)
    assert prof.targets == {ProfilerTarget.CPU}
    assert profiler.Profiler(on_trace_ready=nothing).targets == {ProfilerTarget.CPU}


def test_what_has_no_effect_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        profiler.Profiler(record_shapes=True, with_flops=True, on_trace_ready=nothing)
    said = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[1].split()[0] for line in said] == ["record_shapes", "with_flops"]


def test_timer_only_records_nothing() -> None:
    with profiler.Profiler(timer_only=True, on_trace_ready=nothing) as prof:
        prof.step()
        assert not recorder.is_recording()
    assert prof.windows == ()
    assert prof.step_num == 0


def test_a_recording_of_the_program_goes_on(tmp_path: Path) -> None:
    path = recorder.start(tmp_path / "whole.jsonl", nvtx=False)
    with recorder.range("before"):
        pass
    schedule = profiler.make_scheduler(closed=0, ready=1, record=2, repeat=2)
    prof = run(profiler.Profiler(scheduler=schedule, on_trace_ready=nothing), 8)
    with recorder.range("after"):
        pass
    assert recorder.log_path() == path
    recorder.stop()
    whole = read_log(path)
    assert whole.calls() == {
        "before": 1, "after": 1, "work": 8, **{f"ProfileStep#{n}": 1 for n in (1, 2, 4, 5)},
    }  # fmt: skip
    for window, numbers in zip(prof.windows, [(1, 2), (4, 5)], strict=True):
        log = read_log(window.logs[0])
        assert log.calls() == {"work": 2, **{f"ProfileStep#{n}": 1 for n in numbers}}
        trace = window.read()
        assert trace.events.num_rows >= 4
        assert not trace.ledgers[0].dropped


def test_ranges_of_other_threads_are_in_the_window() -> None:
    def work() -> None:
        for _ in range(100):
            with RecordEvent("elsewhere"):
                pass

    with profiler.Profiler(on_trace_ready=nothing) as prof:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert names_of(prof.windows[0], "user_range") == ["elsewhere"] * 400


def test_a_range_over_the_end_of_a_window_is_cut_not_fatal() -> None:
    schedule = profiler.make_scheduler(closed=0, ready=1, record=1, repeat=2)
    prof = profiler.Profiler(scheduler=schedule, on_trace_ready=nothing)
    with prof:
        with RecordEvent("too early"):
            prof.step()
        with RecordEvent("too long"):
            prof.step()
            prof.step()
        for _ in range(4):
            prof.step()
    assert names_of(prof.windows[0], "user_range") == ["too long"]
    assert names_of(prof.windows[1], "user_range") == []


def test_processor_use_is_sampled() -> None:
    with profiler.Profiler(on_trace_ready=nothing) as prof:
        x = 0
        while prof.step_num < 3:
            for _ in range(400_000):
                x += 1
            prof.step()
    [window] = prof.windows
    assert window.cpu.process is not None
    assert 0 < window.cpu.process < 64
    rows = window.read().events.select(["name", "kind", "value"]).to_pylist()
    shares = [row["value"] for row in rows if row["kind"] == "counter" and row["name"] == "Process Cpu Utilization"]
    assert shares
    assert all(0 <= share < 64 for share in shares)
    if sys.platform == "linux":
        assert 0 <= window.cpu.system <= 1


def test_a_folder_that_cannot_hold_logs_costs_the_windows_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    prof = run(profiler.Profiler(on_trace_ready=nothing, log_dir=tmp_path / "file" / "logs"), 3)
    assert prof.windows == ()
    assert "not recording" in capsys.readouterr().err


def test_logs_in_a_named_folder_stay_others_go_with_their_windows(tmp_path: Path) -> None:
    prof = run(profiler.Profiler(on_trace_ready=nothing, log_dir=tmp_path / "logs"), 2)
    named = prof.windows[0].logs
    window = run(profiler.Profiler(on_trace_ready=nothing), 2).windows[0]
    del prof
    gc.collect()
    folder = window.logs[0].parent
    assert window.read().events.num_rows >= 3
    del window
    gc.collect()
    assert named[0].exists()
    assert not folder.exists()

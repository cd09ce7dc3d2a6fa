"""Exports of windows: in a child, off the program's steps, awaited by its end, never an exception in the program."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from recorder.programs import environment, program, run
from support import LONG_S

import tracekit
import tracekit.profiler.paddle as profiler

CHILD = "tracekit.profiler._export.subprocess.run"


def names(file: Path) -> list[str]:
    return [event["name"] for event in json.loads(file.read_text("utf-8"))["traceEvents"] if event["ph"] == "X"]


def train(prof: profiler.Profiler, steps: int = 2) -> None:
    with prof:
        for _ in range(steps):
            with profiler.RecordEvent("work"):
                pass
            prof.step()


def test_a_step_does_not_wait_for_the_export_and_stop_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stepped = threading.Event()
    run_child = subprocess.run

    def late(*args: object, **options: object) -> object:
        assert stepped.wait(LONG_S), "the step waits for its export"
        return run_child(*args, **options)

    monkeypatch.setattr(CHILD, late)
    prof = profiler.Profiler(scheduler=(1, 3), on_trace_ready=profiler.export_chrome_tracing(str(tmp_path / "out")))
    prof.start()
    for _ in range(4):
        with profiler.RecordEvent("work"):
            pass
        prof.step()
    assert list((tmp_path / "out").iterdir()) == []
    stepped.set()
    prof.stop()
    [file] = (tmp_path / "out").iterdir()
    assert names(file).count("work") == 2


def test_what_is_done_between_two_steps_is_in_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """on_trace_ready takes 1,000 s of a clock that the test turns; the batches take 1 s each."""
    now = [0]
    monkeypatch.setattr("tracekit.profiler.paddle._profiler.BENCHMARK._clock", lambda: now[0])

    def ready(_: object) -> None:
        now[0] += 1_000 * 10**9

    schedule = profiler.make_scheduler(closed=0, ready=1, record=2)
    with profiler.Profiler(scheduler=schedule, on_trace_ready=ready) as prof:
        for _ in range(8):
            now[0] += 10**9
            prof.step()
        assert prof.step_info() == " batch_cost: 1.00000 s ips: 1.000 steps/s"


def test_exports_one_after_the_other_each_of_its_own_window(tmp_path: Path) -> None:
    schedule = profiler.make_scheduler(closed=0, ready=1, record=1, repeat=3)
    train(profiler.Profiler(scheduler=schedule, on_trace_ready=profiler.export_chrome_tracing(str(tmp_path))), 8)
    files = sorted(tmp_path.iterdir())
    assert [re.findall(r"ProfileStep#\d+", " ".join(names(file))) for file in files] == [
        ["ProfileStep#1"], ["ProfileStep#3"], ["ProfileStep#5"],
    ]  # fmt: skip


@pytest.mark.parametrize("executable", ["", "/opt/host/bin/renderer", "/nowhere/python3"])
def test_without_a_python_to_start_the_thread_writes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, executable: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    train(profiler.Profiler(on_trace_ready=profiler.export_chrome_tracing(str(tmp_path))))
    [file] = tmp_path.iterdir()
    assert names(file).count("work") == 2


@pytest.mark.parametrize(
    "error",
    [ModuleNotFoundError("No module named 'pyarrow'"), ValueError("odd"), MemoryError(), RecursionError("deep")],
)
def test_any_exception_of_an_export_is_told_and_the_logs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr("tracekit.profiler._export.save_logs", fails)
    train(profiler.Profiler(on_trace_ready=profiler.export_chrome_tracing(str(tmp_path / "out"))))
    [folder] = (tmp_path / "out").iterdir()
    said = capsys.readouterr().err
    assert said.count("nothing is exported to ") == 1
    assert (str(error) or type(error).__name__) in said
    assert f"its logs are in {folder}: tracekit convert {folder} -o FILE" in said
    assert tracekit.read(sorted(folder.iterdir())).events.column("name").to_pylist().count("work") == 2


def test_a_child_that_dies_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tracekit.profiler._export._CHILD", "import os; os.kill(os.getpid(), 9)")
    train(profiler.Profiler(on_trace_ready=profiler.export_protobuf(str(tmp_path))))
    assert ": the process that writes it ended with -9 (its logs are in " in capsys.readouterr().err


def test_notes_of_the_child_reach_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def ready(prof: profiler.Profiler) -> None:
        log = prof.windows[0].logs[0]
        log.with_name(log.name.replace(".pid", ".pid99")).write_bytes(b"")
        profiler.export_chrome_tracing(str(tmp_path / "out"))(prof)

    train(profiler.Profiler(on_trace_ready=ready))
    assert capsys.readouterr().err.count("tracekit.profiler: left out: ") == 1
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_the_logs_of_a_profiler_that_is_gone_last_as_long_as_its_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = threading.Event()
    run_child = subprocess.run

    def late(*args: object, **options: object) -> object:
        assert gone.wait(LONG_S)
        return run_child(*args, **options)

    monkeypatch.setattr(CHILD, late)

    def ready(prof: profiler.Profiler) -> None:
        profiler.export_chrome_tracing(str(tmp_path / "out"))(prof)
        prof.stop()  # inside of on_trace_ready it does not wait

    prof = profiler.Profiler(scheduler=(1, 2), on_trace_ready=ready)
    prof.start()
    prof.step()
    prof.step()
    folder = prof.windows[0].folder.path
    del prof
    gone.set()
    with profiler.Profiler(timer_only=True):
        pass  # its stop waits for the exports of all
    [file] = (tmp_path / "out").iterdir()
    assert names(file) == ["ProfileStep#1"]
    deadline = time.monotonic() + LONG_S
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.01)  # the thread lets go of the window a moment after the file is there
    assert not folder.exists()


WITHOUT_STOP = """
import sys
import tracekit.profiler.paddle as profiler

prof = profiler.Profiler(scheduler=(1, 3), on_trace_ready=profiler.export_chrome_tracing("out"))
prof.start()
for _ in range(4):
    with profiler.RecordEvent("work"): pass
    prof.step()
"""


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise KeyError('the program fails')"])
def test_the_end_of_a_program_waits_for_its_exports(tmp_path: Path, end: str) -> None:
    done = run(tmp_path, WITHOUT_STOP + end, TMPDIR=str(tmp_path))
    assert done.returncode == {"": 0, "sys.exit(3)": 3}.get(end, 1)
    assert ("the program fails" in done.stderr) == end.startswith("raise")
    [file] = (tmp_path / "out").iterdir()
    assert names(file).count("work") == 2
    assert not list(tmp_path.glob("tracekit-profiler-*")), "the temporary logs are gone"


def test_a_worker_of_multiprocessing_waits_for_its_exports(tmp_path: Path) -> None:
    text = f"""
        import multiprocessing

        def work():
            exec({WITHOUT_STOP!r}, {{"__name__": "worker"}})

        if __name__ == "__main__":
            worker = multiprocessing.get_context("spawn").Process(target=work)
            worker.start()
            worker.join()
            assert worker.exitcode == 0
        """
    done = run(tmp_path, text)
    assert (done.returncode, done.stderr) == (0, "")
    [file] = (tmp_path / "out").iterdir()
    assert names(file).count("work") == 2


def test_a_program_without_pyarrow_goes_on_and_keeps_its_logs(tmp_path: Path) -> None:
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError(\"No module named 'pyarrow'\", name='pyarrow')\n")
    done = run(tmp_path, WITHOUT_STOP + "prof.stop()\nprint('goes on')\n")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "goes on")
    assert "No module named 'pyarrow' (its logs are in " in done.stderr
    assert "Traceback" not in done.stderr
    [folder] = (tmp_path / "out").iterdir()
    assert folder.name.endswith(".paddle_trace.json.logs")
    assert tracekit.read(sorted(folder.iterdir())).events.column("name").to_pylist().count("work") == 2


def test_ctrl_c_does_not_cost_the_file(tmp_path: Path) -> None:
    """The terminal sends it to the whole group of the program; the child has a session of its own."""
    import os
    import signal

    if sys.platform == "win32":
        pytest.skip("no process groups")
    command = program(tmp_path, WITHOUT_STOP + "print('stepped', flush=True)\nimport time; time.sleep(60)\n")
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    assert process.stdout is not None
    while process.stdout.readline().strip() != "stepped":
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=LONG_S)
    [file] = (tmp_path / "out").iterdir()
    assert names(file).count("work") == 2


def test_files_that_the_program_opens_during_an_export_are_its_own(tmp_path: Path) -> None:
    """A daemon closes all descriptors, and the next files get the numbers that a pipe to the child would have."""
    if sys.platform == "win32":
        pytest.skip("files are not closed by number there")
    (tmp_path / "tmp").mkdir()
    text = """
        import glob, os, time
        while not glob.glob("tmp/tracekit-export-*/notes"): time.sleep(0.01)
        os.closerange(3, 64)
        victims = [os.open(f"victim{n}", os.O_RDWR | os.O_CREAT) for n in range(40)]
        prof.stop()
        print({os.fstat(victim).st_size for victim in victims})
        """
    done = run(tmp_path, WITHOUT_STOP + textwrap.dedent(text), TMPDIR=str(tmp_path / "tmp"))
    assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (0, "{0}", "")
    [file] = (tmp_path / "out").iterdir()
    assert names(file).count("work") == 2
    assert list((tmp_path / "tmp").iterdir()) == []

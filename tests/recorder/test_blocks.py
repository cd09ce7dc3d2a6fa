"""record(): a block or a function has its own log, which is complete whatever ends it; blocks do not nest."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from recorder.programs import forget_launcher, run
from recorder.reading import read_log

from tracekit import recorder
from tracekit.recorder import AlreadyRecordingError


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_launcher(monkeypatch)
    monkeypatch.chdir(tmp_path)


def record(name: str = "run.jsonl") -> recorder.Recording:
    return recorder.record(name, nvtx=False)


def test_a_block_has_a_log_that_ends_with_it(tmp_path: Path) -> None:
    recording = record()
    assert recording.path is None
    with recording as same:
        assert same is recording
        assert recorder.log_path() == recording.path
        with recorder.range("a"):
            pass
    assert not recorder.is_recording()
    assert recording.path == tmp_path / f"run.pid{os.getpid()}.jsonl"
    log = read_log(recording.path)
    assert (log.calls(), log.ended["how"]) == ({"a": 1}, "stop")


@pytest.mark.parametrize("error", [ValueError("boo"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_an_error_leaves_a_complete_log_and_reaches_the_program(error: BaseException) -> None:
    recording = record()
    with pytest.raises(type(error)), recording, recorder.range("a"):
        raise error
    assert read_log(recording.path).calls() == {"a": 1}
    assert not recorder.is_recording()


@pytest.mark.parametrize(
    "begin",
    [
        lambda: record("other.jsonl").__enter__(),
        lambda: recorder.start("other.jsonl", nvtx=False),
        lambda: record("other.jsonl")(len)([]),
    ],
    ids=["block", "start", "function"],
)
def test_a_recording_inside_a_block_is_refused_and_the_block_goes_on(begin) -> None:
    with record() as outer:
        with pytest.raises(AlreadyRecordingError, match=rf"{outer.path.name}.*end that recording first"):
            begin()
        with recorder.range("behind"):
            pass
    assert read_log(outer.path).calls() == {"behind": 1}
    assert list(Path.cwd().glob("other*")) == []


def test_the_same_object_twice_at_once_is_refused_and_one_after_the_other_is_not() -> None:
    recording = record()
    with recording, pytest.raises(AlreadyRecordingError):
        recording.__enter__()
    first = recording.path
    with recording:
        pass
    assert recording.path != first
    assert {read_log(path).ended["how"] for path in (first, recording.path)} == {"stop"}


def test_a_block_after_start_is_refused() -> None:
    path = recorder.start("run.jsonl", nvtx=False)
    try:
        with pytest.raises(AlreadyRecordingError), record("other.jsonl"):
            pass
        assert recorder.log_path() == path
    finally:
        recorder.stop()


def test_a_block_that_the_program_stopped_itself_ends_nothing_else() -> None:
    with record() as outer:
        recorder.stop()
        later = recorder.start("later.jsonl", nvtx=False)
    assert recorder.log_path() == later
    recorder.stop()
    assert read_log(outer.path).ended["how"] == read_log(later).ended["how"] == "stop"


def test_a_log_that_cannot_be_created_is_an_error_of_the_block(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError), recorder.record(tmp_path / "file" / "run.jsonl", nvtx=False):
        raise AssertionError("the block must not run")
    with record() as recording:
        pass
    assert recording.path is not None


def test_each_call_of_a_function_has_a_log_and_a_recursive_one_belongs_to_it() -> None:
    names = []

    @record()
    def work(depth: int) -> int:
        """Count."""
        names.append(recorder.log_path())
        with recorder.range("work"):
            return depth and work(depth - 1)

    assert work.__doc__ == "Count."
    work(2)
    work(0)
    assert names[0] == names[2] != names[3]
    assert [read_log(path).calls()["work"] for path in (names[0], names[3])] == [3, 1]


def test_calls_on_two_threads_share_the_recording() -> None:
    together = threading.Barrier(2)

    @record()
    def work() -> None:
        together.wait(10)
        with recorder.range("work"):
            together.wait(10)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (path,) = Path.cwd().glob("run*")
    assert read_log(path).calls() == {"work": 2}


def test_a_coroutine_function_records_while_it_runs() -> None:
    @record()
    async def work() -> str:
        with recorder.range("work"):
            await asyncio.sleep(0)
        return "done"

    assert asyncio.run(work()) == "done"
    (path,) = Path.cwd().glob("run*")
    assert read_log(path).calls() == {"work": 1}


def test_a_generator_function_is_refused_as_it_is_decorated() -> None:
    def work():
        yield 1

    with pytest.raises(TypeError, match="with"):
        record()(work)


def test_a_recording_of_the_environment_goes_on_behind_a_block_in_another_log(tmp_path: Path) -> None:
    program = """
    from tracekit import recorder
    with recorder.range("before"): pass
    with recorder.record("own.jsonl", nvtx=False):
        with recorder.range("inside"): pass
    with recorder.range("behind"): pass
    """
    done = run(tmp_path, program, TRACEKIT_LOG="all.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    calls = sorted((path.name.partition(".")[0], *read_log(path).calls()) for path in tmp_path.glob("*.jsonl"))
    assert calls == [("all", "before"), ("all", "behind"), ("own", "inside")]


def test_only_public_names_are_offered() -> None:
    assert set(dir(recorder)) == {*recorder.__all__, "torch", "paddle"}

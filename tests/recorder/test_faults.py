"""The recorder never raises into its host: what breaks costs the recording, one line on stderr, and nothing else."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from doors.recorder import recorder_clock as _clock
from doors.recorder import recorder_modes as _modes
from doors.recorder import recorder_recorder as _recorder
from doors.recorder import recorder_session as _session
from doors.recorder import recorder_values as _values
from hypothesis import given
from hypothesis import strategies as st
from recorder.programs import run
from recorder.reading import Log, read_log
from support import wait_until

from tracekit import recorder
from tracekit.recorder import log_format

Finish = Callable[[], Log]


def test_a_full_disk_stops_the_recording_with_one_line(
    recorded: Finish, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorder.log_path()
    assert path is not None
    with recorder.range("before"):
        pass
    recorder.flush()
    true_write = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) > 40:
            return true_write(fd, bytes(data)[:40])  # a part fits, then nothing does
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with recorder.range("around"):
        for _ in range(3):
            with recorder.range("lost", payload=1):
                recorder.mark("lost")
            recorder.flush()
    wait_until(lambda: not recorder.is_recording())
    monkeypatch.undo()
    with recorder.range("after"), recorder.step():
        recorder.counter("c", 1)
    recorder.stop()
    assert "TRACEKIT_LOG" not in os.environ
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "No space left on device" in err
    assert str(path) in err
    log = read_log(path, clean=False)
    assert log.calls() == {"before": 1}
    assert log.torn == 0, "what did not fit as a whole is taken back"
    assert _session.SESSION.events == []
    assert _session.SESSION.states == []


def test_a_limit_of_the_system_on_the_file_lets_the_program_go_on(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import resource, time
        from tracekit import recorder as r
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        r.start("run.jsonl", nvtx=False)
        for n in range(20_000):
            with r.range("x"): pass
        for _ in range(30_000):
            if not r.is_recording(): break
            time.sleep(0.01)
        print("done", r.is_recording())
        """,
    )
    assert (done.returncode, done.stdout) == (0, "done False\n")
    assert done.stderr.count("\n") == 1
    (path,) = tmp_path.glob("*.jsonl")
    read_log(path, clean=False)


def test_a_removed_folder_is_noticed_and_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "gone"
    recorder.start(folder / "run.jsonl", nvtx=False)
    with recorder.range("x"):
        recorder.flush()
        shutil.rmtree(folder)
    with recorder.range("y"):
        pass
    recorder.stop()
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "removed" in err


def test_start_says_at_once_when_the_log_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        recorder.start(tmp_path / "file" / "run.jsonl", nvtx=False)
    assert not recorder.is_recording()
    with recorder.range("x"):
        pass


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


def circle() -> list[object]:
    inside: list[object] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    "payload",
    [
        object(), Hostile(), circle(), {"a": {1, 2}}, {Hostile(): 1}, b"bytes", 1 << 100, float("nan"), "\ud800\0",
        {"deep": [[[[float("inf"), None]]]]}, "x" * 1_000_000, ["\udfff"] * 3, {("a", 1): 2}, {1: {None: 3}},
    ],
    ids=lambda payload: type(payload).__name__,
)  # fmt: skip
def test_any_payload_is_kept_in_some_form(recorded: Finish, payload: object) -> None:
    with recorder.range("x", payload=payload):
        recorder.mark("x", payload=payload)
        recorder.end_range(recorder.start_range("x", payload=payload))
    log = recorded()
    (seen,) = log.ranges
    assert seen.payload is not None
    assert [other.payload for other in log.marks + log.overlapping] == [seen.payload] * 2
    assert set(log.notes) <= {"payload_as_text", "payload_cut"}
    assert not seen.unfinished


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.integers(), inner),
        max_leaves=12,
    )
)  # fmt: skip
def test_json_of_payloads_is_json_and_exact_where_json_can_be(payload: object) -> None:
    counts: list[str] = []
    data = _values.payload_json(payload, counts.append)
    import json

    back = json.loads(data)
    if not counts:
        assert back == json.loads(json.dumps(_values.plain(payload, counts.append)))
    if isinstance(payload, int) and not isinstance(payload, bool):
        assert back == payload


@pytest.mark.parametrize(
    "name", ["nul \0 inside", "\ud83d lone", "line\nbreak", "x" * 1_000_000, "", 7, None, b"b", ["l"]]
)
def test_any_name_is_recorded(recorded: Finish, name: object) -> None:
    with recorder.range(name, kind=name, category=name, color=name):  # type: ignore[arg-type]
        recorder.push(name)  # type: ignore[arg-type]
        recorder.pop(name)  # type: ignore[arg-type]
        recorder.mark(name)  # type: ignore[arg-type]
    with recorder.range(name):  # type: ignore[arg-type]
        pass
    log = recorded()
    expected = log_format.clean_text(name if isinstance(name, str) else str(name))
    assert log.calls() == {expected: 3}


def test_hostile_names_and_values_do_not_reach_the_host(recorded: Finish) -> None:
    with recorder.range(Hostile(), category=Hostile(), color=Hostile()):  # type: ignore[arg-type]
        recorder.counter("c", Hostile())
        recorder.step(Hostile()).__enter__()  # type: ignore[arg-type]
    log = recorded()
    assert log.calls() == {"<Hostile>": 1, "step": 1}
    assert log.notes["value_refused"] == 2


def test_a_clock_that_goes_back_is_counted_and_breaks_nothing(
    recorded: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.flush()
    times = iter(range(10**15, 10**15 - 10**9, -1_000))
    monkeypatch.setattr(_modes, "_now", lambda: next(times))
    for _ in range(10):
        with recorder.range("back"):
            pass
    monkeypatch.setattr(_clock, "now", lambda: 5)
    recorder.flush()
    recorder.flush()
    monkeypatch.undo()
    monkeypatch.setattr(time, "time_ns", lambda: 1_000)  # the wall clock is set to 1970
    path = recorder.stop()
    rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    (batch,) = [row for row in rows if row.get("k") == "r"]
    assert batch["x"][1::2] == list(range(10**15, 10**15 - 20_000, -1_000))
    assert {"k": "note", "code": "clock_went_back", "count": 1} in rows
    assert [row["x"][1] for row in rows if row.get("k") == "clock"][-1] == 1_000


def test_whatever_fails_inside_ends_the_recording_with_one_line(
    recorded: Finish, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_recorder, "range_lines", lambda *_: 1 / 0)
    with recorder.range("x"):
        pass
    wait_until(lambda: not recorder.is_recording())
    with recorder.range("y"):
        pass
    assert capsys.readouterr().err.count("ZeroDivisionError") == 1


def test_a_missing_stderr_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder.start(tmp_path / "gone" / "run.jsonl", nvtx=False)
    shutil.rmtree(tmp_path / "gone")
    monkeypatch.setattr(sys, "stderr", None)
    recorder.stop()
    assert not recorder.is_recording()


def test_pairs_that_came_between_an_id_and_its_time_are_put_behind() -> None:
    begun = [10**9 + at for at in range(6)]
    buffer = [1, begun[0], 2, 3, begun[2], -3, begun[3], begun[1], -2, begun[4], 4]
    assert _session.whole_items(buffer) == 10
    assert buffer == [1, begun[0], 2, begun[1], 3, begun[2], -3, begun[3], -2, begun[4], 4]
    waiting = [1, begun[0], 2, 3, begun[2]]
    assert _session.whole_items(waiting) == 2  # the handler still runs
    assert waiting == [1, begun[0], 2, 3, begun[2]]


@pytest.mark.parametrize("traced", [False, True])
def test_signal_handlers_that_record_do_not_tear_the_items_of_others(traced: bool, recorded: Finish) -> None:
    """A tracer, such as a debugger, lets Python run a handler between any two operations."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread alone")

    signals = 0

    def handler(*_: object) -> None:
        nonlocal signals
        signals += 1
        with recorder.range("signal"):
            pass

    def tracer(*_: object) -> object:
        return tracer

    before, tracing = signal.signal(signal.SIGALRM, handler), sys.gettrace()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        count = 0
        sys.settrace(tracer if traced else tracing)
        while signals <= 100 or count <= 10_000:
            with recorder.range("work"):
                count += 1
    finally:
        sys.settrace(tracing)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    log = recorded()
    assert log.calls()["work"] == count
    assert log.calls()["signal"] == signals
    assert not any(seen.unfinished for seen in log.ranges)

"""Mini-Caffe's face: its checks, and a dump that any viewer loads."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorder.reading import read_log
from viewers import perfetto

from tracekit import recorder
from tracekit.profiler import mini_caffe
from tracekit.profiler.mini_caffe import Profiler, ProfilerError
from tracekit.recorder import CrossedRangeError


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Profiler, "_state", mini_caffe._CaffeState())


def dumped(path: Path) -> list[dict]:
    Profiler.dump(path)
    return json.loads(path.read_text(encoding="utf-8"))["traceEvents"]


def test_the_example_of_the_document() -> None:
    profiler = Profiler.Get()
    assert Profiler.Get() is profiler
    profiler.TurnON()
    profiler.ScopeStart("wgan")
    for layer in ("deconv", "batch_norm"):
        profiler.ScopeStart(layer)
        profiler.ScopeEnd()
    profiler.ScopeEnd()
    profiler.TurnOFF()
    profiler.DumpProfile("profile.json")
    trace = json.loads(Path("profile.json").read_text(encoding="utf-8"))
    assert trace["displayTimeUnit"] == "ms"
    events = trace["traceEvents"]
    assert [(e["ph"], e["name"]) for e in events] == [
        ("B", "wgan"), ("B", "wgan:deconv"), ("E", "wgan:deconv"), ("B", "wgan:batch_norm"),
        ("E", "wgan:batch_norm"), ("E", "wgan"),
    ]  # fmt: skip
    assert {(e["cat"], e["pid"], e["tid"]) for e in events} == {("category", 0, 0)}
    assert [e["ts"] for e in events] == sorted(e["ts"] for e in events)


def test_the_checks() -> None:
    with pytest.raises(ProfilerError, match=r"Profile is not running\."):
        Profiler.disable()
    Profiler.enable()
    with pytest.raises(ProfilerError, match=r"Profile is already running\."):
        Profiler.enable()
    with pytest.raises(ProfilerError, match="stack is empty"):
        Profiler.close_scope()
    Profiler.open_scope("a")
    Profiler.open_scope("b")
    with pytest.raises(ProfilerError, match="Profile scope stack is not empty, with size = 2"):
        Profiler.disable()
    with pytest.raises(ProfilerError, match="still running"):
        Profiler.dump("x.json")
    assert not Path("x.json").exists()


def test_scopes_never_cross() -> None:
    Profiler.enable()
    Profiler.open_scope("outer")
    Profiler.open_scope("inner")
    with pytest.raises(CrossedRangeError, match="'outer' is closed while 'inner'"):
        Profiler.close_scope("outer")

    def leave_one_open() -> None:
        with Profiler.scope("block"):
            Profiler.open_scope("left open")

    with pytest.raises(CrossedRangeError):
        leave_one_open()


def test_while_off_scopes_do_nothing(tmp_path: Path) -> None:
    Profiler.open_scope("before")
    Profiler.close_scope()
    Profiler.close_scope()
    Profiler.enable()
    Profiler.disable()
    assert dumped(tmp_path / "x.json") == []


def test_dumps_repeat_and_nothing_is_cleared(tmp_path: Path) -> None:
    for runs in (1, 2, 3):
        Profiler.enable()
        with Profiler.scope("run"):
            pass
        Profiler.disable()
        assert len(dumped(tmp_path / "x.json")) == 2 * runs
        assert dumped(tmp_path / "x.json") == dumped(tmp_path / "y.json")


def test_another_thread_is_refused() -> None:
    Profiler.enable()
    errors = []

    def use() -> None:
        for call in (lambda: Profiler.open_scope("x"), Profiler.close_scope):
            try:
                call()
            except ProfilerError as error:
                errors.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(errors) == 2


TREES = st.recursive(
    st.just([]), lambda inner: st.lists(st.tuples(st.text(max_size=12), inner), max_size=4), max_leaves=12
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(tree=TREES)
def test_any_nesting_of_any_names_comes_back(tree: list, tmp_path: Path) -> None:
    Profiler._state = mini_caffe._CaffeState()
    expected = []

    def run(scopes: list, above: str) -> None:
        for name, inner in scopes:
            path = above + name
            expected.append(("B", path))
            with Profiler.scope(name):
                run(inner, path + ":")
            expected.append(("E", path))

    Profiler.enable()
    run(tree, "")
    Profiler.disable()
    events = dumped(tmp_path / "x.json")
    assert [(e["ph"], e["name"]) for e in events] == expected
    assert all(a["ts"] <= b["ts"] for a, b in pairwise(events))


def test_the_recorder_gets_the_scopes_too(tmp_path: Path) -> None:
    path = recorder.start(tmp_path / "run.jsonl", nvtx=False)
    Profiler.enable()
    with Profiler.scope("net"), Profiler.scope("conv"):
        pass
    Profiler.disable()
    recorder.stop()
    assert read_log(path).calls() == {"net": 1, "net:conv": 1}
    [outer, inner] = [e for e in dumped(tmp_path / "x.json") if e["ph"] == "B"]
    assert (outer["name"], inner["name"]) == ("net", "net:conv")


def test_a_dump_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        Profiler.dump(tmp_path / "no" / "x.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.viewer
def test_perfetto_sees_every_scope_without_an_error(tmp_path: Path) -> None:
    Profiler.enable()
    for _ in range(3):
        with Profiler.scope("net"):
            for layer in ("Deconvolution <2>", "卷积 \U0001f600", 'say "hi"'):
                with Profiler.scope(layer):
                    pass
    Profiler.disable()
    events = dumped(tmp_path / "x.json")
    seen = perfetto(tmp_path / "x.json")
    assert seen["accepted"]
    assert seen["errors"] == {}
    assert seen["slices"] == len(events) // 2 == 12
    assert {name: found["count"] for name, found in seen["names"].items()} == {
        "net": 3, "net:Deconvolution <2>": 3, "net:卷积 \U0001f600": 3, 'net:say "hi"': 3,
    }  # fmt: skip


def test_a_name_that_utf8_cannot_hold(tmp_path: Path) -> None:
    Profiler.enable()
    with Profiler.scope("\ud800\0"):
        pass
    Profiler.disable()
    assert dumped(tmp_path / "x.json")[0]["name"] == "\ud800\0"

"""Mini-Caffe's Profiler: scopes that nest and never cross, dumped as a Chrome trace.

    from tracekit.profiler.mini_caffe import Profiler

    profiler = Profiler.Get()                # one for the process
    profiler.TurnON()                        # Profiler.enable()
    profiler.ScopeStart("wgan")              # Profiler.open_scope("wgan")
    ...
    profiler.ScopeEnd()                      # Profiler.close_scope()
    profiler.TurnOFF()                       # Profiler.disable()
    profiler.DumpProfile("profile.json")     # Profiler.dump("profile.json")

Mini-Caffe's network times its layers itself. Here the layers of a watched model are scopes within the program's own, on
its thread, while the profiler is on: `tracekit.recorder.torch.watch(model, verbosity=2)`, or the one for Paddle.

`with Profiler.scope("wgan"):` opens and closes. A scope is recorded under its path, "outer:inner", and goes to the
recorder too while that records. Where Mini-Caffe's checks end the process, this one raises ProfilerError. Opening and
closing do nothing while it is off. Several dumps may be made; nothing is ever cleared.

The file is like Mini-Caffe's (B and E events, cat "category", pid 0, tid 0), with its faults fixed: events in order of
time, names escaped, times since the first use in us with all their ns.

Source: include/caffe/profiler.hpp, src/profiler.cpp and python/caffe/profiler.py of Mini-Caffe.
"""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple

from tracekit import recorder
from tracekit.profiler._window import Window, WindowRecording, begin_recording, print_note, watched_calls
from tracekit.recorder import CrossedRangeError

__all__ = ["CrossedRangeError", "Profiler", "ProfilerError"]


class ProfilerError(RuntimeError):
    """The profiler was used against its rules. Upstream ends the process here."""


class _Edge(NamedTuple):
    """A scope begins ("B") or ends ("E") at `ns` after the first use."""

    phase: str
    path: str
    ns: int


class _Scope(NamedTuple):
    name: str
    path: str
    range: recorder.Range


class _Layer(NamedTuple):
    """A call of a watched model, in ns after the first use."""

    begin_ns: int
    end_ns: int
    name: str


class _CaffeState:
    """State of the profiler of the process. Scopes belong to one thread, the one that turned it on."""

    def __init__(self) -> None:
        self.origin_ns = time.perf_counter_ns()
        self.running = False
        self.thread = 0
        self.stack: list[_Scope] = []
        self.edges: list[_Edge] = []
        self.tid = 0
        self._recording: WindowRecording | None = None
        self._windows: list[tuple[Window, int]] = []

    def on(self) -> None:
        """Turn on. Raises: ProfilerError while it runs."""
        if self.running:
            raise ProfilerError("Profile is already running.")
        self.running = True
        self.thread = threading.get_ident()
        self.tid = threading.get_native_id()
        failure = "layers of watched models are not recorded"
        recording = begin_recording("mini-caffe", len(self._windows), failure=failure)
        if recording is not None:
            self._recording = recording
            weakref.finalize(self, recording.stop, None)  # before the folder of its log is removed

    def off(self) -> None:
        """Turn off. Raises: ProfilerError when it does not run, or a scope is open."""
        if not self.running:
            raise ProfilerError("Profile is not running.")
        self._check_closed()
        self.running = False
        recording, self._recording = self._recording, None
        window = recording.stop(None) if recording is not None else None
        if window is not None:
            self._windows.append((window, self.tid))

    def _check_closed(self) -> None:
        if self.stack:
            raise ProfilerError(f"Profile scope stack is not empty, with size = {len(self.stack)}")

    def _check_thread(self) -> None:
        if threading.get_ident() != self.thread:
            raise ProfilerError("A scope belongs to the thread that turned the profiler on.")

    def open(self, name: str) -> None:
        """Open a scope in the one that is open. Raises: ProfilerError on another thread."""
        if not self.running:
            return
        self._check_thread()
        path = f"{self.stack[-1].path}:{name}" if self.stack else name
        range_ = recorder.range(path)
        self.stack.append(_Scope(name, path, range_))
        range_.__enter__()
        self.edges.append(_Edge("B", path, time.perf_counter_ns() - self.origin_ns))

    def close(self, name: str | None) -> None:
        """Close the innermost scope. Raises: ProfilerError, CrossedRangeError when it has another name."""
        if not self.running:
            return
        ns = time.perf_counter_ns() - self.origin_ns
        self._check_thread()
        if not self.stack:
            raise ProfilerError("Profile scope stack is empty.")
        scope = self.stack[-1]
        if name is not None and scope.name != name:
            raise CrossedRangeError(f"scope {name!r} is closed while {scope.name!r} is the innermost")
        self.stack.pop()
        self.edges.append(_Edge("E", scope.path, max(ns, self.edges[-1].ns)))
        scope.range.__exit__(None, None, None)

    def dump(self, path: Path) -> None:
        """Write the file, whole. Raises: ProfilerError while it runs or a scope is open; OSError."""
        if self.running:
            raise ProfilerError("Profile is still running.")
        self._check_closed()
        edges = self._with_layers()
        if not edges:
            print_note("Mini-Caffe: the profile is empty: neither a scope nor a watched model ran while it was on")
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            # A lone surrogate becomes an escape, which JSON reads back.
            with temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
                file.writelines(_trace(edges))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _with_layers(self) -> list[_Edge]:
        """Return the scopes with the calls of watched models on their thread as scopes within them."""
        calls = [
            _Layer(call.start_ns - self.origin_ns, call.end_ns - self.origin_ns, call.name)
            for window, tid in self._windows
            for call in watched_calls(window)
            if call.tid == tid
        ]
        return _merged(self.edges, calls) if calls else self.edges


def _merged(scopes: list[_Edge], layers: list[_Layer]) -> list[_Edge]:
    """Return edges with layers in them, in order of time. A layer takes the path of the scope or layer around it."""
    edges: list[_Edge] = []
    stack: list[tuple[str, int | None]] = []  # path, and the end of a layer
    begins = deque(sorted(layers, key=lambda layer: (layer.begin_ns, -layer.end_ns)))

    def close(until: int) -> None:
        while stack and stack[-1][1] is not None and stack[-1][1] <= until:
            path, end = stack.pop()
            edges.append(_Edge("E", path, end or 0))

    def layers_until(ns: int) -> None:
        while begins and begins[0].begin_ns < ns:
            layer = begins.popleft()
            close(layer.begin_ns)
            path = f"{stack[-1][0]}:{layer.name}" if stack else layer.name
            stack.append((path, layer.end_ns))
            edges.append(_Edge("B", path, layer.begin_ns))
        close(ns)

    for edge in scopes:
        layers_until(edge.ns)
        if edge.phase == "B":
            stack.append((edge.path, None))
        else:
            while stack and stack[-1][1] is not None:  # a layer does not outlast the scope around it
                edges.append(_Edge("E", stack.pop()[0], edge.ns))
            stack.pop()
        edges.append(edge)
    layers_until(max((layer.end_ns for layer in layers), default=0) + 1)
    return edges


def _trace(edges: list[_Edge]) -> Iterator[str]:
    yield '{\n  "traceEvents": [\n'
    for number, edge in enumerate(edges):
        ts = f"{edge.ns // 1000}.{edge.ns % 1000:03d}"
        name = json.dumps(edge.path, ensure_ascii=False)
        comma = "," if number + 1 < len(edges) else ""
        yield (
            f'    {{"name": {name}, "cat": "category", "ph": "{edge.phase}", "ts": {ts}, "pid": 0, "tid": 0}}{comma}\n'
        )
    yield '  ],\n  "displayTimeUnit": "ms"\n}\n'


class Profiler:
    """The profiler of the process, in Mini-Caffe's two spellings: of its C++ objects, and of its Python class."""

    _state: ClassVar[_CaffeState] = _CaffeState()
    _one: ClassVar[Profiler | None] = None

    @classmethod
    def Get(cls) -> Profiler:
        """Return the one profiler."""
        if cls._one is None:
            cls._one = cls()
        return cls._one

    @staticmethod
    def enable() -> None:
        """Turn on. Raises: ProfilerError while it runs."""
        Profiler._state.on()

    @staticmethod
    def disable() -> None:
        """Turn off. Raises: ProfilerError when it does not run, or a scope is open."""
        Profiler._state.off()

    @staticmethod
    def open_scope(name: str) -> None:
        """Open a scope in the one that is open. Raises: ProfilerError on another thread."""
        Profiler._state.open(name)

    @staticmethod
    def close_scope(name: str | None = None) -> None:
        """Close the innermost scope; with a name, check that it is this one.

        Raises: ProfilerError when none is open, or on another thread; CrossedRangeError when it has another name.
        """
        Profiler._state.close(name)

    @staticmethod
    def dump(fn: str | os.PathLike[str]) -> None:
        """Write all scopes so far as a Chrome trace. Raises: ProfilerError while it runs; OSError."""
        Profiler._state.dump(Path(fn))

    @staticmethod
    @contextmanager
    def scope(name: str) -> Iterator[None]:
        """Open a scope for the block. Raises: CrossedRangeError when one opened inside of it is still open."""
        Profiler.open_scope(name)
        try:
            yield
        finally:
            Profiler.close_scope(name)

    TurnON = enable
    TurnOFF = disable
    ScopeStart = open_scope
    DumpProfile = dump

    @staticmethod
    def ScopeEnd() -> None:
        """Close the innermost scope. Raises: ProfilerError when none is open."""
        Profiler._state.close(None)

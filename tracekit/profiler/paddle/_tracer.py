"""Paddle's own view of a program that uses it: its tracer during a window, and the times of its data loaders.

Paddle's profiler is Python over a tracer in C++. The tracer records operators, memory and (in CUDA builds) kernels.
While the profiler is used, Paddle's Python adds the data loader's `next`, each layer's forward, `Tensor.backward` and
the optimizer's `step` to it. This file uses both as Paddle's profiler does, so that a window has the same rows. They
are written as Paddle's protobuf beside the window's log: C++ writes them in about a us a row, and nobody reads them
before a table or an export needs them.

Source: python/paddle/profiler/{profiler,utils,timer}.py, Paddle 2.3 to 3.3.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final, Protocol

from tracekit.profiler._window import NoteOnce
from tracekit.profiler.paddle._benchmark import BENCHMARK

HOOK: Final = "tracekit"
_SWITCHED: Final = "_is_profiler_used"
"""Paddle's global variable, which its layers, loaders and optimizers look at."""
_CPU, _GPU = 1, 2
"""Bits of the tracer's option `trace_switch`."""

_note_once: Final = NoteOnce()


class _Result(Protocol):
    """The result of Paddle's tracer."""

    def save(self, path: str, format: str, /) -> None:
        """Write the file."""


class _Profiler(Protocol):
    """Paddle's tracer. Paddle has one at a time."""

    def prepare(self) -> None:
        """Get ready."""

    def start(self) -> None:
        """Begin to record."""

    def stop(self) -> _Result:
        """End."""


@dataclass(frozen=True, slots=True)
class TracerOptions:
    """Arguments of Paddle's Profiler that change what its tracer records. gpu: through Paddle's own CUPTI."""

    shapes: bool = False
    memory: bool = False
    gpu: bool = False


def loaded() -> bool:
    """Return whether the program uses Paddle."""
    return "paddle.profiler.utils" in sys.modules and "paddle.base.core" in sys.modules


def _core() -> ModuleType:
    return sys.modules["paddle.base.core"]


def sees_gpu() -> bool:
    """Return whether this Paddle records kernels and copies itself."""
    with contextlib.suppress(Exception):  # an older Paddle
        return loaded() and bool(_core()._Profiler.is_cupti_supported())
    return False


class PaddleTracer:
    """Paddle's tracer during one window."""

    def __init__(self, options: TracerOptions) -> None:
        self._options = options
        self._tracer: _Profiler | None = None

    def start(self) -> str:
        """Begin; return why it does not record, "" where it does."""
        if not loaded():
            return ""
        try:
            tracer = self._create()
            if tracer is None:
                return "not seen: data loader, layers, optimizer and operators of Paddle, whose own Profiler is in use"
            self._switch_recorders("enable")
            tracer.prepare()
            tracer.start()
        except Exception as error:  # noqa: BLE001 - an unknown Paddle; the program goes on
            return f"not seen: data loader, layers, optimizer and operators of this Paddle ({error})"
        self._tracer = tracer
        return ""

    def _create(self) -> _Profiler | None:
        core = _core()
        options = core.ProfilerOptions()
        options.trace_switch = _CPU | (_GPU if self._options.gpu else 0)
        try:
            created: _Profiler | None = core._Profiler.create(options, [])
        except TypeError:  # before Paddle 2.4
            created = core._Profiler.create(options)
        return created

    def _switch_recorders(self, verb: str) -> None:
        for name, wanted in (("op_info", self._options.shapes), ("memory", self._options.memory)):
            if wanted:
                getattr(_core(), f"{verb}_{name}_recorder")()

    def stop(self, path: Path) -> str:
        """End, and write the rows; return why there are none, "" where there are. It does not raise."""
        tracer, self._tracer = self._tracer, None
        if tracer is None:
            return ""
        try:
            result = tracer.stop()
            self._switch_recorders("disable")
            result.save(str(path), "pb")
        except Exception as error:  # noqa: BLE001 - as above
            return f"lost: data loader, layers, optimizer and operators of Paddle ({error})"
        return "" if path.exists() else "lost: the rows of Paddle's tracer, which it could not write"


class _Switch:
    """Paddle's switch for the ranges of its Python code. users: the profilers that run."""

    def __init__(self) -> None:
        self.users = 0
        self.was_on = False

    def on(self) -> Callable[[], None]:
        """Switch on, where Paddle is loaded; return a function that switches off with the last user."""
        if not loaded():
            return _nothing
        utils = sys.modules["paddle.profiler.utils"]
        try:
            utils.wrap_optimizers()
            if not self.users:
                self.was_on = bool(vars(utils)[_SWITCHED])
            vars(utils)[_SWITCHED] = True
        except Exception as error:  # noqa: BLE001 - as above
            _note_once(f"not seen: data loader, layers and optimizer of this Paddle ({error})")
            return _nothing
        self.users += 1
        ended = False

        def off() -> None:
            nonlocal ended
            if not ended:
                ended = True
                self.users -= 1
                vars(utils)[_SWITCHED] = self.was_on or self.users > 0

        return off


_SWITCH: Final = _Switch()
show_python_ranges: Final = _SWITCH.on


def _nothing() -> None:
    return None


class _PaddleBenchmark(Protocol):
    """paddle.profiler.timer's Benchmark. Data loaders call it before and after each `next`."""

    hooks: dict[str, object]

    def check_if_need_record(self, reader: object, /) -> None:
        """Look whether this iterator's data set is the one that is timed."""


class _ReaderHook:
    """A hook of Paddle's timer, which gives the times of its data loaders to the face's own."""

    def __init__(self, benchmark: _PaddleBenchmark) -> None:
        self._benchmark = benchmark
        self._check = benchmark.check_if_need_record
        self._data_set: object = None
        self._begun_ns = 0
        self._ours = self._check_reader
        benchmark.hooks[HOOK] = self
        vars(benchmark)["check_if_need_record"] = self._ours  # the hooks are not told which loader it is

    def _check_reader(self, reader: object) -> None:
        self._data_set = getattr(reader, "_dataset", reader)
        self._check(reader)

    def before_reader(self, _: object) -> None:
        """Begin to read."""
        self._begun_ns = time.perf_counter_ns()

    def after_reader(self, _: object) -> None:
        """End reading."""
        BENCHMARK.read(self._data_set, self._begun_ns, time.perf_counter_ns())

    def ignore(self, _: object) -> None:
        """Do nothing at what the face does itself."""

    begin = end = after_step = ignore

    def remove(self) -> None:
        """Take it out again."""
        if self._benchmark.hooks.get(HOOK) is self:
            del self._benchmark.hooks[HOOK]
        if vars(self._benchmark).get("check_if_need_record") is self._ours:
            del vars(self._benchmark)["check_if_need_record"]


def time_loaders() -> Callable[[], None]:
    """Time Paddle's data loaders, where Paddle is loaded; return a function that ends it."""
    timer = sys.modules.get("paddle.profiler.timer")
    if timer is None or not loaded():
        return _nothing
    try:
        benchmark = timer.benchmark()
        known = benchmark.hooks.get(HOOK)
        return _nothing if known is not None else _ReaderHook(benchmark).remove
    except Exception as error:  # noqa: BLE001 - as above
        _note_once(f"reader_cost is not known: this Paddle's timer has no hooks ({error})")
        return _nothing

"""SINGA's time profiling: operators of a graph, averaged over its iterations, printed in SINGA's layout.

    from tracekit.profiler import singa as device     # instead of: from singa import device

    dev = device.create_cuda_gpu()
    dev.SetVerbosity(2)                                # dev.set_verbosity(2)
    dev.SetSkipIteration(5)                            # 5 is the default: warming up does not count
    for batch in loader:
        with dev.graph():                              # one iteration
            with dev.op("cudnnConvForward"):
                ...
            with dev.op("cudnnConvBackwardW"):
                ...
    dev.PrintTimeProfiling()

A program that only watches its model (`tracekit.recorder.torch.watch` or `tracekit.recorder.paddle.watch`) needs no
`graph` and no `op`: its steps are the iterations, and what the watch records is the graph. With the watch's verbosity 2
each innermost layer is an operator, with verbosity 1 each phase. These times are of the host. A program that does
neither gets a note on stderr instead of an empty table.

Verbosity 0 measures nothing, 1 gives forward and backward, 2 each operator, 3 those whose name contains "Dist". SINGA's
graph has its own operators; here the program names them, in the order in which they run. The n-th operator of a name in
an iteration is one node of the graph, whatever its position. "Waiting" is never timed. Graphs and operators are ranges
of the recorder too, while that records.

A GPU device waits for its work before it reads a clock, as SINGA waits for its events. Times of operators are divided
by the iterations that were measured. SINGA divides by all iterations, the skipped ones included; compat="singa" too.
A line below the heading names the divisor, so that a reader does not have to guess who printed the profile:

    Time Profiling:
    tracekit: 7 of 12 iterations measured, operators divided by 7
    OP_ID0. SetValue : 1.73722e-05 sec

It is no row of SINGA's: whoever looks for "OP_ID", "Propagation Time" or " sec" does not see it.

Source: src/core/scheduler/scheduler.cc and src/core/device/platform.cc of Apache SINGA 3.1.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Final

from tracekit import recorder
from tracekit.profiler import _cupti
from tracekit.profiler._window import (
    NoteOnce,
    WatchedCall,
    Window,
    WindowRecording,
    begin_recording,
    print_note,
    show,
    watched_calls,
)

__all__ = ["Device", "create_cpu", "create_cuda_gpu", "create_cuda_gpu_on", "get_default_device"]

DEFAULT_SKIP: Final = 5
NEVER_TIMED: Final = "Waiting"
Wait = Callable[[], object]

_note_once: Final = NoteOnce()


class _Timed(ContextDecorator):
    """A graph's run or an operator, as context manager and decorator; may be used again, also inside of itself."""

    def __init__(self, device: Device, name: str, kind: str | None) -> None:
        self._device, self._name, self._kind = device, name, kind
        self._open: list[tuple[recorder.Range, int]] = []

    def _recreate_cm(self) -> _Timed:
        return self

    def __enter__(self) -> _Timed:
        range_ = recorder.range(self._name, self._kind)
        range_.__enter__()
        self._open.append((range_, self._device._begin(self._name, is_graph=self._kind == "step")))
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        range_, node = self._open.pop()
        self._device._end(node)
        range_.__exit__(error, value, traceback)


class Device:
    """A device whose graph is timed, for one thread. wait: called before a clock is read, so that GPU work is over.

    compat: "singa" for SINGA's own divisor.
    """

    def __init__(self, name: str = "cpu", *, wait: Wait | None = None, compat: str = "") -> None:
        if compat not in ("", "singa"):
            raise ValueError(f"compat {compat!r} is not '' or 'singa'")
        self.name, self.compat = name, compat
        self._wait = wait
        self._verbosity = 0
        self._skip = DEFAULT_SKIP
        self._iterations = self._measured = 0
        self._graph_ns = 0
        self._nodes: dict[tuple[str, int], int] = {}
        self._spent_ns: list[int] = []
        self._seen: Counter[str] = Counter()
        self._in_graph = False
        self._begun: list[int] = []
        self._recording: WindowRecording | None = None
        self._windows: list[Window] = []

    def set_verbosity(self, verbosity: int) -> None:
        """Set what is measured: 0 nothing, 1 forward and backward, 2 operators, 3 "Dist" alone. Raises: ValueError."""
        if verbosity not in (0, 1, 2, 3):
            raise ValueError(f"verbosity {verbosity!r} is not 0, 1, 2 or 3")
        self._verbosity = verbosity
        if not verbosity:
            self._end_window()
        elif not self._iterations and self._recording is None:
            self._begin_window()

    def set_skip_iteration(self, iterations: int) -> None:
        """Set how many iterations are not measured. Raises: ValueError below 0."""
        if iterations < 0:
            raise ValueError(f"skip {iterations!r} is below 0")
        self._skip = iterations

    def graph(self) -> ContextDecorator:
        """Return one iteration of the graph, for `with`."""
        return _Timed(self, "graph", "step")

    def op(self, name: str) -> ContextDecorator:
        """Return an operator of the graph, for `with` or as decorator; outside of `graph` it is not measured."""
        return _Timed(self, name, "operator")

    def time_profiling(self) -> str:
        """Return the text that `print_time_profiling` prints."""
        lines = ["", "Time Profiling:"]
        divisor = self._iterations if self.compat == "singa" and self._verbosity != 1 else self._measured
        if self._verbosity and self._measured:
            what = "phases" if self._verbosity == 1 else "operators"
            lines.append(
                f"tracekit: {self._measured} of {self._iterations} iterations measured, {what} divided by {divisor}"
            )
        if self._verbosity == 1 and self._measured:
            forward = self._forward_s()
            lines.append(f"Forward Propagation Time : {forward:g} sec")
            lines.append(f"Backward Propagation Time : {self._graph_ns / 1e9 / self._measured - forward:g} sec")
        elif self._verbosity >= 2 and self._measured:
            for (name, _), node in self._nodes.items():
                if self._spent_ns[node] and (self._verbosity == 2 or "Dist" in name):
                    lines.append(f"OP_ID{node}. {name} : {self._spent_ns[node] / 1e9 / divisor:g} sec")
        return "\n".join(lines) + "\n"

    def print_time_profiling(self) -> None:
        """Print the times of an average iteration. When nothing was timed, a note on stderr says so instead."""
        if not self._verbosity:
            print_note("SINGA: nothing was timed: the verbosity is 0")
            return
        watched = self._recording is not None
        if watched:
            self._take_watched()
        text = self.time_profiling()
        if " sec" in text:
            show(text)
        elif not self._iterations:
            print_note("SINGA: nothing was timed: neither `device.graph()` nor a step of a watched model ran")
        elif not self._measured:
            print_note(f"SINGA: no iteration was measured: {self._iterations} run, the first {self._skip} are skipped")
        else:
            what = "operator" if self._verbosity == 2 else 'operator with "Dist" in its name'
            print_note(f"SINGA: no {what} was timed in {self._measured} iterations")
        if watched:
            self._iterations = self._measured = 0  # the next print takes them again, from all windows
            self._begin_window()

    def _begin_window(self) -> None:
        """Record what watches see, until the program times its graph itself."""
        recording = begin_recording("singa", len(self._windows))
        if recording is not None:
            self._recording = recording
            weakref.finalize(self, recording.stop, None)  # before the folder of its log is removed

    def _end_window(self) -> None:
        recording, self._recording = self._recording, None
        window = recording.stop(None) if recording is not None else None
        if window is not None:
            self._windows.append(window)

    def _take_watched(self) -> None:
        """Fill the table from the steps of watched models in all windows so far."""
        self._end_window()
        self._nodes, self._spent_ns = {}, []
        self._iterations = self._measured = self._graph_ns = 0
        for window in self._windows:
            steps: dict[int, list[WatchedCall]] = {}
            for call in watched_calls(window):
                if call.step >= 0:
                    steps.setdefault(call.step, []).append(call)
            for _, calls in sorted(steps.items()):
                self._take_step(calls)

    def _take_step(self, calls: list[WatchedCall]) -> None:
        self._iterations += 1
        counts = self._iterations > self._skip
        self._measured += counts
        seen: Counter[str] = Counter()
        for call in sorted(calls, key=lambda call: call.start_ns):
            spent = (call.end_ns - call.start_ns) * counts
            if call.phase:
                self._graph_ns += spent
            if call.inner:
                self._spent_ns[self._node(call.name, seen)] += spent

    def _node(self, name: str, seen: Counter[str]) -> int:
        """Return the number of the next operator of a name in an iteration."""
        key = name, seen[name]
        seen[name] += 1
        node = self._nodes.setdefault(key, len(self._nodes))
        if node == len(self._spent_ns):
            self._spent_ns.append(0)
        return node

    def _forward_s(self) -> float:
        """Return the time before the first operator of the backward pass, in an average iteration."""
        forward = 0
        for (name, _), node in self._nodes.items():
            if "backward" in name.lower() and self._spent_ns[node]:
                break
            forward += self._spent_ns[node]
        return forward / 1e9 / self._measured

    def _now(self) -> int:
        if self._wait is not None:
            self._wait()
        return time.perf_counter_ns()

    def _begin(self, name: str, *, is_graph: bool) -> int:
        """Begin; return the node's number, _GRAPH, or _NOTHING."""
        if not self._verbosity:
            return _NOTHING
        if is_graph:
            if self._in_graph:
                return _NOTHING
            if self._recording is not None:
                self._end_window()
                self._windows.clear()
            self._in_graph = True
            self._seen.clear()
            self._iterations += 1
            self._begun.append(self._now())
            return _GRAPH
        if not self._in_graph:
            _note_once(f"SINGA: operator {name!r} runs outside of device.graph() and is not measured")
            return _NOTHING
        node = self._node(name, self._seen)
        if name == NEVER_TIMED:
            return _NOTHING
        self._begun.append(self._now())
        return node

    def _end(self, node: int) -> None:
        if node == _NOTHING:
            return
        spent = self._now() - self._begun.pop()
        counts = self._iterations > self._skip
        if node == _GRAPH:
            self._in_graph = False
            self._measured += counts
            self._graph_ns += spent * counts
        else:
            self._spent_ns[node] += spent * counts

    SetVerbosity = set_verbosity
    SetSkipIteration = set_skip_iteration
    PrintTimeProfiling = print_time_profiling


_NOTHING: Final = -1
_GRAPH: Final = -2


def create_cpu(*, compat: str = "") -> Device:
    """Return a device whose work is done when its call returns."""
    return Device("cpu", compat=compat)


get_default_device = create_cpu


def create_cuda_gpu(set_default: bool = True, *, compat: str = "") -> Device:  # noqa: ARG001 - SINGA's argument
    """Return a device that waits for GPU work before it reads a clock; without CUDA a note says that it does not."""
    return create_cuda_gpu_on(0, compat=compat)


def create_cuda_gpu_on(device_id: int, set_default: bool = True, *, compat: str = "") -> Device:  # noqa: ARG001 - as above
    """Return a device as `create_cuda_gpu` does, of a number."""
    wait = _gpu_wait(device_id)
    if wait is None:
        _note_once("SINGA: no CUDA here: operators are timed on the host alone")
    return Device(f"gpu{device_id}", wait=wait, compat=compat)


def _gpu_wait(device_id: int) -> Wait | None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return lambda: torch.cuda.synchronize(device_id)
    return _cupti.synchronize if _cupti.has_driver() else None

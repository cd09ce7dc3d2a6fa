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

Verbosity 0 measures nothing, 1 gives forward and backward, 2 each operator, 3 those whose name contains "Dist". SINGA's
graph has its own operators; here the program names them, in the order in which they run. The n-th operator of a name in
an iteration is one node of the graph, whatever its position. "Waiting" is never timed. Graphs and operators are ranges
of the recorder too, while that records.

A GPU device waits for its work before it reads a clock, as SINGA waits for its events. Times of operators are divided
by the iterations that were measured. SINGA divides by all iterations, the skipped ones included; compat="singa" too.

Source: src/core/scheduler/scheduler.cc and src/core/device/platform.cc of Apache SINGA 3.1.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Final

from tracekit import recorder
from tracekit.profiler import _cupti
from tracekit.profiler._notes import NoteOnce, print_note, show

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

    def set_verbosity(self, verbosity: int) -> None:
        """Set what is measured: 0 nothing, 1 forward and backward, 2 operators, 3 "Dist" alone. Raises: ValueError."""
        if verbosity not in (0, 1, 2, 3):
            raise ValueError(f"verbosity {verbosity!r} is not 0, 1, 2 or 3")
        self._verbosity = verbosity

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
        if self._verbosity == 1 and self._measured:
            forward = self._forward_s()
            lines.append(f"Forward Propagation Time : {forward:g} sec")
            lines.append(f"Backward Propagation Time : {self._graph_ns / 1e9 / self._measured - forward:g} sec")
        elif self._verbosity >= 2 and self._measured:
            divisor = self._iterations if self.compat == "singa" else self._measured
            for (name, _), node in self._nodes.items():
                if self._spent_ns[node] and (self._verbosity == 2 or "Dist" in name):
                    lines.append(f"OP_ID{node}. {name} : {self._spent_ns[node] / 1e9 / divisor:g} sec")
        return "\n".join(lines) + "\n"

    def print_time_profiling(self) -> None:
        """Print the times of an average iteration. When none was measured, a note on stderr says so."""
        if self._verbosity and not self._measured:
            print_note(f"SINGA: no iteration was measured: {self._iterations} run, the first {self._skip} are skipped")
        show(self.time_profiling())

    def _forward_s(self) -> float:
        """Return the time before the first operator of the backward pass, in an average iteration."""
        forward = 0
        for (name, _), node in self._nodes.items():
            if "Backward" in name and self._spent_ns[node]:
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
            self._in_graph = True
            self._seen.clear()
            self._iterations += 1
            self._begun.append(self._now())
            return _GRAPH
        if not self._in_graph:
            _note_once(f"SINGA: operator {name!r} runs outside of device.graph() and is not measured")
            return _NOTHING
        key = name, self._seen[name]
        self._seen[name] += 1
        node = self._nodes.setdefault(key, len(self._nodes))
        if node == len(self._spent_ns):
            self._spent_ns.append(0)
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

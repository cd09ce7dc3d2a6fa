"""Paddle's result objects: what `Profiler.profiler_result` and `load_profiler_result` give."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from tracekit.profiler._window import PROCESS_CPU, SYSTEM_CPU, Window

if TYPE_CHECKING:
    from tracekit.profiler.paddle._nodes import HostNode, Trees


@dataclass(frozen=True, slots=True)
class ProfilerResult(Window):
    """A window with the methods of Paddle's result object. Each call reads the window's files."""

    @classmethod
    def of(cls, window: Window) -> ProfilerResult:
        """Return the window as a result."""
        return cls(**{each.name: getattr(window, each.name) for each in fields(Window)})

    def get_data(self) -> dict[int, HostNode]:
        """Return the tree of ranges of each thread, by thread id; its root is an artificial one.

        Raises: TracekitError.
        """
        return self._trees().by_thread

    def get_extra_info(self) -> dict[str, str]:
        """Return the names of the threads by their ids, and the load of the processors. Raises: TracekitError."""
        shares = {PROCESS_CPU: self.cpu.process, SYSTEM_CPU: self.cpu.system}
        return self._trees().extra | {name: f"{share:f}" for name, share in shares.items() if share is not None}

    def get_version(self) -> str:
        """Return the version of Paddle's format. Raises: TracekitError."""
        return self._trees().version

    def get_span_index(self) -> int:
        """Return the number of the window, from 0."""
        return self.number

    def _trees(self) -> Trees:
        from tracekit.profiler.paddle._nodes import trees_of

        return trees_of(self.read())

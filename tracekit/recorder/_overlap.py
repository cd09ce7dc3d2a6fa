"""An open range that may overlap others and may end on another thread: of asyncio tasks, generators, `start_range`."""

from __future__ import annotations

from collections.abc import Callable

from tracekit.recorder._jsonl import AsyncItem
from tracekit.recorder._session import SESSION


class OpenRange:
    """A range that may end on another thread or task; give it to `tracekit.recorder.end_range`."""

    __slots__ = ("done", "generation", "handle", "name_id", "nvtx_id")

    def __init__(self, name_id: int, handle: int, nvtx_id: int | None) -> None:
        self.name_id, self.handle, self.nvtx_id = name_id, handle, nvtx_id
        self.generation = SESSION.generation
        self.done = False

    def __copy__(self) -> OpenRange:
        return self  # one range has one end

    def __deepcopy__(self, memo: object) -> OpenRange:
        return self

    def __reduce__(self) -> tuple[Callable[[], OpenRange], tuple[()]]:
        """Return how a pickle makes it: as one that has ended, because only the process that began it can end it."""
        return _ended_range, ()

    def finish(self, t: int, thread: int, *, forced: bool = False) -> None:
        """End it, once. thread: index of the thread that ends it; forced: the recorder ends it, not the program."""
        if self.generation != SESSION.generation:
            return
        if self.done:
            SESSION.count("end_without_begin")
            return
        self.done = True
        if SESSION.logging:
            SESSION.events.append(AsyncItem(-self.name_id, t, self.handle, thread, None, forced))
        if SESSION.nvtx is not None:
            SESSION.nvtx.end(self.nvtx_id)


def _ended_range() -> OpenRange:
    ended = OpenRange(0, 0, None)
    ended.done = True
    return ended

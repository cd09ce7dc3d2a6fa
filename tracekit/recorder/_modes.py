"""The fast path: what entering and leaving a range does while something is recorded.

Entering and leaving append two integers each to the thread's own list, without a lock. The time is taken before the two
appends: nothing between these lets a signal handler in, but under a debugger or a coverage tool, and then the flusher
puts the pairs in order (`whole_items`). The three classes repeat a few lines, because calling a shared function costs
more than the lines do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tracekit.recorder import _values
from tracekit.recorder._process import orjson
from tracekit.recorder._ranges import PayloadRange, Range, enter_aside, exit_aside, set_class
from tracekit.recorder._session import SESSION, asyncio_calls

_now = time.perf_counter_ns
_ident = threading.get_ident
_dumps = None if orjson is None else orjson.dumps
_MOST = _values.MAX_PAYLOAD_BYTES // 4  # characters, of at most 4 bytes


def _no_loop() -> None:
    return None


_running_loop: Callable[[], object] = _no_loop


class LogRange(Range):
    """A range that goes to the log."""

    __slots__ = ()

    def __enter__(self) -> Range:
        if _ident() != self.thread or _running_loop() is not None:
            enter_aside(self)
            return self
        t = _now()
        buffer = self.buffer
        buffer.append(self.begin_id)
        buffer.append(t)
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        t = _now()
        if self.elsewhere:
            exit_aside(self, t)
            return
        buffer = self.buffer
        buffer.append(self.end_id)
        buffer.append(t)


class LogPayloadRange(PayloadRange):
    """A range with a payload that goes to the log."""

    __slots__ = ()

    def __enter__(self) -> Range:
        base = self.base
        if base.__class__ is not LogRange or _ident() != base.thread or _running_loop() is not None:
            return PayloadRange.__enter__(self)
        try:
            json = _dumps(self.payload).decode()
        except Exception:  # noqa: BLE001 - no payload raises into the host
            json = "null"
        if "null" in json or len(json) > _MOST:  # not all of it, perhaps: null is what orjson makes of NaN
            json = _values.payload_json(self.payload, SESSION.count)
        self.begun += 1
        t = _now()
        begin_id = base.begin_id
        base.state.extras.append((begin_id, t, json))
        buffer = base.buffer
        buffer.append(begin_id)
        buffer.append(t)
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        t = _now()
        base = self.base
        if not self.begun or _ident() != base.thread:
            PayloadRange.__exit__(self, error, value, traceback)
            return
        self.begun -= 1
        if base.elsewhere:
            exit_aside(base, t)
            return
        buffer = base.buffer
        buffer.append(base.end_id)
        buffer.append(t)


class BothRange(Range):
    """A range that goes to the log and to NVTX."""

    __slots__ = ()

    def __enter__(self) -> Range:
        if _ident() != self.thread or _running_loop() is not None:
            enter_aside(self)
            return self
        self.push(self.attributes)
        t = _now()
        buffer = self.buffer
        buffer.append(self.begin_id)
        buffer.append(t)
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        t = _now()
        if self.elsewhere:
            exit_aside(self, t)
            return
        buffer = self.buffer
        buffer.append(self.end_id)
        buffer.append(t)
        self.pop()


class NvtxRange(Range):
    """A range that goes to NVTX alone."""

    __slots__ = ()

    def __enter__(self) -> Range:
        if _ident() != self.thread or _running_loop() is not None:
            enter_aside(self)
        else:
            self.push(self.attributes)
        return self

    def __exit__(self, error: object, value: object, traceback: object) -> None:
        if self.elsewhere:
            exit_aside(self, 0)
        else:
            self.pop()


def set_mode(*, fresh: bool, forked: bool = False) -> None:
    """Make all ranges record as the session does from now on.

    fresh: the threads and names that they were bound to are gone. forked: the parent ends the ranges that are open now.
    (An open `with` looked up its `__exit__` when it was entered; it does not see the new class.)
    """
    global _running_loop
    recording = {(True, True): BothRange, (True, False): LogRange, (False, True): NvtxRange}
    active = recording.get((SESSION.logging, SESSION.nvtx is not None), Range)
    if active is not Range and _running_loop is _no_loop and (calls := asyncio_calls()):
        _running_loop = calls[0]
    with_payload = LogPayloadRange if active is LogRange else PayloadRange
    set_class(active, with_payload, fresh=fresh, forked=forked)

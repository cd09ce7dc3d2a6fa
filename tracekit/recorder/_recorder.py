"""Recording, from start to stop: the flusher, forks, the end of the process, a full disk."""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tracekit.recorder import _modes, _nvtx, _process, _ranges, log_format
from tracekit.recorder import _process as _clock
from tracekit.recorder._jsonl import (
    ITEMS_A_LINE,
    AsyncItem,
    LogFile,
    StepItem,
    encode_line,
    event_lines,
    events_in,
    name_lines,
    range_lines,
)
from tracekit.recorder._session import SESSION, ThreadState, whole_items

PERIOD_S: Final = 0.020
SHORTEST_WAIT_S: Final = 0.002
LOG_VARIABLE: Final = "TRACEKIT_LOG"
_perf_counter = time.perf_counter  # a program may put its own clock in its place


class AlreadyRecordingError(RuntimeError):
    """A recording was begun in the block of another one: a process has one log at a time."""


class StartOptions(NamedTuple):
    """The arguments of `start`."""

    target: str | os.PathLike[str] | None
    nvtx: bool = True
    process: str | None = None
    rank: int | None = None
    world_size: int | None = None
    children: bool = True


class Recorder:
    """The process's recorder. Its code runs on the flusher's thread, or in start and stop."""

    def __init__(self) -> None:
        self._control = threading.RLock()  # start, stop, fork
        self._writing = threading.RLock()  # a flush
        self._wake = threading.Event()
        self._flusher: _process.GuestThread | None = None
        self._forked = False
        self._refused = ""
        self._warned_of_empty = False
        self._log: LogFile | None = None
        self._target = ""
        self._process: str | None = None
        self._rank: tuple[int | None, int | None] = (None, None)
        self._next_anchor_ns = 0
        self._last_ns = 0
        self._taken = 0
        self._recording = False
        self._own_variable: str | None = None
        self._hooked = False
        self._hooked_multiprocessing = False
        self.block: object = None
        """The block of a `with` whose recording runs now, None without one."""
        self.background: StartOptions | None = None
        """What `tracekit record` asked for: it goes on where the program has no recording of its own."""
        self._in_background = False
        self._after_block: StartOptions | None = None
        self.at_stop: list[Callable[[], None]] = []
        """Called before a recording stops: what is held back goes to the log."""
        self.at_open: Callable[[Path], None] | None = None
        """Called with the name of each log of this process."""

    @property
    def recording(self) -> bool:
        """True while ranges go to a log or to NVTX."""
        return self._recording

    @property
    def path(self) -> Path | None:
        """The log of this process, once there is one."""
        return self._log.path if self._log is not None else None

    @property
    def is_of_program(self) -> bool:
        """True while a recording runs that the program began itself."""
        return self._recording and not self._in_background

    def start_in_background(self, options: StartOptions) -> None:
        """Record whenever the program has no recording of its own. A log begins with its first event."""
        self.background = options
        with self._control:
            if not self._recording:
                self.start(options, late=True)

    def mark_background(self, target: str) -> None:
        """Take the running recording as one that the program has not begun: a block of `record` interrupts it."""
        self._in_background = self._recording
        self._after_block = StartOptions(target)

    def start(self, options: StartOptions, *, late: bool = False, block: object = None) -> Path | None:
        """Start recording; see `tracekit.recorder.start`.

        late: open the log at the first event, since many processes have none. block: the `with` that it is for.
        """
        with self._control:
            if self.block is not None or (block is not None and self.is_of_program):
                raise AlreadyRecordingError(self._already())
            self._stop(log_format.STOP)
            self._in_background = late
            try:
                return self._start(options, late, block)
            except BaseException:
                if not late and (after := self.background or self._after_block) is not None:
                    self.start(after, late=True)
                raise

    def _start(self, options: StartOptions, late: bool, block: object) -> Path | None:
        target = options.target
        with self._control:
            reason = "" if target is None else _process.why_not_here()
            if reason:
                if reason != self._refused:
                    _process.print_note(f"not recording: {reason}")
                self._refused = reason
                return None
            launched_rank, launched_size = _process.rank_of(os.environ)
            self._rank = (
                launched_rank if options.rank is None else options.rank,
                launched_size if options.world_size is None else options.world_size,
            )
            self._process = options.process
            if target is not None:
                folder = os.sep if os.fspath(target).endswith(("/", os.sep)) else ""
                self._target = os.path.abspath(target) + folder  # noqa: PTH100 - a Path would lose the last slash
            log = None if target is None or late else self._open(forked=False)
            domain = _nvtx.open_domain(SESSION.count) if options.nvtx else None
            SESSION.reset()
            SESSION.logging, SESSION.nvtx = target is not None, domain
            SESSION.before_first = self._begin_at_first_event if late and target is not None else None
            self._log = log
            self._recording = True
            self.block = block
            _modes.set_mode(fresh=True)
            if SESSION.logging:
                self._hook()
            if log is not None:
                log.flushed_ns = _clock.now()  # nothing was recorded before
                if self._launch() and options.children:
                    self._set_variable(self._target)
            return self.path

    def _already(self) -> str:
        where = f" to {self.path.name}" if self.path is not None else ""
        return (
            f"this process is recording{where} already, and a process has one log at a time: end that recording first "
            "(stop(), or the end of its `with`), or mark the inner part with recorder.range()"
        )

    def stop(self, how: str = log_format.STOP) -> Path | None:
        """Stop: write all that is recorded and the log's last line. A second stop does nothing.

        how: a key of `log_format.ENDINGS`.
        """
        with self._control:
            after = self.background
            if after is None and self.block is not None:
                after = self._after_block
            was_of_program = self.is_of_program
            log = self._log if self.block is not None else None
            path = self._stop(how)
            # After `start` the work may be in other processes: a block says which work it is about.
            if was_of_program and log is not None and not (log.has_items or self._taken):
                self._warn_of_empty(log)
            if was_of_program and how == log_format.STOP and after is not None:
                self.start(after, late=True)
            return path

    def _stop(self, how: str) -> Path | None:
        with self._control:
            for hand_over in self.at_stop if self._recording else ():
                with contextlib.suppress(Exception):  # a guest does not raise
                    hand_over()
            path = self.path
            self.block = None
            if not self._recording:
                self._forget_variable()  # recording may have stopped by itself
                return path
            self._recording = False
            SESSION.before_first = None
            self._rest()
            self._cut_pushed()
            SESSION.nvtx = None
            SESSION.logging = False
            _modes.set_mode(fresh=False)
            with self._writing:
                if self._log is not None:
                    self._flush(how)
                if self._log is not None:
                    self._log.close()
                self._log = None
                SESSION.states, SESSION.events, SESSION.new_names = [], [], []
            self._forget_variable()
            return path

    def _warn_of_empty(self, log: LogFile) -> None:
        """Say once that a recording of the program has nothing in it, and what to add."""
        if self._forked or log.was_removed or self._warned_of_empty:
            return
        self._warned_of_empty = True
        _process.print_note(f"no range was recorded in {log.path.name}; {log_format.ADD_RANGES}")

    def stop_at_exit(self) -> None:
        """Stop because the process ends."""
        self.stop(log_format.EXIT)

    def flush(self) -> None:
        """Write all that is recorded so far."""
        with self._writing:
            self._flush()

    def _cut_pushed(self) -> None:
        """End the ranges that `push` began and nobody popped, marked unfinished."""
        for state in SESSION.states:
            while state.pushed:
                state.pushed.pop().cut(_clock.now())

    # The log

    def _open(self, *, forked: bool) -> LogFile:
        log = LogFile(self._target, rank=self._rank[0])
        self._forked = forked
        log.begin(*self._head())
        if self.at_open is not None:
            self.at_open(log.path)
        self._next_anchor_ns = 0
        self._last_ns = 0
        return log

    def _head(self) -> tuple[log_format.Line, int]:
        """Return the header of a log that begins now, and its time."""
        rank, size = self._rank
        anchor = _clock.read_anchor()
        line = _process.head(anchor, process=self._process, rank=rank, world_size=size, forked=self._forked)
        return line, anchor.perf_ns

    def _begin_again(self, log: LogFile) -> None:
        """Go on in a log that somebody has cut: the names and threads that it defined are defined once more."""
        log.begin_again(*self._head())
        self._next_anchor_ns = 0
        _ranges.define_names_again()
        for state in list(SESSION.states):
            state.shown = None

    def _flush(self, how: str = "") -> None:
        """Write all that is recorded (the caller holds `_writing`). An error ends the recording with one note.

        how: the recording ends so; "": it goes on.
        """
        log = self._log
        if log is None:
            return
        begun = _clock.now()
        data = b""
        self._taken = 0
        try:
            data = self._collect(how)
            while not (log.write(data + self._end(log, how)) and log.flushed(begun, self._taken)):
                self._begin_again(log)
                data = self._definitions() + data
            if log.was_removed:
                raise FileNotFoundError("the log was removed while recording")
        except BaseException as error:  # a signal's too: what the flush has taken is not written
            self._give_up(f"{log.path}: {error.__class__.__name__}: {error}", error, data)
            if isinstance(error, Exception):
                return  # a guest does not raise
            raise

    def _collect(self, how: str) -> bytes:
        """Return the lines of all that the threads have recorded.

        Items are taken first and the names that they use later, but names come first in the lines.
        """
        body: list[bytes] = []
        over: list[ThreadState] = []
        for state in list(SESSION.states):
            was_dead = state.dead
            body += self._take(state)
            if was_dead and not state.buffer:
                over.append(state)
        count = len(SESSION.events)
        if count:
            events = SESSION.events[:count]
            del SESSION.events[:count]
            self._taken += count
            body += event_lines(events)
        parts = [self._definitions()]
        for state in over:
            SESSION.states.remove(state)
        parts += body
        self._take_notes(parts)
        now = _clock.now()
        if now < self._last_ns:
            SESSION.notes.append("clock_went_back")  # in the last flush, too, when no range is logged any more
        self._last_ns = now
        if how or now >= self._next_anchor_ns or now < self._next_anchor_ns - 2 * _clock.ANCHOR_PERIOD_NS:
            self._next_anchor_ns = now + _clock.ANCHOR_PERIOD_NS
            anchor = _clock.read_anchor()
            line = log_format.clock_line(
                perf_ns=anchor.perf_ns, epoch_ns=anchor.epoch_ns, uncertainty_ns=anchor.uncertainty_ns
            )
            parts.append(encode_line(line))
        if how:
            self._take_notes(parts)
        return b"".join(parts)

    def _end(self, log: LogFile, how: str) -> bytes:
        if not how:
            return b""
        return encode_line(log_format.end_line(perf_ns=_clock.now(), items=log.items + self._taken, how=how))

    @staticmethod
    def _definitions() -> bytes:
        """Return the lines of threads and names that the log does not have yet."""
        lines = (state.line() for state in list(SESSION.states))
        parts = [encode_line(line) for line in lines if line is not None]
        count = len(SESSION.new_names)
        parts.append(name_lines(SESSION.new_names[:count]))
        del SESSION.new_names[:count]
        return b"".join(parts)

    def _take(self, state: ThreadState) -> list[bytes]:
        buffer = state.buffer
        count = whole_items(buffer)
        if not count:
            return []
        lines: list[bytes] = []
        for at in range(0, count, 2 * ITEMS_A_LINE):
            items = buffer[at : min(at + 2 * ITEMS_A_LINE, count)]
            lines += range_lines(state.index, items, state.extras)
        del buffer[:count]
        self._taken += count // 2
        return lines

    @staticmethod
    def _take_notes(parts: list[bytes]) -> None:
        count = len(SESSION.notes)
        codes = Counter(SESSION.notes[:count])
        del SESSION.notes[:count]
        parts += [encode_line(log_format.note_line(code=code, count=number)) for code, number in codes.items()]

    def _give_up(self, reason: str, error: BaseException | None = None, unwritten: bytes = b"") -> None:
        """Stop logging with one note; the program (and NVTX) go on. unwritten: the lines of the flush that failed."""
        log, self._log = self._log, None
        if log is not None:
            log.end_early(_ending(error), str(error), events_in(unwritten) + _waiting_events())
            log.close()
        SESSION.logging = False
        SESSION.states, SESSION.events, SESSION.new_names = [], [], []
        _modes.set_mode(fresh=False)
        self._recording = SESSION.nvtx is not None
        _process.print_note(f"recording stopped: {reason}")

    # The flusher

    def _launch(self) -> bool:
        """Start the flusher's thread; return false where the system gives none: then nothing can be recorded."""
        self._wake.clear()
        try:
            flusher = _process.GuestThread(self._run)
            flusher.begin()
        except Exception as error:  # noqa: BLE001 - a limit on threads or memory, the end of the interpreter
            with self._writing:
                self._flush()
                if self._log is not None:
                    self._give_up(f"{self._log.path}: {error.__class__.__name__}: {error}", error)
            return False
        self._flusher = flusher
        return True

    def _run(self) -> None:
        wait = PERIOD_S
        before = _perf_counter()
        while not self._wake.wait(wait):
            with self._writing:
                self._flush()
            if self._log is None:
                return
            # Beside busy threads this one gets the interpreter late, after the wait and again after the write. So the
            # next wait is shorter by twice the time that this round took beyond its wait: a kill loses a round and
            # its write.
            after = _perf_counter()
            wait = max(SHORTEST_WAIT_S, PERIOD_S - 2 * max(0.0, after - before - wait))
            before = after

    def _rest(self) -> None:
        """Stop the flusher's thread; it finishes the flush that it has begun."""
        flusher, self._flusher = self._flusher, None
        if flusher is not None and flusher.ident != threading.get_ident():
            self._wake.set()
            with contextlib.suppress(RuntimeError):  # a program may have put its own threads in their place
                flusher.join(timeout=5)

    # Other processes, and the end of this one

    def _hook(self) -> None:
        util = sys.modules.get("multiprocessing.util")
        if util is not None and not self._hooked_multiprocessing:
            # A child forgets its finalizers as it begins, and then calls this.
            util.register_after_fork(self, Recorder._stop_with_multiprocessing)
            self._hooked_multiprocessing = True
        if self._hooked:
            return
        self._hooked = True
        atexit.register(self.stop_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._after_fork_in_child
            )

    def _before_fork(self) -> None:
        # Without the flusher's thread a fork copies no half-written batch, and Python 3.12 does not warn of threads.
        self._control.acquire()
        if self._recording:
            self._rest()
        self._writing.acquire()

    def _after_fork(self) -> None:
        self._writing.release()
        try:
            if self._recording and self._log is not None:
                self._launch()
        finally:
            self._control.release()

    def _after_fork_in_child(self) -> None:
        self._control, self._writing = threading.RLock(), threading.RLock()
        self._wake = threading.Event()
        self._flusher = None
        if not self._recording:
            return
        log, self._log = self._log, None
        if log is not None:
            log.close()
        was_logging = SESSION.logging
        SESSION.reset()
        SESSION.logging = was_logging
        SESSION.before_first = self._begin_in_child if was_logging else None
        _modes.set_mode(fresh=True, forked=True)

    def _begin_in_child(self) -> None:
        """Open the child's own log at its first event, since many children never record any."""
        self._begin_late(forked=True)

    def _begin_at_first_event(self) -> None:
        self._begin_late(forked=False)

    def _begin_late(self, *, forked: bool) -> None:
        with self._control:
            if SESSION.before_first is None:
                return
            SESSION.before_first = None
            try:
                self._log = self._open(forked=forked)
            except Exception as error:  # noqa: BLE001 - it is the program that begins a range here
                self._give_up(str(error))
                return
            if self._launch():
                self._stop_with_multiprocessing()

    def _stop_with_multiprocessing(self) -> None:
        """Stop when a child of multiprocessing ends: by os._exit, after its own finalizers, so atexit is not called."""
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.Finalize(None, self.stop_at_exit, exitpriority=0)

    def _set_variable(self, target: str) -> None:
        """Make programs that this one starts record too, if they import the recorder (spawned workers do)."""
        if LOG_VARIABLE not in os.environ:
            os.environ[LOG_VARIABLE] = self._own_variable = target

    def _forget_variable(self) -> None:
        if self._own_variable is not None and os.environ.get(LOG_VARIABLE) == self._own_variable:
            del os.environ[LOG_VARIABLE]
        self._own_variable = None


def _ending(error: BaseException | None) -> str:
    """Return the key of `log_format.ENDINGS` for an error of a flush."""
    if not isinstance(error, OSError):
        return log_format.FAILED
    return log_format.DISK_FULL if error.errno == errno.ENOSPC else log_format.WRITE_ERROR


def _waiting_events() -> int:
    """Return the number of ranges, marks and counters that are recorded and that no flush has taken yet."""
    nested = sum(signed_id > 0 for state in list(SESSION.states) for signed_id in state.buffer[::2])
    others = [event for event in list(SESSION.events) if not isinstance(event, StepItem)]
    return nested + sum(not isinstance(event, AsyncItem) or event.signed_id > 0 for event in others)


RECORDER: Final = Recorder()

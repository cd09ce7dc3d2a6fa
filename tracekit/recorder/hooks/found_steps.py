"""Steps of a loop whose data loader nobody named: it is found when the program fetches from it.

A step is from the fetching of a batch to that of the next one, if the batch was trained on: a backward pass or an
optimizer's step ran meanwhile. So a step is written when it has ended. Other batches are ranges named `batch`; but in a
program that has not trained after HELD_BACK batches, which only runs a model, they are its steps.

A loader that is read within a batch of another one on the same thread (evaluation inside the training loop, a second
loader of a `zip`) makes no steps. Without any loader a step is from the first forward that keeps gradients to the end
of the optimizer's step; where several optimizers take turns, to the end of the last one before the first steps again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tracekit.recorder import _process, _ranges
from tracekit.recorder._jsonl import AsyncItem, StepItem
from tracekit.recorder._recorder import RECORDER
from tracekit.recorder._session import SESSION
from tracekit.recorder.log_format import NO_STEP

__all__ = ["FOUND", "FoundSteps"]

HELD_BACK: Final = 64
"""Batches without training that wait until it is clear whether the program trains. Trainers try two or so first."""


@dataclass(slots=True)
class _OpenBatch:
    """A batch that is worked on. loop: the iterator that gave it. begin: of its fetching."""

    loop: object
    begin: int
    samples: int | None
    trained: bool = False


@dataclass(slots=True)
class _Turn:
    """The steps of the optimizers that take turns, from the first forward to the last step so far."""

    begin: int
    end: int
    optimizers: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _DoneBatch:
    begin: int
    end: int
    samples: int | None


class _Loops(threading.local):
    """The calling thread's loop. begin: of the forward that no optimizer's step has ended yet."""

    def __init__(self) -> None:
        self.batch: _OpenBatch | None = None
        self.begin: int | None = None
        self.turn: _Turn | None = None
        self.waiting: list[_DoneBatch] = []
        self.generation = -1


class FoundSteps:
    """The steps of all loops of this process. by_calls: how many want those of loops without a loader, too."""

    def __init__(self) -> None:
        self.by_calls = 0
        self._users = 0
        self._last_number = NO_STEP
        self._loops = _Loops()
        self._trained = False
        self._registered = False

    def use(self, *, steps: bool, by_calls: bool = False) -> Callable[[], None]:
        """Make steps from now on, if they are wanted; return a function that ends it."""
        self._users += steps
        self.by_calls += by_calls
        ended = False

        def end() -> None:
            nonlocal ended
            if ended:
                return
            ended = True
            self._users -= steps
            self.by_calls -= by_calls
            if not self._users:
                self.hand_over()
                self._trained = False

        return end

    def in_batch(self) -> bool:
        """Return whether the thread works on a batch of a loader."""
        return self._mine().batch is not None

    def fetch(self, loop: object, t: int) -> None:
        """End the batch before: the loop fetches the next one."""
        loops = self._mine()
        if loops.batch is not None and loops.batch.loop is loop:
            self._end_batch(loops, t)

    def arrive(self, loop: object, begin: int, samples: int | None) -> None:
        """Begin a batch that the loop has fetched since `begin`."""
        loops = self._mine()
        if self._users and loops.batch is None and not _ranges.is_off():
            loops.begin = None
            self._end_turn(loops)
            loops.batch = _OpenBatch(loop, begin, samples)

    def leave(self, loop: object, t: int) -> None:
        """End the last batch of a loop: it has no more, or the program has left it."""
        self.fetch(loop, t)

    def forward(self, t: int) -> None:
        """Note a forward or backward pass that keeps gradients, for loops without a loader."""
        loops = self._mine()
        if self.by_calls and loops.batch is None and loops.begin is None:
            loops.begin = t

    def backward(self, t: int) -> None:
        """Note that the batch is trained on."""
        self.forward(t)
        loops = self._mine()
        if loops.batch is not None:
            loops.batch.trained = True

    def optimizer(self, key: int, begin: int, end: int) -> None:
        """Note the step of an optimizer. key: its identity."""
        loops = self._mine()
        if loops.batch is not None:
            loops.batch.trained = True
            return
        if not self.by_calls:
            return
        first, loops.begin = begin if loops.begin is None else loops.begin, None
        if loops.turn is not None and key in loops.turn.optimizers:
            self._end_turn(loops)
        if loops.turn is None:
            loops.turn = _Turn(first, end)
        loops.turn.end = end
        loops.turn.optimizers.add(key)

    def hand_over(self) -> None:
        """Write what the calling thread holds back: the recording stops."""
        loops = self._mine()
        if loops.batch is not None:
            self._end_batch(loops, _process.now())
        self._end_turn(loops)
        self._write_waiting(loops, as_steps=not self._trained)

    # What is written

    def _mine(self) -> _Loops:
        loops = self._loops
        if loops.generation != SESSION.generation:  # another recording, or a forked child
            loops.batch, loops.begin, loops.turn, loops.waiting = None, None, None, []
            loops.generation = SESSION.generation
            self._last_number, self._trained = NO_STEP, False
            if not self._registered:
                self._registered = True
                RECORDER.at_stop.append(self.hand_over)
        return loops

    def _end_turn(self, loops: _Loops) -> None:
        turn, loops.turn = loops.turn, None
        if turn is not None:
            self._has_trained(loops)
            self._write_step(_DoneBatch(turn.begin, turn.end, None))

    def _end_batch(self, loops: _Loops, t: int) -> None:
        batch, loops.batch = loops.batch, None
        if batch is None:
            return
        done = _DoneBatch(batch.begin, t, batch.samples)
        if batch.trained:
            self._has_trained(loops)
            self._write_step(done)
        elif self._trained:
            _write(done, "batch", None, None)
        else:
            loops.waiting.append(done)
            if len(loops.waiting) > HELD_BACK:
                self._write_waiting(loops, as_steps=True)

    def _has_trained(self, loops: _Loops) -> None:
        if not self._trained:
            self._trained = True
            self._write_waiting(loops, as_steps=False)

    def _write_waiting(self, loops: _Loops, *, as_steps: bool) -> None:
        waiting, loops.waiting = loops.waiting, []
        for done in waiting:
            if as_steps:
                self._write_step(done)
            else:
                _write(done, "batch", None, None)

    def _write_step(self, done: _DoneBatch) -> None:
        if SESSION.last_step != self._last_number:  # the program numbers its steps itself
            return
        self._last_number = SESSION.last_step = SESSION.last_step + 1
        _write(done, "step", "step", self._last_number)


def _write(done: _DoneBatch, name: str, kind: str | None, number: int | None) -> None:
    """Write a range that has ended. A tool of NVTX would see it now, so it does not go there."""
    if not SESSION.logging:
        return
    range_ = _ranges.get_range(name, kind)
    thread, handle = range_.state.index, next(SESSION.handles)
    json = None if done.samples is None else f'{{"num_samples":{done.samples}}}'
    items = (
        AsyncItem(range_.begin_id, done.begin, handle, thread, json),
        AsyncItem(range_.end_id, done.end, handle, thread, None),
    )
    if number is None:
        SESSION.events.extend(items)
    else:
        SESSION.events.extend((StepItem(number, done.begin, thread), *items, StepItem(NO_STEP, done.end, thread)))


FOUND: Final = FoundSteps()

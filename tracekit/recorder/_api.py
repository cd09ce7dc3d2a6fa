"""What users call, beside start and stop."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from tracekit.recorder import _clock, _overlap, _payload, _ranges, _values, log_format
from tracekit.recorder._jsonl import CounterItem, MarkItem, StepItem
from tracekit.recorder._session import SESSION

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

OpenRange = _overlap.OpenRange
BatchWatcher = Callable[[object, int, int], object]


class CrossedRangeError(RuntimeError):
    """A scope was closed while another one, opened after it, was still open. Raised on request only."""


def start_range(
    name: str, *, kind: str | None = None, category: str | None = None, color: str | int | None = None,
    payload: object = None,
) -> OpenRange | None:  # fmt: skip
    """Begin a range that may overlap others and may end on another thread or task; give the result to `end_range`.

    Returns None when nothing is recorded, which `end_range` takes too.
    """
    if _ranges.is_off():
        return None
    made = _ranges.range_(name, kind, category, color)
    return _overlap.begin_async(made, payload)


def end_range(opened: OpenRange | None) -> None:
    """End what `start_range` began. A second end is counted, not recorded."""
    if opened is not None:
        _overlap.end_async(opened, _clock.now(), _ranges.thread_state().index)


def mark(
    name: str, *, kind: str | None = None, category: str | None = None, color: str | int | None = None,
    payload: object = None,
) -> None:  # fmt: skip
    """Record that something happened now."""
    if _ranges.is_off():
        return
    now = _clock.now()
    made = _ranges.range_(name, kind, category, color)
    json = None if payload is None else _values.payload_json(payload, SESSION.count)
    if SESSION.logging:
        SESSION.events.append(MarkItem(made.i, now, made.state.index, json))
    if SESSION.nvtx is not None:
        SESSION.nvtx.mark(_overlap.attributes_of(made, payload, json))


def counter(name: str, value: Any, *, category: str | None = None) -> None:
    """Record a counter's value, an integer or float; NumPy and torch scalars are taken too."""
    if _ranges.is_off():
        return
    now = _clock.now()
    number = _values.number_of(value, SESSION.count)
    if number is None:
        return
    made = _ranges.range_(name, None, category)
    if SESSION.logging:
        SESSION.events.append(CounterItem(made.i, now, made.state.index, number))
    if SESSION.nvtx is not None:
        SESSION.nvtx.sample(made.name, number)


def _stack() -> list[_ranges.Range]:
    """Return what is pushed and not popped: on this thread, or in this asyncio task."""
    task = _ranges.current_task()
    if task is None:
        return _ranges.thread_state().pushed
    return SESSION.task_stacks.setdefault(task, [])


def push(
    name: str, *, kind: str | None = None, category: str | None = None, color: str | int | None = None,
    payload: object = None,
) -> None:  # fmt: skip
    """Begin a range that the next `pop` ends."""
    if _ranges.is_off():
        return
    made = _ranges.range_(name, kind, category, color, payload)
    made.__enter__()
    _stack().append(made)


def pop(name: str | None = None, *, strict: bool = False) -> None:
    """End the range of the last `push`; with a name, the innermost pushed range of that name.

    Ranges pushed after it are cut: they end now, marked unfinished, and are counted. Nothing to end is counted too.
    Raises: CrossedRangeError, with strict, instead of either.
    """
    if _ranges.is_off():
        return
    stack = _stack()
    wanted = None if name is None else _values.text_of(name, SESSION.count)
    if not stack or (wanted is not None and all(made.name != wanted for made in stack)):
        if strict:
            raise CrossedRangeError(f"no open range {wanted!r}" if wanted else "no open range")
        SESSION.count("end_without_begin")
        return
    while wanted is not None and stack[-1].name != wanted:
        if strict:
            raise CrossedRangeError(f"range {wanted!r} is closed while {stack[-1].name!r} inside it is open")
        SESSION.count("range_crossed")
        _payload.cut(stack.pop(), _clock.now())
    stack.pop().__exit__(None, None, None)


class Step:
    """One step of a training loop, as context manager; see `step`."""

    __slots__ = ("_name", "_number", "_opened", "_range")

    def __init__(self, number: int | None, name: str) -> None:
        self._number, self._name = number, name
        self._range: _ranges.Range | None = None
        self._opened: OpenRange | None = None

    def __enter__(self) -> Step:
        if _ranges.is_off():
            return self
        number = _step_number(self._number)
        made = _ranges.range_(self._name, "step")
        now = set_step(number)
        if _ranges.current_task() is None:
            _payload.begin_at(made, now, None, _overlap.attributes_of(made, number, b"%d" % number))
            self._range = made
        else:
            self._opened = _overlap.begin_async(made, t=now)
        return self

    def __exit__(
        self, error: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        now = _clock.now()
        made, self._range = self._range, None
        if made is not None and made.g == SESSION.generation:
            made.end_here(now)
        end_range(self._opened)
        self._opened = None
        if SESSION.logging:
            item = StepItem(log_format.NO_STEP, now, _ranges.thread_state().index)
            SESSION.events.append(item)


def step(number: int | None = None, *, name: str = "step") -> Step:
    """Return a step of the program, for `with`: a range of kind `step`, and all that starts in it has its number.

    number: None takes the number after the last one, from 0.
    """
    return Step(number, name)


def set_step(number: int) -> int:
    """Say that the process is in step `number` from now on (-1: in none); return now."""
    number = _step_number(number)
    now = _clock.now()
    SESSION.last_step = number
    if SESSION.logging:
        SESSION.events.append(StepItem(number, now, _ranges.thread_state().index))
    return now


def _step_number(number: object) -> int:
    if number is not None:
        with contextlib.suppress(Exception):
            index = operator.index(number)  # type: ignore[arg-type]
            if -1 <= index < 1 << 31:
                return index
        SESSION.count("value_refused")
    return SESSION.last_step + 1


def traced(
    function: F | None = None, *, name: str | None = None, kind: str | None = None, category: str | None = None,
    color: str | int | None = None, payload: object = None,
) -> Any:  # fmt: skip
    """Decorate a function, coroutine function or generator: each run is a range, named as the function unless told."""
    from tracekit.recorder._decorate import wrap

    if function is None:
        return functools.partial(traced, name=name, kind=kind, category=category, color=color, payload=payload)
    shown = getattr(function, "__qualname__", repr(function)) if name is None else name
    count = SESSION.count
    return wrap(
        function,
        _values.text_of(shown, count),
        None if kind is None else _values.text_of(kind, count),
        None if category is None else _values.text_of(category, count),
        _values.color_of(color, count),
        payload,
    )


class WatchedIterator(Generic[T]):
    """An iterator over a loader; each of its `next` is a range of kind `dataloader`. All else of it is as it was."""

    __slots__ = ("_inner", "_loader", "_name")

    def __init__(self, inner: Iterator[T], loader: object, name: str) -> None:
        self._inner, self._loader, self._name = inner, loader, name

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        watchers = SESSION.batch_watchers
        begin = _clock.now() if watchers else 0
        with _ranges.range_(self._name, "dataloader"):
            item = next(self._inner)
        if watchers:
            end = _clock.now()
            for watcher in watchers:
                try:
                    watcher(self._loader, begin, end)
                except Exception:  # noqa: BLE001 - a watcher's fault is not the training loop's
                    SESSION.count("watcher_failed")
        return item

    def __len__(self) -> int:
        return len(self._inner)  # type: ignore[arg-type]

    def __getattr__(self, attribute: str) -> Any:
        if attribute in WatchedIterator.__slots__:  # of one that is half made
            raise AttributeError(attribute)
        return getattr(self._inner, attribute)


class WatchedLoader(Generic[T]):
    """A loader whose batches are timed; all else of it is as it was."""

    def __init__(self, loader: Iterable[T], name: str) -> None:
        self._loader, self._name = loader, name

    def __iter__(self) -> Iterator[T]:
        with _ranges.range_(f"{self._name} (start)", "dataloader"):
            inner = iter(self._loader)
        return WatchedIterator(inner, self._loader, self._name)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._loader, attribute)


def watch_loader(iterable: Iterable[T], *, name: str = "dataloader") -> WatchedLoader[T]:
    """Return the iterable with a range of kind `dataloader` around the making of its iterator and of each item.

    The last `next`, which finds that there is no item left, is a range too: its time is spent.
    """
    return WatchedLoader(iterable, name)


def on_batch(watcher: BatchWatcher) -> Callable[[], None]:
    """Call `watcher(loader, begin_ns, end_ns)` after each item that a watched loader gives, recording or not.

    loader: what was handed to `watch_loader`; times: `time.perf_counter_ns`. The same watcher is called once, on the
    thread that reads; what it raises is counted and does not reach the program. Returns a function that ends it.
    """
    if watcher not in SESSION.batch_watchers:
        SESSION.batch_watchers = (*SESSION.batch_watchers, watcher)

    def remove() -> None:
        SESSION.batch_watchers = tuple(other for other in SESSION.batch_watchers if other != watcher)

    return remove

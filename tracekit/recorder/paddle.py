"""Watch a Paddle training loop without editing it: its data loader, forward, backward, optimizer and steps.

    from tracekit import recorder
    from tracekit.recorder.paddle import watch

    recorder.start("run.jsonl")
    with watch(model, optimizer=optimizer, dataloader=loader, verbosity=2):
        for batch, target in loader():
            loss = criterion(model(batch), target)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
    recorder.stop()

Verbosity 1 records ranges of these kinds:

- `dataloader`: each `next` of the loader;
- `forward`: each call of the model;
- `backward`: each outermost `Tensor.backward` or `paddle.autograd.backward` of the process, of any loss;
- `optimizer`: each outermost `step` or `minimize`, and `step`.

Verbosity 2 adds a range `<path>.forward` for each call of each layer of the model, with the layer's class as category.

A step begins when a batch is fetched and ends when the next one is; the last one ends with the loop. Its `num_samples`
is the number of samples of the batch, where the loader or the batch shows it. Steps are overlapping ranges, as those of
asyncio tasks; an NVTX tool sees a step from the arrival of its batch on.

Without `dataloader` the loaders of paddle.io are found as the program reads from them. A step is then a batch that was
trained on, and is written when it has ended; a batch that was not is a range named `batch`. In a loop without one of
these loaders a step begins with the first forward (with gradients on) and ends with the (last) optimizer's step.

It is a guest: nothing is put into the model, the optimizer or the loader. Paddle has no process-wide hooks, so the
functions of its classes are replaced during a watch: `Layer.__call__`, `Tensor.backward`, the optimizer's `step` and
`minimize`, the loader's `__iter__`, and `paddle.autograd.backward`. `remove`, or the end of the `with`, restores them.

Limits:

- Operators are not recorded: Paddle shows them to its own tracer alone, which `tracekit.profiler.paddle` uses.
- The backward of single layers is not recorded: Paddle has no hook on its nodes.
- Layers added after `watch`, and calls of `layer.forward` itself, are not recorded.
- `paddle.grad`, and a `backward` imported by name from paddle.autograd, have no `backward` range.
- A model compiled by `paddle.jit.to_static` is recorded call by call; its layers are where they are traced.

It needs Paddle 2.4 or newer; this package can be imported without Paddle.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from tracekit.recorder import _process, _ranges
from tracekit.recorder._session import SESSION
from tracekit.recorder.hooks.found_loaders import FoundLoaders
from tracekit.recorder.hooks.found_steps import FOUND
from tracekit.recorder.hooks.loader import (
    TIMED,
    Attributes,
    Function,
    Loaders,
    LoaderSteps,
    Watch,
    check_verbosity,
    optimizers_of,
)

__all__ = ["Watch", "watch", "watch_program"]


def __dir__() -> list[str]:
    return sorted(__all__)


# Calls of watched objects: the functions of Paddle's classes are replaced, and an object is found by its identity.
#
# So the object itself stays as it is: it is copied, pickled and saved as ever, and copies of it are not watched. The
# class that is changed is the one of the object's classes that defines the function; a class below may call that of a
# class above (`super().step()`), which is then not changed, or is not the one that is watched.


FAILED: Final = "watch_failed"
_SKIP_FILES: Final = "jit.sot.opcode_translator.skip_files"
"""The files whose functions Paddle's compiler does not look into."""


class WatchedPaddle(NamedTuple):
    """The range of a watched call. before, after: called beside it."""

    name: str
    kind: str | None
    category: str | None
    before: Callable[[], None]
    after: Callable[[], None]


class _LayerEntry(NamedTuple):
    """A watched object. reference: returns it while it lives; owner: the class whose function is replaced."""

    reference: Callable[[], object]
    owner: type
    range_: WatchedPaddle


class _Open(threading.local):
    """The kinds of calls of which the thread is in one: only the outermost one is a range."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()


def aside(function: Callable[[], object]) -> None:
    """Call a part of the watch: its faults are counted and do not reach the program."""
    try:
        function()
    except Exception:  # noqa: BLE001 - a guest does not raise
        SESSION.count(FAILED)


class LayerCalls:
    """The watched objects of this process, by function and identity."""

    def __init__(self) -> None:
        self.attributes = Attributes()
        self._entries: dict[tuple[str, int], tuple[_LayerEntry, ...]] = {}
        self._lock = threading.RLock()
        self._open = _Open()
        self._before_backward: tuple[Callable[[], None], ...] = ()
        self.in_sot: Callable[[], bool] = _no
        self.find: Callable[[str, Any], WatchedPaddle | None] | None = None
        """Returns how to record a call (its function's name, its object) that nobody watches; None: not at all."""

    def keep_out_of_compiled_code(self) -> None:
        """Make Paddle's bytecode compiler (SOT) pass by the recorder's functions, where this Paddle has it."""
        base, skip = (sys.modules.get(f"paddle.{name}") for name in ("base.dygraph.base", _SKIP_FILES))
        self.in_sot = getattr(base, "in_sot_simulation_mode", _no)
        folder = str(Path(__file__).parent.parent) + os.sep
        if skip is not None and folder not in skip.skip_file_names:
            skip.skip_file_names.add(folder)
            skip.setup_skip_files()

    def watch(self, watched: object, name: str, range_: WatchedPaddle) -> Callable[[], None]:
        """Record the calls of an object's function; return a function that ends it.

        An object that two watches have is recorded once, by the first's name. Raises: TypeError, AttributeError where
        the class cannot be changed.
        """
        owner = next(cls for cls in type(watched).__mro__ if name in vars(cls))
        end_replacement = self.attributes.replace(owner, name, functools.partial(self._method, owner, name))
        key = name, id(watched)
        entry = _LayerEntry(weakref.ref(watched), owner, range_)
        with self._lock:
            self._entries[key] = (*self._alive(key, watched), entry)

        def end() -> None:
            with self._lock:
                left = tuple(other for other in self._entries.get(key, ()) if other is not entry)
                if left:
                    self._entries[key] = left
                else:
                    self._entries.pop(key, None)
            end_replacement()

        return end

    def in_backward(self) -> bool:
        """Return whether the thread is in a backward pass."""
        return "backward" in self._open.kinds

    def watch_class(self, owner: type, name: str) -> Callable[[], None]:
        """Ask `find` at each call of a class's function on an object that nobody watches; return what ends it."""
        return self.attributes.replace(owner, name, functools.partial(self._method, owner, name))

    def _alive(self, key: tuple[str, int], watched: object) -> tuple[_LayerEntry, ...]:
        """Return the entries of an object; those of a dead one with the same id are none of its."""
        return tuple(entry for entry in self._entries.get(key, ()) if entry.reference() is watched)

    def _method(self, owner: type, name: str, function: Function, is_wanted: Callable[[], bool]) -> Function:
        in_sot = self.in_sot

        @functools.wraps(function)
        def run(this: object, *args: object, **kwargs: object) -> object:
            if in_sot():  # for Paddle's compiler this is a constant, so the rest is not compiled in
                return function(this, *args, **kwargs)
            entries = self._entries.get((name, id(this)))
            if not is_wanted() or _ranges.is_off():
                return function(this, *args, **kwargs)
            if entries is None:
                found = None if self.find is None else self.find(name, this)
                if found is None:
                    return function(this, *args, **kwargs)
                return self._ranged(found, function, this, *args, **kwargs)
            entry = entries[0]
            if entry.reference() is not this or entry.owner is not owner:
                return function(this, *args, **kwargs)
            return self._ranged(entry.range_, function, this, *args, **kwargs)

        return run

    def _ranged(self, range_: WatchedPaddle, function: Function, *args: object, **kwargs: object) -> object:
        """Call a function in its range; an optimizer's or a backward pass in another one of its kind has none."""
        kind = range_.kind if range_.kind in ("optimizer", "backward") else None
        if kind is not None and kind in self._open.kinds:
            return function(*args, **kwargs)
        aside(range_.before)
        if kind is not None:
            self._open.kinds.add(kind)
        try:
            with _ranges.get_range(range_.name, range_.kind, range_.category):
                return function(*args, **kwargs)
        finally:
            if kind is not None:
                self._open.kinds.discard(kind)
            aside(range_.after)

    def watch_backward(self, owner: object, before: Callable[[], None]) -> Callable[[], None]:
        """Record the calls of `owner.backward`, of any loss; return a function that ends it."""
        end_replacement = self.attributes.replace(owner, "backward", self._backward)
        with self._lock:
            self._before_backward = (*self._before_backward, before)

        def end() -> None:
            with self._lock:
                self._before_backward = tuple(other for other in self._before_backward if other is not before)
            end_replacement()

        return end

    def _backward(self, function: Function, is_wanted: Callable[[], bool]) -> Function:
        def before() -> None:
            for begin in dict.fromkeys(self._before_backward):
                begin()
            FOUND.backward(_process.now())

        range_ = WatchedPaddle("backward", "backward", None, before, lambda: None)

        @functools.wraps(function)
        def run(*args: object, **kwargs: object) -> object:
            if not is_wanted() or _ranges.is_off():
                return function(*args, **kwargs)
            return self._ranged(range_, function, *args, **kwargs)

        return run


def _no() -> bool:
    return False


CALLS: Final = LayerCalls()

_LOADERS = Loaders(CALLS.attributes)
FOUND_LOADERS = FoundLoaders(CALLS.attributes, _LOADERS.has)
ITERATORS: Final = "paddle.io.dataloader.dataloader_iter"
"""The module of Paddle's iterators over loaders."""


class WatchedLayer(Protocol):
    """A paddle.nn.Layer with the layers in it."""

    def named_sublayers(self, *, include_self: bool) -> Iterable[tuple[str, object]]:
        """Give the layers with their paths, itself as the first."""


class WatchedPaddleOptimizer(Protocol):
    """A paddle.optimizer.Optimizer."""

    def step(self) -> object:
        """Update the parameters."""

    def minimize(self, loss: Any, /) -> object:
        """Update the parameters by the gradients of a loss."""


def watch(
    model: WatchedLayer,
    *,
    optimizer: WatchedPaddleOptimizer | Iterable[WatchedPaddleOptimizer] | None = None,
    dataloader: Iterable[object] | None = None,
    verbosity: int = 1,
    steps: bool = True,
) -> Watch:
    """Record the training loop of a model from now on; the package's text lists the ranges.

    model: a paddle.nn.Layer. optimizer: a Paddle optimizer, or several. dataloader: the object that the loop goes over;
    None finds Paddle's data loaders as they are read.
    steps=False: the program marks its steps itself (`tracekit.recorder.step`). The recorder may start and stop
    meanwhile.
    Raises: ImportError without Paddle; TypeError, ValueError for other arguments, and then nothing is watched.
    """
    import paddle

    if not isinstance(model, paddle.nn.Layer):
        raise TypeError(f"model is a paddle.nn.Layer, not {type(model).__name__}")
    check_verbosity(verbosity)
    optimizers = optimizers_of(optimizer, "paddle.optimizer.Optimizer", ("step", "minimize"))
    aside(CALLS.keep_out_of_compiled_code)
    watching = Watch(aside)
    loop_steps = LoaderSteps(wanted=steps and (dataloader is not None or bool(optimizers)))
    by_calls = loop_steps if dataloader is None and optimizers else None

    def begin_step() -> None:
        # With a loader that was found, a step is from one of its batches to the next.
        if by_calls is not None and paddle.is_grad_enabled() and not FOUND.in_batch():
            by_calls.begin(_process.now())

    def end_step() -> None:
        if by_calls is not None:
            by_calls.end(_process.now())

    try:
        if dataloader is not None:
            watching.watch_loader(dataloader, _LOADERS, loop_steps)
        elif ITERATORS in sys.modules:
            watching.at_end(FOUND_LOADERS.find_in_paddle(sys.modules[ITERATORS]))
            watching.at_end(FOUND.use(steps=steps))
        layers = model.named_sublayers(include_self=True) if verbosity == 2 else [("", model)]
        for path, layer in layers:
            watching.at_end(CALLS.watch(layer, "__call__", _layer(path, layer, layer is model, begin_step)))
        for owner in (paddle.Tensor, paddle.autograd):
            watching.at_end(CALLS.watch_backward(owner, begin_step))
        for watched in optimizers:
            after = end_step if watched is optimizers[-1] else _nothing
            range_ = WatchedPaddle("optimizer", "optimizer", type(watched).__name__, begin_step, after)
            for name in ("step", "minimize"):
                watching.at_end(CALLS.watch(watched, name, range_))
        watching.at_end(lambda: loop_steps.end(_process.now()))
    except BaseException:
        watching.remove()
        raise
    return watching


def _layer(path: str, layer: object, is_model: bool, before: Callable[[], None]) -> WatchedPaddle:
    if is_model:
        return WatchedPaddle("forward", "forward", None, before, _nothing)
    return WatchedPaddle(f"{path}.forward", None, type(layer).__name__, _nothing, _nothing)


def _nothing() -> None:
    return None


# A program that names neither its models nor its loaders.


_LOSSES = "paddle.nn.layer.loss"
_STEPS = ("step", "minimize")


class _OpenCall(threading.local):
    """The call that the thread is in. began: when the optimizer's step began."""

    in_model = False
    began = 0


class _FoundLayers:
    """The layers that a program calls. inner: record the layers in the models, too."""

    def __init__(self, paddle: Any, *, inner: bool) -> None:
        self._paddle, self._inner = paddle, inner
        self._open = _OpenCall()
        self._paths: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def find(self, name: str, called: Any) -> WatchedPaddle | None:
        """Return how to record a call, None where it is a part of something else."""
        if name in _STEPS:
            return self._optimizer(called)
        if self._open.in_model:
            path = self._paths.get(called) if self._inner else None
            return None if path is None else WatchedPaddle(f"{path}.forward", None, _class(called), _nothing, _nothing)
        if TIMED.depth or CALLS.in_backward() or self._is_worker():
            return None
        if self._inner and called not in self._paths:
            for path, layer in called.named_sublayers():
                self._paths.setdefault(layer, path)
        shown = "loss" if type(called).__module__ == _LOSSES else "forward"
        return WatchedPaddle(shown, "forward", _class(called), self._enter, self._leave)

    def _enter(self) -> None:
        self._open.in_model = True
        if self._paddle.is_grad_enabled():
            FOUND.forward(_process.now())

    def _leave(self) -> None:
        self._open.in_model = False

    def _optimizer(self, optimizer: Any) -> WatchedPaddle:
        def before() -> None:
            self._open.began = _process.now()

        def after() -> None:
            FOUND.optimizer(id(optimizer), self._open.began, _process.now())

        return WatchedPaddle("optimizer", "optimizer", _class(optimizer), before, after)

    def _is_worker(self) -> bool:
        return self._paddle.io.get_worker_info() is not None


def watch_program(*, verbosity: int = 1) -> Watch:
    """Record every model, optimizer and data loader of the program from now on, as `tracekit record` does.

    A model is a layer that the program calls itself, outside of other layers; a layer of paddle.nn.layer.loss makes the
    range `loss`. Layers that run in a worker, in the fetching of a batch or in a backward pass are part of that. An
    optimizer whose class comes later and has a `step` of its own is not seen, unless that calls its parent's. Steps are
    those of `watch` without a dataloader; where several optimizers take turns, a step ends with the last one.
    Raises: ImportError without Paddle; ValueError for another verbosity.
    """
    import paddle

    check_verbosity(verbosity)
    aside(CALLS.keep_out_of_compiled_code)
    watching = Watch(aside)
    CALLS.find = _FoundLayers(paddle, inner=verbosity == 2).find

    def forget() -> None:
        CALLS.find = None

    watching.at_end(forget)
    watching.at_end(FOUND.use(steps=True, by_calls=True))
    watching.at_end(CALLS.watch_class(paddle.nn.Layer, "__call__"))
    if ITERATORS in sys.modules:
        watching.at_end(FOUND_LOADERS.find_in_paddle(sys.modules[ITERATORS]))
    for place in (paddle.Tensor, paddle.autograd):
        watching.at_end(CALLS.watch_backward(place, _nothing))
    for owner in _with_subclasses(paddle.optimizer.Optimizer):
        for name in _STEPS:
            if name in vars(owner):
                watching.at_end(CALLS.watch_class(owner, name))
    return watching


def _with_subclasses(owner: type) -> list[type]:
    several: list[type] = [owner]
    below: type
    for below in owner.__subclasses__():
        several += _with_subclasses(below)
    return several


def _class(of: object) -> str:
    return type(of).__name__

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

A step begins when a batch is fetched and ends when the next one is; the last one ends with the loop. Without a
dataloader it begins with the first forward (with gradients on) and ends with the (last) optimizer's step. Steps are
overlapping ranges, as those of asyncio tasks; an NVTX tool sees a step from the arrival of its batch on.

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

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from tracekit.recorder import _clock
from tracekit.recorder.hooks.loader_steps import Loaders, Steps
from tracekit.recorder.hooks.watch import Watch, check_verbosity, optimizers_of
from tracekit.recorder.paddle._calls import CALLS, Watched, aside

__all__ = ["Watch", "watch"]

_LOADERS = Loaders(CALLS.attributes)


class Model(Protocol):
    """A paddle.nn.Layer with the layers in it."""

    def named_sublayers(self, *, include_self: bool) -> Iterable[tuple[str, object]]:
        """Give the layers with their paths, itself as the first."""


class Optimizer(Protocol):
    """A paddle.optimizer.Optimizer."""

    def step(self) -> object:
        """Update the parameters."""

    def minimize(self, loss: Any, /) -> object:
        """Update the parameters by the gradients of a loss."""


def watch(
    model: Model,
    *,
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
    dataloader: Iterable[object] | None = None,
    verbosity: int = 1,
    steps: bool = True,
) -> Watch:
    """Record the training loop of a model from now on; the package's text lists the ranges.

    model: a paddle.nn.Layer. optimizer: a Paddle optimizer, or several. dataloader: the object that the loop goes over.
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
    loop_steps = Steps(wanted=steps and (dataloader is not None or bool(optimizers)))
    by_calls = loop_steps if dataloader is None and optimizers else None

    def begin_step() -> None:
        if by_calls is not None and paddle.is_grad_enabled():
            by_calls.begin(_clock.now())

    def end_step() -> None:
        if by_calls is not None:
            by_calls.end(_clock.now())

    try:
        if dataloader is not None:
            watching.watch_loader(dataloader, _LOADERS, loop_steps)
        layers = model.named_sublayers(include_self=True) if verbosity == 2 else [("", model)]
        for path, layer in layers:
            watching.at_end(CALLS.watch(layer, "__call__", _layer(path, layer, layer is model, begin_step)))
        for owner in (paddle.Tensor, paddle.autograd):
            watching.at_end(CALLS.watch_backward(owner, begin_step))
        for watched in optimizers:
            after = end_step if watched is optimizers[-1] else _nothing
            range_ = Watched("optimizer", "optimizer", type(watched).__name__, begin_step, after)
            for name in ("step", "minimize"):
                watching.at_end(CALLS.watch(watched, name, range_))
        watching.at_end(lambda: loop_steps.end(_clock.now()))
    except BaseException:
        watching.remove()
        raise
    return watching


def _layer(path: str, layer: object, is_model: bool, before: Callable[[], None]) -> Watched:
    if is_model:
        return Watched("forward", "forward", None, before, _nothing)
    return Watched(f"{path}.forward", None, type(layer).__name__, _nothing, _nothing)


def _nothing() -> None:
    return None

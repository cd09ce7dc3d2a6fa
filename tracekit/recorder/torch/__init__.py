"""Watch a torch training loop without editing it: its data loader, forward, backward, optimizer and steps.

    from tracekit import recorder
    from tracekit.recorder.torch import watch

    recorder.start("run.jsonl")
    with watch(model, optimizer=optimizer, dataloader=loader, verbosity=2):
        for batch, target in loader:
            optimizer.zero_grad()
            loss = criterion(model(batch), target)
            loss.backward()
            optimizer.step()

Verbosity 1 records ranges of these kinds:

- `dataloader`: each `next` of the loader;
- `forward`: each call of the model;
- `backward`: each outermost `torch.autograd.backward` of the process, which `loss.backward()` calls, of any loss;
- `optimizer` and `step`.

Verbosity 2 adds a range `<path>.forward` and `<path>.backward` for each call of each module of the model, with the
module's class as category. They nest exactly in the `forward` and `backward` ranges. Work that gradient checkpointing
repeats is in the `backward` that needs it. On a GPU the modules' backward is on autograd's thread for that device.

A step begins when a batch is fetched and ends when the next one is; the last one ends with the loop. Without a
dataloader it begins with the first forward (with gradients on) and ends with the (last) optimizer's step. Steps are
overlapping ranges, as those of asyncio tasks; an NVTX tool sees a step from the arrival of its batch on.

It is a guest: nothing is put into the model. Its hooks are torch's process-wide ones, and hooks on autograd nodes,
which see gradients and return nothing. Results, and the model's copies, pickles and state, stay as they are.
`torch.autograd.backward` and the `__iter__` of the loader's class are replaced during a watch; `remove`, or the end of
the `with`, restores them. A graph that lives longer keeps its hooks, which then do nothing.

Limits:

- A compiled program (`torch.compile`) is recorded from outside: watch the compiled model, and its calls are ranges, its
  modules are not. A model that compiles itself in place (`model.compile()`) must do so before `watch`.
- Modules added after `watch`, and calls of `module.forward` itself, are not recorded.
- `torch.autograd.grad`, and a `backward` imported by name from torch.autograd, have no `backward` range; their modules
  have.
- A module that makes no autograd node (Identity) has no backward.
- A module that runs parts of its forward on other threads (DataParallel) may end its own backward early or late, never
  across another's.

It needs torch 2.1 or newer; this package can be imported without torch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Protocol

from tracekit.recorder import _clock, _ranges
from tracekit.recorder.hooks.loader_steps import Loaders, Steps
from tracekit.recorder.hooks.watch import Watch, check_verbosity, optimizers_of
from tracekit.recorder.torch._module_calls import CALLS, Handle, Module, Watched
from tracekit.recorder.torch._phases import OPTIMIZER

__all__ = ["Watch", "watch"]

_LOADERS = Loaders(CALLS.attributes)


class Model(Module, Protocol):
    """A torch.nn.Module with the modules in it."""

    def named_modules(self) -> Iterable[tuple[str, Module]]:
        """Give the modules with their paths, itself as the first."""


class Optimizer(Protocol):
    """A torch.optim.Optimizer."""

    def register_step_pre_hook(self, hook: Callable[..., None], /) -> Handle:
        """Call the hook before each step."""

    def register_step_post_hook(self, hook: Callable[..., None], /) -> Handle:
        """Call the hook behind each step."""


def watch(
    model: Model,
    *,
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
    dataloader: Iterable[object] | None = None,
    verbosity: int = 1,
    steps: bool = True,
) -> Watch:
    """Record the training loop of a model from now on; the package's text lists the ranges.

    model: a torch.nn.Module. optimizer: a torch optimizer, or several. dataloader: the object that the loop goes over.
    steps=False: the program marks its steps itself (`tracekit.recorder.step`). The recorder may start and stop
    meanwhile.
    Raises: ImportError without torch; TypeError, ValueError for other arguments, and then nothing is watched.
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model is a torch.nn.Module, not {type(model).__name__}")
    check_verbosity(verbosity)
    hooks = ("register_step_pre_hook", "register_step_post_hook")
    optimizers = optimizers_of(optimizer, "torch.optim.Optimizer", hooks)
    watching = Watch(CALLS.aside)
    loop_steps = Steps(wanted=steps and (dataloader is not None or bool(optimizers)))
    try:
        if dataloader is not None:
            watching.watch_loader(dataloader, _LOADERS, loop_steps)
        _watch_model(watching, model, torch, loop_steps if dataloader is None and optimizers else None, verbosity)
        for watched in optimizers:
            ends_step = watched is optimizers[-1] and dataloader is None
            _watch_optimizer(watching, watched, torch.compiler.is_compiling, loop_steps if ends_step else None)
        watching.at_end(lambda: loop_steps.end(_clock.now()))
    except BaseException:
        watching.remove()
        raise
    return watching


def _watch_model(watching: Watch, model: Model, torch: Any, steps: Steps | None, verbosity: int) -> None:
    def begin_step() -> None:
        if steps is not None and watching.active and torch.is_grad_enabled():
            steps.begin(_clock.now())

    modules = []
    for path, module in model.named_modules() if verbosity == 2 else [("", model)]:
        kind = type(module).__name__
        root = module is model
        modules.append(
            Watched(
                hooks=module._forward_hooks,
                name=path or kind,
                class_name=kind,
                root=root,
                backward=verbosity == 2,
                before=begin_step,
                active=lambda: watching.active,
            )
        )
    watching.at_end(CALLS.add(torch, modules))
    attributes = CALLS.attributes
    watching.at_end(attributes.replace(torch.autograd, "backward", CALLS.backward))
    if vars(model).get("_compiled_call_impl") is not None:
        watching.at_end(
            attributes.replace(
                model, "_compiled_call_impl", lambda call, wanted: CALLS.around(call, wanted, modules[0])
            )
        )
    if steps is not None:
        CALLS.before_backward = (*CALLS.before_backward, begin_step)

        def forget() -> None:
            CALLS.before_backward = tuple(call for call in CALLS.before_backward if call is not begin_step)

        watching.at_end(forget)


def _watch_optimizer(
    watching: Watch, optimizer: Optimizer, is_compiling: Callable[[], bool], steps: Steps | None
) -> None:
    stack, category = CALLS.stack, type(optimizer).__name__

    def begin(frame: FrameType) -> None:
        if _ranges.is_off():
            return
        stack.cut_finished(CALLS.task(), frame.f_back)
        opened = stack.find(OPTIMIZER, optimizer)
        if opened is not None:  # the step of a subclass that calls its parent's, which has the hooks too
            opened.again += 1
            return
        if steps is not None:
            steps.begin(_clock.now())
        opened = stack.begin(OPTIMIZER, optimizer, "optimizer", "optimizer", category=category)
        opened.code, opened.owner = frame.f_code, optimizer

    def end() -> None:
        opened = stack.find(OPTIMIZER, optimizer)
        if opened is None:
            return
        if opened.again:
            opened.again -= 1
            return
        stack.cut_inside(opened)
        stack.end(opened)
        if steps is not None:
            steps.end(_clock.now())

    def before(*_: object) -> None:
        if not is_compiling():  # see CALLS' hooks
            CALLS.aside(begin, sys._getframe(1))

    def after(*_: object) -> None:
        if not is_compiling():
            CALLS.aside(end)

    watching.at_end(optimizer.register_step_pre_hook(CALLS.not_traced(before)).remove)
    watching.at_end(optimizer.register_step_post_hook(CALLS.not_traced(after)).remove)

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

A step begins when a batch is fetched and ends when the next one is; the last one ends with the loop. Its `num_samples`
is the number of samples of the batch, where the loader or the batch shows it. Steps are overlapping ranges, as those of
asyncio tasks; an NVTX tool sees a step from the arrival of its batch on.

Without `dataloader` the loaders of torch are found as the program reads from them. A step is then a batch that was
trained on, and is written when it has ended; a batch that was not is a range named `batch`. In a loop without a torch
loader a step begins with the first forward (with gradients on) and ends with the (last) optimizer's step.

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

import contextlib
import dataclasses
import functools
import importlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from tracekit.recorder import _process, _ranges
from tracekit.recorder._session import SESSION
from tracekit.recorder.hooks.found_loaders import FoundLoaders
from tracekit.recorder.hooks.found_steps import FOUND
from tracekit.recorder.hooks.loader import (
    TIMED,
    Attributes,
    Loaders,
    LoaderSteps,
    Watch,
    check_verbosity,
    ignore_warning,
    optimizers_of,
)

__all__ = ["Watch", "watch", "watch_program"]


def __dir__() -> list[str]:
    return sorted(__all__)


# The autograd graph that a call of a module has made: its first and last node.


NO_NUMBER = (1 << 64) - 1
"""Number of the nodes that accumulate gradients: they run as soon as they can."""
MAX_RESULTS = 10_000


class Node(Protocol):
    """A node of torch's autograd graph."""

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes that run after this one in a backward pass."""

    def _sequence_nr(self) -> int: ...

    def register_hook(self, hook: Callable[[object, object], None], /) -> object:
        """Call the hook behind the node."""

    def register_prehook(self, hook: Callable[[object], None], /) -> object:
        """Call the hook before the node."""


class Tensor(Protocol):
    """A tensor of torch."""

    @property
    def grad_fn(self) -> Node | None:
        """The node that made it."""


class ModelPart(NamedTuple):
    """The part of a graph that one call has made.

    lowest: the node with the lowest number, which runs last, None where only nodes without a number were made.
    number: its number. before: the nodes from which the part goes on.
    """

    lowest: Node | None
    number: int
    before: list[Node]


def nodes_of(result: object, tensor: type[Tensor]) -> Iterator[Node]:
    """Give the autograd nodes of the tensors in a module's result: in tuples, lists, dicts and dataclasses."""
    todo = [result]
    for _ in range(MAX_RESULTS):
        if not todo:
            return
        value = todo.pop()
        if isinstance(value, tensor):
            if value.grad_fn is not None:
                yield value.grad_fn
        elif isinstance(value, tuple | list):
            todo += value
        elif isinstance(value, dict):
            todo += value.values()
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            todo += [getattr(value, field.name, None) for field in dataclasses.fields(value)]


def part_since(since: int, ends: Iterable[Node], inner: dict[Node, ModelPart]) -> ModelPart:
    """Return the part of the nodes from number `since` on that lead to `ends`.

    inner: the parts of calls inside, by the nodes of their results; these are not walked again.
    """
    seen: set[Node] = set()
    todo = list(ends)
    lowest, number = None, NO_NUMBER
    before = []
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        own = node._sequence_nr()
        if own < since:
            before.append(node)
            continue
        known = inner.get(node)
        if known is not None and known.lowest is not None:
            node, own = known.lowest, known.number
            todo += known.before
        else:
            todo += [following for following, _ in node.next_functions if following is not None]
        if own < number:
            lowest, number = node, own
    return ModelPart(lowest, number, before)


# The ranges that are open on a thread of a watched training loop: one stack, so that ranges always nest.
#
# Begin and end come from hooks, not from a `with`. An end may fail to come (KeyboardInterrupt passes hooks by), and a
# backward pass shows by its order alone when a module is over. So an end also ends what is above it on the stack. A
# range
# that is over according to the frames of the thread is cut: it ends there, unfinished in the log.


FORWARD = "forward"
BACKWARD = "backward"
OPTIMIZER = "optimizer"
MODULE_BACKWARD = "module backward"


class ModuleCall:
    """One call of a watched module. since: number of the first autograd node that it may have made, on its thread.

    Nodes of the graph hold it by their hooks: it must not hold a node or tensor, or neither would ever be freed.
    """

    __slots__ = ("category", "is_watched", "name", "parent", "since")

    def __init__(
        self, name: str, category: str, parent: ModuleCall | None, since: int, is_watched: Callable[[], bool]
    ) -> None:
        self.name, self.category, self.parent, self.since = name, category, parent, since
        self.is_watched = is_watched

    def inside(self, other: ModuleCall) -> bool:
        """Return whether this call is part of the other."""
        call: ModuleCall | None = self
        while call is not None:
            if call is other:
                return True
            call = call.parent
        return False


class OpenPhase:
    """A range that is open.

    key: the object by which its end finds it. code, owner: of the frame that began it and its `self`, where they show
    its end. again: how often it was begun in itself. lexical: its end cannot fail to come. inner: the graphs of the
    calls in it, by the nodes of their results.
    """

    __slots__ = ("again", "begun", "call", "code", "end", "inner", "key", "lexical", "owner", "phase", "range_", "task")

    def __init__(self, phase: str, key: object, range_: _ranges.Range, call: ModuleCall | None, task: int) -> None:
        range_.__enter__()
        self.phase, self.key, self.range_, self.call, self.task = phase, key, range_, call, task
        self.end: Callable[[None, None, None], None] = range_.__exit__  # of the class that began it, as `with` has it
        self.code: CodeType | None = None
        self.owner: object = None
        self.again = 0
        self.begun = 0
        self.lexical = False
        self.inner: dict[Node, ModelPart] = {}


class Stack(threading.local):
    """The calling thread's stack."""

    def __init__(self) -> None:
        self.items: list[OpenPhase] = []

    def begin(
        self,
        phase: str,
        key: object,
        name: str,
        kind: str | None,
        *,
        category: str | None = None,
        call: ModuleCall | None = None,
        task: int = -1,
    ) -> OpenPhase:
        """Begin a range."""
        opened = OpenPhase(phase, key, _ranges.get_range(name, kind, category), call, task)
        self.items.append(opened)
        return opened

    def find(self, phase: str, key: object) -> OpenPhase | None:
        """Return the innermost open range of that phase and key."""
        for opened in reversed(self.items):
            if opened.phase == phase and opened.key is key:
                return opened
        return None

    def end(self, opened: OpenPhase) -> None:
        """End a range and whatever is still open in it; one that is not open any more stays as it is."""
        while opened in self.items:
            last = self.items.pop()
            last.end(None, None, None)

    def cut(self) -> None:
        """End the innermost range; its true end is unknown."""
        opened = self.items.pop()
        if not _ranges.is_off() and opened.range_.generation == SESSION.generation:
            SESSION.count("range_crossed")
            opened.range_.cut(_process.now())

    def cut_inside(self, opened: OpenPhase) -> None:
        """Cut the ranges that are still open in one that ends now."""
        while self.items[-1] is not opened:
            self.cut()

    def cut_finished(self, task: int, frame: FrameType | None) -> None:
        """Cut the ranges that an exception has ended unseen.

        task: the backward pass that runs on this thread, -1: none. frame: the frame around the range that begins now.
        """
        while self.items and not self._runs(task, frame):
            self.cut()

    def _runs(self, task: int, frame: FrameType | None) -> bool:
        """Return whether the innermost range may still be open."""
        for opened in reversed(self.items):
            if opened.lexical:
                return True
            if opened.phase == MODULE_BACKWARD and task < 0:
                return False
            if opened.code is not None:
                while frame is not None:
                    if frame.f_code is opened.code and frame.f_locals.get("self") is opened.owner:
                        return True
                    frame = frame.f_back
                return False
        return True


# Modules of torch: their forward by hooks, their backward by the autograd nodes that the forward made.
#
# Forward: torch's process-wide module hooks, which leave the model as it is: it is copied, pickled, scripted and
# replicated as ever, and copies of it are not watched. A module is recognised by its dict of forward hooks, which the
# replicas of DataParallel share with it and deep copies do not.
#
# Backward: full backward hooks put a node of their own around a module, and then an in-place operation on its result
# (`ReLU(inplace=True)` behind it) raises. So the graph stays as it is: autograd numbers the nodes of a thread as they
# are
# made, and runs them from the highest number down. A module's backward begins as the node of one of its results runs,
# and
# ends behind the node with the lowest number that it made; each of the two gets a hook. The accumulation into its last
# parameter's `grad` may come just after. Where the order does not hold (one module on several devices) a range ends
# as the next one begins.
#
# Source: torch 2.13 (torch/nn/modules/module.py; torch/csrc/autograd/engine.cpp: CompareNodeTaskTime and sequence_nr).


P = ParamSpec("P")
R = TypeVar("R")
Function = TypeVar("Function", bound=Callable[..., object])
COMPILED = "Using `torch.compile(module)` when there are global hooks on modules"
"""So each call of a compiled module warns while there are process-wide hooks. Ours do nothing in compiled code."""
FAILED = "watch_failed"


class Module(Protocol):
    """A torch.nn.Module."""

    @property
    def _forward_hooks(self) -> object: ...


class HookHandle(Protocol):
    """A hook of torch that can be removed."""

    def remove(self) -> None:
        """Remove the hook."""


class _Caller(Protocol):
    def __call__(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...


class WatchedTorch(NamedTuple):
    """A module of a watched model. hooks: its dict of forward hooks, by which it is recognised.

    shown, category: name and category of the range of a root.
    """

    hooks: object
    name: str
    class_name: str
    root: bool
    backward: bool
    before: Callable[[], None]
    active: Callable[[], bool]
    shown: str = FORWARD
    category: str | None = None


class ModuleCalls:
    """The watches of this process. Torch's process-wide hooks are set while there is one."""

    def __init__(self) -> None:
        self.stack = Stack()
        self.attributes = Attributes()
        self._lock = threading.RLock()
        self._watched: dict[int, tuple[WatchedTorch, ...]] = {}
        self._handles: list[HookHandle] = []
        self._warn_again: Callable[[], None] = lambda: None
        self._torch: Any = None
        self._compiles = False
        self._codes: set[CodeType] = {ModuleCalls.aside.__code__}
        self._call: _Caller = _call
        self.before_backward: tuple[Callable[[], None], ...] = ()
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        """What a watch was given."""
        self.find: Callable[[Module], tuple[WatchedTorch, ...] | None] | None = None
        """Returns how to record a module that nobody watches, None where it is not recorded. See `watch_unknown`."""

    def add(self, torch: Any, modules: Iterable[WatchedTorch]) -> Callable[[], None]:
        """Watch modules; return a function that ends it.

        A module that two watches have is recorded once, by the first's name.
        """
        own = list(modules)
        with self._lock:
            self._torch = torch
            for module in own:
                key = id(module.hooks)
                self._watched[key] = (*self._watched.get(key, ()), module)
            self._set_hooks()

        def end() -> None:
            with self._lock:
                for module in own:
                    key = id(module.hooks)
                    left = tuple(other for other in self._watched.get(key, ()) if other is not module)
                    if left:
                        self._watched[key] = left
                    else:
                        self._watched.pop(key, None)
                own.clear()
                self._remove_hooks()

        return end

    def watch_unknown(
        self, torch: Any, find: Callable[[Module], tuple[WatchedTorch, ...] | None]
    ) -> Callable[[], None]:
        """Ask `find` at each call of a module that nobody watches; return a function that ends it."""
        with self._lock:
            self._torch, self.find = torch, find
            self._set_hooks()

        def end() -> None:
            with self._lock:
                self.find = None
                self._remove_hooks()

        return end

    def _set_hooks(self) -> None:
        if not self._handles:
            hooks = self._torch.nn.modules.module
            before, after = self._hooks(self._torch.compiler.is_compiling)
            self._handles = [
                hooks.register_module_forward_pre_hook(before),
                hooks.register_module_forward_hook(after, always_call=True),
            ]
            self._warn_again = ignore_warning(COMPILED)

    def _remove_hooks(self) -> None:
        """Remove torch's hooks when nobody needs them any more."""
        if self._watched or self.find is not None:
            return
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._warn_again()
        while self.stack.items:
            self.stack.cut()

    def task(self) -> int:
        """Return the number of the backward pass that runs on this thread, -1 without one."""
        number = getattr(self._torch._C, "_current_graph_task_id", None)
        return -1 if number is None else int(number())

    # Forward

    def _hooks(
        self, is_compiling: Callable[[], bool]
    ) -> tuple[Callable[[Module, object], None], Callable[[Module, object, object], None]]:
        watched = self._watched

        def before(module: Module, _: object) -> None:
            # Where torch.compile traces, this is a constant, and the hook stays out of the compiled program.
            if is_compiling():
                return
            watches = watched.get(id(module._forward_hooks))
            if watches is None and self.find is not None:
                watches = self.find(module)
            if watches is not None:
                self.aside(self._begin_forward, module, watches[0], sys._getframe(1))

        def after(module: Module, _: object, result: object) -> None:
            if is_compiling():
                return
            watches = watched.get(id(module._forward_hooks))
            if watches is not None:
                self.aside(self._end_forward, watches[0], result)

        return self.not_traced(before), self.not_traced(after)

    def not_traced(self, function: Function) -> Function:
        """Return the function. torch.compile skips its frame where it compiles the caller."""
        code = function.__code__
        if code not in self._codes:
            self._codes.add(code)
            if self._compiles:
                self._skip([code])
        return function

    def _skip(self, codes: Iterable[CodeType]) -> None:
        with contextlib.suppress(Exception):  # it has no public name
            for code in codes:
                self._torch._dynamo.eval_frame.skip_code(code)

    def aside(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Call a part of the watch: its faults are counted, and torch.compile does not look into it."""
        try:
            if not self._compiles and self._torch is not None and "torch._dynamo" in sys.modules:
                self._call = self._torch.compiler.disable(_call)
                self._skip(self._codes)
                self._compiles = True
            return self._call(function, *args, **kwargs)
        except Exception:  # noqa: BLE001 - a guest does not raise
            SESSION.count(FAILED)
            return None

    def _begin_forward(self, module: Module, watched: WatchedTorch, frame: FrameType) -> None:
        if _ranges.is_off():
            return
        stack = self.stack
        if watched.root:
            if stack.items:
                stack.cut_finished(self.task(), frame.f_back)
            watched.before()
        call = None
        if watched.backward:
            parent = next((item.call for item in reversed(stack.items) if item.call is not None), None)
            since = self._torch._C._autograd._get_sequence_nr()
            call = ModuleCall(watched.name, watched.class_name, parent, since, watched.active)
        if watched.root:
            around = stack.items[-1] if stack.items else None
            if around is not None and around.lexical and around.key is watched:
                around.call = call  # compiled in place, but torch runs it as it is
                return
            opened = stack.begin(FORWARD, watched, watched.shown, "forward", category=watched.category, call=call)
            opened.code, opened.owner = frame.f_code, module
        else:
            name = f"{watched.name}.forward"
            stack.begin(FORWARD, watched, name, None, category=watched.class_name, call=call)

    def _end_forward(self, watched: WatchedTorch, result: object) -> None:
        stack = self.stack
        opened = stack.find(FORWARD, watched)
        if opened is None:
            return
        stack.cut_inside(opened)
        if not opened.lexical:
            stack.end(opened)
        if opened.call is not None:
            forwards = (item for item in reversed(stack.items) if item.phase == FORWARD and item is not opened)
            around = next(forwards, None)
            self._find_backward(opened.call, opened, around, result)

    def around(self, function: Callable[P, R], is_wanted: Callable[[], bool], watched: WatchedTorch) -> Callable[P, R]:
        """Return the compiled call of a module that is compiled in place, with the range that its hooks cannot make."""

        def begin() -> OpenPhase | None:
            if not is_wanted() or _ranges.is_off():
                return None
            self.stack.cut_finished(self.task(), sys._getframe())
            watched.before()
            opened = self.stack.begin(FORWARD, watched, "forward", "forward")
            opened.lexical = True
            return opened

        return self._around(function, begin)

    def _around(self, function: Callable[P, R], begin: Callable[[], OpenPhase | None]) -> Callable[P, R]:
        is_compiling = self._torch.compiler.is_compiling

        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            if is_compiling():
                return function(*args, **kwargs)
            opened = self.aside(begin)
            try:
                return function(*args, **kwargs)
            finally:
                if opened is not None:
                    self.aside(self.stack.end, opened)

        return self.not_traced(run)

    # Backward

    def _find_backward(self, call: ModuleCall, opened: OpenPhase, around: OpenPhase | None, result: object) -> None:
        """Put hooks on the first and the last node that will run of those that this call has made."""
        ends = {node for node in nodes_of(result, self._torch.Tensor) if node._sequence_nr() >= call.since}
        if not ends:
            return
        part = part_since(call.since, ends, opened.inner)
        for node in ends:
            node.register_prehook(self._beginning_of(call))
            if around is not None and part.lowest is not None:
                around.inner[node] = part
        if part.lowest is not None:
            part.lowest.register_hook(self._end_of(call))

    def _beginning_of(self, call: ModuleCall) -> Callable[[object], None]:
        def begin(_: object) -> None:
            self.aside(self._begin_backward, call)

        return self.not_traced(begin)

    def _end_of(self, call: ModuleCall) -> Callable[[object, object], None]:
        def end(_: object, __: object) -> None:
            self.aside(self._end_backward, call)

        return self.not_traced(end)

    def _end_backward(self, call: ModuleCall) -> None:
        opened = self.stack.find(MODULE_BACKWARD, call)
        if opened is not None:
            self.stack.end(opened)

    def _begin_backward(self, call: ModuleCall) -> None:
        if _ranges.is_off() or not call.is_watched():
            return
        if self.stack.find(MODULE_BACKWARD, call) is not None:  # another of its results, or a call inside began first
            return
        items, task = self.stack.items, self.task()
        while items and items[-1].phase == MODULE_BACKWARD:
            last = items[-1]
            if last.call is not None and call.inside(last.call):
                break
            if last.task == task:
                self.stack.end(last)
            else:
                self.stack.cut()
        missing: list[ModuleCall] = []
        within: ModuleCall | None = call
        while within is not None and self.stack.find(MODULE_BACKWARD, within) is None:
            missing.append(within)
            within = within.parent
        for begun in reversed(missing):
            name = f"{begun.name}.backward"
            self.stack.begin(MODULE_BACKWARD, begun, name, None, category=begun.category, call=begun, task=task)

    def before_each_backward(self, function: Callable[[], None]) -> Callable[[], None]:
        """Call a function before each outermost backward pass; return a function that ends it."""
        self.before_backward = (*self.before_backward, function)

        def forget() -> None:
            self.before_backward = tuple(call for call in self.before_backward if call is not function)

        return forget

    def backward(self, function: Callable[P, R], is_wanted: Callable[[], bool]) -> Callable[P, R]:
        """Return torch.autograd.backward with a range around its outermost call."""

        def begin() -> OpenPhase | None:
            task = self.task()
            if not is_wanted() or _ranges.is_off() or task >= 0 or self.stack.find(BACKWARD, self) is not None:
                return None
            self.stack.cut_finished(task, sys._getframe())
            for before in self.before_backward:
                before()
            FOUND.backward(_process.now())
            opened = self.stack.begin(BACKWARD, self, "backward", "backward")
            opened.lexical = True
            return opened

        return self._around(function, begin)


def _call(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    return function(*args, **kwargs)


CALLS = ModuleCalls()

_LOADERS = Loaders(CALLS.attributes)
FOUND_LOADERS = FoundLoaders(CALLS.attributes, _LOADERS.has)


class WatchedModule(Module, Protocol):
    """A torch.nn.Module with the modules in it."""

    def named_modules(self) -> Iterable[tuple[str, Module]]:
        """Give the modules with their paths, itself as the first."""


class WatchedOptimizer(Protocol):
    """A torch.optim.Optimizer."""

    def register_step_pre_hook(self, hook: Callable[..., None], /) -> HookHandle:
        """Call the hook before each step."""

    def register_step_post_hook(self, hook: Callable[..., None], /) -> HookHandle:
        """Call the hook behind each step."""


def watch(
    model: WatchedModule,
    *,
    optimizer: WatchedOptimizer | Iterable[WatchedOptimizer] | None = None,
    dataloader: Iterable[object] | None = None,
    verbosity: int = 1,
    steps: bool = True,
) -> Watch:
    """Record the training loop of a model from now on; the package's text lists the ranges.

    model: a torch.nn.Module. optimizer: a torch optimizer, or several. dataloader: the object that the loop goes over;
    None finds torch's data loaders as they are read.
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
    loop_steps = LoaderSteps(wanted=steps and (dataloader is not None or bool(optimizers)))
    by_calls = dataloader is None and bool(optimizers)

    def begin_step() -> None:
        # With a loader that was found, a step is from one of its batches to the next.
        if by_calls and watching.active and torch.is_grad_enabled() and not FOUND.in_batch():
            loop_steps.begin(_process.now())

    def end_step() -> None:
        if by_calls:
            loop_steps.end(_process.now())

    try:
        if dataloader is not None:
            watching.watch_loader(dataloader, _LOADERS, loop_steps)
        else:
            watching.at_end(FOUND_LOADERS.find_in_torch(torch))
            watching.at_end(FOUND.use(steps=steps))
        _watch_model(watching, model, torch, begin_step, verbosity)
        for watched in optimizers:
            ends_step = end_step if watched is optimizers[-1] else _nothing
            begins_step = begin_step if watched is optimizers[-1] else _nothing
            _watch_optimizer(watching, watched, torch.compiler.is_compiling, begins_step, ends_step)
        watching.at_end(lambda: loop_steps.end(_process.now()))
    except BaseException:
        watching.remove()
        raise
    return watching


def _watch_model(
    watching: Watch, model: WatchedModule, torch: Any, begin_step: Callable[[], None], verbosity: int
) -> None:
    modules = []
    for path, module in model.named_modules() if verbosity == 2 else [("", model)]:
        kind = type(module).__name__
        root = module is model
        modules.append(
            WatchedTorch(
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
    watching.at_end(CALLS.before_each_backward(begin_step))


def optimizer_hooks(
    is_compiling: Callable[[], bool],
    begin_step: Callable[[], None],
    end_step: Callable[[object, int], None],
    *,
    unnamed: bool = False,
) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return two hooks, before and after an optimizer's step. end_step: takes the optimizer, and when it began.

    unnamed: for all optimizers that no watch was given.
    """
    stack = CALLS.stack

    def begin(optimizer: object, frame: FrameType) -> None:
        if _ranges.is_off():
            return
        stack.cut_finished(CALLS.task(), frame.f_back)
        opened = stack.find(OPTIMIZER, optimizer)
        if opened is not None:  # the step of a subclass that calls its parent's, which has the hooks too
            opened.again += 1
            return
        begin_step()
        opened = stack.begin(OPTIMIZER, optimizer, "optimizer", "optimizer", category=type(optimizer).__name__)
        opened.code, opened.owner, opened.begun = frame.f_code, optimizer, _process.now()

    def end(optimizer: object) -> None:
        opened = stack.find(OPTIMIZER, optimizer)
        if opened is None:
            return
        if opened.again:
            opened.again -= 1
            return
        stack.cut_inside(opened)
        stack.end(opened)
        end_step(optimizer, opened.begun)

    def before(optimizer: object, *_: object) -> None:
        if not is_compiling() and not (unnamed and optimizer in CALLS.optimizers):  # see CALLS' hooks
            CALLS.aside(begin, optimizer, sys._getframe(1))

    def after(optimizer: object, *_: object) -> None:
        if not is_compiling() and not (unnamed and optimizer in CALLS.optimizers):
            CALLS.aside(end, optimizer)

    return CALLS.not_traced(before), CALLS.not_traced(after)


def _watch_optimizer(
    watching: Watch,
    optimizer: WatchedOptimizer,
    is_compiling: Callable[[], bool],
    begin_step: Callable[[], None],
    end_step: Callable[[], None],
) -> None:
    def end(stepped: object, begun: int) -> None:
        FOUND.optimizer(id(stepped), begun, _process.now())
        end_step()

    before, after = optimizer_hooks(is_compiling, begin_step, end)
    CALLS.optimizers.add(optimizer)
    watching.at_end(lambda: CALLS.optimizers.discard(optimizer))
    watching.at_end(optimizer.register_step_pre_hook(before).remove)
    watching.at_end(optimizer.register_step_post_hook(after).remove)


def _nothing() -> None:
    return None


# A program that names neither its models nor its loaders.


_LOSSES = "torch.nn.modules.loss"
_INSIDE = (FORWARD, BACKWARD, MODULE_BACKWARD)


class _FoundModels:
    """The models that have been found. inner: record their inner modules, too."""

    def __init__(self, torch: Any, *, inner: bool) -> None:
        self._torch, self._inner = torch, inner
        self._lock = threading.RLock()
        self._ends: dict[int, tuple[weakref.ref[Any], Callable[[], None]]] = {}

    def find(self, module: Any) -> tuple[WatchedTorch, ...] | None:
        """Return how to record a module that is called, None where it is a part of something else."""
        items = CALLS.stack.items
        # Most calls are inside of a model: the first look decides, since it comes at every call of a module.
        if items and (items[-1].phase == FORWARD or any(item.phase in _INSIDE for item in items)):
            return None
        if _ranges.is_off() or TIMED.depth or CALLS.task() >= 0 or self._is_worker():
            return None
        with self._lock:
            root = self._watched(module, "", root=True)
            # A module below that is a model of its own right, called by itself before, stays what it is.
            modules = [root]
            if self._inner:
                modules += [
                    self._watched(each, path, root=False)
                    for path, each in module.named_modules()
                    if path and id(each) not in self._ends
                ]
            key, end = id(module), CALLS.add(self._torch, modules)
            self._ends[key] = (weakref.ref(module, lambda _: self._forget(key)), end)
        return (root,)

    def end(self) -> None:
        """Watch none of them any more."""
        with self._lock:
            ends, self._ends = list(self._ends.values()), {}
        for _, end in ends:
            end()

    def _forget(self, key: int) -> None:
        with self._lock:
            entry = self._ends.pop(key, None)
        if entry is not None:
            entry[1]()

    def _is_worker(self) -> bool:
        return self._torch.utils.data.get_worker_info() is not None

    def _watched(self, module: Any, path: str, *, root: bool) -> WatchedTorch:
        kind = type(module).__name__
        return WatchedTorch(
            hooks=module._forward_hooks,
            name=path or kind,
            class_name=kind,
            root=root,
            backward=self._inner,
            before=self._before,
            active=lambda: True,
            shown="loss" if type(module).__module__ == _LOSSES else FORWARD,
            category=kind,
        )

    def _before(self) -> None:
        if self._torch.is_grad_enabled():
            FOUND.forward(_process.now())


def watch_program(*, verbosity: int = 1) -> Watch:
    """Record every model, optimizer and data loader of the program from now on, as `tracekit record` does.

    A model is a module that the program calls itself, outside of other modules; a module of torch.nn.modules.loss makes
    the range `loss`. Modules that run in a worker, in the fetching of a batch or in a backward pass are part of that.
    Steps are those of `watch` without a dataloader; where several optimizers take turns, a step ends with the last one.
    Raises: ImportError without torch; ValueError for another verbosity.
    """
    import torch

    check_verbosity(verbosity)
    watching = Watch(CALLS.aside)
    models = _FoundModels(torch, inner=verbosity == 2)
    watching.at_end(FOUND.use(steps=True, by_calls=True))
    watching.at_end(FOUND_LOADERS.find_in_torch(torch))
    watching.at_end(models.end)
    watching.at_end(CALLS.watch_unknown(torch, models.find))
    watching.at_end(CALLS.attributes.replace(torch.autograd, "backward", CALLS.backward))

    def end_step(optimizer: object, begun: int) -> None:
        FOUND.optimizer(id(optimizer), begun, _process.now())

    before, after = optimizer_hooks(torch.compiler.is_compiling, _nothing, end_step, unnamed=True)
    optimizers = importlib.import_module("torch.optim.optimizer")  # torch.optim hides the name
    watching.at_end(optimizers.register_optimizer_step_pre_hook(before).remove)
    watching.at_end(optimizers.register_optimizer_step_post_hook(after).remove)
    return watching

"""Modules of torch: their forward by hooks, their backward by the autograd nodes that the forward made.

Forward: torch's process-wide module hooks, which leave the model as it is: it is copied, pickled, scripted and
replicated as ever, and copies of it are not watched. A module is recognised by its dict of forward hooks, which the
replicas of DataParallel share with it and deep copies do not.

Backward: full backward hooks put a node of their own around a module, and then an in-place operation on its result
(`ReLU(inplace=True)` behind it) raises. So the graph stays as it is: autograd numbers the nodes of a thread as they are
made, and runs them from the highest number down. A module's backward begins as the node of one of its results runs, and
ends behind the node with the lowest number that it made; each of the two gets a hook. The accumulation into its last
parameter's `grad` may come just after. Where the order does not hold (one module on several devices) a range ends
as the next one begins.

Source: torch 2.13 (torch/nn/modules/module.py; torch/csrc/autograd/engine.cpp: CompareNodeTaskTime and sequence_nr).
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from tracekit.recorder import _ranges
from tracekit.recorder._session import SESSION
from tracekit.recorder.hooks.attributes import Attributes, ignore_warning
from tracekit.recorder.torch._graph import nodes_of, part_since
from tracekit.recorder.torch._phases import BACKWARD, FORWARD, MODULE_BACKWARD, Call, OpenPhase, Stack

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


class Handle(Protocol):
    """A hook of torch that can be removed."""

    def remove(self) -> None:
        """Remove the hook."""


class _Caller(Protocol):
    def __call__(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...


class Watched(NamedTuple):
    """A module of a watched model. hooks: its dict of forward hooks, by which it is recognised."""

    hooks: object
    name: str
    class_name: str
    root: bool
    backward: bool
    before: Callable[[], None]
    active: Callable[[], bool]


class Calls:
    """The watches of this process. Torch's process-wide hooks are set while there is one."""

    def __init__(self) -> None:
        self.stack = Stack()
        self.attributes = Attributes()
        self._lock = threading.RLock()
        self._watched: dict[int, tuple[Watched, ...]] = {}
        self._handles: list[Handle] = []
        self._warn_again: Callable[[], None] = lambda: None
        self._torch: Any = None
        self._compiles = False
        self._codes: set[CodeType] = {Calls.aside.__code__}
        self._call: _Caller = _call
        self.before_backward: tuple[Callable[[], None], ...] = ()

    def add(self, torch: Any, modules: Iterable[Watched]) -> Callable[[], None]:
        """Watch modules; return a function that ends it.

        A module that two watches have is recorded once, by the first's name.
        """
        own = list(modules)
        with self._lock:
            self._torch = torch
            for module in own:
                key = id(module.hooks)
                self._watched[key] = (*self._watched.get(key, ()), module)
            if not self._handles:
                hooks = torch.nn.modules.module
                before, after = self._hooks(torch.compiler.is_compiling)
                self._handles = [
                    hooks.register_module_forward_pre_hook(before),
                    hooks.register_module_forward_hook(after, always_call=True),
                ]
                self._warn_again = ignore_warning(COMPILED)

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
                if not self._watched:
                    for handle in self._handles:
                        handle.remove()
                    self._handles = []
                    self._warn_again()
                    while self.stack.items:
                        self.stack.cut()

        return end

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

    def _begin_forward(self, module: Module, watched: Watched, frame: FrameType) -> None:
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
            call = Call(watched.name, watched.class_name, parent, since, watched.active)
        if watched.root:
            around = stack.items[-1] if stack.items else None
            if around is not None and around.lexical and around.key is watched:
                around.call = call  # compiled in place, but torch runs it as it is
                return
            opened = stack.begin(FORWARD, watched, "forward", "forward", call=call)
            opened.code, opened.owner = frame.f_code, module
        else:
            name = f"{watched.name}.forward"
            stack.begin(FORWARD, watched, name, None, category=watched.class_name, call=call)

    def _end_forward(self, watched: Watched, result: object) -> None:
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

    def around(self, function: Callable[P, R], is_wanted: Callable[[], bool], watched: Watched) -> Callable[P, R]:
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

    def _find_backward(self, call: Call, opened: OpenPhase, around: OpenPhase | None, result: object) -> None:
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

    def _beginning_of(self, call: Call) -> Callable[[object], None]:
        def begin(_: object) -> None:
            self.aside(self._begin_backward, call)

        return self.not_traced(begin)

    def _end_of(self, call: Call) -> Callable[[object, object], None]:
        def end(_: object, __: object) -> None:
            self.aside(self._end_backward, call)

        return self.not_traced(end)

    def _end_backward(self, call: Call) -> None:
        opened = self.stack.find(MODULE_BACKWARD, call)
        if opened is not None:
            self.stack.end(opened)

    def _begin_backward(self, call: Call) -> None:
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
        missing: list[Call] = []
        within: Call | None = call
        while within is not None and self.stack.find(MODULE_BACKWARD, within) is None:
            missing.append(within)
            within = within.parent
        for begun in reversed(missing):
            name = f"{begun.name}.backward"
            self.stack.begin(MODULE_BACKWARD, begun, name, None, category=begun.category, call=begun, task=task)

    def backward(self, function: Callable[P, R], is_wanted: Callable[[], bool]) -> Callable[P, R]:
        """Return torch.autograd.backward with a range around its outermost call."""

        def begin() -> OpenPhase | None:
            task = self.task()
            if not is_wanted() or _ranges.is_off() or task >= 0 or self.stack.find(BACKWARD, self) is not None:
                return None
            self.stack.cut_finished(task, sys._getframe())
            for before in self.before_backward:
                before()
            opened = self.stack.begin(BACKWARD, self, "backward", "backward")
            opened.lexical = True
            return opened

        return self._around(function, begin)


def _call(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
    return function(*args, **kwargs)


CALLS = Calls()

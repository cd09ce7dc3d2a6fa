"""The autograd graph that a call of a module has made: its first and last node."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

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


class Part(NamedTuple):
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


def part_since(since: int, ends: Iterable[Node], inner: dict[Node, Part]) -> Part:
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
    return Part(lowest, number, before)

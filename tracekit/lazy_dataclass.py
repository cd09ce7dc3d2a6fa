"""`dataclass` with the meaning of the standard one, whose methods are made when one of them is first used.

The standard decorator writes and compiles the source of six to nine methods for each class, which takes 0.5 ms. A
command imports hundreds of such classes and makes values of few: for a small file this was 25 % of the CPU time of
`inspect`, and 40 % of that of `formats`.

Each method that the standard decorator would make is a `_LatePart` first. The first use of one lets the standard
decorator make it, from a copy of the class as it was written, and puts it in its place with the others of its kind.
Reading `__dataclass_fields__`, `__match_args__` or a signature is such a use, so `replace`, `fields`, `match` and
`inspect` see what they always see. An error in a declaration is raised at the first use: a test uses every class of
the package.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import field
from functools import cache
from threading import RLock
from typing import TypeVar, dataclass_transform

__all__ = ["dataclass"]

_Class = TypeVar("_Class")

_LOCK = RLock()
"""Held while a class is finished: a second thread waits for the methods of the first."""
_NOT_FIELDS = ("ClassVar", "typing.ClassVar")
_SPECIAL = ("InitVar", "KW_ONLY")
"""Annotations that change more than the fields: such a class is made at once."""
_SELDOM = frozenset(("__eq__", "__hash__", "__repr__", "__dataclass_params__"))
"""Parts that most values never need. The parameters are here because they say whether the others are made."""
_JUDGED = frozenset(("__eq__", "__hash__", "__setattr__", "__delattr__"))
"""Methods that change or forbid others where a class writes them itself: such a class is made at once too."""


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
    weakref_slot: bool = False,
) -> Callable[[type[_Class]], type[_Class]]:
    """Return a decorator that does what `dataclasses.dataclass` does, later if the class has slots."""
    standard, initial = (
        dataclasses.dataclass(
            frozen=frozen, slots=slots, eq=eq and whole, repr=repr and whole, kw_only=kw_only, weakref_slot=weakref_slot
        )
        for whole in (True, False)
    )
    parts = _parts(frozen, eq, repr) if slots else {}

    def made(written: type[_Class]) -> type[_Class]:
        annotations = dict(written.__annotations__)
        plain = all(
            isinstance(text, str) and not any(map(text.__contains__, _SPECIAL)) for text in annotations.values()
        )
        if not slots or not plain or not _JUDGED.isdisjoint(vars(written)):
            return standard(written)
        fields = [name for name, text in annotations.items() if not text.startswith(_NOT_FIELDS)]
        inherited = {name for base in written.__mro__[1:-1] for name in _slots_of(base)}
        left_out = {*fields, "__dict__", "__weakref__"}
        body: dict[str, object] = {name: value for name, value in vars(written).items() if name not in left_out}
        own_slots = [name for name in fields if name not in inherited]
        body["__slots__"] = (*own_slots, *(("__weakref__",) if weakref_slot else ()))
        unfinished = _Unfinished(written, initial, standard)
        # What is no method (`__hash__` of values that can change is None) is the same for every class.
        body |= {
            name: _LatePart(name, unfinished) if late else None for name, late in parts.items() if name not in body
        }
        metaclass: type[type] = type(written)
        target = unfinished.target = metaclass(written.__name__, written.__bases__, body)
        target.__qualname__ = written.__qualname__
        return target

    return made


def _slots_of(base: type) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


@cache
def _parts(frozen: bool, eq: bool, repr_: bool) -> dict[str, bool]:
    """Return the names of what this version of Python adds to a class; False: it adds None."""

    class Undecorated:
        """An example: what is in the class before and after."""

    assert not Undecorated.__annotations__  # some versions of Python keep them in the class once they were read
    before = set(vars(Undecorated)) | {"__slots__"}
    after = vars(dataclasses.dataclass(frozen=frozen, slots=True, eq=eq, repr=repr_)(Undecorated))
    return {name: value is not None for name, value in after.items() if name not in before}


class _Unfinished:
    """A class whose methods are not made yet. written: as in the source; target: the one that is used.

    initial, standard: decorators that make the methods which each value needs, and all of them.
    """

    __slots__ = ("initial", "standard", "target", "written")

    target: type

    def __init__(self, written: type, initial: Callable[[type], type], standard: Callable[[type], type]) -> None:
        self.written = written
        self.initial = initial
        self.standard = standard

    def finish(self, name: str) -> None:
        """Put the standard methods in the places of late ones: those for comparing and showing only if asked for."""
        with _LOCK:
            asked = vars(self.target)[name]
            if not isinstance(asked, _LatePart):  # another thread was faster
                return
            decorate = self.standard if name in _SELDOM else self.initial
            # The decorator takes the defaults out of the class that it gets.
            body = {key: part for key, part in vars(self.written).items() if key not in ("__dict__", "__weakref__")}
            metaclass: type[type] = type(self.written)
            copy = metaclass(self.written.__name__, self.written.__bases__, body)
            copy.__qualname__ = self.written.__qualname__
            made = vars(decorate(copy))
            for key, part in list(vars(self.target).items()):
                if isinstance(part, _LatePart) and (key in _SELDOM) == (name in _SELDOM):
                    setattr(self.target, key, made[key])


class _LatePart:
    """A method of an unfinished class: asked for, it finishes the class and answers as the true one."""

    __slots__ = ("name", "unfinished")

    def __init__(self, name: str, unfinished: _Unfinished) -> None:
        self.name = name
        self.unfinished = unfinished

    def __get__(self, instance: object, owner: type | None = None) -> object:
        self.unfinished.finish(self.name)
        part = vars(self.unfinished.target)[self.name]
        bind = getattr(part, "__get__", None)
        return part if bind is None else bind(instance, owner)

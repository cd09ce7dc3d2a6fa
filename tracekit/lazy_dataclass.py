"""`dataclass` with the meaning of the standard one, whose methods are made when one of them is first used.

The standard decorator writes and compiles the source of six to nine methods for each class, which takes 0.5 ms. A
command imports hundreds of such classes and makes values of few: for a small file this was 25 % of the CPU time of
`inspect`, and 40 % of that of `formats`.

Each method that the standard decorator would make is a `_LatePart` first. The first use of one lets the standard
decorator make it, from a copy of the class as it was written, and puts it in its place with the others of its kind.
Reading `__dataclass_fields__`, `__match_args__` or a signature is such a use, so `replace`, `fields`, `match` and
`inspect` see what they always see. An error in a declaration is raised at the first use: a test uses every class of
the package.

To make a value of most classes takes `__init__` alone. It is made here, with the names and defaults of the standard
one, and the other methods stay late: the standard decorator takes 2.7 million instructions for a class, and a summary
of a small file makes values of 140.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
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
        has_fields = any("__dataclass_fields__" in vars(base) for base in written.__mro__[1:])
        own = () if has_fields or kw_only else tuple(fields)
        unfinished = _Unfinished(written, initial, standard, own, frozen=frozen)
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

    initial, standard: decorators that make the methods which each value needs, and all of them. own_fields: the names
    of its fields; none where it has those of a base too, which the standard decorator knows.
    """

    __slots__ = ("frozen", "initial", "own_fields", "standard", "target", "written")

    target: type

    def __init__(
        self,
        written: type,
        initial: Callable[[type], type],
        standard: Callable[[type], type],
        own_fields: Sequence[str],
        *,
        frozen: bool,
    ) -> None:
        self.written = written
        self.initial = initial
        self.standard = standard
        self.own_fields = own_fields
        self.frozen = frozen

    def finish(self, name: str) -> None:
        """Put the standard methods in the places of late ones: those for comparing and showing only if asked for."""
        with _LOCK:
            asked = vars(self.target)[name]
            if not isinstance(asked, _LatePart):  # another thread was faster
                return
            if name == "__init__" and (init := _init_of(self.written, self.own_fields, frozen=self.frozen)) is not None:
                setattr(self.target, name, init)
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


def _init_of(written: type, fields: Sequence[str], *, frozen: bool) -> Callable[..., None] | None:
    """Return `__init__` as the standard decorator makes it, None for fields of a form that is left to it.

    Errors of a declaration are left to it as well.
    """
    annotations, given = written.__annotations__, vars(written)
    names: dict[str, object] = {"__set_field__": object.__setattr__}
    parameters, sets = ["self"], []
    with_default = False
    for number, name in enumerate(fields):
        value, outer = name, f"__default_{number}__"
        default = given.get(name, dataclasses.MISSING)
        if isinstance(default, dataclasses.Field):
            if not default.init or default.kw_only is True:
                return None
            if default.default_factory is not dataclasses.MISSING:
                names |= {outer: default.default_factory, "__absent__": _absent()}
                parameters.append(f"{name}=__absent__")
                value = f"{outer}() if {name} is __absent__ else {name}"
            default = default.default
        if default is not dataclasses.MISSING:
            names[outer] = default
            parameters.append(f"{name}={outer}")
        elif value == name:
            parameters.append(name)
        if name == "self" or default.__class__.__hash__ is None or (with_default and parameters[-1] == name):
            return None
        with_default = parameters[-1] != name
        sets.append(f'  __set_field__(self, "{name}", {value})' if frozen else f"  self.{name} = {value}")
    if not fields:
        return None
    if hasattr(written, "__post_init__"):
        sets.append("  self.__post_init__()")
    lines = [f"def make({', '.join(names)}):", f" def __init__({', '.join(parameters)}):", *sets, " return __init__"]
    made: dict[str, Callable[..., Callable[..., None]]] = {}
    exec("\n".join(lines), vars(sys.modules[written.__module__]) if written.__module__ in sys.modules else {}, made)
    init = made["make"](**names)
    init.__qualname__ = f"{written.__qualname__}.__init__"
    init.__annotations__ = {name: annotations[name] for name in fields} | {"return": None}
    return init


@cache
def _absent() -> object:
    """Return what signatures show as the default of a field that has a function for it."""

    @dataclasses.dataclass
    class FieldOfFactory:
        """A field with such a default."""

        each: list[int] = field(default_factory=list)

    return (FieldOfFactory.__init__.__defaults__ or (None,))[0]


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

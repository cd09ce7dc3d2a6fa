"""`dataclass` with the meaning of the standard one, whose methods are made when one of them is first used.

The standard decorator writes and compiles the source of six to nine methods for each class, which takes 0.5 ms. A
command imports hundreds of such classes and makes values of few: for a small file this was 25 % of the CPU time of
`inspect`, and 40 % of that of `formats`.

Each method that the standard decorator would make is a `_LatePart` first. The first use of one lets the standard
decorator make it, from a copy of the class as it was written, and puts it in its place with the others of its kind.
Reading `__dataclass_fields__`, `__match_args__` or a signature is such a use, so `replace`, `fields`, `match` and
`inspect` see what they always see. An error in a declaration is raised at the first use: a test uses every class of
the package.

Of a frozen class the first use makes `__init__` and the fields alone. The standard decorator makes the methods that
refuse changes with them, which takes longer than all else: they are made when a change is tried.
"""

from __future__ import annotations

import dataclasses
import sys
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
_QUICK = frozenset(("__init__", "__match_args__", "__dataclass_fields__"))
"""Parts of a frozen class that values need."""
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
        # A base that is a dataclass has fields and rules of its own: the standard decorator knows them.
        quick = frozen and not kw_only and not any("__dataclass_fields__" in vars(base) for base in written.__mro__[1:])
        early = _QUICK if quick else frozenset(parts) - _SELDOM
        unfinished = _Unfinished(written, initial, standard, early, quick=quick)
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

    initial, standard: decorators that make the methods which each value needs, and all of them. early: the parts that
    each value needs. quick: `_quick` may make them.
    """

    __slots__ = ("early", "initial", "quick", "standard", "target", "written")

    target: type

    def __init__(
        self,
        written: type,
        initial: Callable[[type], type],
        standard: Callable[[type], type],
        early: frozenset[str],
        *,
        quick: bool,
    ) -> None:
        self.written = written
        self.initial = initial
        self.standard = standard
        self.early = early
        self.quick = quick

    def finish(self, name: str) -> None:
        """Put the standard methods in the places of late ones: those for comparing and showing only if asked for."""
        with _LOCK:
            asked = vars(self.target)[name]
            if not isinstance(asked, _LatePart):  # another thread was faster
                return
            early = name in self.early
            made = _quick(self._copy()) if early and self.quick else None
            made = made or (self.initial if early else self.standard)(self._copy())
            for key, part in list(vars(self.target).items()):
                if isinstance(part, _LatePart) and (key in self.early) == early:
                    setattr(self.target, key, vars(made)[key])

    def _copy(self) -> type:
        """Return the class as it was written: the decorator takes the defaults out of the class that it gets."""
        body = {key: part for key, part in vars(self.written).items() if key not in ("__dict__", "__weakref__")}
        metaclass: type[type] = type(self.written)
        copy = metaclass(self.written.__name__, self.written.__bases__, body)
        copy.__qualname__ = self.written.__qualname__
        return copy


def _quick(written: type) -> type | None:
    """Return the class with its fields and the `__init__` of a frozen class, None for fields of another form.

    The standard one sets each field with `object.__setattr__` too, and has the same parameters, defaults and names.
    """
    made: type = dataclasses.dataclass(init=False, eq=False, repr=False)(written)
    if "__init__" in vars(made):
        return made
    needed, given, sets = [], [], []
    outer: dict[str, object] = {"__set_field__": object.__setattr__}
    fields = dataclasses.fields(made)
    for number, each in enumerate(fields):
        value, default = each.name, f"__default_{number}__"
        if not each.init or each.kw_only or each.name == "self":
            return None
        if each.default_factory is not dataclasses.MISSING:
            outer |= {default: each.default_factory, "__absent__": _absent()}
            given.append(f"{each.name}=__absent__")
            value = f"{default}() if {each.name} is __absent__ else {each.name}"
        elif each.default is not dataclasses.MISSING:
            outer[default] = each.default
            given.append(f"{each.name}={default}")
        elif given:
            return None  # an error, which the standard decorator raises
        else:
            needed.append(each.name)
        sets.append(f'  __set_field__(self, "{each.name}", {value})\n')
    if hasattr(made, "__post_init__"):
        sets.append("  self.__post_init__()\n")
    text = f"def make({', '.join(outer)}):\n def __init__({', '.join(('self', *needed, *given))}):\n"
    made_here: dict[str, Callable[..., Callable[..., None]]] = {}
    names = vars(sys.modules[made.__module__]) if made.__module__ in sys.modules else {}
    exec(f"{text}{''.join(sets) or '  pass'}\n return __init__", names, made_here)
    init = made_here["make"](**outer)
    init.__qualname__ = f"{made.__qualname__}.__init__"
    init.__annotations__ = {each.name: each.type for each in fields} | {"return": None}
    setattr(made, "__init__", init)  # noqa: B010 - a class declares no such setter
    return made


@cache
def _absent() -> object:
    """Return the default that signatures show for a value that is made anew each time."""

    class FieldMadeAnew:
        """A field with such a value."""

        values: list[int] = field(default_factory=list)

    init: Callable[..., None] = dataclasses.dataclass(FieldMadeAnew).__init__
    defaults: tuple[object, ...] = getattr(init, "__defaults__", ()) or ()
    return defaults[0]


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

"""The decorator whose methods are made at their first use does what the standard one does."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import threading
import weakref
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

import tracekit
from tracekit import lazy_dataclass
from tracekit.lazy_dataclass import dataclass

Item = TypeVar("Item")
Make = Callable[..., Any]


def declared(make: Make, **more: bool) -> dict[str, Any]:
    """Return classes of several forms that one decorator made."""

    @make(frozen=True, slots=True, **more)
    class Point:
        """A base."""

        x: int
        tags: list[str] = field(default_factory=list, compare=False)
        scale: int = 3
        origin: ClassVar[int] = 4

    @make(frozen=True, slots=True, **more)
    class Named(Point):
        """A field more, and a default of the base changed."""

        scale: int = 5
        name: str = ""

        def doubled(self) -> int:
            """Return a figure."""
            return self.x * self.scale

    @make(slots=True, **more)
    class Counted(Generic[Item]):
        """Values that change."""

        value: Item
        count: int = field(default=0, repr=False)

        def __post_init__(self) -> None:
            self.count += 1

    @make(frozen=True, slots=True, eq=False, **more)
    class Own:
        """A method of its own."""

        x: int = 1

        def __repr__(self) -> str:
            return f"own {self.x}"

    @make(frozen=True, slots=True, **more)
    class Judged:
        """An equality of its own, without a hash."""

        x: int = 1

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self))

        __hash__ = None  # type: ignore[assignment]

    @make(frozen=True, slots=True, kw_only=True, weakref_slot=True, **more)
    class Late:
        """Fields by name alone."""

        x: int = 1
        y: int

    @make(frozen=True, **more)
    class Open:
        """No slots."""

        x: int = 1

    @make(frozen=True, slots=True, **more)
    class Checked(Generic[Item]):
        """A check, fields of every form, and one that no caller gives."""

        self_: Item
        names: dict[str, int] = field(default_factory=dict)
        least: int = 2

        def __post_init__(self) -> None:
            if self.least > 9:
                raise ValueError(self.names)

    @make(frozen=True, slots=True, **more)
    class Counting:
        """A field that no caller gives, and one by name alone."""

        x: int
        y: int = field(default=7, init=False)
        z: int = field(default=8, kw_only=True)

    @make(frozen=True, slots=True, **more)
    class Selfish:
        """A field whose name is that of the value itself."""

        self: int = 1

    @make(frozen=True, slots=True, **more)
    class Made:
        """An `__init__` of its own."""

        x: int

        def __init__(self) -> None:
            object.__setattr__(self, "x", 11)

    @make(frozen=True, slots=True, **more)
    class Empty:
        """No field."""

    made = (Point, Named, Counted, Own, Judged, Late, Open, Checked, Counting, Selfish, Made, Empty)
    return {each.__name__: each for each in made}


def outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except Exception as err:  # noqa: BLE001 - the error is the outcome
        return type(err), str(err)


def refusals(value: object) -> object:
    return outcome(lambda: setattr(value, "x", 2)), outcome(lambda: delattr(value, "x"))


USES: dict[str, Callable[[dict[str, Any]], object]] = {
    "text": lambda of: (repr(of["Named"](1, ["a"])), repr(of["Counted"](2)), repr(of["Own"]()), repr(of["Open"]())),
    "equal": lambda of: (of["Point"](1, ["a"]) == of["Point"](1), of["Point"](1) == of["Named"](1)),
    "own equality": lambda of: (of["Judged"](1) == of["Judged"](2), of["Own"]() == of["Own"]()),
    "order": lambda of: outcome(lambda: of["Point"](1) < of["Point"](2)),
    "hash": lambda of: hash(of["Named"](1, name="a")) == hash(of["Named"](1, ["b"], name="a")),
    "no hash": lambda of: (outcome(lambda: hash(of["Counted"](1))), outcome(lambda: hash(of["Judged"]()))),
    "fields": lambda of: [(name, [each.name for each in dataclasses.fields(cls)]) for name, cls in of.items()],
    "is one": lambda of: [dataclasses.is_dataclass(cls) for cls in of.values()],
    "as dict": lambda of: dataclasses.asdict(of["Named"](1, ["a"])),
    "replaced": lambda of: repr(dataclasses.replace(of["Named"](1), name="b", scale=0)),
    "copied": lambda of: [repr(copy.copy(each)) for each in (of["Named"](1), of["Counted"](1), of["Late"](y=2))],
    "signature": lambda of: {name: str(inspect.signature(cls)) for name, cls in of.items()},
    "matched": lambda of: {name: cls.__match_args__ for name, cls in of.items()},
    "slots": lambda of: {name: vars(cls).get("__slots__") for name, cls in of.items()},
    "no others": lambda of: [hasattr(each, "__dict__") for each in (of["Named"](1), of["Counted"](1), of["Open"]())],
    "set": lambda of: outcome(lambda: setattr(of["Named"](1), "x", 2)),
    "deleted": lambda of: outcome(lambda: delattr(of["Named"](1), "x")),
    "missing": lambda of: (outcome(of["Named"]), outcome(lambda: of["Late"](1))),
    "too many": lambda of: outcome(lambda: of["Point"](1, [], 2, 3)),
    "weak": lambda of: (type(weakref.ref(of["Late"](y=1))), outcome(lambda: weakref.ref(of["Point"](1)))),
    "checked": lambda of: (
        repr(of["Checked"](1, {"a": 1})),
        outcome(lambda: of["Checked"](1, {"b": 2}, 10)),
        of["Checked"](1).names is of["Checked"](1).names,
        outcome(of["Checked"]),
    ),
    "changed": lambda of: [refusals(each) for each in (of["Point"](1), of["Own"](), of["Made"](), of["Empty"]())],
    "other forms": lambda of: [repr(each) for each in (of["Counting"](1, z=3), of["Selfish"](2), of["Made"]())],
    "deep copy": lambda of: [repr(copy.deepcopy(each)) for each in (of["Checked"](1, {"a": 2}), of["Point"](3))],
    "annotations": lambda of: {name: each.__init__.__annotations__ for name, each in of.items()},
    "defaults": lambda of: {name: each.__init__.__defaults__ for name, each in of.items()},
    "names of init": lambda of: {name: (e.__init__.__qualname__, e.__init__.__module__) for name, e in of.items()},
    "class": lambda of: (of["Named"].origin, of["Named"](2).doubled(), of["Named"].__doc__, of["Named"].__qualname__),
    "generic": lambda of: repr(of["Counted"][int](3)),
    "state": lambda of: of["Named"](1, ["a"], 2, "n").__getstate__(),
}


@pytest.mark.parametrize("use", USES)
def test_each_use_of_a_new_class_gives_what_the_standard_decorator_gives(use: str) -> None:
    assert USES[use](declared(dataclass)) == USES[use](declared(dataclasses.dataclass))


def test_an_error_in_a_declaration_is_that_of_the_standard_decorator() -> None:
    def of(make: Make) -> object:
        @make(frozen=True, slots=True)
        class Wrong:
            """A field without a value behind one that has one."""

            x: int = 1
            y: int

        return Wrong(1, 2)  # type: ignore[call-arg]

    assert outcome(lambda: of(dataclass)) == outcome(lambda: of(dataclasses.dataclass))


def test_a_frozen_class_refuses_changes_that_are_made_late() -> None:
    of = declared(dataclass)
    value = of["Point"](1)
    assert "LatePart" in type(vars(of["Point"])["__setattr__"]).__name__
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        value.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del value.x
    assert value.x == 1


def test_a_class_is_finished_at_its_first_use_with_its_bases() -> None:
    of = declared(dataclass)

    def late(name: str, part: str) -> bool:
        return "LatePart" in type(vars(of[name])[part]).__name__

    names = ("Point", "Named", "Counted")
    assert [late(name, "__init__") for name in names] == [True] * 3
    value = of["Named"](1)
    assert [late(name, "__init__") for name in names] == [False, False, True]
    assert [late("Named", part) for part in ("__repr__", "__eq__", "__hash__")] == [True] * 3
    assert value == of["Named"](1)
    assert [late("Named", part) for part in ("__repr__", "__eq__", "__hash__")] == [False] * 3


@dataclass(frozen=True, slots=True)
class Pickled:
    """A value that another process reads before it makes one."""

    x: int
    y: str = "b"


def test_a_value_is_read_from_a_pickle_before_the_class_was_used() -> None:
    @dataclass(frozen=True, slots=True)
    class Unused:
        """The same fields, and no use yet."""

        x: int
        y: str = "b"

    value = Unused.__new__(Unused)
    value.__setstate__([1, "c"])  # type: ignore[attr-defined]
    assert (value.x, value.y) == (1, "c")
    assert pickle.loads(pickle.dumps(Pickled(1))) == Pickled(1)


def test_threads_that_use_a_class_at_the_same_moment_all_get_whole_values() -> None:
    for _ in range(20):
        cls, values, together = declared(dataclass)["Named"], list[Any](), threading.Barrier(4)

        def use(cls: Any = cls, values: list[Any] = values, together: threading.Barrier = together) -> None:
            together.wait(20)
            values.append(cls(1, name="a"))

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(values) == 4
        assert set(values) == {cls(1, name="a")}


def test_an_error_in_a_declaration_is_raised_at_the_first_use() -> None:
    @dataclass(slots=True)
    class Wrong:
        """A field without a default behind one that has one."""

        x: int = 1
        y: int  # type: ignore[misc]

    for _ in range(2):
        with pytest.raises(TypeError, match="non-default argument 'y' follows default argument"):
            Wrong(1, 2)


def test_every_class_of_the_package_can_be_used() -> None:
    names = [each.name for each in pkgutil.walk_packages(tracekit.__path__, "tracekit.")]
    finished = 0
    for name in names:
        if name.endswith(("__main__", "_child", "_pb2")):
            continue
        for cls in vars(importlib.import_module(name)).values():
            if isinstance(cls, type) and cls.__module__ == name and dataclasses.is_dataclass(cls):
                dataclasses.fields(cls)
                finished += 1
    assert finished > 500
    assert lazy_dataclass.__all__ == ["dataclass"]

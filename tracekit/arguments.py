"""Arguments of public functions, checked against their annotations when the function is called.

The annotation is the contract that an editor shows; a notebook has no type checker, so a wrong argument would fail
somewhere inside with the words of another function. Python's own `TypeError` for a missing or an unknown argument
becomes the same error.

    @checked()
    def view(source: TraceLike, name: str, *, top: int = 0) -> Section: ...

    view(trace, 3)    # UsageError and TypeError: view: name must be str, not int (3)
"""

from __future__ import annotations

import functools
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

from tracekit.errors import ArgumentTypeError
from tracekit.options import did_you_mean

__all__ = ["checked", "checked_fields", "signature_of"]

P = ParamSpec("P")
T = TypeVar("T")

_SHOWN = 40
"""Characters of a wrong value in its error."""


def checked(*left_to_function: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator: the function then refuses arguments that are not of their annotated type.

    left_to_function: parameters that the function checks itself. Numbers of numpy are numbers, a path is anything that
    `os.fspath` takes, and a text is never a sequence of texts.
    """

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        name = _shown_name(function.__qualname__)

        @functools.cache
        def declared() -> tuple[inspect.Signature, dict[str, Any]]:
            # At the first call: an import stays quick, and the names in annotations are known when all is loaded.
            own = {key: each for key, each in function.__annotations__.items() if key != "return"}
            return inspect.signature(function), _resolved(own, function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            signature, wanted = declared()
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError as err:
                raise _not_bound(name, signature, kwargs, err) from None
            for argument, value in given.items():
                if argument in wanted and argument not in left_to_function and not _fits(value, wanted[argument]):
                    raise ArgumentTypeError(name, argument, _words(wanted[argument]), _shown(value))
            return function(*args, **kwargs)

        return call

    return decorated


def checked_fields(kind: type[T]) -> type[T]:
    """Return a dataclass that refuses values of its fields which are not of their annotated type."""
    made: Callable[..., None] = kind.__init__
    setattr(kind, "__init__", checked()(made))  # noqa: B010 - a class declares no such setter
    return kind


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """Return the signature of a function, decorated or not."""
    return inspect.signature(inspect.unwrap(function))


def _shown_name(name: str) -> str:
    """Return the name of a function or method as a call has it: `Report[...]` for `Report.__getitem__`.

    >>> _shown_name("Report.__getitem__"), _shown_name("read")
    ('Report[...]', 'read')
    """
    owner, _, last = name.rpartition("<locals>.")[2].rpartition(".")
    return {"__getitem__": f"{owner}[...]", "__init__": owner}.get(last, f"{owner}.{last}" if owner else last)


def _resolved(own: dict[str, Any], function: Callable[..., object]) -> dict[str, Any]:
    def parameters() -> None: ...

    parameters.__annotations__ = own
    return typing.get_type_hints(parameters, globalns=inspect.unwrap(function).__globals__)


def _not_bound(name: str, signature: inspect.Signature, given: Mapping[str, object], err: TypeError) -> Exception:
    """Return the error for arguments that the function does not take, or that are missing."""
    known = [each for each in signature.parameters if each != "self"]
    for argument in given:
        if argument not in known:
            near = did_you_mean(argument, known)
            return ArgumentTypeError(name, argument, sentence=f"no argument {argument}{near}", choices=known)
    return ArgumentTypeError(name, "", sentence=str(err), choices=known)


def _fits(value: object, hint: Any) -> bool:
    """Return whether a value is of an annotated type."""
    if hint in (Any, object):
        return True
    if hint is None or hint is type(None):
        return value is None
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in inside)
    if origin is typing.Literal:
        return any(type(value) is type(each) and value == each for each in inside)
    if origin is tuple:
        return isinstance(value, (tuple, list)) and _fits_tuple(value, inside)
    if origin is not None and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(
            _fits(key, inside[0]) and _fits(item, inside[1]) for key, item in value.items()
        )
    if origin is Callable:
        return callable(value)
    if origin is not None and issubclass(origin, Iterable):
        # One text is no list of texts, and what can be read only once is not looked at.
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, origin):
            return False
        return not isinstance(value, Collection) or all(_fits(each, inside[0]) for each in value)
    return _is_a(value, hint)


def _fits_tuple(value: tuple[object, ...] | list[object], inside: tuple[Any, ...]) -> bool:
    if len(inside) == 2 and inside[1] is Ellipsis:
        return all(_fits(each, inside[0]) for each in value)
    return len(value) == len(inside) and all(map(_fits, value, inside))


def _is_a(value: object, hint: Any) -> bool:
    is_flag = isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if hint is bool:
        return is_flag
    if hint is int:
        return isinstance(value, numbers.Integral) and not is_flag
    if hint is float:
        return isinstance(value, numbers.Real) and not is_flag
    if hint is Path:
        return isinstance(value, os.PathLike)
    return not isinstance(hint, type) or isinstance(value, hint)


def _words(hint: Any) -> str:
    """Return an annotated type in words: "str, Path or a sequence of str"."""
    words = list(dict.fromkeys(_each_word(hint)))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _each_word(hint: Any) -> list[str]:
    origin, inside = get_origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        return ["None"]
    if origin in (typing.Union, types.UnionType):
        # None comes last, as people say it.
        found = [word for each in inside for word in _each_word(each)]
        return sorted(found, key="None".__eq__)
    if origin is typing.Literal:
        return [repr(each) for each in inside]
    if origin is tuple:
        several = len(inside) == 2 and inside[1] is Ellipsis
        return [f"a tuple of {_words(inside[0])}" if several else f"a tuple ({', '.join(map(_words, inside))})"]
    if origin is Callable:
        return ["a function"]
    if origin is not None and issubclass(origin, Mapping):
        return [f"a dict of {_words(inside[0])} to {_words(inside[1])}"]
    if origin is not None and issubclass(origin, Iterable):
        return [f"{_COLLECTIONS.get(origin, 'a list')} of {_words(inside[0])}"]
    return [getattr(hint, "__name__", str(hint))]


_COLLECTIONS: dict[Any, str] = {frozenset: "a frozenset", set: "a set"}


def _shown(value: object) -> str:
    """Return the type of a wrong value, with the value where it is short: `int (3)`."""
    kind = type(value).__name__
    if value is None:
        return "None"
    if isinstance(value, (str, bytes, int, float, list, tuple, set, frozenset, dict)):
        text = repr(value)
        return f"{kind} ({text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...'})"
    return kind

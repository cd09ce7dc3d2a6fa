"""Options of formats, views and targets: each is declared once, and one parser reads `--option KEY=VALUE`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Generic, TypeVar

from tracekit.errors import Option, Text, UsageError, sentence
from tracekit.lazy_dataclass import dataclass

__all__ = ["OptionSpec", "did_you_mean", "nearest", "no_such", "parse", "split", "unknown_option", "value"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

_BOOLEANS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_VALUES = {
    int: ("N", "a whole number"),
    float: ("X", "a number"),
    bool: ("yes|no", "yes or no"),
    str: ("TEXT", "a text"),
}
"""Types of options: the placeholder of a value in help, and the words for it in errors."""


@dataclass(frozen=True, slots=True)
class OptionSpec(Generic[T_co]):
    """One option. Its owner asks for the value with the spec itself, so that the type of the value is known.

    type: int, float, bool or str. default: the value where none is given; None where the owner decides. help: one
    sentence. choices: the values that are allowed; () allows any. least, most: limits of a number, inclusive. unit: the
    unit of the number, "" where it has none.

    >>> depth = OptionSpec("depth", int, 3, "Levels of the tree that are shown.", least=1)
    >>> depth.parsed("4")
    4
    """

    key: str
    type: type[T_co]
    default: T_co
    help: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    unit: str = ""

    def placeholder(self) -> str:
        """Return the form of a value for help: `N`, `X`, `TEXT`, or the choices as `us|ns`."""
        return "|".join(self.choices) or _VALUES[self.type][0]

    def default_text(self) -> str:
        """Return the default as `--option` takes it, "" where the owner decides."""
        if self.default is None:
            return ""
        return ("no", "yes")[self.default] if isinstance(self.default, bool) else f"{self.default}"

    def parsed(self, value: object) -> T_co:
        """Return the value of a text from the command line, or of an object from Python.

        Raises: UsageError where it is of another type, not one of the choices, or outside the limits.
        """
        found = _typed(self.type, value)
        if not isinstance(found, self.type) or (isinstance(found, bool) and self.type is not bool):
            raise self._refusal(value, self._wanted())
        if self.choices and found not in self.choices:
            raise self._refusal(value, f"no such value{did_you_mean(str(value), self.choices)}")
        if isinstance(found, (int, float)) and not self._within(found):
            raise self._refusal(value, self._wanted())
        return found

    def _within(self, number: float) -> bool:
        low = self.least is None or number >= self.least
        return math.isfinite(number) and low and (self.most is None or number <= self.most)

    def _wanted(self) -> str:
        words = f"not {_VALUES[self.type][1]}"
        if self.least is not None and self.most is not None:
            return f"{words} from {self.least:g} to {self.most:g}"
        if self.least is not None:
            return f"{words} of {self.least:g} or more"
        return f"{words} of {self.most:g} or less" if self.most is not None else words

    def _refusal(self, value: object, reason: str) -> UsageError:
        allowed = f" One of: {', '.join(self.choices)}." if self.choices else ""
        given = Option("option", f"{self.key}={value}")
        return UsageError(sentence(given, f": {reason}"), hint=f"{self.help}{allowed}", choices=self.choices)


def _typed(kind: type[object], value: object) -> object:
    """Return a text as an object of the type, other objects as they are; None where the text has another form."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str) or kind is str:
        return value
    if kind is bool:
        return _BOOLEANS.get(value.lower())
    if not value.isascii() or "_" in value or len(value) > 40:
        return None
    try:
        return int(value) if kind is int else float(value)
    except ValueError:
        return None


def split(texts: Iterable[str]) -> dict[str, str]:
    """Return the pairs of `KEY=VALUE` texts; the last one of a key counts. Raises: UsageError for one without "="."""
    pairs = [text.partition("=") for text in texts]
    for key, equals, _ in pairs:
        if not equals:
            hint = sentence("write ", Option("option", takes="KEY=VALUE"))
            raise UsageError(sentence(Option("option", key), ": no value"), hint=hint)
    return {key: value for key, _, value in pairs}


def parse(
    given: Mapping[str, object], specs: Iterable[OptionSpec[object]], *, owner: str = "format or view"
) -> dict[str, object]:
    """Return the values of options by key, each of the type that its spec declares; those not given are absent.

    owner: the noun for what the specs belong to, for the error. Raises: UsageError for an unknown key or a bad value.
    """
    by_key = {spec.key: spec for spec in specs}
    for key in given:
        if key not in by_key:
            raise unknown_option(key, by_key.values(), owner=owner)
    return {key: by_key[key].parsed(value) for key, value in given.items()}


def value(values: Mapping[str, object], spec: OptionSpec[T]) -> T:
    """Return the value of an option: the one given, else the default. Raises: UsageError for a bad value."""
    return spec.parsed(values[spec.key]) if spec.key in values else spec.default


def unknown_option(key: str, specs: Iterable[OptionSpec[object]], *, owner: str = "format or view") -> UsageError:
    """Return the error of an option that nothing has; owner: the noun, or the name of a single format or view."""
    known = {spec.key: spec for spec in specs}
    near = nearest(key, known)
    shown = near or (list(known) if len(known) <= 8 else [])
    hint = "; ".join(f"{name}={known[name].placeholder()}" for name in shown)
    who = f"any {owner}" if owner == "format" or " " in owner else owner
    return UsageError(
        sentence(Option("option", key), f": no such option of {who}{_question(near)}"),
        hint=f"known: {hint}" if hint else "`tracekit formats` lists the options" if known else "it has no options",
    )


def no_such(option: Option | str, word: str, noun: str, known: Iterable[str], *, hint: Text = "") -> UsageError:
    """Return the error of a name that does not exist, such as that of a view. hint: in place of the list of names.

    option: a text is the same word on each surface.

    >>> str(no_such(Option("view"), "kernl", "view", ["kernel", "memory"]))
    'view kernl: no such view; did you mean kernel?'
    """
    names = list(known)
    given = replace(option, value=word) if isinstance(option, Option) else f"{option} {word}"
    return UsageError(sentence(given, f": no such {noun}{did_you_mean(word, names)}"), hint=hint, choices=names)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean kernel?" where a known word resembles this one, else "".

    >>> did_you_mean("kernl", ["kernel", "memory"])
    '; did you mean kernel?'
    """
    return _question(nearest(word, known))


def _question(near: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(near)}?" if near else ""


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that resemble a word, else those that begin with it."""
    lower = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), lower, 3, 0.7)
    near = near or [name for name in lower if word and name.startswith(word.lower())]
    return [lower[name] for name in near[:3]]

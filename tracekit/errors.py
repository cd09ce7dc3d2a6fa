"""Every exception of the package, and the words for it on each surface.

An error has parts, not a finished text: what happened (`sentence`), what to do (`advice`), and the input, option, value
and choices that it is about. A sentence names an option by a part, `Option("force")`, never by a text, so that each
surface words it: the command line says `--force`, Python says `force=True`. Nobody searches a text for options, and a
file may be called `--force`.

    raise OutputError(sentence("is a folder; ", Option("to", "parquet"), " writes a file"), path="out")

In Python an error speaks Python: `str(error)` and `error.hint`. Where a command speaks, and in what batches, pages and
JSON hold, it is `error.worded(COMMAND_LINE)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from tracekit.credentials import masked
from tracekit.lazy_dataclass import dataclass

__all__ = [
    "ARGUMENTS",
    "COMMAND_LINE",
    "PYTHON",
    "TOOL",
    "AllInputsError",
    "AmbiguousFormatError",
    "ArgumentTypeError",
    "Failure",
    "InputError",
    "LimitError",
    "MissingExtraError",
    "NamedPath",
    "NoSuchPlaceError",
    "Option",
    "OutOfOrderError",
    "OutputError",
    "OutputExistsError",
    "ParseError",
    "Part",
    "PerSurface",
    "SchemaError",
    "ScratchError",
    "Sentence",
    "StopReading",
    "Surface",
    "Text",
    "TracekitError",
    "UnknownFormatError",
    "UnknownNameError",
    "UnsupportedVersionError",
    "UsageError",
    "command_line",
    "first_line",
    "sentence",
]


class Surface(Enum):
    """A place where errors are shown, with words of its own for options."""

    COMMAND_LINE = "command line"
    PYTHON = "Python"
    TOOL = "tool of an agent"


COMMAND_LINE: Final = Surface.COMMAND_LINE
PYTHON: Final = Surface.PYTHON
TOOL: Final = Surface.TOOL

ARGUMENTS: Mapping[str, str] = MappingProxyType({
    "from": "format", "for": "viewer", "format": "form",
    "option": "options", "fail-on": "rules", "tag": "tags", "budget": "budgets", "o": "out",
    "max-read-bytes": "read_bytes", "max-read-events": "read_events", "max-time": "seconds",
    "max-memory": "memory", "unit": "time_unit", "anonymize-key": "key",
})  # fmt: skip
"""Options of the command line whose argument in Python has another name."""
_SWITCHES = frozenset({"force", "strict"})
"""Options whose argument is named with its value, `force=True`: alone it would not say what to do."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option in a sentence, by its name on the command line; "o" is `-o`.

    value: what the user gave, or an example, "" too; None for none. takes: the placeholder of a value.

    >>> Option("from", takes="NAME").worded(COMMAND_LINE), Option("from", takes="NAME").worded(PYTHON)
    ('--from NAME', 'format=NAME')
    >>> Option("view", "kernl").worded(COMMAND_LINE), Option("view", "kernl").worded(PYTHON)
    ('--view kernl', 'view kernl')
    """

    name: str
    value: str | None = None
    takes: str = ""

    def worded(self, surface: Surface) -> str:
        """Return the option in the words of a surface."""
        given = "" if self.value is None else f" {self.value}"
        if surface is COMMAND_LINE:
            return f"{self._spelled()}{f' {self.takes}' if self.takes else given}"
        argument = ARGUMENTS.get(self.name, self.name.replace("-", "_"))
        if self.name in _SWITCHES:
            return f"{argument}=True"
        return f"{argument}={self.takes}" if self.takes else f"{argument}{given}"

    def _spelled(self) -> str:
        return f"-{self.name}" if len(self.name) == 1 else f"--{self.name}"

    def without_credentials(self) -> Option:
        """Return the option with credentials in its value masked, which its name may show: `--password x`."""
        if self.value is None:
            return self
        return replace(self, value=masked(self.worded(COMMAND_LINE)).removeprefix(f"{self._spelled()} "))


@dataclass(frozen=True, slots=True)
class NamedPath:
    """The input or output in a sentence: a path, a URL, or the name that a user gave."""

    path: str


@dataclass(frozen=True, slots=True)
class PerSurface:
    """Words that differ by surface beyond the names of options: one of them may have nothing to say.

    tool: None for those of Python, whose names the arguments of tools have.
    """

    command_line: str
    python: str = ""
    tool: str | None = None

    def worded(self, surface: Surface) -> str:
        """Return the words of a surface."""
        if surface is Surface.COMMAND_LINE:
            return self.command_line
        return self.python if surface is Surface.PYTHON or self.tool is None else self.tool


Part: TypeAlias = str | Option | NamedPath | PerSurface


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words with references to options and places in between; `sentence` makes one."""

    parts: tuple[Part, ...] = ()

    def worded(self, surface: Surface) -> str:
        """Return the text for a surface.

        >>> text = sentence("--force.csv: choose another name, or ", Option("force"), " to replace it")
        >>> text.worded(COMMAND_LINE)
        '--force.csv: choose another name, or --force to replace it'
        >>> text.worded(PYTHON)
        '--force.csv: choose another name, or force=True to replace it'
        """
        return "".join(_worded(part, surface) for part in self.parts)

    def __str__(self) -> str:
        return self.worded(PYTHON)

    def __bool__(self) -> bool:
        return bool(self.parts)

    def about(self, path: str) -> Sentence:
        """Return the sentence with another name of the input or output that it is about."""
        return Sentence(tuple(NamedPath(path) if isinstance(part, NamedPath) else part for part in self.parts))

    def without_place(self) -> Sentence:
        """Return the sentence without the input or output that it begins with: the reason alone."""
        match self.parts:
            case (NamedPath(), str() as text, *others) if text.startswith(": "):
                return sentence(text.removeprefix(": "), *others)
        return self

    def without_credentials(self) -> Sentence:
        """Return the sentence with every credential in it masked."""
        plain = self.worded(COMMAND_LINE)
        clean = masked(plain)
        if clean == plain:
            return self
        each = Sentence(tuple(_without_credentials(part) for part in self.parts))
        if each.worded(COMMAND_LINE) == clean:
            return each
        # A credential may be found by words of two parts: then the text counts more than its parts.
        return Sentence((PerSurface(clean, masked(self.worded(PYTHON)), masked(self.worded(TOOL))),))


Text: TypeAlias = Part | Sentence
"""What a sentence is made of. A text is shown as it is on every surface."""


def _worded(part: Part, surface: Surface) -> str:
    match part:
        case str():
            return part
        case Option():
            return part.worded(surface)
        case NamedPath():
            return part.path
        case PerSurface():
            return part.worded(surface)


def _without_credentials(part: Part) -> Part:
    match part:
        case str():
            return masked(part)
        case Option():
            return part.without_credentials()
        case NamedPath():
            return NamedPath(masked(part.path))
        case PerSurface():
            tool = None if part.tool is None else masked(part.tool)
            return PerSurface(masked(part.command_line), masked(part.python), tool)


def sentence(*parts: Text) -> Sentence:
    """Return one sentence of texts, options and sentences, in this order.

    >>> sentence("add ", Option("by", "rank"), "").parts
    ('add ', Option(name='by', value='rank', takes=''))
    """
    flat: list[Part] = []
    for part in parts:
        for each in part.parts if isinstance(part, Sentence) else (part,):
            if isinstance(each, str) and flat and isinstance(last := flat[-1], str):
                flat[-1] = last + each
            elif each != "":
                flat.append(each)
    return Sentence(tuple(flat))


def command_line(text: str | Sentence) -> str:
    """Return a text as the command line words it, and so do notes, pages and JSON."""
    return text if isinstance(text, str) else text.worded(COMMAND_LINE)


E = TypeVar("E", bound="TracekitError")


class TracekitError(Exception):
    """An error that a user can meet and fix: one sentence of fact, and advice. Credentials in it are masked.

    sentence, advice: the parts, which `worded` and `advised` put into words; `str(error)` and `hint` are Python's.
    path: the input or output that it is about, "" for none. option, found: the option that it is about, by its name on
    the command line, and the value that the user gave. choices: the values that exist, where there are few.
    """

    advice: Sentence = Sentence()

    def __init__(
        self, message: Text, *, path: str | Path | None = None, hint: Text = "", choices: Iterable[str] = ()
    ) -> None:
        fact = sentence(message) if path is None else sentence(NamedPath(str(path)), ": ", message)
        self.sentence = fact.without_credentials()
        super().__init__(self.sentence.worded(PYTHON))
        self.choices = tuple(choices)
        advice = sentence(hint)
        if self.choices and not advice:
            advice = sentence(f"one of: {', '.join(self.choices)}")
        if advice:
            self.advice = advice.without_credentials()
        if self.advice:
            self.add_note(f"hint: {self.hint}")  # a traceback shows it, in a notebook too

    @property
    def hint(self) -> str:
        """Advice in the words of Python, "" for none."""
        return self.advice.worded(PYTHON)

    @property
    def path(self) -> str:
        """The input or output that the error is about, "" for none."""
        return next((part.path for part in self.sentence.parts if isinstance(part, NamedPath)), "")

    @property
    def option(self) -> str:
        """The first option that the sentence names, as "max-events"; "" for none."""
        return self._option().name

    @property
    def found(self) -> str:
        """The value of that option as the user gave it, "" for none."""
        return self._option().value or ""

    def _option(self) -> Option:
        return next((part for part in self.sentence.parts if isinstance(part, Option)), Option(""))

    def worded(self, surface: Surface) -> str:
        """Return the sentence of fact in the words of a surface."""
        return self.sentence.worded(surface)

    def advised(self, surface: Surface) -> str:
        """Return the advice in the words of a surface, "" for none."""
        return self.advice.worded(surface)

    def __reduce__(self) -> tuple[Callable[..., TracekitError], tuple[object, ...]]:
        # An exception is pickled as its class and its message; ours take other arguments, and have parts.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[E], args: tuple[object, ...], parts: Mapping[str, object]) -> E:
    error = kind.__new__(kind, *args)
    error.__dict__.update(parts)
    return error


class UnknownFormatError(TracekitError):
    """No reader knows the input."""

    advice = sentence("`tracekit formats` lists what can be read; ", Option("from", takes="NAME"), " skips the guess")

    def __init__(self, path: str, reason: str, *, hint: Text = "") -> None:
        super().__init__(f"not a known profile format ({reason})", path=path, hint=hint)


class AmbiguousFormatError(TracekitError):
    """Several readers recognize the input: `choices` are their names."""

    def __init__(self, path: str, candidates: Iterable[str]) -> None:
        names = sorted(candidates)
        hint = sentence("choose with ", Option("from"), ", for example ", Option("from", names[0]))
        super().__init__(f"could be {' or '.join(names)}", path=path, hint=hint, choices=names)


class ParseError(TracekitError):
    """The input cannot be read as its format. `where` names the line or byte."""

    advice = sentence("check that the file is complete; ", Option("from", takes="NAME"), " reads it as another format")

    def __init__(self, path: str, where: str, reason: Text, *, hint: Text = "") -> None:
        super().__init__(sentence(f"{where}: " if where else "", reason), path=path, hint=hint)
        self.where, self.reason = where, str(sentence(reason))


class InputError(TracekitError):
    """The input cannot be opened: missing, a folder without traces, no permission, a broken archive member."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An input that could not be read, among others that could."""

    name: str
    error: TracekitError


class AllInputsError(InputError):
    """None of several inputs can be read; `failures` has the reason of each."""

    def __init__(self, failures: Iterable[Failure]) -> None:
        self.failures = tuple(failures)
        super().__init__(f"none of the {len(self.failures)} inputs can be read", hint="each is named above")


class UnsupportedVersionError(TracekitError):
    """The format is known, but not this version of it: `version`."""

    def __init__(self, path: str, found: str, supported: str, *, hint: Text = "") -> None:
        super().__init__(f"version {found} cannot be read; supported: {supported}", path=path, hint=hint)
        self.version, self.supported = found, supported


class OutputExistsError(TracekitError):
    """The output exists already."""

    advice = sentence("choose another name, or ", Option("force"), " to replace it")

    def __init__(self, path: str) -> None:
        super().__init__(sentence(NamedPath(path), " exists already"))


class OutputError(TracekitError):
    """The output cannot be written: disk full, no permission, no such folder. An older file is not changed."""


@dataclass(frozen=True, slots=True)
class StopReading:
    """The reason why the rest of an input is not read.

    code: of the note. text: follows the name of the input. hint: what to do.
    """

    code: str
    text: Sentence
    hint: Sentence

    def rest(self) -> Sentence:
        """Return the sentence of a note: what was read before it is kept."""
        return sentence(self.text, ": the rest was not read")


class LimitError(TracekitError):
    """An input costs more than a limit allows, and cannot be read in part. stop: the limit."""

    def __init__(self, name: str, stop: StopReading) -> None:
        whole = sentence(NamedPath(name), " ", stop.text, ": it was not read, because it can only be read as a whole")
        super().__init__(whole, hint=stop.hint)
        self.stop = stop


class ScratchError(OutputError):
    """The temporary folder is full or cannot be written. Neither an input nor the output is the reason."""


class MissingExtraError(TracekitError):
    """A feature needs a package that is not installed: that of `extra`."""

    def __init__(self, feature: Text, extra: str) -> None:
        text = sentence(feature, " needs packages that are not installed")
        super().__init__(text, hint=f"pip install 'tracekit-gpu[{extra}]'")
        self.extra = extra


class UsageError(TracekitError):
    """Options contradict each other or name nothing; exit code 2."""


class ArgumentTypeError(UsageError, TypeError):
    """An argument of a function has the wrong type, is unknown, or is missing; also a TypeError.

    function, argument: their names. wanted, given: types in words. sentence: the words in place of these two.
    """

    def __init__(
        self,
        function: str,
        argument: str,
        wanted: str = "",
        given: str = "",
        *,
        sentence: str = "",
        choices: Iterable[str] = (),
    ) -> None:
        text = sentence or f"{argument} must be {wanted}, not {given}"
        known = tuple(choices)
        hint = f"arguments of {function}: {', '.join(known)}" if known else ""
        super().__init__(f"{function}: {text}", hint=hint, choices=known)
        self.argument, self.given = argument, given

    @property
    def option(self) -> str:
        """The argument's name, "" where one is missing."""
        return self.argument

    @property
    def found(self) -> str:
        """The type of the argument in words, with its value where that is short."""
        return self.given


class UnknownNameError(UsageError, KeyError):
    """A name that a report, table or comparison does not have; `choices` are its names. Also a KeyError."""

    __str__ = Exception.__str__  # KeyError's would quote the sentence


class NoSuchPlaceError(UsageError, IndexError):
    """A place that a report, section, table or column does not have; they begin at 0. Also an IndexError."""


class SchemaError(TracekitError):
    """A table or a ledger made by tracekit is wrong: a bug."""

    advice = sentence("this is a bug of tracekit: please report it with the file, or its first lines")


class OutOfOrderError(Exception):
    """Rows are not in the order that their reader declares: the pipeline starts again with a sort. Never shown."""


def first_line(err: BaseException) -> str:
    """Return the first line of an error of a library, at most 200 characters; its type where it has no text."""
    return str(err).partition("\n")[0][:200] or type(err).__name__

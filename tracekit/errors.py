"""Every exception of the package.

Each carries one sentence of fact (`str(error)`) and one `hint` that says what to do. Lower layers raise them; only the
command line catches and prints them (`tracekit/cli/_common.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tracekit.credentials import masked


class TracekitError(Exception):
    """An error that a user can meet and fix. `hint` says what to do, "" for no advice. Credentials in it are masked."""

    hint: str = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(masked(message))
        if hint:
            self.hint = masked(hint)


class UnknownFormatError(TracekitError):
    """No reader knows the input."""

    hint = "`tracekit formats` lists what can be read; --from NAME skips the guess"

    def __init__(self, path: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{path}: not a known profile format ({reason})", hint=hint)


class AmbiguousFormatError(TracekitError):
    """Several readers recognize the input."""

    def __init__(self, path: str, candidates: Iterable[str]) -> None:
        names = sorted(candidates)
        super().__init__(
            f"{path}: could be {' or '.join(names)}", hint=f"say which with --from, for example --from {names[0]}"
        )


class ParseError(TracekitError):
    """The input cannot be read as its format. `where` names the line or byte."""

    hint = "is the file complete? --from NAME reads it as another format"

    def __init__(self, path: str, where: str, reason: str, *, hint: str = "") -> None:
        place = f"{path}: {where}" if where else path
        super().__init__(f"{place}: {reason}", hint=hint)
        self.path, self.where, self.reason = path, where, reason


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
    """The format is known, but not this version of it."""

    def __init__(self, path: str, found: str, supported: str, *, hint: str = "") -> None:
        super().__init__(f"{path}: version {found} cannot be read; supported: {supported}", hint=hint)


class OutputExistsError(TracekitError):
    """The output exists already."""

    hint = "choose another name, or --force to replace it"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} exists already")


class OutputError(TracekitError):
    """The output cannot be written: disk full, no permission, no such folder. An older file is not changed."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The reason why the rest of an input is not read.

    code: of the note. text: follows the name of the input. hint: what to do.
    """

    code: str
    text: str
    hint: str

    def rest(self) -> str:
        """Return the sentence of a note: what was read before it is kept."""
        return f"{self.text}: the rest was not read"


class LimitError(TracekitError):
    """An input costs more than a limit allows, and cannot be read in part. stop: the limit."""

    def __init__(self, name: str, stop: Stop) -> None:
        super().__init__(f"{name} {stop.text}: it was not read, since only the whole of it can be", hint=stop.hint)
        self.stop = stop


class ScratchError(OutputError):
    """The temporary folder is full or cannot be written. Neither an input nor the output is the reason."""


class MissingExtraError(TracekitError):
    """A feature needs a package that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs packages that are not installed", hint=f"pip install 'tracekit-gpu[{extra}]'"
        )


class UsageError(TracekitError):
    """Options contradict each other or name nothing; exit code 2."""


class SchemaError(TracekitError):
    """A table or a ledger made by tracekit is wrong: a bug."""

    hint = "this is a bug of tracekit: please report it with the file, or its first lines"


class OutOfOrderError(Exception):
    """Rows are not in the order that their reader declares: the pipeline starts again with a sort. Never shown."""


def first_line(err: BaseException) -> str:
    """Return the first line of an error of a library, at most 200 characters; its type where it has no text."""
    return str(err).partition("\n")[0][:200] or type(err).__name__

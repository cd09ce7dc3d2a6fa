"""The options -q and -v: the amount that a command prints besides its result."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import Annotated

import typer

from tracekit.errors import UsageError

__all__ = ["OTHER", "Verbosity", "verbosity", "verbosity_in_force", "verbosity_parameters"]

OTHER = "Other"
"""The last group of options in help."""


class Verbosity(IntEnum):
    """The amount that is printed besides the result."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


_current: ContextVar[Verbosity] = ContextVar("verbosity", default=Verbosity.NORMAL)

Quiet = Annotated[
    bool, typer.Option("-q", "--quiet", help="Print what was asked for, and errors.", rich_help_panel=OTHER)
]
Verbose = Annotated[
    bool,
    typer.Option("-v", "--verbose", help="Print what became of every record, and all notes.", rich_help_panel=OTHER),
]


def verbosity() -> Verbosity:
    """Return how much the running command prints."""
    return _current.get()


def verbosity_parameters() -> list[inspect.Parameter]:
    """Return the options -q and -v, which every command has."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter("quiet", keyword, default=False, annotation=Quiet),
        inspect.Parameter("verbose", keyword, default=False, annotation=Verbose),
    ]


@contextmanager
def verbosity_in_force(*, quiet: bool, verbose: bool) -> Iterator[None]:
    """Let -q or -v hold within. Raises: UsageError for both."""
    if quiet and verbose:
        raise UsageError("-q and -v contradict each other", hint="use only one of them")
    token = _current.set(Verbosity.QUIET if quiet else Verbosity.VERBOSE if verbose else Verbosity.NORMAL)
    try:
        yield
    finally:
        _current.reset(token)

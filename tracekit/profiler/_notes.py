"""Output of the faces: tables on stdout, notes on stderr."""

from __future__ import annotations

import sys
from typing import Final

from tracekit.errors import TracekitError
from tracekit.recorder.descriptors import print_line
from tracekit.text.display import encodable

PREFIX: Final = "tracekit.profiler: "
"""Each note begins with it."""


def show(text: str) -> None:
    """Write a table where the framework's own profiler prints it: on stdout, now."""
    line = text if text.endswith("\n") else text + "\n"
    sys.stdout.write(encodable(line, getattr(sys.stdout, "encoding", None)))
    sys.stdout.flush()


def print_note(text: str) -> None:
    """Write one line to stderr, if there is a stderr."""
    print_line(PREFIX + text)


def error_text(error: Exception) -> str:
    """Return an exception in words: with its type, unless its message is written for people."""
    if isinstance(error, TracekitError | OSError | ImportError):
        return str(error)
    return f"{type(error).__name__}: {error}"


class NoteOnce:
    """Prints each note once in its life."""

    def __init__(self) -> None:
        self._printed: set[str] = set()

    def __call__(self, text: str) -> None:
        if text not in self._printed:
            self._printed.add(text)
            print_note(text)

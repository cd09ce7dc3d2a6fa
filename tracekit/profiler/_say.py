"""What a face says: tables on stdout, what it could not do on stderr, each remark once."""

from __future__ import annotations

import contextlib
import sys


def show(text: str) -> None:
    """Write a table where the framework's own profiler prints it: on stdout, now."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()


def tell(text: str) -> None:
    """Say something on stderr in one line, if there is a stderr."""
    with contextlib.suppress(Exception):
        sys.stderr.write("tracekit.profiler: " + " ".join(text.split()) + "\n")
        sys.stderr.flush()


class Once:
    """Says each remark once in its life."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            tell(text)

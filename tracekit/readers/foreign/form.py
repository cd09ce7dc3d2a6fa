"""The form in which a format that is not read is described."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from tracekit.readers.head import Head


@dataclass(frozen=True, slots=True)
class Foreign:
    """A format that is refused with advice.

    title: what the file is, for the sentence. advice: what to do; {file} and {stem} become the name of the file and
    the name without its last suffix, as a shell needs them. found: a regular expression that the
    beginning of the file has, None for none. suffixes: names that count where nothing else is found, in lower case.
    tables: sets of names; an SQLite database of the format has all those of a set. in_logs: programs print it, so the
    end of a long text is searched too.
    """

    key: str
    title: str
    advice: str
    found: bytes | None = None
    suffixes: tuple[str, ...] = ()
    tables: tuple[frozenset[str], ...] = ()
    in_logs: bool = False

    def fits(self, head: Head) -> bool:
        """Return whether the content is of this format."""
        if any(each <= head.tables for each in self.tables):
            return True
        return self.found is not None and re.match(self.found, head.data, re.DOTALL) is not None

    def hint(self, path: str) -> str:
        """Return the advice for a file of that name."""
        name = "FILE" if path == "stdin" else path
        return self.advice.format(file=shlex.quote(name), stem=shlex.quote(name.rsplit(".", 1)[0]))

"""What stands between the lines of a Theano profile, by class: tracebacks, warnings, tips."""

from __future__ import annotations

import re

from tracekit.readers.theano import _patterns as patterns

_TRACEBACK = ("Traceback (most recent call last):", "Exception ignored in ")
_CHAINED = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
_SKIPPED = "Skipping empty Profile"
_RAISED = re.compile(r"[A-Za-z_][\w.]{0,200}(?:: |:?$)")


class Noise:
    """Names the class of a line that is no line of a profile; None for what a program may print."""

    def __init__(self) -> None:
        self._traceback: int | None = None
        self._warned: int | None = None
        self._tips = False

    def over(self, *, tips: bool) -> None:
        """Note that a line of a profile was there. tips: the heading of the tips."""
        self._traceback = self._warned = None
        self._tips = tips

    def of(self, text: str, words: str) -> str | None:
        """Return the class of a line; `words` as in `_patterns.py`."""
        if self._tips and words.startswith((*patterns.TIP, *patterns.TIPS_TALK)):
            return "tips"
        self._tips = False
        indent = len(text) - len(text.lstrip())
        if words.startswith(_TRACEBACK):
            self._traceback = indent
            return "tracebacks"
        if words in _CHAINED:
            return "tracebacks"
        if self._traceback is not None:
            if indent > self._traceback:
                return "tracebacks"
            self._traceback = None
            if _RAISED.match(words):
                return "tracebacks"
        if words == _SKIPPED:
            return "skipped profiles"
        if patterns.WARNING.search(words):
            self._warned = indent
            return "warnings"
        if self._warned is not None and indent > self._warned:
            # Python prints the line of source that warned below its warning.
            self._warned = None
            return "warnings"
        self._warned = None
        return None

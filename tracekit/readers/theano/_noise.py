"""Other lines within a Theano profile, by class: tracebacks, warnings, tips."""

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
    """Classifies lines outside of a profile: tips, tracebacks, warnings; None for any other output."""

    def __init__(self) -> None:
        self._traceback: int | None = None
        self._warned: int | None = None
        self._tips = False

    def reset(self, *, tips: bool) -> None:
        """Start again after a line of a profile. tips: it was the heading of the tips."""
        self._traceback = self._warned = None
        self._tips = tips

    def classify(self, text: str, words: str) -> str | None:
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
            # Python prints the line of source below its warning.
            self._warned = None
            return "warnings"
        self._warned = None
        return None

"""One text without credentials: all rules, again and again until none changes it."""

from __future__ import annotations

import re
from collections.abc import Callable

from tracekit.credentials.assigned import Assignments, calls_masked
from tracekit.credentials.commands import commands_masked
from tracekit.credentials.keys import MOST_KEY
from tracekit.credentials.shapes import MASK, PEM, SHAPES, SUSPECT, late, may_have_words
from tracekit.credentials.urls import urls_masked

Found = Callable[[str], None]
"""Called with the name of each key, or kind of credential, whose value was masked."""

MOST_PASSES = 12

_SUSPECT = late(SUSPECT)
_SHAPE = late("(?<![A-Za-z0-9])(?:" + "|".join(f"(?P<k{n}>{whole})" for n, (_, _, whole) in enumerate(SHAPES)) + ")")
_BEGINS = late("|".join(dict.fromkeys(begins for _, begins, _ in SHAPES)))
_BEARER = late(
    r"(?i)(bearer\\*[\"']?(?:[ \t]{1,9}|%20|[ ]?[:=][ ]?\\*[\"']?))"
    r"((?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{8,}=*|[A-Za-z0-9._~+/-]{20,}=*)"
)
_PEM = late(rf"{PEM}.*?(?:-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY[A-Z ]{{0,10}}-----|\Z)", re.DOTALL)
_DOTTED = late(r"(?<![\w-])[\w-]+(?:\.[\w-]*)+")
_JWT = late(r"(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)+")


def is_suspect(text: str) -> bool:
    """Return whether a text may have a credential."""
    return may_have_words(text) and _SUSPECT().search(text) is not None


def text_masked(text: str, tell: Found) -> str:
    """Return a text, which is no JSON, with every credential in it masked."""
    for _ in range(MOST_PASSES):
        before = text
        text = masked_once(text, tell)
        if text == before:
            return text
    return MASK  # a text that is made to have ever new values


def masked_once(text: str, tell: Found) -> str:
    """Return a text, which is no JSON, after one pass of all rules: a mask may show another credential beside it."""

    def shape(name: str, by: str) -> str:
        tell(name)
        return by

    if "PRIVATE KEY" in text:
        text = _PEM().sub(lambda _: shape("private key", MASK), text)
    text = urls_masked(text, tell)
    text = Assignments(text, tell, named).masked()
    text = calls_masked(text, tell, named)
    text = commands_masked(text, tell)
    if "earer" in text or "EARER" in text:
        text = _BEARER().sub(lambda m: m[1] + shape("bearer token", MASK), text)
    if "eyJ" in text:
        text = _DOTTED().sub(lambda m: _JWT().sub(lambda _: shape("JSON web token", MASK), m[0]), text)
    if _BEGINS().search(text):
        text = _SHAPE().sub(lambda m: shape(SHAPES[int((m.lastgroup or "k0")[1:])][0], MASK), text)
    return text


def named(key: str) -> str:
    """Return the name of a key for a note: a key can itself have a credential in it."""
    return text_masked(key[:MOST_KEY].strip("-"), _quiet) or "a value"


def _quiet(_: str) -> None:
    return None

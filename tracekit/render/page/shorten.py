"""Short names in the scripts of a page: a third of what a script holds is names of variables.

A name is renamed where no use of it can be anything but a variable: it is nowhere a property, a key, a method or a
word of the language or the browser. Then all its uses get the same new name, one that occurs nowhere in the script; so
scopes, and what hides what, stay as they are. Tests compare the syntax trees.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product

from tracekit.render.page.lean import joined_tokens, separates, tokens

__all__ = ["short_script"]

_WORD = re.compile(r"[A-Za-z_$][\w$]*$")
_BEFORE_OBJECT = frozenset(["(", ",", "=", ":", "[", "?", "&", "|", "return", "const", "let", "of", "in", "..."])


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OF_THE_LANGUAGE = _words(
    "Array BigInt Boolean DataView Error Float64Array Infinity Int16Array Int32Array Intl JSON Map Math NaN "
    "Number Object Promise Proxy Reflect RegExp Set String Symbol TypeError Uint16Array Uint32Array Uint8Array "
    "WeakMap arguments async await break case catch class const constructor continue debugger decodeURIComponent "
    "default delete do else encodeURIComponent eval export extends false finally for from function get "
    "globalThis if implements import in instanceof interface isFinite isNaN let new null of package parseFloat "
    "parseInt private protected public return set static super switch this throw true try typeof undefined var "
    "void while with yield"
)
OF_THE_BROWSER = _words(
    "AudioContext Blob CSS CustomEvent DataView DecompressionStream Event HTMLElement IntersectionObserver "
    "MutationObserver Node ResizeObserver Response TextDecoder TextEncoder URL URLSearchParams addEventListener "
    "atob cancelAnimationFrame clearTimeout console devicePixelRatio document getComputedStyle getSelection "
    "history innerHeight innerWidth localStorage location matchMedia navigator performance removeEventListener "
    "requestAnimationFrame requestIdleCallback scheduler scrollBy scrollTo scrollY setTimeout window"
)
"""Names of the browser that scripts use; eslint knows no other."""


@lru_cache(maxsize=32)
def short_script(text: str) -> str:
    """Return a lean script with short names of its variables."""
    pieces = list(tokens(text))
    found = [piece for piece in pieces if not separates(piece)]
    counts = Counter(filter(_WORD.match, found))
    taken = frozenset(counts) | _OF_THE_LANGUAGE | OF_THE_BROWSER
    wanted = sorted(counts.keys() - _fixed(found), key=lambda name: (-counts[name], name))
    names = dict(zip(wanted, _fresh(taken), strict=False))
    shorter = {name: new for name, new in names.items() if len(new) < len(name)}
    return joined_tokens(shorter.get(piece, piece) for piece in pieces)


def _fresh(taken: frozenset[str]) -> Iterator[str]:
    letters = string.ascii_letters + "_$"
    for size in (1, 2, 3):
        for first, *rest in product(letters, *[letters + string.digits] * (size - 1)):
            name = "".join([first, *rest])
            if name not in taken:
                yield name


def _fixed(found: Sequence[str]) -> frozenset[str]:
    """Return the names that are not of variables alone."""
    fixed = set(_OF_THE_LANGUAGE | OF_THE_BROWSER)
    closing = _closing(found)
    inside: list[str] = []
    for i, token in enumerate(found):
        before, after = _at(found, i - 1), _at(found, i + 1)
        if token == "{":
            inside.append("object" if before in _BEFORE_OBJECT or before.endswith("${") else "block")
        elif token[0] in "`}" and token.endswith("${"):
            if token[0] == "}":
                inside.pop()
            inside.append("template")
        elif token[0] == "}":
            inside.pop()
        elif token in ("(", "["):
            inside.append(token)
        elif token in (")", "]"):
            inside.pop()
        elif _WORD.match(token):
            is_property = before == "." and list(found[max(i - 3, 0) : i]) != [".", ".", "."]
            is_key = after == ":" or before in ("get", "set", "async", "static", "#")
            is_short = inside[-1:] == ["object"] and before in ("{", ",") and after in (",", "}", "=")
            is_method = after == "(" and before != "function" and _at(found, closing[i + 1] + 1) == "{"
            if is_property or is_key or is_short or is_method:
                fixed.add(token)
    return frozenset(fixed)


def _at(found: Sequence[str], i: int) -> str:
    return found[i] if 0 <= i < len(found) else ""


def _closing(found: Sequence[str]) -> dict[int, int]:
    """Return of each "(" the place of its ")"."""
    begun: list[int] = []
    out = {}
    for i, token in enumerate(found):
        if token == "(":
            begun.append(i)
        elif token == ")":
            out[begun.pop()] = i
    return out

"""Short names in the scripts of a page: a third of what a script holds is names of variables.

All variables of one name get the same new name, one that occurs nowhere in the script; so scopes, and what hides what,
stay as they are. Properties, keys, methods, and names of the language and the browser stay. Tests compare the syntax
trees: what this module takes for a variable must be one.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product

from tracekit.render.page.lean import joined_tokens, separates, tokens

__all__ = ["short_script"]

_FREQUENT = 4
_LETTERS = "etnriaosldcufpmhgvbyxwkTSEAMCDLIRNPOBFHUVWGKYXjzqJZQ_$"
"""Letters of names, those first that are frequent in scripts anyway."""
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
_NOT_OURS = _OF_THE_LANGUAGE | OF_THE_BROWSER


@lru_cache(maxsize=32)
def short_script(text: str) -> str:
    """Return a lean script with short names of its variables."""
    pieces = list(tokens(text))
    found = [piece for piece in pieces if not separates(piece)]
    uses = _uses(found)
    counts = Counter(token for token, use in zip(found, uses, strict=True) if use)
    taken = _NOT_OURS | {token for token in found if _WORD.match(token)}
    # The frequent ones first, the others as they come: what is new together is new in a row, which packs better.
    wanted = sorted(counts, key=lambda name: -counts[name] if counts[name] > _FREQUENT else 0)
    names = dict(zip(wanted, _fresh(taken), strict=False))
    return joined_tokens(_renamed(pieces, iter(uses), names))


def _renamed(pieces: Sequence[str], uses: Iterator[str], names: Mapping[str, str]) -> Iterator[str]:
    for piece in pieces:
        use = "" if separates(piece) else next(uses)
        new = names.get(piece, piece) if use else piece
        if use == "short" and new != piece:
            yield from (piece, ":")
        yield new


def _fresh(taken: Container[str]) -> Iterator[str]:
    for size in (1, 2, 3):
        for first, *rest in product(_LETTERS, *[_LETTERS + string.digits] * (size - 1)):
            name = "".join([first, *rest])
            if name not in taken:
                yield name


def _uses(found: Sequence[str]) -> list[str]:
    """Return of each token whether it is a "variable", a "short" of one in an object (`{ name }`), or else ""."""
    closing = _closing(found)
    inside: list[str] = []
    uses = []
    for i, token in enumerate(found):
        before, after = _at(found, i - 1), _at(found, i + 1)
        use = ""
        if token == "{":
            inside.append(_braces(found, i))
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
        elif _WORD.match(token) and token not in _NOT_OURS:
            within, is_first = _at(inside, len(inside) - 1), before in ("{", ",", ";", "}")
            is_property = before == "." and list(found[max(i - 3, 0) : i]) != [".", ".", "."]
            is_key = within == "object" and is_first and after == ":"
            is_field = within == "class" and is_first and after in (";", "=")
            is_method = after == "(" and before != "function" and _at(found, closing[i + 1] + 1) == "{"
            if not (is_property or is_key or is_field or is_method):
                use = "short" if within == "object" and is_first and after in (",", "}", "=") else "variable"
        uses.append(use)
    return uses


def _braces(found: Sequence[str], i: int) -> str:
    before = _at(found, i - 1)
    if "class" in (_at(found, i - 2), _at(found, i - 4)) and _WORD.match(before):
        return "class"
    return "object" if before in _BEFORE_OBJECT or before.endswith("${") else "block"


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

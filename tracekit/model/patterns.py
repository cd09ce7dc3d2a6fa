"""Patterns in many names at once: a trace may have 100,000 distinct ones, and a report asks dozens of things of each.

Python's engine needs up to 6 µs for a name and a pattern with alternatives and without regard to capitals, Arrow's
(RE2) 0.3 µs. RE2 has no looks around. A pattern without them fits all names that it fits with them, and maybe more, so
Python's engine decides about these. RE2 knows letters and classes of characters beyond ASCII otherwise, and ends lines
elsewhere, so it sees printable ASCII only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import I32, I64, Mask, pc

__all__ = ["found_in", "rows_found", "without_looks"]

_PRINTABLE = "^[ -~]*$"
_FEW = 512
"""Names for which Python's engine alone is as fast."""
_PART = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?<?[=!]|\(|\)|[^\\\[()]+", re.DOTALL)
_KNOWN_FLAGS = re.IGNORECASE | re.UNICODE | re.DOTALL | re.ASCII


def found_in(pattern: re.Pattern[str], names: Sequence[str], longest: int = 1 << 31) -> Mask:
    """Return shape (n,), whether `pattern.search` finds something in each name's first `longest` characters.

    pattern: one of ours, not a user's: what Arrow's engine reads otherwise is not in them.

    >>> found_in(re.compile("(?<![a-z])gc", re.IGNORECASE), ["run GC", "magc"]).tolist()
    [True, False]
    """
    asked: Sequence[int] = range(len(names))
    if len(names) > _FEW and (linear := _linear(pattern)) is not None:
        column = arrow.array(names, pa.string())
        plain = arrow.bools(pc.match_substring_regex(column, _PRINTABLE)) & (
            arrow.ints(pc.binary_length(column)) <= longest
        )
        if not plain.all():
            column = column.filter(arrow.array(plain))
        may = np.ones(len(names), np.bool_)
        may[plain] = arrow.bools(
            pc.match_substring_regex(column, linear, ignore_case=bool(pattern.flags & re.IGNORECASE))
        )
        asked = np.flatnonzero(may).tolist()
    found = np.zeros(len(names), np.bool_)
    found[[at for at in asked if pattern.search(names[at][:longest])]] = True
    return found


def rows_found(pattern: re.Pattern[str], names: Sequence[str], codes: I32 | I64, longest: int = 1 << 31) -> Mask:
    """Return shape (n,), whether something is found in the name of each row; only names in use are looked at.

    codes: shape (n,), the place of each row's name; -1 for a row without one, in which nothing is found.
    """
    in_use = np.zeros(len(names) + 1, np.bool_)
    in_use[codes] = True
    used = np.flatnonzero(in_use[:-1])
    in_use[:] = False
    in_use[used] = found_in(pattern, [names[at] for at in used.tolist()], longest)
    rows: Mask = in_use[codes]
    return rows


@lru_cache(maxsize=256)
def _linear(pattern: re.Pattern[str]) -> str | None:
    """Return a pattern of Arrow's engine that fits all plain names which this one fits; None where there is none."""
    linear = without_looks(pattern.pattern)
    if pattern.flags & ~_KNOWN_FLAGS:
        return None
    try:
        pc.match_substring_regex(arrow.array([""], pa.string()), linear)
    except pa.ArrowInvalid:  # what RE2 does not have: possessive quantifiers, references to groups
        return None
    return linear


def without_looks(pattern: str) -> str:
    r"""Return a pattern without looks ahead and behind: it fits all that the pattern fits.

    >>> without_looks(r"(?<![a-z(])gc(?!(?:_x|\)))|\(?=[(?!]")
    'gc|\\(?=[(?!]'
    """
    kept: list[str] = []
    hidden = 0
    for part in _PART.findall(pattern):
        opens = part[0] == "("
        if hidden:
            hidden += opens - (part == ")")
        elif opens and len(part) > 1:
            hidden = 1
        else:
            kept.append(part)
    return "".join(kept)

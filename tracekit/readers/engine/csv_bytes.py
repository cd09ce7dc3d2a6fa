"""Bytes of CSV lines that pyarrow reads in another way than the readers do cell by cell.

pyarrow takes `0x1f` for an integer, `.5` and `5.` for decimals, and goes on after the quote in `"abc"def`. It keeps no
texts of the numbers that it has parsed, so such lines are found by their bytes before.
"""

from __future__ import annotations

import numpy as np

from tracekit.model.arrow import Bytes

__all__ = ["CELL_STARTS", "NEWLINE", "has_bare_points", "has_hexadecimal", "has_plain_quotes"]

NEWLINE, _RETURN, _QUOTE, _POINT, _ZERO, _X = b'\n\r".0x'
_LOWER = np.uint8(0x20)
"""The bit that makes a letter small."""
CELL_STARTS = b',;\t"\n'
"""Bytes before the first byte of a cell."""
NUMBER_STARTS = CELL_STARTS + b" +-"
"""Bytes before the first digit of a number: pyarrow skips blanks."""
_BESIDE_NUMBERS = np.frombuffer(NUMBER_STARTS + b"\r", np.uint8)


def has_hexadecimal(data: bytes, before: bytes = NUMBER_STARTS) -> bool:
    """Return whether a cell begins with `0x`. before: bytes that may come before it.

    An `x` behind a `0` is rare: all bytes are compared with these two alone, and the one before them is looked up.
    """
    raw = np.frombuffer(data, np.uint8)
    found = (raw[1:] | _LOWER) == _X
    found &= raw[:-1] == _ZERO
    places = np.flatnonzero(found)
    if not len(places):
        return False
    is_before = np.isin(np.arange(256), np.frombuffer(before, np.uint8))
    return bool(places[0] == 0 or is_before[raw[places - 1]].any())


def has_plain_quotes(raw: Bytes, delimiter: int, *, counted: bool = False) -> bool:
    """Return whether each quote opens or closes a whole cell that has no other. raw: whole lines.

    counted: whoever asks holds the number of rows against that of newlines, so none can be inside of a cell.
    """
    quotes = np.flatnonzero(raw == _QUOTE)
    if not len(quotes):
        return True
    if len(quotes) % 2:
        return False
    opening, closing = quotes[::2], quotes[1::2]
    # At the first byte, "before" is the last one: the end of the lines.
    before, after = raw.take(opening - 1), raw.take(np.minimum(closing + 1, len(raw) - 1))
    is_plain = ((before == delimiter) | (before == NEWLINE)).all() and (
        (after == delimiter) | (after == NEWLINE) | (after == _RETURN)
    ).all()
    if counted or not is_plain:
        return bool(is_plain)
    # No line ends inside of a cell.
    return not (np.searchsorted(quotes, np.flatnonzero(raw == NEWLINE)) & 1).any()


def has_bare_points(raw: Bytes) -> bool:
    """Return whether a cell may be a number without digits on one side of its point, `.5` or `5.`."""
    points = np.flatnonzero(raw == _POINT)
    before = np.where(points > 0, raw[points - 1], NEWLINE)
    after = raw[np.minimum(points + 1, len(raw) - 1)]
    return bool((np.isin(before, _BESIDE_NUMBERS) | np.isin(after, _BESIDE_NUMBERS)).any())

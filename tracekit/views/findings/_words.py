"""Names, shares and times in the sentences of `findings`."""

from __future__ import annotations

from tracekit.text.names import short_names
from tracekit.units import sentence_span


def named(text: str, most: int = 60) -> str:
    """Return a name for a sentence: whole, or without what says least."""
    return short_names([text], most)[0]


def percent(share: float) -> str:
    """Return a share for a sentence.

    >>> percent(0.49111)
    '49.11 %'
    """
    return f"{100 * share:.2f} %"


def whole_percent(share: float) -> str:
    """Return a share for a sentence in which a glance is enough; neither "0 %" for some nor "100 %" for less than all.

    >>> whole_percent(0.7605), whole_percent(0.001), whole_percent(0.999)
    ('76 %', '<1 %', '>99 %')
    """
    text = f"{100 * share:.0f}"
    if text == "0" and share > 0:
        return "<1 %"
    return ">99 %" if text == "100" and share < 1 else f"{text} %"


span = sentence_span
"""A time for a sentence; the exact one is in the evidence."""


def size(amount: float) -> str:
    """Return a size for a sentence, in binary units.

    >>> size(25165824), size(100)
    ('24.00 MiB', '100 bytes')
    """
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(amount) >= scale:
            return f"{amount / scale:.2f} {unit}"
    return f"{amount:.0f} bytes"

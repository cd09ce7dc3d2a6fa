"""Names, shares and times in the sentences of `findings`."""

from __future__ import annotations

from tracekit.text.names import short_names


def named(text: str, most: int = 60) -> str:
    """Return a name for a sentence: whole, or without what says least."""
    return short_names([text], most)[0]


def percent(share: float) -> str:
    """Return a share for a sentence.

    >>> percent(0.49111)
    '49.11 %'
    """
    return f"{100 * share:.2f} %"


def span(ns: int) -> str:
    """Return a time for a sentence, in four digits: the exact one is in the evidence.

    >>> span(144088000), span(999)
    ('144.1 ms', '999 ns')
    """
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if abs(ns) >= size:
            value = ns / size
            digits = max(0, 4 - len(str(int(abs(value)))))
            return f"{value:.{digits}f} {unit}"
    return f"{ns} ns"


def size(amount: float) -> str:
    """Return a size for a sentence, in binary units.

    >>> size(25165824), size(100)
    ('24.00 MiB', '100 bytes')
    """
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(amount) >= scale:
            return f"{amount / scale:.2f} {unit}"
    return f"{amount:.0f} bytes"

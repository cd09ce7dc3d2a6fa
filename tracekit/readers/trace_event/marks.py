"""The rule that finds the producer of a JSON trace among the readers that declare marks.

Each producer's marks are in its reader. A new dialect needs no change here: it declares a mark that is stronger than
the marks of the readers that would otherwise take its files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tracekit.readers.base import Mark, Strength
from tracekit.readers.head import Head, begun

__all__ = ["EVENT_LIST", "PHASE", "claimants"]

EVENT_LIST = rb'"traceEvents"\s*:'
PHASE = rb'"ph"\s*:\s*"[A-Za-z()]"'
_ARRAY = rb'\[\s*(?:\{|"\w+"\s*:)'
"""An array of objects; the brace of the first one may be lost."""
_EVENT_KEY = rb'"(?:ts|pid|tid)"\s*:'


def claimants(head: Head, declared: Iterable[tuple[str, Sequence[Mark]]]) -> frozenset[str]:
    """Return the names that have the strongest mark found in a file: one name, unless two marks are equally strong.

    declared: (name, marks). Marks weaker than HEADER count only where the head holds events.
    """
    data = begun(head.data)
    if data[:1] not in (b"[", b"{"):
        return frozenset()
    marks = [(mark, name) for name, marks in declared for mark in marks]
    if data[:1] == b"{":
        outer = [(mark, name) for mark, name in marks if mark.strength >= Strength.HEADER]
        if found := _strongest(data, outer):
            return found
    inner = [(mark, name) for mark, name in marks if mark.strength < Strength.HEADER]
    return _strongest(data, inner) if inner and _has_events(data) else frozenset()


def _strongest(data: bytes, marks: list[tuple[Mark, str]]) -> frozenset[str]:
    for strength in sorted({mark.strength for mark, _ in marks}, reverse=True):
        if found := frozenset(name for mark, name in marks if mark.strength == strength and mark.is_in(data)):
            return found
    return frozenset()


def _has_events(data: bytes) -> bool:
    """Return whether a JSON text is an array of events, an object with a list of them, or events one a line."""
    if data[:1] == b"[":
        return bool(re.match(_ARRAY, data) and re.search(PHASE, data) and re.search(_EVENT_KEY, data))
    if re.search(EVENT_LIST, data):
        return True
    from tracekit.readers.trace_event.stream import is_bare

    return is_bare(data)

"""Events of shapes that differ in the name alone: one of them is parsed, the others take its places.

A generated name in each event (a loop that writes "op 1", "op 2" ...) makes as many shapes as events, and parsing is
most of the cost of a shape.
"""

from __future__ import annotations

import re

from tracekit.readers.trace_event.plan import Event
from tracekit.readers.trace_event.scan import Scan

MOST_PATTERNS = 1024
"""Patterns kept at once; when there are more, they are made anew."""
LONGEST = 1 << 12
"""Bytes of an event that becomes a pattern: all of them take some MB."""
_NAME = re.compile(rb'"name":("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)


class Patterns:
    """Parsed events by their shape without the name."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], Event] = {}

    def event(self, scan: Scan, code: int) -> Event:
        """Return an event of a shape. Its numbers may be those of another event, as those of all events of a shape.

        Two shapes with equal text before and behind a string have the same structure, once the parsed one shows that
        this string is the name of the event, and not one in args, nor the first of two.
        """
        shape = scan.shapes[code]
        found = _NAME.search(shape)
        if found is None or len(shape) > LONGEST:
            return Event(scan.object(int(scan.sample[code])))
        start, end = found.span(1)
        key = shape[:start], shape[end:]
        pattern = self._known.get(key)
        if pattern is not None:
            return pattern.renamed(found[1])
        event = Event(scan.object(int(scan.sample[code])))
        name = event.members.get("name")
        if name is not None and event.place(name.start)[0] == start and name.raw == found[1]:
            if len(self._known) >= MOST_PATTERNS:
                self._known.clear()
            self._known[key] = event
        return event

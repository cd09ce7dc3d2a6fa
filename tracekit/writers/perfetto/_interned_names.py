"""Texts that a file defines once for each track and then refers to by number."""

from __future__ import annotations

from collections.abc import Iterable

from tracekit.writers.perfetto._wire import message, number, text

CATEGORY, NAME, KEY, STRING = 1, 2, 3, 29
"""Fields of InternedData: categories, names of events, names of arguments, their texts."""

Text = tuple[int, int]
"""Field of InternedData and number (iid) of a text."""


class InternedNames:
    """All texts of a file. A number means the same on each track, but each track that uses it must define it."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, int]] = {field: {} for field in (CATEGORY, NAME, KEY, STRING)}
        self._definitions: dict[Text, bytes] = {}

    def iid(self, field: int, value: str) -> int:
        """Return the number of a text, from 1."""
        known = self._known[field]
        found = known.get(value)
        if found is None:
            found = known[value] = len(known) + 1
            self._definitions[field, found] = message(field, number(1, found), text(2, value))
        return found

    def definitions(self, texts: Iterable[Text]) -> bytes:
        """Return the fields of InternedData that define texts."""
        return b"".join(self._definitions[each] for each in texts)

"""The fields of a marker: texts by their number in the string table, members of args as texts, and their schema."""

from __future__ import annotations

import json
from collections.abc import Iterator

import orjson

from tracekit.writers.json_text import OWN_KEYS, parsed
from tracekit.writers.tracks.batch import NUMBERS, SHAPES
from tracekit.writers.tracks.texts import quoted

MOST_KEYS = 500
"""Most keys of args that become fields of their own: every schema lists them."""
_RESERVED = OWN_KEYS | {"type", "cause", "stack", "category", "innerWindowID"}
"""Keys that have a meaning of their own in a marker, ours included."""
_TEXTS = ("raw_name", "copy_kind")


class Strings:
    """The string table of a profile: each distinct text once."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text in the table."""
        return self._known.setdefault(text, len(self._known))

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)


class Fields:
    """The keys of args that the markers have, in order of appearance."""

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self.together = 0
        """Distinct args that are one field each, because there are too many keys."""

    def members(self, text: str) -> str:
        """Return an args text as members of a marker, each followed by a comma; each value is a text.

        Numbers are texts too, as they were written: a viewer would round them. An empty object, or one that uses a key
        with a meaning of its own, is one text under "args"; what is not a JSON object is under "args_text".
        """
        value = parsed(text)
        if value is None:
            return f'"args_text":{quoted(text)},'
        if not value or not _RESERVED.isdisjoint(value):
            return f'"args":{quoted(text)},'
        if len(self._keys) + len(value.keys() - self._keys.keys()) > MOST_KEYS:
            self.together += 1
            return f'"args":{quoted(text)},'
        self._keys.update(dict.fromkeys(value))
        return "".join(f"{quoted(key)}:{quoted(_shown(each))}," for key, each in value.items())

    def schema(self, kind: str) -> dict[str, object]:
        """Return the schema of the markers of a kind. Fields that a marker lacks are not shown."""
        fields: list[dict[str, object]] = [{"key": key, "format": "unique-string"} for key in _TEXTS]
        fields += [{"key": key, "format": "list"} for key, _ in SHAPES]
        fields += [{"key": key, "format": "integer"} for key in (*NUMBERS, "dur_ns")]
        fields.append({"key": "value", "format": "decimal"})
        fields += [{"key": key, "format": "string"} for key in (*self._keys, "args", "args_text")]
        places = ["marker-table"] if kind == "flow" else ["marker-chart", "marker-table", "timeline-overview"]
        return {"name": kind, "display": places, "isStackBased": True, "fields": fields}


def _shown(value: object) -> str:
    """Return a value as a text: a string as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer beyond 64 bits, or a lone surrogate
        return json.dumps(value, separators=(",", ":"))

"""The members behind the list of events of a trace. They are read ahead, since a run's clock and rank may be there."""

from __future__ import annotations

import re

import msgspec

from tracekit.readers.source import Source

TAIL_BYTES = 1 << 20
LONGEST_FACT = 64 << 10
DEEPEST_FACT = 100
"""orjson stops at 254, json at 1000; facts of real files nest five deep."""
TOO_DEEP = object()
OUR_FACTS = "tracekit"
"""Our own member, which lists all lanes, may be longer: up to the MiB that is looked at ahead."""

_LIST_END = re.compile(rb"[}\[]\s*+,?\s*+\]")
_Members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def facts_behind(source: Source) -> dict[str, object]:
    """Return the members behind the list of events at the top level, as far as the last MiB shows them."""
    tail = source.tail(TAIL_BYTES).rstrip(b"\0 \t\r\n").decode("utf-8", "replace").encode()
    if not tail.endswith(b"}"):
        return {}
    found: dict[str, msgspec.Raw] = {}
    for match in list(_LIST_END.finditer(tail))[-256:][::-1]:
        members = _members_behind(tail[match.end() :])
        if members is not None and "traceEvents" not in members:
            found = members
    facts: dict[str, object] = {}
    for key, raw in found.items():
        if len(bytes(raw)) <= LONGEST_FACT or key == OUR_FACTS:
            value = fact_of(raw)
            if value is not TOO_DEEP:  # else a note is made when the events have been read
                facts[key] = value
    return facts


def fact_of(raw: msgspec.Raw) -> object:
    """Return the value of a member, TOO_DEEP for one that no JSON library of ours could write again."""
    try:
        value: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return TOO_DEEP
    level = [value]
    for _ in range(DEEPEST_FACT):
        level = [
            v
            for node in level
            if isinstance(node, (dict, list))
            for v in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return value
    return TOO_DEEP


def _members_behind(text: bytes) -> dict[str, msgspec.Raw] | None:
    text = text.lstrip()
    if text[:1] not in (b",", b"}"):
        return None
    try:
        return _Members.decode(b"{" + text.removeprefix(b","))
    except (msgspec.DecodeError, RecursionError):
        return None

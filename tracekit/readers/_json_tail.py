"""What stands behind the list of events of a trace: read ahead, since a run's clock and rank may stand there."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from tracekit.readers.source import Source

TAIL_BYTES = 1 << 20
LONGEST_FACT = 64 << 10
OUR_FACTS = "tracekit"
"""Our own member, which lists all lanes, may be longer: up to the MiB that is looked at ahead."""

_LIST_END = re.compile(rb"[}\[]\s*,?\s*\]")
_Members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def facts_behind(source: Source) -> dict[str, Any]:
    """Return what stands behind the list of events at the top level, as far as the last MiB shows it."""
    tail = source.tail(TAIL_BYTES).rstrip(b"\0 \t\r\n").decode("utf-8", "replace").encode()
    if not tail.endswith(b"}"):
        return {}
    found: dict[str, msgspec.Raw] = {}
    for match in list(_LIST_END.finditer(tail))[-256:][::-1]:
        members = _members_behind(tail[match.end() :])
        if members is not None and "traceEvents" not in members:
            found = members
    facts = {}
    for key, raw in found.items():
        if len(bytes(raw)) <= LONGEST_FACT or key == OUR_FACTS:
            try:
                facts[key] = msgspec.json.decode(raw)
            except (msgspec.DecodeError, RecursionError):
                continue  # the reading itself comes to it, and tells
    return facts


def _members_behind(text: bytes) -> dict[str, msgspec.Raw] | None:
    text = text.lstrip()
    if text[:1] not in (b",", b"}"):
        return None
    try:
        return _Members.decode(b"{" + text.removeprefix(b","))
    except (msgspec.DecodeError, RecursionError):
        return None

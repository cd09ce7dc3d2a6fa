"""The parser of the JSON objects in a column `args`: loaded when a text has one of the keys that are asked for."""

from __future__ import annotations

import json
from functools import lru_cache
from operator import attrgetter

import msgspec
import pyarrow as pa

from tracekit.model import arrow
from tracekit.model.arrow import Column, pc

__all__ = ["ABSENT", "parsed"]

ABSENT = msgspec.UNSET
"""In place of the member of an object that has none."""


@lru_cache(maxsize=64)
def _decoder(keys: tuple[str, ...]) -> msgspec.json.Decoder[msgspec.Struct]:
    names = [f"key_{i}" for i in range(len(keys))]
    fields: list[tuple[str, type, object]] = [(name, object, ABSENT) for name in names]
    member = msgspec.defstruct("Members", fields, rename=dict(zip(names, keys, strict=True)), gc=False)
    return msgspec.json.Decoder(member)


def parsed(distinct: Column, keys: tuple[str, ...]) -> list[object]:
    """Return the member of each text, ABSENT for none."""
    decoder = _decoder(keys)
    large = pa.large_string()
    lines = pc.binary_join_element_wise(pc.cast(distinct, large), pa.scalar("\n", large), pa.scalar("", large))
    offsets, data = arrow.text_parts(lines)
    block = data[offsets[0] : offsets[-1]].tobytes()
    # Where each text is one line, the parser reads them in one go.
    if block.count(b"\n") == len(distinct):
        try:
            objects = decoder.decode_lines(block)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            objects = []
        if len(objects) == len(distinct):
            return list(map(attrgetter("key_0") if len(keys) == 1 else _first, objects))
    return [_parsed_alone(text, keys) for text in arrow.texts(distinct)]


def _first(members: msgspec.Struct) -> object:
    return next((m for m in msgspec.structs.astuple(members) if m is not ABSENT), ABSENT)


def _parsed_alone(text: str, keys: tuple[str, ...]) -> object:
    """Return the member of one text; Python's parser takes what others refuse (NaN, half characters, long numbers)."""
    try:
        return _first(_decoder(keys).decode(text))
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        members = json.loads(text)
    except (ValueError, RecursionError):
        return ABSENT
    return next((members[key] for key in keys if key in members), ABSENT) if isinstance(members, dict) else ABSENT

"""Kinds of lines and events, and the texts in which CUPTI's details are written."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from tracekit.readers.engine.protobuf import INT32_MAX, INT64_MAX
from tracekit.readers.xplane._planes import Name, Plane
from tracekit.schema import Kind


class Role(StrEnum):
    """Roles of lines, by which their events are counted."""

    HOST = "host"
    STREAM = "stream"
    OPS = "ops"
    DERIVED = "derived"
    OTHER = "other"


DETAILS = frozenset({"kernel_details", "memcpy_details", "memset_details"})
"""Stats whose texts CUPTI's details are."""
_OPS = ("XLA Ops", "Sparse Core Ops")
_COPY = re.compile(r"mem_?cpy_?(?:([HDAP])2([HDAP]))?", re.I | re.ASCII)
_SET = re.compile(r"memset", re.I)
_CALL = re.compile(r"(?:(cuda|hip)|cu)[A-Z]", re.ASCII)
_OPERATOR = re.compile(r"[^:\s]+:[A-Z_][A-Za-z0-9_]*", re.ASCII)
"""Types that TensorFlow puts in itself begin with `_`: `_FusedConv2D`, `_MklMatMul`."""
_DETAIL = re.compile(r"([a-z_]{1,40}):([^\s]{1,200})", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_SHAPE = re.compile(r"([0-9]{1,18}),([0-9]{1,18}),([0-9]{1,18})", re.ASCII)
_COLUMNS = {
    "regs": "registers",
    "static_shared": "static_smem_bytes",
    "dynamic_shared": "dynamic_smem_bytes",
    "size": "bytes",
    "num_bytes": "bytes",
}
_SHAPES = frozenset(f"{shape}_{axis}" for shape in ("grid", "block") for axis in "xyz")
_SMALL = _SHAPES | {"registers"}


def role_of(plane: Plane, line: str) -> Role:
    """Return the role of a line."""
    if plane.device is None:
        return Role.HOST if plane.name.startswith("/host:") else Role.OTHER
    if plane.name.startswith("/device:GPU"):
        return Role.STREAM if line.startswith("Stream #") else Role.DERIVED
    return Role.OPS if line in _OPS else Role.DERIVED


def kind_of(role: Role, name: Name) -> tuple[Kind, str | None]:
    """Return the kind of the events of a name on a line, and the direction of a copy."""
    text = name.name
    if role in (Role.STREAM, Role.OPS):
        if role is Role.STREAM and (found := _COPY.match(text)):
            return Kind.MEMCPY, f"{found[1].upper()}to{found[2].upper()}" if found[1] else None
        return (Kind.MEMSET if role is Role.STREAM and _SET.match(text) else Kind.KERNEL), None
    if role is not Role.HOST:
        return Kind.OTHER, None
    if text.startswith("$"):
        return Kind.PYTHON_OP, None
    if call := _CALL.match(text):
        return (Kind.RUNTIME if call[1] else Kind.DRIVER), None
    return Kind.OPERATOR if _OPERATOR.fullmatch(text) else Kind.OTHER, None


@lru_cache(maxsize=4096)
def details(text: str) -> tuple[dict[str, int], str]:
    """Return the columns of a text of details, and what is left of it.

    >>> details("regs:38 static_shared:0 grid:160,1,1 occ_pct:50")[1]
    'occ_pct:50'
    """
    found: dict[str, int] = {}
    left = []
    for word in text.split():
        match = _DETAIL.fullmatch(word)
        taken: dict[str, int] = {}
        if match and match[1] in _COLUMNS and _NUMBER.fullmatch(match[2]):
            taken = {_COLUMNS[match[1]]: int(match[2])}
        elif match and match[1] in ("grid", "block") and (shape := _SHAPE.fullmatch(match[2])):
            taken = {f"{match[1]}_{axis}": int(size) for axis, size in zip("xyz", shape.groups(), strict=True)}
        fits = all(
            (name in _SHAPES) <= value <= (INT32_MAX if name in _SMALL else INT64_MAX) for name, value in taken.items()
        )
        if taken and fits and not taken.keys() & found.keys():
            found |= taken
        else:
            left.append(word)
    return found, " ".join(left)

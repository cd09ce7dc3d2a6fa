"""Names of fluid's events: paths such as "mul/mul%fc_0.tmp_0%/compute", their roles, and how the report shows them.

An event's name is the path of the ranges around it. The last part says its role: "compute", "infer_shape" and
"prepare_data" are inner parts of an operator; "mul%fc_0.tmp_0%" is one operator of its type, known by its output
(recorded with AllOpDetail alone); "ParallelExecutor::Run" holds the operators of other threads; all else is ordinary.

Source: paddle/fluid/platform/profiler_helper.h and operator.cc of Paddle 1.8 and 2.x, checked against printed reports.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

__all__ = [
    "BLOCK",
    "COPY",
    "SPECIAL",
    "FluidRole",
    "cut_of",
    "numbered",
    "parent_of",
    "printed_width",
    "role_of",
    "threaded",
]

INNER = frozenset({"compute", "infer_shape", "prepare_data"})
SPECIAL = "ParallelExecutor::Run"
COPY = "GpuMemcpy"
BLOCK = re.compile(r"block_-?\d+")
"""A block of the program: the profile has such ranges, the report does not."""


class FluidRole(StrEnum):
    """The role of an event in the report."""

    ORDINARY = "ordinary"
    INNER = "inner"
    UNIQUE = "unique"
    SPECIAL = "special"


def role_of(name: str) -> FluidRole:
    """Return the role that the last part of a path says.

    >>> [str(role_of(name)) for name in ("mul", "mul/compute", "mul/mul%fc_0%", "StandaloneExecutor::run/default-0")]
    ['ordinary', 'inner', 'unique', 'ordinary']
    """
    last = name.rpartition("/")[2]
    if last in INNER:
        return FluidRole.INNER
    if last.count("%") >= 2:
        return FluidRole.UNIQUE
    return FluidRole.SPECIAL if name == SPECIAL else FluidRole.ORDINARY


def parent_of(name: str) -> str:
    """Return the path without its last part, "" for a path of one part."""
    return name.rpartition("/")[0]


def numbered(names: Sequence[str]) -> dict[str, str]:
    """Return for each name, given in the order of their first events, the one that the report shows.

    "%fc_0.tmp_0%" becomes a number: that of the different texts met behind the same words, counted from 0. Where a path
    has two of them the second one's number is reckoned as upstream does, from the text between the two.

    >>> numbered(["mul/mul%b%", "mul/mul%a%", "mul/mul%a%/compute"])["mul/mul%a%/compute"]
    'mul/mul1/compute'
    """
    seen: dict[str, list[str]] = {}
    return {name: _numbered(name, seen) for name in dict.fromkeys(names)}


def _numbered(name: str, seen: dict[str, list[str]]) -> str:
    shown = name
    start = name.find("%")
    while start >= 0:
        end = name.find("%", start + 1)
        first = shown.find("%")
        last = shown.find("%", first + 1) if first >= 0 else -1
        if end < 0 or last < 0:
            break
        texts = seen.setdefault(name[:start], [])
        text = name[start : end + 1]
        if text not in texts:
            texts.append(text)
        shown = f"{shown[:first]}{texts.index(text)}{shown[last + 1 :]}"
        start = name.find("%", start + 1)
    return shown


def cut_of(name: str, role: FluidRole) -> int:
    """Return how many characters of a path the report leaves out before what it prints.

    An inner part stands with the operator before it ("mul0/compute"), all else alone; a path that has fewer slashes is
    printed whole ("thread0::mul/compute").
    """
    at = name.rfind("/")
    if role is FluidRole.INNER and at >= 0:
        at = name.rfind("/", 0, at)
    return at + 1


def printed_width(name: str, role: FluidRole, *, detail: bool) -> int:
    """Return what a name, shown or not, counts for the width of its column, in bytes; detail: inner parts are shown."""
    cut = cut_of(name, role) if role is FluidRole.INNER and detail else name.rfind("/") + 1
    return len(name[cut:].encode())


def threaded(name: str, thread: int, specials: frozenset[str]) -> str:
    """Return the name in the report by thread; behind the path of a special event the thread stands within it.

    >>> threaded("ParallelExecutor::Run/mul", 1, frozenset({"ParallelExecutor::Run"}))
    'ParallelExecutor::Run/thread1::mul'
    """
    if name in specials:
        return name
    at = name.rfind("/")
    while at >= 0 and name[:at] not in specials:
        at = name.rfind("/", 0, at)
    return f"{name[: at + 1]}thread{thread}::{name[at + 1 :]}"

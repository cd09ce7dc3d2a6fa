"""The lines of folded stacks: how they look, and whether a text has them."""

from __future__ import annotations

import re

from tracekit.readers.base import Confidence
from tracekit.readers.head import Head

LINE = r"(\S(?:.*[^ \t\n])?)[ \t]++(\d{1,18}(?:\.\d{1,9})?)"
"""Frames, blanks and a number."""
COMMENTS = ("#", "//")
_CALL = r"::|\(.*\)|\+0x[0-9a-f]+|`"
_MOST_LINES = 200
_SURE = 0.75
_MOST_CALLS = 0.9


def sniff(head: Head) -> Confidence:
    """Return YES where most of the first lines are stacks and a number."""
    lines = head.data[: 32 << 10].decode("utf-8", "replace").lstrip("\ufeff").splitlines()
    if not head.complete or len(head.data) > 32 << 10:
        lines = lines[:-1]
    lines = [line for line in lines if line.strip() and not line.startswith(COMMENTS)][:_MOST_LINES]
    found = [match for line in lines if (match := re.fullmatch(LINE, line.rstrip(), re.ASCII)) is not None]
    if not found or len(found) < _SURE * len(lines):
        return Confidence.NO
    stacks = [match[1] for match in found]
    if any(stack[:1] == '"' for stack in stacks):
        return Confidence.NO
    semicolons = sum(_is_stack(stack) for stack in stacks)
    if semicolons >= 0.5 * len(stacks) and (semicolons > 1 or len(lines) == 1):
        return Confidence.YES
    calls = sum(
        re.search(_CALL, stack) is not None and "." not in match[2] and "\t" not in stack
        for stack, match in zip(stacks, found, strict=True)
    )
    distinct = len(stacks) > 2 and len(set(stacks)) == len(stacks)
    return Confidence.YES if distinct and calls >= _MOST_CALLS * len(stacks) else Confidence.NO


def _is_stack(stack: str) -> bool:
    """Return whether a text is frames between semicolons. Code and tables of numbers have them, too."""
    frames = stack.split(";")
    return len(frames) > 1 and all(frames) and not frames[0][:1].isdecimal() and not stack.endswith(";")

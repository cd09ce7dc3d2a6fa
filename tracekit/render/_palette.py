"""Colours of the page, for each kind of event and each part of a bar: mid tones, readable on white and on dark.

A kind has the same colour in every report, so that two reports can be compared. The scripts vary its tone a little by
name, so that neighbours on a lane look different.
"""

from __future__ import annotations

_COLORS = """
    kernel: #3b6fb6, memcpy: #2f9e7e, memset: #8d6cab, communication: #d9822b, step: #c2556e, user_range: #c9788a,
    user_range_native: #d39aa7, operator: #5f8fae, operator_inner: #86a9c0, python_op: #a89566, runtime: #8795a5,
    driver: #6f7d8d, sync: #c0a13a, memory: #5d9c9c, dataloader: #7f9b45, forward: #4b8fa8, backward: #b76d50,
    optimizer: #93803a, overhead: #c25244, counter: #a7a7a7, mark: #a7a7a7, flow: #a7a7a7, other: #9fa3a8,
    communication kernel: #d9822b,
    kernels: #3b6fb6, exposed copies: #2f9e7e, exposed memsets: #8d6cab, exposed communication: #d9822b,
"""
_WORDS = dict(each.strip().split(": ") for each in _COLORS.split(",") if each.strip())
_OTHERS = ("#3b6fb6", "#d9822b", "#2f9e7e", "#8d6cab", "#c2556e", "#c0a13a", "#5d9c9c", "#6f7d8d")


def color_of(word: str, place: int = 0) -> str:
    """Return the colour of a kind or a part; another word gets the colour of its place."""
    return _WORDS.get(word, _OTHERS[place % len(_OTHERS)])


def place_of(word: str) -> int:
    """Return the place of a kind in a legend: devices first, then steps and operators, then calls."""
    words = list(_WORDS)
    return words.index(word) if word in words else len(words)


def dark_of(color: str) -> str:
    """Return a colour "#rrggbb" for a dark page: a sixth darker, so that large areas do not glare."""
    parts = [int(color[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{part * 5 // 6:02x}" for part in parts)

"""The source of the memory of a command, and its return to the system."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

__all__ = ["share_system_memory"]

_POOL = "ARROW_DEFAULT_MEMORY_POOL"
"""The variable that pyarrow reads when it is loaded."""
_THRESHOLD, _TRIM, _ARENAS = -3, -1, -8
"""Names of `mallopt` for the numbers below."""
_MAPPED = 8_000_000
"""Bytes: larger memory goes back to the system when it is freed; blocks of input, which come and go, are smaller."""
_KEPT = 32_000_000
_HEAPS = 2
"""Most heaps: threads beyond them share one."""


def share_system_memory() -> None:
    """Let pyarrow and numpy take memory from one place, and give it back early. For a process of our own.

    What one frees serves the other: each of pyarrow's own allocators keeps 100 MB more at the peak of a report of 1M
    events. glibc moves its threshold up to 32 MB after the first large array unless it is set. A smaller one saves
    memory, but each page of memory that comes anew from the system takes time. It has a heap for each of some threads,
    and what is free in one of them serves no other: two heaps save 70 MB of 360 MB where one thread reads and another
    writes.
    """
    if os.environ.setdefault(_POOL, "system") != "system" or not sys.platform.startswith("linux"):
        return
    import ctypes

    with suppress(AttributeError, OSError):  # another C library
        c = ctypes.CDLL(None)
        c.mallopt(_THRESHOLD, _MAPPED)
        c.mallopt(_TRIM, _KEPT)
        c.mallopt(_ARENAS, _HEAPS)

"""The source of the memory of a command, and its return to the system."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

import pyarrow as pa

_THRESHOLD, _TRIM = -3, -1
"""Names of `mallopt` for the sizes below."""
_MAPPED = 4_000_000
"""Bytes: larger memory goes back to the system when it is freed; blocks of input, which come and go, are smaller."""
_KEPT = 16_000_000


def share_system_memory() -> None:
    """Let pyarrow and numpy take memory from one place, and give it back early. For a process of our own.

    Each of pyarrow's own allocators keeps what others could use: 100 MB more at the peak of a report of 1M events.
    glibc moves its threshold up to 32 MB after the first large array unless it is set.
    """
    if not sys.platform.startswith("linux") or "ARROW_DEFAULT_MEMORY_POOL" in os.environ:
        return
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(AttributeError, OSError):  # another C library
        c = ctypes.CDLL(None)
        c.mallopt(_THRESHOLD, _MAPPED)
        c.mallopt(_TRIM, _KEPT)

"""Numbers in the exports of Nsight Systems: global ids, types of NVTX events, kinds of memory and of copies.

Source: the ENUM_ tables in the SQLite exports.
"""

from __future__ import annotations

from tracekit.readers.sqlite import cupti

BITS = 0xFFFFFF
"""globalTid: machine (hardware and VM, 8 bits each), process and thread (24 bits each)."""

CATEGORY, MARK, THREAD, PUSH_POP, START_END, DOMAIN = 33, 34, 39, 59, 60, 75
"""ENUM_NSYS_EVENT_TYPE of NVTX events."""
MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}
"""ENUM_CUDA_MEM_KIND: one less than the numbers of CUPTI and nvprof."""
UNIFIED = (11, 12, 13)
COPY_KINDS = cupti.COPY_KINDS | dict(zip(UNIFIED, ("HtoD", "DtoH", "DtoD"), strict=True))
OPEN_RANGE = "a range did not end before the profile did: it has no duration"


def copy_name(kind: int) -> str:
    """Return the name of a copy, as nvprof and older versions of nsys print it."""
    memory = "CUDA Unified Memory" if kind in UNIFIED else "CUDA"
    return f"[{memory} memcpy {COPY_KINDS[kind]}]" if kind in COPY_KINDS else "[CUDA memcpy]"


def color(argb: int) -> str:
    """Return a color as NVTX writes it, `#FF00AA00`."""
    return f"#{argb & 0xFFFFFFFF:08X}"

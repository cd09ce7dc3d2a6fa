"""Names of AMD's asynchronous activity: the commands that HIP and HSA put on a device beside kernels.

Source: ROCm/clr `rocclr/platform/activity.cpp` (getOclCommandKindString), ROCm/rocprofiler `bin/tblextr.py`. rocprof,
roctracer and rocmProfileData pass these words on as names; the name of a kernel is its own.
"""

from __future__ import annotations

import re

from tracekit.model.schema import Kind

__all__ = ["DESCRIPTOR", "activity", "call_kind", "kernel_name"]

_COPY = re.compile(r"Copy(Host|Device)To(Host|Device)(?:2D|Rect|P2P)?", re.ASCII)
_COPIES = frozenset(
    {"async-copy", "CopyBuffer", "CopyBufferRect", "CopyImage", "CopyImageToBuffer", "CopyBufferToImage"}
)
_SYNCS = frozenset({"<barrier packet>", "Barrier", "Marker", "InternalMarker"})
DESCRIPTOR = r"(?: \[clone )?\.kd\]?$"
"""The ending that the descriptor of a kernel adds to its name, for Python and Arrow."""
_DESCRIPTOR = re.compile(DESCRIPTOR, re.ASCII)
_OTHERS = frozenset({"Unknown command type", "Task"})


def kernel_name(text: str) -> str:
    """Return the name of a kernel without the ending of its descriptor.

    >>> kernel_name("scale(float*) [clone .kd]")
    'scale(float*)'
    """
    return _DESCRIPTOR.sub("", text)


def activity(name: str) -> tuple[Kind, str | None] | None:
    """Return kind and direction of a command with this name, None for the name of a kernel.

    >>> activity("CopyHostToDevice")
    (<Kind.MEMCPY: 'memcpy'>, 'HtoD')
    """
    if (copy := _COPY.fullmatch(name)) is not None:
        return Kind.MEMCPY, f"{copy[1][0]}to{copy[2][0]}"
    if name in _COPIES:
        return Kind.MEMCPY, None
    if name == "FillBuffer":
        return Kind.MEMSET, None
    if name in _SYNCS:
        return Kind.SYNC, None
    return (Kind.OTHER, None) if name in _OTHERS else None


def call_kind(name: str) -> Kind | None:
    """Return the kind of a call of HIP (`__hipPushCallConfiguration` too) or of HSA, None for another name."""
    if name.startswith(("hip", "__hip")):
        return Kind.RUNTIME
    return Kind.DRIVER if name.startswith("hsa_") else None

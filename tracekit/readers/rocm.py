"""Names of AMD's asynchronous activity: the commands that HIP and HSA put on a device beside kernels.

Source: ROCm/clr `rocclr/platform/activity.cpp` (getOclCommandKindString), ROCm/rocprofiler `bin/tblextr.py`. rocprof,
roctracer and rocmProfileData pass these words on as names; the name of a kernel is its own.
"""

from __future__ import annotations

import re

from tracekit.model.schema import Kind

__all__ = ["DESCRIPTOR", "activity", "call_kind", "kernel_name"]

_COPY = re.compile(r"Copy(Host|Device)To(Host|Device)(?:2D|Rect|P2P)?", re.ASCII)
_KINDS = {
    **dict.fromkeys(
        ("async-copy", "CopyBuffer", "CopyBufferRect", "CopyImage", "CopyImageToBuffer", "CopyBufferToImage"),
        Kind.MEMCPY,
    ),
    "FillBuffer": Kind.MEMSET,
    **dict.fromkeys(("<barrier packet>", "Barrier", "Marker", "InternalMarker"), Kind.SYNC),
    **dict.fromkeys(("Unknown command type", "Task"), Kind.OTHER),
}
"""Commands whose names say no direction."""
DESCRIPTOR = r"(?: \[clone )?\.kd\]?$"
"""The ending that the descriptor of a kernel adds to its name, for Python and Arrow."""
_DESCRIPTOR = re.compile(DESCRIPTOR, re.ASCII)


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
    if name.startswith("Copy") and (copy := _COPY.fullmatch(name)) is not None:
        return Kind.MEMCPY, f"{copy[1][0]}to{copy[2][0]}"
    kind = _KINDS.get(name)
    return None if kind is None else (kind, None)


def call_kind(name: str) -> Kind | None:
    """Return the kind of a call of HIP (`__hipPushCallConfiguration` too) or of HSA, None for another name."""
    if name.startswith(("hip", "__hip")):
        return Kind.RUNTIME
    return Kind.DRIVER if name.startswith("hsa_") else None

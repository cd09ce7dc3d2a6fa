"""Kinds of event types, for the readers of both exports of paddle.profiler: JSON and protobuf.

Source: TracerEventType in trace_event.h of Paddle 2.2 to 3.3, as both exports of the same runs have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tracekit.schema import Kind

KIND_OF_TYPE: Mapping[str, Kind] = MappingProxyType(
    {
        "Operator": Kind.OPERATOR,
        "Dataloader": Kind.DATALOADER,
        "ProfileStep": Kind.STEP,
        "CudaRuntime": Kind.RUNTIME,
        "Kernel": Kind.KERNEL,
        "Memcpy": Kind.MEMCPY,
        "Memset": Kind.MEMSET,
        "UserDefined": Kind.USER_RANGE_NATIVE,
        "OperatorInner": Kind.OPERATOR_INNER,
        "Forward": Kind.FORWARD,
        "Backward": Kind.BACKWARD,
        "Optimization": Kind.OPTIMIZER,
        "Communication": Kind.COMMUNICATION,
        "PythonOp": Kind.PYTHON_OP,
        "PythonUserDefined": Kind.USER_RANGE,
        "DygraphKernelLaunch": Kind.OPERATOR_INNER,
        "StaticKernelLaunch": Kind.OPERATOR_INNER,
        "MluRuntime": Kind.RUNTIME,
        "Allocate": Kind.MEMORY,
        "Free": Kind.MEMORY,
        "ReservedAllocate": Kind.MEMORY,
        "ReservedFree": Kind.MEMORY,
    }
)
"""The type (in JSON the `cat`) of an event to its kind. The name of a memory row is its type."""


LAUNCHES = frozenset({"DygraphKernelLaunch", "StaticKernelLaunch"})
"""Types that share a kind with another one; their rows keep the type in `args`."""


def step_number(name: str) -> int | None:
    """Return the number of a step from its name, None if it has none.

    >>> step_number("ProfileStep#12")
    12
    """
    digits = name.rpartition("#")[2]
    return int(digits) if name.startswith("ProfileStep#") and digits.isdecimal() and len(digits) < 10 else None


def copy_kind(text: str) -> str | None:
    """Return the direction of a copy in the words of other formats: Paddle writes `MEMCPY_HtoD`."""
    return text.removeprefix("MEMCPY_") or None

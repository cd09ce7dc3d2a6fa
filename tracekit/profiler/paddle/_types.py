"""Types of Paddle's events, with Paddle's numbers."""

from __future__ import annotations

from enum import Enum


class TracerEventType(Enum):
    """Type of a range, a call or the work of a device."""

    Operator = 0
    Dataloader = 1
    ProfileStep = 2
    CudaRuntime = 3
    Kernel = 4
    Memcpy = 5
    Memset = 6
    UserDefined = 7
    OperatorInner = 8
    Forward = 9
    Backward = 10
    Optimization = 11
    Communication = 12
    PythonOp = 13
    PythonUserDefined = 14
    DygraphKernelLaunch = 15
    StaticKernelLaunch = 16


class TracerMemEventType(Enum):
    """Type of a memory event."""

    Allocate = 0
    Free = 1
    ReservedAllocate = 2
    ReservedFree = 3

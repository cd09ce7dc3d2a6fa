"""Kinds of the rows of PyTorch's tables, by their names: the tables do not say what a row is."""

from __future__ import annotations

import re

from tracekit.readers.torch_ranges import range_of
from tracekit.schema import Kind

CUT = "..."
"""The end of a name that PyTorch cut."""
_WHOLE = (
    *("ProfilerStep*", "Lazy Function Loading", "Runtime Triggered Module Loading", "Command Buffer Full"),
    "record_param_comms",
)
_FEWEST = 6
"""Characters of a cut name that show which of these it was."""
_RUNTIME = re.compile(r"(?:cuda|hip|xpu|ze|ur|mtia|acl)[A-Z]\w*")
_DRIVER = re.compile(r"cu[A-Z]\w+")
_OVERHEAD = re.compile(
    r"Activity Buffer \w+|Lazy Function Loading|Runtime Triggered Module Loading|Command Buffer Full"
)
_PYTHON = re.compile(r"nn\.Module: .+|<built-in .+|.+\(\d+\): .+")
_COMMUNICATION = re.compile(r"record_param_comms|c10d::.*|(?:nccl|gloo|mpi|ucc|hccl|xccl):.*")
_OPERATOR = re.compile(r"\w+(?:::\w+)+(?:\.\w+)?|autograd::.*|.*Backward\d*|XPU Triton kernel:.*|triton_\w+")
_COMPILED = re.compile(r"triton_.*|void .*|.*<.*|.*::.*\(.*")
_KERNEL = re.compile(r"void .*|.*[<(].*|.*(?:kernel|gemm|conv_|_[nt]{2}\b).*", re.IGNORECASE)


def host_kind(name: str, *, old: bool) -> Kind:
    """Return the kind of a row with time on the host. old: operators have no namespace.

    >>> host_kind("aten::mm", old=False), host_kind("cudaLaunchKernel", old=False)
    (<Kind.OPERATOR: 'operator'>, <Kind.RUNTIME: 'runtime'>)
    >>> host_kind("cudaLaunchKern...", old=False)
    <Kind.RUNTIME: 'runtime'>
    """
    if name.endswith(CUT):
        name = name.removesuffix(CUT)
        if whole := next((each for each in _WHOLE if len(name) >= _FEWEST and each.startswith(name)), ""):
            name = whole
    if name == "ProfilerStep*":
        return Kind.STEP
    if name == "[memory]":
        return Kind.OTHER
    for pattern, kind in (
        (_PYTHON, Kind.PYTHON_OP),
        (_RUNTIME, Kind.RUNTIME),
        (_DRIVER, Kind.DRIVER),
        (_OVERHEAD, Kind.OVERHEAD),
        (_COMMUNICATION, Kind.COMMUNICATION),
        (_OPERATOR, Kind.OPERATOR),
    ):
        if pattern.fullmatch(name):
            return kind
    found = range_of(name, recorded=True, numbered=False).kind
    return Kind.OPERATOR if old and found is Kind.USER_RANGE else found


def is_kernel(name: str) -> bool:
    """Return whether a name is of a kernel, whoever else has it.

    The kernels of torch.compile have the names of the operators that launch them.
    """
    return _COMPILED.fullmatch(name) is not None


def device_kind(name: str) -> Kind:
    """Return the kind of a row with time on a device alone."""
    start = name[:6].lower()
    return Kind.MEMCPY if start == "memcpy" else Kind.MEMSET if start == "memset" else Kind.KERNEL


def looks_like_device_work(name: str) -> bool:
    """Return whether a name is of a kernel or copy, as far as one can say without the times on the host."""
    is_host = _OPERATOR.fullmatch(name) or host_kind(name, old=False) is not Kind.USER_RANGE
    return not is_host and (device_kind(name) is not Kind.KERNEL or _KERNEL.fullmatch(name) is not None)

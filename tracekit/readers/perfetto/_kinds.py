"""Kinds of slices by category and name."""

from __future__ import annotations

import re

from tracekit.schema import Kind

_BY_CATEGORY = {
    "hip_api": Kind.RUNTIME,
    "hip_runtime_api": Kind.RUNTIME,
    "hip_compiler_api": Kind.RUNTIME,
    "hsa_api": Kind.DRIVER,
    "rccl_api": Kind.COMMUNICATION,
    "kernel_dispatch": Kind.KERNEL,
    "memory_copy": Kind.MEMCPY,
}
"""Categories of rocprofv3 and, with "rocm_" before them, of rocprof-sys."""
DEVICE_CATEGORIES = frozenset({"kernel_dispatch", "memory_copy", "rocm_kernel_dispatch", "rocm_memory_copy"})
_COPY = re.compile(r"(?:.*_)?(HOST|DEVICE)_TO_(HOST|DEVICE)", re.ASCII)


def slice_kind(category: str, name: str) -> tuple[Kind, str | None]:
    """Return the kind of a slice, and the direction of a copy.

    >>> slice_kind("memory_copy", "MEMORY_COPY_HOST_TO_DEVICE")
    (<Kind.MEMCPY: 'memcpy'>, 'HtoD')
    """
    kind = _BY_CATEGORY.get(category.removeprefix("rocm_"), Kind.USER_RANGE)
    if kind is Kind.MEMCPY and (copy := _COPY.fullmatch(name)):
        return kind, f"{copy[1][0]}to{copy[2][0]}"
    return kind, None
